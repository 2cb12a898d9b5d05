//! The client's side: how a stream comes to an onion service (`feature/hs/hs_client.c`, `core/or/circuituse.c`).

use super::{Meeting, Owner, Step};
use crate::cell::{Cell, CellKind};
use crate::circuit::{CircuitState, Intent};
use crate::client::{INTRODUCTIONS, PathRequest, Purpose};
use crate::ids::{CircuitId, ClientId, FlowId, MeetingId, TransferId};
use crate::queues::Direction;
use crate::records::{CircuitSerial, CloseReason};
use crate::world::World;
use onionlab_engine::HostId;
use onionlab_quantities::{SimDuration, SimTime};

const SECOND: SimDuration = SimDuration::from_secs(1);

/// Whether a step of a meeting that was taken at `since`, over a circuit that began at `began`, has lasted too long: the circuit must be as old, and the step too, which tor keeps in whole
/// seconds (`timestamp_dirty > cutoff.tv_sec`), so that it may be up to a second younger. Those of simulated time are taken for the clock's.
fn is_late(began: SimTime, since: SimTime, limit: SimDuration, now: SimTime) -> bool {
    let second = |time: SimTime| time.as_nanos() / SECOND.as_nanos();
    let cutoff = now.as_nanos().checked_sub(limit.as_nanos()).map(SimTime::from_nanos);
    cutoff.is_some_and(|cutoff| began <= cutoff && second(since) <= second(cutoff))
}

impl World {
    /// The onion service at this host, if there is one.
    pub(crate) fn service_at(&self, host: HostId) -> ClientId {
        let client = self.nodes[host.index()].client;
        if client.is_some() && self.is_service(client) { client } else { ClientId::NONE }
    }

    /// The stream gets a circuit that is joined to the service's, or waits for one, for which the client begins now if it has not yet
    /// (`connection_ap_handshake_attach_circuit`).
    pub(crate) fn attach_to_service(&mut self, id: TransferId) {
        let now = self.queue.now();
        let transfer = &self.transfers[id.index()];
        let (client, service, flow) = (transfer.client, transfer.service, transfer.flow);
        let owner = if self.flows[flow.index()].isolated { Owner::Flow(flow) } else { Owner::Anyone };
        let found = self.usable_meeting(client, service, owner);
        if let Some(meeting) = found.filter(|meeting| self.meetings[meeting.index()].step == Step::Joined) {
            self.clients[client.index()].waiting.retain(|&other| other != id);
            let circuit = self.meetings[meeting.index()].rendezvous;
            self.use_again(client, circuit);
            self.attach_to(id, circuit);
            return;
        }
        let state = &mut self.clients[client.index()];
        if !state.waiting.contains(&id) {
            state.waiting.push(id);
        }
        if found.is_none() {
            self.arrange_meeting(client, service, owner);
        }
        self.second_by(client, now);
    }

    /// The latest that takes the owner's streams, joined or on its way.
    fn usable_meeting(&self, client: ClientId, service: ClientId, owner: Owner) -> Option<MeetingId> {
        let dirty = self.circuit_lifetime(client);
        let fits = |id: &&MeetingId| {
            let meeting = &self.meetings[id.index()];
            let young = || {
                let circuit = &self.circuits[meeting.rendezvous.index()];
                !circuit.unusable && circuit.first_used.is_none_or(|used| used + dirty > self.queue.now())
            };
            meeting.service == service && meeting.owner == owner && (meeting.step != Step::Joined || young())
        };
        self.clients[client.index()].meetings.iter().rev().find(fits).copied()
    }

    /// A rendezvous circuit is as young as its last stream: to build another one costs so much.
    fn use_again(&mut self, client: ClientId, id: CircuitId) {
        self.circuits[id.index()].first_used = Some(self.queue.now());
        let entry = (id, self.serials[id.index()]);
        let dirty = &mut self.clients[client.index()].pool.dirty;
        if let Some(place) = dirty.iter().position(|&other| other == entry)
            && let Some(entry) = dirty.remove(place)
        {
            dirty.push_back(entry);
        }
    }

    /// The client begins: a circuit to a rendezvous point and one to an introduction point.
    fn arrange_meeting(&mut self, client: ClientId, service: ClientId, owner: Owner) {
        let Some((at, point)) = self.introduction_point(client, service) else { return };
        let meeting = Meeting {
            client,
            service,
            owner,
            rendezvous: CircuitId::NONE,
            introduce: CircuitId::NONE,
            at,
            established: false,
            step: Step::Prepared,
            since: self.queue.now(),
            joined: None,
            // As long as this function goes on.
            references: 1,
        };
        let id = MeetingId(self.meetings.insert(meeting) as u32);
        self.clients[client.index()].meetings.push(id);
        let rendezvous = self.launch_for(client, Intent::Rendezvous, None, id);
        let introduce = rendezvous.and_then(|_| self.launch_for(client, Intent::Introduce, Some(point), id));
        if introduce.is_none() {
            self.call_off(id);
        }
        self.release(id);
    }

    /// One of the points where the service is, and the service's circuit to it.
    fn introduction_point(&mut self, client: ClientId, service: ClientId) -> Option<((CircuitId, CircuitSerial), HostId)> {
        let points: Vec<CircuitId> = self.established_introductions(service).collect();
        let state = &mut self.clients[client.index()];
        let draw = state.config.stream.member(INTRODUCTIONS).at(state.met);
        state.met += 1;
        let circuit = *points.get(draw.below(points.len().max(1) as u64) as usize)?;
        Some(((circuit, self.serials[circuit.index()]), self.circuits[circuit.index()].last_relay()))
    }

    /// A circuit for onion services, to `point` where somebody else has chosen its last relay: one that was built ahead, if there is one, longer by that relay
    /// (`circuit_launch_by_extend_info`). None if there is no path, or too much has failed.
    pub(super) fn launch_for(
        &mut self,
        client: ClientId,
        intent: Intent,
        point: Option<HostId>,
        meeting: MeetingId,
    ) -> Option<CircuitId> {
        let ahead = if intent == Intent::Introduction { None } else { self.built_ahead(client, point) };
        let id = match ahead {
            Some(id) => id,
            None => self.launch_anew(client, intent, point)?,
        };
        self.take_part(id, intent, meeting);
        if meeting.is_some() {
            match intent {
                Intent::Rendezvous => self.meetings[meeting.index()].rendezvous = id,
                Intent::Introduce => self.meetings[meeting.index()].introduce = id,
                _ => {}
            }
        }
        match (ahead, point) {
            (None, _) => {
                if let Some(point) = point {
                    self.circuits[id.index()].hops.lengthen(point);
                }
                self.extend_from(id, 0);
            }
            (Some(_), Some(point)) => self.extend_again(id, point),
            (Some(_), None) => {
                self.circuits[id.index()].began = self.queue.now();
                self.onion_circuit_opened(id);
            }
        }
        Some(id)
    }

    /// An unused internal circuit with which `point` goes: none of its relays is that one, or of its family or subnet. In the client's list the first that was not built to be Stable, else the
    /// last (`circuit_find_to_cannibalize`, which such a circuit is asked of that need not be Stable).
    fn built_ahead(&self, client: ClientId, point: Option<HostId>) -> Option<CircuitId> {
        let fits = |id: &&CircuitId| {
            let circuit = &self.circuits[id.index()];
            let open = circuit.state == CircuitState::Open && circuit.intent == Intent::Internal;
            open && !circuit.timed_out
                && !circuit.unusable
                && point.is_none_or(|point| circuit.hops.iter().skip(1).all(|hop| self.paths.compatible(hop.host, point)))
        };
        let stable = |id: &&CircuitId| self.circuits[id.index()].stable;
        let fitting = self.clients[client.index()].pool.clean.iter().filter(fits);
        let (early, late): (Vec<_>, Vec<_>) = fitting.partition(|id| !stable(id));
        let turn = |id: &&&CircuitId| self.turn(***id);
        early.iter().min_by_key(turn).or_else(|| late.iter().max_by_key(turn)).copied().copied()
    }

    fn launch_anew(&mut self, client: ClientId, intent: Intent, point: Option<HostId>) -> Option<CircuitId> {
        if self.has_failed_too_often(client) {
            return None;
        }
        let circuit = self.clients[client.index()].pool.launched;
        // Only where a service lets itself be found circuits are to last (`CIRCLAUNCH_NEED_UPTIME`).
        let stable = intent == Intent::Introduction;
        let path = if let Some(point) = point {
            self.paths.onion_path(client, circuit, point, stable).map(|[guard, second, third, _]| [guard, second, third])
        } else {
            let purpose = Purpose::Internal;
            self.paths.path(&PathRequest { client, circuit, purpose, stable, leg: false, exclude: &[], exit: None })
        };
        let Some(path) = path else {
            // What is drawn for the next number may do.
            self.clients[client.index()].pool.launched += 1;
            return None;
        };
        Some(self.launch_on(client, path, intent, stable))
    }

    /// An open circuit gets one more relay.
    fn extend_again(&mut self, id: CircuitId, point: HostId) {
        let now = self.queue.now();
        let circuit = &mut self.circuits[id.index()];
        circuit.hops.lengthen(point);
        circuit.state = CircuitState::Building;
        circuit.began = now;
        let (client, last) = (circuit.client, circuit.built);
        let pool = &mut self.clients[client.index()].pool;
        pool.open -= 1;
        pool.building += 1;
        self.originate(0, Direction::ToExit, Cell::new(CellKind::Extend, id).for_hop(last));
    }

    /// A circuit of an onion service or its client has all its relays, or was taken as it is.
    pub(crate) fn onion_circuit_opened(&mut self, id: CircuitId) {
        let circuit = &self.circuits[id.index()];
        let (client, intent) = (circuit.client, circuit.intent);
        self.clients[client.index()].pool.clean.retain(|&other| other != id);
        match intent {
            Intent::Rendezvous => {
                if let Some(meeting) = self.meeting_of(id) {
                    self.meetings[meeting.index()].since = self.queue.now();
                }
                self.ask_last_relay(id, CellKind::EstablishRendezvous);
            }
            Intent::Introduce => self.introduce_if_ready(id),
            Intent::Introduction => self.ask_last_relay(id, CellKind::EstablishIntro),
            _ => self.come_to_rendezvous(id),
        }
    }

    pub(super) fn ask_last_relay(&mut self, id: CircuitId, kind: CellKind) {
        let last = self.circuits[id.index()].hops.last();
        self.originate(0, Direction::ToExit, Cell::new(kind, id).for_hop(last));
    }

    /// INTRODUCE1, once both circuits of the meeting are there (`hs_client_send_introduce1`).
    fn introduce_if_ready(&mut self, id: CircuitId) {
        let Some(id) = self.meeting_of(id) else { return };
        let meeting = &self.meetings[id.index()];
        let introduce = meeting.introduce;
        let open = introduce.is_some() && self.circuits[introduce.index()].state == CircuitState::Open;
        if meeting.established && open && meeting.step == Step::Prepared {
            self.step(id, Step::Introduced);
            self.ask_last_relay(introduce, CellKind::Introduce1);
        }
    }

    fn step(&mut self, id: MeetingId, step: Step) {
        let meeting = &mut self.meetings[id.index()];
        (meeting.step, meeting.since) = (step, self.queue.now());
    }

    /// What relays and services say to the owner of an onion-service circuit.
    pub(crate) fn onion_cell_at_owner(&mut self, cell: Cell) {
        if cell.kind == CellKind::IntroEstablished {
            return self.introduction_established(cell.circuit);
        }
        if cell.kind == CellKind::Introduce2 {
            return self.introduced_at_service(cell.circuit);
        }
        let Some(id) = self.meeting_of(cell.circuit) else { return };
        match cell.kind {
            CellKind::RendezvousEstablished => {
                self.meetings[id.index()].established = true;
                self.introduce_if_ready(cell.circuit);
            }
            // The introduction point did not know the service any more.
            CellKind::IntroduceAck if cell.length > 0 => self.call_off(id),
            CellKind::IntroduceAck => {
                if self.meetings[id.index()].step == Step::Introduced {
                    self.step(id, Step::Acknowledged);
                }
                self.closes_because(cell.circuit, CloseReason::Finished);
                self.close_at(cell.circuit, 0, None);
            }
            _ => self.joined_at_client(id),
        }
    }

    /// RENDEZVOUS2: the service is at the other end (`handle_rendezvous2`).
    fn joined_at_client(&mut self, id: MeetingId) {
        self.step(id, Step::Joined);
        let meeting = &mut self.meetings[id.index()];
        meeting.joined = Some(meeting.since);
        let (client, circuit) = (meeting.client, meeting.rendezvous);
        let flow = match meeting.owner {
            Owner::Flow(flow) => Some(flow),
            Owner::Anyone | Owner::Nobody => None,
        };
        self.first_use(client, circuit, flow);
        self.attach_waiting(client);
    }

    /// A circuit is gone at its owner, or will never be used: what it was to lead to ends with it.
    pub(crate) fn meeting_lost(&mut self, id: CircuitId) {
        let intent = self.circuits[id.index()].intent;
        if intent == Intent::Introduction {
            return self.introduction_lost(id);
        }
        let Some(meeting) = self.meeting_of(id) else { return };
        let waits = matches!(self.meetings[meeting.index()].step, Step::Prepared | Step::Introduced);
        if intent == Intent::Rendezvous || intent == Intent::Introduce && waits {
            self.call_off(meeting);
        }
    }

    /// The circuit to the rendezvous point is late: no service is asked to come there, and the client goes to another point in its next second. The circuit to the introduction point is kept.
    pub(crate) fn leave_meeting(&mut self, id: CircuitId) {
        let Some(meeting) = self.meeting_of(id) else { return };
        if let Some(part) = &mut self.circuits[id.index()].hops.onion {
            part.meeting = MeetingId::NONE;
        }
        self.meetings[meeting.index()].rendezvous = CircuitId::NONE;
        self.release(meeting);
    }

    /// The client gives the meeting up, or it has been.
    fn call_off(&mut self, id: MeetingId) {
        let meeting = &mut self.meetings[id.index()];
        if std::mem::replace(&mut meeting.step, Step::Over) == Step::Over {
            return;
        }
        let (client, circuits) = (meeting.client, [meeting.rendezvous, meeting.introduce]);
        self.clients[client.index()].meetings.retain(|&other| other != id);
        // It must not be forgotten meanwhile.
        self.meetings[id.index()].references += 1;
        for circuit in circuits.into_iter().filter(|circuit| circuit.is_some()) {
            if self.circuits[circuit.index()].state != CircuitState::Closed {
                self.closes_because(circuit, CloseReason::NoRendezvous);
                self.close_at(circuit, 0, None);
            }
        }
        self.release(id);
    }

    /// A flow is over: nobody else gets what was to be its circuit.
    pub(crate) fn flow_meets_nobody(&mut self, client: ClientId, flow: FlowId) {
        for id in self.clients[client.index()].meetings.clone() {
            if self.meetings[id.index()].owner == Owner::Flow(flow) {
                self.meetings[id.index()].owner = Owner::Nobody;
                if self.meetings[id.index()].step != Step::Joined {
                    self.call_off(id);
                }
            }
        }
    }

    /// Meetings that take too long (`circuit_expire_building`; circuits that are being built have limits of their own).
    pub(crate) fn expire_meetings(&mut self, client: ClientId) {
        for id in self.clients[client.index()].meetings.clone() {
            let step = self.late_by(id);
            if step == Some(Step::Prepared) {
                let circuit = self.meetings[id.index()].rendezvous;
                self.leave_meeting(circuit);
                self.closes_because(circuit, CloseReason::NoRendezvous);
                self.close_at(circuit, 0, None);
            } else if step.is_some() {
                self.call_off(id);
                continue;
            }
            let meeting = &self.meetings[id.index()];
            let wants = meeting.step == Step::Prepared && !meeting.rendezvous.is_some();
            if wants && self.launch_for(client, Intent::Rendezvous, None, id).is_none() {
                self.call_off(id);
            }
        }
    }

    /// The step that the meeting has taken, if what follows it is late.
    fn late_by(&self, id: MeetingId) -> Option<Step> {
        let meeting = &self.meetings[id.index()];
        let timeout = self.clients[meeting.client.index()].learner.timeout();
        let (circuit, limit) = match meeting.step {
            // A cutoff by the stream's time-out is reckoned there (`stream_cutoff`) and never used.
            Step::Prepared if !meeting.established => (meeting.rendezvous, timeout),
            Step::Introduced => (meeting.introduce, timeout * 14 / 6 + SECOND),
            Step::Acknowledged => (meeting.rendezvous, timeout * 3 + SECOND),
            Step::Prepared | Step::Joined | Step::Over => return None,
        };
        if !circuit.is_some() {
            return None;
        }
        let circuit = &self.circuits[circuit.index()];
        let late = circuit.state == CircuitState::Open && is_late(circuit.began, meeting.since, limit, self.queue.now());
        late.then_some(meeting.step)
    }

    /// Whether the client is on its way to a service.
    pub(crate) fn is_meeting(&self, client: ClientId) -> bool {
        self.clients[client.index()].meetings.iter().any(|id| self.meetings[id.index()].step != Step::Joined)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_world::at;

    /// Three seconds may pass after a step at 2.4 s, which tor takes for one at two seconds: it is late from 5 s on, if its circuit began before that second. Where that was in the same
    /// second, the circuit's age decides.
    #[test]
    fn steps_of_a_meeting_are_late_by_the_seconds_of_the_clock() {
        let late = |began, since, now| is_late(at(began), at(since), SECOND * 3, at(now));
        assert_eq!([4999, 5000, 5300, 5400].map(|now| late(1900, 2400, now)), [false, true, true, true]);
        assert_eq!([5000, 5099, 5100, 5400].map(|now| late(2100, 2400, now)), [false, false, true, true]);
        assert_eq!([4000, 4999, 5000].map(|now| late(1000, 2000, now)), [false, false, true]);
        assert!(!late(0, 0, 2999) && late(0, 0, 3000));
    }
}
