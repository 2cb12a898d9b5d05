//! What links and TCP are like, as `onionlab-net` takes it.

use crate::scenario::resolved::Transport;
use crate::scenario::treatment::{DownlinkQueue, LinkProfile, LinkShaping, RoundTrips, Tcp, UplinkQueue};
use onionlab_net::tcp::{BufferLimits, CongestionControl, TcpConfig};
use onionlab_net::{QueueConfig, QueueDiscipline, Shaping};
use onionlab_quantities::{Bytes, SimDuration};

/// How every TCP behaves.
pub(super) fn tcp(transport: &Transport) -> TcpConfig {
    let profile = match transport.net {
        LinkProfile::Linux => TcpConfig::linux(),
        LinkProfile::Shadow => TcpConfig::shadow(),
        LinkProfile::Nstor => TcpConfig::nstor(),
    };
    let up_to = |limits: BufferLimits, max: Bytes| BufferLimits { initial: limits.initial.min(max), max };
    TcpConfig {
        congestion_control: match transport.tcp {
            Tcp::Reno => CongestionControl::Reno,
            Tcp::Cubic => CongestionControl::Cubic,
            Tcp::Unlimited => CongestionControl::Unlimited,
        },
        nagle: transport.nagle,
        hystart: transport.hystart.unwrap_or(false),
        slow_start_after_idle: transport.slow_start_after_idle,
        initial_window: transport.initial_window,
        mss: transport.mss,
        header_bytes: transport.packet_header.get() as u32,
        delayed_ack: transport.delayed_ack,
        min_rto: transport.min_rto,
        min_rto_is_total: profile.min_rto_is_total || transport.round_trips == Some(RoundTrips::Released),
        round_trips: transport.round_trips.map_or(profile.round_trips, |round_trips| match round_trips {
            RoundTrips::Measured => onionlab_net::tcp::RoundTrips::Measured,
            RoundTrips::Released => onionlab_net::tcp::RoundTrips::Released,
            RoundTrips::Never => onionlab_net::tcp::RoundTrips::Never,
        }),
        send_memory_per_segment: match transport.net {
            LinkProfile::Linux => TcpConfig::linux_memory_of_segment(transport.mss),
            // A constant there.
            LinkProfile::Shadow | LinkProfile::Nstor => profile.send_memory_per_segment,
        },
        send_buffer: up_to(profile.send_buffer, transport.send_buffer),
        receive_buffer: up_to(profile.receive_buffer, transport.receive_buffer),
        ..profile
    }
}

/// How access links keep their rates.
pub(super) fn shaping(transport: &Transport) -> Shaping {
    match transport.link_shaping {
        LinkShaping::Serialise => Shaping::Serialise,
        LinkShaping::TokenBatches => Shaping::TokenBatches { interval: SimDuration::from_millis(1) },
        LinkShaping::Bursts => Shaping::Bursts { span: SimDuration::from_millis(5) },
    }
}

/// What waits for every uplink.
pub(super) fn uplink_queue(transport: &Transport) -> onionlab_net::UplinkQueue {
    match (transport.uplink_queue, transport.uplink_queue_packets) {
        (UplinkQueue::DropTail, Some(packets)) => onionlab_net::UplinkQueue::DropTail { packets },
        (UplinkQueue::SmallQueues, Some(packets)) => onionlab_net::UplinkQueue::SmallQueues { packets },
        (UplinkQueue::WriteOrder, _) if transport.round_trips == Some(RoundTrips::Released) => {
            onionlab_net::UplinkQueue::WriteHeap
        }
        (UplinkQueue::WriteOrder, _) => onionlab_net::UplinkQueue::WriteOrder,
        _ => onionlab_net::UplinkQueue::Sockets,
    }
}

/// The queue before every downlink.
pub(super) fn queue(transport: &Transport) -> QueueConfig {
    let discipline = match (transport.downlink_queue, transport.codel_target, transport.codel_interval) {
        (DownlinkQueue::Codel, Some(target), Some(interval)) => QueueDiscipline::CoDel { target, interval },
        _ => QueueDiscipline::DropTail,
    };
    QueueConfig { discipline, limit: transport.downlink_queue_size, limit_packets: transport.downlink_queue_packets }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use std::path::Path;

    /// Of Linux the segment decides what a send buffer sets aside for it; Shadow has one number for all.
    #[test]
    fn large_segments_have_room_in_the_send_buffer() {
        for (net, mss, memory) in [("linux", 1448, 4352), ("linux", 8948, 16_640), ("shadow", 1448, 2404), ("shadow", 8948, 2404)]
        {
            let file = format!(
                "title = \"A test\"\nduration = \"1 s\"\n[network]\nkind = \"synthetic\"\n[base]\nnet = \"{net}\"\nmss = {mss}\n\
                 [[clients]]\ngroup = \"a\"\ncount = 1\nload = {{ kind = \"bulk\", size = \"1 MB\" }}\n"
            );
            let scenario = Scenario::parse(Path::new("test.toml"), file).and_then(|scenario| scenario.resolve()).unwrap();
            assert_eq!(tcp(&scenario.treatments[0].transport).send_memory_per_segment, memory, "{net}, {mss}");
        }
    }
}
