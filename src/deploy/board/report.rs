//! The report of one load: errors, warnings, and every effective value with its origin.

use super::finding::{Finding, Problem};
use super::shape::Asked;
use super::source::{SourceRange, Sources, Spot};
use std::cell::RefCell;

/// Maximum number of errors reported in detail: more than a user fixes before checking again.
pub const MOST_FINDINGS: usize = 100;

/// One effective value.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Path of the key, as in `sensor.range.period_ms`.
    pub key: String,
    /// The value as TOML, in a canonical spelling.
    pub value: String,
    /// Where the value is written; `None` for a default.
    pub origin: Option<Spot>,
}

/// The report of one load.
#[derive(Debug, Default)]
pub struct Report {
    /// The texts of the files.
    pub sources: Sources,
    /// Errors that make the board unusable: the first [`MOST_FINDINGS`].
    pub findings: Vec<Finding>,
    /// Number of errors beyond those.
    pub untold: usize,
    /// Warnings: allowed, but worth checking.
    pub warnings: Vec<Finding>,
    /// The values that were read, in order.
    pub settings: Vec<Setting>,
    /// Every key that was requested, whether present or not; kept only for the schema.
    pub asked: Option<Vec<Asked>>,
}

impl Report {
    /// Reports an error.
    pub fn refuse(&mut self, key: &str, place: Option<SourceRange>, problem: Problem) {
        if self.is_full() {
            self.untold += 1;
            return;
        }
        let spot = place.map(|place| self.sources.spot(place));
        self.findings.push(Finding { key: key.to_string(), problem, spot });
    }
    /// Whether the report is full: further errors are only counted, and need no message.
    pub fn is_full(&self) -> bool {
        self.findings.len() >= MOST_FINDINGS
    }
    /// Reports an error in the value of `key`.
    pub fn refuse_value(&mut self, key: &str, problem: Problem) {
        if self.is_full() {
            self.untold += 1;
            return;
        }
        let spot = self.spot_of(key);
        self.findings.push(Finding { key: key.to_string(), problem, spot });
    }
    /// Reports, at the value of `key`, that values contradict each other.
    pub fn misfit(&mut self, key: &str, rule: String) {
        self.refuse_value(key, Problem::Misfit { rule });
    }
    /// Adds a warning.
    pub fn warn(&mut self, key: &str, rule: String) {
        let spot = self.spot_of(key);
        self.warnings.push(Finding { key: key.to_string(), problem: Problem::Misfit { rule }, spot });
    }
    /// Where the value of `key` is written.
    pub fn spot_of(&self, key: &str) -> Option<Spot> {
        self.settings.iter().rev().find(|setting| setting.key == key)?.origin.clone()
    }
}

/// A report that several open sections write to.
pub type Shared = RefCell<Report>;
