//! What an NVIDIA card reports about itself: temperature, clocks, power, load. NVIDIA's management library
//! (NVML) is part of the driver, and is loaded at run time; without it there are no figures.
//!
//! As with the driver, each function is called through its address and returns a plain `i32`, so that an
//! error code newer than this file is not undefined behaviour. A call takes milliseconds, and one about a
//! card that has fallen off the bus may never return: only a thread that nothing waits for may make calls.

#![allow(unsafe_code)] // functions of a C library; reasons at each place

use libloading::Library;
use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::fmt;

/// The library's name wherever NVIDIA's driver is installed.
const LIBRARY: &str = "libnvidia-ml.so.1";
/// Length of the longest card name, including its NUL (`NVML_DEVICE_NAME_V2_BUFFER_SIZE`).
const NAME_BYTES: usize = 96;
/// `NVML_TEMPERATURE_GPU`
const OF_THE_GPU: c_int = 0;
/// `NVML_CLOCK_GRAPHICS`
const GRAPHICS: c_int = 0;
/// `NVML_CLOCK_MEM`
const MEMORY: c_int = 2;
/// Highest plausible temperature of a card, degrees Celsius; a higher value is an error code or comes from a
/// sensor that is off.
const MOST_CELSIUS: c_uint = 150;

/// The library's handle of a card.
type Card = *mut c_void;

/// `nvmlUtilization_t`: percent of the last sample period.
#[repr(C)]
#[derive(Default)]
struct LoadPercent {
    gpu: c_uint,
    memory: c_uint,
}

/// The list of all functions that are called: field, symbol in the library, arguments.
macro_rules! functions {
    ($($field:ident $symbol:literal ($($argument:ty),*);)*) => {
        struct Functions {
            // SAFETY: each call states its own reason; this is only the type.
            $($field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Functions {
            /// Looks up every function; the error is the name of the first missing one.
            fn resolve(library: &Library) -> Result<Functions, &'static str> {
                Ok(Functions {
                    $($field: {
                        // SAFETY: the type is that of the function of this name in NVIDIA's nvml.h, with
                        // enums as the 32-bit integers that they are in C. A name's signature never changes.
                        *unsafe { library.get(concat!($symbol, "\0").as_bytes()) }.map_err(|_| $symbol)?
                    },)*
                })
            }
        }
    };
}

functions! {
    init "nvmlInit_v2" ();
    shutdown "nvmlShutdown" ();
    count "nvmlDeviceGetCount_v2" (*mut c_uint);
    by_index "nvmlDeviceGetHandleByIndex_v2" (c_uint, *mut Card);
    name "nvmlDeviceGetName" (Card, *mut c_char, c_uint);
    temperature "nvmlDeviceGetTemperature" (Card, c_int, *mut c_uint);
    clock "nvmlDeviceGetClockInfo" (Card, c_int, *mut c_uint);
    power "nvmlDeviceGetPowerUsage" (Card, *mut c_uint);
    load "nvmlDeviceGetUtilizationRates" (Card, *mut LoadPercent);
}

/// The figures of a card; one that it does not report is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NvmlFigures {
    /// Of the chip, degrees Celsius.
    pub temperature_celsius: Option<f32>,
    /// Of the multiprocessors, MHz.
    pub clock_mhz: Option<f32>,
    /// Of the memory, MHz.
    pub memory_clock_mhz: Option<f32>,
    /// Of the whole card, watts.
    pub power_watts: Option<f32>,
    /// Share of the last sample period in which a kernel ran, 0..=1.
    pub load: Option<f32>,
}

/// Why a card reports nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NvmlMissing {
    /// The library is missing.
    Library,
    /// The library lacks this function.
    Symbol(&'static str),
    /// The library could not be initialised, with this code.
    Start(i32),
    /// No card of this name.
    NoCard,
    /// This many cards have the same name, so it is not known which of them computes the field.
    Ambiguous(usize),
}

impl fmt::Display for NvmlMissing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NvmlMissing::Library => write!(f, "{LIBRARY} is missing"),
            NvmlMissing::Symbol(name) => write!(f, "{LIBRARY} has no {name}"),
            NvmlMissing::Start(code) => write!(f, "{LIBRARY} could not be initialised: code {code}"),
            NvmlMissing::NoCard => f.write_str("the driver lists no card with the name of the field's GPU"),
            NvmlMissing::Ambiguous(cards) => write!(f, "{cards} cards have the name of the field's GPU"),
        }
    }
}

/// One card. Stays on the thread that opened it.
pub struct Nvml {
    functions: Functions,
    card: Card,
    /// Declared last, so that it is closed after everything that came from it.
    _library: Library,
}

impl Nvml {
    /// The only card, whatever its name; if there are several, the one called `name`.
    pub fn open(name: Option<&str>) -> Result<Nvml, NvmlMissing> {
        Nvml::open_from(LIBRARY.as_ref(), name)
    }

    fn open_from(library: &OsStr, name: Option<&str>) -> Result<Nvml, NvmlMissing> {
        // SAFETY: opening a library runs its initialisers; those of the driver's library are meant to be run
        // this way.
        let library = unsafe { Library::new(library) }.map_err(|_| NvmlMissing::Library)?;
        let functions = Functions::resolve(&library).map_err(NvmlMissing::Symbol)?;
        // SAFETY: the function has no argument, and may be called any number of times.
        match unsafe { (functions.init)() } {
            0 => {}
            code => return Err(NvmlMissing::Start(code)),
        }
        let mut nvml = Nvml { functions, card: std::ptr::null_mut(), _library: library };
        nvml.card = nvml.choose(name)?;
        Ok(nvml)
    }

    fn choose(&self, name: Option<&str>) -> Result<Card, NvmlMissing> {
        let cards = self.cards();
        if let [only] = cards[..] {
            return Ok(only);
        }
        let named = |card: &&Card| name.is_none_or(|name| self.name(**card).as_deref() == Some(name));
        let named: Vec<&Card> = cards.iter().filter(named).collect();
        match named[..] {
            [] => Err(NvmlMissing::NoCard),
            [card] => Ok(*card),
            _ => Err(NvmlMissing::Ambiguous(named.len())),
        }
    }

    fn cards(&self) -> Vec<Card> {
        let mut count = 0;
        // SAFETY: the function writes one integer.
        let code = unsafe { (self.functions.count)(&mut count) };
        let card = |index| {
            let mut card = std::ptr::null_mut();
            // SAFETY: the function takes any index and writes one pointer.
            let code = unsafe { (self.functions.by_index)(index, &mut card) };
            (code == 0 && !card.is_null()).then_some(card)
        };
        if code == 0 { (0..count).filter_map(card).collect() } else { Vec::new() }
    }

    fn name(&self, card: Card) -> Option<String> {
        let mut bytes = [0 as c_char; NAME_BYTES];
        // SAFETY: the library returned this card, and writes at most as many bytes as it is told.
        let code = unsafe { (self.functions.name)(card, bytes.as_mut_ptr(), NAME_BYTES as c_uint) };
        *bytes.last_mut()? = 0;
        // SAFETY: the last byte is NUL, whatever was written.
        let name = unsafe { CStr::from_ptr(bytes.as_ptr()) };
        (code == 0).then(|| name.to_string_lossy().into_owned())
    }

    /// The figures now.
    pub fn read(&self) -> NvmlFigures {
        let Functions { temperature, clock, power, load, .. } = self.functions;
        let mut rates = LoadPercent::default();
        // SAFETY: the library returned this card, and writes one structure of the declared form.
        let told = unsafe { load(self.card, &mut rates) } == 0;
        NvmlFigures {
            // SAFETY: as above; writes one integer, as do the three below.
            temperature_celsius: ask(|value| unsafe { temperature(self.card, OF_THE_GPU, value) })
                .filter(|celsius| *celsius <= MOST_CELSIUS)
                .map(|celsius| celsius as f32),
            // SAFETY: as above.
            clock_mhz: ask(|value| unsafe { clock(self.card, GRAPHICS, value) }).map(|mhz| mhz as f32),
            // SAFETY: as above.
            memory_clock_mhz: ask(|value| unsafe { clock(self.card, MEMORY, value) }).map(|mhz| mhz as f32),
            // SAFETY: as above.
            power_watts: ask(|value| unsafe { power(self.card, value) }).map(|mw| mw as f32 / 1e3),
            load: (told && rates.gpu <= 100).then_some(rates.gpu as f32 / 100.0),
        }
    }
}

/// What a function writes if it succeeds.
fn ask(function: impl FnOnce(*mut c_uint) -> c_int) -> Option<c_uint> {
    let mut value = 0;
    (function(&mut value) == 0).then_some(value)
}

impl Drop for Nvml {
    fn drop(&mut self) {
        // SAFETY: `init` has succeeded once for this value, and no call follows.
        unsafe { (self.functions.shutdown)() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::process::Command;

    /// Source of a stand-in for the library, for a machine with up to three cards. It shows that names and
    /// arguments are as declared here, not that NVIDIA's library agrees.
    const STAND_IN: &str = r#"
        #include <string.h>
        static const char *names[] = {"X1", "X2", "X1"};
        static int number(void *card) { return (int)(long)card - 1; }
        int nvmlInit_v2(void) { return 0; }
        int nvmlShutdown(void) { return 0; }
        int nvmlDeviceGetCount_v2(unsigned *n) { *n = CARDS; return 0; }
        int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **card) { *card = (void *)(long)(i + 1); return 0; }
        int nvmlDeviceGetName(void *card, char *name, unsigned n) { strncpy(name, names[number(card)], n); return 0; }
        int nvmlDeviceGetTemperature(void *card, int of, unsigned *t) { *t = of == 0 ? 61 + number(card) : 0; return 0; }
        int nvmlDeviceGetClockInfo(void *card, int of, unsigned *mhz) { *mhz = of == 2 ? 7001 : 1410; return 0; }
        int nvmlDeviceGetPowerUsage(void *card, unsigned *mw) { return 3; }
        int LOAD(void *card, unsigned *rates) { rates[0] = 87; rates[1] = 20; return 0; }
    "#;

    fn stand_in(cards: u32, load: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("ganglion-nvml-{}-{cards}-{load}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (source, library) = (folder.join("nvml.c"), folder.join("libnvml.so"));
        std::fs::write(&source, STAND_IN).unwrap();
        let defined = [format!("-DCARDS={cards}"), format!("-DLOAD={load}")];
        let mut compiler = Command::new(std::env::var("CC").unwrap_or("cc".into()));
        compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).args(defined).arg(&source);
        assert!(compiler.status().expect("a C compiler, which this crate needs").success());
        library
    }

    #[test]
    fn an_absent_library_or_function_is_an_answer() {
        let nowhere = Nvml::open_from("/nowhere/libnvidia-ml.so.1".as_ref(), None).map(|_| ());
        assert_eq!(nowhere, Err(NvmlMissing::Library));
        let old = stand_in(1, "nvmlDeviceGetSomethingElse");
        let missing = Nvml::open_from(old.as_os_str(), None).map(|_| ());
        assert_eq!(missing, Err(NvmlMissing::Symbol("nvmlDeviceGetUtilizationRates")));
        std::fs::remove_dir_all(old.parent().unwrap()).unwrap();
    }

    #[test]
    fn the_card_is_found_by_name_and_its_figures_are_read() {
        let three = stand_in(3, "nvmlDeviceGetUtilizationRates");
        let open = |name| Nvml::open_from(three.as_os_str(), name);
        let figures = NvmlFigures {
            temperature_celsius: Some(62.0),
            clock_mhz: Some(1410.0),
            memory_clock_mhz: Some(7001.0),
            power_watts: None, // not supported by this card
            load: Some(0.87),
        };
        assert_eq!(open(Some("X2")).map(|card| card.read()), Ok(figures));
        assert_eq!(open(Some("X1")).map(|_| ()), Err(NvmlMissing::Ambiguous(2)));
        assert_eq!(open(Some("X3")).map(|_| ()), Err(NvmlMissing::NoCard));
        assert_eq!(open(None).map(|_| ()), Err(NvmlMissing::Ambiguous(3)));
        let one = stand_in(1, "nvmlDeviceGetUtilizationRates");
        let only = Nvml::open_from(one.as_os_str(), Some("X1 MIG 1g.5gb")).map(|card| card.read());
        assert_eq!(only.map(|read| read.temperature_celsius), Ok(Some(61.0)));
        for library in [three, one] {
            std::fs::remove_dir_all(library.parent().unwrap()).unwrap();
        }
    }
}
