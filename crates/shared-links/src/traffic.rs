//! Kinds of traffic, told apart by the ports that an exit must serve.

use crate::error::SharedLinksError;
use onionlab_directory::PortSummary;
use std::fmt;
use std::str::FromStr;

/// An inclusive range of ports, from 1 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PortRange {
    low: u16,
    high: u16,
}

/// The ports of one kind of traffic. Reads and prints as `80,443,6881-6889`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ports(Vec<PortRange>);

impl Ports {
    /// Whether an exit with this policy serves the traffic: every one of the ports.
    pub fn served_by(&self, policy: &PortSummary) -> bool {
        self.0.iter().all(|range| {
            // A range is served when one accepted range covers it; accepted ranges do not touch.
            policy.accepted().iter().any(|&(low, high)| low <= range.low && range.high <= high)
        })
    }

    /// Whether the Exit flag alone promises the ports: 80 and 443.
    pub fn is_web(&self) -> bool {
        self.0.iter().all(|range| range.low == range.high && matches!(range.low, 80 | 443))
    }
}

impl FromStr for Ports {
    type Err = SharedLinksError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let port = |text: &str| text.trim().parse::<u16>().ok().filter(|&port| port > 0);
        let range = |text: &str| {
            let (low, high) = text.split_once('-').unwrap_or((text, text));
            Some(PortRange { low: port(low)?, high: port(high)? }).filter(|range| range.low <= range.high)
        };
        let ranges = text
            .split(',')
            .map(|part| range(part).ok_or_else(|| SharedLinksError::Ports { text: part.trim().chars().take(40).collect() }));
        ranges.collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, PortRange { low, high }) in self.0.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            if low == high { write!(f, "{comma}{low}")? } else { write!(f, "{comma}{low}-{high}")? }
        }
        Ok(())
    }
}

impl serde::Serialize for Ports {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Ports {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The traffic classes of the SALSA paper (table 1, after Jansen and Johnson 2016).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrafficClass {
    /// Ports 80 and 443.
    Web,
    /// Ports 6881 to 6889. (The table's "6881-6880" is a slip.)
    BittorrentBase,
    /// Ports 6890 to 6999.
    BittorrentExtended,
    /// Other file sharing: eDonkey, Gnutella, WinMX.
    OtherFileSharing,
    /// Mail, news and file services.
    Various,
}

impl TrafficClass {
    /// All classes in the order of the table.
    pub const ALL: [Self; 5] = [Self::Web, Self::BittorrentBase, Self::BittorrentExtended, Self::OtherFileSharing, Self::Various];

    /// The class's ports.
    pub fn ports(self) -> Ports {
        let single = |port| PortRange { low: port, high: port };
        Ports(match self {
            Self::Web => vec![single(80), single(443)],
            Self::BittorrentBase => vec![PortRange { low: 6881, high: 6889 }],
            Self::BittorrentExtended => vec![PortRange { low: 6890, high: 6999 }],
            Self::OtherFileSharing => {
                vec![single(1214), PortRange { low: 4661, high: 4666 }, PortRange { low: 6346, high: 6429 }, single(6699)]
            }
            Self::Various => {
                vec![single(25), single(119), PortRange { low: 135, high: 139 }, single(445), single(563)]
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_read_and_print() {
        for text in ["80", "80,443", "6881-6889,25"] {
            assert_eq!(text.parse::<Ports>().unwrap().to_string(), text);
        }
        for text in ["", "0", "65536", "80,", "9-5", "http", "-5", "80-"] {
            let error = text.parse::<Ports>().unwrap_err().to_string();
            assert!(error.contains("from 1 to 65535"), "{error}");
        }
    }

    #[test]
    fn every_port_must_be_served() {
        let policy: PortSummary = "accept 80,443,6881-6885,6887-6999".parse().unwrap();
        assert!(TrafficClass::Web.ports().served_by(&policy));
        assert!(!TrafficClass::BittorrentBase.ports().served_by(&policy));
        assert!(TrafficClass::BittorrentExtended.ports().served_by(&policy));
        assert!(TrafficClass::ALL.iter().all(|class| class.ports().served_by(&PortSummary::accept_all())));
        assert!(TrafficClass::Web.ports().is_web() && !TrafficClass::Various.ports().is_web());
    }
}
