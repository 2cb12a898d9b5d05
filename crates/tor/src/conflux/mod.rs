//! Conflux: streams over several circuits to one exit (`core/or/conflux*.c`, proposal 329).
//!
//! A client builds sets ahead. The legs of a set end at one relay and have no guard or middle in common. Each is linked: CONFLUX_LINK, CONFLUX_LINKED, CONFLUX_LINKED_ACK, which also give both ends a first round-trip time. When all
//! legs are linked the set carries streams: at each end `end` chooses the leg of each cell and puts what arrives in order. Congestion control is each leg's own. The set ends with the first of its legs.

mod end;

use crate::cell::{Cell, CellKind};
use crate::circuit::{CircuitState, Intent, Place};
use crate::client::{PathRequest, Purpose, SETS_ORDER};
use crate::ids::{CircuitId, ClientId, SetId};
use crate::records::CloseReason;
use crate::world::World;
use end::{Choice, End};
use onionlab_engine::HostId;
use onionlab_flowcontrol::CongestionAlgorithm;
use onionlab_quantities::SimTime;
use std::collections::VecDeque;

/// Conflux, by tor's names of consensus parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfluxSettings {
    /// Legs of a set (`cfx_num_legs_set`).
    pub legs: u8,
    /// Sets that a client keeps ready: those that no stream has used yet and those that it builds (`cfx_max_prebuilt_set`).
    pub max_prebuilt: u8,
    /// With so many linked sets, used or not, it builds none ahead (`cfx_max_linked_set`).
    pub max_linked: u8,
    /// Legs that are launched in place of others before a set is given up (`cfx_max_unlinked_leg_retry`).
    pub max_leg_retries: u8,
}

impl Default for ConfluxSettings {
    /// tor 0.4.9's code defaults, in a network whose exits all know Conflux.
    fn default() -> Self {
        Self { legs: 2, max_prebuilt: 3, max_linked: 10, max_leg_retries: 3 }
    }
}

/// A leg as the set knows it.
#[derive(Debug)]
struct Member {
    circuit: CircuitId,
    /// LINK left the client, LINKED the exit.
    linked_from: [SimTime; 2],
    /// LINKED has come.
    linked: bool,
    /// The exit has closed it, of which the client does not know yet.
    gone_at_exit: bool,
    /// By direction, as of [`Place`] of the sender: what each CONFLUX_SWITCH under way says.
    switches: [VecDeque<u64>; 2],
}

impl Member {
    const fn new(circuit: CircuitId) -> Self {
        Self {
            circuit,
            linked_from: [SimTime::ZERO; 2],
            linked: false,
            gone_at_exit: false,
            switches: [VecDeque::new(), VecDeque::new()],
        }
    }
}

/// Legs of one client to one exit.
#[derive(Debug)]
pub(crate) struct Set {
    client: ClientId,
    members: Vec<Member>,
    /// The client's and the exit's.
    ends: [End; 2],
    /// All legs are linked: it may carry streams.
    linked: bool,
    /// It was closed at this end, the client's or the exit's.
    closed: [bool; 2],
    launches: u16,
    /// Its place among the client's sets, drawn: of several that are linked the first one takes a stream.
    pub(crate) place: u64,
    /// Circuits that name it: the last one that is gone frees it.
    circuits: u32,
}

impl Set {
    fn leg(&self, circuit: CircuitId) -> Option<usize> {
        self.members.iter().position(|member| member.circuit == circuit)
    }

    /// The circuit by which streams know the set, as long as it has not gone.
    fn first(&self) -> Option<CircuitId> {
        self.members.first().map(|member| member.circuit).filter(|circuit| circuit.is_some())
    }
}

/// Whether a set chooses the leg of such a cell (`conflux_should_multiplex`).
const fn is_multiplexed(kind: CellKind) -> bool {
    use CellKind::{Begin, Connected, Data, End, Xoff, Xon};
    matches!(kind, Begin | Connected | Data | End | Xoff | Xon)
}

impl World {
    /// How many sets of the client are ready or will be, those that no stream has used and those being built; and how many are linked (`count_client_usable_sets`).
    fn sets_of(&self, client: ClientId) -> (usize, usize) {
        let sets = || self.clients[client.index()].sets.iter().map(|set| &self.sets[set.index()]);
        let is_ready = |set: &Set| {
            let fresh = |first: CircuitId| {
                let first = &self.circuits[first.index()];
                first.first_used.is_none() && !first.unusable
            };
            !set.linked || set.first().is_some_and(fresh)
        };
        (sets().filter(|set| is_ready(set)).count(), sets().filter(|set| set.linked).count())
    }

    /// Launches as many sets as are missing, as long as the client expects to need circuits (`circuit_predict_and_launch_new`, `conflux_predict_new`). As in tor the limit of
    /// linked sets is looked at before the first of them, not before each.
    ///
    /// Whether any were missing: where a path could not be found the next second tries again.
    pub(crate) fn predict_sets(&mut self, client: ClientId) -> bool {
        let Some(settings) = self.settings.conflux else { return false };
        if !self.clients[client.index()].ports.any_predicted(self.queue.now()) {
            return false;
        }
        let (ready, linked) = self.sets_of(client);
        let missing = usize::from(settings.max_prebuilt).saturating_sub(ready);
        if missing == 0 || linked >= usize::from(settings.max_linked) {
            return false;
        }
        let ports = self.unhandled_ports(client);
        for _ in 0..missing {
            if !self.launch_set(client, &ports) {
                break;
            }
        }
        true
    }

    /// All legs of a set, if there are paths for them, to an exit for these ports.
    fn launch_set(&mut self, client: ClientId, ports: &[u16]) -> bool {
        let Some(settings) = self.settings.conflux else { return false };
        let first = self.clients[client.index()].pool.launched;
        let mut paths: Vec<[HostId; 3]> = Vec::new();
        for leg in 0..settings.legs {
            let Some(path) = self.leg_path(client, first + u64::from(leg), ports, &paths) else {
                // What is drawn for the next numbers may do.
                self.clients[client.index()].pool.launched += u64::from(settings.legs);
                return false;
            };
            paths.push(path);
        }
        let ends = [Choice::MinRtt, Choice::LowRtt].map(|choice| End::new(choice, paths.len()));
        let set = Set {
            client,
            members: Vec::new(),
            ends,
            linked: false,
            closed: [false; 2],
            launches: u16::from(settings.legs),
            place: self.clients[client.index()].config.stream.member(SETS_ORDER).at(first).bits(),
            circuits: 0,
        };
        let id = SetId(self.sets.insert(set) as u32);
        self.clients[client.index()].sets.push(id);
        for path in paths {
            let circuit = self.launch_leg(client, id, path);
            self.sets[id.index()].members.push(Member::new(circuit));
        }
        for index in 0..self.sets[id.index()].members.len() {
            self.extend_from(self.sets[id.index()].members[index].circuit, 0);
        }
        true
    }

    /// Relays for a leg beside others: their exit, and none of their guards and middles; for the first an exit for these ports.
    fn leg_path(&self, client: ClientId, circuit: u64, ports: &[u16], others: &[[HostId; 3]]) -> Option<[HostId; 3]> {
        let exclude: Vec<HostId> = others.iter().flat_map(|path| [path[0], path[1]]).collect();
        let exit = others.first().map(|path| path[2]);
        let purpose = Purpose::Exit { ports, pending: false };
        let path = self.exit_path(&PathRequest { client, circuit, purpose, stable: true, leg: true, exclude: &exclude, exit })?;
        let fits = exit.is_none_or(|exit| exit == path[2]) && !exclude.contains(&path[1]);
        fits.then_some(path)
    }

    fn launch_leg(&mut self, client: ClientId, set: SetId, path: [HostId; 3]) -> CircuitId {
        let circuit = self.launch_on(client, path, Intent::Leg, true);
        self.circuits[circuit.index()].set = set;
        self.sets[set.index()].circuits += 1;
        circuit
    }

    /// A leg has all its hops: it asks to be linked (`conflux_circuit_has_opened`).
    pub(crate) fn leg_opened(&mut self, id: CircuitId) {
        let now = self.queue.now();
        let set = self.circuits[id.index()].set;
        if let Some(leg) = self.sets[set.index()].leg(id) {
            self.sets[set.index()].members[leg].linked_from[Place::Client as usize] = now;
            self.send_on(Place::Client, Cell::new(CellKind::Link, id));
        }
    }

    /// CONFLUX_LINK at the exit: the answer, and with it a measurement.
    pub(crate) fn process_link(&mut self, cell: Cell) {
        let now = self.queue.now();
        let set = self.circuits[cell.circuit.index()].set;
        if let Some(leg) = self.sets[set.index()].leg(cell.circuit) {
            self.sets[set.index()].members[leg].linked_from[Place::Exit as usize] = now;
            self.send_on(Place::Exit, Cell::new(CellKind::Linked, cell.circuit));
        }
    }

    /// CONFLUX_LINKED at the client: when all legs are linked, streams that wait try again. A leg whose round trip takes longer than circuits may take to be built is given up.
    pub(crate) fn process_linked(&mut self, cell: Cell) {
        let now = self.queue.now();
        let id = self.circuits[cell.circuit.index()].set;
        let set = &mut self.sets[id.index()];
        let Some(leg) = set.leg(cell.circuit) else { return };
        let client = set.client;
        let rtt = now - set.members[leg].linked_from[Place::Client as usize];
        if rtt >= self.clients[client.index()].learner.timeout() {
            self.closes_because(cell.circuit, CloseReason::BuildTimeout);
            self.close_at(cell.circuit, 0, None);
            return;
        }
        set.ends[Place::Client as usize].measured(leg, rtt);
        set.members[leg].linked = true;
        // Not over a leg that is no more: the client will hear of it, and replaces it.
        set.linked = set.members.iter().all(|member| member.linked && !member.gone_at_exit);
        let linked = set.linked;
        self.send_on(Place::Client, Cell::new(CellKind::LinkedAck, cell.circuit));
        if linked {
            self.attach_waiting(client);
        }
    }

    /// CONFLUX_LINKED_ACK at the exit.
    pub(crate) fn process_linked_ack(&mut self, cell: Cell) {
        let now = self.queue.now();
        let set = &mut self.sets[self.circuits[cell.circuit.index()].set.index()];
        if let Some(leg) = set.leg(cell.circuit) {
            let rtt = now - set.members[leg].linked_from[Place::Exit as usize];
            set.ends[Place::Exit as usize].measured(leg, rtt);
        }
    }

    /// CONFLUX_SWITCH, from the other end.
    pub(crate) fn process_switch(&mut self, cell: Cell, place: Place) {
        let set = &mut self.sets[self.circuits[cell.circuit.index()].set.index()];
        if let Some(leg) = set.leg(cell.circuit)
            && let Some(by) = set.members[leg].switches[place.other() as usize].pop_front()
        {
            set.ends[place as usize].switched(leg, by);
        }
    }

    /// The linked set of this circuit.
    fn linked_set(&self, id: CircuitId) -> Option<SetId> {
        let set = self.circuits[id.index()].set;
        (set.is_some() && self.sets[set.index()].linked).then_some(set)
    }

    /// Whether the circuit is the first leg of a linked set: streams know a set by it.
    pub(crate) fn leads_a_set(&self, id: CircuitId) -> bool {
        self.linked_set(id).is_some_and(|set| self.sets[set.index()].first() == Some(id))
    }

    /// Whether streams on this circuit go over a set.
    pub(crate) fn is_in_a_set(&self, id: CircuitId) -> bool {
        self.linked_set(id).is_some()
    }

    /// The circuit that carries the lists of streams of this one's set; itself if it has none.
    pub(crate) fn home(&self, id: CircuitId) -> CircuitId {
        self.linked_set(id).and_then(|set| self.sets[set.index()].first()).unwrap_or(id)
    }

    /// Other legs of the circuit's linked set.
    pub(crate) fn siblings(&self, id: CircuitId) -> Vec<CircuitId> {
        let Some(set) = self.linked_set(id) else { return Vec::new() };
        self.sets[set.index()]
            .members
            .iter()
            .map(|member| member.circuit)
            .filter(|&other| other != id && other.is_some())
            .collect()
    }

    /// Whether the circuit's window at this end and its queue have room (`circuit_ready_to_send`).
    fn is_ready(&self, id: CircuitId, place: Place) -> bool {
        id.is_some() && !self.way_out(id, place).blocked && self.circuits[id.index()].edges[place as usize].package.can_send()
    }

    /// The circuit on which a DATA cell of this circuit's streams would leave now; none if that has no room. Without a set it is the circuit itself, which may be blocked.
    pub(crate) fn sending_circuit(&self, id: CircuitId, place: Place) -> Option<CircuitId> {
        let Some(set) = self.linked_set(id) else {
            return self.circuits[id.index()].edges[place as usize].package.can_send().then_some(id);
        };
        let set = &self.sets[set.index()];
        let leg = set.ends[place as usize].next_leg(|leg| self.is_ready(set.members[leg].circuit, place))?;
        Some(set.members[leg].circuit)
    }

    /// Whether streams of this circuit may be read: not while no leg has room.
    pub(crate) fn has_room(&self, id: CircuitId, place: Place) -> bool {
        match self.linked_set(id) {
            None => self.is_ready(id, place),
            Some(_) => self.sending_circuit(id, place).is_some(),
        }
    }

    /// The leg for a cell that leaves now, with CONFLUX_SWITCH sent before it where the leg changes; none for a DATA cell if no leg has room. Cells of circuits without a set, and cells that belong to a leg, stay
    /// where they are.
    pub(crate) fn leg_for(&mut self, id: CircuitId, kind: CellKind, place: Place) -> Option<CircuitId> {
        let Some(set_id) = self.linked_set(id).filter(|_| is_multiplexed(kind)) else { return Some(id) };
        let set = &self.sets[set_id.index()];
        let next = set.ends[place as usize].next_leg(|leg| self.is_ready(set.members[leg].circuit, place));
        let set = &mut self.sets[set_id.index()];
        let decision = set.ends[place as usize].send(kind == CellKind::Data, next)?;
        let member = &mut set.members[decision.leg];
        let circuit = member.circuit;
        if let Some(by) = decision.switch {
            member.switches[place as usize].push_back(by);
            self.send_on(place, Cell::new(CellKind::Switch, circuit));
        }
        Some(circuit)
    }

    /// A SENDME has measured a leg (`congestion_control_dispatch_cc_alg`).
    pub(crate) fn leg_measured(&mut self, id: CircuitId, place: Place) {
        let Some(set) = self.linked_set(id) else { return };
        let rtt = self.circuits[id.index()].edges[place as usize].package.as_vegas().map(onionlab_flowcontrol::Vegas::ewma_rtt);
        let set = &mut self.sets[set.index()];
        if let (Some(leg), Some(rtt)) = (set.leg(id), rtt) {
            set.ends[place as usize].measured(leg, rtt);
        }
    }

    /// A cell for this end came on a circuit: if its set is linked and the cell is not the next one, it is kept. Returns it if it is to be processed now.
    pub(crate) fn in_turn(&mut self, cell: Cell, place: Place) -> Option<Cell> {
        let Some(id) = self.linked_set(cell.circuit).filter(|_| is_multiplexed(cell.kind)) else { return Some(cell) };
        let set = &mut self.sets[id.index()];
        let Some(leg) = set.leg(cell.circuit) else { return Some(cell) };
        let next = set.ends[place as usize].arrived(leg, cell);
        if next.is_none() {
            let host = self.circuits[cell.circuit.index()].hops[place.hop() as usize].host;
            self.nodes[host.index()].early_cells += 1;
        }
        next
    }

    /// The next cell that was kept at this end, if its turn has come.
    pub(crate) fn next_in_turn(&mut self, id: CircuitId, place: Place) -> Option<Cell> {
        let set = self.linked_set(id)?;
        let cell = self.sets[set.index()].ends[place as usize].next_kept()?;
        let host = self.circuits[cell.circuit.index()].hops[place.hop() as usize].host;
        self.nodes[host.index()].early_cells -= 1;
        Some(cell)
    }

    /// A leg is closed at one of its ends: the others follow, and what was kept there is lost. A leg that was not linked yet is replaced.
    pub(crate) fn leg_closed(&mut self, id: CircuitId, place: Place) {
        let set_id = self.circuits[id.index()].set;
        if !set_id.is_some() {
            return;
        }
        let set = &mut self.sets[set_id.index()];
        // One that was replaced is none of the set's any more.
        if set.leg(id).is_none() {
            return;
        }
        if set.closed[place as usize] {
            return;
        }
        set.closed[place as usize] = set.linked;
        if !set.linked {
            if place == Place::Client {
                self.replace_leg(id, set_id);
            } else if let Some(leg) = set.leg(id) {
                set.members[leg].gone_at_exit = true;
            }
            return;
        }
        let circuits: Vec<CircuitId> = set.members.iter().map(|member| member.circuit).filter(|leg| leg.is_some()).collect();
        let kept = set.ends[place as usize].take_kept();
        let client = set.client;
        for (_, cell) in kept {
            let host = self.circuits[cell.circuit.index()].hops[place.hop() as usize].host;
            self.nodes[host.index()].early_cells -= 1;
            self.lose(cell);
        }
        if place == Place::Client {
            self.clients[client.index()].sets.retain(|&other| other != set_id);
        }
        let reason = self.circuits[id.index()].close_reason;
        for circuit in circuits.into_iter().filter(|&circuit| circuit != id) {
            if let Some(reason) = reason {
                self.closes_because(circuit, reason);
            }
            self.close_at(circuit, place.hop(), None);
        }
    }

    /// A leg that is not linked is gone, or too late: another one takes its place, unless too many were tried (`unlinked_circuit_closed`).
    pub(crate) fn replace_leg(&mut self, id: CircuitId, set_id: SetId) {
        let Some(settings) = self.settings.conflux else { return };
        let set = &mut self.sets[set_id.index()];
        let Some(leg) = set.leg(id) else { return };
        let client = set.client;
        let others = set.members.iter().map(|member| member.circuit).filter(|&other| other != id && other.is_some());
        let others: Vec<CircuitId> = others.collect();
        let may =
            set.launches < u16::from(settings.legs) + u16::from(settings.max_leg_retries) && !others.is_empty() && !set.closed[0];
        // While this leg is being replaced it is none of the set's.
        set.members[leg].circuit = CircuitId::NONE;
        if may {
            set.launches += 1;
            let relays = |circuit: &CircuitId| {
                let hops = &self.circuits[circuit.index()].hops;
                [hops[1].host, hops[2].host, hops[3].host]
            };
            let others: Vec<[HostId; 3]> = others.iter().map(relays).collect();
            if let Some(path) = self.leg_path(client, self.clients[client.index()].pool.launched, &[], &others) {
                let circuit = self.launch_leg(client, set_id, path);
                let set = &mut self.sets[set_id.index()];
                set.members[leg] = Member::new(circuit);
                set.ends.iter_mut().for_each(|end| end.replaced(leg));
                self.extend_from(circuit, 0);
                return;
            }
        }
        self.sets[set_id.index()].closed[0] = true;
        self.clients[client.index()].sets.retain(|&other| other != set_id);
        for other in others {
            if self.circuits[other.index()].state != CircuitState::Closed {
                self.close_at(other, 0, None);
            }
        }
    }

    /// A circuit that named the set is gone at all its hops: its number is another's soon.
    pub(crate) fn forget_leg(&mut self, id: CircuitId, set: SetId) {
        if set.is_some() {
            if let Some(leg) = self.sets[set.index()].leg(id) {
                self.sets[set.index()].members[leg].circuit = CircuitId::NONE;
            }
            self.sets[set.index()].circuits -= 1;
            if self.sets[set.index()].circuits == 0 {
                self.sets.remove(set.index());
            }
        }
    }
}
