//! Weighted choice among relays in constant time: Walker's alias method.

use crate::RelayIndex;
use onionlab_quantities::Draw;

/// Relays with their chances in one position of a path.
///
/// Invariant: at least one relay; chances add up to 1. A draw costs one random value and two look-ups, whatever the number
/// of relays. Source: Walker 1977, in the construction of Vose 1991. Relays of weight zero are drawn, all alike, only where no other may be
/// (tor's `choose_array_element_by_weight` over what is left).
#[derive(Debug, Clone)]
pub struct Distribution {
    slots: Vec<Slot>,
    /// (relay, chance), ascending by relay; chances above zero only.
    chances: Vec<(RelayIndex, f64)>,
    /// Those of weight zero, ascending.
    weightless: Vec<RelayIndex>,
}

/// A fraction of 64 bits that is 1.
const WHOLE: f64 = 18_446_744_073_709_551_616.0;

/// A slot is hit with chance 1/n; it gives `own` below the threshold and `other` from there on.
#[derive(Debug, Clone, Copy)]
struct Slot {
    threshold: u64,
    own: RelayIndex,
    other: RelayIndex,
}

impl Distribution {
    /// Relays with weights. `None` if none weighs anything.
    pub fn new(weights: impl IntoIterator<Item = (RelayIndex, f64)>) -> Option<Self> {
        let (mut chances, weightless): (Vec<_>, Vec<_>) = weights.into_iter().partition(|&(_, weight)| weight > 0.0);
        let weightless = weightless.into_iter().map(|(relay, _)| relay).collect();
        if chances.is_empty() {
            return None;
        }
        let total: f64 = chances.iter().map(|&(_, weight)| weight).sum();
        for (_, weight) in &mut chances {
            *weight /= total;
        }
        Some(Self { slots: alias_table(&chances), chances, weightless })
    }

    /// The same with the relays alone that `allowed` admits, all alike where these weigh nothing; `None` if it admits none.
    pub fn among(&self, allowed: impl Fn(RelayIndex) -> bool) -> Option<Self> {
        let left = || self.relays().filter(|&relay| allowed(relay));
        Self::new(left().map(|relay| (relay, self.chance(relay)))).or_else(|| Self::new(left().map(|relay| (relay, 1.0))))
    }

    /// The relay that this random value means.
    #[inline]
    pub fn pick(&self, draw: Draw) -> RelayIndex {
        // One multiplication gives the slot (high half) and an independent fraction within it (low half).
        let product = u128::from(draw.bits()) * self.slots.len() as u128;
        let slot = self.slots[(product >> 64) as usize];
        if product as u64 <= slot.threshold { slot.own } else { slot.other }
    }

    /// The chance of one relay; zero if it cannot be drawn.
    pub fn chance(&self, relay: RelayIndex) -> f64 {
        self.chances.binary_search_by_key(&relay, |&(relay, _)| relay).map_or(0.0, |at| self.chances[at].1)
    }

    /// All relays that weigh anything, with their chances.
    pub fn chances(&self) -> &[(RelayIndex, f64)] {
        &self.chances
    }

    /// All relays that can be drawn, those without weight last.
    pub fn relays(&self) -> impl Iterator<Item = RelayIndex> + '_ {
        self.chances.iter().map(|&(relay, _)| relay).chain(self.weightless.iter().copied())
    }

    /// Draws among the relays that `allowed` admits, without rejection; `None` if it admits none.
    pub fn pick_among(&self, draw: Draw, allowed: impl Fn(RelayIndex) -> bool) -> Option<RelayIndex> {
        let total: f64 = self.chances.iter().filter(|&&(relay, _)| allowed(relay)).map(|&(_, chance)| chance).sum();
        let mut left = draw.uniform() * total;
        let mut last = None;
        for &(relay, chance) in self.chances.iter().filter(|&&(relay, _)| allowed(relay)) {
            last = Some(relay);
            left -= chance;
            if left < 0.0 {
                break;
            }
        }
        last.or_else(|| {
            let left: Vec<RelayIndex> = self.weightless.iter().copied().filter(|&relay| allowed(relay)).collect();
            left.get((draw.uniform() * left.len() as f64) as usize).copied()
        })
    }
}

fn alias_table(chances: &[(RelayIndex, f64)]) -> Vec<Slot> {
    let n = chances.len() as f64;
    let mut scaled: Vec<f64> = chances.iter().map(|&(_, chance)| chance * n).collect();
    let mut slots: Vec<Slot> = chances.iter().map(|&(relay, _)| Slot { threshold: u64::MAX, own: relay, other: relay }).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..scaled.len()).partition(|&i| scaled[i] < 1.0);
    while let (Some(&poor), Some(&rich)) = (small.last(), large.last()) {
        small.pop();
        slots[poor].threshold = (scaled[poor] * WHOLE) as u64;
        slots[poor].other = chances[rich].0;
        scaled[rich] -= 1.0 - scaled[poor];
        if scaled[rich] < 1.0 {
            large.pop();
            small.push(rich);
        }
    }
    // What is left over is 1 up to rounding and keeps the threshold of a full slot.
    slots
}

#[cfg(test)]
mod tests {
    use super::*;
    use onionlab_quantities::{RandomStream, Seed};
    use proptest::prelude::*;

    fn relays(weights: &[f64]) -> impl Iterator<Item = (RelayIndex, f64)> {
        weights.iter().enumerate().map(|(i, &weight)| (RelayIndex(i as u32), weight))
    }

    #[test]
    fn nothing_to_draw_from_is_no_distribution() {
        assert!(Distribution::new(relays(&[])).is_none());
        assert!(Distribution::new(relays(&[0.0, 0.0])).is_none());
    }

    proptest! {
        /// The table, read as a whole, gives back the chances that it was made from.
        #[test]
        fn the_alias_table_is_exact(weights in prop::collection::vec(0.0..1e6_f64, 1..200)) {
            prop_assume!(weights.iter().sum::<f64>() > 0.0);
            let distribution = Distribution::new(relays(&weights)).unwrap();
            let mut chance = vec![0.0; weights.len()];
            for slot in &distribution.slots {
                let own = slot.threshold as f64 / WHOLE;
                chance[slot.own.get()] += own / distribution.slots.len() as f64;
                chance[slot.other.get()] += (1.0 - own) / distribution.slots.len() as f64;
            }
            let total: f64 = weights.iter().sum();
            for (i, weight) in weights.iter().enumerate() {
                prop_assert!((chance[i] - weight / total).abs() < 1e-12);
                prop_assert!((distribution.chance(RelayIndex(i as u32)) - weight / total).abs() < 1e-12);
            }
        }

        #[test]
        fn what_is_not_allowed_is_not_drawn(weights in prop::collection::vec(0.1..1e3_f64, 2..50), seed: u64) {
            let distribution = Distribution::new(relays(&weights)).unwrap();
            let draw = RandomStream::new(Seed(seed), "test", "draw").at(0);
            let odd = distribution.pick_among(draw, |relay| relay.0 % 2 == 1).unwrap();
            prop_assert_eq!(odd.0 % 2, 1);
            prop_assert!(distribution.pick_among(draw, |_| false).is_none());
        }

        /// They come last, and then alike.
        #[test]
        fn relays_without_weight_are_drawn_where_no_other_may_be(seed: u64) {
            let distribution = Distribution::new(relays(&[0.0, 2.0, 0.0, 0.0, 1.0])).unwrap();
            let draws = RandomStream::new(Seed(seed), "test", "draw");
            let mut drawn = [0; 5];
            for nth in 0..3000 {
                prop_assert!([1, 4].contains(&distribution.pick(draws.at(nth)).0));
                prop_assert!([1, 4].contains(&distribution.pick_among(draws.at(nth), |_| true).unwrap().0));
                drawn[distribution.pick_among(draws.at(nth), |relay| ![1, 4].contains(&relay.0)).unwrap().get()] += 1;
            }
            prop_assert!([0, 2, 3].map(|relay: usize| drawn[relay]).iter().all(|count| (850..1150).contains(count)), "{drawn:?}");
            prop_assert_eq!(distribution.relays().map(|relay| relay.0).collect::<Vec<_>>(), [1, 4, 0, 2, 3]);
        }
    }
}
