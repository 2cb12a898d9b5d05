//! Exit-policy summaries: which ports an exit serves, addresses left aside.
//!
//! Source: `p` line of an unflavoured consensus (Tor directory specification, "consensus formats"). A microdescriptor
//! consensus has none: there the summary stands in the microdescriptors, which are other documents.

use crate::error::DirectoryError;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The ports to which a relay lets traffic out, to most addresses.
///
/// Invariant: ranges of accepted ports, ascending, not touching. Cloning is cheap: relays share equal summaries.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PortSummary {
    accepted: Arc<[(u16, u16)]>,
}

impl PortSummary {
    /// Every port.
    pub fn accept_all() -> Self {
        Self { accepted: Arc::new([(1, 65535)]) }
    }

    /// No port at all.
    pub fn reject_all() -> Self {
        Self { accepted: Arc::new([]) }
    }

    /// Whether the relay lets traffic out to `port`.
    pub fn allows(&self, port: u16) -> bool {
        let after = self.accepted.partition_point(|&(low, _)| low <= port);
        after > 0 && port <= self.accepted[after - 1].1
    }

    /// Whether any port is accepted.
    pub fn allows_any(&self) -> bool {
        !self.accepted.is_empty()
    }

    /// The accepted ports as inclusive ranges, ascending.
    pub fn accepted(&self) -> &[(u16, u16)] {
        &self.accepted
    }

    fn from_ranges(mut ranges: Vec<(u16, u16)>) -> Self {
        ranges.sort_unstable();
        let mut merged: Vec<(u16, u16)> = Vec::with_capacity(ranges.len());
        for (low, high) in ranges {
            match merged.last_mut() {
                Some(last) if u32::from(low) <= u32::from(last.1) + 1 => last.1 = last.1.max(high),
                _ => merged.push((low, high)),
            }
        }
        Self { accepted: merged.into() }
    }

    /// The ports that are not accepted.
    fn complement(&self) -> Vec<(u16, u16)> {
        let mut rejected = Vec::with_capacity(self.accepted.len() + 1);
        let mut next = 1_u32;
        for &(low, high) in self.accepted.iter() {
            if next < u32::from(low) {
                rejected.push((next as u16, low - 1));
            }
            next = u32::from(high) + 1;
        }
        if next <= 65535 {
            rejected.push((next as u16, 65535));
        }
        rejected
    }
}

fn ports(ranges: &[(u16, u16)]) -> String {
    let texts: Vec<_> =
        ranges.iter().map(|&(low, high)| if low == high { low.to_string() } else { format!("{low}-{high}") }).collect();
    texts.join(",")
}

/// As a consensus writes it: `accept` or `reject`, whichever is shorter (`accept` if equal).
impl fmt::Display for PortSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (accepted, rejected) = (ports(&self.accepted), ports(&self.complement()));
        if rejected.is_empty() || (!accepted.is_empty() && accepted.len() <= rejected.len()) {
            write!(f, "accept {accepted}")
        } else {
            write!(f, "reject {rejected}")
        }
    }
}

impl FromStr for PortSummary {
    type Err = DirectoryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || DirectoryError::PortSummary { text: text.chars().take(60).collect() };
        let (kind, list) = text.trim().split_once(' ').ok_or_else(error)?;
        let port = |text: &str| text.parse::<u16>().ok().filter(|&port| port > 0);
        let ranges = list
            .trim()
            .split(',')
            .map(|range| {
                let (low, high) = range.split_once('-').unwrap_or((range, range));
                Some((port(low)?, port(high)?)).filter(|(low, high)| low <= high)
            })
            .collect::<Option<Vec<_>>>()
            .ok_or_else(error)?;
        let summary = Self::from_ranges(ranges);
        match kind {
            "accept" => Ok(summary),
            "reject" => Ok(Self { accepted: summary.complement().into() }),
            _ => Err(error()),
        }
    }
}

impl serde::Serialize for PortSummary {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_web_and_a_range() {
        let summary: PortSummary = "accept 80,443,6660-6669".parse().unwrap();
        for (port, allowed) in [(80, true), (81, false), (443, true), (6660, true), (6669, true), (6670, false), (1, false)] {
            assert_eq!(summary.allows(port), allowed, "{port}");
        }
        let inverted: PortSummary = "reject 25,119".parse().unwrap();
        assert!(inverted.allows(24) && !inverted.allows(25) && inverted.allows(65535));
    }

    #[test]
    fn all_and_nothing_print_as_tor_prints_them() {
        assert_eq!(PortSummary::accept_all().to_string(), "accept 1-65535");
        assert_eq!(PortSummary::reject_all().to_string(), "reject 1-65535");
        assert!(!"reject 1-65535".parse::<PortSummary>().unwrap().allows_any());
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "accept", "accept ", "accept 0", "accept 65536", "accept 9-5", "allow 80", "accept 80,,443", "reject x"]
        {
            assert!(text.parse::<PortSummary>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn printing_and_reading_is_the_identity(ranges in prop::collection::vec((1..=65535_u16, 0..500_u16), 0..12)) {
            let ranges = ranges.into_iter().map(|(low, length)| (low, low.saturating_add(length))).collect();
            let summary = PortSummary::from_ranges(ranges);
            prop_assert_eq!(summary.to_string().parse::<PortSummary>().unwrap(), summary);
        }
    }
}
