//! Two channels between two relays, one for light and one for heavy circuits (Torchestra: Gopal and Heninger, WPES 2012).
//!
//! Circuits begin on the light channel, as tor builds them. A relay counts the cells that it sends on each circuit towards each neighbour, with exponential decay (an EWMA, as tor's circuitmux
//! has one), and moves a circuit to the heavy channel when its count exceeds a multiple of the average over the circuits that carry traffic to that neighbour, and back when it falls
//! below a smaller multiple. The gap between the two keeps a circuit from going to and fro. The heavy channel is opened when the first circuit wants to move; until it is open, and where it cannot be
//! opened, the circuit stays.
//!
//! **Order.** A last cell of the circuit on the old channel says that it goes on over the new one (SWITCHED); what comes over the new one before that is held. Both channels keep their order, so a
//! circuit may move again before the last move has reached the neighbour.
//!
//! What is chosen here, and not known to be the paper's: the multiples, the half-life and what the average is taken over are parameters or ours; each relay moves the direction in which it sends, by its own count (there both directions
//! move together, after an exchange of cells; a bulk circuit's SENDMEs outnumber a light circuit's requests, so that both directions move here too, each in its time); cells that wait in the
//! circuit's queue move along, where tor would have to change the circuit id packed in each; the circuitmux of the new channel counts the circuit from nothing.

use crate::cell::{Cell, CellKind};
use crate::channel::{self, Attached, ChannelKind, Opening};
use crate::ids::{CircuitId, EndId};
use crate::node::Role;
use crate::queues::Direction;
use crate::settings::Links;
use crate::traffic::{LightAndHeavy, QueueId, Traffic};
use crate::world::World;
use onionlab_engine::HostId;
use std::collections::{HashMap, VecDeque};

/// What comes to a hop of a circuit from one side.
#[derive(Debug, Default)]
struct Incoming {
    /// Over the heavy channel.
    heavy: bool,
    /// Came over the other one too early.
    held: VecDeque<Cell>,
}

/// The state of all relays.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    /// The heavy channel between two hosts: its even end.
    heavy: HashMap<u64, EndId>,
    traffic: Traffic,
    incoming: HashMap<QueueId, Incoming>,
    /// Cells that are held.
    pub cells: usize,
}

impl World {
    /// The thresholds, if there are two channels and both hosts are relays.
    pub(crate) fn classified(&self, from: HostId, to: HostId) -> Option<LightAndHeavy> {
        let Links::LightAndHeavy(thresholds) = self.settings.links else { return None };
        let relays = [from, to].iter().all(|host| matches!(self.nodes[host.index()].role, Role::Relay { .. }));
        relays.then_some(thresholds)
    }

    /// Host and neighbour of a queue.
    fn ends_of(&self, of: QueueId) -> (HostId, HostId) {
        let hops = &self.circuits[of.circuit.index()].hops;
        let next = if of.direction == Direction::ToExit as u8 { of.hop + 1 } else { of.hop - 1 };
        (hops[of.hop as usize].host, hops[next as usize].host)
    }

    /// A circuit has been attached to a channel of this host's for the first time.
    pub(crate) fn begin_class(&mut self, circuit: CircuitId, hop: u8, direction: Direction) {
        let of = QueueId { circuit, hop, direction: direction as u8 };
        let (from, to) = self.ends_of(of);
        if self.classified(from, to).is_some() {
            self.classes.traffic.follow(of);
        }
    }

    /// The circuit is closed at this hop.
    pub(crate) fn end_classes(&mut self, circuit: CircuitId, hop: u8) {
        let Links::LightAndHeavy(thresholds) = self.settings.links else { return };
        let now = self.queue.now();
        for direction in [Direction::ToClient, Direction::ToExit] {
            let of = QueueId { circuit, hop, direction: direction as u8 };
            if self.classes.traffic.follows(of) {
                let (from, to) = self.ends_of(of);
                self.classes.traffic.forget(of, channel::directed_pair(from, to), now, thresholds.half_life);
            }
            for cell in self.classes.incoming.remove(&of).map(|incoming| incoming.held).unwrap_or_default() {
                self.classes.cells -= 1;
                self.lose(cell);
            }
        }
    }

    /// One cell goes to the outbuf, as far as there is one: its circuit may be in the wrong class then.
    #[cold]
    pub(crate) fn flush_and_weigh(&mut self, end: EndId) -> bool {
        let before = self.ends[end.index()].cells_sent;
        let any = self.flush_next(end);
        // Others may have followed, which were weighed before.
        let sent = self.ends[end.index()].cells_sent - before;
        let cell = self.sent.cell_from_behind(self.ends[end.index()].sent, sent as usize);
        if let Some(&cell) = cell.filter(|_| any) {
            self.weigh_sent(end, cell);
        }
        any
    }

    fn weigh_sent(&mut self, end: EndId, cell: Cell) {
        let (next, kind, host) = (cell.arrives_at(), cell.kind, self.ends[end.index()].host);
        let hops = &self.circuits[cell.circuit.index()].hops;
        let outward = next > 0 && hops[next as usize - 1].host == host;
        self.weigh(cell.circuit, if outward { next - 1 } else { next + 1 }, outward, kind);
    }

    fn weigh(&mut self, circuit: CircuitId, hop: u8, outward: bool, kind: CellKind) {
        let of = QueueId { circuit, hop, direction: u8::from(outward) };
        // Not counted: what builds a circuit or joins it to others, a DESTROY, and what goes to clients.
        let builds = matches!(kind, CellKind::Create | CellKind::Created | CellKind::Extend | CellKind::Extended);
        let joins = matches!(kind, CellKind::Link | CellKind::Linked | CellKind::LinkedAck);
        if builds || joins || !self.classes.traffic.follows(of) {
            return;
        }
        let (from, to) = self.ends_of(of);
        let (Some(thresholds), now) = (self.classified(from, to), self.queue.now()) else { return };
        let end = self.circuits[circuit.index()].hops[hop as usize].sides[usize::from(outward)].end;
        let heavy = end.is_some() && self.channel_logs[end.channel()].kind == ChannelKind::Heavy;
        let pair = channel::directed_pair(from, to);
        let Some((own, average)) = self.classes.traffic.count(of, pair, now, thresholds.half_life) else { return };
        let wrong = if heavy { own < thresholds.light_below * average } else { own > thresholds.heavy_above * average };
        if wrong && self.classes.traffic.note(of) {
            self.event_loop.may_move(of);
        }
    }

    /// Moves a circuit to the other channel, if that is open.
    pub(crate) fn move_if_open(&mut self, of: QueueId) {
        if !self.classes.traffic.denote(of) {
            return;
        }
        let here = &self.circuits[of.circuit.index()].hops[of.hop as usize];
        let old = here.sides[of.direction as usize].end;
        if here.closed || !old.is_some() {
            return;
        }
        let (from, to) = self.ends_of(of);
        let new = match self.channel_logs[old.channel()].kind {
            ChannelKind::Light => self.heavy_channel(from, to),
            ChannelKind::Heavy => self.channel_between(from, to),
            ChannelKind::Shared | ChannelKind::Circuit | ChannelKind::Stream | ChannelKind::Control => None,
        };
        if let Some(new) = new.filter(|new| self.ends[new.index()].opening == Opening::Open) {
            self.move_queue(of, old, new);
        }
    }

    /// The heavy channel between two relays, opened now if there is none: the end at `from`.
    fn heavy_channel(&mut self, from: HostId, to: HostId) -> Option<EndId> {
        let pair = channel::pair(from, to);
        if let Some(&first) = self.classes.heavy.get(&pair) {
            return Some(channel::end_at(&self.ends, first, from));
        }
        // It asks with every cell that it weighs, and would be refused each time.
        if !self.has_socket_left(from) {
            return None;
        }
        let id = self.open_channel(from, to, ChannelKind::Heavy)?;
        self.classes.heavy.insert(pair, id);
        Some(id)
    }

    /// The heavy channel between two hosts is closed.
    pub(crate) fn forget_heavy(&mut self, a: HostId, b: HostId) {
        self.classes.heavy.remove(&channel::pair(a, b));
    }

    /// From one channel to another, with the cells that wait; the last cell on the old one says so.
    fn move_queue(&mut self, of: QueueId, old: EndId, new: EndId) {
        let now = self.queue.now();
        let outward = of.direction == Direction::ToExit as u8;
        let side = self.circuits[of.circuit.index()].hops[of.hop as usize].sides[of.direction as usize];
        self.ends[old.index()].detach(side.slot, now);
        let host = self.ends[new.index()].host;
        let policy = &self.settings.scheduling_at(&self.nodes[host.index()]).circuitmux;
        let attached = Attached { circuit: of.circuit, hop: of.hop, outward };
        let slot = self.ends[new.index()].attach(policy, now, attached, side.queue.len);
        let side = &mut self.circuits[of.circuit.index()].hops[of.hop as usize].sides[of.direction as usize];
        (side.end, side.slot) = (new, slot);
        let waiting = side.queue.len;
        if outward {
            self.channel_logs[old.channel()].detached();
            self.channel_logs[new.channel()].attached();
        }
        self.descriptors[host.index()].moved += 1;

        let mut last = Cell::new(CellKind::Switched, of.circuit);
        last.set_arrives_at(if outward { of.hop + 1 } else { of.hop - 1 });
        self.circuits[of.circuit.index()].live_cells += 1;
        self.append_to_outbuf(old, last);
        self.start_writing(old);
        if !self.ends[old.index()].has_circuits() {
            self.has_no_circuits(old);
        }
        if waiting > 0 {
            self.has_waiting_cells(new);
        }
    }

    /// A cell of a circuit that may have moved has come to a hop that is not closed. If it is its turn, `process` takes it, and those that have waited for it.
    pub(crate) fn in_order_of_moves(&mut self, from: EndId, cell: Cell) {
        let hop = cell.arrives_at();
        let sender = self.ends[from.peer().index()].host;
        let hops = &self.circuits[cell.circuit.index()].hops;
        let direction = if hop > 0 && hops[hop as usize - 1].host == sender { Direction::ToExit } else { Direction::ToClient };
        let from_heavy = self.channel_logs[from.channel()].kind == ChannelKind::Heavy;
        // By the side from which it comes.
        let of = QueueId { circuit: cell.circuit, hop, direction: 1 - direction as u8 };
        let (circuit, marks) = (cell.circuit, cell.kind == CellKind::Switched);
        if from_heavy != self.classes.incoming.get(&of).is_some_and(|incoming| incoming.heavy) {
            self.classes.cells += 1;
            self.classes.incoming.entry(of).or_default().held.push_back(cell);
            return;
        }
        if !marks {
            return self.pass_on(cell, direction);
        }
        self.discard(cell);
        self.classes.incoming.entry(of).or_default().heavy = !from_heavy;
        // What waited, up to the end of the next stay.
        while let Some(cell) = self.classes.incoming.get_mut(&of).and_then(|incoming| incoming.held.pop_front()) {
            self.classes.cells -= 1;
            if cell.kind == CellKind::Switched {
                self.discard(cell);
                self.classes.incoming.entry(of).or_default().heavy = from_heavy;
                return;
            }
            self.pass_on(cell, direction);
            if self.circuits[circuit.index()].hops[hop as usize].closed {
                return;
            }
        }
    }
}
