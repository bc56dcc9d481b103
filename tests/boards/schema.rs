//! The JSON Schema of board files has exactly the keys that the checks request. All shipped boards conform to
//! it, and boards with mistakes do not.

use super::schema_subset::faults_of;
use super::text_of;
use ganglion::deploy::board;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::LazyLock;

fn board_of(text: &str) -> Value {
    toml::from_str(text).expect("TOML")
}

/// What the schema finds wrong with this text, one line each. The schema is made once for all texts.
fn refused(text: &str) -> Vec<String> {
    static SCHEMA: LazyLock<Value> = LazyLock::new(board::schema);
    faults_of(&board_of(text), &SCHEMA)
}

#[test]
fn the_committed_schema_is_up_to_date() {
    let committed = std::fs::read_to_string("boards/board.schema.json").expect("the schema");
    let made = format!("{:#}\n", board::schema());
    assert!(committed == made, "run: ganglion check --schema > boards/board.schema.json");
}

#[test]
fn every_shipped_board_names_the_schema_and_fits_it() {
    assert!(board::BUILT_IN.len() >= 10);
    for (name, text) in board::BUILT_IN {
        assert_eq!(text.lines().next(), Some("#:schema board.schema.json"), "{name}");
        assert_eq!(refused(text), [""; 0], "{name}");
        // All keys of the board at once, defaults included.
        let whole = super::shipped(name).effective().join("\n");
        assert_eq!(refused(&whole), [""; 0], "{name}, in full");
    }
}

/// Keys that the sources of the checks request from a section, found as string literals in calls.
fn keys_in_the_checks() -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    let folder = std::fs::read_dir("src/deploy/board/check").expect("the checks");
    let files =
        folder.map(|entry| entry.expect("an entry").path()).chain(["src/deploy/board/check.rs".into()]);
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a source");
        let text: String = text.split_whitespace().collect();
        for (at, _) in text.match_indices("(\"").chain(text.match_indices(",\"")) {
            let (before, rest) = (&text[..at], &text[at + 2..]);
            let key = rest.split('"').next().unwrap_or_default();
            // `section.real("key"`, `root.entries("list","name"`, or `wires::line(section,"key"`.
            let call = before.rsplit(['(', ';', '{', '}', '=']).next().unwrap_or_default();
            let asks = match text.as_bytes()[at] {
                b'(' => ASKS.iter().any(|ask| call.ends_with(ask)),
                _ => {
                    let first = before.rsplit('(').next().unwrap_or_default();
                    let list =
                        before.ends_with("\"i2c\"") || first.starts_with('"') && LISTS.contains(&first);
                    list || ["section", "&section"].contains(&first)
                }
            };
            let is_key = key.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
            if asks && is_key {
                keys.insert(key.to_string());
            }
        }
    }
    keys
}

/// The reader's methods that request a key.
const ASKS: [&str; 20] = [
    ".integer",
    ".distinct_integers",
    ".addresses",
    ".real",
    ".millis",
    ".flag",
    ".text",
    ".texts",
    ".choice",
    ".name_among",
    ".index",
    ".indices",
    ".line",
    ".address_on",
    ".reals::<2>",
    ".rows::<2>",
    ".rows::<4>",
    ".channel",
    ".section",
    ".entries",
];

/// Lists whose entries have a name; the second literal in the call is the name's key.
const LISTS: [&str; 5] = ["\"i2c\"", "\"motor\"", "\"sensor\"", "\"reflex\"", "\"decision\""];

/// The name of every property in `schema`, at any depth.
fn properties(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::Object(keys)) = members.get("properties") {
                found.extend(keys.keys().cloned());
            }
            members.values().for_each(|member| properties(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| properties(item, found)),
        _ => {}
    }
}

#[test]
fn the_schema_has_exactly_the_keys_of_the_checks() {
    let mut found = BTreeSet::new();
    properties(&board::schema(), &mut found);
    // Inheritance removes these keys before the checks.
    for key in ["inherits", "like", "remove"] {
        assert!(found.remove(key), "{key}");
    }
    let mut expected = keys_in_the_checks();
    // The lists whose entries have no name of their own.
    expected.extend(["start", "decision_input"].map(str::to_string));
    let missing: Vec<_> = expected.difference(&found).collect();
    let extra: Vec<_> = found.difference(&expected).collect();
    assert!(missing.is_empty() && extra.is_empty(), "missing: {missing:?}; not in the checks: {extra:?}");
    assert!(expected.len() > 150, "{}", expected.len());
}

/// Adds copies of the whole board to `all`, each with one mistake in `board`, the part at `path`: an unknown
/// key in a table (unless its keys are free names), or a wrong value in place of a number, a boolean or a
/// string. `put` puts a changed part back into the whole board.
fn with_a_slip(board: &Value, path: &str, all: &mut Vec<(String, Value)>, put: &dyn Fn(Value) -> Value) {
    match board {
        Value::Object(members) => {
            let free = ["/reserved", "/reserved_i2c"].contains(&path);
            if !free && !path.ends_with("/motors") {
                let mut slipped = members.clone();
                slipped.insert("no_such_key".to_string(), json!(1));
                all.push((path.to_string(), put(Value::Object(slipped))));
            }
            for (key, value) in members {
                let inside = |value| {
                    let mut members = members.clone();
                    members.insert(key.clone(), value);
                    put(Value::Object(members))
                };
                with_a_slip(value, &format!("{path}/{key}"), all, &inside);
            }
        }
        Value::Array(items) => {
            for (nth, item) in items.iter().enumerate() {
                let inside = |value| {
                    let mut items = items.clone();
                    items[nth] = value;
                    put(Value::Array(items))
                };
                with_a_slip(item, &format!("{path}/{nth}"), all, &inside);
            }
        }
        // No key accepts this number, or a nested list in place of a number.
        Value::Number(_) => {
            all.push((path.to_string(), put(json!(-1e300))));
            all.push((path.to_string(), put(json!([["word"]]))));
        }
        Value::Bool(_) | Value::String(_) => all.push((path.to_string(), put(json!(-1e300)))),
        Value::Null => {}
    }
}

#[test]
fn the_schema_refuses_every_mistake_everywhere() {
    let schema = board::schema();
    for name in ["picarx-v4", "generic-linux", "sim", "jetson-orin-nano"] {
        let mut slips = Vec::new();
        with_a_slip(&board_of(text_of(name)), "", &mut slips, &|board| board);
        assert!(slips.len() > 10, "{name}: {}", slips.len());
        for (path, board) in slips {
            assert!(!faults_of(&board, &schema).is_empty(), "{name}: a mistake at {path} is accepted");
        }
    }
}

#[test]
fn the_schemas_ranges_and_kinds_match_the_checks() {
    for (text, fits) in [
        ("period_ms = 0.5", true),
        ("period_ms = 0.4", false),
        ("period_ms = 1000", true),
        ("period_ms = 1001", false),
        ("period_ms = { remove = true }", true),
        ("period_ms = { remove = false }", false),
        ("rt.priority = 94", true),
        ("rt.priority = 95", false),
        ("rt.strict = 1", false),
        ("[[sensor]]\nname = \"a\"\nkind = \"mpu6050\"\naddress = 0x68", true),
        ("[[sensor]]\nname = \"a\"\nkind = \"mpu6050\"\naddress = 0x40", false),
        ("[[sensor]]\nname = \"a\"\nkind = \"ina219\"\naddress = 0x40", true),
        ("[[sensor]]\nname = \"a\"\naddress = 0x40", true), // its kind is inherited
        ("[[sensor]]\nname = \"a\"\nkind = \"mpu6050\"\ntrig = 4", false),
        ("[[sensor]]\nname = \"a\"\nkind = \"mpu6051\"", false),
        ("[[sensor]]\nname = \"a\"\nlike = \"b\"", true),
        ("[[sensor]]\nname = \"a b\"", false),
        ("[[sensor]]\nkind = \"button\"", false),
        ("[[motor]]\nname = \"a\"\nkind = \"servo\"\npwm = \"P19\"", true),
        ("[[motor]]\nname = \"a\"\nkind = \"servo\"\npwm = \"P20\"", false),
        ("[[motor]]\nname = \"a\"\nkind = \"servo\"\npwm = 15", true),
        ("[[motor]]\nname = \"a\"\nkind = \"servo\"\nmin_duty = 0.1", false),
        ("[bus]\nkind = \"linux\"\naccess = \"rppal\"", true),
        ("[bus]\nkind = \"linux\"\naccess = \"rpal\"", false),
        ("[bus]\nkind = \"sim\"\naccess = \"rppal\"", false),
        ("[bus.rail]\nline = \"PH.07\"\non_high = true", true),
        ("[bus.rail]\nline = 256", false),
        ("[reserved]\nwhoever = 4", true),
        ("[reserved]\n\"who ever\" = 4", false),
        ("[reserved_i2c]\neeprom = \"side:0x50\"", true),
        ("[reserved_i2c]\neeprom = \"0x50\"", false),
        ("[[decision]]\nlabel = \"left\"\nmotors = { a = 1.0 }", true),
        ("[[decision]]\nlabel = \"left\"\nmotors = { a = 1.1 }", false),
        ("[motion]\nbody = [0.3, 0.2]", true),
        ("[motion]\nbody = [0.3, 0.2, 0.1]", false),
        ("[sim]\ncliffs = [[0, 0, 1, 1]]", true),
        ("[sim]\ncliffs = [[0, 0, 1]]", false),
        ("[mcu]\naddress = [0x14, 0x15]", true),
        ("[mcu]\naddress = []", false),
        ("mcu = { remove = true }", true),
        ("sensors = []", false),
    ] {
        assert_eq!(refused(text).is_empty(), fits, "{text}: {:?}", refused(text));
    }
}
