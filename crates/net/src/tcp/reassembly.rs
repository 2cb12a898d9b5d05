//! Bytes that arrived beyond a hole, and the SACK blocks that tell of them (RFC 2018).

use super::segment::{SackBlock, Segment};

/// Ranges beyond the next expected byte; exists only while there is a hole.
#[derive(Debug, Clone, Default)]
pub(super) struct Reassembly {
    /// Disjoint, not adjacent, in order.
    ranges: Vec<(u64, u64)>,
    /// A byte of each of the ranges touched last, the latest first (Linux keeps four).
    recent: Vec<u64>,
    /// The FIN's sequence number, if it came.
    fin: Option<u64>,
}

impl Reassembly {
    /// Stores a range beyond a hole, FIN included in `end`; false if all of it was there.
    pub(super) fn insert(&mut self, start: u64, end: u64, fin: bool) -> bool {
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

    /// The next expected byte is now `next`: returns where it is after the ranges that join it, and whether the FIN is among them.
    pub(super) fn join(&mut self, next: u64) -> (u64, bool) {
        let mut reached = next;
        let joined = self.ranges.iter().take_while(|range| range.0 <= reached.max(next)).count();
        for range in self.ranges.drain(..joined) {
            reached = reached.max(range.1);
        }
        self.recent.retain(|&byte| byte >= reached);
        (reached, self.fin.is_some_and(|fin| fin < reached))
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a set of bytes.
        #[test]
        fn holds_what_a_set_of_bytes_holds(segments in proptest::collection::vec((1_u64..60, 1_u64..10), 1..40)) {
            let mut reassembly = Reassembly::default();
            let mut bytes = [false; 600];
            let mut next = 0_u64;
            for (start, len) in segments {
                // Every seventh fills the front.
                let start = if (start + len) % 7 == 0 { next } else { start.max(next + 1) };
                for byte in start..start + len {
                    bytes[byte as usize] = true;
                }
                if start == next {
                    next = reassembly.join(start + len).0;
                } else {
                    reassembly.insert(start, start + len, false);
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
