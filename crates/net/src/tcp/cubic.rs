//! CUBIC (RFC 9438), in Linux's arithmetic: whole segments, one epoch per loss.
//!
//! W(t) = C (t - K)^3 + W_max with C = 0.4 segments/s^3, K = cbrt((W_max - cwnd) / C); after a loss the window shrinks to 0.7, and
//! W_max is lowered further (fast convergence) when the window had not reached the former one. The Reno-friendly region keeps an
//! estimate that grows by 3 (1 - 0.7) / (1 + 0.7) = 0.53 segments a round trip; as in Linux that slope does not become 1 after it has
//! caught up, as RFC 9438 section 4.3 would have it. The cubic target is evaluated one minimum round trip ahead.

use super::ticks::Ticks;
use onionlab_quantities::{SimDuration, SimTime};

/// Segments per second cubed.
const C: f64 = 0.4;
/// Linux multiplies the window with 717/1024 after a loss: 0.7.
const BETA_1024: u64 = 717;
/// The target is computed anew at most this often while the window stays the same (Linux: HZ/32).
const REFRESH: SimDuration = SimDuration::from_micros(31_250);

/// What CUBIC knows. The curve lies apart: connections that have seen no loss have none.
#[derive(Debug, Clone)]
pub(crate) struct Cubic {
    curve: Option<Box<Curve>>,
    /// Least round trip in microseconds since the last time-out; 0 if none.
    delay_min: u32,
    /// HyStart has ended slow start.
    pub(super) found: bool,
}

/// The curve that the window follows since the last loss.
#[derive(Debug, Clone, Default)]
struct Curve {
    /// Window just before the last loss, lowered by fast convergence; 0 before any.
    last_max: u32,
    /// Window at the curve's plateau.
    plateau: u32,
    /// K in microseconds.
    rise_micros: u32,
    /// When the epoch began; meaningful while `in_epoch`.
    epoch: Ticks,
    computed_at: Ticks,
    computed_for: u32,
    /// Segments to be acknowledged for one more in the window.
    per_increase: u32,
    /// Segments acknowledged that the Reno estimate has not counted yet.
    friendly_credit: u32,
    /// What Reno with CUBIC's reduction would have by now.
    friendly: u32,
    in_epoch: bool,
}

impl Cubic {
    pub(crate) const fn new() -> Self {
        Self { curve: None, delay_min: 0, found: false }
    }

    /// Least round trip seen, once there is one.
    pub(super) fn delay_min(&self) -> SimDuration {
        SimDuration::from_micros(u64::from(self.delay_min))
    }

    /// Takes a round trip; false if it is of the second after a reduction, which Linux ignores.
    pub(crate) fn note_delay(&mut self, now: SimTime, rtt: SimDuration) -> bool {
        if self.curve.as_ref().is_some_and(|curve| curve.in_epoch && curve.epoch.until(now) < SimDuration::from_secs(1)) {
            return false;
        }
        let micros = (rtt.as_micros() as u32).max(1);
        if self.delay_min == 0 || micros < self.delay_min {
            self.delay_min = micros;
        }
        true
    }

    /// The threshold after a loss with this window; ends the epoch.
    pub(crate) fn after_loss(&mut self, cwnd: u32) -> u32 {
        let curve = self.curve.get_or_insert_default();
        curve.in_epoch = false;
        curve.last_max = if cwnd < curve.last_max { (u64::from(cwnd) * (1024 + BETA_1024) / 2048) as u32 } else { cwnd };
        ((u64::from(cwnd) * BETA_1024 / 1024) as u32).max(2)
    }

    /// The connection sends again after `idle` with nothing in flight: the curve's clock stood still.
    pub(crate) fn resume(&mut self, idle: SimDuration, now: SimTime) {
        if let Some(curve) = self.curve.as_deref_mut()
            && curve.in_epoch
        {
            let moved = curve.epoch.later_by(idle);
            // Never into the future.
            curve.epoch = if moved.until(now) > SimDuration::from_secs(1 << 17) { Ticks::at(now) } else { moved };
        }
    }

    /// How many acknowledged segments are worth one more in the window, after `acked` more were acknowledged.
    pub(crate) fn per_increase(&mut self, now: SimTime, cwnd: u32, acked: u32) -> u32 {
        let curve = self.curve.get_or_insert_default();
        curve.friendly_credit += acked;
        if curve.in_epoch && curve.computed_for == cwnd && curve.computed_at.until(now) <= REFRESH {
            return curve.per_increase;
        }
        if !curve.in_epoch {
            curve.in_epoch = true;
            curve.epoch = Ticks::at(now);
            curve.friendly_credit = acked;
            curve.friendly = cwnd;
            let missing = curve.last_max.saturating_sub(cwnd);
            curve.plateau = curve.last_max.max(cwnd);
            curve.rise_micros = (libm::cbrt(f64::from(missing) / C) * 1e6) as u32;
        }
        curve.computed_for = cwnd;
        curve.computed_at = Ticks::at(now);

        let elapsed = curve.epoch.until(now).as_nanos() as f64 * 1e-9 + f64::from(self.delay_min) * 1e-6;
        let from_plateau = elapsed - f64::from(curve.rise_micros) * 1e-6;
        // In whole segments from the plateau, as `bictcp_update` has it: below it the target is rounded up.
        let away = (C * from_plateau * from_plateau * from_plateau).abs().min(1e9) as u32;
        let target = if from_plateau < 0.0 { curve.plateau.saturating_sub(away) } else { curve.plateau.saturating_add(away) };
        let mut count = if target > cwnd { cwnd / (target - cwnd) } else { 100 * cwnd };
        if curve.last_max == 0 {
            count = count.min(20);
        }

        // One segment more per 1.7 / (3 * 0.3) windows acknowledged.
        let per_friendly = (u64::from(cwnd) * (1024 + BETA_1024) / (3 * (1024 - BETA_1024))).max(1) as u32;
        curve.friendly += curve.friendly_credit / per_friendly;
        curve.friendly_credit %= per_friendly;
        if curve.friendly > cwnd {
            count = count.min(cwnd / (curve.friendly - cwnd));
        }
        curve.per_increase = count.max(2);
        curve.per_increase
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Grows a window by the law, one acknowledgement per segment, over `seconds` at this round trip.
    fn grown(cwnd_at_loss: u32, rtt_millis: u64, seconds: f64) -> f64 {
        let mut cubic = Cubic::new();
        cubic.note_delay(SimTime::ZERO, SimDuration::from_millis(rtt_millis));
        let mut cwnd = cubic.after_loss(cwnd_at_loss);
        let (mut credit, mut nanos) = (0, 1_000_000_000_u64);
        while (nanos as f64) < 1e9 + seconds * 1e9 {
            let count = cubic.per_increase(SimTime::from_nanos(nanos), cwnd, 1);
            credit += 1;
            if credit >= count {
                credit = 0;
                cwnd += 1;
            }
            nanos += rtt_millis * 1_000_000 / u64::from(cwnd);
        }
        f64::from(cwnd)
    }

    /// RFC 9438, equation 1, after a loss at 1000 segments, where the cubic region rules (100 ms). The target is evaluated a round
    /// trip ahead and reached a round trip later.
    #[test]
    fn the_window_follows_the_curve() {
        let k = (300.0_f64 / C).cbrt();
        for seconds in [1.0, 3.0, 6.0, 9.0, 12.0, 15.0, 20.0] {
            let formula = C * (seconds - k).powi(3) + 1000.0;
            let got = grown(1000, 100, seconds);
            assert!((got / formula - 1.0).abs() < 0.03, "{seconds} s: {got} against {formula}");
        }
    }

    /// With a short round trip Reno's slope is steeper: 0.53 segments a round trip.
    #[test]
    fn near_hosts_grow_as_reno_would() {
        let got = grown(40, 10, 0.5);
        let formula = 28.0 + 50.0 * 3.0 * 0.3 / 1.7;
        assert!((got / formula - 1.0).abs() < 0.08, "{got} against {formula}");
    }

    #[test]
    fn two_losses_in_a_row_make_room() {
        let mut cubic = Cubic::new();
        assert_eq!(cubic.after_loss(1000), 700);
        cubic.after_loss(700);
        assert_eq!(cubic.curve.map(|curve| curve.last_max), Some(595));
    }
}
