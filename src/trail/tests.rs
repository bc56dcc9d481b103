//! The stage on the desk robot's plan, without a tick: what it makes of requests.

use super::*;
use crate::fixture::{FREE, at, ms};
use crate::frame::{Health, Sample};
use crate::plan::Limits;
use crate::plan::Restraint;
use proptest::prelude::*;

const ARMED: Mode = Mode::Armed { since: Instant::ZERO };
const LEFT: usize = 0;
const STEERING: usize = 2;

fn desk() -> Board {
    crate::board::built_in("sim").expect("it is built in").expect("and sound").board
}

/// The stage, given a command each slot.
struct Rig {
    board: Board,
    trail: Trail,
    slot: u64,
    shown: Frame,
}

impl Rig {
    fn new(start_m: f32) -> Rig {
        let mut board = desk();
        board.backing = board.backing.map(|backing| BackingPlan { start_m, ..backing });
        let mut shown = Frame::empty(board.sensors.len());
        for sample in &mut shown.samples {
            *sample = Sample { value: 1400.0, worst: 1400.0, stamp: at(0), health: Health::Good };
        }
        Rig { trail: Trail::new(&board), board, slot: 0, shown }
    }

    /// Gives the motors `command` for `slots`.
    fn drive(&mut self, slots: u64, command: [f32; 3], unconfirmed: Option<Span>) {
        for _ in 0..slots {
            self.slot += 1;
            let mut given = Command::still(self.board.motors.len());
            given.motors[..3].copy_from_slice(&command);
            self.trail.record(&given, at(10 * self.slot), unconfirmed);
        }
    }

    /// The request and the limits that come of `wish` under `verdict`.
    fn ask(&mut self, wish: [f32; 3], mode: Mode, verdict: Verdict) -> ([f32; 3], Limits) {
        let mut verdict = verdict;
        self.trail.restrain(&mut verdict);
        let mut motors = [0.0; MAX_MOTORS];
        motors[..3].copy_from_slice(&wish);
        let scores = [0.0; MAX_MOTORS];
        let response = Response { cycle: 0, scores, motors, confidence: 0.0, skill: 0.0, novelty: 0.0 };
        let slot = at(10 * self.slot);
        let guided = self.trail.guide(Some((&response, slot)), mode, &verdict, &self.shown, slot);
        let (guided, _) = guided.expect("there is an answer");
        ([0, 1, 2].map(|motor| guided.motors[motor]), verdict.limits)
    }

    fn armed(&mut self) {
        self.ask([0.0; 3], ARMED, FREE);
    }

    fn darken(&mut self, sensor: &str, dark: bool) {
        let channel = self.board.sensors.iter().position(|plan| plan.name == sensor).expect("a sensor");
        self.shown.samples[channel].value = if dark { 100.0 } else { 1400.0 };
    }
}

const CONFIRMED: Option<Span> = Some(ms(5));
const BACK: [f32; 3] = [-0.5, -0.5, 0.9];

/// No forwards, for this cause.
fn held(cause: Cause) -> Verdict {
    Verdict { limits: Restraint::NoForward.limits(), active: cause.bit(), ..FREE }
}

fn near(a: [f32; 3], b: [f32; 3]) -> bool {
    a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6)
}

#[test]
fn a_wish_to_go_back_gets_the_steering_of_the_way_and_keeps_its_drive() {
    let mut rig = Rig::new(0.0);
    rig.armed();
    rig.drive(50, [0.5, 0.5, -0.3], CONFIRMED);
    rig.drive(50, [0.5, 0.5, 0.4], CONFIRMED);
    assert!(near(rig.ask(BACK, ARMED, FREE).0, [-0.5, -0.5, 0.4]));
    rig.drive(80, BACK, CONFIRMED); // also where the motors did not steer so
    assert!(near(rig.ask(BACK, ARMED, FREE).0, [-0.5, -0.5, -0.3]));
    assert!(near(rig.ask([0.3, 0.3, 0.9], ARMED, FREE).0, [0.3, 0.3, 0.9]), "forwards is the field's");
    let counters = rig.trail.counters().expect("it counts");
    assert_eq!((counters.times, counters.turns), (1, 0));
    assert!((0.15..0.2).contains(&counters.metres), "{counters:?}");
}

#[test]
fn without_a_way_backwards_is_forbidden_and_only_confirmed_commands_make_one() {
    let mut rig = Rig::new(0.0);
    rig.armed();
    assert!(rig.ask(BACK, ARMED, FREE).1.backward.abs() < 1e-6);
    rig.drive(100, [0.5, 0.5, 0.0], Some(ms(30)));
    rig.drive(100, [0.5, 0.5, 0.0], None);
    assert!(rig.ask(BACK, ARMED, FREE).1.backward.abs() < 1e-6, "no command was confirmed in time");
    rig.drive(100, [0.5, 0.5, 0.0], CONFIRMED);
    assert_eq!(rig.ask(BACK, ARMED, FREE).1, Limits::FREE);
    rig.drive(100, [-0.5, -0.5, 0.0], CONFIRMED);
    assert!(rig.ask(BACK, ARMED, FREE).1.backward.abs() < 1e-6, "it is used up");
    // Before an edge that is no motion at all, which disarms; where forwards is free it turns there.
    assert!(!rig.ask(BACK, ARMED, held(Cause::Cliff)).1.allow_motion());
    let (request, limits) = rig.ask(BACK, ARMED, FREE);
    assert!(near(request, [0.35, 0.35, 1.0]) && limits.forward > 0.0, "{request:?}");
    assert!(rig.trail.counters().is_some_and(|counters| counters.without_way >= 3));
}

#[test]
fn who_arms_it_vouches_for_a_little_way_and_a_disarm_forgets_the_rest() {
    let mut rig = Rig::new(0.15);
    rig.armed();
    assert_eq!(rig.ask(BACK, ARMED, held(Cause::Cliff)).1, held(Cause::Cliff).limits, "an edge at the start");
    rig.drive(100, [0.5, 0.5, 0.0], CONFIRMED);
    rig.ask(BACK, Mode::Disarmed, FREE); // it may be carried elsewhere now
    rig.drive(20, [0.0; 3], CONFIRMED);
    rig.ask(BACK, Mode::Armed { since: at(10 * rig.slot) }, FREE);
    rig.drive(50, [-0.5, -0.5, 0.0], CONFIRMED); // 0.125 m less what it takes to gain speed
    let again = Mode::Armed { since: at(1_200) };
    assert!(rig.ask(BACK, again, FREE).1.backward > 0.0, "all of it");
}

#[test]
fn it_turns_away_from_the_dark_side_or_to_the_side_it_kept() {
    let mut rig = Rig::new(0.15);
    rig.armed();
    for (dark, side) in [("ground-left", 1.0), ("ground-right", -1.0), ("ground-middle", -1.0)] {
        rig.darken(dark, true);
        rig.ask(BACK, ARMED, held(Cause::Cliff));
        rig.darken(dark, false);
        let (waits, _) = rig.ask([0.1, 0.1, 0.2], ARMED, held(Cause::Cliff));
        assert!(
            near(waits, [-0.35, -0.35, 0.0]),
            "{dark}: it goes on back by itself, whatever the field wants"
        );
        let (turns, _) = rig.ask([0.1, 0.1, 0.2], ARMED, FREE);
        assert!(near(turns, [0.35, 0.35, side]), "{dark}: {turns:?}");
        let (faster, _) = rig.ask([0.6, 0.5, 0.2], ARMED, FREE);
        assert!(near(faster, [0.6, 0.5, side]), "{dark}: {faster:?}");
        rig.slot += 400;
        assert!(near(rig.ask([0.1, 0.1, 0.2], ARMED, FREE).0, [0.1, 0.1, 0.2]), "{dark}: its time is over");
    }
}

#[test]
fn after_a_turn_that_ended_before_something_it_backs_further_and_turns_to_the_other_side() {
    let mut rig = Rig::new(0.0);
    rig.armed();
    rig.drive(400, [0.5, 0.5, 0.0], CONFIRMED); // a metre
    rig.darken("ground-left", true);
    rig.ask(BACK, ARMED, held(Cause::Cliff));
    rig.darken("ground-left", false);
    let wish = [0.1, 0.1, 0.2];
    for (failed, side) in [(0, 1.0), (1, -1.0), (2, 1.0)] {
        let asked = 0.1 * f64::from(failed);
        let way = |rig: &Rig| rig.trail.counters().expect("it counts").metres;
        let began = way(&rig);
        let mut request = rig.ask(wish, ARMED, FREE).0;
        while request[0] < 0.0 {
            rig.drive(1, request, CONFIRMED);
            request = rig.ask(wish, ARMED, FREE).0;
        }
        let backed = way(&rig) - began;
        assert!((asked..asked + 0.01).contains(&backed), "turn {failed}: it backed {backed} m");
        assert!(near(request, [0.35, 0.35, side]), "turn {failed}: {request:?}");
        rig.drive(30, request, CONFIRMED);
        rig.ask(wish, ARMED, held(Cause::Obstacle)); // the turn ends before something
    }
}

#[test]
fn a_board_without_backing_and_an_answer_that_is_no_number_pass_unchanged() {
    let mut rig = Rig::new(0.0);
    rig.armed();
    assert!(rig.ask([f32::NAN, -1.0, 0.5], ARMED, FREE).0[LEFT].is_nan());
    rig.board.backing = None;
    rig.trail = Trail::new(&rig.board);
    rig.drive(10, [-1.0, -1.0, 0.0], CONFIRMED);
    assert!(near(rig.ask(BACK, ARMED, held(Cause::Cliff)).0, BACK));
    assert_eq!(rig.ask(BACK, ARMED, FREE).1, Limits::FREE);
    assert_eq!(rig.trail.counters(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_the_field_wants_the_robot_goes_back_no_further_than_it_came(
        wishes in prop::collection::vec((-1.0_f32..1.0, -1.0_f32..1.0, 1_u64..120, 0_u8..4), 1..40),
    ) {
        let mut rig = Rig::new(0.1);
        rig.armed();
        let (mut stands, mut motion) = (0.1_f64, Odometer::new(Motion::of(&rig.board).expect("it states it")));
        for (drive, steering, slots, what) in wishes {
            for _ in 0..slots {
                let verdict = match what {
                    0 => held(Cause::Cliff),
                    1 => held(Cause::Obstacle),
                    _ => FREE,
                };
                let ([left, right, steer], limits) = rig.ask([drive, drive, steering], ARMED, verdict);
                prop_assert!(left.abs() <= 1.0 && right.abs() <= 1.0 && steer.abs() <= 1.0);
                let given = [left, right].map(|wish| wish.clamp(-limits.backward, limits.forward));
                let command = [given[0], given[1], steer];
                rig.drive(1, command, CONFIRMED);
                let mut motors = [0.0; MAX_MOTORS];
                motors[..3].copy_from_slice(&command);
                stands += motion.advance(at(10 * rig.slot), &motors);
                // It stops within its last centimetre.
                prop_assert!(stands > -0.005, "{stands} m");
                prop_assert!(rig.trail.backing.as_ref().is_some_and(|own| own.steering == STEERING));
            }
        }
    }
}
