//! Streams as sockets: what they share, what they do not, and what is left when they are over.

use onionlab_engine::{EventQueue, HostId};
use onionlab_net::quic::QuicConfig;
use onionlab_net::tcp::{BufferLimits, CongestionControl, Effects, TcpConfig};
use onionlab_net::{HostConfig, NetEvent, Network, Path, QueueConfig, QueueDiscipline, Shaping, SocketId, Topology, UplinkQueue};
use onionlab_quantities::{Bandwidth, Bytes, Seed, SimDuration, SimTime};
use std::collections::BTreeMap;

struct Everywhere(Path);

impl Topology for Everywhere {
    fn path(&self, _: HostId, _: HostId) -> Path {
        self.0
    }
}

/// Two hosts or more, and what their sockets heard and read.
struct Lan {
    queue: EventQueue<NetEvent>,
    net: Network,
    heard: BTreeMap<SocketId, Effects>,
    read: BTreeMap<SocketId, u64>,
    /// When so many bytes of a socket had been read.
    reads: BTreeMap<SocketId, Vec<(SimTime, u64)>>,
}

fn millis(millis: u64) -> SimDuration {
    SimDuration::from_millis(millis)
}
fn at(millis: u64) -> SimTime {
    SimTime::from_nanos(millis * 1_000_000)
}

impl Lan {
    /// Hosts with links of 100 Mbit/s, 50 ms apart.
    fn new(hosts: u32, loss: f32, seed: u64, uplink_queue: UplinkQueue) -> Self {
        Self::with_datagrams(hosts, loss, seed, uplink_queue, 1452)
    }

    fn with_datagrams(hosts: u32, loss: f32, seed: u64, uplink_queue: UplinkQueue, max_datagram: u16) -> Self {
        let rate = Bandwidth::from_bits_per_sec(100_000_000);
        let host = |index| HostConfig {
            name: format!("host{index}"),
            up: rate,
            down: rate,
            shaping: Shaping::Serialise,
            uplink_queue,
            queue: QueueConfig { discipline: QueueDiscipline::DropTail, limit: Bytes::new(1_500_000), limit_packets: None },
        };
        let configs: Vec<_> = (0..hosts).map(host).collect();
        let path = Path { latency: millis(50), jitter: SimDuration::ZERO, loss, beside: false };
        let tcp = TcpConfig {
            // Nothing but the order of bytes is to hold TCP's back.
            congestion_control: CongestionControl::Unlimited,
            nagle: false,
            send_buffer: BufferLimits::fixed(1 << 20),
            ..TcpConfig::linux()
        };
        let quic = QuicConfig { send_buffer: BufferLimits::fixed(1 << 20), max_datagram, ..QuicConfig::standard() };
        Self {
            queue: EventQueue::new(hosts as usize),
            net: Network::new(Seed(seed), &configs, Box::new(Everywhere(path)), tcp).with_quic(quic),
            heard: BTreeMap::new(),
            read: BTreeMap::new(),
            reads: BTreeMap::new(),
        }
    }

    fn connect(&mut self, quic: bool, from: u32, to: u32) -> SocketId {
        if quic {
            self.net.connect_stream(&mut self.queue, HostId(from), HostId(to))
        } else {
            self.net.connect(&mut self.queue, HostId(from), HostId(to))
        }
    }

    fn run_until(&mut self, end: SimTime) {
        self.work();
        while let Some(event) = self.queue.pop_until(end) {
            self.net.handle(&mut self.queue, event.host, event.event);
            self.work();
        }
        // The clock stands at the last event; the next action is to happen at `end`.
    }

    fn work(&mut self) {
        while let Some(upcall) = self.net.next_upcall() {
            *self.heard.entry(upcall.socket).or_default() |= upcall.effects;
            if upcall.effects.has(Effects::READABLE) {
                let bytes = self.net.readable(upcall.socket);
                self.net.read(&mut self.queue, upcall.socket, bytes);
                let read = self.read.entry(upcall.socket).or_default();
                *read += bytes;
                self.reads.entry(upcall.socket).or_default().push((self.queue.now(), *read));
            }
        }
    }

    fn read(&self, socket: SocketId) -> u64 {
        self.read.get(&socket).copied().unwrap_or_default()
    }

    fn heard(&self, socket: SocketId, effects: Effects) -> bool {
        self.heard.get(&socket).is_some_and(|heard| heard.has(effects))
    }
}

#[test]
fn the_first_stream_costs_a_handshake_and_the_next_do_not() {
    let mut lan = Lan::new(2, 0.0, 1, UplinkQueue::Sockets);
    let first = lan.connect(true, 0, 1);
    lan.run_until(at(99));
    assert!(!lan.heard(first, Effects::CONNECTED));
    lan.run_until(at(103));
    assert!(lan.heard(first, Effects::CONNECTED));
    assert!(!lan.heard(first.peer(), Effects::CONNECTED), "nothing was sent on it");
    assert_eq!(lan.net.write(&mut lan.queue, first, 1000), 1000);
    lan.run_until(at(156));
    assert_eq!(lan.read(first.peer()), 1000);
    assert!(lan.heard(first.peer(), Effects::CONNECTED));
    // From either side.
    for (from, to) in [(0, 1), (1, 0)] {
        let next = lan.connect(true, from, to);
        lan.work();
        assert!(lan.heard(next, Effects::CONNECTED));
        assert_eq!(lan.net.write(&mut lan.queue, next, 1000), 1000);
        let sent = lan.queue.now();
        lan.run_until(sent + millis(51));
        assert_eq!(lan.read(next.peer()), 1000);
        assert_eq!(lan.net.quic_info(next).unwrap().streams, lan.net.quic_info(first).unwrap().streams);
    }
    assert_eq!(lan.net.quic_info(first).unwrap().streams, 3);
    assert!(lan.net.quic_connection(HostId(1), HostId(0)).is_some());
}

/// Another pair of hosts has a connection of its own.
#[test]
fn pairs_of_hosts_share_nothing() {
    let mut lan = Lan::new(3, 0.0, 1, UplinkQueue::Sockets);
    let sockets = [(0, 1), (0, 2)].map(|(from, to)| lan.connect(true, from, to));
    lan.run_until(at(200));
    assert_eq!(sockets.map(|socket| lan.net.quic_info(socket).unwrap().streams), [1, 1]);
    lan.net.disconnect(&mut lan.queue, HostId(1), HostId(0));
    lan.run_until(at(400));
    assert!(lan.heard(sockets[0], Effects::RESET) && lan.heard(sockets[0].peer(), Effects::RESET));
    assert!(!lan.heard(sockets[1], Effects::RESET));
    assert_eq!(lan.net.quic_connection(HostId(0), HostId(1)), None);
}

/// Twenty circuits, each with a message of 100 bytes each 100 ms, one every 5 ms, which no window holds back: how many took over half a round trip longer
/// than the path, and how many there were.
fn late(quic: bool, loss: f32, seed: u64) -> (u64, u64) {
    const CIRCUITS: usize = 20;
    const MESSAGE: u64 = 100;
    const SENT: usize = 4000;
    // Two datagrams of 9000 bytes, the least window, never hold these messages back.
    let mut lan = Lan::with_datagrams(2, loss, seed, UplinkQueue::Sockets, 9000);
    let sockets: Vec<_> = (0..if quic { CIRCUITS } else { 1 }).map(|_| lan.connect(quic, 0, 1)).collect();
    lan.run_until(at(5000));
    let begins = 5000;
    for message in 0..SENT {
        lan.run_until(at(begins + 5 * message as u64));
        let socket = sockets[message % sockets.len()];
        assert_eq!(lan.net.write(&mut lan.queue, socket, MESSAGE), MESSAGE);
    }
    lan.run_until(at(begins + 5 * SENT as u64 + 20_000));
    let mut late = 0;
    for message in 0..SENT {
        let socket = sockets[message % sockets.len()].peer();
        let through = (message / sockets.len() + 1) as u64 * MESSAGE;
        let arrived = lan.reads[&socket].iter().find(|read| read.1 >= through).unwrap().0;
        late += u64::from(arrived > at(begins + 5 * message as u64) + millis(50 + 50));
    }
    (late, SENT as u64)
}

/// Head-of-line blocking: the same messages, the same loss. On one TCP connection whatever follows a lost segment waits for it, that is a round trip and more
/// of twenty circuits; with a stream each, only the circuit's own next messages do.
#[test]
fn a_loss_holds_up_all_circuits_of_a_tcp_connection_and_one_of_a_quic_connection() {
    let mut shares = [0.0; 2];
    for (quic, share) in [false, true].into_iter().zip(&mut shares) {
        let all = (1..=4).map(|seed| late(quic, 0.01, seed));
        let (late, sent) = all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        *share = late as f64 / sent as f64;
    }
    println!("late: TCP {:.4}, QUIC {:.4}", shares[0], shares[1]);
    // One in a hundred is lost; the next of its stream, 100 ms later, waits as well.
    assert!(shares[1] > 0.005 && shares[1] < 0.04, "QUIC: {}", shares[1]);
    assert!(shares[0] > 5.0 * shares[1], "TCP {} against {}", shares[0], shares[1]);
    assert_eq!([false, true].map(|quic| late(quic, 0.0, 1).0), [0, 0]);
}

/// Whatever stands before the uplink, all bytes of all streams arrive, with loss and without.
#[test]
fn streams_deliver_before_every_kind_of_uplink() {
    for uplink_queue in [
        UplinkQueue::Sockets,
        UplinkQueue::WriteOrder,
        UplinkQueue::WriteHeap,
        UplinkQueue::DropTail { packets: 20 },
        UplinkQueue::SmallQueues { packets: 20 },
    ] {
        for loss in [0.0, 0.02] {
            let mut lan = Lan::new(2, loss, 7, uplink_queue);
            let sockets: Vec<_> = (0..5).map(|index| lan.connect(true, index % 2, 1 - index % 2)).collect();
            lan.run_until(at(8000));
            for &socket in &sockets {
                assert_eq!(lan.net.write(&mut lan.queue, socket, 500_000), 500_000);
                lan.net.close(&mut lan.queue, socket);
                lan.net.close(&mut lan.queue, socket.peer());
            }
            lan.run_until(at(120_000));
            for &socket in &sockets {
                assert_eq!(lan.read(socket.peer()), 500_000, "{uplink_queue:?}, loss {loss}");
                assert!(lan.heard(socket.peer(), Effects::PEER_CLOSED) && lan.heard(socket, Effects::PEER_CLOSED));
                assert!(!lan.heard(socket, Effects::RESET));
            }
        }
    }
}

/// Sockets are numbered again when both ends of a stream are released, and nothing is scheduled once the connection is over.
#[test]
fn what_is_over_leaves_nothing() {
    let mut lan = Lan::new(2, 0.01, 3, UplinkQueue::Sockets);
    let mut highest = 0;
    for round in 0..200 {
        let socket = lan.connect(true, round % 2, 1 - round % 2);
        highest = highest.max(socket.0);
        let start = lan.queue.now().max(at(500 * u64::from(round)));
        lan.run_until(start + millis(200));
        if round % 3 == 0 {
            lan.net.abort(&mut lan.queue, socket);
        } else {
            lan.net.write(&mut lan.queue, socket, 3000);
            lan.net.close(&mut lan.queue, socket);
            lan.net.close(&mut lan.queue, socket.peer());
        }
        lan.run_until(start + millis(480));
        lan.net.release(&mut lan.queue, socket);
        lan.net.release(&mut lan.queue, socket.peer());
    }
    // The connection's own pair, and few streams at a time.
    assert!(highest < 24, "{highest}");
    lan.run_until(at(500 * 200 + 200_000));
    assert_eq!(lan.net.quic_connection(HostId(0), HostId(1)), None);
    assert!(lan.queue.pop_until(SimTime::MAX).is_none(), "no event is left");
    let again = lan.connect(true, 0, 1);
    assert!(again.0 < 24, "places are used again");
    lan.run_until(at(500 * 200 + 201_000));
    assert!(lan.heard(again, Effects::CONNECTED));
}

/// The same seed gives the same instants.
#[test]
fn runs_repeat() {
    let run = || {
        let mut lan = Lan::new(2, 0.02, 11, UplinkQueue::Sockets);
        let sockets: Vec<_> = (0..4).map(|_| lan.connect(true, 0, 1)).collect();
        lan.run_until(at(5000));
        for &socket in &sockets {
            lan.net.write(&mut lan.queue, socket, 200_000);
        }
        lan.run_until(at(30_000));
        (lan.reads, lan.net.counters(HostId(0)))
    };
    assert_eq!(run(), run());
}

/// Both ends: a stream has a socket's place and its state beside it; a connection costs twice what a stream does.
#[test]
fn idle_streams_are_small() {
    let sizes = [Network::connection_memory(), Network::stream_memory(), Network::quic_connection_memory()];
    println!("TCP connection, stream, QUIC connection: {sizes:?} bytes");
    assert!(sizes[0] <= 594 && sizes[1] <= 1024 && sizes[2] <= 2304);
}
