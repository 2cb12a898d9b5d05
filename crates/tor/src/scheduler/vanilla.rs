//! Vanilla (`core/or/scheduler_vanilla.c`): each pending channel in turn fills its outbuf; the kernel takes what it can.

use crate::CELL_BYTES;
use crate::channel::SchedulerState;
use crate::world::World;
use onionlab_engine::HostId;

impl World {
    pub(super) fn run_vanilla(&mut self, host: HostId) {
        let mut touched = Vec::new();
        while let Some(id) = self.pop_pending(host) {
            let high = self.settings.outbuf_high.get();
            // `channel_tls_num_cells_writeable_method`
            let room = high.saturating_sub(u64::from(self.ends[id.index()].outbuf.len())).div_ceil(u64::from(CELL_BYTES));
            let mut flushed = 0;
            while flushed < room && self.flush_one_cell(id) {
                flushed += 1;
            }
            let left = self.ends[id.index()].queued_cells() > 0;
            let full = u64::from(self.ends[id.index()].outbuf.len()) >= high;
            // Cells that are left mean that the outbuf is full: `connection_or_flushed_some` wakes the channel up.
            self.ends[id.index()].scheduler =
                if left && full { SchedulerState::WaitingToWrite } else { SchedulerState::WaitingForCells };
            if flushed > 0 {
                touched.push(id);
            }
        }
        for id in touched {
            self.watch_channel_writing(id);
        }
    }
}
