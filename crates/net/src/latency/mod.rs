//! Latency by place: how long a packet travels between two hosts, apart from queues and serialisation.
//!
//! One-way latency = half the round trip between the places of the two hosts, from a small table, plus the access delay of
//! each. There is never a host-by-host matrix (`docs/architecture.md`, rule 7): the built-in table has 25 places and takes
//! 5 kB, the full table of a country file about 160 places and 200 kB, whatever the number of hosts.
//!
//! `docs/latency.md` says where the numbers come from, how they were cleaned and what the model leaves out.

mod access;
mod builtin;
mod clean;
mod country;
mod error;
mod geoip;
mod places;
mod read;

pub use access::{AccessBandwidth, AccessDelay};
pub use clean::Cleaning;
pub use country::Country;
pub use error::LatencyError;
pub use geoip::GeoIp;
pub use places::PlaceDistribution;

use onionlab_quantities::SimDuration;

/// A place: the index of a country in a [`LatencyTable`]. It means nothing to another table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub u16);

/// Where a host is: what the latency to any other host is computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// The place in the table.
    pub place: Place,
    /// One-way delay between the host and the core of its place (the last mile).
    pub access: SimDuration,
}

/// Round trips between places, and how much they vary. Symmetric; within a place too.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyTable {
    places: Vec<Country>,
    /// Lower triangle with diagonal, row after row: the pair (a, b) with b <= a is at a (a + 1) / 2 + b.
    rtt: Vec<SimDuration>,
    deviation: Vec<SimDuration>,
    cleaning: Option<Cleaning>,
}

impl LatencyTable {
    /// The built-in table of 25 places, fitted to 2.5 billion pings of March and April 2025 (`docs/latency.md`).
    pub fn builtin() -> Self {
        let micros = |values: &[u32]| values.iter().map(|&v| SimDuration::from_micros(v.into())).collect();
        Self {
            places: builtin_places().collect(),
            rtt: micros(&builtin::RTT_MICROS),
            deviation: micros(&builtin::DEVIATION_MICROS),
            cleaning: None,
        }
    }

    /// The table with all round trips and deviations times `factor`; 1 changes nothing.
    #[must_use]
    pub fn scaled(mut self, factor: f64) -> Self {
        for time in self.rtt.iter_mut().chain(&mut self.deviation) {
            *time = time.mul_f64_rounded(factor);
        }
        self
    }

    /// The table with no round trip below `floor`. Deviations stay.
    #[must_use]
    pub fn floored(mut self, floor: SimDuration) -> Self {
        for time in &mut self.rtt {
            *time = (*time).max(floor);
        }
        self
    }

    /// The table with the round trip between two of its countries, or within one, as it is known to be; the deviation stays. `None` where it
    /// lacks one of the two.
    #[must_use]
    pub fn with_round_trip(mut self, a: Country, b: Country, rtt: SimDuration) -> Option<Self> {
        let place = |country| self.places().find(|&place| self.country(place) == country);
        let (a, b) = (place(a)?, place(b)?);
        self.rtt[index(a, b)] = rtt;
        Some(self)
    }

    /// The number of places.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether the table has no places; never true of a table that was built or read.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// All places, in the order of the table.
    pub fn places(&self) -> impl Iterator<Item = Place> + '_ {
        (0..self.places.len()).map(|i| Place(i as u16))
    }

    /// The country that a place stands for.
    pub fn country(&self, place: Place) -> Country {
        self.places[usize::from(place.0)]
    }

    /// The place of a country: itself where the table has it, otherwise the nearest that it has.
    ///
    /// `None` for a code that names no country with a known centre (`countries.csv`).
    pub fn place_of(&self, country: Country) -> Option<Place> {
        if let Some(index) = self.places.iter().position(|&p| p == country) {
            return Some(Place(index as u16));
        }
        let centre = country::centre(country)?;
        let distance = |p: Country| country::centre(p).map_or(f64::INFINITY, |other| centre.distance_km(other));
        let nearest = (0..self.places.len()).min_by(|&a, &b| distance(self.places[a]).total_cmp(&distance(self.places[b])));
        nearest.map(|index| Place(index as u16))
    }

    /// Round trip between the cores of two places, without access delays and queues.
    pub fn rtt(&self, a: Place, b: Place) -> SimDuration {
        self.rtt[index(a, b)]
    }

    /// One-way latency between the cores of two places: half the round trip.
    ///
    /// Deviation: real routes are not symmetric; a transfer's time depends on their sum, which is kept.
    pub fn one_way(&self, a: Place, b: Place) -> SimDuration {
        self.rtt(a, b) / 2
    }

    /// How much the one-way latency of a path varies in time: half the deviation of the round trip. As the mean of an exponential
    /// extra delay (whose deviation equals its mean) it can serve as [`crate::Path::jitter`].
    ///
    /// At most 1 % of the round trip, because what was measured over whole countries mixes many paths (`docs/latency.md`).
    pub fn jitter(&self, a: Place, b: Place) -> SimDuration {
        self.deviation[index(a, b)] / 2
    }

    /// One-way latency between two hosts: that of their places plus both access delays.
    pub fn between(&self, a: Location, b: Location) -> SimDuration {
        self.one_way(a.place, b.place) + a.access + b.access
    }

    /// What the cleaning did to a table that was read from a file; `None` for the built-in table.
    pub fn cleaning(&self) -> Option<&Cleaning> {
        self.cleaning.as_ref()
    }
}

fn builtin_places() -> impl Iterator<Item = Country> {
    builtin::PLACES.iter().filter_map(|code| Country::parse(code))
}

fn index(a: Place, b: Place) -> usize {
    let (low, high) = (usize::from(a.0.min(b.0)), usize::from(a.0.max(b.0)));
    high * (high + 1) / 2 + low
}

#[cfg(test)]
mod tests {
    use super::*;
    use onionlab_quantities::{RandomStream, Seed};

    fn place(table: &LatencyTable, code: &str) -> Place {
        table.place_of(Country::parse(code).unwrap()).unwrap()
    }

    fn rtt_ms(table: &LatencyTable, a: &str, b: &str) -> f64 {
        table.rtt(place(table, a), place(table, b)).as_secs_f64() * 1e3
    }

    /// A change of the built-in numbers changes every result and must not happen by accident.
    #[test]
    fn the_builtin_numbers_are_fixed() {
        let table = LatencyTable::builtin();
        let mut bytes = Vec::new();
        for value in table.rtt.iter().chain(&table.deviation) {
            bytes.extend(value.as_nanos().to_le_bytes());
        }
        assert_eq!(fnv(&bytes), GOLDEN, "run tools/fit_latency.py --check, then say in the changelog why results change");
    }
    const GOLDEN: u64 = 14_601_298_739_160_555_359;

    fn fnv(bytes: &[u8]) -> u64 {
        bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
    }

    #[test]
    fn the_builtin_table_is_whole_and_symmetric() {
        let table = LatencyTable::builtin();
        assert_eq!(table.len(), 25);
        assert_eq!(table.rtt.len(), 25 * 26 / 2);
        assert_eq!(table.deviation.len(), 25 * 26 / 2);
        for a in table.places() {
            for b in table.places() {
                assert_eq!(table.rtt(a, b), table.rtt(b, a));
                assert_eq!(table.jitter(a, b), table.jitter(b, a));
                assert!(table.rtt(a, b) > SimDuration::from_millis(1), "{} {}", table.country(a), table.country(b));
                assert!(table.jitter(a, b) * 50 <= table.rtt(a, b) + SimDuration::from_micros(50));
            }
        }
    }

    #[test]
    fn nothing_is_faster_than_light_in_fibre() {
        let table = LatencyTable::builtin();
        for a in table.places() {
            for b in table.places() {
                let floor = country::floor_ms(table.country(a), table.country(b)).unwrap();
                assert!(table.rtt(a, b).as_secs_f64() * 1e3 >= floor - 0.001, "{} {}", table.country(a), table.country(b));
            }
        }
    }

    /// Against what anyone can ping.
    #[test]
    fn orders_of_magnitude_are_right() {
        let table = LatencyTable::builtin();
        for (a, b, low, high) in [
            ("DE", "NL", 5.0, 20.0),
            ("DE", "FR", 10.0, 35.0),
            ("DE", "US", 80.0, 130.0),
            ("NL", "US", 75.0, 120.0),
            ("US", "US", 30.0, 75.0),
            ("DE", "RU", 35.0, 70.0),
            ("DE", "SG", 130.0, 180.0),
            ("DE", "BR", 180.0, 230.0),
            ("DE", "AU", 230.0, 330.0),
            ("US", "JP", 100.0, 170.0),
        ] {
            let rtt = rtt_ms(&table, a, b);
            assert!((low..high).contains(&rtt), "{a} {b}: {rtt} ms");
        }
    }

    #[test]
    fn a_country_that_the_table_lacks_is_where_its_neighbour_is() {
        let table = LatencyTable::builtin();
        assert_eq!(place(&table, "BE"), place(&table, "NL"));
        assert_eq!(place(&table, "NZ"), place(&table, "AU"));
        assert_eq!(place(&table, "KR"), place(&table, "JP"));
        assert_eq!(table.place_of(Country::parse("AB").unwrap()), None);
    }

    #[test]
    fn two_hosts_are_apart_by_their_places_and_both_last_miles() {
        let table = LatencyTable::builtin();
        let a = Location { place: place(&table, "DE"), access: SimDuration::from_millis(8) };
        let b = Location { place: place(&table, "US"), access: SimDuration::from_micros(250) };
        assert_eq!(table.between(a, b), table.one_way(a.place, b.place) + SimDuration::from_micros(8_250));
        assert_eq!(table.between(a, b), table.between(b, a));
    }

    #[test]
    fn a_factor_stretches_round_trips_and_what_they_vary_by() {
        let table = LatencyTable::builtin();
        let (a, b) = (place(&table, "DE"), place(&table, "US"));
        let slow = table.clone().scaled(1.5);
        assert_eq!(slow.rtt(a, b) * 2, table.rtt(a, b) * 3);
        assert_eq!(slow.jitter(a, b), table.jitter(a, b).mul_f64_rounded(1.5));
        assert_eq!(table.clone().scaled(1.0), table);
    }

    #[test]
    fn a_floor_lengthens_what_is_shorter_alone() {
        let table = LatencyTable::builtin();
        let [germany, france, states] = ["DE", "FR", "US"].map(|code| place(&table, code));
        let floor = SimDuration::from_millis(20);
        let floored = table.clone().floored(floor);
        assert!(table.rtt(germany, germany) < floor && table.rtt(germany, france) > floor);
        assert_eq!(floored.rtt(germany, germany), floor);
        assert_eq!(floored.rtt(germany, france), table.rtt(germany, france));
        assert_eq!(floored.rtt(states, germany), table.rtt(states, germany));
        assert_eq!(table.clone().floored(SimDuration::ZERO), table);
    }

    #[test]
    fn a_round_trip_that_is_known_takes_the_place_of_the_tables_both_ways() {
        let table = LatencyTable::builtin();
        let [germany, france, states] = ["DE", "FR", "US"].map(|code| place(&table, code));
        let [de, fr, belgium] = ["DE", "FR", "BE"].map(|code| Country::parse(code).unwrap());
        let known = SimDuration::from_millis(66);
        let changed = table.clone().with_round_trip(fr, de, known).unwrap();
        assert_eq!((changed.rtt(germany, france), changed.rtt(france, germany)), (known, known));
        assert_eq!(changed.rtt(germany, germany), table.rtt(germany, germany));
        assert_eq!(changed.rtt(france, states), table.rtt(france, states));
        assert_eq!(changed.with_round_trip(de, de, known).unwrap().rtt(germany, germany), known);
        // Its nearest neighbour's round trips are another country's.
        assert!(table.place_of(belgium).is_some() && table.clone().with_round_trip(belgium, de, known).is_none());
    }

    /// Mean round trip of a three-hop circuit from a user to a server, without queues. On live Tor of 2019 OnionPerf saw, queues
    /// included, 0.14 s in the fastest tenth, 0.40 s in the median and 0.72 s in the slowest tenth.
    #[test]
    fn a_circuits_round_trip_is_plausible() {
        let table = LatencyTable::builtin();
        let delays = AccessDelay::client();
        let relay = AccessDelay::data_centre();
        let n = 2_000;
        let mut sum = 0.0;
        for i in 0..n {
            let at = |purpose| RandomStream::new(Seed(1), "circuit", purpose).at(i);
            let hosts = [
                (PlaceDistribution::users(&table).draw(at("client")), delays.draw(at("last mile"))),
                (PlaceDistribution::relays(&table, true, false).draw(at("guard")), relay.draw(at("guard access"))),
                (PlaceDistribution::relays(&table, false, false).draw(at("middle")), relay.draw(at("middle access"))),
                (PlaceDistribution::relays(&table, false, true).draw(at("exit")), relay.draw(at("exit access"))),
                (PlaceDistribution::servers(&table).draw(at("server")), relay.draw(at("server access"))),
            ]
            .map(|(place, access)| Location { place, access });
            sum += hosts.windows(2).map(|pair| 2.0 * table.between(pair[0], pair[1]).as_secs_f64()).sum::<f64>();
        }
        let mean = sum / n as f64;
        println!("mean round trip of a circuit, client to server: {mean:.3} s");
        assert!((0.25..0.45).contains(&mean), "{mean}");
    }
}
