//! The host's copy of the bank. The device reports each row that a cycle changes, so saving the brain copies
//! no rows from the device. A save that reuses the memory of an earlier save copies only the rows that have
//! changed since.

use super::desk::Touched;
use crate::field::shape::DESCRIPTOR;
use crate::field::state::{Experiences, Held, refill};
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of banks so far in this process: each start, reset and restored state makes a new one.
static BANKS: AtomicU64 = AtomicU64::new(0);

/// The rows in use, and when each one changed.
pub struct BankCopy {
    rows: Vec<f32>,
    value: Vec<f64>,
    last_use: Vec<u64>,
    /// Revision in which each row last changed.
    changed: Vec<u64>,
    revision: u64,
    bank: u64,
}

impl BankCopy {
    /// A copy of an empty bank with room for `capacity` rows.
    pub fn new(capacity: usize) -> BankCopy {
        BankCopy {
            rows: Vec::with_capacity(capacity * DESCRIPTOR),
            value: Vec::with_capacity(capacity),
            last_use: Vec::with_capacity(capacity),
            changed: Vec::with_capacity(capacity),
            revision: 0,
            bank: next_bank(),
        }
    }

    /// Replaces its content with another bank.
    pub fn replace(&mut self, bank: &Experiences) {
        refill(&mut self.rows, &bank.rows);
        refill(&mut self.value, &bank.value);
        refill(&mut self.last_use, &bank.last_use);
        self.changed.clear();
        self.changed.resize(bank.value.len(), 0);
        (self.revision, self.bank) = (0, next_bank());
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.replace(&Experiences::default());
    }

    /// Records that a row was stored, replaced or recognised. Allocates nothing.
    pub fn touch(&mut self, touched: &Touched, exact: &[f32; DESCRIPTOR]) {
        let row = touched.row as usize;
        debug_assert!(row <= self.value.len(), "rows are filled in order");
        self.revision += 1;
        if row < self.value.len() {
            self.rows[row * DESCRIPTOR..][..DESCRIPTOR].copy_from_slice(exact);
            (self.value[row], self.last_use[row]) = (touched.value, touched.last_use);
            self.changed[row] = self.revision;
        } else {
            self.rows.extend_from_slice(exact);
            self.value.push(touched.value);
            self.last_use.push(touched.last_use);
            self.changed.push(self.revision);
        }
    }

    /// Brings `to` up to date; returns how many rows it copied.
    pub fn save(&self, to: &mut Experiences) -> usize {
        let held = to.held;
        refill(&mut to.value, &self.value);
        refill(&mut to.last_use, &self.last_use);
        to.held = Held { bank: self.bank, revision: self.revision };
        if held.bank != self.bank {
            refill(&mut to.rows, &self.rows);
            return self.value.len();
        }
        to.rows.resize(self.rows.len(), 0.0);
        let mut copied = 0;
        for (row, changed) in self.changed.iter().enumerate() {
            if *changed > held.revision {
                let range = row * DESCRIPTOR..(row + 1) * DESCRIPTOR;
                to.rows[range.clone()].copy_from_slice(&self.rows[range]);
                copied += 1;
            }
        }
        copied
    }
}

/// A new bank number, from 1; 0 means no bank.
fn next_bank() -> u64 {
    BANKS.fetch_add(1, Ordering::Relaxed) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touched(row: u32, cycle: u64) -> Touched {
        Touched { row, value: cycle as f64 / 8.0, last_use: cycle }
    }

    #[test]
    fn save_copies_only_rows_changed_since_the_last() {
        let mut bank = BankCopy::new(4);
        (0..3).for_each(|row| bank.touch(&touched(row, 1), &[row as f32; DESCRIPTOR]));
        let (mut one, mut two) = (Experiences::default(), Experiences::default());
        assert_eq!((bank.save(&mut one), bank.save(&mut one)), (3, 0));
        bank.touch(&touched(1, 2), &[7.0; DESCRIPTOR]);
        assert_eq!((bank.save(&mut one), bank.save(&mut two)), (1, 3));
        bank.touch(&touched(3, 3), &[9.0; DESCRIPTOR]);
        assert_eq!((bank.save(&mut one), bank.save(&mut two)), (1, 1));
        assert_eq!(one, two);
        assert_eq!((one.rows[DESCRIPTOR], one.rows[3 * DESCRIPTOR]), (7.0, 9.0));
        assert_eq!((one.value[1], one.last_use.clone()), (0.25, vec![1, 2, 1, 3]));
    }

    #[test]
    fn state_of_another_bank_is_written_completely() {
        let (mut bank, mut other) = (BankCopy::new(4), BankCopy::new(4));
        let mut live = Experiences::default();
        bank.touch(&touched(0, 1), &[1.0; DESCRIPTOR]);
        other.touch(&touched(0, 1), &[2.0; DESCRIPTOR]);
        assert_eq!((bank.save(&mut live), other.save(&mut live), bank.save(&mut live)), (1, 1, 1));
        bank.replace(&live.clone());
        assert_eq!((bank.save(&mut live), live.rows[0]), (1, 1.0), "a restored bank counts as a new one");
        bank.clear();
        assert_eq!((bank.save(&mut live), live.rows.len(), live.value.len()), (0, 0, 0));
    }
}
