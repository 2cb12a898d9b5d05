//! What is told of a connection and its streams.

use super::config::QuicConfig;
use super::connection::Connection;
use crate::tcp::TcpInfo;
use onionlab_quantities::SimDuration;

/// A connection's sender, for records and tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Slow start threshold in bytes; `u64::MAX` before the first loss.
    pub ssthresh: u64,
    /// Bytes of packets in flight, QUIC's headers included.
    pub in_flight: u64,
    /// Smoothed round trip, once measured.
    pub srtt: Option<SimDuration>,
    /// Probe time-outs in a row.
    pub pto_count: u32,
    /// Packets found lost since the connection began.
    pub lost_packets: u64,
    /// Streams that exist at this end.
    pub streams: usize,
}

impl Connection {
    /// The sender's state.
    pub fn connection_info(&self) -> ConnectionInfo {
        ConnectionInfo {
            cwnd: self.congestion.cwnd,
            ssthresh: self.congestion.ssthresh,
            in_flight: self.congestion.in_flight,
            srtt: self.smoothed(),
            pto_count: self.pto_count,
            lost_packets: self.lost_packets,
            streams: self.streams.len(),
        }
    }

    /// What `TCP_INFO` and `SIOCOUTQNSD` would say if the stream were a TCP connection with its share of the congestion window.
    ///
    /// The window is divided evenly between the streams that have bytes written and not acknowledged, this one counted in any case, and rounded up to whole
    /// datagrams: none has less than one, so that with more streams than datagrams the sum over them is more than the connection's. `unacked_segments` and `notsent_bytes` are the stream's own.
    pub fn info(&self, cfg: &QuicConfig, id: u32) -> TcpInfo {
        let (mut unsent, mut unacked, mut peer_window, mut sharing) = (0, 0, 0, u64::from(self.busy));
        if let Some(stream) = self.streams.get(id) {
            unsent = stream.written - stream.next;
            unacked = stream.next - stream.una;
            peer_window = stream.peer_max.saturating_sub(stream.una);
            sharing += u64::from(!stream.busy);
        }
        let share = |bytes: u64| bytes.div_ceil(cfg.full() * sharing.max(1)).min(0x7fff_ffff) as u32;
        TcpInfo {
            cwnd_segments: share(self.congestion.cwnd),
            ssthresh_segments: share(self.congestion.ssthresh),
            unacked_segments: unacked.div_ceil(cfg.full()) as u32,
            mss: u32::from(cfg.max_datagram),
            notsent_bytes: unsent,
            unacked_bytes: unacked,
            send_buffer: self.send_buffer,
            peer_window,
            srtt: self.smoothed(),
            min_rtt: self.rtt.is_measured().then_some(self.rtt.min),
            rto: (self.rtt.probe_timeout() + cfg.max_ack_delay) * (1 << self.pto_count.min(16)),
            retransmitted_segments: self.lost_packets,
        }
    }
}
