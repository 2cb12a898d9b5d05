//! Opening channels: TCP or QUIC, then the flights of TLS and of tor's link handshake.
//!
//! The handshake of TLS asks no token bucket (`connection_buf_read_from_socket`: it goes on "even if global token bucket is empty"). What comes after it, from
//! VERSIONS on, is read and written in shares like any cell. But tor charges what the connection itself has counted since the last time
//! (`tor_tls_get_n_raw_bytes`), so that the first of these operations pays for the handshake too, in both directions.

use crate::channel::{self, Opening};
use crate::event_loop::{Connection, Operation};
use crate::ids::EndId;
use crate::world::World;
use onionlab_net::tcp::Effects;

impl World {
    /// TCP or QUIC is up: the initiator starts TLS, or the link handshake; the other side accepts.
    pub(crate) fn channel_connected(&mut self, id: EndId) {
        match self.ends[id.index()].opening {
            Opening::Connecting => self.send_flight(id, 0),
            Opening::Arriving if self.channel_logs[id.channel()].kind == channel::ChannelKind::Stream => self.stream_arrived(id),
            Opening::Arriving => self.accept_channel(id),
            Opening::Sending { .. } | Opening::Awaiting { .. } | Opening::Open | Opening::Closed => {}
        }
    }

    /// The flights that open this channel: even ones come from the initiator, odd ones from the responder.
    pub(crate) fn flights(&self, id: EndId) -> &'static [u32] {
        let initiator = self.ends[(id.0 & !1) as usize].host;
        channel::flights(self.settings.tls, self.settings.links.are_quic(), self.nodes[initiator.index()].role)
    }

    /// How many of them are the handshake of TLS.
    fn tls_flights(&self) -> u8 {
        channel::tls_flights(self.settings.tls, self.settings.links.are_quic())
    }

    fn send_flight(&mut self, id: EndId, flight: u8) {
        self.ends[id.index()].opening = Opening::Sending { flight, bytes: self.flights(id)[flight as usize] };
        self.write_flight(id);
    }

    /// Writes of its flight what the buckets allow.
    pub(crate) fn write_flight(&mut self, id: EndId) {
        let (host, socket) = (self.ends[id.index()].host, self.ends[id.index()].socket);
        let Opening::Sending { flight, bytes } = self.ends[id.index()].opening else { return };
        let (share, is_tls) = (self.share(host, Connection::Channel, Operation::Write), flight < self.tls_flights());
        let piece = match share {
            _ if is_tls => bytes,
            Some(share) => bytes.min(self.settings.tls.record(share as u32)),
            None => {
                self.ends[id.index()].write_blocked = true;
                self.wait_for_tokens(socket);
                return;
            }
        };
        let sent = self.net.write(&mut self.queue, socket, u64::from(piece));
        assert_eq!(sent, u64::from(piece), "a send buffer holds a handshake's flight");
        if !is_tls {
            self.charge_flight(id, flight, Operation::Write, bytes, piece);
        }
        if piece < bytes {
            self.ends[id.index()].opening = Opening::Sending { flight, bytes: bytes - piece };
            self.watch(socket, Effects::WRITABLE);
        } else if let Some(&bytes) = self.flights(id).get(flight as usize + 1) {
            self.ends[id.index()].opening = Opening::Awaiting { flight: flight + 1, bytes };
        } else {
            self.channel_is_open(id);
        }
    }

    /// Reads bytes of the opening, if the buckets hold any: each flight of the link handshake is one record, which is read whole. The last of a flight calls for the next.
    pub(crate) fn read_flight(&mut self, id: EndId, readable: u64) {
        let (host, socket) = (self.ends[id.index()].host, self.ends[id.index()].socket);
        let Opening::Awaiting { flight, bytes } = self.ends[id.index()].opening else { return };
        let (share, is_tls) = (self.share(host, Connection::Channel, Operation::Read), flight < self.tls_flights());
        if share.is_none() && !is_tls {
            self.ends[id.index()].read_blocked = true;
            self.wait_for_tokens(socket);
            return;
        }
        let piece = u64::from(bytes).min(readable) as u32;
        self.net.read(&mut self.queue, socket, u64::from(piece));
        if !is_tls {
            self.charge_flight(id, flight, Operation::Read, bytes, piece);
        }
        if piece < bytes {
            self.ends[id.index()].opening = Opening::Awaiting { flight, bytes: bytes - piece };
        } else if self.flights(id).len() > flight as usize + 1 {
            self.send_flight(id, flight + 1);
        } else {
            self.channel_is_open(id);
        }
    }

    /// A `piece` of a flight passed, of which `bytes` had not. With the first of all, at either end, counts what TLS has moved before.
    fn charge_flight(&mut self, id: EndId, flight: u8, operation: Operation, bytes: u32, piece: u32) {
        let (host, flights, of_tls) = (self.ends[id.index()].host, self.flights(id), self.tls_flights());
        self.charge(host, Connection::Channel, operation, u64::from(piece));
        if flight == of_tls && bytes == flights[flight as usize] {
            let moved = |first| flights[..of_tls as usize].iter().skip(first).step_by(2).map(|&bytes| u64::from(bytes)).sum();
            let back = if operation == Operation::Read { Operation::Write } else { Operation::Read };
            self.charge(host, Connection::Channel, operation, moved(0));
            self.charge(host, Connection::Channel, back, moved(1));
        }
    }

    /// This end has received or sent the last flight.
    fn channel_is_open(&mut self, id: EndId) {
        self.ends[id.index()].opening = Opening::Open;
        if id.0.is_multiple_of(2) {
            self.channel_logs[id.channel()].open = Some(self.queue.now());
        }
        self.wants_writes(id);
        self.has_no_circuits(id);
        for circuit in self.waiting.remove(&id).unwrap_or_default() {
            self.attach_and_create(circuit, id);
        }
        self.channel_open_for_switches(id);
    }
}

#[cfg(test)]
mod tests {
    use crate::bench_relay::Bench;
    use crate::bucket::{Buckets, RefillClock};
    use crate::channel::{ChannelKind, flights};
    use crate::event_loop::{Connection, Operation};
    use crate::ids::EndId;
    use crate::node::RateLimit;
    use crate::test_world::at;
    use crate::{Settings, Tls, TokenRefill};
    use onionlab_engine::HostId;
    use onionlab_quantities::{Bandwidth, Bytes};

    /// A relay 1 ms from another, whose buckets are empty at 1 s; at 1.05 s and each 100 ms later a timer adds `tick` bytes. A channel is opened at 1 s, by
    /// the relay or to it.
    fn opening(tls: Tls, tick: u64, by_the_relay: bool) -> (Bench, EndId) {
        let settings = Settings { tls, token_refill: TokenRefill::Timer, ..Settings::default() };
        let Bench { mut world, ends } = Bench::new(settings, 1);
        let limit = RateLimit { rate: Bandwidth::from_bytes_per_sec(10 * tick), burst: Bytes::new(1_000_000), relayed: None };
        let mut buckets = Buckets::new(limit, RefillClock::Timer(at(1050)));
        for operation in [Operation::Read, Operation::Write] {
            buckets.charge(Connection::Channel, operation, 1_000_000);
        }
        world.limit(Bench::RELAY, buckets);
        let (from, to) = if by_the_relay { (Bench::RELAY, HostId(1)) } else { (HostId(1), Bench::RELAY) };
        let end = world.open_channel(from, to, ChannelKind::Circuit).unwrap();
        (Bench { world, ends }, end)
    }

    /// What is in the buckets now, for reading and for writing.
    fn levels(bench: &mut Bench) -> [i64; 2] {
        let now = bench.world.now();
        let buckets = bench.world.nodes[Bench::RELAY.index()].buckets.as_mut().unwrap();
        [Operation::Read, Operation::Write].map(|operation| buckets.available(Connection::Channel, operation, now))
    }

    /// At the end all that went in either direction is paid for, also what passed when there was nothing to pay with.
    #[test]
    fn every_byte_of_an_opening_is_charged() {
        for tls in [Tls::V1_3, Tls::Cbc] {
            for by_the_relay in [false, true] {
                let (mut bench, end) = opening(tls, 100_000, by_the_relay);
                bench.advance_to(at(1149));
                assert!(bench.world.channel_logs[end.channel()].open.is_some());
                let role = bench.world.nodes[0].role;
                let sum = |first| flights(tls, false, role).iter().skip(first).step_by(2).map(|&bytes| i64::from(bytes)).sum();
                let (there, back): (i64, i64) = (sum(0), sum(1));
                let [read, written] = if by_the_relay { [back, there] } else { [there, back] };
                assert_eq!(levels(&mut bench), [100_000 - read, 100_000 - written], "{tls:?}");
            }
        }
    }

    /// TCP and TLS 1.3 take two round trips of 2 ms whether there are tokens or not. At 1.004 s the initiator would send VERSIONS, at 1.005 s the responder would read it: whichever
    /// of them has no tokens waits for the timer. From then on it is a round trip to the initiator's last flight, or half of one.
    #[test]
    fn tls_does_not_wait_for_tokens_and_the_link_handshake_does() {
        for (by_the_relay, open) in [(true, 1052), (false, 1051)] {
            let (mut bench, end) = opening(Tls::V1_3, 100_000, by_the_relay);
            bench.advance_to(at(1049));
            assert_eq!(levels(&mut bench), [0, 0], "nothing is charged before the first share");
            bench.advance_to(at(1149));
            assert_eq!(bench.world.channel_logs[end.channel()].open, Some(at(open)));
        }
    }

    /// Of 2,500 tokens VERSIONS and what TLS has written take 630. Of the last flight, 2,226 bytes, 1,870 bytes of plaintext go at 1.052 s, 1,892 with the record; the rest waits for the next
    /// tick.
    #[test]
    fn a_flight_is_cut_where_the_tokens_end() {
        let (mut bench, end) = opening(Tls::V1_3, 2500, true);
        bench.advance_to(at(1149));
        assert_eq!(bench.world.channel_logs[end.channel()].open, None);
        assert_eq!(levels(&mut bench)[Operation::Write as usize], -22);
        bench.advance_to(at(1151));
        assert_eq!(bench.world.channel_logs[end.channel()].open, Some(at(1150)));
        assert_eq!(levels(&mut bench)[Operation::Write as usize], 2500 - 22 - (2226 - 1892));
    }
}
