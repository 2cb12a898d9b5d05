//! Cells, in one pool, chained into the queues where they wait: a queue costs three words, and a short one stays in the cache, because the cell freed last is used first.

use crate::ids::{CircuitId, StreamId};
use onionlab_quantities::SimTime;

/// Bytes of a fixed cell on the wire, link protocol 4 and later: 4 of circuit id, 1 of command, 509 of payload (`CELL_MAX_NETWORK_SIZE`).
pub const CELL_BYTES: u32 = 514;

/// Bytes of a cell payload (`CELL_PAYLOAD_SIZE`).
pub const CELL_PAYLOAD_BYTES: u32 = 509;

const NONE: u32 = u32::MAX;

/// What a cell is; for relay cells, the relay command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellKind {
    /// CREATE2: the first half of a hop's handshake.
    Create,
    /// CREATED2: its answer.
    Created,
    /// The circuit is gone.
    Destroy,
    /// EXTEND2, in a RELAY_EARLY cell, for the last hop built.
    Extend,
    /// EXTENDED2.
    Extended,
    Begin,
    Connected,
    Data,
    End,
    /// Circuit-level SENDME.
    SendmeCircuit,
    /// Stream-level SENDME.
    SendmeStream,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    /// When it joined the queue where it waits.
    pub queued_at: SimTime,
    pub circuit: CircuitId,
    pub stream: StreamId,
    next: u32,
    /// Bytes of payload of a DATA cell.
    pub length: u16,
    pub kind: CellKind,
    /// Low half: the hop of the circuit at which it arrives next. High half: the hop that recognises it, for relay cells away from the client.
    route: u8,
    /// Position among the cells of its circuit and direction, to check that none is lost or overtaken.
    #[cfg(debug_assertions)]
    pub sequence: u32,
}

impl Cell {
    /// A cell of the circuit, on no stream, without payload.
    pub fn new(kind: CellKind, circuit: CircuitId) -> Self {
        Self {
            queued_at: SimTime::ZERO,
            circuit,
            stream: StreamId::NONE,
            next: NONE,
            length: 0,
            kind,
            route: 0,
            #[cfg(debug_assertions)]
            sequence: 0,
        }
    }
    /// Recognised at `hop`.
    pub fn for_hop(mut self, hop: u8) -> Self {
        self.route = hop << 4;
        self
    }
    /// On `stream`.
    pub fn on(mut self, stream: StreamId) -> Self {
        self.stream = stream;
        self
    }
    /// With `length` bytes of payload.
    pub fn carrying(mut self, length: u16) -> Self {
        self.length = length;
        self
    }
    pub const fn arrives_at(self) -> u8 {
        self.route & 0xf
    }
    pub const fn target(self) -> u8 {
        self.route >> 4
    }
    pub fn set_arrives_at(&mut self, hop: u8) {
        self.route = self.route & 0xf0 | hop;
    }
}

/// First in, first out; the cells themselves lie in the pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CellQueue {
    head: u32,
    tail: u32,
    pub len: u32,
}

impl CellQueue {
    pub const EMPTY: Self = Self { head: NONE, tail: NONE, len: 0 };
}

#[derive(Debug, Default)]
pub(crate) struct CellPool {
    cells: Vec<Cell>,
    free: Vec<u32>,
}

impl CellPool {
    pub fn push(&mut self, queue: &mut CellQueue, mut cell: Cell) {
        cell.next = NONE;
        let id = if let Some(id) = self.free.pop() {
            self.cells[id as usize] = cell;
            id
        } else {
            self.cells.push(cell);
            self.cells.len() as u32 - 1
        };
        self.append(queue, id);
    }

    fn append(&mut self, queue: &mut CellQueue, id: u32) {
        if queue.tail == NONE {
            queue.head = id;
        } else {
            self.cells[queue.tail as usize].next = id;
        }
        queue.tail = id;
        queue.len += 1;
    }

    fn unlink(&mut self, queue: &mut CellQueue) -> Option<u32> {
        let id = queue.head;
        let next = self.cells.get(id as usize)?.next;
        queue.head = next;
        queue.len -= 1;
        if next == NONE {
            queue.tail = NONE;
        }
        Some(id)
    }

    pub fn pop(&mut self, queue: &mut CellQueue) -> Option<Cell> {
        let id = self.unlink(queue)?;
        self.free.push(id);
        Some(self.cells[id as usize])
    }

    /// Cells that wait in queues.
    pub fn in_use(&self) -> usize {
        self.cells.len() - self.free.len()
    }
}
