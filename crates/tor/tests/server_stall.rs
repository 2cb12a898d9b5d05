//! Servers that give up a stream on which nothing happens, as tgen's do.

mod common;

use common::{Plan, in_a_row, mbit, ms};
use onionlab_net::tcp::BufferLimits;
use onionlab_quantities::SimDuration;
use onionlab_tor::{Outcome, RelayClass, Role, TransferRecord};

/// One download over a guard that passes 2.5 kB/s, and how long servers wait.
fn download(size: &str, stall: Option<u64>) -> (TransferRecord, u64) {
    let mut plan = Plan::new();
    let fast = mbit(100.0);
    let guard = plan.relay("guard", RelayClass::Guard, mbit(0.02));
    let path = [guard, plan.relay("middle", RelayClass::Middle, fast), plan.relay("exit", RelayClass::Exit, fast)];
    let (client, server) = (plan.host("client", Role::Client, fast), plan.host("server", Role::Server, fast));
    plan.client(client, path, server, &format!("kind = \"sequence\"\ntransfers = [{{ size = \"{size}\" }}]"), 60);
    (plan.timeout, plan.stall) = (SimDuration::from_secs(3600), SimDuration::from_secs(3600));
    plan.tcp.send_buffer = BufferLimits::fixed(65_536);
    plan.server_stall = stall.map(SimDuration::from_secs);
    let (world, records) = plan.run(1500);
    assert_eq!((world.streams(), world.cells_in_flight()), (0, 0));
    (records.transfers[0], records.transfers[0].received)
}

/// Half of the megabyte fills the stream's window and the buffers behind it. The next 50 cells take ten seconds, so that a server which waits for 300 s sends all of it, and one that
/// waits for two sends what its socket has taken by then, and no more.
#[test]
fn a_server_that_gets_no_further_gives_up() {
    let (patient, _) = download("1 MB", None);
    assert_eq!((patient.outcome, patient.received), (Outcome::Ok, 1_000_000));
    let (other, _) = download("1 MB", Some(300));
    assert_eq!((other.outcome, other.end), (Outcome::Ok, patient.end));
    let (cut, received) = download("1 MB", Some(2));
    assert_eq!(cut.outcome, Outcome::CircuitClosed);
    assert!((100_000..900_000).contains(&received), "{received}");
    assert!(cut.end < patient.end);
}

/// What a server has written still goes out: with nothing more to send it closes the connection long before the client has everything.
#[test]
fn what_is_written_arrives() {
    let (patient, _) = download("40 kB", None);
    let (closed, _) = download("40 kB", Some(1));
    assert_eq!((closed.outcome, closed.received), (Outcome::Ok, 40_000));
    assert!((closed.end - closed.start).as_secs_f64() > 10.0);
    // END follows the last cell at once then, which takes the guard a fifth of a second.
    assert!((closed.end - patient.end).as_secs_f64() < 0.3);
}

/// Its patience begins with the connection: where the request takes longer to come, there is nobody to take it.
#[test]
fn a_server_that_is_asked_nothing_gives_up() {
    for (stall, outcome) in [(20, Outcome::Ok), (1, Outcome::CircuitClosed)] {
        let mut plan = in_a_row(mbit(10.0), "kind = \"sequence\"\ntransfers = [{ size = \"10 kB\" }]");
        (plan.default_path.latency, plan.settings.optimistic_data) = (ms(500.0), false);
        plan.server_stall = Some(SimDuration::from_secs(stall));
        // CONNECTED and the request cross three links each, 3 s after the exit's connection is there.
        let (_, records) = plan.run(200);
        assert_eq!(records.transfers[0].outcome, outcome, "{stall} s");
    }
}
