//! The queues at a host's access link: before its uplink and before its downlink.

use onionlab_quantities::{Bytes, SimDuration, SimTime};

/// Which packets a full or slow queue drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueDiscipline {
    /// What does not fit is dropped on arrival.
    DropTail,
    /// Controlled delay (RFC 8289): drops at the head while packets wait longer than `target` for an `interval` or more.
    CoDel {
        /// Acceptable standing delay; RFC 8289: 5 ms, Shadow: 10 ms.
        target: SimDuration,
        /// How long it must stand before the first drop; RFC 8289 and Shadow: 100 ms.
        interval: SimDuration,
    },
}

/// A downlink's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueConfig {
    /// Which packets are dropped.
    pub discipline: QueueDiscipline,
    /// Never more waits than this; at least one full packet fits.
    pub limit: Bytes,
    /// Never more packets wait than this; `None`: only their bytes count.
    pub limit_packets: Option<u32>,
}

/// What waits for a host's uplink, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UplinkQueue {
    /// The sockets themselves: a free wire asks them in turn for one segment each, so that nothing is lost and each has its share, as with
    /// Linux's small queues and fair queueing.
    Sockets,
    /// The sockets too, asked first for what has no payload and then in the order in which their data was written; a SYN and its answer wait their turn
    /// like data. So in Shadow, whose interface takes the packet that was made first (`NetworkInterface::pop`, `interface_qdisc: fifo`), where only
    /// packets without a sequence number come before all others (`_tcp_createPacketWithoutPayload`).
    WriteOrder,
    /// The same as in Shadow 1.13, where a SYN has no sequence number either, and a socket that comes to owe an acknowledgement while it waits stays in its place of a
    /// heap (`network::write_queue`).
    WriteHeap,
    /// One queue of packets, first in, first out, into which sockets push whatever their windows allow; what finds it full is dropped. So in
    /// ns-3: a device's drop-tail queue and `pfifo_fast` above it.
    DropTail {
        /// Packets that wait at most, besides the one on the wire.
        packets: u32,
    },
    /// The same queue, of which each TCP socket has no more than Linux lets it (TCP small queues, `Tcb::small_queue`): it pushes the next segment when one of its own has left. So
    /// on a Linux host whose interface has a plain `pfifo`, below a rate limit say; segments are not put together (GSO off).
    SmallQueues {
        /// Packets that wait at most, besides the one on the wire.
        packets: u32,
    },
}

impl UplinkQueue {
    /// Whether writes are numbered, and leave in that order.
    pub(crate) fn follows_writes(self) -> bool {
        matches!(self, Self::WriteOrder | Self::WriteHeap)
    }

    /// How many packets wait at most, where packets do.
    pub(crate) fn packets(self) -> Option<u32> {
        match self {
            Self::DropTail { packets } | Self::SmallQueues { packets } => Some(packets),
            Self::Sockets | Self::WriteOrder | Self::WriteHeap => None,
        }
    }
}

/// The control law of CoDel (RFC 8289, section 5; the names are its pseudo-code's).
///
/// Like the RFC, the queue is left alone while one full packet or less waits.
#[derive(Debug, Clone, Copy, Default)]
pub struct CoDel {
    first_above_time: SimTime,
    drop_next: SimTime,
    count: u32,
    last_count: u32,
    dropping: bool,
    /// The packet before was dropped while dropping went on: if this one waited too long as well, the next drop is due later.
    dropped: bool,
}

const MTU: u64 = 1500;

impl CoDel {
    /// Whether the packet at the head, that waited `sojourn` and leaves `backlog` bytes behind it, is to be dropped now.
    ///
    /// The caller asks for each packet that it takes from the head, and after a drop takes the next and asks again.
    pub fn drops(
        &mut self,
        now: SimTime,
        sojourn: SimDuration,
        backlog: u64,
        target: SimDuration,
        interval: SimDuration,
    ) -> bool {
        let above = self.stays_above(now, sojourn, backlog, target, interval);
        let dropped = std::mem::take(&mut self.dropped);
        if self.dropping {
            if !above {
                self.dropping = false;
                return false;
            }
            if dropped {
                self.drop_next += control_law(interval, self.count);
            }
            if now >= self.drop_next {
                self.count += 1;
                self.dropped = true;
                return true;
            }
            return false;
        }
        if !above {
            return false;
        }
        self.dropping = true;
        // A queue that was just controlled starts again near the drop rate that controlled it.
        let recent = now.saturating_since(self.drop_next) < interval * 16;
        let delta = self.count - self.last_count.min(self.count);
        self.count = if recent && delta > 1 { delta } else { 1 };
        self.drop_next = now + control_law(interval, self.count);
        self.last_count = self.count;
        true
    }

    fn stays_above(
        &mut self,
        now: SimTime,
        sojourn: SimDuration,
        backlog: u64,
        target: SimDuration,
        interval: SimDuration,
    ) -> bool {
        if sojourn < target || backlog <= MTU {
            self.first_above_time = SimTime::ZERO;
            return false;
        }
        if self.first_above_time == SimTime::ZERO {
            self.first_above_time = now + interval;
            return false;
        }
        now >= self.first_above_time
    }
}

fn control_law(interval: SimDuration, count: u32) -> SimDuration {
    interval.mul_f64_rounded(1.0 / f64::from(count).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue that stands at 50 ms: the first drop comes one interval after it began to stand, the n-th at interval/sqrt(n) after the one before.
    #[test]
    fn drops_follow_the_square_root_law() {
        let (target, interval) = (SimDuration::from_millis(10), SimDuration::from_millis(100));
        let mut codel = CoDel::default();
        let mut drops = Vec::new();
        for ms in 1..1000 {
            let now = SimTime::from_nanos(ms * 1_000_000);
            if codel.drops(now, SimDuration::from_millis(50), 100_000, target, interval) {
                drops.push(ms);
            }
        }
        assert_eq!(drops[..5], [101, 201, 272, 330, 380]);
    }

    #[test]
    fn a_short_queue_is_left_alone() {
        let mut codel = CoDel::default();
        for ms in 1..1000 {
            let now = SimTime::from_nanos(ms * 1_000_000);
            assert!(!codel.drops(
                now,
                SimDuration::from_millis(9),
                100_000,
                SimDuration::from_millis(10),
                SimDuration::from_millis(100)
            ));
            assert!(!codel.drops(
                now,
                SimDuration::from_millis(50),
                1500,
                SimDuration::from_millis(10),
                SimDuration::from_millis(100)
            ));
        }
    }
}
