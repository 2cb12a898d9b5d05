//! Which country an IPv4 address is in, from the file that tor itself uses.
//!
//! Format of tor's `geoip` file: lines `LOW,HIGH,CC`, the first and last address of a range as decimal integers and a country
//! code, in ascending order, `#` starting a comment line, `??` for "unknown". Debian's package `tor-geoipdb` installs one as
//! `/usr/share/tor/geoip`. C tor: `geoip.c`, `geoip_parse_entry`. Deviation: a malformed line is an error here, where tor skips
//! it; ranges must be in order, where tor sorts them.

use super::country::Country;
use super::error::{At, LatencyError};
use super::read::bounded;
use std::net::Ipv4Addr;
use std::path::Path;

/// Real files have 10 MB.
const LIMIT: u64 = 64 << 20;

/// Ranges of addresses with their countries. Memory: 12 bytes a range, 4.6 MB for a file of 2026.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeoIp {
    /// First and last address, ascending, disjoint.
    ranges: Vec<(u32, u32, Country)>,
}

impl GeoIp {
    /// Reads a `geoip` file.
    ///
    /// # Errors
    /// Names file, line, column and what is allowed.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, LatencyError> {
        let path = path.as_ref();
        let fault = |source| LatencyError::Read { file: path.to_owned(), source };
        Self::parse(path, &bounded(std::fs::File::open(path).map_err(fault)?, path, LIMIT)?)
    }

    /// Parses the contents of a `geoip` file; `file` only names it in errors.
    ///
    /// # Errors
    /// Names file, line, column and what is allowed.
    pub fn parse(file: &Path, bytes: &[u8]) -> Result<Self, LatencyError> {
        let mut ranges: Vec<(u32, u32, Country)> = Vec::new();
        let mut last = None;
        for (number, line) in bytes.split(|&b| b == b'\n').enumerate() {
            let at = At { file, line: number + 1 };
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            let text = String::from_utf8_lossy(line);
            let fields: Vec<&str> = text.split(',').collect();
            let [low_text, high_text, code] = fields[..] else {
                return Err(at.refuse("all", &text, "LOW,HIGH,CC"));
            };
            let address = |column, text: &str| {
                text.parse::<u32>().map_err(|_| at.refuse(column, text, "an IPv4 address as an integer from 0 to 4294967295"))
            };
            let (low, high) = (address("low", low_text)?, address("high", high_text)?);
            if last.is_some_and(|last| low <= last) {
                return Err(at.refuse("low", low_text, "an address above those of the ranges before"));
            }
            if high < low {
                return Err(at.refuse("high", high_text, "an address not below the range's first"));
            }
            last = Some(high);
            match Country::parse(code) {
                Some(country) => ranges.push((low, high, country)),
                None if code == "??" => {}
                None => return Err(at.refuse("country", code, "two letters, or ?? for unknown")),
            }
        }
        if ranges.is_empty() {
            let found = "no range of addresses".to_owned();
            return Err(LatencyError::TooLittle { file: file.to_owned(), found, allowed: "one line LOW,HIGH,CC or more" });
        }
        Ok(Self { ranges })
    }

    /// The country of an address; `None` where the file does not say.
    pub fn country(&self, address: Ipv4Addr) -> Option<Country> {
        let address = u32::from(address);
        let (_, high, country) = self.ranges[..self.ranges.partition_point(|&(low, _, _)| low <= address)].last()?;
        (address <= *high).then_some(*country)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SMALL: &str = "# comment\n16777216,16777471,AU\n16777472,16778239,CN\n16778240,16779263,??\n3232235520,3232235775,de\n";

    #[test]
    fn addresses_at_the_edges_of_ranges() {
        let geoip = GeoIp::parse(Path::new("geoip"), SMALL.as_bytes()).unwrap();
        for (address, country) in [
            ("1.0.0.0", Some("AU")),
            ("1.0.0.255", Some("AU")),
            ("1.0.1.0", Some("CN")),
            ("1.0.4.0", None),
            ("0.255.255.255", None),
            ("192.168.0.255", Some("DE")),
            ("192.168.1.0", None),
            ("255.255.255.255", None),
        ] {
            assert_eq!(geoip.country(address.parse().unwrap()).map(|c| c.to_string()).as_deref(), country, "{address}");
        }
    }

    #[test]
    fn each_bad_file_is_refused_with_its_place() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/bad/latency");
        for (name, expected) in [
            ("geoip-columns", "line 2, column all: `16777472,CN` is not allowed; allowed is LOW,HIGH,CC"),
            ("geoip-address", "line 1, column low: `1.0.0.0` is not allowed; allowed is an IPv4 address as an integer"),
            ("geoip-reversed", "line 1, column high: `16777000` is not allowed"),
            ("geoip-overlap", "line 2, column low: `16777471` is not allowed; allowed is an address above"),
            ("geoip-country", "line 1, column country: `AUS` is not allowed"),
            ("geoip-empty", "no range of addresses; allowed is one line"),
        ] {
            let error = GeoIp::read(folder.join(name)).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains(name), "{name}: {error}");
        }
    }

    #[test]
    fn the_file_of_debian_is_understood() {
        let Ok(geoip) = GeoIp::read("/usr/share/tor/geoip") else {
            println!("skipped: /usr/share/tor/geoip is absent (Debian package tor-geoipdb)");
            return;
        };
        // The authorities gabelmoo and dizum have been where they are for over fifteen years.
        assert_eq!(geoip.country("131.188.40.189".parse().unwrap()), Country::parse("DE"));
        assert_eq!(geoip.country("45.66.35.11".parse().unwrap()), Country::parse("NL"));
    }

    proptest! {
        #[test]
        fn no_mutation_makes_the_reader_panic(
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            address in any::<u32>(),
        ) {
            let mut bytes = SMALL.as_bytes().to_vec();
            for (index, byte) in changes {
                let at = index.index(bytes.len());
                bytes[at] = byte;
            }
            if let Ok(geoip) = GeoIp::parse(Path::new("mutated"), &bytes) {
                geoip.country(Ipv4Addr::from(address));
            }
        }
    }
}
