//! Two ends of a connection over two FIFO paths with delay, rate, queue limit, jitter and loss.

use crate::tcp::flight::Phase;
use crate::tcp::tcb::Probe;
use crate::tcp::{Effects, Flags, RoundTrips, Segment, Tcb, TcpConfig};
use onionlab_quantities::{Bandwidth, Bytes, RandomStream, Seed, SimDuration, SimTime};
use std::collections::VecDeque;

/// One direction: a wire of a certain rate, then a delay.
pub struct Wire {
    pub rate: Bandwidth,
    pub delay: SimDuration,
    pub jitter: SimDuration,
    pub loss: f64,
    /// Ordinals of segments with payload that are lost for certain.
    pub lose: Vec<u64>,
    /// So many of the next segments that repeat older ones are lost.
    pub lose_resent: u32,
    highest: u64,
    /// Bytes that wait beyond what the wire holds; more is dropped. The queue is behind the wire's own pacing by `bottleneck`.
    pub bottleneck: Option<(Bandwidth, u64)>,
    random: RandomStream,
    free_at: SimTime,
    bottleneck_free_at: SimTime,
    last_arrival: SimTime,
    sent: u64,
    data_sent: u64,
    pub dropped: u64,
    in_flight: VecDeque<(SimTime, Segment)>,
}

impl Wire {
    pub fn new(delay: SimDuration, seed: u64, name: &str) -> Self {
        Self {
            rate: Bandwidth::UNLIMITED,
            delay,
            jitter: SimDuration::ZERO,
            loss: 0.0,
            lose: Vec::new(),
            lose_resent: 0,
            highest: 0,
            bottleneck: None,
            random: RandomStream::new(Seed(seed), name, "wire"),
            free_at: SimTime::ZERO,
            bottleneck_free_at: SimTime::ZERO,
            last_arrival: SimTime::ZERO,
            sent: 0,
            data_sent: 0,
            dropped: 0,
            in_flight: VecDeque::new(),
        }
    }

    /// Other connections' packets take the wire until then.
    pub fn occupy(&mut self, until: SimTime) {
        self.free_at = self.free_at.max(until);
    }

    fn send(&mut self, cfg: &TcpConfig, now: SimTime, segment: Segment) {
        let bytes = Bytes::new(u64::from(segment.wire_bytes(cfg)));
        self.free_at = now + self.rate.transmission_time(bytes);
        let ordinal = self.sent;
        self.sent += 1;
        let data_ordinal = self.data_sent;
        self.data_sent += u64::from(segment.len > 0);
        let lost = self.random.at(2 * ordinal).chance(self.loss) || segment.len > 0 && self.lose.contains(&data_ordinal);
        let resent = segment.len > 0 && segment.seq < self.highest;
        self.highest = self.highest.max(segment.end());
        let lost = lost || resent && self.lose_resent > 0;
        self.lose_resent -= u32::from(resent && self.lose_resent > 0);
        if lost {
            self.dropped += 1;
            return;
        }
        let mut leaves = self.free_at;
        if let Some((rate, limit)) = self.bottleneck {
            let waiting = rate.bytes_in(self.bottleneck_free_at.saturating_since(leaves));
            if waiting.get() + bytes.get() > limit {
                self.dropped += 1;
                return;
            }
            leaves = leaves.max(self.bottleneck_free_at) + rate.transmission_time(bytes);
            self.bottleneck_free_at = leaves;
        }
        let jitter = self.jitter.mul_f64_rounded(self.random.at(2 * ordinal + 1).uniform());
        self.last_arrival = self.last_arrival.max(leaves + self.delay + jitter);
        self.in_flight.push_back((self.last_arrival, segment));
    }
}

/// What an end's application does: writes so much, reads at once or not.
pub struct End {
    pub tcb: Tcb,
    pub to_write: u64,
    pub close_when_written: bool,
    pub reads: bool,
    pub read: u64,
    pub written: u64,
    pub effects: Effects,
    pub connected_at: Option<SimTime>,
    pub peer_closed_at: Option<SimTime>,
    pub last_read_at: SimTime,
}

impl End {
    fn new(cfg: &TcpConfig) -> Self {
        Self {
            tcb: Tcb::new(cfg),
            to_write: 0,
            close_when_written: false,
            reads: true,
            read: 0,
            written: 0,
            effects: Effects::NONE,
            connected_at: None,
            peer_closed_at: None,
            last_read_at: SimTime::ZERO,
        }
    }
}

pub struct Pair {
    pub cfg: TcpConfig,
    pub now: SimTime,
    /// 0 connects, 1 listens; wire `i` leads from end `i`.
    pub ends: [End; 2],
    pub wires: [Wire; 2],
    /// Every segment sent: instant, end, segment.
    pub trace: Option<Vec<(SimTime, usize, Segment)>>,
    /// Judges each delivery against the bytes that arrived; costs memory by the byte.
    pub judges: Option<[Judge; 2]>,
    /// Tail loss probes of new data that left while more than the congestion window was under way.
    pub probes_beyond: u32,
    /// One past the last byte that each end may send, by what reached it.
    edges: [u64; 2],
}

/// An independent account of the bytes that reached an end.
#[derive(Default, Clone)]
pub struct Judge {
    arrived: Vec<bool>,
    in_order: usize,
}

impl Judge {
    fn note(&mut self, segment: &Segment) {
        let end = segment.seq as usize + usize::from(segment.len);
        if segment.len > 0 {
            self.arrived.resize(self.arrived.len().max(end), false);
            self.arrived[segment.seq as usize..end].fill(true);
        }
        self.in_order = self.in_order.max(1);
        while self.arrived.get(self.in_order) == Some(&true) {
            self.in_order += 1;
        }
    }
}

/// What a sender was about to do.
struct Before {
    next: u64,
    probe_due: bool,
    probe: Probe,
}

impl Before {
    fn of(tcb: &Tcb) -> Self {
        Self { next: tcb.next, probe_due: tcb.flight.as_deref().is_some_and(|flight| flight.probe_due), probe: tcb.probe }
    }
}

impl Pair {
    /// A pair whose handshake begins now.
    pub fn new(cfg: TcpConfig, one_way: SimDuration, seed: u64) -> Self {
        let mut pair = Self {
            ends: [End::new(&cfg), End::new(&cfg)],
            wires: [Wire::new(one_way, seed, "forth"), Wire::new(one_way, seed, "back")],
            now: SimTime::ZERO,
            trace: None,
            judges: None,
            probes_beyond: 0,
            edges: [0; 2],
            cfg,
        };
        pair.ends[1].tcb.listen();
        pair.ends[0].tcb.connect(&pair.cfg, SimTime::ZERO);
        pair
    }

    /// A pair that is connected, by a wire that loses nothing meanwhile.
    pub fn connected(cfg: TcpConfig, one_way: SimDuration, seed: u64) -> Self {
        let mut pair = Self::new(cfg, one_way, seed);
        pair.run_until(SimTime::ZERO + one_way * 4);
        assert!(pair.ends.iter().all(|end| end.connected_at.is_some()));
        pair
    }

    fn application(&mut self, side: usize) {
        let (cfg, now) = (&self.cfg, self.now);
        let end = &mut self.ends[side];
        if end.reads && end.tcb.readable() > 0 {
            let bytes = end.tcb.readable();
            end.tcb.read(cfg, now, bytes);
            end.read += bytes;
            end.last_read_at = now;
        }
        if end.to_write > 0 {
            let taken = end.tcb.write(cfg, now, end.to_write);
            end.to_write -= taken;
            end.written += taken;
        }
        if end.close_when_written && end.to_write == 0 && end.connected_at.is_some() {
            end.tcb.close();
        }
    }

    /// Lets each end send what it may while its wire is free.
    fn pump(&mut self) {
        for side in 0..2 {
            self.application(side);
            while self.wires[side].free_at <= self.now && self.send(side) {
                self.application(side);
            }
        }
    }

    /// Lets an end send its next segment, if it may.
    fn send(&mut self, side: usize) -> bool {
        let before = Before::of(&self.ends[side].tcb);
        let wants = self.ends[side].tcb.wants_send(&self.cfg);
        let segment = self.ends[side].tcb.next_segment(&self.cfg, self.now);
        assert_eq!(wants, segment.is_some(), "wants_send() is exact");
        let Some(segment) = segment else { return false };
        self.judge_sent(side, &segment, &before);
        if let Some(trace) = &mut self.trace {
            trace.push((self.now, side, segment.clone()));
        }
        self.wires[side].send(&self.cfg, self.now, segment);
        true
    }

    /// Neither window is exceeded: the other end's never, the congestion window only by a tail loss probe.
    ///
    /// What fills the congestion window is what is thought to be in the network, or with plain Reno all that is not acknowledged. A probe
    /// goes whatever fills it (RFC 8985, section 7.3; Linux: `tcp_write_xmit` with `push_one` 2), which may be more than all of it: the
    /// acknowledgement of an earlier probe lowers the window at once (section 7.4.2). But a probe is one segment, none goes while another
    /// is out, and in none but the open state.
    fn judge_sent(&mut self, side: usize, segment: &Segment, before: &Before) {
        if segment.len == 0 {
            return;
        }
        let end = segment.seq + u64::from(segment.len);
        assert!(end <= self.edges[side], "beyond the advertised window: {end} > {}", self.edges[side]);
        if segment.seq != before.next {
            return;
        }
        let tcb = &self.ends[side].tcb;
        let flight = tcb.flight.as_deref().unwrap();
        let filled = if self.cfg.plain_reno { flight.out() } else { flight.in_network() };
        let cwnd = tcb.congestion.cwnd;
        if before.probe_due {
            assert!(self.cfg.sack && self.cfg.rack_tlp && !self.cfg.plain_reno, "a probe of a TCP that knows none");
            assert_eq!((before.probe, tcb.probe), (Probe::None, Probe::New), "one probe at a time");
            assert_eq!(flight.phase, Phase::Open, "a probe while losses are repaired");
            assert!(!flight.probe_due, "a probe is one segment");
            self.probes_beyond += u32::from(filled > cwnd + 1);
        } else {
            assert!(filled <= cwnd, "{filled} in a window of {cwnd}");
        }
    }

    fn note(&mut self, side: usize, effects: Effects) {
        let now = self.now;
        let end = &mut self.ends[side];
        end.effects |= effects;
        if effects.has(Effects::CONNECTED) {
            assert!(end.connected_at.is_none(), "connected once");
            end.connected_at = Some(now);
        }
        if effects.has(Effects::PEER_CLOSED) {
            assert!(end.peer_closed_at.is_none(), "closed once");
            end.peer_closed_at = Some(now);
        }
    }

    /// The next instant at which something happens.
    pub fn next_event(&self) -> SimTime {
        let mut next = SimTime::MAX;
        for side in 0..2 {
            let (end, wire) = (&self.ends[side], &self.wires[side]);
            next = next.min(end.tcb.deadline());
            if let Some((at, _)) = wire.in_flight.front() {
                next = next.min(*at);
            }
            if end.tcb.wants_send(&self.cfg) {
                next = next.min(wire.free_at);
            }
        }
        next
    }

    /// Handles the next event if it comes until `end`; false if none does.
    pub fn step(&mut self, end: SimTime) -> bool {
        self.pump();
        let next = self.next_event();
        if next > end || next == SimTime::MAX {
            return false;
        }
        assert!(next >= self.now, "the clock never runs back");
        self.now = next;
        for side in 0..2 {
            let other = 1 - side;
            while self.wires[side].in_flight.front().is_some_and(|(at, _)| *at <= next) {
                let (_, segment) = self.wires[side].in_flight.pop_front().unwrap();
                if segment.flags.has(Flags::ACK) {
                    self.edges[other] = self.edges[other].max(segment.ack + u64::from(segment.window));
                }
                let effects = self.ends[other].tcb.on_segment(&self.cfg, next, &segment);
                if let Some(judges) = &mut self.judges {
                    judges[other].note(&segment);
                    assert_eq!(self.ends[other].tcb.bytes_received(), judges[other].in_order as u64 - 1);
                }
                self.note(other, effects);
                if self.cfg.round_trips == RoundTrips::Released {
                    // What the segment lets go leaves before the program hears of it.
                    while self.wires[other].free_at <= next && self.send(other) {}
                    self.ends[other].tcb.processed();
                }
                self.application(other);
            }
            if self.ends[side].tcb.deadline() <= next {
                let effects = self.ends[side].tcb.on_timer(&self.cfg, next);
                self.note(side, effects);
            }
        }
        self.pump();
        true
    }

    pub fn run_until(&mut self, end: SimTime) {
        while self.step(end) {}
        self.now = self.now.max(end);
    }

    /// Runs until end 1 has read `bytes`; panics if that takes longer than `limit`.
    pub fn run_until_read(&mut self, bytes: u64, limit: SimTime) {
        while self.ends[1].read < bytes {
            assert!(self.step(limit), "only {} of {bytes} bytes by {limit:?}: {:#?}", self.ends[1].read, self.ends);
        }
    }
}

impl std::fmt::Debug for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.tcb)
    }
}
