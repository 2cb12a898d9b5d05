//! Small worlds written by hand, for tests.
#![allow(dead_code, reason = "each test file uses a part of it")]

use onionlab_engine::HostId;
use onionlab_load::LoadModel;
use onionlab_net::tcp::TcpConfig;
use onionlab_net::{HostConfig, Path, QueueConfig, QueueDiscipline, Shaping, Topology, UplinkQueue};
use onionlab_quantities::{Bandwidth, Bytes, RandomStream, Seed, SimDuration, SimTime};
use onionlab_tor::{
    ClientConfig, ClientId, ClientOptions, PathRequest, PathSource, Purpose, Records, RelayClass, Role, Settings, SpareRequest,
    SwitchEntry, SwitchExit, World, WorldConfig,
};
use std::collections::BTreeMap;

pub fn ms(millis: f64) -> SimDuration {
    SimDuration::from_secs_f64_rounded(millis / 1e3)
}

pub fn mbit(rate: f64) -> Bandwidth {
    Bandwidth::from_bits_per_sec((rate * 1e6) as u64)
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub hosts: Vec<(String, Role, Bandwidth)>,
    /// Downlinks that differ from the uplink.
    pub downlinks: BTreeMap<u32, Bandwidth>,
    pub links: BTreeMap<(u32, u32), Path>,
    pub default_path: Path,
    pub clients: Vec<(HostId, [HostId; 3], HostId, LoadModel, SimTime)>,
    pub settings: Settings,
    pub tcp: TcpConfig,
    pub shaping: Shaping,
    pub uplink_queue: UplinkQueue,
    pub queue: QueueConfig,
    pub timeout: SimDuration,
    pub stall: SimDuration,
    pub server_stall: Option<SimDuration>,
    /// What every client's torrc says, and that of some, by client or service.
    pub options: ClientOptions,
    pub client_options: BTreeMap<u32, ClientOptions>,
    pub circuit_per_transfer: bool,
    pub trace: bool,
    /// One of the client's cells is followed after each such time.
    pub probe: Option<SimDuration>,
    /// How many users each client stands for.
    pub users: u32,
    /// A client's circuits take its own path and these in turn.
    pub other_paths: Vec<[HostId; 3]>,
    /// Exits that serve one port only; all others serve every port.
    pub exits_for: BTreeMap<HostId, u16>,
    /// Seconds from a client's boot to its start.
    pub boot_before: u64,
    /// Onion services, numbered after the clients, which run from the beginning.
    pub services: Vec<HostId>,
    /// By client or service: the relays of its onion-service circuits.
    pub onion: BTreeMap<u32, OnionRoute>,
}

/// The relays of a client's or service's onion-service circuits.
#[derive(Clone, Debug)]
pub struct OnionRoute {
    /// Of circuits built ahead, and to rendezvous points.
    pub internal: [HostId; 3],
    /// The third relay of circuits that are built with four from the start.
    pub third: HostId,
    /// A service's introduction points.
    pub introductions: Vec<HostId>,
}

struct Links(BTreeMap<(u32, u32), Path>, Path);

impl Topology for Links {
    fn path(&self, a: HostId, b: HostId) -> Path {
        self.0.get(&(a.0.min(b.0), a.0.max(b.0))).copied().unwrap_or(self.1)
    }
}

/// By client: the paths that its circuits take in turn, and its server; those of onion services; exits for one port only.
struct Fixed(Vec<(Vec<[HostId; 3]>, HostId)>, BTreeMap<u32, OnionRoute>, BTreeMap<HostId, u16>);

impl PathSource for Fixed {
    fn path(&self, request: &PathRequest<'_>) -> Option<[HostId; 3]> {
        if request.purpose == Purpose::Internal {
            return self.1.get(&request.client.0).map(|route| route.internal);
        }
        // A service has nothing to do outside, but expects to.
        let Some((paths, _)) = self.0.get(request.client.index()) else { return Some(self.1[&request.client.0].internal) };
        if let Some(exit) = request.exit {
            assert!(request.leg, "none but legs have an exit given");
            let fits = |path: &&[HostId; 3]| path[2] == exit && path[..2].iter().all(|relay| !request.exclude.contains(relay));
            return paths.iter().find(fits).copied();
        }
        let from = (0..paths.len()).map(|step| paths[(request.circuit as usize + step) % paths.len()]);
        let serves = |path: &[HostId; 3]| match request.purpose {
            Purpose::Exit { ports, .. } => ports.is_empty() || ports.iter().any(|&port| self.exits_to(path[2], port)),
            Purpose::Internal => true,
        };
        from.clone().find(serves).or_else(|| from.clone().next())
    }
    fn onion_path(&self, client: ClientId, _: u64, to: HostId, _: bool) -> Option<[HostId; 4]> {
        let route = &self.1[&client.0];
        Some([route.internal[0], route.internal[1], route.third, to])
    }
    fn introduction_point(&self, service: ClientId, ordinal: u64) -> Option<HostId> {
        let points = &self.1[&service.0].introductions;
        Some(points[ordinal as usize % points.len()])
    }
    fn exits_to(&self, relay: HostId, port: u16) -> bool {
        self.2.get(&relay).is_none_or(|&only| only == port)
    }
    fn server(&self, client: ClientId, _: u64) -> HostId {
        self.0[client.index()].1
    }
    /// The next of its paths with another middle, and the same or another entry and exit as is asked.
    fn spare(&self, request: &SpareRequest) -> Option<[HostId; 3]> {
        let paths = &self.0[request.client.index()].0;
        let [entry, middle, exit] = request.instead_of;
        let (same, kept) = (request.entry == SwitchEntry::Same, request.exit == SwitchExit::Kept);
        let fits = |path: &&[HostId; 3]| {
            (path[0] == entry) == same && path[1] != middle && (path[2] == exit) == kept && !path[1..].contains(&entry)
        };
        let after = paths.iter().position(|&path| path == request.instead_of).map_or(0, |place| place + 1);
        paths.iter().cycle().skip(after).take(paths.len()).find(fits).copied()
    }
}

impl Plan {
    /// Nothing yet; Linux's TCP, wires that serialise, one second of queue, every path 20 ms.
    pub fn new() -> Self {
        Self {
            seed: 1,
            hosts: Vec::new(),
            downlinks: BTreeMap::new(),
            links: BTreeMap::new(),
            default_path: Path { latency: ms(20.0), jitter: SimDuration::ZERO, loss: 0.0, beside: false },
            clients: Vec::new(),
            settings: Settings::default(),
            tcp: TcpConfig::linux(),
            shaping: Shaping::Serialise,
            uplink_queue: UplinkQueue::Sockets,
            queue: QueueConfig { discipline: QueueDiscipline::DropTail, limit: Bytes::new(2_000_000), limit_packets: None },
            timeout: SimDuration::from_secs(600),
            stall: SimDuration::from_secs(600),
            server_stall: None,
            options: ClientOptions::default(),
            client_options: BTreeMap::new(),
            circuit_per_transfer: false,
            trace: false,
            probe: None,
            users: 1,
            other_paths: Vec::new(),
            exits_for: BTreeMap::new(),
            boot_before: 10,
            services: Vec::new(),
            onion: BTreeMap::new(),
        }
    }

    /// As Shadow models links and TCP (`../shared/data/reference/README.md`).
    pub fn shadow(mut self) -> Self {
        self.tcp = TcpConfig::shadow();
        self.shaping = Shaping::TokenBatches { interval: SimDuration::from_millis(1) };
        let discipline = QueueDiscipline::CoDel { target: SimDuration::from_millis(10), interval: SimDuration::from_millis(100) };
        self.queue = QueueConfig { discipline, limit: Bytes::new(1_500_000), limit_packets: None };
        self
    }

    pub fn host(&mut self, name: &str, role: Role, rate: Bandwidth) -> HostId {
        self.hosts.push((name.to_owned(), role, rate));
        HostId(self.hosts.len() as u32 - 1)
    }

    pub fn relay(&mut self, name: &str, class: RelayClass, rate: Bandwidth) -> HostId {
        self.host(name, Role::Relay { class, limit: None }, rate)
    }

    pub fn link(&mut self, a: HostId, b: HostId, latency_ms: f64, loss: f32) {
        self.links.insert(
            (a.0.min(b.0), a.0.max(b.0)),
            Path { latency: ms(latency_ms), jitter: SimDuration::ZERO, loss, beside: false },
        );
    }

    pub fn client(&mut self, host: HostId, path: [HostId; 3], server: HostId, load: &str, start_s: u64) {
        let load = toml_load(load);
        self.clients.push((host, path, server, load, SimTime::ZERO + SimDuration::from_secs(start_s)));
    }

    pub fn world(&self) -> World {
        let hosts = self.hosts.iter().zip(0_u32..).map(|((name, role, rate), host)| {
            let (name, uplink_queue) = (name.clone(), self.uplink_queue);
            let down = self.downlinks.get(&host).copied().unwrap_or(*rate);
            (HostConfig { name, up: *rate, down, shaping: self.shaping, uplink_queue, queue: self.queue }, *role)
        });
        let clients = self.clients.iter().enumerate().map(|(index, (host, _, _, load, start))| ClientConfig {
            host: *host,
            load: Some(load.clone()),
            stream: RandomStream::new(Seed(self.seed), &format!("client{index}"), "load"),
            boot: SimTime::from_nanos(start.as_nanos().saturating_sub(self.boot_before * 1_000_000_000)),
            start: *start,
            stop: SimTime::MAX,
            timeout: self.timeout,
            stall: self.stall,
            server_stall: self.server_stall,
            options: self.client_options.get(&(index as u32)).copied().unwrap_or(self.options),
            circuit_per_transfer: self.circuit_per_transfer,
            users: self.users,
            spread: SimDuration::ZERO,
            record: true,
            trace: self.trace,
            latency: false,
            probe: self.probe.filter(|_| !self.onion.contains_key(&(index as u32))),
        });
        let services = (self.clients.len() as u32..).zip(&self.services).map(|(index, &host)| ClientConfig {
            host,
            load: None,
            stream: RandomStream::new(Seed(self.seed), "service", "load"),
            boot: SimTime::ZERO,
            start: SimTime::ZERO,
            stop: SimTime::MAX,
            timeout: self.timeout,
            stall: self.stall,
            server_stall: self.server_stall,
            options: self.client_options.get(&index).copied().unwrap_or_default(),
            circuit_per_transfer: false,
            users: 1,
            spread: SimDuration::ZERO,
            record: true,
            trace: false,
            latency: false,
            probe: None,
        });
        let paths = self.clients.iter().map(|(_, path, server, _, _)| {
            let own = std::iter::once(*path).chain(self.other_paths.iter().copied());
            (own.collect(), *server)
        });
        World::new(WorldConfig {
            seed: Seed(self.seed),
            hosts: hosts.collect(),
            topology: Box::new(Links(self.links.clone(), self.default_path)),
            tcp: self.tcp.clone(),
            settings: self.settings.clone(),
            clients: clients.chain(services).collect(),
            paths: Box::new(Fixed(paths.collect(), self.onion.clone(), self.exits_for.clone())),
        })
    }

    /// Runs for `seconds` and returns everything recorded, sampled each second.
    pub fn run(&self, seconds: u64) -> (World, Records) {
        let mut world = self.world();
        for second in 1..=seconds {
            let time = SimTime::ZERO + SimDuration::from_secs(second);
            world.run_until(time);
            world.sample(time);
        }
        world.finish();
        let records = world.take_records();
        (world, records)
    }
}

/// A load as an experiment file writes it.
pub fn toml_load(text: &str) -> LoadModel {
    toml::from_str(text).expect("a test's load is well formed")
}

/// Client, guard, middle, exit and server in a row, relays of `rate`, 20 ms a hop; the topology of the reference `E0`.
pub fn in_a_row(rate: Bandwidth, load: &str) -> Plan {
    let mut plan = Plan::new();
    let client = plan.host("client1", Role::Client, mbit(1000.0));
    let guard = plan.relay("guard1", RelayClass::Guard, rate);
    let middle = plan.relay("middle1", RelayClass::Middle, rate);
    let exit = plan.relay("exit1", RelayClass::Exit, rate);
    let server = plan.host("server", Role::Server, mbit(1000.0));
    plan.client(client, [guard, middle, exit], server, load, 20);
    plan
}
