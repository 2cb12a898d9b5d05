//! What a datagram that arrives does (RFC 9000, sections 3 to 7 and 13; RFC 9002, appendix A.7).

use super::config::QuicConfig;
use super::connection::{Connection, ConnectionState, Role};
use super::packet::{Frame, Level, NOTHING, Packet};
use super::received::told_delay;
use super::sent::Mark;
use super::stream::Reset;
use crate::tcp::Effects;
use onionlab_quantities::SimTime;

impl Connection {
    /// Takes a datagram that arrived.
    pub fn on_packet(&mut self, cfg: &QuicConfig, now: SimTime, datagram: &Packet) {
        if self.state == ConnectionState::Closed {
            // Who still sends does not know that the connection is gone (RFC 9000, sections 10.2.1 and 10.3).
            self.close_due |= datagram.frame != Frame::Close;
            return;
        }
        if let Some(early) = &mut self.early {
            early.bytes_received += u64::from(datagram.datagram_bytes());
        }
        for packet in datagram.packets() {
            self.on_one(cfg, now, packet);
            if self.state == ConnectionState::Closed {
                return;
            }
        }
        self.set_loss_timer(cfg, now);
    }

    fn on_one(&mut self, cfg: &QuicConfig, now: SimTime, packet: &Packet) {
        if packet.frame == Frame::Close {
            return self.vanish();
        }
        let level = packet.level();
        if level == Level::Data {
            if self.state != ConnectionState::Established {
                // It cannot be read yet.
                return;
            }
        } else {
            let Some(early) = &self.early else { return };
            if early.spaces[level as usize].is_none() || level == Level::Handshake && !early.keys {
                return;
            }
            if self.role == Role::Server && level == Level::Handshake {
                self.discard(cfg, now, Level::Initial);
            }
        }
        let eliciting = packet.frame != Frame::None;
        let space = match level {
            Level::Data => &mut self.data,
            early => match self.early.as_deref_mut().and_then(|all| all.spaces[early as usize].as_mut()) {
                Some(space) => space,
                None => return,
            },
        };
        if !space.received.on_packet(cfg, now, level, packet.number, eliciting) {
            return;
        }
        self.heard = true;
        self.stay(cfg, now);
        if packet.acked != NOTHING {
            self.on_ack(cfg, now, level, packet);
        }
        for frame in packet.frames() {
            self.on_frame(cfg, now, level, frame);
        }
    }

    /// `OnAckReceived`
    fn on_ack(&mut self, cfg: &QuicConfig, now: SimTime, level: Level, packet: &Packet) {
        let waits = self.has_content();
        let space = match level {
            Level::Data => Some(&mut self.data),
            early => self.early.as_deref_mut().and_then(|all| all.spaces[early as usize].as_mut()),
        };
        let Some(space) = space else { return };
        debug_assert!(packet.acked < space.sent.next, "only what was sent is acknowledged");
        if space.sent.largest_acked == NOTHING || packet.acked > space.sent.largest_acked {
            space.sent.largest_acked = packet.acked;
        }
        let used = self.congestion.is_used(cfg, now, waits);
        let mut frames = std::mem::take(&mut self.scratch);
        let mut packets = std::mem::take(&mut self.newly_acked);
        let (mut newly, mut eliciting, mut largest_at, mut told) = (false, false, None, None);
        for (start, end) in packet.acknowledged() {
            let each = |number: u32, sent: &super::sent::Sent| {
                newly = true;
                if number == packet.acked {
                    largest_at = Some(sent.at);
                }
                if let Mark::Flying { eliciting: asks } = sent.mark {
                    eliciting |= asks;
                    packets.push((sent.at, sent.size));
                }
                if sent.acked != NOTHING {
                    told = told.max(Some(sent.acked));
                }
            };
            space.sent.acknowledge(start, end, each, &mut frames);
        }
        if let Some(told) = told {
            space.received.on_acknowledged(told);
        }
        if newly {
            if let Some(sent) = largest_at
                && eliciting
            {
                let delay = told_delay(packet.ack_delay);
                let delay = if self.confirmed { delay.min(cfg.max_ack_delay) } else { delay };
                let latest = now.saturating_since(sent);
                self.rtt.sample(latest, delay);
                self.measured_at = self.measured_at.min(now);
                self.congestion.on_rtt(now, latest);
            }
            self.find_losses(cfg, now, level);
            for &(sent, size) in &packets {
                self.congestion.on_acked(cfg, now, sent, u64::from(size), used);
            }
            self.tune_send_buffer(cfg);
            for frame in frames.drain(..) {
                self.on_frame_acked(level, frame);
            }
            if self.peer_validated() {
                self.pto_count = 0;
            }
        }
        packets.clear();
        self.newly_acked = packets;
        frames.clear();
        self.scratch = frames;
    }

    /// Looks for losses if an older packet is missing.
    fn find_losses(&mut self, cfg: &QuicConfig, now: SimTime, level: Level) {
        let missing = match level {
            Level::Data => self.data.sent.may_have_lost(),
            _ => true,
        };
        if missing {
            self.detect(cfg, now, level);
        }
    }

    /// What a packet carried has arrived.
    fn on_frame_acked(&mut self, level: Level, frame: Frame) {
        match frame {
            Frame::Stream { offset, stream: id, len, fin } => {
                let Some(place) = self.streams.place(id) else { return };
                let stream = self.streams.at(place);
                let before = stream.una;
                stream.on_acked(offset, len, fin);
                let (advanced, starved, owner) = (stream.una > before, stream.starved, stream.owner);
                if advanced {
                    self.note_busy(place);
                    if starved && self.is_writable(id) {
                        self.streams.at(place).starved = false;
                        self.tell(owner, Effects::WRITABLE);
                    }
                }
                if !self.streams.at(place).wants_again() && std::mem::take(&mut self.streams.at(place).in_again) {
                    self.again.retain(|&other| other != place);
                }
                self.reap(place);
            }
            Frame::Crypto { offset, len } => {
                if let Some(early) = &mut self.early {
                    early.crypto[level as usize].on_acked(offset, len);
                }
            }
            Frame::Reset { stream: id, .. } => {
                if let Some(place) = self.streams.place(id) {
                    self.streams.at(place).reset = Reset::Acknowledged;
                    self.reap(place);
                }
            }
            _ => {}
        }
    }

    fn on_frame(&mut self, cfg: &QuicConfig, now: SimTime, level: Level, frame: Frame) {
        match frame {
            Frame::Stream { offset, stream, len, fin } => self.on_stream(stream, offset, len, fin),
            Frame::Crypto { offset, len } => {
                let Some(early) = &mut self.early else { return };
                if early.on_crypto(cfg, self.role, level, offset, len) {
                    self.establish(cfg, now);
                }
            }
            Frame::MaxData { max } => self.peer_max = self.peer_max.max(max),
            Frame::MaxStreamData { max, stream } => {
                if let Some(place) = self.streams.place(stream) {
                    let stream = self.streams.at(place);
                    stream.peer_max = stream.peer_max.max(max);
                    self.enqueue(place);
                }
            }
            Frame::Reset { final_size, stream } => self.on_reset(stream, final_size),
            Frame::StopSending { stream } => {
                let Some(place) = self.streams.place(stream) else { return };
                self.give_up(place);
                self.tell_reset(place);
            }
            Frame::HandshakeDone => {
                if self.role == Role::Client && !self.confirmed {
                    self.confirm(cfg, now);
                }
            }
            Frame::Ping | Frame::Close | Frame::None => {}
        }
    }

    /// This end's part of the handshake is complete.
    fn establish(&mut self, cfg: &QuicConfig, now: SimTime) {
        self.state = ConnectionState::Established;
        for place in self.streams.all() {
            let ours = self.streams.at(place).id & 1 == u32::from(self.role == Role::Server);
            if ours {
                self.announce(place);
            }
        }
        if self.role == Role::Server {
            self.controls.push_back(Frame::HandshakeDone);
            self.confirm(cfg, now);
        }
    }

    fn announce(&mut self, place: u32) {
        let stream = self.streams.at(place);
        if !std::mem::replace(&mut stream.announced, true) && !stream.released {
            let owner = stream.owner;
            self.tell(owner, Effects::CONNECTED | Effects::WRITABLE);
        }
    }

    fn confirm(&mut self, cfg: &QuicConfig, now: SimTime) {
        self.confirmed = true;
        self.discard(cfg, now, Level::Initial);
        self.discard(cfg, now, Level::Handshake);
        self.early = None;
        self.set_loss_timer(cfg, now);
    }

    /// A space's keys are discarded (RFC 9002: `OnPacketNumberSpaceDiscarded`).
    pub(super) fn discard(&mut self, cfg: &QuicConfig, now: SimTime, level: Level) {
        let Some(early) = self.early.as_deref_mut() else { return };
        if level == Level::Handshake || self.role == Role::Server {
            early.validated = true;
        }
        let Some(mut space) = early.spaces[level as usize].take() else { return };
        self.congestion.forget(space.sent.discard());
        self.pto_count = 0;
        self.set_loss_timer(cfg, now);
    }

    fn on_stream(&mut self, id: u32, offset: u64, len: u16, fin: bool) {
        let Some(place) = self.streams.place(id) else { return };
        self.announce(place);
        let stream = self.streams.at(place);
        if stream.deaf {
            let new = stream.on_unwanted(offset, len, fin);
            stream.window.on_read(new);
            self.received_total += new;
            self.consume(new);
            return self.reap(place);
        }
        let arrival = stream.on_data(offset, len, fin);
        stream.told_end |= arrival.ended;
        let owner = stream.owner;
        self.received_total += arrival.beyond_highest;
        debug_assert!(self.received_total <= self.window.offered(), "the other end keeps to the connection's window");
        let mut effects = Effects::NONE;
        if arrival.readable {
            effects |= Effects::READABLE;
        }
        if arrival.ended {
            effects |= Effects::PEER_CLOSED;
        }
        if !effects.is_empty() {
            self.tell(owner, effects);
        }
        self.reap(place);
    }

    /// The other end gave its half of a stream up.
    fn on_reset(&mut self, id: u32, final_size: u64) {
        let Some(place) = self.streams.place(id) else { return };
        let stream = self.streams.at(place);
        if stream.received_all() {
            return;
        }
        let deaf = stream.deaf;
        let (missing, unread) = stream.on_reset(final_size);
        self.received_total += missing;
        self.consume(if deaf { missing } else { unread });
        if !deaf {
            self.tell_reset(place);
        }
        self.reap(place);
    }

    fn tell_reset(&mut self, place: u32) {
        let stream = self.streams.at(place);
        if !std::mem::replace(&mut stream.told_reset, true) && !stream.released {
            let owner = stream.owner;
            self.tell(owner, Effects::RESET);
        }
    }
}
