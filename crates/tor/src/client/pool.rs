//! The circuits of a client: built ahead, and built when a stream needs one (`core/or/circuituse.c`). How they end is in `expiry`.

use super::flows::Flow;
use super::transfers::Transfer;
use super::{PathRequest, Purpose};
use crate::circuit::{CircuitState, HOPS, Intent};
use crate::ids::{CircuitId, ClientId, FlowId, TransferId};
use crate::records::CircuitSerial;
use crate::world::{Event, World};
use onionlab_engine::{HostId, prefetch};
use onionlab_quantities::{SimDuration, SimTime};
use std::collections::VecDeque;

/// tor looks after its circuits each second.
pub(super) const SECOND: SimDuration = SimDuration::from_secs(1);
/// Unused circuits that suffice for a port (`MIN_CIRCUITS_HANDLING_STREAM`).
const ENOUGH_FOR_A_PORT: usize = 2;
/// With so many unused ones no more are built ahead (`MAX_UNUSED_OPEN_CIRCUITS`).
const MAX_UNUSED: usize = 14;
/// After so many failures in two periods in a row no circuit is launched (`MAX_CIRCUIT_FAILURES`).
pub(super) const MAX_FAILURES: u32 = 5;
/// Ports for which an exit is chosen at a time.
const MOST_PORTS: usize = 4;
/// So often a path is drawn that must not end at certain exits, and the bit from which on the number of its circuit says how often.
const MOST_DRAWS: u64 = 64;
const DRAWS_FROM: u32 = 40;
/// Streams to these ports want relays that stay up long (`LongLivedPorts`).
const LONG_LIVED: [u16; 12] = [21, 22, 706, 1863, 5050, 5190, 5222, 5223, 6523, 6667, 6697, 8300];

/// The circuits of one client.
#[derive(Debug)]
pub(crate) struct Pool {
    /// The ordinal of the next one, by which its path is drawn.
    pub launched: u64,
    /// The same of spares, which leave the others' paths as they are without switching.
    pub spares: u64,
    /// Those that no stream has used, being built or built. There are never many.
    pub clean: Vec<CircuitId>,
    /// Those that streams have used which share circuits, the latest last.
    pub(super) shared: Vec<CircuitId>,
    /// All that streams have used, in the order of their first; some are closed by now.
    pub dirty: VecDeque<(CircuitId, CircuitSerial)>,
    /// Those among them that take no new streams and are closed when their streams are over.
    pub(super) overdue: Vec<(CircuitId, CircuitSerial)>,
    /// How many of three relays are open, used or not, and were built in time (`circuit_any_opened_circuits`); and how many of any kind are being built.
    pub open: u32,
    pub building: u32,
    /// Failures in this period, and whether there were any in the one before.
    pub(super) failures: u32,
    pub(super) failed_before: bool,
    /// When it is looked after next, and when old circuits are.
    next_second: SimTime,
    next_sweep: SimTime,
}

impl Pool {
    pub const fn new() -> Self {
        Self {
            launched: 0,
            spares: 0,
            clean: Vec::new(),
            shared: Vec::new(),
            dirty: VecDeque::new(),
            overdue: Vec::new(),
            open: 0,
            building: 0,
            failures: 0,
            failed_before: false,
            next_second: SimTime::MAX,
            next_sweep: SimTime::ZERO,
        }
    }
}

/// What a client's circuits that nobody has used are to streams that wait.
struct Prospects {
    /// There may be some for any stream.
    for_any: bool,
    /// Those that somebody waits for.
    awaited: Vec<(FlowId, CircuitId)>,
    /// No more may be launched for streams.
    full: bool,
}

fn long_lived(port: u16) -> bool {
    LONG_LIVED.contains(&port)
}

impl World {
    /// What tor does each second for its circuits (`second_elapsed_callback`), as long as there is anything to do.
    pub(crate) fn second(&mut self, client: ClientId) {
        let now = self.queue.now();
        let pool = &mut self.clients[client.index()].pool;
        pool.next_second = SimTime::MAX;
        self.expire_building(client);
        self.expire_meetings(client);
        self.attach_waiting(client);
        self.keep_introductions(client);
        // After the period, as the seconds count (`time_to_expire_and_reset < now`).
        if self.clients[client.index()].pool.next_sweep < now {
            let state = &mut self.clients[client.index()];
            state.pool.next_sweep = now + state.config.options.new_circuit_period;
            self.sweep(client);
        }
        let sets = self.settings.client.predict && self.predict_sets(client);
        let launched = self.settings.client.predict && self.predict(client) || sets;
        let state = &self.clients[client.index()];
        let meets = self.is_meeting(client) || self.lacks_introductions(client);
        let busy = launched || state.pool.building > 0 || !state.waiting.is_empty() || meets;
        let test = state.learner.test_due(&self.settings.client.build_timeout);
        let test = test.filter(|&due| due > now && self.settings.client.predict).unwrap_or(SimTime::MAX);
        let next = if busy { now } else { state.pool.next_sweep.min(test) };
        self.second_by(client, next);
    }

    /// tor looks after its circuits at the first of its seconds that is later than now and not before `time`.
    pub(crate) fn second_by(&mut self, client: ClientId, time: SimTime) {
        let now = self.queue.now();
        let state = &mut self.clients[client.index()];
        let since = time.max(now).saturating_since(state.config.boot).as_nanos();
        let mut next = state.config.boot + SimDuration::from_nanos(since.next_multiple_of(SECOND.as_nanos()));
        if next <= now {
            next += SECOND;
        }
        if next < state.pool.next_second {
            state.pool.next_second = next;
            self.queue.schedule(next, state.config.host, Event::Second(client));
        }
    }

    /// The client's second has come, unless it was looked after in between.
    pub(crate) fn second_due(&mut self, client: ClientId) {
        if self.clients[client.index()].pool.next_second == self.queue.now() {
            self.second(client);
        }
    }

    /// Ports that will be wanted and have too few circuits that no stream has used, at most as many as an exit is chosen for. Legs of linked sets serve a port, each for itself;
    /// of a set in use all but the first, since its streams are noted on that one alone (`circuit_get_unhandled_ports`, `circuit_stream_is_being_handled`).
    pub(crate) fn unhandled_ports(&mut self, client: ClientId) -> Vec<u16> {
        let now = self.queue.now();
        let state = &mut self.clients[client.index()];
        let predicted: Vec<u16> = state.ports.predicted(now).collect();
        let pool = &self.clients[client.index()].pool;
        let unmarked = self.legs_without_streams(client);
        let is_handled = |port: u16| {
            let serves = |id: &&CircuitId| {
                let circuit = &self.circuits[id.index()];
                let takes_streams = circuit.intent == Intent::Exit || self.is_in_a_set(**id);
                let stable = circuit.stable || !long_lived(port);
                takes_streams
                    && !circuit.timed_out
                    && !circuit.unusable
                    && circuit.awaited_by.is_none()
                    && stable
                    && self.is_served(client, circuit.last_relay(), port)
            };
            pool.clean.iter().chain(&unmarked).filter(serves).count() >= ENOUGH_FOR_A_PORT
        };
        predicted.into_iter().filter(|&port| !is_handled(port)).take(MOST_PORTS).collect()
    }

    /// Of each set that takes new streams and has had some, the legs but the first: they share its time of first use, but not its isolation (`conflux_sync_circ_fields`).
    fn legs_without_streams(&self, client: ClientId) -> Vec<CircuitId> {
        let (now, lifetime) = (self.queue.now(), self.circuit_lifetime(client));
        let used = self.clients[client.index()].pool.dirty.iter();
        let here = used.filter(|&&(id, serial)| self.serials[id.index()] == serial).map(|&(id, _)| id);
        let young = here.filter(|id| {
            let circuit = &self.circuits[id.index()];
            circuit.state == CircuitState::Open
                && !circuit.unusable
                && circuit.first_used.is_some_and(|used| used + lifetime > now)
        });
        young.flat_map(|id| self.siblings(id)).collect()
    }

    /// Launches a circuit if too few are there (`circuit_predict_and_launch_new`).
    fn predict(&mut self, client: ClientId) -> bool {
        let now = self.queue.now();
        let unused = |circuit: &&CircuitId| {
            let circuit = &self.circuits[circuit.index()];
            !circuit.timed_out && !circuit.unusable && matches!(circuit.intent, Intent::Exit | Intent::Internal)
        };
        let unused: Vec<CircuitId> = self.clients[client.index()].pool.clean.iter().filter(unused).copied().collect();
        if unused.len() >= MAX_UNUSED {
            return false;
        }
        let wanted = self.unhandled_ports(client);
        if !wanted.is_empty() {
            let stable = wanted.iter().any(|&port| long_lived(port));
            return self.launch(client, Purpose::Exit { ports: &wanted, pending: false }, stable).is_some();
        }
        let state = &self.clients[client.index()];
        let internal = unused.iter().filter(|circuit| self.circuits[circuit.index()].intent == Intent::Internal).count();
        let serves = self.is_service(client);
        if (state.ports.internal_predicted(now) || serves) && internal < self.settings.client.internal {
            if serves {
                self.clients[client.index()].ports.used_internal(now, &self.settings.client);
            }
            let stable = serves || self.clients[client.index()].ports.stable_internal_predicted(now);
            if self.launch(client, Purpose::Internal, stable).is_some() {
                return true;
            }
        }
        let state = &mut self.clients[client.index()];
        let parameters = &self.settings.client.build_timeout;
        if unused.len() < parameters.max_unused as usize && state.learner.test_due(parameters).is_some_and(|due| due <= now) {
            // No port lacks circuits here, so that any exit does.
            return self.launch(client, Purpose::Exit { ports: &[], pending: false }, false).is_some();
        }
        false
    }

    /// `circuit_launch`
    fn launch(&mut self, client: ClientId, purpose: Purpose<'_>, stable: bool) -> Option<CircuitId> {
        if self.has_failed_too_often(client) {
            return None;
        }
        let state = &self.clients[client.index()];
        let request = PathRequest { client, circuit: state.pool.launched, purpose, stable, exclude: &[], exit: None };
        let path = match purpose {
            Purpose::Exit { .. } => self.exit_path(&request),
            Purpose::Internal => self.paths.path(&request),
        };
        let Some(path) = path else {
            // What is drawn for the next number may do.
            self.clients[client.index()].pool.launched += 1;
            return None;
        };
        let intent = match purpose {
            Purpose::Exit { .. } => Intent::Exit,
            Purpose::Internal => Intent::Internal,
        };
        let id = self.launch_on(client, path, intent, stable);
        self.extend_from(id, 0);
        Some(id)
    }

    /// Whether the relay lets the client's streams to this port out, as far as the client knows.
    fn is_served(&self, client: ClientId, relay: HostId, port: u16) -> bool {
        self.paths.exits_to(relay, port) && !self.clients[client.index()].refusing.contains(&relay)
    }

    /// The path that is asked for, drawn anew as long as it ends at an exit that refuses this client.
    pub(crate) fn exit_path(&self, request: &PathRequest<'_>) -> Option<[HostId; 3]> {
        let refusing = &self.clients[request.client.index()].refusing;
        let draws = if refusing.is_empty() { 1 } else { MOST_DRAWS };
        let drawn = |draw: u64| self.paths.path(&PathRequest { circuit: request.circuit + (draw << DRAWS_FROM), ..*request });
        (0..draws).filter_map(drawn).find(|path| !refusing.contains(&path[2]))
    }

    /// The exit had no socket left for a stream of the client. It is asked no more, unless the client knows no other.
    ///
    /// Whether it is one of those that take nothing: not if no other was left.
    pub(super) fn exit_refuses(&mut self, client: ClientId, exit: HostId, port: u16) -> bool {
        let state = &mut self.clients[client.index()];
        if state.refusing.contains(&exit) {
            return true;
        }
        state.refusing.push(exit);
        let (circuit, purpose) = (state.pool.launched, Purpose::Exit { ports: &[port], pending: true });
        let request = PathRequest { client, circuit, purpose, stable: false, exclude: &[], exit: None };
        let others = self.exit_path(&request).is_some();
        if !others {
            self.clients[client.index()].refusing.pop();
        }
        others
    }

    /// Whether nothing is launched because too much has failed.
    pub(crate) fn has_failed_too_often(&self, client: ClientId) -> bool {
        let pool = &self.clients[client.index()].pool;
        pool.failed_before && pool.failures > MAX_FAILURES
    }

    /// A circuit over these relays, which counts among those being built from now on.
    pub(crate) fn launch_on(&mut self, client: ClientId, path: [HostId; 3], intent: Intent, stable: bool) -> CircuitId {
        let now = self.queue.now();
        let state = &mut self.clients[client.index()];
        let ordinal = if intent == Intent::Spare { &mut state.pool.spares } else { &mut state.pool.launched };
        *ordinal += 1;
        state.learner.launched(now);
        let parameters = &self.settings.client.build_timeout;
        let idle = match self.settings.client.unused_idle {
            _ if parameters.learn && !state.learner.learned(parameters) => parameters.learning_idle,
            Some(idle) => idle,
            None => state.ports.idle_timeout(now),
        };
        let id = self.new_circuit(client, path);
        let circuit = &mut self.circuits[id.index()];
        circuit.intent = intent;
        circuit.stable = stable;
        circuit.idle_timeout = idle;
        let pool = &mut self.clients[client.index()].pool;
        pool.clean.push(id);
        pool.building += 1;
        self.second_by(client, now);
        id
    }

    /// The stream gets a circuit that is open, or waits for one that is on its way, launched now if there is none
    /// (`circuit_get_open_circ_or_launch`).
    pub(crate) fn attach_or_wait(&mut self, id: TransferId) {
        if self.transfers[id.index()].service.is_some() {
            self.attach_to_service(id);
            return;
        }
        let client = self.transfers[id.index()].client;
        if self.attach(id) {
            return;
        }
        let state = &mut self.clients[client.index()];
        if !state.waiting.contains(&id) {
            state.waiting.push(id);
        }
        let (port, owner) = (self.transfers[id.index()].port, self.owner(id));
        let circuit = self.on_its_way(client, port, owner).or_else(|| {
            let may = self.pending(client) < self.clients[client.index()].config.options.max_pending as usize;
            may.then(|| self.launch(client, Purpose::Exit { ports: &[port], pending: true }, long_lived(port))).flatten()
        });
        if let Some(circuit) = circuit {
            self.circuits[circuit.index()].awaited_by = Some(owner);
        }
        self.second_by(client, self.queue.now());
    }

    /// Whose circuit the stream needs: its flow's, or that of all flows that share circuits.
    fn owner(&self, id: TransferId) -> FlowId {
        let flow = self.transfers[id.index()].flow;
        if self.flows[flow.index()].isolated { flow } else { FlowId::NONE }
    }

    /// The flow is over: what was launched for it is nobody's until it is open.
    pub(super) fn flow_awaits_nothing(&mut self, client: ClientId, flow: FlowId) {
        for id in &self.clients[client.index()].pool.clean {
            let owner = &mut self.circuits[id.index()].awaited_by;
            if *owner == Some(flow) {
                *owner = Some(FlowId::NONE);
            }
        }
    }

    /// The best circuit that is being built and that nobody else waits for.
    fn on_its_way(&self, client: ClientId, port: u16, owner: FlowId) -> Option<CircuitId> {
        let fits = |id: &&CircuitId| {
            let circuit = &self.circuits[id.index()];
            circuit.state == CircuitState::Building && circuit.is_for(owner) && self.takes(**id, port)
        };
        let rank = |id: &&CircuitId| (!self.circuits[id.index()].relaxed, self.circuits[id.index()].launched);
        self.clients[client.index()].pool.clean.iter().filter(fits).max_by_key(rank).copied()
    }

    /// Circuits for streams that are being built (`count_pending_general_client_circuits`).
    fn pending(&self, client: ClientId) -> usize {
        let pending = |circuit: &&CircuitId| {
            let circuit = &self.circuits[circuit.index()];
            circuit.state == CircuitState::Building && circuit.intent == Intent::Exit && !circuit.timed_out
        };
        self.clients[client.index()].pool.clean.iter().filter(pending).count()
    }

    /// Whether the circuit is one for new streams to this port, open or not (`circuit_is_acceptable`).
    fn takes(&self, id: CircuitId, port: u16) -> bool {
        let circuit = &self.circuits[id.index()];
        let dirty = circuit.first_used.is_some_and(|used| used + self.circuit_lifetime(circuit.client) <= self.queue.now());
        !dirty
            && self.takes_streams(id)
            && (circuit.stable || !long_lived(port))
            && self.is_served(circuit.client, circuit.last_relay(), port)
    }

    /// The same as far as the port does not matter.
    fn takes_streams(&self, id: CircuitId) -> bool {
        let circuit = &self.circuits[id.index()];
        !circuit.unusable && !circuit.timed_out && (circuit.intent == Intent::Exit || self.leads_a_set(id))
    }

    /// The best open circuit for the stream: one that is not late, of those in use the one that was used first most recently, of the others the youngest
    /// (`circuit_get_best`, `circuit_is_better`).
    fn best_circuit(&self, id: TransferId) -> Option<CircuitId> {
        let transfer = &self.transfers[id.index()];
        let pool = &self.clients[transfer.client.index()].pool;
        let flow = &self.flows[transfer.flow.index()];
        let used = if flow.isolated { &flow.circuits } else { &pool.shared };
        let owner = self.owner(id);
        let open = |id: &&CircuitId| {
            let circuit = &self.circuits[id.index()];
            circuit.state == CircuitState::Open && circuit.is_for(owner) && self.takes(**id, transfer.port)
        };
        let rank = |id: &&CircuitId| {
            let circuit = &self.circuits[id.index()];
            if circuit.intent == Intent::Leg {
                // The first in the order of a hash table whose keys are random (`conflux_get_circ_for_conn`).
                return (true, false, None, self.sets[circuit.set.index()].place);
            }
            (false, !circuit.relaxed, circuit.first_used, (circuit.began - SimTime::ZERO).as_nanos())
        };
        used.iter().chain(&pool.clean).filter(open).max_by_key(rank).copied()
    }

    fn attach(&mut self, id: TransferId) -> bool {
        let now = self.queue.now();
        let Some(best) = self.best_circuit(id) else { return false };
        let transfer = &self.transfers[id.index()];
        let (client, flow_id) = (transfer.client, transfer.flow);
        self.clients[client.index()].waiting.retain(|&other| other != id);
        if self.circuits[best.index()].first_used.is_none() {
            let isolated = self.flows[flow_id.index()].isolated.then_some(flow_id);
            self.first_use(client, best, isolated);
            self.second_by(client, now);
        }
        self.attach_to(id, best);
        self.provide_spare(best);
        true
    }

    /// A stream is the first to use the circuit, for its flow alone where that is given.
    pub(crate) fn first_use(&mut self, client: ClientId, id: CircuitId, flow: Option<FlowId>) {
        let serial = self.serials[id.index()];
        self.circuits[id.index()].first_used = Some(self.queue.now());
        let legs = self.siblings(id);
        let pool = &mut self.clients[client.index()].pool;
        pool.clean.retain(|other| *other != id && !legs.contains(other));
        pool.dirty.push_back((id, serial));
        match flow {
            Some(flow) => {
                self.circuits[id.index()].flow = flow;
                self.flows[flow.index()].circuits.push(id);
            }
            None => pool.shared.push(id),
        }
    }

    /// Streams that wait try again (`connection_ap_attach_pending`).
    ///
    /// Where a client stands for many users hundreds wait, and one circuit more or less changes nothing for nearly all of them.
    pub(crate) fn attach_waiting(&mut self, client: ClientId) {
        let waiting = self.clients[client.index()].waiting.clone();
        let mut prospects = self.prospects(client);
        let mut as_before = true;
        for (index, &id) in waiting.iter().enumerate() {
            self.prefetch_waiting(&waiting, index);
            // The ones before may have led to the end of this one.
            if !as_before && !self.clients[client.index()].waiting.contains(&id) {
                continue;
            }
            if self.waits_on(id, &prospects) {
                self.second_by(client, self.queue.now());
                continue;
            }
            self.attach_or_wait(id);
            prospects = self.prospects(client);
            as_before = false;
        }
    }

    /// Fetches the streams that come soon, and the flows of those that come next.
    fn prefetch_waiting(&self, waiting: &[TransferId], index: usize) {
        if let Some(id) = waiting.get(index + 16) {
            prefetch(&self.transfers[id.index()], size_of::<Transfer>());
        }
        if let Some(id) = waiting.get(index + 8) {
            prefetch(&self.flows[self.transfers[id.index()].flow.index()], size_of::<Flow>());
        }
    }

    fn prospects(&self, client: ClientId) -> Prospects {
        let pool = &self.clients[client.index()].pool;
        let mut prospects = Prospects { for_any: !pool.shared.is_empty(), awaited: Vec::new(), full: false };
        for &id in &pool.clean {
            match self.circuits[id.index()].awaited_by {
                _ if !self.takes_streams(id) => {}
                Some(owner) => prospects.awaited.push((owner, id)),
                None => prospects.for_any = true,
            }
        }
        prospects.full = self.pending(client) >= self.clients[client.index()].config.options.max_pending as usize;
        prospects
    }

    /// Whether [`Self::attach_or_wait`] would change nothing for a stream that waits already: no circuit is open for it, and either one that is being built is its own or no
    /// more may be launched.
    fn waits_on(&self, id: TransferId, prospects: &Prospects) -> bool {
        let transfer = &self.transfers[id.index()];
        let flow = &self.flows[transfer.flow.index()];
        if prospects.for_any || transfer.service.is_some() || flow.isolated && !flow.circuits.is_empty() {
            return false;
        }
        let owner = self.owner(id);
        let own = |circuit: CircuitState| {
            let of_owner = prospects.awaited.iter().filter(|(other, _)| *other == owner);
            of_owner.filter(|(_, id)| self.circuits[id.index()].state == circuit && self.takes(*id, transfer.port)).count()
        };
        let waits = own(CircuitState::Open) == 0 && (prospects.full || own(CircuitState::Building) > 0);
        debug_assert!(!waits || self.best_circuit(id).is_none(), "a circuit is open for the stream");
        waits
    }

    /// A hop of the circuit was added (`circuit_build_times_handle_completed_hop`).
    pub(crate) fn hop_added(&mut self, id: CircuitId) {
        let now = self.queue.now();
        let circuit = &self.circuits[id.index()];
        let (client, took) = (circuit.client, now.saturating_since(circuit.began));
        let open = circuit.state == CircuitState::Open;
        let parameters = &self.settings.client.build_timeout;
        let state = &mut self.clients[client.index()];
        state.learner.heard(now);
        // How long circuits take is how long three relays take (`circuit_timeout_want_to_count_circ`).
        let counts = circuit.hops.last() as usize == HOPS - 1;
        let looks = parameters.learn && parameters.at_each_hop;
        let late = counts && looks && took > state.learner.timeout() && state.pool.open > 0;
        if late {
            self.mark_timed_out(id);
        }
        if !open {
            return;
        }
        let in_time = !self.circuits[id.index()].timed_out;
        let state = &mut self.clients[client.index()];
        if counts {
            state.learner.built(&self.settings.client.build_timeout, took, in_time);
        }
        state.pool.building -= 1;
        state.pool.open += u32::from(counts && in_time);
        // Any circuit that is built shows that the network works (`circuit_reset_failure_count`).
        (state.pool.failures, state.pool.failed_before) = (0, false);
        if in_time && self.circuits[id.index()].intent == Intent::Leg {
            self.leg_opened(id);
        } else if self.circuits[id.index()].intent == Intent::Spare {
            self.spare_opened(id, in_time);
        } else if !in_time {
            // It has shown how long it takes, which is all that it was still built for (`circuit_build_no_more_hops`).
            self.close_at(id, 0, None);
        } else if self.circuits[id.index()].hops.onion.is_some() {
            self.onion_circuit_opened(id);
        } else {
            self.attach_waiting(client);
            // Nobody took it who had waited for it: it is anybody's (`circuit_try_clearing_isolation_state`).
            if self.circuits[id.index()].awaited_by.take().is_some() && self.circuits[id.index()].first_used.is_none() {
                self.attach_waiting(client);
            }
        }
    }

    /// A circuit is gone: what it carried has failed.
    pub(crate) fn circuit_lost(&mut self, client: ClientId, id: CircuitId, was: CircuitState) {
        let now = self.queue.now();
        if self.switching.is_some() {
            self.start_over_on_spare(id);
        }
        let circuit = &self.circuits[id.index()];
        let general = match circuit.intent {
            Intent::Exit | Intent::Spare => !circuit.timed_out,
            Intent::Internal => !circuit.timed_out && self.settings.client.internal_failures,
            _ => false,
        };
        let fails = general || matches!(circuit.intent, Intent::Rendezvous | Intent::Introduction);
        let was_counted = circuit.hops.last() as usize == HOPS - 1 && !circuit.timed_out;
        let pool = &mut self.clients[client.index()].pool;
        match was {
            // Others than these do not count as failures (`circuit_build_failed`).
            CircuitState::Building => {
                pool.building -= 1;
                pool.failures += u32::from(fails);
            }
            CircuitState::Open => pool.open -= u32::from(was_counted),
            CircuitState::Closed => {}
        }
        if self.circuits[id.index()].first_used.is_none() {
            pool.clean.retain(|&other| other != id);
        } else {
            self.forget_for_streams(id);
        }
        if self.circuits[id.index()].hops.onion.is_some() {
            self.meeting_lost(id);
        }
        self.second_by(client, now);
        self.fail_streams(id);
        if self.switching.is_some() {
            self.lost_by_client(id);
        }
    }
}
