//! Recording as a service: only around the times when the robot is armed, in files of limited size.

use super::*;
use ganglion::base::plan::SafetyPlan;

/// Slots at which a person arms and disarms. The first two periods are far apart, the last two are not.
const ARMED: [std::ops::Range<u64>; 3] = [1_700..3_000, 6_000..7_600, 7_900..8_800];

#[test]
fn armed_times_in_several_files_are_decided_again() {
    let mut board = sim_board();
    board.safety = SafetyPlan { auto_arm: false, ..board.safety };
    let files = Files::default();
    let quota = Quota { file: 150_000, ..Quota::default() };
    let when = When::Armed { before: Span::from_millis(2_000) };
    let folder = Folder::new("recordings-service");
    let plan = Plan { quota, when, ..in_folder(&folder, &board, files.opener()) };
    let (recording, sender) = Recording::start(plan, true).expect("a thread");
    let options = Options { seed: 1, recording: Some(sender), ..Options::default() };
    let (clock, first) = (Arc::new(SimClock::new()), Instant::ZERO + board.period);
    let robot = Robot::build(&board, clock.clone(), first, options).expect("it can be built");
    let (requests, mut slots) = (robot.requests.clone(), 0);
    let until = first + Span::from_millis(100_000);
    runner::step(robot, &clock, until, &AtomicBool::new(false), |_| {
        slots += 1;
        requests.arm.store(ARMED.iter().any(|armed| armed.start == slots), Ordering::Relaxed);
        requests.disarm.store(ARMED.iter().any(|armed| armed.end == slots), Ordering::Relaxed);
    });
    let status = recording.end(LONG);
    let parts: Vec<Vec<Step>> = files.0.lock().unwrap().iter().map(|bytes| steps_in(bytes)).collect();
    let steps: Vec<Step> = parts.iter().flatten().cloned().collect();
    assert!(parts.len() > ARMED.len(), "{} files: a period of driving fills more than one", parts.len());
    assert_eq!((status.slots, status.lost(), status.checkpoints_left_out), (steps.len() as u64, 0, 0));
    let armed = |step: &Step| step.slot.mode.obeys_since().is_some();
    let began = steps.windows(2).filter(|pair| !armed(&pair[0]) && armed(&pair[1])).count();
    assert_eq!(began, ARMED.len(), "it was armed as often as it was asked to be");
    // All files in order: every recorded slot replays, and the gaps between them are counted.
    let mut replay = Replay::new(&board, None).unwrap();
    for (step, next) in steps.iter().zip(steps[1..].iter().chain([&steps[0]])) {
        assert_eq!(replay.step(step, next.slot.lost), Replayed::Equal, "slot {}", step.slot.index);
    }
    let between: u64 = steps.windows(2).map(|pair| pair[1].slot.index - pair[0].slot.index - 1).sum();
    assert!(between > 2_000, "{between} slots are not recorded between the armed times");
    assert_eq!(replay.gaps(), between);
    // Each file also replays on its own, unless it continues the one before.
    for part in parts.iter().filter(|part| part[0].checkpoint.is_some()) {
        let failure = replaying(&board, part).find(|replayed| *replayed != Replayed::Equal);
        assert_eq!(failure, None, "the file from slot {}", part[0].slot.index);
    }
}
