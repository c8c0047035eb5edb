// SPDX-License-Identifier: Apache-2.0
//! Who is limited on which disk: for what he did there, or because clients fill it; and who was before the evidence that there is.

use super::rest::Rest;
use super::view::About;
use super::Inputs;
use crate::bits::bit;
use crate::filled::Filled;
use crate::jobs::JobSet;
use crate::throttle::Throttles;
use intf::segment::layout::MAX_FILESYSTEMS;

#[derive(Clone, Debug)]
pub(super) struct Limits {
    /// Who is limited.
    pub throttles: Throttles,
    /// Who was before the evidence that there is.
    before: Option<Throttles>,
    /// Which disks clients fill.
    filled: Filled,
    /// Nobody is limited on a filesystem before that: the last time it did not help.
    free_until_ns: [u64; MAX_FILESYSTEMS],
}

impl Limits {
    pub fn new(now_ns: u64) -> Limits {
        Limits {
            throttles: Throttles::default(),
            before: None,
            filled: Filled::new(now_ns),
            free_until_ns: [0; MAX_FILESYSTEMS],
        }
    }

    /// Nobody is limited any more.
    pub fn end_all(&mut self) {
        (self.throttles, self.before) = (Throttles::default(), None);
    }

    /// The filesystems are others now.
    pub fn other_filesystems(&mut self) {
        self.end_all();
        self.filled = Filled::new(0);
    }

    /// What those who are limited do, and what clients get beside them.
    pub fn note(&mut self, inputs: &Inputs<'_>, rest: &Rest, step: f32, now_ns: u64) {
        self.filled.note(inputs.filesystems, inputs.rotational, inputs.batch_share_now, now_ns);
        let filled = self.filled.filesystems();
        self.throttles.of_living(&inputs.living, inputs.filesystems.len());
        self.throttles.note_use(inputs.used, |filesystem| rest.jobs_on(filesystem), now_ns);
        self.throttles.note_strain(inputs.filesystems, now_ns);
        self.throttles.give_way(filled, step, now_ns);
        self.filled.end_trials(!self.throttles.filesystems());
        if let Some(before) = &mut self.before {
            before.of_living(&inputs.living, inputs.filesystems.len());
            // Who is limited no more, for whatever reason, is not to be limited because he is innocent.
            before.keep_those_of(&self.throttles);
            before.give_way(filled, step, now_ns);
        }
    }

    /// Somebody is about to get less: if that turns out to be for nothing, it is to be as it was.
    pub fn before_less(&mut self) {
        self.before.get_or_insert(self.throttles);
    }

    /// What there was evidence of is over, or who is limited for it is so rightly.
    pub fn forget_before(&mut self) {
        self.before = None;
    }

    /// On these filesystems, bit by index, it is as it was before.
    pub fn give_back(&mut self, filesystems: u128) {
        self.throttles.give_back(filesystems, &self.before.unwrap_or_default());
    }

    /// These have made it slow: they start with a part of a `step`. `again` = who is limited already is so for this freeze, too.
    pub fn begin(&mut self, filesystem: u16, jobs: JobSet, again: bool, step: f32, now_ns: u64) {
        if !again && self.throttles.of(filesystem).is_some_and(|throttle| throttle.may_be(&jobs)) {
            // Limited already and slow once more: that was too much.
            self.throttles.halve(filesystem, step, now_ns);
        }
        // From here on it is for what they did.
        self.filled.end_trials(bit(filesystem.into()));
        self.throttles.begin(filesystem, jobs, step, now_ns);
    }

    /// May somebody be limited there?
    pub fn may_limit(&self, filesystem: u16, now_ns: u64) -> bool {
        self.free_until_ns.get(usize::from(filesystem)).is_none_or(|until_ns| now_ns >= *until_ns)
    }

    /// Limits do harm there: nobody is limited on it until then.
    pub fn give_up(&mut self, filesystem: u16, until_ns: u64) {
        self.end(filesystem);
        if let Some(free_until_ns) = self.free_until_ns.get_mut(usize::from(filesystem)) {
            *free_until_ns = until_ns;
        }
    }

    fn end(&mut self, filesystem: u16) {
        for throttles in self.before.iter_mut().chain([&mut self.throttles]) {
            throttles.end(filesystem);
        }
    }

    /// The filesystems on disks that clients fill, bit by index.
    pub fn filled(&self) -> u128 {
        self.filled.filesystems()
    }

    /// Clients fill the disks of these by themselves, as was seen while batch stood still.
    pub fn fill(&mut self, filesystems: u128) {
        self.filled.fill(filesystems);
    }

    /// How many requests are slow of those whose clients fill the disk.
    pub fn about(&self, filesystem: u16) -> About {
        About::filled(filesystem, self.filled.slow(filesystem))
    }

    /// May batch be asked to make way there?
    pub fn may_ask(&self, filesystem: u16, now_ns: u64) -> bool {
        let room = self.throttles.has_room(filesystem) && self.filled.may_ask(filesystem, now_ns);
        room && self.may_limit(filesystem, now_ns)
    }

    /// Clients fill the disk, and these do this part of its work: until it has room again they get next to nothing. That is so whoever
    /// is guilty of what.
    pub fn make_way(&mut self, filesystem: u16, jobs: JobSet, part: f32, step: f32, now_ns: u64) {
        if self.throttles.of(filesystem).is_none() {
            self.filled.make_way(filesystem, part, now_ns);
        }
        let filled = self.filled.filesystems();
        for throttles in self.before.iter_mut().chain([&mut self.throttles]) {
            throttles.make_way(filesystem, jobs, now_ns);
            throttles.give_way(filled, step, now_ns);
        }
    }

    /// Where clients had nothing of it: batch has its disk back, and is not asked again for a while.
    pub fn end_in_vain(&mut self, now_ns: u64) -> Option<u16> {
        let filesystem = self.filled.in_vain(now_ns)?;
        self.end(filesystem);
        Some(filesystem)
    }
}
