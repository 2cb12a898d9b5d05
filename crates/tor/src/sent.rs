//! What is on its way between the two ends of a channel: cells and records from one end's outbuf to the other end's input.
//!
//! They lie in rings, because they are read one after the other long after they were written, when a chain through a pool would cost a cache miss each.
//! The rings come out of a pool and go back when they are empty: a channel where nothing moves has none, and the ring that was emptied last, which is
//! still in the cache, is used first.

use crate::cell::Cell;
use onionlab_engine::prefetch;
use std::collections::VecDeque;

/// The rings of one end of a channel in the pool, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SentId(u32);

impl SentId {
    pub const NONE: Self = Self(u32::MAX);
}

#[derive(Debug, Default)]
struct Sent {
    /// From the tail of the outbuf to the head of the peer's input, in order.
    cells: VecDeque<Cell>,
    /// Plaintext sizes of the records between the kernel here and the peer's input.
    records: VecDeque<u16>,
}

#[derive(Debug, Default)]
pub(crate) struct SentPool {
    rings: Vec<Sent>,
    free: Vec<u32>,
    cells: usize,
}

impl SentPool {
    #[inline]
    fn rings(&mut self, id: &mut SentId) -> &mut Sent {
        if *id == SentId::NONE {
            *id = self.empty_rings();
        }
        &mut self.rings[id.0 as usize]
    }

    #[inline(never)]
    fn empty_rings(&mut self) -> SentId {
        SentId(self.free.pop().unwrap_or_else(|| {
            self.rings.push(Sent::default());
            self.rings.len() as u32 - 1
        }))
    }

    fn give_back_if_empty(&mut self, id: &mut SentId) {
        if let Some(sent) = self.rings.get(id.0 as usize)
            && sent.cells.is_empty()
            && sent.records.is_empty()
        {
            self.free.push(id.0);
            *id = SentId::NONE;
        }
    }

    #[inline]
    pub fn push_cell(&mut self, id: &mut SentId, cell: Cell) {
        self.cells += 1;
        self.rings(id).cells.push_back(cell);
    }

    #[inline]
    pub fn push_record(&mut self, id: &mut SentId, plaintext: u16) {
        self.rings(id).records.push_back(plaintext);
    }

    pub fn first_cell(&self, id: SentId) -> Option<&Cell> {
        self.rings.get(id.0 as usize)?.cells.front()
    }

    /// The cell with this place among those on their way, 1 being the one that was sent last.
    pub fn cell_from_behind(&self, id: SentId, place: usize) -> Option<&Cell> {
        let cells = &self.rings.get(id.0 as usize)?.cells;
        cells.get(cells.len().checked_sub(place)?)
    }

    /// The cell with this place in the order of those on their way.
    pub fn cell(&self, id: SentId, place: usize) -> Option<&Cell> {
        self.rings.get(id.0 as usize)?.cells.get(place)
    }

    /// The first cells on their way, at most `count`.
    #[inline]
    pub fn first_cells(&self, id: SentId, count: usize) -> impl Iterator<Item = &Cell> {
        self.rings.get(id.0 as usize).into_iter().flat_map(move |sent| sent.cells.iter().take(count))
    }

    /// Records on their way from one end of a channel, in order.
    pub fn records_of(&self, id: SentId) -> impl Iterator<Item = u16> {
        self.rings.get(id.0 as usize).into_iter().flat_map(|sent| sent.records.iter().copied())
    }

    pub fn first_record(&self, id: SentId) -> Option<&u16> {
        self.rings.get(id.0 as usize)?.records.front()
    }

    /// Takes the first cell on its way; where each cell comes by, [`Self::first_cell`] and [`Self::drop_cell`] are faster, as in
    /// [`CellPool::pop`](crate::cell::CellPool::pop).
    pub fn pop_cell(&mut self, id: &mut SentId) -> Option<Cell> {
        let cell = *self.first_cell(*id)?;
        self.drop_cell(id);
        Some(cell)
    }

    /// Gives up the place of the first cell on its way.
    #[inline]
    pub fn drop_cell(&mut self, id: &mut SentId) {
        if let Some(sent) = self.rings.get_mut(id.0 as usize)
            && sent.cells.pop_front().is_some()
        {
            self.cells -= 1;
            self.give_back_if_empty(id);
        }
    }

    pub fn pop_record(&mut self, id: &mut SentId) -> Option<u16> {
        let record = self.rings.get_mut(id.0 as usize)?.records.pop_front()?;
        self.give_back_if_empty(id);
        Some(record)
    }

    /// The channel is closed: what lies between its ends is nobody's any more.
    pub fn forget(&mut self, id: &mut SentId) {
        if let Some(sent) = self.rings.get_mut(id.0 as usize) {
            self.cells -= sent.cells.len();
            sent.cells.clear();
            sent.records.clear();
            self.give_back_if_empty(id);
        }
    }

    /// Rings that are not free.
    #[cfg(test)]
    pub fn in_use(&self) -> usize {
        self.rings.len() - self.free.len()
    }

    /// Cells on their way from one end of a channel, in order.
    #[cfg(test)]
    pub fn cells_of(&self, id: SentId) -> Vec<Cell> {
        self.rings.get(id.0 as usize).map_or_else(Vec::new, |sent| sent.cells.iter().copied().collect())
    }

    /// Cells on their way between the ends of all channels.
    pub fn cells(&self) -> usize {
        self.cells
    }

    /// Asks for the memory of the rings themselves, or (once that has come) of what is first in them.
    #[inline]
    pub fn prefetch(&self, id: SentId, rings: bool) {
        if rings {
            if let Some(sent) = self.rings.get(id.0 as usize) {
                prefetch(sent, size_of::<Sent>());
            }
        } else {
            if let Some(record) = self.first_record(id) {
                prefetch(record, size_of::<u16>());
            }
            if let Some(cell) = self.first_cell(id) {
                prefetch(cell, size_of::<Cell>());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::CellKind;
    use crate::ids::CircuitId;

    #[test]
    fn rings_go_back_when_they_are_empty_and_keep_their_order() {
        let mut pool = SentPool::default();
        let mut ends = [SentId::NONE; 2];
        for round in 0..3 {
            for number in 0..4 {
                let end = &mut ends[number as usize % 2];
                pool.push_cell(end, Cell::new(CellKind::Data, CircuitId(number)));
                pool.push_record(end, number as u16);
            }
            assert_eq!((pool.cells(), pool.rings.len(), pool.free.len()), (4, 2, 0), "round {round}");
            for (index, end) in ends.iter_mut().enumerate() {
                for number in [index as u32, index as u32 + 2] {
                    assert_eq!(pool.pop_cell(end).unwrap().circuit, CircuitId(number));
                    assert_ne!(*end, SentId::NONE, "its record is still there");
                    assert_eq!(pool.pop_record(end), Some(number as u16));
                }
                assert_eq!(*end, SentId::NONE);
                assert!(pool.pop_cell(end).is_none() && pool.pop_record(end).is_none());
            }
        }
    }
}
