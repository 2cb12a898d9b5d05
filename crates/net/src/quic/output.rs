//! What to send next. The host's uplink pulls, as with TCP: what gathers while it waits fills packets.
//!
//! Streams take turns by the packet: whose turn it is fills what is left of it, and what it leaves goes to the next (as in quinn and quic-go, where all
//! streams have one priority). Lost bytes go before new ones (RFC 9000, section 13.3).

use super::config::QuicConfig;
use super::connection::{Connection, ConnectionState, Role};
use super::handshake::Early;
use super::packet::{Frame, INITIAL_DATAGRAM, Level, NOTHING, Packet, ack_bytes, frame_bytes, packet_overhead};
use super::sent::Mark;
use onionlab_quantities::SimTime;

impl Connection {
    /// Whether [`Connection::next_packet`] would return a packet.
    #[inline]
    pub fn wants_send(&self, cfg: &QuicConfig, now: SimTime) -> bool {
        if self.state == ConnectionState::Closed {
            return self.close_due;
        }
        if let Some(early) = self.early.as_deref() {
            return !early.is_held_back()
                && (self.wants_early(early, cfg, now, 0)
                    || self.wants_early(early, cfg, now, 1)
                    || self.state == ConnectionState::Established && self.wants_data(cfg, now));
        }
        self.wants_data(cfg, now)
    }

    fn wants_data(&self, cfg: &QuicConfig, now: SimTime) -> bool {
        self.data.received.ack_now || self.data.probes > 0 || self.has_content() && self.may_send(cfg, now)
    }

    fn wants_early(&self, early: &Early, cfg: &QuicConfig, now: SimTime, level: usize) -> bool {
        early.spaces[level].as_ref().is_some_and(|space| {
            space.received.ack_now || space.probes > 0 || early.crypto[level].has_more() && self.may_send(cfg, now)
        })
    }

    /// Frames wait that ask for an acknowledgement, and flow control lets them pass.
    pub(crate) fn has_content(&self) -> bool {
        !self.controls.is_empty() || !self.again.is_empty() || !self.fresh.is_empty() && self.sent_total < self.peer_max
    }

    /// The congestion window and the pacer let another datagram pass.
    fn may_send(&self, cfg: &QuicConfig, now: SimTime) -> bool {
        (self.recovery_packet || self.congestion.has_room(cfg)) && self.congestion.lets_pass(cfg, now, self.smoothed())
    }

    /// The datagram to be sent now, as its packets, marked as sent; none if nothing may be sent.
    pub fn next_packet(&mut self, cfg: &QuicConfig, now: SimTime) -> Option<Packet> {
        let mut packet = Packet::default();
        self.write_packet(cfg, now, &mut packet).then_some(packet)
    }

    /// The same into its place; false if nothing may be sent.
    pub(crate) fn write_packet(&mut self, cfg: &QuicConfig, now: SimTime, packet: &mut Packet) -> bool {
        *packet = Packet { acked: NOTHING, ..Packet::default() };
        if self.state == ConnectionState::Closed {
            packet.frame = Frame::Close;
            packet.number = self.data.sent.next;
            packet.size = (packet_overhead(cfg, Level::Data, packet.number, NOTHING) + frame_bytes(Frame::Close)) as u16;
            return std::mem::take(&mut self.close_due);
        }
        if self.early.is_some() {
            return self.write_early(cfg, now, packet);
        }
        if !self.wants_data(cfg, now) {
            return false;
        }
        let Some(eliciting) = self.write_data(cfg, now, u32::from(cfg.max_datagram), packet) else { return false };
        self.register(cfg, now, Level::Data, packet, eliciting, false);
        true
    }

    /// A datagram while the handshake goes on: packets of all levels that have something to send, padded where it has to be.
    fn write_early(&mut self, cfg: &QuicConfig, now: SimTime, packet: &mut Packet) -> bool {
        if !self.wants_send(cfg, now) {
            return false;
        }
        let mut packets: Vec<(Level, Packet, bool)> = Vec::new();
        let mut room = INITIAL_DATAGRAM;
        for level in [Level::Initial, Level::Handshake] {
            let mut next = Packet { acked: NOTHING, ..Packet::default() };
            if let Some(eliciting) = self.write_handshake(cfg, now, level, room, &mut next) {
                room -= u32::from(next.size);
                packets.push((level, next, eliciting));
            }
        }
        if self.state == ConnectionState::Established {
            let room = if packets.is_empty() { u32::from(cfg.max_datagram) } else { room };
            let mut next = Packet { acked: NOTHING, ..Packet::default() };
            if self.wants_data(cfg, now)
                && let Some(eliciting) = self.write_data(cfg, now, room, &mut next)
            {
                packets.push((Level::Data, next, eliciting));
            }
        }
        let total: u32 = packets.iter().map(|(_, packet, _)| u32::from(packet.size)).sum();
        let mut padded = false;
        if let Some((Level::Initial, first, eliciting)) = packets.first_mut()
            && (self.role == Role::Client || *eliciting)
        {
            padded = true;
            first.size += INITIAL_DATAGRAM.saturating_sub(total) as u16;
        }
        let leaves_initial = self.role == Role::Client && packets.iter().any(|(level, ..)| *level == Level::Handshake);
        for (index, (level, packet, eliciting)) in packets.iter().enumerate() {
            self.register(cfg, now, *level, packet, *eliciting, padded && index == 0);
        }
        if let Some(early) = self.early.as_deref_mut() {
            early.bytes_sent += packets.iter().map(|(_, packet, _)| u64::from(packet.size)).sum::<u64>();
        }
        // Chained from behind.
        let mut behind: Option<Box<Packet>> = None;
        while let Some((_, mut last, _)) = packets.pop() {
            if behind.is_some() {
                last.more().coalesced = behind.take();
            }
            behind = Some(Box::new(last));
        }
        if leaves_initial {
            // RFC 9001, section 4.9.1.
            self.discard(cfg, now, Level::Initial);
        }
        match behind {
            Some(first) => {
                *packet = *first;
                true
            }
            None => false,
        }
    }

    /// A packet of one of the handshake's levels in at most `room` bytes: whether it asks for an acknowledgement; nothing if there is nothing to send.
    fn write_handshake(&mut self, cfg: &QuicConfig, now: SimTime, level: Level, room: u32, packet: &mut Packet) -> Option<bool> {
        let early = self.early.as_deref()?;
        if !self.wants_early(early, cfg, now, level as usize) || level == Level::Handshake && !early.keys {
            return None;
        }
        let may_send = self.may_send(cfg, now);
        let early = self.early.as_deref_mut()?;
        let crypto = &mut early.crypto[level as usize];
        let space = early.spaces[level as usize].as_mut()?;
        packet.number = space.sent.next;
        let overhead = packet_overhead(cfg, level, packet.number, space.sent.largest_acked);
        let mut left = room.checked_sub(overhead + 40)? + 40;
        if space.received.owes() {
            left = left.checked_sub(ack_bytes(space.received.delay(now), space.received.ranges()))?;
            space.received.write(now, packet);
        }
        packet.more().level = level;
        let mut eliciting = false;
        if space.probes > 0 || may_send {
            if space.probes > 0 && !crypto.has_more() {
                let mut oldest = Vec::new();
                space.sent.oldest(&mut oldest);
                for frame in oldest {
                    if let Frame::Crypto { offset, len } = frame {
                        crypto.on_lost(offset, len);
                    }
                }
            }
            while let Some(frame) = crypto.take(left) {
                left -= frame_bytes(frame);
                packet.push(frame);
                eliciting = true;
            }
            if space.probes > 0 && !eliciting {
                packet.push(Frame::Ping);
                left -= 1;
                eliciting = true;
            }
        }
        packet.size = (room - left) as u16;
        Some(eliciting)
    }

    /// A 1-RTT packet in at most `room` bytes: whether it asks for an acknowledgement.
    fn write_data(&mut self, cfg: &QuicConfig, now: SimTime, room: u32, packet: &mut Packet) -> Option<bool> {
        packet.number = self.data.sent.next;
        let overhead = packet_overhead(cfg, Level::Data, packet.number, self.data.sent.largest_acked);
        let mut left = room.checked_sub(overhead + 64)? + 64;
        if self.data.received.owes() {
            left = left.checked_sub(ack_bytes(self.data.received.delay(now), self.data.received.ranges()))?;
            self.data.received.write(now, packet);
        }
        let mut eliciting = false;
        let probe = self.data.probes > 0;
        if probe || self.may_send(cfg, now) {
            if probe && !self.has_content() {
                self.repeat_oldest();
            }
            eliciting = self.fill(cfg, now, &mut left, packet);
            if probe && !eliciting {
                packet.push(Frame::Ping);
                left -= 1;
                eliciting = true;
            }
        }
        packet.size = (room - left) as u16;
        Some(eliciting)
    }

    /// A probe without anything new repeats what the oldest packet carried (RFC 9002, section 6.2.4).
    fn repeat_oldest(&mut self) {
        let mut frames = std::mem::take(&mut self.scratch);
        self.data.sent.oldest(&mut frames);
        for frame in frames.drain(..) {
            self.repeat(Level::Data, frame);
        }
        self.scratch = frames;
    }

    /// Puts frames into a packet; false if there were none.
    fn fill(&mut self, cfg: &QuicConfig, now: SimTime, left: &mut u32, packet: &mut Packet) -> bool {
        let mut any = false;
        while let Some(&control) = self.controls.front() {
            let frame = self.control(cfg, now, control);
            let bytes = frame_bytes(frame);
            if bytes > *left {
                break;
            }
            self.controls.pop_front();
            *left -= bytes;
            if frame != Frame::None {
                packet.push(frame);
                any = true;
            }
        }
        while let Some(&place) = self.again.front() {
            let Some(frame) = self.streams.at(place).take_again(*left) else { break };
            *left -= frame_bytes(frame);
            packet.push(frame);
            any = true;
            self.again.pop_front();
            let stream = self.streams.at(place);
            stream.in_again = stream.wants_again();
            if stream.in_again {
                self.again.push_back(place);
            }
        }
        while let Some(&place) = self.fresh.front() {
            let credit = self.peer_max - self.sent_total;
            let Some(frame) = self.streams.at(place).take_fresh(*left, credit) else { break };
            *left -= frame_bytes(frame);
            packet.push(frame);
            any = true;
            if let Frame::Stream { len, .. } = frame {
                self.sent_total += u64::from(len);
            }
            self.fresh.pop_front();
            let stream = self.streams.at(place);
            stream.in_fresh = stream.fresh() > 0;
            if stream.in_fresh {
                self.fresh.push_back(place);
            }
        }
        any
    }

    /// What a frame that waited says now; `Frame::None` if it is no longer needed.
    fn control(&mut self, cfg: &QuicConfig, now: SimTime, control: Frame) -> Frame {
        let smoothed = self.smoothed();
        match control {
            Frame::MaxData { .. } => {
                self.offers = false;
                Frame::MaxData { max: self.window.offer(cfg.connection_window, now, smoothed) }
            }
            Frame::MaxStreamData { stream: id, .. } => match self.streams.place(id) {
                Some(place) => {
                    let stream = self.streams.at(place);
                    stream.offers = false;
                    Frame::MaxStreamData { max: stream.window.offer(cfg.stream_window, now, smoothed), stream: id }
                }
                None => Frame::None,
            },
            Frame::Reset { stream: id, .. } => match self.streams.get(id) {
                Some(stream) => Frame::Reset { final_size: stream.next, stream: id },
                None => Frame::None,
            },
            other => other,
        }
    }

    /// A packet leaves (RFC 9002: `OnPacketSent`).
    fn register(&mut self, cfg: &QuicConfig, now: SimTime, level: Level, packet: &Packet, eliciting: bool, padded: bool) {
        let counts = eliciting || padded;
        if counts {
            if self.congestion.in_flight == 0 && self.data.sent.next > 0 {
                self.congestion.resume(now.saturating_since(self.data.sent.last_eliciting), now);
            }
            if eliciting {
                self.recovery_packet = false;
            }
            self.congestion.on_sent(cfg, now, u64::from(packet.size), self.smoothed());
        }
        let mark = if counts { Mark::Flying { eliciting } } else { Mark::Light };
        let space = match level {
            Level::Data => Some(&mut self.data),
            early => self.early.as_deref_mut().and_then(|all| all.spaces[early as usize].as_mut()),
        };
        let Some(space) = space else { return };
        space.sent.push(now, packet.size, mark, packet.acked, packet.frames());
        if !eliciting {
            return;
        }
        space.probes = space.probes.saturating_sub(1);
        if std::mem::take(&mut self.heard) {
            self.stay(cfg, now);
        }
        self.set_loss_timer(cfg, now);
    }
}
