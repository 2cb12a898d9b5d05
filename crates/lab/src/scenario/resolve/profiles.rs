//! What a simulator and a link profile say where neither the treatment nor `[base]` does.

use crate::scenario::own_policy::CircuitmuxFile;
use crate::scenario::treatment::{
    BaseFile, ChannelScheduler, Circuitmux, DownlinkQueue, FlowControl, LinkProfile, LinkShaping, Simulator, Tcp, Tls,
    UplinkQueue,
};
use onionlab_net::tcp::{CongestionControl, TcpConfig};
use onionlab_quantities::{Bytes, SimDuration};

/// Packets before nstor's links: 100 in the device, 1000 in the queue above it (ns-3.29's default `pfifo_fast`).
const NSTOR_PACKETS: u32 = 1100;

/// What another simulator has, where neither the treatment nor `[base]` says anything: nstor's baseline, as its example script sets it. Of windows only what the flow
/// control uses counts, so that `PredicTor` has the rest.
pub(super) fn of_simulator(simulator: Simulator) -> BaseFile {
    match simulator {
        Simulator::Nstor => BaseFile {
            net: Some(LinkProfile::Nstor),
            tls: Some(Tls::Absent),
            circuitmux: Some(CircuitmuxFile::BuiltIn(Circuitmux::RoundRobin)),
            channel_scheduler: Some(ChannelScheduler::Vanilla),
            predicted_circuits: Some(false),
            random_cells: Some(false),
            flow_control: Some(FlowControl::Windows),
            circuit_window: Some(500),
            circuit_window_increment: Some(50),
            // It has no windows of streams.
            stream_window: Some(65_535),
            stream_window_increment: Some(65_535),
            ..BaseFile::default()
        },
    }
}

/// What a link profile says where neither the treatment nor `[base]` does.
pub(super) fn profile(net: LinkProfile) -> BaseFile {
    let (tcp, link_shaping, downlink_queue, codel_target) = match net {
        LinkProfile::Linux => (TcpConfig::linux(), LinkShaping::Serialise, DownlinkQueue::DropTail, 5),
        LinkProfile::Shadow => (TcpConfig::shadow(), LinkShaping::TokenBatches, DownlinkQueue::Codel, 10),
        LinkProfile::Nstor => (TcpConfig::nstor(), LinkShaping::Serialise, DownlinkQueue::DropTail, 5),
    };
    let uplink_queue = match net {
        LinkProfile::Linux => UplinkQueue::Sockets,
        LinkProfile::Shadow => UplinkQueue::WriteOrder,
        LinkProfile::Nstor => UplinkQueue::DropTail,
    };
    let nstor = net == LinkProfile::Nstor;
    BaseFile {
        tcp: Some(match tcp.congestion_control {
            CongestionControl::Reno => Tcp::Reno,
            CongestionControl::Cubic => Tcp::Cubic,
            CongestionControl::Unlimited => Tcp::Unlimited,
        }),
        kernel_tick: Some(net.kernel_tick()),
        nagle: Some(tcp.nagle),
        hystart: Some(tcp.hystart),
        slow_start_after_idle: Some(tcp.slow_start_after_idle),
        initial_window: Some(tcp.initial_window),
        mss: Some(tcp.mss),
        packet_header: Some(Bytes::new(tcp.header_bytes.into())),
        delayed_ack: Some(tcp.delayed_ack),
        min_rto: Some(tcp.min_rto),
        send_buffer: Some(tcp.send_buffer.max),
        receive_buffer: Some(tcp.receive_buffer.max),
        link_shaping: Some(link_shaping),
        uplink_queue: Some(uplink_queue),
        uplink_queue_packets: Some(NSTOR_PACKETS),
        downlink_queue: Some(downlink_queue),
        // Linux: a thousand full packets, as its default interface queue holds. Shadow's CoDel has no limit (`codel_queue.rs`: `LIMIT`); nstor's queue counts packets.
        downlink_queue_size: Some(Bytes::new(if net == LinkProfile::Linux { 1_500_000 } else { 1 << 30 })),
        downlink_queue_packets: nstor.then_some(NSTOR_PACKETS),
        codel_target: Some(SimDuration::from_millis(codel_target)),
        codel_interval: Some(SimDuration::from_millis(100)),
        ..BaseFile::default()
    }
}
