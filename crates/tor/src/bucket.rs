//! Token buckets as tor refills them (`core/mainloop/connection.c`, `lib/evloop/token_bucket.c`).
//!
//! Since 0.3.4 there is no refill timer: each operation, whether it reads or writes, first adds what is due in both directions
//! (`connection_bucket_refill_single`). Time counts in steps of 16 ticks of 2^20 ns (16.8 ms), and the remainder of a step is discarded at each
//! refill. The time is the kernel's coarse clock's, so that with ticks of 4 ms a limit that is always reached delivers only 83 to 90 % of its rate (measured with
//! the real code: `docs/fidelity.md`), while in Shadow, whose clocks are exact, a relay delivers the more
//! of it the denser its callbacks of either kind come: 84 % with one each 10 ms, all of it with a thousand a second. A connection whose operation leaves the bucket empty is no longer watched, and is watched again with all others 100 ms after the first. That does not keep
//! the scheduler from writing it: what KIST writes draws on whatever there is (`channel_write_to_kernel`), and a cell that joins an outbuf has its connection watched at once
//! (`connection_write_to_buf_commit`).
//!
//! Before, a timer added a tenth of the rate each 100 ms, exactly, and woke up the connections that had found the bucket empty.

use crate::coarse_clock::CoarseClock;
use crate::connections::Connections;
use crate::event_loop::{Connection, Operation};
use crate::ids::StreamId;
use crate::node::RateLimit;
use onionlab_quantities::{Bandwidth, Bytes, SimDuration, SimTime};

/// How token buckets are filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenRefill {
    /// Before each operation, in steps of 16.8 ms whose remainder is lost (tor since 0.3.4).
    Lazy,
    /// By a timer each 100 ms (tor up to 0.3.3: `refill_callback`).
    Timer,
}

/// Ticks of the clock that refills in one step of a bucket.
const TICKS_PER_STEP: u64 = 16;
/// A tick has two to the power of this nanoseconds.
const TICK_BITS: u32 = 20;
/// Ticks in a second, as tor rounds it.
const TICKS_PER_SECOND: u64 = 953;
/// How long after the first connection found the bucket empty all of them try again, or the timer's period (`TokenBucketRefillInterval`).
pub(crate) const INTERVAL: SimDuration = SimDuration::from_millis(100);

/// What time a refill goes by.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RefillClock {
    /// The time of an operation.
    Exact,
    /// The time of an operation as the kernel's coarse clock shows it.
    Coarse(CoarseClock),
    /// A timer that ticks first then.
    Timer(SimTime),
}

impl RefillClock {
    /// That of tor since 0.3.4, by a clock that ticks or does not.
    pub fn lazy(clock: Option<CoarseClock>) -> Self {
        clock.map_or(Self::Exact, Self::Coarse)
    }

    /// When connections that find a bucket empty at `now` try again.
    pub fn wake_up(self, now: SimTime) -> SimTime {
        match self {
            Self::Exact => now + INTERVAL,
            Self::Coarse(clock) => clock.goes_off(now, INTERVAL),
            Self::Timer(first) => first + INTERVAL * ticks(first, now),
        }
    }
}

/// Nanoseconds in ticks of 2^20, of which a second has 953 (`monotime_coarse_to_stamp`).
fn stamp(nanos: u64) -> u64 {
    nanos / 1_000_000_000 * TICKS_PER_SECOND + ((nanos % 1_000_000_000) >> TICK_BITS)
}

/// A limit for reading and writing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenBucket {
    /// Bytes a step, or a tick of the timer.
    per_refill: u64,
    burst: i64,
    /// For reading and writing.
    level: [i64; 2],
    /// Lazy: the clock's ticks when it was filled last. Timer: how many ticks have filled it.
    filled: u64,
    clock: RefillClock,
}

impl TokenBucket {
    /// Full.
    pub fn new(rate: Bandwidth, burst: Bytes, clock: RefillClock) -> Self {
        let burst = i64::try_from(burst.get()).unwrap_or(i64::MAX);
        let rate = rate.as_bytes_per_sec();
        let per_refill = match clock {
            RefillClock::Exact | RefillClock::Coarse(_) => (rate * TICKS_PER_STEP / TICKS_PER_SECOND).max(1),
            RefillClock::Timer(_) => rate / 10,
        };
        Self { per_refill, burst, level: [burst; 2], filled: 0, clock }
    }

    /// Another rate and burst from now on; what is above the new burst is lost (`token_bucket_rw_adjust`).
    pub fn adjust(&mut self, rate: Bandwidth, burst: Bytes) {
        let new = Self::new(rate, burst, self.clock);
        (self.per_refill, self.burst) = (new.per_refill, new.burst);
        self.level = self.level.map(|level| level.min(new.burst));
    }

    /// Adds what is due.
    fn refill(&mut self, now: SimTime) {
        let refills = match self.clock {
            RefillClock::Timer(first) => {
                let ticks = ticks(first, now);
                ticks - std::mem::replace(&mut self.filled, ticks)
            }
            RefillClock::Exact => self.steps(now.as_nanos()),
            RefillClock::Coarse(clock) => self.steps(clock.shows(now)),
        };
        if refills > 0 {
            let tokens = i64::try_from(refills.saturating_mul(self.per_refill)).unwrap_or(i64::MAX);
            self.level = self.level.map(|level| level.saturating_add(tokens).min(self.burst));
        }
    }

    /// Whole steps since the last refill, which ends now if there are any.
    fn steps(&mut self, nanos: u64) -> u64 {
        let stamp = stamp(nanos);
        let steps = stamp.saturating_sub(self.filled) / TICKS_PER_STEP;
        if steps > 0 {
            self.filled = stamp;
        }
        steps
    }

    /// What may pass now; not positive if nothing may.
    pub fn available(&mut self, operation: Operation, now: SimTime) -> i64 {
        self.refill(now);
        self.level[operation as usize]
    }

    /// Whether nothing may pass until the next refill.
    pub fn is_used_up(&self, operation: Operation) -> bool {
        self.level[operation as usize] <= 0
    }

    /// `bytes` passed; the level may become negative.
    pub fn charge(&mut self, operation: Operation, bytes: u64) {
        self.level[operation as usize] -= bytes as i64;
    }
}

/// Ticks of the timer up to `now`.
fn ticks(first: SimTime, now: SimTime) -> u64 {
    if now < first { 0 } else { now.saturating_since(first).as_nanos() / INTERVAL.as_nanos() + 1 }
}

/// When connections that have found a bucket empty are watched again: at an event of this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WakeUp {
    pub at: SimTime,
    /// Their time has come, but the program sleeps until then.
    pub overdue: bool,
}

/// The buckets of one relay, and who waits for them.
///
/// Each direction has two: `global_bucket` for all connections, and `global_relayed_bucket` for those that carry others' traffic besides, which is
/// all channels of a relay; its connections to servers count for the first alone (`connection_counts_as_relayed_traffic`).
#[derive(Debug)]
pub(crate) struct Buckets {
    all: TokenBucket,
    relayed: TokenBucket,
    /// Connections wait for tokens until then.
    pub wake_up: Option<WakeUp>,
    /// Who draws on them.
    pub connections: Connections,
    /// An exit's connections that are open only until they are flushed (`held_open.rs`).
    pub held_open: Vec<StreamId>,
}

impl Buckets {
    /// Full buckets.
    pub fn new(limit: RateLimit, clock: RefillClock) -> Self {
        let (relayed_rate, relayed_burst) = limit.relayed.unwrap_or((limit.rate, limit.burst));
        Self {
            all: TokenBucket::new(limit.rate, limit.burst, clock),
            relayed: TokenBucket::new(relayed_rate, relayed_burst, clock),
            wake_up: None,
            connections: Connections::default(),
            held_open: Vec::new(),
        }
    }

    /// What may pass now over a connection of this kind.
    pub fn available(&mut self, connection: Connection, operation: Operation, now: SimTime) -> i64 {
        // Whatever the program is called for, it looks here.
        self.connections.called(now);
        let all = self.all.available(operation, now);
        let relayed = self.relayed.available(operation, now);
        match connection {
            Connection::Channel => all.min(relayed),
            Connection::Edge => all,
        }
    }

    /// Whether nothing may pass over a connection of this kind until the next refill (`connection_consider_empty_read_buckets` and its twin).
    pub fn are_empty(&self, connection: Connection, operation: Operation) -> bool {
        let all = self.all.level[operation as usize];
        let relayed = self.relayed.level[operation as usize];
        all <= 0 || connection == Connection::Channel && relayed <= 0
    }

    /// `bytes` passed over a connection of this kind.
    pub fn charge(&mut self, connection: Connection, operation: Operation, bytes: u64) {
        self.all.charge(operation, bytes);
        if connection == Connection::Channel {
            self.relayed.charge(operation, bytes);
        }
    }

    /// When connections that find a bucket empty at `now` try again.
    pub fn next_try(&self, now: SimTime) -> SimTime {
        self.all.clock.wake_up(now)
    }

    /// When a program whose timer is due at `now` wakes up by it: `epoll_wait` waits whole milliseconds, from when the program was called last (libevent: `epoll_dispatch`).
    pub fn wakes_up(&self, now: SimTime) -> SimTime {
        let called = self.connections.last_called().min(now);
        let missing = now.as_nanos() - called.as_nanos();
        called + SimDuration::from_millis(missing.div_ceil(1_000_000))
    }
}

/// The most bytes that one operation moves of a connection whose unit of data is `unit` bytes, when its buckets hold `available`: an eighth in whole
/// units, at least 4 of them and at most 32, but no more than is there (`connection_bucket_get_share`; connections that serve the directory
/// get half as much and do not exist here).
pub(crate) fn share(unit: u64, available: i64) -> u64 {
    let available = available.max(0) as u64;
    let eighth = available / 8;
    (eighth - eighth % unit).clamp(4 * unit, 32 * unit).min(available)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// That of Linux with 250 Hz.
    const KERNEL: CoarseClock = CoarseClock { tick: SimDuration::from_millis(4), phase: SimDuration::ZERO };

    /// The share of the configured rate that a bucket delivers which is drained whenever it holds anything, against what tor's own
    /// code was measured to deliver at these polling intervals. 100 ms are 95 ticks, five steps, or 96, six.
    #[test]
    fn delivers_the_share_that_was_measured_with_tor() {
        for (poll_ms, measured) in [(1, 0.85), (5, 0.83), (20, 0.83), (100, 0.90)] {
            let share = delivered(poll_ms, RefillClock::Coarse(KERNEL));
            assert!((share - measured).abs() < 0.02, "every {poll_ms} ms: {share}");
        }
    }

    /// An exact clock that is looked at each millisecond loses nearly nothing, because ticks are whole: the sixteenth has always just begun.
    #[test]
    fn with_an_exact_clock_nearly_nothing_is_lost() {
        for (poll_ms, expected) in [(1, 1.0), (20, 16.0 * 1000.0 / 953.0 / 20.0), (100, 0.89)] {
            let share = delivered(poll_ms, RefillClock::Exact);
            assert!((share - expected).abs() < 0.005, "every {poll_ms} ms: {share}");
        }
    }

    /// `token_bucket_rw_refill` adds what is due for reading when something is written, and for writing when something is read. At 18 ms there are 17 ticks: one step, and a
    /// tick that is lost for both directions; 16 more have passed at 35 ms, not at 34.
    #[test]
    fn an_operation_refills_both_directions() {
        let ms = |millis: u64| SimTime::from_nanos(millis * 1_000_000);
        let mut bucket = TokenBucket::new(Bandwidth::from_bytes_per_sec(1_000_000), Bytes::new(1_000_000), RefillClock::Exact);
        bucket.charge(Operation::Read, 1_000_000);
        bucket.charge(Operation::Write, 1_000_000);
        let cases = [
            (18, Operation::Write, 1),
            (18, Operation::Read, 1),
            (34, Operation::Read, 1),
            (35, Operation::Read, 2),
            (35, Operation::Write, 2),
        ];
        for (at, operation, steps) in cases {
            assert_eq!(bucket.available(operation, ms(at)), steps * 16_789, "at {at} ms");
        }
    }

    #[test]
    fn a_timer_delivers_the_whole_rate() {
        for poll_ms in [1, 5, 20, 100] {
            let share = delivered(poll_ms, RefillClock::Timer(SimTime::from_nanos(37_000_000)));
            assert!((share - 1.0).abs() < 0.002, "every {poll_ms} ms: {share}");
        }
    }

    /// The share of 1 MB/s that passes in a minute.
    fn delivered(poll_ms: u64, clock: RefillClock) -> f64 {
        let mut bucket = TokenBucket::new(Bandwidth::from_bytes_per_sec(1_000_000), Bytes::new(1_000_000), clock);
        bucket.charge(Operation::Write, 1_000_000);
        let mut passed = 0;
        for step in 1..=60_000 / poll_ms {
            let available = bucket.available(Operation::Write, SimTime::from_nanos(step * poll_ms * 1_000_000)).max(0) as u64;
            bucket.charge(Operation::Write, available);
            passed += available;
        }
        passed as f64 / 60e6
    }

    /// At 1.5 Mbit/s a tick of the timer brings 18,750 bytes, 36 cells. The first share of a full tick is 4 cells, as is each after it.
    #[test]
    fn a_tick_of_the_timer_is_a_tenth_of_the_rate() {
        let ms = |millis: u64| SimTime::from_nanos(millis * 1_000_000);
        let limit = RateLimit { rate: Bandwidth::from_bits_per_sec(1_500_000), burst: Bytes::new(20_000), relayed: None };
        let mut buckets = Buckets::new(limit, RefillClock::Timer(ms(30)));
        let mut read = |at| buckets.available(Connection::Channel, Operation::Read, ms(at));
        assert_eq!(read(0), 20_000);
        buckets.charge(Connection::Channel, Operation::Read, 30_000);
        let mut levels = [29, 30, 129, 130].map(|at| buckets.available(Connection::Channel, Operation::Read, ms(at)));
        assert_eq!(levels, [-10_000, 8750, 8750, 20_000], "not above the burst");
        levels = [0, 30, 31, 130].map(|at| buckets.next_try(ms(at)).as_nanos() as i64 / 1_000_000);
        assert_eq!(levels, [30, 130, 130, 230]);
        assert_eq!(share(514, 18_750), 4 * 514);
    }

    #[test]
    fn servers_connections_draw_on_one_bucket_and_channels_on_two() {
        let rate = Bandwidth::from_bytes_per_sec(1_000_000);
        let relayed = Some((Bandwidth::from_bytes_per_sec(1000), Bytes::new(1000)));
        let limit = RateLimit { rate, burst: Bytes::new(50_000), relayed };
        let mut buckets = Buckets::new(limit, RefillClock::Exact);
        buckets.charge(Connection::Edge, Operation::Read, 20_000);
        let mut left = |connection, operation| buckets.available(connection, operation, SimTime::ZERO);
        assert_eq!(left(Connection::Channel, Operation::Read), 1000);
        assert_eq!(left(Connection::Edge, Operation::Read), 30_000);
        assert_eq!(left(Connection::Edge, Operation::Write), 50_000);
        buckets.charge(Connection::Channel, Operation::Read, 1500);
        let mut left = |connection, operation| buckets.available(connection, operation, SimTime::ZERO);
        assert_eq!(left(Connection::Channel, Operation::Read), -500);
        assert_eq!(left(Connection::Edge, Operation::Read), 28_500);
    }

    /// Worked out from the rule: an eighth in whole cells of 514 bytes between 4 and 32, and never more than there is.
    #[test]
    fn an_operation_moves_an_eighth_of_the_bucket() {
        let cases = [
            (i64::MAX, 32 * 514),
            (1 << 30, 32 * 514),
            (8 * 32 * 514 + 100, 32 * 514),
            (8 * 32 * 514 - 1, 31 * 514),
            (8 * 5 * 514, 5 * 514),
            (8 * 5 * 514 - 8, 4 * 514),
            (16_448, 4 * 514),
            (2056, 2056),
            (100, 100),
            (0, 0),
            (-5000, 0),
        ];
        for (available, expected) in cases {
            assert_eq!(share(514, available), expected, "of {available}");
        }
        assert_eq!((share(498, i64::MAX), share(498, 10_000)), (15_936, 4 * 498));
    }
}
