//! Onion handshakes: a relay's worker threads and the queue before them (`core/mainloop/cpuworker.c`, `feature/relay/onion_queue.c`).
//!
//! CREATE2 goes to a pool of threads. Up to 64 for each core are in the pool's hands (one each in 0.2.4); the others wait in tor's own queue, which takes a
//! new one if fewer than 50 wait or if the threads are expected to be through within `MaxOnionQueueDelay`, and otherwise
//! closes its circuit. Who has waited for five seconds when another one joins is dropped too. The circuit's DESTROY tells the client.

use crate::cell::{Cell, CellKind};
use crate::cpu::Cpu;
use crate::queues::Direction;
use crate::records::CloseReason;
use crate::world::{Event, World};
use onionlab_engine::HostId;
use onionlab_quantities::SimDuration;
use std::collections::VecDeque;

/// With fewer waiting than this there is always room for one more (`have_room_for_onionskin`).
const ALWAYS_ROOM: usize = 50;
/// No more are queued when those that wait will take longer (`MaxOnionQueueDelay`).
const MOST_DELAY: SimDuration = SimDuration::from_millis(1750);
/// Who has waited so long is dropped, in tor's clock of whole seconds (`ONION_QUEUE_WAIT_CUTOFF_DEFAULT`).
const CUT_OFF_SECONDS: u64 = 5;
/// Until so many are done a handshake is assumed to take a millisecond (`estimated_usec_for_onionskins`).
const MEASURED_AFTER: u32 = 100;

/// The pool of one relay, and the queue before it.
#[derive(Debug)]
pub(crate) struct Workers {
    threads: u32,
    duration: SimDuration,
    in_hand_at_most: usize,
    /// With a thread each: all take equally long, so the first to begin is the first to end.
    running: VecDeque<Cell>,
    /// In the pool's hands, waiting for a thread.
    assigned: VecDeque<Cell>,
    /// Computed, until the main thread takes the answer.
    finished: VecDeque<Cell>,
    /// In tor's own queue, and since which second.
    waiting: VecDeque<(u64, Cell)>,
    done: u32,
}

impl Workers {
    pub fn new(cpu: Cpu) -> Self {
        Self {
            threads: cpu.handshake_threads,
            duration: cpu.per_handshake,
            in_hand_at_most: cpu.handshakes_in_hand as usize,
            running: VecDeque::new(),
            assigned: VecDeque::new(),
            finished: VecDeque::new(),
            waiting: VecDeque::new(),
            done: 0,
        }
    }

    fn in_hand(&self) -> usize {
        self.running.len() + self.assigned.len() + self.finished.len()
    }

    /// `have_room_for_onionskin`
    fn has_room(&self) -> bool {
        let each = if self.done < MEASURED_AFTER { SimDuration::from_millis(1) } else { self.duration };
        let micros = each.as_nanos() / 1000 * self.waiting.len() as u64 / u64::from(self.threads);
        self.waiting.len() < ALWAYS_ROOM || micros / 1000 <= MOST_DELAY.as_nanos() / 1_000_000
    }

    /// Cells that are here.
    pub fn cells(&self) -> usize {
        self.in_hand() + self.waiting.len()
    }
}

impl World {
    /// `assign_onionskin_to_cpuworker`: the circuit exists here, and its handshake is computed, now or later or never.
    pub(crate) fn compute_handshake(&mut self, host: HostId, cell: Cell) {
        let second = self.queue.now().as_nanos() / 1_000_000_000;
        let Some(workers) = self.nodes[host.index()].workers.as_mut().filter(|workers| workers.duration > SimDuration::ZERO)
        else {
            self.answer_handshake(cell);
            return;
        };
        if workers.in_hand() < workers.in_hand_at_most {
            workers.assigned.push_back(cell);
            self.start_handshakes(host);
            return;
        }
        if !workers.has_room() {
            self.refuse_handshake(cell);
            return;
        }
        workers.waiting.push_back((second, cell));
        while let Some(workers) = &mut self.nodes[host.index()].workers
            && let Some(&(since, old)) = workers.waiting.front()
            && second - since >= CUT_OFF_SECONDS
        {
            workers.waiting.pop_front();
            self.refuse_handshake(old);
        }
    }

    /// Gives work to threads that are free.
    fn start_handshakes(&mut self, host: HostId) {
        let now = self.queue.now();
        while let Some(workers) = &mut self.nodes[host.index()].workers
            && workers.running.len() < workers.threads as usize
            && let Some(cell) = workers.assigned.pop_front()
        {
            // `cpuworker_cancel_circ_handshake`: what was closed meanwhile is not computed.
            if self.circuits[cell.circuit.index()].hops[cell.arrives_at() as usize].closed {
                self.discard(cell);
                continue;
            }
            workers.running.push_back(cell);
            self.queue.schedule(now + workers.duration, host, Event::HandshakeDone);
        }
    }

    /// A worker thread is through: its answer waits for the main thread.
    pub(crate) fn handshake_done(&mut self, host: HostId) {
        let Some(workers) = &mut self.nodes[host.index()].workers else { return };
        workers.done += 1;
        workers.finished.extend(workers.running.pop_front());
        self.start_handshakes(host);
        self.wake(host);
    }

    /// `cpuworker_onion_handshake_replyfn` for all that are computed: CREATED2 joins the circuit's queue, and the pool gets what waits. False if there was nothing.
    pub(crate) fn take_answers(&mut self, host: HostId) -> bool {
        let mut any = false;
        while let Some(workers) = &mut self.nodes[host.index()].workers
            && let Some(cell) = workers.finished.pop_front()
        {
            any = true;
            if workers.in_hand() < workers.in_hand_at_most
                && let Some((_, next)) = workers.waiting.pop_front()
            {
                workers.assigned.push_back(next);
            }
            self.answer_handshake(cell);
            self.start_handshakes(host);
        }
        any
    }

    fn answer_handshake(&mut self, cell: Cell) {
        let (id, hop) = (cell.circuit, cell.arrives_at());
        if !self.circuits[id.index()].hops[hop as usize].closed {
            self.originate(hop, Direction::ToClient, Cell::new(CellKind::Created, id));
        }
        self.discard(cell);
    }

    fn refuse_handshake(&mut self, cell: Cell) {
        self.closes_because(cell.circuit, CloseReason::HandshakeQueue);
        self.close_at(cell.circuit, cell.arrives_at(), None);
        self.discard(cell);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::CircuitId;

    /// Two threads and handshakes of 100 ms: 50 that wait take 2.5 s, so a 51st is refused, while 49 always leave room for one more. Until a hundred are done
    /// each counts as a millisecond: 3,501 take 1,750 ms of two threads, rounded down, and 3,502 take more.
    #[test]
    fn the_queue_is_as_long_as_its_expected_delay_allows() {
        let cpu = Cpu {
            per_cell: SimDuration::ZERO,
            per_handshake: SimDuration::from_millis(100),
            handshake_threads: 2,
            handshakes_in_hand: 64,
        };
        for (done, waiting, room) in [(100, 49, true), (100, 50, false), (99, 50, true), (99, 3501, true), (99, 3502, false)] {
            let mut workers = Workers::new(cpu);
            workers.done = done;
            workers.waiting.extend((0..waiting).map(|_| (0, Cell::new(CellKind::Create, CircuitId(0)))));
            assert_eq!(workers.has_room(), room, "{done} done, {waiting} waiting");
        }
    }
}
