//! Recovery measures for an I2C bus that does not answer: clocks by hand, its driver unbound and bound again,
//! its devices' supply off and on. Only what the board permits, one per call, each bounded; when and in which
//! order is not decided here.
//!
//! About clocks by hand: if SCL and SDA are the controller's own pins, requesting them takes them from the
//! controller, and not every pin controller gives them back. In that case permit a rebind too, which does.
//! Lines that are only wired to SCL and SDA do not have this problem.

use super::chips::Chips;
use super::clear::clear;
use super::errors::fault_of;
use super::gpio::{LinuxGpio, Want};
use super::i2c::Bus;
use crate::bus::{Gpio, Measure, OpenError, Repair, Usage};
use crate::fault::BusFault;
use crate::plan::{RailPlan, RecoveryPlan};
use crate::time::{Clock, Instant, MonotonicClock, Span};
use rustix::fs::{Access, access};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

/// A driver is bound in tens of milliseconds, and udev then sets the node's group. If it takes longer than
/// this, another process keeps the adapter open and the kernel waits for it.
const REBIND_WITHIN: Duration = Duration::from_millis(3_000);
/// How long the node may take to come back with its permissions.
const NODE_WITHIN: Span = Span::from_millis(2_000);
const NODE_EVERY: Span = Span::from_millis(10);
/// The thread that writes two files needs no more; with locked memory a whole stack is allocated at once.
const STACK_BYTES: usize = 128 * 1024;

/// The measures for one bus.
pub(super) struct LinuxRepair {
    bus: Arc<Bus>,
    plan: RecoveryPlan,
    chips: Chips,
    overruns: Arc<AtomicU64>,
    rail: Option<Rail>,
    /// A rebind that did not end in time: the driver must be left alone until it has.
    stuck: Option<Receiver<io::Result<()>>>,
}

struct Rail {
    gpio: LinuxGpio,
    plan: RailPlan,
    off_since: Option<Instant>,
}

impl LinuxRepair {
    /// Requests the rail's line, switched on, if there is one. Lines for clocks by hand are only looked up:
    /// they are held during the measure alone.
    pub(super) fn open(
        bus: Arc<Bus>,
        plan: RecoveryPlan,
        chips: Chips,
        overruns: Arc<AtomicU64>,
    ) -> Result<LinuxRepair, OpenError> {
        if let Some(pair) = plan.clear {
            for line in [pair.scl, pair.sda] {
                chips.locate(line, super::chips::offset_of)?;
            }
        }
        let rail = plan.rail.map(|plan| Rail::open(&chips, plan, overruns.clone())).transpose()?;
        Ok(LinuxRepair { bus, plan, chips, overruns, rail, stuck: None })
    }

    fn clear(&mut self) -> Result<(), BusFault> {
        let pair = self.plan.clear.ok_or(BusFault::Unsupported)?;
        let wants = [(pair.scl, Want::OpenDrain), (pair.sda, Want::OpenDrain)];
        let mut lines = LinuxGpio::open(&self.chips, "clear", &wants, self.overruns.clone(), None)
            .map_err(|_| BusFault::Unsupported)?;
        clear(&mut lines, &MonotonicClock, pair.scl, pair.sda)
    }

    fn rebind(&mut self) -> Result<(), BusFault> {
        if let Some(stuck) = &self.stuck {
            match stuck.try_recv() {
                Ok(_) => self.stuck = None,
                Err(_) => return Err(BusFault::TimedOut),
            }
        }
        let adapter = self.bus.place().map_err(|_| BusFault::Absent)?;
        let driver =
            Driver::of(adapter.device.as_deref().ok_or(BusFault::Absent)?).ok_or(BusFault::Absent)?;
        // The kernel does not remove an adapter while a file is open on it.
        self.bus.close();
        let (bus, (done, end)) = (self.bus.clone(), sync_channel(1));
        let work = move || {
            let bound = driver.bind_again().and_then(|()| node_is_back(&bus));
            if bound.is_err() {
                // The rest of the adapter stays in use; the owner's reopen comes after a successful rebind.
                let _ = bus.reopen();
            }
            // If it came too late, no receiver is left.
            let _ = done.send(bound);
        };
        let thread = thread::Builder::new().name("rebind".to_string()).stack_size(STACK_BYTES).spawn(work);
        thread.map_err(|failure| fault_of(&failure))?;
        match end.recv_timeout(REBIND_WITHIN) {
            Ok(bound) => bound.map_err(|failure| fault_of(&failure)),
            Err(RecvTimeoutError::Timeout) => {
                self.stuck = Some(end);
                Err(BusFault::TimedOut)
            }
            Err(RecvTimeoutError::Disconnected) => Err(BusFault::Io),
        }
    }

    fn may_rebind(&self) -> bool {
        let adapter = self.bus.place().ok();
        let driver = adapter.and_then(|adapter| Driver::of(adapter.device.as_deref()?));
        self.plan.rebind && driver.is_some_and(|driver| driver.writable())
    }
}

impl Repair for LinuxRepair {
    /// What the board permits and, for a rebind, the system too: it needs root or a udev rule.
    fn can(&self, measure: Measure) -> bool {
        match measure {
            Measure::Clear => self.plan.clear.is_some(),
            Measure::Rebind => self.may_rebind(),
            Measure::RailOff | Measure::RailOn => self.rail.is_some(),
        }
    }

    fn take(&mut self, measure: Measure) -> Result<(), BusFault> {
        if !self.can(measure) {
            return Err(BusFault::Unsupported);
        }
        match (measure, &mut self.rail) {
            (Measure::Clear, _) => self.clear(),
            (Measure::Rebind, _) => self.rebind(),
            (Measure::RailOff, Some(rail)) => rail.off(&MonotonicClock),
            (Measure::RailOn, Some(rail)) => rail.on(&MonotonicClock),
            (Measure::RailOff | Measure::RailOn, None) => Err(BusFault::Unsupported),
        }
    }
}

impl Rail {
    fn open(chips: &Chips, plan: RailPlan, overruns: Arc<AtomicU64>) -> Result<Rail, OpenError> {
        let on = Want::As(Usage::Output { high: plan.on_high });
        let gpio = LinuxGpio::open(chips, "rail", &[(plan.line, on)], overruns, None)?;
        Ok(Rail { gpio, plan, off_since: None })
    }

    fn off(&mut self, clock: &dyn Clock) -> Result<(), BusFault> {
        self.gpio.set(self.plan.line, !self.plan.on_high)?;
        self.off_since.get_or_insert(clock.now());
        Ok(())
    }

    /// Waits for the rest of the off time.
    fn on(&mut self, clock: &dyn Clock) -> Result<(), BusFault> {
        if let Some(since) = self.off_since.take() {
            clock.sleep_until(since + self.plan.off);
        }
        self.gpio.set(self.plan.line, self.plan.on_high)
    }
}

/// A device and the folder of the driver that is bound to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Driver {
    folder: PathBuf,
    device: String,
}

impl Driver {
    /// The driver of `device`, a folder in /sys/devices.
    pub(super) fn of(device: &Path) -> Option<Driver> {
        let folder = fs::canonicalize(device.join("driver")).ok()?;
        Some(Driver { folder, device: device.file_name()?.to_str()?.to_string() })
    }

    /// Whether this user may unbind it and bind it again.
    pub(super) fn writable(&self) -> bool {
        ["unbind", "bind"].iter().all(|file| access(self.folder.join(file), Access::WRITE_OK).is_ok())
    }

    /// Unbinds and binds. A device that lost its driver half-way is bound as well.
    fn bind_again(&self) -> io::Result<()> {
        match self.tell("unbind") {
            // ENODEV: it was not bound to this driver.
            Err(failure) if failure.raw_os_error() != Some(libc::ENODEV) => return Err(failure),
            _ => {}
        }
        self.tell("bind")
    }

    fn tell(&self, file: &str) -> io::Result<()> {
        OpenOptions::new().write(true).open(self.folder.join(file))?.write_all(self.device.as_bytes())
    }
}

/// Waits until the bus's node exists and may be opened; its number may differ from before.
fn node_is_back(bus: &Bus) -> io::Result<()> {
    let clock = MonotonicClock;
    let until = clock.now() + NODE_WITHIN;
    loop {
        let node = bus.place().ok().map(|adapter| adapter.node);
        let rights = Access::READ_OK | Access::WRITE_OK;
        if node.is_some_and(|node| access(node, rights).is_ok()) {
            return Ok(());
        }
        if clock.now() >= until {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        clock.sleep_until(clock.now() + NODE_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Tree, i2c_tree};
    use super::*;
    use crate::plan::{ClearPlan, I2cNode, I2cPlan, I2cTiming, Line};

    fn repair(tree: &Tree, plan: RecoveryPlan) -> Result<LinuxRepair, OpenError> {
        let bus = I2cPlan {
            name: "motors".to_string(),
            node: I2cNode::Adapter("c250000.i2c".to_string()),
            timing: I2cTiming { speed_hz: 100_000, timeout: Span::from_millis(20) },
            recovery: plan,
        };
        let bus = Bus::new(tree.root().to_path_buf(), &bus, Vec::new(), Vec::new(), false);
        let chips = Chips::look(tree.root(), &["tegra234-gpio".to_string()], &[]);
        LinuxRepair::open(Arc::new(bus), plan, chips, Arc::default())
    }

    #[test]
    fn a_rebind_tells_the_adapters_own_driver() {
        let tree = i2c_tree();
        let mut repair =
            repair(&tree, RecoveryPlan { rebind: true, ..Default::default() }).expect("a repair");
        assert!(repair.can(Measure::Rebind));
        assert_eq!(repair.take(Measure::Rebind), Ok(()));
        for file in ["unbind", "bind"] {
            assert_eq!(tree.read(&format!("sys/bus/platform/drivers/tegra-i2c/{file}")), "c250000.i2c");
        }
    }

    #[test]
    fn only_what_the_board_permits_is_done() {
        let tree = i2c_tree();
        let mut repair = repair(&tree, RecoveryPlan::default()).expect("a repair");
        for measure in [Measure::Clear, Measure::Rebind, Measure::RailOff, Measure::RailOn] {
            assert!(!repair.can(measure), "{measure:?}");
            assert_eq!(repair.take(measure), Err(BusFault::Unsupported), "{measure:?}");
        }
        assert_eq!(tree.read("sys/bus/platform/drivers/tegra-i2c/unbind"), "");
    }

    #[test]
    fn an_adapter_on_no_driver_cannot_be_bound_again() {
        let tree = i2c_tree();
        fs::remove_file(tree.root().join("sys/devices/platform/c250000.i2c/driver")).expect("a link");
        let repair = repair(&tree, RecoveryPlan { rebind: true, ..Default::default() }).expect("a repair");
        assert!(!repair.can(Measure::Rebind));
    }

    #[test]
    fn a_node_that_stays_away_ends_the_rebind() {
        let tree = i2c_tree();
        let mut repair =
            repair(&tree, RecoveryPlan { rebind: true, ..Default::default() }).expect("a repair");
        fs::remove_file(tree.root().join("dev/i2c-7")).expect("a node");
        assert_eq!(repair.take(Measure::Rebind), Err(BusFault::Absent));
    }

    #[test]
    fn lines_that_are_not_there_are_found_missing_at_the_start() {
        let tree = i2c_tree();
        let clear = Some(ClearPlan { scl: Line(3), sda: Line(2) });
        let missing = repair(&tree, RecoveryPlan { clear, ..Default::default() }).err().expect("no chip");
        assert!(missing.what.contains("tegra234-gpio"), "{missing}");
    }
}
