//! The JSON Schema (draft 2020-12) of board files, for editors that complete and check keys.
//!
//! The schema comes from the checks themselves, not from a second list: the checks run over generated boards,
//! and every request for a key is recorded with its type and range. A board that contains a newly found
//! table, entry or kind causes further requests, so this is repeated until no board causes a new one. The
//! schema does not contain rules between values; only `ganglion check` checks those.

use super::check::check;
use super::inherit::NAMED;
use super::raw::{Entry, Node, Table, Value as Written};
use super::report::Report;
use super::shape::{ANY_KEY, Asked, NAME_PATTERN, Shape};
use super::source::SourceRange;
use serde_json::{Map, Value, json};
use std::cell::{Cell, RefCell};

/// A value that suits every string key: as a path, it is also valid as the node of an I2C bus.
const SAMPLE_TEXT: &str = "/dev/a";

/// The schema.
pub fn schema() -> Value {
    let known = Known(explore());
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Board file of ganglion",
        "description": "Printed by `ganglion check --schema`. `ganglion check FILE` checks more than a schema can state.",
        "$defs": { "removed": {
            "description": "removes what is inherited here",
            "type": "object",
            "properties": { "remove": { "const": true } },
            "required": ["remove"],
            "additionalProperties": false,
        } },
    });
    if let (Some(whole), Value::Object(board)) = (schema.as_object_mut(), known.object("")) {
        whole.extend(board);
    }
    schema
}

/// Every key that the checks request of any board.
fn explore() -> Vec<Asked> {
    let mut known: Vec<Asked> = Vec::new();
    loop {
        let before = known.len();
        let variants = known.iter().map(|asked| choices(&asked.shape).len()).max().unwrap_or(0).max(1);
        for variant in 0..variants {
            for shown in [Shown::All, Shown::Outer, Shown::Lists] {
                let place = Report::default().sources.place(0, 0..0);
                let probe = Probe { known: &known, variant, shown, place, names: Cell::new(0) };
                for asked in requests(&probe.table("", None)) {
                    if !known.contains(&asked) {
                        known.push(asked);
                    }
                }
            }
        }
        if known.len() == before {
            return known;
        }
    }
}

/// The keys that the checks request of this board, valid or not.
fn requests(board: &Table) -> Vec<Asked> {
    let mut report = Report { asked: Some(Vec::new()), ..Report::default() };
    report.sources.add("probe", String::new());
    let shared = RefCell::new(report);
    check("probe", board, &shared);
    shared.into_inner().asked.unwrap_or_default()
}

fn choices(shape: &Shape) -> &[&'static str] {
    match shape {
        Shape::Choice(known) => known,
        _ => &[],
    }
}

/// The kinds of the table at `path`.
fn kinds<'k>(known: &'k [Asked], path: &str) -> &'k [&'static str] {
    let kind = known.iter().find(|asked| asked.table == path && asked.key == "kind");
    kind.map_or(&[], |asked| choices(&asked.shape))
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_string() } else { format!("{path}.{key}") }
}

/// Which tables a generated board has, besides those with a kind. An empty table with required keys is
/// invalid, which hides all keys that are read only after it; so boards without such tables are also
/// generated.
#[derive(Clone, Copy, PartialEq)]
enum Shown {
    /// All tables.
    All,
    /// No table inside another.
    Outer,
    /// Only the entries of lists.
    Lists,
}

/// A generated board that shows the checks everything known so far.
struct Probe<'k> {
    known: &'k [Asked],
    /// Selects the kind of each table that has several: an index, modulo their number.
    variant: usize,
    /// Which tables the board has.
    shown: Shown,
    /// The place of all values.
    place: SourceRange,
    /// Number of names generated so far.
    names: Cell<usize>,
}

impl Probe<'_> {
    fn node(&self, value: Written) -> Node {
        Node { value, place: self.place }
    }

    fn entry(&self, key: &str, value: Written) -> Entry {
        Entry { key: key.to_string(), key_place: self.place, node: self.node(value) }
    }

    /// The table at `path`, with this kind.
    fn table(&self, path: &str, kind: Option<&str>) -> Table {
        let mut table = Table::default();
        if let Some(kind) = kind {
            table.0.push(self.entry("kind", Written::Text(kind.to_string())));
        }
        for asked in self.known.iter().filter(|asked| asked.table == path && asked.kind.as_deref() == kind) {
            if table.get(&asked.key).is_none()
                && let Some(value) = self.value(path, asked)
            {
                table.0.push(self.entry(&asked.key, value));
            }
        }
        if table.0.is_empty() {
            table.0.push(self.entry("a", Written::Integer(1))); // tables whose keys are free names get one key
        }
        table
    }

    /// A value that makes the checks request more keys; `None` leaves the key out.
    fn value(&self, path: &str, asked: &Asked) -> Option<Written> {
        let inner = join(path, &asked.key);
        match asked.shape {
            Shape::Table => {
                let kinds = kinds(self.known, &inner);
                let kind = kinds.get(self.variant.checked_rem(kinds.len()).unwrap_or(0)).copied();
                let shown = match self.shown {
                    Shown::All => true,
                    Shown::Outer => path.is_empty(),
                    Shown::Lists => false,
                };
                (shown || kind.is_some()).then(|| Written::Table(self.table(&inner, kind)))
            }
            Shape::List => {
                let inner = inner + "[]";
                let kinds = kinds(self.known, &inner).iter().map(|kind| Some(*kind));
                let tables = kinds.chain([None]).map(|kind| Written::Table(self.table(&inner, kind)));
                Some(Written::List(tables.map(|table| self.node(table)).collect()))
            }
            Shape::Name => {
                self.names.set(self.names.get() + 1);
                Some(Written::Text(format!("n{}", self.names.get())))
            }
            Shape::Text => Some(Written::Text(SAMPLE_TEXT.to_string())),
            _ => None,
        }
    }
}

/// All recorded requests.
struct Known(Vec<Asked>);

impl Known {
    /// The schema of the table at `path`.
    fn object(&self, path: &str) -> Value {
        let every: Vec<&Asked> = self.0.iter().filter(|asked| asked.table == path).collect();
        let mut properties = self.properties(path, &every);
        properties.extend(inherited(path));
        let mut object = json!({ "type": "object", "additionalProperties": false });
        if let Some(any) = properties.remove(ANY_KEY) {
            object["additionalProperties"] = any;
            object["propertyNames"] = json!({ "pattern": NAME_PATTERN });
        }
        let names = every.iter().filter(|asked| asked.shape == Shape::Name);
        if let Some(name) = names.map(|asked| &asked.key).next() {
            object["required"] = json!([name]);
        }
        let kinds = kinds(&self.0, path).iter().map(|kind| {
            let own = every.iter().filter(|asked| asked.kind.as_deref() == Some(kind)).copied();
            let mut own = self.properties(path, &own.collect::<Vec<_>>());
            own.extend(inherited(path));
            // A property that is the same for all kinds is described once, outside the kinds.
            own.iter_mut()
                .filter(|(key, value)| properties.get(*key) == Some(value))
                .for_each(|(_, value)| *value = Value::Bool(true));
            json!({
                "if": { "properties": { "kind": { "const": kind } }, "required": ["kind"] },
                "then": { "properties": own, "additionalProperties": false },
            })
        });
        let kinds: Vec<Value> = kinds.collect();
        if !kinds.is_empty() {
            object["allOf"] = Value::Array(kinds);
        }
        object["properties"] = Value::Object(properties);
        object
    }

    fn properties(&self, path: &str, asked: &[&Asked]) -> Map<String, Value> {
        let mut properties = Map::new();
        for first in asked {
            if !properties.contains_key(&first.key) {
                let mut shapes: Vec<&Shape> = Vec::new();
                for same in asked.iter().filter(|same| same.key == first.key) {
                    if !shapes.contains(&&same.shape) {
                        shapes.push(&same.shape);
                    }
                }
                properties.insert(first.key.clone(), self.property(&join(path, &first.key), &shapes));
            }
        }
        properties
    }

    /// A value of one of `shapes`, or a table that removes the inherited value.
    fn property(&self, path: &str, shapes: &[&Shape]) -> Value {
        if shapes == [&Shape::Table] {
            return self.object(path);
        }
        let names_entry = shapes == [&Shape::Name];
        let words: Vec<String> = shapes.iter().map(|shape| shape.to_string()).collect();
        let mut any: Vec<Value> = shapes
            .iter()
            .map(|shape| match shape {
                Shape::List => json!({ "type": "array", "items": self.object(&format!("{path}[]")) }),
                shape => shape.schema(),
            })
            .collect();
        any.extend((!names_entry).then(|| json!({ "$ref": "#/$defs/removed" })));
        json!({ "description": words.join("; or "), "anyOf": any })
    }
}

/// Keys that the checks never see, because loading and merging have already consumed them.
fn inherited(path: &str) -> Vec<(String, Value)> {
    if path.is_empty() {
        let inherits =
            json!({ "description": "a built-in board, or NAME.toml in the same folder", "type": "string" });
        return vec![("inherits".to_string(), inherits)];
    }
    let remove = json!({ "description": "removes what is inherited", "const": true });
    let copies = NAMED.iter().any(|(list, keys)| keys.len() == 1 && path.strip_suffix("[]") == Some(list));
    let like = json!({ "description": "an earlier entry, to copy from", "type": "string" });
    [("remove", Some(remove)), ("like", copies.then_some(like))]
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_string(), value?)))
        .collect()
}
