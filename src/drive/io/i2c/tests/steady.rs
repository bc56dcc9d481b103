//! A robot that drives on as before, on the chips' own drivers: a command then changes nothing, and the bus
//! may die behind it all the same.

use super::*;
use crate::base::plan::{Line, McuPlan, MotorKind, MotorPlan};
use crate::hardware::bus::Op;
use crate::hardware::bus::fake::FakeGpio;
use crate::hardware::device::actuators::{HatActuators, Motors};
use crate::hardware::device::pca9685::Pca9685;

const SLOT: u64 = 10;
/// A chip is left alone for no longer, ms: less than the 30 ms for which a command is good.
const SILENT: u64 = 25;
/// From when on the robot drives: set up long since.
const STEADY: u64 = 1_000;

/// Acknowledges everything until it dies, and reads as a PCA9685 that runs at 50 Hz.
#[derive(Clone)]
struct Chip {
    clock: Arc<SimClock>,
    dies: Instant,
    /// When it was spoken to.
    words: Arc<Mutex<Vec<Instant>>>,
}

impl I2c for Chip {
    fn transfer(&mut self, _: u8, ops: &mut [Op<'_>]) -> Result<(), BusFault> {
        let now = self.clock.now();
        self.words.lock().unwrap().push(now);
        self.clock.sleep_until(now + Span::from_micros(400));
        if now >= self.dies {
            return Err(BusFault::Nack);
        }
        let mut register = 0;
        for op in ops {
            match op {
                Op::Write(bytes) => register = bytes[0],
                Op::Read(bytes) => bytes.fill(if register == 0xFE { 121 } else { 0x20 }),
            }
        }
        Ok(())
    }
}

fn wheels() -> [MotorPlan; 2] {
    let wheel = |forward| MotorKind::DcPair { forward, backward: forward + 1, min_duty: 0.5 };
    [12, 14].map(|pwm| MotorPlan { name: "m".into(), kind: wheel(pwm), limit: 1.0, slew_per_s: 4.0 })
}

fn robot_hat() -> Box<dyn Actuators> {
    let mcu = McuPlan { address: HAT, others: [None; 3], clock_hz: 72_000_000, timers: 7, reset: Line(5) };
    Box::new(HatActuators::new(&wheels(), &mcu))
}

fn pca9685() -> Box<dyn Actuators> {
    Box::new(Motors::on(&wheels(), Pca9685::new(0x40, 50.0, Some(Line(17)))))
}

/// What such a robot did.
struct Drive {
    /// When its chip was spoken to.
    words: Vec<Instant>,
    /// When a command last counted as taken.
    confirmed: Instant,
}

/// A robot drives the same way in every slot until 300 ms behind the death of its bus at `dies`.
fn drive(actuators: Box<dyn Actuators>, fragile: Option<u8>, dies: Instant) -> Drive {
    let clock = Arc::new(SimClock::new());
    let chip = Chip { clock: clock.clone(), dies, words: Arc::default() };
    let (bus, words) = (LooseI2c::new(clock.clone()), chip.words.clone());
    let gpio = Box::new(FakeGpio::new(clock.clone()));
    let mut rig = rig_on(clock, bus, Box::new(chip), gpio, fragile, actuators, vec![]);
    let (end, mut confirmed) = (dies + ms(300), Instant::ZERO);
    for slot in (0..).step_by(SLOT as usize).take_while(|slot| at(*slot) < end) {
        rig.stepper.run_until(at(slot));
        if slot >= STEADY {
            let mut command = Command { seq: slot, slot: at(slot), ..Command::still(2) };
            (command.valid_until, command.motors[0], command.motors[1]) = (at(slot + 30), 0.5, 0.5);
            rig.commands.put(command);
            rig.waker.wake();
        }
        while let Ok(receipt) = rig.receipts.pop() {
            confirmed = if receipt.complete { receipt.at } else { confirmed };
        }
    }
    let words = words.lock().unwrap().clone();
    Drive { words, confirmed }
}

#[test]
fn dead_bus_of_a_steady_robot_is_noticed_before_commands_expire() {
    type Chips = fn() -> Box<dyn Actuators>;
    for (chips, fragile) in [(robot_hat as Chips, Some(HAT)), (pca9685, None)] {
        for phase in 0..80 {
            let dies = at(STEADY + 500) + Span::from_micros(500 * phase);
            let Drive { words, confirmed } = drive(chips(), fragile, dies);
            let noticed = words.iter().find(|at| **at >= dies).expect("it is spoken to");
            let late = noticed.since(dies);
            assert!(late <= ms(SILENT + SLOT), "phase {phase}: {late:?}");
            assert!(confirmed < dies + ms(SILENT), "phase {phase}: taken {:?} later", confirmed.since(dies));
        }
    }
}

#[test]
fn a_standing_robot_keeps_recovering_its_bus() {
    for (chips, fragile) in [(robot_hat(), Some(HAT)), (pca9685(), None)] {
        let words = drive(chips, fragile, at(STEADY + 10_000)).words;
        let from = at(STEADY + 1_000);
        let steady = words.iter().filter(|at| (from..from + ms(5_000)).contains(at)).count();
        assert!((5_000 / 35..=5_000 / 20).contains(&steady), "{steady} transfers in five seconds");
    }
}
