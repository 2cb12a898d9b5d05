//! What a time-out leaves behind in Shadow ([`RoundTrips::Released`], 1.13's `shd-tcp.c` and `shd-tcp-cong-reno.c`; [`RoundTrips::Never`], 3's `tcp.c` and
//! `tcp_cong_reno.c`, which are the same in this). In 1.13 many are spurious: a time-out follows the round trip so closely that the delay of an acknowledgement may
//! be enough. In 3, where it is a second, queues of a second are, and what is lost twice or with too few duplicates.
//!
//! All that is in flight is to go again (`_tcp_runRetransmitTimerExpiredTask`), in order of sequence as the window of ten opens. An acknowledgement takes nothing out of
//! what waits to go (`throttledOutput`), so that what it acknowledges goes all the same, and at once, for it lies before the window. Once it has gone it is
//! something that may have to go again (`_tcp_addRetransmit`), and as only what lies beyond the last acknowledgement is ever taken out of there
//! (`_tcp_clearRetransmitRange`), it stays: it fills the send buffer, as it did while it waited, and keeps the retransmission timer running with nothing in flight. Each time
//! that timer ends the window is ten segments again, and the threshold half of the window.

use super::flight::Flight;
use super::tcb::Tcb;
use super::{RoundTrips, Segment, TcpConfig};
use crate::tcp::tcb::Alarm;
use onionlab_quantities::SimTime;
use std::collections::VecDeque;

/// See the module. What each acknowledgement looks at comes first, to lie in the cache line before it.
#[derive(Debug, Clone, Default)]
#[repr(C)]
pub(super) struct Stale {
    /// Some went, and keep the timer running.
    pub(super) gone: bool,
    /// No acknowledgement came since the last time-out.
    pub(super) restarted: bool,
    /// Segments that are acknowledged and go again: first sequence number and bytes.
    waiting: VecDeque<(u64, u16)>,
}

impl Flight {
    /// An acknowledgement came for a segment that was to go again.
    pub(super) fn overtake(&mut self, seq: u64, bytes: u16) {
        self.stale_bytes = self.stale_bytes.saturating_add(u32::from(bytes));
        self.stale.waiting.push_back((seq, bytes));
    }

    /// Whether anything goes again for nothing.
    #[inline]
    pub(super) fn owes_stale(&self) -> bool {
        self.stale_bytes > 0 && !self.stale.waiting.is_empty()
    }

    /// With nothing in flight there is still something to go, or a timer to run.
    pub(super) fn lingers(&self) -> bool {
        self.stale_bytes > 0
    }
}

impl Tcb {
    /// Bytes of the send buffer that are never free again.
    #[inline]
    pub(super) fn stale_bytes(&self, cfg: &TcpConfig) -> u64 {
        if cfg.round_trips == RoundTrips::Measured {
            return 0;
        }
        self.flight.as_deref().map_or(0, |flight| u64::from(flight.stale_bytes))
    }

    pub(super) fn send_stale(&mut self, cfg: &TcpConfig, now: SimTime, segment: &mut Segment) {
        let Some(flight) = self.flight.as_deref_mut() else { return };
        let Some((seq, bytes)) = flight.stale.waiting.pop_front() else { return };
        flight.stale.gone = true;
        self.repeat(segment, seq, bytes, false);
        if self.alarm_at == SimTime::MAX {
            self.set_alarm(Alarm::Retransmit, now + self.rto(cfg));
        }
    }

    /// A connection that is closing and has nothing in flight keeps nothing of it (`_tcp_clearRetransmit`).
    pub(super) fn forget_stale(&mut self, cfg: &TcpConfig, now: SimTime) {
        if self.flight.as_deref().is_some_and(Flight::is_empty) {
            self.flight = None;
            self.clear_alarm();
            self.watch_window(cfg, now);
        }
    }

    /// Segments were acknowledged. After a time-out the first acknowledgement is taken in slow start even if the threshold is below the window, which comes down to it then
    /// (`ca_reno_slow_start_new_ack_ev_`).
    pub(super) fn grow_plainly(&mut self, cfg: &TcpConfig, now: SimTime, flight: &mut Flight, acked: u32) {
        let (cwnd, threshold) = (self.congestion.cwnd, self.congestion.ssthresh);
        if std::mem::take(&mut flight.stale.restarted) && cwnd > threshold {
            self.congestion.cwnd = threshold;
            self.congestion.grow(cfg, now, acked + cwnd - threshold);
        } else {
            self.congestion.grow(cfg, now, acked);
        }
    }
}
