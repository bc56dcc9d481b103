//! Where the rows of a saved bank came from.

/// Which bank an engine copied these rows from, and at which of its revisions: it then brings them up to date
/// by the rows that changed since. Whoever else writes rows clears it ([`super::Live::clear_extras`]). It is
/// no part of the state: two states are equal whatever it says, and no file has it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    /// A number of its own for each bank of this process; 0: none.
    pub bank: u64,
    /// The changes that the rows have seen.
    pub revision: u64,
}

impl Held {
    /// Whether rows of both are the same.
    pub fn is_same(self, other: Held) -> bool {
        (self.bank, self.revision) == (other.bank, other.revision)
    }
}

impl PartialEq for Held {
    fn eq(&self, _: &Held) -> bool {
        true
    }
}
