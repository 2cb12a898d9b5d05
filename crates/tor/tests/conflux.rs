//! Conflux in small networks: what two legs carry, what each end chooses, how sets are linked and end.

mod common;

use common::{Plan, mbit};
use onionlab_tor::{
    CircuitPurpose, CircuitRecord, CloseReason, ConfluxSettings, CongestionSettings, FlowControl, Outcome, Records, RelayClass,
    Role,
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

/// Linked sets serve a port as plain circuits do: when those of the first second are linked, no second plain circuit is built ahead.
#[test]
fn linked_sets_count_for_a_port() {
    let mut plan = two_ways([100.0, 100.0], [20.0, 20.0], &download("1 kB"));
    let launched = |plan: &Plan| plan.run(15).1.circuits.len();
    assert_eq!(launched(&plan), 3 * 2 + 1);
    plan.settings.conflux = None;
    assert_eq!(launched(&plan), 2);
}

/// Legs are drawn for the ports that the client expects to need and has no circuits for: with an exit for another port alone beside the one for all, no set ends there.
#[test]
fn legs_end_at_exits_for_expected_ports() {
    let mut plan = two_ways([100.0, 100.0], [20.0, 20.0], &download("1 kB"));
    let useless = plan.relay("useless", RelayClass::Exit, mbit(1000.0));
    let ways = [plan.clients[0].1, plan.other_paths[0]];
    plan.other_paths.extend(ways.map(|[guard, middle, _]| [guard, middle, useless]));
    let ends = |plan: &Plan| -> Vec<_> { plan.run(15).1.circuits.iter().map(|circuit| circuit.path[2]).collect() };
    assert!(ends(&plan).contains(&useless), "as good as the other while it serves all ports");
    plan.exits_for.insert(useless, 80);
    assert_eq!(ends(&plan), [ways[0][2]; 7]);
}

/// Where the first leg of a set has an exit to which no second leg leads, what is drawn next may do: sets come about all the same.
#[test]
fn a_set_without_a_second_leg_is_drawn_anew() {
    let mut plan = two_ways([100.0, 100.0], [20.0, 20.0], &download("1 kB"));
    let lonely = plan.relay("lonely", RelayClass::Exit, mbit(1000.0));
    let [guard, middle, _] = plan.clients[0].1;
    let ways = [plan.clients[0].1, plan.other_paths[0]];
    // The paths are drawn in turn, and the first eight have no other way to their exit.
    let alone = [guard, middle, lonely];
    plan.clients[0].1 = alone;
    plan.other_paths = [vec![alone; 7], ways.repeat(4)].concat();
    let (_, records) = plan.run(15);
    let legs: Vec<_> = records.circuits.iter().filter(|circuit| circuit.purpose == CircuitPurpose::Leg).collect();
    assert!(!legs.is_empty() && legs.iter().all(|leg| leg.path[2] != lonely), "{legs:?}");
}

/// How many sets the client has at this time, in seconds, used or not, linked or being built.
fn sets_at(records: &Records, time: f64) -> usize {
    let there = |circuit: &&CircuitRecord| {
        circuit.launched.as_secs_f64() < time && circuit.closed.is_none_or(|closed| closed.as_secs_f64() > time)
    };
    records.circuits.iter().filter(there).filter(|circuit| circuit.purpose == CircuitPurpose::Leg).count() / 2
}

/// Flows that each want circuits of their own use one set after the other, and what they use is replaced, until ten are linked: the first ten flows go over sets, the next over plain circuits. When the first
/// sets are ten minutes old they go, and others take their place.
#[test]
fn used_sets_are_replaced_up_to_ten() {
    let load = "kind = \"bulk\"\nsize = \"10 kB\"\npause = \"20 s\"";
    let mut plan = two_ways([1000.0, 1000.0], [20.0, 20.0], load);
    plan.circuit_per_transfer = true;
    let (_, records) = plan.run(760);
    let over_a_set = |circuit| {
        let circuit = records.circuits.iter().find(|other| Some(other.circuit) == circuit).unwrap();
        circuit.purpose == CircuitPurpose::Leg
    };
    let used: Vec<bool> = records.transfers.iter().map(|transfer| over_a_set(transfer.circuit)).collect();
    // One each 20.4 s from the 20th second on; the first set is closed from the 620th on, at the next half minute.
    let early: Vec<bool> = (0..28).map(|flow| flow < 10).collect();
    assert_eq!(used[..28], early);
    assert!(used[32..].iter().any(|&set| set), "{used:?}");
    for time in 11..760 {
        assert!(sets_at(&records, f64::from(time)) <= 12, "at {time} s");
    }
    assert_eq!(sets_at(&records, 600.0), 10);
}

/// Sets that are used while others are ready leave three ready. All of one client's flows that share circuits use one, the first in the order of tor's table, which keys decide that are
/// random: one that is linked later may come before it, and takes the flows from then on.
#[test]
fn three_sets_are_ready_beside_those_in_use() {
    let load = "kind = \"sequence\"\ntransfers = [{ size = \"10 kB\", count = 30, pause = \"1 s\" }]";
    let (_, records) = two_ways([100.0, 100.0], [20.0, 20.0], load).run(120);
    let mut used: Vec<_> = records.transfers.iter().map(|transfer| transfer.circuit.unwrap()).collect();
    assert_eq!(used.len(), 30);
    used.dedup();
    let sets = records.circuits.iter().filter(|circuit| circuit.purpose == CircuitPurpose::Leg).count() / 2;
    assert_eq!(sets, 3 + used.len());
    // Sets are taken in turn and never come back: each later one came before all there were.
    let (in_turn, distinct) = (used.len(), used.iter().collect::<std::collections::BTreeSet<_>>().len());
    assert_eq!(in_turn, distinct);
    assert!(records.transfers.windows(2).filter(|pair| pair[0].circuit == pair[1].circuit).count() >= 20);
}

/// Of a set in use the second leg goes on counting as a circuit for the port, since streams mark the first alone: with two used sets no plain circuit is built ahead, and flows that find no
/// set have to wait for theirs.
#[test]
fn second_legs_of_used_sets_stand_for_plain_circuits() {
    let mut plan = two_ways([1000.0, 1000.0], [20.0, 20.0], "kind = \"bulk\"\nsize = \"10 kB\"\npause = \"20 s\"");
    plan.circuit_per_transfer = true;
    let (_, records) = plan.run(400);
    // All ten sets are used from the 204th second on, and young.
    let plain: Vec<_> = records
        .circuits
        .iter()
        .filter(|circuit| circuit.purpose == CircuitPurpose::Exit && circuit.launched.as_secs_f64() > 230.0)
        .collect();
    assert!(plain.len() > 3);
    for circuit in plain {
        assert!(records.transfers.iter().any(|transfer| transfer.start == circuit.launched), "launched ahead: {circuit:?}");
    }
}

/// A leg that is late is built on for measurement, and another takes its place; in the records it is the leg that it was.
#[test]
fn a_late_leg_is_recorded_as_a_leg() {
    let mut plan = two_ways([1000.0, 1000.0], [20.0, 400.0], &download("10 kB"));
    let build_timeout = &mut plan.settings.client.build_timeout;
    (build_timeout.learn, build_timeout.initial) = (true, onionlab_quantities::SimDuration::from_millis(900));
    let (_, records) = plan.run(60);
    let late: Vec<_> = records.circuits.iter().filter(|circuit| circuit.timed_out).collect();
    assert!(late.len() >= 3, "{}", late.len());
    let far = |circuit: &CircuitRecord| circuit.path[0].0 == 5;
    assert!(late.iter().all(|circuit| far(circuit)), "over the second way's guard");
    assert!(late.iter().any(|circuit| circuit.purpose == CircuitPurpose::Leg));
}

/// When nothing is expected any more, sets that nothing has used go and none are built; with a stream they come back.
#[test]
fn without_expectations_no_sets_are_built() {
    let mut plan = two_ways([100.0, 100.0], [20.0, 20.0], &download("10 kB"));
    plan.boot_before = 300;
    plan.clients[0].4 = onionlab_quantities::SimTime::from_nanos(400_000_000_000);
    plan.settings.client.prediction = onionlab_quantities::SimDuration::from_secs(60);
    plan.settings.client.prediction_spread = onionlab_quantities::SimDuration::ZERO;
    // tor starts at 100 s: for a minute it expects to need circuits, and from the 400th second on again.
    let (_, records) = plan.run(600);
    let launches: Vec<f64> = records.circuits.iter().map(|circuit| circuit.launched.as_secs_f64()).collect();
    assert!(launches.iter().all(|&time| time < 160.0 || (400.0..460.0).contains(&time)), "{launches:?}");
    assert_eq!([150.0, 250.0, 390.0].map(|time| sets_at(&records, time)), [3, 0, 0]);
    // The stream itself has found none and taken a plain circuit.
    assert_eq!([450.0, 590.0].map(|time| sets_at(&records, time)), [3, 0]);
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
