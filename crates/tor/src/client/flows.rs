//! Flows: what a client's program opens streams for, one sequence of flows for each user or one for all.

use crate::ids::{CircuitId, ClientId, FlowId, SequenceId};
use crate::world::{Event, World};
use onionlab_load::{Pace, StreamPlan};
use onionlab_quantities::{RandomStream, SimDuration, SimTime};

/// Flows one after the other.
#[derive(Debug)]
pub(crate) struct Sequence {
    pub client: ClientId,
    pub user: u32,
    pub stream: RandomStream,
    /// The ordinal of its next flow.
    pub next: u64,
}

/// A flow that goes on.
#[derive(Debug)]
pub(crate) struct Flow {
    pub client: ClientId,
    pub sequence: SequenceId,
    pub ordinal: u64,
    plans: onionlab_load::Flow,
    /// When its last stream was due, or it began.
    due: SimTime,
    /// Its next stream, and when that is due; the time is open while the stream waits for all before it to end.
    next: Option<(StreamPlan, Option<SimTime>)>,
    /// An event is under way for it.
    scheduled: bool,
    /// Streams that go on, and those that ever began.
    open: u32,
    begun: u64,
    /// No more streams come.
    exhausted: bool,
    /// From its end to the start of the next one; none if that does not wait for it.
    pause: Option<SimDuration>,
    /// It shares its circuits with no other flow.
    pub isolated: bool,
    /// The circuits that it has used, where it shares them with no other.
    pub circuits: Vec<CircuitId>,
}

impl World {
    /// A sequence begins its next flow.
    pub(crate) fn begin_flow(&mut self, id: SequenceId) {
        let now = self.queue.now();
        let sequence = &mut self.sequences[id.0 as usize];
        let client = sequence.client;
        let config = &self.clients[client.index()].config;
        if now >= config.stop {
            return;
        }
        let Some(load) = &config.load else { return };
        let Some(plans) = load.flow(sequence.stream, sequence.next) else { return };
        let ordinal = sequence.next;
        sequence.next += 1;
        let pace = load.pace();
        let pause = pace.pause(plans.pause, config.users);
        if pace == Pace::Independent {
            self.queue.schedule(now + pause, config.host, Event::NextFlow(id));
        }
        let flow = Flow {
            client,
            sequence: id,
            ordinal,
            plans,
            due: now,
            next: None,
            scheduled: false,
            open: 0,
            begun: 0,
            exhausted: false,
            pause: (pace == Pace::AfterPrevious).then_some(pause),
            isolated: config.circuit_per_transfer || load.isolates(),
            circuits: Vec::new(),
        };
        let flow = FlowId(self.flows.insert(flow) as u32);
        self.next_stream(flow);
    }

    /// Begins the streams of a flow that are due, and sees when the next one is. A flow without any more is over.
    pub(crate) fn next_stream(&mut self, id: FlowId) {
        let now = self.queue.now();
        loop {
            let Some(flow) = self.flows.get_mut(id.index()) else { return };
            let (client, config) = (flow.client, &self.clients[flow.client.index()].config);
            if flow.next.is_none() && !flow.exhausted {
                flow.next = flow.plans.next().map(|plan| {
                    let due = flow.due + plan.delay;
                    let waits = plan.after_all && flow.begun > 0;
                    (plan, (!waits).then_some(due))
                });
                flow.exhausted = flow.next.is_none();
            }
            if now >= config.stop {
                (flow.next, flow.exhausted) = (None, true);
            }
            let Some((plan, due)) = &mut flow.next else {
                if flow.open == 0 {
                    self.end_flow(id);
                }
                return;
            };
            if due.is_none() && flow.open == 0 {
                *due = Some(now + plan.delay);
            }
            let Some(due) = *due else { return };
            if flow.open >= flow.plans.parallel {
                return;
            }
            if due > now {
                if !std::mem::replace(&mut flow.scheduled, true) {
                    self.queue.schedule(due, config.host, Event::NextStream(id));
                }
                return;
            }
            let Some((plan, _)) = flow.next.take() else { return };
            flow.due = due;
            flow.open += 1;
            flow.begun += 1;
            let stream = flow.begun - 1;
            self.begin_transfer(client, id, stream, plan);
        }
    }

    /// The time has come that a flow waited for.
    pub(crate) fn stream_due(&mut self, id: FlowId) {
        if let Some(flow) = self.flows.get_mut(id.index()) {
            flow.scheduled = false;
            self.next_stream(id);
        }
    }

    /// A stream of the flow has ended.
    pub(crate) fn stream_over(&mut self, id: FlowId) {
        self.flows[id.index()].open -= 1;
        self.next_stream(id);
    }

    fn end_flow(&mut self, id: FlowId) {
        let flow = self.flows.remove(id.index());
        self.flow_meets_nobody(flow.client, id);
        self.flow_awaits_nothing(flow.client, id);
        for circuit in flow.circuits {
            self.circuits[circuit.index()].flow = FlowId::NONE;
        }
        if let Some(pause) = flow.pause {
            let host = self.clients[flow.client.index()].config.host;
            self.queue.schedule(self.queue.now() + pause, host, Event::NextFlow(flow.sequence));
        }
    }

    /// What the path source knows a stream by.
    pub(crate) fn stream_key(&self, id: FlowId, stream: u64) -> u64 {
        let flow = &self.flows[id.index()];
        key_of(flow.ordinal, self.sequences[flow.sequence.0 as usize].user, stream)
    }
}

/// From the lowest bit on: 20 bits of the flow, the upper ones of the user, 20 of the stream, the user's lower 12.
const fn key_of(flow: u64, user: u32, stream: u64) -> u64 {
    let user = user as u64;
    flow ^ (user >> 12) << 20 ^ stream << 32 ^ user << 52
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A client may stand for a million users.
    #[test]
    fn no_two_users_have_a_stream_in_common() {
        let users = [0, 1, 4095, 4096, 4097, 8192, 999_999];
        let keys: BTreeSet<u64> = users.into_iter().flat_map(|user| [0, 1, 7].map(|stream| key_of(3, user, stream))).collect();
        assert_eq!(keys.len(), 3 * users.len());
    }
}
