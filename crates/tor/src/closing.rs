//! The end of circuits, streams and channels.

use crate::cell::{Cell, CellKind};
use crate::channel::{self, ChannelKind, Opening};
use crate::circuit::{CircuitState, Place};
use crate::ids::{CircuitId, EndId, StreamId};
use crate::queues::Direction;
use crate::records::{ChannelClose, ChannelRecord, CircuitOutcome, CircuitPurpose, CircuitRecord, CloseReason};
use crate::sampling::vegas_state;
use crate::settings::DestroyCells;
use crate::stream::ExitState;
use crate::world::{SocketUse, World};

const EXIT: u8 = Place::Exit.hop();

impl World {
    /// `circuit_about_to_free` at one node: its queued cells are lost, its streams end, and DESTROY goes to its neighbours but `not_to`, the end from
    /// which the news came.
    pub(crate) fn close_at(&mut self, id: CircuitId, hop: u8, not_to: Option<EndId>) {
        let now = self.queue.now();
        let here = &mut self.circuits[id.index()].hops[hop as usize];
        if here.closed {
            return;
        }
        here.closed = true;
        if self.circuits[id.index()].close_reason.is_none() {
            self.closes_because(id, if hop == 0 { CloseReason::Finished } else { CloseReason::Protocol });
        }
        // While this function runs the circuit must not be recycled under it.
        self.circuits[id.index()].live_cells += 1;
        self.end_classes(id, hop);
        if self.predictor.is_some() {
            self.leave_controller(id, hop);
        }
        for direction in [Direction::ToClient, Direction::ToExit] {
            let side = self.circuits[id.index()].hops[hop as usize].sides[direction as usize];
            if !side.end.is_some() {
                if direction == Direction::ToExit {
                    self.close_unreached(id, hop + 1);
                }
                continue;
            }
            while let Some(cell) =
                self.cells.pop(&mut self.circuits[id.index()].hops[hop as usize].sides[direction as usize].queue)
            {
                // A CREATE2 that never left: the hops behind it never come to be.
                if cell.kind == CellKind::Create {
                    self.close_unreached(id, hop + 1);
                }
                self.lose(cell);
            }
            self.ends[side.end.index()].detach(side.slot, now);
            if direction == Direction::ToExit {
                self.channel_logs[side.end.channel()].detached();
            }
            if !self.ends[side.end.index()].has_circuits() {
                self.has_no_circuits(side.end);
            }
            self.circuits[id.index()].hops[hop as usize].sides[direction as usize].end = EndId::NONE;
            let next_hop = if direction == Direction::ToClient { hop.wrapping_sub(1) } else { hop + 1 };
            let reached = self.circuits[id.index()].hops.get(next_hop).is_some_and(|next| !next.closed);
            if Some(side.end) != not_to && reached && self.ends[side.end.index()].opening == Opening::Open {
                let mut cell = Cell::new(CellKind::Destroy, id);
                cell.set_arrives_at(next_hop);
                self.circuits[id.index()].live_cells += 1;
                self.send_destroy(side.end, cell);
            }
        }
        if self.circuits[id.index()].hops.onion.is_some() {
            self.onion_circuit_closed(id, hop);
        } else if hop == EXIT {
            for stream in std::mem::take(&mut self.circuits[id.index()].streams) {
                self.end_with_circuit(stream);
            }
        }
        if hop == 0 {
            self.record_circuit(id);
            let client = self.circuits[id.index()].client;
            let was = std::mem::replace(&mut self.circuits[id.index()].state, CircuitState::Closed);
            self.circuit_lost(client, id, was);
        }
        if self.switching.is_some() {
            self.switch_interrupted(id, hop);
        }
        match hop {
            0 => self.leg_closed(id, Place::Client),
            EXIT => self.leg_closed(id, Place::Exit),
            _ => {}
        }
        self.circuits[id.index()].live_cells -= 1;
        self.recycle_circuit(id);
    }

    /// `channel_send_destroy`, `circuitmux_append_destroy_cell`: into an empty outbuf a cell goes at once, whatever KIST would say.
    ///
    /// Left out: that one which finds the outbuf filled does not tell the scheduler of itself, so that on a channel that is quiet afterwards it stays behind.
    pub(crate) fn send_destroy(&mut self, id: EndId, cell: Cell) {
        let end = &mut self.ends[id.index()];
        match self.settings.destroy_cells {
            DestroyCells::Alternate => {
                let policy = &self.settings.scheduling_at(&self.nodes[end.host.index()]).circuitmux;
                self.cells.push(end.destroys(policy), cell);
                if self.prime(id) {
                    self.net.tell_again(self.ends[id.index()].socket);
                } else {
                    self.has_waiting_cells(id);
                }
            }
            DestroyCells::Overtake => {
                self.append_to_outbuf(id, cell);
                self.start_writing(id);
            }
        }
    }

    /// Why the circuit is closed: what is said first counts, wherever it was.
    pub(crate) fn closes_because(&mut self, id: CircuitId, reason: CloseReason) {
        self.circuits[id.index()].close_reason.get_or_insert(reason);
    }

    /// Hops that no CREATE2 will ever reach need no DESTROY.
    fn close_unreached(&mut self, id: CircuitId, from: u8) {
        for hop in from as usize..=self.circuits[id.index()].hops.last() as usize {
            let here = &mut self.circuits[id.index()].hops[hop];
            if here.sides.iter().all(|side| !side.end.is_some()) {
                here.closed = true;
            }
        }
        self.stop_waiting(id);
    }

    /// DESTROY arrives.
    pub(crate) fn process_destroy(&mut self, from: EndId, cell: Cell) {
        self.trace_switch(from, cell);
        if !self.waits_for_switch(cell) {
            self.close_at(cell.circuit, cell.arrives_at(), Some(from));
            self.may_part(from);
        }
        self.discard(cell);
    }

    fn record_circuit(&mut self, id: CircuitId) {
        if self.clients[self.circuits[id.index()].client.index()].config.record {
            let record = self.circuit_record(id, true);
            self.records.circuits.push(record);
        }
    }

    pub(crate) fn circuit_record(&self, id: CircuitId, closed: bool) -> CircuitRecord {
        let circuit = &self.circuits[id.index()];
        CircuitRecord {
            circuit: self.serials[id.index()],
            client: circuit.client,
            path: [circuit.hops[1].host, circuit.hops[2].host, circuit.last_relay()],
            third: (circuit.hops.last() == 4).then(|| circuit.hops[3].host),
            launched: circuit.launched,
            built: circuit.built_at(),
            timed_out: circuit.timed_out,
            purpose: CircuitPurpose::of(circuit),
            joined: self.joined_at(id),
            closed: closed.then(|| self.queue.now()),
            outcome: match (closed, circuit.built_at()) {
                (false, _) => CircuitOutcome::Open,
                (true, Some(_)) => CircuitOutcome::Closed,
                (true, None) => CircuitOutcome::Failed,
            },
            reason: circuit.close_reason,
            cells_in: circuit.cells_to_client,
            cells_out: circuit.cells_to_exit,
            vegas: circuit.edges[Place::Exit as usize].package.as_vegas().map(vegas_state),
        }
    }

    /// A circuit's slot is free when every hop has closed it and no cell names it any more.
    pub(crate) fn recycle_circuit(&mut self, id: CircuitId) {
        let circuit = &mut self.circuits[id.index()];
        if circuit.is_gone() && circuit.client.is_some() {
            if circuit.hops.onion.is_some() && !self.part_is_over(id) {
                return;
            }
            let circuit = &mut self.circuits[id.index()];
            circuit.client = crate::ids::ClientId::NONE;
            let set = circuit.set;
            self.free_circuits.push(id);
            self.forget_leg(id, set);
            self.forget_switching(id);
            self.forget_latency(id);
        }
    }

    /// A stream's slot is free when both its ends are done with it and neither a cell nor a wake-up names it any more.
    pub(crate) fn recycle_stream(&mut self, id: StreamId) {
        let stream = &mut self.streams[id.index()];
        let exit_done = matches!(stream.exit, ExitState::None | ExitState::Ended);
        let awaited = stream.live_cells > 0 || stream.ends.iter().any(|end| end.wake_up_pending);
        if stream.client_ended && exit_done && !awaited && stream.circuit.is_some() {
            stream.circuit = CircuitId::NONE;
            self.free_streams.push(id);
            self.forget_twin(id);
        }
    }

    /// A channel ends: every circuit over it is closed at both its ends.
    pub(crate) fn close_channel(&mut self, id: EndId, reason: ChannelClose) {
        debug_assert!(
            [id, id.peer()].iter().any(|end| self.ends[end.index()].opening != Opening::Closed),
            "a channel is closed once"
        );
        self.record_channel(id, Some(reason));
        let ends = [id, id.peer()];
        let (a, b) = (self.ends[id.index()].host, self.ends[id.peer().index()].host);
        let kind = self.channel_logs[id.channel()].kind;
        // From now on nobody finds it: circuits that are launched because others are closed here need another (`channel_get_for_extend`).
        match kind {
            ChannelKind::Shared | ChannelKind::Light => drop(self.channels.remove(&channel::pair(a, b))),
            ChannelKind::Heavy => self.forget_heavy(a, b),
            ChannelKind::Stream | ChannelKind::Circuit | ChannelKind::Control => {}
        }
        let were = ends.map(|end| std::mem::replace(&mut self.ends[end.index()].opening, Opening::Closed));
        let in_order = reason == ChannelClose::Circuit && were == [Opening::Open; 2];
        for (end, was) in ends.into_iter().zip(were) {
            if was == Opening::Closed {
                continue;
            }
            self.channel_gone_for_switches(end);
            self.doesnt_want_writes(end);
            for circuit in self.waiting.remove(&end).unwrap_or_default() {
                let host = self.ends[end.index()].host;
                self.waits_at.remove(&circuit);
                if let Some(hop) = self.circuits[circuit.index()].hops.at(host) {
                    self.closes_because(circuit, CloseReason::ChannelClosed);
                    self.close_at(circuit, hop as u8, Some(end));
                }
            }
            for index in 0..self.ends[end.index()].circuits.as_ref().map_or(0, |circuits| circuits.attached.len()) {
                if let Some(attached) = self.ends[end.index()].circuits.as_ref().and_then(|circuits| circuits.attached[index]) {
                    self.closes_because(attached.circuit, CloseReason::ChannelClosed);
                    self.close_at(attached.circuit, attached.hop, Some(end));
                    // There it may be attached to the other channel.
                    if self.settings.links.move_circuits() {
                        let neighbour = if attached.outward { attached.hop + 1 } else { attached.hop - 1 };
                        self.close_at(attached.circuit, neighbour, None);
                    }
                }
            }
            while let Some(cell) = self.sent.pop_cell(&mut self.ends[end.index()].sent) {
                self.lost_with_channel(cell);
            }
            self.sent.forget(&mut self.ends[end.index()].sent);
            while let Some(circuits) = self.ends[end.index()].circuits.as_deref_mut()
                && let Some(cell) = self.cells.pop(&mut circuits.destroys)
            {
                self.lost_with_channel(cell);
            }
            let (host, socket) = (self.ends[end.index()].host, self.ends[end.index()].socket);
            self.nodes[host.index()].ends.retain(|&other| other != end);
            self.ends[end.index()].forget_circuits();
            self.use_socket(socket, SocketUse::Nothing);
            if in_order && self.net.info(socket).notsent_bytes == 0 {
                self.net.close(&mut self.queue, socket);
            } else {
                self.net.abort(&mut self.queue, socket);
            }
            self.net.release(&mut self.queue, socket);
            self.close_socket_of(end, was);
        }
        match kind {
            // Unless there is another already, over a connection of its own.
            ChannelKind::Shared if self.settings.links.are_quic() && !self.channels.contains_key(&channel::pair(a, b)) => {
                self.net.disconnect(&mut self.queue, a, b);
            }
            ChannelKind::Shared | ChannelKind::Light | ChannelKind::Heavy => {}
            ChannelKind::Stream => self.stream_closed(id),
            ChannelKind::Circuit => self.close_control_of(id),
            ChannelKind::Control => self.control_closed(id),
        }
        self.free_channel(id);
    }

    /// The place of a closed channel is used again when no event names it any more.
    pub(crate) fn free_channel(&mut self, id: EndId) {
        if self.ends[id.index()].opening == Opening::Closed
            && self.channel_logs[id.channel()].idle.iter().all(|idle| !idle.watched)
        {
            self.free_channels.push(id.channel() as u32);
        }
    }

    /// A channel that is not closed yet, as it stands.
    pub(crate) fn record_channel(&mut self, id: EndId, reason: Option<ChannelClose>) {
        let ends = [EndId(id.0 & !1), EndId(id.0 | 1)];
        if ends.iter().any(|end| self.ends[end.index()].opening == Opening::Closed) {
            return;
        }
        let log = &self.channel_logs[id.channel()];
        self.records.channels.push(ChannelRecord {
            channel: log.number,
            kind: log.kind,
            opener: self.ends[ends[0].index()].host,
            peer: self.ends[ends[1].index()].host,
            opened: log.opened,
            open: log.open,
            closed: reason.map(|_| self.queue.now()),
            reason,
            cells: ends.map(|end| u64::from(self.ends[end.index()].cells_sent)),
            bytes: ends.map(|end| self.net.bytes_written(self.ends[end.index()].socket)),
            circuits: log.circuits,
            most_circuits: log.most_circuits,
            held: log.held,
        });
    }

    /// A cell that was between the two ends of a channel that is lost. If it was the CREATE2 or the DESTROY of a hop, that hop is gone without it.
    fn lost_with_channel(&mut self, cell: Cell) {
        // Where circuits move, what comes over the other channel would follow a gap.
        if matches!(cell.kind, CellKind::Create | CellKind::Destroy) || self.settings.links.move_circuits() {
            self.closes_because(cell.circuit, CloseReason::ChannelClosed);
            self.close_at(cell.circuit, cell.arrives_at(), None);
            if cell.kind == CellKind::Create {
                self.close_unreached(cell.circuit, cell.arrives_at());
            }
        }
        self.lose(cell);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench_relay::Bench;
    use crate::records::Outcome;
    use crate::test_world::{at, in_a_row};
    use crate::{Links, Settings};
    use onionlab_engine::HostId;
    use onionlab_net::quic::QuicCongestion;
    use onionlab_quantities::{Bandwidth, SimDuration};

    /// A channel that is lost closes the circuits over it, and the record of each says so; those over another channel go on.
    #[test]
    fn a_channel_that_is_lost_closes_its_circuits() {
        let mut bench = Bench::new(Settings::default(), 2);
        let circuits = [0, 0, 1].map(|channel| bench.circuit(channel));
        bench.world.close_channel(bench.ends[0], ChannelClose::Lost);
        let reasons = circuits.map(|circuit| bench.world.circuits[circuit.index()].close_reason);
        assert_eq!(reasons, [Some(CloseReason::ChannelClosed), Some(CloseReason::ChannelClosed), None]);
        let closed = circuits.map(|circuit| bench.world.circuits[circuit.index()].hops[1].closed);
        assert_eq!(closed, [true, true, false]);
    }

    /// What is under way between its ends, cells and the sizes of their records, is forgotten, and the rings in which it lay are free.
    #[test]
    fn nothing_is_under_way_on_a_channel_that_is_closed() {
        let mut bench = Bench::new(Settings::default(), 1);
        let circuit = bench.circuit(0);
        bench.queue(circuit, 20);
        bench.advance_to(bench.world.now() + SimDuration::from_micros(500));
        assert!(bench.world.sent.in_use() > 0 && bench.world.sent.cells() > 0, "cells are on the wire");
        bench.world.close_channel(bench.ends[0], ChannelClose::Lost);
        assert_eq!((bench.world.sent.in_use(), bench.world.sent.cells()), (0, 0));
    }

    /// The client's channel to its guard is lost in the middle of a page, and with it the circuit of its objects. The next object begins in that instant, over a circuit that is built over
    /// another channel to the same guard.
    #[test]
    fn circuits_that_follow_a_lost_channel_do_not_wait_for_it() {
        let load = "kind = \"page\"\npause = \"1 s\"\nobjects = 60";
        let mut world = in_a_row(Settings::default(), Bandwidth::from_bits_per_sec(2_000_000), load);
        world.run_until(at(13_000));
        let lost = world.channels[&channel::pair(HostId(0), HostId(1))];
        world.close_channel(lost, ChannelClose::Lost);
        assert!(!world.waiting.is_empty(), "a circuit is launched at once");
        assert!(world.waiting.keys().all(|end| world.ends[end.index()].opening != Opening::Closed));
        world.settle();
        let ok =
            |world: &mut World| world.take_records().transfers.iter().filter(|transfer| transfer.outcome == Outcome::Ok).count();
        ok(&mut world);
        world.run_until(at(30_000));
        assert!(ok(&mut world) > 0, "and is built");
    }

    /// A stream of a QUIC connection that is lost is closed when there is another connection with a stream: it is none of that one's.
    #[test]
    fn streams_of_a_lost_connection_are_not_counted_as_those_of_the_next() {
        let links = Links::Quic { congestion: QuicCongestion::Cubic };
        let mut bench = Bench::new(Settings { links, ..Settings::default() }, 1);
        let old = bench.world.open_stream(bench.ends[0]);
        bench.world.close_channel(bench.ends[0], ChannelClose::Lost);
        let next = bench.world.channel_between(Bench::RELAY, HostId(1)).unwrap();
        // As if it had opened before the old stream's end is known.
        bench.world.ends[next.index()].opening = Opening::Open;
        let new = bench.world.open_stream(next);
        bench.world.settle();
        assert_eq!(bench.world.ends[old.index()].opening, Opening::Closed);
        assert_eq!(bench.world.channel_logs[next.channel()].streams, 1);
        bench.world.close_channel(new, ChannelClose::Circuit);
        assert_eq!(bench.world.channel_logs[next.channel()].streams, 0);
    }
}
