//! A segment as it travels: counts and sequence numbers, no bytes.

use super::config::TcpConfig;
use onionlab_quantities::SimTime;

/// The header flags of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// Opens a connection; takes one sequence number.
    pub const SYN: Self = Self(1);
    /// The field `ack` counts.
    pub const ACK: Self = Self(2);
    /// Nothing follows; takes one sequence number.
    pub const FIN: Self = Self(4);
    /// The connection is gone.
    pub const RST: Self = Self(8);
    /// Answers data that came beyond a hole. Shadow's segments say so (`PTCP_DUPACK`); of others the receiver concludes it.
    pub const DUPLICATE: Self = Self(16);

    /// Whether any of `other`'s flags is set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
    /// Both sets together.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Bytes that arrived beyond a hole (RFC 2018): offsets from the segment's `ack`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlock {
    /// First byte, counted from the acknowledgement number.
    pub start: u32,
    /// One past the last byte, counted likewise.
    pub end: u32,
}

/// One TCP segment, with timestamps (RFC 7323) that count nanoseconds.
///
/// A connection's sequence numbers start at zero with the SYN, do not wrap, and count bytes; so the first byte of data has number 1.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first byte (or of the SYN or FIN).
    pub seq: u64,
    /// Next byte expected from the other end.
    pub ack: u64,
    /// When this segment was sent.
    pub ts_val: SimTime,
    /// The `ts_val` that this segment answers; zero if none.
    pub ts_echo: SimTime,
    /// Bytes that the sender of this segment takes from `ack` on.
    pub window: u32,
    /// Bytes of payload.
    pub len: u16,
    /// Header flags.
    pub flags: Flags,
    /// How many of `sack` count.
    pub sack_count: u8,
    /// Blocks received beyond a hole, the latest first. Few segments have any: they lie apart.
    pub sack: Option<Box<[SackBlock; 3]>>,
}

impl Segment {
    /// Bytes on the wire, headers included (without the link layer's).
    pub fn wire_bytes(&self, cfg: &TcpConfig) -> u32 {
        cfg.wire_bytes(self.len, self.flags, self.sack_count)
    }

    /// One past the last sequence number that this segment takes.
    pub(super) fn end(&self) -> u64 {
        self.seq + u64::from(self.len) + u64::from(self.flags.has(Flags::SYN)) + u64::from(self.flags.has(Flags::FIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_leaves_room_in_a_cache_line() {
        assert!(size_of::<Segment>() <= 48, "{}", size_of::<Segment>());
    }
}
