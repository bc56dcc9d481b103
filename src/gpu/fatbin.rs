//! The file of machine code that may come with the program: refused unless it is whole and was built from the
//! same sources as the PTX.
//!
//! The driver gets an address and no length, so it would read past the end of a truncated file; and kernels
//! from other sources have other tables. So the file ends, after the fatbin itself, with the first line of
//! the PTX that it was built with.

use super::mark::{self, Begun};
use super::trusted::{self, Distrust, Links};
use std::fmt;
use std::path::{Path, PathBuf};

/// First word of a fatbin (`FATBINC_MAGIC` of NVIDIA's fatbinary_section.h names its wrapper; this is of the
/// data), then u16 version, u16 bytes of the header, u64 bytes that follow.
const MAGIC: u32 = 0xBA55_ED50;
const HEADER: usize = 16;

/// Why a file was not taken.
#[derive(Debug)]
pub(super) enum Unfit {
    /// It cannot be read, or others can have written it.
    Distrusted(Distrust),
    /// It does not begin like a fatbin.
    NoFatbin,
    /// It ends too early, or holds nothing.
    CutOff,
    /// It does not end in the first line of the PTX.
    OtherSources,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Distrusted(why) => why.fmt(f),
            Unfit::NoFatbin => f.write_str("not a fatbin"),
            Unfit::CutOff => f.write_str("cut off"),
            Unfit::OtherSources => f.write_str("built from kernels other than this program's"),
        }
    }
}

/// The file, whole and of the same sources.
pub(super) fn read(path: &Path, ptx: &str) -> Result<Vec<u8>, Unfit> {
    let bytes = trusted::read(path, Links::Followed).map_err(Unfit::Distrusted)?;
    check(&bytes, ptx)?;
    Ok(bytes)
}

/// Before these bytes are loaded: leaves a mark in `cache`, if there is one, until they are. `Err`: a process
/// ended while they were loaded, and this is the mark; it stays, for the file is not ours to throw away.
pub(super) fn begin(bytes: &[u8], cache: Option<&Path>) -> Result<Option<Begun>, PathBuf> {
    let Some(folder) = cache else { return Ok(None) };
    // The folder may be there, or its parent may not be ours: then there is no mark.
    let _ = std::fs::create_dir_all(folder);
    let at = folder.join(format!("fatbin-{}.loading", blake3::hash(bytes).to_hex()));
    match mark::begin(&at) {
        marked @ Begun::Marked(_) => Ok(Some(marked)),
        Begun::Broke => Err(at),
    }
}

fn check(bytes: &[u8], ptx: &str) -> Result<(), Unfit> {
    let header = bytes.first_chunk::<HEADER>().ok_or(Unfit::NoFatbin)?;
    let word = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    if header[..4] != MAGIC.to_le_bytes() || usize::from(word(6)) < HEADER {
        return Err(Unfit::NoFatbin);
    }
    let follow = u64::from_le_bytes(std::array::from_fn(|i| header[8 + i]));
    if follow == 0 {
        return Err(Unfit::CutOff);
    }
    let end = usize::try_from(follow).ok().and_then(|follow| follow.checked_add(word(6).into()));
    let rest = end.and_then(|end| bytes.get(end..)).ok_or(Unfit::CutOff)?;
    let stamp = ptx.lines().next().unwrap_or_default();
    if rest.trim_ascii() == stamp.as_bytes() { Ok(()) } else { Err(Unfit::OtherSources) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = "// sources BLAKE3 0123\n.version 8.5\n";

    fn fatbin(follow: usize) -> Vec<u8> {
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        bytes.extend([1, 0, 16, 0]);
        bytes.extend((follow as u64).to_le_bytes());
        bytes.resize(HEADER + follow, 7);
        bytes
    }

    #[test]
    fn a_whole_file_of_the_same_sources_is_taken() {
        let bytes = [fatbin(100), b"// sources BLAKE3 0123\n".to_vec()].concat();
        assert!(check(&bytes, PTX).is_ok());
    }

    #[test]
    fn a_file_of_other_sources_or_without_a_stamp_is_not() {
        for stamp in ["", "// sources BLAKE3 0124\n"] {
            let bytes = [fatbin(100), stamp.as_bytes().to_vec()].concat();
            assert!(matches!(check(&bytes, PTX), Err(Unfit::OtherSources)), "{stamp}");
        }
    }

    #[test]
    fn bytes_that_a_process_ended_in_are_not_loaded_again_and_others_are() {
        let folder = std::env::temp_dir().join(format!("ganglion-fatbin-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let begun = begin(b"bytes", Some(&folder)).unwrap();
        let mark = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
        drop(begun);
        assert!(!mark.exists());
        std::fs::write(&mark, "").unwrap();
        assert_eq!(begin(b"bytes", Some(&folder)).err().as_ref(), Some(&mark));
        assert_eq!(begin(b"bytes", Some(&folder)).err(), Some(mark), "and not the next time either");
        assert!(begin(b"other bytes", Some(&folder)).is_ok());
        assert!(begin(b"bytes", None).is_ok());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_file_that_is_cut_off_anywhere_is_not() {
        let whole = fatbin(100);
        for length in 0..whole.len() {
            let said = check(&whole[..length], PTX);
            assert!(matches!(said, Err(Unfit::CutOff | Unfit::NoFatbin)), "{length}: {said:?}");
        }
        let nothing = [fatbin(0), b"// sources BLAKE3 0123\n".to_vec()].concat();
        assert!(matches!(check(&nothing, PTX), Err(Unfit::CutOff)));
        let mut endless = fatbin(100);
        endless[8..16].fill(0xFF);
        assert!(matches!(check(&endless, PTX), Err(Unfit::CutOff)));
        assert!(matches!(check(b"\x7fELF and so on and on", PTX), Err(Unfit::NoFatbin)));
    }
}
