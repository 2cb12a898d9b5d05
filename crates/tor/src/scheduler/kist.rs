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
const CELL_COST: u32 = CELL_BYTES + 29;

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
            self.prefetch_sockets(host, batch.clone());
            for index in batch.clone() {
                self.update_limit(self.nodes[host.index()].pending[index], limit);
            }
            self.prefetch_cells(host, batch);
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
            let left = self.ends[id.index()].kist_left;
            if left >= CELL_COST {
                if !self.flush_one_cell(id) {
                    self.ends[id.index()].scheduler = SchedulerState::WaitingForCells;
                    next = self.pop_pending(host);
                    continue;
                }
                let end = &mut self.ends[id.index()];
                end.kist_left = left - CELL_COST;
                // What is left holds for this run alone: the outbuf is longer.
                self.net.tell_again(end.socket);
                self.unblock_writing(id);
            }
            let end = &mut self.ends[id.index()];
            if !end.surely_has_cells() && end.queued_cells() == 0 {
                end.scheduler = SchedulerState::WaitingForCells;
            } else if end.kist_left >= CELL_COST {
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

    /// What the channel may write in this run (`update_socket_info`); as long as TCP has no news and the outbuf is as it was, what it might before.
    fn update_limit(&mut self, id: EndId, limit: Option<SocketLimit>) {
        let end = &self.ends[id.index()];
        let left = if let Some(limit) = limit {
            let left = |info: &TcpInfo| limit.room(info).saturating_sub(u64::from(end.outbuf.len()));
            let Some(info) = self.net.news(end.socket) else {
                debug_assert_eq!(
                    u64::from(end.kist_left),
                    left(&self.net.info(end.socket)).min(u64::from(u32::MAX)),
                    "TCP has news, or the outbuf is another, and nobody was told"
                );
                return;
            };
            left(&info)
        } else {
            self.writeable_cells(id) * u64::from(CELL_COST)
        };
        // Four gigabytes in a run are no limit.
        self.ends[id.index()].kist_left = u32::try_from(left).unwrap_or(u32::MAX);
    }

    /// Fetches what these pending channels will need for their limits: one step for all of them before the next, which goes by what the one before has
    /// fetched.
    ///
    /// A channel that waits for an acknowledgement has no news for many runs, and where segments get lost most wait. Neither their sockets nor their circuits are looked at.
    fn prefetch_sockets(&self, host: HostId, batch: Range<usize>) {
        let ends = || self.nodes[host.index()].pending[batch.clone()].iter().map(|id| &self.ends[id.index()]);
        for end in ends() {
            prefetch(end, size_of::<ChannelEnd>());
        }
        for end in ends() {
            let may_write = self.may_write(end);
            if may_write {
                self.net.prefetch_socket(end.socket, 1);
            }
            if let Some(circuits) = end.circuits.as_deref()
                && (may_write || !end.surely_has_cells())
            {
                prefetch(circuits, size_of::<Circuits>());
            }
        }
        for step in [2, 3] {
            for end in ends().filter(|end| self.may_write(end)) {
                self.net.prefetch_socket(end.socket, step);
            }
        }
    }

    /// Fetches the first cell that each of these channels would send, if it may send one.
    fn prefetch_cells(&self, host: HostId, batch: Range<usize>) {
        let sides = || {
            let ends = self.nodes[host.index()].pending[batch.clone()].iter().map(|id| &self.ends[id.index()]);
            ends.filter(|end| end.kist_left >= CELL_COST).filter_map(|end| self.foreseen(end))
        };
        for side in sides() {
            prefetch(side, size_of::<Side>());
        }
        for side in sides() {
            self.cells.prefetch(&side.queue);
        }
    }

    /// Whether the run may move a cell of this channel, as far as can be told without a look at its socket.
    fn may_write(&self, end: &ChannelEnd) -> bool {
        self.net.has_news(end.socket) || end.kist_left >= CELL_COST
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
