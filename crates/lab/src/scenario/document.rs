//! The network document: a network that was made elsewhere, host by host, as a JSON file beside the experiment file.
//!
//! `onionlab import` writes it; the types here are the one definition of the format, and its JSON Schema is printed from them. A document says what
//! the network *is*: relays with flags, places, rates and weights, servers, clients. What the clients do and when is in the experiment file, whose
//! groups of clients are those of the document. The file is input from anywhere: its size and counts are bounded, and what is wrong with it is
//! one sentence.

use super::error::clipped;
use super::resolved::{RATES, RateLimit};
use super::text::{BandwidthText, BytesText, DurationText};
use onionlab_directory::{Flag, Flags, PortSummary};
use onionlab_net::latency::Country;
use onionlab_quantities::{Bandwidth, Bytes, SimDuration};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// What `format` says.
pub const FORMAT: &str = "onionlab-network";
/// The version of the format that is read.
pub const VERSION: u32 = 1;
/// The largest document that is read.
pub const MAX_BYTES: u64 = 128 << 20;
/// Most relays and most servers of a document.
const MAX_HOSTS: usize = 100_000;
/// Most clients of a document.
const MAX_CLIENTS: usize = 1_000_000;
/// Longest access delay, one way.
const MAX_ACCESS_DELAY: SimDuration = SimDuration::from_secs(10);

/// A network that was made elsewhere, host by host.
///
/// Quantities are texts with a unit, as in an experiment file. Names are unique in the whole document.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(title = "onionlab network", rename = "NetworkDocument")]
pub struct NetworkDocument {
    /// "onionlab-network".
    #[schemars(regex(pattern = r"^onionlab-network$"))]
    pub format: String,
    /// The version of the format: 1.
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// What the document was made from, for people. At most 1000 characters.
    #[schemars(length(max = 1000))]
    pub source: String,
    /// Parameters of the network's consensus, by tor's names. Default: none, so that the defaults of the version of tor apply.
    #[serde(default)]
    pub consensus_params: BTreeMap<String, i32>,
    /// Whether clients take no two relays of one IPv4 /16 into a path (tor's `EnforceDistinctSubnets`; 0 in testing networks, and so in Shadow's). Default: true.
    #[serde(default = "yes")]
    pub distinct_subnets: bool,
    /// The relays: at least three, in any order.
    #[schemars(length(min = 3, max = 100_000))]
    pub relays: Vec<DocumentRelay>,
    /// The servers that clients load from; at least one.
    #[schemars(length(min = 1, max = 100_000))]
    pub servers: Vec<DocumentHost>,
    /// The clients; at least one.
    #[schemars(length(min = 1, max = 1_000_000))]
    pub clients: Vec<DocumentClient>,
}

const fn yes() -> bool {
    true
}

/// A relay.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "DocumentRelay")]
pub struct DocumentRelay {
    /// Its name: letters, digits, ".", "_" and "-", at most 64 of them.
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9._-]+$"))]
    pub name: String,
    /// Its flags as an `s` line of a consensus has them, such as "Exit Fast Guard Running Stable Valid".
    #[schemars(with = "String")]
    pub flags: Flags,
    /// Its IPv4 address.
    #[schemars(with = "String")]
    pub address: Ipv4Addr,
    /// Its consensus weight.
    #[schemars(range(min = 0, max = 4_294_967_295_u64))]
    pub weight: u32,
    /// Exit policy as a `p` line summarises it, such as "accept 80,443". Default: every port with the Exit flag, none without.
    #[serde(default, deserialize_with = "policy")]
    #[schemars(with = "Option<String>")]
    pub exit_policy: Option<PortSummary>,
    /// Its country, two letters; one that has no place in the latency table counts as the nearest that has, an unknown code as anywhere, each place equally likely. Default: drawn from the places of relays.
    #[serde(default, deserialize_with = "country")]
    #[schemars(with = "Option<String>", regex(pattern = r"^[A-Za-z]{2}$"))]
    pub country: Option<Country>,
    /// One-way delay between the host and the core of its place, at most "10 s". Default: drawn as for relays and servers in data centres.
    #[schemars(with = "Option<DurationText>")]
    pub access_delay: Option<SimDuration>,
    /// Rate of its access link towards the network.
    #[schemars(with = "BandwidthText")]
    pub up: Bandwidth,
    /// Rate of its access link from the network.
    #[schemars(with = "BandwidthText")]
    pub down: Bandwidth,
    /// Tor's `BandwidthRate`, a limit on what the relay reads and on what it writes. Default: no limit, or 1 GiB/s beside `relay-rate`.
    #[schemars(with = "Option<BandwidthText>")]
    pub rate: Option<Bandwidth>,
    /// Tor's `BandwidthBurst`. Default: one second at `rate`, or "16 KiB" if that is more.
    #[schemars(with = "Option<BytesText>")]
    pub burst: Option<Bytes>,
    /// Tor's `RelayBandwidthRate`, a limit on what the relay reads and writes over channels; its connections to servers count for `rate` alone. Default: as `rate`.
    #[schemars(with = "Option<BandwidthText>")]
    pub relay_rate: Option<Bandwidth>,
    /// Tor's `RelayBandwidthBurst`. Default: one second at `relay-rate`, or "16 KiB" if that is more.
    #[schemars(with = "Option<BytesText>")]
    pub relay_burst: Option<Bytes>,
}

/// A server.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "DocumentServer")]
pub struct DocumentHost {
    /// Its name: letters, digits, ".", "_" and "-", at most 64 of them.
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9._-]+$"))]
    pub name: String,
    /// Its country, as a relay's. Default: drawn from the places of servers.
    #[serde(default, deserialize_with = "country")]
    #[schemars(with = "Option<String>", regex(pattern = r"^[A-Za-z]{2}$"))]
    pub country: Option<Country>,
    /// One-way delay between the host and the core of its place, at most "10 s". Default: drawn as for relays and servers in data centres.
    #[schemars(with = "Option<DurationText>")]
    pub access_delay: Option<SimDuration>,
    /// Rate of its access link towards the network.
    #[schemars(with = "BandwidthText")]
    pub up: Bandwidth,
    /// Rate of its access link from the network.
    #[schemars(with = "BandwidthText")]
    pub down: Bandwidth,
}

/// A client.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "DocumentClient")]
pub struct DocumentClient {
    /// Its name: letters, digits, ".", "_" and "-", at most 64 of them.
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9._-]+$"))]
    pub name: String,
    /// The group of the experiment file that it belongs to. Clients of groups that the experiment does not have are left out.
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9._-]+$"))]
    pub group: String,
    /// Its country, as a relay's. Default: drawn from the places of users.
    #[serde(default, deserialize_with = "country")]
    #[schemars(with = "Option<String>", regex(pattern = r"^[A-Za-z]{2}$"))]
    pub country: Option<Country>,
    /// One-way delay between the host and the core of its place, at most "10 s". Default: drawn as for consumers.
    #[schemars(with = "Option<DurationText>")]
    pub access_delay: Option<SimDuration>,
    /// Rate of its access link towards the network. Default: the mean of consumers in its country.
    #[schemars(with = "Option<BandwidthText>")]
    pub up: Option<Bandwidth>,
    /// Rate of its access link from the network. Default: the mean of consumers in its country.
    #[schemars(with = "Option<BandwidthText>")]
    pub down: Option<Bandwidth>,
}

fn country<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Country>, D::Error> {
    let Some(code) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let wrong = || serde::de::Error::custom(format!("a country of two letters is needed, not \"{}\"", clipped(&code, 20)));
    Country::parse(&code).map(Some).ok_or_else(wrong)
}

fn policy<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PortSummary>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

impl NetworkDocument {
    /// Reads and checks a document.
    ///
    /// # Errors
    /// One sentence (without its end): not JSON, not of this format or version, or a host that cannot be.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        /// What is looked at first, so that a file of another kind or version is called that.
        #[derive(Deserialize)]
        struct Head {
            format: Option<serde_json::Value>,
            version: Option<serde_json::Value>,
        }
        let wrong = |error: serde_json::Error| clipped(&error.to_string(), 300);
        let head: Head = serde_json::from_slice(bytes).map_err(wrong)?;
        if head.format != Some(FORMAT.into()) {
            return Err(format!("it is no network document: its `format` is not \"{FORMAT}\""));
        }
        if head.version != Some(VERSION.into()) {
            let version = head.version.unwrap_or_default().to_string();
            return Err(format!("its `version` is {}, and only version {VERSION} can be read", clipped(&version, 20)));
        }
        let document: Self = serde_json::from_slice(bytes).map_err(wrong)?;
        document.check()?;
        Ok(document)
    }

    fn check(&self) -> Result<(), String> {
        if self.source.chars().count() > 1000 {
            return Err("its `source` has more than 1000 characters".to_owned());
        }
        between("relays", self.relays.len(), 3, MAX_HOSTS)?;
        between("servers", self.servers.len(), 1, MAX_HOSTS)?;
        between("clients", self.clients.len(), 1, MAX_CLIENTS)?;
        let mut taken = BTreeSet::new();
        let mut free = |name: &str| {
            named(name)?;
            if taken.insert(name.to_owned()) { Ok(()) } else { Err(format!("two hosts are called \"{name}\"")) }
        };
        for relay in &self.relays {
            free(&relay.name)?;
            relay.check()?;
        }
        for server in &self.servers {
            free(&server.name)?;
            rate(&server.name, "up", server.up)?;
            rate(&server.name, "down", server.down)?;
            delay(&server.name, server.access_delay)?;
        }
        for client in &self.clients {
            free(&client.name)?;
            named(&client.group)?;
            delay(&client.name, client.access_delay)?;
            for (key, given) in [("up", client.up), ("down", client.down)] {
                given.map_or(Ok(()), |given| rate(&client.name, key, given))?;
            }
        }
        let any = |flag| self.relays.iter().any(|relay| relay.flags.contains(flag));
        for flag in [Flag::Guard, Flag::Exit] {
            if !any(flag) {
                return Err(format!("none of its relays has the flag {}", flag.as_str()));
            }
        }
        Ok(())
    }

    /// How many clients the group has.
    pub fn clients_of(&self, group: &str) -> usize {
        self.clients.iter().filter(|client| client.group == group).count()
    }

    /// The names of the groups, sorted.
    pub fn groups(&self) -> BTreeSet<&str> {
        self.clients.iter().map(|client| client.group.as_str()).collect()
    }
}

impl DocumentRelay {
    fn check(&self) -> Result<(), String> {
        rate(&self.name, "up", self.up)?;
        rate(&self.name, "down", self.down)?;
        delay(&self.name, self.access_delay)?;
        bucket(&self.name, "", self.rate, self.burst)?;
        bucket(&self.name, "relay-", self.relay_rate, self.relay_burst)?;
        match (self.rate, self.relay_rate) {
            (Some(all), Some(relayed)) if relayed > all => {
                Err(format!("`relay-rate` of \"{}\" has no effect above `rate`, which limits everything", self.name))
            }
            _ => Ok(()),
        }
    }

    /// Its own limit.
    pub(crate) fn limit(&self) -> Option<RateLimit> {
        let bucket = |rate: Option<Bandwidth>, burst: Option<Bytes>| {
            rate.map(|rate| (rate, burst.unwrap_or_else(|| RateLimit::usual_burst(rate))))
        };
        RateLimit::of(bucket(self.rate, self.burst), bucket(self.relay_rate, self.relay_burst))
    }
}

fn named(name: &str) -> Result<(), String> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if !name.is_empty() && name.len() <= 64 && name.chars().all(good) {
        return Ok(());
    }
    Err(format!("\"{}\" is no name: 1 to 64 letters, digits, \".\", \"_\" or \"-\" are", clipped(name, 60)))
}

fn between(what: &str, count: usize, least: usize, most: usize) -> Result<(), String> {
    if (least..=most).contains(&count) { Ok(()) } else { Err(format!("it has {count} {what}, but must have {least} to {most}")) }
}

fn rate(name: &str, key: &str, rate: Bandwidth) -> Result<(), String> {
    let (least, most) = RATES;
    if (least..=most).contains(&rate) {
        return Ok(());
    }
    Err(format!("`{key}` of \"{name}\" is {rate}, but must be from {least} to {most}"))
}

/// A rate limit with its burst, keys with this prefix.
fn bucket(name: &str, prefix: &str, limit: Option<Bandwidth>, burst: Option<Bytes>) -> Result<(), String> {
    match (limit, burst) {
        (None, Some(_)) => return Err(format!("`{prefix}burst` of \"{name}\" has no effect without `{prefix}rate`")),
        (Some(limit), _) => rate(name, &format!("{prefix}rate"), limit)?,
        (None, None) => {}
    }
    let (least, most) = RateLimit::BURSTS;
    match burst {
        Some(burst) if !(least..=most).contains(&burst) => {
            Err(format!("`{prefix}burst` of \"{name}\" is {burst}, but must be from {least} to {most}"))
        }
        _ => Ok(()),
    }
}

fn delay(name: &str, delay: Option<SimDuration>) -> Result<(), String> {
    match delay {
        Some(delay) if delay > MAX_ACCESS_DELAY => {
            Err(format!("`access-delay` of \"{name}\" is {delay}, but must be at most {MAX_ACCESS_DELAY}"))
        }
        _ => Ok(()),
    }
}
