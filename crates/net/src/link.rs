//! The rate of an access link, in one direction.

use onionlab_quantities::{Bandwidth, Bytes, SimDuration, SimTime};

/// How a rate limits packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shaping {
    /// A wire: each packet takes its length divided by the rate.
    Serialise,
    /// Tokens that come in batches, as Shadow's links have them: a batch each `interval`, and one full packet more than a batch
    /// in the bucket. A packet that finds its tokens passes in no time.
    TokenBatches {
        /// Between two batches; Shadow: 1 ms.
        interval: SimDuration,
    },
    /// A packet that finds the link free passes in no time, and keeps it busy for its length divided by the rate. What waited until then passes
    /// together, as much as takes `span`, and keeps it busy for as long as all of it takes: the links of Shadow 1.
    Bursts {
        /// How long those that pass together keep the link busy at most, but for the last of them; Shadow 1.13: 5 ms (`--interface-batch`).
        span: SimDuration,
    },
}

/// The largest packet: what a token bucket holds beyond one batch (Shadow: `CONFIG_MTU`).
const MTU: u64 = 1500;

#[derive(Debug, Clone)]
pub(crate) struct Shaper {
    rate: Bandwidth,
    /// Nanoseconds a byte in 44.20 fixed point, so that a transmission time is a multiplication.
    nanos_per_byte: u64,
    tokens: Option<Tokens>,
    /// With bursts: how long one keeps the link busy; else zero.
    span: SimDuration,
}

/// When a packet is through, and when the link is free for the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Passage {
    pub through: SimTime,
    pub free: SimTime,
}

#[derive(Debug, Clone)]
struct Tokens {
    interval: SimDuration,
    batch: u64,
    level: u64,
    filled: SimTime,
}

impl Shaper {
    pub fn new(rate: Bandwidth, shaping: Shaping) -> Self {
        let bits = u128::from(rate.as_bits_per_sec().max(1));
        let nanos_per_byte = u64::try_from(((8_000_000_000_u128 << 20) + bits / 2) / bits).unwrap_or(u64::MAX);
        let tokens = match shaping {
            Shaping::Serialise | Shaping::Bursts { .. } => None,
            Shaping::TokenBatches { interval } => {
                let batch = rate.bytes_in(interval).get().max(1);
                Some(Tokens { interval, batch, level: batch + MTU, filled: SimTime::ZERO })
            }
        };
        let span = if let Shaping::Bursts { span } = shaping { span } else { SimDuration::ZERO };
        Self { rate, nanos_per_byte, tokens, span }
    }

    /// How far ahead what waited may keep the link busy, once it is free.
    pub const fn span(&self) -> SimDuration {
        self.span
    }

    /// Passes a packet of `bytes` at `now`, where the link is free, or, as one of a burst, will be at `free`.
    #[inline]
    pub fn pass(&mut self, now: SimTime, free: SimTime, bytes: u32) -> Passage {
        let through = self.finish(now, bytes);
        if self.span > SimDuration::ZERO {
            return Passage { through: now, free: through + free.saturating_since(now) };
        }
        Passage { through, free: through }
    }

    /// Its rate.
    pub const fn rate(&self) -> Bandwidth {
        self.rate
    }

    pub const fn is_unlimited(&self) -> bool {
        self.rate.as_bits_per_sec() >= Bandwidth::UNLIMITED.as_bits_per_sec()
    }

    /// Whether a packet that finds nothing before it is through in no time, as long as the rate is not used up.
    pub const fn mostly_takes_no_time(&self) -> bool {
        self.tokens.is_some() || self.is_unlimited() || self.span.as_nanos() > 0
    }

    /// When a packet of `bytes` that starts `now` has used the link. The caller starts one packet at a time.
    fn finish(&mut self, now: SimTime, bytes: u32) -> SimTime {
        if self.is_unlimited() {
            return now;
        }
        let Some(tokens) = &mut self.tokens else {
            let nanos = (u128::from(bytes) * u128::from(self.nanos_per_byte)) >> 20;
            return now.saturating_add(SimDuration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)));
        };
        let bytes = u64::from(bytes);
        let capacity = tokens.batch + MTU.max(bytes);
        // Divisions are slow, and most packets find the tokens of the batch before.
        let since = now.saturating_since(tokens.filled);
        if since >= tokens.interval {
            let batches = since.as_nanos() / tokens.interval.as_nanos();
            tokens.filled += tokens.interval * batches;
            tokens.level = tokens.level.saturating_add(batches.saturating_mul(tokens.batch));
        }
        tokens.level = tokens.level.min(capacity);
        if bytes <= tokens.level {
            tokens.level -= bytes;
            return now;
        }
        let missing = (bytes - tokens.level).div_ceil(tokens.batch);
        tokens.level = tokens.level + missing * tokens.batch - bytes;
        tokens.filled += tokens.interval * missing;
        tokens.filled.max(now)
    }

    /// Bytes that fit through in `interval`.
    pub fn bytes_in(&self, interval: SimDuration) -> Bytes {
        self.rate.bytes_in(interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_wire_takes_length_over_rate() {
        let mut link = Shaper::new(Bandwidth::from_bits_per_sec(10_000_000), Shaping::Serialise);
        assert_eq!(link.finish(SimTime::ZERO, 1500).as_nanos(), 1_200_000);
        let mut link = Shaper::new(Bandwidth::UNLIMITED, Shaping::Serialise);
        assert_eq!(link.finish(SimTime::from_nanos(7), 1500).as_nanos(), 7);
    }

    proptest! {
        /// The same as the formula without short cuts.
        #[test]
        fn short_cuts_change_no_instant(
            rate in 100_000_u64..3_000_000_000,
            packets in prop::collection::vec((0_u64..5_000_000, 40_u32..3000), 1..200),
        ) {
            let interval = SimDuration::from_millis(1);
            let rate = Bandwidth::from_bits_per_sec(rate);
            let mut link = Shaper::new(rate, Shaping::TokenBatches { interval });
            let batch = rate.bytes_in(interval).get().max(1);
            let (mut level, mut filled, mut now) = (batch + MTU, 0_u64, 0_u64);
            for (pause, bytes) in packets {
                now += pause;
                let done = link.finish(SimTime::from_nanos(now), bytes);
                let bytes = u64::from(bytes);
                let batches = now.saturating_sub(filled) / 1_000_000;
                filled += 1_000_000 * batches;
                level = (level + batches * batch).min(batch + MTU.max(bytes));
                let missing = bytes.saturating_sub(level).div_ceil(batch);
                level = level + missing * batch - bytes;
                filled += 1_000_000 * missing;
                let expected = if missing == 0 { now } else { filled.max(now) };
                prop_assert_eq!(done.as_nanos(), expected);
                now = expected;
            }
        }
    }

    /// In any span the bucket lets through at most the span's batches, one batch and one packet.
    #[test]
    fn token_batches_keep_the_rate_and_let_a_short_burst_pass_at_once() {
        let rate = Bandwidth::from_bits_per_sec(10_000_000);
        let mut link = Shaper::new(rate, Shaping::TokenBatches { interval: SimDuration::from_millis(1) });
        assert_eq!(link.finish(SimTime::ZERO, 1500), SimTime::ZERO);
        assert_eq!(link.finish(SimTime::ZERO, 1250), SimTime::ZERO);
        let mut now = SimTime::ZERO;
        let mut sent = 0;
        while now < SimTime::from_nanos(1_000_000_000) {
            now = link.finish(now, 1500);
            sent += 1500;
        }
        assert!((1_245_000..=1_255_000).contains(&sent), "{sent} bytes in a second at 1,250,000 a second");
    }
}
