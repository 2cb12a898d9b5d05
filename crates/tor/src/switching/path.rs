//! The cells of a switch at relays: SWITCH drains the old path hop by hop, SWITCHED_CONN and SWITCH_ACK prepare the new one.

use super::{CircuitId, ENTRY};
use crate::cell::{Cell, CellKind};
use crate::channel::Opening;
use crate::circuit::Place;
use crate::ids::EndId;
use crate::queues::Direction;
use crate::world::World;
use onionlab_engine::HostId;

const EXIT: u8 = Place::Exit.hop();

impl World {
    /// SWITCH, SWITCHED_CONN or SWITCH_ACK arrives.
    pub(crate) fn process_switching(&mut self, from: EndId, cell: Cell) {
        self.trace_switch(from, cell);
        let (id, hop) = (cell.circuit, cell.arrives_at());
        if cell.kind == CellKind::SwitchAck && self.is_of_control(from, id) {
            self.acknowledged(id, cell.length);
            self.discard(cell);
            return;
        }
        let here = &self.circuits[id.index()].hops[hop as usize];
        if here.closed || self.is_deaf(here.host, cell) {
            self.discard(cell);
            return;
        }
        let to_exit = here.sides[0].end == from;
        match cell.kind {
            CellKind::PathSwitch if hop == 0 => {
                self.switch_at_client(id);
                self.discard(cell);
            }
            CellKind::PathSwitch if hop == EXIT => {
                self.switch_at_exit(id);
                self.discard(cell);
            }
            CellKind::PathSwitch if to_exit => self.queue_switch(hop, cell),
            CellKind::PathSwitch if hop == ENTRY => {
                self.path_returned(id);
                self.discard(cell);
            }
            CellKind::SwitchedConn if hop == EXIT => {
                self.answer(id, hop, from);
                self.discard(cell);
            }
            CellKind::SwitchedConn => {
                self.answer(id, hop, from);
                self.append_cell(id, hop, Direction::ToExit, cell);
            }
            CellKind::SwitchAck if hop == ENTRY => {
                if let Some(moving) = self.moving_to(id) {
                    self.acknowledged(moving, cell.length);
                }
                self.discard(cell);
            }
            // The new middle: an entry that asked from outside the circuit is answered there.
            CellKind::SwitchAck if self.asked_from_outside(id) => {
                self.answer_outside(id, cell.length);
                self.discard(cell);
            }
            _ => self.append_cell(id, hop, Direction::ToClient, cell),
        }
    }

    /// Which circuit is being switched to this one.
    fn moving_to(&self, to: CircuitId) -> Option<CircuitId> {
        let switching = self.switching.as_ref()?;
        let from = switching.circuits.get(&to)?.spare_of?;
        switching.switch(from).filter(|switch| switch.to == to).map(|_| from)
    }

    fn asked_from_outside(&self, to: CircuitId) -> bool {
        let control = |from| self.switching.as_ref()?.switch(from).map(|switch| switch.control);
        self.moving_to(to).and_then(control).is_some_and(EndId::is_some)
    }

    /// Whether this is the old entry's end of the channel over which it asked for this circuit.
    fn is_of_control(&self, end: EndId, id: CircuitId) -> bool {
        self.switching.as_ref().and_then(|switching| switching.switch(id)).is_some_and(|switch| switch.control == end)
    }

    /// SWITCH_ACK back to where SWITCHED_CONN came from.
    fn answer(&mut self, id: CircuitId, hop: u8, from: EndId) {
        if hop != EXIT && self.circuits[id.index()].hops[hop as usize].sides[0].end != from {
            self.answer_outside(id, u16::from(hop));
            return;
        }
        self.originate(hop, Direction::ToClient, Cell::new(CellKind::SwitchAck, id).carrying(u16::from(hop)));
    }

    /// SWITCH_ACK from the new middle to the old entry, over the channel between the two.
    fn answer_outside(&mut self, to: CircuitId, by: u16) {
        let Some(from) = self.moving_to(to) else { return };
        let control = self.switching.as_ref().and_then(|switching| switching.switch(from)).map(|switch| switch.control);
        let Some(end) = control.filter(|end| end.is_some()).map(EndId::peer) else { return };
        if self.ends[end.index()].opening != Opening::Open {
            return;
        }
        let mut cell = Cell::new(CellKind::SwitchAck, from).carrying(by);
        cell.set_arrives_at(ENTRY);
        self.circuits[from.index()].live_cells += 1;
        self.send_destroy(end, cell);
    }

    /// SWITCH joins the circuit's queue at this hop, the last that does.
    pub(super) fn queue_switch(&mut self, hop: u8, cell: Cell) {
        if let Some(switching) = &mut self.switching {
            switching.circuits.entry(cell.circuit).or_default().switch_queued[hop as usize] = true;
        }
        self.append_cell(cell.circuit, hop, Direction::ToExit, cell);
    }

    /// Whether DESTROY finds SWITCH still waiting behind the circuit's cells: the circuit is closed here when that has left.
    pub(crate) fn waits_for_switch(&mut self, cell: Cell) -> bool {
        let hop = cell.arrives_at() as usize;
        let Some(of) = self.switching.as_mut().and_then(|switching| switching.circuits.get_mut(&cell.circuit)) else {
            return false;
        };
        of.destroy_waits[hop] |= of.switch_queued[hop];
        of.switch_queued[hop]
    }

    /// SWITCH has left this node: if DESTROY has come, or this is the client, the circuit is closed here.
    pub(crate) fn path_drained(&mut self, id: CircuitId, host: HostId) {
        let Some(hop) = self.circuits[id.index()].hops.at(host) else { return };
        let Some(of) = self.switching.as_mut().and_then(|switching| switching.circuits.get_mut(&id)) else { return };
        if !std::mem::take(&mut of.switch_queued[hop]) {
            return;
        }
        if hop == 0 || of.destroy_waits[hop] {
            let towards_client = self.circuits[id.index()].hops[hop].sides[0].end;
            self.close_at(id, hop as u8, Some(towards_client).filter(|end| end.is_some()));
        }
    }
}
