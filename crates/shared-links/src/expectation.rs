//! The expectation: what the draw gives on average, in closed form.
//!
//! Two parts of a circuit lie on links (guard, middle) and (middle, last). For one pair of relays the number of parts
//! on it is a sum over independent clients, so that its distribution follows from that of one client's circuits: a
//! polynomial raised to the number of clients. Relays with equal chances behave alike: the sum over pairs of relays is a sum over pairs of
//! [groups](Positions), a thousand times fewer.
//!
//! **Exact** (up to rounding): expected links, shared links, links with n circuits; for any number k of circuits per client on
//! one guard; directed or not; links of a relay with itself and circuits that use one link twice included, since the draw has both.
//! (The share is the quotient of two expectations; the mean of the quotients of draws differs from it by less than 10^-5.)
//!
//! **Approximated**: the standard deviation (parts taken as a multinomial sample, linearised quotient: Holst 1972), circuits with one
//! and two shared links (the two links of a circuit taken as independent given its middle), clients with several guards (as so
//! many clients with one guard each), links with more than 300 circuits (counted at their mean), and a last client with fewer circuits than the others (as a fraction of a client). How far off that is:
//! `tests/draw_and_formula.rs`.

use crate::error::SharedLinksError;
use crate::positions::{Group, Positions};
use crate::question::Question;

/// Expected counts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Expected {
    /// Links with at least one part of a circuit.
    pub links: f64,
    /// Links with at least two.
    pub shared_links: f64,
    /// Standard deviation of the share of shared links (0 to 1) between draws.
    pub share_deviation: f64,
    /// Links with 1, 2, 3... parts; ends where less than a millionth of a link is left.
    pub circuits_per_link: Vec<f64>,
    /// Circuits one of whose parts is on a shared link.
    pub with_one: f64,
    /// Circuits both of whose parts are.
    pub with_two: f64,
}

impl Expected {
    /// Shared links among all links (0 to 1).
    pub fn share(&self) -> f64 {
        if self.links > 0.0 { self.shared_links / self.links } else { 0.0 }
    }
}

/// The expectation for `question` over `positions`.
///
/// # Errors
/// Numbers of the question are impossible, or exclusions are asked for, which have no closed form.
pub fn expect(positions: &Positions, question: &Question) -> Result<Expected, SharedLinksError> {
    question.check()?;
    if !question.exclusions.is_none() {
        return Err(SharedLinksError::OnlyDraw { what: "exclusions of relays from one circuit" });
    }
    let groups = positions.groups();
    let per_client = question.per_client as f64 / question.guards_per_client as f64;
    let clients = question.circuits as f64 / per_client;
    let mut sums = Sums::new(groups.len());
    if (per_client - 1.0).abs() < f64::EPSILON && question.guards_per_client == 1 {
        sums.add_all(&groups, question.directed, |pair| pair.one_circuit_each(clients));
    } else {
        sums.add_all(&groups, question.directed, |pair| pair.clients(clients, per_client));
    }
    Ok(sums.into_expected(&groups, question.circuits as f64))
}

/// Chances of one circuit for one link, by what its guard is.
#[derive(Debug, Clone, Copy)]
struct Pair {
    /// Chance of a guard of this kind, then chances that a circuit over it puts one part, or two, on the link.
    over: [(f64, f64, f64); 2],
    /// The same for all other guards.
    other: (f64, f64),
}

/// What is needed to know of one link.
#[derive(Debug, Clone, Copy)]
struct LinkChances {
    /// No part on it; exactly one.
    none: f64,
    one: f64,
    /// Expected parts.
    parts: f64,
    /// Chance that another part is there, for a first part over each of the pair's guards, and for a second part.
    beside_first: [f64; 2],
    beside_second: f64,
    /// For the numbers beyond one: the recurrence.
    tail: Tail,
}

/// How the chances of 2, 3, 4... parts follow.
#[derive(Debug, Clone, Copy)]
enum Tail {
    /// Binomial: N circuits, ratio q / (1 - q) of the chances of one circuit.
    Binomial { circuits: f64, ratio: f64 },
    /// Power of the polynomial of one circuit, degree 2 (Miller's recurrence): circuits, a1/a0, a2/a0.
    Trinomial { circuits: f64, a1: f64, a2: f64 },
    /// Power of the polynomial of one client.
    Clients { clients: f64, per_client: f64, pair: Pair },
}

impl Pair {
    /// Directed link from a relay of `a` to another of `b`.
    const fn directed(a: &Group, b: &Group) -> Self {
        // Part one has the guard a and the middle b, part two the middle a: never both on this link.
        let second = a.middle * b.last;
        Self { over: [(a.guard, b.middle + second, 0.0), (0.0, 0.0, 0.0)], other: (second, 0.0) }
    }

    /// Link between a relay of `a` and another of `b`, regardless of direction.
    fn undirected(a: &Group, b: &Group) -> Self {
        let over = |guard: &Group, far: &Group| {
            let twice = far.middle * guard.last;
            (guard.guard, far.middle - twice + guard.middle * far.last, twice)
        };
        Self { over: [over(a, b), over(b, a)], other: (a.middle * b.last + b.middle * a.last, 0.0) }
    }

    /// Link of a relay with itself.
    fn with_itself(a: &Group) -> Self {
        let twice = a.middle * a.last;
        Self { over: [(a.guard, a.middle - twice, twice), (0.0, 0.0, 0.0)], other: (twice, 0.0) }
    }

    /// Chances that one circuit puts one part, and two parts, on the link.
    #[inline]
    fn of_one_circuit(&self) -> (f64, f64) {
        let [(g0, one0, two0), (g1, one1, two1)] = self.over;
        let (one, two) = self.other;
        let rest = 1.0 - g0 - g1;
        (g0 * one0 + g1 * one1 + rest * one, g0 * two0 + g1 * two1 + rest * two)
    }

    /// One circuit per client: N independent circuits.
    #[inline]
    fn one_circuit_each(&self, circuits: f64) -> LinkChances {
        let (one, two) = self.of_one_circuit();
        let q = one + two;
        let none = power_of_one_less(q, circuits);
        let (a1, a2) = (one / (1.0 - q), two / (1.0 - q));
        let beside = 1.0 - none / (1.0 - q);
        let tail = if two > 0.0 { Tail::Trinomial { circuits, a1, a2 } } else { Tail::Binomial { circuits, ratio: a1 } };
        LinkChances {
            none,
            one: circuits * a1 * none,
            parts: circuits * (one + 2.0 * two),
            beside_first: [beside; 2],
            beside_second: beside,
            tail,
        }
    }

    /// `per_client` circuits of each client over its one guard.
    fn clients(&self, clients: f64, per_client: f64) -> LinkChances {
        let mut untouched = 0.0;
        let mut one = 0.0;
        for (share, p1, p2) in self.states() {
            let none = power_of_one_less(p1 + p2, per_client);
            untouched += share * (1.0 - none);
            one += share * per_client * p1 * none / (1.0 - p1 - p2);
        }
        let none = power_of_one_less(untouched, clients);
        let others = none / (1.0 - untouched);
        let beside = |(p1, p2): (f64, f64)| 1.0 - others * power_of_one_less(p1 + p2, per_client - 1.0);
        let (p1, p2) = self.of_one_circuit();
        LinkChances {
            none,
            one: clients * one * others,
            parts: clients * per_client * (p1 + 2.0 * p2),
            beside_first: self.over.map(|(_, p1, p2)| beside((p1, p2))),
            beside_second: beside(self.other),
            tail: Tail::Clients { clients, per_client, pair: *self },
        }
    }

    fn states(&self) -> [(f64, f64, f64); 3] {
        let [first, second] = self.over;
        [first, second, (1.0 - first.0 - second.0, self.other.0, self.other.1)]
    }
}

/// (1 - p)^n without loss of small p.
#[inline]
fn power_of_one_less(p: f64, n: f64) -> f64 {
    let logarithm = if p < 1e-3 {
        // Five terms of the series: relative error below 10^-15.
        -p * (1.0 + p * (1.0 / 2.0 + p * (1.0 / 3.0 + p * (1.0 / 4.0 + p * (1.0 / 5.0)))))
    } else if p >= 1.0 {
        return if n > 0.0 { 0.0 } else { 1.0 };
    } else {
        libm::log1p(-p)
    };
    let x = n * logarithm;
    if x > -0.125 {
        // Nine terms: relative error below 10^-16.
        1.0 + x
            * (1.0
                + x / 2.0
                    * (1.0
                        + x / 3.0
                            * (1.0
                                + x / 4.0
                                    * (1.0 + x / 5.0 * (1.0 + x / 6.0 * (1.0 + x / 7.0 * (1.0 + x / 8.0 * (1.0 + x / 9.0))))))))
    } else {
        libm::exp(x)
    }
}

/// Sums over links.
struct Sums {
    links: f64,
    one: f64,
    per_link: Vec<f64>,
    /// Variances and covariances of: link is shared, link is in use, parts on it.
    variance_shared: f64,
    variance_used: f64,
    covariance_shared_used: f64,
    covariance_shared_parts: f64,
    covariance_used_parts: f64,
    parts: f64,
    /// By group of the middle: chance that a circuit's first part, and its second, is on a shared link.
    first: Vec<f64>,
    second: Vec<f64>,
}

/// A link on which more parts than this are expected is counted at its mean; real networks have none, tiny ones have.
const CROWDED: f64 = 300.0;

/// Expected links with a number of circuits are followed until fewer than this are left per pair of groups.
const NEGLIGIBLE: f64 = 1e-11;

impl Sums {
    fn new(groups: usize) -> Self {
        Self {
            links: 0.0,
            one: 0.0,
            per_link: Vec::new(),
            variance_shared: 0.0,
            variance_used: 0.0,
            covariance_shared_used: 0.0,
            covariance_shared_parts: 0.0,
            covariance_used_parts: 0.0,
            parts: 0.0,
            first: vec![0.0; groups],
            second: vec![0.0; groups],
        }
    }

    fn add_all(&mut self, groups: &[Group], directed: bool, chances: impl Fn(&Pair) -> LinkChances) {
        for (i, a) in groups.iter().enumerate() {
            // A relay with itself.
            let link = chances(&Pair::with_itself(a));
            self.add(a.relays, &link);
            self.first[i] += a.guard * link.beside_first[0];
            self.second[i] += a.last * link.beside_second;
            // Two relays of the group.
            if a.relays > 1.0 {
                let others = a.relays - 1.0;
                let link = chances(&if directed { Pair::directed(a, a) } else { Pair::undirected(a, a) });
                self.add(a.relays * others * if directed { 1.0 } else { 0.5 }, &link);
                self.first[i] += others * a.guard * link.beside_first[0];
                self.second[i] += others * a.last * link.beside_second;
            }
            for (j, b) in groups.iter().enumerate().skip(if directed { 0 } else { i + 1 }) {
                // Without a middle at either end there is no link.
                if i == j || (a.middle <= 0.0 && b.middle <= 0.0) {
                    continue;
                }
                if directed {
                    let link = chances(&Pair::directed(a, b));
                    self.add(a.relays * b.relays, &link);
                    self.first[j] += a.relays * a.guard * link.beside_first[0];
                    self.second[i] += b.relays * b.last * link.beside_second;
                } else {
                    let link = chances(&Pair::undirected(a, b));
                    self.add(a.relays * b.relays, &link);
                    self.first[j] += a.relays * a.guard * link.beside_first[0];
                    self.first[i] += b.relays * b.guard * link.beside_first[1];
                    self.second[i] += b.relays * b.last * link.beside_second;
                    self.second[j] += a.relays * a.last * link.beside_second;
                }
            }
        }
    }

    /// Adds `count` links with these chances.
    #[inline]
    fn add(&mut self, count: f64, link: &LinkChances) {
        let used = 1.0 - link.none;
        let shared = (used - link.one).max(0.0);
        self.links += count * used;
        self.one += count * link.one;
        self.parts += count * link.parts;
        self.variance_shared += count * shared * (1.0 - shared);
        self.variance_used += count * used * link.none;
        self.covariance_shared_used += count * shared * link.none;
        self.covariance_shared_parts += count * (link.parts - link.one - shared * link.parts);
        self.covariance_used_parts += count * link.parts * link.none;
        self.add_tail(count, link);
    }

    /// Chances of two and more parts.
    #[inline]
    fn add_tail(&mut self, count: f64, link: &LinkChances) {
        if link.parts > CROWDED {
            self.put(libm::round(link.parts), count * (1.0 - link.none - link.one));
            return;
        }
        // Terms first grow, then fall: stop only beyond the expected number.
        let goes_on = |n: f64, term: f64| count * term > NEGLIGIBLE || (n < link.parts && link.parts > 0.5);
        match link.tail {
            Tail::Binomial { circuits, ratio } => {
                let (mut n, mut term) = (1.0, link.one);
                while goes_on(n, term) && n < circuits {
                    term *= (circuits - n) / (n + 1.0) * ratio;
                    n += 1.0;
                    self.put(n, count * term);
                }
            }
            Tail::Trinomial { circuits, a1, a2 } => {
                let (mut n, mut before, mut term) = (1.0, link.none, link.one);
                while (goes_on(n, term) || goes_on(n, before)) && n < 2.0 * circuits {
                    n += 1.0;
                    let next = ((circuits + 1.0 - n) * a1 * term + (2.0 * (circuits + 1.0) - n) * a2 * before) / n;
                    (before, term) = (term, next.max(0.0));
                    self.put(n, count * term);
                }
            }
            Tail::Clients { clients, per_client, pair } => self.add_client_tail(count, link, clients, per_client, &pair),
        }
    }

    /// The polynomial of a client is the blend of three powers; raised to the number of clients by Miller's recurrence.
    fn add_client_tail(&mut self, count: f64, link: &LinkChances, clients: f64, per_client: f64, pair: &Pair) {
        /// No tail is that long where at most 300 parts are expected and a client is a small part of all.
        const LONGEST: usize = 3000;
        if count * (1.0 - link.none - link.one) <= NEGLIGIBLE {
            return;
        }
        // Of one client, by kind of guard: the last two coefficients.
        let mut states = pair.states().map(|(share, p1, p2)| {
            let zero = 1.0 - p1 - p2;
            let first = power_of_one_less(p1 + p2, per_client);
            (share, p1 / zero, p2 / zero, 0.0, first)
        });
        let mut of_client = vec![states.iter().map(|state| state.0 * state.4).sum::<f64>()];
        let mut of_all = vec![link.none];
        for n in 1..LONGEST {
            let at = n as f64;
            let mut coefficient = 0.0;
            for (share, a1, a2, before, last) in &mut states {
                let next = ((per_client + 1.0 - at) * *a1 * *last + (2.0 * (per_client + 1.0) - at) * *a2 * *before) / at;
                (*before, *last) = (*last, next.max(0.0));
                coefficient += *share * *last;
            }
            of_client.push(coefficient);
            let sum: f64 = (1..=n).map(|k| (k as f64 * (clients + 1.0) - at) * of_client[k] * of_all[n - k]).sum();
            let chance = (sum / (at * of_client[0])).max(0.0);
            of_all.push(chance);
            if n > 1 {
                self.put(at, count * chance);
                let falling = at > link.parts && chance <= of_all[n - 1];
                if falling && count * chance < NEGLIGIBLE {
                    break;
                }
            }
        }
    }

    /// Adds links with `n` parts.
    #[inline]
    fn put(&mut self, n: f64, links: f64) {
        let at = n as usize - 1;
        if self.per_link.len() <= at {
            self.per_link.resize(at + 1, 0.0);
        }
        self.per_link[at] += links;
    }

    fn into_expected(mut self, groups: &[Group], circuits: f64) -> Expected {
        let share = (self.links - self.one) / self.links;
        // Variance of (shared - share * used), less what the fixed number of parts takes away.
        let free = self.variance_shared + share * share * self.variance_used - 2.0 * share * self.covariance_shared_used;
        let tied = self.covariance_shared_parts - share * self.covariance_used_parts;
        let variance = (free - tied * tied / self.parts).max(0.0);
        if self.per_link.is_empty() {
            self.per_link.push(0.0);
        }
        self.per_link[0] = self.one;
        while self.per_link.last().is_some_and(|&links| links < 1e-6) && self.per_link.len() > 1 {
            self.per_link.pop();
        }
        let (mut with_one, mut with_two) = (0.0, 0.0);
        for ((group, first), second) in groups.iter().zip(&self.first).zip(&self.second) {
            let middles = circuits * group.relays * group.middle;
            with_one += middles * (first * (1.0 - second) + second * (1.0 - first));
            with_two += middles * first * second;
        }
        Expected {
            links: self.links,
            shared_links: self.links - self.one,
            share_deviation: libm::sqrt(variance) / self.links,
            circuits_per_link: self.per_link,
            with_one,
            with_two,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_exact_from_tiny_to_certain() {
        for p in [0.0, 1e-15, 1e-9, 9.9e-4, 1.1e-3, 0.3, 0.999] {
            for n in [0.0, 1.0, 7.0, 1e3, 96_000.0, 1e9] {
                let exact = libm::exp(n * libm::log1p(-p));
                assert!((power_of_one_less(p, n) - exact).abs() <= 1e-15 * (10.0 + n * p) * exact.max(1e-300), "{p} {n}");
            }
        }
        assert!(power_of_one_less(1.0, 5.0) < f64::MIN_POSITIVE);
    }

    /// Two relays, two circuits, by hand. Guard A or B by half, middle A or B by half, last A or B by half; directed.
    /// One circuit: parts XY and YZ. For the link AB: XY = AB with 1/4, YZ = AB with 1/4, never both: q = 1/2.
    /// For AA: XY = AA 1/4, YZ = AA 1/4, both 1/8: q = 3/8, one part 1/4, two parts 1/8.
    /// Links with a part: 2 (1 - (1/2)^2) + 2 (1 - (5/8)^2) = 1.5 + 2 * 39/64. With exactly one part:
    /// 2 * 2 * 1/2 * 1/2 + 2 * 2 * 1/4 * 5/8 = 1 + 5/8.
    #[test]
    fn two_relays_by_hand() {
        let group = Group { relays: 2.0, guard: 0.5, middle: 0.5, last: 0.5 };
        let mut sums = Sums::new(1);
        sums.add_all(&[group], true, |pair| pair.one_circuit_each(2.0));
        let expected = sums.into_expected(&[group], 2.0);
        assert!((expected.links - (1.5 + 2.0 * 39.0 / 64.0)).abs() < 1e-12, "{expected:?}");
        assert!((expected.circuits_per_link[0] - 1.625).abs() < 1e-12, "{expected:?}");
        let parts: f64 = expected.circuits_per_link.iter().zip(1..).map(|(&links, n)| links * f64::from(n)).sum();
        assert!((parts - 4.0).abs() < 1e-9);
    }

    /// One client with both circuits over one guard: given guard A, the links AA (2 parts 1/4, 1 part 1/4, 0 parts 1/2), AB
    /// (guard part 1/2, second part 1/4 with middle A: 3/4), BA (second part: 1/4), BB (1/4). Two circuits:
    /// AA 1 - 1/4, AB 1 - 1/16, BA and BB 1 - 9/16 each.
    #[test]
    fn one_client_by_hand() {
        let group = Group { relays: 2.0, guard: 0.5, middle: 0.5, last: 0.5 };
        let mut sums = Sums::new(1);
        sums.add_all(&[group], true, |pair| pair.clients(1.0, 2.0));
        let expected = sums.into_expected(&[group], 2.0);
        assert!((expected.links - (0.75 + 0.9375 + 2.0 * 0.4375)).abs() < 1e-12, "{expected:?}");
        let parts: f64 = expected.circuits_per_link.iter().zip(1..).map(|(&links, n)| links * f64::from(n)).sum();
        assert!((parts - 4.0).abs() < 1e-9, "{expected:?}");
    }

    /// With one circuit per client both ways of computing are the same.
    #[test]
    fn clients_of_one_circuit_are_circuits() {
        let groups = [
            Group { relays: 3.0, guard: 0.2, middle: 0.05, last: 0.0 },
            Group { relays: 2.0, guard: 0.2, middle: 0.1, last: 0.25 },
            Group { relays: 5.0, guard: 0.0, middle: 0.13, last: 0.1 },
        ];
        for directed in [true, false] {
            let expected = |clients: bool| {
                let mut sums = Sums::new(groups.len());
                if clients {
                    sums.add_all(&groups, directed, |pair| pair.clients(60.0, 1.0));
                } else {
                    sums.add_all(&groups, directed, |pair| pair.one_circuit_each(60.0));
                }
                sums.into_expected(&groups, 60.0)
            };
            let (a, b) = (expected(false), expected(true));
            assert!((a.links - b.links).abs() < 1e-9 && (a.shared_links - b.shared_links).abs() < 1e-9);
            assert!((a.with_one - b.with_one).abs() < 1e-9 && (a.share_deviation - b.share_deviation).abs() < 1e-9);
            for (a, b) in a.circuits_per_link.iter().zip(&b.circuits_per_link) {
                assert!((a - b).abs() < 1e-8, "{a} {b}");
            }
            let parts: f64 = b.circuits_per_link.iter().zip(1..).map(|(&links, n)| links * f64::from(n)).sum();
            // Numbers of circuits with less than a millionth of a link are cut off.
            assert!((parts - 120.0).abs() < 1e-4, "{parts}");
        }
    }
}
