//! Streams without tokens: those of the exit's limit, and those of a stream's own rate (`connection_read_bw_exhausted`, `connection_write_bw_exhausted`,
//! `reenable_blocked_connections_cb` in `core/mainloop/connection.c`).

use crate::bucket::RefillClock;
use crate::circuit::Place;
use crate::event_loop::Operation;
use crate::ids::StreamId;
use crate::stream::ExitState;
use crate::world::{Event, World};
use onionlab_net::tcp::Effects;

impl World {
    /// The connection to the server is not watched any more until the exit's tokens are back (`connection_read_bw_exhausted`,
    /// `connection_write_bw_exhausted`).
    pub(crate) fn block_stream(&mut self, id: StreamId, operation: Operation) {
        let stream = &mut self.streams[id.index()];
        match operation {
            Operation::Read => stream.blocked.reading = true,
            Operation::Write => stream.blocked.writing = true,
        }
        let socket = stream.socket;
        self.wait_for_tokens(socket);
    }

    /// The exit's tokens are back: what was stopped for want of them goes on, in the next pass.
    pub(crate) fn unblock_stream(&mut self, id: StreamId) {
        let blocked = std::mem::take(&mut self.streams[id.index()].blocked);
        if blocked.reading {
            self.start_reading(id, Place::Exit);
        }
        let stream = &self.streams[id.index()];
        let writes = matches!(stream.exit, ExitState::Connected | ExitState::Flushing);
        let waiting = stream.ends[Place::Exit as usize].outbuf;
        if blocked.writing && writes && waiting > 0 && self.net.is_writable(stream.socket) {
            self.watch_stream(id, Effects::WRITABLE);
        }
    }

    /// How much of `wanted` the stream's own bucket lets this end read; none if it must wait for tokens first.
    pub(crate) fn edge_tokens(&mut self, id: StreamId, place: Place, wanted: u64) -> Option<u64> {
        let now = self.queue.now();
        match self.streams[id.index()].end(place).tokens(now) {
            None => Some(wanted),
            Some(tokens) if tokens > 0 => Some(wanted.min(tokens as u64)),
            Some(_) => {
                self.wait_for_own_tokens(id, place);
                None
            }
        }
    }

    /// This end has read `bytes`, of which its own bucket knows.
    pub(crate) fn edge_has_read(&mut self, id: StreamId, place: Place, bytes: u64) {
        let end = self.streams[id.index()].end(place);
        end.charge(bytes);
        end.inbuf += bytes;
        if end.has_used_up_tokens() {
            self.wait_for_own_tokens(id, place);
        }
    }

    /// `connection_read_bw_exhausted`: this end is not watched for reading until the next wake-up, or until something else lets it read.
    fn wait_for_own_tokens(&mut self, id: StreamId, place: Place) {
        let (now, circuit) = (self.queue.now(), self.streams[id.index()].circuit);
        let end = self.streams[id.index()].end(place);
        end.waits_for_tokens = true;
        if !std::mem::replace(&mut end.wake_up_pending, true) {
            let host = self.host_at(circuit, place);
            let event = match place {
                Place::Client => Event::ClientStreamTokens(id),
                Place::Exit => Event::ExitStreamTokens(id),
            };
            let clock = RefillClock::lazy(self.nodes[host.index()].clock);
            self.queue.schedule(clock.wake_up(now), host, event);
        }
    }

    /// `reenable_blocked_connections_cb`: the wait for a stream's own tokens is over.
    pub(crate) fn stream_tokens(&mut self, id: StreamId, place: Place) {
        let end = self.streams[id.index()].end(place);
        end.wake_up_pending = false;
        if end.waits_for_tokens {
            self.start_reading(id, place);
        }
        self.recycle_stream(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use crate::bucket::Buckets;
    use crate::event_loop::Connection;
    use crate::node::RateLimit;
    use crate::settings::{CongestionSettings, FlowControl};
    use crate::stream::{StreamControl, StreamEnd};
    use crate::test_world::{at, in_a_row};
    use crate::world::SocketUse;
    use onionlab_engine::HostId;
    use onionlab_flowcontrol::xon_xoff::Advice;
    use onionlab_net::SocketId;
    use onionlab_quantities::{Bandwidth, Bytes};

    const EXIT: HostId = HostId(3);

    /// The exit of `in_a_row` gets a limit, in bytes a second and bytes.
    fn limited(world: &mut World, rate: u64, burst: u64) -> HostId {
        let limit = RateLimit { rate: Bandwidth::from_bytes_per_sec(rate), burst: Bytes::new(burst), relayed: None };
        world.limit(EXIT, Buckets::new(limit, RefillClock::Exact));
        EXIT
    }

    /// It has no tokens left for this at the moment.
    fn use_up(world: &mut World, operation: Operation) {
        while let Some(share) = world.share(EXIT, Connection::Edge, operation) {
            world.charge(EXIT, Connection::Edge, operation, share);
        }
    }

    /// A limited exit's array has its channels and the streams that are open, whatever has come and gone: without the places of old streams new ones would wait in another order.
    #[test]
    fn the_array_of_connections_holds_what_is_open() {
        let mut world = in_a_row(
            Settings::default(),
            Bandwidth::from_bits_per_sec(1_000_000),
            "kind = \"web\"\nsize = \"50 kB\"\npause = \"1 s\"",
        );
        let exit = limited(&mut world, 1_000_000, 1_000_000);
        let (mut most, mut least) = (0, usize::MAX);
        for millis in (10_000..16_000).step_by(10) {
            world.run_until(at(millis));
            let mut held = world.nodes[exit.index()].buckets.as_ref().unwrap().connections.sockets();
            held.sort_by_key(|socket| socket.index());
            let used = |socket: &SocketId| !matches!(world.sockets[socket.index()], SocketUse::Nothing);
            let open =
                (0..world.sockets.len() as u32).map(SocketId).filter(used).filter(|&socket| world.net.host(socket) == exit);
            assert_eq!(held, open.collect::<Vec<_>>(), "at {millis} ms");
            (most, least) = (most.max(held.len()), least.min(held.len()));
        }
        assert!(most > least, "streams came and went: {most} {least}");
        // A wait before each of its callbacks has taken one.
        let descriptors = world.nodes[exit.index()].buckets.as_ref().unwrap().connections.descriptors() as usize;
        assert!(descriptors > 10 * most, "{descriptors}");
    }

    /// Packets come from the server each 12 ms, and tokens each 17. A read that empties the bucket is the last until the wake-up: ten of 1,000 bytes in a second.
    #[test]
    fn an_exits_connection_without_tokens_waits_whatever_comes() {
        let mut world =
            in_a_row(Settings::default(), Bandwidth::from_bits_per_sec(1_000_000), "kind = \"bulk\"\nsize = \"5 MB\"");
        limited(&mut world, 100_000, 1000);
        world.run_until(at(12_000));
        let stream = &world.streams[0];
        assert!(stream.blocked.reading, "{:?}", stream.blocked);
        let before = world.net.bytes_read(stream.socket);
        world.run_until(at(14_000));
        let read = world.net.bytes_read(world.streams[0].socket) - before;
        // A circuit whose queue is short again has all its streams read.
        assert!((20_000..21_000).contains(&read), "{read}");
    }

    /// The queue of its circuit is full, so that the stream does not read. Whether it does so again after a wait for tokens nobody asks (`reenable_blocked_connections_cb`): it reads a
    /// share, and the first cell of that stops it again. Not so if it had not waited for tokens.
    #[test]
    fn a_stream_that_has_waited_for_tokens_reads_once_though_its_circuit_is_blocked() {
        for (waited, shares) in [(true, 1), (false, 0)] {
            let mut world =
                in_a_row(Settings::default(), Bandwidth::from_bits_per_sec(1_000_000), "kind = \"bulk\"\nsize = \"5 MB\"");
            let id = StreamId(0);
            world.run_until(at(12_000));
            let exit = limited(&mut world, 1_000_000, 1_000_000);
            // Until no SENDME is under way that would have it read.
            for millis in (12_000..14_000).step_by(10) {
                world.streams[0].blocked.reading = true;
                world.run_until(at(millis));
            }
            assert!(world.net.readable(world.streams[0].socket) > 50_000);
            let (hop, towards_client) = (usize::from(Place::Exit.hop()), 0);
            let circuit = world.streams[0].circuit;
            world.circuits[circuit.index()].hops[hop].sides[towards_client].blocked = true;
            world.streams[0].blocked.reading = false;
            if waited {
                world.block_stream(id, Operation::Read);
            }
            let read = |world: &World| world.net.bytes_read(world.streams[0].socket);
            let queued = |world: &World| world.circuits[world.streams[0].circuit.index()].way_out(Place::Exit).queue.len;
            let before = (read(&world), queued(&world));
            for _ in 0..2 {
                world.tokens_again(exit);
                // Without the scheduler, which would empty the queue.
                let socket = world.streams[0].socket;
                (0..2).for_each(|_| world.serve(socket, Effects::READABLE, u64::MAX));
                assert_eq!(read(&world) - before.0, shares * 32 * 498, "waited: {waited}");
                assert_eq!(u64::from(queued(&world) - before.1), shares * 32);
            }
        }
    }

    /// Its window was used up in the middle of a read, and a SENDME came: what tor has read already is packaged in the next callback, though there are no tokens to read more.
    #[test]
    fn a_callback_without_tokens_packages_what_was_read() {
        let mut world =
            in_a_row(Settings::default(), Bandwidth::from_bits_per_sec(1_000_000), "kind = \"bulk\"\nsize = \"5 MB\"");
        limited(&mut world, 100_000, 1000);
        world.run_until(at(12_000));
        use_up(&mut world, Operation::Read);
        let stream = &mut world.streams[0];
        (stream.blocked.reading, stream.end(Place::Exit).inbuf) = (false, 2 * 498);
        let (socket, sent) = (stream.socket, world.sampler.bytes_from_exits);
        let read = world.net.bytes_read(socket);
        assert!(world.net.readable(socket) > 0 && world.is_reading(StreamId(0), Place::Exit));
        world.serve(socket, Effects::READABLE, u64::MAX);
        assert_eq!(world.net.bytes_read(socket), read);
        assert_eq!((world.sampler.bytes_from_exits - sent, world.streams[0].ends[Place::Exit as usize].inbuf), (996, 0));
        assert!(world.streams[0].blocked.reading);
    }

    /// An upload waits at an exit without tokens. How long the server takes for it counts from the first callback on, not from the first with tokens.
    #[test]
    fn a_callback_without_tokens_begins_to_measure_the_server() {
        let settings = Settings { flow_control: FlowControl::Vegas(CongestionSettings::default()), ..Settings::default() };
        let load = "kind = \"sequence\"\nrequest = \"6 MB\"\ntransfers = [{ size = \"1 kB\" }]";
        let mut world = in_a_row(settings, Bandwidth::from_bits_per_sec(50_000_000), load);
        world.run_until(at(12_000));
        limited(&mut world, 20_000, 20_000);
        use_up(&mut world, Operation::Write);
        let control = world.stream_controls()[Place::Exit as usize].clone();
        let stream = &mut world.streams[0];
        let fresh = StreamEnd { outbuf: 1000, ..StreamEnd::new(control) };
        (stream.blocked.writing, *stream.end(Place::Exit)) = (false, fresh);
        let measures = |world: &World| {
            let StreamControl::XonXoff(edge) = &world.streams[0].ends[Place::Exit as usize].control else { unreachable!() };
            edge.delivering.is_measuring()
        };
        assert!(!measures(&world));
        let socket = world.streams[0].socket;
        world.serve(socket, Effects::WRITABLE, u64::MAX);
        assert!(measures(&world) && world.streams[0].blocked.writing);
        assert_eq!(world.streams[0].ends[Place::Exit as usize].outbuf, 1000);
    }

    /// A client that was given 10 kB/s, and a second's burst, has more to send; that is too little for a SENDME. The read that uses the burst up is the last for a tenth of a second, though there are tokens each 17 ms and its program
    /// writes on; the next takes those of five steps.
    #[test]
    fn a_stream_that_has_used_up_its_rate_waits_whatever_its_program_writes() {
        let settings = Settings { flow_control: FlowControl::Vegas(CongestionSettings::default()), ..Settings::default() };
        let mut world = in_a_row(settings, Bandwidth::from_bits_per_sec(1_000_000), "kind = \"bulk\"\nsize = \"5 MB\"");
        world.run_until(at(12_000));
        let (id, transfer) = (StreamId(0), world.streams[0].transfer.index());
        let StreamControl::XonXoff(edge) = &mut world.streams[0].end(Place::Client).control else { unreachable!() };
        edge.advised(Advice::Xon { kilobytes_per_second: 10 }, RefillClock::Exact);
        world.transfers[transfer].writes(1_000_000);
        let unread = |world: &mut World, millis: u64| {
            world.run_until(at(millis));
            world.read_program(id);
            world.settle();
            world.transfers[transfer].unread()
        };
        assert_eq!(unread(&mut world, 12_000), 990_000);
        assert_eq!([12_020, 12_050, 12_099].map(|millis| unread(&mut world, millis)), [990_000; 3]);
        let taken = 990_000 - unread(&mut world, 12_101);
        assert!((800..=1000).contains(&taken), "{taken}");
    }
}
