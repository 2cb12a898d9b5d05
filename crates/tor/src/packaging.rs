//! From streams to cells, at either end of a circuit: what may be packaged when, and who goes first (`core/or/relay.c`).
//!
//! A read event packages until the window is used up; the mark of 256 cells only stops further reads. A SENDME lets every stream of
//! the circuit read again and first empties what their inbufs hold, in equal shares.

use crate::cell::{Cell, CellKind};
use crate::circuit::Place;
use crate::ids::{CircuitId, StreamId};
use crate::world::World;
use onionlab_flowcontrol::CongestionAlgorithm;

impl World {
    /// Sends a cell from one end of its circuit to the other.
    pub(crate) fn send_from(&mut self, place: Place, cell: Cell) {
        self.originate(place.hop(), place.outgoing(), cell.for_hop(place.other().hop()));
    }

    /// Whether this end reads from its program or server: not while the stream is stopped, the circuit's queue too long or its window used up.
    pub(crate) fn may_read(&self, id: StreamId, place: Place) -> bool {
        let stream = &self.streams[id.index()];
        if !stream.is_open(place) || !stream.ends[place as usize].may_read() {
            return false;
        }
        let circuit = &self.circuits[stream.circuit.index()];
        !circuit.way_out(place).blocked && circuit.edges[place as usize].package.can_send()
    }

    /// `connection_edge_package_raw_inbuf`: whole payloads first, what remains as a short cell; at most `max` cells. Returns how many of
    /// `max` were used, which the last cell before an XOFF takes effect does not count for.
    pub(crate) fn package(&mut self, id: StreamId, place: Place, max: u32) -> u32 {
        let now = self.queue.now();
        let payload = u64::from(self.settings.cell_payload);
        let mut used = 0;
        while used < max {
            let stream = &mut self.streams[id.index()];
            if !stream.is_open(place) {
                break;
            }
            let circuit_id = stream.circuit;
            let circuit = &mut self.circuits[circuit_id.index()];
            let end = stream.end(place);
            let window = &mut circuit.edge(place).package;
            if !window.can_send() || !end.may_package() || end.inbuf == 0 {
                break;
            }
            let length = end.inbuf.min(payload);
            end.inbuf -= length;
            let more = end.packaged(now);
            window.data_sent(now);
            self.send_from(place, Cell::new(CellKind::Data, circuit_id).on(id).carrying(length as u16));
            if !more {
                break;
            }
            used += 1;
        }
        used
    }

    /// A circuit SENDME arrived. `congestion_control_dispatch_cc_alg`, then `circuit_resume_edge_reading`.
    pub(crate) fn circuit_sendme(&mut self, id: CircuitId, place: Place) {
        let now = self.queue.now();
        let circuit = &mut self.circuits[id.index()];
        let signals = circuit.signals(place);
        if circuit.edge(place).package.sendme_received(now, signals).is_err() {
            self.close_at(id, place.hop(), None);
            return;
        }
        if place == Place::Exit {
            self.trace_vegas(id);
        }
        if signals.blocked {
            return;
        }
        let streams = self.streams_at(id, place);
        self.package_in_shares(id, place, &streams);
        let first = self.first_stream(id, streams.len());
        for index in 0..streams.len() {
            self.resume_reading(streams[(first + index) % streams.len()], place);
        }
        self.resuming = streams;
    }

    /// A stream SENDME arrived: that stream goes on, unless the queue is still too long.
    pub(crate) fn stream_sendme(&mut self, cell: Cell, place: Place) {
        let now = self.queue.now();
        let stream = &mut self.streams[cell.stream.index()];
        let open = stream.is_open(place);
        let crate::stream::StreamControl::Windows { package, .. } = &mut stream.end(place).control else { return };
        // A SENDME that was not due can only belong to a stream that has ended: nothing to do.
        if !open || package.sendme_received(now, onionlab_flowcontrol::Signals::default()).is_err() {
            return;
        }
        if !self.circuits[cell.circuit.index()].way_out(place).blocked {
            self.package(cell.stream, place, u32::MAX);
            self.resume_reading(cell.stream, place);
        }
    }

    /// The circuit's queue at this end has become short enough: every stream may read again.
    pub(crate) fn resume_streams(&mut self, id: CircuitId, place: Place) {
        let streams = self.streams_at(id, place);
        for &stream in &streams {
            self.resume_reading(stream, place);
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
            Place::Client => {
                streams.extend(self.stream_of(circuit.client).filter(|stream| self.streams[stream.index()].circuit == id));
            }
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
            let circuit = &self.circuits[id.index()];
            let window = u64::from(circuit.edges[place as usize].package.available());
            let room = self.settings.cell_queue_high.get().saturating_sub(u64::from(circuit.way_out(place).queue.len));
            let budget = window.min(room);
            let share = budget.div_ceil(sharing) as u32;
            let mut packaged = 0;
            sharing = 0;
            for &stream in streams {
                packaged += u64::from(self.package(stream, place, share));
                sharing += u64::from(self.streams[stream.index()].ends[place as usize].inbuf > 0);
                if self.circuits[id.index()].hops[place.hop() as usize].closed
                    || !self.circuits[id.index()].edges[place as usize].package.can_send()
                {
                    return;
                }
            }
            if packaged == 0 || packaged >= budget {
                return;
            }
        }
    }
}
