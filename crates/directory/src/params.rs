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
/// How often EWMA rescales its counts, in seconds; not read by 0.3.5.
pub const CIRCUIT_PRIORITY_TICK_SECS: Param = param("CircuitPriorityTickSecs", 10, 1, 600);
/// Interval of the KIST channel scheduler in milliseconds; 0 turns KIST off in 0.3.5, while 2 is the least in 0.4.9.
pub const KIST_SCHED_RUN_INTERVAL: Param = param("KISTSchedRunInterval", 2, 0, 100);
/// The same at clients, in milliseconds; not read by 0.3.5.
pub const KIST_SCHED_RUN_INTERVAL_CLIENT: Param = param("KISTSchedRunIntervalClient", 2, 2, 100);
/// A circuit's queue of so many cells stops the streams attached to it; not read by 0.3.5.
pub const CELL_QUEUE_HIGH: Param = param("cellq_high", 256, 1, 1000);
/// A queue of so few cells lets them go on; not read by 0.3.5.
pub const CELL_QUEUE_LOW: Param = param("cellq_low", 10, 1, 1000);
/// A queue of so many cells, towards the client where the next parameter is set, closes the circuit.
pub const MAX_CELL_QUEUE: Param = param("circ_max_cell_queue_size", 2500, 50, i32::MAX);
/// The same away from the client; not read by 0.3.5.
pub const MAX_CELL_QUEUE_OUT: Param = param("circ_max_cell_queue_size_out", 2500, 50, i32::MAX);
/// Bytes to which an outbuf is filled; not read by 0.3.5.
pub const OR_CONN_HIGH: Param = param("orconn_high", 32_768, 509, i32::MAX);
/// Bytes below which an outbuf wants more; not read by 0.3.5.
pub const OR_CONN_LOW: Param = param("orconn_low", 16_384, 509, i32::MAX);
/// Congestion control: 0 fixed windows, 2 Vegas.
pub const CC_ALG: Param = param("cc_alg", 2, 0, 3);
/// Circuit window at start, in cells, without congestion control.
pub const CIRCUIT_WINDOW: Param = param("circwindow", 1000, 100, 1000);
/// Whether hops are made with ntor, not TAP; read by 0.2.4 only.
pub const USE_NTOR_HANDSHAKE: Param = param("UseNTorHandshake", 0, 0, 1);
/// Whether clients make a first hop with CREATE_FAST; not read by 0.2.4.19 and 0.4.9.
pub const USE_CREATE_FAST: Param = param("usecreatefast", 0, 0, 1);
/// Handshakes with ntor that begin before one with TAP does, where both wait; not read by 0.4.9.
pub const NTORS_PER_TAP: Param = param("NumNTorsPerTAP", 10, 1, 100_000);
/// Seconds for which channels between relays stay open without circuits, on average; not read by 0.2.4.
pub const RELAY_CHANNEL_IDLE: Param = param("nf_conntimeout_relays", 3600, 60, 604_800);
/// Whether streams go over sets of circuits; read by 0.4.9 only.
pub const CONFLUX_ENABLED: Param = param("cfx_enabled", 1, 0, 1);
/// Sets of circuits that a client has or builds ahead.
pub const CONFLUX_MAX_PREBUILT_SET: Param = param("cfx_max_prebuilt_set", 3, 0, 255);
/// Circuits of a set.
pub const CONFLUX_NUM_LEGS_SET: Param = param("cfx_num_legs_set", 2, 0, 255);
/// Linked sets of circuits, used or not, with which a client builds none ahead.
pub const CONFLUX_MAX_LINKED_SET: Param = param("cfx_max_linked_set", 10, 0, 255);
/// Circuits that are launched in place of others before their set is given up.
pub const CONFLUX_MAX_UNLINKED_LEG_RETRY: Param = param("cfx_max_unlinked_leg_retry", 3, 0, 255);
/// Whether a client's data may leave before the stream is connected; not read by 0.4.9.
pub const USE_OPTIMISTIC_DATA: Param = param("UseOptimisticData", 1, 0, 1);
/// How many primary guards a client uses at a time.
pub const PRIMARY_GUARDS_TO_USE: Param = param("guard-n-primary-guards-to-use", 1, 1, i32::MAX);
/// How many primary guards a client keeps.
pub const PRIMARY_GUARDS: Param = param("guard-n-primary-guards", 3, 1, i32::MAX);
/// Share of all guards that a client's sample has at most, in percent; not read before 0.3.
pub const GUARD_MAX_SAMPLE_PERCENT: Param = param("guard-max-sample-threshold-percent", 20, 1, 100);
/// Guards that a client's sample has at most.
pub const GUARD_MAX_SAMPLE: Param = param("guard-max-sample-size", 60, 1, i32::MAX);
/// Usable guards that a client's sample shall have.
pub const GUARD_MIN_FILTERED_SAMPLE: Param = param("guard-min-filtered-sample-size", 20, 1, i32::MAX);
/// Days after which a guard that is not listed any more is forgotten.
pub const GUARD_REMOVE_UNLISTED_DAYS: Param = param("guard-remove-unlisted-guards-after-days", 20, 1, 3650);
/// Days for which a guard stays in the sample.
pub const GUARD_LIFETIME_DAYS: Param = param("guard-lifetime-days", 120, 1, 3650);
/// Days for which a confirmed guard stays.
pub const GUARD_CONFIRMED_MIN_LIFETIME_DAYS: Param = param("guard-confirmed-min-lifetime-days", 60, 1, 3650);
/// Seconds without a successful circuit after which a client thinks that it was off line.
pub const GUARD_INTERNET_LIKELY_DOWN: Param = param("guard-internet-likely-down-interval", 600, 1, i32::MAX);
/// Seconds for which a circuit over a guard that is not primary waits for a better one that is being tried.
pub const GUARD_NONPRIMARY_CONNECT_TIMEOUT: Param = param("guard-nonprimary-guard-connect-timeout", 15, 1, i32::MAX);
/// Seconds after which a circuit that waits for a better guard is given up.
pub const GUARD_NONPRIMARY_IDLE_TIMEOUT: Param = param("guard-nonprimary-guard-idle-timeout", 600, 1, i32::MAX);
/// Seconds for which 0.2.4 keeps a guard, and 30 days on top.
pub const GUARD_LIFETIME_SECS: Param = param("GuardLifetime", 5_184_000, 2_592_000, 157_766_400);
/// Layer-2 guards of an onion service or of its client.
pub const HS_LAYER2_GUARDS: Param = param("guard-hs-l2-number", 4, 1, 19);
/// Least lifetime of a layer-2 guard in seconds.
pub const HS_LAYER2_LIFETIME_MIN: Param = param("guard-hs-l2-lifetime-min", 86_400, 1, i32::MAX);
/// Greatest lifetime of a layer-2 guard in seconds.
pub const HS_LAYER2_LIFETIME_MAX: Param = param("guard-hs-l2-lifetime-max", 1_036_800, 1, i32::MAX);
/// Seconds for which clients expect to use a port again, and up to as much longer; not read by 0.2.4.
pub const CLIENT_CIRCUITS_AVAILABLE: Param = param("nf_conntimeout_clients", 1800, 60, 86_400);
/// Milliseconds within which the onion handshakes that wait at a relay must be expected to be done for another to join; not read by 0.3.5.
pub const MAX_ONION_QUEUE_DELAY: Param = param("MaxOnionQueueDelay", 1750, 1, i32::MAX);
/// Seconds after which an onion handshake that waits is dropped; not read by 0.3.5.
pub const ONION_QUEUE_WAIT_CUTOFF: Param = param("onion_queue_wait_cutoff", 5, 1, i32::MAX);
/// Onion handshakes for each core that a relay hands to its worker threads at a time; not read by 0.3.5.
pub const MAX_PENDING_TASKS_PER_CPU: Param = param("max_pending_tasks_per_cpu", 64, 1, i32::MAX);
/// Clients learn no time-out of circuit building.
pub const CBT_DISABLED: Param = param("cbtdisabled", 0, 0, 1);
/// Bins of the histogram of build times that make its scale.
pub const CBT_NUM_MODES: Param = param("cbtnummodes", 10, 1, 20);
/// Circuits that are looked at for too many time-outs.
pub const CBT_RECENT_COUNT: Param = param("cbtrecentcount", 20, 3, 1000);
/// So many time-outs among them discard what was learned.
pub const CBT_MAX_TIMEOUTS: Param = param("cbtmaxtimeouts", 18, 3, 10_000);
/// Build times before a time-out is computed.
pub const CBT_MIN_CIRCUITS: Param = param("cbtmincircs", 100, 1, 10_000);
/// The quantile of build times that is the time-out, in percent.
pub const CBT_QUANTILE: Param = param("cbtquantile", 80, 10, 99);
/// The quantile of the time after which a circuit is closed, in percent.
pub const CBT_CLOSE_QUANTILE: Param = param("cbtclosequantile", 99, 10, 99);
/// Seconds between circuits built for learning alone.
pub const CBT_TEST_FREQUENCY: Param = param("cbttestfreq", 10, 1, i32::MAX);
/// The least time-out in milliseconds.
pub const CBT_MIN_TIMEOUT: Param = param("cbtmintimeout", 10, 10, i32::MAX);
/// The time-out in milliseconds while nothing is learned.
pub const CBT_INITIAL_TIMEOUT: Param = param("cbtinitialtimeout", 60_000, 10, i32::MAX);
/// While learning, unused circuits are closed after so many seconds.
pub const CBT_LEARN_TIMEOUT: Param = param("cbtlearntimeout", 180, 10, 60_000);
/// While learning, unused circuits that may be open.
pub const CBT_MAX_OPEN_CIRCUITS: Param = param("cbtmaxopencircs", 10, 0, 14);

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
