//! A receiver that acknowledges by the clock ([`AckRule::Timed`](crate::tcp::AckRule::Timed)), as Shadow's does (`_tcp_processPacket`, `tcp_receiveUserData`).
//!
//! One timer runs from the first data that finds none running; what has come when it ends is acknowledged, unless something that was sent
//! meanwhile did so. What has become an acknowledgement leaves as a packet of its own, also behind others that still wait for the uplink, which then all
//! say the same. Data beyond a hole is acknowledged at once.
//!
//! **The window** counts whole segments and is looked at when something is written, read, made or has arrived, before that which arrived is counted, and not when an acknowledgement
//! leaves. So one that waited for the uplink says what has come meanwhile, and offers a segment more than there is room for. What lies beyond a hole is not taken from
//! the window either, but from the room. Data that the window allowed and that finds no room is dropped without a word: the sender believes it lost, and the second such loss of a window
//! waits for the time-out of a second (`_tcp_updateReceiveWindow`, `_tcp_dataProcessing`, `_tcp_flush`).
//!
//! Of the other receiver's fields `delay` counts timers here, `copied` all bytes ever read, `space` is the window last offered, and `rtt` the window when it was last looked at.

use super::{Receive, offered};
use crate::tcp::config::TcpConfig;
use crate::tcp::segment::Segment;
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

    /// Looks at the window.
    pub(in crate::tcp) fn look(&mut self, cfg: &TcpConfig) {
        self.rtt = self.free(cfg);
    }

    /// What a segment that leaves offers; one that opens the connection is made and leaves at once.
    pub(super) fn offer_timed(&mut self, cfg: &TcpConfig, opens: bool) {
        if opens {
            self.look(cfg);
        }
        self.open = self.rtt;
    }

    /// Whether data that arrives is kept; beyond a hole it is owed a duplicate either way.
    pub(super) fn takes_timed(&mut self, cfg: &TcpConfig, segment: &Segment) -> bool {
        let inside = segment.seq < self.next + u64::from(self.rtt) || segment.len == 0;
        let beyond = segment.seq > self.next;
        let room = u64::from(offered(self.buffer, cfg).saturating_sub(self.readable)).saturating_sub(self.bytes_beyond());
        let fits = u64::from(segment.len) <= room || !beyond && self.readable == 0;
        if inside && beyond {
            self.duplicates = self.duplicates.saturating_add(1);
        }
        self.look(cfg);
        inside && fits && !self.fin
    }

    /// The timer is over: an acknowledgement is made (`_tcp_sendACKTaskCallback`).
    pub(super) fn make_one(&mut self, cfg: &TcpConfig) {
        self.look(cfg);
        self.waiting = self.waiting.saturating_add(1);
        self.owed = false;
    }

    /// One of those that were made leaves.
    pub(in crate::tcp) fn take_one(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// Data was read: without a round trip to measure by, the buffer grows to twice all that ever was.
    pub(super) fn read_timed(&mut self, cfg: &TcpConfig, now: SimTime) {
        let wanted = (2 * u64::from(self.copied)).min(cfg.receive_buffer.max.get()) as u32;
        self.buffer = self.buffer.max(wanted);
        self.look(cfg);
        if self.next > 0 && self.rtt > self.space {
            self.owed = true;
            self.ack_at = self.ack_at.min(now + UPDATE_DELAY);
        }
    }
}
