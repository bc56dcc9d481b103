//! Ctrl-C and SIGTERM: the first asks for a clean end, in which the motors are stopped and what
//! was recorded is written; the second ends the program at once with 130.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

use super::exit::{Exit, Failure};

/// Whether somebody asked for the end. Clones share one flag.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    asked: Arc<AtomicBool>,
}

impl Interrupt {
    /// Watches SIGINT and SIGTERM from here on.
    pub fn watch() -> Result<Interrupt, Failure> {
        let interrupt = Interrupt::default();
        for signal in [SIGINT, SIGTERM] {
            interrupt.watch_one(signal).map_err(|error| {
                Failure::unavailable(format!("signal {signal} cannot be watched: {error}"))
            })?;
        }
        Ok(interrupt)
    }

    fn watch_one(&self, signal: i32) -> std::io::Result<()> {
        // Order matters: actions run as registered, so the first signal finds the flag still down
        // and only raises it; the second finds it up and leaves.
        let code = Exit::Interrupted as i32;
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&self.asked))?;
        signal_hook::flag::register(signal, Arc::clone(&self.asked))?;
        Ok(())
    }

    /// Whether the end was asked for. One load: a loop may look every period.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Asks for the end from inside, as a signal would.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// The flag itself, for a loop that takes one.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_raises_the_flag_of_every_clone() {
        let interrupt = Interrupt::default();
        // SIGUSR1, so that a test runner's own Ctrl-C is left alone.
        interrupt.watch_one(signal_hook::consts::SIGUSR1).unwrap();
        let clone = interrupt.clone();
        assert!(!clone.asked());
        signal_hook::low_level::raise(signal_hook::consts::SIGUSR1).unwrap();
        assert!(clone.asked() && clone.flag().load(Ordering::Relaxed));
    }
}
