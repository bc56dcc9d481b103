//! Checks that the lengths inside an MCAP record fit into the record. The crate `mcap` (0.26) trusts them:
//! it reserves memory for a text of any length, and panics on an attachment that ends before its checksum.
//!
//! Layouts: the MCAP specification, section "Records".

use mcap::records::op;

/// Whether the program uses records of this kind. It reads a file from start to end, so the indexes in the
/// summary are of no use to it.
pub(super) fn is_used(opcode: u8) -> bool {
    matches!(
        opcode,
        op::HEADER
            | op::FOOTER
            | op::SCHEMA
            | op::CHANNEL
            | op::MESSAGE
            | op::ATTACHMENT
            | op::METADATA
            | op::DATA_END
    )
}

/// Whether everything that a record of a used kind contains ends inside the record.
pub(super) fn fit(opcode: u8, record: &[u8]) -> bool {
    let mut rest = Some(record);
    match opcode {
        op::HEADER => skip_texts(&mut rest, 2),
        op::METADATA => {
            skip_texts(&mut rest, 1);
            skip_map(&mut rest);
        }
        op::SCHEMA => {
            skip(&mut rest, 2); // its id
            skip_texts(&mut rest, 3);
        }
        op::CHANNEL => {
            skip(&mut rest, 2 + 2); // its id and its schema's
            skip_texts(&mut rest, 2);
            skip_map(&mut rest);
        }
        op::ATTACHMENT => {
            skip(&mut rest, 8 + 8); // two times
            skip_texts(&mut rest, 2);
            let length = rest.and_then(|rest| rest.first_chunk()).map(|bytes| u64::from_le_bytes(*bytes));
            skip(&mut rest, 8);
            skip(&mut rest, length.and_then(|length| usize::try_from(length).ok()).unwrap_or(usize::MAX));
            skip(&mut rest, 4); // the checksum
        }
        _ => {}
    }
    rest.is_some()
}

/// Skips a map of texts, which is preceded by its length in bytes.
fn skip_map(rest: &mut Option<&[u8]>) {
    let Some(length) = take_length(rest) else { return };
    let mut map = rest.and_then(|rest| rest.get(..length));
    skip(rest, length);
    while map.is_some_and(|map| !map.is_empty()) {
        skip_texts(&mut map, 2);
    }
    if map.is_none() {
        *rest = None;
    }
}

/// Skips `count` texts, each preceded by its length in bytes.
fn skip_texts(rest: &mut Option<&[u8]>, count: usize) {
    for _ in 0..count {
        let Some(length) = take_length(rest) else { return };
        skip(rest, length);
    }
}

fn take_length(rest: &mut Option<&[u8]>) -> Option<usize> {
    let length = rest.and_then(|rest| rest.first_chunk()).map(|bytes| u32::from_le_bytes(*bytes));
    skip(rest, 4);
    length.map(|length| length as usize)
}

/// Skips this many bytes; `rest` becomes `None` if there are fewer.
fn skip(rest: &mut Option<&[u8]>, bytes: usize) {
    *rest = rest.and_then(|rest| rest.get(bytes..));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<u8> {
        [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
    }

    fn map(entries: &[u8]) -> Vec<u8> {
        [&(entries.len() as u32).to_le_bytes(), entries].concat()
    }

    #[test]
    fn a_record_cut_anywhere_does_not_fit() {
        let entries = [text("key"), text("value")].concat();
        let records = [
            (op::HEADER, [text("profile"), text("library")].concat()),
            (op::SCHEMA, [vec![1, 0], text("name"), text("json"), text("{}")].concat()),
            (op::CHANNEL, [vec![1, 0, 1, 0], text("/slot"), text("json"), map(&entries)].concat()),
            (op::METADATA, [text("ganglion"), map(&entries)].concat()),
            (
                op::ATTACHMENT,
                [vec![0; 16], text("a"), text("b"), vec![2, 0, 0, 0, 0, 0, 0, 0], vec![7; 2], vec![0; 4]]
                    .concat(),
            ),
        ];
        for (opcode, record) in &records {
            assert!(is_used(*opcode) && fit(*opcode, record), "{opcode}");
            for cut in 0..record.len() {
                assert!(!fit(*opcode, &record[..cut]), "{opcode} cut at {cut}");
            }
        }
    }

    #[test]
    fn a_text_longer_than_its_map_does_not_fit() {
        let mut entries = [text("key"), text("value")].concat();
        entries[7] = 200;
        let record = [text("ganglion"), map(&entries), vec![0; 300]].concat();
        assert!(!fit(op::METADATA, &record));
    }
}
