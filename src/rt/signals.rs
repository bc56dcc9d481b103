//! Signals that this process does not hear. A stopped process stills no motor, so what would stop it for a terminal's
//! sake is ignored. Which signals end a program is said where its end is made.

#![allow(unsafe_code)] // signal of libc: signal-hook cannot ignore

use std::io;

/// What a terminal stops a process with: Ctrl-Z, and reading or writing in the background.
///
/// Ignored and not caught: after a caught SIGTTOU the kernel tries the write again, for ever; where it is ignored the write
/// goes through, and a read in the background is an error (`tty_check_change`, `job_control` in Linux 6.12).
const STOPPING: [libc::c_int; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// From here on no terminal stops this process. SIGSTOP cannot be refused: that is what the guard is for.
///
/// # Errors
///
/// The system's; there is none for these signals.
pub fn refuse_to_be_stopped() -> io::Result<()> {
    for signal in STOPPING {
        // SAFETY: SIG_IGN runs no code of ours; the call changes the disposition of one signal and nothing else.
        if unsafe { libc::signal(signal, libc::SIG_IGN) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
