//! Figures compared with a board's targets: the printed table and the exit code.

use crate::cli::exit::Failure;
use crate::deploy::bench::verdict::{Bound, Row, not_judged, overall};

/// Prints one line per figure.
pub(super) fn say_rows(rows: &[Row]) {
    say!("{:<46}{:>12}  {:<4}  {:>18}", "figure", "measured", "", "target");
    for row in rows {
        let measured = row.measured.map_or("-".to_string(), |value| format!("{value:.3}"));
        let target = row.bound.zip(row.target).map(|(bound, value)| match bound {
            Bound::AtMost => format!("at most {value}"),
            Bound::AtLeast => format!("at least {value}"),
        });
        let unit = if row.unit == "1" { "" } else { row.unit };
        let verdict = match row.pass {
            Some(true) => "pass",
            Some(false) => "FAIL",
            None if row.target.is_some() => "not judged",
            None => "no target",
        };
        let verdict = row.not_measured.as_ref().map_or(verdict.into(), |why| format!("not measured: {why}"));
        let target = target.unwrap_or_default();
        let source = row.source.map(|source| format!(" ({source})")).unwrap_or_default();
        say!("{:<46}{measured:>12}  {unit:<4}  {target:>18}  {verdict}", format!("{}{source}", row.name));
    }
}

/// Prints how many targets were judged and, if not all of them, why.
pub(super) fn say_count(rows: &[Row]) {
    let of = rows.iter().filter(|row| row.target.is_some()).count();
    let judged = rows.iter().filter(|row| row.pass.is_some()).count();
    if judged < of || of == 0 {
        say!("{judged} of {of} targets were judged: {}", not_judged(rows).join("; "));
    }
}

/// The exit code: 0 if all judged targets are met, 75 if one is missed, 69 if none was judged.
pub(super) fn verdict(rows: &[Row]) -> Result<(), Failure> {
    let missed: Vec<&str> = rows.iter().filter(|row| row.pass == Some(false)).map(|row| &*row.name).collect();
    if overall(rows).is_none() {
        let failure = format!("nothing was judged: {}", not_judged(rows).join("; "));
        return Err(Failure::unavailable(failure)
            .fix("measure on the robot itself, with a board file whose [targets] apply to it"));
    }
    if missed.is_empty() {
        return Ok(());
    }
    let asked = rows.iter().filter(|row| row.pass.is_some()).count();
    let failure = format!("{} of {asked} targets missed: {}", missed.len(), missed.join("; "));
    Err(Failure::missed(failure)
        .fix("measure again while nothing else runs; see [targets] in the board file"))
}
