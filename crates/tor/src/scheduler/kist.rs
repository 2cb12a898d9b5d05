//! KIST (`core/or/scheduler_kist.c`; Jansen et al., "Never Been KIST", USENIX Security 2014): cells leave tor only when TCP will send them soon.
//!
//! KIST-lite has the same runs and the same order over all channels, but knows nothing of the kernel: a run may fill each outbuf.

use crate::CELL_BYTES;
use crate::channel::{ChannelEnd, Circuits, SchedulerState};
use crate::ids::EndId;
use crate::world::World;
use onionlab_engine::{HostId, prefetch};

/// What KIST reckons for a cell: the cell and `TLS_PER_CELL_OVERHEAD`.
const CELL_COST: u64 = CELL_BYTES as u64 + 29;

/// An outbuf of more than eight cells is written out when the run turns to another channel.
const FLUSH_ABOVE: u32 = 8 * CELL_BYTES;

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
        for index in 0..self.nodes[host.index()].pending.len() {
            let id = self.nodes[host.index()].pending[index];
            self.prefetch_pending(host, index);
            self.ends[id.index()].kist_written = 0;
            let limit = match limit {
                Some(limit) => self.kist_limit(id, limit),
                None => self.writeable_cells(id) * CELL_COST,
            };
            // Four gigabytes in a run are no limit.
            self.ends[id.index()].kist_limit = u32::try_from(limit).unwrap_or(u32::MAX);
        }
        let mut aside = std::mem::take(&mut self.aside);
        // Channels whose outbufs are to be written before the run ends (`outbuf_table`), in the order in which they came up.
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
            let can_write =
                |end: &crate::channel::ChannelEnd| u64::from(end.kist_written) + CELL_COST <= u64::from(end.kist_limit);
            if can_write(&self.ends[id.index()]) {
                if !self.flush_one_cell(id) {
                    self.ends[id.index()].scheduler = SchedulerState::WaitingForCells;
                    next = self.pop_pending(host);
                    continue;
                }
                self.ends[id.index()].kist_written += CELL_COST as u32;
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

    /// Fetches what the channels after the one at `index` will need for their limits and for the comparison of their circuits.
    fn prefetch_pending(&self, host: HostId, index: usize) {
        let pending = &self.nodes[host.index()].pending;
        if let Some(&id) = pending.get(index + 6) {
            prefetch(&self.ends[id.index()], size_of::<ChannelEnd>());
        }
        if let Some(&id) = pending.get(index + 4) {
            if let Some(circuits) = self.ends[id.index()].circuits.as_deref() {
                prefetch(circuits, size_of::<Circuits>());
            }
            self.net.prefetch_socket(self.ends[id.index()].socket, 1);
        }
        if let Some(&id) = pending.get(index + 2) {
            self.net.prefetch_socket(self.ends[id.index()].socket, 2);
        }
        if let Some(&id) = pending.get(index + 1) {
            self.net.prefetch_socket(self.ends[id.index()].socket, 3);
        }
    }

    /// `update_socket_info_impl`: what TCP can send at once, and some congestion windows more to wait in the kernel, less what waits already.
    fn kist_limit(&self, id: EndId, limit: SocketLimit) -> u64 {
        let end = &self.ends[id.index()];
        let info = self.net.info(end.socket);
        let mss = i64::from(info.mss);
        let space = (i64::from(info.cwnd_segments) - i64::from(info.unacked_segments)).max(0) * mss;
        let window = f64::from(info.cwnd_segments) * f64::from(info.mss) * limit.factor;
        let unsent = if limit.knows_unsent { info.notsent_bytes as i64 } else { 0 };
        let extra = window as i64 - unsent - i64::from(end.outbuf.len());
        (space + extra).max(0) as u64
    }
}
