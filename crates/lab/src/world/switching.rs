//! Active circuit switching in a world: its settings, and the relays of spare circuits.

use super::Host;
use crate::scenario::switching::{
    Switching, SwitchingAsk, SwitchingChoice, SwitchingEntry, SwitchingExit, SwitchingOccupancy, SwitchingSpares,
};
use onionlab_engine::HostId;
use onionlab_quantities::{Bandwidth, RandomStream, Seed};
use onionlab_tor::{
    ClientId, PathRequest, PathSource, RelayClass, Role, SpareRequest, SwitchAsk, SwitchChoice, SwitchEntry, SwitchExit,
    SwitchOccupancy, SwitchingSettings,
};

pub(super) fn settings(of: &Switching) -> SwitchingSettings {
    SwitchingSettings {
        gamma: of.gamma,
        alpha: of.alpha.unwrap_or(0.0),
        beta: of.beta,
        occupancy: match of.occupancy {
            SwitchingOccupancy::Absolute => SwitchOccupancy::Absolute,
            SwitchingOccupancy::Relative => SwitchOccupancy::Relative,
        },
        unwritable: of.unwritable,
        choice: match of.choice {
            SwitchingChoice::Bulkiest => SwitchChoice::Bulkiest,
            SwitchingChoice::AboveMean => SwitchChoice::AboveMean,
        },
        entry: match of.entry {
            SwitchingEntry::Same => SwitchEntry::Same,
            SwitchingEntry::Other => SwitchEntry::Other,
        },
        exit: match of.exit {
            SwitchingExit::New => SwitchExit::New,
            SwitchingExit::Kept => SwitchExit::Kept,
        },
        ask: match of.ask {
            SwitchingAsk::AtOnce => SwitchAsk::AtOnce,
            SwitchingAsk::Drained => SwitchAsk::Drained,
        },
        interval: of.interval,
        hysteresis: of.hysteresis,
        most_moves: of.moves,
        drop_idle: of.drop_idle,
        timeout: of.timeout,
    }
}

/// A relay as spares see it.
#[derive(Clone, Copy)]
struct Relay {
    host: HostId,
    class: RelayClass,
    rate: Bandwidth,
}

/// The paths of a world whose clients build spares.
///
/// Each position of a spare is drawn by bandwidth among the relays that are at least as fast as the one whose place it takes; where there are none, among all others. Or uniformly
/// among all others. Families and subnets are not looked at.
pub(super) struct WithSpares<P> {
    paths: P,
    spares: SwitchingSpares,
    relays: Vec<Relay>,
    /// By client.
    draws: Vec<RandomStream>,
    /// By client: the port that its streams go to.
    ports: Vec<u16>,
}

impl<P: PathSource> WithSpares<P> {
    /// `clients`: their hosts' names, and the port that their streams go to.
    pub fn new(paths: P, spares: SwitchingSpares, hosts: &[Host], clients: &[(&str, u16)], seed: Seed) -> Self {
        let relays = hosts.iter().zip(0..).filter_map(|(host, id)| match host.role {
            Role::Relay { class, limit } => {
                Some(Relay { host: HostId(id), class, rate: limit.map_or(host.up, |limit| limit.relays().min(host.up)) })
            }
            Role::Client | Role::Server => None,
        });
        let draws = clients.iter().map(|(name, _)| RandomStream::new(seed, name, "spare circuits"));
        let ports = clients.iter().map(|&(_, port)| port).collect();
        Self { paths, spares, relays: relays.collect(), draws: draws.collect(), ports }
    }

    fn rate(&self, host: HostId) -> Bandwidth {
        self.relays.iter().find(|relay| relay.host == host).map_or(Bandwidth::from_bits_per_sec(0), |relay| relay.rate)
    }

    /// One of the relays that fit: by bandwidth, of those that are as fast as `instead_of` if there are any; or uniformly.
    fn draw(&self, draw: RandomStream, ordinal: u64, instead_of: HostId, fits: impl Fn(&Relay) -> bool) -> Option<HostId> {
        let least = self.rate(instead_of);
        let fitting: Vec<Relay> = self.relays.iter().copied().filter(fits).collect();
        let fast: Vec<Relay> = fitting.iter().copied().filter(|relay| relay.rate >= least).collect();
        let uniform = self.spares == SwitchingSpares::Uniform;
        let among = if fast.is_empty() || uniform { fitting } else { fast };
        let weight = |relay: &Relay| if uniform { 1 } else { relay.rate.as_bits_per_sec().max(1) };
        let total: u64 = among.iter().map(weight).sum();
        let mut place = draw.at(ordinal).below(total.max(1));
        for relay in &among {
            let weight = weight(relay);
            if place < weight {
                return Some(relay.host);
            }
            place -= weight;
        }
        None
    }
}

impl<P: PathSource> PathSource for WithSpares<P> {
    fn path(&self, request: &PathRequest<'_>) -> Option<[HostId; 3]> {
        self.paths.path(request)
    }

    fn exits_to(&self, relay: HostId, port: u16) -> bool {
        self.paths.exits_to(relay, port)
    }

    fn server(&self, client: ClientId, stream: u64) -> HostId {
        self.paths.server(client, stream)
    }

    fn spare(&self, request: &SpareRequest) -> Option<[HostId; 3]> {
        let (draws, port) = (self.draws[request.client.index()], self.ports[request.client.index()]);
        let [entry, middle, exit] = request.instead_of;
        let new = |relay: &Relay| !request.instead_of.contains(&relay.host);
        let guards = |relay: &Relay| matches!(relay.class, RelayClass::Guard | RelayClass::GuardExit) && new(relay);
        let first = match request.entry {
            SwitchEntry::Same => entry,
            SwitchEntry::Other => self.draw(draws.member(0), request.circuit, entry, guards)?,
        };
        let other = |relay: &Relay| {
            let class = matches!(relay.class, RelayClass::Exit | RelayClass::GuardExit);
            class && new(relay) && relay.host != first && self.exits_to(relay.host, port)
        };
        let last = match request.exit {
            SwitchExit::Kept => exit,
            SwitchExit::New => self.draw(draws.member(2), request.circuit, exit, other)?,
        };
        let between = |relay: &Relay| new(relay) && relay.host != first && relay.host != last;
        let only = |relay: &Relay| relay.class == RelayClass::Middle && between(relay);
        let second = self.draw(draws.member(1), request.circuit, middle, only);
        let second = second.or_else(|| self.draw(draws.member(1), request.circuit, middle, between))?;
        Some([first, second, last])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;
    impl PathSource for Nothing {
        fn path(&self, _: &PathRequest<'_>) -> Option<[HostId; 3]> {
            None
        }
        fn exits_to(&self, relay: HostId, port: u16) -> bool {
            relay == HostId(9) && port == 22 || relay != HostId(9) && port != 22
        }
        fn server(&self, _: ClientId, _: u64) -> HostId {
            HostId(0)
        }
    }

    /// Two guards, five middles of 1 to 5 Mbit/s, three exits of 1, 2 and 9 Mbit/s, of which the last serves port 22 and no other, which nobody else does.
    fn spares(spares: SwitchingSpares) -> WithSpares<Nothing> {
        spares_to(spares, 80)
    }

    /// The same for a client whose streams go to this port.
    fn spares_to(spares: SwitchingSpares, port: u16) -> WithSpares<Nothing> {
        let relay = |class, mbit: u64| Host {
            name: String::new(),
            up: Bandwidth::from_bits_per_sec(mbit * 1_000_000),
            down: Bandwidth::UNLIMITED,
            role: Role::Relay { class, limit: None },
        };
        let rates = [(RelayClass::Guard, 4), (RelayClass::Guard, 1)].into_iter();
        let rates = rates.chain((1..6).map(|rate| (RelayClass::Middle, rate)));
        let rates = rates.chain([(RelayClass::Exit, 1), (RelayClass::Exit, 2), (RelayClass::Exit, 9)]);
        let hosts: Vec<Host> = rates.map(|(class, rate)| relay(class, rate)).collect();
        WithSpares::new(Nothing, spares, &hosts, &[("client", port)], Seed(1))
    }

    fn spare(circuit: u64, instead_of: [u32; 3], entry: SwitchEntry) -> Option<[u32; 3]> {
        let request =
            SpareRequest { client: ClientId(0), circuit, instead_of: instead_of.map(HostId), entry, exit: SwitchExit::New };
        spares(SwitchingSpares::Bandwidth).spare(&request).map(|path| path.map(|host| host.0))
    }

    /// In place of the middle of 3 Mbit/s one of 4 or 5, as often as they are fast; in place of the fastest any other.
    #[test]
    fn a_spare_is_as_fast_as_what_it_replaces_where_that_can_be() {
        let mut counts = [0_u32; 10];
        for circuit in 0..9000 {
            let [entry, middle, exit] = spare(circuit, [0, 4, 7], SwitchEntry::Same).unwrap();
            assert_eq!((entry, exit), (0, 8), "the other exit serves no port");
            counts[middle as usize] += 1;
        }
        assert_eq!(counts[5] + counts[6], 9000);
        // Four ninths, within four standard errors (47 each).
        assert!(counts[5].abs_diff(4000) < 190, "{counts:?}");
        let others: Vec<u32> = (0..200).map(|circuit| spare(circuit, [0, 6, 7], SwitchEntry::Same).unwrap()[1]).collect();
        assert!((2..6).all(|middle| others.contains(&middle)) && !others.contains(&6));
    }

    /// In place of the middle of 3 Mbit/s each of the other four, the slower ones too.
    #[test]
    fn a_uniform_spare_is_each_of_the_others_as_often() {
        let mut counts = [0_u32; 10];
        for circuit in 0..8000 {
            let instead_of = [0, 4, 7].map(HostId);
            let (entry, exit) = (SwitchEntry::Same, SwitchExit::New);
            let request = SpareRequest { client: ClientId(0), circuit, instead_of, entry, exit };
            let [first, middle, last] = spares(SwitchingSpares::Uniform).spare(&request).unwrap();
            assert_eq!((first, last), (HostId(0), HostId(8)));
            counts[middle.0 as usize] += 1;
        }
        // A quarter each, within five standard errors (39).
        assert!([2, 3, 5, 6].iter().all(|&middle: &usize| counts[middle].abs_diff(2000) < 195), "{counts:?}");
        assert_eq!(counts[4], 0);
    }

    #[test]
    fn a_spares_exit_serves_the_port_of_the_client() {
        let request = SpareRequest {
            client: ClientId(0),
            circuit: 0,
            instead_of: [0, 4, 7].map(HostId),
            entry: SwitchEntry::Same,
            exit: SwitchExit::New,
        };
        let exit = |port| spares_to(SwitchingSpares::Bandwidth, port).spare(&request).map(|path| path[2]);
        assert_eq!([exit(443), exit(22)], [Some(HostId(8)), Some(HostId(9))]);
    }

    #[test]
    fn another_entry_is_another_guard_and_without_one_there_is_no_spare() {
        assert!((0..100).all(|circuit| spare(circuit, [0, 4, 7], SwitchEntry::Other).unwrap()[0] == 1));
        assert_eq!(spare(0, [0, 1, 7], SwitchEntry::Other), None);
    }

    #[test]
    fn with_the_exit_kept_only_the_middle_is_another() {
        for circuit in 0..100 {
            let instead_of = [0, 4, 7].map(HostId);
            let request =
                SpareRequest { client: ClientId(0), circuit, instead_of, entry: SwitchEntry::Same, exit: SwitchExit::Kept };
            let [entry, middle, exit] = spares(SwitchingSpares::Bandwidth).spare(&request).unwrap();
            assert_eq!((entry, exit), (HostId(0), HostId(7)));
            assert!([HostId(5), HostId(6)].contains(&middle), "as fast as what it replaces: {middle:?}");
        }
    }
}
