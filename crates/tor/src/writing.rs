//! From the outbuf to the kernel, as TLS records.

use crate::channel::Opening;
use crate::circuit::Place;
use crate::event_loop::{Connection, Operation};
use crate::ids::EndId;
use crate::world::{Event, World};
use onionlab_engine::HostId;

impl World {
    /// One write callback of a channel, or a write that KIST asks for (`connection_handle_write`): its share of bytes as records, as far as the
    /// kernel takes them. If some are left and the kernel takes more, the socket is ready again.
    pub(crate) fn write_channel(&mut self, id: EndId) {
        let (chunk, tls) = (self.settings.piece(), self.settings.tls);
        let end = &self.ends[id.index()];
        let (host, socket) = (end.host, end.socket);
        if end.opening != Opening::Open || end.write_blocked || end.outbuf.len() == 0 {
            return;
        }
        let Some(share) = self.share(host, Connection::Channel, Operation::Write) else {
            self.ends[id.index()].write_blocked = true;
            self.wait_for_tokens(host);
            return;
        };
        let before = self.ends[id.index()].outbuf.len();
        let mut left = share.min(u64::from(before)) as u32;
        let mut written = 0;
        while left > 0 {
            let end = &mut self.ends[id.index()];
            let record = end.outbuf.next_record(left, chunk);
            let wire = tls.record(record);
            let taken = self.net.write(&mut self.queue, socket, u64::from(end.outbuf.wire_bytes_left(wire)));
            written += taken;
            if !end.outbuf.written(taken as u32, record, wire, chunk) {
                break;
            }
            self.sent.push_record(&mut end.sent, record as u16);
            left = left.saturating_sub(record);
        }
        self.nodes[host.index()].counters.channel_bytes_written += written;
        if self.switching.is_some() {
            self.note_drained(id);
        }
        self.charge(host, Connection::Channel, Operation::Write, written);
        if self.latency.is_some() {
            self.note_written(id, before, self.ends[id.index()].outbuf.len());
        }
        // `connection_or_flushed_some`; without a scheduler it fills the outbuf here and now.
        let low = self.settings.scheduling_at(&self.nodes[host.index()]).outbuf_low;
        if written > 0 && u64::from(self.ends[id.index()].outbuf.len()) < low.get() {
            self.wants_writes(id);
        }
        self.watch_channel_writing(id);
    }

    /// All of this node's connections that ran out of tokens try again when the wake-up comes.
    pub(crate) fn wait_for_tokens(&mut self, host: HostId) {
        if let Some(buckets) = &mut self.nodes[host.index()].buckets
            && !buckets.wake_up_pending
        {
            buckets.wake_up_pending = true;
            let again = buckets.wake_up(self.queue.now());
            self.queue.schedule(again, host, Event::TokensAgain);
        }
    }

    pub(crate) fn tokens_again(&mut self, host: HostId) {
        let Some(buckets) = &mut self.nodes[host.index()].buckets else { return };
        buckets.wake_up_pending = false;
        for index in 0..self.nodes[host.index()].ends.len() {
            let id = self.nodes[host.index()].ends[index];
            if std::mem::take(&mut self.ends[id.index()].read_blocked) {
                self.watch_channel_reading(id);
            }
            if std::mem::take(&mut self.ends[id.index()].write_blocked) {
                self.watch_channel_writing(id);
            }
        }
        let Some(buckets) = &mut self.nodes[host.index()].buckets else { return };
        let (readers, writers) = (std::mem::take(&mut buckets.waiting_streams), std::mem::take(&mut buckets.waiting_writers));
        for stream in readers {
            self.resume_reading(stream, Place::Exit);
        }
        for stream in writers {
            self.resume_writing(stream);
        }
    }
}
