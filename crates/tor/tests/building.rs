//! Building circuits: how many round trips it takes, and what becomes of a circuit whose queue grows too long.
//!
//! Round trips: tor-spec, "Creating and extending circuits"; a channel's opening takes three (TCP, TLS 1.3, the link handshake), as
//! `core/or/channeltls.c` and `connection_or.c` have it.

mod common;

use common::{Plan, mbit};
use onionlab_net::quic::QuicCongestion;
use onionlab_quantities::Cells;
use onionlab_tor::{ChannelKind, CircuitOutcome, CircuitRecord, CloseReason, Links, Outcome, RelayClass, Role};

/// Round-trip times in milliseconds between client and guard, guard and middle, middle and exit.
const A: f64 = 30.0;
const B: f64 = 70.0;
const C: f64 = 110.0;

/// One client whose every download wants a new circuit; links are fast, so that bytes take next to no time. Nagle's algorithm is off: it holds the CREATE2 of
/// a circuit back while the BEGIN of another, on the same channel, is not acknowledged, which Linux puts off by 40 ms.
fn one_client(downloads: u32) -> Plan {
    let mut plan = Plan::new();
    plan.tcp.nagle = false;
    let fast = mbit(10_000.0);
    let client = plan.host("client", Role::Client, fast);
    let guard = plan.relay("guard", RelayClass::Guard, fast);
    let middle = plan.relay("middle", RelayClass::Middle, fast);
    let exit = plan.relay("exit", RelayClass::Exit, fast);
    let server = plan.host("server", Role::Server, fast);
    for (a, b, rtt) in [(client, guard, A), (guard, middle, B), (middle, exit, C), (exit, server, 2.0)] {
        plan.link(a, b, rtt / 2.0, 0.0);
    }
    plan.circuit_per_transfer = true;
    let load = format!("kind = \"sequence\"\ntransfers = [{{ size = \"1 kB\", count = {downloads}, pause = \"2 s\" }}]");
    plan.client(client, [guard, middle, exit], server, &load, 20);
    plan
}

fn build_ms(circuit: &CircuitRecord) -> f64 {
    (circuit.built.expect("it was built") - circuit.launched).as_secs_f64() * 1e3
}

fn assert_takes(circuit: &CircuitRecord, expected: f64) {
    let took = build_ms(circuit);
    assert!((expected..expected + 0.5).contains(&took), "{took:.3} ms, by round trips {expected} ms");
}

/// CREATE2 over the first link, EXTEND2 over the first and CREATE2 over the second, and so on: 3 a + 2 b + c where all channels are open. Where
/// they are not, each opens when the circuit gets there: three times its link's round trip more.
#[test]
fn a_circuit_takes_its_round_trips_and_three_for_each_channel_that_is_not_open() {
    let (_, records) = one_client(3).run(60);
    let mut circuits = records.circuits;
    circuits.sort_by_key(|circuit| circuit.circuit);
    assert!(circuits.len() >= 3);
    let over_open_channels = 3.0 * A + 2.0 * B + C;
    assert_takes(&circuits[0], over_open_channels + 3.0 * (A + B + C));
    for circuit in &circuits[1..] {
        assert_takes(circuit, over_open_channels);
    }
}

/// With a channel for each circuit every circuit opens its own: three round trips of the link more at each hop between relays, and at the first hop too if clients do as relays do.
#[test]
fn a_circuit_with_channels_of_its_own_pays_for_their_opening() {
    for (with_clients, first_hop) in [(false, 0.0), (true, A)] {
        let mut plan = one_client(3);
        plan.settings.links = Links::PerCircuit { with_clients };
        let (_, records) = plan.run(60);
        let mut circuits = records.circuits;
        circuits.sort_by_key(|circuit| circuit.circuit);
        assert!(circuits.len() >= 3);
        let over_open_channels = 3.0 * A + 2.0 * B + C;
        assert_takes(&circuits[0], over_open_channels + 3.0 * (A + B + C));
        for circuit in &circuits[1..] {
            assert_takes(circuit, over_open_channels + 3.0 * (first_hop + B + C));
        }
        let between_relays = records.channels.iter().filter(|channel| channel.kind == ChannelKind::Circuit);
        assert_eq!(between_relays.count(), circuits.len() * if with_clients { 3 } else { 2 });
    }
}

/// Over QUIC a connection that is not there costs two round trips, its own handshake and the link's, and the next circuit's stream none.
#[test]
fn a_circuit_over_quic_takes_two_round_trips_for_each_connection_that_is_not_there() {
    let mut plan = one_client(3);
    plan.settings.links = Links::Quic { congestion: QuicCongestion::NewReno };
    let (_, records) = plan.run(60);
    let mut circuits = records.circuits;
    circuits.sort_by_key(|circuit| circuit.circuit);
    assert!(circuits.len() >= 3);
    let over_open_channels = 3.0 * A + 2.0 * B + C;
    assert_takes(&circuits[0], over_open_channels + 2.0 * (A + B + C));
    for circuit in &circuits[1..] {
        assert_takes(circuit, over_open_channels);
    }
    let streams = records.channels.iter().filter(|channel| channel.kind == ChannelKind::Stream).count();
    assert_eq!((streams, records.channels.len()), (3 * circuits.len(), 3 * circuits.len() + 3));
}

/// Two clients want the same channel between guard and middle at almost the same time: the second circuit waits for the channel that the first one is
/// opening, and does not pay for an opening of its own.
#[test]
fn a_circuit_waits_for_a_channel_that_another_is_opening() {
    let mut plan = one_client(1);
    let fast = mbit(10_000.0);
    let (_, [guard, middle, exit], server, ..) = plan.clients[0].clone();
    let late = plan.host("late", Role::Client, fast);
    // Its own channel to the guard takes 3 * 40 ms, so that its EXTEND2 is there 4 * 40 + 20 = 180 ms after its boot; the first one's comes after 4 a + a / 2 =
    // 135 ms, and the channel that this one opens is there 3 b = 210 ms later, at 345 ms.
    plan.link(late, guard, 20.0, 0.0);
    plan.client(late, [guard, middle, exit], server, "kind = \"sequence\"\ntransfers = [{ size = \"1 kB\" }]", 20);
    let (_, records) = plan.run(60);
    let second = records.circuits.iter().filter(|circuit| circuit.client.0 == 1).min_by_key(|circuit| circuit.circuit);
    // From 345 ms on: CREATE2 and CREATED2 over b, EXTENDED2 and EXTEND2 over the client's link, b again, c opened by the first one meanwhile or not.
    // The first circuit's EXTEND2 reaches the middle at 345 + b + a + b / 2 = 480 ms, the second's at 345 + b + 40 + b / 2 = 490 ms; the channel to the
    // exit, opened at 480 ms, is there at 480 + 3 c = 810 ms. Then c, and the way back, b / 2 + 20.
    assert_takes(second.expect("it launched a circuit"), 810.0 + C + B / 2.0 + 20.0);
}

/// One circuit goes from one relay to the other, the next the other way: it takes the channel that the first has opened, from its other end.
#[test]
fn two_relays_have_one_channel_for_circuits_in_both_directions() {
    let mut plan = one_client(1);
    let (client, [guard, middle, exit], server, ..) = plan.clients[0].clone();
    let other = plan.host("other", Role::Client, mbit(10_000.0));
    plan.link(other, middle, 20.0, 0.0);
    plan.client(other, [middle, guard, exit], server, "kind = \"sequence\"\ntransfers = [{ size = \"1 kB\" }]", 40);
    let (_, records) = plan.run(60);
    assert!(records.transfers.len() == 2 && records.transfers.iter().all(|transfer| transfer.outcome == Outcome::Ok));
    let mut pairs: Vec<_> = records.channels.iter().map(|channel| (channel.opener, channel.peer)).collect();
    pairs.sort();
    // The exit has one with each of its neighbours, and no two hosts have a second.
    let mut expected = [(client, guard), (guard, middle), (middle, exit), (other, middle), (guard, exit)];
    expected.sort();
    assert_eq!(pairs, expected);
    let shared = records.channels.iter().find(|channel| (channel.opener, channel.peer) == (guard, middle)).unwrap();
    let by_path = |path| records.circuits.iter().filter(|circuit| circuit.path == path).count() as u32;
    let [there, back] = [[guard, middle, exit], [middle, guard, exit]].map(by_path);
    assert!(there > 0 && back > 0);
    assert_eq!(shared.circuits, there + back);
}

/// The guard's uplink is a tenth of what arrives: cells towards the client pile up in its queue, nothing tells the middle to slow down, and at the limit the guard closes the circuit
/// (`append_cell_to_circuit_queue`). Below the limit, which a stream window of 500 cells cannot reach, the download ends well.
#[test]
fn a_queue_at_its_limit_closes_the_circuit() {
    for (limit, outcome) in [(60, Outcome::CircuitClosed), (510, Outcome::Ok)] {
        let mut plan = common::in_a_row(mbit(100.0), "kind = \"sequence\"\ntransfers = [{ size = \"600 kB\" }]");
        let guard = plan.clients[0].1[0];
        plan.hosts[guard.index()].2 = mbit(1.0);
        // The limit holds at every relay; the middle, which sends into an idle network, stays far below it.
        plan.settings.max_cell_queue_in = Some(Cells::new(limit));
        plan.settings.cell_queue_high = Cells::new(limit.min(256) / 2);
        let (world, records) = plan.run(90);
        assert_eq!(records.transfers.len(), 1, "limit {limit}");
        assert_eq!(records.transfers[0].outcome, outcome, "limit {limit}");
        let closed_in_use =
            records.circuits.iter().any(|circuit| circuit.outcome == CircuitOutcome::Closed && circuit.cells_in > 0);
        assert_eq!(closed_in_use, outcome == Outcome::CircuitClosed, "limit {limit}");
        let at_the_limit = records.circuits.iter().any(|circuit| circuit.reason == Some(CloseReason::QueueLimit));
        assert_eq!(at_the_limit, outcome == Outcome::CircuitClosed, "limit {limit}");
        assert_eq!(world.cells_in_flight(), 0, "a closed circuit leaves no cell behind");
    }
}
