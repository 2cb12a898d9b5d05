//! The event queue: a calendar of short days, and a heap for what lies beyond it.
//!
//! Events are totally ordered by time, then by host, then by when they were scheduled, so two runs of one scenario handle them in
//! the same order on any machine, and an event that is added for one host never changes the order of two others'.
//!
//! Nearly all events of a network simulation lie a few round trips ahead. They go, unsorted, into one of 16,384 buckets of
//! 2^15 ns (33 us; 537 ms in all), and a bucket is sorted when its turn comes: both constant time an event at the
//! densities that occur (measured in `docs/performance.md`). Long time-outs and pauses beyond the calendar wait in a binary heap.
//! The idea is Brown's calendar queue (CACM 1988) without its resizing.
//!
//! What is written to the ends of thousands of buckets and read again much later has to be small. So an entry says only what its bucket does
//! not, the time within the day, and takes sixteen bytes with an event of eight; and buckets are chains of small chunks out of one pool, where the
//! chunk that was emptied last, which is still in the cache, is used first.

use crate::HostId;
use onionlab_quantities::SimTime;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const BUCKET_BITS: u32 = 15;
const BUCKETS: usize = 16_384;
const WORDS: usize = BUCKETS / 64;
const HOST_BITS: u32 = 24;
const HOSTS: u32 = 1 << HOST_BITS;
/// What is left of a key's 64 bits: the order of scheduling among events of one day.
const SERIAL_BITS: u32 = 64 - BUCKET_BITS - HOST_BITS;
const SERIALS: u64 = 1 << SERIAL_BITS;

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

/// An event of a day that is known.
#[derive(Debug, Clone, Copy)]
struct Entry<E> {
    /// Nanoseconds of the day (15 bits) | host (24) | how many were scheduled for that day before it (25).
    key: u64,
    event: E,
}

impl<E> Entry<E> {
    fn new(time: SimTime, host: HostId, serial: u64, event: E) -> Self {
        let nanos = time.as_nanos() & ((1 << BUCKET_BITS) - 1);
        Self { key: nanos << (HOST_BITS + SERIAL_BITS) | u64::from(host.0) << SERIAL_BITS | serial, event }
    }
    fn time(&self, day: u64) -> SimTime {
        SimTime::from_nanos(day << BUCKET_BITS | self.key >> (HOST_BITS + SERIAL_BITS))
    }
    fn host(&self) -> HostId {
        HostId((self.key >> SERIAL_BITS) as u32 & (HOSTS - 1))
    }
}

/// Entries of a chunk: with sixteen bytes each, four cache lines.
const CHUNK: usize = 16;
const NONE: u32 = u32::MAX;

#[derive(Debug)]
#[repr(align(64))]
struct Chunk<E>([Entry<E>; CHUNK]);

/// The events of a day to come: a chain of chunks, the one that is being filled first.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    head: u32,
    len: u32,
}

impl Bucket {
    const EMPTY: Self = Self { head: NONE, len: 0 };

    /// Entries in the first chunk.
    const fn in_head(self) -> usize {
        match self.len as usize % CHUNK {
            0 if self.len > 0 => CHUNK,
            rest => rest,
        }
    }
}

#[derive(Debug)]
struct ChunkPool<E> {
    chunks: Vec<Chunk<E>>,
    /// By chunk: the next of its chain.
    next: Vec<u32>,
    free: Vec<u32>,
}

impl<E: Copy> ChunkPool<E> {
    #[inline(always)]
    fn push(&mut self, bucket: &mut Bucket, entry: Entry<E>) {
        let place = bucket.len as usize % CHUNK;
        if place == 0 {
            bucket.head = self.chunk(bucket.head, entry);
        } else {
            // Two words, each from where it is: the entry never lies in memory before, where it would have to be read back as one.
            let slot = &mut self.chunks[bucket.head as usize].0[place];
            slot.key = entry.key;
            slot.event = entry.event;
        }
        bucket.len += 1;
    }

    /// A chunk before `next`, with `entry` in its first place.
    #[inline(never)]
    fn chunk(&mut self, next: u32, entry: Entry<E>) -> u32 {
        if let Some(id) = self.free.pop() {
            self.chunks[id as usize].0[0] = entry;
            self.next[id as usize] = next;
            return id;
        }
        self.chunks.push(Chunk([entry; CHUNK]));
        self.next.push(next);
        self.chunks.len() as u32 - 1
    }

    /// Moves all entries of a bucket to the end of `list`, in no order.
    fn drain(&mut self, bucket: &mut Bucket, list: &mut Vec<Entry<E>>) {
        let mut len = bucket.in_head();
        let mut id = bucket.head;
        while let Some(chunk) = self.chunks.get(id as usize) {
            list.extend_from_slice(&chunk.0[..len]);
            self.free.push(id);
            (id, len) = (self.next[id as usize], CHUNK);
        }
        *bucket = Bucket::EMPTY;
    }
}

/// An event of any day.
#[derive(Debug, Clone, Copy)]
struct Far<E> {
    time: SimTime,
    host: HostId,
    /// How many were put into the heap before it.
    serial: u64,
    event: E,
}

impl<E> Far<E> {
    fn key(&self) -> (SimTime, HostId, u64) {
        (self.time, self.host, self.serial)
    }
    fn day(&self) -> u64 {
        self.time.as_nanos() >> BUCKET_BITS
    }
}
impl<E> PartialEq for Far<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl<E> Eq for Far<E> {}
impl<E> PartialOrd for Far<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Far<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// Pending events in their total order, and the clock that they drive.
#[derive(Debug)]
pub struct EventQueue<E> {
    now: SimTime,
    handled: u64,
    pending: usize,
    hosts: usize,
    /// The bucket whose turn it is, sorted descending: the next event is the last.
    today: Vec<Entry<E>>,
    /// Its number: time >> BUCKET_BITS.
    day: u64,
    /// Events scheduled for that day so far.
    serial: u64,
    buckets: Box<[Bucket; BUCKETS]>,
    pool: ChunkPool<E>,
    /// One bit a bucket: not empty.
    occupied: [u64; WORDS],
    far: BinaryHeap<Reverse<Far<E>>>,
    far_serial: u64,
    /// How many events of `far` are of days before `day`: a glance ahead had turned the calendar past them when they came.
    early: usize,
}

impl<E: Copy> EventQueue<E> {
    /// An empty queue at time zero for `hosts` hosts.
    ///
    /// # Panics
    /// With 2^24 hosts or more.
    pub fn new(hosts: usize) -> Self {
        assert!(hosts < HOSTS as usize, "an event key holds 2^24 hosts at most");
        Self {
            now: SimTime::ZERO,
            handled: 0,
            pending: 0,
            hosts,
            today: Vec::new(),
            day: 0,
            serial: 0,
            buckets: vec![Bucket::EMPTY; BUCKETS].try_into().expect("as many as there are"),
            pool: ChunkPool { chunks: Vec::new(), next: Vec::new(), free: Vec::new() },
            occupied: [0; WORDS],
            far: BinaryHeap::new(),
            far_serial: 0,
            early: 0,
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
    /// If `time` lies before [`Self::now`]: the clock never runs back. If there is no such host.
    #[inline]
    pub fn schedule(&mut self, time: SimTime, host: HostId, event: E) {
        assert!(time >= self.now, "an event was scheduled {} ns in the past", self.now.as_nanos() - time.as_nanos());
        assert!(host.index() < self.hosts, "an event was scheduled for a host that is not there");
        self.pending += 1;
        let day = time.as_nanos() >> BUCKET_BITS;
        let ahead = day.wrapping_sub(self.day);
        // Nearly always.
        if ahead.wrapping_sub(1) < BUCKETS as u64 - 1 {
            self.put_in_bucket(time, host, event);
        } else if ahead == 0 {
            self.put_in_today(time, host, event);
        } else {
            self.put_far(day, Far { time, host, serial: self.far_serial, event });
        }
    }

    #[inline(never)]
    fn put_in_today(&mut self, time: SimTime, host: HostId, event: E) {
        if self.serial == SERIALS {
            self.number_anew();
        }
        let entry = Entry::new(time, host, self.serial, event);
        self.serial += 1;
        let place = self.today.partition_point(|other| other.key > entry.key);
        self.today.insert(place, entry);
    }

    #[cold]
    fn put_far(&mut self, day: u64, far: Far<E>) {
        self.early += usize::from(day < self.day);
        self.far.push(Reverse(far));
        self.far_serial += 1;
    }

    /// Of one host and instant, those that the heap hands over come first: they were scheduled when the day was still far away.
    #[inline(always)]
    fn put_in_bucket(&mut self, time: SimTime, host: HostId, event: E) {
        let index = (time.as_nanos() >> BUCKET_BITS) as usize % BUCKETS;
        let bucket = &mut self.buckets[index];
        let serial = u64::from(bucket.len);
        assert!(serial < SERIALS, "a day of the calendar holds 2^25 events at most");
        if serial == 0 {
            self.occupied[index / 64] |= 1 << (index % 64);
        }
        self.pool.push(bucket, Entry::new(time, host, serial, event));
    }

    /// Gives today's events new numbers in their order, because the last was given out.
    #[cold]
    fn number_anew(&mut self) {
        self.serial = self.today.len() as u64;
        assert!(self.serial < SERIALS, "a day of the calendar holds 2^25 events at most");
        for (serial, entry) in self.today.iter_mut().rev().enumerate() {
            entry.key = entry.key & !(SERIALS - 1) | serial as u64;
        }
    }

    /// The time of the next event.
    pub fn next_time(&mut self) -> Option<SimTime> {
        if self.early > 0 {
            return self.far.peek().map(|Reverse(far)| far.time);
        }
        if self.today.is_empty() && !self.turn_to_next_day() {
            return None;
        }
        self.today.last().map(|entry| entry.time(self.day))
    }

    /// Whether the next event happens to `host` too, and in this instant.
    #[inline]
    pub fn more_now(&mut self, host: HostId) -> bool {
        if self.early > 0 {
            return self.far.peek().is_some_and(|Reverse(far)| (far.time, far.host) == (self.now, host));
        }
        self.today.last().is_some_and(|entry| entry.host() == host && entry.time(self.day) == self.now)
    }

    /// Takes the next event and moves the clock to it.
    pub fn pop(&mut self) -> Option<Popped<E>> {
        self.pop_until(SimTime::MAX)
    }

    /// The event that will be handled after `between` others, if it is due within the calendar's day and nothing new comes before it: a
    /// glimpse for fetching its data early.
    #[inline]
    pub fn ahead(&self, between: usize) -> Option<(HostId, E)> {
        let entry = self.today.get(self.today.len().wrapping_sub(1 + between))?;
        Some((entry.host(), entry.event))
    }

    /// Takes the next event if it is due at `until` or before.
    #[inline]
    pub fn pop_until(&mut self, until: SimTime) -> Option<Popped<E>> {
        let time = self.next_time()?;
        if time > until {
            return None;
        }
        self.now = time;
        self.handled += 1;
        self.pending -= 1;
        if self.early > 0 {
            self.early -= 1;
            return self.far.pop().map(|Reverse(far)| Popped { time, host: far.host, event: far.event });
        }
        self.today.pop().map(|entry| Popped { time, host: entry.host(), event: entry.event })
    }

    /// Moves the calendar to the next day that has an event; false if there is none.
    fn turn_to_next_day(&mut self) -> bool {
        let far_day = self.far.peek().map(|Reverse(far)| far.day());
        let day = match (self.next_occupied_day(), far_day) {
            (None, None) => return false,
            (Some(day), None) | (None, Some(day)) => day,
            (Some(near), Some(far)) => near.min(far),
        };
        self.day = day;
        // The calendar now reaches further: what was beyond it comes in.
        while let Some(&Reverse(far)) = self.far.peek()
            && far.day() - day < BUCKETS as u64
        {
            self.far.pop();
            self.put_in_bucket(far.time, far.host, far.event);
        }
        let bucket = day as usize % BUCKETS;
        self.occupied[bucket / 64] &= !(1 << (bucket % 64));
        self.pool.drain(&mut self.buckets[bucket], &mut self.today);
        self.serial = self.today.len() as u64;
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
    fn an_entry_is_sixteen_bytes_with_an_event_of_eight() {
        assert_eq!(size_of::<Entry<u64>>(), 16);
    }

    #[test]
    fn numbers_that_run_out_are_given_anew() {
        let mut queue = EventQueue::new(1);
        for number in 0..3 {
            queue.schedule(SimTime::ZERO, HostId(0), number);
        }
        queue.serial = SERIALS;
        queue.schedule(SimTime::ZERO, HostId(0), 3);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop().map(|popped| popped.event)).collect();
        assert_eq!(order, [0, 1, 2, 3]);
    }

    /// Two events of one host and instant, the first scheduled when that was beyond the calendar.
    #[test]
    fn what_was_scheduled_long_before_comes_first() {
        let (soon, later) = (SimTime::from_nanos(100_000_000), SimTime::from_nanos(200_000_000));
        let mut queue = EventQueue::new(2);
        queue.schedule(later, HostId(1), "b1");
        queue.schedule(later, HostId(1), "b2");
        queue.schedule(soon, HostId(0), "soon");
        assert_eq!(queue.pop().unwrap().event, "soon");
        queue.schedule(later, HostId(1), "b3");
        queue.schedule(later, HostId(0), "a1");
        let order: Vec<_> = std::iter::from_fn(|| queue.pop().map(|popped| popped.event)).collect();
        assert_eq!(order, ["a1", "b1", "b2", "b3"]);
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
                    if let Some(popped) = popped {
                        let more = list.first().is_some_and(|next| (next.0, next.1) == (popped.time.as_nanos(), popped.host.0));
                        prop_assert_eq!(queue.more_now(popped.host), more);
                    }
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
