//! Where relays, users and servers are, when nothing says so.
//!
//! A consensus names no countries. Without a geoip file each relay's place is drawn from the places of the network of 2018,
//! weighted by capacity and separately for the four classes of relays; users and servers are drawn from those of a published
//! model of the Tor of 2019. A caller draws with the stream named after the host, so that a relay has the same place
//! whenever a network is sampled with the same seed.

use super::builtin;
use super::{LatencyTable, Place, builtin_places};
use onionlab_quantities::Draw;

/// Places with the probability of each, drawn exactly (whole-numbered weights).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceDistribution {
    places: Vec<Place>,
    /// Sums of the weights up to and with each place.
    cumulative: Vec<u64>,
}

impl PlaceDistribution {
    /// The distribution with these weights (of any scale); `None` if all are zero.
    pub fn new(weighted: impl IntoIterator<Item = (Place, u32)>) -> Option<Self> {
        let (mut places, mut cumulative, mut sum) = (Vec::new(), Vec::new(), 0_u64);
        for (place, weight) in weighted.into_iter().filter(|&(_, weight)| weight > 0) {
            sum += u64::from(weight);
            places.push(place);
            cumulative.push(sum);
        }
        (sum > 0).then_some(Self { places, cumulative })
    }

    /// Places of relays with or without the flags Guard and Exit, as shares of their capacity in 2018.
    ///
    /// Since circuits choose relays by bandwidth, drawing every relay from the shares of capacity puts the traffic where it was.
    pub fn relays(table: &LatencyTable, guard: bool, exit: bool) -> Self {
        let weights = match (guard, exit) {
            (false, false) => &builtin::MIDDLES,
            (true, false) => &builtin::GUARDS,
            (false, true) => &builtin::EXITS,
            (true, true) => &builtin::GUARD_EXITS,
        };
        Self::of_builtin(table, weights)
    }

    /// Places of users: the clients of the Shadow networks of "Once is Never Enough" (2021), which follow Tor Metrics of 2019.
    pub fn users(table: &LatencyTable) -> Self {
        Self::of_builtin(table, &builtin::USERS)
    }

    /// Places of the servers that users talk to, from the same networks.
    pub fn servers(table: &LatencyTable) -> Self {
        Self::of_builtin(table, &builtin::SERVERS)
    }

    /// The built-in weights on the places of `table`, each at the nearest that it has.
    fn of_builtin(table: &LatencyTable, weights: &[u32]) -> Self {
        let nearest = builtin_places().map(|country| table.place_of(country));
        Self::new(nearest.zip(weights).filter_map(|(place, &weight)| Some((place?, weight))))
            .expect("every built-in country has a centre, so each table has a nearest place for it")
    }

    /// The place that a random value falls on.
    pub fn draw(&self, draw: Draw) -> Place {
        let value = draw.below(self.cumulative.last().copied().unwrap_or(0));
        self.places[self.cumulative.partition_point(|&sum| sum <= value)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::Country;
    use onionlab_quantities::{RandomStream, Seed};

    fn share(distribution: &PlaceDistribution, place: Place) -> f64 {
        let stream = RandomStream::new(Seed(3), "hosts", "place");
        let n = 20_000;
        (0..n).filter(|&i| distribution.draw(stream.at(i)) == place).count() as f64 / n as f64
    }

    #[test]
    fn draws_follow_the_weights() {
        let distribution = PlaceDistribution::new([(Place(4), 1), (Place(7), 0), (Place(2), 3)]).unwrap();
        // Five standard errors of a share of 1/4 in 20,000 draws.
        assert!((share(&distribution, Place(4)) - 0.25).abs() < 0.0153);
        assert!((share(&distribution, Place(2)) - 0.75).abs() < 0.0153);
        assert!(share(&distribution, Place(7)) < f64::EPSILON);
        assert_eq!(PlaceDistribution::new([(Place(0), 0)]), None);
    }

    #[test]
    fn relays_users_and_servers_are_where_they_were() {
        let table = LatencyTable::builtin();
        let place = |code: &str| table.place_of(Country::parse(code).unwrap()).unwrap();
        for (distribution, code, expected) in [
            (PlaceDistribution::relays(&table, true, false), "DE", 0.18),
            (PlaceDistribution::relays(&table, false, true), "US", 0.41),
            (PlaceDistribution::relays(&table, false, false), "US", 0.30),
            (PlaceDistribution::relays(&table, true, true), "NL", 0.105),
            (PlaceDistribution::users(&table), "RU", 0.13),
            (PlaceDistribution::servers(&table), "US", 0.15),
        ] {
            let found = share(&distribution, place(code));
            assert!((found - expected).abs() < 0.02, "{code}: {found}, expected {expected}");
        }
    }

    #[test]
    fn all_weights_are_shares() {
        for weights in [builtin::MIDDLES, builtin::GUARDS, builtin::EXITS, builtin::GUARD_EXITS, builtin::USERS, builtin::SERVERS]
        {
            assert!(weights.iter().sum::<u32>().abs_diff(100_000) < 20);
        }
    }
}
