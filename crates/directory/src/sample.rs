//! A smaller network that behaves like the whole: stratified sampling of relays.
//!
//! After `tornettools` (Jansen, Tracey and Goldberg, "Once is Never Enough", USENIX Security 2021, section 3): each
//! class keeps its share of the relays; within a class the relays are sorted by consensus weight, cut into as many bins as
//! are wanted, and one relay is drawn from each bin, so that the sample follows the distribution of weights. Then the
//! weights of each class are multiplied by one factor so that the class keeps its share of the bandwidth, and the
//! bandwidth weights are computed anew. What that did to the network is reported, not hidden ([`Divergence`]).
//!
//! Two things differ there: of each bin the median relay is taken, and what varies between networks is who is in them, drawn beforehand by how often each relay ran; and
//! weights are not brought to their classes' shares. So class shares vary between its networks, and the rank within a bin between ours.

use crate::consensus::Consensus;
use crate::error::DirectoryError;
use crate::relay::{Class, Relay};
use crate::weights::{BandwidthWeights, ClassTotals};
use onionlab_quantities::{RandomStream, Seed};

/// How large the sample shall be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Size {
    /// So many relays.
    Relays(usize),
    /// This share of all relays, above 0 and at most 1, rounded to a whole relay.
    Scale(f64),
}

/// A sampled network.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The network: relays of the original, weights scaled by class, bandwidth weights computed anew.
    pub network: Consensus,
    /// How it differs from the original.
    pub report: Divergence,
}

/// How a sample differs from the network that it was drawn from.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Divergence {
    /// Relays of the original.
    pub relays_full: usize,
    /// Relays of the sample.
    pub relays_sample: usize,
    /// By class; a class without relays in the original has no entry.
    pub classes: Vec<ClassDivergence>,
    /// Bandwidth weights as the original's document has them.
    pub weights_full: BandwidthWeights,
    /// Bandwidth weights that the drawn relays would have had with their own weights.
    pub weights_unscaled: BandwidthWeights,
    /// Bandwidth weights of the sample.
    pub weights_sample: BandwidthWeights,
}

/// One class within a [`Divergence`].
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ClassDivergence {
    /// The class.
    pub class: Class,
    /// Its relays in the original.
    pub relays_full: usize,
    /// Its relays in the sample.
    pub relays_sample: usize,
    /// Its share of all consensus weight in the original (0 to 1).
    pub share_full: f64,
    /// Its share among the drawn relays before their weights were scaled.
    pub share_drawn: f64,
    /// Its share in the sample.
    pub share_sample: f64,
    /// The factor by which its weights were multiplied.
    pub scaled_by: f64,
    /// Kolmogorov-Smirnov distance (0 to 1) between the weights of the class and those of the relays drawn from it, before scaling.
    pub ks_distance: f64,
}

/// Draws a smaller network; the same seed gives the same relays.
///
/// # Errors
/// The scale is not in (0, 1], more relays are wanted than there are, or fewer than classes in use (each class of the
/// original keeps at least one relay).
pub fn sample(full: &Consensus, size: Size, seed: Seed) -> Result<Sample, DirectoryError> {
    let wanted = size.relays(full.relays.len())?;
    let members = by_class(&full.relays);
    let counts = apportion(members.each_ref().map(Vec::len), wanted)?;

    let mut drawn: Vec<Relay> = Vec::with_capacity(wanted);
    let mut classes = Vec::with_capacity(4);
    let totals_full = full.totals();
    // A weight has a meaning relative to the mean of the network (see `capacity`), which must not change with the scale.
    let shrink = wanted as f64 / full.relays.len() as f64;
    let mut unscaled = [0_u64; 4];
    for class in Class::ALL {
        let members = &members[class.index()];
        if members.is_empty() {
            continue;
        }
        let chosen = one_of_each_bin(members, counts[class.index()], class, seed);
        let total: u64 = chosen.iter().map(|relay| relay.weight).sum();
        unscaled[class.index()] = total;
        let scaled_by = if total == 0 { 1.0 } else { totals_full.get(class) as f64 * shrink / total as f64 };
        classes.push(ClassDivergence {
            class,
            relays_full: members.len(),
            relays_sample: chosen.len(),
            share_full: totals_full.share(class),
            share_drawn: 0.0,
            share_sample: 0.0,
            scaled_by,
            ks_distance: ks_distance(members, &chosen),
        });
        drawn.extend(chosen.into_iter().map(|relay| {
            let scaled = libm::round(relay.weight as f64 * scaled_by) as u64;
            // A relay that could be chosen stays one that can be chosen.
            Relay { weight: scaled.max(u64::from(relay.weight > 0)), ..relay.clone() }
        }));
    }
    drawn.sort_by_key(|relay| relay.fingerprint);
    let unscaled = ClassTotals::from_array(unscaled);
    let totals = ClassTotals::of(&drawn);
    for entry in &mut classes {
        entry.share_drawn = unscaled.share(entry.class);
        entry.share_sample = totals.share(entry.class);
    }
    let weights_sample = full.computed_weights_for(&totals);
    let report = Divergence {
        relays_full: full.relays.len(),
        relays_sample: drawn.len(),
        classes,
        weights_full: full.weights,
        weights_unscaled: full.computed_weights_for(&unscaled),
        weights_sample,
    };
    let network = Consensus {
        flavour: full.flavour,
        valid_after: full.valid_after,
        method: full.method,
        params: full.params.clone(),
        relays: drawn,
        weights: weights_sample,
    };
    Ok(Sample { network, report })
}

impl Size {
    /// The number of relays out of `full`.
    ///
    /// # Errors
    /// The scale is not in (0, 1], or more relays are wanted than there are.
    pub fn relays(self, full: usize) -> Result<usize, DirectoryError> {
        match self {
            Self::Relays(wanted) if wanted > full => {
                Err(DirectoryError::SampleSize { wanted, reason: format!("the network has only {full}") })
            }
            Self::Relays(wanted) => Ok(wanted),
            Self::Scale(scale) if scale > 0.0 && scale <= 1.0 => Ok(libm::round(full as f64 * scale) as usize),
            Self::Scale(scale) => Err(DirectoryError::Scale { scale }),
        }
    }
}

/// Relays by class, each class in ascending order of weight (ties by fingerprint).
fn by_class(relays: &[Relay]) -> [Vec<&Relay>; 4] {
    let mut members: [Vec<&Relay>; 4] = Default::default();
    for relay in relays {
        members[relay.class().index()].push(relay);
    }
    for class in &mut members {
        class.sort_by_key(|relay| (relay.weight, relay.fingerprint));
    }
    members
}

/// Shares `wanted` relays out in proportion to `full`, at least one to each class in use, by largest remainders.
pub(crate) fn apportion(full: [usize; 4], wanted: usize) -> Result<[usize; 4], DirectoryError> {
    let total: usize = full.iter().sum();
    let in_use = full.iter().filter(|&&count| count > 0).count();
    if wanted < in_use {
        let reason = format!(
            "at least {in_use} are needed, one for each class of relays in the network (guard, middle, exit, guard-exit)"
        );
        return Err(DirectoryError::SampleSize { wanted, reason });
    }
    let mut counts = full.map(|count| if count == 0 { 0 } else { (count * wanted / total).max(1) });
    // Remainder of a class: what it should have less what it has. At most a handful of steps.
    let lack = |counts: &[usize; 4], i: usize| (full[i] * wanted) as i128 - (counts[i] * total) as i128;
    while counts.iter().sum::<usize>() < wanted {
        let poorest = (0..4).filter(|&i| counts[i] < full[i]).max_by_key(|&i| (lack(&counts, i), std::cmp::Reverse(i)));
        counts[poorest.expect("fewer are wanted than there are")] += 1;
    }
    while counts.iter().sum::<usize>() > wanted {
        let richest = (0..4).filter(|&i| counts[i] > 1).min_by_key(|&i| (lack(&counts, i), i));
        counts[richest.expect("at least one per class is wanted")] -= 1;
    }
    Ok(counts)
}

/// Cuts the sorted `members` into `bins` runs of equal length (as far as whole relays go) and draws one relay of each.
fn one_of_each_bin<'a>(members: &[&'a Relay], bins: usize, class: Class, seed: Seed) -> Vec<&'a Relay> {
    let stream = RandomStream::new(seed, class.as_str(), "sampled relay");
    (0..bins)
        .map(|bin| {
            let (from, to) = (bin * members.len() / bins, (bin + 1) * members.len() / bins);
            members[from + stream.at(bin as u64).below((to - from) as u64) as usize]
        })
        .collect()
}

/// Greatest difference between the two empirical distributions of weight; both slices ascend.
fn ks_distance(full: &[&Relay], part: &[&Relay]) -> f64 {
    let at_most = |relays: &[&Relay], weight: u64| {
        relays.partition_point(|relay| relay.weight <= weight) as f64 / relays.len().max(1) as f64
    };
    full.iter().map(|relay| (at_most(full, relay.weight) - at_most(part, relay.weight)).abs()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consensus::Flavour;
    use crate::time::Timestamp;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    fn network(counts: [usize; 4]) -> Consensus {
        let mut relays = Vec::new();
        for (class, count) in Class::ALL.into_iter().zip(counts) {
            for i in 0..count {
                let weight = 10 + (i as u64 * i as u64 * 7919) % 50_000;
                relays.push(Relay::by_hand(&format!("{class}{i}"), class, weight, Ipv4Addr::from(i as u32)));
            }
        }
        relays.sort_by_key(|relay| relay.fingerprint);
        let weights = BandwidthWeights::compute(&ClassTotals::of(&relays));
        let (valid_after, params) = (Timestamp::from_unix_secs(0), crate::Params::default());
        Consensus { flavour: Flavour::Microdesc, valid_after, method: 33, params, relays, weights }
    }

    #[test]
    fn the_whole_network_is_its_own_sample() {
        let full = network([30, 20, 10, 5]);
        let sample = sample(&full, Size::Scale(1.0), Seed(1)).unwrap();
        assert_eq!(sample.network, full);
        assert!(sample.report.classes.iter().all(|class| class.ks_distance < 1e-12 && (class.scaled_by - 1.0).abs() < 1e-12));
    }

    #[test]
    fn shares_are_kept_and_seeds_matter() {
        let full = network([300, 200, 100, 50]);
        let [a, b] = [1, 2].map(|seed| sample(&full, Size::Relays(65), Seed(seed)).unwrap());
        assert_eq!(a, sample(&full, Size::Scale(0.1), Seed(1)).unwrap());
        assert_ne!(a.network.relays, b.network.relays);
        for class in &a.report.classes {
            assert!((class.share_full - class.share_sample).abs() < 1e-3, "{class:?}");
            assert_eq!(class.relays_sample * 10, class.relays_full);
            // One relay in each of n bins: the distributions cannot be further apart than one bin.
            assert!(class.ks_distance <= 1.0 / class.relays_sample as f64 + 1e-9, "{class:?}");
        }
    }

    #[test]
    fn impossible_sizes_are_refused_with_what_is_allowed() {
        let full = network([30, 20, 10, 5]);
        let error = |size| sample(&full, size, Seed(1)).unwrap_err().to_string();
        assert!(error(Size::Relays(3)).contains("at least 4"));
        assert!(error(Size::Relays(66)).contains("only 65"));
        for scale in [0.0, -0.5, 1.1, f64::NAN] {
            assert!(error(Size::Scale(scale)).contains("at most 1"));
        }
    }

    proptest! {
        #[test]
        fn apportionment_is_exact_and_leaves_no_class_out(full in prop::array::uniform4(0..500_usize), share in 0.0..1.0_f64) {
            let total: usize = full.iter().sum();
            let in_use = full.iter().filter(|&&count| count > 0).count();
            let wanted = in_use + ((total - in_use) as f64 * share) as usize;
            let counts = apportion(full, wanted).unwrap();
            prop_assert_eq!(counts.iter().sum::<usize>(), wanted);
            for (count, full) in counts.into_iter().zip(full) {
                prop_assert!(count <= full && (count > 0) == (full > 0));
            }
        }
    }
}
