//! The two solvers on random problems, most of them nastier than any relay's: the fast one finds what the trusted one finds.

mod support;

use onionlab_predictor::fluid::FluidNetwork;
use onionlab_predictor::{FastSolver, Network, Parameters, Solution, Status, objective, solve_trusted};
use support::problem;

/// The largest difference of a rate, and the largest where each is weighted with the root of its step's discount: what the objective sees.
fn apart(parameters: &Parameters, a: &Solution, b: &Solution) -> (f64, f64) {
    let (mut largest, mut seen) = (0.0_f64, 0.0_f64);
    for (a, b) in [(&a.rate_in, &b.rate_in), (&a.rate_out, &b.rate_out), (&a.virtual_rate_out, &b.virtual_rate_out)] {
        assert_eq!(a.len(), b.len());
        for (at, (a, b)) in a.iter().zip(b).enumerate() {
            let difference = (a - b).abs();
            largest = largest.max(difference);
            seen = seen.max(difference * parameters.discount_at(at % parameters.horizon).sqrt());
        }
    }
    (largest, seen)
}

/// The largest rate, at least one.
fn problem_scale(solution: &Solution) -> f64 {
    solution.rate_in.iter().chain(&solution.rate_out).copied().fold(1.0, f64::max)
}

/// Solves the problems with these numbers. The fast solver must solve each of them. The trusted one may give up on some, and may stop a little early in late steps that weigh
/// next to nothing: there its own changes of scale move it by more than it is away from the fast one.
fn agree(numbers: std::ops::Range<u64>) {
    let count = numbers.end - numbers.start;
    let (mut unsolved, mut loose, mut iterations, mut most) = (0, 0, 0, 0);
    let (mut worst, mut worst_objective) = (0.0_f64, 0.0_f64);
    for number in numbers {
        let (parameters, problem) = problem(number);
        let mut fast = Solution::default();
        FastSolver::new(parameters).unwrap().solve(&problem, &mut fast).unwrap();
        let trusted = solve_trusted(&parameters, &problem).unwrap();
        assert_eq!(fast.status, Status::Solved, "problem {number}: {parameters:?}");
        assert_eq!(fast.commitments_scaled, trusted.commitments_scaled);
        iterations += fast.iterations;
        most = most.max(fast.iterations);
        let value = objective(&parameters, &problem, &trusted);
        if trusted.status != Status::Solved || value > fast.objective + 1e-6 * fast.objective.max(1.0) {
            unsolved += 1;
            continue;
        }
        let (largest, seen) = apart(&parameters, &fast, &trusted);
        loose += u64::from(largest >= 1e-3);
        // Never worse than the trusted plan; and where they differ by more than the trusted solver's tolerance explains, better.
        let better = value - fast.objective;
        assert!(better > -1e-7 * fast.objective.max(1.0), "problem {number}: {} is worse by {better}", fast.objective);
        assert!(
            seen < 0.1 || better > 0.0 || seen < 1e-3 * problem_scale(&fast),
            "problem {number}: {largest} packets/s apart, {seen} as the objective sees it"
        );
        let relative = (fast.objective - trusted.objective) / trusted.objective.max(1.0);
        assert!(relative.abs() < 1e-6, "problem {number}: objectives {} and {}", fast.objective, trusted.objective);
        worst = worst.max(seen);
        worst_objective = worst_objective.max(relative.abs());
    }
    println!(
        "{count} problems: {:.1} iterations on average, {most} at most; objectives within {worst_objective:.1e}, rates as the objective sees them within \
         {worst:.1e} packets/s; more than 1e-3 packets/s apart: {loose}; not solved by the trusted solver: {unsolved}",
        f64::from(iterations) / count as f64
    );
    assert!(unsolved * 30 <= count, "{unsolved} of {count} not solved by the trusted solver");
    assert!(loose * 10 <= count, "{loose} of {count} more than 1e-3 packets/s apart");
}

#[test]
fn the_solvers_agree() {
    agree(0..100);
}

#[test]
#[ignore = "a minute"]
fn the_solvers_agree_on_many_problems() {
    agree(1000..5000);
}

/// A solve from the last solution finds what a solve from the beginning finds; where a relay's problem changes from step to step, and where it is another one altogether.
#[test]
fn a_warm_start_changes_nothing() {
    let solvers = || FastSolver::new(Parameters::CONFERENCE).unwrap();
    let network = Network::new(&[1000.0, 2400.0, 2400.0, 2400.0], [[1, 0], [2, 0], [3, 0], [1, 0]]).unwrap();
    let mut fluid = FluidNetwork::new(&network, Parameters::CONFERENCE, &[0, 3, 9, 15]).unwrap();
    let (mut warm, mut cold) = (solvers(), solvers());
    let (mut a, mut b) = (Solution::default(), Solution::default());
    let (mut iterations, mut from_the_beginning) = (0, 0);
    for step in 0..50 {
        fluid.step(|_, _| {});
        // Every tenth problem is one of a relay that knows nothing of the others.
        let relay = usize::from(step % 10 == 9);
        let problem = fluid.controller(relay).problem();
        warm.solve_warm(problem, &mut a).unwrap();
        cold.solve(problem, &mut b).unwrap();
        assert_eq!((a.status, b.status), (Status::Solved, Status::Solved));
        let (largest, seen) = apart(&Parameters::CONFERENCE, &a, &b);
        assert!(largest < 0.05 && seen < 1e-3, "step {step}: {largest} packets/s apart, {seen} as the objective sees it");
        assert!((a.objective - b.objective).abs() < 1e-8 * b.objective);
        iterations += a.iterations;
        from_the_beginning += b.iterations;
    }
    println!("{iterations} iterations for {from_the_beginning}");
    assert!(iterations * 3 < from_the_beginning * 2, "{iterations} iterations for {from_the_beginning}");
}
