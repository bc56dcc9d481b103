//! Everything behind the wires: a world, a car in it, chips, and a script of faults.
//!
//! It advances in steps of 1 ms on its own grid, up to the time of the current access, never back: the same
//! writes at the same times produce the same world, however often it is read.

mod chips;
mod lines;

use super::battery::Battery;
use super::car::{Car, STEP, STEP_S};
use super::chip::Chip;
use super::co_processor::CoProcessor;
use super::contact::Contact;
use super::course::Course;
use super::faults::{Fault, FaultKind, Script};
use super::ground::{Ground, Spots};
use super::hat::Hat;
use super::noise::Noise;
use super::outputs::{NoCurrent, Outputs};
use super::pca9685::Pca9685;
use super::plant::Report;
use super::pose_cell::PoseCell;
use super::ranger::HALF_VIEW_DEG;
use super::sonar::{HALF_CONE_DEG, Sonar};
use super::wiring::Wiring;
use super::world::{Outline, World};
use crate::base::command::MAX_MOTORS;
use crate::base::fault::BusFault;
use crate::base::plan::{Board, Line, PwmPlan};
use crate::base::seed::{Stream, bits};
use crate::base::time::Instant;
use crate::hardware::bus::{Edge, Op};
use std::fmt;
use std::sync::Arc;

/// Converter channel of the battery, behind its divider. The reflectance sensors are on channels 0 to 2.
const BATTERY_CHANNEL: u8 = 4;
/// The divider maps 9.9 V to full scale of the converter.
const BATTERY_COUNTS_PER_V: f64 = 4095.0 / 9.9;
/// Standard deviation of a battery reading, counts (5 mV).
const BATTERY_NOISE: f64 = 2.0;
/// The battery voltage while a fault makes it low: below every warning, above the cut-off.
const LOW_V: f64 = 6.9;
/// Lean of a car that hangs over an edge, and of one that a fault tips over; and the noise of the lean.
const FALLEN_DEG: f64 = 35.0;
const OVER_DEG: f64 = 60.0;
const LEAN_NOISE_DEG: f64 = 0.3;
/// Number of a device that a fault cannot single out, such as a button whose line has a name or a number
/// above 254. No I2C address equals it, because addresses have 7 bits. Faults without a target still apply to
/// it.
const NOWHERE: u8 = 0xFF;
/// Maximum number of edges that wait to be read; a full queue drops its oldest edge, as in the kernel.
const EDGES: usize = 32;

/// Numbers that identify the sensors to the noise generator. They affect every digest, so they must never
/// change.
const NOISE_GROUND: u64 = 1;
const NOISE_BATTERY: u64 = 4;
const NOISE_LEAN: u64 = 5;
const NOISE_IMU: u64 = 6;
const NOISE_SONAR: u64 = 16;
const NOISE_RANGER: u64 = 80;
const NOISE_POWER: u64 = 144;
const NOISE_RING: u64 = 208;

/// How the bus responds to the start of a transfer, whatever its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// The device acknowledges its address.
    Free,
    /// No device acknowledges.
    Nack,
    /// A line of the bus is held.
    Held,
}

/// The edges that one handle on the lines receives.
struct Watch {
    lines: Vec<Line>,
    edges: heapless::Deque<Edge, EDGES>,
    /// Time up to which the edges of buttons and data-ready lines have been delivered.
    seen: Instant,
}

/// Observes what happens on the wires as it happens: for a checker that must not rely on the runtime. Times
/// are those of the accesses. Workers overlap, so an event of one may be reported after later events of
/// another.
pub trait Witness: fmt::Debug + Send {
    /// The drive motors now have these currents, in the board's order, as signed duty cycles: -1..=1,
    /// forwards positive. If a line caused the change, `at` may lie before the world's present time: a bus,
    /// which another thread owns, advances the world by a whole transfer in one step.
    fn currents(&mut self, now: heapless::Vec<f32, MAX_MOTORS>, at: Instant);
    /// A transfer to the chip that generates the motors' pulses ended; `answered`: it was acknowledged.
    fn controller(&mut self, answered: bool, at: Instant);
    /// A transfer was fully acknowledged; these are its bytes. `controller`: it went to that chip.
    fn transfer(&mut self, bus: usize, address: u8, controller: bool, ops: &[Op<'_>], at: Instant);
    /// The thread that waits for an edge received it at `at`.
    fn edge(&mut self, edge: &Edge, at: Instant);
    /// The level of a button's line was read.
    fn level(&mut self, line: Line, high: bool, at: Instant);
}

/// Everything behind the wires.
pub struct Robot {
    zero: Instant,
    steps: u64,
    seed: u64,
    script: Script,
    world: World,
    car: Car,
    pose_cell: Arc<PoseCell>,
    course: Course,
    battery: Battery,
    hat: Option<Hat>,
    pca9685: Option<Pca9685>,
    /// Each with its bus.
    co_processors: Vec<(usize, CoProcessor)>,
    chips: Vec<(usize, Chip)>,
    sonars: Vec<Sonar>,
    ground: Ground,
    wiring: Wiring,
    battery_noise: Noise,
    lean_noise: Noise,
    watches: Vec<Watch>,
    /// Last counts of each converter channel; a frozen channel repeats them.
    converted: [Option<u16>; 8],
    /// A transfer has been aborted since the first bus was last free.
    broken_off: bool,
    bytes_garbled: u64,
    brown_outs: u64,
    transfers: u64,
    failed_transfers: u64,
    witness: Option<Box<dyn Witness>>,
}

impl Robot {
    /// The robot of `board`, at rest at its start; its time begins at `zero`.
    pub fn new(board: &Board, seed: u64, faults: &[Fault], zero: Instant) -> Robot {
        let plan = board.sim.clone().unwrap_or_default();
        let world = World::new(&plan, seed);
        let outline = Outline::of(&plan);
        let spots = Spots::of(&board.sensors, &outline);
        let sonars = chips::sonars(board, &outline, plan.sonar, seed);
        let chips = chips::chips(board, &outline, seed);
        // If a board has both kinds of range sensor, the sonar's wider view counts.
        let ranger = sonars.is_empty() && chips.iter().any(|(_, chip)| matches!(chip, Chip::Ranger(_)));
        let half_sight_deg = if ranger { HALF_VIEW_DEG } else { HALF_CONE_DEG };
        Robot {
            zero,
            steps: 0,
            seed,
            script: Script::new(faults, zero),
            car: Car::new(&plan, &world).looking_at(spots).seeing(half_sight_deg),
            pose_cell: Arc::new(PoseCell::of(&world)),
            course: Course::new(world.room()),
            world,
            battery: Battery::new(plan.battery_v),
            hat: board.mcu.as_ref().map(|mcu| Hat::new(mcu).counting_every_byte(plan.counts_every_byte)),
            pca9685: match board.pwm {
                Some(PwmPlan::Pca9685 { address, .. }) => Some(Pca9685::new(address)),
                _ => None,
            },
            co_processors: chips::co_processors(board, seed),
            chips,
            sonars,
            ground: Ground::new(
                [0, 1, 2].map(|nth| Noise::new(seed, NOISE_GROUND + nth)),
                plan.edge_counts.into(),
                spots,
            ),
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
            witness: None,
        }
    }

    /// From now on, reports to `witness` what happens on the wires.
    pub fn tell(&mut self, witness: Box<dyn Witness>, now: Instant) {
        self.witness = Some(witness);
        self.note_currents(now);
    }

    fn note_currents(&mut self, now: Instant) {
        if self.witness.is_some() {
            let currents = self.wiring.currents(self.pins());
            self.witness.iter_mut().for_each(|witness| witness.currents(currents.clone(), now));
        }
    }

    /// The pins of the chip that generates the motors' pulses.
    fn pins(&self) -> &dyn Outputs {
        match (&self.hat, &self.pca9685) {
            _ if !self.wiring.has_current() => &NoCurrent,
            (_, Some(chip)) => chip,
            (Some(hat), None) => hat,
            (None, None) => &NoCurrent,
        }
    }

    /// State and counts at `now`.
    pub fn report(&self, now: Instant) -> Report {
        Report {
            at: now,
            pose: self.car.pose(),
            speed: self.car.speed(),
            steering_deg: self.car.steering_deg(),
            contacts: self.car.contacts(),
            distance_m: self.car.distance(),
            coverage: self.course.coverage(),
            battery_v: self.volts(now),
            mcu_resets: self.hat.as_ref().map_or(0, Hat::resets),
            brown_outs: self.brown_outs,
            transfers: self.transfers,
            failed_transfers: self.failed_transfers,
        }
    }

    /// The first contacts of its car.
    pub fn first_contacts(&self) -> &[Contact] {
        self.car.first_contacts()
    }

    /// Whether no drive motor gets a pulse.
    pub fn is_still(&self) -> bool {
        self.wiring.is_still(self.pins())
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

    /// Advances it to `now`; a time in the past changes nothing.
    pub fn advance(&mut self, now: Instant) {
        let due = now.since(self.zero).as_nanos() / STEP.as_nanos();
        while self.steps < due {
            let at = self.zero + STEP.times(self.steps);
            self.step(at);
            self.feel(at);
            self.steps += 1;
        }
        self.pose_cell.store(self.car.pose(), &self.world);
    }

    /// The cell in which readers find the car's pose and the moving discs without taking the lock.
    pub fn pose_cell(&self) -> Arc<PoseCell> {
        self.pose_cell.clone()
    }

    fn step(&mut self, at: Instant) {
        if self.hat.is_none() && self.pca9685.is_none() {
            return;
        }
        if self.script.is_on(FaultKind::BrownOut, at) && !self.is_still() {
            self.brown_out(at);
        }
        let pins = self.pins();
        let (drive, steering) = (self.wiring.drive(pins), self.wiring.steering_deg(pins));
        let wheels = self.wiring.wheels(pins);
        self.world.advance(STEP_S, self.car.outline(), &self.car.pose());
        match wheels {
            Some(wheels) => self.car.step_wheels(wheels, &self.world),
            None => self.car.step(drive, steering, &self.world),
        }
        self.course.step(self.car.pose(), self.car.speed());
        self.battery.step(drive);
    }

    fn brown_out(&mut self, at: Instant) {
        self.hat.iter_mut().for_each(|hat| hat.brown_out(at));
        self.pca9685.iter_mut().for_each(Pca9685::lose_power);
        self.chips.iter_mut().for_each(|(_, chip)| chip.lose_power()); // they share the supply rail
        self.battery.dip();
        self.brown_outs += 1;
        self.note_currents(at + STEP); // a step takes effect at its end
    }

    // ---- I2C --------------------------------------------------------------------------------

    /// Begins a transfer and returns how the bus responds.
    pub fn begin_transfer(&mut self, bus: usize, address: u8, ops: &[Op<'_>], now: Instant) -> Wire {
        self.transfers += 1;
        let stuck = if bus == 0 { FaultKind::I2cStuck } else { FaultKind::SecondI2cStuck };
        let wire = if self.is_on(stuck, now) {
            self.break_off(bus, address, ops, now);
            Wire::Held
        } else {
            self.broken_off &= bus != 0;
            if self.is_unplugged(address, now) || !self.acknowledges(bus, address, now) {
                Wire::Nack
            } else {
                Wire::Free
            }
        };
        if wire != Wire::Free {
            self.failed(bus, address, now);
        }
        wire
    }

    fn failed(&mut self, bus: usize, address: u8, now: Instant) {
        self.failed_transfers += 1;
        if self.is_controller(bus, address) {
            self.note_currents(now);
            self.witness.iter_mut().for_each(|witness| witness.controller(false, now));
        }
    }

    /// Whether the chip that generates the motors' pulses is at this address.
    fn is_controller(&self, bus: usize, address: u8) -> bool {
        bus == 0
            && (self.has_pca9685(bus, address)
                || self.hat.as_ref().is_some_and(|hat| hat.address() == address))
    }
    fn has_pca9685(&self, bus: usize, address: u8) -> bool {
        self.pca9685.as_ref().is_some_and(|chip| bus == 0 && chip.address() == address)
    }

    /// Whether a fault silences `address`. If it affects only this address, the chip there also loses its
    /// supply.
    fn is_unplugged(&mut self, address: u8, now: Instant) -> bool {
        let unplugged = self.script.is_on_at(FaultKind::I2cNack, address, now);
        if unplugged && !self.script.is_on_at(FaultKind::I2cNack, NOWHERE, now) {
            let here = |(_, chip): &&mut (usize, Chip)| chip.address() == address;
            self.chips.iter_mut().filter(here).for_each(|(_, chip)| chip.lose_power());
        }
        unplugged
    }

    /// The bus hangs in the first transfer during the fault. The seed determines how many of the written
    /// bytes have arrived, from none to all; the rest never arrive.
    fn break_off(&mut self, bus: usize, address: u8, ops: &[Op<'_>], now: Instant) {
        if bus != 0 || self.broken_off || !self.acknowledges(bus, address, now) {
            return; // only the first transfer to a device that answers on the first bus is cut short
        }
        self.broken_off = true;
        if let Some(Op::Write(bytes)) = ops.first() {
            let arrived = bits(self.seed, Stream::Fault, self.transfers) % (bytes.len() as u64 + 1);
            bytes[..arrived as usize].iter().for_each(|byte| self.take(bus, address, *byte, now));
        }
    }

    fn acknowledges(&self, bus: usize, address: u8, now: Instant) -> bool {
        self.hat.as_ref().is_some_and(|hat| bus == 0 && hat.answers(address, now))
            || self.has_pca9685(bus, address)
            || self.co_processors.iter().any(|(its, device)| *its == bus && device.address() == address)
            || self.chips.iter().any(|(its, chip)| *its == bus && chip.answers(address))
    }

    /// Ends a transfer whose bytes were on the wire.
    pub fn end_transfer(
        &mut self,
        bus: usize,
        address: u8,
        ops: &mut [Op<'_>],
        now: Instant,
    ) -> Result<(), BusFault> {
        if !self.acknowledges(bus, address, now) {
            self.failed(bus, address, now); // the device has lost its supply or was reset since the start
            return Err(BusFault::Nack);
        }
        self.carry_out(bus, address, ops, now);
        let controller = self.is_controller(bus, address);
        self.note_currents(now);
        if let Some(witness) = &mut self.witness {
            if controller {
                witness.controller(true, now);
            }
            witness.transfer(bus, address, controller, ops, now);
        }
        Ok(())
    }

    fn carry_out(&mut self, bus: usize, address: u8, ops: &mut [Op<'_>], now: Instant) {
        if self.hat.as_ref().is_some_and(|hat| bus == 0 && hat.answers(address, now))
            && let [Op::Write([register]), Op::Read(back)] = ops
        {
            if self.hat.as_ref().is_some_and(Hat::counts_every_byte) {
                self.take(bus, address, *register, now);
            }
            self.read_block(*register, back, now);
            return;
        }
        if self.has_pca9685(bus, address) {
            self.talk_to_pca9685(ops, now);
            return;
        }
        if let Some(nth) = self.chips.iter().position(|(its, chip)| *its == bus && chip.answers(address)) {
            self.talk_to_chip(nth, ops, now);
            return;
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
    }

    fn talk_to_pca9685(&mut self, ops: &mut [Op<'_>], now: Instant) {
        let Some(mut chip) = self.pca9685.take() else { return }; // taken out during the call
        let address = chip.address();
        for op in ops {
            match op {
                Op::Write(bytes) => chip.write(bytes),
                Op::Read(bytes) => {
                    chip.read(bytes);
                    bytes.iter_mut().for_each(|byte| *byte = self.garble(address, *byte, now));
                }
            }
        }
        self.pca9685 = Some(chip);
    }

    fn read_block(&mut self, register: u8, back: &mut [u8], now: Instant) {
        let address = self.hat.as_ref().map_or(NOWHERE, Hat::address);
        for (nth, byte) in back.iter_mut().enumerate() {
            let read = self.hat.as_ref().map_or(0xFF, |hat| hat.block(register, nth));
            *byte = self.garble(address, read, now);
        }
    }

    fn take(&mut self, bus: usize, address: u8, byte: u8, now: Instant) {
        let hat = self.hat.as_mut().filter(|hat| bus == 0 && hat.answers(address, now));
        if let Some(channel) = hat.and_then(|hat| hat.take(byte)) {
            let counts = self.convert(channel, now);
            self.hat.iter_mut().for_each(|hat| hat.convert(counts));
        }
        for (its, device) in &mut self.co_processors {
            if *its == bus && device.address() == address {
                device.take(byte);
            }
        }
    }

    fn give(&mut self, bus: usize, address: u8, now: Instant) -> u8 {
        let mut byte = 0xFF; // no device pulls the line low
        if let Some(hat) = self.hat.as_mut().filter(|hat| bus == 0 && hat.answers(address, now)) {
            byte &= hat.give();
        }
        let lean = self.lean_deg(now);
        let (world, pose) = (&self.world, self.car.pose());
        for (its, device) in &mut self.co_processors {
            if *its == bus && device.address() == address {
                byte &= device.give(lean, world, &pose, now);
            }
        }
        self.garble(address, byte, now)
    }

    fn garble(&mut self, address: u8, byte: u8, now: Instant) -> u8 {
        if !self.script.is_on_at(FaultKind::I2cWrongBytes, address, now) {
            return byte;
        }
        self.bytes_garbled += 1;
        let mask = bits(self.seed, Stream::Fault, self.bytes_garbled) as u8;
        byte ^ mask.max(1) // at least one bit
    }

    /// The converter's input on `channel`, in counts.
    fn convert(&mut self, channel: u8, now: Instant) -> u16 {
        let place = usize::from(channel & 7);
        if let Some(frozen) =
            self.converted[place].filter(|_| self.script.is_on_at(FaultKind::AdcFrozen, channel, now))
        {
            return frozen;
        }
        let (world, pose) = (&self.world, self.car.pose());
        let counts = match channel {
            0..=2 => self.ground.counts(place, world, &pose),
            BATTERY_CHANNEL => {
                self.volts(now) * BATTERY_COUNTS_PER_V + self.battery_noise.draw(BATTERY_NOISE)
            }
            _ => 0.0, // not connected
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
}
