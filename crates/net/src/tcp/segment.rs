//! A segment as it travels: counts and sequence numbers, no bytes.

use super::config::TcpConfig;
use onionlab_quantities::SimTime;
use std::num::NonZeroU8;

/// The header flags of a segment.
///
/// A bit that is always set leaves the value zero unused: what else can be in a packet's place is told by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(NonZeroU8);

const ALWAYS: u8 = 0x80;

impl Flags {
    /// None of the flags.
    pub const NONE: Self = Self::of(0);
    /// Opens a connection; takes one sequence number.
    pub const SYN: Self = Self::of(1);
    /// The field `ack` counts.
    pub const ACK: Self = Self::of(2);
    /// Nothing follows; takes one sequence number.
    pub const FIN: Self = Self::of(4);
    /// The connection is gone.
    pub const RST: Self = Self::of(8);
    /// Answers data that came beyond a hole (Shadow: `PTCP_DUPACK`), or data that had come before (RFC 2883, D-SACK).
    pub const DUPLICATE: Self = Self::of(16);
    /// Ends what was written so far. Linux's receivers think of it when they acknowledge.
    pub const PSH: Self = Self::of(32);

    const fn of(bits: u8) -> Self {
        match NonZeroU8::new(bits | ALWAYS) {
            Some(bits) => Self(bits),
            None => unreachable!(),
        }
    }

    /// Whether any of `other`'s flags is set.
    pub const fn has(self, other: Self) -> bool {
        self.0.get() & other.0.get() & !ALWAYS != 0
    }
    /// Both sets together.
    pub const fn with(self, other: Self) -> Self {
        Self::of(self.0.get() | other.0.get())
    }
}

impl Default for Flags {
    fn default() -> Self {
        Self::NONE
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
