//! From a treatment and the consensus to the settings of every tor, TCP and queue.

use crate::scenario::consensus_params;
use crate::scenario::resolved::Treatment;
use crate::scenario::treatment::{ChannelScheduler, Circuitmux, DownlinkQueue, FlowControl, LinkProfile, LinkShaping, Tcp};
use onionlab_circuitmux::{PolicyKind, SwrrWeight};
use onionlab_directory::params::{self, Params};
use onionlab_flowcontrol::xon_xoff::XonXoffParameters;
use onionlab_flowcontrol::{PathType, VegasParameters};
use onionlab_net::tcp::{BufferLimits, CongestionControl, TcpConfig};
use onionlab_net::{QueueConfig, QueueDiscipline, Shaping};
use onionlab_quantities::{Bytes, Cells, SimDuration};
use onionlab_tor::{CongestionSettings, Settings};
use std::sync::Arc;

/// KIST's least interval (C tor 0.4.9: `KIST_SCHED_RUN_INTERVAL_MIN`).
const KIST_INTERVAL_MIN: i32 = 2;
/// Limits of a circuit's cell queue (C tor: `RELAY_CIRC_CELL_QUEUE_SIZE_DEFAULT`, `_MIN`).
const MAX_CELL_QUEUE: (i32, i32) = (2500, 50);

/// Fills in what the treatment leaves to the consensus: half-life, KIST's interval, the limits of cell queues, congestion control.
///
/// The result is what `treatment_json` of the table `run` shows.
pub(super) fn effective(treatment: &Treatment, params: &Params) -> Treatment {
    let ms = |value: i32| SimDuration::from_millis(value.max(0) as u64);
    let ewma = treatment.circuitmux == Circuitmux::Ewma;
    let kist = treatment.channel_scheduler == ChannelScheduler::Kist;
    let half_life = || ms(params.value(&params::CIRCUIT_PRIORITY_HALFLIFE_MSEC));
    let interval = || ms(params.value(&params::KIST_SCHED_RUN_INTERVAL).max(KIST_INTERVAL_MIN));
    let queue = |name: &str| params.get(name).map(|cells| cells.max(MAX_CELL_QUEUE.1) as u32);
    let inbound = treatment.max_cell_queue_in.or_else(|| queue("circ_max_cell_queue_size")).unwrap_or(MAX_CELL_QUEUE.0 as u32);
    let outbound = treatment.max_cell_queue_out.or_else(|| queue("circ_max_cell_queue_size_out")).unwrap_or(inbound);
    Treatment {
        ewma_half_life: ewma.then(|| treatment.ewma_half_life.unwrap_or_else(half_life)),
        kist_interval: kist.then(|| treatment.kist_interval.unwrap_or_else(interval)),
        max_cell_queue_in: Some(inbound),
        max_cell_queue_out: Some(outbound),
        consensus_params: consensus_params::known()
            .into_iter()
            .filter(|known| known.serves(treatment))
            .map(|known| {
                let value = treatment.consensus_params.get(&known.name).copied().or_else(|| params.get(&known.name));
                let value = known.clamp(value.unwrap_or(known.default));
                (known.name, value)
            })
            .collect(),
        ..treatment.clone()
    }
}

/// The settings of every tor under a treatment in which nothing is left open.
pub(super) fn settings(treatment: &Treatment) -> Settings {
    let defaults = Settings::default();
    let swrr = |weight| PolicyKind::Swrr { weight };
    let circuitmux = match treatment.circuitmux {
        Circuitmux::RoundRobin => PolicyKind::RoundRobin,
        Circuitmux::Ewma => {
            let half_life = treatment.ewma_half_life.unwrap_or(SimDuration::from_secs(30));
            PolicyKind::Ewma { half_life, tick: SimDuration::from_secs(10) }
        }
        Circuitmux::SwrrLinear => swrr(SwrrWeight::Linear),
        Circuitmux::SwrrProportional => swrr(SwrrWeight::Proportional),
        // The constant changes no order of two circuits, so any will do.
        Circuitmux::SwrrLogarithmic => swrr(SwrrWeight::Logarithmic { c: 1.0 }),
    };
    // Clients run KIST at an interval of their own (`KISTSchedRunIntervalClient`, 2 ms).
    let param = |name: &str| treatment.consensus_params.get(name).copied();
    let client_interval = param("KISTSchedRunIntervalClient").unwrap_or(KIST_INTERVAL_MIN);
    let channel_scheduler = match treatment.channel_scheduler {
        ChannelScheduler::Vanilla => onionlab_tor::ChannelScheduler::Vanilla,
        ChannelScheduler::Kist => onionlab_tor::ChannelScheduler::Kist {
            interval: treatment.kist_interval.unwrap_or(SimDuration::from_millis(KIST_INTERVAL_MIN as u64)),
            client_interval: SimDuration::from_millis(client_interval as u64),
            socket_buffer_factor: treatment.kist_socket_buffer_factor.unwrap_or(1.0),
        },
    };
    let cells = |count: u32| Cells::new(u64::from(count));
    let flow_control = match treatment.flow_control {
        FlowControl::Windows => onionlab_tor::FlowControl::Windows,
        FlowControl::Vegas => onionlab_tor::FlowControl::Vegas(CongestionSettings {
            exit_circuits: Arc::new(VegasParameters::from_consensus(PathType::Exit, param)),
            exit_streams: XonXoffParameters::from_consensus(false, param),
            client_streams: XonXoffParameters::from_consensus(true, param),
        }),
    };
    Settings {
        circuitmux,
        channel_scheduler,
        cell_payload: treatment.cell_payload as u16,
        flow_control,
        circuit_window: treatment.circuit_window.map_or(defaults.circuit_window, cells),
        circuit_window_increment: treatment.circuit_window_increment.map_or(defaults.circuit_window_increment, cells),
        stream_window: treatment.stream_window.map_or(defaults.stream_window, cells),
        stream_window_increment: treatment.stream_window_increment.map_or(defaults.stream_window_increment, cells),
        cell_queue_high: cells(treatment.cell_queue_high),
        cell_queue_low: cells(treatment.cell_queue_low),
        max_cell_queue_in: treatment.max_cell_queue_in.map_or(defaults.max_cell_queue_in, cells),
        max_cell_queue_out: treatment.max_cell_queue_out.map_or(defaults.max_cell_queue_out, cells),
        outbuf_high: treatment.outbuf_high.unwrap_or(defaults.outbuf_high),
        outbuf_low: treatment.outbuf_low.unwrap_or(defaults.outbuf_low),
        circuit_dirtiness: treatment.circuit_lifetime,
        ..defaults
    }
}

/// How every TCP behaves under a treatment.
pub(super) fn tcp(treatment: &Treatment) -> TcpConfig {
    let profile = match treatment.net {
        LinkProfile::Linux => TcpConfig::linux(),
        LinkProfile::Shadow => TcpConfig::shadow(),
    };
    let up_to = |limits: BufferLimits, max: Bytes| BufferLimits { initial: limits.initial.min(max), max };
    TcpConfig {
        congestion_control: match treatment.tcp {
            Tcp::Reno => CongestionControl::Reno,
            Tcp::Cubic => CongestionControl::Cubic,
        },
        nagle: treatment.nagle,
        hystart: treatment.hystart.unwrap_or(false),
        slow_start_after_idle: treatment.slow_start_after_idle,
        initial_window: treatment.initial_window,
        mss: treatment.mss,
        delayed_ack: treatment.delayed_ack,
        min_rto: treatment.min_rto,
        send_buffer: up_to(profile.send_buffer, treatment.send_buffer),
        receive_buffer: up_to(profile.receive_buffer, treatment.receive_buffer),
        ..profile
    }
}

/// How access links keep their rates.
pub(super) fn shaping(treatment: &Treatment) -> Shaping {
    match treatment.link_shaping {
        LinkShaping::Serialise => Shaping::Serialise,
        LinkShaping::TokenBatches => Shaping::TokenBatches { interval: SimDuration::from_millis(1) },
    }
}

/// The queue before every downlink.
pub(super) fn queue(treatment: &Treatment) -> QueueConfig {
    let discipline = match (treatment.downlink_queue, treatment.codel_target, treatment.codel_interval) {
        (DownlinkQueue::Codel, Some(target), Some(interval)) => QueueDiscipline::CoDel { target, interval },
        _ => QueueDiscipline::DropTail,
    };
    QueueConfig { discipline, limit: treatment.downlink_queue_size }
}
