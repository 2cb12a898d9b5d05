//! What a segment that arrives does, state by state (RFC 9293, section 3.10.7).

use super::config::{RoundTrips, TcpConfig};
use super::effects::{Effects, State};
use super::segment::{Flags, Segment};
use super::tcb::{Due, Tcb};
use onionlab_quantities::SimTime;

impl Tcb {
    /// Takes a segment that arrived.
    pub fn on_segment(&mut self, cfg: &TcpConfig, now: SimTime, segment: &Segment) -> Effects {
        match self.state {
            State::Closed => {
                // Who still sends data does not know that the connection is gone.
                if !segment.flags.has(Flags::RST) && segment.end() > segment.seq {
                    self.next = segment.ack;
                    self.due = Due::Reset;
                }
                Effects::NONE
            }
            State::Listen => self.on_segment_listening(now, segment),
            State::SynSent => self.on_segment_connecting(cfg, now, segment),
            State::SynReceived => self.on_segment_answered(cfg, now, segment),
            _ => self.on_segment_connected(cfg, now, segment),
        }
    }

    fn on_segment_listening(&mut self, now: SimTime, segment: &Segment) -> Effects {
        if segment.flags.has(Flags::SYN) {
            self.state = State::SynReceived;
            self.due = Due::Syn;
            self.peer_window = segment.window;
            self.receive.on_syn(now, segment);
        }
        Effects::NONE
    }

    fn on_segment_connecting(&mut self, cfg: &TcpConfig, now: SimTime, segment: &Segment) -> Effects {
        if segment.flags.has(Flags::RST) {
            self.vanish();
            return Effects::RESET;
        }
        if segment.flags.has(Flags::SYN) && segment.flags.has(Flags::ACK) && segment.ack == 1 {
            self.receive.on_syn(now, segment);
            self.receive.ack_now = true;
            let effects = self.established(cfg, now, segment);
            self.on_echo(cfg, now, segment);
            return effects;
        }
        Effects::NONE
    }

    fn on_segment_answered(&mut self, cfg: &TcpConfig, now: SimTime, segment: &Segment) -> Effects {
        if segment.flags.has(Flags::RST) {
            self.vanish();
            return Effects::RESET;
        }
        if segment.flags.has(Flags::SYN) {
            self.due = Due::Syn;
            return Effects::NONE;
        }
        if !segment.flags.has(Flags::ACK) || segment.ack < 1 || self.next == 0 {
            return Effects::NONE;
        }
        let effects = self.established(cfg, now, segment);
        if self.closing {
            self.state = State::FinWait1;
        }
        effects | self.on_segment_connected(cfg, now, segment)
    }

    fn established(&mut self, cfg: &TcpConfig, now: SimTime, segment: &Segment) -> Effects {
        self.state = State::Established;
        self.una = 1;
        self.next = 1;
        self.due = Due::Nothing;
        self.backoff = 0;
        self.clear_alarm();
        self.peer_window = segment.window;
        if cfg.round_trips == RoundTrips::Measured && (segment.ts_echo != SimTime::ZERO || self.retransmitted == 0) {
            let rtt = now.saturating_since(segment.ts_echo);
            self.rtt.sample(cfg, rtt, 1, 1);
            self.rtt.note_min(now, rtt, false);
        }
        // Linux: a SYN lost twice makes the network suspect.
        if self.retransmitted > 1 {
            self.congestion.cwnd = 1;
        }
        self.tune_send_buffer(cfg);
        Effects::CONNECTED | Effects::WRITABLE
    }

    fn on_segment_connected(&mut self, cfg: &TcpConfig, now: SimTime, segment: &Segment) -> Effects {
        let mut effects = Effects::NONE;
        if segment.flags.has(Flags::RST) {
            // After both FINs there is nothing left to lose.
            let lost = self.state != State::TimeWait;
            self.vanish();
            return effects.and_if(lost, Effects::RESET);
        }
        if segment.flags.has(Flags::SYN) {
            // Our acknowledgement of the SYN was lost.
            self.receive.ack_now = true;
            return effects;
        }
        self.receive.note_timestamp(cfg, segment);
        if segment.flags.has(Flags::ACK) {
            effects |= self.on_ack(cfg, now, segment);
            if self.fin_sent && self.una == self.next {
                self.forget_stale(cfg, now);
                self.state = match self.state {
                    State::FinWait1 => State::FinWait2,
                    State::Closing => State::TimeWait,
                    State::LastAck => State::Closed,
                    other => other,
                };
            }
        }
        if segment.len > 0 || segment.flags.has(Flags::FIN) {
            let arrival = self.receive.on_data(cfg, now, segment, &self.rtt);
            effects = effects.and_if(arrival.new_bytes, Effects::READABLE).and_if(self.receive.has_filled(), Effects::FILLED);
            if arrival.fin {
                effects |= Effects::PEER_CLOSED;
                self.state = match self.state {
                    State::Established => State::CloseWait,
                    State::FinWait1 => State::Closing,
                    State::FinWait2 => State::TimeWait,
                    other => other,
                };
            }
        } else if segment.seq < self.receive.next {
            // A zero-window probe asks for an acknowledgement.
            self.receive.ack_now = true;
        }
        self.on_echo(cfg, now, segment);
        effects
    }
}
