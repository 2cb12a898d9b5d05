//! The fast solver: a primal-dual interior point made for this one problem.
//!
//! Mehrotra's predictor and corrector ([`interior`]), from the middle or from the last optimum ([`start`]). Within a circuit the Newton system is eliminated step by step from the last to the first, in time linear in
//! the horizon ([`pack`], [`mesh`]); what couples the circuits are the capacity sums alone, two for each step (three in the journal problem), whose dense
//! system is the sum of the circuits' covariances ([`coupling`]). Four circuits are computed at a time ([`lanes`]). One iteration costs O(n N^2 + N^3) for n circuits and N steps.
//!
//! No memory is allocated by a solve that is no larger than the ones before.

// An index runs over several arrays at once, row by row and rate by rate.
#![allow(clippy::needless_range_loop)]

mod coupling;
mod interior;
mod lanes;
mod mesh;
mod pack;
mod setup;
mod start;
mod step;

use crate::parameters::{Form, ParameterError, Parameters};
use crate::problem::{Problem, ProblemError};
use crate::solution::Solution;
use interior::Interior;
use step::{CONFERENCE_ROWS, JOURNAL_ROWS};

/// Iterations after which the solver gives up, from the last solution's neighbourhood and then from the beginning. About 15 are usual from the beginning, fewer from the last solution.
pub const ITERATIONS_MAX: u32 = 100;

/// The fast solver, for one set of parameters. Keeps its memory and the last solution's neighbourhood, to start from there.
#[derive(Debug, Clone)]
pub struct FastSolver {
    parameters: Parameters,
    iterations_max: u32,
    core: Core,
}

#[derive(Debug, Clone)]
enum Core {
    Conference(Box<Interior<2, CONFERENCE_ROWS>>),
    Journal(Box<Interior<3, JOURNAL_ROWS>>),
}

impl FastSolver {
    /// A solver for problems with these parameters.
    ///
    /// # Errors
    ///
    /// A parameter is out of its range.
    pub fn new(parameters: Parameters) -> Result<Self, ParameterError> {
        parameters.check()?;
        let core = match parameters.form {
            Form::Conference => Core::Conference(Box::default()),
            Form::Journal => Core::Journal(Box::default()),
        };
        Ok(Self { parameters, iterations_max: ITERATIONS_MAX, core })
    }

    /// The parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Allows only so many iterations.
    pub fn set_iterations_max(&mut self, iterations: u32) {
        self.iterations_max = iterations;
    }

    /// Solves from the beginning.
    ///
    /// # Errors
    ///
    /// The problem does not go with the parameters. How the solve ended is in the solution's status.
    pub fn solve(&mut self, problem: &Problem, solution: &mut Solution) -> Result<(), ProblemError> {
        self.solve_from(problem, solution, false)
    }

    /// Solves from the neighbourhood of the last solution, if that was one of as many circuits; for the next problem of the same relay.
    ///
    /// The optimum is the same, since the problem is strictly convex; only the iterations are fewer if the problems are alike.
    ///
    /// # Errors
    ///
    /// As [`FastSolver::solve`].
    pub fn solve_warm(&mut self, problem: &Problem, solution: &mut Solution) -> Result<(), ProblemError> {
        self.solve_from(problem, solution, true)
    }

    fn solve_from(&mut self, problem: &Problem, solution: &mut Solution, warm: bool) -> Result<(), ProblemError> {
        problem.check(&self.parameters)?;
        let Self { parameters, iterations_max, core } = self;
        match core {
            Core::Conference(core) => core.solve(parameters, *iterations_max, problem, solution, warm),
            Core::Journal(core) => core.solve(parameters, *iterations_max, problem, solution, warm),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::CircuitInput;
    use crate::solution::Status;

    fn problem(circuits: usize, rate: f64) -> Problem {
        let mut problem = Problem::new(10, 1000.0, 1000.0).unwrap();
        for _ in 0..circuits {
            let input = CircuitInput {
                queue: 5.0,
                committed: crate::problem::COMMITTED,
                source_rate: &[rate; 10],
                source_queue: &[2.0; 10],
                source_virtual_rate: &[],
                limit: &[300.0; 10],
            };
            problem.push(&input).unwrap();
        }
        problem
    }

    /// Where everything lies that a solve writes.
    fn places(solver: &FastSolver, solution: &Solution) -> Vec<usize> {
        let Core::Conference(core) = &solver.core else { panic!("conference") };
        let coupling = &core.coupling;
        let mut places = vec![
            core.steps.as_ptr() as usize,
            core.queues.as_ptr() as usize,
            core.costs.as_ptr() as usize,
            core.covariance.as_ptr() as usize,
        ];
        places.extend(
            [&coupling.slack, &coupling.dual, &coupling.kept_dual, &coupling.total].map(|values| values.as_ptr() as usize),
        );
        places.extend([&solution.rate_in, &solution.rate_out, &solution.queue].map(|values| values.as_ptr() as usize));
        places
    }

    #[test]
    fn a_repeated_solve_keeps_its_memory() {
        let mut solver = FastSolver::new(Parameters::CONFERENCE).unwrap();
        let mut solution = Solution::default();
        solver.solve(&problem(9, 100.0), &mut solution).unwrap();
        let before = places(&solver, &solution);
        for (circuits, rate) in [(9, 90.0), (9, 250.0), (4, 80.0), (0, 0.0), (9, 10.0)] {
            let problem = problem(circuits, rate);
            solver.solve_warm(&problem, &mut solution).unwrap();
            solver.solve(&problem, &mut solution).unwrap();
            assert_eq!(solution.status, Status::Solved);
            assert_eq!(places(&solver, &solution), before);
        }
    }

    #[test]
    fn a_problem_of_another_kind_is_refused() {
        let mut solver = FastSolver::new(Parameters { horizon: 7, ..Parameters::CONFERENCE }).unwrap();
        assert!(solver.solve(&problem(1, 1.0), &mut Solution::default()).is_err());
        assert!(FastSolver::new(Parameters { horizon: 0, ..Parameters::CONFERENCE }).is_err());
    }

    /// Nothing to take, nothing to send, no room: all rates are fixed at zero, and that is the optimum.
    #[test]
    fn a_relay_with_nothing_to_do_does_nothing() {
        let mut problem = Problem::new(10, 0.0, 0.0).unwrap();
        let nothing = CircuitInput {
            queue: 0.0,
            committed: 0,
            source_rate: &[0.0; 10],
            source_queue: &[0.0; 10],
            source_virtual_rate: &[],
            limit: &[0.0; 10],
        };
        problem.push(&nothing).unwrap();
        let mut solution = Solution::default();
        FastSolver::new(Parameters::CONFERENCE).unwrap().solve(&problem, &mut solution).unwrap();
        assert_eq!(solution.status, Status::Solved);
        assert!(solution.rate_in.iter().chain(&solution.rate_out).all(|rate| rate.abs() < 1e-9));
    }
}
