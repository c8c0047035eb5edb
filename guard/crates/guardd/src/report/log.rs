// SPDX-License-Identifier: Apache-2.0
//! Lines for the system's journal, with their priority in front as systemd understands it. A signal that flaps
//! must not fill the disk: after a burst, lines are counted and not written.

use std::time::{Duration, Instant};

const BURST: u32 = 50;
const WINDOW: Duration = Duration::from_secs(10);

/// The log.
#[derive(Debug, Default)]
pub struct Log {
    window: Option<Instant>,
    lines: u32,
    left_out: u32,
}

impl Log {
    /// Something that is worth knowing.
    pub fn notice(&mut self, text: &str) {
        self.line(5, text);
    }

    /// Something that somebody should look at.
    pub fn warning(&mut self, text: &str) {
        self.line(4, text);
    }

    fn line(&mut self, priority: u8, text: &str) {
        let now = Instant::now();
        if self.window.is_none_or(|begin| now.duration_since(begin) > WINDOW) {
            if self.left_out > 0 {
                eprintln!("<4>{} lines left out", self.left_out);
            }
            (self.window, self.lines, self.left_out) = (Some(now), 0, 0);
        }
        if self.lines >= BURST {
            self.left_out += 1;
            return;
        }
        self.lines += 1;
        eprintln!("<{priority}>{text}");
    }
}
