//! The last call to a worker, and what is known of the motors after it. A panic, of a step or of the last call itself, does
//! not keep that call from being made: a controller goes on with its last pulses for ever.

use super::Worker;
use crate::time::Clock;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Times that the last call is made where it panics. What made it panic once may be over (a transfer that is not the first
/// any more); what does so three times is there to stay.
const LAST_CALLS: u32 = 3;

/// Whether the motors were heard to stand at the end. Ordered: the later, the worse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rest {
    /// There are none.
    #[default]
    NoMotors,
    /// What drives them has taken the last word, which is stillness.
    Heard,
    /// It has not, or its thread hangs: they may run.
    Unheard,
}

/// How workers ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Those that did not end when told to (a hung transfer, a hung GPU): left behind.
    pub hung: Vec<&'static str>,
    /// Those that panicked: a bug of the program.
    pub panicked: Vec<&'static str>,
    /// What is known of the motors.
    pub rest: Rest,
}

impl Ended {
    /// Adds what the worker `name` left behind.
    pub(super) fn add(&mut self, name: &'static str, last: Last) {
        if last.panicked {
            self.panicked.push(name);
        }
        self.rest = self.rest.max(last.rest);
    }
}

/// What a worker leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Last {
    /// It has panicked, in the last call or before.
    pub panicked: bool,
    /// Its motors.
    pub rest: Rest,
}

impl Last {
    /// Of a worker that was not heard of at the end.
    pub fn unheard(panicked: bool, has_motors: bool) -> Last {
        Last { panicked, rest: if has_motors { Rest::Unheard } else { Rest::NoMotors } }
    }
}

/// Makes the last call. `panicked`: the worker has panicked before.
pub(super) fn last_call(worker: &mut dyn Worker, clock: &dyn Clock, mut panicked: bool) -> Last {
    let has_motors = worker.has_motors();
    for _ in 0..LAST_CALLS {
        // A worker that has panicked is in no known state. Nothing of it is used any more but what writes stillness, and
        // that begins anew whatever was half done.
        match catch_unwind(AssertUnwindSafe(|| worker.finish(clock))) {
            Ok(true) if has_motors => return Last { panicked, rest: Rest::Heard },
            Ok(_) => return Last::unheard(panicked, has_motors),
            Err(_) => panicked = true,
        }
    }
    Last::unheard(panicked, has_motors)
}
