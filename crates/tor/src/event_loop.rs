//! Passes of the event loop, as libevent runs them for tor (`event_base_loop`, `core/mainloop/connection.c`).
//!
//! libevent asks the kernel which sockets are ready, serves each of them once, and asks again: level-triggered, without priorities. Being served
//! means one write callback and one read callback, in this order, since the write event was armed last and libevent calls the latest first.
//! A callback moves a share, at most 32 cells, and processes every whole cell inline; a socket that is still ready
//! is served again in the next pass, after all others. What a callback activates, the channel scheduler, runs
//! later in the same pass; what it makes ready, a stream that may go on, waits for the next.
//!
//! As long as computing takes no time, all passes that an event causes fall into its instant, in this order. The kernel goes first: a program wakes up
//! when all has happened that happens to its host in this instant, packets and timers, and finds every socket ready that has become so. One that is alone has
//! its callbacks at once, several make up a pass; the queue holds what waits for a pass, each socket once. Where computing takes
//! time (`cpu.rs`), each relay has a queue of its own.

use crate::bucket;
use crate::channel::Opening;
use crate::circuit::Place;
use crate::hash_order;
use crate::ids::{EndId, StreamId};
use crate::records::ChannelClose;
use crate::settings::Epoll;
use crate::traffic::QueueId;
use crate::world::{SocketUse, World};
use crate::{CELL_BYTES, RELAY_PAYLOAD_SIZE_MAX};
use onionlab_engine::HostId;
use onionlab_net::{SocketId, tcp::Effects};
use std::collections::VecDeque;

/// What an operation does: which of a node's buckets it draws on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Write,
}

/// The kinds of connections, which differ in their unit of data and in the buckets on which they draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Connection {
    /// A channel: cells of 514 bytes.
    Channel,
    /// An exit's connection to a server: payloads of 498 bytes, whatever a DATA cell holds, so that 32 make the 15,936
    /// bytes of a read.
    Edge,
}

impl Connection {
    pub const fn unit(self) -> u64 {
        match self {
            Self::Channel => CELL_BYTES as u64,
            Self::Edge => RELAY_PAYLOAD_SIZE_MAX as u64,
        }
    }
}

/// Sockets that wait for their callbacks.
#[derive(Debug, Default)]
pub(crate) struct Passes {
    /// First those of the pass that is going on, then those of the next.
    ready: VecDeque<SocketId>,
    /// How many of them belong to the pass that is going on.
    in_pass: usize,
}

impl Passes {
    /// Begins the next pass; false if no socket is ready.
    pub fn begin(&mut self) -> bool {
        self.in_pass = self.ready.len();
        self.in_pass > 0
    }
}

/// What the event loops have still to do.
#[derive(Debug, Default)]
pub(crate) struct EventLoop {
    /// What waits at nodes whose computing takes no time: all in this instant.
    passes: Passes,
    /// What each socket is ready for; empty: it does not wait.
    effects: Vec<Effects>,
    /// Nodes whose computing takes no time and whose scheduler runs at the end of this pass.
    activated: VecDeque<HostId>,
    /// Nodes whose main thread is free and has something to do.
    woken: VecDeque<HostId>,
    /// What comes when nothing else is left to do.
    later: VecDeque<Later>,
}

/// What waits until no socket is ready and no scheduler is to run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Later {
    /// The client's program at this stream may be read.
    ReadProgram(StreamId),
    /// The program behind an onion service may be read at this stream.
    ReadService(StreamId),
    /// The circuit for which this channel is there may be gone.
    Part(EndId),
    /// A circuit may be on the wrong one of two channels.
    Move(QueueId),
}

impl EventLoop {
    /// The client's program at this stream will be read in the next pass.
    pub fn watch_program(&mut self, stream: StreamId) {
        self.later.push_back(Later::ReadProgram(stream));
    }

    /// The program behind an onion service will be read at this stream in the next pass.
    pub fn watch_service(&mut self, stream: StreamId) {
        self.later.push_back(Later::ReadService(stream));
    }

    /// It will be seen whether this queue of a circuit is on the right channel.
    pub fn may_move(&mut self, queue: QueueId) {
        self.later.push_back(Later::Move(queue));
    }

    /// It will be seen whether this channel is still needed.
    pub fn may_part(&mut self, end: EndId) {
        self.later.push_back(Later::Part(end));
    }

    /// Notes what the socket is ready for; true if it did not wait yet.
    fn note(&mut self, socket: SocketId, effects: Effects) -> bool {
        if self.effects.len() <= socket.index() {
            self.effects.resize(socket.index() + 1, Effects::NONE);
        }
        let waiting = &mut self.effects[socket.index()];
        let first = waiting.is_empty();
        *waiting |= effects;
        first
    }

    /// The next socket of this pass, and what it is ready for.
    pub fn next_of(&mut self, passes: &mut Passes) -> Option<(SocketId, Effects)> {
        next_of(&mut self.effects, passes)
    }

    /// The sockets that are ready, in the order in which they will be served.
    #[cfg(test)]
    pub fn ready(&self) -> Vec<SocketId> {
        self.passes.ready.iter().copied().collect()
    }

    fn next_of_pass(&mut self) -> Option<(SocketId, Effects)> {
        next_of(&mut self.effects, &mut self.passes)
    }
}

fn next_of(effects: &mut [Effects], passes: &mut Passes) -> Option<(SocketId, Effects)> {
    while passes.in_pass > 0 {
        passes.in_pass -= 1;
        let socket = passes.ready.pop_front()?;
        let effects = std::mem::take(&mut effects[socket.index()]);
        if !effects.is_empty() {
            return Some((socket, effects));
        }
    }
    None
}

impl World {
    /// Runs passes until no socket is ready any more: everything that follows in the same instant.
    pub(crate) fn settle(&mut self) {
        self.wake_up();
        loop {
            if let Some(upcall) = self.net.next_upcall() {
                self.watch(upcall.socket, upcall.effects);
            } else if let Some((socket, effects)) = self.event_loop.next_of_pass() {
                self.serve(socket, effects, u64::MAX);
            } else if let Some(host) = self.event_loop.activated.pop_front() {
                self.run_scheduler(host);
            } else if let Some(host) = self.event_loop.woken.pop_front() {
                // It may have begun with something since it was told: then it begins its next pass itself, when this one is over.
                if self.nodes[host.index()].main_thread.as_ref().is_some_and(|thread| thread.is_free()) {
                    self.begin_pass_of(host);
                    self.work(host);
                }
            } else if self.event_loop.passes.begin() {
                self.order_pass();
            } else if !self.event_loop.later.is_empty() {
                self.do_later();
            } else {
                return;
            }
        }
    }

    #[inline(never)]
    fn do_later(&mut self) {
        match self.event_loop.later.pop_front() {
            Some(Later::ReadProgram(stream)) => self.read_program(stream),
            Some(Later::ReadService(stream)) => self.read_service(stream),
            Some(Later::Part(end)) => self.part(end),
            Some(Later::Move(queue)) => self.move_if_open(queue),
            None => {}
        }
    }

    /// The program wakes up and finds its sockets ready: a single one is served at once, several make up a pass.
    fn wake_up(&mut self) {
        let Some(first) = self.net.next_upcall() else { return };
        // Before what waited behind holes is read.
        if self.net.has_filled() {
            self.count_held();
        }
        let second = self.net.next_upcall();
        let computes = self.nodes[self.net.host(first.socket).index()].main_thread.is_some();
        if second.is_none() && !computes {
            return self.serve(first.socket, first.effects, u64::MAX);
        }
        for upcall in std::iter::once(first).chain(second) {
            self.watch(upcall.socket, upcall.effects);
        }
        while let Some(upcall) = self.net.next_upcall() {
            self.watch(upcall.socket, upcall.effects);
        }
        self.event_loop.passes.begin();
        self.order_pass();
    }

    /// Shadow says what is ready in the order of its hash table (`epoll_getEvents`), in each pass anew. Here so far as nodes have a limit, and with it descriptors.
    fn order_pass(&mut self) {
        if self.settings.epoll == Epoll::Shadow1_13 && self.event_loop.passes.in_pass > 1 {
            let mut passes = std::mem::take(&mut self.event_loop.passes);
            self.order(&mut passes);
            self.event_loop.passes = passes;
        }
    }

    fn order(&self, passes: &mut Passes) {
        let in_table = |(place, &socket): (usize, &SocketId)| {
            let host = self.net.host(socket);
            let descriptor = self.nodes[host.index()].buckets.as_ref()?.connections.descriptor(socket)?;
            // What nobody watches for what has happened is in no table, and has no callback.
            let effects = self.event_loop.effects[socket.index()];
            self.is_called_back(self.sockets[socket.index()], effects).then_some((host.index(), place, descriptor))
        };
        let mut all: Vec<_> = passes.ready.iter().take(passes.in_pass).enumerate().filter_map(in_table).collect();
        all.sort_by_key(|&(host, ..)| host);
        for of_host in all.chunk_by(|a, b| a.0 == b.0).filter(|of_host| of_host.len() > 1) {
            let descriptors: Vec<u32> = of_host.iter().map(|&(.., descriptor)| descriptor).collect();
            let ready: Vec<SocketId> = of_host.iter().map(|&(_, place, _)| passes.ready[place]).collect();
            for (&(_, place, _), index) in of_host.iter().zip(hash_order::order(&descriptors)) {
                passes.ready[place] = ready[index];
            }
        }
    }

    /// The socket will be served in its node's next pass, for these effects too.
    pub(crate) fn watch(&mut self, socket: SocketId, effects: Effects) {
        if self.event_loop.note(socket, effects) {
            let host = self.net.host(socket);
            if let Some(thread) = &mut self.nodes[host.index()].main_thread {
                thread.passes.ready.push_back(socket);
                self.wake(host);
            } else {
                self.event_loop.passes.ready.push_back(socket);
            }
        }
    }

    /// The scheduler of `host` runs at the end of this pass (`mainloop_event_activate`).
    pub(crate) fn activate_scheduler(&mut self, host: HostId) {
        let node = &mut self.nodes[host.index()];
        node.activated = true;
        if node.main_thread.is_some() {
            self.wake(host);
        } else {
            self.event_loop.activated.push_back(host);
        }
    }

    /// A main thread that is free begins with what there is to do.
    pub(crate) fn wake(&mut self, host: HostId) {
        if let Some(thread) = &mut self.nodes[host.index()].main_thread
            && thread.is_free()
            && !thread.woken
        {
            thread.woken = true;
            self.event_loop.woken.push_back(host);
        }
    }

    /// The socket was closed: it is ready for nothing.
    pub(crate) fn forget_ready(&mut self, socket: SocketId) {
        if let Some(effects) = self.event_loop.effects.get_mut(socket.index()) {
            *effects = Effects::NONE;
        }
        if let Some(thread) = &mut self.nodes[self.net.host(socket).index()].main_thread {
            thread.forget(socket);
        }
    }

    /// The callbacks of one socket in one pass; a read takes `bytes` from the kernel at most.
    pub(crate) fn serve(&mut self, socket: SocketId, effects: Effects, bytes: u64) {
        let used = self.sockets.get(socket.index()).copied().unwrap_or(SocketUse::Nothing);
        let flushes = self.held_open > 0 && self.is_called_back(used, effects);
        match used {
            SocketUse::Nothing => {}
            SocketUse::Channel(end) => self.serve_channel(end, effects, bytes),
            SocketUse::Exit(stream) => self.serve_exit(stream, effects, bytes),
            SocketUse::Server(stream) => self.server_upcall(stream, effects),
        }
        if flushes {
            self.flush_held_open(self.net.host(socket));
        }
    }

    /// Whether tor watches the socket for what has happened, so that it has a callback.
    fn is_called_back(&self, used: SocketUse, effects: Effects) -> bool {
        let always = effects.has(Effects::CONNECTED | Effects::PEER_CLOSED | Effects::RESET);
        let (writes, reads) = match used {
            SocketUse::Nothing | SocketUse::Server(_) => return false,
            SocketUse::Channel(end) => {
                let end = &self.ends[end.index()];
                (!end.write_blocked && end.outbuf.len() > 0, !end.read_blocked)
            }
            SocketUse::Exit(stream) => {
                let waiting = self.streams[stream.index()].ends[Place::Exit as usize].outbuf > 0;
                (waiting && !self.streams[stream.index()].blocked.writing, self.is_watched_for_reading(stream))
            }
        };
        always || writes && effects.has(Effects::WRITABLE) || reads && effects.has(Effects::READABLE)
    }

    fn serve_channel(&mut self, end: EndId, effects: Effects, bytes: u64) {
        if effects.has(Effects::RESET | Effects::PEER_CLOSED) {
            self.close_channel(end, ChannelClose::Lost);
            return;
        }
        if effects.has(Effects::CONNECTED) {
            self.channel_connected(end);
        }
        if effects.has(Effects::WRITABLE) && !self.ends[end.index()].write_blocked {
            self.write_channel(end);
        }
        if effects.has(Effects::READABLE) {
            self.read_channel(end, bytes);
        }
    }

    /// This channel's socket has something to read, and will be read in the next pass.
    pub(crate) fn watch_channel_reading(&mut self, end: EndId) {
        self.watch(self.ends[end.index()].socket, Effects::READABLE);
    }

    /// If this channel has something to write and its socket takes it, it is written in the next pass. Otherwise the network says when there is room.
    pub(crate) fn watch_channel_writing(&mut self, id: EndId) {
        let end = &self.ends[id.index()];
        let any = end.outbuf.len() > 0 || matches!(end.opening, Opening::Sending { .. });
        if any && !end.write_blocked && self.net.is_writable(end.socket) {
            self.watch(end.socket, Effects::WRITABLE);
        }
    }

    /// The connection of this stream to its server is served in the next pass, as far as it is ready.
    pub(crate) fn watch_stream(&mut self, id: StreamId, effects: Effects) {
        self.watch(self.streams[id.index()].socket, effects);
    }

    /// The most bytes that one operation of a connection moves: 32 units, or what is its share of the node's buckets. None if they are empty:
    /// the connection is to wait.
    pub(crate) fn share(&mut self, host: HostId, connection: Connection, operation: Operation) -> Option<u64> {
        let now = self.queue.now();
        if self.nodes[host.index()].buckets.is_none() {
            return Some(32 * connection.unit());
        }
        self.is_called(host);
        let buckets = self.nodes[host.index()].buckets.as_mut()?;
        let share = bucket::share(connection.unit(), buckets.available(connection, operation, now));
        (share > 0).then_some(share)
    }

    /// Adds what is due to the node's buckets.
    pub(crate) fn refill_buckets(&mut self, host: HostId) {
        let now = self.queue.now();
        if let Some(buckets) = &mut self.nodes[host.index()].buckets {
            buckets.available(Connection::Edge, Operation::Read, now);
        }
    }

    /// Draws `bytes` from the node's buckets.
    pub(crate) fn charge(&mut self, host: HostId, connection: Connection, operation: Operation, bytes: u64) {
        if let Some(buckets) = &mut self.nodes[host.index()].buckets {
            buckets.charge(connection, operation, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench_relay::Bench;
    use crate::bucket::{Buckets, RefillClock};
    use crate::cell::{Cell, CellKind};
    use crate::circuit::Circuit;
    use crate::ids::{CircuitId, ClientId};
    use crate::node::RateLimit;
    use crate::records::CircuitSerial;
    use crate::{ChannelReads, Settings};
    use onionlab_quantities::{Bandwidth, Bytes, SimDuration, SimTime};

    /// A relay, and the other ends of its channels to two others; a circuit that is closed there: its cells are read and forgotten.
    fn relays() -> (World, [EndId; 2]) {
        relays_with(Settings::default())
    }

    fn relays_with(settings: Settings) -> (World, [EndId; 2]) {
        let Bench { mut world, ends } = Bench::new(settings, 2);
        let mut circuit = Circuit::new(ClientId::NONE, [Bench::RELAY; 4], world.circuit_edges(), SimTime::ZERO);
        circuit.hops.iter_mut().for_each(|hop| hop.closed = true);
        circuit.live_cells = 1000;
        world.circuits.push(circuit);
        world.serials.push(CircuitSerial(0));
        (world, [ends[0].peer(), ends[1].peer()])
    }

    /// `cells` cells reach the kernel at the other end, written `at_once` at a time.
    fn send(world: &mut World, end: EndId, cells: u32, at_once: u32) {
        for sent in 1..=cells {
            let mut cell = Cell::new(CellKind::Data, CircuitId(0));
            cell.set_arrives_at(1);
            world.sent.push_cell(&mut world.ends[end.index()].sent, cell);
            world.ends[end.index()].outbuf.append(CELL_BYTES);
            if sent % at_once == 0 || sent == cells {
                world.write_channel(end);
                world.settle();
            }
        }
    }

    /// Cells left in the kernel before two channels after each read of one, when all that was sent over them is there. Each channel is read once a pass.
    fn left_after_reads(channel_reads: ChannelReads, sent: [(u32, u32); 2]) -> Vec<[usize; 2]> {
        let (mut world, ends) = relays_with(Settings { channel_reads, ..Settings::default() });
        for end in ends {
            world.ends[end.peer().index()].read_blocked = true;
        }
        for (end, (cells, at_once)) in ends.into_iter().zip(sent) {
            send(&mut world, end, cells, at_once);
        }
        world.run_until(SimTime::from_nanos(2_000_000_000));
        let left = |world: &World| ends.map(|end| world.sent.cells_of(world.ends[end.index()].sent).len());
        assert_eq!(left(&world), sent.map(|(cells, _)| cells as usize), "nothing was read yet");
        for end in ends {
            world.ends[end.peer().index()].read_blocked = false;
            world.watch_channel_reading(end.peer());
        }
        let mut all = Vec::new();
        while world.event_loop.passes.begin() {
            while let Some((socket, effects)) = world.event_loop.next_of_pass() {
                world.serve(socket, effects, u64::MAX);
                all.push(left(&world));
            }
        }
        all
    }

    /// Five channels have descriptors 794 to 798, modulo 7 that is 3, 4, 5, 6, 0: the last is the first in Shadow's table. It is so again in the next pass, in which two of them are ready, though the other was so before.
    #[test]
    fn shadow_says_what_is_ready_in_the_order_of_its_table() {
        for (epoll, expected) in
            [(Epoll::Linux, [[0, 1, 2, 3, 4].as_slice(), &[1, 4]]), (Epoll::Shadow1_13, [&[4, 0, 1, 2, 3], &[4, 1]])]
        {
            let Bench { mut world, ends } = Bench::new(Settings { epoll, ..Settings::default() }, 5);
            let limit = RateLimit { rate: Bandwidth::from_bytes_per_sec(1000), burst: Bytes::new(1000), relayed: None };
            world.limit(Bench::RELAY, Buckets::new(limit, RefillClock::Exact));
            for (ready, expected) in [[0, 1, 2, 3, 4].as_slice(), &[1, 4]].into_iter().zip(expected) {
                for &index in ready {
                    world.watch_channel_reading(ends[index]);
                }
                assert!(world.event_loop.passes.begin());
                world.order_pass();
                let served: Vec<SocketId> =
                    std::iter::from_fn(|| world.event_loop.next_of_pass()).map(|(socket, _)| socket).collect();
                let expected: Vec<SocketId> =
                    expected.iter().map(|&index: &usize| world.ends[ends[index].index()].socket).collect();
                assert_eq!(served, expected, "{epoll:?}");
            }
        }
    }

    /// Of eight channels with descriptors 794 to 801 the third waits for tokens, and has no callback. The others just fit into a table of 8: modulo 7 they belong at 3, 4, 6, 0, 1, 2, 3, and the
    /// last, whose place is taken, goes on by 4, 6 and 1 to 5. With the third the table would have grown, and all would be in order.
    #[test]
    fn what_is_not_watched_is_in_no_table() {
        let Bench { mut world, ends } = Bench::new(Settings { epoll: Epoll::Shadow1_13, ..Settings::default() }, 8);
        let limit = RateLimit { rate: Bandwidth::from_bytes_per_sec(1000), burst: Bytes::new(1000), relayed: None };
        world.limit(Bench::RELAY, Buckets::new(limit, RefillClock::Exact));
        for &end in &ends {
            world.watch_channel_reading(end);
        }
        world.ends[ends[2].index()].read_blocked = true;
        assert!(world.event_loop.passes.begin());
        world.order_pass();
        let served: Vec<SocketId> = std::iter::from_fn(|| world.event_loop.next_of_pass()).map(|(socket, _)| socket).collect();
        let indices: Vec<usize> =
            served.iter().map(|socket| ends.iter().position(|end| world.ends[end.index()].socket == *socket).unwrap()).collect();
        // It keeps its turn, in which nothing happens.
        assert_eq!(indices, [4, 5, 2, 6, 0, 1, 7, 3]);
    }

    /// One has written nine cells at a time, as KIST does within a run, in records of 4,048 and 578
    /// bytes (and 3,598 for the last seven): four large and three small ones, 17,926 bytes, pass the share of 16,448 by the rest of the last, so that
    /// the first read gives 34 cells, and the second the other 36 (14,456 and 3,598 bytes). The other's records
    /// were cut at the share of its writes: its reads give 32 cells, 32 and 6.
    #[test]
    fn channels_with_more_than_a_share_take_turns() {
        let left = left_after_reads(ChannelReads::Share, [(70, 9), (70, 70)]);
        assert_eq!(left, [[36, 70], [36, 38], [0, 38], [0, 6], [0, 0]]);
    }

    /// Before tor 0.4.5. One has written nine cells at a time: records of 4,048 and 578 bytes twice, then 1,028, whose reads give 7 cells, 2, 7, 2 and 2. The
    /// other wrote all at once, in records of 4,048, 4,048 and 2,184 bytes: 7 cells, 8 and 5.
    #[test]
    fn channels_with_more_than_a_record_take_turns() {
        let left = left_after_reads(ChannelReads::Record, [(20, 9), (20, 20)]);
        assert_eq!(left, [[13, 20], [13, 13], [11, 13], [11, 5], [4, 5], [4, 0], [2, 0], [0, 0]]);
    }

    /// Two cells that come over two channels in one instant, both for a third, are both there when the scheduler runs. Neither waits for its next run.
    #[test]
    fn what_comes_in_one_instant_is_read_before_the_scheduler_runs() {
        let mut bench = Bench::new(Settings::default(), 3);
        for channel in 0..2 {
            let circuit = bench.circuit(2);
            let (end, world) = (bench.ends[channel], &mut bench.world);
            world.circuits[circuit.index()].hops[1].sides[0].end = end;
            world.circuits[circuit.index()].live_cells += 1;
            let mut cell = Cell::new(CellKind::Data, circuit).for_hop(3);
            cell.set_arrives_at(1);
            world.sent.push_cell(&mut world.ends[end.peer().index()].sent, cell);
            world.ends[end.peer().index()].outbuf.append(CELL_BYTES);
            world.write_channel(end.peer());
        }
        let arrival = bench.world.now() + SimDuration::from_millis(1);
        bench.world.run_until(arrival);
        assert_eq!(bench.world.cell_hops(), 2);
    }

    #[test]
    fn a_socket_is_served_once_a_pass_for_all_that_it_is_ready_for() {
        let (mut world, [a, b]) = relays();
        let [first, second] = [a, b].map(|end| world.ends[end.index()].socket);
        world.watch(first, Effects::READABLE);
        world.watch(second, Effects::READABLE);
        world.watch(first, Effects::WRITABLE);
        assert_eq!(world.event_loop.next_of_pass(), None, "no pass has begun");
        assert!(world.event_loop.passes.begin());
        assert_eq!(world.event_loop.next_of_pass(), Some((first, Effects::READABLE | Effects::WRITABLE)));
        world.watch(first, Effects::READABLE);
        assert_eq!(world.event_loop.next_of_pass(), Some((second, Effects::READABLE)));
        assert_eq!(world.event_loop.next_of_pass(), None, "what became ready meanwhile waits for the next pass");
        world.watch(second, Effects::READABLE);
        assert!(world.event_loop.passes.begin());
        world.forget_ready(first);
        assert_eq!(world.event_loop.next_of_pass(), Some((second, Effects::READABLE)));
        assert!(!world.event_loop.passes.begin());
    }
}
