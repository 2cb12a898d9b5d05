//! The expectation: what the draw gives on average, in closed form.
//!
//! Two parts of a circuit lie on links (guard, middle) and (middle, last). For one pair of relays the number of parts on
//! it is a sum over independent clients, so that its distribution follows from that of one client's circuits: a polynomial
//! raised to the number of clients (`pair`). Relays with equal chances behave alike, so that sums over pairs of relays are
//! sums over pairs of groups, far fewer (`sums`); with one circuit per client, most of these fall apart into sums over
//! groups (`power_sums`).
//!
//! **Exact** (up to rounding): expected links and shared links, for any number k of circuits per client over any number of guards, directed
//! or not (clients are of kinds, by how many of their guards are either relay of a link: given that, their circuits are independent); links of a relay with itself and circuits that use one link twice included, since the draw has both. Links with n circuits
//! likewise (undirected, to 0.1 %). The share is the quotient of two expectations; the mean of the draws' quotients
//! differs from it by far less than the quotients differ from one another.
//!
//! **Approximated**: the standard deviation (parts taken as a multinomial sample, linearised quotient: Holst 1972; 6 % too small, with
//! k = 10 a fifth too small, with k = 64 half of what it is, since the spread then comes from clients); circuits with one and with two shared links (a circuit's two
//! links taken as independent given its middle; 1 % off where each relay has many: July 2021, 96,876 circuits, 12,887 and 830 instead of 12,871 and 835. A circuit A-B-A has both its parts on one undirected link, which this leaves out: where
//! little is shared, such circuits are most of those with two, of 5,000 within the network of 2021 0.7 instead of 4); links with more than 300 circuits, and such of more than
//! 1,500 circuits of at most 32 clients who are likely to meet there, of fewer with several guards (counted at their mean); a last client with fewer circuits than the others (as a fraction of a client; exact where at most 32 are likely to meet: `few`). Measured
//! against draws in `tests/draw_and_formula.rs`.

mod few;
mod guards;
mod pair;
mod power_sums;
mod sums;

use crate::error::SharedLinksError;
use crate::positions::Positions;
use crate::question::Question;
use sums::Sums;

/// Expected counts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Expected {
    /// Links with at least one part of a circuit.
    pub links: f64,
    /// Links with at least two.
    pub shared_links: f64,
    /// Standard deviation of the share of shared links (0 to 1) between draws.
    pub share_deviation: f64,
    /// Links with 1, 2, 3... parts; ends where less than a millionth of a link is left.
    pub circuits_per_link: Vec<f64>,
    /// Circuits one of whose parts is on a shared link.
    pub with_one: f64,
    /// Circuits both of whose parts are.
    pub with_two: f64,
}

impl Expected {
    /// Shared links among all links (0 to 1).
    pub fn share(&self) -> f64 {
        if self.links > 0.0 { self.shared_links / self.links } else { 0.0 }
    }
}

/// The expectation for `question` over `positions`.
///
/// # Errors
/// Numbers of the question are impossible, or exclusions are asked for, which have no closed form.
pub fn expect(positions: &Positions, question: &Question) -> Result<Expected, SharedLinksError> {
    expect_while(positions, question, &|| true)
}

/// The same as long as `goes_on` says so, which is asked for each group of relays.
///
/// # Errors
/// As [`expect`]; it is to stop.
pub fn expect_while(
    positions: &Positions,
    question: &Question,
    goes_on: &dyn Fn() -> bool,
) -> Result<Expected, SharedLinksError> {
    question.check()?;
    if !question.exclusions.is_none() {
        return Err(SharedLinksError::OnlyDraw { what: "exclusions of relays from one circuit" });
    }
    let groups = positions.groups();
    let mut sums = Sums::new(groups.len(), goes_on);
    if question.per_client == 1 {
        // One circuit is over one guard, however many its client has.
        sums.add_circuits(&groups, question.directed, question.circuits as f64);
    } else {
        let per_client = question.per_client as f64;
        let clients = question.circuits as f64 / per_client;
        let guards = question.guards_per_client as usize;
        sums.add_one_by_one(&groups, question.directed, |pair| pair.clients(clients, per_client, guards));
    }
    if sums.stopped {
        return Err(SharedLinksError::Stopped);
    }
    Ok(sums.into_expected(&groups, question.circuits as f64))
}
