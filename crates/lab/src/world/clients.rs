//! What clients do about circuits: what a version of tor has in its code, and what the consensus says about the time to build them.

use crate::scenario::resolved::Treatment;
use crate::scenario::version::TorVersion;
use onionlab_directory::params::{self, Param, Params};
use onionlab_quantities::{Bytes, SimDuration};
use onionlab_tor::{BuildTimeModel, BuildTimeoutParameters, ClientSettings};

/// What clients do under this treatment and a consensus with `params`.
pub(super) fn settings(treatment: &Treatment, params: &Params) -> ClientSettings {
    let of_version = of_version(treatment.tor, params);
    let predict = treatment.predicted_circuits != Some(false);
    let build_timeout = BuildTimeoutParameters {
        learn: of_version.build_timeout.learn && predict,
        bin: treatment.build_time_bin.unwrap_or(of_version.build_timeout.bin),
        ..of_version.build_timeout
    };
    let first_port = treatment.first_port.map_or(of_version.first_port, |port| port as u16);
    ClientSettings { predict, build_timeout, first_port, ..of_version }
}

/// What clients of `version` do under a consensus with `params`.
fn of_version(version: TorVersion, params: &Params) -> ClientSettings {
    let code = of_code(version);
    let available = &params::CLIENT_CIRCUITS_AVAILABLE;
    let given = params.get(available.name).filter(|_| version >= TorVersion::V0_3_5);
    // The time itself, and up to as much again (`channelpadding_get_circuits_available_timeout`).
    let given = given.map(|seconds| SimDuration::from_secs(seconds.clamp(available.min, available.max) as u64));
    ClientSettings {
        build_timeout: build_timeout(version, params, code.build_timeout),
        prediction: given.unwrap_or(code.prediction),
        prediction_spread: given.unwrap_or(code.prediction_spread),
        ..code
    }
}

fn of_code(version: TorVersion) -> ClientSettings {
    let new = ClientSettings::default();
    let (ms, secs) = (SimDuration::from_millis, SimDuration::from_secs);
    if version >= TorVersion::V0_4_9 {
        return new;
    }
    let build_timeout = BuildTimeoutParameters {
        model: BuildTimeModel::Censored,
        least: ms(1500),
        bin: ms(50),
        modes: 3,
        close_quantile: 95,
        ..new.build_timeout
    };
    let program_read = Bytes::new(1 << 14);
    if version >= TorVersion::V0_3_5 {
        return ClientSettings { build_timeout, internal_failures: true, program_read, ..new };
    }
    let build_timeout = BuildTimeoutParameters {
        at_each_hop: false,
        test_frequency: secs(60),
        max_unused: 12,
        learning_idle: secs(600),
        ..build_timeout
    };
    ClientSettings {
        build_timeout,
        first_port: 80,
        prediction: secs(3600),
        prediction_spread: SimDuration::ZERO,
        internal: 2,
        // There it counts only while Stable ones are expected, of which all that are launched then are.
        stable_internal: 0,
        internal_failures: true,
        newest_first: true,
        all_try: false,
        program_read,
        unused_idle: Some(secs(3600)),
        ..new
    }
}

/// The parameters `cbt*` (`core/or/circuitstats.c`; the last two in `circuitlist.c` and `circuituse.c`, since 0.3.1). Where the consensus is silent the
/// code's value stays. What the consensus says about close time and initial time-out is raised to quantile and least time-out, as tor raises it.
fn build_timeout(version: TorVersion, params: &Params, code: BuildTimeoutParameters) -> BuildTimeoutParameters {
    let read = |param: &Param| params.get(param.name).map(|value| value.clamp(param.min, param.max) as u32);
    let since_middle = |param: &Param| read(param).filter(|_| version >= TorVersion::V0_3_5);
    let ms = |value: u32| SimDuration::from_millis(u64::from(value));
    let secs = |value: u32| SimDuration::from_secs(u64::from(value));
    // Half a second was the least in the code that went with bins of 50 ms.
    let floor = if code.model == BuildTimeModel::Censored { ms(500) } else { code.bin };
    let quantile = read(&params::CBT_QUANTILE).unwrap_or(code.quantile);
    let least = read(&params::CBT_MIN_TIMEOUT).map_or(code.least, |value| ms(value).max(floor));
    BuildTimeoutParameters {
        learn: code.learn && read(&params::CBT_DISABLED) != Some(1),
        initial: read(&params::CBT_INITIAL_TIMEOUT).map_or(code.initial, ms).max(least),
        least,
        min_circuits: read(&params::CBT_MIN_CIRCUITS).unwrap_or(code.min_circuits),
        modes: read(&params::CBT_NUM_MODES).unwrap_or(code.modes),
        quantile,
        close_quantile: read(&params::CBT_CLOSE_QUANTILE).unwrap_or(code.close_quantile).max(quantile),
        recent: read(&params::CBT_RECENT_COUNT).unwrap_or(code.recent),
        max_timeouts: read(&params::CBT_MAX_TIMEOUTS).unwrap_or(code.max_timeouts),
        test_frequency: read(&params::CBT_TEST_FREQUENCY).map_or(code.test_frequency, secs),
        max_unused: since_middle(&params::CBT_MAX_OPEN_CIRCUITS).unwrap_or(code.max_unused),
        learning_idle: since_middle(&params::CBT_LEARN_TIMEOUT).map_or(code.learning_idle, secs),
        ..code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(version: TorVersion, pairs: &[(&str, i32)]) -> BuildTimeoutParameters {
        of_version(version, &pairs.iter().copied().collect()).build_timeout
    }

    #[test]
    fn a_silent_consensus_leaves_the_code_as_it_is() {
        for version in [TorVersion::V0_2_4, TorVersion::V0_3_5, TorVersion::V0_4_9] {
            assert_eq!(of(version, &[]), of_code(version).build_timeout);
        }
    }

    /// `cbttestfreq` is what the consensuses since 2017 set.
    #[test]
    fn what_the_consensus_says_is_taken_within_tor_s_ranges() {
        let found =
            of(TorVersion::V0_4_9, &[("cbttestfreq", 60), ("cbtquantile", 5), ("cbtrecentcount", 5000), ("cbtmincircs", 0)]);
        assert_eq!(found.test_frequency, SimDuration::from_secs(60));
        assert_eq!((found.quantile, found.recent, found.min_circuits), (10, 1000, 1));
        assert!(!of(TorVersion::V0_3_5, &[("cbtdisabled", 1)]).learn);
    }

    #[test]
    fn least_and_close_push_up_what_may_not_lie_below() {
        let found = of(TorVersion::V0_4_9, &[("cbtmintimeout", 90_000), ("cbtquantile", 90), ("cbtclosequantile", 20)]);
        assert_eq!((found.least, found.initial), (SimDuration::from_secs(90), SimDuration::from_secs(90)));
        assert_eq!((found.quantile, found.close_quantile), (90, 90));
        assert_eq!(of(TorVersion::V0_3_5, &[("cbtmintimeout", 20)]).least, SimDuration::from_millis(500));
        assert_eq!(of(TorVersion::V0_4_9, &[("cbtmintimeout", 20)]).least, SimDuration::from_millis(20));
    }

    #[test]
    fn a_port_is_expected_for_as_long_as_the_consensus_says() {
        let of = |version, seconds| of_version(version, &[("nf_conntimeout_clients", seconds)].into_iter().collect());
        let expected = |settings: ClientSettings| (settings.prediction, settings.prediction_spread);
        let secs = SimDuration::from_secs;
        assert_eq!(expected(of(TorVersion::V0_4_9, 600)), (secs(600), secs(600)));
        assert_eq!(expected(of(TorVersion::V0_3_5, 1)), (secs(60), secs(60)), "a minute is the least");
        assert_eq!(expected(of(TorVersion::V0_2_4, 600)), (secs(3600), SimDuration::ZERO));
    }

    #[test]
    fn the_oldest_version_does_not_know_the_newest_parameters() {
        let new = [("cbtmaxopencircs", 3), ("cbtlearntimeout", 20)];
        let (old, middle) = (of(TorVersion::V0_2_4, &new), of(TorVersion::V0_3_5, &new));
        assert_eq!((old.max_unused, old.learning_idle), (12, SimDuration::from_secs(600)));
        assert_eq!((middle.max_unused, middle.learning_idle), (3, SimDuration::from_secs(20)));
    }
}
