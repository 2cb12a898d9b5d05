//! Onion services: hosts of their own behind all clients, and the clients that load from them.

use super::land::Land;
use super::routes::{Route, Routes, Servers};
use super::{Client, WorldError, paths_of};
use crate::scenario::onion::Onion;
use crate::scenario::resolved::{ClientGroup, Treatment};
use onionlab_directory::Params;
use onionlab_engine::HostId;
use onionlab_net::latency::{AccessDelay, PlaceDistribution};
use onionlab_paths::PathSelector;
use onionlab_quantities::{RandomStream, Seed};
use onionlab_tor::Role;

/// What the paths of services are drawn from, and how.
pub(super) struct Surroundings<'a> {
    pub selector: &'a PathSelector,
    pub treatment: &'a Treatment,
    pub params: &'a Params,
    pub seed: Seed,
}

/// Adds the services of all groups to a network whose clients are there, in places as servers have.
pub(super) fn add<'a>(
    land: &mut Land,
    groups: &'a [ClientGroup],
    surroundings: &Surroundings<'_>,
    clients: &mut Vec<Client<'a>>,
    routes: &mut Vec<Route>,
) -> Result<(), WorldError> {
    for group in groups {
        let Some(Onion::Services { services, rate }) = group.onion else { continue };
        let hosts = (0..services).map(|index| {
            let name = land.free_name(format!("{}-service{index}", group.group));
            let location = land.location(&name, None, || PlaceDistribution::servers(&land.table), AccessDelay::data_centre());
            land.add(name, rate, rate, Role::Client, location)
        });
        let hosts: Vec<HostId> = hosts.collect();
        let names: Vec<String> = land.hosts.iter().map(|host| host.name.clone()).collect();
        join(group, &hosts, &names, surroundings, clients, routes)?;
    }
    Ok(())
}

/// The clients of the group load from the services on these hosts, which join the clients.
pub(super) fn join<'a>(
    group: &'a ClientGroup,
    hosts: &[HostId],
    names: &[String],
    surroundings: &Surroundings<'_>,
    clients: &mut Vec<Client<'a>>,
    routes: &mut Vec<Route>,
) -> Result<(), WorldError> {
    let Surroundings { selector, treatment, params, seed } = *surroundings;
    for (client, route) in clients.iter().zip(&mut *routes).filter(|(client, _)| client.group.group == group.group) {
        let draws = RandomStream::new(seed, &names[client.host.index()], "server");
        route.servers = Servers::Onion(draws, hosts.into());
    }
    for &host in hosts {
        let circuits = paths_of(selector, treatment, params, seed, &names[host.index()])?;
        clients.push(Client { host, group, serves: true });
        routes.push(Route { circuits, servers: Servers::None });
    }
    Ok(())
}

/// Refuses a network in which a client or a service finds no relays for its circuits.
pub(super) fn check(routes: &Routes, clients: &[Client<'_>], name: impl Fn(HostId) -> String) -> Result<(), WorldError> {
    match routes.without_onion_path() {
        None => Ok(()),
        Some(client) => Err(WorldError::NoOnionPath { host: name(clients[client.index()].host) }),
    }
}
