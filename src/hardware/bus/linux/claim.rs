//! Claims the motors' wires for one process: a lock in /sys on the device that a board uses to reach its
//! motors. Two boards that drive the same adapter or chip need the same lock, whatever their files are
//! called.
//!
//! The lock is not on the adapter's own node: as long as a node is open, unbinding its driver blocks
//! (`i2c_del_adapter`), and a rebind is a recovery step. The folder of the adapter's parent device exists
//! before, during and after a rebind.

use super::LinuxHardware;
use super::adapters::Adapter;
use super::errors::refused;
use super::pwm::PwmChip;
use crate::hardware::bus::OpenError;
use crate::system::rt::flock::{Flock, Holder, LockError};
use rustix::fs::{Mode, OFlags, open};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// How long a claim retries. A process that only checks who holds the lock has it briefly, on a busy machine
/// for tens of milliseconds; a real holder keeps it for longer than this.
const ASKERS_GONE: Duration = Duration::from_millis(500);
/// Retry interval until then.
const TRY_EVERY: Duration = Duration::from_millis(5);

/// This process's exclusive claim on the motors' wires of a board, until it is dropped or the process ends.
#[derive(Debug)]
pub struct Claim {
    _locks: Vec<Flock>,
}

/// Why the wires are not available.
#[derive(Debug)]
pub enum ClaimError {
    /// Another process holds them.
    Held {
        /// The locked path: a folder in /sys, or a node.
        place: PathBuf,
        /// The process.
        holder: Holder,
    },
    /// The wires do not exist, or this process may not examine them.
    Open(OpenError),
}

impl LinuxHardware {
    /// Claims the motors' wires: the board's first I2C bus and, if `pwm` is given, the PWM chip whose
    /// device's name contains it. A board without either has nothing to claim.
    pub fn claim(&self, pwm: Option<&str>) -> Result<Claim, ClaimError> {
        let places = self.places(pwm).map_err(ClaimError::Open)?;
        let until = Instant::now() + ASKERS_GONE;
        let locks = places.into_iter().map(|place| take(place, until)).collect::<Result<_, _>>()?;
        Ok(Claim { _locks: locks })
    }

    /// The process that holds the motors' wires; `None`: no process holds them. Claims nothing.
    pub fn claimed_by(&self, pwm: Option<&str>) -> Result<Option<Holder>, OpenError> {
        for place in self.places(pwm)? {
            let asked = look_at(&place).and_then(Flock::ask);
            if let Some(holder) = asked.map_err(|error| closed(&place, &error))? {
                return Ok(Some(holder));
            }
        }
        Ok(None)
    }

    /// The paths that are locked to claim the motors' wires.
    fn places(&self, pwm: Option<&str>) -> Result<Vec<PathBuf>, OpenError> {
        let mut places = Vec::new();
        if !self.buses.is_empty() {
            places.push(carrier(&self.bus(0)?.0.place()?));
        }
        if let Some(device) = pwm {
            places.push(PwmChip::open(&self.root, device)?.folder().to_path_buf());
        }
        Ok(places)
    }
}

/// The folder of the adapter's parent device; if it has none, the adapter's own folder, or its node.
fn carrier(adapter: &Adapter) -> PathBuf {
    match &adapter.device {
        // Adapters without a device share these folders.
        Some(device) if device.ends_with("devices") || device.ends_with("virtual") => {
            device.join(format!("i2c-{}", adapter.number))
        }
        Some(device) => device.clone(),
        None => adapter.node.clone(),
    }
}

fn take(place: PathBuf, until: Instant) -> Result<Flock, ClaimError> {
    loop {
        let file = look_at(&place).map_err(|error| ClaimError::Open(closed(&place, &error)))?;
        match Flock::take(file) {
            Ok(lock) => return Ok(lock),
            Err(LockError::Held(_)) if Instant::now() < until => thread::sleep(TRY_EVERY),
            Err(LockError::Held(holder)) => return Err(ClaimError::Held { place, holder }),
            Err(LockError::System(error)) => return Err(ClaimError::Open(closed(&place, &error))),
        }
    }
}

/// Opens a path for locking, without any effect on it.
fn look_at(place: &Path) -> io::Result<OwnedFd> {
    Ok(open(place, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?)
}

fn closed(place: &Path, error: &io::Error) -> OpenError {
    refused(&place.display().to_string(), error, "check that the board file is for this machine", "i2c")
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Tree, i2c_tree};
    use super::*;
    use crate::base::plan::{Access, Board, BusPlan, I2cNode};

    fn board(adapter: &str) -> Board {
        let mut board = crate::deploy::board::built_in("picarx-v4").unwrap().unwrap().board;
        board.bus = BusPlan::Linux { gpio_labels: Vec::new(), access: Access::CharacterDevices };
        board.i2c[0].node = I2cNode::Adapter(adapter.to_string());
        board
    }

    fn hardware(tree: &Tree, board: &Board) -> LinuxHardware {
        LinuxHardware::with_root(board, tree.root()).unwrap()
    }

    #[test]
    fn a_second_claim_names_the_holding_process() {
        let tree = i2c_tree();
        let (motors, side) = (hardware(&tree, &board("3160000")), hardware(&tree, &board("c250000")));
        let first = motors.claim(None).unwrap();
        let Err(ClaimError::Held { place, holder }) = hardware(&tree, &board("3160000")).claim(None) else {
            panic!("two processes hold the wires")
        };
        assert!(place.ends_with("sys/devices/platform/3160000.i2c"), "{}", place.display());
        assert!(holder.is_this_process());
        assert_eq!(motors.claimed_by(None).unwrap(), Some(holder));
        assert_eq!(side.claimed_by(None).unwrap(), None, "a different adapter belongs to a different robot");
        side.claim(None).unwrap();
        drop(first);
        assert_eq!(motors.claimed_by(None).unwrap(), None);
        motors.claim(None).unwrap();
    }

    #[test]
    fn looking_up_the_holder_does_not_block_a_claim() {
        let tree = i2c_tree();
        let motors = hardware(&tree, &board("3160000"));
        let place = motors.places(None).unwrap().remove(0);
        let asks = look_at(&place).unwrap();
        rustix::fs::flock(&asks, rustix::fs::FlockOperation::NonBlockingLockShared).unwrap();
        let gone = thread::spawn(move || {
            thread::sleep(2 * TRY_EVERY);
            drop(asks);
        });
        motors.claim(None).unwrap();
        gone.join().unwrap();
    }

    #[test]
    fn an_adapter_without_a_device_is_claimed_by_its_own_path() {
        let tree = i2c_tree();
        let places = hardware(&tree, &board("bench adapter")).places(None).unwrap();
        assert!(places[0].ends_with("sys/devices/virtual/i2c-12"), "{places:?}");
    }

    #[test]
    fn a_pwm_chip_is_claimed_with_the_bus_and_without_one() {
        let tree = i2c_tree();
        tree.file("sys/devices/platform/1f00098000.pwm/pwm/pwmchip0/npwm", "4");
        tree.link("sys/devices/platform/1f00098000.pwm/pwm/pwmchip0/device", "../..");
        tree.link("sys/class/pwm/pwmchip0", "../../devices/platform/1f00098000.pwm/pwm/pwmchip0");
        let mut bare = board("3160000");
        let both = hardware(&tree, &bare);
        bare.i2c.clear();
        let chip = hardware(&tree, &bare);
        let _claim = both.claim(Some("1f00098000")).unwrap();
        assert!(chip.claimed_by(Some("1f00098000")).unwrap().is_some());
        assert!(matches!(chip.claim(Some("1f00098000")), Err(ClaimError::Held { .. })));
        assert_eq!(chip.claimed_by(None).unwrap(), None, "there is nothing to claim");
    }

    #[test]
    fn missing_wires_are_reported_as_missing() {
        let tree = i2c_tree();
        let Err(ClaimError::Open(error)) = hardware(&tree, &board("nowhere")).claim(None) else { panic!() };
        assert!(error.why.contains("no such adapter"), "{error}");
    }
}
