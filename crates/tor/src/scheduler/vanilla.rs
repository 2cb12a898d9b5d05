//! Vanilla (`core/or/scheduler_vanilla.c`): each pending channel in turn fills its outbuf; the kernel takes what it can.

use crate::channel::SchedulerState;
use crate::world::World;
use onionlab_engine::HostId;

impl World {
    pub(super) fn run_vanilla(&mut self, host: HostId) {
        let mut touched = Vec::new();
        while let Some(id) = self.pop_pending(host) {
            let room = self.writeable_cells(id);
            let mut flushed = 0;
            while flushed < room && self.flush_one_cell(id) {
                flushed += 1;
            }
            let left = self.ends[id.index()].queued_cells() > 0;
            // Cells that are left mean that the outbuf is full: `connection_or_flushed_some` wakes the channel up.
            self.ends[id.index()].scheduler = match (left, self.writeable_cells(id) > 0) {
                (true, false) => SchedulerState::WaitingToWrite,
                (false, false) => SchedulerState::Idle,
                (_, true) => SchedulerState::WaitingForCells,
            };
            if flushed > 0 {
                touched.push(id);
            }
        }
        for id in touched {
            self.start_writing(id);
        }
    }
}
