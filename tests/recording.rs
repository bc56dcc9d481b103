//! The black box: what a run recorded is decided again to the bit, whatever broke in it; what differs is
//! named; a disk that is full, hangs or loses its thread costs records and no slot.

use ganglion::base::plan::Board;
use ganglion::base::time::{Instant, SimClock, Span};
use ganglion::deploy::board;
use ganglion::drive::record::{
    Event, Facts, Medium, Opener, Place, Plan, Quota, Reader, Recording, RecordingStatus, Slot, When,
};
use ganglion::runtime::replay::{Missing, Replay, Replayed};
use ganglion::runtime::robot::{Options, Robot};
use ganglion::runtime::runner;
use ganglion::sim::Fault;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

mod disks; // disks that are full, hang or panic

/// How long a test waits for the end of a recording: for ever, next to what it takes.
const LONG: Duration = Duration::from_secs(60);

fn sim_board() -> Board {
    board::built_in("sim").expect("the sim board is built in").expect("and sound").board
}

/// Files in memory, in the order in which they were begun.
#[derive(Clone, Default)]
struct Files(Arc<Mutex<Vec<Vec<u8>>>>);

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
    fn opener(&self) -> Opener {
        let files = self.clone();
        Box::new(move |_| {
            let mut all = files.0.lock().unwrap();
            all.push(Vec::new());
            Ok(Box::new(InMemory(files.clone(), all.len() - 1)))
        })
    }

    /// Every slot of the files, in order.
    fn slots(&self) -> Vec<Slot> {
        self.0.lock().unwrap().iter().flat_map(|bytes| slots_in(bytes)).collect()
    }
}

fn slots_in(bytes: &[u8]) -> Vec<Slot> {
    let mut reader = Reader::new(bytes);
    let mut slots = Vec::new();
    while let Some(event) = reader.next_event().expect("it was written in order") {
        if let Event::Slot(slot) = event {
            slots.push(*slot);
        }
    }
    slots
}

fn plan(board: &Board, when: When, open: Opener) -> Plan {
    let place = Place::File("run.mcap".into());
    Plan {
        place,
        when,
        quota: Quota::default(),
        facts: Facts::of(board, String::new(), BTreeMap::new()),
        open,
    }
}

/// A run in virtual time with this recording; the slots that ran, and what came of the recording.
fn record(
    board: &Board,
    plan: Plan,
    patient: bool,
    seed: u64,
    faults: &[&str],
    seconds: u64,
) -> (u64, RecordingStatus) {
    let (recording, sender) = Recording::start(plan, patient).expect("a thread");
    let faults = faults.iter().map(|text| Fault::parse(text).expect("a fault of the script")).collect();
    let options = Options { seed, faults, recording: Some(sender), ..Options::default() };
    let (clock, first) = (Arc::new(SimClock::new()), Instant::ZERO + board.period);
    let robot = Robot::build(board, clock.clone(), first, options).expect("it can be built");
    let until = first + Span::from_millis(1000 * seconds);
    let ending = runner::step(robot, &clock, until, &AtomicBool::new(false), |_| ());
    (ending.recorder.summary().slots_run, recording.end(LONG))
}

fn recorded(seed: u64, faults: &[&str], seconds: u64) -> Vec<Slot> {
    let (board, files) = (sim_board(), Files::default());
    let (run, status) =
        record(&board, plan(&board, When::Always, files.opener()), true, seed, faults, seconds);
    let slots = files.slots();
    assert_eq!((slots.len() as u64, status.slots, status.lost()), (run, run, 0), "every slot is there");
    slots
}

/// The first slot that is not decided as recorded.
fn first_failure(slots: &[Slot]) -> Option<Replayed> {
    let mut replay = Replay::new(&sim_board(), None).expect("a replay");
    let lost = |place: usize| slots.get(place + 1).map_or(0, |next| next.lost);
    let mut all = slots.iter().enumerate().map(|(place, slot)| replay.slot(slot, lost(place)));
    all.find(|replayed| *replayed != Replayed::Equal)
}

#[test]
fn ten_clean_runs_are_decided_again_to_the_bit() {
    for seed in 1..=10 {
        let slots = recorded(seed, &[], 12);
        assert_eq!(first_failure(&slots), None, "seed {seed}");
        assert!(slots.iter().any(|slot| slot.motors[0].abs() > 0.1), "seed {seed}: it drives");
    }
}

#[test]
fn ten_runs_with_faults_are_decided_again_to_the_bit() {
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
        let slots = recorded(seed as u64 + 1, faults, 12);
        assert_eq!(first_failure(&slots), None, "{faults:?}");
        causes |= slots.iter().fold(0, |causes, slot| causes | slot.tripped);
    }
    assert!(causes.count_ones() >= 5, "the faults were felt: {causes:#x}");
}

#[test]
fn a_value_that_was_changed_is_found_and_named() {
    let slots = recorded(1, &[], 6);
    let place = 400;
    let changed = |change: &dyn Fn(&mut Slot)| {
        let mut slots = slots.clone();
        change(&mut slots[place]);
        match first_failure(&slots) {
            Some(Replayed::Differs(difference)) => (difference.index, difference.what),
            other => panic!("{other:?}"),
        }
    };
    let index = slots[place].index;
    let flip = |value: &mut f32| *value = f32::from_bits(value.to_bits() ^ 1);
    assert_eq!(changed(&|slot| flip(&mut slot.motors[0])), (index, "the command for motor 'left'".into()));
    assert_eq!(changed(&|slot| slot.motors[2] = -slot.motors[2]).0, index, "a sign");
    assert_eq!(changed(&|slot| slot.active ^= 8), (index, "the active causes".into()));
    let name = sim_board().sensors[0].name.clone();
    assert_eq!(changed(&|slot| flip(&mut slot.frame[0].value)), (index, format!("sensor '{name}'")));
    let cheaper = |slot: &mut Slot| slot.rung = slot.rung.cheaper();
    assert_eq!(changed(&cheaper), (index, "the level of quality".into()));
    // An input that was changed shows in what was decided from it, in its slot or later.
    let reads = |slot: &&Slot| !slot.readings.is_empty();
    let with_readings = slots[place..].iter().find(reads).expect("sensors are read").index;
    let mut other = slots.clone();
    let reading = &mut other[with_readings as usize].readings[0];
    reading.value = reading.value.map(|value| value + 0.25);
    assert!(matches!(first_failure(&other), Some(Replayed::Differs(found)) if found.index == with_readings));
}

#[test]
fn what_is_missing_is_named_and_not_guessed() {
    let slots = recorded(2, &[], 3);
    let mut gap = slots.clone();
    gap.drain(100..103);
    assert_eq!(first_failure(&gap), Some(Replayed::Missing(Missing::Slots { after: 99, count: 3 })));
    assert_eq!(first_failure(&slots[5..]), Some(Replayed::Missing(Missing::Begin { index: 5 })));
    let mut untold = slots.clone();
    untold[50].untold = 2;
    assert_eq!(first_failure(&untold), Some(Replayed::Missing(Missing::Readings { index: 50, count: 2 })));
    let mut strange = slots;
    let reading = ganglion::base::frame::Reading { channel: 63, value: Ok(0.0), stamp: Instant::ZERO };
    strange[60].readings.push(reading);
    assert!(matches!(first_failure(&strange), Some(Replayed::Missing(Missing::Misfit { index: 60, .. }))));
}
