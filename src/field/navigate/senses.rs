//! What the tick tells the navigator: where the robot is by dead reckoning, and what its ranging sensors have
//! measured since the last cycle.

use super::Beam;
use super::navigator::can_go;
use crate::base::command::{Executed, MAX_MOTORS};
use crate::base::frame::{Frame, Health};
use crate::base::plan::Board;
use crate::base::time::Instant;
use crate::decision::motion::{MotionModel, Odometer, OdometryPose};
use crate::system::checkpoint::{Archive, Remembers, Unfit};

/// Maximum number of ranging sensors that a navigator uses: a ring of 24, and a few that look ahead.
pub const MAX_BEAMS: usize = 32;

/// The navigator's input in a cycle.
#[derive(Clone, Copy, Debug)]
pub struct NavigationInput {
    /// Where the robot is, by dead reckoning.
    pub pose: OdometryPose,
    /// The share of the commanded turns that the gyroscope measures: about 1, below -0.5 if it measures
    /// the opposite and is not used. `None`: there is no gyroscope, or the robot has turned too little.
    pub turns_measured: Option<f64>,
    /// What each ranging sensor measured since the last cycle, metres; NaN: no fresh reading.
    pub ranges: [f32; MAX_BEAMS],
    /// Whether the motors follow the field.
    pub armed: bool,
}

/// The robot's dead reckoning, and its ranging sensors.
#[derive(Clone, Debug)]
pub struct NavigationSenses {
    odometer: Odometer,
    /// The frame's channel of each ranging sensor.
    channels: heapless::Vec<usize, MAX_BEAMS>,
    /// The stamp of the last reading of each sensor that was passed to a cycle.
    told: [Instant; MAX_BEAMS],
}

/// For each ranging sensor of `board`, its channel in the frame, and its beam, which has no reading yet.
/// Sensors beyond [`MAX_BEAMS`] are left out.
pub fn beams(board: &Board) -> (heapless::Vec<usize, MAX_BEAMS>, Vec<Beam>) {
    let stated = board.sensors.iter().enumerate().filter_map(|(at, sensor)| Some((at, sensor.beam?)));
    let (mut channels, mut beams) = (heapless::Vec::new(), Vec::new());
    for (channel, plan) in stated.take(MAX_BEAMS) {
        if channels.push(channel).is_ok() {
            beams.push(Beam {
                bearing: plan.bearing_deg.to_radians(),
                offset: plan.at,
                half_cone: plan.half_cone_deg.to_radians(),
                range: None,
                max_range: plan.reach,
            });
        }
    }
    (channels, beams)
}

impl NavigationSenses {
    /// The senses of `board`; `None`: [`can_go`] is false, so there is no navigator that needs them.
    pub fn of(board: &Board) -> Option<NavigationSenses> {
        let (channels, _) = beams(board);
        let motion = MotionModel::of(board).filter(|_| can_go(board))?;
        Some(NavigationSenses { odometer: Odometer::new(motion), channels, told: [Instant::ZERO; MAX_BEAMS] })
    }

    /// Follows the last command and what the sensors of `frame` say about the robot's motion. While commands
    /// are not confirmed in time, the robot counts as standing still.
    pub fn follow(&mut self, executed: &Executed, frame: &Frame) {
        let still = [0.0; MAX_MOTORS];
        let motors = if executed.is_confirmed() { &executed.command.motors } else { &still };
        let turn = self.odometer.motion().measured_turn(&frame.samples);
        self.odometer.advance(executed.until, motors, turn);
    }

    /// The input of the cycle that begins with `frame`.
    pub fn input(&mut self, frame: &Frame, armed: bool) -> NavigationInput {
        let mut ranges = [f32::NAN; MAX_BEAMS];
        for ((range, channel), told) in ranges.iter_mut().zip(&self.channels).zip(&mut self.told) {
            let sample = &frame.samples[*channel];
            if sample.health == Health::Good && sample.stamp != *told {
                (*range, *told) = (sample.value, sample.stamp);
            }
        }
        NavigationInput {
            pose: self.odometer.pose(),
            turns_measured: self.odometer.turns_measured(),
            ranges,
            armed,
        }
    }
}

impl Remembers for NavigationSenses {
    fn walk(&mut self, archive: &mut Archive<'_>) -> Result<(), Unfit> {
        archive.part("navigation senses");
        // The readings that a cycle received affect only what the worker does, not what the tick decides.
        let NavigationSenses { odometer, channels: _, told: _ } = self;
        odometer.walk(archive)
    }
}
