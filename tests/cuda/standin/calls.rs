//! Copies, kernels and images work on the stand-in as on a real driver, and nothing is left behind.

use super::alone;
use super::raw::{Bench, capture, cu, empty_brain, event, image, kernel, launch, load, module, name_of};
use crate::cuda::tables::{ANSWER, BRAIN};
use cudarc::driver::sys;
use std::ptr::null_mut;

#[test]
fn bytes_round_trip_and_fresh_memory_is_nan() {
    let Some(alone) = alone() else { return };
    let mut bench = Bench::new(4096);
    assert_eq!(cu!(cuMemcpyDtoHAsync_v2(bench.at(0), bench.device, 1024, bench.low)), 0);
    assert_eq!(cu!(cuStreamSynchronize(bench.low)), 0);
    assert!(bench.page()[..1024].iter().all(|byte| *byte == 0xff), "a NaN as f32 and as f64");
    for (i, byte) in bench.page().iter_mut().enumerate() {
        *byte = (i % 251) as u8;
    }
    let (there, back) = (bench.device, bench.at(2048));
    assert_eq!(cu!(cuMemcpyHtoDAsync_v2(there, bench.at(0), 1024, bench.low)), 0);
    assert_eq!(cu!(cuMemcpyDtoDAsync_v2(there + 1024, there, 1024, bench.low)), 0);
    assert_eq!(cu!(cuMemsetD8Async(there + 1030, 7, 2, bench.low)), 0);
    assert_eq!(cu!(cuMemcpyDtoHAsync_v2(back, there + 1024, 1024, bench.low)), 0);
    assert_eq!(cu!(cuStreamSynchronize(bench.low)), 0);
    let mut expected = bench.page()[..1024].to_vec();
    expected[6..8].fill(7);
    assert_eq!(bench.page()[2048..3072], expected);
    let counts = alone.counts();
    assert_eq!((counts.copies_in, counts.copies_out, counts.copies_within, counts.fills), (1, 2, 1, 1));
}

#[test]
fn our_kernels_run() {
    let Some(alone) = alone() else { return };
    let mut bench = Bench::new(64 * 1024);
    let (table, answer) = empty_brain(&mut bench, 32 * 1024);
    let sense = kernel(module(), c"sense");
    assert_eq!(launch(sense, 64, table, bench.low), 0);
    assert_eq!(cu!(cuMemcpyDtoHAsync_v2(bench.at(4096), answer, ANSWER, bench.low)), 0);
    assert_eq!(cu!(cuStreamSynchronize(bench.low)), 0);
    // The confidence follows cycle, prediction, weight, cosine, scores and motors.
    let at = 4096 + 8 + (64 + 3 + 5) * 8 + 2 * 16 * 4;
    let confidence = f32::from_le_bytes(bench.page()[at..at + 4].try_into().expect("four"));
    // Without a sensor the mean error is 0 / 0, and a clamp replaces the NaN with a bound.
    assert!(confidence.is_finite() && (0.0..=1.0).contains(&confidence), "{confidence}");
    assert_eq!((alone.counts().launches, alone.counts().kernels), (1, 1));
}

#[test]
fn freed_objects_are_gone() {
    let Some(alone) = alone() else { return };
    let bench = Bench::new(4096);
    let module = module();
    let event = event();
    let ready = capture(bench.low, || {
        assert_eq!(cu!(cuMemsetD8Async(bench.device, 1, 16, bench.low)), 0);
    });
    assert_eq!(cu!(cuGraphLaunch(ready, bench.low)), 0);
    assert!(!alone.counts().is_clean());
    assert_eq!(cu!(cuGraphExecDestroy(ready)), 0);
    assert_eq!(cu!(cuEventDestroy_v2(event)), 0);
    assert_eq!(cu!(cuModuleUnload(module)), 0);
    assert_eq!(cu!(cuMemFreeHost(bench.at(0))), 0);
    assert_eq!(cu!(cuMemFree_v2(bench.device)), 0);
    assert_eq!(cu!(cuStreamDestroy_v2(bench.low)) + cu!(cuStreamDestroy_v2(bench.high)), 0);
    assert_eq!(alone.counts().retained, 1);
    assert_eq!(cu!(cuDevicePrimaryCtxRelease_v2(0)), 0);
    assert!(alone.counts().is_clean(), "{:?}", alone.counts());
    assert_eq!(alone.counts().fills, 1, "the queued fill was executed before the memory was freed");
}

#[test]
fn only_images_for_the_oldest_driver_are_accepted() {
    let Some(alone) = alone() else { return };
    let _bench = Bench::new(256);
    let text = image();
    let changed = |from: &str, to: &str| {
        String::from_utf8(text.clone()).expect("text").replacen(from, to, 1).into_bytes()
    };
    let load = |image: &[u8]| load(image, &mut null_mut());
    assert_eq!(load(&text), 0);
    assert_eq!(load(&changed(".version 8.0", ".version 8.1")), 222);
    assert_eq!(load(&changed(".target sm_87", ".target sm_90")), 209);
    assert_eq!(load(b"nonsense\0"), 218);
    let mut zero = text.clone();
    zero[100_000] = 0;
    assert_eq!(load(&zero), 218, "a zero byte ends the text");
    assert_eq!(load(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\0"), 209, "an ELF image is for another chip");
    alone.order("chip=8.9");
    assert_eq!(load(&text), 0, "PTX runs on any later chip");
}

#[test]
fn kernels_must_exist_and_report_their_attributes() {
    let Some(_alone) = alone() else { return };
    let bench = Bench::new(BRAIN);
    let (module, mut none) = (module(), null_mut());
    assert_eq!(cu!(cuModuleGetFunction(&mut none, module, c"no_such_kernel".as_ptr())), 500);
    let sense = kernel(module, c"sense");
    let mut most = 0;
    let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
    assert_eq!((cu!(cuFuncGetAttribute(&mut most, attribute, sense)), most), (0, 64));
    assert_eq!(launch(sense, 96, bench.device, bench.low), 1, "above its launch bound");
    assert_eq!(launch(sense, 40, bench.device, bench.low), 1, "not whole warps");
    assert_eq!(launch(sense, 64, bench.device, null_mut()), 400, "there is no default stream");
}

#[test]
fn error_codes_have_the_drivers_names() {
    let Some(_alone) = alone() else { return };
    assert_eq!(name_of(sys::CUresult::CUDA_ERROR_ILLEGAL_ADDRESS), "CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_eq!(
        name_of(sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_ISOLATION),
        "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"
    );
}
