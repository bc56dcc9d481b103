//! Slices through the field as an image that viewers can show: `foxglove.RawImage`, with the keys of
//! [`SlicesMessage`] added to its own.

use super::scene::timestamp;
use crate::base::time::Instant;
use crate::field::slices::SlicesMessage;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The type of the messages.
pub const IMAGE_TYPE: &str = "foxglove.RawImage";

/// A message: the image, and what its pixels mean.
#[derive(Serialize, Deserialize)]
pub struct ImageMessage {
    timestamp: Value,
    frame_id: String,
    encoding: String,
    step: u32,
    /// Width, height and pixels; cycle, channels, planes and value range.
    #[serde(flatten)]
    pub slices: SlicesMessage,
}

/// The message about `slices`, which were taken at `time`.
pub fn image(time: Instant, slices: SlicesMessage) -> ImageMessage {
    ImageMessage {
        timestamp: timestamp(time),
        frame_id: "field".into(),
        encoding: "mono8".into(),
        step: slices.width,
        slices,
    }
}

/// The schema of the messages.
pub fn image_schema() -> Value {
    let number = json!({"type": "number"});
    let whole = json!({"type": "integer"});
    let list = json!({"type": "array", "items": {"type": "number"}});
    json!({"title": IMAGE_TYPE, "type": "object", "properties": {
        "timestamp": {"type": "object", "title": "time", "properties": {"sec": whole, "nsec": whole}},
        "frame_id": {"type": "string"},
        "width": whole,
        "height": whole,
        "encoding": {"type": "string"},
        "step": whole,
        "data": {"type": "string", "contentEncoding": "base64"},
        "cycle": number,
        "channels": list,
        "planes": list,
        "range": list,
    }})
}
