//! How many of a client's guards are one relay.

use crate::question::Question;

const MOST: usize = Question::MAX_GUARDS as usize;

/// A number of guards of which so little comes, compared with what comes of one guard, is left out.
const NOTHING: f64 = 1e-17;

/// Powers of the chance that one guard is the relay, and of the chance that it is not.
#[derive(Debug)]
pub(super) struct Guards {
    chance: f64,
    is: [f64; MOST + 1],
    is_not: [f64; MOST + 1],
}

impl Guards {
    /// Each of at most `most` guards is the relay with this chance.
    pub(super) fn new(chance: f64, most: usize) -> Self {
        let (mut is, mut is_not) = ([1.0; MOST + 1], [1.0; MOST + 1]);
        for n in 1..=most {
            is[n] = is[n - 1] * chance;
            is_not[n] = is_not[n - 1] * (1.0 - chance);
        }
        Self { chance, is, is_not }
    }

    /// Calls `each` with every number of `guards` guards and its chance (binomial).
    #[inline]
    pub(super) fn for_each_number(&self, guards: usize, mut each: impl FnMut(usize, f64)) {
        let (mut choose, mut of_one) = (1_u64, 0.0);
        for n in 0..=guards {
            if n > 0 {
                choose = choose * (guards - n + 1) as u64 / n as u64;
            }
            let share = choose as f64 * self.is[n] * self.is_not[guards - n];
            if n == 1 {
                of_one = share;
            }
            let falls = n as f64 > guards as f64 * self.chance;
            if n > 0 && falls && n as f64 * share <= NOTHING * of_one {
                return;
            }
            each(n, share);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_guards_are_binomial() {
        for guards in [0, 1, 2, 3, MOST] {
            for chance in [0.0, 1e-12, 1e-4, 0.02, 0.5, 1.0 - 1e-13, 1.0] {
                let (mut sum, mut mean, mut both) = (0.0, 0.0, 0.0);
                Guards::new(chance, MOST).for_each_number(guards, |n, share| {
                    sum += share;
                    mean += n as f64 * share;
                    both += (n * n.saturating_sub(1)) as f64 * share;
                });
                let n = guards as f64;
                assert!((sum - 1.0).abs() < 1e-14, "{guards} {chance}: {sum}");
                assert!((mean - n * chance).abs() <= 1e-14 * n * chance, "{guards} {chance}: {mean}");
                let pairs = n * (n - 1.0) * chance * chance;
                assert!((both - pairs).abs() <= 1e-14 * pairs + 1e-17 * n * chance, "{guards} {chance}: {both}");
            }
        }
    }
}
