//! A stream over a circuit, at both its ends and in the server.

use crate::bucket::{RefillClock, TokenBucket};
use crate::circuit::Place;
use crate::client::Writer;
use crate::event_loop::Operation;
use crate::ids::{CircuitId, TransferId};
use crate::switching::StreamSwitching;
use onionlab_engine::HostId;
use onionlab_flowcontrol::CongestionAlgorithm;
use onionlab_flowcontrol::windows::{DeliverWindow, PackageWindow};
use onionlab_flowcontrol::xon_xoff::{Advice, DeliveringEdge, ReadingEdge};
use onionlab_net::SocketId;
use onionlab_quantities::{Bandwidth, Bytes, SimTime};
use std::collections::VecDeque;

/// The exit's side of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitState {
    /// No BEGIN has arrived.
    None,
    /// TCP to the server is being opened.
    Connecting,
    /// A standby at an exit that is kept: it will take over its stream's connection (module `switching::kept`).
    Waiting,
    Connected,
    /// The client has ended it; what it sent before still goes to the server.
    Flushing,
    /// The stream is ended here.
    Ended,
}

/// Flow control of one end of a stream.
#[derive(Debug, Clone)]
pub(crate) enum StreamControl {
    /// Without congestion control on the circuit.
    Windows { package: PackageWindow, deliver: DeliverWindow },
    /// With it.
    XonXoff(Box<XonXoff>),
    /// Where no window limits downloads, the client's end: a window for what it sends, none for what it receives.
    Sends(PackageWindow),
    /// The exit's end.
    Receives(DeliverWindow),
}

/// XON and XOFF at one end of a stream.
#[derive(Debug, Clone, Default)]
pub(crate) struct XonXoff {
    pub reading: ReadingEdge,
    pub delivering: DeliveringEdge,
    /// The read bucket that an XON with a rate filled in (`edge_connection_t.bucket`).
    bucket: Option<TokenBucket>,
    /// Rates of the XONs that this end has sent and that have not arrived, in kB/s.
    rates_under_way: VecDeque<u32>,
}

/// One end of a stream.
#[derive(Debug, Clone)]
pub(crate) struct StreamEnd {
    pub control: StreamControl,
    /// Bytes read from the program or server and not yet packaged.
    pub inbuf: u64,
    /// Bytes that wait for the program's or server's socket.
    pub outbuf: u64,
    /// Has used up its own bucket, and is not watched for reading until there are tokens again (`read_blocked_on_bw`).
    pub waits_for_tokens: bool,
    /// An event will have it watched.
    pub wake_up_pending: bool,
    /// Is watched for reading though its circuit or window has no room: until it has read, or is stopped again.
    pub reads_once_more: bool,
}

impl StreamEnd {
    pub const fn new(control: StreamControl) -> Self {
        Self { control, inbuf: 0, outbuf: 0, waits_for_tokens: false, wake_up_pending: false, reads_once_more: false }
    }

    /// Whether the window of the stream lets it package; XOFF is looked at after each cell only, as tor does.
    pub fn may_package(&self) -> bool {
        match &self.control {
            StreamControl::Windows { package, .. } | StreamControl::Sends(package) => package.can_send(),
            StreamControl::XonXoff(_) | StreamControl::Receives(_) => true,
        }
    }

    /// A cell was packaged; false if no more may follow it (`sendme_note_stream_data_packaged`).
    pub fn packaged(&mut self, now: SimTime) -> bool {
        match &mut self.control {
            StreamControl::Windows { package, .. } | StreamControl::Sends(package) => {
                package.data_sent(now);
                true
            }
            StreamControl::XonXoff(edge) => edge.reading.may_read(),
            StreamControl::Receives(_) => true,
        }
    }

    /// Whether XOFF has stopped it.
    pub fn is_stopped(&self) -> bool {
        matches!(&self.control, StreamControl::XonXoff(edge) if !edge.reading.may_read())
    }

    /// Whether it may read from its program or server.
    pub fn may_read(&self) -> bool {
        match &self.control {
            StreamControl::Windows { package, .. } | StreamControl::Sends(package) => package.can_send(),
            StreamControl::XonXoff(edge) => edge.reading.may_read(),
            StreamControl::Receives(_) => true,
        }
    }

    /// What its own bucket lets it read now; none if it has no limit.
    pub fn tokens(&mut self, now: SimTime) -> Option<i64> {
        match &mut self.control {
            StreamControl::Windows { .. } | StreamControl::Sends(_) | StreamControl::Receives(_) => None,
            StreamControl::XonXoff(edge) => edge.bucket.as_mut().map(|bucket| bucket.available(Operation::Read, now)),
        }
    }

    /// Whether its own bucket is used up (`connection_consider_empty_read_buckets`). One that XOFF has stopped goes on with XON, tokens or not (`connection_read_bw_exhausted`).
    pub fn has_used_up_tokens(&self) -> bool {
        let StreamControl::XonXoff(edge) = &self.control else { return false };
        edge.reading.may_read() && edge.bucket.as_ref().is_some_and(|bucket| bucket.is_used_up(Operation::Read))
    }

    /// It read `bytes`.
    pub fn charge(&mut self, bytes: u64) {
        if let StreamControl::XonXoff(edge) = &mut self.control
            && let Some(bucket) = &mut edge.bucket
        {
            bucket.charge(Operation::Read, bytes);
        }
    }
}

impl XonXoff {
    /// Remembers what an XON that is sent now carries.
    pub fn note_sent(&mut self, advice: Advice) {
        if let Advice::Xon { kilobytes_per_second } = advice {
            self.rates_under_way.push_back(kilobytes_per_second);
        }
    }

    /// What the oldest XON under way carries.
    pub fn next_rate(&mut self) -> u32 {
        self.rates_under_way.pop_front().unwrap_or(0)
    }

    /// Advice arrived: `circuit_process_stream_xoff`, `circuit_process_stream_xon`.
    pub fn advised(&mut self, advice: Advice, clock: RefillClock) {
        self.reading.advised(advice);
        if advice == Advice::Xoff {
            return;
        }
        let rate = self.reading.rate();
        if rate == Bandwidth::UNLIMITED {
            self.bucket = None;
            return;
        }
        let burst = Bytes::new(rate.as_bytes_per_sec());
        match &mut self.bucket {
            Some(bucket) => bucket.adjust(rate, burst),
            none => *none = Some(TokenBucket::new(rate, burst, clock)),
        }
    }
}

/// What an exit's connection to a server is not watched for until its relay's tokens are back (`read_blocked_on_bw`, `write_blocked_on_bw`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Blocked {
    pub reading: bool,
    pub writing: bool,
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub circuit: CircuitId,
    /// What the client's program uses it for.
    pub transfer: TransferId,
    pub server: HostId,
    /// Bytes that the server waits for before it writes anything.
    pub awaited: u64,
    /// Bytes that the server has written or is about to write.
    pub size: u64,
    /// Those of them that it writes first, in a write of their own.
    pub header: u64,
    /// The server writes at times of its own.
    pub writer: Option<Box<Writer>>,
    /// The client's end and the exit's.
    pub ends: [StreamEnd; 2],
    /// Bytes that the server has received, and written.
    pub request_received: u64,
    pub answer_written: u64,
    pub exit: ExitState,
    /// Behind an onion service, where the server is on the exit's host: what it has written and the service's tor has not read.
    pub unread: Option<u64>,
    /// The exit's socket; the server's is its peer.
    pub socket: SocketId,
    pub server_closed: bool,
    /// The server's patience.
    pub patience: Patience,
    /// The exit's connection to the server has found no tokens.
    pub blocked: Blocked,
    /// The circuit, closed at the exit by now, whose entry stays until what the exit holds for the server is flushed.
    pub outlives: CircuitId,
    /// The client ended it.
    pub client_ended: bool,
    /// Cells that name this stream and exist.
    pub live_cells: u32,
    /// Its part in active circuit switching.
    pub switching: StreamSwitching,
}

/// A server that gives a stream up on which nothing happens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// It has received or written something last.
    pub progress: SimTime,
    /// When it looks next whether that was too long ago.
    pub look_at: SimTime,
    /// It has closed the connection.
    pub is_over: bool,
}

impl Patience {
    /// Nothing has happened yet, and until it does nothing is looked for.
    pub const NEW: Self = Self { progress: SimTime::ZERO, look_at: SimTime::MAX, is_over: false };
}

impl Stream {
    pub fn end(&mut self, place: Place) -> &mut StreamEnd {
        &mut self.ends[place as usize]
    }

    /// Whether this end is open: cells for it are looked at, its bytes are packaged.
    pub fn is_open(&self, place: Place) -> bool {
        match place {
            Place::Client => !self.client_ended,
            Place::Exit => self.exit == ExitState::Connected,
        }
    }
}
