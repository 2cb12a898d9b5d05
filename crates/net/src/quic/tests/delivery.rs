//! Every byte of every stream arrives once and in order, whatever the wires and applications do.

use super::harness::Pair;
use super::millis;
use crate::quic::{ConnectionState, QuicConfig, QuicCongestion};
use crate::tcp::BufferLimits;
use onionlab_quantities::{Bandwidth, SimDuration, SimTime};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Action {
    Open(usize),
    Write(usize, usize, u64),
    HoldBack(usize, usize, bool),
    Finish(usize, usize),
    Reset(usize, usize),
    Wait(u64),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        2 => (0..2_usize).prop_map(Action::Open),
        8 => (0..2_usize, 0..8_usize, 1..60_000_u64).prop_map(|(side, stream, bytes)| Action::Write(side, stream, bytes)),
        2 => (0..2_usize, 0..8_usize, any::<bool>()).prop_map(|(side, stream, holds)| Action::HoldBack(side, stream, holds)),
        1 => (0..2_usize, 0..8_usize).prop_map(|(side, stream)| Action::Finish(side, stream)),
        1 => (0..2_usize, 0..8_usize).prop_map(|(side, stream)| Action::Reset(side, stream)),
        8 => (0..300_u64).prop_map(Action::Wait),
    ]
}

fn config() -> impl Strategy<Value = QuicConfig> {
    (any::<[bool; 6]>(), 2..60_u64, prop_oneof![Just(1452_u16), Just(1200), 1200..3000_u16]).prop_map(
        |(flags, window, datagram)| {
            let base = QuicConfig::standard();
            QuicConfig {
                congestion_control: if flags[0] { QuicCongestion::Cubic } else { QuicCongestion::NewReno },
                pacing: flags[1],
                ack_every: if flags[2] { 1 } else { 2 },
                max_datagram: datagram,
                stream_window: if flags[3] { base.stream_window } else { BufferLimits::new(window * 1000, window * 3000) },
                connection_window: if flags[4] {
                    base.connection_window
                } else {
                    BufferLimits::new(window * 1000, window * 1500)
                },
                send_buffer: if flags[5] { base.send_buffer } else { BufferLimits::fixed(30_000) },
                keep_alive: Some(SimDuration::from_secs(10)),
                // Nothing here is silent for longer, not even at the highest loss.
                idle_timeout: SimDuration::from_secs(2000),
                ..base
            }
        },
    )
}

/// Two ends, their wires, and what their applications do.
#[derive(Debug, Clone)]
struct Course {
    cfg: QuicConfig,
    seed: u64,
    loss: f64,
    delay: SimDuration,
    jitter: SimDuration,
    reorders: bool,
    rate: Bandwidth,
    queue: Option<(Bandwidth, u64)>,
    actions: Vec<Action>,
}

impl Course {
    /// Lets the applications do all that they are told, then read whatever comes and finish; streams that were not reset are whole, all are forgotten,
    /// and the connection ends with its idle time-out.
    fn run(self) -> Pair {
        let mut pair = Pair::new(self.cfg, self.delay, self.seed);
        pair.trace = Some(Vec::new());
        for wire in &mut pair.wires {
            wire.loss = self.loss;
            wire.jitter = self.jitter;
            wire.reorders = self.reorders;
            wire.rate = self.rate;
            wire.bottleneck = self.queue;
        }
        pair.open(0);
        let mut given_up = Vec::new();
        for action in self.actions {
            let streams = pair.ends[0].streams.len();
            match action {
                Action::Open(side) => {
                    pair.open(side);
                }
                Action::Write(side, stream, bytes) => {
                    let stream = &mut pair.ends[side].streams[stream % streams];
                    if !stream.finish_when_written && !given_up.contains(&stream.id) {
                        stream.to_write += bytes;
                    }
                }
                Action::HoldBack(side, stream, holds) => pair.ends[side].streams[stream % streams].holds_back = holds,
                Action::Finish(side, stream) => pair.ends[side].streams[stream % streams].finish_when_written = true,
                Action::Reset(side, stream) => {
                    let id = pair.ends[side].streams[stream % streams].id;
                    pair.ends[side].quic.reset(id);
                    given_up.push(id);
                    for end in &mut pair.ends {
                        end.streams[stream % streams].to_write = 0;
                    }
                }
                Action::Wait(time) => {
                    let end = pair.now + millis(time);
                    pair.run_until(end);
                }
            }
        }
        let streams = pair.ends[0].streams.len();
        let whole = [0, 1]
            .map(|side: usize| pair.ends[side].streams.iter().map(|stream| stream.written + stream.to_write).collect::<Vec<_>>());
        for end in &mut pair.ends {
            for stream in &mut end.streams {
                stream.holds_back = false;
                stream.finish_when_written = true;
            }
        }
        let limit = pair.now + SimDuration::from_secs(1500);
        pair.run_until(limit);
        for (side, whole) in whole.iter().enumerate() {
            for (stream, &whole) in whole.iter().enumerate() {
                let (end, peer) = (&pair.ends[side], &pair.ends[1 - side]);
                let (sent, got) = (&end.streams[stream], &peer.streams[stream]);
                if given_up.contains(&sent.id) {
                    assert!(got.read <= whole);
                    continue;
                }
                assert_eq!(end.quic.state(), ConnectionState::Established);
                assert!(!sent.reset && !got.reset);
                assert_eq!((sent.to_write, sent.written, got.read), (0, whole, whole), "stream {stream}");
                assert_eq!(end.quic.bytes_acked(sent.id), whole);
                assert!(sent.connected_at.is_some() && got.connected_at.is_some());
                assert!(got.closed_at.is_some());
            }
        }
        for end in &mut pair.ends {
            for stream in 0..streams {
                end.quic.release(end.streams[stream].id);
            }
        }
        // The last PING is answered.
        let limit = pair.now + SimDuration::from_secs(300);
        pair.run_until(limit);
        for end in &pair.ends {
            let info = end.quic.connection_info();
            assert_eq!((info.in_flight, info.streams), (0, 0), "drained: {:?}", end.quic);
            assert_eq!(end.quic.busy, 0);
            assert!(end.quic.fresh.is_empty() && end.quic.again.is_empty() && end.quic.controls.is_empty());
            assert_eq!(end.quic.loss_at, SimTime::MAX);
        }
        let limit = pair.now + SimDuration::from_secs(5000);
        pair.run_until(limit);
        for end in &pair.ends {
            assert_eq!(end.quic.state(), ConnectionState::Closed);
            assert_eq!(end.quic.deadline(), SimTime::MAX, "no timer is left");
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
        reorders in any::<bool>(),
        rate in prop_oneof![Just(Bandwidth::UNLIMITED), (500_000..50_000_000_u64).prop_map(Bandwidth::from_bits_per_sec)],
        queue in prop_oneof![Just(None), (5_000..100_000_u64).prop_map(|limit| Some((Bandwidth::from_bits_per_sec(2_000_000), limit)))],
    ) {
        Course { cfg, seed, loss, delay: millis(delay), jitter: millis(jitter), reorders, rate, queue, actions }.run();
    }

    /// The same calls give the same packets.
    #[test]
    fn the_same_calls_give_the_same_packets(seed in any::<u64>(), loss in 0.0..0.05_f64) {
        let run = || {
            let mut pair = Pair::new(QuicConfig::standard(), millis(20), seed);
            pair.trace = Some(Vec::new());
            pair.wires[0].loss = loss;
            pair.wires[1].loss = loss;
            for stream in 0..3 {
                pair.open(stream % 2);
                pair.ends[0].streams[stream].to_write = 100_000;
                pair.ends[1].streams[stream].to_write = 20_000;
            }
            pair.run_until(SimTime::from_nanos(20_000_000_000));
            pair.trace
        };
        prop_assert_eq!(run(), run());
    }
}
