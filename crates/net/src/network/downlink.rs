//! From wires into sockets: through the downlink's queue, one packet at a time.

use super::Transport;
use super::host::Host;
use super::{NetEvent, Network, SocketId};
use crate::packet::{Body, PacketId};
use crate::queue::QueueDiscipline;
use crate::tcp::{Effects, RoundTrips};
use onionlab_engine::{EventQueue, HostId};
use onionlab_quantities::{SimDuration, SimTime};

impl Network {
    /// A packet reaches the downlink of `to`.
    pub(super) fn arrive<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, to: HostId, id: PacketId) {
        let now = queue.now();
        let bytes = self.packets.get(id).wire_bytes(&self.protocols);
        let host = &mut self.hosts[to.index()];
        if host.down.is_unlimited() {
            return self.receive(queue, to, id, bytes);
        }
        if !host.down_busy {
            // Nothing waits.
            self.enter_downlink(queue, to, id, bytes, now);
            return;
        }
        let fits = host.waiting.is_empty()
            || host.waiting_bytes + u64::from(bytes) <= host.queue.limit.get()
                && host.queue.limit_packets.is_none_or(|limit| host.waiting_packets < limit);
        if fits {
            self.packets.append(&mut host.waiting, id, now);
            host.waiting_bytes += u64::from(bytes);
            host.waiting_packets += 1;
        } else {
            self.drop_before_downlink(to, id);
        }
    }

    /// Takes a packet that has waited since `queued` into the downlink, which is free, unless the queue drops it. Others may follow if it passes in no time.
    fn enter_downlink<E: Copy + From<NetEvent>>(
        &mut self,
        queue: &mut EventQueue<E>,
        host_id: HostId,
        id: PacketId,
        bytes: u32,
        queued: SimTime,
    ) {
        let now = queue.now();
        let host = &mut self.hosts[host_id.index()];
        if let QueueDiscipline::CoDel { target, interval } = host.queue.discipline
            && host.codel.drops(now, now - queued, host.waiting_bytes, target, interval)
        {
            return self.drop_before_downlink(host_id, id);
        }
        let passage = host.down.pass(now, now, bytes);
        if passage.through > now {
            host.down_busy = true;
            queue.schedule(passage.through, host_id, NetEvent::Deliver(id).into());
        } else {
            if passage.free > now {
                host.down_busy = true;
                queue.schedule(passage.free, host_id, NetEvent::DownlinkFree.into());
            }
            self.receive(queue, host_id, id, bytes);
        }
    }

    /// A downlink that passes bursts is free: what waited for it comes, as much as keeps it busy for the span of a burst.
    pub(super) fn downlink_free<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, host_id: HostId) {
        let now = queue.now();
        let mut free = now;
        loop {
            if free > now + self.hosts[host_id.index()].down.span() {
                break;
            }
            let Some((id, bytes, queued)) = self.next_waiting(host_id) else { break };
            let host = &mut self.hosts[host_id.index()];
            if let QueueDiscipline::CoDel { target, interval } = host.queue.discipline
                && host.codel.drops(now, now - queued, host.waiting_bytes, target, interval)
            {
                self.drop_before_downlink(host_id, id);
                continue;
            }
            free = host.down.pass(now, free, bytes).free;
            self.receive(queue, host_id, id, bytes);
        }
        let host = &mut self.hosts[host_id.index()];
        host.down_busy = free > now;
        if host.down_busy {
            queue.schedule(free, host_id, NetEvent::DownlinkFree.into());
        }
    }

    pub(super) fn deliver<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, host_id: HostId, id: PacketId) {
        let bytes = self.packets.get(id).wire_bytes(&self.protocols);
        self.receive(queue, host_id, id, bytes);
        self.hosts[host_id.index()].down_busy = false;
        loop {
            if self.hosts[host_id.index()].down_busy {
                return;
            }
            let Some((id, bytes, queued)) = self.next_waiting(host_id) else { return };
            self.enter_downlink(queue, host_id, id, bytes, queued);
        }
    }

    /// Takes the first packet that waits for the downlink out of its queue: its bytes on the wire, and since when it waits.
    #[inline]
    fn next_waiting(&mut self, host_id: HostId) -> Option<(PacketId, u32, SimTime)> {
        let host = &mut self.hosts[host_id.index()];
        let id = self.packets.unlink(&mut host.waiting)?;
        let packet = self.packets.get(id);
        let bytes = packet.wire_bytes(&self.protocols);
        host.waiting_bytes -= u64::from(bytes);
        host.waiting_packets -= 1;
        Some((id, bytes, packet.queued))
    }

    /// The socket's buffers get what its path holds by the slower of both links, and a quarter more: latencies count in whole milliseconds, each way for itself.
    #[cold]
    fn fit_buffers(&mut self, id: SocketId) {
        let [own, other] = [id, id.peer()].map(|socket| &self.hosts[self.sockets[socket.index()].host.index()]);
        let latency = self.connections[id.connection()].path.latency;
        let round_trip = SimDuration::from_millis(2 * latency.as_micros().div_ceil(1000));
        let held = |from: &Host, to: &Host| {
            let rate = from.up.rate().min(to.down.rate());
            rate.bytes_in(round_trip).get().saturating_mul(5) / 4
        };
        let (sent, received) = (held(own, other), held(other, own));
        if let Transport::Tcp(tcb) = &mut self.sockets[id.index()].transport {
            tcb.fit(&self.protocols.tcp, sent, received);
        }
    }

    fn drop_before_downlink(&mut self, host: HostId, id: PacketId) {
        self.hosts[host.index()].counters.downlink_drops += 1;
        let to = self.packets.get(id).to;
        self.sockets[to.index()].take_packet();
        self.packets.release(id);
        self.forget_if_released(to);
    }

    /// The socket gets the packet, of which so many bytes came by the downlink.
    pub(super) fn receive<E: Copy + From<NetEvent>>(
        &mut self,
        queue: &mut EventQueue<E>,
        host_id: HostId,
        id: PacketId,
        bytes: u32,
    ) {
        self.hosts[host_id.index()].counters.bytes_received += u64::from(bytes);
        let packet = self.packets.get(id);
        let to = packet.to;
        let socket = &mut self.sockets[to.index()];
        socket.take_packet();
        let effects = if let (Transport::Tcp(tcb), Body::Segment(segment)) = (&mut socket.transport, &packet.body) {
            let effects = tcb.on_segment(&self.protocols.tcp, queue.now(), segment);
            if socket.released && tcb.readable() > 0 {
                // Whoever let go of this end reads on until the other end's FIN: what fills its buffer would never get there.
                tcb.read(&self.protocols.tcp, queue.now(), tcb.readable());
            }
            effects
        } else {
            self.receive_datagram(to, id, queue.now());
            Effects::NONE
        };
        self.packets.release(id);
        self.react(queue, to, effects);
        if self.protocols.tcp.round_trips == RoundTrips::Released
            && let Transport::Tcp(tcb) = &mut self.sockets[to.index()].transport
        {
            tcb.processed();
            if tcb.is_to_fit() {
                self.fit_buffers(to);
            }
        }
        if self.sockets[to.index()].released {
            self.forget_if_silent(to);
        }
    }
}
