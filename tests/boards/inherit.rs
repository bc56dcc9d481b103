//! What one board inherits from another, and the origin that is shown for each value.

use super::{faults, shipped, text_of};
use crate::folder::Folder;
use ganglion::base::plan::{MotorKind, Storage, Targets};
use ganglion::deploy::board::{self, BoardError, Loaded};
use std::path::Path;

/// A folder with these board files.
fn holding(test: &str, files: &[(&str, &str)]) -> Folder {
    let folder = Folder::new(test);
    for (name, text) in files {
        folder.write(name, text);
    }
    folder
}

fn load(folder: &Folder, name: &str) -> Result<Loaded, BoardError> {
    board::load(&folder.join(name))
}

fn child(text: &str) -> Loaded {
    let text = format!("inherits = \"picarx-v4\"\n{text}");
    board::from_text("child", &text).unwrap_or_else(|error| panic!("{error:#}"))
}

/// Where the value of `key` comes from, as `file:line` or `default`.
fn origin(loaded: &Loaded, key: &str) -> String {
    let setting =
        loaded.settings.iter().find(|setting| setting.key == key).unwrap_or_else(|| panic!("no {key}"));
    setting.origin.as_ref().map_or("default".to_string(), |spot| spot.to_string())
}

#[test]
fn a_child_that_changes_nothing_equals_its_parent() {
    assert_eq!(child("").digest, shipped("picarx-v4").digest);
}

#[test]
fn a_changed_key_shows_its_origin() {
    let loaded = child("\n[[sensor]]\nname = \"range\"\nmax_age_ms = 150\n");
    let parent = shipped("picarx-v4");
    assert_eq!(loaded.board.sensors[0].max_age.as_micros_f64(), 150_000.0);
    let names = |loaded: &Loaded| loaded.board.sensors.iter().map(|s| s.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&loaded), names(&parent), "the parent's order is kept");
    assert_eq!(origin(&loaded, "sensor.range.max_age_ms"), "child.toml:5");
    assert!(origin(&loaded, "sensor.range.trig").starts_with("built-in/picarx-v4.toml:"));
    assert_eq!(origin(&loaded, "motor.left.limit"), "default");
    let changed: Vec<_> = loaded
        .settings
        .iter()
        .zip(&parent.settings)
        .filter(|(a, b)| a.value != b.value)
        .map(|(a, _)| &a.key)
        .collect();
    assert_eq!(changed, ["sensor.range.max_age_ms"]);
}

#[test]
fn field_storage_and_cores_are_shown_with_their_origin() {
    let plain = child("").board.field;
    assert_eq!((plain.storage, plain.cpus), (Storage::F32, vec![]));
    let loaded = child("[field]\nstorage = \"f16\"\ncpus = [3, 1, 2]\n");
    assert_eq!((loaded.board.field.storage, &*loaded.board.field.cpus), (Storage::F16, &[3, 1, 2][..]));
    assert_eq!(origin(&loaded, "field.storage"), "child.toml:3");
    assert_eq!(origin(&loaded, "field.cpus"), "child.toml:4");
    let text = loaded.effective().join("\n");
    assert!(text.contains("\ncpus = [3, 1, 2] ") && text.contains("\nstorage = \"f16\" "), "{text}");
    // A board that does not state these keys gets the defaults, and they are shown as such.
    let bare = text_of("picarx-v4").replace("storage = \"f32\"\n", "").replace("cpus = []", "");
    let bare = board::from_text("bare", &bare).unwrap();
    assert_eq!((bare.board.field.storage, bare.board.field.cpus.len()), (Storage::F32, 0));
    assert_eq!([origin(&bare, "field.storage"), origin(&bare, "field.cpus")], ["default", "default"]);
}

#[test]
fn targets_are_inherited_singly_and_removed_together() {
    let parent = shipped("picarx-v4").board.targets;
    let own = child("[targets]\nmemory_mb = 48\n");
    assert_eq!(own.board.targets, Targets { memory_mb: Some(48.0), ..parent });
    assert_eq!(origin(&own, "targets.memory_mb"), "child.toml:3");
    assert!(origin(&own, "targets.wake_ratio").starts_with("built-in/picarx-v4.toml:"));
    assert_eq!(child("targets = { remove = true }\n").board.targets, Targets::default());
    // Removed targets stay removed: no default replaces them.
    let none = child("targets = { remove = true }\n");
    assert!(!none.settings.iter().any(|setting| setting.key.starts_with("targets")));
}

#[test]
fn changing_the_kind_drops_inherited_keys() {
    let pair = "[[motor]]\nname = \"left\"\nkind = \"dc-pair\"\nforward = \"P13\"\nbackward = \"P11\"\nslew_per_s = 4\n";
    let loaded = child(pair);
    assert_eq!(loaded.board.motors[0].kind, MotorKind::DcPair { forward: 13, backward: 11, min_duty: 0.0 });
    assert_eq!(origin(&loaded, "motor.left.min_duty"), "default", "not the parent's value");
    assert!(!loaded.settings.iter().any(|setting| setting.key == "motor.left.dir"));
}

#[test]
fn entries_and_tables_are_removed() {
    let loaded = child(
        "[[reflex]]\nname = \"stop-button\"\nremove = true\n[[sensor]]\nname = \"button\"\nremove = true\n\
         [[sensor]]\nname = \"battery\"\ninput = { remove = true }\n",
    );
    let parent = shipped("picarx-v4").board;
    assert_eq!(loaded.board.sensors.len(), parent.sensors.len() - 1);
    assert_eq!(loaded.board.reflexes.len(), parent.reflexes.len() - 1);
    assert_eq!(loaded.board.field.shape.sensors, parent.field.shape.sensors - 1);
}

#[test]
fn removing_a_missing_entry_is_a_fault() {
    let told = faults("inherits = \"sim\"\n[[sensor]]\nname = \"radar\"\nremove = true\n");
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(
        told[0].contains("bad.toml:2:")
            && told[0].contains("sensor.radar: nothing with that name is inherited")
    );
}

#[test]
fn removing_a_sensor_faults_its_reflex() {
    let told = faults("inherits = \"sim\"\n[[sensor]]\nname = \"lean\"\nremove = true\n");
    assert_eq!(told.len(), 2, "{told:#?}");
    assert!(told.iter().all(|line| line.contains("no sensor is named `lean`")), "{told:#?}");
}

#[test]
fn a_name_may_appear_once_in_a_file() {
    let twice =
        "[[sensor]]\nname = \"range\"\nmax_age_ms = 100\n[[sensor]]\nname = \"range\"\nmax_age_ms = 120\n";
    let told = faults(&format!("inherits = \"sim\"\n{twice}"));
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(
        told[0].contains(
            "bad.toml:6:8: sensor.range.name: the name `range` is already taken by sensor.range (bad.toml:2)"
        ),
        "{}",
        told[0]
    );
}

#[test]
fn like_copies_unstated_keys() {
    let loaded = child(
        "[[sensor]]\nname = \"floor\"\nlike = \"ground-left\"\nchannel = \"A3\"\ninput = { high = 3000 }\n",
    );
    let floor = loaded.board.sensors.last().unwrap();
    assert_eq!(floor.unit, "counts");
    let input = floor.input.unwrap();
    assert_eq!((input.low, input.high), (0.0, 3000.0), "inner tables are merged, too");
    assert_eq!(origin(&loaded, "sensor.floor.channel"), "child.toml:5");
    assert!(origin(&loaded, "sensor.floor.unit").starts_with("built-in/picarx-v4.toml:"));
}

#[test]
fn sibling_file_is_inherited_by_full_name_and_shadows_nothing() {
    let own = shipped("picarx-v4").effective().join("\n").replace("max_age_ms = 300.0", "max_age_ms = 180.0");
    let folder = holding(
        "beside",
        &[
            ("picarx-v4.toml", &own),
            ("mine.toml", "inherits = \"picarx-v4.toml\"\n"),
            ("plain.toml", "inherits = \"picarx-v4\"\n"),
            ("other.toml", "inherits = \"picarx-v5\"\n"),
            ("short.toml", "inherits = \"mine\"\n"),
            ("gone.toml", "inherits = \"picarx-v5.toml\"\n"),
        ],
    );
    let loaded = load(&folder, "mine.toml").unwrap();
    assert_eq!(loaded.board.name, "mine");
    assert_eq!(loaded.board.sensors[0].max_age.as_micros_f64(), 180_000.0);
    assert!(origin(&loaded, "sensor.range.max_age_ms").contains(&*folder.to_string_lossy()));
    // A built-in board inherits built-in boards, whatever files are in the folder.
    assert_eq!(load(&folder, "other.toml").unwrap().digest, shipped("picarx-v5").digest);
    assert_eq!(load(&folder, "plain.toml").unwrap().digest, shipped("picarx-v4").digest);
    for (file, words) in [
        ("short.toml", "inherits: no built-in board is named `mine`; did you mean `mine.toml`?"),
        (
            "gone.toml",
            "inherits: no board file in the same folder is named `picarx-v5.toml`; did you mean `picarx-v5`?",
        ),
    ] {
        let error = load(&folder, file).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn inheritance_cycles_are_refused() {
    let folder = holding(
        "chains",
        &[
            ("self.toml", "inherits = \"self.toml\"\n"),
            ("a.toml", "inherits = \"b.toml\"\n"),
            ("b.toml", "\ninherits = \"a.toml\"\n"),
            ("zero.toml", "inherits = \"one.toml\"\n"),
            ("one.toml", "inherits = \"two.toml\"\n"),
            ("two.toml", "inherits = \"three.toml\"\n"),
            ("three.toml", "inherits = \"sim\"\n"),
            ("up.toml", "inherits = \"../sim\"\n"),
        ],
    );
    for (file, words) in [
        ("self.toml", "self.toml:1:12: inherits: inherits itself: self -> self.toml"),
        ("a.toml", "b.toml:2:12: inherits: inherits itself: a -> b.toml -> a.toml"),
        ("zero.toml", "a chain of 7 boards; allowed: at most 6"),
        ("up.toml", "found \"../sim\"; allowed: the name of a built-in board"),
    ] {
        match load(&folder, file) {
            Err(error @ BoardError::Refused(_)) => assert!(error.to_string().contains(words), "{error}"),
            other => panic!("{file}: {other:?}"),
        }
    }
    assert!(load(&folder, "one.toml").is_ok(), "six boards deep");
}

#[test]
fn a_path_without_a_folder_means_the_current_folder() {
    // `Path::parent` of a path without a folder is the empty path; sibling boards are looked up there.
    let error = board::load(Path::new("Cargo.toml")).unwrap_err().to_string();
    assert!(error.contains("package: unknown key"), "{error}");
}

#[test]
fn a_single_key_can_be_removed() {
    let gone = board::from_text(
        "x",
        "inherits = \"picarx-v4\"\n[[sensor]]\nname = \"range\"\nworst_per_s = { remove = true }\n",
    );
    let board = gone.unwrap().board;
    let range = board.sensors.iter().find(|sensor| sensor.name == "range").unwrap();
    assert_eq!(range.worst_per_s, 0.0);
    let nothing = faults("inherits = \"picarx-v4\"\n[guard]\nhold = { remove = true }\n");
    assert!(nothing.len() == 1 && nothing[0].contains("nothing with that name is inherited"), "{nothing:#?}");
}
