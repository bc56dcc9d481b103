//! The buses and lines of a board whose guarded line is switched by the guard: a caller that opens this line
//! gets a handle that sends requests to the guard. Everything else is passed through.

use super::{Hold, Link};
use crate::base::fault::BusFault;
use crate::base::plan::Line;
use crate::base::time::{Clock, Span};
use crate::hardware::bus::{Edge, Gpio, Hardware, I2c, LineState, LineUse, OpenError, Repair};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The buses and lines of a board. One of the lines belongs to the guard.
pub struct GuardedHardware {
    inner: Arc<dyn Hardware>,
    link: Arc<Link>,
    hold: Hold,
    clock: Arc<dyn Clock>,
}

impl GuardedHardware {
    /// Passes everything to `inner`, except requests to switch the line of `hold`: they go to the guard over
    /// `link`.
    pub fn new(
        inner: Arc<dyn Hardware>,
        link: Arc<Link>,
        hold: Hold,
        clock: Arc<dyn Clock>,
    ) -> GuardedHardware {
        GuardedHardware { inner, link, hold, clock }
    }
}

impl Hardware for GuardedHardware {
    fn repair(&self, bus: usize) -> Result<Box<dyn Repair>, OpenError> {
        self.inner.repair(bus)
    }

    fn edge_overruns(&self) -> Arc<AtomicU64> {
        self.inner.edge_overruns()
    }

    fn line_state(&self, line: Line) -> Result<LineState, OpenError> {
        self.inner.line_state(line)
    }

    fn i2c(&self, bus: usize) -> Result<Box<dyn I2c>, OpenError> {
        self.inner.i2c(bus)
    }

    fn gpio(&self, owner: &'static str, lines: &[LineUse]) -> Result<Box<dyn Gpio>, OpenError> {
        let rest: Vec<LineUse> = lines.iter().copied().filter(|used| used.line != self.hold.line).collect();
        if rest.len() == lines.len() {
            return self.inner.gpio(owner, lines);
        }
        let rest = if rest.is_empty() { None } else { Some(self.inner.gpio(owner, &rest)?) };
        if !self.link.take() {
            return Err(OpenError {
                what: "the guarded line".into(),
                why: "another part of this program is using it".into(),
                fix: "use a separate line for each role in the board file".into(),
                denied: false,
            });
        }
        let (link, hold, clock) = (self.link.clone(), self.hold, self.clock.clone());
        Ok(Box::new(GuardedGpio { rest, link, hold, clock, high: hold.level(false) }))
    }
}

/// Lines, one of which the guard switches.
struct GuardedGpio {
    rest: Option<Box<dyn Gpio>>,
    link: Arc<Link>,
    hold: Hold,
    clock: Arc<dyn Clock>,
    /// Level to which the guard last switched the line for us.
    high: bool,
}

impl GuardedGpio {
    fn others(&mut self) -> Result<&mut dyn Gpio, BusFault> {
        match &mut self.rest {
            Some(rest) => Ok(rest.as_mut()),
            None => Err(BusFault::Absent),
        }
    }
}

impl Gpio for GuardedGpio {
    fn set(&mut self, line: Line, high: bool) -> Result<(), BusFault> {
        if line != self.hold.line {
            return self.others()?.set(line, high);
        }
        self.link.request(high == self.hold.on_high, self.clock.as_ref())?;
        self.high = high;
        Ok(())
    }

    fn get(&mut self, line: Line) -> Result<bool, BusFault> {
        if line == self.hold.line {
            return Ok(self.high);
        }
        self.others()?.get(line)
    }

    fn next_edge(&mut self, wait: Span) -> Result<Option<Edge>, BusFault> {
        match &mut self.rest {
            Some(rest) => rest.next_edge(wait),
            None => {
                self.clock.sleep_until(self.clock.now() + wait);
                Ok(None)
            }
        }
    }
}

impl Drop for GuardedGpio {
    fn drop(&mut self) {
        self.link.give_back();
    }
}
