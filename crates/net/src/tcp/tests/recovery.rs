//! What happens when segments are lost.

use super::harness::Pair;
use super::{at, millis, textbook};
use crate::tcp::flight::Phase;
use crate::tcp::{CongestionControl, TcpConfig};
use onionlab_quantities::{Bandwidth, SimDuration};

fn warm(cfg: TcpConfig) -> Pair {
    // 50 ms round trip, 10 Mbit/s.
    let mut pair = Pair::connected(cfg, millis(25), 1);
    pair.wires[0].rate = Bandwidth::from_bits_per_sec(10_000_000);
    pair.ends[0].to_write = 100 * 1448;
    pair.run_until(at(2000));
    assert_eq!(pair.ends[1].read, 100 * 1448);
    pair.trace = Some(Vec::new());
    pair
}

/// RFC 8985, section 7: the last two segments are lost. The probe goes two round trips and 2 ms after the last acknowledgement; its SACK
/// proves the other lost.
#[test]
fn a_tail_loss_is_repaired_by_a_probe_within_about_two_round_trips() {
    let mut pair = warm(TcpConfig::linux());
    pair.wires[0].lose = vec![108, 109];
    pair.ends[0].to_write = 10 * 1448;
    pair.run_until_read(110 * 1448, at(5000));
    let took = pair.now.saturating_since(at(2000));
    // A round trip (and ten serialisations) to the last acknowledgement, 102 ms, then a round trip and a half for the repairs.
    assert!(took > millis(200) && took < millis(250), "{took}");
    // It counts as a loss, at a window of ten and the eight that were acknowledged.
    let info = pair.ends[0].tcb.info(&pair.cfg);
    assert_eq!((info.retransmitted_segments, info.ssthresh_segments), (2, 18 * 717 / 1024));
}

/// A single segment's acknowledgement may be delayed: Linux allows 200 ms more for it. It counts as a loss once something beyond is
/// acknowledged.
#[test]
fn the_very_last_segment_waits_200_ms_longer() {
    let mut pair = warm(TcpConfig::linux());
    pair.wires[0].lose = vec![109];
    pair.ends[0].to_write = 10 * 1448;
    pair.run_until_read(110 * 1448, at(5000));
    let took = pair.now.saturating_since(at(2000));
    assert!(took > millis(300) && took < millis(420), "{took}");
    pair.run_until(at(3000));
    assert!(pair.ends[0].tcb.info(&pair.cfg).ssthresh_segments > 1000);
    pair.ends[0].to_write = 1448;
    pair.run_until(at(4000));
    // Idle since, it had ten segments of window.
    assert_eq!(pair.ends[0].tcb.info(&pair.cfg).ssthresh_segments, 7);
}

/// A short segment is lost while another waits behind it for Nagle: the probe is the one that waits (`TCP_NAGLE_OFF`), and its SACK proves the first
/// lost. Without that the probe would repeat the first.
#[test]
fn a_probe_takes_new_bytes_that_nagle_holds_back() {
    let mut pair = warm(TcpConfig::linux());
    assert!(pair.cfg.nagle);
    pair.wires[0].lose = vec![100];
    pair.ends[0].to_write = 100;
    pair.run_until(at(2010));
    pair.ends[0].to_write = 200;
    pair.run_until_read(100 * 1448 + 300, at(5000));
    let trace = pair.trace.as_ref().unwrap().iter();
    let sent: Vec<_> = trace.filter(|(_, end, segment)| *end == 0 && segment.len > 0).map(|(.., segment)| segment.len).collect();
    assert_eq!(sent, [100, 200, 100]);
}

#[test]
fn without_probes_the_tail_waits_for_the_timeout() {
    let mut pair = warm(TcpConfig { rack_tlp: false, ..TcpConfig::linux() });
    pair.wires[0].lose = vec![109];
    pair.ends[0].to_write = 10 * 1448;
    pair.run_until_read(110 * 1448, at(5000));
    let took = pair.now.saturating_since(at(2000));
    assert!(took > millis(250) && took < millis(400), "{took}");
}

/// A tail loss probe that waits for the wire when SACKs prove a loss is needed no more: one segment goes again, by the rules of recovery.
#[test]
fn a_probe_that_has_not_left_when_recovery_begins_never_leaves() {
    for segments in [10, 20] {
        let mut pair = warm(TcpConfig::linux());
        pair.wires[0].lose = vec![100];
        pair.wires[1].delay = millis(150);
        pair.ends[0].to_write = segments * 1448;
        pair.run_until(at(2100));
        pair.wires[0].occupy(at(2184));
        pair.run_until(at(2150));
        assert!(pair.ends[0].tcb.flight.as_deref().unwrap().probe_due, "two round trips without news");
        pair.run_until(at(2183));
        assert_eq!(pair.ends[0].tcb.flight.as_deref().unwrap().phase, Phase::Recovery);
        pair.run_until_read((100 + segments) * 1448, at(5000));
        assert_eq!(pair.ends[0].tcb.info(&pair.cfg).retransmitted_segments, 1);
    }
}

/// One loss in the middle costs a round trip and no time-out, under each rule of recovery.
#[test]
fn a_loss_in_the_middle_is_repaired_in_a_round_trip() {
    for (sack, rack_tlp, prr) in [
        (true, true, true),
        (true, false, true),
        (true, false, false),
        (true, true, false),
        (false, false, false),
        (false, true, true),
    ] {
        for congestion_control in [CongestionControl::Reno, CongestionControl::Cubic] {
            let cfg = TcpConfig { sack, rack_tlp, prr, congestion_control, slow_start_after_idle: false, ..TcpConfig::linux() };
            let mut pair = warm(cfg);
            let before = pair.ends[0].tcb.info(&pair.cfg).cwnd_segments;
            pair.wires[0].lose = vec![110];
            pair.ends[0].to_write = 30 * 1448;
            pair.run_until_read(130 * 1448, at(5000));
            let took = pair.now.saturating_since(at(2000));
            let info = pair.ends[0].tcb.info(&pair.cfg);
            assert!(took < millis(150), "{took} with {:?}", pair.cfg);
            assert_eq!(info.retransmitted_segments, 1, "with {:?}", pair.cfg);
            let shrunk = if congestion_control == CongestionControl::Reno { before / 2 } else { before * 717 / 1024 };
            assert_eq!(info.ssthresh_segments, shrunk, "with {:?}", pair.cfg);
        }
    }
}

#[test]
fn several_losses_in_a_window_are_repaired_together() {
    for rack_tlp in [true, false] {
        let mut pair = warm(TcpConfig { rack_tlp, slow_start_after_idle: false, ..TcpConfig::linux() });
        pair.wires[0].lose = vec![101, 103, 104, 109, 115];
        pair.ends[0].to_write = 40 * 1448;
        pair.run_until_read(140 * 1448, at(5000));
        let took = pair.now.saturating_since(at(2000));
        assert!(took < millis(200), "{took}");
        assert_eq!(pair.ends[0].tcb.info(&pair.cfg).retransmitted_segments, 5);
    }
}

/// RACK finds a retransmission that was lost in turn; three duplicates never do, and wait for the time-out.
#[test]
fn rack_finds_a_lost_retransmission() {
    let took = |rack_tlp: bool| {
        let mut pair = warm(TcpConfig { rack_tlp, slow_start_after_idle: false, ..TcpConfig::linux() });
        pair.wires[0].lose = vec![110];
        pair.wires[0].lose_resent = 1;
        pair.ends[0].to_write = 300 * 1448;
        pair.run_until_read(400 * 1448, at(8000));
        assert!(pair.ends[0].tcb.info(&pair.cfg).retransmitted_segments >= 2);
        pair.now.saturating_since(at(2000))
    };
    let (with, without) = (took(true), took(false));
    assert!(without > with + millis(100), "{with} against {without}");
}

/// What was sent during a recovery is lost as a whole: the acknowledgement that ends it sets the timer of a probe, not that of a time-out.
#[test]
fn a_probe_watches_over_what_a_recovery_leaves() {
    let mut pair = warm(TcpConfig { slow_start_after_idle: false, ..TcpConfig::linux() });
    pair.wires[0].lose = vec![110, 131, 132, 133];
    pair.ends[0].to_write = 30 * 1448;
    pair.run_until(at(2095));
    assert_eq!(pair.ends[0].tcb.flight.as_deref().unwrap().phase, Phase::Recovery);
    pair.ends[0].to_write = 3 * 1448;
    pair.run_until(at(2150));
    assert_eq!((pair.ends[1].read, pair.ends[0].tcb.flight.as_deref().unwrap().phase), (130 * 1448, Phase::Open));
    pair.run_until_read(133 * 1448, at(5000));
    let took = pair.now.saturating_since(at(2150));
    assert!(took < millis(220), "{took}");
}

/// After a time-out everything goes again by slow start, and nothing twice.
#[test]
fn a_timeout_resends_everything_by_slow_start() {
    let mut pair = warm(TcpConfig { slow_start_after_idle: false, ..TcpConfig::linux() });
    pair.wires[0].loss = 1.0;
    pair.ends[0].to_write = 30 * 1448;
    pair.run_until(at(2200));
    pair.wires[0].loss = 0.0;
    pair.run_until_read(130 * 1448, at(9000));
    let info = pair.ends[0].tcb.info(&pair.cfg);
    assert!(info.retransmitted_segments <= 33, "{}", info.retransmitted_segments);
}

/// A path that stalls for half a second and then delivers: the time-out was spurious, the window comes back (RFC 3522), and nothing goes again but what the time-out
/// (and before it a probe) sent. With RACK that needs the timestamp: the acknowledgement of the original comes a plausible while after the repetition left.
#[test]
fn a_spurious_timeout_is_undone() {
    for (rack_tlp, again) in [(false, 1), (true, 2)] {
        let mut pair = warm(TcpConfig { slow_start_after_idle: false, rack_tlp, ..TcpConfig::linux() });
        let before = pair.ends[0].tcb.info(&pair.cfg).cwnd_segments;
        pair.ends[0].to_write = 60 * 1448;
        pair.wires[0].delay = millis(500);
        pair.run_until(at(2480));
        assert_eq!(pair.ends[0].tcb.info(&pair.cfg).cwnd_segments, 1, "timed out");
        pair.wires[0].delay = millis(25);
        pair.run_until(at(4000));
        let info = pair.ends[0].tcb.info(&pair.cfg);
        assert!(info.cwnd_segments >= before, "{before}");
        assert_eq!(pair.ends[1].read, 160 * 1448);
        assert!(info.retransmitted_segments <= again, "{} went again", info.retransmitted_segments);
    }
}

/// Data sent while losses are repaired is lost too, and goes again before the repair is over: a reduction of its own follows (`tcp_time_to_recover`: `lost_out`).
#[test]
fn a_loss_among_what_a_recovery_sent_reduces_again() {
    let reductions = |lose: Vec<u64>| {
        let mut pair = Pair::connected(TcpConfig { hystart: false, ..TcpConfig::linux() }, millis(50), 1);
        pair.wires[0].rate = Bandwidth::from_bits_per_sec(100_000_000);
        pair.wires[0].lose = lose;
        pair.ends[0].to_write = 3000 * 1448;
        let (mut found, mut last) = (Vec::new(), u32::MAX);
        while pair.ends[1].read < 3000 * 1448 {
            assert!(pair.step(at(60_000)));
            let threshold = pair.ends[0].tcb.info(&pair.cfg).ssthresh_segments;
            if threshold != last {
                found.push(threshold);
                last = threshold;
            }
        }
        found
    };
    // 40 and 60 are of one flight; about the hundredth is sent during their repair.
    assert_eq!(reductions(vec![40, 60]).len(), 2, "the beginning, and one");
    let sent_meanwhile: Vec<_> = (90..130).filter(|&third| reductions(vec![40, 60, third]).len() == 3).collect();
    assert!(sent_meanwhile.len() >= 10, "{sent_meanwhile:?}");
}

/// A probe repeats what was not lost: the answer waits at the other end's uplink, and meanwhile something new has come. It says that both came (`FLAG_DSACK_TLP`), and the
/// window stays.
#[test]
fn a_probe_that_was_not_needed_costs_no_window_though_its_answer_acknowledges_more() {
    let mut pair = warm(TcpConfig::linux());
    pair.ends[0].to_write = 10 * 1448;
    // Acknowledgements wait for 300 ms: the probe goes after two round trips.
    pair.run_until(at(2010));
    pair.wires[1].occupy(at(2300));
    pair.run_until(at(2200));
    assert_eq!(pair.ends[0].tcb.info(&pair.cfg).retransmitted_segments, 1, "a probe");
    pair.ends[0].to_write = 1448;
    pair.run_until(at(4000));
    let info = pair.ends[0].tcb.info(&pair.cfg);
    assert_eq!(pair.ends[1].read, 111 * 1448);
    assert!(info.ssthresh_segments > 1000, "{}", info.ssthresh_segments);
}

/// PRR sends during recovery in proportion to what arrives; without it the sender is silent until half a window has arrived.
#[test]
fn proportional_reduction_spreads_the_sending() {
    let longest_silence = |prr: bool| {
        let cfg = TcpConfig { prr, congestion_control: CongestionControl::Reno, ..TcpConfig::linux() };
        let mut pair = Pair::connected(cfg, millis(25), 1);
        pair.wires[0].rate = Bandwidth::from_bits_per_sec(1_000_000_000);
        pair.wires[0].bottleneck = Some((Bandwidth::from_bits_per_sec(10_000_000), 1_000_000));
        pair.ends[0].to_write = 2000 * 1448;
        pair.wires[0].lose = vec![150];
        while pair.ends[0].tcb.info(&pair.cfg).retransmitted_segments == 0 {
            assert!(pair.step(at(5000)));
        }
        pair.trace = Some(Vec::new());
        let start = pair.now;
        pair.run_until(start + millis(200));
        let sent = pair.trace.iter().flatten().filter(|(_, side, _)| *side == 0).map(|(now, ..)| *now);
        let sent: Vec<_> = std::iter::once(start).chain(sent).collect();
        sent.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap()
    };
    let (with, without) = (longest_silence(true), longest_silence(false));
    assert!(with * 5 < without, "{with} {without}");
}

/// RFC 9438, equation 1, in a flow: one loss at a window of about 600, then the curve, measured each second.
#[test]
fn cubic_follows_its_curve_in_a_flow() {
    let cfg = TcpConfig { congestion_control: CongestionControl::Cubic, hystart: false, ..textbook() };
    let mut pair = Pair::connected(cfg, millis(50), 1);
    pair.wires[0].lose = vec![700];
    pair.ends[0].to_write = u64::MAX / 4;
    while pair.ends[0].tcb.info(&pair.cfg).ssthresh_segments > 1_000_000 {
        assert!(pair.step(at(5000)));
    }
    let max = pair.ends[0].tcb.flight.as_deref().unwrap().prior_cwnd;
    // Recovery takes a round trip; the epoch begins with the first acknowledgement after it.
    let start = pair.now + millis(100);
    let k = (f64::from(max) * 0.3 / 0.4).cbrt();
    for second in [1_u64, 3, 5, 7, 9, 12] {
        pair.run_until(start + SimDuration::from_secs(second));
        let formula = 0.4 * (second as f64 - k).powi(3) + f64::from(max);
        let got = f64::from(pair.ends[0].tcb.info(&pair.cfg).cwnd_segments);
        assert!((got / formula - 1.0).abs() < 0.04, "{second} s: {got} against {formula} (maximum {max}, K {k})");
    }
}

/// HyStart leaves slow start before a deep queue is full; without it the queue overflows.
#[test]
fn hystart_leaves_slow_start_before_the_queue_overflows() {
    let dropped = |hystart: bool| {
        let mut pair = Pair::connected(TcpConfig { hystart, ..TcpConfig::linux() }, millis(40), 1);
        pair.wires[0].rate = Bandwidth::from_bits_per_sec(1_000_000_000);
        pair.wires[0].bottleneck = Some((Bandwidth::from_bits_per_sec(20_000_000), 400_000));
        pair.ends[0].to_write = 4_000_000;
        pair.run_until_read(4_000_000, at(20_000));
        pair.wires[0].dropped
    };
    assert_eq!(dropped(true), 0);
    assert!(dropped(false) > 10);
}
