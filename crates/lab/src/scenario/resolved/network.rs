//! The checked network.

use super::FileRef;
use crate::scenario::document::NetworkDocument;
use crate::scenario::network::{ExitPolicies, PowerFile, Role};
use onionlab_quantities::{Bandwidth, Bytes, SimDuration};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many relays are sampled.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Size {
    /// This many.
    Relays(u32),
    /// This share of all.
    Scale(f64),
}

/// The network.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Network {
    /// Sampled from a consensus document.
    Consensus(ConsensusNetwork),
    /// Sampled from the built-in model.
    Synthetic(SyntheticNetwork),
    /// Made elsewhere.
    File(FileNetwork),
    /// By hand.
    Explicit(ExplicitNetwork),
}

/// A network sampled from a consensus document.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ConsensusNetwork {
    /// The document.
    pub document: FileRef,
    /// Countries of addresses; `None`: drawn.
    pub geoip: Option<FileRef>,
    /// What sampled networks of both kinds have.
    #[serde(flatten)]
    pub common: SampledNetwork,
}

/// A network sampled from the built-in model.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct SyntheticNetwork {
    /// The year modelled.
    #[serde(serialize_with = "whole_if_it_is")]
    pub year: f64,
    /// What sampled networks of both kinds have.
    #[serde(flatten)]
    pub common: SampledNetwork,
}

/// A network made elsewhere.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct FileNetwork {
    /// The network document.
    pub document: FileRef,
    /// What its paths are like.
    #[serde(flatten)]
    pub paths: PlacedPaths,
    /// What the document says.
    #[serde(skip)]
    pub network: Arc<NetworkDocument>,
}

/// Paths between hosts of which each has a place.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PlacedPaths {
    /// Table of round-trip times between countries; `None`: the built-in regions.
    pub latency: Option<FileRef>,
    /// All round trips times so much.
    pub latency_factor: f64,
    /// And none of them shorter than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_floor: Option<SimDuration>,
    /// But those between two countries that are known otherwise, by their codes in the order of the alphabet.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub latency_between: BTreeMap<String, SimDuration>,
    /// Whether latencies vary as the table says.
    pub jitter: bool,
    /// Chance of loss of a packet on any path.
    pub loss: f64,
}

/// 2024 and not 2024.0, but 2024.5.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn whole_if_it_is<S: serde::Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    let whole = libm::trunc(*number);
    if (whole - number).abs() < f64::EPSILON { serializer.serialize_u64(whole as u64) } else { serializer.serialize_f64(*number) }
}

/// What sampled networks of both kinds have.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct SampledNetwork {
    /// How many relays.
    pub size: Size,
    /// From class and consensus weight to link rate.
    pub capacity: Capacity,
    /// What its paths are like.
    #[serde(flatten)]
    pub paths: PlacedPaths,
    /// Number of servers.
    pub servers: u32,
    /// Access rate of each server, up and down.
    pub server_rate: Bandwidth,
    /// Who is of one family; `None`: nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub families: Option<FamilySource>,
    /// Which ports exits serve; `None`: what the document says, else what the flag means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_policies: Option<ExitPolicies>,
}

/// Where the families of a sampled network come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FamilySource {
    /// Made up.
    Model,
    /// What a file declares.
    File(FileRef),
}

/// From class and consensus weight to link rate; `None` keeps the fitted function of a class.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Capacity {
    /// Factor on every rate.
    pub factor: f64,
    /// Whether rates spread around the function.
    pub spread: bool,
    /// For relays with the Guard flag only.
    pub guard: Option<PowerFile>,
    /// For relays with neither flag.
    pub middle: Option<PowerFile>,
    /// For relays with the Exit flag only.
    pub exit: Option<PowerFile>,
    /// For relays with both.
    pub guard_exit: Option<PowerFile>,
}

/// A network by hand.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ExplicitNetwork {
    /// One-way latency where no link says otherwise.
    pub default_latency: SimDuration,
    /// The hosts in the order of the file.
    pub hosts: Vec<Host>,
    /// The links, by index of host.
    pub links: Vec<Link>,
    /// Relays of one family, by index of host, family by family.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub families: Vec<Vec<u32>>,
}

/// A host of a network by hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Host {
    /// Its name.
    pub name: String,
    /// What it does.
    pub role: Role,
    /// Access rate towards the network.
    pub up: Bandwidth,
    /// Access rate from the network.
    pub down: Bandwidth,
    /// `BandwidthRate` and `BandwidthBurst`.
    pub limit: Option<RateLimit>,
    /// Consensus weight of a relay; 0 for other hosts.
    pub weight: u32,
}

/// Slowest and fastest rate of an access link, and of a relay's limit.
pub(crate) const RATES: (Bandwidth, Bandwidth) =
    (Bandwidth::from_bits_per_sec(1000), Bandwidth::from_bits_per_sec(1_000_000_000_000));

/// A relay's limit on what it reads and on what it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RateLimit {
    /// `BandwidthRate`.
    pub rate: Bandwidth,
    /// `BandwidthBurst`.
    pub burst: Bytes,
    /// `RelayBandwidthRate` and `RelayBandwidthBurst`, for what passes over channels.
    pub relayed: Option<(Bandwidth, Bytes)>,
}

impl RateLimit {
    /// Least and largest burst. The least is what one TLS record takes, without which nothing moves.
    pub(crate) const BURSTS: (Bytes, Bytes) = (Bytes::new(16_384), Bytes::new(1 << 40));

    /// The burst where only the rate is given: one second at that rate, or the least burst if that is more.
    pub(crate) fn usual_burst(rate: Bandwidth) -> Bytes {
        Bytes::new(rate.as_bytes_per_sec()).max(Self::BURSTS.0)
    }

    /// Of rate and burst for everything, and for what passes over channels; none where neither is limited. Without the first they are tor's defaults,
    /// 2^30 bytes a second in all versions.
    pub(crate) fn of(all: Option<(Bandwidth, Bytes)>, relayed: Option<(Bandwidth, Bytes)>) -> Option<Self> {
        if all.is_none() && relayed.is_none() {
            return None;
        }
        let (rate, burst) = all.unwrap_or((Bandwidth::from_bytes_per_sec(1 << 30), Bytes::new(1 << 30)));
        Some(Self { rate, burst, relayed })
    }

    /// As a relay's tor has it.
    pub(crate) const fn for_tor(self) -> onionlab_tor::RateLimit {
        onionlab_tor::RateLimit { rate: self.rate, burst: self.burst, relayed: self.relayed }
    }
}

/// A link of a network by hand.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Link {
    /// The hosts' indices, the lesser first.
    pub between: [u32; 2],
    /// One-way latency.
    pub latency: SimDuration,
    /// Chance of loss of a packet.
    pub loss: f64,
    /// Mean extra delay of a packet.
    pub jitter: SimDuration,
    /// What passes between them takes neither's access link.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub beside: bool,
}
