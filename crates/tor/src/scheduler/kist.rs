//! KIST (`core/or/scheduler_kist.c`; Jansen et al., "Never Been KIST", USENIX Security 2014): cells leave tor only when TCP will send them soon.

use crate::CELL_BYTES;
use crate::channel::SchedulerState;
use crate::ids::EndId;
use crate::world::World;
use onionlab_engine::HostId;

/// What KIST reckons for a cell: the cell and `TLS_PER_CELL_OVERHEAD`.
const CELL_COST: u64 = CELL_BYTES as u64 + 29;

/// An outbuf of more than eight cells is written out when the run turns to another channel.
const FLUSH_ABOVE: u32 = 8 * CELL_BYTES;

impl World {
    pub(super) fn run_kist(&mut self, host: HostId, factor: f64) {
        for index in 0..self.nodes[host.index()].pending.len() {
            let id = self.nodes[host.index()].pending[index];
            self.ends[id.index()].kist_written = 0;
            self.ends[id.index()].kist_limit = self.kist_limit(id, factor);
        }
        let mut aside = std::mem::take(&mut self.aside);
        let mut touched = Vec::new();
        let mut previous: Option<EndId> = None;
        while let Some(id) = self.pop_pending(host) {
            if let Some(previous) = previous
                && previous != id
                && self.ends[previous.index()].outbuf.len() > FLUSH_ABOVE
            {
                self.write_channel(previous);
            }
            previous = Some(id);
            let can_write = |end: &crate::channel::ChannelEnd| end.kist_written + CELL_COST <= end.kist_limit;
            let mut flushed = true;
            if can_write(&self.ends[id.index()]) {
                if self.ends[id.index()].kist_written == 0 {
                    touched.push(id);
                }
                flushed = self.flush_one_cell(id);
                self.ends[id.index()].kist_written += CELL_COST;
            }
            let more = flushed && self.ends[id.index()].queued_cells() > 0;
            if !more {
                self.ends[id.index()].scheduler = SchedulerState::WaitingForCells;
            } else if can_write(&self.ends[id.index()]) {
                super::heap::push(&mut self.nodes[host.index()].pending, id, |a, b| super::compare(&self.ends, a, b));
            } else {
                aside.push(id);
            }
        }
        for id in touched {
            if self.is_open(id) && self.ends[id.index()].outbuf.len() > 0 {
                self.write_channel(id);
            }
        }
        for id in aside.drain(..) {
            super::heap::push(&mut self.nodes[host.index()].pending, id, |a, b| super::compare(&self.ends, a, b));
        }
        self.aside = aside;
    }

    /// `update_socket_info_impl`: what TCP can send at once, and `factor` congestion windows more to wait in the kernel, less what waits already.
    fn kist_limit(&self, id: EndId, factor: f64) -> u64 {
        let end = &self.ends[id.index()];
        let info = self.net.info(end.socket);
        let mss = i64::from(info.mss);
        let space = (i64::from(info.cwnd_segments) - i64::from(info.unacked_segments)).max(0) * mss;
        let window = f64::from(info.cwnd_segments) * f64::from(info.mss) * factor;
        let extra = window as i64 - info.notsent_bytes as i64 - i64::from(end.outbuf.len());
        (space + extra).max(0) as u64
    }
}
