//! Onion services: a client and a service meet at a relay that the client has chosen (`feature/hs/`, `feature/rend/rendmid.c`).
//!
//! A service is a tor process with circuits to its introduction points. A client that has a stream for it builds two circuits: one of three relays
//! to a rendezvous point (ESTABLISH_RENDEZVOUS, RENDEZVOUS_ESTABLISHED), one of four to an introduction point of the service (INTRODUCE1, INTRODUCE_ACK;
//! INTRODUCE2 to the service). The service builds one of four to the rendezvous point (RENDEZVOUS1; RENDEZVOUS2 to the client), which from then on passes
//! every cell from the end of the one circuit to that of the other: six relays in all. Circuits that were built ahead are taken where there are any, and those to relays of somebody
//! else's choice get that one as a fourth relay.
//!
//! Both circuits stay what they were, with a queue at each relay and direction as others have; a cell that aims [`ACROSS`](crate::circuit::ACROSS) changes from one to the other where they
//! are joined (`splice`). Streams know the client's circuit only: its end `Place::Exit` stands at the service, on the first hop of the service's circuit.
//!
//! The client has the service's descriptor. Everything that a try builds ends with it when a part of it fails or takes too long, but for a circuit to a rendezvous point that
//! is late, which is replaced alone; tor would also keep a good one for the next introduction.

mod client;
mod relay;
mod service;
mod splice;

pub(crate) use service::Introduction;

use crate::circuit::{Intent, OnionPart};
use crate::ids::{CircuitId, ClientId, FlowId, MeetingId};
use crate::records::CircuitSerial;
use crate::world::World;
use onionlab_quantities::SimTime;

/// Whose streams a rendezvous circuit takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// Those of all flows that share circuits.
    Anyone,
    /// Those of one flow.
    Flow(FlowId),
    /// Those of a flow that is over.
    Nobody,
}

/// How far a meeting is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The client's circuits are being built.
    Prepared,
    /// INTRODUCE1 is sent.
    Introduced,
    /// INTRODUCE_ACK has come.
    Acknowledged,
    /// RENDEZVOUS2 has come: streams may begin.
    Joined,
    /// It failed, or was given up, or has been.
    Over,
}

/// A client and a service on their way to a rendezvous point, or there.
#[derive(Debug)]
pub(crate) struct Meeting {
    client: ClientId,
    service: ClientId,
    owner: Owner,
    /// The client's circuits: the first unless it is to be replaced, the second until it has served.
    rendezvous: CircuitId,
    introduce: CircuitId,
    /// The service's circuit to the same introduction point.
    at: (CircuitId, CircuitSerial),
    /// RENDEZVOUS_ESTABLISHED has come.
    established: bool,
    step: Step,
    /// The step was taken, or the client's circuit to the rendezvous point was open.
    since: SimTime,
    joined: Option<SimTime>,
    /// Circuits and cells that name it: the last one that is gone frees it.
    references: u32,
}

impl World {
    /// The circuit is a part of the meeting, or of all that its owner will ever have.
    fn take_part(&mut self, id: CircuitId, intent: Intent, meeting: MeetingId) {
        let circuit = &mut self.circuits[id.index()];
        circuit.intent = intent;
        circuit.hops.onion.get_or_insert_with(|| Box::new(OnionPart::NONE)).meeting = meeting;
        if meeting.is_some() {
            self.meetings[meeting.index()].references += 1;
        }
    }

    fn meeting_of(&self, id: CircuitId) -> Option<MeetingId> {
        self.circuits[id.index()].hops.onion.as_ref().map(|part| part.meeting).filter(|meeting| meeting.is_some())
    }

    /// When the client learned that the service was at the other end.
    pub(crate) fn joined_at(&self, id: CircuitId) -> Option<SimTime> {
        let meeting = &self.meetings[self.meeting_of(id)?.index()];
        meeting.joined.filter(|_| meeting.rendezvous == id)
    }

    fn release(&mut self, meeting: MeetingId) {
        let of = &mut self.meetings[meeting.index()];
        of.references -= 1;
        if of.references == 0 {
            self.meetings.remove(meeting.index());
        }
    }

    /// A circuit of an onion service or its client is gone at all its hops. Two that are joined go together: false as long as the other one is there.
    pub(crate) fn part_is_over(&mut self, id: CircuitId) -> bool {
        if let Some(other) = self.circuits[id.index()].splice() {
            if !self.circuits[other.index()].is_gone() {
                return false;
            }
            for circuit in [id, other] {
                if let Some(part) = &mut self.circuits[circuit.index()].hops.onion {
                    part.splice = CircuitId::NONE;
                }
            }
            self.recycle_circuit(other);
        }
        let Some(part) = self.circuits[id.index()].hops.onion.as_mut() else { return true };
        let (meeting, introductions) =
            (std::mem::replace(&mut part.meeting, MeetingId::NONE), std::mem::take(&mut part.introductions));
        if meeting.is_some() {
            let of = &mut self.meetings[meeting.index()];
            for circuit in [&mut of.rendezvous, &mut of.introduce] {
                if *circuit == id {
                    *circuit = CircuitId::NONE;
                }
            }
            self.release(meeting);
        }
        for meeting in introductions {
            self.release(meeting);
        }
        true
    }
}
