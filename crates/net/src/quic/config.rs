//! What a QUIC end is configured with: one value for a whole network, shared by every connection.

use crate::tcp::BufferLimits;
use onionlab_quantities::SimDuration;

/// The congestion controls on offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuicCongestion {
    /// RFC 9002, section 7: one datagram per round trip, half after a loss.
    NewReno,
    /// RFC 9438, with the arithmetic of this crate's TCP.
    Cubic,
}

/// Every choice that a QUIC end follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuicConfig {
    /// Window growth and reduction.
    pub congestion_control: QuicCongestion,
    /// Spreads a window over the round trip, at 5/4 of its rate and with bursts of at most ten datagrams (RFC 9002, section 7.7). Without, all that
    /// the window allows leaves as fast as the uplink takes it.
    pub pacing: bool,
    /// Payload of a full UDP datagram once the handshake is done, in bytes; 1200..=65527.
    pub max_datagram: u16,
    /// Headers of UDP and IP that each datagram carries on the wire: 28 with IPv4.
    pub datagram_header: u16,
    /// Length of each end's connection IDs, which every packet carries; 0..=20.
    pub connection_id: u8,
    /// Datagrams that a new connection may have in flight (RFC 9002, section 7.2: ten, and at most 14,720 bytes or two datagrams).
    pub initial_window: u32,
    /// Longest that an acknowledgement is withheld (`max_ack_delay`).
    pub max_ack_delay: SimDuration,
    /// After so many packets that ask for it an acknowledgement goes at once (RFC 9000, section 13.2.2: two); at least 1.
    pub ack_every: u32,
    /// Round trip assumed before the first is measured (RFC 9002: `kInitialRtt`).
    pub initial_rtt: SimDuration,
    /// A connection that hears nothing for so long, and for three probe time-outs, is gone (`max_idle_timeout`).
    pub idle_timeout: SimDuration,
    /// The end that opened the connection sends a PING after so long without a packet while streams are open; `None`: never, so that quiet streams
    /// end with their connection.
    pub keep_alive: Option<SimDuration>,
    /// Bytes that a stream's receiver offers beyond what was read; at first, and at most when it tunes itself.
    pub stream_window: BufferLimits,
    /// The same for all streams of a connection together.
    pub connection_window: BufferLimits,
    /// Bytes that a stream's writer may have written and not acknowledged: twice the congestion window, within these limits.
    pub send_buffer: BufferLimits,
    /// TLS's bytes of the first flight (ClientHello with transport parameters).
    pub client_hello: u16,
    /// Of the answer in an Initial packet (ServerHello).
    pub server_hello: u16,
    /// Of the answer in Handshake packets (EncryptedExtensions, Certificate, CertificateVerify, Finished).
    pub server_flight: u16,
    /// Of the flight that ends the handshake (Finished).
    pub client_finished: u16,
}

impl QuicConfig {
    /// The RFCs' recommended values, and where they leave a choice those of implementations that are in wide use.
    ///
    /// - Datagrams of 1452 bytes: where the path search (RFC 8899) of quinn and quic-go ends on a path of 1500 bytes. The search itself, whose
    ///   datagrams up to that are smaller, is not modelled.
    /// - Connection IDs of 8 bytes, as quinn has them; an idle time-out of 30 s, as quinn and quic-go have it, kept off by a PING each 15 s.
    /// - Flow control starts with 512 KiB a stream and 768 KiB a connection and doubles up to 6 MiB and 15 MiB (quic-go, Chromium).
    /// - A handshake of TLS 1.3 with X25519 and one certificate of some 800 bytes.
    pub fn standard() -> Self {
        Self {
            congestion_control: QuicCongestion::NewReno,
            pacing: true,
            max_datagram: 1452,
            datagram_header: 28,
            connection_id: 8,
            initial_window: 10,
            max_ack_delay: SimDuration::from_millis(25),
            ack_every: 2,
            initial_rtt: SimDuration::from_millis(333),
            idle_timeout: SimDuration::from_secs(30),
            keep_alive: Some(SimDuration::from_secs(15)),
            stream_window: BufferLimits::new(512 << 10, 6 << 20),
            connection_window: BufferLimits::new(768 << 10, 15 << 20),
            send_buffer: BufferLimits::new(128 << 10, 4 << 20),
            client_hello: 300,
            server_hello: 123,
            server_flight: 1250,
            client_finished: 36,
        }
    }

    /// Bytes of a full datagram's payload as a window's unit (RFC 9002: `max_datagram_size`).
    pub(super) fn full(&self) -> u64 {
        u64::from(self.max_datagram)
    }

    /// RFC 9002, section 7.2.
    pub(super) fn initial_window_bytes(&self) -> u64 {
        (u64::from(self.initial_window) * self.full()).min((2 * self.full()).max(14_720))
    }

    /// RFC 9002, section 7.2: `kMinimumWindow`.
    pub(super) fn minimum_window(&self) -> u64 {
        2 * self.full()
    }
}
