//! Random boards under random faults, checked by a judge that knows only the promises: a short campaign, the
//! same every time. The long one is `scripts/campaign`; docs/campaign.md says what is drawn, what is judged
//! and what to do after a failure.

mod cable;
mod chance;
mod course;
mod draw;
mod hunt;
mod judge;
mod pulse;
mod script;
mod sentry;
mod site;
mod tally;
mod tape;
mod temper;

use crate::long::or_in_full;
use course::View;
use hunt::Case;
use judge::promise::{Promise, Watched};
use script::{Ask, Line, Script};
use site::Site;
use tally::Tally;
use tape::What;

use ganglion::base::plan::Board;
use ganglion::base::time::{Instant, Span};
use judge::facts::Facts;
use judge::{Happening, Judge};

/// Number of seeds of the short campaign (the smallest round number with which everything occurs often
/// enough) and of the full one, which takes half a minute on one core.
const SEEDS: (u64, u64) = (60, 180);
/// Every promise and every fault must have occurred this often; otherwise the campaign shows nothing about
/// it.
const LEAST: u64 = 3;

/// The first breach as text, with everything that is needed to reproduce it.
fn reported(found: &hunt::BrokenPromise) -> String {
    let hunt::BrokenPromise { seed, breach, script, trace } = found;
    let script: Vec<String> = script.lines.iter().map(Line::to_string).collect();
    let script = script.join(" ");
    format!(
        "seed {seed}, minute {:.2}: the promise '{}' is broken: {}\nthe shortened script: {script}\n\
         to reproduce: scripts/campaign --seed {seed} --script '{script}'\n{trace}",
        breach.at.as_nanos() as f64 / 60e9,
        breach.promise.name(),
        breach.what
    )
}

#[test]
fn ci_continues_after_the_seeds_of_the_short_campaign() {
    let ci = std::fs::read_to_string(".ci/run").unwrap();
    assert!(ci.contains(&format!("campaign --from {} ", SEEDS.0 + 1)), "seeds are left out or run twice");
}

#[test]
fn no_promise_is_broken_on_random_boards() {
    let mut tally = Tally::default();
    let seeds = or_in_full(SEEDS.0, SEEDS.1);
    for seed in 1..=seeds {
        let case = Case::of_seed(seed);
        let outcome = case.run(&View::default());
        tally.add(&case.script, &outcome);
        if let Some(breach) = outcome.breach {
            panic!("{}", reported(&hunt::shrunk(&case, breach, &View::default())));
        }
    }
    // Visible with `--nocapture`, or if the counts are too low.
    println!("{tally}");
    let seldom = tally.too_seldom(LEAST);
    assert!(seldom.is_empty(), "too seldom to show anything: {seldom:?}\n{tally}");
    let runs = seeds as f64;
    assert!(
        tally.judged_s > 80.0 * runs && tally.distance_m > 1.6 * runs && tally.starts > 16 * seeds,
        "{tally}"
    );
}

#[test]
fn a_seed_reproduces_its_board_script_and_run() {
    for seed in [3, 40] {
        let [a, b] = [(), ()].map(|()| Case::of_seed(seed));
        assert_eq!((&a.site.text, &a.script.lines), (&b.site.text, &b.script.lines));
        let [x, y] = [a, b].map(|case| case.run(&View::default()));
        assert_eq!(x.distance_m.to_bits(), y.distance_m.to_bits());
        assert_eq!((x.starts, x.exercised), (y.starts, y.exercised));
    }
    assert_ne!(Case::of_seed(3).site.text, Case::of_seed(4).site.text);
}

#[test]
fn a_script_reads_back_as_it_was_written() {
    let case = Case::of_seed(5);
    let text: Vec<String> = case.script.lines.iter().map(Line::to_string).collect();
    assert_eq!(Script::parse(&text.join(" ")).unwrap().lines, case.script.lines);
    for text in ["arms@1", "late-tick@x", "sleeps@1+2", "sleep@-1+2", "guard@1+2", "estop:300@1", "arm@-1"] {
        assert!(Script::parse(text).is_err(), "{text}");
    }
}

#[test]
fn promise_names_are_parsed() {
    let all: Vec<&str> = judge::promise::ALL.iter().map(|(_, name, _)| *name).collect();
    assert_eq!(Watched::of_names(&all.join(",")), Ok(Watched::ALL));
    for (place, (promise, name, _)) in judge::promise::ALL.iter().enumerate() {
        assert_eq!((*promise as usize, Promise::of_name(name)), (place, Some(*promise)));
    }
    let but = Watched::ALL.without(Watched::only(Promise::Press));
    assert!(but.has(Promise::End) && !but.has(Promise::Press) && Watched::of_names("presses").is_err());
}

// ---- the judge alone --------------------------------------------------------------------------

const P: u64 = 10;

/// A PiCar-X that waits to be armed.
const PICAR: &str =
    "inherits = \"sim-sonar\"\n[safety]\nauto_arm = false\n[field]\ngrid = 8\npatterns = 1\nbank = 1\n";
/// A guard that the PiCar-X requires.
const GUARD: &str = "[guard]\nholds = \"reset\"\npatience_ms = 50.0\n";

/// The same car with its field computed on a brain computer.
const TETHERED: &str = "inherits = \"sim-sonar\"\n[safety]\nauto_arm = false\n\
    [field]\nengine = \"remote\"\ngrid = 8\npatterns = 1\nbank = 1\n\
    [tether]\naddress = \"10.0.0.2:4747\"\nsilence_ms = 100.0\n";

/// A judge that is told of a healthy start: until 1 s all sensors answer and every slot runs, at 0.9 s a
/// caller arms the robot, and from 1 s on its motors turn.
struct Hearing {
    judge: Judge,
    board: Board,
    now: Instant,
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Span::from_millis(ms)
}

impl Hearing {
    fn new(script: &str) -> Hearing {
        Hearing::on(PICAR, script)
    }

    fn guarded(script: &str) -> Hearing {
        Hearing::on(&format!("{PICAR}{GUARD}"), script)
    }

    fn on(board: &str, script: &str) -> Hearing {
        let site = Site::of_text(board.to_string(), 0.5, None).expect("a sound board");
        let judge = Judge::new(Facts::new(&site, &Script::parse(script).unwrap()), Watched::ALL);
        let mut hearing = Hearing { judge, board: site.board, now: Instant::ZERO };
        hearing.well_until(1_000, &[]);
        hearing.judge.tell(at(900), Happening::Asked(Ask::Arm));
        hearing.drive(1_000, 0.8);
        hearing
    }

    fn drive(&mut self, ms: u64, current: f32) {
        let currents = [current, current].into_iter().collect();
        self.judge.tell(at(ms), Happening::Seen(What::Currents(currents)));
    }

    /// All slots run and all sensors answer until `ms`, except the sensors in `but`.
    fn well_until(&mut self, ms: u64, but: &[&str]) {
        while self.now < at(ms) {
            self.now += Span::from_millis(P);
            self.judge.tell(self.now, Happening::Slot(self.now));
            for (sensor, plan) in self.board.sensors.iter().enumerate() {
                let value = match plan.name.as_str() {
                    name if but.contains(&name) => continue,
                    "range" => 2.0 + self.now.as_nanos() as f32 * 1e-12,
                    name if name.starts_with("ground") => {
                        1400.0 + (self.now.as_nanos() / 10_000_000 % 7) as f32
                    }
                    "battery" => 7.9,
                    "lean" => (self.now.as_nanos() / 10_000_000 % 5) as f32,
                    "button" => 0.0,
                    _ => continue,
                };
                self.judge.tell(self.now, Happening::Seen(What::Heard { sensor, value }));
            }
        }
    }

    fn observe(&mut self, ms: u64, name: &str, value: f32) {
        let sensor =
            self.board.sensors.iter().position(|plan| plan.name == name).expect("a sensor of the board");
        self.judge.tell(at(ms), Happening::Seen(What::Heard { sensor, value }));
    }

    /// The judge's verdict at `ms`.
    fn verdict(&mut self, ms: u64) -> Option<Promise> {
        self.judge.look(at(ms)).map(|breach| breach.promise)
    }
}

#[test]
fn an_armed_healthy_robot_may_drive() {
    let mut hearing = Hearing::new("");
    hearing.well_until(5_000, &[]);
    assert_eq!(hearing.verdict(5_000), None);
}

#[test]
fn motion_before_an_arming_or_after_a_disarm_is_a_breach() {
    let mut early = Hearing::new("");
    early.drive(300, 0.5);
    assert_eq!(early.verdict(1_000), Some(Promise::Unarmed));
    let mut hearing = Hearing::new("");
    hearing.well_until(3_000, &[]);
    hearing.judge.tell(at(2_000), Happening::Asked(Ask::Disarm));
    assert_eq!(hearing.verdict(2_010), None, "the next slot has not obeyed yet");
    assert_eq!(hearing.verdict(2_100), Some(Promise::Disarm));
}

#[test]
fn after_a_suspend_motors_stand_until_a_caller_arms() {
    let mut hearing = Hearing::new("");
    hearing.well_until(3_000, &[]);
    hearing.judge.tell(at(1_990), Happening::Asked(Ask::Arm)); // before the suspend: no permission after it
    hearing.judge.tell(at(2_000), Happening::Woke);
    assert_eq!(hearing.verdict(2_010), None, "the next slot has not seen it yet");
    assert_eq!(hearing.verdict(2_100), Some(Promise::Slept));
    let mut hearing = Hearing::new("");
    hearing.well_until(3_000, &[]);
    hearing.judge.tell(at(2_000), Happening::Woke);
    hearing.drive(2_012, 0.0);
    hearing.judge.tell(at(2_500), Happening::Asked(Ask::Arm));
    hearing.drive(2_520, 0.5);
    assert_eq!(hearing.verdict(3_000), None);
    // If the loop resumes late, the motors may obey its pending command until that expires, but no longer.
    let mut late = Hearing::new("late-tick@2+0.09");
    late.well_until(2_000, &[]);
    late.judge.tell(at(2_000), Happening::Woke);
    assert_eq!(late.verdict(2_030), None);
    assert!(late.verdict(2_089).is_some());
}

#[test]
fn motion_after_guard_loss_or_a_stopped_runtime_is_a_breach() {
    for trouble in ["guard-dies", "guard-hangs"] {
        let mut lost = Hearing::guarded(&format!("{trouble}@2+0.5"));
        lost.well_until(2_600, &[]);
        assert_eq!(lost.verdict(2_050), None, "the guard's timeout has not expired");
        assert_eq!(lost.verdict(2_100), Some(Promise::GuardLost));
        let mut short = Hearing::guarded(&format!("{trouble}@2+0.05"));
        short.well_until(2_600, &[]);
        assert_eq!(short.verdict(2_600), None);
        let mut without = Hearing::new(&format!("{trouble}@2+0.5"));
        without.well_until(2_600, &[]);
        assert_eq!(without.verdict(2_600), None, "this board requires no guard");
    }
    let mut stopped = Hearing::guarded("late-all@2+0.2");
    stopped.well_until(2_000, &[]);
    assert_eq!(stopped.verdict(2_050), None);
    assert_eq!(stopped.verdict(2_060), Some(Promise::GuardTrips));
    let mut both = Hearing::guarded("late-all@2+0.2 guard-hangs@1.99+0.05");
    both.well_until(2_000, &[]);
    assert_eq!(both.verdict(2_060), None, "no running process could stop the motors");
}

#[test]
fn motion_without_answers_of_the_brain_is_a_breach() {
    // The brain answers until 2 s.
    let answered = |board: &str, script: &str| {
        let mut hearing = Hearing::on(board, script);
        (20..=2_000).step_by(20).for_each(|ms| hearing.judge.tell(at(ms), Happening::Answered));
        hearing.well_until(6_000, &[]);
        hearing
    };
    let mut silent = answered(TETHERED, "");
    assert_eq!(silent.verdict(2_100), None, "the brain has not been silent for long enough");
    assert_eq!(silent.verdict(2_150), Some(Promise::LinkLost));
    let mut late = answered(TETHERED, "late-tick@2.05+0.09");
    assert_eq!(late.verdict(2_140), None, "the loop does not run, so it could not stop the motors");
    assert!(late.verdict(2_300).is_some());
    let mut never = Hearing::on(TETHERED, "");
    assert_eq!(never.verdict(1_010), Some(Promise::LinkLost), "the brain has never answered");
    // The brain answers again: the robot drives on, unless the loss latched.
    let again = |latched: &str, acknowledged: bool| {
        let mut hearing = answered(&format!("{TETHERED}{latched}"), "");
        hearing.drive(2_080, 0.0);
        (2_500..4_000).step_by(20).for_each(|ms| hearing.judge.tell(at(ms), Happening::Answered));
        if acknowledged {
            hearing.judge.tell(at(2_700), Happening::Asked(Ask::Disarm));
            hearing.judge.tell(at(2_800), Happening::Asked(Ask::Arm));
        }
        hearing.drive(3_000, 0.5);
        hearing.verdict(3_500)
    };
    assert_eq!(again("", false), None);
    assert_eq!(again("latched = true\n", false), Some(Promise::Latch));
    assert_eq!(again("latched = true\n", true), None);
}

#[test]
fn motion_after_a_safe_stop_is_a_breach_until_a_caller_arms() {
    let asked_at = |mut hearing: Hearing, ms| {
        hearing.well_until(6_000, &[]);
        hearing.judge.tell(at(ms), Happening::SafeStop);
        hearing
    };
    let mut drives = asked_at(Hearing::guarded(""), 2_000);
    assert_eq!(drives.verdict(2_005), Some(Promise::SafeStop), "the line goes off at once");
    let mut again = asked_at(Hearing::guarded(""), 2_000);
    again.drive(2_000, 0.0);
    again.drive(3_000, 0.5);
    assert_eq!((again.verdict(2_999), again.verdict(3_010)), (None, Some(Promise::SafeStop)));
    let mut armed = asked_at(Hearing::guarded(""), 2_000);
    armed.drive(2_000, 0.0);
    armed.judge.tell(at(2_900), Happening::Asked(Ask::Arm));
    armed.drive(3_000, 0.5);
    assert_eq!(armed.verdict(5_000), None);
    // A guard that dies before it can report the stop to the runtime loses it; a hung guard has not received
    // it.
    for script in ["guard-dies@2.001+0.01", "guard-hangs@1.99+0.03"] {
        assert_eq!(asked_at(Hearing::guarded(script), 2_000).verdict(5_000), None, "{script}");
    }
    assert_eq!(asked_at(Hearing::new(""), 2_000).verdict(5_000), None, "no guard to receive the request");
}

#[test]
fn a_press_holds_until_it_is_released_disarmed_and_armed() {
    let mut hearing = Hearing::new("estop@2+0.001");
    hearing.well_until(6_000, &[]);
    for (ms, pressed) in [(2_000, true), (2_001, false)] {
        hearing.judge.tell(at(ms), Happening::Button { pressed });
    }
    hearing.drive(2_004, 0.0);
    hearing.judge.tell(at(3_000), Happening::Asked(Ask::Arm)); // without a disarm
    assert_eq!(hearing.verdict(3_500), None);
    hearing.judge.tell(at(4_000), Happening::Asked(Ask::Disarm));
    hearing.judge.tell(at(4_100), Happening::Asked(Ask::Arm));
    hearing.drive(4_200, 0.5);
    assert_eq!(hearing.verdict(5_000), None);
    let mut hearing = Hearing::new("estop@2+0.001");
    hearing.well_until(6_000, &[]);
    for (ms, pressed) in [(2_000, true), (2_001, false)] {
        hearing.judge.tell(at(ms), Happening::Button { pressed });
    }
    hearing.drive(2_004, 0.0);
    hearing.judge.tell(at(3_000), Happening::Asked(Ask::Arm));
    hearing.drive(3_100, 0.5);
    assert_eq!(hearing.verdict(3_200), Some(Promise::Press));
}

#[test]
fn a_late_loop_sees_a_disarm_after_the_release() {
    let disarmed_at = |script: &str| {
        let mut hearing = Hearing::new(script);
        hearing.well_until(6_000, &[]);
        for (ms, pressed) in [(2_000, true), (2_600, false)] {
            hearing.judge.tell(at(ms), Happening::Button { pressed });
        }
        hearing.drive(2_004, 0.0);
        hearing.judge.tell(at(2_550), Happening::Asked(Ask::Disarm));
        hearing.judge.tell(at(2_800), Happening::Asked(Ask::Arm));
        hearing.drive(2_900, 0.5);
        hearing.verdict(3_000)
    };
    assert_eq!(disarmed_at("estop@2+0.6"), Some(Promise::Press), "disarmed while the button was pressed");
    assert_eq!(disarmed_at("estop@2+0.6 late-all@2.5+0.2"), None);
}

#[test]
fn motion_with_lost_sensors_or_tripped_rules_is_a_breach() {
    let mut stale = Hearing::new("");
    stale.well_until(3_000, &["lean"]);
    assert_eq!(stale.verdict(1_100), None);
    assert_eq!(stale.verdict(3_000), Some(Promise::Required));

    let mut tilt = Hearing::new("");
    tilt.well_until(2_000, &[]);
    tilt.observe(1_501, "lean", 40.0);
    assert_eq!(tilt.verdict(1_510), None);
    assert_eq!(tilt.verdict(1_600), Some(Promise::Rule), "the rule is held for half a second");

    let mut blind = Hearing::new("");
    blind.well_until(1_500, &["range"]); // required, and has a rule: `Required` is checked first
    assert_eq!(blind.verdict(1_500), Some(Promise::Required));

    let mut near = Hearing::new("");
    near.well_until(1_400, &[]);
    near.well_until(1_500, &["range"]);
    near.observe(1_401, "range", 0.1);
    near.drive(1_405, -0.6); // slow enough for the rule that limits the speed below 0.35 m
    near.drive(1_450, 0.6);
    assert_eq!(near.verdict(1_449), None, "backwards is allowed");
    assert_eq!(near.verdict(1_480), Some(Promise::Rule));
}

#[test]
fn expired_commands_dead_buses_and_long_backing_are_breaches() {
    let mut silent = Hearing::new("");
    silent.well_until(1_500, &[]);
    assert_eq!(silent.verdict(1_525), None);
    assert_eq!(silent.verdict(1_600), Some(Promise::CommandValid));

    let mut dead = Hearing::new("i2c-nack@1.5+5");
    dead.well_until(3_000, &[]);
    assert_eq!(dead.verdict(3_000), Some(Promise::BusLost));

    let mut back = Hearing::new("");
    back.well_until(3_000, &[]);
    back.drive(1_100, -0.8);
    assert_eq!(back.verdict(1_700), None);
    assert_eq!(back.verdict(3_000), Some(Promise::Reverse));
}

#[test]
fn motion_after_a_forced_disarm_or_the_end_is_a_breach() {
    let mut hearing = Hearing::new("");
    hearing.drive(1_050, 0.0);
    hearing.well_until(9_000, &["lean"]);
    hearing.well_until(12_000, &[]);
    hearing.drive(9_200, 0.5);
    assert_eq!(hearing.verdict(9_190), None);
    assert_eq!(hearing.verdict(9_300), Some(Promise::DisarmAfter));

    let mut ends = Hearing::new("");
    ends.well_until(1_500, &[]);
    assert_eq!(ends.verdict(1_500), None);
    assert_eq!(ends.judge.end(at(1_520)).map(|breach| breach.promise), Some(Promise::End));
}
