//! `--from` and `--to`: part of a recording, starting at the last checkpoint before `--from`.

use super::source::Source;
use crate::base::time::{Instant, Span};
use crate::cli::exit::Failure;
use crate::drive::record::Step;

/// The arguments.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Range {
    /// Start at the last checkpoint before this time, in seconds after the first slot
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub from: Option<Span>,
    /// End at this time, in seconds after the first slot
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub to: Option<Span>,
}

/// A time in a recording, in seconds with or without a fraction.
fn seconds(text: &str) -> Result<Span, String> {
    let seconds: f64 =
        text.parse().map_err(|_| "not a number of seconds; for example 90 or 0.5".to_string())?;
    // A year is longer than any recording. NaN is in no range.
    match (0.0..=3.2e7).contains(&seconds) {
        true => Ok(Span::from_secs_f64(seconds)),
        false => Err("allowed: 0 to 32000000 seconds".to_string()),
    }
}

/// The slots of a part, in order.
pub struct Part {
    range: Range,
    first: Option<Instant>,
    last: Option<Instant>,
    /// Slots since the last checkpoint, before the part has started.
    held: Option<Vec<Step>>,
}

impl Range {
    /// The part, before its first slot.
    pub fn begin(&self) -> Result<Part, Failure> {
        if let (Some(from), Some(to)) = (self.from, self.to)
            && from >= to
        {
            return Err(Failure::usage("--from is not before --to"));
        }
        Ok(Part { range: *self, first: None, last: None, held: self.from.map(|_| Vec::new()) })
    }
}

impl Part {
    /// The next slots of `source` that belong to the part: first all slots since the checkpoint before it,
    /// then one at a time. `None` at its end.
    pub fn next(&mut self, source: &mut Source) -> Result<Option<Vec<Step>>, Failure> {
        while let Some(step) = source.next_step()? {
            let slot = step.slot.slot;
            let at = slot.since(*self.first.get_or_insert(slot));
            self.last = Some(slot);
            if self.range.to.is_some_and(|to| at > to) {
                return Ok(None);
            }
            let Some(held) = &mut self.held else { return Ok(Some(vec![*step])) };
            if step.checkpoint.is_some() {
                held.clear();
            }
            held.push(*step);
            if self.range.from.is_none_or(|from| at >= from) {
                return Ok(self.held.take());
            }
            // Without a checkpoint, slots before the part are useless.
            if held[0].checkpoint.is_none() {
                held.clear();
            }
        }
        Ok(None)
    }

    /// Why the part has no slots.
    pub fn empty(&self) -> Failure {
        match self.first.zip(self.last) {
            Some((first, last)) => {
                let seconds = last.since(first).as_secs_f64();
                Failure::data(format!("no slots in that part: the recording is {seconds:.1} s long"))
            }
            None => Failure::data("the recording has no slots"),
        }
    }
}
