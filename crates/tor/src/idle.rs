//! Channels without circuits are closed after a while (`run_connection_housekeeping`).
//!
//! Each end looks once a second, by a clock of whole seconds, whether a circuit is attached to either end, and closes the channel when none has been for as long as the end has
//! chosen when the channel opened: 3 to 4.5 minutes where one end is a client, 45 to 75 minutes between relays, or what the consensus says
//! (`channelpadding_get_channel_idle_timeout`; 0.2.4: three minutes for all). Here an end has at most one event for it, when its time may be over. A channel that waits to be accepted
//! is given up after five minutes.
//!
//! Deviations: both ends close in the same instant, where tor's peer learns it from TCP half a round trip later; 0.2.4 counts from the last cell that the end sent, which is
//! here the end of its last circuit.

use crate::channel::{self, ChannelKind, Opening};
use crate::ids::EndId;
use crate::node::Role;
use crate::records::ChannelClose;
use crate::world::{Event, World};
use onionlab_quantities::{SimDuration, SimTime};

/// How long a channel stays open without circuits, in whole seconds: `least`, and less than `spread` more, drawn for each end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleTimeout {
    /// The shortest time.
    pub least: u32,
    /// One more than what may come on top; zero and one: nothing.
    pub spread: u32,
}

/// The time-outs of channels without circuits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleChannels {
    /// Between a client and its guard.
    pub clients: IdleTimeout,
    /// Between relays.
    pub relays: IdleTimeout,
}

const SECOND: u64 = 1_000_000_000;
/// Within which a connection has to be open (`KeepalivePeriod`).
const KEEPALIVE: SimDuration = SimDuration::from_secs(300);

impl World {
    /// This end has just opened, or lost its last circuit.
    pub(crate) fn has_no_circuits(&mut self, id: EndId) {
        if self.ends[id.index()].opening != Opening::Open {
            return;
        }
        let kind = self.channel_logs[id.channel()].kind;
        if kind.is_of_one_circuit() {
            return self.may_part(id);
        }
        if kind == ChannelKind::Control {
            // It goes with its circuit's.
            return;
        }
        let Some(timeout) = self.idle_timeout(id) else { return };
        let second = self.queue.now().as_nanos() / SECOND;
        let idle = &mut self.channel_logs[id.channel()].idle[id.side()];
        idle.since = second as u32;
        if !idle.watched {
            idle.watched = true;
            self.look_again(id, timeout);
        }
    }

    /// The channel that this end has opened is not accepted yet: if it is not open in time, it is closed.
    pub(crate) fn expire_unless_open(&mut self, id: EndId) {
        self.channel_logs[id.channel()].idle[id.side()].watched = true;
        self.queue.schedule(self.queue.now() + KEEPALIVE, self.ends[id.index()].host, Event::IdleCheck(id));
    }

    /// Closes the channel if this end has had no circuit for its time, or is not open in time.
    pub(crate) fn check_idle(&mut self, id: EndId) {
        let opening = self.ends[id.index()].opening;
        if !matches!(opening, Opening::Open | Opening::Closed) {
            self.channel_logs[id.channel()].idle[id.side()].watched = false;
            return self.close_channel(id, ChannelClose::Lost);
        }
        let Some(timeout) = self.idle_timeout(id) else {
            self.channel_logs[id.channel()].idle[id.side()].watched = false;
            return self.free_channel(id);
        };
        let second = self.queue.now().as_nanos() / SECOND;
        let log = &self.channel_logs[id.channel()];
        // Where each end chooses the channel that it sends a circuit on, one may use it and the other not.
        let used = [id, id.peer()].iter().any(|end| self.ends[end.index()].has_circuits()) || log.streams > 0;
        let open = opening == Opening::Open;
        let idle = &mut self.channel_logs[id.channel()].idle[id.side()];
        if !open || used {
            idle.watched = false;
            self.free_channel(id);
        } else if u64::from(idle.since + timeout) <= second {
            idle.watched = false;
            self.close_channel(id, ChannelClose::Idle);
        } else {
            self.look_again(id, timeout);
        }
    }

    fn look_again(&mut self, id: EndId, timeout: u32) {
        let due = u64::from(self.channel_logs[id.channel()].idle[id.side()].since + timeout);
        let due = SimTime::ZERO + SimDuration::from_secs(due);
        self.queue.schedule(due, self.ends[id.index()].host, Event::IdleCheck(id));
    }

    /// What this end has chosen: the same under every treatment for the same two hosts.
    fn idle_timeout(&self, id: EndId) -> Option<u32> {
        let idle = self.settings.idle_channels?;
        let hosts = [id, id.peer()].map(|end| self.ends[end.index()].host);
        let of_client = hosts.iter().any(|host| self.nodes[host.index()].role == Role::Client);
        let timeout = if of_client { idle.clients } else { idle.relays };
        let more = self.idle_times.at(channel::directed_pair(hosts[0], hosts[1])).below(u64::from(timeout.spread));
        Some(timeout.least + more as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench_relay::Bench;
    use crate::settings::Settings;

    fn second(second: u32) -> SimTime {
        SimTime::ZERO + SimDuration::from_secs(u64::from(second))
    }

    fn closings(bench: &mut Bench) -> Vec<(u32, SimTime)> {
        let records = bench.world.take_records().channels.into_iter();
        let closed: Vec<_> = records.map(|channel| (channel.channel, channel.closed.unwrap(), channel.reason)).collect();
        assert!(closed.iter().all(|&(.., reason)| reason == Some(ChannelClose::Idle)));
        closed.into_iter().map(|(channel, closed, _)| (channel, closed)).collect()
    }

    /// Two hundred channels between relays, opened in the first second: each is closed in the whole second in which the time of the end that chose the shorter one is over.
    /// The shorter of two draws from 45 to 75 minutes is 55 minutes on average, and within half a minute of it for 200 of them (four standard errors are two).
    #[test]
    fn a_channel_between_relays_without_circuits_is_closed_after_45_to_75_minutes() {
        let mut bench = Bench::new(Settings::default(), 200);
        let chosen: Vec<u32> = bench
            .ends
            .iter()
            .map(|&end| [end, end.peer()].map(|end| bench.world.idle_timeout(end).unwrap()).into_iter().min().unwrap())
            .collect();
        assert!(chosen.iter().all(|time| (2700..4500).contains(time)));
        let mean = f64::from(chosen.iter().sum::<u32>()) / 200.0;
        assert!((mean - 3300.0).abs() < 120.0, "{mean} s on average");
        bench.advance_to(second(5000));
        let mut closed = closings(&mut bench);
        closed.sort_unstable();
        let expected: Vec<_> = chosen.iter().zip(0..).map(|(&time, channel)| (channel, second(time))).collect();
        assert_eq!(closed, expected);
    }

    /// A circuit keeps its channel open; the time counts from the second in which it ended. The channel that is opened next is another one.
    #[test]
    fn the_time_counts_from_the_end_of_the_last_circuit() {
        let mut bench = Bench::new(Settings::default(), 1);
        let (end, circuit) = (bench.ends[0], bench.circuit(0));
        bench.advance_to(second(6000) + SimDuration::from_millis(300));
        assert_eq!(closings(&mut bench), []);
        bench.world.close_at(circuit, 1, None);
        let due = second(6000 + bench.world.idle_timeout(end).unwrap());
        bench.world.run_until(due + SimDuration::from_secs(1));
        assert_eq!(closings(&mut bench), [(0, due)]);
        let again = bench.world.channel_between(Bench::RELAY, bench.world.ends[end.peer().index()].host).unwrap();
        assert_eq!(bench.world.channel_logs[again.channel()].number, 1);
    }

    #[test]
    fn without_a_time_out_channels_stay() {
        let mut bench = Bench::new(Settings { idle_channels: None, ..Settings::default() }, 3);
        bench.advance_to(second(100_000));
        assert_eq!(closings(&mut bench), []);
    }
}
