//! From the file as written to the checked experiment: defaults, ranges, references, and combinations that make no sense.

mod clients;
mod computing;
pub(super) mod effects;
pub(super) mod network;
mod profiles;
mod scheduling;
mod transport;
pub(super) mod treatments;

use crate::scenario::diagnose::{line_of_key, line_of_sweep};
use crate::scenario::error::{Fault, Place, ScenarioError, clipped};
use crate::scenario::file::ScenarioFile;
use crate::scenario::network::ExitPolicies;
use crate::scenario::onion::Onion;
use crate::scenario::resolved::{ClientGroup, FileRef, LoadTarget, Members, Network, ResolvedScenario};
use crate::scenario::treatment::{FlowControl, Links};
use crate::scenario::{Scenario, onion, some_relays, switching};
use onionlab_directory::Flag;
use onionlab_quantities::SimDuration;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::Read;
use std::path::Path;
use treatments::Circumstances;

/// Most runs of an experiment: treatments times networks times seeds.
pub const MAX_RUNS: usize = 10_000;
/// Most clients of a run.
pub const MAX_CLIENTS: u64 = 1_000_000;
/// Most sequences of transfers beside each other, of all users of all clients of a run.
pub(crate) const MAX_SEQUENCES: u64 = 10_000_000;
/// Longest simulated time of a run.
pub const MAX_DURATION: SimDuration = SimDuration::from_secs(7 * 86_400);
/// Largest file that an experiment may name (a consensus, a table of round-trip times).
const MAX_NAMED_FILE_BYTES: u64 = 256 << 20;
/// Most samples of the time series of a run.
const MAX_SAMPLES: u64 = 1_000_000;

const MILLISECOND: SimDuration = SimDuration::from_millis(1);
const DAY: SimDuration = SimDuration::from_secs(86_400);

pub(super) type Checked<T> = Result<T, Fault>;

/// Checks `scenario` and fills in every default.
pub(super) fn resolve(scenario: &Scenario) -> Result<ResolvedScenario, ScenarioError> {
    check(scenario).map_err(|fault| located_at_point(scenario, fault))
}

/// An error with the line of the key that it names, and the point of the sweep if there is one.
pub(super) fn located_at_point(scenario: &Scenario, fault: Fault) -> ScenarioError {
    let Some(point) = &scenario.point else { return located(scenario, fault) };
    // A value that the sweep has put there stands in the sweep.
    let key = key_of(&fault).unwrap_or_default();
    let swept = point.leads_to.iter().zip(&point.values).find(|(at, _)| key == *at || key.starts_with(&format!("{at}.")));
    let line = swept.map_or_else(|| line_of_key(&scenario.text, key), |(_, (name, _))| line_of_sweep(&scenario.text, name));
    let fault = Fault::AtPoint { point: point.to_string(), fault: Box::new(fault) };
    ScenarioError { place: Place { file: scenario.path.clone(), line }, fault }
}

/// An error with the line of the key that it names.
pub(super) fn located(scenario: &Scenario, fault: Fault) -> ScenarioError {
    located_in(&scenario.path, &scenario.text, fault)
}

/// The same in the text of a file.
pub(super) fn located_in(path: &Path, text: &str, fault: Fault) -> ScenarioError {
    let line = key_of(&fault).and_then(|key| match key.strip_prefix("sweep.") {
        Some(name) => line_of_sweep(text, name),
        None => line_of_key(text, key),
    });
    ScenarioError { place: Place { file: path.into(), line }, fault }
}

/// The key that an error names.
fn key_of(fault: &Fault) -> Option<&str> {
    match fault {
        Fault::WrongValue { key, .. } | Fault::OutOfRange { key, .. } | Fault::Conflict { key, .. } | Fault::File { key, .. } => {
            Some(key)
        }
        Fault::MissingKey { table, .. } => Some(table),
        _ => None,
    }
}

fn check(scenario: &Scenario) -> Checked<ResolvedScenario> {
    let file: &ScenarioFile = &scenario.file;
    let title = text("title", &file.title, 300)?;
    let duration = within("duration", file.duration, SimDuration::from_millis(1), MAX_DURATION)?;
    let measure_from = file.measure_from.unwrap_or(SimDuration::ZERO);
    if measure_from >= duration {
        return Err(Fault::out_of_range("measure-from", measure_from, format!("less than `duration`, which is {duration}")));
    }
    let sample_interval = file.sample_interval.unwrap_or(SimDuration::from_secs(1).min(duration));
    within("sample-interval", sample_interval, SimDuration::from_millis(1), duration)?;
    if duration.as_nanos() / sample_interval.as_nanos() > MAX_SAMPLES {
        let allowed = format!("at least {}, a millionth of `duration`", duration / MAX_SAMPLES);
        return Err(Fault::out_of_range("sample-interval", sample_interval, allowed));
    }
    let networks = within("networks", file.networks.unwrap_or(1), 1, MAX_RUNS as u32)?;
    let seeds = file.seeds.clone().unwrap_or_else(|| vec![1]);
    count("seeds", seeds.len(), MAX_RUNS)?;
    let mut seen = BTreeSet::new();
    if let Some(twice) = seeds.iter().find(|seed| !seen.insert(**seed)) {
        return Err(Fault::conflict("seeds", format!("names {twice} twice: the same seed gives the same run")));
    }
    let network = network::network(scenario, &file.network)?;
    let single = match &network {
        Network::Explicit(_) => Some("a network by hand"),
        Network::File(_) => Some("a network document"),
        Network::Consensus(_) | Network::Synthetic(_) => None,
    };
    if let Some(what) = single.filter(|_| networks > 1) {
        let reason = format!("is {networks}, but {what} is not sampled and there is only one: use `seeds` to repeat");
        return Err(Fault::conflict("networks", reason));
    }
    let load_target = file.load_target.as_ref().map(|target| load_target(target, &network)).transpose()?;
    let clients = clients::clients(scenario, &file.clients, &network, load_target.is_some(), duration)?;
    if load_target.is_some() {
        have_a_mean(&clients)?;
    }
    not_too_many(&clients)?;
    ports_can_be_told(&clients, &network)?;
    for (index, group) in clients.iter().enumerate().filter(|(_, group)| !group.record) {
        let of_records = [("trace", group.trace), ("record-latency", group.record_latency), ("probe", group.probe.is_some())];
        if let Some((key, _)) = of_records.iter().find(|(_, given)| *given) {
            return Err(Fault::conflict(format!("clients[{index}].{key}"), "has no effect with record = false"));
        }
    }
    let circumstances = Circumstances {
        limited: limited(&network),
        onion: clients.iter().any(|group| group.onion.is_some()),
        drawn: clients.iter().any(|group| !matches!(group.members, Members::Hosts { path: Some(_), .. })),
        policies: !matches!(network, Network::Explicit(_)),
        lifetime: clients.iter().any(|group| group.options.circuit_lifetime.is_none()),
    };
    let treatments = treatments::treatments(scenario, file.base.as_ref(), file.treatments.as_deref(), circumstances)?;
    some_relays::names_exist(&treatments, &network)?;
    switching::spares_exist(&treatments, &network)?;
    onion::possible(&clients, &treatments)?;
    if let Some(index) = clients.iter().position(|group| group.trace)
        && treatments.iter().all(|treatment| treatment.flow_control_by_file() == FlowControl::Windows)
    {
        let reason = "has no effect in any treatment: it needs flow-control = \"vegas\" or \"predictor\"";
        return Err(Fault::conflict(format!("clients[{index}].trace"), reason));
    }
    if let Some(index) = clients.iter().position(|group| group.record_latency)
        && let Some(treatment) =
            treatments.iter().find(|treatment| treatment.links == Links::LightAndHeavy || treatment.switching.is_some())
    {
        let reason =
            format!("is not possible in treatment \"{}\", where circuits go from connection to connection", treatment.name);
        return Err(Fault::conflict(format!("clients[{index}].record-latency"), reason));
    }
    let runs = treatments.len() * networks as usize * seeds.len();
    if runs > MAX_RUNS {
        let value = format!("{runs} runs ({} treatments x {networks} networks x {} seeds)", treatments.len(), seeds.len());
        let reason = format!("makes {value}, and an experiment has at most {MAX_RUNS}");
        return Err(Fault::conflict("networks", reason));
    }
    let base_seed = file.base_seed.unwrap_or(1);
    Ok(ResolvedScenario {
        title,
        duration,
        measure_from,
        networks,
        base_seed,
        seeds,
        sample_interval,
        network,
        latency_error: within("network.latency-error", file.network.latency_error.unwrap_or(0.0), 0.0, 10.0)?,
        clients,
        load_target,
        treatments,
        point: scenario.point.clone(),
    })
}

/// Where exits are those with the Exit flag, that says what they let out to the ports of the web alone.
fn ports_can_be_told(clients: &[ClientGroup], network: &Network) -> Checked<()> {
    let (by_flag, allowed) = match network {
        Network::Synthetic(network) => {
            (network.common.exit_policies != Some(ExitPolicies::Model), "`network.exit-policies` = \"model\"")
        }
        Network::Consensus(network) => (
            network.common.exit_policies == Some(ExitPolicies::Flag),
            "`network.exit-policies` = \"model\", or \"consensus\" with a document that has policies",
        ),
        Network::File(_) | Network::Explicit(_) => return Ok(()),
    };
    let port = |group: &ClientGroup| group.load.port().filter(|port| group.onion.is_none() && !Flag::exit_promises(*port));
    let Some((index, port)) = clients.iter().enumerate().find_map(|(index, group)| Some((index, port(group)?))) else {
        return Ok(());
    };
    if by_flag {
        let reason = format!("is {port}, and which exits serve that the Exit flag does not say: it needs {allowed}");
        return Err(Fault::conflict(format!("clients[{index}].load.port"), reason));
    }
    Ok(())
}

/// Whether a relay has a rate limit of its own.
fn limited(network: &Network) -> bool {
    match network {
        Network::Explicit(network) => network.hosts.iter().any(|host| host.limit.is_some()),
        Network::File(file) => file.network.relays.iter().any(|relay| relay.limit().is_some()),
        Network::Consensus(_) | Network::Synthetic(_) => false,
    }
}

/// Each client is a host, each onion service another, and each user whose transfers wait for each other a sequence of its own.
fn not_too_many(clients: &[ClientGroup]) -> Checked<()> {
    let count = |group: &ClientGroup| match &group.members {
        Members::Count { count, .. } | Members::Document { clients: count } => u64::from(*count),
        Members::Share { .. } | Members::Scaled { .. } => 0,
        Members::Hosts { hosts, .. } => hosts.len() as u64,
    };
    let services = |group: &ClientGroup| match &group.onion {
        Some(Onion::Services { services, .. }) => u64::from(*services),
        Some(Onion::Hosts(_)) | None => 0,
    };
    let (total, services): (u64, u64) = (clients.iter().map(count).sum(), clients.iter().map(services).sum());
    if total + services > MAX_CLIENTS {
        let found =
            if services > 0 { format!("{total} clients and {services} onion services") } else { format!("{total} clients") };
        return Err(Fault::out_of_range("clients", format!("{found} in all"), format!("at most {MAX_CLIENTS}")));
    }
    let sequences: u64 = clients.iter().map(|group| count(group) * group.sequences()).sum();
    if sequences > MAX_SEQUENCES {
        let found = format!("{sequences} users in all whose transfers wait for each other");
        return Err(Fault::out_of_range("clients", found, format!("at most {MAX_SEQUENCES}")));
    }
    Ok(())
}

/// How many clients make a utilisation follows from what each asks for in the mean.
fn have_a_mean(clients: &[ClientGroup]) -> Checked<()> {
    for (index, group) in clients.iter().enumerate() {
        let flow = group.load.mean_flow();
        if ![flow.to_client, flow.to_server, flow.pause].into_iter().all(f64::is_finite) {
            let reason = "has no mean, so that no number of clients makes the utilisation of `load-target`";
            return Err(Fault::conflict(format!("clients[{index}].load"), reason));
        }
    }
    Ok(())
}

fn load_target(target: &crate::scenario::clients::LoadTargetFile, network: &Network) -> Checked<LoadTarget> {
    if matches!(network, Network::File(_)) {
        let reason = "does not apply to a network document, whose clients are listed";
        return Err(Fault::conflict("load-target", reason));
    }
    if matches!(network, Network::Explicit(_)) {
        let reason = "does not apply to a network by hand, whose clients are named: give each group its `hosts`";
        return Err(Fault::conflict("load-target", reason));
    }
    let utilisation = target.utilisation;
    if !(utilisation > 0.0 && utilisation <= 4.0) {
        return Err(Fault::out_of_range("load-target.utilisation", utilisation, "above 0 and at most 4"));
    }
    Ok(LoadTarget { utilisation, position: target.position })
}

/// `value` if it lies in the closed range.
pub(super) fn within<T: PartialOrd + Display + Copy>(key: impl Into<String>, value: T, least: T, most: T) -> Checked<T> {
    if (least..=most).contains(&value) {
        Ok(value)
    } else {
        Err(Fault::out_of_range(key, value, format!("from {least} to {most}")))
    }
}

/// Where settings of a treatment stand in the file.
struct Keys<F>(F);

impl<F: Fn(&str) -> String> Keys<F> {
    /// The key of a setting.
    fn of(&self, setting: &str) -> String {
        self.0(setting)
    }

    /// A setting that may be absent, and must lie in the range if it is there.
    fn given<T: Copy + PartialOrd + Display>(&self, setting: &str, value: Option<T>, least: T, most: T) -> Checked<Option<T>> {
        value.map(|value| within(self.of(setting), value, least, most)).transpose()
    }
}

/// Refuses an empty list and one with more than `most` entries.
pub(super) fn count(key: impl Into<String>, length: usize, most: usize) -> Checked<()> {
    if (1..=most).contains(&length) {
        return Ok(());
    }
    let value = if length == 0 { "empty".to_owned() } else { format!("a list of {length} entries") };
    Err(Fault::out_of_range(key, value, format!("a list of 1 to {most} entries")))
}

/// A text that is not blank, without blanks at the ends, of at most `most` characters on one line.
pub(super) fn text(key: impl Into<String>, text: &str, most: usize) -> Checked<String> {
    let trimmed = text.trim();
    if trimmed.is_empty() || trimmed.chars().count() > most || trimmed.chars().any(char::is_control) {
        return Err(Fault::out_of_range(
            key,
            format!("\"{}\"", clipped(text, 60)),
            format!("one line of 1 to {most} characters"),
        ));
    }
    Ok(trimmed.to_owned())
}

/// A name that can be part of a file name and of a table.
pub(super) fn name(key: impl Into<String>, name: &str) -> Checked<String> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name.len() > 64 || !name.chars().all(good) {
        let allowed = "1 to 64 letters, digits, \".\", \"_\" or \"-\"";
        return Err(Fault::out_of_range(key, format!("\"{}\"", clipped(name, 60)), allowed));
    }
    Ok(name.to_owned())
}

/// Refuses a key that another choice makes meaningless.
pub(super) fn refuse<T>(table: &str, key: &str, value: Option<&T>, reason: &str) -> Checked<()> {
    match value {
        Some(_) => Err(Fault::conflict(format!("{table}.{key}"), reason)),
        None => Ok(()),
    }
}

/// A file that `key` names: it must be there and readable now, so that no run fails on it an hour later.
pub(super) fn named_file(scenario: &Scenario, key: &str, path: &str) -> Checked<FileRef> {
    read_named_file(scenario, key, path, MAX_NAMED_FILE_BYTES).map(|(file, _)| file)
}

/// A file that `key` names, of at most so many bytes, and its content.
pub(super) fn read_named_file(scenario: &Scenario, key: &str, path: &str, most: u64) -> Checked<(FileRef, Vec<u8>)> {
    let fault = |cause: String| Fault::File { key: key.to_owned(), path: clipped(path, 200), cause };
    let location = scenario.directory().join(path);
    // To open a pipe would wait for somebody who writes into it, and it can be read only once; a folder says itself that it is one.
    let kind = std::fs::metadata(&location).map_err(|error| fault(error.to_string()))?.file_type();
    if !kind.is_file() && !kind.is_dir() {
        return Err(fault("it is no ordinary file".to_owned()));
    }
    let file = std::fs::File::open(&location).map_err(|error| fault(error.to_string()))?;
    let mut content = Vec::new();
    file.take(most + 1).read_to_end(&mut content).map_err(|error| fault(error.to_string()))?;
    if content.is_empty() {
        return Err(fault("it is empty".to_owned()));
    }
    if content.len() as u64 > most {
        return Err(fault(format!("it is larger than {} MiB", most >> 20)));
    }
    Ok((FileRef { path: path.to_owned(), digest: crate::scenario::digest(&content), location }, content))
}
