//! From streams to cells, at either end of a circuit: what may be packaged when, and who goes first (`core/or/relay.c`).
//!
//! A read event packages until the window is used up; the mark of 256 cells only stops further reads (over a set, a leg whose queue is at the mark takes no
//! cell). A SENDME lets every stream of the circuit read again and first empties what their inbufs hold, in equal shares.

use crate::cell::{Cell, CellKind, RELAY_PAYLOAD_SIZE_MAX, RELAY_PAYLOAD_SIZE_V1};
use crate::circuit::Place;
use crate::ids::{CircuitId, ProbeId, StreamId};
use crate::stream::StreamControl;
use crate::world::World;
use onionlab_flowcontrol::{CongestionAlgorithm, Signals};

impl World {
    /// Sends a cell from one end of its circuit, or of the set of which that is a leg, to the other.
    pub(crate) fn send_from(&mut self, place: Place, mut cell: Cell) {
        if let Some(leg) = self.leg_for(cell.circuit, cell.kind, place) {
            cell.circuit = leg;
            self.send_on(place, cell);
        }
    }

    /// Sends a cell from one end of its circuit to the other.
    pub(crate) fn send_on(&mut self, place: Place, cell: Cell) {
        if self.circuits[cell.circuit.index()].hops.onion.is_some() {
            return self.send_across(place, cell);
        }
        self.originate(place.hop(), place.outgoing(), cell.for_hop(place.other().hop()));
    }

    /// Whether this end reads from its program or server: not while the stream is stopped, the circuit's queue too long or its window used up.
    pub(crate) fn may_read(&self, id: StreamId, place: Place) -> bool {
        let stream = &self.streams[id.index()];
        if !stream.is_open(place) || !stream.ends[place as usize].may_read() {
            return false;
        }
        self.has_room(stream.circuit, place)
    }

    /// Whether this end reads as soon as there is anything.
    ///
    /// Blocking a circuit's streams stops their reading once, and whatever starts it again does not ask whether they are blocked: so it goes on as `may_read`
    /// says, or until the first cell, which stops it again (`append_cell_to_circuit_queue`).
    pub(crate) fn is_reading(&self, id: StreamId, place: Place) -> bool {
        let stream = &self.streams[id.index()];
        let end = &stream.ends[place as usize];
        !end.waits_for_tokens && (self.may_read(id, place) || end.reads_once_more && stream.is_open(place))
    }

    /// `connection_start_reading`, whether the circuit has room or not: after XOFF, a wait for tokens, or when its queue has become short.
    pub(crate) fn start_reading(&mut self, id: StreamId, place: Place) {
        let anyway = !self.may_read(id, place);
        self.resume_reading(id, place);
        let end = self.streams[id.index()].end(place);
        end.reads_once_more = anyway && !end.is_stopped();
    }

    /// `circuit_consider_stop_edge_reading`: without a window no stream of the circuit reads, nor one that has none of its own.
    pub(crate) fn consider_stop_reading(&mut self, id: StreamId, place: Place) {
        if !self.streams[id.index()].ends[place as usize].may_package() {
            self.streams[id.index()].end(place).reads_once_more = false;
        }
        let circuit = self.streams[id.index()].circuit;
        // A cell that found its queue full has closed the circuit, and with it the stream.
        if !circuit.is_some() || self.sending_circuit(circuit, place).is_some() {
            return;
        }
        let streams = self.streams_at(self.home(circuit), place);
        for &stream in &streams {
            self.streams[stream.index()].end(place).reads_once_more = false;
        }
        self.resuming = streams;
    }

    /// Bytes of data in a DATA cell of this circuit. Where two circuits meet, the ends speak the old format to each other, whatever
    /// their relays do (`create_rend_cpath`).
    pub(crate) fn cell_payload(&self, id: CircuitId) -> u64 {
        let joined = self.circuits[id.index()].hops.onion.is_some();
        let usual = self.settings.cell_payload;
        u64::from(if joined && usual == RELAY_PAYLOAD_SIZE_V1 { RELAY_PAYLOAD_SIZE_MAX } else { usual })
    }

    /// `connection_edge_package_raw_inbuf`: whole payloads first, what remains as a short cell; at most `max` cells. Returns how many of
    /// `max` were used, which the last cell before an XOFF takes effect does not count for.
    pub(crate) fn package(&mut self, id: StreamId, place: Place, max: u32) -> u32 {
        let now = self.queue.now();
        let payload = self.cell_payload(self.streams[id.index()].circuit);
        let mut used = 0;
        while used < max {
            let stream = &self.streams[id.index()];
            if !stream.is_open(place) {
                break;
            }
            let Some(circuit_id) = self.sending_circuit(stream.circuit, place) else { break };
            let stream = &mut self.streams[id.index()];
            // Of a set, it is the circuit of the stream that counts, whichever leg carries the cell.
            let own = stream.circuit;
            let random = self.random_cells.member(u64::from(self.serials[own.index()].0)).member(place as u64);
            let end = stream.end(place);
            if !end.may_package() || end.inbuf == 0 {
                break;
            }
            let length = if self.settings.random_cells {
                self.circuits[own.index()].random_cells[place as usize].next_length(random, payload, end.inbuf)
            } else {
                end.inbuf.min(payload)
            };
            end.inbuf -= length;
            end.reads_once_more = false;
            let more = end.packaged(now);
            if self.switching.is_some() && place == Place::Client {
                stream.switching.sent += length;
            }
            if place == Place::Exit {
                self.sampler.bytes_from_exits += length;
            }
            // It is the leg that was found above, of which the set now takes note.
            let Some(circuit_id) = self.leg_for(circuit_id, CellKind::Data, place) else { break };
            self.circuits[circuit_id.index()].edge(place).package.data_sent(now);
            let follows = self.probes.is_some() && place == Place::Client;
            let probe = if follows { self.probe_of_next_cell(circuit_id) } else { ProbeId::NONE };
            self.send_on(place, Cell::new(CellKind::Data, circuit_id).on(id).carrying(length as u16).followed_as(probe));
            if !more {
                break;
            }
            used += 1;
        }
        // A program that follows a script may be through now that tor has sent everything.
        if used > 0 && place == Place::Client && self.streams[id.index()].writer.is_some() {
            self.event_loop.watch_program(id);
        }
        used
    }

    /// A circuit SENDME arrived. `congestion_control_dispatch_cc_alg`, then `circuit_resume_edge_reading`.
    pub(crate) fn circuit_sendme(&mut self, id: CircuitId, place: Place) {
        let now = self.queue.now();
        let way_out = self.way_out(id, place);
        let signals = Signals { blocked: way_out.blocked, queued: way_out.queue.len };
        if self.circuits[id.index()].edge(place).package.sendme_received(now, signals).is_err() {
            self.close_end(id, place);
            return;
        }
        if place == Place::Exit {
            self.trace_vegas(id);
        }
        self.leg_measured(id, place);
        if signals.blocked || !self.has_room(id, place) && self.is_in_a_set(id) {
            return;
        }
        let id = self.home(id);
        let streams = self.streams_at(id, place);
        self.package_in_shares(id, place, &streams);
        self.resume_in_turn(id, place, streams);
    }

    /// These streams may read again, and a drawn one is the first to do so.
    fn resume_in_turn(&mut self, id: CircuitId, place: Place, streams: Vec<StreamId>) {
        let first = self.first_stream(id, streams.len());
        for index in 0..streams.len() {
            self.resume_reading(streams[(first + index) % streams.len()], place);
        }
        self.resuming = streams;
    }

    /// The exit's plan lets the circuit's streams read from their servers again.
    pub(crate) fn resume_planned(&mut self, id: CircuitId) {
        let streams = self.streams_at(id, Place::Exit);
        self.resume_in_turn(id, Place::Exit, streams);
    }

    /// A stream SENDME arrived: that stream goes on, unless the queue is still too long.
    pub(crate) fn stream_sendme(&mut self, cell: Cell, place: Place) {
        let now = self.queue.now();
        let stream = &mut self.streams[cell.stream.index()];
        let open = stream.is_open(place);
        let (StreamControl::Windows { package, .. } | StreamControl::Sends(package)) = &mut stream.end(place).control else {
            return;
        };
        // A SENDME that was not due can only belong to a stream that has ended: nothing to do.
        if !open || package.sendme_received(now, Signals::default()).is_err() {
            return;
        }
        if self.is_in_a_set(cell.circuit) || !self.way_out(cell.circuit, place).blocked {
            self.package(cell.stream, place, u32::MAX);
            self.resume_reading(cell.stream, place);
        }
    }

    /// The circuit's queue at this end has become short enough: every stream reads again, whether there is a window or not, unless the circuit is one of a set of which none can send.
    pub(crate) fn resume_streams(&mut self, id: CircuitId, place: Place) {
        let Some((id, place)) = self.end_of_streams(id, place) else { return };
        if self.is_in_a_set(id) && !self.has_room(id, place) {
            return;
        }
        let id = self.home(id);
        let streams = self.streams_at(id, place);
        for &stream in &streams {
            self.start_reading(stream, place);
        }
        self.resuming = streams;
    }

    /// Open streams of the circuit at this end, the newest first, as in tor's list; in a buffer to give back as `resuming`.
    fn streams_at(&mut self, id: CircuitId, place: Place) -> Vec<StreamId> {
        let mut streams = std::mem::take(&mut self.resuming);
        streams.clear();
        let circuit = &self.circuits[id.index()];
        match place {
            Place::Exit => streams.extend(circuit.streams.iter().rev()),
            Place::Client => streams.extend(circuit.client_streams.iter().rev()),
        }
        streams
    }

    /// From which of several streams reading starts again: drawn, so that none is always the last.
    fn first_stream(&mut self, id: CircuitId, streams: usize) -> usize {
        if streams < 2 {
            return 0;
        }
        let draw = self.first_streams.member(u64::from(self.serials[id.index()].0)).at(self.resumptions);
        self.resumptions += 1;
        draw.below(streams as u64) as usize
    }

    /// `circuit_resume_edge_reading_helper`: what is in the inbufs, in equal shares, up to the window and the mark of the queue.
    fn package_in_shares(&mut self, id: CircuitId, place: Place, streams: &[StreamId]) {
        let waits = |world: &Self, stream: StreamId| {
            let end = &world.streams[stream.index()].ends[place as usize];
            end.inbuf > 0 && end.may_package()
        };
        let mut sharing = streams.iter().filter(|&&stream| waits(self, stream)).count() as u64;
        while sharing > 0 {
            let Some(leg) = self.sending_circuit(id, place) else { return };
            let window = u64::from(self.circuits[leg.index()].edges[place as usize].package.available());
            let room = self.settings.cell_queue_high.get().saturating_sub(u64::from(self.way_out(leg, place).queue.len));
            let budget = window.min(room);
            let share = budget.div_ceil(sharing) as u32;
            let mut packaged = 0;
            sharing = 0;
            for &stream in streams {
                packaged += u64::from(self.package(stream, place, share));
                sharing += u64::from(self.streams[stream.index()].ends[place as usize].inbuf > 0);
                if self.end_is_closed(id, place) || self.sending_circuit(id, place).is_none() {
                    return;
                }
            }
            if packaged == 0 || packaged >= budget {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use crate::settings::{CongestionSettings, FlowControl};
    use crate::stream::{ExitState, StreamEnd};
    use crate::test_world::{at, in_a_row};
    use onionlab_quantities::Bandwidth;

    /// A circuit that is open and idle, with streams at the exit whose inbufs hold so many payloads.
    fn waiting(settings: Settings, payloads: &[u64]) -> (World, CircuitId, Vec<StreamId>) {
        let load = "kind = \"sequence\"\ntransfers = [{ size = \"50 kB\" }]";
        let mut world = in_a_row(settings, Bandwidth::from_bits_per_sec(50_000_000), load);
        world.run_until(at(9_000));
        let circuit = CircuitId(0);
        let payload = u64::from(world.settings.cell_payload);
        let streams = payloads.iter().map(|count| {
            let mut end = StreamEnd::new(world.stream_controls()[Place::Exit as usize].clone());
            end.inbuf = count * payload;
            let stream = world.new_stream(circuit, onionlab_engine::HostId(4), 1, 1, 0);
            world.streams[stream.index()].exit = ExitState::Connected;
            *world.streams[stream.index()].end(Place::Exit) = end;
            world.circuits[circuit.index()].streams.push(stream);
            stream
        });
        let streams = streams.collect();
        (world, circuit, streams)
    }

    fn left(world: &World, streams: &[StreamId]) -> Vec<u64> {
        let payload = u64::from(world.settings.cell_payload);
        streams.iter().map(|stream| world.streams[stream.index()].ends[Place::Exit as usize].inbuf / payload).collect()
    }

    /// Vegas starts with a window of 124. Three streams: shares of ceil(124 / 3) = 42, 42 and what is left of the window, 40. With one that
    /// has less than its share: first 42, 10, 42; 30 cells of window are left for the two that still wait, but the budget of the second
    /// round is reckoned anew: ceil(30 / 2) = 15 each.
    #[test]
    fn streams_share_the_window() {
        let vegas = || Settings { flow_control: FlowControl::Vegas(CongestionSettings::default()), ..Settings::default() };
        for (payloads, expected) in [([100, 100, 100], [58, 58, 60]), ([100, 10, 100], [43, 0, 43])] {
            let (mut world, circuit, streams) = waiting(vegas(), &payloads);
            world.package_in_shares(circuit, Place::Exit, &streams);
            assert_eq!(left(&world, &streams), expected);
            assert!(!world.circuits[circuit.index()].edges[Place::Exit as usize].package.can_send());
        }
    }

    /// With fixed windows there is room for 1000, and the mark of the queue counts: 256 cells in shares of 86, 86 and 86, which is two beyond the mark.
    #[test]
    fn the_mark_of_the_queue_bounds_what_is_packaged() {
        let (mut world, circuit, streams) = waiting(Settings::default(), &[200, 200, 200]);
        world.package_in_shares(circuit, Place::Exit, &streams);
        assert_eq!(left(&world, &streams), [114, 114, 114]);
        let side = world.circuits[circuit.index()].way_out(Place::Exit);
        assert!(side.blocked && side.queue.len == 258);
        // A SENDME while the queue is too long changes the window and nothing else.
        let before = left(&world, &streams);
        world.circuit_sendme(circuit, Place::Exit);
        assert_eq!(left(&world, &streams), before);
    }

    /// A stopped stream gives one more cell each time its inbuf is looked at: XOFF is seen after a cell, not before.
    #[test]
    fn a_stopped_stream_lets_one_cell_go() {
        let settings = Settings { flow_control: FlowControl::Vegas(CongestionSettings::default()), ..Settings::default() };
        let (mut world, circuit, streams) = waiting(settings, &[10, 10]);
        let end = world.streams[streams[0].index()].end(Place::Exit);
        let StreamControl::XonXoff(edge) = &mut end.control else { panic!() };
        edge.advised(onionlab_flowcontrol::xon_xoff::Advice::Xoff, crate::bucket::RefillClock::Exact);
        world.package_in_shares(circuit, Place::Exit, &streams);
        // The second round, for the stopped one alone, moves one more and then none that counts.
        assert_eq!(left(&world, &streams), [8, 0]);
        assert!(!world.may_read(streams[0], Place::Exit));
    }

    /// Every stream is the first about as often as the others.
    #[test]
    fn who_goes_first_is_drawn() {
        let (mut world, circuit, streams) = waiting(Settings::default(), &[0, 0, 0]);
        let mut counts = [0_u32; 3];
        for _ in 0..3000 {
            counts[world.first_stream(circuit, streams.len())] += 1;
        }
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
        assert_eq!(world.first_stream(circuit, 1), 0);
    }
}
