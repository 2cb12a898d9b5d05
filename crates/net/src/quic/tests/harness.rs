//! Two ends of a connection over two paths with delay, rate, queue limit, jitter (with or without reordering) and loss.

use crate::quic::{Connection, ConnectionState, Frame, Level, Packet, QuicConfig, Role};
use crate::tcp::Effects;
use onionlab_quantities::{Bandwidth, Bytes, RandomStream, Seed, SimDuration, SimTime};

/// One direction: a wire of a certain rate, then a delay.
pub struct Wire {
    pub rate: Bandwidth,
    pub delay: SimDuration,
    pub jitter: SimDuration,
    /// Packets overtake each other where jitter says so.
    pub reorders: bool,
    pub loss: f64,
    /// Ordinals of datagrams with bytes of streams that are lost for certain.
    pub lose: Vec<u64>,
    /// The wire's rate has a queue of so many bytes before it; more is dropped.
    pub bottleneck: Option<(Bandwidth, u64)>,
    random: RandomStream,
    free_at: SimTime,
    bottleneck_free_at: SimTime,
    last_arrival: SimTime,
    sent: u64,
    data_sent: u64,
    pub dropped: u64,
    in_flight: Vec<(SimTime, u64, Packet)>,
}

impl Wire {
    fn new(delay: SimDuration, seed: u64, name: &str) -> Self {
        Self {
            rate: Bandwidth::UNLIMITED,
            delay,
            jitter: SimDuration::ZERO,
            reorders: false,
            loss: 0.0,
            lose: Vec::new(),
            bottleneck: None,
            random: RandomStream::new(Seed(seed), name, "wire"),
            free_at: SimTime::ZERO,
            bottleneck_free_at: SimTime::ZERO,
            last_arrival: SimTime::ZERO,
            sent: 0,
            data_sent: 0,
            dropped: 0,
            in_flight: Vec::new(),
        }
    }

    fn send(&mut self, cfg: &QuicConfig, now: SimTime, packet: Packet) {
        let bytes = Bytes::new(u64::from(packet.wire_bytes(cfg)));
        let unlimited = self.rate == Bandwidth::UNLIMITED;
        self.free_at = if unlimited { now } else { now + self.rate.transmission_time(bytes) };
        let ordinal = self.sent;
        self.sent += 1;
        let has_data = packet.packets().any(|packet| packet.stream_bytes() > 0);
        let chosen = has_data && self.lose.contains(&self.data_sent);
        self.data_sent += u64::from(has_data);
        if chosen || self.random.at(2 * ordinal).chance(self.loss) {
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
        let mut arrival = leaves + self.delay + jitter;
        if !self.reorders {
            arrival = arrival.max(self.last_arrival);
        }
        self.last_arrival = arrival;
        self.in_flight.push((arrival, ordinal, packet));
    }

    fn first(&self) -> Option<usize> {
        (0..self.in_flight.len()).min_by_key(|&index| (self.in_flight[index].0, self.in_flight[index].1))
    }
}

/// What the application at an end does with one stream.
#[derive(Debug, Clone, Default)]
pub struct Application {
    pub id: u32,
    pub to_write: u64,
    pub finish_when_written: bool,
    pub written: u64,
    pub holds_back: bool,
    pub read: u64,
    pub last_read_at: SimTime,
    pub effects: Effects,
    pub connected_at: Option<SimTime>,
    pub closed_at: Option<SimTime>,
    /// Bytes that reached this end, as an account of its own.
    arrived: Vec<bool>,
    in_order: usize,
    /// What this end may send by what reached it, and the end of what it sent.
    edge: u64,
    sent_to: u64,
    pub reset: bool,
}

/// One end and its application.
pub struct End {
    pub quic: Connection,
    /// By the owner's name, which is the stream's index here.
    pub streams: Vec<Application>,
    edge: u64,
    numbers: [Option<u32>; 3],
}

pub struct Pair {
    pub cfg: QuicConfig,
    pub now: SimTime,
    /// 0 is the client; wire `i` leads from end `i`.
    pub ends: [End; 2],
    pub wires: [Wire; 2],
    /// Every datagram sent: instant, end, packets.
    pub trace: Option<Vec<(SimTime, usize, Packet)>>,
    /// Packets sent beyond the congestion window as probes or as the first of a recovery period.
    pub beyond: u32,
}

impl Pair {
    /// A pair whose handshake begins now.
    pub fn new(cfg: QuicConfig, one_way: SimDuration, seed: u64) -> Self {
        let end = |role| End {
            quic: Connection::new(&cfg, SimTime::ZERO, role),
            streams: Vec::new(),
            edge: cfg.connection_window.initial.get(),
            numbers: [None; 3],
        };
        Self {
            ends: [end(Role::Client), end(Role::Server)],
            wires: [Wire::new(one_way, seed, "forth"), Wire::new(one_way, seed, "back")],
            now: SimTime::ZERO,
            trace: None,
            beyond: 0,
            cfg,
        }
    }

    /// A pair with one stream, connected and quiet, by wires that lose nothing meanwhile.
    pub fn connected(cfg: QuicConfig, one_way: SimDuration, seed: u64) -> Self {
        let mut pair = Self::new(cfg, one_way, seed);
        pair.open(0);
        pair.run_until(SimTime::ZERO + one_way * 6 + SimDuration::from_millis(60));
        assert!(pair.ends.iter().all(|end| end.quic.state() == ConnectionState::Established));
        pair
    }

    /// Opens a stream at an end, which the other accepts; returns its index.
    pub fn open(&mut self, side: usize) -> usize {
        let owner = self.ends[0].streams.len() as u32;
        let id = self.ends[side].quic.open(&self.cfg, self.now, owner);
        self.ends[1 - side].quic.accept(&self.cfg, self.now, id, owner);
        let edge = self.cfg.stream_window.initial.get();
        for end in &mut self.ends {
            end.streams.push(Application { id, edge, ..Application::default() });
        }
        owner as usize
    }

    /// Bytes that end 1 has read of a stream.
    pub fn delivered(&self, stream: usize) -> u64 {
        self.ends[1].streams[stream].read
    }

    fn application(&mut self, side: usize) {
        let now = self.now;
        let end = &mut self.ends[side];
        while let Some((owner, effects)) = end.quic.next_event() {
            let stream = &mut end.streams[owner as usize];
            stream.effects |= effects;
            if effects.has(Effects::CONNECTED) {
                assert!(stream.connected_at.is_none(), "connected once");
                stream.connected_at = Some(now);
            }
            if effects.has(Effects::PEER_CLOSED) {
                assert!(stream.closed_at.is_none(), "closed once");
                stream.closed_at = Some(now);
            }
            stream.reset |= effects.has(Effects::RESET);
        }
        for stream in &mut end.streams {
            let readable = end.quic.readable(stream.id);
            if !stream.holds_back && readable > 0 {
                end.quic.read(stream.id, readable);
                stream.read += readable;
                stream.last_read_at = now;
            }
            if stream.to_write > 0 {
                let taken = end.quic.write(stream.id, stream.to_write);
                stream.to_write -= taken;
                stream.written += taken;
            }
            if stream.finish_when_written && stream.to_write == 0 {
                end.quic.finish(stream.id);
            }
        }
    }

    /// Lets each end send what it may while its wire is free.
    fn pump(&mut self) {
        for side in 0..2 {
            self.application(side);
            while self.wires[side].free_at <= self.now {
                let quic = &mut self.ends[side].quic;
                let excused = quic.recovery_packet || probes(quic);
                let wants = quic.wants_send(&self.cfg, self.now);
                let packet = quic.next_packet(&self.cfg, self.now);
                assert_eq!(wants, packet.is_some(), "wants_send() is exact");
                let Some(packet) = packet else { break };
                self.judge_sent(side, &packet, excused);
                if let Some(trace) = &mut self.trace {
                    trace.push((self.now, side, packet.clone()));
                }
                self.wires[side].send(&self.cfg, self.now, packet);
                self.application(side);
            }
        }
    }

    /// No limit is exceeded, no packet number used twice, nothing is larger than a datagram or empty.
    fn judge_sent(&mut self, side: usize, datagram: &Packet, excused: bool) {
        let end = &mut self.ends[side];
        assert!(datagram.datagram_bytes() <= u32::from(self.cfg.max_datagram));
        let initial = datagram.level() == Level::Initial;
        for packet in datagram.packets() {
            let number = &mut end.numbers[packet.level() as usize];
            let closes = packet.frame == Frame::Close;
            assert!(closes || number.is_none_or(|last| packet.number > last), "a packet number used again");
            *number = Some(packet.number);
            assert!(packet.frame != Frame::None || packet.acked != u32::MAX || initial, "an empty packet");
            for frame in packet.frames() {
                let Frame::Stream { offset, stream, len, .. } = frame else { continue };
                let stream = end.streams.iter_mut().find(|known| known.id == stream).unwrap();
                let to = offset + u64::from(len);
                assert!(to <= stream.edge, "beyond the stream's window: {to} > {}", stream.edge);
                assert!(to <= stream.written, "bytes that nobody wrote");
                stream.sent_to = stream.sent_to.max(to);
            }
        }
        let sum: u64 = end.streams.iter().map(|stream| stream.sent_to).sum();
        assert!(sum <= end.edge, "beyond the connection's window: {sum} > {}", end.edge);
        let info = end.quic.connection_info();
        let eliciting = datagram.packets().any(|packet| packet.frame != Frame::None && packet.frame != Frame::Close);
        if eliciting && info.in_flight > info.cwnd {
            assert!(excused, "{} bytes in flight in a window of {}", info.in_flight, info.cwnd);
            self.beyond += 1;
        }
    }

    fn arrive(&mut self, side: usize, datagram: &Packet) {
        let end = &mut self.ends[side];
        let closed = end.quic.state() == ConnectionState::Closed;
        let floor = end.quic.data.received.floor();
        end.quic.on_packet(&self.cfg, self.now, datagram);
        if closed {
            return;
        }
        for packet in datagram.packets() {
            // It came too early or too late to be taken.
            let early = end.quic.state() != ConnectionState::Established;
            if packet.level() == Level::Data && (early || u64::from(packet.number) < floor) {
                continue;
            }
            for frame in packet.frames() {
                match frame {
                    Frame::MaxData { max } => end.edge = end.edge.max(max),
                    Frame::MaxStreamData { max, stream } => {
                        let stream = end.streams.iter_mut().find(|known| known.id == stream).unwrap();
                        stream.edge = stream.edge.max(max);
                    }
                    Frame::Stream { offset, stream, len, .. } => {
                        let stream = end.streams.iter_mut().find(|known| known.id == stream).unwrap();
                        stream.note(offset, len);
                    }
                    _ => {}
                }
            }
        }
        for stream in &mut end.streams {
            let known = end.quic.streams.get(stream.id);
            if let Some(known) = known.filter(|known| !known.deaf && !stream.reset && !known.told_reset) {
                assert_eq!(known.received, stream.in_order as u64, "what is delivered is what has arrived without a hole");
                assert_eq!(known.received, stream.read + known.readable);
            }
        }
    }

    /// The next instant at which something happens.
    pub fn next_event(&self) -> SimTime {
        let mut next = SimTime::MAX;
        for side in 0..2 {
            let (end, wire) = (&self.ends[side], &self.wires[side]);
            next = next.min(end.quic.deadline());
            if let Some(first) = wire.first() {
                next = next.min(wire.in_flight[first].0);
            }
            if end.quic.wants_send(&self.cfg, self.now) {
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
        self.now = self.now.max(next);
        for side in 0..2 {
            let other = 1 - side;
            while let Some(first) = self.wires[side].first()
                && self.wires[side].in_flight[first].0 <= self.now
            {
                let (_, _, packet) = self.wires[side].in_flight.remove(first);
                self.arrive(other, &packet);
                self.application(other);
            }
            if self.ends[side].quic.deadline() <= self.now {
                self.ends[side].quic.on_timer(&self.cfg, self.now);
                self.application(side);
            }
        }
        self.pump();
        true
    }

    pub fn run_until(&mut self, end: SimTime) {
        while self.step(end) {}
        self.now = self.now.max(end);
    }

    /// The datagrams with bytes of streams that an end sent: instant in microseconds, and the frames.
    pub fn data_sent(&self, side: usize) -> Vec<(u64, Vec<Frame>)> {
        let sent = self.trace.iter().flatten().filter(|(_, from, _)| *from == side);
        let frames =
            sent.map(|(now, _, packet)| (now.as_micros(), packet.packets().flat_map(Packet::frames).collect::<Vec<_>>()));
        frames.filter(|(_, frames)| frames.iter().any(|frame| matches!(frame, Frame::Stream { .. }))).collect()
    }
}

impl Application {
    fn note(&mut self, offset: u64, len: u16) {
        let (start, end) = (offset as usize, offset as usize + usize::from(len));
        self.arrived.resize(self.arrived.len().max(end), false);
        self.arrived[start..end].fill(true);
        while self.arrived.get(self.in_order) == Some(&true) {
            self.in_order += 1;
        }
    }
}

fn probes(quic: &Connection) -> bool {
    let early = quic.early.iter().flat_map(|early| early.spaces.iter().flatten());
    quic.data.probes > 0 || early.clone().any(|space| space.probes > 0)
}
