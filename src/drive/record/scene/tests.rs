//! Checks where a scene shows its entities, and that its messages match their schema.

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

/// Checks that `schema` has every key of `value`, with the right type. `at` is the path of keys to `value`.
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
        let message = scene.messages(moment(1_500, [0.0, 0.0], 0.3), |_| Some(0.5)).scene;
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
    let message =
        scene.messages(moment(0, [1.0, 1.0], quarter), |name| (name == "range-0").then_some(1.0)).scene;
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
    assert_eq!(goal["texts"][0]["pose"]["position"]["y"], -1.7, "beside the ball, which it would hide");
}

#[test]
fn nothing_is_drawn_for_a_sensor_that_sees_nothing() {
    let mut scene = Scene::new(shape(2));
    for range in [None, Some(3.0), Some(-1.0), Some(f64::NAN)] {
        let message = scene.messages(moment(0, [0.0, 0.0], 0.0), |_| range).scene;
        assert!(entity(&message, "ranges").is_none(), "{range:?}");
    }
    let mut ring = Scene::new(shape(WHOLE_CONES + 1));
    let message = ring.messages(moment(0, [0.0, 0.0], 0.0), |_| Some(1.0)).scene;
    let points = entity(&message, "ranges").unwrap()["lines"][0]["points"].as_array().map(Vec::len);
    assert_eq!(points, Some(2 * (WHOLE_CONES + 1)), "only the far ends");
}

#[test]
fn the_whole_path_comes_every_5_s_and_the_rest_at_once() {
    let mut scene = Scene::new(shape(0));
    let mut whole: Vec<(u64, Vec<Value>)> = Vec::new();
    for step in 0..120 {
        let (ms, x) = (step * 100, step as f64 / 32.0);
        let SceneMessages { scene: message, path } = scene.messages(moment(ms, [x, 0.0], 0.0), |_| None);
        let points = |entity: &Value| entity["lines"][0]["points"].as_array().unwrap().clone();
        if let Some(path) = path {
            let path = entity(&path, "path").unwrap();
            assert_eq!(path["lifetime"]["sec"], 0, "it stays");
            whole.push((ms, points(path)));
        }
        let newest = points(entity(&message, "newest-path").unwrap());
        assert_eq!(newest.last().unwrap()["x"], mm(x), "it reaches the robot");
        assert!(whole.last().unwrap().1.contains(&newest[0]), "it joins the whole path");
    }
    assert_eq!(whole.iter().map(|(ms, _)| *ms).collect::<Vec<_>>(), [0, 5_000, 10_000]);
    assert!(whole.iter().all(|(_, points)| points[0]["x"] == 0.0), "each begins at the start");
}
