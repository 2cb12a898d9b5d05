//! Computing that takes time, against sums worked out by hand.

mod common;

use common::{Plan, in_a_row, mbit, ms};
use onionlab_engine::HostId;
use onionlab_quantities::{SimDuration, SimTime};
use onionlab_tor::{
    ChannelScheduler, CircuitOutcome, CircuitRecord, CloseReason, Cpu, Handshake, Handshakes, Outcome, Records, RelayClass, Role,
};

fn cpu(per_cell_us: u64, per_handshake_us: u64) -> Cpu {
    Cpu {
        per_cell: SimDuration::from_micros(per_cell_us),
        per_handshake: SimDuration::from_micros(per_handshake_us),
        per_tap: SimDuration::from_micros(per_handshake_us),
        handshake_threads: 2,
        cores: 2,
        handshakes_in_hand: 64,
    }
}

/// Nothing but computing holds a cell back: no interval of KIST, no segment that waits for an acknowledgement.
fn at_once(plan: &mut Plan) {
    plan.settings.scheduling.channel_scheduler = ChannelScheduler::Vanilla;
    plan.tcp.nagle = false;
}

/// A download of one cell over three idle relays, at distances that let no two cells meet.
fn small_download(cpu: Option<Cpu>) -> Records {
    let mut plan = in_a_row(mbit(100_000.0), "kind = \"sequence\"\ntransfers = [{ size = \"400 B\" }]");
    for (hop, latency) in [11.0, 17.0, 23.0, 31.0].into_iter().enumerate() {
        plan.link(HostId(hop as u32), HostId(hop as u32 + 1), latency, 0.0);
    }
    at_once(&mut plan);
    // The program waits for tor's answer before it asks.
    plan.settings.optimistic_data = false;
    plan.settings.client.build_timeout.learn = false;
    plan.settings.cpu = cpu;
    plan.run(40).1
}

fn nanos(from: SimTime, to: Option<SimTime>) -> u64 {
    (to.expect("it happened") - from).as_nanos()
}

/// First byte: BEGIN is taken in at three relays, CONNECTED at two (the exit makes it), the request at three, the answer as data at the exit and at two relays:
/// 11 costs. Building: CREATE2 (1 cost and a handshake); EXTEND2, CREATE2, CREATED2 (3 and a handshake); EXTEND2 twice, CREATE2, CREATED2, EXTENDED2 (5 and a
/// handshake): 9 costs and 3 handshakes. No queue forms, so the sums hold to a microsecond.
#[test]
fn idle_relays_add_their_costs() {
    let (free, costly) = (small_download(None), small_download(Some(cpu(50, 300))));
    let first_byte = |records: &Records| nanos(records.transfers[0].start, records.transfers[0].first_byte);
    let more = first_byte(&costly) - first_byte(&free);
    assert!(more.abs_diff(11 * 50_000) < 1000, "{more} ns");
    let built = |records: &Records| records.circuits.iter().map(|circuit| nanos(circuit.launched, circuit.built)).min();
    let more = built(&costly).unwrap() - built(&free).unwrap();
    assert!(more.abs_diff(9 * 50_000 + 3 * 300_000) < 1000, "{more} ns");
    // Three circuits of 9 cells (two at first, one for the one that is used), the 11 of the download, END at three relays: what was paid, sampled each second.
    let busy: u64 = costly.relays.iter().map(|sample| sample.cpu_busy).sum();
    assert_eq!(busy, (3 * 9 + 11 + 3) * 50_000);
    assert!(free.relays.iter().all(|sample| sample.cpu_busy == 0));
}

/// One bulk download with short round trips: each relay takes in every DATA cell, and the SENDMEs for it, one for 100 and one for 50 cells. So 1.03
/// costs move 498 bytes, and the busiest relay computes all the time.
#[test]
fn a_relay_at_its_limit_passes_one_cell_a_cost() {
    for per_cell_us in [50_u64, 200] {
        let mut plan = in_a_row(mbit(1000.0), "kind = \"bulk\"\nsize = \"500 MB\"");
        plan.default_path.latency = ms(0.2);
        plan.settings.cpu = Some(cpu(per_cell_us, 0));
        let (_, records) = plan.run(40);
        let received = records.transfers[0].received as f64 / 20.0;
        let expected = 498.0 / (per_cell_us as f64 * 1e-6 * 1.03);
        assert!((received / expected - 1.0).abs() < 0.03, "{per_cell_us} us: {received:.0} B/s, formula {expected:.0} B/s");
        let guard = HostId(1);
        let busy: u64 = records
            .relays
            .iter()
            .filter(|sample| sample.relay == guard && sample.time > SimTime::from_nanos(25_000_000_000))
            .map(|sample| sample.cpu_busy)
            .sum();
        assert!(busy > 14_500_000_000 && busy <= 15_000_000_000, "the guard computed for {busy} ns of 15 s");
    }
}

#[test]
fn computing_that_costs_nothing_changes_nothing() {
    for scheduler in ["kist", "vanilla"] {
        let run = |cpu: Option<Cpu>| {
            let mut plan = Plan::new();
            plan.settings.cpu = cpu;
            if scheduler == "vanilla" {
                plan.settings.scheduling.channel_scheduler = ChannelScheduler::Vanilla;
            }
            plan.default_path.loss = 0.005;
            let middle = plan.relay("middle", RelayClass::Middle, mbit(40.0));
            let exit = plan.relay("exit", RelayClass::Exit, mbit(20.0));
            let server = plan.host("server", Role::Server, mbit(100.0));
            for index in 0..4 {
                let guard = plan.relay(&format!("guard{index}"), RelayClass::Guard, mbit(30.0));
                let client = plan.host(&format!("client{index}"), Role::Client, mbit(50.0));
                plan.client(client, [guard, middle, exit], server, "kind = \"bulk\"\nsize = \"400 kB\"", 12);
            }
            plan.run(60).1
        };
        let (without, zero) = (run(None), run(Some(cpu(0, 0))));
        assert!(without.transfers.iter().filter(|transfer| transfer.outcome == Outcome::Ok).count() > 10);
        assert_eq!(without.transfers, zero.transfers);
        assert_eq!(without.circuits, zero.circuits);
        assert_eq!(without.relays, zero.relays);
    }
}

/// `clients` clients, all as far from the one guard, want a circuit in the same instant, five seconds after one for whom all channels were opened; one more `late`
/// seconds after them. The circuits of the crowd.
fn crowd(clients: usize, late: Option<u64>, cpu: Option<Cpu>) -> Vec<CircuitRecord> {
    let mut plan = Plan::new();
    at_once(&mut plan);
    plan.settings.cpu = cpu;
    plan.settings.client.predict = false;
    let guard = plan.relay("guard", RelayClass::Guard, mbit(1000.0));
    let middle = plan.relay("middle", RelayClass::Middle, mbit(1000.0));
    let exit = plan.relay("exit", RelayClass::Exit, mbit(1000.0));
    let server = plan.host("server", Role::Server, mbit(1000.0));
    for index in 0..=clients + late.map_or(0, |_| 1) {
        let client = plan.host(&format!("client{index}"), Role::Client, mbit(1000.0));
        let after = if index == 0 { 0 } else { 5 + late.filter(|_| index > clients).unwrap_or(0) };
        plan.client(client, [guard, middle, exit], server, "kind = \"sequence\"\ntransfers = [{ size = \"1 B\" }]", 10 + after);
    }
    plan.run(60).1.circuits.into_iter().filter(|circuit| circuit.client.index() > 0).collect()
}

/// Twenty handshakes of 100 ms meet a relay with two worker threads: they end two at a time, and so do those of the later hops, where two each come 100 ms apart
/// and none waits. The last circuit is built 900 ms after the first.
#[test]
fn worker_threads_take_handshakes_two_at_a_time() {
    let circuits = crowd(20, None, Some(cpu(0, 100_000)));
    let mut built: Vec<u64> = circuits.iter().filter_map(|circuit| circuit.built).map(SimTime::as_nanos).collect();
    built.sort_unstable();
    assert_eq!(built.len(), 20);
    let spread = (built[19] - built[0]) as f64 / 1e6;
    assert!((spread - 900.0).abs() < 5.0, "the last is built {spread} ms after the first");
    for pair in built.chunks(2).collect::<Vec<_>>().windows(2) {
        let apart = (pair[1][0] - pair[0][0]) as f64 / 1e6;
        assert!((apart - 100.0).abs() < 5.0, "{apart} ms apart");
    }
}

/// 150 handshakes of 200 ms: 64 are in the pool's hands, 86 wait. When one more comes after six seconds, those at the head of the queue have waited for
/// more than five: they are dropped, and their circuits closed. Without the latecomer nobody is dropped.
#[test]
fn who_waits_for_a_handshake_for_five_seconds_is_dropped_when_another_comes() {
    let failed = |late: Option<u64>| {
        let circuits = crowd(150, late, Some(cpu(0, 200_000))).into_iter();
        circuits.filter(|circuit| circuit.outcome == CircuitOutcome::Failed).collect::<Vec<_>>()
    };
    assert_eq!(failed(None), []);
    let dropped = failed(Some(6));
    assert!(!dropped.is_empty());
    for circuit in dropped {
        let age = (circuit.closed.unwrap() - circuit.launched).as_secs_f64();
        assert!((5.0..12.0).contains(&age), "dropped after {age} s");
        assert_eq!(circuit.reason, Some(CloseReason::HandshakeQueue));
    }
}

/// How long the second circuit of one client takes to be built, when all channels are open, with handshakes of 3 ms (ntor) and 7 ms (TAP).
fn building(handshakes: Handshakes) -> u64 {
    let mut plan = in_a_row(mbit(100_000.0), "kind = \"sequence\"\ntransfers = [{ size = \"400 B\" }]");
    at_once(&mut plan);
    plan.settings.handshakes = handshakes;
    plan.settings.cpu = Some(Cpu { per_tap: SimDuration::from_millis(7), ..cpu(0, 3000) });
    let circuits = plan.run(40).1.circuits;
    circuits.iter().map(|circuit| nanos(circuit.launched, circuit.built)).min().unwrap()
}

/// CREATE_FAST costs no handshake, ntor 3 ms and TAP 7 ms a hop; a client of an older tor uses TAP where others use ntor.
#[test]
fn each_kind_of_handshake_has_its_cost() {
    let of =
        |fast_first_hop, kind, tap_clients| building(Handshakes { fast_first_hop, kind, tap_clients, ..Handshakes::default() });
    let three_ntors = of(false, Handshake::Ntor, 0.0);
    for (fast, kind, old, millis) in [
        (true, Handshake::Ntor, 0.0, 6),
        (false, Handshake::Tap, 0.0, 21),
        (true, Handshake::Tap, 0.0, 14),
        (false, Handshake::Ntor, 1.0, 21),
        (true, Handshake::Ntor, 1.0, 14),
    ] {
        let took = of(fast, kind, old) as i64 - three_ntors as i64;
        let expected = (millis - 9) * 1_000_000;
        assert!((took - expected).abs() < 1000, "{fast} {kind:?} {old}: {took} ns more than three of ntor, expected {expected}");
    }
}
