//! Mistakes in the behaviours of a board, in their decision fields, and in what the navigator needs.

use super::bad::{elsewhere, slip};
use super::{faults, text_of};

const V4: &str = "picarx-v4";

#[test]
fn behaviours_need_known_names_and_sound_curves() {
    slip(
        V4,
        "preset = \"memory\"",
        "preset = \"memry\"",
        "no preset is named `memry`; did you mean `memory`?",
    );
    elsewhere(
        V4,
        "preset = \"memory\"",
        "preset = \"selection\"",
        "forgets_after_s",
        "a field with the preset `selection` keeps no peak without input",
    );
    slip(V4, "span = [-5.0, 5.0]", "span = [5.0, -5.0]", "must ascend; 5 comes before -5");
    slip(V4, "at = 1.0\n", "at = 6.0\n", "6 is outside the field's span; allowed: -5 to 5");
    let far = "points = [[900.0, 16.0], [1300.0, 0.0]]";
    slip(V4, far, "points = [[900.0, 26.0], [1300.0, 0.0]]", "height 26; allowed: -20 to 20");
    slip(V4, far, "points = [[900.0, 16.0], [2300.0, 0.0]]", "sensor value 2300 is off its scale");
    slip(
        V4,
        far,
        "points = [[900.0, 16.0], [800.0, 0.0]]",
        "sensor values must ascend; 900 comes before 800",
    );
    let speed = "[[-1.0, 0.25], [0.0, 0.4], [1.0, 0.25]]";
    slip(V4, speed, "[[-1.0, 0.25], [0.0, 1.4], [1.0, 0.25]]", "value 1.4; allowed: -1 to 1");
    slip(V4, speed, "[[-1.0, 0.25], [-1.0, 0.4]]", "positions must ascend; -1 comes before -1");
    let line = "speed = { field = \"line\"";
    slip(V4, line, "speed = { field = \"lime\"", "no decision field is named `lime`; did you mean `line`?");
    let stop = "name = \"follow-line\"";
    assert!(
        faults(&text_of(V4).replacen(stop, "name = \"stop\"", 1))
            .join("\n")
            .contains("already uses this name")
    );
    let idle = "[[decision_field]]\nname = \"idle\"\npreset = \"memory\"\nspan = [0.0, 1.0]\n\n[[behaviour]]";
    let faulty = faults(&text_of(V4).replacen("[[behaviour]]", idle, 1)).join("\n");
    assert!(faulty.contains("decision_field.idle: no [[decision_input]] excites it"), "{faulty}");
}

#[test]
fn keeping_clear_needs_a_navigator_and_a_servo() {
    let told = |text: &str| faults(text).join("\n");
    let far = told("inherits = \"picarx-v4\"\n[wander]\nclear_m = 0.7\n");
    assert!(far.contains("wander.clear_m") && far.contains("0.6"), "{far}");
    let backwards = told("inherits = \"picarx-v4\"\n[wander]\nclear_m = 0.4\nnew_ground = -3.0\n");
    assert!(backwards.contains("wander.new_ground") && backwards.contains("0"), "{backwards}");
    let differential = told("inherits = \"barn\"\n[wander]\nclear_m = 0.4\n");
    assert!(differential.contains("needs a servo that steers"), "{differential}");
    let shapeless =
        text_of("picarx-v4").replacen("body = [0.25, 0.13] ", "# ", 1) + "[wander]\nclear_m = 0.4\n";
    assert!(told(&shapeless).contains("keeping clear needs"), "{}", told(&shapeless));
}

#[test]
fn the_heading_is_measured_in_degrees_a_second() {
    let motion = "track = 0.1167";
    let with = |keys: &str| format!("{motion}\n{keys}");
    let no_gyroscope = with("turning = \"range\"");
    elsewhere(
        V4,
        motion,
        &no_gyroscope,
        "turning",
        "\"range\" measures m; expected: a sensor that measures deg/s",
    );
    elsewhere(V4, motion, &with("turning = \"compass\""), "turning", "no sensor is named `compass`");
    elsewhere(
        V4,
        motion,
        &with("turning_scale = 1.1"),
        "turning_scale",
        "no `turning` whose scale this could be",
    );
    let mut gyroscope = text_of("generic-linux").to_string();
    gyroscope.push_str("[motion]\nfull_speed = 0.5\nwheelbase = 0.1\nturning = \"turning\"\n");
    assert_eq!(faults(&gyroscope), Vec::<String>::new());
    gyroscope.push_str("turning_scale = 2.0\n");
    let faults = faults(&gyroscope);
    assert!(faults.len() == 1 && faults[0].contains("allowed: a number, 0.8 to 1.25"), "{faults:?}");
}
