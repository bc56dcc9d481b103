//! The live status line, on standard error if that is a terminal: of this program's run, or of a robot that
//! another program runs.

use crate::base::plan::Cause;
use crate::base::time::Span;
use crate::drive::trace::{Record, Recorder};
use crate::field::EngineState;
use crate::runtime::control::Status;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Redraws per second: fast enough to look alive, slow enough for a serial console.
pub const REDRAWS_HZ: u8 = 5;

/// The status line.
pub struct StatusLine {
    bar: ProgressBar,
    length: Option<Span>,
    simulated: bool,
    first: Option<crate::base::time::Instant>,
    /// The last known state, because most records contain no result of the field.
    engine: EngineState,
}

impl StatusLine {
    /// A status line for a run of this `length`; `None`: the end is not known.
    pub fn new(length: Option<Span>, simulated: bool) -> StatusLine {
        let bar = ProgressBar::with_draw_target(
            length.map(|length| length.as_nanos() / 1_000_000),
            ProgressDrawTarget::stderr_with_hz(REDRAWS_HZ),
        );
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        StatusLine { bar, length, simulated, first: None, engine: EngineState::Running }
    }

    /// Shows the newest record. Without a terminal it does nothing, not even formatting.
    pub fn show(&mut self, recorder: &Recorder) {
        if self.bar.is_hidden() {
            return;
        }
        if let Some(record) = &recorder.summary().last {
            let first = *self.first.get_or_insert(record.slot);
            self.engine = record.field.map_or(self.engine, |field| field.state);
            let run = record.slot.since(first).as_secs_f64();
            self.put(run, &Figures::of_record(record, self.engine));
        }
    }

    /// Shows the status of a robot that another program runs.
    pub fn show_status(&self, status: &Status) {
        let slots = status.slots_run + status.slots_skipped;
        let lateness = status.measured.lateness.as_ref();
        let run = lateness.map_or(0.0, |late| slots as f64 * late.limit_us / 1e6);
        self.put(run, &Figures::of_status(status));
    }

    fn put(&self, run: f64, figures: &Figures<'_>) {
        let length = self.length.map_or(String::new(), |length| format!(" of {:.0}", length.as_secs_f64()));
        let simulated = if self.simulated { "simulated, " } else { "" };
        self.bar.set_message(format!("{run:6.1}{length} s  {simulated}{}", figures.describe()));
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// What the line says.
struct Figures<'a> {
    mode: &'a str,
    level: Option<usize>,
    motors: Vec<f32>,
    /// How late slots began, as text.
    late: String,
    causes: Vec<&'a str>,
    /// The engine's state, unless it is running.
    trouble: Option<String>,
}

impl<'a> Figures<'a> {
    fn of_record(record: &'a Record, engine: EngineState) -> Figures<'a> {
        let active = Cause::ALL.into_iter().filter(|cause| record.active & cause.bit() != 0);
        Figures {
            mode: record.mode.name(),
            level: Some(record.quality.index()),
            motors: record.command.used().to_vec(),
            late: format!("late {:.0} us", record.began.since(record.slot).as_micros_f64()),
            causes: active.map(Cause::name).collect(),
            trouble: (engine != EngineState::Running).then(|| engine.to_string()),
        }
    }

    fn of_status(status: &'a Status) -> Figures<'a> {
        let measured = &status.measured;
        let late = measured.release_late_us.as_ref();
        Figures {
            mode: &status.mode,
            level: measured.quality.as_ref().map(|quality| quality.level),
            motors: measured.motors.iter().map(|motor| motor.command).collect(),
            late: late.map_or(String::new(), |late| format!("late p99 {:.0} us", late.p99)),
            causes: status.causes.iter().map(String::as_str).collect(),
            trouble: (status.engine_state != "running").then(|| status.engine_state.clone()),
        }
    }

    fn describe(&self) -> String {
        // More than three motors do not fit into a line.
        let motors: Vec<String> = self.motors.iter().take(3).map(|motor| format!("{motor:+.2}")).collect();
        format!(
            "{:<9} level {}  motors {}  {}  {}{}",
            self.mode,
            self.level.map_or("-".to_string(), |level| level.to_string()),
            motors.join(" "),
            self.late,
            self.causes.join(" "),
            self.trouble.as_ref().map_or(String::new(), |state| format!("  engine {state}"))
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Loss;
    use crate::runtime::control::{MotorStatus, Sources};

    #[test]
    fn a_lost_gpu_is_shown_with_its_reason() {
        let loss = Loss::ContextLost { call: "cuEventQuery" };
        let state = EngineState::StandIn { loss, attempt: 3, left: Span::from_millis(2000) };
        let said = "on the CPU: GPU lost (context lost in cuEventQuery), attempt 3 in 2.0 s";
        assert_eq!(state.to_string(), said);
        let state = EngineState::StandIn { loss: Loss::Panicked, attempt: 1, left: Span::ZERO };
        assert_eq!(state.to_string(), "on the CPU: GPU lost (its code panicked), attempt 1 under way");
    }

    #[test]
    fn a_robot_of_another_program_has_the_line_of_a_run() {
        let mut status = Sources::idle().status();
        (status.mode, status.causes) = ("degraded".into(), vec!["obstacle".into()]);
        status.engine_state = "on the CPU".into();
        status.measured.motors = vec![MotorStatus { name: "left".into(), command: -0.5 }];
        let line = Figures::of_status(&status).describe();
        assert_eq!(line, "degraded  level -  motors -0.50    obstacle  engine on the CPU");
    }
}
