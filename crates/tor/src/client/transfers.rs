//! The streams of a client's program: each waits for a circuit, asks the exit to connect, exchanges its bytes and ends
//! (`core/or/connection_edge.c`). What else may happen to them is in `retrying`.

mod retrying;

use super::{ClientConfig, ClientOptions, Writer};
use crate::cell::{Cell, CellKind};
use crate::circuit::{CircuitState, Place};
use crate::ids::{CircuitId, ClientId, FlowId, StreamId, TransferId};
use crate::records::{CircuitSerial, ExchangeKind, Outcome, TransferRecord};
use crate::stream::{Blocked, ExitState, Patience, Stream, StreamEnd};
use crate::switching::StreamSwitching;
use crate::world::{Event, World};
use onionlab_engine::HostId;
use onionlab_load::{Exchange, StreamPlan};
use onionlab_net::SocketId;
use onionlab_quantities::{SimDuration, SimTime};

/// What the socket between a program and its tor holds (the default of Linux's `tcp_rmem`).
pub(crate) const PROGRAM_SOCKET: u64 = 131_072;

/// Where a stream stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It has no circuit (`AP_CONN_STATE_CIRCUIT_WAIT`).
    Waits,
    /// BEGIN is sent (`AP_CONN_STATE_CONNECT_WAIT`).
    Connects { since: SimTime },
    /// CONNECTED has come.
    Open,
}

/// A stream of a client's program.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub client: ClientId,
    pub flow: FlowId,
    /// Number of the stream among those of the client, from 0.
    pub ordinal: u64,
    pub port: u16,
    user: u32,
    flow_ordinal: u64,
    server: HostId,
    /// The onion service that runs there; none where it is a server.
    pub service: ClientId,
    exchange: Exchange,
    timeout: SimDuration,
    start: SimTime,
    /// The same, or when it began anew after a switch that failed.
    began: SimTime,
    connected: Option<SimTime>,
    answered: Option<SimTime>,
    first_byte: Option<SimTime>,
    /// The last byte, or the start.
    progress: SimTime,
    received: u64,
    /// Bytes that the program has written, and those of them that tor has not read.
    written: u64,
    unread: u64,
    /// The program's end of a script, once it has begun.
    writer: Option<Box<Writer>>,
    state: State,
    /// BEGINs that were given up.
    retries: u8,
    stream: StreamId,
    circuit: Option<CircuitSerial>,
    check_at: SimTime,
}

impl Transfer {
    /// Bytes that the server writes, its header left out; for a script all of them, as far as the client knows.
    fn size(&self) -> u64 {
        match &self.exchange {
            Exchange::Download { size, .. } => size.get(),
            Exchange::Script(_) => self.writer.as_ref().map_or(0, |writer| writer.expects()),
        }
    }

    /// What of them has arrived.
    fn received_of_size(&self) -> u64 {
        let beside = if matches!(self.exchange, Exchange::Script(_)) { 0 } else { self.exchange.header() };
        self.received.saturating_sub(beside).min(self.size())
    }

    /// Whether the program has everything that it expects, and tor everything that it writes.
    fn is_complete(&self) -> bool {
        match &self.exchange {
            Exchange::Script(_) => {
                let written = self.writer.as_ref().is_some_and(|writer| writer.is_finished());
                written && self.unread == 0 && self.received >= self.size()
            }
            Exchange::Download { header, size, .. } => self.received >= header.get() + size.get(),
        }
    }

    /// The most that there is for tor to read at a time: what the program's socket holds, or what of a request comes alone.
    fn readable(&self) -> u64 {
        match self.exchange {
            Exchange::Download { first, .. } if self.unread == self.written => first.get().min(PROGRAM_SOCKET),
            _ => PROGRAM_SOCKET,
        }
    }

    /// Bytes that the program has.
    pub(crate) const fn received(&self) -> u64 {
        self.received
    }

    /// The program writes so much more.
    #[cfg(test)]
    pub(crate) fn writes(&mut self, bytes: u64) {
        self.written += bytes;
        self.unread += bytes;
    }

    /// Of what the program has written what tor has not read.
    #[cfg(test)]
    pub(crate) const fn unread(&self) -> u64 {
        self.unread
    }

    /// How long a reply to BEGIN is waited for; an onion service's at least as long as a circuit would be (`connection_ap_expire_beginning`).
    fn reply_timeout(&self, options: &ClientOptions) -> SimDuration {
        let timeout = options.answer_within(self.retries);
        if self.service.is_some() { timeout.max(options.socks_timeout) } else { timeout }
    }

    fn due(&self, config: &ClientConfig) -> SimTime {
        let due = (self.start + self.timeout).min(self.progress + config.stall);
        match self.state {
            State::Waits | State::Connects { .. } => due.min(self.tor_gives_up(config)),
            State::Open => due,
        }
    }

    /// When tor has waited long enough, for a circuit or for the reply to BEGIN: the first of its seconds that is, by a clock of whole seconds, so much later
    /// (`connection_ap_expire_beginning`). Never while the stream is open.
    fn tor_gives_up(&self, config: &ClientConfig) -> SimTime {
        match self.state {
            State::Waits => config.second_past(self.began, config.options.socks_timeout),
            State::Connects { since } => config.second_past(since, self.reply_timeout(&config.options)),
            State::Open => SimTime::MAX,
        }
    }
}

impl World {
    /// The program opens a stream.
    pub(crate) fn begin_transfer(&mut self, client: ClientId, flow: FlowId, stream: u64, plan: StreamPlan) {
        let now = self.queue.now();
        let (key, flow_ordinal) = (self.stream_key(flow, stream), self.flows[flow.index()].ordinal);
        let user = self.sequences[self.flows[flow.index()].sequence.index()].user;
        let server = self.paths.server(client, key);
        let service = self.service_at(server);
        let state = &mut self.clients[client.index()];
        if service.is_some() {
            // Whatever circuit it will get (`connection_ap_handshake_rewrite_and_attach`).
            state.ports.used_internal(now, &self.settings.client);
        } else {
            state.ports.used(plan.port, now, &self.settings.client);
        }
        let ordinal = state.next_transfer;
        state.next_transfer += 1;
        let transfer = Transfer {
            client,
            flow,
            ordinal,
            port: plan.port,
            user,
            flow_ordinal,
            server,
            service,
            exchange: plan.exchange,
            timeout: plan.timeout.unwrap_or(state.config.timeout),
            start: now,
            began: now,
            connected: None,
            answered: None,
            first_byte: None,
            progress: now,
            received: 0,
            written: 0,
            unread: 0,
            writer: None,
            state: State::Waits,
            retries: 0,
            stream: StreamId::NONE,
            circuit: None,
            check_at: SimTime::MAX,
        };
        let id = TransferId(self.transfers.insert(transfer) as u32);
        if self.settings.optimistic_data {
            self.begin_program(id);
        }
        self.arm_check(id);
        self.needs_circuit(id);
    }

    /// The program writes what it begins with.
    fn begin_program(&mut self, id: TransferId) {
        let transfer = &mut self.transfers[id.index()];
        transfer.written = match &transfer.exchange {
            Exchange::Download { request, .. } => request.get(),
            Exchange::Script(script) => {
                transfer.writer = Some(Box::new(Writer::new(script, true)));
                script.greeting()[0].get()
            }
        };
        transfer.unread = transfer.written;
        self.program_writes(id);
    }

    /// A program that follows a script writes what is due, as far as its socket takes it.
    pub(crate) fn program_writes(&mut self, id: TransferId) {
        let now = self.queue.now();
        let Some(transfer) = self.transfers.get_mut(id.index()) else { return };
        let Some(writer) = &mut transfer.writer else { return };
        while transfer.unread <= PROGRAM_SOCKET
            && let Some(bytes) = writer.write(now)
        {
            transfer.written += bytes;
            transfer.unread += bytes;
            if let Some(next) = writer.next(now) {
                let host = self.clients[transfer.client.index()].config.host;
                self.queue.schedule(next, host, Event::ProgramWrites(id));
            }
        }
        // It may also be over now: tor looks at it in the next pass.
        if transfer.stream.is_some() {
            self.event_loop.watch_program(transfer.stream);
        }
    }

    /// Gives the stream this circuit (`connection_ap_handshake_attach_chosen_circuit`).
    pub(crate) fn attach_to(&mut self, id: TransferId, circuit: CircuitId) {
        let now = self.queue.now();
        let transfer = &self.transfers[id.index()];
        let (awaited, size, header, writer) = match &transfer.exchange {
            Exchange::Download { awaited, size, header, .. } => (awaited.get(), header.get() + size.get(), header.get(), None),
            Exchange::Script(script) => {
                let [client, server] = script.greeting();
                (client.get(), server.get(), 0, Some(Box::new(Writer::new(script, false))))
            }
        };
        let stream = self.new_stream(circuit, transfer.server, awaited, size, header);
        self.streams[stream.index()].writer = writer;
        self.streams[stream.index()].transfer = id;
        self.circuits[circuit.index()].client_streams.push(stream);
        let transfer = &mut self.transfers[id.index()];
        transfer.stream = stream;
        transfer.circuit = Some(self.serials[circuit.index()]);
        transfer.state = State::Connects { since: now };
        transfer.unread = transfer.written;
        self.arm_check(id);
        self.send_from(Place::Client, Cell::new(CellKind::Begin, circuit).on(stream));
        if self.settings.optimistic_data && !self.is_in_a_set(circuit) {
            self.read_program(stream);
        }
    }

    pub(crate) fn new_stream(&mut self, circuit: CircuitId, server: HostId, awaited: u64, size: u64, header: u64) -> StreamId {
        let stream = Stream {
            circuit,
            transfer: TransferId::NONE,
            server,
            awaited,
            size,
            header,
            writer: None,
            ends: self.stream_controls().map(StreamEnd::new),
            request_received: 0,
            answer_written: 0,
            exit: ExitState::None,
            unread: None,
            socket: SocketId(u32::MAX),
            server_closed: false,
            patience: Patience::NEW,
            blocked: Blocked::default(),
            outlives: CircuitId::NONE,
            client_ended: false,
            live_cells: 0,
            switching: StreamSwitching::NONE,
        };
        if let Some(id) = self.free_streams.pop() {
            self.streams[id.index()] = stream;
            id
        } else {
            self.streams.push(stream);
            StreamId(self.streams.len() as u32 - 1)
        }
    }

    /// CONNECTED: the program writes, if it has waited for this.
    pub(crate) fn connected_at_client(&mut self, cell: Cell) {
        let now = self.queue.now();
        let Some(id) = self.transfer_of(cell) else {
            self.standby_connected(cell.stream);
            return;
        };
        let transfer = &mut self.transfers[id.index()];
        self.clients[transfer.client.index()].learner.heard(now);
        transfer.connected.get_or_insert(now);
        transfer.state = State::Open;
        transfer.progress = now;
        if !self.settings.optimistic_data {
            self.begin_program(id);
            self.read_program(cell.stream);
        } else if self.is_in_a_set(cell.circuit) {
            self.read_program(cell.stream);
        }
    }

    /// One read callback of the client's tor at its program: what the socket between the two holds, packaged at once, unless the circuit or the server's end
    /// has it wait.
    pub(crate) fn read_program(&mut self, id: StreamId) {
        let Some(transfer) = self.open_transfer(id) else { return };
        // No data goes ahead of CONNECTED over a set.
        if self.transfers[transfer.index()].state != State::Open && self.is_in_a_set(self.streams[id.index()].circuit) {
            return;
        }
        let program = &self.transfers[transfer.index()];
        let (unread, most) = (program.unread, program.readable().min(self.settings.client.program_read.get()));
        if self.is_reading(id, Place::Client) {
            // Without tokens it packages all the same what it has read.
            if unread > 0
                && let Some(take) = self.edge_tokens(id, Place::Client, unread.min(most))
            {
                let transfer = &mut self.transfers[transfer.index()];
                transfer.unread -= take;
                transfer.progress = self.queue.now();
                // What the program writes meanwhile has tor wait longer for the reply (`timestamp_last_read_allowed`).
                if let State::Connects { since } = &mut transfer.state {
                    *since = self.queue.now();
                }
                self.edge_has_read(id, Place::Client, take);
            }
            self.package(id, Place::Client, u32::MAX);
            self.consider_stop_reading(id, Place::Client);
            let Some(transfer) = self.open_transfer(id) else { return };
            if self.transfers[transfer.index()].unread > 0 && self.is_reading(id, Place::Client) {
                self.event_loop.watch_program(id);
            }
            if unread > 0 && self.transfers[transfer.index()].writer.is_some() {
                self.program_writes(transfer);
            }
        }
        self.finish_if_complete(id);
    }

    /// A scripted exchange is over for the client when its program has everything and its tor has packaged everything.
    fn finish_if_complete(&mut self, stream: StreamId) {
        let Some(id) = self.open_transfer(stream) else { return };
        let transfer = &self.transfers[id.index()];
        let open = transfer.state == State::Open && matches!(transfer.exchange, Exchange::Script(_));
        if open && transfer.is_complete() && self.streams[stream.index()].ends[Place::Client as usize].inbuf == 0 {
            self.finish_transfer(id, Outcome::Ok);
        }
    }

    /// A DATA cell in its turn: the program gets its bytes at once.
    pub(crate) fn data_at_client(&mut self, cell: Cell) {
        if self.transfer_of(cell).is_none() {
            if !self.arrives_early(cell) {
                self.note_lost(cell);
            }
            return;
        }
        if self.count_for_stream(cell, Place::Client).is_ok() {
            self.program_gets(cell.stream, u64::from(cell.length));
        }
    }

    /// Bytes of the answer for the client's program.
    pub(crate) fn program_gets(&mut self, stream: StreamId, length: u64) {
        let now = self.queue.now();
        // An XOFF for the last cell may have been one too many.
        let Some(id) = self.open_transfer(stream) else { return };
        self.sampler.goodput_bytes += length;
        let transfer = &mut self.transfers[id.index()];
        self.clients[transfer.client.index()].learner.heard(now);
        transfer.received += length;
        transfer.answered.get_or_insert(now);
        // As tgen counts, whose header is its protocol's.
        if transfer.received > transfer.exchange.header() {
            transfer.first_byte.get_or_insert(now);
        }
        transfer.progress = now;
        if !matches!(transfer.exchange, Exchange::Script(_)) && transfer.is_complete() {
            self.finish_transfer(id, Outcome::Ok);
            return;
        }
        self.delivered(stream, Place::Client, length);
        self.finish_if_complete(stream);
    }

    /// The transfer that this cell belongs to, if the client still wants it.
    fn transfer_of(&self, cell: Cell) -> Option<TransferId> {
        self.open_transfer(cell.stream)
    }

    fn open_transfer(&self, id: StreamId) -> Option<TransferId> {
        let stream = &self.streams[id.index()];
        (!stream.client_ended && stream.transfer.is_some()).then_some(stream.transfer)
    }

    /// The client is done with the stream on its circuit: END goes to the exit.
    fn leave_circuit(&mut self, id: TransferId) {
        let stream = std::mem::replace(&mut self.transfers[id.index()].stream, StreamId::NONE);
        if !stream.is_some() {
            return;
        }
        let circuit = self.streams[stream.index()].circuit;
        self.leave_standby(stream);
        self.streams[stream.index()].client_ended = true;
        self.circuits[circuit.index()].client_streams.retain(|&other| other != stream);
        if self.circuits[circuit.index()].state == CircuitState::Open {
            self.send_from(Place::Client, Cell::new(CellKind::End, circuit).on(stream));
        }
        self.recycle_stream(stream);
    }

    /// The transfer is over: it is recorded, its stream is ended, its flow goes on.
    pub(crate) fn finish_transfer(&mut self, id: TransferId, outcome: Outcome) {
        self.record_transfer(id, outcome);
        if outcome == Outcome::Ok {
            self.sampler.transfers_ok += 1;
        } else {
            self.sampler.transfers_failed += 1;
        }
        self.leave_circuit(id);
        let transfer = self.transfers.remove(id.index());
        if transfer.state == State::Waits {
            self.clients[transfer.client.index()].waiting.retain(|&other| other != id);
        }
        self.stream_over(transfer.flow);
    }

    pub(crate) fn record_transfer(&mut self, id: TransferId, outcome: Outcome) {
        let transfer = &self.transfers[id.index()];
        if !self.clients[transfer.client.index()].config.record {
            return;
        }
        let end = self.queue.now();
        self.records.transfers.push(TransferRecord {
            client: transfer.client,
            ordinal: transfer.ordinal,
            user: transfer.user,
            flow: transfer.flow_ordinal,
            kind: match transfer.exchange {
                Exchange::Download { .. } => ExchangeKind::Download,
                Exchange::Script(_) => ExchangeKind::Script,
            },
            circuit: transfer.circuit,
            retries: transfer.retries,
            size: transfer.size(),
            received: transfer.received_of_size(),
            sent: transfer.written - transfer.unread,
            start: transfer.start,
            connected: transfer.connected,
            answered: transfer.answered,
            first_byte: transfer.first_byte,
            last_byte: (outcome == Outcome::Ok).then_some(end),
            end,
            outcome,
        });
    }

    /// The streams that have a circuit.
    pub(crate) fn open_streams(&self) -> impl Iterator<Item = StreamId> {
        self.transfers.iter().map(|(_, transfer)| transfer.stream).filter(|stream| stream.is_some())
    }
}

#[cfg(test)]
mod tests {
    use crate::records::TransferRecord;
    use crate::settings::Settings;
    use crate::test_world::{at, in_a_row_with};
    use onionlab_net::tcp::{RoundTrips, TcpConfig};
    use onionlab_quantities::{Bandwidth, SimTime};

    /// The one transfer of 20 s with this load, over TCP whose window begins with one segment.
    fn transfer_of(load: &str) -> TransferRecord {
        transfer_over(TcpConfig { initial_window: 1, ..TcpConfig::shadow() }, Settings::default(), load)
    }

    fn transfer_over(tcp: TcpConfig, settings: Settings, load: &str) -> TransferRecord {
        let mut world = in_a_row_with(tcp, settings, Bandwidth::from_bits_per_sec(50_000_000), load);
        world.run_until(at(20_000));
        let mut transfers = world.take_records().transfers;
        assert_eq!(transfers.len(), 1, "{transfers:?}");
        transfers.remove(0)
    }

    /// A server that says first who it is, as tgen's does, and whose window begins with one segment, has to wait a round trip of 20 ms to the exit before it sends what was asked for. What it
    /// says first counts neither as the first byte nor in the size.
    #[test]
    fn a_header_is_not_the_first_byte() {
        let first_byte = |header: &str| {
            let load = format!("kind = \"web\"\nsize = \"1000 B\"\npause = \"60 s\"\n{header}");
            let transfer = transfer_of(&load);
            assert_eq!((transfer.size, transfer.received), (1000, 1000));
            let since = |time: Option<SimTime>| time.unwrap().saturating_since(transfer.connected.unwrap()).as_secs_f64() * 1e3;
            [transfer.answered, transfer.first_byte].map(since)
        };
        let [[at_once, without], [answered, with]] = [first_byte(""), first_byte("header = \"70 B\"")];
        println!("{without} ms; {answered} and {with} ms");
        // It is the header that answers; nothing does before it.
        assert!(at_once >= without && (20.0..=without).contains(&answered), "{answered} ms, {without} ms");
        // The request is there when the exit has connected.
        assert!((20.0..25.0).contains(&without), "{without} ms");
        // The acknowledgement waits for a moment at the exit.
        assert!((20.0..30.0).contains(&(with - without)), "{without} ms, {with} ms");
    }

    /// A request of 50 kB takes several round trips of a window that begins with one segment; a server that waits for its beginning alone answers after the first, and has all of it in the end.
    #[test]
    fn a_server_may_answer_before_it_has_the_whole_request() {
        let answered = |after: &str| {
            let sizes = "[{ size = \"1000 B\", weight = 1.0, timeout = \"60 s\" }]";
            let load = format!("kind = \"perf\"\nsizes = {sizes}\npause = \"60 s\"\nrequest = \"50 kB\"\n{after}");
            let transfer = transfer_of(&load);
            assert_eq!((transfer.received, transfer.sent), (1000, 50_000));
            transfer.answered.unwrap().saturating_since(transfer.connected.unwrap()).as_secs_f64() * 1e3
        };
        let [whole, beginning] = [answered(""), answered("answer-after = \"222 B\"")];
        assert!((20.0..30.0).contains(&beginning) && whole > beginning + 60.0, "{beginning} ms, {whole} ms");
    }

    /// A request whose beginning tor reads alone leaves in two runs of KIST, and has the server answer when the first is there. With Shadow 1.13's TCP that answer lets the rest go, which does
    /// not acknowledge it, so that the download waits for a time-out of a second.
    #[test]
    fn a_request_in_two_parts_can_cost_a_second() {
        let tcp = TcpConfig { initial_window: 1, round_trips: RoundTrips::Released, ..TcpConfig::shadow() };
        let load = |split: &str| {
            let sizes = "[{ size = \"1000 B\", weight = 1.0, timeout = \"60 s\" }]";
            let said = "request = \"1259 B\"\nanswer-after = \"222 B\"\nheader = \"70 B\"";
            // With the request in the exit's hands before it has connected, it would leave whole.
            let settings = Settings { optimistic_data: false, ..Settings::default() };
            transfer_over(tcp.clone(), settings, &format!("kind = \"perf\"\nsizes = {sizes}\npause = \"60 s\"\n{said}\n{split}"))
        };
        let [whole, early, late] = ["", "222", "1222"].map(|first| match first {
            "" => load(""),
            first => load(&format!("split-requests = [{{ after = \"{first} B\", share = 1.0 }}]")),
        });
        let later = |of: &TransferRecord| of.first_byte.unwrap().saturating_since(of.answered.unwrap()).as_secs_f64() * 1e3;
        assert!((20.0..40.0).contains(&later(&whole)), "{} ms", later(&whole));
        for of in [&whole, &early, &late] {
            assert_eq!(of.sent, 1259);
        }
        for apart in [&early, &late] {
            assert!((1000.0..1040.0).contains(&later(apart)), "{} ms", later(apart));
        }
    }
}
