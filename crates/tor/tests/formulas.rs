//! The simulator against closed formulas.

mod common;

use common::{Plan, mbit, ms};
use onionlab_circuitmux::PolicyKind;
use onionlab_tor::{ChannelScheduler, Outcome, RelayClass, Role, TransferRecord};

const HOP_MS: f64 = 20.0;
const SERVER_MS: f64 = 1.0;

/// Client, guard, middle and exit 20 ms apart, the server 1 ms behind the exit, everybody at 100 Mbit/s. The first download of
/// each size warms the connections up (no slow start after idle), the second is measured. Nagle's algorithm is off: it would hold the last
/// partial segment of each burst back at each hop until the one before it is acknowledged, a wait that the sum below does not have.
/// For the same reason the channel scheduler is vanilla: a busy relay under KIST adds up to its interval at each hop.
fn one_client(size: &str, optimistic_data: bool) -> TransferRecord {
    let rate = mbit(100.0);
    let mut plan = Plan::new();
    plan.tcp.slow_start_after_idle = false;
    plan.tcp.nagle = false;
    plan.settings.scheduling.channel_scheduler = ChannelScheduler::Vanilla;
    plan.settings.optimistic_data = optimistic_data;
    plan.default_path.latency = ms(HOP_MS);
    let client = plan.host("client", Role::Client, rate);
    let guard = plan.relay("guard", RelayClass::Guard, rate);
    let middle = plan.relay("middle", RelayClass::Middle, rate);
    let exit = plan.relay("exit", RelayClass::Exit, rate);
    let server = plan.host("server", Role::Server, rate);
    plan.link(exit, server, SERVER_MS, 0.0);
    let load = format!("kind = \"sequence\"\ntransfers = [{{ size = \"5 MB\", pause = \"1 s\" }}, {{ size = \"{size}\" }}]");
    plan.client(client, [guard, middle, exit], server, &load, 20);
    let (_, records) = plan.run(60);
    assert_eq!(records.transfers.len(), 2);
    assert!(records.transfers.iter().all(|transfer| transfer.outcome == Outcome::Ok));
    records.transfers[1]
}

/// Milliseconds to first and last byte as the mechanisms demand, each term by itself.
///
/// First byte. BEGIN over three hops, TCP's handshake with the server, CONNECTED back, the request out, the first byte back:
///   (3 h) + 2 s + (3 h) + (3 h + s) + (s + 3 h) = 12 h + 4 s, h = 20 ms, s = 1 ms: 244 ms;
/// each of the four traversals also serialises one cell (514 + 22 + 52 bytes = 588, 0.047 ms) on and off three links: 4 * 6 * 0.047 = 1.1 ms, and
/// the first full segment of the answer twice between server and exit, 2 * 0.12 ms.
/// With optimistic data the request follows BEGIN at once and waits at the exit for the server: one round trip of the circuit less, and a cell behind
/// another, 6 h + 4 s with 13 serialisations.
///
/// Last byte. The answer's n = ceil(size / 498) cells (at least: a read of the exit ends with a short cell) leave the exit under the stream window of 500 cells, of
/// which a SENDME gives 50 back. Cell k waits for SENDME number m(k) = floor((k - 501) / 50) + 1, which the client sends when cell 50 m has arrived. So
/// the last cell hangs on a chain of cells, each one circuit round trip (6 h = 120 ms and the SENDME's six serialisations) and one burst after the one before
/// (cell 50 m is the last of the 50 that a SENDME let go), down to a first one inside the first 500, whose turn comes when the cells before it are through: after the longer of their serialisation at 100 Mbit/s (514 * 1.06 bytes
/// each) and the server's slow start (10, 20, ... segments every 2 ms).
fn expected(size: f64, optimistic_data: bool) -> (f64, f64) {
    let cell_ms = 588.0 * 8.0 / 100e6 * 1e3;
    let (hops, serialisations) = if optimistic_data { (6.0, 13.0) } else { (12.0, 24.0) };
    let first = hops * HOP_MS + 4.0 * SERVER_MS + serialisations * cell_ms + 2.0 * 0.12;
    let cells = (size / 498.0).ceil();
    let mut k = cells;
    let mut round_trips = 0.0;
    while k > 500.0 {
        k = 50.0 * (((k - 501.0) / 50.0).floor() + 1.0);
        round_trips += 1.0;
    }
    let data_cell_ms = 514.0 * 1.06 * 8.0 / 100e6 * 1e3;
    let slow_start = ((k * 498.0 / 14_480.0 + 1.0).log2().ceil() - 1.0) * 2.0 * SERVER_MS;
    let first_window = slow_start.max(k * data_cell_ms);
    let round = 6.0 * HOP_MS + 6.0 * cell_ms + 50.0 * data_cell_ms;
    (first, first + first_window + round_trips * round)
}

#[test]
fn first_and_last_byte_are_the_sum_of_their_parts() {
    for (text, size, early) in [("50 kB", 50e3, false), ("1 MB", 1e6, false), ("5 MB", 5e6, false), ("50 kB", 50e3, true)] {
        let transfer = one_client(text, early);
        let (first, last) = expected(size, early);
        let since_start = |time: onionlab_quantities::SimTime| (time - transfer.start).as_secs_f64() * 1e3;
        let (ttfb, ttlb) = (since_start(transfer.first_byte.unwrap()), since_start(transfer.last_byte.unwrap()));
        println!("{text}: first byte {ttfb:.1} ms (formula {first:.1}), last byte {ttlb:.1} ms (formula {last:.1})");
        assert!((ttfb / first - 1.0).abs() < 0.02, "{text}: first byte after {ttfb:.1} ms, formula {first:.1} ms");
        assert!((ttlb / last - 1.0).abs() < 0.02, "{text}: last byte after {ttlb:.1} ms, formula {last:.1} ms");
    }
}

/// N bulk circuits with guards of their own share the connection from exit to middle, and the exit's uplink is the bottleneck.
#[test]
fn round_robin_gives_equal_circuits_equal_shares() {
    for (n, scheduler) in [(2, kist()), (5, kist()), (5, ChannelScheduler::Vanilla), (8, kist())] {
        let mut plan = Plan::new();
        plan.settings.scheduling.circuitmux = PolicyKind::RoundRobin;
        plan.settings.scheduling.channel_scheduler = scheduler;
        let middle = plan.relay("middle", RelayClass::Middle, mbit(100.0));
        let exit = plan.relay("exit", RelayClass::Exit, mbit(10.0));
        let server = plan.host("server", Role::Server, mbit(100.0));
        for index in 0..n {
            let guard = plan.relay(&format!("guard{index}"), RelayClass::Guard, mbit(100.0));
            let client = plan.host(&format!("client{index}"), Role::Client, mbit(100.0));
            plan.client(client, [guard, middle, exit], server, "kind = \"bulk\"\nsize = \"500 MB\"", 20);
        }
        let (_, records) = plan.run(140);
        let received: Vec<f64> = records.transfers.iter().map(|transfer| transfer.received as f64).collect();
        assert_eq!(received.len(), n);
        let total: f64 = received.iter().sum();
        // 120 s at 10 Mbit/s less headers, acknowledgements, records and short cells: the bottleneck is busy.
        assert!(total > 0.8 * 120.0 * 1.25e6 && total < 120.0 * 1.25e6, "{n} circuits moved {total} bytes");
        for bytes in received {
            assert!(
                (bytes / total * n as f64 - 1.0).abs() < 0.05,
                "{n} circuits under {scheduler:?}: a share of {}",
                bytes / total
            );
        }
    }
}

fn kist() -> ChannelScheduler {
    ChannelScheduler::Kist { interval: ms(2.0), client_interval: ms(2.0), socket_buffer_factor: 1.0, knows_unsent: true }
}
