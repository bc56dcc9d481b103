//! Recordings: a recorded run replays bit for bit, whatever failed in it, and a difference is reported. A
//! disk that is full or hangs, or a recorder thread that panics, loses records but no slot.

use crate::folder::Folder;
use ganglion::base::plan::{Board, SafetyPlan};
use ganglion::base::time::{Instant, SimClock, Span};
use ganglion::deploy::board;
use ganglion::drive::record::{
    Event, Facts, Medium, Opener, PROCESS_TOPIC, Plan, ProcessMessage, Quota, Reader, Recording,
    RecordingStatus, RecordingTarget, Slot, Step, When,
};
use ganglion::field::shape::CHANNELS;
use ganglion::runtime::replay::{Missing, Replay, Replayed};
use ganglion::runtime::robot::{Options, Robot};
use ganglion::runtime::runner;
use ganglion::sim::Fault;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

mod checkpoints; // replay that begins in the middle of a run
mod command_line; // cut, recover, diff, info as a user calls them
mod field; // the field's answers, computed again
mod disks; // disks that are full or hang, a recorder thread that panics
mod lines; // what a recording costs the tick
mod service; // armed, disarmed, rotated, as in the service
mod tethered; // a robot whose field is computed elsewhere

/// How long a test waits for the end of a recording: far longer than it takes.
const LONG: Duration = Duration::from_secs(60);

pub fn shipped() -> Board {
    board::built_in("sim").expect("the sim board is built in").expect("and sound").board
}

/// The desk robot with the smallest field, which takes a third of the time. The tests of copies of the
/// field, and those that call the program, have the shipped one.
pub fn sim_board() -> Board {
    let mut board = shipped();
    board.field.shape.grid = 8;
    board
}

/// Files in memory, in the order in which they were started.
#[derive(Clone, Default)]
pub struct Files(Arc<Mutex<Vec<Vec<u8>>>>);

struct InMemory(Files, usize);

impl Write for InMemory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.0.lock().unwrap()[self.1].write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Medium for InMemory {
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Files {
    pub fn opener(&self) -> Opener {
        let files = self.clone();
        Box::new(move |_| {
            let mut all = files.0.lock().unwrap();
            all.push(Vec::new());
            Ok(Box::new(InMemory(files.clone(), all.len() - 1)))
        })
    }

    /// Bytes of all files so far.
    fn size(&self) -> usize {
        self.0.lock().unwrap().iter().map(Vec::len).sum()
    }

    /// The copies of the field in the files, in order.
    fn field_copies(&self) -> Vec<Vec<u8>> {
        let copy = |event| if let Event::FieldCopy(copy) = event { Some(copy) } else { None };
        self.0.lock().unwrap().iter().flat_map(|bytes| events_in(bytes).filter_map(copy)).collect()
    }

    /// The content of the first file.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap()[0].clone()
    }

    /// Every slot of the files, in order.
    fn steps(&self) -> Vec<Step> {
        self.0.lock().unwrap().iter().flat_map(|bytes| steps_in(bytes)).collect()
    }
}

fn events_in(bytes: &[u8]) -> impl Iterator<Item = Event> {
    let mut reader = Reader::new(bytes);
    std::iter::from_fn(move || reader.next_event().expect("it was written in order"))
}

fn steps_in(bytes: &[u8]) -> Vec<Step> {
    let step = |event| if let Event::Step(step) = event { Some(*step) } else { None };
    events_in(bytes).filter_map(step).collect()
}

pub fn plan(board: &Board, when: When, open: Opener) -> Plan {
    let place = RecordingTarget::File("run.mcap".into());
    Plan {
        place,
        when,
        quota: Quota::default(),
        facts: Facts::of(board, String::new(), BTreeMap::new()),
        open,
    }
}

/// A plan that records into a folder, so that the recorder thread opens the files.
fn in_folder(folder: &Folder, board: &Board, open: Opener) -> Plan {
    Plan { place: RecordingTarget::Folder(folder.to_path_buf()), ..plan(board, When::Always, open) }
}

/// A run in virtual time with this recording; returns the number of slots that ran, and the status of the
/// recording at its end.
pub fn record(
    board: &Board,
    plan: Plan,
    patient: bool,
    seed: u64,
    faults: &[&str],
    seconds: u64,
) -> (u64, RecordingStatus) {
    let (recording, sender) = Recording::start(plan, patient).expect("a thread");
    let faults = faults.iter().map(|text| Fault::parse(text).expect("a fault of the script")).collect();
    let slots =
        run_recorded(board, Options { seed, faults, recording: Some(sender), ..Options::default() }, seconds);
    (slots, recording.end(LONG))
}

/// A run in virtual time; returns the number of slots that ran.
fn run_recorded(board: &Board, options: Options, seconds: u64) -> u64 {
    run_watched(board, options, seconds, || ())
}

/// The same; calls `watch` after each slot.
fn run_watched(board: &Board, options: Options, seconds: u64, mut watch: impl FnMut()) -> u64 {
    let (clock, first) = (Arc::new(SimClock::new()), Instant::ZERO + board.period);
    let robot = Robot::build(board, clock.clone(), first, options).expect("it can be built");
    let until = first + Span::from_millis(1000 * seconds);
    let ending = runner::step(robot, &clock, until, &AtomicBool::new(false), |_| watch());
    ending.recorder.summary().slots_run
}

fn recorded(seed: u64, faults: &[&str], seconds: u64) -> Vec<Step> {
    let (board, files) = (sim_board(), Files::default());
    let (run, status) =
        record(&board, plan(&board, When::Always, files.opener()), true, seed, faults, seconds);
    let steps = files.steps();
    assert_eq!((steps.len() as u64, status.slots, status.lost()), (run, run, 0), "every slot is there");
    steps
}

/// The status shows the same reading, so that `/proc` is read once a second for both.
#[test]
fn a_recording_takes_a_reading_of_usage_from_its_meter() {
    let (board, files) = (sim_board(), Files::default());
    let (recording, sender) =
        Recording::start(plan(&board, When::Always, files.opener()), true).expect("a thread");
    let read = recording.usage().at(Instant::ZERO);
    run_recorded(&board, Options { recording: Some(sender), ..Options::default() }, 2);
    recording.end(LONG);
    let bytes = files.bytes();
    let mut reader = Reader::new(&bytes[..]);
    let mut usage = Vec::new();
    while let Some(event) = reader.next_event().expect("it was written in order") {
        if let Event::Message { topic, json, .. } = event
            && topic == PROCESS_TOPIC
        {
            let message: ProcessMessage = serde_json::from_slice(&json).expect("a message");
            usage.push(message.usage);
        }
    }
    assert_eq!(usage[0], read, "within a second");
    assert_ne!(usage[1], read, "after a second; by then the robot occupies memory");
}

/// A recording that begins two seconds before the robot is armed; it is armed in slot 1,700.
fn armed_late(seed: u64, faults: &[&str], seconds: u64) -> (Board, Files) {
    let mut board = shipped();
    board.safety = SafetyPlan { auto_arm: false, ..board.safety };
    let files = Files::default();
    let when = When::Armed { before: Span::from_millis(2_000) };
    let (recording, sender) = Recording::start(plan(&board, when, files.opener()), true).expect("a thread");
    let faults = faults.iter().map(|text| Fault::parse(text).expect("a fault of the script")).collect();
    let options = Options { seed, faults, recording: Some(sender), ..Options::default() };
    let (clock, first) = (Arc::new(SimClock::new()), Instant::ZERO + board.period);
    let robot = Robot::build(&board, clock.clone(), first, options).expect("it can be built");
    let (requests, mut slots) = (robot.requests.clone(), 0);
    let cells = size_of::<f32>() * CHANNELS * board.field.shape.cells();
    let until = first + Span::from_millis(1_000 * seconds);
    runner::step(robot, &clock, until, &AtomicBool::new(false), |_| {
        slots += 1;
        requests.arm.store(slots == 1_700, Ordering::Relaxed);
        // Virtual time waits for the writing thread, until the requested copy of the field is written.
        if slots > 1_700 && files.size() < cells {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    recording.end(LONG);
    (board, files)
}

/// The replay's result for each slot, in order.
fn replaying<'a>(board: &Board, steps: &'a [Step]) -> impl Iterator<Item = Replayed> + use<'a> {
    let mut replay = Replay::new(board, None).expect("a replay");
    let lost = |place: usize| steps.get(place + 1).map_or(0, |next| next.slot.lost);
    steps.iter().enumerate().map(move |(place, step)| replay.step(step, lost(place)))
}

/// The replay's result for each slot of a run of the simulated board.
fn replayed(steps: &[Step]) -> Vec<Replayed> {
    replaying(&sim_board(), steps).collect()
}

/// The first slot that does not replay as recorded.
fn first_failure(steps: &[Step]) -> Option<Replayed> {
    replaying(&sim_board(), steps).find(|replayed| *replayed != Replayed::Equal)
}

#[test]
fn ten_clean_runs_replay_bit_for_bit() {
    for seed in 1..=10 {
        let steps = recorded(seed, &[], 12);
        assert_eq!(first_failure(&steps), None, "seed {seed}");
        assert!(steps.iter().any(|step| step.slot.motors[0].abs() > 0.1), "seed {seed}: it drives");
    }
}

#[test]
fn ten_runs_with_faults_replay_bit_for_bit() {
    const FAULTS: [&[&str]; 10] = [
        &["sonar-frozen@4"],
        &["estop@5+1"],
        &["i2c-nack@4+2"],
        &["i2c-stuck@4+2"],
        &["field-panic@4"],
        &["field-slow@3+4"],
        &["battery-low@3"],
        &["sonar-silent@3+3", "field-hang@7+2"],
        &["tilt-over@3+3"],
        &["brown-out@4"],
    ];
    let mut causes = 0;
    for (seed, faults) in FAULTS.iter().enumerate() {
        let steps = recorded(seed as u64 + 1, faults, 12);
        assert_eq!(first_failure(&steps), None, "{faults:?}");
        causes |= steps.iter().fold(0, |causes, step| causes | step.slot.tripped);
    }
    assert!(causes.count_ones() >= 5, "the faults had an effect: {causes:#x}");
}

#[test]
fn a_changed_value_is_found_and_named() {
    let steps = recorded(1, &[], 6);
    let place = 400;
    let changed = |change: &dyn Fn(&mut Slot)| {
        let mut steps = steps.clone();
        change(&mut steps[place].slot);
        match first_failure(&steps) {
            Some(Replayed::Differs(difference)) => (difference.index, difference.what),
            other => panic!("{other:?}"),
        }
    };
    let index = steps[place].slot.index;
    let flip = |value: &mut f32| *value = f32::from_bits(value.to_bits() ^ 1);
    assert_eq!(changed(&|slot| flip(&mut slot.motors[0])), (index, "the command for motor 'left'".into()));
    assert_eq!(changed(&|slot| slot.motors[2] = -slot.motors[2]).0, index, "a sign");
    assert_eq!(changed(&|slot| slot.active ^= 8), (index, "the active causes".into()));
    let name = sim_board().sensors[0].name.clone();
    assert_eq!(changed(&|slot| flip(&mut slot.frame[0].value)), (index, format!("sensor '{name}'")));
    let cheaper = |slot: &mut Slot| slot.quality = slot.quality.cheaper();
    assert_eq!(changed(&cheaper), (index, "the quality level".into()));
    // A changed input is detected in its own slot, by what follows from it.
    let reads = |step: &&Step| !step.slot.readings.is_empty();
    let with_readings = steps[place..].iter().find(reads).expect("sensors are read").slot.index;
    let mut other = steps.clone();
    let reading = &mut other[with_readings as usize].slot.readings[0];
    reading.value = reading.value.map(|value| value + 0.25);
    assert!(matches!(first_failure(&other), Some(Replayed::Differs(found)) if found.index == with_readings));
}

#[test]
fn missing_data_is_named_not_guessed() {
    let steps = recorded(2, &[], 12);
    let mut gap = steps.clone();
    gap.drain(100..103);
    let missing = Replayed::Missing(Missing::Slots { after: 99, count: 3 });
    let found = replayed(&gap);
    assert_eq!(found[99..102], [Replayed::Equal, missing.clone(), missing.clone()]);
    let next = gap.iter().position(|step| step.slot.index > 103 && step.checkpoint.is_some()).unwrap();
    assert_eq!((&found[next - 1], &found[next..]), (&missing, &vec![Replayed::Equal; gap.len() - next][..]));
    assert_eq!(first_failure(&steps[5..]), Some(Replayed::Missing(Missing::Begin { index: 5 })));
    let mut untold = steps.clone();
    untold[50].slot.untold = 2;
    assert_eq!(first_failure(&untold), Some(Replayed::Missing(Missing::Readings { index: 50, count: 2 })));
    let mut strange = steps;
    let reading = ganglion::base::frame::Reading { channel: 63, value: Ok(0.0), stamp: Instant::ZERO };
    strange[60].slot.readings.push(reading);
    assert!(matches!(first_failure(&strange), Some(Replayed::Missing(Missing::Misfit { index: 60, .. }))));
}
