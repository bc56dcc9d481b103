//! The bus traits on Linux: character devices for I2C and GPIO, sysfs for PWM, and recovery measures for a
//! bus that does not answer. On a Raspberry Pi, if the board requests it, rppal behind the same traits.
//!
//! [`LinuxHardware::open`] looks up nothing and holds nothing. Each handle finds its chip by label or its
//! adapter by device when it is opened, because numbers change. In steady state, no call allocates, waits for
//! a lock or retries.

mod adapters;
mod chips;
mod claim;
mod clear;
mod errors;
#[cfg(test)]
mod fake;
mod gpio;
mod i2c;
mod i2c_dev;
mod pi;
mod pwm;
mod rebind;
mod repair;
mod survey;
mod sysfs;

pub use claim::{Claim, ClaimError};
pub use pi::PiI2c;
pub use pwm::{PwmChannel, PwmChip};
pub use rebind::{Grant, LONGEST as LONGEST_REQUEST, REBIND_SOCKET, Rebinder};
pub use repair::Reach;
pub use survey::{AdapterSeen, ChipSeen, LineSeen, Presence, Survey};

use super::{Gpio, Hardware, I2c, LineState, LineUse, NoRepair, OpenError, Repair};
use crate::base::plan::addresses::expected;
use crate::base::plan::{Access, Board, BusPlan, I2cNode, I2cPlan, Line, OwnTime, RecoveryPlan};
use chips::Chips;
use errors::error;
use gpio::LinuxGpio;
use i2c::{Bus, LinuxI2c};
use pi::Registers;
use repair::LinuxRepair;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The buses and lines of a board on Linux.
pub struct LinuxHardware {
    root: PathBuf,
    labels: Vec<String>,
    names: Vec<String>,
    buses: Vec<(Arc<Bus>, RecoveryPlan)>,
    overruns: Arc<AtomicU64>,
    registers: Option<Registers>,
}

impl LinuxHardware {
    /// The buses and lines of `board` on this machine through character devices, to examine or stop the
    /// robot. Opens nothing.
    pub fn open(board: &Board) -> Result<LinuxHardware, OpenError> {
        LinuxHardware::with_root(board, Path::new("/"))
    }

    /// Like [`Self::open`], but looks up /sys and /dev in `root`.
    pub fn with_root(board: &Board, root: &Path) -> Result<LinuxHardware, OpenError> {
        LinuxHardware::through(board, root, Access::CharacterDevices)
    }

    /// The buses and lines of `board` on the machine in `root`, to run the robot: through the interface that
    /// the board requests; fails if the machine does not have it.
    pub fn as_requested(board: &Board, root: &Path) -> Result<LinuxHardware, OpenError> {
        LinuxHardware::through(board, root, access_of(board))
    }

    fn through(board: &Board, root: &Path, access: Access) -> Result<LinuxHardware, OpenError> {
        let BusPlan::Linux { gpio_labels, .. } = &board.bus else {
            let why = "its bus is not a Linux bus";
            return Err(error(format!("board '{}'", board.name), why, "use another board"));
        };
        let registers = match access {
            Access::CharacterDevices => None,
            Access::Rppal => {
                pi::is_raspberry_pi(root)?;
                Some(Registers::open()?)
            }
        };
        Ok(LinuxHardware {
            root: root.to_path_buf(),
            labels: gpio_labels.clone(),
            names: board.line_names.clone(),
            buses: buses(board, root, access),
            overruns: Arc::default(),
            registers,
        })
    }

    /// The adapters and chips of this machine, and the state of `lines`. Drives no line, makes no transfer.
    pub fn survey(&self, lines: &[Line]) -> Survey {
        survey::survey(&self.root, &self.chips(), lines)
    }

    /// Whether this process can get the driver of bus `bus` rebound, and how. Rebinds nothing.
    pub fn reach(&self, bus: usize) -> Result<Reach, OpenError> {
        let (bus, plan) = self.bus(bus)?;
        Ok(repair::reach(bus, *plan))
    }

    /// What is at 7-bit `address` of bus `bus`, determined by reading one byte. Never writes, and does not
    /// read addresses that are not ours. A chip whose reads have side effects (a FIFO) loses that byte.
    pub fn probe(&self, bus: usize, address: u8) -> Result<Presence, OpenError> {
        self.bus(bus)?.0.probe(address)
    }

    fn bus(&self, bus: usize) -> Result<&(Arc<Bus>, RecoveryPlan), OpenError> {
        let fix = "this is a bug in ganglion: report it";
        self.buses.get(bus).ok_or_else(|| error(format!("I2C bus {bus}"), "the board has no such bus", fix))
    }

    fn chips(&self) -> Chips {
        Chips::look(&self.root, &self.labels, &self.names)
    }
}

impl Hardware for LinuxHardware {
    fn edge_overruns(&self) -> Arc<AtomicU64> {
        self.overruns.clone()
    }
    fn repair(&self, bus: usize) -> Result<Box<dyn Repair>, OpenError> {
        let (bus, plan) = self.bus(bus)?;
        if *plan == RecoveryPlan::default() {
            return Ok(Box::new(NoRepair));
        }
        let repair = LinuxRepair::open(bus.clone(), *plan, self.chips(), self.overruns.clone())?;
        if let Reach::Not(error) = repair.reach() {
            log::warn!(
                "{}: no process can do the rebind that the board permits: {error}; {}",
                bus.name,
                error.fix
            );
        }
        Ok(Box::new(repair))
    }

    fn i2c(&self, bus: usize) -> Result<Box<dyn I2c>, OpenError> {
        Ok(Box::new(LinuxI2c::open(self.bus(bus)?.0.clone())?))
    }

    fn line_state(&self, line: Line) -> Result<LineState, OpenError> {
        gpio::line_state(&self.chips(), line)
    }

    fn gpio(&self, owner: &'static str, lines: &[LineUse]) -> Result<Box<dyn Gpio>, OpenError> {
        let wants = gpio::wants(lines);
        let registers = self.registers.as_ref();
        Ok(Box::new(LinuxGpio::open(&self.chips(), owner, &wants, self.overruns.clone(), registers)?))
    }
}

/// The driver of the adapter at `node` on the machine in `root`, if that driver ignores the configured
/// timeout and uses its own. `None` also if there is no such adapter. Opens nothing.
pub fn own_time(root: &Path, node: &I2cNode) -> Option<OwnTime> {
    adapters::find(root, node).ok()?.own_time()
}

/// Refuses a board that requests an interface that the machine in `root` does not have. Opens nothing.
pub fn check_access(board: &Board, root: &Path) -> Result<(), OpenError> {
    match access_of(board) {
        Access::CharacterDevices => Ok(()),
        Access::Rppal => pi::is_raspberry_pi(root),
    }
}

/// The interface that `board` requests.
fn access_of(board: &Board) -> Access {
    match board.bus {
        BusPlan::Linux { access, .. } => access,
        BusPlan::Sim | BusPlan::Log => Access::CharacterDevices,
    }
}

fn buses(board: &Board, root: &Path, access: Access) -> Vec<(Arc<Bus>, RecoveryPlan)> {
    let bus = |(nth, plan): (usize, &I2cPlan)| {
        let bus = Bus::new(root.to_path_buf(), plan, reserved(board, nth), used(board, nth), access);
        (Arc::new(bus), plan.recovery)
    };
    board.i2c.iter().enumerate().map(bus).collect()
}

/// Addresses on bus `nth` that the board reserves.
fn reserved(board: &Board, nth: usize) -> Vec<(u8, String)> {
    let here = board.reserved_addresses.iter().filter(|reserved| reserved.bus == nth);
    here.map(|reserved| (reserved.address, reserved.holder.clone())).collect()
}

/// Addresses on bus `nth` that the board's devices use.
fn used(board: &Board, nth: usize) -> Vec<u8> {
    expected(board, nth).into_iter().map(|device| device.address).collect()
}

#[cfg(test)]
mod tests {
    use super::fake::i2c_tree;
    use super::*;
    use crate::base::fault::BusFault;
    use crate::base::plan::ReservedAddress;
    use crate::hardware::bus::{Bias, Measure, Usage};

    fn board(name: &str) -> Board {
        crate::deploy::board::built_in(name).expect("a built-in board").expect("a sound one").board
    }

    fn linux(access: Access) -> BusPlan {
        BusPlan::Linux { gpio_labels: vec!["tegra234-gpio".to_string()], access }
    }

    fn jetson() -> Board {
        let mut board = board("picarx-v4");
        board.bus = linux(Access::CharacterDevices);
        board.i2c[0].node = I2cNode::Adapter("3160000.i2c".to_string());
        board
    }

    #[test]
    fn a_board_on_a_simulator_has_no_linux_wires() {
        let refused = LinuxHardware::open(&board("sim")).err().expect("a refusal");
        assert_eq!(refused.to_string(), "board 'sim': its bus is not a Linux bus");
    }

    #[test]
    fn opening_the_wires_opens_nothing() {
        let tree = i2c_tree();
        let hardware = LinuxHardware::with_root(&jetson(), tree.root()).expect("wires");
        // The tree's adapter is a plain file, which shows only when the handle is opened.
        assert!(hardware.i2c(0).err().expect("no adapter").what.ends_with("dev/i2c-1"));
        assert_eq!(hardware.i2c(1).err().expect("no bus").what, "I2C bus 1");
        let button = LineUse { line: Line(25), usage: Usage::Input { bias: Bias::Up } };
        let no_chip = hardware.gpio("edges", &[button]).err().expect("no chip");
        assert_eq!(no_chip.what, "GPIO chip tegra234-gpio");
    }

    #[test]
    fn board_addresses_are_checked_before_the_adapter_is_opened() {
        let tree = i2c_tree();
        let mut board = jetson();
        let mcu = board.mcu.as_mut().expect("a controller");
        mcu.address = 0x40;
        let hardware = LinuxHardware::with_root(&board, tree.root()).expect("wires");
        let refused = hardware.i2c(0).err().expect("the kernel's chip");
        assert!(refused.what.contains("0x40") && refused.why.contains("ina3221"), "{refused}");

        let mut board = jetson();
        let holder = "the carrier's EEPROM".to_string();
        let address = board.mcu.as_ref().expect("a controller").address;
        board.reserved_addresses.push(ReservedAddress { holder, bus: 0, address });
        let hardware = LinuxHardware::with_root(&board, tree.root()).expect("wires");
        assert!(hardware.i2c(0).err().expect("a reserved one").why.contains("the carrier's EEPROM"));
        assert_eq!(hardware.probe(0, address), Ok(Presence::Reserved("the carrier's EEPROM".to_string())));
    }

    #[test]
    fn a_bus_without_permitted_steps_cannot_be_repaired() {
        let tree = i2c_tree();
        let mut board = jetson();
        board.i2c[0].recovery = RecoveryPlan::default();
        let hardware = LinuxHardware::with_root(&board, tree.root()).expect("wires");
        let mut repair = hardware.repair(0).expect("nothing to open");
        assert!(!repair.can(Measure::Rebind));
        assert_eq!(repair.take(Measure::Rebind), Err(BusFault::Unsupported));
    }

    #[test]
    fn rppal_is_refused_on_any_machine_but_a_raspberry_pi() {
        let requested = Board { bus: linux(Access::Rppal), ..jetson() };
        let bare = i2c_tree();
        let orin = i2c_tree();
        orin.file("proc/device-tree/compatible", "nvidia,p3768-0000+p3767-0005\0nvidia,tegra234\0");
        for (tree, found) in [(&bare, "it has no device tree"), (&orin, "nvidia,tegra234")] {
            for outcome in [
                check_access(&requested, tree.root()).err(),
                LinuxHardware::as_requested(&requested, tree.root()).err(),
            ] {
                let refused = outcome.expect("no Raspberry Pi");
                assert!(refused.what.contains("rppal") && refused.why.contains(found), "{refused}");
                assert!(refused.fix.contains("bus.access"), "{}", refused.fix);
            }
        }
        assert_eq!(check_access(&jetson(), orin.root()), Ok(()));
        assert!(LinuxHardware::as_requested(&jetson(), orin.root()).is_ok());
    }

    #[test]
    fn inspecting_or_stopping_a_robot_never_needs_rppal() {
        let tree = i2c_tree();
        let requested = Board { bus: linux(Access::Rppal), ..jetson() };
        let hardware = LinuxHardware::with_root(&requested, tree.root()).expect("wires");
        assert!(hardware.registers.is_none());
        assert!(hardware.buses.iter().all(|(bus, _)| bus.access == Access::CharacterDevices));
    }

    #[test]
    fn the_boards_request_reaches_its_buses_and_registers() {
        let tree = i2c_tree();
        tree.file("sys/firmware/devicetree/base/compatible", "raspberrypi,4-model-b\0brcm,bcm2711\0");
        let requested = Board { bus: linux(Access::Rppal), ..jetson() };
        assert_eq!(check_access(&requested, tree.root()), Ok(()));
        let of = |board: &Board| -> Vec<Access> {
            let buses = buses(board, tree.root(), access_of(board));
            buses.iter().map(|(bus, _)| bus.access).collect()
        };
        assert_eq!(of(&requested), [Access::Rppal]);
        assert_eq!(of(&jetson()), [Access::CharacterDevices]);
        // The tree is that of a Pi, but the registers belong to the machine that runs this test.
        match LinuxHardware::as_requested(&requested, tree.root()) {
            Ok(hardware) => assert!(hardware.registers.is_some()),
            Err(refused) => assert!(refused.what.contains("rppal"), "{refused}"),
        }
    }
}
