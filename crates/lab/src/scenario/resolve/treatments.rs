//! Checks of `[base]` and `[[treatments]]`: a value on every axis, and no setting without an effect.

use super::computing::computing;
use super::effects::without_effect;
use super::profiles::of_simulator;
use super::scheduling::scheduling;
use super::transport::transport;
use super::{Checked, DAY, Keys, MILLISECOND, count, text, within};
use crate::scenario::Scenario;
use crate::scenario::consensus_params;
use crate::scenario::error::{Fault, clipped};
use crate::scenario::predictor;
use crate::scenario::resolved::Treatment;
use crate::scenario::some_relays;
use crate::scenario::switching;
use crate::scenario::treatment::{BaseFile, Epoll, FlowControl, Links, Tcp, Tls, TreatmentFile};
use crate::scenario::version::TorVersion;
use onionlab_quantities::{Bytes, SimDuration};
use onionlab_tor::{CELL_BYTES, RELAY_PAYLOAD_SIZE_MAX};
use std::collections::{BTreeMap, BTreeSet};

/// What of the network decides whether a setting has an effect.
#[derive(Debug, Clone, Copy)]
pub(in crate::scenario) struct Circumstances {
    /// A relay has a rate limit of its own.
    pub limited: bool,
    /// A client's paths are drawn.
    pub drawn: bool,
    /// Exits may differ in the ports that they let out.
    pub policies: bool,
    /// There are onion services.
    pub onion: bool,
    /// A group of clients has no circuit lifetime of its own.
    pub lifetime: bool,
}

pub(super) fn treatments(
    scenario: &Scenario,
    base: Option<&BaseFile>,
    files: Option<&[TreatmentFile]>,
    network: Circumstances,
) -> Checked<Vec<Treatment>> {
    let nothing = BaseFile::default();
    let base = base.unwrap_or(&nothing);
    let alone = [TreatmentFile { name: "base".to_owned(), ..TreatmentFile::default() }];
    let files = files.unwrap_or(&alone);
    count("treatments", files.len(), 1000)?;
    let mut names = BTreeSet::new();
    let mut slugs = BTreeSet::new();
    let mut resolved = Vec::with_capacity(files.len());
    for (index, file) in files.iter().enumerate() {
        let key = format!("treatments[{index}]");
        let name = text(format!("{key}.name"), &file.name, 100)?;
        let slug = slug(&name);
        if slug.is_empty() {
            let allowed = "a name with at least one letter or digit of ASCII";
            return Err(Fault::out_of_range(format!("{key}.name"), format!("\"{}\"", clipped(&name, 60)), allowed));
        }
        if !names.insert(name.clone()) || !slugs.insert(slug.clone()) {
            let reason =
                format!("is \"{}\", too like the name of another treatment (records are kept as \"{slug}\")", clipped(&name, 60));
            return Err(Fault::conflict(format!("{key}.name"), reason));
        }
        let own = file.own();
        let (own_keys, base_keys) = (own.keys(), base.keys());
        // Where a setting stands, so that an error names the right line.
        let place = |setting: &str| {
            let from_base = !own_keys.iter().any(|key| key == setting) && base_keys.iter().any(|key| key == setting);
            if from_base { format!("base.{setting}") } else { format!("{key}.{setting}") }
        };
        let mut treatment = one(scenario, place, name.clone(), slug.clone(), &own.over(base))?;
        treatment.epoll = treatment.epoll.filter(|_| network.limited);
        treatment.consensus_params = consensus_params::checked(&key, &treatment, &own, base, network)?;
        if let Some(relays) = &file.relays {
            let mut others = one(scenario, |setting: &str| format!("base.{setting}"), name, slug, base)?;
            others.epoll = treatment.epoll;
            others.consensus_params = consensus_params::checked(&key, &others, &BaseFile::default(), base, network)?;
            treatment.relays = Some(some_relays::checked(&key, relays, &own, others)?);
        }
        if let Some((setting, needs)) = without_effect(&treatment, &own, network).first() {
            return Err(Fault::conflict(
                format!("{key}.{setting}"),
                format!("has no effect in this treatment: it needs {needs}"),
            ));
        }
        some_relays::must_differ(&key, &treatment)?;
        resolved.push(treatment);
    }
    consensus_params::base_serves(base, &resolved, network)?;
    // A setting of `[base]` may serve some of the treatments only, but it must serve one.
    for setting in base.keys() {
        let needs: Vec<Option<&str>> = resolved
            .iter()
            .flat_map(Treatment::everywhere)
            .map(|treatment| without_effect(treatment, base, network).into_iter().find(|(key, _)| *key == setting))
            .map(|idle| idle.map(|(_, needs)| needs))
            .collect();
        if let Some(needs) = needs[0].filter(|_| needs.iter().all(Option::is_some)) {
            return Err(Fault::conflict(format!("base.{setting}"), format!("has no effect in any treatment: it needs {needs}")));
        }
    }
    Ok(resolved)
}

const CELL: Bytes = Bytes::new(CELL_BYTES as u64);
const WEEK: SimDuration = SimDuration::from_secs(7 * 86_400);

/// A value on every axis, in range, and none on axes that have no effect.
fn one(scenario: &Scenario, key: impl Fn(&str) -> String, name: String, slug: String, given: &BaseFile) -> Checked<Treatment> {
    let keys = Keys(&key);
    let all = given.over(&given.simulator.map(of_simulator).unwrap_or_default());
    let tor = all.tor.unwrap_or(TorVersion::V0_4_9);
    let code = tor.code();
    let scheduling = scheduling(scenario, &keys, &all, tor)?;
    let transport = transport(&keys, &all, scheduling.channel_scheduler)?;
    let computing = computing(&keys, &all, tor)?;
    let flow_control = all.flow_control.unwrap_or(code.flow_control);
    let windows = flow_control == FlowControl::Windows;
    let circuit_window = keys.given("circuit-window", all.circuit_window, 1, 65_535)?;
    let circuit_increment = all.circuit_window_increment.unwrap_or(100);
    let stream_window = within(key("stream-window"), all.stream_window.unwrap_or(500), 1, 65_535)?;
    let stream_increment = all.stream_window_increment.unwrap_or(50);
    let planned = predictor::checked(&key, &all)?;
    let links = all.links.unwrap_or(if planned.is_some() { Links::PerCircuit } else { Links::Shared });
    if links == Links::Quic && transport.tcp == Tcp::Unlimited {
        return Err(Fault::conflict(
            key("links"),
            "is \"quic\", which has a congestion window: it needs tcp = \"reno\" or \"cubic\"",
        ));
    }
    let tls = all.tls.unwrap_or(code.tls);
    let two_classes = links == Links::LightAndHeavy;
    let heavy_above = within(key("heavy-above"), all.heavy_above.unwrap_or(1.25), 1.0, 1000.0)?;
    let heavy_half_life = all.heavy_half_life.unwrap_or(SimDuration::from_secs(30));
    let lifetime = all.circuit_lifetime.unwrap_or(SimDuration::from_secs(600));
    let cell_queue_high = keys.given("cell-queue-high", all.cell_queue_high, 1, 1000)?;
    let outbuf_high = all.outbuf_high.filter(|_| scheduling.channel_scheduler.fills_outbufs());
    let outbuf_high = keys.given("outbuf-high", outbuf_high, CELL, Bytes::new(1 << 30))?;
    let outbuf_low = all.outbuf_low.filter(|_| scheduling.channel_scheduler.refills_outbufs());
    let minute = SimDuration::from_secs(60);
    Ok(Treatment {
        name,
        slug,
        relays: None,
        tor,
        scheduling,
        flow_control: all.flow_control,
        computing,
        cell_payload: keys.given("cell-payload", all.cell_payload, 1, u32::from(RELAY_PAYLOAD_SIZE_MAX))?,
        predicted_circuits: all.predicted_circuits,
        build_time_bin: all.build_time_bin.map(|bin| bins(key("build-time-bin"), bin)).transpose()?,
        first_port: keys.given("first-port", all.first_port, 1, 65_535)?,
        links,
        per_circuit_clients: (links == Links::PerCircuit).then_some(all.per_circuit_clients.unwrap_or(planned.is_some())),
        heavy_above: two_classes.then_some(heavy_above),
        light_below: keys.given("light-below", two_classes.then_some(all.light_below.unwrap_or(0.75)), 0.0, heavy_above)?,
        heavy_half_life: keys.given("heavy-half-life", two_classes.then_some(heavy_half_life), MILLISECOND * 10, DAY)?,
        socket_limit: keys.given("socket-limit", all.socket_limit, 2, 10_000_000)?,
        relay_channel_idle: keys.given("relay-channel-idle", all.relay_channel_idle, minute, WEEK)?,
        client_channel_idle: keys.given("client-channel-idle", all.client_channel_idle, minute, WEEK)?,
        circuit_lifetime: within(key("circuit-lifetime"), lifetime, SimDuration::from_secs(1), WEEK)?,
        cell_queue_high,
        cell_queue_low: keys.given("cell-queue-low", all.cell_queue_low, 1, cell_queue_high.unwrap_or(256))?,
        max_cell_queue_in: keys.given("max-cell-queue-in", all.max_cell_queue_in, 50, 1_000_000)?,
        max_cell_queue_out: keys.given("max-cell-queue-out", all.max_cell_queue_out, 50, 1_000_000)?,
        memory_limit: keys.given("memory-limit", all.memory_limit, Bytes::new(65_536), Bytes::new(1 << 40))?,
        memory_counts: all.memory_limit.map(|_| all.memory_counts.unwrap_or(code.memory_counts)),
        destroy_cells: all.destroy_cells.unwrap_or(code.destroy_cells),
        outbuf_high,
        outbuf_low: keys.given("outbuf-low", outbuf_low, CELL, outbuf_high.unwrap_or(Bytes::new(32_768)))?,
        outbuf_chunk: within(key("outbuf-chunk"), all.outbuf_chunk.unwrap_or(code.outbuf_chunk), CELL, Bytes::new(16_384))?,
        tls,
        channel_reads: (links != Links::Quic && tls != Tls::Absent).then_some(all.channel_reads.unwrap_or(code.channel_reads)),
        token_refill: all.token_refill.unwrap_or(code.token_refill),
        epoll: Some(all.epoll.unwrap_or(Epoll::Linux)),
        optimistic_data: all.optimistic_data,
        random_cells: all.random_cells.unwrap_or(code.random_cells),
        conflux: all.conflux,
        conflux_sets: keys.given("conflux-sets", all.conflux_sets, 1, 100)?,
        conflux_legs: keys.given("conflux-legs", all.conflux_legs, 2, 8)?,
        switching: switching::checked(&key, &all, links, planned.is_some())?,
        predictor: planned,
        guards: keys.given("guards", all.guards, 0, 20)?,
        circuit_window: circuit_window.filter(|_| windows),
        circuit_window_increment: windows
            .then(|| increment(key("circuit-window-increment"), circuit_increment, circuit_window.unwrap_or(1000)))
            .transpose()?,
        stream_window: windows.then_some(stream_window),
        stream_window_increment: windows
            .then(|| increment(key("stream-window-increment"), stream_increment, stream_window))
            .transpose()?,
        consensus_params: BTreeMap::new(),
        transport,
    })
}

/// tor counts build times in whole milliseconds.
fn bins(key: String, width: SimDuration) -> Checked<SimDuration> {
    let whole = width.as_nanos().is_multiple_of(1_000_000);
    if whole && (SimDuration::from_millis(1)..=SimDuration::from_secs(1)).contains(&width) {
        return Ok(width);
    }
    Err(Fault::out_of_range(key, width, "whole milliseconds from 1 ms to 1 s"))
}

/// A SENDME must come before the window is used up, or nothing moves any more.
fn increment(key: String, increment: u32, window: u32) -> Checked<u32> {
    if (1..=window).contains(&increment) {
        return Ok(increment);
    }
    Err(Fault::out_of_range(key, increment, format!("from 1 to the window, which is {window} cells")))
}

/// `name` as part of a file name.
pub(in crate::scenario) fn slug(name: &str) -> String {
    let mut slug = String::new();
    for c in name.chars().take(100) {
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.trim_end_matches('-').chars().take(60).collect()
}
