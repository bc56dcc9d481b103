//! The best few of many candidates, exact ties included.

use crate::field::shape::BANK_TOP;

/// A row and its cosine.
type Match = (usize, f32);

/// The best few of what was offered, best first, equal ones by lower row, in whatever order they came.
#[derive(Clone, Copy, Debug)]
pub struct Nearest {
    kept: [Match; BANK_TOP],
    len: usize,
}

impl Nearest {
    /// Nothing offered yet.
    pub const NONE: Nearest = Nearest { kept: [(0, 0.0); BANK_TOP], len: 0 };

    /// One more candidate.
    #[inline]
    pub fn offer(&mut self, row: usize, cosine: f32) {
        let behind = |kept: Match| kept.1 < cosine || (kept.1 <= cosine && kept.0 > row);
        let mut place = self.len;
        while place > 0 && behind(self.kept[place - 1]) {
            place -= 1;
        }
        if place < BANK_TOP {
            self.len = (self.len + 1).min(BANK_TOP);
            self.kept[place..self.len].rotate_right(1);
            self.kept[place] = (row, cosine);
        }
    }
    /// Best first.
    pub fn list(&self) -> &[Match] {
        &self.kept[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::seed::{Stream, bits};

    #[test]
    fn the_best_are_those_of_a_full_sort_in_any_order() {
        // 40 different cosines among 500 rows: many ties, which the lower row wins.
        let cosine = |row: usize| (bits(1, Stream::Patterns, row as u64) % 40) as f32 / 40.0;
        let mut sorted: Vec<usize> = (0..500).collect();
        sorted.sort_by(|a, b| cosine(*b).total_cmp(&cosine(*a)).then(a.cmp(b)));
        let orders: [Vec<usize>; 2] = [(0..500).collect(), (0..500).rev().collect()];
        for order in orders {
            let mut best = Nearest::NONE;
            order.into_iter().for_each(|row| best.offer(row, cosine(row)));
            assert_eq!(best.list().iter().map(|(row, _)| *row).collect::<Vec<_>>(), sorted[..BANK_TOP]);
        }
    }
}
