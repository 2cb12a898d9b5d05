//! `TOR_VEGAS` in a closed loop, against what its rules demand.

mod common;

use common::{Plan, mbit, ms};
use onionlab_quantities::{SimDuration, SimTime};
use onionlab_tor::{ChannelScheduler, CongestionSettings, FlowControl, RelayClass, Role, VegasSample};

/// One bulk client; the guard's uplink is the bottleneck, 20 ms a hop: 120 ms of round trip between client and exit. Returns the trace after
/// 30 s and the rate in DATA cells a second of that time.
fn bulk(rate_mbit: f64) -> (Vec<VegasSample>, f64) {
    let mut plan = Plan::new();
    plan.settings.flow_control = FlowControl::Vegas(CongestionSettings::default());
    plan.settings.cell_payload = 488;
    plan.trace = true;
    // As in `formulas.rs`: what TCP and KIST hold back between bursts is no part of the rules.
    plan.tcp.nagle = false;
    plan.tcp.slow_start_after_idle = false;
    plan.settings.scheduling.channel_scheduler = ChannelScheduler::Vanilla;
    let client = plan.host("client", Role::Client, mbit(100.0));
    let guard = plan.relay("guard", RelayClass::Guard, mbit(rate_mbit));
    let middle = plan.relay("middle", RelayClass::Middle, mbit(100.0));
    let exit = plan.relay("exit", RelayClass::Exit, mbit(100.0));
    let server = plan.host("server", Role::Server, mbit(100.0));
    plan.default_path.latency = ms(20.0);
    plan.client(client, [guard, middle, exit], server, "kind = \"bulk\"\nsize = \"500 MB\"", 10);
    let (_, records) = plan.run(90);
    let from = SimTime::ZERO + SimDuration::from_secs(40);
    let samples: Vec<VegasSample> = records.vegas.into_iter().filter(|sample| sample.time >= from).collect();
    let span = (samples.last().unwrap().time - samples[0].time).as_secs_f64();
    let rate = 31.0 * (samples.len() - 1) as f64 / span;
    (samples, rate)
}

/// In steady state every cell of the window takes the same round trip, so that window = rate times round-trip time, and Vegas's product
/// is window times least time over time = rate times least time: the cells that the path holds. The window rests where alpha = 186 to beta = 248 cells more
/// are under way: below it grows a cell with each SENDME, above it shrinks. What may lie outside is what changes within the lag of one round trip: a
/// window is cwnd / 31 SENDMEs, here 10 to 35 steps of one cell.
#[test]
fn the_window_rests_alpha_to_beta_above_the_product() {
    for rate_mbit in [4.0, 20.0] {
        let (samples, rate) = bulk(rate_mbit);
        // On the wire a cell takes 514 bytes and its share of records and headers: from 535, in full records and segments, to 588 alone.
        let bytes = rate_mbit * 1e6 / 8.0 / rate;
        assert!((535.0..=588.0).contains(&bytes), "{bytes} bytes a cell");
        let mut windows: Vec<f64> = samples.iter().map(|sample| f64::from(sample.state.cwnd)).collect();
        let least = samples.last().unwrap().state.min_rtt.as_secs_f64();
        // 120 ms; the first 31 cells pay for the slow start of three TCP connections, a round trip of 40 ms each, and for their neighbours.
        assert!((0.120..0.240).contains(&least), "{least} s");
        let product = rate * least;
        let lag = product / 31.0 + 8.0;
        for window in &windows {
            let queued = window - product;
            assert!((186.0 - lag..=248.0 + lag).contains(&queued), "{rate_mbit} Mbit/s: {queued} cells queue");
        }
        windows.sort_by(f64::total_cmp);
        let median = windows[windows.len() / 2] - product;
        assert!((186.0..=248.0).contains(&median), "{rate_mbit} Mbit/s: {median} cells queue");
        // The window is used, never exceeded but by what it has just shrunk, a cell a SENDME.
        assert!(samples.iter().all(|sample| sample.inflight <= sample.state.cwnd + 31 && !sample.state.slow_start));
    }
}

/// The trace has a row for each SENDME of the exit: 31 DATA cells apart, from slow start on.
#[test]
fn slow_start_doubles_and_ends_at_gamma() {
    let mut plan = common::in_a_row(mbit(20.0), "kind = \"bulk\"\nsize = \"500 MB\"");
    plan.settings.flow_control = FlowControl::Vegas(CongestionSettings::default());
    plan.trace = true;
    let (_, records) = plan.run(40);
    let trace = &records.vegas;
    let end = trace.iter().position(|sample| !sample.state.slow_start).unwrap();
    // Each SENDME adds an increment, as long as the window is full, up to the cap of 600; beyond it less.
    assert!(trace[..end].windows(2).all(|pair| pair[1].state.cwnd - pair[0].state.cwnd <= 31));
    assert_eq!(trace[0].state.cwnd, 155);
    let (before, after) = (&trace[end - 1].state, &trace[end].state);
    assert_eq!(u64::from(after.cwnd), after.bdp + 186);
    // Before its own step.
    assert!(before.queue_use < 186 + 31);
    let circuit = records.circuits.iter().find(|circuit| circuit.circuit == trace[0].circuit).unwrap();
    let last = trace.last().unwrap();
    assert_eq!(circuit.vegas, Some(last.state));
    assert!(circuit.cells_in >= 31 * trace.len() as u64);
}
