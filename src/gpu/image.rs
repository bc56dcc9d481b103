//! The compiled kernels on a device: from a fatbin, from a cached cubin, or from PTX that the driver
//! compiles now. Knows no kernel by name.

#![allow(unsafe_code)] // calls of the driver; reasons at each place

use std::ffi::CString;
use std::fmt;
use std::path::PathBuf;

use cudarc::driver::sys::{CUfunction, CUfunction_attribute, CUmodule};

use super::cache::Kept;
use super::context::{Context, Gpu};
use super::driver::Call;
use super::error::{GpuError, code};
use super::probe::Found;
use super::{fatbin, link};
use crate::time::{Clock, MonotonicClock, Span};

/// Where the kernels may come from.
#[derive(Clone, Debug)]
pub struct ImageFiles {
    /// Text that every chip's driver can compile. Its first line names its sources.
    pub ptx: &'static str,
    /// Machine code for some chips, made from the same sources; none: straight to the next.
    pub fatbin: Option<PathBuf>,
    /// Folder for compiled code between runs; none: keeps nothing.
    pub cache: Option<PathBuf>,
}

/// Where they did come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The file of machine code that came with the program.
    Fatbin,
    /// What an earlier run compiled.
    Cache,
    /// Compiled now.
    Ptx,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Fatbin => "fatbin",
            Source::Cache => "cache",
            Source::Ptx => "ptx",
        })
    }
}

/// Kernels on a device. They stay there until the context goes.
pub struct Image {
    context: std::rc::Rc<Context>,
    module: CUmodule,
    source: Source,
    took: Span,
}

/// A kernel of an image.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    pub(super) raw: CUfunction,
    /// Number of the context that it belongs to.
    pub(super) context: u64,
}

/// What the compiler made of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelFacts {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of a thread that did not fit into registers.
    pub local_bytes: u32,
    /// Bytes of a block that its threads share.
    pub shared_bytes: u32,
    /// Most threads that a block may have.
    pub most_threads: u32,
}

impl Image {
    /// Loads the kernels from the first place that has them for this chip. Logs each place that failed.
    ///
    /// # Errors
    /// What the driver says of the PTX, the last place; of an earlier one if the context is lost.
    pub fn load(gpu: &Gpu, found: &Found, files: &ImageFiles) -> Result<Image, GpuError> {
        let began = MonotonicClock.now();
        let (source, module) = load(&gpu.context, found, files)?;
        gpu.context.modules.borrow_mut().push(module);
        let took = MonotonicClock.now().since(began);
        Ok(Image { context: gpu.context.clone(), module, source, took })
    }

    /// Where it came from.
    pub fn source(&self) -> Source {
        self.source
    }

    /// How long loading took.
    pub fn took(&self) -> Span {
        self.took
    }

    /// The kernel of this name.
    ///
    /// # Errors
    /// Not found (500) if there is none; what else the driver says.
    pub fn kernel(&self, name: &str) -> Result<Kernel, GpuError> {
        let Ok(text) = CString::new(name) else {
            return self.context.line.refuse(Call::ModuleFunction, code::INVALID_VALUE);
        };
        let mut raw: CUfunction = std::ptr::null_mut();
        self.context.line.call(Call::ModuleFunction, |d| {
            // SAFETY: writes one handle; the module lives as long as the context.
            unsafe { (d.module_function)(&mut raw, self.module, text.as_ptr()) }
        })?;
        Ok(Kernel { raw, context: self.context.number })
    }

    /// What the compiler made of the kernel of this name.
    ///
    /// # Errors
    /// As for `kernel`.
    pub fn facts(&self, name: &str) -> Result<KernelFacts, GpuError> {
        let kernel = self.kernel(name)?;
        let ask = |which: CUfunction_attribute| {
            let mut value = 0;
            self.context.line.call(Call::FunctionAttribute, |d| {
                // SAFETY: writes one number; a live kernel.
                unsafe { (d.function_attribute)(&mut value, which as i32, kernel.raw) }
            })?;
            Ok(u32::try_from(value).unwrap_or(0))
        };
        use CUfunction_attribute as A;
        Ok(KernelFacts {
            registers: ask(A::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            local_bytes: ask(A::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            shared_bytes: ask(A::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            most_threads: ask(A::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        })
    }
}

/// Fatbin, else the cache, else PTX.
fn load(context: &Context, found: &Found, files: &ImageFiles) -> Result<(Source, CUmodule), GpuError> {
    if let Some(path) = &files.fatbin {
        match fatbin::read(path, files.ptx) {
            Ok(bytes) => match fatbin::begin(&bytes, files.cache.as_deref()) {
                Err(mark) => log::warn!(
                    "{}: a process ended while it was loaded; the kernels are compiled instead (remove {} to try it again)",
                    path.display(),
                    mark.display()
                ),
                Ok(_mark) => match module(context, &bytes) {
                    Ok(module) => return Ok((Source::Fatbin, module)),
                    Err(error) if error.is_lost() => return Err(error),
                    Err(error) => log::warn!("{}: not for this GPU, or damaged: {error}", path.display()),
                },
            },
            Err(why) => log::warn!("{}: {why}; compiling the kernels instead", path.display()),
        }
    }
    let kept = files.cache.as_deref().map(|folder| Kept::new(folder, files.ptx, found));
    let whole = |kept: &Kept| kept.begin().and_then(|mark| Some((mark, kept.read()?)));
    if let Some((kept, (_mark, bytes))) = kept.as_ref().and_then(|kept| Some((kept, whole(kept)?))) {
        match module(context, &bytes) {
            Ok(module) => return Ok((Source::Cache, module)),
            Err(error) if error.is_lost() => return Err(error),
            Err(error) => kept.discard(&error),
        }
    }
    let bytes = link::compile(context, files.ptx)?;
    let module = module(context, &bytes)?;
    if let Some(kept) = kept {
        kept.write(&bytes);
    }
    Ok((Source::Ptx, module))
}

/// Machine code onto the device. The driver finds its end in its header: it must be whole, and not empty.
fn module(context: &Context, bytes: &[u8]) -> Result<CUmodule, GpuError> {
    let mut module: CUmodule = std::ptr::null_mut();
    context.line.call(Call::ModuleLoad, |d| {
        // SAFETY: writes one handle. The bytes are what a compiler of the driver's own made, now or in a file
        // that only root and our own user can write: whole by a digest and by their own tables (cache),
        // or by the length that their header states (fatbin).
        unsafe { (d.module_load)(&mut module, bytes.as_ptr().cast()) }
    })?;
    Ok(module)
}
