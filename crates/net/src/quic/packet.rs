//! A datagram as it travels: packet numbers, ranges and counts, no bytes; and how long each part is on the wire (RFC 9000, sections 12, 16, 17 and 19).

use super::config::QuicConfig;

/// The packet number spaces (RFC 9000, section 12.3), which are also the levels of encryption here: there is no 0-RTT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// The first flights.
    Initial,
    /// The rest of the handshake.
    Handshake,
    /// Everything else, in packets with a short header (1-RTT).
    Data,
}

/// The AEAD's tag (RFC 9001, section 5.3).
const TAG: u32 = 16;
/// UDP payload of a datagram with an Initial packet (RFC 9000, section 14.1).
pub(super) const INITIAL_DATAGRAM: u32 = 1200;
/// In [`Packet::acked`]: the packet acknowledges nothing.
pub(super) const NOTHING: u32 = u32::MAX;

/// What a packet carries besides an acknowledgement (RFC 9000, section 19). `stream` is the stream's ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Frame {
    /// No frame.
    #[default]
    None,
    /// Bytes of a stream (STREAM).
    Stream {
        /// Of the first byte.
        offset: u64,
        /// Which one.
        stream: u32,
        /// How many.
        len: u16,
        /// Nothing follows them.
        fin: bool,
    },
    /// Bytes of the TLS handshake (CRYPTO).
    Crypto {
        /// Of the first byte.
        offset: u16,
        /// How many.
        len: u16,
    },
    /// All streams together may have sent so much (MAX_DATA).
    MaxData {
        /// Sum of offsets.
        max: u64,
    },
    /// This stream may have sent so much (MAX_STREAM_DATA).
    MaxStreamData {
        /// Offset.
        max: u64,
        /// Which one.
        stream: u32,
    },
    /// Its sender gives a stream up (RESET_STREAM).
    Reset {
        /// Bytes that it had sent.
        final_size: u64,
        /// Which one.
        stream: u32,
    },
    /// Its receiver wants no more of a stream (STOP_SENDING).
    StopSending {
        /// Which one.
        stream: u32,
    },
    /// The server says that the handshake is confirmed (HANDSHAKE_DONE).
    HandshakeDone,
    /// Asks for an acknowledgement (PING).
    Ping,
    /// The connection is gone (CONNECTION_CLOSE, or a stateless reset).
    Close,
}

impl Frame {
    /// Whether the frame says something about this stream, data apart.
    pub(super) const fn is_of(self, id: u32) -> bool {
        matches!(self, Self::MaxStreamData { stream, .. } | Self::Reset { stream, .. } | Self::StopSending { stream } if stream == id)
    }
}

/// What few packets have, apart from the others: further frames, acknowledged ranges beyond the first, another level than `Data`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct More {
    pub(super) level: Level,
    pub(super) frames: Vec<Frame>,
    /// Acknowledged packets below the first range, from high to low, each as first and one past the last.
    pub(super) ranges: Vec<(u32, u32)>,
    /// The packet that follows in the same datagram (RFC 9000, section 12.2).
    pub(super) coalesced: Option<Box<Packet>>,
}

/// A packet and, behind it, those in the same datagram.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packet {
    pub(super) frame: Frame,
    pub(super) more: Option<Box<More>>,
    /// Counts within its packet number space.
    pub(super) number: u32,
    /// Largest packet number acknowledged, or [`NOTHING`].
    pub(super) acked: u32,
    /// How many packets in a row, `acked` the last, are acknowledged.
    pub(super) acked_run: u32,
    /// How long the acknowledgement was withheld, in units of 8 us (`ack_delay_exponent` 3).
    pub(super) ack_delay: u16,
    /// Bytes of this packet.
    pub(super) size: u16,
}

impl Packet {
    pub(super) fn level(&self) -> Level {
        self.more.as_ref().map_or(Level::Data, |more| more.level)
    }

    /// All frames, none of which is [`Frame::None`].
    pub fn frames(&self) -> impl Iterator<Item = Frame> + '_ {
        let first = (self.frame != Frame::None).then_some(self.frame);
        first.into_iter().chain(self.more.iter().flat_map(|more| more.frames.iter().copied()))
    }

    /// Ranges of packet numbers acknowledged, from high to low, each as first and one past the last.
    pub(super) fn acknowledged(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let first = (self.acked != NOTHING).then(|| (self.acked + 1 - self.acked_run, self.acked + 1));
        first.into_iter().chain(self.more.iter().flat_map(|more| more.ranges.iter().copied()))
    }

    /// This packet and those behind it in the datagram.
    pub fn packets(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |packet| packet.more.as_ref()?.coalesced.as_deref())
    }

    /// Bytes of the datagram's payload: of all its packets.
    pub fn datagram_bytes(&self) -> u32 {
        if self.more.is_none() { u32::from(self.size) } else { self.packets().map(|packet| u32::from(packet.size)).sum() }
    }

    /// Bytes of the datagram on the wire, headers included (without the link layer's).
    pub fn wire_bytes(&self, cfg: &QuicConfig) -> u32 {
        self.datagram_bytes() + u32::from(cfg.datagram_header)
    }

    /// Payload bytes of streams, in any of its frames.
    pub fn stream_bytes(&self) -> u64 {
        let bytes = |frame| if let Frame::Stream { len, .. } = frame { u64::from(len) } else { 0 };
        self.frames().map(bytes).sum()
    }

    pub(super) fn more(&mut self) -> &mut More {
        let more = || Box::new(More { level: Level::Data, frames: Vec::new(), ranges: Vec::new(), coalesced: None });
        self.more.get_or_insert_with(more)
    }

    pub(super) fn push(&mut self, frame: Frame) {
        if self.frame == Frame::None {
            self.frame = frame;
        } else {
            self.more().frames.push(frame);
        }
    }
}

/// Bytes of a variable-length integer (RFC 9000, section 16).
pub(super) const fn varint(value: u64) -> u32 {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

/// Bytes of a packet number (RFC 9000, section A.2): enough for twice the distance to the largest acknowledged one.
const fn number_bytes(number: u32, largest_acked: u32) -> u32 {
    let unacked = if largest_acked == NOTHING { number as u64 + 1 } else { (number - largest_acked) as u64 };
    match unacked {
        0..0x80 => 1,
        0x80..0x8000 => 2,
        0x8000..0x80_0000 => 3,
        _ => 4,
    }
}

/// Header and tag of a packet (RFC 9000, sections 17.2 and 17.3). An Initial's token is empty; a long header's length field has two bytes.
pub(super) fn packet_overhead(cfg: &QuicConfig, level: Level, number: u32, largest_acked: u32) -> u32 {
    let id = u32::from(cfg.connection_id);
    let header = match level {
        Level::Initial => 1 + 4 + 1 + id + 1 + id + 1 + 2,
        Level::Handshake => 1 + 4 + 1 + id + 1 + id + 2,
        Level::Data => 1 + id,
    };
    header + number_bytes(number, largest_acked) + TAG
}

/// A STREAM frame without its bytes; the length is always written, with two bytes.
pub(super) const fn stream_header(stream: u32, offset: u64) -> u32 {
    1 + varint(stream as u64) + if offset > 0 { varint(offset) } else { 0 } + 2
}

/// A CRYPTO frame without its bytes.
pub(super) const fn crypto_header(offset: u16) -> u32 {
    1 + varint(offset as u64) + 2
}

/// A frame on the wire. CONNECTION_CLOSE: error code, frame type and an empty reason.
pub(super) const fn frame_bytes(frame: Frame) -> u32 {
    match frame {
        Frame::None => 0,
        Frame::Stream { offset, stream, len, .. } => stream_header(stream, offset) + len as u32,
        Frame::Crypto { offset, len } => crypto_header(offset) + len as u32,
        Frame::MaxData { max } => 1 + varint(max),
        Frame::MaxStreamData { max, stream } => 1 + varint(stream as u64) + varint(max),
        Frame::Reset { final_size, stream } => 1 + varint(stream as u64) + 1 + varint(final_size),
        Frame::StopSending { stream } => 1 + varint(stream as u64) + 1,
        Frame::HandshakeDone | Frame::Ping => 1,
        Frame::Close => 4,
    }
}

/// An ACK frame with these ranges, from high to low, each as first and one past the last.
pub(super) fn ack_bytes(ack_delay: u16, ranges: impl Iterator<Item = (u32, u32)>) -> u32 {
    let mut bytes = 1 + varint(u64::from(ack_delay));
    let mut above: Option<u32> = None;
    let mut further = 0;
    for (start, end) in ranges {
        let run = varint(u64::from(end - start - 1));
        bytes += match above {
            // Largest acknowledged and first range.
            None => varint(u64::from(end - 1)) + run,
            // The gap counts the packets between two ranges, less one.
            Some(above) => {
                further += 1;
                varint(u64::from(above - end - 1)) + run
            }
        };
        above = Some(start);
    }
    bytes + varint(further)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_leaves_room_in_a_cache_line() {
        assert_eq!((size_of::<Frame>(), size_of::<Packet>()), (16, 40));
    }

    /// By hand: flags 1, connection ID 8, packet number 1, tag 16; STREAM frame: type 1, ID 1, offset 2, length 2.
    #[test]
    fn a_full_data_packet_carries_1420_bytes_of_a_stream() {
        let cfg = QuicConfig::standard();
        let overhead = packet_overhead(&cfg, Level::Data, 100, 50);
        assert_eq!(overhead, 26);
        assert_eq!(u32::from(cfg.max_datagram) - overhead - stream_header(4, 5000), 1420);
        assert_eq!(frame_bytes(Frame::Stream { offset: 5000, stream: 4, len: 1420, fin: false }), 1426);
        assert_eq!(packet_overhead(&cfg, Level::Data, 1000, 10), 27);
        assert_eq!(packet_overhead(&cfg, Level::Data, 127, NOTHING), 27);
    }

    /// Section 19.3: largest 999 (2 bytes), delay 100 (2), one further range (1), first range 9 (1); gap 4 (1), range 2 (1); type 1.
    #[test]
    fn an_acknowledgement_with_a_hole() {
        assert_eq!(ack_bytes(100, [(990, 1000), (982, 985)].into_iter()), 1 + 2 + 2 + 1 + 1 + 1 + 1);
        assert_eq!(ack_bytes(0, [(0, 1)].into_iter()), 5);
    }

    #[test]
    fn integers_take_1_2_4_or_8_bytes() {
        let values = [63, 64, 16_383, 16_384, (1 << 30) - 1, 1 << 30];
        assert_eq!(values.map(varint), [1, 2, 2, 4, 4, 8]);
    }
}
