// SPDX-License-Identifier: Apache-2.0
//! The job table: the containers below beer-jobs.slice, each at a place that stays its own.

use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kernfs::cgroup::Children;
use policy::{Hold, JobSet};

/// podman keeps its monitor of a container beside it in the slice: no job, and it must not be blamed as one.
pub const MONITOR: &str = "libpod-conmon-";
/// What its containers, and all that is podman's, are called.
const PODMAN: &str = "libpod-";

/// One job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its cgroup below the slice.
    pub scope: String,
    /// Inode of the cgroup: one that is made anew under the same name is another job.
    pub number: u64,
    seen: bool,
}

/// All jobs.
pub struct JobTable {
    slice: PathBuf,
    children: Children,
    places: Vec<Option<Job>>,
    /// The places that are taken. Jobs lie far apart in memory, and this is asked several times a tick.
    living: JobSet,
    oldest_first: Vec<usize>,
    /// Left by jobs that have ended while somebody stood still: whoever came there would be taken for them.
    resting: JobSet,
    /// Jobs for which there was no place.
    beyond: u32,
    /// podman's monitors, and containers that they could be of.
    monitors: u32,
    monitored: u32,
    /// When it was last looked (CLOCK_MONOTONIC).
    looked_ns: u64,
    version: u64,
    fault: bool,
}

/// No more cgroups than this are listed: a node has some hundred, and this is the control loop.
const LISTED_MOST: usize = 2048;

/// More jobs than places: nobody is blamed then, and to list them all takes longer than all else that a tick does. So it is
/// done so seldom.
const SELDOM_NS: u64 = 1_000_000_000;

impl JobTable {
    /// Empty until the first [`Self::look`].
    pub fn new(slice: impl Into<PathBuf>) -> Self {
        let slice = slice.into();
        JobTable {
            children: Children::new(&slice),
            slice,
            places: Vec::new(),
            living: JobSet::default(),
            oldest_first: Vec::new(),
            resting: JobSet::default(),
            beyond: 0,
            monitors: 0,
            monitored: 0,
            looked_ns: 0,
            version: 0,
            fault: false,
        }
    }

    /// The same, unless it was done at this tick already, or takes too long for that.
    pub fn look_again(&mut self, held: bool, limited: &JobSet, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.looked_ns);
        if passed_ns > 0 && (self.beyond == 0 || passed_ns >= SELDOM_NS) {
            self.looked_ns = now_ns;
            self.look(held, limited);
        }
    }

    /// Who is there now. `held` = somebody stands still; `limited` = who is limited. Allocates only for jobs that are new.
    pub fn look(&mut self, held: bool, limited: &JobSet) {
        if !held {
            // The ladder forgets at its next step that somebody there was limited.
            self.resting = self.resting.and(limited);
        }
        let before = self.version;
        self.places.iter_mut().flatten().for_each(|job| job.seen = false);
        let (places, resting, version) = (&mut self.places, &self.resting, &mut self.version);
        let (known, mut full) = (&self.oldest_first, false);
        let (mut beyond, mut listed) = (0, 0);
        let (mut monitors, mut monitored) = (0, 0);
        let outcome = self.children.each(|name, number| {
            listed += 1;
            if listed > LISTED_MOST {
                beyond += 1;
                return ControlFlow::Break(());
            }
            if name.starts_with(MONITOR) {
                monitors += 1;
                return ControlFlow::Continue(());
            }
            monitored += u32::from(name.starts_with(PODMAN));
            // There may be ten thousand, and this is the control loop: neither known ones nor free places are looked for one by one.
            let number_of = |place: &usize| places.get(*place)?.as_ref().map(|job| job.number);
            let at = known.binary_search_by_key(&Some(number), number_of).ok().and_then(|at| known.get(at));
            let job = at.and_then(|place| places.get_mut(*place)?.as_mut());
            if let Some(job) = job.filter(|job| job.scope == name) {
                job.seen = true;
                return ControlFlow::Continue(());
            }
            let free = |&place: &usize| places.get(place).is_none_or(Option::is_none) && !resting.contains(place);
            let place = if full { None } else { (0..JobSet::PLACES).find(free) };
            let Some(place) = place else {
                full = true;
                beyond += 1;
                return ControlFlow::Continue(());
            };
            if places.len() <= place {
                places.resize(place + 1, None);
            }
            places[place] = Some(Job { scope: name.to_owned(), number, seen: true });
            *version += 1;
            ControlFlow::Continue(())
        });
        self.fault = outcome.is_err();
        // Otherwise it is not known who is there: who was, is.
        if !self.fault {
            (self.beyond, self.monitors, self.monitored) = (beyond, monitors, monitored);
            if listed > LISTED_MOST {
                self.look_for_unseen();
            }
            self.forget_unseen(held, limited);
        }
        if self.version != before {
            let places = &self.places;
            self.oldest_first.clear();
            self.oldest_first.extend((0..places.len()).filter(|place| places[*place].is_some()));
            self.oldest_first.sort_unstable_by_key(|place| places[*place].as_ref().map(|job| job.number));
            self.living = self.oldest_first.iter().copied().collect();
        }
    }

    /// Those that were not listed may be behind the last one that was.
    fn look_for_unseen(&mut self) {
        for job in self.places.iter_mut().flatten().filter(|job| !job.seen) {
            job.seen = std::fs::metadata(self.slice.join(&job.scope)).is_ok_and(|found| found.ino() == job.number);
        }
    }

    fn forget_unseen(&mut self, held: bool, limited: &JobSet) {
        for (place, slot) in self.places.iter_mut().enumerate() {
            if slot.take_if(|job| !job.seen).is_some() {
                self.version += 1;
                if held || limited.contains(place) {
                    self.resting.insert(place);
                }
            }
        }
    }

    /// The folder of the slice.
    pub fn slice(&self) -> &Path {
        &self.slice
    }

    /// Those that are there, with their places.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Job)> {
        self.places.iter().enumerate().filter_map(|(place, job)| Some((place, job.as_ref()?)))
    }

    /// Their places, who began first before all others: the kernel numbers cgroups in the order in which they are made.
    pub fn oldest_first(&self) -> &[usize] {
        &self.oldest_first
    }

    /// The same as a set.
    pub fn living(&self) -> JobSet {
        self.living
    }

    /// How many there are, with or without a place.
    pub fn count(&self) -> u32 {
        self.beyond.saturating_add(self.living.len() as u32)
    }

    /// Are there monitors of containers in the slice, which would stand still with it?
    pub fn monitored(&self) -> bool {
        self.monitors > 0
    }

    /// Has a container ended, and its monitor does not know it yet? Or it has just begun, and its container comes.
    pub fn bereft(&self) -> bool {
        self.monitors > self.monitored
    }

    /// The same, but so that monitors run on: what ends in a slice that stands still they cannot see, and podman, which waits for
    /// them, ends nothing there. A container that begins now is seen within a second. With more jobs than places it stays as it is.
    pub fn sparing_monitors(&self, hold: Hold) -> Hold {
        let all = hold == Hold::All && self.monitored() && self.complete();
        Some(self.living()).filter(|living| all && !living.is_empty()).map_or(hold, Hold::Jobs)
    }

    /// Could they be listed?
    pub fn listed(&self) -> bool {
        !self.fault
    }

    /// Could all be listed, and has each a place?
    pub fn complete(&self) -> bool {
        !self.fault && self.beyond == 0
    }

    /// Changes with every job that comes or goes.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Their names by place, for another thread.
    pub fn names(&self) -> Arc<[Option<Box<str>>]> {
        self.places.iter().map(|job| job.as_ref().map(|job| job.scope.as_str().into())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Slice {
        folder: tempfile::TempDir,
        table: JobTable,
    }

    impl Slice {
        fn with(jobs: &[&str]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let table = JobTable::new(folder.path());
            let mut slice = Slice { folder, table };
            jobs.iter().for_each(|job| slice.begin(job));
            slice.table.look(false, &JobSet::default());
            slice
        }

        fn begin(&mut self, job: &str) {
            std::fs::create_dir(self.folder.path().join(job)).unwrap();
        }

        fn end(&mut self, job: &str) {
            std::fs::remove_dir(self.folder.path().join(job)).unwrap();
        }

        fn place(&self, job: &str) -> Option<usize> {
            self.table.iter().find(|(_, known)| known.scope == job).map(|(place, _)| place)
        }
    }

    #[test]
    fn jobs_come_and_go_and_keep_their_places() {
        let mut slice = Slice::with(&["docker-a.scope", "docker-b.scope", "libpod-conmon-c.scope"]);
        assert_eq!((slice.table.count(), slice.table.complete()), (2, true));
        let (b, version) = (slice.place("docker-b.scope").unwrap(), slice.table.version());
        slice.table.look(false, &JobSet::default());
        assert_eq!(slice.table.version(), version, "nothing new");
        slice.end("docker-a.scope");
        slice.begin("libpod-d.scope");
        slice.table.look(false, &JobSet::default());
        assert_eq!((slice.table.count(), slice.place("docker-b.scope")), (2, Some(b)));
        let numbers = |table: &JobTable| -> Vec<u64> {
            let number = |place: &usize| table.places[*place].as_ref().unwrap().number;
            table.oldest_first().iter().map(number).collect()
        };
        assert!(numbers(&slice.table).is_sorted() && numbers(&slice.table).len() == 2);
        assert!(slice.table.version() > version);
        assert_eq!(slice.table.names().iter().flatten().count(), 2);
    }

    #[test]
    fn a_place_is_not_given_away_while_somebody_stands_still() {
        let mut slice = Slice::with(&["a.scope", "b.scope"]);
        let held: JobSet = slice.place("a.scope").into_iter().collect();
        slice.end("a.scope");
        slice.table.look(true, &JobSet::default());
        slice.begin("c.scope");
        slice.table.look(true, &JobSet::default());
        assert!(!held.contains(slice.place("c.scope").unwrap()));
        // Not even to one that came in the moment in which the other went.
        slice.end("b.scope");
        slice.begin("d.scope");
        slice.table.look(true, &JobSet::default());
        assert!(!held.contains(slice.place("d.scope").unwrap()));
        slice.table.look(false, &JobSet::default());
        for job in ["e.scope", "f.scope"] {
            slice.begin(job);
            slice.table.look(false, &JobSet::default());
        }
        assert!(slice.table.living().and(&held) == held, "and afterwards it is");
    }

    #[test]
    fn nobody_comes_to_the_place_of_one_who_was_limited_before_that_is_forgotten() {
        let mut slice = Slice::with(&["a.scope", "b.scope"]);
        let place = slice.place("a.scope").unwrap();
        let limited: JobSet = [place].into_iter().collect();
        slice.end("a.scope");
        slice.table.look(false, &limited);
        slice.begin("c.scope");
        slice.table.look(false, &limited);
        assert!(slice.place("c.scope").is_some_and(|other| other != place));
        slice.begin("d.scope");
        slice.table.look(false, &JobSet::default());
        assert_eq!(slice.place("d.scope"), Some(place));
    }

    #[test]
    fn a_scope_that_is_made_anew_is_another_job() {
        let mut slice = Slice::with(&["a.scope"]);
        let before = slice.table.iter().next().unwrap().1.number;
        // The old folder stays for the moment, so that the number is not used again at once.
        std::fs::rename(slice.folder.path().join("a.scope"), slice.folder.path().join("old.scope")).unwrap();
        slice.begin("a.scope");
        slice.table.look(false, &JobSet::default());
        let after = slice.table.iter().find(|(_, job)| job.scope == "a.scope").unwrap().1.number;
        assert_ne!(before, after);
    }

    #[test]
    fn more_jobs_than_places_are_counted_and_told() {
        let names: Vec<String> = (0..JobSet::PLACES + 3).map(|number| format!("{number}.scope")).collect();
        let slice = Slice::with(&names.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!((slice.table.count() as usize, slice.table.complete()), (JobSet::PLACES + 3, false));
        assert_eq!(slice.table.living().len(), JobSet::PLACES);
    }

    #[test]
    fn monitors_run_on_where_all_jobs_stand_still_one_by_one() {
        let mut slice = Slice::with(&["libpod-a.scope", "docker-b.scope"]);
        assert!(!slice.table.monitored());
        assert_eq!(slice.table.sparing_monitors(Hold::All), Hold::All, "there are none");
        slice.begin("libpod-conmon-a.scope");
        slice.table.look(true, &JobSet::default());
        let both = Hold::Jobs(slice.table.living());
        assert_eq!((slice.table.sparing_monitors(Hold::All), slice.table.count()), (both, 2));
        assert!(!slice.table.bereft());
        let one = Hold::Jobs(slice.place("libpod-a.scope").into_iter().collect());
        assert_eq!(slice.table.sparing_monitors(one), one);
        assert_eq!(slice.table.sparing_monitors(Hold::Nobody), Hold::Nobody);
        slice.end("libpod-a.scope");
        slice.table.look(true, &JobSet::default());
        assert!(slice.table.bereft());
        slice.end("docker-b.scope");
        slice.table.look(true, &JobSet::default());
        assert_eq!(slice.table.sparing_monitors(Hold::All), Hold::All, "of nobody");
        for number in 0..=JobSet::PLACES {
            slice.begin(&format!("{number}.scope"));
        }
        slice.table.look(false, &JobSet::default());
        assert_eq!(slice.table.sparing_monitors(Hold::All), Hold::All, "not all of them have a place");
    }

    #[test]
    fn those_who_are_not_listed_among_too_many_are_known_all_the_same() {
        let mut slice = Slice::with(&[]);
        let names: Vec<_> = (0..LISTED_MOST + 1000).map(|number| format!("{number}.scope")).collect();
        names.iter().for_each(|job| slice.begin(job));
        // In whichever order they are listed, some of the last ones have places.
        for name in names.iter().step_by(LISTED_MOST / JobSet::PLACES + 3).take(JobSet::PLACES) {
            let number = std::fs::metadata(slice.folder.path().join(name)).unwrap().ino();
            slice.table.places.push(Some(Job { scope: name.clone(), number, seen: false }));
        }
        let known: JobSet = (0..slice.table.places.len()).collect();
        slice.table.living = known;
        slice.table.look(false, &JobSet::default());
        assert_eq!((known.and(&slice.table.living()), slice.table.complete()), (known, false));
        let count = slice.table.count() as usize;
        assert!(count > JobSet::PLACES && count < names.len(), "{count}: as many as were listed");
        names.iter().for_each(|job| slice.end(job));
        slice.table.look(false, &JobSet::default());
        assert_eq!((slice.table.count(), slice.table.complete()), (0, true));
    }

    #[test]
    fn it_is_looked_once_at_a_tick_and_seldom_where_there_are_too_many() {
        let mut slice = Slice::with(&[]);
        let mut count = |jobs: std::ops::Range<usize>, now_ns: u64| {
            jobs.for_each(|number| slice.begin(&format!("{number}.scope")));
            slice.table.look_again(false, &JobSet::default(), now_ns);
            slice.table.count() as usize
        };
        assert_eq!((count(0..1, 5), count(1..2, 5), count(0..0, 6)), (1, 1, 2));
        let many = JobSet::PLACES + 1;
        assert_eq!((count(2..many, 7), count(many..many + 1, 6 + SELDOM_NS)), (many, many));
        assert_eq!(count(0..0, 7 + SELDOM_NS), many + 1);
    }

    #[test]
    fn without_its_slice_there_are_none() {
        let mut table = JobTable::new("/nowhere/beer-jobs.slice");
        table.look(false, &JobSet::default());
        assert_eq!((table.count(), table.complete()), (0, true));
    }
}
