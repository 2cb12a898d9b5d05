//! How long a client waits for a circuit to be built, learned from those that were (`core/or/circuitstats.c`).
//!
//! A pure state machine: it is told how long circuits took and which were given up, and says after what time a circuit is given up. Times to build
//! are taken for a Pareto distribution: its scale `Xm` is the mean of the fullest bins of a histogram, its shape `alpha` the maximum
//! likelihood estimate, the time-out a quantile. A circuit over its time is built on for measurement, until the close time.

use onionlab_quantities::{SimDuration, SimTime};

/// How the scale is found in the histogram, and what circuits count for that were never built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildTimeModel {
    /// Up to 0.4.4: the single fullest bin until all samples are there, then several, which may be the same one twice; circuits never built count as censored at
    /// the largest sample.
    Censored,
    /// Since 0.4.5: the fullest bins; circuits never built are left out.
    LeftOut,
}

/// Constants of the estimate, by tor's names of consensus parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BuildTimeoutParameters {
    /// Whether anything is learned at all (`LearnCircuitBuildTimeout`); otherwise every circuit has the initial time-out.
    pub learn: bool,
    /// How scale and shape are estimated.
    pub model: BuildTimeModel,
    /// Whether a circuit whose third relay answers late has timed out by that (`circuit_build_times_handle_completed_hop`, not in 0.2.4), or only once a second
    /// begins in which it is not built yet.
    pub at_each_hop: bool,
    /// Until something is learned, and the least close time (`cbtinitialtimeout`).
    pub initial: SimDuration,
    /// The least time-out (`cbtmintimeout`).
    pub least: SimDuration,
    /// Samples before anything is learned (`cbtmincircs`).
    pub min_circuits: u32,
    /// Samples kept (`CBT_NCIRCUITS_TO_OBSERVE`).
    pub kept: u32,
    /// Width of the histogram's bins (`CBT_BIN_WIDTH`).
    pub bin: SimDuration,
    /// Bins that make the scale (`cbtnummodes`).
    pub modes: u32,
    /// The quantile of the time-out, in percent (`cbtquantile`).
    pub quantile: u32,
    /// The quantile of the close time, in percent (`cbtclosequantile`).
    pub close_quantile: u32,
    /// Circuits that are looked at for too many time-outs (`cbtrecentcount`).
    pub recent: u32,
    /// So many of them discard what was learned (`cbtmaxtimeouts`).
    pub max_timeouts: u32,
    /// While learning, a circuit is built for that alone this long after the last one (`cbttestfreq`).
    pub test_frequency: SimDuration,
    /// Unless so many unused circuits are there (`cbtmaxopencircs`).
    pub max_unused: u32,
    /// While learning, an unused circuit is closed after this (`cbtlearntimeout`).
    pub learning_idle: SimDuration,
}

impl Default for BuildTimeoutParameters {
    /// tor 0.4.9's code defaults.
    fn default() -> Self {
        Self {
            learn: true,
            model: BuildTimeModel::LeftOut,
            at_each_hop: true,
            initial: SimDuration::from_secs(60),
            least: SimDuration::from_millis(10),
            min_circuits: 100,
            kept: 1000,
            bin: SimDuration::from_millis(10),
            modes: 10,
            quantile: 80,
            close_quantile: 99,
            recent: 20,
            max_timeouts: 18,
            test_frequency: SimDuration::from_secs(10),
            max_unused: 10,
            learning_idle: SimDuration::from_secs(180),
        }
    }
}

/// A circuit that was closed before it was built (`CBT_BUILD_ABANDONED`).
const ABANDONED: u32 = u32::MAX;
/// The largest time that an estimate gives (`INT32_MAX`).
const MOST_MILLIS: f64 = 2_147_483_647.0;

/// One client's estimate (`circuit_build_times_t`). Times in milliseconds, as tor keeps them.
#[derive(Debug, Clone)]
pub(crate) struct BuildTimeout {
    /// A ring once it is full: `next` is the oldest.
    samples: Vec<u32>,
    next: u32,
    timeout: f64,
    close: f64,
    /// The last circuits that had their first hop: whether they timed out. A ring once it is full: `recent_at` is the oldest.
    recent: Vec<bool>,
    recent_at: u32,
    /// A cell came last.
    last_live: SimTime,
    /// Circuits given up of which no cell came at all since their launch.
    nonlive: u32,
    /// A circuit was launched last.
    last_launch: SimTime,
}

impl BuildTimeout {
    pub fn new(parameters: &BuildTimeoutParameters) -> Self {
        let initial = millis(parameters.initial);
        Self {
            samples: Vec::new(),
            next: 0,
            timeout: initial,
            close: initial,
            recent: Vec::new(),
            recent_at: 0,
            last_live: SimTime::ZERO,
            nonlive: 0,
            last_launch: SimTime::ZERO,
        }
    }

    /// After this long a circuit is not waited for any more.
    pub fn timeout(&self) -> SimDuration {
        rounded(self.timeout)
    }

    /// After this long a circuit is closed that was built on for measurement (`get_circuit_build_close_time_ms`).
    pub fn close(&self) -> SimDuration {
        rounded(self.close)
    }

    /// Whether there are enough samples for the time-out to mean anything (`circuit_build_times_enough_to_compute`).
    pub fn learned(&self, parameters: &BuildTimeoutParameters) -> bool {
        self.samples.len() as u32 >= parameters.min_circuits
    }

    /// A circuit is launched (`circuit_build_times_update_last_circ`).
    pub fn launched(&mut self, now: SimTime) {
        self.last_launch = now;
    }

    /// From when on a circuit is built for measurement alone, unless another one comes before (`circuit_build_times_needs_circuits_now`).
    pub fn test_due(&self, parameters: &BuildTimeoutParameters) -> Option<SimTime> {
        let learning = parameters.learn && !self.learned(parameters);
        // tor compares whole seconds, and wants more than the frequency.
        learning.then(|| self.last_launch + parameters.test_frequency + SimDuration::from_secs(1))
    }

    /// A cell came (`circuit_build_times_network_is_live`).
    pub fn heard(&mut self, now: SimTime) {
        self.last_live = now;
        self.nonlive = 0;
    }

    /// A circuit has its third hop after `took`, in time or not (`circuit_build_times_handle_completed_hop`, its second half).
    pub fn built(&mut self, parameters: &BuildTimeoutParameters, took: SimDuration, in_time: bool) {
        if !parameters.learn {
            return;
        }
        let took = (took.as_nanos() + 500_000) / 1_000_000;
        if took as f64 > 2.0 * self.close + 1000.0 {
            return;
        }
        if self.nonlive == 0 {
            self.add(parameters, (took as u32).max(1));
            self.estimate(parameters);
        }
        if in_time {
            self.note(parameters, false);
        }
    }

    /// A circuit is over its time (`circuit_build_times_count_timeout`).
    pub fn timed_out(&mut self, parameters: &BuildTimeoutParameters, had_first_hop: bool) {
        if !parameters.learn {
            return;
        }
        if had_first_hop {
            self.note(parameters, true);
        }
        if (self.recent.iter().filter(|&&late| late).count() as u32) < parameters.max_timeouts {
            return;
        }
        // `circuit_build_times_network_check_changed`
        self.samples.clear();
        self.recent.clear();
        (self.next, self.recent_at) = (0, 0);
        let initial = millis(parameters.initial);
        if self.timeout < initial {
            (self.timeout, self.close) = (initial, initial);
        } else if self.timeout <= MOST_MILLIS / 2.0 && self.close <= MOST_MILLIS / 2.0 {
            (self.timeout, self.close) = (2.0 * self.timeout, 2.0 * self.close);
        }
    }

    /// A circuit launched at `launched` was closed before it was built, its time for measurement over (`circuit_build_times_count_close`).
    pub fn abandoned(&mut self, parameters: &BuildTimeoutParameters, launched: SimTime) {
        if !parameters.learn {
            return;
        }
        if self.last_live < launched {
            self.nonlive += 1;
        }
        if self.nonlive == 0 {
            self.add(parameters, ABANDONED);
            self.estimate(parameters);
        }
    }

    fn add(&mut self, parameters: &BuildTimeoutParameters, sample: u32) {
        if (self.samples.len() as u32) < parameters.kept {
            self.samples.push(sample);
        } else {
            self.samples[self.next as usize] = sample;
        }
        self.next = (self.next + 1) % parameters.kept;
    }

    fn note(&mut self, parameters: &BuildTimeoutParameters, timed_out: bool) {
        if (self.recent.len() as u32) < parameters.recent {
            self.recent.push(timed_out);
        } else {
            self.recent[self.recent_at as usize] = timed_out;
        }
        self.recent_at = (self.recent_at + 1) % parameters.recent;
    }

    /// The samples of circuits that were built.
    fn times(&self) -> impl Iterator<Item = u32> {
        self.samples.iter().copied().filter(|&sample| sample != ABANDONED)
    }

    /// `circuit_build_times_set_timeout`
    fn estimate(&mut self, parameters: &BuildTimeoutParameters) {
        if !self.learned(parameters) {
            return;
        }
        let Some(scale) = self.scale(parameters) else { return };
        let Some(alpha) = self.shape(parameters, scale) else { return };
        let largest = f64::from(self.times().max().unwrap_or(0));
        self.timeout = quantile(scale, alpha, parameters.quantile).min(largest).max(millis(parameters.least));
        let close = quantile(scale, alpha, parameters.close_quantile.max(parameters.quantile));
        self.close = close.min(2.0 * largest).max(millis(parameters.initial));
    }

    /// Xm: the mean of the fullest bins' middles, weighted by what they hold, in whole milliseconds (`circuit_build_times_get_xm`).
    fn scale(&self, parameters: &BuildTimeoutParameters) -> Option<u32> {
        let width = (parameters.bin.as_nanos() / 1_000_000) as u32;
        let mut histogram = vec![0_u32; 1 + (self.times().max()? / width) as usize];
        for time in self.times() {
            histogram[(time / width) as usize] += 1;
        }
        let bins = match parameters.model {
            BuildTimeModel::LeftOut => fullest(histogram, parameters.modes as usize),
            BuildTimeModel::Censored => {
                let modes = if self.samples.len() < parameters.kept as usize { 1 } else { parameters.modes as usize };
                each_less_full(&histogram, modes)
            }
        };
        let count: u64 = bins.iter().map(|&(_, count)| u64::from(count)).sum();
        let total: u64 = bins.iter().map(|&(bin, count)| u64::from(bin * width + width / 2) * u64::from(count)).sum();
        total.checked_div(count).map(|scale| scale as u32)
    }

    /// alpha (`circuit_build_times_update_alpha`).
    fn shape(&self, parameters: &BuildTimeoutParameters, scale: u32) -> Option<f64> {
        let ln = |time: u32| libm::log(f64::from(time));
        let mut sum: f64 = self.times().map(|time| ln(time.max(scale))).sum();
        let built = self.times().count() as f64;
        let mut all = built;
        if parameters.model == BuildTimeModel::Censored {
            let largest = self.times().filter(|&time| time >= scale).max()?;
            all = self.samples.len() as f64;
            sum += (all - built) * ln(largest);
        }
        Some(built / (sum - all * ln(scale)))
    }
}

/// The fullest bins, of equals the first.
fn fullest(mut histogram: Vec<u32>, modes: usize) -> Vec<(u32, u32)> {
    let next = |_| {
        let mut most = 0;
        for bin in 1..histogram.len() {
            if histogram[bin] > histogram[most] {
                most = bin;
            }
        }
        (most as u32, std::mem::take(&mut histogram[most]))
    };
    (0..modes).map(next).collect()
}

/// The fullest bin, of equals the last, and after it those that, when their turn came, held less than the one before, in one go through the histogram. While the one
/// before is still empty any bin will do, so that one can be there twice.
fn each_less_full(histogram: &[u32], modes: usize) -> Vec<(u32, u32)> {
    let mut bins = vec![0; modes];
    for (bin, &count) in histogram.iter().enumerate() {
        if count >= histogram[bins[0]] {
            bins[0] = bin;
        }
        for mode in 1..modes {
            let before = histogram[bins[mode - 1]];
            if count >= histogram[bins[mode]] && (before == 0 || count < before) {
                bins[mode] = bin;
            }
        }
    }
    bins.into_iter().map(|bin| (bin as u32, histogram[bin])).collect()
}

/// `circuit_build_times_calculate_timeout`
fn quantile(scale: u32, alpha: f64, percent: u32) -> f64 {
    if alpha.is_nan() || alpha <= 0.0 {
        return MOST_MILLIS;
    }
    let p = libm::pow(1.0 - f64::from(percent) / 100.0, 1.0 / alpha);
    if p > 0.0 { (f64::from(scale) / p).min(MOST_MILLIS) } else { MOST_MILLIS }
}

fn millis(duration: SimDuration) -> f64 {
    duration.as_nanos() as f64 / 1e6
}

/// To whole milliseconds, as tor rounds them for its cut-offs.
fn rounded(millis: f64) -> SimDuration {
    SimDuration::from_millis(libm::round(millis) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: fn() -> BuildTimeoutParameters = BuildTimeoutParameters::default;

    /// As tor 0.3.5 has them.
    fn old() -> BuildTimeoutParameters {
        BuildTimeoutParameters {
            model: BuildTimeModel::Censored,
            least: SimDuration::from_millis(1500),
            bin: SimDuration::from_millis(50),
            modes: 3,
            close_quantile: 95,
            ..NEW()
        }
    }

    fn ms(millis: u64) -> SimDuration {
        SimDuration::from_millis(millis)
    }

    fn told(parameters: &BuildTimeoutParameters, times: &[u64]) -> BuildTimeout {
        let mut learner = BuildTimeout::new(parameters);
        for &time in times {
            learner.built(parameters, ms(time), true);
        }
        learner
    }

    /// 60 at 300 ms, 30 at 400 ms and 10 at 900 ms. The bins' middles are 305, 405 and 905: Xm = (60 * 305 + 30 * 405 + 10 * 905) / 100 = 395. Below Xm counts as Xm:
    /// alpha = 100 / (30 ln(400 / 395) + 10 ln(900 / 395)) = 100 / (0.3774 + 8.2349) = 11.611. Time-out 395 * 0.2^(-1 / 11.611) = 395 * 1.14868 = 453.7 ms.
    /// Close time 395 * 0.01^(-1 / 11.611) = 587 ms, at least 60 s.
    #[test]
    fn the_estimate_step_by_step() {
        let mut times = vec![300; 60];
        times.extend([400; 30]);
        times.extend([900; 9]);
        let mut learner = told(&NEW(), &times);
        assert_eq!((learner.timeout(), learner.close()), (ms(60_000), ms(60_000)), "99 samples are too few");
        assert!(!learner.learned(&NEW()));
        learner.built(&NEW(), ms(900), true);
        assert_eq!(learner.scale(&NEW()), Some(395));
        let alpha = learner.shape(&NEW(), 395).unwrap();
        assert!((alpha - 11.611).abs() < 0.001, "{alpha}");
        assert_eq!((learner.timeout(), learner.close()), (ms(454), ms(60_000)));
        // Circuits never built change nothing but the count.
        learner.heard(SimTime::from_nanos(5));
        learner.abandoned(&NEW(), SimTime::ZERO);
        assert_eq!((learner.samples.len(), learner.timeout()), (101, ms(454)));
    }

    /// The same 100 samples in tor 0.3.5: bins of 50 ms, one mode, its middle 325 ms. alpha = 100 / (30 ln(400 / 325) + 10 ln(900 / 325)) = 100 / (6.2292 + 10.1857) =
    /// 6.0920; 325 * 0.2^(-1 / 6.0920) = 423.3, below the least of 1.5 s. With 20 circuits never built, censored at 900 ms: alpha = 100 / (16.4149 + 20 * 1.01857) =
    /// 2.7184, the quantile 587.5 ms.
    #[test]
    fn the_estimate_of_older_versions() {
        let mut times = vec![300; 60];
        times.extend([400; 30]);
        times.extend([900; 10]);
        let parameters = old();
        let mut learner = told(&parameters, &times);
        assert_eq!(learner.scale(&parameters), Some(325));
        let alpha = learner.shape(&parameters, 325).unwrap();
        assert!((alpha - 6.0920).abs() < 0.001, "{alpha}");
        assert_eq!(learner.timeout(), ms(1500));
        learner.heard(SimTime::from_nanos(5));
        let lower = BuildTimeoutParameters { least: ms(10), ..parameters };
        for _ in 0..20 {
            learner.abandoned(&lower, SimTime::ZERO);
        }
        let alpha = learner.shape(&lower, 325).unwrap();
        assert!((alpha - 2.7184).abs() < 0.001, "{alpha}");
        assert_eq!(learner.timeout(), ms(588));
    }

    /// With a thousand samples there are three modes, found in one go through the histogram, which counts the first full bin twice: 500 at 100 ms, 300 at 200 ms, 200 at
    /// 300 ms give the middles 125, 225 and again 125, weighted 500, 300 and 500: 148.
    #[test]
    fn older_versions_use_three_modes_once_all_samples_are_there() {
        let mut times = vec![100; 500];
        times.extend([200; 300]);
        times.extend([300; 199]);
        let mut learner = told(&old(), &times);
        assert_eq!(learner.scale(&old()), Some(125));
        learner.built(&old(), ms(300), true);
        assert_eq!(learner.scale(&old()), Some(148));
    }

    /// The time-out is capped at the largest sample, the close time at twice that where it is over a minute.
    #[test]
    fn no_estimate_goes_far_beyond_what_was_seen() {
        // Half at 1 s, half at 40 s: Xm in between, alpha small.
        let mut times = vec![1_000; 50];
        times.extend([40_000; 50]);
        let learner = told(&NEW(), &times);
        // Xm = (50 * 1005 + 50 * 40005) / 100 = 20505; alpha = 100 / (50 ln(40000 / 20505)) = 2.9931; 20505 * 0.2^(-1 / 2.9931) = 35107; 0.99: 95515 > 2 * 40000.
        assert_eq!(learner.scale(&NEW()), Some(20_505));
        assert_eq!((learner.timeout(), learner.close()), (ms(35_107), ms(80_000)));
        let learner = told(&NEW(), &[500; 100]);
        assert_eq!(learner.timeout(), ms(500), "all alike: alpha is infinite or negative, the cap remains");
    }

    /// Eighteen of the last twenty circuits over their time, after their first hop: everything is forgotten, the time-out is a minute again, and twice that if it happens once
    /// more before anything is learned.
    #[test]
    fn too_many_timeouts_discard_what_was_learned() {
        let mut learner = told(&NEW(), &[300; 120]);
        assert!(learner.timeout() < ms(400));
        for _ in 0..10 {
            learner.timed_out(&NEW(), false);
        }
        for _ in 0..17 {
            learner.timed_out(&NEW(), true);
        }
        learner.built(&NEW(), ms(300), true);
        assert!(learner.learned(&NEW()));
        learner.timed_out(&NEW(), true);
        assert!(!learner.learned(&NEW()));
        assert_eq!((learner.timeout(), learner.close()), (ms(60_000), ms(60_000)));
        for _ in 0..18 {
            learner.timed_out(&NEW(), true);
        }
        assert_eq!((learner.timeout(), learner.close()), (ms(120_000), ms(120_000)));
    }

    /// The oldest of a thousand samples makes room for the newest; one over twice the close time is taken for a jump of the clock.
    #[test]
    fn a_thousand_samples_are_kept() {
        let mut learner = told(&NEW(), &[300; 1000]);
        for _ in 0..999 {
            learner.built(&NEW(), ms(700), true);
        }
        assert_eq!(learner.times().filter(|&time| time == 300).count(), 1);
        learner.built(&NEW(), ms(121_001), true);
        assert_eq!(learner.samples.len(), 1000);
        assert_eq!(learner.times().max(), Some(700));
    }

    /// While nothing is heard from the network at all, what is given up says nothing about circuits.
    #[test]
    fn a_dead_network_teaches_nothing() {
        let second = |count: u64| SimTime::from_nanos(count * 1_000_000_000);
        let mut learner = told(&NEW(), &[300; 100]);
        learner.heard(second(10));
        learner.abandoned(&NEW(), second(11));
        learner.built(&NEW(), ms(900), true);
        assert_eq!(learner.samples.len(), 100);
        learner.heard(second(100));
        learner.abandoned(&NEW(), second(99));
        assert_eq!(learner.samples.len(), 101);
    }

    #[test]
    fn nothing_is_learned_if_that_is_switched_off() {
        let fixed = BuildTimeoutParameters { learn: false, ..NEW() };
        let mut learner = told(&fixed, &[300; 200]);
        for _ in 0..20 {
            learner.timed_out(&fixed, true);
        }
        assert_eq!((learner.timeout(), learner.test_due(&fixed)), (ms(60_000), None));
        assert_eq!(told(&NEW(), &[300; 99]).test_due(&NEW()), Some(SimTime::ZERO + ms(11_000)));
        assert_eq!(told(&NEW(), &[300; 100]).test_due(&NEW()), None);
    }
}
