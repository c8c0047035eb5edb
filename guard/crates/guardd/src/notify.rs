// SPDX-License-Identifier: Apache-2.0
//! What systemd is told. Without systemd nobody is told, and nothing fails.

use sd_notify::NotifyState;

/// Tells systemd.
#[derive(Debug)]
pub struct Notifier {
    wanted: bool,
}

impl Notifier {
    /// As the environment of the service says.
    pub fn from_environment() -> Self {
        Notifier { wanted: std::env::var_os("NOTIFY_SOCKET").is_some() }
    }

    /// The first round is done. Told again it changes nothing.
    pub fn ready(&self) {
        self.send(&[NotifyState::Ready]);
    }

    /// The loop moves.
    pub fn alive(&self, status: &str) {
        self.send(&[NotifyState::Watchdog, NotifyState::Status(status)]);
    }

    /// The end has begun.
    pub fn stopping(&self) {
        self.send(&[NotifyState::Stopping]);
    }

    fn send(&self, states: &[NotifyState<'_>]) {
        if self.wanted {
            // The watchdog is the one who notices when this fails.
            let _ = sd_notify::notify(false, states);
        }
    }
}
