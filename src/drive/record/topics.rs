//! The messages of the channels for viewers, as JSON. Values are sent at fixed rates, events when they
//! happen; the complete slots have a channel of their own.

use super::due::is_due;
use super::facts::Facts;
use super::scene::{Scene, SceneMessages, SceneMoment};
use super::slot::Slot;
use super::topic::Topic;
use crate::base::frame::Health;
use crate::base::plan::Cause;
use crate::base::time::{Instant, Span};
use crate::decision::admit::{REFUSALS, refusal};
use crate::decision::mode::Mode;
use crate::field::navigate::goals::GoalReport;
use crate::system::rt::ProcessUsage;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Interval between messages about the frame, the lateness and the field.
const FIGURES: Span = Span::from_millis(100);
/// Interval between messages about the commands.
const COMMANDS: Span = Span::from_millis(50);
/// Interval between messages about the scene. They are ten times as long as those about the field.
const SCENES: Span = Span::from_millis(200);
/// Interval at which an unchanged quality level is repeated, for readers that start in the middle of a file.
const QUALITY: Span = Span::from_millis(1_000);

/// The sensors by name.
#[derive(Default, Serialize)]
pub struct FrameMessage<'a> {
    /// Value in the sensor's unit; `None`: never read.
    pub value: BTreeMap<&'a str, Option<f32>>,
    /// Age of the value.
    pub age_ms: BTreeMap<&'a str, Option<f32>>,
    /// Whether the value is credible, or why not.
    pub health: BTreeMap<&'a str, &'a str>,
}

/// A command to the motors.
#[derive(Serialize)]
pub struct CommandMessage<'a> {
    /// What decided it.
    pub source: &'a str,
    /// By motor name, -1..=1.
    pub motor: BTreeMap<&'a str, f32>,
}

/// Resources that the process uses, and the slots that are missing from the recording so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMessage {
    /// Memory, threads, open files.
    #[serde(flatten)]
    pub usage: ProcessUsage,
    /// Slots that ran but could not be recorded.
    pub slots_unrecorded: u64,
}

/// The maxima since the last message, microseconds, and the number of slots lost since then.
#[derive(Clone, Copy, Default, Serialize)]
struct LatenessMessage {
    release_us: f32,
    work_us: f32,
    wire_us: Option<f32>,
    slots_lost: u64,
}

#[derive(Serialize)]
struct FieldMessage {
    engine: String,
    span_us: f32,
    answer_us: f32,
    age_us: f32,
    level: usize,
    confidence: Option<f32>,
    skill: Option<f32>,
    novelty: Option<f32>,
    queue_us: Option<f32>,
    kernels_us: Option<f32>,
    wake_us: Option<f32>,
    goal_state: Option<&'static str>,
    goal_why: Option<&'static str>,
    goal_x: Option<f64>,
    goal_y: Option<f64>,
    at_x: Option<f64>,
    at_y: Option<f64>,
    heading_deg: Option<f64>,
}

/// Generates the messages of one file.
#[derive(Default)]
pub struct Topics {
    sensors: Vec<String>,
    motors: Vec<String>,
    framed: Option<Instant>,
    commanded: Option<Instant>,
    graded: Option<(Instant, usize)>,
    fielded: Option<Instant>,
    drawn: Option<Instant>,
    scene: Scene,
    mode: Option<Mode>,
    active: Option<u16>,
    late: LatenessMessage,
}

impl Topics {
    /// A generator that has not generated any messages yet.
    pub fn new(facts: &Facts) -> Topics {
        let sensors = facts.sensors.iter().map(|(name, _)| name.clone()).collect();
        let scene = Scene::new(facts.shape.clone());
        Topics { sensors, motors: facts.motors.clone(), scene, ..Topics::default() }
    }

    /// The messages that result from `slot`.
    pub fn of(&mut self, slot: &Slot) -> Vec<(Topic, Vec<u8>)> {
        let mut made = Vec::new();
        let mut put = |topic, message: serde_json::Result<Vec<u8>>| {
            // Cannot fail: maps with text keys can always be serialised.
            made.extend(message.ok().map(|message| (topic, message)));
        };
        self.watch_lateness(slot);
        if is_due(&mut self.framed, slot.slot, FIGURES) {
            put(Topic::Frame, serde_json::to_vec(&self.frame(slot)));
            put(Topic::Lateness, serde_json::to_vec(&std::mem::take(&mut self.late)));
        }
        if is_due(&mut self.commanded, slot.slot, COMMANDS) {
            put(Topic::Command, serde_json::to_vec(&self.command(slot)));
        }
        if self.mode.replace(slot.mode) != Some(slot.mode) || slot.asked != Default::default() {
            put(Topic::Mode, serde_json::to_vec(&mode(slot)));
        }
        let before = self.active.replace(slot.active);
        if before != Some(slot.active) || slot.tripped != 0 || slot.signals.halts != 0 {
            put(Topic::Reflex, serde_json::to_vec(&reflex(slot, before.unwrap_or(0))));
        }
        let level = slot.quality.index();
        if self.graded.is_none_or(|(at, graded)| graded != level || slot.slot.since(at) >= QUALITY) {
            let why = self.graded.map_or("begin", |(_, before)| why(before, level));
            self.graded = Some((slot.slot, level));
            let took = slot.field.as_ref().map(|field| micros(field.span));
            put(Topic::Quality, serde_json::to_vec(&json!({"level": level, "took_us": took, "why": why})));
        }
        if slot.field.is_some() && is_due(&mut self.fielded, slot.slot, FIGURES) {
            put(Topic::Field, serde_json::to_vec(&slot.field.as_ref().map(field)));
        }
        if let Some(goal) = slot.field.as_ref().and_then(|field| field.goal)
            && is_due(&mut self.drawn, slot.slot, SCENES)
        {
            let SceneMessages { scene, path } = self.scene(slot, &goal);
            put(Topic::Scene, serde_json::to_vec(&scene));
            if let Some(path) = path {
                put(Topic::Path, serde_json::to_vec(&path));
            }
        }
        made
    }

    /// The scene at this slot. Without a navigator there is none: such a robot does not know its position.
    fn scene(&mut self, slot: &Slot, goal: &GoalReport) -> SceneMessages {
        let moment = SceneMoment {
            time: slot.slot,
            pose: goal.pose,
            goal: goal.goal,
            doing: goal.state.why().unwrap_or(goal.state.name()),
        };
        let sensors = &self.sensors;
        self.scene.messages(moment, |name| {
            let (_, sample) = sensors.iter().zip(&slot.frame).find(|(sensor, _)| *sensor == name)?;
            sample.good().map(f64::from)
        })
    }

    fn watch_lateness(&mut self, slot: &Slot) {
        let late = &mut self.late;
        late.release_us = late.release_us.max(micros(slot.began.since(slot.slot)));
        late.work_us = late.work_us.max(micros(slot.ended.since(slot.began)));
        late.slots_lost += slot.lost;
        for receipt in slot.receipts.iter().filter(|receipt| receipt.complete) {
            let wire = micros(receipt.at.since(receipt.slot));
            late.wire_us = Some(late.wire_us.map_or(wire, |before| before.max(wire)));
        }
    }

    fn frame(&self, slot: &Slot) -> FrameMessage<'_> {
        let mut message = FrameMessage::default();
        for (name, sample) in self.sensors.iter().zip(&slot.frame) {
            let known = sample.health != Health::Never;
            message.value.insert(name, known.then_some(sample.value));
            message.age_ms.insert(name, known.then(|| micros(slot.began.since(sample.stamp)) / 1e3));
            message.health.insert(name, health(sample.health));
        }
        message
    }

    fn command(&self, slot: &Slot) -> CommandMessage<'_> {
        let motor = self.motors.iter().map(String::as_str).zip(slot.motors.iter().copied()).collect();
        CommandMessage { source: slot.source.text(), motor }
    }
}

fn micros(span: Span) -> f32 {
    (span.as_nanos() as f64 / 1e3) as f32
}

/// The name of a sample's health: good, stale, never (there was no value yet), or why the value is not
/// credible.
pub fn health(health: Health) -> &'static str {
    match health {
        Health::Never => "never",
        Health::Good => "good",
        Health::Stale => "stale",
        Health::Bad(fault) => REFUSALS[refusal(fault)],
    }
}

/// The names of a set of causes.
pub fn causes(set: u16) -> Vec<&'static str> {
    Cause::ALL.into_iter().filter(|cause| set & cause.bit() != 0).map(Cause::name).collect()
}

fn why(before: usize, level: usize) -> &'static str {
    match level.cmp(&before) {
        std::cmp::Ordering::Less => "there was time for more",
        std::cmp::Ordering::Greater => "a cycle took too long",
        std::cmp::Ordering::Equal => "as before",
    }
}

fn mode(slot: &Slot) -> Value {
    let asked = slot.asked;
    let asked = [("stop", asked.stop), ("disarm", asked.disarm), ("arm", asked.arm)];
    let requested: Vec<&str> = asked.into_iter().filter(|(_, asked)| *asked).map(|(name, _)| name).collect();
    let reasons: Vec<&str> = match slot.mode {
        Mode::SelfTest { missing } => missing.reasons().collect(),
        Mode::Degraded { why, .. } => causes(why),
        Mode::Latched { cause } => vec![cause.name()],
        Mode::Disarmed if slot.signals.slept.is_some() => vec!["the machine slept"],
        Mode::Boot | Mode::Disarmed | Mode::Armed { .. } | Mode::Stopped => Vec::new(),
    };
    json!({"mode": slot.mode.name(), "code": slot.mode.code(), "requested": requested, "reasons": reasons})
}

fn reflex(slot: &Slot, before: u16) -> Value {
    let limits = slot.limits;
    json!({
        "active": causes(slot.active),
        "tripped": causes(slot.tripped),
        "cleared": causes(before & !slot.active),
        "latched": causes(slot.latched),
        "stopped_at_once": causes(slot.signals.halts),
        "limits": {"forward": limits.forward, "backward": limits.backward, "steer": u8::from(limits.steer)},
    })
}

fn field(field: &super::slot::FieldRecord) -> FieldMessage {
    let answer = field.answer.as_ref();
    let (goal, place) = (field.goal, field.goal.and_then(|goal| goal.goal));
    FieldMessage {
        engine: field.state.clone().unwrap_or_else(|| "running".to_string()),
        span_us: micros(field.span),
        answer_us: micros(field.took),
        age_us: micros(field.age),
        level: field.quality.index(),
        confidence: answer.map(|answer| answer.confidence),
        skill: answer.map(|answer| answer.skill),
        novelty: answer.map(|answer| answer.novelty),
        queue_us: field.times.map(|times| micros(times.queue)),
        kernels_us: field.times.map(|times| micros(times.kernels)),
        wake_us: field.times.map(|times| micros(times.wake)),
        goal_state: goal.map(|goal| goal.state.name()),
        goal_why: goal.and_then(|goal| goal.state.why()),
        goal_x: place.map(|[x, _]| x),
        goal_y: place.map(|[_, y]| y),
        at_x: goal.map(|goal| goal.pose.at[0]),
        at_y: goal.map(|goal| goal.pose.at[1]),
        heading_deg: goal.map(|goal| goal.pose.heading.to_degrees()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::slot::full;
    use super::*;
    use crate::base::command::Source;

    #[test]
    fn a_command_names_its_source_as_the_status_does() {
        for source in Source::ALL {
            let messages = Topics::new(&Facts::default()).of(&Slot { source, ..full(0) });
            let (_, bytes) = messages.into_iter().find(|(topic, _)| topic.name() == "/command").unwrap();
            let read: Value = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(read["source"], source.text(), "{source:?}");
        }
    }

    #[test]
    fn events_are_sent_at_once_and_figures_at_their_rate() {
        let sensors = ["a", "b", "c"].map(|name| (name.to_string(), "m".to_string())).to_vec();
        let facts = Facts { sensors, motors: vec!["left".into(), "right".into()], ..Facts::default() };
        let mut topics = Topics::new(&facts);
        let mut counts = BTreeMap::new();
        for index in 0..100 {
            let calm = Slot { tripped: 0, asked: Default::default(), ..full(index) };
            let calm = Slot { signals: Default::default(), active: if index < 50 { 4 } else { 0 }, ..calm };
            for (topic, bytes) in topics.of(&calm) {
                let read: Value = serde_json::from_slice(&bytes).unwrap();
                let schema = topic.schema(&facts);
                for key in read.as_object().unwrap().keys() {
                    assert!(schema["properties"].get(key).is_some(), "{}: {key}", topic.name());
                }
                *counts.entry(topic.name()).or_insert(0) += 1;
            }
        }
        // One second at 100 Hz: the mode stays the same, and one cause clears.
        let expected = [("/command", 20), ("/field", 10), ("/frame", 10), ("/lateness", 10), ("/mode", 1)];
        let expected =
            expected.into_iter().chain([("/path", 1), ("/quality", 1), ("/reflex", 2), ("/scene", 5)]);
        assert_eq!(counts, expected.collect());
    }
}
