//! A network sampled from a consensus or from the built-in model: capacities, places, servers, clients.

use super::effective::{has_ipv6_subnets, in_force};
use super::land::{Land, latencies};
use super::onion::{self, Surroundings};
use super::routes::{Relays, Route, Routes, Servers};
use super::topology::ByPlace;
use super::{Client, Layout, WorldError, load_target, paths_of, relay_class, selector};
use crate::scenario::clients;
use crate::scenario::network::ExitPolicies;
use crate::scenario::onion::Onion;
use crate::scenario::resolved::{ClientGroup, FamilySource, LoadTarget, Members, Network, SampledNetwork, Size, Treatment};
use crate::scenario::{MAX_CLIENTS, MAX_SEQUENCES, ResolvedScenario};
use onionlab_directory::synth::{self, Model, synth};
use onionlab_directory::{CapacityModel, Class, Consensus, Divergence, Families, Flag, Position, Relay, Sample, sample};
use onionlab_engine::HostId;
use onionlab_net::latency::{AccessDelay, GeoIp, PlaceDistribution};
use onionlab_paths::PathOptions;
use onionlab_quantities::{Bandwidth, RandomStream, Seed};
use onionlab_tor::Role;

pub(super) fn layout<'a>(
    scenario: &'a ResolvedScenario,
    treatment: &Treatment,
    network_seed: Seed,
    run_seed: Seed,
) -> Result<Layout<'a>, WorldError> {
    let (mut source, common, geoip) = match &scenario.network {
        Network::Consensus(network) => {
            let geoip = network.geoip.as_ref().map(|file| GeoIp::read(&file.location)).transpose()?;
            (Consensus::read(&network.document.location)?, &network.common, geoip)
        }
        Network::Synthetic(network) => (synthetic(network.year)?, &network.common, None),
        Network::File(_) | Network::Explicit(_) => unreachable!("networks that are not sampled are laid out elsewhere"),
    };
    let size = match common.size {
        Size::Relays(relays) => onionlab_directory::Size::Relays(relays as usize),
        Size::Scale(scale) => onionlab_directory::Size::Scale(scale),
    };
    set_policies(&mut source, scenario, common)?;
    let families = match &common.families {
        None => Families::none(),
        Some(FamilySource::Model) => Families::model(&source.relays, Seed(scenario.base_seed)),
        Some(FamilySource::File(file)) => Families::read(&file.location, &source.relays)?,
    };
    let Sample { network, report } = sample(&source, size, network_seed)?;
    drop(source);
    let capacities = capacities(&network, common, network_seed)?;
    let table = latencies(&common.paths)?;
    let mut land = Land::new(table, network_seed);
    for (relay, capacity) in network.relays.iter().zip(&capacities) {
        add_relay(&mut land, relay, *capacity, geoip.as_ref());
    }
    let servers: Vec<HostId> = (0..common.servers).map(|index| add_server(&mut land, index, common.server_rate)).collect();
    let options = PathOptions { families, ipv6_subnets: has_ipv6_subnets(treatment.tor), ..PathOptions::default() };
    let selector = selector(&network.relays, &network.weights, &options, scenario)?;
    let mut report = divergence(&report);
    let counts = match scenario.load_target {
        None => given_counts(&scenario.clients, report["scale"].as_f64().unwrap_or(1.0))?,
        Some(target) => {
            let rate = load_target::payload_rate(&network, &capacities, position(target.position), target.utilisation);
            if rate <= 0.0 {
                return Err(WorldError::NoSuchPosition { position: target.position.as_str() });
            }
            report["load_target"] = load_target::report(&network, &capacities, rate);
            derived_counts(&scenario.clients, target, rate)?
        }
    };
    let params = in_force(treatment, network.params);
    let mut clients = Vec::new();
    let mut routes = Vec::new();
    for (group, count) in scenario.clients.iter().zip(counts) {
        for index in 0..count {
            let host = add_client(&mut land, group, index);
            let name = &land.hosts[host.index()].name;
            let circuits = paths_of(&selector, treatment, &params, run_seed, name)?;
            let servers = Servers::Drawn(RandomStream::new(run_seed, name, "server"));
            clients.push(Client { host, group, serves: false });
            routes.push(Route { circuits, servers });
        }
    }
    let surroundings = Surroundings { selector: &selector, treatment, params: &params, seed: run_seed };
    onion::add(&mut land, &scenario.clients, &surroundings, &mut clients, &mut routes)?;
    let relay_hosts = (0..network.relays.len() as u32).map(HostId).collect();
    let topology = ByPlace { table: land.table, locations: land.locations, jitter: common.paths.jitter, loss: common.paths.loss };
    Ok(Layout {
        hosts: land.hosts,
        clients,
        topology: Box::new(topology),
        routes: Routes { clients: routes, relays: Some(Relays { selector, hosts: relay_hosts }), servers },
        params,
        divergence: report.to_string(),
    })
}

/// Exit policies as the experiment wants them. Families and policies are drawn for the whole network, one for all samples of it.
fn set_policies(source: &mut Consensus, scenario: &ResolvedScenario, common: &SampledNetwork) -> Result<(), WorldError> {
    match (common.exit_policies, &scenario.network) {
        (Some(ExitPolicies::Consensus), Network::Consensus(network)) if !source.has_policies() => {
            return Err(WorldError::NoExitPolicies { document: network.document.path.clone() });
        }
        (Some(ExitPolicies::Flag), _) => source.relays.iter_mut().for_each(|relay| relay.exit_policy = None),
        (Some(ExitPolicies::Model), _) => synth::draw_policies(&mut source.relays, Seed(scenario.base_seed)),
        (Some(ExitPolicies::Consensus) | None, _) => {}
    }
    Ok(())
}

/// The whole network of that year, one for all: networks differ by what is sampled of it.
fn synthetic(year: f64) -> Result<Consensus, WorldError> {
    Ok(synth(&Model::built_in(), &synth::Options { year, ..synth::Options::default() })?)
}

/// The report as JSON, with the share of relays that was sampled.
fn divergence(report: &Divergence) -> serde_json::Value {
    let mut json = serde_json::to_value(report).expect("a report has no map with keys other than strings");
    json["scale"] = serde_json::json!(report.relays_sample as f64 / report.relays_full as f64);
    json
}

/// Link rates of the relays, by the model and what the experiment file changes of it.
fn capacities(network: &Consensus, common: &SampledNetwork, seed: Seed) -> Result<Vec<Bandwidth>, WorldError> {
    let given = &common.capacity;
    let mut model = CapacityModel::for_network(network).scaled(given.factor)?;
    let classes = [given.guard, given.middle, given.exit, given.guard_exit];
    for (class, power) in Class::ALL.into_iter().zip(classes) {
        if let Some(power) = power {
            model = model.with_class(class, power.factor, power.exponent)?;
        }
    }
    if given.spread {
        model = model.with_spread(seed);
    }
    Ok(network.relays.iter().map(|relay| model.rate(relay)).collect())
}

/// Clients of each group as the experiment file has them, in a network that is `scale` of the whole.
fn given_counts(groups: &[ClientGroup], scale: f64) -> Result<Vec<u32>, WorldError> {
    let count = |group: &ClientGroup| match group.members {
        Members::Count { count, .. } => u64::from(count),
        Members::Scaled { users_at_full_scale, .. } => {
            (libm::round(scale * f64::from(users_at_full_scale) / f64::from(group.users)) as u64).max(1)
        }
        Members::Share { .. } | Members::Hosts { .. } | Members::Document { .. } => 0,
    };
    let counts: Vec<u64> = groups.iter().map(count).collect();
    let clients = counts.iter().sum::<u64>() + services(groups);
    if clients > MAX_CLIENTS {
        return Err(WorldError::TooManyUsers { clients });
    }
    not_too_many(groups, &counts)?;
    Ok(counts.into_iter().map(|count| count as u32).collect())
}

/// Clients of each group, by their shares, that together ask for `payload_rate` bytes a second.
fn derived_counts(groups: &[ClientGroup], target: LoadTarget, payload_rate: f64) -> Result<Vec<u32>, WorldError> {
    let share = |group: &ClientGroup| if let Members::Share { share, .. } = group.members { share } else { 0.0 };
    let each: f64 =
        groups.iter().map(|group| share(group) * load_target::demand(&group.load, group.users, target.utilisation)).sum();
    let all = libm::ceil(payload_rate / each);
    let counts: Vec<u64> = groups.iter().map(|group| (libm::round(all * share(group)) as u64).max(1)).collect();
    let clients: u64 = counts.iter().fold(services(groups), |sum, count| sum.saturating_add(*count));
    if clients > MAX_CLIENTS {
        return Err(WorldError::TooManyClients { utilisation: target.utilisation, clients });
    }
    not_too_many(groups, &counts)?;
    Ok(counts.into_iter().map(|count| count as u32).collect())
}

/// Onion services of all groups, which are hosts as clients are.
fn services(groups: &[ClientGroup]) -> u64 {
    let services = |group: &ClientGroup| match &group.onion {
        Some(Onion::Services { services, .. }) => u64::from(*services),
        Some(Onion::Hosts(_)) | None => 0,
    };
    groups.iter().map(services).sum()
}

fn not_too_many(groups: &[ClientGroup], counts: &[u64]) -> Result<(), WorldError> {
    let sequences = groups.iter().zip(counts).map(|(group, count)| count * group.sequences()).sum();
    if sequences > MAX_SEQUENCES { Err(WorldError::TooManySequences { sequences }) } else { Ok(()) }
}

const fn position(position: clients::Position) -> Position {
    match position {
        clients::Position::Guard => Position::Guard,
        clients::Position::Middle => Position::Middle,
        clients::Position::Exit => Position::Exit,
    }
}

fn add_relay(land: &mut Land, relay: &Relay, capacity: Bandwidth, geoip: Option<&GeoIp>) {
    let identity = relay.fingerprint.to_string();
    let known = geoip.and_then(|geoip| geoip.country(relay.address)).and_then(|country| land.table.place_of(country));
    let exit = matches!(relay.class(), Class::Exit | Class::GuardExit);
    let places = || PlaceDistribution::relays(&land.table, relay.flags.contains(Flag::Guard), exit);
    let location = land.location(&identity, known, places, AccessDelay::data_centre());
    let role = Role::Relay { class: relay_class(relay.class()), limit: None };
    land.add(relay.name.clone(), capacity, capacity, role, location);
}

fn add_server(land: &mut Land, index: u32, rate: Bandwidth) -> HostId {
    let name = land.free_name(format!("server{index}"));
    let location = land.location(&name, None, || PlaceDistribution::servers(&land.table), AccessDelay::data_centre());
    land.add(name, rate, rate, Role::Server, location)
}

/// A client's access line: a consumer's, or if it stands for many users as much as tornettools reckons for them (`generate.py`: 10 Mbit/s each).
fn line(consumer: Bandwidth, users: u32) -> Bandwidth {
    if users > 1 { consumer.max(Bandwidth::from_bits_per_sec(10_000_000 * u64::from(users))) } else { consumer }
}

fn add_client(land: &mut Land, group: &ClientGroup, index: u32) -> HostId {
    let name = land.free_name(format!("{}{index}", group.group));
    let location = land.location(&name, None, || PlaceDistribution::users(&land.table), AccessDelay::client());
    let usual = land.table.access_bandwidth(location.place);
    let (up, down) = match group.members {
        Members::Count { up, down, .. } | Members::Share { up, down, .. } | Members::Scaled { up, down, .. } => (up, down),
        Members::Document { .. } | Members::Hosts { .. } => (None, None),
    };
    let (usual_up, usual_down) = (line(usual.up, group.users), line(usual.down, group.users));
    land.add(name, up.unwrap_or(usual_up), down.unwrap_or(usual_down), Role::Client, location)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use onionlab_directory::{Flavour, PortSummary};

    fn common(keys: &str) -> (ResolvedScenario, SampledNetwork) {
        let text = format!(
            "title = \"A test\"\nduration = \"1 s\"\n[network]\nkind = \"synthetic\"\n{keys}\n[[clients]]\ngroup = \"a\"\ncount = 1\n\
             load = {{ kind = \"bulk\", size = \"1 MB\" }}\n"
        );
        let scenario = Scenario::parse(std::path::Path::new("test.toml"), text).and_then(|scenario| scenario.resolve()).unwrap();
        let Network::Synthetic(network) = &scenario.network else { unreachable!("the kind is synthetic") };
        let common = network.common.clone();
        (scenario, common)
    }

    #[test]
    fn the_line_of_many_users_is_as_wide_as_theirs_together() {
        let mbit = |rate: u64| Bandwidth::from_bits_per_sec(rate * 1_000_000);
        assert_eq!((line(mbit(21), 1), line(mbit(21), 2), line(mbit(21), 100)), (mbit(21), mbit(21), mbit(1000)));
    }

    #[test]
    fn exit_policies_are_those_that_are_asked_for() {
        let policies = |flavour, keys: &str| -> Vec<Option<PortSummary>> {
            let options = synth::Options { flavour, size: onionlab_directory::Size::Relays(500), ..synth::Options::default() };
            let mut source = synth(&Model::built_in(), &options).unwrap();
            let (scenario, common) = common(keys);
            set_policies(&mut source, &scenario, &common).unwrap();
            source.relays.into_iter().map(|relay| relay.exit_policy).collect()
        };
        let own = policies(Flavour::Unflavoured, "");
        assert!(own.iter().all(Option::is_some));
        assert!(policies(Flavour::Microdesc, "").iter().all(Option::is_none));
        assert!(policies(Flavour::Unflavoured, "exit-policies = \"flag\"").iter().all(Option::is_none));
        let drawn = policies(Flavour::Microdesc, "exit-policies = \"model\"");
        assert!(drawn.iter().all(Option::is_some) && drawn != own);
        assert_eq!(drawn, policies(Flavour::Microdesc, "exit-policies = \"model\""));
    }
}
