//! One run: a world from beginning to end, its records on disk.
//!
//! The simulation advances in steps of at most [`STEP`]; after each the caller hears how far it is and may end it. Rows go to the
//! tables as they come, so that memory follows what is in flight. The run's directory appears when all is written.
//!
//! A run may end sooner than its experiment says. Nothing that happens depends on what comes later, so that it is then, to the byte,
//! the run of an experiment with that duration, and says so.

mod predictor;
mod probes;
mod switching;

use crate::memory;
use crate::processor;
use crate::records::{
    CHANNELS, CIRCUITS, LATENCY, NETWORK, PROBES, RELAYS, RUN, RecordError, RunDirectory, TRANSFERS, TableWriter, VEGAS,
};
use crate::scenario::ResolvedScenario;
use crate::scenario::treatment::FlowControl;
use crate::world::{self, Built, Interpreter, Names, WorldError};
use onionlab_engine::HostId;
use onionlab_quantities::{SimDuration, SimTime};
use onionlab_tor::{ChannelClose, CloseReason, LatencySample, RelayClass, VegasSample, VegasState, World};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The longest simulated time between two reports of progress.
pub const STEP: SimDuration = SimDuration::from_millis(100);

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Simulated time.
    pub sim_time: SimTime,
    /// Simulated time at which the run ends.
    pub sim_end: SimTime,
    /// Events handled so far.
    pub events: u64,
    /// Cells moved from circuit queues to outbufs so far.
    pub cell_hops: u64,
    /// Time since the run began, building the world included.
    pub wall_seconds: f64,
}

/// Whether a run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continue {
    /// It goes on.
    Yes,
    /// It ends at this simulated time, as a run of the experiment with such a duration ([`ResolvedScenario::ending_at`]): what has
    /// been recorded by then is kept. A time that is past already means now.
    Until(SimTime),
    /// It ends and leaves nothing.
    No,
}

/// What a finished run was: the row of its table `run`, whose columns say what each field means.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[allow(missing_docs, reason = "the columns of the table are described in `records`")]
pub struct Summary {
    pub scenario: String,
    pub treatment: String,
    pub treatment_json: String,
    pub network: u32,
    pub network_seed: u64,
    pub seed: u64,
    pub version: String,
    pub build: String,
    pub sim_seconds: f64,
    pub events: u64,
    pub cell_hops: u64,
    pub wall_seconds: f64,
    pub cpu_seconds: Option<f64>,
    pub peak_memory_bytes: u64,
    pub relays: u32,
    pub clients: u32,
    pub divergence_json: String,
}

impl Summary {
    fn write(&self, directory: &Path) -> Result<(), RecordError> {
        let mut table = TableWriter::create(&RUN, directory)?;
        table.row(|row| {
            row.text(&self.scenario)
                .text(&self.treatment)
                .text(&self.treatment_json)
                .number(u64::from(self.network))
                .number(self.network_seed)
                .number(self.seed)
                .text(&self.version)
                .text(&self.build)
                .fraction(self.sim_seconds)
                .number(self.events)
                .number(self.cell_hops)
                .fraction(self.wall_seconds)
                .fraction_if(self.cpu_seconds)
                .number(self.peak_memory_bytes)
                .number(u64::from(self.relays))
                .number(u64::from(self.clients))
                .text(&self.divergence_json);
        })?;
        table.finish()
    }
}

/// A run that did not finish; it left nothing on disk.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The experiment has no such treatment, network or seed.
    #[error("the experiment has no run of treatment {treatment}, network {network}, seed {seed}; `plan` lists its runs")]
    NoSuchRun {
        /// Index of the treatment.
        treatment: usize,
        /// Index of the network.
        network: u32,
        /// The seed.
        seed: u64,
    },
    /// The world cannot be built.
    #[error(transparent)]
    World(#[from] WorldError),
    /// A policy of the user's own went wrong.
    #[error("{0}")]
    Policy(String),
    /// The records cannot be written.
    #[error(transparent)]
    Records(#[from] RecordError),
    /// The caller ended it.
    #[error("the run was cancelled")]
    Cancelled,
}

impl RunError {
    /// A stable machine name of the kind of failure.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoSuchRun { .. } => "run-unknown",
            Self::World(WorldError::Directory(_) | WorldError::NoExitPolicies { .. }) => "document-consensus",
            Self::World(WorldError::Latency(_) | WorldError::NoSuchCountry { .. }) => "document-latency",
            Self::World(WorldError::Paths(_) | WorldError::NoOnionPath { .. }) => "run-no-paths",
            Self::World(WorldError::TooManyClients { .. } | WorldError::TooManyUsers { .. }) => "run-too-many-clients",
            Self::World(WorldError::NoSuchRelay { .. }) => "run-no-such-relay",
            Self::World(WorldError::Policy { .. }) => "scenario-policy",
            Self::Policy(_) => "run-policy",
            Self::Records(_) => "run-records",
            Self::Cancelled => "run-cancelled",
        }
    }
}

/// Runs one of the experiment's runs and writes its records to `runs_directory`/(the name that `plan` gives it), which it returns.
///
/// # Errors
/// There is no such run, its world cannot be built, a policy of the user's own goes wrong, its records cannot be written, or `progress` ended it.
pub fn run(
    scenario: &ResolvedScenario,
    treatment: usize,
    network: u32,
    seed: u64,
    runs_directory: &Path,
    progress: impl FnMut(Progress) -> Continue,
) -> Result<(PathBuf, Summary), RunError> {
    run_with(scenario, treatment, network, seed, runs_directory, None, progress)
}

/// The same with an interpreter for policies in Python.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    scenario: &ResolvedScenario,
    treatment: usize,
    network: u32,
    seed: u64,
    runs_directory: &Path,
    interpreter: Option<&dyn Interpreter>,
    mut progress: impl FnMut(Progress) -> Continue,
) -> Result<(PathBuf, Summary), RunError> {
    let (began, processor) = (Instant::now(), processor::of_thread());
    let planned = scenario
        .plan()
        .into_iter()
        .find(|run| (run.treatment_index, run.network, run.seed) == (treatment, network, seed))
        .ok_or(RunError::NoSuchRun { treatment, network, seed })?;
    let Built { mut world, names, treatment, divergence } = world::build_with(scenario, treatment, network, seed, interpreter)?;
    let directory = RunDirectory::create(runs_directory, &planned.directory)?;
    let traced = scenario.clients.iter().any(|group| group.trace);
    let planned = treatment.predictor.is_some();
    let optional = Optional {
        vegas: traced && treatment.flow_control == Some(FlowControl::Vegas),
        latency: scenario.clients.iter().any(|group| group.record_latency),
        probes: scenario.clients.iter().any(|group| group.probe.is_some()),
        switches: treatment.switching.is_some(),
        controllers: planned,
        plans: traced && planned,
    };
    let mut tables = Tables::create(directory.path(), &names, optional)?;

    let mut scenario = Cow::Borrowed(scenario);
    let mut end = SimTime::ZERO + scenario.duration;
    let mut now = SimTime::ZERO;
    let mut next_sample = now + scenario.sample_interval;
    while now < end {
        now = (now + STEP).min(next_sample).min(end);
        world.run_until(now);
        if let Some(trouble) = world.trouble() {
            return Err(RunError::Policy(trouble));
        }
        if now == next_sample || now == end {
            world.sample(now);
            next_sample = now + scenario.sample_interval;
        }
        tables.take(&mut world)?;
        let so_far = Progress {
            sim_time: now,
            sim_end: end,
            events: world.events(),
            cell_hops: world.cell_hops(),
            wall_seconds: began.elapsed().as_secs_f64(),
        };
        match progress(so_far) {
            Continue::Yes => {}
            Continue::Until(sooner) => {
                // What is due now has happened, so that the end is later, if only just.
                let sooner = sooner.max(now + SimDuration::from_nanos(1));
                scenario = Cow::Owned(scenario.ending_at(sooner - SimTime::ZERO));
                end = SimTime::ZERO + scenario.duration;
                world.stop_loads_at(end);
            }
            Continue::No => return Err(RunError::Cancelled),
        }
    }
    world.finish();
    tables.take(&mut world)?;

    tables.finish()?;
    let summary = Summary {
        scenario: scenario.to_json(),
        treatment: treatment.name.clone(),
        treatment_json: serde_json::to_string(&treatment).expect("a treatment has no map with keys other than strings"),
        network,
        network_seed: scenario.network_seed(network).0,
        seed,
        version: crate::VERSION.to_owned(),
        build: crate::BUILD.to_owned(),
        sim_seconds: scenario.duration.as_secs_f64(),
        events: world.events(),
        cell_hops: world.cell_hops(),
        wall_seconds: began.elapsed().as_secs_f64(),
        cpu_seconds: processor.zip(processor::of_thread()).map(|(before, now)| now - before),
        peak_memory_bytes: memory::peak(),
        relays: names.relays.iter().flatten().count() as u32,
        clients: names.clients.len() as u32,
        divergence_json: divergence,
    };
    summary.write(directory.path())?;
    let directory = directory.publish()?;
    Ok((directory, summary))
}

/// Which tables there are beside those that every run has.
#[derive(Clone, Copy)]
struct Optional {
    vegas: bool,
    latency: bool,
    probes: bool,
    switches: bool,
    controllers: bool,
    plans: bool,
}

/// The tables that grow while the run goes on.
struct Tables<'a> {
    names: &'a Names,
    /// Classes without a relay have no utilisation.
    classes: [bool; 4],
    transfers: TableWriter,
    circuits: TableWriter,
    channels: TableWriter,
    relays: TableWriter,
    network: TableWriter,
    /// Where clients are traced.
    vegas: Option<TableWriter>,
    /// Where the latency of circuits is recorded.
    latency: Option<TableWriter>,
    /// Where circuits are switched.
    switching: Option<switching::Tables>,
    /// Where relays plan.
    planned: Option<predictor::Tables>,
    /// Where cells are followed.
    probes: Option<TableWriter>,
}

impl<'a> Tables<'a> {
    fn create(directory: &Path, names: &'a Names, optional: Optional) -> Result<Self, RecordError> {
        let has = |class| names.relays.iter().flatten().any(|(of, _)| *of == class);
        let table = |table| TableWriter::create(table, directory);
        Ok(Self {
            names,
            classes: [RelayClass::Guard, RelayClass::Middle, RelayClass::Exit, RelayClass::GuardExit].map(has),
            transfers: table(&TRANSFERS)?,
            circuits: table(&CIRCUITS)?,
            channels: table(&CHANNELS)?,
            relays: table(&RELAYS)?,
            network: table(&NETWORK)?,
            vegas: optional.vegas.then(|| table(&VEGAS)).transpose()?,
            latency: optional.latency.then(|| table(&LATENCY)).transpose()?,
            probes: optional.probes.then(|| table(&PROBES)).transpose()?,
            switching: optional.switches.then(|| switching::Tables::create(directory)).transpose()?,
            planned: optional.controllers.then(|| predictor::Tables::create(directory, optional.plans)).transpose()?,
        })
    }

    /// Moves what the world has announced into the tables.
    fn take(&mut self, world: &mut World) -> Result<(), RecordError> {
        let records = world.take_records();
        let nanos = |time: Option<SimTime>| time.map(SimTime::as_nanos);
        let names = self.names;
        let host = |host: HostId| names.hosts[host.index()].as_str();
        for transfer in records.transfers {
            let (client, group) = &names.clients[transfer.client.index()];
            self.transfers.row(|row| {
                row.text(host(*client))
                    .text(group)
                    .number(transfer.ordinal)
                    .number(u64::from(transfer.user))
                    .number(transfer.flow)
                    .text(transfer.kind.name())
                    .number_if(transfer.circuit.map(|circuit| u64::from(circuit.0)))
                    .number(u64::from(transfer.retries))
                    .number(transfer.size)
                    .number(transfer.received)
                    .number(transfer.sent)
                    .nanos(transfer.start.as_nanos())
                    .nanos_if(nanos(transfer.connected))
                    .nanos_if(nanos(transfer.first_byte))
                    .nanos_if(nanos(transfer.last_byte))
                    .nanos(transfer.end.as_nanos())
                    .text(transfer.outcome.name());
            })?;
        }
        for circuit in records.circuits {
            let (client, group) = &names.clients[circuit.client.index()];
            self.circuits.row(|row| {
                row.number(u64::from(circuit.circuit.0))
                    .text(host(*client))
                    .text(group)
                    .text(host(circuit.path[0]))
                    .text(host(circuit.path[1]))
                    .text(host(circuit.path[2]))
                    .nanos(circuit.launched.as_nanos())
                    .nanos_if(nanos(circuit.built))
                    .nanos_if(nanos(circuit.closed))
                    .text(circuit.outcome.name())
                    .text(circuit.reason.map_or("none", CloseReason::name))
                    .text(circuit.purpose.name())
                    .text(if circuit.timed_out { "yes" } else { "no" })
                    .number(circuit.cells_in)
                    .number(circuit.cells_out)
                    .number_if(circuit.vegas.map(|vegas| u64::from(vegas.cwnd)))
                    .nanos_if(measured(circuit.vegas, |vegas| vegas.min_rtt))
                    .nanos_if(measured(circuit.vegas, |vegas| vegas.ewma_rtt))
                    .text(circuit.third.map_or("", host))
                    .nanos_if(nanos(circuit.joined));
            })?;
        }
        self.take_vegas(records.vegas)?;
        self.take_latency(records.latency)?;
        if let Some(table) = &mut self.probes {
            probes::take(table, names, records.probes)?;
        }
        if let Some(tables) = &mut self.switching {
            tables.take(names, records.switches, records.switch_samples)?;
        }
        if let Some(tables) = &mut self.planned {
            tables.take(names, records.controllers, records.plans)?;
        }
        for channel in records.channels {
            self.channels.row(|row| {
                row.number(u64::from(channel.channel))
                    .text(channel.kind.name())
                    .text(host(channel.opener))
                    .text(host(channel.peer))
                    .nanos(channel.opened.as_nanos())
                    .nanos_if(nanos(channel.open))
                    .nanos_if(nanos(channel.closed))
                    .text(channel.reason.map_or("none", ChannelClose::name))
                    .number(channel.cells[0])
                    .number(channel.cells[1])
                    .number(channel.bytes[0])
                    .number(channel.bytes[1])
                    .number(u64::from(channel.circuits))
                    .number(u64::from(channel.most_circuits))
                    .number(channel.held[1].bytes)
                    .fraction(channel.held[1].byte_seconds)
                    .number(channel.held[0].bytes)
                    .fraction(channel.held[0].byte_seconds);
            })?;
        }
        for sample in records.relays {
            let (class, capacity) = names.relays[sample.relay.index()].expect("only relays are sampled");
            self.relays.row(|row| {
                row.nanos(sample.time.as_nanos())
                    .text(host(sample.relay))
                    .text(class.name())
                    .number(capacity.as_bits_per_sec())
                    .number(sample.bytes_sent)
                    .number(sample.bytes_received)
                    .number(sample.cells_sent)
                    .number(sample.queued_cells)
                    .number(sample.outbuf_bytes)
                    .number(sample.queue_wait)
                    .number(sample.cpu_busy)
                    .number(sample.packets_sent)
                    .number(sample.uplink_drops)
                    .number(sample.downlink_drops)
                    .number(u64::from(sample.sockets))
                    .number(u64::from(sample.most_sockets))
                    .number(sample.sockets_opened)
                    .number(sample.sockets_closed)
                    .number(sample.sockets_refused)
                    .number(sample.socket_bytes)
                    .number(sample.connection_bytes)
                    .number(sample.circuits_moved)
                    .number(sample.held.bytes)
                    .fraction(sample.held.byte_seconds)
                    .fraction(sample.utilisation)
                    .text(if names.treated[sample.relay.index()] { "yes" } else { "no" });
            })?;
        }
        for sample in records.network {
            let utilisation = |class: usize| self.classes[class].then_some(sample.utilisation[class]);
            self.network.row(|row| {
                row.nanos(sample.time.as_nanos())
                    .number(sample.goodput_bytes)
                    .number(sample.relay_bytes_sent)
                    .number(sample.transfers_ok)
                    .number(sample.transfers_failed)
                    .number(u64::from(sample.links.circuits));
                let links = &sample.links;
                for of in [links.undirected, links.directed, links.guard_middle, links.middle_exit] {
                    row.number(u64::from(of.links)).number(u64::from(of.shared));
                }
                row.number(u64::from(links.with_one))
                    .number(u64::from(links.with_two))
                    .number(u64::from(sample.busy.circuits))
                    .number(u64::from(sample.busy.directed.links))
                    .number(u64::from(sample.busy.directed.shared))
                    .fraction_if(utilisation(0))
                    .fraction_if(utilisation(1))
                    .fraction_if(utilisation(2))
                    .fraction_if(utilisation(3));
            })?;
        }
        Ok(())
    }

    fn take_vegas(&mut self, samples: Vec<VegasSample>) -> Result<(), RecordError> {
        let Some(table) = &mut self.vegas else { return Ok(()) };
        for sample in samples {
            let (client, group) = &self.names.clients[sample.client.index()];
            let state = sample.state;
            table.row(|row| {
                row.nanos(sample.time.as_nanos())
                    .number(u64::from(sample.circuit.0))
                    .text(&self.names.hosts[client.index()])
                    .text(group)
                    .nanos(state.min_rtt.as_nanos())
                    .nanos(state.ewma_rtt.as_nanos())
                    .nanos(state.max_rtt.as_nanos())
                    .number(u64::from(state.cwnd))
                    .number(u64::from(sample.inflight))
                    .number(state.bdp)
                    .number(state.queue_use)
                    .number(u64::from(state.slow_start))
                    .number(u64::from(state.blocked));
            })?;
        }
        Ok(())
    }

    fn take_latency(&mut self, samples: Vec<LatencySample>) -> Result<(), RecordError> {
        let Some(table) = &mut self.latency else { return Ok(()) };
        for sample in samples {
            let (client, group) = &self.names.clients[sample.client.index()];
            table.row(|row| {
                row.nanos(sample.time.as_nanos())
                    .number(u64::from(sample.circuit.0))
                    .text(&self.names.hosts[client.index()])
                    .text(group)
                    .number(sample.written)
                    .number(sample.read)
                    .fraction(sample.latency)
                    .fraction(sample.outbuf_wait)
                    .number(sample.in_flight);
            })?;
        }
        Ok(())
    }

    fn finish(self) -> Result<(), RecordError> {
        let always = [self.transfers, self.circuits, self.channels, self.relays, self.network];
        let switching = self.switching.into_iter().flat_map(switching::Tables::into_writers);
        let planned = self.planned.into_iter().flat_map(predictor::Tables::into_writers);
        let optional = self.vegas.into_iter().chain(self.latency).chain(self.probes);
        for table in always.into_iter().chain(optional).chain(switching).chain(planned) {
            table.finish()?;
        }
        Ok(())
    }
}

/// A time that congestion control has measured; none before the first SENDME.
fn measured(vegas: Option<VegasState>, time: impl Fn(VegasState) -> SimDuration) -> Option<u64> {
    vegas.map(time).filter(|time| *time > SimDuration::ZERO).map(SimDuration::as_nanos)
}
