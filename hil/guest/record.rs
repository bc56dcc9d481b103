//! What was seen on the wires, collected from events: when the motors moved and when they moved forward,
//! every pulse for a drive motor, every failed transfer, every frame that does not belong to the board.
//! Judges nothing.

use super::wire::{Event, Happening};
use ganglion::base::plan::{Board, EnablePlan, Line, LineSensor, MotorKind, SensorKind};
use ganglion::base::time::Instant;
use ganglion::hardware::device::robot_hat::{pulse_register, timer_of, timer_registers};
use std::collections::BTreeMap;

/// A frame with a pulse for a drive motor, as it was on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulse {
    /// Its first bit.
    pub start: Instant,
    /// Its last bit.
    pub end: Instant,
    /// The register.
    pub register: u8,
    /// The counts; 0 stops the motor.
    pub counts: u16,
}

/// A transfer that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// When it ended.
    pub at: Instant,
    /// Address of its device.
    pub address: u16,
    /// The reason, as a negative errno.
    pub errno: i32,
}

/// The events since the record began.
pub struct Record {
    mcu: u16,
    enable: Option<EnablePlan>,
    reset: Option<Line>,
    /// Registers that this board's frames may name.
    known: Vec<u8>,
    drives: BTreeMap<u8, u16>,
    /// Direction lines: the pulse register of their motor, the level for forward, and their present level.
    ways: BTreeMap<Line, (u8, bool, Option<bool>)>,
    /// The ranger's trigger and echo.
    ranger: Option<(Line, Line)>,
    /// The end of the ranger's last echo before the record was last cleared.
    echoed: Option<Instant>,
    enabled: bool,
    in_reset: bool,
    /// When motion began and ended, alternately; a motor with a pulse counts as moving.
    turns: Vec<(Instant, bool)>,
    /// The same for forward motion; a motor whose direction is unknown counts as moving forward.
    advances: Vec<(Instant, bool)>,
    pulses: Vec<Pulse>,
    failed: Vec<Failed>,
    strays: Vec<Pulse>,
    edges: Vec<(Instant, u16, bool)>,
    enables: Vec<(Instant, bool)>,
    /// Levels to which all other lines were driven: not reset, enable or direction lines.
    others: BTreeMap<u16, Vec<(Instant, bool)>>,
    lost: u64,
    /// Everything up to this time has been seen.
    seen: Instant,
}

impl Record {
    /// An empty record of the wires of `board`, with its motors stopped.
    pub fn new(board: &Board) -> Record {
        let mut known: Vec<u8> = (0x10..0x18).collect(); // the converter
        let mut drives = BTreeMap::new();
        let mut ways = BTreeMap::new();
        for motor in &board.motors {
            let (channels, drive) = match motor.kind {
                MotorKind::DcDir { pwm, dir, mirrored, .. } => {
                    // A low level means forward, except for a motor that is mounted mirrored (the right one).
                    ways.insert(dir, (pulse_register(pwm), mirrored, None));
                    (vec![pwm], true)
                }
                MotorKind::DcPair { forward, backward, .. } => (vec![forward, backward], true),
                MotorKind::Servo { pwm, .. } => (vec![pwm], false),
                MotorKind::Recorded { .. } => continue,
            };
            for channel in channels {
                known.push(pulse_register(channel));
                known.extend(timer_registers(timer_of(channel)));
                if drive {
                    drives.insert(pulse_register(channel), 0);
                }
            }
        }
        Record {
            mcu: board.mcu.as_ref().map_or(0x14, |mcu| mcu.address.into()),
            enable: board.enable,
            reset: board.mcu.as_ref().map(|mcu| mcu.reset),
            known,
            drives,
            ways,
            ranger: board.sensors.iter().find_map(|sensor| match sensor.kind {
                SensorKind::Lines(LineSensor::HcSr04 { trig, echo }) => Some((trig, echo)),
                _ => None,
            }),
            echoed: None,
            enabled: board.enable.is_none(),
            in_reset: false,
            turns: Vec::new(),
            advances: Vec::new(),
            pulses: Vec::new(),
            failed: Vec::new(),
            strays: Vec::new(),
            edges: Vec::new(),
            enables: Vec::new(),
            others: BTreeMap::new(),
            lost: 0,
            seen: Instant::ZERO,
        }
    }

    /// Clears the events, but keeps the present state and the recorded violations of rules that always apply.
    pub fn begin_anew(&mut self) {
        for turns in [&mut self.turns, &mut self.advances] {
            let moving = turns.last().filter(|turn| turn.1).copied();
            turns.clear();
            turns.extend(moving);
        }
        self.echoed = self.echo_before(Instant::NEVER);
        self.pulses.clear();
        self.failed.clear();
        self.edges.clear();
        self.enables.clear();
        self.others.clear();
    }

    /// Takes one event.
    pub fn take(&mut self, event: &Event) {
        let line = Line(event.place.into());
        match event.what {
            Happening::Write | Happening::Read => self.take_transfer(event),
            Happening::Out(high) => self.take_level(line, high, event.end),
            Happening::Floats(high) => self.take_level(line, high, event.end),
            Happening::In(high) => self.edges.push((event.end, event.place, high)),
            Happening::Lost => self.lost += 1,
            Happening::Driven | Happening::Other => {}
        }
        self.seen = self.seen.max(event.end);
    }

    /// Records that nothing else happened up to `now`.
    pub fn quiet_until(&mut self, now: Instant) {
        self.seen = self.seen.max(now);
    }

    fn take_transfer(&mut self, event: &Event) {
        if event.result < 0 {
            self.failed.push(Failed { at: event.end, address: event.place, errno: event.result });
        }
        let Some((register, counts)) = event.frame().filter(|_| event.place == self.mcu) else { return };
        let pulse = Pulse { start: event.start, end: event.end, register, counts };
        if !self.known.contains(&register) {
            self.strays.push(pulse);
        }
        if let Some(drive) = self.drives.get_mut(&register) {
            *drive = if self.in_reset { 0 } else { counts };
            self.pulses.push(pulse);
            self.turn(event.end);
        }
    }

    fn take_level(&mut self, line: Line, high: bool, at: Instant) {
        if self.reset == Some(line) {
            self.in_reset = !high;
            self.drives.values_mut().for_each(|counts| *counts = 0);
        } else if let Some(enable) = self.enable.filter(|enable| enable.line == line) {
            self.enabled = high == enable.on_high;
            self.enables.push((at, self.enabled));
        } else if let Some(way) = self.ways.get_mut(&line) {
            way.2 = Some(high);
        } else {
            return self.others.entry(line.0 as u16).or_default().push((at, high));
        }
        self.turn(at);
    }

    /// Records that the controller lost its pulses by itself, which causes no event.
    pub fn browned_out(&mut self, at: Instant) {
        self.drives.values_mut().for_each(|counts| *counts = 0);
        self.turn(at);
    }

    fn turn(&mut self, at: Instant) {
        let lets = self.enabled && !self.in_reset;
        let moving = lets && self.drives.values().any(|counts| *counts > 0);
        let backwards = |register: u8| {
            self.ways.values().any(|(of, forward, level)| *of == register && *level == Some(!forward))
        };
        let ahead = lets && self.drives.iter().any(|(register, counts)| *counts > 0 && !backwards(*register));
        for (turns, is) in [(&mut self.turns, moving), (&mut self.advances, ahead)] {
            let (last, was) = turns.last().copied().unwrap_or((at, false));
            if was != is {
                // A transfer is reported when it ends, so a line change that is microseconds newer may be
                // reported first.
                turns.push((last.max(at), is));
            }
        }
    }

    // ---- questions ----------------------------------------------------------------------------

    /// Whether the controller's reset line is low.
    pub fn is_in_reset(&self) -> bool {
        self.in_reset
    }
    /// Whether a motor gets current now.
    pub fn is_moving(&self) -> bool {
        self.turns.last().is_some_and(|turn| turn.1)
    }
    /// Whether a motor got current at `at`.
    pub fn was_moving(&self, at: Instant) -> bool {
        was(&self.turns, at)
    }
    /// The first time, at or after `from`, at which the motors were stopped; `from` itself if they were
    /// stopped then.
    pub fn still_from(&self, from: Instant) -> Option<Instant> {
        if !self.was_moving(from) {
            return Some(from);
        }
        self.turns.iter().find(|turn| turn.0 > from && !turn.1).map(|turn| turn.0)
    }
    /// Since when the motors have been stopped; `from` if that is later. `None`: they are moving.
    pub fn still_since(&self, from: Instant) -> Option<Instant> {
        since(&self.turns, from)
    }
    /// When the first pulse for a motor began after the last failed transfer, or after `from` if that is
    /// later. `None`: there was none yet, or the motors are stopped again.
    pub fn drives_again(&self, from: Instant) -> Option<Instant> {
        let last = self.failed().last().map_or(from, |failed| failed.at.max(from));
        let drives = |pulse: &&Pulse| pulse.start > last && pulse.counts > 0;
        self.pulses().iter().find(drives).filter(|_| self.is_moving()).map(|pulse| pulse.start)
    }
    /// The first time between the two at which a motor got current, if one did.
    pub fn moved_between(&self, from: Instant, to: Instant) -> Option<Instant> {
        if self.was_moving(from) {
            return Some(from);
        }
        self.turns.iter().find(|turn| turn.1 && (from..to).contains(&turn.0)).map(|turn| turn.0)
    }
    /// The first time, at or after `from`, at which no motor drove the car forward; `from` itself if none did
    /// then.
    pub fn not_ahead_from(&self, from: Instant) -> Option<Instant> {
        if !was(&self.advances, from) {
            return Some(from);
        }
        self.advances.iter().find(|turn| turn.0 > from && !turn.1).map(|turn| turn.0)
    }
    /// Since when no motor has driven the car forward; `from` if that is later. `None`: one does now.
    pub fn not_ahead_since(&self, from: Instant) -> Option<Instant> {
        since(&self.advances, from)
    }
    /// The first time between the two at which a motor drove the car forward, if one did.
    pub fn ahead_between(&self, from: Instant, to: Instant) -> Option<Instant> {
        if was(&self.advances, from) {
            return Some(from);
        }
        self.advances.iter().find(|turn| turn.1 && (from..to).contains(&turn.0)).map(|turn| turn.0)
    }
    /// When the ranger was first triggered, at or after `from`.
    pub fn ping_after(&self, from: Instant) -> Option<Instant> {
        let trigger = self.ranger?.0.0 as u16;
        self.drives_of(trigger).iter().find(|(at, high)| *at >= from && *high).map(|(at, _)| *at)
    }
    /// The end of the last echo up to `at`.
    pub fn echo_before(&self, at: Instant) -> Option<Instant> {
        let echo = self.ranger?.1.0 as u16;
        let ended = |edge: &&(Instant, u16, bool)| edge.1 == echo && !edge.2 && edge.0 <= at;
        self.edges.iter().rev().find(ended).map(|edge| edge.0).or(self.echoed)
    }
    /// The first frame, at or after `from`, that sets a motor's pulse to zero.
    pub fn stop_after(&self, from: Instant) -> Option<Pulse> {
        self.pulses.iter().find(|pulse| pulse.start >= from && pulse.counts == 0).copied()
    }
    /// Frames for drive motors, in order.
    pub fn pulses(&self) -> &[Pulse] {
        &self.pulses
    }
    /// Transfers that failed, in order.
    pub fn failed(&self) -> &[Failed] {
        &self.failed
    }
    /// Frames that name a register which this board does not use: framing was lost.
    pub fn strays(&self) -> &[Pulse] {
        &self.strays
    }
    /// Edges of the input lines: time, line, level.
    pub fn edges(&self) -> &[(Instant, u16, bool)] {
        &self.edges
    }
    /// When the motors were enabled and disabled.
    pub fn enables(&self) -> &[(Instant, bool)] {
        &self.enables
    }
    /// Levels to which a line other than reset, enable and direction lines was driven.
    pub fn drives_of(&self, line: u16) -> &[(Instant, bool)] {
        self.others.get(&line).map_or(&[], Vec::as_slice)
    }
    /// How often events were lost because the bench did not read them fast enough.
    pub fn lost(&self) -> u64 {
        self.lost
    }
    /// The time up to which everything has been seen.
    pub fn seen(&self) -> Instant {
        self.seen
    }
}

/// Whether a state that changed at these times was on at `at`.
fn was(turns: &[(Instant, bool)], at: Instant) -> bool {
    turns.iter().take_while(|turn| turn.0 <= at).last().is_some_and(|turn| turn.1)
}

/// Since when a state that changed at these times has been off; `from` if that is later. `None`: it is on.
fn since(turns: &[(Instant, bool)], from: Instant) -> Option<Instant> {
    match turns.last() {
        Some((_, true)) => None,
        Some((at, false)) => Some(from.max(*at)),
        None => Some(from),
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::tests::event;
    use super::*;
    use ganglion::deploy::board;

    fn record() -> Record {
        let mut board = board::built_in("picarx-v4").unwrap().unwrap().board;
        board.enable = Some(EnablePlan { line: Line(11), on_high: true });
        Record::new(&board)
    }

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn motion_needs_pulses_the_enable_line_and_no_reset() {
        let mut record = record();
        record.take(&event(Happening::Write, 0x14, 10, &[0x2D, 8, 0]));
        assert!(!record.is_moving(), "the enable line is off");
        record.take(&event(Happening::Out(true), 11, 20, &[]));
        assert!(record.is_moving());
        record.take(&event(Happening::Out(false), 5, 30, &[]));
        assert!(!record.is_moving());
        record.take(&event(Happening::Out(true), 5, 40, &[]));
        assert!(!record.is_moving(), "a reset clears the pulses");
        record.take(&event(Happening::Write, 0x14, 50, &[0x2C, 8, 0]));
        assert_eq!(record.still_since(at(25)), None);
        record.take(&event(Happening::Floats(false), 11, 60, &[]));
        assert!(!record.is_moving(), "the owner of the enable line died");
        assert_eq!(record.still_since(at(25)), Some(at(60)), "it moved again after the first stop");
        assert_eq!(record.still_since(at(70)), Some(at(70)));
        assert_eq!(record.still_from(at(25)), Some(at(30)));
        assert_eq!(record.still_from(at(35)), Some(at(35)));
        assert_eq!(record.moved_between(at(31), at(100)), Some(at(50)));
        assert_eq!(record.moved_between(at(60), at(100)), None);
    }

    #[test]
    fn backing_off_counts_as_motion_but_not_as_driving_ahead() {
        let mut record = record();
        record.take(&event(Happening::Out(true), 11, 1, &[]));
        record.take(&event(Happening::Out(false), 23, 2, &[])); // left, forward
        record.take(&event(Happening::Write, 0x14, 10, &[0x2D, 8, 0]));
        assert_eq!(record.ahead_between(at(3), at(20)), Some(at(10)));
        record.take(&event(Happening::Write, 0x14, 20, &[0x2D, 0, 0]));
        record.take(&event(Happening::Out(true), 23, 25, &[]));
        record.take(&event(Happening::Write, 0x14, 30, &[0x2D, 8, 0]));
        assert!(record.is_moving());
        assert_eq!(record.not_ahead_from(at(12)), Some(at(20)));
        assert_eq!(record.ahead_between(at(20), at(99)), None);
        record.take(&event(Happening::Out(true), 24, 40, &[])); // right, forward: it is mirrored
        record.take(&event(Happening::Write, 0x14, 50, &[0x2C, 8, 0]));
        assert_eq!(record.ahead_between(at(20), at(99)), Some(at(50)), "one wheel is enough");
        record.take(&event(Happening::Out(true), 27, 60, &[]));
        assert_eq!((record.ping_after(at(55)), record.ping_after(at(61))), (Some(at(60)), None));
    }

    #[test]
    fn a_failed_frame_moves_nothing_and_a_shifted_one_is_reported() {
        let mut record = record();
        record.take(&event(Happening::Out(true), 11, 1, &[]));
        let mut nack = event(Happening::Write, 0x14, 2, &[0x2D, 8, 0]);
        nack.result = -6;
        record.take(&nack);
        assert!(!record.is_moving());
        assert_eq!(record.failed(), [Failed { at: at(2), address: 0x14, errno: -6 }]);
        record.take(&event(Happening::Write, 0x14, 3, &[0x22, 0, 9]));
        record.take(&event(Happening::Write, 0x14, 4, &[0x17, 0, 0]));
        assert!(record.strays().is_empty());
        record.take(&event(Happening::Write, 0x14, 5, &[0x0F, 0xFF, 0x2D]));
        assert_eq!(record.strays().len(), 1);
    }

    #[test]
    fn the_last_echo_survives_when_older_events_are_dropped() {
        let mut record = record();
        assert_eq!(record.echo_before(Instant::NEVER), None);
        for (ns, line, high) in [(10, 22, true), (20, 22, false), (30, 25, false)] {
            record.take(&event(Happening::In(high), line, ns, &[]));
        }
        record.begin_anew();
        assert_eq!(record.echo_before(at(15)), Some(at(20)), "it came before all other events");
        record.take(&event(Happening::In(true), 22, 40, &[]));
        assert_eq!(record.echo_before(at(45)), Some(at(20)), "a rising edge does not end an echo");
        record.take(&event(Happening::In(false), 22, 50, &[]));
        assert_eq!([45, 50].map(|ns| record.echo_before(at(ns))), [Some(at(20)), Some(at(50))]);
    }

    #[test]
    fn a_stop_is_the_first_zero_frame_after_its_cause() {
        let mut record = record();
        record.take(&event(Happening::Write, 0x14, 5, &[0x2D, 0, 0]));
        record.take(&event(Happening::Write, 0x14, 20, &[0x2D, 8, 0]));
        record.take(&event(Happening::Write, 0x14, 30, &[0x2C, 0, 0]));
        assert_eq!(record.stop_after(at(6)).map(|pulse| pulse.start), Some(at(30)));
        assert_eq!(record.stop_after(at(31)), None);
    }
}
