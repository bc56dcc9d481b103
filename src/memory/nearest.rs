//! Keeps the best few of many matches, in fixed memory. The result does not depend on the order in which the
//! matches are added.

/// The most matches that can be requested.
pub const MOST_TOP: usize = 64;

/// A row and how well it matches the query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Match {
    /// Number of the row.
    pub row: u32,
    /// Cosine of the angle to the query.
    pub cosine: f32,
}

impl Match {
    /// The larger cosine wins, or the lower row if the cosines are equal. This is a total order, so the list
    /// does not depend on the order in which threads offer their matches.
    fn beats(&self, other: &Match) -> bool {
        match self.cosine.total_cmp(&other.cosine) {
            std::cmp::Ordering::Greater => true,
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => self.row < other.row,
        }
    }
}

/// The best matches so far, the best first.
#[derive(Clone, Debug)]
pub struct Best {
    wanted: usize,
    list: heapless::Vec<Match, MOST_TOP>,
}

impl Best {
    /// Room for the best `wanted`, clamped to 1..=[`MOST_TOP`].
    pub fn of(wanted: usize) -> Best {
        Best { wanted: wanted.clamp(1, MOST_TOP), list: heapless::Vec::new() }
    }

    /// How many matches are wanted.
    pub fn wanted(&self) -> usize {
        self.wanted
    }

    /// The matches, the best first: as many as were wanted, or fewer if fewer were offered.
    pub fn list(&self) -> &[Match] {
        &self.list
    }

    /// The best match.
    pub fn first(&self) -> Option<Match> {
        self.list.first().copied()
    }

    /// By how much the best cosine is ahead of the second; `None` with fewer than two.
    pub fn margin(&self) -> Option<f32> {
        match &*self.list {
            [first, second, ..] => Some(first.cosine - second.cosine),
            _ => None,
        }
    }

    /// Removes all matches.
    pub fn clear(&mut self) {
        self.list.clear();
    }

    /// Adds a match if it is among the best.
    #[inline(always)]
    pub fn offer(&mut self, offered: Match) {
        if self.list.len() == self.wanted {
            match self.list.last() {
                Some(last) if offered.beats(last) => drop(self.list.pop()),
                _ => return,
            }
        }
        self.enter(offered);
    }

    fn enter(&mut self, offered: Match) {
        let place = self.list.iter().position(|held| offered.beats(held)).unwrap_or(self.list.len());
        // There is room: one was taken out, or fewer than wanted are held.
        let _ = self.list.insert(place, offered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_come_first_whatever_the_order() {
        let cosines = [0.1, 0.9, -0.5, 0.9, 0.3, 0.9, 0.2, -0.0, 0.0];
        let all: Vec<Match> = (0..).zip(cosines).map(|(row, cosine)| Match { row, cosine }).collect();
        let rows = |best: &Best| best.list().iter().map(|held| held.row).collect::<Vec<_>>();
        for wanted in 1..=9 {
            let (mut forth, mut back) = (Best::of(wanted), Best::of(wanted));
            all.iter().for_each(|m| forth.offer(*m));
            all.iter().rev().for_each(|m| back.offer(*m));
            assert_eq!(rows(&forth), [1, 3, 5, 4, 6, 0, 8, 7, 2][..wanted]);
            assert_eq!(rows(&forth), rows(&back));
        }
        let mut two = Best::of(2);
        assert_eq!(two.margin(), None);
        [all[1], all[4]].into_iter().for_each(|m| two.offer(m));
        assert_eq!(two.margin(), Some(0.9 - 0.3));
    }
}
