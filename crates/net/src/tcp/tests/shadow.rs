//! What sets Shadow's TCP apart: where its window begins, how it recovers, when it acknowledges, how long it waits.

use super::harness::Pair;
use super::{at, millis};
use crate::tcp::{BufferLimits, Effects, Flags, RoundTrips, TcpConfig};
use onionlab_quantities::{Bandwidth, SimDuration, SimTime};

const MSS: u64 = 1460;

/// Shadow's TCP over 50 ms each way; 80 segments have passed and all is acknowledged at 3 s.
fn warm() -> Pair {
    let mut pair = Pair::connected(TcpConfig::shadow(), millis(50), 1);
    pair.ends[0].to_write = 80 * MSS;
    pair.run_until(at(3000));
    assert_eq!(pair.ends[1].read, 80 * MSS);
    pair.trace = Some(Vec::new());
    pair
}

/// Segments with payload that end 0 sent: instant and first byte.
fn sent(pair: &Pair) -> Vec<(SimTime, u64)> {
    let trace = pair.trace.as_ref().unwrap().iter();
    trace.filter(|(_, side, segment)| *side == 0 && segment.len > 0).map(|(now, _, segment)| (*now, segment.seq)).collect()
}

/// Rounds of 2, 4, 8... segments, each of them a millisecond longer than the path.
#[test]
fn slow_start_begins_with_two_segments_and_acknowledgements_wait_a_millisecond() {
    for (segments, rounds) in [(2, 1), (3, 2), (6, 2), (7, 3), (30, 4), (31, 5)] {
        let mut pair = Pair::connected(TcpConfig::shadow(), millis(50), 1);
        let start = pair.now;
        pair.ends[0].to_write = segments * MSS;
        pair.run_until_read(segments * MSS, at(10_000));
        let took = pair.now.saturating_since(start);
        assert_eq!(took.as_micros() / 1000, 50 + (rounds - 1) * 101, "{segments} segments");
    }
}

/// The window grows with every acknowledgement, used or not, and idleness takes nothing away.
#[test]
fn an_unused_window_grows_and_stays() {
    let mut pair = Pair::connected(TcpConfig::shadow(), millis(5), 1);
    for _ in 0..50 {
        pair.ends[0].to_write = MSS;
        let end = pair.now + millis(100);
        pair.run_until(end);
    }
    pair.run_until(at(60_000));
    assert_eq!(pair.ends[0].tcb.info(&pair.cfg).cwnd_segments, 52);
}

#[test]
fn one_loss_is_repaired_in_a_round_trip_and_halves_the_window() {
    let mut pair = warm();
    let before = pair.ends[0].tcb.info(&pair.cfg).cwnd_segments;
    pair.wires[0].lose = vec![90];
    pair.ends[0].to_write = 30 * MSS;
    pair.run_until_read(110 * MSS, at(5000));
    assert!(pair.now < at(3160), "{:?}", pair.now);
    // Ten were acknowledged before.
    let info = pair.ends[0].tcb.info(&pair.cfg);
    assert_eq!((info.retransmitted_segments, info.ssthresh_segments), (1, u32::midpoint(before, 10) + 1));
}

/// The second loss of a window has fewer than three duplicates of its own: a second passes. Another rule would repair it in a round trip.
#[test]
fn a_second_loss_waits_for_the_timeout_of_a_second() {
    let mut pair = warm();
    pair.wires[0].lose = vec![90, 95];
    pair.ends[0].to_write = 30 * MSS;
    pair.run_until_read(110 * MSS, at(8000));
    let sent = sent(&pair);
    let times: Vec<_> = sent.iter().filter(|(_, seq)| *seq == 1 + 95 * MSS).map(|(now, _)| now.as_micros() / 1000).collect();
    assert_eq!(times.len(), 2);
    // The acknowledgement that the first repair brought restarted the clock.
    assert!((1200..1210).contains(&(times[1] - times[0])), "{times:?}");
    // SACK spares what had arrived: two went twice.
    assert_eq!(sent.len(), 32);
    assert_eq!(pair.ends[0].tcb.info(&pair.cfg).srtt, None);
}

/// A time-out doubles the next one, and acknowledgements do not bring it down; after three in a row one does.
#[test]
fn timeouts_stay_doubled_until_three_come_in_a_row() {
    let mut pair = warm();
    let rto = |pair: &Pair| pair.ends[0].tcb.info(&pair.cfg).rto;
    assert_eq!(rto(&pair), millis(1000));
    pair.wires[0].lose = vec![80];
    pair.ends[0].to_write = MSS;
    pair.run_until(at(6000));
    assert_eq!((pair.ends[1].read, rto(&pair)), (81 * MSS, millis(2000)));
    pair.wires[0].lose = vec![82, 83, 84];
    pair.ends[0].to_write = MSS;
    pair.run_until(at(6000 + 13_900));
    assert_eq!((pair.ends[1].read, rto(&pair)), (81 * MSS, millis(8000)));
    pair.run_until(at(6000 + 14_200));
    assert_eq!((pair.ends[1].read, rto(&pair)), (82 * MSS, millis(1000)));
}

/// With every read while the buffer grows; else 1 ms after data, and 5 ms from the thousandth time on.
#[test]
fn acknowledgements_follow_reads_or_the_clock() {
    let acks_by_segment = |receive_buffer: BufferLimits, skip: u64, count: u64| {
        let cfg = TcpConfig { receive_buffer, send_buffer: BufferLimits::fixed(64 << 20), ..TcpConfig::shadow() };
        let mut pair = Pair::connected(cfg, millis(5), 1);
        // A segment in 0.6 ms.
        pair.wires[0].rate = Bandwidth::from_bits_per_sec(20_000_000);
        pair.ends[0].to_write = (skip + count) * MSS;
        pair.run_until_read(skip * MSS, at(60_000));
        pair.trace = Some(Vec::new());
        pair.run_until_read((skip + count) * MSS, at(60_000));
        let acks = pair.trace.take().unwrap().iter().filter(|(_, side, _)| *side == 1).count();
        acks as f64 / count as f64
    };
    let (grows, large) = (BufferLimits::new(100_000, 50_000_000), BufferLimits::fixed(50_000_000));
    let with_reads = acks_by_segment(grows, 200, 5000);
    assert!((0.95..1.01).contains(&with_reads), "{with_reads}");
    // The second segment comes within the first's millisecond, the third after it; then within 5 ms eight more.
    let prompt = acks_by_segment(large, 200, 1000);
    assert!((0.49..0.51).contains(&prompt), "{prompt}");
    let late = acks_by_segment(large, 3000, 1000);
    assert!((0.10..0.12).contains(&late), "{late}");
}

/// Segments count as unacknowledged from the write on; only what the window of two holds back counts as not sent, not what waits for a wire.
#[test]
fn tcp_info_counts_what_was_written_and_what_the_window_holds_back() {
    let mut pair = Pair::connected(TcpConfig::shadow(), millis(50), 1);
    let end = &mut pair.ends[0].tcb;
    end.write(&pair.cfg, pair.now, 4 * MSS + 100);
    end.write(&pair.cfg, pair.now, 500);
    let info = end.info(&pair.cfg);
    assert_eq!((info.cwnd_segments, info.unacked_segments, info.notsent_bytes), (2, 6, 2 * MSS + 600));
    end.next_segment(&pair.cfg, pair.now).unwrap();
    let info = end.info(&pair.cfg);
    assert_eq!((info.unacked_segments, info.notsent_bytes), (6, 2 * MSS + 600));
}

/// Only what answers data beyond a hole counts as a duplicate: an update of the window between two of them does not.
#[test]
fn acknowledgements_of_data_beyond_a_hole_say_so() {
    let mut pair = warm();
    pair.wires[0].lose = vec![90];
    pair.ends[0].to_write = 20 * MSS;
    pair.run_until_read(100 * MSS, at(5000));
    let trace = pair.trace.take().unwrap();
    let back = || trace.iter().filter(|(_, side, _)| *side == 1).map(|(_, _, segment)| segment);
    let duplicates = back().filter(|segment| segment.flags.has(Flags::DUPLICATE)).count();
    // Nine of the twenty segments came beyond the one that was lost.
    assert_eq!(duplicates, 9);
    assert!(back().filter(|segment| segment.sack_count > 0).count() >= duplicates);
}

/// Five segments come 10 ms apart while others use the uplink: each has made an acknowledgement of its own, and all leave at last, with the same number.
#[test]
fn each_timer_makes_an_acknowledgement_that_waits_for_itself() {
    let mut pair = warm();
    pair.ends[1].reads = false;
    let free_again = pair.now + millis(200);
    pair.wires[1].occupy(free_again);
    for _ in 0..5 {
        pair.ends[0].to_write = 100;
        let end = pair.now + millis(10);
        pair.run_until(end);
    }
    pair.run_until(free_again + millis(10));
    let trace = pair.trace.as_ref().unwrap().iter();
    let acks: Vec<_> =
        trace.filter(|(_, side, _)| *side == 1).map(|(now, _, segment)| (now.as_nanos() / 1000, segment.ack)).collect();
    assert_eq!(acks, [(free_again.as_nanos() / 1000, 80 * MSS + 501); 5]);
}

/// Shadow 1.13's: a round trip is known where a segment leaves while another is being processed.
fn shadow_1() -> TcpConfig {
    TcpConfig { round_trips: RoundTrips::Released, min_rto: millis(200), ..TcpConfig::shadow() }
}

/// A connection of it that began at one second, since an echo of time zero is none.
fn shadow_1_connected(one_way: SimDuration) -> Pair {
    let mut pair = Pair::new(shadow_1(), one_way, 1);
    pair.now = at(1000);
    pair.run_until(at(1000) + one_way * 4);
    pair
}

/// By RFC 6298 one round trip of 100 ms makes 100 + 4 * 50 ms.
#[test]
fn the_answer_to_a_syn_tells_the_round_trip_and_its_acknowledgement_does_not() {
    let mut pair = shadow_1_connected(millis(50));
    let rto = |pair: &Pair, end: usize| pair.ends[end].tcb.info(&pair.cfg).rto;
    assert_eq!((rto(&pair, 0), rto(&pair, 1)), (millis(300), millis(1000)));
    // Nothing that is written later echoes anything, nor what acknowledges it.
    for _ in 0..20 {
        pair.ends[0].to_write = 2 * MSS;
        let end = pair.now + millis(300);
        pair.run_until(end);
    }
    assert_eq!((rto(&pair, 0), rto(&pair, 1)), (millis(300), millis(1000)));
}

/// Whoever receives what his acknowledgements release learns the round trip, by and by with little deviation; whoever sends it learns nothing more.
#[test]
fn data_that_an_acknowledgement_releases_tells_its_receiver_the_round_trip() {
    let mut pair = shadow_1_connected(millis(150));
    pair.ends[0].to_write = 200 * MSS;
    pair.run_until(at(10_000));
    assert_eq!(pair.ends[1].read, 200 * MSS);
    let [sender, receiver] = [0, 1].map(|end| pair.ends[end].tcb.info(&pair.cfg));
    assert_eq!(sender.rto, millis(900));
    let srtt = receiver.srtt.unwrap();
    assert!((millis(280)..=millis(310)).contains(&srtt) && receiver.rto < millis(500), "{receiver:?}");
}

/// What leaves while a segment is being processed does not acknowledge what that brings, and what would have is forgotten: an answer that lets the rest of its request go stays
/// unacknowledged for a second, and what follows goes by the window of a time-out. Where the rest has to wait for the link it acknowledges.
#[test]
fn the_rest_of_a_request_that_an_answer_lets_go_does_not_acknowledge_it() {
    let answered = |busy: bool| {
        let cfg = TcpConfig { initial_window: 1, ..shadow_1() };
        let mut pair = Pair::new(cfg, millis(50), 1);
        pair.now = at(1000);
        pair.run_until(at(2000));
        pair.trace = Some(Vec::new());
        pair.ends[0].to_write = 2 * MSS;
        while pair.ends[1].read == 0 {
            assert!(pair.step(at(3000)));
        }
        // The answer, and right after it the download, of which nothing fits the window.
        pair.ends[1].to_write = 70;
        assert!(pair.step(at(3000)));
        if busy {
            let until = pair.now + millis(60);
            pair.wires[0].occupy(until);
        }
        pair.ends[1].to_write = 20 * MSS;
        pair.run_until(at(6000));
        assert_eq!((pair.ends[0].read, pair.ends[1].read), (20 * MSS + 70, 2 * MSS));
        let sent = |from: u64| {
            let trace =
                pair.trace.iter().flatten().filter(move |(_, end, segment)| *end == 1 && segment.len > 0 && segment.seq == from);
            trace.map(|(at, ..)| *at).collect::<Vec<_>>()
        };
        (sent(1), sent(71))
    };
    let (answer, download) = answered(false);
    assert_eq!((answer.len(), answer[1]), (2, answer[0] + millis(1000)));
    assert!(download.len() == 1 && download[0] < answer[1] + millis(1), "{answer:?} {download:?}");
    let (answer, download) = answered(true);
    assert_eq!((answer.len(), download.len()), (1, 1));
    assert!(download[0] < answer[0] + millis(200), "{answer:?} {download:?}");
}

/// A time-out that is not answered yet takes no round trip; its doubling ends with the next one that is known.
#[test]
fn a_round_trip_ends_the_doubling_of_timeouts() {
    let mut pair = shadow_1_connected(millis(50));
    pair.wires[1].lose = vec![0];
    pair.ends[1].to_write = MSS;
    pair.run_until(at(4000));
    assert_eq!((pair.ends[0].read, pair.ends[1].tcb.info(&pair.cfg).rto), (MSS, millis(2000)));
    pair.ends[0].to_write = 100 * MSS;
    pair.run_until(at(8000));
    let rto = pair.ends[1].tcb.info(&pair.cfg).rto;
    assert!(rto < millis(500), "{rto}");
}

/// A connection with a spurious time-out behind it, at which thirty segments went again, of which ten might have had to.
fn with_a_spurious_timeout() -> Pair {
    let mut pair = shadow_1_connected(millis(100));
    pair.ends[0].to_write = 40 * MSS;
    pair.run_until(at(6000));
    let started = pair.now;
    pair.trace = Some(Vec::new());
    // Other connections' packets keep the acknowledgements until just after the time-out.
    let rto = pair.ends[0].tcb.info(&pair.cfg).rto;
    pair.wires[1].occupy(started + (rto - millis(95)));
    pair.ends[0].to_write = 30 * MSS;
    pair.run_until(started + rto + millis(300));
    assert_eq!(pair.ends[1].read, 70 * MSS);
    pair
}

/// A time-out that comes just before the acknowledgement of thirty segments: ten have gone again by then, and the other twenty go though they are acknowledged, as the acknowledgements come.
/// They fill the send buffer for good, the timer goes on with nothing in flight, and each time it ends the window is
/// ten. The next acknowledgement lowers it to the threshold.
#[test]
fn a_spurious_timeout_sends_the_whole_flight_again_and_never_forgets_it() {
    let mut pair = with_a_spurious_timeout();
    let info = pair.ends[0].tcb.info(&pair.cfg);
    assert_eq!(sent(&pair).len(), 60);
    assert_eq!(info.send_buffer - pair.ends[0].tcb.send_space(&pair.cfg), 20 * MSS);
    let took = sent(&pair)[59].0.saturating_since(sent(&pair)[30].0);
    assert!(took < millis(10), "{took}");
    assert_eq!(info.unacked_segments, 0);
    pair.run_until(at(60_000));
    let info = pair.ends[0].tcb.info(&pair.cfg);
    assert_eq!((info.cwnd_segments, info.ssthresh_segments), (10, 6), "it has ended twice or more");
    pair.ends[0].to_write = 2 * MSS;
    pair.run_until(at(61_000));
    assert_eq!((pair.ends[0].tcb.info(&pair.cfg).cwnd_segments, pair.ends[1].read), (7, 72 * MSS));
}

/// Shadow 3 does the same where an acknowledgement takes more than its second.
#[test]
fn a_queue_of_a_second_has_the_whole_flight_sent_again() {
    let mut pair = warm();
    let until = pair.now + millis(1005);
    pair.wires[1].occupy(until);
    pair.ends[0].to_write = 30 * MSS;
    pair.run_until(at(6000));
    assert_eq!(pair.ends[1].read, 110 * MSS);
    assert_eq!(sent(&pair).len(), 60);
    let (cfg, end) = (&pair.cfg, &pair.ends[0].tcb);
    assert_eq!(end.info(cfg).send_buffer - end.send_space(cfg), 20 * MSS);
    assert!(end.deadline() < SimTime::MAX, "the timer runs on");
}

/// After a time-out at a window of ten the threshold is six; the first acknowledgement takes the window there and one beyond (`ca_reno_slow_start_new_ack_ev_`).
#[test]
fn a_window_of_ten_after_a_timeout_comes_down_to_the_threshold() {
    let mut pair = Pair::connected(TcpConfig::shadow(), millis(50), 1);
    pair.ends[0].to_write = 8 * MSS;
    pair.run_until(at(3000));
    assert_eq!(pair.ends[0].tcb.info(&pair.cfg).cwnd_segments, 10);
    pair.wires[0].lose = vec![8];
    pair.ends[0].to_write = MSS;
    pair.run_until(at(6000));
    assert_eq!(pair.ends[1].read, 9 * MSS);
    let info = pair.ends[0].tcb.info(&pair.cfg);
    assert_eq!((info.cwnd_segments, info.ssthresh_segments), (6, 6));
}

/// A FIN waits until everything is acknowledged (`_tcp_flush`); elsewhere it goes with the last data.
#[test]
fn a_fin_waits_for_the_last_acknowledgement() {
    let after_data = |cfg: TcpConfig| {
        let mut pair = Pair::connected(cfg, millis(50), 1);
        pair.trace = Some(Vec::new());
        pair.ends[0].to_write = 2 * MSS;
        pair.ends[0].close_when_written = true;
        pair.run_until(at(3000));
        assert!(pair.ends[1].peer_closed_at.is_some());
        let fin = pair.trace.as_ref().unwrap().iter().find(|(_, side, segment)| *side == 0 && segment.flags.has(Flags::FIN));
        fin.unwrap().0.saturating_since(sent(&pair).last().unwrap().0)
    };
    assert_eq!(after_data(TcpConfig::linux()), SimDuration::ZERO);
    let waited = after_data(TcpConfig::shadow());
    assert!((millis(100)..millis(103)).contains(&waited), "{waited}");
}

/// Once a round trip is known the buffer follows what is read in one; without, all that was ever read.
#[test]
fn a_receive_buffer_follows_what_is_read_in_a_round_trip() {
    let grown = |round_trips: RoundTrips| {
        let cfg = TcpConfig { round_trips, ..shadow_1() };
        let mut pair = Pair::new(cfg, millis(50), 1);
        pair.now = at(1000);
        for second in 2..60 {
            pair.ends[0].to_write = 30 * MSS;
            pair.run_until(at(1000 * second));
        }
        assert_eq!(pair.ends[1].read, 58 * 30 * MSS);
        pair.ends[0].tcb.info(&pair.cfg).peer_window
    };
    assert!(grown(RoundTrips::Never) > 1_000_000);
    assert!(grown(RoundTrips::Released) <= 174_760);
}

/// What is acknowledged before it goes again is free at no time: nobody is told of room that is gone again before he can use it.
#[test]
fn what_waits_to_go_again_for_nothing_fills_the_send_buffer() {
    let mut pair = shadow_1_connected(millis(100));
    pair.ends[0].to_write = 40 * MSS;
    pair.run_until(at(6000));
    let started = pair.now;
    let rto = pair.ends[0].tcb.info(&pair.cfg).rto;
    pair.wires[1].occupy(started + (rto - millis(95)));
    pair.ends[0].to_write = 30 * MSS;
    pair.run_until(started + rto + millis(1));
    // Ten have gone again; now other connections' packets keep the rest.
    pair.wires[0].occupy(started + rto + millis(50));
    pair.run_until(started + rto + millis(20));
    let free = |pair: &Pair| pair.ends[0].tcb.send_space(&pair.cfg);
    let info = pair.ends[0].tcb.info(&pair.cfg);
    assert_eq!((info.unacked_segments, info.send_buffer - free(&pair)), (0, 20 * MSS));
    let before = free(&pair);
    pair.run_until(started + rto + millis(100));
    assert_eq!(free(&pair), before);
}

/// Data that is written later leaves the timer as it is: it was started by the last acknowledgement. Without such a past a segment starts it.
#[test]
fn new_data_does_not_put_off_a_timer_that_runs_for_nothing() {
    let mut pair = with_a_spurious_timeout();
    let before = pair.ends[0].tcb.deadline();
    assert!(before < SimTime::MAX);
    pair.ends[0].to_write = MSS;
    let soon = pair.now + millis(1);
    pair.run_until(soon);
    assert_eq!(pair.ends[0].tcb.deadline(), before);
    // Its acknowledgement does, as each does that is new.
    let acknowledged = pair.now + millis(250);
    pair.run_until(acknowledged);
    assert_eq!(pair.ends[1].read, 71 * MSS);
    assert!(pair.ends[0].tcb.deadline() > before && pair.ends[0].tcb.deadline() < SimTime::MAX);
}

/// Time-outs with nothing in flight, some thirty in an hour, do not count against the connection when a segment is lost at last.
#[test]
fn a_timer_that_runs_for_nothing_does_not_end_a_connection() {
    let mut pair = with_a_spurious_timeout();
    let later = pair.now + SimDuration::from_secs(3600);
    pair.run_until(later);
    pair.wires[0].lose = vec![100];
    pair.ends[0].to_write = MSS;
    let later = pair.now + SimDuration::from_secs(300);
    pair.run_until(later);
    assert_eq!(pair.wires[0].dropped, 1);
    assert_eq!(pair.ends[1].read, 71 * MSS);
}

/// Room for one segment in a full buffer is offered, though it is less than a sixteenth of it. By the rule against silly windows it would not be.
#[test]
fn any_room_in_a_receive_buffer_is_offered() {
    let taken = |cfg: TcpConfig| {
        let mut pair = Pair::new(TcpConfig { receive_buffer: BufferLimits::fixed(32 * MSS), ..cfg }, millis(50), 1);
        pair.now = at(1000);
        pair.ends[1].reads = false;
        pair.ends[0].to_write = 40 * MSS;
        pair.run_until(at(5000));
        let (cfg, now) = (pair.cfg.clone(), pair.now);
        pair.ends[1].tcb.read(&cfg, now, MSS);
        pair.run_until(at(5500));
        pair.ends[1].tcb.readable() / MSS
    };
    assert_eq!((taken(shadow_1()), taken(TcpConfig::shadow())), (32, 31));
}

/// What is fitted to less than lies in it is full, and who wrote, and was told of no lack of room then, hears when there is some. Each acknowledgement lets it grow to two windows, though nobody waits.
#[test]
fn who_finds_a_buffer_full_when_it_is_fitted_hears_of_room() {
    let mut pair = shadow_1_connected(millis(50));
    let (cfg, now) = (pair.cfg.clone(), pair.now);
    let tcb = &mut pair.ends[0].tcb;
    assert_eq!(tcb.write(&cfg, now, 60_000), 60_000);
    tcb.fit(&cfg, 0, 0);
    assert!(!tcb.is_writable(&cfg));
    pair.ends[0].effects = Effects::NONE;
    pair.run_until(now + millis(10_000));
    assert!(pair.ends[0].effects.has(Effects::WRITABLE));
    let sent_all = |pair: &Pair| (pair.ends[1].read, pair.ends[0].tcb.info(&pair.cfg).send_buffer);
    let (read, buffer) = sent_all(&pair);
    assert_eq!(read, 60_000);
    assert_eq!(buffer, 2 * u64::from(pair.ends[0].tcb.congestion.cwnd) * 2404);
}
