//! Plays back a log in place of the buses: one row per control period, in order, and nothing after the last
//! row. Motor commands are accepted and confirmed, but go nowhere.

use super::Outlet;
use crate::base::command::{Command, OnWire};
use crate::base::fault::ReadingFault;
use crate::base::frame::Reading;
use crate::base::time::{Clock, Instant, Span};
use crate::system::executor::Worker;
use crate::system::rt::triple_buffer::Reader;
use rtrb::Producer;

/// The rows of a log: channel, and value or fault.
pub type LogRows = Vec<Vec<(u8, Result<f32, ReadingFault>)>>;

/// The worker that plays the rows.
pub struct LogWorker {
    outlet: Outlet,
    rows: LogRows,
    next: usize,
    first: Instant,
    period: Span,
    commands: Reader<Command>,
    receipts: Producer<OnWire>,
    receipt: Option<OnWire>,
}

impl LogWorker {
    /// Row 0 is sampled at `first`, row n at `first + n * period`.
    pub fn new(
        outlet: Outlet,
        rows: LogRows,
        first: Instant,
        period: Span,
        commands: Reader<Command>,
        receipts: Producer<OnWire>,
    ) -> LogWorker {
        LogWorker { outlet, rows, next: 0, first, period, commands, receipts, receipt: None }
    }

    fn due(&self) -> Instant {
        if self.next < self.rows.len() {
            self.first + self.period.times(self.next as u64)
        } else {
            Instant::NEVER
        }
    }
}

impl Worker for LogWorker {
    fn name(&self) -> &'static str {
        "log"
    }

    fn step(&mut self, clock: &dyn Clock) -> Instant {
        if let Some(command) = self.commands.take() {
            let at = clock.now();
            self.receipt = Some(OnWire { seq: command.seq, slot: command.slot, at, complete: true });
        }
        let stamp = self.due();
        if clock.now() >= stamp {
            for &(channel, value) in &self.rows[self.next] {
                self.outlet.stage(Reading { channel, value, stamp });
            }
            self.next += 1;
        }
        self.due()
    }

    fn publish(&mut self, _clock: &dyn Clock) {
        self.outlet.publish();
        if let Some(receipt) = self.receipt.take() {
            // The ring buffer holds many times what one tick takes; it is full only if the tick has stopped.
            let _ = self.receipts.push(receipt);
        }
    }
}
