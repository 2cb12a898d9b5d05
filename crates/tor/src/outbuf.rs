//! A connection's outbuf: how many plaintext bytes wait, and how they will be cut into TLS records.
//!
//! tor appends cells to chunks of 4,096 bytes, 4,048 of them usable (4,064 in 0.2.4), and writes one TLS record per chunk and call
//! (`lib/buf/buffers.c`, `lib/tls/buffers_tls.c`). A record so carries at most a chunk, and cells straddle records. A chunk that was
//! partly drained goes on being filled; one that is drained empty is freed.

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Outbuf {
    /// Plaintext bytes that wait.
    len: u32,
    /// Bytes that the head chunk has already given away. A chunk holds at most 16 KiB, as a record does.
    head_drained: u16,
    /// Plaintext bytes of the record that the kernel has taken in part. It is not cut anew when bytes are appended meanwhile:
    /// OpenSSL repeats a write with the same buffer.
    begun: u16,
    /// How much of that record, encrypted, the kernel has taken.
    taken: u16,
}

impl Outbuf {
    pub const fn len(self) -> u32 {
        self.len
    }

    /// Bytes that the kernel has not taken, those of a record that it has taken in part counted as they are encrypted.
    pub const fn untaken(self) -> u32 {
        self.len.saturating_sub(self.taken as u32)
    }

    /// Plaintext bytes of the record that the kernel has taken in part; 0: of none.
    pub const fn begun(self) -> u32 {
        self.begun as u32
    }

    /// Chunks that it takes, each of which holds `chunk` bytes.
    pub const fn chunks(self, chunk: u32) -> u32 {
        if self.len == 0 { 0 } else { (self.head_drained as u32 + self.len).div_ceil(chunk) }
    }

    pub fn append(&mut self, bytes: u32) {
        self.len += bytes;
    }

    /// Plaintext bytes of the record that is written next by a call that may write `most`, where a chunk holds `chunk`: the head chunk, or as much of
    /// it; 0 if there is nothing to write. A record that was begun is not cut anew.
    pub fn next_record(self, most: u32, chunk: u32) -> u32 {
        if self.begun > 0 { self.begun() } else { self.len.min(chunk - u32::from(self.head_drained)).min(most) }
    }

    /// Bytes of that record, which takes `wire` encrypted, that the kernel has not taken yet.
    pub fn wire_bytes_left(self, wire: u32) -> u32 {
        wire - u32::from(self.taken)
    }

    /// The kernel took `bytes` of that `record`, which takes `wire` encrypted; true if it is complete.
    pub fn written(&mut self, bytes: u32, record: u32, wire: u32, chunk: u32) -> bool {
        let taken = u32::from(self.taken) + bytes;
        if taken < wire {
            (self.begun, self.taken) = (record as u16, taken as u16);
            return false;
        }
        self.begun = 0;
        self.taken = 0;
        self.len -= record;
        let drained = u32::from(self.head_drained) + record;
        self.head_drained = if self.len == 0 || drained == chunk { 0 } else { drained as u16 };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    const CHUNK: u32 = 4048;

    fn write_all(outbuf: &mut Outbuf) -> Vec<u32> {
        let mut records = Vec::new();
        while outbuf.len() > 0 {
            let record = outbuf.next_record(u32::MAX, CHUNK);
            assert!(outbuf.written(record + 22, record, record + 22, CHUNK));
            records.push(record);
        }
        records
    }

    #[test]
    fn ten_cells_make_a_full_record_and_a_rest() {
        let mut outbuf = Outbuf::default();
        outbuf.append(5140);
        assert_eq!(write_all(&mut outbuf), [4048, 1092]);
    }

    #[test]
    fn a_chunk_that_was_partly_drained_is_filled_up() {
        let mut outbuf = Outbuf::default();
        outbuf.append(514);
        outbuf.append(4048);
        assert_eq!(outbuf.next_record(u32::MAX, CHUNK), 4048);
        assert!(outbuf.written(4070, 4048, 4070, CHUNK));
        assert_eq!(outbuf.next_record(u32::MAX, CHUNK), 514);
    }

    /// A call of `connection_handle_write` on a full outbuf: four chunks and 256 bytes of the fifth, of which the next call writes the rest first.
    #[test]
    fn the_share_of_a_call_cuts_its_last_record() {
        let mut outbuf = Outbuf::default();
        outbuf.append(64 * 514);
        let mut calls = [const { Vec::new() }; 2];
        for records in &mut calls {
            let mut left = 16_448;
            while left > 0 {
                let record = outbuf.next_record(left, CHUNK);
                assert!(outbuf.written(record + 22, record, record + 22, CHUNK));
                records.push(record);
                left -= record;
            }
        }
        assert_eq!(calls[0], [4048, 4048, 4048, 4048, 256]);
        assert_eq!(calls[1], [3792, 4048, 4048, 4048, 512]);
        assert_eq!(outbuf.len(), 0);
    }

    #[test]
    fn a_record_that_the_kernel_cut_is_not_cut_anew() {
        let mut outbuf = Outbuf::default();
        outbuf.append(514);
        assert!(!outbuf.written(100, 514, 536, CHUNK));
        outbuf.append(514);
        let record = outbuf.next_record(u32::MAX, CHUNK);
        assert_eq!(outbuf.wire_bytes_left(536), 436);
        assert!(outbuf.written(436, record, 536, CHUNK));
        assert_eq!(write_all(&mut outbuf), [514]);
    }

    /// tor's chunks one by one (`buf_add`, `buf_flush_to_tls`): how many bytes each was given, and how many of them have left. The last is filled up before another is taken; what is empty is freed.
    #[derive(Default)]
    struct Chunks {
        chunks: VecDeque<(u32, u32)>,
        /// The record that the kernel has taken in part, and how much of it, encrypted.
        begun: Option<(u32, u32)>,
    }

    impl Chunks {
        fn len(&self) -> u32 {
            self.chunks.iter().map(|(given, left)| given - left).sum()
        }

        fn append(&mut self, mut bytes: u32) {
            while bytes > 0 {
                if self.chunks.back().is_none_or(|&(given, _)| given == CHUNK) {
                    self.chunks.push_back((0, 0));
                }
                let (given, _) = self.chunks.back_mut().unwrap();
                let fits = bytes.min(CHUNK - *given);
                *given += fits;
                bytes -= fits;
            }
        }

        fn next_record(&self, most: u32) -> u32 {
            self.begun
                .map_or_else(|| self.chunks.front().map_or(0, |(given, left)| (given - left).min(most)), |(record, _)| record)
        }

        /// The kernel takes `bytes` of the record's `wire` more; true if it is complete.
        fn written(&mut self, bytes: u32, record: u32, wire: u32) -> bool {
            let taken = self.begun.take().map_or(0, |(_, taken)| taken) + bytes;
            if taken < wire {
                self.begun = Some((record, taken));
                return false;
            }
            let (given, left) = self.chunks.front_mut().unwrap();
            *left += record;
            if given == left {
                self.chunks.pop_front();
            }
            true
        }
    }

    proptest! {
        /// Whatever is appended and however much a call may write and the kernel takes: bytes, chunks and records are those of tor's chunks.
        #[test]
        fn records_are_cut_as_tors_chunks_are(
            steps in prop::collection::vec((0_u32..40, 1_u32..20_000, prop::collection::vec(0_u32..5000, 1..6)), 1..60)
        ) {
            let (mut outbuf, mut chunks) = (Outbuf::default(), Chunks::default());
            for (cells, most, takes) in steps {
                outbuf.append(514 * cells);
                chunks.append(514 * cells);
                for room in takes {
                    let record = outbuf.next_record(most, CHUNK);
                    prop_assert_eq!(record, chunks.next_record(most));
                    if record == 0 {
                        break;
                    }
                    let wire = record + 22;
                    let taken = room.min(outbuf.wire_bytes_left(wire));
                    prop_assert_eq!(outbuf.written(taken, record, wire, CHUNK), chunks.written(taken, record, wire));
                    prop_assert_eq!(outbuf.len(), chunks.len());
                    prop_assert_eq!(outbuf.chunks(CHUNK) as usize, chunks.chunks.len());
                    let (begun, taken) = chunks.begun.unwrap_or_default();
                    prop_assert_eq!((outbuf.begun(), outbuf.untaken()), (begun, chunks.len().saturating_sub(taken)));
                }
            }
        }
    }
}
