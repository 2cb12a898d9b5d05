//! A queue of packets of which each socket may hold little (TCP small queues), against one into which each pushes its window, and against Linux.

mod star;

use onionlab_net::UplinkQueue;
use onionlab_net::tcp::TcpConfig;
use onionlab_quantities::{SimDuration, SimTime};
use star::Star;

const FOREVER: u64 = 1 << 40;

/// Two flows out of one host of so many Mbit/s over a path of 50 us: segments in flight and the smoothed round trip in ms of each, drops, and the share of the uplink that was used in
/// the second half of so many seconds.
fn two_flows(rate: u64, uplink_queue: UplinkQueue, seconds: u64) -> ([(u32, f64); 2], u64, f64) {
    let mut star = Star::near(TcpConfig::linux(), &[rate, 1000, 1000], uplink_queue, SimDuration::from_micros(50));
    star.start(0, 1, FOREVER);
    star.start(0, 2, FOREVER);
    let at = |seconds: u64| SimTime::ZERO + SimDuration::from_secs(seconds);
    star.run_until(at(seconds / 2));
    let before = star.counters(0).bytes_sent;
    star.run_until(at(seconds));
    let used = (star.counters(0).bytes_sent - before) as f64 * 8.0 / (rate as f64 * 1e6 * (seconds - seconds / 2) as f64);
    let of = |flow: usize| {
        let info = star.info(flow);
        (info.unacked_segments, info.srtt.unwrap().as_secs_f64() * 1e3)
    };
    ([of(0), of(1)], star.counters(0).uplink_drops, used)
}

/// At 2 Mbit/s a segment takes 6 ms, and two of each flow wait: 24 ms and what the acknowledgement of two takes. Linux: 2 or 3 in flight, 32 to 41 ms, with a burst of 15 kB that its HTB
/// lets pass. Windows that are pushed as they are fill a queue of 30 packets and lose.
#[test]
fn a_narrow_uplink_holds_two_segments_of_each_flow() {
    let (flows, drops, used) = two_flows(2, UplinkQueue::SmallQueues { packets: 30 }, 20);
    println!("{flows:?}, {drops} dropped, {used} used");
    for (unacked, srtt) in flows {
        assert!((2..=4).contains(&unacked) && (20.0..45.0).contains(&srtt), "{unacked} segments, {srtt} ms");
    }
    assert_eq!(drops, 0);
    assert!(used > 0.99, "{used}");
    let (_, drops, _) = two_flows(2, UplinkQueue::DropTail { packets: 30 }, 20);
    assert!(drops > 0);
}

/// At 300 Mbit/s a millisecond of each flow's pacing rate waits. Linux, measured twice: 17 to 48 segments and 1.4 to 2.1 ms each, with windows of 36 to 64, and 24 to 35 and 2.9 to 3.9 ms with
/// windows of 128 and 135; none lost. Windows hold nothing back; here they stop growing at 35 and 60.
#[test]
fn a_fast_uplink_holds_a_millisecond_of_each_flow() {
    let (flows, drops, used) = two_flows(300, UplinkQueue::SmallQueues { packets: 1000 }, 6);
    println!("{flows:?}, {drops} dropped, {used} used");
    for (unacked, srtt) in flows {
        assert!((12..=40).contains(&unacked) && (1.5..5.0).contains(&srtt), "{unacked} segments, {srtt} ms");
    }
    assert_eq!(drops, 0);
    assert!(used > 0.99, "{used}");
}

/// Acknowledgements wait in the same queue and are not counted: a host that receives as much as it sends answers all of it.
#[test]
fn acknowledgements_are_not_held_back() {
    let mut star =
        Star::near(TcpConfig::linux(), &[10, 10], UplinkQueue::SmallQueues { packets: 100 }, SimDuration::from_micros(50));
    star.start(0, 1, 10_000_000);
    star.start(1, 0, 10_000_000);
    star.run_until(SimTime::ZERO + SimDuration::from_secs(12));
    assert_eq!(star.delivered(), [10_000_000, 10_000_000]);
}
