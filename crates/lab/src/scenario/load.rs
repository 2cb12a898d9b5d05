//! The `[[clients]]` tables: who loads what, when, and how patiently.

use super::text::{BandwidthText, BytesText, DurationText};
use onionlab_quantities::{Bandwidth, Bytes, SimDuration};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;
use std::fmt;

/// A group of clients with the same load.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ClientsFile {
    /// The group's name, unique; its clients are called by it ("web17"). Letters, digits, ".", "_" and "-", at most 64 of them.
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9._-]+$"))]
    pub group: String,
    /// How many clients. In an explicit network name `hosts` instead; with `[load-target]` the number is derived.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub count: Option<u32>,
    /// With `[load-target]`: this group's share of the clients, relative to the other groups'. Default: 1.
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub share: Option<f64>,
    /// Explicit network: the hosts that are this group's clients.
    #[schemars(length(min = 1, max = 100_000))]
    pub hosts: Option<Vec<String>>,
    /// Explicit network: the relays of every circuit, guard first. Default: drawn by consensus weight.
    pub path: Option<[String; 3]>,
    /// Explicit network: the server to load from. Default: drawn for each client.
    pub server: Option<String>,
    /// When the clients start: one time for all ("5 s") or a range to draw from uniformly. Default: from "0 s" to "10 s".
    pub start: Option<StartFile>,
    /// What each client loads.
    pub load: LoadFile,
    /// A transfer that is not complete after this time has failed. Default: "120 s".
    #[schemars(with = "Option<DurationText>")]
    pub timeout: Option<SimDuration>,
    /// A transfer that receives nothing for this time has failed. Default: "30 s".
    #[schemars(with = "Option<DurationText>")]
    pub stall: Option<SimDuration>,
    /// Access rate of each client towards the network; not in an explicit network. Default: "10 Mbit/s".
    #[schemars(with = "Option<BandwidthText>")]
    pub up: Option<Bandwidth>,
    /// Access rate of each client from the network; not in an explicit network. Default: "50 Mbit/s".
    #[schemars(with = "Option<BandwidthText>")]
    pub down: Option<Bandwidth>,
    /// A circuit older than this gets no new stream (tor's `MaxCircuitDirtiness`). Default: "10 min".
    #[schemars(with = "Option<DurationText>")]
    pub circuit_lifetime: Option<SimDuration>,
    /// Build a circuit for each transfer. Default: false.
    pub circuit_per_transfer: Option<bool>,
}

/// Set the number of clients by the utilisation that they shall cause.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LoadTargetFile {
    /// Offered load as a share of the capacity of the relays at `position`; above 1 means overload. Above 0, at most 4.
    #[schemars(range(min = 0.0, max = 4.0))]
    pub utilisation: f64,
    /// The position in the path whose relays are meant.
    pub position: Position,
}

/// A position in a circuit's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Position {
    /// The first relay.
    Guard,
    /// The second relay.
    Middle,
    /// The last relay.
    Exit,
}

/// The kinds of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LoadKind {
    /// A size again and again, with a pause only if one is given.
    Bulk,
    /// A size, then a pause, for ever.
    Web,
    /// A list of transfers, once.
    Sequence,
}

/// What a client loads. Which keys apply depends on `kind`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LoadFile {
    /// "bulk": `size` again and again; "web": `size`, then `pause`, for ever; "sequence": the list `transfers`, once.
    pub kind: LoadKind,
    /// Kinds "bulk" and "web": size of each transfer, at most "1 GiB".
    #[schemars(with = "Option<BytesText>")]
    pub size: Option<Bytes>,
    /// Kinds "bulk" and "web": time from the end of a transfer to the start of the next. Default: none for "bulk"; required for "web".
    pub pause: Option<PauseFile>,
    /// Kind "sequence": the transfers, in order.
    #[schemars(length(min = 1, max = 10_000))]
    pub transfers: Option<Vec<TransfersFile>>,
}

/// Some equal transfers of a sequence.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TransfersFile {
    /// Size of each, at most "1 GiB".
    #[schemars(with = "BytesText")]
    pub size: Bytes,
    /// How many. Default: 1.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub count: Option<u32>,
    /// Time from the end of each to the start of the next. Default: none.
    #[schemars(with = "Option<DurationText>")]
    pub pause: Option<SimDuration>,
}

/// When the clients of a group start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartFile {
    /// All at once.
    At(SimDuration),
    /// Each at a time drawn uniformly.
    Between(StartRange),
}

/// A range of start times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StartRange {
    /// The earliest.
    #[schemars(with = "DurationText")]
    pub from: SimDuration,
    /// The latest.
    #[schemars(with = "DurationText")]
    pub to: SimDuration,
}

/// The pause between two transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseFile {
    /// Always the same.
    Fixed(SimDuration),
    /// Drawn from a distribution.
    Drawn(DrawnPause),
}

/// A pause drawn from a distribution; exactly one of the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub struct DrawnPause {
    /// Uniform between the two.
    #[schemars(with = "Option<[DurationText; 2]>")]
    pub uniform: Option<[SimDuration; 2]>,
    /// Exponential with this mean.
    #[schemars(with = "Option<DurationText>")]
    pub exponential: Option<SimDuration>,
}

/// Reads a quantity where a text stands and `Table` where a table stands, and describes the choice in the schema.
macro_rules! text_or_table {
    ($type:ident, $one:ident, $many:ident($table:ty), $expected:literal, $description:literal) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Either;
                impl<'de> serde::de::Visitor<'de> for Either {
                    type Value = $type;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expected)
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map($type::$one).map_err(E::custom)
                    }
                    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<$type, A::Error> {
                        <$table>::deserialize(MapAccessDeserializer::new(map)).map($type::$many)
                    }
                }
                deserializer.deserialize_any(Either)
            }
        }
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).trim_end_matches("File").into()
            }
            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                let text = generator.subschema_for::<DurationText>();
                let table = generator.subschema_for::<$table>();
                json_schema!({ "description": $description, "anyOf": [text, table] })
            }
        }
    };
}
text_or_table!(
    StartFile,
    At,
    Between(StartRange),
    "a duration such as \"5 s\" or a range such as { from = \"5 s\", to = \"20 s\" }",
    "When the clients start: one time for all, or a range to draw from uniformly."
);
text_or_table!(
    PauseFile,
    Fixed,
    Drawn(DrawnPause),
    "a duration such as \"5 s\", { uniform = [\"1 s\", \"20 s\"] }, or { exponential = \"10 s\" }",
    "The pause between two transfers: fixed, or drawn from a distribution."
);
