//! The lines of the simulated robot: outputs to drive, levels to read, edges to wait for.

use super::super::faults::FaultKind;
use super::super::sonar::Condition;
use super::super::wiring::Role;
use super::{NOWHERE, Robot, Watch};
use crate::base::fault::BusFault;
use crate::base::plan::Line;
use crate::base::time::Instant;
use crate::hardware::bus::Edge;

impl Robot {
    /// Drives an output.
    pub fn set_line(&mut self, line: Line, high: bool, now: Instant) -> Result<(), BusFault> {
        match self.wiring.role(line).ok_or(BusFault::Absent)? {
            // These are inputs.
            Role::Echo(_) | Role::Button { .. } | Role::Ready { .. } => return Err(BusFault::Unsupported),
            Role::Shutdown(nth) => self.shut_down(nth, high),
            Role::Direction | Role::Enable { .. } => {}
            Role::Reset => {
                if let Some(hat) = &mut self.hat {
                    hat.set_reset(high, now);
                }
            }
            Role::Trig(nth) => self.drive_trig(nth, high, now),
        }
        self.wiring.set(line, high);
        self.note_currents(now);
        Ok(())
    }

    /// Whether `line` holds the controller in reset.
    pub fn holds_in_reset(&self, line: Line) -> bool {
        matches!(self.wiring.role(line), Some(Role::Reset))
            && self.hat.as_ref().is_some_and(|hat| hat.is_held())
    }

    fn drive_trig(&mut self, nth: usize, high: bool, now: Instant) {
        let place = nth as u8; // a board has at most 64 sensors
        let condition = if self.script.is_on_at(FaultKind::SonarStuck, place, now) {
            Condition::Stuck
        } else if self.script.is_on_at(FaultKind::SonarSilent, place, now) {
            Condition::Silent
        } else if self.script.is_on_at(FaultKind::SonarFrozen, place, now) {
            Condition::Frozen
        } else {
            Condition::Sound
        };
        let Some(sonar) = self.sonars.get_mut(nth) else { return };
        let (world, pose) = (&self.world, self.car.pose());
        for edge in sonar.drive_trig(high, now, condition, |eye| eye.nearest(world, &pose)) {
            self.deliver(edge);
        }
    }

    /// Inserts `edge` in time order into every watch of its line.
    fn deliver(&mut self, edge: Edge) {
        for watch in self.watches.iter_mut().filter(|watch| watch.lines.contains(&edge.line)) {
            if watch.edges.is_full() {
                watch.edges.pop_front();
            }
            let _ = watch.edges.push_back(edge); // there is room: the oldest edge was dropped
            watch.edges.make_contiguous().sort_unstable_by_key(|edge| edge.stamp);
        }
    }

    /// Level of a line.
    pub fn line_is_high(&mut self, line: Line, now: Instant) -> Result<bool, BusFault> {
        Ok(match self.wiring.role(line).ok_or(BusFault::Absent)? {
            Role::Echo(nth) => {
                self.script.is_on_at(FaultKind::SonarStuck, nth as u8, now) // at most 64 sensors
                    || self.sonars.get(nth).is_some_and(|sonar| sonar.echo_is_high(now))
            }
            Role::Button { active_low } => {
                let high = self.script.is_on_at(FaultKind::EStop, button(line), now) != active_low;
                self.witness.iter_mut().for_each(|witness| witness.level(line, high, now));
                high
            }
            Role::Ready { .. } => false, // its pulses are too short to be seen
            Role::Reset | Role::Direction | Role::Trig(_) | Role::Shutdown(_) | Role::Enable { .. } => {
                self.wiring.is_high(line)
            }
        })
    }

    /// Starts a new watch on `lines` at `now`; returns its number.
    pub fn watch(&mut self, lines: Vec<Line>, now: Instant) -> usize {
        self.watches.push(Watch { lines, edges: heapless::Deque::new(), seen: now });
        self.watches.len() - 1
    }
    /// Starts one watch on all echo lines; returns its number.
    pub fn watch_echoes(&mut self, now: Instant) -> usize {
        self.watch(self.wiring.echoes().collect(), now)
    }

    /// Takes the first edge of a watch up to `end`; the caller waits from `now` on.
    pub fn take_edge(&mut self, watch: usize, now: Instant, end: Instant) -> Option<Edge> {
        let edge = self.first_edge(watch, end)?;
        if let Some(witness) = &mut self.witness {
            witness.edge(&edge, now.max(edge.stamp));
        }
        Some(edge)
    }

    fn first_edge(&mut self, watch: usize, end: Instant) -> Option<Edge> {
        let pressed = self.next_press(watch, end);
        let pulsed = self.next_sample(watch, end);
        // These edges are not queued: the script and the chip determine when they occur.
        let pressed = [pressed, pulsed].into_iter().flatten().min_by_key(|edge| edge.stamp);
        let watch = self.watches.get_mut(watch)?;
        let echoed = watch.edges.front().filter(|edge| edge.stamp <= end).copied();
        match (echoed, pressed) {
            (Some(echoed), Some(pressed)) if pressed.stamp < echoed.stamp => {
                watch.seen = pressed.stamp;
                Some(pressed)
            }
            (Some(_), _) => watch.edges.pop_front(),
            (None, Some(pressed)) => {
                watch.seen = pressed.stamp;
                Some(pressed)
            }
            (None, None) => {
                watch.seen = watch.seen.max(end);
                None
            }
        }
    }

    /// The next rising edge of a watched data-ready line.
    fn next_sample(&self, watch: usize, end: Instant) -> Option<Edge> {
        let watch = self.watches.get(watch)?;
        let rises = watch.lines.iter().filter_map(|line| match self.wiring.role(*line) {
            Some(Role::Ready { bus, address }) => {
                let stamp = self.next_pulse((bus, address), watch.seen, end)?;
                Some(Edge { line: *line, high: true, stamp })
            }
            _ => None,
        });
        rises.min_by_key(|edge| edge.stamp)
    }

    /// The next edge of a watched button, from the script.
    fn next_press(&self, watch: usize, end: Instant) -> Option<Edge> {
        let watch = self.watches.get(watch)?;
        let is_button = |line: &Line| match self.wiring.role(*line) {
            Some(Role::Button { active_low }) => Some((*line, active_low)),
            _ => None,
        };
        let buttons = watch.lines.iter().filter_map(is_button);
        let next = |(line, active_low)| {
            let target = button(line);
            let stamp = self.script.next_change(FaultKind::EStop, target, watch.seen, end)?;
            Some(Edge {
                line,
                high: self.script.is_on_at(FaultKind::EStop, target, stamp) != active_low,
                stamp,
            })
        };
        buttons.filter_map(next).min_by_key(|edge| edge.stamp)
    }
}

/// The target by which a fault names the button on `line`.
fn button(line: Line) -> u8 {
    u8::try_from(line.0).unwrap_or(NOWHERE)
}
