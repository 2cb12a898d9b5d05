//! Trajectories in band: a connection of their own beside each circuit's between two relays, as in the public simulator.
//!
//! It opens with the circuit's connection, through the same handshakes, and closes with it. Of a message each trajectory is 19 bytes and eight for each step; towards the client eight more say how late the last message was. It is cut into cells of 498 bytes of payload each. They
//! go straight to the outbuf, but their bytes pass the relay's token buckets and both access links like all others. Nothing is sent before it is open; what is on its way when it closes is lost.

use super::feedback::Letter;
use super::{EXIT, Feedback, Predictor};
use crate::cell::{Cell, CellKind, RELAY_PAYLOAD_SIZE_MAX};
use crate::channel::{ChannelKind, Opening};
use crate::ids::EndId;
use crate::queues::Direction;
use crate::records::ChannelClose;
use crate::world::World;
use onionlab_engine::HostId;

/// Of a message: its kind, when it begins, the length of a step, and how many steps.
const HEADER: usize = 1 + 8 + 8 + 2;
const PAYLOAD: usize = RELAY_PAYLOAD_SIZE_MAX as usize;

impl World {
    /// A relay has opened a channel for a circuit: another one for its trajectories, if they go in band and there is a socket.
    pub(crate) fn open_control(&mut self, circuits: EndId, from: HostId, to: HostId) {
        let in_band = |predictor: &Predictor| predictor.settings.feedback == Feedback::InBand;
        if self.predictor.as_deref().is_some_and(in_band)
            && let Some(control) = self.open_channel(from, to, ChannelKind::Control)
            && let Some(predictor) = self.predictor.as_deref_mut()
        {
            predictor.controls.insert(circuits.channel(), control);
        }
    }

    /// A circuit's channel was closed: so is that for its trajectories.
    pub(crate) fn close_control_of(&mut self, circuits: EndId) {
        let control = self.predictor.as_deref_mut().and_then(|predictor| predictor.controls.remove(&circuits.channel()));
        if let Some(control) = control {
            self.close_channel(control, ChannelClose::Circuit);
        }
    }

    /// A channel for trajectories was closed, perhaps by itself.
    pub(crate) fn control_closed(&mut self, control: EndId) {
        if let Some(predictor) = self.predictor.as_deref_mut() {
            predictor.controls.retain(|_, other| other.channel() != control.channel());
            for end in [control, control.peer()] {
                predictor.in_band.remove(&end);
            }
        }
    }

    /// Sends a message of so many trajectories as cells; false if there is no connection for it yet.
    pub(super) fn send_in_band(&mut self, predictor: &mut Predictor, letter: Letter, trajectories: usize) -> bool {
        let here = &self.circuits[letter.circuit.index()].hops[letter.from as usize];
        let direction = if letter.to < letter.from { Direction::ToClient } else { Direction::ToExit };
        let own = here.sides[direction as usize].end;
        // Both were opened from the same side.
        let control = predictor.controls.get(&own.channel()).map(|control| EndId(control.0 & !1 | own.0 & 1));
        let Some(control) = control.filter(|&end| self.ends[end.index()].opening == Opening::Open) else {
            predictor.spare.push(letter.values);
            return false;
        };
        let mut bytes = trajectories * HEADER + 8 * (letter.values.len() + usize::from(letter.to < letter.from));
        while bytes > 0 {
            let length = bytes.min(PAYLOAD);
            bytes -= length;
            let kind = if bytes == 0 { CellKind::FeedbackEnd } else { CellKind::Feedback };
            let mut cell = Cell::new(kind, letter.circuit).carrying(length as u16);
            cell.set_arrives_at(letter.to);
            self.circuits[letter.circuit.index()].live_cells += 1;
            self.append_to_outbuf(control, cell);
        }
        predictor.in_band.entry(control).or_default().push_back(letter);
        self.watch_channel_writing(control);
        true
    }

    /// A cell of a message arrives; with the last of them the message is there.
    pub(crate) fn feedback_cell(&mut self, from: EndId, cell: Cell) {
        debug_assert!(cell.arrives_at() <= EXIT);
        if cell.kind == CellKind::FeedbackEnd {
            let sender = from.peer();
            let letter = self.predictor.as_deref_mut().and_then(|predictor| predictor.in_band.get_mut(&sender)?.pop_front());
            if let Some(letter) = letter {
                self.hear(letter);
            }
        }
        self.discard(cell);
    }
}
