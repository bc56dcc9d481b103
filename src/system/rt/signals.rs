//! Signals that this process ignores. A stopped process cannot stop its motors, so the signals with which a
//! terminal stops a process are ignored. The command line handles the signals that end the program.

#![allow(unsafe_code)] // libc's signal: signal-hook cannot ignore

use std::io;

/// Signals with which a terminal stops a process: Ctrl-Z, and reading or writing in the background.
///
/// Ignored and not caught: after a caught SIGTTOU the kernel retries the write forever; if it is ignored the
/// write goes through, and a read in the background is an error (`tty_check_change`, `job_control` in Linux
/// 6.12).
const STOPPING: [libc::c_int; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// From now on no terminal can stop this process. SIGSTOP cannot be ignored; the guard covers that case.
///
/// # Errors
///
/// The system's error, which does not occur for these signals.
pub fn refuse_to_be_stopped() -> io::Result<()> {
    for signal in STOPPING {
        // SAFETY: SIG_IGN runs no code of ours; the call changes the disposition of one signal and nothing
        // else.
        if unsafe { libc::signal(signal, libc::SIG_IGN) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
