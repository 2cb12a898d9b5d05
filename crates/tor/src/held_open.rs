//! Exits' connections to servers that are held open until the server has what the client sent before it ended the stream (`hold_open_until_flushed`).
//!
//! Where tokens are limited tor flushes them after each callback of any connection (`close_closeable_connections`): each as much as its share of the bucket is, for which nothing is drawn from
//! it (`conn_close_if_marked`). So they are through with the first callback after a refill, and never wait for tokens with the connections that are in use. Elsewhere they are
//! written as all others are.
//!
//! Left out: that one to which nothing could be written for 15 s is closed all the same (`connection_expire_held_open`).

use crate::circuit::Place;
use crate::event_loop::{Connection, Operation};
use crate::ids::StreamId;
use crate::stream::ExitState;
use crate::world::World;
use onionlab_engine::HostId;

impl World {
    /// END from the client with bytes left for the server (`connection_mark_and_flush`).
    pub(crate) fn hold_open(&mut self, id: StreamId) {
        self.streams[id.index()].exit = ExitState::Flushing;
        let exit = self.host_at(self.streams[id.index()].circuit, Place::Exit);
        if let Some(buckets) = &mut self.nodes[exit.index()].buckets {
            buckets.held_open.push(id);
            self.held_open += 1;
        } else {
            self.start_writing_to_server(id);
        }
    }

    /// Whether it is one that is flushed here, and has no callbacks of its own any more.
    pub(crate) fn is_held_open(&self, id: StreamId) -> bool {
        let stream = &self.streams[id.index()];
        self.held_open > 0 && stream.exit == ExitState::Flushing && {
            let buckets = &self.nodes[self.host_at(stream.circuit, Place::Exit).index()].buckets;
            buckets.as_ref().is_some_and(|buckets| buckets.held_open.contains(&id))
        }
    }

    /// It is closed.
    pub(crate) fn hold_no_longer(&mut self, exit: HostId, id: StreamId) {
        if let Some(buckets) = &mut self.nodes[exit.index()].buckets
            && let Some(place) = buckets.held_open.iter().position(|&other| other == id)
        {
            buckets.held_open.remove(place);
            self.held_open -= 1;
        }
    }

    /// A connection of this node has had a callback.
    #[cold]
    pub(crate) fn flush_held_open(&mut self, exit: HostId) {
        let Some(buckets) = &self.nodes[exit.index()].buckets else { return };
        for id in buckets.held_open.clone() {
            let stream = &self.streams[id.index()];
            let (socket, waiting) = (stream.socket, stream.ends[Place::Exit as usize].outbuf);
            let Some(share) = self.share(exit, Connection::Edge, Operation::Write) else {
                self.block_stream(id, Operation::Write);
                continue;
            };
            let written = self.net.write(&mut self.queue, socket, waiting.min(share));
            self.sampler.bytes_to_servers += written;
            self.streams[id.index()].end(Place::Exit).outbuf -= written;
            if written == waiting {
                self.end_at_exit(id);
            }
        }
    }
}
