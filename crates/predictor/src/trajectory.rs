//! Trajectories that neighbours exchange: what is sent, and what the receiver makes of it in its own time.

use crate::parameters::Parameters;

/// By how many steps a message to the successor is older at its next solve than it was made for. What the source sends in its step k arrives one hop, that is one step, later: in the
/// successor's step k.
pub const FROM_SOURCE: f64 = 0.0;

/// The same for a message to the predecessor: what the predecessor decides now arrives at the successor two of the successor's steps after those that its message begins with.
pub const FROM_SINK: f64 = 2.0;

/// What a relay sends its successor on a circuit. N values each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SourceMessage<'a> {
    /// Outgoing rates of steps 0 to N - 1, packets a second.
    pub rate: &'a [f64],
    /// Queues after these steps, packets.
    pub queue: &'a [f64],
    /// Virtual outgoing rates (journal); empty in the conference form.
    pub virtual_rate: &'a [f64],
}

/// What a relay sends its predecessor on a circuit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SinkMessage<'a> {
    /// Intake rates of steps 0 to N - 1, packets a second.
    pub rate: &'a [f64],
}

/// A trajectory as it was received: piecewise constant, and getting older.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Received {
    values: Vec<f64>,
    /// The present instant in steps after the trajectory's begin.
    shift: f64,
}

impl Received {
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub fn set(&mut self, values: &[f64], shift: f64, most: f64) {
        self.values.clear();
        self.values.extend(values.iter().map(|value| value.clamp(0.0, most)));
        self.shift = shift;
    }

    /// A step has passed.
    pub fn age(&mut self) {
        // Beyond its end a trajectory does not change any more.
        self.shift = (self.shift + 1.0).min(self.values.len() as f64);
    }

    /// What of the trajectory is over, in steps times its unit.
    pub fn passed(&self) -> f64 {
        let last = self.values.len().saturating_sub(1);
        let share = |k: usize| (self.shift - k as f64).clamp(0.0, 1.0);
        let within: f64 = self.values.iter().enumerate().map(|(k, value)| share(k) * value).sum();
        within + self.values.last().map_or(0.0, |value| (self.shift - last as f64 - 1.0).max(0.0) * value)
    }

    /// The trajectory from now on, averaged over each step; before its begin its first value, after its end its last one. Zeros if nothing was received.
    pub fn resample(&self, into: &mut [f64]) {
        let last = self.values.len() as f64 - 1.0;
        for (k, value) in into.iter_mut().enumerate() {
            *value = if self.values.is_empty() {
                0.0
            } else {
                let begin = k as f64 + self.shift;
                let (whole, share) = (begin.floor(), begin - begin.floor());
                let at = |step: f64| self.values[step.clamp(0.0, last) as usize];
                if share == 0.0 { at(whole) } else { (1.0 - share) * at(whole) + share * at(whole + 1.0) }
            };
        }
    }
}

/// What rounding of an honest solver may leave below zero, packets a second or packets.
const ROUNDING: f64 = 1e-3;

/// Whether a trajectory can be used: as many values as steps, all of them numbers, none infinite or negative but for rounding.
pub(crate) fn makes_sense(values: &[f64], parameters: &Parameters) -> bool {
    values.len() == parameters.horizon && values.iter().all(|value| value.is_finite() && *value >= -ROUNDING)
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // Whole numbers and halves.
mod tests {
    use super::*;

    fn resampled(shift: f64, ages: usize) -> Vec<f64> {
        let mut received = Received::default();
        received.set(&[1.0, 2.0, 3.0, 5.0], shift, 4.0);
        (0..ages).for_each(|_| received.age());
        let mut values = vec![0.0; 4];
        received.resample(&mut values);
        values
    }

    #[test]
    fn shifts_and_ages_repeat_the_last_value() {
        assert_eq!(resampled(FROM_SOURCE, 0), [1.0, 2.0, 3.0, 4.0], "5 is more than there can be");
        assert_eq!(resampled(FROM_SINK, 0), [3.0, 4.0, 4.0, 4.0]);
        assert_eq!(resampled(FROM_SOURCE, 1), [2.0, 3.0, 4.0, 4.0]);
        assert_eq!(resampled(FROM_SINK, 50), [4.0; 4]);
        assert_eq!(resampled(-1.0, 0), [1.0, 1.0, 2.0, 3.0], "from the future: its first value");
        assert_eq!(resampled(0.5, 0), [1.5, 2.5, 3.5, 4.0]);
    }

    #[test]
    fn what_is_over_adds_up() {
        let passed = |shift: f64| {
            let mut received = Received::default();
            received.set(&[1.0, 2.0, 3.0], shift, 4.0);
            received.passed()
        };
        assert_eq!([-1.0, 0.0, 0.5, 1.0, 2.5, 3.0, 5.0].map(passed), [0.0, 0.0, 0.5, 1.0, 4.5, 6.0, 12.0]);
        assert_eq!(Received::default().passed(), 0.0);
    }

    #[test]
    fn nonsense_is_told() {
        let parameters = Parameters { horizon: 2, ..Parameters::CONFERENCE };
        assert!(makes_sense(&[0.0, 1.0], &parameters));
        assert!(makes_sense(&[-1e-9, 1.0], &parameters));
        for nonsense in [&[1.0][..], &[], &[1.0; 3], &[f64::NAN, 0.0], &[f64::INFINITY, 0.0], &[-1.0, 0.0]] {
            assert!(!makes_sense(nonsense, &parameters), "{nonsense:?}");
        }
    }
}
