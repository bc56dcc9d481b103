//! What the parts of a tick remember from slot to slot, as bytes and back. Each part lists its memory once,
//! in [`Remembers::walk`], by taking its struct apart without `..`: a field that is added does not compile
//! until it is listed or marked as no memory (`_`). The same list writes and reads, so the two cannot differ.
//!
//! Writing goes into memory that is there already: the tick does it without an allocation.

#[cfg(test)]
pub(crate) mod layout;

use crate::system::codec;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// Room for one checkpoint, bytes: three times what a board with all sensors, rules and the longest way
/// needs.
pub const ROOM: usize = 64 * 1024;

/// A part of a tick that remembers something.
pub trait Remembers {
    /// Shows everything that it remembers to `archive`, which keeps it or puts something else in its place.
    fn walk(&mut self, archive: &mut Archive<'_>) -> Result<(), Unfit>;
}

/// The value at which a checkpoint ends: there is no room for it, or the bytes spell none that it can have.
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

/// Writes values into a checkpoint, or reads them from one.
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

    /// The same, and says in `names` what stands where.
    pub fn naming(room: &'a mut [u8], names: &'a mut Vec<Named>) -> Archive<'a> {
        Archive { way: Way::Write(room, Some(names)), at: 0, part: "" }
    }

    /// Reads `bytes`.
    pub fn reader(bytes: &'a [u8]) -> Archive<'a> {
        Archive { way: Way::Read(bytes), at: 0, part: "" }
    }

    /// Notes in `lines` what the bytes of each value are made of.
    #[cfg(test)]
    pub(crate) fn layout(lines: &'a mut Vec<String>) -> Archive<'a> {
        Archive { way: Way::Layout(lines), at: 0, part: "" }
    }

    /// The values that follow belong to this part.
    pub fn part(&mut self, name: &'static str) {
        self.part = name;
    }

    /// Keeps `value`, or replaces it by what was kept.
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

    /// Refuses a value that was read and that no tick can have.
    pub fn demand(&self, name: &'static str, holds: bool) -> Result<(), Unfit> {
        if holds { Ok(()) } else { Err(Unfit { part: self.part, value: name }) }
    }

    /// Bytes written or read so far.
    pub fn at(&self) -> usize {
        self.at
    }
}

/// Shows these fields, which are named as they are bound, to an archive.
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
