//! The driver's library: found and opened by cudarc; all its functions are looked up once, before the first
//! call.
//!
//! Every function is called through its address with a plain `i32` for a result, and not through cudarc's
//! wrappers: their result is a closed enum, so a code newer than the bindings would be undefined
//! behaviour, and a missing function would panic at its first call. cudarc provides the library search and
//! the handle types. This file itself only calls the functions that name and describe an error.

#![allow(unsafe_code)] // functions of a C library; reasons at each place

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUmodule, CUstream,
};

/// Code of success.
pub(super) const SUCCESS: i32 = 0;

/// The list of all functions that are called: name here, field of [`Driver`], symbol in the library,
/// arguments.
macro_rules! calls {
    ($($call:ident $field:ident $symbol:literal ($($argument:ty),*);)*) => {
        /// A function of the driver.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Call {
            $(#[doc = concat!("`", $symbol, "`")] $call,)*
        }

        impl Call {
            /// All of them.
            pub const ALL: &[Call] = &[$(Call::$call),*];

            /// Its name in the driver's library.
            pub fn name(self) -> &'static str {
                match self {
                    $(Call::$call => $symbol,)*
                }
            }
        }

        /// The addresses of all these functions.
        pub(super) struct Driver {
            // SAFETY: each call states its own reason; this is only the type.
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Driver {
            /// Looks up every function; the error is the name of the first missing one.
            fn resolve(library: &Library) -> Result<Driver, &'static str> {
                Ok(Driver {
                    $($field: {
                        // SAFETY: the type is that of the function of this name in cuda.h of CUDA 12.6, enums
                        // being 32-bit integers as in C. A name carries its signature's version, which never
                        // changes. CUDA 12.0, the oldest version supported, has all of these names.
                        unsafe { library.function(concat!($symbol, "\0").as_bytes()) }.ok_or($symbol)?
                    },)*
                })
            }
        }
    };
}

calls! {
    Init init "cuInit" (c_uint);
    DriverVersion driver_version "cuDriverGetVersion" (*mut c_int);
    ErrorName error_name "cuGetErrorName" (c_int, *mut *const c_char);
    ErrorText error_text "cuGetErrorString" (c_int, *mut *const c_char);
    DeviceCount device_count "cuDeviceGetCount" (*mut c_int);
    DeviceGet device_get "cuDeviceGet" (*mut CUdevice, c_int);
    DeviceName device_name "cuDeviceGetName" (*mut c_char, c_int, CUdevice);
    DeviceAttribute device_attribute "cuDeviceGetAttribute" (*mut c_int, c_int, CUdevice);
    DeviceMemory device_memory "cuDeviceTotalMem_v2" (*mut usize, CUdevice);
    ContextCreate context_create "cuCtxCreate_v2" (*mut CUcontext, c_uint, CUdevice);
    ContextDestroy context_destroy "cuCtxDestroy_v2" (CUcontext);
    ContextSet context_set "cuCtxSetCurrent" (CUcontext);
    PriorityRange priority_range "cuCtxGetStreamPriorityRange" (*mut c_int, *mut c_int);
    MemoryInfo memory_info "cuMemGetInfo_v2" (*mut usize, *mut usize);
    Allocate allocate "cuMemAlloc_v2" (*mut CUdeviceptr, usize);
    Free free "cuMemFree_v2" (CUdeviceptr);
    HostAllocate host_allocate "cuMemHostAlloc" (*mut *mut c_void, usize, c_uint);
    HostRegister host_register "cuMemHostRegister_v2" (*mut c_void, usize, c_uint);
    HostUnregister host_unregister "cuMemHostUnregister" (*mut c_void);
    HostAddress host_address "cuMemHostGetDevicePointer_v2" (*mut CUdeviceptr, *mut c_void, c_uint);
    HostFree host_free "cuMemFreeHost" (*mut c_void);
    CopyIn copy_in "cuMemcpyHtoDAsync_v2" (CUdeviceptr, *const c_void, usize, CUstream);
    CopyOut copy_out "cuMemcpyDtoHAsync_v2" (*mut c_void, CUdeviceptr, usize, CUstream);
    CopyWithin copy_within "cuMemcpyDtoDAsync_v2" (CUdeviceptr, CUdeviceptr, usize, CUstream);
    Fill fill "cuMemsetD8Async" (CUdeviceptr, u8, usize, CUstream);
    StreamCreate stream_create "cuStreamCreateWithPriority" (*mut CUstream, c_uint, c_int);
    StreamDestroy stream_destroy "cuStreamDestroy_v2" (CUstream);
    StreamQuery stream_query "cuStreamQuery" (CUstream);
    StreamWait stream_wait "cuStreamWaitEvent" (CUstream, CUevent, c_uint);
    CaptureBegin capture_begin "cuStreamBeginCapture_v2" (CUstream, c_int);
    CaptureEnd capture_end "cuStreamEndCapture" (CUstream, *mut CUgraph);
    EventCreate event_create "cuEventCreate" (*mut CUevent, c_uint);
    EventDestroy event_destroy "cuEventDestroy_v2" (CUevent);
    EventRecord event_record "cuEventRecord" (CUevent, CUstream);
    EventRecordExternal event_record_external "cuEventRecordWithFlags" (CUevent, CUstream, c_uint);
    EventQuery event_query "cuEventQuery" (CUevent);
    EventElapsed event_elapsed "cuEventElapsedTime" (*mut f32, CUevent, CUevent);
    ModuleLoad module_load "cuModuleLoadDataEx"
        (*mut CUmodule, *const c_void, c_uint, *mut c_int, *mut *mut c_void);
    ModuleUnload module_unload "cuModuleUnload" (CUmodule);
    ModuleFunction module_function "cuModuleGetFunction" (*mut CUfunction, CUmodule, *const c_char);
    FunctionAttribute function_attribute "cuFuncGetAttribute" (*mut c_int, c_int, CUfunction);
    Launch launch "cuLaunchKernel"
        (CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void, *mut *mut c_void);
    GraphInstantiate graph_instantiate "cuGraphInstantiateWithFlags" (*mut CUgraphExec, CUgraph, c_ulonglong);
    GraphDestroy graph_destroy "cuGraphDestroy" (CUgraph);
    GraphExecDestroy graph_exec_destroy "cuGraphExecDestroy" (CUgraphExec);
    GraphUpload graph_upload "cuGraphUpload" (CUgraphExec, CUstream);
    Replay replay "cuGraphLaunch" (CUgraphExec, CUstream);
}

/// The library as cudarc opened it.
struct Library;

impl Library {
    /// `None` if there is no library; cudarc would panic if it were asked for a missing one.
    fn open() -> Option<Library> {
        // SAFETY: opening a library runs its initialisers; the driver's are meant to be run this way.
        unsafe { sys::is_culib_present() }.then_some(Library)
    }

    /// The address of the function called `name`, which ends in NUL; `None` if the library does not have it.
    ///
    /// # Safety
    /// `F` is the type of a pointer to that function.
    unsafe fn function<F: Copy>(&self, name: &[u8]) -> Option<F> {
        // SAFETY: `Library` exists only where `is_culib_present` has found one, so `culib` finds it too.
        let library = unsafe { sys::culib() };
        // SAFETY: an `Option` of a function pointer has the pointer's size, and null for `None`. The library
        // is never closed, so the address stays valid.
        unsafe { library.get::<Option<F>>(name) }.ok().and_then(|symbol| *symbol)
    }
}

/// Why the driver's functions are not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// No library.
    Library,
    /// A library without this function.
    Symbol(&'static str),
}

/// Set only on success: a missing library may have been installed by the next call.
static DRIVER: OnceLock<Driver> = OnceLock::new();

/// Opens the library the first time; afterwards returns the same result.
pub(super) fn open() -> Result<&'static Driver, Missing> {
    if let Some(driver) = DRIVER.get() {
        return Ok(driver);
    }
    let library = Library::open().ok_or(Missing::Library)?;
    let driver = Driver::resolve(&library).map_err(Missing::Symbol)?;
    Ok(DRIVER.get_or_init(|| driver))
}

/// The driver, if it has been opened.
pub(super) fn opened() -> Option<&'static Driver> {
    DRIVER.get()
}

impl Driver {
    /// The driver's name and description of a code; `None` for a code that it does not know.
    pub(super) fn name_and_text(&self, code: i32) -> Option<(&'static str, &'static str)> {
        // SAFETY: this is only the type, as above.
        let ask = |function: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int| {
            let mut text: *const c_char = std::ptr::null();
            // SAFETY: the function takes any code and writes one pointer, null for an unknown code.
            let answer = unsafe { function(code, &mut text) };
            if answer != SUCCESS || text.is_null() {
                return None;
            }
            // SAFETY: not null, so it points to a constant string in the library, which is never closed.
            unsafe { CStr::from_ptr(text) }.to_str().ok()
        };
        Some((ask(self.error_name)?, ask(self.error_text)?))
    }
}
