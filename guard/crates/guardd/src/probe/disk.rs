// SPDX-License-Identifier: Apache-2.0
//! Reads 4 KiB at a random place of some file, past the page cache: what a client's request for cold data costs the disk, at the
//! least. The file is one that is there, has been for a while, and is on the disk as a whole; nothing is ever written.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{self, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use policy::detector::trial::Random;

use super::{Outcome, Reader};

/// What is read. A multiple of all logical block sizes that there are.
const BLOCK: usize = 4096;
/// Smaller files may be in the inode, or a few blocks that some cache keeps.
const SIZE_MIN: u64 = 1 << 20;
/// What was written a moment ago may still be on its way to the disk: a direct read would wait for that, or cause it.
const AGE_MIN_S: i64 = 600;
/// Another file after so many reads.
const READS: u32 = 128;
/// A search looks at so many entries of a folder, and goes down so far.
const ENTRIES: usize = 256;
const DEPTH: usize = 12;
/// After so many searches without a file it is told.
const VAIN: u32 = 120;

/// A file, by its path below the mount point. It is not kept open: that would keep a file that is removed on the disk.
struct Chosen {
    path: PathBuf,
    reads: u32,
}

/// The reader of one filesystem.
pub struct DirectReader {
    root: PathBuf,
    chosen: Option<Chosen>,
    random: Random,
    buffer: Vec<u8>,
    /// Searches that found nothing since the last that did.
    vain: u32,
    /// Told once.
    told: bool,
}

/// Why a file is not for probing.
enum Unfit {
    /// Another may be.
    This,
    /// The disk failed.
    Disk,
    /// No file of this filesystem can be read past the cache.
    All,
}

impl From<Errno> for Unfit {
    fn from(error: Errno) -> Unfit {
        match error {
            Errno::IO | Errno::UCLEAN | Errno::BADMSG => Unfit::Disk,
            Errno::INVAL => Unfit::All,
            _ => Unfit::This,
        }
    }
}

impl DirectReader {
    /// Reads nothing yet; `seed` makes it choose otherwise than the next one.
    pub fn new(root: &Path, seed: u64) -> Self {
        let buffer = vec![0; 2 * BLOCK];
        DirectReader { root: root.into(), chosen: None, random: Random::new(seed), buffer, vain: 0, told: false }
    }

    /// The mount point, if it is that: where a disk is not mounted its folder is on another one.
    fn mounted(&self, device: (u32, u32)) -> Result<OwnedFd, Unfit> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = fs::open(&self.root, flags, Mode::empty())?;
        let found = fs::fstat(&root)?.st_dev;
        match (fs::major(found), fs::minor(found)) == device {
            true => Ok(root),
            false => Err(Unfit::This),
        }
    }

    /// The first of so many.
    fn below(&mut self, count: u64) -> u64 {
        ((self.random.uniform() * count as f64) as u64).min(count.saturating_sub(1))
    }

    fn read_chosen(&mut self, device: (u32, u32)) -> Result<u64, Unfit> {
        let Some(chosen) = &mut self.chosen else { return Err(Unfit::This) };
        chosen.reads += 1;
        let path = chosen.path.clone();
        let root = self.mounted(device)?;
        let file = beneath(&root, &path, OFlags::DIRECT)?;
        let blocks = fit(&file, now_s())?;
        let offset = self.below(blocks) * BLOCK as u64;
        let start = self.buffer.as_ptr().align_offset(BLOCK);
        let Some(buffer) = self.buffer.get_mut(start..start + BLOCK) else { return Err(Unfit::This) };
        Ok(rustix::io::pread(&file, buffer, offset)? as u64)
    }

    /// Goes down from the mount point, at random, to a file.
    fn search(&mut self, device: (u32, u32)) -> Result<PathBuf, Unfit> {
        let root = self.mounted(device)?;
        let mut path = PathBuf::from(".");
        for _ in 0..DEPTH {
            let folder = Dir::new(beneath(&root, &path, OFlags::DIRECTORY)?)?;
            let Some((name, kind)) = self.any_of(folder)? else { return Err(Unfit::This) };
            path.push(name);
            if kind == FileType::RegularFile {
                fit(&beneath(&root, &path, OFlags::DIRECT)?, now_s())?;
                return Ok(path);
            }
        }
        Err(Unfit::This)
    }

    fn any_of(&mut self, folder: Dir) -> Result<Option<(PathBuf, FileType)>, Unfit> {
        let mut any = None;
        let mut seen = 0;
        for entry in folder.take(ENTRIES) {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"."
                || name == b".."
                || !matches!(entry.file_type(), FileType::Directory | FileType::RegularFile)
            {
                continue;
            }
            seen += 1;
            // Each has the same chance, however many follow.
            if self.below(seen) == 0 {
                any = std::str::from_utf8(name).ok().map(|name| (PathBuf::from(name), entry.file_type()));
            }
        }
        Ok(any)
    }

    fn failed(&mut self, unfit: &Unfit) -> Outcome {
        match unfit {
            Unfit::Disk => return Outcome::Failed,
            Unfit::All => self.tell("it does not read past the page cache"),
            Unfit::This => {}
        }
        self.chosen = None;
        Outcome::Nothing
    }

    fn tell(&mut self, why: &str) {
        if !std::mem::replace(&mut self.told, true) {
            eprintln!("<4>{}: it is not probed: {why}", self.root.display());
        }
    }
}

impl Reader for DirectReader {
    fn ready(&self) -> bool {
        self.chosen.as_ref().is_some_and(|chosen| chosen.reads < READS)
    }

    fn read(&mut self, device: (u32, u32)) -> Outcome {
        if self.ready() {
            return match self.read_chosen(device) {
                Ok(bytes) => Outcome::Read(bytes),
                Err(unfit) => self.failed(&unfit),
            };
        }
        match self.search(device) {
            Ok(path) => {
                self.vain = 0;
                self.chosen = Some(Chosen { path, reads: 0 });
            }
            // The old one is better than none.
            Err(Unfit::This) if self.chosen.is_some() => self.chosen.iter_mut().for_each(|chosen| chosen.reads = 0),
            Err(unfit) => {
                self.vain += 1;
                if self.vain == VAIN {
                    self.tell(
                        "no file was found that can be read, has 1 MiB or more and has not changed for ten minutes",
                    );
                }
                return self.failed(&unfit);
            }
        }
        Outcome::Nothing
    }
}

/// Opens for reading what is below, on the same filesystem, and not behind a link: who may write there may put one anywhere. One
/// step at a time, because systemd forbids openat2 to who may not make set-user-ID files (RestrictSUIDSGID=).
fn beneath(root: &OwnedFd, path: &Path, last: OFlags) -> Result<OwnedFd, Unfit> {
    let device = fs::fstat(root)?.st_dev;
    let steps = || path.iter().filter(|step| *step != ".");
    let step = |from: &OwnedFd, name: &OsStr, flags: OFlags| {
        let opened = fs::openat(from, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        match fs::fstat(&opened)?.st_dev == device {
            true => Ok(opened),
            false => Err(Unfit::This),
        }
    };
    let down = OFlags::PATH | OFlags::DIRECTORY;
    let last = last | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut folder = step(root, OsStr::new("."), down)?;
    let count = steps().count();
    for (number, name) in (1..).zip(steps()) {
        if number == count {
            return step(&folder, name, last);
        }
        folder = step(&folder, name, down)?;
    }
    step(&folder, OsStr::new("."), last)
}

/// Is a file such that a read of any block of it is one of the disk? Of how many blocks.
fn fit(file: &OwnedFd, now_s: i64) -> Result<u64, Unfit> {
    let stat = fs::fstat(file)?;
    let size = u64::try_from(stat.st_size).unwrap_or_default();
    // A hole is not on the disk.
    let whole = u64::try_from(stat.st_blocks).unwrap_or_default().saturating_mul(512) >= size;
    let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let old = now_s.saturating_sub(stat.st_mtime) >= AGE_MIN_S;
    match regular && whole && old && size >= SIZE_MIN {
        true => Ok(size / BLOCK as u64),
        false => Err(Unfit::This),
    }
}

fn now_s() -> i64 {
    rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;
    use std::time::{Duration, SystemTime};

    /// On the disk of this checkout: a temporary folder may be memory.
    fn folder() -> tempfile::TempDir {
        let program = std::env::current_exe().unwrap();
        tempfile::tempdir_in(program.parent().unwrap()).unwrap()
    }

    fn write(path: &Path, bytes: usize, age_s: u64) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = File::create(path).unwrap();
        file.write_all(&vec![7; bytes]).unwrap();
        file.sync_all().unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age_s)).unwrap();
    }

    fn device(path: &Path) -> (u32, u32) {
        let device = fs::stat(path).unwrap().st_dev;
        (fs::major(device), fs::minor(device))
    }

    /// `None` = this filesystem does not do it.
    fn direct(folder: &Path) -> Option<()> {
        let probe = folder.join("direct");
        write(&probe, BLOCK, 0);
        let opened = fs::open(&probe, OFlags::RDONLY | OFlags::DIRECT, Mode::empty());
        std::fs::remove_file(&probe).unwrap();
        match opened {
            Ok(_) => Some(()),
            Err(error) => {
                eprintln!("skipped: {}: O_DIRECT: {error}", folder.display());
                None
            }
        }
    }

    fn found(reader: &mut DirectReader, device: (u32, u32)) -> bool {
        (0..200).any(|_| {
            let _ = reader.read(device);
            reader.ready()
        })
    }

    #[test]
    fn a_file_that_is_on_the_disk_is_found_and_read_and_no_other() {
        let folder = folder();
        let root = folder.path();
        let Some(()) = direct(root) else { return };
        write(&root.join("a/new"), 2 << 20, 60);
        write(&root.join("a/small"), 1000, 3600);
        let elsewhere = folder.path().with_extension("elsewhere");
        write(&elsewhere.join("far"), 2 << 20, 3600);
        std::os::unix::fs::symlink(&elsewhere, root.join("a/link")).unwrap();
        let sparse = File::create(root.join("a/sparse")).unwrap();
        sparse.set_len(64 << 20).unwrap();
        sparse.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
        let device = device(root);
        let mut reader = DirectReader::new(root, 1);
        assert!(!found(&mut reader, device), "{:?}", reader.chosen.map(|chosen| chosen.path));
        write(&root.join("b/c/d/good"), 2 << 20, 3600);
        assert!(found(&mut reader, device));
        assert_eq!(reader.chosen.as_ref().unwrap().path, Path::new("./b/c/d/good"));
        for _ in 0..20 {
            assert_eq!(reader.read(device), Outcome::Read(4096));
        }
        let start = reader.buffer.as_ptr().align_offset(BLOCK);
        assert!(reader.buffer[start..start + BLOCK].iter().all(|byte| *byte == 7));
        std::fs::remove_file(root.join("b/c/d/good")).unwrap();
        assert_eq!((reader.read(device), reader.ready()), (Outcome::Nothing, false), "it has gone");
        // A folder that has become a link since.
        write(&root.join("b/c/d/good"), 2 << 20, 3600);
        assert!(found(&mut reader, device));
        std::fs::remove_dir_all(root.join("b/c")).unwrap();
        std::fs::create_dir_all(elsewhere.join("d")).unwrap();
        std::fs::rename(elsewhere.join("far"), elsewhere.join("d/good")).unwrap();
        std::os::unix::fs::symlink(&elsewhere, root.join("b/c")).unwrap();
        assert_eq!((reader.read(device), reader.ready()), (Outcome::Nothing, false));
        std::fs::remove_dir_all(&elsewhere).unwrap();
    }

    #[test]
    fn the_read_reaches_the_disk_each_time() {
        let folder = folder();
        let Some(()) = direct(folder.path()) else { return };
        let device = device(folder.path());
        write(&folder.path().join("file"), 4 << 20, 3600);
        let mut reader = DirectReader::new(folder.path(), 1);
        assert!(found(&mut reader, device));
        let read_bytes = || {
            let text = std::fs::read_to_string("/proc/thread-self/io").unwrap_or_default();
            text.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse::<u64>().ok())
        };
        let Some(before) = read_bytes() else {
            eprintln!("skipped: no /proc/thread-self/io");
            return;
        };
        for _ in 0..50 {
            assert_eq!(reader.read(device), Outcome::Read(4096));
        }
        assert_eq!(read_bytes().unwrap() - before, 50 * 4096);
    }

    #[test]
    fn what_is_not_mounted_is_not_read() {
        let folder = folder();
        let Some(()) = direct(folder.path()) else { return };
        write(&folder.path().join("file"), 2 << 20, 3600);
        let (major, minor) = device(folder.path());
        let mut reader = DirectReader::new(folder.path(), 1);
        assert!(!found(&mut reader, (major, minor + 1)) && found(&mut reader, (major, minor)));
        assert_eq!(reader.read((major + 1, minor)), Outcome::Nothing);
    }

    #[test]
    fn another_file_is_chosen_after_a_while() {
        let folder = folder();
        let Some(()) = direct(folder.path()) else { return };
        let device = device(folder.path());
        for name in 0..8 {
            write(&folder.path().join(name.to_string()), 1 << 20, 3600);
        }
        let mut reader = DirectReader::new(folder.path(), 1);
        let mut files = std::collections::BTreeSet::new();
        for _ in 0..20 * READS {
            let _ = reader.read(device);
            files.extend(reader.chosen.iter().map(|chosen| chosen.path.clone()));
        }
        assert!(files.len() > 4, "{files:?}");
    }
}
