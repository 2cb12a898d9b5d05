//! One link: chances of the numbers of parts on it, from the chances of its two relays.

use super::guards::Guards;
use crate::positions::Group;

/// Chances of one circuit for one link, by what its guard is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    /// Chance of a guard of this kind, then chances that a circuit over it puts one part, or two, on the link.
    pub over: [(f64, f64, f64); 2],
    /// The same for all other guards.
    pub other: (f64, f64),
}

/// Clients with as many of the pair's relays among their guards.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    /// Chance that a client is of this kind.
    pub share: f64,
    /// Chances that a circuit of such a client puts one part, and two, on the link.
    pub one: f64,
    pub two: f64,
    /// Chances that such a circuit is over each of the pair's relays as its guard.
    pub over: [f64; 2],
}

/// What is needed to know of one link.
#[derive(Debug, Clone, Copy)]
pub(super) struct LinkChances {
    /// No part on it; exactly one.
    pub none: f64,
    pub one: f64,
    /// Expected parts.
    pub parts: f64,
    /// Chance that another part is there, for a first part over each of the pair's guards, and for a second part.
    pub beside_first: [f64; 2],
    pub beside_second: f64,
    /// For the numbers beyond one: the recurrence.
    pub tail: Tail,
}

/// A circuit of such a chance to be on the link is taken to be on it.
const CERTAIN: f64 = 1.0 - 1e-9;

/// How the chances of 2, 3, 4... parts follow.
#[derive(Debug, Clone, Copy)]
pub(super) enum Tail {
    /// Binomial: N circuits, ratio q / (1 - q) of the chances of one circuit.
    Binomial { circuits: f64, ratio: f64 },
    /// Power of the polynomial of one circuit, degree 2 (Miller's recurrence): circuits, a1/a0, a2/a0.
    Trinomial { circuits: f64, a1: f64, a2: f64 },
    /// Power of the polynomial of one client.
    Clients { clients: f64, per_client: f64, guards: usize, pair: Pair },
    /// A link that practically every circuit uses: its mean stands for all.
    Mean,
}

impl Pair {
    /// Directed link from a relay of `a` to another of `b`.
    pub(super) const fn directed(a: &Group, b: &Group) -> Self {
        // Part one has the guard a and the middle b, part two the middle a: never both on this link.
        let second = a.middle * b.last;
        Self { over: [(a.guard, b.middle + second, 0.0), (0.0, 0.0, 0.0)], other: (second, 0.0) }
    }

    /// Link between a relay of `a` and another of `b`, regardless of direction.
    pub(super) fn undirected(a: &Group, b: &Group) -> Self {
        let over = |guard: &Group, far: &Group| {
            let twice = far.middle * guard.last;
            (guard.guard, far.middle - twice + guard.middle * far.last, twice)
        };
        Self { over: [over(a, b), over(b, a)], other: (a.middle * b.last + b.middle * a.last, 0.0) }
    }

    /// Link of a relay with itself.
    pub(super) fn with_itself(a: &Group) -> Self {
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
    pub(super) fn one_circuit_each(&self, circuits: f64) -> LinkChances {
        let (one, two) = self.of_one_circuit();
        let q = one + two;
        // Of the other circuits, none is on the link.
        let alone = power_of_one_less(q, circuits - 1.0);
        let per_other = 1.0 / (1.0 - q);
        let tail = if q > CERTAIN {
            Tail::Mean
        } else if two > 0.0 {
            Tail::Trinomial { circuits, a1: one * per_other, a2: two * per_other }
        } else {
            Tail::Binomial { circuits, ratio: one * per_other }
        };
        LinkChances {
            none: alone * (1.0 - q),
            one: circuits * one * alone,
            parts: circuits * (one + 2.0 * two),
            beside_first: [1.0 - alone; 2],
            beside_second: 1.0 - alone,
            tail,
        }
    }

    /// `per_client` circuits of each client, each over one of its guards at random.
    pub(super) fn clients(&self, clients: f64, per_client: f64, guards: usize) -> LinkChances {
        let (mut touched, mut one, mut parts) = (0.0, 0.0, 0.0);
        // Of a client's other circuits none is on the link: for a circuit over each of the pair's guards, and over any.
        let (mut alone_over, mut alone) = ([0.0; 2], 0.0);
        let mut certain = false;
        self.for_each_kind(guards, |kind| {
            let q = kind.one + kind.two;
            let others = power_of_one_less(q, per_client - 1.0);
            touched += kind.share * (1.0 - others * (1.0 - q));
            one += kind.share * per_client * kind.one * others;
            parts += kind.share * per_client * (q + kind.two);
            alone += kind.share * others;
            for (sum, over) in alone_over.iter_mut().zip(kind.over) {
                *sum += kind.share * over * others;
            }
            certain |= q > CERTAIN;
        });
        let others = power_of_one_less(touched, clients - 1.0);
        let beside = |at: usize| {
            let guard = self.over[at].0;
            if guard > 0.0 { 1.0 - others * alone_over[at] / guard } else { 0.0 }
        };
        LinkChances {
            none: others * (1.0 - touched),
            one: clients * one * others,
            parts: clients * parts,
            beside_first: [beside(0), beside(1)],
            beside_second: 1.0 - others * alone,
            tail: if certain { Tail::Mean } else { Tail::Clients { clients, per_client, guards, pair: *self } },
        }
    }

    /// Calls `each` with every kind of client that there is. The draw picks each guard of a client independently of its others.
    #[inline]
    pub(super) fn for_each_kind(&self, guards: usize, mut each: impl FnMut(Kind)) {
        let [(g0, one0, two0), (g1, one1, two1)] = self.over;
        let (one, two) = self.other;
        let mut call = |kind: Kind| {
            if kind.share > 0.0 {
                each(kind);
            }
        };
        if guards == 1 {
            call(Kind { share: g0, one: one0, two: two0, over: [1.0, 0.0] });
            call(Kind { share: g1, one: one1, two: two1, over: [0.0, 1.0] });
            call(Kind { share: 1.0 - g0 - g1, one, two, over: [0.0; 2] });
            return;
        }
        let each_one = 1.0 / guards as f64;
        // Of the guards that are not the first relay, each is the second with this chance.
        let others = 1.0 - g0;
        let second = if g1 < others { g1 / others } else { 1.0 };
        let (of_first, of_second) = (Guards::new(g0, guards), Guards::new(second, guards));
        of_first.for_each_number(guards, |firsts, share| {
            let first = firsts as f64 * each_one;
            of_second.for_each_number(guards - firsts, |seconds, of_these| {
                let second = seconds as f64 * each_one;
                let neither = (guards - firsts - seconds) as f64 * each_one;
                call(Kind {
                    share: share * of_these,
                    one: first * one0 + second * one1 + neither * one,
                    two: first * two0 + second * two1 + neither * two,
                    over: [first, second],
                });
            });
        });
    }
}

/// (1 - p)^n without loss of small p. No division: this is the innermost loop.
#[inline]
pub(super) fn power_of_one_less(p: f64, n: f64) -> f64 {
    /// 1/2! to 1/9!.
    const INVERSE_FACTORIALS: [f64; 8] =
        [1.0 / 2.0, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5_040.0, 1.0 / 40_320.0, 1.0 / 362_880.0];
    let logarithm = if p < 1e-3 {
        // Five terms of the series: relative error below 10^-15.
        -p * (1.0 + p * (1.0 / 2.0 + p * (1.0 / 3.0 + p * (1.0 / 4.0 + p * (1.0 / 5.0)))))
    } else if p >= 1.0 {
        return if n > 0.0 { 0.0 } else { 1.0 };
    } else {
        libm::log1p(-p)
    };
    let x = n * logarithm;
    if x > -0.015_625 {
        // Six terms: relative error below 10^-16; by far the most links of a large network are here.
        let [c2, c3, c4, c5, c6, ..] = INVERSE_FACTORIALS;
        1.0 + x * (1.0 + x * (c2 + x * (c3 + x * (c4 + x * (c5 + x * c6)))))
    } else if x > -0.125 {
        let [c2, c3, c4, c5, c6, c7, c8, c9] = INVERSE_FACTORIALS;
        let high = c6 + x * (c7 + x * (c8 + x * c9));
        1.0 + x * (1.0 + x * (c2 + x * (c3 + x * (c4 + x * (c5 + x * high)))))
    } else {
        libm::exp(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_exact_from_tiny_to_certain() {
        for p in [0.0, 1e-15, 1e-9, 9.9e-4, 1.1e-3, 2.2e-3, 0.3, 0.999] {
            for n in [0.0, 1.0, 7.0, 1e3, 96_000.0, 1e9] {
                let exact = libm::exp(n * libm::log1p(-p));
                assert!((power_of_one_less(p, n) - exact).abs() <= 1e-15 * (10.0 + n * p) * exact.max(1e-300), "{p} {n}");
            }
        }
        assert!(power_of_one_less(1.0, 5.0) < f64::MIN_POSITIVE);
    }
}
