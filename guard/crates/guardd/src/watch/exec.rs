// SPDX-License-Identifier: Apache-2.0
//! What commands of the site's own have printed: read from the files of `beer-exec@NAME.service`, which the guard neither starts nor
//! waits for. A file that is gone or wrong leaves the readings as they were, to become stale.

use std::path::PathBuf;
use std::sync::Arc;

use intf::exec::{Fault, Readings};
use policy::{exec_places, Config};

use super::Source;
use crate::clock::Clock;
use crate::shared::Shared;

/// A fault is told of once in so long: whoever writes the file must not fill the log.
const SILENT_NS: u64 = 600 * 1_000_000_000;

/// One command.
struct Signal {
    name: String,
    path: PathBuf,
    /// Keys and their places.
    values: Vec<(String, usize)>,
    /// What is wrong with it, and when that was told.
    fault: Option<Fault>,
    said_ns: Option<u64>,
}

/// The source.
pub struct Exec {
    signals: Vec<Signal>,
    clock: Arc<dyn Clock>,
}

impl Exec {
    /// Opens nothing yet.
    pub fn new(config: &Config, clock: Arc<dyn Clock>) -> Self {
        let signal = |exec: &policy::Exec| {
            let values = exec_places(&config.exec).filter(|(_, owner, _)| owner.name == exec.name);
            Signal {
                name: exec.name.clone(),
                path: crate::exec::readings_of(config, exec),
                values: values.map(|(place, _, key)| (key.to_owned(), place)).collect(),
                fault: None,
                said_ns: None,
            }
        };
        Exec { signals: config.exec.iter().map(signal).collect(), clock }
    }
}

impl Signal {
    fn say(&mut self, fault: Option<Fault>, now_ns: u64) {
        // It is missing until the service has started, and gauges on it say so themselves.
        let fault = fault.filter(|fault| *fault != Fault::Missing);
        let silent = self.said_ns.is_some_and(|said_ns| now_ns.saturating_sub(said_ns) < SILENT_NS);
        if let Some(new) = fault.filter(|_| fault != self.fault && !silent) {
            eprintln!("<4>exec {}: {}: {new}", self.name, self.path.display());
            self.said_ns = Some(now_ns);
        }
        self.fault = fault;
    }
}

impl Source for Exec {
    fn read(&mut self, now_ns: u64, shared: &Shared) {
        for signal in &mut self.signals {
            // What was read before may have taken its time: what is from the future is so when the file was read.
            let readings = Readings::load(&signal.path, || self.clock.monotonic_ns());
            signal.say(readings.as_ref().err().copied(), now_ns);
            let readings = match readings {
                Ok(readings) => readings,
                Err(fault) => {
                    let fail = |place| shared.gauges.fail_at(place, format_args!("{}: {fault}", signal.path.display()));
                    signal.values.iter().for_each(|(_, place)| fail(*place));
                    continue;
                }
            };
            for (key, place) in &signal.values {
                match readings.values.get(key) {
                    Some(printed) => shared.gauges.put_at(*place, Some(printed.value), printed.at_ns),
                    None => shared.gauges.fail_at(*place, format_args!("{}: no `{key}` there", signal.path.display())),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::gauge::{Reading, SOURCES};

    struct At(u64);
    impl Clock for At {
        fn monotonic_ns(&self) -> u64 {
            self.0
        }
        fn realtime_ns(&self) -> u64 {
            0
        }
    }

    #[test]
    fn values_of_all_commands_at_their_places_with_their_age() {
        let folder = tempfile::tempdir().unwrap();
        let entry = |name: &str, keys: &str| {
            format!("[[exec]]\nname = \"{name}\"\ncommand = [\"/bin/true\"]\nmetrics = {keys}\n")
        };
        let paths = format!("[paths]\nexec = \"{}\"\n", folder.path().display());
        let config = format!("{paths}{}{}", entry("one", "[\"a\", \"b\"]"), entry("two", "[\"a\"]"));
        let mut source = Exec::new(&Config::parse("test", &config).unwrap(), Arc::new(At(100)));
        let shared = Shared::default();
        let mut read = || {
            source.read(100, &shared);
            [0, 1, 2].map(|number| shared.gauges.read(SOURCES.len() + number, 7))
        };
        let fault = |number| shared.gauges.fault(SOURCES.len() + number).unwrap_or_default();
        assert_eq!(read(), [Reading::Missing(7); 3], "no folder");
        assert!(fault(0).ends_with("one/readings.json: there are no readings"), "{}", fault(0));
        for name in ["one", "two"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name).join("readings.json"), text).unwrap();
        write("one", "{\"values\":{\"b\":{\"value\":1.5,\"at_ns\":90},\"c\":{\"value\":7,\"at_ns\":90}}}");
        assert_eq!(read(), [Reading::Missing(7), Reading::Value(1.5, 90), Reading::Missing(7)]);
        assert!(fault(0).ends_with("one/readings.json: no `a` there") && fault(1).is_empty(), "{}", fault(0));
        write("two", "{\"values\":{\"a\":{\"value\":-4,\"at_ns\":100}}}");
        write("one", "{\"values\":{\"b\":{\"value\":2.5,\"at_ns\":101}}}");
        let seen = [Reading::Missing(7), Reading::Value(1.5, 90), Reading::Value(-4.0, 100)];
        assert_eq!(read(), seen, "what is from the future is not taken");
        write("one", "nonsense");
        std::fs::remove_file(folder.path().join("two/readings.json")).unwrap();
        assert_eq!(read(), seen, "to become stale");
    }
}
