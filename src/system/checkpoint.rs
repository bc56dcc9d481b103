//! Encodes as bytes the state that the parts of a tick keep from one slot to the next, and decodes it again.
//! Each part lists its state once, in [`Remembers::walk`], by destructuring its struct without `..`: a new
//! field does not compile until it is listed or marked as not part of the state (`_`). The same list writes
//! and reads, so the two cannot differ.
//!
//! Writes into existing memory, so that the tick does not allocate.

#[cfg(test)]
pub(crate) mod layout;

use crate::system::codec;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// Space for one checkpoint, bytes: three times what a board with all sensors, rules and the longest path
/// needs.
pub const ROOM: usize = 64 * 1024;

/// A part of a tick that has state.
pub trait Remembers {
    /// Passes all its state to `archive`, which writes it or replaces it.
    fn walk(&mut self, archive: &mut Archive<'_>) -> Result<(), Unfit>;
}

/// The value at which a checkpoint fails: there is no room for it, or the bytes are not valid for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// The part of the tick that it belongs to.
    pub part: &'static str,
    /// Its name.
    pub value: &'static str,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' of '{}'", self.value, self.part)
    }
}

impl std::error::Error for Unfit {}

/// A value and where its bytes end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The part and the value.
    pub what: Unfit,
    /// Offset of the first byte after it.
    pub end: usize,
}

enum Way<'a> {
    Write(&'a mut [u8], Option<&'a mut Vec<Named>>),
    Read(&'a [u8]),
    #[cfg(test)]
    Layout(&'a mut Vec<String>),
}

/// Writes values to a checkpoint, or reads them from one.
pub struct Archive<'a> {
    way: Way<'a>,
    at: usize,
    part: &'static str,
}

impl<'a> Archive<'a> {
    /// Writes into `room`.
    pub fn writer(room: &'a mut [u8]) -> Archive<'a> {
        Archive { way: Way::Write(room, None), at: 0, part: "" }
    }

    /// Writes into `room`, and adds the name and end of each value to `names`.
    pub fn naming(room: &'a mut [u8], names: &'a mut Vec<Named>) -> Archive<'a> {
        Archive { way: Way::Write(room, Some(names)), at: 0, part: "" }
    }

    /// Reads `bytes`.
    pub fn reader(bytes: &'a [u8]) -> Archive<'a> {
        Archive { way: Way::Read(bytes), at: 0, part: "" }
    }

    /// Adds the layout of each value's bytes to `lines`.
    #[cfg(test)]
    pub(crate) fn layout(lines: &'a mut Vec<String>) -> Archive<'a> {
        Archive { way: Way::Layout(lines), at: 0, part: "" }
    }

    /// The values that follow belong to this part.
    pub fn part(&mut self, name: &'static str) {
        self.part = name;
    }

    /// Writes `value`, or replaces it by the one that was read.
    pub fn value<T: Serialize + DeserializeOwned>(
        &mut self,
        name: &'static str,
        value: &mut T,
    ) -> Result<(), Unfit> {
        let what = Unfit { part: self.part, value: name };
        match &mut self.way {
            Way::Write(room, names) => {
                self.at += codec::put(&*value, &mut room[self.at..]).ok_or(what)?;
                if let Some(names) = names {
                    names.push(Named { what, end: self.at });
                }
            }
            Way::Read(bytes) => {
                let (read, used) = codec::take(&bytes[self.at..]).ok_or(what)?;
                (*value, self.at) = (read, self.at + used);
            }
            #[cfg(test)]
            Way::Layout(lines) => lines.push(format!("{} {name}: {}", self.part, layout::layout::<T>())),
        }
        Ok(())
    }

    /// Fails unless `holds`; rejects a value that was read but that no tick can have.
    pub fn demand(&self, name: &'static str, holds: bool) -> Result<(), Unfit> {
        if holds { Ok(()) } else { Err(Unfit { part: self.part, value: name }) }
    }

    /// Bytes written or read so far.
    pub fn at(&self) -> usize {
        self.at
    }
}

/// Passes these fields to an archive, with the names they are bound to.
macro_rules! remember {
    ($archive:ident: $($field:ident),+ $(,)?) => {
        $($archive.value(stringify!($field), $field)?;)+
    };
}
pub(crate) use remember;

#[cfg(test)]
mod tests {
    use super::*;

    struct Part {
        count: u32,
        share: Option<f64>,
    }

    impl Remembers for Part {
        fn walk(&mut self, archive: &mut Archive<'_>) -> Result<(), Unfit> {
            archive.part("part");
            let Part { count, share } = self;
            remember!(archive: count, share);
            archive.demand("count", *count < 100)
        }
    }

    #[test]
    fn checkpoints_round_trip_and_misfits_are_named() {
        let (mut room, mut names) = ([0; 32], Vec::new());
        let mut archive = Archive::naming(&mut room, &mut names);
        Part { count: 7, share: Some(-0.0) }.walk(&mut archive).unwrap();
        let used = archive.at();
        assert_eq!(
            names.iter().map(|named| (named.what.value, named.end)).collect::<Vec<_>>(),
            [("count", 1), ("share", used)]
        );
        let mut read = Part { count: 0, share: None };
        read.walk(&mut Archive::reader(&room[..used])).unwrap();
        assert_eq!((read.count, read.share.map(f64::to_bits)), (7, Some((-0.0_f64).to_bits())));
        let unfit = |value| Err(Unfit { part: "part", value });
        assert_eq!(read.walk(&mut Archive::reader(&room[..used - 1])), unfit("share"));
        assert_eq!(read.walk(&mut Archive::writer(&mut [0; 5])), unfit("share"), "no room");
        room[0] = 100;
        assert_eq!(read.walk(&mut Archive::reader(&room[..used])), unfit("count"));
    }
}
