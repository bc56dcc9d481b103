//! Renders a page of the model. A pure function: the same model gives the same page.

use super::model::{Model, Page};
use super::panels::{self, Depth, Panel, fit, put};
use super::{room, slices, words};
use crate::base::plan::Cause;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

/// The smallest window in which the panels are shown, columns by rows.
const WHOLE: [u16; 2] = [80, 24];
/// From this width on there is a third column.
const THREE_COLUMNS: u16 = 118;
/// Width of the left column, which has the tables.
const LEFT: u16 = 46;
/// Width of the middle column if there are three.
const MIDDLE: u16 = 36;
/// Rows above the columns: title, mode, causes.
const ABOVE: u16 = 4;
/// Rows below the columns: message, keys.
const BELOW: u16 = 2;
/// Lines for causes of restraint.
const CAUSES: usize = 2;
/// If the body has fewer rows than this, the panels for motors, buses, loop and field are shorter, so that
/// sensors and room have space.
const LOW: u16 = 28;
/// The fewest rows in which the room is drawn, with its title.
const LEAST_ROOM: u16 = 4;

/// Draws the page.
pub(super) fn draw(model: &Model, area: Rect, buffer: &mut Buffer) {
    header(model, area, buffer);
    footer(model, area, buffer);
    let Some(height) = area.height.checked_sub(ABOVE + BELOW) else { return };
    let body = Rect { y: area.y + ABOVE, height, ..area };
    if model.page == Page::Help {
        let rows = words::help(model.owner);
        return lines(&rows, body, buffer);
    }
    if area.width < WHOLE[0] || area.height < WHOLE[1] {
        let [width, height] = WHOLE;
        let small = format!(" This window is {} x {}. At least {width} x {height}", area.width, area.height);
        return lines(&[small, " is needed for sensors, motors, loop, field, buses.".into()], body, buffer);
    }
    if model.page == Page::Slices {
        return slices::draw(model.shown().0.slices.as_ref(), model.colour, body, buffer);
    }
    if area.width >= THREE_COLUMNS {
        three_columns(model, body, buffer)
    } else {
        two_columns(model, body, buffer)
    }
}

fn header(model: &Model, area: Rect, buffer: &mut Buffer) {
    let status = &model.newest;
    let width = usize::from(area.width);
    let title = format!("{:<width$}", fit(&panels::title(model), width));
    put(&title, mode_style(model).add_modifier(Modifier::REVERSED | Modifier::BOLD), 0, area, buffer);
    put(&words::mode(status), Style::new().add_modifier(Modifier::BOLD), 1, area, buffer);
    causes(&status.causes).iter().zip(2..).for_each(|(cause, y)| {
        put(cause, trouble_style(model.colour && !status.causes.is_empty()), y, area, buffer);
    });
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

fn footer(model: &Model, area: Rect, buffer: &mut Buffer) {
    let Some(y) = area.height.checked_sub(BELOW).filter(|y| *y > 1) else { return };
    let message = match (&model.notice, &model.log) {
        (notice, _) if !notice.is_empty() => format!("> {notice}"),
        (_, Some(log)) => format!("log: {log}"),
        (_, None) => String::new(),
    };
    put(&message, Style::new().add_modifier(Modifier::BOLD), y, area, buffer);
    put(words::KEYS, Style::new().add_modifier(Modifier::REVERSED), y + 1, area, buffer);
    let width = usize::from(area.width).saturating_sub(words::KEYS.chars().count());
    let rest = Rect { x: area.x + area.width.saturating_sub(width as u16), width: width as u16, ..area };
    put(&" ".repeat(width), Style::new().add_modifier(Modifier::REVERSED), y + 1, rest, buffer);
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
            put(&row.text, style, 0, self.area, buffer);
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
        "armed" => Style::new().fg(Color::Green),
        "degraded" => Style::new().fg(Color::Yellow),
        "latched" => Style::new().fg(Color::Red),
        _ => Style::new(),
    }
}

fn trouble_style(colour: bool) -> Style {
    if colour { Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD) } else { Style::new() }
}

#[cfg(test)]
mod tests;
