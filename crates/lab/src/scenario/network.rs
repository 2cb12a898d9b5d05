//! The `[network]` table: a real consensus, the built-in synthetic one, a network document, or every host by hand.

use super::text::{BandwidthText, BytesText, DurationText, names};
use onionlab_quantities::{Bandwidth, Bytes, SimDuration};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// Where a network comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkKind {
    /// Relays sampled from a consensus document.
    Consensus,
    /// Relays sampled from onionlab's own model of a consensus, fitted to real ones.
    Synthetic,
    /// A network made elsewhere, host by host in a document of its own (`onionlab import`).
    File,
    /// Every host, link and path by hand.
    Explicit,
}

/// The network. Which keys apply depends on `kind`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "Network")]
pub struct NetworkFile {
    /// "consensus": sample a consensus document; "synthetic": sample the built-in model; "file": read a network document; "explicit": name every host.
    pub kind: NetworkKind,
    /// Kind "consensus": the document, microdescriptor flavour or plain, as text, .xz or .gz. Kind "file": the network document, as `onionlab schema network` describes it. Relative to the experiment file.
    #[schemars(length(min = 1, max = 4096))]
    pub path: Option<String>,
    /// Kinds "consensus" and "synthetic": how many relays to sample, 3 at least, of kind "synthetic" 4. Give this or `scale`. Default: 100.
    #[schemars(range(min = 3, max = 100_000))]
    pub relays: Option<u32>,
    /// Kinds "consensus" and "synthetic": the share of all relays to sample, above 0 and at most 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub scale: Option<f64>,
    /// Kind "synthetic": the year whose Tor network is modelled, 2021 to 2026; 2024.5 is halfway from 2024's to 2025's. Default: 2025.
    #[schemars(range(min = 2021, max = 2026))]
    pub year: Option<f64>,
    /// Kinds "consensus" and "synthetic": how a relay's link rate follows from its class and consensus weight.
    pub capacity: Option<CapacityFile>,
    /// All kinds but "explicit": "built-in" (regions), or the path of a table of round-trip times between countries. Default: "built-in".
    #[schemars(length(min = 1, max = 4096))]
    pub latency: Option<String>,
    /// All kinds but "explicit": every round trip of the table times so much, 0.1 to 10. Default: 1.
    #[schemars(range(min = 0.1, max = 10.0))]
    pub latency_factor: Option<f64>,
    /// All kinds but "explicit": no round trip of the table, times the factor, is shorter than this, up to 10 s: a last mile at both ends, as pings between homes have it. Default: "0 s".
    #[schemars(with = "Option<DurationText>")]
    pub latency_floor: Option<SimDuration>,
    /// All kinds but "explicit": round trips between two countries of the table, or within one, that are known otherwise, up to 20 s: `{ DE-FR = "66 ms", DE-DE = "38 ms" }`. Neither factor nor floor change them. Default: none.
    #[schemars(with = "Option<BTreeMap<String, DurationText>>")]
    pub latency_between: Option<BTreeMap<String, SimDuration>>,
    /// Kind "consensus": the path of tor's `geoip` file, which gives each relay its country. Default: places drawn from a built-in distribution.
    #[schemars(length(min = 1, max = 4096))]
    pub geoip: Option<String>,
    /// All kinds but "explicit": whether the latency of paths varies as the table says. Default: true.
    pub jitter: Option<bool>,
    /// How far true latencies deviate from what the network says, 0 to 10: the latency of each host's access link, half of each path's, is that times a factor drawn by the host's name from 1 less this (at least 0.01) to 1 more than this. What plans with latencies (flow-control "predictor") goes on with what the network says. Default: 0.
    #[schemars(range(min = 0.0, max = 10.0))]
    pub latency_error: Option<f64>,
    /// All kinds but "explicit": chance that a packet is lost on any path, 0 to 0.5. Default: 0.
    #[schemars(range(min = 0.0, max = 0.5))]
    pub loss: Option<f64>,
    /// Kinds "consensus" and "synthetic": number of servers that clients load from. Default: 10.
    #[schemars(range(min = 1, max = 100_000))]
    pub servers: Option<u32>,
    /// Kinds "consensus" and "synthetic": access rate of each server, up and down. Default: "10 Gbit/s".
    #[schemars(with = "Option<BandwidthText>")]
    pub server_rate: Option<Bandwidth>,
    /// Which relays are of one family, no two of which stand in a circuit: "none", "model" (made up, with sizes as in 2025), or the path of a file with the relays' microdescriptors or server descriptors, or with the fingerprints or names of one family on each line. Kind "explicit": a list of lists of names instead. Not with kind "file". Default: "none".
    pub families: Option<FamiliesFile>,
    /// Kinds "consensus" and "synthetic": which ports exits serve: "consensus" (its own `p` lines, which only the plain flavour has), "flag" (ports 80 and 443 at relays with the Exit flag) or "model" (drawn for each relay as they were spread in 2022). Default: "consensus" where there are `p` lines, else "flag".
    pub exit_policies: Option<ExitPolicies>,
    /// Kind "explicit": one-way latency between hosts that no entry of `links` joins. Default: "50 ms".
    #[schemars(with = "Option<DurationText>")]
    pub default_latency: Option<SimDuration>,
    /// Kind "explicit": the hosts.
    #[schemars(length(min = 1, max = 100_000))]
    pub hosts: Option<Vec<HostFile>>,
    /// Kind "explicit": latency, loss and jitter between pairs of hosts.
    #[schemars(length(max = 1_000_000))]
    pub links: Option<Vec<LinkFile>>,
}

/// Which relays are of one family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FamiliesFile {
    /// "none", "model" or a path.
    Source(String),
    /// Names of hosts, family by family.
    Lists(Vec<Vec<String>>),
}

impl<'de> Deserialize<'de> for FamiliesFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = FamiliesFile;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"none\", \"model\", a path, or in an explicit network a list such as [[\"relay1\", \"relay2\"]]")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<FamiliesFile, E> {
                Ok(FamiliesFile::Source(text.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<FamiliesFile, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(FamiliesFile::Lists)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for FamiliesFile {
    fn schema_name() -> Cow<'static, str> {
        "Families".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "type": "string", "minLength": 1, "maxLength": 4096 },
                { "type": "array", "items": { "type": "array", "items": { "type": "string" }, "minItems": 1 } }
            ]
        })
    }
}

/// Which ports exits serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExitPolicies {
    /// What the consensus document says.
    Consensus,
    /// Ports 80 and 443 at relays with the Exit flag.
    Flag,
    /// Drawn for each relay by its class, as they were spread in November 2022.
    Model,
}

/// How a relay's link rate follows from its class and consensus weight.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "Capacity")]
pub struct CapacityFile {
    /// The rate of every relay times this. Default: 1.0.
    #[schemars(range(min = 0.001, max = 1000.0))]
    pub factor: Option<f64>,
    /// Whether rates spread around the fitted function as those of real relays do. Default: true.
    pub spread: Option<bool>,
    /// Another function for relays with the Guard flag only.
    pub guard: Option<PowerFile>,
    /// Another function for relays with neither the Guard nor the Exit flag.
    pub middle: Option<PowerFile>,
    /// Another function for relays with the Exit flag only.
    pub exit: Option<PowerFile>,
    /// Another function for relays with both flags.
    pub guard_exit: Option<PowerFile>,
}

/// Link rate = mean rate of the network * factor * (weight / mean weight) ^ exponent.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "Power")]
pub struct PowerFile {
    /// Rate of a relay of mean weight, in multiples of the network's mean rate.
    #[schemars(range(min = 0.001, max = 1000.0))]
    pub factor: f64,
    /// Power with which the rate grows with the weight.
    #[schemars(range(min = 0.001, max = 10.0))]
    pub exponent: f64,
}

/// What a host of an explicit network does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A relay with the Guard flag.
    Guard,
    /// A relay with neither the Guard nor the Exit flag.
    Middle,
    /// A relay with the Exit flag.
    Exit,
    /// A relay with the Guard and the Exit flag.
    GuardExit,
    /// A server that clients load from.
    Server,
    /// A client.
    Client,
}

impl Role {
    /// The role as it is written in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Guard => "guard",
            Self::Middle => "middle",
            Self::Exit => "exit",
            Self::GuardExit => "guard-exit",
            Self::Server => "server",
            Self::Client => "client",
        }
    }

    /// Whether the host is a relay.
    pub const fn is_relay(self) -> bool {
        matches!(self, Self::Guard | Self::Middle | Self::Exit | Self::GuardExit)
    }
}

/// One host of an explicit network.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "Host")]
pub struct HostFile {
    /// The host's name, unique: letters, digits, ".", "_" and "-", at most 64 of them.
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9._-]+$"))]
    pub name: String,
    /// What the host does.
    pub role: Role,
    /// Rate of its access link towards the network.
    #[schemars(with = "BandwidthText")]
    pub up: Bandwidth,
    /// Rate of its access link from the network.
    #[schemars(with = "BandwidthText")]
    pub down: Bandwidth,
    /// Relays: tor's `BandwidthRate`, a limit on what the relay reads and on what it writes. Default: no limit, or 1 GiB/s beside `relay-rate`.
    #[schemars(with = "Option<BandwidthText>")]
    pub rate: Option<Bandwidth>,
    /// Relays: tor's `BandwidthBurst`. Default: one second at `rate`, or "16 KiB" if that is more. Less than a second, which tor refuses, is allowed; tokens beyond it are lost.
    #[schemars(with = "Option<BytesText>")]
    pub burst: Option<Bytes>,
    /// Relays: tor's `RelayBandwidthRate`, a limit on what the relay reads and writes over channels; its connections to servers count for `rate` alone. Default: as `rate`.
    #[schemars(with = "Option<BandwidthText>")]
    pub relay_rate: Option<Bandwidth>,
    /// Relays: tor's `RelayBandwidthBurst`. Default and less than a second: as of `burst`.
    #[schemars(with = "Option<BytesText>")]
    pub relay_burst: Option<Bytes>,
    /// Relays: consensus weight, by which paths that are not given are drawn. Default: the lesser of `up` and `down` in kB/s.
    #[schemars(range(min = 0, max = 4_294_967_295_u64))]
    pub weight: Option<u32>,
}

/// What lies between two hosts of an explicit network, the same in both directions.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "Link")]
pub struct LinkFile {
    /// The names of the two hosts.
    #[serde(deserialize_with = "names")]
    pub between: [String; 2],
    /// One-way latency, at most "10 s".
    #[schemars(with = "DurationText")]
    pub latency: SimDuration,
    /// Chance that a packet is lost, in each direction, independent of all others: 0 to 0.5. Default: 0.
    #[schemars(range(min = 0.0, max = 0.5))]
    pub loss: Option<f64>,
    /// Mean of an additional exponential delay of each packet; packets of a connection stay in order. Default: "0 s".
    #[schemars(with = "Option<DurationText>")]
    pub jitter: Option<SimDuration>,
    /// Whether the two are beside each other, as programs of one host: what passes between them takes neither's access link, so that only the latency counts. Default: false.
    pub beside: Option<bool>,
}
