//! Decides from the findings of `safe-stop` whether the motors have stopped. Pure. It claims no more than was
//! observed: asking a runtime to disarm is not a success by itself, and neither is a written stop that a live
//! runtime may overwrite.

use super::StepError;
use crate::system::rt::flock::Holder;

/// The runtime behind the control socket, and its reply.
#[derive(Debug)]
pub enum Runtime {
    /// No process listens.
    Absent,
    /// A process listens but does not answer.
    Silent(StepError),
    /// It answered.
    Answers {
        /// Name of its board.
        board: String,
        /// Its board has the same effective values as the one to stop.
        same_board: bool,
        /// Its process, if that can be determined.
        pid: Option<u32>,
        /// The loop confirmed that it disarmed, or why it did not.
        disarmed: Result<(), Vec<String>>,
    },
}

/// A line that was pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pulled {
    /// The motors have no current; the board's pull resistor keeps the line off.
    Enable,
    /// The controller has restarted and sends no pulses, but obeys any process that sets it up again.
    Reset,
}

/// A process that may move the motors again.
#[derive(Debug)]
pub enum Threat<'a> {
    /// A runtime that listens but does not answer.
    Silent(&'a StepError),
    /// A process that holds the motors' wires and was not disarmed.
    Driving(Holder),
    /// The runtime of this board, which gave reasons for not disarming.
    Armed(&'a [String]),
}

/// Everything that was found.
#[derive(Debug)]
pub struct StopFindings {
    /// Name of the board.
    pub board: String,
    /// The guard has switched its line off, or why not; `None`: the board has no guard.
    pub guard: Option<Result<(), StepError>>,
    /// The runtime's reply.
    pub runtime: Runtime,
    /// A live process that holds the motors' wires, after all steps.
    pub holder: Option<Holder>,
    /// Whether a stop was written to every drive motor, or why not.
    pub stopped: Result<(), StepError>,
    /// The lines that were pulled, or why none was; `None`: not tried.
    pub pulled: Option<Result<Vec<Pulled>, StepError>>,
}

impl StopFindings {
    /// Which live process may move the motors again, if any.
    pub fn threat(&self) -> Option<Threat<'_>> {
        match (&self.runtime, &self.holder) {
            (Runtime::Silent(why), _) => Some(Threat::Silent(why)),
            (Runtime::Answers { disarmed: Ok(()), same_board, pid, .. }, Some(holder)) => {
                // Identifies the holder of the wires by its process if possible, otherwise by its board.
                let is_it = match (holder.pid, pid) {
                    (Some(holder), Some(pid)) => holder == *pid,
                    _ => *same_board,
                };
                (!is_it).then_some(Threat::Driving(*holder))
            }
            (_, Some(holder)) => Some(Threat::Driving(*holder)),
            (Runtime::Answers { disarmed: Err(why), same_board: true, .. }, None) => Some(Threat::Armed(why)),
            (Runtime::Absent | Runtime::Answers { .. }, None) => None,
        }
    }

    /// Whether the motors have stopped although no line has been pulled; if so, none needs to be pulled.
    pub fn needs_no_line(&self) -> bool {
        self.guarded() || (self.stopped.is_ok() && self.threat().is_none())
    }

    /// Whether the guard's line is off.
    pub fn guarded(&self) -> bool {
        matches!(self.guard, Some(Ok(())))
    }

    /// Whether this line was pulled.
    pub fn pulled(&self, line: Pulled) -> bool {
        matches!(&self.pulled, Some(Ok(lines)) if lines.contains(&line))
    }

    /// Whether the motors have stopped and will stay stopped.
    pub fn is_stopped(&self) -> bool {
        let reset = self.pulled(Pulled::Reset) && self.threat().is_none();
        self.needs_no_line() || self.pulled(Pulled::Enable) || reset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Holder = Holder { pid: Some(4711) };
    const UNSEEN: Holder = Holder { pid: None };

    /// Findings in which a stop was written and there is no other process.
    fn quiet() -> StopFindings {
        StopFindings {
            board: "car".into(),
            guard: None,
            runtime: Runtime::Absent,
            holder: None,
            stopped: Ok(()),
            pulled: None,
        }
    }

    fn answers(same_board: bool, pid: Option<u32>, disarmed: bool) -> Runtime {
        let disarmed = if disarmed { Ok(()) } else { Err(vec!["field-late is still active".to_string()]) };
        Runtime::Answers { board: "car".into(), same_board, pid, disarmed }
    }

    fn late() -> StepError {
        StepError::Late("the bus", std::time::Duration::ZERO)
    }

    #[test]
    fn the_guards_line_alone_is_enough() {
        let worst = StopFindings {
            guard: Some(Ok(())),
            runtime: Runtime::Silent(late()),
            holder: Some(UNSEEN),
            stopped: Err(late()),
            pulled: None,
            ..quiet()
        };
        assert!(worst.is_stopped() && worst.needs_no_line());
        assert!(!StopFindings { guard: Some(Err(StepError::GuardLine)), ..worst }.is_stopped());
    }

    #[test]
    fn a_written_stop_counts_unless_a_process_may_overwrite_it() {
        assert!(quiet().is_stopped());
        let with = |runtime, holder| StopFindings { runtime, holder, ..quiet() }.is_stopped();
        // If a live process holds the wires, it must have confirmed that it disarmed.
        assert!(!with(Runtime::Absent, Some(OURS)));
        assert!(!with(Runtime::Absent, Some(UNSEEN)));
        assert!(with(answers(true, Some(4711), true), Some(OURS)));
        assert!(!with(answers(true, Some(4711), false), Some(OURS)));
        assert!(!with(answers(true, None, false), None), "a board whose wires cannot be claimed");
        // The runtime that answers is not the process that drives.
        assert!(!with(answers(false, Some(99), true), Some(OURS)));
        assert!(!with(answers(true, Some(99), true), Some(OURS)));
        assert!(!with(answers(false, Some(99), true), Some(UNSEEN)));
        // The runtime that answers is the one that drives: first with another board file, then with the same
        // board and an unknown process ID.
        assert!(with(answers(false, Some(4711), true), Some(OURS)));
        assert!(with(answers(true, None, true), Some(OURS)));
        // A runtime of another robot.
        assert!(with(answers(false, Some(99), true), None) && with(answers(false, Some(99), false), None));
        assert!(!with(Runtime::Silent(late()), None));
    }

    #[test]
    fn disarming_alone_is_not_a_success() {
        let runtime = answers(true, Some(4711), true);
        let found = StopFindings { runtime, holder: Some(OURS), stopped: Err(late()), ..quiet() };
        assert!(!found.is_stopped());
        assert!(!StopFindings { pulled: Some(Err(StepError::NoLine)), ..found }.is_stopped());
    }

    #[test]
    fn a_pulled_line_counts_if_it_stays_effective() {
        let pulled = |line, holder| {
            let (stopped, pulled) = (Err(late()), Some(Ok(vec![line])));
            StopFindings { stopped, pulled, holder, ..quiet() }.is_stopped()
        };
        assert!(pulled(Pulled::Enable, None) && pulled(Pulled::Enable, Some(OURS)));
        assert!(pulled(Pulled::Reset, None));
        assert!(!pulled(Pulled::Reset, Some(OURS)), "the holder would set the controller up again");
    }
}
