//! A network made elsewhere: hosts, places and clients as its document has them.

use super::effective::in_force;
use super::land::{Land, latencies};
use super::onion::{self, Surroundings};
use super::routes::{Relays, Route, Routes, Servers};
use super::topology::ByPlace;
use super::{Client, Layout, WorldError, paths_of, relay_class, selector};
use crate::scenario::ResolvedScenario;
use crate::scenario::document::{DocumentClient, DocumentHost, DocumentRelay};
use crate::scenario::resolved::{FileNetwork, RateLimit, Treatment};
use onionlab_directory::{BandwidthWeights, Class, ClassTotals, Flag, Flags, PortSummary, Relay};
use onionlab_engine::HostId;
use onionlab_net::latency::{AccessDelay, Country, LatencyTable, Location, Place, PlaceDistribution};
use onionlab_paths::PathOptions;
use onionlab_quantities::{RandomStream, Seed, SimDuration};
use onionlab_tor::Role;

pub(super) fn layout<'a>(
    scenario: &'a ResolvedScenario,
    treatment: &Treatment,
    file: &FileNetwork,
    network_seed: Seed,
    run_seed: Seed,
) -> Result<Layout<'a>, WorldError> {
    let table = latencies(&file.paths)?;
    let network = &file.network;
    let mut land = Land::new(table, network_seed);
    for relay in &network.relays {
        add_relay(&mut land, relay);
    }
    let servers: Vec<HostId> = network.servers.iter().map(|server| add_server(&mut land, server)).collect();

    let relays: Vec<Relay> = network.relays.iter().map(relay).collect();
    let weights = BandwidthWeights::compute(&ClassTotals::of(&relays));
    let options = PathOptions { distinct_subnets: network.distinct_subnets, ..PathOptions::default() };
    let selector = selector(&relays, &weights, &options, scenario)?;
    let params = network.consensus_params.iter().map(|(name, value)| (name.clone(), *value)).collect();
    let params = in_force(treatment, params);
    let mut clients = Vec::new();
    let mut routes = Vec::new();
    for group in &scenario.clients {
        for client in network.clients.iter().filter(|client| client.group == group.group) {
            let circuits = paths_of(&selector, treatment, &params, run_seed, &client.name)?;
            let servers = Servers::Drawn(RandomStream::new(run_seed, &client.name, "server"));
            clients.push(Client { host: add_client(&mut land, client), group, serves: false });
            routes.push(Route { circuits, servers });
        }
    }
    let surroundings = Surroundings { selector: &selector, treatment, params: &params, seed: run_seed };
    onion::add(&mut land, &scenario.clients, &surroundings, &mut clients, &mut routes)?;
    let relay_hosts = (0..relays.len() as u32).map(HostId).collect();
    let topology = ByPlace { table: land.table, locations: land.locations, jitter: file.paths.jitter, loss: file.paths.loss };
    Ok(Layout {
        hosts: land.hosts,
        clients,
        topology: Box::new(topology),
        routes: Routes { clients: routes, relays: Some(Relays { selector, hosts: relay_hosts }), servers },
        params,
        divergence: "null".to_owned(),
    })
}

/// The relay as a directory would list it.
fn relay(of: &DocumentRelay) -> Relay {
    let policy = || if of.flags.contains(Flag::Exit) { PortSummary::accept_all() } else { PortSummary::reject_all() };
    Relay {
        flags: of.flags,
        exit_policy: Some(of.exit_policy.clone().unwrap_or_else(policy)),
        ..Relay::by_hand(&of.name, of.flags.class(), u64::from(of.weight), of.address)
    }
}

fn add_relay(land: &mut Land, relay: &DocumentRelay) {
    let class = relay.flags.class();
    let places = |table: &LatencyTable, flags: Flags| {
        PlaceDistribution::relays(table, flags.contains(Flag::Guard), matches!(class, Class::Exit | Class::GuardExit))
    };
    let known = place(land, &relay.name, relay.country);
    let drawn = land.location(&relay.name, known, || places(&land.table, relay.flags), AccessDelay::data_centre());
    let role = Role::Relay { class: relay_class(class), limit: relay.limit().map(RateLimit::for_tor) };
    land.add(relay.name.clone(), relay.up, relay.down, role, with_access(drawn, relay.access_delay));
}

fn add_server(land: &mut Land, server: &DocumentHost) -> HostId {
    let known = place(land, &server.name, server.country);
    let drawn = land.location(&server.name, known, || PlaceDistribution::servers(&land.table), AccessDelay::data_centre());
    land.add(server.name.clone(), server.up, server.down, Role::Server, with_access(drawn, server.access_delay))
}

fn add_client(land: &mut Land, client: &DocumentClient) -> HostId {
    let known = place(land, &client.name, client.country);
    let drawn = land.location(&client.name, known, || PlaceDistribution::users(&land.table), AccessDelay::client());
    let usual = land.table.access_bandwidth(drawn.place);
    let (up, down) = (client.up.unwrap_or(usual.up), client.down.unwrap_or(usual.down));
    land.add(client.name.clone(), up, down, Role::Client, with_access(drawn, client.access_delay))
}

/// The place of a country; any of the table for a country that has none, as Shadow takes any vertex for a country that its graph lacks.
fn place(land: &Land, name: &str, country: Option<Country>) -> Option<Place> {
    let country = country?;
    let anywhere = || {
        let nth = land.stream(name, "place").at(0).below(land.table.len() as u64);
        land.table.places().nth(nth as usize).expect("an index below their number")
    };
    Some(land.table.place_of(country).unwrap_or_else(anywhere))
}

fn with_access(drawn: Location, given: Option<SimDuration>) -> Location {
    Location { access: given.unwrap_or(drawn.access), ..drawn }
}
