//! A sensor that is lost for half a second: the field continues with the last value, the reflexes do not. The
//! robot backs off less often than one whose field gets the worst case at once.

use super::{options, run_on, sim_board};
use ganglion::base::frame::Health;
use ganglion::base::plan::{Board, Cause, QualityLevel, Scale};
use ganglion::base::seed::{Stream, uniform};
use ganglion::base::time::{Clock, Instant, SimClock, Span};
use ganglion::field::engine::Cycle;
use ganglion::field::{FieldInput, Inspect};
use ganglion::runtime::robot::Options;
use ganglion::sim::{Fault, Report};
use ganglion::workshop::learn::parallel;
use ganglion::workshop::teach::driver::Driver;
use ganglion::workshop::teach::lesson::lean;
use std::sync::{Arc, Mutex};

/// Index of the sonar among the field's sensors, and its scale.
fn sonar(board: &Board) -> (usize, Scale) {
    let mut inputs = board.sensors.iter().filter_map(|sensor| Some((&sensor.name, sensor.input?)));
    let place = inputs.clone().position(|(name, _)| name == "range").expect("the field has a sonar");
    (place, inputs.nth(place).expect("the same").1)
}

fn seconds(at: Instant) -> f64 {
    at.since(Instant::ZERO).as_secs_f64()
}

#[test]
fn holding_a_lost_sonar_for_the_field_delays_no_stop() {
    let board = lean(&sim_board());
    let (place, _) = sonar(&board);
    let seen: Arc<Mutex<Vec<(f64, f32)>>> = Arc::default();
    let clock = Arc::new(SimClock::new());
    // Records the sonar values that the field gets, and their times.
    let (noted, time) = (seen.clone(), clock.clone());
    let plan = board.field.clone();
    let witness: Cycle<dyn Inspect> = Box::new(move |engine, input| {
        noted.lock().unwrap().push((seconds(time.now()), input.sensors[place]));
        Driver::Table.cycle(&plan, input, engine)
    });
    // Longer than a sonar value may be used: it is good for 0.3 s, and is then held for another half a
    // second.
    let options = Options { around: Some(witness), ..options(3, &["sonar-silent:0@5+2"]) };
    let run = run_on(clock, &board, options, 9);
    let seen = seen.lock().unwrap();
    let fed = |from: f64, to: f64| -> Vec<f32> {
        seen.iter().filter(|(at, _)| (from..to).contains(at)).map(|(_, value)| *value).collect()
    };
    // A ping takes up to 60 ms, and its reading is good until it is 300 ms old.
    let held = fed(5.1, 5.7);
    assert!(held.len() >= 20 && held.iter().all(|value| value.to_bits() == held[0].to_bits()), "{held:?}");
    let worst = fed(5.9, 7.0);
    assert!(worst[0] < held[0] && worst.windows(2).all(|pair| pair[1] < pair[0].max(-0.999)), "{worst:?}");
    let channel = board.sensors.iter().position(|sensor| sensor.name == "range").unwrap();
    let lost = |record: &&ganglion::drive::trace::Record| (5.4..7.0).contains(&seconds(record.slot));
    for record in run.records.iter().filter(lost) {
        let sample = record.frame.samples[channel];
        assert!(sample.health != Health::Good && sample.worst < sample.value, "{sample:?}");
        assert!(record.active & Cause::SensorLost.bit() != 0, "no reflex is delayed: slot {}", record.index);
        assert!(record.command.motors[0].abs() <= 0.0, "it stands: slot {}", record.index);
    }
    // Its value is 60 to 120 ms old when the first ping without an echo ends; it is held until it is 800 ms
    // old.
    let counted = run.ending.tick.field_counters().held;
    assert!((30..=40).contains(&counted), "{counted} held");
}

/// Half-second drop-outs of the sonar, one every two seconds.
fn dropouts(seed: u64, length_s: u64) -> Vec<Fault> {
    let start = |nth: u64| 2.0 * nth as f64 + 1.5 * uniform(seed, Stream::Stimulus, nth);
    let fault = |nth| Fault::parse(&format!("sonar-silent:0@{:.3}+0.5", start(nth))).unwrap();
    (1..length_s / 2).map(fault).collect()
}

/// Gives the field the sonar's worst case as soon as it is lost, instead of the held value.
fn at_worst(board: &Board, faults: Vec<Fault>, clock: Arc<SimClock>) -> Cycle<dyn Inspect> {
    let (place, scale) = sonar(board);
    let plan = board.field.clone();
    let mut last = 0.0; // the last good value that it got
    Box::new(move |engine, input| {
        let mut seen: FieldInput = *input;
        let (period, now) = (Span::from_millis(60), clock.now().since(Instant::ZERO));
        // The first ping without an echo is up to a period late, and so is the first with one.
        let lost = faults.iter().find(|fault| fault.is_on(now) && now.less(fault.start) >= period);
        if let Some(fault) = lost {
            let (low, high) = (scale.low, scale.high);
            let metres = low * (high / low).powf((last + 1.0) / 2.0);
            let aged = metres - 0.5 * now.less(fault.start).as_secs_f64() as f32;
            seen.sensors[place] = scale.apply(aged);
        } else {
            last = seen.sensors[place];
        }
        Driver::Table.cycle(&plan, &seen, engine)
    })
}

/// The result of a drive.
struct Drive {
    report: Report,
    /// How often it backed off.
    backed: u64,
}

fn drive(board: &Board, seed: u64, length_s: u64, worst: bool) -> Drive {
    let (faults, clock) = (dropouts(seed, length_s), Arc::new(SimClock::new()));
    let options = Options {
        around: worst.then(|| at_worst(board, faults.clone(), clock.clone())),
        quality: Some(QualityLevel::BEST),
        faults: faults.clone(),
        ..options(seed, &[])
    };
    let run = run_on(clock, board, options, length_s);
    let backed = run.ending.tick.backing().expect("it backs off").times;
    Drive { report: run.report, backed }
}

#[test]
#[ignore = "long: scripts/long-tests"]
fn holding_lost_values_beats_feeding_the_worst_at_once() {
    let board = lean(&sim_board());
    let seeds: Vec<u64> = (1..=60).collect();
    let both = parallel::map(2, &seeds, |seed| [false, true].map(|worst| drive(&board, *seed, 60, worst)));
    let sum = |which: usize, of: fn(&Drive) -> u64| both.iter().map(|room| of(&room[which])).sum::<u64>();
    let [held, worst] = [0, 1].map(|which| sum(which, |drive| drive.backed));
    // 30 November 2026: 247 times in 60 rooms with held values, and 301 times with the worst case.
    assert!(10 * held < 9 * worst, "backed off {held} times, {worst} with the worst case");
    assert_eq!(sum(0, |drive| drive.report.contacts.falls), 0);
}
