//! A link that few clients with many circuits each are likely to use, as tiny networks have them.
//!
//! Numbers of parts then lie around as many hills as clients may be on the link, with valleys between, and the recurrences of `sums` lose themselves in differences
//! of large numbers there. Products of the clients' polynomials have no differences.

use super::pair::Pair;

/// More clients than this make one hill.
const MOST_CLIENTS: f64 = 32.0;
/// A client is likely to use the link: it does not with less than this chance.
const LIKELY: f64 = 0.9;

/// Chances of 0, 1, 2... parts on the link, exactly: the last client may have fewer circuits than `per_client`.
///
/// None where the recurrence serves: there are many clients, they seldom use the link, or their circuits are no whole number.
pub(super) fn parts(pair: &Pair, clients: f64, per_client: f64) -> Option<Vec<f64>> {
    if clients > MOST_CLIENTS || per_client.fract() != 0.0 {
        return None;
    }
    let untouched: f64 = pair.states().iter().map(|(share, one, two)| share * (1.0 - one - two).powi(per_client as i32)).sum();
    if untouched > LIKELY {
        return None;
    }
    let client = of_client(pair, per_client as usize);
    let whole = (clients + 1e-9).floor();
    let last = ((clients - whole) * per_client).round().max(0.0) as usize;
    Some((0..whole as usize).fold(of_client(pair, last), |all, _| product(&all, &client)))
}

/// One client's polynomial: a blend, over the kinds of its guard, of as many powers.
fn of_client(pair: &Pair, circuits: usize) -> Vec<f64> {
    let mut blend = vec![0.0; 2 * circuits + 1];
    for (share, one, two) in pair.states() {
        let circuit = [1.0 - one - two, one, two];
        let power = (0..circuits).fold(vec![share], |power, _| product(&power, &circuit));
        blend.iter_mut().zip(power).for_each(|(sum, chance)| *sum += chance);
    }
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
