//! Has systemd run a trial or a rollback, and follows the update by reading its history. The update does not
//! depend on this process: a dropped ssh connection, a closed terminal or Ctrl-C ends only this command.

use super::words;
use crate::cli::exit::Failure;
use crate::cli::interrupt::Interrupt;
use crate::cli::output;
use crate::deploy::update::history::{self, Entry, Event};
use crate::deploy::update::{Ended, Layout, Marker, Phase, net};
use serde::Serialize;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The transient unit that runs an update; there is only one at a time.
const UNIT: &str = "ganglion-update";
/// How often the history is read.
const LOOK: Duration = Duration::from_millis(100);

/// A step of the update with its time since the start.
#[derive(Debug, Serialize)]
struct Line {
    seconds: f64,
    what: String,
}

/// Runs `ganglion update STEP` under systemd and prints each new line of its history.
pub(super) fn detached(layout: &Layout, step: &[&str], json: bool) -> Result<(), Failure> {
    let interrupt = Interrupt::watch()?;
    let mut seen = history::read(layout).pop();
    let begun = Instant::now();
    let mut runner = start(layout, step, "--wait")?;
    let mut lines = Vec::new();
    let mut ended = None;
    loop {
        let over =
            runner.try_wait().map_err(|error| Failure::unavailable(format!("systemd-run: {error}")))?;
        for entry in history::after(layout, seen.as_ref()) {
            let line = Line { seconds: begun.elapsed().as_secs_f64(), what: words::event(&entry.event) };
            if !json {
                relay!("{:6.1} s  {}", line.seconds, line.what);
            }
            lines.push(line);
            ended = end_of(&entry).or(ended);
            seen = Some(entry);
        }
        if over.is_some() {
            break;
        }
        if interrupt.asked() {
            return Err(Failure::not_now("the update continues without this command")
                .fix("'ganglion update status' shows how it ends"));
        }
        thread::sleep(LOOK);
    }
    conclude(layout, ended, lines, json)
}

/// The outcome of the update, if this entry ends it.
fn end_of(entry: &Entry) -> Option<Result<Phase, String>> {
    match &entry.event {
        Event::Ended { phase, .. } => Some(Ok(*phase)),
        Event::Refused(words) => Some(Err(words.clone())),
        _ => None,
    }
}

/// Has systemd run `ganglion update STEP` without following it.
pub(super) fn begin(layout: &Layout, step: &[&str]) -> Result<(), Failure> {
    let ran = start(layout, step, "--no-block")?.wait();
    ran.map(drop).map_err(|error| Failure::unavailable(format!("systemd-run: {error}")))
}

fn start(layout: &Layout, step: &[&str], wait: &str) -> Result<Child, Failure> {
    let own = std::env::current_exe()
        .map_err(|error| Failure::unavailable(format!("this program's path: {error}")))?;
    let mut command = Command::new("systemd-run");
    command
        .args(["--quiet", wait, "--collect", "--unit", UNIT])
        .args(["--property", &format!("OnFailure={}", net::ON_DEATH)])
        .args(["--description", "Update of ganglion", "--"])
        .arg(own)
        .arg("update")
        .args(step);
    if !layout.is_real() {
        command.arg("--root").arg(layout.root());
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
    command
        .spawn()
        .map_err(|error| Failure::unavailable(format!("systemd-run: {error}")).fix("an update needs systemd"))
}

fn conclude(
    layout: &Layout,
    ended: Option<Result<Phase, String>>,
    lines: Vec<Line>,
    json: bool,
) -> Result<(), Failure> {
    let marker = Marker::last(layout).ok().flatten();
    let end = match (ended, marker) {
        (Some(Ok(phase)), Some(marker)) => Ended { phase, from: marker.from, to: marker.to, why: marker.why },
        (Some(Err(refused)), _) => return Err(Failure::not_now(refused)),
        _ => {
            return Err(Failure::not_now("the program that ran the update ended early")
                .fix("see 'ganglion update status'; the robot goes back by itself"));
        }
    };
    if json {
        output::json(&serde_json::json!({
            "schema": 1, "outcome": end.phase, "from": end.from, "to": end.to,
            "why": end.why.as_ref().map(words::why), "steps": lines,
        }))?;
    }
    words::outcome(&end)
}
