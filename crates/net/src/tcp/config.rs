//! What a TCP end is configured with: one value for a whole network, shared by every connection.

use super::segment::Flags;
use onionlab_quantities::{Bytes, SimDuration};

/// The congestion controls on offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CongestionControl {
    /// RFC 5681: one segment per round trip, half after a loss.
    Reno,
    /// RFC 9438, as Linux computes it; Linux's default.
    Cubic,
    /// None: after the first acknowledgement of data the window is without limit and no loss lowers it for longer than until the next
    /// acknowledgement, so that buffers and the peer's window alone limit what is in flight.
    Unlimited,
}

/// When data that came in order is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AckRule {
    /// As Linux does: every second full segment, some at once, the rest after a delay that adapts (module `receive`).
    Adaptive,
    /// By the clock alone: once `delayed_ack` after the first data of several, from the thousandth time on once five times that, and besides
    /// whenever reading makes the window larger than the one last offered. The receive buffer grows to twice all that was ever read, and
    /// windows of SYNs are not cut to 16 bits (module `receive::timed`).
    Timed,
    /// Every second segment, whatever its length, or `delayed_ack` after the first; the window is the free buffer, and reading announces
    /// it when it has grown by more than a fifth of the buffer (module `receive::counted`).
    Counted,
}

/// Which round trips set the retransmission time-out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RoundTrips {
    /// Each end's own, from data to its acknowledgement (RFC 6298), as Linux takes them.
    Measured,
    /// Those that the other end makes known by chance, as Shadow 1.13 has it: a segment echoes the time of the one before it only if it leaves while that
    /// one is being processed and the wire is free. So do data that an acknowledgement releases, the answer to a SYN, and what answers data beyond
    /// a hole, but neither acknowledgements, which wait a millisecond, nor data that is written later. Whoever receives such a segment takes its
    /// round trip, by RFC 6298 in whole milliseconds, unless a time-out is not answered yet. Time-outs are that version's altogether then (module `stale`), and so are
    /// buffers: when the first round trip is known both get what the path holds by the slower of both links and a quarter more, and receive buffers grow to twice what was
    /// read in a round trip.
    Released,
    /// None: the time-out is `initial_rto` all the time, as Shadow 3 has it, where nothing leaves while a segment is being processed. What a time-out leaves behind is as with [`Self::Released`].
    Never,
}

/// A socket buffer: what it starts with, and how far it grows by itself.
///
/// `max` above `initial` means that the buffer tunes itself, as Linux's does with `tcp_wmem` and `tcp_rmem`; equal means fixed,
/// as after `SO_SNDBUF` or `SO_RCVBUF`. Both below 2 GiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferLimits {
    /// Size of a new connection's buffer.
    pub initial: Bytes,
    /// Size that it never exceeds.
    pub max: Bytes,
}

impl BufferLimits {
    /// A buffer that starts with `initial` and grows up to `max`.
    pub const fn new(initial: u64, max: u64) -> Self {
        Self { initial: Bytes::new(initial), max: Bytes::new(max) }
    }
    /// A buffer of one size.
    pub const fn fixed(size: u64) -> Self {
        Self::new(size, size)
    }
}

/// Every choice that a TCP end follows.
///
/// The values of [`TcpConfig::linux`] are Linux 6's defaults; each field's comment names the setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpConfig {
    /// Window growth and reduction (`net.ipv4.tcp_congestion_control`).
    pub congestion_control: CongestionControl,
    /// Payload of a full segment in bytes; 1..=65534. Ethernet's 1500 less 20 (IPv4), 20 (TCP), 12 (timestamps): 1448.
    pub mss: u32,
    /// Bytes of headers that each segment carries on the wire: IPv4, TCP and timestamps make 52.
    pub header_bytes: u32,
    /// Whether a SYN's options (8 more bytes than timestamps alone) and SACK blocks (4 + 8 for each) take room on the wire.
    pub options_on_wire: bool,
    /// Segments that a new or restarted connection may have in flight (RFC 6928).
    pub initial_window: u32,
    /// HyStart with CUBIC (`tcp_cubic.hystart`): leaves slow start when delay or ack trains say so. Reno never uses it.
    pub hystart: bool,
    /// Selective acknowledgements (RFC 2018, `net.ipv4.tcp_sack`). Without: duplicate acknowledgements and NewReno (RFC 6582).
    pub sack: bool,
    /// RACK and tail loss probes (RFC 8985). Without: three SACKed segments above, RFC 6675, no probe.
    pub rack_tlp: bool,
    /// Proportional rate reduction (RFC 6937). Without: the window drops to the threshold at once.
    pub prr: bool,
    /// RFC 5681's fast recovery and nothing more, windows counted from the lowest unacknowledged segment (module `plain`). SACK then only
    /// spares a time-out what has arrived; `rack_tlp`, `prr` and the limits on an unused window's growth do not apply.
    pub plain_reno: bool,
    /// Nagle's algorithm with Minshall's variant; off is `TCP_NODELAY`. Tor leaves it on.
    pub nagle: bool,
    /// Shrinks the window of a connection that was idle or did not use it (RFC 2861, `net.ipv4.tcp_slow_start_after_idle`).
    pub slow_start_after_idle: bool,
    /// Cuts each write into segments of its own, never joining two writes in one (Shadow does; Linux joins what waits).
    pub segment_per_write: bool,
    /// Holds data back while the peer's window has no room for a full segment, unless all that waits fits (RFC 1122, 4.2.3.4). Linux leaves
    /// that to the receiver, which does not offer small windows.
    pub awaits_full_window: bool,
    /// When data is acknowledged.
    pub acks: AckRule,
    /// Shortest delay of an acknowledgement that waits for data or a second segment; with [`AckRule::Adaptive`] the longest is a round
    /// trip, and at most five times that (Linux: 40 and 200 ms). Zero acknowledges each segment at once.
    pub delayed_ack: SimDuration,
    /// Which round trips set the time-out. Unless all are measured, one or two time-outs in a row double it until a round trip is known,
    /// and an acknowledgement after three or more sets it back.
    pub round_trips: RoundTrips,
    /// Least time that a retransmission time-out allows beyond the smoothed round trip (Linux: 200 ms).
    pub min_rto: SimDuration,
    /// Whether `min_rto` is the least time-out altogether, as RFC 6298 has it (1 s), and not what is added to the round trip.
    pub min_rto_is_total: bool,
    /// Time-out of the first SYN and of data sent before any round trip was measured (RFC 6298: 1 s).
    pub initial_rto: SimDuration,
    /// Longest time-out after backing off (Linux: 120 s).
    pub max_rto: SimDuration,
    /// Send buffer (`net.ipv4.tcp_wmem`).
    pub send_buffer: BufferLimits,
    /// Calls the writer as soon as any of the send buffer is free, not when a third is (Linux: a third).
    pub writable_at_once: bool,
    /// Send buffer set aside for each segment of twice the congestion window when the buffer tunes itself. Linux 6 reckons with
    /// more than a stream of full segments ever needs ([`Self::linux_memory_of_segment`]).
    pub send_memory_per_segment: u32,
    /// Receive buffer (`net.ipv4.tcp_rmem`).
    pub receive_buffer: BufferLimits,
    /// Percentage of the receive buffer that is advertised as window (`net.ipv4.tcp_adv_win_scale` = 1: 50).
    pub window_percent: u32,
}

impl TcpConfig {
    /// Bytes on the wire of a segment with this payload, these flags and so many SACK blocks, headers included.
    pub(crate) fn wire_bytes(&self, len: u16, flags: Flags, sack_count: u8) -> u32 {
        let options = if !self.options_on_wire {
            0
        } else if flags.has(Flags::SYN) {
            8
        } else if sack_count > 0 {
            4 + 8 * u32::from(sack_count)
        } else {
            0
        };
        self.header_bytes + u32::from(len) + options
    }

    /// Kernel memory that Linux 6 reckons with for a segment with so much payload (`tcp_sndbuf_expand`): the largest segment, which may do without the 12 bytes
    /// of timestamps, its headers and `skb_shared_info`, 320 bytes each, up to the next power of two, and `sk_buff`.
    pub const fn linux_memory_of_segment(mss: u32) -> u32 {
        (mss + 12 + 2 * 320).next_power_of_two() + 256
    }

    /// Linux 6 with its defaults.
    pub fn linux() -> Self {
        Self {
            congestion_control: CongestionControl::Cubic,
            mss: 1448,
            header_bytes: 52,
            options_on_wire: true,
            initial_window: 10,
            hystart: true,
            sack: true,
            rack_tlp: true,
            prr: true,
            plain_reno: false,
            nagle: true,
            slow_start_after_idle: true,
            segment_per_write: false,
            awaits_full_window: false,
            acks: AckRule::Adaptive,
            delayed_ack: SimDuration::from_millis(40),
            round_trips: RoundTrips::Measured,
            min_rto: SimDuration::from_millis(200),
            min_rto_is_total: false,
            initial_rto: SimDuration::from_secs(1),
            max_rto: SimDuration::from_secs(120),
            send_buffer: BufferLimits::new(16_384, 4_194_304),
            writable_at_once: false,
            send_memory_per_segment: Self::linux_memory_of_segment(1448),
            receive_buffer: BufferLimits::new(131_072, 32 << 20),
            window_percent: 50,
        }
    }

    /// What the Shadow 3 simulator's own TCP does, to be compared with its results fairly.
    ///
    /// Reno counted in packets without Nagle, RACK, probes or a restart after idleness; segments follow the writes; the advertised window is
    /// the whole buffer. The functions meant below are those of its `src/main/host/descriptor/tcp.c` (version 3.3) unless said otherwise.
    ///
    /// - The window begins with one packet, not ten (`tcp_cong_reno_init` in `tcp_cong_reno.c` overwrites what `ca_reno_init_` sets), and the
    ///   acknowledged SYN, a packet like any other there, makes it two.
    /// - The third duplicate acknowledgement resends one packet and halves the window; the next new one ends recovery, whatever else is lost
    ///   (`ca_reno_fast_recovery_new_ack_ev_`, `retransmit_tally_update`). Several losses in a window therefore often end in a time-out.
    /// - Timestamps are never echoed: `_tcp_processPacket` forgets the one to echo before the interface sends anything
    ///   (`tcp_networkInterfaceIsAboutToSendPacket`). So no round trip is measured and the time-out remains a second.
    /// - `TCP_INFO` counts a segment as unacknowledged once it is written, and `SIOCOUTQNSD` as unsent only what the window holds back
    ///   (`tcp_getInfo`, `tcp_getNotSentBytes`); a writer hears of any room in the buffer (`_tcp_clearRetransmitRange`).
    /// - Acknowledgements wait 1 ms, from the thousandth on 5 ms (`_tcp_processPacket`); `tcp_receiveUserData` sends one when reading has
    ///   opened the window, which `_tcp_autotuneReceiveBuffer` brings about with every read until the buffer is at its maximum.
    pub fn shadow() -> Self {
        Self {
            congestion_control: CongestionControl::Reno,
            mss: 1460,
            header_bytes: 40,
            options_on_wire: false,
            initial_window: 2,
            hystart: false,
            rack_tlp: false,
            prr: false,
            plain_reno: true,
            nagle: false,
            slow_start_after_idle: false,
            segment_per_write: true,
            delayed_ack: SimDuration::from_millis(1),
            acks: AckRule::Timed,
            round_trips: RoundTrips::Never,
            min_rto: SimDuration::from_secs(1),
            min_rto_is_total: true,
            send_buffer: BufferLimits::new(131_072, 4_194_304),
            send_memory_per_segment: 2404,
            receive_buffer: BufferLimits::new(174_760, 6_291_456),
            writable_at_once: true,
            window_percent: 100,
            ..Self::linux()
        }
    }

    /// What the TCP of nstor does, the simulator of the PredicTor paper (on ns-3.29), to be compared with its results fairly.
    ///
    /// Each value is one of nstor's or ns-3's settings, in brackets; the table in the crate's README has all of them with their sources.
    ///
    /// - Full segments of 536 bytes (`SegmentSize`), and 54 bytes of headers: TCP 32 with timestamps, IPv4 20, PPP 2.
    /// - Five segments at first (`InitialCwnd`), then no congestion window: the paper's runs put an empty congestion control in its place.
    /// - No Nagle (`TcpNoDelay`); SACK, timestamps and scaled windows; three duplicates prove a loss; nothing smaller than a segment is sent
    ///   into a window that is smaller.
    /// - Every second segment is acknowledged, or after 200 ms (`DelAckCount`, `DelAckTimeout`); nstor's own changes offer the free receive
    ///   buffer as window and announce it when it has grown by more than a fifth of the buffer.
    /// - A time-out is never below 1 s (`MinRto`), the round trip included.
    /// - Both buffers have 131,072 bytes (`SndBufSize`, `RcvBufSize`) and do not grow; a writer hears of any room.
    pub fn nstor() -> Self {
        Self {
            congestion_control: CongestionControl::Unlimited,
            mss: 536,
            header_bytes: 54,
            initial_window: 5,
            hystart: false,
            rack_tlp: false,
            prr: false,
            nagle: false,
            slow_start_after_idle: false,
            awaits_full_window: true,
            acks: AckRule::Counted,
            delayed_ack: SimDuration::from_millis(200),
            min_rto: SimDuration::from_secs(1),
            min_rto_is_total: true,
            send_buffer: BufferLimits::fixed(131_072),
            writable_at_once: true,
            receive_buffer: BufferLimits::fixed(131_072),
            window_percent: 100,
            ..Self::linux()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand from `tcp_sndbuf_expand` of Linux 6 on a 64-bit machine: 1460 + 640 up to 4096, 548 + 640 up to 2048, 8960 + 640 up to 16,384, and 256 each.
    /// The largest is so large that twice a window of ten holds more than that window.
    #[test]
    fn a_segment_takes_the_memory_that_linux_reckons_with() {
        for (mss, memory) in [(1448, 4352), (536, 2304), (8948, 16_640), (65_483, 131_328)] {
            assert_eq!(TcpConfig::linux_memory_of_segment(mss), memory, "{mss}");
        }
    }
}
