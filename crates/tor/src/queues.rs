//! Circuit queues: cells join them here, and leave them for an outbuf (`core/or/relay.c`).

use crate::cell::Cell;
#[cfg(debug_assertions)]
use crate::cell::CellKind;
use crate::channel::Attached;
use crate::circuit::Place;
use crate::ids::{CircuitId, EndId};
use crate::records::CloseReason;
use crate::world::World;

/// Which of the two queues of a circuit at a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// `p_chan`.
    ToClient = 0,
    /// `n_chan`.
    ToExit = 1,
}

impl World {
    /// Queues a new cell at `hop`. Relay cells towards the exit name the hop that is to recognise them.
    #[cfg_attr(not(debug_assertions), expect(unused_mut, reason = "the sequence is set in debug builds"))]
    pub(crate) fn originate(&mut self, hop: u8, direction: Direction, mut cell: Cell) {
        let (circuit, stream) = (cell.circuit, cell.stream);
        #[cfg(debug_assertions)]
        if end_to_end(cell.kind) {
            let sequence = &mut self.circuits[circuit.index()].sequences[direction as usize];
            cell.sequence = *sequence;
            *sequence += 1;
        }
        self.circuits[circuit.index()].live_cells += 1;
        if stream.is_some() {
            self.streams[stream.index()].live_cells += 1;
        }
        self.append_cell(circuit, hop, direction, cell);
    }

    /// The end of a cell's life, wherever it is.
    pub(crate) fn discard(&mut self, cell: Cell) {
        if cell.probe.is_some() {
            self.probed_cell_ends(cell.probe);
        }
        self.circuits[cell.circuit.index()].live_cells -= 1;
        if cell.stream.is_some() {
            self.streams[cell.stream.index()].live_cells -= 1;
            self.recycle_stream(cell.stream);
        }
        self.recycle_circuit(cell.circuit);
    }

    #[cfg(debug_assertions)]
    pub(crate) fn check_sequence(&mut self, cell: Cell, direction: Direction) {
        if self.is_next_forwarded(cell) {
            return;
        }
        if end_to_end(cell.kind) {
            let expected = &mut self.circuits[cell.circuit.index()].sequences[2 + direction as usize];
            assert_eq!(cell.sequence, *expected, "a cell of circuit {:?} was lost, doubled or overtaken", cell.circuit);
            *expected += 1;
        }
    }

    /// `append_cell_to_circuit_queue`: the cell joins the circuit's queue at this node.
    pub(crate) fn append_cell(&mut self, id: CircuitId, hop: u8, direction: Direction, cell: Cell) {
        let now = self.queue.now();
        let circuit = &mut self.circuits[id.index()];
        let here = &mut circuit.hops[hop as usize];
        let side = &mut here.sides[direction as usize];
        if here.closed || !side.end.is_some() {
            self.go_across_or_lose(id, hop, direction, cell);
            return;
        }
        let (max, next_hop) = match direction {
            Direction::ToClient => (self.settings.max_cell_queue_in, hop - 1),
            Direction::ToExit => (self.settings.max_cell_queue_out, hop + 1),
        };
        if max.is_some_and(|max| u64::from(side.queue.len) >= max.get()) {
            self.lose(cell);
            self.closes_because(id, CloseReason::QueueLimit);
            self.close_at(id, hop, None);
            return;
        }
        circuit.busy |= hop == 0;
        let queued = self.cells.push(&mut side.queue, cell);
        queued.queued_at = now;
        queued.set_arrives_at(next_hop);
        if u64::from(side.queue.len) >= self.settings.cell_queue_high.get() {
            side.blocked = true;
        }
        let (end, slot, len) = (side.end, side.slot, side.queue.len);
        self.ends[end.index()].set_cells(slot, len, now);
        if self.settings.memory_limit.is_some() {
            self.check_memory(self.ends[end.index()].host);
            if self.circuits[id.index()].hops[hop as usize].closed {
                return;
            }
        }
        self.has_waiting_cells(end);
    }

    /// A cell straight into the outbuf, past circuit queue and scheduler: what KIST knew of the channel holds no longer.
    pub(crate) fn append_to_outbuf(&mut self, id: EndId, cell: Cell) {
        let end = &mut self.ends[id.index()];
        self.sent.push_cell(&mut end.sent, cell);
        end.outbuf.append(crate::CELL_BYTES);
        end.cells_sent += 1;
        self.net.tell_again(end.socket);
        if self.switching.is_some() {
            self.note_switch_in_outbuf(id, cell);
        }
    }

    /// `channel_flush_from_first_active_circuit` for one cell: from the circuit that the policy picks to the outbuf. False if there was none.
    #[inline]
    pub(crate) fn flush_one_cell(&mut self, end_id: EndId) -> bool {
        if self.settings.links.move_circuits() { self.flush_and_weigh(end_id) } else { self.flush_next(end_id) }
    }

    /// The same without a look at how much the circuit sends.
    #[inline]
    pub(crate) fn flush_next(&mut self, end_id: EndId) -> bool {
        let now = self.queue.now();
        let end = &mut self.ends[end_id.index()];
        let Some(circuits) = end.circuits.as_deref_mut() else { return false };
        if circuits.destroys.len > 0 && !(circuits.destroy_was_last && circuits.mux.active_circuits() > 0) {
            circuits.destroy_was_last = true;
            let Some(cell) = self.cells.pop(&mut circuits.destroys) else { return false };
            self.sent.push_cell(&mut end.sent, cell);
            end.outbuf.append(crate::CELL_BYTES);
            end.cells_sent += 1;
            if self.switching.is_some() {
                self.note_switch_in_outbuf(end_id, cell);
            }
            return true;
        }
        let Some(slot) = circuits.mux.pick(now) else { return false };
        circuits.destroy_was_last = false;
        let Some(Attached { circuit, hop, outward }) = circuits.attached[slot.0 as usize] else { return false };
        let side = &mut self.circuits[circuit.index()].hops[hop as usize].sides[usize::from(outward)];
        let Some(&cell) = self.cells.front(&side.queue) else { return false };
        self.cells.drop_front(&mut side.queue);
        self.sent.push_cell(&mut end.sent, cell);
        end.outbuf.append(crate::CELL_BYTES);
        end.cells_sent += 1;
        circuits.mux.sent(slot, side.queue.len, now);
        end.rerank();
        let counters = &mut self.nodes[end.host.index()].counters;
        counters.cells_sent += 1;
        counters.queue_wait += (now - cell.queued_at).as_nanos();
        self.cell_hops += 1;
        if side.blocked && u64::from(side.queue.len) <= self.settings.cell_queue_low.get() {
            side.blocked = false;
            if !outward && hop == Place::Exit.hop() {
                self.resume_streams(circuit, Place::Exit);
            } else if outward && hop == Place::Client.hop() {
                self.resume_streams(circuit, Place::Client);
            }
        }
        if self.latency.is_some() {
            self.note_in_outbuf(&cell);
        }
        if self.switching.is_some() {
            self.note_flushed(end_id, circuit, hop, outward, cell.kind);
        }
        true
    }
}

/// Whether a cell goes from one end of the circuit to the other.
#[cfg(debug_assertions)]
fn end_to_end(kind: CellKind) -> bool {
    use CellKind::{
        Begin, Connected, Data, End, Link, Linked, LinkedAck, Resume, SendmeCircuit, SendmeStream, Switch, Xoff, Xon,
    };
    matches!(
        kind,
        Begin | Connected | Data | End | Link | Linked | LinkedAck | Resume | SendmeCircuit | SendmeStream | Switch | Xoff | Xon
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench_relay::Bench;
    use crate::cell::{Cell, CellKind};
    use crate::settings::{DestroyCells, Settings};
    use onionlab_quantities::Cells;

    fn blocked(bench: &Bench, circuit: CircuitId) -> bool {
        bench.world.circuits[circuit.index()].hops[1].sides[Direction::ToExit as usize].blocked
    }

    /// 256 cells block the circuit; it stays blocked until there are ten (`cellq_high`, `cellq_low`).
    #[test]
    fn a_queue_is_blocked_from_its_high_mark_down_to_its_low_one() {
        let mut bench = Bench::new(Settings::default(), 1);
        let circuit = bench.circuit(0);
        bench.queue(circuit, 255);
        assert!(!blocked(&bench, circuit));
        bench.queue(circuit, 1);
        assert!(blocked(&bench, circuit));
        for left in (11..256).rev() {
            assert!(bench.world.flush_one_cell(bench.ends[0]));
            assert!(blocked(&bench, circuit), "{left} cells left");
        }
        assert!(bench.world.flush_one_cell(bench.ends[0]));
        assert!(!blocked(&bench, circuit));
        bench.queue(circuit, 245);
        assert!(!blocked(&bench, circuit), "255 cells again");
    }

    /// Away from the client the limit is one of its own: 60 cells may wait, and the next closes the circuit and no other.
    #[test]
    fn each_direction_has_a_limit_of_its_own() {
        let limits = |max_in, max_out| Settings {
            max_cell_queue_in: Some(Cells::new(max_in)),
            max_cell_queue_out: Some(Cells::new(max_out)),
            ..Settings::default()
        };
        for (settings, closed) in [(limits(10, 60), Some(CloseReason::QueueLimit)), (limits(60, 100), None)] {
            let mut bench = Bench::new(settings, 1);
            let [circuit, other] = [0, 0].map(|channel| bench.circuit(channel));
            bench.queue(circuit, 60);
            bench.queue(other, 1);
            let reason = |bench: &Bench, circuit: CircuitId| bench.world.circuits[circuit.index()].close_reason;
            assert_eq!(reason(&bench, circuit), None);
            bench.queue(circuit, 1);
            assert_eq!((reason(&bench, circuit), reason(&bench, other)), (closed, None));
        }
    }

    /// In 0.2.4 a DESTROY goes to the outbuf at once, before the cells that wait (`channel_send_destroy`); later it waits in a queue of its own, unless the outbuf is empty.
    #[test]
    fn destroy_cells_of_0_2_4_overtake_the_others() {
        for (destroy_cells, first) in
            [(DestroyCells::Overtake, vec![CellKind::Destroy; 2]), (DestroyCells::Alternate, vec![CellKind::Destroy])]
        {
            let mut bench = Bench::new(Settings { destroy_cells, ..Settings::default() }, 1);
            let circuit = bench.circuit(0);
            bench.queue(circuit, 5);
            let end = bench.ends[0];
            for _ in 0..2 {
                bench.world.circuits[circuit.index()].live_cells += 1;
                bench.world.send_destroy(end, Cell::new(CellKind::Destroy, circuit));
            }
            assert_eq!(bench.world.ends[end.index()].outbuf.len(), 514 * first.len() as u32);
            let sent = bench.world.sent.cells_of(bench.world.ends[end.index()].sent);
            assert_eq!(sent.iter().map(|cell| cell.kind).collect::<Vec<_>>(), first, "{destroy_cells:?}");
        }
    }

    /// While there are DESTROY cells they take turns with the circuits' (`circuitmux_get_first_active_circuit`).
    #[test]
    fn destroy_cells_take_turns_with_the_others() {
        let mut bench = Bench::new(Settings::default(), 1);
        let circuit = bench.circuit(0);
        bench.queue(circuit, 5);
        let end = bench.ends[0];
        for _ in 0..3 {
            bench.world.circuits[circuit.index()].live_cells += 1;
            let destroy = Cell::new(CellKind::Destroy, circuit);
            let circuits = bench.world.ends[end.index()].circuits.as_deref_mut().unwrap();
            bench.world.cells.push(&mut circuits.destroys, destroy);
        }
        while bench.world.flush_one_cell(end) {}
        let sent = bench.world.sent.cells_of(bench.world.ends[end.index()].sent);
        let kinds: Vec<CellKind> = sent.iter().map(|cell| cell.kind).collect();
        let (data, destroy) = (CellKind::Data, CellKind::Destroy);
        assert_eq!(kinds, [destroy, data, destroy, data, destroy, data, data, data]);
    }

    /// A flush that finds nothing does not forget that a DESTROY was the last to go.
    #[test]
    fn a_destroy_cell_waits_for_its_turn_after_an_empty_flush_too() {
        let mut bench = Bench::new(Settings::default(), 1);
        let circuit = bench.circuit(0);
        let end = bench.ends[0];
        let destroy = |bench: &mut Bench| {
            bench.world.circuits[circuit.index()].live_cells += 1;
            let circuits = bench.world.ends[end.index()].circuits.as_deref_mut().unwrap();
            bench.world.cells.push(&mut circuits.destroys, Cell::new(CellKind::Destroy, circuit));
        };
        // The channel has its mux with its circuit, of which a cell has gone.
        bench.queue(circuit, 1);
        destroy(&mut bench);
        while bench.world.flush_one_cell(end) {}
        destroy(&mut bench);
        while bench.world.flush_one_cell(end) {}
        destroy(&mut bench);
        bench.queue(circuit, 1);
        while bench.world.flush_one_cell(end) {}
        let sent = bench.world.sent.cells_of(bench.world.ends[end.index()].sent);
        let kinds: Vec<CellKind> = sent.iter().map(|cell| cell.kind).collect();
        let (data, destroy) = (CellKind::Data, CellKind::Destroy);
        assert_eq!(kinds, [destroy, data, destroy, data, destroy]);
    }
}
