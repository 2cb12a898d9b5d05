//! The `[[clients]]` tables: who loads what, when, and how patiently.

use super::onion::OnionFile;
use super::text::{BandwidthText, DurationText, names_if_given};
use onionlab_load::LoadModel;
use onionlab_quantities::{Bandwidth, SimDuration};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;
use std::fmt;

/// A group of clients with the same load.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "Clients")]
pub struct ClientsFile {
    /// The group's name, unique; its clients are called by it ("web17"). With a network document: the name of one of its groups. Letters, digits, ".", "_" and "-", at most 64 of them.
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9._-]+$"))]
    pub group: String,
    /// How many clients. In an explicit network name `hosts` instead; a network document lists them; with `[load-target]` and with `users-at-full-scale` the number is derived.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub count: Option<u32>,
    /// How many users each client stands for, with all their flows. Default: 1.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub users: Option<u32>,
    /// Instead of `count`: how many users the whole network has, of which the sampled one has its share; clients are those over `users`, rounded. Tor had
    /// 792,000 active users in 2018.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub users_at_full_scale: Option<u32>,
    /// With `[load-target]`: this group's share of the clients, relative to the other groups'. Default: 1.
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub share: Option<f64>,
    /// Explicit network: the hosts that are this group's clients.
    #[schemars(length(min = 1, max = 100_000))]
    pub hosts: Option<Vec<String>>,
    /// Explicit network: the relays of every circuit, guard first. Default: drawn by consensus weight.
    #[serde(default, deserialize_with = "names_if_given")]
    pub path: Option<[String; 3]>,
    /// Explicit network: the server to load from. Default: drawn for each client.
    pub server: Option<String>,
    /// The streams go to onion services of this group's own instead of servers, through six relays. Needs tor "0.4.9"; not with switching nor flow-control "predictor".
    pub onion: Option<OnionFile>,
    /// When the clients start: one time for all ("5 s") or a range to draw from uniformly. Default: from "0 s" to "10 s", or to half of a run shorter than 20 s.
    pub start: Option<StartFile>,
    /// How long before a client's start its tor starts to run and to build circuits, "0 s" to "7 d"; never before time zero. Default: "10 s".
    #[schemars(with = "Option<DurationText>")]
    pub boot_before: Option<SimDuration>,
    /// From this time on no transfer starts. Default: the end of the run.
    #[schemars(with = "Option<DurationText>")]
    pub stop: Option<SimDuration>,
    /// What each client loads.
    pub load: LoadModel,
    /// A transfer that is not complete after this time has failed, "1 ms" to "7 d"; not with a load "perf", whose sizes have time-outs of their own. Default: "120 s"; "10 min" for the loads "markov", "tor-users" and "replay", none for "audio" and "video".
    #[schemars(with = "Option<DurationText>")]
    pub timeout: Option<SimDuration>,
    /// A transfer on which nothing happens for this time, no answer to its request for a stream and no byte either way, has failed, "1 ms" to "7 d". Default: "30 s", with the loads "audio" and "video" twice their interval if that is longer; "5 min" for "markov", "tor-users" and "replay", none for "perf".
    #[schemars(with = "Option<DurationText>")]
    pub stall: Option<SimDuration>,
    /// The servers close a connection of these clients' streams on which they have neither received nor written anything for this time, "1 s" to "7 d"; not with `onion`. tgen's do after 30 s where they are told nothing else. Default: they wait for ever.
    #[schemars(with = "Option<DurationText>")]
    pub server_stall: Option<SimDuration>,
    /// A circuit takes no new stream so long after its first (tor's `MaxCircuitDirtiness`, which it raises to 10 s), "1 s" to "7 d". Default: the treatment's `circuit-lifetime`; with a load "perf" 10 s, as tornettools sets it.
    #[schemars(with = "Option<DurationText>")]
    pub circuit_lifetime: Option<SimDuration>,
    /// A stream whose exit does not answer for this time tries another circuit (tor's `CircuitStreamTimeout`), "10 s" to "7 d". Default: 10 s twice, then 15 s each time.
    #[schemars(with = "Option<DurationText>")]
    pub circuit_stream_timeout: Option<SimDuration>,
    /// A stream that gets no circuit for this time has failed, and an older one tries no other circuit (tor's `SocksTimeout`), "1 s" to "7 d". A value must be below `timeout` and `stall`, which end a transfer in any case: for most loads after 30 s by default. Default: "120 s".
    #[schemars(with = "Option<DurationText>")]
    pub socks_timeout: Option<SimDuration>,
    /// While so many circuits are being built, none is launched for a stream (tor's `MaxClientCircuitsPending`), 1 to 1024; not with `onion`. Default: 32.
    #[schemars(range(min = 1, max = 1024))]
    pub max_client_circuits_pending: Option<u32>,
    /// How long tor waits between two looks for circuits that are to be closed (`NewCircuitPeriod`), "1 s" to "7 d". It looks when more than this has passed, once a second, and so a second later: every 31 s by default. Default: "30 s".
    #[schemars(with = "Option<DurationText>")]
    pub new_circuit_period: Option<SimDuration>,
    /// Access rate of each client towards the network; not in an explicit network nor with a network document. Default: the mean of consumers in its country, and with `users` at least 10 Mbit/s for each.
    #[schemars(with = "Option<BandwidthText>")]
    pub up: Option<Bandwidth>,
    /// Access rate of each client from the network; not in an explicit network nor with a network document. Default: the mean of consumers in its country, and with `users` at least 10 Mbit/s for each.
    #[schemars(with = "Option<BandwidthText>")]
    pub down: Option<Bandwidth>,
    /// Build a circuit for each transfer, or page. Default: false; the loads "perf", "markov", "tor-users" and "replay" do in any case.
    pub circuit_per_transfer: Option<bool>,
    /// Whether transfers and circuits of these clients have rows in the records; without, they are counted in the table `network` only. Default: true.
    pub record: Option<bool>,
    /// With flow-control "vegas": record the congestion control at the exits of these clients' circuits, a row for each SENDME, in the table `vegas`; with "predictor": each plan of relays for them, in the table `plans`. Not with `record = false`. Default: false.
    pub trace: Option<bool>,
    /// Record how long payload takes over these clients' circuits, from the exit to the entry, and how much of it arrives, for each circuit and sample interval, in the table `latency`. Not with `record = false`, `onion`, switching or links "light-and-heavy". Default: false.
    pub record_latency: Option<bool>,
    /// Follow a DATA cell that the client sends to the server each time so long has passed since the last, in the table `probes`, "1 ms" to "1 h": how long a cell of 498 B takes from the client's tor to the server. Not with `record = false`. Default: none is followed.
    #[schemars(with = "Option<DurationText>")]
    pub probe: Option<SimDuration>,
}

/// Set the number of clients by the utilisation that they shall cause.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "LoadTarget")]
pub struct LoadTargetFile {
    /// Offered load as a share of the capacity of the relays meant by `position`; above 1 means overload. Above 0, at most 4. Other relays may be used more or less: a run's `divergence_json` has what is expected of each class.
    #[schemars(range(min = 0.0, max = 4.0))]
    pub utilisation: f64,
    /// The position in the path whose relays are meant, those that serve it alone: guards that are no exits, exits that are no guards, or relays that are neither. Where there are none of them, relays that are guards and exits.
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

impl Position {
    /// As the file has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Guard => "guard",
            Self::Middle => "middle",
            Self::Exit => "exit",
        }
    }
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

impl<'de> Deserialize<'de> for StartFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = StartFile;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as \"5 s\" or a range such as { from = \"5 s\", to = \"20 s\" }")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<StartFile, E> {
                text.parse().map(StartFile::At).map_err(E::custom)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<StartFile, A::Error> {
                StartRange::deserialize(MapAccessDeserializer::new(map)).map(StartFile::Between)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for StartFile {
    fn schema_name() -> Cow<'static, str> {
        "Start".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let at = generator.subschema_for::<DurationText>();
        let between = generator.subschema_for::<StartRange>();
        json_schema!({ "anyOf": [at, between] })
    }
}
