//! When SWITCH has left the outbuf of the entry, and with it everything that the circuit sent before on the old path.

use super::{CircuitId, SwitchAsk};
use crate::cell::{CELL_BYTES, Cell, CellKind};
use crate::ids::EndId;
use crate::world::World;

impl World {
    /// A cell without a circuit of its own has joined the outbuf: if it is SWITCH, its last byte will be looked for.
    pub(crate) fn note_switch_in_outbuf(&mut self, end: EndId, cell: Cell) {
        let put = u64::from(self.ends[end.index()].cells_sent) * u64::from(CELL_BYTES);
        if cell.kind == CellKind::PathSwitch
            && let Some(switching) = &mut self.switching
        {
            switching.draining.push((end, put, cell.circuit));
        }
    }

    /// Something has left the outbuf of this end.
    pub(crate) fn note_drained(&mut self, end: EndId) {
        let of = &self.ends[end.index()];
        let written = u64::from(of.cells_sent) * u64::from(CELL_BYTES) - u64::from(of.outbuf.len());
        self.drained_up_to(end, written);
    }

    /// All that was put into the outbuf before this byte has left it, or never will.
    pub(super) fn drained_up_to(&mut self, end: EndId, byte: u64) {
        let Some(switching) = &mut self.switching else { return };
        let left = |&mut (of, last, _): &mut (EndId, u64, CircuitId)| of == end && last <= byte;
        let drained: Vec<CircuitId> = switching.draining.extract_if(.., left).map(|(.., id)| id).collect();
        let (now, ask) = (self.queue.now(), switching.settings.ask);
        for id in drained {
            let Some(switch) = self.switching.as_mut().and_then(|switching| switching.switch_mut(id)) else { continue };
            switch.record.drained = Some(now);
            let to = switch.to;
            if ask == SwitchAsk::Drained && switch.failed.is_none() {
                self.ask_new_path(to);
            }
        }
    }
}
