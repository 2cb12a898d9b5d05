//! The world: every node, channel, circuit and stream, and the loop that moves them.
//!
//! The other modules each add one subject to [`World`]: opening and reading and writing channels, cell queues, the schedulers, building and
//! closing circuits, streams at the exit, clients. What follows from an event at its node happens in passes of the node's event loop
//! (`event_loop.rs`).

use crate::bucket::{self, Buckets, RefillClock, TokenRefill};
use crate::byte_latency::ByteLatency;
use crate::cell::CellPool;
use crate::channel::{ChannelEnd, ChannelLog};
use crate::circuit::{Circuit, Edge, Place};
use crate::client::{Client, ClientConfig, Flow, PathSource, Sequence, Transfer};
use crate::coarse_clock::CoarseClock;
use crate::conflux::Set;
use crate::event_loop::EventLoop;
use crate::head_of_line::OwnArrivals;
use crate::ids::{CircuitId, ClientId, EndId, FlowId, LetterId, SequenceId, StreamId, TransferId};
use crate::light_heavy::Classes;
use crate::node::{Node, Role};
use crate::onion::Meeting;
use crate::predictor::Predictor;
use crate::probes::Probes;
use crate::records::{CircuitSerial, Records};
use crate::sampling::Sampler;
use crate::sent::{SentId, SentPool};
use crate::settings::{CongestionSettings, FlowControl, Links, Settings};
use crate::sockets::Sockets;
use crate::stream::{Stream, StreamControl, XonXoff};
use crate::switching::Switching;
use crate::tls::Tls;
use onionlab_circuitmux::PolicyKind;
use onionlab_engine::{EventQueue, prefetch};
use onionlab_flowcontrol::windows::{CIRCUIT_INCREMENT, CIRCUIT_WINDOW, DeliverWindow, PackageWindow};
use onionlab_flowcontrol::{CongestionControl, NoWindow, VegasParameters};
use onionlab_net::{HostConfig, NetEvent, Network, SocketId, Topology, tcp::Effects, tcp::TcpConfig};
use onionlab_quantities::{RandomStream, Seed, SimDuration, SimTime};
use slab::Slab;
use std::collections::HashMap;
use std::sync::Arc;

/// Events of the next day whose packets are fetched, at most: more would drive out what today needs.
const FORESEEN: usize = 256;

/// What can happen. The host concerned comes with it from the queue.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    /// Below tor.
    Net(NetEvent),
    /// A channel may have been without circuits for too long at this end.
    IdleCheck(EndId),
    /// KIST's interval is over at this node.
    RunScheduler,
    /// A relay's main thread is through with what it did.
    WorkDone,
    /// A relay's worker thread is through with a handshake.
    HandshakeDone,
    /// Connections that found a token bucket empty try again.
    TokensAgain,
    /// A client's tor starts.
    Boot(ClientId),
    /// A client's tor looks after its circuits.
    Second(ClientId),
    /// A client's program begins its next flow.
    NextFlow(SequenceId),
    /// A stream of a flow is due.
    NextStream(FlowId),
    /// A stream may have taken too long.
    TransferCheck(TransferId),
    /// A client's program writes, at a time of its own.
    ProgramWrites(TransferId),
    /// A server does.
    ServerWrites(StreamId),
    /// A server may have waited too long for anything to happen.
    ServerStalls(StreamId),
    /// The client's end of a stream may send again as far as its rate allows (one kind of event for each end: that keeps events small).
    ClientStreamTokens(StreamId),
    /// The same at the exit.
    ExitStreamTokens(StreamId),
    /// A relay looks at the outbufs of circuits of which it is the entry.
    WatchOutbufs,
    /// The last cell of a circuit that was switched has left this node.
    PathDrained(CircuitId),
    /// A switch may have waited too long for its answer.
    SwitchTimeout(CircuitId),
    /// A relay's controller plans its next step.
    Plan,
    /// A trajectory that takes no bandwidth reaches a relay.
    Feedback(LetterId),
}

impl From<NetEvent> for Event {
    fn from(event: NetEvent) -> Self {
        Self::Net(event)
    }
}

/// Everything that a world is built from. Hosts are numbered as they are listed.
pub struct WorldConfig {
    /// Selects losses and jitter; what clients do has streams of its own.
    pub seed: Seed,
    /// The access link of each host, and what it runs.
    pub hosts: Vec<(HostConfig, Role)>,
    /// The paths between them.
    pub topology: Box<dyn Topology>,
    /// How every TCP behaves.
    pub tcp: TcpConfig,
    /// How every tor behaves.
    pub settings: Settings,
    /// The clients, each on a host with [`Role::Client`].
    pub clients: Vec<ClientConfig>,
    /// Which relays a client's circuits use, and which server a download.
    pub paths: Box<dyn PathSource>,
}

/// What a socket is used for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SocketUse {
    Nothing,
    Channel(EndId),
    /// An exit's connection to a server.
    Exit(StreamId),
    /// The server's end of it.
    Server(StreamId),
}

/// A network of tor nodes, clients and servers.
pub struct World {
    pub(crate) queue: EventQueue<Event>,
    pub(crate) net: Network,
    pub(crate) settings: Settings,
    pub(crate) nodes: Vec<Node>,
    pub(crate) ends: Vec<ChannelEnd>,
    /// By channel, that is by half of an end's number.
    pub(crate) channel_logs: Vec<ChannelLog>,
    /// By end of a channel in whose stream there are holes: when circuits had their own bytes, by which head-of-line blocking is counted.
    pub(crate) own_arrivals: HashMap<EndId, OwnArrivals>,
    /// Places of closed channels in these, to be used again; how many channels there were.
    pub(crate) free_channels: Vec<u32>,
    pub(crate) next_channel: u32,
    /// The channel between two hosts for all circuits: its even end.
    pub(crate) channels: HashMap<u64, EndId>,
    /// Which circuits are light and which are heavy.
    pub(crate) classes: Classes,
    /// The sockets of each host's tor.
    pub(crate) descriptors: Vec<Sockets>,
    pub(crate) cells: CellPool,
    pub(crate) sent: SentPool,
    /// Circuits that wait until a channel is open, by the end at which they wait.
    pub(crate) waiting: HashMap<EndId, Vec<CircuitId>>,
    /// The same the other way round.
    pub(crate) waits_at: HashMap<CircuitId, EndId>,
    pub(crate) circuits: Vec<Circuit>,
    pub(crate) serials: Vec<CircuitSerial>,
    pub(crate) next_serial: u32,
    pub(crate) free_circuits: Vec<CircuitId>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) free_streams: Vec<StreamId>,
    pub(crate) clients: Vec<Client>,
    pub(crate) sequences: Vec<Sequence>,
    pub(crate) sets: Slab<Set>,
    pub(crate) meetings: Slab<Meeting>,
    pub(crate) flows: Slab<Flow>,
    pub(crate) transfers: Slab<Transfer>,
    pub(crate) paths: Box<dyn PathSource>,
    pub(crate) sockets: Vec<SocketUse>,
    pub(crate) event_loop: EventLoop,
    /// Which stream of a circuit goes first when several may go on, and how often that was drawn.
    pub(crate) first_streams: RandomStream,
    /// After how many DATA cells an end of a circuit leaves one short.
    pub(crate) random_cells: RandomStream,
    /// Which clients build their circuits with TAP.
    pub(crate) old_clients: RandomStream,
    /// How long an end leaves its channel open without circuits.
    pub(crate) idle_times: RandomStream,
    pub(crate) resumptions: u64,
    /// A buffer for the streams of the circuit that resumes.
    pub(crate) resuming: Vec<StreamId>,
    /// KIST's channels that ran into their limit, kept for its buffer.
    pub(crate) aside: Vec<EndId>,
    /// Channels that KIST looked at in this run, kept for its buffer.
    pub(crate) touched: Vec<EndId>,
    pub(crate) records: Records,
    pub(crate) sampler: Sampler,
    /// Connections to servers that are held open at all nodes with limits (`held_open.rs`).
    pub(crate) held_open: usize,
    /// What circuits carry, where that is measured.
    pub(crate) latency: Option<Box<ByteLatency>>,
    /// Active circuit switching, where it is on.
    pub(crate) switching: Option<Box<Switching>>,
    /// Cells that are followed, if any client has some.
    pub(crate) probes: Option<Box<Probes>>,
    /// PredicTor, where it is the flow control.
    pub(crate) predictor: Option<Box<Predictor>>,
    /// Cells moved from a circuit queue to an outbuf, at all nodes.
    pub(crate) cell_hops: u64,
}

impl World {
    /// Builds a world at time zero; every client's tor starts at its `boot`.
    ///
    /// # Panics
    /// If a client's host does not have the role of a client, or one of [`Settings::some_relays`] that of a relay; if relays plan and circuits share connections.
    pub fn new(config: WorldConfig) -> Self {
        let (links, roles): (Vec<HostConfig>, Vec<Role>) = config.hosts.into_iter().unzip();
        let mut queue = EventQueue::new(links.len());
        // Machines do not tick together.
        let clock = |link: &HostConfig| {
            config.settings.kernel_tick.map(|tick| {
                let phase = RandomStream::new(config.seed, &link.name, "kernel tick").at(0).below(tick.as_nanos());
                CoarseClock { tick, phase: SimDuration::from_nanos(phase) }
            })
        };
        let buckets = |link: &HostConfig, role: Role| match role {
            Role::Relay { limit: Some(limit), .. } => {
                let phase = RandomStream::new(config.seed, &link.name, "token refill").at(0).below(bucket::INTERVAL.as_nanos());
                let refill = match config.settings.token_refill {
                    TokenRefill::Lazy => RefillClock::lazy(clock(link)),
                    TokenRefill::Timer => RefillClock::Timer(SimTime::from_nanos(phase)),
                };
                Some(Box::new(Buckets::new(limit, refill)))
            }
            _ => None,
        };
        let mut nodes: Vec<Node> = links.iter().zip(roles).map(|(link, role)| Node::new(role, buckets(link, role))).collect();
        for (node, link) in nodes.iter_mut().zip(&links) {
            node.clock = clock(link);
        }
        for relay in config.settings.some_relays.iter().flat_map(|some| &some.relays) {
            let node = &mut nodes[relay.index()];
            assert!(matches!(node.role, Role::Relay { .. }), "host {} is no relay", relay.0);
            node.apart = true;
        }
        for (index, client) in config.clients.iter().enumerate() {
            let node = &mut nodes[client.host.index()];
            assert_eq!(node.role, Role::Client, "client {index} needs a host with the role of a client");
            node.client = ClientId(index as u32);
            queue.schedule(client.boot, client.host, Event::Boot(ClientId(index as u32)));
        }
        let sampler = Sampler::new(nodes.len());
        let descriptors = vec![Sockets::default(); nodes.len()];
        let switching = config.settings.switching.map(|settings| Box::new(Switching::new(settings, nodes.len())));
        let follows = config.clients.iter().any(|client| client.probe.is_some());
        let probes = follows.then(|| Box::new(Probes::new(config.clients.len())));
        let predictor = match &config.settings.flow_control {
            FlowControl::Predictor(settings) => {
                let own = Links::PerCircuit { with_clients: true };
                assert_eq!(config.settings.links, own, "a plan needs a connection for each circuit and hop");
                Some(Box::new(Predictor::new(*settings, config.seed, &links, &nodes)))
            }
            _ => None,
        };
        let clients = config.clients.into_iter().map(|client| {
            let random = RandomStream::new(config.seed, &links[client.host.index()].name, "predicted ports");
            Client::new(client, &config.settings.client, random)
        });
        let clients = clients.collect();
        let mut settings = config.settings;
        if settings.links.are_quic() {
            // It protects its packets itself.
            settings.tls = Tls::Absent;
        }
        let mut world = Self {
            net: Network::new(config.seed, &links, config.topology, config.tcp).with_quic(settings.quic()),
            queue,
            settings,
            nodes,
            ends: Vec::new(),
            channel_logs: Vec::new(),
            own_arrivals: HashMap::new(),
            free_channels: Vec::new(),
            next_channel: 0,
            channels: HashMap::new(),
            classes: Classes::default(),
            descriptors,
            cells: CellPool::default(),
            sent: SentPool::default(),
            waiting: HashMap::new(),
            waits_at: HashMap::new(),
            circuits: Vec::new(),
            serials: Vec::new(),
            next_serial: 0,
            free_circuits: Vec::new(),
            streams: Vec::new(),
            free_streams: Vec::new(),
            clients,
            sequences: Vec::new(),
            sets: Slab::new(),
            meetings: Slab::new(),
            flows: Slab::new(),
            transfers: Slab::new(),
            paths: config.paths,
            sockets: Vec::new(),
            event_loop: EventLoop::default(),
            first_streams: RandomStream::new(config.seed, "circuits", "first stream to resume"),
            random_cells: RandomStream::new(config.seed, "circuits", "cells with random bytes"),
            idle_times: RandomStream::new(config.seed, "channels", "idle time-out"),
            old_clients: RandomStream::new(config.seed, "clients", "builds with TAP"),
            resumptions: 0,
            resuming: Vec::new(),
            aside: Vec::new(),
            touched: Vec::new(),
            records: Records::default(),
            sampler,
            held_open: 0,
            latency: None,
            switching,
            probes,
            predictor,
            cell_hops: 0,
        };
        world.equip_relays();
        world
    }

    /// Handles every event up to and including `until`; the clock may stand earlier if nothing more happened.
    pub fn run_until(&mut self, until: SimTime) {
        let mut day = u64::MAX;
        while let Some(popped) = self.queue.pop_until(until) {
            if day != self.queue.day() {
                day = self.queue.day();
                self.look_at_tomorrow();
            }
            self.look_ahead();
            match popped.event {
                Event::Net(event) => self.net.handle(&mut self.queue, popped.host, event),
                Event::IdleCheck(end) => self.check_idle(end),
                Event::RunScheduler => self.scheduler_timer(popped.host),
                Event::WorkDone => self.work_done(popped.host),
                Event::HandshakeDone => self.handshake_done(popped.host),
                Event::TokensAgain => self.tokens_due(popped.host),
                Event::Boot(client) => self.boot(client),
                Event::Second(client) => self.second_due(client),
                Event::NextFlow(sequence) => self.begin_flow(sequence),
                Event::NextStream(flow) => self.stream_due(flow),
                Event::TransferCheck(transfer) => self.check_transfer(transfer),
                Event::ProgramWrites(transfer) => self.program_writes(transfer),
                Event::ServerWrites(stream) => self.server_writes(stream),
                Event::ServerStalls(stream) => self.server_stalls(stream),
                Event::ClientStreamTokens(stream) => self.stream_tokens(stream, Place::Client),
                Event::ExitStreamTokens(stream) => self.stream_tokens(stream, Place::Exit),
                Event::WatchOutbufs => self.watch_outbufs(popped.host),
                Event::PathDrained(circuit) => self.path_drained(circuit, popped.host),
                Event::SwitchTimeout(circuit) => self.switch_timeout(circuit),
                Event::Plan => self.plan(popped.host),
                Event::Feedback(letter) => self.feedback_due(letter),
            }
            // Programs run when the kernel is through with this instant.
            if !self.queue.more_now(popped.host) {
                self.settle();
            }
        }
    }

    /// Fetches the packets of the calendar's next day, with which everything begins, so that the first events of a day find them too.
    #[inline(never)]
    fn look_at_tomorrow(&self) {
        for (host, event) in self.queue.tomorrow().take(FORESEEN) {
            if let Event::Net(event) = event {
                self.net.prefetch(host, event, 0);
            }
        }
    }

    /// Fetches what the next events will need while this one is handled: the further ahead, the nearer to what the event names.
    #[inline]
    fn look_ahead(&self) {
        for (step, between) in [5, 4, 3, 2].into_iter().enumerate() {
            match self.queue.ahead(between) {
                Some((host, Event::Net(event))) => {
                    if let Some(socket) = self.net.prefetch(host, event, step as u8)
                        && let Some(usage) = self.sockets.get(socket.index())
                    {
                        match (step, *usage) {
                            (1, _) => prefetch(usage, size_of::<SocketUse>()),
                            (_, SocketUse::Channel(end)) => self.prefetch_channel(end, step),
                            _ => {}
                        }
                    }
                }
                Some((host, Event::RunScheduler)) if step == 0 => prefetch(&self.nodes[host.index()].pending, 64),
                _ => {}
            }
        }
        if let Some((host, Event::Net(event))) = self.queue.ahead(1)
            && let Some(socket) = self.net.receiver(host, event)
            && let Some(&SocketUse::Channel(end)) = self.sockets.get(socket.index())
        {
            self.sent.prefetch(self.ends[end.peer().index()].sent, false);
            prefetch(&self.nodes[host.index()], 64);
        }
    }

    /// What reading from a channel needs: the ends, then what was sent first.
    #[inline]
    fn prefetch_channel(&self, end: EndId, step: usize) {
        let peer = &self.ends[end.peer().index()];
        if step == 2 {
            prefetch(&self.ends[end.index()], size_of::<ChannelEnd>());
            prefetch(&peer.sent, size_of::<SentId>());
        } else {
            self.sent.prefetch(peer.sent, true);
        }
    }

    pub(crate) fn use_socket(&mut self, socket: SocketId, usage: SocketUse) {
        if self.sockets.len() <= socket.index() {
            self.sockets.resize(socket.index() + 1, SocketUse::Nothing);
        }
        self.sockets[socket.index()] = usage;
        self.forget_ready(socket);
        let now = self.queue.now();
        if let Some(buckets) = &mut self.nodes[self.net.host(socket).index()].buckets {
            match usage {
                SocketUse::Nothing => buckets.connections.remove(socket, now),
                _ => buckets.connections.add(socket, now),
            }
        }
    }

    /// The node has a limit from now on.
    #[cfg(test)]
    pub(crate) fn limit(&mut self, host: onionlab_engine::HostId, mut buckets: crate::bucket::Buckets) {
        let now = self.queue.now();
        let of_host = |socket: &u32| self.net.host(SocketId(*socket)) == host;
        let used = |socket: &u32| !matches!(self.sockets[*socket as usize], SocketUse::Nothing);
        (0..self.sockets.len() as u32)
            .filter(used)
            .filter(of_host)
            .for_each(|socket| buckets.connections.add(SocketId(socket), now));
        self.nodes[host.index()].buckets = Some(Box::new(buckets));
    }

    /// The time of the event handled last.
    pub fn now(&self) -> SimTime {
        self.queue.now()
    }
    /// Events handled.
    pub fn events(&self) -> u64 {
        self.queue.handled()
    }
    /// Cells moved from a circuit queue to an outbuf, at all nodes: one for each hop of each cell.
    pub fn cell_hops(&self) -> u64 {
        self.cell_hops
    }
    /// Streams that one of their ends is not done with, or cells of which exist.
    pub fn streams(&self) -> usize {
        self.streams.len() - self.free_streams.len()
    }
    /// Payload that exits have written to servers.
    pub fn bytes_to_servers(&self) -> u64 {
        self.sampler.bytes_to_servers
    }
    /// What streams had sent when they tried another exit: as much of it may have come to servers twice.
    pub fn bytes_tried_again(&self) -> u64 {
        self.sampler.bytes_tried_again
    }
    /// Payload that exits have packaged for clients.
    pub fn bytes_from_exits(&self) -> u64 {
        self.sampler.bytes_from_exits
    }
    /// Of that what has come to no program: lost by switches, and otherwise.
    pub fn bytes_lost_to_clients(&self) -> [u64; 2] {
        self.sampler.lost_to_clients
    }
    /// The network under this world.
    pub fn network(&self) -> &Network {
        &self.net
    }
    /// Cells that exist somewhere between two ends of a circuit.
    pub fn cells_in_flight(&self) -> usize {
        let handshakes: usize = self.nodes.iter().filter_map(|node| node.workers.as_ref()).map(|workers| workers.cells()).sum();
        self.cells.in_use() + self.sent.cells() + handshakes + self.classes.cells
    }
    /// Bytes of memory of an open channel without circuits on which nothing is under way and nothing was ever lost, both ends; its row in the
    /// records (`ChannelLog`) is not counted.
    pub const fn idle_channel_memory() -> usize {
        2 * (size_of::<ChannelEnd>() + size_of::<SocketUse>() + size_of::<Effects>()) + Network::connection_memory()
    }
    /// Bytes of memory of a circuit without cells, at all hops: with six slots of a circuitmux, and TOR_VEGAS (boxed; its timestamps have no
    /// memory while nothing is under way) at both ends. What only a debug build keeps, to check the cells' order, does not count.
    pub const fn idle_circuit_memory() -> usize {
        let checks = if cfg!(debug_assertions) { size_of::<[u32; 4]>() } else { 0 };
        size_of::<Circuit>() - checks + 6 * 48 + 2 * (size_of::<onionlab_flowcontrol::Vegas>() + 16)
    }
    /// What went wrong in a circuitmux policy from outside; what is simulated after it means nothing.
    pub fn trouble(&self) -> Option<String> {
        self.settings.all_scheduling().find_map(|scheduling| match &scheduling.circuitmux {
            PolicyKind::Custom(custom) => custom.trouble(),
            _ => None,
        })
    }
    /// Rows since the last call.
    pub fn take_records(&mut self) -> Records {
        std::mem::take(&mut self.records)
    }

    /// Flow control of a new circuit's ends: the client's and the exit's.
    pub(crate) fn circuit_edges(&self) -> [Edge; 2] {
        self.edges_by(|control| &control.exit_circuits)
    }

    /// The same for circuits that meet at a rendezvous point: the client's and the onion service's.
    pub(crate) fn onion_edges(&self) -> [Edge; 2] {
        self.edges_by(|control| &control.onion_circuits)
    }

    fn edges_by(&self, parameters: impl Fn(&CongestionSettings) -> &Arc<VegasParameters>) -> [Edge; 2] {
        let edge = match &self.settings.flow_control {
            FlowControl::Windows => {
                let (window, increment) =
                    (self.settings.circuit_window.get() as u16, self.settings.circuit_window_increment.get() as u16);
                Edge { package: CongestionControl::fixed(window, increment), deliver: DeliverWindow::new(window, increment) }
            }
            FlowControl::Vegas(control) => Edge {
                package: CongestionControl::vegas(parameters(control)),
                deliver: DeliverWindow::circuit(parameters(control).sendme_inc as u16),
            },
            FlowControl::Predictor(_) => {
                let package = CongestionControl::fixed(CIRCUIT_WINDOW, CIRCUIT_INCREMENT);
                return [
                    Edge { package, deliver: DeliverWindow::endless() },
                    Edge { package: CongestionControl::Unlimited(NoWindow), deliver: DeliverWindow::circuit(CIRCUIT_INCREMENT) },
                ];
            }
        };
        [edge.clone(), edge]
    }

    /// Flow control of a new stream's ends: the client's and the exit's.
    pub(crate) fn stream_controls(&self) -> [StreamControl; 2] {
        let control = match &self.settings.flow_control {
            FlowControl::Windows => {
                let (window, increment) =
                    (self.settings.stream_window.get() as u16, self.settings.stream_window_increment.get() as u16);
                StreamControl::Windows {
                    package: PackageWindow::new(window, increment),
                    deliver: DeliverWindow::new(window, increment),
                }
            }
            FlowControl::Vegas(_) => StreamControl::XonXoff(Box::<XonXoff>::default()),
            FlowControl::Predictor(_) => {
                return [StreamControl::Sends(PackageWindow::stream()), StreamControl::Receives(DeliverWindow::stream())];
            }
        };
        [control.clone(), control]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_eight_bytes() {
        assert_eq!(size_of::<Event>(), 8, "the event queue takes eight bytes more for each event that waits");
    }

    #[test]
    fn an_end_of_a_channel_is_a_line_of_the_cache() {
        assert_eq!(size_of::<ChannelEnd>(), 64);
    }

    /// `docs/architecture.md`, rule 7.
    #[test]
    fn idle_channels_and_circuits_are_small() {
        let (channel, circuit) = (World::idle_channel_memory(), World::idle_circuit_memory());
        assert!(channel <= 768, "a channel takes {channel} bytes");
        assert!(circuit <= 1024, "a circuit takes {circuit} bytes");
    }
}
