//! Collects, slot by slot, what the page shows of a run.

use super::curves::{CurveId, Curves, Keep};
use super::goals::{GoalShown, Goals};
use super::lateness::{Times, TimesShown};
use super::spans::{Mark, Marks, Spans, WordSpan};
use super::tables::Readings;
use crate::base::frame::Health;
use crate::base::plan::{Board, Cause};
use crate::base::time::{Instant, Span};
use crate::cli::drive_log::source::Run;
use crate::cli::drive_log::tally::{Summary, Tally};
use crate::drive::record::{FieldRecord, ImageMessage, ProcessMessage, Slot, causes, health};
use crate::field::DeviceTimes;
use crate::field::slices::SlicesMessage;
use crate::runtime::control::Status;
use std::collections::BTreeMap;

/// Maximum number of temperature curves. No board has as many, so a status with more was not written by
/// ganglion.
const MOST_TEMPERATURES: usize = 16;
/// Name of the curve of the temperature that the field's GPU reports.
const OF_THE_GPU: &str = "GPU, by its own report";
/// Maximum number of sets of slices through the field: enough for one every five seconds for ten minutes.
/// They take 0.7 MB of the page.
const MOST_SLICES: usize = 120;
/// Number of curves in addition to those of sensors and motors.
const OTHER_CURVES: usize = 19;

/// What the page shows of a run.
pub struct DriveShown {
    pub summary: Summary,
    pub sentences: Vec<String>,
    /// Text about the run: version, clock, seed.
    pub words: BTreeMap<String, String>,
    /// The board's effective values.
    pub board: String,
    pub curves: Curves,
    pub plots: Vec<Plot>,
    pub path: Option<[CurveId; 2]>,
    pub goals: Vec<GoalShown>,
    pub lanes: Vec<Lane>,
    pub marks: Vec<Mark>,
    pub times: Vec<TimesShown>,
    pub sensors: Vec<(String, Readings)>,
    /// Slices through the field, each with its time in seconds.
    pub slices: Vec<(f64, SlicesMessage)>,
    /// The last status in the recording.
    pub status: Option<Box<Status>>,
    /// Messages with a status or with slices that this program cannot read.
    pub unreadable: u64,
    /// Spans, moments and goals that did not fit on the page.
    pub left_out: u64,
}

/// Curves in one coordinate system.
pub struct Plot {
    pub section: &'static str,
    pub title: String,
    pub unit: String,
    pub series: Vec<(String, CurveId)>,
    /// When the value was not good, and why.
    pub bad: Vec<WordSpan>,
    /// Points may be far apart: a line joins them.
    pub joined: bool,
}

/// A row of the timeline.
#[derive(serde::Serialize)]
pub struct Lane {
    pub name: String,
    pub kind: &'static str,
    pub spans: Vec<WordSpan>,
}

/// The curves that every run has.
struct Common {
    release: CurveId,
    work: CurveId,
    wire: CurveId,
    lost: CurveId,
    compute: CurveId,
    answer: CurveId,
    /// Where a GPU's time went: queue, kernels, wake-up.
    device: [CurveId; 3],
    /// Confidence, skill, novelty.
    judgement: [CurveId; 3],
    /// Memory: resident, locked.
    memory: [CurveId; 2],
    /// Open files, threads.
    handles: [CurveId; 2],
    unrecorded: CurveId,
    path: [CurveId; 2],
}

impl Common {
    fn new(curves: &mut Curves) -> Common {
        let mut extremes = || curves.add(Keep::Extremes);
        let [release, work, wire, lost] = [(); 4].map(|()| extremes());
        let [compute, answer] = [(); 2].map(|()| extremes());
        let [device, judgement] = [(); 2].map(|()| [(); 3].map(|()| extremes()));
        let [memory, handles] = [(); 2].map(|()| [(); 2].map(|()| extremes()));
        let unrecorded = extremes();
        let path = [(); 2].map(|()| curves.add(Keep::Newest));
        Common {
            release,
            work,
            wire,
            lost,
            compute,
            answer,
            device,
            judgement,
            memory,
            handles,
            unrecorded,
            path,
        }
    }
}

/// What is known of a sensor so far.
struct Sensor {
    name: String,
    unit: String,
    curve: CurveId,
    bad: Spans,
    readings: Readings,
}

/// What is known of a run so far.
pub struct Drive {
    tally: Tally,
    first: Option<Instant>,
    newest: Instant,
    at_s: f64,
    curves: Curves,
    common: Common,
    sensors: Vec<Sensor>,
    motors: Vec<(String, CurveId)>,
    temperatures: BTreeMap<String, (CurveId, Option<f32>)>,
    modes: Spans,
    quality: Spans,
    engine: Spans,
    causes: Vec<(Cause, Spans)>,
    /// A slot was lost.
    lost: bool,
    marks: Marks,
    goals: Goals,
    times: [Times; 5],
    /// Every `slices_step`th set.
    slices: Vec<(f64, SlicesMessage)>,
    slices_step: u64,
    slices_seen: u64,
    status: Option<Box<Status>>,
    unreadable: u64,
}

impl Drive {
    /// A page without slots, for a run on `board`.
    pub fn new(board: &Board) -> Drive {
        let expected = board.sensors.len() + board.motors.len() + OTHER_CURVES;
        let mut curves = Curves::new(expected, board.period);
        let common = Common::new(&mut curves);
        let sensors = board.sensors.iter().map(|sensor| Sensor {
            name: sensor.name.clone(),
            unit: sensor.unit.clone(),
            curve: curves.add(Keep::Extremes),
            bad: Spans::default(),
            readings: Readings::default(),
        });
        let sensors = sensors.collect();
        let motors = board.motors.iter().map(|motor| (motor.name.clone(), curves.add(Keep::Extremes)));
        let motors = motors.collect();
        Drive {
            tally: Tally::new(Some(board)),
            first: None,
            newest: Instant::ZERO,
            at_s: 0.0,
            curves,
            common,
            sensors,
            motors,
            temperatures: BTreeMap::new(),
            modes: Spans::default(),
            quality: Spans::default(),
            engine: Spans::default(),
            causes: Cause::ALL.map(|cause| (cause, Spans::default())).into(),
            lost: false,
            marks: Marks::default(),
            goals: Goals::default(),
            times: ["start lateness of a slot", "execution time of a slot", "slot to command on the wire"]
                .into_iter()
                .chain(["computation time of a field cycle", "request to answer of the field"])
                .map(Times::new)
                .collect::<Vec<_>>()
                .try_into()
                .unwrap_or_else(|_| unreachable!("five titles")),
            slices: Vec::new(),
            slices_step: 1,
            slices_seen: 0,
            status: None,
            unreadable: 0,
        }
    }

    /// Adds the next slot.
    pub fn take(&mut self, slot: &Slot) {
        let at = slot.slot.since(*self.first.get_or_insert(slot.slot));
        self.newest = slot.slot;
        self.at_s = at.as_secs_f64();
        self.tally.take(slot);
        if let Some(pose) = self.tally.pose() {
            let [x, y] = self.common.path;
            self.curves.put(x, at, pose.at[0] as f32);
            self.curves.put(y, at, pose.at[1] as f32);
            if let Some(goal) = slot.field.as_ref().and_then(|field| field.goal) {
                self.goals.take(self.at_s, &goal, pose);
            }
        }
        self.take_events(slot);
        self.take_times(slot, at);
        self.take_sensors(slot, at);
        for ((_, curve), value) in self.motors.iter().zip(&slot.motors) {
            self.curves.put(*curve, at, *value);
        }
        if let Some(field) = &slot.field {
            self.take_field(field, at);
        }
        for (curve, value) in self.temperatures.values() {
            self.curves.put(*curve, at, value.unwrap_or(f32::NAN));
        }
    }

    fn take_events(&mut self, slot: &Slot) {
        let at = self.at_s;
        self.modes.set(at, Some(slot.mode.name()));
        self.quality.set(at, Some(&slot.quality.index().to_string()));
        for (cause, spans) in &mut self.causes {
            spans.set(at, (slot.active & cause.bit() != 0).then_some(cause.name()));
        }
        let asked = [("arm", slot.asked.arm), ("disarm", slot.asked.disarm), ("stop", slot.asked.stop)];
        for (what, _) in asked.into_iter().filter(|(_, asked)| *asked) {
            self.marks.add(at, "request", what);
        }
        causes(slot.tripped).into_iter().for_each(|cause| self.marks.add(at, "trip", cause));
        causes(slot.signals.halts).into_iter().for_each(|cause| self.marks.add(at, "fast stop", cause));
        if slot.lost > 0 {
            self.marks.add(at, "lost", format!("{} due slots did not run", slot.lost));
        }
    }

    fn take_times(&mut self, slot: &Slot, at: Span) {
        let [release, work, wire, ..] = &mut self.times;
        let (late, took) = (slot.began.since(slot.slot), slot.ended.since(slot.began));
        release.add(late);
        work.add(took);
        self.curves.put(self.common.release, at, late.as_micros_f64() as f32);
        self.curves.put(self.common.work, at, took.as_micros_f64() as f32);
        // The curve begins with the first loss.
        if slot.lost > 0 || self.lost {
            self.lost = true;
            self.curves.put(self.common.lost, at, slot.lost as f32);
        }
        for receipt in slot.receipts.iter().filter(|receipt| receipt.complete) {
            let after = receipt.at.since(receipt.slot);
            wire.add(after);
            self.curves.put(self.common.wire, at, after.as_micros_f64() as f32);
        }
    }

    fn take_sensors(&mut self, slot: &Slot, at: Span) {
        for reading in &slot.readings {
            if let Some(sensor) = self.sensors.get_mut(usize::from(reading.channel)) {
                sensor.readings.take(&reading.value);
            }
        }
        for (sensor, sample) in self.sensors.iter_mut().zip(&slot.frame) {
            let word = health(sample.health);
            let bad = sample.health != Health::Good;
            sensor.bad.set(self.at_s, bad.then_some(word));
            sensor.readings.slot(bad.then_some(word));
            if sample.health != Health::Never {
                self.curves.put(sensor.curve, at, sample.value);
            }
        }
    }

    fn take_field(&mut self, field: &FieldRecord, at: Span) {
        self.engine.set(self.at_s, Some(field.state.as_deref().unwrap_or("running")));
        let [.., compute, answer] = &mut self.times;
        compute.add(field.span);
        answer.add(field.took);
        self.curves.put(self.common.compute, at, field.span.as_micros_f64() as f32);
        self.curves.put(self.common.answer, at, field.took.as_micros_f64() as f32);
        if let Some(times) = field.times {
            let parts = [times.queue, times.kernels, times.wake];
            for (curve, part) in self.common.device.into_iter().zip(parts) {
                self.curves.put(curve, at, part.as_micros_f64() as f32);
            }
        }
        if let Some(given) = &field.answer {
            let judged = [given.confidence, given.skill, given.novelty];
            for (curve, value) in self.common.judgement.into_iter().zip(judged) {
                self.curves.put(curve, at, value);
            }
        }
    }

    /// Adds the program's memory, files and threads after the newest slot.
    pub fn take_process(&mut self, message: &ProcessMessage) {
        self.tally.take_process(message);
        let Some(first) = self.first else { return };
        let at = self.newest.since(first);
        let mebibytes = |kib: u64| kib as f32 / 1024.0;
        let usage = &message.usage;
        let [resident, locked] = self.common.memory;
        let [files, threads] = self.common.handles;
        let values = [
            (resident, usage.resident_kib.map(mebibytes)),
            (locked, usage.locked_kib.map(mebibytes)),
            (files, usage.open_files.map(|files| files as f32)),
            (threads, usage.threads.map(|threads| threads as f32)),
            (self.common.unrecorded, Some(message.slots_unrecorded as f32)),
        ];
        for (curve, value) in values {
            self.curves.put(curve, at, value.unwrap_or(f32::NAN));
        }
    }

    /// Adds a status of the robot.
    pub fn take_status(&mut self, json: &[u8]) {
        let Ok(status) = serde_json::from_slice::<Status>(json) else {
            self.unreadable += 1;
            return;
        };
        // A temperature that this status does not have is unknown until the next one.
        self.temperatures.values_mut().for_each(|(_, known)| *known = None);
        for (name, value) in &status.measured.temperatures {
            self.warm(name, *value);
        }
        if let Some(degrees) = status.measured.gpu_figures.as_ref().and_then(|gpu| gpu.temperature_celsius) {
            self.warm(OF_THE_GPU, Some(degrees));
        }
        self.status = Some(Box::new(status));
    }

    /// Sets the temperature of this name from the next slot on.
    fn warm(&mut self, name: &str, value: Option<f32>) {
        if let Some((_, known)) = self.temperatures.get_mut(name) {
            *known = value;
        } else if self.temperatures.len() < MOST_TEMPERATURES {
            self.temperatures.insert(name.to_string(), (self.curves.add(Keep::Extremes), value));
        }
    }

    /// Adds slices through the field, taken at `time`. If there are too many, every second set is dropped.
    pub fn take_slices(&mut self, time: u64, json: &[u8]) {
        let message = serde_json::from_slice(json).ok().map(|ImageMessage { slices, .. }| slices);
        let Some(slices) = message.filter(|slices| slices.cells().is_some()) else {
            self.unreadable += 1;
            return;
        };
        let Some(first) = self.first else { return };
        let number = self.slices_seen;
        self.slices_seen += 1;
        if !number.is_multiple_of(self.slices_step) {
            return;
        }
        if self.slices.len() == MOST_SLICES {
            let mut stays = false;
            self.slices.retain(|_| {
                stays = !stays;
                stays
            });
            self.slices_step *= 2;
        }
        let at = (Instant::ZERO + Span::from_nanos(time)).since(first);
        self.slices.push((at.as_secs_f64(), slices));
    }

    /// What the page shows, after every slot of `run` has been added.
    pub fn end(self, run: &Run) -> DriveShown {
        let Drive { tally, at_s, curves, common, sensors, motors, temperatures, marks, times, .. } = self;
        let (summary, sentences) = tally.end(run, 0);
        let (marks, mut left_out) = marks.end();
        let (goals, more) = self.goals.end();
        left_out += more;
        let mut ended = |spans: Spans| {
            let (all, more) = spans.end(at_s);
            left_out += more;
            all
        };
        let lane = |name: &str, kind, spans| Lane { name: name.to_string(), kind, spans };
        let mut lanes = vec![
            lane("mode", "mode", ended(self.modes)),
            lane("quality level", "level", ended(self.quality)),
            lane("engine", "engine", ended(self.engine)),
        ];
        for (cause, spans) in self.causes.into_iter().rev() {
            let spans = ended(spans);
            if !spans.is_empty() {
                lanes.push(lane(cause.name(), "cause", spans));
            }
        }
        let mut plots = vec![Plot {
            section: "commands",
            title: "motor commands".into(),
            unit: "of full scale".into(),
            series: motors,
            bad: Vec::new(),
            joined: false,
        }];
        let mut counted = Vec::new();
        for sensor in sensors {
            counted.push((sensor.name.clone(), sensor.readings));
            plots.push(Plot {
                section: "sensors",
                title: sensor.name.clone(),
                unit: sensor.unit,
                series: vec![(sensor.name, sensor.curve)],
                bad: ended(sensor.bad),
                joined: false,
            });
        }
        plots.extend(common.plots());
        let temperatures: Vec<_> = temperatures.into_iter().map(|(name, (curve, _))| (name, curve)).collect();
        if !temperatures.is_empty() {
            plots.push(Plot::of("machine", "temperatures", "deg C", temperatures));
        }
        let has_path = !curves.values(common.path[0]).iter().all(|value| value.is_nan());
        DriveShown {
            summary,
            sentences,
            words: run
                .words
                .iter()
                .chain(&run.ended)
                .map(|(key, word)| (key.clone(), word.clone()))
                .collect(),
            board: run.board.clone(),
            curves,
            plots,
            path: has_path.then_some(common.path),
            goals,
            lanes,
            marks,
            times: times.iter().filter_map(Times::shown).collect(),
            sensors: counted,
            slices: self.slices,
            status: self.status,
            unreadable: self.unreadable,
            left_out,
        }
    }
}

impl Plot {
    fn of(section: &'static str, title: &str, unit: &str, series: Vec<(String, CurveId)>) -> Plot {
        let (title, unit) = (title.to_string(), unit.to_string());
        Plot { section, title, unit, series, bad: Vec::new(), joined: true }
    }
}

impl Common {
    fn plots(&self) -> Vec<Plot> {
        let named = |names: &[&str], curves: &[CurveId]| {
            names.iter().map(|name| name.to_string()).zip(curves.iter().copied()).collect::<Vec<_>>()
        };
        let Common { release, work, wire, lost, compute, answer, device, judgement, .. } = *self;
        let Common { memory, handles, unrecorded, .. } = *self;
        vec![
            Plot::of(
                "lateness",
                "start lateness and execution time of each slot",
                "us",
                named(&["start lateness", "execution time"], &[release, work]),
            ),
            Plot::of(
                "lateness",
                "from the slot to the command on the wire",
                "us",
                named(&["latency"], &[wire]),
            ),
            Plot::of("lateness", "due slots that did not run", "slots", named(&["lost"], &[lost])),
            Plot::of(
                "field",
                "computation and answer times of the field",
                "us",
                named(&["computation", "from request to answer"], &[compute, answer]),
            ),
            Plot::of("field", "where the GPU's time went", "us", named(&DeviceTimes::PARTS, &device)),
            Plot::of(
                "field",
                "the field's assessment of its answer",
                "1",
                named(&["confidence", "skill", "novelty"], &judgement),
            ),
            Plot::of("machine", "memory of the program", "MiB", named(&["in RAM", "locked"], &memory)),
            Plot::of("machine", "open files and threads", "1", named(&["open files", "threads"], &handles)),
            Plot::of(
                "machine",
                "slots that could not be recorded",
                "slots",
                named(&["so far"], &[unrecorded]),
            ),
        ]
    }
}
