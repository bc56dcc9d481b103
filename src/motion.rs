//! Estimates where the robot is from its own commands: a kinematic bicycle (Rajamani, *Vehicle Dynamics and
//! Control*, section 2.2, reference point on the rear axle) whose speed lags. Begins at (0, 0), heading along
//! x. It drifts, as every dead reckoning does, and does not see that a wheel slips or a wall holds the robot,
//! which limits the accuracy of places.

use crate::command::MAX_MOTORS;
use crate::plan::{Board, MotorKind, MotorPlan};
use crate::time::{Instant, Span};

/// Longest time that one command is taken to have lasted: beyond it (a stalled loop) the robot stood, as
/// motors do whose command has run out.
const LONGEST: Span = Span::from_millis(200);

/// What the robot's commands mean for its motion.
#[derive(Clone, Debug, PartialEq)]
pub struct Motion {
    /// Speed at full command, metres a second.
    pub full_speed: f64,
    /// Distance of the axles, metres.
    pub wheelbase: f64,
    /// Time constant of the speed, seconds; 0: none.
    pub lag_s: f64,
    /// Which motors drive: their mean is the speed.
    pub drives: Vec<usize>,
    /// The motor that steers, and its angle at -1 and +1 in degrees, positive to the right; without one the
    /// robot is taken to go straight.
    pub steering: Option<(usize, [f64; 2])>,
}

impl Motion {
    /// How `board`'s commands move it, if it states that.
    pub fn of(board: &Board) -> Option<Motion> {
        let plan = board.motion?;
        let steers = |(number, motor): (usize, &MotorPlan)| {
            let MotorKind::Servo { min_deg, max_deg, .. } = motor.kind else { return None };
            (motor.name == "steering").then(|| (number, [min_deg, max_deg].map(f64::from)))
        };
        let drives = board.motors.iter().enumerate().filter(|(_, motor)| motor.kind.drives());
        Some(Motion {
            full_speed: plan.full_speed.into(),
            wheelbase: plan.wheelbase.into(),
            lag_s: plan.lag.as_secs_f64(),
            drives: drives.map(|(number, _)| number).collect(),
            steering: board.motors.iter().enumerate().find_map(steers),
        })
    }

    /// The drive command of `motors`: the mean of its drive motors.
    pub fn drive(&self, motors: &[f32; MAX_MOTORS]) -> f32 {
        let sum: f32 = self.drives.iter().map(|motor| motors[*motor]).sum();
        sum / self.drives.len().max(1) as f32
    }
}

/// A place and a heading.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Standing {
    /// Metres.
    pub at: [f64; 2],
    /// Radians from x towards y (to the left).
    pub heading: f64,
}

/// The reckoning.
#[derive(Clone, Debug)]
pub struct Odometer {
    motion: Motion,
    standing: Standing,
    speed: f64,
    last: Option<Instant>,
}

impl Odometer {
    /// At the origin.
    pub fn new(motion: Motion) -> Odometer {
        Odometer { motion, standing: Standing::default(), speed: 0.0, last: None }
    }

    /// What its commands mean.
    pub fn motion(&self) -> &Motion {
        &self.motion
    }

    /// Where it is.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// How fast it goes, metres a second, negative backwards.
    pub fn speed(&self) -> f64 {
        self.speed
    }

    /// The robot was given this command at `slot`. Returns how far it went since the last one, metres,
    /// negative backwards.
    pub fn advance(&mut self, slot: Instant, motors: &[f32; MAX_MOTORS]) -> f64 {
        let passed = self.last.map_or(Span::ZERO, |last| slot.since(last));
        self.last = Some(slot);
        let seconds = passed.min(LONGEST).as_secs_f64();
        let Motion { full_speed, wheelbase, lag_s, drives, steering } = &self.motion;
        let wanted = drives.iter().map(|motor| f64::from(motors[*motor])).sum::<f64>()
            / drives.len().max(1) as f64
            * full_speed;
        let share = if *lag_s > 0.0 { 1.0 - libm::exp(-seconds / lag_s) } else { 1.0 };
        self.speed += (wanted - self.speed) * share;
        let angle = steering.map_or(0.0, |(motor, [low, high])| {
            (low + (f64::from(motors[motor]) + 1.0) / 2.0 * (high - low)).to_radians()
        });
        let way = self.speed * seconds;
        let turn = -way / wheelbase * libm::tan(angle);
        let middle = self.standing.heading + turn / 2.0;
        self.standing.at[0] += way * libm::cos(middle);
        self.standing.at[1] += way * libm::sin(middle);
        self.standing.heading += turn;
        way
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn motion(lag_s: f64) -> Motion {
        let steering = Some((2, [-30.0, 30.0]));
        Motion { full_speed: 0.5, wheelbase: 0.1, lag_s, drives: vec![0, 1], steering }
    }

    fn drive(odometer: &mut Odometer, from: u64, slots: u64, command: [f32; 3]) {
        let mut motors = [0.0; MAX_MOTORS];
        motors[..3].copy_from_slice(&command);
        for slot in from..from + slots {
            odometer.advance(Instant::ZERO + Span::from_millis(10 * slot), &motors);
        }
    }

    #[test]
    fn a_full_circle_ends_where_it_began_and_a_straight_is_as_long_as_it_is() {
        let mut odometer = Odometer::new(motion(0.0));
        drive(&mut odometer, 0, 101, [1.0, 1.0, 0.0]);
        let Standing { at: [x, y], heading } = odometer.standing();
        assert!((x - 0.5).abs() < 1e-9 && y.abs() < 1e-9 && heading.abs() < 1e-9, "{x} {y} {heading}");
        // To the right at 30 degrees: a circle of radius 0.1 / tan 30 degrees.
        let radius = 0.1 / (30.0_f64).to_radians().tan();
        let slots = (std::f64::consts::TAU * radius / 0.5 / 0.01).round() as u64;
        drive(&mut odometer, 101, slots, [1.0, 1.0, 1.0]);
        let Standing { at: [x, y], heading } = odometer.standing();
        assert!((heading + std::f64::consts::TAU).abs() < 0.05, "a turn to the right: {heading}");
        assert!((x - 0.5).abs() < 0.01 && y.abs() < 0.01, "{x} {y}");
    }

    #[test]
    fn a_lag_costs_the_way_of_its_time_and_a_stall_of_the_loop_counts_for_little() {
        let mut odometer = Odometer::new(motion(0.1));
        drive(&mut odometer, 0, 201, [1.0, 1.0, 0.0]);
        let [x, _] = odometer.standing().at;
        assert!((x - (2.0 - 0.1) * 0.5).abs() < 0.003, "{x}");
        let before = odometer.standing().at[0];
        drive(&mut odometer, 10_000, 1, [1.0, 1.0, 0.0]);
        assert!(odometer.standing().at[0] - before <= 0.2 * 0.5 + 1e-9);
    }
}
