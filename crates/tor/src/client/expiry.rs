//! The end of a client's circuits: given up when they take too long, closed when they are old or nothing has ever used them
//! (`core/or/circuituse.c`).

use super::pool::{MAX_FAILURES, SECOND};
use crate::circuit::{CircuitState, HOPS, Intent};
use crate::ids::{CircuitId, ClientId, FlowId};
use crate::records::CloseReason;
use crate::world::World;
use onionlab_quantities::{SimDuration, SimTime};

impl World {
    /// The circuit took too long: nothing will use it, but it is built on for measurement (`circuit_build_times_mark_circ_as_measurement_only`).
    pub(super) fn mark_timed_out(&mut self, id: CircuitId) {
        let circuit = &mut self.circuits[id.index()];
        if std::mem::replace(&mut circuit.timed_out, true) {
            return;
        }
        let relaxed = circuit.relaxed;
        let (client, first_hop) = (circuit.client, circuit.built > 0);
        if circuit.intent == Intent::Leg {
            circuit.intent = Intent::Exit;
            let set = circuit.set;
            self.replace_leg(id, set);
        } else if circuit.intent == Intent::Rendezvous {
            circuit.intent = Intent::Internal;
            self.leave_meeting(id);
        }
        if !relaxed {
            self.clients[client.index()].learner.timed_out(&self.settings.client.build_timeout, first_hop);
        }
    }

    /// `circuit_expire_building`
    pub(super) fn expire_building(&mut self, client: ClientId) {
        if self.clients[client.index()].pool.building == 0 {
            return;
        }
        let now = self.queue.now();
        let parameters = self.settings.client.build_timeout;
        for id in self.as_listed(self.clients[client.index()].pool.clean.clone()) {
            let circuit = &self.circuits[id.index()];
            if circuit.state != CircuitState::Building || circuit.client != client || circuit.began == SimTime::MAX {
                continue;
            }
            let state = &mut self.clients[client.index()];
            let (age, first_hop) = (now.saturating_since(circuit.began), circuit.built > 0);
            let (timeout, close) = (state.learner.timeout(), state.learner.close());
            if circuit.hops.last() as usize == HOPS {
                // The limits for three relays, by the way that cells must go; such circuits teach nothing.
                let limit = match circuit.intent {
                    Intent::Introduction => timeout * 9 / 6,
                    Intent::Introduce if circuit.built_at().is_some() => {
                        (close * 4 / 6).max(state.config.options.stream_timeout.unwrap_or(SimDuration::ZERO))
                    }
                    _ => timeout * 10 / 6,
                };
                if age >= limit + SECOND && (state.pool.open > 0 || age >= close) {
                    self.closes_because(id, CloseReason::BuildTimeout);
                    self.close_at(id, 0, None);
                }
                continue;
            }
            if age < if circuit.timed_out { close } else { timeout } {
                continue;
            }
            if state.pool.open == 0 && age < close {
                if !circuit.relaxed {
                    state.learner.timed_out(&parameters, first_hop);
                    self.circuits[id.index()].relaxed = true;
                }
                continue;
            }
            let mut reason = CloseReason::BuildTimeout;
            if parameters.learn && state.learner.learned(&parameters) {
                if !circuit.timed_out {
                    self.mark_timed_out(id);
                    continue;
                }
                reason = CloseReason::MeasurementExpired;
                if age <= close + close + SECOND {
                    state.learner.abandoned(&parameters, circuit.launched);
                }
            }
            self.closes_because(id, reason);
            self.close_at(id, 0, None);
        }
    }

    /// The circuit takes no new streams (`mark_circuit_unusable_for_new_conns`).
    pub(crate) fn mark_unusable(&mut self, id: CircuitId) {
        let circuit = &mut self.circuits[id.index()];
        if circuit.state != CircuitState::Open || std::mem::replace(&mut circuit.unusable, true) {
            return;
        }
        let (client, serial) = (circuit.client, self.serials[id.index()]);
        self.clients[client.index()].pool.overdue.push((id, serial));
        self.forget_for_streams(id);
    }

    /// No new stream is to find the circuit.
    pub(crate) fn forget_for_streams(&mut self, id: CircuitId) {
        let circuit = &mut self.circuits[id.index()];
        let flow = std::mem::replace(&mut circuit.flow, FlowId::NONE);
        if flow.is_some() {
            self.flows[flow.index()].circuits.retain(|&other| other != id);
        } else {
            self.clients[circuit.client.index()].pool.shared.retain(|&other| other != id);
        }
    }

    /// How long nothing may use the circuit: as was settled at its launch, or in 0.2.4, where learning tells that too, as of now for all that are there.
    fn unused_timeout(&self, id: CircuitId) -> SimDuration {
        let circuit = &self.circuits[id.index()];
        let parameters = &self.settings.client.build_timeout;
        match self.settings.client.unused_idle {
            Some(idle) if circuit.intent != Intent::Spare => {
                let learner = &self.clients[circuit.client.index()].learner;
                if parameters.learn && !learner.learned(parameters) { parameters.learning_idle } else { idle }
            }
            _ => circuit.idle_timeout,
        }
    }

    /// Closes circuits that are old and have no streams, those of a service to rendezvous points among them, and those that nothing has ever used
    /// (`circuit_expire_old_circuits_clientside`).
    pub(super) fn sweep(&mut self, client: ClientId) {
        let now = self.queue.now();
        let dirtiness = self.circuit_lifetime(client);
        let pool = &mut self.clients[client.index()].pool;
        pool.failed_before = pool.failures > MAX_FAILURES;
        pool.failures = 0;
        while let Some(&(id, serial)) = self.clients[client.index()].pool.dirty.front() {
            let here = self.serials[id.index()] == serial && self.circuits[id.index()].state != CircuitState::Closed;
            let old = self.circuits[id.index()].first_used.is_none_or(|used| used + dirtiness < now);
            if here && !old {
                break;
            }
            self.clients[client.index()].pool.dirty.pop_front();
            if here && !self.circuits[id.index()].unusable {
                self.mark_unusable(id);
            }
        }
        let mut over = Vec::new();
        for (id, serial) in std::mem::take(&mut self.clients[client.index()].pool.overdue) {
            if self.serials[id.index()] != serial || self.circuits[id.index()].state == CircuitState::Closed {
                continue;
            }
            if self.is_without_streams(id) {
                over.push(id);
            } else {
                self.clients[client.index()].pool.overdue.push((id, serial));
            }
        }
        over.extend(self.clients[client.index()].pool.clean.iter().filter(|id| {
            let circuit = &self.circuits[id.index()];
            circuit.state == CircuitState::Open && circuit.began + self.unused_timeout(**id) < now
        }));
        for id in self.as_listed(over) {
            self.close_at(id, 0, None);
        }
    }
}
