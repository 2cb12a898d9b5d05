//! How often each relay should stand in each position, worked out from weights and rules alone, and a test of counts against that.
//!
//! Nothing here draws: the exit's chance is its weight over that of all exits for the port; given the exit, each of a client's guards in use that
//! the exit does not exclude has an even chance, or without guards its weight over that of all that are not excluded; given both, a middle
//! relay's chance is its weight over that of all relays but those that exit and guard exclude. Sums over all pairs of exit and guard give the
//! expected counts.

use onionlab_directory::{BandwidthWeights, Consensus, Families, Flag, Position, Relay};
use onionlab_paths::{Path, RelayIndex};
use std::collections::BTreeMap;

/// Relays with the weights that their draws go by, and who excludes whom.
pub struct Rules {
    /// By position, by relay: weight, zero where the relay may not stand there.
    weights: [Vec<f64>; 3],
    /// By relay: all that it excludes, itself among them, ascending.
    excluded: Vec<Vec<usize>>,
}

/// Counts by position and relay, expected or observed, in the order guard, middle, exit.
pub type Counts = [Vec<f64>; 3];

const GUARD: usize = 0;
const MIDDLE: usize = 1;
const EXIT: usize = 2;

impl Rules {
    /// The rules for circuits to a port of the web, in a network with these families.
    pub fn new(network: &Consensus, families: &Families, port: u16) -> Self {
        let policies = network.has_policies();
        let fast = |relay: &Relay| relay.flags.contains(Flag::Fast);
        let may = |relay: &Relay, position: Position| match position {
            Position::Guard => fast(relay) && relay.flags.contains(Flag::Guard),
            Position::Middle => fast(relay),
            Position::Exit => {
                let serves = match &relay.exit_policy {
                    Some(policy) => policy.allows(port),
                    None => !policies && relay.flags.contains(Flag::Exit),
                };
                fast(relay) && serves && !relay.flags.contains(Flag::BadExit)
            }
        };
        let weight = |relay: &Relay, position: Position| {
            let factor = factor(&network.weights, position, relay);
            if may(relay, position) { relay.weight as f64 * factor } else { 0.0 }
        };
        let weights = Position::ALL.map(|position| network.relays.iter().map(|relay| weight(relay, position)).collect());
        Self { weights, excluded: excluded(&network.relays, families) }
    }

    /// The chance of each relay as exit.
    fn exits(&self) -> Vec<(usize, f64)> {
        let total: f64 = self.weights[EXIT].iter().sum();
        let chances = self.weights[EXIT].iter().enumerate().filter(|(_, weight)| **weight > 0.0);
        chances.map(|(relay, weight)| (relay, weight / total)).collect()
    }

    fn excludes(&self, a: usize, b: usize) -> bool {
        self.excluded[a].binary_search(&b).is_ok()
    }

    /// Relays that both exclude.
    fn excluded_by_both(&self, a: usize, b: usize) -> impl Iterator<Item = usize> + '_ {
        let (few, many) = if self.excluded[a].len() < self.excluded[b].len() { (a, b) } else { (b, a) };
        self.excluded[few].iter().copied().filter(move |relay| self.excluded[many].binary_search(relay).is_ok())
    }

    /// By relay: the weight in a position of all that it excludes.
    fn excluded_weights(&self, position: usize) -> Vec<f64> {
        let weight = |excluded: &Vec<usize>| excluded.iter().map(|&relay| self.weights[position][relay]).sum();
        self.excluded.iter().map(weight).collect()
    }

    fn nothing(&self) -> Counts {
        [(); 3].map(|()| vec![0.0; self.excluded.len()])
    }

    /// Expected counts of so many circuits for each of these clients, whose primary guards are given, of which `in_use` are used and a guard
    /// that the exit excludes counts among these (tor 0.4.9). An exit that excludes all of a client's guards is drawn anew, which leaves the
    /// client the other exits.
    pub fn expected_with_guards(&self, clients: &[Vec<RelayIndex>], in_use: usize, circuits: f64) -> Counts {
        let mut expected = self.nothing();
        let exits = self.exits();
        // Expected circuits by pair of guard and exit.
        let mut pairs: BTreeMap<(usize, usize), f64> = BTreeMap::new();
        for primary in clients {
            let usable: Vec<Vec<usize>> = exits.iter().map(|&(exit, _)| self.usable(primary, in_use, exit)).collect();
            let possible: f64 =
                exits.iter().zip(&usable).filter(|(_, usable)| !usable.is_empty()).map(|((_, chance), _)| chance).sum();
            for (&(exit, chance), usable) in exits.iter().zip(&usable).filter(|(_, usable)| !usable.is_empty()) {
                let circuits = chance / possible * circuits;
                expected[EXIT][exit] += circuits;
                for &guard in usable {
                    *pairs.entry((guard, exit)).or_default() += circuits / usable.len() as f64;
                }
            }
        }
        self.add_pairs(&mut expected, pairs.into_iter());
        expected
    }

    /// The guards among which a circuit with this exit chooses.
    fn usable(&self, primary: &[RelayIndex], in_use: usize, exit: usize) -> Vec<usize> {
        let fitting = |guards: &[RelayIndex]| -> Vec<usize> {
            guards.iter().map(|guard| guard.get()).filter(|&guard| !self.excludes(exit, guard)).collect()
        };
        let mut usable = fitting(&primary[..in_use]);
        if usable.is_empty() {
            usable = fitting(primary);
            usable.truncate(1);
        }
        usable
    }

    /// Expected counts of so many circuits whose first relay is drawn for each.
    pub fn expected_without_guards(&self, circuits: f64) -> Counts {
        let mut expected = self.nothing();
        let total: f64 = self.weights[GUARD].iter().sum();
        let excluded = self.excluded_weights(GUARD);
        let exits = self.exits();
        for &(exit, chance) in &exits {
            expected[EXIT][exit] = chance * circuits;
        }
        let guards: Vec<(usize, f64)> =
            self.weights[GUARD].iter().copied().enumerate().filter(|(_, weight)| *weight > 0.0).collect();
        let pairs = exits.iter().flat_map(|&(exit, chance)| {
            let left = total - excluded[exit];
            let fitting = guards.iter().filter(move |(guard, _)| !self.excludes(exit, *guard));
            fitting.map(move |&(guard, weight)| ((guard, exit), chance * circuits * weight / left))
        });
        self.add_pairs(&mut expected, pairs);
        expected
    }

    /// Adds what follows for guards and middle relays from how many circuits have which guard and exit.
    fn add_pairs(&self, expected: &mut Counts, pairs: impl Iterator<Item = ((usize, usize), f64)>) {
        let total: f64 = self.weights[MIDDLE].iter().sum();
        let excluded = self.excluded_weights(MIDDLE);
        // A middle relay's count is its weight times the sum of circuits / weight left, over all pairs that do not exclude it. By inclusion and
        // exclusion: over all pairs, less those whose guard excludes it, less those whose exit does, and again those of which both do.
        let mut all = 0.0;
        let mut by_end = vec![0.0; self.excluded.len()];
        let mut by_both = vec![0.0; self.excluded.len()];
        for ((guard, exit), circuits) in pairs {
            expected[GUARD][guard] += circuits;
            let twice: f64 = self.excluded_by_both(guard, exit).map(|relay| self.weights[MIDDLE][relay]).sum();
            let share = circuits / (total - excluded[guard] - excluded[exit] + twice);
            all += share;
            by_end[guard] += share;
            by_end[exit] += share;
            self.excluded_by_both(guard, exit).for_each(|relay| by_both[relay] += share);
        }
        for (relay, both) in by_both.into_iter().enumerate() {
            let either: f64 = self.excluded[relay].iter().map(|&end| by_end[end]).sum();
            expected[MIDDLE][relay] = self.weights[MIDDLE][relay] * (all - either + both).max(0.0);
        }
    }
}

/// The chance of each relay to be the first and to be the second guard of a client's sample: the first is drawn by weight among the relays that
/// may be kept, the second by weight among the others.
pub fn sampled_guards(network: &Consensus) -> [Vec<f64>; 2] {
    let weight = |relay: &Relay| {
        let kept =
            [Flag::Guard, Flag::Stable, Flag::Fast, Flag::Valid, Flag::V2Dir].into_iter().all(|flag| relay.flags.contains(flag));
        if kept { relay.weight as f64 * factor(&network.weights, Position::Guard, relay) } else { 0.0 }
    };
    let weights: Vec<f64> = network.relays.iter().map(weight).collect();
    let total: f64 = weights.iter().sum();
    let first: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
    let odds: f64 = first.iter().map(|p| p / (1.0 - p)).sum();
    let second = first.iter().map(|p| p * (odds - p / (1.0 - p))).collect();
    [first, second]
}

/// The bandwidth weight of a relay in a position, by the letters of its flags.
fn factor(weights: &BandwidthWeights, position: Position, relay: &Relay) -> f64 {
    let guard = relay.flags.contains(Flag::Guard);
    let exit = relay.flags.contains(Flag::Exit) && !relay.flags.contains(Flag::BadExit);
    let of = match (position, guard, exit) {
        (Position::Guard, true, false) => weights.wgg,
        (Position::Guard, false, false) => weights.wgm,
        (Position::Guard, false, true) => 0,
        (Position::Guard, true, true) => weights.wgd,
        (Position::Middle, true, false) => weights.wmg,
        (Position::Middle, false, false) => weights.wmm,
        (Position::Middle, false, true) => weights.wme,
        (Position::Middle, true, true) => weights.wmd,
        (Position::Exit, true, false) => weights.weg,
        (Position::Exit, false, false) => weights.wem,
        (Position::Exit, false, true) => weights.wee,
        (Position::Exit, true, true) => weights.wed,
    };
    f64::from(of) / f64::from(weights.scale)
}

fn excluded(relays: &[Relay], families: &Families) -> Vec<Vec<usize>> {
    let mut ipv4: BTreeMap<[u8; 2], Vec<usize>> = BTreeMap::new();
    let mut ipv6: BTreeMap<[u8; 4], Vec<usize>> = BTreeMap::new();
    let mut places = BTreeMap::new();
    for (place, relay) in relays.iter().enumerate() {
        let [a, b, ..] = relay.address.octets();
        ipv4.entry([a, b]).or_default().push(place);
        if let Some([a, b, c, d, ..]) = relay.ipv6.map(|address| address.octets()) {
            ipv6.entry([a, b, c, d]).or_default().push(place);
        }
        places.insert(relay.fingerprint, place);
    }
    let of = |relay: &Relay| {
        let [a, b, ..] = relay.address.octets();
        let mut all = ipv4[&[a, b]].clone();
        if let Some([a, b, c, d, ..]) = relay.ipv6.map(|address| address.octets()) {
            all.extend(&ipv6[&[a, b, c, d]]);
        }
        all.extend(families.of(relay.fingerprint).iter().filter_map(|other| places.get(other)));
        all.sort_unstable();
        all.dedup();
        all
    };
    relays.iter().map(of).collect()
}

/// Counts paths.
pub fn observed(relays: usize, paths: impl Iterator<Item = Path>) -> Counts {
    let mut counts = [(); 3].map(|()| vec![0.0; relays]);
    for path in paths {
        for (position, relay) in [path.guard, path.middle, path.exit].into_iter().enumerate() {
            counts[position][relay.get()] += 1.0;
        }
    }
    counts
}

/// How far counts of one position are from what is expected.
#[derive(Debug, Clone, Copy)]
pub struct Verdict {
    /// Pearson's statistic over the relays with at least five circuits expected, and one cell for all others together.
    pub chi_square: f64,
    /// Cells less one.
    pub freedom: f64,
    /// The statistic as a deviation of a standard normal variable (Wilson and Hilferty 1931).
    pub deviation: f64,
    /// Greatest distance of one cell from its expectation, in standard deviations of a Poisson count.
    pub worst_cell: f64,
    /// Circuits over relays that should have none.
    pub impossible: f64,
}

/// The deviation that counts which follow the weights exceed once in a hundred million times (one-sided).
pub const LIMIT: f64 = 5.612;
/// The distance that no cell of ten thousand normal ones exceeds but once in ten million times.
pub const WORST_CELL: f64 = 7.0;

impl Verdict {
    /// Whether the counts may well come from the weights.
    pub fn holds(&self) -> bool {
        self.impossible < 0.5 && self.deviation < LIMIT && self.worst_cell < WORST_CELL
    }
}

/// Compares the counts of one position.
pub fn compare(expected: &[f64], observed: &[f64]) -> Verdict {
    let mut cells: Vec<(f64, f64)> = Vec::new();
    let (mut rest, mut impossible) = ((0.0, 0.0), 0.0);
    for (&expected, &observed) in expected.iter().zip(observed) {
        if expected >= 5.0 {
            cells.push((expected, observed));
        } else if expected > 0.0 {
            rest = (rest.0 + expected, rest.1 + observed);
        } else {
            impossible += observed;
        }
    }
    if rest.0 >= 5.0 {
        cells.push(rest);
    }
    let chi_square: f64 = cells.iter().map(|(expected, observed)| (observed - expected).powi(2) / expected).sum();
    let freedom = cells.len() as f64 - 1.0;
    let third = 2.0 / (9.0 * freedom);
    let deviation = ((chi_square / freedom).cbrt() - (1.0 - third)) / third.sqrt();
    let worst_cell = cells.iter().map(|(expected, observed)| (observed - expected).abs() / expected.sqrt()).fold(0.0, f64::max);
    Verdict { chi_square, freedom, deviation, worst_cell, impossible }
}
