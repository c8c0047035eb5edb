// SPDX-License-Identifier: Apache-2.0
//! What a command has printed: JSON objects in lines. It may have printed anything.

use std::collections::BTreeMap;

use serde_json::Value;

/// What is wrong with it, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    #[error("it printed what is not UTF-8")]
    NotText,
    #[error("line {0} is no JSON object")]
    NoObject(usize),
    #[error("line {0}: `{1}` is no number")]
    NoNumber(usize, String),
}

/// The values of these keys, in the order of the lines; other keys are ignored. One bad line makes all of them doubtful.
pub(super) fn values<'a>(text: &[u8], keys: &'a [String]) -> Result<Vec<(&'a str, f64)>, Fault> {
    let text = std::str::from_utf8(text).map_err(|_| Fault::NotText)?;
    let mut values = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        // serde_json ends at a depth of 128, and at numbers that no f64 holds.
        let object: BTreeMap<String, Value> = serde_json::from_str(line).map_err(|_| Fault::NoObject(number))?;
        for key in keys {
            let Some(value) = object.get(key) else { continue };
            let finite = value.as_f64().filter(|value| value.is_finite());
            values.push((key.as_str(), finite.ok_or_else(|| Fault::NoNumber(number, key.clone()))?));
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<(&'static str, f64)>, Fault> {
        of_bytes(text.as_bytes())
    }

    fn of_bytes(text: &[u8]) -> Result<Vec<(&'static str, f64)>, Fault> {
        let keys = Box::leak(Box::new(["a".to_owned(), "b.c".to_owned()]));
        values(text, keys)
    }

    #[test]
    fn lines_replace_what_they_name() {
        assert_eq!(of(""), Ok(vec![]));
        let text =
            "{\"a\": 1, \"time\": \"now\", \"all\": {\"a\": 9}}\n\n{\"b.c\": -2.5e3}\r\n{\"a\": 18446744073709551615}";
        assert_eq!(of(text), Ok(vec![("a", 1.0), ("b.c", -2500.0), ("a", u64::MAX as f64)]));
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn whatever_is_printed_gives_finite_numbers_of_these_keys_or_nothing(
            pieces in proptest::collection::vec(proptest::sample::select(vec![
                "{", "}", "[", "]", "\"a\"", "\"b.c\"", "\"x\"", ":", ",", "1", "-2.5e3", "1e999", "null", "\n", " ", "\\", "\u{0}",
            ]), 0..40),
            bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..60),
        ) {
            for text in [pieces.concat().as_bytes(), &bytes] {
                let finite = |(key, value): &(&str, f64)| ["a", "b.c"].contains(key) && value.is_finite();
                assert!(of_bytes(text).unwrap_or_default().iter().all(finite));
            }
        }
    }

    #[test]
    fn hostile_output_gives_nothing() {
        let deep = |n: usize| format!("{{\"x\": {}{}}}", "[".repeat(n), "]".repeat(n));
        assert_eq!(of(&deep(100)), Ok(vec![]));
        for line in [
            &deep(20_000),
            "[1]",
            "1",
            "null",
            "{\"a\": NaN}",
            "{\"a\": 1e999}",
            "{\"a\": 01}",
            "{\"a\": 1",
            "{\"a\": 1} 2",
            "\0",
        ] {
            assert_eq!(of(&format!("{{\"a\": 1}}\n{line}\n")), Err(Fault::NoObject(2)), "{:.20}", line);
        }
        for value in ["\"1\"", "true", "null", "[1]", "{}"] {
            assert_eq!(of(&format!("{{\"a\": {value}}}")), Err(Fault::NoNumber(1, "a".into())), "{value}");
        }
        assert_eq!(of_bytes(b"{\"\xff\": 1}"), Err(Fault::NotText));
        assert_eq!(of("{\"\u{202e}\\u0000\": 1, \"a\": 1, \"a\": 2}"), Ok(vec![("a", 2.0)]));
    }
}
