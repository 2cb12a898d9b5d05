//! Max-min fair rates by water-filling (progressive filling), exact: the one reference for fairness.
//!
//! All rates rise together from zero; a relay whose capacity is reached freezes its circuits, a circuit that reaches its own limit freezes alone.
//! Bertsekas and Gallager, "Data Networks", section 6.5.2. The paper's Theorem 3 is no substitute: see [`crate::projection`].

use crate::network::Network;

/// A capacity counts as reached when this share of it (of one, if it is less than one) is left: rounding would leave crumbs.
pub const REACHED: f64 = 1e-9;

/// Max-min fair rates of the circuits of a network.
///
/// Definition (4) of the paper: to raise the rate of one circuit, a circuit that has no more must lose. The vector exists and is unique; each
/// circuit has a bottleneck ([`crate::bottlenecks`]).
pub fn max_min(network: &Network) -> Vec<f64> {
    WaterFilling::default().rates(network).to_vec()
}

/// Water-filling with memory that is kept: no allocation when the next network is no larger.
#[derive(Debug, Clone, Default)]
pub struct WaterFilling {
    rates: Vec<f64>,
    frozen: Vec<bool>,
    /// By relay: circuits that still rise, and what the frozen ones use.
    rising: Vec<usize>,
    used: Vec<f64>,
    /// Relays with circuits that rise.
    open: Vec<usize>,
    /// The circuits at each relay, `at[starts[j]..starts[j + 1]]`.
    starts: Vec<usize>,
    at: Vec<usize>,
    /// Circuits with a limit, lowest limit first.
    limited: Vec<usize>,
}

impl WaterFilling {
    /// Max-min fair rates, as [`max_min`].
    pub fn rates(&mut self, network: &Network) -> &[f64] {
        self.index(network);
        let capacities = network.capacities();
        let mut left = network.circuits();
        let mut next_limited = 0;
        while left > 0 {
            while next_limited < self.limited.len() && self.frozen[self.limited[next_limited]] {
                next_limited += 1;
            }
            // The level that all rising circuits share at the next event.
            let limit = self.limited.get(next_limited).map_or(f64::INFINITY, |&circuit| network.limits()[circuit]);
            let full = |relay: usize, water: &Self| (capacities[relay] - water.used[relay]) / water.rising[relay] as f64;
            let level = self.open.iter().map(|&relay| full(relay, self)).fold(limit, f64::min).max(0.0);
            while let Some(&circuit) = self.limited.get(next_limited).filter(|&&circuit| network.limits()[circuit] <= level) {
                left -= usize::from(self.freeze(network, circuit, level));
                next_limited += 1;
            }
            for place in 0..self.open.len() {
                let relay = self.open[place];
                let rest = capacities[relay] - self.used[relay] - self.rising[relay] as f64 * level;
                if self.rising[relay] > 0 && rest <= REACHED * capacities[relay].max(1.0) {
                    for index in self.starts[relay]..self.starts[relay + 1] {
                        left -= usize::from(self.freeze(network, self.at[index], level));
                    }
                }
            }
            let rising = &self.rising;
            self.open.retain(|&relay| rising[relay] > 0);
        }
        &self.rates
    }

    fn freeze(&mut self, network: &Network, circuit: usize, level: f64) -> bool {
        if std::mem::replace(&mut self.frozen[circuit], true) {
            return false;
        }
        self.rates[circuit] = level;
        for &relay in network.path(circuit) {
            self.rising[relay] -= 1;
            self.used[relay] += level;
        }
        true
    }

    /// Which circuits are at which relay, nothing frozen.
    fn index(&mut self, network: &Network) {
        let (relays, circuits) = (network.relays(), network.circuits());
        refill(&mut self.rates, circuits, 0.0);
        refill(&mut self.frozen, circuits, false);
        refill(&mut self.used, relays, 0.0);
        refill(&mut self.rising, relays, 0);
        for circuit in 0..circuits {
            for &relay in network.path(circuit) {
                self.rising[relay] += 1;
            }
        }
        self.starts.clear();
        self.starts.push(0);
        let mut sum = 0;
        self.starts.extend(self.rising.iter().map(|&count| {
            sum += count;
            sum
        }));
        refill(&mut self.at, sum, 0);
        self.open.clear();
        self.open.extend((0..relays).filter(|&relay| self.rising[relay] > 0));
        // Fill each relay's range from its end; `rising` counts down and is restored below.
        for circuit in (0..circuits).rev() {
            for &relay in network.path(circuit) {
                self.rising[relay] -= 1;
                self.at[self.starts[relay] + self.rising[relay]] = circuit;
            }
        }
        for relay in 0..relays {
            self.rising[relay] = self.starts[relay + 1] - self.starts[relay];
        }
        let limits = network.limits();
        self.limited.clear();
        self.limited.extend((0..circuits).filter(|&circuit| limits[circuit].is_finite()));
        self.limited.sort_unstable_by(|&a, &b| limits[a].total_cmp(&limits[b]).then(a.cmp(&b)));
    }
}

fn refill<T: Clone>(vector: &mut Vec<T>, length: usize, value: T) {
    vector.clear();
    vector.resize(length, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bottleneck::bottlenecks;
    use proptest::prelude::*;

    fn close(a: &[f64], b: &[f64]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-9 * b.abs().max(1.0))
    }

    #[test]
    fn textbook_networks() {
        // The toy of the paper's figure 1, and a parking lot: one long circuit over two links, one short circuit on each.
        let toy = Network::new(&[10.0, 10.0, 4.0, 10.0, 10.0, 10.0], [[0, 2, 3], [0, 2, 4], [1, 2, 5]]).unwrap();
        assert!(close(&max_min(&toy), &[4.0 / 3.0; 3]));
        let lot = Network::new(&[1.0, 1.0], [vec![0, 1], vec![0], vec![1]]).unwrap();
        assert!(close(&max_min(&lot), &[0.5; 3]));
        // Bertsekas and Gallager's rounds: what a slow relay leaves goes to the others.
        let uneven = Network::new(&[1.0, 4.0], [vec![0, 1], vec![0], vec![1], vec![1]]).unwrap();
        assert!(close(&max_min(&uneven), &[0.5, 0.5, 1.75, 1.75]));
    }

    #[test]
    fn limits_are_relays_of_ones_own() {
        let one = Network::new(&[10.0], [[0], [0], [0]]).unwrap().with_limits(&[1.0, f64::INFINITY, 20.0]).unwrap();
        assert!(close(&max_min(&one), &[1.0, 4.5, 4.5]));
        let all = Network::new(&[10.0], [[0], [0]]).unwrap().with_limits(&[1.0, 0.0]).unwrap();
        assert_eq!(max_min(&all), [1.0, 0.0]);
    }

    #[test]
    fn nothing_to_give() {
        assert_eq!(max_min(&Network::new(&[0.0, 5.0], [[0, 1]]).unwrap()), [0.0]);
        assert!(max_min(&Network::new(&[5.0], Vec::<Vec<usize>>::new()).unwrap()).is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        /// The oracle: a feasible vector is max-min fair if and only if every circuit has a bottleneck.
        #[test]
        fn every_circuit_has_a_bottleneck(
            capacities in prop::collection::vec(prop_oneof![Just(1.0), 0.0..10.0, Just(0.0)], 1..30),
            picks in prop::collection::vec((any::<u64>(), 1usize..4, prop_oneof![3 => Just(f64::INFINITY), 1 => 0.0..3.0]), 0..120),
        ) {
            let paths: Vec<Vec<usize>> = picks.iter().map(|&(pick, length, _)| {
                let mut path = Vec::new();
                for hop in 0..length {
                    let relay = (pick.rotate_left(hop as u32 * 16) % capacities.len() as u64) as usize;
                    if !path.contains(&relay) {
                        path.push(relay);
                    }
                }
                path
            }).collect();
            let limits: Vec<f64> = picks.iter().map(|pick| pick.2).collect();
            let network = Network::new(&capacities, &paths).unwrap().with_limits(&limits).unwrap();
            let rates = max_min(&network);
            prop_assert!(network.is_feasible(&rates, 1e-9).unwrap());
            for (circuit, found) in bottlenecks(&network, &rates, 1e-6).unwrap().iter().enumerate() {
                prop_assert!(!found.is_empty(), "circuit {circuit} of {network:?} with {rates:?}");
            }
            // One network after another in the same memory gives the same.
            let mut water = WaterFilling::default();
            water.rates(&Network::new(&[7.0; 40], [[3], [39]]).unwrap());
            prop_assert_eq!(water.rates(&network), &rates[..]);
        }
    }
}
