//! Loss detection and congestion control step by step, worked out by hand from RFC 9002's appendices A and B.

use super::harness::Pair;
use super::{at, millis, textbook};
use crate::quic::congestion::Congestion;
use crate::quic::packet::{Frame, NOTHING};
use crate::quic::sent::{Mark, SentPackets};
use crate::quic::{QuicConfig, QuicCongestion};
use onionlab_quantities::{SimDuration, SimTime};

/// A connected pair with a round trip of 100 ms that is well known: the variation is almost gone.
fn steady(cfg: QuicConfig) -> Pair {
    let mut pair = Pair::connected(cfg, millis(50), 1);
    for _ in 0..60 {
        pair.ends[0].streams[0].to_write = 100;
        let end = pair.now + millis(200);
        pair.run_until(end);
    }
    assert_eq!(pair.ends[0].quic.rtt.smoothed, millis(100));
    assert!(pair.ends[0].quic.rtt.variation < SimDuration::from_micros(250));
    pair.trace = Some(Vec::new());
    pair.wires[0].lose = Vec::new();
    pair
}

/// Sends so many full packets at once of which these are lost, and returns when which offsets left afterwards, in microseconds from the start.
fn resent(pair: &mut Pair, packets: u64, lost: &[u64]) -> Vec<(u64, u64)> {
    let begins = pair.now;
    let sent = 60 + 1;
    pair.wires[0].lose = lost.iter().map(|packet| sent - 1 + packet).collect();
    pair.ends[0].streams[0].to_write = packets * 1420;
    pair.run_until(begins + millis(1));
    assert_eq!(pair.data_sent(0).len() as u64, packets);
    let first = 60 * 100;
    pair.run_until(begins + SimDuration::from_secs(3));
    assert_eq!(pair.delivered(0), first + packets * 1420);
    let later = pair.data_sent(0).into_iter().skip(packets as usize);
    later
        .flat_map(|(micros, frames)| frames.into_iter().map(move |frame| (micros, frame)))
        .filter_map(|(micros, frame)| match frame {
            Frame::Stream { offset, .. } => Some((micros - begins.as_micros(), (offset - first) / 1420)),
            _ => None,
        })
        .collect()
}

/// Section 6.1.1: packets 1 to 3 after the lost one are acknowledged in the same instant, a round trip later.
#[test]
fn three_later_packets_prove_a_loss() {
    let mut pair = steady(textbook());
    assert_eq!(resent(&mut pair, 5, &[0]), [(100_000, 0)]);
}

/// Section 6.1.2: with only two later packets it is lost 9/8 of a round trip after it was sent.
#[test]
fn two_later_packets_prove_it_after_nine_eighths_of_a_round_trip() {
    let mut pair = steady(textbook());
    assert_eq!(resent(&mut pair, 3, &[0]), [(112_500, 0)]);
}

/// Section 6.2.1: nothing comes, so smoothed + max(4 * variation, 1 ms) + 25 ms after the last packet two probes repeat the oldest; what else was lost
/// is found when they are acknowledged.
#[test]
fn a_lost_tail_is_probed() {
    let mut pair = steady(textbook());
    let got = resent(&mut pair, 2, &[0, 1]);
    assert_eq!(got[..2], [(126_000, 0), (126_000, 0)]);
    assert_eq!(got[2..], [(226_000, 1)]);
}

/// The time-out doubles with each that passes without an acknowledgement.
#[test]
fn probe_time_outs_double() {
    let mut pair = steady(textbook());
    let begins = pair.now;
    pair.wires[0].loss = 1.0;
    pair.ends[0].streams[0].to_write = 1000;
    pair.run_until(begins + millis(2000));
    let mut times: Vec<_> = pair.data_sent(0).iter().map(|sent| sent.0 - begins.as_micros()).collect();
    times.dedup();
    let timeout = 126_000;
    assert_eq!(times, [0, timeout, 3 * timeout, 7 * timeout, 15 * timeout]);
    assert_eq!(pair.ends[0].quic.connection_info().pto_count, 4);
}

/// Appendix B.5, B.6: ten datagrams of 1452 bytes; slow start; a loss halves; nothing grows until what was sent after the loss is acknowledged; then
/// one datagram for each window.
#[test]
fn new_reno_step_by_step() {
    let cfg = QuicConfig { pacing: false, ..QuicConfig::standard() };
    let mut window = Congestion::new(&cfg);
    assert_eq!((window.cwnd, window.ssthresh), (14_520, u64::MAX));
    for packet in 0..10 {
        assert!(window.has_room(&cfg));
        window.on_sent(&cfg, at(packet), 1452, None);
    }
    assert!(!window.has_room(&cfg));
    assert_eq!(window.in_flight, 14_520);
    // Four are acknowledged: 14,520 + 4 * 1452.
    for packet in 0..4 {
        assert!(window.is_used(&cfg, at(100), false));
        window.on_acked(&cfg, at(100), at(packet), 1452, true);
    }
    assert_eq!((window.cwnd, window.in_flight), (20_328, 8712));
    // The packet sent at 4 ms is lost: half.
    window.forget(1452);
    assert!(window.on_loss(&cfg, at(110), at(4)));
    assert_eq!((window.cwnd, window.ssthresh), (10_164, 10_164));
    // Another of before: the same recovery period.
    window.forget(1452);
    assert!(!window.on_loss(&cfg, at(115), at(5)));
    for packet in 6..10 {
        window.on_acked(&cfg, at(120), at(packet), 1452, true);
    }
    assert_eq!((window.cwnd, window.in_flight), (10_164, 0));
    // Seven packets make one window: each adds 1452 * 1452 / cwnd.
    for packet in 0..7 {
        window.on_sent(&cfg, at(130 + packet), 1452, None);
    }
    for (packet, grown) in [10_371, 10_574, 10_774, 10_969, 11_161, 11_350, 11_536].into_iter().enumerate() {
        window.on_acked(&cfg, at(230), at(130 + packet as u64), 1452, true);
        assert_eq!(window.cwnd, grown);
    }
    // Never below two datagrams.
    for loss in 0..5 {
        assert!(window.on_loss(&cfg, at(300 + loss), at(300 + loss)));
    }
    assert_eq!((window.cwnd, window.ssthresh), (2904, 1452));
}

#[test]
fn cubic_shrinks_to_seven_tenths() {
    let cfg = QuicConfig { congestion_control: QuicCongestion::Cubic, ..QuicConfig::standard() };
    let mut window = Congestion::new(&cfg);
    window.cwnd = 100 * 1452;
    assert!(window.on_loss(&cfg, at(10), at(5)));
    assert_eq!(window.cwnd, 70 * 1452);
}

/// A window that is not filled does not grow (section 7.8).
#[test]
fn an_unused_window_does_not_grow() {
    let pair = steady(textbook());
    assert_eq!(pair.ends[0].quic.connection_info().cwnd, 14_520);
}

/// Section 7.6.3's example with our numbers: packets at 0, 1, 2 s are lost, the one at 3 s is acknowledged; the span of two seconds
/// between the first and the last is longer than persistent congestion needs. An acknowledged packet between them halves it.
#[test]
fn the_span_of_losses_ends_at_an_acknowledged_packet() {
    for (acknowledged, span) in [(None, 2000), (Some(1), 0), (Some(0), 1000)] {
        let mut packets = SentPackets::new();
        for second in 0..4 {
            packets.push(at(1000 * second), 1200, Mark::Flying { eliciting: true }, NOTHING, [Frame::Ping].into_iter());
        }
        let mut frames = Vec::new();
        for number in acknowledged.into_iter().chain([3]) {
            packets.acknowledge(number, number + 1, |_, _| {}, &mut frames);
        }
        packets.largest_acked = 3;
        let losses = packets.detect(at(3100), millis(200), SimTime::ZERO, &mut frames);
        assert_eq!((losses.span, losses.packets), (millis(span), 3 - acknowledged.map_or(0, |_| 1)));
    }
}

/// Nothing arrives for five seconds: the window is the least one, from which slow start begins (section 7.6.2).
#[test]
fn a_long_outage_is_persistent_congestion() {
    for (outage, persistent) in [(300, false), (5000, true)] {
        let mut pair = steady(textbook());
        let begins = pair.now;
        pair.ends[0].streams[0].to_write = 2_000_000;
        pair.run_until(begins + millis(350));
        pair.wires[0].loss = 1.0;
        pair.run_until(begins + millis(350 + outage));
        pair.wires[0].loss = 0.0;
        let mut least = u64::MAX;
        while pair.delivered(0) < 2_006_000 {
            assert!(pair.step(begins + SimDuration::from_secs(60)));
            least = least.min(pair.ends[0].quic.connection_info().cwnd);
        }
        // Two datagrams, and what the two probes that are acknowledged add to them in the same step.
        assert_eq!(least <= 2904 + 2 * 1452, persistent, "{outage} ms: {least}");
    }
}

/// After an outage the path is longer: its least round trip is that of the new path if the congestion was persistent (section 5.2), and otherwise that of the old one.
#[test]
fn the_least_round_trip_is_measured_anew_after_persistent_congestion() {
    for (outage, least) in [(300, 100), (5000, 200)] {
        let mut pair = steady(textbook());
        let begins = pair.now;
        pair.ends[0].streams[0].to_write = 2_000_000;
        pair.run_until(begins + millis(350));
        pair.wires[0].loss = 1.0;
        pair.run_until(begins + millis(350 + outage));
        pair.wires[0].loss = 0.0;
        for wire in &mut pair.wires {
            wire.delay = millis(100);
        }
        pair.run_until(begins + SimDuration::from_secs(60));
        assert_eq!(pair.delivered(0), 2_006_000);
        let measured = pair.ends[0].quic.rtt.min;
        assert!(measured >= millis(least) && measured < millis(least + 30), "{outage} ms: {} us", measured.as_micros());
    }
}
