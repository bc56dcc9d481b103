//! The thread of the edge-timed sensors: one ping after the other, each waited for on kernel (or
//! simulated) edge stamps. A lost echo costs this thread its timeout and nobody else anything.

use super::halt::Halt;
use super::snap::Snaps;
use super::{Due, Outlet};
use crate::bus::Gpio;
use crate::crew::Worker;
use crate::device::DeviceFault;
use crate::device::hc_sr04::HcSr04;
use crate::frame::Reading;
use crate::reflex::Cause;
use crate::time::{Clock, Instant, Span};
use std::sync::Arc;

struct Sonar {
    channel: u8,
    device: HcSr04,
    due: Due,
}

/// Owns the lines of all HC-SR04 of a board.
pub struct EdgesWorker {
    gpio: Box<dyn Gpio>,
    outlet: Outlet,
    sonars: Vec<Sonar>,
    snaps: Snaps,
    halt: Arc<Halt>,
    crossed: Option<Cause>,
}

impl EdgesWorker {
    /// A worker that pings each of `sonars` (channel, device, period) in turn; a range that is one of `snaps` says halt.
    pub fn new(
        gpio: Box<dyn Gpio>,
        outlet: Outlet,
        sonars: Vec<(u8, HcSr04, Span)>,
        snaps: Snaps,
        halt: Arc<Halt>,
    ) -> EdgesWorker {
        let sonars = sonars
            .into_iter()
            .map(|(channel, device, period)| Sonar {
                channel,
                device,
                due: Due::every(period, Instant::ZERO),
            })
            .collect();
        EdgesWorker { gpio, outlet, sonars, snaps, halt, crossed: None }
    }
}

impl Worker for EdgesWorker {
    fn name(&self) -> &'static str {
        "edges"
    }

    fn step(&mut self, clock: &dyn Clock) -> Instant {
        let now = clock.now();
        let most_overdue = self.sonars.iter_mut().min_by_key(|sonar| sonar.due.at);
        if let Some(sonar) = most_overdue
            && sonar.due.at <= now
        {
            // Stamped with the ping: the obstacle was where it is said to be a little later than this.
            let value = sonar
                .device
                .measure(self.gpio.as_mut(), clock)
                .map(|range| range.0)
                .map_err(DeviceFault::into);
            if let Ok(range) = value {
                self.crossed = self.snaps.look(sonar.channel, range);
            }
            self.outlet.stage(Reading { channel: sonar.channel, value, stamp: now });
            sonar.due.advance(clock.now());
        }
        self.sonars.iter().map(|sonar| sonar.due.at).min().unwrap_or(Instant::NEVER)
    }

    fn publish(&mut self, now: Instant) {
        self.outlet.publish();
        if let Some(cause) = self.crossed.take() {
            self.halt.raise(cause, now);
        }
    }
}
