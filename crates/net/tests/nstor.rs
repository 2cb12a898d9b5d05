//! nstor's TCP and queues against arithmetic and against ns-3 itself.

mod star;

use onionlab_net::UplinkQueue;
use onionlab_net::tcp::TcpConfig;
use onionlab_quantities::SimTime;
use star::Star;

/// A device's 100 packets and the 1000 of `pfifo_fast` above it.
const PACKETS: u32 = 1100;
const FOREVER: u64 = 1 << 40;
const SEGMENT: u64 = 536;

/// Host 0 behind the narrow link, hosts 1 and 2 behind wide ones.
fn star(packets: u32) -> Star {
    Star::new(TcpConfig::nstor(), &[4, 10, 10], UplinkQueue::DropTail { packets }, packets)
}

fn millis(millis: u64) -> SimTime {
    SimTime::from_nanos(millis * 1_000_000)
}

/// What ns-3 had delivered of each flow after so many milliseconds (`testdata/ns3`).
fn asked(scenario: &str) -> Vec<(u64, Vec<u64>)> {
    let table = include_str!("../testdata/ns3/delivered.tsv");
    let rows = table.lines().skip(1).map(|line| line.split('\t').collect::<Vec<_>>()).filter(|row| row[0] == scenario);
    let number = |field: &&str| field.parse::<u64>().ok();
    rows.map(|row| (number(&row[1]).unwrap(), row[2..].iter().filter_map(number).collect())).collect()
}

/// The greatest difference of any flow at any of ns-3's instants up to `until` (milliseconds), in segments.
fn difference(scenario: &str, flows: &[(u32, u32)], packets: u32, until: u64) -> f64 {
    let mut star = star(packets);
    for &(from, to) in flows {
        star.start(from, to, FOREVER);
    }
    let mut greatest = 0;
    for (time, theirs) in asked(scenario).iter().filter(|(time, _)| *time <= until) {
        star.run_until(millis(*time));
        assert_eq!(theirs.len(), flows.len());
        for (ours, theirs) in star.delivered().iter().zip(theirs) {
            greatest = greatest.max(ours.abs_diff(*theirs));
        }
    }
    let segments = greatest as f64 / SEGMENT as f64;
    println!("{scenario}: within {segments:.1} segments of ns-3 until {until} ms");
    segments
}

#[test]
fn one_flow_delivers_what_ns_3_delivers_to_a_segment() {
    assert!(difference("one", &[(1, 0)], PACKETS, 10_000) <= 1.0);
}

/// Packets that arrive at one instant may go in another order.
#[test]
fn two_flows_deliver_what_ns_3_delivers_to_three_segments() {
    let cross = difference("cross", &[(1, 0), (0, 2)], PACKETS, 10_000);
    let two = difference("two", &[(1, 0), (2, 0)], PACKETS, 10_000);
    assert!(cross <= 3.0 && two <= 3.0, "{cross} {two}");
}

/// Until the first loss is found both do the same; how a scoreboard with hundreds of losses is worked off differs.
#[test]
fn losses_begin_as_in_ns_3_and_cost_as_much() {
    let flows = [(1, 0), (2, 0)];
    assert!(difference("drop", &flows, 200, 1000) <= 10.0);
    let mut star = star(200);
    for (from, to) in flows {
        star.start(from, to, FOREVER);
    }
    star.run_until(millis(10_000));
    let (ours, theirs) = (star.delivered(), asked("drop").pop().unwrap().1);
    println!("after 10 s: {ours:?} here, {theirs:?} in ns-3");
    let ratio = ours.iter().sum::<u64>() as f64 / theirs.iter().sum::<u64>() as f64;
    assert!((ratio - 1.0).abs() < 0.15, "{ratio}");
    assert!(star.counters(0).downlink_drops > 300);
}

/// The spec's arithmetic: a full link carries segments of 536 + 54 bytes, and where it carries another flow's acknowledgements too, 54 bytes of
/// those for every two segments.
#[test]
fn a_full_link_carries_what_headers_and_acknowledgements_leave() {
    let rate = |flows: &[(u32, u32)]| {
        let mut star = star(PACKETS);
        for &(from, to) in flows {
            star.start(from, to, FOREVER);
        }
        star.run_until(millis(3000));
        let before = star.delivered()[0];
        star.run_until(millis(13_000));
        (star.delivered()[0] - before) as f64 / 10.0
    };
    let segments = |overhead: f64| 500_000.0 * 536.0 / (536.0 + overhead);
    for (flows, overhead) in [(&[(1, 0)][..], 54.0), (&[(1, 0), (0, 2)][..], 54.0 + 27.0)] {
        let (measured, expected) = (rate(flows), segments(overhead));
        assert!((measured / expected - 1.0).abs() < 0.001, "{measured} bytes a second, {expected} by arithmetic");
    }
}

/// Buffers alone limit: a whole send buffer is in flight, and what the wires do not hold stands before the narrow link.
#[test]
fn a_flow_keeps_its_whole_buffer_in_flight() {
    let mut star = star(PACKETS);
    star.start(1, 0, FOREVER);
    star.run_until(millis(5000));
    let info = star.info(0);
    assert!((131_072 - 2 * SEGMENT..=131_072).contains(&info.unacked_bytes), "{info:?}");
    // 131,072 bytes in segments of 536 + 54 bytes at 4 Mbit/s take 288.5 ms: the round trip, all of it spent in flight.
    let srtt = info.srtt.unwrap().as_secs_f64();
    assert!((srtt - 0.2885).abs() < 0.003, "{srtt}");
    assert_eq!(info.rto.as_micros(), 1_000_000);
}

/// What finds an uplink's queue full is dropped, counted, and comes later; the queue of sockets drops nothing.
#[test]
fn an_uplink_with_a_queue_of_packets_drops_what_finds_it_full() {
    for (uplink_queue, drops) in [(UplinkQueue::Sockets, false), (UplinkQueue::DropTail { packets: 100 }, true)] {
        let mut star = Star::new(TcpConfig::nstor(), &[1, 100], uplink_queue, PACKETS);
        star.start(0, 1, 400_000);
        star.run_until(millis(60_000));
        assert_eq!((star.delivered()[0], star.counters(0).uplink_drops > 0), (400_000, drops));
    }
}

/// In one queue a newcomer waits behind all that is there; a free wire that asks sockets in turn serves it next.
#[test]
fn a_queue_of_packets_is_first_in_first_out_and_sockets_take_turns() {
    let arrival = |uplink_queue| {
        let mut star = Star::new(TcpConfig::nstor(), &[1, 100], uplink_queue, PACKETS);
        star.start(0, 1, FOREVER);
        star.run_until(millis(3000));
        star.start(0, 1, 100);
        (3000..9000).find(|&ms| {
            star.run_until(millis(ms));
            star.delivered()[1] == 100
        })
    };
    let (fair, fifo) = (arrival(UplinkQueue::Sockets).unwrap(), arrival(UplinkQueue::DropTail { packets: PACKETS }).unwrap());
    // SYN, its answer, data: three times 40 ms, and a segment or two before each. A whole window of the other is 1.15 s, less what is on the way.
    assert!((3120..3145).contains(&fair), "{fair}");
    assert!((5000..5400).contains(&fifo), "{fifo}");
}
