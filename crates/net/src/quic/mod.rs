//! QUIC without I/O (RFC 9000, 9001, 9002): a state machine that takes packets, instants and byte counts, and returns packets.
//!
//! [`Connection`] is one end of a connection with all its streams. It holds no bytes, only counts. The owner carries [`Packet`]s (each a datagram
//! with the packets in it), passes one [`QuicConfig`] to every call, and is told what happened to which stream. Sending is *pulled*, as with this crate's TCP:
//! the host's uplink calls [`Connection::next_packet`] when its wire is free. Timers are lazy.
//!
//! The names of RFC 9002's pseudo-code stand beside the functions that do what it says.
//!
//! | mechanism | source | here | left out | which costs |
//! | --- | --- | --- | --- | --- |
//! | handshake | RFC 9000, 7, 8.1, 14.1; 9001, 4 | one round trip; three packet number spaces, coalesced packets, padding to 1200 bytes, anti-amplification limit, keys discarded when the RFC says | 0-RTT, Retry, version negotiation, buffering of packets that cannot be read yet | a packet that overtakes the flight before it goes again |
//! | packet numbers, headers | 9000, 12.3, 17 | never reused; one to four bytes on the wire; short header, connection ID, tag of 16 bytes | connection IDs do not change, keys neither | nothing between hosts that stay where they are |
//! | streams | 9000, 2, 3, 19 | both directions, FIN, RESET_STREAM, STOP_SENDING; turns by the packet, lost bytes first | MAX_STREAMS: there is no limit to their number; priorities; unidirectional ones | - |
//! | flow control | 9000, 4 | by stream and connection, growing as in quic-go | the BLOCKED frames, which only inform | - |
//! | acknowledgements | 9000, 13.2 | every second packet, at once out of order, 25 ms at most, up to 32 ranges | a PING for the sake of old ranges; ECN | an acknowledgement may repeat old ranges for longer |
//! | round trip | 9002, 5 | as there | - | - |
//! | loss detection | 9002, 6, A | three later packets, 9/8 of a round trip; probe time-outs with two probes | spurious losses are not undone | reordering beyond the thresholds halves the window |
//! | congestion | 9002, 7, B; 9438 | NewReno; CUBIC with this crate's TCP arithmetic; recovery period, persistent congestion; a window that is not filled does not grow (Chromium's rule) | HyStart++ (RFC 9406) | slow start overshoots as Reno's does |
//! | pacing | 9002, 7.7 | 5/4 of a window a round trip, bursts of ten datagrams | - | - |
//! | closing | 9000, 10 | idle time-out, CONNECTION_CLOSE, an answer to whoever still sends to a closed connection | the three probe time-outs of closing and draining | - |
//! | datagram size | 9000, 14; 8899 | 1200 bytes in the handshake, then the configured size | the search for it | the first packets of a connection are larger than they would be |

mod calls;
mod config;
mod congestion;
mod connection;
mod handshake;
mod info;
mod input;
mod output;
mod packet;
mod ranges;
mod received;
mod rtt;
mod sent;
mod stream;
mod table;
mod timer;
mod window;

#[cfg(test)]
mod tests;

pub use config::{QuicConfig, QuicCongestion};
pub use connection::{Connection, ConnectionState, Role};
pub use info::ConnectionInfo;
pub use packet::{Frame, Level, More, Packet};
