// SPDX-License-Identifier: Apache-2.0
//! What a tick costs: a synthetic segment of 96 filesystems, read and judged. Prints the median and the 99th percentile of 5000 ticks
//! for a busy node (every disk 100 requests/s) and a quiet one (2 requests/s).
//! `cargo run --release -p policy --example tick_cost [FOLDER]` (FOLDER on tmpfs, default /dev/shm)

use intf::segment::synthetic::SegmentWriter;
use intf::segment::{Kind, SegmentReader, SeriesId};
use policy::config::TICK_NS;
use policy::{Config, Evaluator, Inputs, Ladder, Signal};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const DISKS: u16 = 96;

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "/dev/shm".into()));
    let path = folder.join(format!("tick-cost.{}.lat", std::process::id()));
    for (name, per_tick) in [("busy", 2), ("quiet", 0)] {
        let (median, high) = measure(&path, per_tick)?;
        let share = median.as_nanos() as f64 / TICK_NS as f64 * 100.0;
        println!("{name}: median {median:?}, 99 % {high:?}, {share:.2} % of one core");
    }
    std::fs::remove_file(&path)
}

fn measure(path: &std::path::Path, per_tick: u64) -> std::io::Result<(Duration, Duration)> {
    let paths: Vec<String> = (0..DISKS).map(|i| format!("/data/{i:02}")).collect();
    let disks: Vec<(&str, u32, u32)> = (0..).zip(&paths).map(|(i, p)| (p.as_str(), 8, i)).collect();
    let mut writer = SegmentWriter::create(path, 1 + per_tick, &disks, 1024, 512)?;
    let config = Config::default();
    let mut reader = SegmentReader::new(path, owner(path)?);
    let mut evaluator = Evaluator::new(&config.objectives);
    let mut ladder = Ladder::new(config.ladder, TICK_NS);
    let mut times = Vec::new();
    let read = |disk| SeriesId { filesystem: disk, kind: Kind::STORAGE_READ };
    for tick in 1..=6000u64 {
        let now = tick * TICK_NS;
        for disk in 0..DISKS {
            let due = if per_tick > 0 { per_tick } else { u64::from((tick + u64::from(disk)) % 25 == 0) };
            for i in 0..due {
                writer.complete(read(disk), 6_000_000 + (tick * 37 + i * 911) % 4_000_000, 65536)?;
            }
            writer.begin(u32::from(disk), read(disk), now - 4_000_000, 65536, None)?;
        }
        writer.heartbeat(now)?;
        let start = Instant::now();
        evaluator.begin(now);
        let signal = match reader.poll(now, &mut evaluator) {
            Ok(poll) => Signal::Heard { heartbeat_age_ns: poll.heartbeat_age_ns },
            Err(error) => return Err(std::io::Error::other(error.to_string())),
        };
        evaluator.finish(now, signal, ladder.acting());
        let inputs = Inputs {
            verdicts: evaluator.verdicts(),
            filesystems: evaluator.filesystems(),
            rotational: u128::MAX,
            jobs: Some(64),
            self_check: true,
            ..Inputs::default()
        };
        ladder.step(&inputs, now);
        // The first ticks open the file and make the first tables.
        if tick > 1000 {
            times.push(start.elapsed());
        }
    }
    times.sort();
    Ok((times[2500], times[4950]))
}

/// The owner of the file, as the reader wants to know it.
fn owner(path: &std::path::Path) -> std::io::Result<u32> {
    use std::os::unix::fs::MetadataExt;
    Ok(std::fs::metadata(path)?.uid())
}
