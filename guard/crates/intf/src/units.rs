// SPDX-License-Identifier: Apache-2.0
//! Quantities that carry their unit: `20ms`, `1.5s`, `1%`, `8GiB`, `250/s`. A bare number is an error.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A quantity that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` {problem}; write {allowed}")]
pub struct UnitError {
    /// What was found.
    pub text: String,
    /// What is wrong with it.
    pub problem: &'static str,
    /// How to write it.
    pub allowed: &'static str,
}

const DURATION: &[(&str, f64)] =
    &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9), ("h", 3600e9), ("d", 86400e9)];
const BYTES: &[(&str, f64)] = &[
    ("B", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("KiB", 1024.0),
    ("MiB", 1048576.0),
    ("GiB", 1073741824.0),
    ("TiB", 1099511627776.0),
];
const DURATION_ALLOWED: &str = "a time such as `20ms`, `1.5s`, `2min` (units ns, us, ms, s, min, h, d)";
const BYTES_ALLOWED: &str = "a size such as `64MiB`, `8GiB` (units B, KiB, MiB, GiB, TiB, kB, MB, GB, TB)";
const SHARE_ALLOWED: &str = "a share such as `1%`, `0.1%`, from 0% to 100%";
const RATE_ALLOWED: &str = "a rate such as `250/s`";

/// Splits `text` into its number and the factor of its unit.
fn split(text: &str, units: &[(&str, f64)], allowed: &'static str) -> Result<(f64, f64), UnitError> {
    let error = |problem| UnitError { text: text.into(), problem, allowed };
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    // `parse` would take `.5` and `5.` too; one way to write a number is enough.
    if !number.starts_with(|c: char| c.is_ascii_digit()) || number.ends_with('.') {
        return Err(error("does not start with a number"));
    }
    let number: f64 = number.parse().map_err(|_| error("does not start with a number"))?;
    if unit.is_empty() {
        return Err(error("has no unit"));
    }
    let factor = units.iter().find(|(name, _)| *name == unit).ok_or_else(|| error("has an unknown unit"))?.1;
    Ok((number, factor))
}

/// As [`split`], multiplied and rounded to an integer that a double holds exactly.
fn integer(text: &str, units: &[(&str, f64)], allowed: &'static str) -> Result<u64, UnitError> {
    let (number, factor) = split(text, units, allowed)?;
    let value = (number * factor).round();
    if value > 9e15 {
        return Err(UnitError { text: text.into(), problem: "is too large", allowed });
    }
    Ok(value as u64)
}

/// Writes `value` in the largest unit (of those given, in falling order) that needs no decimals.
fn largest(f: &mut fmt::Formatter<'_>, value: u64, units: &[(u64, &str)]) -> fmt::Result {
    for (size, name) in units {
        if value % size == 0 && (value > 0 || *size == 1) {
            return write!(f, "{}{name}", value / size);
        }
    }
    Ok(())
}

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
        pub struct $name(pub $inner);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Quantity(std::marker::PhantomData))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
}

/// Accepts a string; a number gets the same error as its text would, which says what to write instead.
struct Quantity<T>(std::marker::PhantomData<T>);

impl<T: FromStr<Err = UnitError>> serde::de::Visitor<'_> for Quantity<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let allowed = "".parse::<T>().err().map_or("a quantity with its unit", |e| e.allowed);
        write!(f, "{allowed}, in quotes")
    }
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<T, E> {
        number.to_string().parse().map_err(E::custom)
    }
    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<T, E> {
        number.to_string().parse().map_err(E::custom)
    }
    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<T, E> {
        number.to_string().parse().map_err(E::custom)
    }
}

quantity!(
    /// A time in nanoseconds: `ns`, `us`, `ms`, `s`, `min`, `h`, `d`.
    Duration(u64)
);
quantity!(
    /// A share in 0..=1, written in percent.
    Share(f64)
);
quantity!(
    /// A number of bytes: `B`, `KiB`, `MiB`, `GiB`, `TiB`, `kB`, `MB`, `GB`, `TB`.
    Bytes(u64)
);
quantity!(
    /// A rate per second: `250/s`.
    Rate(f64)
);

impl FromStr for Duration {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        integer(text, DURATION, DURATION_ALLOWED).map(Duration)
    }
}

impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        integer(text, BYTES, BYTES_ALLOWED).map(Bytes)
    }
}

impl FromStr for Share {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, _) = split(text, &[("%", 1.0)], SHARE_ALLOWED)?;
        if number > 100.0 {
            return Err(UnitError { text: text.into(), problem: "is more than everything", allowed: SHARE_ALLOWED });
        }
        Ok(Share(number / 100.0))
    }
}

impl FromStr for Rate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        split(text, &[("/s", 1.0)], RATE_ALLOWED).map(|(number, _)| Rate(number))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [
            (86_400_000_000_000, "d"),
            (3_600_000_000_000, "h"),
            (60_000_000_000, "min"),
            (1_000_000_000, "s"),
            (1_000_000, "ms"),
            (1_000, "us"),
            (1, "ns"),
        ];
        largest(f, self.0, &units)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        largest(f, self.0, &[(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")])
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nine decimals hide that 0.1 % is not a binary number; then the zeros go.
        let text = format!("{:.9}", self.0 * 100.0);
        write!(f, "{}%", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_with_units_are_read_and_written() {
        for (text, ns) in [("20ms", 20_000_000), ("1.5s", 1_500_000_000), ("2min", 120_000_000_000), ("512ns", 512)] {
            assert_eq!(text.parse(), Ok(Duration(ns)));
        }
        for text in ["20ms", "1500ms", "2min", "1h", "3d", "7us", "0ns"] {
            assert_eq!(text.parse::<Duration>().unwrap().to_string(), text);
        }
        assert_eq!("8GiB".parse(), Ok(Bytes(8 << 30)));
        assert_eq!("2MB".parse(), Ok(Bytes(2_000_000)));
        assert_eq!(Bytes(8 << 30).to_string(), "8GiB");
        assert_eq!("1%".parse(), Ok(Share(0.01)));
        assert_eq!("0.1%".parse::<Share>().unwrap().to_string(), "0.1%");
        assert_eq!("250/s".parse(), Ok(Rate(250.0)));
    }

    #[test]
    fn what_is_not_a_quantity_is_refused_with_what_to_write() {
        for text in ["", "20", "ms", "-1s", "1 s", "1.s", ".5s", "1e3s", "20sec", "1.2.3s", "99999999d", "1s2"] {
            let error = text.parse::<Duration>().unwrap_err().to_string();
            assert!(error.contains("`20ms`"), "{text}: {error}");
        }
        assert_eq!("20".parse::<Bytes>().unwrap_err().problem, "has no unit");
        assert!("101%".parse::<Share>().is_err());
        assert!("0.01".parse::<Share>().is_err());
        assert!("250".parse::<Rate>().is_err());
    }

    #[test]
    fn a_bare_number_says_what_was_allowed() {
        let error = serde_json::from_str::<Duration>("20").unwrap_err().to_string();
        assert!(error.contains("`20` has no unit; write a time such as `20ms`"), "{error}");
        let error = serde_json::from_str::<Share>("0.5").unwrap_err().to_string();
        assert!(error.contains("has no unit; write a share such as `1%`"), "{error}");
        let error = serde_json::from_str::<Share>("true").unwrap_err().to_string();
        assert!(error.contains("expected a share such as"), "{error}");
        assert_eq!(serde_json::to_string(&Duration(20_000_000)).unwrap(), "\"20ms\"");
    }
}
