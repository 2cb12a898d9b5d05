//! What a call on a TCP end tells its owner.

use onionlab_quantities::SimDuration;
use std::ops::{BitOr, BitOrAssign};

/// What happened, as a set: the owner looks at what it cares for. Whether there is something to send now, [`Tcb::wants_send`](super::Tcb::wants_send) says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Effects(u8);

impl Effects {
    /// Nothing happened.
    pub const NONE: Self = Self(0);
    /// New bytes arrived in order.
    pub const READABLE: Self = Self(1);
    /// A third of the send buffer is free again after a time when less was (Linux's `sk_stream_is_writeable`); with
    /// [`TcpConfig::writable_at_once`](super::TcpConfig::writable_at_once) any of it.
    pub const WRITABLE: Self = Self(2);
    /// The handshake is done at this end.
    pub const CONNECTED: Self = Self(4);
    /// The other end's FIN arrived, after all its bytes.
    pub const PEER_CLOSED: Self = Self(8);
    /// The connection is gone: a RST came, or retransmissions were given up.
    pub const RESET: Self = Self(16);

    /// A hole in the bytes was filled: [`Tcb::take_filled`](super::Tcb::take_filled) tells what had waited behind it.
    pub const FILLED: Self = Self(32);

    /// Whether any of `other`'s effects is in the set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
    /// This set less `other`'s effects.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
    /// Whether nothing happened.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// This set with `other` where `condition` holds.
    pub(super) const fn and_if(self, condition: bool, other: Self) -> Self {
        if condition { Self(self.0 | other.0) } else { self }
    }
}

impl BitOr for Effects {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
impl BitOrAssign for Effects {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// The states of RFC 9293, section 3.3.2.
///
/// Deviation: `TimeWait` lasts until the owner drops the connection; it answers a repeated FIN and keeps no timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "RFC 9293 names and explains them")]
pub enum State {
    Closed,
    Listen,
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
}

impl State {
    /// Whether the handshake is done and the connection not yet gone.
    pub const fn is_synchronized(self) -> bool {
        !matches!(self, Self::Closed | Self::Listen | Self::SynSent | Self::SynReceived)
    }
}

/// A snapshot of a connection: what `TCP_INFO` and `SIOCOUTQNSD` tell KIST, and what a record may want.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpInfo {
    /// Congestion window in segments (`tcpi_snd_cwnd`).
    pub cwnd_segments: u32,
    /// Slow start threshold in segments; 2^31 - 1 before the first loss (`tcpi_snd_ssthresh`).
    pub ssthresh_segments: u32,
    /// Segments sent and not yet acknowledged (`tcpi_unacked`).
    pub unacked_segments: u32,
    /// Bytes of payload in a full segment (`tcpi_snd_mss`).
    pub mss: u32,
    /// Bytes written and not yet sent (`SIOCOUTQNSD`).
    pub notsent_bytes: u64,
    /// Bytes sent and not yet acknowledged.
    pub unacked_bytes: u64,
    /// Size of the send buffer in bytes, as tuned by now.
    pub send_buffer: u64,
    /// Window that the other end advertises, in bytes.
    pub peer_window: u64,
    /// Smoothed round trip, once measured.
    pub srtt: Option<SimDuration>,
    /// Least round trip of the last five minutes, once measured.
    pub min_rtt: Option<SimDuration>,
    /// Retransmission time-out as it would be set now, backing off included.
    pub rto: SimDuration,
    /// Segments sent again since the connection began.
    pub retransmitted_segments: u64,
}
