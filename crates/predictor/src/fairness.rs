//! The fairness index: how much of the traffic is as max-min fairness has it.
//!
//! The paper's formula is lost in the text that we have; in words it is the share of the traffic that behaves according to max-min fairness. Four readings of
//! that are here. [`Fairness::served`] is the one that fits the paper's figures: PredicTor is at about 0.9 although circuits deviate only downwards,
//! which [`Fairness::conforming`] would not count.

use crate::error::NetworkError;

/// The four readings of the fairness index. Each is 1 for fair rates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fairness {
    /// Of what max-min fairness gives, the share that arrives: sum of min(r, r*) over sum of r*. The recommended one.
    pub served: f64,
    /// Of what arrives, the share that max-min fairness gives too: sum of min(r, r*) over sum of r; 1 where nothing arrives.
    pub conforming: f64,
    /// One less the sum of all deviations over the sum of r*; negative for rates far off.
    pub deviation: f64,
    /// One less half the sum of differences between the shares in the respective totals: insensitive to a loss that hits all alike; 0 where nothing arrives.
    pub shares: f64,
}

impl Fairness {
    /// Compares `rates` with the max-min fair rates of the same circuits, in the same unit.
    ///
    /// # Errors
    ///
    /// Different lengths, rates that are negative or not finite, or fair rates that sum to zero: no share of nothing.
    pub fn of(rates: &[f64], fair: &[f64]) -> Result<Self, NetworkError> {
        if rates.len() != fair.len() {
            return Err(NetworkError::Lengths { what: "rates", given: rates.len(), circuits: fair.len() });
        }
        if rates.iter().chain(fair).any(|rate| !(rate.is_finite() && *rate >= 0.0)) {
            return Err(NetworkError::Index { reason: "rates must be finite and not negative" });
        }
        let (total, fair_total): (f64, f64) = (rates.iter().sum(), fair.iter().sum());
        if fair_total <= 0.0 {
            return Err(NetworkError::Index { reason: "the fair rates sum to zero" });
        }
        let pairs = || rates.iter().zip(fair);
        let common: f64 = pairs().map(|(rate, fair)| rate.min(*fair)).sum();
        let apart: f64 = pairs().map(|(rate, fair)| (rate - fair).abs()).sum();
        let unlike: f64 = pairs().map(|(rate, fair)| (rate / total - fair / fair_total).abs()).sum();
        Ok(Self {
            served: common / fair_total,
            conforming: if total > 0.0 { common / total } else { 1.0 },
            deviation: 1.0 - apart / fair_total,
            shares: if total > 0.0 { 1.0 - unlike / 2.0 } else { 0.0 },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 1 of the paper (rates in KB/s) under each reading, worked out by hand.
    #[test]
    fn the_papers_toy_network() {
        let fair = [136.7, 136.7, 136.7];
        for (rates, expected) in [
            ([134.2, 134.1, 134.1], [0.981, 1.000, 0.981, 1.000]),
            ([102.5, 102.5, 197.3], [0.833, 0.849, 0.685, 0.843]),
            ([130.9, 143.9, 130.5], [0.971, 0.982, 0.953, 0.978]),
        ] {
            let index = Fairness::of(&rates, &fair).unwrap();
            let found = [index.served, index.conforming, index.deviation, index.shares];
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected).abs() < 6e-4, "{rates:?}: {found} for {expected}");
            }
        }
    }

    #[test]
    fn the_corners_are_defined() {
        assert_eq!(
            Fairness::of(&[0.0, 0.0], &[1.0, 2.0]).unwrap(),
            Fairness { served: 0.0, conforming: 1.0, deviation: 0.0, shares: 0.0 }
        );
        assert!(Fairness::of(&[1.0], &[0.0]).is_err());
        assert!(Fairness::of(&[1.0], &[1.0, 1.0]).is_err());
        assert!(Fairness::of(&[f64::NAN], &[1.0]).is_err());
    }
}
