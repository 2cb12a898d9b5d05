//! From sockets onto wires: the uplink asks the sockets in turn for one segment each.

use super::{NetEvent, Network, SocketId};
use crate::packet::NONE;
use crate::tcp::Segment;
use onionlab_engine::{EventQueue, HostId};
use onionlab_quantities::SimDuration;

impl Network {
    pub(super) fn push_ready(&mut self, host_id: HostId, id: SocketId) {
        let host = &mut self.hosts[host_id.index()];
        self.sockets[id.index()].ready_next = NONE;
        if host.ready_tail == NONE {
            host.ready_head = id.0;
        } else {
            self.sockets[host.ready_tail as usize].ready_next = id.0;
        }
        host.ready_tail = id.0;
    }

    /// Sends from the sockets in turn, one segment each, until the uplink is busy or nobody has anything to send.
    pub(super) fn transmit<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, host_id: HostId) {
        let now = queue.now();
        loop {
            let host = &mut self.hosts[host_id.index()];
            if host.ready_head == NONE {
                return;
            }
            if host.up_free > now {
                if !host.up_event {
                    host.up_event = true;
                    queue.schedule(host.up_free, host_id, NetEvent::UplinkFree.into());
                }
                return;
            }
            let id = SocketId(host.ready_head);
            let socket = &mut self.sockets[id.index()];
            host.ready_head = socket.ready_next;
            if host.ready_head == NONE {
                host.ready_tail = NONE;
            }
            socket.in_ready = false;
            let Some(segment) = socket.tcb.next_segment(&self.tcp, now) else {
                self.arm_timer(queue, id);
                continue;
            };
            let again = socket.tcb.wants_send(&self.tcp, now);
            if again {
                socket.in_ready = true;
                self.push_ready(host_id, id);
            }
            self.put_on_wire(queue, id, segment);
            self.arm_timer(queue, id);
        }
    }

    fn put_on_wire<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, id: SocketId, segment: Segment) {
        let bytes = segment.wire_bytes(&self.tcp);
        let connection = self.connections[id.connection()];
        let socket = &mut self.sockets[id.index()];
        let host = &mut self.hosts[socket.host.index()];
        let departure = host.up.finish(queue.now(), bytes);
        host.up_free = departure;
        host.counters.bytes_sent += u64::from(bytes);
        host.counters.packets_sent += 1;
        // Two values a packet (lost? how late?), apart for the two directions.
        let ordinal = u64::from(socket.packets) << 2 | u64::from(id.0 & 1) << 1;
        socket.packets = socket.packets.wrapping_add(1);
        if connection.path.loss > 0.0 && connection.stream.at(ordinal).chance(f64::from(connection.path.loss)) {
            host.counters.path_losses += 1;
            return;
        }
        let mut arrival = departure + connection.path.latency;
        if connection.path.jitter > SimDuration::ZERO {
            let extra = connection.stream.at(ordinal | 1).exponential(connection.path.jitter.as_secs_f64());
            arrival += SimDuration::from_secs_f64_rounded(extra);
        }
        arrival = arrival.max(socket.last_arrival);
        let gap = arrival.saturating_since(std::mem::replace(&mut socket.last_arrival, arrival));
        socket.balance = socket.balance.wrapping_add(1);
        let first = socket.wire.is_empty();
        self.packets.push(&mut socket.wire, &segment, id.peer(), arrival, gap);
        if first {
            let to = self.sockets[id.peer().index()].host;
            queue.schedule(arrival, to, NetEvent::Arrive(id).into());
        }
    }
}
