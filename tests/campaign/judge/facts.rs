//! What a judge knows in advance: times of the board, what the script does to buses and threads, and how long
//! the motors may still turn after a reason to stop. Does not look at the robot.
//!
//! Every allowance is built from these: `period` (a request or a reading waits for the next slot, and the
//! command for the one after), `bus_time` (what may already be on the wire, and the stop behind it),
//! `timeout` (a hung transfer).

use super::super::script::{Script, Thread, Trouble};
use super::super::site::Site;
use ganglion::base::plan::{Board, MotorKind, PwmPlan};
use ganglion::base::time::{Instant, Span};
use ganglion::sim::FaultKind;

/// Start and end.
pub type Spell = (Instant, Instant);

/// Bits of the longest reading of a sensor: two registers of an inertial sensor with their addresses,
/// repeated once.
const READING_BITS: u64 = 320;
/// Bits of the longest write of one channel.
const CHANNEL_BITS: u64 = 56;
/// Further transfers that a command may need: other registers, and a check whether the chip is awake.
const BESIDE: u64 = 4;
/// Time that is not on the wire: pauses between retries, and a millisecond in which the simulated world
/// advances.
const PAUSES: Span = Span::from_millis(2);
/// After a bus answers again, the motors stop within this time: a stop is tried every few milliseconds.
const ANSWERED: Span = Span::from_millis(8);
/// Time until the runtime can use a restarted guard: it finds the guard (50 ms), greets it again (500 ms) and
/// requests the line.
const GUARD_BACK: Span = Span::from_millis(1_000);
/// How long a driver that wants the guard's line waits in all for a silent guard: 100 ms for each of its two
/// requests, to hold the line and to release it.
const REQUESTS: Span = Span::from_millis(200);
/// Within this time a running guard and a running runtime have received something from each other: a
/// heartbeat (at most 250 ms) and two slots, or a connection and a greeting.
const HEARD: Span = Span::from_millis(2_000);
/// The board's own default of `safety.disarm_after_ms`.
const DISARM_AFTER_MS: f64 = 5_000.0;

/// The facts of a run.
pub struct Facts {
    /// The board.
    pub board: Board,
    /// The longest time that one transfer and a stop take on the motors' bus.
    pub bus_time: Span,
    /// The longest time that a transfer on the motors' bus hangs.
    pub timeout: Span,
    /// Whether a line can stop the motors when their bus does not answer.
    pub has_line: bool,
    /// A stop that is forced for this long disarms.
    pub disarm_after: Span,
    /// Spells in which the motors' controller does not answer, merged and in order.
    pub dead: Vec<Spell>,
    /// The spells of `dead`, and all others in which its transfers are disturbed.
    pub troubled: Vec<Spell>,
    /// Spells in which the guard is dead or paused, merged and in order.
    pub unguarded: Vec<Spell>,
    /// Spells in which the guard is dead, merged and in order.
    guard_dead: Vec<Spell>,
    /// Spells in which no thread of the runtime runs, merged and in order.
    pub late_all: Vec<Spell>,
    late_tick: Vec<Spell>,
    late_bus: Vec<Spell>,
    late_lines: Vec<Spell>,
}

impl Facts {
    /// The facts of a run.
    pub fn new(site: &Site, script: &Script) -> Facts {
        let board = site.board.clone();
        let drives = board.motors.iter().filter(|motor| motor.kind.drives()).count() as u64;
        let aims =
            board.motors.iter().filter(|motor| matches!(motor.kind, MotorKind::Servo { .. })).count() as u64;
        // The reading that is on the wire, a whole command, and the stop.
        let bits = READING_BITS + CHANNEL_BITS * (2 * drives + aims + BESIDE) + CHANNEL_BITS * 2 * drives;
        let timing = board.i2c[0].timing;
        let bus_time = Span::from_nanos(bits * 1_000_000_000 / u64::from(timing.speed_hz)) + PAUSES;
        let controller = match (&board.mcu, &board.pwm) {
            (Some(mcu), _) => Some(mcu.address),
            (_, Some(PwmPlan::Pca9685 { address, .. })) => Some(*address),
            _ => None,
        };
        let output_enable = matches!(board.pwm, Some(PwmPlan::Pca9685 { output_enable: Some(_), .. }));
        let mut dead = script.spells(&[FaultKind::I2cNack], controller);
        // A transfer on a held bus waits for its full timeout even if the bus is released in the meantime.
        let stuck = script.spells(&[FaultKind::I2cStuck], None);
        dead.extend(stuck.into_iter().map(|(from, until)| (from, until + timing.timeout)));
        let mut troubled = dead.clone();
        troubled.extend(script.spells(&[FaultKind::BrownOut], None).into_iter().map(|(from, until)| {
            (from, until + Span::from_millis(300)) // the longest boot time of a controller
        }));
        troubled.extend(script.spells(&[FaultKind::I2cWrongBytes], controller));
        let disarm_after = site.millis("safety.disarm_after_ms").unwrap_or(DISARM_AFTER_MS);
        Facts {
            bus_time,
            timeout: timing.timeout,
            has_line: board.mcu.is_some() || board.enable.is_some() || output_enable,
            disarm_after: Span::from_secs_f64(disarm_after / 1e3),
            dead: merged(dead),
            troubled: merged(troubled),
            unguarded: merged([Trouble::Dies, Trouble::Hangs].map(|kind| script.troubles(kind)).concat()),
            guard_dead: merged(script.troubles(Trouble::Dies)),
            late_all: merged(script.late(Thread::All)),
            late_tick: script.late(Thread::Tick),
            late_bus: script.late(Thread::Bus),
            late_lines: script.late(Thread::Lines),
            board,
        }
    }

    /// Two slots and the bus time: the delay from a reason that the loop sees to motors that obey it.
    pub fn reaction(&self) -> Span {
        self.board.period.times(2) + self.bus_time
    }

    /// The latest time at which the loop sees a request that was made at `at`.
    pub fn seen_by_loop(&self, at: Instant) -> Instant {
        after(&self.late_tick, at) + self.board.period.times(2)
    }

    /// When an edge of a button at `at` can be received.
    pub fn heard_of_button(&self, at: Instant) -> Instant {
        after(&self.late_lines, at)
    }

    /// Whether the runtime can switch its reset or enable line during all of this time. It cannot switch a
    /// line of the guard while the guard is dead or paused, or has just restarted.
    pub fn can_hold(&self, at: Instant, end: Instant) -> bool {
        let unwell = |(from, until): &Spell| overlaps(&(*from, *until + GUARD_BACK), at, end);
        self.has_line && !(self.board.guard.is_some() && self.unguarded.iter().any(unwell))
    }

    /// The latest time at which the runtime receives a safe-stop that a caller sent to the guard at `at`, if
    /// the guard does not die first.
    pub fn heard_by(&self, at: Instant) -> Instant {
        let mut heard = at + HEARD;
        for (from, until) in self.unguarded.iter().chain(&self.late_all).filter(|(_, until)| *until > at) {
            if *from <= heard {
                heard = heard.max(*until + HEARD);
            }
        }
        heard
    }

    /// Whether a safe-stop that a caller sent to the guard at `at` lasts: the guard receives it at once, and
    /// lives long enough to report it to the runtime.
    pub fn remembers(&self, at: Instant) -> bool {
        let is_in = |spells: &[Spell], end| spells.iter().any(|spell| spell.0 <= end && spell.1 > at);
        !is_in(&self.unguarded, at) && !is_in(&self.guard_dead, self.heard_by(at))
    }

    /// The deadline for motors that must obey within `base` after `at`, allowing for what no program can
    /// change: threads that are not scheduled, a bus that does not answer. A late loop stops its motors when
    /// its last command expires.
    pub fn deadline(&self, at: Instant, base: Span) -> Instant {
        let safety = &self.board.safety;
        let mut end = at + base;
        if self.late_tick.iter().any(|spell| overlaps(spell, at, end)) {
            end += safety.command_valid + self.board.period;
        }
        let mut is_over = false;
        while !is_over {
            let before = end;
            for (_, until) in self.late_bus.iter().filter(|spell| overlaps(spell, at, before)) {
                end = end.max(*until + self.bus_time + self.board.period);
            }
            if !self.can_hold(at, before) {
                // Nothing can stop them before the bus answers.
                for (_, until) in self.dead.iter().filter(|spell| overlaps(spell, at, before)) {
                    end = end.max(*until + self.answered());
                }
            }
            is_over = end == before;
        }
        if self.troubled.iter().any(|spell| overlaps(spell, at, end)) {
            // The runtime notices the trouble by the transfers that fail within one period, each at most as
            // long as a hung transfer.
            let waits = self.has_line && !self.can_hold(at, end);
            end += self.timeout.times(2) + self.board.period.times(2);
            end += if waits { REQUESTS } else { Span::ZERO };
        }
        end
    }

    /// Whether anything kept the runtime from knowing what its motors did.
    pub fn is_disturbed(&self, at: Instant, end: Instant) -> bool {
        let spells = [&self.troubled, &self.unguarded, &self.late_all, &self.late_tick, &self.late_bus];
        // A bus or a guard works again only some time after its trouble.
        let hit = |(from, until): &Spell| overlaps(&(*from, *until + GUARD_BACK), at, end);
        spells.into_iter().flatten().any(hit)
    }

    /// The motors have stopped this long after their bus answers again.
    pub fn answered(&self) -> Span {
        self.bus_time + ANSWERED
    }
}

/// Whether a spell and a stretch overlap.
pub fn overlaps((from, until): &Spell, start: Instant, end: Instant) -> bool {
    *from <= end && *until >= start
}

/// `at`, or the end of the spell that it falls into.
fn after(spells: &[Spell], at: Instant) -> Instant {
    let mut at = at;
    while let Some((_, until)) = spells.iter().find(|(from, until)| *from <= at && at < *until) {
        at = *until;
    }
    at
}

/// Merges spells that touch.
pub fn merged(mut spells: Vec<Spell>) -> Vec<Spell> {
    spells.sort();
    let mut all: Vec<Spell> = Vec::new();
    for (from, until) in spells {
        match all.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(until),
            _ => all.push((from, until)),
        }
    }
    all
}
