//! Two circuits that are joined at a rendezvous point: how cells come from one to the other, and where the ends of streams are.

use crate::cell::{Cell, CellKind};
use crate::circuit::{ACROSS, Intent, Place, Side};
use crate::ids::CircuitId;
use crate::queues::Direction;
use crate::records::CloseReason;
use crate::world::World;
use onionlab_engine::HostId;

impl World {
    /// Where an end of a circuit stands: the service's, for the client's circuit, at the beginning of its own.
    fn standing(&self, id: CircuitId, place: Place) -> (CircuitId, Place) {
        match self.circuits[id.index()].splice() {
            Some(other) if place == Place::Exit => (other, Place::Client),
            _ => (id, place),
        }
    }

    /// The side on which the cells leave that this end sends.
    #[inline]
    pub(crate) fn way_out(&self, id: CircuitId, place: Place) -> &Side {
        let circuit = &self.circuits[id.index()];
        if circuit.hops.onion.is_none() {
            return circuit.way_out(place);
        }
        let (id, place) = self.standing(id, place);
        self.circuits[id.index()].way_out(place)
    }

    /// The host of this end.
    pub(crate) fn host_at(&self, id: CircuitId, place: Place) -> HostId {
        let (id, place) = self.standing(id, place);
        self.circuits[id.index()].hops[place.hop() as usize].host
    }

    /// Whether the circuit is closed at this end.
    pub(crate) fn end_is_closed(&self, id: CircuitId, place: Place) -> bool {
        let (id, place) = self.standing(id, place);
        self.circuits[id.index()].hops[place.hop() as usize].closed
    }

    /// Closes the circuit at this end.
    pub(crate) fn close_end(&mut self, id: CircuitId, place: Place) {
        let (at, there) = self.standing(id, place);
        if at != id
            && let Some(reason) = self.circuits[id.index()].close_reason
        {
            self.closes_because(at, reason);
        }
        self.close_at(at, there.hop(), None);
    }

    /// The end of streams that stands at this end of a circuit: none at the rendezvous point.
    pub(crate) fn end_of_streams(&self, id: CircuitId, place: Place) -> Option<(CircuitId, Place)> {
        let circuit = &self.circuits[id.index()];
        match place {
            _ if circuit.hops.onion.is_none() => Some((id, place)),
            Place::Exit => None,
            Place::Client if circuit.intent == Intent::Answer => Some((circuit.splice()?, Place::Exit)),
            Place::Client => Some((id, place)),
        }
    }

    /// Whether the owner of the circuit has no streams on it: at a service, those of the client's circuit that it is joined to, as far as BEGIN has come (`p_streams`).
    pub(crate) fn is_without_streams(&self, id: CircuitId) -> bool {
        let circuit = &self.circuits[id.index()];
        match circuit.splice() {
            Some(client) if circuit.intent == Intent::Answer => self.circuits[client.index()].streams.is_empty(),
            _ => circuit.client_streams.is_empty(),
        }
    }

    /// Sends a cell from one end of joined circuits to the other.
    pub(crate) fn send_across(&mut self, place: Place, mut cell: Cell) {
        cell.circuit = self.standing(cell.circuit, place).0;
        self.originate(0, Direction::ToExit, cell.for_hop(ACROSS));
    }

    /// A cell for which there is no channel at this hop: on to the circuit that is joined to its own here (`circuit_receive_relay_cell`), to wherever it was
    /// switched, or lost.
    pub(crate) fn go_across_or_lose(&mut self, id: CircuitId, hop: u8, direction: Direction, mut cell: Cell) {
        let circuit = &self.circuits[id.index()];
        let Some(other) = circuit.splice().filter(|_| cell.target() == ACROSS && direction == Direction::ToExit) else {
            return self.forward_or_lose(id, hop, direction, cell);
        };
        if circuit.hops[hop as usize].closed {
            return self.lose(cell);
        }
        self.rename(&mut cell, other);
        let last = self.circuits[other.index()].hops.last();
        self.append_cell(other, last, Direction::ToClient, cell);
    }

    /// The cell belongs to the other of two joined circuits from here on.
    fn rename(&mut self, cell: &mut Cell, to: CircuitId) {
        let from = std::mem::replace(&mut cell.circuit, to);
        self.circuits[to.index()].live_cells += 1;
        // The two go together: as long as there are cells of the one, the other is there.
        self.circuits[from.index()].live_cells -= 1;
    }

    /// Whether a cell that has come to the beginning of its circuit is one for an onion service.
    pub(crate) fn is_for_service(&self, cell: Cell) -> bool {
        self.circuits[cell.circuit.index()].intent == Intent::Answer
    }

    /// A cell of the client's comes to the service.
    pub(crate) fn recognised_at_service(&mut self, mut cell: Cell) {
        let Some(circuit) = self.circuits[cell.circuit.index()].splice() else { return self.discard(cell) };
        self.rename(&mut cell, circuit);
        if cell.kind != CellKind::SendmeCircuit {
            return self.in_order(cell, Place::Exit);
        }
        self.circuit_sendme(circuit, Place::Exit);
        self.discard(cell);
    }

    /// A hop of an onion-service circuit is closed: at the rendezvous point the other circuit is too (`circuit_about_to_free`), at the service its streams end.
    pub(crate) fn onion_circuit_closed(&mut self, id: CircuitId, hop: u8) {
        let circuit = &self.circuits[id.index()];
        let Some(other) = circuit.splice() else { return };
        let (at_last, answers) = (hop == circuit.hops.last(), circuit.intent == Intent::Answer);
        if at_last {
            let reason = circuit.close_reason.unwrap_or(CloseReason::Protocol);
            let last = self.circuits[other.index()].hops.last();
            self.closes_because(other, reason);
            self.close_at(other, last, None);
        } else if hop == 0 && answers {
            for stream in std::mem::take(&mut self.circuits[other.index()].streams) {
                self.end_at_exit(stream);
            }
        }
    }
}
