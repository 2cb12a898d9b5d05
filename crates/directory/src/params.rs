//! Consensus parameters: the numbers by which the authorities tune every tor.

use std::collections::BTreeMap;

/// One parameter as tor knows it: name, default, and the range to which a consensus's value is clamped.
///
/// Source: C tor, calls of `networkstatus_get_param`; Tor specification "param-spec".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Param {
    /// As the consensus writes it.
    pub name: &'static str,
    /// Used where the consensus is silent.
    pub default: i32,
    /// Least value that tor takes.
    pub min: i32,
    /// Greatest value that tor takes.
    pub max: i32,
}

const fn param(name: &'static str, default: i32, min: i32, max: i32) -> Param {
    Param { name, default, min, max }
}

/// What stands for 1 on the `bandwidth-weights` line.
pub const BANDWIDTH_WEIGHT_SCALE: Param = param("bwweightscale", 10_000, 1, i32::MAX);
/// Half-life of the EWMA circuit scheduler in milliseconds.
pub const CIRCUIT_PRIORITY_HALFLIFE_MSEC: Param = param("CircuitPriorityHalflifeMsec", 30_000, 1, i32::MAX);
/// Interval of the KIST channel scheduler in milliseconds; 0 turns KIST off.
pub const KIST_SCHED_RUN_INTERVAL: Param = param("KISTSchedRunInterval", 2, 0, 100);
/// Congestion control: 0 fixed windows, 2 Vegas.
pub const CC_ALG: Param = param("cc_alg", 2, 0, 3);
/// Circuit window at start, in cells, without congestion control.
pub const CIRCUIT_WINDOW: Param = param("circwindow", 1000, 100, 1000);
/// How many primary guards a client uses at a time.
pub const PRIMARY_GUARDS_TO_USE: Param = param("guard-n-primary-guards-to-use", 1, 1, i32::MAX);
/// How many primary guards a client keeps.
pub const PRIMARY_GUARDS: Param = param("guard-n-primary-guards", 3, 1, i32::MAX);

/// The `params` line of a consensus.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
#[serde(transparent)]
pub struct Params(BTreeMap<String, i32>);

impl Params {
    /// The value as the document has it; `None` where it is silent.
    pub fn get(&self, name: &str) -> Option<i32> {
        self.0.get(name).copied()
    }

    /// The value that tor would use: the document's within the parameter's range, else the default.
    pub fn value(&self, param: &Param) -> i32 {
        self.get(param.name).map_or(param.default, |value| value.clamp(param.min, param.max))
    }

    /// Sets a value, as an authority would.
    pub fn set(&mut self, name: &str, value: i32) {
        self.0.insert(name.to_owned(), value);
    }

    /// All parameters, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i32)> {
        self.0.iter().map(|(name, &value)| (name.as_str(), value))
    }
}

impl<N: Into<String>> FromIterator<(N, i32)> for Params {
    fn from_iter<I: IntoIterator<Item = (N, i32)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_out_of_range_is_clamped_and_an_absent_one_is_the_default() {
        let params = Params::from_iter([("KISTSchedRunInterval", 100_000), ("cc_alg", -5)]);
        assert_eq!(params.value(&KIST_SCHED_RUN_INTERVAL), 100);
        assert_eq!(params.value(&CC_ALG), 0);
        assert_eq!(params.value(&CIRCUIT_WINDOW), 1000);
        assert_eq!(params.get("circwindow"), None);
    }
}
