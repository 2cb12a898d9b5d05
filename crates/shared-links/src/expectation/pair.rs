//! One link: chances of the numbers of parts on it, from the chances of its two relays.

use crate::positions::Group;

/// Chances of one circuit for one link, by what its guard is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    /// Chance of a guard of this kind, then chances that a circuit over it puts one part, or two, on the link.
    pub over: [(f64, f64, f64); 2],
    /// The same for all other guards.
    pub other: (f64, f64),
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
    /// Power of the polynomial of one client, made from the chances that of its circuits but one none is on the link.
    Clients { clients: f64, per_client: f64, alone: [f64; 3], pair: Pair },
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

    /// `per_client` circuits of each client over its one guard.
    pub(super) fn clients(&self, clients: f64, per_client: f64) -> LinkChances {
        let (mut untouched, mut one, mut parts) = (0.0, 0.0, 0.0);
        // By kind of guard: of a client's other circuits, none is on the link.
        let mut alone = [1.0; 3];
        for ((share, p1, p2), alone) in self.states().into_iter().zip(&mut alone) {
            if share > 0.0 && p1 + p2 > 0.0 {
                *alone = power_of_one_less(p1 + p2, per_client - 1.0);
                untouched += share * (1.0 - *alone * (1.0 - p1 - p2));
                one += share * per_client * p1 * *alone;
                parts += share * per_client * (p1 + 2.0 * p2);
            }
        }
        let others = power_of_one_less(untouched, clients - 1.0);
        let certain = self.states().iter().any(|&(share, p1, p2)| share > 0.0 && p1 + p2 > CERTAIN);
        LinkChances {
            none: others * (1.0 - untouched),
            one: clients * one * others,
            parts: clients * parts,
            beside_first: [1.0 - others * alone[0], 1.0 - others * alone[1]],
            beside_second: 1.0 - others * alone[2],
            tail: if certain { Tail::Mean } else { Tail::Clients { clients, per_client, alone, pair: *self } },
        }
    }

    /// Kinds of guard: their chance, and the chances that a circuit over one puts one part, and two, on the link.
    pub(super) fn states(&self) -> [(f64, f64, f64); 3] {
        let [first, second] = self.over;
        [first, second, (1.0 - first.0 - second.0, self.other.0, self.other.1)]
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
