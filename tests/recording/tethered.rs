//! A robot on a tether: its recording includes the link's events, so its run can be replayed as well.

use super::*;
use crate::tether::script::{Fate, Script};
use crate::tether::{SPIN, TRIP, cable, tether, tethered};
use ganglion::base::plan::Cause;
use ganglion::field::remote::message::CycleRequest;

/// A recorded run of this many seconds in virtual time, with a brain that follows `fate`.
fn recorded_on(
    board: &Board,
    fate: impl FnMut(&CycleRequest) -> Fate + Send + 'static,
    seconds: u64,
) -> Vec<Step> {
    let files = Files::default();
    let (recording, sender) =
        Recording::start(plan(board, When::Always, files.opener()), true).expect("a thread");
    let clock = Arc::new(SimClock::new());
    let options = Options {
        tether: Some(tether(Script::new(clock.clone(), fate))),
        recording: Some(sender),
        ..Options::default()
    };
    let first = Instant::ZERO + board.period;
    let robot = Robot::build(board, clock.clone(), first, options).expect("it can be built");
    let until = first + Span::from_millis(1_000 * seconds);
    runner::step(robot, &clock, until, &AtomicBool::new(false), |_| ());
    assert_eq!(recording.end(LONG).lost(), 0);
    files.steps()
}

#[test]
fn a_tethered_run_is_decided_again_from_each_checkpoint() {
    let board = tethered();
    // The cable is pulled for a quarter of a second every 700 ms, and later one request in seven is lost.
    let fate = |request: &CycleRequest| match (request.cycle, request.cycle % 7) {
        (..=400, _) => cable(request),
        (_, 0) => Fate::Lost,
        _ => Fate::Answer(TRIP, SPIN.to_vec()),
    };
    let steps = recorded_on(&board, fate, 16);
    let lost = steps.iter().filter(|step| step.slot.tripped & Cause::LinkLost.bit() != 0).count();
    assert!(lost >= 8, "the link was lost {lost} times");
    assert!(steps.iter().any(|step| step.slot.motors[0].abs() > 0.1), "it drives");
    let places = steps.iter().enumerate().filter(|(_, step)| step.checkpoint.is_some());
    let mut begun = 0;
    for (place, _) in places {
        let failure = replaying(&board, &steps[place..]).find(|replayed| *replayed != Replayed::Equal);
        assert_eq!(failure, None, "from slot {place}");
        begun += 1;
    }
    assert!(begun >= 3, "{begun} starts");
}

#[test]
fn another_silence_of_the_link_is_found() {
    let board = tethered();
    let mut steps = recorded_on(&board, cable, 6);
    let place =
        steps.iter().position(|step| step.slot.tripped & Cause::LinkLost.bit() != 0).expect("it was lost");
    let silence = &mut steps[place].slot.signals.link_silence;
    assert!(silence.is_some());
    *silence = Some(Span::ZERO);
    let failure = replaying(&board, &steps).find(|replayed| *replayed != Replayed::Equal);
    assert!(
        matches!(&failure, Some(Replayed::Differs(found)) if found.index == steps[place].slot.index),
        "{failure:?}"
    );
}
