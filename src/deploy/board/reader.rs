//! Reads the merged table: the checks request every value exactly once, by key, type and range.
//!
//! The known keys are those that a check requests. When a section is closed, every key that was not requested
//! is an error; the report lists every value read, with its origin. After an invalid value the reader
//! continues, so that one run reports all errors.

use super::answer::{BoardValue, KeyLookup};
use super::finding::Problem;
use super::raw::{Node, Table, Value};
use super::report::{Setting, Shared};
use super::shape::{ANY_KEY, Asked, Shape};
use super::source::SourceRange;
use super::spelling::{
    AddressWord, LineWord, Refusal, address, addresses, distinct_integers, is_name, items, line, odd_name,
    real, reals, show_list, show_millis, show_real, show_text, span_of_millis, text, unknown_name,
};
use crate::base::time::Span;
use crate::system::sanitize::nearest;
use std::cell::{Cell, RefCell};
use std::ops::RangeInclusive;

/// One table that is being read.
pub struct Section<'a> {
    report: &'a Shared,
    path: String,
    /// The path with `[]` for any entry of a list, as in `sensor[]`.
    pattern: String,
    table: Option<&'a Table>,
    pub(super) place: Option<SourceRange>,
    asked: RefCell<Vec<String>>,
    /// Whether unknown keys are accepted without a report.
    open: Cell<bool>,
    /// Whether the board chooses the names of the keys.
    free: Cell<bool>,
    /// Whether an error about the whole section is already reported; its consequences are then not reported.
    muted: Cell<bool>,
}

impl<'a> Section<'a> {
    /// The root table of the board.
    pub fn root(report: &'a Shared, table: &'a Table) -> Section<'a> {
        let top = report.borrow().sources.place(0, 0..0);
        Section::new(report, [String::new(), String::new()], Some(table), Some(top))
    }
    fn new(
        report: &'a Shared,
        [path, pattern]: [String; 2],
        table: Option<&'a Table>,
        place: Option<SourceRange>,
    ) -> Section<'a> {
        Section {
            report,
            path,
            pattern,
            table,
            place,
            asked: RefCell::default(),
            open: Cell::new(false),
            free: Cell::new(false),
            muted: Cell::new(false),
        }
    }

    fn pattern(&self, key: &str) -> String {
        if self.pattern.is_empty() { key.to_string() } else { format!("{}.{key}", self.pattern) }
    }
    /// The path of a key in this section.
    pub fn path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_string() } else { format!("{}.{key}", self.path) }
    }
    /// Whether the section is present.
    pub fn is_written(&self) -> bool {
        self.table.is_some()
    }
    /// Whether `key` is present, whatever its value.
    pub fn states(&self, key: &str) -> bool {
        self.table.is_some_and(|table| table.get(key).is_some())
    }
    /// The report.
    pub fn report(&self) -> &'a Shared {
        self.report
    }
    /// Reports nothing more about this section. Used after an error about the whole section (such as an
    /// unknown kind), whose consequences would only distract.
    pub fn give_up(&self) {
        self.muted.set(true);
    }

    /// Reports that values contradict each other, at the value of `key`, or at the section if the key is
    /// missing.
    pub fn misfit(&self, key: &str, rule: String) {
        let place = self.table.and_then(|table| table.get(key)).map(|entry| entry.node.place);
        self.refuse(key, place.or(self.place), Problem::Misfit { rule });
    }
    /// Adds a warning about the value of `key`.
    pub fn warn(&self, key: &str, rule: String) {
        self.report.borrow_mut().warn(&self.path(key), rule);
    }

    fn node(&self, key: &str, shape: &Shape) -> Option<&'a Node> {
        self.asked.borrow_mut().push(key.to_string());
        if let Some(asked) = &mut self.report.borrow_mut().asked {
            let kind = self.table.and_then(|table| table.text("kind")).map(str::to_string);
            let key = if self.free.get() { ANY_KEY } else { key }.to_string();
            asked.push(Asked { table: self.pattern.clone(), kind, key, shape: shape.clone() });
        }
        self.table?.get(key).map(|entry| &entry.node)
    }
    pub(super) fn refuse(&self, key: &str, place: Option<SourceRange>, problem: Problem) {
        if self.muted.get() {
            return;
        }
        self.report.borrow_mut().refuse(&self.path(key), place, problem);
    }
    fn wrong_type(&self, key: &str, node: &Node, wanted: &Shape) {
        let problem = Problem::WrongType { wanted: wanted.to_string(), found: node.value.kind() };
        self.refuse(key, Some(node.place), problem);
    }

    /// Requests `key`. `read` turns the node into a value or returns the problem, which is reported.
    fn ask<T>(
        &self,
        key: &str,
        shape: Shape,
        show: fn(&T) -> String,
        read: impl FnOnce(&Node) -> Result<T, Refusal>,
    ) -> BoardValue<'_, 'a, T> {
        let wanted = shape.to_string();
        let found = match self.node(key, &shape) {
            None => KeyLookup::Nothing,
            Some(node) => match read(node) {
                Ok(value) => {
                    self.note(key, show(&value), Some(node.place));
                    KeyLookup::Value(value)
                }
                Err(refusal) => {
                    let problem = match refusal {
                        Refusal::Type => {
                            Problem::WrongType { wanted: wanted.clone(), found: node.value.kind() }
                        }
                        Refusal::Range(found) => Problem::OutOfRange { found, allowed: wanted.clone() },
                        Refusal::Other(problem) => problem,
                    };
                    self.refuse(key, Some(node.place), problem);
                    KeyLookup::Bad
                }
            },
        };
        BoardValue { section: self, key: key.to_string(), wanted, show, found }
    }
    pub(super) fn note(&self, key: &str, value: String, place: Option<SourceRange>) {
        let mut report = self.report.borrow_mut();
        let origin = place.map(|place| report.sources.spot(place));
        let key = self.path(key);
        report.settings.push(Setting { key, value, origin });
    }

    /// A whole number.
    pub fn integer(&self, key: &str, range: RangeInclusive<i64>) -> BoardValue<'_, 'a, i64> {
        self.ask(key, Shape::Integer(range.clone()), i64::to_string, |node| match node.value {
            Value::Integer(value) if range.contains(&value) => Ok(value),
            Value::Integer(value) => Err(Refusal::Range(value.to_string())),
            _ => Err(Refusal::Type),
        })
    }
    /// At most `most` whole numbers without duplicates. The list may be empty.
    pub fn distinct_integers(
        &self,
        key: &str,
        range: RangeInclusive<i64>,
        most: usize,
    ) -> BoardValue<'_, 'a, Vec<i64>> {
        self.ask(
            key,
            Shape::Integers(range.clone(), most),
            |list: &Vec<i64>| show_list(list, i64::to_string),
            |node| distinct_integers(node, &range, most),
        )
    }
    /// One 7-bit I2C address, or a list of the addresses at which a device may answer.
    pub fn addresses(&self, key: &str, most: usize) -> BoardValue<'_, 'a, Vec<u8>> {
        self.ask(
            key,
            Shape::Addresses(most),
            |list: &Vec<u8>| match list[..] {
                [one] => one.to_string(),
                _ => show_list(list, u8::to_string),
            },
            |node| addresses(node, most),
        )
    }
    /// A number.
    pub fn real(&self, key: &str, range: RangeInclusive<f64>) -> BoardValue<'_, 'a, f64> {
        self.ask(key, Shape::Real(range.clone()), show_real, |node| real(node, &range))
    }
    /// A time, written in milliseconds.
    pub fn millis(&self, key: &str, range: RangeInclusive<f64>) -> BoardValue<'_, 'a, Span> {
        debug_assert!(key.ends_with("_ms"), "a time has its unit in its key");
        self.ask(key, Shape::Millis(range.clone()), show_millis, |node| {
            Ok(span_of_millis(real(node, &range)?))
        })
    }
    /// `true` or `false`.
    pub fn flag(&self, key: &str) -> BoardValue<'_, 'a, bool> {
        self.ask(key, Shape::Flag, bool::to_string, |node| match node.value {
            Value::Flag(flag) => Ok(flag),
            _ => Err(Refusal::Type),
        })
    }
    /// A string of 1 to 100 characters.
    pub fn text(&self, key: &str) -> BoardValue<'_, 'a, String> {
        self.ask(key, Shape::Text, |text| show_text(text), |node| text(node).map(str::to_string))
    }
    /// Strings of 1 to 100 characters.
    pub fn texts(&self, key: &str) -> BoardValue<'_, 'a, Vec<String>> {
        self.ask(
            key,
            Shape::Texts,
            |texts: &Vec<String>| show_list(texts, |text| show_text(text)),
            |node| items(node)?.iter().map(|item| text(item).map(str::to_string)).collect(),
        )
    }
    /// One of `choices`, by name. `what` is what messages call them.
    pub fn choice<T: Copy>(
        &self,
        key: &str,
        what: &'static str,
        choices: &[(&'static str, T)],
    ) -> BoardValue<'_, 'a, (&'static str, T)> {
        let known: Vec<&'static str> = choices.iter().map(|(name, _)| *name).collect();
        self.ask(
            key,
            Shape::Choice(known.clone()),
            |(name, _)| show_text(name),
            |node| {
                let found = text(node)?;
                match choices.iter().find(|(name, _)| *name == found) {
                    Some(choice) => Ok(*choice),
                    None => {
                        let known = known.into_iter().map(str::to_string).collect();
                        Err(Refusal::Other(unknown_name(what, found, known)))
                    }
                }
            },
        )
    }
    /// One of `names`.
    pub fn name_among(&self, key: &str, what: &'static str, names: &[String]) -> BoardValue<'_, 'a, String> {
        self.ask(
            key,
            Shape::NameOf(what),
            |text: &String| show_text(text),
            |node| {
                let found = text(node)?;
                if names.iter().any(|name| name == found) {
                    return Ok(found.to_string());
                }
                Err(Refusal::Other(unknown_name(what, found, names.to_vec())))
            },
        )
    }
    /// The index of a name in `names`.
    pub fn index(&self, key: &str, what: &'static str, names: &[String]) -> Option<usize> {
        let found = self.name_among(key, what, names).required()?;
        names.iter().position(|name| *name == found)
    }
    /// The indices of several names in `names`: at least one, without duplicates.
    pub fn indices(&self, key: &str, what: &'static str, names: &[String]) -> Option<Vec<usize>> {
        let answer = self.ask(
            key,
            Shape::NamesOf(what),
            |texts: &Vec<String>| show_list(texts, |text| show_text(text)),
            |node| {
                let mut found: Vec<String> = Vec::new();
                for item in items(node)? {
                    let name = text(item)?;
                    if !names.iter().any(|known| known == name) {
                        return Err(Refusal::Other(unknown_name(what, name, names.to_vec())));
                    }
                    if found.iter().any(|before| before == name) {
                        return Err(Refusal::Range(format!("`{name}` twice")));
                    }
                    found.push(name.to_string());
                }
                if found.is_empty() { Err(Refusal::Range("none".to_string())) } else { Ok(found) }
            },
        );
        let found = answer.required()?;
        Some(found.iter().filter_map(|name| names.iter().position(|known| known == name)).collect())
    }
    /// A GPIO line, by number or by name.
    pub fn line(&self, key: &str) -> BoardValue<'_, 'a, LineWord> {
        self.ask(key, Shape::Line, LineWord::show, line)
    }
    /// A 7-bit I2C address on the first bus or on a named one: `0x40` or `"eyes:0x40"`. Returns the index of
    /// the bus in `buses` and the address.
    pub fn address_on(&self, key: &str, buses: &[String]) -> Option<(usize, u8)> {
        let answer = self.ask(key, Shape::Address, AddressWord::show, |node| address(node, buses));
        let found = answer.required()?;
        let bus = found.bus.map_or(Some(0), |name| buses.iter().position(|known| *known == name));
        bus.map(|bus| (bus, found.address))
    }
    /// A fixed count of numbers.
    pub fn reals<const N: usize>(
        &self,
        key: &str,
        range: RangeInclusive<f64>,
    ) -> BoardValue<'_, 'a, [f64; N]> {
        self.ask(
            key,
            Shape::Reals(N, range.clone()),
            |row| show_list(row, show_real),
            |node| reals(node, &range),
        )
    }
    /// Rows with a fixed count of numbers in each.
    pub fn rows<const N: usize>(
        &self,
        key: &str,
        range: RangeInclusive<f64>,
    ) -> BoardValue<'_, 'a, Vec<[f64; N]>> {
        self.ask(
            key,
            Shape::Rows(N, range.clone()),
            |rows| show_list(rows, |row| show_list(row, show_real)),
            |node| items(node)?.iter().map(|row| reals(row, &range)).collect(),
        )
    }
    /// A channel of the Robot HAT as printed on it: a letter and a number, `P13` or `A4`.
    pub fn channel(&self, key: &str, letter: char, count: u8) -> Option<u8> {
        let answer = self.ask(
            key,
            Shape::Channel(letter, count),
            |channel: &(char, u8)| format!("\"{}{}\"", channel.0, channel.1),
            |node| {
                let found = text(node)?;
                let digits =
                    found.strip_prefix(letter).filter(|rest| rest.bytes().all(|b| b.is_ascii_digit()));
                match digits.and_then(|rest| rest.parse::<u8>().ok()) {
                    Some(channel) if channel < count => Ok((letter, channel)),
                    _ => Err(Refusal::Range(show_text(found))),
                }
            },
        );
        answer.required().map(|(_, channel)| channel)
    }

    /// The table under `key`; an empty one if the key is missing.
    pub fn section(&self, key: &str) -> Section<'a> {
        let node = self.node(key, &Shape::Table);
        let table = node.and_then(|node| match &node.value {
            Value::Table(table) => Some(table),
            _ => {
                self.wrong_type(key, node, &Shape::Table);
                None
            }
        });
        let place = node.map(|node| node.place).or(self.place);
        let section = Section::new(self.report, [self.path(key), self.pattern(key)], table, place);
        if self.muted.get() || (node.is_some() && table.is_none()) {
            section.give_up();
        }
        section
    }
    /// The keys of this section that are valid names, for a table whose keys the board chooses. The caller
    /// must request each of them.
    pub fn free_names(&self) -> Vec<String> {
        self.open.set(true);
        self.free.set(true);
        let entries = self.table.map_or(&[][..], |table| &table.0);
        let mut names = Vec::new();
        for entry in entries {
            match is_name(&entry.key) {
                true => names.push(entry.key.clone()),
                false => self.refuse(&entry.key, Some(entry.key_place), odd_name(&entry.key)),
            }
        }
        names
    }
    /// A number for each of `names`.
    pub fn numbers_by_name(&self, names: &[String], range: RangeInclusive<f64>) -> Option<Vec<f64>> {
        self.free.set(true);
        let values: Vec<Option<f64>> =
            names.iter().map(|name| self.real(name, range.clone()).required()).collect();
        values.into_iter().collect()
    }
    /// The named entries of the list under `key`: each with its name and its table, whose naming key is
    /// already read. Entries without a name, duplicates and invalid names are reported and left out.
    pub fn entries(&self, key: &str, name_key: &str) -> Vec<(String, Section<'a>)> {
        let mut entries: Vec<(String, Section<'a>)> = Vec::new();
        for (table, place) in self.tables(key) {
            let paths = [self.path(key), self.pattern(key) + "[]"];
            let mut section = Section::new(self.report, paths, Some(table), Some(place));
            let name = section.ask(
                name_key,
                Shape::Name,
                |name: &String| show_text(name),
                |node| text(node).map(str::to_string),
            );
            let Some(name) = name.required() else {
                section.give_up();
                continue;
            };
            self.report.borrow_mut().settings.pop(); // the name becomes part of the path
            section.path = format!("{}.{name}", self.path(key));
            let name_place = table.get(name_key).map(|entry| entry.node.place);
            if !is_name(&name) {
                self.report.borrow_mut().refuse(&self.path(key), name_place, odd_name(&name));
                section.give_up();
                continue;
            }
            if let Some((_, first)) = entries.iter().find(|(other, _)| *other == name) {
                let written = first.place.map(|place| self.report.borrow().sources.spot(place));
                let (holder, thing) = (section.path.clone(), format!("the name `{name}`"));
                let problem = Problem::Clash { thing, holder, written };
                self.report.borrow_mut().refuse(&section.path(name_key), name_place, problem);
                section.give_up();
                continue;
            }
            if table.get("like").is_some() {
                section.give_up(); // the entry to copy does not exist: `fill_likes` has reported that
            }
            entries.push((name, section));
        }
        entries
    }
    /// The unnamed entries of the list under `key`, numbered from 0 in their paths.
    pub fn numbered(&self, key: &str) -> Vec<Section<'a>> {
        let tables = self.tables(key).into_iter().enumerate();
        tables
            .map(|(at, (table, place))| {
                let paths = [format!("{}.{at}", self.path(key)), self.pattern(key) + "[]"];
                Section::new(self.report, paths, Some(table), Some(place))
            })
            .collect()
    }
    fn tables(&self, key: &str) -> Vec<(&'a Table, SourceRange)> {
        let Some(node) = self.node(key, &Shape::List) else { return Vec::new() };
        let Value::List(list) = &node.value else {
            self.wrong_type(key, node, &Shape::List);
            return Vec::new();
        };
        let mut tables = Vec::new();
        for item in list {
            match &item.value {
                Value::Table(table) => tables.push((table, item.place)),
                _ => self.wrong_type(key, item, &Shape::Table),
            }
        }
        tables
    }
}

impl Drop for Section<'_> {
    /// Closes the section: a key that no check requested is unknown.
    fn drop(&mut self) {
        let (false, Some(table)) = (self.open.get() || self.muted.get(), self.table) else { return };
        let asked = self.asked.borrow();
        let mut report = self.report.borrow_mut();
        for entry in table.0.iter().filter(|entry| !asked.contains(&entry.key)) {
            if report.is_full() {
                report.untold += 1;
                continue;
            }
            let nearest = nearest(&entry.key, asked.iter().map(String::as_str));
            if let Some(meant) = nearest.as_ref().map(|near| self.path(near)) {
                // A misspelt key is one error; that the correct key is missing follows from it.
                report.findings.retain(|f| f.key != meant || !matches!(f.problem, Problem::Missing { .. }));
            }
            let problem = Problem::UnknownKey { nearest, known: asked.clone() };
            report.refuse(&self.path(&entry.key), Some(entry.key_place), problem);
        }
    }
}
