//! Every byte arrives once and in order, whatever the wires and applications do.

use super::harness::{Judge, Pair};
use super::millis;
use crate::tcp::{BufferLimits, CongestionControl, Effects, State, TcpConfig};
use onionlab_quantities::{Bandwidth, SimDuration, SimTime};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Action {
    Write(usize, u64),
    Read(usize, u64),
    Wait(u64),
    ReadAll(usize, bool),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        (0..2_usize, 1..60_000_u64).prop_map(|(side, bytes)| Action::Write(side, bytes)),
        (0..2_usize, 1..40_000_u64).prop_map(|(side, bytes)| Action::Read(side, bytes)),
        (0..400_u64).prop_map(Action::Wait),
        (0..2_usize, any::<bool>()).prop_map(|(side, reads)| Action::ReadAll(side, reads)),
    ]
}

fn config() -> impl Strategy<Value = TcpConfig> {
    (any::<[bool; 8]>(), 1..40_u64, prop_oneof![Just(1448_u32), Just(536), 200..3000_u32]).prop_map(|(flags, buffer, mss)| {
        let base = if flags[7] { TcpConfig::shadow() } else { TcpConfig::linux() };
        TcpConfig {
            congestion_control: if flags[0] { CongestionControl::Cubic } else { CongestionControl::Reno },
            mss,
            sack: flags[1],
            rack_tlp: flags[2],
            prr: flags[3],
            nagle: flags[4],
            // Shadow's time-outs hardly ever come down again: the test would have to wait long.
            max_rto: if flags[7] { SimDuration::from_secs(8) } else { base.max_rto },
            delayed_ack: if flags[5] { base.delayed_ack } else { SimDuration::ZERO },
            receive_buffer: if flags[6] { base.receive_buffer } else { BufferLimits::fixed(buffer * 1000) },
            ..base
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_arrives_once_and_in_order(
        cfg in config(),
        actions in proptest::collection::vec(action(), 1..40),
        seed in any::<u64>(),
        loss in prop_oneof![Just(0.0), 0.0..0.1_f64],
        delay in 1..120_u64,
        jitter in 0..60_u64,
        rate in prop_oneof![Just(Bandwidth::UNLIMITED), (500_000..50_000_000_u64).prop_map(Bandwidth::from_bits_per_sec)],
        queue in prop_oneof![Just(None), (5_000..100_000_u64).prop_map(|limit| Some((Bandwidth::from_bits_per_sec(2_000_000), limit)))],
    ) {
        let mut pair = Pair::new(cfg, millis(delay), seed);
        pair.judges = Some([Judge::default(), Judge::default()]);
        for wire in &mut pair.wires {
            wire.loss = loss;
            wire.jitter = millis(jitter);
            wire.rate = rate;
            wire.bottleneck = queue;
        }
        for action in actions {
            match action {
                Action::Write(side, bytes) => pair.ends[side].to_write += bytes,
                Action::Read(side, bytes) => {
                    let end = &mut pair.ends[side];
                    let bytes = bytes.min(end.tcb.readable());
                    end.tcb.read(&pair.cfg, pair.now, bytes);
                    end.read += bytes;
                }
                Action::Wait(time) => {
                    let end = pair.now + millis(time);
                    pair.run_until(end);
                }
                Action::ReadAll(side, reads) => pair.ends[side].reads = reads,
            }
        }
        let whole = [0, 1].map(|side: usize| pair.ends[side].written + pair.ends[side].to_write);
        for end in &mut pair.ends {
            end.reads = true;
            end.close_when_written = true;
        }
        let limit = pair.now + SimDuration::from_secs(4000);
        pair.run_until(limit);
        for (side, &whole) in whole.iter().enumerate() {
            let (end, peer) = (&pair.ends[side], &pair.ends[1 - side]);
            prop_assert_eq!(end.to_write, 0, "all written: {:?}", &pair.ends);
            prop_assert_eq!(end.written, whole);
            prop_assert_eq!(peer.read, whole, "all read: {:?}", &pair.ends);
            prop_assert_eq!(peer.tcb.bytes_received(), whole);
            prop_assert_eq!(end.tcb.bytes_acked(), whole);
            prop_assert!(!end.effects.has(Effects::RESET));
            prop_assert!(peer.peer_closed_at.is_some());
            prop_assert!(matches!(end.tcb.state(), State::Closed | State::TimeWait), "{:?}", end.tcb.state());
            prop_assert!(end.tcb.flight.is_none());
            prop_assert_eq!(end.tcb.deadline(), SimTime::MAX);
        }
    }

    /// The same calls give the same segments.
    #[test]
    fn the_same_calls_give_the_same_segments(seed in any::<u64>(), loss in 0.0..0.05_f64) {
        let run = || {
            let mut pair = Pair::new(TcpConfig::linux(), millis(20), seed);
            pair.trace = Some(Vec::new());
            pair.wires[0].loss = loss;
            pair.wires[1].loss = loss;
            pair.ends[0].to_write = 300_000;
            pair.ends[1].to_write = 50_000;
            let limit = SimTime::from_nanos(20_000_000_000);
            pair.run_until(limit);
            pair.trace
        };
        prop_assert_eq!(run(), run());
    }
}
