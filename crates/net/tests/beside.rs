//! Hosts beside each other: what passes between them takes no link, and links take no notice of it.

use onionlab_engine::{EventQueue, HostId};
use onionlab_net::quic::QuicConfig;
use onionlab_net::tcp::{Effects, TcpConfig};
use onionlab_net::{HostConfig, NetEvent, Network, Path, QueueConfig, QueueDiscipline, Shaping, SocketId, Topology, UplinkQueue};
use onionlab_quantities::{Bandwidth, Bytes, Seed, SimDuration, SimTime};

/// Hosts 0 and 1 are beside each other; 2 is 20 ms away from both.
struct Pair;

impl Topology for Pair {
    fn path(&self, a: HostId, b: HostId) -> Path {
        let beside = a.0.max(b.0) == 1;
        let latency = if beside { SimDuration::from_micros(10) } else { SimDuration::from_millis(20) };
        Path { latency, jitter: SimDuration::ZERO, loss: 0.0, beside }
    }
}

const BYTES: u64 = 1_000_000;

/// When each of these transfers of a megabyte, from one host to another and by streams or not, had arrived; and what each host's links carried.
fn transfers(transfers: &[(u32, u32, bool)], uplink_queue: UplinkQueue) -> (Vec<SimTime>, Vec<[u64; 2]>) {
    let rate = Bandwidth::from_bits_per_sec(1_000_000);
    let queue_limit = QueueConfig { discipline: QueueDiscipline::DropTail, limit: Bytes::new(1_500_000), limit_packets: None };
    let configs: Vec<_> = (0..3)
        .map(|index| HostConfig {
            name: format!("host{index}"),
            up: rate,
            down: rate,
            shaping: Shaping::Serialise,
            uplink_queue,
            queue: queue_limit,
        })
        .collect();
    let mut queue: EventQueue<NetEvent> = EventQueue::new(3);
    let mut net = Network::new(Seed(1), &configs, Box::new(Pair), TcpConfig::linux()).with_quic(QuicConfig::standard());
    let sockets: Vec<SocketId> = transfers
        .iter()
        .map(|&(from, to, stream)| {
            let (from, to) = (HostId(from), HostId(to));
            if stream { net.connect_stream(&mut queue, from, to) } else { net.connect(&mut queue, from, to) }
        })
        .collect();
    let mut left = vec![BYTES; sockets.len()];
    let mut read = vec![0; sockets.len()];
    let mut arrived = vec![SimTime::MAX; sockets.len()];
    loop {
        while let Some(upcall) = net.next_upcall() {
            if let Some(index) = sockets.iter().position(|&socket| socket == upcall.socket)
                && upcall.effects.has(Effects::CONNECTED | Effects::WRITABLE)
            {
                left[index] -= net.write(&mut queue, upcall.socket, left[index]);
            }
            if let Some(index) = sockets.iter().position(|&socket| socket.peer() == upcall.socket) {
                let bytes = net.readable(upcall.socket);
                net.read(&mut queue, upcall.socket, bytes);
                read[index] += bytes;
                if read[index] == BYTES {
                    arrived[index] = arrived[index].min(queue.now());
                }
            }
        }
        let Some(event) = queue.pop_until(SimTime::from_nanos(60_000_000_000)) else { break };
        net.handle(&mut queue, event.host, event.event);
    }
    let carried = (0..3).map(|host| net.counters(HostId(host))).map(|counters| [counters.bytes_sent, counters.bytes_received]);
    (arrived, carried.collect())
}

/// At 1 Mbit/s a megabyte takes eight seconds; beside, some round trips of 20 us. What goes by the links meanwhile comes when it comes alone.
#[test]
fn what_passes_beside_takes_no_link() {
    for uplink_queue in [UplinkQueue::Sockets, UplinkQueue::DropTail { packets: 100 }, UplinkQueue::SmallQueues { packets: 100 }]
    {
        let (alone, links_alone) = transfers(&[(1, 2, false)], uplink_queue);
        for stream in [false, true] {
            let (both, links) = transfers(&[(1, 2, false), (0, 1, stream), (1, 0, stream)], uplink_queue);
            assert!(both[1].max(both[2]) < SimTime::from_nanos(100_000_000), "{both:?}");
            assert!(both[0] > SimTime::from_nanos(8_000_000_000));
            assert_eq!((both[0], links), (alone[0], links_alone.clone()));
        }
    }
}
