//! Whether the motors have stopped, from what each step of `safe-stop` found. Pure. It claims no more than
//! was observed: asking a runtime to disarm is no success by itself, and neither is a written stop that a
//! live runtime may overwrite.

use super::StepError;
use crate::system::rt::flock::Holder;

/// The runtime behind the control socket, and what it did.
#[derive(Debug)]
pub enum Runtime {
    /// No process listens.
    Absent,
    /// A process listens and does not answer.
    Silent(StepError),
    /// It answered.
    Answers {
        /// Name of its board.
        board: String,
        /// It drives the board in question: the same effective values.
        same_board: bool,
        /// Its process, as far as it can be determined.
        pid: Option<u32>,
        /// Disarmed, confirmed by the loop; or its reasons why not.
        disarmed: Result<(), Vec<String>>,
    },
}

/// A line that was pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pulled {
    /// The motors have no current, and the board's own pull keeps it so.
    Enable,
    /// The controller has restarted, without pulses, and would obey any process that sets it up.
    Reset,
}

/// What may move the motors again.
#[derive(Debug)]
pub enum Threat<'a> {
    /// A runtime that listens and does not answer.
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
    /// The guard's line is off and follows, or why not; `None`: the board has no guard.
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
                // The holder of the wires is best identified by its process; otherwise by its board.
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

    /// Whether the motors have stopped without pulling a line: then none is pulled.
    pub fn is_still(&self) -> bool {
        self.guarded() || (self.stopped.is_ok() && self.threat().is_none())
    }

    /// Whether the guard's line is off.
    pub fn guarded(&self) -> bool {
        matches!(self.guard, Some(Ok(())))
    }

    /// Whether that line was pulled.
    pub fn pulled(&self, line: Pulled) -> bool {
        matches!(&self.pulled, Some(Ok(lines)) if lines.contains(&line))
    }

    /// Whether the motors have stopped, and will stay stopped.
    pub fn stands(&self) -> bool {
        let reset = self.pulled(Pulled::Reset) && self.threat().is_none();
        self.is_still() || self.pulled(Pulled::Enable) || reset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Holder = Holder { pid: Some(4711) };
    const UNSEEN: Holder = Holder { pid: None };

    /// A stop was written, and no other process is there.
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
    fn the_guards_line_alone_confirms_the_stop() {
        let worst = StopFindings {
            guard: Some(Ok(())),
            runtime: Runtime::Silent(late()),
            holder: Some(UNSEEN),
            stopped: Err(late()),
            pulled: None,
            ..quiet()
        };
        assert!(worst.stands() && worst.is_still());
        assert!(!StopFindings { guard: Some(Err(StepError::GuardLine)), ..worst }.stands());
    }

    #[test]
    fn a_written_stop_counts_if_no_process_can_overwrite_it() {
        assert!(quiet().stands());
        let with = |runtime, holder| StopFindings { runtime, holder, ..quiet() }.stands();
        // A live process that was not asked, and one that was.
        assert!(!with(Runtime::Absent, Some(OURS)));
        assert!(!with(Runtime::Absent, Some(UNSEEN)));
        assert!(with(answers(true, Some(4711), true), Some(OURS)));
        assert!(!with(answers(true, Some(4711), false), Some(OURS)));
        assert!(!with(answers(true, None, false), None), "without wires that can be claimed");
        // The runtime that answers is not the process that drives.
        assert!(!with(answers(false, Some(99), true), Some(OURS)));
        assert!(!with(answers(true, Some(99), true), Some(OURS)));
        assert!(!with(answers(false, Some(99), true), Some(UNSEEN)));
        // It is the one that drives, with another board file; or it is not visible and says that it is.
        assert!(with(answers(false, Some(4711), true), Some(OURS)));
        assert!(with(answers(true, None, true), Some(OURS)));
        // It has nothing to do with these motors.
        assert!(with(answers(false, Some(99), true), None) && with(answers(false, Some(99), false), None));
        assert!(!with(Runtime::Silent(late()), None));
    }

    #[test]
    fn a_disarm_alone_does_not_confirm_the_stop() {
        let runtime = answers(true, Some(4711), true);
        let found = StopFindings { runtime, holder: Some(OURS), stopped: Err(late()), ..quiet() };
        assert!(!found.stands());
        assert!(!StopFindings { pulled: Some(Err(StepError::NoLine)), ..found }.stands());
    }

    #[test]
    fn a_pulled_line_counts_only_while_it_stays_pulled() {
        let pulled = |line, holder| {
            let (stopped, pulled) = (Err(late()), Some(Ok(vec![line])));
            StopFindings { stopped, pulled, holder, ..quiet() }.stands()
        };
        assert!(pulled(Pulled::Enable, None) && pulled(Pulled::Enable, Some(OURS)));
        assert!(pulled(Pulled::Reset, None));
        assert!(!pulled(Pulled::Reset, Some(OURS)), "it would set the controller up again");
    }
}
