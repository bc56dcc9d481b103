//! Prometheus' text format: a header for each metric, then its samples. Each name gets the prefix
//! `ganglion_`. Metrics without samples and samples that are not finite are left out. A sample that repeats
//! the labels of an earlier one is left out too, because a reader would reject the whole file.

use crate::system::sanitize;
use std::collections::HashSet;
use std::fmt::{Display, Write};

/// The text so far.
pub(super) struct Page(String);

/// Label names and values of a sample.
pub(super) type Labels<'l> = &'l [(&'l str, &'l str)];

impl Page {
    pub(super) fn new() -> Page {
        Page(String::new())
    }

    /// A value that can go up and down.
    pub(super) fn gauge<'p>(&'p mut self, name: &'p str, help: &'p str) -> Metric<'p> {
        self.metric(name, help, "gauge")
    }

    /// A count that only rises while the runtime runs. Its name ends in `_total`.
    pub(super) fn counter<'p>(&'p mut self, name: &'p str, help: &'p str) -> Metric<'p> {
        self.metric(name, help, "counter")
    }

    /// A histogram: `counts` has one count per bucket, `bounds_us` the upper bound of every bucket except the
    /// last. Counts with a different number of buckets are left out: they come from another version of the
    /// runtime.
    pub(super) fn histogram(
        &mut self,
        (name, help): (&str, &str),
        bounds_us: &[u64],
        counts: &[u64],
        sum_us: f64,
    ) {
        if counts.len() != bounds_us.len() + 1 {
            return;
        }
        let bounds = bounds_us.iter().map(|us| (*us as f64 / 1e6).to_string()).chain(["+Inf".to_string()]);
        let mut metric = self.metric(name, help, "histogram");
        let mut below = 0;
        for (bound, count) in bounds.zip(counts) {
            below += count;
            metric.put("_bucket", &[("le", &bound)], below);
        }
        metric.put("_sum", &[], sum_us / 1e6);
        metric.put("_count", &[], below);
    }

    fn metric<'p>(&'p mut self, name: &'p str, help: &'p str, kind: &'p str) -> Metric<'p> {
        Metric { page: self, name, help, kind, series: HashSet::new() }
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

/// A metric whose samples are being written.
pub(super) struct Metric<'p> {
    page: &'p mut Page,
    name: &'p str,
    help: &'p str,
    kind: &'p str,
    /// Suffix and labels of the samples so far.
    series: HashSet<String>,
}

impl Metric<'_> {
    /// The only sample.
    pub(super) fn value(mut self, value: impl Display) {
        self.put("", &[], value);
    }

    /// One of several samples.
    pub(super) fn with(&mut self, labels: Labels<'_>, value: impl Display) {
        self.put("", labels, value);
    }

    fn put(&mut self, suffix: &str, labels: Labels<'_>, value: impl Display) {
        let value = value.to_string();
        if !value.parse::<f64>().is_ok_and(f64::is_finite) {
            return;
        }
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let series = format!("{suffix}{labels}");
        if self.series.contains(&series) {
            return;
        }
        let (text, name) = (&mut self.page.0, self.name);
        if self.series.is_empty() {
            // Writing into a String cannot fail.
            let _ = writeln!(text, "# HELP ganglion_{name} {}", self.help);
            let _ = writeln!(text, "# TYPE ganglion_{name} {}", self.kind);
        }
        let _ = writeln!(text, "ganglion_{name}{series} {value}");
        self.series.insert(series);
    }
}

/// A label value, escaped as the format requires. Line ends and terminal control bytes are made readable
/// first.
fn escaped(value: &str) -> String {
    sanitize::one_line(value).replace('\\', "\\\\").replace('"', "\\\"")
}
