//! Rarely used links, all at once.
//!
//! The chance q that a circuit uses the link between relays a and b is a sum of two products, `q = x_a y_b + z_a w_b`. For a link
//! with few expected circuits (N q at most 1) every wanted quantity is a short polynomial in N q, and a power of q summed over
//! all pairs falls apart into products of sums over a and sums over b (binomial theorem): time in proportion to the
//! number of groups, not of pairs. Links with more circuits are left to be added one by one; which those are is bounded
//! by a product of one number of a and one of b, so that the rare ones of each group are a run in one fixed order.
//!
//! On undirected links one circuit may put both parts on the same link; the chance of that enters linearly here. The numbers of
//! links and of shared links stay exact; those of links with n circuits are right to 0.1 %.

use super::sums::Sums;
use crate::positions::Group;

/// Degree of the polynomials: with N q at most 1 the next term is below 10^-14.
const DEGREE: usize = 16;
/// Greatest N q of a rare link.
const RARE: f64 = 1.0;

type Polynomial = [f64; DEGREE + 1];
/// Sums of x^j z^(k-j), by k and j.
type Moments = [[f64; DEGREE + 1]; DEGREE + 1];

/// One group of relays as one end of a link; chances in multiples of 1/N.
#[derive(Debug, Clone, Copy)]
struct End {
    relays: f64,
    /// The factors of q at this end: as the first end x, z; as the second y, w.
    first: (f64, f64),
    second: (f64, f64),
    /// N q of a pair is at most the product of these two.
    first_bound: f64,
    second_bound: f64,
    guard: f64,
    middle: f64,
    last: f64,
    /// Undirected: guard and last relay of one circuit.
    both: f64,
}

/// The rare links of a network, one circuit per client.
pub(super) struct PowerSums {
    directed: bool,
    circuits: f64,
    ends: Vec<End>,
    /// Groups in ascending order of each bound.
    by_first: Vec<usize>,
    by_second: Vec<usize>,
}

impl PowerSums {
    pub(super) fn new(groups: &[Group], directed: bool, circuits: f64) -> Self {
        let end = |group: &Group| {
            let Group { relays, guard, middle, last } = *group;
            let either = guard + last - guard * last;
            let (first, second) = if directed { ((guard, middle), (middle, last)) } else { ((either, middle), (middle, either)) };
            let first = (first.0 * circuits, first.1 * circuits);
            let (first_bound, second_bound) = (first.0 + first.1, second.0 + second.1);
            End { relays, first, second, first_bound, second_bound, guard, middle, last, both: guard * last }
        };
        let ends: Vec<End> = groups.iter().map(end).collect();
        let sorted = |bound: &dyn Fn(&End) -> f64| {
            let mut order: Vec<usize> = (0..ends.len()).collect();
            order.sort_by(|&a, &b| bound(&ends[a]).total_cmp(&bound(&ends[b])));
            order
        };
        let (by_first, by_second) = (sorted(&|end| end.first_bound), sorted(&|end| end.second_bound));
        Self { directed, circuits, ends, by_first, by_second }
    }

    /// Whether links from group `a` to group `b` are rare.
    pub(super) fn contains(&self, a: usize, b: usize) -> bool {
        self.ends[a].first_bound * self.ends[b].second_bound <= RARE
    }

    /// The groups to which links from `a` are not rare.
    pub(super) fn not_with(&self, a: usize) -> &[usize] {
        let rare = self.by_second.partition_point(|&b| self.contains(a, b));
        &self.by_second[rare..]
    }

    /// Adds the rare links, those within one group as if a relay could be linked to itself like to another.
    pub(super) fn add_to(&self, sums: &mut Sums) {
        let n = self.circuits;
        // Sums over pairs of (N q)^k, and of the chance of both parts times that.
        let (mut powers, mut both) = ([0.0; DEGREE + 1], [0.0; DEGREE + 1]);
        let alone = less_than_one(n - 1.0, n).map(|coefficient| -coefficient);
        let half = if self.directed { 1.0 } else { 0.5 };
        // From the group with the most circuits on: each next one has at least the same rare partners.
        let (mut of_relays, mut of_middles, mut of_lasts) = (Box::new(zero()), Box::new(zero()), Box::new(zero()));
        let mut partners = self.by_second.iter().peekable();
        for &a in self.by_first.iter().rev() {
            let end = &self.ends[a];
            while let Some(&b) = partners.next_if(|&&b| self.contains(a, b)) {
                let partner = &self.ends[b];
                include(&mut of_relays, partner.relays, partner.second);
                include(&mut of_middles, partner.relays * partner.middle, partner.second);
                include(&mut of_lasts, partner.relays * partner.last, partner.second);
            }
            let row = powers_of_row(&of_relays, end.first);
            let row_of_middles = powers_of_row(&of_middles, end.first);
            for k in 0..=DEGREE {
                powers[k] += half * end.relays * row[k];
                both[k] += end.relays * end.both * row_of_middles[k];
            }
            // A second part from here is not alone: 1 - (1 - q)^(N - 1).
            let row_of_lasts = powers_of_row(&of_lasts, end.first);
            sums.second[a] += (1..=DEGREE).map(|k| alone[k] * row_of_lasts[k]).sum::<f64>();
        }
        let mut of_guards = Box::new(zero());
        let mut partners = self.by_first.iter().peekable();
        for &b in self.by_second.iter().rev() {
            let end = &self.ends[b];
            while let Some(&a) = partners.next_if(|&&a| self.contains(a, b)) {
                let partner = &self.ends[a];
                include(&mut of_guards, partner.relays * partner.guard, partner.first);
            }
            let row = powers_of_row(&of_guards, end.second);
            sums.first[b] += (1..=DEGREE).map(|k| alone[k] * row[k]).sum::<f64>();
        }
        if self.directed {
            both = [0.0; DEGREE + 1];
        }
        self.add_powers(sums, &powers, &both);
    }

    /// What follows from the sums of powers. Here y stands for N q.
    fn add_powers(&self, sums: &mut Sums, powers: &Polynomial, both: &Polynomial) {
        let n = self.circuits;
        let dot = |a: &Polynomial, b: &Polynomial| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        // Used: 1 - (1 - q)^N. One part: (y - N both) (1 - q)^(N - 1).
        let mut used = less_than_one(n, n).map(|coefficient| -coefficient);
        used[0] = 0.0;
        let single = less_than_one(n - 1.0, n);
        let one = shifted(&single, 1);
        sums.links += dot(&used, powers);
        sums.one += dot(&one, powers) - n * dot(&single, both);
        sums.parts += powers[1] + n * both[0];
        // More parts: the binomial's term, less what circuits with both parts take from it, and what they bring.
        let mut choose = 1.0;
        let mut choose_before = 1.0;
        for parts in 2..=DEGREE {
            let k = parts as f64;
            // C(N, parts) / N^parts, and N C(N - 1, parts - 2) / N^(parts - 2).
            choose *= (n - k + 1.0) / (k * n);
            let binomial = less_than_one(n - k, n).map(|coefficient| choose * coefficient);
            let bring = less_than_one(n - k + 1.0, n).map(|coefficient| n * choose_before * coefficient);
            let links = dot(&shifted(&binomial, parts), powers) - n * k * dot(&shifted(&binomial, parts - 1), both)
                + dot(&shifted(&bring, parts - 2), both);
            sums.put(k, links);
            choose_before *= (n - k + 1.0) / ((k - 1.0) * n);
        }
        // Variances and covariances, circuits with both parts left aside.
        let mut shared = used;
        (0..=DEGREE).for_each(|k| shared[k] -= one[k]);
        shared[1] = 0.0;
        let parts = shifted(&constant(), 1);
        let minus = |a: &Polynomial, b: &Polynomial| -> Polynomial { std::array::from_fn(|k| a[k] - b[k]) };
        let unused = minus(&constant(), &used);
        sums.variance_shared += dot(&minus(&shared, &product(&shared, &shared)), powers);
        sums.variance_used += dot(&product(&used, &unused), powers);
        sums.covariance_shared_used += dot(&product(&shared, &unused), powers);
        sums.covariance_shared_parts += dot(&minus(&minus(&parts, &one), &product(&shared, &parts)), powers);
        sums.covariance_used_parts += dot(&product(&parts, &unused), powers);
    }
}

const fn zero() -> Moments {
    [[0.0; DEGREE + 1]; DEGREE + 1]
}

const fn constant() -> Polynomial {
    let mut polynomial = [0.0; DEGREE + 1];
    polynomial[0] = 1.0;
    polynomial
}

/// (1 - y/n)^m as a polynomial in y.
fn less_than_one(m: f64, n: f64) -> Polynomial {
    let mut coefficients = constant();
    for k in 1..=DEGREE {
        // Zero from k = m + 1 on where m is a whole number.
        coefficients[k] = -coefficients[k - 1] * (m - k as f64 + 1.0) / (k as f64 * n);
    }
    coefficients
}

/// The polynomial times y^by, cut at the degree.
fn shifted(polynomial: &Polynomial, by: usize) -> Polynomial {
    std::array::from_fn(|k| if k < by { 0.0 } else { polynomial[k - by] })
}

/// The product, cut at the degree.
fn product(a: &Polynomial, b: &Polynomial) -> Polynomial {
    std::array::from_fn(|k| (0..=k).map(|j| a[j] * b[k - j]).sum())
}

/// Adds a group's `weight` x^j z^(k-j).
fn include(moments: &mut Moments, weight: f64, (x, z): (f64, f64)) {
    if weight <= 0.0 {
        return;
    }
    let (x, z) = (powers_up(x), powers_up(z));
    for (k, row) in moments.iter_mut().enumerate() {
        for (j, sum) in row.iter_mut().enumerate().take(k + 1) {
            *sum += weight * x[j] * z[k - j];
        }
    }
}

/// The sum over the included groups of weight (y x + w z)^k, for each k.
fn powers_of_row(moments: &Moments, (y, w): (f64, f64)) -> Polynomial {
    let (y, w) = (powers_up(y), powers_up(w));
    std::array::from_fn(|k| (0..=k).map(|j| CHOOSE[k][j] * y[j] * w[k - j] * moments[k][j]).sum())
}

fn powers_up(base: f64) -> Polynomial {
    let mut powers = constant();
    for k in 1..=DEGREE {
        powers[k] = powers[k - 1] * base;
    }
    powers
}

/// Binomial coefficients.
static CHOOSE: Moments = {
    let mut choose = zero();
    let mut k = 0;
    while k <= DEGREE {
        choose[k][0] = 1.0;
        let mut j = 1;
        while j <= k {
            choose[k][j] = choose[k - 1][j - 1] + if j < k { choose[k - 1][j] } else { 0.0 };
            j += 1;
        }
        k += 1;
    }
    choose
};
