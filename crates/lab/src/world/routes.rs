//! Which relays a client's circuits go over and which server a transfer comes from, the same under every treatment.

use onionlab_engine::HostId;
use onionlab_paths::{ClientPaths, ExitDemand, PathSelector, RelayIndex, Request};
use onionlab_quantities::{RandomStream, SimTime};
use onionlab_tor::{ClientId, PathRequest, PathSource, Purpose};
use std::cell::RefCell;
use std::sync::Arc;

/// Where one client's circuits and transfers go.
pub(super) struct Route {
    pub circuits: Circuits,
    pub servers: Servers,
}

/// A client's circuits.
pub(super) enum Circuits {
    /// Always these relays.
    Fixed([HostId; 3]),
    /// Drawn by consensus weight, over the client's guards if it keeps any.
    Drawn(Box<RefCell<ClientPaths>>),
}

/// A client's servers.
pub(super) enum Servers {
    /// Always this one.
    Fixed(HostId),
    /// Any, equally likely, anew for each transfer.
    Drawn(RandomStream),
    /// The hosts of onion services, any of them equally likely, anew for each transfer.
    Onion(RandomStream, Arc<[HostId]>),
    /// An onion service asks nobody.
    None,
}

/// What paths are drawn from.
pub(super) struct Relays {
    pub selector: PathSelector,
    /// The hosts of the selector's relays, ascending.
    pub hosts: Vec<HostId>,
}

impl Relays {
    fn relay(&self, host: HostId) -> Option<RelayIndex> {
        self.hosts.binary_search(&host).ok().map(|place| RelayIndex(place as u32))
    }

    fn hosts_of(&self, relays: [RelayIndex; 3]) -> [HostId; 3] {
        relays.map(|relay| self.hosts[relay.get()])
    }
}

/// The routes of all clients.
pub(super) struct Routes {
    /// By client.
    pub clients: Vec<Route>,
    /// Absent where no path is drawn.
    pub relays: Option<Relays>,
    /// The servers to draw from.
    pub servers: Vec<HostId>,
}

/// No guard is ever down in a run, and none is there long enough to be replaced: no time passes for guards.
const NOW: SimTime = SimTime::ZERO;

impl PathSource for Routes {
    fn path(&self, request: &PathRequest<'_>) -> Option<[HostId; 3]> {
        match (&self.clients[request.client.index()].circuits, &self.relays) {
            (Circuits::Fixed(path), _) => Some(*path).filter(|_| request.purpose != Purpose::Internal),
            (Circuits::Drawn(paths), Some(relays)) => drawn(&mut paths.borrow_mut(), relays, request),
            (Circuits::Drawn(_), None) => unreachable!("a client with drawn paths has relays to draw from"),
        }
    }

    fn exits_to(&self, relay: HostId, port: u16) -> bool {
        // An exit that the experiment names serves whatever it is asked for.
        let Some(relays) = &self.relays else { return true };
        relays.relay(relay).is_some_and(|relay| relays.selector.serves(relay, port))
    }

    fn onion_path(&self, client: ClientId, circuit: u64, to: HostId, stable: bool) -> Option<[HostId; 4]> {
        let (paths, relays) = self.onion(client)?;
        let path = paths.borrow_mut().onion_path(NOW, &relays.selector, circuit, Some(relays.relay(to)?), stable)?;
        Some([path.guard, path.layer2, path.middle?, path.last].map(|relay| relays.hosts[relay.get()]))
    }

    fn compatible(&self, a: HostId, b: HostId) -> bool {
        let Some(relays) = &self.relays else { return a != b };
        let both = relays.relay(a).zip(relays.relay(b));
        both.is_some_and(|(a, b)| relays.selector.compatible(a, b))
    }

    fn introduction_point(&self, service: ClientId, ordinal: u64) -> Option<HostId> {
        let (paths, relays) = self.onion(service)?;
        let point = paths.borrow().introduction_point(&relays.selector, ordinal)?;
        Some(relays.hosts[point.get()])
    }

    fn server(&self, client: ClientId, stream: u64) -> HostId {
        match &self.clients[client.index()].servers {
            Servers::Fixed(server) => *server,
            Servers::Onion(draws, services) => services[draws.at(stream).below(services.len() as u64) as usize],
            Servers::None => unreachable!("an onion service opens no streams"),
            Servers::Drawn(draws) => self.servers[draws.at(stream).below(self.servers.len() as u64) as usize],
        }
    }
}

impl Routes {
    /// The paths of a client with drawn ones, and what they are drawn from.
    fn onion(&self, client: ClientId) -> Option<(&RefCell<ClientPaths>, &Relays)> {
        match (&self.clients[client.index()].circuits, &self.relays) {
            (Circuits::Drawn(paths), Some(relays)) => Some((paths, relays)),
            _ => None,
        }
    }

    /// The first client or service that finds no relays for circuits of onion services.
    pub(super) fn without_onion_path(&self) -> Option<ClientId> {
        let concerned = |route: &Route| matches!(route.servers, Servers::Onion(..) | Servers::None);
        let ids = (0..).map(ClientId).zip(&self.clients).filter(|(_, route)| concerned(route)).map(|(id, _)| id);
        let finds = |id: &ClientId| {
            let request = |circuit| PathRequest {
                client: *id,
                circuit,
                purpose: Purpose::Internal,
                stable: true,
                leg: false,
                exclude: &[],
                exit: None,
            };
            let Some(point) = self.introduction_point(*id, 0) else { return false };
            (0..TRIES).any(|circuit| self.path(&request(circuit)).is_some())
                && (0..TRIES).any(|circuit| self.onion_path(*id, circuit, point, true).is_some())
        };
        ids.into_iter().find(|id| !finds(id))
    }
}

/// Circuits for which relays are looked for before a network counts as too small.
const TRIES: u64 = 20;

fn drawn(paths: &mut ClientPaths, relays: &Relays, request: &PathRequest<'_>) -> Option<[HostId; 3]> {
    let exclude: Vec<RelayIndex> = request.exclude.iter().filter_map(|&host| relays.relay(host)).collect();
    let demand = match request.purpose {
        Purpose::Exit { ports, pending: true } => ExitDemand::pending(ports),
        Purpose::Exit { ports, pending: false } => ExitDemand::predicted(ports),
        Purpose::Internal => {
            let path = paths.internal_path(NOW, &relays.selector, request.circuit, request.stable)?;
            return Some(relays.hosts_of([path.guard, path.middle, path.exit]));
        }
    };
    let demand = if request.stable { demand.stable() } else { demand };
    let exit = match request.exit {
        Some(host) => Some(relays.relay(host)?),
        None => None,
    };
    let request_of_path = Request { demand, leg: request.leg, exit, exclude: &exclude };
    let path = paths.path(NOW, &relays.selector, request.circuit, &request_of_path)?;
    Some(relays.hosts_of([path.guard, path.middle, path.exit]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onionlab_directory::{BandwidthWeights, Class, ClassTotals, Params, Relay};
    use onionlab_paths::{EntryRules, GuardRules, GuardVersion, PathOptions};
    use onionlab_quantities::Seed;
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;

    fn relay(number: u8, class: Class, policy: &str) -> Relay {
        let relay = Relay::by_hand(&format!("relay{number}"), class, 100, Ipv4Addr::new(10, number, 0, 1));
        Relay { exit_policy: Some(policy.parse().unwrap()), ..relay }
    }

    /// Relays 2, 3 and 4 serve both ports, one of them, and another one.
    #[test]
    fn streams_that_wait_get_an_exit_for_most_of_their_ports_and_foreseen_ones_one_for_any() {
        let none = "reject 1-65535";
        let relays = [
            relay(0, Class::Guard, none),
            relay(1, Class::Middle, none),
            relay(2, Class::Exit, "accept 80,443"),
            relay(3, Class::Exit, "accept 443"),
            relay(4, Class::Exit, "accept 22"),
        ];
        let weights = BandwidthWeights::compute(&ClassTotals::of(&relays));
        let selector = PathSelector::new(&relays, &weights, &PathOptions::default()).unwrap();
        let paths = ClientPaths::new(&selector, EntryRules::PerCircuit, None, Seed(1), "client").unwrap();
        let client = Route { circuits: Circuits::Drawn(Box::new(RefCell::new(paths))), servers: Servers::None };
        let relays = Some(Relays { selector, hosts: (0..5).map(HostId).collect() });
        let routes = Routes { clients: vec![client], relays, servers: Vec::new() };
        let exits = |ports: &[u16], pending| -> BTreeSet<u32> {
            let purpose = Purpose::Exit { ports, pending };
            let request = |circuit| PathRequest {
                client: ClientId(0),
                circuit,
                purpose,
                stable: false,
                leg: false,
                exclude: &[],
                exit: None,
            };
            (0..100).filter_map(|circuit| routes.path(&request(circuit))).map(|[.., exit]| exit.0).collect()
        };
        assert_eq!(exits(&[443, 80], true), [2].into());
        assert_eq!(exits(&[443, 80], false), [2, 3].into());
        assert_eq!(exits(&[25], true), [].into());
        assert_eq!(exits(&[25], false), [2, 3, 4].into());
    }

    /// Guard 0 is in the subnet of exit 3, guard 1 is not: only legs to that exit may begin at either.
    #[test]
    fn legs_may_begin_in_the_subnet_of_their_exit() {
        let mut relays = [
            relay(0, Class::Guard, "reject 1-65535"),
            relay(1, Class::Guard, "reject 1-65535"),
            relay(2, Class::Middle, "reject 1-65535"),
            relay(3, Class::Exit, "accept 443"),
            relay(4, Class::Exit, "accept 443"),
        ];
        relays[0].address = Ipv4Addr::new(10, 3, 0, 2);
        let weights = BandwidthWeights::compute(&ClassTotals::of(&relays));
        let selector = PathSelector::new(&relays, &weights, &PathOptions::default()).unwrap();
        let rules = EntryRules::Guards(GuardRules::new(GuardVersion::V0_4_9, &Params::default(), None));
        let client = |number: u64| {
            let paths = ClientPaths::new(&selector, rules, None, Seed(number), "client").unwrap();
            Route { circuits: Circuits::Drawn(Box::new(RefCell::new(paths))), servers: Servers::None }
        };
        let clients = (0..20).map(client).collect();
        let relays = Some(Relays { selector, hosts: (0..5).map(HostId).collect() });
        let routes = Routes { clients, relays, servers: Vec::new() };
        let guards = |leg| -> BTreeSet<u32> {
            let purpose = Purpose::Exit { ports: &[443], pending: false };
            let exit = Some(HostId(3));
            let request = |client| PathRequest { client, circuit: 0, purpose, stable: true, leg, exclude: &[], exit };
            (0..20).filter_map(|client| routes.path(&request(ClientId(client)))).map(|[guard, ..]| guard.0).collect()
        };
        assert_eq!((guards(false), guards(true)), ([1].into(), [0, 1].into()));
    }
}
