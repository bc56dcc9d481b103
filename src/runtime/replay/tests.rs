//! The version of a recording identifies one layout of its bytes.

use super::Replay;
use crate::deploy::board::built_in;
use crate::drive::record::{FORMAT, Slot};
use crate::system::checkpoint::layout::layout;
use crate::system::checkpoint::{Archive, Remembers};

/// The version of the bytes of slots and checkpoints, and the digest of their layout.
const KNOWN: (u32, &str) = (11, "f671a29f00fdc3ef");

#[test]
fn another_layout_of_a_recording_has_another_version() {
    let board = built_in("sim").unwrap().unwrap().board;
    let mut replay = Replay::new(&board, None).unwrap();
    let mut lines = Vec::new();
    replay.tick.walk(&mut Archive::layout(&mut lines)).unwrap();
    // One more sensor, rule or motor does not change the layout.
    let mut text = vec![layout::<Slot>()];
    lines.into_iter().for_each(|line| {
        if !text.contains(&line) {
            text.push(line)
        }
    });
    for part in
        ["grid", "frame", "admission", "reflexes", "modes", "trail", "arbiter", "motor link", "field link"]
    {
        assert!(text.iter().any(|line| line.starts_with(part)), "{part} is not in a checkpoint");
    }
    let digest = blake3::hash(text.join("\n").as_bytes()).to_hex();
    assert_eq!(
        (FORMAT, &digest[..16]),
        KNOWN,
        "the byte layout of slots or checkpoints has changed: raise FORMAT, unless only a name has changed, and \
         update the digest in KNOWN. The layout is now:\n{}",
        text.join("\n")
    );
}
