//! From DATA cells to the program or server at either end of a stream: what is owed to the sender for it (`core/or/sendme.c`,
//! `core/or/congestion_control_flow.c`).

use crate::bucket::RefillClock;
use crate::cell::{Cell, CellKind};
use crate::circuit::Place;
use crate::ids::{CircuitId, StreamId};
use crate::records::CloseReason;
use crate::settings::FlowControl;
use crate::stream::StreamControl;
use crate::world::World;
use onionlab_flowcontrol::FlowError;
use onionlab_flowcontrol::windows::STREAM_SENDME_MAX_OUTBUF;
use onionlab_flowcontrol::xon_xoff::{Advice, XonXoffParameters};
use onionlab_quantities::Bytes;

impl World {
    /// A DATA cell arrived, in its turn or not: both ends' windows are looked after even if nobody wants it any more. False if that closed the circuit.
    pub(crate) fn data_arrived(&mut self, cell: Cell, place: Place) -> bool {
        let circuit = &mut self.circuits[cell.circuit.index()];
        match place {
            Place::Client => circuit.cells_to_client += 1,
            Place::Exit => circuit.cells_to_exit += 1,
        }
        if self.count_for_circuit(cell.circuit, place).is_err() {
            self.closes_because(cell.circuit, CloseReason::Protocol);
            self.close_end(cell.circuit, place);
            return false;
        }
        true
    }

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
        let parameters = self.xon_xoff(cell.circuit, place);
        let end = self.streams[cell.stream.index()].end(place);
        let before = Bytes::new(end.outbuf);
        end.outbuf += u64::from(cell.length);
        let advice = match &mut end.control {
            StreamControl::Windows { deliver, .. } | StreamControl::Receives(deliver) => return deliver.count_received(),
            StreamControl::Sends(_) => return Ok(()),
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
        let circuit = self.streams[id.index()].circuit;
        let parameters = self.xon_xoff(circuit, place);
        let stream = &mut self.streams[id.index()];
        let end = stream.end(place);
        end.outbuf -= bytes;
        match &mut end.control {
            StreamControl::Windows { .. } | StreamControl::Receives(_) => self.consider_sending_sendmes(id, place),
            StreamControl::Sends(_) => {}
            StreamControl::XonXoff(edge) => {
                let advice = edge.delivering.drained(now, Bytes::new(bytes), Bytes::new(end.outbuf), &parameters);
                if let Some(advice) = advice {
                    self.advise(id, place, advice);
                }
            }
        }
    }

    /// SENDMEs of a stream with windows, unless much waits behind this end (`connection_edge_consider_sending_sendme`): after each DATA cell, and when something was written.
    pub(crate) fn consider_sending_sendmes(&mut self, id: StreamId, place: Place) {
        let stream = &mut self.streams[id.index()];
        let circuit = stream.circuit;
        let end = stream.end(place);
        if let StreamControl::Windows { deliver, .. } | StreamControl::Receives(deliver) = &mut end.control
            && end.outbuf <= u64::from(STREAM_SENDME_MAX_OUTBUF)
        {
            for _ in 0..deliver.take_sendmes() {
                self.send_from(place, Cell::new(CellKind::SendmeStream, circuit).on(id));
            }
        }
    }

    fn xon_xoff(&self, id: CircuitId, place: Place) -> XonXoffParameters {
        let exit = place == Place::Exit && self.circuits[id.index()].hops.onion.is_none();
        match &self.settings.flow_control {
            FlowControl::Vegas(control) if exit => control.exit_streams,
            // An onion service is no exit.
            FlowControl::Vegas(control) => control.client_streams,
            FlowControl::Windows | FlowControl::Predictor(_) => XonXoffParameters::new(),
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
        let circuit = stream.circuit;
        let clock = RefillClock::lazy(self.nodes[self.host_at(circuit, place).index()].clock);
        let StreamControl::XonXoff(edge) = &mut self.streams[cell.stream.index()].end(place).control else { return };
        let stopped = !edge.reading.may_read();
        edge.advised(advice, clock);
        if advice == Advice::Xoff {
            self.streams[cell.stream.index()].end(place).reads_once_more = false;
        } else if stopped {
            self.start_reading(cell.stream, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::CongestionSettings;
    use crate::test_world::{at, in_a_row};
    use crate::{Outcome, Settings};
    use onionlab_quantities::Bandwidth;

    const UPLOAD: &str = "kind = \"sequence\"\nrequest = \"6 MB\"\ntransfers = [{ size = \"1 kB\" }]";

    /// Every ten milliseconds: bytes that wait at the exit for the server, whether the client may read its program, and the rate that it was given.
    fn upload(settings: Settings) -> Vec<(u64, bool, u64)> {
        let mut world = in_a_row(settings, Bandwidth::from_bits_per_sec(1_000_000), UPLOAD);
        world.run_until(at(10_200));
        let mut seen = Vec::new();
        while world.records.transfers.is_empty() {
            world.run_until(at(10_200 + 10 * seen.len() as u64));
            let [client, exit] = &world.streams[0].ends;
            let rate = match &client.control {
                StreamControl::XonXoff(edge) => edge.reading.rate().as_bytes_per_sec(),
                _ => 0,
            };
            seen.push((exit.outbuf, client.may_read(), rate));
        }
        assert_eq!(world.records.transfers[0].outcome, Outcome::Ok);
        seen
    }

    /// The server takes 1 Mbit/s, the client could send fifty times that. More than 244,000 bytes wait for more than 5 ms: XOFF, and what is under
    /// way until it has arrived still comes: at 50 Mbit/s, 65 ms (a round trip of 60 and the 5) are 400 kB. XON when nothing waits, with
    /// the rate at which the server takes: 125,000 bytes a second less headers (40 and 12 of timestamps to 1,448), 120,667, and what ends up in the
    /// exit's socket in between. The client keeps to it (its bucket delivers a little less), nothing waits for 249,000 bytes, the rate is
    /// doubled and told, more comes than goes, the measured rate is told, and only after that may the stream be stopped again.
    #[test]
    fn a_slow_server_stops_the_upload_and_then_sets_its_pace() {
        let vegas = FlowControl::Vegas(CongestionSettings::default());
        let seen = upload(Settings { flow_control: vegas, ..Settings::default() });
        let peak = seen.iter().map(|&(waiting, ..)| waiting).max().unwrap();
        assert!((244_000..650_000).contains(&peak), "{peak}");
        let stopped = seen.iter().position(|&(_, may_read, _)| !may_read).expect("XOFF arrives");
        let resumed = stopped + seen[stopped..].iter().position(|&(_, may_read, _)| may_read).expect("XON arrives");
        // Nothing waited when XON left, half a round trip before it arrived.
        assert!(seen[resumed - 4..=resumed].iter().any(|&(waiting, ..)| waiting == 0));
        let mut rates: Vec<u64> = seen[resumed..].iter().map(|&(.., rate)| rate).collect();
        rates.dedup();
        assert!((115_000..126_000).contains(&rates[0]), "{rates:?}");
        // The measurement after that XON may have moved it by less than the quarter that is told.
        assert!((2 * rates[0]).abs_diff(rates[1]) < rates[0] / 2, "{rates:?}");
        assert!((115_000..rates[1]).contains(&rates[2]), "{rates:?}");
        let again = seen[resumed..].iter().position(|&(_, may_read, _)| !may_read);
        assert!(again.is_none_or(|again| again > 1000), "at 121 kB/s a stop within 10 s of the first: {again:?}");
    }

    /// With fixed windows the stream's 500 cells are all that can ever wait.
    #[test]
    fn with_windows_the_window_of_the_stream_does_that() {
        let seen = upload(Settings::default());
        assert!(seen.iter().all(|&(waiting, ..)| waiting <= 500 * 498));
    }
}
