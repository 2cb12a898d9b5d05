//! When Linux's receiver acknowledges: at once, when data is read, after a while, or with data.

use super::harness::Pair;
use super::millis;
use crate::tcp::{Flags, TcpConfig};

/// Segments that end 1 has sent since its trace began.
fn acks(pair: &Pair) -> usize {
    pair.trace.as_ref().unwrap().iter().filter(|(_, side, _)| *side == 1).count()
}

fn wait(pair: &mut Pair, ms: u64) {
    let end = pair.now + millis(ms);
    pair.run_until(end);
}

/// End 0 writes so many bytes; what follows happens so many ms later.
fn write(pair: &mut Pair, bytes: u64, ms: u64) {
    pair.ends[0].to_write = bytes;
    wait(pair, ms);
}

/// A pair whose end 1 has used up its sixteen quick acknowledgements for full segments, one each `interval` ms, and has nothing left to acknowledge.
fn pair_without_quick_ones(cfg: TcpConfig, one_way: u64, interval: u64) -> Pair {
    let mut pair = Pair::connected(cfg, millis(one_way), 1);
    pair.trace = Some(Vec::new());
    for _ in 0..16 {
        write(&mut pair, 1448, interval);
    }
    pair
}

/// 40 ms after the quick ones are used up, while nobody reads, however many came (on Linux 6.18 two full segments were acknowledged after 44 ms); every second
/// full segment that is read at once, and what was read when it ended a write.
#[test]
fn acknowledgements_are_delayed_after_the_first_sixteen() {
    let mut pair = Pair::connected(TcpConfig::linux(), millis(10), 1);
    pair.trace = Some(Vec::new());
    pair.ends[1].reads = false;
    for i in 1..=16 {
        write(&mut pair, 1448, 20);
        assert_eq!(acks(&pair), i, "quick");
    }
    write(&mut pair, 1448, 49);
    assert_eq!(acks(&pair), 16);
    wait(&mut pair, 2);
    assert_eq!(acks(&pair), 17, "after 10 ms of path and 40 ms of delay");
    write(&mut pair, 2 * 1448, 49);
    assert_eq!(acks(&pair), 17, "a second segment that nobody reads waits too");
    wait(&mut pair, 2);
    assert_eq!(acks(&pair), 18);
    pair.ends[1].reads = true;
    wait(&mut pair, 12);
    let before = acks(&pair);
    write(&mut pair, 2 * 1448, 12);
    assert_eq!(acks(&pair), before + 1, "a second segment that is read is acknowledged at once");
    let before = acks(&pair);
    write(&mut pair, 1448, 12);
    assert_eq!(acks(&pair), before + 1, "the end of a write is acknowledged when it is read");
}

/// What had come before is answered at once and by itself, though data waits to take an acknowledgement along.
#[test]
fn a_duplicate_is_answered_by_itself() {
    let mut pair = Pair::connected(TcpConfig::linux(), millis(10), 1);
    pair.trace = Some(Vec::new());
    write(&mut pair, 1448, 30);
    let again = pair.trace.as_ref().unwrap().iter().find(|(_, side, segment)| *side == 0 && segment.len > 0).unwrap().2.clone();
    let (cfg, now) = (pair.cfg.clone(), pair.now);
    let end = &mut pair.ends[1].tcb;
    end.write(&cfg, now, 1000);
    end.on_segment(&cfg, now, &again);
    let sent: Vec<_> = std::iter::from_fn(|| end.next_segment(&cfg, now)).collect();
    let shown: Vec<_> = sent.iter().map(|segment| (segment.len, segment.flags.has(Flags::DUPLICATE))).collect();
    assert_eq!(shown, [(0, true), (1000, false)]);
}

#[test]
fn data_takes_the_acknowledgement_along() {
    let mut pair = Pair::connected(TcpConfig::linux(), millis(10), 1);
    pair.trace = Some(Vec::new());
    for _ in 0..50 {
        for side in [0, 1] {
            pair.ends[side].to_write = 543;
            let end = pair.now + millis(10);
            pair.run_until(end);
        }
    }
    let empty = pair.trace.as_ref().unwrap().iter().filter(|(.., segment)| segment.len == 0).count();
    assert!(empty <= 4, "{empty} pure acknowledgements in a ping-pong of 100 segments");
}

/// Each lone segment waits for 40 ms, though the one before it had waited in vain: a round trip is shorter (`tcp_send_delayed_ack`).
#[test]
fn a_delay_is_no_longer_than_a_round_trip() {
    let mut pair = pair_without_quick_ones(TcpConfig::linux(), 10, 20);
    pair.ends[1].reads = false;
    for _ in 0..5 {
        let before = acks(&pair);
        write(&mut pair, 1448, 49);
        assert_eq!(acks(&pair), before);
        wait(&mut pair, 2);
        assert_eq!(acks(&pair), before + 1);
        wait(&mut pair, 49);
    }
}

/// Sixteen segments 39 ms apart have taught a delay of 78 ms; with the last quick acknowledgement it is 40 again, and a seventeenth makes it 59 (`tcp_dec_quickack_mode`).
#[test]
fn the_last_quick_acknowledgement_shortens_the_delay() {
    let mut pair = Pair::connected(TcpConfig::linux(), millis(75), 1);
    pair.trace = Some(Vec::new());
    pair.ends[1].reads = false;
    for _ in 0..16 {
        write(&mut pair, 1448, 39);
    }
    write(&mut pair, 1448, 75 + 58);
    assert_eq!(acks(&pair), 16);
    wait(&mut pair, 2);
    assert_eq!(acks(&pair), 17);
}

/// Two short segments of one length, one after the other, are taken for full ones from 524 bytes on, which with the timestamps' option are 536: the second is not acknowledged when it is read. With a longer
/// one between them they are not (`tcp_measure_rcv_mss`).
#[test]
fn two_short_segments_of_one_length_are_taken_for_full_ones() {
    for (sizes, acknowledged) in [([524, 524, 0], 1), ([523, 523, 0], 2), ([524, 1448, 524], 3)] {
        let mut pair = pair_without_quick_ones(TcpConfig::linux(), 10, 20);
        let before = acks(&pair);
        for size in sizes {
            write(&mut pair, size, 12);
        }
        assert_eq!(acks(&pair) - before, acknowledged, "{sizes:?}");
    }
}

/// Where data goes both ways a short segment waits for data to take its acknowledgement along, a second one does not (`ICSK_ACK_PUSHED2`).
#[test]
fn a_second_short_segment_is_acknowledged_when_read_even_in_a_ping_pong() {
    let mut pair = pair_without_quick_ones(TcpConfig { nagle: false, ..TcpConfig::linux() }, 10, 20);
    write(&mut pair, 300, 15);
    pair.ends[1].to_write = 300;
    wait(&mut pair, 15);
    let before = acks(&pair);
    write(&mut pair, 300, 12);
    assert_eq!(acks(&pair), before);
    write(&mut pair, 301, 12);
    assert_eq!(acks(&pair), before + 1);
}
