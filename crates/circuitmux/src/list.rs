//! A doubly linked list of slots, threaded through one table: no allocation to link or unlink.

use crate::Slot;

/// No slot: the end of the list in either direction.
const END: u32 = u32::MAX;
/// In `Links::next`: the slot is not in the list.
const ABSENT: u32 = u32::MAX - 1;

#[derive(Debug, Clone, Copy)]
struct Links {
    prev: u32,
    next: u32,
}

/// The list: each slot at most once.
#[derive(Debug)]
pub(crate) struct List {
    links: Vec<Links>,
    first: u32,
    last: u32,
}

const fn slot(raw: u32) -> Option<Slot> {
    if raw >= ABSENT { None } else { Some(Slot(raw)) }
}

const fn raw(slot: Option<Slot>) -> u32 {
    match slot {
        Some(slot) => slot.0,
        None => END,
    }
}

impl List {
    pub const fn new() -> Self {
        Self { links: Vec::new(), first: END, last: END }
    }

    /// Makes room for `slot`.
    pub fn grow_to(&mut self, slot: Slot) {
        if slot.index() >= self.links.len() {
            self.links.resize(slot.index() + 1, Links { prev: END, next: ABSENT });
        }
    }

    pub const fn first(&self) -> Option<Slot> {
        slot(self.first)
    }

    pub const fn last(&self) -> Option<Slot> {
        slot(self.last)
    }

    pub fn next(&self, of: Slot) -> Option<Slot> {
        slot(self.links[of.index()].next)
    }

    pub fn prev(&self, of: Slot) -> Option<Slot> {
        slot(self.links[of.index()].prev)
    }

    pub fn contains(&self, slot: Slot) -> bool {
        self.links[slot.index()].next != ABSENT
    }

    /// Links `new`, which is in no list yet, directly before `at`, or at the end if `at` is none.
    pub fn insert_before(&mut self, new: Slot, at: Option<Slot>) {
        debug_assert!(!self.contains(new), "a slot is in the list once");
        let prev = at.map_or(self.last, |at| self.links[at.index()].prev);
        self.links[new.index()] = Links { prev, next: raw(at) };
        match slot(prev) {
            Some(prev) => self.links[prev.index()].next = new.0,
            None => self.first = new.0,
        }
        match at {
            Some(at) => self.links[at.index()].prev = new.0,
            None => self.last = new.0,
        }
    }

    /// Unlinks `gone`.
    pub fn remove(&mut self, gone: Slot) {
        debug_assert!(self.contains(gone), "only a linked slot can be removed");
        let Links { prev, next } = self.links[gone.index()];
        match slot(prev) {
            Some(prev) => self.links[prev.index()].next = next,
            None => self.first = next,
        }
        match slot(next) {
            Some(next) => self.links[next.index()].prev = prev,
            None => self.last = prev,
        }
        self.links[gone.index()].next = ABSENT;
    }

    /// Forgets the links of all slots that are in the list.
    pub fn clear(&mut self) {
        while let Some(first) = self.first() {
            self.remove(first);
        }
    }

    /// The slots from first to last.
    pub fn iter(&self) -> impl Iterator<Item = Slot> {
        std::iter::successors(self.first(), |&at| self.next(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        /// Against a plain vector.
        #[test]
        fn behaves_like_a_vector(steps in proptest::collection::vec((0_u32..12, 0_usize..13), 0..200)) {
            let mut list = List::new();
            let mut model: Vec<Slot> = Vec::new();
            for (number, place) in steps {
                let slot = Slot(number);
                list.grow_to(slot);
                if list.contains(slot) {
                    list.remove(slot);
                    model.retain(|&s| s != slot);
                } else {
                    let at = model.get(place).copied();
                    list.insert_before(slot, at);
                    model.insert(place.min(model.len()), slot);
                }
                proptest::prop_assert_eq!(list.iter().collect::<Vec<_>>(), model.clone());
                proptest::prop_assert_eq!(list.last(), model.last().copied());
                let back: Vec<_> = std::iter::successors(list.last(), |&at| list.prev(at)).collect();
                proptest::prop_assert!(back.iter().rev().eq(model.iter()));
            }
            list.clear();
            proptest::prop_assert!(list.first().is_none());
        }
    }
}
