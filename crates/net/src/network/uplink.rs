//! From sockets onto wires: the uplink asks the sockets in turn for one segment each, or takes what they pushed into a queue.

use super::socket::Ready;
use super::{NetEvent, Network, SocketId};
use crate::packet::{NONE, PacketId};
use crate::queue::UplinkQueue;
use onionlab_engine::{EventQueue, HostId};
use onionlab_quantities::{SimDuration, SimTime};
use std::cmp::Reverse;

impl Network {
    /// The socket waits for its host's uplink.
    pub(super) fn push_ready(&mut self, host_id: HostId, id: SocketId) {
        let host = &mut self.hosts[host_id.index()];
        let socket = &mut self.sockets[id.index()];
        socket.ready = Ready::Waits;
        if host.uplink_queue.follows_writes() {
            host.made_ready += 1;
            let heap = host.uplink_queue == UplinkQueue::WriteHeap;
            let (numbered, order) = socket.transport.order(!heap);
            host.writes += u64::from(numbered);
            let order = if numbered { host.writes } else { order };
            if heap {
                if order > 0 {
                    socket.ready = Ready::WaitsByNumber;
                }
                host.write_queue.push(order, id);
                return;
            }
            host.ready_by_write.push(Reverse((order, host.made_ready, id.0)));
            return;
        }
        socket.ready_next = NONE;
        if host.ready_tail == NONE {
            host.ready_head = id.0;
        } else {
            self.sockets[host.ready_tail as usize].ready_next = id.0;
        }
        host.ready_tail = id.0;
    }

    /// The uplink is free: what waited for it goes, a burst of it where links pass bursts.
    pub(super) fn uplink_free<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, host_id: HostId) {
        let host = &mut self.hosts[host_id.index()];
        host.up_event = false;
        let until = queue.now() + host.up.span();
        self.transmit_until(queue, host_id, until);
    }

    /// Sends from the sockets in turn, one segment each, until the uplink is busy or nobody has anything to send.
    pub(super) fn transmit<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, host_id: HostId) {
        self.transmit_until(queue, host_id, queue.now());
    }

    /// The same until the uplink is busy beyond `until`.
    fn transmit_until<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, host_id: HostId, until: SimTime) {
        if let Some(packets) = self.hosts[host_id.index()].uplink_queue.packets() {
            // What leaves may make room for a socket's next.
            self.fill_uplink_queue(queue, host_id, packets);
            while self.drain_uplink_queue(queue, host_id, until) {
                self.fill_uplink_queue(queue, host_id, packets);
            }
            return;
        }
        loop {
            let host = &mut self.hosts[host_id.index()];
            if host.ready_head == NONE && host.ready_by_write.is_empty() && host.write_queue.is_empty() {
                return;
            }
            if host.up_free > until {
                return self.await_uplink(queue, host_id);
            }
            let Some((id, packet)) = self.next_ready(queue, host_id) else { continue };
            self.put_on_wire(queue, id, packet);
            self.arm_timer(queue, id);
            self.forget_if_released(id);
        }
    }

    /// Takes the first socket out of the list of those that wait.
    fn take_first_ready(&mut self, host_id: HostId) -> SocketId {
        let host = &mut self.hosts[host_id.index()];
        let id = SocketId(host.ready_head);
        host.ready_head = self.sockets[id.index()].ready_next;
        if host.ready_head == NONE {
            host.ready_tail = NONE;
        }
        id
    }

    /// A packet of the socket whose turn it is; none if it has nothing to send any more.
    fn next_ready<E: Copy + From<NetEvent>>(
        &mut self,
        queue: &mut EventQueue<E>,
        host_id: HostId,
    ) -> Option<(SocketId, PacketId)> {
        let now = queue.now();
        let host = &mut self.hosts[host_id.index()];
        let id = if let Some(Reverse((_, _, first))) = host.ready_by_write.pop() {
            SocketId(first)
        } else if let Some(first) = host.write_queue.pop() {
            first
        } else {
            self.take_first_ready(host_id)
        };
        self.changed[id.index()] = true;
        let socket = &mut self.sockets[id.index()];
        socket.ready = Ready::No;
        let packet_id = self.packets.reserve();
        let packet = self.packets.get_mut(packet_id);
        if !socket.transport.write_packet(&self.protocols, now, packet) {
            self.packets.release(packet_id);
            self.arm_timer(queue, id);
            self.forget_if_released(id);
            return None;
        }
        packet.to = id.peer();
        let again = socket.transport.wants_send(&self.protocols, now);
        if again {
            self.push_ready(host_id, id);
        }
        Some((id, packet_id))
    }

    fn await_uplink<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, host_id: HostId) {
        let host = &mut self.hosts[host_id.index()];
        if !host.up_event {
            host.up_event = true;
            queue.schedule(host.up_free, host_id, NetEvent::UplinkFree.into());
        }
    }

    /// Moves all that the sockets may send into the uplink's queue of at most `limit` packets, or drops it there; what finds the wire free does
    /// not count.
    fn fill_uplink_queue<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, host_id: HostId, limit: u32) {
        let now = queue.now();
        let small = matches!(self.hosts[host_id.index()].uplink_queue, UplinkQueue::SmallQueues { .. });
        while self.hosts[host_id.index()].ready_head != NONE {
            let first = SocketId(self.hosts[host_id.index()].ready_head);
            if small && self.has_its_share(first) {
                self.take_first_ready(host_id);
                self.sockets[first.index()].ready = Ready::No;
                self.arm_timer(queue, first);
                continue;
            }
            let Some((id, packet)) = self.next_ready(queue, host_id) else { continue };
            let host = &mut self.hosts[host_id.index()];
            if host.leaving_packets >= limit + u32::from(host.up_free <= now) {
                host.counters.uplink_drops += 1;
                self.packets.release(packet);
            } else {
                let socket = &mut self.sockets[id.index()];
                socket.leaving += u16::from(small && self.packets.get(packet).brings_data());
                socket.add_packet();
                self.packets.append(&mut host.leaving, packet, now);
                host.leaving_packets += 1;
            }
            self.arm_timer(queue, id);
        }
    }

    /// Whether the uplink's queue holds as many segments of the socket as it may, and nothing else is due: acknowledgements alone are not counted (`skb_is_tcp_pure_ack`).
    fn has_its_share(&self, id: SocketId) -> bool {
        let socket = &self.sockets[id.index()];
        socket.leaving > 0
            && u32::from(socket.leaving) >= socket.transport.small_queue(&self.protocols)
            && !socket.transport.owes_unnumbered()
    }

    /// Puts packets from the uplink's queue on the wire until it is busy beyond `until`, or until a socket waits that has room in the queue again; whether one does.
    fn drain_uplink_queue<E: Copy + From<NetEvent>>(
        &mut self,
        queue: &mut EventQueue<E>,
        host_id: HostId,
        until: SimTime,
    ) -> bool {
        loop {
            let host = &mut self.hosts[host_id.index()];
            if host.leaving.is_empty() {
                return false;
            }
            if host.up_free > until {
                self.await_uplink(queue, host_id);
                return false;
            }
            let Some(packet) = self.packets.unlink(&mut host.leaving) else { return false };
            host.leaving_packets -= 1;
            let (id, data) = (self.packets.get(packet).to.peer(), self.packets.get(packet).brings_data());
            let socket = &mut self.sockets[id.index()];
            socket.take_packet();
            let waits = data && socket.leaving > 0;
            socket.leaving -= u16::from(waits);
            self.put_on_wire(queue, id, packet);
            let socket = &self.sockets[id.index()];
            if socket.released {
                self.forget_if_silent(id);
            } else if waits && socket.ready == Ready::No && socket.transport.wants_send(&self.protocols, queue.now()) {
                self.push_ready(host_id, id);
                return true;
            }
        }
    }

    /// All that the socket may send goes to a host beside its own, by no link.
    #[cold]
    pub(super) fn hand_over<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, id: SocketId) {
        self.changed[id.index()] = true;
        let now = queue.now();
        let arrival = now + self.connections[id.connection()].path.latency;
        let receiver = self.sockets[id.peer().index()].host;
        while self.sockets[id.index()].transport.wants_send(&self.protocols, now) {
            let packet_id = self.packets.reserve();
            let packet = self.packets.get_mut(packet_id);
            let socket = &mut self.sockets[id.index()];
            if !socket.transport.write_packet(&self.protocols, now, packet) {
                self.packets.release(packet_id);
                return;
            }
            packet.to = id.peer();
            socket.add_packet();
            queue.schedule(arrival, receiver, NetEvent::Beside(packet_id).into());
        }
    }

    /// The uplink takes a packet of this socket, which arrives unless the path loses it.
    fn put_on_wire<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, id: SocketId, packet: PacketId) {
        let bytes = self.packets.get(packet).wire_bytes(&self.protocols);
        let connection = &self.connections[id.connection()];
        let socket = &mut self.sockets[id.index()];
        let host = &mut self.hosts[socket.host.index()];
        let passage = host.up.pass(queue.now(), host.up_free, bytes);
        host.up_free = passage.free;
        host.counters.bytes_sent += u64::from(bytes);
        host.counters.packets_sent += 1;
        // Two values a packet (lost? how late?), apart for the two directions.
        let ordinal = u64::from(socket.packets) << 2 | u64::from(id.0 & 1) << 1;
        socket.packets = socket.packets.wrapping_add(1);
        if connection.path.loss > 0.0 && connection.stream.at(ordinal).chance(f64::from(connection.path.loss)) {
            host.counters.path_losses += 1;
            self.packets.release(packet);
            return;
        }
        let mut arrival = passage.through + connection.path.latency;
        if connection.path.jitter > SimDuration::ZERO {
            let extra = connection.stream.at(ordinal | 1).exponential(connection.path.jitter.as_secs_f64());
            arrival += SimDuration::from_secs_f64_rounded(extra);
        }
        arrival = arrival.max(socket.last_arrival);
        socket.last_arrival = arrival;
        socket.add_packet();
        queue.schedule(arrival, self.sockets[id.peer().index()].host, NetEvent::Arrive(packet).into());
    }
}
