//! Ctrl-C, SIGTERM, SIGQUIT and SIGHUP (a lost session): the first signal requests a clean shutdown, in which
//! the program stops the motors and writes its recordings. If that takes too long, a later signal ends the
//! program at once with exit code 130. Ctrl-Z is ignored: a suspended program cannot stop motors.
//!
//! A single request to end often arrives as several signals (a wrapper that signals the process and then its
//! group, a key held down). If the second one ended the program at once, it would leave the motors as they
//! are, on a controller that keeps its pulses. So for one and a half seconds all signals count as the first
//! one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::exit::{Exit, Failure};
use crate::system::rt::signals::refuse_to_be_stopped;

/// The signals that request a shutdown; they come from a key press, a service manager, or the kernel when the
/// terminal is gone. SIGHUP counts even under `nohup`: a robot without an operator stops.
pub const ENDING: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// Signals within this time after the first one count as the first. This is enough for the ten periods in
/// which the motors stop, and for the half second for which a shutdown waits for hung threads.
const GRACE: Duration = Duration::from_millis(1_500);
/// Poll interval of the watching thread: short enough to start the grace period in time, at almost no cost.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Whether the user asked to end. Clones share one flag.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    asked: Arc<AtomicBool>,
}

impl Interrupt {
    /// Watches every signal of [`ENDING`] from now on; a terminal can no longer suspend the program.
    pub fn watch() -> Result<Interrupt, Failure> {
        refuse_to_be_stopped()
            .map_err(|error| Failure::unavailable(format!("cannot ignore Ctrl-Z: {error}")))?;
        let interrupt = Interrupt::default();
        for signal in ENDING {
            interrupt
                .watch_one(signal)
                .map_err(|error| Failure::unavailable(format!("cannot watch signal {signal}: {error}")))?;
        }
        let asked = interrupt.flag();
        thread::Builder::new()
            .name("interrupt".into())
            .spawn(move || insist(&asked))
            .map_err(|error| Failure::unavailable(format!("cannot start a thread: {error}")))?;
        Ok(interrupt)
    }

    fn watch_one(&self, signal: i32) -> std::io::Result<()> {
        signal_hook::flag::register(signal, Arc::clone(&self.asked)).map(|_| ())
    }

    /// Whether the user asked to end. One atomic load, so a loop may check it every period.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Requests the end from inside the program, as a signal would.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// The flag itself, for loops that need an atomic.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked)
    }
}

/// Waits for the first signal and the grace period; from then on a signal ends the program at once.
fn insist(asked: &Arc<AtomicBool>) {
    while !asked.load(Ordering::Relaxed) {
        thread::sleep(LOOK_EVERY);
    }
    thread::sleep(GRACE);
    for signal in ENDING {
        // If this fails, the clean shutdown still goes on.
        let _ = signal_hook::flag::register_conditional_shutdown(
            signal,
            Exit::Interrupted as i32,
            Arc::clone(asked),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_raises_the_flag_of_every_clone() {
        let interrupt = Interrupt::default();
        // Use SIGUSR1, so that Ctrl-C still works for the test runner.
        interrupt.watch_one(signal_hook::consts::SIGUSR1).unwrap();
        let clone = interrupt.clone();
        assert!(!clone.asked());
        signal_hook::low_level::raise(signal_hook::consts::SIGUSR1).unwrap();
        assert!(clone.asked() && clone.flag().load(Ordering::Relaxed));
    }
}
