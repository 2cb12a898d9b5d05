//! A receiver that acknowledges by the clock ([`AckRule::Timed`](crate::tcp::AckRule::Timed)), as Shadow's does (`_tcp_processPacket`, `tcp_receiveUserData`).
//!
//! One timer runs from the first data that finds none running; what has come when it ends is acknowledged, unless something that was sent
//! meanwhile did so. What has become an acknowledgement leaves as a packet of its own, also behind others that still wait for the uplink, which then all
//! say the same. Data beyond a hole is acknowledged at once. Of the other receiver's fields `delay` counts timers here, `copied` all bytes
//! ever read, and `space` is the window last offered.

use super::Receive;
use crate::tcp::config::{RoundTrips, TcpConfig};
use crate::tcp::ticks::Ticks;
use onionlab_quantities::{SimDuration, SimTime};

/// Timers of a connection that run the shorter while (Shadow: `numQuickACKsSent`).
const PROMPT: u32 = 1000;
/// Between a read that opens the window and the acknowledgement that says so (Shadow: a task one nanosecond later).
const UPDATE_DELAY: SimDuration = SimDuration::from_nanos(1);

impl Receive {
    /// Data came in order.
    pub(super) fn decide_timed(&mut self, cfg: &TcpConfig, now: SimTime) {
        if self.ack_at == SimTime::MAX {
            let prompt = self.delay < PROMPT;
            self.delay += u32::from(prompt);
            self.ack_at = now + if prompt { cfg.delayed_ack } else { cfg.delayed_ack * 5 };
        }
    }

    /// The timer is over: an acknowledgement is made (`_tcp_sendACKTaskCallback`).
    pub(super) fn make_one(&mut self) {
        self.waiting = self.waiting.saturating_add(1);
        self.owed = false;
    }

    /// One of those that were made leaves.
    pub(in crate::tcp) fn take_one(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// The buffer is as large as this now.
    pub(in crate::tcp) fn fit(&mut self, bytes: u32) {
        self.buffer = bytes;
    }

    /// Data was read: the buffer grows to twice all that was read in a round trip, which without one to measure by is all that ever was
    /// (`_tcp_autotuneReceiveBuffer`).
    pub(super) fn read_timed(&mut self, cfg: &TcpConfig, now: SimTime, smoothed: Option<SimDuration>) {
        let wanted = (2 * u64::from(self.copied)).min(cfg.receive_buffer.max.get()) as u32;
        self.buffer = self.buffer.max(wanted);
        if cfg.round_trips == RoundTrips::Released && smoothed.is_some_and(|smoothed| self.space_since.until(now) > smoothed) {
            self.space_since = Ticks::at(now);
            self.copied = 0;
        }
        if self.next > 0 && self.free(cfg) / cfg.mss > self.space / cfg.mss {
            self.owed = true;
            self.ack_at = self.ack_at.min(now + UPDATE_DELAY);
        }
    }
}
