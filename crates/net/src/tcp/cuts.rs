//! Where writes end, for a TCP whose segments follow writes (Shadow's): the next segment ends there too.

use onionlab_engine::prefetch;
use std::collections::VecDeque;

/// Where a write ended, and which of its host's writes it was.
#[derive(Debug, Clone, Copy)]
struct Cut {
    end: u64,
    order: u64,
}

/// The writes of which something was not sent yet, and how many segments that makes.
#[derive(Debug, Clone, Default)]
pub(super) struct Cuts {
    writes: VecDeque<Cut>,
    segments: u32,
}

impl Cuts {
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// A write of the bytes from `start` to before `end`, which follow those written before.
    pub fn push(&mut self, mss: u32, start: u64, end: u64) {
        self.writes.push_back(Cut { end, order: 0 });
        self.segments += segments(mss, start, end);
    }

    /// Numbers the last write.
    pub fn number_last(&mut self, order: u64) {
        if let Some(cut) = self.writes.back_mut() {
            cut.order = order;
        }
    }

    /// The end and the number of the write that the next segment belongs to.
    pub fn first(&self) -> Option<(u64, u64)> {
        self.writes.front().map(|cut| (cut.end, cut.order))
    }

    /// The bytes from `start`, of the first write, to before `next` have been sent.
    pub fn sent(&mut self, mss: u32, start: u64, next: u64) {
        let Some(first) = self.writes.front() else { return };
        self.segments -= segments(mss, start, first.end);
        if next < first.end {
            self.segments += segments(mss, next, first.end);
        } else {
            self.writes.pop_front();
        }
    }

    /// How many segments there are, and the bytes in all but the first `room` of them; `start` is the first byte that was not sent.
    pub fn beyond(&self, mss: u32, mut start: u64, mut room: u32) -> (u32, u64) {
        let written = self.writes.back().map_or(start, |last| last.end);
        for cut in &self.writes {
            let count = segments(mss, start, cut.end);
            if count > room {
                return (self.segments, written - (start + u64::from(room) * u64::from(mss)));
            }
            room -= count;
            start = cut.end;
        }
        (self.segments, 0)
    }

    /// Asks for the memory of the first.
    #[inline]
    pub fn prefetch_first(&self) {
        if let Some(first) = self.writes.front() {
            prefetch(first, size_of::<Cut>());
        }
    }
}

/// Segments of the bytes from `start` to before `end` of one write.
fn segments(mss: u32, start: u64, end: u64) -> u32 {
    (end - start).div_ceil(u64::from(mss)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MSS: u32 = 1434;

    /// What is beyond, counted segment by segment.
    fn counted(writes: &VecDeque<Cut>, mut start: u64, room: u32) -> (u32, u64) {
        let (mut count, mut bytes) = (0, 0);
        for cut in writes {
            while start < cut.end {
                let end = (start + u64::from(MSS)).min(cut.end);
                bytes += if count < room { 0 } else { end - start };
                count += 1;
                start = end;
            }
        }
        (count, bytes)
    }

    proptest! {
        #[test]
        fn what_is_kept_is_what_is_counted(steps in prop::collection::vec((any::<bool>(), 1_u64..6000, 0_u32..8), 1..80)) {
            let mut cuts = Cuts::default();
            let (mut next, mut written) = (1, 1);
            for (write, bytes, room) in steps {
                if write {
                    cuts.push(MSS, written, written + bytes);
                    written += bytes;
                } else if let Some((end, _)) = cuts.first() {
                    // A segment, or less where the peer's window ends.
                    let sent = next + bytes.min(u64::from(MSS)).min(end - next);
                    cuts.sent(MSS, next, sent);
                    next = sent;
                }
                prop_assert_eq!(cuts.beyond(MSS, next, room), counted(&cuts.writes, next, room));
                prop_assert_eq!(cuts.is_empty(), next == written);
            }
        }
    }
}
