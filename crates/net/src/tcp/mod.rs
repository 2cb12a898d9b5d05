//! TCP without I/O: a state machine that takes segments, instants and byte counts, and returns segments.
//!
//! [`Tcb`] is one end of a connection. It holds no bytes, only counts: sequence numbers are 64-bit offsets from the SYN. The owner carries
//! [`Segment`]s, passes one [`TcpConfig`] to every call, and is told by [`Effects`] what happened. Sending is *pulled*: the host's uplink calls
//! [`Tcb::next_segment`] when its wire is free, so whatever was written meanwhile leaves in full segments, as behind Linux's small queues.
//! Timers are lazy: [`Tcb::deadline`] moves, [`Tcb::on_timer`] may come early and then does nothing.
//!
//! An end takes at most 256 bytes. What is known of segments in flight (`flight`), and of bytes beyond a hole (`reassembly`), lies apart
//! and goes when it is not needed. Without loss each segment is pushed once and popped once; nothing is searched.
//!
//! # What is modelled, what Linux does, what a difference costs
//!
//! | mechanism | source | here | differs from Linux 6.18 in | which costs |
//! | --- | --- | --- | --- | --- |
//! | handshake | RFC 9293, 6298 | SYN again after 1, 2, 4... s, six times; window of 1 after two lost SYNs | no linear retries (6.5), no cookies, no Fast Open, no simultaneous open | nothing between hosts that answer |
//! | closing | RFC 9293 | FIN each way, half-closed ends carry data | `TimeWait` keeps no timer; `close()` is `shutdown(SHUT_WR)`, unread data draws no RST | the owner must drop or abort an end that nobody reads |
//! | slow start | RFC 5681, 3465, 6928 | ten segments; each acknowledged segment adds one | - | - |
//! | HyStart | Ha and Rhee 2011 | acknowledgement trains and delay, from 16 segments | the allowance for offload bursts is always 1 ms (Linux: at most) | slow start ends up to half a millisecond later above 2 Gbit/s |
//! | Reno | RFC 5681 | - | - | - |
//! | CUBIC | RFC 9438 | Reno-friendly region, fast convergence, whole segments; C and cube root in floating point by `libm` | C is 0.4, not 410/1024; instants to 66 us, not to a clock tick | under a percent of window |
//! | unused window | RFC 2861 | halved per time-out of idleness; decays if for a time-out it was neither filled nor anything acknowledged, which hardly happens; grows in slow start only to twice what is used | - | - |
//! | scoreboard | RFC 2018, 6675 | three SACK blocks a segment; without SACK NewReno (RFC 6582) | DSACK for tail loss probes alone, no reneging | a spurious retransmission is only recognised by its timestamp; without SACK nothing remembers `recover`, so that what goes twice after a time-out can look like a loss |
//! | loss detection | RFC 8985 | RACK by send time, reordering window of a quarter of the least round trip until three are SACKed; lost retransmissions found. Off: three SACKed above | the window does not adapt | paths here never reorder |
//! | tail loss probe | RFC 8985 | two round trips + 2 ms, + 200 ms for a single segment; counted as loss unless a duplicate acknowledgement comes | - | - |
//! | recovery | RFC 6937 | proportional, Linux's variant | no ECN, no `CWR` beyond the probe's instant reduction | - |
//! | time-out | RFC 6298 | round trip + at least 200 ms; doubles up to 120 s; 15 in a row reset the connection; what was sent less than a round trip ago is not resent | instants exact, not rounded to a tick of 1 to 4 ms | time-outs come up to a tick sooner |
//! | spurious time-out | RFC 3522 | undone by timestamp | F-RTO (RFC 5682) absent: nothing new is sent to test | after one that was spurious one retransmission more; after a genuine one, with bytes waiting, what else is lost goes a round trip sooner |
//! | timestamps | RFC 7323 | always on, in nanoseconds | Linux: milliseconds; no PAWS | rounds after a retransmission measured better |
//! | Nagle | RFC 896 | Minshall's variant: one short segment in flight at a time | no corking, no `MSG_MORE` | - |
//! | acknowledgements | RFC 1122, 5681 | every second full segment, 16 quick ones, 40 ms or a round trip by arrivals' spacing, with data, at once around a hole, on reading the end of a write (as since Linux 6.7; before, only if it was a short segment) | no compression of SACKs, no merging of arrivals (GRO); delays exact, not up to a tick of 4 ms longer | more, smaller acknowledgements above 1 Gbit/s; ends of writes that wait for each other up to 3 ms sooner (`tests/waiting.rs`) |
//! | receive window | RFC 9293, Fisk and Feng 2001 | half the buffer; right edge never moves back; buffer, up to 32 MiB, doubles with what is read in a round trip (`tcp_rcvbuf_grow` of 6.18) | `rcv_ssthresh` absent: a grown buffer is offered at once; bytes beyond a hole are not charged; no rounding to the scale; the share of a buffer that holds data stays a half, where Linux measures it | the peer's window may open a round trip sooner; while it would open, a reader who is behind acknowledges every segment on Linux |
//! | send buffer | - | twice the window, reckoned at 4352 bytes a segment; the writer is called when a third is free | bytes are charged, not kernel memory | a writer of many tiny pieces gets more room than from Linux |
//! | zero window | RFC 9293 | probes by an old sequence number, backing off | never given up; what does not fit a window is cut to it (Linux waits) | the owner times out; a short segment before a reader who stands still |
//! | offload, pacing | - | absent | Linux sends bursts of up to 64 KiB and paces only with BBR or fq | burstiness below a burst's length |
//! | congestion signals | RFC 3168, 9330 | loss alone | ECN is off by default towards servers | - |
//!
//! [`TcpConfig::shadow`] is Shadow 3's own TCP instead, as far as it matters to tor: the modules `plain` (losses and windows) and
//! `receive::timed` (acknowledgements); `stale` has what Shadow 1.13 does besides. A packet that repeats what was received is acknowledged here, so that nothing can stall; there it is not.
//! [`TcpConfig::nstor`] is the TCP of the PredicTor paper's simulator: no congestion window, and the acknowledgements of `receive::counted`.

mod acknowledge;
mod config;
mod congestion;
pub(crate) mod cubic;
mod cuts;
mod effects;
mod flight;
mod hystart;
mod input;
mod losses;
mod output;
mod plain;
mod reassembly;
mod receive;
mod rtt;
mod segment;
mod stale;
mod tcb;
mod ticks;
mod timer;

#[cfg(test)]
pub(crate) mod tests;

pub use config::{AckRule, BufferLimits, CongestionControl, RoundTrips, TcpConfig};
pub use effects::{Effects, State, TcpInfo};
pub use reassembly::{Arrived, Filled};
pub use segment::{Flags, SackBlock, Segment};
pub use tcb::Tcb;
