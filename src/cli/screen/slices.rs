//! The page of slices through the field, as shades of grey. With colours, each character shows two cells, one
//! above the other; without colours, it shows one shade for the mean of the two.

use super::panels::{put, wrapped};
use crate::field::shape::{CONTENT, SLOW_FIRST};
use crate::field::slices::{SLICES, SlicesMessage};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};

/// Shades from the lowest value to the highest, for a screen without colours.
const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];
/// The grey levels in a terminal's palette of 256 colours: the index of the first, and their number.
const GREYS: [u8; 2] = [232, 24];
/// Widths in which a cell can be drawn, in columns, in ascending order.
const SCALES: [usize; 3] = [1, 2, 4];
/// Most lines of the sentence above the slices: it fits into them in 40 columns.
const MOST_ABOUT: usize = 3;
/// Columns between two slices.
const GAP: u16 = 2;

/// Draws as many of the slices as fit.
pub(super) fn draw(slices: Option<&SlicesMessage>, colour: bool, area: Rect, buffer: &mut Buffer) {
    let Some((message, (cells, side))) = slices.and_then(|message| Some((message, message.cells()?))) else {
        let why = " No slices yet: the field has not run, or another computer computes it.";
        return put(why, Style::new(), 0, area, buffer);
    };
    let about = wrapped("", &about(message, colour), area.width.into(), MOST_ABOUT);
    about.iter().zip(0..).for_each(|(line, y)| put(line, Style::new(), y, area, buffer));
    let head = (about.len() as u16).min(area.height);
    let area = Rect { y: area.y + head, height: area.height - head, ..area };
    let (scale, across) = layout(side, area);
    let [width, height] = size(side, scale);
    if width >= area.width || height > area.height {
        return put(" No slice fits into this window.", Style::new(), 0, area, buffer);
    }
    for (place, cells) in cells.iter().enumerate() {
        let (x, y) = (place as u16 % across * (width + GAP) + 1, place as u16 / across * height);
        if x + width > area.width || y + height > area.height {
            break;
        }
        let slice = Rect { x: area.x + x, y: area.y + y, width, height };
        put(&title(message, place), Style::new(), 0, slice, buffer);
        let cell =
            |x: u16, half_row: usize| cells[(half_row / scale).min(side - 1) * side + usize::from(x) / scale];
        for (row, x) in (0..height - 1).flat_map(|row| (0..width).map(move |x| (row, x))) {
            let (upper, lower) = (cell(x, 2 * usize::from(row)), cell(x, 2 * usize::from(row) + 1));
            let target = &mut buffer[(slice.x + x, slice.y + 1 + row)];
            if colour {
                target.set_char('▀').set_style(Style::new().fg(grey(upper)).bg(grey(lower)));
            } else {
                let mean = (usize::from(upper) + usize::from(lower)) / 2;
                target.set_char(SHADES[mean * SHADES.len() / 256]);
            }
        }
    }
}

/// Columns and rows of a slice if each cell is `scale` columns wide; the rows include the title.
fn size(side: usize, scale: usize) -> [u16; 2] {
    [(scale * side) as u16, (scale * side).div_ceil(2) as u16 + 1]
}

/// The largest of the scales at which the most slices fit, and how many slices then fit side by side.
fn layout(side: usize, area: Rect) -> (usize, u16) {
    let fit_at = |scale: &usize| {
        let [width, height] = size(side, *scale);
        let across = (area.width / (width + GAP)).clamp(1, SLICES as u16);
        (across, (across * (area.height / height)).min(SLICES as u16))
    };
    let scale = SCALES.into_iter().max_by_key(|scale| fit_at(scale).1).unwrap_or(1);
    (scale, fit_at(&scale).0)
}

fn about(message: &SlicesMessage, colour: bool) -> String {
    let ([low, high], cycle) = (message.range, message.cycle);
    // A full block is bright on a dark background and dark on a light one.
    let [least, most] = if colour { ["dark", "bright"] } else { ["empty", "full"] };
    format!("Channels that vary most, at their peaks: {low:+.2} {least}, {high:+.2} {most}; cycle {cycle}")
}

fn title(message: &SlicesMessage, place: usize) -> String {
    let channel = usize::from(message.channels[place]);
    let kind = match channel {
        channel if channel < CONTENT => "content",
        channel if channel < SLOW_FIRST => "pattern",
        _ => "slow",
    };
    format!("{channel} {kind}, z {}", message.planes[place])
}

fn grey(cell: u8) -> Color {
    let [first, count] = GREYS;
    Color::Indexed(first + (u16::from(cell) * u16::from(count) / 256) as u8)
}
