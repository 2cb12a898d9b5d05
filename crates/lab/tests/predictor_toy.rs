//! PredicTor's toy network as `reproduce predictor` runs it: vanilla Tor and one connection for each circuit against the link's arithmetic and the paper's table 1, PredicTor against what its controllers
//! may plan with, against the same table, and against the least latency that its steps allow.

use onionlab_lab::world::{self, Built};
use onionlab_lab::{RunKey, Scenario, scenario::ResolvedScenario};
use onionlab_quantities::SimTime;
use std::path::Path;

/// Bytes of a cell and of its payload.
const CELL: f64 = 514.0;
const PAYLOAD: f64 = 498.0;
/// Bytes a second of the bottleneck's link.
const LINK: f64 = 500_000.0;

/// A scenario of the toy network, with a further treatment of PredicTor.
fn toy(stem: &str, further: &str) -> ResolvedScenario {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../experiments/predictor/{stem}.toml"));
    let mut text = std::fs::read_to_string(&file).unwrap();
    if !further.is_empty() {
        text = format!("{text}\n[[treatments]]\nname = \"further\"\nflow-control = \"predictor\"\n{further}\n");
    }
    Scenario::parse(&file, text).and_then(|scenario| scenario.resolve()).unwrap()
}

/// What a run of one treatment carries while it is measured.
#[derive(Debug)]
struct Carried {
    /// Of the three circuits, bytes of payload a second.
    rates: [f64; 3],
    /// Their sum.
    total: f64,
    /// Mean latency of the bytes from exit to entry, seconds.
    latency: f64,
}

fn carried(scenario: &ResolvedScenario, treatment: &str) -> Carried {
    let index = scenario.treatments.iter().position(|of| of.name == treatment).unwrap();
    let Built { mut world, .. } = world::build(scenario, RunKey { treatment: index, network: 0, seed: 1 }).unwrap();
    let [begin, end] = [scenario.measure_from, scenario.duration].map(|since| SimTime::ZERO + since);
    world.run_until(begin);
    world.sample(begin);
    world.take_records();
    world.run_until(end);
    world.sample(end);
    let seconds = (end - begin).as_secs_f64();
    let (mut rates, mut waited) = ([0.0; 3], 0.0);
    for sample in world.take_records().latency {
        rates[sample.client.index()] += sample.read as f64 / seconds;
        waited += sample.latency;
    }
    let total: f64 = rates.iter().sum();
    let found = Carried { rates, total, latency: waited / (total * seconds) };
    println!("{treatment}: {:.1?}, in all {:.1} KiB/s, {:.1} ms", rates.map(kib), kib(total), 1000.0 * found.latency);
    found
}

fn kib(bytes: f64) -> f64 {
    bytes / 1024.0
}

/// What the paper's table 1 has for PredicTor, 402.4 KB/s in all, follows from the capacity that the controllers plan with; each circuit gets a third of that.
///
/// Latency is to be within 15 ms of the 80 ms of the way. With steps of 40 ms that cannot be: a step's cells come at once, and the bottleneck's link, which is full but for one or two parts in a hundred, takes the step to
/// carry them, so that they wait for 20 ms in the mean, and each is sent twice more on links of 10 Mbit/s: 103 ms. So bounds are what was measured and some per cent; why the journal form has more: `docs/models/predictor.md`.
#[test]
fn with_predictor_circuits_share_fairly_and_wait_for_little() {
    let fair = 0.85 * LINK * PAYLOAD / CELL / 3.0;
    let short = "predictor-form = \"conference\"\npredictor-queue-limit = 30.0";
    let scenario = toy("toy-2", short);
    for (treatment, most) in [
        ("PredicTor, conference", 0.110),
        ("further", 0.108),
        ("PredicTor", 0.270),
        ("PredicTor, weight 1", 0.140),
        ("PredicTor, weight 0", 0.110),
    ] {
        let found = carried(&scenario, treatment);
        assert!((found.total / (402.0 * 1024.0) - 1.0).abs() < 0.03, "{treatment}: {found:?}");
        let served = found.rates.iter().map(|rate| rate.min(fair)).sum::<f64>() / (3.0 * fair);
        assert!(served >= 0.98, "{treatment}: {found:?} of {fair} each");
        assert!(found.latency < most, "{treatment}: {found:?}");
    }
    let found = carried(&toy("toy-1", ""), "PredicTor, conference");
    assert!(found.latency < 0.110, "{found:?}");
}

/// With one connection for each circuit nobody is at a disadvantage, and latency is what it is with vanilla Tor, or more (table 1: 405.3 KB/s in all, 635 ms).
#[test]
fn with_a_connection_for_each_circuit_rates_are_nearly_equal_and_latency_is_no_lower() {
    let found = carried(&toy("toy-2", ""), "PCTCP");
    let published = [130.9, 143.9, 130.5].map(|rate| rate * 1024.0);
    for (rate, published) in found.rates.iter().zip(published) {
        assert!((rate / published - 1.0).abs() < 0.08, "{found:?}, published {published}");
    }
    assert!((found.total / (405.3 * 1024.0) - 1.0).abs() < 0.03, "{found:?}");
    let scenario = toy("toy-1", "");
    let [pctcp, vanilla] = ["PCTCP", "vanilla"].map(|treatment| carried(&scenario, treatment).latency);
    assert!((pctcp / 0.6355 - 1.0).abs() < 0.15 && pctcp > vanilla, "{pctcp} s, vanilla {vanilla} s");
}

#[test]
fn the_bottleneck_is_full_and_the_circuits_that_share_a_connection_get_less() {
    let found = carried(&toy("toy-2", ""), "vanilla");
    // 4 Mbit/s carry segments of at most 536 + 54 bytes, and an acknowledgement of 54 for every two of them, because data goes both in and out.
    let most = LINK * 536.0 / (536.0 + 54.0 + 27.0) * PAYLOAD / CELL;
    assert!(found.total < most && found.total > 0.94 * most, "{found:?} of {most} bytes a second");
    // Table 1: 102.5, 102.5, 197.3 KiB/s: each connection has half of the link, whatever it carries.
    let published = [102.5, 102.5, 197.3].map(|rate| rate * 1024.0);
    for (rate, published) in found.rates.iter().zip(published) {
        assert!((rate / published - 1.0).abs() < 0.08, "{found:?}, published {published}");
    }
    // Table 1 has 553 ms, where circuit 2 pauses. A send buffer of 128 KiB is full on each of the two connections before the bottleneck, and next to nothing waits behind them.
    assert!((found.latency / 0.5531 - 1.0).abs() < 0.15, "{found:?}");
    let buffers = found.latency * found.total * CELL / PAYLOAD / 131_072.0;
    assert!((1.6..2.2).contains(&buffers), "{buffers} buffers under way");
}
