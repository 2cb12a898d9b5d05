//! Lists that grow at their ends, thousands of them, out of one pool of small chunks.
//!
//! What is written to the ends of thousands of lists and read again much later has to be small and near: the chunk that was emptied last, which is still in
//! the cache, is used first.

use crate::prefetch;

/// Values of a chunk: with sixteen bytes each, four cache lines.
const CHUNK: usize = 16;
const NONE: u32 = u32::MAX;

/// What can be stored in a list.
pub(crate) trait Stored: Copy {
    /// Writes it to its place.
    fn store(self, place: &mut Self);
}

#[derive(Debug)]
#[repr(align(64))]
struct Chunk<T>([T; CHUNK]);

/// A list: a chain of chunks, the one that is being filled first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    head: u32,
    len: u32,
}

impl List {
    pub const EMPTY: Self = Self { head: NONE, len: 0 };

    /// Values in it.
    pub const fn len(self) -> u32 {
        self.len
    }

    /// Values in the first chunk.
    const fn in_head(self) -> usize {
        match self.len as usize % CHUNK {
            0 if self.len > 0 => CHUNK,
            rest => rest,
        }
    }
}

/// The chunks of many lists.
#[derive(Debug)]
pub(crate) struct ChunkPool<T> {
    chunks: Vec<Chunk<T>>,
    /// By chunk: the next of its chain.
    next: Vec<u32>,
    free: Vec<u32>,
}

impl<T> ChunkPool<T> {
    pub const EMPTY: Self = Self { chunks: Vec::new(), next: Vec::new(), free: Vec::new() };
}

impl<T: Stored> ChunkPool<T> {
    /// Puts `value` at the end of `list`.
    #[inline(always)]
    pub fn push(&mut self, list: &mut List, value: T) {
        let place = list.len as usize % CHUNK;
        if place == 0 {
            list.head = self.chunk(list.head, value);
        } else {
            value.store(&mut self.chunks[list.head as usize].0[place]);
        }
        list.len += 1;
    }

    /// A chunk before `next`, with `value` in its first place.
    #[inline(never)]
    fn chunk(&mut self, next: u32, value: T) -> u32 {
        if let Some(id) = self.free.pop() {
            self.chunks[id as usize].0[0] = value;
            self.next[id as usize] = next;
            return id;
        }
        self.chunks.push(Chunk([value; CHUNK]));
        self.next.push(next);
        self.chunks.len() as u32 - 1
    }

    /// The values of a list, in no order.
    pub fn values(&self, list: List) -> impl Iterator<Item = &T> {
        let mut len = list.in_head();
        let mut id = list.head;
        std::iter::from_fn(move || {
            let chunk = self.chunks.get(id as usize)?;
            let values = &chunk.0[..len];
            (id, len) = (self.next[id as usize], CHUNK);
            Some(values)
        })
        .flatten()
    }

    /// Asks for the memory of a list.
    pub fn prefetch(&self, list: List) {
        let mut id = list.head;
        while let Some(chunk) = self.chunks.get(id as usize) {
            prefetch(chunk, size_of::<Chunk<T>>());
            id = self.next[id as usize];
        }
    }

    /// Moves all values of a list to the end of `values`, in no order.
    pub fn drain(&mut self, list: &mut List, values: &mut Vec<T>) {
        let mut len = list.in_head();
        let mut id = list.head;
        while let Some(chunk) = self.chunks.get(id as usize) {
            values.extend_from_slice(&chunk.0[..len]);
            self.free.push(id);
            (id, len) = (self.next[id as usize], CHUNK);
        }
        *list = List::EMPTY;
    }

    /// Moves all values of a list to the end of `values`, in the order in which they came.
    pub fn drain_in_order(&mut self, list: &mut List, values: &mut Vec<T>) {
        let begin = values.len();
        self.drain(list, values);
        // The chain begins with the last chunk, which alone may be part full.
        let values = &mut values[begin..];
        values.reverse();
        values.chunks_mut(CHUNK).for_each(<[T]>::reverse);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Stored for u32 {
        fn store(self, place: &mut Self) {
            *place = self;
        }
    }

    #[test]
    fn lists_of_all_lengths_come_out_in_order() {
        let mut pool = ChunkPool::EMPTY;
        for length in 0..70_u32 {
            let (mut one, mut other) = (List::EMPTY, List::EMPTY);
            for value in 0..length {
                pool.push(&mut one, value);
                pool.push(&mut other, 1000 + value);
            }
            assert_eq!(one.len(), length);
            let mut seen: Vec<_> = pool.values(one).copied().collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..length).collect::<Vec<_>>());
            let mut values = vec![7];
            pool.drain_in_order(&mut one, &mut values);
            assert_eq!(values, std::iter::once(7).chain(0..length).collect::<Vec<_>>());
            values.clear();
            pool.drain(&mut other, &mut values);
            values.sort_unstable();
            assert_eq!(values, (1000..1000 + length).collect::<Vec<_>>());
            assert_eq!((one.len(), other.len()), (0, 0));
        }
        assert!(pool.chunks.len() <= 10, "emptied chunks are used again");
    }
}
