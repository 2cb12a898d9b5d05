//! Long flows against the formulas of the literature, and against TCP under the same loss.

use super::harness::Pair;
use super::{at, millis, textbook};
use crate::quic::QuicConfig;
use crate::tcp::tests as tcp;

const RTT: f64 = 0.1;
/// Slow start ends far above the steady window; it has this long to settle.
const SETTLES: u64 = 20;

/// Full datagrams' worth of payload per second of one stream at this loss rate, mean over `seeds`.
fn measured(cfg: &QuicConfig, loss: f64, seconds: u64, seeds: u64) -> f64 {
    let sum: f64 = (0..seeds)
        .map(|seed| {
            let mut pair = Pair::connected(cfg.clone(), millis(50), 1000 + seed);
            pair.wires[0].loss = loss;
            pair.ends[0].streams[0].to_write = u64::MAX / 4;
            pair.run_until(at(SETTLES * 1000));
            let before = pair.delivered(0);
            pair.run_until(at((SETTLES + seconds) * 1000));
            (pair.delivered(0) - before) as f64 / 1420.0 / seconds as f64
        })
        .sum();
    sum / seeds as f64
}

/// Segments per second of TCP Reno, with SACK and every segment acknowledged.
fn measured_tcp(loss: f64, seconds: u64, seeds: u64) -> f64 {
    let sum: f64 = (0..seeds)
        .map(|seed| {
            let mut pair = tcp::harness::Pair::connected(tcp::textbook(), millis(50), 1000 + seed);
            pair.wires[0].loss = loss;
            pair.ends[0].to_write = u64::MAX / 4;
            pair.run_until(at(SETTLES * 1000));
            let before = pair.ends[1].read;
            pair.run_until(at((SETTLES + seconds) * 1000));
            (pair.ends[1].read - before) as f64 / 1448.0 / seconds as f64
        })
        .sum();
    sum / seeds as f64
}

/// Mathis, Semke, Mahdavi and Ott 1997, equation 3: sqrt(3/2) / (RTT sqrt(p)) where each packet is acknowledged.
fn mathis(loss: f64) -> f64 {
    1.5_f64.sqrt() / (RTT * loss.sqrt())
}

/// Padhye, Firoiu, Towsley and Kurose 1998, equation 31, with b = 1 and a time-out of 300 ms.
fn padhye(loss: f64) -> f64 {
    let timeouts = 0.3 * (3.0 * (3.0 * loss / 8.0).sqrt()).min(1.0) * loss * (1.0 + 32.0 * loss * loss);
    1.0 / (RTT * (2.0 * loss / 3.0).sqrt() + timeouts)
}

fn check(loss: f64, seconds: u64) {
    let got = measured(&textbook(), loss, seconds, 6);
    let (tcp, mathis, padhye) = (measured_tcp(loss, seconds, 6), mathis(loss), padhye(loss));
    println!(
        "loss {loss}: {got:.1} packets/s, TCP Reno {:.3}, Mathis {:.3}, Padhye {:.3}",
        got / tcp,
        got / mathis,
        got / padhye
    );
    assert!((got / tcp - 1.0).abs() < 0.2, "loss {loss}: {got} against {tcp} of TCP Reno");
    assert!((got / mathis - 1.0).abs() < 0.2, "loss {loss}: {got} against {mathis}");
    assert!((got / padhye - 1.0).abs() < 0.2, "loss {loss}: {got} against {padhye}");
}

#[test]
fn new_reno_at_a_loss_of_a_hundredth() {
    check(0.01, 200);
}

#[test]
fn new_reno_at_a_loss_of_half_a_percent() {
    check(0.005, 200);
}

#[test]
fn new_reno_at_a_loss_of_a_thousandth() {
    check(0.001, 200);
}

#[test]
fn new_reno_at_a_loss_of_a_ten_thousandth() {
    check(0.0001, 150);
}
