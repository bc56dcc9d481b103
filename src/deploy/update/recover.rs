//! Recovers an update whose process is gone: the power failed, or the program that ran it died. The marker's
//! phase decides.

use super::gate::{self, Before};
use super::history::{self, Event};
use super::state::{self, systemctl};
use super::{Ended, Layout, Marker, Phase, UpdateError, Why, package, trial};
use std::time::Duration;

/// Maximum number of attempts at an interrupted repair: a robot whose power fails in each of them should not
/// retry forever.
const TRIES: u32 = 5;
/// Time limit for queueing the start of units, which normally takes no time.
const QUEUE: Duration = Duration::from_secs(30);

/// Ends the unfinished update, if there is one. Called at boot, before guard and runtime start.
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
        // Only queue the start: this unit would wait forever for a unit that is ordered after it.
        let _ = systemctl(&["--no-block", "start", gate::GUARD, gate::RUNTIME], QUEUE);
    }
    Ok(Some(ended))
}

fn repair(layout: &Layout, marker: Marker) -> Result<Ended, UpdateError> {
    // Release the reserve first: on a full disk not even the marker could be written.
    state::remove(&layout.reserve())?;
    marker.write(layout)?;
    let why =
        marker.why.clone().filter(|_| marker.phase == Phase::Back).unwrap_or(Why::PowerLost(marker.phase));
    let found = package::installed()?;
    let installed = format!("{} {}", found.version, found.state);
    history::note(layout, Event::Found { phase: marker.phase, installed, attempt: marker.tries })?;
    let restored = marker.tries <= TRIES && trial::restore(layout, &marker.goal);
    // If the update was a return to the previous version, restoring its goal has completed it.
    let word = match restored {
        true if marker.is_return => Phase::Returned,
        true => Phase::RolledBack,
        false => Phase::BothBad,
    };
    trial::finish(layout, marker, word, Some(why))
}

/// Ends the unfinished update, if there is one, after the program that ran it died.
pub fn after_death(layout: &Layout) -> Result<Option<Ended>, UpdateError> {
    state::demand_root(layout)?;
    // Another update may have begun since then. Then it holds the lock and is responsible.
    let _lock = state::lock(layout)?;
    let Some(marker) = Marker::unfinished(layout)? else { return Ok(None) };
    if marker.phase.is_final() {
        trial::close(layout, &marker)?;
        return Ok(Some(Ended { phase: marker.phase, from: marker.from, to: marker.to, why: marker.why }));
    }
    trial::go_back(layout, marker, &Before::unknown(), Why::UpdaterDied).map(Some)
}
