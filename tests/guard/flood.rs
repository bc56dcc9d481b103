//! However often a client makes a guard refuse or a robot warn, the log gets a few lines and a count.

use super::site::{TestSite, soon};
use crate::cli::err;
use ganglion::base::time::Span;
use ganglion::runtime::control::{Ask as Request, ask_near};
use ganglion::runtime::guard::frame::Ask;
use ganglion::runtime::guard::socket::ask_once;
use rustix::process::Signal;
use std::path::Path;

/// Log lines that a flood may cause: 40 at once, then one every ten seconds, and the count.
const FEW: usize = 60;

/// Checks that a few lines contain `beginning`, and that a few say how many lines were dropped.
fn few_lines(said: &str, beginning: &str) {
    let lines = said.lines().filter(|line| line.contains(beginning)).count();
    assert!(
        (1..=FEW).contains(&lines),
        "{lines} lines: {}",
        said.lines().take(3).collect::<Vec<_>>().join("\n")
    );
    let told = said.lines().filter(|line| line.contains("dropped")).count();
    assert!((1..=FEW).contains(&told), "{told} lines say how many were dropped");
}

#[test]
fn guard_logs_refused_requests_only_a_few_times() {
    let mut place = TestSite::new(1_000);
    let guard = place.guard();
    let socket = place.path("guard");
    for _ in 0..3_000 {
        let answer =
            ask_once(Path::new(&socket), Ask::Permit, Span::from_millis(60_000)).expect("it answers");
        assert!(answer.refused.is_some());
    }
    place.send(guard, Signal::TERM);
    let said = err(&place.said(guard));
    few_lines(&said, "refused: ");
    assert!(said.contains("asked to end: line off"), "{said}");
}

#[test]
fn unanswerable_map_queries_cause_only_a_few_warnings() {
    let board = "inherits = \"sim\"\n[safety]\nauto_arm = false\n[field]\ngrid = 8\npatterns = 1\nbank = 64\n\
                 [motion]\nfull_speed = 0.5\nwheelbase = 0.0872\nlag_ms = 80.0\n\
                 [[sensor]]\nname = \"wall\"\nkind = \"recall\"\nunit = \"1\"\nby = \"range\"\nbelow = 3.0\n\
                 ahead = 0.17\nperiod_ms = 100.0\nvalid = [0.0, 1.0]\n";
    let mut place = TestSite::with(board);
    let runtime = place.runtime(&[]);
    let socket = place.path("control");
    // A place so far away that its phases are not finite: once the map has an entry, it cannot be compared.
    let nowhere = || ask_near(Path::new(&socket), Request::Status, Some([1e308, 1e308])).expect("it answers");
    soon("something was met", || nowhere().status.map.is_none());
    (0..400).for_each(|_| assert!(nowhere().status.map.is_none(), "a map is returned"));
    place.send(runtime, Signal::TERM);
    few_lines(&err(&place.said(runtime)), "the map: ");
}
