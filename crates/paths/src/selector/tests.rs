//! Paths of small networks: who may stand where, how often, and what is never drawn.

use super::*;
use onionlab_directory::{Class, ClassTotals, Families};
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
            *count.entry(selector.choose(&Request::default(), stream(i)).unwrap()).or_insert(0_u64) += 1;
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
    assert!(error(&[(Guard, 1, 1), (Exit, 1, 2)], false).contains("three relays"));
    assert!(error(&[(Guard, 1, 1), (Middle, 1, 1), (Exit, 1, 2)], true).contains("three different /16"));
    assert!(selector(&[(Guard, 1, 1), (Middle, 1, 1), (Exit, 1, 2)], false).is_ok());
    assert!(error(&[(GuardExit, 1, 1), (GuardExit, 1, 2)], true).contains("three different /16"));
}

#[test]
fn ports_need_policies_or_the_web() {
    let (mut relays, weights) = network(&NETWORK);
    let exits = |relays: &[Relay], ports: &[u16]| {
        PathSelector::new(relays, &weights, &PathOptions::default())?.exits(ExitDemand::pending(ports))
    };
    let all = exits(&relays, &[]).unwrap();
    assert_eq!(exits(&relays, &[80, 443]).unwrap().chances(), all.chances());
    assert!(exits(&relays, &[6881]).unwrap_err().to_string().contains("unflavoured"));
    // A port that is only foreseen may be served by nobody: any exit will do.
    let foreseen = |ports: &[u16]| {
        let selector = PathSelector::new(&relays, &weights, &PathOptions::default()).unwrap();
        selector.exits(ExitDemand::predicted(ports)).unwrap().chances().to_vec()
    };
    assert_eq!([foreseen(&[6881]), foreseen(&[80, 6881])], [all.chances(), all.chances()]);
    for relay in &mut relays {
        relay.exit_policy = Some("reject 1-65535".parse().unwrap());
    }
    assert!(exits(&relays, &[80]).unwrap_err().to_string().contains("an exit policy"));
    relays[3].exit_policy = Some("accept 6881-6889".parse().unwrap());
    relays[5].exit_policy = Some("accept 80,443".parse().unwrap());
    assert!(exits(&relays, &[25]).unwrap_err().to_string().contains("serves port 25"));
    assert!(exits(&relays, &[25, 26]).unwrap_err().to_string().contains("any of the ports 25, 26"));
    // A middle relay serves as exit for a port that its policy allows, with Wem.
    let selector = PathSelector::new(&relays, &weights, &PathOptions::default()).unwrap();
    let request = Request { demand: ExitDemand::pending(&[6881]), ..Request::default() };
    assert_eq!(selector.choose(&request, stream(0)).unwrap().exit, RelayIndex(3));
    assert!(selector.serves(RelayIndex(3), 6889) && !selector.serves(RelayIndex(3), 80));
    relays[3].flags.insert(Flag::BadExit);
    assert!(exits(&relays, &[6881]).is_err());
}

/// Relays 5 to 8 serve one port, two and three of the four ports wanted, and another one.
#[test]
fn the_exits_that_serve_the_most_ports_are_considered() {
    let (mut relays, weights) = network(&NETWORK);
    for relay in &mut relays {
        relay.exit_policy = Some("reject 1-65535".parse().unwrap());
    }
    for (relay, policy) in
        [(5, "accept 80"), (6, "accept 80,443"), (7, "accept 22,80,443"), (8, "accept 9999"), (9, "accept 22,80,443")]
    {
        relays[relay].exit_policy = Some(policy.parse().unwrap());
    }
    let selector = PathSelector::new(&relays, &weights, &PathOptions::default()).unwrap();
    let of = |demand| {
        let exits = selector.exits(demand).unwrap();
        exits.chances().iter().map(|&(relay, _)| relay.0).collect::<Vec<_>>()
    };
    assert_eq!(of(ExitDemand::pending(&[443, 80, 22, 25])), [7, 9]);
    assert_eq!(of(ExitDemand::pending(&[80])), [5, 6, 7, 9]);
    assert_eq!(of(ExitDemand::pending(&[9999])), [8]);
    assert_eq!(of(ExitDemand::ANY), [5, 6, 7, 8, 9]);
    // Foreseen ports: one of them is enough, and where none is served, any exit will do.
    assert_eq!(of(ExitDemand::predicted(&[443, 22])), [6, 7, 9]);
    assert_eq!(of(ExitDemand::predicted(&[25])), [5, 6, 7, 8, 9]);
}

/// Flags are asked for where they can be had: first with Stable, and without any flag where nobody is left.
#[test]
fn fast_and_stable_are_asked_for_and_given_up_together() {
    let without = |relays: &mut [Relay], places: &[usize], flags: &[Flag]| {
        for &place in places {
            relays[place].flags = relays[place].flags.iter().filter(|flag| !flags.contains(flag)).collect();
        }
    };
    let (mut relays, weights) = network(&NETWORK);
    without(&mut relays, &[5, 7], &[Flag::Fast]);
    without(&mut relays, &[6, 8], &[Flag::Stable]);
    let exits = |relays: &[Relay], demand: ExitDemand| {
        let selector = PathSelector::new(relays, &weights, &PathOptions::default()).unwrap();
        let exits = selector.exits(demand).unwrap();
        exits.chances().iter().map(|&(relay, _)| relay.0).collect::<Vec<_>>()
    };
    assert_eq!(exits(&relays, ExitDemand::ANY), [6, 8, 9]);
    assert_eq!(exits(&relays, ExitDemand::ANY.stable()), [9]);
    without(&mut relays, &[9], &[Flag::Fast]);
    assert_eq!(exits(&relays, ExitDemand::ANY.stable()), [5, 6, 7, 8, 9]);
    // The middle, after exclusions: relay 4 alone is Stable, and in the /16 of relay 0.
    let (mut relays, weights) = network(&NETWORK);
    without(&mut relays, &[0, 1, 2, 3, 5, 6, 7, 8, 9], &[Flag::Stable]);
    let selector = PathSelector::new(&relays, &weights, &PathOptions::default()).unwrap();
    let request = Request { demand: ExitDemand::ANY.stable(), ..Request::default() };
    let middles = |guard| -> Vec<RelayIndex> {
        let mut draws = stream(1).sequence();
        (0..100).filter_map(|_| selector.middle(&request, RelayIndex(guard), RelayIndex(5), &mut draws)).collect()
    };
    assert!(middles(1).iter().all(|&middle| middle == RelayIndex(4)));
    assert!(middles(0).iter().all(|&middle| middle != RelayIndex(4)) && middles(0).len() == 100);
}

#[test]
fn families_and_other_legs_are_kept_out() {
    let (relays, weights) = network(&NETWORK);
    let family = [0, 5, 3].map(|at: usize| relays[at].fingerprint);
    let options = PathOptions { families: Families::from_lists([family]), ..PathOptions::default() };
    let selector = PathSelector::new(&relays, &weights, &options).unwrap();
    let request = Request { exclude: &[RelayIndex(1), RelayIndex(8)], exit: Some(RelayIndex(5)), ..Request::default() };
    for i in 0..500 {
        let Path { guard, middle, exit } = selector.choose(&request, stream(i)).unwrap();
        assert_eq!(exit, RelayIndex(5));
        // Without guards nothing keeps the first relay apart from those of other legs.
        assert!([1, 2, 7, 8, 9].contains(&guard.0), "{guard:?} is not of the exit's family");
        assert!(![0, 1, 3, 5, 8].contains(&middle.0), "{middle:?}");
    }
    for guard in [1, 8, 0].map(RelayIndex) {
        assert!(
            selector.over_guard(&request, guard, &mut stream(1).sequence()).is_none(),
            "a guard of another leg, or of the family"
        );
    }
}

/// Relay 0 is of the family of relay 5, relays 1 and 6 are of one subnet, relay 7 is guard and exit.
#[test]
fn the_guard_of_a_leg_may_be_of_its_exits_family_or_subnet() {
    let (relays, weights) = network(&NETWORK);
    let family = [0, 5, 3].map(|at: usize| relays[at].fingerprint);
    let options = PathOptions { families: Families::from_lists([family]), ..PathOptions::default() };
    let selector = PathSelector::new(&relays, &weights, &options).unwrap();
    for (leg, pairs) in [(false, vec![(2, 5)]), (true, vec![(0, 5), (1, 6), (2, 5)])] {
        let exclude = &[RelayIndex(8)];
        let fits = |(guard, exit): &(u32, u32)| {
            let request = Request { leg, exit: Some(RelayIndex(*exit)), exclude, ..Request::default() };
            selector.guard_fits(&request, RelayIndex(*guard), RelayIndex(*exit))
        };
        let found: Vec<_> = [(0, 5), (1, 6), (2, 5), (7, 7), (8, 5)].into_iter().filter(fits).collect();
        assert_eq!(found, pairs, "leg: {leg}");
    }
    // The middle keeps off the families and subnets of both, as that of any circuit.
    let request = Request { leg: true, exit: Some(RelayIndex(5)), ..Request::default() };
    for i in 0..500 {
        let path = selector.over_guard(&request, RelayIndex(0), &mut stream(i).sequence()).unwrap();
        assert!(![0, 3, 4, 5].contains(&path.middle.0), "{path:?}");
    }
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
            let Path { guard, middle, exit } = selector.choose(&Request::default(), stream.member(i)).unwrap();
            prop_assert!(guard != middle && middle != exit && guard != exit);
            let subnet = |relay: RelayIndex| relays[relay.get()].2;
            if distinct {
                prop_assert!(subnet(guard) != subnet(middle) && subnet(middle) != subnet(exit) && subnet(guard) != subnet(exit));
            }
            prop_assert!(matches!(relays[guard.get()].0, Class::Guard | Class::GuardExit));
            prop_assert!(matches!(relays[exit.get()].0, Class::Exit | Class::GuardExit));
            let over = selector.over_guard(&Request::default(), guard, &mut stream.member(i).sequence()).unwrap();
            prop_assert!(over.guard == guard && over.exit != guard && over.middle != guard && over.middle != over.exit);
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
