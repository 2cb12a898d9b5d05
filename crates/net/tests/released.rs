//! What is left of a connection whose ends nobody holds any more.

use onionlab_engine::{EventQueue, HostId};
use onionlab_net::tcp::{BufferLimits, Effects, TcpConfig};
use onionlab_net::{HostConfig, NetEvent, Network, Path, QueueConfig, QueueDiscipline, Shaping, Topology, UplinkQueue};
use onionlab_quantities::{Bandwidth, Bytes, Seed, SimDuration, SimTime};

struct Everywhere;

impl Topology for Everywhere {
    fn path(&self, _: HostId, _: HostId) -> Path {
        Path { latency: SimDuration::from_millis(10), jitter: SimDuration::ZERO, loss: 0.0, beside: false }
    }
}

/// Events until nothing is scheduled any more, within an hour; whether that was so.
fn falls_silent(queue: &mut EventQueue<NetEvent>, net: &mut Network) -> bool {
    let hour = queue.now() + SimDuration::from_secs(3600);
    while let Some(event) = queue.pop_until(hour) {
        net.handle(queue, event.host, event.event);
        while net.next_upcall().is_some() {}
    }
    queue.pop_until(SimTime::MAX).is_none()
}

/// Both ends are closed and let go while one has more to send than the other's buffer holds: all of it goes, then the FINs, and the number is used again.
#[test]
fn what_was_written_goes_though_nobody_holds_the_other_end() {
    let host = |name: &str| HostConfig {
        name: name.to_owned(),
        up: Bandwidth::from_bits_per_sec(10_000_000),
        down: Bandwidth::from_bits_per_sec(10_000_000),
        shaping: Shaping::Serialise,
        uplink_queue: UplinkQueue::Sockets,
        queue: QueueConfig { discipline: QueueDiscipline::DropTail, limit: Bytes::new(1_500_000), limit_packets: None },
    };
    let tcp = TcpConfig {
        send_buffer: BufferLimits::fixed(1 << 20),
        receive_buffer: BufferLimits::fixed(65_536),
        ..TcpConfig::linux()
    };
    let (mut queue, mut net) = (EventQueue::new(2), Network::new(Seed(1), &[host("a"), host("b")], Box::new(Everywhere), tcp));
    let socket = net.connect(&mut queue, HostId(0), HostId(1));
    let mut connected = false;
    while !connected {
        let event = queue.pop_until(SimTime::MAX).expect("a connection is opened");
        net.handle(&mut queue, event.host, event.event);
        while let Some(upcall) = net.next_upcall() {
            connected |= upcall.socket == socket && upcall.effects.has(Effects::CONNECTED);
        }
    }
    assert_eq!(net.write(&mut queue, socket, 500_000), 500_000);
    for end in [socket, socket.peer()] {
        net.close(&mut queue, end);
        net.release(&mut queue, end);
    }
    assert!(falls_silent(&mut queue, &mut net), "something probes for ever");
    let arrived = net.counters(HostId(1)).bytes_received;
    assert!((500_000..550_000).contains(&arrived), "{arrived}");
    assert_eq!(net.connect(&mut queue, HostId(0), HostId(1)), socket, "its number is free");
}
