//! The live status line of a run, on standard error, and only where a person is reading it.

use crate::field::Rung;
use crate::reflex::Cause;
use crate::time::Span;
use crate::trace::{Record, Recorder};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Redraws a second: quick enough to look alive, slow enough for a serial console.
const REDRAWS_HZ: u8 = 5;

/// The line.
pub struct StatusLine {
    bar: ProgressBar,
    length: Span,
    first: Option<crate::time::Instant>,
}

impl StatusLine {
    /// A line for a run of that length.
    pub fn new(length: Span) -> StatusLine {
        let bar = ProgressBar::with_draw_target(
            Some(length.as_nanos() / 1_000_000),
            ProgressDrawTarget::stderr_with_hz(REDRAWS_HZ),
        );
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        StatusLine { bar, length, first: None }
    }

    /// Shows the newest record. Does nothing, not even formatting, where nobody reads.
    pub fn show(&mut self, recorder: &Recorder) {
        if self.bar.is_hidden() {
            return;
        }
        if let Some(record) = &recorder.summary().last {
            let first = *self.first.get_or_insert(record.slot);
            let run = record.slot.since(first).as_secs_f64();
            self.bar.set_message(format!(
                "{run:6.1} of {:.0} s  {}",
                self.length.as_secs_f64(),
                words(record)
            ));
        }
    }

    /// Takes the line away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

fn words(record: &Record) -> String {
    let causes: Vec<&str> = Cause::ALL
        .iter()
        .filter(|&&cause| record.active & cause.bit() != 0)
        .map(|cause| cause.name())
        .collect();
    let motors: Vec<String> = record.command.used().iter().take(3).map(|m| format!("{m:+.2}")).collect();
    let rung: Rung = record.rung;
    format!(
        "{:<9} rung {}  motors {}  late {:.0} us  {}",
        record.mode.name(),
        rung.index(),
        motors.join(" "),
        record.began.since(record.slot).as_micros_f64(),
        causes.join(" ")
    )
}
