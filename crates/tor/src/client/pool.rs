//! The circuits of a client: which are built ahead, and what is launched (`core/or/circuituse.c`). How streams get them is in `attaching`, how they end in `expiry`.

use super::{PathRequest, Purpose};
use crate::circuit::{CircuitState, HOPS, Intent};
use crate::ids::{CircuitId, ClientId};
use crate::records::CircuitSerial;
use crate::world::{Event, World};
use onionlab_engine::HostId;
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
    /// All that there are, in tor's order.
    pub(super) all: Vec<CircuitId>,
    /// Those that no stream has used, being built or built. There are never many.
    pub clean: Vec<CircuitId>,
    /// Those that streams have used which share circuits, the latest last.
    pub(super) shared: Vec<CircuitId>,
    /// All that streams have used, in the order of their first, and a service's to rendezvous points, from when they were open; some are closed by now.
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
            all: Vec::new(),
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

pub(super) fn long_lived(port: u16) -> bool {
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
        let mut next = state.config.second_from(time.max(now));
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
        let internal = || unused.iter().map(|id| &self.circuits[id.index()]).filter(|circuit| circuit.intent == Intent::Internal);
        // tor means to ask whether Stable ones are expected, and asks whether it can be told (`needs_hs_client_circuits`): when they no longer are,
        // it goes on launching others, a second apart, until there are as many unused circuits as it allows.
        let stable = internal().filter(|circuit| circuit.stable).count();
        let too_few = internal().count() < self.settings.client.internal || stable < self.settings.client.stable_internal;
        let serves = self.is_service(client);
        if (state.ports.internal_predicted(now) || serves) && too_few {
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
    pub(super) fn launch(&mut self, client: ClientId, purpose: Purpose<'_>, stable: bool) -> Option<CircuitId> {
        if self.has_failed_too_often(client) {
            return None;
        }
        let state = &self.clients[client.index()];
        let request = PathRequest { client, circuit: state.pool.launched, purpose, stable, leg: false, exclude: &[], exit: None };
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
    pub(super) fn is_served(&self, client: ClientId, relay: HostId, port: u16) -> bool {
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
        let request = PathRequest { client, circuit, purpose, stable: false, leg: false, exclude: &[], exit: None };
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
        let learning = parameters.learn && !state.learner.learned(parameters);
        let idle = if learning { parameters.learning_idle } else { state.ports.idle_timeout(now) };
        let id = self.new_circuit(client, path);
        let circuit = &mut self.circuits[id.index()];
        circuit.intent = intent;
        circuit.stable = stable;
        circuit.idle_timeout = idle;
        self.join_list(client, id);
        let pool = &mut self.clients[client.index()].pool;
        pool.clean.push(id);
        pool.building += 1;
        self.second_by(client, now);
        id
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
        } else if self.circuits[id.index()].intent != Intent::Internal || self.settings.client.internal_failures {
            // Since vanguards-lite those within the network have a purpose of their own, for which `circuit_has_opened` does nothing.
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
        self.leave_list(client, id);
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
