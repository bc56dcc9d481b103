//! The kernels on a device: machine code from a fatbin, or PTX that the driver compiles. The driver caches
//! what it has compiled. No kernel is named here.

#![allow(unsafe_code)] // calls to the driver; reasons at each place

use std::ffi::{CString, c_void};
use std::fmt;
use std::path::PathBuf;

use cudarc::driver::sys::{CUfunction, CUfunction_attribute, CUjit_option, CUmodule};

use super::context::{Context, Gpu};
use super::driver::Call;
use super::error::{GpuError, code};
use super::fatbin;
use crate::base::time::{Clock, MonotonicClock, Span};

/// Size of the buffer for the messages of the driver's compiler; what does not fit is cut off.
const LOG_BYTES: usize = 16 << 10;

/// Where the kernels may come from.
#[derive(Clone, Debug)]
pub struct ImageFiles {
    /// Text that the driver can compile for every supported chip. Its first line names its sources.
    pub ptx: &'static str,
    /// File of machine code for some chips, built from the same sources; `None`: only the PTX.
    pub fatbin: Option<PathBuf>,
    /// Folder for the mark that a fatbin is being loaded; `None`: no mark.
    pub marks: Option<PathBuf>,
}

/// Where the kernels came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The file of machine code that came with the program.
    Fatbin,
    /// Compiled by the driver, now or in an earlier run.
    Ptx,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Fatbin => "fatbin",
            Source::Ptx => "ptx",
        })
    }
}

/// Kernels on a device. They stay there until the context is destroyed.
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

/// What the compiler reports about a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelFacts {
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of local memory per thread: what did not fit into registers.
    pub local_bytes: u32,
    /// Bytes of shared memory per block.
    pub shared_bytes: u32,
    /// Maximum number of threads per block.
    pub most_threads: u32,
}

impl Image {
    /// Loads the kernels from the fatbin, or else from the PTX. Logs why the fatbin was not loaded.
    ///
    /// # Errors
    /// The driver's error for the PTX; its error for the fatbin only if the context is lost.
    pub fn load(gpu: &Gpu, files: &ImageFiles) -> Result<Image, GpuError> {
        let began = MonotonicClock.now();
        let (source, module) = load(&gpu.context, files)?;
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
    /// Not found (500) if there is none; any other error of the driver.
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

    /// What the compiler reports about the kernel of this name.
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

/// Fatbin, else PTX.
fn load(context: &Context, files: &ImageFiles) -> Result<(Source, CUmodule), GpuError> {
    if let Some(path) = &files.fatbin {
        match fatbin::read(path, files.ptx, files.marks.as_deref()) {
            Ok((bytes, _mark)) => match module(context, &bytes) {
                Ok(module) => return Ok((Source::Fatbin, module)),
                Err(error) if error.is_lost() => return Err(error),
                Err(error) => log::warn!("{}: not for this GPU, or damaged: {error}", path.display()),
            },
            Err(why) => log::warn!("{}: {why}; the driver compiles the kernels instead", path.display()),
        }
    }
    // A zero byte would end the text early for the driver.
    let Ok(text) = CString::new(files.ptx) else {
        return context.line.refuse(Call::ModuleLoad, code::INVALID_PTX);
    };
    let module = module(context, text.as_bytes_with_nul())?;
    Ok((Source::Ptx, module))
}

/// Loads a whole fatbin, or PTX that ends in a zero byte: the driver gets no length. Compiling PTX takes a
/// fraction of a second on a desktop, a second or two on a Jetson. Logs the messages of the driver's
/// compiler.
fn module(context: &Context, bytes: &[u8]) -> Result<CUmodule, GpuError> {
    let mut said = vec![0_u8; LOG_BYTES];
    let mut options = [
        CUjit_option::CU_JIT_ERROR_LOG_BUFFER as i32,
        CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES as i32,
    ];
    // The driver takes every value as a pointer, so the size is cast to one.
    let mut values: [*mut c_void; 2] =
        [said.as_mut_ptr().cast(), std::ptr::without_provenance_mut(LOG_BYTES)];
    let mut module: CUmodule = std::ptr::null_mut();
    let result = context.line.call(Call::ModuleLoad, |d| {
        // SAFETY: writes one handle; two options with two values and the buffer outlive the call. The bytes
        // are text that ends in a zero byte, or a file that has the length stated in its header and that only
        // root and our own user can write.
        unsafe {
            (d.module_load)(&mut module, bytes.as_ptr().cast(), 2, options.as_mut_ptr(), values.as_mut_ptr())
        }
    });
    if let Err(error) = &result {
        let length = said.iter().position(|byte| *byte == 0).unwrap_or(LOG_BYTES);
        let said = String::from_utf8_lossy(&said[..length]);
        log::error!("the driver failed to load the kernels: {error}: {}", said.trim());
    }
    result.map(|()| module)
}
