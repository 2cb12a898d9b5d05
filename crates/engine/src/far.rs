//! Events beyond the calendar: a wheel of coarse spans, and a heap for what lies beyond that.
//!
//! TCP's time-outs of a second and more, a client's look at its circuits each second, pauses of a page's reader: most of what lies beyond the calendar lies within a minute. A heap
//! pays for each such event with a walk through memory that grows with their number; a span takes it at its end and gives all that it has to the calendar when that comes near
//! (hierarchical timing wheels: Varghese and Lauck, SOSP 1987). Order within a span is the order of scheduling, which is all that the calendar needs.

use crate::HostId;
use crate::chunks::{ChunkPool, List, Stored};
use onionlab_quantities::SimTime;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A span is 2^26 ns, 67 ms.
pub(crate) const SPAN_BITS: u32 = 26;
/// 68.7 s in all.
const SPANS: u64 = 1024;

/// An event of any time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Far<E> {
    pub time: SimTime,
    pub host: HostId,
    pub event: E,
}

impl<E: Copy> Stored for Far<E> {
    #[inline(always)]
    fn store(self, place: &mut Self) {
        *place = self;
    }
}

impl<E> Far<E> {
    const fn span(&self) -> u64 {
        self.time.as_nanos() >> SPAN_BITS
    }
}

/// One in the heap, with how many were put there before it.
#[derive(Debug, Clone, Copy)]
struct InHeap<E> {
    far: Far<E>,
    serial: u64,
}

impl<E> InHeap<E> {
    fn key(&self) -> (SimTime, HostId, u64) {
        (self.far.time, self.far.host, self.serial)
    }
}
impl<E> PartialEq for InHeap<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl<E> Eq for InHeap<E> {}
impl<E> PartialOrd for InHeap<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for InHeap<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// Events of spans that the calendar does not reach yet, and those that came too early for it.
#[derive(Debug)]
pub(crate) struct FarEvents<E> {
    /// The first span that the calendar does not reach.
    begin: u64,
    spans: Box<[List; SPANS as usize]>,
    pool: ChunkPool<Far<E>>,
    /// One bit a span: not empty.
    occupied: [u64; SPANS as usize / 64],
    heap: BinaryHeap<Reverse<InHeap<E>>>,
    serial: u64,
}

impl<E: Copy> FarEvents<E> {
    /// None, before a calendar that reaches as far as the span `begin`.
    pub fn new(begin: u64) -> Self {
        Self {
            begin,
            spans: Box::new([List::EMPTY; SPANS as usize]),
            pool: ChunkPool::EMPTY,
            occupied: [0; SPANS as usize / 64],
            heap: BinaryHeap::new(),
            serial: 0,
        }
    }

    /// The first span that the calendar does not reach.
    #[inline(always)]
    pub const fn begin(&self) -> u64 {
        self.begin
    }

    /// Takes an event of a span that the calendar does not reach, or one that is earlier than all that it has.
    pub fn put(&mut self, far: Far<E>) {
        // Earlier ones wrap to far beyond.
        let ahead = far.span().wrapping_sub(self.begin);
        if ahead < SPANS {
            let index = (far.span() % SPANS) as usize;
            self.occupied[index / 64] |= 1 << (index % 64);
            self.pool.push(&mut self.spans[index], far);
        } else {
            self.heap.push(Reverse(InHeap { far, serial: self.serial }));
            self.serial += 1;
        }
    }

    /// The time of the first event in the heap, which those that are too early for the calendar lead.
    #[inline]
    pub fn heap_first(&self) -> Option<(SimTime, HostId)> {
        self.heap.peek().map(|Reverse(first)| (first.far.time, first.far.host))
    }

    /// Takes that event.
    pub fn pop_heap(&mut self) -> Option<Far<E>> {
        self.heap.pop().map(|Reverse(first)| first.far)
    }

    /// The first span that has an event. Nothing may be too early for the calendar.
    pub fn first_span(&self) -> Option<u64> {
        (self.begin..self.begin + SPANS)
            .find(|span| {
                let index = (span % SPANS) as usize;
                self.occupied[index / 64] >> (index % 64) & 1 == 1
            })
            .or_else(|| self.heap.peek().map(|Reverse(first)| first.far.span()))
    }

    /// The calendar reaches as far as the span `end` now: all events before it, those of a span in the order of their scheduling. Nothing may be too early for the
    /// calendar.
    pub fn reach(&mut self, end: u64, moved: &mut Vec<Far<E>>) {
        for span in self.begin..end.min(self.begin + SPANS) {
            let index = (span % SPANS) as usize;
            if self.occupied[index / 64] >> (index % 64) & 1 == 1 {
                self.occupied[index / 64] &= !(1 << (index % 64));
                self.pool.drain_in_order(&mut self.spans[index], moved);
            }
        }
        self.begin = end;
        // What the wheel has come round to leaves the heap before anything later can be put beside it.
        while let Some((time, _)) = self.heap_first()
            && time.as_nanos() >> SPAN_BITS < end + SPANS
            && let Some(far) = self.pop_heap()
        {
            if far.span() < end { moved.push(far) } else { self.put(far) }
        }
    }
}
