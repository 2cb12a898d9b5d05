//! Conflux in small networks: what two legs carry, what each end chooses, how sets are linked and end.

mod common;

use common::{Plan, mbit};
use onionlab_tor::{
    CircuitRecord, CloseReason, ConfluxSettings, CongestionSettings, FlowControl, Outcome, Records, RelayClass, Role,
};

/// A client with two disjoint ways to one exit, whose guards have uplinks of these rates in Mbit/s and links of these one-way latencies in ms to the client; one download of `size`.
fn two_ways(rates: [f64; 2], latencies: [f64; 2], load: &str) -> Plan {
    let mut plan = Plan::new();
    plan.settings.flow_control = FlowControl::Vegas(CongestionSettings::default());
    plan.settings.conflux = Some(ConfluxSettings::default());
    plan.settings.client.build_timeout.learn = false;
    let fast = mbit(1000.0);
    let client = plan.host("client", Role::Client, fast);
    let exit = plan.relay("exit", RelayClass::Exit, fast);
    let server = plan.host("server", Role::Server, fast);
    let ways: Vec<_> = (0..2)
        .map(|way| {
            let guard = plan.relay(&format!("guard{way}"), RelayClass::Guard, mbit(rates[way]));
            let middle = plan.relay(&format!("middle{way}"), RelayClass::Middle, fast);
            plan.link(client, guard, latencies[way], 0.0);
            [guard, middle, exit]
        })
        .collect();
    plan.other_paths = vec![ways[1]];
    plan.client(client, ways[0], server, load, 20);
    plan
}

fn download(size: &str) -> String {
    format!("kind = \"sequence\"\ntransfers = [{{ size = \"{size}\" }}]")
}

/// Circuits that carried DATA cells to the client, the busiest first.
fn busy(records: &Records) -> Vec<CircuitRecord> {
    let mut busy: Vec<_> = records.circuits.iter().copied().filter(|circuit| circuit.cells_in > 0).collect();
    busy.sort_by_key(|circuit| std::cmp::Reverse(circuit.cells_in));
    busy
}

fn seconds(records: &Records) -> f64 {
    let transfer = records.transfers[0];
    assert_eq!((transfer.outcome, transfer.received), (Outcome::Ok, transfer.size));
    (transfer.end - transfer.start).as_secs_f64()
}

/// Two guards of 8 Mbit/s: 40 MB take at least 20 s over both, and at least 40 s over one. Congestion control of each leg fills it as it would alone.
#[test]
fn two_legs_carry_the_sum_of_both() {
    let mut plan = two_ways([8.0, 8.0], [20.0, 20.0], &download("40 MB"));
    let (world, records) = plan.run(120);
    let both = seconds(&records);
    assert_eq!(busy(&records).len(), 2);
    assert_eq!(world.cells_in_flight(), 0);
    plan.settings.conflux = None;
    let one = seconds(&plan.run(120).1);
    println!("over both legs {both:.1} s, over one {one:.1} s");
    assert!(both > 20.0 && one > 40.0);
    assert!((one / both - 2.0).abs() < 0.2, "{one} s over one leg, {both} s over two");
}

/// Three sets of two legs are launched at boot, and plain circuits beside them as ever. The set that is used is one of these; its legs share no guard and no middle.
#[test]
fn three_sets_are_built_ahead() {
    let (_, records) = two_ways([100.0, 100.0], [20.0, 20.0], &download("1 MB")).run(60);
    let mut circuits = records.circuits.clone();
    circuits.sort_by_key(|circuit| circuit.circuit);
    let boot = circuits[0].launched;
    let first = circuits.iter().filter(|circuit| circuit.launched == boot).count();
    assert_eq!(first, 3 * 2 + 1);
    let legs = busy(&records);
    assert_eq!(legs.len(), 2);
    assert!(legs[0].path[0] != legs[1].path[0] && legs[0].path[1] != legs[1].path[1] && legs[0].path[2] == legs[1].path[2]);
}

/// The exit uses the leg with the lower round-trip time as far as its window goes: a small download of 60 cells, less than the first window of 124, comes over the nearer guard alone.
#[test]
fn a_short_answer_comes_over_the_nearer_leg() {
    let (_, records) = two_ways([100.0, 100.0], [60.0, 10.0], &download("28 kB")).run(60);
    let legs = busy(&records);
    assert_eq!(legs.len(), 1, "{legs:?}");
    assert_eq!(legs[0].path[0].0, 5, "the second way's guard");
}

/// An upload goes over the leg with the least round-trip time and no other, however long it takes.
#[test]
fn a_client_sends_over_one_leg() {
    let load = "kind = \"sequence\"\nrequest = \"4 MB\"\ntransfers = [{ size = \"1 kB\" }]";
    let (world, records) = two_ways([8.0, 100.0], [10.0, 60.0], load).run(120);
    seconds(&records);
    let sent: Vec<_> = records.circuits.iter().filter(|circuit| circuit.cells_out > 10).collect();
    assert!(!sent.is_empty() && sent.len() <= 2, "{sent:?}");
    assert_eq!(world.bytes_to_servers(), 4_000_000);
    let all: u64 = records.circuits.iter().map(|circuit| circuit.cells_out).sum();
    assert!(all >= 4_000_000 / 498);
}

/// No data goes ahead of CONNECTED over a set: the answer begins one round trip of the circuit later than over a plain circuit with optimistic data.
#[test]
fn no_data_goes_ahead_of_connected() {
    let first_byte = |conflux: bool| {
        let mut plan = two_ways([1000.0, 1000.0], [20.0, 20.0], &download("10 kB"));
        if !conflux {
            plan.settings.conflux = None;
        }
        plan.tcp.nagle = false;
        let transfer = plan.run(60).1.transfers[0];
        (transfer.first_byte.unwrap() - transfer.start).as_secs_f64() * 1e3
    };
    let (with, without) = (first_byte(true), first_byte(false));
    // Three links of 20 ms each way.
    assert!((with - without - 120.0).abs() < 10.0, "{with} and {without} ms");
}

/// A relay closes one leg in the middle of a download: both legs are closed, and the download has failed.
#[test]
fn a_set_ends_with_the_first_of_its_legs() {
    let mut plan = two_ways([1.0, 100.0], [20.0, 20.0], &download("40 MB"));
    // The slow guard's queue grows until the guard closes the circuit.
    plan.settings.max_cell_queue_in = Some(onionlab_quantities::Cells::new(40));
    plan.settings.cell_queue_high = onionlab_quantities::Cells::new(1000);
    let (world, records) = plan.run(120);
    assert_eq!(records.transfers[0].outcome, Outcome::CircuitClosed);
    let closed: Vec<_> = records.circuits.iter().filter(|circuit| circuit.reason == Some(CloseReason::QueueLimit)).collect();
    assert_eq!(closed.len(), 2);
    assert!(closed[0].path[0] != closed[1].path[0]);
    assert!((closed[0].closed.unwrap().saturating_since(closed[1].closed.unwrap())).as_secs_f64().abs() < 1.0);
    assert_eq!((world.cells_in_flight(), world.streams()), (0, 0));
}

/// Without a second way to the exit there are no sets, and streams use plain circuits.
#[test]
fn without_enough_relays_there_are_no_sets() {
    let mut plan = two_ways([100.0, 100.0], [20.0, 20.0], &download("1 MB"));
    plan.other_paths.clear();
    let (_, records) = plan.run(60);
    assert_eq!(records.circuits.len(), 3);
    assert_eq!(busy(&records).len(), 1);
}
