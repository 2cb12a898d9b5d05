//! Theorem 3 of the PredicTor paper against max-min fairness: run with `cargo run --release -p onionlab-predictor --example theorem3`.
//!
//! The quadratic agrees where bottlenecks are nested, and starves circuits where they overlap in part. The controllers of the same paper, which solve it relay by relay and
//! exchange limits, come to the fair rates all the same.

use onionlab_predictor::fluid::FluidNetwork;
use onionlab_predictor::{Fairness, Network, NetworkError, PLANNED_SHARE, Parameters, max_min, projection};

/// Rates that are less than this share of the fair ones are none.
const STARVED: f64 = 1e-4;

fn compare(name: &str, network: &Network, common_rate: f64) -> Result<(), NetworkError> {
    let (fair, quadratic) = (max_min(network), projection(network, common_rate)?);
    let index = Fairness::of(&quadratic, &fair)?.served;
    let starved = quadratic.iter().zip(&fair).filter(|(rate, fair)| **rate < STARVED * **fair).count();
    let total = quadratic.iter().sum::<f64>() / fair.iter().sum::<f64>();
    println!("{name:<42} {common_rate:>7.1} {index:>8.3} {starved:>5} of {:<4} {total:>8.2}", fair.len());
    Ok(())
}

/// Circuits over three relays each, drawn by a simple generator.
fn random(relays: usize, circuits: usize, seed: u64) -> Result<Network, NetworkError> {
    let mut state = seed;
    let mut draw = || {
        // The multiplier and increment of Knuth's MMIX; the upper bits are good.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as usize) % relays
    };
    let paths = (0..circuits).map(|_| {
        let mut path: Vec<usize> = Vec::new();
        while path.len() < 3 {
            let relay = draw();
            if !path.contains(&relay) {
                path.push(relay);
            }
        }
        path
    });
    Network::new(&vec![1.0; relays], paths.collect::<Vec<_>>())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{:<42} {:>7} {:>8} {:>13} {:>8}", "network", "r̄", "index", "starved", "total");
    let toy = Network::new(&[10.0, 10.0, 4.0, 10.0, 10.0, 10.0], [[0, 2, 3], [0, 2, 4], [1, 2, 5]])?;
    for common in [10.0, 100.0] {
        compare("the paper's toy: one shared bottleneck", &toy, common)?;
    }
    let lot = Network::new(&[1.0, 1.0], [vec![0, 1], vec![0], vec![1]])?;
    for common in [1.0, 1.5, 3.0] {
        compare("parking lot: one long circuit, two short", &lot, common)?;
    }
    for circuits in [10, 100, 1000] {
        compare(&format!("50 relays, {circuits} circuits of 3"), &random(50, circuits, 1)?, 1.0)?;
    }

    // The parking lot with a controller at each relay; sources and clients have links of their own.
    let rate = 1000.0;
    let controlled = Network::new(&[rate, rate, 4.0 * rate, 4.0 * rate], [vec![2, 0, 1], vec![2, 0], vec![3, 1]])?;
    let mut fluid = FluidNetwork::new(&controlled, Parameters::CONFERENCE, &[])?;
    for _ in 0..150 {
        fluid.step(|_, _| {});
    }
    let rates: Vec<f64> = (0..3).map(|circuit| fluid.rate_delivered(circuit) / (PLANNED_SHARE * rate)).collect();
    println!("\nparking lot in closed loop, shares of the planned capacity: {rates:.3?}");
    Ok(())
}
