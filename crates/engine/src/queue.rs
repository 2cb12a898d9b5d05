//! The event queue: a calendar of short days over a heap for what lies beyond it.
//!
//! Events are totally ordered by (time, host, that host's event counter), so two runs of one scenario handle them in
//! the same order on any machine, and an event that is added for one host never changes the order of two others'.
//!
//! Nearly all events of a network simulation lie a few round trips ahead. They go, unsorted, into one of 4,096 buckets of
//! 2^15 ns (33 us; 134 ms in all), and a bucket is sorted when its turn comes: both constant time an event at the
//! densities that occur (measured in `docs/performance.md`). Time-outs and pauses beyond the calendar wait in a binary heap.
//! The idea is Brown's calendar queue (CACM 1988) without its resizing.

use crate::HostId;
use onionlab_quantities::SimTime;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const BUCKET_BITS: u32 = 15;
const BUCKETS: usize = 4096;
const WORDS: usize = BUCKETS / 64;

/// An event that has become due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Popped<E> {
    /// When; equals [`EventQueue::now`].
    pub time: SimTime,
    /// The host that it concerns.
    pub host: HostId,
    /// What.
    pub event: E,
}

#[derive(Debug, Clone, Copy)]
struct Entry<E> {
    /// time (64 bits) | host (24) | the host's counter (40).
    key: u128,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}
impl<E> Eq for Entry<E> {}
impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

/// Pending events in their total order, and the clock that they drive.
#[derive(Debug)]
pub struct EventQueue<E> {
    now: SimTime,
    handled: u64,
    pending: usize,
    counters: Vec<u64>,
    /// The bucket whose turn it is, sorted descending: the next event is the last.
    today: Vec<Entry<E>>,
    /// Its number: time >> BUCKET_BITS.
    day: u64,
    buckets: Vec<Vec<Entry<E>>>,
    /// One bit a bucket: not empty.
    occupied: [u64; WORDS],
    beyond: BinaryHeap<Reverse<Entry<E>>>,
}

impl<E: Copy> EventQueue<E> {
    /// An empty queue at time zero for `hosts` hosts.
    ///
    /// # Panics
    /// With 2^24 hosts or more.
    pub fn new(hosts: usize) -> Self {
        assert!(hosts < 1 << 24, "an event key holds 2^24 hosts at most");
        Self {
            now: SimTime::ZERO,
            handled: 0,
            pending: 0,
            counters: vec![0; hosts],
            today: Vec::new(),
            day: 0,
            buckets: (0..BUCKETS).map(|_| Vec::new()).collect(),
            occupied: [0; WORDS],
            beyond: BinaryHeap::new(),
        }
    }

    /// The instant of the event handled last.
    pub const fn now(&self) -> SimTime {
        self.now
    }
    /// Events handled so far.
    pub const fn handled(&self) -> u64 {
        self.handled
    }
    /// Events waiting.
    pub const fn pending(&self) -> usize {
        self.pending
    }

    /// Makes `event` happen to `host` at `time`.
    ///
    /// # Panics
    /// If `time` lies before [`Self::now`]: the clock never runs back.
    pub fn schedule(&mut self, time: SimTime, host: HostId, event: E) {
        assert!(time >= self.now, "an event was scheduled {} ns in the past", self.now.as_nanos() - time.as_nanos());
        let counter = &mut self.counters[host.index()];
        *counter += 1;
        let key = u128::from(time.as_nanos()) << 64 | u128::from(host.0) << 40 | u128::from(*counter & 0xff_ffff_ffff);
        let entry = Entry { key, event };
        self.pending += 1;
        let day = time.as_nanos() >> BUCKET_BITS;
        // A glance ahead may have turned the calendar past days that were empty: what comes for them now is due today.
        if day <= self.day {
            let place = self.today.partition_point(|other| other.key > key);
            self.today.insert(place, entry);
        } else if day - self.day < BUCKETS as u64 {
            self.put_in_bucket(day, entry);
        } else {
            self.beyond.push(Reverse(entry));
        }
    }

    fn put_in_bucket(&mut self, day: u64, entry: Entry<E>) {
        let bucket = day as usize % BUCKETS;
        self.buckets[bucket].push(entry);
        self.occupied[bucket / 64] |= 1 << (bucket % 64);
    }

    /// The time of the next event.
    pub fn next_time(&mut self) -> Option<SimTime> {
        if self.today.is_empty() && !self.turn_to_next_day() {
            return None;
        }
        self.today.last().map(|entry| SimTime::from_nanos((entry.key >> 64) as u64))
    }

    /// Takes the next event and moves the clock to it.
    pub fn pop(&mut self) -> Option<Popped<E>> {
        let time = self.next_time()?;
        let entry = self.today.pop()?;
        self.now = time;
        self.handled += 1;
        self.pending -= 1;
        Some(Popped { time, host: HostId((entry.key >> 40) as u32 & 0xff_ffff), event: entry.event })
    }

    /// The event that will be handled after `between` others, if it is due within the calendar's day and nothing new comes before it: a
    /// glimpse for fetching its data early.
    #[inline]
    pub fn ahead(&self, between: usize) -> Option<(HostId, E)> {
        let entry = self.today.get(self.today.len().wrapping_sub(1 + between))?;
        Some((HostId((entry.key >> 40) as u32 & 0xff_ffff), entry.event))
    }

    /// Takes the next event if it is due at `until` or before.
    pub fn pop_until(&mut self, until: SimTime) -> Option<Popped<E>> {
        if self.next_time()? <= until { self.pop() } else { None }
    }

    /// Moves the calendar to the next day that has an event; false if there is none.
    fn turn_to_next_day(&mut self) -> bool {
        let beyond_day = self.beyond.peek().map(|Reverse(entry)| ((entry.key >> 64) as u64) >> BUCKET_BITS);
        let day = match (self.next_occupied_day(), beyond_day) {
            (None, None) => return false,
            (Some(day), None) | (None, Some(day)) => day,
            (Some(near), Some(far)) => near.min(far),
        };
        self.day = day;
        // The calendar now reaches further: what was beyond it comes in.
        while let Some(Reverse(entry)) = self.beyond.peek() {
            let entry_day = ((entry.key >> 64) as u64) >> BUCKET_BITS;
            if entry_day - day >= BUCKETS as u64 {
                break;
            }
            let entry = *entry;
            self.beyond.pop();
            self.put_in_bucket(entry_day, entry);
        }
        let bucket = day as usize % BUCKETS;
        self.occupied[bucket / 64] &= !(1 << (bucket % 64));
        // Swapping hands the empty bucket the buffer of the day that has passed: no allocation in the steady state.
        std::mem::swap(&mut self.today, &mut self.buckets[bucket]);
        self.today.sort_unstable_by_key(|entry| Reverse(entry.key));
        true
    }

    fn next_occupied_day(&self) -> Option<u64> {
        let start = (self.day as usize + 1) % BUCKETS;
        let (word, bit) = (start / 64, start % 64);
        for step in 0..=WORDS {
            let index = (word + step) % WORDS;
            let mut bits = self.occupied[index];
            if step == 0 {
                bits &= !0 << bit;
            } else if step == WORDS {
                bits &= !(!0 << bit);
            }
            if bits != 0 {
                let bucket = index * 64 + bits.trailing_zeros() as usize;
                return Some(self.day + 1 + ((bucket + BUCKETS - start) % BUCKETS) as u64);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn simultaneous_events_go_by_host_and_then_by_that_hosts_counter() {
        let mut queue = EventQueue::new(3);
        let time = SimTime::from_nanos(5);
        for (host, name) in [(2, "c1"), (0, "a1"), (2, "c2"), (1, "b1"), (0, "a2")] {
            queue.schedule(time, HostId(host), name);
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop().map(|popped| popped.event)).collect();
        assert_eq!(order, ["a1", "a2", "b1", "c1", "c2"]);
    }

    #[test]
    #[should_panic(expected = "in the past")]
    fn the_clock_never_runs_back() {
        let mut queue = EventQueue::new(1);
        queue.schedule(SimTime::from_nanos(10), HostId(0), ());
        queue.pop();
        queue.schedule(SimTime::from_nanos(9), HostId(0), ());
    }

    #[test]
    fn a_glance_ahead_loses_nothing() {
        let mut queue = EventQueue::new(1);
        queue.schedule(SimTime::from_nanos(90_000_000_000), HostId(0), "late");
        assert_eq!(queue.pop_until(SimTime::from_nanos(1_000_000_000)), None);
        queue.schedule(SimTime::from_nanos(2_000_000_000), HostId(0), "early");
        assert_eq!(queue.pop().unwrap().event, "early");
        assert_eq!(queue.pop().unwrap().event, "late");
    }

    proptest! {
        /// Against the obvious implementation: a sorted list. Delays reach from the same instant to far beyond the calendar.
        #[test]
        fn agrees_with_a_sorted_list(steps in prop::collection::vec((0_u32..4, prop_oneof![Just(0_u64), 1..70_000_u64, 1..400_000_000_u64, 1..9_000_000_000_u64], 0_usize..3), 1..400)) {
            let mut queue = EventQueue::new(4);
            let mut list: Vec<(u64, u32, u64, usize)> = Vec::new();
            let mut counters = [0_u64; 4];
            for (id, (host, delay, pops)) in steps.into_iter().enumerate() {
                let time = queue.now().as_nanos() + delay;
                queue.schedule(SimTime::from_nanos(time), HostId(host), id);
                counters[host as usize] += 1;
                list.push((time, host, counters[host as usize], id));
                list.sort_unstable();
                for _ in 0..pops {
                    let expected = if list.is_empty() { None } else { Some(list.remove(0)) };
                    let popped = queue.pop();
                    prop_assert_eq!(popped.map(|p| (p.time.as_nanos(), p.host.0, p.event)), expected.map(|e| (e.0, e.1, e.3)));
                }
                prop_assert_eq!(queue.pending(), list.len());
            }
            while let Some(popped) = queue.pop() {
                let expected = list.remove(0);
                prop_assert_eq!((popped.time.as_nanos(), popped.event), (expected.0, expected.3));
            }
            prop_assert!(list.is_empty());
        }
    }
}
