//! What the timers do. They are lazy: deadlines move freely, the owner's event may come early and then does nothing.

use super::config::{RoundTrips, TcpConfig};
use super::effects::{Effects, State};
use super::flight::{Flight, Phase};
use super::losses::Losses;
use super::tcb::{Alarm, Due, Probe, Tcb};
use onionlab_quantities::SimTime;

/// SYNs sent again before giving up (`net.ipv4.tcp_syn_retries`).
const SYN_RETRIES: u8 = 6;
/// Time-outs in a row before giving up (`net.ipv4.tcp_retries2`).
const RETRIES: u8 = 15;

impl Tcb {
    /// Does what is due at `now`; nothing if `now` is before [`Tcb::deadline`].
    pub fn on_timer(&mut self, cfg: &TcpConfig, now: SimTime) -> Effects {
        let mut effects = Effects::NONE;
        if now >= self.receive.ack_at {
            self.receive.on_timer(cfg, &self.rtt);
        }
        if now >= self.alarm_at {
            self.clear_alarm();
            effects |= match self.alarm {
                Alarm::Retransmit => self.on_retransmission_timeout(cfg, now),
                Alarm::TailProbe => self.on_probe_timeout(cfg, now),
                Alarm::Reordering => self.on_reordering_timeout(cfg, now),
                Alarm::ZeroWindow => {
                    self.due = Due::WindowProbe;
                    self.backoff = (self.backoff + 1).min(RETRIES);
                    self.set_alarm(Alarm::ZeroWindow, now + self.rto(cfg));
                    Effects::NONE
                }
            };
        }
        effects
    }

    fn on_retransmission_timeout(&mut self, cfg: &TcpConfig, now: SimTime) -> Effects {
        let connecting = matches!(self.state, State::SynSent | State::SynReceived);
        if !connecting && self.flight.is_none() {
            return Effects::NONE;
        }
        let in_a_row = match cfg.round_trips {
            RoundTrips::Measured => self.backoff,
            RoundTrips::Released | RoundTrips::Never => self.flight.as_deref().map_or(self.backoff, |flight| flight.timeouts),
        };
        // Nor does Shadow give up, whose timer may run for nothing (`stale`).
        let gives_up = connecting || cfg.round_trips == RoundTrips::Measured;
        if gives_up && in_a_row >= if connecting { SYN_RETRIES } else { RETRIES } {
            self.vanish();
            return Effects::RESET;
        }
        if self.flight.as_deref().is_some_and(Flight::is_empty) {
            if !matches!(self.state, State::Established | State::CloseWait) {
                self.forget_stale(cfg, now);
                return Effects::NONE;
            }
            if self.peer_window == 0 && self.written > self.next {
                // Its alarm is the only one, and so stands for that of the window.
                self.due = Due::WindowProbe;
            }
        }
        if let Some(mut flight) = self.flight.take() {
            flight.timeouts = flight.timeouts.saturating_add(1);
            if cfg.plain_reno {
                self.plain_timeout(cfg, now, &mut flight);
            } else {
                self.enter_loss(cfg, now, &mut flight);
            }
            self.flight = Some(flight);
        } else {
            self.due = Due::Syn;
        }
        self.backoff = self.backoff.saturating_add(1);
        self.set_alarm(Alarm::Retransmit, now + self.rto(cfg));
        Effects::NONE
    }

    /// `tcp_enter_loss`: everything not SACKed goes again, by slow start from one segment.
    fn enter_loss(&mut self, cfg: &TcpConfig, now: SimTime, flight: &mut Flight) {
        let anew = match flight.phase {
            Phase::Open => true,
            Phase::Recovery => false,
            Phase::Loss => self.backoff == 0,
        };
        if anew {
            flight.prior_cwnd = self.congestion.cwnd;
            flight.prior_ssthresh = self.congestion.ssthresh;
            flight.first_resend = None;
            self.congestion.ssthresh = self.congestion.threshold_after_loss(cfg);
        } else if flight.phase == Phase::Recovery {
            // Its losses are real: no undoing.
            flight.prior_cwnd = 0;
        }
        flight.mark_all_lost(now, cfg.rack_tlp, cfg.sack);
        flight.phase = Phase::Loss;
        flight.high_seq = self.next;
        flight.probe_due = false;
        self.probe = Probe::None;
        self.congestion.on_timeout();
        self.congestion.cwnd = flight.in_network() + 1;
    }

    /// Two round trips without news: the last segment, or a new one, asks (RFC 8985, section 7).
    fn on_probe_timeout(&mut self, cfg: &TcpConfig, now: SimTime) -> Effects {
        let Some(mut flight) = self.flight.take() else { return Effects::NONE };
        // One probe at a time.
        flight.probe_due = self.probe == Probe::None && flight.phase == Phase::Open;
        let timeout = flight.front_sent().unwrap_or(now) + self.rto(cfg);
        self.set_alarm(Alarm::Retransmit, timeout.max(now));
        self.flight = Some(flight);
        Effects::NONE
    }

    /// The reordering window is over: what is still missing is lost.
    fn on_reordering_timeout(&mut self, cfg: &TcpConfig, now: SimTime) -> Effects {
        let Some(mut flight) = self.flight.take() else { return Effects::NONE };
        let timeout = flight.front_sent().unwrap_or(now) + self.rto(cfg);
        self.set_alarm(Alarm::Retransmit, timeout.max(now));
        let Losses { lost, wait, .. } = self.detect(cfg, now, &mut flight, false, true);
        if lost > 0 && flight.phase != Phase::Recovery {
            self.enter_recovery(cfg, &mut flight);
            if cfg.prr {
                self.reduce(&mut flight, 1, lost, false);
            }
        }
        if let Some(wait) = wait {
            self.set_alarm(Alarm::Reordering, now + wait);
        }
        self.flight = Some(flight);
        Effects::NONE
    }
}
