// SPDX-License-Identifier: Apache-2.0
//! What of a new configuration can take effect while the guard runs.

use super::Config;
use crate::ladder::LadderConfig;

impl Config {
    /// This configuration with what of `new` needs no restart (objectives, gauges, ladder, capacity), and the names of the sections
    /// of it that do. Gauges wait with the commands that they may name.
    pub fn reloaded(&self, new: Config) -> (Config, Vec<&'static str>) {
        let sections = [
            ("node", self.node != new.node),
            ("paths", self.paths != new.paths),
            ("loop", self.control_loop != new.control_loop),
            ("signals.latency", self.latency != new.latency),
            ("signals.disk", self.disk != new.disk),
            ("signals.psi", self.psi != new.psi),
            ("signals.probe", self.probe != new.probe),
            ("signals.network", self.network != new.network),
            ("metrics", self.metrics != new.metrics),
            ("journal", self.journal != new.journal),
            ("exec", self.exec != new.exec),
            ("gauge", self.exec != new.exec && self.gauges != new.gauges),
        ];
        let waiting = sections.iter().filter(|(_, differs)| *differs).map(|(name, _)| *name).collect();
        // The place of a value is that among the commands in force.
        let gauges = if self.exec == new.exec { new.gauges } else { self.gauges.clone() };
        let Config { objectives, ladder, capacity, .. } = new;
        // Half of it dry would be neither: it is of `node`, which waits.
        let ladder = LadderConfig { dry_run: self.ladder.dry_run, ..ladder };
        (Config { objectives, gauges, ladder, capacity, ..self.clone() }, waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_change_does_and_the_rest_is_named() {
        let old = Config::default();
        let text = "[loop]\ntick = \"10ms\"\n[ladder]\nhold = \"5s\"\n[capacity]\ncores = 3\n[journal]\nfile_size = \"1MiB\"\n\
                    [[objective]]\nname = \"reads\"\nop = \"read\"\nclass = \"storage\"\nfilesystem = \"*\"\n\
                    threshold = \"50ms\"\nshare = \"1%\"\nweak = 12.0\nstrong = 24.0\ndwell = \"2s\"\n\
                    stuck_after = \"1s\"\ngrace = \"2s\"\n";
        let new = Config::parse("new", text).unwrap();
        let (config, waiting) = old.reloaded(new.clone());
        assert_eq!(waiting, ["loop", "journal"]);
        assert_eq!(
            (&config.objectives, &config.ladder, &config.capacity),
            (&new.objectives, &new.ladder, &new.capacity)
        );
        assert_eq!((&config.control_loop, &config.journal), (&old.control_loop, &old.journal));
        assert_eq!(old.reloaded(old.clone()), (old.clone(), vec![]));
        let dry = Config::parse("dry", "[node]\ndry_run = true\n").unwrap();
        assert_eq!(old.reloaded(dry.clone()), (old.clone(), vec!["node"]));
        assert_eq!(dry.reloaded(old), (dry, vec!["node"]));
    }

    #[test]
    fn commands_wait_and_gauges_with_them() {
        let exec = "[[exec]]\nname = \"ceph\"\ncommand = [\"/bin/true\"]\nmetrics = [\"slow\"]\n";
        let gauge = "[[gauge]]\nname = \"slow\"\nsource = \"exec.ceph.slow\"\nabove = 1\ngrace = \"30s\"\n";
        let old = Config::default();
        let new = Config::parse("new", &format!("{exec}{gauge}")).unwrap();
        assert_eq!(old.reloaded(new.clone()), (old.clone(), vec!["exec", "gauge"]));
        let more = Config::parse("more", exec).unwrap();
        assert_eq!(old.reloaded(more.clone()), (old, vec!["exec"]));
        assert_eq!(more.reloaded(new.clone()), (new, vec![]));
    }
}
