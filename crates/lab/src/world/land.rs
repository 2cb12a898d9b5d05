//! Hosts with their places, as they are added one after the other.

use super::{Host, WorldError};
use crate::scenario::resolved::PlacedPaths;
use onionlab_engine::HostId;
use onionlab_net::latency::{AccessDelay, Country, LatencyTable, Location, Place, PlaceDistribution};
use onionlab_quantities::{Bandwidth, RandomStream, Seed, SimDuration};
use onionlab_tor::Role;
use std::collections::BTreeSet;

/// Hosts with their places.
pub(super) struct Land {
    pub table: LatencyTable,
    /// Of the network: places and access delays are the same in all of its runs.
    seed: Seed,
    pub hosts: Vec<Host>,
    /// By host.
    pub locations: Vec<Location>,
    taken: BTreeSet<String>,
}

/// The table that is named, or the built-in one, with all that is said of it.
pub(super) fn latencies(paths: &PlacedPaths) -> Result<LatencyTable, WorldError> {
    let table = match &paths.latency {
        Some(table) => LatencyTable::read_country_rtt(&table.location)?,
        None => LatencyTable::builtin(),
    };
    let floor = paths.latency_floor.unwrap_or(SimDuration::ZERO);
    let mut table = table.scaled(paths.latency_factor).floored(floor);
    for (pair, &time) in &paths.latency_between {
        let countries = pair.split_once('-').and_then(|(a, b)| Some((Country::parse(a)?, Country::parse(b)?)));
        let changed = countries.and_then(|(a, b)| table.with_round_trip(a, b, time));
        table = changed.ok_or_else(|| WorldError::NoSuchCountry { pair: pair.clone() })?;
    }
    Ok(table)
}

impl Land {
    pub fn new(table: LatencyTable, seed: Seed) -> Self {
        Self { table, seed, hosts: Vec::new(), locations: Vec::new(), taken: BTreeSet::new() }
    }

    /// Where the host with this identity is: in a place that is known, else in one drawn from `places`; its access delay is drawn.
    pub fn location(
        &self,
        identity: &str,
        known: Option<Place>,
        places: impl FnOnce() -> PlaceDistribution,
        access: AccessDelay,
    ) -> Location {
        let place = known.unwrap_or_else(|| places().draw(self.stream(identity, "place").at(0)));
        Location { place, access: access.draw(self.stream(identity, "access delay").at(0)) }
    }

    /// The random values of a host for one purpose.
    pub fn stream(&self, identity: &str, purpose: &str) -> RandomStream {
        RandomStream::new(self.seed, identity, purpose)
    }

    /// `wanted`, or with underscores behind it where a relay is called so: names select random values and must be unique.
    pub fn free_name(&self, wanted: String) -> String {
        let mut name = wanted;
        while self.taken.contains(&name) {
            name.push('_');
        }
        name
    }

    pub fn add(&mut self, name: String, up: Bandwidth, down: Bandwidth, role: Role, location: Location) -> HostId {
        self.taken.insert(name.clone());
        self.hosts.push(Host { name, up, down, role });
        self.locations.push(location);
        HostId(self.hosts.len() as u32 - 1)
    }
}
