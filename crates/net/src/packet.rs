//! Packets in flight, in one pool, chained into the queues where they wait: a queue costs two words, and memory follows what is in flight.

use crate::network::SocketId;
use crate::tcp::Segment;
use onionlab_quantities::SimTime;

pub(crate) const NONE: u32 = u32::MAX;

/// Aligned so that its 96 bytes lie in two cache lines wherever it is in the pool.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
pub(crate) struct Packet {
    pub segment: Segment,
    /// The socket that it is for.
    pub to: SocketId,
    /// On the wire: when it arrives. In the downlink's queue: when it arrived.
    pub time: SimTime,
    /// Bytes on the wire, headers included.
    pub bytes: u32,
    next: u32,
    /// The `time` of the next packet in the list, so that nobody has to look at that packet, which would not be in the cache yet, for its time.
    next_time: SimTime,
}

impl Packet {
    /// When the packet behind this one in its list is due.
    pub fn next_time(&self) -> Option<SimTime> {
        (self.next != NONE).then_some(self.next_time)
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
    pub fn push(&mut self, list: &mut PacketList, segment: Segment, to: SocketId, time: SimTime, bytes: u32) {
        let packet = Packet { segment, to, time, bytes, next: NONE, next_time: SimTime::MAX };
        let id = if let Some(id) = self.free.pop() {
            self.packets[id as usize] = packet;
            id
        } else {
            self.packets.push(packet);
            self.packets.len() as u32 - 1
        };
        self.append(list, id, time);
    }

    fn append(&mut self, list: &mut PacketList, id: u32, time: SimTime) {
        if list.tail == NONE {
            list.head = id;
        } else {
            let tail = &mut self.packets[list.tail as usize];
            tail.next = id;
            tail.next_time = time;
        }
        list.tail = id;
    }

    pub fn front(&self, list: PacketList) -> Option<&Packet> {
        self.packets.get(list.head as usize)
    }

    pub fn pop(&mut self, list: &mut PacketList) -> Option<Packet> {
        let id = self.unlink(list)?;
        self.free.push(id);
        Some(self.packets[id as usize])
    }

    fn unlink(&mut self, list: &mut PacketList) -> Option<u32> {
        let id = list.head;
        let packet = *self.packets.get(id as usize)?;
        list.head = packet.next;
        if list.head == NONE {
            list.tail = NONE;
        }
        Some(id)
    }

    /// Moves the first packet of `from` to the end of `to`, stamped with `time`.
    pub fn transfer(&mut self, from: &mut PacketList, to: &mut PacketList, time: SimTime) {
        if let Some(id) = self.unlink(from) {
            let packet = &mut self.packets[id as usize];
            packet.next = NONE;
            packet.time = time;
            self.append(to, id, time);
        }
    }
}
