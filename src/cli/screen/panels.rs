//! The parts of the page as lines of text, each for a given width.

use super::model::{History, Model};
use crate::cli::go;
use crate::drive::trace::Latency;
use crate::memory::map::MapStatus;
use crate::runtime::control::{BusStatus, LATENESS_BOUNDS_US, Lateness, MotorStatus, SensorStatus, Status};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::collections::{BTreeMap, VecDeque};

/// Bars from the lowest to the highest.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Half the width of a motor's bar.
const HALF_BAR: usize = 8;

/// A line, and whether it shows a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) text: String,
    pub(super) trouble: bool,
}

impl Row {
    /// The line as shown: a problem is marked with `!` in its first column.
    pub(super) fn shown(&self) -> String {
        match self.text.strip_prefix(' ') {
            Some(rest) if self.trouble => format!("!{rest}"),
            _ => self.text.clone(),
        }
    }
}

/// How detailed a panel is: in a window with few rows, brief panels leave space for the simulated room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    Whole,
    Brief,
}

/// A titled part of the page.
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) rows: Vec<Row>,
}

fn row(text: String) -> Row {
    Row { text, trouble: false }
}

fn trouble(text: String, trouble: bool) -> Row {
    Row { text, trouble }
}

/// `text`, cut to at most `width` columns; a cut is marked.
pub(super) fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_string();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    if width > 0 {
        cut.push('…');
    }
    cut
}

/// Writes one line, `y` rows below the top of `area`.
pub(super) fn put(text: &str, style: Style, y: u16, area: Rect, buffer: &mut Buffer) {
    if y < area.height {
        let width = usize::from(area.width);
        buffer.set_stringn(area.x, area.y + y, fit(text, width), width, style);
    }
}

/// At most `most` of `rows`. If there are more, those with problems come first, and the last line is a count
/// of those left out.
fn first(rows: Vec<Row>, most: usize, what: &str) -> Vec<Row> {
    if rows.len() <= most {
        return rows;
    }
    let all = rows.len();
    let (mut kept, sound): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(|row| row.trouble);
    kept.extend(sound);
    kept.truncate(most.saturating_sub(1));
    kept.push(row(format!("  and {} more {what} (taller window)", all - kept.len())));
    kept
}

/// The sensors in at most `most` rows.
pub(super) fn sensors(status: &Status, most: usize) -> Panel {
    let rows = status.measured.sensors.iter().map(sensor).collect();
    Panel { title: "Sensors".into(), rows: first(rows, most, "sensors") }
}

fn sensor(SensorStatus { name, unit, value, age_ms, health, .. }: &SensorStatus) -> Row {
    let bad = health != "good";
    let value = value.map_or("-".to_string(), |value| number(value.into()));
    let age = age_ms.map_or(String::new(), age);
    let (name, unit) = (fit(name, 14), fit(unit, 6));
    trouble(format!(" {name:<14} {value:>7} {unit:<6} {age:>6} {health}"), bad)
}

/// At most two decimals, and fewer for a large value: enough to watch, and a table needs a fixed width.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1_000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn age(ms: f64) -> String {
    if ms < 1_000.0 { format!("{ms:.0} ms") } else { format!("{:.1} s", ms / 1e3) }
}

/// The motors in at most `most` rows.
pub(super) fn motors(status: &Status, most: usize) -> Panel {
    let rows = status.measured.motors.iter().map(motor).collect();
    let by = status.measured.commanded_by.as_deref();
    let title = by.map_or("Motors".to_string(), |by| format!("Motors, by {by}"));
    Panel { title, rows: first(rows, most, "motors") }
}

fn motor(MotorStatus { name, command }: &MotorStatus) -> Row {
    let length = (f64::from(command.abs()).min(1.0) * HALF_BAR as f64).round() as usize;
    let (full, empty) = ("█".repeat(length), " ".repeat(HALF_BAR - length));
    let none = " ".repeat(HALF_BAR);
    let bar =
        if *command < 0.0 { format!("{empty}{full}│{none}") } else { format!("{none}│{full}{empty}") };
    row(format!(" {:<14} {command:>+7.2} {bar}", fit(name, 14)))
}

/// The control loop.
pub(super) fn control_loop(status: &Status, history: &History, width: usize, depth: Depth) -> Panel {
    let mut rows = Vec::new();
    let period_us = status.measured.lateness.as_ref().map(|late| late.limit_us);
    let hertz = period_us.map(|us| format!("{:.0} Hz", 1e6 / us));
    let title = match depth {
        Depth::Whole => {
            let (run, skipped) = (status.slots_run, status.slots_skipped);
            let hertz = hertz.map_or(String::new(), |hertz| format!("{hertz}, "));
            rows.push(trouble(format!(" {hertz}{run} run, {skipped} skipped"), skipped > 0));
            "Loop: lateness of each period".to_string()
        }
        // The title shows how long the robot has run, and the drops how many slots were skipped.
        Depth::Brief => {
            format!("Loop: lateness{}", hertz.map_or(String::new(), |hertz| format!(", {hertz}")))
        }
    };
    if let Some(Latency { p50, p99, max, .. }) = status.measured.release_late_us {
        rows.push(row(format!(" p50 {p50:.0}, p99 {p99:.0}, max {max:.0} us")));
    }
    if let Some(late) = &status.measured.lateness {
        rows.push(row(lateness_bars(late)));
        let limit = format!("limit {}", short_us(late.limit_us));
        let steps = spark(&history.lateness, width.saturating_sub(limit.len() + 7), late.counts.len() - 1);
        let missed = history.lateness.back().is_some_and(|class| is_over_limit(*class, late.limit_us));
        rows.push(trouble(format!(" max {steps} {limit}"), missed));
    }
    Panel { title, rows }
}

/// A histogram of the lateness of all slots, on a log scale, so that one late slot among a million is still
/// visible.
fn lateness_bars(Lateness { counts, .. }: &Lateness) -> String {
    let log = |count: u64| (count as f64 + 1.0).log2();
    let highest = counts.iter().map(|count| log(*count)).fold(1.0, f64::max);
    let bar = |count: &u64| match *count {
        0 => ' ',
        count => BARS[((log(count) / highest * 7.0).round() as usize).min(7)],
    };
    let bars: String = counts.iter().flat_map(|count| [bar(count); 2]).collect();
    let [first, .., last] = LATENESS_BOUNDS_US.map(|bound| short_us(bound as f64).replace(' ', ""));
    format!(" <{first} {bars} >{last}")
}

fn is_over_limit(class: usize, limit_us: f64) -> bool {
    class > 0 && LATENESS_BOUNDS_US[class - 1] as f64 >= limit_us
}

fn short_us(us: f64) -> String {
    if us < 1_000.0 { format!("{us:.0} us") } else { format!("{} ms", us / 1e3) }
}

/// The newest steps as bars; `most` is the full height.
fn spark(steps: &VecDeque<usize>, width: usize, most: usize) -> String {
    let bar = |step: &usize| BARS[(step * 7).div_ceil(most.max(1)).min(7)];
    steps.iter().skip(steps.len().saturating_sub(width)).map(bar).collect()
}

/// The field, its engine, and its outputs.
pub(super) fn field(status: &Status, history: &History, width: usize, depth: Depth) -> Panel {
    let measured = &status.measured;
    let mut rows = Vec::new();
    let lines = if depth == Depth::Whole { 2 } else { 1 };
    let well = status.engine_state == "running";
    let engine =
        if well { status.engine.clone() } else { format!("{}, {}", status.engine, status.engine_state) };
    rows.extend(wrapped(" engine ", &engine, width, lines).into_iter().map(|text| trouble(text, !well)));
    if let Some(quality) = &measured.quality {
        let heights: VecDeque<usize> =
            history.quality.iter().map(|level| quality.lowest.saturating_sub(*level)).collect();
        let words = match quality.level {
            0 => "best".to_string(),
            level => format!("{level} of {}", quality.lowest),
        };
        let text = format!(" quality {words:<6} ");
        let steps = spark(&heights, width.saturating_sub(text.len()), quality.lowest);
        rows.push(trouble(text + &steps, quality.level > 0));
        let why = quality.reason.iter().flat_map(|why| wrapped("  because ", why, width, lines));
        rows.extend(why.map(row));
    }
    if let Some(Latency { p50, p99, .. }) = measured.field_us {
        rows.push(row(format!(" cycle p50 {}, p99 {}", short_time(p50), short_time(p99))));
    }
    if let Some(Latency { p50, p99, .. }) = measured.answer_us {
        rows.push(row(format!(" answer p50 {}, p99 {}", short_time(p50), short_time(p99))));
    }
    let link = measured.link.as_ref().map(|link| &link.parts_us);
    rows.extend([Some(&measured.stages_us), link].into_iter().flatten().filter_map(stages));
    if let Some(answer) = &measured.answer {
        let (confidence, novelty) = (answer.confidence, answer.novelty);
        rows.push(row(format!(" confidence {confidence:.2}, novelty {novelty:.2}")));
        if depth == Depth::Whole {
            rows.push(row(format!(" newest: cycle {}, {:.0} ms old", answer.cycle, answer.age_ms)));
        }
    }
    if let Some(goal) = measured.goal.as_ref().filter(|goal| goal.goal.is_some()) {
        let given_up = goal.state == "given-up";
        let (line, most) = match depth {
            Depth::Whole => (go::line(goal), 3),
            Depth::Brief => (go::progress(goal), 2), // the room shows where the robot is
        };
        let lines = wrapped(" ", &format!("goal {line}"), width, most);
        rows.extend(lines.into_iter().map(|text| trouble(text, given_up)));
    }
    rows.extend(status.map.as_ref().map(recalled));
    // A brief panel names a GPU only if there is one: otherwise the engine line above says enough.
    if let Some(gpu) = measured.gpu.as_ref().filter(|gpu| depth == Depth::Whole || gpu.name.is_some()) {
        let name = gpu.name.as_deref().unwrap_or("none");
        let why = gpu.why.as_deref().unwrap_or("not in use");
        let words = if gpu.computes { format!("computes ({name})") } else { format!("not in use: {why}") };
        let lost = !gpu.computes && gpu.name.is_some();
        rows.extend(wrapped(" GPU ", &words, width, 3).into_iter().map(|text| trouble(text, lost)));
    }
    Panel { title: "Field".into(), rows }
}

fn short_time(us: f64) -> String {
    if us < 1_000.0 { format!("{us:.0} us") } else { format!("{:.1} ms", us / 1e3) }
}

fn stages(stages: &BTreeMap<String, Latency>) -> Option<Row> {
    let each = |(name, times): (&String, &Latency)| format!("{name} {:.0}", times.p50);
    let each: Vec<String> = stages.iter().map(each).collect();
    (!each.is_empty()).then(|| row(format!(" stages {} us", each.join(", "))))
}

fn recalled(map: &MapStatus) -> Row {
    let near: Vec<String> =
        map.near.iter().map(|near| format!("{} ({:.2})", near.name, near.likeness)).collect();
    let near = if near.is_empty() { "nothing".to_string() } else { near.join(", ") };
    row(format!(" recalled near here: {near}"))
}

/// `words` after `label`, in at most `most` lines of at most `width` columns; the last line may be cut.
pub(super) fn wrapped(label: &str, words: &str, width: usize, most: usize) -> Vec<String> {
    let mut lines = vec![label.trim_end().to_string()];
    for word in words.split_whitespace() {
        let last = lines.len() - 1;
        if lines[last].chars().count() + 1 + word.chars().count() <= width || lines.len() == most {
            lines[last].push(' ');
            lines[last].push_str(word);
        } else {
            lines.push(format!("   {word}"));
        }
    }
    lines.iter().map(|line| fit(line, width)).collect()
}

/// The buses.
pub(super) fn buses(status: &Status, most: usize) -> Panel {
    let rows = status.buses.iter().flat_map(bus).collect();
    let mut rows = first(rows, most, "lines");
    if let Some(guard) = &status.guard {
        let reason = guard.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        let line = if guard.line_on { "on" } else { "off" };
        let text = format!(" guard {}{reason}, line {line}, {} trips", guard.phase, guard.trips);
        rows.push(trouble(text, guard.phase != "trusted"));
    }
    Panel { title: "Buses".into(), rows }
}

fn bus(bus: &BusStatus) -> Vec<Row> {
    let BusStatus { name, failures, retries, set_ups, recovery, lost, stops_again, .. } = bus;
    let ill = *failures + *retries > 0 || !lost.is_empty();
    let mut rows =
        vec![trouble(format!(" {name}: {failures} failed, {retries} retried, set up {set_ups}x"), ill)];
    let taken: Vec<String> = recovery.iter().map(|(step, times)| format!("{step} {times}x")).collect();
    if !taken.is_empty() {
        rows.push(trouble(format!("   recovered by {}", taken.join(", ")), true));
    }
    if *stops_again > 0 {
        rows.push(trouble(format!("   stop repeated {stops_again}x: motors not confirmed stopped"), true));
    }
    if !lost.is_empty() {
        rows.push(trouble(format!("   no value from {}", lost.join(", ")), true));
    }
    rows
}

/// Counts of work and data that were lost, and of refused requests to arm.
pub(super) fn drops(status: &Status) -> Panel {
    let expired: u64 = status.buses.iter().map(|bus| bus.expired).sum();
    let counts = [
        ("slots skipped", Some(status.slots_skipped)),
        ("commands expired", Some(expired)),
        ("records lost", Some(status.records_dropped)),
        ("recorded slots", status.recording.as_ref().map(|recording| recording.lost())),
        ("map slots", status.map.as_ref().map(|map| map.dropped)),
        ("armings refused", Some(status.arm_refused)),
    ];
    let counts: Vec<(&str, u64)> =
        counts.into_iter().filter_map(|(name, count)| Some((name, count?))).collect();
    let pairs = counts.chunks(2).map(|pair| {
        let words: Vec<String> = pair.iter().map(|(name, count)| format!("{name:<16} {count:<5}")).collect();
        trouble(format!(" {}", words.join(" ").trim_end()), pair.iter().any(|(_, count)| *count > 0))
    });
    Panel { title: "Drops".into(), rows: pairs.collect() }
}

/// The first line: which robot this is, and how long it has been running.
pub(super) fn title(model: &Model) -> String {
    let status = &model.newest;
    let simulated = if status.simulated { " (simulated)" } else { "" };
    let slots = status.slots_run + status.slots_skipped;
    let run = status.measured.lateness.as_ref().map(|late| slots as f64 * late.limit_us / 1e6);
    let run = run.map_or(String::new(), |run| format!("  {}:{:02}", run as u64 / 60, run as u64 % 60));
    let frozen = if model.is_frozen() { "  PAGE FROZEN, space to continue" } else { "" };
    format!(" {}  {}{simulated}{run}{frozen}", status.mode.to_uppercase(), status.board)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_marked_and_what_is_left_out_is_counted() {
        assert_eq!(
            (fit("abcdef", 6), fit("abcdef", 4), fit("abcdef", 0)),
            ("abcdef".into(), "abc…".into(), String::new())
        );
        let rows: Vec<Row> = (0..5).map(|place| trouble(format!("{place}"), place == 4)).collect();
        let kept: Vec<String> = first(rows, 3, "sensors").into_iter().map(|row| row.text).collect();
        assert_eq!(kept, ["4", "0", "  and 3 more sensors (taller window)"]);
    }

    #[test]
    fn a_problem_has_a_mark() {
        let shown = |bad| trouble(" quality 2 of 5".into(), bad).shown();
        assert_eq!((shown(true), shown(false)), ("!quality 2 of 5".into(), " quality 2 of 5".into()));
    }

    #[test]
    fn bars_show_one_late_slot_among_a_million() {
        let late =
            Lateness { limit_us: 10_000.0, counts: vec![0, 1_000_000, 0, 0, 0, 0, 0, 0, 0, 1], sum_us: 0.0 };
        assert_eq!(lateness_bars(&late), " <20us   ██              ▁▁ >10ms");
        assert!(is_over_limit(9, 10_000.0) && !is_over_limit(8, 10_000.0));
    }

    #[test]
    fn a_motors_bar_grows_to_the_side_of_its_sign() {
        let bar = |command| motor(&MotorStatus { name: "left".into(), command }).text;
        assert_eq!(bar(1.0), " left             +1.00         │████████");
        assert_eq!(bar(-0.5), " left             -0.50     ████│        ");
    }
}
