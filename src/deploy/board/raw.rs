//! A parsed board file: TOML values with their places. Checks nothing.

use super::source::{SourceRange, Sources};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and its place.
#[derive(Clone, Debug)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Its place.
    pub place: SourceRange,
}

/// The kinds of TOML values.
#[derive(Clone, Debug)]
pub enum Value {
    /// A string.
    Text(String),
    /// A whole number of at most 64 bits.
    Integer(i64),
    /// A number with a decimal point or an exponent, or `inf` or `nan`.
    Real(f64),
    /// `true` or `false`.
    Flag(bool),
    /// Values in order.
    List(Vec<Node>),
    /// Keys and values.
    Table(Table),
    /// A value that no board key accepts: a date, or a number that does not fit 64 bits.
    Alien(&'static str),
}

impl Value {
    /// The kind of value, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Text(_) => "a string",
            Value::Integer(_) => "an integer",
            Value::Real(_) => "a number with a fraction",
            Value::Flag(_) => "true or false",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
            Value::Alien(kind) => kind,
        }
    }
}

/// One key of a table.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The place of the key.
    pub key_place: SourceRange,
    /// Its value.
    pub node: Node,
}

/// Keys and values in the order of the file.
#[derive(Clone, Debug, Default)]
pub struct Table(pub Vec<Entry>);

impl Table {
    /// The entry of that key.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.key == key)
    }
    /// The string under that key.
    pub fn text(&self, key: &str) -> Option<&str> {
        match &self.get(key)?.node.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
    /// Removes and returns the entry with that key.
    pub fn take(&mut self, key: &str) -> Option<Entry> {
        let at = self.0.iter().position(|entry| entry.key == key)?;
        Some(self.0.remove(at))
    }
}

/// Parses text number `source`. If it is not TOML, returns every syntax error.
pub fn parse(sources: &Sources, source: usize) -> Result<Table, Vec<(String, SourceRange)>> {
    let text = sources.text(source);
    let (document, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return Ok(table(sources, source, document.get_ref()));
    }
    Err(errors
        .iter()
        .map(|e| (e.message().to_string(), sources.place(source, e.span().unwrap_or(0..0))))
        .collect())
}

fn table(sources: &Sources, source: usize, from: &DeTable<'_>) -> Table {
    let mut entries: Vec<Entry> = from
        .iter()
        .map(|(key, value)| Entry {
            key: key.get_ref().to_string(),
            key_place: sources.place(source, key.span()),
            node: node(sources, source, value),
        })
        .collect();
    // The parser sorts by name; restore the order of the file.
    entries.sort_by_key(|entry| entry.key_place.start());
    Table(entries)
}

fn node(sources: &Sources, source: usize, from: &Spanned<DeValue<'_>>) -> Node {
    let value = match from.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(digits) => i64::from_str_radix(digits.as_str(), digits.radix())
            .map_or(Value::Alien("an integer that does not fit 64 bits"), Value::Integer),
        DeValue::Float(digits) => {
            digits.as_str().parse().map_or(Value::Alien("a number that does not fit a float"), Value::Real)
        }
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Datetime(_) => Value::Alien("a date or time"),
        DeValue::Array(items) => Value::List(items.iter().map(|item| node(sources, source, item)).collect()),
        DeValue::Table(inner) => Value::Table(table(sources, source, inner)),
    };
    Node { value, place: sources.place(source, from.span()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Table, Vec<(String, SourceRange)>> {
        let mut sources = Sources::default();
        let source = sources.add("t.toml", text.to_string());
        parse(&sources, source)
    }

    #[test]
    fn keys_keep_the_order_of_the_file() {
        let table = parsed("zeta = 1\nalpha = 0x14\n[m]\nb = 1.5\na = 2026-01-01\n").unwrap();
        let keys: Vec<&str> = table.0.iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(keys, ["zeta", "alpha", "m"]);
        assert!(matches!(table.get("alpha").unwrap().node.value, Value::Integer(20)));
        let Value::Table(inner) = &table.get("m").unwrap().node.value else { panic!("a table") };
        assert_eq!(inner.get("a").unwrap().node.value.kind(), "a date or time");
    }

    #[test]
    fn every_syntax_error_is_reported() {
        let errors = parsed("a = \nb = 1\nc = = 2\n").unwrap_err();
        assert!(errors.len() >= 2, "{errors:?}");
    }

    #[test]
    fn an_integer_beyond_64_bits_is_not_a_number() {
        let table = parsed("a = 99999999999999999999\n").unwrap();
        assert_eq!(table.get("a").unwrap().node.value.kind(), "an integer that does not fit 64 bits");
    }
}
