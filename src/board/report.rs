//! What one load has to tell: faults, warnings, and every effective value with its origin.

use super::finding::{Finding, Problem};
use super::source::{Place, Sources, Spot};
use std::cell::RefCell;

/// One effective value.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Path of the key, as in `sensor.range.period_ms`.
    pub key: String,
    /// The value as TOML, always written the same way.
    pub value: String,
    /// Where it is written; `None`: nowhere, it is the default.
    pub origin: Option<Spot>,
}

/// All that is to tell about one load.
#[derive(Debug, Default)]
pub struct Report {
    /// The texts.
    pub sources: Sources,
    /// What makes the board unusable.
    pub findings: Vec<Finding>,
    /// What is allowed and worth a thought.
    pub warnings: Vec<Finding>,
    /// What was read, in order.
    pub settings: Vec<Setting>,
}

impl Report {
    /// Notes a fault.
    pub fn refuse(&mut self, key: &str, place: Option<Place>, problem: Problem) {
        let spot = place.map(|place| self.sources.spot(place));
        self.findings.push(Finding { key: key.to_string(), problem, spot });
    }
    /// Notes that values do not fit each other, at the first key.
    pub fn misfit(&mut self, key: &str, rule: String) {
        let spot = self.spot_of(key);
        self.findings.push(Finding { key: key.to_string(), problem: Problem::Misfit { rule }, spot });
    }
    /// Notes something worth a thought.
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
