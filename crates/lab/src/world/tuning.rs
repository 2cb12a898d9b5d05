//! From a treatment in which nothing is left open to the settings of every tor, TCP and queue.

use super::WorldError;
use super::own_policy::{self, Interpreter};
use super::switching;
use crate::scenario::own_policy::Policy;
use crate::scenario::predictor::Predictor;
use crate::scenario::resolved::Treatment;
use crate::scenario::treatment::{
    ChannelReads, ChannelScheduler, Circuitmux, DestroyCells, Epoll, EwmaClock, FlowControl, Handshake, Links, MemoryCounts, Tcp,
    Tls, TokenRefill,
};
use crate::scenario::version::TorVersion;
use onionlab_circuitmux::{PolicyKind, SwrrWeight};
use onionlab_flowcontrol::xon_xoff::XonXoffParameters;
use onionlab_flowcontrol::{PathType, VegasParameters};
use onionlab_net::quic::QuicCongestion;
use onionlab_quantities::{Cells, SimDuration};
use onionlab_tor::{
    ConfluxSettings, CongestionSettings, Cpu, Handshakes, IdleChannels, IdleTimeout, LightAndHeavy, MemoryLimit, Scheduling,
    Settings,
};
use std::sync::Arc;

/// The settings of every tor under a treatment in which nothing is left open and which all hosts have.
///
/// # Errors
/// A policy of the user's own cannot be made.
pub(super) fn settings(treatment: &Treatment, interpreter: Option<&dyn Interpreter>) -> Result<Settings, WorldError> {
    let defaults = Settings::default();
    let code = treatment.tor.code();
    let cells = |count: u32| Cells::new(u64::from(count));
    let param = |name: &str| treatment.consensus_params.get(name).copied();
    let flow_control = match treatment.flow_control_by_file() {
        FlowControl::Windows => onionlab_tor::FlowControl::Windows,
        FlowControl::Predictor => {
            let planned = treatment.predictor.as_ref().map(Predictor::settings);
            onionlab_tor::FlowControl::Predictor(planned.unwrap_or_default())
        }
        FlowControl::Vegas => onionlab_tor::FlowControl::Vegas(CongestionSettings {
            exit_circuits: Arc::new(VegasParameters::from_consensus(PathType::Exit, param)),
            onion_circuits: Arc::new(VegasParameters::from_consensus(PathType::Onion, param)),
            exit_streams: XonXoffParameters::from_consensus(false, param),
            client_streams: XonXoffParameters::from_consensus(true, param),
        }),
    };
    Ok(Settings {
        scheduling: scheduling(treatment, interpreter)?,
        some_relays: None,
        cell_payload: treatment.cell_payload.map_or(defaults.cell_payload, |bytes| bytes as u16),
        flow_control,
        circuit_window: treatment.circuit_window.map_or(defaults.circuit_window, cells),
        circuit_window_increment: treatment.circuit_window_increment.map_or(defaults.circuit_window_increment, cells),
        stream_window: treatment.stream_window.map_or(defaults.stream_window, cells),
        stream_window_increment: treatment.stream_window_increment.map_or(defaults.stream_window_increment, cells),
        cell_queue_high: treatment.cell_queue_high.map_or(defaults.cell_queue_high, cells),
        cell_queue_low: treatment.cell_queue_low.map_or(defaults.cell_queue_low, cells),
        max_cell_queue_in: treatment.max_cell_queue_in.map(cells),
        max_cell_queue_out: treatment.max_cell_queue_out.map(cells),
        outbuf_chunk: treatment.outbuf_chunk.get() as u32,
        tls: match treatment.tls {
            Tls::V1_3 => onionlab_tor::Tls::V1_3,
            Tls::V1_2 => onionlab_tor::Tls::V1_2,
            Tls::Cbc => onionlab_tor::Tls::Cbc,
            Tls::Absent => onionlab_tor::Tls::Absent,
        },
        channel_reads: match treatment.channel_reads {
            Some(ChannelReads::Record) => onionlab_tor::ChannelReads::Record,
            Some(ChannelReads::Share) | None => onionlab_tor::ChannelReads::Share,
        },
        memory_limit: treatment.memory_limit.map(|most| MemoryLimit {
            most,
            counts: match treatment.memory_counts.unwrap_or(code.memory_counts) {
                MemoryCounts::Cells => onionlab_tor::MemoryCounts::Cells,
                MemoryCounts::CellsAndBuffers => onionlab_tor::MemoryCounts::CellsAndBuffers,
            },
        }),
        destroy_cells: match treatment.destroy_cells {
            DestroyCells::Overtake => onionlab_tor::DestroyCells::Overtake,
            DestroyCells::Alternate => onionlab_tor::DestroyCells::Alternate,
        },
        token_refill: match treatment.token_refill {
            TokenRefill::Lazy => onionlab_tor::TokenRefill::Lazy,
            TokenRefill::Timer => onionlab_tor::TokenRefill::Timer,
        },
        epoll: match treatment.epoll {
            Some(Epoll::Shadow1_13) => onionlab_tor::Epoll::Shadow1_13,
            Some(Epoll::Linux) | None => onionlab_tor::Epoll::Linux,
        },
        random_cells: treatment.random_cells,
        optimistic_data: treatment.optimistic_data.unwrap_or(code.optimistic_data),
        conflux: conflux(treatment),
        switching: treatment.switching.as_ref().map(switching::settings),
        circuit_dirtiness: treatment.circuit_lifetime,
        client: defaults.client,
        handshakes: handshakes(treatment),
        links: match treatment.links {
            Links::Shared => onionlab_tor::Links::Shared,
            Links::PerCircuit => onionlab_tor::Links::PerCircuit { with_clients: treatment.per_circuit_clients.unwrap_or(false) },
            Links::LightAndHeavy => onionlab_tor::Links::LightAndHeavy(LightAndHeavy {
                heavy_above: treatment.heavy_above.unwrap_or(1.25),
                light_below: treatment.light_below.unwrap_or(0.75),
                half_life: treatment.heavy_half_life.unwrap_or(SimDuration::from_secs(30)),
            }),
            Links::Quic => onionlab_tor::Links::Quic {
                congestion: if treatment.transport.tcp == Tcp::Reno { QuicCongestion::NewReno } else { QuicCongestion::Cubic },
            },
        },
        socket_limit: treatment.socket_limit,
        idle_channels: Some(idle_channels(treatment)),
        cpu: cpu(treatment),
        kernel_tick: kernel_tick(treatment),
    })
}

/// The ticks of the kernels, if they tick.
pub(super) fn kernel_tick(treatment: &Treatment) -> Option<SimDuration> {
    let said = treatment.everywhere().find_map(|of| of.transport.kernel_tick);
    Some(said.unwrap_or(treatment.transport.net.kernel_tick())).filter(|&tick| tick > SimDuration::ZERO)
}

/// How cells are chosen.
///
/// # Errors
/// A policy of the user's own cannot be made.
pub(super) fn scheduling(treatment: &Treatment, interpreter: Option<&dyn Interpreter>) -> Result<Scheduling, WorldError> {
    let (chosen, code) = (&treatment.scheduling, treatment.tor.code());
    let defaults = Scheduling::default();
    let interval = chosen.kist_interval.unwrap_or(code.kist_interval);
    let client_interval = chosen.kist_client_interval.unwrap_or(interval);
    let channel_scheduler = match chosen.channel_scheduler {
        ChannelScheduler::Refill => onionlab_tor::ChannelScheduler::Refill,
        ChannelScheduler::Vanilla => onionlab_tor::ChannelScheduler::Vanilla,
        ChannelScheduler::Kist => onionlab_tor::ChannelScheduler::Kist {
            interval,
            client_interval,
            socket_buffer_factor: chosen.kist_socket_buffer_factor.unwrap_or(1.0),
            knows_unsent: chosen.kist_knows_unsent.unwrap_or(true),
        },
        ChannelScheduler::KistLite => onionlab_tor::ChannelScheduler::KistLite { interval, client_interval },
    };
    Ok(Scheduling {
        circuitmux: circuitmux(treatment, interpreter)?,
        channel_scheduler,
        outbuf_high: treatment.outbuf_high.unwrap_or(defaults.outbuf_high),
        outbuf_low: treatment.outbuf_low.unwrap_or(defaults.outbuf_low),
    })
}

/// Which circuit of a channel sends next.
fn circuitmux(treatment: &Treatment, interpreter: Option<&dyn Interpreter>) -> Result<PolicyKind, WorldError> {
    let chosen = &treatment.scheduling;
    let swrr = |weight| PolicyKind::Swrr { weight };
    let built_in = match &chosen.circuitmux {
        None => Circuitmux::Ewma,
        Some(Policy::BuiltIn(policy)) => *policy,
        Some(Policy::Own(own)) => return own_policy::custom(own, interpreter).map(PolicyKind::Custom),
    };
    Ok(match built_in {
        Circuitmux::RoundRobin => PolicyKind::RoundRobin,
        Circuitmux::RoundRobinHead => PolicyKind::RoundRobinHead,
        Circuitmux::Ewma => {
            let half_life = chosen.ewma_half_life.unwrap_or(SimDuration::from_secs(30));
            let clock = match chosen.ewma_clock.unwrap_or(treatment.tor.code().ewma_clock) {
                EwmaClock::Coarse => onionlab_circuitmux::EwmaClock::Coarse,
                EwmaClock::Wall => onionlab_circuitmux::EwmaClock::Wall,
            };
            PolicyKind::Ewma { half_life, tick: chosen.ewma_tick.unwrap_or(SimDuration::from_secs(10)), clock }
        }
        Circuitmux::SwrrLinear => swrr(SwrrWeight::Linear),
        Circuitmux::SwrrProportional => swrr(SwrrWeight::Proportional),
        // The constant changes no order of two circuits, so any will do.
        Circuitmux::SwrrLogarithmic => swrr(SwrrWeight::Logarithmic { c: 1.0 }),
    })
}

/// Conflux under a treatment in which nothing is left open.
fn conflux(treatment: &Treatment) -> Option<ConfluxSettings> {
    let (Some(true), Some(sets), Some(legs)) = (treatment.conflux, treatment.conflux_sets, treatment.conflux_legs) else {
        return None;
    };
    let defaults = ConfluxSettings::default();
    let param = |name: &str, default: u8| treatment.consensus_params.get(name).map_or(default, |&value| value as u8);
    Some(ConfluxSettings {
        legs: legs as u8,
        max_prebuilt: sets as u8,
        max_linked: param("cfx_max_linked_set", defaults.max_linked),
        max_leg_retries: param("cfx_max_unlinked_leg_retry", defaults.max_leg_retries),
    })
}

/// What computing costs relays under a treatment; nothing, if it takes no time.
fn cpu(treatment: &Treatment) -> Option<Cpu> {
    let costs = &treatment.computing;
    let (per_cell, per_handshake, per_tap) = (costs.cpu_per_cell?, costs.cpu_per_handshake?, costs.cpu_per_tap?);
    let each = treatment.consensus_params.get("max_pending_tasks_per_cpu").map(|&each| each as u32);
    let (handshake_threads, handshakes_in_hand, cores) = treatment.tor.handshake_workers(costs.cpu_cores?, each.unwrap_or(64));
    Some(Cpu { per_cell, per_handshake, per_tap, handshake_threads, cores, handshakes_in_hand })
}

fn handshakes(treatment: &Treatment) -> Handshakes {
    let Treatment { computing, tor, .. } = treatment;
    let (fast, kind) = tor.handshakes();
    let defaults = Handshakes::default();
    let param = |name: &str| treatment.consensus_params.get(name).map(|&value| value as u64);
    Handshakes {
        fast_first_hop: computing.create_fast.unwrap_or(fast),
        kind: match computing.handshake.unwrap_or(kind) {
            Handshake::Tap => onionlab_tor::Handshake::Tap,
            Handshake::Ntor => onionlab_tor::Handshake::Ntor,
        },
        tap_clients: computing.tap_clients.unwrap_or(0.0),
        ntors_per_tap: computing.ntors_per_tap.unwrap_or(10),
        most_delay: param("MaxOnionQueueDelay").map_or(defaults.most_delay, SimDuration::from_millis),
        cut_off: param("onion_queue_wait_cutoff").map_or(defaults.cut_off, SimDuration::from_secs),
    }
}

/// Three to four and a half minutes where one end is a client, three quarters to five quarters of the set time between relays
/// (`channelpadding_get_channel_idle_timeout`); in 0.2.4 three minutes (`IDLE_OR_CONN_TIMEOUT`).
fn idle_channels(treatment: &Treatment) -> IdleChannels {
    let old = treatment.tor == TorVersion::V0_2_4;
    let three_minutes = IdleTimeout { least: 180, spread: 0 };
    let relays = treatment.relay_channel_idle.map_or(three_minutes, |idle| {
        let seconds = (idle.as_nanos() / 1_000_000_000) as u32;
        IdleTimeout { least: 3 * seconds / 4, spread: seconds / 2 }
    });
    let least = treatment.client_channel_idle.map_or(180, |idle| (idle.as_nanos() / 1_000_000_000) as u32);
    IdleChannels { clients: IdleTimeout { least, spread: if old { 0 } else { least / 2 } }, relays }
}
