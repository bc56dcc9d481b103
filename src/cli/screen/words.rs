//! The screen's texts: modes, causes, keys.

use super::model::Owner;
use crate::base::command::Source;
use crate::base::plan::Cause;
use crate::runtime::control::Status;

pub(super) const CONFIRM_ARMING: &str =
    "Arm this robot? It will drive. Press a again to arm, any other key to cancel.";
pub(super) const NOT_ARMED: &str = "not armed";

/// A sentence about the mode: whether the motors may run and what to do next.
pub(super) fn mode(status: &Status) -> String {
    let refusal = status.refusal.join("; ");
    match status.mode.as_str() {
        "boot" => "Starting: nothing has run yet.".to_string(),
        "self-test" if refusal.is_empty() => "Self-test: the motors are stopped.".to_string(),
        "self-test" => format!("Self-test, motors stopped. Waiting: {refusal}."),
        "disarmed" => disarmed(status, &refusal),
        "armed" => armed(status),
        "degraded" => "Armed, but restrained: the causes below limit the motors.".to_string(),
        "latched" => format!(
            "Latched by {}: motors stopped. When the cause is gone: d, then a.",
            status.latched.as_deref().unwrap_or("a reflex")
        ),
        "stopped" => "Stopped for good: the robot's program is ending.".to_string(),
        other => format!("Mode {other}."), // from a newer runtime
    }
}

/// What an armed robot does. With a goal, the navigator decides, not the field.
fn armed(status: &Status) -> String {
    let goal = status.measured.goal.as_ref();
    if let Some((goal, name)) = goal.and_then(|goal| Some((goal, goal.behaviour.as_ref()?))) {
        return match &goal.why {
            Some(why) => format!("Armed, {name}: {why}."),
            None => format!("Armed: {name} drives the robot."),
        };
    }
    if goal.is_some_and(|goal| goal.state == "standing") {
        return "Armed: the robot stands by order; 'ganglion go wander' lets the field drive.".to_string();
    }
    let Some((goal, [x, y])) = goal.and_then(|goal| Some((goal, goal.goal?))) else {
        let by_navigator = status.measured.commanded_by.as_deref() == Some(Source::Navigator.text());
        return match by_navigator {
            true => "Armed: the navigator steers clear of an obstacle that it remembers.".to_string(),
            false => "Armed: the field drives the motors.".to_string(),
        };
    };
    let does = match goal.state.as_str() {
        "looking" => "the navigator looks for a way to the goal",
        "backing" => "the navigator backs up on the way to the goal",
        "arrived" => "the robot stands at its goal",
        "given-up" => "the robot stands, because it has given up the goal",
        _ => "the navigator drives to the goal",
    };
    format!("Armed: {does} ({x:.2}, {y:.2}) m.")
}

fn disarmed(status: &Status, refusal: &str) -> String {
    let why = status.disarmed_by.as_ref().filter(|why| *why != "on request");
    let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
    match refusal {
        "" => format!("Disarmed{why}: the motors are stopped. Press a to arm."),
        refusal => format!("Disarmed{why}: motors stopped. Cannot be armed: {refusal}."),
    }
}

/// A cause of restraint and how it clears, in one line. A newer runtime may report an unknown cause.
pub(super) fn cause(name: &str) -> String {
    match Cause::ALL.into_iter().find(|cause| cause.name() == name) {
        Some(cause) => format!("{name}: {}; ends with {}", meaning(cause), ends_with(cause)),
        None => name.to_string(),
    }
}

fn meaning(cause: Cause) -> &'static str {
    match cause {
        Cause::FieldLate => "the field's result is late",
        Cause::FieldMissing => "the field has no recent result",
        Cause::Battery => "the battery is low",
        Cause::Obstacle => "something is too close",
        Cause::SensorLost => "a required sensor has no fresh value",
        Cause::SensorLying => "a sensor gives impossible values",
        Cause::GuardLost => "the guard is silent or holds its line off",
        Cause::LinkLost => "the remote brain does not answer",
        Cause::BusLost => "commands do not reach the motors",
        Cause::LoopLate => "the control loop missed its slots",
        Cause::Cliff => "there is no ground ahead",
        Cause::Tilt => "the robot leans too far",
        Cause::EStop => "stop was pressed",
    }
}

/// How a cause clears, shorter than `Cause::cleared_by`, for a line of 80 columns.
fn ends_with(cause: Cause) -> &'static str {
    match cause {
        Cause::FieldLate => "a fresh result",
        Cause::FieldMissing => "a recent result",
        Cause::Battery | Cause::Obstacle | Cause::Cliff | Cause::Tilt => "a value past its clear limit",
        Cause::SensorLost | Cause::SensorLying => "a good value",
        Cause::GuardLost => "its trust",
        Cause::LinkLost => "its next answer",
        Cause::BusLost => "a confirmed command",
        Cause::LoopLate => "enough slots on time",
        Cause::EStop => "releasing it, then d, then a",
    }
}

/// The keys, for the last line, from the longest list to the shortest.
const KEYS: [&str; 3] = [
    " a arm  d disarm  s stop and end  f field  space freeze  h help  q quit",
    " a arm  d disarm  s stop  h help  q quit",
    " h help  q quit",
];

/// The keys, for a last line of `width` columns.
pub(super) fn keys(width: usize) -> &'static str {
    KEYS.into_iter().find(|keys| keys.len() <= width).unwrap_or(KEYS[KEYS.len() - 1])
}

/// The help page.
pub(super) fn help(owner: Owner) -> Vec<String> {
    let quit = match owner {
        Owner::Run => "stop the motors and end this run, as Ctrl-C does",
        Owner::Top => "leave this screen; the robot keeps running",
    };
    let mut lines: Vec<String> = [
        "a      arm: the field drives the motors (on a real robot: press it twice)",
        "d      disarm: stop until armed again; acknowledges latched causes",
        "s      stop the motors and end the robot's program",
        "f      show slices through the field, or the robot again",
        "space  freeze the page; the mode on top stays live",
        "h ?    show or hide this help",
    ]
    .map(String::from)
    .into();
    lines.push(format!("q      {quit}"));
    lines.extend(
        [
            "",
            "Sensors  value, its age, and whether it is valid",
            "Motors   command from -1 to +1, and what decided it",
            "Loop     how late the control periods start: bars count all of them, by",
            "         class, on a log scale; 'max' shows the worst of each half second",
            "Field    quality level (0 is the best; tall bar: good), time of a cycle,",
            "         confidence 0..1, novelty (0: seen before)",
            "Room     of the simulator, from above: car, sonar cone, path driven, goal (X),",
            "         line on the floor (dots with gaps)",
            "Drops    work or data that was lost; should be zero",
            "!        in the first column: a problem, or a limit that was missed",
        ]
        .map(String::from),
    );
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_words_within_80_columns() {
        for known in Cause::ALL {
            let words = cause(known.name());
            assert!(words.starts_with(known.name()) && words.contains("; ends with "), "{words}");
            assert!(words.len() <= 78, "{} columns: {words}", words.len());
        }
        assert_eq!(cause("from-the-future"), "from-the-future");
    }
}
