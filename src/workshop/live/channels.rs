//! The channels that viewers subscribe to, and their messages, from a robot's status.

use super::protocol::Advertised;
use super::room;
use crate::base::time::Instant;
use crate::decision::motion::OdometryPose;
use crate::drive::record::{
    CommandMessage, Facts, FrameMessage, Scene, SceneMessages, SceneMoment, Topic, image,
};
use crate::runtime::control::Status;
use serde::Serialize;
use serde_json::{Value, json};

/// The channels, in the order of their numbers. Lateness is missing: a status has its distribution over the
/// whole run (`/status`), whereas a recording has the largest value since the last message. The process's
/// resource usage is in recordings only.
const TOPICS: [Topic; 10] = [
    Topic::Frame,
    Topic::Command,
    Topic::Mode,
    Topic::Reflex,
    Topic::Quality,
    Topic::Field,
    Topic::Status,
    Topic::Scene,
    Topic::Path,
    Topic::Slices,
];

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
        let numbered = TOPICS.iter().enumerate();
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

    /// Number of channels.
    pub(super) const COUNT: usize = TOPICS.len();

    /// Each channel's message; `None` if the channel has none now. `scene` draws this robot.
    pub(super) fn messages(
        status: &Status,
        scene: &mut Scene,
        now: Instant,
    ) -> [Option<Vec<u8>>; Channels::COUNT] {
        let drawn = draw(status, scene, now);
        let message = |topic| match topic {
            Topic::Frame => json(&frame(status)),
            Topic::Command => json(&command(status)),
            Topic::Mode => json(&mode(status)),
            Topic::Reflex => json(&json!({"active": status.causes, "latched": latched(status)})),
            Topic::Quality => json(&quality(status)?),
            Topic::Field => json(&field(status)?),
            Topic::Status => json(&whole(status)),
            Topic::Scene => json(&drawn.as_ref()?.scene),
            Topic::Path => json(drawn.as_ref()?.path.as_ref()?),
            Topic::Slices => json(&image(now, status.slices.clone()?)),
            Topic::Lateness | Topic::Process => None,
        };
        TOPICS.map(message)
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

/// The status without the parts that other channels carry.
fn whole(status: &Status) -> Status {
    let measured = status.measured.clone().without_slots();
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
        json["slices"] = json!({
            "cycle": 7, "channels": [5, 17, 40, 50], "planes": [1, 2, 3, 4], "range": [-0.5, 0.5], "width": 2,
            "height": 2, "data": "AAAAAA==",
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn every_message_has_only_keys_of_its_channels_schema() {
        let status = status("");
        let advertised = Channels::of(&status).advertised();
        let messages = Channels::messages(&status, &mut Scene::default(), Instant::ZERO);
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

    #[test]
    fn messages_hold_what_the_status_says() {
        let read = |topic: &str| -> Value {
            let at = TOPICS.iter().position(|other| other.name() == topic).unwrap();
            let messages = Channels::messages(&status(""), &mut Scene::default(), Instant::ZERO);
            serde_json::from_slice(messages[at].as_ref().unwrap()).unwrap()
        };
        assert_eq!(read("/frame")["value"]["range"], 0.1, "the sensor's f32, not a nearby double");
        let command = read("/command");
        assert_eq!((&command["motor"]["left"], &command["source"]), (&json!(-0.25), &json!("a reflex")));
        assert_eq!(read("/mode")["mode"], "armed");
        assert_eq!(read("/quality")["level"], 2);
        assert_eq!(read("/field")["age_us"], 3_000.0);
        let goal = &read("/scene")["entities"][1];
        assert_eq!((&goal["id"], &goal["texts"][0]["text"]), (&json!("goal"), &json!("going")));
        assert_eq!((&read("/status")["mode"], read("/status").get("sensors")), (&json!("armed"), None));
    }
}
