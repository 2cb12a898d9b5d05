//! A link that few clients with many circuits each are likely to use, as tiny networks have them.
//!
//! Numbers of parts then lie around as many hills as clients may be on the link, with valleys between, and the recurrences of `sums` lose themselves in differences
//! of large numbers there. Products of the clients' polynomials have no differences.

use super::pair::Pair;

/// More clients than this make one hill.
const MOST_CLIENTS: f64 = 32.0;
/// A client is likely to use the link: it does not with less than this chance.
const LIKELY: f64 = 0.9;

/// With more circuits than this the product takes longer than anybody waits: milliseconds for each pair of relays, of which there are thousands. So many
/// where clients are of three kinds, as with one guard; with more, fewer.
const MOST_CIRCUITS: f64 = 1500.0;

/// How the numbers of parts on a link lie.
pub(super) enum Hills {
    /// Around one hill: the recurrence serves.
    One,
    /// Around few: chances of 0, 1, 2... parts.
    Few(Vec<f64>),
    /// Around few, of more circuits than are multiplied out.
    TooHigh,
}

/// How parts on the link lie, the chances exactly: the last client may have fewer circuits than `per_client`.
///
/// There is one hill where there are many clients, or they seldom use the link.
pub(super) fn parts(pair: &Pair, clients: f64, per_client: f64, guards: usize) -> Hills {
    if clients > MOST_CLIENTS {
        return Hills::One;
    }
    let (mut untouched, mut kinds) = (0.0, 0.0);
    pair.for_each_kind(guards, |kind| {
        untouched += kind.share * libm::pow(1.0 - kind.one - kind.two, per_client);
        kinds += 1.0;
    });
    if untouched > LIKELY {
        return Hills::One;
    }
    // A client's polynomial takes time in proportion to the square of its degree, for each kind.
    if clients * per_client * libm::sqrt(f64::max(kinds / 3.0, 1.0)) > MOST_CIRCUITS {
        return Hills::TooHigh;
    }
    let client = of_client(pair, per_client as usize, guards);
    let whole = (clients + 1e-9).floor();
    let last = ((clients - whole) * per_client).round().max(0.0) as usize;
    Hills::Few((0..whole as usize).fold(of_client(pair, last, guards), |all, _| product(&all, &client)))
}

/// One client's polynomial: a blend, over the kinds of clients, of as many powers.
fn of_client(pair: &Pair, circuits: usize, guards: usize) -> Vec<f64> {
    let mut blend = vec![0.0; 2 * circuits + 1];
    pair.for_each_kind(guards, |kind| {
        let circuit = [1.0 - kind.one - kind.two, kind.one, kind.two];
        let power = (0..circuits).fold(vec![kind.share], |power, _| product(&power, &circuit));
        blend.iter_mut().zip(power).for_each(|(sum, chance)| *sum += chance);
    });
    blend
}

fn product(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut product = vec![0.0; a.len() + b.len() - 1];
    for (i, x) in a.iter().enumerate() {
        for (slot, y) in product[i..].iter_mut().zip(b) {
            *slot += x * y;
        }
    }
    product
}
