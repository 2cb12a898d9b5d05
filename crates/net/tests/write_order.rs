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

/// A short second connection opens at 500 ms, while the first still has much to send: when its SYN was answered, which tells the peer's window, and
/// when it has delivered its kilobyte, both in milliseconds.
fn second_is_through(uplink_queue: UplinkQueue) -> (u64, u64) {
    let mut star = Star::new(TcpConfig::shadow(), &[1, 10, 10], uplink_queue, 1000);
    star.start(0, 1, 120_000);
    star.run_until(SimTime::from_nanos(500_000_000));
    star.start(0, 2, 1000);
    let mut reaches = |what: &dyn Fn(&Star) -> bool| {
        (500..5000).find(|&milli| {
            star.run_until(SimTime::from_nanos(milli * 1_000_000));
            what(&star)
        })
    };
    let opened = reaches(&|star| star.info(1).peer_window > 0).unwrap();
    (opened, reaches(&|star| star.delivered()[1] == 1000).unwrap())
}

/// A SYN has a sequence number and waits behind what was written before it. Where sockets take turns it waits for a segment, 12 ms, as does the
/// kilobyte; besides there are 40 ms of path for the SYN, for its answer and for the kilobyte.
#[test]
fn a_syn_waits_its_turn() {
    let ((opened_in_turns, in_turns), (opened_in_order, in_order)) =
        (second_is_through(UplinkQueue::Sockets), second_is_through(UplinkQueue::WriteOrder));
    assert!((620..700).contains(&in_turns), "{in_turns} ms");
    assert!(in_order > in_turns + 100, "{in_order} ms, {in_turns} ms");
    assert!((580..620).contains(&opened_in_turns), "{opened_in_turns} ms");
    assert!(opened_in_order > opened_in_turns + 100, "{opened_in_order} ms, {opened_in_turns} ms: the SYN itself waits");
}

/// In Shadow 1.13 a SYN has no number, and so does not wait for what was written before it; its kilobyte does.
#[test]
fn a_syn_of_shadow_1_does_not_wait() {
    let (opened, delivered) = second_is_through(UplinkQueue::WriteHeap);
    let (opened_later, _) = second_is_through(UplinkQueue::WriteOrder);
    assert!((540..620).contains(&opened) && opened + 100 < opened_later, "{opened} ms, {opened_later} ms");
    assert!(delivered > opened + 100, "{delivered} ms");
}

/// A connection that waits with data behind another's gets an answer, which it acknowledges with what it sends next: how long after it was written the answer is acknowledged, in
/// milliseconds.
fn answer_is_acknowledged_after(uplink_queue: UplinkQueue) -> u64 {
    let mut star = Star::new(TcpConfig::shadow(), &[1, 10, 10], uplink_queue, 1000);
    let ms = |milli: u64| SimTime::from_nanos(milli * 1_000_000);
    star.start(0, 2, 1000);
    star.run_until(ms(300));
    assert_eq!(star.delivered(), [1000], "it is open");
    star.start(0, 1, 130_000);
    star.run_until(ms(900));
    star.write_more(0, 20_000);
    star.answer(0, 1000);
    let acknowledged = (900..5000).find(|&milli| {
        star.run_until(ms(milli));
        star.info_of_receiver(0).unacked_bytes == 0
    });
    acknowledged.unwrap() - 900
}

/// There and back are 80 ms, a packet takes 12. The answer finds its socket waiting by the number of its data. In a heap that number is forgotten, and the acknowledgement waits for the packet on
/// the wire and for two of the other's at most; elsewhere all that the other wrote goes first.
#[test]
fn an_acknowledgement_leaves_before_what_its_socket_waits_with() {
    let (heap, order) =
        (answer_is_acknowledged_after(UplinkQueue::WriteHeap), answer_is_acknowledged_after(UplinkQueue::WriteOrder));
    assert!((81..=82 + 3 * 12).contains(&heap) && order > heap + 100, "{heap} ms, {order} ms");
}
