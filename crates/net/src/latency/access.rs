//! The last mile: access delay and access rates of hosts.
//!
//! A modelling choice, not a measurement of Tor's users: the delay is log-normal, because last-mile latencies are positive and
//! skewed. The reports "Measuring Broadband America" of the US Federal Communications Commission put the median round trip to a
//! nearby measurement server near 10 ms on fibre, 15 to 20 ms on cable and 25 to 35 ms on DSL; a mixture of them has a median
//! near 16 ms, and a log-normal sigma of 0.6 puts 90 % between 6 and 43 ms. One way is half of that.

use super::{LatencyTable, Place, builtin, builtin_places};
use onionlab_quantities::{Bandwidth, Draw, SimDuration};

/// The distribution of one-way access delays of a class of hosts: log-normal, cut at a maximum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AccessDelay {
    /// Half of the hosts have less (one way).
    pub median: SimDuration,
    /// Standard deviation of the delay's natural logarithm; 0 gives every host the median.
    pub sigma: f64,
    /// No host has more.
    pub max: SimDuration,
}

/// Access rates of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessBandwidth {
    /// From the host into the network.
    pub up: Bandwidth,
    /// From the network to the host.
    pub down: Bandwidth,
}

impl AccessDelay {
    /// Consumers' access lines: median 8 ms one way, sigma 0.6, at most 100 ms.
    pub const fn client() -> Self {
        Self { median: SimDuration::from_millis(8), sigma: 0.6, max: SimDuration::from_millis(100) }
    }

    /// Relays and servers in data centres: median 0.25 ms one way, sigma 0.5, at most 5 ms.
    pub const fn data_centre() -> Self {
        Self { median: SimDuration::from_micros(250), sigma: 0.5, max: SimDuration::from_millis(5) }
    }

    /// The delay that a random value stands for, rounded to a nanosecond.
    pub fn draw(&self, draw: Draw) -> SimDuration {
        self.median.mul_f64_rounded(draw.log_normal(0.0, self.sigma)).min(self.max)
    }
}

impl LatencyTable {
    /// Mean rates of consumers' access at a place, April 2020; a place that is not built in has those of the nearest built-in one.
    ///
    /// Deviation: every host of a place has the mean; real rates spread over two orders of magnitude.
    pub fn access_bandwidth(&self, place: Place) -> AccessBandwidth {
        let country = self.country(place);
        let index = builtin_places()
            .position(|p| p == country)
            .or_else(|| Some(usize::from(Self::builtin().place_of(country)?.0)))
            .expect("a table holds only countries with a centre");
        let (up, down) = builtin::ACCESS_KBITS[index];
        let rate = |kbits: u32| Bandwidth::from_bits_per_sec(u64::from(kbits) * 1_000);
        AccessBandwidth { up: rate(up), down: rate(down) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::Country;
    use onionlab_quantities::{RandomStream, Seed};

    #[test]
    fn delays_have_the_documented_quantiles() {
        let stream = RandomStream::new(Seed(1), "clients", "access delay");
        let mut delays: Vec<f64> = (0..10_001).map(|i| AccessDelay::client().draw(stream.at(i)).as_secs_f64() * 1e3).collect();
        delays.sort_by(f64::total_cmp);
        assert!((delays[5_000] - 8.0).abs() < 0.3, "median {}", delays[5_000]);
        assert!((delays[500] - 3.0).abs() < 0.3, "5 % {}", delays[500]);
        assert!((delays[9_500] - 21.5).abs() < 1.5, "95 % {}", delays[9_500]);
        assert!(delays[10_000] <= 100.0);
    }

    #[test]
    fn an_overridden_delay_is_obeyed() {
        let fixed = AccessDelay { median: SimDuration::from_millis(3), sigma: 0.0, max: SimDuration::from_millis(9) };
        let stream = RandomStream::new(Seed(1), "client1", "access delay");
        assert_eq!(fixed.draw(stream.at(0)), SimDuration::from_millis(3));
        let cut = AccessDelay { sigma: 50.0, ..fixed };
        assert!((0..100).any(|i| cut.draw(stream.at(i)) == SimDuration::from_millis(9)));
    }

    #[test]
    fn rates_by_place() {
        let table = LatencyTable::builtin();
        let rates = |code: &str| table.access_bandwidth(table.place_of(Country::parse(code).unwrap()).unwrap());
        assert_eq!(rates("DE").up, Bandwidth::from_bits_per_sec(23_380_000));
        assert_eq!(rates("DE").down, Bandwidth::from_bits_per_sec(90_820_000));
        for place in table.places() {
            let rates = table.access_bandwidth(place);
            assert!(
                rates.up >= Bandwidth::from_bits_per_sec(5_000_000) && rates.down >= Bandwidth::from_bits_per_sec(10_000_000)
            );
        }
    }
}
