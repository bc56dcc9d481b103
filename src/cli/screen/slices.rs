//! The page of slices through the field, as shades: with colours two cells in each character, one above the
//! other; without, one character for both.

use super::panels::fit;
use crate::field::shape::{CONTENT, SLOW_FIRST};
use crate::field::slices::SlicesMessage;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};

/// Shades from the lowest value to the highest, for a screen without colours.
const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];
/// The grey levels of a terminal with 256 colours: the first, and their number.
const GREYS: [u8; 2] = [232, 24];
/// Columns between two slices.
const GAP: u16 = 2;

/// Draws as many of the slices as fit, the one that varies most first.
pub(super) fn draw(slices: Option<&SlicesMessage>, colour: bool, area: Rect, buffer: &mut Buffer) {
    let Some((message, (cells, side))) = slices.and_then(|message| Some((message, message.cells()?))) else {
        put(" No slices yet: the field has not run, or another computer computes it.", area, 0, buffer);
        return;
    };
    put(&about(message), area, 0, buffer);
    let (width, height) = (side as u16, side.div_ceil(2) as u16 + 1);
    let across = (area.width / (width + GAP)).max(1);
    for (place, cells) in cells.iter().enumerate() {
        let (x, y) = (place as u16 % across * (width + GAP) + 1, place as u16 / across * height + 1);
        if x + width > area.width || y + height > area.height {
            break;
        }
        let place_of_slice = Rect { x: area.x + x, y: area.y + y, width, height };
        put(&title(message, place), place_of_slice, 0, buffer);
        let cell = |x: u16, y: usize| cells[y.min(side - 1) * side + usize::from(x)];
        for (row, x) in (0..height - 1).flat_map(|row| (0..width).map(move |x| (row, x))) {
            let (upper, lower) = (cell(x, 2 * usize::from(row)), cell(x, 2 * usize::from(row) + 1));
            let target = &mut buffer[(place_of_slice.x + x, place_of_slice.y + 1 + row)];
            if colour {
                target.set_char('▀').set_style(Style::new().fg(grey(upper)).bg(grey(lower)));
            } else {
                let mean = (usize::from(upper) + usize::from(lower)) / 2;
                target.set_char(SHADES[mean * SHADES.len() / 256]);
            }
        }
    }
}

fn about(message: &SlicesMessage) -> String {
    let [low, high] = message.range;
    format!(" Cycle {}, the channels that vary most at their peaks, {low:+.2} to {high:+.2}", message.cycle)
}

fn title(message: &SlicesMessage, place: usize) -> String {
    let channel = usize::from(message.channels[place]);
    let kind = match channel {
        channel if channel < CONTENT => "content",
        channel if channel < SLOW_FIRST => "pattern",
        _ => "slow",
    };
    format!("{channel} ({kind}), z {}", message.planes[place])
}

fn grey(cell: u8) -> Color {
    let [first, count] = GREYS;
    Color::Indexed(first + (u16::from(cell) * u16::from(count) / 256) as u8)
}

fn put(text: &str, area: Rect, y: u16, buffer: &mut Buffer) {
    if y < area.height {
        let width = usize::from(area.width);
        buffer.set_stringn(area.x, area.y + y, fit(text, width), width, Style::new());
    }
}
