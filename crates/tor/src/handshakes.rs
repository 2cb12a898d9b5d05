//! Onion handshakes: their kinds, a relay's worker threads and the queues before them (`core/mainloop/cpuworker.c`, `feature/relay/onion_queue.c`).
//!
//! CREATE_FAST, with which clients of 0.2.4 made their first hop, is answered inline. The others go to a pool of threads. Up to 64 for each core are in the pool's hands
//! (one each in 0.2.4); the others wait in tor's own queues, one for each kind, which take a new one if fewer than 50 wait there or if the threads are
//! expected to be through within `MaxOnionQueueDelay` (1,750 ms); otherwise its circuit is closed. Who has waited for `onion_queue_wait_cutoff` (five seconds) when another one of the kind joins is
//! dropped too. The circuit's DESTROY tells the client. TAP gets at most two thirds of that delay, and one turn after ten (`NumNTorsPerTAP`) of ntor where both wait.

use crate::cell::{Cell, CellKind};
use crate::cpu::Cpu;
use crate::queues::Direction;
use crate::records::CloseReason;
use crate::world::{Event, World};
use onionlab_engine::HostId;
use onionlab_quantities::{SimDuration, SimTime};
use std::collections::VecDeque;

/// With fewer waiting than this there is always room for one more (`have_room_for_onionskin`).
const ALWAYS_ROOM: usize = 50;
/// Until so many are done a handshake is assumed to take a millisecond (`estimated_usec_for_onionskins`).
const MEASURED_AFTER: u32 = 100;

/// A kind of onion handshake that worker threads compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handshake {
    /// RSA and Diffie-Hellman with 1,024 bits, the first kind (CREATE).
    Tap,
    /// Curve25519 (CREATE2); ntor-v3, which differs in its hashing, counts as the same.
    Ntor,
}

/// Which handshakes circuits are built with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Handshakes {
    /// A client makes its first hop with CREATE_FAST (`FastFirstHopPK`, `usecreatefast`).
    pub fast_first_hop: bool,
    /// The other hops (`UseNTorHandshake`).
    pub kind: Handshake,
    /// Share of clients that use TAP there, whatever the others do: those of an older tor.
    pub tap_clients: f64,
    /// So many of ntor begin before one of TAP does, where both wait (`NumNTorsPerTAP`).
    pub ntors_per_tap: u32,
    /// No more are queued when those that wait will take longer, in whole milliseconds (`MaxOnionQueueDelay`).
    pub most_delay: SimDuration,
    /// Who has waited so long is dropped when another one comes, by a clock of whole seconds (`onion_queue_wait_cutoff`).
    pub cut_off: SimDuration,
}

impl Default for Handshakes {
    /// tor 0.4.9's code defaults.
    fn default() -> Self {
        Self {
            fast_first_hop: false,
            kind: Handshake::Ntor,
            tap_clients: 0.0,
            ntors_per_tap: 10,
            most_delay: SimDuration::from_millis(1750),
            cut_off: SimDuration::from_secs(5),
        }
    }
}

/// The pool of one relay, and the queue before it.
#[derive(Debug)]
pub(crate) struct Workers {
    threads: u32,
    /// By which the queues' expected delay is divided.
    cores: u32,
    /// By kind.
    duration: [SimDuration; 2],
    in_hand_at_most: usize,
    /// With a thread each, in the order in which they end.
    running: VecDeque<(SimTime, Handshake, Cell)>,
    /// In the pool's hands, waiting for a thread.
    assigned: VecDeque<(Handshake, Cell)>,
    /// Computed, until the main thread takes the answer.
    finished: VecDeque<Cell>,
    /// In tor's own queues, by kind, and since which second.
    waiting: [VecDeque<(u64, Cell)>; 2],
    /// By kind, as far as it matters.
    done: [u32; 2],
    /// Of ntor, since the last of TAP.
    ntors: u32,
}

impl Workers {
    pub fn new(cpu: Cpu) -> Self {
        Self {
            threads: cpu.handshake_threads,
            cores: cpu.cores,
            duration: [cpu.per_tap, cpu.per_handshake],
            in_hand_at_most: cpu.handshakes_in_hand as usize,
            running: VecDeque::new(),
            assigned: VecDeque::new(),
            finished: VecDeque::new(),
            waiting: [VecDeque::new(), VecDeque::new()],
            done: [0; 2],
            ntors: 0,
        }
    }

    fn in_hand(&self) -> usize {
        self.running.len() + self.assigned.len() + self.finished.len()
    }

    /// Microseconds in which all cores compute so many (`estimated_usec_for_onionskins`).
    fn expected(&self, kind: Handshake, count: usize) -> u64 {
        let of = kind as usize;
        let each = if self.done[of] < MEASURED_AFTER { SimDuration::from_millis(1) } else { self.duration[of] };
        each.as_nanos() / 1000 * count as u64 / u64::from(self.cores)
    }

    /// `have_room_for_onionskin`: what waits of this kind, and what of the other will be computed meanwhile.
    fn has_room(&self, kind: Handshake, of: &Handshakes) -> bool {
        let [taps, ntors] = [Handshake::Tap, Handshake::Ntor].map(|kind| self.waiting[kind as usize].len());
        let most = of.most_delay.as_nanos() / 1_000_000;
        let per_tap = of.ntors_per_tap as usize;
        match kind {
            _ if self.waiting[kind as usize].len() < ALWAYS_ROOM => true,
            Handshake::Ntor => {
                let between = self.expected(Handshake::Tap, taps.min(ntors / per_tap));
                (self.expected(Handshake::Ntor, ntors) + between) / 1000 <= most
            }
            Handshake::Tap => {
                let own = self.expected(Handshake::Tap, taps);
                let between = self.expected(Handshake::Ntor, ntors.min(taps * per_tap));
                (own + between) / 1000 <= most && own / 1000 <= most * 2 / 3
            }
        }
    }

    /// `onion_next_task`, `decide_next_handshake_type`
    fn next_waiting(&mut self, ntors_per_tap: u32) -> Option<(Handshake, Cell)> {
        let kind = match self.waiting.each_ref().map(VecDeque::is_empty) {
            [_, true] => Handshake::Tap,
            [true, false] => {
                self.ntors += u32::from(self.ntors <= ntors_per_tap);
                Handshake::Ntor
            }
            [false, false] => {
                self.ntors += 1;
                if self.ntors <= ntors_per_tap {
                    Handshake::Ntor
                } else {
                    self.ntors = 0;
                    Handshake::Tap
                }
            }
        };
        self.waiting[kind as usize].pop_front().map(|(_, cell)| (kind, cell))
    }

    /// Cells that are here.
    pub fn cells(&self) -> usize {
        self.in_hand() + self.waiting.iter().map(VecDeque::len).sum::<usize>()
    }
}

impl World {
    /// `assign_onionskin_to_cpuworker`: the circuit exists here, and its handshake is computed, now or later or never.
    pub(crate) fn compute_handshake(&mut self, host: HostId, cell: Cell) {
        let second = self.queue.now().as_nanos() / 1_000_000_000;
        let kind = self.handshake_of(cell);
        let Some((kind, workers)) = kind.zip(self.nodes[host.index()].workers.as_mut()) else {
            self.answer_handshake(cell);
            return;
        };
        if workers.duration[kind as usize] == SimDuration::ZERO {
            self.answer_handshake(cell);
            return;
        }
        if workers.in_hand() < workers.in_hand_at_most {
            workers.assigned.push_back((kind, cell));
            self.start_handshakes(host);
            return;
        }
        if !workers.has_room(kind, &self.settings.handshakes) {
            self.refuse_handshake(cell);
            return;
        }
        workers.waiting[kind as usize].push_back((second, cell));
        while let Some(workers) = &mut self.nodes[host.index()].workers
            && let Some(&(since, old)) = workers.waiting[kind as usize].front()
            && second - since >= self.settings.handshakes.cut_off.as_nanos() / 1_000_000_000
        {
            workers.waiting[kind as usize].pop_front();
            self.refuse_handshake(old);
        }
    }

    /// What a worker has to compute for this CREATE or CREATE2; none for CREATE_FAST.
    fn handshake_of(&self, cell: Cell) -> Option<Handshake> {
        let of = &self.settings.handshakes;
        if of.fast_first_hop && cell.arrives_at() == 1 {
            return None;
        }
        let client = self.circuits[cell.circuit.index()].client;
        let old = of.tap_clients > 0.0 && self.old_clients.at(u64::from(client.0)).chance(of.tap_clients);
        Some(if old { Handshake::Tap } else { of.kind })
    }

    /// Gives work to threads that are free.
    fn start_handshakes(&mut self, host: HostId) {
        let now = self.queue.now();
        while let Some(workers) = &mut self.nodes[host.index()].workers
            && workers.running.len() < workers.threads as usize
            && let Some((kind, cell)) = workers.assigned.pop_front()
        {
            // `cpuworker_cancel_circ_handshake`: what was closed meanwhile is not computed.
            if self.circuits[cell.circuit.index()].hops[cell.arrives_at() as usize].closed {
                self.discard(cell);
                continue;
            }
            let ends = now + workers.duration[kind as usize];
            let place = workers.running.partition_point(|&(other, ..)| other <= ends);
            workers.running.insert(place, (ends, kind, cell));
            self.queue.schedule(ends, host, Event::HandshakeDone);
        }
    }

    /// A worker thread is through: its answer waits for the main thread.
    pub(crate) fn handshake_done(&mut self, host: HostId) {
        let Some(workers) = &mut self.nodes[host.index()].workers else { return };
        if let Some((_, kind, cell)) = workers.running.pop_front() {
            workers.done[kind as usize] += 1;
            workers.finished.push_back(cell);
        }
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
            self.assign_waiting(host);
            self.answer_handshake(cell);
            self.start_handshakes(host);
        }
        any
    }

    /// `queue_pending_tasks`: the pool takes of what waits as many as it may have in hand. What is of a circuit that is closed is in no queue of tor's any more (`onion_pending_remove`).
    fn assign_waiting(&mut self, host: HostId) {
        while let Some(workers) = &mut self.nodes[host.index()].workers
            && workers.in_hand() < workers.in_hand_at_most
            && let Some((kind, cell)) = workers.next_waiting(self.settings.handshakes.ntors_per_tap)
        {
            if self.circuits[cell.circuit.index()].hops[cell.arrives_at() as usize].closed {
                self.discard(cell);
            } else {
                workers.assigned.push_back((kind, cell));
            }
        }
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

    fn workers(done: u32, taps: usize, ntors: usize) -> Workers {
        let mut workers = Workers::new(Cpu {
            per_cell: SimDuration::ZERO,
            per_handshake: SimDuration::from_millis(100),
            per_tap: SimDuration::from_millis(200),
            handshake_threads: 2,
            cores: 2,
            handshakes_in_hand: 64,
        });
        workers.done = [done; 2];
        for (kind, count) in [(Handshake::Tap, taps), (Handshake::Ntor, ntors)] {
            workers.waiting[kind as usize].extend((0..count).map(|_| (0, Cell::new(CellKind::Create, CircuitId(0)))));
        }
        workers
    }

    /// Two cores and ntor of 100 ms: 50 that wait take 2.5 s, so a 51st is refused, while 49 always leave room for one more. Until a hundred are done
    /// each counts as a millisecond: 3,501 take 1,750 ms of two cores, rounded down, and 3,502 take more. Forty of TAP that wait too will have four turns before
    /// 40 of ntor: none counts below 50, and of 3,480 of ntor with 40 of TAP 3,520 ms count.
    #[test]
    fn the_queue_is_as_long_as_its_expected_delay_allows() {
        for (done, taps, ntors, room) in [
            (100, 0, 49, true),
            (100, 0, 50, false),
            (99, 0, 50, true),
            (99, 0, 3501, true),
            (99, 0, 3502, false),
            (99, 40, 3461, true),
            (99, 40, 3462, false),
        ] {
            let got = workers(done, taps, ntors).has_room(Handshake::Ntor, &Handshakes::default());
            assert_eq!(got, room, "{done} done, {taps} and {ntors} waiting");
        }
    }

    /// Two thirds of 1,750 ms are 1,166 of two cores, 2,333 handshakes of a millisecond. What of ntor comes between counts, ten for each: with 1,000 of TAP all of
    /// 2,501 of ntor.
    #[test]
    fn tap_gets_two_thirds_of_the_delay() {
        for (taps, ntors, room) in [(49, 9999, true), (2333, 0, true), (2334, 0, false), (1000, 2501, true), (1000, 2502, false)]
        {
            let got = workers(99, taps, ntors).has_room(Handshake::Tap, &Handshakes::default());
            assert_eq!(got, room, "{taps} and {ntors} waiting");
        }
    }

    /// Where both wait, TAP has a turn after ten of ntor; what is alone goes.
    #[test]
    fn ten_of_ntor_go_before_one_of_tap() {
        let mut workers = workers(0, 3, 25);
        let mut order = String::new();
        while let Some((kind, _)) = workers.next_waiting(10) {
            order.push(if kind == Handshake::Tap { 'T' } else { 'n' });
        }
        assert_eq!(order, format!("{}T{}T{}T", "n".repeat(10), "n".repeat(10), "n".repeat(5)));
    }
}
