//! What an entry sees of its outbufs, and which circuit it moves for it (Kale et al. 2015, Algorithm 1).

use super::{AT_REST, Averages, CircuitId, ENTRY, SwitchChoice, SwitchOccupancy, SwitchSample, SwitchVerdict};
use crate::cell::CellKind;
use crate::channel::Attached;
use crate::circuit::CircuitState;
use crate::ids::EndId;
use crate::records::{CircuitSerial, CloseReason};
use crate::world::{Event, World};
use onionlab_engine::HostId;
use onionlab_quantities::SimTime;

/// Bytes of an outbuf that alpha and beta are shares of.
const OUTBUF: f64 = 32_768.0;

impl Averages {
    const NONE: Self = Self { serial: CircuitSerial(u32::MAX), cells: [0; 2], average: [0.0; 2], active: SimTime::ZERO };
}

/// A circuit of a channel at its entry.
struct Sampled {
    circuit: CircuitId,
    outward: bool,
    cells: u32,
    average: f64,
    /// Streams use it, or have, and it had cells in this sample: not a spare, nor one that was built ahead and has the cells of its building only.
    carries: bool,
    /// What is done about it.
    verdict: SwitchVerdict,
}

/// Which circuits of a congested outbuf move, the greatest first: of those that carry traffic the bulkiest, or all above their mean, if nothing keeps them from it. One that may not
/// move keeps its rank: no lighter one moves for it.
fn too_much(choice: SwitchChoice, sampled: &[Sampled]) -> Vec<usize> {
    let mut bulky: Vec<usize> = (0..sampled.len()).filter(|&index| sampled[index].carries).collect();
    // Of equals the one with the lower number.
    bulky.sort_by(|&a, &b| {
        let (a, b) = (&sampled[a], &sampled[b]);
        b.average.total_cmp(&a.average).then(a.circuit.cmp(&b.circuit))
    });
    match choice {
        SwitchChoice::Bulkiest => bulky.truncate(1),
        SwitchChoice::AboveMean => {
            let mean = bulky.iter().map(|&index| sampled[index].average).sum::<f64>() / bulky.len() as f64;
            bulky.retain(|&index| sampled[index].average > mean);
        }
    }
    bulky.retain(|&index| sampled[index].verdict == SwitchVerdict::Lighter);
    bulky
}

/// What is held against alpha and beta in the relative form: the average as a share of the one before. After none any traffic is too much, as in line 9 of Algorithm 1.
fn relative(total: f64, before: f64) -> f64 {
    if before > 0.0 {
        total / before
    } else if total > 0.0 {
        f64::INFINITY
    } else {
        0.0
    }
}

impl World {
    /// A cell went from a circuit's queue to an outbuf. Only where switching is on.
    pub(crate) fn note_flushed(&mut self, end: EndId, circuit: CircuitId, hop: u8, outward: bool, kind: CellKind) {
        if hop == ENTRY {
            let now = self.queue.now();
            let averages = self.averages_of(circuit);
            averages.cells[usize::from(outward)] += 1;
            averages.active = now;
        }
        if kind == CellKind::PathSwitch && outward {
            self.queue.schedule(self.queue.now(), self.ends[end.index()].host, Event::PathDrained(circuit));
        }
    }

    /// What the entry knows of the circuit, from nothing if the slot was another's.
    fn averages_of(&mut self, circuit: CircuitId) -> &mut Averages {
        let serial = self.serials[circuit.index()];
        let averages = &mut self.switching.as_mut().expect("asked only where switching is on").averages;
        if averages.len() <= circuit.index() {
            averages.resize(circuit.index() + 1, Averages::NONE);
        }
        let of = &mut averages[circuit.index()];
        if of.serial != serial {
            *of = Averages { serial, ..Averages::NONE };
        }
        of
    }

    /// The entry begins to look, if it does not yet: it samples at multiples of the interval.
    pub(super) fn watch_entry(&mut self, host: HostId) {
        let now = self.queue.now();
        let Some(switching) = &mut self.switching else { return };
        if !std::mem::replace(&mut switching.watching[host.index()], true) {
            let interval = switching.settings.interval.as_nanos();
            let next = SimTime::from_nanos((now.as_nanos() / interval + 1) * interval);
            self.queue.schedule(next, host, Event::WatchOutbufs);
        }
    }

    /// A sample of all outbufs at an entry. It goes on as long as circuits that it could move are there.
    pub(crate) fn watch_outbufs(&mut self, host: HostId) {
        let Some(switching) = &mut self.switching else { return };
        switching.watching[host.index()] = false;
        let mut any = false;
        for end in self.nodes[host.index()].ends.clone() {
            any |= self.sample_outbuf(end);
        }
        if any {
            self.watch_entry(host);
        }
    }

    /// The circuits of an outbuf of which its node is the entry: averages are brought up to date, and what Algorithm 1 says is done.
    fn sample_outbuf(&mut self, end: EndId) -> bool {
        let Some(circuits) = self.ends[end.index()].circuits.as_deref() else { return false };
        let attached: Vec<Attached> = circuits.attached.iter().flatten().filter(|of| of.hop == ENTRY).copied().collect();
        if attached.is_empty() {
            return false;
        }
        let Some(settings) = self.switching.as_ref().map(|switching| switching.settings) else { return false };
        let (mut sampled, mut before) = (Vec::with_capacity(attached.len()), 0.0);
        for Attached { circuit, outward, .. } in attached {
            let of = self.averages_of(circuit);
            let direction = usize::from(outward);
            before += of.average[direction];
            let cells = std::mem::take(&mut of.cells[direction]);
            let average = settings.gamma * of.average[direction] + (1.0 - settings.gamma) * f64::from(cells);
            of.average[direction] = average;
            let used = self.circuits[circuit.index()].first_used.is_some();
            sampled.push(Sampled {
                circuit,
                outward,
                cells,
                average,
                carries: used && cells > 0,
                verdict: SwitchVerdict::Accepted,
            });
        }
        let total: f64 = sampled.iter().map(|of| of.average).sum();
        let (held, writable) = (self.ends[end.index()].outbuf.len(), self.net.is_writable(self.ends[end.index()].socket));
        let occupancy = match settings.occupancy {
            SwitchOccupancy::Absolute => f64::from(held) / OUTBUF,
            SwitchOccupancy::Relative => relative(total, before),
        };
        let stuck = settings.unwritable && held > 0 && !writable;
        let mut rows = self.samples(end, &sampled);
        if occupancy > settings.beta || stuck {
            self.relieve(end, &mut sampled, occupancy);
        } else if occupancy < settings.alpha {
            if let Some(switching) = &mut self.switching {
                switching.disarmed.remove(&end);
            }
            self.drop_idle(&mut sampled);
        }
        for (row, of) in rows.iter_mut().zip(&sampled) {
            (row.outbuf_bytes, row.occupancy, row.writable, row.verdict) = (held, occupancy, writable, of.verdict);
        }
        let leaves_a_row = |row: &SwitchSample| row.average >= AT_REST && self.clients[row.client.index()].config.record;
        self.records.switch_samples.extend(rows.into_iter().filter(leaves_a_row));
        true
    }

    /// A row for each, without what is not known yet. What is done for a sample can close circuits.
    fn samples(&self, end: EndId, sampled: &[Sampled]) -> Vec<SwitchSample> {
        let row = |of: &Sampled| SwitchSample {
            time: self.queue.now(),
            entry: self.ends[end.index()].host,
            channel: self.channel_logs[end.channel()].number,
            outward: of.outward,
            client: self.circuits[of.circuit.index()].client,
            circuit: self.serials[of.circuit.index()],
            cells: of.cells,
            average: of.average,
            outbuf_bytes: 0,
            occupancy: 0.0,
            writable: true,
            verdict: of.verdict,
        };
        sampled.iter().map(row).collect()
    }

    /// Moves what makes the outbuf full, if that may move.
    fn relieve(&mut self, end: EndId, sampled: &mut [Sampled], occupancy: f64) {
        let Some(switching) = &mut self.switching else { return };
        let settings = switching.settings;
        if settings.hysteresis && switching.disarmed.contains(&end) {
            for of in sampled {
                of.verdict = SwitchVerdict::Disarmed;
            }
            return;
        }
        for of in sampled.iter_mut() {
            of.verdict = self.obstacle(of.circuit).unwrap_or(SwitchVerdict::Lighter);
        }
        let bulky = too_much(settings.choice, sampled);
        if !bulky.is_empty()
            && let Some(switching) = &mut self.switching
        {
            switching.disarmed.insert(end);
        }
        for index in bulky {
            let of = &mut sampled[index];
            // One move may have closed what another needs.
            of.verdict = self.obstacle(of.circuit).unwrap_or(SwitchVerdict::Moves);
            if of.verdict == SwitchVerdict::Moves {
                self.begin_switch(of.circuit, of.average, occupancy);
            }
        }
    }

    /// What keeps the circuit from moving; none if it has a spare on which all its streams are ready.
    fn obstacle(&self, id: CircuitId) -> Option<SwitchVerdict> {
        let switching = self.switching.as_ref()?;
        let Some(of) = switching.circuits.get(&id) else { return Some(SwitchVerdict::NoSpare) };
        if of.switch.is_some() {
            return Some(SwitchVerdict::InSwitch);
        }
        if switching.settings.most_moves.is_some_and(|most| of.moves >= most) {
            return Some(SwitchVerdict::Limit);
        }
        let whole = |id: CircuitId| {
            let circuit = &self.circuits[id.index()];
            circuit.state == CircuitState::Open && !circuit.timed_out && circuit.hops.iter().all(|hop| !hop.closed)
        };
        match of.spare {
            Some(spare) if whole(id) && whole(spare) => (!self.streams_are_ready(id)).then_some(SwitchVerdict::NotReady),
            _ => Some(SwitchVerdict::NoSpare),
        }
    }

    /// Circuits without a cell for long are closed, but for spares.
    fn drop_idle(&mut self, sampled: &mut [Sampled]) {
        let now = self.queue.now();
        for of in sampled.iter_mut() {
            of.verdict = SwitchVerdict::Underfull;
        }
        let Some(after) = self.switching.as_ref().and_then(|switching| switching.settings.drop_idle) else { return };
        for of in sampled {
            let id = of.circuit;
            let kept = self.switching.as_ref().and_then(|switching| switching.circuits.get(&id));
            let kept = kept.is_some_and(|of| of.spare_of.is_some() || of.switch.is_some());
            if kept || self.circuits[id.index()].state != CircuitState::Open {
                continue;
            }
            let active = self.averages_of(id).active.max(self.circuits[id.index()].built_at().unwrap_or(now));
            if active + after <= now && !self.circuits[id.index()].hops[ENTRY as usize].closed {
                of.verdict = SwitchVerdict::DroppedIdle;
                self.closes_because(id, CloseReason::DroppedIdle);
                self.close_at(id, ENTRY, None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(averages: &[f64], carries: bool) -> impl Iterator<Item = Sampled> {
        averages.iter().enumerate().map(move |(index, &average)| Sampled {
            circuit: CircuitId(index as u32),
            outward: true,
            cells: 3,
            average,
            carries,
            verdict: SwitchVerdict::Lighter,
        })
    }

    /// The averages of the testbed paper's table 1, of which the second and the third move (section 5.3.1), beside six circuits that carry nothing: spares and what was built ahead.
    #[test]
    fn circuits_that_carry_nothing_are_no_part_of_the_mean() {
        let mut all: Vec<Sampled> = sampled(&[21.0, 51.0, 64.0, 13.0], true).collect();
        all.extend(sampled(&[0.9, 0.9, 0.9, 0.9, 0.4, 0.2], false));
        assert_eq!(too_much(SwitchChoice::AboveMean, &all), [2, 1]);
        assert_eq!(too_much(SwitchChoice::Bulkiest, &all), [2]);
        // One alone is not above its own mean, and where nothing is carried nothing is too much.
        all.truncate(1);
        assert!(too_much(SwitchChoice::AboveMean, &all).is_empty());
        assert_eq!(too_much(SwitchChoice::Bulkiest, &all), [0]);
        all[0].carries = false;
        assert!(too_much(SwitchChoice::Bulkiest, &all).is_empty());
    }

    /// The bulkiest is being switched already, or has no spare: nothing lighter moves in its place. Above the mean the others that are do.
    #[test]
    fn what_may_not_move_keeps_its_rank() {
        for verdict in [SwitchVerdict::InSwitch, SwitchVerdict::NoSpare, SwitchVerdict::Limit] {
            let mut all: Vec<Sampled> = sampled(&[21.0, 51.0, 64.0, 13.0], true).collect();
            all[2].verdict = verdict;
            assert!(too_much(SwitchChoice::Bulkiest, &all).is_empty());
            assert_eq!(too_much(SwitchChoice::AboveMean, &all), [1]);
        }
    }

    /// Lines 9, 18 and 21 with B_(t-1) = 0: anything is more than beta times nothing, and nothing is not.
    #[test]
    fn the_first_cells_are_more_than_any_share_of_none() {
        assert!(relative(3.0, 0.0) > 10.0 && relative(0.0, 0.0) < 0.01);
        assert!((relative(3.0, 2.0) - 1.5).abs() < 1e-12);
    }
}
