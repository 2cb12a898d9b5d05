//! Countries: codes, centres and the time that light needs between them.
//!
//! `countries.csv` holds, per country, the centre of its people and networks (not of its area: Canada's lies near its
//! southern border) in degrees, to a fraction of a degree, and its extent: the typical distance of two hosts in it. They were
//! written down for this table from general knowledge of geography; the floor and the regression need no better.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

const EARTH_RADIUS_KM: f64 = 6371.0;

/// Speed of light in fibre, two thirds of that in vacuum, in km per ms.
const FIBRE_KM_PER_MS: f64 = 2.0 / 3.0 * 299.792_458;

/// A country by its two-letter code (ISO 3166-1 alpha-2), in capitals.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Country([u8; 2]);

/// Centre and extent of a country.
#[derive(Debug, Clone, Copy)]
pub(super) struct Centre {
    latitude: f64,
    longitude: f64,
    extent_km: f64,
}

impl Country {
    /// Reads two letters of either case; `None` for anything else. Whether such a country exists is not asked.
    pub fn parse(code: &str) -> Option<Self> {
        match *code.as_bytes() {
            [a, b] if a.is_ascii_alphabetic() && b.is_ascii_alphabetic() => {
                Some(Self([a.to_ascii_uppercase(), b.to_ascii_uppercase()]))
            }
            _ => None,
        }
    }

    /// The two letters.
    pub fn code(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("??")
    }
}

impl fmt::Display for Country {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl fmt::Debug for Country {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl Centre {
    /// Great-circle distance (haversine) in km.
    pub(super) fn distance_km(self, other: Self) -> f64 {
        let (lat_a, lat_b) = (self.latitude.to_radians(), other.latitude.to_radians());
        let (lon_a, lon_b) = (self.longitude.to_radians(), other.longitude.to_radians());
        let (sin_lat, sin_lon) = (libm::sin((lat_a - lat_b) / 2.0), libm::sin((lon_a - lon_b) / 2.0));
        let h = sin_lat * sin_lat + libm::cos(lat_a) * libm::cos(lat_b) * sin_lon * sin_lon;
        2.0 * EARTH_RADIUS_KM * libm::asin(libm::sqrt(h).min(1.0))
    }
}

fn centres() -> &'static BTreeMap<Country, Centre> {
    static CENTRES: OnceLock<BTreeMap<Country, Centre>> = OnceLock::new();
    CENTRES.get_or_init(|| include_str!("countries.csv").lines().skip(1).filter_map(centre_row).collect())
}

fn centre_row(line: &str) -> Option<(Country, Centre)> {
    let mut fields = line.split(',');
    let country = Country::parse(fields.next()?)?;
    let mut number = || fields.next()?.parse().ok();
    Some((country, Centre { latitude: number()?, longitude: number()?, extent_km: number()? }))
}

/// The centre of a country; `None` where it is not known.
pub(super) fn centre(country: Country) -> Option<Centre> {
    centres().get(&country).copied()
}

/// Distance of two countries' centres, or within one country its extent, in km.
pub(super) fn distance_km(a: Country, b: Country) -> Option<f64> {
    let (from, to) = (centre(a)?, centre(b)?);
    Some(if a == b { from.extent_km } else { from.distance_km(to) })
}

/// Round trip of light in fibre over [`distance_km`], in ms: no measured round trip can be shorter.
pub(super) fn floor_ms(a: Country, b: Country) -> Option<f64> {
    Some(2.0 * distance_km(a, b)? / FIBRE_KM_PER_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_is_a_country() {
        let text = include_str!("countries.csv");
        assert_eq!(centres().len(), text.lines().count() - 1);
        for (country, centre) in centres() {
            assert!(centre.latitude.abs() < 70.0 && centre.longitude.abs() <= 180.0 && centre.extent_km > 0.0, "{country}");
        }
    }

    #[test]
    fn known_distances() {
        let distance = |a, b| distance_km(Country::parse(a).unwrap(), Country::parse(b).unwrap()).unwrap();
        assert!((distance("DE", "NL") - 350.0).abs() < 50.0);
        assert!((distance("FR", "US") - 7_270.0).abs() < 100.0);
        assert!(distance("NZ", "ES") > 19_000.0, "nearly antipodes");
        assert!((distance("FJ", "WS") - 1_150.0).abs() < 200.0, "across the date line");
        assert!((distance("DE", "US") - distance("US", "DE")).abs() < 1e-9);
    }

    #[test]
    fn codes_are_two_letters() {
        assert_eq!(Country::parse("de").unwrap().code(), "DE");
        for code in ["", "D", "DEU", "D1", "??", "ß"] {
            assert_eq!(Country::parse(code), None, "{code}");
        }
    }
}
