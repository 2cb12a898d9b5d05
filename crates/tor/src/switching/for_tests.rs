//! What the tests of switching hear of its cells, and how they lose one: in a program nothing of it happens.

use crate::cell::Cell;
use crate::ids::EndId;
use crate::world::World;
use onionlab_engine::HostId;

#[cfg(test)]
impl World {
    /// A cell arrives: one that belongs to a switch is written down.
    pub(crate) fn trace_switch(&mut self, from: EndId, cell: Cell) {
        let (time, sender, here) = (self.queue.now(), self.ends[from.peer().index()].host, self.ends[from.index()].host);
        let Some(switching) = &mut self.switching else { return };
        let of_switch = |id| switching.switch(id).is_some();
        let from_elsewhere = switching.circuits.get(&cell.circuit).and_then(|of| of.spare_of).is_some_and(of_switch);
        if of_switch(cell.circuit) || from_elsewhere {
            switching.trace.push((time, cell.kind, sender, here));
        }
    }

    /// Whether the host loses the cell.
    pub(super) fn is_deaf(&self, host: HostId, cell: Cell) -> bool {
        cell.kind == crate::cell::CellKind::SwitchedConn && self.switching.as_ref().is_some_and(|of| of.deaf == Some(host))
    }
}

#[cfg(not(test))]
#[allow(clippy::unused_self, reason = "as its twin has it")]
impl World {
    pub(crate) const fn trace_switch(&mut self, _: EndId, _: Cell) {}

    pub(super) const fn is_deaf(&self, _: HostId, _: Cell) -> bool {
        false
    }
}
