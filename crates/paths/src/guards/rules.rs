//! The numbers by which a client keeps guards: its version's and the consensus's.

use onionlab_directory::params::{self, Param, Params};

/// Which code keeps the guards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardVersion {
    /// 0.2.4: a list that grows when it must ([`super::listed`]).
    V0_2_4,
    /// 0.3.5: sampled, confirmed and primary guards (proposal 271), chosen from the sample at random.
    V0_3_5,
    /// 0.4.9: the same, in the order of the sample; a guard that the path excludes counts among those in use.
    V0_4_9,
}

/// How a client keeps guards. Times are in seconds.
///
/// Source: C tor `entrynodes.c`, the functions `get_...` near its beginning, and for 0.2.4 `or/entrynodes.c:guards_get_lifetime`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardRules {
    /// Whose code.
    pub version: GuardVersion,
    /// Guards that a circuit chooses among.
    pub in_use: u32,
    /// Primary guards that a client keeps.
    pub primary: u32,
    /// The sample's share of all guards at most, in percent.
    pub max_sample_percent: u32,
    /// Guards in the sample at most, unless fewer than the next number.
    pub max_sample: u32,
    /// Usable guards in the sample if possible.
    pub min_filtered_sample: u32,
    /// How long a guard is kept.
    pub lifetime: u32,
    /// How long a confirmed guard is kept.
    pub confirmed_lifetime: u32,
    /// After this time a guard that is not listed any more is forgotten.
    pub remove_unlisted: u32,
    /// Without a success for so long the client thinks that it was off line.
    pub internet_likely_down: u32,
    /// A circuit over a lesser guard waits so long for a better guard that is being tried.
    pub connect_timeout: u32,
    /// A circuit that waits for a better guard is given up after this time.
    pub idle_timeout: u32,
}

const DAY: u32 = 86_400;

impl GuardRules {
    /// The rules of a version under a consensus's parameters; `in_use` is the client's own number of guards (`NumEntryGuards`), if it has one. With more than the primary ones
    /// as many are primary (`NumPrimaryGuards`), without which tor would not use them all.
    pub fn new(version: GuardVersion, params: &Params, in_use: Option<u32>) -> Self {
        let value = |param: &Param| params.value(param) as u32;
        let listed = version == GuardVersion::V0_2_4;
        let own = in_use.unwrap_or(0);
        let in_use = in_use.unwrap_or(if listed { 3 } else { value(&params::PRIMARY_GUARDS_TO_USE) }).max(1);
        // 30 days on top, because dates are smudged by as much into the past.
        let of_list = value(&params::GUARD_LIFETIME_SECS) + 30 * DAY;
        Self {
            version,
            in_use,
            primary: if listed { in_use } else { value(&params::PRIMARY_GUARDS).max(own) },
            max_sample_percent: value(&params::GUARD_MAX_SAMPLE_PERCENT),
            max_sample: value(&params::GUARD_MAX_SAMPLE),
            min_filtered_sample: value(&params::GUARD_MIN_FILTERED_SAMPLE),
            lifetime: if listed { of_list } else { value(&params::GUARD_LIFETIME_DAYS) * DAY },
            confirmed_lifetime: value(&params::GUARD_CONFIRMED_MIN_LIFETIME_DAYS) * DAY,
            remove_unlisted: value(&params::GUARD_REMOVE_UNLISTED_DAYS) * DAY,
            internet_likely_down: value(&params::GUARD_INTERNET_LIKELY_DOWN),
            connect_timeout: value(&params::GUARD_NONPRIMARY_CONNECT_TIMEOUT),
            idle_timeout: value(&params::GUARD_NONPRIMARY_IDLE_TIMEOUT),
        }
    }

    /// How many guards the sample may have in a network of so many (`get_max_sample_size`).
    pub(super) fn sample_limit(&self, guards: usize) -> usize {
        let by_share = guards * self.max_sample_percent as usize / 100;
        by_share.min(self.max_sample as usize).max(self.min_filtered_sample as usize)
    }

    /// Seconds after the last attempt at which a guard that has failed for `failing` seconds is tried again (`get_retry_schedule`;
    /// 0.2.4: `entry_is_time_to_retry`).
    pub(super) const fn retry_delay(&self, failing: i64, primary: bool) -> i64 {
        const HOUR: i64 = 3600;
        let steps = match self.version {
            GuardVersion::V0_2_4 => [6 * HOUR - 1, 72 * HOUR - 1, 168 * HOUR - 1],
            GuardVersion::V0_3_5 | GuardVersion::V0_4_9 => [6 * HOUR, 96 * HOUR, 168 * HOUR],
        };
        let delays = if primary { [HOUR / 6, 3 * HOUR / 2, 4 * HOUR, 9 * HOUR] } else { [HOUR, 4 * HOUR, 18 * HOUR, 36 * HOUR] };
        if failing <= steps[0] {
            delays[0]
        } else if failing <= steps[1] {
            delays[1]
        } else if failing <= steps[2] {
            delays[2]
        } else {
            delays[3]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_parameters_make_the_rules() {
        let none = Params::default();
        let rules = |version, params: &Params| GuardRules::new(version, params, None);
        let [old, middle, new] =
            [GuardVersion::V0_2_4, GuardVersion::V0_3_5, GuardVersion::V0_4_9].map(|version| rules(version, &none));
        assert_eq!((old.in_use, old.primary, old.lifetime), (3, 3, 90 * DAY));
        assert_eq!((middle.in_use, middle.primary, middle.lifetime, middle.confirmed_lifetime), (1, 3, 120 * DAY, 60 * DAY));
        assert_eq!((new.sample_limit(5000), new.sample_limit(200), new.sample_limit(7)), (60, 40, 20));
        let live = Params::from_iter([("guard-n-primary-guards-to-use", 2), ("guard-lifetime-days", 5000), ("GuardLifetime", 1)]);
        assert_eq!((rules(GuardVersion::V0_4_9, &live).in_use, rules(GuardVersion::V0_4_9, &live).lifetime), (2, 3650 * DAY));
        let live_old = rules(GuardVersion::V0_2_4, &live);
        assert_eq!((live_old.in_use, live_old.lifetime), (3, 60 * DAY), "the number is not read, the lifetime has a least value");
        let own = GuardRules::new(GuardVersion::V0_4_9, &none, Some(5));
        assert_eq!((own.in_use, own.primary), (5, 5));
        // `select_primary_guard_for_circuit` looks among the primary ones alone.
        let one = Params::from_iter([("guard-n-primary-guards", 1), ("guard-n-primary-guards-to-use", 2)]);
        assert_eq!((rules(GuardVersion::V0_4_9, &one).in_use, rules(GuardVersion::V0_4_9, &one).primary), (2, 1));
    }

    #[test]
    fn retries_become_rarer() {
        let rules = |version| GuardRules::new(version, &Params::default(), None);
        let hours = [5, 7, 95, 97, 167, 200];
        let delays = |version, primary| hours.map(|hours: i64| rules(version).retry_delay(hours * 3600, primary) / 60);
        assert_eq!(delays(GuardVersion::V0_4_9, true), [10, 90, 90, 240, 240, 540]);
        assert_eq!(delays(GuardVersion::V0_3_5, false), [60, 240, 240, 1080, 1080, 2160]);
        assert_eq!(delays(GuardVersion::V0_2_4, false), [60, 240, 1080, 1080, 1080, 2160]);
    }
}
