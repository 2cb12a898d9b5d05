//! From the outbuf to the kernel, as TLS records.

use crate::bucket::WakeUp;
use crate::cell::CELL_BYTES;
use crate::channel::Opening;
use crate::event_loop::{Connection, Operation};
use crate::ids::EndId;
use crate::settings::Epoll;
use crate::tls::Tls;
use crate::world::{Event, SocketUse, World};
use onionlab_engine::HostId;
use onionlab_net::SocketId;

impl World {
    /// One write callback of a channel, or a write that KIST asks for (`connection_handle_write`): its share of bytes as records, as far as the
    /// kernel takes them. If some are left and the kernel takes more, the socket is ready again, unless the tokens are used up.
    pub(crate) fn write_channel(&mut self, id: EndId) {
        let end = &self.ends[id.index()];
        let host = end.host;
        if matches!(end.opening, Opening::Sending { .. }) {
            return self.write_flight(id);
        }
        if end.opening != Opening::Open || end.outbuf.len() == 0 {
            return;
        }
        let outbuf = self.ends[id.index()].outbuf;
        let share = match self.share(host, Connection::Channel, Operation::Write) {
            Some(share) => share,
            // What the kernel has the beginning of is written, tokens or not (`tor_tls_get_forced_write_size`), and charged.
            None if outbuf.begun() > 0 => 1,
            None => return self.block_writing(id),
        };
        let mut bytes = share.min(u64::from(outbuf.len())) as u32;
        if let Some(planned) = self.planned_writing(id, outbuf.begun()) {
            bytes = u64::from(bytes).min(planned) as u32;
            if bytes == 0 {
                // It goes on after the relay's next plan.
                self.ends[id.index()].write_blocked = true;
                return;
            }
        }
        let [written, sealed] =
            if self.settings.tls == Tls::Absent { self.write_plain(id, bytes) } else { self.write_records(id, bytes) };
        self.nodes[host.index()].counters.channel_bytes_written += written;
        if self.switching.is_some() {
            self.note_drained(id);
        }
        self.charge(host, Connection::Channel, Operation::Write, written);
        if self.predictor.is_some() {
            self.charge_writing(id, sealed);
        }
        if self.latency.is_some() {
            self.note_written(id, outbuf.len(), self.ends[id.index()].outbuf.len());
        }
        // `connection_or_flushed_some`, once a record is gone whole; without a scheduler it fills the outbuf here and now.
        let low = self.settings.scheduling_at(&self.nodes[host.index()]).outbuf_low;
        let left = self.ends[id.index()].outbuf.len();
        if left < outbuf.len() && u64::from(left) < low.get() {
            self.wants_writes(id);
        }
        if self.ends[id.index()].outbuf.len() > 0 && self.tokens_are_used_up(host, Connection::Channel, Operation::Write) {
            return self.block_writing(id);
        }
        self.watch_channel_writing(id);
    }

    /// The channel's socket is not watched for room any more until the node's tokens are back (`connection_write_bw_exhausted`).
    fn block_writing(&mut self, id: EndId) {
        self.ends[id.index()].write_blocked = true;
        self.wait_for_tokens(self.ends[id.index()].socket);
    }

    /// Cells have joined the outbuf: it is written in the next pass, whatever tokens there were before.
    pub(crate) fn start_writing(&mut self, id: EndId) {
        self.unblock_writing(id);
        self.watch_channel_writing(id);
    }

    /// The socket may be watched for room again (`connection_start_writing`). A plan that is used up stays so.
    pub(crate) fn unblock_writing(&mut self, id: EndId) {
        if self.predictor.is_none() {
            self.ends[id.index()].write_blocked = false;
        }
    }

    /// Whether such a connection of this node would find no tokens if none came.
    pub(crate) fn tokens_are_used_up(&self, host: HostId, connection: Connection, operation: Operation) -> bool {
        self.nodes[host.index()].buckets.as_deref().is_some_and(|buckets| buckets.are_empty(connection, operation))
    }

    /// Writes records until they hold `left` bytes of plaintext or the kernel takes no more: what it took, and the plaintext that was sealed for it.
    fn write_records(&mut self, id: EndId, mut left: u32) -> [u64; 2] {
        let (chunk, tls) = (self.settings.outbuf_chunk, self.settings.tls);
        let end = &mut self.ends[id.index()];
        let (mut written, mut sealed) = (0, 0);
        while left > 0 {
            let record = end.outbuf.next_record(left, chunk);
            sealed += if end.outbuf.begun() == 0 { u64::from(record) } else { 0 };
            let wire = tls.record(record);
            let taken = self.net.write(&mut self.queue, end.socket, u64::from(end.outbuf.wire_bytes_left(wire)));
            written += taken;
            if !end.outbuf.written(taken as u32, record, wire, chunk) {
                break;
            }
            self.sent.push_record(&mut end.sent, record as u16);
            left = left.saturating_sub(record);
        }
        [written, sealed]
    }

    /// Without TLS, as over QUIC or in a simulator that knows only cells: one write of these bytes, of which the kernel takes what it can, and each cell can be read when its last byte is there.
    fn write_plain(&mut self, id: EndId, bytes: u32) -> [u64; 2] {
        let end = &mut self.ends[id.index()];
        let taken = self.net.write(&mut self.queue, end.socket, u64::from(bytes));
        let mut left = taken as u32;
        while left > 0 {
            let part = end.outbuf.next_record(left, CELL_BYTES);
            end.outbuf.written(part, part, part, CELL_BYTES);
            self.sent.push_record(&mut end.sent, part as u16);
            left -= part;
        }
        [taken, taken]
    }

    /// This connection ran out of tokens. It is watched again with all others of its node to which that has happened.
    pub(crate) fn wait_for_tokens(&mut self, socket: SocketId) {
        let host = self.net.host(socket);
        let Some(buckets) = &mut self.nodes[host.index()].buckets else { return };
        buckets.connections.wait(socket);
        if buckets.wake_up.is_none() {
            let at = buckets.next_try(self.queue.now());
            buckets.wake_up = Some(WakeUp { at, overdue: false });
            self.queue.schedule(at, host, Event::TokensAgain);
        }
    }

    /// The timer of those that wait for tokens is due. In Shadow a program whose time is exact still sleeps for up to a millisecond more, if nothing else calls it; with the kernel's coarse clock that is part of the time.
    pub(crate) fn tokens_due(&mut self, host: HostId) {
        let now = self.queue.now();
        let Some(buckets) = &mut self.nodes[host.index()].buckets else { return };
        let Some(wake_up) = buckets.wake_up.filter(|wake_up| wake_up.at == now) else { return };
        let at = buckets.wakes_up(now);
        if self.settings.epoll == Epoll::Shadow1_13 && !wake_up.overdue && at > now {
            buckets.wake_up = Some(WakeUp { at, overdue: true });
            self.queue.schedule(at, host, Event::TokensAgain);
        } else {
            self.tokens_again(host);
        }
    }

    /// The program is called. If it has overslept those that wait for tokens, it sees to them next.
    pub(crate) fn is_called(&mut self, host: HostId) {
        let now = self.queue.now();
        if let Some(buckets) = &mut self.nodes[host.index()].buckets
            && let Some(wake_up) = &mut buckets.wake_up
            && wake_up.overdue
            && wake_up.at > now
        {
            wake_up.at = now;
            self.queue.schedule(now, host, Event::TokensAgain);
        }
    }

    /// All that waits for tokens is watched again (`reenable_blocked_connections_cb`), whatever kind of connection it is, in tor's order.
    pub(crate) fn tokens_again(&mut self, host: HostId) {
        let Some(buckets) = &mut self.nodes[host.index()].buckets else { return };
        buckets.wake_up = None;
        for socket in buckets.connections.take_waiting() {
            match self.sockets[socket.index()] {
                SocketUse::Channel(id) => {
                    if std::mem::take(&mut self.ends[id.index()].read_blocked) {
                        self.watch_channel_reading(id);
                    }
                    if std::mem::take(&mut self.ends[id.index()].write_blocked) {
                        self.watch_channel_writing(id);
                    }
                }
                SocketUse::Exit(id) => self.unblock_stream(id),
                SocketUse::Server(_) | SocketUse::Nothing => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench_relay::Bench;
    use crate::bucket::{Buckets, RefillClock};
    use crate::circuit::Place;
    use crate::ids::{CircuitId, StreamId};
    use crate::node::RateLimit;
    use crate::settings::{ChannelScheduler, Scheduling};
    use crate::test_world::{at, in_a_row};
    use crate::{Settings, TokenRefill};
    use onionlab_net::tcp::{BufferLimits, TcpConfig};
    use onionlab_quantities::{Bandwidth, Bytes, SimTime};

    /// A relay of 100 kB/s whose buckets are empty at 2 s, and whose timer, if it has one, ticks at 2.03 s and each 100 ms after.
    fn without_tokens(token_refill: TokenRefill) -> Bench {
        let scheduling = Scheduling { channel_scheduler: ChannelScheduler::Vanilla, ..Scheduling::default() };
        without_tokens_but(token_refill, scheduling)
    }

    /// The same with another scheduler.
    fn without_tokens_but(token_refill: TokenRefill, scheduling: Scheduling) -> Bench {
        without_tokens_over(token_refill, scheduling, 100_000, TcpConfig::linux())
    }

    /// The same with another rate and TCP, too.
    fn without_tokens_over(token_refill: TokenRefill, scheduling: Scheduling, rate: u64, tcp: TcpConfig) -> Bench {
        let settings = Settings { token_refill, scheduling, max_cell_queue_out: None, ..Settings::default() };
        let mut bench = Bench::with_tcp(settings, 2, tcp);
        bench.advance_to(at(2000));
        let limit = RateLimit { rate: Bandwidth::from_bytes_per_sec(rate), burst: Bytes::new(50_000), relayed: None };
        let clock = match token_refill {
            TokenRefill::Lazy => RefillClock::Exact,
            TokenRefill::Timer => RefillClock::Timer(at(2030)),
        };
        let mut buckets = Buckets::new(limit, clock);
        for operation in [Operation::Read, Operation::Write] {
            let all = buckets.available(Connection::Channel, operation, at(2000));
            buckets.charge(Connection::Channel, operation, all as u64);
        }
        bench.world.limit(Bench::RELAY, buckets);
        bench
    }

    fn written(bench: &Bench) -> u64 {
        bench.world.nodes[Bench::RELAY.index()].counters.channel_bytes_written
    }

    /// Without a timer the connection that found the bucket empty waits for 100 ms, though there are tokens after 16.8: another one that writes after 50 ms gets them. With a
    /// timer it goes on at its next tick.
    #[test]
    fn a_connection_without_tokens_tries_again_after_100_ms_or_at_the_next_tick() {
        for (refill, again) in [(TokenRefill::Lazy, 2100), (TokenRefill::Timer, 2030)] {
            let mut bench = without_tokens(refill);
            let [first, second] = [0, 1].map(|channel| bench.circuit(channel));
            bench.queue(first, 1);
            bench.world.settle();
            assert_eq!(written(&bench), 0);
            if refill == TokenRefill::Lazy {
                bench.advance_to(at(2050));
                bench.queue(second, 1);
                bench.world.settle();
                assert_eq!(written(&bench), 536);
            }
            let before = written(&bench);
            bench.advance_to(at(again - 1));
            assert_eq!(written(&bench), before);
            bench.advance_to(at(again));
            assert_eq!(written(&bench), before + 536);
        }
    }

    /// An exit's channel and its stream both wait for tokens: the one that was opened first is served first.
    #[test]
    fn connections_are_watched_again_in_tors_order() {
        for stream_is_first in [false, true] {
            let mut world =
                in_a_row(Settings::default(), Bandwidth::from_bits_per_sec(1_000_000), "kind = \"bulk\"\nsize = \"5 MB\"");
            world.run_until(at(10_500));
            let (exit, stream) = (HostId(3), StreamId(0));
            let limit = RateLimit { rate: Bandwidth::from_bytes_per_sec(1000), burst: Bytes::new(1000), relayed: None };
            world.limit(exit, Buckets::new(limit, RefillClock::Exact));
            let channel = world.nodes[exit.index()].ends[0];
            let mut sockets = vec![world.ends[channel.index()].socket, world.streams[stream.index()].socket];
            assert!(sockets[0].index() < sockets[1].index() && world.event_loop.ready().is_empty());
            if stream_is_first {
                let connections = &mut world.nodes[exit.index()].buckets.as_mut().unwrap().connections;
                connections.remove(sockets[0], at(0));
                connections.add(sockets[0], at(0));
                sockets.reverse();
            }
            world.streams[stream.index()].end(Place::Exit).outbuf = 100;
            world.block_stream(stream, Operation::Write);
            world.ends[channel.index()].read_blocked = true;
            world.wait_for_tokens(world.ends[channel.index()].socket);
            world.tokens_again(exit);
            assert_eq!(world.event_loop.ready(), sockets, "stream first: {stream_is_first}");
        }
    }

    /// Of ten wake-ups in a second, which has 953 ticks, seven find 95 ticks, five steps, and three 96, six, a step being 16 / 953 of a second's tokens: 89 % of the rate.
    /// The timer brings all of it.
    #[test]
    fn a_relay_that_is_always_short_of_tokens_delivers_what_its_buckets_give() {
        for (refill, expected) in
            [(TokenRefill::Lazy, 10 * (7 * 5 + 3 * 6) * (100_000 * 16 / 953)), (TokenRefill::Timer, 10 * 100_000)]
        {
            let mut bench = without_tokens(refill);
            let circuit = bench.circuit(0);
            bench.queue(circuit, 5000);
            bench.world.settle();
            bench.advance_to(at(12_000));
            let written = written(&bench);
            assert!(written.abs_diff(expected) < 600, "{refill:?}: {written} bytes in ten seconds, {expected} by the rule");
        }
    }

    /// KIST's writes draw on the tokens that there are, though the connection is not watched for 100 ms: a channel with cells left has each step of 16.8 ms as it comes, five of
    /// 1,678 bytes. Without them it would have nothing.
    #[test]
    fn kist_writes_a_connection_that_waits_for_tokens() {
        let mut bench = without_tokens_but(TokenRefill::Lazy, Scheduling::default());
        let circuit = bench.circuit(0);
        bench.queue(circuit, 200);
        bench.world.settle();
        assert_eq!(written(&bench), 0);
        bench.advance_to(at(2099));
        let written = written(&bench);
        assert!((4 * 1678..6 * 1678).contains(&written), "{written} bytes");
    }

    /// 100 ms after the first found none, if `epoll_wait` looks then. The program was called last after 30.2 ms: from there it waits 70 ms for 69.8. What calls it between the two it sees to
    /// before.
    #[test]
    fn shadow_wakes_up_in_whole_milliseconds() {
        let micros = |micros: u64| SimTime::from_nanos(micros * 1000);
        for (call, again) in [(false, 2_100_200), (true, 2_100_050)] {
            let scheduling = Scheduling { channel_scheduler: ChannelScheduler::Vanilla, ..Scheduling::default() };
            let mut bench = without_tokens_but(TokenRefill::Lazy, scheduling);
            bench.world.settings.epoll = Epoll::Shadow1_13;
            let [first, second] = [0, 1].map(|channel| bench.circuit(channel));
            bench.queue(first, 1);
            bench.world.settle();
            bench.advance_to(micros(2_030_200));
            bench.queue(second, 1);
            bench.world.settle();
            let before = written(&bench);
            bench.advance_to(micros(again - 1));
            assert_eq!(written(&bench), before, "called: {call}");
            if call {
                bench.advance_to(micros(again));
                bench.world.share(Bench::RELAY, Connection::Channel, Operation::Read);
            }
            bench.advance_to(micros(again));
            assert_eq!(written(&bench), before + 536, "called: {call}");
        }
    }

    /// A run of KIST that moves cells has the connection watched again, so that it is written until the tokens are gone, and not once a run: the first of two writes has no
    /// more than a share, four cells.
    #[test]
    fn what_kist_moves_is_written_as_far_as_there_are_tokens() {
        let mut bench = without_tokens_but(TokenRefill::Lazy, Scheduling::default());
        let circuit = bench.circuit(0);
        bench.queue(circuit, 1);
        bench.world.settle();
        bench.advance_to(at(2090));
        assert_eq!(written(&bench), 0);
        bench.queue(circuit, 9);
        bench.world.settle();
        bench.advance_to(at(2095));
        assert!(written(&bench) > 10 * 514, "{} bytes", written(&bench));
    }

    /// At 18 ms the tokens of a step of 200 kB/s are there, 3,357 bytes, and a channel has 60 cells to write into a kernel that takes `full` bytes, and has.
    fn with_full_kernel(full: u64) -> (Bench, CircuitId) {
        let tcp = TcpConfig { send_buffer: BufferLimits::fixed(full), ..TcpConfig::linux() };
        let vanilla = Scheduling { channel_scheduler: ChannelScheduler::Vanilla, ..Scheduling::default() };
        let mut bench = without_tokens_over(TokenRefill::Lazy, vanilla, 200_000, tcp);
        let circuit = bench.circuit(0);
        bench.advance_to(at(2018));
        bench.queue(circuit, 60);
        bench.world.settle();
        assert_eq!(written(&bench), full);
        (bench, circuit)
    }

    /// A write that takes the last tokens and fills the kernel ends the watching too: the room that acknowledgements make, within 50 ms, finds tokens and is not used before the wake-up,
    /// 100 ms after the write. A step of 200 kB/s is 3,357 bytes: a record of four cells, and one of the 1,279
    /// bytes that are left.
    #[test]
    fn room_that_comes_after_the_last_tokens_were_written_waits_for_the_wake_up() {
        let full = (2056 + 22) + (1279 + 22);
        let (mut bench, _) = with_full_kernel(full);
        bench.advance_to(at(2117));
        let socket = bench.world.ends[bench.ends[0].index()].socket;
        assert_eq!((bench.world.net.info(socket).unacked_bytes, written(&bench)), (0, full));
        bench.advance_to(at(2118));
        assert!(written(&bench) > full);
    }

    /// Ten bytes of a record find no room in the kernel, and what went before has used the tokens up. A cell that joins the outbuf 4 ms later has the connection written, when there is
    /// room and there are no tokens yet: those ten bytes go, and nothing else.
    #[test]
    fn a_record_that_has_begun_is_finished_without_tokens() {
        let full = (2056 + 22) + (1279 + 22) - 10;
        let (mut bench, circuit) = with_full_kernel(full);
        bench.advance_to(at(2022));
        assert_eq!(written(&bench), full);
        bench.queue(circuit, 1);
        bench.world.settle();
        assert_eq!(written(&bench), full + 10);
        bench.advance_to(at(2110));
        assert_eq!(written(&bench), full + 10);
    }

    /// A read that takes the last tokens ends the watching, though the kernel has nothing left: what comes 40 ms later finds tokens and is not read before the wake-up, 100 ms after
    /// the first, which came after a millisecond.
    #[test]
    fn what_comes_after_the_last_tokens_were_read_waits_for_the_wake_up() {
        let mut bench = without_tokens(TokenRefill::Lazy);
        let circuit = bench.incoming_circuit(0);
        let read = |bench: &Bench| bench.world.nodes[Bench::RELAY.index()].counters.channel_bytes_read;
        bench.advance_to(at(2018));
        let before = read(&bench);
        for (queued_at, cells, arrived) in [(2018, 4, 4 * 514 + 22), (2060, 1, 4 * 514 + 22)] {
            bench.advance_to(at(queued_at));
            bench.queue(circuit, cells);
            bench.world.settle();
            bench.advance_to(at(queued_at + 2));
            assert_eq!(read(&bench) - before, arrived, "at {queued_at} ms");
        }
        bench.advance_to(at(2118));
        assert_eq!(read(&bench) - before, 4 * 514 + 22);
        bench.advance_to(at(2119));
        assert_eq!(read(&bench) - before, 5 * 514 + 44);
    }

    /// A cell that joins the outbuf has its connection watched again, whatever there was when it was written last. What waits alone is not.
    #[test]
    fn a_cell_that_joins_an_outbuf_draws_on_the_tokens_that_there_are() {
        let mut bench = without_tokens(TokenRefill::Lazy);
        let circuit = bench.circuit(0);
        bench.queue(circuit, 1);
        bench.world.settle();
        bench.advance_to(at(2050));
        assert_eq!(written(&bench), 0);
        bench.queue(circuit, 1);
        bench.world.settle();
        assert!(written(&bench) >= 2 * 514, "both of them");
    }

    /// Each reading refills what is written from, too: by an exact clock nothing is lost between two wake-ups, of which each finds a hundred milliseconds' tokens.
    #[test]
    fn a_relay_that_goes_on_reading_writes_its_whole_rate() {
        let mut bench = without_tokens(TokenRefill::Lazy);
        let circuit = bench.circuit(0);
        bench.queue(circuit, 5000);
        bench.world.settle();
        for milli in 2001..=12_000 {
            bench.advance_to(at(milli));
            bench.world.share(Bench::RELAY, Connection::Channel, Operation::Read);
        }
        let written = written(&bench);
        assert!((990_000..=1_001_000).contains(&written), "{written} bytes in ten seconds");
    }
}
