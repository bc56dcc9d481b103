//! Recordings that start in the middle of a run: a run replays bit for bit from each checkpoint, and a
//! checkpoint that differs from the tick's state is detected.

use super::*;

/// Positions of the checkpoints in a recording.
fn checkpoints(steps: &[Step]) -> Vec<usize> {
    steps.iter().enumerate().filter(|(_, step)| step.checkpoint.is_some()).map(|(place, _)| place).collect()
}

#[test]
fn a_run_replays_from_each_of_its_checkpoints() {
    // A checkpoint is written every five seconds: during the first fault and the third, after the second has
    // latched, and after the last one while its reflex still holds.
    let faults = ["sonar-silent@4+2", "estop@9+0.1", "field-slow@14+3", "tilt-over@19.8+0.1"];
    let (mut held, mut begun) = (0, 0);
    for (seed, fault) in faults.into_iter().enumerate() {
        let steps = recorded(seed as u64 + 1, &[fault], 24);
        for place in checkpoints(&steps) {
            assert_eq!(first_failure(&steps[place..]), None, "{fault}, from slot {place}");
            held += u32::from(place > 0 && steps[place].slot.active != 0);
            begun += 1;
        }
    }
    assert!(begun >= 16 && held >= 3, "{begun} starts, {held} with an active reflex");
}

#[test]
fn every_file_of_a_rotation_replays_on_its_own() {
    let (board, files) = (shipped(), Files::default());
    // A file ends at the first checkpoint after this size, or anywhere at twice the size. So the size must
    // exceed a chunk (its 256 kB count only when it is written, compressed to about 100 kB) plus the data
    // between two checkpoints (5 s, also about 100 kB).
    let quota = Quota { file: 250_000, ..Quota::default() };
    let folder = Folder::new("recordings-rotation");
    let plan = Plan { quota, ..in_folder(&folder, &board, files.opener()) };
    let (run, status) = record(&board, plan, true, 3, &["sonar-silent@12+30"], 60);
    let files = files.0.lock().unwrap().clone();
    assert!(files.len() >= 3, "{} files", files.len());
    let parts: Vec<Vec<Step>> = files.iter().map(|bytes| steps_in(bytes)).collect();
    assert_eq!((parts.iter().map(Vec::len).sum::<usize>() as u64, status.lost()), (run, 0));
    for part in &parts {
        assert!(part[0].checkpoint.is_some(), "it begins with a checkpoint");
        let failure = replaying(&board, part).find(|replayed| *replayed != Replayed::Equal);
        assert_eq!(failure, None, "from slot {}", part[0].slot.index);
    }
    assert!(parts[1..].iter().any(|part| part[0].slot.active != 0), "a reflex is active where a file begins");
}

#[test]
fn a_recording_that_starts_at_arming_replays_completely() {
    let (board, files) = armed_late(1, &[], 22);
    assert_eq!(files.0.lock().unwrap().len(), 1, "the drive is in the named file");
    let steps = files.steps();
    let armed = steps.iter().position(|step| step.slot.mode.obeys_since().is_some()).expect("it was armed");
    assert!(steps[0].slot.index > 0 && armed >= 200, "from slot {}, {armed} before", steps[0].slot.index);
    let mut replay = Replay::new(&board, None).unwrap();
    for (step, next) in steps.iter().zip(steps[1..].iter().chain([&steps[0]])) {
        assert_eq!(replay.step(step, next.slot.lost), Replayed::Equal, "slot {}", step.slot.index);
    }
}

#[test]
fn a_changed_checkpoint_is_found_and_its_value_named() {
    let steps = recorded(4, &["sonar-silent@4+2"], 16);
    let places = checkpoints(&steps);
    let (before, place) = (places[1], places[2]);
    let bytes = steps[place].checkpoint.clone().unwrap();
    // Every nineteenth byte: this covers some of every part, in bounded time.
    let (mut tried, mut later) = (0, 0);
    for byte in (0..bytes.len()).step_by(19) {
        let mut other = bytes.clone();
        other[byte] ^= 1;
        let mut changed = steps[before..].to_vec();
        changed[place - before].checkpoint = Some(other);
        // A tick that already has a state finds that the changed checkpoint differs from it.
        match first_failure(&changed) {
            Some(Replayed::Differs(found)) => {
                assert_eq!(found.index, steps[place].slot.index, "byte {byte}");
                assert!(found.what.contains("before it, '"), "byte {byte}: {}", found.what);
            }
            found => panic!("byte {byte}: {found:?}"),
        }
        // A tick that starts from the changed checkpoint usually decides differently, or has another state at
        // the next checkpoint.
        tried += 1;
        later += u32::from(first_failure(&changed[place - before..]).is_some());
    }
    assert!(
        tried >= 30 && 4 * later >= 3 * tried,
        "{later} of {tried} are detected by the decisions that follow from them"
    );
}

#[test]
fn a_checkpoint_of_another_board_is_refused() {
    let mut steps = recorded(1, &[], 7);
    steps.drain(..checkpoints(&steps)[1]);
    let board = board::built_in("picarx-v5").expect("it is built in").expect("and sound").board;
    let found = Replay::new(&board, None).unwrap().step(&steps[0], 0);
    let index = steps[0].slot.index;
    assert!(
        matches!(found, Replayed::Missing(Missing::Checkpoint { index: at, .. }) if at == index)
            || matches!(found, Replayed::Missing(Missing::Misfit { .. })),
        "{found:?}"
    );
}
