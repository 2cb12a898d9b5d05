//! The fixed worlds: relays of three classes with rates from 20 to 500 Mbit/s, one bulk client in ten, the others browsing.

use onionlab_engine::HostId;
use onionlab_load::LoadModel;
use onionlab_net::tcp::TcpConfig;
use onionlab_net::{HostConfig, Path, QueueConfig, QueueDiscipline, Shaping, Topology, UplinkQueue};
use onionlab_quantities::{Bandwidth, Bytes, RandomStream, Seed, SimDuration, SimTime};
use onionlab_tor::{
    ClientConfig, ClientId, ClientOptions, ClientSettings, PathRequest, PathSource, Purpose, RelayClass, Role, Settings, World,
    WorldConfig,
};

const SEED: Seed = Seed(1);

/// Packets that get lost where the world does not say.
pub const LITTLE_LOSS: f32 = 0.0005;

/// Every path has a latency of its own, from 5 to 75 ms, and loses this share of packets.
struct Paths(f32);

impl Topology for Paths {
    fn path(&self, a: HostId, b: HostId) -> Path {
        let draw = RandomStream::new(SEED, "paths", "latency").at(u64::from(a.0.min(b.0)) << 32 | u64::from(a.0.max(b.0)));
        Path {
            latency: SimDuration::from_micros(5000 + draw.below(70_000)),
            jitter: SimDuration::ZERO,
            loss: self.0,
            beside: false,
        }
    }
}

struct Thirds(u32);

impl PathSource for Thirds {
    fn path(&self, request: &PathRequest<'_>) -> Option<[HostId; 3]> {
        let third = self.0 / 3;
        let stream = RandomStream::new(SEED, "paths", "relays").member(u64::from(request.client.0));
        let relay = |position: u64| {
            let ordinal = if position == 0 { 0 } else { request.circuit * 3 + position };
            HostId(position as u32 * third + stream.at(ordinal).below(u64::from(third)) as u32)
        };
        (request.purpose != Purpose::Internal).then(|| [relay(0), relay(1), relay(2)])
    }
    fn exits_to(&self, _: HostId, _: u16) -> bool {
        true
    }
    fn server(&self, client: ClientId, _: u64) -> HostId {
        HostId(self.0 + client.0 % 10)
    }
}

/// A world of `relays` relays, ten servers and `clients` clients that all start within 20 seconds; Linux's TCP with SACK, KIST, EWMA.
pub fn build(relays: u32, clients: u32, loss: f32) -> World {
    let draws = RandomStream::new(SEED, "world", "rates");
    let queue = QueueConfig { discipline: QueueDiscipline::DropTail, limit: Bytes::new(1_000_000), limit_packets: None };
    let host = |name: String, up: u64, down: u64| HostConfig {
        name,
        up: Bandwidth::from_bits_per_sec(up),
        down: Bandwidth::from_bits_per_sec(down),
        shaping: Shaping::Serialise,
        uplink_queue: UplinkQueue::Sockets,
        queue,
    };
    let mut hosts = Vec::new();
    for index in 0..relays {
        let rate = 20_000_000 + draws.at(u64::from(index)).below(480_000_000);
        let class = [RelayClass::Guard, RelayClass::Middle, RelayClass::Exit][(index / (relays / 3)).min(2) as usize];
        hosts.push((host(format!("relay{index}"), rate, rate), Role::Relay { class, limit: None }));
    }
    for index in 0..10 {
        hosts.push((host(format!("server{index}"), 10_000_000_000, 10_000_000_000), Role::Server));
    }
    let bulk: LoadModel = serde_json::from_str(r#"{"kind": "bulk", "size": "5 MiB"}"#).expect("well formed");
    let web: LoadModel = serde_json::from_str(r#"{"kind": "web", "size": "320 KiB", "pause": {"uniform": ["1 s", "20 s"]}}"#)
        .expect("well formed");
    let mut configs = Vec::new();
    for index in 0..clients {
        hosts.push((host(format!("client{index}"), 20_000_000, 100_000_000), Role::Client));
        let boot = SimTime::from_nanos(draws.member(1).at(u64::from(index)).below(15_000_000_000));
        configs.push(ClientConfig {
            host: HostId(relays + 10 + index),
            users: 1,
            load: Some(if index % 10 == 0 { bulk.clone() } else { web.clone() }),
            stream: RandomStream::new(SEED, &format!("client{index}"), "load"),
            boot,
            start: boot + SimDuration::from_secs(5),
            spread: SimDuration::ZERO,
            stop: SimTime::MAX,
            timeout: SimDuration::from_secs(120),
            stall: SimDuration::from_secs(30),
            server_stall: None,
            options: ClientOptions::default(),
            circuit_per_transfer: false,
            record: true,
            trace: false,
            latency: false,
            probe: None,
        });
    }
    World::new(WorldConfig {
        seed: SEED,
        hosts,
        topology: Box::new(Paths(loss)),
        tcp: TcpConfig::linux(),
        settings: Settings { client: ClientSettings { predict: false, ..ClientSettings::default() }, ..Settings::default() },
        clients: configs,
        paths: Box::new(Thirds(relays)),
    })
}
