//! Key files are parsed, or refused with the line number; they are also refused if others may access them.

use super::*;
use proptest::prelude::*;
use std::os::unix::fs::PermissionsExt;

const ONE: [u8; KEY_BYTES] = [0x5d; KEY_BYTES];
const OTHER: [u8; KEY_BYTES] = [0xa1; KEY_BYTES];

/// A folder that is removed after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("ganglion-key-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn file(robot: &str, secret: [u8; KEY_BYTES]) -> KeyFile {
    KeyFile::new(robot, secret).unwrap()
}

#[test]
fn a_key_file_survives_a_round_trip() {
    let one = file("rover-7", ONE);
    assert_eq!(KeyFile::parse(&one.text()), Ok(one.clone()));
    let two = one.clone().with(OTHER).unwrap();
    assert_eq!(KeyFile::parse(&two.text()), Ok(two.clone()));
    assert_eq!(two.keys().map(|key| key.secret).collect::<Vec<_>>(), [ONE, OTHER], "oldest first");
    assert_eq!(two.newest_only(), file("rover-7", OTHER));
    let spaced = format!("{}\n# a remark\n\n", one.text().replace("\nkey ", "\nkey   "));
    assert_eq!(KeyFile::parse(&spaced), Ok(one));
}

#[test]
fn faults_are_reported_with_their_line() {
    let sound = file("rover", ONE).text();
    let third = file("rover", ONE).with(OTHER).unwrap().text() + &format!("key {}\n", "0".repeat(64));
    for (text, fault) in [
        ("".to_string(), KeyFault::Title),
        (sound.replace("key 1", "key 2"), KeyFault::Title),
        (sound.replace("robot rover\n", ""), KeyFault::Robot),
        (sound.clone() + "robot other\n", KeyFault::Robot),
        (sound.replace("rover", "ro ver"), KeyFault::Name),
        (sound.replace("rover", "../rover"), KeyFault::Name),
        (sound.replace("rover", &"r".repeat(33)), KeyFault::Name),
        (sound.replace("5d\n", "\n"), KeyFault::Line(3)),
        (sound.replace("5d\n", "5g\n"), KeyFault::Line(3)),
        (sound.clone() + "colour blue\n", KeyFault::Line(4)),
        ("ganglion-key 1\nrobot rover\n".to_string(), KeyFault::Count(0)),
        (third, KeyFault::Count(3)),
        (sound.clone() + sound.lines().nth(2).unwrap(), KeyFault::Twice),
    ] {
        assert_eq!(KeyFile::parse(&text), Err(fault), "{text}");
    }
}

#[test]
fn a_file_that_others_may_use_is_refused_with_its_mode() {
    let folder = Folder::new("mode");
    let text = file("rover", ONE).text();
    for mode in [0o400, 0o600, 0o440] {
        assert_eq!(KeyFile::read(&folder.write("a.key", &text, mode)).unwrap().robot(), "rover");
        std::fs::remove_file(folder.0.join("a.key")).unwrap();
    }
    for mode in [0o404, 0o444, 0o402, 0o420, 0o644] {
        let refused = KeyFile::read(&folder.write("a.key", &text, mode)).unwrap_err();
        assert!(matches!(refused, KeyError::Mode(_, found) if found == mode), "{refused}");
        let says = format!("its mode {mode:04o} lets others use the key; allowed: 0400, or 0440 for a group");
        assert!(refused.to_string().ends_with(&says), "{refused}");
        std::fs::remove_file(folder.0.join("a.key")).unwrap();
    }
}

#[test]
fn keys_of_a_folder_are_found_by_id_and_shared_ones_refused() {
    let folder = Folder::new("folder");
    folder.write("a.key", &file("a", ONE).with(OTHER).unwrap().text(), 0o400);
    folder.write("b.key", &file("b", [3; KEY_BYTES]).text(), 0o400);
    folder.write("notes.txt", "not a key", 0o644);
    let keys = Keys::read_dir(&folder.0).unwrap();
    assert_eq!(keys.len(), 3);
    for (robot, secret) in [("a", ONE), ("a", OTHER), ("b", [3; KEY_BYTES])] {
        let key = Key { robot: robot.into(), secret };
        assert_eq!(keys.get(&key.id()), Some(&key));
    }
    assert_eq!(keys.get(&Id([0; 8])), None);
    folder.write("c.key", &file("c", OTHER).text(), 0o400);
    assert!(matches!(Keys::read_dir(&folder.0), Err(KeyError::Shared(..))));
}

#[test]
fn a_key_never_appears_in_debug_output() {
    let one = file("rover", ONE).with(OTHER).unwrap();
    let words = format!("{one:?} {:?} {:?}", one.keys().next().unwrap(), Keys::from(&one));
    assert!(words.contains("rover") && !words.contains("5d5d") && !words.contains("93, 93"), "{words}");
}

proptest! {
    #[test]
    fn any_text_is_refused_or_survives_a_round_trip(
        text in prop_oneof![".*", "ganglion-key 1\n(robot [a-z./]{0,4}\n|key [0-9a-f]{62,66}\n|#.*\n){0,5}"],
    ) {
        if let Ok(file) = KeyFile::parse(&text) {
            prop_assert_eq!(KeyFile::parse(&file.text()), Ok(file));
        }
    }
}
