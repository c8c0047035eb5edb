// SPDX-License-Identifier: Apache-2.0
//! Values that are a word or a quantity: `"all"` or a number, an address or `"off"`.

use intf::units::Bytes;
use serde::{de, Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::net::SocketAddr;

/// Cores: a number, or `"all"` (`None`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cores(pub Option<u32>);

/// Memory: a size, or `"all"` (`None`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Memory(pub Option<Bytes>);

/// An address, or `"off"` (`None`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Listen(pub Option<SocketAddr>);

impl<'de> Deserialize<'de> for Cores {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Cores;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of cores such as 8, or \"all\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Cores, E> {
                match text {
                    "all" => Ok(Cores(None)),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Cores, E> {
                match u32::try_from(number) {
                    Ok(cores) => Ok(Cores(Some(cores))),
                    Err(_) => Err(E::invalid_value(de::Unexpected::Signed(number), &self)),
                }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl<'de> Deserialize<'de> for Memory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Memory;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"8GiB\", or \"all\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Memory, E> {
                match text {
                    "all" => Ok(Memory(None)),
                    _ => {
                        text.parse().map(|bytes| Memory(Some(bytes))).map_err(|e| E::custom(format!("{e}, or \"all\"")))
                    }
                }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "off" {
            return Ok(Listen(None));
        }
        let error =
            |_| de::Error::custom(format!("`{text}` is no address; write `127.0.0.1:9721`, `[::1]:9721` or `off`"));
        text.parse().map(|address| Listen(Some(address))).map_err(error)
    }
}

impl Serialize for Cores {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(cores) => serializer.serialize_u32(cores),
            None => serializer.serialize_str("all"),
        }
    }
}

impl Serialize for Memory {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(bytes) => bytes.serialize(serializer),
            None => serializer.serialize_str("all"),
        }
    }
}

impl Serialize for Listen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(address) => serializer.collect_str(&address),
            None => serializer.serialize_str("off"),
        }
    }
}
