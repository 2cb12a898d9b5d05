//! From wires into sockets: through the downlink's queue, one packet at a time.

use super::{NetEvent, Network, SocketId};
use crate::queue::QueueDiscipline;
use crate::tcp::Segment;
use onionlab_engine::{EventQueue, HostId};

impl Network {
    /// The first packet on the wire of `sender` reaches the downlink of `to`, the other host.
    pub(super) fn arrive<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, to: HostId, sender: SocketId) {
        let now = queue.now();
        let mut wire = self.sockets[sender.index()].wire;
        let Some(packet) = self.packets.front(wire) else { return };
        let bytes = packet.wire_bytes(&self.tcp);
        let next = self.packets.next_time(packet);
        let host = &mut self.hosts[to.index()];
        let fits = host.waiting.is_empty()
            || host.waiting_bytes + u64::from(bytes) <= host.queue.limit.get()
                && host.queue.limit_packets.is_none_or(|limit| host.waiting_packets < limit);
        let mut received = None;
        if host.down.is_unlimited() {
            received = self.packets.pop(&mut wire);
        } else if fits {
            self.packets.transfer(&mut wire, &mut host.waiting, now);
            host.waiting_bytes += u64::from(bytes);
            host.waiting_packets += 1;
        } else {
            self.packets.pop(&mut wire);
            host.counters.downlink_drops += 1;
            self.sockets[sender.peer().index()].take_packet();
        }
        self.sockets[sender.index()].wire = wire;
        if let Some(next) = next {
            queue.schedule(next, to, NetEvent::Arrive(sender).into());
        }
        if let Some((segment, socket)) = received {
            self.receive(queue, to, socket, &segment, bytes);
        } else if self.hosts[to.index()].serving.is_empty() {
            self.start_downlink(queue, to);
        }
    }

    /// Takes packets from the head of the queue into the downlink, those first that find it idle and pass in no time.
    fn start_downlink<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, host_id: HostId) {
        let now = queue.now();
        loop {
            let host = &mut self.hosts[host_id.index()];
            let Some(packet) = self.packets.front(host.waiting) else { return };
            let bytes = packet.wire_bytes(&self.tcp);
            host.waiting_bytes -= u64::from(bytes);
            host.waiting_packets -= 1;
            if let QueueDiscipline::CoDel { target, interval } = host.queue.discipline
                && host.codel.drops(now, now - packet.time, host.waiting_bytes, target, interval)
            {
                host.counters.downlink_drops += 1;
                self.sockets[packet.to.index()].take_packet();
                self.packets.pop(&mut host.waiting);
                continue;
            }
            let done = host.down.finish(now, bytes);
            if done > now {
                self.packets.transfer(&mut host.waiting, &mut host.serving, now);
                queue.schedule(done, host_id, NetEvent::Deliver.into());
                return;
            }
            let Some((segment, to)) = self.packets.pop(&mut host.waiting) else { return };
            self.receive(queue, host_id, to, &segment, bytes);
        }
    }

    pub(super) fn deliver<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, host_id: HostId) {
        let Some((segment, to)) = self.packets.pop(&mut self.hosts[host_id.index()].serving) else { return };
        let bytes = segment.wire_bytes(&self.tcp);
        self.receive(queue, host_id, to, &segment, bytes);
        self.start_downlink(queue, host_id);
    }

    fn receive<E: Copy + From<NetEvent>>(
        &mut self,
        queue: &mut EventQueue<E>,
        host_id: HostId,
        to: SocketId,
        segment: &Segment,
        bytes: u32,
    ) {
        self.hosts[host_id.index()].counters.bytes_received += u64::from(bytes);
        let socket = &mut self.sockets[to.index()];
        socket.take_packet();
        let effects = socket.tcb.on_segment(&self.tcp, queue.now(), segment);
        self.react(queue, to, effects);
        if self.sockets[to.index()].released {
            self.forget_if_silent(to);
        }
    }
}
