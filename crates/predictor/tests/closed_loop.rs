//! Controllers at all relays, with fluid between them.

use onionlab_predictor::fluid::FluidNetwork;
use onionlab_predictor::{Network, Outcome, Parameters};
use serde_json::Value;
use std::path::Path;

/// The toy network's links in packets a second: 4 Mbit/s in the middle, 10 Mbit/s elsewhere, cells of 512 bytes. Relays: exit 1, exit 2, bottleneck, three entries.
fn toy() -> Network {
    let (fast, slow) = (10e6 / 4096.0, 4e6 / 4096.0);
    Network::new(&[fast, fast, slow, fast, fast, fast], [[0, 2, 3], [0, 2, 4], [1, 2, 5]]).unwrap()
}

/// The authors' program at all six relays, three circuits that start one after another.
#[test]
fn the_toy_goes_as_with_the_authors_program() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/reference/predictor_cases.json");
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("skipped: no {}", path.display());
        return;
    };
    let reference: Value = serde_json::from_str(&text).unwrap();
    let expected = &reference["closed_loop_fluid"]["runs"]["scenario2_bulk_only"]["trajectories"];
    let mut fluid = FluidNetwork::new(&toy(), Parameters::CONFERENCE, &[10, 20, 30]).unwrap();
    let (mut furthest, mut late, mut latency) = (0.0_f64, 0.0_f64, Vec::new());
    for step in 0..120 {
        fluid.step(|relay, outcome| assert_eq!(outcome, Outcome::Solved, "relay {relay}, step {step}"));
        for circuit in 0..3 {
            let apart = (fluid.rate_out(circuit, 1) - expected["rate_out_bottleneck"][step][circuit].as_f64().unwrap()).abs();
            furthest = furthest.max(apart);
            if step > 45 {
                late = late.max(apart);
            }
            if step >= 90 {
                latency.push((fluid.backlog(circuit), fluid.rate_delivered(circuit)));
            }
        }
    }
    // Little's law: what is on its way over what arrives.
    let latency = latency.iter().map(|pair| pair.0).sum::<f64>() / latency.iter().map(|pair| pair.1).sum::<f64>();
    let rates: Vec<f64> = (0..3).map(|circuit| fluid.rate_out(circuit, 1)).collect();
    let iterations: u64 = (0..6).map(|relay| fluid.counts(relay).iterations).sum();
    println!(
        "{furthest} packets/s apart at most, {late} after step 45; at the end {rates:?}, latency {latency} s; {iterations} iterations in 720 solves"
    );
    assert!(furthest < 0.5, "{furthest}");
    assert!(late < 0.12, "{late}");
    assert!(rates.iter().all(|rate| (rate - 276.693).abs() < 0.02), "{rates:?}");
    assert!((latency - 0.0823).abs() < 0.0005, "{latency}");
}
