//! What the page counts, and its tables: readings by sensor, goals, buses, engine, temperatures and guard, as
//! HTML.

use super::goals::GoalShown;
use crate::base::fault::ReadingFault;
use crate::cli::measured::{gpu_figures_words, temperature_words};
use crate::decision::admit::{REFUSALS, refusal};
use crate::runtime::control::Status;
use crate::system::sanitize::markup;
use std::collections::BTreeMap;
use std::fmt::Write;

/// What became of a sensor's readings.
#[derive(Debug, Default)]
pub struct Readings {
    taken: u64,
    /// Readings without a value, by reason.
    failed: BTreeMap<&'static str, u64>,
    slots: u64,
    /// Slots in which the value was not good, by reason.
    bad: BTreeMap<&'static str, u64>,
}

impl Readings {
    /// Counts a reading that the tick received.
    pub fn take(&mut self, value: &Result<f32, ReadingFault>) {
        self.taken += 1;
        if let Err(fault) = value {
            *self.failed.entry(REFUSALS[refusal(*fault)]).or_default() += 1;
        }
    }

    /// Counts a slot; `bad`: why the value was not good in it.
    pub fn slot(&mut self, bad: Option<&'static str>) {
        self.slots += 1;
        if let Some(word) = bad {
            *self.bad.entry(word).or_default() += 1;
        }
    }
}

/// A table with this head and these rows. All cells are escaped here.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut html = String::from("<div class=\"wide\"><table><thead><tr>");
    head.iter().for_each(|cell| html += &format!("<th>{}</th>", markup(cell)));
    html += "</tr></thead><tbody>";
    for row in rows {
        html += "<tr>";
        row.iter().for_each(|cell| html += &format!("<td>{}</td>", markup(cell)));
        html += "</tr>";
    }
    html + "</tbody></table></div>\n"
}

/// Words, each with its count.
fn counted<K: AsRef<str>>(counts: &BTreeMap<K, u64>, none: &str) -> String {
    let each: Vec<String> = counts.iter().map(|(word, times)| format!("{} {times}", word.as_ref())).collect();
    if each.is_empty() { none.to_string() } else { each.join(", ") }
}

/// What became of the readings of each sensor.
pub fn readings(sensors: &[(String, Readings)]) -> String {
    let rows = sensors.iter().map(|(name, readings)| {
        let good = readings.slots - readings.bad.values().sum::<u64>();
        let share = 100.0 * good as f64 / readings.slots.max(1) as f64;
        let (failed, bad) = (counted(&readings.failed, "none"), counted(&readings.bad, "none"));
        vec![name.clone(), readings.taken.to_string(), failed, format!("{share:.1} %"), bad]
    });
    let head =
        ["sensor", "readings", "without a value", "slots with a good value", "slots without one, by reason"];
    table(&head, &rows.collect::<Vec<_>>())
}

/// What became of each goal; nothing if there was none.
pub fn goals(goals: &[GoalShown]) -> String {
    let rows = goals.iter().map(|goal| {
        let [x, y] = goal.at.map(|metres| format!("{metres:.2} m"));
        let why = goal.why.map_or(String::new(), |why| format!(": {why}"));
        let state = goal.state.replace('-', " ");
        vec![format!("{:.2} s", goal.from_s), format!("{x}, {y}"), format!("{state}{why}")]
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return String::new();
    }
    format!("<h3>Goals</h3>\n{}", table(&["after", "goal on the map", "what became of it"], &rows))
}

/// Buses, guard, engine, temperatures and recorder, as the last status in the recording shows them.
pub fn machine(status: &Status) -> String {
    let joined = |words: &[String], none: &str| if words.is_empty() { none.into() } else { words.join(", ") };
    let rows = status.buses.iter().map(|bus| {
        let counts = [bus.failures, bus.retries, bus.set_ups, bus.expired, bus.stops_again];
        let recovery = counted(&bus.recovery, "none");
        let name = std::iter::once(bus.name.clone());
        let words = [recovery, joined(&bus.measures, "none"), joined(&bus.lost, "none")];
        name.chain(counts.map(|count| count.to_string())).chain(words).collect()
    });
    let head = ["bus", "failed", "retried", "set up", "commands expired", "stopped again", "recoveries"]
        .into_iter()
        .chain(["available besides a reset", "devices lost"])
        .collect::<Vec<_>>();
    let mut html = table(&head, &rows.collect::<Vec<_>>());
    html += "<dl class=\"facts\">";
    let mut fact = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = write!(html, "<div><dt>{}</dt><dd>{}</dd></div>", markup(name), markup(&value));
    };
    fact("engine", format!("{}; {}", status.engine, status.engine_state));
    if let Some(gpu) = &status.measured.gpu {
        let name = gpu.name.as_deref().unwrap_or("none");
        let use_of_it = if gpu.computes { "computes" } else { "does not compute" };
        let why = gpu.why.as_ref().map_or(String::new(), |why| format!(": {why}"));
        fact("GPU", format!("{name}, {use_of_it}{why}"));
    }
    if let Some(figures) = status.measured.gpu_figures.as_ref().and_then(gpu_figures_words) {
        fact("GPU figures", figures);
    }
    let heat: Vec<String> = status.measured.temperatures.iter().map(temperature_words).collect();
    if !heat.is_empty() {
        fact("temperatures", heat.join(", "));
    }
    if let Some(link) = &status.measured.link {
        let said = link.said.as_deref().unwrap_or("nothing");
        fact(
            "link to a brain",
            format!("{said}{}", if link.stood_in { "; a local field stood in" } else { "" }),
        );
    }
    if let Some(guard) = &status.guard {
        let reason = guard.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
        fact("guard", format!("{}, tripped {} times{reason}", guard.phase, guard.trips));
    }
    fact("records dropped", status.records_dropped.to_string());
    html + "</dl>\n"
}
