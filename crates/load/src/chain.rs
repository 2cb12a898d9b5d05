//! Hidden Markov chains that emit observations with a delay behind each: the traffic models of Jansen, Traudt and Hopper (CCS 2018).
//!
//! A walk goes as tgen 1.x goes (`tgen-markovmodel.c`): from the start to a state by the start weights; the state emits a symbol by its emission
//! weights; the emission gives a delay, rounded to a microsecond and at most ten minutes; then on to the next state by the transition weights. The
//! symbol [`Symbol::End`] ends it, and so does a state that leads nowhere. Weights need not add up to one. Random values are named draws
//! instead of tgen's seeded generator, so that the walks have tgen's law and not its numbers.

use onionlab_quantities::{RandomStream, SimDuration};
use std::sync::Arc;

/// No delay is longer (tgen 1.x: `TGEN_MMODEL_DELAY_CEILING`).
pub const LONGEST_DELAY: SimDuration = SimDuration::from_secs(600);

/// What a chain emits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symbol {
    /// A packet to the server, or a stream.
    ToServer,
    /// A packet to the client, or a stream.
    ToClient,
    /// Nothing more.
    End,
}

/// The delay behind an emission, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Delay {
    /// Its logarithm is normal with this mean and deviation.
    LogNormal(f64, f64),
    /// Exponential with this rate.
    Exponential(f64),
}

/// A choice among emissions: the weights up to and with each one, as shares of all.
#[derive(Debug, Clone, PartialEq)]
struct Choice<T>(Vec<(f64, T)>);

/// A hidden Markov chain.
#[derive(Debug, Clone, PartialEq)]
pub struct Chain {
    start: Choice<u16>,
    states: Vec<State>,
}

#[derive(Debug, Clone, PartialEq)]
struct State {
    emissions: Choice<(Symbol, Delay)>,
    /// Empty: the chain ends here.
    next: Choice<u16>,
}

/// The weights of a state, as a file has them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Weights {
    pub emissions: Vec<(f64, (Symbol, Delay))>,
    pub next: Vec<(f64, u16)>,
}

impl<T: Copy> Choice<T> {
    fn new(weights: Vec<(f64, T)>) -> Self {
        let all: f64 = weights.iter().map(|(weight, _)| weight).sum();
        let mut sum = 0.0;
        let mut choice: Vec<_> = weights.into_iter().filter(|(weight, _)| *weight > 0.0).collect();
        for (weight, _) in &mut choice {
            sum += *weight;
            *weight = sum / all;
        }
        Self(choice)
    }

    fn draw(&self, uniform: f64) -> Option<T> {
        let at = self.0.partition_point(|(upto, _)| *upto <= uniform).min(self.0.len().checked_sub(1)?);
        Some(self.0[at].1)
    }

    /// Each with its share.
    fn shares(&self) -> impl Iterator<Item = (f64, T)> {
        let mut before = 0.0;
        self.0.iter().map(move |&(upto, of)| (upto - std::mem::replace(&mut before, upto), of))
    }
}

impl Delay {
    fn draw(self, draw: onionlab_quantities::Draw) -> SimDuration {
        let micros = match self {
            Self::LogNormal(mu, sigma) => draw.log_normal(mu, sigma),
            Self::Exponential(rate) => draw.exponential(1.0 / rate),
        };
        SimDuration::from_micros(libm::round(micros).min(LONGEST_DELAY.as_nanos() as f64 / 1e3) as u64)
    }
}

impl Chain {
    /// A chain of these states; `start` has at least one weight above zero.
    pub(crate) fn new(start: Vec<(f64, u16)>, states: Vec<Weights>) -> Self {
        let state = |weights: Weights| State { emissions: Choice::new(weights.emissions), next: Choice::new(weights.next) };
        Self { start: Choice::new(start), states: states.into_iter().map(state).collect() }
    }

    /// How many observations to the server and to the client it emits before it ends, in the mean; `None` if from some state that it reaches it never ends.
    ///
    /// By the fundamental matrix: the mean numbers of visits `v` solve `v = start + v T`, where `T` are the transitions of those who have not ended.
    pub fn expected(&self) -> Option<[f64; 2]> {
        let reached = self.reached();
        if !self.ends(&reached) {
            return None;
        }
        let n = self.states.len();
        // Row i: v_i - sum_j v_j T_ji = start_i.
        let mut rows = vec![vec![0.0; n + 1]; n];
        for (share, state) in self.start.shares() {
            rows[usize::from(state)][n] += share;
        }
        for (from, state) in self.states.iter().enumerate() {
            rows[from][from] += 1.0;
            if !reached[from] {
                continue;
            }
            let goes_on: f64 =
                state.emissions.shares().filter(|(_, (symbol, _))| *symbol != Symbol::End).map(|(share, _)| share).sum();
            for (share, to) in state.next.shares() {
                rows[usize::from(to)][from] -= goes_on * share;
            }
        }
        let visits = solve(rows)?;
        let mut expected = [0.0; 2];
        for (visits, state) in visits.iter().zip(&self.states) {
            for (share, (symbol, _)) in state.emissions.shares() {
                match symbol {
                    Symbol::ToServer => expected[0] += visits * share,
                    Symbol::ToClient => expected[1] += visits * share,
                    Symbol::End => {}
                }
            }
        }
        Some(expected)
    }

    /// The states that the start leads to.
    fn reached(&self) -> Vec<bool> {
        let goes_on = |state: &State| state.emissions.0.iter().any(|(_, (symbol, _))| *symbol != Symbol::End);
        let mut reached = vec![false; self.states.len()];
        let mut front: Vec<u16> = self.start.0.iter().map(|(_, state)| *state).collect();
        while let Some(state) = front.pop() {
            if !std::mem::replace(&mut reached[usize::from(state)], true) && goes_on(&self.states[usize::from(state)]) {
                front.extend(self.states[usize::from(state)].next.0.iter().map(|(_, next)| *next));
            }
        }
        reached
    }

    /// Whether the end can be reached from each of these states.
    fn ends(&self, from: &[bool]) -> bool {
        let ends = |state: &State| {
            state.next.0.is_empty()
                || state.emissions.0.is_empty()
                || state.emissions.0.iter().any(|(_, (symbol, _))| *symbol == Symbol::End)
        };
        let mut leads: Vec<bool> = self.states.iter().map(ends).collect();
        loop {
            let more: Vec<usize> = (0..leads.len())
                .filter(|&state| !leads[state] && self.states[state].next.0.iter().any(|(_, next)| leads[usize::from(*next)]))
                .collect();
            if more.is_empty() {
                break;
            }
            for state in more {
                leads[state] = true;
            }
        }
        from.iter().zip(leads).all(|(from, leads)| !from || leads)
    }
}

/// Solves linear equations, each a row with its right side at the end, by elimination with partial pivoting; `None` if they are singular.
fn solve(mut rows: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let n = rows.len();
    for at in 0..n {
        let pivot = (at..n).max_by(|&a, &b| rows[a][at].abs().total_cmp(&rows[b][at].abs()))?;
        rows.swap(at, pivot);
        if rows[at][at].abs() < 1e-12 {
            return None;
        }
        let row = rows[at].clone();
        for below in rows.iter_mut().skip(at + 1) {
            let factor = below[at] / row[at];
            if factor != 0.0 {
                for (value, of_row) in below.iter_mut().zip(&row).skip(at) {
                    *value -= factor * of_row;
                }
            }
        }
    }
    let mut solution = vec![0.0; n];
    for at in (0..n).rev() {
        let known: f64 = (at + 1..n).map(|later| rows[at][later] * solution[later]).sum();
        solution[at] = (rows[at][n] - known) / rows[at][at];
    }
    Some(solution)
}

/// A walk through a chain.
#[derive(Debug, Clone)]
pub(crate) struct Walk {
    chain: Arc<Chain>,
    stream: RandomStream,
    step: u32,
    /// Where it is; none before its first step and after its last.
    state: Option<u16>,
}

impl PartialEq for Walk {
    fn eq(&self, other: &Self) -> bool {
        (self.stream, self.step, self.state) == (other.stream, other.step, other.state) && self.chain == other.chain
    }
}

impl Walk {
    pub const fn new(chain: Arc<Chain>, stream: RandomStream) -> Self {
        Self { chain, stream, step: 0, state: None }
    }
}

impl Iterator for Walk {
    type Item = (Symbol, SimDuration);

    /// The next observation that is not the end, and the delay behind it.
    fn next(&mut self) -> Option<(Symbol, SimDuration)> {
        let draw = |which: u64| self.stream.at(3 * u64::from(self.step) + which);
        let choice = match self.state {
            Some(state) => &self.chain.states[usize::from(state)].next,
            None if self.step == 0 => &self.chain.start,
            None => return None,
        };
        self.state = choice.draw(draw(0).uniform());
        let emission = self.state.and_then(|state| self.chain.states[usize::from(state)].emissions.draw(draw(1).uniform()));
        let delay = draw(2);
        self.step = self.step.checked_add(1)?;
        match emission {
            None | Some((Symbol::End, _)) => {
                self.state = None;
                None
            }
            Some((symbol, of)) => Some((symbol, of.draw(delay))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onionlab_quantities::Seed;

    fn emits(to_server: f64, to_client: f64, end: f64) -> Vec<(f64, (Symbol, Delay))> {
        vec![
            (to_server, (Symbol::ToServer, Delay::Exponential(1e-3))),
            (to_client, (Symbol::ToClient, Delay::LogNormal(2.0, 0.5))),
            (end, (Symbol::End, Delay::LogNormal(0.0, 0.0))),
        ]
    }

    /// One state that stays with 3/4, weights that do not add up to one, an end that is a state of its own: four observations in the mean, one of them to the server.
    fn four() -> Chain {
        let stays = Weights { emissions: emits(2.0, 6.0, 0.0), next: vec![(6.0, 0), (2.0, 1)] };
        Chain::new(vec![(5.0, 0)], vec![stays, Weights { emissions: emits(0.0, 0.0, 1.0), next: vec![] }])
    }

    #[test]
    fn expectation_by_hand() {
        let [up, down] = four().expected().unwrap();
        assert!((up - 1.0).abs() < 1e-12 && (down - 3.0).abs() < 1e-12, "{up} {down}");
        // An end among the emissions of a state that stays: each visit ends with a fifth.
        let often = Chain::new(vec![(1.0, 0)], vec![Weights { emissions: emits(0.4, 0.4, 0.2), next: vec![(1.0, 0)] }]);
        let [up, down] = often.expected().unwrap();
        assert!((up - 2.0).abs() < 1e-12 && (down - 2.0).abs() < 1e-12, "{up} {down}");
    }

    #[test]
    fn an_endless_chain_has_no_expectation() {
        let round = Weights { emissions: emits(1.0, 0.0, 0.0), next: vec![(1.0, 0)] };
        let end = Weights { emissions: emits(0.0, 0.0, 1.0), next: vec![] };
        assert_eq!(Chain::new(vec![(1.0, 0)], vec![round.clone(), end.clone()]).expected(), None);
        assert_eq!(Chain::new(vec![(1.0, 1), (0.5, 0)], vec![round.clone(), end.clone()]).expected(), None);
        assert_eq!(
            Chain::new(vec![(1.0, 1)], vec![round, end]).expected(),
            Some([0.0, 0.0]),
            "what is not reached does not matter"
        );
    }

    /// Means within five standard errors.
    #[test]
    fn walks_have_the_law_of_the_chain() {
        let chain = Arc::new(four());
        let stream = RandomStream::new(Seed(2), "client1", "load");
        let n = 20_000_u64;
        let (mut counts, mut waits) = ([0_u64; 2], [0.0_f64; 2]);
        for k in 0..n {
            let mut walk = Walk::new(Arc::clone(&chain), stream.member(k));
            for (symbol, delay) in walk.by_ref() {
                let direction = usize::from(symbol == Symbol::ToClient);
                counts[direction] += 1;
                waits[direction] += delay.as_secs_f64() * 1e6;
            }
            assert_eq!(walk.next(), None, "the end is the end");
        }
        let mean = |direction: usize| counts[direction] as f64 / n as f64;
        assert!((mean(0) - 1.0).abs() < 5.0 * 1.5 / (n as f64).sqrt(), "{counts:?}");
        assert!((mean(1) - 3.0).abs() < 5.0 * 3.5 / (n as f64).sqrt(), "{counts:?}");
        let wait = |direction: usize| waits[direction] / counts[direction] as f64;
        assert!((wait(0) - 1000.0).abs() < 5.0 * 1000.0 / (counts[0] as f64).sqrt(), "{waits:?}");
        let log_normal = (2.0_f64 + 0.125).exp();
        assert!((wait(1) / log_normal - 1.0).abs() < 5.0 * 0.54 / (counts[1] as f64).sqrt() + 0.01, "{waits:?}");
    }

    #[test]
    fn no_delay_is_longer_than_ten_minutes() {
        let stream = RandomStream::new(Seed(2), "client1", "load");
        let longest = (0..1000).map(|k| Delay::LogNormal(100.0, 100.0).draw(stream.at(k))).max();
        assert_eq!(longest, Some(LONGEST_DELAY));
    }
}
