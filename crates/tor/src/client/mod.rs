//! The client: a tor process and the program behind it.
//!
//! The program opens streams, flow by flow as its load says (`flows`); tor gives each a circuit (`transfers`) out of those that it has built ahead or builds for it
//! (`attaching`, `pool`, `list`), and gives circuits up that take longer than it has learned to expect (`build_timeout`) or are old (`expiry`).

mod attaching;
mod build_timeout;
mod expiry;
mod flows;
mod list;
mod options;
mod pool;
mod ports;
mod program;
mod transfers;

pub use build_timeout::{BuildTimeModel, BuildTimeoutParameters};
pub(crate) use flows::{Flow, Sequence};
pub use options::ClientOptions;
pub(crate) use program::Writer;
pub(crate) use transfers::{PROGRAM_SOCKET, Transfer};

use crate::circuit::CircuitState;
use crate::ids::{CircuitId, ClientId, EndId, MeetingId, SequenceId, SetId, TransferId};
use crate::onion::Introduction;
use crate::records::Outcome;
use crate::settings::ClientSettings;
use crate::switching::SpareRequest;
use crate::world::{Event, World};
use build_timeout::BuildTimeout;
use onionlab_engine::HostId;
use onionlab_load::{LoadModel, user_stream};
use onionlab_quantities::{RandomStream, SimDuration, SimTime};
use pool::{Pool, SECOND};
use ports::PredictedPorts;

/// What a client wants a circuit for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose<'a> {
    /// Streams to these ports, at most four of them, the most wanted first; none: any port will do.
    Exit {
        /// The ports.
        ports: &'a [u16],
        /// Streams wait for them, so that the exit shall serve as many of them as can be; else they are foreseen, and one that serves any of them
        /// will do (`choose_good_exit_server_general`).
        pending: bool,
    },
    /// It ends at a relay of the client's choice: built ahead for onion services, or to a rendezvous point.
    Internal,
}

/// A client wants the relays of a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathRequest<'a> {
    /// Who.
    pub client: ClientId,
    /// Number of the circuit among those of this client, from 0.
    pub circuit: u64,
    /// What for.
    pub purpose: Purpose<'a>,
    /// Only relays that stay up long will do (`NEED_UPTIME`).
    pub stable: bool,
    /// It is a leg of a Conflux set, whose guard may be of its exit's family or subnet.
    pub leg: bool,
    /// Relays that may not be guard or middle: those of the other legs of a Conflux set.
    pub exclude: &'a [HostId],
    /// The exit, where it is given: that of the other legs.
    pub exit: Option<HostId>,
}

/// Where a client's circuits and streams go: functions of the client and an ordinal, the same under every treatment.
pub trait PathSource: Send {
    /// Guard, middle and exit (or last relay) of a circuit; none if there is no such path.
    fn path(&self, request: &PathRequest<'_>) -> Option<[HostId; 3]>;
    /// Whether the relay lets streams to this port out.
    fn exits_to(&self, relay: HostId, port: u16) -> bool;
    /// The server of a client's stream, or the host of an onion service. The key is the same under every treatment; where each flow of a client of one user has one stream, it is the flow's ordinal.
    fn server(&self, client: ClientId, stream: u64) -> HostId;
    /// The relays of a circuit of an onion service or its client that ends at this one, which somebody else has chosen, Stable ones where that is asked for; none if there is no
    /// such path. Asked only where there are onion services.
    fn onion_path(&self, _client: ClientId, _circuit: u64, _to: HostId, _stable: bool) -> Option<[HostId; 4]> {
        None
    }
    /// Whether two relays may stand in one circuit that is built ahead and gets a fourth relay. Asked only where there are onion services.
    fn compatible(&self, a: HostId, b: HostId) -> bool {
        a != b
    }
    /// The relay at which an onion service lets itself be found: the n-th that it draws. Asked only where there are onion services.
    fn introduction_point(&self, _service: ClientId, _ordinal: u64) -> Option<HostId> {
        None
    }
    /// Relays for a spare circuit, of more bandwidth where there are such; none if there is no other path. Asked only where circuits are switched.
    fn spare(&self, _: &SpareRequest) -> Option<[HostId; 3]> {
        None
    }
}

/// One client: a tor process and the program behind it, on the same host. Or an onion service, which is the same, but answers where clients ask.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Its host.
    pub host: HostId,
    /// What it does. None: an onion service runs there, and does nothing of its own accord.
    pub load: Option<LoadModel>,
    /// How many users it stands for, at least one.
    pub users: u32,
    /// The random values of its load.
    pub stream: RandomStream,
    /// Its tor starts and builds circuits.
    pub boot: SimTime,
    /// Its program starts the first flow.
    pub start: SimTime,
    /// Where several users have flows of their own: the first flow of each but the first user starts within so long after `start`.
    pub spread: SimDuration,
    /// It starts no stream at this time or later.
    pub stop: SimTime,
    /// A stream that takes longer has failed, unless the load has another limit for it.
    pub timeout: SimDuration,
    /// A stream on which nothing arrives for so long has failed.
    pub stall: SimDuration,
    /// Servers close a connection of its streams on which they have neither received nor written anything for so long; none: they never do.
    pub server_stall: Option<SimDuration>,
    /// What its torrc says.
    pub options: ClientOptions,
    /// A circuit of its own for each flow, as `IsolateSOCKSAuth` with new credentials gives.
    pub circuit_per_transfer: bool,
    /// Its streams and circuits leave rows in the records; otherwise they are only counted.
    pub record: bool,
    /// The congestion control at the exits of its circuits is recorded at each SENDME.
    pub trace: bool,
    /// How long payload takes over its circuits, from the exit to the entry, is recorded; not where circuits change channels.
    pub latency: bool,
    /// Of the DATA cells that it sends one is followed to the server each time so long has passed since the last (module `probes`); none: none is.
    pub probe: Option<SimDuration>,
}

impl ClientConfig {
    /// The first of its tor's seconds, which it counts from its boot, that is not before `time`.
    pub(crate) fn second_from(&self, time: SimTime) -> SimTime {
        self.boot + SimDuration::from_nanos(time.saturating_since(self.boot).as_nanos().next_multiple_of(SECOND.as_nanos()))
    }

    /// The first of its tor's seconds at which a time-out that began at `since` is over by the clock on the wall, which tor reads in whole seconds (`time(NULL)`): up to a second earlier than
    /// exactly, or later, as the seconds lie. Those of simulated time are taken for the clock's.
    pub(crate) fn second_past(&self, since: SimTime, timeout: SimDuration) -> SimTime {
        let began = since.as_nanos() / SECOND.as_nanos() * SECOND.as_nanos();
        self.second_from(SimTime::from_nanos((began + timeout.as_nanos()).next_multiple_of(SECOND.as_nanos())))
    }
}

#[derive(Debug)]
pub(crate) struct Client {
    pub config: ClientConfig,
    pub pool: Pool,
    pub learner: BuildTimeout,
    pub ports: PredictedPorts,
    next_transfer: u64,
    /// Streams without a circuit, in the order in which they began to wait.
    pub waiting: Vec<TransferId>,
    /// Its Conflux sets, in the order of their launch.
    pub sets: Vec<SetId>,
    /// Onion services that it meets, in the order in which it began.
    pub meetings: Vec<MeetingId>,
    /// Exits that had no socket left for a stream of its, which are to it as if they refused all ports (`policies_set_node_exitpolicy_to_reject_all`).
    pub refusing: Vec<HostId>,
    /// As an onion service: its introduction points, and how many relays it has drawn for them.
    pub introductions: Vec<Introduction>,
    pub introductions_sought: u64,
    /// How often it has come to an introduction point.
    pub met: u64,
}

impl Client {
    pub fn new(config: ClientConfig, settings: &ClientSettings, random: RandomStream) -> Self {
        Self {
            pool: Pool::new(),
            learner: BuildTimeout::new(&settings.build_timeout),
            ports: PredictedPorts::new(random),
            next_transfer: 0,
            waiting: Vec::new(),
            sets: Vec::new(),
            meetings: Vec::new(),
            refusing: Vec::new(),
            introductions: Vec::new(),
            introductions_sought: 0,
            met: 0,
            config,
        }
    }
}

/// Members of a client's own random values, beside those of its users and loads (`user_stream`): the order of its Conflux sets, and at which points it meets services.
pub(crate) const SETS_ORDER: u64 = 1 << 62;
pub(crate) const INTRODUCTIONS: u64 = SETS_ORDER + 1;

impl World {
    pub(crate) fn boot(&mut self, client: ClientId) {
        let now = self.queue.now();
        let state = &mut self.clients[client.index()];
        state.ports.begin(now, &self.settings.client);
        let config = &state.config;
        let users = config.load.as_ref().map_or(0, |load| load.pace().sequences(config.users));
        let (start, stop, host, spread) = (config.start.max(now), config.stop, config.host, config.spread);
        for user in 0..users {
            let stream = user_stream(config.stream, user);
            // Beside the load's own values, which count up from zero.
            let offset = stream.member(u64::MAX).at(0).below(spread.as_nanos() + 1);
            let begin = if user == 0 { start } else { start + SimDuration::from_nanos(offset) };
            let id = SequenceId(self.sequences.len() as u32);
            self.sequences.push(Sequence { client, user, stream, next: 0 });
            if begin < stop {
                self.queue.schedule(begin, host, Event::NextFlow(id));
            }
        }
        self.second(client);
    }

    /// No client's load begins anything from this time on, which is still to come.
    pub fn stop_loads_at(&mut self, time: SimTime) {
        for client in &mut self.clients {
            client.config.stop = client.config.stop.min(time);
        }
    }

    /// Records what is still going on when the run ends: transfers as unfinished, circuits and channels as open.
    pub fn finish(&mut self) {
        let mut ids: Vec<_> = self.transfers.iter().map(|(id, _)| TransferId(id as u32)).collect();
        ids.sort_unstable_by_key(|id| (self.transfers[id.index()].client, self.transfers[id.index()].ordinal));
        for id in ids {
            self.record_transfer(id, Outcome::Unfinished);
        }
        for index in 0..self.circuits.len() {
            let circuit = &self.circuits[index];
            if circuit.state != CircuitState::Closed && self.clients[circuit.client.index()].config.record {
                let record = self.circuit_record(CircuitId(index as u32), false);
                self.records.circuits.push(record);
            }
        }
        self.finish_switches();
        self.finish_probes();
        let mut channels: Vec<u32> = (0..self.channel_logs.len() as u32).collect();
        channels.sort_unstable_by_key(|&channel| self.channel_logs[channel as usize].number);
        for channel in channels {
            self.record_channel(EndId(channel * 2), None);
        }
    }
}
