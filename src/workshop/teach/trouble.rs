//! Disturbances that make driving harder: noise, lost samples, and periods of random steering. In a lesson
//! the driver sees the disturbed sensors, and the tutor notes by how much they falsify the table's output.

use crate::base::command::MAX_MOTORS;
use crate::base::frame::MAX_SENSORS;
use crate::base::seed::{Stream, normal, uniform};
use crate::field::FieldInput;

/// Standard deviation of the noise on a sensor's scale of -1..=1.
const NOISE: f64 = 0.1;
/// Cycles from the start of one outage or period of random steering to the next: two seconds at 50 Hz.
const EVERY: u64 = 100;
/// Maximum length of an outage or a period of random steering, in cycles: half a second at 50 Hz.
const LENGTH: f64 = 25.0;

/// The kinds of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No disturbance.
    None,
    /// Every sensor is noisy.
    Noise,
    /// Now and then, one sensor keeps its last value for a while.
    Outages,
    /// Now and then, the steering is random for a while, so that the robot reaches places that it would not
    /// reach on its own.
    Elsewhere,
}

impl Trouble {
    /// The kinds of trouble that a study may choose.
    pub const ASKED: [Trouble; 3] = [Trouble::None, Trouble::Noise, Trouble::Outages];

    /// The name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Trouble::None => "none",
            Trouble::Noise => "noise",
            Trouble::Outages => "outages",
            Trouble::Elsewhere => "elsewhere",
        }
    }

    /// The trouble in the `nth` room of a trial. One kind is `None`, because a correction must also work with
    /// healthy sensors.
    pub fn of_room(nth: usize) -> Trouble {
        Trouble::ASKED[nth % Trouble::ASKED.len()]
    }

    /// The trouble in the `nth` lesson of a round. A third of the lessons have none, and a third have random
    /// steering.
    pub fn of(nth: usize) -> Trouble {
        match nth % 6 {
            1 => Trouble::Noise,
            3 => Trouble::Outages,
            4 | 5 => Trouble::Elsewhere,
            _ => Trouble::None,
        }
    }

    /// The sensors as the driver sees them in `cycle`: the first `used` may be disturbed. `kept` holds what
    /// the driver saw in the previous cycle.
    pub fn sensors(
        self,
        seed: u64,
        cycle: u64,
        true_ones: &[f32; MAX_SENSORS],
        kept: &[f32; MAX_SENSORS],
        used: usize,
    ) -> [f32; MAX_SENSORS] {
        let mut seen = *true_ones;
        match self {
            Trouble::None | Trouble::Elsewhere => {}
            Trouble::Noise => {
                for (sensor, value) in seen[..used].iter_mut().enumerate() {
                    let draw = normal(seed, Stream::Stimulus, cycle * MAX_SENSORS as u64 + sensor as u64);
                    *value = (*value + (NOISE * draw) as f32).clamp(-1.0, 1.0);
                }
            }
            Trouble::Outages => {
                let sensor = (stretch(seed, cycle, 1) * used as f64) as usize;
                if strikes(seed, cycle) {
                    seen[sensor.min(used - 1)] = kept[sensor.min(used - 1)];
                }
            }
        }
        seen
    }

    /// The motor commands in `cycle`: `wanted`, or random values for the motors that steer (`aims`).
    pub fn motors(
        self,
        seed: u64,
        cycle: u64,
        wanted: [f32; MAX_MOTORS],
        aims: &[usize],
    ) -> [f32; MAX_MOTORS] {
        let mut motors = wanted;
        if self == Trouble::Elsewhere && strikes(seed, cycle) {
            for (nth, motor) in aims.iter().enumerate() {
                motors[*motor] = (2.0 * stretch(seed, cycle, 2 + nth as u64) - 1.0) as f32;
            }
        }
        motors
    }
}

/// The sensors of a drive as its driver sees them.
#[derive(Clone, Debug)]
pub struct Troubled {
    trouble: Trouble,
    seed: u64,
    kept: [f32; MAX_SENSORS],
}

impl Troubled {
    /// The sensors of a drive through the room with `seed`.
    pub fn new(trouble: Trouble, seed: u64) -> Troubled {
        Troubled { trouble, seed, kept: [0.0; MAX_SENSORS] }
    }

    /// `input` with its first `used` sensors disturbed.
    pub fn see(&mut self, input: &FieldInput, used: usize) -> FieldInput {
        self.kept = self.trouble.sensors(self.seed, input.cycle, &input.sensors, &self.kept, used);
        FieldInput { sensors: self.kept, ..*input }
    }
}

/// Random number `which`, in 0..1; it stays the same for [`EVERY`] cycles.
fn stretch(seed: u64, cycle: u64, which: u64) -> f64 {
    uniform(seed, Stream::Stimulus, (cycle / EVERY) * 64 + which)
}

/// Whether there is trouble in `cycle`.
fn strikes(seed: u64, cycle: u64) -> bool {
    ((cycle % EVERY) as f64) < LENGTH * stretch(seed, cycle, 0)
}
