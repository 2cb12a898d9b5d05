//! A relay's computing: one main thread that everything passes, and worker threads for onion handshakes (`core/mainloop/cpuworker.c`).
//!
//! The main thread pays for each cell that it takes in, from a channel or as DATA from a server: one figure for reading, decryption, queue, scheduler and
//! writing, as it was measured for whole tor processes (`docs/results/tor-cpu.md`). It pays callback by callback: a read callback
//! fixes what it takes when its turn comes, and its effects happen when the time for these cells is over. Meanwhile the
//! kernel goes on (it acknowledges, and its buffers fill), and what becomes ready waits for the next pass. The scheduler and the
//! writes at the end of a pass cost nothing more. A client's and a server's computing takes no time.

use crate::cell::CELL_BYTES;
use crate::channel::Opening;
use crate::circuit::Place;
use crate::event_loop::{Connection, Operation, Passes};
use crate::ids::{EndId, StreamId};
use crate::node::Role;
use crate::world::{Event, SocketUse, World};
use onionlab_engine::HostId;
use onionlab_net::{SocketId, tcp::Effects};
use onionlab_quantities::{SimDuration, SimTime};

/// What computing costs at a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    /// Main thread, for each cell that it takes in.
    pub per_cell: SimDuration,
    /// A worker thread, for each onion handshake with ntor (CREATE2).
    pub per_handshake: SimDuration,
    /// The same with TAP (CREATE).
    pub per_tap: SimDuration,
    /// Worker threads, at least 1.
    pub handshake_threads: u32,
    /// By which the expected delay of those that wait is divided: the cores, or in 0.4.9 the threads (`have_room_for_onionskin`).
    pub cores: u32,
    /// Handshakes that they take in hand; more wait in tor's own queue (`max_pending_tasks`).
    pub handshakes_in_hand: u32,
}

/// What the main thread does until its next event.
#[derive(Debug, Clone, Copy)]
struct Work {
    socket: SocketId,
    effects: Effects,
    /// Bytes that the read callback takes from the kernel.
    bytes: u64,
}

/// The main thread of one relay.
#[derive(Debug, Default)]
pub(crate) struct MainThread {
    pub passes: Passes,
    work: Option<Work>,
    until: SimTime,
    /// It is free, and has been told that there is something to do.
    pub woken: bool,
    /// Nanoseconds that were paid since the start, those of the present work included.
    paid: u64,
}

impl MainThread {
    /// The socket was closed: what is being done for it has no effect any more.
    pub fn forget(&mut self, socket: SocketId) {
        if let Some(work) = &mut self.work
            && work.socket == socket
        {
            work.effects = Effects::NONE;
        }
    }

    /// Whether it can begin with something now.
    pub fn is_free(&self) -> bool {
        self.work.is_none()
    }

    /// Nanoseconds for which it was busy until `now`, since the start.
    pub fn busy(&self, now: SimTime) -> u64 {
        self.paid - self.until.saturating_since(now).as_nanos()
    }
}

impl World {
    /// The main thread is through with what it did: that takes effect, and it goes on.
    pub(crate) fn work_done(&mut self, host: HostId) {
        let Some(work) = self.nodes[host.index()].main_thread.as_mut().and_then(|thread| thread.work.take()) else { return };
        if !work.effects.is_empty() {
            self.serve(work.socket, work.effects, work.bytes);
        }
        self.work(host);
    }

    /// The main thread goes through its passes until something takes time, or nothing is left.
    pub(crate) fn work(&mut self, host: HostId) {
        let now = self.queue.now();
        loop {
            let node = &mut self.nodes[host.index()];
            let Some(thread) = &mut node.main_thread else { return };
            thread.woken = false;
            if thread.work.is_some() {
                return;
            }
            if let Some((socket, effects)) = self.event_loop.next_of(&mut thread.passes) {
                let (cells, bytes) = self.taken_in(socket, effects);
                let cost = self.settings.cpu.map_or(SimDuration::ZERO, |cpu| cpu.per_cell) * cells;
                if cost == SimDuration::ZERO {
                    self.serve(socket, effects, bytes);
                } else if let Some(thread) = &mut self.nodes[host.index()].main_thread {
                    thread.work = Some(Work { socket, effects, bytes });
                    thread.until = now + cost;
                    thread.paid += cost.as_nanos();
                    self.queue.schedule(now + cost, host, Event::WorkDone);
                }
            } else if node.activated {
                self.run_scheduler(host);
            } else if !self.take_answers(host) && !self.begin_pass_of(host) {
                return;
            }
        }
    }

    pub(crate) fn begin_pass_of(&mut self, host: HostId) -> bool {
        self.nodes[host.index()].main_thread.as_mut().is_some_and(|thread| thread.passes.begin())
    }

    /// What the callbacks of this socket will take in: cells, and bytes from the kernel.
    fn taken_in(&mut self, socket: SocketId, effects: Effects) -> (u64, u64) {
        match self.sockets[socket.index()] {
            SocketUse::Channel(end) if effects.has(Effects::READABLE) && !effects.has(Effects::RESET | Effects::PEER_CLOSED) => {
                self.cells_of_read(end)
            }
            SocketUse::Exit(stream) if !effects.has(Effects::CONNECTED) => self.cells_of_edge_read(stream),
            _ => (0, u64::MAX),
        }
    }

    fn cells_of_read(&mut self, id: EndId) -> (u64, u64) {
        let end = &self.ends[id.index()];
        let (host, socket) = (end.host, end.socket);
        if end.opening != Opening::Open || end.read_blocked {
            return (0, u64::MAX);
        }
        let Some(share) = self.share(host, Connection::Channel, Operation::Read) else { return (0, u64::MAX) };
        let reach = self.reach_of_read(id, self.net.readable(socket), share);
        (u64::from((u32::from(self.ends[id.index()].plaintext_read) + reach.plaintext) / CELL_BYTES), reach.bytes)
    }

    fn cells_of_edge_read(&mut self, id: StreamId) -> (u64, u64) {
        let socket = self.streams[id.index()].socket;
        let now = self.queue.now();
        let tokens = self.streams[id.index()].end(Place::Exit).tokens(now).map_or(u64::MAX, |tokens| tokens.max(0) as u64);
        let readable = self.net.readable(socket).min(tokens);
        let exit = self.net.host(socket);
        if readable == 0 || !self.is_watched_for_reading(id) {
            return (0, u64::MAX);
        }
        let Some(share) = self.share(exit, Connection::Edge, Operation::Read) else { return (0, u64::MAX) };
        let bytes = readable.min(share);
        (bytes.div_ceil(self.cell_payload(self.streams[id.index()].circuit)), bytes)
    }

    /// Gives every relay a main thread and workers, if computing costs anything.
    pub(crate) fn equip_relays(&mut self) {
        let Some(cpu) = self.settings.cpu else { return };
        for node in &mut self.nodes {
            if matches!(node.role, Role::Relay { .. }) {
                node.main_thread = Some(Box::default());
                node.workers = Some(Box::new(crate::handshakes::Workers::new(cpu)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench_relay::Bench;
    use crate::ids::CircuitId;
    use crate::settings::{ChannelScheduler, Scheduling, Settings};
    use crate::test_world::at;
    use onionlab_net::tcp::TcpConfig;
    use onionlab_quantities::{RandomStream, Seed};

    const COST: SimDuration = SimDuration::from_millis(1);
    const OTHERS: u32 = 300;
    const BATCH: usize = 3000;
    const BATCHES: usize = 25;

    /// Relays whose main thread takes a millisecond for each cell, without KIST's runs between.
    fn costly() -> Settings {
        let cpu = Cpu {
            per_cell: COST,
            per_handshake: SimDuration::ZERO,
            per_tap: SimDuration::ZERO,
            handshake_threads: 1,
            cores: 1,
            handshakes_in_hand: 1,
        };
        let scheduling = Scheduling { channel_scheduler: ChannelScheduler::Vanilla, ..Scheduling::default() };
        Settings { cpu: Some(cpu), scheduling, ..Settings::default() }
    }

    /// Cells that are at the relay, served or waiting, when another comes: mean and its standard error, by batches. Cells come one at a time, each over one of
    /// many channels, at exponential distances; each costs a millisecond.
    fn found_by_arrivals(load: f64) -> (f64, f64) {
        let mut bench = Bench::with_tcp(costly(), OTHERS, TcpConfig { nagle: false, ..TcpConfig::linux() });
        let circuits: Vec<_> = (0..OTHERS as usize).map(|channel| bench.incoming_circuit(channel)).collect();
        let draws = RandomStream::new(Seed(1), "test", "arrivals");
        let count = (BATCHES + 1) * BATCH;
        let mut at = SimTime::from_nanos(2_000_000_000);
        let mut sent: Vec<SimTime> = Vec::with_capacity(count);
        for index in 0..count {
            at += SimDuration::from_secs_f64_rounded(draws.at(2 * index as u64).exponential(COST.as_secs_f64() / load));
            sent.push(at);
        }
        // A cell arrives a millisecond after it was sent; the wire's own time is below a microsecond.
        let arrivals: Vec<SimTime> = sent.iter().map(|&time| time + SimDuration::from_millis(1)).collect();
        let (mut next, mut found) = (0, Vec::with_capacity(count));
        for (earlier, &arrival) in arrivals.iter().enumerate() {
            while next < count && sent[next] < arrival {
                bench.advance_to(sent[next]);
                let channel = draws.at(2 * next as u64 + 1).below(u64::from(OTHERS)) as usize;
                bench.queue(circuits[channel], 1);
                bench.world.settle();
                next += 1;
            }
            bench.advance_to(arrival);
            let left: u32 = circuits.iter().map(|circuit| bench.world.circuits[circuit.index()].live_cells - 1).sum();
            let on_the_way = next - earlier;
            found.push(f64::from(left) - on_the_way as f64);
        }
        let means: Vec<f64> = found[BATCH..].chunks(BATCH).map(|batch| batch.iter().sum::<f64>() / BATCH as f64).collect();
        let mean = means.iter().sum::<f64>() / BATCHES as f64;
        let variance = means.iter().map(|batch| (batch - mean).powi(2)).sum::<f64>() / (BATCHES - 1) as f64;
        (mean, (variance / BATCHES as f64).sqrt())
    }

    /// Two channels bring more than can be taken in, a share of 32 cells each in a pass. A cell that waits for a third leaves after the next pass, and not when they have nothing left.
    #[test]
    fn the_scheduler_runs_after_each_pass_of_a_busy_relay() {
        let mut bench = Bench::new(costly(), 3);
        let (incoming, outgoing) = ([0, 1].map(|channel| bench.incoming_circuit(channel)), bench.circuit(2));
        let left = |bench: &Bench, circuit: CircuitId| bench.world.circuits[circuit.index()].live_cells - 1;
        for circuit in incoming {
            bench.queue(circuit, 400);
        }
        bench.world.settle();
        // By now more than a share waits on both.
        bench.advance_to(at(1200));
        bench.queue(outgoing, 1);
        bench.world.settle();
        // The scheduler runs after this pass, the outbuf is written in the next.
        bench.advance_to(at(1200 + 3 * 64));
        assert!(incoming.iter().all(|&circuit| left(&bench, circuit) > 100), "both have more");
        assert_eq!(left(&bench, outgoing), 0);
    }

    /// Pollaczek and Khinchine for constant service (M/D/1): at a load of r the cells there are r + r^2 / (2 (1 - r)) on average, and so many does a
    /// Poisson stream's next find. By Little's law that is the cells' time at the relay too, in costs, times r.
    #[test]
    fn poisson_arrivals_wait_as_pollaczek_and_khinchine_say() {
        for load in [0.3, 0.6, 0.8] {
            let expected = load + load * load / (2.0 * (1.0 - load));
            let (mean, error) = found_by_arrivals(load);
            assert!(error < 0.05 * expected, "the test says something at a load of {load}: {mean} +- {error}");
            assert!((mean - expected).abs() < 3.5 * error, "at a load of {load}: {mean} +- {error}, formula {expected}");
        }
    }
}
