//! Who runs which relay: families, no two of which stand in one circuit.
//!
//! Operators declare families in their relays' descriptors (`MyFamily`), and a declaration counts where it is mutual; since 0.4.9 a family key
//! can say the same (`family-ids` of a microdescriptor). A consensus says nothing of either. [`Families::read`] takes the microdescriptors or
//! server descriptors of a network, or a plain list; [`Families::model`] makes families up for a network that has none.
//! Source: C tor `nodelist.c:nodes_in_same_family`, Tor directory specification ("family", "family-ids").

use crate::error::DirectoryError;
use crate::read;
use crate::relay::{Fingerprint, Relay};
use onionlab_quantities::{RandomStream, Seed};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

/// The families of a network.
///
/// Being of one family is mutual but need not carry over: of three relays the first and the third may be strangers. Cloning is cheap.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Families {
    /// By relay that has any: its family without itself, ascending.
    members: Arc<BTreeMap<Fingerprint, Arc<[Fingerprint]>>>,
}

/// The model's families cluster as a Pitman-Yor process does; fitted to the consensuses of 2024 to 2026 (`tools/fit_families.py`).
const DISCOUNT: f64 = 0.9;
const CONCENTRATION: f64 = 30.0;

impl Families {
    /// No relay has a family.
    pub fn none() -> Self {
        Self::default()
    }

    /// The relays that are of one family with `relay`, in ascending order, without itself.
    pub fn of(&self, relay: Fingerprint) -> &[Fingerprint] {
        self.members.get(&relay).map_or(&[], |family| family)
    }

    /// Whether two different relays are of one family.
    pub fn same(&self, a: Fingerprint, b: Fingerprint) -> bool {
        self.of(a).binary_search(&b).is_ok()
    }

    /// How many relays have a family.
    pub fn relays(&self) -> usize {
        self.members.len()
    }

    /// Most pairs of relays of one family, each counted for both: as many as one family of seven thousand relays makes.
    pub const MAX_PAIRS: usize = 50_000_000;

    /// Families as lists of relays, each in one family with all others of its list. Relays in several lists are of several families.
    pub fn from_lists<I: IntoIterator<Item = Fingerprint>>(lists: impl IntoIterator<Item = I>) -> Self {
        let mut pairs: BTreeMap<Fingerprint, BTreeSet<Fingerprint>> = BTreeMap::new();
        for list in lists {
            let list: BTreeSet<Fingerprint> = list.into_iter().collect();
            for &relay in &list {
                pairs.entry(relay).or_default().extend(list.iter().copied().filter(|&other| other != relay));
            }
        }
        Self::from_sets(pairs)
    }

    fn from_sets(sets: BTreeMap<Fingerprint, BTreeSet<Fingerprint>>) -> Self {
        let filled = sets.into_iter().filter(|(_, family)| !family.is_empty());
        Self { members: Arc::new(filled.map(|(relay, family)| (relay, family.into_iter().collect())).collect()) }
    }

    /// The families that a file declares, for the relays of a network: [`Self::parse`] of what it holds, compressed or not.
    ///
    /// # Errors
    /// The file cannot be read, or as [`Self::parse`].
    pub fn read(path: &Path, relays: &[Relay]) -> Result<Self, DirectoryError> {
        let document = path.display().to_string();
        let text = read::any_text(&read::file(path)?, &document)?;
        Self::parse(&text, &document, relays)
    }

    /// The families that a text declares, for the relays of a network. Three forms are known:
    ///
    /// - microdescriptors one after the other, as tor keeps them (`cached-microdescs`): each belongs to the relay whose digest it has;
    /// - server descriptors one after the other: each belongs to the relay whose fingerprint it gives;
    /// - a list: on each line the relays of one family, by fingerprint (with or without `$`) or name; `#` begins a comment.
    ///
    /// In descriptors a relay is meant by `$fingerprint`, with or without a nickname behind it, or by a nickname, and a declaration counts where
    /// it is mutual, and relays with a common `family-ids` entry are of one family.
    ///
    /// # Errors
    /// Nothing in it speaks of a relay of this network.
    pub fn parse(text: &str, document: &str, relays: &[Relay]) -> Result<Self, DirectoryError> {
        let names = Names::new(relays);
        let starts = |keyword: &str| text.lines().any(|line| line.split_ascii_whitespace().next() == Some(keyword));
        let (found, families) = if starts("onion-key") && !starts("router") {
            let by_digest: HashMap<[u8; 32], Fingerprint> =
                relays.iter().filter_map(|relay| Some((relay.microdesc?, relay.fingerprint))).collect();
            let owned = microdescs(text).filter_map(|item| Some((*by_digest.get(&digest(item))?, item)));
            declared(owned, &names, document)?
        } else if starts("router") {
            let owned = server_descriptors(text).filter_map(|item| Some((names.own_fingerprint(item)?, item)));
            declared(owned, &names, document)?
        } else {
            listed(text, &names, document)?
        };
        if found == 0 {
            return Err(DirectoryError::NoFamilies { document: document.to_owned() });
        }
        Ok(families)
    }

    /// Families made up for a network: sizes as those of groups of relays whose nicknames differ only in digits at the end, in the consensuses of
    /// 2024 to 2026, which put four relays of ten and half of the bandwidth into families of two or more, the largest of hundreds. The same seed
    /// gives the same families.
    ///
    /// Each relay joins a family with a chance of (size - 0.9) or founds one with a chance of 30 + 0.9 for each family that there is (Pitman and
    /// Yor 1997). Deviation: who is with whom does not depend on class, weight or address, though operators' relays are alike.
    pub fn model(relays: &[Relay], seed: Seed) -> Self {
        let mut draws = RandomStream::new(seed, "network", "synthetic families").sequence();
        let mut order: Vec<Fingerprint> = relays.iter().map(|relay| relay.fingerprint).collect();
        draws.shuffle(&mut order);
        let mut families: Vec<Vec<Fingerprint>> = Vec::new();
        for (placed, relay) in order.into_iter().enumerate() {
            let founded = families.len() as f64;
            let mut left = draws.draw().uniform() * (placed as f64 + CONCENTRATION) - CONCENTRATION - DISCOUNT * founded;
            let joined = families.iter().position(|family| {
                let chance = family.len() as f64 - DISCOUNT;
                let here = (0.0..chance).contains(&left);
                left -= chance;
                here
            });
            match joined {
                Some(family) => families[family].push(relay),
                None => families.push(vec![relay]),
            }
        }
        Self::from_lists(families)
    }
}

/// Relays by what a declaration may call them.
struct Names {
    fingerprints: BTreeSet<Fingerprint>,
    /// By name and by nickname, which several may share.
    named: HashMap<String, Vec<Fingerprint>>,
}

impl Names {
    fn new(relays: &[Relay]) -> Self {
        let mut named: HashMap<String, Vec<Fingerprint>> = HashMap::new();
        for relay in relays {
            let lower = [relay.name.to_ascii_lowercase(), relay.nickname.to_ascii_lowercase()];
            for name in lower.into_iter().collect::<BTreeSet<_>>() {
                named.entry(name).or_default().push(relay.fingerprint);
            }
        }
        Self { fingerprints: relays.iter().map(|relay| relay.fingerprint).collect(), named }
    }

    /// The relays that `word` means: none where the network has no such relay.
    fn named(&self, word: &str) -> Vec<Fingerprint> {
        let digits = word.strip_prefix('$').unwrap_or(word);
        let digits = digits.split(['=', '~']).next().unwrap_or_default();
        match Fingerprint::from_hex(digits) {
            Some(fingerprint) => self.fingerprints.get(&fingerprint).copied().into_iter().collect(),
            None => self.named.get(&word.to_ascii_lowercase()).cloned().unwrap_or_default(),
        }
    }

    /// The relay that a server descriptor belongs to.
    fn own_fingerprint(&self, descriptor: &str) -> Option<Fingerprint> {
        let line = descriptor.lines().find_map(|line| line.strip_prefix("opt ").unwrap_or(line).strip_prefix("fingerprint "))?;
        let digits: String = line.split_ascii_whitespace().collect();
        self.fingerprints.get(&Fingerprint::from_hex(&digits)?).copied()
    }
}

/// Refuses more pairs of relays than any network's families have.
fn not_too_many(pairs: usize, document: &str) -> Result<(), DirectoryError> {
    if pairs > Families::MAX_PAIRS {
        return Err(DirectoryError::LargeFamilies { document: document.to_owned(), pairs, most: Families::MAX_PAIRS });
    }
    Ok(())
}

/// How many lines of a list speak of a relay, and the families that they make.
fn listed(text: &str, names: &Names, document: &str) -> Result<(usize, Families), DirectoryError> {
    let (mut found, mut pairs, mut lists) = (0, 0, Vec::new());
    for line in text.lines() {
        let words: BTreeSet<&str> = line.split('#').next().unwrap_or_default().split_ascii_whitespace().collect();
        let list: BTreeSet<Fingerprint> = words.into_iter().flat_map(|word| names.named(word)).collect();
        found += usize::from(!list.is_empty());
        // Whoever is alone has no family.
        if list.len() > 1 {
            pairs += list.len().pow(2);
            not_too_many(pairs, document)?;
            lists.push(list);
        }
    }
    Ok((found, Families::from_lists(lists)))
}

/// How many of the descriptors belong to a relay, and the mutual declarations among these.
fn declared<'a>(
    descriptors: impl Iterator<Item = (Fingerprint, &'a str)>,
    names: &Names,
    document: &str,
) -> Result<(usize, Families), DirectoryError> {
    let mut pairs = 0;
    let mut declared: BTreeMap<Fingerprint, BTreeSet<Fingerprint>> = BTreeMap::new();
    let mut keys: BTreeMap<&str, BTreeSet<Fingerprint>> = BTreeMap::new();
    for (relay, text) in descriptors {
        let family = declared.entry(relay).or_default();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                Some("family") => {
                    let before = family.len();
                    for word in words {
                        family.extend(names.named(word));
                        not_too_many(pairs + family.len() - before, document)?;
                    }
                    pairs += family.len() - before;
                }
                Some("family-ids") => {
                    for key in words {
                        let of_key = keys.entry(key).or_default();
                        if of_key.insert(relay) {
                            // The square grows by this.
                            pairs += 2 * of_key.len() - 1;
                            not_too_many(pairs, document)?;
                        }
                    }
                }
                _ => {}
            }
        }
    }
    let mutual =
        |relay: &Fingerprint, other: &Fingerprint| relay != other && declared.get(other).is_some_and(|back| back.contains(relay));
    let mut sets: BTreeMap<Fingerprint, BTreeSet<Fingerprint>> = declared
        .iter()
        .map(|(relay, family)| (*relay, family.iter().filter(|other| mutual(relay, other)).copied().collect()))
        .collect();
    for of_key in keys.values() {
        for &relay in of_key {
            sets.entry(relay).or_default().extend(of_key.iter().copied().filter(|&other| other != relay));
        }
    }
    Ok((declared.len(), Families::from_sets(sets)))
}

/// The microdescriptors of a text, without the annotations between them.
fn microdescs(text: &str) -> impl Iterator<Item = &str> {
    items(text, "onion-key")
}

fn server_descriptors(text: &str) -> impl Iterator<Item = &str> {
    items(text, "router ")
}

/// Cuts a text into items, each from a line that begins with `first` to the next such line or annotation.
fn items<'a>(text: &'a str, first: &'a str) -> impl Iterator<Item = &'a str> {
    let begins = move |at: usize| at == 0 || text.as_bytes()[at - 1] == b'\n';
    let starts: Vec<usize> = text.match_indices(first).map(|(at, _)| at).filter(|&at| begins(at)).collect();
    let ends: Vec<usize> = starts.iter().skip(1).copied().chain([text.len()]).collect();
    starts.into_iter().zip(ends).map(move |(from, to)| {
        let item = &text[from..to];
        item.find("\n@").map_or(item, |at| &item[..=at])
    })
}

/// What an `m` line of a consensus names a microdescriptor by.
fn digest(microdesc: &str) -> [u8; 32] {
    Sha256::digest(microdesc.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::Class;
    use std::net::Ipv4Addr;

    fn relays(names: &[&str]) -> Vec<Relay> {
        names.iter().map(|name| Relay::by_hand(name, Class::Middle, 1, Ipv4Addr::LOCALHOST)).collect()
    }

    /// Names of pairs of one family.
    fn pairs(families: &Families, relays: &[Relay]) -> Vec<(String, String)> {
        let all = relays.iter().flat_map(|a| relays.iter().map(move |b| (a, b)));
        all.filter(|(a, b)| families.same(a.fingerprint, b.fingerprint)).map(|(a, b)| (a.name.clone(), b.name.clone())).collect()
    }

    fn both(a: &str, b: &str) -> Vec<(String, String)> {
        vec![(a.to_owned(), b.to_owned()), (b.to_owned(), a.to_owned())]
    }

    #[test]
    fn a_list_names_relays_by_name_or_fingerprint() {
        let relays = relays(&["a", "b", "c", "d"]);
        let text = format!("# one family\nA {} stranger\n\nc # alone\n", relays[1].fingerprint);
        let families = Families::parse(&text, "list", &relays).unwrap();
        assert_eq!(pairs(&families, &relays), both("a", "b"));
        assert_eq!(families.relays(), 2);
        assert!(Families::parse("x y\nz\n", "list", &relays).unwrap_err().to_string().contains("list"));
    }

    /// What a line says grows with the square of its relays, and is refused before it is written out.
    #[test]
    fn families_are_not_larger_than_any_network() {
        let names: Vec<String> = (0..8000).map(|number| format!("r{number}")).collect();
        let relays = relays(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let error = Families::parse(&names.join(" "), "list", &relays).unwrap_err().to_string();
        assert_eq!(error, "list: its families make 64000000 pairs of relays; at most 50000000 are allowed");
        assert_eq!(Families::parse(&"r0 r1 ".repeat(10_000), "list", &relays).unwrap().relays(), 2);
        let descriptors = |says: &str| -> String {
            let router =
                |relay: &Relay| format!("router {} 10.0.0.1 9001 0 0\nfingerprint {}\n{says}\n", relay.name, relay.fingerprint);
            relays.iter().map(router).collect::<Vec<_>>().concat()
        };
        let error = Families::parse(&descriptors("family-ids k"), "descriptors", &relays).unwrap_err().to_string();
        // Found out before the last relay's line: 7,072 relays make the first square above the bound.
        assert_eq!(error, "descriptors: its families make 50013184 pairs of relays; at most 50000000 are allowed");
    }

    /// Each line names all that bear a nickname, which a text of a few kilobytes may say as often as it likes once it is unpacked.
    #[test]
    fn many_lines_are_refused_before_they_are_written_out() {
        let mut relays = relays(
            &(0..300).map(|number| format!("r{number}")).collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>(),
        );
        for relay in &mut relays {
            relay.nickname = "unnamed".into();
        }
        let error = Families::parse(&"unnamed\n".repeat(1_000_000), "list", &relays).unwrap_err().to_string();
        assert_eq!(error, "list: its families make 50040000 pairs of relays; at most 50000000 are allowed");
        let alone = format!("r0\n{}", "r1 stranger # alone\n".repeat(1000));
        assert_eq!(Families::parse(&alone, "list", &relays).unwrap(), Families::none());
    }

    #[test]
    fn only_what_both_declare_counts() {
        let relays = relays(&["a", "b", "c"]);
        let descriptor = |at: usize, family: &str| {
            let digits = relays[at].fingerprint.to_string();
            let grouped: Vec<&str> = (0..10).map(|i| &digits[4 * i..4 * i + 4]).collect();
            format!("router {} 10.0.0.1 9001 0 0\nfingerprint {}\nfamily {family}\n", relays[at].name, grouped.join(" "))
        };
        let [a, b, c] = [0, 1, 2].map(|at| relays[at].fingerprint);
        let text = [
            descriptor(0, &format!("${b}~b ${c}")),
            descriptor(1, "$0000000000000000000000000000000000000000 a"),
            descriptor(2, "b"),
        ];
        let families = Families::parse(&text.concat(), "descriptors", &relays).unwrap();
        assert_eq!(pairs(&families, &relays), both("a", "b"));
        assert!(!families.same(a, c));
    }

    #[test]
    fn a_microdescriptor_belongs_to_the_relay_with_its_digest() {
        let mut relays = relays(&["a", "b", "c"]);
        let text = [
            "onion-key\nfamily B\n",
            "onion-key\nfamily a c\nfamily-ids ed25519:x\n",
            "onion-key\nfamily-ids ed25519:y ed25519:x\n",
        ];
        for (relay, text) in relays.iter_mut().zip(text) {
            relay.microdesc = Some(digest(text));
        }
        let kept =
            format!("@last-listed 2026-01-01 00:00:00\n{}@last-listed 2026-01-01 00:00:00\n{}{}", text[0], text[1], text[2]);
        let families = Families::parse(&kept, "microdescs", &relays).unwrap();
        let mut expected = both("a", "b");
        expected.extend(both("b", "c"));
        let mut found = pairs(&families, &relays);
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
        for relay in &mut relays {
            relay.microdesc = None;
        }
        assert!(Families::parse(&kept, "microdescs", &relays).is_err());
    }

    /// The sizes that the model was fitted to: of 8,582 relays in June 2025, 5,362 families, 4,840 of them of one relay.
    #[test]
    fn the_model_has_the_sizes_of_real_families() {
        let names: Vec<String> = (0..8582).map(|i| format!("r{i}")).collect();
        let relays = relays(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let families = Families::model(&relays, Seed(1));
        assert_eq!(families, Families::model(&relays, Seed(1)));
        assert_ne!(families, Families::model(&relays, Seed(2)));
        let share = families.relays() as f64 / relays.len() as f64;
        assert!((0.33..0.5).contains(&share), "{share}");
        let largest = relays.iter().map(|relay| families.of(relay.fingerprint).len() + 1).max().unwrap();
        assert!((100..1500).contains(&largest), "{largest}");
    }
}
