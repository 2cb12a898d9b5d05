//! Which channel of a node sends next (`core/or/scheduler.c`): the states of a channel, the heap of those that can write and have cells, and
//! when the scheduler runs.

mod heap;
mod kist;
mod refill;
#[cfg(test)]
mod tests;
mod vanilla;

use crate::CELL_BYTES;
use crate::channel::{ChannelEnd, Opening, SchedulerState};
use crate::ids::EndId;
use crate::node::Role;
use crate::settings::ChannelScheduler;
use crate::world::{Event, World};
use onionlab_engine::HostId;
use onionlab_quantities::{SimDuration, SimTime};
use std::cmp::Ordering;

/// `scheduler_compare_channels`
fn compare(ends: &[ChannelEnd], a: EndId, b: EndId) -> Ordering {
    ends[a.index()].compare(&ends[b.index()])
}

impl World {
    /// `scheduler_channel_has_waiting_cells`
    pub(crate) fn has_waiting_cells(&mut self, id: EndId) {
        let end = &mut self.ends[id.index()];
        match end.scheduler {
            SchedulerState::WaitingForCells => self.becomes_pending(id),
            SchedulerState::Idle => end.scheduler = SchedulerState::WaitingToWrite,
            SchedulerState::WaitingToWrite | SchedulerState::Pending => {}
            SchedulerState::None => {
                self.prime(id);
            }
        }
    }

    /// `scheduler_channel_wants_writes`
    pub(crate) fn wants_writes(&mut self, id: EndId) {
        let end = &mut self.ends[id.index()];
        match end.scheduler {
            SchedulerState::WaitingToWrite => self.becomes_pending(id),
            SchedulerState::Idle => end.scheduler = SchedulerState::WaitingForCells,
            SchedulerState::WaitingForCells | SchedulerState::Pending => {}
            SchedulerState::None => self.refill(id),
        }
    }

    /// `scheduler_channel_doesnt_want_writes`: the channel is no longer open.
    pub(crate) fn doesnt_want_writes(&mut self, id: EndId) {
        let host = self.ends[id.index()].host;
        match self.ends[id.index()].scheduler {
            SchedulerState::None => return,
            SchedulerState::Pending => {
                heap::remove(&mut self.nodes[host.index()].pending, id, |a, b| compare(&self.ends, a, b));
            }
            _ => {}
        }
        self.ends[id.index()].scheduler = SchedulerState::Idle;
    }

    fn becomes_pending(&mut self, id: EndId) {
        let host = self.ends[id.index()].host;
        self.ends[id.index()].scheduler = SchedulerState::Pending;
        heap::push(&mut self.nodes[host.index()].pending, id, |a, b| compare(&self.ends, a, b));
        self.schedule(host);
    }

    fn pop_pending(&mut self, host: HostId) -> Option<EndId> {
        heap::pop(&mut self.nodes[host.index()].pending, |a, b| compare(&self.ends, a, b))
    }

    /// Decides when the scheduler runs: vanilla at once, KIST when its interval since the end of the last run is over, which may be at once.
    ///
    /// It is asked each time a channel becomes pending, and sets its timer anew each time (`kist_scheduler_schedule`: adding an event that is pending
    /// moves it). What has passed since the last run is rounded up to milliseconds, so that an interval of 2 ms is over as soon as the second one has begun.
    /// With a kernel's ticks ([`crate::Settings::kernel_tick`]) some nanoseconds have always passed, and the timer waits for a tick.
    fn schedule(&mut self, host: HostId) {
        let now = self.queue.now();
        let node = &mut self.nodes[host.index()];
        if node.pending.is_empty() || node.activated {
            return;
        }
        let due = match (self.settings.scheduling_at(node).channel_scheduler, node.last_run) {
            (
                ChannelScheduler::Kist { interval, client_interval, .. }
                | ChannelScheduler::KistLite { interval, client_interval },
                Some(last),
            ) => {
                let interval = if node.role == Role::Client { client_interval } else { interval };
                // Milliseconds that have begun since, the code rounds up (`monotime_diff_msec`, whose header says otherwise); the timer is set to the rest.
                let passed = SimDuration::from_millis(now.saturating_since(last).as_nanos().div_ceil(1_000_000));
                match node.clock {
                    _ if passed >= interval => now,
                    None => now + (interval - passed),
                    Some(clock) => {
                        let millisecond = SimDuration::from_millis(1);
                        let rest = interval.saturating_sub(passed.max(millisecond)).max(millisecond);
                        clock.goes_off(now, rest)
                    }
                }
            }
            _ => now,
        };
        if due <= now {
            self.activate_scheduler(host);
        } else {
            node.run_timer = Some(due);
            self.arm_timer(host, due);
        }
    }

    /// An event comes for the scheduler's timer at `due`, or before.
    fn arm_timer(&mut self, host: HostId, due: SimTime) {
        let node = &mut self.nodes[host.index()];
        if node.timer_event.is_none_or(|event| due < event) {
            node.timer_event = Some(due);
            self.queue.schedule(due, host, Event::RunScheduler);
        }
    }

    pub(crate) fn scheduler_timer(&mut self, host: HostId) {
        let now = self.queue.now();
        let node = &mut self.nodes[host.index()];
        if node.timer_event == Some(now) {
            node.timer_event = None;
        }
        match node.run_timer {
            Some(due) if due > now => self.arm_timer(host, due),
            Some(_) => {
                node.run_timer = None;
                if !node.pending.is_empty() && !node.activated {
                    self.activate_scheduler(host);
                }
            }
            None => {}
        }
    }

    pub(crate) fn run_scheduler(&mut self, host: HostId) {
        match self.settings.scheduling_at(&self.nodes[host.index()]).channel_scheduler {
            ChannelScheduler::Refill => unreachable!("no channel is ever pending"),
            ChannelScheduler::Vanilla => {
                self.nodes[host.index()].activated = false;
                self.run_vanilla(host);
            }
            ChannelScheduler::Kist { socket_buffer_factor, knows_unsent, .. } => {
                self.run_kist_once(host, Some(kist::SocketLimit { factor: socket_buffer_factor, knows_unsent }));
            }
            ChannelScheduler::KistLite { .. } => self.run_kist_once(host, None),
        }
    }

    fn run_kist_once(&mut self, host: HostId, limit: Option<kist::SocketLimit>) {
        self.run_kist(host, limit);
        let now = self.queue.now();
        let node = &mut self.nodes[host.index()];
        node.activated = false;
        node.last_run = Some(now);
        // An event that is served has no timer any more.
        node.run_timer = None;
        self.schedule(host);
    }

    /// Cells that the outbuf takes until it is full (`channel_tls_num_cells_writeable_method`).
    fn writeable_cells(&self, id: EndId) -> u64 {
        let end = &self.ends[id.index()];
        let high = self.settings.scheduling_at(&self.nodes[end.host.index()]).outbuf_high;
        let room = high.get().saturating_sub(u64::from(end.outbuf.len()));
        room.div_ceil(u64::from(CELL_BYTES))
    }

    fn is_open(&self, id: EndId) -> bool {
        self.ends[id.index()].opening == Opening::Open
    }
}
