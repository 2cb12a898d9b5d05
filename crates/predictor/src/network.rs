//! The network of section 2 of the paper: relays with capacities, circuits as the relays they cross.
//!
//! Capacities and rates share one unit, whichever the caller likes; the controller and the paper count packets (cells) a second.
//! A circuit may have an upper limit of its own, which acts like one more relay that nobody else crosses.

use crate::error::NetworkError;

/// Relays with capacities and the circuits that cross them.
///
/// Invariants: capacities are finite and not negative; every circuit crosses at least one relay, none twice, only relays there are; limits are
/// not negative, infinite where a circuit has none.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    capacities: Vec<f64>,
    limits: Vec<f64>,
    /// Circuit p crosses `relays[starts[p]..starts[p + 1]]`.
    starts: Vec<usize>,
    relays: Vec<usize>,
}

impl Network {
    /// A network of relays with these capacities and circuits over these relays (in any order), without limits of the circuits' own.
    ///
    /// # Errors
    ///
    /// A capacity is negative or not finite, or a circuit crosses no relay, one twice, or one that does not exist.
    pub fn new<C: AsRef<[usize]>>(capacities: &[f64], circuits: impl IntoIterator<Item = C>) -> Result<Self, NetworkError> {
        for (relay, &capacity) in capacities.iter().enumerate() {
            if !(capacity.is_finite() && capacity >= 0.0) {
                return Err(NetworkError::Capacity { relay, capacity });
            }
        }
        let mut network = Self { capacities: capacities.to_vec(), limits: Vec::new(), starts: vec![0], relays: Vec::new() };
        for (circuit, path) in circuits.into_iter().enumerate() {
            let path = path.as_ref();
            if path.is_empty() {
                return Err(NetworkError::NoRelay { circuit });
            }
            for (position, &relay) in path.iter().enumerate() {
                if relay >= capacities.len() {
                    return Err(NetworkError::NoSuchRelay { circuit, relay, relays: capacities.len() });
                }
                if path[..position].contains(&relay) {
                    return Err(NetworkError::Twice { circuit, relay });
                }
            }
            network.relays.extend_from_slice(path);
            network.starts.push(network.relays.len());
        }
        network.limits = vec![f64::INFINITY; network.circuits()];
        Ok(network)
    }

    /// The same network with an upper limit for each circuit; infinity where there is none.
    ///
    /// # Errors
    ///
    /// Not as many limits as circuits, or one is negative or not a number.
    pub fn with_limits(mut self, limits: &[f64]) -> Result<Self, NetworkError> {
        if limits.len() != self.circuits() {
            return Err(NetworkError::Lengths { what: "limits", given: limits.len(), circuits: self.circuits() });
        }
        if let Some(circuit) = limits.iter().position(|&limit| limit.is_nan() || limit < 0.0) {
            return Err(NetworkError::Limit { circuit, limit: limits[circuit] });
        }
        self.limits.copy_from_slice(limits);
        Ok(self)
    }

    /// Number of relays.
    pub fn relays(&self) -> usize {
        self.capacities.len()
    }

    /// Number of circuits.
    pub fn circuits(&self) -> usize {
        self.starts.len() - 1
    }

    /// Capacities by relay.
    pub fn capacities(&self) -> &[f64] {
        &self.capacities
    }

    /// Upper limits by circuit, infinite where there is none.
    pub fn limits(&self) -> &[f64] {
        &self.limits
    }

    /// The relays that a circuit crosses, in the order given.
    pub fn path(&self, circuit: usize) -> &[usize] {
        &self.relays[self.starts[circuit]..self.starts[circuit + 1]]
    }

    /// The sum of the rates of the circuits at each relay.
    ///
    /// # Errors
    ///
    /// Not as many rates as circuits.
    pub fn loads(&self, rates: &[f64]) -> Result<Vec<f64>, NetworkError> {
        self.check_rates(rates)?;
        let mut loads = vec![0.0; self.relays()];
        for (circuit, rate) in rates.iter().enumerate() {
            for &relay in self.path(circuit) {
                loads[relay] += rate;
            }
        }
        Ok(loads)
    }

    /// Whether rates are feasible (equations 2 and 3): none is negative, no relay carries more than its capacity, no circuit exceeds its limit.
    /// `tolerance` is relative to capacity or limit, absolute below one.
    ///
    /// # Errors
    ///
    /// Not as many rates as circuits.
    pub fn is_feasible(&self, rates: &[f64], tolerance: f64) -> Result<bool, NetworkError> {
        let loads = self.loads(rates)?;
        let within = |value: f64, bound: f64| value <= bound || value - bound <= tolerance * bound.max(1.0);
        Ok(rates.iter().zip(&self.limits).all(|(&rate, &limit)| rate >= -tolerance && within(rate, limit))
            && loads.iter().zip(&self.capacities).all(|(&load, &capacity)| within(load, capacity)))
    }

    pub(crate) fn check_rates(&self, rates: &[f64]) -> Result<(), NetworkError> {
        if rates.len() == self.circuits() {
            Ok(())
        } else {
            Err(NetworkError::Lengths { what: "rates", given: rates.len(), circuits: self.circuits() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_network_is_refused_with_the_place() {
        let refused = |capacities: &[f64], circuits: &[&[usize]]| Network::new(capacities, circuits).unwrap_err().to_string();
        assert_eq!(refused(&[1.0, -2.0], &[]), "relay 1 has capacity -2, which must be finite and not negative");
        assert!(refused(&[f64::NAN], &[]).starts_with("relay 0 has capacity NaN"));
        assert_eq!(refused(&[1.0], &[&[0], &[]]), "circuit 1 crosses no relay: nothing limits it");
        assert_eq!(refused(&[1.0], &[&[1]]), "circuit 0 crosses relay 1, but the 1 relays are numbered from 0");
        assert_eq!(refused(&[1.0, 1.0], &[&[1, 0, 1]]), "circuit 0 crosses relay 1 twice");
        let network = Network::new(&[1.0], [[0]]).unwrap();
        assert_eq!(network.clone().with_limits(&[]).unwrap_err().to_string(), "0 limits for 1 circuits: one each is needed");
        assert!(network.clone().with_limits(&[f64::NAN]).is_err());
        assert!(network.loads(&[1.0, 2.0]).is_err());
    }

    #[test]
    fn loads_and_feasibility_by_hand() {
        let network = Network::new(&[2.0, 3.0], [vec![0, 1], vec![1]]).unwrap().with_limits(&[f64::INFINITY, 1.5]).unwrap();
        assert_eq!(network.loads(&[2.0, 1.0]).unwrap(), [2.0, 3.0]);
        assert!(network.is_feasible(&[2.0, 1.0], 0.0).unwrap());
        assert!(!network.is_feasible(&[2.0, 1.1], 1e-9).unwrap(), "relay 1");
        assert!(!network.is_feasible(&[0.0, 1.6], 1e-9).unwrap(), "limit");
        assert!(!network.is_feasible(&[-0.1, 1.0], 1e-9).unwrap(), "negative");
    }
}
