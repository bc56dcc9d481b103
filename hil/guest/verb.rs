//! `ganglion hil` on the bench's lines: the command that measures a real robot over two loop-back wires. Here
//! the plant's module provides the wires. This shows that the command works; its figures are virtual, like
//! all figures of the bench.

use super::course::RowContext;
use super::process::Process;
use super::scene;
use super::verdict::RowResult;
use super::wire::Command;
use ganglion::base::plan::MotorKind;
use ganglion::base::time::Span;
use ganglion::hardware::device::robot_hat::pulse_register;
use serde_json::Value;
use std::io;

/// Lines that no variant of the board uses: the stimulus, the input wired to it, and the input wired to the
/// motor's terminal.
const STIMULUS: u16 = 20;
const SENSOR: u16 = 21;
const RESPONSE: u16 = 22;
/// The board sets no limit, so the command's own limit applies: 10 ms from sensor to motor, bus time
/// included.
const TARGET_US: f64 = 10_000.0;
/// Time limit of the command, for baselines of a second each, set-up, and a tenth of a second per pass. It is
/// generous, because the run time of the command is not a result of the bench.
const TIMEOUT: Span = Span::from_millis(120_000);

/// Runs the command for this many passes.
pub fn measure(place: &mut RowContext<'_>, passes: u32) -> io::Result<RowResult> {
    let mut outcome = RowResult::default();
    let bench = &mut *place.bench;
    bench.renew(11)?;
    let motor = bench.board().motors.iter().find_map(|motor| match motor.kind {
        MotorKind::DcDir { pwm, .. } => Some(pwm),
        _ => None,
    });
    let motor = motor.ok_or_else(|| io::Error::other("the board has no drive motor"))?;
    let mcu = bench.board().mcu.as_ref().map_or(0x14, |mcu| mcu.address);
    bench.send(&[
        Command::Wire(SENSOR, Some(STIMULUS)),
        Command::Terminal(RESPONSE, Some((mcu, pulse_register(motor)))),
    ])?;
    let [stimulus, sensor, response] = [STIMULUS, SENSOR, RESPONSE].map(|line| line.to_string());
    let samples = passes.to_string();
    let words = [
        "hil",
        "--board",
        place.board,
        "--stimulus",
        &stimulus,
        "--sensor",
        &sensor,
        "--response",
        &response,
        "--samples",
        &samples,
        "--json",
    ];
    let mut verb = Process::start(place.folder, "hil", &words)?;
    match verb.end(TIMEOUT)? {
        Some(status) => outcome
            .demand(status.success(), || format!("it ended with {status}: {}", scene::tail(&verb.said()))),
        None => outcome.fault("the command did not end in time"),
    }
    bench.send(&[Command::Wire(SENSOR, None), Command::Terminal(RESPONSE, None)])?;
    judge(&verb.report().unwrap_or(Value::Null), passes, &mut outcome);
    outcome.demand(!bench.seen(|record| record.is_moving()), || "a motor still runs after the end".into());
    // Where the car went does not matter: on a real bench its wheels are off the ground.
    scene::frames(bench, &mut outcome);
    Ok(outcome)
}

/// Checks the command's JSON object: every pass was answered, and all figures are present.
fn judge(report: &Value, passes: u32, outcome: &mut RowResult) {
    let loops = &report["sensor_to_motor_us"];
    outcome.demand(report["passed"] == true, || format!("the command does not pass: {report}"));
    outcome.demand(report["unanswered"] == 0, || format!("{} passes unanswered", report["unanswered"]));
    outcome.demand(loops["n"] == passes, || format!("{} of {passes} passes were measured", loops["n"]));
    let p999 = loops["p999"].as_f64().unwrap_or(f64::INFINITY);
    outcome.demand(p999 <= TARGET_US, || format!("p99.9 {p999:.1} virtual us, {TARGET_US} allowed"));
    for (name, key) in [
        ("sensor to motor", "sensor_to_motor_us"),
        ("gpio echo", "gpio_echo_us"),
        ("bare timer", "bare_timer_us"),
    ] {
        let figure = |percentile: &str| report[key][percentile].as_f64();
        let (Some(p50), Some(p99), Some(max)) = (figure("p50"), figure("p99"), figure("max")) else {
            outcome.fault(format!("no figures for {key}"));
            continue;
        };
        outcome.note(format!("{name}: p50 {p50:.1} p99 {p99:.1} max {max:.1} virtual us"));
        outcome.figure(&format!("{}_p99_virtual_us", key.trim_end_matches("_us")), p99);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pass_without_an_answer_or_figures_is_a_fault() {
        let latency = json!({"n": 10, "p50": 400.0, "p99": 500.0, "p999": 500.0, "max": 500.0});
        let sound = json!({
            "passed": true, "unanswered": 0, "sensor_to_motor_us": latency, "gpio_echo_us": latency,
            "bare_timer_us": latency,
        });
        let judged = |change: (&str, Value)| {
            let mut report = sound.clone();
            report[change.0] = change.1;
            let mut outcome = RowResult::default();
            judge(&report, 10, &mut outcome);
            outcome.passed()
        };
        assert!(judged(("passed", json!(true))));
        assert!(!judged(("passed", json!(false))) && !judged(("unanswered", json!(1))));
        assert!(!judged(("sensor_to_motor_us", Value::Null)) && !judged(("gpio_echo_us", Value::Null)));
        assert!(!judged((
            "sensor_to_motor_us",
            json!({"n": 9, "p50": 1.0, "p99": 1.0, "p999": 1.0, "max": 1.0})
        )));
    }
}
