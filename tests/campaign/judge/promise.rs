//! The promises by name, each with a short wording (docs/campaign.md has the details). Checks nothing.

/// A promise about motors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// Nothing moves before a caller arms (or the board arms by itself).
    Unarmed,
    /// A disarm stops the motors until a caller arms afterwards.
    Disarm,
    /// A stop of the process stops the motors for good.
    Stop,
    /// A press of a stop button, however short, stops the motors until the button is released and the robot
    /// is then disarmed and armed.
    Press,
    /// A latched rule that trips stops the motors until the rule has cleared and the robot is then disarmed
    /// and armed.
    Latch,
    /// After a suspend the motors stand still until a caller arms.
    Slept,
    /// A safe-stop of the guard lasts until a caller arms.
    SafeStop,
    /// A stop that was forced for `disarm_after_ms` disarms.
    DisarmAfter,
    /// A required sensor that is stale, was never read or is implausible stops the motors.
    Required,
    /// A rule whose limit is passed is obeyed.
    Rule,
    /// A rule with `retreat_ms` is obeyed until the motors have turned backwards for that long.
    Retreat,
    /// A rule whose sensor was never read is obeyed.
    NeverRead,
    /// A rule whose sensor has not given a good reading for its `max_age_ms` is obeyed.
    Silent,
    /// A command that is not renewed expires.
    CommandValid,
    /// If the motors' bus is silent, a line stops the motors, if the board has one for that.
    BusLost,
    /// When a bus answers again, the motors are stopped first.
    BusBack,
    /// A runtime that needs a guard does not drive without one.
    GuardLost,
    /// A guard that receives nothing from the runtime cuts the line.
    GuardTrips,
    /// A robot whose brain is elsewhere does not drive while that brain is silent.
    LinkLost,
    /// The robot backs no longer than `reverse_max_ms`.
    Reverse,
    /// After the end of the process the motors stand still.
    End,
}

/// The number of promises.
pub const COUNT: usize = 21;

/// Each promise with its name and its wording in the table of a campaign.
pub const ALL: [(Promise, &str, &str); COUNT] = [
    (Promise::Unarmed, "unarmed", "nothing moves before `ganglion arm` or `auto_arm`"),
    (Promise::Disarm, "disarm", "`ganglion disarm` stops the motors until armed again"),
    (Promise::Stop, "stop", "Ctrl-C stops the motors"),
    (Promise::Press, "press", "the emergency stop is decided in every control period"),
    (Promise::Latch, "latch", "`latched`: stopped until disarmed, then armed again"),
    (Promise::Slept, "slept", "after a suspend, the robot stands still until a person arms it"),
    (Promise::SafeStop, "safe-stop", "a requested safe-stop lasts until a person arms the robot"),
    (Promise::DisarmAfter, "disarm-after", "`disarm_after_ms` of forced stillness disarms"),
    (Promise::Required, "required", "a required sensor that is stale or implausible"),
    (Promise::Rule, "rule", "obstacle, cliff, tilt, low battery"),
    (Promise::Retreat, "retreat", "`retreat_ms`: until the robot has backed away"),
    (Promise::NeverRead, "never-read", "what a rule does when its sensor was never read"),
    (Promise::Silent, "silent", "what a rule does when its sensor is silent"),
    (Promise::CommandValid, "command-valid", "a command is obeyed no longer than `command_valid_ms`"),
    (Promise::BusLost, "bus-lost", "a lost bus"),
    (Promise::BusBack, "bus-back", "a bus answers again: the motors are stopped first"),
    (Promise::GuardLost, "guard-lost", "the guard dies or hangs: the motors stop"),
    (Promise::GuardTrips, "guard-trips", "the guard stops the motors when the runtime is silent"),
    (Promise::LinkLost, "link-lost", "the brain is silent for `silence_ms`: the motors stop"),
    (Promise::Reverse, "reverse", "`reverse_max_ms`"),
    (Promise::End, "end", "the motors stand still when the process has ended"),
];

impl Promise {
    /// Its name.
    pub fn name(self) -> &'static str {
        ALL[self as usize].1
    }
    /// The promise of that name.
    pub fn of_name(name: &str) -> Option<Promise> {
        ALL.iter().find(|(_, known, _)| *known == name).map(|(promise, ..)| *promise)
    }
}

/// A set of promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched(u32);

impl Default for Watched {
    fn default() -> Watched {
        Watched::ALL
    }
}

impl Watched {
    /// Every promise.
    pub const ALL: Watched = Watched((1 << COUNT) - 1);

    /// This one.
    pub fn only(promise: Promise) -> Watched {
        Watched(1 << promise as u32)
    }
    /// The union of both sets.
    pub fn and(self, other: Watched) -> Watched {
        Watched(self.0 | other.0)
    }
    /// This set without the other's promises.
    pub fn without(self, other: Watched) -> Watched {
        Watched(self.0 & !other.0)
    }
    /// Whether the set contains `promise`.
    pub fn has(self, promise: Promise) -> bool {
        self.0 & (1 << promise as u32) != 0
    }
    /// The promises with these names, separated by commas.
    pub fn of_names(names: &str) -> Result<Watched, String> {
        names.split(',').try_fold(Watched(0), |all, name| {
            let promise = Promise::of_name(name).ok_or(format!("no promise is called '{name}'"))?;
            Ok(all.and(Watched::only(promise)))
        })
    }
}
