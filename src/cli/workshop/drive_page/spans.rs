//! Spans (a word that applied from one time to another, such as a mode) and moments (events with a time and a
//! word). Both lists are bounded, and count what they leave out.

use serde::Serialize;

/// Maximum number of spans of one kind on a page: more than a person reads; each takes some 40 bytes of the
/// page.
const MOST_SPANS: usize = 4_000;
/// Maximum number of moments on a page.
const MOST_MARKS: usize = 10_000;

/// Start and end in seconds, and the word.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WordSpan(pub f64, pub f64, pub String);

/// The history of a value that is a word.
#[derive(Debug, Default)]
pub struct Spans {
    ended: Vec<WordSpan>,
    open: Option<WordSpan>,
    left_out: u64,
}

impl Spans {
    /// `word` applies from `at` on; `None`: no word applies.
    pub fn set(&mut self, at: f64, word: Option<&str>) {
        if self.open.as_ref().map(|open| open.2.as_str()) == word {
            return;
        }
        self.close(at);
        self.open = word.map(|word| WordSpan(at, at, word.to_string()));
    }

    fn close(&mut self, at: f64) {
        let Some(open) = self.open.take() else { return };
        match self.ended.len() < MOST_SPANS {
            true => self.ended.push(WordSpan(open.0, at.max(open.0), open.2)),
            false => self.left_out += 1,
        }
    }

    /// All spans at the end of the run, and how many were left out.
    pub fn end(mut self, at: f64) -> (Vec<WordSpan>, u64) {
        self.close(at);
        (self.ended, self.left_out)
    }
}

/// A moment: its time, its kind, and what happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark(pub f64, pub &'static str, pub String);

/// The moments of a run.
#[derive(Debug, Default)]
pub struct Marks {
    all: Vec<Mark>,
    left_out: u64,
}

impl Marks {
    /// Adds a moment.
    pub fn add(&mut self, at: f64, kind: &'static str, what: impl Into<String>) {
        match self.all.len() < MOST_MARKS {
            true => self.all.push(Mark(at, kind, what.into())),
            false => self.left_out += 1,
        }
    }

    /// All moments, and how many were left out.
    pub fn end(self) -> (Vec<Mark>, u64) {
        (self.all, self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_stays_is_one_span() {
        let mut spans = Spans::default();
        let said = [Some("a"), Some("a"), None, Some("b"), Some("a")];
        said.into_iter().enumerate().for_each(|(at, word)| spans.set(at as f64, word));
        let word = |from, to, what: &str| WordSpan(from, to, what.into());
        let all = vec![word(0.0, 2.0, "a"), word(3.0, 4.0, "b"), word(4.0, 5.0, "a")];
        assert_eq!(spans.end(5.0), (all, 0));
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let (mut spans, mut marks) = (Spans::default(), Marks::default());
        for at in 0..2 * MOST_MARKS {
            spans.set(at as f64, Some(if at % 2 == 0 { "a" } else { "b" }));
            marks.add(at as f64, "trip", "x");
        }
        let (kept, left_out) = spans.end(1e6);
        assert_eq!((kept.len(), left_out), (MOST_SPANS, (2 * MOST_MARKS - MOST_SPANS) as u64));
        let (kept, left_out) = marks.end();
        assert_eq!((kept.len(), left_out), (MOST_MARKS, MOST_MARKS as u64));
    }
}
