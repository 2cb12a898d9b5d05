//! Lists of names as they are read, and how quantities and other texts look in the JSON Schema: `"20 ms"`, `"320 KiB"`, `"1.5 Mbit/s"`.
//!
//! The types of `onionlab-quantities` do not know JSON Schema; fields name these stand-ins with `schemars(with = ...)`.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use std::borrow::Cow;

/// A list of exactly so many names. (serde takes the first of more for an array, and says nothing of the others.)
pub(super) fn names<'de, D: Deserializer<'de>, const COUNT: usize>(deserializer: D) -> Result<[String; COUNT], D::Error> {
    let given = Vec::<String>::deserialize(deserializer)?;
    let count = given.len();
    given.try_into().map_err(|_| de::Error::custom(format!("{COUNT} names are needed, not {count}")))
}

/// The same where it may be left out.
pub(super) fn names_if_given<'de, D: Deserializer<'de>, const COUNT: usize>(
    deserializer: D,
) -> Result<Option<[String; COUNT]>, D::Error> {
    names(deserializer).map(Some)
}

macro_rules! text_schema {
    ($(#[$doc:meta])* $type:ident, $name:literal, $description:literal, $units:literal, $parts:literal, [$($example:literal),+]) => {
        $(#[$doc])*
        pub enum $type {}

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string",
                    "description": $description,
                    "pattern": concat!(r"^(\s*([0-9_]+\.?[0-9_]*|\.[0-9_]+)\s*(", $units, "))", $parts, r"\s*$|^\s*0+\s*$"),
                    "examples": [$($example),+]
                })
            }
        }
    };
}

text_schema!(
    /// Stands for `SimDuration` in a schema.
    DurationText,
    "Duration",
    "A duration with its unit: ns, us, ms, s, min, h, d; or several parts, from large to small.",
    "ns|us|ms|s|min|h|d",
    "+",
    ["20 ms", "10 min", "2 h 30 min"]
);
text_schema!(
    /// Stands for `Bytes` in a schema.
    BytesText,
    "Bytes",
    "An amount of data with its unit: B, kB, MB, GB (powers of 1000), KiB, MiB, GiB (powers of 1024).",
    "B|kB|KB|MB|GB|KiB|MiB|GiB",
    "",
    ["320 KiB", "5 MB"]
);
text_schema!(
    /// Stands for `Bandwidth` in a schema.
    BandwidthText,
    "Bandwidth",
    "A bandwidth with its unit: bit/s, kbit/s, Mbit/s, Gbit/s, B/s, kB/s, MB/s, KiB/s, MiB/s.",
    "bit/s|kbit/s|Mbit/s|Gbit/s|B/s|kB/s|MB/s|KiB/s|MiB/s",
    "",
    ["1.5 Mbit/s", "10 Gbit/s"]
);
