//! A robot that keeps driving in the same way, with the real chip drivers. Its commands do not change, so
//! they need no transfer, but a bus that dies must still be noticed.

use super::*;
use crate::base::plan::{Line, McuPlan, MotorKind, MotorPlan};
use crate::hardware::bus::Op;
use crate::hardware::bus::fake::FakeGpio;
use crate::hardware::device::actuators::{HatActuators, Motors};
use crate::hardware::device::pca9685::Pca9685;

const SLOT: u64 = 10;
/// The longest time without a transfer to the chip, ms: less than the 30 ms for which a command is valid.
const SILENT: u64 = 25;
/// When the robot starts to drive, ms: long after the set-up.
const STEADY: u64 = 1_000;

/// Acknowledges everything until it dies; its registers read like those of a PCA9685 at 50 Hz.
#[derive(Clone)]
struct Chip {
    clock: Arc<SimClock>,
    dies: Instant,
    /// Times of its transfers.
    transfers: Arc<Mutex<Vec<Instant>>>,
}

impl I2c for Chip {
    fn transfer(&mut self, _: u8, ops: &mut [Op<'_>]) -> Result<(), BusFault> {
        let now = self.clock.now();
        self.transfers.lock().unwrap().push(now);
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

/// What was observed during a drive.
struct Drive {
    /// Times of the transfers to the chip.
    transfers: Vec<Instant>,
    /// When a command was last confirmed.
    confirmed: Instant,
}

/// Runs a robot that receives the same command in every slot from [`STEADY`] on. Its bus dies at `dies`; the
/// run ends 300 ms later.
fn drive(actuators: Box<dyn Actuators>, fragile: Option<u8>, dies: Instant) -> Drive {
    let clock = Arc::new(SimClock::new());
    let chip = Chip { clock: clock.clone(), dies, transfers: Arc::default() };
    let (bus, transfers) = (LooseI2c::new(clock.clone()), chip.transfers.clone());
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
    let transfers = transfers.lock().unwrap().clone();
    Drive { transfers, confirmed }
}

#[test]
fn dead_bus_of_a_steady_robot_is_noticed_before_commands_expire() {
    type Chips = fn() -> Box<dyn Actuators>;
    for (chips, fragile) in [(robot_hat as Chips, Some(HAT)), (pca9685, None)] {
        for phase in 0..80 {
            let dies = at(STEADY + 500) + Span::from_micros(500 * phase);
            let Drive { transfers, confirmed } = drive(chips(), fragile, dies);
            let noticed = transfers.iter().find(|at| **at >= dies).expect("a transfer after the death");
            let late = noticed.since(dies);
            assert!(late <= ms(SILENT + SLOT), "phase {phase}: {late:?}");
            assert!(
                confirmed < dies + ms(SILENT),
                "phase {phase}: a command was confirmed {:?} after the death",
                confirmed.since(dies)
            );
        }
    }
}

#[test]
fn steady_robot_still_keeps_its_bus_free() {
    for (chips, fragile) in [(robot_hat(), Some(HAT)), (pca9685(), None)] {
        let transfers = drive(chips, fragile, at(STEADY + 10_000)).transfers;
        let from = at(STEADY + 1_000);
        let steady = transfers.iter().filter(|at| (from..from + ms(5_000)).contains(at)).count();
        assert!((5_000 / 35..=5_000 / 20).contains(&steady), "{steady} transfers in five seconds");
    }
}
