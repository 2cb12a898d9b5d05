//! The consensus parameters of `TOR_VEGAS`, each declared once: name, default per path, range, meaning.

/// What a circuit is for; the thresholds differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PathType {
    /// Three hops to an exit; also single onion services.
    Exit,
    /// A rendezvous circuit with an onion service.
    Onion,
    /// Two hops, as bandwidth scanners build them.
    Sbws,
}

/// A default: the same for all paths, or for exit, onion and sbws in this order.
trait Default {
    fn on(self, path: PathType) -> i32;
}

impl Default for i32 {
    fn on(self, _path: PathType) -> i32 {
        self
    }
}

impl Default for (i32, i32, i32) {
    fn on(self, path: PathType) -> i32 {
        match path {
            PathType::Exit => self.0,
            PathType::Onion => self.1,
            PathType::Sbws => self.2,
        }
    }
}

/// Declares the struct, its defaults, and its reading from consensus parameters, from one table.
macro_rules! parameters {
    ($($(#[doc = $doc:literal])* $field:ident: $name:literal $(+ $suffix:tt)? = $default:expr, $low:literal ..= $high:expr;)*) => {
        /// The parameters of `TOR_VEGAS` for one type of path.
        ///
        /// Windows and thresholds are in cells. Source: tor `core/or/congestion_control_common.c`,
        /// `congestion_control_vegas.c` (0.4.9); ranges: proposal 324, section 6.5.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct VegasParameters {
            $($(#[doc = $doc])* #[doc = concat!("\n\nConsensus: `", $name, "`.")] pub $field: i32,)*
        }

        impl VegasParameters {
            /// The values of tor 0.4.9, where the consensus says nothing.
            pub fn new(path: PathType) -> Self {
                Self::from_consensus(path, |_| None)
            }

            /// The values of a consensus: `lookup` gives a parameter by name, if it is there. As in tor, a value outside its
            /// range becomes the nearest one inside.
            pub fn from_consensus(path: PathType, lookup: impl Fn(&str) -> Option<i32>) -> Self {
                Self {
                    $($field: lookup(&parameters!(@name path, $name $($suffix)?))
                        .unwrap_or_else(|| $default.on(path))
                        .clamp($low, $high),)*
                }
            }

            /// Name, value, least and greatest value of each parameter, in order of declaration.
            pub fn table(&self, path: PathType) -> Vec<(String, i32, i32, i32)> {
                vec![$((parameters!(@name path, $name $($suffix)?), self.$field, $low, $high),)*]
            }
        }
    };
    (@name $path:ident, $name:literal) => { $name.to_owned() };
    (@name $path:ident, $name:literal path) => {
        format!("{}{}", $name, match $path { PathType::Exit => "exit", PathType::Onion => "onion", PathType::Sbws => "sbws" })
    };
}

parameters! {
    /// DATA cells that one SENDME acknowledges.
    sendme_inc: "cc_sendme_inc" = 31, 1..=254;
    /// The window at the start.
    cwnd_init: "cc_cwnd_init" = 124, 31..=10_000;
    /// The window in steady state never falls below it.
    cwnd_min: "cc_cwnd_min" = 124, 31..=1_000;
    /// The window never grows beyond it.
    cwnd_max: "cc_cwnd_max" = i32::MAX, 500..=i32::MAX;
    /// The step of the window in steady state.
    cwnd_inc: "cc_cwnd_inc" = 1, 1..=1_000;
    /// How many such steps there may be per window, in units of SENDMEs.
    cwnd_inc_rate: "cc_cwnd_inc_rate" = 31, 1..=250;
    /// The step in slow start, in percent of the SENDME increment.
    cwnd_inc_pct_ss: "cc_cwnd_inc_pct_ss" = 100, 1..=500;
    /// Slow start ends at this window.
    ss_max: "cc_ss_max" = 5_000, 500..=i32::MAX;
    /// Smoothing of the round-trip time: percent of the window's SENDMEs that it spans.
    ewma_cwnd_pct: "cc_ewma_cwnd_pct" = 50, 1..=255;
    /// Smoothing: the most SENDMEs.
    ewma_max: "cc_ewma_max" = 10, 2..=i32::MAX;
    /// Smoothing: SENDMEs in slow start.
    ewma_ss: "cc_ewma_ss" = 2, 2..=i32::MAX;
    /// At the least window the least round-trip time moves this far (percent) towards the current one.
    rtt_reset_pct: "cc_rtt_reset_pct" = 100, 0..=100;
    /// The window counts as full when at most this many SENDMEs' worth of cells are missing.
    cwnd_full_gap: "cc_cwnd_full_gap" = 4, 0..=32_767;
    /// The window no longer counts as full when less than this percentage is used.
    cwnd_full_minpct: "cc_cwnd_full_minpct" = 25, 0..=100;
    /// Whether fullness is forgotten once per window (1) or once per update (0).
    cwnd_full_per_cwnd: "cc_cwnd_full_per_cwnd" = 1, 0..=1;
    /// Fewer queued cells than this: the window grows.
    alpha: "cc_vegas_alpha_" + path = (186, 186, 93), 0..=1_000;
    /// More queued cells than this: the window shrinks.
    beta: "cc_vegas_beta_" + path = (248, 372, 155), 0..=1_000;
    /// This many queued cells end slow start.
    gamma: "cc_vegas_gamma_" + path = (186, 248, 124), 0..=1_000;
    /// More queued cells than this: the window falls to the bandwidth-delay product plus this.
    delta: "cc_vegas_delta_" + path = (310, 434, 248), 0..=i32::MAX;
    /// Beyond this window slow start grows more slowly (RFC 3742).
    ss_cap: "cc_sscap_" + path = (600, 475, 400), 100..=i32::MAX;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_those_of_the_path() {
        let of = |path| {
            let p = VegasParameters::new(path);
            [p.alpha, p.beta, p.gamma, p.delta].map(|cells| cells / 31)
        };
        assert_eq!(of(PathType::Exit), [6, 8, 6, 10]);
        assert_eq!(of(PathType::Onion), [6, 12, 8, 14]);
        assert_eq!(of(PathType::Sbws), [3, 5, 4, 8]);
    }

    #[test]
    fn a_consensus_overrides_within_the_range() {
        let lookup = |name: &str| match name {
            "cc_vegas_alpha_exit" => Some(100),
            "cc_vegas_alpha_onion" => Some(200),
            "cc_cwnd_min" => Some(5),
            "cc_sscap_sbws" => Some(600),
            _ => None,
        };
        let exit = VegasParameters::from_consensus(PathType::Exit, lookup);
        assert_eq!((exit.alpha, exit.cwnd_min, exit.ss_cap, exit.beta), (100, 31, 600, 248));
        assert_eq!(VegasParameters::from_consensus(PathType::Sbws, lookup).ss_cap, 600);
        assert_eq!(VegasParameters::from_consensus(PathType::Onion, lookup).alpha, 200);
    }

    #[test]
    fn the_table_names_every_parameter_once() {
        let table = VegasParameters::new(PathType::Onion).table(PathType::Onion);
        let mut names: Vec<_> = table.iter().map(|row| &row.0).collect();
        names.sort();
        names.dedup();
        assert_eq!((table.len(), names.len()), (20, 20));
        assert!(table.contains(&("cc_vegas_delta_onion".to_owned(), 434, 0, i32::MAX)));
        assert!(table.iter().all(|(_, value, low, high)| low <= value && value <= high));
    }
}
