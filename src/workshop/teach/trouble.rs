//! What makes driving harder: noise, samples that are lost, stretches in which chance steers. In a lesson the
//! driver sees the troubled sensors and learns by how much the table is wrong about them.

use crate::base::command::MAX_MOTORS;
use crate::base::frame::MAX_SENSORS;
use crate::base::seed::{Stream, normal, uniform};
use crate::field::Stimulus;

/// Deviation of the noise, on a sensor's scale of -1..=1.
const NOISE: f64 = 0.1;
/// Cycles between the beginnings of two outages or two stretches of other steering: two seconds at 50 Hz.
const EVERY: u64 = 100;
/// Longest outage or stretch: half a second.
const LENGTH: f64 = 25.0;

/// What troubles a lesson.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing.
    None,
    /// Every sensor is noisy.
    Noise,
    /// One sensor keeps its last value for some time, now and then.
    Outages,
    /// Steering goes elsewhere for some time, so that the robot gets to where it would not get by itself.
    Elsewhere,
}

impl Trouble {
    /// The kinds that a study may choose.
    pub const ASKED: [Trouble; 3] = [Trouble::None, Trouble::Noise, Trouble::Outages];

    /// As on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Trouble::None => "none",
            Trouble::Noise => "noise",
            Trouble::Outages => "outages",
            Trouble::Elsewhere => "elsewhere",
        }
    }

    /// The trouble of the `nth` room of a trial: a correction has to serve with sound sensors as well.
    pub fn of_room(nth: usize) -> Trouble {
        Trouble::ASKED[nth % Trouble::ASKED.len()]
    }

    /// The trouble of the `nth` lesson of a round: half of them have none.
    pub fn of(nth: usize) -> Trouble {
        match nth % 6 {
            1 => Trouble::Noise,
            3 => Trouble::Outages,
            4 | 5 => Trouble::Elsewhere,
            _ => Trouble::None,
        }
    }

    /// The sensors as the field sees them in `cycle`. `kept`: as it saw them in the cycle before.
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

    /// The motors of `cycle`: `wanted`, or chance for those of them that steer (`aims`).
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
    /// Of a drive through the room of `seed`.
    pub fn new(trouble: Trouble, seed: u64) -> Troubled {
        Troubled { trouble, seed, kept: [0.0; MAX_SENSORS] }
    }

    /// `stimulus` with its first `used` sensors troubled.
    pub fn see(&mut self, stimulus: &Stimulus, used: usize) -> Stimulus {
        self.kept = self.trouble.sensors(self.seed, stimulus.cycle, &stimulus.sensors, &self.kept, used);
        Stimulus { sensors: self.kept, ..*stimulus }
    }
}

/// A draw for the stretch of cycles that `cycle` is in, 0..1.
fn stretch(seed: u64, cycle: u64, which: u64) -> f64 {
    uniform(seed, Stream::Stimulus, (cycle / EVERY) * 64 + which)
}

/// Whether trouble is on in `cycle`.
fn strikes(seed: u64, cycle: u64) -> bool {
    ((cycle % EVERY) as f64) < LENGTH * stretch(seed, cycle, 0)
}
