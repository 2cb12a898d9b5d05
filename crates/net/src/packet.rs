//! Packets in flight, in one pool. On a wire a packet is nothing but the event of its arrival; in a queue it is chained to the next. A queue so costs two
//! words, and memory follows what is in flight.

use crate::network::{Protocols, SocketId};
use crate::quic;
use crate::tcp::Segment;
use onionlab_engine::prefetch;
use onionlab_quantities::SimTime;

pub(crate) const NONE: u32 = u32::MAX;

/// A packet in the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketId(u32);

/// What a packet is to the two ends of its connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body {
    Segment(Segment),
    Datagram(quic::Packet),
}

/// A segment or a datagram on its way, in one cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Packet {
    pub body: Body,
    /// When it joined the downlink's queue.
    pub queued: SimTime,
    /// The socket that it is for.
    pub to: SocketId,
    next: u32,
}

impl Packet {
    /// Bytes on the wire, headers included.
    pub fn wire_bytes(&self, protocols: &Protocols) -> u32 {
        match &self.body {
            Body::Segment(segment) => segment.wire_bytes(&protocols.tcp),
            Body::Datagram(datagram) => Self::datagram_bytes(datagram, protocols),
        }
    }

    #[inline(never)]
    fn datagram_bytes(datagram: &quic::Packet, protocols: &Protocols) -> u32 {
        datagram.wire_bytes(&protocols.quic)
    }

    /// The segment that is to be written here.
    pub fn segment_mut(&mut self) -> &mut Segment {
        if let Body::Datagram(_) = self.body {
            self.clear();
        }
        match &mut self.body {
            Body::Segment(segment) => segment,
            Body::Datagram(_) => unreachable!("it was replaced"),
        }
    }

    #[inline(never)]
    fn clear(&mut self) {
        self.body = Body::Segment(Segment::default());
    }

    /// Whether it brings a TCP socket data.
    pub fn brings_data(&self) -> bool {
        matches!(&self.body, Body::Segment(segment) if segment.len > 0)
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
}

impl PacketPool {
    /// A packet whose body is still to be written: a segment without SACK blocks.
    pub fn reserve(&mut self) -> PacketId {
        if let Some(id) = self.free.pop() {
            return PacketId(id);
        }
        self.packets.push(Packet {
            body: Body::Segment(Segment::default()),
            queued: SimTime::ZERO,
            to: SocketId(NONE),
            next: NONE,
        });
        PacketId(self.packets.len() as u32 - 1)
    }

    /// The packet, which is in no list, is no longer needed.
    pub fn release(&mut self, id: PacketId) {
        let packet = &mut self.packets[id.0 as usize];
        if let Body::Segment(segment) = &mut packet.body {
            segment.sack = None;
        } else {
            packet.clear();
        }
        self.free.push(id.0);
    }

    pub fn get(&self, id: PacketId) -> &Packet {
        &self.packets[id.0 as usize]
    }

    pub fn get_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.packets[id.0 as usize]
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::{Flags, SackBlock};

    fn segment(seq: u64, sacks: u8) -> Segment {
        let block = |block: u32| SackBlock { start: block * u32::from(sacks), end: 9 * u32::from(sacks) };
        let sack = (sacks > 0).then(|| Box::new([block(0), block(1), block(2)]));
        let time = SimTime::from_nanos(seq + 1);
        Segment { seq, ack: 2, ts_val: time, ts_echo: time, window: 7, len: 8, flags: Flags::ACK, sack_count: sacks, sack }
    }

    /// Segments with and without SACK blocks, and a datagram.
    fn body(index: u32) -> Body {
        if index == 4 { Body::Datagram(quic::Packet::default()) } else { Body::Segment(segment(u64::from(index), index as u8)) }
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
                let id = pool.reserve();
                assert!(matches!(&pool.get(id).body, Body::Segment(segment) if segment.sack.is_none()));
                pool.get_mut(id).body = body(index);
                pool.get_mut(id).to = SocketId(index);
                pool.append(&mut lists[0], id, SimTime::ZERO);
            }
            while let Some(id) = pool.unlink(&mut lists[0]) {
                pool.append(&mut lists[1], id, SimTime::from_nanos(7));
            }
            assert!(lists[0].is_empty());
            for index in 0..5_u32 {
                let id = pool.unlink(&mut lists[1]).unwrap();
                let packet = pool.get(id);
                assert_eq!((&packet.body, packet.to, packet.queued.as_nanos()), (&body(index), SocketId(index), 7));
                pool.release(id);
            }
            assert_eq!(pool.unlink(&mut lists[1]), None);
        }
        assert_eq!(pool.packets.len(), 5);
    }
}
