//! An I2C bus of the board on its adapter: who owns it, when it is open, and which addresses it may use.
//!
//! Protects addresses that are not ours: those that the board reserves, those that a kernel driver uses, and
//! those that the specification reserves. A transfer does not retry, log or allocate.
#![allow(unsafe_code)]

use super::adapters::{self, Adapter, ENABLE};
use super::errors::{error, refused};
use super::i2c_dev::{self, I2C_FUNC_I2C, transfer};
use super::pi::PiI2c;
use crate::base::fault::BusFault;
use crate::base::plan::{Access, I2cNode, I2cPlan, I2cTiming};
use crate::base::time::Span;
use crate::hardware::bus::{I2c, Op, OpenError};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// 7-bit addresses that devices may have; the specification reserves the others (UM10204, table 3).
pub(super) const ADDRESSES: std::ops::RangeInclusive<u8> = 0x08..=0x77;

/// A set of 7-bit addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Addresses(u128);

impl Addresses {
    pub(super) fn add(&mut self, address: u8) {
        self.0 |= 1_u128.checked_shl(u32::from(address)).unwrap_or(0);
    }
    fn has(self, address: u8) -> bool {
        self.0.checked_shr(u32::from(address)).is_some_and(|from| from & 1 == 1)
    }
    /// Whether a transfer may go to `address`, given these reserved addresses.
    fn leave_free(self, address: u8) -> bool {
        ADDRESSES.contains(&address) && !self.has(address)
    }
}

/// How an open adapter is used.
enum Through {
    Device(File),
    Pi(PiI2c),
}

/// An open adapter.
struct Open {
    through: Through,
    taken: Addresses,
}

/// An I2C bus of the board: where it is, and its adapter while that is open. Shared by the bus's handle and
/// its [`super::repair`], because the adapter must be closed before its driver can be unbound: the kernel
/// waits without limit until the last file is closed (`i2c_del_adapter`).
pub(super) struct Bus {
    pub root: PathBuf,
    pub name: String,
    pub node: I2cNode,
    pub timing: I2cTiming,
    /// Addresses that the board reserves on it, with their holders.
    pub reserved: Vec<(u8, String)>,
    /// Addresses that the board's devices use.
    pub used: Vec<u8>,
    /// The interface through which it is accessed.
    pub access: Access,
    /// The bus's only owner locks this during a transfer, with `try_lock` only, so that it never waits.
    adapter: Mutex<Option<Open>>,
    owned: AtomicBool,
}

impl Bus {
    pub(super) fn new(
        root: PathBuf,
        plan: &I2cPlan,
        reserved: Vec<(u8, String)>,
        used: Vec<u8>,
        access: Access,
    ) -> Bus {
        Bus {
            root,
            name: plan.name.clone(),
            node: plan.node.clone(),
            timing: plan.timing,
            reserved,
            used,
            access,
            adapter: Mutex::new(None),
            owned: AtomicBool::new(false),
        }
    }

    fn spoken(&self) -> String {
        format!("I2C bus '{}'", self.name)
    }

    /// Looks up the adapter that the bus has at present.
    pub(super) fn place(&self) -> Result<Adapter, OpenError> {
        adapters::find(&self.root, &self.node)
    }

    /// Addresses on `adapter` that are not ours: reserved by the board, or used by a kernel driver.
    fn taken(&self, adapter: &Adapter) -> Addresses {
        let mut taken = Addresses::default();
        self.reserved.iter().for_each(|(address, _)| taken.add(*address));
        ADDRESSES
            .filter(|address| adapter.driver_at(&self.root, *address).is_some())
            .for_each(|a| taken.add(a));
        taken
    }

    /// Checks that no device of the board uses an address that is not ours.
    fn check_used(&self, adapter: &Adapter) -> Result<(), OpenError> {
        for &address in &self.used {
            let what = || format!("{} address {address:#04x}", self.spoken());
            if let Some((_, holder)) = self.reserved.iter().find(|(reserved, _)| *reserved == address) {
                let why =
                    format!("the board reserves it for {holder}, but one of the board's devices uses it");
                return Err(error(what(), why, "correct the board file: one of the two is wrong"));
            }
            if let Some(driver) = adapter.driver_at(&self.root, address) {
                let why = format!("the kernel driver '{driver}' is using the chip");
                let fix = "read it through the kernel (kind \"hwmon\"), or unbind that driver";
                return Err(error(what(), why, fix));
            }
        }
        Ok(())
    }

    fn open(&self) -> Result<Open, OpenError> {
        let adapter = self.place()?;
        self.check_used(&adapter)?;
        let device = open_adapter(&adapter, self.timing.timeout)?;
        let through = match self.access {
            Access::CharacterDevices => Through::Device(device),
            Access::Rppal => Through::Pi(PiI2c::open(adapter.number)?),
        };
        Ok(Open { through, taken: self.taken(&adapter) })
    }

    /// Closes the adapter. Waits for a transfer in progress, whose duration the adapter's timeout limits.
    pub(super) fn close(&self) {
        *self.adapter.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Reopens the adapter, which may have a new number.
    pub(super) fn reopen(&self) -> Result<(), OpenError> {
        self.close();
        let open = self.open()?;
        *self.adapter.lock().unwrap_or_else(PoisonError::into_inner) = Some(open);
        Ok(())
    }

    /// What is at `address`, determined by reading one byte; see [`super::Presence`].
    pub(super) fn probe(&self, address: u8) -> Result<super::Presence, OpenError> {
        use super::Presence;
        if let Some((_, holder)) = self.reserved.iter().find(|(reserved, _)| *reserved == address) {
            return Ok(Presence::Reserved(holder.clone()));
        }
        if !ADDRESSES.contains(&address) {
            return Ok(Presence::Reserved("the I2C specification".to_string()));
        }
        let adapter = self.place()?;
        if let Some(driver) = adapter.driver_at(&self.root, address) {
            return Ok(Presence::Kernel(driver));
        }
        let device = open_adapter(&adapter, self.timing.timeout)?;
        Ok(match transfer(&device, address, &mut [Op::Read(&mut [0])]) {
            Ok(()) => Presence::Answers,
            Err(BusFault::Nack) => Presence::Silent,
            Err(other) => Presence::Refused(other),
        })
    }
}

/// The handle on a bus; only one exists at a time.
pub(super) struct LinuxI2c(Arc<Bus>);

impl LinuxI2c {
    pub(super) fn open(bus: Arc<Bus>) -> Result<LinuxI2c, OpenError> {
        if bus.owned.swap(true, Ordering::AcqRel) {
            let why = "it is already open, and a bus can have only one owner";
            return Err(error(bus.spoken(), why, "this is a bug in ganglion: report it"));
        }
        let handle = LinuxI2c(bus); // dropping it on an error releases the bus
        handle.0.reopen()?;
        Ok(handle)
    }
}

impl Drop for LinuxI2c {
    fn drop(&mut self) {
        self.0.close();
        self.0.owned.store(false, Ordering::Release);
    }
}

impl I2c for LinuxI2c {
    fn transfer(&mut self, address: u8, ops: &mut [Op<'_>]) -> Result<(), BusFault> {
        // Locked elsewhere only while a rebind closes or reopens the adapter.
        let Ok(mut adapter) = self.0.adapter.try_lock() else { return Err(BusFault::Absent) };
        let open = adapter.as_mut().ok_or(BusFault::Absent)?;
        if !open.taken.leave_free(address) {
            return Err(BusFault::Unsupported);
        }
        let _whole = SignalsHeld::now();
        match &mut open.through {
            Through::Device(device) => transfer(device, address, ops),
            Through::Pi(pi) => pi.transfer(address, ops),
        }
    }

    fn reopen(&mut self) -> Result<(), BusFault> {
        self.0.reopen().map_err(|_| BusFault::Absent)
    }
}

/// Opens `adapter` and sets its timeout, **for every user of the adapter**: the kernel has one timeout per
/// adapter.
fn open_adapter(adapter: &Adapter, timeout: Span) -> Result<File, OpenError> {
    let what = adapter.node.display().to_string();
    let device = i2c_dev::open(&adapter.node).map_err(|failure| refused(&what, &failure, ENABLE, "i2c"))?;
    let told = |failure: io::Error| error(&what, format!("{failure} while setting it up"), ENABLE);
    if i2c_dev::functions(&device).map_err(told)? & I2C_FUNC_I2C == 0 {
        let why = "the adapter can only do SMBus, not plain I2C transfers (I2C_FUNC_I2C)";
        return Err(error(&what, why, "connect the devices to another bus"));
    }
    i2c_dev::set_timeout(&device, timeout).map_err(told)?;
    // The runtime itself counts lost arbitrations and retries.
    i2c_dev::set_retries(&device, 0).map_err(told)?;
    Ok(device)
}

/// Blocks all signals for this thread as long as this value exists. Some controller drivers abort a transfer
/// when a signal arrives; a chip that has received half a message may then take the next one for the rest.
struct SignalsHeld(libc::sigset_t);

impl SignalsHeld {
    fn now() -> SignalsHeld {
        let mut all = std::mem::MaybeUninit::uninit();
        let mut before = std::mem::MaybeUninit::uninit();
        // SAFETY: sigfillset writes the whole of `all`; with a valid `how` and `set`, pthread_sigmask cannot
        // fail and writes the whole of `before`.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            SignalsHeld(before.assume_init())
        }
    }
}

impl Drop for SignalsHeld {
    fn drop(&mut self) {
        // SAFETY: the mask is the one that pthread_sigmask returned for this thread; the pointer to the old
        // mask may be null.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::Presence;
    use super::super::fake::{Tree, i2c_tree};
    use super::*;
    use crate::base::plan::RecoveryPlan;

    fn bus(tree: &Tree, part: &str, used: &[u8]) -> Bus {
        let plan = I2cPlan {
            name: "motors".to_string(),
            node: I2cNode::Adapter(part.to_string()),
            driver: None,
            timing: I2cTiming { speed_hz: 100_000, timeout: Span::from_millis(20) },
            recovery: RecoveryPlan::default(),
        };
        Bus::new(
            tree.root().to_path_buf(),
            &plan,
            vec![(0x50, "the EEPROM".to_string())],
            used.to_vec(),
            Access::CharacterDevices,
        )
    }

    #[test]
    fn only_unused_device_addresses_are_free() {
        let mut taken = Addresses::default();
        [0x50, 0x77, 0xFF].into_iter().for_each(|address| taken.add(address));
        let free: Vec<u8> = (0..=u8::MAX).filter(|address| taken.leave_free(*address)).collect();
        let expected: Vec<u8> = (0x08..=0x76).filter(|address| *address != 0x50).collect();
        assert_eq!(free, expected);
    }

    #[test]
    fn devices_with_a_kernel_driver_are_never_opened() {
        let tree = i2c_tree();
        let bus = bus(&tree, "3160000", &[0x14, 0x40]);
        let refused = bus.open().err().expect("a refusal");
        assert_eq!(refused.what, "I2C bus 'motors' address 0x40");
        assert!(refused.why.contains("ina3221"), "{refused}");
        let adapter = bus.place().expect("an adapter");
        let taken = bus.taken(&adapter);
        let held: Vec<u8> = ADDRESSES.filter(|address| !taken.leave_free(*address)).collect();
        assert_eq!(held, [0x40, 0x50]);
    }

    #[test]
    fn reserved_addresses_are_never_opened() {
        let tree = i2c_tree();
        let refused = bus(&tree, "c250000", &[0x50]).open().err().expect("a refusal");
        assert!(refused.why.contains("reserves it for the EEPROM"), "{refused}");
    }

    #[test]
    fn a_file_that_is_not_an_adapter_is_refused() {
        let tree = i2c_tree();
        let refused = bus(&tree, "c250000", &[0x14]).open().err().expect("a refusal");
        assert!(refused.what.ends_with("dev/i2c-7"), "{refused}");
    }

    #[test]
    fn probing_skips_devices_of_others() {
        let tree = i2c_tree();
        let bus = bus(&tree, "3160000", &[]);
        assert_eq!(bus.probe(0x50), Ok(Presence::Reserved("the EEPROM".to_string())));
        assert_eq!(bus.probe(0x40), Ok(Presence::Kernel("ina3221".to_string())));
        assert_eq!(bus.probe(0x03), Ok(Presence::Reserved("the I2C specification".to_string())));
        assert!(bus.probe(0x14).is_err(), "the tree has no adapter that could be opened");
    }

    #[test]
    fn a_bus_has_one_owner_and_is_free_again_after_a_failure() {
        let tree = i2c_tree();
        let bus = Arc::new(bus(&tree, "c250000", &[]));
        for _ in 0..2 {
            let refused = LinuxI2c::open(bus.clone()).err().expect("no adapter in a tree");
            assert!(refused.what.ends_with("dev/i2c-7"), "{refused}");
        }
        let first = LinuxI2c(bus.clone());
        bus.owned.store(true, Ordering::Release);
        assert!(LinuxI2c::open(bus.clone()).err().expect("a second owner").why.contains("already open"));
        drop(first);
        assert!(!bus.owned.load(Ordering::Acquire));
    }

    #[test]
    fn a_closed_adapter_answers_at_once() {
        let tree = i2c_tree();
        let bus = Arc::new(bus(&tree, "c250000", &[]));
        let mut i2c = LinuxI2c(bus.clone());
        assert_eq!(i2c.write(0x14, &[0]), Err(BusFault::Absent));
        // The lock is held, as while a rebind closes the adapter.
        let _rebind = bus.adapter.lock().expect("free");
        assert_eq!(i2c.write(0x14, &[0]), Err(BusFault::Absent));
        std::mem::forget(i2c); // drop would wait for the lock that this test holds
    }

    #[test]
    fn signals_wait_for_the_end_of_a_transfer() {
        let came = Arc::new(AtomicBool::new(false));
        let id = signal_hook::flag::register(libc::SIGUSR2, came.clone()).expect("a signal");
        let held = SignalsHeld::now();
        signal_hook::low_level::raise(libc::SIGUSR2).expect("raised on this thread");
        assert!(!came.load(Ordering::SeqCst), "not during the transfer");
        drop(held);
        assert!(came.load(Ordering::SeqCst), "right after the transfer");
        signal_hook::low_level::unregister(id);
    }
}
