//! KIST (`core/or/scheduler_kist.c`; Jansen et al., "Never Been KIST", USENIX Security 2014): cells leave tor only when TCP will send them soon.
//!
//! KIST-lite has the same runs and the same order over all channels, but knows nothing of the kernel: a run may fill each outbuf.

use crate::CELL_BYTES;
use crate::channel::{Attached, ChannelEnd, Circuits, SchedulerState};
use crate::circuit::Side;
use crate::ids::EndId;
use crate::world::World;
use onionlab_engine::{HostId, prefetch};
use onionlab_net::tcp::TcpInfo;
use std::ops::Range;

/// What KIST reckons for a cell: the cell and `TLS_PER_CELL_OVERHEAD`.
const CELL_COST: u64 = CELL_BYTES as u64 + 29;

/// An outbuf of more than eight cells is written out when the run turns to another channel.
const FLUSH_ABOVE: u32 = 8 * CELL_BYTES;

/// So many channels' data is fetched at a time: what they need fits the first-level cache.
const TOGETHER: usize = 16;

/// How KIST bounds what waits in a socket.
#[derive(Debug, Clone, Copy)]
pub(super) struct SocketLimit {
    /// Congestion windows that may wait beyond what is in flight.
    pub factor: f64,
    /// Whether what waits already is known.
    pub knows_unsent: bool,
}

impl World {
    /// One run (`kist_scheduler_run`). No limit: KIST-lite.
    pub(super) fn run_kist(&mut self, host: HostId, limit: Option<SocketLimit>) {
        let pending = self.nodes[host.index()].pending.len();
        for first in (0..pending).step_by(TOGETHER) {
            let batch = first..pending.min(first + TOGETHER);
            self.prefetch_pending(host, batch.clone());
            for index in batch {
                let id = self.nodes[host.index()].pending[index];
                let room = match limit {
                    Some(limit) => self.net.news(self.ends[id.index()].socket).map(|info| limit.room(&info)),
                    None => Some(u64::from(self.ends[id.index()].outbuf.len()) + self.writeable_cells(id) * CELL_COST),
                };
                let end = &mut self.ends[id.index()];
                if let Some(room) = room {
                    // Four gigabytes in a run are no limit.
                    end.kist_room = u32::try_from(room).unwrap_or(u32::MAX);
                }
                end.kist_taken = end.outbuf.len();
            }
        }
        let mut aside = std::mem::take(&mut self.aside);
        // Channels whose outbufs are to be written before the run ends (`outbuf_table`), in the order in which they came up; tor's come by their place
        // in a hash table.
        let mut touched = std::mem::take(&mut self.touched);
        let mut previous: Option<EndId> = None;
        let mut next = self.pop_pending(host);
        while let Some(id) = next.take() {
            if !std::mem::replace(&mut self.ends[id.index()].kist_touched, true) {
                touched.push(id);
            }
            if let Some(previous) = previous
                && previous != id
                && self.ends[previous.index()].outbuf.len() > FLUSH_ABOVE
            {
                self.write_channel(previous);
                self.ends[previous.index()].kist_touched = false;
            }
            previous = Some(id);
            if can_write(&self.ends[id.index()]) {
                if !self.flush_one_cell(id) {
                    self.ends[id.index()].scheduler = SchedulerState::WaitingForCells;
                    next = self.pop_pending(host);
                    continue;
                }
                self.ends[id.index()].kist_taken += CELL_COST as u32;
                self.unblock_writing(id);
            }
            let end = &mut self.ends[id.index()];
            if end.queued_cells() == 0 {
                end.scheduler = SchedulerState::WaitingForCells;
            } else if can_write(end) {
                if self.nodes[host.index()].pending.is_empty() {
                    // Pushed, it would come out again.
                    next = Some(id);
                    continue;
                }
                super::heap::push(&mut self.nodes[host.index()].pending, id, |a, b| super::compare(&self.ends, a, b));
            } else {
                aside.push(id);
            }
            next = self.pop_pending(host);
        }
        for id in touched.drain(..) {
            if std::mem::take(&mut self.ends[id.index()].kist_touched) && self.is_open(id) {
                self.write_channel(id);
            }
        }
        self.touched = touched;
        for id in aside.drain(..) {
            super::heap::push(&mut self.nodes[host.index()].pending, id, |a, b| super::compare(&self.ends, a, b));
        }
        self.aside = aside;
    }

    /// Fetches what these pending channels will need for their limits, for the comparison of their circuits and for the first cell that they send: one step
    /// for all of them before the next, which goes by what the one before has fetched.
    fn prefetch_pending(&self, host: HostId, batch: Range<usize>) {
        let ends = || self.nodes[host.index()].pending[batch.clone()].iter().map(|id| &self.ends[id.index()]);
        for end in ends() {
            prefetch(end, size_of::<ChannelEnd>());
        }
        for end in ends() {
            if let Some(circuits) = end.circuits.as_deref() {
                prefetch(circuits, size_of::<Circuits>());
            }
            if self.may_write(end) {
                self.net.prefetch_socket(end.socket, 1);
            }
        }
        for end in ends().filter(|end| self.may_write(end)) {
            self.net.prefetch_socket(end.socket, 2);
            if let Some(side) = self.foreseen(end) {
                prefetch(side, size_of::<Side>());
            }
        }
        for end in ends().filter(|end| self.may_write(end)) {
            self.net.prefetch_socket(end.socket, 3);
            if let Some(side) = self.foreseen(end) {
                self.cells.prefetch(&side.queue);
            }
        }
    }

    /// Whether the next run may move a cell of this channel, as far as can be told without a look at its socket: where segments get lost most cannot for many
    /// runs, until something is acknowledged.
    fn may_write(&self, end: &ChannelEnd) -> bool {
        self.net.has_news(end.socket) || end.outbuf.len() + CELL_COST as u32 <= end.kist_room
    }

    /// The side of the circuit whose cell this end would send now.
    fn foreseen(&self, end: &ChannelEnd) -> Option<&Side> {
        let circuits = end.circuits.as_deref()?;
        let Attached { circuit, hop, outward } = (*circuits.attached.get(circuits.mux.foreseen()?.0 as usize)?)?;
        Some(&self.circuits[circuit.index()].hops[hop as usize].sides[usize::from(outward)])
    }
}

impl SocketLimit {
    /// `update_socket_info_impl`: what TCP can send at once, and some congestion windows more to wait in the kernel, less what waits there already. What waits in
    /// the outbuf is to be taken off.
    fn room(&self, info: &TcpInfo) -> u64 {
        let mss = i64::from(info.mss);
        let space = (i64::from(info.cwnd_segments) - i64::from(info.unacked_segments)).max(0) * mss;
        let window = f64::from(info.cwnd_segments) * f64::from(info.mss) * self.factor;
        let unsent = if self.knows_unsent { info.notsent_bytes as i64 } else { 0 };
        (space + window as i64 - unsent).max(0) as u64
    }
}

/// Whether the run may still move a cell of this channel.
fn can_write(end: &ChannelEnd) -> bool {
    u64::from(end.kist_taken) + CELL_COST <= u64::from(end.kist_room)
}
