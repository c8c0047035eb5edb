// SPDX-License-Identifier: Apache-2.0
//! Has `io.weight` any effect on the disks of the storage service? Only with io.cost, or with BFQ (kernel, cgroup-v2.rst, "IO Interface
//! Files"; block/bfq-iosched.rst); else storage comes first there by what the guard does, and by nothing else.

use std::collections::BTreeMap;
use std::path::Path;

use intf::segment::{Filesystem, SegmentReader};
use policy::Config;

use crate::clock::Clock;
use crate::shared::Owner;
use crate::signals::disk_of;

/// One line for each kind of answer, with the disks that it is true of. Nothing without a storage daemon.
pub fn said(config: &Config, clock: &dyn Clock) -> Vec<String> {
    let owner = Owner::new(&config.latency.owner);
    let Some(id) = owner.resolve(Path::new("/etc/passwd")) else { return Vec::new() };
    let mut reader = SegmentReader::new(&config.latency.segment, id);
    if reader.poll(clock.monotonic_ns(), &mut ()).is_err() {
        return Vec::new();
    }
    lines(config, reader.filesystems())
}

fn lines(config: &Config, filesystems: &[Filesystem]) -> Vec<String> {
    let mut disks: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for filesystem in filesystems {
        let device = disk_of(&config.paths.proc, &config.paths.sys, filesystem);
        if let Some((name, answer)) = device.and_then(|device| of_disk(config, device)) {
            let names = disks.entry(answer).or_default();
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    disks.into_iter().map(|(answer, names)| format!("io.weight {answer}: {}", names.join(", "))).collect()
}

/// Name of a disk, and whether weights have an effect there.
fn of_disk(config: &Config, (major, minor): (u32, u32)) -> Option<(String, String)> {
    let folder = config.paths.sys.join(format!("dev/block/{major}:{minor}"));
    let name = std::fs::canonicalize(&folder).ok()?.file_name()?.to_string_lossy().into_owned();
    let text = std::fs::read_to_string(folder.join("queue/scheduler")).unwrap_or_default();
    // `none mq-deadline [bfq]`
    let chosen = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    let scheduler = chosen.unwrap_or("no scheduler");
    let cost = std::fs::read_to_string(config.paths.cgroup.join("io.cost.qos")).unwrap_or_default();
    let ours = format!("{major}:{minor} ");
    let cost = cost.lines().any(|line| line.starts_with(&ours) && line.split(' ').any(|word| word == "enable=1"));
    let answer = match (scheduler, cost) {
        (_, true) => "has an effect (io.cost)".into(),
        ("bfq", false) => "has an effect (bfq)".into(),
        (other, false) => format!("has no effect ({other}, without io.cost)"),
    };
    Some((name, answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_with_bfq_or_io_cost() {
        let folder = tempfile::tempdir().unwrap();
        let disk = |device: &str, name: &str, scheduler: &str| {
            let queue = folder.path().join("sys/devices").join(name).join("queue");
            std::fs::create_dir_all(&queue).unwrap();
            std::fs::write(queue.join("scheduler"), scheduler).unwrap();
            let links = folder.path().join("sys/dev/block");
            std::fs::create_dir_all(&links).unwrap();
            std::os::unix::fs::symlink(queue.parent().unwrap(), links.join(device)).unwrap();
        };
        disk("8:0", "sda", "none [mq-deadline] bfq\n");
        disk("8:16", "sdb", "[none] mq-deadline\n");
        disk("8:32", "sdc", "none [bfq]\n");
        disk("8:48", "sdd", "[mq-deadline] none\n");
        disk("8:64", "sde", "none [mq-deadline]\n");
        std::fs::write(
            folder.path().join("io.cost.qos"),
            "8:16 enable=1 ctrl=auto rpct=0.00\n8:48 enable=0 ctrl=auto\n",
        )
        .unwrap();
        let root = folder.path().display();
        let text = format!("[paths]\nsys = \"{root}/sys\"\ncgroup = \"{root}\"\nproc = \"{root}/proc\"\n");
        let config = Config::parse("test", &text).unwrap();
        let of = |minor| Filesystem {
            path: format!("/data/{minor}"),
            major: 8,
            minor,
            open_readers: 0,
            open_writers: 0,
            overloaded: false,
        };
        assert_eq!(
            lines(&config, &[of(0), of(0), of(16), of(32), of(48), of(64), of(80)]),
            [
                "io.weight has an effect (bfq): sdc",
                "io.weight has an effect (io.cost): sdb",
                "io.weight has no effect (mq-deadline, without io.cost): sda, sdd, sde",
            ]
        );
    }
}
