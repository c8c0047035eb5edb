// SPDX-License-Identifier: Apache-2.0
//! Records of what batch as a whole has.

use intf::journal::Outcome;

use super::Reporter;
use crate::actuators::squeeze::Squeezed;
use crate::actuators::{DisksActuator, SwapActuator};

impl Reporter {
    /// One record for each resource.
    pub(super) fn squeezed(&mut self, squeezed: &Squeezed, decided_ns: u64, ended_ns: u64) {
        let cause = match (squeezed.of, &squeezed.has) {
            (SwapActuator::OF, Some(_)) => "swap_on_data_disk",
            (SwapActuator::OF, None) => "swap_elsewhere",
            (DisksActuator::TOGETHER, Some(_)) => "many_limited",
            (_, Some(_)) => "storage_short",
            (_, None) => "squeeze_lifted",
        };
        let mut record = self.own_record("squeeze", cause, decided_ns);
        record.duration_ns = ended_ns.saturating_sub(decided_ns);
        record.detail = match &squeezed.has {
            Some(words) => words.clone(),
            None => format!("all of its {} again", squeezed.of),
        };
        if let Err(error) = &squeezed.seen {
            (record.outcome, record.detail) = (Outcome::Failed, format!("{error:#}"));
            self.log.warning(&record.detail);
        }
        self.write(record);
    }
}
