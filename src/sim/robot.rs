//! What is behind the wires: a world, a car in it, chips, a script of faults.
//!
//! It moves in steps of 1 ms on its own grid, always up to the time of the access that asks, never
//! back: the same writes at the same times give the same world, however often it is looked at.

use super::battery::Battery;
use super::car::{Car, STEP_S};
use super::co_processor::CoProcessor;
use super::faults::{Fault, FaultKind, Script};
use super::ground::Ground;
use super::hat::Hat;
use super::imu::{Imu, Motion};
use super::noise::Noise;
use super::plant::Report;
use super::sonar::{self, Condition, Sonar};
use super::wiring::{Role, Wiring};
use super::world::World;
use crate::board::plan::Board;
use crate::bus::{BusFault, Edge, Line, Op};
use crate::device::SensorKind;
use crate::seed::{Stream, bits};
use crate::time::{Instant, Span};

const STEP: Span = Span::from_nanos((STEP_S * 1e9) as u64);
/// Converter channels: three reflection sensors, and the battery behind its divider.
const BATTERY_CHANNEL: u8 = 4;
/// The divider makes 9.9 V full scale of the converter.
const BATTERY_COUNTS_PER_V: f64 = 4095.0 / 9.9;
/// Standard deviation of a battery reading, counts (5 mV).
const BATTERY_NOISE: f64 = 2.0;
/// What the battery shows while it is low: below every warning, above the cut-off.
const LOW_V: f64 = 6.9;
/// Lean of a car that stands, hangs over an edge, and is made to lean by a fault; and its noise.
const FALLEN_DEG: f64 = 35.0;
const OVER_DEG: f64 = 60.0;
const LEAN_NOISE_DEG: f64 = 0.3;
/// Edges that wait to be read, as the kernel keeps a limited number; the oldest goes first.
const EDGES: usize = 32;

/// Numbers that name the sensors to the noise; part of every digest, so never renumbered.
const NOISE_GROUND: u64 = 1;
const NOISE_BATTERY: u64 = 4;
const NOISE_LEAN: u64 = 5;
const NOISE_IMU: u64 = 6;
const NOISE_SONAR: u64 = 16;

/// How a transfer fares on the wire, before its bytes are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// The device acknowledges its address.
    Free,
    /// Nobody does.
    Nack,
    /// Something holds the bus.
    Held,
}

/// What one handle on the lines gets to see.
struct Watch {
    lines: Vec<Line>,
    edges: heapless::Deque<Edge, EDGES>,
    /// Up to where the buttons' edges have been delivered.
    seen: Instant,
}

/// What is behind the wires.
pub struct Robot {
    zero: Instant,
    steps: u64,
    seed: u64,
    script: Script,
    world: World,
    car: Car,
    battery: Battery,
    hat: Option<Hat>,
    /// With the bus that each sits on.
    leans: Vec<(usize, CoProcessor)>,
    imus: Vec<(usize, Imu)>,
    sonars: Vec<Sonar>,
    ground: Ground,
    wiring: Wiring,
    battery_noise: Noise,
    lean_noise: Noise,
    watches: Vec<Watch>,
    /// Last counts of each converter channel, for when it freezes.
    converted: [Option<u16>; 8],
    /// A transfer was broken off since the first bus was last free.
    broken_off: bool,
    bytes_garbled: u64,
    brown_outs: u64,
    transfers: u64,
    failed_transfers: u64,
}

impl Robot {
    /// The robot of `board`, standing at its start; its time begins at `zero`.
    pub fn new(board: &Board, seed: u64, faults: &[Fault], zero: Instant) -> Robot {
        let plan = board.sim.clone().unwrap_or_default();
        let world = World::new(&plan, seed);
        let (mut leans, mut imus): (Vec<_>, Vec<(usize, Imu)>) = (Vec::new(), Vec::new());
        let mut sonars = Vec::new();
        for sensor in &board.sensors {
            match sensor.kind {
                SensorKind::HcSr04 { echo, .. } => {
                    let noise = Noise::new(seed, NOISE_SONAR + sonars.len() as u64);
                    sonars.push(Sonar::new(echo, noise));
                }
                SensorKind::FloatRegister { address, register } => {
                    leans.push((sensor.bus, CoProcessor::new(address, register)));
                }
                SensorKind::Mpu6050 { address, .. }
                    if imus.iter().all(|(bus, imu)| (*bus, imu.address()) != (sensor.bus, address)) =>
                {
                    let noise = Noise::new(seed, NOISE_IMU + imus.len() as u64);
                    imus.push((sensor.bus, Imu::new(address, noise)));
                }
                _ => {}
            }
        }
        Robot {
            zero,
            steps: 0,
            seed,
            script: Script::new(faults, zero),
            car: Car::new(&plan, &world),
            world,
            battery: Battery::new(plan.battery_v),
            hat: board.mcu.as_ref().map(Hat::new),
            leans,
            imus,
            sonars,
            ground: Ground::new([0, 1, 2].map(|nth| Noise::new(seed, NOISE_GROUND + nth))),
            wiring: Wiring::new(board),
            battery_noise: Noise::new(seed, NOISE_BATTERY),
            lean_noise: Noise::new(seed, NOISE_LEAN),
            watches: Vec::new(),
            converted: [None; 8],
            broken_off: false,
            bytes_garbled: 0,
            brown_outs: 0,
            transfers: 0,
            failed_transfers: 0,
        }
    }

    /// What it has been through.
    pub fn report(&self, now: Instant) -> Report {
        Report {
            at: now,
            pose: self.car.pose(),
            speed: self.car.speed(),
            steering_deg: self.car.steering_deg(),
            contacts: self.car.contacts(),
            distance_m: self.car.distance(),
            battery_v: self.volts(now),
            mcu_resets: self.hat.as_ref().map_or(0, Hat::resets),
            brown_outs: self.brown_outs,
            transfers: self.transfers,
            failed_transfers: self.failed_transfers,
        }
    }

    /// Whether no drive motor has a pulse.
    pub fn is_still(&self) -> bool {
        self.hat.as_ref().is_none_or(|hat| self.wiring.is_still(hat))
    }

    /// The room.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// When its time began.
    pub fn zero(&self) -> Instant {
        self.zero
    }

    fn is_on(&self, kind: FaultKind, now: Instant) -> bool {
        self.script.is_on(kind, now)
    }

    // ---- time -------------------------------------------------------------------------------

    /// Moves it on to `now`; a time that has passed changes nothing.
    pub fn advance(&mut self, now: Instant) {
        let due = now.since(self.zero).as_nanos() / STEP.as_nanos();
        while self.steps < due {
            let at = self.zero + STEP.times(self.steps);
            self.step(at);
            self.feel(at);
            self.steps += 1;
        }
    }

    fn step(&mut self, at: Instant) {
        let Some(hat) = &mut self.hat else { return };
        if !self.wiring.is_still(hat) && self.script.is_on(FaultKind::BrownOut, at) {
            hat.brown_out(at);
            self.battery.dip();
            self.brown_outs += 1;
            self.imus.iter_mut().for_each(|(_, imu)| imu.lose_power()); // they hang on the same rail
        }
        let drive = self.wiring.drive(hat);
        self.car.step(drive, self.wiring.steering_deg(hat), &self.world);
        self.battery.step(drive);
    }

    /// What the inertial sensors feel of the step.
    fn feel(&mut self, at: Instant) {
        if self.imus.is_empty() {
            return;
        }
        let turn = self.car.turn_rad_s();
        let motion = Motion { lean_deg: self.true_lean_deg(at), speed: self.car.speed(), turn };
        self.imus.iter_mut().for_each(|(_, imu)| imu.step(motion));
    }

    // ---- I2C --------------------------------------------------------------------------------

    /// The start of a transfer, and what comes of it.
    pub fn begin_transfer(&mut self, bus: usize, address: u8, ops: &[Op<'_>], now: Instant) -> Wire {
        self.transfers += 1;
        let stuck = if bus == 0 { FaultKind::I2cStuck } else { FaultKind::SecondI2cStuck };
        let wire = if self.is_on(stuck, now) {
            self.break_off(bus, address, ops, now);
            Wire::Held
        } else {
            self.broken_off &= bus != 0;
            if self.is_on(FaultKind::I2cNack, now) || !self.acknowledges(bus, address, now) {
                Wire::Nack
            } else {
                Wire::Free
            }
        };
        if wire != Wire::Free {
            self.failed_transfers += 1;
        }
        wire
    }

    /// The bus seizes up in the middle of the first transfer that meets the fault: one byte of it
    /// has arrived, the rest never will.
    fn break_off(&mut self, bus: usize, address: u8, ops: &[Op<'_>], now: Instant) {
        if bus != 0 || self.broken_off || !self.acknowledges(bus, address, now) {
            return; // only the controller on the first bus minds
        }
        self.broken_off = true;
        if let Some(Op::Write(bytes)) = ops.first()
            && let Some(first) = bytes.first()
        {
            self.take(bus, address, *first, now);
        }
    }

    fn acknowledges(&self, bus: usize, address: u8, now: Instant) -> bool {
        self.hat.as_ref().is_some_and(|hat| bus == 0 && hat.answers(address, now))
            || self.leans.iter().any(|(its, device)| *its == bus && device.address() == address)
            || self.imus.iter().any(|(its, imu)| *its == bus && imu.address() == address)
    }

    /// The end of a transfer whose bytes were on the wire.
    pub fn end_transfer(
        &mut self,
        bus: usize,
        address: u8,
        ops: &mut [Op<'_>],
        now: Instant,
    ) -> Result<(), BusFault> {
        if !self.acknowledges(bus, address, now) {
            self.failed_transfers += 1; // it was there when the transfer began and lost its supply since
            return Err(BusFault::Nack);
        }
        if self.hat.as_ref().is_some_and(|hat| bus == 0 && hat.answers(address, now))
            && let [Op::Write([register]), Op::Read(back)] = ops
        {
            self.read_block(*register, back, now);
            return Ok(());
        }
        if let Some(nth) = self.imus.iter().position(|(its, imu)| *its == bus && imu.address() == address) {
            self.talk_to_imu(nth, ops, now);
            return Ok(());
        }
        for op in ops {
            match op {
                Op::Write(bytes) => bytes.iter().for_each(|byte| self.take(bus, address, *byte, now)),
                Op::Read(bytes) => {
                    for byte in bytes.iter_mut() {
                        *byte = self.give(bus, address, now);
                    }
                }
            }
        }
        Ok(())
    }

    fn talk_to_imu(&mut self, nth: usize, ops: &mut [Op<'_>], now: Instant) {
        for op in ops {
            match op {
                Op::Write(bytes) => self.imus[nth].1.write(bytes),
                Op::Read(bytes) => {
                    self.imus[nth].1.read(bytes);
                    bytes.iter_mut().for_each(|byte| *byte = self.garble(*byte, now));
                }
            }
        }
    }

    fn read_block(&mut self, register: u8, back: &mut [u8], now: Instant) {
        for (nth, byte) in back.iter_mut().enumerate() {
            let read = self.hat.as_ref().map_or(0xFF, |hat| hat.block(register, nth));
            *byte = self.garble(read, now);
        }
    }

    fn take(&mut self, bus: usize, address: u8, byte: u8, now: Instant) {
        let hat = self.hat.as_mut().filter(|hat| bus == 0 && hat.answers(address, now));
        if let Some(channel) = hat.and_then(|hat| hat.take(byte)) {
            let counts = self.convert(channel, now);
            self.hat.iter_mut().for_each(|hat| hat.convert(counts));
        }
        for (its, device) in &mut self.leans {
            if *its == bus && device.address() == address {
                device.take(byte);
            }
        }
    }

    fn give(&mut self, bus: usize, address: u8, now: Instant) -> u8 {
        let mut byte = 0xFF; // nobody pulls the line down
        if let Some(hat) = self.hat.as_mut().filter(|hat| bus == 0 && hat.answers(address, now)) {
            byte &= hat.give();
        }
        let lean = self.lean_deg(now);
        for (its, device) in &mut self.leans {
            if *its == bus && device.address() == address {
                byte &= device.give(lean);
            }
        }
        self.garble(byte, now)
    }

    fn garble(&mut self, byte: u8, now: Instant) -> u8 {
        if !self.is_on(FaultKind::I2cWrongBytes, now) {
            return byte;
        }
        self.bytes_garbled += 1;
        let mask = bits(self.seed, Stream::Fault, self.bytes_garbled) as u8;
        byte ^ mask.max(1) // at least one bit
    }

    /// What the converter sees on `channel`.
    fn convert(&mut self, channel: u8, now: Instant) -> u16 {
        let place = usize::from(channel & 7);
        if let Some(frozen) = self.converted[place].filter(|_| self.is_on(FaultKind::AdcFrozen, now)) {
            return frozen;
        }
        let (world, outline, pose) = (&self.world, self.car.outline(), self.car.pose());
        let counts = match channel {
            0..=2 => self.ground.counts(place, world, outline, &pose),
            BATTERY_CHANNEL => {
                self.volts(now) * BATTERY_COUNTS_PER_V + self.battery_noise.draw(BATTERY_NOISE)
            }
            _ => 0.0, // nothing is plugged in
        };
        let counts = libm::round(counts).clamp(0.0, 4095.0) as u16;
        self.converted[place] = Some(counts);
        counts
    }

    fn volts(&self, now: Instant) -> f64 {
        let volts = self.battery.volts();
        if self.is_on(FaultKind::BatteryLow, now) { volts.min(LOW_V) } else { volts }
    }

    fn lean_deg(&mut self, now: Instant) -> f32 {
        if self.is_on(FaultKind::TiltNan, now) {
            return f32::NAN;
        }
        (self.true_lean_deg(now) + self.lean_noise.draw(LEAN_NOISE_DEG)) as f32
    }

    fn true_lean_deg(&self, now: Instant) -> f64 {
        match (self.is_on(FaultKind::TiltOver, now), self.car.has_fallen()) {
            (true, _) => OVER_DEG,
            (false, true) => FALLEN_DEG,
            (false, false) => 0.0,
        }
    }

    // ---- lines ------------------------------------------------------------------------------

    /// An output is driven.
    pub fn set_line(&mut self, line: Line, high: bool, now: Instant) -> Result<(), BusFault> {
        match self.wiring.role(line).ok_or(BusFault::Absent)? {
            Role::Echo(_) | Role::Button { .. } => return Err(BusFault::Unsupported), // an input
            Role::Direction => {}
            Role::Reset => {
                if let Some(hat) = &mut self.hat {
                    hat.set_reset(high, now);
                }
            }
            Role::Trig(nth) => self.drive_trig(nth, high, now),
        }
        self.wiring.set(line, high);
        Ok(())
    }

    fn drive_trig(&mut self, nth: usize, high: bool, now: Instant) {
        let condition = if self.is_on(FaultKind::SonarSilent, now) {
            Condition::Silent
        } else if self.is_on(FaultKind::SonarFrozen, now) {
            Condition::Frozen
        } else {
            Condition::Sound
        };
        let (world, outline, pose) = (&self.world, self.car.outline(), self.car.pose());
        let Some(sonar) = self.sonars.get_mut(nth) else { return };
        let look = || sonar::look(world, outline, &pose);
        for edge in sonar.drive_trig(high, now, condition, look).into_iter().flatten() {
            self.deliver(edge);
        }
    }

    /// Puts `edge` in its place in time for everybody who watches its line.
    fn deliver(&mut self, edge: Edge) {
        for watch in self.watches.iter_mut().filter(|watch| watch.lines.contains(&edge.line)) {
            if watch.edges.is_full() {
                watch.edges.pop_front();
            }
            let _ = watch.edges.push_back(edge); // there is room now
            watch.edges.make_contiguous().sort_unstable_by_key(|edge| edge.stamp);
        }
    }

    /// Level of a line.
    pub fn line_is_high(&self, line: Line, now: Instant) -> Result<bool, BusFault> {
        Ok(match self.wiring.role(line).ok_or(BusFault::Absent)? {
            Role::Echo(nth) => self.sonars.get(nth).is_some_and(|sonar| sonar.echo_is_high(now)),
            Role::Button { active_low } => self.is_on(FaultKind::EStop, now) != active_low,
            Role::Reset | Role::Direction | Role::Trig(_) => self.wiring.is_high(line),
        })
    }

    /// A new watch on `lines`, from `now` on; its number.
    pub fn watch(&mut self, lines: Vec<Line>, now: Instant) -> usize {
        self.watches.push(Watch { lines, edges: heapless::Deque::new(), seen: now });
        self.watches.len() - 1
    }
    /// A new watch on every echo; its number.
    pub fn watch_echoes(&mut self, now: Instant) -> usize {
        self.watch(self.wiring.echoes().collect(), now)
    }

    /// Takes the first edge of a watch that happens up to `end`.
    pub fn take_edge(&mut self, watch: usize, end: Instant) -> Option<Edge> {
        let pressed = self.next_press(watch, end);
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

    /// The next edge of a watched button: the script has it.
    fn next_press(&self, watch: usize, end: Instant) -> Option<Edge> {
        let watch = self.watches.get(watch)?;
        let button = |line: &Line| match self.wiring.role(*line) {
            Some(Role::Button { active_low }) => Some((*line, active_low)),
            _ => None,
        };
        let (line, active_low) = watch.lines.iter().find_map(button)?;
        let stamp = self.script.next_change(FaultKind::EStop, watch.seen, end)?;
        Some(Edge { line, high: self.is_on(FaultKind::EStop, stamp) != active_low, stamp })
    }
}
