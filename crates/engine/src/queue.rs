//! The event queue: a calendar of short days, and coarser means for what lies beyond it.
//!
//! Events are totally ordered by time, then by host, then by when they were scheduled, so two runs of one scenario handle them in
//! the same order on any machine, and an event that is added for one host never changes the order of two others'.
//!
//! Nearly all events of a network simulation lie a few round trips ahead. They go, unsorted, into one of 16,384 buckets of
//! 2^15 ns (33 us; 537 ms in all), and a bucket is sorted when its turn comes: both constant time an event at the
//! densities that occur (measured in `docs/performance.md`). What lies beyond waits in coarse spans (module `far`), which the calendar takes over whole:
//! it reaches to the end of a span, between 470 and 537 ms ahead. The idea is Brown's calendar queue (CACM 1988) without its resizing.
//!
//! What is written to the ends of thousands of buckets and read again much later has to be small. So an entry says only what its bucket does
//! not, the time within the day, and takes sixteen bytes with an event of eight.

use crate::HostId;
use crate::chunks::{ChunkPool, List, Stored};
use crate::far::{Far, FarEvents, SPAN_BITS};
use onionlab_quantities::SimTime;
use std::cmp::Reverse;

const BUCKET_BITS: u32 = 15;
const BUCKETS: usize = 16_384;
const WORDS: usize = BUCKETS / 64;
/// Days of a span, as a power of two.
const DAYS_BITS: u32 = SPAN_BITS - BUCKET_BITS;
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

impl<E: Copy> Stored for Entry<E> {
    #[inline(always)]
    fn store(self, place: &mut Self) {
        // Two words, each from where it is: the entry never lies in memory before, where it would have to be read back as one.
        place.key = self.key;
        place.event = self.event;
    }
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

/// Pending events in their total order, and the clock that they drive.
#[derive(Debug)]
pub struct EventQueue<E> {
    now: SimTime,
    handled: u64,
    /// Events scheduled so far. (Counting those that wait would cost more: two counters that lie beside each other and are written together
    /// in one place and one alone in another make the processor wait for the latter.)
    scheduled: u64,
    hosts: usize,
    /// The bucket whose turn it is, sorted descending: the next event is the last.
    today: Vec<Entry<E>>,
    /// Its number: time >> BUCKET_BITS.
    day: u64,
    /// Events scheduled for that day so far.
    serial: u64,
    buckets: Box<[List; BUCKETS]>,
    pool: ChunkPool<Entry<E>>,
    /// One bit a bucket: not empty.
    occupied: [u64; WORDS],
    /// How many days after today the calendar reaches: to the end of a span.
    days: u64,
    far: FarEvents<E>,
    /// A buffer for what the calendar takes over.
    moved: Vec<Far<E>>,
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
            scheduled: 0,
            hosts,
            today: Vec::new(),
            day: 0,
            serial: 0,
            buckets: vec![List::EMPTY; BUCKETS].try_into().expect("as many as there are"),
            pool: ChunkPool::EMPTY,
            occupied: [0; WORDS],
            days: BUCKETS as u64 - 1,
            far: FarEvents::new(BUCKETS as u64 >> DAYS_BITS),
            moved: Vec::new(),
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
        (self.scheduled - self.handled) as usize
    }

    /// Makes `event` happen to `host` at `time`.
    ///
    /// # Panics
    /// If `time` lies before [`Self::now`]: the clock never runs back. If there is no such host.
    #[inline]
    pub fn schedule(&mut self, time: SimTime, host: HostId, event: E) {
        assert!(time >= self.now, "an event was scheduled {} ns in the past", self.now.as_nanos() - time.as_nanos());
        assert!(host.index() < self.hosts, "an event was scheduled for a host that is not there");
        self.scheduled += 1;
        let day = time.as_nanos() >> BUCKET_BITS;
        // Nearly always.
        if day.wrapping_sub(self.day).wrapping_sub(1) < self.days {
            self.put_in_bucket(time, host, event);
        } else if day == self.day {
            self.put_in_today(time, host, event);
        } else {
            self.early += usize::from(day < self.day);
            self.far.put(Far { time, host, event });
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

    /// Of one host and instant, those that come from beyond the calendar come first: they were scheduled when the day was still far away.
    #[inline(always)]
    fn put_in_bucket(&mut self, time: SimTime, host: HostId, event: E) {
        let index = (time.as_nanos() >> BUCKET_BITS) as usize % BUCKETS;
        let bucket = &mut self.buckets[index];
        let serial = u64::from(bucket.len());
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
            return self.far.heap_first().map(|(time, _)| time);
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
            return self.far.heap_first() == Some((self.now, host));
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

    /// The number of the day whose events are being handled: when it changes, [`Self::tomorrow`] is another day.
    #[inline]
    pub const fn day(&self) -> u64 {
        self.day
    }

    /// What the next day has so far, in no order: a glimpse for fetching its data early. What the day after has is asked for, so that the
    /// next such glimpse need not wait.
    pub fn tomorrow(&self) -> impl Iterator<Item = (HostId, E)> {
        self.pool.prefetch(self.buckets[(self.day as usize + 2) % BUCKETS]);
        let tomorrow = self.buckets[(self.day as usize + 1) % BUCKETS];
        self.pool.values(tomorrow).map(|entry| (entry.host(), entry.event))
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
        if self.early > 0 {
            self.early -= 1;
            return self.far.pop_heap().map(|far| Popped { time, host: far.host, event: far.event });
        }
        self.today.pop().map(|entry| Popped { time, host: entry.host(), event: entry.event })
    }

    /// Moves the calendar to the next day that has an event; false if there is none.
    fn turn_to_next_day(&mut self) -> bool {
        if self.next_occupied_day().is_none() {
            let Some(span) = self.far.first_span() else { return false };
            // The calendar is empty, and so can begin anywhere.
            self.day = (span << DAYS_BITS) - 1;
            self.reach(span + 1);
        }
        let Some(day) = self.next_occupied_day() else { return false };
        self.day = day;
        self.reach((day + BUCKETS as u64) >> DAYS_BITS);
        self.days = (self.far.begin() << DAYS_BITS) - day - 1;
        let bucket = day as usize % BUCKETS;
        self.occupied[bucket / 64] &= !(1 << (bucket % 64));
        self.pool.drain(&mut self.buckets[bucket], &mut self.today);
        self.serial = self.today.len() as u64;
        self.today.sort_unstable_by_key(|entry| Reverse(entry.key));
        true
    }

    /// The calendar reaches to the beginning of the span `end` now: what was beyond it comes in.
    #[inline]
    fn reach(&mut self, end: u64) {
        if end <= self.far.begin() {
            return;
        }
        let mut moved = std::mem::take(&mut self.moved);
        self.far.reach(end, &mut moved);
        for far in moved.drain(..) {
            self.put_in_bucket(far.time, far.host, far.event);
        }
        self.moved = moved;
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
    fn tomorrow_has_what_the_next_day_has() {
        const DAY: u64 = 1 << BUCKET_BITS;
        let mut queue = EventQueue::new(1);
        queue.schedule(SimTime::from_nanos(3), HostId(0), 0_u32);
        for event in 1..=40 {
            queue.schedule(SimTime::from_nanos(DAY + u64::from(event)), HostId(0), event);
            queue.schedule(SimTime::from_nanos(2 * DAY + u64::from(event)), HostId(0), 100 + event);
        }
        for (first, expected) in [(0, 1..41), (1, 101..141), (101, 0..0)] {
            while queue.pop().expect("there are more").event != first {}
            let mut seen: Vec<_> = queue.tomorrow().map(|(_, event)| event).collect();
            seen.sort_unstable();
            assert_eq!(seen, expected.collect::<Vec<_>>(), "on the day that begins with {first}");
        }
    }

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

    /// Nanoseconds from now, and whether to go on to the next whole tenth of a second.
    fn delay() -> impl Strategy<Value = (u64, bool)> {
        let delay = prop_oneof![
            Just(0_u64),
            1..70_000_u64,
            1..400_000_000_u64,
            1..9_000_000_000_u64,
            60_000_000_000..300_000_000_000_u64,
        ];
        (delay, any::<bool>())
    }

    proptest! {
        /// Against the obvious implementation: a sorted list. Delays reach from the same instant to far beyond the calendar and its spans; whole tenths of seconds make instants meet
        /// that were scheduled long before and shortly before. Now and then the queue is asked for what is due soon, which may turn the calendar past what comes later.
        #[test]
        fn agrees_with_a_sorted_list(steps in prop::collection::vec((0_u32..4, delay(), 0_usize..3, prop::option::of(0..2_000_000_000_u64)), 1..400)) {
            let mut queue = EventQueue::new(4);
            let mut list: Vec<(u64, u32, u64, usize)> = Vec::new();
            let mut counters = [0_u64; 4];
            for (id, (host, (delay, whole), pops, glance)) in steps.into_iter().enumerate() {
                let mut time = queue.now().as_nanos() + delay;
                if whole {
                    time = time.next_multiple_of(100_000_000);
                }
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
                if let Some(glance) = glance {
                    let until = queue.now().as_nanos() + glance;
                    let due = list.first().filter(|next| next.0 <= until).map(|next| next.3);
                    prop_assert_eq!(queue.pop_until(SimTime::from_nanos(until)).map(|popped| popped.event), due);
                    if due.is_some() {
                        list.remove(0);
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
