//! A network by hand: every host, link and path as the experiment file has it.

use super::effective::in_force;
use super::onion::{self, Surroundings};
use super::routes::{Circuits, Relays, Route, Routes, Servers};
use super::topology::ByHand;
use super::{Client, Host, Layout, WorldError, paths_of, relay_class, selector};
use crate::scenario::ResolvedScenario;
use crate::scenario::network::Role as Given;
use crate::scenario::onion::Onion;
use crate::scenario::resolved::{ExplicitNetwork, Host as GivenHost, Link, Members, RateLimit, Treatment};
use onionlab_directory::{BandwidthWeights, Class, ClassTotals, Families, Params, PortSummary, Relay};
use onionlab_engine::HostId;
use onionlab_net::Path;
use onionlab_paths::PathOptions;
use onionlab_quantities::{RandomStream, Seed, SimDuration};
use onionlab_tor::Role;
use std::net::Ipv4Addr;

pub(super) fn layout<'a>(
    scenario: &'a ResolvedScenario,
    treatment: &Treatment,
    network: &ExplicitNetwork,
    seed: Seed,
) -> Result<Layout<'a>, WorldError> {
    let hosts: Vec<Host> = network.hosts.iter().map(host).collect();
    let groups = scenario.clients.iter().filter_map(|group| match &group.members {
        Members::Hosts { hosts, path, server } => Some((group, hosts, *path, *server)),
        Members::Count { .. } | Members::Share { .. } | Members::Scaled { .. } | Members::Document { .. } => None,
    });
    let relays = if groups.clone().any(|(_, _, path, _)| path.is_none()) { Some(relays(scenario, network)?) } else { None };
    let params = in_force(treatment, Params::default());
    let mut clients = Vec::new();
    let mut routes = Vec::new();
    for (group, members, path, server) in groups {
        for &member in members {
            let name = &network.hosts[member as usize].name;
            let circuits = match (path, &relays) {
                (Some(path), _) => Circuits::Fixed(path.map(HostId)),
                (None, Some(Relays { selector, .. })) => paths_of(selector, treatment, &params, seed, name)?,
                (None, None) => unreachable!("a group without a path makes a selector"),
            };
            let servers = match server {
                Some(server) => Servers::Fixed(HostId(server)),
                None => Servers::Drawn(RandomStream::new(seed, name, "server")),
            };
            clients.push(Client { host: HostId(member), group, serves: false });
            routes.push(Route { circuits, servers });
        }
    }
    let names: Vec<String> = network.hosts.iter().map(|host| host.name.clone()).collect();
    for group in &scenario.clients {
        if let (Some(Onion::Hosts(members)), Some(relays)) = (&group.onion, &relays) {
            let members: Vec<HostId> = members.iter().copied().map(HostId).collect();
            let surroundings = Surroundings { selector: &relays.selector, treatment, params: &params, seed };
            onion::join(group, &members, &names, &surroundings, &mut clients, &mut routes)?;
        }
    }
    let of_role = |role| {
        let hosts = network.hosts.iter().zip(0..).filter(move |(host, _)| host.role == role);
        hosts.map(|(_, index)| HostId(index)).collect::<Vec<_>>()
    };
    let path = |link: &Link| Path { latency: link.latency, jitter: link.jitter, loss: link.loss as f32, beside: link.beside };
    let links = network.links.iter().map(|link| (link.between, path(link)));
    let default = Path { latency: network.default_latency, jitter: SimDuration::ZERO, loss: 0.0, beside: false };
    let topology = ByHand { links: links.collect(), default };
    Ok(Layout {
        hosts,
        clients,
        topology: Box::new(topology),
        routes: Routes { clients: routes, relays, servers: of_role(Given::Server) },
        params,
        divergence: "null".to_owned(),
    })
}

fn host(host: &GivenHost) -> Host {
    let role = match (class(host.role), host.role) {
        (Some(class), _) => Role::Relay { class: relay_class(class), limit: host.limit.map(RateLimit::for_tor) },
        (None, Given::Client) => Role::Client,
        (None, _) => Role::Server,
    };
    Host { name: host.name.clone(), up: host.up, down: host.down, role }
}

const fn class(role: Given) -> Option<Class> {
    match role {
        Given::Guard => Some(Class::Guard),
        Given::Middle => Some(Class::Middle),
        Given::Exit => Some(Class::Exit),
        Given::GuardExit => Some(Class::GuardExit),
        Given::Server | Given::Client => None,
    }
}

/// Draws paths among the relays by hand, all of which may stand in one path.
fn relays(scenario: &ResolvedScenario, network: &ExplicitNetwork) -> Result<Relays, WorldError> {
    let (relays, hosts): (Vec<Relay>, Vec<HostId>) = network
        .hosts
        .iter()
        .zip(0..)
        .filter_map(|(host, index)| {
            let class = class(host.role)?;
            let exit = matches!(class, Class::Exit | Class::GuardExit);
            let policy = if exit { PortSummary::accept_all() } else { PortSummary::reject_all() };
            let relay = Relay::by_hand(&host.name, class, u64::from(host.weight), Ipv4Addr::from(index));
            Some((Relay { exit_policy: Some(policy), ..relay }, HostId(index)))
        })
        .unzip();
    let weights = BandwidthWeights::compute(&ClassTotals::of(&relays));
    let fingerprint = |host: &u32| {
        let place = hosts.iter().position(|of_relay| of_relay.0 == *host).expect("only relays have families");
        relays[place].fingerprint
    };
    let families = Families::from_lists(network.families.iter().map(|family| family.iter().map(fingerprint).collect::<Vec<_>>()));
    let options = PathOptions { distinct_subnets: false, families, ..PathOptions::default() };
    Ok(Relays { selector: selector(&relays, &weights, &options, scenario)?, hosts })
}
