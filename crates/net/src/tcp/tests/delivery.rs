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

/// Two ends, their wires, and what their applications do.
#[derive(Clone)]
struct Course {
    cfg: TcpConfig,
    seed: u64,
    loss: f64,
    delay: SimDuration,
    jitter: SimDuration,
    rate: Bandwidth,
    queue: Option<(Bandwidth, u64)>,
    actions: Vec<Action>,
}

impl Course {
    /// Lets the applications do all that they are told, then read whatever comes and close; both ends end with nothing left to do.
    fn run(self) -> Pair {
        let mut pair = Pair::new(self.cfg, self.delay, self.seed);
        pair.judges = Some([Judge::default(), Judge::default()]);
        pair.trace = Some(Vec::new());
        for wire in &mut pair.wires {
            wire.loss = self.loss;
            wire.jitter = self.jitter;
            wire.rate = self.rate;
            wire.bottleneck = self.queue;
        }
        for action in self.actions {
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
            assert_eq!(end.to_write, 0, "all written: {:?}", &pair.ends);
            assert_eq!(end.written, whole);
            assert_eq!(peer.read, whole, "all read: {:?}", &pair.ends);
            assert_eq!(peer.tcb.bytes_received(), whole);
            assert_eq!(end.tcb.bytes_acked(), whole);
            assert!(!end.effects.has(Effects::RESET));
            assert!(peer.peer_closed_at.is_some());
            assert!(matches!(end.tcb.state(), State::Closed | State::TimeWait), "{:?}", end.tcb.state());
            assert!(end.tcb.flight.is_none());
            assert_eq!(end.tcb.deadline(), SimTime::MAX);
        }
        pair
    }
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
        Course { cfg, seed, loss, delay: millis(delay), jitter: millis(jitter), rate, queue, actions }.run();
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

/// The window is halved below what is in flight because a tail loss probe repaired a loss; the next probe goes nevertheless.
#[test]
fn a_probe_goes_beyond_a_window_that_was_lowered_meanwhile() {
    let pair = Course {
        cfg: TcpConfig {
            congestion_control: CongestionControl::Reno,
            prr: false,
            delayed_ack: SimDuration::ZERO,
            ..TcpConfig::linux()
        },
        seed: 8_440_467_899_589_226_143,
        loss: 0.040_375_948_280_131_434,
        delay: millis(1),
        jitter: millis(54),
        rate: Bandwidth::from_bits_per_sec(11_228_796),
        queue: None,
        actions: vec![
            Action::ReadAll(1, false),
            Action::Wait(97),
            Action::Write(0, 20_103),
            Action::Write(1, 24_617),
            Action::Write(0, 49_778),
            Action::Wait(222),
            Action::ReadAll(1, true),
            Action::Read(1, 1),
            Action::Wait(90),
            Action::Wait(321),
            Action::Write(0, 8689),
            Action::Wait(136),
        ],
    }
    .run();
    assert!(pair.probes_beyond > 0, "the case is still reached");
}

/// Plain Reno knows neither tail loss probes nor proportional reduction, whatever is configured beside it.
#[test]
fn plain_reno_sends_the_same_with_probes_configured() {
    let shadow = TcpConfig {
        congestion_control: CongestionControl::Reno,
        mss: 536,
        max_rto: SimDuration::from_secs(8),
        ..TcpConfig::shadow()
    };
    let four_segments = Course {
        cfg: TcpConfig { receive_buffer: BufferLimits::fixed(2000), ..shadow.clone() },
        seed: 13_166_261_425_359_119_443,
        loss: 0.098_576_308_963_041_43,
        delay: millis(28),
        jitter: millis(48),
        rate: Bandwidth::UNLIMITED,
        queue: None,
        actions: vec![
            Action::Wait(99),
            Action::ReadAll(1, false),
            Action::Write(0, 16_144),
            Action::Read(0, 1),
            Action::Write(0, 37_864),
            Action::Wait(162),
            Action::Write(1, 29_217),
            Action::ReadAll(1, true),
            Action::Wait(301),
            Action::Write(0, 38_713),
            Action::Wait(385),
            Action::Write(1, 14_498),
            Action::Write(0, 36_577),
            Action::Write(1, 38_079),
            Action::ReadAll(0, false),
            Action::Wait(214),
            Action::ReadAll(1, false),
            Action::Read(0, 1464),
            Action::Wait(240),
            Action::Wait(173),
        ],
    };
    let six_segments = Course {
        cfg: TcpConfig {
            nagle: true,
            delayed_ack: SimDuration::ZERO,
            receive_buffer: BufferLimits::fixed(3000),
            ..shadow.clone()
        },
        seed: 8_242_660_064_583_424_720,
        loss: 0.090_362_936_381_904_22,
        delay: millis(18),
        jitter: millis(1),
        rate: Bandwidth::UNLIMITED,
        queue: None,
        actions: vec![
            Action::Wait(38),
            Action::Write(0, 56_940),
            Action::Write(0, 38_877),
            Action::Wait(19),
            Action::Write(0, 48_348),
            Action::Write(0, 1),
            Action::Write(1, 22_462),
            Action::Write(1, 18_413),
            Action::Write(0, 1),
            Action::Write(1, 59_638),
            Action::Wait(0),
            Action::Write(1, 50_384),
        ],
    };
    for course in [four_segments, six_segments] {
        let sent = |rack_tlp: bool, prr: bool| {
            let mut course = course.clone();
            (course.cfg.rack_tlp, course.cfg.prr) = (rack_tlp, prr);
            course.run().trace
        };
        let plain = sent(false, false);
        assert!(plain == sent(true, false) && plain == sent(true, true), "with {:?}", course.cfg);
    }
}
