//! Shadow's uplink: what was written first goes first, and connections do not take turns.

mod star;

use onionlab_net::UplinkQueue;
use onionlab_net::tcp::TcpConfig;
use onionlab_quantities::SimTime;
use star::Star;

/// Two connections write 120 kB each, one right after the other, over 1 Mbit/s: what each delivered after 0.9 s.
fn after(uplink_queue: UplinkQueue) -> Vec<u64> {
    let mut star = Star::new(TcpConfig::shadow(), &[1, 10, 10], uplink_queue, 1000);
    star.start(0, 1, 120_000);
    star.start(0, 2, 120_000);
    star.run_until(SimTime::from_nanos(900_000_000));
    assert_eq!(star.counters(1).downlink_drops, 0);
    assert!(star.info(0).unacked_segments > 0, "the first connection still sends");
    star.delivered()
}

#[test]
fn what_was_written_first_goes_first() {
    let (first, second) = (after(UplinkQueue::WriteOrder)[0], after(UplinkQueue::WriteOrder)[1]);
    assert!(first > 2 * second, "{first} {second}");
    let (first, second) = (after(UplinkQueue::Sockets)[0], after(UplinkQueue::Sockets)[1]);
    assert!(first < second + second / 5, "{first} {second}");
}
