//! Byte-wise latency: how long payload takes from the first relay that carries it to the last, without the ways to server and client.
//!
//! Of payload towards the client: from the instant in which the exit has written the cell's last byte to its socket, to the instant in which the entry has read the cell ("Optimization-Based Predictive
//! Congestion Control for the Tor Network", section 5, and its authors' simulator). What waits in the exit's circuit queue is not in the network yet; its socket's send buffer is. The outbuf, which that simulator does not
//! have, lies between them and is counted apart.
//!
//! Cells carry no time for this. A circuit's cells keep their order from the exit to the entry, so the n-th that is read is the n-th that was written: each circuit that is measured has a queue of the instants of
//! those that are on their way. Where no circuit is measured there is nothing but a look at whether one is. Circuits that change channels break that order, so such settings are refused together with this.

use crate::cell::{CELL_BYTES, Cell, CellKind};
use crate::circuit::Place;
use crate::ids::{CircuitId, ClientId, EndId};
use crate::records::{CircuitSerial, LatencySample};
use crate::world::World;
use onionlab_quantities::SimTime;
use std::collections::VecDeque;

/// The hop that has read a cell when it is through.
const ENTRY: u8 = 1;

/// A cell on its way.
#[derive(Debug, Clone, Copy)]
struct Mark {
    /// It left the exit's circuit queue for the outbuf.
    left_queue: SimTime,
    /// The socket took its last byte; meaningless before that.
    written: SimTime,
}

/// What a circuit carries.
#[derive(Debug)]
struct Crossing {
    circuit: CircuitSerial,
    client: ClientId,
    /// Its DATA cells between the exit's circuit queue and the entry, in order.
    marks: VecDeque<Mark>,
    /// How many of them, the last ones, are still in the outbuf.
    in_outbuf: usize,
    /// Payload between the exit's socket and the entry.
    in_flight: u64,
    sums: Sums,
}

/// Of one sample interval.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    written: u64,
    read: u64,
    /// Payload that was read times the nanoseconds that it took, and that it was in the outbuf before.
    latency: u128,
    outbuf_wait: u128,
}

/// The circuits that are measured.
#[derive(Debug, Default)]
pub(crate) struct ByteLatency {
    /// By circuit.
    crossings: Vec<Option<Box<Crossing>>>,
    /// Of circuits that have ended since the last sample.
    ended: Vec<Crossing>,
}

impl ByteLatency {
    fn of(&mut self, circuit: CircuitId) -> Option<&mut Crossing> {
        self.crossings.get_mut(circuit.index())?.as_deref_mut()
    }
}

/// Whether it is payload on its way from the exit to the middle.
fn leaves_the_exit(cell: &Cell) -> bool {
    cell.kind == CellKind::Data && cell.arrives_at() + 1 == Place::Exit.hop() && cell.target() == Place::Client.hop()
}

impl World {
    /// A new circuit: it is measured if its client wants it.
    pub(crate) fn measure_latency(&mut self, id: CircuitId) {
        let client = self.circuits[id.index()].client;
        if !client.is_some() || !self.clients[client.index()].config.latency {
            return;
        }
        let crossings = &mut self.latency.get_or_insert_default().crossings;
        if crossings.len() <= id.index() {
            crossings.resize_with(id.index() + 1, || None);
        }
        crossings[id.index()] = Some(Box::new(Crossing {
            circuit: self.serials[id.index()],
            client,
            marks: VecDeque::new(),
            in_outbuf: 0,
            in_flight: 0,
            sums: Sums::default(),
        }));
    }

    /// The circuit's place will be another's.
    pub(crate) fn forget_latency(&mut self, id: CircuitId) {
        if let Some(latency) = &mut self.latency
            && let Some(crossing) = latency.crossings.get_mut(id.index()).and_then(Option::take)
        {
            latency.ended.push(*crossing);
        }
    }

    /// A cell has gone from a circuit queue to the outbuf.
    #[inline(never)]
    pub(crate) fn note_in_outbuf(&mut self, cell: &Cell) {
        let now = self.queue.now();
        if leaves_the_exit(cell)
            && let Some(crossing) = self.latency.as_mut().and_then(|latency| latency.of(cell.circuit))
        {
            crossing.marks.push_back(Mark { left_queue: now, written: now });
            crossing.in_outbuf += 1;
        }
    }

    /// The outbuf of a channel has become shorter, from `before` to `after` bytes: those cells of which nothing is left there were written.
    #[inline(never)]
    pub(crate) fn note_written(&mut self, end: EndId, before: u32, after: u32) {
        let now = self.queue.now();
        let Some(latency) = &mut self.latency else { return };
        // The outbuf's cells are the last of those on their way, and the first of them may be there in part.
        for place in (after.div_ceil(CELL_BYTES) + 1..=before.div_ceil(CELL_BYTES)).rev() {
            let Some(cell) = self.sent.cell_from_behind(self.ends[end.index()].sent, place as usize) else { continue };
            if leaves_the_exit(cell)
                && let Some(crossing) = latency.of(cell.circuit)
            {
                let place = crossing.marks.len() - crossing.in_outbuf;
                crossing.marks[place].written = now;
                crossing.in_outbuf -= 1;
                crossing.in_flight += u64::from(cell.length);
                crossing.sums.written += u64::from(cell.length);
            }
        }
    }

    /// A relay cell has been read from a channel.
    #[inline(never)]
    pub(crate) fn note_read(&mut self, cell: &Cell) {
        let now = self.queue.now();
        if cell.kind == CellKind::Data
            && cell.arrives_at() == ENTRY
            && cell.target() == Place::Client.hop()
            && let Some(crossing) = self.latency.as_mut().and_then(|latency| latency.of(cell.circuit))
            && let Some(mark) = crossing.marks.pop_front()
        {
            let bytes = u64::from(cell.length);
            crossing.in_flight -= bytes;
            crossing.sums.read += bytes;
            crossing.sums.latency += u128::from(bytes) * u128::from((now - mark.written).as_nanos());
            crossing.sums.outbuf_wait += u128::from(bytes) * u128::from((mark.written - mark.left_queue).as_nanos());
        }
    }

    /// Adds a row for each circuit that carried something in the interval that ends now.
    pub(crate) fn sample_latency(&mut self, time: SimTime) {
        let Some(latency) = &mut self.latency else { return };
        let ended = std::mem::take(&mut latency.ended);
        for crossing in &ended {
            // What was on its way when the circuit ended is nowhere now.
            self.records.latency.extend(row(crossing, 0, time));
        }
        for crossing in latency.crossings.iter_mut().flatten() {
            self.records.latency.extend(row(crossing, crossing.in_flight, time));
            crossing.sums = Sums::default();
        }
    }
}

fn row(crossing: &Crossing, in_flight: u64, time: SimTime) -> Option<LatencySample> {
    let Sums { written, read, latency, outbuf_wait } = crossing.sums;
    let seconds = |byte_nanos: u128| byte_nanos as f64 * 1e-9;
    (written > 0 || read > 0 || in_flight > 0).then(|| LatencySample {
        time,
        circuit: crossing.circuit,
        client: crossing.client,
        written,
        read,
        latency: seconds(latency),
        outbuf_wait: seconds(outbuf_wait),
        in_flight,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{ChannelScheduler, Links, Scheduling};
    use crate::test_world::{at, in_a_row, in_a_row_with};
    use crate::{ClientSettings, Outcome, Settings, Tls};
    use onionlab_circuitmux::PolicyKind;
    use onionlab_net::tcp::{BufferLimits, TcpConfig};
    use onionlab_quantities::Bandwidth;

    /// No TLS, no scheduler's timer, no random bytes, and no circuits but that of the download.
    fn plain() -> Settings {
        let scheduling = Scheduling {
            circuitmux: PolicyKind::RoundRobin,
            channel_scheduler: ChannelScheduler::Vanilla,
            ..Scheduling::default()
        };
        let client = ClientSettings { predict: false, ..ClientSettings::default() };
        Settings { scheduling, tls: Tls::Absent, random_cells: false, client, ..Settings::default() }
    }

    fn download(settings: Settings, size: &str, every: u64) -> (Vec<LatencySample>, World) {
        let load = format!("kind = \"sequence\"\ntransfers = [{{ size = \"{size}\" }}]");
        // A segment that is not full leaves at once.
        let tcp = TcpConfig { nagle: false, send_buffer: BufferLimits::new(16_384, 65_536), ..TcpConfig::linux() };
        let mut world = in_a_row_with(tcp, settings, Bandwidth::from_bits_per_sec(1_000_000_000), &load);
        let mut rows = Vec::new();
        for millis in (9_900..16_000).step_by(every as usize) {
            world.run_until(at(millis));
            world.sample(at(millis));
            rows.append(&mut world.records.latency);
        }
        assert_eq!(world.records.transfers.first().map(|transfer| transfer.outcome), Some(Outcome::Ok));
        (rows, world)
    }

    /// One cell over two hops: 514 bytes and 52 of headers at 50 Mbit/s out of each relay and into the next, and 10 ms between. Exit and middle acknowledge what they have just read before they
    /// send it on, 52 bytes.
    #[test]
    fn a_single_cell_takes_what_the_links_take() {
        let (rows, _) = download(plain(), "100 B", 100);
        let (read, latency) = rows.iter().fold((0, 0.0), |(read, latency), row| (read + row.read, latency + row.latency));
        assert_eq!(read, 100);
        let expected = 2.0 * (0.010 + f64::from(2 * (CELL_BYTES + 52) + 52) * 8.0 / 50e6);
        assert!((latency / 100.0 - expected).abs() < 1e-8, "{} s, by hand {expected} s", latency / 100.0);
        assert!(rows.iter().all(|row| row.outbuf_wait == 0.0 && row.in_flight <= 100));
    }

    /// Little's law, whatever waits where: from empty to empty, the sum of all latencies is the integral of what is under way. It is sampled each millisecond here, which is off by at most
    /// a millisecond of what passes in all.
    #[test]
    fn the_sum_of_latencies_is_the_integral_of_what_is_under_way() {
        let quic = Links::Quic { congestion: onionlab_net::quic::QuicCongestion::NewReno };
        let with = |links| Settings { links, ..Settings::default() };
        let all = [plain(), with(Links::Shared), with(Links::PerCircuit { with_clients: false }), with(quic)];
        for (case, settings) in all.into_iter().enumerate() {
            let (rows, world) = download(settings, "2 MB", 1);
            let read: u64 = rows.iter().map(|row| row.read).sum();
            assert_eq!((read, rows.iter().map(|row| row.written).sum()), (2_000_000, 2_000_000));
            let latency: f64 = rows.iter().map(|row| row.latency).sum();
            let under_way: f64 = rows.iter().map(|row| row.in_flight as f64 * 1e-3).sum();
            assert!((latency - under_way).abs() < 1e-3 * read as f64, "{latency} and {under_way} byte seconds");
            // More than the ways alone: something waited.
            assert!(latency > 1.1 * 0.020 * read as f64, "{latency} byte seconds");
            // Without KIST the outbuf fills up when the socket is full.
            let waits = rows.iter().map(|row| row.outbuf_wait).sum::<f64>() / read as f64;
            assert!(waits > 0.001 || case > 0, "{waits} s in the outbuf");
            assert!(world.latency.as_ref().is_some_and(|latency| {
                latency
                    .crossings
                    .iter()
                    .flatten()
                    .all(|crossing| crossing.marks.is_empty() && crossing.in_outbuf == 0 && crossing.in_flight == 0)
            }));
        }
    }

    /// A circuit that is closed with payload under way leaves a last row, and its place measures the next circuit from nothing.
    #[test]
    fn a_closed_circuit_leaves_a_row_and_no_marks() {
        let load = "kind = \"sequence\"\ntransfers = [{ size = \"20 MB\" }]";
        let mut world = in_a_row(plain(), Bandwidth::from_bits_per_sec(1_000_000_000), load);
        world.run_until(at(11_000));
        world.sample(at(11_000));
        world.records.latency.clear();
        world.run_until(at(11_010));
        let circuit = CircuitId(world.circuits.iter().position(|circuit| circuit.cells_to_client > 0).unwrap() as u32);
        assert!(world.latency.as_mut().unwrap().of(circuit).unwrap().in_flight > 0);
        world.close_at(circuit, 0, None);
        world.run_until(at(12_000));
        assert!(world.latency.as_mut().unwrap().of(circuit).is_none());
        world.sample(at(12_000));
        let serial = world.serials[circuit.index()];
        let rows: Vec<_> = world.records.latency.iter().filter(|row| row.circuit == serial).collect();
        assert!(rows.len() == 1 && rows[0].read > 0 && rows[0].in_flight == 0, "{rows:?}");
    }
}
