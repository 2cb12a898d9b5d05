//! Drawing whole paths under tor's exclusions.

use crate::RelayIndex;
use crate::candidates::{self, PathError, PathOptions};
use crate::distribution::Distribution;
use onionlab_directory::{BandwidthWeights, Position, Relay};
use onionlab_quantities::RandomStream;
use onionlab_quantities::random::DrawSequence;
use std::collections::BTreeSet;

/// The relays of one circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Path {
    /// Next to the client.
    pub guard: RelayIndex,
    /// Between.
    pub middle: RelayIndex,
    /// Next to the destination.
    pub exit: RelayIndex,
}

/// A network's relays, ready for drawing paths from.
///
/// Relays that exclude each other belong to one group: those of one /16, or only a relay itself
/// ([`PathOptions::distinct_subnets`]). Invariant: every exit that can be drawn has a guard and a middle relay to go with.
#[derive(Debug, Clone)]
pub struct PathSelector {
    guards: Distribution,
    middles: Distribution,
    exits: Distribution,
    /// By relay.
    group: Vec<u32>,
    /// Groups with relays that can be the middle.
    middle_groups: BTreeSet<u32>,
}

/// A draw that meets an excluded relay is repeated this often before the exact, slower draw takes over.
const TRIES: usize = 32;

impl PathSelector {
    /// The distributions of these relays.
    ///
    /// # Errors
    /// A position has no candidate, ports cannot be served or told, or no three relays go together.
    pub fn new(relays: &[Relay], weights: &BandwidthWeights, options: &PathOptions) -> Result<Self, PathError> {
        let position = |position| candidates::distribution(relays, weights, position, options);
        let (guards, middles, exits) = (position(Position::Guard)?, position(Position::Middle)?, position(Position::Exit)?);
        let group = |(relay, index): (&Relay, u32)| {
            let [a, b, ..] = relay.address.octets();
            if options.distinct_subnets { u32::from(a) << 8 | u32::from(b) } else { index }
        };
        let group: Vec<u32> = relays.iter().zip(0..).map(group).collect();
        let groups = |distribution: &Distribution| -> BTreeSet<u32> {
            distribution.chances().iter().map(|&(relay, _)| group[relay.get()]).collect()
        };
        let (guard_groups, middle_groups) = (groups(&guards), groups(&middles));
        let has_path = |exit: RelayIndex| {
            let exit = group[exit.get()];
            let mut guards = guard_groups.iter().filter(|&&guard| guard != exit);
            guards.any(|guard| middle_groups.iter().any(|middle| *middle != exit && middle != guard))
        };
        let exits = Distribution::new(exits.chances().iter().copied().filter(|&(exit, _)| has_path(exit)));
        let reason = if options.distinct_subnets {
            "a guard, a middle and an exit in three different /16 networks are needed"
        } else {
            "three different relays are needed, one for each position"
        };
        Ok(Self { guards, middles, exits: exits.ok_or(PathError::NoPath { reason })?, group, middle_groups })
    }

    /// A position's relays and chances, exclusions left aside (which change them a little).
    ///
    /// Exits without any possible path are not among them.
    pub const fn position(&self, position: Position) -> &Distribution {
        match position {
            Position::Guard => &self.guards,
            Position::Middle => &self.middles,
            Position::Exit => &self.exits,
        }
    }

    /// Whether two relays may stand in one path.
    #[inline]
    pub fn compatible(&self, a: RelayIndex, b: RelayIndex) -> bool {
        self.group[a.get()] != self.group[b.get()]
    }

    /// A path with a guard of its own, drawn from the first values of `stream`.
    pub fn choose(&self, stream: RandomStream) -> Path {
        let mut draws = stream.sequence();
        let exit = self.exits.pick(draws.draw());
        let guard = pick(&self.guards, &mut draws, |guard| self.compatible(guard, exit) && self.has_middle(guard, exit))
            .expect("an exit without a possible guard is not drawn");
        let middle = self.middle(guard, exit, &mut draws);
        Path { guard, middle, exit }
    }

    /// A guard for a client that will keep it, drawn from the first values of `stream`.
    pub fn choose_guard(&self, stream: RandomStream) -> RelayIndex {
        self.guards.pick(stream.at(0))
    }

    /// A path over a given guard, drawn from the first values of `stream`: the exit among those that go with the guard.
    ///
    /// # Errors
    /// No exit and middle go with the guard.
    pub fn choose_with_guard(&self, guard: RelayIndex, stream: RandomStream) -> Result<Path, PathError> {
        let mut draws = stream.sequence();
        let exit = pick(&self.exits, &mut draws, |exit| self.compatible(guard, exit) && self.has_middle(guard, exit))
            .ok_or(PathError::NoPathOverGuard { guard: guard.0 })?;
        Ok(Path { guard, middle: self.middle(guard, exit, &mut draws), exit })
    }

    /// An exit, guards left aside.
    pub(crate) fn exit(&self, draws: &mut DrawSequence) -> RelayIndex {
        self.exits.pick(draws.draw())
    }

    /// Whether any path leads over the guard.
    pub(crate) fn has_path_over(&self, guard: RelayIndex) -> bool {
        let mut exits = self.exits.chances().iter().map(|&(exit, _)| exit);
        exits.any(|exit| self.compatible(guard, exit) && self.has_middle(guard, exit))
    }

    /// The middle of a path whose ends are known to leave one.
    pub(crate) fn middle(&self, guard: RelayIndex, exit: RelayIndex, draws: &mut DrawSequence) -> RelayIndex {
        pick(&self.middles, draws, |middle| self.compatible(middle, guard) && self.compatible(middle, exit))
            .expect("the ends were checked to leave a middle")
    }

    /// Whether some middle relay goes with both ends, which must be compatible.
    pub(crate) fn has_middle(&self, guard: RelayIndex, exit: RelayIndex) -> bool {
        // Two groups are taken: with three there is always one left.
        let taken = [self.group[guard.get()], self.group[exit.get()]];
        self.middle_groups.len() > 2 || self.middle_groups.iter().any(|middle| !taken.contains(middle))
    }
}

/// Draws until `allowed` admits the relay, then exactly; `None` if it admits none.
fn pick(distribution: &Distribution, draws: &mut DrawSequence, allowed: impl Fn(RelayIndex) -> bool) -> Option<RelayIndex> {
    for _ in 0..TRIES {
        let relay = distribution.pick(draws.draw());
        if allowed(relay) {
            return Some(relay);
        }
    }
    distribution.pick_among(draws.draw(), allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onionlab_directory::{Class, ClassTotals};
    use onionlab_quantities::Seed;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    /// (class, weight, /16)
    fn network(relays: &[(Class, u64, u16)]) -> (Vec<Relay>, BandwidthWeights) {
        let relay = |(i, &(class, weight, subnet)): (usize, &(Class, u64, u16))| {
            let address = Ipv4Addr::from(u32::from(subnet) << 16 | i as u32);
            Relay::by_hand(&format!("relay{i}"), class, weight, address)
        };
        let relays: Vec<Relay> = relays.iter().enumerate().map(relay).collect();
        let weights = BandwidthWeights::compute(&ClassTotals::of(&relays));
        (relays, weights)
    }

    fn selector(relays: &[(Class, u64, u16)], distinct_subnets: bool) -> Result<PathSelector, PathError> {
        let (relays, weights) = network(relays);
        PathSelector::new(&relays, &weights, &PathOptions { distinct_subnets, ..PathOptions::default() })
    }

    fn stream(i: u64) -> RandomStream {
        RandomStream::new(Seed(11), "paths test", "path").member(i)
    }

    const NETWORK: [(Class, u64, u16); 10] = [
        (Class::Guard, 900, 1),
        (Class::Guard, 500, 2),
        (Class::Guard, 100, 3),
        (Class::Middle, 300, 4),
        (Class::Middle, 20, 1),
        (Class::Exit, 400, 5),
        (Class::Exit, 200, 2),
        (Class::GuardExit, 700, 6),
        (Class::GuardExit, 300, 4),
        (Class::GuardExit, 50, 7),
    ];

    /// The chance of every path, by tor's rule written out: exit by weight, guard by weight among those that go with
    /// it, middle by weight among those that go with both.
    fn exact(selector: &PathSelector, n: u32) -> Vec<(Path, f64)> {
        let all = || (0..n).map(RelayIndex);
        let chance = |position, relay| selector.position(position).chance(relay);
        let mut paths = Vec::new();
        for exit in all() {
            let guards: Vec<_> = all().filter(|&guard| selector.compatible(guard, exit)).collect();
            let guard_total: f64 = guards.iter().map(|&guard| chance(Position::Guard, guard)).sum();
            for &guard in &guards {
                let middles: Vec<_> =
                    all().filter(|&middle| selector.compatible(middle, exit) && selector.compatible(middle, guard)).collect();
                let middle_total: f64 = middles.iter().map(|&middle| chance(Position::Middle, middle)).sum();
                for &middle in &middles {
                    let p = chance(Position::Exit, exit) * chance(Position::Guard, guard) / guard_total
                        * chance(Position::Middle, middle)
                        / middle_total;
                    if p > 0.0 {
                        paths.push((Path { guard, middle, exit }, p));
                    }
                }
            }
        }
        paths
    }

    /// Pearson's chi-square over all possible paths. For k degrees of freedom the statistic has mean k and variance 2k;
    /// five deviations above are allowed (the seed is fixed, so this cannot flicker).
    #[test]
    fn paths_are_as_frequent_as_they_should_be() {
        for distinct_subnets in [true, false] {
            let selector = selector(&NETWORK, distinct_subnets).unwrap();
            let expected = exact(&selector, NETWORK.len() as u32);
            assert!((expected.iter().map(|&(_, p)| p).sum::<f64>() - 1.0).abs() < 1e-9);
            let draws = 400_000;
            let mut count = std::collections::HashMap::new();
            for i in 0..draws {
                *count.entry(selector.choose(stream(i))).or_insert(0_u64) += 1;
            }
            assert!(count.keys().all(|path| expected.iter().any(|(possible, _)| possible == path)));
            let frequent: Vec<_> = expected.iter().filter(|&&(_, p)| p * draws as f64 >= 5.0).collect();
            let chi_square: f64 = frequent
                .iter()
                .map(|(path, p)| {
                    let expected = p * draws as f64;
                    let observed = count.get(path).copied().unwrap_or(0) as f64;
                    (observed - expected).powi(2) / expected
                })
                .sum();
            let freedom = frequent.len() as f64 - 1.0;
            assert!(chi_square < freedom + 5.0 * (2.0 * freedom).sqrt(), "{chi_square} for {freedom} degrees of freedom");
        }
    }

    /// Weights of NETWORK by hand: G = 1500, M = 320, E = 600, D = 1050, T = 3470. E < T/3 = 1157 <= G, E + D >= T/3:
    /// case 3b with exits scarcer, Wed = 10000 (1050 - 1200 + 1500 + 320) / 3150 = 5301, Wgd = (10000 - 5301) / 2 = 2349.
    #[test]
    fn position_chances_by_hand() {
        let selector = selector(&NETWORK, true).unwrap();
        let exit = selector.position(Position::Exit);
        assert!((exit.chance(RelayIndex(5)) - 400.0 / (600.0 + 0.5301 * 1050.0)).abs() < 1e-9);
        assert!(exit.chance(RelayIndex(0)) < f64::MIN_POSITIVE);
        let guard = selector.position(Position::Guard);
        let wgg = 0.6066; // 10000 (G + M) / 2G = 6066
        assert!((guard.chance(RelayIndex(7)) - 0.2349 * 700.0 / (wgg * 1500.0 + 0.2349 * 1050.0)).abs() < 1e-9);
        assert!(guard.chance(RelayIndex(3)) < f64::MIN_POSITIVE);
    }

    #[test]
    fn impossible_networks_say_why() {
        use Class::{Exit, Guard, GuardExit, Middle};
        let error = |relays: &[_], distinct| selector(relays, distinct).unwrap_err().to_string();
        assert!(error(&[(Guard, 1, 1), (Middle, 1, 2)], true).contains("can be the exit: the Exit flag"));
        assert!(error(&[(Exit, 1, 1), (Middle, 1, 2)], true).contains("can be the guard: the Guard flag"));
        assert!(error(&[], true).contains("no relay of the network"));
        assert!(error(&[(Guard, 1, 1), (Exit, 1, 2)], false).contains("three different relays"));
        assert!(error(&[(Guard, 1, 1), (Middle, 1, 1), (Exit, 1, 2)], true).contains("three different /16"));
        assert!(selector(&[(Guard, 1, 1), (Middle, 1, 1), (Exit, 1, 2)], false).is_ok());
        assert!(error(&[(GuardExit, 1, 1), (GuardExit, 1, 2)], true).contains("three different /16"));
    }

    #[test]
    fn ports_need_policies_or_the_web() {
        let (mut relays, weights) = network(&NETWORK);
        let with = |relays: &[Relay], ports: &[u16]| {
            PathSelector::new(relays, &weights, &PathOptions { exit_ports: ports.to_vec(), ..PathOptions::default() })
        };
        assert!(with(&relays, &[80, 443]).is_ok());
        assert!(with(&relays, &[6881]).unwrap_err().to_string().contains("unflavoured"));
        assert_eq!(with(&relays, &[0]).unwrap_err(), PathError::PortZero);
        for relay in &mut relays {
            relay.exit_policy = Some("reject 1-65535".parse().unwrap());
        }
        relays[3].exit_policy = Some("accept 6881-6889".parse().unwrap());
        assert!(with(&relays, &[6881, 80]).unwrap_err().to_string().contains("serves all of the ports 6881, 80"));
        let selector = with(&relays, &[6881]).unwrap();
        // A middle relay serves as exit for a port that its policy allows, with Wem.
        assert_eq!(selector.choose(stream(0)).exit, RelayIndex(3));
    }

    fn any_network() -> impl Strategy<Value = Vec<(Class, u64, u16)>> {
        let class = prop::sample::select(Class::ALL.to_vec());
        prop::collection::vec((class, 0..1000_u64, 0..6_u16), 0..12)
    }

    proptest! {
        /// Small networks with few subnets: the exact draw and all the corner cases.
        #[test]
        fn every_path_obeys_the_exclusions(relays in any_network(), distinct: bool, seed: u64) {
            let Ok(selector) = selector(&relays, distinct) else { return Ok(()) };
            let stream = RandomStream::new(Seed(seed), "client", "path");
            for i in 0..50 {
                let Path { guard, middle, exit } = selector.choose(stream.member(i));
                prop_assert!(guard != middle && middle != exit && guard != exit);
                let subnet = |relay: RelayIndex| relays[relay.get()].2;
                if distinct {
                    prop_assert!(subnet(guard) != subnet(middle) && subnet(middle) != subnet(exit) && subnet(guard) != subnet(exit));
                }
                prop_assert!(matches!(relays[guard.get()].0, Class::Guard | Class::GuardExit));
                prop_assert!(matches!(relays[exit.get()].0, Class::Exit | Class::GuardExit));
                match selector.choose_with_guard(guard, stream.member(i)) {
                    Ok(path) => prop_assert!(path.guard == guard && path.exit != guard && path.middle != guard && path.middle != path.exit),
                    Err(error) => prop_assert!(false, "{error}"),
                }
            }
        }

        /// A network that is refused has no path; by exhaustion.
        #[test]
        fn a_refused_network_has_no_path(relays in any_network(), distinct: bool) {
            let possible = |g: usize, m: usize, e: usize| {
                let apart = |a: usize, b: usize| if distinct { relays[a].2 != relays[b].2 } else { a != b };
                matches!(relays[g].0, Class::Guard | Class::GuardExit)
                    && matches!(relays[e].0, Class::Exit | Class::GuardExit)
                    && apart(g, m) && apart(m, e) && apart(g, e)
            };
            let n = relays.len();
            let any = (0..n).any(|g| (0..n).any(|m| (0..n).any(|e| possible(g, m, e))));
            if selector(&relays, distinct).is_ok() {
                prop_assert!(any);
            } else if any {
                // Refused though flags and subnets allow a path: then weights of zero must be the reason.
                let positive = |i: usize| relays[i].1 > 0;
                let (list, weights) = network(&relays);
                let weighted = |g: usize, m: usize, e: usize| {
                    [(g, Position::Guard), (m, Position::Middle), (e, Position::Exit)]
                        .iter().all(|&(i, position)| positive(i) && weights.factor(position, list[i].class()) > 0.0)
                };
                let any = (0..n).any(|g| (0..n).any(|m| (0..n).any(|e| possible(g, m, e) && weighted(g, m, e))));
                prop_assert!(!any);
            }
        }
    }
}
