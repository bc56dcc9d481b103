//! The JSON schema of a scene's messages.

use super::SCENE_TYPE;
use serde_json::{Value, json};

/// The part of the type's schema that is used here.
pub fn scene_schema() -> Value {
    let numbers = |names: &[&str]| {
        let each = names.iter().map(|name| ((*name).to_string(), json!({"type": "number"})));
        json!({"type": "object", "properties": each.collect::<serde_json::Map<_, _>>()})
    };
    let of = |properties: Value| json!({"type": "object", "properties": properties});
    let many = |items: Value| json!({"type": "array", "items": items});
    let (xyz, rgba) = (|| numbers(&["x", "y", "z"]), || numbers(&["r", "g", "b", "a"]));
    let pose = || of(json!({"position": xyz(), "orientation": numbers(&["x", "y", "z", "w"])}));
    let solid = || of(json!({"pose": pose(), "size": xyz(), "color": rgba()}));
    let cylinder = of(json!({
        "pose": pose(), "size": xyz(), "color": rgba(),
        "bottom_scale": {"type": "number"}, "top_scale": {"type": "number"},
    }));
    let arrow = of(json!({
        "pose": pose(), "color": rgba(),
        "shaft_length": {"type": "number"}, "shaft_diameter": {"type": "number"},
        "head_length": {"type": "number"}, "head_diameter": {"type": "number"},
    }));
    let line = of(json!({
        "type": {"type": "integer"}, "pose": pose(), "thickness": {"type": "number"},
        "scale_invariant": {"type": "boolean"}, "points": many(xyz()), "color": rgba(),
    }));
    let text = of(json!({
        "pose": pose(), "billboard": {"type": "boolean"}, "font_size": {"type": "number"},
        "scale_invariant": {"type": "boolean"}, "color": rgba(), "text": {"type": "string"},
    }));
    let time = || of(json!({"sec": {"type": "integer"}, "nsec": {"type": "integer"}}));
    let entity = of(json!({
        "timestamp": time(), "frame_id": {"type": "string"}, "id": {"type": "string"},
        "lifetime": time(), "frame_locked": {"type": "boolean"},
        "arrows": many(arrow), "cubes": many(solid()), "spheres": many(solid()),
        "cylinders": many(cylinder), "lines": many(line), "texts": many(text),
    }));
    json!({"title": SCENE_TYPE, "type": "object", "properties": {"entities": many(entity)}})
}
