//! The channels that viewers subscribe to, and their messages, from a robot's status.

use super::protocol::Advertised;
use super::room;
use crate::base::time::Instant;
use crate::decision::motion::OdometryPose;
use crate::drive::record::{
    CommandMessage, Facts, FrameMessage, RecordingStatus, RobotShape, Scene, SceneMessages, SceneMoment,
    Topic, image,
};
use crate::drive::trace::LatenessPeak;
use crate::runtime::control::Status;
use crate::system::rt::ProcessUsage;
use serde::Serialize;
use serde_json::{Value, json};

/// The channels of one robot.
#[derive(Clone, Debug, PartialEq)]
pub struct Channels {
    sensors: Vec<(String, String)>,
    motors: Vec<String>,
}

impl Channels {
    /// The channels of the robot with this status.
    pub fn of(status: &Status) -> Channels {
        let sensors = status.measured.sensors.iter();
        let motors = status.measured.motors.iter();
        Channels {
            sensors: sensors.map(|sensor| (sensor.name.clone(), sensor.unit.clone())).collect(),
            motors: motors.map(|motor| motor.name.clone()).collect(),
        }
    }

    /// How the channels are advertised to viewers.
    pub(super) fn advertised(&self) -> Vec<Advertised> {
        let facts = Facts { sensors: self.sensors.clone(), motors: self.motors.clone(), ..Facts::default() };
        let numbered = Topic::ALL.iter().enumerate();
        let advertised = numbered.map(|(id, topic)| Advertised {
            id: id as u32,
            topic: topic.name(),
            encoding: "json",
            schema_name: topic.schema_name(),
            schema: topic.schema(&facts).to_string(),
            schema_encoding: "jsonschema",
        });
        advertised.collect()
    }

    /// Number of channels: every topic of a recording, except `/slot` and `/checkpoint`, which only a replay
    /// can read. A channel's number is its topic's place in [`Topic::ALL`].
    pub(super) const COUNT: usize = Topic::ALL.len();

    /// Each channel's message; `None` if the channel has none now. `followed` is the robot of this status.
    pub(super) fn messages(
        status: &Status,
        followed: &mut Followed,
        now: Instant,
    ) -> [Option<Vec<u8>>; Channels::COUNT] {
        let drawn = draw(status, &mut followed.scene, now);
        let lateness = followed.lateness(status);
        let message = |topic| match topic {
            Topic::Frame => json(&frame(status)),
            Topic::Command => json(&command(status)),
            Topic::Mode => json(&mode(status)),
            Topic::Reflex => json(&json!({"active": status.causes, "latched": latched(status)})),
            Topic::Quality => json(&quality(status)?),
            Topic::Lateness => json(lateness.as_ref()?),
            Topic::Field => json(&field(status)?),
            Topic::Status => json(&whole(status)),
            Topic::Process => json(&process(status)?),
            Topic::Scene => json(&drawn.as_ref()?.scene),
            Topic::Path => json(drawn.as_ref()?.path.as_ref()?),
            Topic::Slices => json(&image(now, status.slices.clone()?)),
        };
        Topic::ALL.map(message)
    }
}

/// What is known of a robot from its earlier statuses.
#[derive(Default)]
pub(super) struct Followed {
    /// Draws the robot.
    pub scene: Scene,
    /// The last slot whose lateness was sent.
    slot: Option<u64>,
}

impl Followed {
    /// A robot of this shape, without earlier statuses.
    pub(super) fn new(shape: RobotShape) -> Followed {
        Followed { scene: Scene::new(shape), slot: None }
    }

    /// The largest times since the last message; `None`: no stretch of slots has ended since then.
    fn lateness(&mut self, status: &Status) -> Option<Value> {
        let peaks = status.measured.lateness_peaks.iter().copied();
        let LatenessPeak { slot, release_us, work_us, wire_us, slots_lost } =
            peaks.filter(|peak| Some(peak.slot) > self.slot).reduce(LatenessPeak::with)?;
        self.slot = Some(slot);
        Some(
            json!({"release_us": release_us, "work_us": work_us, "wire_us": wire_us, "slots_lost": slots_lost}),
        )
    }
}

/// `message` as JSON. Cannot fail: maps with text keys can always be serialised.
fn json(message: &impl Serialize) -> Option<Vec<u8>> {
    serde_json::to_vec(message).ok()
}

fn frame(status: &Status) -> FrameMessage<'_> {
    let mut message = FrameMessage::default();
    for sensor in &status.measured.sensors {
        let name = sensor.name.as_str();
        message.value.insert(name, sensor.value);
        message.age_ms.insert(name, sensor.age_ms.map(|age| age as f32));
        message.health.insert(name, &sensor.health);
    }
    message
}

fn command(status: &Status) -> CommandMessage<'_> {
    let motors = status.measured.motors.iter();
    let motor = motors.map(|motor| (motor.name.as_str(), motor.command)).collect();
    CommandMessage { source: status.measured.commanded_by.as_deref().unwrap_or(""), motor }
}

fn latched(status: &Status) -> Vec<&str> {
    status.latched.iter().map(String::as_str).collect()
}

fn mode(status: &Status) -> Value {
    let causes = status.causes.iter().chain(&status.refusal).map(String::as_str);
    let reasons: Vec<&str> = latched(status).into_iter().chain(causes).collect();
    json!({"mode": status.mode, "reasons": reasons})
}

fn quality(status: &Status) -> Option<Value> {
    let quality = status.measured.quality.as_ref()?;
    Some(json!({"level": quality.level, "why": quality.reason.as_deref().unwrap_or("the best level")}))
}

fn field(status: &Status) -> Option<Value> {
    let (answer, goal) = (status.measured.answer, status.measured.goal.as_ref());
    if answer.is_none() && goal.is_none() {
        return None;
    }
    let place = goal.and_then(|goal| goal.goal);
    Some(json!({
        "engine": status.engine_state,
        "age_us": answer.map(|answer| answer.age_ms * 1e3),
        "level": status.measured.quality.as_ref().map(|quality| quality.level),
        "confidence": answer.map(|answer| answer.confidence),
        "novelty": answer.map(|answer| answer.novelty),
        "goal_state": goal.map(|goal| goal.state.as_str()),
        "goal_why": goal.and_then(|goal| goal.why.as_deref()),
        "goal_x": place.map(|[x, _]| x),
        "goal_y": place.map(|[_, y]| y),
        "at_x": goal.map(|goal| goal.at[0]),
        "at_y": goal.map(|goal| goal.at[1]),
        "heading_deg": goal.map(|goal| goal.heading_deg),
    }))
}

/// The robot at its estimated position, and the simulated room around it.
fn draw(status: &Status, scene: &mut Scene, now: Instant) -> Option<SceneMessages> {
    let goal = status.measured.goal.as_ref()?;
    let moment = SceneMoment {
        time: now,
        pose: OdometryPose { at: goal.at, heading: goal.heading_deg.to_radians() },
        goal: goal.goal,
        doing: goal.why.as_deref().unwrap_or(&goal.state),
    };
    let mut messages = scene.messages(moment, |name| {
        let sensor = status.measured.sensors.iter().find(|sensor| sensor.name == name)?;
        sensor.value.filter(|_| sensor.health == "good").map(f64::from)
    });
    if let (Some(room), Some(entities)) = (&status.room, messages.scene["entities"].as_array_mut()) {
        entities.push(room::draw(room, now));
    }
    Some(messages)
}

/// The process's usage, and how much its recording has lost: null if nothing is recorded.
fn process(status: &Status) -> Option<Value> {
    let ProcessUsage { resident_kib, locked_kib, threads, open_files } = status.measured.process?;
    let unrecorded = status.recording.as_ref().map(RecordingStatus::lost);
    Some(json!({
        "resident_kib": resident_kib,
        "locked_kib": locked_kib,
        "threads": threads,
        "open_files": open_files,
        "slots_unrecorded": unrecorded,
    }))
}

/// The status without the parts that other channels carry.
fn whole(status: &Status) -> Status {
    let measured = status.measured.clone().without_topics();
    Status { measured, slices: None, ..status.clone() }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::runtime::control::Sources;

    /// The status of a robot with one sensor and one motor. Its remark is `text`, which may have any length.
    pub(in super::super) fn status(text: &str) -> Status {
        let status = Sources::idle().status();
        let mut json = serde_json::to_value(status).unwrap();
        json["mode"] = json!("armed");
        json["remark"] = json!(text);
        json["sensors"] = json!([
            {"name": "range", "unit": "m", "value": 0.1, "age_ms": 12.0, "health": "good"},
        ]);
        json["motors"] = json!([{"name": "left", "command": -0.25}]);
        json["commanded_by"] = json!("a reflex");
        json["quality"] = json!({"level": 2, "lowest": 5, "reason": "a cycle took too long"});
        json["goal"] = json!({
            "order": 1, "goal": [2.0, 0.5], "left": 0, "state": "going", "why": null, "at": [1.0, 0.0],
            "heading_deg": 90.0,
        });
        json["answer"] = json!({"cycle": 7, "age_ms": 3.0, "confidence": 0.5, "novelty": 0.1});
        json["lateness_peaks"] = json!([peak(9, 80.0), peak(19, 60.0)]);
        json["process"] = json!({"resident_kib": 9_000, "locked_kib": 8_000, "threads": 9, "open_files": 7});
        json["slices"] = json!({
            "cycle": 7, "channels": [5, 17, 40, 50], "planes": [1, 2, 3, 4], "range": [-0.5, 0.5], "width": 2,
            "height": 2, "data": "AAAAAA==",
        });
        serde_json::from_value(json).unwrap()
    }

    fn peak(slot: u64, release_us: f64) -> Value {
        json!({"slot": slot, "release_us": release_us, "work_us": 50.0, "wire_us": 500.0, "slots_lost": 1})
    }

    #[test]
    fn every_message_has_only_keys_of_its_channels_schema() {
        let status = status("");
        let advertised = Channels::of(&status).advertised();
        let messages = Channels::messages(&status, &mut Followed::default(), Instant::ZERO);
        assert_eq!(advertised.len(), messages.len());
        for (channel, message) in advertised.iter().zip(&messages) {
            let schema: Value = serde_json::from_str(&channel.schema).unwrap();
            let message: Value = serde_json::from_slice(message.as_ref().unwrap()).unwrap();
            assert!(channel.topic == "/status" || schema["properties"].is_object(), "{}", channel.topic);
            for key in message.as_object().unwrap().keys().filter(|_| channel.topic != "/status") {
                assert!(schema["properties"].get(key).is_some(), "{}: {key}", channel.topic);
            }
        }
    }

    fn message(topic: &str, status: &Status, followed: &mut Followed) -> Option<Value> {
        let at = Topic::ALL.iter().position(|other| other.name() == topic).unwrap();
        let messages = Channels::messages(status, followed, Instant::ZERO);
        messages[at].as_ref().map(|message| serde_json::from_slice(message).unwrap())
    }

    #[test]
    fn each_late_slot_is_in_one_message_however_often_it_is_read() {
        let mut followed = Followed::default();
        let mut status = status("");
        let mut next = |peaks: Vec<Value>| {
            status.measured.lateness_peaks = serde_json::from_value(json!(peaks)).unwrap();
            let message = message("/lateness", &status, &mut followed)?;
            Some((message["release_us"].as_f64(), message["slots_lost"].as_u64()))
        };
        assert_eq!(next(vec![peak(9, 80.0), peak(19, 60.0)]), Some((Some(80.0), Some(2))));
        assert_eq!(next(vec![peak(9, 80.0), peak(19, 60.0)]), None, "nothing new");
        assert_eq!(next(vec![peak(19, 60.0), peak(29, 50.0)]), Some((Some(50.0), Some(1))));
        let late = vec![peak(29, 50.0), peak(39, 700.0), peak(49, 40.0)];
        assert_eq!(next(late), Some((Some(700.0), Some(2))), "also after a late request");
    }

    #[test]
    fn messages_hold_what_the_status_says() {
        let read = |topic: &str| -> Value { message(topic, &status(""), &mut Followed::default()).unwrap() };
        assert_eq!(read("/frame")["value"]["range"], 0.1, "the sensor's f32, not a nearby double");
        let command = read("/command");
        assert_eq!((&command["motor"]["left"], &command["source"]), (&json!(-0.25), &json!("a reflex")));
        assert_eq!(read("/mode")["mode"], "armed");
        assert_eq!(read("/quality")["level"], 2);
        assert_eq!(read("/field")["age_us"], 3_000.0);
        let lost = &read("/process")["slots_unrecorded"];
        assert_eq!((&read("/process")["open_files"], lost), (&json!(7), &Value::Null), "nothing is recorded");
        let goal = &read("/scene")["entities"][1];
        assert_eq!((&goal["id"], &goal["texts"][0]["text"]), (&json!("goal"), &json!("going")));
        let whole = read("/status");
        assert_eq!(whole["mode"], "armed");
        let elsewhere = ["sensors", "motors", "lateness_peaks", "process", "slices"];
        assert!(elsewhere.iter().all(|key| whole.get(key).is_none()), "other topics have these: {whole}");
    }
}
