//! The streams of a connection, found by their IDs (RFC 9000, section 2.1: the least significant bit tells who opened a stream).

use super::stream::Stream;
use std::collections::VecDeque;

const NONE: u32 = u32::MAX;

/// Streams that one end opened: where each lies, from the oldest that still exists.
#[derive(Debug, Clone, Default)]
struct Opened {
    oldest: u32,
    places: VecDeque<u32>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Streams {
    places: Vec<Option<Box<Stream>>>,
    free: Vec<u32>,
    /// By the client, by the server.
    opened: [Opened; 2],
}

impl Streams {
    /// The ID of the next stream that this end (0: client, 1: server) opens.
    pub(super) fn next_id(&self, end: u32) -> u32 {
        let opened = &self.opened[end as usize];
        (opened.oldest + opened.places.len() as u32) * 4 + end
    }

    /// Adds a stream whose ID is the next of the end that opened it; returns its place.
    pub(super) fn add(&mut self, stream: Stream) -> u32 {
        assert_eq!(stream.id, self.next_id(stream.id & 1), "streams are opened in the order of their numbers");
        let end = (stream.id & 1) as usize;
        let stream = Some(Box::new(stream));
        let place = if let Some(place) = self.free.pop() {
            self.places[place as usize] = stream;
            place
        } else {
            self.places.push(stream);
            self.places.len() as u32 - 1
        };
        self.opened[end].places.push_back(place);
        place
    }

    /// Where a stream lies; `None` if it is over.
    pub(super) fn place(&self, id: u32) -> Option<u32> {
        let opened = &self.opened[(id & 1) as usize];
        let index = (id / 4).checked_sub(opened.oldest)?;
        opened.places.get(index as usize).copied().filter(|&place| place != NONE)
    }

    pub(super) fn at(&mut self, place: u32) -> &mut Stream {
        self.places[place as usize].as_mut().expect("a place in use")
    }

    pub(super) fn get(&self, id: u32) -> Option<&Stream> {
        self.places[self.place(id)? as usize].as_deref()
    }

    pub(super) fn remove(&mut self, place: u32) {
        let Some(stream) = self.places[place as usize].take() else { return };
        self.free.push(place);
        let opened = &mut self.opened[(stream.id & 1) as usize];
        opened.places[(stream.id / 4 - opened.oldest) as usize] = NONE;
        while opened.places.front() == Some(&NONE) {
            opened.places.pop_front();
            opened.oldest += 1;
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// The places of all streams.
    pub(super) fn all(&self) -> Vec<u32> {
        (0..self.places.len() as u32).filter(|&place| self.places[place as usize].is_some()).collect()
    }
}
