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
    /// A worker thread, for each onion handshake (CREATE2).
    pub per_handshake: SimDuration,
    /// Worker threads, at least 1.
    pub handshake_threads: u32,
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
        (u64::from((self.ends[id.index()].plaintext_read + reach.plaintext) / CELL_BYTES), reach.bytes)
    }

    fn cells_of_edge_read(&mut self, id: StreamId) -> (u64, u64) {
        let socket = self.streams[id.index()].socket;
        let now = self.queue.now();
        let tokens = self.streams[id.index()].end(Place::Exit).tokens(now).map_or(u64::MAX, |tokens| tokens.max(0) as u64);
        let readable = self.net.readable(socket).min(tokens);
        let exit = self.net.host(socket);
        if readable == 0 || !self.may_read(id, Place::Exit) {
            return (0, u64::MAX);
        }
        let Some(share) = self.share(exit, Connection::Edge, Operation::Read) else { return (0, u64::MAX) };
        let bytes = readable.min(share);
        (bytes.div_ceil(u64::from(self.settings.cell_payload)), bytes)
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
