//! Plain Reno, as RFC 5681 has it without any refinement and as Shadow does it (`tcp_cong_reno.c`, `tcp_retransmit_tally.cc`).
//!
//! The window is a range of segments that begins with the lowest unacknowledged one: what was SACKed or lost still fills it, and each
//! duplicate acknowledgement makes it longer by one. Fast recovery resends one segment and ends with the first acknowledgement that is new,
//! so that each further loss needs three duplicates of its own and halves the window again; a retransmission that is lost waits for
//! the time-out. The window grows with every acknowledgement, whether it was used or not.

use super::config::{CongestionControl, RoundTrips, TcpConfig};
use super::flight::{Flight, Mark, Phase};
use super::segment::Segment;
use super::tcb::Tcb;
use onionlab_quantities::SimTime;

/// Duplicate acknowledgements that prove a loss.
const DUPLICATES: u32 = 3;
/// Window after a time-out (Shadow: ten; RFC 5681 says one).
const RESTART_WINDOW: u32 = 10;

/// Least send and receive buffers once they are fitted (`CONFIG_SEND_BUFFER_MIN_SIZE`, `CONFIG_RECV_BUFFER_MIN_SIZE`).
const LEAST_SENT: u64 = 16_384;
const LEAST_RECEIVED: u64 = 87_380;

impl Tcb {
    /// An acknowledgement: `acked` segments for the first time, or none and it is a duplicate.
    pub(super) fn plain_ack(&mut self, cfg: &TcpConfig, now: SimTime, flight: &mut Flight, acked: u32, duplicate: bool) {
        if acked > 0 {
            flight.duplicates = 0;
            if flight.phase == Phase::Recovery {
                self.congestion.cwnd = self.congestion.ssthresh;
                flight.phase = Phase::Open;
            }
            self.grow_plainly(cfg, now, flight, acked);
        } else if duplicate {
            flight.duplicates += 1;
            if flight.phase == Phase::Recovery {
                self.congestion.cwnd += 1;
            } else if flight.duplicates == DUPLICATES {
                self.lower_threshold(cfg);
                self.congestion.cwnd = self.congestion.ssthresh + DUPLICATES;
                flight.phase = Phase::Recovery;
                flight.lose_front();
            }
        }
    }

    /// A time-out: whatever is not known to have arrived goes again.
    pub(super) fn plain_timeout(&mut self, cfg: &TcpConfig, now: SimTime, flight: &mut Flight) {
        self.lower_threshold(cfg);
        self.congestion.on_timeout();
        self.congestion.cwnd = RESTART_WINDOW;
        flight.phase = Phase::Open;
        flight.duplicates = 0;
        flight.stale.restarted = cfg.round_trips != RoundTrips::Measured;
        flight.mark_all_lost(now, false, true);
    }

    /// Unless all round trips are measured an acknowledgement does not bring a time-out down again, except that three in a row count as a new beginning.
    pub(super) fn forget_backoff(&mut self, flight: &mut Flight, advanced: bool) {
        if advanced {
            if flight.timeouts > 2 {
                self.backoff = 0;
                self.rtt.forget();
            }
            flight.timeouts = 0;
        }
    }

    /// A segment that was processed says what the round trip was, if it left here while another was ([`RoundTrips::Released`]; Shadow 1.13: `tcp_processPacket`).
    #[inline]
    pub(super) fn on_echo(&mut self, cfg: &TcpConfig, now: SimTime, segment: &Segment) {
        if cfg.round_trips == RoundTrips::Released
            && segment.ts_echo != SimTime::ZERO
            && self.flight.as_deref().is_none_or(|flight| flight.timeouts == 0)
        {
            self.rtt.sample_plainly(now.saturating_since(segment.ts_echo));
            self.backoff = 0;
        }
    }

    /// The segment that arrived is processed: what is sent from now on answers none.
    pub(crate) fn processed(&mut self) {
        self.receive.processed();
    }

    /// The first round trip is known, so that the buffers are to have what the path holds.
    pub(crate) const fn is_to_fit(&self) -> bool {
        !self.fitted && self.rtt.is_known()
    }

    /// Buffers for so many bytes to the other end and from it, between bounds of their own (`_tcp_tuneInitialBufferSizes`, which v1.13.2 does not come to and a7b7d49,
    /// four commits later, does). They may be smaller than what a connection begins with; a window that was offered remains.
    pub(crate) fn fit(&mut self, cfg: &TcpConfig, sent: u64, received: u64) {
        self.fitted = true;
        self.send_buffer = sent.clamp(LEAST_SENT, cfg.send_buffer.max.get().max(LEAST_SENT)) as u32;
        // Who finds it full now has to hear of room.
        self.starved |= !self.is_writable(cfg);
        self.receive.fit(received.clamp(LEAST_RECEIVED, cfg.receive_buffer.max.get().max(LEAST_RECEIVED)) as u32);
    }

    /// The threshold that a loss sets; Shadow's is one above half of the window.
    fn lower_threshold(&mut self, cfg: &TcpConfig) {
        let reduced = self.congestion.threshold_after_loss(cfg);
        self.congestion.ssthresh = match cfg.congestion_control {
            CongestionControl::Reno => self.congestion.cwnd / 2 + 1,
            CongestionControl::Cubic | CongestionControl::Unlimited => reduced,
        };
    }
}

impl Flight {
    /// What the window must exceed for a new segment to go.
    pub(super) fn before_new(&self, cfg: &TcpConfig) -> u32 {
        if cfg.plain_reno { self.out() } else { self.in_network() }
    }

    /// What the window must exceed for the next lost segment to go again.
    pub(super) fn before_lost(&self, cfg: &TcpConfig) -> u32 {
        if cfg.plain_reno { self.index_of_lost().unwrap_or(0) as u32 } else { self.in_network() }
    }

    /// The lowest segment is lost, unless it went again already.
    fn lose_front(&mut self) {
        if self.ring.front().is_some_and(|front| front.mark == Mark::Original) {
            self.mark_lost(0);
        }
    }
}
