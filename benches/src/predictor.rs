//! PredicTor: the fast solver against Clarabel on the same problems in the same run, and water-filling.
//!
//! The problems are those of a bottleneck's controller in closed loop: circuits with an exit and an entry of their own share one relay and start one after another. Clarabel is
//! given a tolerance of 1e-8, which the fast solver's answers are well within.

use onionlab_predictor::fluid::FluidNetwork;
use onionlab_predictor::{FastSolver, Network, Parameters, Problem, Solution, WaterFilling, solve_trusted_to};
use serde_json::{Value, json};
use std::time::Instant;

/// Steps of the closed loop whose problems are kept: the last circuits have just started.
const STEPS: std::ops::Range<usize> = 20..60;

/// The bottleneck's problems, one for each step.
fn problems(parameters: Parameters, circuits: usize) -> Vec<Problem> {
    let (fast, slow) = (10e6 / 4096.0, 4e6 / 4096.0 * (circuits as f64 / 3.0).min(2.5));
    let mut capacities = vec![slow];
    capacities.resize(1 + 2 * circuits, fast);
    let network = Network::new(&capacities, (0..circuits).map(|p| [1 + 2 * p, 0, 2 + 2 * p])).expect("a network");
    let starts: Vec<u64> = (0..circuits as u64).map(|p| p % 25).collect();
    let mut fluid = FluidNetwork::new(&network, parameters, &starts).expect("a link has a rate");
    let mut problems = Vec::new();
    for step in 0..STEPS.end {
        fluid.step(|_, _| {});
        if step >= STEPS.start {
            problems.push(fluid.controller(0).problem().clone());
        }
    }
    problems
}

/// Microseconds that `work` takes; the least of several, since whatever else the machine does only adds.
fn least(times: usize, mut work: impl FnMut()) -> f64 {
    let one = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64() * 1e6
    };
    (0..times).map(|_| one(&mut work)).fold(f64::INFINITY, f64::min)
}

fn solve(name: &str, parameters: Parameters, circuits: usize) -> Value {
    let problems = problems(parameters, circuits);
    let mut solver = FastSolver::new(parameters).expect("the defaults");
    let mut solution = Solution::default();
    let mut iterations = [0, 0];
    let mut run = |warm: bool, iterations: &mut u32| {
        *iterations = 0;
        for problem in &problems {
            let solved = if warm { solver.solve_warm(problem, &mut solution) } else { solver.solve(problem, &mut solution) };
            solved.expect("the same horizon");
            *iterations += solution.iterations;
        }
    };
    let count = problems.len() as f64;
    let warm = least(20, || run(true, &mut iterations[0])) / count;
    let cold = least(20, || run(false, &mut iterations[1])) / count;
    let clarabel = least(3, || {
        for problem in &problems {
            solve_trusted_to(&parameters, problem, 1e-8).expect("the same horizon");
        }
    }) / count;
    json!({
        "problem": name,
        "circuits": circuits,
        "horizon": parameters.horizon,
        "fast_warm_microseconds": warm,
        "fast_cold_microseconds": cold,
        "clarabel_microseconds": clarabel,
        "iterations_warm": f64::from(iterations[0]) / count,
        "iterations_cold": f64::from(iterations[1]) / count,
    })
}

/// Water-filling of random circuits of three relays.
fn water_filling(circuits: usize) -> Value {
    let mut state = 1_u64;
    let mut below = |count: u64| {
        // A Weyl sequence through a multiplication: random enough for circuits.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        ((u128::from(state.wrapping_mul(state | 1) ^ (state >> 29)) * u128::from(count)) >> 64) as usize
    };
    let capacities: Vec<f64> = (0..50).map(|_| 500.0 + below(2000) as f64).collect();
    let path = |below: &mut dyn FnMut(u64) -> usize| {
        let mut path = Vec::new();
        while path.len() < 3 {
            let relay = below(50);
            if !path.contains(&relay) {
                path.push(relay);
            }
        }
        path
    };
    let paths: Vec<Vec<usize>> = (0..circuits).map(|_| path(&mut below)).collect();
    let network = Network::new(&capacities, paths).expect("a network");
    let mut water = WaterFilling::default();
    let mut total = 0.0;
    let time = least(50, || total = water.rates(&network).iter().sum());
    json!({ "circuits": circuits, "relays": 50, "microseconds": time, "total_rate": total })
}

/// Measures all, prints it, and returns it for the report.
pub fn measure() -> Value {
    let mut rows = Vec::new();
    for (circuits, form, parameters) in [
        (3, "conference", Parameters::CONFERENCE),
        (15, "conference", Parameters::CONFERENCE),
        (60, "conference", Parameters::CONFERENCE),
        (120, "conference", Parameters::CONFERENCE),
        (3, "journal", Parameters::JOURNAL),
        (60, "journal", Parameters::JOURNAL),
    ] {
        rows.push(solve(&format!("{form}, {circuits} circuits"), parameters, circuits));
    }
    println!("{:<28} {:>12} {:>12} {:>12} {:>18}", "PredicTor, 10 steps", "warm", "cold", "Clarabel", "iterations w, c");
    for row in &rows {
        println!(
            "{:<28} {:>9.0} us {:>9.0} us {:>9.0} us {:>9.1} {:>8.1}",
            row["problem"].as_str().unwrap_or(""),
            row["fast_warm_microseconds"].as_f64().unwrap_or(0.0),
            row["fast_cold_microseconds"].as_f64().unwrap_or(0.0),
            row["clarabel_microseconds"].as_f64().unwrap_or(0.0),
            row["iterations_warm"].as_f64().unwrap_or(0.0),
            row["iterations_cold"].as_f64().unwrap_or(0.0),
        );
    }
    let water = water_filling(1000);
    println!("water-filling, 1,000 circuits on 50 relays: {:.0} us", water["microseconds"].as_f64().unwrap_or(0.0));
    json!({ "solves": rows, "water_filling": water })
}
