//! The last call to a worker, and what is known about the motors after it. The call is made even if a step
//! has panicked, and retried if it panics itself: otherwise a motor controller would repeat its last pulses
//! forever.

use super::Worker;
use crate::base::time::Clock;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How many times a last call is made if it panics. The cause may be gone at the next try (the transfer is no
/// longer the first one); after three panics it counts as permanent.
const LAST_CALLS: u32 = 3;

/// Whether the motors are known to have stopped at the end. Ordered from best to worst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rest {
    /// There are no motors.
    #[default]
    NoMotors,
    /// Their driver confirmed the last command, which is a stop.
    Heard,
    /// The driver has not confirmed it, or its thread hangs: the motors may be running.
    Unheard,
}

/// How workers ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Workers that did not end when requested (a hung transfer, a hung GPU): abandoned.
    pub hung: Vec<&'static str>,
    /// Workers that panicked: a bug in the program.
    pub panicked: Vec<&'static str>,
    /// What is known about the motors.
    pub rest: Rest,
}

impl Ended {
    /// Adds the result of the worker `name`.
    pub(super) fn add(&mut self, name: &'static str, last: Last) {
        if last.panicked {
            self.panicked.push(name);
        }
        self.rest = self.rest.max(last.rest);
    }
}

/// How a worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Last {
    /// It has panicked, in the last call or before.
    pub panicked: bool,
    /// What is known about its motors.
    pub rest: Rest,
}

impl Last {
    /// For a worker whose motors, if any, are not known to have stopped.
    pub fn unheard(panicked: bool, has_motors: bool) -> Last {
        Last { panicked, rest: if has_motors { Rest::Unheard } else { Rest::NoMotors } }
    }
}

/// Makes the last call. `panicked`: the worker has panicked before.
pub(super) fn last_call(worker: &mut dyn Worker, clock: &dyn Clock, mut panicked: bool) -> Last {
    let has_motors = worker.has_motors();
    for _ in 0..LAST_CALLS {
        // The state of a worker that has panicked is unknown. Only the part that writes the stop command is
        // still used, and that part restarts whatever was half done.
        match catch_unwind(AssertUnwindSafe(|| worker.finish(clock))) {
            Ok(true) if has_motors => return Last { panicked, rest: Rest::Heard },
            Ok(_) => return Last::unheard(panicked, has_motors),
            Err(_) => panicked = true,
        }
    }
    Last::unheard(panicked, has_motors)
}
