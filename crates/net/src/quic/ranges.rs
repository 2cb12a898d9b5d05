//! Sets of numbers as ranges: bytes acknowledged or lost, bytes beyond a hole, packets received.

/// Disjoint half-open ranges that do not touch, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RangeSet(Vec<(u64, u64)>);

impl RangeSet {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    pub(super) fn first(&self) -> Option<(u64, u64)> {
        self.0.first().copied()
    }
    pub(super) fn last(&self) -> Option<(u64, u64)> {
        self.0.last().copied()
    }
    pub(super) fn as_slice(&self) -> &[(u64, u64)] {
        &self.0
    }
    pub(super) fn clear(&mut self) {
        self.0 = Vec::new();
    }

    /// Adds a range; false if all of it was there.
    pub(super) fn insert(&mut self, start: u64, end: u64) -> bool {
        if start >= end {
            return false;
        }
        if let Some(last) = self.0.last_mut()
            && last.1 == start
        {
            last.1 = end;
            return true;
        }
        // Those that touch [start, end] are from..to.
        let from = self.0.partition_point(|range| range.1 < start);
        let to = self.0.partition_point(|range| range.0 <= end);
        if from == to {
            self.0.insert(from, (start, end));
            return true;
        }
        let (low, high) = (self.0[from].0.min(start), self.0[to - 1].1.max(end));
        let new = to - from > 1 || (low, high) != self.0[from];
        self.0[from] = (low, high);
        self.0.drain(from + 1..to);
        new
    }

    /// Takes a range out, as far as it is there.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        let from = self.0.partition_point(|range| range.1 <= start);
        let to = self.0.partition_point(|range| range.0 < end);
        if start >= end || from >= to {
            return;
        }
        let left = (self.0[from].0, start);
        let right = (end, self.0[to - 1].1);
        let kept = [left, right].into_iter().filter(|range| range.0 < range.1);
        self.0.splice(from..to, kept);
    }

    /// The parts of `start..end` that are not in the set, in order.
    pub(super) fn missing(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut at = start;
        let mut index = self.0.partition_point(|range| range.1 <= start);
        std::iter::from_fn(move || {
            while at < end {
                let next = self.0.get(index).copied().unwrap_or((end, end));
                index += 1;
                let gap = (at, next.0.min(end));
                at = next.1.max(at);
                if gap.0 < gap.1 {
                    return Some(gap);
                }
            }
            None
        })
    }

    /// What lies at the beginning joins a sequence that has reached `next`: returns where that is now.
    pub(super) fn join(&mut self, next: u64) -> u64 {
        let mut reached = next;
        let joined = self.0.iter().take_while(|range| range.0 <= next).count();
        for range in self.0.drain(..joined) {
            reached = reached.max(range.1);
        }
        if self.0.is_empty() {
            self.clear();
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn members(set: &RangeSet) -> Vec<bool> {
        let mut bits = vec![false; 64];
        let mut last = None;
        for &(start, end) in set.as_slice() {
            assert!(start < end && last.is_none_or(|last| last < start), "{set:?}");
            last = Some(end);
            bits[start as usize..end as usize].fill(true);
        }
        bits
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Against an array of booleans.
        #[test]
        fn a_set_is_what_was_put_in_and_not_taken_out(steps in proptest::collection::vec((any::<bool>(), 0..60_u64, 0..12_u64), 1..60)) {
            let mut set = RangeSet::default();
            let mut bits = vec![false; 64];
            for (adds, start, len) in steps {
                let end = (start + len).min(64);
                let gaps: Vec<_> = set.missing(start, end).flat_map(|gap| gap.0..gap.1).collect();
                let absent: Vec<_> = (start..end).filter(|&at| !bits[at as usize]).collect();
                prop_assert_eq!(&gaps, &absent);
                if adds {
                    prop_assert_eq!(set.insert(start, end), !absent.is_empty());
                } else {
                    set.remove(start, end);
                }
                bits[start as usize..end as usize].fill(adds);
                prop_assert_eq!(members(&set), bits.clone());
            }
        }
    }

    #[test]
    fn a_sequence_takes_what_it_reaches() {
        let mut set = RangeSet::default();
        set.insert(10, 20);
        set.insert(30, 40);
        assert_eq!(set.join(5), 5);
        assert_eq!(set.join(12), 20);
        assert_eq!(set.as_slice(), [(30, 40)]);
        assert_eq!(set.join(30), 40);
        assert!(set.is_empty());
    }
}
