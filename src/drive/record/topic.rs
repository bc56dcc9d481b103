//! The channels that plotters and viewers show, with the JSON schemas of their messages.

use super::facts::Facts;
use super::image::{IMAGE_TYPE, image_schema};
use super::scene::{SCENE_TYPE, scene_schema};
use serde_json::{Value, json};

/// A channel, by its position in [`Topic::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// Sensors: value, age, health.
    Frame,
    /// The commands for the motors.
    Command,
    /// Mode of the robot, its reasons, and what was requested.
    Mode,
    /// Causes of reflexes, when they trip and clear, and the limits.
    Reflex,
    /// Quality level.
    Quality,
    /// The loop's release lateness, execution time and time to the wire, and slots lost.
    Lateness,
    /// The field's newest answer, and its times.
    Field,
    /// The robot's status, as `ganglion status --json` shows it.
    Status,
    /// Resources that the process uses, and what the recording has lost.
    Process,
    /// An outside view of the robot, for 3-D panels.
    Scene,
    /// The path that the robot has driven, for 3-D panels.
    Path,
    /// Slices through the field, for image panels.
    Slices,
}

impl Topic {
    /// Every channel.
    pub const ALL: [Topic; 12] = [
        Topic::Frame,
        Topic::Command,
        Topic::Mode,
        Topic::Reflex,
        Topic::Quality,
        Topic::Lateness,
        Topic::Field,
        Topic::Status,
        Topic::Process,
        Topic::Scene,
        Topic::Path,
        Topic::Slices,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Topic::Frame => "/frame",
            Topic::Command => "/command",
            Topic::Mode => "/mode",
            Topic::Reflex => "/reflex",
            Topic::Quality => "/quality",
            Topic::Lateness => "/lateness",
            Topic::Field => "/field",
            Topic::Status => super::STATUS_TOPIC,
            Topic::Process => super::PROCESS_TOPIC,
            Topic::Scene => "/scene",
            Topic::Path => "/path",
            Topic::Slices => super::SLICES_TOPIC,
        }
    }

    /// The type of its messages: one that viewers know, or one of ours.
    pub fn schema_name(self) -> String {
        match self {
            Topic::Scene | Topic::Path => SCENE_TYPE.into(),
            Topic::Slices => IMAGE_TYPE.into(),
            other => format!("ganglion.{}", &other.name()[1..]),
        }
    }

    /// The JSON schema of its messages. A missing value is null, though the schema does not say so:
    /// Lichtblick (1.28, `parseJsonSchema.ts`) refuses a topic with a list of types, and accepts null for any
    /// type.
    pub fn schema(self, facts: &Facts) -> Value {
        let number = || json!({"type": "number"});
        let text = || json!({"type": "string"});
        let texts = || json!({"type": "array", "items": {"type": "string"}});
        let each = |names: &mut dyn Iterator<Item = (&str, &str)>, kind: &str| {
            let of =
                |(name, about): (&str, &str)| (name.to_string(), json!({"type": kind, "description": about}));
            object(names.map(of).collect())
        };
        let named = |names: &[&str]| names.iter().map(|name| (name.to_string(), number())).collect();
        let sensors = || facts.sensors.iter().map(|(name, unit)| (name.as_str(), unit.as_str()));
        match self {
            Topic::Frame => object(vec![
                ("value".into(), each(&mut sensors(), "number")),
                ("age_ms".into(), each(&mut sensors().map(|(name, _)| (name, "ms")), "number")),
                ("health".into(), each(&mut sensors().map(|(name, _)| (name, "good or why not")), "string")),
            ]),
            Topic::Command => object(vec![
                ("source".into(), text()),
                (
                    "motor".into(),
                    each(&mut facts.motors.iter().map(|name| (name.as_str(), "-1..=1")), "number"),
                ),
            ]),
            Topic::Mode => object(vec![
                ("mode".into(), text()),
                ("code".into(), number()),
                ("requested".into(), texts()),
                ("reasons".into(), texts()),
            ]),
            Topic::Reflex => object(vec![
                ("active".into(), texts()),
                ("tripped".into(), texts()),
                ("cleared".into(), texts()),
                ("latched".into(), texts()),
                ("stopped_at_once".into(), texts()),
                ("limits".into(), object(named(&["forward", "backward", "steer"]))),
            ]),
            Topic::Quality => object([named(&["level", "took_us"]), vec![("why".into(), text())]].concat()),
            Topic::Lateness => object(named(&["release_us", "work_us", "wire_us", "slots_lost"])),
            Topic::Field => object(
                [
                    vec![("engine".into(), text())],
                    named(&["span_us", "answer_us", "age_us", "level", "confidence", "skill", "novelty"]),
                    named(&["queue_us", "kernels_us", "wake_us"]),
                    vec![("goal_state".into(), text()), ("goal_why".into(), text())],
                    named(&["goal_x", "goal_y", "at_x", "at_y", "heading_deg"]),
                ]
                .concat(),
            ),
            Topic::Status => json!({"type": "object"}),
            Topic::Process => {
                object(named(&["resident_kib", "locked_kib", "threads", "open_files", "slots_unrecorded"]))
            }
            Topic::Scene | Topic::Path => scene_schema(),
            Topic::Slices => image_schema(),
        }
    }
}

fn object(properties: Vec<(String, Value)>) -> Value {
    json!({"type": "object", "properties": properties.into_iter().collect::<serde_json::Map<_, _>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every `type` in a schema.
    fn types(schema: &Value, found: &mut Vec<Value>) {
        match schema {
            Value::Object(entries) => entries.iter().for_each(|(key, value)| match key.as_str() {
                "type" if !value.is_object() => found.push(value.clone()),
                _ => types(value, found),
            }),
            Value::Array(items) => items.iter().for_each(|item| types(item, found)),
            _ => {}
        }
    }

    #[test]
    fn every_type_in_a_schema_is_a_single_one() {
        let facts = Facts {
            sensors: vec![("range".into(), "m".into())],
            motors: vec!["left".into()],
            ..Facts::default()
        };
        for topic in Topic::ALL {
            let mut found = Vec::new();
            types(&topic.schema(&facts), &mut found);
            assert!(!found.is_empty() && found.iter().all(Value::is_string), "{}: {found:?}", topic.name());
        }
    }
}
