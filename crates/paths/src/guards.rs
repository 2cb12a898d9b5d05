//! A client's guards, which it keeps.

use crate::RelayIndex;
use crate::candidates::PathError;
use crate::selector::{Path, PathSelector};
use onionlab_quantities::{RandomStream, Seed};

/// The guards of one client, and the random values of its circuits.
///
/// A client samples a few primary guards by weight without replacement and uses the first `to_use` of them, one drawn for each
/// circuit; a guard that the circuit's exit excludes is passed over. Source: Tor specification "guard-spec"; C tor
/// `entrynodes.c`; consensus parameters `guard-n-primary-guards` (3) and `guard-n-primary-guards-to-use` (1; 2 since 2022).
/// Deviation: guards never fail and are never rotated, so that a client's guards are the same from beginning to end.
#[derive(Debug, Clone)]
pub struct GuardSet {
    primary: Vec<RelayIndex>,
    to_use: usize,
    excluded_count: bool,
    stream: RandomStream,
}

impl GuardSet {
    /// The guards of the client with this name: a function of seed, name and network only.
    ///
    /// A network with fewer guards than `primary` gives as many as it has. `to_use` counts from the first; at least one is used.
    ///
    /// # Errors
    /// No guard of the network leaves a path.
    pub fn of_client(
        selector: &PathSelector,
        seed: Seed,
        client: &str,
        primary: usize,
        to_use: usize,
    ) -> Result<Self, PathError> {
        let mut draws = RandomStream::new(seed, client, "guards").sequence();
        let guards = selector.position(onionlab_directory::Position::Guard);
        let mut chosen: Vec<RelayIndex> = Vec::new();
        while chosen.len() < primary.max(1) {
            // A first try by alias table, then exactly: there are at most a handful to avoid.
            let free = |guard| !chosen.contains(&guard) && selector.has_path_over(guard);
            let first = guards.pick(draws.draw());
            let next = if free(first) { Some(first) } else { guards.pick_among(draws.draw(), free) };
            let Some(guard) = next else { break };
            chosen.push(guard);
        }
        if chosen.is_empty() {
            return Err(PathError::NoPath { reason: "every guard is excluded by every exit or every middle relay" });
        }
        Ok(Self {
            primary: chosen,
            to_use: to_use.max(1),
            excluded_count: true,
            stream: RandomStream::new(seed, client, "circuit path"),
        })
    }

    /// A guard that a circuit's exit excludes does not count among those in use: the next primary guard takes its place. In tor before 0.4;
    /// since, it counts, and the circuit has fewer to choose from.
    #[must_use]
    pub const fn passing_over_excluded(mut self) -> Self {
        self.excluded_count = false;
        self
    }

    /// The primary guards, the one used first in front.
    pub fn primary(&self) -> &[RelayIndex] {
        &self.primary
    }

    /// The path of the client's circuit number `k`: a function of seed, client name, `k` and the network only.
    pub fn path(&self, selector: &PathSelector, k: u64) -> Path {
        let stream = self.stream.member(k);
        let mut draws = stream.sequence();
        let exit = selector.exit(&mut draws);
        let fits = |guard: &&RelayIndex| selector.compatible(**guard, exit) && selector.has_middle(**guard, exit);
        let considered = if self.excluded_count { self.to_use.min(self.primary.len()) } else { self.primary.len() };
        let usable = || self.primary[..considered].iter().filter(fits).take(self.to_use);
        let nth = draws.draw().below(usable().count() as u64) as usize;
        let guard = usable().nth(nth).or_else(|| self.primary.iter().find(fits));
        match guard {
            Some(&guard) => Path { guard, middle: selector.middle(guard, exit, &mut draws), exit },
            // All the client's guards exclude this exit: take the first guard and an exit that goes with it.
            None => selector.choose_with_guard(self.primary[0], stream.member(0)).expect("only guards with a path are sampled"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidates::PathOptions;
    use onionlab_directory::{BandwidthWeights, Class, ClassTotals, Relay};
    use std::net::Ipv4Addr;

    fn selector(extra: &[&str]) -> PathSelector {
        let named = |prefix: &str, class, count: u64| -> Vec<Relay> {
            let relay = |i| {
                let address = Ipv4Addr::new(10, class as u8 * 40 + i as u8, 0, 1);
                Relay::by_hand(&format!("{prefix}{i}"), class, 100 + 10 * i, address)
            };
            (0..count).map(relay).collect()
        };
        let mut relays = named("g", Class::Guard, 12);
        relays.extend(named("m", Class::Middle, 12));
        relays.extend(named("e", Class::Exit, 8));
        relays.extend(extra.iter().map(|name| Relay::by_hand(name, Class::Middle, 50, Ipv4Addr::new(9, 9, 9, 9))));
        let weights = BandwidthWeights::compute(&ClassTotals::of(&relays));
        PathSelector::new(&relays, &weights, &PathOptions::default()).unwrap()
    }

    #[test]
    fn a_client_keeps_its_guards() {
        let selector = selector(&[]);
        let client = GuardSet::of_client(&selector, Seed(1), "client7", 3, 1).unwrap();
        assert_eq!(client.primary().len(), 3);
        let mut used = std::collections::HashMap::new();
        for k in 0..500 {
            *used.entry(client.path(&selector, k).guard).or_insert(0) += 1;
        }
        // No exit shares a /16 with a guard here, so the first guard is always free.
        assert_eq!(used.len(), 1);
        assert!(used.contains_key(&client.primary()[0]));

        let client = GuardSet::of_client(&selector, Seed(1), "client7", 3, 2).unwrap();
        let of_first = (0..500).filter(|&k| client.path(&selector, k).guard == client.primary()[0]).count();
        assert!((200..300).contains(&of_first), "{of_first}");
    }

    #[test]
    fn a_path_depends_on_seed_client_and_number_only() {
        let selector = selector(&[]);
        let path = |seed, client, k| GuardSet::of_client(&selector, Seed(seed), client, 3, 1).unwrap().path(&selector, k);
        assert_eq!(path(1, "a", 5), path(1, "a", 5));
        let others = [path(2, "a", 5), path(1, "b", 5), path(1, "a", 6)];
        assert!(others.iter().all(|&other| other != path(1, "a", 5)));
    }

    #[test]
    fn more_guards_wanted_than_there_are_gives_them_all() {
        let selector = selector(&["extra"]);
        let client = GuardSet::of_client(&selector, Seed(1), "client", 50, 1).unwrap();
        assert_eq!(client.primary().len(), 12);
    }

    #[test]
    fn an_excluded_guard_is_passed_over() {
        let at = |name: &str, class, subnet| Relay::by_hand(name, class, 100, Ipv4Addr::new(10, subnet, 0, 1));
        let relays = [
            at("g1", Class::Guard, 1),
            at("g2", Class::Guard, 2),
            at("m", Class::Middle, 3),
            at("m2", Class::Middle, 4),
            at("e1", Class::Exit, 1),
            at("e2", Class::Exit, 2),
        ];
        let selector = PathSelector::new(&relays, &BandwidthWeights::UNIFORM, &PathOptions::default()).unwrap();
        let client = GuardSet::of_client(&selector, Seed(1), "client", 2, 1).unwrap();
        for k in 0..100 {
            let path = client.path(&selector, k);
            assert_ne!(path.guard.0 + 4, path.exit.0);
        }
        let single = GuardSet::of_client(&selector, Seed(1), "client", 1, 1).unwrap();
        assert!((0..100).all(|k| single.path(&selector, k).guard == single.primary()[0]));
    }

    /// Of three guards, two in use, the exits exclude the first now and then: it counts as one of the two, or the third takes its place.
    #[test]
    fn an_excluded_guard_counts_or_is_passed_over() {
        let at = |name: &str, class, subnet| Relay::by_hand(name, class, 100, Ipv4Addr::new(10, subnet, 0, 1));
        let mut relays: Vec<Relay> = (1..=3).map(|subnet| at(&format!("g{subnet}"), Class::Guard, subnet)).collect();
        relays.extend([at("m", Class::Middle, 4), at("m2", Class::Middle, 5)]);
        relays.extend((1..=3).map(|subnet| at(&format!("e{subnet}"), Class::Exit, subnet)));
        let selector = PathSelector::new(&relays, &BandwidthWeights::UNIFORM, &PathOptions::default()).unwrap();
        let counting = GuardSet::of_client(&selector, Seed(1), "client", 3, 2).unwrap();
        let passing = counting.clone().passing_over_excluded();
        let first = counting.primary()[0];
        let used = |guards: &GuardSet| {
            let paths = (0..200).map(|k| guards.path(&selector, k));
            let of_first_excluded = paths.filter(|path| path.exit.0 == first.0 + 5).map(|path| path.guard);
            of_first_excluded.collect::<std::collections::BTreeSet<_>>().len()
        };
        assert_eq!((used(&counting), used(&passing)), (1, 2));
    }
}
