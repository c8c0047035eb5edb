// SPDX-License-Identifier: Apache-2.0
//! The state line (`/run/beer/guard/state`): 256 bytes, written by the control loop with one `pwrite` when it says
//! something else, and ten times a second.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::Write;

/// Bytes of the state line, padding and newline included.
pub const STATE_LINE_BYTES: usize = 256;

/// The states of the ladder; these names everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// Batch has its full share.
    Open,
    /// Running jobs are untouched, none start.
    #[default]
    Closed,
    /// Batch is shrunk step by step.
    Throttled,
    /// Batch stands still.
    Frozen,
    /// Jobs leave through HTCondor.
    Vacating,
    /// Every job out, node drained.
    Emergency,
}

impl NodeState {
    /// All of them, mildest first.
    pub const ALL: [NodeState; 6] = [
        NodeState::Open,
        NodeState::Closed,
        NodeState::Throttled,
        NodeState::Frozen,
        NodeState::Vacating,
        NodeState::Emergency,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            NodeState::Open => "open",
            NodeState::Closed => "closed",
            NodeState::Throttled => "throttled",
            NodeState::Frozen => "frozen",
            NodeState::Vacating => "vacating",
            NodeState::Emergency => "emergency",
        }
    }

    /// The state of that name.
    pub fn from_name(name: &str) -> Option<NodeState> {
        NodeState::ALL.into_iter().find(|s| s.name() == name)
    }
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The fields of the line; `R` is `&str` for the writer and `String` for a parsed line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateLine<R> {
    /// State of the node.
    pub state: NodeState,
    /// May new jobs start?
    pub admit: bool,
    /// When the control loop wrote it, CLOCK_REALTIME seconds.
    pub heartbeat: u64,
    /// The same moment, CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// Why; characters other than `[A-Za-z0-9_.:/%+-]` become `_`. Truncated to what fits.
    pub reason: R,
    /// Cores offered.
    pub cores: u32,
    /// Memory offered.
    pub memory_mb: u64,
}

/// A state line that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// Not 256 bytes of text that end in a newline.
    #[error("the state line must be 256 bytes of text ending in a newline, found {0} bytes")]
    Shape(usize),
    /// A field is not there or its value cannot be read.
    #[error("state line: field `{0}` missing or unreadable")]
    Field(&'static str),
}

/// Most characters of a reason: with all numbers at their widest the line still fits.
const REASON_BYTES: usize = 100;

/// A reason as one word of the line.
struct Word<'a>(&'a str);

impl fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        if self.0.is_empty() {
            return f.write_char('-');
        }
        for c in self.0.chars().take(REASON_BYTES) {
            let plain = c.is_ascii_alphanumeric() || "_.:/%+-".contains(c);
            f.write_char(if plain { c } else { '_' })?;
        }
        Ok(())
    }
}

impl StateLine<&str> {
    /// Formats the line without allocating.
    pub fn format(&self, buffer: &mut [u8; STATE_LINE_BYTES]) {
        buffer.fill(b' ');
        let mut rest = &mut buffer[..STATE_LINE_BYTES - 1];
        // Cannot fail: the reason is bounded so that the widest line fits (test below).
        let _ = write!(
            rest,
            "state={} admit={} heartbeat={} monotonic_ns={} reason={} cores={} memory_mb={}",
            self.state,
            u8::from(self.admit),
            self.heartbeat,
            self.monotonic_ns,
            Word(self.reason),
            self.cores,
            self.memory_mb,
        );
        buffer[STATE_LINE_BYTES - 1] = b'\n';
    }
}

impl StateLine<String> {
    /// Parses a line. Fields that are not known are ignored, so that a newer guard can add some.
    ///
    /// # Errors
    /// The first field that is missing or unreadable.
    pub fn parse(line: &[u8]) -> Result<StateLine<String>, StateError> {
        let shape = StateError::Shape(line.len());
        if line.len() != STATE_LINE_BYTES || line[STATE_LINE_BYTES - 1] != b'\n' {
            return Err(shape);
        }
        let text = std::str::from_utf8(line).map_err(|_| shape)?;
        let field = |name: &'static str| {
            text.split_ascii_whitespace()
                .filter_map(|word| word.split_once('='))
                .find_map(|(key, value)| (key == name).then_some(value))
                .ok_or(StateError::Field(name))
        };
        fn number<T: std::str::FromStr>(name: &'static str, text: &str) -> Result<T, StateError> {
            text.parse().map_err(|_| StateError::Field(name))
        }
        Ok(StateLine {
            state: NodeState::from_name(field("state")?).ok_or(StateError::Field("state"))?,
            admit: match field("admit")? {
                "0" => false,
                "1" => true,
                _ => return Err(StateError::Field("admit")),
            },
            heartbeat: number("heartbeat", field("heartbeat")?)?,
            monotonic_ns: number("monotonic_ns", field("monotonic_ns")?)?,
            reason: field("reason")?.to_string(),
            cores: number("cores", field("cores")?)?,
            memory_mb: number("memory_mb", field("memory_mb")?)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widest(reason: &str) -> StateLine<&str> {
        StateLine {
            state: NodeState::Emergency,
            admit: true,
            heartbeat: u64::MAX,
            monotonic_ns: u64::MAX,
            reason,
            cores: u32::MAX,
            memory_mb: u64::MAX,
        }
    }

    #[test]
    fn the_line_is_as_agreed() {
        let line = StateLine {
            state: NodeState::Open,
            admit: true,
            heartbeat: 1700000000,
            monotonic_ns: 12345,
            reason: "objectives healthy",
            cores: 8,
            memory_mb: 16000,
        };
        let mut buffer = [0; STATE_LINE_BYTES];
        line.format(&mut buffer);
        let text = std::str::from_utf8(&buffer).unwrap();
        let start = "state=open admit=1 heartbeat=1700000000 monotonic_ns=12345 reason=objectives_healthy cores=8 \
                     memory_mb=16000 ";
        assert!(text.starts_with(start), "{text}");
        assert!(text[start.len()..255].bytes().all(|b| b == b' ') && text.ends_with('\n'));
    }

    #[test]
    fn the_widest_line_fits_and_comes_back() {
        let reason = "x".repeat(300);
        let mut buffer = [0; STATE_LINE_BYTES];
        widest(&reason).format(&mut buffer);
        let parsed = StateLine::parse(&buffer).unwrap();
        assert_eq!(parsed.memory_mb, u64::MAX);
        assert_eq!(parsed.reason, "x".repeat(REASON_BYTES));
        for reason in ["", "a=b c\nd \u{fc}"] {
            widest(reason).format(&mut buffer);
            assert!(StateLine::parse(&buffer).is_ok(), "{reason}");
        }
    }

    #[test]
    fn every_state_has_its_name() {
        let names = NodeState::ALL.map(NodeState::name);
        assert_eq!(names, ["open", "closed", "throttled", "frozen", "vacating", "emergency"]);
        for state in NodeState::ALL {
            assert_eq!(NodeState::from_name(state.name()), Some(state));
            assert_eq!(serde_json::to_string(&state).unwrap(), format!("\"{state}\""));
        }
    }

    #[test]
    fn damaged_lines_are_errors() {
        let mut good = [0; STATE_LINE_BYTES];
        widest("calm").format(&mut good);
        assert_eq!(StateLine::parse(&good[1..]), Err(StateError::Shape(255)));
        assert_eq!(StateLine::parse(b""), Err(StateError::Shape(0)));
        for (name, damaged) in [("state", "stale=emergency"), ("admit", "admit=2"), ("cores", "cores=-294967295")] {
            let text = std::str::from_utf8(&good).unwrap();
            let at = text.find(&format!("{name}=")).unwrap();
            let mut bad = good;
            bad[at..at + damaged.len()].copy_from_slice(damaged.as_bytes());
            assert_eq!(StateLine::parse(&bad), Err(StateError::Field(name)));
        }
    }
}
