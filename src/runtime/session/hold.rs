//! The hold of an update: a file that prevents a robot from arming by itself, even after a reboot, until a
//! person has armed it. `update` writes the file before a new version runs for the first time; the runtime
//! removes it once the robot has been armed.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Name of the hold's file, in the folder that the service keeps between runs.
const NAME: &str = "hold";

/// The hold, if there is one.
#[derive(Debug, Default)]
pub(super) struct Hold(Option<PathBuf>);

impl Hold {
    /// Looks in `state`, the folder that the service keeps between runs. If the folder cannot be read, there
    /// is no hold: a run by hand has no such folder.
    pub fn find(state: Option<&Path>) -> Hold {
        let path = state.map(|folder| folder.join(NAME));
        // A dangling symbolic link also counts.
        Hold(path.filter(|path| path.symlink_metadata().is_ok()))
    }

    /// Why the robot does not arm by itself, as text.
    pub fn why(&self) -> Option<String> {
        let path = self.0.as_ref()?;
        Some(format!("it has not been armed since an update began ({} exists)", path.display()))
    }

    /// Removes the hold: the robot was armed, which only a person could do, so the board's setting applies
    /// again.
    pub fn release(&mut self) {
        let Some(path) = self.0.take() else { return };
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                log::warn!("the next run will not arm by itself: {}: {error}", path.display());
            }
            _ => log::info!("a person has armed the robot: it may arm by itself again if its board says so"),
        }
    }
}
