//! Bandwidth weights: how much of a relay's consensus weight counts in each position of a path.
//!
//! The authorities compute them so that guards, middles and exits get the same total as far as the flags allow.
//! Source: C tor, `dirvote.c:networkstatus_compute_bw_weights_v10` (computation) and
//! `node_select.c:compute_weighted_bandwidths` (use).

use crate::relay::{Class, Relay};

/// A position in a path of three relays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Position {
    /// Next to the client (`WEIGHT_FOR_GUARD`).
    Guard,
    /// Between (`WEIGHT_FOR_MID`).
    Middle,
    /// Next to the destination (`WEIGHT_FOR_EXIT`).
    Exit,
}

impl Position {
    /// All positions in the order of a path.
    pub const ALL: [Self; 3] = [Self::Guard, Self::Middle, Self::Exit];

    /// "guard", "middle" or "exit".
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Guard => "guard",
            Self::Middle => "middle",
            Self::Exit => "exit",
        }
    }

    /// Position in [`Self::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// The eleven weights that path selection uses: W, position, class, as in `Wgd`.
///
/// Unit: multiples of 1/`scale`. Invariant of weights that tor computes: `wgg + wmg`, `wee + wme` and
/// `wgd + wmd + wed` each equal the scale, and Wmm is the scale.
/// The directory weights (`Wbd`, `Wgb` and so on) follow from these and are not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct BandwidthWeights {
    /// Guard position, guard-only relays.
    pub wgg: u32,
    /// Guard position, relays with neither flag (of no effect: a guard needs the Guard flag).
    pub wgm: u32,
    /// Guard position, relays with both flags.
    pub wgd: u32,
    /// Middle position, guard-only relays.
    pub wmg: u32,
    /// Middle position, relays with neither flag.
    pub wmm: u32,
    /// Middle position, exit-only relays.
    pub wme: u32,
    /// Middle position, relays with both flags.
    pub wmd: u32,
    /// Exit position, guard-only relays.
    pub weg: u32,
    /// Exit position, relays with neither flag.
    pub wem: u32,
    /// Exit position, exit-only relays.
    pub wee: u32,
    /// Exit position, relays with both flags.
    pub wed: u32,
    /// The value that stands for 1 (consensus parameter `bwweightscale`).
    pub scale: u32,
}

/// Tor's default for `bwweightscale`.
pub const DEFAULT_SCALE: u32 = 10_000;

impl BandwidthWeights {
    /// All weights 1: what tor uses where a consensus has no weights.
    pub const UNIFORM: Self = {
        let s = DEFAULT_SCALE;
        Self { wgg: s, wgm: s, wgd: s, wmg: s, wmm: s, wme: s, wmd: s, weg: s, wem: s, wee: s, wed: s, scale: s }
    };

    /// The factor (0 to 1) on the consensus weight of a relay of `class` in `position`.
    ///
    /// For the guard position of a relay without the Guard flag, and for the exit position of one without the Exit
    /// flag, this is what tor would apply if it took such a relay; whether it may is for the caller to decide.
    pub fn factor(&self, position: Position, class: Class) -> f64 {
        f64::from(self.raw(position, class)) / f64::from(self.scale)
    }

    /// [`Self::factor`] in multiples of 1/`scale`.
    pub const fn raw(&self, position: Position, class: Class) -> u32 {
        match (position, class) {
            (Position::Guard, Class::Guard) => self.wgg,
            (Position::Guard, Class::Middle) => self.wgm,
            (Position::Guard, Class::Exit) => 0,
            (Position::Guard, Class::GuardExit) => self.wgd,
            (Position::Middle, Class::Guard) => self.wmg,
            (Position::Middle, Class::Middle) => self.wmm,
            (Position::Middle, Class::Exit) => self.wme,
            (Position::Middle, Class::GuardExit) => self.wmd,
            (Position::Exit, Class::Guard) => self.weg,
            (Position::Exit, Class::Middle) => self.wem,
            (Position::Exit, Class::Exit) => self.wee,
            (Position::Exit, Class::GuardExit) => self.wed,
        }
    }

    /// The weights that the authorities would compute for relays of these total weights.
    ///
    /// Consensus weights are capped by no one here. Deviation: tor gives no weights at all when a class is empty; here
    /// an empty class counts as a total of 1, so that a small network without, say, exit-only relays has weights too.
    pub fn compute(totals: &ClassTotals) -> Self {
        Self::compute_in_units(totals, DEFAULT_SCALE)
    }

    /// [`Self::compute`] in multiples of 1/`scale`, for a network whose parameter `bwweightscale` is not the default.
    pub fn compute_in_units(totals: &ClassTotals, scale: u32) -> Self {
        Compute::new(totals, scale).weights()
    }

    /// The `bandwidth-weights` line of a consensus, directory weights included.
    pub fn to_line(&self) -> String {
        let s = self.scale;
        let Self { wgg, wgm, wgd, wmg, wmm, wme, wmd, weg, wem, wee, wed, .. } = *self;
        format!(
            "bandwidth-weights Wbd={wmd} Wbe={wme} Wbg={wmg} Wbm={wmm} Wdb={s} Web={s} Wed={wed} Wee={wee} Weg={weg} \
             Wem={wem} Wgb={s} Wgd={wgd} Wgg={wgg} Wgm={wgm} Wmb={s} Wmd={wmd} Wme={wme} Wmg={wmg} Wmm={wmm}"
        )
    }
}

/// Sums of consensus weight by class: G, M, E and D of tor's formulas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct ClassTotals {
    /// By [`Class::index`].
    weight: [u64; 4],
}

impl ClassTotals {
    /// The totals of these relays.
    pub fn of<'a>(relays: impl IntoIterator<Item = &'a Relay>) -> Self {
        let mut totals = Self::default();
        for relay in relays {
            totals.weight[relay.class().index()] += relay.weight;
        }
        totals
    }

    /// Totals given one by one, in the order guard, middle, exit, guard-exit.
    pub const fn from_array(weight: [u64; 4]) -> Self {
        Self { weight }
    }

    /// Consensus weight of one class.
    pub const fn get(&self, class: Class) -> u64 {
        self.weight[class.index()]
    }

    /// Consensus weight of all classes (T).
    pub fn total(&self) -> u64 {
        self.weight.iter().sum()
    }

    /// A class's share of all consensus weight; zero in an empty network.
    pub fn share(&self, class: Class) -> f64 {
        if self.total() == 0 { 0.0 } else { self.get(class) as f64 / self.total() as f64 }
    }
}

/// The state of tor's computation: totals, and the seven weights that are not fixed by the others.
struct Compute {
    /// Weight of 1.
    s: i128,
    g: i128,
    m: i128,
    e: i128,
    d: i128,
    t: i128,
    wgg: i128,
    wgd: i128,
    wmg: i128,
    wme: i128,
    wmd: i128,
    wee: i128,
    wed: i128,
}

impl Compute {
    fn new(totals: &ClassTotals, scale: u32) -> Self {
        let at_least_one = |class| i128::from(totals.get(class).max(1));
        let (g, m) = (at_least_one(Class::Guard), at_least_one(Class::Middle));
        let (e, d) = (at_least_one(Class::Exit), at_least_one(Class::GuardExit));
        Self { s: i128::from(scale.max(1)), g, m, e, d, t: g + m + e + d, wgg: 0, wgd: 0, wmg: 0, wme: 0, wmd: 0, wee: 0, wed: 0 }
    }

    fn weights(mut self) -> BandwidthWeights {
        let scarce = |total: i128| 3 * total < self.t;
        match (scarce(self.e), scarce(self.g)) {
            (false, false) => self.case1_neither_scarce(),
            (true, true) => self.case2_both_scarce(),
            (exit_scarce, _) => self.case3_one_scarce(exit_scarce),
        }
        let scale = self.s as u32;
        let weight = |value: i128| value.clamp(0, self.s) as u32;
        BandwidthWeights {
            wgg: weight(self.wgg),
            wgm: weight(self.wgg),
            wgd: weight(self.wgd),
            wmg: weight(self.wmg),
            wmm: scale,
            wme: weight(self.wme),
            wmd: weight(self.wmd),
            weg: weight(self.wed),
            wem: weight(self.wee),
            wee: weight(self.wee),
            wed: weight(self.wed),
            scale,
        }
    }

    fn case1_neither_scarce(&mut self) {
        let Self { s, g, m, e, .. } = *self;
        self.wgd = s / 3;
        self.wed = s / 3;
        self.wmd = s / 3;
        self.wee = s * (e + g + m) / (3 * e);
        self.wme = s - self.wee;
        self.wmg = s * (2 * g - e - m) / (3 * g);
        self.wgg = s - self.wmg;
    }

    fn case2_both_scarce(&mut self) {
        let Self { s, g, m, e, d, .. } = *self;
        self.wgg = s;
        self.wee = s;
        if e.min(g) + d < e.max(g) {
            // 2a: all of d is not enough to lift the scarcer class up to the other.
            (self.wed, self.wgd) = if e < g { (s, 0) } else { (0, s) };
            return;
        }
        // 2b, first try: middles get no share of the guards.
        self.wee = s * (e - g + m) / e;
        self.wed = s * (d - 2 * e + 4 * g - 2 * m) / (3 * d);
        self.wme = s * (g - m) / e;
        self.wmd = (s - self.wed) / 2;
        self.wgd = self.wmd;
        if !self.is_balanced() {
            self.wee = s;
            self.wed = s * (d - 2 * e + g + m) / (3 * d);
            self.wmd = (s * (d - 2 * m + g + e) / (3 * d)).max(0);
            self.wme = 0;
            self.wgd = s - self.wed - self.wmd;
        }
    }

    fn case3_one_scarce(&mut self, exit_scarce: bool) {
        let Self { s, g, m, e, d, t, .. } = *self;
        // Which of the two is scarce decides the branch; tor compares E and G, which comes to the same.
        debug_assert_eq!(exit_scarce, e <= g);
        let scarcer_with_d_is_scarce = 3 * (e.min(g) + d) < t;
        match (scarcer_with_d_is_scarce, g < e) {
            (true, true) => {
                (self.wgg, self.wgd) = (s, s);
                self.wme = if e < m { 0 } else { s * (e - m) / (2 * e) };
                self.wee = s - self.wme;
            }
            (true, false) => {
                (self.wee, self.wed) = (s, s);
                self.wmg = if g < m { 0 } else { s * (g - m) / (2 * g) };
                self.wgg = s - self.wmg;
            }
            (false, true) => {
                self.wgg = s;
                self.wgd = s * (d - 2 * g + e + m) / (3 * d);
                self.wee = s * (e + m) / (2 * e);
                self.wme = s - self.wee;
                self.wed = (s - self.wgd) / 2;
                self.wmd = self.wed;
            }
            (false, false) => {
                self.wee = s;
                self.wed = s * (d - 2 * e + g + m) / (3 * d);
                self.wgg = s * (g + m) / (2 * g);
                self.wmg = s - self.wgg;
                self.wgd = (s - self.wed) / 2;
                self.wmd = self.wgd;
            }
        }
    }

    /// Tor's check of a solution: sums within 10/10000, every weight in range, totals of the positions within 0.1 %.
    fn is_balanced(&self) -> bool {
        const MARGIN: i128 = 10;
        let Self { s, g, m, e, d, t, wgg, wgd, wmg, wme, wmd, wee, wed } = *self;
        let near = |a: i128, b: i128, margin: i128| (a - b).abs() <= margin;
        let guards = wgg * g + wgd * d;
        near(wed + wmd + wgd, s, MARGIN)
            && near(wmg + wgg, s, MARGIN)
            && near(wme + wee, s, MARGIN)
            && [wgg, wgd, wmg, wme, wmd, wee, wed].iter().all(|weight| (0..=s).contains(weight))
            && near(guards, m * s + wmd * d + wme * e + wmg * g, MARGIN * t / 3)
            && near(guards, wee * e + wed * d, MARGIN * t / 3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn compute(g: u64, m: u64, e: u64, d: u64) -> BandwidthWeights {
        BandwidthWeights::compute(&ClassTotals::from_array([g, m, e, d]))
    }

    /// Consensus of 2021-07-20: exits scarce even with all of d (case 3a).
    /// Wmg = 10000 (57000590 - 7067063) / (2 * 57000590) = 4380.1.
    #[test]
    fn scarce_exits_leave_d_to_the_exit_position() {
        let weights = compute(57_000_590, 7_067_063, 2_307_342, 22_860_796);
        assert_eq!((weights.wgg, weights.wmg, weights.wgd, weights.wmd), (5620, 4380, 0, 0));
        assert_eq!((weights.wee, weights.wed, weights.weg), (10_000, 10_000, 10_000));
    }

    /// Consensus of 2025-06-15 (case 3b): Wed = 10000 (D - 2E + G + M) / 3D = 7994.
    #[test]
    fn enough_d_is_split() {
        let weights = compute(93_772_490, 18_763_713, 26_689_385, 42_307_640);
        assert_eq!((weights.wed, weights.wgd, weights.wmd, weights.wgg), (7994, 1003, 1003, 6000));
    }

    /// By hand: G = E = 40, M = 10, D = 9, T = 99; Wee = 10000 * 90 / 120 = 7500, Wmg = 10000 * (80 - 40 - 10) / 120 = 2500.
    #[test]
    fn neither_scarce() {
        let weights = compute(40, 10, 40, 9);
        assert_eq!((weights.wee, weights.wme, weights.wgg, weights.wmg), (7500, 2500, 7500, 2500));
        assert_eq!((weights.wgd, weights.wmd, weights.wed), (3333, 3333, 3333));
    }

    #[test]
    fn other_units_give_the_same_shares() {
        let totals = ClassTotals::from_array([93_772_490, 18_763_713, 26_689_385, 42_307_640]);
        let weights = BandwidthWeights::compute_in_units(&totals, 600);
        assert_eq!((weights.wed, weights.wmm, weights.scale), (479, 600, 600));
    }

    #[test]
    fn an_empty_network_has_weights_in_range() {
        let weights = compute(0, 0, 0, 0);
        assert!(Class::ALL.iter().all(|&class| weights.raw(Position::Middle, class) <= DEFAULT_SCALE));
    }

    proptest! {
        /// The point of the weights: the position totals differ no more than the flags force them to.
        #[test]
        fn weights_are_in_range_and_sum_to_one(totals in prop::array::uniform4(1..1_000_000_000_u64)) {
            let [g, m, e, d] = totals;
            let weights = compute(g, m, e, d);
            let near = |sum: u32| (9_997..=10_000).contains(&sum);
            prop_assert!(near(weights.wgg + weights.wmg), "{weights:?}");
            prop_assert!(near(weights.wee + weights.wme), "{weights:?}");
            prop_assert!(near(weights.wgd + weights.wmd + weights.wed), "{weights:?}");
        }

        /// Where exits and guards are both plentiful, the three positions get equal totals (within rounding).
        #[test]
        fn plenty_is_shared_equally(g in 34..40_u64, e in 34..40_u64, d in 1..20_u64) {
            let (g, e, d) = (g * 1_000_000, e * 1_000_000, d * 1_000_000);
            let m = 1_000_000;
            let weights = compute(g, m, e, d);
            let total = |position| {
                Class::ALL.iter().zip([g, m, e, d]).map(|(&class, weight)| {
                    let eligible = match position {
                        Position::Guard => matches!(class, Class::Guard | Class::GuardExit),
                        Position::Middle => true,
                        Position::Exit => matches!(class, Class::Exit | Class::GuardExit),
                    };
                    if eligible { weights.factor(position, class) * weight as f64 } else { 0.0 }
                }).sum::<f64>()
            };
            let [guards, middles, exits] = Position::ALL.map(total);
            prop_assert!((guards - middles).abs() / guards < 0.002 && (guards - exits).abs() / guards < 0.002);
        }
    }
}
