//! Hosts and connections: packets from a socket through uplink, path and downlink to its peer.
//!
//! A packet costs three events at most: its uplink is free again (only if somebody waits for that), it arrives, it is
//! through the downlink. An event names its packet, so that between leaving and arriving nothing of the sender is looked at. A timer
//! that was put off is looked at when its old time comes, not moved.

mod downlink;
mod host;
mod socket;
mod streams;
mod transport;
mod uplink;
mod write_queue;

pub use crate::packet::PacketId;
use crate::packet::{NONE, Packet, PacketPool};
use crate::path::{Path, Topology};
use crate::quic::QuicConfig;
use crate::tcp::{Effects, Filled, TcpConfig};
use host::{HOT_HOST, Host};
pub use host::{HostConfig, HostCounters};
use onionlab_engine::{EventQueue, HostId, prefetch};
use onionlab_quantities::{Bytes, Seed, SimDuration, SimTime};
pub use socket::SocketId;
use socket::{Connection, Ready, Socket};
use std::collections::{HashMap, VecDeque};
pub(crate) use transport::Protocols;
use transport::Transport;

/// What the network asks its event queue to hand back to it. The host of the event is the host concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetEvent {
    /// A packet reaches its receiver's host.
    Arrive(PacketId),
    /// A packet from beside reaches its receiver.
    Beside(PacketId),
    /// The packet in the downlink is through.
    Deliver(PacketId),
    /// The downlink, which passes bursts, is free.
    DownlinkFree,
    /// The uplink is free and sockets wait for it.
    UplinkFree,
    /// A timer of this socket may be due.
    Timer(SocketId),
}

/// Something that happened to a socket and that its owner wants to know.
#[derive(Debug, Clone, Copy)]
pub struct Upcall {
    /// The socket.
    pub socket: SocketId,
    /// What happened.
    pub effects: Effects,
}

/// All hosts, links, paths and connections.
pub struct Network {
    hosts: Vec<Host>,
    sockets: Vec<Socket>,
    /// Whether what a socket knows of its connection may have changed since its owner asked ([`Network::news`]): apart, so that one that has none is not touched.
    changed: Vec<bool>,
    connections: Vec<Connection>,
    free: Vec<u32>,
    packets: PacketPool,
    upcalls: VecDeque<Upcall>,
    filled: VecDeque<(SocketId, Filled)>,
    protocols: Protocols,
    /// The QUIC connection that streams between two hosts use: its end at the host that opened it.
    pairs: HashMap<(HostId, HostId), SocketId>,
    topology: Box<dyn Topology>,
}

impl Network {
    /// A network of `hosts` (their ids are their indices) whose paths `topology` knows and whose sockets all behave as `tcp` says.
    pub fn new(seed: Seed, hosts: &[HostConfig], topology: Box<dyn Topology>, tcp: TcpConfig) -> Self {
        let hosts = hosts.iter().map(|config| Host::new(seed, config)).collect();
        Self {
            hosts,
            sockets: Vec::new(),
            changed: Vec::new(),
            connections: Vec::new(),
            free: Vec::new(),
            packets: PacketPool::default(),
            upcalls: VecDeque::new(),
            filled: VecDeque::new(),
            protocols: Protocols { tcp, quic: QuicConfig::standard() },
            pairs: HashMap::new(),
            topology,
        }
    }

    /// The same with this behaviour of QUIC connections, of which there are none yet; otherwise it is [`QuicConfig::standard`].
    #[must_use]
    pub fn with_quic(mut self, quic: QuicConfig) -> Self {
        self.protocols.quic = quic;
        self
    }

    /// The next thing that an owner of a socket should know.
    pub fn next_upcall(&mut self) -> Option<Upcall> {
        self.upcalls.pop_front()
    }

    /// Whether a hole was filled of which the owner does not know yet; there is an upcall then too, unless the socket was released.
    #[inline]
    pub fn has_filled(&self) -> bool {
        !self.filled.is_empty()
    }

    /// The next hole that was filled, and the socket that received its bytes.
    pub fn next_filled(&mut self) -> Option<(SocketId, Filled)> {
        self.filled.pop_front()
    }

    /// What passed the link of `host`.
    pub fn counters(&self, host: HostId) -> HostCounters {
        self.hosts[host.index()].counters
    }

    /// The path between two hosts.
    pub fn path(&self, a: HostId, b: HostId) -> Path {
        self.topology.path(a, b)
    }

    /// The one-way latency that two hosts take the path between them to have ([`Topology::nominal_latency`]).
    pub fn nominal_latency(&self, a: HostId, b: HostId) -> SimDuration {
        self.topology.nominal_latency(a, b)
    }

    /// Bytes that the uplink of `host` carries in `interval`.
    pub fn uplink_capacity(&self, host: HostId, interval: SimDuration) -> Bytes {
        self.hosts[host.index()].up.bytes_in(interval)
    }

    /// Bytes of memory that one open, idle connection takes, both ends.
    pub const fn connection_memory() -> usize {
        2 * (size_of::<Socket>() + size_of::<bool>()) + size_of::<Connection>()
    }

    /// A packet of a socket that nobody owns any more is gone: it may have been the last.
    fn forget_if_released(&mut self, socket: SocketId) {
        if self.sockets[socket.index()].released {
            self.forget_if_silent(socket);
        }
    }

    fn forget_if_silent(&mut self, socket: SocketId) {
        let silent = |socket: &Socket| {
            socket.released && socket.timer_events == 0 && socket.ready == Ready::No && socket.transport.is_over()
        };
        let ends = [socket.index(), socket.peer().index()];
        let on_their_way = self.sockets[ends[0]].balance.wrapping_add(self.sockets[ends[1]].balance);
        if on_their_way == 0 && ends.iter().all(|&end| silent(&self.sockets[end])) {
            for end in ends {
                self.sockets[end].released = false;
            }
            if let Transport::Quic(_) = self.sockets[socket.index()].transport {
                self.forget_pair(socket);
            }
            self.free.push(socket.connection() as u32);
        }
    }

    /// Asks for the memory that an event will need, step by step, of which each needs the one before to have come: 0 is to be called well before
    /// the event is handled, 3 shortly before. It returns the socket that will receive data, once that is known.
    #[inline]
    pub fn prefetch(&self, host: HostId, event: NetEvent, step: u8) -> Option<SocketId> {
        match (event, step) {
            (NetEvent::Arrive(packet) | NetEvent::Deliver(packet), 0) => {
                prefetch(self.packets.get(packet), 64);
                prefetch(&self.hosts[host.index()], HOT_HOST);
            }
            (NetEvent::Arrive(_) | NetEvent::Deliver(_), _) => {
                if step == 1 && matches!(event, NetEvent::Deliver(_)) {
                    // The packet that comes into the downlink then.
                    self.packets.prefetch_first(self.hosts[host.index()].waiting);
                }
                let packet = self.received_with(host, event)?;
                self.prefetch_socket(packet.to, step);
                return packet.brings_data().then_some(packet.to);
            }
            (NetEvent::UplinkFree, 0) => prefetch(&self.hosts[host.index()], HOT_HOST),
            (NetEvent::UplinkFree, _) => {
                let host = &self.hosts[host.index()];
                if host.ready_head != NONE {
                    self.prefetch_socket(SocketId(host.ready_head), step);
                } else if let Some(first) = host.write_queue.first() {
                    if step == 1 {
                        prefetch(first, size_of_val(first));
                    } else {
                        self.prefetch_socket(*first, step - 1);
                    }
                } else if let Some(first) = host.ready_by_write.peek() {
                    if step == 1 {
                        prefetch(first, size_of_val(first));
                    } else {
                        self.prefetch_socket(SocketId(first.0.2), step - 1);
                    }
                }
            }
            (NetEvent::Timer(socket), 1 | 2) => self.prefetch_socket(socket, step),
            _ => {}
        }
        None
    }

    /// The TCP socket that will receive data with this event of `host`.
    #[inline]
    pub fn receiver(&self, host: HostId, event: NetEvent) -> Option<SocketId> {
        let packet = self.received_with(host, event)?;
        packet.brings_data().then_some(packet.to)
    }

    /// The packet that a socket will receive with this event of `host`: one that is through the downlink, or arrives at one that takes no time.
    #[inline]
    fn received_with(&self, host: HostId, event: NetEvent) -> Option<&Packet> {
        match event {
            NetEvent::Deliver(packet) | NetEvent::Beside(packet) => Some(self.packets.get(packet)),
            NetEvent::Arrive(packet) if self.hosts[host.index()].down.mostly_takes_no_time() => Some(self.packets.get(packet)),
            _ => None,
        }
    }

    /// The socket itself with step 1, what it keeps apart while segments are in flight with steps 2 and 3.
    #[inline]
    pub fn prefetch_socket(&self, id: SocketId, step: u8) {
        let socket = &self.sockets[id.index()];
        if step == 1 {
            prefetch(socket, size_of::<Socket>());
            prefetch(&self.connections[id.connection()], size_of::<Connection>());
        } else {
            socket.transport.prefetch(step == 2);
        }
    }

    /// Handles an event that the network scheduled.
    pub fn handle<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, host: HostId, event: NetEvent) {
        match event {
            NetEvent::Arrive(packet) => self.arrive(queue, host, packet),
            NetEvent::Deliver(packet) => self.deliver(queue, host, packet),
            NetEvent::Beside(packet) => self.receive(queue, host, packet, 0),
            NetEvent::DownlinkFree => self.downlink_free(queue, host),
            NetEvent::UplinkFree => self.uplink_free(queue, host),
            NetEvent::Timer(socket) => self.timer(queue, socket),
        }
    }

    /// Tells the owner what it wants to know, sends what can be sent, sets the timer.
    #[inline]
    fn react<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, id: SocketId, effects: Effects) {
        self.changed[id.index()] = true;
        let for_owner = Effects::READABLE | Effects::WRITABLE | Effects::CONNECTED | Effects::PEER_CLOSED | Effects::RESET;
        if effects.has(Effects::FILLED) {
            self.note_filled(id);
        }
        if effects.has(for_owner) && !self.sockets[id.index()].released {
            self.upcalls.push_back(Upcall { socket: id, effects });
        }
        self.serve(queue, id);
    }

    #[cold]
    #[inline(never)]
    fn note_filled(&mut self, id: SocketId) {
        if let Transport::Tcp(tcb) = &mut self.sockets[id.index()].transport {
            self.filled.extend(tcb.take_filled().map(|filled| (id, filled)));
        }
    }

    fn serve<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, id: SocketId) {
        let socket = &mut self.sockets[id.index()];
        if socket.ready == Ready::No && socket.transport.wants_send(&self.protocols, queue.now()) {
            if self.connections[id.connection()].path.beside {
                self.hand_over(queue, id);
            } else {
                let host_id = socket.host;
                self.push_ready(host_id, id);
                self.transmit(queue, host_id);
            }
        } else if socket.ready == Ready::WaitsByNumber && socket.transport.owes_unnumbered() {
            socket.ready = Ready::Waits;
            self.hosts[socket.host.index()].write_queue.note_unnumbered(id);
        }
        self.arm_timer(queue, id);
    }

    fn arm_timer<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, id: SocketId) {
        let socket = &mut self.sockets[id.index()];
        let deadline = socket.transport.deadline();
        if deadline < socket.timer_at {
            let deadline = deadline.max(queue.now());
            socket.timer_at = deadline;
            socket.timer_events += 1;
            queue.schedule(deadline, socket.host, NetEvent::Timer(id).into());
        }
    }

    fn timer<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, id: SocketId) {
        let now = queue.now();
        let socket = &mut self.sockets[id.index()];
        socket.timer_events -= 1;
        if socket.timer_at <= now {
            socket.timer_at = SimTime::MAX;
        }
        if socket.transport.deadline() <= now {
            let effects = if let Transport::Tcp(tcb) = &mut socket.transport {
                tcb.on_timer(&self.protocols.tcp, now)
            } else {
                self.quic_timer(id, now);
                Effects::NONE
            };
            self.react(queue, id, effects);
        } else {
            self.arm_timer(queue, id);
        }
        if self.sockets[id.index()].released {
            self.forget_if_silent(id);
        }
    }
}
