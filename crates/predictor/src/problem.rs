//! What a relay's optimal control problem is asked: the circuits' queues and what the neighbours announced.
//!
//! Arrays are by circuit, then step: the value of circuit p in step k is at p N + k.

use crate::parameters::{Form, HORIZON_MAX, Parameters};
use thiserror::Error;

/// Steps that a relay has decided before it hears of its successor's plan, where messages are as fast as data and a step is as long as a hop.
pub const COMMITTED: usize = crate::trajectory::FROM_SINK as usize;

/// Factors of [`Problem::commitment_factors`], a value for each step and ones beyond.
pub(crate) type Factors = [f64; HORIZON_MAX];

/// One circuit as the problem sees it. Rates in packets a second, queues in packets; each slice has one value for each step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CircuitInput<'a> {
    /// The relay's own queue, measured.
    pub queue: f64,
    /// In how many steps what arrives was decided by the source before it can hear of this plan (row 10): [`COMMITTED`] where the source is a relay and messages are
    /// prompt, none where it is a server, which commits itself to nothing. More than there are steps are all of them.
    pub committed: usize,
    /// The source's outgoing rate as announced.
    pub source_rate: &'a [f64],
    /// The source's queue after each of its steps, as announced.
    pub source_queue: &'a [f64],
    /// The source's virtual outgoing rate as announced, infinite where there is none (journal; empty in the conference problem).
    pub source_virtual_rate: &'a [f64],
    /// The most that the successor takes in each step, infinite where it sets no limit.
    pub limit: &'a [f64],
}

/// The inputs of one optimal control problem. Memory is kept by [`Problem::clear`].
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    pub(crate) horizon: usize,
    pub(crate) capacity_in: f64,
    pub(crate) capacity_out: f64,
    pub(crate) queue: Vec<f64>,
    pub(crate) committed: Vec<usize>,
    pub(crate) source_rate: Vec<f64>,
    pub(crate) source_queue: Vec<f64>,
    pub(crate) source_virtual_rate: Vec<f64>,
    pub(crate) limit: Vec<f64>,
}

impl Problem {
    /// A problem without circuits, of a relay with these capacities in packets a second.
    ///
    /// # Errors
    ///
    /// A capacity is negative or not finite.
    pub fn new(horizon: usize, capacity_in: f64, capacity_out: f64) -> Result<Self, ProblemError> {
        for (what, capacity) in [("capacity_in", capacity_in), ("capacity_out", capacity_out)] {
            if !(capacity.is_finite() && capacity >= 0.0) {
                return Err(ProblemError::Capacity { what, capacity });
            }
        }
        Ok(Self {
            horizon,
            capacity_in,
            capacity_out,
            queue: Vec::new(),
            committed: Vec::new(),
            source_rate: Vec::new(),
            source_queue: Vec::new(),
            source_virtual_rate: Vec::new(),
            limit: Vec::new(),
        })
    }

    /// Forgets the circuits.
    pub fn clear(&mut self) {
        self.queue.clear();
        self.committed.clear();
        for values in [&mut self.source_rate, &mut self.source_queue, &mut self.source_virtual_rate, &mut self.limit] {
            values.clear();
        }
    }

    /// Adds a circuit.
    ///
    /// # Errors
    ///
    /// A trajectory has not one value for each step, or a value is negative, not a number, or infinite where that means nothing.
    pub fn push(&mut self, circuit: &CircuitInput<'_>) -> Result<(), ProblemError> {
        let number = self.circuits();
        if !(circuit.queue.is_finite() && circuit.queue >= 0.0) {
            return Err(ProblemError::Value { circuit: number, what: "queue", value: circuit.queue });
        }
        let virtual_steps = if circuit.source_virtual_rate.is_empty() { 0 } else { self.horizon };
        for (what, values, steps, unlimited) in [
            ("source_rate", circuit.source_rate, self.horizon, false),
            ("source_queue", circuit.source_queue, self.horizon, false),
            ("source_virtual_rate", circuit.source_virtual_rate, virtual_steps, true),
            ("limit", circuit.limit, self.horizon, true),
        ] {
            if values.len() != steps {
                return Err(ProblemError::Length { circuit: number, what, given: values.len(), horizon: self.horizon });
            }
            let wrong = |value: &&f64| value.is_nan() || **value < 0.0 || (!unlimited && value.is_infinite());
            if let Some(&value) = values.iter().find(wrong) {
                return Err(ProblemError::Value { circuit: number, what, value });
            }
        }
        if number > 0 && (self.source_virtual_rate.is_empty() != circuit.source_virtual_rate.is_empty()) {
            return Err(ProblemError::Length {
                circuit: number,
                what: "source_virtual_rate",
                given: virtual_steps,
                horizon: self.horizon,
            });
        }
        self.queue.push(circuit.queue);
        self.committed.push(circuit.committed.min(self.horizon));
        self.source_rate.extend_from_slice(circuit.source_rate);
        self.source_queue.extend_from_slice(circuit.source_queue);
        self.source_virtual_rate.extend_from_slice(circuit.source_virtual_rate);
        self.limit.extend_from_slice(circuit.limit);
        Ok(())
    }

    /// Number of circuits.
    pub fn circuits(&self) -> usize {
        self.queue.len()
    }

    /// Whether nothing waits, here or at a source, and nothing is announced: then the one plan that keeps the constraints is that nothing moves.
    pub(crate) fn is_idle(&self) -> bool {
        [&self.queue, &self.source_rate, &self.source_queue].into_iter().flatten().all(|value| *value == 0.0)
    }

    /// Number of steps.
    pub fn horizon(&self) -> usize {
        self.horizon
    }

    /// Whether the intake of circuit `p` in step `k` is what its source announced (row 10).
    pub(crate) fn is_committed(&self, p: usize, k: usize, parameters: &Parameters) -> bool {
        parameters.committed && k < self.committed[p]
    }

    /// By what the rates that are committed in each step must be multiplied so that together they fit into the intake capacity.
    ///
    /// Row 10 makes what the sources committed themselves to unchangeable. Several sources that do not know of each other can commit more than the
    /// relay can take: the problem as published then has no solution, and the public program used whatever its solver stopped at. Here all commitments of
    /// such a step shrink alike, and [`crate::Solution::commitments_scaled`] says so.
    pub(crate) fn commitment_factors(&self, parameters: &Parameters) -> Factors {
        let mut factors = [1.0; HORIZON_MAX];
        if parameters.committed {
            let last = self.committed.iter().copied().max().unwrap_or(0);
            for (k, factor) in factors[..last].iter_mut().enumerate() {
                let committed = (0..self.circuits()).filter(|&p| k < self.committed[p]);
                let sum: f64 = committed.map(|p| self.source_rate[p * self.horizon + k]).sum();
                if sum > self.capacity_in {
                    *factor = self.capacity_in / sum;
                }
            }
        }
        factors
    }

    /// The announced rate of circuit `p` in step `k` after that.
    pub(crate) fn announced(&self, p: usize, k: usize, factors: &Factors) -> f64 {
        let rate = self.source_rate[p * self.horizon + k];
        if k < self.committed[p] { rate * factors[k] } else { rate }
    }

    /// The virtual rate that bounds the intake (row 15): not below what is committed. None where there is no bound.
    pub(crate) fn virtual_bound(&self, p: usize, k: usize, factors: &Factors, parameters: &Parameters) -> Option<f64> {
        if parameters.form == Form::Conference || self.source_virtual_rate.is_empty() {
            return None;
        }
        let rate = self.source_virtual_rate[p * self.horizon + k];
        Some(if self.is_committed(p, k, parameters) { rate.max(self.announced(p, k, factors)) } else { rate })
    }

    /// The source's queue that bounds what is taken before step `k`, for `k` from 1 to N (row 6).
    pub(crate) fn source_queue_before(&self, p: usize, k: usize, parameters: &Parameters) -> f64 {
        let index = match parameters.alignment {
            crate::parameters::Alignment::Loose => k.min(self.horizon - 1),
            crate::parameters::Alignment::Strict => k - 1,
        };
        self.source_queue[p * self.horizon + index]
    }

    /// Whether the problem goes with the parameters.
    pub(crate) fn check(&self, parameters: &Parameters) -> Result<(), ProblemError> {
        if self.horizon != parameters.horizon {
            return Err(ProblemError::Horizon { problem: self.horizon, parameters: parameters.horizon });
        }
        if parameters.form == Form::Conference && !self.source_virtual_rate.is_empty() {
            return Err(ProblemError::NoVirtualRate);
        }
        Ok(())
    }
}

/// Whether factors are more than a correction of rounding.
pub(crate) fn scaled(factors: &Factors) -> bool {
    factors.iter().any(|factor| *factor < 1.0 - 1e-9)
}

/// Inputs that make no problem.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ProblemError {
    /// A capacity is negative or not finite.
    #[error("{what} is {capacity}, which must be finite and not negative")]
    Capacity {
        /// Which one.
        what: &'static str,
        /// Its value.
        capacity: f64,
    },
    /// Not one value for each step.
    #[error("{what} of circuit {circuit} has {given} values for {horizon} steps")]
    Length {
        /// Which circuit.
        circuit: usize,
        /// Which trajectory.
        what: &'static str,
        /// How many values.
        given: usize,
        /// How many steps.
        horizon: usize,
    },
    /// A value is negative, infinite or not a number.
    #[error("{what} of circuit {circuit} has the value {value}, which must be a number and not negative")]
    Value {
        /// Which circuit.
        circuit: usize,
        /// Which trajectory.
        what: &'static str,
        /// The value.
        value: f64,
    },
    /// Two horizons.
    #[error("the problem has {problem} steps, the parameters {parameters}")]
    Horizon {
        /// The problem's.
        problem: usize,
        /// The parameters'.
        parameters: usize,
    },
    /// The conference problem knows no virtual rates.
    #[error("virtual rates have no effect in the conference problem: leave them empty")]
    NoVirtualRate,
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // Halves and ones are exact.
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_problem_is_refused_with_the_place() {
        assert!(Problem::new(3, f64::NAN, 1.0).is_err());
        let mut problem = Problem::new(3, 10.0, 10.0).unwrap();
        let good = CircuitInput {
            queue: 0.0,
            committed: COMMITTED,
            source_rate: &[1.0; 3],
            source_queue: &[0.0; 3],
            source_virtual_rate: &[],
            limit: &[f64::INFINITY; 3],
        };
        problem.push(&good).unwrap();
        let mut refused = |circuit: CircuitInput<'_>| problem.push(&circuit).unwrap_err().to_string();
        assert_eq!(refused(CircuitInput { limit: &[1.0], ..good }), "limit of circuit 1 has 1 values for 3 steps");
        let negative = CircuitInput { source_rate: &[1.0, -1.0, 0.0], ..good };
        assert_eq!(refused(negative), "source_rate of circuit 1 has the value -1, which must be a number and not negative");
        assert!(refused(CircuitInput { source_queue: &[f64::INFINITY; 3], ..good }).contains("inf"));
        assert!(refused(CircuitInput { queue: f64::NAN, ..good }).starts_with("queue"));
        assert!(refused(CircuitInput { source_virtual_rate: &[1.0; 3], ..good }).starts_with("source_virtual_rate"));
        assert!(problem.check(&Parameters::CONFERENCE).unwrap_err().to_string().contains("3 steps"));
    }

    #[test]
    fn commitments_beyond_the_capacity_shrink_alike() {
        let mut problem = Problem::new(4, 75.0, 75.0).unwrap();
        for (rate, committed) in [(40.0, 2), (80.0, 2), (100.0, 0), (30.0, 3)] {
            let limit = [f64::INFINITY; 4];
            let rates = [rate, rate / 4.0, 5.0 * rate, rate];
            problem
                .push(&CircuitInput {
                    queue: 0.0,
                    committed,
                    source_rate: &rates,
                    source_queue: &[0.0; 4],
                    source_virtual_rate: &[],
                    limit: &limit,
                })
                .unwrap();
        }
        let factors = problem.commitment_factors(&Parameters::CONFERENCE);
        assert_eq!(factors[..4], [0.5, 1.0, 0.5, 1.0], "each step by its own, and the third for the circuit that is late alone");
        let free = Parameters { committed: false, ..Parameters::CONFERENCE };
        assert_eq!(problem.commitment_factors(&free), [1.0; HORIZON_MAX]);
        assert_eq!(problem.announced(1, 0, &factors), 40.0);
        assert_eq!(problem.announced(2, 0, &factors), 100.0, "a server commits itself to nothing");
        assert_eq!([1, 3].map(|p| problem.announced(p, 2, &factors)), [400.0, 75.0]);
    }

    /// Where nothing waits and nothing is announced the solvers find what is not asked of them: no rate at all, in either form.
    #[test]
    fn an_idle_relay_plans_nothing() {
        for parameters in [Parameters::CONFERENCE, Parameters::JOURNAL] {
            let steps = parameters.horizon;
            let mut problem = Problem::new(steps, 800.0, 800.0).unwrap();
            let (zeros, unlimited) = (vec![0.0; steps], vec![f64::INFINITY; steps]);
            let virtual_rates = if parameters.form == Form::Journal { vec![300.0; steps] } else { Vec::new() };
            for committed in [2, 0, 3] {
                let circuit = CircuitInput {
                    queue: 0.0,
                    committed,
                    source_rate: &zeros,
                    source_queue: &zeros,
                    source_virtual_rate: &virtual_rates,
                    limit: &unlimited,
                };
                problem.push(&circuit).unwrap();
            }
            assert!(problem.is_idle());
            let solution = crate::solve_trusted(&parameters, &problem).unwrap();
            for rates in [&solution.rate_in, &solution.rate_out, &solution.virtual_rate_out] {
                assert!(rates.iter().all(|rate| rate.abs() < 1e-4), "{rates:?}");
            }
            problem.queue[2] = 1e-9;
            assert!(!problem.is_idle());
        }
    }
}
