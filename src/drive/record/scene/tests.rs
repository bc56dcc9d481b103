//! Checks where a scene shows things, and that its messages have the type that viewers know.

use super::*;

fn shape(beams: usize) -> RobotShape {
    let beam = |number: usize| Beam {
        sensor: format!("range-{number}"),
        at: [0.2, 0.0],
        bearing_deg: 90.0 * number as f32,
        half_cone_deg: 30.0,
        reach: 3.0,
    };
    RobotShape { body: Some([0.25, 0.12]), front: 0.17, beams: (0..beams).map(beam).collect() }
}

fn moment(ms: u64, at: [f64; 2], heading: f64) -> SceneMoment<'static> {
    let pose = OdometryPose { at, heading };
    SceneMoment { time: Instant::from_nanos(ms * 1_000_000), pose, goal: Some([1.0, -2.0]), doing: "going" }
}

fn entity<'a>(message: &'a Value, id: &str) -> Option<&'a Value> {
    message["entities"].as_array()?.iter().find(|entity| entity["id"] == id)
}

/// Every path of keys in a message, without positions in lists.
fn keys(value: &Value, schema: &Value, at: &str) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            let schema = &schema["properties"][key];
            assert!(schema.is_object(), "{at}.{key} is not in the schema");
            keys(value, schema, &format!("{at}.{key}"));
        }),
        Value::Array(items) => items.iter().for_each(|item| keys(item, &schema["items"], at)),
        Value::Number(_) => assert!(schema["type"] == "number" || schema["type"] == "integer", "{at}"),
        Value::String(_) => assert_eq!(schema["type"], "string", "{at}"),
        Value::Bool(_) => assert_eq!(schema["type"], "boolean", "{at}"),
        Value::Null => panic!("{at} is null: a position that is not a number"),
    }
}

#[test]
fn every_key_of_a_scene_is_in_its_schema() {
    let schema = scene_schema();
    for shape in [shape(2), RobotShape::default()] {
        let mut scene = Scene::new(shape);
        let message = scene.message(moment(1_500, [0.0, 0.0], 0.3), |_| Some(0.5));
        keys(&message, &schema, "scene");
        for entity in message["entities"].as_array().unwrap() {
            assert_eq!(entity["timestamp"], json!({"sec": 1, "nsec": 500_000_000}));
            assert_eq!(entity["frame_id"], SCENE_FRAME);
        }
    }
}

#[test]
fn a_scene_shows_body_cone_and_goal_where_they_are() {
    let mut scene = Scene::new(shape(1));
    // At (1, 1), looking along y: ahead is +y, left is -x.
    let quarter = std::f64::consts::FRAC_PI_2;
    let message = scene.message(moment(0, [1.0, 1.0], quarter), |name| (name == "range-0").then_some(1.0));
    let body = &entity(&message, "robot").unwrap()["cubes"][0];
    assert_eq!(body["pose"]["position"], json!({"x": 1.0, "y": 1.045, "z": 0.05}), "17 cm - half of 25 cm");
    assert_eq!(body["size"], json!({"x": 0.25, "y": 0.12, "z": 0.1}));
    let cone = &entity(&message, "ranges").unwrap()["lines"][0]["points"];
    let [cos, half] = [0.866, 0.5];
    assert_eq!(cone[0], json!({"x": 1.0 - half, "y": 1.2 + cos, "z": 0.0}), "left");
    assert_eq!(cone[1], json!({"x": 1.0 + half, "y": 1.2 + cos, "z": 0.0}), "right");
    assert_eq!(cone.as_array().map(Vec::len), Some(6), "three sides");
    let goal = entity(&message, "goal").unwrap();
    assert_eq!(goal["spheres"][0]["pose"]["position"]["y"], -2.0);
    assert_eq!(goal["texts"][0]["text"], "going");
}

#[test]
fn nothing_is_drawn_for_a_sensor_that_sees_nothing() {
    let mut scene = Scene::new(shape(2));
    for range in [None, Some(3.0), Some(-1.0), Some(f64::NAN)] {
        let message = scene.message(moment(0, [0.0, 0.0], 0.0), |_| range);
        assert!(entity(&message, "ranges").is_none(), "{range:?}");
    }
    let mut ring = Scene::new(shape(WHOLE_CONES + 1));
    let message = ring.message(moment(0, [0.0, 0.0], 0.0), |_| Some(1.0));
    let points = entity(&message, "ranges").unwrap()["lines"][0]["points"].as_array().map(Vec::len);
    assert_eq!(points, Some(2 * (WHOLE_CONES + 1)), "only the far ends");
}

#[test]
fn the_path_is_sent_in_pieces_that_join() {
    let mut scene = Scene::new(shape(0));
    let mut pieces: Vec<(String, Vec<Value>)> = Vec::new();
    for step in 0..200 {
        let message = scene.message(moment(step * 100, [step as f64 / 32.0, 0.0], 0.0), |_| None);
        let path = message["entities"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(path["lifetime"]["sec"], 0, "it stays");
        let points = path["lines"][0]["points"].as_array().unwrap().clone();
        assert!(points.len() <= PATH_PIECE);
        let id = path["id"].as_str().unwrap().to_string();
        match pieces.last_mut().filter(|(last, _)| *last == id) {
            Some((_, last)) => *last = points,
            None => pieces.push((id, points)),
        }
    }
    // Points at least 0.1 m apart, so every fourth of 200; neighbouring pieces share one.
    assert_eq!(pieces.iter().map(|(_, points)| points.len() - 1).sum::<usize>(), 49);
    for two in pieces.windows(2) {
        assert_eq!(two[0].1.last(), two[1].1.first());
    }
    // A pose that is not a number adds no point.
    let message = scene.message(moment(0, [f64::NAN, 0.0], 0.0), |_| None);
    let path = message["entities"].as_array().unwrap().last().unwrap();
    assert!(path["lines"][0]["points"].as_array().unwrap().iter().all(|point| point["x"].is_number()));
}
