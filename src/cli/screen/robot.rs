//! The robot that a screen shows: in this program, or in another one, through its control socket.

use crate::memory::map::MapStatus;
use crate::runtime::control::{self, Ask, Reply, Sources, Status};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// How often the map is read; decoding it takes some milliseconds.
const MAP_EVERY: Duration = Duration::from_secs(1);

/// The robot.
pub(super) trait Robot {
    /// The robot's current status, with slices through the field if the page shows them.
    fn status(&mut self, with_slices: bool) -> io::Result<Status>;
    /// Sends a request, and waits for its outcome.
    fn ask(&mut self, ask: Ask) -> io::Result<Reply>;
}

/// The map as last read, and when to read it again.
#[derive(Default)]
struct MapCache {
    due: Option<Instant>,
    map: Option<MapStatus>,
}

impl MapCache {
    /// Whether the map must be read now; if so, the next time is due after [`MAP_EVERY`].
    fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = self.due.is_none_or(|due| now >= due);
        if is_due {
            self.due = Some(now + MAP_EVERY);
        }
        is_due
    }
}

/// The robot that this program runs.
pub(super) struct Inside {
    sources: Sources,
    /// Ends the run.
    end: Arc<AtomicBool>,
    map: MapCache,
}

impl Inside {
    pub(super) fn new(sources: Sources, end: Arc<AtomicBool>) -> Inside {
        Inside { sources, end, map: MapCache::default() }
    }
}

impl Robot for Inside {
    fn status(&mut self, with_slices: bool) -> io::Result<Status> {
        if self.map.is_due() {
            self.map.map = self.sources.map(None);
        }
        let slices = if with_slices { self.sources.slices() } else { None };
        Ok(Status { map: self.map.map.clone(), slices, ..self.sources.status() })
    }

    fn ask(&mut self, ask: Ask) -> io::Result<Reply> {
        Ok(control::carry_out(ask, &self.sources, &self.end))
    }
}

/// The robot of another program, through its control socket.
pub(super) struct Remote {
    socket: PathBuf,
    map: MapCache,
}

impl Remote {
    pub(super) fn new(socket: PathBuf) -> Remote {
        Remote { socket, map: MapCache::default() }
    }
}

impl Robot for Remote {
    fn status(&mut self, with_slices: bool) -> io::Result<Status> {
        let with_map = self.map.is_due();
        let status = control::status_with(&self.socket, with_map, with_slices)?;
        if with_map {
            self.map.map.clone_from(&status.map);
            return Ok(status);
        }
        Ok(Status { map: self.map.map.clone(), ..status })
    }

    fn ask(&mut self, ask: Ask) -> io::Result<Reply> {
        control::ask_without_map(&self.socket, ask)
    }
}
