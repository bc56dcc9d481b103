//! The messages of Foxglove's WebSocket protocol that are used here.

use serde::{Deserialize, Serialize};
use serde_json::json;

/// The versions of the protocol that the server speaks, the newest first.
pub(super) const SUBPROTOCOLS: [&str; 2] = ["foxglove.sdk.v1", "foxglove.websocket.v1"];

/// First byte of a message with a channel's data.
const MESSAGE_DATA: u8 = 1;
/// Identifies the notice that the robot does not answer, so that it can be removed.
const SILENT: &str = "robot";

/// A channel, as advertised to viewers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Advertised {
    pub id: u32,
    pub topic: &'static str,
    pub encoding: &'static str,
    pub schema_name: String,
    pub schema: String,
    pub schema_encoding: &'static str,
}

/// How urgent a notice is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Level {
    Warning = 1,
    Error = 2,
}

/// A viewer's request.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(tag = "op", rename_all = "camelCase")]
pub(super) enum Request {
    /// Start sending these channels.
    Subscribe { subscriptions: Vec<Subscription> },
    /// Stop sending the channels of these subscriptions.
    #[serde(rename_all = "camelCase")]
    Unsubscribe { subscription_ids: Vec<u32> },
    /// A request that needs a capability which the server does not have.
    #[serde(other)]
    Other,
}

/// The viewer's own number for a subscription, and the channel.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub(super) struct Subscription {
    pub id: u32,
    pub channel_id: u32,
}

/// The first message to a viewer. `session` differs between servers, and between runs of the robot.
pub(super) fn server_info(robot: &str, session: &str) -> String {
    json!({"op": "serverInfo", "name": robot, "capabilities": [], "sessionId": session}).to_string()
}

/// The list of channels.
pub(super) fn advertise(channels: &[Advertised]) -> String {
    json!({"op": "advertise", "channels": channels}).to_string()
}

/// A notice that a viewer shows.
pub(super) fn notice(level: Level, text: &str) -> String {
    json!({"op": "status", "level": level as u8, "message": text}).to_string()
}

/// The notice that the robot does not answer.
pub(super) fn silent(why: &str) -> String {
    let text = format!("the robot does not answer: {why}");
    json!({"op": "status", "level": Level::Error as u8, "message": text, "id": SILENT}).to_string()
}

/// Removes the notice that the robot does not answer.
pub(super) fn answers_again() -> String {
    json!({"op": "removeStatus", "statusIds": [SILENT]}).to_string()
}

/// A channel's message for the viewer's subscription `id`, with its time in nanoseconds.
pub(super) fn message_data(id: u32, time_ns: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + size_of::<u32>() + size_of::<u64>() + payload.len());
    bytes.push(MESSAGE_DATA);
    bytes.extend_from_slice(&id.to_le_bytes());
    bytes.extend_from_slice(&time_ns.to_le_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_the_specification_are_understood() {
        let read = |text| serde_json::from_str::<Request>(text).unwrap();
        let subscribe = r#"{"op": "subscribe", "subscriptions": [{"id": 0, "channelId": 3}]}"#;
        let subscriptions = vec![Subscription { id: 0, channel_id: 3 }];
        assert_eq!(read(subscribe), Request::Subscribe { subscriptions });
        let unsubscribe = r#"{"op": "unsubscribe", "subscriptionIds": [0, 1]}"#;
        assert_eq!(read(unsubscribe), Request::Unsubscribe { subscription_ids: vec![0, 1] });
        let parameters = r#"{"op": "getParameters", "parameterNames": ["/a"], "id": "1"}"#;
        assert_eq!(read(parameters), Request::Other);
    }
}
