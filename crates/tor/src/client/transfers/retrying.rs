//! What becomes of a client's streams that are refused, get no answer in time or lose their circuit: they fail, or look for another (`core/or/connection_edge.c`).

use super::State;
use crate::cell::Cell;
use crate::circuit::Place;
use crate::edge::NO_RESOURCES;
use crate::ids::{CircuitId, StreamId, TransferId};
use crate::records::Outcome;
use crate::world::{Event, World};
use onionlab_quantities::SimTime;

impl World {
    /// END from the exit: the server closed or refused. If the stream was not open yet, another circuit is tried (`connection_ap_process_end_not_open`).
    pub(crate) fn end_at_client(&mut self, cell: Cell) {
        let Some(id) = self.transfer_of(cell) else {
            self.standby_ended(cell.stream);
            return;
        };
        match self.transfers[id.index()].state {
            State::Open if self.streams[cell.stream.index()].switching.broken => self.start_over(id),
            State::Open => self.finish_transfer(id, Outcome::CircuitClosed),
            State::Waits | State::Connects { .. } => {
                let full = cell.length == NO_RESOURCES && {
                    let (client, port) = (self.transfers[id.index()].client, self.transfers[id.index()].port);
                    let exit = self.circuits[cell.circuit.index()].last_relay();
                    self.exit_refuses(client, exit, port)
                };
                if full {
                    // The circuit stays as it is, and the try does not count (`END_STREAM_REASON_RESOURCELIMIT` there).
                    self.look_elsewhere(id);
                } else {
                    self.try_elsewhere(id);
                }
            }
        }
    }

    /// The stream leaves its circuit, which takes no new ones any more, and looks for another.
    fn try_elsewhere(&mut self, id: TransferId) {
        let stream = self.transfers[id.index()].stream;
        let circuit = self.streams[stream.index()].circuit;
        let transfer = &mut self.transfers[id.index()];
        transfer.retries = transfer.retries.saturating_add(1);
        self.mark_unusable(circuit);
        self.look_elsewhere(id);
    }

    /// The stream leaves its circuit and looks for another, unless it is too old for one (`connection_ap_handshake_attach_circuit`).
    fn look_elsewhere(&mut self, id: TransferId) {
        self.leave_circuit(id);
        let transfer = &mut self.transfers[id.index()];
        transfer.state = State::Waits;
        self.sampler.bytes_tried_again += transfer.written - transfer.unread;
        transfer.unread = transfer.written;
        let patience = self.clients[transfer.client.index()].config.options.socks_timeout;
        if transfer.began + patience <= self.queue.now() {
            self.finish_transfer(id, Outcome::NoCircuit);
            return;
        }
        self.arm_check(id);
        self.needs_circuit(id);
    }

    /// The program goes on with this stream of another circuit, which is connected.
    pub(crate) fn goes_on_with(&mut self, id: TransferId, stream: StreamId) {
        let circuit = self.streams[stream.index()].circuit;
        let transfer = &mut self.transfers[id.index()];
        transfer.stream = stream;
        transfer.circuit = Some(self.serials[circuit.index()]);
        let connects = std::mem::replace(&mut transfer.state, State::Open) != State::Open;
        if connects {
            transfer.connected.get_or_insert(self.queue.now());
            if !self.settings.optimistic_data {
                self.begin_program(id);
            }
        }
    }

    /// A switch has failed under the stream: the program begins anew over another circuit.
    pub(crate) fn start_over(&mut self, id: TransferId) {
        let now = self.queue.now();
        let stream = self.transfers[id.index()].stream;
        let transfer = &self.transfers[id.index()];
        let packaged = transfer.written - transfer.unread - self.streams[stream.index()].ends[Place::Client as usize].inbuf;
        self.count_start_over(stream, transfer.received + packaged);
        self.leave_circuit(id);
        let transfer = &mut self.transfers[id.index()];
        transfer.retries = transfer.retries.saturating_add(1);
        transfer.state = State::Waits;
        (transfer.received, transfer.progress, transfer.began) = (0, now, now);
        if self.settings.optimistic_data {
            self.begin_program(id);
        } else {
            // It begins when the new stream is connected; until then there is nothing to read from it.
            (transfer.written, transfer.unread, transfer.writer) = (0, 0, None);
        }
        self.arm_check(id);
        self.needs_circuit(id);
    }

    /// The circuit is gone, and with it its streams (`connection_edge_destroy`).
    pub(crate) fn fail_streams(&mut self, circuit: CircuitId) {
        for stream in std::mem::take(&mut self.circuits[circuit.index()].client_streams) {
            // What follows from the end of one stream may already have used the place of another for a new one.
            if self.streams[stream.index()].circuit == circuit
                && let Some(id) = self.open_transfer(stream)
            {
                if self.failed_by_switching(circuit) {
                    self.start_over(id);
                } else {
                    self.finish_transfer(id, Outcome::CircuitClosed);
                }
            }
        }
    }

    pub(super) fn arm_check(&mut self, id: TransferId) {
        let transfer = &mut self.transfers[id.index()];
        let config = &self.clients[transfer.client.index()].config;
        let due = transfer.due(config);
        if due < transfer.check_at {
            transfer.check_at = due;
            self.queue.schedule(due, config.host, Event::TransferCheck(id));
        }
    }

    /// Looks whether the transfer has waited too long for something, and if not, when to look again.
    pub(crate) fn check_transfer(&mut self, id: TransferId) {
        let now = self.queue.now();
        let Some(transfer) = self.transfers.get_mut(id.index()) else { return };
        if transfer.check_at > now {
            return;
        }
        transfer.check_at = SimTime::MAX;
        let config = &self.clients[transfer.client.index()].config;
        let (stall, given_up) = (config.stall, transfer.tor_gives_up(config) <= now);
        if transfer.start + transfer.timeout <= now {
            self.finish_transfer(id, Outcome::Timeout);
        } else if transfer.progress + stall <= now {
            self.finish_transfer(id, Outcome::Stall);
        } else if !given_up {
            self.arm_check(id);
        } else if transfer.state == State::Waits {
            self.finish_transfer(id, Outcome::NoCircuit);
        } else if transfer.service.is_some() {
            // A service that does not answer is not asked again (`connection_ap_expire_beginning`).
            self.finish_transfer(id, Outcome::Timeout);
        } else {
            self.try_elsewhere(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::ClientConfig;
    use crate::settings::Settings;
    use crate::test_world::{at, in_a_row};
    use onionlab_quantities::{Bandwidth, SimDuration};

    /// tor's seconds come 300 ms after those of the clock on the wall. A BEGIN of 20.0 s has waited ten seconds by that clock at 30.3 s, one of 20.9 s as well, and one of 21.0 s a second later;
    /// with seconds that come with the clock's, 300 ms earlier.
    #[test]
    fn whole_seconds_are_those_of_the_wall() {
        let world = in_a_row(Settings::default(), Bandwidth::UNLIMITED, "kind = \"bulk\"\nsize = \"1 MB\"");
        let mut config = world.clients[0].config.clone();
        let over = |config: &ClientConfig, since: u64| config.second_past(at(since), SimDuration::from_secs(10));
        config.boot = at(5_300);
        assert_eq!([20_000, 20_900, 21_000].map(|since| over(&config, since)), [30_300, 30_300, 31_300].map(at));
        config.boot = at(5_000);
        assert_eq!([20_000, 20_900, 21_000].map(|since| over(&config, since)), [30_000, 30_000, 31_000].map(at));
    }

    /// A reply that is waited for since the tenth second is given up in the twentieth; the program's write in the twelfth has tor wait until the twenty-second.
    #[test]
    fn tor_waits_longer_for_a_program_that_writes() {
        let mut world = in_a_row(Settings::default(), Bandwidth::UNLIMITED, "kind = \"bulk\"\nsize = \"100 MB\"");
        world.run_until(at(12_000));
        let id = StreamId(0);
        let transfer = world.streams[0].transfer.index();
        world.transfers[transfer].state = State::Connects { since: at(10_000) };
        let given_up = |world: &World| world.transfers[transfer].tor_gives_up(&world.clients[0].config);
        world.read_program(id);
        assert_eq!(given_up(&world), at(20_000), "there was nothing to read");
        world.transfers[transfer].writes(1000);
        world.read_program(id);
        assert_eq!((world.transfers[transfer].unread(), given_up(&world)), (0, at(22_000)));
    }
}
