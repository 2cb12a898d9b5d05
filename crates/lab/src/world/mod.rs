//! The world of one run: hosts, links, clients and settings, from a resolved experiment.
//!
//! Hosts are numbered relays first (in the order of their source), then servers, then clients (group by group), then onion services; those of a network by hand as its file has them. What depends on
//! the network's seed (sampling, capacities, places) is the same for all runs within a network; what depends on the run's seed
//! (guards, paths, start times, load) is the same under all treatments.

mod by_hand;
mod clients;
mod document;
mod effective;
mod land;
mod load_target;
mod onion;
mod own_policy;
mod routes;
mod sampled;
mod some_relays;
mod switching;
mod topology;
mod transport;
mod tuning;

use crate::scenario::resolved::{ClientGroup, Network, Treatment};
use crate::scenario::treatment::LinkProfile;
use crate::scenario::version::TorVersion;
use crate::scenario::{MAX_SEQUENCES, ResolvedScenario, RunKey};
use onionlab_directory::{BandwidthWeights, Class, DirectoryError, Params, Relay};
use onionlab_engine::HostId;
use onionlab_load::{DEFAULT_PORT, LoadModel};
use onionlab_net::latency::LatencyError;
use onionlab_net::{HostConfig, Topology};
use onionlab_paths::{ClientPaths, EntryRules, ExitDemand, Layer2Rules, PathError, PathOptions, PathSelector};
use onionlab_quantities::{Bandwidth, RandomStream, Seed, SimDuration, SimTime};
use onionlab_tor::{ClientConfig, ClientOptions, PathSource, RateLimit, RelayClass, Role, Settings, World, WorldConfig};
pub use own_policy::{Interpreter, try_policies};
use routes::{Circuits, Routes};
use std::cell::RefCell;
use switching::WithSpares;
use topology::Uncertain;

/// A world that cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// The network's source is no consensus, or cannot be sampled as asked.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// A table of latencies or countries is wrong.
    #[error(transparent)]
    Latency(#[from] LatencyError),
    /// A round trip is given for a country that the table of latencies has not.
    #[error("`network.latency-between` has {pair}, and the table of latencies lacks one of the two")]
    NoSuchCountry {
        /// Both codes.
        pair: String,
    },
    /// The network has no paths.
    #[error(transparent)]
    Paths(#[from] PathError),
    /// The load target is for relays that the network has none of, or that carry nothing.
    #[error(
        "`load-target.position` is \"{position}\", but the network has no relays for that position alone, nor any for guard and exit both, that carry anything"
    )]
    NoSuchPosition {
        /// The position, as the file has it.
        position: &'static str,
    },
    /// Exit policies were asked for that the document does not have.
    #[error(
        "{document}: `network.exit-policies` is \"consensus\", but the document has no `p` lines, which only the plain flavour has: allowed are \
         \"flag\" and \"model\""
    )]
    NoExitPolicies {
        /// The document.
        document: String,
    },
    /// The load target asks for more clients than a run may have.
    #[error(
        "a utilisation of {utilisation} needs {clients} clients, more than the {} that a run may have: lower it, or sample fewer relays",
        crate::scenario::MAX_CLIENTS
    )]
    TooManyClients {
        /// The utilisation asked for.
        utilisation: f64,
        /// The clients that it would need.
        clients: u64,
    },
    /// A treatment is for some of the relays, and the network has none of these.
    #[error("the treatment \"{treatment}\" is for some of the relays, and the network has no relay of these classes and names")]
    NoSuchRelay {
        /// The treatment.
        treatment: String,
    },
    /// No circuit of an onion service can be drawn.
    #[error(
        "{host} finds no relays for circuits of onion services: these need four, the second to last of them Stable, drawn as middle relays are"
    )]
    NoOnionPath {
        /// A client or a service.
        host: String,
    },
    /// Each circuit of a Conflux set has a guard of its own, and clients have fewer.
    #[error(
        "a Conflux set of {legs} circuits needs as many guards, and clients have {guards} primary ones: lower `conflux-legs`, or give more `guards` (0 for none)"
    )]
    TooFewGuards {
        /// The circuits of a set.
        legs: u32,
        /// The primary guards of a client.
        guards: u32,
    },
    /// A policy of the user's own cannot be had.
    #[error("{file}, a circuitmux policy, {what}")]
    Policy {
        /// Its library or Python file.
        file: String,
        /// Why not, as the rest of the sentence.
        what: String,
    },
    /// The users of all clients make more sequences of transfers than a run may have.
    #[error("there are {sequences} users whose transfers wait for each other, more than the {MAX_SEQUENCES} that a run may have")]
    TooManySequences {
        /// The sequences that there would be.
        sequences: u64,
    },
    /// The users at full scale make more clients than a run may have.
    #[error(
        "`users-at-full-scale` makes {clients} clients here, more than the {} that a run may have: let each stand for more `users`, or sample fewer relays",
        crate::scenario::MAX_CLIENTS
    )]
    TooManyUsers {
        /// The clients that they would make.
        clients: u64,
    },
}

/// What the records call the world's hosts.
#[derive(Debug, Clone)]
pub struct Names {
    /// By host.
    pub hosts: Vec<String>,
    /// By host: class and capacity of relays.
    pub relays: Vec<Option<(RelayClass, Bandwidth)>>,
    /// By host: whether a relay has the treatment's own settings.
    pub treated: Vec<bool>,
    /// By client, onion services among them: its host and the name of its group.
    pub clients: Vec<(HostId, String)>,
    /// How many of these are onion services.
    pub services: usize,
}

impl Names {
    /// A host's name.
    pub fn host(&self, host: HostId) -> &str {
        &self.hosts[host.index()]
    }
}

/// A world that is ready to run, and what the records say about it.
pub struct Built {
    /// The world at time zero.
    pub world: World,
    /// Names for the records.
    pub names: Names,
    /// The treatment with nothing left open.
    pub treatment: Treatment,
    /// How a sampled network differs from its source, as JSON; "null" for a network that is not sampled.
    pub divergence: String,
}

/// One host before any treatment.
struct Host {
    name: String,
    up: Bandwidth,
    down: Bandwidth,
    role: Role,
}

/// One client before it is known when it starts, or an onion service that the group loads from.
struct Client<'a> {
    host: HostId,
    group: &'a ClientGroup,
    serves: bool,
}

/// A network with its clients, before any treatment.
struct Layout<'a> {
    hosts: Vec<Host>,
    clients: Vec<Client<'a>>,
    topology: Box<dyn Topology>,
    routes: Routes,
    params: Params,
    divergence: String,
}

/// Builds the world of one run.
///
/// # Errors
/// The network cannot be read or sampled, or has no paths; a policy of the user's own cannot be had.
pub fn build(scenario: &ResolvedScenario, key: RunKey) -> Result<Built, WorldError> {
    build_with(scenario, key, None)
}

/// The same with an interpreter for policies in Python.
///
/// # Errors
/// As [`build`].
pub fn build_with(scenario: &ResolvedScenario, key: RunKey, interpreter: Option<&dyn Interpreter>) -> Result<Built, WorldError> {
    let (network_seed, run_seed) = (scenario.network_seed(key.network), scenario.run_seed(key.network, key.seed));
    let treatment = &scenario.treatments[key.treatment];
    let layout = match &scenario.network {
        Network::Explicit(explicit) => by_hand::layout(scenario, treatment, explicit, run_seed)?,
        Network::File(file) => document::layout(scenario, treatment, file, network_seed, run_seed)?,
        Network::Consensus(_) | Network::Synthetic(_) => sampled::layout(scenario, treatment, network_seed, run_seed)?,
    };
    let (drawn, onion) = (layout.routes.relays.is_some(), scenario.has_onion_services());
    if drawn {
        check_sets(treatment, &layout.params)?;
    }
    let treatment = effective::effective(treatment, &layout.params, drawn, onion);
    let (shaping, queue) = (transport::shaping(&treatment.transport), transport::queue(&treatment.transport));
    let uplink_queue = transport::uplink_queue(&treatment.transport);
    let settings = some_relays::settings(&treatment, &layout.hosts, run_seed, interpreter)?;
    let settings = Settings { client: clients::settings(&treatment, &layout.params), ..settings };
    let treated: Option<&[HostId]> = settings.some_relays.as_ref().map(|some| &*some.relays);
    let names = Names {
        treated: (0..layout.hosts.len() as u32)
            .map(|host| treated.is_none_or(|some| some.binary_search(&HostId(host)).is_ok()))
            .collect(),
        hosts: layout.hosts.iter().map(|host| host.name.clone()).collect(),
        relays: layout.hosts.iter().map(relay).collect(),
        clients: layout.clients.iter().map(|client| (client.host, client.group.group.clone())).collect(),
        services: layout.clients.iter().filter(|client| client.serves).count(),
    };
    onion::check(&layout.routes, &layout.clients, |host| names.hosts[host.index()].clone())?;
    let clients = layout
        .clients
        .iter()
        .map(|client| configure(client, &names.hosts[client.host.index()], run_seed, treatment.transport.net))
        .collect();
    let paths: Box<dyn PathSource> = if let Some(switching) = &treatment.switching {
        let port = |client: &Client<'_>| client.group.load.port().unwrap_or(DEFAULT_PORT);
        let clients: Vec<_> = layout.clients.iter().map(|client| (&*names.hosts[client.host.index()], port(client))).collect();
        Box::new(WithSpares::new(layout.routes, switching.spares, &layout.hosts, &clients, run_seed))
    } else {
        Box::new(layout.routes)
    };
    let topology: Box<dyn Topology> = if scenario.latency_error > 0.0 {
        // Like all that is drawn of a network by hand, of the run's seed.
        let seed = if matches!(scenario.network, Network::Explicit(_)) { run_seed } else { network_seed };
        let names = names.hosts.iter().map(String::as_str);
        Box::new(Uncertain::new(layout.topology, scenario.latency_error, seed, names))
    } else {
        layout.topology
    };
    let hosts = layout.hosts.into_iter().map(|host| {
        let link = HostConfig { name: host.name, up: host.up, down: host.down, shaping, uplink_queue, queue };
        (link, host.role)
    });
    let world = World::new(WorldConfig {
        seed: run_seed,
        hosts: hosts.collect(),
        topology,
        tcp: transport::tcp(&treatment.transport),
        settings,
        clients,
        paths,
    });
    Ok(Built { world, names, treatment, divergence: layout.divergence })
}

/// What the paths of a network are drawn from.
///
/// # Errors
/// There are no paths, or no exit serves a port to which a load goes.
fn selector(
    relays: &[Relay],
    weights: &BandwidthWeights,
    options: &PathOptions,
    scenario: &ResolvedScenario,
) -> Result<PathSelector, PathError> {
    let selector = PathSelector::new(relays, weights, options)?;
    for group in scenario.clients.iter().filter(|group| group.onion.is_none()) {
        selector.exits(ExitDemand::pending(&[group.load.port().unwrap_or(DEFAULT_PORT)]))?;
    }
    Ok(selector)
}

/// Who asks for more circuits in a set than a client has primary guards would get none, and not know. (tor's own would come about now and then, until so many guards are confirmed:
/// `entry_guards_note_guard_success`.)
fn check_sets(treatment: &Treatment, params: &Params) -> Result<(), WorldError> {
    let (Some(legs), EntryRules::Guards(rules)) = (treatment.conflux_legs, effective::guards(treatment, params)) else {
        return Ok(());
    };
    if legs > rules.primary { Err(WorldError::TooFewGuards { legs, guards: rules.primary }) } else { Ok(()) }
}

/// The paths of the client with this name, whose guards are kept as the treatment's version of tor keeps them.
fn paths_of(
    selector: &PathSelector,
    treatment: &Treatment,
    params: &Params,
    seed: Seed,
    client: &str,
) -> Result<Circuits, PathError> {
    let entry = effective::guards(treatment, params);
    // Vanguards-lite came with 0.4.7.
    let layer2 = (treatment.tor >= TorVersion::V0_4_9).then(|| Layer2Rules::new(params));
    let paths = ClientPaths::new(selector, entry, layer2, seed, client)?;
    Ok(Circuits::Drawn(Box::new(RefCell::new(paths))))
}

fn relay(host: &Host) -> Option<(RelayClass, Bandwidth)> {
    let Role::Relay { class, limit } = host.role else { return None };
    Some((class, limit.map_or(host.up, |limit: RateLimit| limit.relays().min(host.up))))
}

fn configure(client: &Client<'_>, name: &str, seed: Seed, net: LinkProfile) -> ClientConfig {
    let group = client.group;
    let span = group.start.to.as_nanos() - group.start.from.as_nanos();
    let start = group.start.from.as_nanos() + RandomStream::new(seed, name, "start").at(0).below(span + 1);
    if client.serves {
        return service(client, name, seed);
    }
    let boot = SimTime::from_nanos(start.saturating_sub(group.boot_before.as_nanos()));
    ClientConfig {
        host: client.host,
        load: Some(LoadModel::clone(&group.load).of_client(name)),
        stream: RandomStream::new(seed, name, "load"),
        boot: net.starts_tor(boot),
        start: SimTime::from_nanos(start),
        stop: SimTime::ZERO + group.stop,
        timeout: group.timeout,
        stall: group.stall,
        server_stall: group.server_stall,
        options: group.options.for_tor(),
        circuit_per_transfer: group.circuit_per_transfer,
        users: group.users,
        spread: SimDuration::from_nanos(span),
        record: group.record,
        trace: group.trace,
        latency: group.record_latency,
        probe: group.probe,
    }
}

/// An onion service runs from the beginning, and does nothing of its own accord.
fn service(client: &Client<'_>, name: &str, seed: Seed) -> ClientConfig {
    ClientConfig {
        host: client.host,
        load: None,
        stream: RandomStream::new(seed, name, "load"),
        boot: SimTime::ZERO,
        start: SimTime::ZERO,
        stop: SimTime::ZERO,
        timeout: client.group.timeout,
        stall: client.group.stall,
        server_stall: None,
        options: ClientOptions::default(),
        circuit_per_transfer: false,
        users: 1,
        spread: SimDuration::ZERO,
        record: client.group.record,
        trace: false,
        latency: false,
        probe: None,
    }
}

const fn relay_class(class: Class) -> RelayClass {
    match class {
        Class::Guard => RelayClass::Guard,
        Class::Middle => RelayClass::Middle,
        Class::Exit => RelayClass::Exit,
        Class::GuardExit => RelayClass::GuardExit,
    }
}
