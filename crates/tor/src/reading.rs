//! From the kernel to cells: records, then cells, then what each cell asks for, inline.

use crate::cell::{CELL_BYTES, Cell, CellKind};
use crate::channel::Opening;
use crate::circuit::{ACROSS, Hop, Place};
use crate::event_loop::{Connection, Operation};
use crate::ids::EndId;
use crate::queues::Direction;
use crate::settings::ChannelReads;
use crate::tls::Tls;
use crate::world::World;
use onionlab_engine::prefetch;

/// How far a read will come: bytes from the kernel, and of plaintext in whole records.
pub(crate) struct Reach {
    pub bytes: u64,
    pub plaintext: u32,
}

impl World {
    /// One read callback of a channel (`connection_handle_read_impl`): one record from the kernel, or records until they hold the channel's share of
    /// bytes, the last of them whole even beyond it, then every whole cell. If more is left in the kernel, the socket is ready again.
    pub(crate) fn read_channel(&mut self, id: EndId, at_most: u64) {
        if self.ends[id.index()].read_blocked {
            return;
        }
        let (host, socket) = (self.ends[id.index()].host, self.ends[id.index()].socket);
        let readable = self.net.readable(socket).min(at_most);
        if readable == 0 {
            return;
        }
        match self.ends[id.index()].opening {
            Opening::Awaiting { .. } => self.read_flight(id, readable),
            Opening::Open => {
                let Some(share) = self.share(host, Connection::Channel, Operation::Read) else {
                    self.ends[id.index()].read_blocked = true;
                    self.wait_for_tokens(socket);
                    return;
                };
                self.read_cells(id, readable, share);
            }
            Opening::Connecting | Opening::Arriving | Opening::Sending { .. } | Opening::Closed => return,
        }
        if self.ends[id.index()].opening == Opening::Open && self.tokens_are_used_up(host, Connection::Channel, Operation::Read) {
            // `connection_consider_empty_read_buckets`
            self.ends[id.index()].read_blocked = true;
            self.wait_for_tokens(socket);
            return;
        }
        if self.ends[id.index()].opening != Opening::Closed && self.net.readable(socket) > 0 {
            self.watch_channel_reading(id);
        }
    }

    /// What such a read will take out of `readable` bytes in the kernel.
    pub(crate) fn reach_of_read(&self, id: EndId, readable: u64, share: u64) -> Reach {
        let tls = self.settings.tls;
        let mut reach = Reach { bytes: 0, plaintext: 0 };
        let mut partial = u32::from(self.ends[id.index()].record_read);
        for record in self.sent.records_of(self.ends[id.peer().index()].sent) {
            let missing = u64::from(tls.record(u32::from(record)) - partial);
            if reach.bytes + missing > readable {
                break;
            }
            reach.bytes += missing;
            reach.plaintext += u32::from(record);
            partial = 0;
            if self.ends_read(u64::from(reach.plaintext), share) {
                return reach;
            }
        }
        Reach { bytes: readable, ..reach }
    }

    /// A read callback that took so many bytes of plaintext out of whole records takes no more.
    fn ends_read(&self, plaintext: u64, share: u64) -> bool {
        match self.settings.channel_reads {
            ChannelReads::Record if self.settings.tls != Tls::Absent => plaintext > 0,
            ChannelReads::Record | ChannelReads::Share => plaintext >= share,
        }
    }

    /// Reads one record, or as many as hold `share` bytes of plaintext, out of `readable` bytes in the kernel, and processes the cells that are whole then.
    fn read_cells(&mut self, id: EndId, readable: u64, share: u64) {
        let tls = self.settings.tls;
        let (host, socket) = (self.ends[id.index()].host, self.ends[id.index()].socket);
        let peer = id.peer().index();
        let mut left = readable;
        let mut plaintext = 0;
        let mut partial = u32::from(self.ends[id.index()].record_read);
        while !self.ends_read(plaintext, share) {
            // A record whose end the sender has not written yet is not in the queue: its bytes are taken as far as they are here.
            let missing =
                self.sent.first_record(self.ends[peer].sent).map(|&record| u64::from(tls.record(u32::from(record)) - partial));
            let Some(missing) = missing.filter(|&missing| missing <= left) else {
                partial += left as u32;
                left = 0;
                break;
            };
            left -= missing;
            partial = 0;
            plaintext += self.sent.pop_record(&mut self.ends[peer].sent).map_or(0, u64::from);
        }
        let taken = readable - left;
        self.nodes[host.index()].counters.channel_bytes_read += taken;
        self.charge(host, Connection::Channel, Operation::Read, taken);
        self.net.read(&mut self.queue, socket, taken);
        let end = &mut self.ends[id.index()];
        let plaintext = u32::from(end.plaintext_read) + plaintext as u32;
        // Part of a record, and of a cell.
        end.record_read = partial as u16;
        end.plaintext_read = (plaintext % CELL_BYTES) as u16;
        let cells = plaintext / CELL_BYTES;
        self.prefetch_circuits(id, cells);
        for _ in 0..cells {
            let sent = &mut self.ends[peer].sent;
            let Some(&cell) = self.sent.first_cell(*sent) else { return };
            self.sent.drop_cell(sent);
            self.process_cell(id, cell);
        }
    }

    /// Asks for the memory of the hops at which the next cells arrive, of all of them at once.
    #[inline]
    fn prefetch_circuits(&self, id: EndId, cells: u32) {
        for cell in self.sent.first_cells(self.ends[id.peer().index()].sent, cells as usize) {
            prefetch(&self.circuits[cell.circuit.index()].hops[cell.arrives_at() as usize], size_of::<Hop>());
        }
    }

    /// `command_process_cell`
    fn process_cell(&mut self, from: EndId, cell: Cell) {
        let hop = cell.arrives_at();
        let here = &self.circuits[cell.circuit.index()].hops[hop as usize];
        let direction = match cell.kind {
            CellKind::Create => return self.process_create(from, cell),
            CellKind::Created => return self.process_created(cell),
            CellKind::Destroy => return self.process_destroy(from, cell),
            CellKind::Feedback | CellKind::FeedbackEnd => return self.feedback_cell(from, cell),
            CellKind::PathSwitch | CellKind::SwitchedConn | CellKind::SwitchAck => return self.process_switching(from, cell),
            _ if here.closed => return self.lose(cell),
            _ if self.settings.links.move_circuits() => return self.in_order_of_moves(from, cell),
            _ if here.sides[0].end == from => Direction::ToExit,
            _ => Direction::ToClient,
        };
        if self.latency.is_some() {
            self.note_read(&cell);
        }
        self.pass_on(cell, direction);
    }

    /// `circuit_receive_relay_cell`: the cell is for this hop, or joins the queue to the next.
    #[expect(clippy::inline_always, reason = "it is part of what is done with each cell, and its other callers are rare")]
    #[inline(always)]
    pub(crate) fn pass_on(&mut self, cell: Cell, direction: Direction) {
        let hop = cell.arrives_at();
        match direction {
            Direction::ToExit if cell.target() == hop => self.recognised_at_relay(cell, hop),
            Direction::ToClient if hop == 0 => self.recognised_at_client(cell),
            _ => self.append_cell(cell.circuit, hop, direction, cell),
        }
    }

    fn recognised_at_relay(&mut self, cell: Cell, hop: u8) {
        #[cfg(debug_assertions)]
        self.check_sequence(cell, Direction::ToExit);
        match cell.kind {
            CellKind::Extend => self.extend_from(cell.circuit, hop),
            CellKind::SendmeCircuit => self.circuit_sendme(cell.circuit, Place::Exit),
            CellKind::Link => self.process_link(cell),
            CellKind::LinkedAck => self.process_linked_ack(cell),
            CellKind::Switch => self.process_switch(cell, Place::Exit),
            CellKind::EstablishRendezvous | CellKind::EstablishIntro | CellKind::Introduce1 | CellKind::Rendezvous1 => {
                self.onion_cell_at_relay(cell, hop);
            }
            _ => return self.in_order(cell, Place::Exit),
        }
        self.discard(cell);
    }

    /// A cell of a stream: at once, or when its turn has come, and then those that have waited for it (`connection_edge_process_relay_cell`).
    pub(crate) fn in_order(&mut self, cell: Cell, place: Place) {
        if cell.kind == CellKind::Data && !self.data_arrived(cell, place) {
            self.lose(cell);
            return;
        }
        let circuit = cell.circuit;
        let mut next = self.in_turn(cell, place);
        while let Some(cell) = next {
            // The circuit must not be recycled while its set is asked for more.
            self.circuits[circuit.index()].live_cells += 1;
            match place {
                Place::Client => self.ordered_at_client(cell),
                Place::Exit => self.ordered_at_exit(cell),
            }
            next = self.next_in_turn(circuit, place);
            self.circuits[circuit.index()].live_cells -= 1;
            self.recycle_circuit(circuit);
        }
    }

    fn ordered_at_exit(&mut self, cell: Cell) {
        match cell.kind {
            CellKind::Begin => self.process_begin(cell),
            CellKind::Data => self.data_at_exit(cell),
            CellKind::SendmeStream => self.stream_sendme(cell, Place::Exit),
            CellKind::Xoff | CellKind::Xon => self.advised(cell, Place::Exit),
            CellKind::End => self.end_from_client(cell.stream),
            CellKind::Resume => self.resume_at_exit(cell.stream),
            _ => {}
        }
        self.discard(cell);
    }

    fn recognised_at_client(&mut self, cell: Cell) {
        #[cfg(debug_assertions)]
        self.check_sequence(cell, Direction::ToClient);
        self.circuits[cell.circuit.index()].busy = true;
        if cell.target() == ACROSS && self.is_for_service(cell) {
            return self.recognised_at_service(cell);
        }
        match cell.kind {
            CellKind::Extended => self.process_extended(cell.circuit),
            CellKind::SendmeCircuit => self.circuit_sendme(cell.circuit, Place::Client),
            CellKind::Linked => self.process_linked(cell),
            CellKind::Switch => self.process_switch(cell, Place::Client),
            CellKind::RendezvousEstablished
            | CellKind::IntroEstablished
            | CellKind::Introduce2
            | CellKind::IntroduceAck
            | CellKind::Rendezvous2 => self.onion_cell_at_owner(cell),
            _ => return self.in_order(cell, Place::Client),
        }
        self.discard(cell);
    }

    fn ordered_at_client(&mut self, cell: Cell) {
        match cell.kind {
            CellKind::Connected => self.connected_at_client(cell),
            CellKind::Data => self.data_at_client(cell),
            CellKind::SendmeStream => self.stream_sendme(cell, Place::Client),
            CellKind::Xoff | CellKind::Xon => self.advised(cell, Place::Client),
            CellKind::End => self.end_at_client(cell),
            _ => {}
        }
        self.discard(cell);
    }
}
