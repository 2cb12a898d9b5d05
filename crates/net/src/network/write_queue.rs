//! Sockets that wait for an uplink in the order of their writes, as Shadow 1.13 keeps them (`shd-priority-queue.c`, `shd-network-interface.c`).
//!
//! A binary heap whose keys are the numbers of the packets that the sockets would send first. A socket that waits already may come to owe an acknowledgement, which has no
//! number and goes before its data: its key becomes nothing then, but nobody moves it (`networkinterface_wantsSend`). It rises only when a place above it
//! becomes free, and so leaves somewhat after the sockets above it, before what it would have waited for. Of two equal keys the later one goes first.

use super::SocketId;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct WriteQueue {
    heap: Vec<(u64, SocketId)>,
}

impl WriteQueue {
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// The socket that goes first.
    pub fn first(&self) -> Option<&SocketId> {
        self.heap.first().map(|(_, socket)| socket)
    }

    /// `priorityqueue_push`
    pub fn push(&mut self, key: u64, socket: SocketId) {
        self.heap.push((key, socket));
        let mut index = self.heap.len() - 1;
        while index > 0 && self.is_smaller(index, (index - 1) / 2) {
            self.heap.swap(index, (index - 1) / 2);
            index = (index - 1) / 2;
        }
    }

    /// `priorityqueue_pop`
    pub fn pop(&mut self) -> Option<SocketId> {
        let first = *self.first()?;
        self.heap.swap_remove(0);
        let mut index = 0;
        loop {
            let mut child = 2 * index + 1;
            if child + 1 < self.heap.len() && self.is_smaller(child + 1, child) {
                child += 1;
            }
            if child >= self.heap.len() || !self.is_smaller(child, index) {
                return Some(first);
            }
            self.heap.swap(index, child);
            index = child;
        }
    }

    /// A socket that waits here has come to have something to send that has no number. It stays where it is.
    pub fn note_unnumbered(&mut self, socket: SocketId) {
        if let Some(entry) = self.heap.iter_mut().find(|entry| entry.1 == socket) {
            entry.0 = 0;
        }
    }

    /// `_networkinterface_compareSocket` calls the first of two equal ones smaller.
    fn is_smaller(&self, index: usize, than: usize) -> bool {
        self.heap[index].0 <= self.heap[than].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(queue: &mut WriteQueue) -> Vec<u32> {
        std::iter::from_fn(|| queue.pop()).map(|socket| socket.0).collect()
    }

    fn of(keys: &[u64]) -> WriteQueue {
        let mut queue = WriteQueue::default();
        for &key in keys {
            queue.push(key, SocketId(key as u32));
        }
        queue
    }

    #[test]
    fn what_was_written_first_goes_first() {
        assert_eq!(all(&mut of(&[5, 3, 8, 1, 9, 2, 7])), [1, 2, 3, 5, 7, 8, 9]);
        let mut equal = WriteQueue::default();
        for socket in 1..=3 {
            equal.push(0, SocketId(socket));
        }
        assert_eq!(equal.first(), Some(&SocketId(3)), "the latest of equal ones");
    }

    /// In the heap [1, 2, 3, 4, 5, 6, 7, 8, 9] the sixth and the seventh lie below the third. Of two that come to owe something the sixth rises when the third has left, and the
    /// ninth when it is the last leaf, which goes to the top at once and stays there.
    #[test]
    fn a_socket_that_comes_to_owe_an_acknowledgement_leaves_after_those_above_it() {
        let nine = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        let mut queue = of(&nine);
        queue.note_unnumbered(SocketId(6));
        assert_eq!(all(&mut queue), [1, 2, 3, 6, 4, 5, 7, 8, 9]);
        let mut queue = of(&nine);
        queue.note_unnumbered(SocketId(9));
        assert_eq!(all(&mut queue), [1, 9, 2, 3, 4, 5, 6, 7, 8]);
        let mut alone = of(&[1, 2]);
        alone.note_unnumbered(SocketId(9));
        assert_eq!(all(&mut alone), [1, 2]);
    }
}
