//! The handshake (RFC 9000, section 7; RFC 9001, section 4): TLS 1.3 as counts of bytes in CRYPTO frames, two packet number spaces that exist no
//! longer than needed, and the limit on what a server sends to an address that has not answered.

use super::config::QuicConfig;
use super::connection::Role;
use super::packet::{Frame, INITIAL_DATAGRAM, Level, crypto_header};
use super::ranges::RangeSet;
use super::received::Received;
use super::sent::SentPackets;

/// One packet number space.
#[derive(Debug, Clone)]
pub(super) struct Space {
    pub(super) sent: SentPackets,
    pub(super) received: Received,
    /// Probes that are due: packets that go whatever the window says (RFC 9002, section 6.2.4).
    pub(super) probes: u8,
}

impl Space {
    pub(super) fn new() -> Self {
        Self { sent: SentPackets::new(), received: Received::new(), probes: 0 }
    }
}

/// The bytes of TLS at one level, both ways.
#[derive(Debug, Clone, Default)]
pub(super) struct Crypto {
    /// Bytes to be sent altogether, and the next one to be sent for the first time.
    to_send: u16,
    next: u16,
    acked: RangeSet,
    lost: RangeSet,
    /// Bytes that come, and how many have come in order.
    expected: u16,
    received: u16,
    beyond: RangeSet,
}

impl Crypto {
    pub(super) fn has_more(&self) -> bool {
        self.next < self.to_send || !self.lost.is_empty()
    }

    /// A frame of at most `room` bytes, lost ones first.
    pub(super) fn take(&mut self, room: u32) -> Option<Frame> {
        let (start, end) = self.lost.first().unwrap_or((u64::from(self.next), u64::from(self.to_send)));
        let room = room.checked_sub(crypto_header(start as u16))?;
        let len = (end - start).min(u64::from(room));
        if len == 0 {
            return None;
        }
        self.lost.remove(start, start + len);
        self.next = self.next.max((start + len) as u16);
        Some(Frame::Crypto { offset: start as u16, len: len as u16 })
    }

    pub(super) fn on_acked(&mut self, offset: u16, len: u16) {
        let (start, end) = (u64::from(offset), u64::from(offset) + u64::from(len));
        self.acked.insert(start, end);
        self.lost.remove(start, end);
    }

    pub(super) fn on_lost(&mut self, offset: u16, len: u16) {
        let (start, end) = (u64::from(offset), u64::from(offset) + u64::from(len));
        for (start, end) in self.acked.missing(start, end) {
            self.lost.insert(start, end);
        }
    }

    /// Takes bytes; true if with them all have come.
    fn on_received(&mut self, offset: u16, len: u16) -> bool {
        let before = self.received;
        self.beyond.insert(u64::from(offset), u64::from(offset) + u64::from(len));
        self.received = self.beyond.as_slice().first().map_or(0, |first| if first.0 == 0 { first.1 as u16 } else { 0 });
        before < self.expected && self.received == self.expected
    }
}

/// What exists until the handshake is confirmed.
#[derive(Debug, Clone)]
pub(super) struct Early {
    /// Of `Level::Initial` and `Level::Handshake`; `None` once discarded.
    pub(super) spaces: [Option<Space>; 2],
    pub(super) crypto: [Crypto; 2],
    /// Bytes of datagrams received and sent: until the client's address is validated a server sends at most three times what it received.
    pub(super) bytes_received: u64,
    pub(super) bytes_sent: u64,
    pub(super) validated: bool,
    /// The other end's hello has come: Handshake packets can be read and written.
    pub(super) keys: bool,
}

impl Early {
    pub(super) fn new(cfg: &QuicConfig, role: Role) -> Self {
        let mut early = Self {
            spaces: [Some(Space::new()), Some(Space::new())],
            crypto: [Crypto::default(), Crypto::default()],
            bytes_received: 0,
            bytes_sent: 0,
            validated: role == Role::Client,
            keys: false,
        };
        match role {
            Role::Client => {
                early.crypto[0].to_send = cfg.client_hello;
                early.crypto[0].expected = cfg.server_hello;
                early.crypto[1].expected = cfg.server_flight;
            }
            Role::Server => {
                early.crypto[0].expected = cfg.client_hello;
                early.crypto[1].expected = cfg.client_finished;
            }
        }
        early
    }

    /// Whether the server has to wait for the client before it may send another datagram (RFC 9000, section 8.1).
    pub(super) fn is_held_back(&self) -> bool {
        !self.validated && self.bytes_sent + u64::from(INITIAL_DATAGRAM) > 3 * self.bytes_received
    }

    /// Takes handshake bytes; true if with them this end's part of the handshake is complete.
    pub(super) fn on_crypto(&mut self, cfg: &QuicConfig, role: Role, level: Level, offset: u16, len: u16) -> bool {
        if !self.crypto[level as usize].on_received(offset, len) {
            return false;
        }
        match (role, level) {
            (Role::Client, Level::Initial) => self.keys = true,
            (Role::Server, Level::Initial) => {
                self.keys = true;
                self.crypto[0].to_send = cfg.server_hello;
                self.crypto[1].to_send = cfg.server_flight;
            }
            (Role::Client, _) => {
                self.crypto[1].to_send = cfg.client_finished;
                return true;
            }
            (Role::Server, _) => return true,
        }
        false
    }
}
