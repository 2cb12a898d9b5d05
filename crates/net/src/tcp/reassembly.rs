//! Bytes that arrived beyond a hole, the SACK blocks that tell of them (RFC 2018), and how long they waited for the hole to be filled.
//!
//! TCP hands over bytes in order: what arrives beyond a lost segment waits. When the hole is filled, the owner can learn which bytes have become readable and when
//! each of them had arrived, and so whose bytes waited for whose.

use super::segment::{SackBlock, Segment};
use onionlab_quantities::SimTime;

/// Bytes that arrived together. Positions count the bytes of the stream from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// The first byte.
    pub from: u64,
    /// One past the last.
    pub to: u64,
    /// When they arrived first.
    pub at: SimTime,
}

/// A hole was filled, and the bytes up to the next one are readable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filled {
    /// Since when it is known that something is missing here: the first arrival beyond the hole, or the filling of the hole before.
    pub since: SimTime,
    /// When the hole was filled.
    pub at: SimTime,
    /// The bytes of the hole and those behind it that are readable now, in order and without gaps.
    pub bytes: Vec<Arrived>,
    /// There is another hole beyond them.
    pub more: bool,
}

/// Ranges beyond the next expected byte; exists only while there is a hole, or one was filled of which the owner has not been told.
#[derive(Debug, Clone, Default)]
pub(super) struct Reassembly {
    /// Disjoint, not adjacent, in order.
    ranges: Vec<(u64, u64)>,
    /// A byte of each of the ranges touched last, the latest first (Linux keeps four).
    recent: Vec<u64>,
    /// The FIN's sequence number, if it came.
    fin: Option<u64>,
    /// What came beyond the hole, in order of arrival, by sequence numbers; and since when there is a hole.
    arrived: Vec<Arrived>,
    since: SimTime,
    filled: Vec<Filled>,
}

impl Reassembly {
    /// Stores a range beyond a hole, FIN included in `end`; false if all of it was there.
    pub(super) fn insert(&mut self, start: u64, end: u64, fin: bool, now: SimTime) -> bool {
        if self.ranges.is_empty() {
            self.since = now;
        }
        self.arrived.push(Arrived { from: start, to: end - u64::from(fin), at: now });
        if fin {
            self.fin = Some(end - 1);
        }
        // Ranges that touch [start, end] are first..last.
        let first = self.ranges.partition_point(|range| range.1 < start);
        let mut last = first;
        let (mut low, mut high) = (start, end);
        let mut new = true;
        while let Some(range) = self.ranges.get(last)
            && range.0 <= end
        {
            new &= !(range.0 <= start && end <= range.1);
            low = low.min(range.0);
            high = high.max(range.1);
            last += 1;
        }
        self.recent.retain(|&byte| byte < low || byte >= high);
        self.recent.insert(0, low);
        self.recent.truncate(4);
        if last == first {
            self.ranges.insert(first, (low, high));
        } else {
            self.ranges[first] = (low, high);
            self.ranges.drain(first + 1..last);
        }
        new
    }

    /// The bytes from `expected` to `next` came: returns where the next expected byte is after the ranges that join them, and whether the FIN is among them.
    pub(super) fn join(&mut self, expected: u64, next: u64, now: SimTime) -> (u64, bool) {
        let mut reached = next;
        let joined = self.ranges.iter().take_while(|range| range.0 <= reached.max(next)).count();
        for range in self.ranges.drain(..joined) {
            reached = reached.max(range.1);
        }
        self.recent.retain(|&byte| byte >= reached);
        let with_fin = self.fin.is_some_and(|fin| fin < reached);
        let to = reached - u64::from(with_fin);
        self.arrived.push(Arrived { from: expected, to: next.min(to), at: now });
        let more = !self.ranges.is_empty();
        self.filled.push(Filled { since: self.since, at: now, bytes: pieces(&self.arrived, expected, to), more });
        self.arrived.retain(|arrived| arrived.to > reached);
        self.since = now;
        (reached, with_fin)
    }

    /// Whether holes were filled that were not taken yet.
    pub(super) fn has_filled(&self) -> bool {
        !self.filled.is_empty()
    }

    pub(super) fn take_filled(&mut self) -> Vec<Filled> {
        std::mem::take(&mut self.filled)
    }

    /// Bytes that are held, a FIN counted as one.
    pub(super) fn bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.1 - range.0).sum()
    }

    /// Where the last range ends.
    pub(super) fn end(&self) -> Option<u64> {
        self.ranges.last().map(|range| range.1)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Writes the blocks into a segment whose `ack` is set.
    pub(super) fn describe(&self, segment: &mut Segment) {
        let mut blocks = Box::<[SackBlock; 3]>::default();
        for &byte in self.recent.iter().take(3) {
            let index = self.ranges.partition_point(|range| range.1 <= byte);
            if let Some(&(start, end)) = self.ranges.get(index) {
                blocks[usize::from(segment.sack_count)] =
                    SackBlock { start: (start - segment.ack) as u32, end: (end - segment.ack) as u32 };
                segment.sack_count += 1;
            }
        }
        segment.sack = Some(blocks);
    }
}

/// The bytes with sequence numbers from `from` to `to` by arrival, in order, as positions in the stream; where two arrivals overlap in part, the one that begins first counts.
fn pieces(arrived: &[Arrived], from: u64, to: u64) -> Vec<Arrived> {
    let mut within: Vec<Arrived> = arrived.iter().copied().filter(|piece| piece.to > from && piece.from < to).collect();
    within.sort_unstable_by_key(|piece| (piece.from, piece.at));
    let mut next = from;
    within.retain_mut(|piece| {
        let (begin, end) = (piece.from.max(next), piece.to.min(to));
        // The SYN has the number before the first byte's.
        (piece.from, piece.to) = (begin - 1, end.max(begin) - 1);
        next = next.max(end);
        begin < end
    });
    within
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arrived(from: u64, to: u64, nanos: u64) -> Arrived {
        Arrived { from, to, at: SimTime::from_nanos(nanos) }
    }

    /// A hole of 100 bytes, what lies behind it twice, the second time with more, and something far behind.
    #[test]
    fn pieces_are_in_order_and_without_overlap() {
        let all = [arrived(201, 301, 1), arrived(301, 401, 2), arrived(201, 351, 3), arrived(101, 201, 4), arrived(601, 701, 2)];
        let expected = [arrived(100, 200, 4), arrived(200, 300, 1), arrived(300, 350, 3), arrived(350, 400, 2)];
        assert_eq!(pieces(&all, 101, 401), expected);
    }

    proptest! {
        /// Against a set of bytes.
        #[test]
        fn holds_what_a_set_of_bytes_holds(segments in proptest::collection::vec((1_u64..60, 1_u64..10), 1..40)) {
            let mut reassembly = Reassembly::default();
            let mut bytes = [false; 600];
            // The SYN.
            let mut next = 1_u64;
            bytes[0] = true;
            for (start, len) in segments {
                // Every seventh fills the front.
                let start = if (start + len) % 7 == 0 { next } else { start.max(next + 1) };
                for byte in start..start + len {
                    bytes[byte as usize] = true;
                }
                if start == next {
                    let before = next;
                    next = reassembly.join(next, start + len, SimTime::ZERO).0;
                    // What is told to the owner covers what became readable, each byte once.
                    let filled = reassembly.take_filled();
                    let pieces = &filled[0].bytes;
                    prop_assert_eq!(filled.len(), 1);
                    prop_assert_eq!((pieces[0].from, pieces[pieces.len() - 1].to), (before - 1, next - 1));
                    prop_assert!(pieces.windows(2).all(|pair| pair[0].to == pair[1].from));
                    prop_assert_eq!(filled[0].more, bytes[next as usize..].contains(&true));
                } else {
                    reassembly.insert(start, start + len, false, SimTime::ZERO);
                }
                let expected = bytes.iter().position(|&there| !there).unwrap() as u64;
                prop_assert_eq!(next, expected);
                let stored: u64 = reassembly.ranges.iter().map(|range| range.1 - range.0).sum();
                let wanted = bytes[next as usize..].iter().filter(|&&there| there).count() as u64;
                prop_assert_eq!(stored, wanted);
                prop_assert!(reassembly.recent.iter().all(|byte| bytes[*byte as usize] && *byte >= next));
            }
        }
    }
}
