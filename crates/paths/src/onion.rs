//! Paths of onion services and of their clients: vanguards-lite.
//!
//! A client picks a rendezvous point and builds a circuit of three hops to it, the service one of four; joined they are a path of six relays:
//! client - guard - layer 2 - rendezvous point - middle - layer 2' - guard' - service. Source: C tor `circuitbuild.c` (`route_len_for_purpose`,
//! `choose_good_exit_server`, `build_vanguard_middle_exclude_list`, `pick_vanguard_middle_node`), `entrynodes.c` (`maintain_layer2_guards`); Tor
//! specification "vanguards-spec", lite.

use crate::RelayIndex;
use crate::selector::{PathSelector, pick};
use onionlab_directory::Flag;
use onionlab_directory::params::{self, Params};
use onionlab_quantities::random::DrawSequence;
use onionlab_quantities::{Draw, RandomStream, SimTime};

/// How a client keeps layer-2 guards. Lifetimes are in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layer2Rules {
    /// How many.
    pub number: u32,
    /// Least lifetime.
    pub lifetime_min: u32,
    /// The lifetime is below this.
    pub lifetime_max: u32,
}

impl Layer2Rules {
    /// Those of a consensus, or tor's where it is silent.
    pub fn new(params: &Params) -> Self {
        let value = |param| params.value(param) as u32;
        Self {
            number: value(&params::HS_LAYER2_GUARDS),
            lifetime_min: value(&params::HS_LAYER2_LIFETIME_MIN),
            lifetime_max: value(&params::HS_LAYER2_LIFETIME_MAX),
        }
    }
}

/// The second relays of a client's onion-service circuits: few, kept for days, used evenly.
#[derive(Debug, Clone)]
pub struct Layer2 {
    rules: Layer2Rules,
    /// Relay and the second at which it is dropped.
    guards: Vec<(RelayIndex, u64)>,
    draws: DrawSequence,
}

impl Layer2 {
    pub(crate) fn new(rules: Layer2Rules, stream: RandomStream) -> Self {
        Self { rules, guards: Vec::new(), draws: stream.sequence() }
    }

    /// The layer-2 guards as they are now: expired ones replaced, the new ones drawn by middle weight among Stable relays
    /// (`maintain_layer2_guards`). One that is not Fast is drawn, as in tor, and dropped the next time.
    fn maintain(&mut self, now: SimTime, network: &PathSelector) {
        let now = now.as_nanos() / 1_000_000_000;
        let good = |relay| [Flag::Fast, Flag::Stable].into_iter().all(|flag| network.flags(relay).contains(flag));
        self.guards.retain(|&(relay, expires)| expires > now && good(relay));
        while self.guards.len() < self.rules.number as usize {
            let kept = &self.guards;
            let new = |relay| kept.iter().all(|&(other, _)| other != relay);
            let stable = |relay| new(relay) && network.flags(relay).contains(Flag::Stable);
            let drawn =
                pick(network.any_middle(), &mut self.draws, stable).or_else(|| pick(network.any_middle(), &mut self.draws, new));
            let Some(relay) = drawn else { return };
            let Layer2Rules { lifetime_min: min, lifetime_max: max, .. } = self.rules;
            let lifetime = u64::from(min) + self.draws.draw().below(u64::from(max.saturating_sub(min)));
            self.guards.push((relay, now + lifetime));
        }
    }

    /// One of them, evenly, that is none of `taken`.
    pub(crate) fn choose(
        &mut self,
        now: SimTime,
        network: &PathSelector,
        taken: &[RelayIndex],
        draw: Draw,
    ) -> Option<RelayIndex> {
        self.maintain(now, network);
        let free: Vec<RelayIndex> = self.guards.iter().map(|&(relay, _)| relay).filter(|relay| !taken.contains(relay)).collect();
        free.get(draw.below(free.len() as u64) as usize).copied()
    }
}

/// The relays of one onion-service circuit, from the one next to its owner.
///
/// Three hops where the owner has chosen the last relay, four where somebody else has (`route_len_for_purpose`). Neither subnets nor families
/// count here; no relay is next to itself or stands twice among the second to last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnionPath {
    /// The owner's guard.
    pub guard: RelayIndex,
    /// One of its layer-2 guards.
    pub layer2: RelayIndex,
    /// The third of four relays.
    pub middle: Option<RelayIndex>,
    /// Rendezvous point, introduction point or directory.
    pub last: RelayIndex,
}

impl OnionPath {
    /// Draws a path: the last relay by middle weight unless it is given, then what `first_two` gives for it, then the middle; `stable`: among Stable relays
    /// (`CIRCLAUNCH_NEED_UPTIME`).
    pub(crate) fn draw(
        network: &PathSelector,
        endpoint: Option<RelayIndex>,
        stable: bool,
        draws: &mut DrawSequence,
        first_two: impl FnOnce(&mut DrawSequence, RelayIndex) -> Option<(RelayIndex, RelayIndex)>,
    ) -> Option<Self> {
        let last = match endpoint {
            Some(endpoint) => endpoint,
            // No MiddleOnly relay is an endpoint (`CRN_FOR_HS`).
            None => network.pick_middle(stable, draws, |relay| !network.flags(relay).contains(Flag::MiddleOnly))?,
        };
        let (guard, layer2) = first_two(draws, last)?;
        let middle = match endpoint {
            Some(_) => Some(network.pick_middle(stable, draws, |relay| relay != guard && relay != layer2 && relay != last)?),
            None => None,
        };
        Some(Self { guard, layer2, middle, last })
    }

    /// The relays in order: three or four.
    pub fn relays(&self) -> impl Iterator<Item = RelayIndex> {
        [Some(self.guard), Some(self.layer2), self.middle, Some(self.last)].into_iter().flatten()
    }

    /// The six relays between a client, whose circuit to the rendezvous point this is, and a service with a circuit of its own to the same
    /// point, in the order of the client's cells. `None` if the circuits do not meet.
    pub fn joined(&self, service: &Self) -> Option<[RelayIndex; 6]> {
        let middle = service.middle.filter(|_| self.middle.is_none() && service.last == self.last)?;
        Some([self.guard, self.layer2, self.last, middle, service.layer2, service.guard])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidates::PathOptions;
    use crate::client::{ClientPaths, EntryRules};
    use crate::guards::{GuardRules, GuardVersion};
    use onionlab_directory::{BandwidthWeights, Class, ClassTotals, Relay};
    use onionlab_quantities::{Seed, SimDuration};
    use std::collections::BTreeMap;
    use std::net::Ipv4Addr;

    const DAY: u64 = 86_400;

    fn at(secs: u64) -> SimTime {
        SimTime::ZERO + SimDuration::from_secs(secs)
    }

    /// All relays in one /16: subnets do not count here. The last ten middle relays are not Stable.
    fn network() -> PathSelector {
        let relay = |i: u64| {
            let class = [Class::Guard, Class::Middle, Class::Exit][i as usize / 20];
            Relay::by_hand(&format!("r{i}"), class, 100 + i, Ipv4Addr::new(10, 0, 0, i as u8))
        };
        let mut relays: Vec<Relay> = (0..60).map(relay).collect();
        for relay in &mut relays[30..40] {
            relay.flags = relay.flags.iter().filter(|&flag| flag != Flag::Stable).collect();
        }
        let weights = BandwidthWeights::compute(&ClassTotals::of(&relays));
        PathSelector::new(&relays, &weights, &PathOptions { distinct_subnets: false, ..PathOptions::default() }).unwrap()
    }

    fn client(network: &PathSelector, name: &str) -> ClientPaths {
        let rules = GuardRules::new(GuardVersion::V0_4_9, &Params::default(), None);
        let layer2 = Layer2Rules::new(&Params::default());
        ClientPaths::new(network, EntryRules::Guards(rules), Some(layer2), Seed(5), name).unwrap()
    }

    #[test]
    fn four_layer_2_guards_are_used_evenly_and_kept_for_days() {
        let network = network();
        let mut client = client(&network, "client");
        let mut used = |secs| {
            let mut count: BTreeMap<RelayIndex, u32> = BTreeMap::new();
            for circuit in 0..400 {
                let path = client.onion_path(at(secs), &network, circuit, None, true).unwrap();
                *count.entry(path.layer2).or_default() += 1;
            }
            count
        };
        let first = used(0);
        assert_eq!(first.len(), 4);
        // 100 expected, standard deviation 8.7; a guard or endpoint that is one of the four makes way.
        assert!(first.values().all(|&times| (60..140).contains(&times)), "{first:?}");
        assert!(first.keys().all(|&relay| network.flags(relay).contains(Flag::Stable)));
        assert_eq!(used(DAY - 1).keys().collect::<Vec<_>>(), first.keys().collect::<Vec<_>>(), "nothing expires within a day");
        let later = used(12 * DAY);
        assert_eq!(later.len(), 4);
        assert_ne!(later.keys().collect::<Vec<_>>(), first.keys().collect::<Vec<_>>(), "after twelve days all are drawn anew");
    }

    #[test]
    fn client_and_service_meet_at_the_rendezvous_point() {
        let network = network();
        let (mut client, mut service) = (client(&network, "client"), client(&network, "service"));
        for circuit in 0..500 {
            let to = client.onion_path(at(0), &network, circuit, None, true).unwrap();
            assert_eq!(to.relays().count(), 3);
            assert!(network.flags(to.last).contains(Flag::Stable));
            let from = service.onion_path(at(0), &network, circuit, Some(to.last), true).unwrap();
            assert_eq!(from.relays().count(), 4);
            let joined = to.joined(&from).unwrap();
            assert_eq!(joined[2], to.last);
            assert!(joined.windows(2).all(|pair| pair[0] != pair[1]), "no relay is next to itself");
            let middle = from.middle.unwrap();
            assert!(middle != from.guard && middle != from.layer2 && middle != from.last);
            assert!(from.joined(&to).is_none() && to.joined(&to).is_none());
        }
    }

    /// Against the weights of middle relays among Stable ones: each count within five standard deviations.
    #[test]
    fn introduction_points_are_drawn_as_middle_relays_are() {
        let network = network();
        let service = client(&network, "service");
        let draws = 60_000;
        let mut counts: BTreeMap<RelayIndex, f64> = BTreeMap::new();
        for ordinal in 0..draws {
            *counts.entry(service.introduction_point(&network, ordinal).unwrap()).or_default() += 1.0;
        }
        let stable = |relay: &RelayIndex| network.flags(*relay).contains(Flag::Stable);
        let chances: Vec<_> = network.any_middle().chances().iter().copied().filter(|(relay, _)| stable(relay)).collect();
        let total: f64 = chances.iter().map(|(_, chance)| chance).sum();
        assert!(chances.len() >= 10 && counts.keys().all(stable));
        for (relay, chance) in chances {
            let expected = draws as f64 * chance / total;
            let got = counts.get(&relay).copied().unwrap_or(0.0);
            assert!((got - expected).abs() <= 5.0 * expected.sqrt(), "{relay:?}: {got} of {expected} expected");
        }
    }

    /// A client without guards keeps its first relay apart from the last, as on every other circuit; one with guards does not.
    #[test]
    fn the_first_relay_of_a_client_without_guards_is_not_the_last() {
        let network = network();
        let layer2 = Layer2Rules::new(&Params::default());
        let without = ClientPaths::new(&network, EntryRules::PerCircuit, Some(layer2), Seed(5), "client").unwrap();
        let mut met = [0, 0];
        for ((mut paths, circuits), met) in [(without, 2000), (client(&network, "client"), 2000)].into_iter().zip(&mut met) {
            for circuit in 0..circuits {
                // To each guard in turn, as an introduction point may be one.
                let last = RelayIndex((circuit % 20) as u32);
                let path = paths.onion_path(at(0), &network, circuit, Some(last), true).unwrap();
                *met += u32::from(path.guard == last);
            }
        }
        assert_eq!((met[0], met[1]), (0, 100), "the client with guards has one of the twenty");
    }

    #[test]
    fn internal_circuits_end_at_a_middle_relay() {
        let network = network();
        let rules = GuardRules::new(GuardVersion::V0_3_5, &Params::default(), None);
        let mut old = ClientPaths::new(&network, EntryRules::Guards(rules), None, Seed(5), "old").unwrap();
        assert!(old.onion_path(at(0), &network, 0, None, true).is_none());
        let mut new = client(&network, "new");
        let mut seconds = [std::collections::BTreeSet::new(), std::collections::BTreeSet::new()];
        for circuit in 0..200 {
            for (paths, seconds) in [&mut old, &mut new].into_iter().zip(&mut seconds) {
                let path = paths.internal_path(at(0), &network, circuit, true).unwrap();
                seconds.insert(path.middle);
                assert!(path.guard != path.middle && path.middle != path.exit && path.guard != path.exit);
                assert!([path.middle, path.exit].iter().all(|&relay| network.flags(relay).contains(Flag::Stable)));
            }
        }
        assert!(seconds[0].len() > 10 && seconds[1].len() == 4, "{seconds:?}");
        let stable = |paths: &mut ClientPaths, circuit| {
            let last = paths.internal_path(at(0), &network, circuit, false).unwrap().exit;
            network.flags(last).contains(Flag::Stable)
        };
        for paths in [&mut old, &mut new] {
            let of = (0..200).filter(|&circuit| stable(paths, circuit)).count();
            assert!((50..195).contains(&of), "{of} of 200 end at a Stable relay where none was asked for");
        }
    }
}
