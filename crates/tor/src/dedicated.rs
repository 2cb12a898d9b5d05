//! A channel for each circuit and hop (PCTCP: `AlSabah` and Goldberg, CCS 2013; PCTLS: Pahl, Kaiser, Engel and Adamsky 2023): what it costs to open is in `opening.rs`, here is its end.
//!
//! The circuit's relay connects, does the handshakes of TLS and of the link, and sends CREATE2, on every hop between relays anew. The channel carries this circuit alone: its
//! congestion window, its buffers, its circuitmux. It is closed when neither end has the circuit any more and no CREATE2 or DESTROY is under way: in order, with a FIN after what was
//! written, unless an end has bytes that TCP has not sent, which are nobody's any more and are given up with a RST.
//!
//! Deviation: both ends close in the instant in which the second one has lost the circuit; the first would close half a round trip earlier, when its DESTROY has left.

use crate::cell::CellKind;
use crate::channel::Opening;
use crate::ids::{CircuitId, EndId};
use crate::records::ChannelClose;
use crate::world::World;

impl World {
    /// A circuit that a channel of its own was opened for is gone at one of its ends: when nothing else goes on in this instant, it is seen whether the channel goes too.
    pub(crate) fn may_part(&mut self, id: EndId) {
        if self.channel_logs[id.channel()].kind.is_of_one_circuit() {
            self.event_loop.may_part(id);
        }
    }

    /// Closes a channel whose circuit is gone at both ends.
    pub(crate) fn part(&mut self, id: EndId) {
        let log = &self.channel_logs[id.channel()];
        if log.kind.is_of_one_circuit() && (log.circuits > 0 || log.abandoned) && self.is_deserted(id) {
            self.close_channel(id, ChannelClose::Circuit);
        }
    }

    /// Neither end has a circuit, and no cell that makes or ends one is under way.
    fn is_deserted(&self, id: EndId) -> bool {
        [id, id.peer()].into_iter().all(|id| {
            let end = &self.ends[id.index()];
            let destroys = end.circuits.as_deref().map_or(0, |circuits| circuits.destroys.len);
            let decisive = |kind| matches!(kind, CellKind::Create | CellKind::Destroy);
            end.opening != Opening::Closed
                && !end.has_circuits()
                && destroys == 0
                && !self.sent.first_cells(end.sent, usize::MAX).any(|cell| decisive(cell.kind))
        })
    }

    /// The circuit does not wait any longer for a channel to open; one that was opened for it alone is not needed.
    pub(crate) fn stop_waiting(&mut self, id: CircuitId) {
        let Some(end) = self.waits_at.remove(&id) else { return };
        if let Some(waiting) = self.waiting.get_mut(&end) {
            waiting.retain(|&waiting| waiting != id);
        }
        if self.channel_logs[end.channel()].kind.is_of_one_circuit() {
            self.channel_logs[end.channel()].abandoned = true;
            self.event_loop.may_part(end);
        }
    }
}
