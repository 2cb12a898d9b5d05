//! Packets in flight, in one pool. On a wire a packet is nothing but the event of its arrival; in a queue it is chained to the next. A queue so costs two
//! words, and memory follows what is in flight.

use crate::network::SocketId;
use crate::tcp::{Flags, SackBlock, Segment, TcpConfig};
use onionlab_engine::prefetch;
use onionlab_quantities::SimTime;

pub(crate) const NONE: u32 = u32::MAX;

/// A packet in the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketId(u32);

/// A segment on its way, in one cache line. Its SACK blocks, which few segments have, lie apart.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Packet {
    seq: u64,
    ack: u64,
    ts_val: SimTime,
    ts_echo: SimTime,
    /// When it joined the downlink's queue.
    pub queued: SimTime,
    window: u32,
    /// The socket that it is for.
    pub to: SocketId,
    next: u32,
    sack: u32,
    pub len: u16,
    flags: Flags,
    sack_count: u8,
}

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
    /// A packet that carries `segment` to a socket.
    pub fn add(&mut self, segment: &Segment, to: SocketId) -> PacketId {
        let sack = if segment.sack_count == 0 { NONE } else { self.keep_sack(segment.sack) };
        let packet = Packet {
            seq: segment.seq,
            ack: segment.ack,
            ts_val: segment.ts_val,
            ts_echo: segment.ts_echo,
            queued: SimTime::ZERO,
            window: segment.window,
            to,
            next: NONE,
            sack,
            len: segment.len,
            flags: segment.flags,
            sack_count: segment.sack_count,
        };
        if let Some(id) = self.free.pop() {
            self.packets[id as usize] = packet;
            PacketId(id)
        } else {
            self.packets.push(packet);
            PacketId(self.packets.len() as u32 - 1)
        }
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

    pub fn get(&self, id: PacketId) -> &Packet {
        &self.packets[id.0 as usize]
    }

    /// Adds a packet, which is in no list, to the end of one.
    pub fn append(&mut self, list: &mut PacketList, id: PacketId, now: SimTime) {
        let packet = &mut self.packets[id.0 as usize];
        packet.next = NONE;
        packet.queued = now;
        if list.tail == NONE {
            list.head = id.0;
        } else {
            self.packets[list.tail as usize].next = id.0;
        }
        list.tail = id.0;
    }

    /// Asks for the memory of the first packet of a list.
    #[inline]
    pub fn prefetch_first(&self, list: PacketList) {
        if let Some(packet) = self.packets.get(list.head as usize) {
            prefetch(packet, size_of::<Packet>());
        }
    }

    /// Takes the first packet out of a list; it stays in the pool.
    pub fn unlink(&self, list: &mut PacketList) -> Option<PacketId> {
        let id = list.head;
        list.head = self.packets.get(id as usize)?.next;
        if list.head == NONE {
            list.tail = NONE;
        }
        Some(PacketId(id))
    }

    /// Takes a packet, which is in no list, out of the pool: its segment, and the socket that it is for.
    pub fn take(&mut self, id: PacketId) -> (Segment, SocketId) {
        let packet = &self.packets[id.0 as usize];
        self.free.push(id.0);
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
        (segment, packet.to)
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

    /// Through two lists, with and without SACK blocks, the pool's places used several times over.
    #[test]
    fn what_comes_out_is_what_went_in() {
        let mut pool = PacketPool::default();
        for _ in 0..3 {
            let mut lists = [PacketList::EMPTY; 2];
            for index in 0..5_u32 {
                let blocks = (index % 4) as u8;
                let mut segment = segment(u64::from(index), blocks);
                if blocks == 0 {
                    segment.sack = Default::default();
                }
                let id = pool.add(&segment, SocketId(index));
                pool.append(&mut lists[0], id, SimTime::ZERO);
            }
            while let Some(id) = pool.unlink(&mut lists[0]) {
                pool.append(&mut lists[1], id, SimTime::from_nanos(7));
            }
            assert!(lists[0].is_empty());
            for index in 0..5_u32 {
                let front = pool.unlink(&mut lists[1]).unwrap();
                assert_eq!(pool.get(front).queued.as_nanos(), 7);
                let (got, to) = pool.take(front);
                let mut expected = segment(u64::from(index), (index % 4) as u8);
                if expected.sack_count == 0 {
                    expected.sack = Default::default();
                }
                assert_eq!((got, to), (expected, SocketId(index)));
            }
            assert_eq!(pool.unlink(&mut lists[1]), None);
        }
        assert_eq!(pool.packets.len(), 5);
        assert_eq!(pool.sacks.len(), 3);
    }
}
