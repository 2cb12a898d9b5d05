//! The heap of pending channels, with the rules of tor's (`lib/container/smartlist.c`).
//!
//! A channel's key changes while it waits, and nobody sifts it then: keys are looked at only when something is inserted or taken. So the order in which
//! channels are served depends on how exactly the heap sifts, and the standard library's will not do: on a tie, the left child goes up.

use std::cmp::Ordering;

/// `smartlist_pqueue_add`
pub fn push<T: Copy>(heap: &mut Vec<T>, item: T, compare: impl Fn(T, T) -> Ordering) {
    heap.push(item);
    let mut index = heap.len() - 1;
    while index > 0 {
        let parent = (index - 1) / 2;
        if compare(heap[index], heap[parent]) != Ordering::Less {
            break;
        }
        heap.swap(index, parent);
        index = parent;
    }
}

/// `smartlist_pqueue_pop`
pub fn pop<T: Copy>(heap: &mut Vec<T>, compare: impl Fn(T, T) -> Ordering) -> Option<T> {
    let top = *heap.first()?;
    heap.swap_remove(0);
    sift_down(heap, 0, compare);
    Some(top)
}

/// `smartlist_pqueue_remove`
pub fn remove<T: Copy + PartialEq>(heap: &mut Vec<T>, item: T, compare: impl Fn(T, T) -> Ordering) {
    if let Some(index) = heap.iter().position(|&other| other == item) {
        heap.swap_remove(index);
        sift_down(heap, index, compare);
    }
}

/// `smartlist_heapify`
fn sift_down<T: Copy>(heap: &mut [T], mut index: usize, compare: impl Fn(T, T) -> Ordering) {
    loop {
        let left = 2 * index + 1;
        if left >= heap.len() {
            return;
        }
        let mut best = index;
        // The left child goes up on a tie with its parent, the right one only if it is smaller than both.
        if compare(heap[left], heap[best]) != Ordering::Greater {
            best = left;
        }
        if left + 1 < heap.len() && compare(heap[left + 1], heap[best]) == Ordering::Less {
            best = left + 1;
        }
        if best == index {
            return;
        }
        heap.swap(index, best);
        index = best;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_that_do_not_change_come_out_in_order(items in prop::collection::vec(0_u32..100, 0..60)) {
            let mut heap = Vec::new();
            for &item in &items {
                push(&mut heap, item, |a, b| a.cmp(&b));
            }
            let taken: Vec<u32> = std::iter::from_fn(|| pop(&mut heap, |a, b| a.cmp(&b))).collect();
            let mut sorted = items;
            sorted.sort_unstable();
            prop_assert_eq!(taken, sorted);
        }
    }

    /// With a comparison that is always equal only the left spine is served: the trap that tor's own heap sets for a policy without `cmp_cmux`.
    #[test]
    fn without_a_comparison_only_the_left_spine_is_served() {
        let equal = |_: u32, _: u32| Ordering::Equal;
        let mut heap = Vec::new();
        for item in 0..8 {
            push(&mut heap, item, equal);
        }
        let mut served = Vec::new();
        for _ in 0..40 {
            let item = pop(&mut heap, equal).unwrap();
            served.push(item);
            push(&mut heap, item, equal);
        }
        served.sort_unstable();
        served.dedup();
        assert_eq!(served, [0, 1, 3, 7]);
    }
}
