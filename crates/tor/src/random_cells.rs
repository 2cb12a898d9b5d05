//! DATA cells with random bytes (`core/or/relay.c: connection_edge_get_inbuf_bytes_to_package`, `circuit_reset_sendme_randomness`).
//!
//! A SENDME proves that its sender has seen a cell, so now and then a cell must hold bytes that nobody can guess. A short cell does anyway; where none
//! was sent for 50 to 99 cells, drawn anew each time, a cell is left 20 bytes short.

use onionlab_quantities::RandomStream;

/// Room that suffices: four zero bytes, sixteen random ones.
const ROOM: u64 = 20;
/// Least cells between two (half of `CIRCWINDOW_INCREMENT`), and as many more may be drawn.
const HALF: u64 = 50;

/// What one end of a circuit knows of them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RandomCells {
    /// Full cells until one is left short; none drawn yet where `draws` is zero.
    left: u8,
    draws: u32,
}

impl RandomCells {
    /// How much of `waiting` bytes the next DATA cell carries, of at most `payload`. The values come from this end's own `stream`.
    pub fn next_length(&mut self, stream: RandomStream, payload: u64, waiting: u64) -> u64 {
        if self.draws == 0 {
            self.draw(stream);
        }
        let most = if self.left == 0 { payload.saturating_sub(ROOM).max(1) } else { payload };
        let length = waiting.min(most);
        if payload - length >= ROOM {
            self.draw(stream);
        } else {
            self.left -= u8::from(self.left > 0);
        }
        length
    }

    fn draw(&mut self, stream: RandomStream) {
        self.left = (HALF + stream.at(u64::from(self.draws)).below(HALF)) as u8;
        self.draws += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onionlab_quantities::Seed;

    /// Full cells come in stretches of 50 to 99, each ended by one of 478 bytes, and not all stretches are alike.
    #[test]
    fn one_in_fifty_to_a_hundred_cells_is_left_short() {
        let (mut cells, stream) = (RandomCells::default(), RandomStream::new(Seed(1), "circuits", "test"));
        let (mut full, mut stretches) = (0, Vec::new());
        for _ in 0..10_000 {
            match cells.next_length(stream, 498, 100_000) {
                498 => full += 1,
                478 => stretches.push(std::mem::take(&mut full)),
                other => panic!("{other}"),
            }
        }
        assert!(stretches.iter().all(|length| (50..100).contains(length)), "{stretches:?}");
        assert!(stretches.iter().any(|length| *length < 60) && stretches.iter().any(|length| *length > 90));
    }

    /// A cell that is short anyway puts the next one off.
    #[test]
    fn a_short_cell_serves_as_well() {
        let (mut cells, stream) = (RandomCells::default(), RandomStream::new(Seed(1), "circuits", "test"));
        for _ in 0..1000 {
            for _ in 0..49 {
                assert_eq!(cells.next_length(stream, 498, 498), 498);
            }
            assert_eq!(cells.next_length(stream, 498, 10), 10);
        }
    }
}
