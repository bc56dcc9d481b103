//! How the backtrack stage changes requests: on the `sim` board, without a tick.

use super::*;
use crate::base::command::Command;
use crate::base::frame::{Health, Sample};
use crate::base::plan::Limits;
use crate::base::plan::{Restraint, Trip};
use crate::base::time::Span;
use crate::decision::fixture::{FREE, at, ms};
use proptest::prelude::*;

const ARMED: Mode = Mode::Armed { since: Instant::ZERO };
const LEFT: usize = 0;
const STEERING: usize = 2;

fn desk() -> Board {
    crate::deploy::board::built_in("sim").expect("it is built in").expect("and sound").board
}

/// Test rig: runs the backtrack stage with one command per slot.
struct Rig {
    board: Board,
    backtrack: Backtrack,
    slot: u64,
    shown: Frame,
}

impl Rig {
    fn new(start_m: f32) -> Rig {
        Rig::of(&desk(), start_m)
    }

    fn of(board: &Board, start_m: f32) -> Rig {
        let mut board = board.clone();
        board.backing = board.backing.map(|backing| BackingPlan { start_m, ..backing });
        let mut shown = Frame::empty(board.sensors.len());
        for sample in &mut shown.samples {
            *sample = Sample { value: 1400.0, worst: 1400.0, stamp: at(0), health: Health::Good };
        }
        Rig { backtrack: Backtrack::new(&board), board, slot: 0, shown }
    }

    /// Gives the motors `command` for this many slots.
    fn drive(&mut self, slots: u64, command: [f32; 3], unconfirmed: Option<Span>) {
        for _ in 0..slots {
            self.slot += 1;
            let (slot, until) = (at(10 * (self.slot - 1)), at(10 * self.slot));
            let valid_until = slot + self.board.safety.command_valid;
            let mut given = Command { slot, valid_until, ..Command::still(self.board.motors.len()) };
            given.motors[..3].copy_from_slice(&command);
            let executed = Executed { command: given, until, unconfirmed, travel: 0.0 };
            self.backtrack.restrain(&executed, &mut { FREE });
        }
    }

    /// The request and the limits that the stage computes from `wanted` and `verdict`.
    fn ask(&mut self, wanted: [f32; 3], mode: Mode, verdict: Verdict) -> ([f32; 3], Limits) {
        let mut verdict = verdict;
        self.backtrack.backing.iter().for_each(|backing| backing.limit(&mut verdict));
        let mut motors = [0.0; MAX_MOTORS];
        motors[..3].copy_from_slice(&wanted);
        let scores = [0.0; MAX_MOTORS];
        let response = FieldOutput { cycle: 0, scores, motors, confidence: 0.0, skill: 0.0, novelty: 0.0 };
        let slot = at(10 * self.slot);
        let guided = self.backtrack.guide(Some((&response, slot)), mode, &verdict, &self.shown, slot);
        let (guided, _) = guided.expect("there is an answer");
        ([0, 1, 2].map(|motor| guided.motors[motor]), verdict.limits)
    }

    fn armed(&mut self) {
        self.ask([0.0; 3], ARMED, FREE);
    }

    fn show(&mut self, sensor: &str, value: f32) {
        let channel = self.board.sensors.iter().position(|plan| plan.name == sensor).expect("a sensor");
        self.shown.samples[channel].value = value;
    }

    fn darken(&mut self, sensor: &str, dark: bool) {
        self.show(sensor, if dark { 100.0 } else { 1400.0 });
    }
}

const CONFIRMED: Option<Span> = Some(ms(5));
const BACK: [f32; 3] = [-0.5, -0.5, 0.9];

/// A verdict that forbids driving forwards, for this cause.
fn held(cause: Cause) -> Verdict {
    Verdict { limits: Restraint::NoForward.limits(), active: cause.bit(), ..FREE }
}

fn near(a: [f32; 3], b: [f32; 3]) -> bool {
    a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6)
}

#[test]
fn reverse_request_gets_the_paths_steering_and_keeps_its_drive() {
    let mut rig = Rig::new(0.0);
    rig.armed();
    rig.drive(50, [0.5, 0.5, -0.3], CONFIRMED);
    rig.drive(50, [0.5, 0.5, 0.4], CONFIRMED);
    let back = rig.ask(BACK, ARMED, FREE).0;
    assert!((back[STEERING] - 0.4).abs() < 0.01 && (back[LEFT] + 0.5).abs() < 0.02, "{back:?}");
    rig.drive(80, [-0.5, -0.5, 0.4], CONFIRMED);
    let back = rig.ask(BACK, ARMED, FREE).0;
    assert!(back[STEERING] < -0.2, "{back:?}");
    assert!(back[LEFT] > -0.4, "it waits for its wheels: {back:?}");
    assert!(near(rig.ask([0.3, 0.3, 0.9], ARMED, FREE).0, [0.3, 0.3, 0.9]), "forward requests are unchanged");
    let counters = rig.backtrack.counters().expect("it counts");
    assert_eq!((counters.times, counters.turns), (1, 0));
    assert!((0.15..0.2).contains(&counters.metres), "{counters:?}");
}

/// A servo takes time, so at a cusp of the path the wheels are not yet steered as they were. In a pocket
/// between obstacles, cusp after cusp, the heading errors added up until the car backed into a wall.
#[test]
fn robot_returns_to_its_start_over_the_cusps_of_its_path() {
    let mut rig = Rig::new(0.0);
    rig.armed();
    let mut wheels = 0.0_f32;
    // Slews the steering as the arbiter does: by 2.5 times full lock per second.
    let mut go = |rig: &mut Rig, [left, right, steering]: [f32; 3]| {
        wheels += (steering - wheels).clamp(-0.025, 0.025);
        rig.drive(1, [left, right, wheels], CONFIRMED);
    };
    let pose = |rig: &Rig| rig.backtrack.backing.as_ref().expect("it backs").odometer.pose();
    let mut left_at = Vec::new();
    for lock in [0.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0] {
        (0..100).for_each(|_| go(&mut rig, [0.4, 0.4, lock]));
        left_at.push((rig.backtrack.backing.as_ref().expect("it backs").path.length(), pose(&rig)));
        let back_to = left_at[0].0 - 0.02 * left_at.len() as f64;
        while rig.backtrack.backing.as_ref().is_some_and(|own| own.path.length() > back_to) {
            let back = rig.ask([-0.4, -0.4, 0.0], ARMED, FREE).0;
            go(&mut rig, back);
        }
    }
    // The first stretch was straight along x.
    let OdometryPose { at, heading } = pose(&rig);
    assert!(at[1].abs() < 0.01 && heading.abs() < 0.05, "{at:?} {heading}");
    assert!((0.03..0.08).contains(&at[0]), "{at:?}");
}

#[test]
fn reverse_needs_a_path_of_confirmed_commands() {
    let mut rig = Rig::new(0.0);
    rig.armed();
    assert!(rig.ask(BACK, ARMED, FREE).1.backward.abs() < 1e-6);
    rig.drive(100, [0.5, 0.5, 0.0], Some(ms(30)));
    rig.drive(100, [0.5, 0.5, 0.0], None);
    assert!(rig.ask(BACK, ARMED, FREE).1.backward.abs() < 1e-6, "no command was confirmed in time");
    rig.drive(100, [0.5, 0.5, 0.0], CONFIRMED);
    assert_eq!(rig.ask(BACK, ARMED, FREE).1, Limits::FREE);
    rig.drive(100, [-0.5, -0.5, 0.0], CONFIRMED);
    assert!(rig.ask(BACK, ARMED, FREE).1.backward.abs() < 1e-6, "the path is used up");
    // At an edge no motion is left at all, so the robot is disarmed in the end; where driving forwards is
    // allowed, it turns instead.
    assert!(!rig.ask(BACK, ARMED, held(Cause::Cliff)).1.allow_motion());
    let (request, limits) = rig.ask(BACK, ARMED, FREE);
    assert!(near(request, [0.35, 0.35, 1.0]) && limits.forward > 0.0, "to its first side: {request:?}");
    assert!(rig.backtrack.counters().is_some_and(|counters| counters.without_way >= 3));
}

#[test]
fn arming_trusts_a_short_path_and_disarming_drops_the_rest() {
    let mut rig = Rig::new(0.15);
    rig.armed();
    assert_eq!(
        rig.ask(BACK, ARMED, held(Cause::Cliff)).1,
        held(Cause::Cliff).limits,
        "an edge right at the start"
    );
    rig.drive(100, [0.5, 0.5, 0.0], CONFIRMED);
    rig.ask(BACK, Mode::Disarmed, FREE); // a person may now carry it elsewhere
    rig.drive(20, [0.0; 3], CONFIRMED);
    rig.ask(BACK, Mode::Armed { since: at(10 * rig.slot) }, FREE);
    rig.drive(50, [-0.5, -0.5, 0.0], CONFIRMED); // 0.125 m, minus what it loses while it gains speed
    let again = Mode::Armed { since: at(1_200) };
    assert!(rig.ask(BACK, again, FREE).1.backward > 0.0, "the trusted path is not used up");
}

#[test]
fn it_turns_away_from_the_dark_side_or_to_its_kept_side() {
    let mut rig = Rig::new(0.0);
    rig.armed();
    for (dark, side) in [("ground-left", 1.0), ("ground-right", -1.0), ("ground-middle", -1.0)] {
        rig.drive(800, [0.5, 0.5, 0.0], CONFIRMED); // two metres, away from the last edge
        rig.darken(dark, true);
        rig.ask(BACK, ARMED, held(Cause::Cliff));
        rig.darken(dark, false);
        let (waits, _) = rig.ask([0.1, 0.1, 0.2], ARMED, held(Cause::Cliff));
        assert!(near(waits, [-0.35, -0.35, 0.0]), "{dark}: it keeps backing off, whatever the field wants");
        rig.drive(100, [-0.5, -0.5, 0.0], CONFIRMED); // a quarter of a metre
        let (turns, _) = rig.ask([0.1, 0.1, 0.2], ARMED, FREE);
        assert!(near(turns, [0.35, 0.35, side]), "{dark}: {turns:?}");
        let (faster, _) = rig.ask([0.6, 0.5, 0.2], ARMED, FREE);
        assert!(near(faster, [0.6, 0.5, side]), "{dark}: {faster:?}");
        rig.slot += 400;
        // The rig has not turned, so the edge is still ahead of it.
        rig.backtrack.backing.as_mut().expect("it backs").beside.forget();
        let steering = if side > 0.0 { 0.2 } else { 0.0 }; // not back to the edge
        let over = rig.ask([0.1, 0.1, 0.2], ARMED, FREE).0;
        assert!(near(over, [0.1, 0.1, steering]), "{dark}: the turn's time is over: {over:?}");
    }
}

#[test]
fn an_obstacle_beside_it_makes_it_back_off_and_turn_away() {
    let board = desk();
    let ahead = [0.3, 0.3, 0.0];
    for (sensor, side) in [("corner-left", 1.0), ("corner-right", -1.0)] {
        let mut rig = Rig::of(&board, 0.15);
        rig.armed();
        rig.show(sensor, 0.09); // not yet far enough for the rule to clear
        let (backs, _) = rig.ask(ahead, ARMED, held(Cause::Obstacle));
        assert!(near(backs, [-0.35, -0.35, 0.0]), "{sensor}: {backs:?}");
        rig.show(sensor, 1.2);
        let (turns, _) = rig.ask(ahead, ARMED, FREE);
        assert!(near(turns, [0.35, 0.35, side]), "{sensor}: {turns:?}");
    }
    let mut rig = Rig::of(&board, 0.15);
    rig.armed();
    let (waits, _) = rig.ask(ahead, ARMED, held(Cause::Obstacle));
    assert!(near(waits, ahead), "nothing is beside it; the arbiter stops it: {waits:?}");
}

/// Whatever its limit: what counts as near ahead must be ahead.
#[test]
fn a_ranger_that_looks_to_a_side_is_not_the_sonar() {
    let mut board = desk();
    let channel = |board: &Board, name: &str| board.sensors.iter().position(|plan| plan.name == name);
    let [range, corner] = ["range", "corner-left"].map(|name| channel(&board, name).expect("a sensor"));
    assert_eq!(Sonar::of(&board).map(|sonar| sonar.channel), Some(range));
    for rule in board.reflexes.iter_mut().filter(|rule| rule.channel == corner) {
        (rule.trip, rule.clear) = (Trip::Below(0.8), 0.9);
    }
    assert_eq!(Sonar::of(&board).map(|sonar| sonar.channel), Some(range));
}

/// A frozen sonar, for example, forbids all motion.
#[test]
fn a_robot_that_may_not_move_counts_no_retreats() {
    let mut rig = Rig::new(0.5);
    rig.armed();
    for _ in 0..20 {
        rig.ask(BACK, ARMED, FREE);
        rig.drive(1, [0.0; 3], CONFIRMED);
        rig.ask([0.3, 0.3, 0.0], ARMED, FREE);
    }
    assert_eq!(rig.backtrack.counters().map(|counters| counters.times), Some(0));
    for _ in 0..2 {
        rig.drive(30, [-0.5, -0.5, 0.0], CONFIRMED);
        rig.drive(60, [0.5, 0.5, 0.0], CONFIRMED);
    }
    assert_eq!(rig.backtrack.counters().map(|counters| counters.times), Some(2));
}

/// A car that had backed off from an edge and then from an obstacle turned to the side of the edge, and a
/// wheel went over the edge's corner, which no sensor had seen.
#[test]
fn it_does_not_turn_towards_an_edge_it_has_seen() {
    for seen in [false, true] {
        let mut rig = Rig::new(0.0);
        rig.show("range", 0.1);
        rig.armed();
        rig.drive(400, [0.5, 0.5, 0.0], CONFIRMED); // a metre
        rig.darken("ground-left", seen);
        rig.ask(BACK, ARMED, held(Cause::Obstacle));
        rig.darken("ground-left", false);
        rig.drive(50, [-0.5, -0.5, 0.0], CONFIRMED); // 0.1 m
        rig.backtrack.backing.as_mut().expect("it backs").side = -1.0;
        let turn = rig.ask([0.1, 0.1, 0.0], ARMED, FREE).0;
        assert!(near(turn, [0.35, 0.35, if seen { 1.0 } else { -1.0 }]), "edge seen: {seen}; {turn:?}");
    }
}

#[test]
fn it_does_not_steer_into_what_a_side_ranger_saw() {
    let board = desk();
    let right = [0.3, 0.3, 1.0];
    let mut rig = Rig::of(&board, 0.15);
    rig.armed();
    assert!(near(rig.ask(right, ARMED, FREE).0, right));
    rig.show("corner-right", 0.12); // its rule does not trip
    rig.ask([0.3, 0.3, 0.0], ARMED, FREE);
    rig.show("corner-right", 1.2); // out of its cone, beside the car
    let (steered, _) = rig.ask(right, ARMED, FREE);
    assert!(near([steered[0], steered[1], 0.0], [0.3, 0.3, 0.0]) && steered[2] < 1.0, "{steered:?}");
}

#[test]
fn turn_blocked_by_an_obstacle_backs_further_and_turns_opposite() {
    // At an edge it keeps turning to the same side, away from the edge, until three turns have failed.
    for (cause, sides) in [(Cause::Obstacle, [1.0, -1.0, 1.0, -1.0]), (Cause::Cliff, [1.0, 1.0, 1.0, -1.0])] {
        let mut rig = Rig::new(0.0);
        rig.show("range", 0.1);
        rig.armed();
        rig.drive(400, [0.5, 0.5, 0.0], CONFIRMED); // a metre
        rig.ask(BACK, ARMED, held(cause));
        let wanted = [0.1, 0.1, 0.2];
        for (failed, side) in sides.into_iter().enumerate() {
            let asked = 0.1 * failed.min(2) as f64;
            let way = |rig: &Rig| rig.backtrack.counters().expect("it counts").metres;
            let began = way(&rig);
            let mut request = rig.ask(wanted, ARMED, FREE).0;
            while request[0] <= 0.0 {
                rig.drive(1, request, CONFIRMED);
                request = rig.ask(wanted, ARMED, FREE).0;
            }
            let backed = way(&rig) - began;
            assert!((asked..asked + 0.01).contains(&backed), "{cause:?}, turn {failed}: {backed} m back");
            assert!(near(request, [0.35, 0.35, side]), "{cause:?}, turn {failed}: {request:?}");
            rig.drive(30, request, CONFIRMED);
            rig.ask(wanted, ARMED, held(Cause::Obstacle)); // the turn ends at an obstacle
        }
    }
}

#[test]
fn back_in_the_same_place_it_backs_off_further() {
    // Between two retreats it drives 0.1 m or, far enough to be in another place each time, 1 m.
    for (slots, longer) in [(40, [0.0, 0.0, 0.0, 0.0, 0.15, 0.3]), (400, [0.0; 6])] {
        let mut rig = Rig::new(0.0);
        rig.show("range", 0.1);
        rig.armed();
        rig.drive(400, [0.5, 0.5, 0.0], CONFIRMED); // a metre
        let wanted = [0.1, 0.1, 0.2];
        for (number, longer) in longer.into_iter().enumerate() {
            let way = |rig: &Rig| rig.backtrack.counters().expect("it counts").metres;
            let began = way(&rig);
            let mut request = rig.ask(BACK, ARMED, held(Cause::Obstacle)).0;
            while request[0] <= 0.0 {
                rig.drive(1, request, CONFIRMED);
                request = rig.ask(wanted, ARMED, FREE).0;
            }
            let backed = way(&rig) - began;
            assert!((longer..longer + 0.02).contains(&backed), "{slots} slots, retreat {number}: {backed} m");
            let turns = rig.slot;
            while request[2].abs() == 1.0 {
                rig.drive(1, request, CONFIRMED);
                request = rig.ask(wanted, ARMED, FREE).0;
            }
            assert!(rig.slot - turns > 50, "retreat {number}: its turn took {} slots", rig.slot - turns);
            rig.drive(slots, [0.5, 0.5, 0.0], CONFIRMED);
        }
    }
}

#[test]
fn edge_makes_it_back_and_turn_by_90_degrees() {
    let mut rig = Rig::new(0.0);
    rig.armed();
    rig.drive(100, [0.5, 0.5, 0.0], CONFIRMED);
    let ahead = [0.5, 0.5, 0.0];
    rig.darken("ground-left", true);
    assert!(near(rig.ask(ahead, ARMED, held(Cause::Cliff)).0, [-0.35, -0.35, 0.0]));
    rig.darken("ground-left", false);
    let heading = |rig: &Rig| rig.backtrack.backing.as_ref().expect("it backs").odometer.pose().heading;
    let began = heading(&rig);
    let mut request = rig.ask(ahead, ARMED, FREE).0;
    while request[0] < 0.0 {
        rig.drive(1, request, CONFIRMED); // it backs off until the turn does not sweep over the edge
        request = rig.ask(ahead, ARMED, FREE).0;
    }
    while near(request, [0.5, 0.5, 1.0]) {
        rig.drive(1, request, CONFIRMED);
        request = rig.ask(ahead, ARMED, FREE).0;
    }
    assert!(near(request, ahead), "it follows the field again: {request:?}");
    let turned = began - heading(&rig);
    assert!((f64::from(ALONG_RAD)..1.8).contains(&turned), "by {turned} to the right");

    // At the edge's corner, a left bend would take the front wheel over the edge, inside the sensor's track.
    let way = |rig: &Rig| rig.backtrack.backing.as_ref().expect("it backs").path.length();
    let (back, began) = ([0.5, 0.5, -0.3], way(&rig));
    let right = rig.ask([0.5, 0.5, 0.3], ARMED, FREE).0;
    assert!(near(right, [0.5, 0.5, 0.3]), "steering further away is allowed: {right:?}");
    let mut request = rig.ask(back, ARMED, FREE).0;
    while near(request, ahead) {
        rig.drive(1, request, CONFIRMED);
        request = rig.ask(back, ARMED, FREE).0;
    }
    assert!(near(request, back), "{request:?}");
    let kept = way(&rig) - began;
    assert!((NOT_BACK_M - 0.01..NOT_BACK_M + 0.01).contains(&kept), "straight on for {kept} m");
}

#[test]
fn silent_sonar_stops_the_robot_without_a_turn() {
    let mut rig = Rig::new(0.0);
    rig.armed();
    rig.drive(100, [0.5, 0.5, 0.0], CONFIRMED);
    let ahead = [0.5, 0.5, 0.0];
    // The last echo came from far away; the worst case of a silent sonar trips the reflex.
    rig.show("range", 1.5);
    assert_eq!(rig.ask(ahead, ARMED, held(Cause::Obstacle)).1, Restraint::NoForward.limits());
    assert!(near(rig.ask(ahead, ARMED, FREE).0, ahead), "there was nothing to pass");
    rig.ask(BACK, ARMED, held(Cause::Obstacle));
    assert!(near(rig.ask(ahead, ARMED, FREE).0, ahead), "there was nothing to turn away from");

    rig.show("range", 0.3);
    rig.ask(ahead, ARMED, held(Cause::Obstacle));
    rig.show("range", 1.5);
    assert!(
        near(rig.ask(ahead, ARMED, FREE).0, [0.5, 0.5, 1.0]),
        "it passes an obstacle that an echo showed"
    );
}

#[test]
fn an_unchanging_echo_makes_the_robot_back_off() {
    let ahead = [0.5, 0.5, 0.0];
    let slots_until_stuck = |board: &Board, range| {
        let mut rig = Rig::of(board, 0.0);
        rig.show("range", range);
        rig.armed();
        let mut slots = 0;
        while near(rig.ask(ahead, ARMED, FREE).0, ahead) && slots < 2_000 {
            rig.drive(1, ahead, CONFIRMED);
            slots += 1;
        }
        let stuck = rig.backtrack.counters().map_or(0, |counters| counters.stuck);
        (stuck == 1).then_some(slots)
    };
    // A board that does not state the reach of its sensor, and one whose sensor returns 1.2 m for nothing.
    let mut unstated = desk();
    unstated.sensors.iter_mut().for_each(|sensor| sensor.beam = None);
    let mut short = unstated.clone();
    short.sensors.iter_mut().for_each(|sensor| sensor.valid[1] = 1.2);
    for (board, reach) in [(desk(), 3.5), (unstated, 0.9 * 4.0), (short, 0.9 * 1.2)] {
        for range in [0.6, reach - 0.01] {
            let slots = slots_until_stuck(&board, range).expect("it notices that it is stuck");
            assert!(slots > 900, "after 2.5 m at 0.25 m/s, not {slots} slots");
        }
        assert_eq!(slots_until_stuck(&board, reach + 0.01), None, "nothing is within range");
    }

    let mut rig = Rig::new(0.0);
    rig.show("range", 0.5);
    rig.armed();
    rig.drive(10, [0.5, 0.5, 1.0], CONFIRMED); // it turns right; the obstacle leaves the cone on the left
    rig.ask(ahead, ARMED, FREE);
    rig.drive(5, [0.5, 0.5, 1.0], CONFIRMED);
    rig.show("range", 1.5);
    rig.ask(ahead, ARMED, FREE);
    rig.drive(140, ahead, CONFIRMED); // 0.35 m: its front has nearly reached the obstacle
    let (left, _) = rig.ask([0.5, 0.5, -1.0], ARMED, FREE);
    assert!(left[2] > -0.5, "not over the obstacle that has left the cone: {left:?}");
    assert!(near(rig.ask([0.5, 0.5, 1.0], ARMED, FREE).0, [0.5, 0.5, 1.0]), "the other side is free");
}

/// The path counts as used up when less than the stopping distance is left of it, so a robot that begins to
/// back off there has no path, and one that stands has. Backing off and turning away alternated, faster than
/// the motors gain speed; a car stood like this for seven minutes.
#[test]
fn at_the_end_of_its_path_the_robot_turns_and_does_not_dither() {
    let mut rig = Rig::new(0.0);
    rig.armed();
    rig.drive(20, [0.5, 0.5, 0.0], CONFIRMED);
    let (mut drive, mut driven) = (0.0_f32, 0.0);
    for _ in 0..1_000 {
        let ([wanted, _, steering], limits) = rig.ask(BACK, ARMED, FREE);
        let wanted = wanted.clamp(-limits.backward, limits.forward);
        // As the arbiter does: four percent of full speed per slot, and zero between two directions.
        let next = drive + (wanted - drive).clamp(-0.04, 0.04);
        drive = if next * drive < 0.0 { 0.0 } else { next };
        rig.drive(1, [drive, drive, steering], CONFIRMED);
        driven += rig.backtrack.backing.as_ref().expect("it backs").odometer.speed().abs() * 0.01;
    }
    let counters = rig.backtrack.counters().expect("it counts");
    assert!(driven > 0.5 && counters.turns < 10, "{driven} m in ten seconds: {counters:?}");
}

#[test]
fn without_backing_and_for_nan_the_answer_passes_unchanged() {
    let mut rig = Rig::new(0.0);
    rig.armed();
    assert!(rig.ask([f32::NAN, -1.0, 0.5], ARMED, FREE).0[LEFT].is_nan());
    rig.board.backing = None;
    rig.backtrack = Backtrack::new(&rig.board);
    rig.drive(10, [-1.0, -1.0, 0.0], CONFIRMED);
    assert!(near(rig.ask(BACK, ARMED, held(Cause::Cliff)).0, BACK));
    assert_eq!(rig.ask(BACK, ARMED, FREE).1, Limits::FREE);
    assert_eq!(rig.backtrack.counters(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn robot_never_backs_further_than_it_came(
        stretches in prop::collection::vec((-1.0_f32..1.0, -1.0_f32..1.0, 1_u64..120, 0_u8..4), 1..40),
    ) {
        let mut rig = Rig::new(0.1);
        rig.armed();
        let mut stands = 0.1_f64;
        let mut motion = Odometer::new(MotionModel::of(&rig.board).expect("a motion model"));
        for (drive, steering, slots, what) in stretches {
            for _ in 0..slots {
                let verdict = match what {
                    0 => held(Cause::Cliff),
                    1 => held(Cause::Obstacle),
                    _ => FREE,
                };
                let ([left, right, steer], limits) = rig.ask([drive, drive, steering], ARMED, verdict);
                prop_assert!(left.abs() <= 1.0 && right.abs() <= 1.0 && steer.abs() <= 1.0);
                let given = [left, right].map(|wanted| wanted.clamp(-limits.backward, limits.forward));
                let command = [given[0], given[1], steer];
                rig.drive(1, command, CONFIRMED);
                let mut motors = [0.0; MAX_MOTORS];
                motors[..3].copy_from_slice(&command);
                stands += motion.advance(at(10 * rig.slot), &motors, None);
                // The robot stops within the last centimetre of its path.
                prop_assert!(stands > -0.005, "{stands} m");
                prop_assert!(rig.backtrack.backing.as_ref().is_some_and(|own| own.steering == STEERING));
            }
        }
    }
}
