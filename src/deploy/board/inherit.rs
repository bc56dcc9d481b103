//! Merges several tables into one: a file states only how it differs from the board it inherits.
//!
//! Tables merge key by key. The lists of named entries ([`NAMED`]) merge by name, so that an entry can change
//! one key of an inherited entry. Any other value replaces the inherited one. There are three more rules. A
//! table with another `kind` replaces the inherited table completely, because the keys of one kind mean
//! nothing to another. `remove = true` removes an inherited table or entry, or, in a table under a key, the
//! inherited value (`above = { remove = true }`). `like = "NAME"` copies the missing keys from an earlier
//! entry of the same list.

use super::finding::Problem;
use super::raw::{Entry, Node, Table, Value};
use super::report::Report;
use crate::system::sanitize::nearest;

/// Lists of entries, and the keys that identify an entry of each.
pub const NAMED: [(&str, &[&str]); 9] = [
    ("i2c", &["name"]),
    ("sensor", &["name"]),
    ("motor", &["name"]),
    ("reflex", &["name"]),
    ("decision", &["label"]),
    ("start", &["motor", "sensor"]),
    ("decision_field", &["name"]),
    ("decision_input", &["field", "sensor"]),
    ("behaviour", &["name"]),
];

/// Merges `child` over `parent`.
pub fn merge(parent: Table, child: Table, report: &mut Report) -> Table {
    over(parent, child, true, "", report)
}

fn over(mut base: Table, child: Table, root: bool, path: &str, report: &mut Report) -> Table {
    for entry in child.0 {
        let key = join(path, &entry.key);
        let keys = NAMED.iter().find(|(list, _)| root && *list == entry.key).map(|(_, keys)| *keys);
        let Some(at) = base.0.iter().position(|old| old.key == entry.key) else {
            if removes(&entry.node) {
                report.refuse(&key, Some(entry.key_place), nothing_to_remove());
            } else {
                base.0.push(without_removed(entry, keys, report));
            }
            continue;
        };
        let old = &mut base.0[at];
        match (&mut old.node.value, entry.node.value) {
            (_, Value::Table(new)) if is_removed(&new) => drop(base.0.remove(at)),
            (Value::Table(inherited), Value::Table(new)) => {
                let inherited = std::mem::take(inherited);
                old.node.value = Value::Table(refine(inherited, new, &key, report));
                old.node.place = entry.node.place;
                old.key_place = entry.key_place;
            }
            (Value::List(inherited), Value::List(new)) if keys.is_some() => {
                let inherited = std::mem::take(inherited);
                old.node.value = Value::List(by_name(inherited, new, keys.unwrap_or(&[]), &key, report));
                old.node.place = entry.node.place;
                old.key_place = entry.key_place;
            }
            (_, value) => {
                *old = Entry { node: Node { value, place: entry.node.place }, ..entry };
            }
        }
    }
    base
}

/// Merges a table over the inherited one, unless its kind differs.
fn refine(inherited: Table, new: Table, path: &str, report: &mut Report) -> Table {
    match (inherited.text("kind"), new.text("kind")) {
        (Some(old), Some(kind)) if old != kind => new,
        _ => over(inherited, new, false, path, report),
    }
}

fn by_name(mut base: Vec<Node>, new: Vec<Node>, keys: &[&str], path: &str, report: &mut Report) -> Vec<Node> {
    // Each inherited entry is refined at most once. A name written twice in one file is a mistake, and both
    // entries are kept so that the reader can report it.
    let mut waiting: Vec<Option<Vec<String>>> = base.iter().map(|old| name_of(old, keys)).collect();
    for node in new {
        let name = name_of(&node, keys);
        let key = join(path, &name.as_ref().map_or("?".to_string(), |name| name.join("-")));
        let namesake = name.and_then(|name| waiting.iter().position(|old| old.as_ref() == Some(&name)));
        let remove = removes(&node);
        match (namesake, node.value) {
            (None, _) if remove => report.refuse(&key, Some(node.place), nothing_to_remove()),
            (None, value) => base.push(Node { value, place: node.place }),
            (Some(at), value) => {
                waiting[at] = None;
                let old = &mut base[at];
                old.place = node.place;
                old.value = match (std::mem::replace(&mut old.value, Value::Alien(REMOVED)), value) {
                    // Only marked now and removed at the end: the positions of the others must not change.
                    _ if remove => Value::Alien(REMOVED),
                    (Value::Table(old), Value::Table(new)) => Value::Table(refine(old, new, &key, report)),
                    (_, new) => new,
                };
            }
        }
    }
    base.retain(|node| !matches!(node.value, Value::Alien(REMOVED)));
    base
}

/// Marks an entry for removal. No file can contain this mark.
const REMOVED: &str = "removed";

/// An `entry` whose key is not inherited. If it is a list of named entries, `remove` in one of them is an
/// error.
fn without_removed(entry: Entry, keys: Option<&'static [&'static str]>, report: &mut Report) -> Entry {
    match (keys, entry.node.value) {
        (Some(keys), Value::List(new)) => {
            let list = by_name(Vec::new(), new, keys, &entry.key, report);
            Entry { node: Node { value: Value::List(list), place: entry.node.place }, ..entry }
        }
        (_, value) => Entry { node: Node { value, place: entry.node.place }, ..entry },
    }
}

/// Resolves `like` in every list whose entries have one naming key. A `like` with an unknown name is reported
/// and left in place.
pub fn fill_likes(root: &mut Table, report: &mut Report) {
    for (list, keys) in NAMED.iter().filter(|(_, keys)| keys.len() == 1) {
        let Some(entry) = root.0.iter_mut().find(|entry| entry.key == *list) else { continue };
        let Value::List(items) = &mut entry.node.value else { continue };
        for at in 0..items.len() {
            let (earlier, rest) = items.split_at_mut(at);
            let Value::Table(table) = &mut rest[0].value else { continue };
            let Some(like) = table.get("like").cloned() else { continue };
            let known: Vec<String> = earlier.iter().filter_map(|node| text_of(node, keys[0])).collect();
            let found = match &like.node.value {
                Value::Text(text) => text.clone(),
                other => other.kind().to_string(),
            };
            let pattern = earlier.iter().find(|node| text_of(node, keys[0]).as_deref() == Some(&found));
            let Some(Node { value: Value::Table(pattern), .. }) = pattern else {
                let nearest = nearest(&found, known.iter().map(String::as_str));
                let problem = Problem::UnknownName { what: "earlier entry", found, nearest, known };
                report.refuse(&format!("{list}.like"), Some(like.node.place), problem);
                continue;
            };
            table.take("like");
            let own = std::mem::take(table);
            *table = refine(pattern.clone(), own, list, report);
        }
    }
}

fn is_removed(table: &Table) -> bool {
    matches!(table.get("remove").map(|entry| &entry.node.value), Some(Value::Flag(true)))
}

fn removes(node: &Node) -> bool {
    matches!(&node.value, Value::Table(table) if is_removed(table))
}

fn nothing_to_remove() -> Problem {
    Problem::Misfit { rule: "nothing with that name is inherited, so there is nothing to remove".to_string() }
}

fn text_of(node: &Node, key: &str) -> Option<String> {
    match &node.value {
        Value::Table(table) => table.text(key).map(str::to_string),
        _ => None,
    }
}

fn name_of(node: &Node, keys: &[&str]) -> Option<Vec<String>> {
    keys.iter().map(|key| text_of(node, key)).collect()
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_string() } else { format!("{path}.{key}") }
}
