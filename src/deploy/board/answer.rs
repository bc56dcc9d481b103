//! An answer of the reader, and what happens if nothing is written.

use super::finding::Problem;
use super::reader::Section;

/// The result of requesting a key.
pub enum Found<T> {
    /// It is written and right.
    Value(T),
    /// Nothing is written.
    Nothing,
    /// It is written and wrong: noted.
    Bad,
}

/// An answer for which the caller must still choose what happens if nothing is written.
#[must_use]
pub struct Answer<'s, 'a, T> {
    pub(super) section: &'s Section<'a>,
    pub(super) key: String,
    pub(super) wanted: String,
    pub(super) show: fn(&T) -> String,
    pub(super) found: Found<T>,
}

impl<T> Answer<'_, '_, T> {
    /// The value, or `default`.
    pub fn or(self, default: T) -> T {
        match self.found {
            Found::Value(value) => value,
            Found::Nothing => {
                self.section.note(&self.key, (self.show)(&default), None);
                default
            }
            Found::Bad => default,
        }
    }
    /// The value, or `default`; `None` where what is written is faulty.
    pub fn sound_or(self, default: T) -> Option<T> {
        let faulty = matches!(self.found, Found::Bad);
        let value = self.or(default);
        (!faulty).then_some(value)
    }
    /// The value; it is an error if none is written.
    pub fn required(self) -> Option<T> {
        match self.found {
            Found::Value(value) => Some(value),
            Found::Nothing => {
                let problem = Problem::Missing { wanted: self.wanted };
                self.section.refuse(&self.key, self.section.place, problem);
                None
            }
            Found::Bad => None,
        }
    }
    /// The value, `Some(None)` where none is written; `None` where what is written is faulty.
    pub fn if_written(self) -> Option<Option<T>> {
        match self.found {
            Found::Value(value) => Some(Some(value)),
            Found::Nothing => Some(None),
            Found::Bad => None,
        }
    }
    /// The value, if one is written.
    pub fn optional(self) -> Option<T> {
        match self.found {
            Found::Value(value) => Some(value),
            Found::Nothing | Found::Bad => None,
        }
    }
}
