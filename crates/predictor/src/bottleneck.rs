//! Bottlenecks: the test of max-min fairness.
//!
//! A relay is a circuit's bottleneck if its capacity is used up and no other circuit there is faster (definition 7 of the paper; Bertsekas and
//! Gallager, section 6.5.2). Feasible rates are max-min fair if and only if every circuit has one. The paper's lemma says exactly one; ties give two.

use crate::error::NetworkError;
use crate::network::Network;

/// What limits a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bottleneck {
    /// This relay.
    Relay(usize),
    /// The circuit's own upper limit.
    Limit,
}

/// The bottlenecks of each circuit under these rates. `tolerance` is relative, absolute below one.
///
/// # Errors
///
/// Not as many rates as circuits.
pub fn bottlenecks(network: &Network, rates: &[f64], tolerance: f64) -> Result<Vec<Vec<Bottleneck>>, NetworkError> {
    let loads = network.loads(rates)?;
    let mut fastest = vec![0.0_f64; network.relays()];
    for (circuit, &rate) in rates.iter().enumerate() {
        for &relay in network.path(circuit) {
            fastest[relay] = fastest[relay].max(rate);
        }
    }
    let reaches = |value: f64, bound: f64| value >= bound - tolerance * bound.max(1.0);
    let of = |(circuit, &rate): (usize, &f64)| {
        let full = |&relay: &usize| reaches(loads[relay], network.capacities()[relay]) && reaches(rate, fastest[relay]);
        let relays = network.path(circuit).iter().copied().filter(full).map(Bottleneck::Relay);
        let limit = network.limits()[circuit];
        relays.chain((limit.is_finite() && reaches(rate, limit)).then_some(Bottleneck::Limit)).collect()
    };
    Ok(rates.iter().enumerate().map(of).collect())
}

/// Whether rates are max-min fair: feasible, and every circuit has a bottleneck.
///
/// # Errors
///
/// Not as many rates as circuits.
pub fn is_max_min(network: &Network, rates: &[f64], tolerance: f64) -> Result<bool, NetworkError> {
    Ok(network.is_feasible(rates, tolerance)? && bottlenecks(network, rates, tolerance)?.iter().all(|found| !found.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bottlenecks_by_hand() {
        let network = Network::new(&[1.0, 4.0], [vec![0, 1], vec![0], vec![1], vec![1]]).unwrap();
        let network = network.with_limits(&[f64::INFINITY, f64::INFINITY, f64::INFINITY, 1.75]).unwrap();
        let found = bottlenecks(&network, &[0.5, 0.5, 1.75, 1.75], 1e-9).unwrap();
        let both = vec![Bottleneck::Relay(1), Bottleneck::Limit];
        assert_eq!(found, [vec![Bottleneck::Relay(0)], vec![Bottleneck::Relay(0)], vec![Bottleneck::Relay(1)], both]);
    }

    #[test]
    fn what_is_not_max_min_is_told_apart() {
        let lot = Network::new(&[1.0, 1.0], [vec![0, 1], vec![0], vec![1]]).unwrap();
        assert!(is_max_min(&lot, &[0.5, 0.5, 0.5], 1e-9).unwrap());
        assert!(
            !is_max_min(&lot, &[1.0 / 3.0, 2.0 / 3.0, 2.0 / 3.0], 1e-9).unwrap(),
            "the long circuit is slower than its neighbours"
        );
        assert!(!is_max_min(&lot, &[0.4, 0.4, 0.4], 1e-9).unwrap(), "capacity is left");
        assert!(!is_max_min(&lot, &[0.6, 0.6, 0.6], 1e-9).unwrap(), "not feasible");
        assert!(is_max_min(&lot, &[0.5], 1e-9).is_err());
    }
}
