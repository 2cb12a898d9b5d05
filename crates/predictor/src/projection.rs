//! The quadratic of the paper's Theorem 3, which is said to give max-min fair rates and does not.
//!
//! Equation (8) minimises the sum of the squares of r̄ - r over the feasible rates, with one common r̄ at least as large as any feasible rate: the
//! Euclidean projection of a constant vector on the feasible set. It is max-min fair where the sets of circuits at the relays are nested or
//! disjoint, as with one shared bottleneck; where two bottlenecks overlap in part it starves circuits that cross both. The smallest such network is a parking lot of three
//! circuits: for unit capacities and r̄ = 2 the long circuit gets nothing, where max-min fairness gives it one half.
//!
//! It is here for comparison, never as a reference: that is [`crate::max_min`].

use crate::error::NetworkError;
use crate::network::Network;
use clarabel::algebra::CscMatrix;
use clarabel::solver::{DefaultSettings, DefaultSolver, IPSolver, NonnegativeConeT, SolverStatus};

/// Rates that minimise the sum of squares of `common_rate` - r over the feasible rates (equation 8), by Clarabel.
///
/// The theorem asks for a `common_rate` of at least every feasible rate; smaller ones are answered too.
///
/// # Errors
///
/// `common_rate` is negative or not finite, or the solver does not reach the optimum.
pub fn projection(network: &Network, common_rate: f64) -> Result<Vec<f64>, NetworkError> {
    if !(common_rate.is_finite() && common_rate >= 0.0) {
        return Err(NetworkError::CommonRate { rate: common_rate });
    }
    let (circuits, relays) = (network.circuits(), network.relays());
    if circuits == 0 {
        return Ok(Vec::new());
    }
    // Rows: capacities of the relays, rates not negative, finite limits.
    let mut rows = Vec::new();
    let mut columns = Vec::new();
    let mut values = Vec::new();
    let mut bounds = network.capacities().to_vec();
    let mut add = |row: usize, column: usize, value: f64| {
        rows.push(row);
        columns.push(column);
        values.push(value);
    };
    for circuit in 0..circuits {
        for &relay in network.path(circuit) {
            add(relay, circuit, 1.0);
        }
        add(relays + circuit, circuit, -1.0);
        bounds.push(0.0);
    }
    for (circuit, &limit) in network.limits().iter().enumerate() {
        if limit.is_finite() {
            add(bounds.len(), circuit, 1.0);
            bounds.push(limit);
        }
    }
    let constraints = CscMatrix::new_from_triplets(bounds.len(), circuits, rows, columns, values);
    let settings =
        DefaultSettings { verbose: false, tol_gap_abs: 1e-11, tol_gap_rel: 1e-11, tol_feas: 1e-11, ..DefaultSettings::default() };
    let cones = [NonnegativeConeT(bounds.len())];
    let solver = DefaultSolver::new(
        &CscMatrix::identity(circuits),
        &vec![-common_rate; circuits],
        &constraints,
        &bounds,
        &cones,
        settings,
    );
    let mut solver = solver.map_err(|error| NetworkError::Solver { status: error.to_string() })?;
    solver.solve();
    match solver.solution.status {
        SolverStatus::Solved | SolverStatus::AlmostSolved => {
            // An interior point may miss zero by its tolerance.
            Ok(solver.solution.x.iter().map(|rate| rate.max(0.0)).collect())
        }
        status => Err(NetworkError::Solver { status: status.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fairness::Fairness;
    use crate::water_filling::max_min;
    use proptest::prelude::*;

    fn near(found: &[f64], expected: &[f64], tolerance: f64) -> bool {
        found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < tolerance)
    }

    #[test]
    fn one_shared_bottleneck_agrees() {
        let toy = Network::new(&[10.0, 10.0, 4.0, 10.0, 10.0, 10.0], [[0, 2, 3], [0, 2, 4], [1, 2, 5]]).unwrap();
        for common in [10.0, 20.0, 100.0] {
            assert!(near(&projection(&toy, common).unwrap(), &[4.0 / 3.0; 3], 1e-6));
        }
    }

    /// By hand: the long circuit gets (2 - r̄) / 3, not less than 0, and the short ones what it leaves.
    #[test]
    fn the_parking_lot_is_a_counterexample() {
        let lot = Network::new(&[1.0, 1.0], [vec![0, 1], vec![0], vec![1]]).unwrap();
        let fair = max_min(&lot);
        for (common, index) in [(1.0, 8.0 / 9.0), (1.5, 7.0 / 9.0), (2.0, 2.0 / 3.0), (50.0, 2.0 / 3.0)] {
            let rates = projection(&lot, common).unwrap();
            let long = f64::max((2.0 - common) / 3.0, 0.0);
            assert!(near(&rates, &[long, 1.0 - long, 1.0 - long], 1e-5), "{common}: {rates:?}");
            assert!((Fairness::of(&rates, &fair).unwrap().served - index).abs() < 1e-5);
        }
    }

    #[test]
    fn a_common_rate_that_is_no_rate_is_refused() {
        let one = Network::new(&[1.0], [[0]]).unwrap();
        assert!(projection(&one, f64::NAN).is_err());
        assert!(projection(&one, -1.0).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        /// One relay with limits: the problem that each relay's controller has, where the quadratic is water-filling.
        #[test]
        fn one_relay_with_limits_agrees(capacity in 0.1..10.0_f64, limits in prop::collection::vec(0.0..5.0_f64, 1..20)) {
            let network = Network::new(&[capacity], vec![[0]; limits.len()]).unwrap().with_limits(&limits).unwrap();
            let rates = projection(&network, capacity).unwrap();
            prop_assert!(near(&rates, &max_min(&network), 1e-5), "{rates:?}");
        }

        /// Nested or disjoint bottlenecks: any capacities on the toy's topology.
        #[test]
        fn nested_bottlenecks_agree(capacities in prop::collection::vec(1.0..10.0_f64, 6)) {
            let toy = Network::new(&capacities, [[0, 2, 3], [0, 2, 4], [1, 2, 5]]).unwrap();
            prop_assert!(near(&projection(&toy, 10.0).unwrap(), &max_min(&toy), 1e-5));
        }
    }
}
