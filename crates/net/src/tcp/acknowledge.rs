//! The sender's side of an acknowledgement: what it delivers, what it proves lost, what it does to the window and the timer.
//!
//! The order is that of Linux's `tcp_ack`: scoreboard, round trip, timer, loss state, window.

use super::config::{AckRule, CongestionControl, RoundTrips, TcpConfig};
use super::effects::Effects;
use super::flight::{Delivered, Flight, Phase};
use super::losses::Losses;
use super::segment::{Flags, Segment};
use super::tcb::{Alarm, Probe, Tcb};
use onionlab_quantities::{SimDuration, SimTime};

/// Duplicate acknowledgements, or SACKed segments above, that prove a loss (RFC 5681).
const DUP_THRESHOLD: u32 = 3;
/// Least that a probe time-out allows beyond two round trips (Linux: `TCP_TIMEOUT_MIN_US`).
const PROBE_SLACK: SimDuration = SimDuration::from_millis(2);

impl Tcb {
    /// Takes the acknowledgement and window that a segment carries.
    pub(super) fn on_ack(&mut self, cfg: &TcpConfig, now: SimTime, segment: &Segment) -> Effects {
        let ack = segment.ack;
        if ack > self.next || ack < self.una {
            return Effects::NONE;
        }
        let advanced = ack > self.una;
        let same_window = segment.window == self.peer_window;
        self.peer_window = segment.window;
        let duplicate = !advanced && segment.len == 0 && !segment.flags.has(Flags::FIN) && segment.sack_count == 0;
        self.una = ack;
        if let Some(mut flight) = self.flight.take() {
            self.update(cfg, now, segment, &mut flight, advanced, duplicate && same_window);
            if flight.is_empty() && !flight.stale.gone {
                self.clear_alarm();
            }
            if !flight.is_empty() {
                self.flight = Some(flight);
            } else if flight.lingers() {
                flight.resent.clear();
                self.flight = Some(flight);
            }
        }
        if self.probe != Probe::None {
            self.judge_probe(cfg, ack, segment.flags.has(Flags::DUPLICATE), duplicate);
        }
        self.watch_window(cfg, now);
        let mut effects = Effects::NONE;
        if advanced && cfg.round_trips == RoundTrips::Released {
            // `_tcp_processPacket`: with each acknowledgement of something new, whether anyone waits for room or not.
            self.tune_send_buffer(cfg);
        }
        if advanced && self.starved {
            // `tcp_should_expand_sndbuf`: the buffer grows while it, not the network, limits the writer.
            if !self.will_fill_window(cfg) {
                self.tune_send_buffer(cfg);
            }
            if self.is_writable(cfg) {
                self.starved = false;
                effects |= Effects::WRITABLE;
            }
        }
        effects
    }

    /// Whether the congestion window is full once what this acknowledgement lets go has left: Linux sends first (`tcp_data_snd_check`), as much as its host's queue takes of one connection,
    /// which is three buffers (a third may follow while two, or a millisecond of its pacing rate, are there), each of two segments or such a millisecond (`tcp_tso_autosize`).
    fn will_fill_window(&self, cfg: &TcpConfig) -> bool {
        let room = self.congestion.cwnd.saturating_sub(self.flight.as_deref().map_or(0, Flight::in_network));
        // The others ask as it is now.
        if room == 0 || cfg.writable_at_once {
            return room == 0;
        }
        let end = self.written.min(self.una + u64::from(self.peer_window));
        let waiting = end.saturating_sub(self.next).div_ceil(u64::from(cfg.mss));
        u64::from(room) <= waiting && room <= 3 * self.small_queue(cfg)
    }

    /// `tcp_sndbuf_expand`: room for two windows.
    pub(super) fn tune_send_buffer(&mut self, cfg: &TcpConfig) {
        if cfg.send_buffer.max > cfg.send_buffer.initial {
            let segments = u64::from(self.congestion.cwnd.max(cfg.initial_window).max(DUP_THRESHOLD + 1));
            let wanted = 2 * segments * u64::from(cfg.send_memory_per_segment);
            self.send_buffer = self.send_buffer.max(wanted.min(cfg.send_buffer.max.get()) as u32);
        }
    }

    fn update(&mut self, cfg: &TcpConfig, now: SimTime, segment: &Segment, flight: &mut Flight, advanced: bool, duplicate: bool) {
        let mut delivered = Delivered::default();
        let min_rtt = self.rtt.min().unwrap_or_default();
        let (before, undisturbed) = (flight.una, flight.sacked == 0 && flight.phase == Phase::Open);
        if segment.sack_count > 0 {
            flight.selective(now, segment, min_rtt, &mut delivered);
        }
        if advanced {
            let overtaken = cfg.round_trips != RoundTrips::Measured;
            flight.acknowledge(now, segment.ack, segment.ts_echo, min_rtt, overtaken, &mut delivered);
        }
        if !cfg.sack {
            count_duplicates(flight, advanced, duplicate, &mut delivered);
        }

        let clean = delivered.last_rtt.or(delivered.sack_rtt);
        if let Some(rtt) = clean {
            // A short segment alone: its acknowledgement may have waited (`FLAG_ACK_MAYBE_DELAYED`).
            let runt = undisturbed && delivered.segments == 1 && flight.una - before < u64::from(cfg.mss);
            self.rtt.note_min(now, rtt, runt);
        }
        if cfg.plain_reno {
            let duplicate = if cfg.acks == AckRule::Timed {
                segment.flags.has(Flags::DUPLICATE)
            } else if cfg.sack {
                !advanced && segment.len == 0 && segment.sack_count > 0
            } else {
                duplicate
            };
            self.plain_ack(cfg, now, flight, delivered.popped, duplicate);
        }
        let echoed = (advanced && segment.ts_echo != SimTime::ZERO).then(|| now.saturating_since(segment.ts_echo));
        if cfg.round_trips != RoundTrips::Measured {
            self.forget_backoff(flight, advanced);
        } else if let Some(rtt) = delivered.first_rtt.or(delivered.sack_rtt).or(echoed) {
            self.rtt.sample(cfg, rtt, self.una, self.next);
            self.backoff = 0;
        }
        if let Some(rtt) = clean {
            self.congestion.on_rtt(cfg, now, rtt, &mut flight.round, self.una, self.next);
        }
        let restarts = advanced && (!flight.is_empty() || flight.stale.gone);
        if cfg.plain_reno {
            if restarts {
                self.arm(cfg, now, flight, true);
            }
            return;
        }

        let disturbed = flight.phase != Phase::Open || flight.sacked > 0;
        let judged = if disturbed { self.judge_losses(cfg, now, segment, flight, advanced) } else { Losses::default() };
        if let Some(wait) = judged.wait {
            self.set_alarm(Alarm::Reordering, now + wait + PROBE_SLACK);
        } else if restarts {
            self.arm(cfg, now, flight, true);
        }
        if flight.phase == Phase::Recovery {
            if cfg.prr {
                self.reduce(flight, delivered.segments, judged.lost, advanced);
            }
        } else if delivered.popped > 0 {
            self.congestion.on_progress(now);
            let limited = flight.window_limited || self.congestion.in_slow_start() && self.congestion.cwnd < 2 * flight.most_out;
            if limited || cfg.congestion_control == CongestionControl::Unlimited {
                self.congestion.grow(cfg, now, delivered.segments);
            }
        }
    }

    /// Loss states: ends one that is over, finds losses, begins one; returns what was newly found lost.
    fn judge_losses(&mut self, cfg: &TcpConfig, now: SimTime, segment: &Segment, flight: &mut Flight, advanced: bool) -> Losses {
        match flight.phase {
            Phase::Recovery if self.una >= flight.high_seq => {
                self.congestion.cwnd = self.congestion.ssthresh;
                flight.phase = Phase::Open;
            }
            Phase::Loss => {
                let spurious = advanced
                    && flight.prior_cwnd > 0
                    && flight.first_resend.is_none_or(|first| segment.ts_echo != SimTime::ZERO && segment.ts_echo < first);
                if spurious {
                    // Eifel (RFC 3522): what was acknowledged left before the time-out.
                    self.congestion.cwnd = self.congestion.cwnd.max(flight.prior_cwnd);
                    self.congestion.ssthresh = self.congestion.ssthresh.max(flight.prior_ssthresh);
                    flight.unmark_lost();
                }
                if spurious || self.una >= flight.high_seq {
                    flight.phase = Phase::Open;
                }
            }
            Phase::Open | Phase::Recovery => {}
        }
        let judged = self.detect(cfg, now, flight, advanced, false);
        let begins = match flight.phase {
            Phase::Open => flight.missing > 0,
            Phase::Recovery => false,
            // A retransmission was lost in turn (`FLAG_LOST_RETRANS`); what had gone once only goes again by the slow start that runs.
            Phase::Loss => judged.again > 0,
        };
        if begins {
            self.enter_recovery(cfg, flight);
        }
        judged
    }

    /// Marks segments lost by the configured rule.
    pub(super) fn detect(&self, cfg: &TcpConfig, now: SimTime, flight: &mut Flight, advanced: bool, on_timer: bool) -> Losses {
        if !cfg.sack {
            let lost =
                flight.phase == Phase::Recovery && advanced || flight.phase == Phase::Open && flight.sacked >= DUP_THRESHOLD;
            return Losses { lost: if lost { flight.mark_front_lost() } else { 0 }, ..Losses::default() };
        }
        if !cfg.rack_tlp {
            return Losses { lost: flight.three_above(), ..Losses::default() };
        }
        // No reordering was ever seen: three SACKed segments are proof enough.
        let window = if flight.phase != Phase::Open || flight.sacked >= DUP_THRESHOLD {
            SimDuration::ZERO
        } else {
            let quarter = self.rtt.min().unwrap_or_default() / 4;
            quarter.min(self.rtt.smoothed().unwrap_or_default())
        };
        flight.rack_detect(now, window, on_timer)
    }

    /// Fast recovery begins.
    pub(super) fn enter_recovery(&mut self, cfg: &TcpConfig, flight: &mut Flight) {
        flight.phase = Phase::Recovery;
        flight.high_seq = self.next;
        flight.prior_cwnd = self.congestion.cwnd;
        flight.prr_delivered = 0;
        flight.prr_sent = 0;
        flight.first_resend = None;
        flight.probe_due = false;
        self.probe = Probe::None;
        self.congestion.ssthresh = self.congestion.threshold_after_loss(cfg);
        if !cfg.prr {
            self.congestion.cwnd = self.congestion.ssthresh;
            flight.force_resend = true;
        }
    }

    /// Proportional rate reduction (RFC 6937, with the slow-start bound applied where the update draft 6937bis has it).
    pub(super) fn reduce(&mut self, flight: &mut Flight, delivered: u32, lost: u32, advanced: bool) {
        if delivered == 0 || flight.prior_cwnd == 0 {
            return;
        }
        flight.prr_delivered += delivered;
        let in_network = flight.in_network();
        let threshold = self.congestion.ssthresh;
        let allowed = if in_network > threshold {
            let quota = (u64::from(threshold) * u64::from(flight.prr_delivered)).div_ceil(u64::from(flight.prior_cwnd)) as u32;
            quota.saturating_sub(flight.prr_sent)
        } else {
            let bound = flight.prr_delivered.saturating_sub(flight.prr_sent).max(delivered);
            (bound + u32::from(advanced && lost == 0)).min(threshold - in_network)
        };
        // The first retransmission always goes.
        let allowed = allowed.max(u32::from(flight.prr_sent == 0));
        self.congestion.cwnd = (in_network + allowed).max(1);
    }

    /// A probe is out: its end's acknowledgement tells whether something had been lost (RFC 8985, section 7.4.2).
    ///
    /// `told`: the acknowledgement says itself that it is for a segment that had come before (D-SACK); `duplicate`: it acknowledges nothing new.
    fn judge_probe(&mut self, cfg: &TcpConfig, ack: u64, told: bool, duplicate: bool) {
        let beyond = (ack as u32).wrapping_sub(self.probe_end) as i32;
        if beyond < 0 {
            return;
        }
        match self.probe {
            Probe::New => self.probe = Probe::None,
            // Both came. It counts before what else is acknowledged, for which it may have waited at the other end's uplink.
            Probe::Repeat if told => self.probe = Probe::None,
            Probe::Repeat if beyond > 0 => {
                self.probe = Probe::None;
                self.congestion.ssthresh = self.congestion.threshold_after_loss(cfg);
                self.congestion.cwnd = self.congestion.ssthresh;
            }
            Probe::Repeat if duplicate => self.probe = Probe::None,
            Probe::Repeat | Probe::None => {}
        }
    }

    /// Sets the timer for what is in flight: a tail loss probe if one makes sense, else the retransmission time-out.
    ///
    /// `advancing`: the oldest segment has just been acknowledged, so the time-out counts from now.
    pub(super) fn arm(&mut self, cfg: &TcpConfig, now: SimTime, flight: &Flight, advancing: bool) {
        let rto = self.rto(cfg);
        let timeout = if advancing { now + rto } else { flight.front_sent().unwrap_or(now) + rto };
        if may_probe(cfg, flight) {
            let after = match self.rtt.smoothed() {
                Some(smoothed) if flight.out() == 1 => smoothed * 2 + cfg.min_rto,
                Some(smoothed) => smoothed * 2 + PROBE_SLACK,
                None => cfg.initial_rto,
            };
            let at = now + after;
            self.set_alarm(Alarm::TailProbe, if timeout > now { at.min(timeout) } else { at });
        } else {
            self.set_alarm(Alarm::Retransmit, timeout.max(now));
        }
    }
}

/// Whether the next timer of this flight is that of a tail loss probe (`tcp_schedule_loss_probe`).
pub(super) fn may_probe(cfg: &TcpConfig, flight: &Flight) -> bool {
    cfg.rack_tlp && cfg.sack && !cfg.plain_reno && flight.phase == Phase::Open && flight.sacked == 0
}

/// Without SACK: a duplicate acknowledgement says that a segment, whichever, has left the network (`tcp_add_reno_sack`).
fn count_duplicates(flight: &mut Flight, advanced: bool, duplicate: bool, delivered: &mut Delivered) {
    if advanced {
        delivered.segments = delivered.popped.saturating_sub(flight.sacked).max(1);
        flight.sacked = flight.sacked.saturating_sub(delivered.popped.saturating_sub(1));
    } else if duplicate {
        flight.sacked += 1;
        delivered.segments += 1;
    }
    flight.sacked = flight.sacked.min(flight.out().saturating_sub(flight.to_resend));
    if flight.phase == Phase::Open && advanced {
        flight.sacked = 0;
    }
}
