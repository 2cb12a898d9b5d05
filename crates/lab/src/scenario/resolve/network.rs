//! Checks of the `[network]` table.

use super::{Checked, MAX_NAMED_FILE_BYTES, count, name, named_file, read_named_file, refuse, within};
use crate::scenario::Scenario;
use crate::scenario::document::{MAX_BYTES, NetworkDocument};
use crate::scenario::error::{Fault, clipped};
use crate::scenario::network::{
    CapacityFile, ExitPolicies, FamiliesFile, HostFile, LinkFile, NetworkFile, NetworkKind, PowerFile,
};
use crate::scenario::resolved::{
    Capacity, ConsensusNetwork, ExplicitNetwork, FamilySource, FileNetwork, FileRef, Host, Link, Network, PlacedPaths, RATES,
    RateLimit, SampledNetwork, Size, SyntheticNetwork,
};
use onionlab_directory::synth::Model;
use onionlab_directory::{Consensus, Families};
use onionlab_net::latency::{Country, LatencyTable};
use onionlab_quantities::{Bandwidth, Bytes, SimDuration};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Longest one-way latency.
const MAX_LATENCY: SimDuration = SimDuration::from_secs(10);

pub(super) fn network(scenario: &Scenario, file: &NetworkFile) -> Checked<Network> {
    let only = |kinds: &str| format!("applies only to a network of kind {kinds}");
    if !matches!(file.kind, NetworkKind::Consensus | NetworkKind::Synthetic) {
        let sampled = only("\"consensus\" or \"synthetic\"");
        refuse("network", "relays", file.relays.as_ref(), &sampled)?;
        refuse("network", "scale", file.scale.as_ref(), &sampled)?;
        refuse("network", "capacity", file.capacity.as_ref(), &sampled)?;
        refuse("network", "servers", file.servers.as_ref(), &sampled)?;
        refuse("network", "server-rate", file.server_rate.as_ref(), &sampled)?;
    }
    if file.kind == NetworkKind::Explicit {
        let placed = only("\"consensus\", \"synthetic\" or \"file\"");
        refuse("network", "latency", file.latency.as_ref(), &placed)?;
        refuse("network", "latency-factor", file.latency_factor.as_ref(), &placed)?;
        refuse("network", "latency-floor", file.latency_floor.as_ref(), &placed)?;
        refuse("network", "latency-between", file.latency_between.as_ref(), &placed)?;
        refuse("network", "jitter", file.jitter.as_ref(), &placed)?;
        refuse("network", "loss", file.loss.as_ref(), &placed)?;
    } else {
        let by_hand = only("\"explicit\"");
        refuse("network", "default-latency", file.default_latency.as_ref(), &by_hand)?;
        refuse("network", "hosts", file.hosts.as_ref(), &by_hand)?;
        refuse("network", "links", file.links.as_ref(), &by_hand)?;
    }
    if !matches!(file.kind, NetworkKind::Consensus | NetworkKind::File) {
        refuse("network", "path", file.path.as_ref(), &only("\"consensus\" or \"file\""))?;
    }
    if file.kind != NetworkKind::Consensus {
        refuse("network", "geoip", file.geoip.as_ref(), &only("\"consensus\""))?;
    }
    if !matches!(file.kind, NetworkKind::Consensus | NetworkKind::Synthetic) {
        refuse("network", "exit-policies", file.exit_policies.as_ref(), &only("\"consensus\" or \"synthetic\""))?;
    }
    if file.kind == NetworkKind::File {
        refuse("network", "families", file.families.as_ref(), &only("\"consensus\", \"synthetic\" or \"explicit\""))?;
    }
    if file.kind != NetworkKind::Synthetic {
        refuse("network", "year", file.year.as_ref(), &only("\"synthetic\""))?;
    }
    match file.kind {
        NetworkKind::Consensus => {
            let document = named_file(scenario, "network.path", path(file)?)?;
            let geoip = file.geoip.as_ref().map(|path| named_file(scenario, "network.geoip", path)).transpose()?;
            let common = sampled(scenario, file, 3)?;
            if let Size::Relays(relays) = common.size {
                has_so_many(&document, relays)?;
            }
            Ok(Network::Consensus(ConsensusNetwork { document, geoip, common }))
        }
        NetworkKind::Synthetic => {
            let (first, last) = Model::built_in().years();
            let year = within("network.year", file.year.unwrap_or(2025.0), f64::from(first), f64::from(last))?;
            Ok(Network::Synthetic(SyntheticNetwork { year, common: sampled(scenario, file, 4)? }))
        }
        NetworkKind::File => made_elsewhere(scenario, file).map(Network::File),
        NetworkKind::Explicit => explicit(file).map(Network::Explicit),
    }
}

/// Whether a consensus has so many relays, which all points of a sweep ask. What else may be wrong with it the first run says.
fn has_so_many(document: &FileRef, relays: u32) -> Checked<()> {
    static LAST: Mutex<Option<(String, usize)>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let known = last.as_ref().filter(|(of, _)| *of == document.digest).map(|&(_, most)| most);
    let Some(most) = known.or_else(|| Consensus::read(&document.location).ok().map(|consensus| consensus.relays.len())) else {
        return Ok(());
    };
    *last = Some((document.digest.clone(), most));
    if relays as usize > most {
        return Err(Fault::out_of_range("network.relays", relays, format!("at most {most}, which are all of the document")));
    }
    Ok(())
}

fn path(file: &NetworkFile) -> Checked<&str> {
    file.path.as_deref().ok_or_else(|| Fault::MissingKey { key: "path".to_owned(), table: "network".to_owned() })
}

fn made_elsewhere(scenario: &Scenario, file: &NetworkFile) -> Checked<FileNetwork> {
    let path = path(file)?;
    let (document, content) = read_named_file(scenario, "network.path", path, MAX_BYTES)?;
    let network = document_of(&document.digest, &content).map_err(|cause| Fault::File {
        key: "network.path".to_owned(),
        path: clipped(path, 200),
        cause,
    })?;
    Ok(FileNetwork { document, paths: placed_paths(scenario, file)?, network })
}

/// The network in a document, which all points of a sweep share: it may be large.
fn document_of(digest: &str, content: &[u8]) -> Result<Arc<NetworkDocument>, String> {
    static LAST: Mutex<Option<(String, Weak<NetworkDocument>)>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let known = last.as_ref().filter(|(of, _)| of == digest).and_then(|(_, network)| network.upgrade());
    if let Some(network) = known {
        return Ok(network);
    }
    let network = Arc::new(NetworkDocument::parse(content)?);
    *last = Some((digest.to_owned(), Arc::downgrade(&network)));
    Ok(network)
}

fn placed_paths(scenario: &Scenario, file: &NetworkFile) -> Checked<PlacedPaths> {
    let (latency, countries) = latency(scenario, file)?;
    Ok(PlacedPaths {
        latency,
        latency_factor: within("network.latency-factor", file.latency_factor.unwrap_or(1.0), 0.1, 10.0)?,
        latency_floor: latency_floor(file)?,
        latency_between: latency_between(file, &countries)?,
        jitter: file.jitter.unwrap_or(true),
        loss: within("network.loss", file.loss.unwrap_or(0.0), 0.0, 0.5)?,
    })
}

/// The table of latencies that is named, with its countries; `None`: the built-in one.
fn latency(scenario: &Scenario, file: &NetworkFile) -> Checked<(Option<FileRef>, BTreeSet<Country>)> {
    match file.latency.as_deref() {
        None | Some("built-in") => Ok((None, countries(&LatencyTable::builtin()))),
        Some(path) => {
            let (table, content) = read_named_file(scenario, "network.latency", path, MAX_NAMED_FILE_BYTES)?;
            let known = countries_of(&table, &content)?;
            Ok((Some(table), known))
        }
    }
}

/// The countries of a table that can be read, for which all points of a sweep ask.
fn countries_of(table: &FileRef, content: &[u8]) -> Checked<BTreeSet<Country>> {
    static LAST: Mutex<Option<(String, BTreeSet<Country>)>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, known)) = last.as_ref().filter(|(of, _)| *of == table.digest) {
        return Ok(known.clone());
    }
    let path = clipped(&table.path, 200);
    let read = LatencyTable::parse_country_rtt(Path::new(&path), content).map_err(|error| {
        let cause = error.to_string();
        let cause = cause.strip_prefix(&format!("{path}: ")).unwrap_or(&cause).to_owned();
        Fault::File { key: "network.latency".to_owned(), path: path.clone(), cause }
    })?;
    let known = countries(&read);
    *last = Some((table.digest.clone(), known.clone()));
    Ok(known)
}

fn countries(table: &LatencyTable) -> BTreeSet<Country> {
    table.places().map(|place| table.country(place)).collect()
}

/// None where there is no such floor.
fn latency_floor(file: &NetworkFile) -> Checked<Option<SimDuration>> {
    let floor = file.latency_floor.unwrap_or(SimDuration::ZERO);
    Ok(Some(within("network.latency-floor", floor, SimDuration::ZERO, MAX_LATENCY)?).filter(|&floor| floor > SimDuration::ZERO))
}

/// By both countries' codes, the first in the alphabet first.
fn latency_between(file: &NetworkFile, countries: &BTreeSet<Country>) -> Checked<BTreeMap<String, SimDuration>> {
    let mut known = BTreeMap::new();
    for (given, &time) in file.latency_between.iter().flatten() {
        let key = format!("network.latency-between.{}", clipped(given, 20));
        let Some((a, b)) = given.split_once('-').and_then(|(a, b)| Some((Country::parse(a)?, Country::parse(b)?))) else {
            return Err(Fault::out_of_range(
                "network.latency-between",
                clipped(given, 20),
                "two codes of countries, such as DE-FR",
            ));
        };
        if let Some(missing) = [a, b].into_iter().find(|country| !countries.contains(country)) {
            let all: Vec<&str> = countries.iter().map(Country::code).collect();
            let reason =
                format!("names {missing}, of which the table of latencies has nothing: it has {}", clipped(&all.join(", "), 200));
            return Err(Fault::conflict(key, reason));
        }
        let pair = format!("{}-{}", a.min(b), a.max(b));
        if known.insert(pair, within(&key, time, SimDuration::ZERO, MAX_LATENCY * 2)?).is_some() {
            return Err(Fault::conflict(key, "is the same pair of countries as another key of this table"));
        }
    }
    Ok(known)
}

/// What sampled networks have in common; of at least so many relays, one for each class that there is.
fn sampled(scenario: &Scenario, file: &NetworkFile, least: u32) -> Checked<SampledNetwork> {
    let size = match (file.relays, file.scale) {
        (Some(_), Some(_)) => {
            return Err(Fault::conflict("network.scale", "and `network.relays` both set the size: give one of them"));
        }
        (Some(relays), None) => Size::Relays(within("network.relays", relays, least, 100_000)?),
        (None, Some(scale)) if scale > 0.0 && scale <= 1.0 => Size::Scale(scale),
        (None, Some(scale)) => return Err(Fault::out_of_range("network.scale", scale, "above 0 and at most 1")),
        (None, None) => Size::Relays(100),
    };
    Ok(SampledNetwork {
        size,
        capacity: capacity(file.capacity.as_ref())?,
        paths: placed_paths(scenario, file)?,
        servers: within("network.servers", file.servers.unwrap_or(10), 1, 100_000)?,
        server_rate: rate("network.server-rate", file.server_rate.unwrap_or(Bandwidth::from_bits_per_sec(10_000_000_000)))?,
        families: families(scenario, file)?,
        exit_policies: exit_policies(file)?,
    })
}

fn families(scenario: &Scenario, file: &NetworkFile) -> Checked<Option<FamilySource>> {
    match &file.families {
        None => Ok(None),
        Some(FamiliesFile::Source(source)) => match source.as_str() {
            "none" => Ok(None),
            "model" => Ok(Some(FamilySource::Model)),
            path => Ok(Some(FamilySource::File(named_file(scenario, "network.families", path)?))),
        },
        Some(FamiliesFile::Lists(_)) => {
            let reason =
                "is a list, which only a network of kind \"explicit\" takes: write \"none\", \"model\" or the path of a file";
            Err(Fault::conflict("network.families", reason))
        }
    }
}

fn exit_policies(file: &NetworkFile) -> Checked<Option<ExitPolicies>> {
    match (file.exit_policies, file.kind) {
        (Some(ExitPolicies::Consensus), NetworkKind::Synthetic) => {
            let reason = "is \"consensus\", but a network of kind \"synthetic\" has none: allowed are \"flag\" and \"model\"";
            Err(Fault::conflict("network.exit-policies", reason))
        }
        (policies, _) => Ok(policies),
    }
}

/// The families of a network by hand, by index of host.
fn listed_families(file: &NetworkFile, hosts: &[Host], indices: &BTreeMap<&str, u32>) -> Checked<Vec<Vec<u32>>> {
    let lists = match &file.families {
        None => return Ok(Vec::new()),
        Some(FamiliesFile::Source(source)) if source == "none" => return Ok(Vec::new()),
        Some(FamiliesFile::Source(_)) => {
            let reason =
                "is a text, but a network of kind \"explicit\" takes a list such as [[\"relay1\", \"relay2\"]], or \"none\"";
            return Err(Fault::conflict("network.families", reason));
        }
        Some(FamiliesFile::Lists(lists)) => lists,
    };
    let mut families = Vec::with_capacity(lists.len());
    let mut pairs = 0;
    for (index, list) in lists.iter().enumerate() {
        let key = format!("network.families[{index}]");
        count(&key, list.len(), 100_000)?;
        let mut family = Vec::with_capacity(list.len());
        for name in list {
            let host = host_index(&key, name, indices)?;
            if !hosts[host as usize].role.is_relay() {
                return Err(Fault::conflict(key, format!("names \"{}\", which is no relay", clipped(name, 64))));
            }
            family.push(host);
        }
        pairs += family.len().pow(2);
        families.push(family);
        if pairs > Families::MAX_PAIRS {
            let most = format!("at most {} in all families", Families::MAX_PAIRS);
            return Err(Fault::out_of_range(key, format!("{pairs} pairs of relays"), most));
        }
    }
    Ok(families)
}

fn capacity(file: Option<&CapacityFile>) -> Checked<Capacity> {
    let class = |name: &str, choose: fn(&CapacityFile) -> Option<PowerFile>| match file.and_then(choose) {
        None => Ok(None),
        Some(power) => {
            within(format!("network.capacity.{name}.factor"), power.factor, 0.001, 1000.0)?;
            within(format!("network.capacity.{name}.exponent"), power.exponent, 0.001, 10.0)?;
            Ok(Some(power))
        }
    };
    Ok(Capacity {
        factor: within("network.capacity.factor", file.and_then(|file| file.factor).unwrap_or(1.0), 0.001, 1000.0)?,
        spread: file.and_then(|file| file.spread).unwrap_or(true),
        guard: class("guard", |file| file.guard)?,
        middle: class("middle", |file| file.middle)?,
        exit: class("exit", |file| file.exit)?,
        guard_exit: class("guard-exit", |file| file.guard_exit)?,
    })
}

/// An access rate in its range.
pub(in crate::scenario) fn rate(key: impl Into<String>, rate: Bandwidth) -> Checked<Bandwidth> {
    within(key, rate, RATES.0, RATES.1)
}

fn explicit(file: &NetworkFile) -> Checked<ExplicitNetwork> {
    let missing = || Fault::MissingKey { key: "hosts".to_owned(), table: "network".to_owned() };
    let listed = file.hosts.as_ref().ok_or_else(missing)?;
    count("network.hosts", listed.len(), 100_000)?;
    let mut indices = BTreeMap::new();
    let mut hosts = Vec::with_capacity(listed.len());
    for (index, host) in listed.iter().enumerate() {
        let key = format!("network.hosts[{index}]");
        if indices.insert(host.name.as_str(), index as u32).is_some() {
            let reason = format!("is \"{}\", which another host is called already", clipped(&host.name, 64));
            return Err(Fault::conflict(format!("{key}.name"), reason));
        }
        hosts.push(one_host(&key, host)?);
    }
    let links = file.links.as_deref().unwrap_or_default();
    if links.len() > 1_000_000 {
        count("network.links", links.len(), 1_000_000)?;
    }
    let mut joined = BTreeMap::new();
    for (index, link) in links.iter().enumerate() {
        let key = format!("network.links[{index}]");
        let link = one_link(&key, link, &indices)?;
        if let Some(before) = joined.insert(link.between, link) {
            let [a, b] = before.between.map(|host| &hosts[host as usize].name);
            let reason =
                format!("joins \"{a}\" and \"{b}\", which another link joins already (a link counts for both directions)");
            return Err(Fault::conflict(format!("{key}.between"), reason));
        }
    }
    let default_latency = file.default_latency.unwrap_or(SimDuration::from_millis(50));
    within("network.default-latency", default_latency, SimDuration::ZERO, MAX_LATENCY)?;
    let families = listed_families(file, &hosts, &indices)?;
    Ok(ExplicitNetwork { default_latency, hosts, links: joined.into_values().collect(), families })
}

fn one_host(key: &str, host: &HostFile) -> Checked<Host> {
    let up = rate(format!("{key}.up"), host.up)?;
    let down = rate(format!("{key}.down"), host.down)?;
    if !host.role.is_relay() {
        refuse(key, "rate", host.rate.as_ref(), "applies only to relays")?;
        refuse(key, "burst", host.burst.as_ref(), "applies only to relays")?;
        refuse(key, "relay-rate", host.relay_rate.as_ref(), "applies only to relays")?;
        refuse(key, "relay-burst", host.relay_burst.as_ref(), "applies only to relays")?;
        refuse(key, "weight", host.weight.as_ref(), "applies only to relays")?;
    }
    if host.rate.is_none() {
        refuse(key, "burst", host.burst.as_ref(), "has no effect without `rate`")?;
    }
    if host.relay_rate.is_none() {
        refuse(key, "relay-burst", host.relay_burst.as_ref(), "has no effect without `relay-rate`")?;
    }
    let all = bucket(key, "", host.rate, host.burst)?;
    let relayed = bucket(key, "relay-", host.relay_rate, host.relay_burst)?;
    if let (Some((all, _)), Some((relayed, _))) = (all, relayed)
        && relayed > all
    {
        return Err(Fault::conflict(format!("{key}.relay-rate"), "has no effect above `rate`, which limits everything"));
    }
    let by_rate = u32::try_from(up.min(down).as_bytes_per_sec() / 1000).unwrap_or(u32::MAX).max(1);
    let weight = if host.role.is_relay() { host.weight.unwrap_or(by_rate) } else { 0 };
    Ok(Host {
        name: name(format!("{key}.name"), &host.name)?,
        role: host.role,
        up,
        down,
        limit: RateLimit::of(all, relayed),
        weight,
    })
}

/// A rate limit with its burst, which is one second at that rate where it is not given.
fn bucket(key: &str, prefix: &str, given: Option<Bandwidth>, burst: Option<Bytes>) -> Checked<Option<(Bandwidth, Bytes)>> {
    let Some(given) = given else { return Ok(None) };
    let limit = rate(format!("{key}.{prefix}rate"), given)?;
    let burst = burst.unwrap_or_else(|| RateLimit::usual_burst(limit));
    let (least, most) = RateLimit::BURSTS;
    Ok(Some((limit, within(format!("{key}.{prefix}burst"), burst, least, most)?)))
}

fn one_link(key: &str, link: &LinkFile, indices: &BTreeMap<&str, u32>) -> Checked<Link> {
    let mut ends = [0; 2];
    for (end, wanted) in ends.iter_mut().zip(&link.between) {
        *end = host_index(&format!("{key}.between"), wanted, indices)?;
    }
    ends.sort_unstable();
    if ends[0] == ends[1] {
        return Err(Fault::conflict(format!("{key}.between"), "joins a host to itself"));
    }
    let loss = within(format!("{key}.loss"), link.loss.unwrap_or(0.0), 0.0, 0.5)?;
    let jitter = link.jitter.unwrap_or(SimDuration::ZERO);
    let beside = link.beside.unwrap_or(false);
    if beside && (loss > 0.0 || jitter > SimDuration::ZERO) {
        let what = if loss > 0.0 { "loss" } else { "jitter" };
        return Err(Fault::conflict(
            format!("{key}.{what}"),
            "has no effect between hosts that are beside each other (`beside`)",
        ));
    }
    Ok(Link {
        between: ends,
        latency: within(format!("{key}.latency"), link.latency, SimDuration::ZERO, MAX_LATENCY)?,
        loss,
        jitter: within(format!("{key}.jitter"), jitter, SimDuration::ZERO, MAX_LATENCY)?,
        beside,
    })
}

/// The index of the host with this name.
pub(in crate::scenario) fn host_index(key: &str, wanted: &str, indices: &BTreeMap<&str, u32>) -> Checked<u32> {
    indices.get(wanted).copied().ok_or_else(|| {
        let names: Vec<&str> = indices.keys().copied().take(1000).collect();
        let near = crate::scenario::diagnose::nearest(wanted, &names);
        let near = near.map_or_else(String::new, |near| format!(" (did you mean \"{near}\"?)"));
        let message = format!("there is no host \"{}\"{near}; allowed are the names in `network.hosts`", clipped(wanted, 64));
        Fault::WrongValue { key: key.to_owned(), message }
    })
}
