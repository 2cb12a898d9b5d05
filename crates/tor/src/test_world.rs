//! A client, three relays and a server in a row, for tests that look inside.

use crate::{ClientConfig, ClientId, PathRequest, PathSource, Purpose, RelayClass, Role, Settings, World, WorldConfig};
use onionlab_engine::HostId;
use onionlab_load::LoadModel;
use onionlab_net::tcp::{BufferLimits, TcpConfig};
use onionlab_net::{HostConfig, Path, QueueConfig, QueueDiscipline, Shaping, Topology, UplinkQueue};
use onionlab_quantities::{Bandwidth, Bytes, RandomStream, Seed, SimDuration, SimTime};

struct Even;
impl Topology for Even {
    fn path(&self, _: HostId, _: HostId) -> Path {
        Path { latency: SimDuration::from_millis(10), jitter: SimDuration::ZERO, loss: 0.0, beside: false }
    }
}

struct Row;
impl PathSource for Row {
    fn path(&self, request: &PathRequest<'_>) -> Option<[HostId; 3]> {
        (request.purpose != Purpose::Internal).then_some([HostId(1), HostId(2), HostId(3)])
    }
    fn exits_to(&self, _: HostId, _: u16) -> bool {
        true
    }
    fn server(&self, _: ClientId, _: u64) -> HostId {
        HostId(4)
    }
}

/// All links 50 Mbit/s but for the server's, every path 10 ms, sockets that hold 64 KiB; `load` begins after ten seconds.
pub(crate) fn in_a_row(settings: Settings, server: Bandwidth, load: &str) -> World {
    in_a_row_with(TcpConfig { send_buffer: BufferLimits::new(16_384, 65_536), ..TcpConfig::linux() }, settings, server, load)
}

/// The same with another TCP.
pub(crate) fn in_a_row_with(tcp: TcpConfig, settings: Settings, server: Bandwidth, load: &str) -> World {
    let relay = |class| Role::Relay { class, limit: None };
    let fast = Bandwidth::from_bits_per_sec(50_000_000);
    let roles = [
        ("client", Role::Client, fast),
        ("guard", relay(RelayClass::Guard), fast),
        ("middle", relay(RelayClass::Middle), fast),
        ("exit", relay(RelayClass::Exit), fast),
        ("server", Role::Server, server),
    ];
    let queue = QueueConfig { discipline: QueueDiscipline::DropTail, limit: Bytes::new(200_000), limit_packets: None };
    let hosts = roles.map(|(name, role, rate)| {
        let (name, shaping, uplink_queue) = (name.to_owned(), Shaping::Serialise, UplinkQueue::Sockets);
        (HostConfig { name, up: rate, down: rate, shaping, uplink_queue, queue }, role)
    });
    let load: LoadModel = toml::from_str(load).unwrap();
    World::new(WorldConfig {
        seed: Seed(1),
        hosts: hosts.into(),
        topology: Box::new(Even),
        tcp,
        settings,
        clients: vec![ClientConfig {
            host: HostId(0),
            load: Some(load),
            stream: RandomStream::new(Seed(1), "client", "load"),
            boot: SimTime::ZERO,
            start: at(10_000),
            stop: SimTime::MAX,
            timeout: SimDuration::from_secs(1000),
            stall: SimDuration::from_secs(1000),
            server_stall: None,
            options: crate::ClientOptions::default(),
            circuit_per_transfer: false,
            users: 1,
            spread: SimDuration::ZERO,
            record: true,
            trace: true,
            latency: true,
            probe: None,
        }],
        paths: Box::new(Row),
    })
}

/// So many milliseconds after the start.
pub(crate) fn at(millis: u64) -> SimTime {
    SimTime::ZERO + SimDuration::from_millis(millis)
}
