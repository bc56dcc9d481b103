//! An HC-SR04 at the front of the car: a trigger pulse in, an echo pulse out, as long as sound takes
//! to the nearest thing and back. Makes edges; delivers none.
//!
//! Everything within the cone echoes, at any angle. A real module loses smooth walls beyond about 45 degrees;
//! the model leaves that out, because no board here could do anything about it.

use super::noise::Noise;
use super::world::{Outline, Pose, World};
use crate::bus::Edge;
use crate::plan::Line;
use crate::time::{Instant, Span};

/// Half the opening of the cone, and how finely it is looked through: at 1 degree a disc of 12 cm
/// radius cannot hide between two rays within 4 m.
const HALF_CONE_DEG: i32 = 15;
/// Farthest thing that echoes, metres.
const REACH_M: f64 = 4.0;
/// Speed of sound in the room, metres a second.
const SOUND_M_PER_S: f64 = 343.3;
/// Standard deviation of the distance: the data sheet states 3 mm, taken as three of them.
const NOISE_M: f64 = 0.001;
/// Shortest trigger that is taken.
const TRIGGER: Span = Span::from_micros(10);
/// From the trigger's end to the rising edge.
const DELAY: Span = Span::from_micros(450);
/// Length of the pulse if nothing comes back.
const NO_ECHO: Span = Span::from_millis(38);

/// The shortest pulse of the module's own processor: there are always two edges.
const SHORTEST: Span = Span::from_nanos(100);

/// What a fault makes of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It works.
    Sound,
    /// The same echo for ever.
    Frozen,
    /// It does not answer.
    Silent,
}

/// One module.
#[derive(Clone, Debug)]
pub struct Sonar {
    echo: Line,
    noise: Noise,
    triggered: Option<Instant>,
    rise: Instant,
    fall: Instant,
    flight: Option<Span>,
}

impl Sonar {
    /// A module whose echo output is on this line.
    pub fn new(echo: Line, noise: Noise) -> Sonar {
        let (rise, fall) = (Instant::ZERO, Instant::ZERO);
        Sonar { echo, noise, triggered: None, rise, fall, flight: None }
    }
    /// Level of the echo line.
    pub fn echo_is_high(&self, now: Instant) -> bool {
        (self.rise..self.fall).contains(&now)
    }

    /// The trigger line is driven. At the end of a good pulse, the edges of the echo that is to come.
    pub fn drive_trig(
        &mut self,
        high: bool,
        now: Instant,
        condition: Condition,
        distance: impl FnOnce() -> f64,
    ) -> Option<[Edge; 2]> {
        if high {
            self.triggered.get_or_insert(now);
            return None;
        }
        let began = self.triggered.take()?;
        let deaf = now < self.fall; // still busy with the last ping
        if now.since(began) < TRIGGER || deaf || condition == Condition::Silent {
            return None;
        }
        let flight = match (condition, self.flight) {
            (Condition::Frozen, Some(flight)) => flight,
            _ => self.fly(distance()),
        };
        self.flight = Some(flight);
        self.rise = now + DELAY;
        self.fall = self.rise + flight;
        let edge = |high, stamp| Edge { line: self.echo, high, stamp };
        Some([edge(true, self.rise), edge(false, self.fall)])
    }

    fn fly(&mut self, distance: f64) -> Span {
        if distance > REACH_M {
            return NO_ECHO;
        }
        let heard = (distance + self.noise.draw(NOISE_M)).max(0.0);
        Span::from_secs_f64(2.0 * heard / SOUND_M_PER_S) + SHORTEST
    }
}

/// Distance from the front of the car to the nearest thing within the cone, metres.
pub fn look(world: &World, outline: &Outline, pose: &Pose) -> f64 {
    let eye = pose.point(outline.front(), 0.0);
    (-HALF_CONE_DEG..=HALF_CONE_DEG)
        .map(|degrees| world.ray(eye, pose.heading + f64::from(degrees).to_radians()))
        .fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::SimPlan;

    fn sonar() -> Sonar {
        Sonar::new(Line(22), Noise::new(1, 0))
    }

    fn ping(sonar: &mut Sonar, at: Instant, condition: Condition, distance: f64) -> Option<[Edge; 2]> {
        assert_eq!(sonar.drive_trig(true, at, condition, || unreachable!()), None);
        sonar.drive_trig(false, at + TRIGGER, condition, || distance)
    }

    #[test]
    fn the_cone_sees_walls_ahead_and_at_the_side() {
        let plan = SimPlan { room: [4.0, 3.0], discs: 0, cliffs: vec![], ..SimPlan::default() };
        let world = World::new(&plan, 1);
        let outline = Outline::of(&plan);
        let at = |x, y, heading| look(&world, &outline, &Pose { x, y, heading });
        assert!((at(1.0, 1.5, 0.0) - (3.0 - outline.front())).abs() < 1e-12);
        // Along a wall at 0.2 m the edge of the cone meets it first.
        let expected = 0.2 / libm::sin(15.0_f64.to_radians());
        assert!((at(1.0, 0.2, 0.0) - expected).abs() < 1e-9);
    }

    #[test]
    fn an_echo_is_as_long_as_sound_takes() {
        let mut sonar = sonar();
        let [rise, fall] = ping(&mut sonar, Instant::from_nanos(1000), Condition::Sound, 1.0).unwrap();
        assert_eq!((rise.line, rise.high, fall.line, fall.high), (Line(22), true, Line(22), false));
        assert_eq!(rise.stamp, Instant::from_nanos(1000) + TRIGGER + DELAY);
        let heard = fall.stamp.since(rise.stamp).as_secs_f64() * SOUND_M_PER_S / 2.0;
        assert!((heard - 1.0).abs() <= 0.003 + 1e-6, "{heard}");
        assert!(!sonar.echo_is_high(Instant::from_nanos(2000)) && sonar.echo_is_high(rise.stamp));
        assert!(!sonar.echo_is_high(fall.stamp));
        let later = fall.stamp + Span::from_millis(60);
        let [rise, fall] = ping(&mut sonar, later, Condition::Sound, f64::INFINITY).unwrap();
        assert_eq!(fall.stamp.since(rise.stamp), NO_ECHO);
    }

    #[test]
    fn short_triggers_and_pings_into_an_echo_are_ignored() {
        let mut sonar = sonar();
        sonar.drive_trig(true, Instant::ZERO, Condition::Sound, || 1.0);
        let at = Instant::from_nanos(9_999);
        assert_eq!(sonar.drive_trig(false, at, Condition::Sound, || 1.0), None);
        assert!(ping(&mut sonar, at, Condition::Sound, 1.0).is_some());
        assert_eq!(ping(&mut sonar, at + Span::from_millis(2), Condition::Sound, 1.0), None);
    }

    #[test]
    fn frozen_repeats_to_the_bit_and_silent_says_nothing() {
        let mut sonar = sonar();
        let mut at = Instant::ZERO;
        let mut flight = |sonar: &mut Sonar, condition, distance| {
            at += Span::from_millis(60);
            ping(sonar, at, condition, distance).map(|[rise, fall]| fall.stamp.since(rise.stamp))
        };
        let first = flight(&mut sonar, Condition::Sound, 1.0);
        let second = flight(&mut sonar, Condition::Sound, 1.0);
        assert_ne!(first, second, "noise never repeats");
        assert_eq!(flight(&mut sonar, Condition::Frozen, 0.3), second);
        assert_eq!(flight(&mut sonar, Condition::Frozen, 0.2), second);
        assert_eq!(flight(&mut sonar, Condition::Silent, 0.2), None);
    }
}
