//! From the kernel to cells: records, then cells, then what each cell asks for, inline.

use crate::cell::{CELL_BYTES, Cell, CellKind};
use crate::channel::Opening;
use crate::ids::EndId;
use crate::queues::Direction;
use crate::world::World;

/// At most so much is read from a connection in one event: 32 cells (`connection_bucket_get_share`).
const READ_AT_MOST: u64 = 32 * CELL_BYTES as u64;

impl World {
    /// `connection_handle_read_impl`: what the kernel has, record by record, every whole cell processed at once.
    pub(crate) fn read_channel(&mut self, id: EndId) {
        let overhead = self.settings.tls_record_overhead;
        while !self.ends[id.index()].read_blocked {
            let (host, socket) = (self.ends[id.index()].host, self.ends[id.index()].socket);
            let mut take = self.net.readable(socket);
            if take == 0 {
                return;
            }
            match self.ends[id.index()].opening {
                Opening::Awaiting { .. } => {
                    self.read_flight(id, take);
                    continue;
                }
                Opening::Open => {}
                Opening::Connecting | Opening::Closed => return,
            }
            take = take.min(READ_AT_MOST);
            if let Some(buckets) = &mut self.nodes[host.index()].buckets {
                let available = buckets.read.available(self.queue.now());
                if available <= 0 {
                    self.ends[id.index()].read_blocked = true;
                    self.wait_for_tokens(host);
                    return;
                }
                take = take.min(available as u64);
                buckets.read.charge(take);
            }
            self.nodes[host.index()].counters.channel_bytes_read += take;
            self.net.read(&mut self.queue, socket, take);
            let peer = id.peer().index();
            let mut record_read = self.ends[id.index()].record_read + take as u32;
            let mut plaintext = self.ends[id.index()].plaintext_read;
            while let Some(&record) = self.ends[peer].sent_records.front() {
                let size = u32::from(record) + overhead;
                if record_read < size {
                    break;
                }
                record_read -= size;
                plaintext += u32::from(record);
                self.ends[peer].sent_records.pop_front();
            }
            let cells = plaintext / CELL_BYTES;
            self.ends[id.index()].record_read = record_read;
            self.ends[id.index()].plaintext_read = plaintext % CELL_BYTES;
            for _ in 0..cells {
                let Some(cell) = self.ends[peer].sent_cells.pop_front() else {
                    unreachable!("as many cells arrive as were sent")
                };
                self.process_cell(id, cell);
            }
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
            _ if here.closed => return self.discard(cell),
            _ if here.sides[0].end == from => Direction::ToExit,
            _ => Direction::ToClient,
        };
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
            CellKind::Begin => self.process_begin(cell),
            CellKind::Data => self.data_at_exit(cell),
            CellKind::SendmeCircuit => self.circuit_sendme_at_exit(cell.circuit),
            CellKind::SendmeStream => self.stream_sendme_at_exit(cell),
            CellKind::End => self.end_at_exit(cell.stream),
            _ => {}
        }
        self.discard(cell);
    }

    fn recognised_at_client(&mut self, cell: Cell) {
        #[cfg(debug_assertions)]
        self.check_sequence(cell, Direction::ToClient);
        match cell.kind {
            CellKind::Extended => self.process_extended(cell.circuit),
            CellKind::Connected => self.connected_at_client(cell),
            CellKind::Data => self.data_at_client(cell),
            CellKind::SendmeCircuit => self.circuit_sendme_at_client(cell.circuit),
            CellKind::SendmeStream => self.stream_sendme_at_client(cell),
            CellKind::End => self.end_at_client(cell),
            _ => {}
        }
        self.discard(cell);
    }
}
