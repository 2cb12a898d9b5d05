//! Random problems, from easy to nasty, each from its own number.
#![allow(dead_code)] // Each test uses a part.

use onionlab_predictor::{Alignment, COMMITTED, CircuitInput, Form, Parameters, Problem};

/// SplitMix64: small, and the same everywhere.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def0)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to 1.
    pub fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn below(&mut self, count: usize) -> usize {
        (self.bits() % count as u64) as usize
    }

    pub fn chance(&mut self, share: f64) -> bool {
        self.share() < share
    }
}

/// A trajectory: constant, falling to zero, or anew in each step; often all zero.
fn trajectory(random: &mut Random, steps: usize, most: f64) -> Vec<f64> {
    let level = random.share() * most;
    match random.below(5) {
        0 => vec![0.0; steps],
        1 | 2 => vec![level; steps],
        3 => {
            let end = random.below(steps);
            (0..steps).map(|k| if k < end { level } else { 0.0 }).collect()
        }
        _ => (0..steps).map(|_| random.share() * most).collect(),
    }
}

/// Parameters and a problem, both at random.
pub fn problem(number: u64) -> (Parameters, Problem) {
    let (random, late) = (&mut Random::new(number), &mut Random::new(!number));
    let form = if random.chance(0.5) { Form::Conference } else { Form::Journal };
    let mut parameters = Parameters { horizon: 2 + random.below(11), ..Parameters::of(form) };
    if random.chance(0.5) {
        parameters.horizon = 10;
    }
    if random.chance(0.3) {
        parameters.alignment = Alignment::Strict;
    }
    if random.chance(0.3) {
        parameters.committed = !parameters.committed;
    }
    if random.chance(0.3) {
        parameters.weights.queue = 10.0 * random.share();
    }
    if random.chance(0.3) {
        parameters.queue_limit = 30.0 * random.share();
    }
    if form == Form::Journal && random.chance(0.3) {
        parameters.weights.deviation = [0.0, 1.0, 100.0][random.below(3)];
    }
    let circuits = 1 + random.below(8);
    let capacity = [60.0, 830.078_125, 2_075.195_312_5][random.below(3)] * (0.5 + random.share());
    let other = if random.chance(0.5) { capacity } else { capacity * (0.3 + random.share()) };
    let steps = parameters.horizon;
    let mut problem = Problem::new(steps, capacity, other).unwrap();
    let share = capacity / circuits as f64;
    for _ in 0..circuits {
        let virtual_rate = if form == Form::Journal { trajectory(random, steps, 3.0 * share) } else { Vec::new() };
        let limit = if random.chance(0.2) { vec![f64::INFINITY; steps] } else { trajectory(random, steps, 3.0 * share) };
        let from_relay = random.chance(0.7);
        let source_queue = if from_relay { 30.0 } else { 1e4 };
        // Prompt messages, or late ones.
        let committed = match from_relay {
            false => 0,
            true if late.chance(0.7) => COMMITTED,
            true => late.below(6),
        };
        let queue = [0.0, 20.0, 150.0][random.below(3)] * random.share();
        problem
            .push(&CircuitInput {
                queue,
                committed,
                source_rate: &trajectory(random, steps, 1.5 * share),
                source_queue: &trajectory(random, steps, source_queue),
                source_virtual_rate: &virtual_rate,
                limit: &limit,
            })
            .unwrap();
    }
    (parameters, problem)
}
