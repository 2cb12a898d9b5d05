//! A receiver that counts segments ([`AckRule::Counted`](crate::tcp::AckRule::Counted)), as ns-3's does (`TcpSocketBase::ReceivedData`) with the
//! two changes that nstor made to it.
//!
//! Two segments draw an acknowledgement, whatever their length; one alone waits for the timer. Data beyond or into a hole is acknowledged at
//! once, and data that is sent takes the acknowledgement along. Of the other receiver's fields `delay` counts segments here, and `space`
//! is the window last offered.

use super::Receive;
use crate::tcp::config::TcpConfig;
use onionlab_quantities::SimTime;

/// Segments that draw an acknowledgement (ns-3: `DelAckCount`).
const SEGMENTS: u32 = 2;
/// Growth of the window that reading announces: this part of the buffer (nstor: 20 %).
const GROWTH_DIVISOR: u32 = 5;

impl Receive {
    /// Data came in order.
    pub(super) fn decide_counted(&mut self, cfg: &TcpConfig, now: SimTime) {
        self.delay += 1;
        if self.delay >= SEGMENTS || !self.is_whole() {
            self.ack_now = true;
        } else if self.ack_at == SimTime::MAX {
            self.ack_at = now + cfg.delayed_ack;
        }
    }

    /// Data was read.
    pub(super) fn read_counted(&mut self, cfg: &TcpConfig) {
        if !self.fin && self.next > 0 && self.free(cfg) > self.space + self.buffer / GROWTH_DIVISOR {
            self.ack_now = true;
        }
    }
}
