// SPDX-License-Identifier: Apache-2.0
//! Times on the command line.

use intf::units::Duration;

/// Nanoseconds of `10m` as people write it, or of any duration of the configuration (`10min`, `90s`).
pub fn parse(text: &str) -> Result<u64, String> {
    let minutes = text.strip_suffix('m').filter(|number| !number.is_empty());
    let text = minutes.map_or_else(|| text.to_owned(), |number| format!("{number}min"));
    text.parse::<Duration>().map(|duration| duration.0).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_in_both_ways() {
        assert_eq!(parse("10m"), Ok(600_000_000_000));
        assert_eq!(parse("10min"), Ok(600_000_000_000));
        assert_eq!(parse("90s"), Ok(90_000_000_000));
        assert!(parse("10").is_err() && parse("m").is_err());
    }
}
