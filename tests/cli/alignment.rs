//! `scripts/segment-alignment`, with which `scripts/build-aarch64` checks its result: it accepts exactly the
//! files that a kernel with larger pages can load.

use crate::folder::Folder;
use std::path::Path;
use std::process::Command;

/// The exit code and the standard error for `file`, for pages of `page` bytes.
fn alignment(page: &str, file: &Path) -> (Option<i32>, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/segment-alignment");
    let output = Command::new(script).arg(page).arg(file).output().expect("bash");
    (output.status.code(), super::err(&output))
}

/// An ELF file with a note and LOAD segments of (offset, address, alignment): headers only.
fn elf(segments: &[(u64, u64, u64)]) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(64, 0);
    bytes[32..40].copy_from_slice(&64u64.to_le_bytes()); // offset of the program headers
    bytes[54..56].copy_from_slice(&56u16.to_le_bytes()); // size of each
    bytes[56..58].copy_from_slice(&(segments.len() as u16 + 1).to_le_bytes());
    let mut header = |kind: u32, offset: u64, address: u64, align: u64| {
        bytes.extend(kind.to_le_bytes());
        bytes.extend(4u32.to_le_bytes());
        [offset, address, address, 16, 16, align].iter().for_each(|field| bytes.extend(field.to_le_bytes()));
    };
    header(4, 64, 64, 4); // PT_NOTE: aligned to words
    segments.iter().for_each(|&(offset, address, align)| header(1, offset, address, align));
    bytes
}

#[test]
fn binary_for_small_pages_is_refused() {
    let folder = Folder::new("elf");
    for (name, segments, pages_of_64, pages_of_16) in [
        ("good", &[(0, 0, 0x10000), (0x1234, 0x21234, 0x10000)][..], 0, 0),
        ("larger", &[(0, 0, 0x20000)], 0, 0),
        ("small", &[(0, 0, 0x1000), (0x1234, 0x2234, 0x1000)], 70, 70),
        ("a-pi", &[(0, 0, 0x4000), (0x1234, 0x5234, 0x4000)], 70, 0),
        ("second", &[(0, 0, 0x10000), (0x1234, 0x2234, 0x1000)], 70, 70),
        ("elsewhere", &[(0x1234, 0x25234, 0x10000)], 70, 0),
        ("nothing", &[], 65, 65),
    ] {
        let file = folder.write(name, elf(segments));
        for (page, expected) in [("65536", pages_of_64), ("16384", pages_of_16)] {
            let (code, words) = alignment(page, Path::new(&file));
            assert_eq!(code, Some(expected), "{name} on pages of {page}: {words}");
            assert_eq!(words.is_empty(), expected == 0, "{words}");
        }
    }
    // A real ELF file: the program under test, for a processor with pages of 4 KiB.
    let own = Path::new(env!("CARGO_BIN_EXE_ganglion"));
    let on_small = alignment("4096", own);
    assert_eq!(on_small.0, Some(0), "{}", on_small.1);
    assert_eq!(alignment("65536", Path::new("/no/such/file")).0, Some(65));
    assert_eq!(alignment("65536", &Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).0, Some(65));
}
