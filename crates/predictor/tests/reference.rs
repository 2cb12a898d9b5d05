//! The reference cases: single problems solved by the authors' program and, accurately, by an independent program.

use onionlab_predictor::{COMMITTED, CircuitInput, FastSolver, Form, Parameters, Problem, Solution, Status, solve_trusted};
use serde_json::Value;

/// The file of reference cases, which is not part of the repository.
fn reference() -> Option<Value> {
    let path = onionlab_real_data::path("reference/predictor_cases.json")?;
    Some(serde_json::from_str(&std::fs::read_to_string(path).expect("text")).expect("JSON"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

/// [step][circuit] to by circuit, then step.
fn by_circuit(value: &Value) -> Vec<f64> {
    let steps = value.as_array().expect("steps");
    let circuits = steps[0].as_array().expect("circuits").len();
    (0..circuits).flat_map(|p| steps.iter().map(move |step| number(&step[p]))).collect()
}

fn read(inputs: &Value, form: Form) -> (Parameters, Problem) {
    let parameters = Parameters {
        horizon: number(&inputs["horizon"]) as usize,
        step_seconds: number(&inputs["time_step_s"]),
        scaling: number(&inputs["scaling"]),
        queue_limit: number(&inputs["queue_limit_per_circuit"]),
        ..Parameters::of(form)
    };
    let steps = parameters.horizon;
    let mut problem = Problem::new(steps, number(&inputs["capacity_in"]), number(&inputs["capacity_out"])).unwrap();
    let arrays = ["source_rate_out", "source_queue", "rate_out_max"].map(|key| by_circuit(&inputs[key]));
    let virtual_rate = inputs.get("source_virtual_rate_out").map(by_circuit);
    for (p, queue) in inputs["queue_initial"].as_array().unwrap().iter().enumerate() {
        let of = |values: &'_ [f64]| values[p * steps..(p + 1) * steps].to_vec();
        let circuit = CircuitInput {
            queue: number(queue),
            committed: if inputs.get("source_kind").is_none_or(|kinds| kinds[p] == "node") { COMMITTED } else { 0 },
            source_rate: &of(&arrays[0]),
            source_queue: &of(&arrays[1]),
            source_virtual_rate: &virtual_rate.as_ref().map_or(Vec::new(), |values| of(values)),
            limit: &of(&arrays[2]),
        };
        problem.push(&circuit).unwrap();
    }
    (parameters, problem)
}

fn furthest(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(found, expected)| (found - expected).abs()).fold(0.0, f64::max)
}

fn check(solver: &str, solve: impl Fn(&Parameters, &Problem) -> Solution) {
    let Some(reference) = reference() else { return };
    let mut checked = 0;
    for case in reference["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let (parameters, problem) = read(&case["inputs"], Form::Conference);
        let found = solve(&parameters, &problem);
        assert_eq!(found.status, Status::Solved, "{solver}, {name}");
        let expected = &case["accurate_qp"];
        if expected["status"] == "PrimalInfeasible" {
            assert!(found.commitments_scaled, "{solver}, {name}");
            continue;
        }
        assert!(!found.commitments_scaled);
        let apart = [
            furthest(&found.rate_in, &by_circuit(&expected["rate_in"])),
            furthest(&found.rate_out, &by_circuit(&expected["rate_out"])),
        ];
        let objective = number(&expected["objective"]);
        let relative = (found.objective - objective).abs() / objective;
        println!("{solver}, {name}: {} iterations, {apart:?} packets/s, objective {relative:e}", found.iterations);
        assert!(apart[0] < 1e-3 && apart[1] < 1e-3, "{solver}, {name}: {apart:?}");
        assert!(relative < 1e-6, "{solver}, {name}: objective {} for {objective}", found.objective);
        checked += 1;
    }
    assert!(checked >= 4);
    let case = &reference["journal_reconstruction_case"];
    let (parameters, problem) = read(&case["inputs"], Form::Journal);
    let found = solve(&parameters, &problem);
    assert_eq!(found.status, Status::Solved);
    let apart = [
        furthest(&found.rate_in, &by_circuit(&case["rate_in"])),
        furthest(&found.rate_out, &by_circuit(&case["rate_out"])),
        furthest(&found.virtual_rate_out, &by_circuit(&case["virtual_rate_out"])),
    ];
    println!("{solver}, journal: {} iterations, {apart:?} packets/s", found.iterations);
    assert!(apart.iter().all(|&apart| apart < 1e-3), "{solver}, journal: {apart:?}");
}

#[test]
fn the_trusted_solver_meets_the_reference() {
    check("trusted", |parameters, problem| solve_trusted(parameters, problem).unwrap());
}

#[test]
fn the_fast_solver_meets_the_reference() {
    check("fast", |parameters, problem| {
        let mut solution = Solution::default();
        FastSolver::new(*parameters).unwrap().solve(problem, &mut solution).unwrap();
        solution
    });
}
