//! Limits on the size of one board file, checked before it is read or merged. Some later steps compare every
//! name or wire with every other, so their time grows with the square of the size. The limits keep that time
//! short for any file.

use super::raw::{Node, Table, Value};
use super::source::SourceRange;

/// Maximum number of keys in one table. The largest table, `[reserved]`, has at most one key for each line of
/// a GPIO chip.
const MOST_KEYS: usize = 256;
/// Maximum number of items in one list: twice as many as any list of a valid board has.
const MOST_ITEMS: usize = 256;
/// Maximum number of values within one entry of a list, at any depth. A starting curve of 32 points has 100.
/// The limit matters because `like` copies entries.
const MOST_VALUES: usize = 256;
/// Maximum length of a key in bytes. Names have at most 32 bytes.
const LONGEST_KEY: usize = 64;
/// Maximum length of a string in bytes. The reader accepts at most 100 characters.
const LONGEST_STRING: usize = 1_000;

/// A part of the file that is larger than any board needs.
#[derive(Debug, PartialEq)]
pub struct Beyond {
    /// Path of the key.
    pub key: String,
    /// Where it is written.
    pub place: SourceRange,
    /// Size and limit.
    pub rule: String,
}

/// The first part of `table` that is too large.
pub fn beyond(table: &Table) -> Option<Beyond> {
    in_table(table, "", None).or_else(|| {
        let lists = table.0.iter().filter_map(|entry| match &entry.node.value {
            Value::List(items) => Some((entry, items)),
            _ => None,
        });
        lists.flat_map(|(entry, items)| items.iter().map(move |item| (entry, item))).find_map(
            |(entry, item)| {
                let found = values(item);
                (found > MOST_VALUES).then(|| Beyond {
                    key: entry.key.clone(),
                    place: item.place,
                    rule: format!("found {found} values in one entry; allowed: at most {MOST_VALUES}"),
                })
            },
        )
    })
}

/// `place` is where the table is written; `None` for the whole file.
fn in_table(table: &Table, path: &str, place: Option<SourceRange>) -> Option<Beyond> {
    let found = table.0.len();
    if let (true, Some(extra)) = (found > MOST_KEYS, table.0.get(MOST_KEYS)) {
        let rule = format!("found {found} keys; allowed: at most {MOST_KEYS}");
        return Some(Beyond { key: path.to_string(), place: place.unwrap_or(extra.key_place), rule });
    }
    table.0.iter().find_map(|entry| {
        if entry.key.len() > LONGEST_KEY {
            let rule = format!("found a key of {} bytes; allowed: at most {LONGEST_KEY}", entry.key.len());
            return Some(Beyond { key: path.to_string(), place: entry.key_place, rule });
        }
        let path = if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
        in_node(&entry.node, &path)
    })
}

fn in_node(node: &Node, path: &str) -> Option<Beyond> {
    let beyond = |rule| Some(Beyond { key: path.to_string(), place: node.place, rule });
    match &node.value {
        Value::Text(text) if text.len() > LONGEST_STRING => {
            beyond(format!("found a string of {} bytes; allowed: at most {LONGEST_STRING}", text.len()))
        }
        Value::List(items) if items.len() > MOST_ITEMS => {
            beyond(format!("found {} items; allowed: at most {MOST_ITEMS}", items.len()))
        }
        Value::List(items) => items.iter().find_map(|item| in_node(item, path)),
        Value::Table(inner) => in_table(inner, path, Some(node.place)),
        _ => None,
    }
}

/// Number of values in `node`, itself included.
fn values(node: &Node) -> usize {
    1 + match &node.value {
        Value::List(items) => items.iter().map(values).sum(),
        Value::Table(table) => table.0.iter().map(|entry| values(&entry.node)).sum(),
        _ => 0,
    }
}
