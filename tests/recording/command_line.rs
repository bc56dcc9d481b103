//! `ganglion log` as called by a user, on complete and on damaged recordings.

use crate::cli::{err, out, output};
use crate::folder::Folder;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Output;

/// A recording of twelve virtual seconds.
pub(super) fn recorded_in(folder: &Folder, name: &str, more: &[&str]) -> String {
    let path = folder.path(name);
    let run = ["run", "--clock", "sim", "--for", "12s", "--engine", "cpu", "--record", &path];
    let ended = output(&[&run[..], more].concat());
    assert_eq!(ended.status.code(), Some(0), "{}", err(&ended));
    path
}

/// A copy of `of` that `change` has damaged.
fn damaged(folder: &Folder, name: &str, of: &str, change: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut bytes = fs::read(of).unwrap();
    change(&mut bytes);
    folder.write(name, bytes)
}

pub(super) fn log(arguments: &[&str]) -> Output {
    output(&[&["log"], arguments].concat())
}

/// The object on the last line of a call that ends with `code`.
pub(super) fn object(arguments: &[&str], code: i32) -> Value {
    let ended = log(&[arguments, &["--json"]].concat());
    assert_eq!(ended.status.code(), Some(code), "{arguments:?}: {}{}", out(&ended), err(&ended));
    serde_json::from_str(out(&ended).lines().last().expect("a line")).expect("an object")
}

/// The message of a call that fails with `code`.
pub(super) fn refused(arguments: &[&str], code: i32) -> String {
    let ended = log(arguments);
    assert_eq!(ended.status.code(), Some(code), "{arguments:?}: {}{}", out(&ended), err(&ended));
    err(&ended)
}

/// Flips a bit of the first JSON message after this many tenths of the file. It must be in a message: bytes
/// between the chunks, such as an index, are not read.
fn flip_a_bit_after(tenths: usize) -> impl FnOnce(&mut Vec<u8>) {
    move |bytes| {
        let from = bytes.len() * tenths / 10;
        let message = bytes[from..].windows(2).position(|pair| pair == b"{\"").expect("messages are JSON");
        bytes[from + message] ^= 4;
    }
}

#[test]
fn a_part_that_is_cut_out_is_a_recording_of_its_own() {
    let folder = Folder::new("log-cut");
    let (whole, part) = (recorded_in(&folder, "whole.mcap", &["--seed", "3"]), folder.path("part.mcap"));
    // A drive takes 23 kB a second; without compression it would take 65.
    let bytes = fs::metadata(&whole).unwrap().len();
    assert!(bytes < 12 * 40_000, "{bytes} bytes");
    let cut = object(&["cut", &whole, &part, "--from", "7", "--to", "9"], 0);
    assert!(
        cut["from_s"].as_f64().is_some_and(|from| (4.5..=5.5).contains(&from)),
        "it begins at the checkpoint before 7 s: {cut}"
    );
    let slots = cut["slots"].as_u64().unwrap();
    assert!((380..=420).contains(&slots), "from 5 s to 9 s: {cut}");
    let replayed = object(&["replay", &part], 0);
    assert_eq!((&replayed["equal"], &replayed["undecided"]), (&slots.into(), &0.into()));
    let same = object(&["replay", &whole, "--from", "7", "--to", "9"], 0);
    assert_eq!(same["equal"], replayed["equal"], "the same part, without a file of its own");
    let info = object(&["info", &part], 0);
    assert_eq!(
        (&info["slots"], &info["slots_missing"], &info["whole"]),
        (&slots.into(), &0.into(), &true.into())
    );
    // An existing recording is not overwritten, and a part without slots leaves no file.
    let before = fs::read(&part).unwrap();
    assert!(refused(&["cut", &whole, &part, "--from", "1"], 69).contains("never overwritten"));
    assert_eq!(fs::read(&part).unwrap(), before);
    let none = folder.path("none.mcap");
    refused(&["cut", &whole, &none, "--from", "100"], 65);
    refused(&["cut", &whole, &none], 64);
    refused(&["cut", &whole, &none, "--from", "3", "--to", "2"], 64);
    assert!(!Path::new(&none).exists());
}

#[test]
fn a_damaged_recording_is_cut_up_to_the_damage_and_it_is_said() {
    let folder = Folder::new("log-cut-damaged");
    let whole = recorded_in(&folder, "whole.mcap", &[]);
    let damaged = damaged(&folder, "damaged.mcap", &whole, flip_a_bit_after(5));
    let part = folder.path("part.mcap");
    let said = refused(&["cut", &damaged, &part, "--from", "0", "--to", "12"], 65);
    assert!(said.contains("ends early") && said.contains("damaged before byte"), "{said}");
    let replayed = object(&["replay", &part], 0);
    assert!(replayed["equal"].as_u64().is_some_and(|equal| equal > 100), "{replayed}");
    // Everything that ends before the damage is unaffected.
    object(&["cut", &damaged, &folder.path("begin.mcap"), "--from", "0", "--to", "1"], 0);
}

#[test]
fn what_is_readable_of_a_damaged_recording_is_recovered() {
    let folder = Folder::new("log-recover");
    let whole = recorded_in(&folder, "whole.mcap", &["--seed", "5"]);
    let slots = object(&["info", &whole], 0)["slots"].as_u64().unwrap();
    let recovered = |name: &str, from: &str| {
        let new = folder.path(name);
        let report = object(&["recover", from, &new], 0);
        let kept = report["slots"].as_u64().unwrap();
        let replayed = object(&["replay", &new], 0);
        assert_eq!((&replayed["equal"], &replayed["slots"]), (&kept.into(), &kept.into()), "{from}");
        let info = object(&["info", &new], 0);
        assert_eq!(info["whole"], true, "{from}: the new file is complete");
        (kept, report["whole"].as_bool().unwrap(), report["damage"].is_string())
    };
    assert_eq!(recovered("a.mcap", &whole), (slots, true, false), "nothing was missing");
    let cut_off = damaged(&folder, "cut.mcap", &whole, |bytes| bytes.truncate(bytes.len() * 6 / 10));
    let (kept, ended, is_damaged) = recovered("b.mcap", &cut_off);
    assert!((slots / 4..slots * 7 / 10).contains(&kept) && !ended && !is_damaged, "{kept} of {slots}");
    let flipped = damaged(&folder, "flipped.mcap", &whole, flip_a_bit_after(6));
    let (kept, ended, is_damaged) = recovered("c.mcap", &flipped);
    assert!((slots / 4..slots * 7 / 10).contains(&kept) && !ended && is_damaged, "{kept} of {slots}");
    let (other, none) = (folder.path("other.mcap"), folder.path("none.mcap"));
    fs::write(&other, b"time,range\n1,2\n").unwrap();
    assert!(refused(&["recover", &other, &none], 65).contains("not an MCAP file"));
    assert!(!Path::new(&none).exists(), "nothing is left behind");
}

#[test]
fn the_first_difference_of_two_runs_is_named() {
    let folder = Folder::new("log-diff");
    let [a, b] = ["a.mcap", "b.mcap"].map(|name| recorded_in(&folder, name, &["--seed", "7"]));
    let other = recorded_in(&folder, "other.mcap", &["--seed", "7", "--fault", "sonar-silent@6+2"]);
    let same = object(&["diff", &a, &b], 0);
    assert!(same["differs"].is_null() && same["equal"].as_u64().is_some_and(|equal| equal > 1_000), "{same}");
    let found = object(&["diff", &a, &other], 65);
    let (slot, words) = (found["differs_in_slot"].as_u64().unwrap(), found["differs"].as_str().unwrap());
    assert!((590..700).contains(&slot), "the fault begins after 6 s: {found}");
    assert!(words.contains("in the first run and") && words.contains("in the second"), "{words}");
    let said = refused(&["diff", &a, &other], 65);
    assert!(said.contains(&format!("slot {slot}:")), "{said}");
    let shorter = folder.path("shorter.mcap");
    object(&["cut", &b, &shorter, "--to", "5"], 0);
    assert!(refused(&["diff", &a, &shorter], 65).contains("only the first has this slot"));
    let damaged = damaged(&folder, "damaged.mcap", &b, flip_a_bit_after(5));
    assert!(refused(&["diff", &a, &damaged], 65).contains("damaged before byte"));
}

#[test]
fn slots_that_another_limit_changes_are_listed() {
    let folder = Folder::new("log-what-if");
    let whole = recorded_in(&folder, "whole.mcap", &["--seed", "3"]);
    let slots = object(&["info", &whole], 0)["slots"].clone();
    let same = object(&["replay", &whole, "--what-if", "reflex.obstacle.below=0.15"], 0);
    assert_eq!((&same["what_if"]["slots"], &same["equal"]), (&0.into(), &slots), "the value that it had");
    let changed = object(
        &[
            "replay",
            &whole,
            "--what-if",
            "reflex.obstacle.below=1.5",
            "--what-if",
            "reflex.obstacle.clear=1.6",
        ],
        0,
    );
    let (otherwise, equal) = (&changed["what_if"], changed["equal"].as_u64().unwrap());
    let count = otherwise["slots"].as_u64().unwrap();
    assert!(count > 100 && equal + count == slots.as_u64().unwrap(), "{changed}");
    let first = &otherwise["stretches"][0];
    assert!(first["what"].as_str().is_some_and(|what| what.contains("cause")), "{first}");
    assert!(first["from_s"].as_f64() <= first["to_s"].as_f64(), "{first}");
    assert!(
        out(&log(&[
            "replay",
            &whole,
            "--what-if",
            "reflex.obstacle.below=1.5",
            "--what-if",
            "reflex.obstacle.clear=1.6"
        ]))
        .contains(&format!("{count} slots would have been decided differently"))
    );
    let help = out(&log(&["replay", "--help"]));
    let example =
        help.lines().find_map(|line| line.split("--what-if ").nth(1).filter(|_| line.contains("drive.mcap")));
    let example = example.and_then(|rest| rest.split_whitespace().next()).expect("an example");
    object(&["replay", &whole, "--what-if", example], 0);
    let conflict = refused(&["replay", &whole, "--what-if", "reflex.obstacle.below=0.25"], 64);
    assert!(conflict.contains("reflex.obstacle.clear") && !conflict.contains(".toml"), "{conflict}");
    for wrong in ["reflex.obstacle.below", "reflex.nothing.below=1", "reflex.obstacle.below=9000"] {
        assert!(refused(&["replay", &whole, "--what-if", wrong], 64).contains("--what-if"));
    }
}

#[test]
fn a_recording_cut_before_its_first_slot_is_not_called_complete() {
    let folder = Folder::new("log-no-slot");
    let whole = recorded_in(&folder, "whole.mcap", &[]);
    // The header, metadata and the board are before the first chunk of slots.
    let bytes = fs::read(&whole).unwrap();
    let chunk = bytes.windows(3).position(|three| three == b"lz4").expect("a compressed chunk");
    let cut = damaged(&folder, "cut.mcap", &whole, |bytes| bytes.truncate(chunk + 100));
    let said = out(&log(&["info", &cut]));
    assert!(said.contains("no complete slot") && said.contains("truncated"), "{said}");
    assert!(!said.contains("Nothing is missing") && !said.contains("quality level"), "{said}");
    let new = folder.path("new.mcap");
    assert!(refused(&["recover", &cut, &new], 65).contains("the recording has no complete slot"));
}
