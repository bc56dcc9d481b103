//! Rules that demand a retreat: once their limit was passed, the motors obey them until they have turned
//! backwards as far as in `retreat_ms` at full speed, or a caller disarms. Uses the currents of the motors. A
//! retreat during which the bus, the guard or a thread was disturbed is not judged, because the runtime could
//! not know what the motors did.

use super::facts::Facts;
use super::promise::Promise;
use super::senses::{obeyed, passes};
use super::{Breach, Stretch};
use ganglion::base::plan::{Cause, Rule};
use ganglion::base::time::{Instant, Span};

/// A rule, and what is left of its retreat.
#[derive(Debug)]
struct Owed {
    rule: Rule,
    /// When its limit was last passed, and how much is left, seconds at full speed.
    since: Option<(Instant, f64)>,
    /// A reading within the limit has come while the retreat was owed, so it counts as exercised.
    noted: bool,
}

/// All such rules.
#[derive(Debug)]
pub struct Retreats {
    owed: Vec<Owed>,
    /// Per drive motor: minimum duty, limit.
    drives: Vec<(f32, f32)>,
    /// How often a rule began to bind only because of its retreat.
    pub exercised: u64,
}

impl Retreats {
    /// No retreat is owed. `drives`: per drive motor, minimum duty and limit.
    pub fn new(facts: &Facts, drives: Vec<(f32, f32)>) -> Retreats {
        let asks = |rule: &&Rule| rule.retreat > Span::ZERO && rule.cause != Cause::EStop;
        let owed = |rule: &Rule| Owed { rule: *rule, since: None, noted: false };
        Retreats { owed: facts.board.reflexes.iter().filter(asks).map(owed).collect(), drives, exercised: 0 }
    }

    /// A good reading from a sensor.
    pub fn observe(&mut self, sensor: usize, value: f32, at: Instant, facts: &Facts) {
        for owed in self.owed.iter_mut().filter(|owed| owed.rule.channel == sensor) {
            if passes(&owed.rule, value) {
                (owed.since, owed.noted) = (Some((at, owed.rule.retreat.as_secs_f64())), false);
            } else if owed.since.is_some_and(|(_, left)| left > ahead(facts)) && !owed.noted {
                owed.noted = true;
                self.exercised += 1;
            }
        }
    }

    /// A caller disarms, and takes responsibility for where the robot stands.
    pub fn release(&mut self) {
        self.owed.iter_mut().for_each(|owed| owed.since = None);
    }

    /// The motors had these currents for a while.
    pub fn pass(&mut self, stretch: &Stretch<'_>, facts: &Facts) {
        let share = |(current, (least, limit)): (&f32, &(f32, f32))| {
            let share = ((current.abs() - least) / (1.0 - least)).clamp(0.0, *limit);
            f64::from(if current.abs() > 0.0 { share.copysign(*current) } else { 0.0 })
        };
        let sum: f64 = stretch.currents.iter().zip(&self.drives).map(share).sum();
        let speed = (-sum / self.drives.len().max(1) as f64).max(0.0);
        let way = speed * stretch.until.since(stretch.from).as_secs_f64();
        for owed in &mut self.owed {
            let Some((at, left)) = owed.since else { continue };
            let left = left - way;
            let done = left <= 0.0 || facts.is_disturbed(at, stretch.until);
            owed.since = (!done).then_some((at, left));
        }
    }

    /// Returns a breach if there was motion towards something that the robot has not backed away from.
    pub fn check(&self, stretch: &Stretch<'_>, facts: &Facts) -> Option<Breach> {
        for owed in &self.owed {
            let Some((at, left)) = owed.since.filter(|(_, left)| *left > ahead(facts)) else { continue };
            let from = facts.deadline(at, facts.reaction());
            let disturbed = facts.is_disturbed(at, stretch.until);
            if from >= stretch.until
                || disturbed
                || obeyed(&owed.rule.restraint, stretch.currents, &self.drives)
            {
                continue;
            }
            let what = format!(
                "`{}` last passed its limit at {:.4} s, {left:.3} s of backing away are left, and the currents are {:?}",
                facts.board.sensors[owed.rule.channel].name,
                at.as_nanos() as f64 / 1e9,
                stretch.currents
            );
            return Some(Breach { promise: Promise::Retreat, at: from.max(stretch.from), what });
        }
        None
    }
}

/// How far the runtime's count may be ahead of the motors, seconds: it counts a command from its slot to the
/// next, but the command reaches the wire later.
fn ahead(facts: &Facts) -> f64 {
    (facts.board.safety.command_valid + facts.reaction()).as_secs_f64()
}
