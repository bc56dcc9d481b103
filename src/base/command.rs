//! One fixed-size set of motor commands, and what "stop" means.
//!
//! A command states the slot it was made for and how long it is valid: a bus thread that wakes up late writes
//! the stop command, never an old request.

use crate::base::time::{Instant, Span};

/// Maximum number of motors on a board.
pub const MAX_MOTORS: usize = 16;

/// Who made the motor request in a field's result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Requester {
    /// The field.
    #[default]
    Field,
    /// The navigator, which has a goal.
    Navigator,
    /// An order to stand still.
    StandOrder,
    /// The behaviour with this number in the board file.
    Behaviour(u8),
}

impl Requester {
    /// The number of the behaviour.
    pub fn behaviour(self) -> Option<u8> {
        match self {
            Requester::Behaviour(number) => Some(number),
            Requester::Field | Requester::Navigator | Requester::StandOrder => None,
        }
    }
}

/// What decided a command. Recordings and digests contain the number of a variant: add new ones at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Source {
    /// No source: the robot is not armed, or there is nothing to obey.
    Still,
    /// An old field result, scaled down according to its age.
    AgedField,
    /// A fresh field result.
    Field,
    /// A reflex limited or replaced what the field wanted.
    Reflex,
    /// Emergency stop or disarm.
    Stop,
    /// A fresh request of the navigator, which replaced that of the field.
    Navigator,
    /// An old request of the navigator, scaled down according to its age.
    AgedNavigator,
    /// An order to stand still.
    StandOrder,
    /// A fresh request of a behaviour, which replaced that of the field.
    Behaviour,
    /// An old request of a behaviour, scaled down according to its age.
    AgedBehaviour,
}

impl Source {
    /// Every source.
    pub const ALL: [Source; 10] = [
        Source::Still,
        Source::AgedField,
        Source::Field,
        Source::Reflex,
        Source::Stop,
        Source::Navigator,
        Source::AgedNavigator,
        Source::StandOrder,
        Source::Behaviour,
        Source::AgedBehaviour,
    ];

    /// Whether the robot may have moved: it obeyed a request, or a reflex limited one.
    pub fn may_move(self) -> bool {
        match self {
            Source::Still | Source::Stop => false,
            Source::AgedField | Source::Field | Source::Reflex => true,
            Source::Navigator | Source::AgedNavigator | Source::StandOrder => true,
            Source::Behaviour | Source::AgedBehaviour => true,
        }
    }

    /// The source of a command for which the arbiter obeyed a request of `requester`, if it obeyed one.
    pub fn requested_by(self, requester: Requester) -> Source {
        match (self, requester) {
            (Source::Field, Requester::Navigator) => Source::Navigator,
            (Source::AgedField, Requester::Navigator) => Source::AgedNavigator,
            (Source::Field, Requester::Behaviour(_)) => Source::Behaviour,
            (Source::AgedField, Requester::Behaviour(_)) => Source::AgedBehaviour,
            (Source::Field | Source::AgedField, Requester::StandOrder) => Source::StandOrder,
            (Source::Field | Source::AgedField, Requester::Field)
            | (Source::Still | Source::Reflex | Source::Stop, _)
            | (Source::Navigator | Source::AgedNavigator | Source::StandOrder, _)
            | (Source::Behaviour | Source::AgedBehaviour, _) => self,
        }
    }

    /// Its description.
    pub fn text(self) -> &'static str {
        match self {
            Source::Still => "nothing: the motors are stopped",
            Source::AgedField => "an ageing result of the field",
            Source::Field => "the field",
            Source::Reflex => "a reflex",
            Source::Stop => "the stop",
            Source::Navigator => "the navigator",
            Source::AgedNavigator => "the navigator's ageing result",
            Source::StandOrder => "the order to stand",
            Source::Behaviour => "a behaviour",
            Source::AgedBehaviour => "a behaviour's ageing result",
        }
    }
}

/// The new targets for the motors.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Command {
    /// Counts commands from 1; 0 is the stop command before the first.
    pub seq: u64,
    /// The slot that the command belongs to; lateness on the wire is measured from here.
    pub slot: Instant,
    /// After this time the command must not be written; the stop command is written instead.
    pub valid_until: Instant,
    /// The source that decided.
    pub source: Source,
    /// Number of motors in use.
    pub len: usize,
    /// Per motor, -1..=1 after all limits; the board entry maps it to duty or angle.
    pub motors: [f32; MAX_MOTORS],
}

impl Command {
    /// The stop command: drive motors at 0. The device holds servos at their present angle.
    pub const fn still(len: usize) -> Command {
        Command {
            seq: 0,
            slot: Instant::ZERO,
            valid_until: Instant::NEVER,
            source: Source::Still,
            len,
            motors: [0.0; MAX_MOTORS],
        }
    }

    /// The same command, now that it is known whose request the arbiter got.
    pub fn requested_by(self, requester: Requester) -> Command {
        Command { source: self.source.requested_by(requester), ..self }
    }

    /// The motors in use.
    pub fn used(&self) -> &[f32] {
        &self.motors[..self.len]
    }
}

/// What the last command did to the robot, from its slot until the present one. The motor link computes it
/// once per slot, for reflexes, trail and arbiter.
#[derive(Clone, Copy, Debug)]
pub struct Executed {
    /// The last command; before the first, the stop command.
    pub command: Command,
    /// The present slot.
    pub until: Instant,
    /// Time since a command was last confirmed on the wire; `None`: never.
    pub unconfirmed: Option<Span>,
    /// Mean command of the motors whose sign is a direction of travel; negative is backwards.
    pub travel: f64,
}

impl Executed {
    /// How long the command has been in effect.
    pub fn elapsed(&self) -> Span {
        self.until.since(self.command.slot)
    }

    /// Whether a command was confirmed within the time for which a command is valid. If not, the robot may
    /// not have moved.
    pub fn is_confirmed(&self) -> bool {
        self.unconfirmed.is_some_and(|age| age < self.valid())
    }

    /// How far the command has certainly moved the robot backwards, expressed as a time at full speed. A
    /// command counts only for as long as it is valid.
    pub fn backed(&self) -> Span {
        if !self.is_confirmed() {
            return Span::ZERO;
        }
        let speed = (-self.travel).max(0.0);
        Span::from_secs_f64(speed * self.elapsed().min(self.valid()).as_secs_f64())
    }

    fn valid(&self) -> Span {
        self.command.valid_until.since(self.command.slot)
    }
}

/// A bus thread's receipt: the command was on the wire at `at`.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct OnWire {
    /// [`Command::seq`].
    pub seq: u64,
    /// [`Command::slot`].
    pub slot: Instant,
    /// When its last byte was acknowledged.
    pub at: Instant,
    /// Whether every device accepted it.
    pub complete: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_obeys_a_request_names_who_made_it() {
        for (requester, fresh, aged) in [
            (Requester::Field, Source::Field, Source::AgedField),
            (Requester::Navigator, Source::Navigator, Source::AgedNavigator),
            (Requester::StandOrder, Source::StandOrder, Source::StandOrder),
            (Requester::Behaviour(2), Source::Behaviour, Source::AgedBehaviour),
        ] {
            assert_eq!(Source::Field.requested_by(requester), fresh);
            assert_eq!(Source::AgedField.requested_by(requester), aged);
            for other in [Source::Still, Source::Reflex, Source::Stop] {
                assert_eq!(other.requested_by(requester), other, "it obeys no request");
            }
        }
    }

    #[test]
    fn each_source_has_its_own_number_and_text() {
        for (number, source) in Source::ALL.into_iter().enumerate() {
            assert_eq!(source as usize, number);
            assert_eq!(Source::ALL.iter().filter(|other| other.text() == source.text()).count(), 1);
        }
    }
}
