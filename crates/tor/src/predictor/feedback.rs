//! Trajectories between neighbours on a circuit.
//!
//! After each step a relay tells its successor, towards the client, its outgoing rates and queues (and virtual rates), and its predecessor its intake rates. Out of band a message is there after the
//! latency that the relays take the hop to have, less 2 ms; how old its trajectories are at the receiver's next plan follows from when it was sent and from that latency. What the source sends in
//! its step k arrives one latency later, and what a relay sends now meets the successor's intake one latency later. How late a trajectory of a successor was, its predecessor tells with its next message: that is
//! the number of steps in which the successor cannot change any more what arrives.

use super::{EXIT, Feedback, GUARD, Predictor};
use crate::ids::{CircuitId, LetterId};
use crate::records::CircuitSerial;
use crate::world::{Event, World};
use onionlab_predictor::{Form, Plan, SinkMessage, SourceMessage};
use onionlab_quantities::{SimDuration, SimTime};

/// By how much a message beside the network is faster than the hop.
const AHEAD: SimDuration = SimDuration::from_millis(2);

/// A message on its way.
#[derive(Debug)]
pub(super) struct Letter {
    pub circuit: CircuitId,
    pub serial: CircuitSerial,
    /// The hop of the relay that sent it, and of that for which it is.
    pub from: u8,
    pub to: u8,
    /// When its trajectories begin.
    pub sent: SimTime,
    /// Towards the client: at which step of the receiver's last trajectory that it heard the sender looked, if it heard one.
    pub looked: Option<f64>,
    /// One trajectory after the other: towards the client rates, queues and in the journal's form virtual rates, towards the exit rates.
    pub values: Vec<f64>,
}

impl World {
    /// Sends a circuit's plan to its neighbours: how many messages were sent, and how many of them were lost at once.
    pub(super) fn tell_neighbours(&mut self, predictor: &mut Predictor, id: CircuitId, hop: u8, plan: &Plan<'_>) -> [u64; 2] {
        let mut messages = [0; 2];
        let (source, sink) = (&plan.to_source, &plan.to_sink);
        if hop > GUARD {
            let values = [sink.rate, sink.queue, sink.virtual_rate];
            messages[0] += 1;
            messages[1] += u64::from(!self.send_letter(predictor, id, [hop, hop - 1], &values));
        }
        if hop < EXIT {
            messages[0] += 1;
            messages[1] += u64::from(!self.send_letter(predictor, id, [hop, hop + 1], &[source.rate]));
        }
        messages
    }

    /// Sends a message between two hops; false if it is lost.
    fn send_letter(&mut self, predictor: &mut Predictor, circuit: CircuitId, [from, to]: [u8; 2], values: &[&[f64]]) -> bool {
        let (sent, serial) = (self.queue.now(), self.serials[circuit.index()]);
        if let Feedback::OutOfBand { loss } = predictor.settings.feedback
            && loss > 0.0
        {
            // The same draw for a circuit, hop, direction and step, whatever happened before.
            let link = u64::from(from) * 4 + u64::from(to);
            let step = sent.as_nanos() / predictor.settings.step.as_nanos();
            if predictor.losses.member(u64::from(serial.0)).member(link).at(step).chance(loss) {
                return false;
            }
        }
        let mut room = predictor.spare.pop().unwrap_or_default();
        room.clear();
        for trajectory in values {
            room.extend_from_slice(trajectory);
        }
        let looked = predictor.circuit(circuit).and_then(|planned| planned.looked[from as usize - 1]).filter(|_| to < from);
        let letter = Letter { circuit, serial, from, to, sent, looked, values: room };
        match predictor.settings.feedback {
            Feedback::InBand => return self.send_in_band(predictor, letter, values.iter().filter(|of| !of.is_empty()).count()),
            Feedback::OutOfBand { .. } => {
                let hops = &self.circuits[circuit.index()].hops;
                let [from, to] = [from, to].map(|hop| hops[hop as usize].host);
                let arrives = sent + self.net.nominal_latency(from, to).saturating_sub(AHEAD);
                let letter = LetterId(predictor.letters.insert(letter) as u32);
                self.queue.schedule(arrives, to, Event::Feedback(letter));
            }
        }
        true
    }

    /// A message beside the network has arrived.
    pub(crate) fn feedback_due(&mut self, id: LetterId) {
        let letter = self.predictor.as_deref_mut().and_then(|predictor| predictor.letters.try_remove(id.index()));
        if let Some(letter) = letter {
            self.hear(letter);
        }
    }

    /// A message has arrived, in whichever way: the receiver takes it for what it is at its next plan. If the circuit has left, nobody wants it.
    pub(super) fn hear(&mut self, letter: Letter) {
        let Some(predictor) = self.predictor.as_deref_mut() else { return };
        let hops = &self.circuits[letter.circuit.index()].hops;
        let [from, to] = [letter.from, letter.to].map(|hop| hops[hop as usize].host);
        let mut looked = None;
        let planned = predictor.circuit(letter.circuit).filter(|planned| planned.serial == letter.serial);
        if let Some(slot) = planned.and_then(|planned| planned.slots[letter.to as usize - 1])
            && let Some(relay) = predictor.relays[to.index()].as_deref_mut()
            && let Some(next) = relay.next
        {
            let (step, horizon) = (predictor.settings.step.as_nanos() as f64, predictor.settings.parameters.horizon);
            let age = (next - letter.sent).as_nanos() as f64;
            let latency = self.net.nominal_latency(from, to).as_nanos() as f64;
            let values = letter.values.as_slice();
            if letter.to > letter.from {
                let shift = (age + latency) / step;
                relay.controller.heard_sink_shifted(slot, &SinkMessage { rate: values }, shift);
                looked = Some(shift);
            } else {
                if let Some(shift) = letter.looked {
                    relay.controller.source_looked(slot, shift);
                }
                let rest = values.get(horizon..).unwrap_or(&[]);
                let (queue, virtual_rate) = match predictor.settings.parameters.form {
                    Form::Conference => (rest, &[][..]),
                    Form::Journal => rest.split_at_checked(horizon).unwrap_or((rest, &[])),
                };
                let rate = values.get(..horizon).unwrap_or(values);
                let message = SourceMessage { rate, queue, virtual_rate };
                relay.controller.heard_source_shifted(slot, &message, (age - latency) / step);
            }
        }
        if looked.is_some()
            && let Some(planned) = predictor.circuit_mut(letter.circuit)
        {
            planned.looked[letter.to as usize - 1] = looked;
        }
        predictor.spare.push(letter.values);
    }
}
