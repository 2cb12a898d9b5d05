//! Checks of the `[[clients]]` tables.

use super::network::{host_index, rate};
use super::{Checked, MAX_CLIENTS, count, name, read_named_file, refuse, within};
use crate::scenario::Scenario;
use crate::scenario::client_options;
use crate::scenario::clients::{ClientsFile, StartFile, StartRange};
use crate::scenario::document::NetworkDocument;
use crate::scenario::error::{Fault, clipped};
use crate::scenario::network::Role;
use crate::scenario::onion;
use crate::scenario::resolved::{ClientGroup, ExplicitNetwork, FileRef, Members, Network};
use onionlab_load::{
    Chain, ChainKind, Chains, DEFAULT_REQUEST, LoadModel, MAX_CHAIN_BYTES, MAX_TRAFFIC_BYTES, Pace, Replay, Streaming, Traffic,
};
use onionlab_quantities::{Bytes, SimDuration};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Longest time-out and stall.
const MAX_WAIT: SimDuration = SimDuration::from_secs(7 * 86_400);

/// Most users that a client may stand for.
const MAX_USERS: u32 = 1_000_000;

/// Least mean time between two flows of a client with all its users: they all have to be simulated.
const LEAST_PAUSE: SimDuration = SimDuration::from_micros(10);

/// Largest request.
const MAX_REQUEST: Bytes = Bytes::new(1_000_000_000);

pub(super) fn clients(
    scenario: &Scenario,
    files: &[ClientsFile],
    network: &Network,
    derived: bool,
    duration: SimDuration,
) -> Checked<Vec<ClientGroup>> {
    count("clients", files.len(), 1000)?;
    let mut groups = BTreeSet::new();
    let mut taken = BTreeSet::new();
    let shares: f64 = files.iter().map(|file| file.share.unwrap_or(1.0)).sum();
    let mut resolved = Vec::with_capacity(files.len());
    for (index, file) in files.iter().enumerate() {
        let key = format!("clients[{index}]");
        let group = name(format!("{key}.group"), &file.group)?;
        if !groups.insert(group.clone()) {
            return Err(Fault::conflict(
                format!("{key}.group"),
                format!("is \"{group}\", which another group is called already"),
            ));
        }
        let members = match network {
            Network::Explicit(explicit) => by_hand(&key, file, explicit, &mut taken)?,
            Network::File(made) => listed(&key, file, &made.network, &group)?,
            Network::Consensus(_) | Network::Synthetic(_) => sampled(&key, file, derived, shares)?,
        };
        let onion = onion::onion(&key, file, network, derived, &mut taken)?;
        let load = load(scenario, &format!("{key}.load"), &file.load)?;
        if let LoadModel::Replay(replay) = &load {
            replays(&key, file, replay, network, &members, &group)?;
        }
        if load.has_timeouts() {
            refuse(&key, "timeout", file.timeout.as_ref(), "has no effect: the load has a time-out for each size")?;
        }
        if load.isolates() {
            refuse(&key, "circuit-per-transfer", file.circuit_per_transfer.as_ref(), "has no effect: the load decides")?;
        }
        let users = within(format!("{key}.users"), file.users.unwrap_or(1), 1, MAX_USERS)?;
        if load.pace() == Pace::Independent && load.mean_flow().pause / f64::from(users) < LEAST_PAUSE.as_secs_f64() {
            let reason = format!("is {users}, whose flows would begin more often than one each {LEAST_PAUSE}");
            return Err(Fault::conflict(format!("{key}.users"), reason));
        }
        let [usual_timeout, usual_stall] = load.patience();
        let timeout = wait(&key, "timeout", file.timeout, usual_timeout)?;
        let stall = wait(&key, "stall", file.stall, usual_stall)?;
        if let Some(silence) = load.longest_silence().filter(|silence| *silence >= stall) {
            let reason = format!("is {stall}, within which nothing may come: the load's `interval` is {silence}");
            return Err(Fault::conflict(format!("{key}.stall"), reason));
        }
        if onion.is_some() {
            refuse(&key, "server-stall", file.server_stall.as_ref(), "has no effect: onion services wait for ever")?;
        }
        let second = SimDuration::from_secs(1);
        let server_stall =
            file.server_stall.map(|stall| within(format!("{key}.server-stall"), stall, second, MAX_WAIT)).transpose()?;
        let options = client_options::options(&key, file, &load, timeout.min(stall))?;
        let start = start(&key, file.start, duration)?;
        let boot_before = file.boot_before.unwrap_or(SimDuration::from_secs(10));
        let stop = file.stop.unwrap_or(duration);
        let ms = SimDuration::from_millis;
        if stop <= start.from || stop > duration {
            let allowed = format!("after the start, which is {}, and at most `duration`, which is {duration}", start.from);
            return Err(Fault::out_of_range(format!("{key}.stop"), stop, allowed));
        }
        resolved.push(ClientGroup {
            group,
            members,
            users,
            start,
            boot_before: within(format!("{key}.boot-before"), boot_before, SimDuration::ZERO, MAX_WAIT)?,
            stop,
            load,
            onion,
            timeout,
            stall,
            server_stall,
            options,
            circuit_per_transfer: file.circuit_per_transfer.unwrap_or(false),
            record: file.record.unwrap_or(true),
            trace: file.trace.unwrap_or(false),
            record_latency: file.record_latency.unwrap_or(false),
            probe: file.probe.map(|probe| within(format!("{key}.probe"), probe, ms(1), ms(3_600_000))).transpose()?,
        });
    }
    Ok(resolved)
}

fn wait(table: &str, key: &str, value: Option<SimDuration>, default: SimDuration) -> Checked<SimDuration> {
    within(format!("{table}.{key}"), value.unwrap_or(default), SimDuration::from_millis(1), MAX_WAIT)
}

fn start(key: &str, file: Option<StartFile>, duration: SimDuration) -> Checked<StartRange> {
    let range = match file {
        None => StartRange { from: SimDuration::ZERO, to: SimDuration::from_secs(10).min(duration / 2) },
        Some(StartFile::At(at)) => StartRange { from: at, to: at },
        Some(StartFile::Between(range)) => range,
    };
    if range.from > range.to {
        return Err(Fault::out_of_range(format!("{key}.start.from"), range.from, format!("at most `to`, which is {}", range.to)));
    }
    if range.to >= duration {
        return Err(Fault::out_of_range(format!("{key}.start"), range.to, format!("less than `duration`, which is {duration}")));
    }
    Ok(range)
}

fn sampled(key: &str, file: &ClientsFile, derived: bool, shares: f64) -> Checked<Members> {
    let reason = "applies only to a network of kind \"explicit\"";
    refuse(key, "hosts", file.hosts.as_ref(), reason)?;
    refuse(key, "path", file.path.as_ref(), reason)?;
    refuse(key, "server", file.server.as_ref(), reason)?;
    let up = file.up.map(|up| rate(format!("{key}.up"), up)).transpose()?;
    let down = file.down.map(|down| rate(format!("{key}.down"), down)).transpose()?;
    if derived {
        let reason = "and `load-target` both set the number of clients: give one of them";
        refuse(key, "count", file.count.as_ref(), reason)?;
        refuse(key, "users-at-full-scale", file.users_at_full_scale.as_ref(), reason)?;
        let share = file.share.unwrap_or(1.0);
        if !(share > 0.0 && share <= 1e6) {
            return Err(Fault::out_of_range(format!("{key}.share"), share, "above 0 and at most 1000000"));
        }
        return Ok(Members::Share { share: share / shares, up, down });
    }
    refuse(key, "share", file.share.as_ref(), "has no effect without `load-target`")?;
    if let Some(users) = file.users_at_full_scale {
        let reason = "and `users-at-full-scale` both set the number of clients: give one of them";
        refuse(key, "count", file.count.as_ref(), reason)?;
        let users_at_full_scale = within(format!("{key}.users-at-full-scale"), users, 1, 1_000_000_000)?;
        return Ok(Members::Scaled { users_at_full_scale, up, down });
    }
    let missing = || Fault::MissingKey { key: "count".to_owned(), table: key.to_owned() };
    let count = within(format!("{key}.count"), file.count.ok_or_else(missing)?, 1, MAX_CLIENTS as u32)?;
    Ok(Members::Count { count, up, down })
}

/// The clients of the group that a network document lists.
fn listed(key: &str, file: &ClientsFile, document: &NetworkDocument, group: &str) -> Checked<Members> {
    let reason = "does not apply to a network document, which lists the clients of each group";
    refuse(key, "count", file.count.as_ref(), reason)?;
    refuse(key, "users-at-full-scale", file.users_at_full_scale.as_ref(), reason)?;
    refuse(key, "share", file.share.as_ref(), reason)?;
    refuse(key, "up", file.up.as_ref(), reason)?;
    refuse(key, "down", file.down.as_ref(), reason)?;
    let by_hand = "applies only to a network of kind \"explicit\"";
    refuse(key, "hosts", file.hosts.as_ref(), by_hand)?;
    refuse(key, "path", file.path.as_ref(), by_hand)?;
    refuse(key, "server", file.server.as_ref(), by_hand)?;
    let clients = document.clients_of(group) as u32;
    if clients == 0 {
        let groups: Vec<&str> = document.groups().into_iter().take(20).collect();
        let reason =
            format!("is \"{group}\", of which the network document has no clients; its groups are {}", groups.join(", "));
        return Err(Fault::conflict(format!("{key}.group"), reason));
    }
    Ok(Members::Document { clients })
}

fn by_hand<'a>(key: &str, file: &'a ClientsFile, network: &ExplicitNetwork, taken: &mut BTreeSet<&'a str>) -> Checked<Members> {
    refuse(key, "count", file.count.as_ref(), "does not apply to a network by hand: name the `hosts`")?;
    refuse(
        key,
        "users-at-full-scale",
        file.users_at_full_scale.as_ref(),
        "does not apply to a network by hand: name the `hosts`",
    )?;
    refuse(key, "share", file.share.as_ref(), "does not apply to a network by hand: name the `hosts`")?;
    refuse(key, "up", file.up.as_ref(), "does not apply to a network by hand: the hosts have rates of their own")?;
    refuse(key, "down", file.down.as_ref(), "does not apply to a network by hand: the hosts have rates of their own")?;
    let indices: BTreeMap<&str, u32> =
        network.hosts.iter().enumerate().map(|(index, host)| (host.name.as_str(), index as u32)).collect();
    let find = |key: &str, wanted: &str, allowed: &[Role]| {
        let index = host_index(key, wanted, &indices)?;
        let role = network.hosts[index as usize].role;
        if allowed.contains(&role) {
            return Ok(index);
        }
        let names: Vec<&str> = allowed.iter().map(|role| role.name()).collect();
        let reason = format!(
            "names \"{}\", whose role does not fit here ({}; allowed: {})",
            clipped(wanted, 64),
            role.name(),
            names.join(", ")
        );
        Err(Fault::conflict(key, reason))
    };
    let missing = || Fault::MissingKey { key: "hosts".to_owned(), table: key.to_owned() };
    let names = file.hosts.as_ref().ok_or_else(missing)?;
    count(format!("{key}.hosts"), names.len(), 100_000)?;
    let mut hosts = Vec::with_capacity(names.len());
    for client in names {
        hosts.push(find(&format!("{key}.hosts"), client, &[Role::Client])?);
        if !taken.insert(client) {
            let reason = format!("names \"{}\", which is in a group already", clipped(client, 64));
            return Err(Fault::conflict(format!("{key}.hosts"), reason));
        }
    }
    let any = |roles: &[Role]| network.hosts.iter().any(|host| roles.contains(&host.role));
    let guards = [Role::Guard, Role::GuardExit];
    let relays = [Role::Guard, Role::Middle, Role::Exit, Role::GuardExit];
    let exits = [Role::Exit, Role::GuardExit];
    let path = match &file.path {
        Some([guard, middle, exit]) => {
            let key = format!("{key}.path");
            let path = [find(&key, guard, &guards)?, find(&key, middle, &relays)?, find(&key, exit, &exits)?];
            if path[0] == path[1] || path[1] == path[2] || path[0] == path[2] {
                return Err(Fault::conflict(key, "names a relay twice"));
            }
            Some(path)
        }
        None if any(&guards) && any(&exits) && network.hosts.iter().filter(|host| host.role.is_relay()).count() >= 3 => None,
        None => {
            let reason = "has no `path`, and the network has too few relays to draw one: a guard, an exit and a third";
            return Err(Fault::conflict(key, reason));
        }
    };
    let server = match &file.server {
        None if file.onion.is_some() => None,
        Some(server) => Some(find(&format!("{key}.server"), server, &[Role::Server])?),
        None if any(&[Role::Server]) => None,
        None => return Err(Fault::conflict(key, "has nothing to load from: the network has no host of role \"server\"")),
    };
    Ok(Members::Hosts { hosts, path, server })
}

/// Checks the load, reads the files that it names, and fills in the size of a request.
fn load(scenario: &Scenario, key: &str, file: &LoadModel) -> Checked<LoadModel> {
    file.validate().map_err(|error| Fault::WrongValue {
        key: format!("{key}.{}", error.key),
        message: format!("{}: {}", clipped(&error.value, 80), error.allowed),
    })?;
    let mut load = file.clone();
    match &mut load {
        LoadModel::Bulk { request, .. }
        | LoadModel::Web { request, .. }
        | LoadModel::Sequence { request, .. }
        | LoadModel::Audio(Streaming { request, .. })
        | LoadModel::Video(Streaming { request, .. }) => {
            request.get_or_insert(DEFAULT_REQUEST);
        }
        LoadModel::Page(_) | LoadModel::Perf(_) | LoadModel::TorUsers(_) => {}
        LoadModel::Markov(markov) => {
            let (streams, of_streams) = chain(scenario, &format!("{key}.streams"), &markov.streams, ChainKind::Streams)?;
            let (packets, of_packets) = chain(scenario, &format!("{key}.packets"), &markov.packets, ChainKind::Packets)?;
            markov.chains = Some(Chains { streams, packets });
            markov.digests = Some([of_streams, of_packets]);
        }
        LoadModel::Replay(replay) => {
            let (traffic, digest) = traffic(scenario, &format!("{key}.path"), &replay.path)?;
            (replay.traffic, replay.digest) = (Some(traffic), Some(digest));
        }
    }
    if let Some(request) = load.request() {
        within(format!("{key}.request"), request, Bytes::new(1), MAX_REQUEST)?;
    }
    Ok(load)
}

/// What is replayed says what each client of the group does, by its name, and for one user.
fn replays(key: &str, file: &ClientsFile, replay: &Replay, network: &Network, members: &Members, group: &str) -> Checked<()> {
    refuse(key, "users", file.users.as_ref(), "has no effect: what is replayed is said client by client")?;
    let names: Vec<&str> = match (network, members) {
        (Network::Explicit(explicit), Members::Hosts { hosts, .. }) => {
            hosts.iter().map(|&host| explicit.hosts[host as usize].name.as_str()).collect()
        }
        (Network::File(made), _) => {
            made.network.clients.iter().filter(|client| client.group == group).map(|client| client.name.as_str()).collect()
        }
        _ => {
            let reason = "says by name what each client does, and the clients of this network have none: use a network document, or one by hand";
            return Err(Fault::conflict(format!("{key}.load"), reason));
        }
    };
    let Some(traffic) = &replay.traffic else { return Ok(()) };
    if let Some(missing) = names.iter().find(|name| !traffic.has(name)) {
        let known: Vec<&str> = traffic.clients().into_iter().take(10).collect();
        let reason =
            format!("says nothing of the client \"{}\"; it does of {}", clipped(missing, 64), clipped(&known.join(", "), 200));
        return Err(Fault::conflict(format!("{key}.load.path"), reason));
    }
    Ok(())
}

/// Recorded traffic from the file that `key` names, and the digest of the file.
fn traffic(scenario: &Scenario, key: &str, path: &str) -> Checked<(Arc<Traffic>, String)> {
    let (FileRef { digest, .. }, content) = read_named_file(scenario, key, path, MAX_TRAFFIC_BYTES as u64)?;
    let fault = |cause: String| Fault::File { key: key.to_owned(), path: clipped(path, 200), cause };
    let traffic = Traffic::parse(&content).map_err(|error| fault(error.to_string()))?;
    Ok((Arc::new(traffic), digest))
}

/// A traffic model from the file that `key` names, and the digest of the file.
fn chain(scenario: &Scenario, key: &str, path: &str, kind: ChainKind) -> Checked<(Arc<Chain>, String)> {
    let (FileRef { digest, .. }, content) = read_named_file(scenario, key, path, MAX_CHAIN_BYTES as u64)?;
    let fault = |cause: String| Fault::File { key: key.to_owned(), path: clipped(path, 200), cause };
    let chain = Chain::parse(&content, kind).map_err(|error| fault(error.to_string()))?;
    Ok((Arc::new(chain), digest))
}
