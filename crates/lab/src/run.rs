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
mod tables;

use crate::memory;
use crate::processor::Meter;
use crate::records::{RUN, RecordError, RunDirectory, TableWriter};
use crate::scenario::{ResolvedScenario, RunKey};
use crate::world::{self, Built, Interpreter, Names, WorldError};
use onionlab_quantities::{SimDuration, SimTime};
use onionlab_tor::World;
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tables::{Optional, Tables};

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
    fn of(scenario: &ResolvedScenario, key: RunKey, built: &Built, effort: &mut Effort) -> Self {
        let Built { world, names, treatment, divergence } = built;
        Self {
            scenario: scenario.to_json(),
            treatment: treatment.name.clone(),
            treatment_json: serde_json::to_string(treatment).expect("a treatment has no map with keys other than strings"),
            network: key.network,
            network_seed: scenario.network_seed(key.network).0,
            seed: key.seed,
            version: crate::VERSION.to_owned(),
            build: crate::BUILD.to_owned(),
            sim_seconds: scenario.duration.as_secs_f64(),
            events: world.events(),
            cell_hops: world.cell_hops(),
            wall_seconds: effort.wall_seconds(),
            cpu_seconds: effort.cpu_seconds(),
            peak_memory_bytes: memory::peak(),
            relays: names.relays.iter().flatten().count() as u32,
            clients: (names.clients.len() - names.services) as u32,
            divergence_json: divergence.clone(),
        }
    }

    fn write(&self, directory: &Path) -> Result<(), RecordError> {
        let mut table = TableWriter::create(&RUN, directory)?;
        table.row(|row| {
            row.text("scenario", &self.scenario)
                .text("treatment", &self.treatment)
                .text("treatment_json", &self.treatment_json)
                .number("network", u64::from(self.network))
                .number("network_seed", self.network_seed)
                .number("seed", self.seed)
                .text("version", &self.version)
                .text("build", &self.build)
                .fraction("sim_seconds", self.sim_seconds)
                .number("events", self.events)
                .number("cell_hops", self.cell_hops)
                .fraction("wall_seconds", self.wall_seconds)
                .fraction_if("cpu_seconds", self.cpu_seconds)
                .number("peak_memory_bytes", self.peak_memory_bytes)
                .number("relays", u64::from(self.relays))
                .number("clients", u64::from(self.clients))
                .text("divergence_json", &self.divergence_json);
        })?;
        table.finish()
    }
}

/// A run that did not finish; it left nothing on disk.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The experiment has no such treatment, network or seed.
    #[error("the experiment has no run of treatment {}, network {}, seed {}; `plan` lists its runs", .0.treatment, .0.network, .0.seed)]
    NoSuchRun(RunKey),
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
            Self::NoSuchRun(_) => "run-unknown",
            Self::World(WorldError::Directory(_) | WorldError::NoExitPolicies { .. }) => "document-consensus",
            Self::World(WorldError::Latency(_) | WorldError::NoSuchCountry { .. }) => "document-latency",
            Self::World(WorldError::Paths(_) | WorldError::NoOnionPath { .. } | WorldError::TooFewGuards { .. }) => {
                "run-no-paths"
            }
            Self::World(
                WorldError::TooManyClients { .. } | WorldError::TooManyUsers { .. } | WorldError::TooManySequences { .. },
            ) => "run-too-many-clients",
            Self::World(WorldError::NoSuchRelay { .. } | WorldError::NoSuchPosition { .. }) => "run-no-such-relay",
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
    key: RunKey,
    runs_directory: &Path,
    progress: impl FnMut(Progress) -> Continue,
) -> Result<(PathBuf, Summary), RunError> {
    run_with(scenario, key, runs_directory, None, progress)
}

/// The same with an interpreter for policies in Python.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    scenario: &ResolvedScenario,
    key: RunKey,
    runs_directory: &Path,
    interpreter: Option<&dyn Interpreter>,
    progress: impl FnMut(Progress) -> Continue,
) -> Result<(PathBuf, Summary), RunError> {
    let mut effort = Effort { began: Instant::now(), processor: Meter::start() };
    let planned = scenario.plan().into_iter().find(|run| run.key() == key).ok_or(RunError::NoSuchRun(key))?;
    let mut built = world::build_with(scenario, key, interpreter)?;
    let directory = RunDirectory::create(runs_directory, &planned.directory)?;
    let mut tables = Tables::create(directory.path(), &built.names, Optional::of(scenario, &built.treatment))?;
    let scenario = simulate(scenario, &mut built.world, &mut tables, &mut effort, progress)?;
    tables.finish()?;
    let summary = Summary::of(&scenario, key, &built, &mut effort);
    summary.write(directory.path())?;
    let directory = directory.publish()?;
    Ok((directory, summary))
}

/// What a run costs.
struct Effort {
    began: Instant,
    /// Where the system tells.
    processor: Option<Meter>,
}

impl Effort {
    fn wall_seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    fn cpu_seconds(&mut self) -> Option<f64> {
        self.processor.as_mut().map(Meter::look)
    }
}

/// Lets the world go on to the end, its rows into the tables. Returns the experiment that it was: where `progress` ended it sooner, that with such a duration.
fn simulate<'a>(
    scenario: &'a ResolvedScenario,
    world: &mut World,
    tables: &mut Tables<'_>,
    effort: &mut Effort,
    mut progress: impl FnMut(Progress) -> Continue,
) -> Result<Cow<'a, ResolvedScenario>, RunError> {
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
            // The meter must be looked at now and then.
            effort.cpu_seconds();
        }
        tables.take(world)?;
        let so_far = Progress {
            sim_time: now,
            sim_end: end,
            events: world.events(),
            cell_hops: world.cell_hops(),
            wall_seconds: effort.wall_seconds(),
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
    tables.take(world)?;
    Ok(scenario)
}
