//! The stand-in for the CUDA driver (`kernels/emulator/driver.cpp`): compiled if its sources have changed,
//! loaded under the driver's name, and controlled by text commands ("orders").
//!
//! It has to be loaded before anything asks cudarc for the driver: cudarc looks for `libcuda.so` first, and
//! the loader returns the library that is already loaded under that name. There is one device and one set of
//! orders per process: a test that calls [`alone`] runs in its own process, so that two such tests can run in
//! parallel. A child process that must load the library itself, or a variant that lacks a function, gets
//! [`StandIn::folder`] or [`without`] as `LD_LIBRARY_PATH`.
#![allow(unsafe_code)] // dlopen, dlsym, and the symbols they find

mod calls;
mod faults;
mod initcheck;
mod order;
mod raw;

use crate::allocation;
use crate::skips::skip;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Counts of the stand-in since the last [`alone`]; layout as in `driver/orders.hpp`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls of cuLaunchKernel outside a capture.
    pub launches: u64,
    /// Calls of cuGraphLaunch.
    pub replays: u64,
    /// Kernels executed, alone or in a graph; the following four counts also include both.
    pub kernels: u64,
    pub copies_in: u64,
    pub copies_out: u64,
    pub copies_within: u64,
    pub fills: u64,
    /// Copies refused because the host memory was not page-locked.
    pub pageable: u64,
    /// Allocations in total and at present, and their bytes.
    pub device_ever: u64,
    pub device_now: u64,
    pub device_bytes: u64,
    pub host_ever: u64,
    pub host_now: u64,
    /// Host ranges that are registered with the device.
    pub registered: u64,
    /// Objects that exist at present.
    pub streams: u64,
    pub events: u64,
    pub graphs: u64,
    pub executables: u64,
    pub modules: u64,
    /// References to the primary context, and other contexts.
    pub retained: u64,
}

impl Counts {
    const NUMBERS: usize = size_of::<Counts>() / size_of::<u64>();

    /// Whether neither memory nor an object of the device is left.
    pub fn is_clean(&self) -> bool {
        let alive = [self.streams, self.events, self.graphs, self.executables, self.modules];
        alive.iter().sum::<u64>() + self.device_now + self.host_now + self.registered + self.retained == 0
    }
}

/// The loaded library.
pub struct StandIn {
    folder: PathBuf,
    order: extern "C" fn(*const c_char) -> c_int,
    counts: extern "C" fn(*mut u64, usize) -> c_int,
}

impl StandIn {
    /// The folder of its `libcuda.so`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Gives orders; `driver/orders.hpp` lists them.
    ///
    /// # Panics
    /// If the stand-in does not know one of the orders.
    pub fn order(&self, orders: &str) {
        let text = CString::new(orders).expect("no zero byte");
        assert_eq!((self.order)(text.as_ptr()), 0, "{orders}");
    }

    /// The current counts.
    pub fn counts(&self) -> Counts {
        let mut numbers = [0; Counts::NUMBERS];
        let known = (self.counts)(numbers.as_mut_ptr(), numbers.len());
        assert_eq!(known as usize, Counts::NUMBERS, "both sides count the same things");
        // SAFETY: both are plain integers in the same order; the sizes are the same.
        unsafe { std::mem::transmute::<[u64; Counts::NUMBERS], Counts>(numbers) }
    }
}

/// The stand-in of this process; its orders are cleared at the start and the end.
pub struct Alone {
    stand_in: &'static StandIn,
}

impl std::ops::Deref for Alone {
    type Target = StandIn;
    fn deref(&self) -> &StandIn {
        self.stand_in
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.stand_in.order("fresh");
    }
}

/// Why a test of the CUDA engine is skipped.
const NO_COMPILER: &str = "no C++ compiler (CXX, c++, g++, clang++) for the stand-in driver";

/// The stand-in in its initial state: no context, no orders, counts from 0. A process has only one, so the
/// calling test is run again in its own process, where this returns `Some`; here it returns `None`, and the
/// test ends. `None` also without a C++ compiler; then the test is skipped.
pub fn alone() -> Option<Alone> {
    // libtest names a test's thread after the test. With `--test-threads=1` there is no such thread, and the
    // test needs no process of its own.
    let test = std::thread::current().name().filter(|name| name.contains("::")).map(String::from);
    if let Some(test) = test.filter(|_| !allocation::is_alone()) {
        compile("")?;
        allocation::run_alone(&test);
        return None;
    }
    let stand_in = stand_in()?;
    // Removes whatever a failed test has left behind.
    stand_in.order("fresh");
    Some(Alone { stand_in })
}

/// The stand-in, loaded under the driver's name; `None` without a C++ compiler, and the test is skipped.
///
/// # Panics
/// If there is a compiler and it fails, or warns.
pub fn stand_in() -> Option<&'static StandIn> {
    static LOADED: OnceLock<Option<StandIn>> = OnceLock::new();
    let loaded = LOADED.get_or_init(|| compile("").map(load)).as_ref();
    if loaded.is_none() {
        skip(NO_COMPILER);
    }
    loaded
}

/// The folder of a stand-in that lacks one of the driver's functions, for a child process to load.
pub fn without(symbol: &str) -> Option<PathBuf> {
    compile(symbol)
}

/// The folder of the library, compiled if its sources have changed: whole (""), without one of the driver's
/// functions, or with checked reads ("initcheck").
fn compile(variant: &str) -> Option<PathBuf> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let whole = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("stand-in-{}", &digest("")[..16]));
    let folder = match variant {
        "" => whole.clone(),
        "initcheck" => whole.join(variant),
        symbol => whole.join(format!("without-{symbol}")),
    };
    if folder.join("libcuda.so").exists() {
        return Some(folder);
    }
    let said = Command::new("sh").arg("scripts/stand-in-driver").arg(&whole).arg(variant).output();
    let said = said.expect("a shell");
    let errors = String::from_utf8_lossy(&said.stderr);
    if said.status.code() == Some(2) {
        skip(NO_COMPILER);
        return None;
    }
    assert!(said.status.success() && errors.is_empty(), "the stand-in does not compile cleanly:\n{errors}");
    Some(folder)
}

/// Digest of all sources of the library and the emulator, and of the build options.
pub fn digest(how: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(how.as_bytes());
    for folder in ["kernels", "kernels/emulator", "kernels/emulator/driver"] {
        let entries = fs::read_dir(folder).expect("the tests run in the root of the repository");
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.is_file() && path.extension().is_some_and(|end| end != "md"));
        paths.sort();
        for path in paths {
            hasher.update(&fs::read(path).expect("a source"));
        }
    }
    hasher.update(&fs::read("scripts/stand-in-driver").expect("the script"));
    hasher.finalize().to_hex().to_string()
}

fn load(folder: PathBuf) -> StandIn {
    let library = open(&folder);
    // SAFETY: the library exports these functions with these types.
    unsafe {
        StandIn {
            folder,
            order: std::mem::transmute::<*mut c_void, extern "C" fn(*const c_char) -> c_int>(
                find(library, c"ganglion_stand_in").expect("its own function"),
            ),
            counts: std::mem::transmute::<*mut c_void, extern "C" fn(*mut u64, usize) -> c_int>(
                find(library, c"ganglion_stand_in_counts").expect("its own function"),
            ),
        }
    }
}

/// Opens the library by its full path. It is never closed.
fn open(folder: &Path) -> *mut c_void {
    let path = folder.join("libcuda.so").into_os_string().into_encoded_bytes();
    let path = CString::new(path).expect("no zero byte");
    // SAFETY: a string that ends in a zero byte; code that runs at loading only reads the environment.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!library.is_null(), "{path:?} cannot be loaded");
    library
}

fn find(library: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a handle that is never closed, and a string that ends in a zero byte.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

#[test]
fn cudarc_uses_the_library_loaded_under_the_drivers_name() {
    let Some(alone) = alone() else { return };
    alone.order("driver=11040");
    let mut version = 0;
    assert_eq!(
        (raw::cu!(cuDriverGetVersion(&mut version)), version),
        (0, 11040),
        "it is this library, and it accepts orders"
    );
    let ours = open(alone.folder());
    // SAFETY: a name that ends in a zero byte; the handle is only compared.
    let named = unsafe { libc::dlopen(c"libcuda.so".as_ptr(), libc::RTLD_NOW) };
    assert_eq!(named, ours, "looking it up by name finds the loaded library");
}

#[test]
fn a_driver_library_may_lack_a_function() {
    let (Some(alone), Some(lacking)) = (alone(), without("cuGraphUpload")) else { return };
    let (whole, lacking) = (open(alone.folder()), open(&lacking));
    assert!(find(whole, c"cuGraphUpload").is_some() && find(lacking, c"cuGraphUpload").is_none());
    assert!(find(lacking, c"cuGraphLaunch").is_some(), "nothing else is missing");
}

#[test]
fn a_process_finds_the_stand_in_on_its_library_path() {
    if std::env::var_os("GANGLION_STAND_IN").is_some() {
        // In the child nothing was loaded before cudarc searches.
        assert_eq!(raw::cu!(cuInit(0)), 34);
        return;
    }
    let Some(alone) = alone() else { return };
    let test = "cuda::standin::a_process_finds_the_stand_in_on_its_library_path";
    let child = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", test])
        .env("LD_LIBRARY_PATH", alone.folder())
        .env("GANGLION_STAND_IN", "init=34")
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && said.contains("1 passed"), "{said}");
}
