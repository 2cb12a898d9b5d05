//! Link rates: what a consensus does not say.
//!
//! A relay's capacity is taken as a power of its consensus weight, with a factor and an exponent for each class:
//!
//! `rate = mean_rate * factor[class] * (weight / mean_weight) ^ exponent[class]`
//!
//! **Fit.** `tools/fit_capacity.py` regressed log rate on log weight over 843 relays of four Tor networks of early
//! 2019 (Jansen, Tracey and Goldberg 2021, public artifact: consensus weight beside link rate for each relay), both
//! relative to their network's mean, because the unit of consensus weights is arbitrary and has changed with the
//! bandwidth scanners. R² and residual spread stand beside the numbers in [`Fit`].
//!
//! **Unit.** `mean_rate` is the mean consensus weight read as kB/s, times 0.84: in 2021 the network advertised
//! 600 Gbit/s (Tor Metrics, cited in the SALSA paper, section 4.2), and the weights of 2021-07-20 add up to 714 Gbit/s.
//! What a bandwidth scanner of today adds up need not stay at that ratio: [`CapacityModel::scaled`] changes it, and `docs/models/capacity.md`
//! has the sums of seven years.

use crate::consensus::Consensus;
use crate::error::DirectoryError;
use crate::relay::{Class, Relay};
use onionlab_quantities::{Bandwidth, RandomStream, Seed};

/// The relation between weight and rate within one class, on logarithms of both relative to the network's means.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Fit {
    /// Rate of a relay of mean weight, in multiples of the mean rate.
    pub factor: f64,
    /// Power with which the rate grows with the weight.
    pub exponent: f64,
    /// Standard deviation of the logarithm of the rate around the fit.
    pub residual: f64,
    /// Share of the variance of log rate that the fit explains.
    pub r_squared: f64,
    /// Relays behind the fit.
    pub relays: u32,
}

/// By [`Class::index`]; printed by `tools/fit_capacity.py`.
const FITS: [Fit; 4] = [
    Fit { factor: 1.0727, exponent: 0.7556, residual: 0.275, r_squared: 0.855, relays: 261 },
    Fit { factor: 0.8397, exponent: 0.6062, residual: 0.569, r_squared: 0.835, relays: 474 },
    Fit { factor: 1.5797, exponent: 0.5947, residual: 0.613, r_squared: 0.855, relays: 51 },
    Fit { factor: 1.4016, exponent: 0.7170, residual: 0.299, r_squared: 0.835, relays: 57 },
];

/// Advertised bandwidth over the sum of consensus weights read as kB/s: 600 Gbit/s over 713.9 Gbit/s in 2021.
const ADVERTISED_SHARE: f64 = 0.84;

/// No relay is slower than this: below, tor itself warns its operator (75 kB/s, `BandwidthRate` minimum for relays).
const SLOWEST: u64 = 75_000;

/// Where the relation is given by hand it holds as it is; this much is left so that a packet gets through at all.
const SLOWEST_BY_HAND: u64 = 1_000;

/// A relay's link rate as a function of its class and consensus weight.
///
/// The rate holds in each direction. See the module comment for the form and its origin.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct CapacityModel {
    /// Consensus weight of an average relay of the network.
    mean_weight: f64,
    /// Link rate in bytes per second to which a class's factor refers.
    mean_rate: f64,
    /// By which every rate is multiplied in the end.
    scale: f64,
    /// By [`Class::index`].
    fits: [Fit; 4],
    /// Least rate in bytes per second, by [`Class::index`].
    slowest: [u64; 4],
    /// Seed of the spread around the fit; `None` gives the median rate.
    #[serde(skip)]
    spread: Option<Seed>,
}

impl CapacityModel {
    /// The fitted model, for a network with these relays.
    ///
    /// A sample has the mean weight of its original, so that the model of either gives the same weight the same rate.
    pub fn for_network(network: &Consensus) -> Self {
        let mean_weight = network.totals().total() as f64 / network.relays.len().max(1) as f64;
        Self {
            mean_weight,
            mean_rate: mean_weight * 1000.0 * ADVERTISED_SHARE,
            scale: 1.0,
            fits: FITS,
            slowest: [SLOWEST; 4],
            spread: None,
        }
    }

    /// The same model with every rate multiplied by `factor`, the least one too.
    ///
    /// # Errors
    /// The factor is not a number above zero.
    pub fn scaled(mut self, factor: f64) -> Result<Self, DirectoryError> {
        if !(factor.is_finite() && factor > 0.0) {
            return Err(DirectoryError::Capacity { name: "factor", value: factor });
        }
        self.scale *= factor;
        Ok(self)
    }

    /// The same model with another relation for one class, which then has no least rate but 1 kB/s.
    ///
    /// # Errors
    /// Factor or exponent is not a number above zero.
    pub fn with_class(mut self, class: Class, factor: f64, exponent: f64) -> Result<Self, DirectoryError> {
        for (name, value) in [("factor", factor), ("exponent", exponent)] {
            if !(value.is_finite() && value > 0.0) {
                return Err(DirectoryError::Capacity { name, value });
            }
        }
        let fit = &mut self.fits[class.index()];
        (fit.factor, fit.exponent) = (factor, exponent);
        self.slowest[class.index()] = SLOWEST_BY_HAND;
        Ok(self)
    }

    /// The same model with log-normal spread around the fit, as wide as the residuals of the real relays.
    ///
    /// A relay's deviation is a function of the seed and its fingerprint.
    pub fn with_spread(mut self, seed: Seed) -> Self {
        self.spread = Some(seed);
        self
    }

    /// The relation for one class.
    pub fn fit(&self, class: Class) -> &Fit {
        &self.fits[class.index()]
    }

    /// The relay's link rate; at least 75 kB/s (times the factor of [`Self::scaled`]), except in a class whose relation was given by hand.
    pub fn rate(&self, relay: &Relay) -> Bandwidth {
        let fit = self.fit(relay.class());
        let relative = relay.weight as f64 / self.mean_weight.max(f64::MIN_POSITIVE);
        let median = self.mean_rate * fit.factor * libm::pow(relative, fit.exponent);
        let rate = match self.spread {
            None => median,
            Some(seed) => {
                let entity = relay.fingerprint.to_string();
                median * RandomStream::new(seed, &entity, "capacity").at(0).log_normal(0.0, fit.residual)
            }
        };
        let rate = rate.max(self.slowest[relay.class().index()] as f64) * self.scale;
        Bandwidth::from_bytes_per_sec((libm::round(rate) as u64).clamp(SLOWEST_BY_HAND, 1 << 50))
    }
}
