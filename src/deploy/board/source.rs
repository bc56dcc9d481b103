//! The texts of one load, and places in them as file, line and column.

use std::fmt;
use std::sync::Arc;

/// Longest part of a source line that is shown, in characters: more than any line of a board file needs.
const LONGEST_LINE: usize = 160;

/// A range of bytes in one of the texts. Only [`Sources`] can turn it into a [`Spot`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceRange {
    source: usize,
    start: usize,
    end: usize,
}

impl SourceRange {
    /// The first byte; orders places within one text.
    pub fn start(self) -> usize {
        self.start
    }
    /// The byte after the last.
    pub fn end(self) -> usize {
        self.end
    }
}

/// A place as messages show it: file, line, column, and the line itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// File name as it was given, or the name of a built-in board.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Number of characters to mark, at least 1, within the line.
    pub width: usize,
    /// The line, or the part of a long one around the place. Tabs are replaced by spaces, so that a caret
    /// aligns under it.
    pub text: String,
    /// Number of characters of the line that precede `text`.
    pub before: usize,
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// All texts of one load, in the order in which they were opened.
#[derive(Debug, Default)]
pub struct Sources(Vec<(Arc<str>, String)>);

impl Sources {
    /// Adds a text; its number identifies it in [`Sources::place`].
    pub fn add(&mut self, file: &str, text: String) -> usize {
        self.0.push((file.into(), text));
        self.0.len() - 1
    }
    /// The text of that number.
    pub fn text(&self, source: usize) -> &str {
        self.0.get(source).map_or("", |(_, text)| text)
    }
    /// A range of bytes in text number `source`.
    pub fn place(&self, source: usize, span: std::ops::Range<usize>) -> SourceRange {
        SourceRange { source, start: span.start, end: span.end.max(span.start) }
    }
    /// The file, line and column of `place`.
    pub fn spot(&self, place: SourceRange) -> Spot {
        let text = self.text(place.source);
        // A parser may point one past the end or, in malformed text, between the bytes of a character.
        let start = floor_char(text, place.start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let end = floor_char(text, place.end).clamp(start, line_end.max(start));
        let column = text[line_start..start].chars().count();
        let before = if column < LONGEST_LINE { 0 } else { column - LONGEST_LINE / 2 };
        let shown = text[line_start..line_end].trim_end_matches('\r').chars();
        let shown: String = shown.skip(before).take(LONGEST_LINE).collect();
        let width = text[start..end].chars().count().clamp(1, LONGEST_LINE);
        Spot {
            file: self.0.get(place.source).map_or_else(|| "".into(), |(file, _)| file.clone()),
            line: text[..line_start].matches('\n').count() + 1,
            column: column + 1,
            width,
            text: shown.replace('\t', " "),
            before,
        }
    }
}

fn floor_char(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_becomes_line_and_column() {
        let mut sources = Sources::default();
        let text = "a = 1\n\tbé = 22\r\n";
        let source = sources.add("x.toml", text.to_string());
        let at = text.find("22").unwrap();
        let spot = sources.spot(sources.place(source, at..at + 2));
        assert_eq!((spot.line, spot.column, spot.width), (2, 7, 2));
        assert_eq!((&*spot.text, spot.before), (" bé = 22", 0));
        assert_eq!(spot.to_string(), "x.toml:2");
    }

    #[test]
    fn a_long_line_is_cut_around_the_fault() {
        let mut sources = Sources::default();
        let text = format!("{}oops{}", "é".repeat(10_000), "x".repeat(10_000));
        let at = 2 * 10_000;
        let source = sources.add("x.toml", text);
        let spot = sources.spot(sources.place(source, at..at + 10_004));
        assert_eq!((spot.column, spot.text.chars().count()), (10_001, LONGEST_LINE));
        let under: String = spot.text.chars().skip(spot.column - 1 - spot.before).take(4).collect();
        assert_eq!(under, "oops");
        assert!(spot.width <= LONGEST_LINE);
    }

    #[test]
    fn every_span_has_a_line_and_column() {
        let mut sources = Sources::default();
        let source = sources.add("x.toml", "é\n".to_string());
        for start in 0..6 {
            for end in 0..6 {
                let spot = sources.spot(sources.place(source, start..end));
                assert!(spot.width >= 1 && spot.line <= 2);
            }
        }
        assert_eq!(sources.spot(sources.place(9, 0..1)).text, "");
    }
}
