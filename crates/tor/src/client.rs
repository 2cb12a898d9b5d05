//! The client: circuits ready ahead of time, one download after the other, time-outs.

use crate::cell::{Cell, CellKind};
use crate::circuit::{CircuitState, Place};
use crate::ids::{CircuitId, ClientId, EndId, StreamId};
use crate::records::{CircuitSerial, CloseReason, Outcome, TransferRecord};
use crate::stream::{ExitState, Stream, StreamEnd};
use crate::world::{Event, World};
use onionlab_engine::HostId;
use onionlab_load::LoadModel;
use onionlab_net::SocketId;
use onionlab_quantities::{RandomStream, SimDuration, SimTime};

/// What the socket between a program and its tor holds (the default of Linux's `tcp_rmem`).
const PROGRAM_SOCKET: u64 = 131_072;

/// Where a client's circuits and downloads go: functions of the client and an ordinal, the same under every treatment.
pub trait PathSource: Send {
    /// Guard, middle and exit of the client's circuit with this ordinal.
    fn path(&self, client: ClientId, circuit: u64) -> [HostId; 3];
    /// The server of the client's download with this ordinal.
    fn server(&self, client: ClientId, transfer: u64) -> HostId;
}

/// One client: a tor process and the program behind it, on the same host.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Its host.
    pub host: HostId,
    /// What it downloads.
    pub load: LoadModel,
    /// The random values of its downloads.
    pub stream: RandomStream,
    /// Its tor starts and builds circuits.
    pub boot: SimTime,
    /// Its program starts the first download.
    pub start: SimTime,
    /// It starts no download at this time or later.
    pub stop: SimTime,
    /// A download that takes longer has failed.
    pub timeout: SimDuration,
    /// A download that receives nothing for so long has failed.
    pub stall: SimDuration,
    /// A new circuit for each download, as `IsolateSOCKSAuth` with new credentials gives.
    pub circuit_per_transfer: bool,
    /// The congestion control at the exits of its circuits is recorded at each SENDME.
    pub trace: bool,
}

/// The download that is going on.
#[derive(Debug)]
struct Transfer {
    ordinal: u64,
    size: u64,
    request: u64,
    header: u64,
    pause_after: SimDuration,
    start: SimTime,
    connected: Option<SimTime>,
    first_byte: Option<SimTime>,
    received: u64,
    /// The last byte, or the start.
    progress: SimTime,
    stream: Option<(StreamId, CircuitSerial)>,
}

#[derive(Debug)]
pub(crate) struct Client {
    pub config: ClientConfig,
    pub circuits_launched: u64,
    next_transfer: u64,
    /// The circuit that new streams use, and the next one, being built or ready.
    current: Option<CircuitId>,
    spare: Option<CircuitId>,
    transfer: Option<Transfer>,
    check_at: SimTime,
}

impl Client {
    pub fn new(config: ClientConfig) -> Self {
        Self {
            config,
            circuits_launched: 0,
            next_transfer: 0,
            current: None,
            spare: None,
            transfer: None,
            check_at: SimTime::MAX,
        }
    }
}

impl World {
    pub(crate) fn boot(&mut self, client: ClientId) {
        self.keep_spare(client);
        let config = &self.clients[client.index()].config;
        if config.start < config.stop {
            let (start, host) = (config.start.max(self.queue.now()), config.host);
            self.queue.schedule(start, host, Event::NextTransfer(client));
        }
    }

    /// A circuit is always ready or on its way (tor keeps two clean ones for the ports in use; one here).
    fn keep_spare(&mut self, client: ClientId) {
        if self.clients[client.index()].spare.is_none() {
            let circuit = self.launch_circuit(client);
            self.clients[client.index()].spare = Some(circuit);
        }
    }

    /// The program opens a stream.
    pub(crate) fn start_transfer(&mut self, client: ClientId) {
        let now = self.queue.now();
        let state = &mut self.clients[client.index()];
        if now >= state.config.stop || state.transfer.is_some() {
            return;
        }
        let ordinal = state.next_transfer;
        let Some(next) = state.config.load.transfer(state.config.stream, ordinal) else { return };
        state.next_transfer += 1;
        state.transfer = Some(Transfer {
            ordinal,
            size: next.size.get(),
            request: next.request.get(),
            header: next.header.get(),
            pause_after: next.pause_after,
            start: now,
            connected: None,
            first_byte: None,
            received: 0,
            progress: now,
            stream: None,
        });
        self.arm_check(client);
        self.attach_stream(client);
    }

    /// Gives the waiting stream a circuit, if one is ready (`connection_ap_handshake_attach_circuit`).
    fn attach_stream(&mut self, client: ClientId) {
        let now = self.queue.now();
        let state = &self.clients[client.index()];
        let Some(transfer) = &state.transfer else { return };
        if transfer.stream.is_some() {
            return;
        }
        let (request, size, ordinal) = (transfer.request, transfer.size, transfer.ordinal);
        let header = transfer.header;
        let usable = |circuit: CircuitId| {
            let fresh = self.circuits[circuit.index()].first_used.is_none_or(|used| now < used + self.settings.circuit_dirtiness);
            fresh && self.circuits[circuit.index()].state == CircuitState::Open
        };
        let current = state.current.filter(|&current| !state.config.circuit_per_transfer && usable(current));
        let circuit = if let Some(current) = current {
            current
        } else {
            let Some(spare) = state.spare else { return self.keep_spare(client) };
            if self.circuits[spare.index()].state != CircuitState::Open {
                return;
            }
            let old = self.clients[client.index()].current.replace(spare);
            self.clients[client.index()].spare = None;
            if let Some(old) = old {
                self.close_at(old, 0, None);
            }
            self.keep_spare(client);
            spare
        };
        self.circuits[circuit.index()].first_used.get_or_insert(now);
        let server = self.paths.server(client, ordinal);
        let stream = self.new_stream(circuit, server, request, size, header);
        let state = &mut self.clients[client.index()];
        if let Some(transfer) = &mut state.transfer {
            transfer.stream = Some((stream, self.serials[circuit.index()]));
        }
        self.send_from(Place::Client, Cell::new(CellKind::Begin, circuit).on(stream));
        if self.settings.optimistic_data {
            self.streams[stream.index()].request_unread = request;
            self.read_request(stream);
        }
    }

    pub(crate) fn new_stream(&mut self, circuit: CircuitId, server: HostId, request: u64, size: u64, header: u64) -> StreamId {
        let end = StreamEnd::new(self.stream_control());
        let stream = Stream {
            circuit,
            server,
            request,
            request_unread: 0,
            size,
            header,
            ends: [end.clone(), end],
            request_received: 0,
            answer_written: 0,
            exit: ExitState::None,
            socket: SocketId(u32::MAX),
            server_closed: false,
            client_ended: false,
            live_cells: 0,
        };
        if let Some(id) = self.free_streams.pop() {
            self.streams[id.index()] = stream;
            id
        } else {
            self.streams.push(stream);
            StreamId(self.streams.len() as u32 - 1)
        }
    }

    /// A circuit has become ready.
    pub(crate) fn circuit_ready(&mut self, client: ClientId) {
        self.attach_stream(client);
    }

    /// A circuit is gone: what it carried has failed, and another is built in its place.
    pub(crate) fn circuit_lost(&mut self, client: ClientId, circuit: CircuitId) {
        let state = &mut self.clients[client.index()];
        if state.current == Some(circuit) {
            state.current = None;
        }
        if state.spare == Some(circuit) {
            state.spare = None;
            self.keep_spare(client);
        }
        let on_it =
            |stream: StreamId| self.streams[stream.index()].circuit == circuit && !self.streams[stream.index()].client_ended;
        let state = &self.clients[client.index()];
        if state.transfer.as_ref().and_then(|transfer| transfer.stream).is_some_and(|(stream, _)| on_it(stream)) {
            self.finish_transfer(client, Outcome::CircuitClosed);
        }
    }

    /// CONNECTED: the program sends its request, if it has waited for this.
    pub(crate) fn connected_at_client(&mut self, cell: Cell) {
        let now = self.queue.now();
        let Some(client) = self.client_of(cell) else { return };
        let Some(transfer) = &mut self.clients[client.index()].transfer else { return };
        transfer.connected = Some(now);
        if !self.settings.optimistic_data {
            self.streams[cell.stream.index()].request_unread = transfer.request;
            self.read_request(cell.stream);
        }
    }

    /// One read callback of the client's tor at its program, which has written the whole request: what the socket between the two holds, packaged at
    /// once, unless the circuit or the server's end has it wait.
    pub(crate) fn read_request(&mut self, id: StreamId) {
        let stream = &self.streams[id.index()];
        let unread = stream.request_unread;
        if !self.may_read(id, Place::Client) {
            return;
        }
        if unread > 0 {
            let Some(take) = self.edge_tokens(id, Place::Client, unread.min(PROGRAM_SOCKET)) else { return };
            let stream = &mut self.streams[id.index()];
            stream.request_unread -= take;
            stream.end(Place::Client).charge(take);
            stream.end(Place::Client).inbuf += take;
        }
        self.package(id, Place::Client, u32::MAX);
        if self.streams[id.index()].request_unread > 0 && self.may_read(id, Place::Client) {
            self.event_loop.watch_program(id);
        }
    }

    /// The stream of the client's present download.
    pub(crate) fn stream_of(&self, client: ClientId) -> Option<StreamId> {
        if !client.is_some() {
            return None;
        }
        self.clients[client.index()].transfer.as_ref().and_then(|transfer| transfer.stream).map(|(stream, _)| stream)
    }

    /// A DATA cell: both windows are looked after even if nobody wants it any more; the program gets its bytes at once.
    pub(crate) fn data_at_client(&mut self, cell: Cell) {
        let now = self.queue.now();
        self.circuits[cell.circuit.index()].cells_to_client += 1;
        if self.count_for_circuit(cell.circuit, Place::Client).is_err() {
            self.closes_because(cell.circuit, CloseReason::Protocol);
            self.close_at(cell.circuit, Place::Client.hop(), None);
            return;
        }
        let Some(client) = self.client_of(cell) else { return };
        if self.count_for_stream(cell, Place::Client).is_err() {
            return;
        }
        let Some(transfer) = &mut self.clients[client.index()].transfer else { return };
        transfer.first_byte.get_or_insert(now);
        transfer.received += u64::from(cell.length);
        transfer.progress = now;
        let complete = transfer.received >= transfer.size;
        self.sampler.goodput_bytes += u64::from(cell.length);
        if complete {
            self.finish_transfer(client, Outcome::Ok);
            return;
        }
        self.delivered(cell.stream, Place::Client, u64::from(cell.length));
    }

    /// The client whose present download this cell belongs to.
    fn client_of(&self, cell: Cell) -> Option<ClientId> {
        let stream = &self.streams[cell.stream.index()];
        if stream.client_ended { None } else { Some(self.circuits[cell.circuit.index()].client) }
    }

    /// END from the exit: the server closed or refused before everything had come.
    pub(crate) fn end_at_client(&mut self, cell: Cell) {
        if let Some(client) = self.client_of(cell) {
            self.finish_transfer(client, Outcome::CircuitClosed);
        }
    }

    /// The download is over: it is recorded, its stream is ended, the next is planned.
    fn finish_transfer(&mut self, client: ClientId, outcome: Outcome) {
        let now = self.queue.now();
        let state = &mut self.clients[client.index()];
        let Some(transfer) = state.transfer.take() else { return };
        self.records.transfers.push(transfer_record(client, &transfer, now, outcome));
        if outcome == Outcome::Ok {
            self.sampler.transfers_ok += 1;
        } else {
            self.sampler.transfers_failed += 1;
        }
        let (host, next) = (state.config.host, now + transfer.pause_after);
        self.queue.schedule(next, host, Event::NextTransfer(client));
        if let Some((stream, _)) = transfer.stream {
            let circuit = self.streams[stream.index()].circuit;
            self.streams[stream.index()].client_ended = true;
            if self.circuits[circuit.index()].state == CircuitState::Open {
                self.send_from(Place::Client, Cell::new(CellKind::End, circuit).on(stream));
            }
            self.recycle_stream(stream);
        }
    }

    fn arm_check(&mut self, client: ClientId) {
        let state = &mut self.clients[client.index()];
        let Some(transfer) = &state.transfer else { return };
        let due = (transfer.start + state.config.timeout).min(transfer.progress + state.config.stall);
        if due < state.check_at {
            state.check_at = due;
            self.queue.schedule(due, state.config.host, Event::TransferCheck(client));
        }
    }

    /// Looks whether the download has taken too long, and if not, when to look again.
    pub(crate) fn check_transfer(&mut self, client: ClientId) {
        let now = self.queue.now();
        let state = &mut self.clients[client.index()];
        if state.check_at > now {
            return;
        }
        state.check_at = SimTime::MAX;
        let Some(transfer) = &state.transfer else { return };
        if transfer.start + state.config.timeout <= now {
            self.finish_transfer(client, Outcome::Timeout);
        } else if transfer.progress + state.config.stall <= now {
            self.finish_transfer(client, Outcome::Stall);
        } else {
            self.arm_check(client);
        }
    }

    /// Records what is still going on when the run ends: downloads as unfinished, circuits and channels as open.
    pub fn finish(&mut self) {
        let now = self.queue.now();
        for (index, client) in self.clients.iter().enumerate() {
            if let Some(transfer) = &client.transfer {
                self.records.transfers.push(transfer_record(ClientId(index as u32), transfer, now, Outcome::Unfinished));
            }
        }
        for index in 0..self.circuits.len() {
            if self.circuits[index].state != CircuitState::Closed {
                let record = self.circuit_record(CircuitId(index as u32), false);
                self.records.circuits.push(record);
            }
        }
        for first in (0..self.ends.len()).step_by(2) {
            self.record_channel(EndId(first as u32), false);
        }
    }

    /// The streams of all downloads that have one.
    pub(crate) fn open_streams(&self) -> impl Iterator<Item = StreamId> {
        self.clients.iter().filter_map(|client| client.transfer.as_ref()?.stream).map(|(stream, _)| stream)
    }
}

fn transfer_record(client: ClientId, transfer: &Transfer, end: SimTime, outcome: Outcome) -> TransferRecord {
    TransferRecord {
        client,
        ordinal: transfer.ordinal,
        circuit: transfer.stream.map(|(_, serial)| serial),
        size: transfer.size,
        received: transfer.received.min(transfer.size),
        start: transfer.start,
        connected: transfer.connected,
        first_byte: transfer.first_byte,
        last_byte: (outcome == Outcome::Ok).then_some(end),
        end,
        outcome,
    }
}
