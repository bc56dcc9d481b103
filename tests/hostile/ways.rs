//! The entry points for bytes from outside: files, and lines and frames from other processes. Each one reads
//! its bytes through the same function as the program does, and checks what that function promises; a broken
//! promise is a panic.
//!
//! Used by the tests next to it and by the fuzzer (`fuzz/`), so it depends on neither. The fuzzer limits the
//! time and memory that an input may cost.

#[path = "ways/em_brain.rs"] // the fuzzer includes this file from another folder
mod em_brain;
#[path = "ways/wire.rs"]
mod wire;

use crate::folder::Folder;
use ganglion::base::command::MAX_MOTORS;
use ganglion::base::frame::MAX_SENSORS;
use ganglion::base::plan::{Board, ComputedSensor, EngineKind, QualityLevel, SensorKind, SensorPlan};
use ganglion::base::time::{Instant, SimClock};
use ganglion::decision::motion::MotionModel;
use ganglion::deploy::board;
use ganglion::drive::record::{
    Event, Facts, Medium, Opener, Plan, Quota, Reader, Recording, RecordingTarget, When,
};
use ganglion::field::readout::{Origin, Readout};
use ganglion::field::shape::READOUT_COLUMNS;
use ganglion::field::snapshot::{Places, Snapshot};
use ganglion::field::state::{Live, State};
use ganglion::field::{FieldInput, Inspect, engine};
use ganglion::memory::map::{MOST_THINGS, Map, Scene, Thing};
use ganglion::memory::{Dim, Store};
use ganglion::runtime::control;
use ganglion::runtime::guard::frame::{Ask, GuardAnswer, GuardStatus, Phase, Reason, Request};
use ganglion::runtime::replay::Replay;
use ganglion::runtime::robot::{Options, Robot};
use ganglion::runtime::runner;
use ganglion::workshop::learn::log::Log;
use std::cell::RefCell;
use std::fmt::Display;
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// One entry point.
pub struct WayIn {
    /// Its name, which is also that of its fuzz target.
    pub name: &'static str,
    /// How a mutated input is made to pass the first check.
    pub form: Form,
    /// Valid inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Reads bytes as the program would; returns whether it accepted them. Panics if a promise is broken.
    pub take: fn(&[u8]) -> bool,
}

/// What a mutation has to repair so that the program reads the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Nothing.
    Plain,
    /// Length and digest of the container (`ganglion::system::codec`).
    Signed,
}

/// All entry points.
pub const WAYS_IN: [WayIn; 13] = [
    WayIn { name: "board", form: Form::Plain, seeds: boards, take: take_board },
    WayIn { name: "log", form: Form::Plain, seeds: logs, take: take_log },
    WayIn { name: "readout", form: Form::Signed, seeds: readouts, take: take_readout },
    WayIn { name: "snapshot", form: Form::Signed, seeds: snapshots, take: take_snapshot },
    WayIn { name: "store", form: Form::Signed, seeds: stores, take: take_store },
    WayIn { name: "recording", form: Form::Plain, seeds: recordings, take: take_recording },
    WayIn { name: "control", form: Form::Plain, seeds: requests, take: take_request },
    WayIn { name: "guard", form: Form::Plain, seeds: frames, take: take_frame },
    WayIn { name: "datagram", form: Form::Plain, seeds: wire::datagrams, take: wire::take_datagram },
    WayIn { name: "join", form: Form::Plain, seeds: wire::joins, take: wire::take_join },
    WayIn { name: "key", form: Form::Plain, seeds: wire::key_files, take: wire::take_key_file },
    WayIn { name: "em_brain", form: Form::Plain, seeds: em_brain::streams, take: em_brain::take_stream },
    WayIn { name: "em_profile", form: Form::Plain, seeds: em_brain::profiles, take: em_brain::take_profile },
];

/// A container with the header of `header` and another payload; length and digest are recomputed (layout:
/// `ganglion::system::codec`).
pub fn signed(header: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut bytes = header[..16].to_vec();
    bytes.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    bytes.extend_from_slice(payload);
    let digest = blake3::hash(&bytes);
    bytes.extend_from_slice(digest.as_bytes());
    bytes
}

/// Where the payload of a container is; `None`: too short to have one.
pub fn payload_of(bytes: &[u8]) -> Option<Range<usize>> {
    let end = bytes.len().checked_sub(32)?;
    (end >= 24).then_some(24..end)
}

/// Checks an error message about refused bytes: of limited length, and without terminal control characters.
fn reported(what: &dyn Display) {
    const MOST: usize = 64 << 10;
    let words = what.to_string();
    assert!(words.len() <= MOST, "a message of {} bytes", words.len());
    let obeyed = words.chars().find(|c| c.is_control() && *c != '\n');
    assert_eq!(obeyed, None, "a control character in {words:?}");
}

fn boards() -> Vec<Vec<u8>> {
    board::BUILT_IN.iter().map(|(_, text)| text.as_bytes().to_vec()).collect()
}

/// An accepted board can be written out, and the text loads as the same board.
fn take_board(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    match board::from_text("robot", text) {
        Ok(loaded) => {
            let effective = loaded.effective().join("\n");
            let again =
                board::from_text("robot", &effective).unwrap_or_else(|error| panic!("{error}\n{effective}"));
            assert_eq!(again.digest, loaded.digest, "{effective}");
            loaded.warnings.iter().for_each(|warning| reported(warning));
            true
        }
        Err(error) => {
            reported(&error);
            false
        }
    }
}

/// A recording of a short run.
fn recordings() -> Vec<Vec<u8>> {
    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);
    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    impl Medium for Memory {
        fn sync(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (board, memory) = (board::built_in("sim").unwrap().unwrap().board, Memory::default());
    let (open, place) = (memory.clone(), RecordingTarget::File("run.mcap".into()));
    let facts = Facts::of(&board, "name = \"sim\"".into(), Default::default());
    let open: Opener = Box::new(move |_| Ok(Box::new(open.clone())));
    let plan = Plan { place, when: When::Always, quota: Quota::default(), facts, open };
    let (recording, sender) = Recording::start(plan, true).unwrap();
    let (clock, first) = (Arc::new(SimClock::new()), Instant::ZERO + board.period);
    let options = Options { recording: Some(sender), ..Options::default() };
    let robot = Robot::build(&board, clock.clone(), first, options).unwrap();
    runner::step(robot, &clock, first + board.period.times(20), &AtomicBool::new(false), |_| ());
    recording.end(std::time::Duration::from_secs(60));
    let bytes = memory.0.lock().unwrap().clone();
    vec![bytes]
}

fn take_recording(bytes: &[u8]) -> bool {
    thread_local! {
        static BOARD: Board = board::built_in("sim").unwrap().unwrap().board;
    }
    let mut replay = BOARD.with(|board| Replay::new(board, None).unwrap());
    let mut reader = Reader::new(bytes);
    loop {
        match reader.next_event() {
            // The replay must reach a decision for every complete step, whatever the step's values.
            Ok(Some(Event::Step(step))) => drop(replay.step(&step, 0)),
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(error) => {
                reported(&error);
                return false;
            }
        }
    }
}

fn logs() -> Vec<Vec<u8>> {
    let row = |cells: &dyn Fn(usize) -> String, last: &str| {
        let cells: Vec<String> = (1..=24).map(cells).collect();
        format!("{},{last}\r\n", cells.join(","))
    };
    let headings = row(&|at| format!("S{at}"), "Class");
    let plain = row(&|at| format!("{}.25", at % 5), "Move-Forward");
    let quoted = row(&|at| format!(" \"{}e-1\" ", at % 7), "Sharp-Right-Turn");
    let defects = row(&|at| ["NaN", "-1", "", "1e30", "inf"][at % 5].to_string(), "Move-Forward");
    let texts = [format!("{headings}{plain}"), format!("\u{feff}{headings}{quoted}{plain}{defects}")];
    texts.map(String::into_bytes).to_vec()
}

fn take_log(bytes: &[u8]) -> bool {
    thread_local!(static BOARD: Board = built_in("scitos-g5"));
    BOARD.with(|board| {
        let path = Path::new("log.csv");
        let both = [None, Some("Class")].map(|label| Log::parse(path, bytes, board, label));
        for log in &both {
            match log {
                Ok(log) => {
                    let bad =
                        (0..log.rows()).flat_map(|row| log.readings(row)).filter(|(_, value)| value.is_err());
                    assert!(bad.count() <= log.defects(), "every bad value counts as a defect");
                }
                Err(fault) => reported(fault),
            }
        }
        both.iter().any(Result::is_ok)
    })
}

fn readouts() -> Vec<Vec<u8>> {
    let board = small();
    let weights = (0..board.motors.len() * READOUT_COLUMNS).map(|at| (at as f32 * 0.1).sin()).collect();
    let readout = Readout::new(&board, weights, Origin::Given).expect("it is valid");
    vec![readout.to_bytes().expect("the file can be written")]
}

fn take_readout(bytes: &[u8]) -> bool {
    let readout = match with_file(bytes, Readout::load) {
        Ok(readout) => readout,
        Err(error) => {
            reported(&error);
            return false;
        }
    };
    assert!(readout.weights().iter().all(|weight| weight.is_finite()));
    BRAIN.with_borrow_mut(|brain| {
        let fits = readout.check(&brain.board);
        if let Err(error) = &fits {
            reported(error);
            return false;
        }
        brain.engine = engine::build(&brain.board.field);
        brain.engine.set_readout(readout.weights());
        brain.goes_on(0);
        true
    })
}

fn snapshots() -> Vec<Vec<u8>> {
    let board = small();
    let mut brain = Brain::new();
    let mut seeds = Vec::new();
    for cycles in [1, 20] {
        (0..cycles).for_each(|_| brain.cycle());
        let mut live = Live::default();
        assert!(brain.engine.save(&mut live), "the CPU engine saves at once");
        let state = State { learned: brain.engine.learned(), live };
        let places = brain.met.clone();
        for snapshot in [Snapshot::new(&board, state.clone()), Snapshot::new(&board, state).with_map(places)]
        {
            seeds.push(with_file(&[], |path| {
                snapshot.save(path).expect("the file can be written");
                std::fs::read(path).expect("it was written")
            }));
        }
    }
    seeds
}

/// The map of a robot that has met its wall once.
fn map_of(board: &Board) -> Map {
    let (channel, by) = (board.sensors.len() as u8 - 1, 0);
    let thing = Thing { name: "wall".into(), channel, by, below: 0.7, ahead_m: 0.17, in_metres: false };
    let motion = MotionModel::of(board).expect("the board says how it moves");
    let mut map = Map::new(motion, vec![thing]).expect("a map");
    let mut scene =
        Scene { slot: Instant::ZERO, motors: [0.5; MAX_MOTORS], turn: None, values: [None; MOST_THINGS] };
    scene.values[0] = Some(0.5);
    map.take(&scene).expect("within reach");
    map
}

/// After an accepted snapshot, the field gives finite answers, the map's places can be compared, and a
/// snapshot of the resulting state is accepted too.
fn take_snapshot(bytes: &[u8]) -> bool {
    let snapshot = match with_file(bytes, Snapshot::load) {
        Ok(snapshot) => snapshot,
        Err(error) => {
            reported(&error);
            return false;
        }
    };
    BRAIN.with_borrow_mut(|brain| {
        if let Err(error) = snapshot.check(&brain.board) {
            reported(&error);
            return false;
        }
        brain.engine = engine::build(&brain.board.field);
        let map = &mut brain.map;
        map.restore(&brain.met).expect("its own places");
        if let Some(places) = snapshot.map()
            && let Err(error) = map.restore(places)
        {
            reported(&error);
            return false;
        }
        if let Ok(likeness) = map.likeness_here(0) {
            assert!((0.0..=1.0).contains(&likeness), "{likeness}");
        }
        let mut places = Places::default();
        map.save(&mut places);
        let state = snapshot.state();
        brain.engine.load(&state.learned).expect("it was checked");
        brain.engine.restore(&state.live).expect("it was checked");
        brain.goes_on(state.live.cycle + 1);
        let mut live = Live::default();
        assert!(brain.engine.save(&mut live));
        let state = State { learned: brain.engine.learned(), live };
        let own = Snapshot::new(&brain.board, state).with_map(places);
        own.check(&brain.board).expect("the state after an accepted snapshot is accepted too");
        true
    })
}

fn stores() -> Vec<Vec<u8>> {
    let dim = Dim::new(64).expect("a length");
    let mut store = Store::new(dim, 5, usize::MAX).expect("a store");
    for row in 0..3 {
        let row: Vec<f32> = (0..64).map(|at| (at as f32 * (row as f32 + 0.7)).sin()).collect();
        store.push(&row).expect("there is space");
    }
    vec![with_file(&[], |path| {
        store.save(path).expect("the file can be written");
        std::fs::read(path).expect("it was written")
    })]
}

/// A search in an accepted store returns cosines.
fn take_store(bytes: &[u8]) -> bool {
    const LIMIT: usize = 8 << 20;
    match with_file(bytes, |path| Store::load(path, LIMIT)) {
        Ok(store) => {
            assert!(store.usage().bytes <= LIMIT);
            let query = vec![1.0; store.dim().get()];
            let mut cosines = vec![0.0; store.len()];
            store.cosines(&query, &mut cosines).expect("it fits");
            assert!(cosines.iter().all(|cosine| cosine.abs() <= 1.001), "{cosines:?}");
            true
        }
        Err(error) => {
            reported(&error);
            false
        }
    }
}

fn requests() -> Vec<Vec<u8>> {
    let lines = [
        r#"{"ask":"arm"}"#,
        r#"{"ask":"disarm"}"#,
        r#"{"ask":"stop"}"#,
        r#"{"ask":"status","near":[1.5,-2e3]}"#,
    ];
    lines.map(|line| line.as_bytes().to_vec()).to_vec()
}

fn take_request(bytes: &[u8]) -> bool {
    let Ok(request) = serde_json::from_slice::<control::Request>(bytes) else { return false };
    assert!(request.near.is_none_or(|near| near.iter().all(|place| place.is_finite())), "{request:?}");
    let line = serde_json::to_vec(&request).expect("a request can be encoded");
    assert_eq!(serde_json::from_slice::<control::Request>(&line).ok(), Some(request));
    true
}

fn frames() -> Vec<Vec<u8>> {
    let asks = [
        Ask::Hello { board: [7; 32], acknowledged: 3 },
        Ask::Permit,
        Ask::Heartbeat { advanced: true },
        Ask::Set { on: true },
        Ask::Bye,
        Ask::Trip { lasting: true },
        Ask::Status,
    ];
    let stamp = Instant::from_nanos(1 << 40);
    let requests = asks.map(|ask| Request { sequence: 5, stamp, ask }.encode().to_vec());
    let status = GuardStatus {
        phase: Phase::Tripped(Reason::ALL[0]),
        line_on: false,
        line_sound: true,
        trips: 2,
        beats: 9,
        stop: 1,
    };
    let answer = GuardAnswer { sequence: 5, refused: None, status }.encode().to_vec();
    requests.into_iter().chain([answer]).collect()
}

/// An accepted frame is one that could have been sent; unused bytes have no effect.
fn take_frame(bytes: &[u8]) -> bool {
    let request = Request::decode(bytes).inspect_err(|error| reported(error)).ok();
    let answer = GuardAnswer::decode(bytes).inspect_err(|error| reported(error)).ok();
    if let Some(request) = &request {
        assert_eq!(Request::decode(&request.encode()).as_ref(), Ok(request));
    }
    if let Some(answer) = &answer {
        assert_eq!(GuardAnswer::decode(&answer.encode()).as_ref(), Ok(answer));
    }
    assert!(!(request.is_some() && answer.is_some()), "a frame is one or the other");
    request.is_some() || answer.is_some()
}

fn built_in(name: &str) -> Board {
    board::built_in(name).expect("a built-in board").expect("and sound").board
}

/// The sim board with the smallest field.
fn small() -> Board {
    let mut board = built_in("sim");
    board.field.shape.grid = 8;
    board.field.shape.bank = 50;
    board.field.shape.patterns = 2;
    board.field.engine = EngineKind::Cpu;
    board.field.threads = 1;
    let kind = SensorKind::Computed(ComputedSensor::Recall { by: 0, below: 0.7, ahead_m: 0.17 });
    let wall = SensorPlan { name: "wall".into(), kind, input: None, ..board.sensors[0].clone() };
    board.sensors.push(wall);
    board
}

/// A field and a map on which an accepted input is tried.
struct Brain {
    board: Board,
    engine: Box<dyn Inspect>,
    cycle: u64,
    map: Map,
    /// The places of the new map. Restoring them takes far less time than making another map.
    met: Places,
}

impl Brain {
    fn new() -> Brain {
        let board = small();
        let engine = engine::build(&board.field);
        let (map, mut met) = (map_of(&board), Places::default());
        map.save(&mut met);
        Brain { board, engine, cycle: 0, map, met }
    }

    fn cycle(&mut self) {
        let sensors = [(self.cycle as f32 * 0.3).sin(); MAX_SENSORS];
        let input =
            FieldInput { cycle: self.cycle, sensors, reward: 0.5, quality: QualityLevel::BEST, place: None };
        self.cycle += 1;
        let response = self.engine.cycle(&input).expect("a cycle of the accepted state");
        assert!(response.motors.iter().all(|motor| motor.is_finite()), "{response:?}");
    }

    /// Runs enough cycles, from number `from` on, for every part of the field to be stepped.
    fn goes_on(&mut self, from: u64) {
        self.cycle = from;
        (0..4).for_each(|_| self.cycle());
    }
}

thread_local!(static BRAIN: RefCell<Brain> = RefCell::new(Brain::new()));

/// Calls `work` with the path of a file that contains `bytes`.
fn with_file<T>(bytes: &[u8], work: impl FnOnce(&Path) -> T) -> T {
    thread_local!(static FOLDER: Folder = Folder::new("hostile"));
    FOLDER.with(|folder| work(folder.write("file", bytes).as_ref()))
}
