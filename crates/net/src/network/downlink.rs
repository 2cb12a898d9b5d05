//! From wires into sockets: through the downlink's queue, one packet at a time.

use super::{NetEvent, Network, SocketId};
use crate::queue::QueueDiscipline;
use crate::tcp::Segment;
use onionlab_engine::{EventQueue, HostId};

impl Network {
    /// The first packet on the wire of `sender` reaches the other host's downlink.
    pub(super) fn arrive<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, sender: SocketId) {
        let now = queue.now();
        let to = self.sockets[sender.peer().index()].host;
        let mut wire = self.sockets[sender.index()].wire;
        let Some(packet) = self.packets.front(wire).copied() else { return };
        let host = &mut self.hosts[to.index()];
        let fits = host.waiting.is_empty() || host.waiting_bytes + u64::from(packet.bytes) <= host.queue.limit.get();
        let straight_through = host.down.is_unlimited();
        if straight_through || !fits {
            self.packets.pop(&mut wire);
            if !straight_through {
                host.counters.downlink_drops += 1;
                self.connections[sender.connection()].in_flight -= 1;
            }
        } else {
            self.packets.transfer(&mut wire, &mut host.waiting, now);
            host.waiting_bytes += u64::from(packet.bytes);
        }
        self.sockets[sender.index()].wire = wire;
        if let Some(next) = packet.next_time() {
            queue.schedule(next, to, NetEvent::Arrive(sender).into());
        }
        if straight_through {
            self.receive(queue, to, packet.to, &packet.segment, packet.bytes);
        } else if self.hosts[to.index()].serving.is_empty() {
            self.start_downlink(queue, to);
        }
    }

    /// Takes packets from the head of the queue into the downlink, those first that find it idle and pass in no time.
    fn start_downlink<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, host_id: HostId) {
        let now = queue.now();
        loop {
            let host = &mut self.hosts[host_id.index()];
            let Some(packet) = self.packets.front(host.waiting).copied() else { return };
            host.waiting_bytes -= u64::from(packet.bytes);
            if let QueueDiscipline::CoDel { target, interval } = host.queue.discipline
                && host.codel.drops(now, now - packet.time, host.waiting_bytes, target, interval)
            {
                self.packets.pop(&mut host.waiting);
                host.counters.downlink_drops += 1;
                self.connections[packet.to.connection()].in_flight -= 1;
                continue;
            }
            let done = host.down.finish(now, packet.bytes);
            if done > now {
                self.packets.transfer(&mut host.waiting, &mut host.serving, now);
                queue.schedule(done, host_id, NetEvent::Deliver.into());
                return;
            }
            self.packets.pop(&mut host.waiting);
            self.receive(queue, host_id, packet.to, &packet.segment, packet.bytes);
        }
    }

    pub(super) fn deliver<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, host_id: HostId) {
        let Some(packet) = self.packets.pop(&mut self.hosts[host_id.index()].serving) else { return };
        self.receive(queue, host_id, packet.to, &packet.segment, packet.bytes);
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
        self.connections[to.connection()].in_flight -= 1;
        let effects = self.sockets[to.index()].tcb.on_segment(&self.tcp, queue.now(), segment);
        self.react(queue, to, effects);
        if self.sockets[to.index()].released {
            self.forget_if_silent(to);
        }
    }
}
