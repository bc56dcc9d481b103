//! Combines mode, reflex verdict and field result into one command: arbitrates, clamps, limits the slew rate.
//! Pure: no clock, no bus.
//!
//! Priority, highest first: stop and disarm, then the reflexes, then a fresh field result, then an aged one
//! (its drive fades linearly), then stop. To a drive motor, a stop is zero; to a motor that aims, it means
//! "stay where you are". Only drive fades.
//!
//! Slew rate. A drive motor never gains speed faster than its slew limit. It loses speed at once when a
//! restraint tightens, when the field's request fades, and when the request is to stop. When one fresh
//! request follows another (because the quality level or the decision has changed), the limit applies to
//! slowing down as well. A reversal passes through exactly zero. A motor that aims always keeps to its limit.

mod reverse;

use crate::base::command::{Command, Executed, MAX_MOTORS, Source};
use crate::base::plan::{Limits, MotorPlan, SafetyPlan};
use crate::base::time::{Instant, Span};
use crate::decision::mode::Mode;
use crate::decision::reflex::{Verdict, faded};
use crate::field::FieldOutput;
use crate::system::checkpoint::{Archive, Remembers, Unfit, remember};
use reverse::Reverse;

/// A drive request below this share of full scale counts as a stop. No motor turns that slowly, and a driver
/// that raises every request to the smallest duty cycle at which the motor turns would make the robot creep.
/// Read-out noise reaches half of this share; at twice this share a good motor already runs.
const STOP_BELOW: f32 = 0.01;

/// One motor's limits and its last command.
#[derive(Clone, Copy, Debug)]
struct Motor {
    /// Whether the motor drives, so that a reflex may stop it; otherwise it aims.
    drives: bool,
    /// Whether the sign of its command is a direction of travel.
    travels: bool,
    limit: f32,
    /// Largest change from one command to the next.
    step: f32,
    last: f32,
}

impl Motor {
    fn new(plan: &MotorPlan, period: Span) -> Motor {
        let step = f64::from(plan.slew_per_s) * period.as_secs_f64();
        Motor {
            drives: plan.kind.drives(),
            travels: plan.kind.travels(),
            limit: within(plan.limit, 1.0),
            step: within(step as f32, 2.0), // from one end to the other
            last: 0.0,
        }
    }

    /// The motor's command for a stop.
    fn stop_command(&self) -> f32 {
        if self.drives { 0.0 } else { self.last }
    }

    /// `x`, clamped to the motor's own limit and to `limits`.
    fn limited(&self, x: f32, limits: &Limits) -> f32 {
        let (back, forth) = if self.drives { (limits.backward, limits.forward) } else { (1.0, 1.0) };
        x.clamp(-within(back, self.limit), within(forth, self.limit))
    }

    /// The next command on the way from the last one to `target`, within `limits`. The last command is cut to
    /// the limits first, so a tighter restraint takes effect at once. With `brake`, slowing down takes effect
    /// at once too.
    fn towards(&self, target: f32, limits: &Limits, brake: bool) -> f32 {
        let from = self.limited(self.last, limits);
        let slewed = target.clamp(from - self.step, from + self.step);
        if !self.drives {
            return slewed;
        }
        if target.abs() < STOP_BELOW {
            return 0.0;
        }
        if (self.last > 0.0 && target < 0.0) || (self.last < 0.0 && target > 0.0) {
            // To reverse, a motor first slows to zero; the other direction begins in a later slot.
            let slower = (from.abs() - self.step).max(0.0);
            return if brake { 0.0 } else { slower.copysign(self.last) };
        }
        if brake && target.abs() <= from.abs() { target } else { slewed }
    }
}

/// `x`, clamped to 0..=`most`; 0 if `x` is NaN.
fn within(x: f32, most: f32) -> f32 {
    if x.is_nan() { 0.0 } else { x.clamp(0.0, most) }
}

/// Unusual events, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActCounters {
    /// Commands made while the field's answer contained a value that is not finite.
    pub not_finite: u64,
    /// Commands whose backward part was removed, because the robot had driven backwards for too long.
    pub reverse_refused: u64,
}

/// The field's request, after the checks that it is young enough and finite.
struct Request<'a> {
    motors: &'a [f32; MAX_MOTORS],
    /// What share of its drive to use, above 0, at most 1.
    share: f32,
}

/// Decides commands.
#[derive(Clone, Debug)]
pub struct Arbiter {
    motors: heapless::Vec<Motor, MAX_MOTORS>,
    safety: SafetyPlan,
    period: Span,
    reverse: Reverse,
    counters: ActCounters,
}

impl Arbiter {
    /// An arbiter for `motors`, all at zero.
    ///
    /// # Panics
    /// If there are more than [`MAX_MOTORS`]: the board check refuses that.
    pub fn new(motors: &[MotorPlan], safety: SafetyPlan, period: Span) -> Arbiter {
        assert!(motors.len() <= MAX_MOTORS, "the board check limits the number of motors");
        Arbiter {
            motors: motors.iter().map(|plan| Motor::new(plan, period)).collect(),
            safety,
            period,
            reverse: Reverse::default(),
            counters: ActCounters::default(),
        }
    }

    /// Decides, at `now`, the command of the slot that begins at `executed.until`, where the last command
    /// ends. `field` is the newest answer, with the slot of the frame it was computed from. [`Command::seq`]
    /// stays 0: the motor link numbers the commands.
    pub fn decide(
        &mut self,
        mode: Mode,
        verdict: &Verdict,
        field: Option<(&FieldOutput, Instant)>,
        executed: &Executed,
        now: Instant,
    ) -> Command {
        for (motor, &command) in self.motors.iter_mut().zip(executed.command.used()) {
            motor.last = command;
        }
        let (backwards, longest) = (executed.travel < 0.0, self.safety.reverse_max);
        self.reverse.note(backwards, executed.elapsed(), self.period, longest);
        let (source, motors) = match mode.obeys_since() {
            None => (stop_source(mode), self.stopped()),
            Some(since) => {
                let request = field.and_then(|(response, taken)| self.request(response, taken, since, now));
                self.obey(request, &verdict.limits)
            }
        };
        let slot = executed.until;
        let valid_until = slot + self.safety.command_valid;
        Command { seq: 0, slot, valid_until, source, len: self.motors.len(), motors }
    }

    /// Unusual events so far.
    pub fn counters(&self) -> ActCounters {
        self.counters
    }

    /// The field result, if it may be used: computed from a frame taken since arming, young enough, all
    /// values finite.
    fn request<'a>(
        &mut self,
        response: &'a FieldOutput,
        taken: Instant,
        since: Instant,
        now: Instant,
    ) -> Option<Request<'a>> {
        let share = faded(now.since(taken), &self.safety);
        if taken < since || share <= 0.0 {
            return None;
        }
        let motors = &response.motors;
        if !motors[..self.motors.len()].iter().all(|motor| motor.is_finite()) {
            self.counters.not_finite += 1;
            return None;
        }
        Some(Request { motors, share })
    }

    /// All motors stopped.
    fn stopped(&self) -> [f32; MAX_MOTORS] {
        let mut motors = [0.0; MAX_MOTORS];
        for (command, motor) in motors.iter_mut().zip(&self.motors) {
            *command = motor.stop_command();
        }
        motors
    }

    /// The part of `request` that `limits` and the motors allow.
    fn obey(&mut self, request: Option<Request<'_>>, limits: &Limits) -> (Source, [f32; MAX_MOTORS]) {
        if !limits.allow_motion() && !limits.steer {
            return (Source::Reflex, self.stopped());
        }
        let Some(request) = request else { return (Source::Still, self.stopped()) };
        let fresh = request.share >= 1.0;
        let mut limited = false;
        let mut motors = self.stopped();
        for (index, motor) in self.motors.iter().enumerate() {
            let wanted = request.motors[index] * if motor.drives { request.share } else { 1.0 };
            let own = motor.limited(wanted, &Limits::FREE);
            let allowed = motor.limited(own, limits);
            limited |= (allowed - own).abs() > 0.0;
            if motor.drives || limits.steer {
                motors[index] = motor.towards(allowed, limits, !fresh);
            }
        }
        limited |= self.refuse_reverse(&mut motors);
        let source = if limited {
            Source::Reflex
        } else if fresh {
            Source::Field
        } else {
            Source::AgedField
        };
        (source, motors)
    }

    /// Removes the backward part from `motors` if the robot has driven backwards for too long.
    fn refuse_reverse(&mut self, motors: &mut [f32; MAX_MOTORS]) -> bool {
        let travel = |(motor, command): (&Motor, &f32)| if motor.travels { *command } else { 0.0 };
        let backwards = self.motors.iter().zip(motors.iter()).map(travel).sum::<f32>() < 0.0;
        if !self.reverse.refused || !backwards {
            return false;
        }
        for (motor, command) in self.motors.iter().zip(motors.iter_mut()) {
            if motor.travels {
                *command = command.max(0.0);
            }
        }
        self.counters.reverse_refused += 1;
        true
    }
}

/// Which source decided that the robot stops.
fn stop_source(mode: Mode) -> Source {
    match mode {
        Mode::Boot | Mode::SelfTest { .. } => Source::Still,
        _ => Source::Stop,
    }
}

impl Remembers for Arbiter {
    fn walk(&mut self, archive: &mut Archive<'_>) -> Result<(), Unfit> {
        archive.part("arbiter");
        let Arbiter { motors, safety: _, period: _, reverse, counters: _ } = self;
        for Motor { drives: _, travels: _, limit: _, step: _, last } in motors {
            remember!(archive: last);
        }
        remember!(archive: reverse);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::plan::Cause;
    use crate::decision::fixture::{FREE, PERIOD, at, ms, safety, servo, wheel};
    use crate::decision::mode::ArmRefusal;

    fn verdict(limits: Limits) -> Verdict {
        Verdict { limits, ..FREE }
    }

    fn response(motors: &[f32]) -> FieldOutput {
        let mut all = [0.0; MAX_MOTORS];
        all[..motors.len()].copy_from_slice(motors);
        let scores = [0.0; MAX_MOTORS];
        FieldOutput { cycle: 0, scores, motors: all, confidence: 0.0, skill: 0.0, novelty: 0.0 }
    }

    /// What `command` has done until `until`, as the motor link reports it.
    fn executed(motors: &[MotorPlan], command: Command, until: Instant) -> Executed {
        let travels = motors.iter().zip(command.used()).filter(|(motor, _)| motor.kind.travels());
        let travel = travels.map(|(_, command)| f64::from(*command)).sum();
        Executed { command, until, unconfirmed: Some(ms(5)), travel }
    }

    /// A car with one driven axle and a steering servo, armed at 0. Decides one slot after the other.
    struct Car {
        arbiter: Arbiter,
        last: Command,
        now: Instant,
    }

    impl Car {
        fn new() -> Car {
            Car::with(safety())
        }

        fn with(safety: SafetyPlan) -> Car {
            let arbiter = Arbiter::new(&[wheel(), servo()], safety, PERIOD);
            Car { arbiter, last: Command::still(2), now: at(0) }
        }

        /// The next slot's command.
        fn decide(&mut self, mode: Mode, limits: Limits, field: Option<(&FieldOutput, Instant)>) -> Command {
            self.now += PERIOD;
            let executed = executed(&[wheel(), servo()], self.last, self.now);
            self.last = self.arbiter.decide(mode, &verdict(limits), field, &executed, self.now);
            self.last
        }

        /// The next slot's command under `limits` for a request of age `age`.
        fn slot(&mut self, limits: Limits, request: [f32; 2], age: Span) -> Command {
            let taken = self.now + PERIOD - age;
            let armed = Mode::Armed { since: at(0) };
            self.decide(armed, limits, Some((&response(&request), taken)))
        }

        fn free(&mut self, request: [f32; 2]) -> Command {
            self.slot(Limits::FREE, request, Span::ZERO)
        }

        /// A car whose command has reached `request`.
        fn going(request: [f32; 2]) -> Car {
            let mut car = Car::new();
            car.now = at(10_000);
            car.last.slot = car.now;
            car.last.motors[..2].copy_from_slice(&request);
            car
        }
    }

    #[track_caller]
    fn close(command: &Command, expected: [f32; 2]) {
        let same = command.used().iter().zip(expected).all(|(found, wanted)| (found - wanted).abs() < 1e-5);
        assert!(same, "found {:?}, expected {expected:?}", command.used());
    }

    #[test]
    fn a_step_in_the_request_becomes_a_ramp_in_the_command() {
        let mut car = Car::new();
        for step in 1..=6 {
            let command = car.free([1.0, -1.0]);
            close(&command, [(0.2 * step as f32).min(1.0), -0.1 * step as f32]);
            assert_eq!(command.source, Source::Field);
        }
        // If a change of quality level shifts the request, the command ramps too, down as well as up.
        let mut car = Car::going([0.9, 0.0]);
        close(&car.free([0.3, 0.0]), [0.7, 0.0]);
        close(&car.free([0.3, 0.0]), [0.5, 0.0]);
        close(&car.free([0.3, 0.0]), [0.3, 0.0]);
    }

    #[test]
    fn stop_request_is_obeyed_at_once() {
        close(&Car::going([0.9, 0.5]).free([0.0, 0.5]), [0.0, 0.5]);
        close(&Car::going([-0.9, 0.5]).free([0.0, 0.0]), [0.0, 0.4]);
    }

    #[test]
    fn reversing_from_forwards_passes_through_zero() {
        let mut car = Car::going([0.3, 0.0]);
        for drive in [0.1, 0.0, -0.2, -0.4, -0.5, -0.5] {
            let command = car.free([-0.5, 0.0]);
            close(&command, [drive, 0.0]);
            assert!(drive.abs() > 0.0 || command.motors[0].to_bits() << 1 == 0, "exactly zero");
        }
    }

    #[test]
    fn reversal_from_backwards_passes_zero() {
        let mut car = Car::going([-0.3, 0.0]);
        for drive in [-0.1, 0.0, 0.2, 0.4, 0.5, 0.5] {
            close(&car.free([0.5, 0.0]), [drive, 0.0]);
        }
    }

    #[test]
    fn smallest_request_above_the_stop_threshold_is_obeyed() {
        close(&Car::going([0.0, 0.0]).free([STOP_BELOW, 0.0]), [STOP_BELOW, 0.0]);
        close(&Car::going([0.0, 0.0]).free([0.99 * STOP_BELOW, 0.0]), [0.0, 0.0]);
    }

    #[test]
    fn tighter_restraint_takes_effect_in_the_same_slot() {
        let slow = Limits { forward: 0.2, backward: 0.2, steer: true };
        let no_forward = Limits { forward: 0.0, ..Limits::FREE };
        for (limits, request, expected) in [
            (Limits::STILL, [0.9, -1.0], [0.0, 0.5]), // steering stays where it is
            (slow, [0.9, 0.5], [0.2, 0.5]),
            (no_forward, [0.9, 0.5], [0.0, 0.5]),
            (no_forward, [-0.9, 0.6], [0.0, 0.6]), // one slot at zero before it reverses
        ] {
            let command = Car::going([0.9, 0.5]).slot(limits, request, Span::ZERO);
            close(&command, expected);
            let limited = request[0] > 0.0;
            assert_eq!(command.source, if limited { Source::Reflex } else { Source::Field });
        }
        close(&Car::going([-0.9, 0.0]).slot(no_forward, [-0.9, 0.0], Span::ZERO), [-0.9, 0.0]);
    }

    #[test]
    fn reflex_is_the_source_also_without_a_field_request() {
        let mut car = Car::going([0.9, 0.5]);
        let command = car.decide(Mode::Armed { since: at(0) }, Limits::STILL, None);
        assert_eq!(command.source, Source::Reflex);
        close(&command, [0.0, 0.5]);
    }

    #[test]
    fn command_ramps_up_after_a_restraint_ends() {
        let mut car = Car::going([0.9, 0.0]);
        car.slot(Limits::STILL, [0.9, 0.0], Span::ZERO);
        close(&car.free([0.9, 0.0]), [0.2, 0.0]);
        close(&car.free([0.9, 0.0]), [0.4, 0.0]);
    }

    #[test]
    fn an_old_request_loses_drive_but_keeps_its_steering() {
        let mut car = Car::going([0.8, 0.5]);
        let script = [
            (100, 0.8, Source::Field),
            (125, 0.6, Source::AgedField),
            (175, 0.2, Source::AgedField), // faster than the slew limit: fading is slowing down
            (200, 0.0, Source::Still),
        ];
        for (age, drive, source) in script {
            let command = car.slot(Limits::FREE, [0.8, 0.5], ms(age));
            close(&command, [drive, 0.5]);
            assert_eq!(command.source, source, "{age} ms");
        }
    }

    #[test]
    fn answer_from_before_arming_is_ignored() {
        let mut arbiter = Arbiter::new(&[wheel(), servo()], safety(), PERIOD);
        let armed = Mode::Armed { since: at(50) };
        let response = response(&[1.0, 1.0]);
        let was_stopped = executed(&[], Command::still(2), at(60));
        let mut decide = |taken| {
            let field = Some((&response, at(taken)));
            arbiter.decide(armed, &FREE, field, &was_stopped, at(60)).source
        };
        assert_eq!(decide(49), Source::Still);
        assert_eq!(decide(50), Source::Field);
    }

    #[test]
    fn unarmed_robot_stays_stopped() {
        let modes = [
            (Mode::Boot, Source::Still),
            (Mode::SelfTest { missing: ArmRefusal::NONE }, Source::Still),
            (Mode::Disarmed, Source::Stop),
            (Mode::Latched { cause: Cause::Tilt }, Source::Stop),
            (Mode::Stopped, Source::Stop),
        ];
        for (mode, source) in modes {
            let mut car = Car::going([0.9, 0.5]);
            let response = response(&[1.0, 1.0]);
            let now = car.now + PERIOD;
            let command = car.decide(mode, Limits::FREE, Some((&response, now)));
            close(&command, [0.0, 0.5]);
            assert_eq!(command.source, source, "{}", mode.name());
        }
    }

    #[test]
    fn answer_with_nan_is_ignored() {
        for poison in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut car = Car::going([0.9, 0.5]);
            let command = car.free([0.9, poison]);
            close(&command, [0.0, 0.5]);
            assert_eq!(command.source, Source::Still);
            assert_eq!(car.arbiter.counters().not_finite, 1);
        }
        let huge = Car::going([0.9, 0.95]).free([f32::MAX, f32::MAX]);
        close(&huge, [1.0, 1.0]);
    }

    #[test]
    fn motor_limits_are_applied() {
        let mut arbiter =
            Arbiter::new(&[MotorPlan { limit: 0.5, slew_per_s: 1_000.0, ..wheel() }], safety(), PERIOD);
        let response = response(&[-1.0]);
        let armed = Mode::Armed { since: at(0) };
        let field = Some((&response, at(10)));
        let was_stopped = executed(&[], Command::still(1), at(10));
        let command = arbiter.decide(armed, &FREE, field, &was_stopped, at(12));
        assert_eq!((command.len, command.slot, command.valid_until), (1, at(10), at(40)));
        assert_eq!(command.source, Source::Field, "a motor's own limit does not count as a reflex");
        assert!((command.motors[0] + 0.5).abs() < 1e-6);
    }

    #[test]
    fn reverse_ends_after_its_time_and_recovers_while_stopped() {
        let mut car = Car::new();
        // 200 ms are 20 slots. After that, reversing is refused for just as long, then allowed again.
        for slot in 0..100 {
            let command = car.free([-0.5, 0.0]);
            let refused = slot / 20 % 2 == 1;
            assert_eq!(command.motors[0] < 0.0, !refused, "slot {slot}");
            assert_eq!(command.source, if refused { Source::Reflex } else { Source::Field });
        }
        assert_eq!(car.arbiter.counters().reverse_refused, 40);
    }

    #[test]
    fn short_breaks_do_not_extend_reverse_time() {
        let mut car = Car::new();
        let mut longest = 0;
        let mut backwards_in_a_row = 0;
        let mut backwards = 0;
        for slot in 0..1_000 {
            let request = if slot % 19 == 18 { 0.0 } else { -0.2 };
            let moved = car.free([request, 0.0]).motors[0] < 0.0;
            backwards_in_a_row = if moved { backwards_in_a_row + 1 } else { 0 };
            longest = longest.max(backwards_in_a_row);
            backwards += usize::from(moved);
        }
        assert!(longest <= 20);
        assert!(backwards <= 1_000 / 2 + 20, "at most half of the time in the long run: {backwards}");
    }

    #[test]
    fn turn_on_the_spot_does_not_count_as_reverse() {
        let mut turning = Arbiter::new(&[wheel(), wheel()], safety(), PERIOD);
        let mut last = Command::still(2);
        let mut slot = |request: [f32; 2], now| {
            let response = response(&request);
            let armed = Mode::Armed { since: at(0) };
            let executed = executed(&[wheel(), wheel()], last, at(now));
            last = turning.decide(armed, &FREE, Some((&response, at(now))), &executed, at(now));
            last
        };
        // Drives backwards until that is refused, and for some slots more: a turn on the spot stays allowed.
        for now in 1..=30 {
            slot([-0.2, -0.2], 10 * now);
        }
        assert_eq!(slot([-0.2, -0.2], 310).source, Source::Reflex);
        for now in 32..=40 {
            let command = slot([0.5, -0.5], 10 * now);
            assert_eq!(command.source, Source::Field);
            assert!(command.motors[1] < 0.0 || now < 33, "it turns from the second slot on");
        }
    }

    #[test]
    fn steering_and_drive_motors_do_only_their_own_part() {
        let steer = Limits { steer: true, ..Limits::STILL };
        close(&Car::going([0.9, 0.0]).slot(steer, [0.9, 1.0], Span::ZERO), [0.0, 0.1]);
        let drive = Limits { steer: false, ..Limits::FREE };
        close(&Car::going([0.9, 0.0]).slot(drive, [0.9, 1.0], Span::ZERO), [0.9, 0.0]);
    }

    #[test]
    fn forward_is_allowed_while_reverse_is_refused() {
        let mut car = Car::new();
        for _ in 0..21 {
            car.free([-0.2, 0.0]);
        }
        assert!(car.arbiter.reverse.refused);
        close(&car.free([0.2, 0.1]), [0.2, 0.1]);
    }

    #[test]
    fn a_robot_that_may_not_reverse_never_does() {
        let mut car = Car::with(SafetyPlan { reverse_max: Span::ZERO, ..safety() });
        for _ in 0..50 {
            close(&car.free([-0.5, 0.0]), [0.0, 0.0]);
        }
    }
}
