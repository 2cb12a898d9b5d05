//! Cells, and the queues where they wait: chains of small blocks out of one pool.
//!
//! An idle queue costs five words and no block. Blocks, because the cells of a long queue are read long after they were written: one after the
//! other they cost a cache miss in three, chained singly one each. The block freed last is used first, so that short queues stay in the cache.

use crate::ids::{CircuitId, ProbeId, StreamId};
use onionlab_engine::prefetch;
use onionlab_quantities::SimTime;

/// Bytes of a fixed cell on the wire, link protocol 4 and later: 4 of circuit id, 1 of command, 509 of payload (`CELL_MAX_NETWORK_SIZE`).
pub const CELL_BYTES: u32 = 514;

/// Bytes of data in a full DATA cell (`RELAY_PAYLOAD_SIZE_MAX`): `CELL_PAYLOAD_SIZE`, 509, less `RELAY_HEADER_SIZE_V0`, 11.
pub const RELAY_PAYLOAD_SIZE_MAX: u16 = 498;

/// The same in the format that CGO brought (`RELAY_PAYLOAD_SIZE_MIN`): 509 less `RELAY_HEADER_SIZE_V1_WITH_STREAM_ID`, 21.
pub const RELAY_PAYLOAD_SIZE_V1: u16 = 488;

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
    /// SWITCHED of Torchestra: the circuit's cells in this direction go on over the other channel.
    Switched,
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
    /// Stop reading this stream.
    Xoff,
    /// Read this stream, at a rate that the sender's end of the stream remembers.
    Xon,
    /// CONFLUX_LINK: this circuit is a leg of a set.
    Link,
    /// CONFLUX_LINKED: its answer.
    Linked,
    /// CONFLUX_LINKED_ACK: the answer to that.
    LinkedAck,
    /// CONFLUX_SWITCH: the cells of the set go on here. The set remembers at which number.
    Switch,
    /// SWITCH of active circuit switching: no more cells of the circuit come on this path (module `switching`).
    PathSwitch,
    /// SWITCHED_CONN: the cells of another circuit follow on this one.
    SwitchedConn,
    /// SWITCH_ACK: its answer; `length` is the hop that gave it.
    SwitchAck,
    /// What a client's program writes first on a standby stream: the resumption of its session, and from which byte on.
    Resume,
    /// ESTABLISH_RENDEZVOUS: this relay is to be a client's rendezvous point.
    EstablishRendezvous,
    /// RENDEZVOUS_ESTABLISHED: its answer.
    RendezvousEstablished,
    /// ESTABLISH_INTRO: this relay is to be an introduction point of a service.
    EstablishIntro,
    /// INTRO_ESTABLISHED: its answer.
    IntroEstablished,
    /// INTRODUCE1: a client asks an introduction point to tell the service where it waits.
    Introduce1,
    /// INTRODUCE2: the introduction point tells it.
    Introduce2,
    /// INTRODUCE_ACK: its answer to the client; with a `length` it has not told it.
    IntroduceAck,
    /// RENDEZVOUS1: a service has come to the rendezvous point.
    Rendezvous1,
    /// RENDEZVOUS2: the client is told, and the two circuits are one.
    Rendezvous2,
    /// A part of a trajectory of a relay that plans (module `predictor`), and the last part.
    Feedback,
    FeedbackEnd,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    /// When it joined the queue where it waits.
    pub queued_at: SimTime,
    pub circuit: CircuitId,
    pub stream: StreamId,
    /// A DATA cell that is followed (module `probes`).
    pub probe: ProbeId,
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
            probe: ProbeId::NONE,
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
    /// Followed as `probe`.
    pub fn followed_as(mut self, probe: ProbeId) -> Self {
        self.probe = probe;
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

/// Cells in a block.
const BLOCK: usize = 8;

#[derive(Debug)]
struct Block {
    cells: [Cell; BLOCK],
    next: u32,
}

/// First in, first out; the cells themselves lie in the pool's blocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CellQueue {
    head: u32,
    tail: u32,
    pub len: u32,
    /// Places in the head block that have been read, and in the tail block that have been written.
    read: u8,
    written: u8,
}

impl CellQueue {
    pub const EMPTY: Self = Self { head: NONE, tail: NONE, len: 0, read: 0, written: 0 };
}

#[derive(Debug, Default)]
pub(crate) struct CellPool {
    blocks: Vec<Block>,
    free: Vec<u32>,
    cells: usize,
}

impl CellPool {
    /// Adds a cell; what is returned is its place.
    #[inline]
    pub fn push(&mut self, queue: &mut CellQueue, cell: Cell) -> &mut Cell {
        if queue.tail == NONE || queue.written as usize == BLOCK {
            let id = self.block(cell);
            if queue.tail == NONE {
                queue.head = id;
                queue.read = 0;
            } else {
                self.blocks[queue.tail as usize].next = id;
            }
            queue.tail = id;
            queue.written = 1;
        } else {
            self.blocks[queue.tail as usize].cells[queue.written as usize] = cell;
            queue.written += 1;
        }
        queue.len += 1;
        self.cells += 1;
        &mut self.blocks[queue.tail as usize].cells[queue.written as usize - 1]
    }

    /// A block with `cell` in its first place.
    #[inline(never)]
    fn block(&mut self, cell: Cell) -> u32 {
        if let Some(id) = self.free.pop() {
            let block = &mut self.blocks[id as usize];
            block.cells[0] = cell;
            block.next = NONE;
            return id;
        }
        self.blocks.push(Block { cells: [cell; BLOCK], next: NONE });
        self.blocks.len() as u32 - 1
    }

    /// The cell that has waited longest.
    pub fn front(&self, queue: &CellQueue) -> Option<&Cell> {
        (queue.len > 0).then(|| &self.blocks[queue.head as usize].cells[queue.read as usize])
    }

    /// Fetches the cell that has waited longest.
    #[inline]
    pub fn prefetch(&self, queue: &CellQueue) {
        if let Some(front) = self.front(queue) {
            prefetch(front, size_of::<Cell>());
        }
    }

    /// Takes the cell that has waited longest.
    ///
    /// Where each cell comes by, [`Self::front`] and [`Self::drop_front`] are faster: an `Option<Cell>` is taken apart and put together in
    /// pieces that overlap, for which the processor waits.
    #[inline]
    pub fn pop(&mut self, queue: &mut CellQueue) -> Option<Cell> {
        let cell = *self.front(queue)?;
        self.drop_front(queue);
        Some(cell)
    }

    /// Gives up the place of the cell that has waited longest, of a queue that has one.
    #[inline]
    pub fn drop_front(&mut self, queue: &mut CellQueue) {
        queue.read += 1;
        queue.len -= 1;
        self.cells -= 1;
        if queue.len == 0 {
            self.free.push(queue.head);
            *queue = CellQueue::EMPTY;
        } else if queue.read as usize == BLOCK {
            self.free.push(queue.head);
            queue.head = self.blocks[queue.head as usize].next;
            queue.read = 0;
        }
    }

    /// Cells that wait in queues.
    pub fn in_use(&self) -> usize {
        self.cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// Three queues out of one pool, against the standard library's.
        #[test]
        fn queues_are_first_in_first_out(steps in prop::collection::vec((0_usize..3, prop::bool::weighted(0.55)), 0..400)) {
            let mut pool = CellPool::default();
            let mut queues = [CellQueue::EMPTY; 3];
            let mut models: [VecDeque<u32>; 3] = Default::default();
            for (number, (which, push)) in steps.into_iter().enumerate() {
                if push {
                    pool.push(&mut queues[which], Cell::new(CellKind::Data, CircuitId(number as u32)));
                    models[which].push_back(number as u32);
                } else {
                    let popped = pool.pop(&mut queues[which]).map(|cell| cell.circuit.0);
                    prop_assert_eq!(popped, models[which].pop_front());
                }
                prop_assert_eq!(queues[which].len as usize, models[which].len());
            }
            prop_assert_eq!(pool.in_use(), models.iter().map(VecDeque::len).sum::<usize>());
            let blocks_in_use = pool.blocks.len() - pool.free.len();
            prop_assert!(blocks_in_use <= models.iter().map(|model| model.len() / BLOCK + 2).sum());
        }
    }
}
