//! Recovery measures for an I2C bus that does not answer: manual clocks, a rebind of its driver, a power
//! cycle of its devices. Takes only measures that the board permits, one per call, each bounded; the caller
//! decides when and in which order.
//!
//! A rebind needs root, or a process running as root that does it for this one ([`super::rebind`]). This
//! module looks up which of the two is available.
//!
//! Manual clocks: if SCL and SDA are the controller's own pins, requesting them takes them away from the
//! controller, and not every pin controller gives them back. In that case permit a rebind too, which returns
//! the pins to the controller. Separate lines that are wired to SCL and SDA do not have this problem.

use super::chips::Chips;
use super::clear::clear;
use super::errors::{error, fault_of};
use super::gpio::{LinuxGpio, Want};
use super::i2c::Bus;
use super::rebind::{self, Ask, Grant};
use crate::base::fault::BusFault;
use crate::base::plan::{RailPlan, RecoveryPlan};
use crate::base::time::{Clock, Instant, MonotonicClock, Span};
use crate::hardware::bus::{Gpio, Measure, OpenError, Repair, Usage};
use rustix::fs::{Access, access};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

/// A driver is bound in tens of milliseconds, and udev then sets the node's group. If a rebind takes longer
/// than this, another process keeps the adapter open and the kernel waits for that process.
const REBIND_WITHIN: Duration = Duration::from_millis(3_000);
/// How long the node may take to reappear with its permissions.
const NODE_WITHIN: Span = Span::from_millis(2_000);
const NODE_EVERY: Span = Span::from_millis(10);
/// A small stack is enough for the thread that writes two files; with locked memory, the whole stack is
/// allocated at once.
const STACK_BYTES: usize = 128 * 1024;

/// The measures for one bus.
pub(super) struct LinuxRepair {
    bus: Arc<Bus>,
    plan: RecoveryPlan,
    chips: Chips,
    overruns: Arc<AtomicU64>,
    rail: Option<Rail>,
    /// The driver as it was at the start: a rebind that failed half-way leaves an adapter without a driver.
    driver: Option<Driver>,
    /// A rebind that did not end in time: the driver is left alone until the rebind has ended.
    stuck: Option<Receiver<io::Result<()>>>,
}

struct Rail {
    gpio: LinuxGpio,
    plan: RailPlan,
    off_since: Option<Instant>,
}

impl LinuxRepair {
    /// Requests the rail's line, switched on, if the plan has a rail. Only looks up the lines for manual
    /// clocks: they are held only during that measure.
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
        let driver = driver_of(&bus);
        Ok(LinuxRepair { bus, plan, chips, overruns, rail, driver, stuck: None })
    }

    /// Whether a process can do a rebind, and which one.
    pub(super) fn reach(&self) -> Reach {
        reach(&self.bus, self.plan)
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
                Err(TryRecvError::Empty) => return Err(BusFault::TimedOut),
                Ok(_) | Err(TryRecvError::Disconnected) => self.stuck = None, // it ended, or panicked
            }
        }
        let driver = driver_of(&self.bus).or_else(|| self.driver.clone()).ok_or(BusFault::Absent)?;
        let socket = rebind::socket_of(&self.bus.root);
        // The kernel does not remove an adapter while a file is open on it.
        self.bus.close();
        let (bus, (done, end)) = (self.bus.clone(), sync_channel(1));
        let work = move || {
            let bound = match driver.writable() {
                true => driver.bind_again(),
                false => driver.have_bound_again(&socket),
            };
            let bound = bound.and_then(|()| node_is_back(&bus));
            if bound.is_err() {
                // The old adapter may still work; after a successful rebind, the owner reopens the new one.
                let _ = bus.reopen();
            }
            // Fails only if the repair was dropped in the meantime.
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
}

/// Whether an adapter's driver can be rebound by this process or on its behalf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The board does not permit a rebind.
    NotWanted,
    /// This user may rebind the driver.
    Directly,
    /// Another process has the permission, and answered that it would rebind the driver.
    ByAnother,
    /// No process can rebind the driver: why, and what to do about it.
    Not(OpenError),
}

/// Whether the driver of `bus` can be rebound; `plan`: the recovery steps that the board permits on this bus.
/// If this process lacks the permission, asks the one that has it, and waits at most 0.2 s for the answer.
pub(super) fn reach(bus: &Bus, plan: RecoveryPlan) -> Reach {
    if !plan.rebind {
        return Reach::NotWanted;
    }
    let adapter = match bus.place() {
        Ok(adapter) => adapter,
        Err(error) => return Reach::Not(error),
    };
    let Some(driver) = adapter.device.as_deref().and_then(Driver::of) else {
        let fix = "leave 'rebind' out of the board file: nothing can be bound again";
        return Reach::Not(error(adapter.spoken(), "no driver is bound to its device", fix));
    };
    if driver.writable() {
        return Reach::Directly;
    }
    let socket = rebind::socket_of(&bus.root);
    match rebind::ask(&socket, Ask::May, driver.device(), rebind::MAY_TIMEOUT) {
        Ok(Grant::Yes) => Reach::ByAnother,
        Ok(refused) => {
            let fix = "give ganglion-rebind.service the same board file (GANGLION_BOARD), and run it as root";
            Reach::Not(error("ganglion-rebind", refused.message(), fix))
        }
        Err(failure) => {
            let fix = match failure.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ConnectionReset => {
                    "ask as the runtime's user: 'sudo -u ganglion ganglion doctor --board FILE'"
                }
                _ => "start the service that may rebind: systemctl enable --now ganglion-rebind",
            };
            Reach::Not(error(socket.display().to_string(), failure.to_string(), fix))
        }
    }
}

fn driver_of(bus: &Bus) -> Option<Driver> {
    Driver::of(bus.place().ok()?.device.as_deref()?)
}

impl Repair for LinuxRepair {
    /// Whether the board permits `measure` and, for a rebind, a process can do it.
    fn can(&self, measure: Measure) -> bool {
        match measure {
            Measure::Clear => self.plan.clear.is_some(),
            Measure::Rebind => matches!(self.reach(), Reach::Directly | Reach::ByAnother),
            Measure::RailOff | Measure::RailOn => self.rail.is_some(),
        }
    }

    fn take(&mut self, measure: Measure) -> Result<(), BusFault> {
        match (measure, &mut self.rail) {
            (Measure::Clear, _) => self.clear(),
            // Does not ask `can`: that is false after a half-done rebind, which must be completed. An
            // impossible rebind fails anyway.
            (Measure::Rebind, _) if !self.plan.rebind => Err(BusFault::Unsupported),
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

    /// Waits for the rest of the off time, then switches on.
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

    /// The device's name.
    pub(super) fn device(&self) -> &str {
        &self.device
    }

    /// Whether this user may unbind and bind it.
    pub(super) fn writable(&self) -> bool {
        ["unbind", "bind"].iter().all(|file| access(self.folder.join(file), Access::WRITE_OK).is_ok())
    }

    /// Unbinds and binds. Also binds a device that lost its driver half-way.
    pub(super) fn bind_again(&self) -> io::Result<()> {
        match self.write("unbind") {
            // ENODEV: it was not bound to this driver.
            Err(failure) if failure.raw_os_error() != Some(libc::ENODEV) => return Err(failure),
            _ => {}
        }
        self.write("bind")
    }

    /// Has the process at `socket` do the rebind.
    fn have_bound_again(&self, socket: &Path) -> io::Result<()> {
        match rebind::ask(socket, Ask::Do, &self.device, rebind::DO_TIMEOUT)? {
            Grant::Yes => Ok(()),
            Grant::TooSoon => Err(io::Error::from_raw_os_error(libc::EBUSY)),
            Grant::NotOnBoard | Grant::Mangled => Err(io::Error::from_raw_os_error(libc::EPERM)),
            Grant::Failed => Err(io::Error::from_raw_os_error(libc::EIO)),
        }
    }

    fn write(&self, file: &str) -> io::Result<()> {
        OpenOptions::new().write(true).open(self.folder.join(file))?.write_all(self.device.as_bytes())
    }
}

/// Waits until the bus's node exists and can be opened, at most for [`NODE_WITHIN`]. Its number may have
/// changed.
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
    use crate::base::plan::{Access, ClearPlan, I2cNode, I2cPlan, I2cTiming, Line};

    fn repair(tree: &Tree, plan: RecoveryPlan) -> Result<LinuxRepair, OpenError> {
        let bus = I2cPlan {
            name: "motors".to_string(),
            node: I2cNode::Adapter("c250000.i2c".to_string()),
            driver: None,
            timing: I2cTiming { speed_hz: 100_000, timeout: Span::from_millis(20) },
            recovery: plan,
        };
        let bus = Bus::new(tree.root().to_path_buf(), &bus, Vec::new(), Vec::new(), Access::CharacterDevices);
        let chips = Chips::look(tree.root(), &["tegra234-gpio".to_string()], &[]);
        LinuxRepair::open(Arc::new(bus), plan, chips, Arc::default())
    }

    #[test]
    fn a_rebind_writes_to_the_adapters_own_driver() {
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
    fn a_rebind_waits_for_a_stuck_one_unless_that_has_ended() {
        let tree = i2c_tree();
        let mut repair =
            repair(&tree, RecoveryPlan { rebind: true, ..Default::default() }).expect("a repair");
        let (done, end) = sync_channel(1);
        repair.stuck = Some(end);
        assert_eq!(repair.take(Measure::Rebind), Err(BusFault::TimedOut), "it is still running");
        drop(done); // as in a panic of its thread
        assert_eq!(repair.take(Measure::Rebind), Ok(()));
    }

    #[test]
    fn only_permitted_recovery_steps_are_taken() {
        let tree = i2c_tree();
        let mut repair = repair(&tree, RecoveryPlan::default()).expect("a repair");
        for measure in [Measure::Clear, Measure::Rebind, Measure::RailOff, Measure::RailOn] {
            assert!(!repair.can(measure), "{measure:?}");
            assert_eq!(repair.take(measure), Err(BusFault::Unsupported), "{measure:?}");
        }
        assert_eq!(tree.read("sys/bus/platform/drivers/tegra-i2c/unbind"), "");
    }

    #[test]
    fn an_adapter_without_a_driver_cannot_be_rebound() {
        let tree = i2c_tree();
        fs::remove_file(tree.root().join("sys/devices/platform/c250000.i2c/driver")).expect("a link");
        let repair = repair(&tree, RecoveryPlan { rebind: true, ..Default::default() }).expect("a repair");
        assert!(!repair.can(Measure::Rebind));
    }

    /// The service's user cannot write the two files. Here they are removed, so that root cannot either.
    fn without_rights(tree: &Tree) {
        for file in ["unbind", "bind"] {
            let path = tree.root().join("sys/bus/platform/drivers/tegra-i2c").join(file);
            fs::remove_file(path).expect("a file");
        }
    }

    /// A minimal rebind process for the test: gives these answers, one per request. Returns the requests.
    fn another(tree: &Tree, answers: Vec<Grant>) -> thread::JoinHandle<Vec<Vec<u8>>> {
        use rustix::{io::retry_on_intr, net::*};
        let path = rebind::socket_of(tree.root());
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        let listener = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
        bind(&listener, &SocketAddrUnix::new(&path).expect("a short path")).expect("a place");
        listen(&listener, 4).expect("a listener");
        thread::spawn(move || {
            let mut heard = Vec::new();
            for answer in answers {
                let caller = retry_on_intr(|| accept(&listener)).expect("a caller");
                let mut request = [0; rebind::LONGEST];
                let (length, _) =
                    retry_on_intr(|| recv(&caller, &mut request[..], RecvFlags::empty())).expect("a request");
                heard.push(request[..length].to_vec());
                send(&caller, &[answer as u8], SendFlags::empty()).expect("an answer");
            }
            heard
        })
    }

    #[test]
    fn without_root_a_privileged_process_rebinds() {
        let tree = i2c_tree();
        without_rights(&tree);
        let mut repair =
            repair(&tree, RecoveryPlan { rebind: true, ..Default::default() }).expect("a repair");
        assert!(!repair.can(Measure::Rebind), "no process listens");
        let absent =
            |error: &OpenError| error.what.ends_with("rebind.sock") && error.fix.contains("systemctl");
        assert!(matches!(repair.reach(), Reach::Not(error) if absent(&error)));
        let server = another(&tree, vec![Grant::NotOnBoard, Grant::Yes, Grant::Yes, Grant::TooSoon]);
        let refused = |error: &OpenError| error.fix.contains("the same board file");
        assert!(matches!(repair.reach(), Reach::Not(error) if refused(&error)));
        assert!(repair.can(Measure::Rebind));
        assert_eq!(repair.take(Measure::Rebind), Ok(()));
        assert!(repair.take(Measure::Rebind).is_err(), "the second rebind comes too soon");
        let heard = server.join().expect("a server");
        let wanted = ["?c250000.i2c", "?c250000.i2c", "!c250000.i2c", "!c250000.i2c"];
        assert_eq!(heard, wanted.map(|words| words.as_bytes().to_vec()));
        assert!(
            !tree.root().join("sys/bus/platform/drivers/tegra-i2c/unbind").exists(),
            "this process must not write the files itself"
        );
    }

    #[test]
    fn a_silent_rebind_process_is_not_waited_for() {
        use rustix::net::*;
        let tree = i2c_tree();
        let path = rebind::socket_of(tree.root());
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        let listener = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
        bind(&listener, &SocketAddrUnix::new(&path).expect("a short path")).expect("a place");
        listen(&listener, 4).expect("a listener");
        let failure = rebind::ask(&path, Ask::May, "c250000.i2c", Span::from_millis(5)).expect_err("nothing");
        assert_eq!(failure.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_device_node_that_stays_away_ends_the_rebind() {
        let tree = i2c_tree();
        let mut repair =
            repair(&tree, RecoveryPlan { rebind: true, ..Default::default() }).expect("a repair");
        fs::remove_file(tree.root().join("dev/i2c-7")).expect("a node");
        assert_eq!(repair.take(Measure::Rebind), Err(BusFault::Absent));
    }

    #[test]
    fn missing_lines_are_found_at_the_start() {
        let tree = i2c_tree();
        let clear = Some(ClearPlan { scl: Line(3), sda: Line(2) });
        let missing = repair(&tree, RecoveryPlan { clear, ..Default::default() }).err().expect("no chip");
        assert!(missing.what.contains("tegra234-gpio"), "{missing}");
    }
}
