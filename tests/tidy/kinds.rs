//! Matches over the kinds of chips and motors name every kind: when a kind is added, the compiler then finds
//! every place that needs it. A whole family (`SensorKind::Chip(_)`) may be named if the same answer is right
//! for every future member.

use super::source::{Source, sources};
use super::{at, none};

/// Enums of `plan` that grow with a new chip, motor or line role.
const KINDS: [&str; 8] = [
    "SensorKind::",
    "ChipSensor::",
    "LineSensor::",
    "FileSensor::",
    "ComputedSensor::",
    "MotorKind::",
    "LineRole::",
    "Attachment::",
];

/// Where each `match` of `code` begins that has a wildcard arm and another arm that names one of [`KINDS`].
fn open_matches(code: &str) -> Vec<usize> {
    let begins = code.match_indices("match ").filter(|(start, _)| {
        let before = code[..*start].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    });
    let is_open = |start: usize| {
        let patterns = patterns(&code[start..]);
        let names_kind = |pattern: &&str| KINDS.iter().any(|kind| pattern.contains(kind));
        patterns.iter().any(|pattern| names_kind(&pattern.as_str())) && patterns.iter().any(|one| one == "_")
    };
    begins.map(|(start, _)| start).filter(|start| is_open(*start)).collect()
}

/// The patterns of the `match` at the start of `code`, without guards.
fn patterns(code: &str) -> Vec<String> {
    let mut patterns = Vec::new();
    let Some(body) = code.find('{') else { return patterns };
    let (mut depth, mut pattern, mut in_arm) = (0, String::new(), false);
    let mut all = code[body + 1..].chars().peekable();
    while let Some(c) = all.next() {
        match c {
            '{' | '(' | '[' => depth += 1,
            '}' if depth == 0 => break,
            '}' | ')' | ']' => {
                depth -= 1;
                if c == '}' && depth == 0 && in_arm && all.peek() != Some(&'.') {
                    (in_arm, pattern) = (false, String::new());
                    continue;
                }
            }
            ',' if depth == 0 && in_arm => {
                (in_arm, pattern) = (false, String::new());
                continue;
            }
            '=' if depth == 0 && !in_arm && all.peek() == Some(&'>') => {
                let bare =
                    pattern.split(" if ").next().unwrap_or_default().trim().trim_start_matches(',').trim();
                patterns.push(bare.to_string());
                in_arm = true;
                all.next();
                continue;
            }
            _ => {}
        }
        if !in_arm {
            pattern.push(c);
        }
    }
    patterns
}

#[test]
fn matches_over_kinds_have_no_wildcard() {
    let mut faults = Vec::new();
    for source in sources(&["src"]) {
        let Source { code, .. } = &source;
        for start in open_matches(source.without_tests()) {
            let line = code[..start].lines().count();
            faults.push(format!("{}: `_ =>` would silently accept a new kind", at(&source, line)));
        }
    }
    none(faults);
}

#[test]
fn wildcard_arms_are_detected() {
    let open = "match kind { SensorKind::A { x } => f(x), _ => 1 }";
    let nested = "match *kind { MotorKind::A => { match y { _ => 2 } } MotorKind::B { .. } => 3, }";
    let other = "match y { Some(1) if z => 1, _ => 2 } rematch SensorKind::A";
    let late = "let x = match kind { Attachment::A => { g() } _ => {} };";
    assert_eq!((open_matches(open), open_matches(nested)), (vec![0], vec![]));
    assert_eq!((open_matches(other), open_matches(late)), (vec![], vec![8]));
}
