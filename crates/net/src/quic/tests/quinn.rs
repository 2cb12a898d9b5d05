//! Bulk transfers against another implementation, quinn-proto (`testdata/quinn` has the program and its answers).

use super::harness::Pair;
use super::{at, millis, textbook};
use crate::quic::QuicConfig;
use onionlab_quantities::Bandwidth;
use std::collections::BTreeMap;

/// The answers: kind, rate in bit/s (0: unlimited), queue in bytes, loss, seed or bytes, result.
fn answers(kind: &str) -> Vec<(u64, u64, f64, u64, u64)> {
    let lines = include_str!("../../../testdata/quinn/delivered.tsv").lines();
    let rows = lines.map(|line| line.split('\t').collect::<Vec<_>>()).filter(|row| row[0] == kind);
    let number = |text: &str| text.parse::<u64>().unwrap();
    rows.map(|row| (number(row[1]), number(row[2]), row[3].parse().unwrap(), number(row[4]), number(row[5]))).collect()
}

/// Pacing, and acknowledgements of every second packet, as quinn has them; windows that never limit.
fn cfg() -> QuicConfig {
    QuicConfig { pacing: true, ack_every: 2, ..textbook() }
}

/// A pair that is connected, in which end 0 writes from one second on.
fn ready(rate: u64, queue: u64, seed: u64) -> Pair {
    let mut pair = Pair::new(cfg(), millis(50), seed);
    for wire in &mut pair.wires {
        wire.bottleneck = (rate > 0).then(|| (Bandwidth::from_bits_per_sec(rate), queue));
    }
    pair.open(0);
    pair.run_until(at(1000));
    pair
}

/// Over paths without loss but that of a queue that overflows: when all was delivered.
#[test]
fn transfers_take_as_long_as_quinns() {
    for (rate, queue, _, bytes, micros) in answers("time") {
        let mut pair = ready(rate, queue, 1);
        pair.ends[0].streams[0].to_write = bytes;
        while pair.delivered(0) < bytes {
            assert!(pair.step(at(301_000)));
        }
        let got = pair.now.as_micros() - 1_000_000;
        let ratio = got as f64 / micros as f64;
        println!("{rate} bit/s, queue {queue}, {bytes} bytes: {got} us, quinn {micros}, {ratio:.3}");
        assert!((ratio - 1.0).abs() < 0.1, "{rate} bit/s, queue {queue}, {bytes} bytes: {got} against {micros} us");
    }
}

/// Under random loss: bytes delivered from 20 s to 120 s after the first, mean over seeds.
#[test]
fn loss_costs_as_much_as_it_costs_quinn() {
    let mut sums: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for (_, _, loss, seed, bytes) in answers("bytes") {
        let mut pair = ready(0, 0, seed);
        pair.wires[0].loss = loss;
        pair.ends[0].streams[0].to_write = u64::MAX / 4;
        pair.run_until(at(21_000));
        let before = pair.delivered(0);
        pair.run_until(at(121_000));
        let sum = sums.entry((loss * 1e6) as u64).or_default();
        *sum = (sum.0 + pair.delivered(0) - before, sum.1 + bytes);
    }
    for (loss, (ours, quinns)) in sums {
        let ratio = ours as f64 / quinns as f64;
        println!("loss {loss} in a million: {ratio:.3} of quinn's");
        assert!((ratio - 1.0).abs() < 0.1, "loss {loss} in a million: {ratio}");
    }
}
