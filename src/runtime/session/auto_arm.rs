//! Automatic arming across restarts. A robot that was disarmed or has latched, or whose runtime died, must
//! not drive again just because its service restarts. So a run that may arm by itself creates a mark file
//! beside the control socket, and removes it only after a clean end. If the file exists at the start, a
//! person must arm.
//!
//! A reboot clears the directory, and with it the mark. The mark is checked before the first slot, and
//! removed after the last.

use crate::base::plan::{Board, BusPlan};
use crate::runtime::control::CONTROL_SOCKET;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// File name of the mark.
const MARK: &str = "unfinished-run";
/// Content of the mark, for a person who finds it.
const WORDS: &str = "A run that may arm by itself started here. While this file exists, no run arms by itself: \
                     each waits for 'ganglion arm'. A clean end of an armed run removes this file, and so does a reboot.\n";

/// Whether the robot may arm by itself in this run.
#[derive(Debug, Default)]
pub(super) struct AutoArm {
    /// The mark; `None` if no mark is kept.
    mark: Option<PathBuf>,
    /// Whether this run created the mark.
    created: bool,
    /// Why the robot must not arm by itself, as text.
    off: Option<String>,
}

impl AutoArm {
    /// Creates the mark if the board arms by itself, and either is on real wires or has a socket named by
    /// `control`. `held`: a reason why the robot must not arm by itself in any case.
    pub fn begin(board: &Board, control: Option<&Path>, held: Option<String>) -> AutoArm {
        let is_real = matches!(board.bus, BusPlan::Linux { .. });
        if !board.safety.auto_arm {
            return AutoArm::default();
        }
        if !(is_real || control.is_some()) {
            return AutoArm { off: held.map(|why| refusal(&why)), ..AutoArm::default() };
        }
        let mark = control.unwrap_or(Path::new(CONTROL_SOCKET)).with_file_name(MARK);
        let result = create(&mark);
        let created = result.is_ok();
        let why = match result {
            Ok(()) => match held {
                None => return AutoArm { mark: Some(mark), created, off: None },
                Some(why) => why,
            },
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                format!("the last run ended disarmed, latched or uncleanly ({} exists)", mark.display())
            }
            // Started by hand, without a runtime directory: there is no socket through which to arm it
            // either, and the person who typed --arm is next to the robot.
            Err(error) if control.is_none() && held.is_none() && !is_service() => {
                log::warn!("a restart will arm by itself: cannot create {}: {error}", mark.display());
                return AutoArm::default();
            }
            Err(error) => format!("cannot create {}: {error}", mark.display()),
        };
        AutoArm { mark: Some(mark), created, off: Some(refusal(&why)) }
    }

    /// Why the robot must not arm by itself, as text.
    pub fn off(&self) -> Option<&str> {
        self.off.as_deref()
    }

    /// The robot never ran: removes the mark if this run created it.
    pub fn never_ran(self) {
        if self.created {
            self.clear();
        }
    }

    /// The run is over: removes the mark if it was `clean`, which means that the motors are known to have
    /// stopped, nothing panicked or latched, and the robot was not disarmed.
    pub fn ended(self, clean: bool) {
        if clean {
            self.clear();
        }
    }

    fn clear(self) {
        let Some(mark) = self.mark else { return };
        match std::fs::remove_file(&mark) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                log::warn!("the next run will not arm by itself: cannot remove {}: {error}", mark.display());
            }
            _ => {}
        }
    }
}

/// Logs why the robot does not arm by itself, and returns the text.
fn refusal(why: &str) -> String {
    let off = format!("does not arm by itself: {why}; find out why, then run 'ganglion arm'");
    log::warn!("the robot {off}");
    off
}

/// Creates the mark; fails if anything is at that path, even a dangling link.
fn create(mark: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .mode(0o640)
        .open(mark)?;
    let _ = file.write_all(WORDS.as_bytes()); // only its existence counts
    Ok(())
}

/// Whether a service manager started this process.
pub fn is_service() -> bool {
    ["NOTIFY_SOCKET", "INVOCATION_ID"].iter().any(|name| std::env::var_os(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deploy::board;

    /// A temporary directory for a control socket.
    struct SocketFolder(PathBuf);

    impl SocketFolder {
        fn new(name: &str) -> SocketFolder {
            let place = std::env::temp_dir().join(format!("ganglion-mark-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&place);
            std::fs::create_dir(&place).unwrap();
            SocketFolder(place)
        }
        fn begin(&self) -> AutoArm {
            let mut board = board::built_in("sim").unwrap().unwrap().board;
            board.safety.auto_arm = true;
            AutoArm::begin(&board, Some(&self.0.join("control.sock")), None)
        }
        fn mark(&self) -> PathBuf {
            self.0.join(MARK)
        }
    }

    impl Drop for SocketFolder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn only_a_clean_end_or_a_first_run_allows_auto_arm() {
        let place = SocketFolder::new("ends");
        let first = place.begin();
        assert!(first.off().is_none() && place.mark().exists(), "the mark exists before the robot arms");
        first.ended(true);
        assert!(!place.mark().exists());
        place.begin().ended(false);
        let after = place.begin();
        assert!(after.off().is_some_and(|words| words.contains("ganglion arm")), "{after:?}");
        after.never_ran();
        assert!(place.begin().off().is_some(), "a run that never started keeps the mark of an earlier run");
        place.begin().ended(true);
        let anew = place.begin();
        assert!(anew.off().is_none());
        anew.never_ran();
        assert!(place.begin().off().is_none());
        drop(place.begin()); // the runtime died
        assert!(place.begin().off().is_some());
    }

    #[test]
    fn a_dangling_link_counts_as_a_mark_and_is_not_followed() {
        let place = SocketFolder::new("link");
        let elsewhere = place.0.join("elsewhere");
        std::os::unix::fs::symlink(&elsewhere, place.mark()).unwrap();
        assert!(place.begin().off().is_some());
        assert!(!elsewhere.exists());
    }

    #[test]
    fn without_a_writable_mark_beside_the_socket_a_person_arms() {
        let place = SocketFolder::new("none");
        std::fs::remove_dir(&place.0).unwrap();
        assert!(place.begin().off().is_some());
    }

    #[test]
    fn simulated_and_hand_armed_robots_keep_no_mark() {
        let place = SocketFolder::new("unconcerned");
        let mut board = board::built_in("sim").unwrap().unwrap().board;
        board.safety.auto_arm = false;
        let begun = AutoArm::begin(&board, Some(&place.0.join("control.sock")), None);
        assert!(begun.off().is_none() && !place.mark().exists());
        board.safety.auto_arm = true;
        assert!(AutoArm::begin(&board, None, None).mark.is_none());
    }

    #[test]
    fn an_update_hold_applies_to_every_board_and_start() {
        let mut board = board::built_in("sim").unwrap().unwrap().board;
        board.safety.auto_arm = true;
        let held = || Some("an update began".to_string());
        let begun = AutoArm::begin(&board, None, held());
        assert!(begun.mark.is_none() && begun.off().is_some_and(|words| words.contains("an update began")));
        // Started by hand, where no mark can be created.
        board.bus = board::built_in("picarx-v4").unwrap().unwrap().board.bus;
        assert!(AutoArm::begin(&board, None, held()).off().is_some());
    }
}
