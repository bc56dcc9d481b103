//! The measurements in the status of a running robot: quality of the field, times, the GPU, temperatures, the
//! field's newest answer. The non-real-time thread takes them from the recorder; the tick does nothing for
//! them. Values that the robot does not have or has not measured yet are absent.

use super::goal::{GoalStatus, behaviour_names};
use super::readings::{CycleTimes, Lateness, MotorStatus, Names, SensorStatus};
use crate::base::plan::{Board, EngineKind, FileSensor, QualityLevel, SensorKind};
use crate::base::time::{Instant, Span};
use crate::decision::motion::agreement::is_opposite;
use crate::drive::trace::{Latency, LatenessPeak, Recorder, StepDown, Summary};
use crate::field::remote::local::LinkPhase;
use crate::field::remote::{LinkCounters, LinkHealth, LinkTimes, LinkWords};
use crate::field::{DeviceTimes, EngineState, device};
use crate::hardware::gpu_meter::{GpuFigures, GpuMeter};
use crate::runtime::robot::Device;
use crate::system::rt::{ProcessUsage, UsageMeter};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How often the figures are collected: users do not read faster, and a percentile costs a pass over some
/// thousand numbers.
const EVERY: Span = Span::from_millis(100);

/// The figures of a run so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Measured {
    /// State of the engine; the status reports it as text.
    #[serde(skip)]
    pub(super) engine_state: EngineState,
    /// Quality level of the field's next cycle.
    pub quality: Option<Quality>,
    /// Compute time of the answered cycles, in microseconds.
    pub field_us: Option<Latency>,
    /// Time from the requesting slot to the answer, in microseconds.
    pub answer_us: Option<Latency>,
    /// Time from the scheduled start of a slot to the start of its work, in microseconds.
    pub release_late_us: Option<Latency>,
    /// The field's newest answer.
    pub answer: Option<AnswerStatus>,
    /// The robot's progress towards its goal; absent on a board without a navigator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<GoalStatus>,
    /// The field's GPU, and whether it computes the field.
    pub gpu: Option<GpuStatus>,
    /// The link to the remote brain, if one computes the field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkStatus>,
    /// The value of each temperature sensor in degrees Celsius; null while the sensor has no good value.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub temperatures: BTreeMap<String, Option<f32>>,
    /// Each sensor at the newest slot.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sensors: Vec<SensorStatus>,
    /// Each motor at the newest slot.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub motors: Vec<MotorStatus>,
    /// What decided the motors' commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commanded_by: Option<String>,
    /// How late the slots began, as a histogram.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Lateness>,
    /// When slots began late in the newest second: the largest values of each tenth of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lateness_peaks: Vec<LatenessPeak>,
    /// How long the answered cycles took to compute, as a histogram.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycle_times: Option<CycleTimes>,
    /// How often each cause of restraint became active; those that never did are left out.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub trips: BTreeMap<String, u64>,
    /// How often the engine stopped computing: it panicked, or its GPU or brain was lost.
    pub failovers: u64,
    /// What the GPU that computes the field reports about itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_figures: Option<GpuFigures>,
    /// How long each stage took in the cycles that a GPU computed, microseconds.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub stages_us: BTreeMap<String, Latency>,
    /// Resources that the program uses, at most a second ago.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessUsage>,
}

impl Measured {
    /// These figures without those for which recordings and `live` have topics of their own.
    pub fn without_topics(mut self) -> Measured {
        (self.sensors, self.motors, self.commanded_by) = Default::default();
        (self.lateness_peaks, self.process) = Default::default();
        self
    }
}

/// A quality level, and why it is not the best.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// The level; 0 is the best.
    pub level: usize,
    /// The lowest quality that the board allows.
    pub lowest: usize,
    /// Why the level is not 0.
    pub reason: Option<String>,
}

/// An answer of the field.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnswerStatus {
    /// Number of the cycle.
    pub cycle: u64,
    /// Its age at the newest slot, counted from the slot that requested it.
    pub age_ms: f64,
    /// 0..=1: how well the field predicts its sensors.
    pub confidence: f32,
    /// 0..=1: how unlike the experiences in the bank the situation is.
    pub novelty: f32,
}

/// The link to a remote brain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkStatus {
    /// The last message of the tether process or the brain. Whether the brain answers can be seen from the
    /// engine's state.
    pub said: Option<String>,
    /// Whether a field on this machine computes in place of the brain.
    pub stood_in: bool,
    /// Counters of the link.
    pub counters: LinkCounters,
    /// The parts of the cycle time, over the cycles that the brain answered, in microseconds.
    pub parts_us: BTreeMap<String, Latency>,
}

/// The GPU of the field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuStatus {
    /// Its product name; absent if none was opened.
    pub name: Option<String>,
    /// Whether it computes the field now; otherwise the CPU does.
    pub computes: bool,
    /// Why the GPU does not compute the field.
    pub why: Option<String>,
    /// Number of the next or current attempt to open it again, from 1.
    pub attempt: Option<u32>,
    /// Seconds until that attempt; 0: it is running.
    pub attempt_in_s: Option<f64>,
}

/// What a robot can measure, and where its field is computed; fixed for a run.
#[derive(Debug, Default)]
pub struct Instruments {
    names: Names,
    /// Names of the behaviours.
    behaviours: Vec<String>,
    /// Channel and name of each temperature sensor.
    temperatures: Vec<(usize, String)>,
    /// The longest time that a cycle should take.
    target: Span,
    lowest: QualityLevel,
    /// The fixed quality level of all cycles, if the user requested one.
    held: Option<QualityLevel>,
    device: Option<Device>,
    gpu_meter: Option<GpuMeter>,
    /// Why there is no device.
    no_device: String,
    /// Messages of the field's thread about the link.
    words: Option<Arc<LinkWords>>,
    /// The newest message.
    said: Option<String>,
}

impl Instruments {
    /// The instruments of `board`. `device`: the device that the field uses, if any; `held`: the fixed
    /// quality level of all cycles, if the user requested one.
    pub fn of(board: &Board, held: Option<QualityLevel>, device: Option<Device>) -> Instruments {
        let measures_temperature = |(_, sensor): &(usize, &crate::base::plan::SensorPlan)| {
            sensor.unit == "degC" || matches!(sensor.kind, SensorKind::File(FileSensor::Thermal { .. }))
        };
        let thermometers = board.sensors.iter().enumerate().filter(measures_temperature);
        let no_device = match board.field.engine {
            _ if device.is_some() => String::new(),
            EngineKind::Auto => device::why_none(),
            EngineKind::Reference | EngineKind::Cpu | EngineKind::Cuda => "no GPU was requested".to_string(),
            EngineKind::Remote => "the brain at the other end of the tether computes".to_string(),
        };
        Instruments {
            names: Names::of(board),
            behaviours: behaviour_names(board),
            temperatures: thermometers.map(|(channel, sensor)| (channel, sensor.name.clone())).collect(),
            target: board.budget.target,
            lowest: board.budget.floor,
            held,
            device,
            gpu_meter: None,
            no_device,
            words: None,
            said: None,
        }
    }

    /// Adds the messages about the link to a remote brain.
    pub fn with_link(self, words: Option<Arc<LinkWords>>) -> Instruments {
        Instruments { words, ..self }
    }

    /// Adds the figures of the GPU that computes the field, if there is one.
    pub fn with_gpu_meter(self) -> Instruments {
        let gpu_meter = self.device.as_ref().and_then(|device| GpuMeter::start(device.name.clone()));
        Instruments { gpu_meter, ..self }
    }

    /// Stores a new message about the link, and logs it.
    fn take_link_message(&mut self) {
        let Some((phase, text)) = self.words.as_ref().and_then(|words| words.take()) else { return };
        let said = match phase {
            LinkPhase::Joining => format!("joining the brain {text}"),
            LinkPhase::Joined => format!("joined the brain {text}"),
            LinkPhase::Refused => format!("the brain refuses this robot: {text}"),
        };
        let said = said.trim_end().to_string();
        match phase {
            LinkPhase::Refused => log::warn!("tether: {said}"),
            LinkPhase::Joining | LinkPhase::Joined => log::info!("tether: {said}"),
        }
        self.said = Some(said);
    }

    fn link(&self, recorder: &Recorder) -> Option<LinkStatus> {
        let LinkHealth { stood_in, counters, .. } = recorder.summary().link?;
        let parts = LinkTimes::PARTS.into_iter().zip(&recorder.link);
        let parts_us =
            parts.filter_map(|(name, times)| Some((name.to_string(), Latency::of(times)?))).collect();
        Some(LinkStatus { said: self.said.clone(), stood_in, counters, parts_us })
    }

    /// The figures of the run that `recorder` has recorded.
    fn read(&self, recorder: &Recorder) -> Measured {
        let summary = recorder.summary();
        let last = summary.last.as_ref();
        let engine_state = summary.engine.unwrap_or_default();
        Measured {
            engine_state,
            quality: self.quality(summary),
            field_us: Latency::of(&recorder.field),
            answer_us: Latency::of(&recorder.answer),
            release_late_us: Latency::of(&recorder.release_late),
            answer: answer(summary),
            goal: summary.goal.as_ref().map(|goal| GoalStatus::of(goal, &self.behaviours, engine_state)),
            gpu: self.gpu(summary.engine),
            link: self.link(recorder),
            temperatures: self.temperatures(summary),
            sensors: self.names.sensors(last),
            motors: self.names.motors(last),
            commanded_by: last.map(|record| record.command.source.text().to_string()),
            lateness: self.names.lateness(&recorder.release_late),
            cycle_times: CycleTimes::of(&recorder.field),
            trips: summary.trips_by_name().into_iter().map(|(cause, n)| (cause.to_string(), n)).collect(),
            failovers: summary.failovers,
            gpu_figures: self.gpu_meter.as_ref().and_then(GpuMeter::newest),
            stages_us: stages(recorder),
            lateness_peaks: recorder.lateness_peaks.ended(),
            process: None, // the observer adds it
        }
    }

    fn quality(&self, summary: &Summary) -> Option<Quality> {
        let last = summary.last.as_ref()?;
        let reason = match (last.quality, self.held, summary.stepped_down) {
            (QualityLevel::BEST, ..) => None,
            (_, Some(_), _) => Some("held there by --quality".to_string()),
            (_, None, Some(step)) => Some(self.why_lower(&step, last.slot)),
            (_, None, None) => Some("the reason was not recorded".to_string()), // the record was dropped
        };
        Some(Quality { level: last.quality.index(), lowest: self.lowest.index(), reason })
    }

    fn why_lower(&self, StepDown { slot, from, took }: &StepDown, now: Instant) -> String {
        let target = self.target.as_secs_f64() * 1e3;
        let ago = now.since(*slot).as_secs_f64();
        let took = match took {
            Some(took) => format!("took {:.1} ms", took.as_secs_f64() * 1e3),
            None => "did not end in time".to_string(),
        };
        format!("a cycle at level {} {took}, {ago:.1} s ago; the target is {target:.1} ms", from.index())
    }

    fn gpu(&self, state: Option<EngineState>) -> Option<GpuStatus> {
        let Some(Device { name }) = &self.device else {
            let why = Some(self.no_device.clone());
            return Some(GpuStatus { name: None, computes: false, why, attempt: None, attempt_in_s: None });
        };
        let (why, attempt, left) = match state? {
            EngineState::Running => (None, None, None),
            EngineState::StandIn { loss, attempt, left } => {
                (Some(format!("GPU lost ({loss})")), Some(attempt), Some(left))
            }
            state @ (EngineState::Rebuilding { .. } | EngineState::Retired | EngineState::NoLink { .. }) => {
                (Some(format!("the engine on the CPU is {state}")), None, None)
            }
        };
        let (name, computes) = (name.clone(), why.is_none());
        Some(GpuStatus { name, computes, why, attempt, attempt_in_s: left.map(Span::as_secs_f64) })
    }

    fn temperatures(&self, summary: &Summary) -> BTreeMap<String, Option<f32>> {
        let value = |channel: usize| summary.last.as_ref()?.frame.used().get(channel)?.good();
        self.temperatures.iter().map(|(channel, name)| (name.clone(), value(*channel))).collect()
    }
}

fn stages(recorder: &Recorder) -> BTreeMap<String, Latency> {
    let parts = DeviceTimes::PARTS.into_iter().zip(&recorder.device);
    parts.filter_map(|(name, times)| Some((name.to_string(), Latency::of(times)?))).collect()
}

fn answer(summary: &Summary) -> Option<AnswerStatus> {
    let (last, (response, slot)) = (summary.last.as_ref()?, summary.answer?);
    Some(AnswerStatus {
        cycle: response.cycle,
        age_ms: last.slot.since(slot).as_secs_f64() * 1e3,
        confidence: response.confidence,
        novelty: response.novelty,
    })
}

/// Collects the figures at intervals, for callers that ask for the status.
pub struct Observer {
    instruments: Instruments,
    measured: Arc<Mutex<Measured>>,
    due: Instant,
    usage: Arc<UsageMeter>,
    /// Whether it has logged that the gyroscope measures the opposite.
    has_warned: bool,
}

impl Observer {
    /// An observer that stores the figures in `measured`. `usage`: the meter of the run's recording, if there
    /// is one.
    pub fn new(instruments: Instruments, measured: Arc<Mutex<Measured>>, usage: Arc<UsageMeter>) -> Observer {
        Observer { instruments, measured, due: Instant::ZERO, usage, has_warned: false }
    }

    /// Collects the figures if they are due; called by the non-real-time thread.
    pub fn observe(&mut self, recorder: &Recorder, now: Instant) {
        if now < self.due {
            return;
        }
        self.due = now + EVERY;
        self.instruments.take_link_message();
        let process = Some(self.usage.at(now));
        let measured = Measured { process, ..self.instruments.read(recorder) };
        self.warn_of_gyroscope(&measured);
        *self.measured.lock().unwrap_or_else(PoisonError::into_inner) = measured;
    }

    /// Whether the gyroscope measures the opposite of the commanded turns; true only once.
    fn finds_opposite(&mut self, measured: &Measured) -> bool {
        let share = measured.goal.as_ref().and_then(|goal| goal.turns_measured);
        share.is_some_and(is_opposite) && !std::mem::replace(&mut self.has_warned, true)
    }

    /// Logs once that the gyroscope measures the opposite of the commanded turns.
    fn warn_of_gyroscope(&mut self, measured: &Measured) {
        if self.finds_opposite(measured) {
            log::warn!(
                "the gyroscope measures the opposite of the commanded turns and is not used; the heading so far is \
                 wrong. Mount it the right way up, or correct what makes the robot turn the wrong way, and restart"
            );
        }
    }
}

/// The newest figures.
pub(super) fn newest(measured: &Mutex<Measured>) -> Measured {
    measured.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::command::Requester;
    use crate::decision::motion::OdometryPose;
    use crate::field::navigate::goals::GoalReport;
    use crate::field::navigate::navigator::State;

    #[test]
    fn a_gyroscope_that_measures_the_opposite_is_logged_once() {
        let mut observer = Observer::new(Instruments::default(), Arc::default(), Arc::default());
        let with = |turns_measured| {
            let pose = OdometryPose::default();
            let requester = Requester::Field;
            let goal = GoalReport {
                order: 0,
                pose,
                turns_measured,
                goal: None,
                left: 0,
                state: State::Idle,
                requester,
            };
            let goal = GoalStatus::of(&goal, &[], EngineState::default());
            Measured { goal: Some(goal), ..Measured::default() }
        };
        let shares = [None, Some(-0.4), Some(-0.6), Some(-0.6)];
        assert_eq!(shares.map(|share| observer.finds_opposite(&with(share))), [false, false, true, false]);
    }

    #[test]
    fn the_status_shows_the_usage_that_the_recording_has_read() {
        let (usage, measured) = (Arc::<UsageMeter>::default(), Arc::default());
        let recorded = usage.at(Instant::ZERO);
        let memory = vec![1u8; 64 << 20]; // each page is written, so a new reading would differ
        let mut observer = Observer::new(Instruments::default(), Arc::clone(&measured), usage);
        observer.observe(&Recorder::new(Span::from_millis(10), 0), Instant::ZERO + Span::from_millis(900));
        assert_eq!(newest(&measured).process, Some(recorded));
        drop(memory);
    }
}
