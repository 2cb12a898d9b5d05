//! A network of controllers with fluid between them: steps of 40 ms, one step from relay to relay.
//!
//! The plant is the simplest that closes the loop: in a step a relay sends what it planned, if that much is there, and may forward in the same step what arrives in it. No cell, no TCP, no
//! jitter; what the real thing adds to that is for a simulator. Data flows from a circuit's first relay to its last.

use crate::controller::{CircuitSlot, Controller, ControllerError, Counts, Outcome, PLANNED_SHARE, Sink, Source};
use crate::network::Network;
use crate::parameters::Parameters;
use crate::trajectory::{FROM_SINK, FROM_SOURCE, SinkMessage, SourceMessage};
use std::collections::VecDeque;

/// The state of a circuit.
#[derive(Debug, Clone)]
struct Path {
    /// Its place in the controller of each relay on its way; empty before it starts.
    slots: Vec<CircuitSlot>,
    start: u64,
    /// Packets at the server.
    server: f64,
    /// By relay: queue, what arrives in the next step, and what was sent in this one.
    queue: Vec<f64>,
    arriving: Vec<f64>,
    sent: Vec<f64>,
    read: f64,
    /// Messages on their way, the oldest first; of each hop towards the client, if its relays have planned: the source's rate, queue and virtual rate, and what its successor takes.
    messages: VecDeque<Vec<Option<[Vec<f64>; 4]>>>,
}

/// A network whose relays are controlled.
#[derive(Debug, Clone)]
pub struct FluidNetwork {
    network: Network,
    parameters: Parameters,
    controllers: Vec<Controller>,
    paths: Vec<Path>,
    step: u64,
    late: usize,
}

impl FluidNetwork {
    /// The network at rest. Its capacities are those of the links, in packets a second; the controllers plan with 85 % of them. A circuit's path begins with its first
    /// relay, and from step `starts[p]` on its server has data without end.
    ///
    /// # Errors
    ///
    /// A parameter is out of its range, or a link has no rate.
    pub fn new(network: &Network, parameters: Parameters, starts: &[u64]) -> Result<Self, ControllerError> {
        let controller = |&rate: &f64| Controller::new(parameters, rate, PLANNED_SHARE);
        let mut controllers = network.capacities().iter().map(controller).collect::<Result<Vec<_>, _>>()?;
        let path = |circuit: usize| {
            let relays = network.path(circuit);
            let last = relays.len() - 1;
            let slots = relays.iter().enumerate().map(|(hop, &relay)| {
                let source = if hop == 0 { Source::Server } else { Source::Relay };
                let sink = if hop == last { Sink::Client } else { Sink::Relay };
                controllers[relay].attach(source, sink)
            });
            Path {
                slots: slots.collect(),
                start: starts.get(circuit).copied().unwrap_or(0),
                server: f64::INFINITY,
                queue: vec![0.0; relays.len()],
                arriving: vec![0.0; relays.len()],
                sent: vec![0.0; relays.len()],
                read: 0.0,
                messages: VecDeque::new(),
            }
        };
        let paths = (0..network.circuits()).map(path).collect();
        Ok(Self { network: network.clone(), parameters, controllers, paths, step: 0, late: 0 })
    }

    /// Lets messages arrive so many steps later than at the next plan after they were sent. Their receivers know how old they are.
    pub fn with_late_messages(mut self, steps: usize) -> Self {
        self.late = steps;
        self
    }

    /// Sets what a circuit's server has left, in packets.
    pub fn set_server(&mut self, circuit: usize, packets: f64) {
        self.paths[circuit].server = packets;
    }

    /// One step: all controllers measure and plan at the same instant, fluid moves, messages travel. Calls `seen` with each relay's outcome.
    pub fn step(&mut self, mut seen: impl FnMut(usize, Outcome)) {
        let h = self.parameters.step_seconds;
        for (circuit, path) in self.paths.iter().enumerate() {
            for (hop, &relay) in self.network.path(circuit).iter().enumerate() {
                let controller = &mut self.controllers[relay];
                controller.measured_queue(path.slots[hop], path.queue[hop]);
                if hop == 0 {
                    controller.server_has(path.slots[0], if self.step >= path.start { path.server } else { 0.0 });
                }
            }
        }
        for (relay, controller) in self.controllers.iter_mut().enumerate() {
            seen(relay, controller.step());
        }
        for (circuit, path) in self.paths.iter_mut().enumerate() {
            let relays = self.network.path(circuit);
            for (hop, &relay) in relays.iter().enumerate() {
                let plan = self.controllers[relay].plan(path.slots[hop]).expect("all circuits are planned");
                let (mut rate_in, rate_out) = (path.arriving[hop], plan.rate_out * h);
                if hop == 0 {
                    let there = if self.step >= path.start { path.server } else { 0.0 };
                    rate_in = (plan.rate_in * h).min(there);
                    path.server -= rate_in;
                    path.read = rate_in / h;
                }
                let there = path.queue[hop] + rate_in;
                let sent = there.min(rate_out);
                path.queue[hop] = there - sent;
                path.sent[hop] = sent / h;
            }
            // What was sent arrives in the next step.
            for hop in 1..relays.len() {
                path.arriving[hop] = path.sent[hop - 1] * h;
            }
        }
        for circuit in 0..self.paths.len() {
            self.deliver(circuit);
        }
        self.step += 1;
    }

    /// The messages of a circuit, each to its neighbour; those that are late are on their way for so many steps more.
    fn deliver(&mut self, circuit: usize) {
        let (relays, path) = (self.network.path(circuit), &mut self.paths[circuit]);
        let tell = |hop: usize| {
            let [source, sink] = [hop - 1, hop].map(|hop| self.controllers[relays[hop]].plan(path.slots[hop]));
            let (to_sink, to_source) = (source?.to_sink, sink?.to_source);
            Some([to_sink.rate, to_sink.queue, to_sink.virtual_rate, to_source.rate].map(<[f64]>::to_vec))
        };
        path.messages.push_back((1..relays.len()).map(tell).collect());
        if path.messages.len() <= self.late {
            return;
        }
        let late = self.late as f64;
        for (hop, messages) in path.messages.pop_front().into_iter().flatten().enumerate() {
            let [source, sink] =
                self.controllers.get_disjoint_mut([relays[hop], relays[hop + 1]]).expect("no circuit crosses a relay twice");
            if let Some([rate, queue, virtual_rate, taken]) = &messages {
                sink.heard_source_shifted(path.slots[hop + 1], &SourceMessage { rate, queue, virtual_rate }, FROM_SOURCE + late);
                sink.source_looked(path.slots[hop + 1], FROM_SINK + late);
                source.heard_sink_shifted(path.slots[hop], &SinkMessage { rate: taken }, FROM_SINK + late);
            }
        }
    }

    /// Rate at which a circuit's relay at `hop` sent in the last step, packets a second.
    pub fn rate_out(&self, circuit: usize, hop: usize) -> f64 {
        self.paths[circuit].sent[hop]
    }

    /// Rate at which a circuit's first relay read from the server in the last step.
    pub fn rate_read(&self, circuit: usize) -> f64 {
        self.paths[circuit].read
    }

    /// Rate at which a circuit's last relay delivered in the last step.
    pub fn rate_delivered(&self, circuit: usize) -> f64 {
        *self.paths[circuit].sent.last().expect("a circuit crosses a relay")
    }

    /// Queue of a circuit at `hop` after the last step, packets.
    pub fn queue(&self, circuit: usize, hop: usize) -> f64 {
        self.paths[circuit].queue[hop]
    }

    /// Packets of a circuit on their way: in the queues behind the first relay and between relays.
    pub fn backlog(&self, circuit: usize) -> f64 {
        let path = &self.paths[circuit];
        path.queue[1..].iter().sum::<f64>() + path.arriving[1..].iter().sum::<f64>()
    }

    /// What happened at a relay so far.
    pub fn counts(&self, relay: usize) -> Counts {
        self.controllers[relay].counts()
    }

    /// The controller of a relay.
    pub fn controller(&self, relay: usize) -> &Controller {
        &self.controllers[relay]
    }
}
