//! An update that no process is running any more: the power went, or the program that ran it died. The
//! marker's phase decides.

use super::gate::{self, Before};
use super::history::{self, Event};
use super::state::{self, systemctl};
use super::{Ended, Layout, Marker, Phase, UpdateError, Why, package, trial};
use std::time::Duration;

/// Interrupted repairs are repeated this often. A robot whose power goes in each of them should not go on for
/// ever.
const TRIES: u32 = 5;
/// To queue a start takes no time.
const QUEUE: Duration = Duration::from_secs(30);

/// Ends the unfinished update, if there is one: at a boot, before guard and runtime start.
pub fn at_boot(layout: &Layout) -> Result<Option<Ended>, UpdateError> {
    state::demand_root(layout)?;
    let lock = state::lock(layout)?;
    let Some(mut marker) = Marker::unfinished(layout)? else { return Ok(None) };
    let ended = match marker.phase.is_final() {
        true => {
            trial::close(layout, &marker)?;
            Ended { phase: marker.phase, from: marker.from, to: marker.to, why: marker.why }
        }
        false => {
            marker.tries += 1;
            repair(layout, marker)?
        }
    };
    state::unlock(layout, lock);
    if ended.phase != Phase::BothBad {
        // Queued only: a unit that waits here for one that comes after it would wait for ever.
        let _ = systemctl(&["--no-block", "start", gate::GUARD, gate::RUNTIME], QUEUE);
    }
    Ok(Some(ended))
}

fn repair(layout: &Layout, marker: Marker) -> Result<Ended, UpdateError> {
    // First of all: on a full disk not even the marker could be written.
    state::remove(&layout.reserve())?;
    marker.write(layout)?;
    let why =
        marker.why.clone().filter(|_| marker.phase == Phase::Back).unwrap_or(Why::PowerLost(marker.phase));
    let found = package::installed()?;
    let installed = format!("{} {}", found.version, found.state);
    history::note(layout, Event::Found { phase: marker.phase, installed, attempt: marker.tries })?;
    let restored = marker.tries <= TRIES && trial::restore(layout, &marker.goal);
    // A return that a person requested has its goal now: it happened.
    let word = match restored {
        true if marker.is_return => Phase::Returned,
        true => Phase::RolledBack,
        false => Phase::BothBad,
    };
    trial::finish(layout, marker, word, Some(why))
}

/// Ends the unfinished update, if there is one, because the program that ran it died.
pub fn after_death(layout: &Layout) -> Result<Option<Ended>, UpdateError> {
    state::demand_root(layout)?;
    // It may have died after another one has begun, which sees to it.
    let _lock = state::lock(layout)?;
    let Some(marker) = Marker::unfinished(layout)? else { return Ok(None) };
    if marker.phase.is_final() {
        trial::close(layout, &marker)?;
        return Ok(Some(Ended { phase: marker.phase, from: marker.from, to: marker.to, why: marker.why }));
    }
    trial::go_back(layout, marker, &Before::unknown(), Why::UpdaterDied).map(Some)
}
