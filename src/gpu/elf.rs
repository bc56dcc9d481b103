//! Checks that machine code is a complete ELF file. The driver gets an address and no length, and follows the
//! tables in the file, so everything they point at must lie within it. Does not check what the code does.

use std::fmt;

/// `\x7fELF`, 64 bits, little-endian, version 1.
const BEGINS: [u8; 7] = [0x7f, b'E', b'L', b'F', 2, 1, 1];
/// Bytes of the header, of a section's entry and of a segment's, of 64 bits.
const HEADER: usize = 64;
const SECTION: usize = 64;
const SEGMENT: usize = 56;
/// NVIDIA CUDA (`EM_CUDA`).
const MACHINE: u16 = 190;
/// A section that takes no room in the file (`SHT_NOBITS`).
const NO_BITS: u32 = 8;
/// From here on types are a system's or a processor's own: some of NVIDIA's are memory that takes no room
/// either, so the check can only look at where they begin.
const OWN_TYPES: u32 = 0x6000_0000;

/// Why bytes are no whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Not the beginning of one for a GPU.
    NotElf,
    /// It has no sections.
    Empty,
    /// A table or what it points at is not within the file.
    Beyond(&'static str),
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::NotElf => f.write_str("not machine code for a GPU"),
            Flaw::Empty => f.write_str("machine code without a section"),
            Flaw::Beyond(what) => write!(f, "incomplete machine code: {what} lies beyond its end"),
        }
    }
}

/// Whether `bytes` begin with a whole ELF file for a GPU.
pub fn check(bytes: &[u8]) -> Result<(), Flaw> {
    let header = bytes.first_chunk::<HEADER>().ok_or(Flaw::NotElf)?;
    let says = (half(header, 18), half(header, 52));
    if !header.starts_with(&BEGINS) || says != (MACHINE, HEADER as u16) {
        return Err(Flaw::NotElf);
    }
    let (sections, segments) = (half(header, 60), half(header, 56));
    if sections == 0 {
        return Err(Flaw::Empty);
    }
    let table = Flaw::Beyond("the table of sections");
    let table = rows(bytes, word(header, 40), (sections, half(header, 58)), SECTION).ok_or(table)?;
    for row in table.chunks_exact(SECTION) {
        let in_file = match tag(row, 4) {
            NO_BITS => continue,
            OWN_TYPES.. => 0,
            _ => word(row, 32),
        };
        if span(bytes, word(row, 24), in_file).is_none() {
            return Err(Flaw::Beyond("a section"));
        }
    }
    if segments > 0 {
        let table = Flaw::Beyond("the table of segments");
        let table = rows(bytes, word(header, 32), (segments, half(header, 54)), SEGMENT).ok_or(table)?;
        for row in table.chunks_exact(SEGMENT) {
            if span(bytes, word(row, 8), word(row, 32)).is_none() {
                return Err(Flaw::Beyond("a segment"));
            }
        }
    }
    Ok(())
}

/// A table of `count` rows that say to be as long as they must be.
fn rows(bytes: &[u8], offset: u64, (count, length): (u16, u16), wanted: usize) -> Option<&[u8]> {
    (usize::from(length) == wanted).then_some(())?;
    span(bytes, offset, u64::from(count) * wanted as u64)
}

fn span(bytes: &[u8], offset: u64, length: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    bytes.get(start..start.checked_add(usize::try_from(length).ok()?)?)
}

// The callers have made sure that there is a whole header or row.
fn half(row: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([row[at], row[at + 1]])
}
fn tag(row: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| row[at + i]))
}
fn word(row: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| row[at + i]))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A file with one section that holds `content`.
    pub(in crate::gpu) fn with_section(content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER + SECTION];
        bytes[..BEGINS.len()].copy_from_slice(&BEGINS);
        bytes[18..20].copy_from_slice(&MACHINE.to_le_bytes());
        bytes[40..48].copy_from_slice(&(HEADER as u64).to_le_bytes());
        bytes[52..54].copy_from_slice(&(HEADER as u16).to_le_bytes());
        bytes[58..60].copy_from_slice(&(SECTION as u16).to_le_bytes());
        bytes[60..62].copy_from_slice(&1_u16.to_le_bytes());
        bytes[HEADER + 4] = 1; // a section with content
        bytes[HEADER + 24..HEADER + 32].copy_from_slice(&((HEADER + SECTION) as u64).to_le_bytes());
        bytes[HEADER + 32..HEADER + 40].copy_from_slice(&(content.len() as u64).to_le_bytes());
        bytes.extend_from_slice(content);
        bytes
    }

    #[test]
    fn no_part_of_a_file_is_whole_and_nothing_else_is_one() {
        let whole = with_section(b"code");
        assert_eq!(check(&whole), Ok(()));
        assert_eq!(check(&[&whole[..], &[0; 8]].concat()), Ok(()), "what follows is not looked at");
        for length in 0..whole.len() {
            assert!(check(&whole[..length]).is_err(), "{length} bytes");
        }
        for nothing in [&b""[..], b"text", &[0; 200], &[0xff; 200]] {
            assert_eq!(check(nothing), Err(Flaw::NotElf));
        }
    }

    #[test]
    fn what_a_table_points_at_must_be_there() {
        let whole = with_section(b"code");
        let beyond = |at: usize, number: u64| {
            let mut bytes = whole.clone();
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
            check(&bytes)
        };
        for number in [whole.len() as u64, u64::MAX, u64::MAX - 63] {
            assert_eq!(beyond(40, number), Err(Flaw::Beyond("the table of sections")));
            assert_eq!(beyond(HEADER + 24, number), Err(Flaw::Beyond("a section")));
            assert_eq!(beyond(HEADER + 32, number), Err(Flaw::Beyond("a section")));
        }
        let mut bytes = whole.clone();
        bytes[HEADER + 7] = 0x70; // memory of NVIDIA's: no room in the file
        bytes[HEADER + 32] = 0xff;
        assert_eq!(check(&bytes), Ok(()));
        bytes[HEADER + 24] = 0xff;
        assert_eq!(check(&bytes), Err(Flaw::Beyond("a section")));
        let mut bytes = whole.clone();
        bytes[60] = 0;
        assert_eq!(check(&bytes), Err(Flaw::Empty));
        // A segment, in a table where the section's is: byte 8 of a row says where it begins, here and there
        // byte 32 how long it is.
        let mut bytes = whole.clone();
        (bytes[32], bytes[54], bytes[56]) = (HEADER as u8, SEGMENT as u8, 1);
        assert_eq!(check(&bytes), Ok(()));
        bytes[HEADER + 8] = whole.len() as u8;
        assert_eq!(check(&bytes), Err(Flaw::Beyond("a segment")));
        bytes[32] = whole.len() as u8;
        assert_eq!(check(&bytes), Err(Flaw::Beyond("the table of segments")));
    }
}
