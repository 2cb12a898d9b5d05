//! Named random values: common random numbers by construction.
//!
//! A random value is a hash of (seed, entity, purpose, ordinal), not the next draw of a generator that others use too.
//! Two treatments therefore meet the same sizes, pauses and paths, and adding a host disturbs no other
//! (`docs/architecture.md`, rule 3). The hash is xxh3-64 over the names and two rounds of the SplitMix64 finaliser
//! (Steele, Lea and Flood 2014) over the ordinal. Transcendental functions are `libm`'s, so that a draw is the same number on every platform.

/// The seed of a run or of a sampled network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Seed(pub u64);

/// All random values of one entity for one purpose, indexed by an ordinal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RandomStream {
    key: u64,
}

/// One random value: 64 uniform bits, read as whatever distribution is wanted.
///
/// A draw is one value: reading it twice gives the same number twice. Use the next ordinal for the next value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw(u64);

/// A sequence of draws for algorithms that need an unknown number of them (rejection, shuffling).
#[derive(Debug, Clone)]
pub struct DrawSequence {
    stream: RandomStream,
    next: u64,
}

const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl RandomStream {
    /// The stream of `entity` (a name that is unique in the scenario) for `purpose` (unique among that entity's).
    pub fn new(seed: Seed, entity: &str, purpose: &str) -> Self {
        let entity = xxhash_rust::xxh3::xxh3_64_with_seed(entity.as_bytes(), seed.0);
        Self { key: xxhash_rust::xxh3::xxh3_64_with_seed(purpose.as_bytes(), entity) }
    }

    /// A stream of its own for each member of a numbered family, without building a name.
    #[must_use]
    pub const fn member(self, index: u64) -> Self {
        Self { key: mix(self.key ^ mix(index.wrapping_add(0x632b_e59b_d9b4_e019))) }
    }

    /// The value with this ordinal.
    pub const fn at(self, ordinal: u64) -> Draw {
        Draw(mix(self.key ^ mix(ordinal.wrapping_add(0x9e37_79b9_7f4a_7c15))))
    }

    /// The values from ordinal 0 on, one after the other.
    pub const fn sequence(self) -> DrawSequence {
        DrawSequence { stream: self, next: 0 }
    }
}

impl DrawSequence {
    /// The next value.
    pub fn draw(&mut self) -> Draw {
        self.next += 1;
        self.stream.at(self.next - 1)
    }

    /// Puts `items` in random order (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.draw().below(last as u64 + 1) as usize);
        }
    }
}

impl Draw {
    /// The 64 bits.
    pub const fn bits(self) -> u64 {
        self.0
    }
    /// Uniform in [0, 1), with 53 bits.
    pub fn uniform(self) -> f64 {
        (self.0 >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }
    /// Uniform in 0..n; 0 if n is 0. Bias below 2^-64 n (multiply-shift).
    pub const fn below(self, n: u64) -> u64 {
        ((self.0 as u128 * n as u128) >> 64) as u64
    }
    /// True with probability `p`.
    pub fn chance(self, p: f64) -> bool {
        self.uniform() < p
    }
    /// Exponential with this mean.
    pub fn exponential(self, mean: f64) -> f64 {
        -mean * libm::log1p(-self.uniform())
    }
    /// Standard normal (Box-Muller on the two halves of the draw; 32 bits each, tails to 6.7 deviations).
    pub fn normal(self) -> f64 {
        let radius = ((self.0 >> 32) as f64 + 0.5) * (1.0 / 4_294_967_296.0);
        let angle = ((self.0 & 0xffff_ffff) as f64 + 0.5) * (1.0 / 4_294_967_296.0);
        libm::sqrt(-2.0 * libm::log(radius)) * libm::cos(2.0 * core::f64::consts::PI * angle)
    }
    /// exp(mu + sigma * standard normal).
    pub fn log_normal(self, mu: f64, sigma: f64) -> f64 {
        libm::exp(mu + sigma * self.normal())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> RandomStream {
        RandomStream::new(Seed(7), "client3", "think time")
    }

    #[test]
    fn a_value_depends_on_every_part_of_its_name() {
        let value = stream().at(5).bits();
        assert_eq!(value, stream().at(5).bits());
        assert_ne!(value, stream().at(6).bits());
        assert_ne!(value, RandomStream::new(Seed(8), "client3", "think time").at(5).bits());
        assert_ne!(value, RandomStream::new(Seed(7), "client4", "think time").at(5).bits());
        assert_ne!(value, RandomStream::new(Seed(7), "client3", "size").at(5).bits());
        assert_ne!(value, stream().member(1).at(5).bits());
    }

    /// A golden value: a change of the hash changes every result ever published, and must not happen by accident.
    #[test]
    fn the_hash_is_fixed() {
        assert_eq!(stream().at(0).bits(), GOLDEN);
    }
    const GOLDEN: u64 = 1_317_404_064_914_694_454;

    #[test]
    fn moments_are_those_of_the_distributions() {
        let n = 200_000_u64;
        let mean = |f: &dyn Fn(Draw) -> f64| (0..n).map(|i| f(stream().at(i))).sum::<f64>() / n as f64;
        // Tolerances are five standard errors.
        assert!((mean(&|d| d.uniform()) - 0.5).abs() < 5.0 * 0.289 / (n as f64).sqrt());
        assert!((mean(&|d| d.exponential(3.0)) - 3.0).abs() < 5.0 * 3.0 / (n as f64).sqrt());
        assert!(mean(&|d| d.normal()).abs() < 5.0 / (n as f64).sqrt());
        assert!((mean(&|d| d.normal().powi(2)) - 1.0).abs() < 5.0 * 1.42 / (n as f64).sqrt());
        assert!((mean(&|d| d.below(10) as f64) - 4.5).abs() < 5.0 * 2.88 / (n as f64).sqrt());
    }
}
