//! A relay for tests of one mechanism: channels to other relays, and circuits whose cells are put into their queues by hand.

use crate::cell::{Cell, CellKind};
use crate::channel::Attached;
use crate::circuit::Circuit;
use crate::ids::{CircuitId, ClientId, EndId};
use crate::queues::Direction;
use crate::records::CircuitSerial;
use crate::world::Event;
use crate::{PathRequest, PathSource, RelayClass, Role, Settings, World, WorldConfig};
use onionlab_engine::HostId;
use onionlab_net::tcp::TcpConfig;
use onionlab_net::{HostConfig, Path, QueueConfig, QueueDiscipline, Shaping, Topology, UplinkQueue};
use onionlab_quantities::{Bandwidth, Bytes, Seed, SimDuration, SimTime};

/// The relay's place in circuits, and the place of the relay behind it.
const HERE: u8 = 1;

struct Everywhere(Path);
impl Topology for Everywhere {
    fn path(&self, _: HostId, _: HostId) -> Path {
        self.0
    }
}

struct Nowhere;
impl PathSource for Nowhere {
    fn path(&self, _: &PathRequest<'_>) -> Option<[HostId; 3]> {
        None
    }
    fn exits_to(&self, _: HostId, _: u16) -> bool {
        false
    }
    fn server(&self, _: ClientId, _: u64) -> HostId {
        HostId(0)
    }
}

/// Host 0, a relay, with an open channel to each of `others` relays 1 ms away, a second after the start. No link has a limit.
pub(crate) struct Bench {
    pub world: World,
    /// The relay's ends of its channels.
    pub ends: Vec<EndId>,
}

impl Bench {
    pub const RELAY: HostId = HostId(0);

    pub fn new(settings: Settings, others: u32) -> Self {
        Self::with_tcp(settings, others, TcpConfig::linux())
    }

    pub fn with_tcp(settings: Settings, others: u32, tcp: TcpConfig) -> Self {
        let near = Path { latency: SimDuration::from_millis(1), jitter: SimDuration::ZERO, loss: 0.0, beside: false };
        Self::over(near, Seed(1), settings, others, tcp)
    }

    /// The same with other paths, and what they lose drawn from this seed.
    pub fn over(path: Path, seed: Seed, settings: Settings, others: u32, tcp: TcpConfig) -> Self {
        let fast = Bandwidth::UNLIMITED;
        let host = |index: u32| {
            let link = HostConfig {
                name: format!("relay{index}"),
                up: fast,
                down: fast,
                shaping: Shaping::Serialise,
                uplink_queue: UplinkQueue::Sockets,
                queue: QueueConfig { discipline: QueueDiscipline::DropTail, limit: Bytes::new(10_000_000), limit_packets: None },
            };
            (link, Role::Relay { class: RelayClass::Middle, limit: None })
        };
        let mut world = World::new(WorldConfig {
            seed,
            hosts: (0..=others).map(host).collect(),
            topology: Box::new(Everywhere(path)),
            tcp,
            settings,
            clients: Vec::new(),
            paths: Box::new(Nowhere),
        });
        let ends = (1..=others)
            .map(|to| world.channel_between(Self::RELAY, HostId(to)).expect("there is no limit of sockets"))
            .collect();
        let mut bench = Self { world, ends };
        bench.advance_to(SimTime::from_nanos(1_000_000_000));
        bench
    }

    /// A circuit that leaves the relay through its channel number `channel`; whatever arrives there is forgotten.
    pub fn circuit(&mut self, channel: usize) -> CircuitId {
        self.circuit_from(self.ends[channel])
    }

    /// The same, on a stream of its own of the QUIC connection that this channel is.
    pub fn circuit_in_stream(&mut self, channel: usize) -> CircuitId {
        let stream = self.world.open_stream(self.ends[channel]);
        self.circuit_from(stream)
    }

    /// A circuit that comes to the relay through its channel number `channel`, and ends there: what arrives is paid for and forgotten.
    pub fn incoming_circuit(&mut self, channel: usize) -> CircuitId {
        self.circuit_from(self.ends[channel].peer())
    }

    fn circuit_from(&mut self, end: EndId) -> CircuitId {
        let now = self.world.now();
        let [here, next] = [end, end.peer()].map(|end| self.world.ends[end.index()].host);
        let mut circuit = Circuit::new(ClientId::NONE, [next, here, next, next], self.world.circuit_edges(), now);
        for (place, hop) in circuit.hops.iter_mut().enumerate() {
            hop.closed = place != HERE as usize;
        }
        circuit.live_cells = 1;
        let id = CircuitId(self.world.circuits.len() as u32);
        let attached = Attached { circuit: id, hop: HERE, outward: true };
        let slot = self.world.ends[end.index()].attach(&self.world.settings.scheduling.circuitmux, now, attached, 0);
        self.world.channel_logs[end.channel()].attached();
        let side = &mut circuit.hops[HERE as usize].sides[Direction::ToExit as usize];
        (side.end, side.slot) = (end, slot);
        self.world.circuits.push(circuit);
        self.world.serials.push(CircuitSerial(id.0));
        id
    }

    /// So many DATA cells join the circuit's queue now; the schedulers have not run yet.
    pub fn queue(&mut self, circuit: CircuitId, cells: u32) {
        for _ in 0..cells {
            self.world.circuits[circuit.index()].live_cells += 1;
            self.world.append_cell(circuit, HERE, Direction::ToExit, Cell::new(CellKind::Data, circuit).for_hop(3));
        }
    }

    /// The clock stands at `time`, and everything until then has happened.
    pub fn advance_to(&mut self, time: SimTime) {
        // A timer of the scheduler at a relay without cells does nothing but move the clock.
        self.world.queue.schedule(time, HostId(1), Event::RunScheduler);
        self.world.run_until(time);
    }
}
