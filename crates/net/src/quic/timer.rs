//! What the timers do (RFC 9002, appendix A.8 and A.9; RFC 9000, section 10.1). They are lazy: deadlines move freely, the owner's event may come early and then
//! does nothing.

use super::config::QuicConfig;
use super::congestion::PERSISTENT_THRESHOLD;
use super::connection::{Connection, ConnectionState, Role};
use super::handshake::Space;
use super::packet::{Frame, Level, NOTHING};
use super::sent::Losses;
use onionlab_quantities::{SimDuration, SimTime};

impl Connection {
    /// The earliest instant at which [`Connection::on_timer`] has something to do; [`SimTime::MAX`] if none.
    pub fn deadline(&self) -> SimTime {
        let mut at = self.loss_at.min(self.idle_at).min(self.data.received.ack_at);
        if self.keeps_alive() {
            at = at.min(self.keep_at);
        }
        if self.congestion.paced_until > SimTime::ZERO && self.has_content() {
            at = at.min(self.congestion.paced_until);
        }
        at
    }

    fn keeps_alive(&self) -> bool {
        self.role == Role::Client && self.state == ConnectionState::Established && self.streams.len() > 0
    }

    /// Does what is due at `now`; nothing if `now` is before [`Connection::deadline`].
    pub fn on_timer(&mut self, cfg: &QuicConfig, now: SimTime) {
        self.data.received.on_timer(now);
        if now >= self.congestion.paced_until {
            self.congestion.paced_until = SimTime::ZERO;
        }
        if now >= self.loss_at {
            self.on_loss_timer(cfg, now);
        }
        if let Some(interval) = cfg.keep_alive
            && self.keeps_alive()
            && now >= self.keep_at
        {
            self.keep_at = now.saturating_add(interval);
            self.controls.push_back(Frame::Ping);
        }
        if now >= self.idle_at {
            // Silently (RFC 9000, section 10.1).
            self.vanish();
        }
    }

    /// The connection is in use: the idle time-out begins anew.
    pub(super) fn stay(&mut self, cfg: &QuicConfig, now: SimTime) {
        let probes = (self.rtt.probe_timeout() + cfg.max_ack_delay) * 3;
        self.idle_at = now.saturating_add(cfg.idle_timeout.max(probes));
        if let Some(interval) = cfg.keep_alive {
            self.keep_at = now.saturating_add(interval);
        }
    }

    fn spaces(&self) -> impl Iterator<Item = (Level, &Space)> {
        let early = self.early.as_deref().into_iter().flat_map(|early| {
            let [initial, handshake] = &early.spaces;
            [(Level::Initial, initial.as_ref()), (Level::Handshake, handshake.as_ref())]
        });
        early.filter_map(|(level, space)| Some((level, space?))).chain([(Level::Data, &self.data)])
    }

    fn space(&mut self, level: Level) -> Option<&mut Space> {
        match level {
            Level::Data => Some(&mut self.data),
            early => self.early.as_deref_mut()?.spaces[early as usize].as_mut(),
        }
    }

    /// `GetLossTimeAndSpace`
    fn loss_time(&self) -> (SimTime, Level) {
        self.spaces().map(|(level, space)| (space.sent.loss_time, level)).min().unwrap_or((SimTime::MAX, Level::Data))
    }

    /// `PeerCompletedAddressValidation`
    pub(super) fn peer_validated(&self) -> bool {
        self.role == Role::Server
            || self.confirmed
            || self
                .early
                .as_ref()
                .is_none_or(|early| early.spaces[1].as_ref().is_none_or(|space| space.sent.largest_acked != NOTHING))
    }

    fn back_off(&self) -> u64 {
        1 << self.pto_count.min(16)
    }

    /// `GetPtoTimeAndSpace`
    fn probe_time(&self, cfg: &QuicConfig, now: SimTime) -> (SimTime, Level) {
        let timeout = self.rtt.probe_timeout() * self.back_off();
        let mut least = (SimTime::MAX, Level::Initial);
        let mut any = false;
        for (level, space) in self.spaces() {
            if space.sent.eliciting == 0 {
                continue;
            }
            any = true;
            let mut wait = timeout;
            if level == Level::Data {
                if !self.confirmed {
                    break;
                }
                wait = timeout + cfg.max_ack_delay * self.back_off();
            }
            least = least.min((space.sent.last_eliciting.saturating_add(wait), level));
        }
        if !any {
            // Only a client whose server may not yet be allowed to send comes here.
            let keys = self.early.as_ref().is_some_and(|early| early.keys);
            return (now.saturating_add(timeout), if keys { Level::Handshake } else { Level::Initial });
        }
        least
    }

    /// `SetLossDetectionTimer`
    pub(super) fn set_loss_timer(&mut self, cfg: &QuicConfig, now: SimTime) {
        if self.early.is_none() {
            self.loss_at = if self.data.sent.loss_time < SimTime::MAX {
                self.data.sent.loss_time
            } else if self.data.sent.eliciting > 0 {
                let wait = (self.rtt.probe_timeout() + cfg.max_ack_delay) * self.back_off();
                self.data.sent.last_eliciting.saturating_add(wait)
            } else {
                SimTime::MAX
            };
            return;
        }
        let (loss, _) = self.loss_time();
        let in_flight = self.spaces().any(|(_, space)| space.sent.eliciting > 0);
        self.loss_at = if loss < SimTime::MAX {
            loss
        } else if self.early.as_ref().is_some_and(|early| early.is_held_back()) || !in_flight && self.peer_validated() {
            SimTime::MAX
        } else {
            self.probe_time(cfg, now).0
        };
    }

    /// `OnLossDetectionTimeout`
    fn on_loss_timer(&mut self, cfg: &QuicConfig, now: SimTime) {
        let (loss, level) = self.loss_time();
        if loss < SimTime::MAX {
            self.detect(cfg, now, level);
            self.set_loss_timer(cfg, now);
            return;
        }
        let in_flight = self.spaces().any(|(_, space)| space.sent.eliciting > 0);
        let (_, level) = self.probe_time(cfg, now);
        if let Some(space) = self.space(level) {
            space.probes = if in_flight { 2 } else { 1 };
        }
        self.pto_count += 1;
        self.set_loss_timer(cfg, now);
    }

    /// Finds losses in a space and reacts to them (`DetectAndRemoveLostPackets`, `OnPacketsLost`).
    pub(super) fn detect(&mut self, cfg: &QuicConfig, now: SimTime, level: Level) {
        let (delay, measured) = (self.rtt.loss_delay(), self.measured_at);
        let mut frames = std::mem::take(&mut self.scratch);
        let losses = self.space(level).map_or_else(Losses::default, |space| space.sent.detect(now, delay, measured, &mut frames));
        if losses.packets > 0 {
            self.lost_packets += u64::from(losses.packets);
            self.congestion.forget(losses.bytes);
            self.recovery_packet |= self.congestion.on_loss(cfg, now, losses.last_sent);
            if losses.span > self.persistent_span(cfg) {
                self.congestion.on_persistent(cfg);
                self.rtt.on_persistent();
            }
        }
        for frame in frames.drain(..) {
            self.repeat(level, frame);
        }
        self.scratch = frames;
    }

    /// RFC 9002, section 7.6.1.
    fn persistent_span(&self, cfg: &QuicConfig) -> SimDuration {
        (self.rtt.probe_timeout() + cfg.max_ack_delay) * PERSISTENT_THRESHOLD
    }

    /// What a lost packet carried is sent again, or what says the same by now (RFC 9000, section 13.3).
    pub(super) fn repeat(&mut self, level: Level, frame: Frame) {
        match frame {
            Frame::Stream { offset, stream, len, fin } => {
                if let Some(place) = self.streams.place(stream) {
                    self.streams.at(place).on_lost(offset, len, fin);
                    self.enqueue(place);
                }
            }
            Frame::Crypto { offset, len } => {
                if let Some(early) = &mut self.early {
                    early.crypto[level as usize].on_lost(offset, len);
                }
            }
            Frame::MaxData { .. } => {
                if !std::mem::replace(&mut self.offers, true) {
                    self.controls.push_back(frame);
                }
            }
            Frame::MaxStreamData { stream, .. } => {
                if let Some(place) = self.streams.place(stream) {
                    let stream = self.streams.at(place);
                    if !stream.received_all() && !stream.deaf && !std::mem::replace(&mut stream.offers, true) {
                        self.controls.push_back(frame);
                    }
                }
            }
            Frame::Reset { stream, .. } => {
                if self.streams.get(stream).is_some_and(|stream| !stream.sent_all()) {
                    self.controls.push_back(frame);
                }
            }
            Frame::StopSending { stream } => {
                if self.streams.get(stream).is_some_and(|stream| !stream.received_all()) {
                    self.controls.push_back(frame);
                }
            }
            Frame::HandshakeDone => self.controls.push_back(frame),
            Frame::Ping | Frame::Close | Frame::None => {}
        }
    }
}
