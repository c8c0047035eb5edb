// SPDX-License-Identifier: Apache-2.0
//! What operators ask of the guard: one JSON object in one line over `control.sock` in its run folder, one line back.

use serde::{Deserialize, Serialize};

/// Name of the socket in the run folder.
pub const SOCKET: &str = "control.sock";
/// Longest line, in either direction.
pub const LINE_BYTES: usize = 4096;
/// Longest freeze that may be ordered; it is renewed by ordering it again.
pub const FREEZE_SECONDS_MAX: u32 = 3600;
/// Longest reason, in characters.
pub const WHY_MAX: usize = 200;

/// An order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
pub enum Order {
    /// No job starts here any more, also after a restart, until `Resume`. Those that run run on.
    Drain {
        /// For the journal.
        #[serde(default)]
        why: String,
    },
    /// Jobs may start again, and what was frozen by order is thawed.
    Resume {
        /// For the journal.
        #[serde(default)]
        why: String,
    },
    /// All jobs stand still for so long from now on.
    Freeze {
        /// 1 to [`FREEZE_SECONDS_MAX`].
        seconds: u32,
        /// For the journal.
        #[serde(default)]
        why: String,
    },
}

impl Order {
    /// In one word, as in the journal.
    pub fn name(&self) -> &'static str {
        match self {
            Order::Drain { .. } => "drain",
            Order::Resume { .. } => "resume",
            Order::Freeze { .. } => "hold",
        }
    }

    /// The reason that was given, fit for a log: one line of at most [`WHY_MAX`] characters.
    pub fn why(&self) -> String {
        let (Order::Drain { why } | Order::Resume { why } | Order::Freeze { why, .. }) = self;
        why.chars().map(|c| if c.is_control() { ' ' } else { c }).take(WHY_MAX).collect::<String>().trim().to_owned()
    }

    /// Reads one line.
    ///
    /// # Errors
    /// It is no order, or asks for more than there is; in words for who sent it.
    pub fn parse(line: &str) -> Result<Order, String> {
        let order: Order = serde_json::from_str(line).map_err(|error| format!("that is no order: {error}"))?;
        match order {
            Order::Freeze { seconds, .. } if !(1..=FREEZE_SECONDS_MAX).contains(&seconds) => {
                Err(format!("a freeze may last 1 s to {FREEZE_SECONDS_MAX} s"))
            }
            order => Ok(order),
        }
    }
}

/// What became of an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// It was accepted.
    pub done: bool,
    /// What happens now, or why not.
    pub said: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_lines() {
        for (line, order) in [
            (r#"{"do":"drain"}"#, Order::Drain { why: String::new() }),
            (r#"{"do":"resume","why":"disk replaced"}"#, Order::Resume { why: "disk replaced".into() }),
            (r#"{"do":"freeze","seconds":300,"why":""}"#, Order::Freeze { seconds: 300, why: String::new() }),
        ] {
            assert_eq!(Order::parse(line), Ok(order.clone()));
            assert_eq!(Order::parse(&serde_json::to_string(&order).unwrap()), Ok(order));
        }
    }

    #[test]
    fn what_is_no_order_is_refused_in_words() {
        for (line, word) in [
            ("", "no order"),
            ("drain", "no order"),
            (r#"{"do":"reboot"}"#, "reboot"),
            (r#"{"do":"freeze"}"#, "seconds"),
            (r#"{"do":"drain","force":true}"#, "force"),
            (r#"{"do":"freeze","seconds":0}"#, "1 s to 3600 s"),
            (r#"{"do":"freeze","seconds":3601}"#, "1 s to 3600 s"),
        ] {
            let said = Order::parse(line).unwrap_err();
            assert!(said.contains(word), "{line}: {said}");
        }
    }

    #[test]
    fn a_reason_is_one_short_line() {
        let why = |why: &str| Order::Drain { why: why.into() }.why();
        assert_eq!(why(" a\nb\u{1b}[31m "), "a b [31m");
        assert_eq!(why(&"é".repeat(1000)).chars().count(), WHY_MAX);
    }
}
