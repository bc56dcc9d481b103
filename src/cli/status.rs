//! The live status line of a run, on standard error if that is a terminal.

use crate::base::plan::{Cause, QualityLevel};
use crate::base::time::Span;
use crate::drive::trace::{Record, Recorder};
use crate::field::EngineState;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Redraws per second: fast enough to look alive, slow enough for a serial console.
const REDRAWS_HZ: u8 = 5;

/// The status line.
pub struct StatusLine {
    bar: ProgressBar,
    length: Span,
    simulated: bool,
    first: Option<crate::base::time::Instant>,
    /// The last known state, because most records contain no result of the field.
    engine: EngineState,
}

impl StatusLine {
    /// A status line for a run of this `length`.
    pub fn new(length: Span, simulated: bool) -> StatusLine {
        let bar = ProgressBar::with_draw_target(
            Some(length.as_nanos() / 1_000_000),
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
            self.bar.set_message(format!(
                "{run:6.1} of {:.0} s  {}{}",
                self.length.as_secs_f64(),
                if self.simulated { "simulated, " } else { "" },
                describe(record, self.engine)
            ));
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn describe(record: &Record, engine: EngineState) -> String {
    let causes: Vec<&str> = Cause::ALL
        .iter()
        .filter(|&&cause| record.active & cause.bit() != 0)
        .map(|cause| cause.name())
        .collect();
    let motors: Vec<String> = record.command.used().iter().take(3).map(|m| format!("{m:+.2}")).collect();
    let quality: QualityLevel = record.quality;
    format!(
        "{:<9} level {}  motors {}  late {:.0} us  {}{}",
        record.mode.name(),
        quality.index(),
        motors.join(" "),
        record.began.since(record.slot).as_micros_f64(),
        causes.join(" "),
        match engine {
            EngineState::Running => String::new(),
            troubled => format!("  engine {troubled}"),
        }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Loss;

    #[test]
    fn a_lost_gpu_is_shown_with_its_reason() {
        let loss = Loss::ContextLost { call: "cuEventQuery" };
        let state = EngineState::StandIn { loss, attempt: 3, left: Span::from_millis(2000) };
        let said = "on the CPU: GPU lost (context lost in cuEventQuery), attempt 3 in 2.0 s";
        assert_eq!(state.to_string(), said);
        let state = EngineState::StandIn { loss: Loss::Panicked, attempt: 1, left: Span::ZERO };
        assert_eq!(state.to_string(), "on the CPU: GPU lost (its code panicked), attempt 1 under way");
    }
}
