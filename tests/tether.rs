//! A field on a brain computer, seen from the robot: each cycle gets its own answer or none, a pulled cable
//! stops the motors in time, a lost datagram does not, and a standby field takes over without a jump.

use crate::allocation::allocations_in;
use crate::folder::Folder;
use ganglion::base::plan::{Board, Cause, Limits, OnLoss};
use ganglion::base::time::{Clock, Instant, MonotonicClock, SimClock, Span};
use ganglion::deploy::board;
use ganglion::drive::trace::Record;
use ganglion::field::remote::local::{FromRuntime, FromTether, LinkPhase, Text, Unwanted};
use ganglion::field::remote::message::{CycleRequest, Verdict};
use ganglion::field::remote::{Hop, LinkCounters, NoLink, RemoteEngine, SocketHop, Standby, Tether};
use ganglion::field::{self, EngineState, Failure, FieldEngine, FieldInput, FieldOutput};
use ganglion::runtime::robot::{Options, Robot};
use ganglion::runtime::runner::{self, Ending};
use ganglion::sim::rehearsal;
use ganglion::system::seqpacket::{self, Received};
use script::{Fate, Script, answer_to};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub mod script; // a tether and a brain that follow a script, in virtual time

const DIGEST: [u8; 32] = [7; 32];
/// Turns on the spot, so it never hits anything.
pub const SPIN: [f32; 5] = [0.35, -0.35, 0.0, 0.0, 0.0];
pub const TRIP: Span = Span::from_millis(2);

fn ms(ms: u64) -> Span {
    Span::from_millis(ms)
}

fn millis(at: Instant) -> u64 {
    at.as_nanos() / 1_000_000
}

/// The tethered board without its starting table, so that only the brain's answers move the motors.
pub fn tethered() -> Board {
    let loaded = board::built_in("picarx-v4-tethered").expect("a built-in board").expect("and sound");
    let mut board = rehearsal(&loaded.board).expect("it drives in the simulator").board;
    board.field.start.clear();
    board
}

pub fn tether(hop: impl Hop + 'static) -> Tether {
    Tether { hop: Box::new(hop), digest: DIGEST, words: Arc::default() }
}

fn engine(clock: Arc<dyn Clock>, hop: impl Hop + 'static) -> RemoteEngine {
    let (board, Tether { hop, digest, words }) = (tethered(), tether(hop));
    let plan = board.tether.as_ref().expect("it has a tether");
    RemoteEngine::new(&board.field, plan, digest, hop, words, clock)
}

/// An engine in virtual time, a cycle every 20 ms.
struct Rig {
    engine: RemoteEngine,
    clock: Arc<SimClock>,
    cycle: u64,
}

impl Rig {
    fn new(script: impl FnOnce(Arc<SimClock>) -> Script) -> Rig {
        let clock = Arc::new(SimClock::new());
        Rig { engine: engine(clock.clone(), script(clock.clone())), clock, cycle: 0 }
    }

    fn turn(&mut self) -> Result<FieldOutput, Failure> {
        let slot = Instant::ZERO + ms(20).times(self.cycle + 1);
        assert!(self.clock.now() <= slot, "a cycle waited past the start of the next one");
        self.clock.set(slot);
        let answer = self.engine.cycle(&FieldInput { cycle: self.cycle, ..FieldInput::AT_REST });
        self.cycle += 1;
        answer
    }

    fn counters(&self) -> LinkCounters {
        self.engine.condition(self.clock.now()).link.expect("it has a link").counters
    }
}

/// A script that takes the fate of each request from a list, by cycle number, and answers all requests after
/// its end.
fn fated(fates: Vec<Fate>) -> impl FnOnce(Arc<SimClock>) -> Script {
    move |clock| {
        Script::new(clock, move |request| {
            let fate = fates.get(request.cycle as usize).cloned();
            fate.unwrap_or(Fate::Answer(TRIP, SPIN.to_vec()))
        })
    }
}

#[test]
fn each_cycle_gets_its_own_answer_or_none() {
    let wrong = |change: fn(&mut Vec<u8>)| {
        let request = CycleRequest::of(&FieldInput::AT_REST, 3, Instant::ZERO, TRIP);
        let answer = answer_to(&request, &SPIN).encode();
        let message = FromTether::Answer { round_trip: TRIP, answer: &answer }.encode();
        let mut bytes = message.as_bytes().to_vec();
        change(&mut bytes);
        Fate::Raw(bytes)
    };
    let mut rig = Rig::new(fated(vec![
        Fate::Answer(TRIP, SPIN.to_vec()),
        Fate::Lost,
        Fate::Answer(ms(19), SPIN.to_vec()), // not waited for, but read in the next cycle
        Fate::Answer(TRIP, SPIN.to_vec()),
        wrong(|bytes| bytes[9 + 112..9 + 116].copy_from_slice(&f32::NAN.to_le_bytes())),
        wrong(|bytes| bytes.truncate(20)),
        wrong(|bytes| bytes[0] = 99),
        wrong(|_| {}), // an answer to a much older request
        Fate::Without(Verdict::Late),
        Fate::Answer(TRIP, vec![0.1; 2]), // of another robot
    ]));
    let answered: Vec<Option<u64>> = (0..12).map(|_| rig.turn().ok().map(|answer| answer.cycle)).collect();
    assert_eq!(
        answered,
        [Some(0), None, None, Some(3), None, None, None, None, None, None, Some(10), Some(11)]
    );
    let counters = rig.counters();
    assert_eq!((counters.asked, counters.missed, counters.late), (12, 8, 2));
    assert_eq!((counters.refused, counters.unserved, counters.connections), (4, 1, 1));
    let times = rig.engine.condition(rig.clock.now()).link.unwrap().times.unwrap();
    assert_eq!((times.hop, times.network), (Span::ZERO, TRIP), "the scripted brain spends no time computing");
}

#[test]
fn a_dead_tether_is_reconnected_without_waiting() {
    let mut rig = Rig::new(|clock| {
        let fate = |request: &CycleRequest| match request.cycle {
            2 => Fate::Dies,
            _ => Fate::Answer(TRIP, SPIN.to_vec()),
        };
        Script::new(clock, fate).listening(|now| !(80..500).contains(&millis(now)))
    });
    let mut states = Vec::new();
    for cycle in 0..40 {
        let before = Instant::ZERO + ms(20).times(cycle + 1);
        let answered = rig.turn().is_ok();
        let state = rig.engine.condition(rig.clock.now()).state;
        let lost = state == EngineState::NoLink { why: NoLink::NoTether, stood_in: false };
        assert!(answered || rig.clock.now() == before, "without a tether there is nothing to wait for");
        assert_eq!(answered, !lost, "cycle {cycle}: {state}");
        states.push(answered);
    }
    assert_eq!(states.iter().filter(|answered| **answered).count(), 2 + 15, "up at 500 ms, called at 520 ms");
    assert_eq!(rig.counters().connections, 2);
}

#[test]
fn a_tether_that_refuses_service_says_why() {
    struct Unwilling;
    impl Hop for Unwilling {
        fn connect(&mut self) -> bool {
            true
        }
        fn close(&mut self) {}
        fn send(&mut self, _message: &[u8]) -> bool {
            true
        }
        fn receive(&mut self, into: &mut [u8], _until: Instant) -> Received {
            let message = FromTether::Refused(Unwanted::Board).encode();
            into[..message.as_bytes().len()].copy_from_slice(message.as_bytes());
            Received::Message(message.as_bytes().len())
        }
    }
    let mut engine = engine(Arc::new(SimClock::new()), Unwilling);
    assert!(matches!(engine.cycle(&FieldInput::AT_REST), Err(Failure::Missed)));
    let state = engine.condition(Instant::ZERO).state.to_string();
    assert_eq!(state, "no link: the tether was started for another board");
}

/// A tether on a real socket: serves one runtime, answers `rounds` requests and then closes.
fn serve(path: &std::path::Path, rounds: usize) {
    let (place, listener) = seqpacket::listen_at(path).unwrap();
    let timeout = ms(60_000);
    assert!(seqpacket::wait_for(&[&listener], timeout), "no runtime connected");
    let connection = seqpacket::next_of(&listener).unwrap();
    let mut buffer = [0; 512];
    let mut answered = 0;
    while answered < rounds {
        assert!(seqpacket::wait_for(&[&connection], timeout), "the runtime sends nothing");
        let Received::Message(length) = seqpacket::receive(&connection, &mut buffer) else { continue };
        let reply = match FromRuntime::decode(&buffer[..length]).unwrap() {
            FromRuntime::Hello(hello) => {
                assert_eq!(hello.digest, DIGEST);
                FromTether::Link(LinkPhase::Joined, Text::EMPTY).encode()
            }
            FromRuntime::Request(request) => {
                let request = CycleRequest::decode(request).unwrap();
                answered += 1;
                let answer = answer_to(&request, &SPIN).encode();
                FromTether::Answer { round_trip: Span::ZERO, answer: &answer }.encode()
            }
        };
        seqpacket::send_to(&connection, reply.as_bytes());
    }
    drop(place);
}

#[test]
fn real_socket_is_answered_and_a_new_tether_reconnects() {
    let folder = Folder::new("tether");
    let path = folder.join("socket");
    let (there, done) = (path.clone(), Arc::new(AtomicBool::new(false)));
    let told = done.clone();
    let server = std::thread::spawn(move || {
        serve(&there, 20);
        serve(&there, 20);
        told.store(true, Ordering::Release);
    });
    let mut engine = engine(Arc::new(MonotonicClock), SocketHop::new(path.clone(), MonotonicClock));
    let mut own = 0;
    for cycle in 0.. {
        if done.load(Ordering::Acquire) {
            break;
        }
        let mut answer = Err(Failure::Missed);
        let allocations =
            allocations_in(|| answer = engine.cycle(&FieldInput { cycle, ..FieldInput::AT_REST }));
        assert_eq!(allocations, 0);
        match answer {
            Ok(answer) => {
                assert_eq!((answer.cycle, answer.motors[..5] == SPIN), (cycle, true));
                own += 1;
            }
            Err(failure) => {
                assert_eq!(failure, Failure::Missed);
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    }
    server.join().unwrap();
    let counters = engine.condition(MonotonicClock.now()).link.unwrap().counters;
    assert!(own > 0 && own <= 40, "{own}");
    assert_eq!((counters.refused, counters.unserved), (0, 0));
    assert!(counters.connections >= 2, "{counters:?}");
}

struct Run {
    ending: Ending,
    records: Vec<Record>,
}

impl Run {
    fn trips(&self, cause: Cause) -> u64 {
        self.ending.recorder.summary().trips[cause as usize]
    }
    fn counters(&self) -> LinkCounters {
        self.ending.recorder.summary().link.expect("it has a link").counters
    }
}

/// Whether a record's command moves a drive motor.
fn moves(record: &Record) -> bool {
    record.command.motors[..2].iter().any(|motor| motor.abs() > 0.0)
}

fn run(
    board: &Board,
    length: Span,
    fate: impl FnMut(&CycleRequest) -> Fate + Send + 'static,
    mut watch: impl FnMut(&Record) -> bool,
) -> Run {
    let clock = Arc::new(SimClock::new());
    let options = Options { tether: Some(tether(Script::new(clock.clone(), fate))), ..Options::default() };
    let first = Instant::ZERO + board.period;
    let robot = Robot::build(board, clock.clone(), first, options).expect("the robot can be built");
    let mut records = Vec::new();
    let ending = runner::step(robot, &clock, first + length, &AtomicBool::new(false), |recorder| {
        records.extend(recorder.summary().last.clone().filter(&mut watch));
    });
    Run { ending, records }
}

/// If the cable is unplugged at `now`: the number of this pull, and when it began. From 2 s on, the cable is
/// pulled every 700 ms for 250 ms, each time at a different phase relative to the slots.
fn pulled(now: Instant) -> Option<(u64, Instant)> {
    const FIRST: u64 = 2_000_000;
    let us = (now.as_nanos() / 1_000).checked_sub(FIRST)?;
    let (number, since) = (us / 700_000, us % 700_000);
    let phase = number * 7_919 % 20_000;
    let at = Instant::ZERO + Span::from_micros(FIRST + number * 700_000 + phase);
    (phase..phase + 250_000).contains(&since).then_some((number, at))
}

pub fn cable(request: &CycleRequest) -> Fate {
    let lost = pulled(request.sent).is_some() || pulled(request.sent + TRIP).is_some();
    if lost { Fate::Lost } else { Fate::Answer(TRIP, SPIN.to_vec()) }
}

/// Pulls the cable `times` times. Returns how often the robot was still driving within one period of a pull,
/// how often after the silence time plus one period, and the run.
fn pull(board: &Board, times: u64, silence: Span) -> (u64, u64, Run) {
    let limit = silence + board.period;
    let (mut drove, mut late) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
    let run = run(board, ms(2_000 + 700 * times), cable, |record| {
        if let Some((number, at)) = pulled(record.slot).filter(|(number, _)| *number < times) {
            let since = record.slot.since(at);
            if moves(record) && since <= board.period {
                drove.insert(number);
            }
            if moves(record) && since > limit {
                late.insert(number);
            }
        }
        false
    });
    (drove.len() as u64, late.len() as u64, run)
}

#[test]
fn a_thousand_unplugged_cables_all_stop_the_motors_in_time() {
    let board = tethered();
    let silence = board.tether.as_ref().unwrap().silence;
    let (drove, late, run) = pull(&board, 1_000, silence);
    assert_eq!((drove, late), (1_000, 0));
    assert_eq!(run.trips(Cause::LinkLost), 1_000);
}

#[test]
fn without_the_link_rule_the_motors_run_on_longer() {
    let mut board = tethered();
    let silence = board.tether.as_ref().unwrap().silence;
    board.tether.as_mut().unwrap().silence = ms(600_000); // longer than the run, so the rule never acts
    let (drove, late, run) = pull(&board, 100, silence);
    assert_eq!((drove, run.trips(Cause::LinkLost)), (100, 0));
    assert!(late >= 90, "{late} of 100: the age limit of the field's answer stops it only after 8 periods");
}

/// Loses `percent` % of the requests and as many of the answers; in every run the same ones.
fn lossy(percent: u64) -> impl FnMut(&CycleRequest) -> Fate + Send {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    move |_| {
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % 100
        };
        if draw() < percent || draw() < percent { Fate::Lost } else { Fate::Answer(TRIP, SPIN.to_vec()) }
    }
}

#[test]
fn ten_minutes_at_1_percent_loss_cause_no_false_stop() {
    let mut stood = 0;
    let run = run(&tethered(), ms(600_000), lossy(1), |record| {
        stood += u64::from((2_000..600_000).contains(&millis(record.slot)) && !moves(record));
        false
    });
    let counters = run.counters();
    assert!(counters.missed > 400 && counters.asked > 29_000, "{counters:?}");
    assert_eq!((run.trips(Cause::LinkLost), stood), (0, 0));
    assert_eq!(run.ending.recorder.summary().slots_skipped, 0);
}

#[test]
fn the_local_field_is_shown_only_while_it_drives() {
    let clock = Arc::new(SimClock::new());
    let fates = [vec![Fate::Answer(TRIP, SPIN.to_vec()); 5], vec![Fate::Lost; 5]].concat();
    let remote = engine(clock.clone(), fated(fates)(clock.clone()));
    assert_eq!(remote.slices(), None, "there is no field here");
    let mut standby = Standby::new(remote, field::engine::build(&tethered().field), clock.clone());
    let shown = (0..10).map(|cycle| {
        clock.set(Instant::ZERO + ms(20).times(cycle + 1));
        let _ = standby.cycle(&FieldInput { cycle, ..FieldInput::AT_REST }); // the first loss has no answer
        standby.slices().map(|slices| slices.cycle)
    });
    let shown: Vec<_> = shown.collect();
    assert_eq!(shown[..5], [None; 5], "the brain drives");
    assert_eq!(shown[7..], [Some(7), Some(8), Some(9)], "the local field has taken over");
}

#[test]
fn a_standby_field_takes_over_and_hands_back_smoothly() {
    // The standby field has learned nothing: the starting table drives, and the brain corrects it.
    let start = board::built_in("picarx-v4-tethered").unwrap().unwrap().board.field.start;
    let mut board = tethered();
    board.field.start = start;
    board.tether.as_mut().unwrap().on_loss = OnLoss::Local { grid: 8, bank: 1 };
    let lost = |request: &CycleRequest| (4_000..4_300).contains(&millis(request.sent));
    let fate = move |request: &CycleRequest| match lost(request) {
        true => Fate::Lost,
        false => Fate::Answer(TRIP, SPIN.to_vec()),
    };
    let run = run(&board, ms(9_000), fate, |_| true);
    let counters = run.counters();
    assert_eq!((counters.takeovers, counters.returns), (1, 1), "{counters:?}");
    assert_eq!((run.trips(Cause::LinkLost), run.trips(Cause::FieldLate)), (0, 0));
    let mut near = 0;
    let stood_in = |record: &Record| record.field.and_then(|field| field.link).map(|link| link.stood_in);
    let states: Vec<(Instant, bool)> =
        run.records.iter().filter_map(|record| Some((record.slot, stood_in(record)?))).collect();
    let changes = states.windows(2).filter(|pair| pair[0].1 != pair[1].1).map(|pair| pair[1].0);
    let changes: Vec<Instant> = changes.collect();
    assert_eq!(changes.len(), 2, "one takeover, at the second missed answer, and one return");
    for pair in run.records.windows(2) {
        let [before, after] = pair else { unreachable!() };
        let is_near = |change: &Instant| *change <= after.slot + ms(100) && after.slot <= *change + ms(500);
        if !changes.iter().any(is_near) {
            continue;
        }
        near += 1;
        assert!(after.limits == Limits::FREE && moves(after), "no reflex is active, and the robot drives");
        for (index, motor) in board.motors.iter().enumerate() {
            let step = motor.slew_per_s * board.period.as_secs_f64() as f32 + 1e-6;
            let [was, is] = [before, after].map(|record| record.command.motors[index]);
            assert!((is - was).abs() <= step, "{} from {was} to {is} at {:?}", motor.name, after.slot);
        }
    }
    assert_eq!(near, 2 * 61, "slots");
}
