//! Packets in flight, in one pool, chained into the queues where they wait: a queue costs two words, and memory follows what is in flight.

use crate::network::SocketId;
use crate::tcp::{Flags, SackBlock, Segment, TcpConfig};
use onionlab_quantities::{SimDuration, SimTime};

pub(crate) const NONE: u32 = u32::MAX;

/// A segment on its way, in one cache line. Its SACK blocks, which few segments have, lie apart.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Packet {
    seq: u64,
    ack: u64,
    ts_val: SimTime,
    ts_echo: SimTime,
    /// On the wire: when it arrives. In the downlink's queue: when it arrived.
    pub time: SimTime,
    window: u32,
    /// The socket that it is for.
    pub to: SocketId,
    next: u32,
    /// Nanoseconds from `time` to the `time` of the next packet on the wire, so that nobody has to look at that packet, which would not be in
    /// the cache yet; [`FAR`] if they are more.
    gap: u32,
    sack: u32,
    len: u16,
    flags: Flags,
    sack_count: u8,
}

const FAR: u32 = u32::MAX;

impl Packet {
    /// Bytes on the wire, headers included.
    pub fn wire_bytes(&self, cfg: &TcpConfig) -> u32 {
        cfg.wire_bytes(self.len, self.flags, self.sack_count)
    }
}

/// First in, first out; the packets themselves lie in the pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PacketList {
    head: u32,
    tail: u32,
}

impl PacketList {
    pub const EMPTY: Self = Self { head: NONE, tail: NONE };
    pub const fn is_empty(self) -> bool {
        self.head == NONE
    }
}

#[derive(Debug, Default)]
pub(crate) struct PacketPool {
    packets: Vec<Packet>,
    free: Vec<u32>,
    sacks: Vec<[SackBlock; 3]>,
    free_sacks: Vec<u32>,
}

impl PacketPool {
    /// Adds a packet to a list, `gap` after the one that was added before it.
    pub fn push(&mut self, list: &mut PacketList, segment: &Segment, to: SocketId, time: SimTime, gap: SimDuration) {
        let sack = if segment.sack_count == 0 { NONE } else { self.keep_sack(segment.sack) };
        let packet = Packet {
            seq: segment.seq,
            ack: segment.ack,
            ts_val: segment.ts_val,
            ts_echo: segment.ts_echo,
            time,
            window: segment.window,
            to,
            next: NONE,
            gap: FAR,
            sack,
            len: segment.len,
            flags: segment.flags,
            sack_count: segment.sack_count,
        };
        let id = if let Some(id) = self.free.pop() {
            self.packets[id as usize] = packet;
            id
        } else {
            self.packets.push(packet);
            self.packets.len() as u32 - 1
        };
        self.append(list, id, gap);
    }

    #[cold]
    fn keep_sack(&mut self, blocks: [SackBlock; 3]) -> u32 {
        if let Some(id) = self.free_sacks.pop() {
            self.sacks[id as usize] = blocks;
            return id;
        }
        self.sacks.push(blocks);
        self.sacks.len() as u32 - 1
    }

    /// The last packet's line is written here, not read: it need not be waited for.
    fn append(&mut self, list: &mut PacketList, id: u32, gap: SimDuration) {
        if list.tail == NONE {
            list.head = id;
        } else {
            let tail = &mut self.packets[list.tail as usize];
            tail.next = id;
            tail.gap = u32::try_from(gap.as_nanos()).unwrap_or(FAR);
        }
        list.tail = id;
    }

    pub fn front(&self, list: PacketList) -> Option<&Packet> {
        self.packets.get(list.head as usize)
    }

    /// When the packet behind this one in its list is due.
    pub fn next_time(&self, packet: &Packet) -> Option<SimTime> {
        let next = self.packets.get(packet.next as usize);
        if packet.gap == FAR {
            return next.map(|next| next.time);
        }
        next.map(|_| packet.time + SimDuration::from_nanos(u64::from(packet.gap)))
    }

    /// Takes the first packet out: its segment, and the socket that it is for.
    pub fn pop(&mut self, list: &mut PacketList) -> Option<(Segment, SocketId)> {
        let id = self.unlink(list)?;
        self.free.push(id);
        let packet = &self.packets[id as usize];
        let sack = match packet.sack {
            NONE => Default::default(),
            sack => {
                self.free_sacks.push(sack);
                self.sacks[sack as usize]
            }
        };
        let segment = Segment {
            seq: packet.seq,
            ack: packet.ack,
            ts_val: packet.ts_val,
            ts_echo: packet.ts_echo,
            window: packet.window,
            len: packet.len,
            flags: packet.flags,
            sack_count: packet.sack_count,
            sack,
        };
        Some((segment, packet.to))
    }

    fn unlink(&mut self, list: &mut PacketList) -> Option<u32> {
        let id = list.head;
        list.head = self.packets.get(id as usize)?.next;
        if list.head == NONE {
            list.tail = NONE;
        }
        Some(id)
    }

    /// Moves the first packet of `from`, a wire, to the end of `to`, a queue, stamped with `time`. Nobody asks when the next of a queue is due.
    pub fn transfer(&mut self, from: &mut PacketList, to: &mut PacketList, time: SimTime) {
        if let Some(id) = self.unlink(from) {
            let packet = &mut self.packets[id as usize];
            packet.next = NONE;
            packet.time = time;
            self.append(to, id, SimDuration::from_nanos(u64::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(seq: u64, sacks: u8) -> Segment {
        let sack = std::array::from_fn(|block| SackBlock { start: block as u32 * u32::from(sacks), end: 9 * u32::from(sacks) });
        let time = SimTime::from_nanos(seq + 1);
        Segment { seq, ack: 2, ts_val: time, ts_echo: time, window: 7, len: 8, flags: Flags::ACK, sack_count: sacks, sack }
    }

    #[test]
    fn a_packet_is_one_cache_line() {
        assert_eq!(size_of::<Packet>(), 64);
    }

    /// Through two lists, with and without SACK blocks, near and far apart in time, the pool's places used several times over.
    #[test]
    fn what_comes_out_is_what_went_in() {
        let mut pool = PacketPool::default();
        for _ in 0..3 {
            let (mut wire, mut waiting) = (PacketList::EMPTY, PacketList::EMPTY);
            let times = [5, 6, 10_000_000_000, 10_000_000_000 + u64::from(FAR), 40_000_000_000];
            for (index, &nanos) in times.iter().enumerate() {
                let blocks = (index % 4) as u8;
                let mut segment = segment(index as u64, blocks);
                if blocks == 0 {
                    segment.sack = Default::default();
                }
                let gap = nanos - times[index.saturating_sub(1)];
                pool.push(&mut wire, &segment, SocketId(index as u32), SimTime::from_nanos(nanos), SimDuration::from_nanos(gap));
            }
            for (index, &nanos) in times.iter().enumerate() {
                let front = *pool.front(wire).unwrap();
                assert_eq!(front.time.as_nanos(), nanos);
                assert_eq!(pool.next_time(&front).map(SimTime::as_nanos), times.get(index + 1).copied());
                pool.transfer(&mut wire, &mut waiting, SimTime::from_nanos(nanos + 1));
            }
            assert!(wire.is_empty());
            for index in 0..times.len() {
                let (got, to) = pool.pop(&mut waiting).unwrap();
                let mut expected = segment(index as u64, (index % 4) as u8);
                if expected.sack_count == 0 {
                    expected.sack = Default::default();
                }
                assert_eq!((got, to), (expected, SocketId(index as u32)));
            }
            assert!(pool.pop(&mut waiting).is_none());
        }
        assert_eq!(pool.packets.len(), 5);
        assert_eq!(pool.sacks.len(), 3);
    }
}
