//! The token buckets of planned circuits: set anew in every step, whatever was left of the last but for the part of a byte that rounding took.
//!
//! A relay's bucket is drawn on by what its tor writes to the circuit's connection towards the client, record by record, and bounds each write as the relay's own bucket does (an eighth of
//! it at a time, `bucket.rs`); what arrives during a step may still use it. Records' headers and tags are not charged: they belong to the share of the link that is not planned with. The exit's
//! bucket is drawn on by what it reads from the circuit's servers.

use super::Predictor;
use crate::bucket;
use crate::event_loop::Connection;
use crate::ids::{CircuitId, EndId};
use crate::world::World;
use onionlab_quantities::SimDuration;

/// A bucket.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Allowance {
    /// Bytes that may still pass in this step.
    pub left: u64,
    /// Bytes that have passed in it.
    pub used: u64,
    /// What was planned of a byte and not given so far, from -[`BIT`] to 1.
    carried: f64,
}

/// So much less than a byte is still a byte, as in the public program, which rounds up to whole bits: what a solver leaves below a cell must not hold back its last byte for a step.
const BIT: f64 = 0.125;

impl Allowance {
    /// The bucket of the next step, in which cells may pass at this rate. A plan of less than a byte in each step would let nothing pass for ever if what rounding takes were lost.
    pub fn next(self, cells_per_second: f64, step: SimDuration) -> Self {
        let planned = f64::from(crate::CELL_BYTES) * cells_per_second * step.as_secs_f64() + self.carried;
        let left = (planned + BIT).floor();
        Self { left: left as u64, used: 0, carried: planned - left }
    }

    pub fn charge(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
        self.used += bytes;
    }
}

impl Predictor {
    /// Sets what may be written at this end until the next step; returns what was since the last.
    pub(super) fn allow(&mut self, end: EndId, cells_per_second: f64) -> u64 {
        if self.allowances.len() <= end.index() {
            self.allowances.resize(end.index() + 1, None);
        }
        let allowance = self.allowances[end.index()].get_or_insert_default();
        let next = allowance.next(cells_per_second, self.settings.step);
        std::mem::replace(allowance, next).used
    }

    fn allowance(&self, end: EndId) -> Option<Allowance> {
        *self.allowances.get(end.index())?
    }
}

impl World {
    /// The most that the plan lets one write take at this end, of whose outbuf `begun` bytes have been charged already; none if nothing is planned there.
    #[inline]
    pub(crate) fn planned_writing(&self, end: EndId, begun: u32) -> Option<u64> {
        let allowance = self.predictor.as_deref()?.allowance(end)?;
        Some(bucket::share(Connection::Channel.unit(), (allowance.left + u64::from(begun)).cast_signed()))
    }

    /// So many bytes of plaintext went from this end's outbuf into records.
    #[inline]
    pub(crate) fn charge_writing(&mut self, end: EndId, bytes: u64) {
        if let Some(predictor) = self.predictor.as_deref_mut()
            && let Some(Some(allowance)) = predictor.allowances.get_mut(end.index())
        {
            allowance.charge(bytes);
        }
    }

    /// The most that the plan lets one read from a server of this circuit take; none if the circuit is not planned.
    #[inline]
    pub(crate) fn planned_reading(&self, circuit: CircuitId) -> Option<u64> {
        let planned = self.predictor.as_deref()?.circuit(circuit)?;
        Some(bucket::share(Connection::Edge.unit(), planned.reading.left.cast_signed()))
    }

    /// The exit read so many bytes for this circuit.
    #[inline]
    pub(crate) fn charge_reading(&mut self, circuit: CircuitId, bytes: u64) {
        if let Some(predictor) = self.predictor.as_deref_mut()
            && let Some(planned) = predictor.circuit_mut(circuit)
        {
            planned.reading.charge(bytes);
        }
    }

    /// Whatever kept this end from writing is to be looked at again.
    pub(super) fn may_write_again(&mut self, end: EndId) {
        self.ends[end.index()].write_blocked = false;
        self.watch_channel_writing(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that pass in each of so many steps.
    fn steps(rate: f64, step: SimDuration, count: usize) -> Vec<u64> {
        let mut allowance = Allowance::default();
        let next = |_| {
            allowance = allowance.next(rate, step);
            allowance.left
        };
        (0..count).map(next).collect()
    }

    /// 25 cells a second are one in 40 ms; what a solver leaves below that is still one.
    #[test]
    fn rates_become_whole_cells() {
        let step = SimDuration::from_millis(40);
        assert_eq!(steps(25.0, step, 2), [514, 514]);
        assert_eq!(steps(24.999_99, step, 2), [514, 514]);
        assert_eq!(steps(24.9, step, 1), [512]);
        assert_eq!(steps(0.0, step, 2), [0, 0]);
        assert_eq!(steps(1e6, SimDuration::from_secs(1), 1), [514_000_000]);
    }

    /// A hundredth of a cell a second is a fifth of a byte a step; half a byte a step is a byte in every second.
    #[test]
    fn parts_of_a_byte_add_up() {
        let step = SimDuration::from_millis(40);
        assert_eq!(steps(0.01, step, 10).iter().sum::<u64>(), 2);
        assert_eq!(steps(0.5 / 514.0 / 0.04, step, 6), [0, 1, 0, 1, 0, 1]);
        for rate in [0.018, 3.3, 71.77, 2074.9] {
            let given: u64 = steps(rate, step, 1000).iter().sum();
            assert!((given as f64 - 514.0 * rate * 40.0).abs() < 1.2, "{given} at {rate}");
        }
    }
}
