//! One end of a connection: its state, and the calls that its owner makes.

use super::config::QuicConfig;
use super::congestion::Congestion;
use super::handshake::{Early, Space};
use super::packet::Frame;
use super::rtt::Rtt;
use super::stream::Stream;
use super::table::Streams;
use super::window::Window;
use crate::tcp::Effects;
use onionlab_quantities::{SimDuration, SimTime};
use std::collections::VecDeque;

/// Which end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It opened the connection.
    Client,
    /// It was there.
    Server,
}

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionState {
    /// The handshake goes on.
    Handshaking,
    /// This end's part of the handshake is done: streams carry data.
    Established,
    /// It is gone: closed by either end, or silent for too long.
    Closed,
}

/// One end of a QUIC connection.
///
/// The owner passes the same [`QuicConfig`] to every call, carries the [`Packet`](super::Packet)s, calls [`Connection::on_timer`] at or after
/// [`Connection::deadline`], and asks [`Connection::next_event`] after each call that may bring news.
#[derive(Debug, Clone)]
pub struct Connection {
    pub(super) role: Role,
    pub(super) state: ConnectionState,
    /// The handshake is confirmed (RFC 9001, section 4.1.2).
    pub(super) confirmed: bool,
    /// A packet that says that the connection is gone is due.
    pub(super) close_due: bool,
    /// The first packet to leave in a recovery period goes whatever the window says (RFC 9002, section 7.3.2).
    pub(super) recovery_packet: bool,
    /// The packet number space of 1-RTT packets.
    pub(super) data: Space,
    pub(super) early: Option<Box<Early>>,
    pub(super) rtt: Rtt,
    /// When the first round trip was measured; `SimTime::MAX` before.
    pub(super) measured_at: SimTime,
    pub(super) congestion: Congestion,
    pub(super) pto_count: u32,
    /// The loss detection timer.
    pub(super) loss_at: SimTime,
    pub(super) idle_at: SimTime,
    /// When a PING is due if streams are open.
    pub(super) keep_at: SimTime,
    /// Nothing that asks for an acknowledgement was sent since a packet came.
    pub(super) heard: bool,
    pub(super) streams: Streams,
    /// Streams with new bytes, by place, whose turn comes in this order.
    pub(super) fresh: VecDeque<u32>,
    /// Streams with lost bytes, or with an end that is due alone.
    pub(super) again: VecDeque<u32>,
    /// Other frames to be sent; what they say is filled in then.
    pub(super) controls: VecDeque<Frame>,
    /// A MAX_DATA is among them.
    pub(super) offers: bool,
    /// What this end takes from all streams, and what came.
    pub(super) window: Window,
    pub(super) received_total: u64,
    /// What the other end takes from all streams, and what was sent.
    pub(super) peer_max: u64,
    pub(super) sent_total: u64,
    /// Bytes of a stream that may be written and not acknowledged.
    pub(super) send_buffer: u64,
    /// Streams with bytes written and not acknowledged.
    pub(super) busy: u32,
    pub(super) events: VecDeque<(u32, Effects)>,
    /// Streams that were forgotten, by their owner's name.
    pub(super) forgotten: Vec<u32>,
    pub(super) lost_packets: u64,
    /// Kept for their memory: what an acknowledgement resolves.
    pub(super) scratch: Vec<Frame>,
    pub(super) newly_acked: Vec<(SimTime, u16)>,
}

impl Connection {
    /// Bytes of memory that an idle stream takes at one end.
    pub const STREAM_BYTES: usize = size_of::<Stream>();

    /// An end of a new connection; the client's first flight is due.
    pub fn new(cfg: &QuicConfig, now: SimTime, role: Role) -> Self {
        Self {
            role,
            state: ConnectionState::Handshaking,
            confirmed: false,
            close_due: false,
            recovery_packet: false,
            data: Space::new(),
            early: Some(Box::new(Early::new(cfg, role))),
            rtt: Rtt::new(cfg.initial_rtt),
            measured_at: SimTime::MAX,
            congestion: Congestion::new(cfg),
            pto_count: 0,
            loss_at: SimTime::MAX,
            idle_at: now.saturating_add(cfg.idle_timeout),
            keep_at: SimTime::MAX,
            heard: true,
            streams: Streams::default(),
            fresh: VecDeque::new(),
            again: VecDeque::new(),
            controls: VecDeque::new(),
            offers: false,
            window: Window::new(cfg.connection_window, now),
            received_total: 0,
            peer_max: cfg.connection_window.initial.get(),
            sent_total: 0,
            send_buffer: cfg.send_buffer.initial.get(),
            busy: 0,
            events: VecDeque::new(),
            forgotten: Vec::new(),
            lost_packets: 0,
            scratch: Vec::new(),
            newly_acked: Vec::new(),
        }
    }

    /// How far the connection is.
    pub fn state(&self) -> ConnectionState {
        self.state
    }

    /// What happened to streams since the last call: the owner's name of the stream, and what happened.
    pub fn next_event(&mut self) -> Option<(u32, Effects)> {
        self.events.pop_front()
    }

    /// A stream that was released and of which nothing is needed any more, by its owner's name; each is told once.
    pub fn next_forgotten(&mut self) -> Option<u32> {
        self.forgotten.pop()
    }

    /// Whether the connection is gone, with all its streams, and nobody need be told.
    pub fn is_over(&self) -> bool {
        self.state == ConnectionState::Closed && !self.close_due && self.streams.len() == 0
    }

    pub(super) fn tell(&mut self, owner: u32, effects: Effects) {
        match self.events.back_mut() {
            Some((last, merged)) if *last == owner => *merged |= effects,
            _ => self.events.push_back((owner, effects)),
        }
    }

    /// Closes the connection (CONNECTION_CLOSE). Streams that still carried something are told [`Effects::RESET`].
    pub fn close(&mut self) {
        if self.state != ConnectionState::Closed {
            self.vanish();
            self.close_due = true;
        }
    }

    /// Straight to `Closed`, nothing kept.
    pub(super) fn vanish(&mut self) {
        self.state = ConnectionState::Closed;
        self.close_due = false;
        self.early = None;
        self.data.sent.discard();
        self.data.received.discard();
        self.data.probes = 0;
        self.congestion.in_flight = 0;
        (self.loss_at, self.idle_at, self.keep_at) = (SimTime::MAX, SimTime::MAX, SimTime::MAX);
        self.fresh.clear();
        self.again.clear();
        self.controls.clear();
        for place in self.streams.all() {
            let stream = self.streams.at(place);
            (stream.in_fresh, stream.in_again) = (false, false);
            let (owner, over) = (stream.owner, stream.sent_all() && stream.received_all() || stream.told_reset);
            if !over && !stream.released {
                self.tell(owner, Effects::RESET);
            }
            self.reap(place);
        }
    }

    pub(super) fn smoothed(&self) -> Option<SimDuration> {
        self.rtt.is_measured().then_some(self.rtt.smoothed)
    }
}
