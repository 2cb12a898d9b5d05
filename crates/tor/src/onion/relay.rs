//! What introduction and rendezvous points do (`feature/hs/hs_intropoint.c`, `feature/rend/rendmid.c`).

use crate::cell::{Cell, CellKind};
use crate::circuit::OnionPart;
use crate::ids::CircuitId;
use crate::queues::Direction;
use crate::records::CloseReason;
use crate::world::World;

impl World {
    /// A cell for the relay at the end of a circuit of an onion service or its client.
    pub(crate) fn onion_cell_at_relay(&mut self, cell: Cell, hop: u8) {
        let id = cell.circuit;
        match cell.kind {
            CellKind::EstablishRendezvous => {
                if let Some(part) = self.onion_part(id) {
                    part.awaited = true;
                }
                self.originate(hop, Direction::ToClient, Cell::new(CellKind::RendezvousEstablished, id));
            }
            CellKind::EstablishIntro => {
                self.originate(hop, Direction::ToClient, Cell::new(CellKind::IntroEstablished, id));
            }
            CellKind::Introduce1 => {
                let told = self.tell_service(id);
                let answer = Cell::new(CellKind::IntroduceAck, id).carrying(u16::from(!told));
                self.originate(hop, Direction::ToClient, answer);
            }
            _ => self.complete_rendezvous(id, hop),
        }
    }

    fn onion_part(&mut self, id: CircuitId) -> Option<&mut OnionPart> {
        self.circuits[id.index()].hops.onion.as_deref_mut()
    }

    /// INTRODUCE2 to the service, if its circuit is still there.
    fn tell_service(&mut self, from: CircuitId) -> bool {
        let Some(meeting) = self.meeting_of(from) else { return false };
        let (to, serial) = self.meetings[meeting.index()].at;
        let last = self.circuits[to.index()].hops.last();
        if self.serials[to.index()] != serial || self.circuits[to.index()].hops[last as usize].closed {
            return false;
        }
        let Some(part) = self.onion_part(to) else { return false };
        part.introductions.push_back(meeting);
        self.meetings[meeting.index()].references += 1;
        self.originate(last, Direction::ToClient, Cell::new(CellKind::Introduce2, to));
        true
    }

    /// RENDEZVOUS1: the two circuits are joined, if the client still waits (`rend_mid_rendezvous`).
    fn complete_rendezvous(&mut self, service: CircuitId, hop: u8) {
        let client = self.meeting_of(service).map_or(CircuitId::NONE, |meeting| self.meetings[meeting.index()].rendezvous);
        let waits = client.is_some() && {
            let circuit = &self.circuits[client.index()];
            let awaited = circuit.hops.onion.as_ref().is_some_and(|part| part.awaited && !part.splice.is_some());
            awaited && !circuit.hops[circuit.hops.last() as usize].closed
        };
        if !waits {
            self.closes_because(service, CloseReason::NoRendezvous);
            self.close_at(service, hop, None);
            return;
        }
        for (circuit, other) in [(client, service), (service, client)] {
            if let Some(part) = self.onion_part(circuit) {
                part.splice = other;
            }
        }
        // Neither end has sent anything to the other yet.
        self.circuits[client.index()].edges = self.onion_edges();
        let last = self.circuits[client.index()].hops.last();
        self.originate(last, Direction::ToClient, Cell::new(CellKind::Rendezvous2, client));
    }
}
