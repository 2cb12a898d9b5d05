//! Single mechanisms, seen in the segments that two ends exchange.

use super::harness::Pair;
use super::{at, millis, textbook};
use crate::tcp::{BufferLimits, Effects, Flags, State, TcpConfig};
use onionlab_quantities::{Bandwidth, SimDuration, SimTime};

/// Payload segments sent by end 0 so far: instant in ms and length.
fn payloads(pair: &Pair) -> Vec<(u64, u16)> {
    let trace = pair.trace.as_ref().unwrap();
    let sent = trace.iter().filter(|(_, side, segment)| *side == 0 && segment.len > 0);
    sent.map(|(now, _, segment)| (now.as_micros() / 1000, segment.len)).collect()
}

/// One round trip for the handshake, then rounds of 10, 20, 40... segments, the last of which takes half a round trip.
#[test]
fn a_transfer_without_loss_takes_the_time_of_slow_start() {
    for (segments, rounds) in [(1, 1), (10, 1), (11, 2), (30, 2), (31, 3), (630, 6), (631, 7)] {
        let bytes = segments * 1448;
        let mut pair = Pair::new(textbook(), millis(50), 1);
        pair.ends[0].to_write = bytes;
        pair.run_until_read(bytes, at(10_000));
        assert_eq!(pair.now.as_micros(), (100 + (rounds - 1) * 100 + 50) * 1000, "{segments} segments");
    }
}

/// The same with Linux's defaults, and serialisation at 1 Gbit/s: delayed acknowledgements cost no round trip here.
#[test]
fn linux_defaults_follow_slow_start_too() {
    let mut pair = Pair::new(TcpConfig::linux(), millis(50), 1);
    pair.wires[0].rate = Bandwidth::from_bits_per_sec(1_000_000_000);
    pair.wires[1].rate = Bandwidth::from_bits_per_sec(1_000_000_000);
    pair.ends[0].to_write = 70 * 1448;
    pair.run_until_read(70 * 1448, at(10_000));
    assert!(pair.now >= at(350) && pair.now < at(352), "{:?}", pair.now);
}

#[test]
fn a_lost_syn_goes_again_after_a_second_and_then_two() {
    let mut pair = Pair::new(TcpConfig::linux(), millis(10), 1);
    pair.trace = Some(Vec::new());
    pair.wires[0].loss = 1.0;
    pair.run_until(at(2_999));
    pair.wires[0].loss = 0.0;
    pair.run_until(at(4_000));
    let syns: Vec<_> =
        pair.trace.as_ref().unwrap().iter().filter(|(_, side, _)| *side == 0).map(|(now, ..)| now.as_micros() / 1000).collect();
    assert_eq!(syns, [0, 1000, 3000, 3020]);
    assert_eq!(pair.ends[0].connected_at.unwrap().as_micros(), 3_020_000);
    // RFC 6298 (5.7) and Linux: a window of one after a SYN lost twice.
    assert_eq!(pair.ends[0].tcb.info(&pair.cfg).cwnd_segments, 1);
}

#[test]
fn nobody_there_is_a_reset_after_two_minutes() {
    let mut pair = Pair::new(TcpConfig::linux(), millis(10), 1);
    pair.wires[0].loss = 1.0;
    pair.run_until(at(126_000));
    assert!(!pair.ends[0].effects.has(Effects::RESET));
    pair.run_until(at(128_000));
    assert!(pair.ends[0].effects.has(Effects::RESET));
    assert_eq!(pair.ends[0].tcb.state(), State::Closed);
}

#[test]
fn a_timeout_is_at_least_200_ms_above_the_round_trip_and_doubles() {
    let cfg = TcpConfig { rack_tlp: false, ..TcpConfig::linux() };
    let mut pair = Pair::connected(cfg, millis(5), 1);
    pair.ends[0].to_write = 400_000;
    pair.run_until(at(1000));
    assert_eq!(pair.ends[1].read, 400_000);
    pair.trace = Some(Vec::new());
    pair.wires[0].loss = 1.0;
    pair.ends[0].to_write = 1;
    pair.run_until(at(4000));
    let times: Vec<_> = payloads(&pair).iter().map(|sent| sent.0 - 1000).collect();
    let floor = 200 + 10;
    assert_eq!(times.len(), 4, "{times:?}");
    assert!((floor..floor + 2).contains(&times[1]), "{times:?}");
    assert!((3 * floor..3 * floor + 4).contains(&times[2]), "{times:?}");
    assert!((7 * floor..7 * floor + 8).contains(&times[3]), "{times:?}");
}

#[test]
fn nagle_holds_a_second_partial_segment_until_the_first_is_acknowledged() {
    for nagle in [true, false] {
        let mut pair = Pair::connected(TcpConfig { nagle, ..TcpConfig::linux() }, millis(50), 1);
        pair.trace = Some(Vec::new());
        for tick in 0..10 {
            pair.ends[0].to_write = 543;
            pair.run_until(at(200 + (tick + 1) * 20));
        }
        pair.run_until(at(1000));
        assert_eq!(pair.ends[1].read, 5430);
        let sent = payloads(&pair);
        if nagle {
            // The first goes at once; what gathers in a round trip goes as soon as it fills a segment or the first is acknowledged.
            assert!(sent.iter().filter(|sent| sent.1 == 1448).count() >= 2, "{sent:?}");
            assert!(sent.len() <= 6, "{sent:?}");
        } else {
            assert_eq!(sent.len(), 10, "{sent:?}");
        }
    }
}

#[test]
fn segments_follow_writes_where_asked() {
    let mut pair = Pair::connected(TcpConfig::shadow(), millis(50), 1);
    pair.trace = Some(Vec::new());
    pair.ends[0].tcb.write(&pair.cfg, pair.now, 3000);
    pair.ends[0].tcb.write(&pair.cfg, pair.now, 500);
    pair.run_until(at(1000));
    assert_eq!(payloads(&pair).iter().map(|sent| sent.1).collect::<Vec<_>>(), [1460, 1460, 80, 500]);
}

#[test]
fn a_closed_window_is_probed_and_opens_again() {
    let cfg = TcpConfig { receive_buffer: BufferLimits::fixed(40_000), ..TcpConfig::linux() };
    let mut pair = Pair::connected(cfg, millis(10), 1);
    pair.ends[1].reads = false;
    pair.ends[0].to_write = 100_000;
    pair.run_until(at(3000));
    assert_eq!(pair.ends[1].tcb.readable(), 20_000);
    pair.trace = Some(Vec::new());
    // The window update is lost; a probe finds the window open.
    pair.wires[1].loss = 1.0;
    pair.ends[1].reads = true;
    pair.run_until(at(3100));
    pair.wires[1].loss = 0.0;
    pair.run_until(at(20_000));
    assert_eq!(pair.ends[1].read, 100_000);
    let probes = pair.trace.as_ref().unwrap().iter().filter(|(_, side, segment)| *side == 0 && segment.len == 0).count();
    assert!((1..=3).contains(&probes), "{probes}");
}

#[test]
fn the_receive_window_grows_to_its_maximum_where_the_path_needs_it() {
    let mut pair = Pair::connected(TcpConfig { hystart: false, ..TcpConfig::linux() }, millis(100), 1);
    pair.wires[0].rate = Bandwidth::from_bits_per_sec(1_000_000_000);
    assert!(pair.ends[0].tcb.info(&pair.cfg).peer_window <= 65_536);
    pair.ends[0].to_write = 200_000_000;
    pair.run_until(at(6000));
    assert_eq!(pair.ends[0].tcb.info(&pair.cfg).peer_window, (32 << 20) / 2);
    assert_eq!(pair.ends[0].tcb.info(&pair.cfg).send_buffer, 4_194_304);
}

/// A writer who fills the congestion window whenever there is room keeps the buffer that a connection begins with, twice ten segments of 4,352 B: an acknowledgement of one segment lets two go,
/// which fill the window again (`tcp_should_expand_sndbuf`, asked after that). A window larger than what the buffer holds makes it grow.
#[test]
fn a_full_congestion_window_leaves_the_send_buffer_as_it_is() {
    let mut pair = Pair::connected(TcpConfig::linux(), millis(50), 1);
    pair.wires[0].rate = Bandwidth::from_bits_per_sec(1_000_000_000);
    pair.ends[0].to_write = 100_000_000;
    let info = |pair: &Pair| pair.ends[0].tcb.info(&pair.cfg);
    while info(&pair).cwnd_segments == 10 {
        assert!(pair.step(at(3000)));
    }
    assert_eq!((info(&pair).cwnd_segments, info(&pair).send_buffer), (11, 87_040));
    pair.run_until(at(3000));
    assert_eq!(info(&pair).send_buffer, 4 << 20);
}

#[test]
fn a_small_fixed_buffer_limits_the_rate() {
    let cfg = TcpConfig { receive_buffer: BufferLimits::fixed(100_000), ..TcpConfig::linux() };
    let mut pair = Pair::connected(cfg, millis(50), 1);
    pair.ends[0].to_write = 10_000_000;
    pair.run_until(at(200));
    let before = pair.ends[1].read;
    pair.run_until(at(10_200));
    let per_round = (pair.ends[1].read - before) as f64 / 100.0;
    assert!((45_000.0..=50_000.0).contains(&per_round), "{per_round}");
}

#[test]
fn a_writer_is_called_when_a_third_of_the_buffer_is_free() {
    let cfg = TcpConfig { send_buffer: BufferLimits::fixed(90_000), ..TcpConfig::linux() };
    let mut pair = Pair::connected(cfg, millis(50), 1);
    pair.ends[0].effects = Effects::NONE;
    let taken = pair.ends[0].tcb.write(&pair.cfg, pair.now, 1_000_000);
    assert_eq!(taken, 90_000);
    assert_eq!(pair.ends[0].tcb.send_space(&pair.cfg), 0);
    while !pair.ends[0].effects.has(Effects::WRITABLE) {
        assert!(pair.ends[0].tcb.send_space(&pair.cfg) < 30_000, "called late");
        assert!(pair.step(at(5000)));
    }
    assert!(pair.ends[0].tcb.send_space(&pair.cfg) >= 30_000, "called early");
}

#[test]
fn an_idle_connection_starts_again_from_ten_segments() {
    for (restart, wanted) in [(true, 10), (false, 80)] {
        let cfg = TcpConfig { slow_start_after_idle: restart, hystart: false, ..textbook() };
        let mut pair = Pair::connected(cfg, millis(50), 1);
        pair.ends[0].to_write = 70 * 1448;
        pair.run_until(at(5000));
        assert_eq!(pair.ends[0].tcb.info(&pair.cfg).cwnd_segments, 80);
        pair.run_until(at(20_000));
        pair.ends[0].to_write = 1448;
        pair.run_until(at(20_010));
        assert_eq!(pair.ends[0].tcb.info(&pair.cfg).cwnd_segments, wanted);
    }
}

/// On Linux 6.18 the window, 143 when a pause of more than a time-out had halved it, was 143 after 72 records of 536 bytes, one each 30, 100 or 170 ms: what is
/// acknowledged keeps it, used or not.
#[test]
fn a_window_that_is_hardly_used_stays() {
    let mut pair = Pair::connected(TcpConfig::linux(), millis(50), 1);
    pair.ends[0].to_write = 400_000;
    pair.run_until(at(1100));
    for interval in [30, 100, 170] {
        for _ in 0..24 {
            pair.ends[0].to_write = 536;
            let end = pair.now + millis(interval);
            pair.run_until(end);
        }
        assert_eq!(pair.ends[0].tcb.info(&pair.cfg).cwnd_segments, 143, "each {interval} ms");
    }
}

/// Three writes after a pause of a time-out and more, while others have the uplink: the first alone finds the connection idle.
#[test]
fn an_idle_connection_is_restarted_once() {
    let mut pair = Pair::connected(TcpConfig { hystart: false, ..textbook() }, millis(50), 1);
    pair.ends[0].to_write = 70 * 1448;
    pair.run_until_read(70 * 1448, at(2000));
    // What came last left 50 ms ago.
    let end = pair.now + pair.ends[0].tcb.info(&pair.cfg).rto;
    pair.run_until(end);
    assert_eq!(pair.ends[0].tcb.info(&pair.cfg).cwnd_segments, 80);
    let free_again = pair.now + millis(20);
    pair.wires[0].occupy(free_again);
    for _ in 0..3 {
        pair.ends[0].tcb.write(&pair.cfg, pair.now, 1448);
    }
    assert_eq!(pair.ends[0].tcb.info(&pair.cfg).cwnd_segments, 40);
}

/// RFC 7661's concern as Linux answers it: what the application does not use does not grow.
#[test]
fn an_application_limited_window_does_not_grow() {
    let mut pair = Pair::connected(textbook(), millis(50), 1);
    for _ in 0..200 {
        pair.ends[0].to_write = 2 * 1448;
        let end = pair.now + millis(100);
        pair.run_until(end);
    }
    assert_eq!(pair.ends[0].tcb.info(&pair.cfg).cwnd_segments, 10);
}

#[test]
fn an_idle_end_keeps_no_heap() {
    let mut pair = Pair::connected(TcpConfig::linux(), millis(20), 3);
    pair.wires[0].loss = 0.05;
    pair.ends[0].to_write = 500_000;
    pair.ends[1].to_write = 500_000;
    pair.run_until(at(30_000));
    for end in &pair.ends {
        assert!(end.tcb.flight.is_none() && end.tcb.cuts.is_none() && end.tcb.receive.is_whole());
        assert_eq!(end.tcb.deadline(), SimTime::MAX);
        assert_eq!(end.read, 500_000);
    }
}

#[test]
fn closing_is_a_fin_each_way_after_all_data() {
    let mut pair = Pair::connected(TcpConfig::linux(), millis(10), 1);
    pair.trace = Some(Vec::new());
    pair.ends[0].to_write = 100_000;
    pair.ends[0].close_when_written = true;
    pair.run_until(at(2000));
    assert_eq!(pair.ends[1].read, 100_000);
    assert!(pair.ends[1].peer_closed_at.is_some());
    assert_eq!((pair.ends[0].tcb.state(), pair.ends[1].tcb.state()), (State::FinWait2, State::CloseWait));
    // The half that is open still carries data.
    pair.ends[1].to_write = 50_000;
    pair.ends[1].close_when_written = true;
    pair.run_until(at(4000));
    assert_eq!(pair.ends[0].read, 50_000);
    assert_eq!((pair.ends[0].tcb.state(), pair.ends[1].tcb.state()), (State::TimeWait, State::Closed));
    let fins = pair.trace.as_ref().unwrap().iter().filter(|(.., segment)| segment.flags.has(Flags::FIN)).count();
    assert_eq!(fins, 2);
}

#[test]
fn an_abort_resets_the_other_end() {
    let mut pair = Pair::connected(TcpConfig::linux(), millis(10), 1);
    pair.ends[0].to_write = 1_000_000;
    pair.run_until(at(70));
    pair.ends[0].to_write = 0;
    pair.ends[0].tcb.abort();
    pair.run_until(at(1000));
    assert!(pair.ends[1].effects.has(Effects::RESET));
    assert_eq!((pair.ends[0].tcb.state(), pair.ends[1].tcb.state()), (State::Closed, State::Closed));
    assert_eq!(pair.next_event(), SimTime::MAX);
}

#[test]
fn info_tells_what_kist_asks() {
    let mut pair = Pair::connected(TcpConfig::linux(), millis(50), 1);
    pair.ends[0].to_write = 40_000;
    pair.run_until(at(210));
    let info = pair.ends[0].tcb.info(&pair.cfg);
    assert_eq!((info.cwnd_segments, info.unacked_segments, info.mss), (10, 10, 1448));
    assert_eq!(info.notsent_bytes, 40_000 - 14_480);
    assert_eq!(info.unacked_bytes, 14_480);
    assert_eq!(info.srtt, Some(SimDuration::from_millis(100)));
    assert_eq!(info.min_rtt, Some(SimDuration::from_millis(100)));
}
