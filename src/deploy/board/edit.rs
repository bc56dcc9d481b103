//! Changes single values in a board file and leaves everything else as its author wrote it: comments, order,
//! spelling. Used to save calibrations.

use super::load::{BoardError, from_text_in};
use super::raw::{self, Node, Table, Value};
use super::source::Sources;
use std::fmt;
use std::path::Path;

/// A new value for a key of a named entry, such as `offset_deg` of the `[[motor]]` named `steering`.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// `motor`, `sensor` or `reflex`.
    pub list: &'static str,
    /// Name of the entry.
    pub name: String,
    /// The key.
    pub key: &'static str,
    /// The new value.
    pub value: f64,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{} = {:?}", self.list, self.name, self.key, self.value)
    }
}

/// The text of a board file with `changes` applied: to `old`, or to a new file that inherits `parent`.
/// Returns an error unless the result is valid as a file in `folder`.
pub fn changed(
    old: Option<&str>,
    parent: &str,
    changes: &[Change],
    folder: &Path,
) -> Result<String, BoardError> {
    let mut text = match old {
        Some(old) => old.to_string(),
        None => {
            let parent = toml::Value::from(parent);
            format!("# What was measured on this one robot.\ninherits = {parent}\n")
        }
    };
    for change in changes {
        text = with(&text, change);
    }
    from_text_in("changed", &text, folder)?;
    Ok(text)
}

/// `text` with the single value at `path` replaced. A path is like `safety.settle_ms`, or `reflex.NAME.below`
/// for a key of a named entry. Returns `None` if `text` has no such value.
pub fn replaced(text: &str, path: &str, value: &str) -> Option<String> {
    let mut sources = Sources::default();
    let source = sources.add("replaced", text.to_string());
    let table = raw::parse(&sources, source).ok()?;
    let place = value_at(&table, path)?.place;
    Some(format!("{}{value}{}", &text[..place.start()], &text[place.end()..]))
}

fn value_at<'t>(table: &'t Table, path: &str) -> Option<&'t Node> {
    let (head, rest) = path.split_once('.').unwrap_or((path, ""));
    let node = &table.get(head)?.node;
    match (&node.value, rest) {
        (Value::Table(_), "") => None,
        (Value::List(items), "") if items.iter().any(|item| matches!(item.value, Value::Table(_))) => None,
        (_, "") => Some(node),
        (Value::Table(inner), rest) => value_at(inner, rest),
        (Value::List(items), rest) => {
            let (name, rest) = rest.split_once('.')?;
            let entry = items.iter().find_map(|Node { value, .. }| match value {
                Value::Table(entry) if entry.text("name") == Some(name) => Some(entry),
                _ => None,
            });
            value_at(entry?, rest)
        }
        _ => None,
    }
}

/// `text` with one change. Text that is not TOML gets the entry appended; the check afterwards reports the
/// error.
fn with(text: &str, change: &Change) -> String {
    let value = format!("{:?}", change.value);
    let mut sources = Sources::default();
    let source = sources.add("changed", text.to_string());
    let table = raw::parse(&sources, source).unwrap_or_default();
    let Some(entry) = entry_of(&table, change) else {
        let gap = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
        let Change { list, name, key, .. } = change;
        return format!("{text}{gap}\n[[{list}]]\nname = \"{name}\"\n{key} = {value}\n");
    };
    if let Some(found) = entry.get(change.key) {
        let (start, end) = (found.node.place.start(), found.node.place.end());
        return format!("{}{value}{}", &text[..start], &text[end..]);
    }
    // Put the key on its own line below the name.
    let after = entry.get("name").map_or(text.len(), |name| name.node.place.end());
    let line_end = text[after..].find('\n').map_or(text.len(), |at| after + at);
    format!("{}\n{} = {value}{}", &text[..line_end], change.key, &text[line_end..])
}

fn entry_of<'t>(table: &'t Table, change: &Change) -> Option<&'t Table> {
    let Value::List(items) = &table.get(change.list)?.node.value else { return None };
    items.iter().find_map(|Node { value, .. }| match value {
        Value::Table(entry) if entry.text("name") == Some(&change.name) => Some(entry),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(value: f64) -> Change {
        Change { list: "motor", name: "steering".to_string(), key: "offset_deg", value }
    }

    fn nowhere() -> &'static Path {
        Path::new("no-such-folder")
    }

    #[test]
    fn a_new_file_inherits_and_states_only_the_changes() {
        let text = changed(None, "picarx-v4", &[offset(3.5)], nowhere()).unwrap();
        let wanted = "# What was measured on this one robot.\ninherits = \"picarx-v4\"\n\n\
                      [[motor]]\nname = \"steering\"\noffset_deg = 3.5\n";
        assert_eq!(text, wanted);
    }

    #[test]
    fn a_parent_file_with_quotes_in_its_name_is_inherited() {
        let folder = std::env::temp_dir().join(format!("ganglion-site-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let odd = "the \"red\" one.toml";
        std::fs::write(folder.join(odd), "inherits = \"picarx-v4\"\n").unwrap();
        let text = changed(None, odd, &[offset(3.5)], &folder);
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(from_text_in("x", &text.unwrap(), nowhere()).is_err(), "the inherited file does not exist");
    }

    #[test]
    fn a_value_is_found_by_its_path() {
        let text = "period_ms = 10.0\n[safety]\nsettle_ms = 500 # slow\n[[reflex]]\nname = \"a\"\nbelow = 1\n\
                    [[reflex]]\nname = \"b\"\nbelow = 2\n[reflex.input]\nlow = 3\n";
        let with = |path, value| replaced(text, path, value);
        assert_eq!(with("period_ms", "5.0"), Some(text.replace("10.0", "5.0")));
        assert_eq!(with("safety.settle_ms", "700"), Some(text.replace("500", "700")));
        assert_eq!(with("reflex.b.below", "9"), Some(text.replace("below = 2", "below = 9")));
        assert_eq!(with("reflex.b.input.low", "9"), Some(text.replace("low = 3", "low = 9")));
        for none in ["", "safety", "reflex", "reflex.c.below", "safety.settle", "period_ms.x", "reflex.a"] {
            assert_eq!(with(none, "9"), None, "{none}");
        }
    }

    #[test]
    fn replacing_a_value_keeps_the_rest_of_the_file() {
        let old = "inherits = \"picarx-v4\" # the red one\n[[motor]]\nname = \"steering\"\noffset_deg = 1 # bent\n\n\
                   [safety]\nsettle_ms = 500 # slow\n";
        let text = changed(Some(old), "x", &[offset(-2.0)], nowhere()).unwrap();
        assert_eq!(text, old.replace("offset_deg = 1 ", "offset_deg = -2.0 "));
        let again = changed(Some(&text), "x", &[offset(1.0)], nowhere()).unwrap();
        assert_eq!(again, old.replace("offset_deg = 1 ", "offset_deg = 1.0 "));
    }

    #[test]
    fn a_key_is_added_to_an_existing_entry() {
        let old = "inherits = \"picarx-v4\"\n[[motor]]\nname = \"steering\" # front\nslew_per_s = 2.0\n";
        let text = changed(Some(old), "x", &[offset(4.0)], nowhere()).unwrap();
        assert_eq!(text, old.replace("# front\n", "# front\noffset_deg = 4.0\n"));
        let loaded = from_text_in("x", &text, nowhere()).unwrap();
        let setting = loaded.settings.iter().find(|setting| setting.key == "motor.steering.offset_deg");
        assert_eq!(setting.unwrap().value, "4.0");
    }

    #[test]
    fn invalid_results_are_refused() {
        assert!(changed(None, "picarx-v4", &[offset(90.0)], nowhere()).is_err(), "out of range");
        assert!(changed(Some("inherits = 3\n"), "x", &[offset(1.0)], nowhere()).is_err());
        let inline = "inherits = \"picarx-v4\"\nmotor = [{ name = \"steering\" }]\n";
        assert!(
            changed(Some(inline), "x", &[offset(1.0)], nowhere()).is_err(),
            "an inline entry has no line to add a key to"
        );
    }
}
