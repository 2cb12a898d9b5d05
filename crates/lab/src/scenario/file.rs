//! The experiment file as it is written: the one definition of the format.
//!
//! serde reads it, `schemars` prints its JSON Schema, and the doc comment of each field is the field's description there.
//! Nothing here looks at the machine or fills a default: see [`super::resolve`](mod@super::resolve).

use super::clients::{ClientsFile, LoadTargetFile};
use super::network::NetworkFile;
use super::sweep::SweepFile;
use super::text::DurationText;
use super::treatment::{BaseFile, TreatmentFile};
use onionlab_quantities::SimDuration;
use schemars::JsonSchema;
use serde::Deserialize;

/// An onionlab experiment: a network, a load, the treatments to compare, and how often to repeat it.
///
/// Every (treatment, network, seed) combination is one run. Quantities are texts with a unit, such as "20 ms", "320 KiB", "1.5 Mbit/s".
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(title = "onionlab experiment")]
pub struct ScenarioFile {
    /// What the experiment asks, in one line; it heads the report. At most 300 characters.
    #[schemars(length(min = 1, max = 300))]
    pub title: String,
    /// Simulated time of each run, at most "7 d".
    #[schemars(with = "DurationText")]
    pub duration: SimDuration,
    /// Statistics ignore transfers that start before this simulated time. Default: "0 s".
    #[schemars(with = "Option<DurationText>")]
    pub measure_from: Option<SimDuration>,
    /// How many networks are sampled; runs of different networks are independent of each other. More than 1 not with network kinds "explicit" and "file", which are one network. Default: 1.
    #[schemars(range(min = 1, max = 10_000))]
    pub networks: Option<u32>,
    /// The seed from which the seed of each sampled network is derived. Default: 1.
    #[schemars(range(min = 0, max = 9_223_372_036_854_775_807_u64))]
    pub base_seed: Option<u64>,
    /// Seeds of the runs within each network: paths, start times, load, loss. Default: [1].
    #[schemars(length(min = 1, max = 10_000))]
    pub seeds: Option<Vec<u64>>,
    /// How often the tables `relays` and `network` take a sample. Default: "1 s"; at most a million samples in a run.
    #[schemars(with = "Option<DurationText>")]
    pub sample_interval: Option<SimDuration>,
    /// The network.
    pub network: NetworkFile,
    /// The groups of clients and what they load; at least one.
    #[schemars(length(min = 1, max = 1000))]
    pub clients: Vec<ClientsFile>,
    /// Set the load by the utilisation of the relays instead of by the number of clients. Not with network kinds "explicit" and "file", nor with `onion`.
    pub load_target: Option<LoadTargetFile>,
    /// Settings common to all treatments.
    pub base: Option<BaseFile>,
    /// The treatments to compare; the first is the one that the others are held against. Default: one, named "base".
    #[schemars(length(min = 1, max = 1000))]
    pub treatments: Option<Vec<TreatmentFile>>,
    /// Run all this at several points: keys of this file, each with the values that it takes. Several keys make a grid of at most 1000 points.
    pub sweep: Option<SweepFile>,
}
