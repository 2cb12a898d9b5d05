//! Long flows against the formulas of the literature.

use super::harness::Pair;
use super::{millis, textbook};
use onionlab_quantities::{SimDuration, SimTime};

const RTT: f64 = 0.1;

/// Segments per second of one Reno flow at this loss rate, mean over `seeds`.
fn measured(loss: f64, seconds: u64, seeds: u64) -> f64 {
    let sum: f64 = (0..seeds)
        .map(|seed| {
            let mut pair = Pair::connected(textbook(), millis(50), 1000 + seed);
            pair.wires[0].loss = loss;
            pair.ends[0].to_write = u64::MAX / 4;
            // Slow start ends far above the steady window; let it settle.
            pair.run_until(SimTime::ZERO + SimDuration::from_secs(20));
            let before = pair.ends[1].read;
            pair.run_until(SimTime::ZERO + SimDuration::from_secs(20 + seconds));
            (pair.ends[1].read - before) as f64 / 1448.0 / seconds as f64
        })
        .sum();
    sum / seeds as f64
}

/// Mathis, Semke, Mahdavi and Ott 1997, equation 3: sqrt(3/2) / (RTT sqrt(p)) where each segment is acknowledged.
fn mathis(loss: f64) -> f64 {
    1.5_f64.sqrt() / (RTT * loss.sqrt())
}

/// Padhye, Firoiu, Towsley and Kurose 1998, equation 31, with b = 1 and a time-out of 300 ms.
fn padhye(loss: f64) -> f64 {
    let timeouts = 0.3 * (3.0 * (3.0 * loss / 8.0).sqrt()).min(1.0) * loss * (1.0 + 32.0 * loss * loss);
    1.0 / (RTT * (2.0 * loss / 3.0).sqrt() + timeouts)
}

fn check(loss: f64, seconds: u64) {
    let (got, mathis, padhye) = (measured(loss, seconds, 20), mathis(loss), padhye(loss));
    println!("loss {loss}: {got:.1} segments/s, Mathis {:.3}, Padhye {:.3}", got / mathis, got / padhye);
    assert!((got / mathis - 1.0).abs() < 0.15, "loss {loss}: {got} against {mathis}");
    assert!(got > padhye, "loss {loss}: {got} against {padhye}");
}

#[test]
fn reno_at_a_loss_of_half_a_percent() {
    check(0.005, 200);
}

#[test]
fn reno_at_a_loss_of_a_thousandth() {
    check(0.001, 200);
}

#[test]
fn reno_at_a_loss_of_a_ten_thousandth() {
    check(0.0001, 150);
}
