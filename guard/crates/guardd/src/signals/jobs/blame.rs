// SPDX-License-Identifier: Apache-2.0
//! At the end of a spell: whose work was it, who is to blame if it was too much, and who goes on beside those who stand still?

use policy::jobs::guilty;
use policy::{Hold, JobSet};

use super::{sum, work, Jobs, Meter, Row, Spell};
use crate::signals::{Board, WORK_MIN};

/// Bytes alone say nothing: a few large requests are many of them beside a hog of small ones, and little time of a disk.
fn weight((requests, bytes): (f32, f32)) -> f32 {
    work(requests as u64, bytes as u64) as f32
}

/// What tells who is to blame: of a spell in which all stood still what was written, because all else was asked for before.
fn telling(row: &Row, filesystem: usize, spell: &Spell) -> Option<(f32, f32)> {
    match spell.still {
        true => row.meters.get(filesystem).map(Meter::written),
        false => row.lately(filesystem),
    }
}

impl Jobs {
    pub(super) fn blame(&mut self, board: &mut Board) {
        for filesystem in 0..self.spells.len() {
            let Some(&spell) = self.spells.get(filesystem).filter(|spell| spell.over) else { continue };
            let all = match spell.still {
                true => spell.whole.written(),
                false => sum(spell.whole.lately(), spell.through.lately()),
            };
            let enough = board.jobs.complete() && weight(all) >= WORK_MIN as f32;
            let workers = if enough { self.named(filesystem, &spell, all, 0.0) } else { None };
            if spell.still && workers.is_none() {
                // What was known before the freeze stays known: nobody does what he would do now.
                continue;
            }
            let set = workers.map(|workers| self.culprits(workers, filesystem, &spell, all, board));
            for (place, now) in [(&mut board.guilty, set), (&mut board.workers, workers)] {
                place.get_mut(filesystem).into_iter().for_each(|place| *place = now);
            }
            self.pace(workers.unwrap_or_default(), filesystem, &spell, board);
            self.beside(filesystem, &spell, board);
        }
    }

    /// Who did nearly all of it, or most of it if nobody were to blame for this part of it (0..1).
    fn named(&mut self, filesystem: usize, spell: &Spell, all: (f32, f32), spare: f32) -> Option<JobSet> {
        let (rows, scratch) = (&self.rows, &mut self.scratch);
        let mut by = |pick: fn((f32, f32)) -> f32| {
            scratch.clear();
            let done = |(place, row): (usize, &Option<Row>)| {
                let done = pick(telling(row.as_ref()?, filesystem, spell)?);
                (done > 0.0).then_some((place, done))
            };
            scratch.extend(rows.iter().enumerate().filter_map(done));
            guilty(scratch, pick(all), spare)
        };
        Some(by(|done| done.0)?.or(&by(weight)?))
    }

    /// Those of the workers without whom nobody would be to blame for what batch does there.
    fn culprits(
        &mut self,
        workers: JobSet,
        filesystem: usize,
        spell: &Spell,
        all: (f32, f32),
        board: &Board,
    ) -> JobSet {
        // Of the disk. A comparison with NaN is false: of a part that is not known nothing is too little.
        let part = board.batch_share_now.get(filesystem).copied().unwrap_or(f32::NAN);
        let set = self.named(filesystem, spell, all, self.share_guilty / part).unwrap_or(workers);
        // Beside those who are known to make it slow the others do so only if they do enough for it without them.
        let limited = u16::try_from(filesystem).ok().and_then(|filesystem| board.throttles.of(filesystem));
        let limited = limited.map_or(JobSet::default(), |throttle| throttle.jobs);
        let of = |place: usize| telling(self.rows.get(place)?.as_ref()?, filesystem, spell).map(weight);
        let theirs: f32 = limited.iter().filter_map(of).sum();
        let little = theirs > 0.0 && part * (1.0 - theirs / weight(all)) < self.share_guilty;
        Some(set.and(&limited)).filter(|few| little && !few.is_empty()).unwrap_or(set)
    }

    /// How fast do those go, and those who are limited: do they use it?
    fn pace(&self, workers: JobSet, filesystem: usize, spell: &Spell, board: &mut Board) {
        let Some(pace) = board.pace.get_mut(filesystem) else { return };
        if !spell.still {
            pace.daemon = spell.asked.rate(&spell.seconds);
        }
        pace.whole = spell.whole.rate(&spell.seconds).last;
        pace.jobs.clear();
        let rate = |place: usize| {
            let row = self.rows.get(place)?.as_ref()?;
            Some((row.number, row.meters.get(filesystem)?.rate(&spell.seconds)))
        };
        pace.jobs.extend(workers.or(&board.throttles.jobs()).iter().filter_map(rate));
    }

    /// In the last spell alone, without what those who stand still had asked for before: do others use it so much that they may be to blame?
    fn beside(&self, filesystem: usize, spell: &Spell, board: &mut Board) {
        let held = |place: usize| matches!(board.hold, Hold::Jobs(set) if set.contains(place));
        let theirs = self.rows.iter().enumerate().filter(|(place, _)| held(*place));
        let theirs: f32 = theirs.filter_map(|(_, row)| Some(weight(row.as_ref()?.last(filesystem)?))).sum();
        let all = weight(sum(spell.whole.recent[0], spell.through.recent[0]));
        let part = board.batch_share_now.get(filesystem).copied().unwrap_or(f32::NAN);
        let little = part * (1.0 - theirs / all) < self.share_guilty;
        if let Some(used) = board.others_use.get_mut(filesystem) {
            *used = all - theirs >= WORK_MIN as f32 && !little;
        }
        if let Some(work) = board.held_work.get_mut(filesystem) {
            *work = theirs >= WORK_MIN as f32;
        }
    }
}
