//! From wires into sockets: through the downlink's queue, one packet at a time.

use super::{NetEvent, Network};
use crate::packet::PacketId;
use crate::queue::QueueDiscipline;
use onionlab_engine::{EventQueue, HostId};

impl Network {
    /// A packet reaches the downlink of `to`.
    pub(super) fn arrive<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, to: HostId, id: PacketId) {
        let now = queue.now();
        let packet = self.packets.get(id);
        let bytes = packet.wire_bytes(&self.tcp);
        let host = &mut self.hosts[to.index()];
        if host.down.is_unlimited() {
            return self.receive(queue, to, id, bytes);
        }
        let fits = host.waiting.is_empty()
            || host.waiting_bytes + u64::from(bytes) <= host.queue.limit.get()
                && host.queue.limit_packets.is_none_or(|limit| host.waiting_packets < limit);
        if fits {
            self.packets.append(&mut host.waiting, id, now);
            host.waiting_bytes += u64::from(bytes);
            host.waiting_packets += 1;
        } else {
            host.counters.downlink_drops += 1;
            let (_, socket) = self.packets.take(id);
            self.sockets[socket.index()].take_packet();
        }
        if !host.down_busy {
            self.start_downlink(queue, to);
        }
    }

    /// Takes packets from the head of the queue into the downlink, those first that find it idle and pass in no time.
    fn start_downlink<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, host_id: HostId) {
        let now = queue.now();
        loop {
            let host = &mut self.hosts[host_id.index()];
            let Some(id) = self.packets.unlink(&mut host.waiting) else { return };
            let packet = self.packets.get(id);
            let bytes = packet.wire_bytes(&self.tcp);
            host.waiting_bytes -= u64::from(bytes);
            host.waiting_packets -= 1;
            if let QueueDiscipline::CoDel { target, interval } = host.queue.discipline
                && host.codel.drops(now, now - packet.queued, host.waiting_bytes, target, interval)
            {
                host.counters.downlink_drops += 1;
                let (_, socket) = self.packets.take(id);
                self.sockets[socket.index()].take_packet();
                continue;
            }
            let done = host.down.finish(now, bytes);
            if done > now {
                host.down_busy = true;
                queue.schedule(done, host_id, NetEvent::Deliver(id).into());
                return;
            }
            self.receive(queue, host_id, id, bytes);
        }
    }

    pub(super) fn deliver<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, host_id: HostId, id: PacketId) {
        let bytes = self.packets.get(id).wire_bytes(&self.tcp);
        self.receive(queue, host_id, id, bytes);
        self.hosts[host_id.index()].down_busy = false;
        self.start_downlink(queue, host_id);
    }

    fn receive<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, host_id: HostId, id: PacketId, bytes: u32) {
        self.hosts[host_id.index()].counters.bytes_received += u64::from(bytes);
        let (segment, to) = self.packets.take(id);
        let socket = &mut self.sockets[to.index()];
        socket.take_packet();
        let effects = socket.tcb.on_segment(&self.tcp, queue.now(), &segment);
        self.react(queue, to, effects);
        if self.sockets[to.index()].released {
            self.forget_if_silent(to);
        }
    }
}
