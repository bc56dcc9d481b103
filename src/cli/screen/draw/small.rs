//! The page in a window that is too small for the whole one: as many panels as fit, and how large the window
//! must be for the rest.

use super::{LEFT, Pile, WHOLE, lines, panels, split};
use crate::cli::screen::model::Model;
use crate::cli::screen::panels::Depth;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Lines for the motors: those of a car, and one that counts the rest.
const MOTORS: usize = 4;
/// Lines for the buses: a car has one bus, and one line says how it was recovered.
const BUSES: usize = 2;
/// The fewest columns in which the room is drawn beside the panels, 32 dots across. With fewer, the car would
/// be hardly larger than a dot, so the room comes below the panels.
const BESIDE: u16 = 16;

/// Draws the page of a `window` into its `body`.
pub(super) fn draw(model: &Model, window: Rect, body: Rect, buffer: &mut Buffer) {
    let Some(height) = body.height.checked_sub(1) else { return };
    let [columns, rows] = WHOLE;
    let note = format!(" Now {} x {}; more is shown at {columns} x {rows}", window.width, window.height);
    lines(&[note], Rect { y: body.y + height, height: 1, ..body }, buffer);
    let (status, history) = model.shown();
    let body = Rect { height, ..body };
    let has_beside = status.room.is_some() && body.width > LEFT + BESIDE;
    let (left, beside) = if has_beside { split(body, LEFT) } else { (body, Rect { width: 0, ..body }) };
    let width = left.width.into();
    let mut pile = Pile::new(left, model);
    pile.add(&panels::motors(status, MOTORS), buffer);
    let half = usize::from(pile.area.height / 2);
    pile.add(&panels::sensors(status, half.max(2)), buffer);
    pile.add(&panels::control_loop(status, history, width, Depth::Brief), buffer);
    pile.add(&panels::field(status, history, width, Depth::Brief), buffer);
    pile.add(&panels::drops(status), buffer);
    pile.add(&panels::buses(status, BUSES), buffer);
    let room = if has_beside { Pile::new(beside, model) } else { pile };
    room.room(buffer);
}
