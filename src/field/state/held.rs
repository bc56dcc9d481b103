//! Where the rows of a saved bank came from.

/// The bank from which an engine copied these rows, and the bank's revision at that time: on the next save,
/// the engine copies only the rows that have changed since. Any other code that writes rows clears this
/// record ([`super::Live::clear_extras`]). It is not part of the state: it does not affect equality, and no
/// file holds it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    /// The bank's number, unique in this process; 0: no bank.
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
