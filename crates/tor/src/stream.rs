//! A stream: one download of one client over one circuit.

use crate::circuit::Edge;
use crate::ids::CircuitId;
use onionlab_engine::HostId;
use onionlab_net::SocketId;

/// The exit's side of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitState {
    /// No BEGIN has arrived.
    None,
    /// TCP to the server is being opened.
    Connecting,
    Connected,
    /// The stream is ended here.
    Ended,
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub circuit: CircuitId,
    pub server: HostId,
    /// Bytes that the client asks with, and that the server answers with.
    pub request: u64,
    /// Bytes of the request that the client has not sent yet.
    pub request_unsent: u64,
    pub size: u64,
    pub client_edge: Edge,
    pub exit_edge: Edge,
    /// Bytes of the request that the server has; of the answer that it has written.
    pub request_received: u64,
    pub answer_written: u64,
    pub exit: ExitState,
    /// The exit's socket; the server's is its peer.
    pub socket: SocketId,
    /// Bytes that the exit has read from the server and not yet packaged.
    pub inbuf: u64,
    /// Bytes from the client that wait for the server's socket.
    pub outbuf: u64,
    pub server_closed: bool,
    /// The client ended it.
    pub client_ended: bool,
    /// Cells that name this stream and exist.
    pub live_cells: u32,
}
