//! `PredicTor`: each relay plans what its circuits send towards their clients, some steps ahead, and tells its neighbours (ACM TOIT 2022).
//!
//! A circuit joins the controllers of its three relays when its first BEGIN reaches the exit, and leaves each as it is closed there; before, it carries nothing that could be planned. Its relays
//! begin with what they would have told each other until then: that nothing passes. In every step a controller measures its circuits' queues, plans (`onionlab-predictor`), and sets the bytes that each circuit may write until the next step (`allowance`, `plan`): at every relay
//! towards the client, at the exit also from the servers. Trajectories go to the neighbours on the circuit (`feedback`), beside the network or over connections of their own (`control`).
//! Each circuit has its own connection on every hop, so that a connection's bucket is a circuit's.
//!
//! Towards the exit nothing is planned: there tor's fixed windows hold.

mod allowance;
mod control;
mod feedback;
mod plan;
mod records;
mod settings;
#[cfg(test)]
mod tests;

pub use records::{ControllerSample, PlanSample};
pub use settings::{Feedback, Phase, PredictorSettings};

use crate::cell::CELL_BYTES;
use crate::circuit::HOPS;
use crate::ids::{CircuitId, EndId};
use crate::node::{Node, Role};
use crate::queues::Direction;
use crate::records::CircuitSerial;
use crate::world::{Event, World};
use allowance::Allowance;
use feedback::Letter;
use onionlab_engine::HostId;
use onionlab_net::HostConfig;
use onionlab_predictor::{CircuitSlot, Controller, Counts, Sink, SinkMessage, Source};
use onionlab_quantities::{Bandwidth, RandomStream, Seed, SimTime};
use slab::Slab;
use std::collections::{HashMap, VecDeque};

/// The first relay of a circuit, which is the last in the direction of the data, and the exit.
const GUARD: u8 = 1;
const EXIT: u8 = HOPS as u8 - 1;

/// What the world knows about planned circuits, where `PredicTor` is the flow control.
#[derive(Debug)]
pub(crate) struct Predictor {
    settings: PredictorSettings,
    /// By host: what its link, or its own limit, carries; and when it plans first.
    hosts: Vec<(Bandwidth, SimTime)>,
    /// By host; none where no planned circuit has been yet.
    relays: Vec<Option<Box<Relay>>>,
    /// By circuit.
    circuits: Vec<Option<Planned>>,
    /// By end of a channel: what a circuit may write there; none where nothing is planned.
    allowances: Vec<Option<Allowance>>,
    /// Trajectories on their way beside the network.
    letters: Slab<Letter>,
    /// Their memory, to be used again.
    spare: Vec<Vec<f64>>,
    losses: RandomStream,
    /// In band, by channel of a circuit: the connection for its trajectories, its even end.
    controls: HashMap<usize, EndId>,
    /// Trajectories on their way over these, by the end that sent them.
    in_band: HashMap<EndId, VecDeque<Letter>>,
}

/// A relay that plans.
#[derive(Debug)]
struct Relay {
    controller: Controller,
    /// Which circuits, and at which of their hops it is.
    circuits: Vec<(CircuitId, u8)>,
    /// When it plans next, if an event will make it.
    next: Option<SimTime>,
    /// Messages that it sent, and those of them that were lost.
    messages: [u64; 2],
    /// As they were at the last sample.
    sampled: (Counts, [u64; 2]),
    /// In the last plan: rates at which it takes in and sends, and the queues.
    planned: [f64; 3],
}

/// A circuit that is planned.
#[derive(Debug, Clone)]
struct Planned {
    serial: CircuitSerial,
    /// At the controllers of guard, middle and exit.
    slots: [Option<CircuitSlot>; HOPS - 1],
    /// At which step of its successor's trajectory each of them looked when it heard the last one.
    looked: [Option<f64>; HOPS - 1],
    /// What the exit may still read from servers, and what it read since its last plan.
    reading: Allowance,
}

impl Predictor {
    pub fn new(settings: PredictorSettings, seed: Seed, links: &[HostConfig], nodes: &[Node]) -> Self {
        let host = |(link, node): (&HostConfig, &Node)| {
            let limit = match node.role {
                Role::Relay { limit: Some(limit), .. } => limit.relays(),
                _ => Bandwidth::UNLIMITED,
            };
            let phase = match settings.phase {
                Phase::Together => 0,
                Phase::Random => RandomStream::new(seed, &link.name, "controller phase").at(0).below(settings.step.as_nanos()),
            };
            (link.up.min(link.down).min(limit), SimTime::from_nanos(settings.first_step.as_nanos() + phase))
        };
        Self {
            settings,
            hosts: links.iter().zip(nodes).map(host).collect(),
            relays: nodes.iter().map(|_| None).collect(),
            circuits: Vec::new(),
            allowances: Vec::new(),
            letters: Slab::new(),
            spare: Vec::new(),
            losses: RandomStream::new(seed, "controllers", "feedback loss"),
            controls: HashMap::new(),
            in_band: HashMap::new(),
        }
    }

    fn circuit(&self, id: CircuitId) -> Option<&Planned> {
        self.circuits.get(id.index())?.as_ref()
    }

    fn circuit_mut(&mut self, id: CircuitId) -> Option<&mut Planned> {
        self.circuits.get_mut(id.index())?.as_mut()
    }

    /// The relay at this host, which begins to plan if it did not.
    fn relay_at(&mut self, host: HostId) -> &mut Relay {
        let (settings, rate) = (&self.settings, self.hosts[host.index()].0);
        self.relays[host.index()].get_or_insert_with(|| {
            let packets = rate.as_bits_per_sec() as f64 / f64::from(8 * CELL_BYTES);
            let controller = Controller::new(settings.controller(), packets, settings.capacity_share);
            Box::new(Relay {
                controller: controller.expect("the settings are in their ranges"),
                circuits: Vec::new(),
                next: None,
                messages: [0; 2],
                sampled: Default::default(),
                planned: [0.0; 3],
            })
        })
    }

    /// The first instant after `now` at which the relay at `host` plans.
    fn next_step(&self, host: HostId, now: SimTime) -> SimTime {
        let (first, step) = (self.hosts[host.index()].1, self.settings.step);
        if now < first { first } else { first + step * ((now - first).as_nanos() / step.as_nanos() + 1) }
    }
}

impl World {
    /// The circuit carries a stream now: it joins its relays' controllers, if it has not.
    pub(crate) fn join_controllers(&mut self, id: CircuitId) {
        let now = self.queue.now();
        let Some(predictor) = self.predictor.as_deref_mut() else { return };
        if predictor.circuit(id).is_some() {
            return;
        }
        let nothing = vec![0.0; predictor.settings.parameters.horizon];
        let mut slots = [None; HOPS - 1];
        for hop in GUARD..=EXIT {
            let here = &self.circuits[id.index()].hops[hop as usize];
            let end = here.sides[Direction::ToClient as usize].end;
            if here.closed || !end.is_some() {
                continue;
            }
            let source = if hop == EXIT { Source::Server } else { Source::Relay };
            let sink = if hop == GUARD { Sink::Client } else { Sink::Relay };
            let next = predictor.next_step(here.host, now);
            let relay = predictor.relay_at(here.host);
            let slot = relay.controller.attach(source, sink);
            if sink == Sink::Relay {
                // What the relays of an idle circuit would have told each other all along.
                relay.controller.heard_sink(slot, &SinkMessage { rate: &nothing });
            }
            slots[hop as usize - 1] = Some(slot);
            relay.circuits.push((id, hop));
            if relay.next.is_none() {
                relay.next = Some(next);
                self.queue.schedule(next, here.host, Event::Plan);
            }
            // Until the next step nothing of it is planned.
            predictor.allow(end, 0.0);
        }
        if predictor.circuits.len() <= id.index() {
            predictor.circuits.resize(id.index() + 1, None);
        }
        let serial = self.serials[id.index()];
        predictor.circuits[id.index()] = Some(Planned { serial, slots, looked: [None; HOPS - 1], reading: Allowance::default() });
    }

    /// The circuit is being closed at this hop: nothing is planned for it there any more, and what is left may go.
    pub(crate) fn leave_controller(&mut self, id: CircuitId, hop: u8) {
        let here = &self.circuits[id.index()].hops[hop as usize];
        let (host, end) = (here.host, here.sides[Direction::ToClient as usize].end);
        let Some(predictor) = self.predictor.as_deref_mut() else { return };
        let Some(planned) = predictor.circuit_mut(id).filter(|_| hop >= GUARD) else { return };
        let Some(slot) = planned.slots[hop as usize - 1].take() else { return };
        if planned.slots.iter().all(Option::is_none) {
            predictor.circuits[id.index()] = None;
        }
        let relay = predictor.relay_at(host);
        relay.controller.detach(slot);
        relay.circuits.retain(|&(circuit, _)| circuit != id);
        if end.is_some() {
            predictor.allowances[end.index()] = None;
            self.may_write_again(end);
        }
    }
}
