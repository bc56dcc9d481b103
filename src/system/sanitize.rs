//! Makes text from outside safe to print: a name from a file, a peer or another process may contain terminal
//! control sequences. They could hide lines, forge others, or type for the user.

use std::borrow::Cow;

/// Maximum number of characters quoted from one name, cell or label: enough to recognise it.
const MOST_QUOTED: usize = 60;
/// Maximum number of characters quoted from a value that is compared: room for the names of all motors and
/// sensors of a large board.
const MOST_COMPARED: usize = 1000;

/// Whether a terminal may act on the character, or reorder its neighbours, instead of just showing it.
fn acts(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escape(text: &str, spare: impl Fn(char) -> bool) -> Cow<'_, str> {
    let escaped = |character: char| acts(character) && !spare(character);
    if !text.contains(escaped) {
        return Cow::Borrowed(text);
    }
    let mut all = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match u32::from(character) {
            _ if !escaped(character) => all.push(character),
            number @ 0..=0xff => all += &format!("\\x{number:02x}"),
            number => all += &format!("\\u{{{number:x}}}"),
        }
    }
    Cow::Owned(all)
}

/// Whether a terminal would do anything other than show the lines of `text`.
pub fn acts_on_a_terminal(text: &str) -> bool {
    matches!(lines(text), Cow::Owned(_))
}

/// `text` in one line, with terminal control characters escaped, e.g. as `\x1b`.
pub fn one_line(text: &str) -> Cow<'_, str> {
    escape(text, |_| false)
}

/// Like [`one_line`], but keeps line breaks and tabs.
pub fn lines(text: &str) -> Cow<'_, str> {
    escape(text, |character| matches!(character, '\n' | '\t'))
}

/// The beginning of `text` in one line, for a message that names it.
pub fn quoted(text: &str) -> String {
    beginning(text, MOST_QUOTED)
}

/// Like [`quoted`], for a value that has to be compared with another: a list of names, a setting.
pub fn compared(text: &str) -> String {
    beginning(text, MOST_COMPARED)
}

fn beginning(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => one_line(text).into_owned(),
        Some((end, _)) => format!("{}...", one_line(&text[..end])),
    }
}

/// `text` escaped for HTML and XML; control characters, which XML does not allow, are made visible.
pub fn markup(text: &str) -> String {
    let mut all = String::with_capacity(text.len() + 16);
    for character in lines(text).chars() {
        match character {
            '<' => all += "&lt;",
            '>' => all += "&gt;",
            '&' => all += "&amp;",
            '"' => all += "&quot;",
            '\'' => all += "&#39;",
            other => all.push(other),
        }
    }
    all
}

/// JSON that also escapes the characters that JSON allows and a terminal would act on.
pub fn json(text: String) -> String {
    if !text.contains(acts) {
        return text;
    }
    let mut all = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match acts(character) {
            true => all += &format!("\\u{:04x}", u32::from(character)), // all of them have four digits at most
            false => all.push(character),
        }
    }
    all
}

/// Longest name, in bytes, for which similar ones are searched: the work grows with the product of the two
/// lengths.
const LONGEST_SLIP: usize = 100;

/// The name in `known` most similar to `found`, if any is similar: about a third of the letters may differ,
/// which allows a typo or two but not another word. A forgotten suffix (the unit of `hold_ms`) counts as one
/// typo.
pub fn nearest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    if found.len() > LONGEST_SLIP {
        return None;
    }
    let found = found.to_lowercase();
    known
        .into_iter()
        .filter(|name| name.len() <= LONGEST_SLIP)
        .map(|name| (distance(&found, &name.to_lowercase()), name))
        .filter(|(distance, name)| *distance * 3 <= name.chars().count().max(found.chars().count()) + 1)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name.to_string())
}

fn distance(found: &str, name: &str) -> usize {
    match name.strip_prefix(found) {
        Some(rest) if found.len() > 2 && rest.starts_with(['_', '-']) => 1,
        _ => strsim::damerau_levenshtein(found, name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_corrects_typos_and_ignores_unrelated_words() {
        let known = ["max_age_ms", "period_ms", "valid"];
        assert_eq!(nearest("max_age", known), Some("max_age_ms".to_string()));
        assert_eq!(nearest("Perid_ms", known), Some("period_ms".to_string()));
        assert_eq!(nearest("period", known), Some("period_ms".to_string()));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest("x", []), None);
    }

    #[test]
    fn terminal_control_characters_are_escaped() {
        assert_eq!(one_line("a\x1b]0;owned\x07b\x1b[2K\u{9b}2J"), "a\\x1b]0;owned\\x07b\\x1b[2K\\x9b2J");
        assert_eq!(one_line("one\r\ntwo\x7f\u{202e}"), "one\\x0d\\x0atwo\\x7f\\u{202e}");
        assert_eq!(lines("one\n\ttwo\r"), "one\n\ttwo\\x0d");
        assert!(matches!(one_line("plain: \u{e9}\u{4e2d}"), Cow::Borrowed(_)));
    }

    #[test]
    fn quotations_are_shortened() {
        assert_eq!(quoted("short"), "short");
        let long = quoted(&"\u{e9}".repeat(1_000_000));
        assert_eq!(long.chars().count(), MOST_QUOTED + 3);
        assert!(quoted(&"\x1b".repeat(1_000)).len() <= 4 * MOST_QUOTED + 3);
    }

    #[test]
    fn json_escapes_the_same_characters() {
        let value = serde_json::Value::from("a\u{9b}b\x7f\u{2028}\x1b");
        let text = json(value.to_string());
        assert!(!text.contains(acts), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
