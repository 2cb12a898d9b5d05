//! The draw: N circuits at random, and a count of what they share. This is SALSA's way (Algorithm 1 of the paper).

use crate::error::SharedLinksError;
use crate::positions::Positions;
use crate::question::{Exclusions, Question};
use onionlab_directory::Consensus;
use onionlab_paths::RelayIndex;
use onionlab_quantities::{RandomStream, Seed};

/// What one draw counted.
///
/// A circuit has two parts (guard to middle, middle to last). A link's circuits are counted by parts, as in the paper:
/// a circuit that goes from A over B back to A counts twice on the undirected link between A and B.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Count {
    /// Links with at least one part.
    pub links: u64,
    /// Links with at least two.
    pub shared_links: u64,
    /// Links with 1, 2, 3... parts: the first number is that of links with one ([`Question::MAX_PER_LINK`] numbers at most).
    pub circuits_per_link: Vec<u64>,
    /// Circuits one of whose parts is on a shared link.
    pub with_one: u64,
    /// Circuits both of whose parts are.
    pub with_two: u64,
}

impl Count {
    /// Shared links among all links (0 to 1).
    pub fn share(&self) -> f64 {
        self.shared_links as f64 / self.links.max(1) as f64
    }
}

/// A circuit that obeys the exclusions is looked for this often.
const TRIES: u32 = 10_000;

/// Circuits, and parts that are counted, between two questions whether it goes on: some milliseconds.
const AT_A_TIME: u64 = 1 << 17;

/// Draws the circuits of `question` once and counts links; the same seed gives the same circuits.
///
/// # Errors
/// Numbers of the question are impossible, or exclusions leave no circuit.
pub fn draw(network: &Consensus, positions: &Positions, question: &Question, seed: Seed) -> Result<Count, SharedLinksError> {
    draw_while(network, positions, question, seed, &|| true)
}

/// The same as long as `goes_on` says so, which is asked every now and then.
///
/// # Errors
/// As [`draw`]; it is to stop.
pub fn draw_while(
    network: &Consensus,
    positions: &Positions,
    question: &Question,
    seed: Seed,
    goes_on: &dyn Fn() -> bool,
) -> Result<Count, SharedLinksError> {
    question.check()?;
    let exclusions = Excluding::new(network, &question.exclusions)?;
    let mut parts = Vec::with_capacity(2 * question.circuits as usize);
    let mut link = |from: RelayIndex, to: RelayIndex| {
        parts.push(if question.directed || from <= to { (from.0, to.0) } else { (to.0, from.0) });
    };
    let stream = |purpose| RandomStream::new(seed, "shared links", purpose);
    let (guards, middles, lasts) = (stream("guard"), stream("middle"), stream("last relay"));
    let choices = stream("choice of guard");
    for circuit in 0..question.circuits {
        if circuit % AT_A_TIME == AT_A_TIME - 1 && !goes_on() {
            return Err(SharedLinksError::Stopped);
        }
        let client = circuit / question.per_client;
        // A client has few guards: the chance that two of them are the same relay is left in.
        let nth = if question.guards_per_client == 1 { 0 } else { choices.at(circuit).below(question.guards_per_client) };
        let guard = positions.guard().pick(guards.at(client * question.guards_per_client + nth));
        let (guard, middle, last) = match &exclusions {
            None => (guard, positions.middle().pick(middles.at(circuit)), positions.last().pick(lasts.at(circuit))),
            Some(excluding) => {
                let keep_guard = question.per_client > 1;
                excluding.circuit(positions, guard, keep_guard, stream("with exclusions").member(circuit))?
            }
        };
        link(guard, middle);
        link(middle, last);
    }
    count(&parts, positions.relays(), goes_on).ok_or(SharedLinksError::Stopped)
}

/// Counts links: parts are brought together by their first relay (counting sort), then counted by the second. `None` if it was to stop.
fn count(parts: &[(u32, u32)], relays: usize, goes_on: &dyn Fn() -> bool) -> Option<Count> {
    let at_a_time = AT_A_TIME as usize;
    let mut ends = vec![0_usize; relays + 1];
    for &(from, _) in parts {
        ends[from as usize + 1] += 1;
    }
    for relay in 0..relays {
        ends[relay + 1] += ends[relay];
    }
    let starts = ends.clone();
    // (second relay, part), by first relay.
    let mut sorted = vec![(0_u32, 0_u32); parts.len()];
    for (part, &(from, to)) in parts.iter().enumerate() {
        if part % at_a_time == at_a_time - 1 && !goes_on() {
            return None;
        }
        let at = &mut ends[from as usize];
        sorted[*at] = (to, part as u32);
        *at += 1;
    }
    let mut result = Count::default();
    let mut on_link = vec![0_u32; relays];
    let mut shared = vec![false; parts.len()];
    for from in 0..relays {
        let of_relay = &sorted[starts[from]..starts[from + 1]];
        if starts[from] / at_a_time != starts[from + 1] / at_a_time && !goes_on() {
            return None;
        }
        for &(to, _) in of_relay {
            on_link[to as usize] += 1;
        }
        for &(to, part) in of_relay {
            shared[part as usize] = on_link[to as usize] > 1;
        }
        for &(to, _) in of_relay {
            let circuits = std::mem::take(&mut on_link[to as usize]) as usize;
            if circuits > 0 {
                let circuits = circuits.min(Question::MAX_PER_LINK);
                if result.circuits_per_link.len() < circuits {
                    result.circuits_per_link.resize(circuits, 0);
                }
                result.circuits_per_link[circuits - 1] += 1;
            }
        }
    }
    result.links = result.circuits_per_link.iter().sum();
    result.shared_links = result.circuits_per_link.iter().skip(1).sum();
    for circuit in shared.chunks_exact(2) {
        match (circuit[0], circuit[1]) {
            (true, true) => result.with_two += 1,
            (false, false) => {}
            _ => result.with_one += 1,
        }
    }
    Some(result)
}

/// What may not be together, by relay.
struct Excluding {
    /// The relay itself or its /16.
    place: Vec<u32>,
    family: Vec<u32>,
}

impl Excluding {
    fn new(network: &Consensus, exclusions: &Exclusions) -> Result<Option<Self>, SharedLinksError> {
        if exclusions.is_none() {
            return Ok(None);
        }
        let relays = network.relays.len();
        let subnet = |relay: &onionlab_directory::Relay| u32::from(relay.address) >> 16;
        let place = network.relays.iter().zip(0..);
        let place = place.map(|(relay, index)| if exclusions.same_subnet { subnet(relay) } else { index }).collect();
        let family = exclusions.families.clone().unwrap_or_else(|| vec![0; relays]);
        if family.len() != relays {
            return Err(SharedLinksError::Families { given: family.len(), relays });
        }
        Ok(Some(Self { place, family }))
    }

    fn apart(&self, a: RelayIndex, b: RelayIndex) -> bool {
        let (a, b) = (a.get(), b.get());
        self.place[a] != self.place[b] && (self.family[a] == 0 || self.family[a] != self.family[b])
    }

    /// Tor's order: the last relay, then the guard (redrawn where the client has no other circuit on it, else the last
    /// relay gives way), then the middle.
    fn circuit(
        &self,
        positions: &Positions,
        guard: RelayIndex,
        keep_guard: bool,
        stream: RandomStream,
    ) -> Result<(RelayIndex, RelayIndex, RelayIndex), SharedLinksError> {
        let mut draws = stream.sequence();
        let mut guard = guard;
        let mut last = positions.last().pick(draws.draw());
        for _ in 0..TRIES {
            if self.apart(guard, last) {
                let middle = positions.middle().pick(draws.draw());
                if self.apart(guard, middle) && self.apart(middle, last) {
                    return Ok((guard, middle, last));
                }
            } else if keep_guard {
                last = positions.last().pick(draws.draw());
            } else {
                guard = positions.guard().pick(draws.draw());
            }
        }
        Err(SharedLinksError::NoCircuit { tries: TRIES })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// The obvious way to count.
    fn count_plainly(parts: &[(u32, u32)]) -> Count {
        let mut links: HashMap<(u32, u32), usize> = HashMap::new();
        for &part in parts {
            *links.entry(part).or_default() += 1;
        }
        let most = links.values().copied().max().unwrap_or(0);
        let with = |shared| {
            let of = |circuit: &[(u32, u32)]| circuit.iter().filter(|part| links[part] > 1).count();
            parts.chunks(2).filter(|circuit| of(circuit) == shared).count() as u64
        };
        Count {
            links: links.len() as u64,
            shared_links: links.values().filter(|&&circuits| circuits > 1).count() as u64,
            circuits_per_link: (1..=most).map(|n| links.values().filter(|&&circuits| circuits == n).count() as u64).collect(),
            with_one: with(1),
            with_two: with(2),
        }
    }

    proptest! {
        #[test]
        fn counting_by_buckets_is_counting(circuits in prop::collection::vec([0..12_u32, 0..12, 0..12], 0..300)) {
            let parts: Vec<_> = circuits.iter().flat_map(|&[a, b, c]| [(a, b), (b, c)]).collect();
            prop_assert_eq!(count(&parts, 12, &|| true), Some(count_plainly(&parts)));
        }
    }
}
