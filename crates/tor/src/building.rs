//! Channels between hosts, and building circuits over them, hop by hop, with the cells that tor sends.

use crate::cell::{Cell, CellKind};
use crate::channel::{self, Attached, ChannelEnd, ChannelKind, ChannelLog, Opening, SchedulerState};
use crate::circuit::{Circuit, CircuitState};
use crate::ids::{CircuitId, ClientId, EndId};
use crate::node::Role;
use crate::queues::Direction;
use crate::records::{CircuitSerial, CloseReason};
use crate::settings::{ChannelScheduler, Links};
use crate::world::{SocketUse, World};
use onionlab_engine::HostId;

impl World {
    /// The channel between two hosts for all circuits, opened now if there is none (`channel_get_for_extend`): the end at `from`. None if `from` has no socket
    /// left.
    pub(crate) fn channel_between(&mut self, from: HostId, to: HostId) -> Option<EndId> {
        if let Some(&first) = self.channels.get(&channel::pair(from, to)) {
            return Some(channel::end_at(&self.ends, first, from));
        }
        let light = self.classified(from, to).is_some();
        let id = self.open_channel(from, to, if light { ChannelKind::Light } else { ChannelKind::Shared })?;
        self.channels.insert(channel::pair(from, to), id);
        Some(id)
    }

    /// The channel by which a circuit goes on from one host to the next.
    fn channel_for_circuit(&mut self, from: HostId, to: HostId) -> Option<EndId> {
        let of_its_own = match self.settings.links {
            Links::Shared | Links::LightAndHeavy(_) | Links::Quic { .. } => false,
            Links::PerCircuit { with_clients } => with_clients || self.nodes[from.index()].role != Role::Client,
        };
        if of_its_own { self.open_channel(from, to, ChannelKind::Circuit) } else { self.channel_between(from, to) }
    }

    /// A new channel, of which nothing is there yet: the end at `from`. None if `from` has no socket left.
    pub(crate) fn open_channel(&mut self, from: HostId, to: HostId, kind: ChannelKind) -> Option<EndId> {
        let quic = self.settings.links.are_quic();
        if !quic && !self.take_socket(from) {
            return None;
        }
        let socket =
            if quic { self.net.connect_stream(&mut self.queue, from, to) } else { self.net.connect(&mut self.queue, from, to) };
        let log = ChannelLog::new(self.next_channel, kind, self.queue.now());
        self.next_channel += 1;
        let id = EndId(self.free_channels.pop().unwrap_or(self.channel_logs.len() as u32) * 2);
        let new = id.channel() == self.channel_logs.len();
        for (end, host, socket, opening) in
            [(id, from, socket, Opening::Connecting), (id.peer(), to, socket.peer(), Opening::Arriving)]
        {
            let scheduler = match self.settings.scheduling_at(&self.nodes[host.index()]).channel_scheduler {
                ChannelScheduler::Refill => SchedulerState::None,
                _ => SchedulerState::Idle,
            };
            let begun = ChannelEnd::new(host, socket, opening, scheduler);
            if new {
                self.ends.push(begun);
            } else {
                self.ends[end.index()] = begun;
            }
            self.use_socket(socket, SocketUse::Channel(end));
            self.nodes[host.index()].ends.push(end);
        }
        if new {
            self.channel_logs.push(log);
        } else {
            self.channel_logs[id.channel()] = log;
        }
        Some(id)
    }

    /// A circuit of the client over these relays, of which nothing is built yet.
    pub(crate) fn new_circuit(&mut self, client: ClientId, [guard, middle, exit]: [HostId; 3]) -> CircuitId {
        let now = self.queue.now();
        let host = self.clients[client.index()].config.host;
        let circuit = Circuit::new(client, [host, guard, middle, exit], self.circuit_edges(), now);
        let serial = CircuitSerial(self.next_serial);
        self.next_serial += 1;
        let id = if let Some(id) = self.free_circuits.pop() {
            self.circuits[id.index()] = circuit;
            self.serials[id.index()] = serial;
            id
        } else {
            self.circuits.push(circuit);
            self.serials.push(serial);
            CircuitId(self.circuits.len() as u32 - 1)
        };
        self.measure_latency(id);
        id
    }

    /// The node at `hop` extends the circuit to the next: as soon as the channel is open, a CREATE2 goes through the circuit's queue.
    pub(crate) fn extend_from(&mut self, id: CircuitId, hop: u8) {
        let hops = &self.circuits[id.index()].hops;
        if hop >= hops.last() || hops[hop as usize].closed || hops[hop as usize].sides[1].end.is_some() {
            return;
        }
        let (from, to) = (hops[hop as usize].host, hops[hop as usize + 1].host);
        let Some(end) = self.channel_for_circuit(from, to) else {
            self.closes_because(id, CloseReason::OutOfSockets);
            self.close_at(id, hop, None);
            return;
        };
        if self.predictor.is_some() && hop > 0 {
            self.open_control(end, from, to);
        }
        if self.ends[end.index()].opening == Opening::Open {
            self.attach_and_create(id, end);
        } else {
            self.waiting.entry(end).or_default().push(id);
            self.waits_at.insert(id, end);
        }
    }

    pub(crate) fn attach_and_create(&mut self, id: CircuitId, end: EndId) {
        let end = if self.settings.links.are_quic() { self.open_stream(end) } else { end };
        let host = self.ends[end.index()].host;
        self.waits_at.remove(&id);
        // The hop that waits is the last that is known: the one whose host this is, away from the client.
        let Some(hop) = self.circuits[id.index()].hops.at(host) else { return };
        self.attach_circuit(id, hop as u8, Direction::ToExit, end);
        if hop == 0 {
            self.circuits[id.index()].began = self.queue.now();
        }
        self.originate(hop as u8, Direction::ToExit, Cell::new(CellKind::Create, id));
    }

    /// `circuitmux_attach_circuit`
    fn attach_circuit(&mut self, id: CircuitId, hop: u8, direction: Direction, end: EndId) {
        let now = self.queue.now();
        let of = &mut self.ends[end.index()];
        let policy = &self.settings.scheduling_at(&self.nodes[of.host.index()]).circuitmux;
        let slot = of.attach(policy, now, Attached { circuit: id, hop, outward: direction == Direction::ToExit }, 0);
        let side = &mut self.circuits[id.index()].hops[hop as usize].sides[direction as usize];
        side.end = end;
        side.slot = slot;
        if direction == Direction::ToExit {
            self.channel_logs[end.channel()].attached();
        }
        if self.settings.links.move_circuits() {
            self.begin_class(id, hop, direction);
        }
    }

    /// CREATE2 arrives: the hop exists from now on, and its handshake is computed.
    pub(crate) fn process_create(&mut self, from: EndId, cell: Cell) {
        let (id, hop) = (cell.circuit, cell.arrives_at());
        if self.circuits[id.index()].hops[hop as usize].closed {
            self.discard(cell);
            return;
        }
        self.attach_circuit(id, hop, Direction::ToClient, from);
        self.compute_handshake(self.ends[from.index()].host, cell);
    }

    /// CREATED2 arrives: at the client the first hop is built; a relay passes it on as EXTENDED2.
    pub(crate) fn process_created(&mut self, cell: Cell) {
        let (id, hop) = (cell.circuit, cell.arrives_at());
        if !self.circuits[id.index()].hops[hop as usize].closed {
            if hop == 0 {
                self.process_extended(id);
            } else {
                self.originate(hop, Direction::ToClient, Cell::new(CellKind::Extended, id));
            }
        }
        self.discard(cell);
    }

    /// The client learns that one more hop is built.
    pub(crate) fn process_extended(&mut self, id: CircuitId) {
        let now = self.queue.now();
        let circuit = &mut self.circuits[id.index()];
        circuit.built += 1;
        let built = circuit.built;
        if built < circuit.hops.last() {
            self.originate(0, Direction::ToExit, Cell::new(CellKind::Extend, id).for_hop(built));
        } else {
            circuit.state = CircuitState::Open;
            circuit.built_at = circuit.built_at.min(now);
        }
        self.hop_added(id);
    }
}
