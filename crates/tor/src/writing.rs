//! From the outbuf to the kernel, as TLS records.

use crate::bucket::WAKE_UP;
use crate::channel::Opening;
use crate::ids::EndId;
use crate::world::{Event, World};
use onionlab_engine::HostId;

impl World {
    /// `connection_handle_write`: as many records as the kernel and the write bucket take.
    ///
    /// tor writes at most 32 cells a call and comes back in the next pass of its event loop while the socket stays writable; without a cost
    /// of CPU time all those calls happen in the same instant, and are one here.
    pub(crate) fn write_channel(&mut self, id: EndId) {
        let overhead = self.settings.tls_record_overhead;
        let end = &self.ends[id.index()];
        let (host, socket) = (end.host, end.socket);
        if end.opening != Opening::Open || end.write_blocked {
            return;
        }
        let mut wrote = false;
        while self.ends[id.index()].outbuf.len() > 0 {
            if let Some(buckets) = &mut self.nodes[host.index()].buckets {
                let available = buckets.write.available(self.queue.now());
                if available <= 0 {
                    self.ends[id.index()].write_blocked = true;
                    self.wait_for_tokens(host);
                    break;
                }
            }
            let end = &mut self.ends[id.index()];
            let record = end.outbuf.next_record();
            let taken = self.net.write(&mut self.queue, socket, u64::from(end.outbuf.wire_bytes_left(overhead)));
            if taken == 0 {
                break;
            }
            wrote = true;
            let node = &mut self.nodes[host.index()];
            node.counters.channel_bytes_written += taken;
            if let Some(buckets) = &mut node.buckets {
                buckets.write.charge(taken);
            }
            if !end.outbuf.written(taken as u32, overhead) {
                break;
            }
            end.sent_records.push_back(record as u16);
        }
        // `connection_or_flushed_some`
        if wrote && u64::from(self.ends[id.index()].outbuf.len()) < self.settings.outbuf_low.get() {
            self.wants_writes(id);
        }
    }

    /// All of this node's connections that ran out of tokens try again when the wake-up comes.
    pub(crate) fn wait_for_tokens(&mut self, host: HostId) {
        if let Some(buckets) = &mut self.nodes[host.index()].buckets
            && !buckets.wake_up_pending
        {
            buckets.wake_up_pending = true;
            self.queue.schedule(self.queue.now() + WAKE_UP, host, Event::TokensAgain);
        }
    }

    pub(crate) fn tokens_again(&mut self, host: HostId) {
        let Some(buckets) = &mut self.nodes[host.index()].buckets else { return };
        buckets.wake_up_pending = false;
        for index in 0..self.nodes[host.index()].ends.len() {
            let id = self.nodes[host.index()].ends[index];
            if std::mem::take(&mut self.ends[id.index()].read_blocked) {
                self.read_channel(id);
            }
            if std::mem::take(&mut self.ends[id.index()].write_blocked) {
                self.write_channel(id);
            }
        }
        if let Some(buckets) = &mut self.nodes[host.index()].buckets {
            self.resumed.extend(buckets.waiting_streams.drain(..));
        }
    }
}
