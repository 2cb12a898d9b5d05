//! No scheduler: the three rules by which cells moved up to tor 0.2.5 (`or/relay.c`, `or/connection_or.c`, `or/connection.c`).
//!
//! *Prime*: a cell that joins a circuit queue while the channel's outbuf is empty moves one cell there, the policy's choice. *Write*: each time the socket is
//! writable, one call writes at most 32 cells (`writing.rs`). *Refill*: after a write that leaves less than the low mark (16 KiB) in the outbuf, cells are moved one
//! by one until it holds the high mark (32 KiB). Nothing else moves cells, and only the socket's buffer bounds what goes to the kernel.
//!
//! So a circuit's priority counts only at the instants of a refill, some 64 cells apart, and channels share nothing but the event loop: each is
//! written once a pass, in the order in which their sockets became writable.

use crate::ids::EndId;
use crate::world::World;

impl World {
    /// A cell into an empty outbuf, if there is one: once that is written, the channel is asked for more. True if there was.
    pub(crate) fn prime(&mut self, id: EndId) -> bool {
        let primed = self.is_open(id) && self.ends[id.index()].outbuf.len() == 0 && self.flush_one_cell(id);
        if primed {
            self.start_writing(id);
        }
        primed
    }

    /// `connection_or_flushed_some`, below the low mark. The caller sees to the next write.
    pub(super) fn refill(&mut self, id: EndId) {
        while self.writeable_cells(id) > 0 && self.flush_one_cell(id) {}
    }
}
