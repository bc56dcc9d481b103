//! Whether the motors stand, from what each step of `safe-stop` has found. Pure. It claims no more than was seen: that a
//! runtime was asked to disarm is no success by itself, and stillness that was written is none while a live runtime may
//! write over it.

use super::super::exit::Failure;
use crate::rt::flock::Holder;

/// What the runtime behind the control socket is, and what it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// Nobody listens.
    Absent,
    /// Somebody listens and does not answer.
    Silent(String),
    /// It answered.
    Answers {
        /// Name of its board.
        board: String,
        /// It drives the board that is meant: the same effective values.
        same_board: bool,
        /// Its process, as far as it can be seen.
        pid: Option<u32>,
        /// Disarmed, confirmed by the loop; or why not.
        disarmed: Result<(), String>,
    },
}

/// A line that was pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pulled {
    /// The motors have no current, and the board's own pull keeps it so.
    Enable,
    /// The controller has started anew, without pulses, and would obey whoever sets it up.
    Reset,
}

/// Everything that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Name of the board.
    pub board: String,
    /// The guard's line is off and follows, or why not; `None`: the board has no guard.
    pub guard: Option<Result<(), String>>,
    pub runtime: Runtime,
    /// A live process that has the motors' wires, after all steps.
    pub holder: Option<Holder>,
    /// Stillness was written to every drive motor, or why not.
    pub stilled: Result<(), String>,
    /// The lines that were pulled, or why none was; `None`: not tried.
    pub pulled: Option<Result<Vec<Pulled>, String>>,
}

impl Found {
    /// Whether a live process may move the motors again; in words: who, and why that is believed.
    pub fn threat(&self) -> Option<String> {
        match (&self.runtime, &self.holder) {
            (Runtime::Silent(why), _) => Some(format!("a runtime listens and does not answer ({why})")),
            (Runtime::Answers { disarmed: Ok(()), same_board, pid, .. }, Some(holder)) => {
                // Whoever has the wires is known best by its process; where that cannot be seen, by its board.
                let is_it = match (holder.pid, pid) {
                    (Some(holder), Some(pid)) => holder == *pid,
                    _ => *same_board,
                };
                (!is_it).then(|| format!("{holder} has the motors' wires and was not disarmed"))
            }
            (_, Some(holder)) => Some(format!("{holder} has the motors' wires and was not disarmed")),
            (Runtime::Answers { disarmed: Err(why), same_board: true, .. }, None) => {
                Some(format!("the runtime of this board was not disarmed ({why})"))
            }
            (Runtime::Absent | Runtime::Answers { .. }, None) => None,
        }
    }

    /// Whether the motors stand without a pulled line: then none is pulled.
    pub fn is_still(&self) -> bool {
        self.guarded() || (self.stilled.is_ok() && self.threat().is_none())
    }

    fn guarded(&self) -> bool {
        matches!(self.guard, Some(Ok(())))
    }

    fn pulled(&self, line: Pulled) -> bool {
        matches!(&self.pulled, Some(Ok(lines)) if lines.contains(&line))
    }

    /// What was done, a line each.
    pub fn done(&self) -> Vec<String> {
        let mut done = Vec::new();
        if self.guarded() {
            done.push("the guard holds its line off until a runtime has disarmed".to_string());
        }
        if let Runtime::Answers { board, same_board, disarmed: Ok(()), .. } = &self.runtime {
            done.push(match same_board {
                true => "the running robot is disarmed".to_string(),
                false => format!(
                    "a runtime of another board ('{board}') is disarmed: that counts for nothing here"
                ),
            });
        }
        if self.stilled.is_ok() {
            done.push(format!("stillness was written to the drive motors of board '{}'", self.board));
        }
        for (line, words) in [
            (Pulled::Enable, "the enable line is off: the motors have no current"),
            (Pulled::Reset, "the reset line was pulled: the controller has begun anew, without pulses"),
        ] {
            if self.pulled(line) {
                done.push(words.to_string());
            }
        }
        done
    }

    /// What did not work, a line each.
    pub fn troubles(&self) -> Vec<String> {
        let mut troubles = Vec::new();
        if let Some(Err(why)) = &self.guard {
            troubles.push(why.clone());
        }
        if let Runtime::Answers { disarmed: Err(why), .. } = &self.runtime {
            troubles.push(format!("the running robot: {why}"));
        }
        if let Err(why) = &self.stilled {
            troubles.push(why.clone());
        }
        if let Some(Err(why)) = &self.pulled {
            troubles.push(why.clone());
        }
        troubles.extend(self.threat());
        troubles
    }

    /// Success, or what to do.
    pub fn verdict(&self) -> Result<(), Failure> {
        let threat = self.threat();
        if self.is_still() || self.pulled(Pulled::Enable) || (self.pulled(Pulled::Reset) && threat.is_none())
        {
            return Ok(());
        }
        let done = if self.stilled.is_ok() { "may move again" } else { "could not be stilled" };
        let what = format!("the motors of board '{}' {done}: {}", self.board, self.troubles().join("; "));
        let fix = match (threat, self.holder.and_then(|holder| holder.pid)) {
            (Some(_), Some(pid)) => {
                format!("end that process (kill {pid}) and ask again, or cut the motors' power")
            }
            (Some(_), None) => "end that process and ask again, or cut the motors' power".to_string(),
            (None, _) => "cut their power".to_string(),
        };
        Err(Failure::unavailable(what).fix(fix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::exit::Exit;

    const OURS: Holder = Holder { pid: Some(4711) };
    const UNSEEN: Holder = Holder { pid: None };

    /// Stillness was written, nobody else is there.
    fn quiet() -> Found {
        Found {
            board: "car".into(),
            guard: None,
            runtime: Runtime::Absent,
            holder: None,
            stilled: Ok(()),
            pulled: None,
        }
    }

    fn answers(same_board: bool, pid: Option<u32>, disarmed: bool) -> Runtime {
        let disarmed = if disarmed { Ok(()) } else { Err("field-late is still there".to_string()) };
        Runtime::Answers { board: "car".into(), same_board, pid, disarmed }
    }

    fn stands(found: &Found) -> bool {
        match found.verdict() {
            Ok(()) => true,
            Err(failure) => {
                assert_eq!(failure.exit(), Exit::Unavailable);
                false
            }
        }
    }

    #[test]
    fn the_guards_line_is_enough_whatever_else_goes_wrong() {
        let worst = Found {
            guard: Some(Ok(())),
            runtime: Runtime::Silent("timed out".into()),
            holder: Some(UNSEEN),
            stilled: Err("the bus".into()),
            pulled: None,
            ..quiet()
        };
        assert!(stands(&worst) && worst.is_still());
        assert!(!stands(&Found { guard: Some(Err("its line does not follow".into())), ..worst }));
    }

    #[test]
    fn written_stillness_counts_while_nobody_may_write_over_it() {
        assert!(stands(&quiet()));
        let with = |runtime, holder| stands(&Found { runtime, holder, ..quiet() });
        // A live process that was not asked, and one that was.
        assert!(!with(Runtime::Absent, Some(OURS)));
        assert!(!with(Runtime::Absent, Some(UNSEEN)));
        assert!(with(answers(true, Some(4711), true), Some(OURS)));
        assert!(!with(answers(true, Some(4711), false), Some(OURS)));
        assert!(!with(answers(true, None, false), None), "without wires that can be claimed");
        // The runtime that answers is another one than the process that drives.
        assert!(!with(answers(false, Some(99), true), Some(OURS)));
        assert!(!with(answers(true, Some(99), true), Some(OURS)));
        assert!(!with(answers(false, Some(99), true), Some(UNSEEN)));
        // It is the one that drives, from another board file; or cannot be seen and says that it is.
        assert!(with(answers(false, Some(4711), true), Some(OURS)));
        assert!(with(answers(true, None, true), Some(OURS)));
        // It has nothing to do with these motors.
        assert!(with(answers(false, Some(99), true), None) && with(answers(false, Some(99), false), None));
        assert!(!with(Runtime::Silent("timed out".into()), None));
    }

    #[test]
    fn a_disarm_is_no_success_by_itself() {
        let runtime = answers(true, Some(4711), true);
        let found = Found { runtime, holder: Some(OURS), stilled: Err("the bus".into()), ..quiet() };
        assert!(!stands(&found));
        assert!(!stands(&Found { pulled: Some(Err("the board names no line".into())), ..found }));
    }

    #[test]
    fn a_pulled_line_counts_as_far_as_it_stays_pulled() {
        let pulled = |line, holder| {
            let (stilled, pulled) = (Err("the bus".to_string()), Some(Ok(vec![line])));
            stands(&Found { stilled, pulled, holder, ..quiet() })
        };
        assert!(pulled(Pulled::Enable, None) && pulled(Pulled::Enable, Some(OURS)));
        assert!(pulled(Pulled::Reset, None));
        assert!(!pulled(Pulled::Reset, Some(OURS)), "it would set the controller up again");
    }

    #[test]
    fn who_may_move_them_again_is_named_with_what_to_do() {
        let words = Found { holder: Some(OURS), ..quiet() }.verdict().unwrap_err().to_string();
        assert!(
            words.contains("may move again") && words.contains("4711") && words.contains("kill 4711"),
            "{words}"
        );
    }
}
