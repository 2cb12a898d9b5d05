//! The token buckets of planned circuits: set anew in every step, whatever was left of the last.
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
}

impl Allowance {
    pub fn charge(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
        self.used += bytes;
    }
}

/// Bytes of cells that may be written in a step at so many cells a second, in whole bits and bytes as the public program rounds them.
pub(super) fn bytes_to_write(cells_per_second: f64, step: SimDuration) -> u64 {
    let bits_per_second = (f64::from(8 * crate::CELL_BYTES) * cells_per_second) as u64;
    let bits = u128::from(bits_per_second) * u128::from(step.as_nanos());
    (bits.div_ceil(1_000_000_000) / 8) as u64
}

/// Bytes that may be read from servers in a step. A packet counts as whole cell there too, as in the public program.
pub(super) fn bytes_to_read(cells_per_second: f64, step: SimDuration) -> u64 {
    (f64::from(crate::CELL_BYTES) * cells_per_second * step.as_secs_f64()) as u64
}

impl Predictor {
    /// Sets what may be written at this end until the next step; returns what was since the last.
    pub(super) fn allow(&mut self, end: EndId, bytes: u64) -> u64 {
        if self.allowances.len() <= end.index() {
            self.allowances.resize(end.index() + 1, None);
        }
        let before = self.allowances[end.index()].replace(Allowance { left: bytes, used: 0 });
        before.map_or(0, |before| before.used)
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

    /// 25 cells a second are one in 40 ms; what a solver leaves below that is still one.
    #[test]
    fn rates_become_whole_cells() {
        let step = SimDuration::from_millis(40);
        assert_eq!(bytes_to_write(25.0, step), 514);
        assert_eq!(bytes_to_write(24.999_99, step), 514);
        assert_eq!(bytes_to_write(24.9, step), 512);
        assert_eq!(bytes_to_write(0.0, step), 0);
        assert_eq!(bytes_to_write(1e6, SimDuration::from_secs(1)), 514_000_000);
        assert_eq!((bytes_to_read(50.0, step), bytes_to_read(0.1, step)), (1028, 2));
    }
}
