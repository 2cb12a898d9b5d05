//! Round-trip times and the probe time-out (RFC 9002, sections 5 and 6.2.1; pseudo-code A.7 and A.8).

use onionlab_quantities::SimDuration;

/// The timers' resolution (RFC 9002: `kGranularity`).
pub(super) const GRANULARITY: SimDuration = SimDuration::from_millis(1);

/// What is known of a path's round trips. Before the first sample it says what RFC 9002 section 6.2.2 assumes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rtt {
    pub(super) latest: SimDuration,
    pub(super) smoothed: SimDuration,
    pub(super) variation: SimDuration,
    /// Zero before the first sample.
    pub(super) min: SimDuration,
}

impl Rtt {
    /// `initial`: the round trip assumed before the first sample (`kInitialRtt`).
    pub(super) fn new(initial: SimDuration) -> Self {
        Self { latest: SimDuration::ZERO, smoothed: initial, variation: initial / 2, min: SimDuration::ZERO }
    }

    pub(super) fn is_measured(&self) -> bool {
        self.min > SimDuration::ZERO
    }

    /// Takes the time from sending a packet to its acknowledgement, and how long the other end says that it withheld that.
    pub(super) fn sample(&mut self, latest: SimDuration, ack_delay: SimDuration) {
        // A path without any delay is measured as a nanosecond, since zero means nothing measured.
        let latest = latest.max(SimDuration::from_nanos(1));
        self.latest = latest;
        if !self.is_measured() {
            self.min = latest;
            self.smoothed = latest;
            self.variation = latest / 2;
            return;
        }
        self.min = self.min.min(latest);
        let adjusted = if latest >= self.min + ack_delay { latest - ack_delay } else { latest };
        let error = self.smoothed.saturating_sub(adjusted).max(adjusted.saturating_sub(self.smoothed));
        self.variation = (self.variation * 3 + error) / 4;
        self.smoothed = (self.smoothed * 7 + adjusted) / 8;
    }

    /// Persistent congestion: the path may be another, whose least round trip is the newest, until a shorter one comes (section 5.2).
    pub(super) fn on_persistent(&mut self) {
        self.min = self.latest;
    }

    /// The probe time-out, without back-off and without the delay of acknowledgements.
    pub(super) fn probe_timeout(&self) -> SimDuration {
        self.smoothed + (self.variation * 4).max(GRANULARITY)
    }

    /// How long after sending a packet it counts as lost once a later one is acknowledged (section 6.1.2: `kTimeThreshold` is 9/8).
    pub(super) fn loss_delay(&self) -> SimDuration {
        (self.latest.max(self.smoothed) * 9 / 8).max(GRANULARITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> SimDuration {
        SimDuration::from_millis(millis)
    }

    /// Worked out by hand from A.7: 100 ms; then 200 ms of which 20 were withheld; then 110 ms with a delay that would lead below the least.
    #[test]
    fn three_samples() {
        let mut rtt = Rtt::new(ms(333));
        assert_eq!(rtt.probe_timeout(), ms(333) + ms(666));
        rtt.sample(ms(100), ms(20));
        assert_eq!((rtt.min, rtt.smoothed, rtt.variation), (ms(100), ms(100), ms(50)));
        assert_eq!(rtt.probe_timeout(), ms(300));
        assert_eq!(rtt.loss_delay().as_micros(), 112_500);
        rtt.sample(ms(200), ms(20));
        // Adjusted 180: variation (3 * 50 + 80) / 4 = 57.5, smoothed (7 * 100 + 180) / 8 = 110.
        assert_eq!((rtt.min, rtt.smoothed), (ms(100), ms(110)));
        assert_eq!(rtt.variation.as_micros(), 57_500);
        rtt.sample(ms(110), ms(20));
        // 110 < 100 + 20, so not adjusted: variation 57.5 * 3 / 4 = 43.125, smoothed 110.
        assert_eq!(rtt.smoothed, ms(110));
        assert_eq!(rtt.variation.as_micros(), 43_125);
        assert_eq!(rtt.loss_delay().as_micros(), 123_750);
    }

    #[test]
    fn a_steady_round_trip_leaves_the_granularity() {
        let mut rtt = Rtt::new(ms(333));
        for _ in 0..200 {
            rtt.sample(ms(50), ms(0));
        }
        assert_eq!(rtt.probe_timeout(), ms(51));
    }
}
