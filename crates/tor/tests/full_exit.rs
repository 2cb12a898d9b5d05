//! An exit whose tokens are never enough, and clients that give up.

mod common;

use common::{Plan, in_a_row, mbit};
use onionlab_quantities::{Bandwidth, Bytes, SimDuration};
use onionlab_tor::{Outcome, RateLimit, RelayClass, Role};

/// Sixty users of one client load 5 MB each from an exit that may pass 100 kB/s, and give up after 15 s.
fn full_exit() -> (Plan, usize) {
    let mut plan = in_a_row(mbit(100.0), "kind = \"bulk\"\nsize = \"5 MB\"");
    let exit = plan.clients[0].1[2].index();
    let limit = RateLimit { rate: Bandwidth::from_bytes_per_sec(100_000), burst: Bytes::new(20_000), relayed: None };
    plan.hosts[exit].1 = Role::Relay { class: RelayClass::Exit, limit: Some(limit) };
    plan.users = 60;
    plan.timeout = SimDuration::from_secs(15);
    (plan, exit)
}

/// What the exit holds for servers when their client has gone is flushed with the first tokens that come back, at no charge: it has no more connections than its channel,
/// the streams that somebody waits for, and those whose END is on its way, all sixty at a time (without that more than 400).
#[test]
fn an_exit_holds_no_connections_of_clients_that_have_gone() {
    let (plan, exit) = full_exit();
    let (world, records) = plan.run(300);
    let given_up = records.transfers.iter().filter(|transfer| transfer.outcome == Outcome::Timeout).count();
    assert!(given_up > 200, "{given_up} gave up");
    let most = records.relays.iter().filter(|sample| sample.relay.index() == exit).map(|sample| sample.sockets).max().unwrap();
    println!("{given_up} gave up, {most} sockets at most");
    assert!(most <= 1 + 60 + 60, "{most} sockets");
    // A share of few tokens cuts a request. Whoever was answered had sent a whole one, and nothing is written twice.
    let answered = records.transfers.iter().filter(|transfer| transfer.first_byte.is_some()).count() as u64;
    let asked = 200 * records.transfers.len() as u64;
    assert!((200 * answered..=asked).contains(&world.bytes_to_servers()), "{} of {asked}", world.bytes_to_servers());
}
