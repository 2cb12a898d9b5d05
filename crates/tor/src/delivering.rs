//! From DATA cells to the program or server at either end of a stream: what is owed to the sender for it (`core/or/sendme.c`,
//! `core/or/congestion_control_flow.c`).

use crate::cell::{Cell, CellKind};
use crate::circuit::Place;
use crate::ids::{CircuitId, StreamId};
use crate::settings::FlowControl;
use crate::stream::StreamControl;
use crate::world::World;
use onionlab_flowcontrol::FlowError;
use onionlab_flowcontrol::windows::STREAM_SENDME_MAX_OUTBUF;
use onionlab_flowcontrol::xon_xoff::{Advice, XonXoffParameters};
use onionlab_quantities::Bytes;

impl World {
    /// A DATA cell arrived: a circuit SENDME goes back at once if it is due, whether or not anybody wants the bytes.
    pub(crate) fn count_for_circuit(&mut self, id: CircuitId, place: Place) -> Result<(), FlowError> {
        let owed = self.circuits[id.index()].edge(place).deliver.data_received()?;
        for _ in 0..owed {
            self.send_from(place, Cell::new(CellKind::SendmeCircuit, id));
        }
        Ok(())
    }

    /// The same cell on its open stream: the bytes join the outbuf, which may have become too long for the sender to go on.
    pub(crate) fn count_for_stream(&mut self, cell: Cell, place: Place) -> Result<(), FlowError> {
        let now = self.queue.now();
        let parameters = self.xon_xoff(place);
        let end = self.streams[cell.stream.index()].end(place);
        let before = Bytes::new(end.outbuf);
        end.outbuf += u64::from(cell.length);
        let advice = match &mut end.control {
            StreamControl::Windows { deliver, .. } => return deliver.count_received(),
            StreamControl::XonXoff(edge) => edge.delivering.data_arrived(now, before, &parameters),
        };
        for advice in advice.into_iter().flatten() {
            self.advise(cell.stream, place, advice);
        }
        Ok(())
    }

    /// The program or server took `bytes` of the outbuf: stream SENDMEs that were held back, or an XON.
    pub(crate) fn delivered(&mut self, id: StreamId, place: Place, bytes: u64) {
        let now = self.queue.now();
        let parameters = self.xon_xoff(place);
        let stream = &mut self.streams[id.index()];
        let circuit = stream.circuit;
        let end = stream.end(place);
        end.outbuf -= bytes;
        match &mut end.control {
            StreamControl::Windows { deliver, .. } => {
                if end.outbuf <= u64::from(STREAM_SENDME_MAX_OUTBUF) {
                    for _ in 0..deliver.take_sendmes() {
                        self.send_from(place, Cell::new(CellKind::SendmeStream, circuit).on(id));
                    }
                }
            }
            StreamControl::XonXoff(edge) => {
                let advice = edge.delivering.drained(now, Bytes::new(bytes), Bytes::new(end.outbuf), &parameters);
                if let Some(advice) = advice {
                    self.advise(id, place, advice);
                }
            }
        }
    }

    fn xon_xoff(&self, place: Place) -> XonXoffParameters {
        match (&self.settings.flow_control, place) {
            (FlowControl::Vegas(control), Place::Client) => control.client_streams,
            (FlowControl::Vegas(control), Place::Exit) => control.exit_streams,
            (FlowControl::Windows, _) => XonXoffParameters::new(),
        }
    }

    fn advise(&mut self, id: StreamId, place: Place, advice: Advice) {
        let stream = &mut self.streams[id.index()];
        let circuit = stream.circuit;
        if let StreamControl::XonXoff(edge) = &mut stream.end(place).control {
            edge.note_sent(advice);
        }
        let kind = match advice {
            Advice::Xoff => CellKind::Xoff,
            Advice::Xon { .. } => CellKind::Xon,
        };
        self.send_from(place, Cell::new(kind, circuit).on(id));
    }

    /// XOFF or XON arrived: the stream stops reading, or goes on at the rate given.
    pub(crate) fn advised(&mut self, cell: Cell, place: Place) {
        let stream = &mut self.streams[cell.stream.index()];
        let StreamControl::XonXoff(sender) = &mut stream.end(place.other()).control else { return };
        let advice = match cell.kind {
            CellKind::Xoff => Advice::Xoff,
            _ => Advice::Xon { kilobytes_per_second: sender.next_rate() },
        };
        let StreamControl::XonXoff(edge) = &mut stream.end(place).control else { return };
        edge.advised(advice);
        if advice != Advice::Xoff {
            self.resume_reading(cell.stream, place);
        }
    }
}
