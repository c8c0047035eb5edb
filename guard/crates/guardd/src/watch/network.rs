// SPDX-License-Identifier: Apache-2.0
//! Use of the interface that storage clients come by, against its speed, and what jobs send and receive (their bridge). What
//! a job exchanges with the storage daemon of its own node passes the bridge and no wire: batch's share is the most it may be.

use kernfs::KernFile;
use policy::{Config, NetworkSignal};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use super::Source;
use crate::shared::Shared;

/// Bytes received and sent so far.
type Counters = [u64; 2];

/// An interface and where its use goes.
struct Link {
    name: String,
    gauges: [&'static str; 2],
    before: Option<Counters>,
}

impl Link {
    fn new(name: &str, gauges: [&'static str; 2]) -> Self {
        Link { name: name.into(), gauges, before: None }
    }

    /// What passed since the last look, in bytes.
    fn passed(&mut self, table: &str) -> Option<[f64; 2]> {
        let now = counters(table, &self.name);
        let before = std::mem::replace(&mut self.before, now)?;
        let now = now?;
        // An interface that was made anew counts from 0.
        Some([0, 1].map(|way| now[way].saturating_sub(before[way]) as f64))
    }
}

/// The source.
pub struct Network {
    table: KernFile,
    routes: KernFile,
    sys: PathBuf,
    /// As configured: empty = that of the default route, and as fast as it says itself.
    configured: NetworkSignal,
    wire: Link,
    bridge: Link,
    looks: u32,
    looked_ns: u64,
    /// Bytes per second.
    speed: Option<f64>,
}

/// Routes and speeds change seldom.
const BELIEVED: u32 = 60;
/// That of Docker.
const BRIDGE: &str = "docker0";

impl Network {
    /// Opens nothing yet.
    pub fn new(config: &Config) -> Self {
        Network {
            table: KernFile::new(config.paths.proc.join("net/dev")),
            routes: KernFile::new(config.paths.proc.join("net/route")),
            sys: config.paths.sys.join("class/net"),
            configured: config.network.clone(),
            wire: Link::new(&config.network.interface, ["network.receive", "network.transmit"]),
            // What the bridge sends is what jobs receive.
            bridge: Link::new(BRIDGE, ["network.batch.transmit", "network.batch.receive"]),
            looks: 0,
            looked_ns: 0,
            speed: None,
        }
    }

    /// Which interface, and how fast it is.
    fn find(&mut self) {
        let routes = self.routes.read().ok().flatten();
        let name = match self.configured.interface.as_str() {
            "" => routes.and_then(default_route).unwrap_or_default(),
            name => name,
        };
        if name != self.wire.name {
            self.wire = Link::new(name, self.wire.gauges);
        }
        // A virtual one has none, and says -1 or refuses to be read.
        let speed = KernFile::new(self.sys.join(name).join("speed"))
            .read()
            .ok()
            .flatten()
            .map(str::trim)
            .and_then(|megabits| megabits.parse::<f64>().ok());
        let speed = speed.filter(|megabits| *megabits > 0.0 && !name.is_empty()).map(|megabits| megabits * 1e6 / 8.0);
        self.speed = self.configured.speed.map(|bytes| bytes as f64).or(speed);
    }
}

/// How fast the storage interface is, in bytes per second, as configured or as it says.
pub(crate) fn speed(config: &Config) -> Option<f64> {
    let mut network = Network::new(config);
    network.find();
    network.speed
}

impl Source for Network {
    fn read(&mut self, now_ns: u64, shared: &Shared) {
        if self.looks == 0 {
            self.find();
            shared.wire_speed.store(self.speed.unwrap_or_default() as u64, Ordering::Relaxed);
        }
        self.looks = (self.looks + 1) % BELIEVED;
        let seconds = now_ns.saturating_sub(std::mem::replace(&mut self.looked_ns, now_ns)) as f64 / 1e9;
        let table = match self.table.read() {
            Ok(table) => table.unwrap_or_default(),
            Err(error) => {
                let gauges = [&self.wire, &self.bridge].into_iter().flat_map(|link| link.gauges);
                return gauges.for_each(|gauge| shared.gauges.fail(gauge, &error));
            }
        };
        for link in [&mut self.wire, &mut self.bridge] {
            let passed = link.passed(table);
            for (way, gauge) in link.gauges.into_iter().enumerate() {
                let Some(speed) = self.speed.filter(|_| link.before.is_some()) else {
                    shared.gauges.put(gauge, None, now_ns);
                    continue;
                };
                if let Some(passed) = passed.filter(|_| seconds > 0.0) {
                    shared.gauges.put(gauge, Some(passed[way] / seconds / speed), now_ns);
                }
            }
        }
    }
}

/// Of /proc/net/dev: two lines of headings, then `name: 8 numbers of what was received, 8 of what was sent`.
fn counters(table: &str, name: &str) -> Option<Counters> {
    let numbers = table.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    let mut numbers = numbers.split_ascii_whitespace();
    Some([numbers.next()?.parse().ok()?, numbers.nth(7)?.parse().ok()?])
}

/// Of /proc/net/route: the interface of the default route with the least metric.
fn default_route(table: &str) -> Option<&str> {
    let routes = table.lines().skip(1).filter_map(|line| {
        let mut columns = line.split_ascii_whitespace();
        let (name, destination) = (columns.next()?, columns.next()?);
        let (metric, mask) = (columns.nth(4)?.parse::<u32>().ok()?, columns.next()?);
        (destination == "00000000" && mask == "00000000").then_some((metric, name))
    });
    routes.min().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::gauge::{source_of, Reading};
    use std::path::Path;

    const ROUTES: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
        wlan0\t00000000\t0102000A\t0003\t0\t0\t600\t00000000\t0\t0\t0\n\
        eth0\t00000000\t0202000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
        docker0\t0000640A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n";

    fn table(eth0: Counters, docker0: Counters) -> String {
        let line =
            |name, [received, sent]: Counters| format!("{name:>6}: {received} 7 0 0 0 0 0 0 {sent} 9 0 0 0 0 0 0\n");
        let heading = "Inter-|   Receive |  Transmit\n face |bytes packets|bytes packets\n";
        format!("{heading}{}{}{}", line("lo", [5, 5]), line("eth0", eth0), line("docker0", docker0))
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn whatever_the_tables_say(
            pieces in proptest::collection::vec(proptest::sample::select(vec![
                "eth0", "docker0", ":", " ", "\t", "\n", "0", "00000000", "18446744073709551616", "-1", "lo", "é",
            ]), 0..60),
        ) {
            let table = pieces.concat();
            assert!(["eth0", ""].map(|name| counters(&table, name)).iter().all(|found| found.is_none() || table.contains(':')));
            assert!(default_route(&table).is_none_or(|name| table.contains(name)));
        }
    }

    fn node(folder: &Path) -> Network {
        for place in ["proc/net", "sys/class/net/eth0", "sys/class/net/eth01"] {
            std::fs::create_dir_all(folder.join(place)).unwrap();
        }
        std::fs::write(folder.join("proc/net/route"), ROUTES).unwrap();
        std::fs::write(folder.join("sys/class/net/eth0/speed"), "1000\n").unwrap();
        let path = |name: &str| folder.join(name).display().to_string();
        let config = format!("[paths]\nproc = \"{}\"\nsys = \"{}\"\n", path("proc"), path("sys"));
        Network::new(&Config::parse("test", &config).unwrap())
    }

    #[test]
    fn shares_of_the_speed_between_two_looks() {
        let folder = tempfile::tempdir().unwrap();
        let (mut network, shared) = (node(folder.path()), Shared::default());
        let mut read = |second: u64, eth0, docker0| {
            std::fs::write(folder.path().join("proc/net/dev"), table(eth0, docker0)).unwrap();
            network.read(second * 1_000_000_000, &shared);
            ["network.receive", "network.transmit", "network.batch.receive", "network.batch.transmit"]
                .map(|name| shared.gauges.read(source_of(name).unwrap(), 1))
        };
        assert_eq!(read(10, [500, 600], [700, 800]), [Reading::Missing(1); 4], "one look says nothing");
        let second = 125_000_000;
        let seen = read(12, [500 + 2 * second, 600], [700 + second, 800 + second / 2]);
        assert_eq!(seen, [1.0, 0.0, 0.25, 0.5].map(|share| Reading::Value(share, 12_000_000_000)));
        assert_eq!(read(13, [0, 0], [0, 0])[0], Reading::Value(0.0, 13_000_000_000), "made anew");
    }

    #[test]
    fn without_a_speed_there_is_no_share() {
        let folder = tempfile::tempdir().unwrap();
        let mut network = node(folder.path());
        std::fs::write(folder.path().join("sys/class/net/eth0/speed"), "-1\n").unwrap();
        std::fs::write(folder.path().join("proc/net/dev"), table([0, 0], [0, 0])).unwrap();
        let shared = Shared::default();
        (1..3).for_each(|second| network.read(second, &shared));
        assert_eq!(shared.gauges.read(source_of("network.receive").unwrap(), 1), Reading::Absent);
    }

    #[test]
    fn of_this_machine() {
        let mut network = Network::new(&Config::default());
        let table = network.table.read().unwrap().unwrap();
        assert!(counters(table, "lo").is_some(), "{table}");
        assert_eq!(counters(table, "l"), None);
        network.read(5, &Shared::default());
    }
}
