//! What to send next. The host's uplink pulls: it asks when the wire is free, so writes that wait behind others join in full segments,
//! as they do in Linux's queues (`tcp_autocorking`, small queues).

use super::acknowledge::may_probe;
use super::config::{AckRule, RoundTrips, TcpConfig};
use super::cuts::Cuts;
use super::effects::State;
use super::flight::{Flight, Phase};
use super::segment::{Flags, Segment};
use super::tcb::{Alarm, Due, Probe, Tcb};
use super::ticks::Ticks;
use onionlab_quantities::SimTime;

/// What may be sent now, in order of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Reset,
    Syn,
    /// A segment that was lost.
    Lost,
    /// A segment that was thought to be, and was acknowledged since.
    Stale,
    /// A tail loss probe that repeats the last segment.
    Repeat,
    /// So many new bytes, and the FIN or not; `probe`: as a tail loss probe.
    New {
        len: u32,
        fin: bool,
        probe: bool,
    },
    WindowProbe,
    Ack,
    /// An acknowledgement that says that it answers data beyond a hole, or data that had come before.
    Duplicate,
}

impl Tcb {
    /// The segment to be sent now, marked as sent; none if nothing may be sent.
    pub fn next_segment(&mut self, cfg: &TcpConfig, now: SimTime) -> Option<Segment> {
        let mut segment = Segment::default();
        self.write_segment(cfg, now, &mut segment).then_some(segment)
    }

    /// The same into a packet's place, so that it need not be copied there; false if nothing may be sent. `segment` has no SACK blocks.
    pub(crate) fn write_segment(&mut self, cfg: &TcpConfig, now: SimTime, segment: &mut Segment) -> bool {
        let Some(next) = self.pick(cfg) else { return false };
        segment.seq = self.next;
        segment.ack = 0;
        segment.ts_val = now;
        segment.ts_echo = SimTime::ZERO;
        segment.window = 0;
        segment.len = 0;
        segment.flags = Flags::default();
        segment.sack_count = 0;
        match next {
            Next::Reset => {
                self.due = Due::Nothing;
                segment.flags = Flags::RST.with(Flags::ACK);
                segment.ack = self.receive.next;
                return true;
            }
            Next::Syn => {
                self.due = Due::Nothing;
                self.retransmitted += u32::from(self.next > 0);
                self.next = 1;
                segment.seq = 0;
                segment.flags = Flags::SYN;
                self.set_alarm(Alarm::Retransmit, now.saturating_add(self.rto(cfg)));
                if self.state == State::SynSent {
                    segment.window = self.receive.syn_window(cfg);
                    return true;
                }
            }
            Next::Lost => self.send_lost(cfg, now, segment),
            Next::Stale => self.send_stale(cfg, now, segment),
            Next::Repeat => self.send_repeat(cfg, now, segment),
            Next::New { len, fin, probe } => self.send_new(cfg, now, segment, len, fin, probe),
            Next::WindowProbe => {
                self.due = Due::Nothing;
                segment.seq = self.una - 1;
            }
            Next::Ack => self.receive.take_one(),
            Next::Duplicate => {
                segment.flags = Flags::DUPLICATE;
                self.receive.duplicates -= 1;
            }
        }
        if segment.len > 0 && segment.seq + u64::from(segment.len) == self.written {
            segment.flags = segment.flags.with(Flags::PSH);
        }
        self.receive.acknowledge(cfg, segment);
        if next == Next::Ack && cfg.round_trips == RoundTrips::Released {
            // There it would have waited for its millisecond.
            segment.ts_echo = SimTime::ZERO;
        }
        true
    }

    /// Whether [`Tcb::next_segment`] would return a segment.
    #[inline]
    pub fn wants_send(&self, cfg: &TcpConfig) -> bool {
        !self.is_quiet() && self.pick(cfg).is_some()
    }

    /// Nothing waits to be sent for the first time or again, and nothing is owed: what most ends are most of the time, seen at a glance.
    #[inline]
    fn is_quiet(&self) -> bool {
        self.written <= self.next
            && !self.receive.ack_now
            && self.receive.duplicates == 0
            && self.due == Due::Nothing
            && (!self.closing || self.fin_sent)
            && self.flight.as_deref().is_none_or(|flight| flight.to_resend == 0 && !flight.probe_due && !flight.owes_stale())
    }

    fn pick(&self, cfg: &TcpConfig) -> Option<Next> {
        if self.due == Due::Reset {
            return Some(Next::Reset);
        }
        if !self.state.is_synchronized() {
            return (self.due == Due::Syn).then_some(Next::Syn);
        }
        if self.receive.duplicates > 0 {
            return Some(Next::Duplicate);
        }
        if cfg.acks == AckRule::Timed && self.receive.ack_now {
            // Shadow's sockets send what has no payload first.
            return Some(Next::Ack);
        }
        let mut probe = false;
        if let Some(flight) = self.flight.as_deref() {
            if flight.owes_stale() {
                return Some(Next::Stale);
            }
            if flight.to_resend > 0 && (flight.before_lost(cfg) < self.congestion.cwnd || flight.force_resend) {
                return Some(Next::Lost);
            }
            probe = flight.probe_due;
        }
        if let Some((len, fin)) = self.sendable(cfg, probe) {
            return Some(Next::New { len, fin, probe });
        }
        if probe {
            return Some(Next::Repeat);
        }
        if self.due == Due::WindowProbe {
            return Some(Next::WindowProbe);
        }
        self.receive.ack_now.then_some(Next::Ack)
    }

    /// New bytes, and the FIN, that the peer's window allows, and, unless this is a tail loss probe, the congestion window and Nagle
    /// (`tcp_send_loss_probe` sends with `TCP_NAGLE_OFF` and one segment beyond the window).
    fn sendable(&self, cfg: &TcpConfig, probe: bool) -> Option<(u32, bool)> {
        let waiting = self.written.saturating_sub(self.next);
        // Shadow's FIN waits until all is acknowledged (`_tcp_flush`).
        let fin_waits = self.closing && !self.fin_sent && (cfg.acks != AckRule::Timed || self.buffered() == 0);
        if waiting == 0 && !fin_waits {
            return None;
        }
        let room = (self.una + u64::from(self.peer_window)).saturating_sub(self.next);
        if room == 0 {
            return None;
        }
        if waiting == 0 {
            // The congestion window does not hold a FIN back.
            return Some((0, true));
        }
        let flight = self.flight.as_deref();
        if !probe && flight.map_or(0, |flight| flight.before_new(cfg)) >= self.congestion.cwnd {
            return None;
        }
        if cfg.awaits_full_window && room < waiting.min(u64::from(cfg.mss)) {
            return None;
        }
        let mut len = waiting.min(room);
        if let Some((end, _)) = self.cuts.as_deref().and_then(Cuts::first) {
            len = len.min(end - self.next);
        }
        if len >= u64::from(cfg.mss) {
            return Some((cfg.mss, fin_waits && waiting == u64::from(cfg.mss)));
        }
        let fin = fin_waits && len == waiting;
        // Nagle, Minshall's variant: one short segment in flight at a time; a FIN is not held, nor a probe.
        if cfg.nagle && !fin && !probe && flight.is_some_and(|flight| flight.small_end > self.una) {
            return None;
        }
        Some((len as u32, fin))
    }

    fn send_new(&mut self, cfg: &TcpConfig, now: SimTime, segment: &mut Segment, len: u32, fin: bool, probe: bool) {
        let rto = self.rto(cfg);
        let mut flight = self.flight.take().unwrap_or_else(|| {
            let idle = self.last_sent.until(now);
            self.congestion.resume(idle, now);
            Box::new(Flight::new(cfg, self.next))
        });
        let first = flight.is_empty() && !flight.lingers();
        segment.len = len as u16;
        if fin {
            segment.flags = Flags::FIN;
            self.fin_sent = true;
        }
        if let Some(cuts) = &mut self.cuts {
            cuts.sent(cfg.mss, self.next, self.next + u64::from(len));
            if cuts.is_empty() {
                self.cuts = None;
            }
        }
        flight.push(self.next, (len + u32::from(fin)) as u16, fin, now);
        self.next += u64::from(len) + u64::from(fin);
        if len > 0 && len < cfg.mss {
            flight.small_end = self.next;
        }
        if flight.phase == Phase::Recovery {
            flight.prr_sent += 1;
        }
        self.last_sent = Ticks::at(now);
        self.receive.on_data_sent(cfg, now);

        let limited = flight.in_network() >= self.congestion.cwnd;
        if self.una >= flight.usage_end || limited || !flight.window_limited && flight.out() > flight.most_out {
            flight.window_limited = limited;
            flight.most_out = flight.out();
            flight.usage_end = self.next;
        }
        let full = flight.window_limited || self.congestion.in_slow_start() && self.congestion.cwnd < 2 * flight.most_out;
        let undisturbed = flight.phase == Phase::Open && flight.sacked == 0 && !self.starved;
        self.congestion.validate(cfg, now, full, flight.out(), undisturbed, rto);

        if probe {
            self.probe_sent(cfg, now, &mut flight, Probe::New);
        } else if first || self.alarm_at == SimTime::MAX || self.alarm != Alarm::Reordering && may_probe(cfg, &flight) {
            self.arm(cfg, now, &flight, first);
        }
        self.flight = Some(flight);
    }

    fn send_lost(&mut self, cfg: &TcpConfig, now: SimTime, segment: &mut Segment) {
        let Some(flight) = self.flight.as_deref_mut() else { return };
        let Some((seq, len, fin)) = flight.take_lost(now) else { return };
        flight.force_resend = false;
        if flight.phase == Phase::Recovery {
            flight.prr_sent += 1;
        }
        self.repeat(segment, seq, len, fin);
        self.last_sent = Ticks::at(now);
        let reordering = self.alarm == Alarm::Reordering && self.alarm_at != SimTime::MAX;
        if seq == self.una && !reordering {
            self.set_alarm(Alarm::Retransmit, now + self.rto(cfg));
        }
    }

    fn send_repeat(&mut self, cfg: &TcpConfig, now: SimTime, segment: &mut Segment) {
        let Some(mut flight) = self.flight.take() else { return };
        if let Some((seq, len, fin)) = flight.take_last(now) {
            self.repeat(segment, seq, len, fin);
            self.last_sent = Ticks::at(now);
        }
        self.probe_sent(cfg, now, &mut flight, Probe::Repeat);
        self.flight = Some(flight);
    }

    fn probe_sent(&mut self, cfg: &TcpConfig, now: SimTime, flight: &mut Flight, probe: Probe) {
        flight.probe_due = false;
        self.probe = probe;
        self.probe_end = self.next as u32;
        self.set_alarm(Alarm::Retransmit, now + self.rto(cfg));
    }

    pub(super) fn repeat(&mut self, segment: &mut Segment, seq: u64, len: u16, fin: bool) {
        segment.seq = seq;
        segment.len = len - u16::from(fin);
        if fin {
            segment.flags = Flags::FIN;
        }
        self.retransmitted += 1;
    }
}
