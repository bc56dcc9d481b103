//! An HC-SR04: a trigger pulse in, an echo pulse out, which lasts as long as sound
//! takes to the nearest thing and back. It creates edges but does not deliver them.
//!
//! Everything within the cone echoes, at any angle. A real module misses smooth walls beyond about 45
//! degrees; the model leaves that out, because no board here could do anything about it.
//!
//! Modules differ in what they do when no echo returns; the board states which kind it has. According to the
//! data sheet, the pulse then lasts 38 ms. Modules that hold the line for 180 to 200 ms, and modules that
//! hold it until any echo comes, are reported in the Arduino forum (topics 55119 and 429576) and in
//! fossasia/pslab-python, request 209. Assumed: a module that is still timing its pulse ignores a trigger,
//! like the firmware of the SRF04, which these modules copy; a module without a time limit sends another
//! burst, whose echo ends the pulse.

use super::eye::Eye;
use super::noise::Noise;
use crate::base::plan::{Line, SonarModule};
use crate::base::time::{Instant, Span};
use crate::hardware::bus::Edge;

/// Half the opening angle of the cone, degrees.
pub const HALF_CONE_DEG: f64 = 15.0;
/// Greatest distance from which a thing echoes, metres.
const REACH_M: f64 = 4.0;
/// Speed of sound in the room, metres per second.
const SOUND_M_PER_S: f64 = 343.3;
/// Standard deviation of the distance: the data sheet states 3 mm, taken as three standard deviations.
const NOISE_M: f64 = 0.001;
/// Shortest trigger pulse that it accepts.
const TRIGGER: Span = Span::from_micros(10);
/// From the trigger's end to the rising edge.
const DELAY: Span = Span::from_micros(450);
/// Length of the pulse if no echo returns: per the data sheet, and for the slower modules.
const NO_ECHO: Span = Span::from_millis(38);
const LONG_NO_ECHO: Span = Span::from_millis(200);

/// The shortest pulse of the module's own processor. It is added to every echo, so that there are always two
/// edges.
const SHORTEST: Span = Span::from_nanos(100);

/// Condition of the module under the present fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It works.
    Sound,
    /// It repeats the same echo for ever.
    Frozen,
    /// It does not answer.
    Silent,
    /// Its echo line is stuck at the supply voltage.
    Stuck,
}

/// Edges of one ping.
pub type Edges = heapless::Vec<Edge, 2>;

/// One module.
#[derive(Clone, Debug)]
pub struct Sonar {
    echo: Line,
    module: SonarModule,
    eye: Eye,
    noise: Noise,
    triggered: Option<Instant>,
    rise: Instant,
    fall: Instant,
    /// Intended length of the last pulse; an inner `None`: without an end.
    flight: Option<Option<Span>>,
}

impl Sonar {
    /// A module whose echo output is on this line, mounted like `eye`.
    pub fn new(echo: Line, module: SonarModule, eye: Eye, noise: Noise) -> Sonar {
        let (rise, fall) = (Instant::ZERO, Instant::ZERO);
        Sonar { echo, module, eye, noise, triggered: None, rise, fall, flight: None }
    }
    /// Level of the echo line.
    pub fn echo_is_high(&self, now: Instant) -> bool {
        (self.rise..self.fall).contains(&now)
    }

    /// Drives the trigger line. At the end of a valid pulse, returns the edges to come.
    pub fn drive_trig(
        &mut self,
        high: bool,
        now: Instant,
        condition: Condition,
        distance: impl FnOnce(&Eye) -> f64,
    ) -> Edges {
        let mut edges = Edges::new();
        if high {
            self.triggered.get_or_insert(now);
            return edges;
        }
        let Some(began) = self.triggered.take() else { return edges };
        // Still timing the last ping: it ignores its trigger.
        let counts = now < self.fall && self.fall < Instant::NEVER;
        let broken = matches!(condition, Condition::Silent | Condition::Stuck);
        if now.since(began) < TRIGGER || counts || broken {
            return edges;
        }
        let flight = match (condition, self.flight) {
            (Condition::Frozen, Some(flight)) => flight,
            _ => self.fly(distance(&self.eye)),
        };
        self.flight = Some(flight);
        let sent = now + DELAY;
        let edge = |high, stamp| Edge { line: self.echo, high, stamp };
        if !self.echo_is_high(now) {
            self.rise = sent;
            let _ = edges.push(edge(true, sent)); // there is room for two
        }
        self.fall = flight.map_or(Instant::NEVER, |flight| sent + flight);
        if flight.is_some() {
            let _ = edges.push(edge(false, self.fall));
        }
        edges
    }

    /// How long the line is high; `None`: for ever.
    fn fly(&mut self, distance: f64) -> Option<Span> {
        if distance > REACH_M {
            return match self.module {
                SonarModule::Ms38 => Some(NO_ECHO),
                SonarModule::Ms200 => Some(LONG_NO_ECHO),
                SonarModule::Endless => None,
            };
        }
        let heard = (distance + self.noise.draw(NOISE_M)).max(0.0);
        Some(Span::from_secs_f64(2.0 * heard / SOUND_M_PER_S) + SHORTEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::plan::SimPlan;
    use crate::sim::world::Outline;

    fn sonar() -> Sonar {
        of(SonarModule::Ms38)
    }

    fn of(module: SonarModule) -> Sonar {
        let eye = Eye::ahead(&Outline::of(&SimPlan::default()), HALF_CONE_DEG);
        Sonar::new(Line(22), module, eye, Noise::new(1, 0))
    }

    fn ping(sonar: &mut Sonar, at: Instant, condition: Condition, distance: f64) -> Option<[Edge; 2]> {
        let edges = ping_edges(sonar, at, condition, distance);
        (!edges.is_empty()).then(|| edges.into_array().unwrap())
    }

    fn ping_edges(sonar: &mut Sonar, at: Instant, condition: Condition, distance: f64) -> Edges {
        assert!(sonar.drive_trig(true, at, condition, |_| unreachable!()).is_empty());
        sonar.drive_trig(false, at + TRIGGER, condition, |_| distance)
    }

    #[test]
    fn without_an_echo_the_line_stays_high_as_the_model_does() {
        let far = f64::INFINITY;
        let at = |ms| Instant::ZERO + Span::from_millis(ms);
        let mut slow = of(SonarModule::Ms200);
        let [rise, fall] = ping(&mut slow, at(0), Condition::Sound, far).unwrap();
        assert_eq!(fall.stamp.since(rise.stamp), Span::from_millis(200));
        assert_eq!(
            ping(&mut slow, at(120), Condition::Sound, 0.5),
            None,
            "while it times the last ping, it ignores its trigger"
        );
        assert!(slow.echo_is_high(at(200)) && !slow.echo_is_high(at(201)));

        let mut endless = of(SonarModule::Endless);
        let edges = ping_edges(&mut endless, at(0), Condition::Sound, far);
        assert_eq!(
            edges.iter().map(|edge| edge.high).collect::<Vec<_>>(),
            [true],
            "without an echo the pulse has no end"
        );
        assert!(
            ping_edges(&mut endless, at(120), Condition::Sound, far).is_empty(),
            "another burst without an echo does not end it either"
        );
        assert!(endless.echo_is_high(at(3_600_000)));
        let ended = ping_edges(&mut endless, at(3_600_000), Condition::Sound, 1.0);
        assert_eq!(
            ended.iter().map(|edge| edge.high).collect::<Vec<_>>(),
            [false],
            "the echo of the second burst ends the pulse"
        );
        assert!(!endless.echo_is_high(ended[0].stamp));
    }

    #[test]
    fn the_echo_lasts_as_long_as_sound_travels() {
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
        sonar.drive_trig(true, Instant::ZERO, Condition::Sound, |_| 1.0);
        let at = Instant::from_nanos(9_999);
        assert!(sonar.drive_trig(false, at, Condition::Sound, |_| 1.0).is_empty());
        assert!(ping(&mut sonar, at, Condition::Sound, 1.0).is_some());
        assert_eq!(ping(&mut sonar, at + Span::from_millis(2), Condition::Sound, 1.0), None);
    }

    #[test]
    fn a_frozen_sonar_repeats_bits_and_a_silent_one_has_no_echo() {
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
        assert_eq!(flight(&mut sonar, Condition::Stuck, 0.2), None);
    }
}
