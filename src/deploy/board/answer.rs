//! The reader's answer for a key, and the choice of what applies if the key is missing.

use super::finding::Problem;
use super::reader::Section;

/// The result of requesting a key.
pub enum KeyLookup<T> {
    /// The key is present and valid.
    Value(T),
    /// The key is missing.
    Nothing,
    /// The key is present but invalid; the error is already reported.
    Bad,
}

/// An answer for which the caller must still choose what applies if the key is missing.
#[must_use]
pub struct BoardValue<'s, 'a, T> {
    pub(super) section: &'s Section<'a>,
    pub(super) key: String,
    pub(super) wanted: String,
    pub(super) show: fn(&T) -> String,
    pub(super) found: KeyLookup<T>,
}

impl<T> BoardValue<'_, '_, T> {
    /// The value, or `default` if the key is missing or the value is invalid.
    pub fn or(self, default: T) -> T {
        match self.found {
            KeyLookup::Value(value) => value,
            KeyLookup::Nothing => {
                self.section.note(&self.key, (self.show)(&default), None);
                default
            }
            KeyLookup::Bad => default,
        }
    }
    /// The value, or `default` if the key is missing; `None` if the value is invalid.
    pub fn sound_or(self, default: T) -> Option<T> {
        let faulty = matches!(self.found, KeyLookup::Bad);
        let value = self.or(default);
        (!faulty).then_some(value)
    }
    /// The value. A missing key is reported as an error.
    pub fn required(self) -> Option<T> {
        match self.found {
            KeyLookup::Value(value) => Some(value),
            KeyLookup::Nothing => {
                let problem = Problem::Missing { wanted: self.wanted };
                self.section.refuse(&self.key, self.section.place, problem);
                None
            }
            KeyLookup::Bad => None,
        }
    }
    /// The value; `Some(None)` if the key is missing, `None` if the value is invalid.
    pub fn if_written(self) -> Option<Option<T>> {
        match self.found {
            KeyLookup::Value(value) => Some(Some(value)),
            KeyLookup::Nothing => Some(None),
            KeyLookup::Bad => None,
        }
    }
    /// The value, if there is a valid one.
    pub fn optional(self) -> Option<T> {
        match self.found {
            KeyLookup::Value(value) => Some(value),
            KeyLookup::Nothing | KeyLookup::Bad => None,
        }
    }
}
