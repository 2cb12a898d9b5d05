//! A compact model of what Tor's users do, fitted to the hidden Markov models that were learned from the network (Jansen, Traudt, Hopper, CCS 2018).
//!
//! It stands for those models where their files are not at hand: a few dozen numbers, printed with the quality of the fit by `tools/fit_tor_users.py`
//! (`docs/models/load.md` shows both models beside each other). A circuit carries a number of streams that is a mixture of two geometric ones; delays between streams are
//! exponential or log-normal, and with some chance of the kind of the one before. A stream is of one of four kinds. It has a geometric number of **rounds**; in each
//! the client sends a geometric number of packets and the server another, and then both wait for a log-normal time above 10 ms. The first
//! round has one packet more from the client. No wait is longer than ten minutes.

use crate::chain::LONGEST_DELAY;
use crate::script::{AT_ONCE, Observation, PACKET};
use onionlab_quantities::{Bytes, Draw, RandomStream, SimDuration};

/// A kind of streams.
struct Kind {
    /// Share of the streams.
    weight: f64,
    /// Mean number of rounds, at least 1.
    rounds: f64,
    /// Mean packets to the server in a round, beside the first of the stream.
    up: f64,
    /// Mean packets to the client in a round.
    down: f64,
    /// Mean and deviation of the logarithm of the delay after a round, in microseconds, before those up to 10 ms are left out.
    delay: (f64, f64),
}

/// The kinds of streams: short exchanges, pages, uploads, downloads.
const KINDS: [Kind; 4] = [
    Kind { weight: 0.4877, rounds: 4.049, up: 0.6805, down: 1.615, delay: (8.648, 5.176) },
    Kind { weight: 0.144, rounds: 16.22, up: 0.4067, down: 5.317, delay: (10.98, 2.55) },
    Kind { weight: 0.01474, rounds: 11.11, up: 19.14, down: 1.456, delay: (6.0, 5.225) },
    Kind { weight: 0.3536, rounds: 19.76, up: 0.6749, down: 25.5, delay: (9.43, 3.441) },
];

/// Share of the circuits with few streams, and mean numbers of streams of those and of the others.
const STREAMS: (f64, f64, f64) = (0.1283, 2.968, 12.55);
/// Delays between streams: share and mean in seconds of the exponential ones, mean and deviation of the logarithm of the others in microseconds, chance that one is of the
/// kind of the one before whatever that is.
const PAUSES: (f64, f64, f64, f64, f64) = (0.5358, 3.431, 7.883, 5.889, 0.7474);

/// A geometric number from 0 with this mean.
fn geometric(draw: Draw, mean: f64) -> u64 {
    libm::floor(draw.exponential(1.0) / libm::log1p(1.0 / mean)) as u64
}

fn micros(value: f64) -> SimDuration {
    SimDuration::from_micros(libm::round(value).min(LONGEST_DELAY.as_nanos() as f64 / 1e3) as u64)
}

/// The streams of a circuit.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    stream: RandomStream,
    /// How many streams there are, and how many have been given.
    count: u64,
    given: u64,
    /// The last delay was exponential.
    short: bool,
}

impl Session {
    pub fn new(stream: RandomStream) -> Self {
        let (few, of_few, of_many) = STREAMS;
        let mean = if stream.at(0).chance(few) { of_few } else { of_many };
        Self { stream, count: 1 + geometric(stream.at(1), mean - 1.0), given: 0, short: false }
    }
}

impl Iterator for Session {
    type Item = SimDuration;

    /// The delay of the next stream from the one before it; none after the last stream.
    fn next(&mut self) -> Option<SimDuration> {
        if self.given == self.count {
            return None;
        }
        let delay = if self.given == 0 {
            SimDuration::ZERO
        } else {
            let (share, mean, mu, sigma, same) = PAUSES;
            let draw = |which| self.stream.at(3 * self.given + which);
            if self.given == 1 || !draw(0).chance(same) {
                self.short = draw(1).chance(share);
            }
            micros(if self.short { draw(2).exponential(1e6 * mean) } else { draw(2).log_normal(mu, sigma) })
        };
        self.given += 1;
        Some(delay)
    }
}

/// What the ends of a stream send each other.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rounds {
    stream: RandomStream,
    kind: u8,
    count: u32,
    round: u32,
    /// The client has written in this round.
    asked: bool,
}

impl Rounds {
    pub fn new(stream: RandomStream) -> Self {
        let mut left = stream.at(0).uniform() * KINDS.iter().map(|kind| kind.weight).sum::<f64>();
        let found = KINDS.iter().position(|kind| {
            left -= kind.weight;
            left < 0.0
        });
        let kind = found.unwrap_or(KINDS.len() - 1);
        let rounds = 1 + geometric(stream.at(1), KINDS[kind].rounds - 1.0);
        Self { stream, kind: kind as u8, count: rounds.min(u64::from(u32::MAX)) as u32, round: 0, asked: false }
    }

    /// The delay after the present round: drawn again as long as it is not above 10 ms.
    fn delay(&self) -> SimDuration {
        let (mu, sigma) = KINDS[usize::from(self.kind)].delay;
        let draws = self.stream.member(1 + u64::from(self.round));
        let long = (0..64).map(|attempt| micros(draws.at(attempt).log_normal(mu, sigma))).find(|delay| *delay > AT_ONCE);
        long.unwrap_or(AT_ONCE + SimDuration::from_micros(1))
    }

    /// The next observation: in each round first the client's, then the server's.
    pub fn next(&mut self) -> Option<Observation> {
        if self.round == self.count {
            return None;
        }
        let kind = &KINDS[usize::from(self.kind)];
        let draw = |which| self.stream.member(0).at(2 * u64::from(self.round) + which);
        let packets = |count: u64| Bytes::new(count * PACKET.get());
        if !self.asked {
            self.asked = true;
            let first = u64::from(self.round == 0);
            return Some(Observation {
                to_server: true,
                bytes: packets(first + geometric(draw(0), kind.up)),
                then: SimDuration::ZERO,
            });
        }
        let (bytes, then) = (packets(geometric(draw(1), kind.down)), self.delay());
        self.asked = false;
        self.round += 1;
        Some(Observation { to_server: false, bytes, then })
    }
}

/// Mean number of streams of a circuit.
pub(crate) fn mean_streams() -> f64 {
    STREAMS.0 * STREAMS.1 + (1.0 - STREAMS.0) * STREAMS.2
}

/// Mean bytes of a stream to the server and to the client, without the greetings.
pub(crate) fn mean_bytes() -> [f64; 2] {
    let all: f64 = KINDS.iter().map(|kind| kind.weight).sum();
    let up: f64 = KINDS.iter().map(|kind| kind.weight / all * kind.rounds * kind.up).sum();
    let down: f64 = KINDS.iter().map(|kind| kind.weight / all * kind.rounds * kind.down).sum();
    [1.0 + up, down].map(|packets| packets * PACKET.get() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onionlab_quantities::Seed;

    fn random(k: u64) -> RandomStream {
        RandomStream::new(Seed(4), "client1", "load").member(k)
    }

    /// The mean and five standard errors of it.
    fn estimate(values: &[f64]) -> (f64, f64) {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
        (mean, 5.0 * (variance / n).sqrt())
    }

    #[test]
    fn sessions_have_the_mean_number_of_streams() {
        let counts: Vec<f64> = (0..20_000).map(|k| Session::new(random(k)).count() as f64).collect();
        let (mean, error) = estimate(&counts);
        assert!((mean - mean_streams()).abs() < error, "{mean} against {}", mean_streams());
        assert!(counts.iter().all(|count| *count >= 1.0));
        let delays: Vec<SimDuration> = (0..2000).flat_map(|k| Session::new(random(k)).skip(1)).collect();
        assert!(delays.iter().all(|delay| *delay <= LONGEST_DELAY));
        assert!((0..100).all(|k| Session::new(random(k)).next() == Some(SimDuration::ZERO)), "the first starts at once");
    }

    #[test]
    fn streams_have_the_mean_bytes_of_their_kinds() {
        let mut bytes = [Vec::new(), Vec::new()];
        for k in 0..20_000 {
            let mut rounds = Rounds::new(random(k));
            let mut sums = [0.0; 2];
            let mut first = true;
            while let Some(Observation { to_server, bytes, then }) = rounds.next() {
                assert!(!std::mem::take(&mut first) || (to_server && bytes >= PACKET), "the client begins");
                assert_eq!(bytes.get() % PACKET.get(), 0);
                assert!(if to_server { then == SimDuration::ZERO } else { then > AT_ONCE && then <= LONGEST_DELAY });
                sums[usize::from(!to_server)] += bytes.get() as f64;
            }
            bytes.iter_mut().zip(sums).for_each(|(all, sum)| all.push(sum));
        }
        for (values, expected) in bytes.iter().zip(mean_bytes()) {
            let (mean, error) = estimate(values);
            assert!((mean - expected).abs() < error, "{mean} against {expected}");
        }
    }

    /// What it is fitted to: the exact means of the hidden Markov models.
    #[test]
    fn means_are_those_of_the_learned_models() {
        assert!((mean_streams() / 11.3238 - 1.0).abs() < 0.002, "{}", mean_streams());
        let [up, down] = mean_bytes().map(|bytes| bytes / PACKET.get() as f64);
        assert!((up / 11.1417 - 1.0).abs() < 0.002 && (down / 194.0143 - 1.0).abs() < 0.002, "{up} {down}");
    }
}
