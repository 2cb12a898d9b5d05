//! A step of a relay's controller: measure, plan, set the buckets, tell the neighbours.

use super::{ControllerSample, EXIT, PlanSample, Predictor, Relay};
use crate::CELL_BYTES;
use crate::ids::CircuitId;
use crate::queues::Direction;
use crate::stream::ExitState;
use crate::world::{Event, World};
use onionlab_engine::HostId;
use onionlab_quantities::SimTime;

impl World {
    /// The step is due; without circuits it is the relay's last until another circuit joins.
    pub(crate) fn plan(&mut self, host: HostId) {
        let Some(mut predictor) = self.predictor.take() else { return };
        if let Some(mut relay) = predictor.relays[host.index()].take() {
            relay.next = None;
            if relay.circuits.is_empty() {
                relay.planned = [0.0; 3];
            } else {
                self.measure(&predictor, &mut relay);
                relay.controller.step();
                self.carry_out(&mut predictor, &mut relay, host);
                let next = self.queue.now() + predictor.settings.step;
                relay.next = Some(next);
                self.queue.schedule(next, host, Event::Plan);
            }
            predictor.relays[host.index()] = Some(relay);
        }
        self.predictor = Some(predictor);
    }

    /// Queues as they are: cells in the circuit's queue, and what waits in the outbuf. What the kernel has does not count.
    fn measure(&self, predictor: &Predictor, relay: &mut Relay) {
        for &(id, hop) in &relay.circuits {
            let Some(slot) = predictor.circuit(id).and_then(|planned| planned.slots[hop as usize - 1]) else { continue };
            relay.controller.measured_queue(slot, self.queue_of(id, hop));
            if hop == EXIT {
                relay.controller.server_has(slot, self.server_bytes(id) as f64 / f64::from(CELL_BYTES));
            }
        }
    }

    fn queue_of(&self, id: CircuitId, hop: u8) -> f64 {
        let side = &self.circuits[id.index()].hops[hop as usize].sides[Direction::ToClient as usize];
        f64::from(side.queue.len) + f64::from(self.ends[side.end.index()].outbuf.untaken()) / f64::from(CELL_BYTES)
    }

    /// What the circuit's servers were asked for and the exit has not read. That the exit knows it is the public program's.
    fn server_bytes(&self, id: CircuitId) -> u64 {
        let left = |stream: &crate::stream::Stream| match stream.exit {
            ExitState::Connected if stream.request_received >= stream.awaited => {
                stream.size.saturating_sub(self.net.bytes_read(stream.socket))
            }
            _ => 0,
        };
        self.circuits[id.index()].streams.iter().map(|stream| left(&self.streams[stream.index()])).sum()
    }

    /// The plan's first step becomes the circuits' buckets, the rest goes to the neighbours.
    fn carry_out(&mut self, predictor: &mut Predictor, relay: &mut Relay, host: HostId) {
        let (now, step) = (self.queue.now(), predictor.settings.step);
        relay.planned = [0.0; 3];
        for index in 0..relay.circuits.len() {
            let (id, hop) = relay.circuits[index];
            let Some(slot) = predictor.circuit(id).and_then(|planned| planned.slots[hop as usize - 1]) else { continue };
            let Some(plan) = relay.controller.plan(slot) else { continue };
            let end = self.circuits[id.index()].hops[hop as usize].sides[Direction::ToClient as usize].end;
            let bytes_written = predictor.allow(end, plan.rate_out);
            let mut bytes_read = 0;
            if hop == EXIT
                && let Some(planned) = predictor.circuit_mut(id)
            {
                // A packet counts as whole cell there too, as in the public program.
                let reading = planned.reading.next(plan.rate_in, step);
                bytes_read = std::mem::replace(&mut planned.reading, reading).used;
            }
            let queue = self.queue_of(id, hop);
            for (sum, value) in relay.planned.iter_mut().zip([plan.rate_in, plan.rate_out, queue]) {
                *sum += value;
            }
            let client = self.circuits[id.index()].client;
            if client.is_some() && self.clients[client.index()].config.trace {
                self.records.plans.push(PlanSample {
                    time: now,
                    relay: host,
                    circuit: self.serials[id.index()],
                    client,
                    hop,
                    queue,
                    rate_in: plan.rate_in,
                    rate_out: plan.rate_out,
                    virtual_rate_out: plan.to_sink.virtual_rate.first().copied(),
                    bytes_written,
                    bytes_read: (hop == EXIT).then_some(bytes_read),
                });
            }
            let messages = self.tell_neighbours(predictor, id, hop, &plan);
            for (sum, value) in relay.messages.iter_mut().zip(messages) {
                *sum += value;
            }
            self.may_write_again(end);
            if hop == EXIT {
                self.resume_planned(id);
            }
        }
    }

    /// Adds a row for each relay that has ever planned.
    pub(crate) fn sample_controllers(&mut self, time: SimTime) {
        let Some(predictor) = self.predictor.as_deref_mut() else { return };
        for (host, relay) in predictor.relays.iter_mut().enumerate() {
            let Some(relay) = relay else { continue };
            let now = (relay.controller.counts(), relay.messages);
            let (before, messages_before) = std::mem::replace(&mut relay.sampled, now);
            let (counts, messages) = now;
            let [messages_sent, messages_lost] = std::array::from_fn(|of| messages[of] - messages_before[of]);
            let steps = counts.steps - before.steps;
            let (trusted, old_plans) = (counts.trusted - before.trusted, counts.old_plans - before.old_plans);
            let [rate_in, rate_out, queue] = relay.planned;
            self.records.controllers.push(ControllerSample {
                time,
                relay: HostId(host as u32),
                circuits: relay.circuits.len() as u32,
                rate_in,
                rate_out,
                queue,
                solved: steps - trusted - old_plans,
                trusted,
                old_plans,
                commitments_scaled: counts.commitments_scaled - before.commitments_scaled,
                refused_messages: counts.refused_messages - before.refused_messages,
                iterations: counts.iterations - before.iterations,
                messages_sent,
                messages_lost,
            });
        }
    }
}
