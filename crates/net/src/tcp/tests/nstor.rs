//! What sets nstor's TCP apart: no congestion window, segments counted for acknowledgements, windows announced by a fifth of the buffer.

use super::harness::Pair;
use super::{at, millis};
use crate::tcp::{Segment, TcpConfig};
use onionlab_quantities::SimTime;

const MSS: u64 = 536;
const BUFFER: u64 = 131_072;

fn pair() -> Pair {
    let mut pair = Pair::connected(TcpConfig::nstor(), millis(50), 1);
    pair.trace = Some(Vec::new());
    pair
}

fn sent(pair: &Pair, side: usize, what: impl Fn(&Segment) -> bool) -> Vec<(SimTime, Segment)> {
    let trace = pair.trace.as_ref().unwrap().iter();
    trace.filter(|(_, from, segment)| *from == side && what(segment)).map(|(now, _, segment)| (*now, segment.clone())).collect()
}

/// Five segments, and after their acknowledgement all that the buffers hold.
#[test]
fn five_segments_and_then_whatever_the_buffers_hold() {
    let mut pair = pair();
    let start = pair.now;
    pair.ends[0].to_write = 10 * BUFFER;
    pair.run_until(start + millis(99));
    assert_eq!(sent(&pair, 0, |segment| segment.len > 0).len(), 5);
    pair.run_until(start + millis(101));
    let in_flight = pair.ends[0].tcb.info(&pair.cfg).unacked_bytes;
    assert!((BUFFER - MSS..=BUFFER).contains(&in_flight), "{in_flight}");
}

#[test]
fn a_loss_lowers_no_window() {
    let mut pair = pair();
    pair.ends[0].to_write = 20 * BUFFER;
    pair.run_until(at(1000));
    pair.wires[0].lose = vec![2000, 2001, 2100];
    pair.run_until_read(20 * BUFFER, at(3500));
    let info = pair.ends[0].tcb.info(&pair.cfg);
    assert_eq!((pair.wires[0].dropped, info.retransmitted_segments), (3, 3));
    assert!(info.cwnd_segments > 1 << 30, "{info:?}");
}

/// A time-out sends one segment, whose acknowledgement opens everything again.
#[test]
fn a_timeout_is_over_with_the_first_acknowledgement() {
    let mut pair = pair();
    pair.ends[0].to_write = 2 * MSS;
    pair.run_until(at(1000));
    let first = pair.now;
    // Nothing but these two segments, so no duplicates.
    pair.wires[0].lose = vec![2, 3];
    pair.ends[0].to_write = 2 * MSS;
    pair.run_until_read(4 * MSS, at(5000));
    // A second, no round trip added; the first alone, acknowledged after 200 ms; then the second.
    assert_eq!(pair.now.saturating_since(first).as_micros() / 1000, 1000 + 50 + 200 + 50 + 50);
    assert!(pair.ends[0].tcb.info(&pair.cfg).cwnd_segments > 1 << 30);
}

/// Every second segment at once, whatever its length; one alone after 200 ms.
#[test]
fn two_segments_draw_an_acknowledgement_and_one_waits() {
    let mut pair = pair();
    for (bytes, waited) in [(2 * MSS, 0), (MSS + 1, 0), (MSS, 200), (1, 200)] {
        let start = pair.now;
        pair.trace = Some(Vec::new());
        pair.ends[0].to_write = bytes;
        pair.run_until(start + millis(1000));
        let acks = sent(&pair, 1, |_| true);
        assert_eq!(acks.len(), 1, "{bytes} bytes");
        assert_eq!(acks[0].0.saturating_since(start).as_micros() / 1000, 50 + waited, "{bytes} bytes");
    }
}

/// Reading announces a window that has grown by more than a fifth of the buffer, and none that has not.
#[test]
fn reading_announces_a_window_that_grew_by_more_than_a_fifth_of_the_buffer() {
    let mut pair = pair();
    pair.ends[1].reads = false;
    pair.ends[0].to_write = 2 * BUFFER;
    pair.run_until(at(3000));
    // The window is what is free, to the byte; what does not fill a segment is left.
    let left = BUFFER % MSS;
    assert_eq!(pair.ends[1].tcb.readable(), BUFFER - left);
    assert_eq!(sent(&pair, 1, |_| true).last().unwrap().1.window, left as u32);
    let fifth = BUFFER / 5;
    for (bytes, announced) in [(fifth, false), (1, true)] {
        let (cfg, now) = (pair.cfg.clone(), pair.now);
        pair.trace = Some(Vec::new());
        pair.ends[1].tcb.read(&cfg, now, bytes);
        pair.run_until(now + millis(1));
        assert_eq!(sent(&pair, 1, |_| true).len(), usize::from(announced), "after {bytes} bytes");
    }
    // All of it comes in full segments: nothing smaller into a smaller window.
    pair.run_until(at(4000));
    assert!(sent(&pair, 0, |segment| segment.len > 0).iter().all(|(_, segment)| u64::from(segment.len) == MSS));
}

/// A writer hears of any room, not of a third of the buffer.
#[test]
fn a_full_send_buffer_is_filled_again_with_every_acknowledgement() {
    let mut pair = pair();
    pair.ends[0].to_write = 100 * BUFFER;
    for ms in 1000..1200 {
        pair.run_until(at(ms));
        assert!(pair.ends[0].tcb.send_space(&pair.cfg) == 0, "at {ms} ms");
    }
}
