//! PredicTor's toy network, with vanilla Tor against the link's arithmetic and the paper's table 1, with PredicTor against what its controllers may plan with and against the same table.

use onionlab_lab::world::{self, Built};
use onionlab_lab::{Scenario, scenario::ResolvedScenario};
use onionlab_quantities::SimTime;
use std::path::Path;

/// Bytes of a cell and of its payload.
const CELL: f64 = 514.0;
const PAYLOAD: f64 = 498.0;
/// The measurement, in milliseconds.
const BEGIN: u64 = 4000;
const END: u64 = 7500;

fn at(ms: u64) -> SimTime {
    SimTime::from_nanos(ms * 1_000_000)
}

fn toy() -> ResolvedScenario {
    with("")
}

/// The toy network with vanilla Tor, or with these settings of PredicTor in place of windows.
fn with(predictor: &str) -> ResolvedScenario {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/predictor/toy-vanilla.toml");
    let mut text = std::fs::read_to_string(&file).unwrap();
    if !predictor.is_empty() {
        let lines = text.lines().filter(|line| !line.contains("-window") && !line.starts_with("flow-control"));
        text = lines
            .collect::<Vec<_>>()
            .join("\n")
            .replace("[base]", &format!("[base]\nflow-control = \"predictor\"\npredicted-circuits = false\n{predictor}"));
        text = text.replace("load = {", "record-latency = true\nload = {");
    }
    Scenario::parse(&file, text).and_then(|scenario| scenario.resolve()).unwrap()
}

/// Payload that each client had received by then.
fn received(scenario: &ResolvedScenario, ms: u64) -> [f64; 3] {
    let Built { mut world, .. } = world::build(scenario, 0, 0, 1).unwrap();
    world.run_until(at(ms));
    world.finish();
    let mut bytes = [0.0; 3];
    for transfer in world.take_records().transfers {
        bytes[transfer.client.index()] += transfer.received as f64;
    }
    bytes
}

/// Mean number of bytes in cells that had left the exits' outbufs and not reached their clients, and of those in the bottleneck's own queues.
fn backlog(scenario: &ResolvedScenario) -> [f64; 2] {
    let Built { mut world, names, .. } = world::build(scenario, 0, 0, 1).unwrap();
    let (mut left, mut arrived, mut sum, mut held, mut samples) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for ms in (10..=END).step_by(10) {
        world.run_until(at(ms));
        world.sample(at(ms));
        let records = world.take_records();
        let exits = records.relays.iter().filter(|sample| names.hosts[sample.relay.index()].starts_with("exit"));
        let waits: f64 = exits.clone().map(|sample| sample.outbuf_bytes as f64).sum();
        left += CELL * exits.map(|sample| sample.cells_sent as f64).sum::<f64>();
        arrived += CELL / PAYLOAD * records.network[0].goodput_bytes as f64;
        if ms > BEGIN {
            sum += left - waits - arrived;
            let bottleneck = records.relays.iter().filter(|sample| names.hosts[sample.relay.index()] == "btlnk");
            held += bottleneck.map(|sample| sample.queued_cells as f64 * CELL + sample.outbuf_bytes as f64).sum::<f64>();
            samples += 1.0;
        }
    }
    [sum / samples, held / samples]
}

/// Rates of the three circuits from 4 s on in bytes a second, and the mean latency of their bytes from exit to entry in seconds.
fn measured(scenario: &ResolvedScenario) -> ([f64; 3], f64) {
    let Built { mut world, .. } = world::build(scenario, 0, 0, 1).unwrap();
    world.run_until(at(BEGIN));
    world.sample(at(BEGIN));
    world.take_records();
    world.run_until(at(END));
    world.sample(at(END));
    let seconds = (END - BEGIN) as f64 / 1000.0;
    let (mut rates, mut waited) = ([0.0; 3], 0.0);
    for sample in world.take_records().latency {
        rates[sample.client.index()] += sample.read as f64 / seconds;
        waited += sample.latency;
    }
    (rates, waited / (rates.iter().sum::<f64>() * seconds))
}

/// What the paper's table 1 has for PredicTor, 402.4 KB/s in all, follows from the capacity that the controllers plan with; each circuit gets a third of that. Latency is not the paper's 93 ms: see
/// `docs/models/predictor.md`. A step's cells come at once, and the bottleneck's link, which is full but for one part in a hundred, takes the step to carry them: 80 ms and a half step are the least.
#[test]
fn with_predictor_circuits_share_fairly_and_wait_for_little() {
    let fair = 0.85 * 500_000.0 * PAYLOAD / CELL / 3.0;
    for (settings, most) in [("predictor-form = \"conference\"\n", 0.140), ("predictor-form = \"journal\"\n", 0.350)] {
        let (rates, latency) = measured(&with(settings));
        let total: f64 = rates.iter().sum();
        println!(
            "{settings}{:.1?}, in all {:.1} KiB/s, {:.1} ms",
            rates.map(|rate| rate / 1024.0),
            total / 1024.0,
            1000.0 * latency
        );
        assert!((total / (402.0 * 1024.0) - 1.0).abs() < 0.03, "{rates:?}");
        let served = rates.iter().map(|rate| rate.min(fair)).sum::<f64>() / (3.0 * fair);
        assert!(served >= 0.98, "{rates:?} of {fair} each");
        assert!((0.100..most).contains(&latency), "{latency} s");
    }
}

#[test]
fn the_bottleneck_is_full_and_the_circuits_that_share_a_connection_get_less() {
    let scenario = toy();
    let (before, after) = (received(&scenario, BEGIN), received(&scenario, END));
    let seconds = (END - BEGIN) as f64 / 1000.0;
    let rates: [f64; 3] = std::array::from_fn(|circuit| (after[circuit] - before[circuit]) / seconds);
    let total: f64 = rates.iter().sum();
    let [latency, held] = backlog(&scenario).map(|bytes| bytes / (total * CELL / PAYLOAD));
    println!("{:.1?}, in all {:.1} KiB/s", rates.map(|rate| rate / 1024.0), total / 1024.0);
    println!("latency {:.1} ms, {:.1} ms of it in the bottleneck's circuit queues and outbufs", 1000.0 * latency, 1000.0 * held);
    // 4 Mbit/s carry segments of at most 536 + 54 bytes, and an acknowledgement of 54 for every two of them, because data goes both in and out.
    let most = 500_000.0 * 536.0 / (536.0 + 54.0 + 27.0) * PAYLOAD / CELL;
    assert!(total < most && total > 0.94 * most, "{total} of {most} bytes a second");
    // Table 1: 102.5, 102.5, 197.3 KiB/s: each connection has half of the link, whatever it carries.
    let published = [102.5, 102.5, 197.3].map(|rate| rate * 1024.0);
    for (rate, published) in rates.iter().zip(published) {
        assert!((rate / published - 1.0).abs() < 0.08, "{rates:?}, published {published}");
    }
    // A send buffer of 128 KiB is full on each of the two connections before the bottleneck, and up to three behind it.
    let buffers = |count: f64| count * 131_072.0 / (total * CELL / PAYLOAD);
    assert!((buffers(2.0)..buffers(5.0) + 0.08).contains(&latency), "{latency} s");
    assert!(held < 0.05, "{held} s");
}
