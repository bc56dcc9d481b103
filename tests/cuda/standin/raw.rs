//! The driver's raw functions, for tests of the stand-in itself: numbers in, codes out.

use crate::cuda::tables::{BRAIN, CYCLE, REPORT, SENSES};
use cudarc::driver::sys;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

/// Calls a function of the driver and returns its code.
macro_rules! cu {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the stand-in checks every handle and address; it writes only to the caller's variables.
        let code = unsafe { cudarc::driver::sys::$name($($argument),*) };
        code as i32
    }};
}
pub(super) use cu;

/// A context that is current in this thread, with a stream of each priority, and `bytes` of device memory and
/// of page-locked host memory.
pub struct Bench {
    pub device: u64,
    pub host: *mut u8,
    pub bytes: usize,
    pub low: sys::CUstream,
    pub high: sys::CUstream,
}

impl Bench {
    pub fn new(bytes: usize) -> Bench {
        assert_eq!(cu!(cuInit(0)), 0);
        let mut context = null_mut();
        assert_eq!(cu!(cuDevicePrimaryCtxRetain(&mut context, 0)), 0);
        assert_eq!(cu!(cuCtxSetCurrent(context)), 0);
        let (mut device, mut host): (u64, *mut c_void) = (0, null_mut());
        assert_eq!(cu!(cuMemAlloc_v2(&mut device, bytes)), 0);
        assert_eq!(cu!(cuMemHostAlloc(&mut host, bytes, 3)), 0);
        let (low, high) = (stream(0), stream(-5));
        Bench { device, host: host.cast(), bytes, low, high }
    }

    /// The page-locked memory. No pending copy may write there.
    pub fn page(&mut self) -> &mut [u8] {
        // SAFETY: that many bytes, valid as long as the context; the caller has waited for copies.
        unsafe { std::slice::from_raw_parts_mut(self.host, self.bytes) }
    }

    /// Host address of a byte of the page-locked memory.
    pub fn at(&self, byte: usize) -> *mut c_void {
        self.host.wrapping_add(byte).cast()
    }
}

pub fn stream(priority: i32) -> sys::CUstream {
    let mut stream = null_mut();
    assert_eq!(cu!(cuStreamCreateWithPriority(&mut stream, 1, priority)), 0);
    stream
}

pub fn event() -> sys::CUevent {
    let mut event = null_mut();
    assert_eq!(cu!(cuEventCreate(&mut event, 0)), 0);
    event
}

/// The image in the repository, with the zero byte that a driver needs.
pub fn image() -> Vec<u8> {
    let mut text = std::fs::read("kernels/ganglion.ptx").expect("the image");
    text.push(0);
    text
}

pub fn module() -> sys::CUmodule {
    let mut module = null_mut();
    assert_eq!(load(&image(), &mut module), 0);
    module
}

/// Loads an image without options and returns the code.
pub fn load(image: &[u8], module: &mut sys::CUmodule) -> i32 {
    cu!(cuModuleLoadDataEx(module, image.as_ptr().cast(), 0, null_mut(), null_mut()))
}

pub fn kernel(module: sys::CUmodule, name: &std::ffi::CStr) -> sys::CUfunction {
    let mut kernel = null_mut();
    assert_eq!(cu!(cuModuleGetFunction(&mut kernel, module, name.as_ptr())), 0);
    kernel
}

/// Launches one block with a table and two words, which are the arguments of all our kernels.
pub fn launch(kernel: sys::CUfunction, block: u32, mut table: u64, stream: sys::CUstream) -> i32 {
    let mut words = [0_u32; 2];
    let mut arguments: [*mut c_void; 2] = [(&raw mut table).cast(), words.as_mut_ptr().cast()];
    cu!(cuLaunchKernel(kernel, 1, 1, 1, block, 1, 1, 0, stream, arguments.as_mut_ptr(), null_mut()))
}

/// A table of one brain in which everything points to zeros: no sensor, no cell, nothing learned. Returns its
/// address, and that of the answer, `answer` bytes into the memory.
pub fn empty_brain(bench: &mut Bench, answer: usize) -> (u64, u64) {
    let (zeros, size) = (bench.device + 4096, CYCLE.max(SENSES));
    assert!(4096 + size + REPORT <= bench.bytes);
    let report = zeros + size as u64;
    let answer = bench.device + answer as u64;
    let mut table: Vec<u8> = zeros.to_le_bytes().repeat(BRAIN / 8);
    table[24..32].copy_from_slice(&answer.to_le_bytes());
    table[32..40].copy_from_slice(&report.to_le_bytes());
    bench.page()[..BRAIN].copy_from_slice(&table);
    assert_eq!(cu!(cuMemsetD8Async(bench.device, 0, bench.bytes, bench.low)), 0);
    assert_eq!(cu!(cuMemcpyHtoDAsync_v2(bench.device, bench.at(0), BRAIN, bench.low)), 0);
    (bench.device, answer)
}

/// Captures what `body` issues on the stream; returns the instantiated graph.
pub fn capture(stream: sys::CUstream, body: impl FnOnce()) -> sys::CUgraphExec {
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    assert_eq!(cu!(cuStreamBeginCapture_v2(stream, mode)), 0);
    body();
    let (mut graph, mut ready) = (null_mut(), null_mut());
    assert_eq!(cu!(cuStreamEndCapture(stream, &mut graph)), 0);
    assert_eq!(cu!(cuGraphInstantiateWithFlags(&mut ready, graph, 0)), 0);
    assert_eq!(cu!(cuGraphDestroy(graph)), 0);
    assert_eq!(cu!(cuGraphUpload(ready, stream)), 0);
    ready
}

/// The driver's own name for a code.
pub fn name_of(code: sys::CUresult) -> String {
    let mut name = null();
    assert_eq!(cu!(cuGetErrorName(code, &mut name)), 0);
    // SAFETY: a constant of the library that ends in a zero byte.
    unsafe { std::ffi::CStr::from_ptr(name) }.to_string_lossy().into_owned()
}
