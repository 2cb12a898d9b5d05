//! The service's side: its introduction points, its way to a rendezvous point, and the program behind it on the same host (`feature/hs/hs_service.c`,
//! `hs_circuit.c`).

use crate::cell::{Cell, CellKind, RELAY_PAYLOAD_SIZE_MAX};
use crate::circuit::{Intent, Place};
use crate::client::PROGRAM_SOCKET;
use crate::ids::{CircuitId, ClientId, MeetingId, StreamId};
use crate::stream::ExitState;
use crate::world::World;
use onionlab_engine::HostId;

/// Introduction points of a service (`NUM_INTRO_POINTS_DEFAULT`).
const INTRODUCTION_POINTS: usize = 3;
/// Relays that are looked at for one, at a time.
const TRIES: u64 = 8;
/// The service's tor reads so much at a time from the program: 32 DATA cells.
const READ: u64 = 32 * RELAY_PAYLOAD_SIZE_MAX as u64;

/// A circuit of a service to one of its introduction points.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Introduction {
    circuit: CircuitId,
    /// Its last relay.
    point: HostId,
    /// INTRO_ESTABLISHED has come.
    established: bool,
}

impl World {
    /// Whether an onion service runs there, and no program of its own.
    pub(crate) fn is_service(&self, client: ClientId) -> bool {
        self.clients[client.index()].config.load.is_none()
    }

    /// Whether it has fewer introduction points than it should.
    pub(crate) fn lacks_introductions(&self, client: ClientId) -> bool {
        self.is_service(client) && self.clients[client.index()].introductions.len() < INTRODUCTION_POINTS
    }

    /// The introductions through which clients can come.
    pub(super) fn established_introductions(&self, service: ClientId) -> impl Iterator<Item = CircuitId> {
        let introductions = &self.clients[service.index()].introductions;
        introductions.iter().filter(|introduction| introduction.established).map(|introduction| introduction.circuit)
    }

    /// Launches circuits to introduction points where some are missing. tor launches two more than it needs at first, and keeps those that open first.
    pub(crate) fn keep_introductions(&mut self, service: ClientId) {
        for _ in 0..TRIES {
            if !self.lacks_introductions(service) {
                return;
            }
            let state = &mut self.clients[service.index()];
            let ordinal = state.introductions_sought;
            state.introductions_sought += 1;
            let Some(point) = self.paths.introduction_point(service, ordinal) else { return };
            let known = self.clients[service.index()].introductions.iter().any(|introduction| introduction.point == point);
            if !known && let Some(circuit) = self.launch_for(service, Intent::Introduction, Some(point), MeetingId::NONE) {
                self.clients[service.index()].introductions.push(Introduction { circuit, point, established: false });
            }
        }
    }

    pub(super) fn introduction_established(&mut self, id: CircuitId) {
        let service = self.circuits[id.index()].client;
        let introductions = &mut self.clients[service.index()].introductions;
        if let Some(introduction) = introductions.iter_mut().find(|introduction| introduction.circuit == id) {
            introduction.established = true;
        }
    }

    pub(super) fn introduction_lost(&mut self, id: CircuitId) {
        let service = self.circuits[id.index()].client;
        self.clients[service.index()].introductions.retain(|introduction| introduction.circuit != id);
    }

    /// INTRODUCE2: the service goes to where the client waits (`launch_rendezvous_point_circuit`).
    pub(super) fn introduced_at_service(&mut self, id: CircuitId) {
        let circuit = &mut self.circuits[id.index()];
        let service = circuit.client;
        let Some(meeting) = circuit.hops.onion.as_mut().and_then(|part| part.introductions.pop_front()) else { return };
        let to = self.meetings[meeting.index()].rendezvous;
        if to.is_some() {
            let point = self.circuits[to.index()].last_relay();
            self.launch_for(service, Intent::Answer, Some(point), meeting);
        }
        self.release(meeting);
    }

    /// The service's circuit to the rendezvous point is open: RENDEZVOUS1. From now on it counts as used, and grows old, since streams on it do not renew that time as they do at the client
    /// (`service_rendezvous_circ_has_opened`).
    pub(super) fn come_to_rendezvous(&mut self, id: CircuitId) {
        let entry = (id, self.serials[id.index()]);
        let circuit = &mut self.circuits[id.index()];
        circuit.first_used = Some(self.queue.now());
        self.clients[circuit.client.index()].pool.dirty.push_back(entry);
        self.ask_last_relay(id, CellKind::Rendezvous1);
    }

    /// BEGIN: the service connects to the program, on its own host.
    pub(crate) fn begin_at_service(&mut self, cell: Cell) {
        let stream = &mut self.streams[cell.stream.index()];
        let circuit = stream.circuit;
        (stream.exit, stream.unread) = (ExitState::Connected, Some(0));
        self.circuits[circuit.index()].streams.push(cell.stream);
        self.send_from(Place::Exit, Cell::new(CellKind::Connected, circuit).on(cell.stream));
        self.server_writes(cell.stream);
    }

    /// DATA: the program takes it at once.
    pub(crate) fn data_at_service(&mut self, cell: Cell) {
        let bytes = u64::from(cell.length);
        self.streams[cell.stream.index()].request_received += bytes;
        self.sampler.bytes_to_servers += bytes;
        self.delivered(cell.stream, Place::Exit, bytes);
        self.server_writes(cell.stream);
    }

    /// The program writes what its socket takes. False if not everything fitted.
    pub(crate) fn write_to_service(&mut self, id: StreamId) -> bool {
        let stream = &mut self.streams[id.index()];
        let Some(unread) = &mut stream.unread else { return true };
        let (before, taken) = (*unread, (stream.size - stream.answer_written).min(PROGRAM_SOCKET - *unread));
        *unread += taken;
        stream.answer_written += taken;
        let all = stream.answer_written == stream.size;
        // If something was there before, it is read already, or waits for the stream to go on.
        if before == 0 && taken > 0 {
            self.event_loop.watch_service(id);
        }
        all
    }

    /// One read callback of the service's tor at the program.
    pub(crate) fn read_service(&mut self, id: StreamId) {
        let Some(unread) = self.streams[id.index()].unread else { return };
        if !self.is_reading(id, Place::Exit) {
            return;
        }
        let mut left = unread;
        if unread > 0 {
            let Some(take) = self.edge_tokens(id, Place::Exit, unread.min(READ)) else { return };
            left -= take;
            self.streams[id.index()].unread = Some(left);
            self.edge_has_read(id, Place::Exit, take);
        }
        self.package(id, Place::Exit, u32::MAX);
        self.consider_stop_reading(id, Place::Exit);
        if left > 0 && self.is_reading(id, Place::Exit) {
            self.event_loop.watch_service(id);
        }
        if unread > 0 {
            self.server_writes(id);
        }
    }

    /// The stream is over at the service.
    pub(crate) fn end_at_service(&mut self, id: StreamId) {
        let stream = &mut self.streams[id.index()];
        stream.exit = ExitState::Ended;
        let circuit = stream.circuit;
        self.circuits[circuit.index()].streams.retain(|&other| other != id);
        self.recycle_stream(id);
    }
}
