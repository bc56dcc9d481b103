//! The trial, in order: stop the motors, prepare the way back, write the marker, install and start the new
//! version, pass the gate, commit. Once the marker is written, any failure up to the gate leads to
//! [`go_back`].

use super::command::{self, LONG, SHORT};
use super::gate::{self, Before, RUNTIME};
use super::history::{self, Event};
use super::state::{self, Staged, systemctl};
use super::{Ended, Layout, Marker, Phase, UpdateError, Why, at, net, package};
use crate::base::time::Span;
use crate::system::bounded_read;
use std::fs::OpenOptions;

/// Free space that a trial needs, as a multiple of the new version's size: room for its files in addition to
/// the old ones, and the reserve for the way back.
const ROOM: u64 = 3;
/// Size of the reserve for going back, as a multiple of the new version's size.
const RESERVE: u64 = 2;
/// How long the old version is watched after going back; it is already proven.
const PROVEN: Span = Span::from_millis(3_000);

/// Tries the staged version for `length`.
pub fn run(layout: &Layout, length: Span) -> Result<Ended, UpdateError> {
    state::demand_root(layout)?;
    let _lock = state::lock(layout)?;
    close_ended(layout)?;
    attempt(layout, of_staged(layout)?, length)
}

/// Whether a trial could begin now; changes nothing.
pub fn may_begin(layout: &Layout) -> Result<(), UpdateError> {
    state::demand_root(layout)?;
    admit(layout, &of_staged(layout)?).map(drop)
}

/// Whether a rollback could begin now; changes nothing.
pub fn may_roll_back(layout: &Layout) -> Result<Marker, UpdateError> {
    state::demand_root(layout)?;
    match Marker::unfinished(layout)?.filter(|marker| !marker.phase.is_final()) {
        Some(marker) => Ok(marker),
        None => return_of(&package::installed()?.version, Marker::last(layout)?),
    }
}

/// The update to the staged version.
fn of_staged(layout: &Layout) -> Result<Marker, UpdateError> {
    let staged = Staged::read(layout).ok_or(UpdateError::NothingStaged)?;
    let from = package::installed()?.version;
    let bytes = bounded_read::bytes(&layout.package(&staged.version), package::LARGEST);
    if bytes.map_or(true, |bytes| blake3::hash(&bytes).to_hex().as_str() != staged.digest) {
        return Err(UpdateError::NothingStaged);
    }
    let (goal, to) = (from.clone(), staged.version);
    Ok(Marker { phase: Phase::Prepared, from, to, goal, tries: 0, is_return: false, why: None })
}

/// Returns to the previous version for the reason `why`, from an unfinished update or from a committed one.
/// Never returns to a version that was abandoned because of its faults.
pub fn roll_back(layout: &Layout, why: Why) -> Result<Ended, UpdateError> {
    state::demand_root(layout)?;
    let _lock = state::lock(layout)?;
    close_ended(layout)?;
    if let Some(marker) = Marker::unfinished(layout)? {
        return go_back(layout, marker, &Before::unknown(), why);
    }
    let mut marker = return_of(&package::installed()?.version, Marker::last(layout)?)?;
    marker.why = Some(why);
    attempt(layout, marker, PROVEN)
}

/// The update that returns from `installed` to the previous version, if the last update was committed.
fn return_of(installed: &str, last: Option<Marker>) -> Result<Marker, UpdateError> {
    match last {
        Some(last) if last.phase == Phase::Committed && last.to == installed && last.from != installed => {
            Ok(Marker {
                phase: Phase::Prepared,
                from: installed.to_string(),
                to: last.from.clone(),
                goal: last.from,
                tries: 0,
                is_return: true,
                why: None,
            })
        }
        _ => Err(UpdateError::NothingBefore),
    }
}

/// Checks for every reason to refuse the update, before anything changes. Returns the size of the new
/// version.
fn admit(layout: &Layout, marker: &Marker) -> Result<u64, UpdateError> {
    if let Some(unfinished) = Marker::unfinished(layout)?.filter(|marker| !marker.phase.is_final()) {
        return Err(UpdateError::Unfinished(unfinished));
    }
    if state::ask(layout).is_some_and(|answer| answer.is_armed()) {
        return Err(UpdateError::Armed);
    }
    let goal =
        package::fields(&layout.package(&marker.goal)).ok().filter(|found| found.version == marker.goal);
    goal.ok_or_else(|| UpdateError::NoWayBack(marker.goal.clone()))?;
    let size = package::fields(&layout.package(&marker.to))?.installed_bytes;
    package::demand_space(&layout.usr(), size.saturating_mul(ROOM))?;
    package::demand_space(&layout.state(), size.saturating_mul(ROOM))?;
    Ok(size)
}

fn attempt(layout: &Layout, mut marker: Marker, length: Span) -> Result<Ended, UpdateError> {
    let size = admit(layout, &marker)?;
    let before = Before::look(layout);
    state::hold(layout)?;
    // A new program may take over only motors that have confirmed their stop.
    stop_motors(layout)?;
    reserve(layout, size.saturating_mul(RESERVE))?;
    net::put_up(layout)?;
    enter(layout, &mut marker, Phase::Prepared)?;
    match steps(layout, &mut marker, &before, length) {
        Ok(()) => {
            let word = if marker.is_return { Phase::Returned } else { Phase::Committed };
            let why = marker.why.clone();
            finish(layout, marker, word, why)
        }
        Err(why) => go_back(layout, marker, &before, why),
    }
}

/// The steps that may fail, from stopping the runtime to the end of the gate.
fn steps(layout: &Layout, marker: &mut Marker, before: &Before, length: Span) -> Result<(), Why> {
    systemctl(&["stop", RUNTIME], LONG).map_err(Why::Failed)?;
    enter(layout, marker, Phase::Installing).map_err(why)?;
    package::install(layout, &layout.package(&marker.to)).map_err(Why::NotInstalled)?;
    if !package::is_whole(&marker.to).map_err(why)? {
        return Err(Why::NotWhole);
    }
    enter(layout, marker, Phase::Starting).map_err(why)?;
    gate::start(before)?;
    enter(layout, marker, Phase::Trying).map_err(why)?;
    match marker.is_return {
        true => gate::proven(layout, before, length),
        false => gate::judge(layout, before, length),
    }
}

fn stop_motors(layout: &Layout) -> Result<(), UpdateError> {
    let board = layout.board();
    let words = ["safe-stop".as_ref(), "--board".as_ref(), board.as_ref()];
    let stopped = command::run(state::own_program(layout), &words, SHORT)?;
    if stopped.ok() { Ok(()) } else { Err(UpdateError::Moving(stopped.error_output())) }
}

/// Goes back to the marker's goal version on a running machine. (At boot, `recover` only restores that
/// version.)
pub fn go_back(layout: &Layout, mut marker: Marker, before: &Before, why: Why) -> Result<Ended, UpdateError> {
    // Release the reserve first: on a full disk not even the marker could be written.
    state::remove(&layout.reserve())?;
    history::note(layout, Event::GoingBack { goal: marker.goal.clone(), why: why.clone() })?;
    marker.why = Some(why.clone());
    enter(layout, &mut marker, Phase::Back)?;
    let _ = systemctl(&["stop", RUNTIME], LONG);
    let runs = restore(layout, &marker.goal)
        && gate::start(before).is_ok()
        && gate::proven(layout, before, PROVEN).is_ok();
    if !runs {
        let _ = systemctl(&["stop", RUNTIME], LONG);
    }
    let word = if runs { Phase::RolledBack } else { Phase::BothBad };
    finish(layout, marker, word, Some(why))
}

/// Makes sure that version `goal` is installed and complete, by whatever steps are needed. Returns whether it
/// is.
pub fn restore(layout: &Layout, goal: &str) -> bool {
    if package::is_whole(goal).unwrap_or(false) {
        let _ = history::note(layout, Event::Whole(goal.to_string()));
        return true;
    }
    let path = layout.package(goal);
    if package::install(layout, &path).is_err() {
        // A half-configured package may keep dpkg from continuing.
        let _ = command::run("dpkg", &["--configure".as_ref(), "-a".as_ref()], LONG);
        let _ = package::install(layout, &path);
    }
    // If a package's scripts failed, systemd has not reloaded its units.
    let _ = systemctl(&["daemon-reload"], net::RELOAD);
    package::is_whole(goal).unwrap_or(false)
}

/// Enters a phase: first in the marker, then in the history.
pub fn enter(layout: &Layout, marker: &mut Marker, phase: Phase) -> Result<(), UpdateError> {
    marker.enter(layout, phase)?;
    history::note(layout, Event::Entered(phase))
}

/// Ends the update: writes the final phase, then does everything that follows from it.
pub fn finish(
    layout: &Layout,
    mut marker: Marker,
    word: Phase,
    why: Option<Why>,
) -> Result<Ended, UpdateError> {
    marker.why = why.clone();
    marker.enter(layout, word)?;
    close(layout, &marker)?;
    Ok(Ended { phase: word, from: marker.from, to: marker.to, why })
}

/// Does what follows from the final phase. The next boot repeats this if the power failed in between.
pub fn close(layout: &Layout, marker: &Marker) -> Result<(), UpdateError> {
    let event = Event::Ended { phase: marker.phase, from: marker.from.clone(), to: marker.to.clone() };
    history::note(layout, event)?;
    state::remove(&layout.staged())?;
    marker.close(layout)?;
    // Without a marker the net does nothing. If the power fails here, the next update removes the reserve.
    state::remove(&layout.reserve())?;
    prune(layout, marker);
    Ok(())
}

/// Closes an update whose final phase was written before a power cut.
fn close_ended(layout: &Layout) -> Result<(), UpdateError> {
    match Marker::unfinished(layout)?.filter(|marker| marker.phase.is_final()) {
        Some(ended) => close(layout, &ended),
        None => Ok(()),
    }
}

/// Keeps the packages of this update's two versions, and no others.
fn prune(layout: &Layout, marker: &Marker) {
    for version in package::kept(layout) {
        if version != marker.from && version != marker.to && version != marker.goal {
            let _ = state::remove(&layout.package(&version));
        }
    }
}

fn reserve(layout: &Layout, bytes: u64) -> Result<(), UpdateError> {
    let path = layout.reserve();
    state::remove(&path)?;
    let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(at(&path))?;
    let flags = rustix::fs::FallocateFlags::empty();
    rustix::fs::fallocate(&file, flags, 0, bytes.max(1)).map_err(|error| at(&path)(error.into()))?;
    file.sync_all().map_err(at(&path))
}

fn why(error: UpdateError) -> Why {
    Why::Failed(match error {
        UpdateError::File(path, error) => format!("{}: {error}", path.display()),
        UpdateError::Command(error) => error.to_string(),
        other => format!("{other:?}"),
    })
}
