//! The checked experiment: every default filled in, every reference to a file settled, nothing left that could be wrong.

mod clients;
mod computing;
mod network;
mod scheduling;
mod transport;
mod treatment;

pub use clients::{ClientGroup, LoadTarget, Members};
pub use computing::Computing;
pub(crate) use network::RATES;
pub use network::{
    Capacity, ConsensusNetwork, ExplicitNetwork, FamilySource, FileNetwork, Host, Link, Network, PlacedPaths, RateLimit,
    SampledNetwork, Size, SyntheticNetwork,
};
pub use scheduling::Scheduling;
pub use transport::Transport;
pub use treatment::Treatment;

use super::sweep::Point;
use onionlab_quantities::{RandomStream, Seed, SimDuration};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A checked experiment. Its JSON is canonical: the same experiment gives the same bytes on every machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ResolvedScenario {
    /// What the experiment asks.
    pub title: String,
    /// Simulated time of each run.
    pub duration: SimDuration,
    /// Statistics ignore transfers that start before.
    pub measure_from: SimDuration,
    /// Number of sampled networks.
    pub networks: u32,
    /// From which the networks' seeds are derived.
    pub base_seed: u64,
    /// Seeds of runs within each network.
    pub seeds: Vec<u64>,
    /// Sampling interval of the tables `relays` and `network`.
    pub sample_interval: SimDuration,
    /// The network.
    pub network: Network,
    /// How far the latencies of access links deviate from what the network says.
    #[serde(skip_serializing_if = "is_zero")]
    pub latency_error: f64,
    /// The groups of clients.
    pub clients: Vec<ClientGroup>,
    /// The utilisation wanted, where the number of clients follows from it.
    pub load_target: Option<LoadTarget>,
    /// The treatments.
    pub treatments: Vec<Treatment>,
    /// The point of the sweep at which the experiment is this one. It is no part of what happens in a run.
    #[serde(skip)]
    pub point: Option<Point>,
}

/// Which of an experiment's runs, at one point of its sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunKey {
    /// Index of the treatment.
    pub treatment: usize,
    /// Index of the network.
    pub network: u32,
    /// The run's seed.
    pub seed: u64,
}

/// One run of an experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedRun {
    /// Name of the treatment.
    pub treatment: String,
    /// Its index in the experiment.
    pub treatment_index: usize,
    /// Index of the network.
    pub network: u32,
    /// The run's seed.
    pub seed: u64,
    /// Name of the directory that holds the run's records.
    pub directory: String,
    /// The point of the sweep, by its number; `None` without a sweep.
    pub point: Option<usize>,
    /// Further points that the run serves: they differ only in keys of other treatments.
    pub also: Vec<usize>,
}

impl PlannedRun {
    /// Which one it is, at its point.
    pub const fn key(&self) -> RunKey {
        RunKey { treatment: self.treatment_index, network: self.network, seed: self.seed }
    }
}

/// All runs of an experiment, given the experiment at each of its points: network by network, within it seed by seed, point by point, and treatment by treatment, so
/// that pairs are complete early.
pub fn plan(points: &[ResolvedScenario]) -> Vec<PlannedRun> {
    let Some(first) = points.first() else { return Vec::new() };
    let mut runs: Vec<PlannedRun> = Vec::new();
    for network in 0..first.networks {
        for &seed in &first.seeds {
            let mut there: BTreeMap<String, usize> = BTreeMap::new();
            for scenario in points {
                let point = scenario.point.as_ref().map(|point| point.index);
                for (treatment_index, treatment) in scenario.treatments.iter().enumerate() {
                    let part = scenario.point.as_ref().and_then(|point| point.directory_part(treatment_index));
                    let part = part.map_or_else(String::new, |part| format!("--{part}"));
                    let directory = format!("{}{part}--net{network}--seed{seed}", treatment.slug);
                    if let Some(&run) = there.get(&directory) {
                        runs[run].also.extend(point);
                        continue;
                    }
                    there.insert(directory.clone(), runs.len());
                    let treatment = treatment.name.clone();
                    runs.push(PlannedRun { treatment, treatment_index, network, seed, directory, point, also: Vec::new() });
                }
            }
        }
    }
    runs
}

/// How many runs [`plan`] would have at most, if no two points shared any.
pub(crate) fn most_runs(points: &[ResolvedScenario]) -> usize {
    let runs = |point: &ResolvedScenario| point.treatments.len() * point.seeds.len() * point.networks as usize;
    points.iter().map(runs).sum()
}

impl ResolvedScenario {
    /// Whether there are onion services.
    pub fn has_onion_services(&self) -> bool {
        self.clients.iter().any(|group| group.onion.is_some())
    }

    /// The experiment as JSON with sorted keys, which `run.parquet` keeps and by which a finished run is recognised.
    pub fn to_json(&self) -> String {
        serde_json::to_value(self).expect("no map with keys other than strings").to_string()
    }

    /// The same experiment, over at `duration`; where statistics would not have begun by then, or not every client, then just after.
    #[must_use]
    pub fn ending_at(&self, duration: SimDuration) -> Self {
        let starts = self.clients.iter().map(|group| group.start.to);
        let least = starts.fold(self.measure_from, SimDuration::max) + SimDuration::from_nanos(1);
        let duration = duration.max(least).min(self.duration);
        let mut sooner = Self { duration, ..self.clone() };
        for group in &mut sooner.clients {
            group.stop = group.stop.min(duration);
        }
        sooner
    }

    /// The seed of the network with this index: places, sampling, capacities.
    pub fn network_seed(&self, index: u32) -> Seed {
        Seed(RandomStream::new(Seed(self.base_seed), "network", "seed").at(u64::from(index)).bits())
    }

    /// The seed of everything that a run draws within its network. Runs of different networks share no values.
    pub fn run_seed(&self, index: u32, seed: u64) -> Seed {
        Seed(RandomStream::new(self.network_seed(index), "run", "seed").at(seed).bits())
    }

    /// The runs of this point, or all runs where there is no sweep: see [`plan`].
    pub fn plan(&self) -> Vec<PlannedRun> {
        plan(std::slice::from_ref(self))
    }
}

/// A file that the experiment names, by what is in it: the place on a machine is no part of an experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct FileRef {
    /// The path as written in the experiment file.
    pub path: String,
    /// xxh3-64 of the content, in hexadecimal.
    pub digest: String,
    /// Where it was found.
    #[serde(skip)]
    pub location: PathBuf,
}

/// Zero.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &f64) -> bool {
    *number == 0.0
}
