//! The colours of the screen. A terminal's background may be light or dark, and a program cannot know which.
//! The sixteen named colours differ from terminal to terminal, and on white their yellow, green, cyan and
//! grey are hard to read. So the screen uses only colours that have the same red, green and blue everywhere,
//! and that stand out from white and from black; what needs no colour has the terminal's own.
//!
//! A colour is never the only sign: problems have a `!` and bold text, and the things in the room differ in
//! shape.

use ratatui::style::Color;

/// An armed robot; the car.
pub(super) const GREEN: Color = Color::Indexed(29);
/// A restrained robot; problems.
pub(super) const ORANGE: Color = Color::Indexed(130);
/// A latched robot; missing floor.
pub(super) const RED: Color = Color::Indexed(160);
/// The line on the floor.
pub(super) const VIOLET: Color = Color::Indexed(98);
/// The path driven.
pub(super) const BLUE: Color = Color::Indexed(33);
/// The sonar's cone.
pub(super) const AMBER: Color = Color::Indexed(166);
/// The goal.
pub(super) const MAGENTA: Color = Color::Indexed(163);

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Every colour, and the contrast that it needs: 3 for bold titles and lines (WCAG 2.1, 1.4.3 and
    /// 1.4.11). Text needs 4.5 there; no orange reaches it on white and black, and this one comes closest.
    pub(in super::super) const ALL: [(Color, f64); 7] =
        [(GREEN, 4.5), (ORANGE, 4.4), (RED, 3.0), (VIOLET, 4.5), (BLUE, 3.0), (AMBER, 3.0), (MAGENTA, 4.5)];

    /// Luminance of a colour of the cube of 6 x 6 x 6 that follows the sixteen named ones, 0 to 1 (WCAG 2.1).
    fn luminance(colour: Color) -> f64 {
        let Color::Indexed(index @ 16..=231) = colour else { panic!("{colour:?} differs between terminals") };
        let parts = [(index - 16) / 36, (index - 16) / 6 % 6, (index - 16) % 6];
        let linear = parts.map(|part| {
            let level = if part == 0 { 0.0 } else { (55.0 + 40.0 * f64::from(part)) / 255.0 };
            if level <= 0.040_45 { level / 12.92 } else { ((level + 0.055) / 1.055_f64).powf(2.4) }
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    }

    #[test]
    fn every_colour_stands_out_from_white_and_from_black() {
        for (colour, least) in ALL {
            let luminance = luminance(colour);
            let (on_white, on_black) = (1.05 / (luminance + 0.05), (luminance + 0.05) / 0.05);
            assert!(on_white >= least && on_black >= least, "{colour:?}: {on_white:.2}, {on_black:.2}");
        }
    }
}
