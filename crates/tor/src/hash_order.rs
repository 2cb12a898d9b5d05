//! The order in which GLib goes through a hash table of whole numbers (`ghash.c` of 2.56, that of CentOS 7.6, on which the published networks ran; from 2.59 on keys are multiplied by eleven first).
//!
//! A key belongs at the place that is its rest modulo the largest prime below the table's size, and if another is there, one place further, then two, three and so on. A table that is
//! nearly full grows to the power of two above twice its keys, which are put anew in the order in which they lie. So a key that comes late to a full table lies about anywhere.

/// The largest primes below powers of two, from eight on (`prime_mod`). Beyond the last GLib has more, for tables that no process of Shadow's fills.
const PRIMES: [u32; 17] =
    [7, 13, 31, 61, 127, 251, 509, 1021, 2039, 4093, 8191, 16_381, 32_749, 65_521, 131_071, 262_139, 524_287];
/// `HASH_TABLE_MIN_SHIFT`.
const LEAST_SIZE: usize = 8;
/// Nobody's place.
const FREE: u32 = u32::MAX;

/// Indices of `keys` in the order of a table that was empty and into which they were put in theirs. All keys differ.
pub(crate) fn order(keys: &[u32]) -> impl Iterator<Item = usize> {
    let mut table = Table { keys, places: vec![FREE; LEAST_SIZE] };
    for index in 0..keys.len() {
        table.put(index as u32);
        // `g_hash_table_maybe_resize`.
        let held = index + 1;
        if table.places.len() <= held + held / 16 {
            table.grow(held);
        }
    }
    table.places.into_iter().filter(|&index| index != FREE).map(|index| index as usize)
}

/// What lies where, as indices of keys.
struct Table<'a> {
    keys: &'a [u32],
    places: Vec<u32>,
}

impl Table<'_> {
    fn put(&mut self, index: u32) {
        let size = self.places.len();
        let prime = PRIMES[(size / LEAST_SIZE).ilog2().min(PRIMES.len() as u32 - 1) as usize];
        let mut place = (self.keys[index as usize] % prime) as usize;
        let mut step = 0;
        // These steps come by each place of a power of two, of which one is free.
        while self.places[place] != FREE {
            step += 1;
            place = (place + step) % size;
        }
        self.places[place] = index;
    }

    /// `g_hash_table_resize`.
    fn grow(&mut self, held: usize) {
        let size = (2 * held + 1).next_power_of_two();
        for index in std::mem::replace(&mut self.places, vec![FREE; size]) {
            if index != FREE {
                self.put(index);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys_in_order(keys: &[u32]) -> Vec<u32> {
        order(keys).map(|index| keys[index]).collect()
    }

    /// By hand: 10 and 17 belong at 3 of a table of 8, 11 and 24 at 4 and 3. 17 goes on to 4; 11 by 5; 24 by 4 and, two further, 6.
    #[test]
    fn who_finds_its_place_taken_goes_on() {
        assert_eq!(keys_in_order(&[10, 17, 11, 24]), [10, 17, 11, 24]);
        // 10 comes by 3, 4 and 6 to 9, which is 1.
        assert_eq!(keys_in_order(&[24, 11, 17, 10]), [10, 24, 11, 17]);
        // 7 and 14 belong at 0, 8 at 1: who comes first is there. 7 comes by 0 and 1 to 3.
        assert_eq!(keys_in_order(&[7, 14, 8, 2]), [7, 14, 8, 2]);
        assert_eq!(keys_in_order(&[8, 14, 7, 2]), [14, 8, 2, 7]);
    }

    /// By hand: with the eighth key the table has 32 places, and rests are modulo 31.
    #[test]
    fn a_full_table_grows() {
        let seven = [16, 15, 14, 13, 12, 11, 10];
        assert_eq!(keys_in_order(&seven), [14, 15, 16, 10, 11, 12, 13]);
        assert_eq!(keys_in_order(&[seven.as_slice(), &[31]].concat()), [31, 10, 11, 12, 13, 14, 15, 16]);
        // 41 belongs where 10 is, goes on to the place of 11, then by two to that of 13, by three to that of 16 and by four to 20.
        assert_eq!(keys_in_order(&[seven.as_slice(), &[31, 41, 21]].concat()), [31, 10, 11, 12, 13, 14, 15, 16, 41, 21]);
    }

    /// By hand: 8 keys need 5 bits for twice their number; a table of 32 is full with 31, one of 64 with 61, of 128 with 121, of 256 with 241.
    #[test]
    fn tables_grow_when_a_sixteenth_is_left() {
        // With keys from 1 on and the prime itself the prime comes first, at 0, if it is what divides, and 1 if the next prime is.
        for (prime, most) in [(7, 7), (31, 30), (61, 60), (127, 120), (251, 240), (509, 481)] {
            let keys: Vec<u32> = (1..most).chain([prime, prime + 1]).collect();
            let first = |keys: &[u32]| keys_in_order(keys)[0];
            assert_eq!((first(&keys[..most as usize]), first(&keys)), (prime, 1), "{most} keys and one more");
        }
    }

    proptest! {
        #[test]
        fn each_key_is_there_once(keys in proptest::collection::hash_set(0u32..5000, 0..900)) {
            let keys: Vec<u32> = keys.into_iter().collect();
            let mut found: Vec<usize> = order(&keys).collect();
            found.sort_unstable();
            prop_assert_eq!(found, (0..keys.len()).collect::<Vec<_>>());
        }
    }
}
