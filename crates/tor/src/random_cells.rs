//! DATA cells with random bytes (`core/or/relay.c: connection_edge_get_inbuf_bytes_to_package`, `circuit_reset_sendme_randomness`).
//!
//! A SENDME proves that its sender has seen a cell, so now and then a cell must hold bytes that nobody can guess. Each end of a circuit counts down
//! 50 to 99 cells, drawn anew each time. A cell that is short anyway only sets a mark. The cell at which the count has come to zero is left 20 bytes short
//! unless the mark is set; then mark and count start over, and that cell is the first to count.

use onionlab_quantities::RandomStream;

/// Room that suffices: four zero bytes, sixteen random ones.
const ROOM: u64 = 20;
/// Least cells of a count (half of `CIRCWINDOW_INCREMENT`), and as many more may be drawn.
const HALF: u64 = 50;

/// What one end of a circuit knows of them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RandomCells {
    /// Cells until one must have had room (`send_randomness_after_n_cells`); none drawn yet where `draws` is zero.
    left: u8,
    /// One had since the last draw (`have_sent_sufficiently_random_cell`).
    had_room: bool,
    draws: u32,
}

impl RandomCells {
    /// How much of `waiting` bytes the next DATA cell carries, of at most `payload`. The values come from this end's own `stream`.
    pub fn next_length(&mut self, stream: RandomStream, payload: u64, waiting: u64) -> u64 {
        if self.draws == 0 {
            self.draw(stream);
        }
        let with_room = payload.saturating_sub(ROOM).max(1);
        let length = waiting.min(if self.left == 0 && !self.had_room { with_room } else { payload });
        self.had_room |= length <= with_room;
        if self.left == 0 {
            self.draw(stream);
        }
        self.left -= 1;
        length
    }

    fn draw(&mut self, stream: RandomStream) {
        self.left = (HALF + stream.at(u64::from(self.draws)).below(HALF)) as u8;
        self.had_room = false;
        self.draws += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onionlab_quantities::Seed;

    fn stream() -> RandomStream {
        RandomStream::new(Seed(1), "circuits", "test")
    }

    /// Before the first cell that is left short go as many full ones as were drawn, before each later one a cell less: the short one counted against the next draw.
    #[test]
    fn one_in_fifty_to_a_hundred_cells_is_left_short() {
        let mut cells = RandomCells::default();
        let (mut full, mut stretches) = (0, Vec::new());
        for _ in 0..10_000 {
            match cells.next_length(stream(), 498, 100_000) {
                498 => full += 1,
                478 => stretches.push(std::mem::take(&mut full)),
                other => panic!("{other}"),
            }
        }
        let drawn = (0..).map(|draw| 50 + stream().at(draw).below(50));
        let expected = drawn.zip(std::iter::once(0).chain(std::iter::repeat(1))).map(|(drawn, counted)| drawn - counted);
        assert_eq!(stretches, expected.take(stretches.len()).collect::<Vec<u64>>());
        assert!(stretches.len() > 100 && stretches.iter().min() < Some(&55) && stretches.iter().max() > Some(&93));
    }

    /// The steps of tor's own test (`test_sendme.c: test_package_payload_len`): full cells and nearly full ones count down, a short one sets the mark and counts down, and
    /// at zero a marked end sends a full cell, an unmarked one a cell with room; both draw anew, and that cell counts.
    #[test]
    fn a_count_step_by_step() {
        let counting = |left, had_room| RandomCells { left, had_room, draws: 1 };
        // The count, the mark and what waits; what goes, the count (none: a new one) and the mark.
        let steps = [
            (60, false, 10_000, 498, Some(59), false),
            (60, false, 497, 497, Some(59), false),
            (60, false, 479, 479, Some(59), false),
            (60, false, 478, 478, Some(59), true),
            (60, false, 434, 434, Some(59), true),
            (60, true, 10_000, 498, Some(59), true),
            (1, false, 10, 10, Some(0), true),
            (0, true, 10_000, 498, None, false),
            (0, true, 10, 10, None, false),
            (0, false, 10_000, 478, None, false),
            (0, false, 478, 478, None, false),
            (0, false, 10, 10, None, false),
        ];
        for (left, had_room, waiting, length, then, mark) in steps {
            let mut cells = counting(left, had_room);
            assert_eq!(cells.next_length(stream(), 498, waiting), length, "{waiting} bytes, {left} left");
            let new = (50 + stream().at(1).below(50)) as u8;
            assert_eq!((cells.left, cells.had_room), (then.unwrap_or(new - 1), mark), "{waiting} bytes, {left} left");
        }
    }
}
