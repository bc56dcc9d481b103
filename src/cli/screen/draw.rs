//! Renders a page of the model. A pure function: the same model gives the same page.

use super::model::{Model, Page};
use super::panels::{self, Depth, Panel, fit, put};
use super::{colours, room, slices, words};
use crate::base::plan::Cause;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

mod small;

/// The smallest window in which everything is shown, columns by rows.
const WHOLE: [u16; 2] = [80, 24];
/// From this width on there is a third column.
const THREE_COLUMNS: u16 = 118;
/// Width of the left column, which has the tables.
const LEFT: u16 = 46;
/// Width of the middle column if there are three.
const MIDDLE: u16 = 36;
/// Rows above the columns, unless the window is narrow: title, mode, causes.
const ABOVE: u16 = 4;
/// Rows below the columns, unless the window is narrow: message, keys.
const BELOW: u16 = 2;
/// Lines for causes of restraint.
const CAUSES: usize = 2;
/// If the body has fewer rows than this, the panels for motors, buses, loop and field are shorter, so that
/// sensors and room have space.
const LOW: u16 = 28;
/// The fewest rows in which the room is drawn, with its title.
const LEAST_ROOM: u16 = 4;

/// Most lines of a message, a cause or the mode in a narrow window: the longest of them fit into three lines
/// of 40 columns.
const NARROW_LINES: usize = 3;

/// Draws the page.
pub(super) fn draw(model: &Model, area: Rect, buffer: &mut Buffer) {
    let below = footer(model, area, buffer);
    let top = Rect { height: area.height.saturating_sub(below), ..area };
    let above = header(model, top, buffer);
    let Some(height) = top.height.checked_sub(above) else { return };
    let body = Rect { y: area.y + above, height, ..area };
    match model.page {
        Page::Help => help(model, body, buffer),
        Page::Slices => slices::draw(model.shown().0.slices.as_ref(), model.colour, body, buffer),
        Page::Robot if area.width < WHOLE[0] || area.height < WHOLE[1] => {
            small::draw(model, area, body, buffer);
        }
        Page::Robot if area.width >= THREE_COLUMNS => three_columns(model, body, buffer),
        Page::Robot => two_columns(model, body, buffer),
    }
}

/// Whether the window is too narrow for sentences on one line.
fn is_narrow(area: Rect) -> bool {
    area.width < WHOLE[0]
}

/// Draws title, mode and causes; returns how many rows they take.
fn header(model: &Model, area: Rect, buffer: &mut Buffer) -> u16 {
    let status = &model.newest;
    let width = usize::from(area.width);
    let title = format!("{:<width$}", fit(&panels::title(model), width));
    put(&title, mode_style(model).add_modifier(Modifier::REVERSED | Modifier::BOLD), 0, area, buffer);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let cause_style = if status.causes.is_empty() { Style::new() } else { trouble_style(model.colour) };
    let causes = causes(&status.causes);
    if !is_narrow(area) {
        put(&words::mode(status), bold, 1, area, buffer);
        causes.iter().zip(2..).for_each(|(cause, y)| put(cause, cause_style, y, area, buffer));
        return ABOVE;
    }
    let parts =
        std::iter::once((words::mode(status), bold)).chain(causes.into_iter().map(|c| (c, cause_style)));
    let parts = parts.flat_map(|(text, style)| {
        folded(&text, width, NARROW_LINES).into_iter().map(move |line| (line, style))
    });
    let mut rows = 1;
    for (line, style) in parts {
        put(&line, style, rows, area, buffer);
        rows += 1;
    }
    rows
}

/// `text` in at most `most` lines of at most `width` columns.
fn folded(text: &str, width: usize, most: usize) -> Vec<String> {
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    panels::wrapped(first, rest, width, most)
}

/// Lines about the active causes, the most severe first.
fn causes(names: &[String]) -> Vec<String> {
    if names.is_empty() {
        return vec!["No active causes.".to_string()];
    }
    let severity = |name: &&String| Cause::ALL.iter().position(|cause| cause.name() == *name);
    let mut worst: Vec<&String> = names.iter().collect();
    worst.sort_by_key(|name| std::cmp::Reverse(severity(name)));
    let (shown, rest) = match worst.len() {
        0..=CAUSES => (&worst[..], &[][..]),
        _ => worst.split_at(CAUSES - 1),
    };
    let mut lines: Vec<String> = shown.iter().map(|name| format!("! {}", words::cause(name))).collect();
    if !rest.is_empty() {
        let rest: Vec<&str> = rest.iter().map(|name| name.as_str()).collect();
        lines.push(format!("! and {} more: {}", rest.len(), rest.join(", ")));
    }
    lines
}

/// Draws message and keys; returns how many rows they take. In a narrow window, where rows are precious, a
/// missing message takes none, and a long one several: it may ask for a second key.
fn footer(model: &Model, area: Rect, buffer: &mut Buffer) -> u16 {
    let width = usize::from(area.width);
    let message = match (&model.notice, &model.log) {
        (notice, _) if !notice.is_empty() => format!("> {notice}"),
        (_, Some(log)) => format!("log: {log}"),
        (_, None) => String::new(),
    };
    let mut message = match is_narrow(area) {
        false => vec![message],
        true if message.is_empty() => Vec::new(),
        true => folded(&message, width, NARROW_LINES),
    };
    // The title and the mode stay visible.
    message.truncate(area.height.saturating_sub(BELOW + 1).into());
    let Some(last) = area.height.checked_sub(1).filter(|last| *last > 1) else { return 0 };
    let rows = message.len() as u16 + 1;
    message.iter().zip(last + 1 - rows..).for_each(|(line, y)| {
        put(line, Style::new().add_modifier(Modifier::BOLD), y, area, buffer);
    });
    let keys = format!("{:<width$}", words::keys(width));
    put(&keys, Style::new().add_modifier(Modifier::REVERSED), last, area, buffer);
    rows
}

/// The help page, with its long lines folded, and a mark if it does not fit.
fn help(model: &Model, body: Rect, buffer: &mut Buffer) {
    let mut rows = words::help(model.owner);
    if is_narrow(body) {
        let fold = |row: &String| folded(row, body.width.into(), NARROW_LINES);
        rows = rows.iter().flat_map(fold).collect();
    }
    let height = usize::from(body.height);
    if rows.len() > height {
        rows.truncate(height.saturating_sub(1));
        rows.push("... more in a larger window".to_string());
    }
    lines(&rows, body, buffer);
}

fn two_columns(model: &Model, body: Rect, buffer: &mut Buffer) {
    let (status, history) = model.shown();
    let (left, right) = split(body, LEFT);
    left_column(model, left, buffer);
    let mut pile = Pile::new(right, model);
    let is_tight = status.room.is_some() && area_is_low(body);
    let depth = if is_tight { Depth::Brief } else { Depth::Whole };
    pile.add(&panels::control_loop(status, history, right.width.into(), depth), buffer);
    pile.add(&panels::field(status, history, right.width.into(), depth), buffer);
    pile.room(buffer);
}

fn three_columns(model: &Model, body: Rect, buffer: &mut Buffer) {
    let (status, history) = model.shown();
    let (left, rest) = split(body, LEFT);
    let (middle, right) = split(rest, if status.room.is_some() { MIDDLE } else { rest.width - 1 });
    left_column(model, left, buffer);
    let mut pile = Pile::new(middle, model);
    pile.add(&panels::control_loop(status, history, middle.width.into(), Depth::Whole), buffer);
    pile.add(&panels::field(status, history, middle.width.into(), Depth::Whole), buffer);
    Pile::new(right, model).room(buffer);
}

/// Sensors, motors, buses and drops.
fn left_column(model: &Model, area: Rect, buffer: &mut Buffer) {
    let (status, _) = model.shown();
    let [motors, buses] = if area_is_low(area) { [4, 3] } else { [8, 8] };
    let below = [panels::motors(status, motors), panels::buses(status, buses), panels::drops(status)];
    let taken: usize = below.iter().map(|panel| panel.rows.len() + 1).sum();
    let left = usize::from(area.height).saturating_sub(taken + 1);
    let mut pile = Pile::new(area, model);
    pile.add(&panels::sensors(status, left.max(2)), buffer);
    below.iter().for_each(|panel| pile.add(panel, buffer));
}

/// Whether the body has too few rows for the full panels.
fn area_is_low(body: Rect) -> bool {
    body.height < LOW
}

/// The first `width` columns and, after a gap, the rest.
fn split(area: Rect, width: u16) -> (Rect, Rect) {
    let width = width.min(area.width);
    let rest = area.width.saturating_sub(width + 1);
    (Rect { width, ..area }, Rect { x: area.x + area.width - rest, width: rest, ..area })
}

/// Panels stacked from top to bottom.
struct Pile<'a> {
    area: Rect,
    model: &'a Model,
}

impl Pile<'_> {
    fn new(area: Rect, model: &Model) -> Pile<'_> {
        Pile { area, model }
    }

    /// Adds a panel, cut to the rows that are left.
    fn add(&mut self, Panel { title, rows }: &Panel, buffer: &mut Buffer) {
        if rows.is_empty() || self.area.height < 2 {
            return;
        }
        self.rule(title, buffer);
        for row in rows.iter().take(self.area.height.into()) {
            let style = if row.trouble { trouble_style(self.model.colour) } else { Style::new() };
            put(&row.shown(), style, 0, self.area, buffer);
            self.advance(1);
        }
    }

    fn rule(&mut self, title: &str, buffer: &mut Buffer) {
        let width = usize::from(self.area.width);
        let title = fit(title, width.saturating_sub(4));
        let rest = width.saturating_sub(title.chars().count() + 4);
        put(&format!("── {title} {}", "─".repeat(rest)), Style::new(), 0, self.area, buffer);
        self.advance(1);
    }

    /// Fills the remaining rows with the simulated room.
    fn room(mut self, buffer: &mut Buffer) {
        let (status, history) = self.model.shown();
        if status.room.is_none() || self.area.height < LEAST_ROOM {
            return;
        }
        self.rule("Room from above", buffer);
        room::draw(status, history, self.model.colour, self.area, buffer);
    }

    fn advance(&mut self, rows: u16) {
        let rows = rows.min(self.area.height);
        (self.area.y, self.area.height) = (self.area.y + rows, self.area.height - rows);
    }
}

fn lines(rows: &[String], area: Rect, buffer: &mut Buffer) {
    rows.iter().zip(0..area.height).for_each(|(row, y)| put(row, Style::new(), y, area, buffer));
}

fn mode_style(model: &Model) -> Style {
    match model.newest.mode.as_str() {
        _ if !model.colour => Style::new(),
        "armed" => Style::new().fg(colours::GREEN),
        "degraded" => Style::new().fg(colours::ORANGE),
        "latched" => Style::new().fg(colours::RED),
        _ => Style::new(),
    }
}

fn trouble_style(colour: bool) -> Style {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    if colour { bold.fg(colours::ORANGE) } else { bold }
}

#[cfg(test)]
mod tests;
