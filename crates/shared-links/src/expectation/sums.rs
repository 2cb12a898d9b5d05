//! Sums over all links of a network.

use super::Expected;
use super::few::{self, Hills};
use super::pair::{LinkChances, Pair, Tail, power_of_one_less};
use super::power_sums::PowerSums;
use crate::positions::Group;
use crate::question::Question;

/// Sums over links.
pub(super) struct Sums<'a> {
    /// Asked before each group's links: where it says no, the sums end there.
    goes_on: &'a dyn Fn() -> bool,
    /// It has said no.
    pub stopped: bool,
    pub links: f64,
    pub one: f64,
    pub per_link: Vec<f64>,
    /// Variances and covariances of: link is shared, link is in use, parts on it.
    pub variance_shared: f64,
    pub variance_used: f64,
    pub covariance_shared_used: f64,
    pub covariance_shared_parts: f64,
    pub covariance_used_parts: f64,
    pub parts: f64,
    /// Coefficients of one client's polynomial and of all clients': kept to be used again.
    of_client: Vec<f64>,
    of_all: Vec<f64>,
    of_kinds: Vec<Coefficients>,
    /// By group of the middle: chance that a circuit's first part, and its second, is on a shared link.
    pub first: Vec<f64>,
    pub second: Vec<f64>,
}

/// Of the polynomial of one kind of client: chance, a1/a0, a2/a0 and the last two coefficients.
#[derive(Debug, Clone, Copy)]
struct Coefficients {
    share: f64,
    a1: f64,
    a2: f64,
    before: f64,
    last: f64,
}

/// 1/n for the first few n.
const INVERSES: [f64; 16] = {
    let mut inverses = [0.0; 16];
    let mut n = 1;
    while n < 16 {
        inverses[n] = 1.0 / n as f64;
        n += 1;
    }
    inverses
};

/// Undirected links are summed by powers where no relay is so probable as guard and last relay alike that one circuit
/// has both its parts on one link with more than this share of the chance to have one (first order suffices then).
const MOST_IN_BOTH: f64 = 0.01;

/// A link on which more parts than this are expected is counted at its mean; real networks have none, tiny ones have.
const CROWDED: f64 = 300.0;

/// Below this the recurrences lose their beginning.
const UNDERFLOW: f64 = 1e-250;

/// Expected links with a number of circuits are followed until fewer than this are left per pair of groups.
const NEGLIGIBLE: f64 = 1e-11;

impl<'a> Sums<'a> {
    pub(super) fn new(groups: usize, goes_on: &'a dyn Fn() -> bool) -> Self {
        Self {
            goes_on,
            stopped: false,
            links: 0.0,
            one: 0.0,
            per_link: Vec::new(),
            variance_shared: 0.0,
            variance_used: 0.0,
            covariance_shared_used: 0.0,
            covariance_shared_parts: 0.0,
            covariance_used_parts: 0.0,
            parts: 0.0,
            of_client: Vec::new(),
            of_all: Vec::new(),
            of_kinds: Vec::new(),
            first: vec![0.0; groups],
            second: vec![0.0; groups],
        }
    }

    /// Adds every link, one circuit per client: rarely used links by power sums, the others one by one.
    pub(super) fn add_circuits(&mut self, groups: &[Group], directed: bool, circuits: f64) {
        let chances = |pair: &Pair| pair.one_circuit_each(circuits);
        if !directed && groups.iter().any(|group| group.guard * group.last > MOST_IN_BOTH * (group.guard + group.last)) {
            // A small network: there are few links anyway.
            self.add_one_by_one(groups, directed, chances);
            return;
        }
        let rare = PowerSums::new(groups, directed, circuits);
        rare.add_to(self);
        for (i, a) in groups.iter().enumerate().filter(|&(i, _)| rare.contains(i, i)) {
            // Power sums pair each relay with itself like with another of its group: taken out again.
            let link = chances(&if directed { Pair::directed(a, a) } else { Pair::undirected(a, a) });
            self.add(-a.relays * if directed { 1.0 } else { 0.5 }, &link);
            self.first[i] -= a.guard * link.beside_first[0];
            self.second[i] -= a.last * link.beside_second;
        }
        self.add_links(groups, directed, chances, Some(&rare));
    }

    /// Adds every link, one by one, with the chances that `chances` gives.
    pub(super) fn add_one_by_one(&mut self, groups: &[Group], directed: bool, chances: impl Fn(&Pair) -> LinkChances) {
        self.add_links(groups, directed, chances, None);
    }

    fn add_links(&mut self, groups: &[Group], directed: bool, chances: impl Fn(&Pair) -> LinkChances, done: Option<&PowerSums>) {
        let all: Vec<usize> = (0..groups.len()).collect();
        for (i, a) in groups.iter().enumerate() {
            if !(self.goes_on)() {
                self.stopped = true;
                return;
            }
            // A relay with itself.
            let link = chances(&Pair::with_itself(a));
            self.add(a.relays, &link);
            self.first[i] += a.guard * link.beside_first[0];
            self.second[i] += a.last * link.beside_second;
            // Two relays of the group.
            if a.relays > 1.0 && !done.is_some_and(|done| done.contains(i, i)) {
                let others = a.relays - 1.0;
                let link = chances(&if directed { Pair::directed(a, a) } else { Pair::undirected(a, a) });
                self.add(a.relays * others * if directed { 1.0 } else { 0.5 }, &link);
                self.first[i] += others * a.guard * link.beside_first[0];
                self.second[i] += others * a.last * link.beside_second;
            }
            for &j in done.map_or(&all[..], |done| done.not_with(i)) {
                let b = &groups[j];
                // Without a middle at either end there is no link; undirected pairs are met twice.
                if i == j || (a.middle <= 0.0 && b.middle <= 0.0) || (!directed && j < i) {
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
        let hills = if let Tail::Clients { clients, per_client, guards, pair } = &link.tail {
            few::parts(pair, *clients, *per_client, *guards)
        } else {
            Hills::One
        };
        match hills {
            Hills::One => {
                self.add_sums(count, link);
                self.add_tail(count, link);
            }
            Hills::Few(chances) => {
                for (n, chance) in chances.iter().enumerate().skip(2) {
                    self.put(n as f64, count * chance);
                }
                self.add_sums(count, &LinkChances { none: chances[0], one: chances[1], ..*link });
            }
            Hills::TooHigh => {
                self.add_sums(count, link);
                self.add_mean(count, link);
            }
        }
    }

    /// All but the numbers of links with two parts and more.
    #[inline]
    fn add_sums(&mut self, count: f64, link: &LinkChances) {
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
    }

    /// All of two parts and more as the mean of these.
    fn add_mean(&mut self, count: f64, link: &LinkChances) {
        let more = (1.0 - link.none - link.one).max(0.0);
        self.put_mean(count, more, link.parts - link.one);
    }

    /// Chance `more` of numbers of parts whose sum, each by its chance, is `parts`: at the whole numbers beside their mean, so that no part is lost.
    fn put_mean(&mut self, count: f64, more: f64, parts: f64) {
        if more > 0.0 {
            let mean = (parts / more).max(2.0);
            let above = mean.fract();
            self.put(mean.floor(), count * more * (1.0 - above));
            self.put(mean.floor() + 1.0, count * more * above);
        }
    }

    /// Chances of two and more parts.
    #[inline]
    fn add_tail(&mut self, count: f64, link: &LinkChances) {
        if link.parts > CROWDED || link.none < UNDERFLOW || matches!(link.tail, Tail::Mean) {
            self.add_mean(count, link);
            return;
        }
        // Terms first grow, then fall: stop only beyond the expected number.
        let goes_on = |n: f64, term: f64| count.abs() * term > NEGLIGIBLE || (n < link.parts && link.parts > 0.5);
        match link.tail {
            Tail::Binomial { circuits, ratio } => {
                let (mut n, mut term) = (1.0, link.one);
                while goes_on(n, term) && n < circuits {
                    let inverse = INVERSES.get(n as usize + 1).copied().unwrap_or_else(|| 1.0 / (n + 1.0));
                    term *= (circuits - n) * inverse * ratio;
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
            Tail::Clients { .. } => self.add_client_tail(count, link),
            Tail::Mean => {}
        }
    }

    /// The polynomial of a client is the blend of as many powers as there are kinds of clients; raised to the number of clients by Miller's recurrence.
    fn add_client_tail(&mut self, count: f64, link: &LinkChances) {
        /// No tail is that long where at most 300 parts are expected and a client is a small part of all.
        const LONGEST: usize = 3000;
        /// Rounding leaves less of the chances.
        const UNCERTAIN: f64 = 1e-7;
        let Tail::Clients { clients, per_client, guards, pair } = &link.tail else { return };
        let (clients, per_client) = (*clients, *per_client);
        if count * (1.0 - link.none - link.one) <= NEGLIGIBLE {
            return;
        }
        let mut of_kinds = std::mem::take(&mut self.of_kinds);
        of_kinds.clear();
        let mut untouched = 0.0;
        pair.for_each_kind(*guards, |kind| {
            let used = kind.one + kind.two;
            let zero = 1.0 - used;
            let last = power_of_one_less(used, per_client - 1.0) * zero;
            untouched += kind.share * last;
            // A kind whose circuits do not use the link counts in the first coefficient only.
            if zero < 1.0 {
                of_kinds.push(Coefficients { share: kind.share, a1: kind.one / zero, a2: kind.two / zero, before: 0.0, last });
            }
        });
        let (mut of_client, mut of_all) = (std::mem::take(&mut self.of_client), std::mem::take(&mut self.of_all));
        of_client.clear();
        of_all.clear();
        of_client.push(untouched);
        of_all.push(link.none);
        let per_untouched = 1.0 / of_client[0];
        // Of two parts and more: what is left of their chance, and of their number.
        let (mut left, mut parts) = (1.0 - link.none - link.one, link.parts - link.one);
        for n in 1..LONGEST {
            let at = n as f64;
            let inverse = INVERSES.get(n).copied().unwrap_or(1.0 / at);
            let mut coefficient = 0.0;
            for Coefficients { share, a1, a2, before, last } in &mut of_kinds {
                let next = ((per_client + 1.0 - at) * *a1 * *last + (2.0 * (per_client + 1.0) - at) * *a2 * *before) * inverse;
                (*before, *last) = (*last, next.max(0.0));
                coefficient += *share * *last;
            }
            of_client.push(coefficient);
            let sum: f64 = (1..=n).map(|k| (k as f64 * (clients + 1.0) - at) * of_client[k] * of_all[n - k]).sum();
            let chance = (sum * inverse * per_untouched).max(0.0);
            of_all.push(chance);
            if n > 1 {
                self.put(at, count * chance);
                left -= chance;
                parts -= at * chance;
                // Behind a valley there may be another hill.
                let falling = at > link.parts && chance <= of_all[n - 1];
                if falling && count * chance < NEGLIGIBLE && left < UNCERTAIN {
                    break;
                }
                // A client who uses the link at all has so many circuits on it that numbers as small as these have no chance that a number can hold.
                if of_all[n] == 0.0 && coefficient == 0.0 {
                    break;
                }
            }
        }
        if left >= UNCERTAIN {
            self.put_mean(count, left, parts);
        }
        (self.of_client, self.of_all, self.of_kinds) = (of_client, of_all, of_kinds);
    }

    /// Adds links with `n` parts.
    #[inline]
    pub(super) fn put(&mut self, n: f64, links: f64) {
        let at = (n as usize).min(Question::MAX_PER_LINK) - 1;
        if self.per_link.len() <= at {
            self.per_link.resize(at + 1, 0.0);
        }
        self.per_link[at] += links;
    }

    pub(super) fn into_expected(mut self, groups: &[Group], circuits: f64) -> Expected {
        // Where nothing is shared, rounding may leave less than nothing.
        let shared_links = (self.links - self.one).max(0.0);
        let share = shared_links / self.links;
        // Variance of (shared - share * used), less what the fixed number of parts takes away.
        let free = self.variance_shared + share * share * self.variance_used - 2.0 * share * self.covariance_shared_used;
        let tied = self.covariance_shared_parts - share * self.covariance_used_parts;
        let variance = (free - tied * tied / self.parts).max(0.0);
        if self.per_link.is_empty() {
            self.per_link.push(0.0);
        }
        self.per_link[0] = self.one;
        self.per_link.iter_mut().for_each(|links| *links = links.max(0.0));
        while self.per_link.last().is_some_and(|&links| links < 1e-6) && self.per_link.len() > 1 {
            self.per_link.pop();
        }
        let (mut with_one, mut with_two) = (0.0, 0.0);
        for ((group, first), second) in groups.iter().zip(&self.first).zip(&self.second) {
            let (first, second) = (first.clamp(0.0, 1.0), second.clamp(0.0, 1.0));
            let middles = circuits * group.relays * group.middle;
            with_one += middles * (first * (1.0 - second) + second * (1.0 - first));
            with_two += middles * first * second;
        }
        Expected {
            links: self.links,
            shared_links,
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
    use proptest::prelude::*;

    /// Two relays, two circuits, by hand. Guard A or B by half, middle A or B by half, last A or B by half; directed.
    /// One circuit: parts XY and YZ. For the link AB: XY = AB with 1/4, YZ = AB with 1/4, never both: q = 1/2.
    /// For AA: XY = AA 1/4, YZ = AA 1/4, both 1/8: q = 3/8, one part 1/4, two parts 1/8.
    /// Links with a part: 2 (1 - (1/2)^2) + 2 (1 - (5/8)^2) = 1.5 + 2 * 39/64. With exactly one part:
    /// 2 * 2 * 1/2 * 1/2 + 2 * 2 * 1/4 * 5/8 = 1 + 5/8.
    #[test]
    fn two_relays_by_hand() {
        let group = Group { relays: 2.0, guard: 0.5, middle: 0.5, last: 0.5 };
        let mut sums = Sums::new(1, &|| true);
        sums.add_circuits(&[group], true, 2.0);
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
        let mut sums = Sums::new(1, &|| true);
        sums.add_one_by_one(&[group], true, |pair| pair.clients(1.0, 2.0, 1));
        let expected = sums.into_expected(&[group], 2.0);
        assert!((expected.links - (0.75 + 0.9375 + 2.0 * 0.4375)).abs() < 1e-12, "{expected:?}");
        let parts: f64 = expected.circuits_per_link.iter().zip(1..).map(|(&links, n)| links * f64::from(n)).sum();
        assert!((parts - 4.0).abs() < 1e-9, "{expected:?}");
    }

    /// What `circuits` circuits of one client come to on average over all that can be drawn, one after the other: links with 1, 2, 3... parts.
    fn drawn_through(relays: &[Group], directed: bool, guards: usize, circuits: usize) -> Vec<f64> {
        let n = relays.len();
        let mut per_link = vec![0.0; 2 * circuits];
        for set in 0..n.pow(guards as u32) {
            let set: Vec<usize> = (0..guards as u32).map(|place| set / n.pow(place) % n).collect();
            let of_set: f64 = set.iter().map(|&guard| relays[guard].guard).product();
            let ways = guards * n * n;
            for drawn in 0..ways.pow(circuits as u32) {
                let mut chance = of_set;
                let mut parts = vec![0_usize; n * n];
                for circuit in (0..circuits as u32).map(|place| drawn / ways.pow(place) % ways) {
                    let (guard, middle, last) = (set[circuit / (n * n)], circuit / n % n, circuit % n);
                    chance *= relays[middle].middle * relays[last].last / guards as f64;
                    for (from, to) in [(guard, middle), (middle, last)] {
                        let (from, to) = if directed || from <= to { (from, to) } else { (to, from) };
                        parts[from * n + to] += 1;
                    }
                }
                for parts in parts.into_iter().filter(|&parts| parts > 0) {
                    per_link[parts - 1] += chance;
                }
            }
        }
        per_link
    }

    /// Every guard set, choice, middle and last relay of one client, for fewer circuits than guards and for more.
    #[test]
    fn guard_sets_are_what_drawing_all_comes_to() {
        let group = |guard, middle, last| Group { relays: 1.0, guard, middle, last };
        let relays = [group(0.6, 0.3, 0.1), group(0.3, 0.2, 0.4), group(0.1, 0.5, 0.5)];
        for directed in [true, false] {
            for (guards, circuits) in [(1, 2), (2, 2), (3, 2), (2, 3)] {
                let drawn = drawn_through(&relays, directed, guards, circuits);
                let mut sums = Sums::new(relays.len(), &|| true);
                sums.add_one_by_one(&relays, directed, |pair| pair.clients(1.0, circuits as f64, guards));
                let expected = sums.into_expected(&relays, circuits as f64);
                let links: f64 = drawn.iter().sum();
                assert!((links - expected.links).abs() < 1e-10, "{guards} {circuits} {directed}: {links} {expected:?}");
                assert!((links - drawn[0] - expected.shared_links).abs() < 1e-10, "{guards} {circuits} {directed}");
                for (a, b) in drawn.iter().zip(&expected.circuits_per_link) {
                    assert!((a - b).abs() < 1e-10, "{guards} {circuits} {directed}: {drawn:?} {expected:?}");
                }
            }
        }
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
                let mut sums = Sums::new(groups.len(), &|| true);
                if clients {
                    sums.add_one_by_one(&groups, directed, |pair| pair.clients(60.0, 1.0, 1));
                } else {
                    sums.add_circuits(&groups, directed, 60.0);
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

    /// One guard, one middle, one exit: two links with all circuits on them.
    #[test]
    fn a_network_without_choice() {
        let group = |guard, middle, last| Group { relays: 1.0, guard, middle, last };
        let groups = [group(1.0, 0.0, 0.0), group(0.0, 1.0, 0.0), group(0.0, 0.0, 1.0)];
        for directed in [true, false] {
            for (clients, per_client) in [(1.0, 1.0), (1.0, 7.0), (5.0, 1.0), (4.0, 3.0), (1e8, 1.0)] {
                let mut sums = Sums::new(groups.len(), &|| true);
                if per_client > 1.0 {
                    sums.add_one_by_one(&groups, directed, |pair| pair.clients(clients, per_client, 1));
                } else {
                    sums.add_circuits(&groups, directed, clients);
                }
                let circuits = clients * per_client;
                let expected = sums.into_expected(&groups, circuits);
                let shared = if circuits > 1.0 { 2.0 } else { 0.0 };
                assert!((expected.links - 2.0).abs() < 1e-9 && (expected.shared_links - shared).abs() < 1e-9, "{expected:?}");
                assert!((expected.with_two - circuits * shared / 2.0).abs() < 1e-6, "{expected:?}");
                assert!(expected.share_deviation < 1e-6, "{expected:?}");
                let at = expected.circuits_per_link[(circuits as usize).min(Question::MAX_PER_LINK) - 1];
                assert!((at - 2.0).abs() < 1e-6, "{circuits} {at}");
            }
        }
    }

    /// Clients with thousands of circuits each: a link's parts lie around many hills, or around few that are not multiplied out. Where they lie is told
    /// roughly, but no link and no part is lost.
    #[test]
    fn hills_lose_no_part() {
        let groups = [
            Group { relays: 20.0, guard: 0.03, middle: 0.01, last: 0.0 },
            Group { relays: 10.0, guard: 0.04, middle: 0.03, last: 0.04 },
            Group { relays: 50.0, guard: 0.0, middle: 0.01, last: 0.012 },
        ];
        for (clients, per_client) in [(40.0, 8000.0), (20.0, 1000.0), (33.0, 1000.0), (2.0, 50_000.0), (12.0, 100.0)] {
            let mut sums = Sums::new(groups.len(), &|| true);
            sums.add_one_by_one(&groups, true, |pair| pair.clients(clients, per_client, 1));
            let expected = sums.into_expected(&groups, clients * per_client);
            let links: f64 = expected.circuits_per_link.iter().sum();
            let parts: f64 = expected.circuits_per_link.iter().zip(1..).map(|(&links, n)| links * f64::from(n)).sum();
            assert!((links / expected.links - 1.0).abs() < 1e-4, "{clients} {per_client}: {links} of {}", expected.links);
            assert!((parts / (2.0 * clients * per_client) - 1.0).abs() < 1e-3, "{clients} {per_client}: {parts}");
        }
    }

    #[test]
    fn sums_end_where_they_are_told_to() {
        let group = Group { relays: 2.0, guard: 0.5, middle: 0.5, last: 0.5 };
        let mut sums = Sums::new(1, &|| false);
        sums.add_one_by_one(&[group], true, |pair| pair.clients(1.0, 2.0, 1));
        assert!(sums.stopped && sums.links <= 0.0);
    }

    proptest! {
        /// Power sums are a faster way to the same numbers.
        #[test]
        fn rare_links_all_at_once_are_rare_links_one_by_one(
            weights in prop::collection::vec((1..40_u32, 0.01..1.0_f64, 0.01..1.0_f64, 0.01..1.0_f64), 3..25),
            circuits in 1..20_000_u32,
            directed: bool,
        ) {
            let total = |part: fn(&(u32, f64, f64, f64)) -> f64| {
                weights.iter().map(|group| f64::from(group.0) * part(group)).sum::<f64>()
            };
            let (g, m, l) = (total(|group| group.1), total(|group| group.2), total(|group| group.3));
            let groups: Vec<Group> = weights.iter().map(|&(relays, guard, middle, last)| {
                Group { relays: f64::from(relays), guard: guard / g, middle: middle / m, last: last / l }
            }).collect();
            let circuits = f64::from(circuits);
            let expected = |at_once: bool| {
                let mut sums = Sums::new(groups.len(), &|| true);
                if at_once {
                    sums.add_circuits(&groups, directed, circuits);
                } else {
                    sums.add_one_by_one(&groups, directed, |pair| pair.one_circuit_each(circuits));
                }
                sums.into_expected(&groups, circuits)
            };
            let (a, b) = (expected(true), expected(false));
            let near = |a: f64, b: f64, within: f64| (a - b).abs() <= within * (1.0 + b.abs());
            prop_assert!(near(a.links, b.links, 1e-9) && near(a.shared_links, b.shared_links, 1e-9), "{a:?} {b:?}");
            prop_assert!(near(a.with_one, b.with_one, 1e-9) && near(a.with_two, b.with_two, 1e-9), "{a:?} {b:?}");
            // Where one circuit's two parts meet on a link, exact to first order only.
            let within = if directed { 1e-9 } else { 2e-3 };
            prop_assert!(!directed || near(a.share_deviation, b.share_deviation, within), "{a:?} {b:?}");
            for (a, b) in a.circuits_per_link.iter().zip(&b.circuits_per_link).take(5) {
                prop_assert!(near(*a, *b, within), "{a} {b}");
            }
        }
    }
}
