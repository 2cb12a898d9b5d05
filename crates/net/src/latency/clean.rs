//! From raw statistics of pings to a table without holes.
//!
//! 1. The greatest ping of a pair is taken out of its mean and deviation: one lost and found again after 301 s can double them.
//! 2. No round trip is below the time of light in fibre between the countries' centres (within a country: over its extent).
//! 3. What a mean has above that floor is taken as log-normal with the measured deviation; its median is kept, since a few
//!    addresses placed in a wrong country pull means up.
//! 4. round trip = scale * distance^exponent is fitted (least squares in logarithms, through the medians of bins with equally
//!    many pairs) to the pairs of different countries with enough pings; it fills the gaps, never below the floor, and caps
//!    round trips within a country.
//! 5. The deviation is capped at a share of the round trip, because a country's mixes many paths.
//!
//! `tools/fit_latency.py` does the same for the built-in table. `docs/latency.md` counts what each step changes.

use super::LatencyTable;
use super::country::{Country, distance_km, floor_ms};
use super::read::MAX_MS;
use onionlab_quantities::SimDuration;
use std::collections::{BTreeMap, BTreeSet};

const REGRESSION_MIN_PINGS: u64 = 1000;
const REGRESSION_BINS: usize = 16;
const DEVIATION_CAP: f64 = 0.02;

/// One row of the file: statistics of the pings between two countries, in ms.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measurement {
    /// In alphabetical order.
    pub pair: (Country, Country),
    pub pings: u64,
    pub mean_ms: f64,
    pub deviation_ms: f64,
    pub max_ms: f64,
}

/// What the cleaning of a file did, in numbers of pairs of countries (a country with itself among them).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cleaning {
    /// Pairs that were in the file.
    pub measured: usize,
    /// Rows left out because a code names no known country.
    pub skipped: usize,
    /// Measured pairs whose mean is below the time of light in fibre; they have that time now.
    pub floored: usize,
    /// Countries whose round trip within was cut down to the regression.
    pub capped_within: usize,
    /// Pairs whose deviation was cut.
    pub capped_deviations: usize,
    /// Pairs that were not in the file and follow the regression.
    pub filled: usize,
    /// Regression: round trip in ms at a distance of 1 km.
    pub scale: f64,
    /// Regression: power of the distance.
    pub exponent: f64,
}

impl Measurement {
    /// Mean and deviation without the greatest value.
    fn without_maximum(&self) -> (f64, f64) {
        if self.pings <= 2 {
            return (self.mean_ms, self.deviation_ms);
        }
        let n = self.pings as f64;
        let mean = (n * self.mean_ms - self.max_ms) / (n - 1.0);
        let excess = self.max_ms - self.mean_ms;
        let squares = (n - 1.0) * self.deviation_ms * self.deviation_ms - excess * excess * n / (n - 1.0);
        (mean, libm::sqrt((squares / (n - 2.0)).max(0.0)))
    }
}

/// The median of `floor` plus a log-normal excess, from mean (above the floor) and deviation of the whole.
fn log_normal_median(floor: f64, mean: f64, deviation: f64) -> f64 {
    let variation = deviation / (mean - floor);
    floor + (mean - floor) / libm::sqrt(1.0 + variation * variation)
}

/// Distance in km, pair, round trip in ms.
type Point = (f64, (Country, Country), f64);

/// The median of `values`, which must not be empty.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}

/// Scale and exponent of the regression; `None` with fewer than two pairs a bin or where distances hardly differ.
fn regression(mut points: Vec<Point>) -> Option<(f64, f64)> {
    if points.len() < 2 * REGRESSION_BINS {
        return None;
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let bin = |i: usize| &points[i * points.len() / REGRESSION_BINS..(i + 1) * points.len() / REGRESSION_BINS];
    let of_bin =
        |i: usize, f: &dyn Fn(&Point) -> f64| median(&mut bin(i).iter().map(|point| libm::log(f(point))).collect::<Vec<_>>());
    let xs: Vec<f64> = (0..REGRESSION_BINS).map(|i| of_bin(i, &|p| p.0)).collect();
    let ys: Vec<f64> = (0..REGRESSION_BINS).map(|i| of_bin(i, &|p| p.2)).collect();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_x, mean_y) = (mean(&xs), mean(&ys));
    let covariance: f64 = xs.iter().zip(&ys).map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = xs.iter().map(|x| (x - mean_x) * (x - mean_x)).sum();
    let exponent = covariance / variance;
    let scale = libm::exp(mean_y - exponent * mean_x);
    (scale.is_normal() && exponent.abs() < 100.0).then_some((scale, exponent))
}

/// The table of all countries that occur; `None` if there is too little for the regression.
pub(super) fn clean(measurements: &[Measurement], skipped: usize) -> Option<LatencyTable> {
    let mut measured: BTreeMap<(Country, Country), (f64, f64)> = BTreeMap::new();
    let mut trusted = Vec::new();
    let mut floored = 0;
    for row in measurements {
        let (a, b) = row.pair;
        let floor = floor_ms(a, b)?;
        let (mean, deviation) = row.without_maximum();
        let rtt = if mean > floor {
            let rtt = log_normal_median(floor, mean, deviation);
            if a != b && row.pings >= REGRESSION_MIN_PINGS {
                trusted.push((distance_km(a, b)?, row.pair, rtt));
            }
            rtt
        } else {
            floored += 1;
            floor
        };
        measured.insert(row.pair, (rtt, deviation));
    }
    let (scale, exponent) = regression(trusted)?;
    let countries: BTreeSet<Country> = measured.keys().flat_map(|&(a, b)| [a, b]).collect();
    let mut cleaning = Cleaning {
        measured: measured.len(),
        skipped,
        floored,
        capped_within: 0,
        capped_deviations: 0,
        filled: 0,
        scale,
        exponent,
    };
    let mut table = LatencyTable::assemble(countries.into_iter().collect(), |a, b| {
        let line = (scale * libm::pow(distance_km(a, b)?, exponent)).clamp(floor_ms(a, b)?, MAX_MS);
        let found = measured.get(&(a.min(b), a.max(b)));
        cleaning.filled += usize::from(found.is_none());
        let mut rtt = found.map_or(line, |pair| pair.0);
        if a == b && rtt > line {
            cleaning.capped_within += 1;
            rtt = line;
        }
        let cap = DEVIATION_CAP * rtt;
        let deviation = found.map_or(cap, |pair| pair.1);
        cleaning.capped_deviations += usize::from(deviation > cap);
        let micros = |ms: f64| SimDuration::from_micros(libm::floor(ms * 1000.0 + 0.5) as u64);
        Some([micros(rtt), micros(deviation.min(cap))])
    })?;
    table.cleaning = Some(cleaning);
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_ping_leaves_mean_and_deviation() {
        let pair = (Country::parse("DE").unwrap(), Country::parse("NL").unwrap());
        // 10, 11, 12, 13 and 1000 ms: mean 209.2, sample deviation sqrt(4 * variance).
        let values = [10.0, 11.0, 12.0, 13.0, 1000.0];
        let mean_ms: f64 = values.iter().sum::<f64>() / 5.0;
        let deviation_ms = (values.iter().map(|v| (v - mean_ms).powi(2)).sum::<f64>() / 4.0).sqrt();
        let row = Measurement { pair, pings: 5, mean_ms, deviation_ms, max_ms: 1000.0 };
        let (mean, deviation) = row.without_maximum();
        assert!((mean - 11.5).abs() < 1e-9);
        assert!((deviation - (5.0_f64 / 3.0).sqrt()).abs() < 1e-6);
    }

    #[test]
    fn the_median_of_a_log_normal_is_recovered_from_its_moments() {
        let (floor, mu, sigma) = (4.0, 2.0_f64, 1.2_f64);
        let mean = (mu + sigma * sigma / 2.0).exp();
        let deviation = mean * ((sigma * sigma).exp() - 1.0).sqrt();
        assert!((log_normal_median(floor, floor + mean, deviation) - (floor + mu.exp())).abs() < 1e-9);
    }

    #[test]
    fn the_regression_is_not_moved_by_a_tenth_of_wild_points() {
        let pair = (Country::parse("DE").unwrap(), Country::parse("NL").unwrap());
        let points = (1..=400).map(|i| {
            let distance = f64::from(i) * 40.0;
            let rtt = 0.3 * distance.powf(0.7);
            (distance, pair, if i % 10 == 0 { rtt * 50.0 } else { rtt })
        });
        let (scale, exponent) = regression(points.collect()).unwrap();
        // Least squares through all points would be 48 % too high.
        for distance in [300.0_f64, 3_000.0, 15_000.0] {
            let ratio = scale * distance.powf(exponent) / (0.3 * distance.powf(0.7));
            assert!((ratio - 1.0).abs() < 0.06, "{distance} km: {ratio}");
        }
        assert_eq!(regression(vec![(1.0, pair, 1.0); 31]), None);
        assert_eq!(regression(vec![(1.0, pair, 1.0); 320]), None, "all at one distance");
    }
}
