//! The result of a row: the faults found and the figures, as human-readable lines and as JSON. A row without
//! faults has passed; a row that could not be run has failed.

use ganglion::base::time::Span;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

/// A latency's percentiles, virtual microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    sorted: Vec<u64>,
}

impl Latency {
    /// Percentiles of these times. None of the times is left out.
    pub fn of(mut times: Vec<Span>) -> Latency {
        times.sort_unstable();
        Latency { sorted: times.iter().map(|time| time.as_nanos()).collect() }
    }
    /// The smallest of the times that is not exceeded by at least this percentage of them; zero if there are
    /// none.
    pub fn percentile(&self, percent: usize) -> f64 {
        let last = self.sorted.len().saturating_sub(1);
        let place = (self.sorted.len() * percent).div_ceil(100).saturating_sub(1).min(last);
        self.sorted.get(place).map_or(0.0, |ns| *ns as f64 / 1e3)
    }
    /// The largest time.
    pub fn max(&self) -> f64 {
        self.percentile(100)
    }
    /// Number of times.
    pub fn count(&self) -> usize {
        self.sorted.len()
    }
    /// Human-readable text.
    pub fn text(&self) -> String {
        let [p50, p99] = [50, 99].map(|percent| self.percentile(percent));
        format!("p50 {p50:.1} p99 {p99:.1} max {:.1} virtual us, n {}", self.max(), self.count())
    }
    /// JSON for programs.
    pub fn json(&self) -> Value {
        json!({
            "p50": self.percentile(50), "p99": self.percentile(99), "max": self.max(), "n": self.count(),
        })
    }
}

/// The result of a row.
#[derive(Debug, Default)]
pub struct RowResult {
    faults: Vec<String>,
    notes: Vec<String>,
    figures: Map<String, Value>,
    latencies: Vec<(String, Latency)>,
    gated: Vec<String>,
    /// The processes' output or its path, for a row that failed.
    pub said: String,
}

impl RowResult {
    /// Adds a fault, so the row fails.
    pub fn fault(&mut self, words: impl Into<String>) {
        self.faults.push(words.into());
    }
    /// Adds faults that were found together.
    pub fn faults(&mut self, words: impl IntoIterator<Item = String>) {
        self.faults.extend(words);
    }
    /// Adds a fault unless `holds`.
    pub fn demand(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.faults.push(otherwise());
        }
    }
    /// Adds a note for the reader.
    pub fn note(&mut self, words: impl Into<String>) {
        self.notes.push(words.into());
    }
    /// Adds a figure by name; the name ends in the unit.
    pub fn figure(&mut self, name: &str, value: f64) {
        self.figures.insert(name.into(), json!(value));
    }
    /// Adds a latency by name.
    pub fn latency(&mut self, name: &str, latency: Latency) {
        self.note(format!("{name}: {}", latency.text()));
        self.latencies.push((name.into(), latency));
    }
    /// Adds a latency that is also compared with the baseline.
    pub fn gate(&mut self, name: &str, latency: Latency, baseline: &Baseline) {
        self.faults(baseline.check(name, &latency));
        if !baseline.knows(name) {
            self.note("no baseline to compare with");
        }
        self.gated.push(name.into());
        self.latency(name, latency);
    }
    /// Names of the latencies that were compared with the baseline.
    pub fn gated(&self) -> &[String] {
        &self.gated
    }
    /// The latencies.
    pub fn latencies(&self) -> &[(String, Latency)] {
        &self.latencies
    }
    /// Whether no faults were found.
    pub fn passed(&self) -> bool {
        self.faults.is_empty()
    }

    /// One human-readable line, and one more for each fault.
    pub fn text(&self, name: &str) -> String {
        let mark = if self.passed() { "ok  " } else { "FAIL" };
        let mut words = format!("{mark} {name:<26} {}", self.notes.join("; "));
        for fault in &self.faults {
            let _ = write!(words, "\n       {fault}");
        }
        words
    }

    /// One JSON object for programs.
    pub fn json(&self, name: &str) -> Value {
        let latencies: Map<String, Value> =
            self.latencies.iter().map(|(name, latency)| (name.clone(), latency.json())).collect();
        json!({
            "row": name, "passed": self.passed(), "faults": self.faults, "notes": self.notes,
            "figures": self.figures, "latency_us": latencies,
        })
    }
}

/// The last recorded results of this bench. A latency must not exceed its recorded figures times [`SLACK`].
pub struct Baseline(Value);

/// Largest allowed ratio of a latency to its baseline. Two runs of the same program differ by less, because
/// time is counted in instructions; a change to the program can make a larger difference.
const SLACK: f64 = 1.1;
/// Minimum number of samples for a comparison of p99. With 100 to 200 samples, p99 is the second or third
/// largest value, which differs by more than a tenth between runs of the same program; it is then checked
/// only against the gate of its row.
const SAMPLES_FOR_P99: usize = 1000;

impl Baseline {
    /// Parses a JSON object that maps names to p50 and p99. A text that cannot be parsed is an error, not an
    /// empty baseline.
    pub fn of(text: &str) -> Result<Baseline, serde_json::Error> {
        Ok(Baseline(Value::Object(serde_json::from_str(text)?)))
    }
    /// Faults of `latency` compared with the baseline; a name without a baseline has none.
    pub fn check(&self, name: &str, latency: &Latency) -> Vec<String> {
        let check = |(percent, least): (usize, usize)| {
            if latency.count() < least {
                return None;
            }
            let key = format!("p{percent}");
            let recorded = self.0.get(name)?.get(&key)?.as_f64()?;
            let measured = latency.percentile(percent);
            (measured > recorded * SLACK).then(|| {
                format!("{name} {key} {measured:.1} virtual us, recorded {recorded:.1}, +10 % allowed")
            })
        };
        [(50, 1), (99, SAMPLES_FOR_P99)].into_iter().filter_map(check).collect()
    }
    /// Whether the baseline has this name.
    pub fn knows(&self, name: &str) -> bool {
        self.0.get(name).is_some()
    }
}

/// Appends a line to a results file.
pub fn append(path: &Path, line: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    writeln!(file, "{line}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency(us: impl IntoIterator<Item = u64>) -> Latency {
        Latency::of(us.into_iter().map(Span::from_micros).collect())
    }

    #[test]
    fn percentiles_are_real_samples_and_the_worst_is_kept() {
        let latency = latency((1..=200).rev());
        assert_eq!([50, 99, 100].map(|p| latency.percentile(p) as u64), [100, 198, 200]);
        assert_eq!(Latency::of(vec![]).max() as u64, 0);
    }

    #[test]
    fn ten_percent_above_the_baseline_is_a_fault() {
        let baseline = Baseline::of(r#"{"edge": {"p50": 100.0, "p99": 100.0}}"#).unwrap();
        assert_eq!(baseline.check("edge", &latency(vec![110; 1000])), Vec::<String>::new());
        assert_eq!(baseline.check("edge", &latency(vec![111; 1000])).len(), 2);
        assert_eq!(baseline.check("edge", &latency(vec![111; 999])).len(), 1, "its p99 is not compared");
        assert!(baseline.check("other", &latency(vec![999])).is_empty() && !baseline.knows("other"));
        assert!(Baseline::of("[]").is_err() && Baseline::of("").is_err());
        let mut outcome = RowResult::default();
        outcome.gate("edge", latency(vec![109; 100]), &baseline);
        assert!(outcome.passed() && outcome.gated() == ["edge"]);
        outcome.gate("edge", latency(vec![120; 100]), &baseline);
        assert!(!outcome.passed());
    }

    #[test]
    fn a_row_with_faults_fails_and_lists_them() {
        let mut outcome = RowResult::default();
        outcome.demand(true, || unreachable!());
        assert!(outcome.passed());
        outcome.demand(false, || "it moved".into());
        assert!(!outcome.passed() && outcome.text("row").contains("it moved"));
        assert_eq!(outcome.json("row")["passed"], json!(false));
    }
}
