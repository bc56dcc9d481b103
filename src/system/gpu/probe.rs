//! Is there a GPU that this program can use? Checks step by step, each only after the one before has passed:
//! the library, its functions, the driver's initialisation and version, a device, its chip. Opens no context.

#![allow(unsafe_code)] // calls to the driver; reasons at each place

use std::ffi::{CStr, c_char};
use std::fmt;

use cudarc::driver::sys::{CUdevice, CUdevice_attribute};

use super::driver::{self, Call, Driver, Missing, SUCCESS};
use super::error::{GpuError, code};

/// Oldest supported driver, given as its CUDA version. CUDA 12.0 is the first that accepts PTX 8.0, which the
/// kernels use (PTX ISA, "Release notes"). `scripts/build-ptx` checks both with the tools of CUDA 12.0.
const OLDEST_DRIVER: (u32, u32) = (12, 0);

/// Oldest supported chip, given as its compute capability: the one that the kernels are compiled for (Orin).
const OLDEST_CHIP: (u32, u32) = (8, 7);

/// A usable GPU, and its properties before it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuInfo {
    /// Its name, as the driver reports it.
    pub name: String,
    /// Its number in the driver's list.
    pub ordinal: usize,
    /// Compute capability, e.g. (8, 7).
    pub capability: (u32, u32),
    /// Version of CUDA that the driver supports, e.g. (12, 6).
    pub driver: (u32, u32),
    /// Enabled multiprocessors: power modes switch some off.
    pub multiprocessors: u32,
    /// Bytes of the second-level cache.
    pub l2_bytes: usize,
    /// Bytes of memory.
    pub memory_bytes: usize,
    /// Shares its memory with the processor, as on a Jetson.
    pub integrated: bool,
    /// Highest clock in kHz; 0 if the driver does not report it.
    pub clock_khz: u32,
}

/// Why there is no usable GPU. Displayed as a sentence: the cause, and what the user can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Absence {
    /// No driver library.
    NoLibrary,
    /// The library lacks this function.
    Symbol(&'static str),
    /// The toolkit's stub library for linking.
    Stub,
    /// A driver but no device.
    NoDevice,
    /// Library and kernel module have different versions.
    Mismatch,
    /// The driver does not accept the kernels' PTX.
    OldDriver {
        /// Version of CUDA that it supports.
        found: (u32, u32),
        /// The minimum required.
        needed: (u32, u32),
    },
    /// The chip cannot run the kernels, nor can any other chip of this machine.
    OldChip {
        /// Its name, as the driver reports it.
        name: String,
        /// Its compute capability.
        found: (u32, u32),
        /// The minimum required.
        needed: (u32, u32),
    },
    /// The driver reports another error.
    Refused(GpuError),
}

/// Looks for a GPU. Never panics, whatever is or is not installed. The driver may take seconds to start, and
/// a broken one may never return: a caller that cannot wait calls it on a thread that it can abandon.
///
/// # Errors
/// Why there is no usable GPU.
pub fn probe() -> Result<GpuInfo, Absence> {
    let driver = driver::open().map_err(|missing| match missing {
        Missing::Library => Absence::NoLibrary,
        Missing::Symbol(name) => Absence::Symbol(name),
    })?;
    // SAFETY: 0 is the only flag that is defined.
    ask(Call::Init, unsafe { (driver.init)(0) }).map_err(at_the_start)?;
    let mut version = 0;
    // SAFETY: writes one number.
    ask(Call::DriverVersion, unsafe { (driver.driver_version)(&mut version) }).map_err(at_the_start)?;
    let version = positive(version);
    let version = (version / 1000, version % 1000 / 10);
    if version < OLDEST_DRIVER {
        return Err(Absence::OldDriver { found: version, needed: OLDEST_DRIVER });
    }
    let mut devices = 0;
    // SAFETY: writes one number.
    ask(Call::DeviceCount, unsafe { (driver.device_count)(&mut devices) }).map_err(at_the_start)?;
    // The first usable device; if none is usable, the result is about the first one.
    let mut first = Absence::NoDevice;
    for ordinal in 0..devices {
        match look_at(driver, ordinal, version).map_err(Absence::Refused) {
            Ok(found) if found.capability >= OLDEST_CHIP => return Ok(found),
            Ok(GpuInfo { name, capability, .. }) if first == Absence::NoDevice => {
                first = Absence::OldChip { name, found: capability, needed: OLDEST_CHIP };
            }
            Err(refused) if first == Absence::NoDevice => first = refused,
            Ok(_) | Err(_) => {}
        }
    }
    Err(first)
}

fn look_at(driver: &Driver, ordinal: i32, version: (u32, u32)) -> Result<GpuInfo, GpuError> {
    let mut device: CUdevice = 0;
    // SAFETY: writes one handle.
    ask(Call::DeviceGet, unsafe { (driver.device_get)(&mut device, ordinal) })?;
    // A name is a few words; cudaDeviceProp reserves as many bytes.
    let mut name = [0_u8; 256];
    // SAFETY: writes a C string of at most that length.
    ask(Call::DeviceName, unsafe { (driver.device_name)(name.as_mut_ptr().cast::<c_char>(), 256, device) })?;
    let mut memory_bytes = 0;
    // SAFETY: writes one number.
    ask(Call::DeviceMemory, unsafe { (driver.device_memory)(&mut memory_bytes, device) })?;
    let attribute = |which: CUdevice_attribute| {
        let mut value = 0;
        // SAFETY: writes one number; a driver refuses an attribute that it does not know.
        let code = unsafe { (driver.device_attribute)(&mut value, which as i32, device) };
        ask(Call::DeviceAttribute, code).map(|()| positive(value))
    };
    use CUdevice_attribute as A;
    Ok(GpuInfo {
        name: CStr::from_bytes_until_nul(&name).unwrap_or_default().to_string_lossy().into_owned(),
        ordinal: positive(ordinal) as usize,
        capability: (
            attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        driver: version,
        multiprocessors: attribute(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?.max(1),
        l2_bytes: attribute(A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as usize,
        memory_bytes,
        integrated: attribute(A::CU_DEVICE_ATTRIBUTE_INTEGRATED)? != 0,
        // Newer drivers may no longer report it, and nothing depends on it.
        clock_khz: attribute(A::CU_DEVICE_ATTRIBUTE_CLOCK_RATE).unwrap_or(0),
    })
}

fn ask(call: Call, code: i32) -> Result<(), GpuError> {
    if code == SUCCESS { Ok(()) } else { Err(GpuError { call, code }) }
}

fn positive(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

/// What an error during initialisation means.
fn at_the_start(error: GpuError) -> Absence {
    match error.code {
        code::NO_DEVICE => Absence::NoDevice,
        code::STUB_LIBRARY => Absence::Stub,
        code::DRIVER_MISMATCH | code::COMPAT_NOT_SUPPORTED => Absence::Mismatch,
        _ => Absence::Refused(error),
    }
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Absence::NoLibrary => {
                f.write_str("no CUDA driver is installed (libcuda.so is missing): install NVIDIA's driver")
            }
            Absence::Symbol(name) => write!(
                f,
                "the CUDA driver's library lacks {name}: install a driver with CUDA {}.{} or newer",
                OLDEST_DRIVER.0, OLDEST_DRIVER.1
            ),
            Absence::Stub => f.write_str(
                "libcuda.so is the CUDA toolkit's stub, for linking only: remove its folder from the \
                 library path, and install NVIDIA's driver",
            ),
            Absence::NoDevice => f.write_str(
                "the CUDA driver sees no GPU: check whether nvidia-smi sees one, whether this user may open \
                 /dev/nvidia* (on a Jetson: is in the groups video and render), and whether CUDA_VISIBLE_DEVICES \
                 hides it",
            ),
            Absence::Mismatch => f.write_str(
                "the CUDA driver's library and its kernel module have different versions, e.g. after an \
                 update: restart the machine, or install the same version of both",
            ),
            Absence::OldDriver { found, needed } => write!(
                f,
                "the driver supports CUDA {}.{}, and {}.{} is the minimum: install a newer driver \
                 (on a PC: 525; on a Jetson: JetPack 6)",
                found.0, found.1, needed.0, needed.1
            ),
            Absence::OldChip { name, found, needed } => write!(
                f,
                "{name} has compute capability {}.{}, and {}.{} is the minimum that the kernels are compiled \
                 for: use a newer GPU",
                found.0, found.1, needed.0, needed.1
            ),
            Absence::Refused(error) => {
                write!(f, "the CUDA driver reports an error ({error}): check the kernel log (dmesg)")
            }
        }
    }
}

impl std::error::Error for Absence {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_missing_gpu_has_a_reason_and_a_fix() {
        let refused = GpuError { call: Call::Init, code: 31_337 };
        let all = [
            (Absence::NoLibrary, "libcuda.so"),
            (Absence::Symbol("cuGraphUpload"), "cuGraphUpload"),
            (Absence::Stub, "stub"),
            (Absence::NoDevice, "no GPU"),
            (Absence::Mismatch, "restart"),
            (Absence::OldDriver { found: (11, 4), needed: (12, 0) }, "CUDA 11.4, and 12.0"),
            (Absence::OldChip { name: "GTX".into(), found: (6, 1), needed: (8, 7) }, "GTX has compute"),
            (Absence::Refused(refused), "cuInit: CUDA error 31337"),
        ];
        for (absence, part) in all {
            let sentence = absence.to_string();
            assert!(sentence.contains(part) && sentence.contains(": "), "{sentence}");
            assert!(!sentence.contains("  ") && !sentence.contains('\n'), "{sentence}");
        }
    }

    #[test]
    fn asking_twice_gives_the_same_answer_whatever_is_installed() {
        assert_eq!(probe(), probe());
    }

    #[test]
    fn start_up_error_codes_are_distinguished() {
        let of = |code| at_the_start(GpuError { call: Call::Init, code });
        assert_eq!(
            [of(100), of(34), of(803), of(804)],
            [Absence::NoDevice, Absence::Stub, Absence::Mismatch, Absence::Mismatch]
        );
        assert!(matches!(of(999), Absence::Refused(error) if error.code == 999));
    }
}
