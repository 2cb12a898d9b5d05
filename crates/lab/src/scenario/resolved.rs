//! The checked experiment: every default filled in, every reference to a file settled, nothing left that could be wrong.

use super::client_options::ClientOptions;
use super::clients::{Position, StartRange};
use super::document::NetworkDocument;
use super::network::{ExitPolicies, PowerFile, Role};
use super::onion::Onion;
use super::own_policy::Policy;
use super::predictor::Predictor;
use super::some_relays::SomeRelays;
use super::sweep::Point;
use super::switching::Switching;
use super::treatment::{
    ChannelReads, ChannelScheduler, Circuitmux, CpuModel, DestroyCells, DownlinkQueue, Epoll, EwmaClock, FlowControl, Handshake,
    LinkProfile, LinkShaping, Links, MemoryCounts, RoundTrips, Tcp, Tls, TokenRefill, UplinkQueue,
};
use super::version::TorVersion;
use onionlab_load::LoadModel;
use onionlab_quantities::{Bandwidth, Bytes, RandomStream, Seed, SimDuration};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

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
    #[serde(skip_serializing_if = "is_none")]
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

/// Zero.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_none(number: &f64) -> bool {
    *number == 0.0
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
    /// The least burst: what one TLS record takes, without which nothing moves.
    pub(crate) const LEAST_BURST: Bytes = Bytes::new(16_384);

    /// The burst where only the rate is given: one second at that rate.
    pub(crate) fn usual_burst(rate: Bandwidth) -> Bytes {
        Bytes::new(rate.as_bytes_per_sec()).max(Self::LEAST_BURST)
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

/// A group of clients.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ClientGroup {
    /// Its name.
    pub group: String,
    /// Which hosts it is.
    pub members: Members,
    /// How many users each of them stands for.
    pub users: u32,
    /// When they start.
    pub start: StartRange,
    /// Their tor runs so long before their start, at most since time zero.
    pub boot_before: SimDuration,
    /// From then on no transfer starts.
    pub stop: SimDuration,
    /// What they load.
    pub load: LoadModel,
    /// The onion services that they load from; `None`: they load from servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub onion: Option<Onion>,
    /// A transfer that takes longer has failed.
    pub timeout: SimDuration,
    /// A transfer that receives nothing for so long has failed.
    pub stall: SimDuration,
    /// What their torrc says.
    #[serde(flatten)]
    pub options: ClientOptions,
    /// Whether each transfer gets its own circuit.
    pub circuit_per_transfer: bool,
    /// Whether transfers and circuits have rows in the records.
    pub record: bool,
    /// Whether the congestion control of its circuits' exits is recorded.
    pub trace: bool,
    /// Whether it is recorded how long payload takes over its circuits.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub record_latency: bool,
    /// One of their cells is followed to the server each time so long has passed; `None`: none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<SimDuration>,
}

impl ClientGroup {
    /// Sequences of transfers that each of its clients runs beside each other.
    pub(crate) fn sequences(&self) -> u64 {
        u64::from(self.load.pace().sequences(self.users))
    }
}

/// Which hosts a group of clients is.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Members {
    /// Sampled network: this many, with these access rates.
    Count {
        /// How many.
        count: u32,
        /// Access rate towards the network; `None`: by country.
        up: Option<Bandwidth>,
        /// Access rate from the network; `None`: by country.
        down: Option<Bandwidth>,
    },
    /// Sampled network: the clients of the sample's share of so many users, with these access rates.
    Scaled {
        /// Users of the whole network.
        #[serde(rename = "users-at-full-scale")]
        users_at_full_scale: u32,
        /// Access rate towards the network; `None`: by country.
        up: Option<Bandwidth>,
        /// Access rate from the network; `None`: by country.
        down: Option<Bandwidth>,
    },
    /// Sampled network with a load target: this group's share of the clients, in (0, 1].
    Share {
        /// The share.
        share: f64,
        /// Access rate towards the network; `None`: by country.
        up: Option<Bandwidth>,
        /// Access rate from the network; `None`: by country.
        down: Option<Bandwidth>,
    },
    /// Network made elsewhere: the clients of this group in the document.
    Document {
        /// How many they are.
        clients: u32,
    },
    /// Network by hand: these hosts, by index.
    Hosts {
        /// The clients.
        hosts: Vec<u32>,
        /// Guard, middle and exit of every circuit; `None`: drawn.
        path: Option<[u32; 3]>,
        /// The server; `None`: drawn.
        server: Option<u32>,
    },
}

/// The utilisation wanted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct LoadTarget {
    /// Offered load over capacity.
    pub utilisation: f64,
    /// Of the relays in this position.
    pub position: Position,
}

/// A treatment with a value on every axis. `None` on an axis that the others make meaningless, and where the network decides: what the file leaves
/// open and a consensus can set is filled in when the world is built.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Treatment {
    /// Its name.
    pub name: String,
    /// The name as part of a file name: lower-case letters, digits and single hyphens.
    pub slug: String,
    /// Which relays have these settings; `None`: all hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relays: Option<SomeRelays>,
    /// The version of tor.
    pub tor: TorVersion,
    /// Which circuit of a channel sends next; `None`: as the consensus says.
    pub circuitmux: Option<Policy>,
    /// EWMA's half-life, with EWMA; `None`: as the consensus says.
    pub ewma_half_life: Option<SimDuration>,
    /// How often EWMA rescales its counts, with EWMA; `None`: as the consensus says.
    pub ewma_tick: Option<SimDuration>,
    /// EWMA's clock, with EWMA; `None` as long as the policy is open.
    pub ewma_clock: Option<EwmaClock>,
    /// How cells move to sockets.
    pub channel_scheduler: ChannelScheduler,
    /// KIST's interval, with KIST and KIST-lite; `None`: as the consensus says.
    pub kist_interval: Option<SimDuration>,
    /// The same at clients.
    pub kist_client_interval: Option<SimDuration>,
    /// KIST's socket buffer factor, with KIST.
    pub kist_socket_buffer_factor: Option<f64>,
    /// Whether KIST is told what sockets have not sent, with KIST.
    pub kist_knows_unsent: Option<bool>,
    /// What limits the DATA cells of circuits and streams.
    ///
    /// `None`: as the consensus says.
    pub flow_control: Option<FlowControl>,
    /// What relays' computing costs.
    pub cpu: CpuModel,
    /// Of the main thread for each cell, where computing takes time.
    pub cpu_per_cell: Option<SimDuration>,
    /// Of a worker thread for each onion handshake.
    pub cpu_per_handshake: Option<SimDuration>,
    /// Of a worker thread for each handshake with TAP.
    pub cpu_per_tap: Option<SimDuration>,
    /// Whether a first hop is made with CREATE_FAST, where computing takes time; `None`: as the consensus says.
    pub create_fast: Option<bool>,
    /// The handshakes of the other hops, where computing takes time; `None`: as the consensus says.
    pub handshake: Option<Handshake>,
    /// Share of clients that use TAP there whatever the others do, where computing takes time.
    pub tap_clients: Option<f64>,
    /// How many of ntor go before one of TAP, where some clients use TAP; `None`: as the consensus says.
    pub ntors_per_tap: Option<u32>,
    /// Cores of each relay.
    pub cpu_cores: Option<u32>,
    /// Bytes of data in a DATA cell; `None`: as the flow control has it.
    pub cell_payload: Option<u32>,
    /// Whether clients build circuits ahead; `None`: they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_circuits: Option<bool>,
    /// Width of the bins of build times; `None`: the version's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_time_bin: Option<SimDuration>,
    /// The port of a client's first circuits; `None`: the version's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_port: Option<u32>,
    /// How circuits share the connections between relays.
    pub links: Links,
    /// Whether each circuit has a connection of its own between client and guard too, with a connection per circuit.
    pub per_circuit_clients: Option<bool>,
    /// Above so many times the average a circuit is heavy, with two connections.
    pub heavy_above: Option<f64>,
    /// Below so many times the average it is light again.
    pub light_below: Option<f64>,
    /// Half-life of the counts that are compared.
    pub heavy_half_life: Option<SimDuration>,
    /// How many sockets a relay may have open; `None`: any number.
    pub socket_limit: Option<u32>,
    /// How long a channel between relays stays open without circuits, on average; `None`: as the consensus says, and in a run of 0.2.4 three minutes.
    pub relay_channel_idle: Option<SimDuration>,
    /// How long a channel between a client and its guard stays open without circuits at least; `None`: three minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_channel_idle: Option<SimDuration>,
    /// Age from which a circuit gets no new stream.
    pub circuit_lifetime: SimDuration,
    /// A queue of so many cells stops the streams attached to the circuit there; `None`: as the consensus says.
    pub cell_queue_high: Option<u32>,
    /// A queue of so few cells lets them go on; `None`: as the consensus says.
    pub cell_queue_low: Option<u32>,
    /// A queue of so many cells towards the client closes the circuit; `None`: as the consensus says, and in a run no limit.
    pub max_cell_queue_in: Option<u32>,
    /// The same away from the client.
    pub max_cell_queue_out: Option<u32>,
    /// How much memory a relay's queues may take; `None`: any.
    pub memory_limit: Option<Bytes>,
    /// What counts, with a limit.
    pub memory_counts: Option<MemoryCounts>,
    /// What DESTROY cells do beside others.
    pub destroy_cells: DestroyCells,
    /// Bytes to which an outbuf is filled, with a scheduler that does; `None`: as the consensus says.
    pub outbuf_high: Option<Bytes>,
    /// Bytes below which an outbuf wants more, with a scheduler that asks; `None`: as the consensus says.
    pub outbuf_low: Option<Bytes>,
    /// Usable bytes of an outbuf's chunk.
    pub outbuf_chunk: Bytes,
    /// The TLS of channels.
    pub tls: Tls,
    /// How much a read of a channel takes; `None` where channels have no records.
    pub channel_reads: Option<ChannelReads>,
    /// How token buckets are filled.
    pub token_refill: TokenRefill,
    /// In which order connections that have waited for tokens are told to be ready; `None` where no relay has a rate of its own.
    pub epoll: Option<Epoll>,
    /// Whether requests leave with BEGIN; `None`: as the consensus says.
    pub optimistic_data: Option<bool>,
    /// Whether DATA cells are left short for random bytes.
    pub random_cells: bool,
    /// Whether streams go over sets of circuits; `None`: as the consensus says; in a run false where no path is drawn.
    pub conflux: Option<bool>,
    /// Sets that a client has or builds, with Conflux; `None`: as the consensus says.
    pub conflux_sets: Option<u32>,
    /// Circuits of a set, with Conflux; `None`: as the consensus says.
    pub conflux_legs: Option<u32>,
    /// What shapes `PredicTor`, where that is the flow control.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predictor: Option<Predictor>,
    /// Active circuit switching; `None`: no circuit is switched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switching: Option<Switching>,
    /// How many guards a client uses; `None`: as the consensus says, and in a run where no path is drawn.
    pub guards: Option<u32>,
    /// Circuit window in cells, with windows; `None`: as the consensus says.
    pub circuit_window: Option<u32>,
    /// Cells per circuit SENDME, with windows.
    pub circuit_window_increment: Option<u32>,
    /// Stream window in cells, with windows.
    pub stream_window: Option<u32>,
    /// Cells per stream SENDME, with windows.
    pub stream_window_increment: Option<u32>,
    /// Consensus parameters: what the file gives; in a run, all of congestion control, where that is on, and of the others those that the file or the consensus gives and
    /// that have an effect.
    pub consensus_params: BTreeMap<String, i32>,
    /// The link profile.
    pub net: LinkProfile,
    /// Congestion control.
    pub tcp: Tcp,
    /// Between two ticks of the hosts' kernels, with KIST and KIST-lite, and where the file says so; zero: clocks are exact. `None`: the link profile's.
    pub kernel_tick: Option<SimDuration>,
    /// Nagle's algorithm.
    pub nagle: bool,
    /// HyStart, with CUBIC.
    pub hystart: Option<bool>,
    /// Slow start after idle.
    pub slow_start_after_idle: bool,
    /// Initial window in segments.
    pub initial_window: u32,
    /// Bytes in a full segment.
    pub mss: u32,
    /// Headers of a packet.
    pub packet_header: Bytes,
    /// Shortest delay of an acknowledgement that waits for a second segment.
    pub delayed_ack: SimDuration,
    /// Least time that a retransmission time-out allows beyond the round trip.
    pub min_rto: SimDuration,
    /// Which round trips set the retransmission time-out; `None`: the link profile's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trips: Option<RoundTrips>,
    /// Limit of a send buffer.
    pub send_buffer: Bytes,
    /// Limit of a receive buffer.
    pub receive_buffer: Bytes,
    /// How an access link keeps its rate.
    pub link_shaping: LinkShaping,
    /// What waits for an uplink.
    pub uplink_queue: UplinkQueue,
    /// Packets before an uplink at most, where they have a queue.
    pub uplink_queue_packets: Option<u32>,
    /// Queue before a downlink.
    pub downlink_queue: DownlinkQueue,
    /// What it holds at most.
    pub downlink_queue_size: Bytes,
    /// Packets that it holds at most; `None`: only their bytes count.
    pub downlink_queue_packets: Option<u32>,
    /// CoDel's target, with CoDel.
    pub codel_target: Option<SimDuration>,
    /// CoDel's interval, with CoDel.
    pub codel_interval: Option<SimDuration>,
}

impl Treatment {
    /// This treatment and, where it is for some of the relays, what the other hosts have.
    pub(crate) fn everywhere(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.relays.as_ref().map(|some| &*some.others))
    }

    /// Whether EWMA chooses among circuits, as far as is known.
    pub(crate) fn has_ewma(&self) -> bool {
        self.circuitmux == Some(Policy::BuiltIn(Circuitmux::Ewma))
    }

    /// Whether this version of tor and this flow control know Conflux.
    pub(crate) fn knows_conflux(&self) -> bool {
        self.tor >= TorVersion::V0_4_9 && self.flow_control_by_file() == FlowControl::Vegas
    }

    /// What limits DATA cells as far as is known without a consensus: what the file says, else the version's code.
    pub(crate) fn flow_control_by_file(&self) -> FlowControl {
        self.flow_control.unwrap_or(self.tor.code().flow_control)
    }
}
