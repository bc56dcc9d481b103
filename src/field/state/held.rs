//! Where the rows of a saved bank came from.

/// From which bank an engine copied these rows, and at which revision: the engine then only copies the rows
/// that changed since. Any other code that writes rows clears it ([`super::Live::clear_extras`]). It is not
/// part of the state: it does not affect equality, and no file holds it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    /// A unique number for each bank of this process; 0: none.
    pub bank: u64,
    /// The revision of the bank that the rows match.
    pub revision: u64,
}

impl Held {
    /// Whether both describe the same rows.
    pub fn is_same(self, other: Held) -> bool {
        (self.bank, self.revision) == (other.bank, other.revision)
    }
}

impl PartialEq for Held {
    fn eq(&self, _: &Held) -> bool {
        true
    }
}
