//! What the stand-in refuses, and which faults it can imitate.

use super::alone;
use super::raw::{Bench, cu, empty_brain, event, kernel, launch, module};
use crate::cuda::tables::BRAIN;
use cudarc::driver::sys;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn ranges_must_lie_in_allocated_memory() {
    let Some(_alone) = alone() else { return };
    let bench = Bench::new(4096);
    let (there, here) = (bench.device, bench.at(0));
    assert_eq!(cu!(cuMemcpyHtoDAsync_v2(there, here, 4096, bench.low)), 0);
    assert_eq!(cu!(cuMemcpyHtoDAsync_v2(there + 1, here, 4096, bench.low)), 1);
    assert_eq!(cu!(cuMemcpyHtoDAsync_v2(there, bench.at(1), 4096, bench.low)), 1);
    assert_eq!(cu!(cuMemcpyDtoHAsync_v2(here, there - 1, 16, bench.low)), 1);
    assert_eq!(cu!(cuMemcpyDtoDAsync_v2(there + 4090, there, 16, bench.low)), 1);
    assert_eq!(cu!(cuMemsetD8Async(there, 0, 4097, bench.low)), 1);
    assert_eq!(cu!(cuMemFree_v2(there + 256)), 1, "not the start of an allocation");
    assert_eq!(cu!(cuMemFree_v2(there)), 0);
    assert_eq!(cu!(cuMemsetD8Async(there, 0, 16, bench.low)), 1, "used after it was freed");
    assert_eq!(cu!(cuMemFree_v2(there)), 1, "freed twice");
    assert_eq!(cu!(cuCtxSynchronize()), 0, "none of this lost the context");
}

#[test]
fn contexts_and_handles_must_be_alive() {
    let Some(_alone) = alone() else { return };
    let mut count = 0;
    assert_eq!(cu!(cuDeviceGetCount(&mut count)), 3, "before cuInit");
    let bench = Bench::new(4096);
    let old = event();
    let bare = std::thread::spawn(|| cu!(cuCtxSynchronize())).join().expect("no panic");
    assert_eq!(bare, 201, "another thread has no context");
    assert_eq!(cu!(cuDevicePrimaryCtxReset_v2(0)), 0);
    assert_eq!(cu!(cuEventRecord(old, bench.low)), 709, "the current context is destroyed");
    let mut context = null_mut();
    assert_eq!(cu!(cuDevicePrimaryCtxRetain(&mut context, 0)) + cu!(cuCtxSetCurrent(context)), 0);
    assert_eq!(cu!(cuEventRecord(old, bench.low)), 400, "a stream of the previous context");
    assert_eq!(cu!(cuMemFree_v2(bench.device)), 1);
}

#[test]
fn a_bad_pointer_table_loses_the_context_until_a_reset() {
    let Some(alone) = alone() else { return };
    let bench = Bench::new(4096);
    let sense = kernel(module(), c"sense");
    // Fresh memory as a table: every byte is 0xff, so no address in it is valid.
    assert_eq!(launch(sense, 64, bench.device, bench.low), 0, "it succeeds; the error comes later");
    assert_eq!(cu!(cuStreamSynchronize(bench.low)), 700);
    assert_eq!(cu!(cuMemsetD8Async(bench.device, 0, 16, bench.low)), 700, "later calls get the same error");
    let mut address = 0;
    assert_eq!(cu!(cuMemAlloc_v2(&mut address, 16)), 700);
    assert_eq!(cu!(cuDevicePrimaryCtxReset_v2(0)) + cu!(cuDevicePrimaryCtxRelease_v2(0)), 0);
    assert!(alone.counts().is_clean());
    let again = Bench::new(4096);
    assert_eq!(cu!(cuMemsetD8Async(again.device, 0, 16, again.low)) + cu!(cuCtxSynchronize()), 0);
}

#[test]
fn kernel_access_out_of_bounds_is_an_error_not_a_crash() {
    let Some(_alone) = alone() else { return };
    for table in [vec![0_u64; BRAIN / 8], Vec::new()] {
        let mut bench = Bench::new(64 * 1024);
        let sense = kernel(module(), c"sense");
        // All pointers are null, or all point to the table itself, in which the kernel finds wild numbers.
        let bytes: Vec<u8> = table.iter().flat_map(|word| word.to_le_bytes()).collect();
        bench.page()[..bytes.len()].copy_from_slice(&bytes);
        if table.is_empty() {
            let own = bench.device.to_le_bytes().repeat(BRAIN / 8);
            bench.page()[..own.len()].copy_from_slice(&own);
        }
        assert_eq!(cu!(cuMemcpyHtoDAsync_v2(bench.device, bench.at(0), BRAIN, bench.low)), 0);
        assert_eq!(launch(sense, 64, bench.device, bench.low), 0);
        let code = cu!(cuStreamSynchronize(bench.low));
        assert!([700, 719].contains(&code), "{code}");
        assert_eq!(cu!(cuDevicePrimaryCtxReset_v2(0)), 0);
    }
}

#[test]
fn out_of_bounds_kernel_writes_are_detected() {
    let Some(_alone) = alone() else { return };
    let mut bench = Bench::new(64 * 1024);
    let sense = kernel(module(), c"sense");
    // Room for the whole answer, then for all but its last hundred bytes, which include the confidence.
    for (answer, code) in [(64 * 1024 - 768, 0), (64 * 1024 - 668, 719)] {
        let (table, _) = empty_brain(&mut bench, answer);
        assert_eq!(launch(sense, 64, table, bench.low), 0);
        assert_eq!(cu!(cuStreamSynchronize(bench.low)), code);
    }
}

#[test]
fn kernels_can_be_slow() {
    let Some(alone) = alone() else { return };
    let mut bench = Bench::new(64 * 1024);
    let (sense, done) = (kernel(module(), c"sense"), event());
    let (table, _) = empty_brain(&mut bench, 32 * 1024);
    // Stretches a few microseconds to more than any test takes.
    alone.order("slow=1000000000");
    assert_eq!(launch(sense, 64, table, bench.low) + cu!(cuEventRecord(done, bench.low)), 0);
    assert_eq!((cu!(cuEventQuery(done)), alone.counts().kernels), (600, 0));
    alone.order("slow=1,release");
    assert_eq!((cu!(cuEventSynchronize(done)), alone.counts().kernels), (0, 1));
}

#[test]
fn the_nth_call_fails_and_some_codes_lose_the_context() {
    let Some(alone) = alone() else { return };
    let bench = Bench::new(4096);
    let fill = || cu!(cuMemsetD8Async(bench.device, 0, 16, bench.low));
    alone.order("fail=cuMemsetD8Async:3:999");
    assert_eq!([fill(), fill(), fill(), fill()], [0, 0, 999, 0]);
    alone.order("fail=cuEventQuery:1:719");
    let event = event();
    assert_eq!([cu!(cuEventQuery(event)), cu!(cuEventQuery(event)), fill()], [719; 3]);
    assert_eq!(cu!(cuDevicePrimaryCtxReset_v2(0)), 0);
    let bench = Bench::new(4096);
    alone.order("fail=copy:2:700");
    let copy = || cu!(cuMemcpyHtoDAsync_v2(bench.device, bench.at(0), 16, bench.low));
    assert_eq!([copy(), cu!(cuCtxSynchronize()), copy(), cu!(cuCtxSynchronize())], [0, 0, 0, 700]);
}

#[test]
fn device_memory_is_limited() {
    let Some(alone) = alone() else { return };
    alone.order("memory=1M");
    let bench = Bench::new(512 * 1024);
    let (mut free, mut total, mut address) = (0, 0, 0);
    assert_eq!(cu!(cuMemGetInfo_v2(&mut free, &mut total)), 0);
    assert_eq!((free, total), (512 * 1024, 1024 * 1024));
    assert_eq!(cu!(cuMemAlloc_v2(&mut address, 512 * 1024 + 1)), 2);
    assert_eq!(cu!(cuMemAlloc_v2(&mut address, 512 * 1024)), 0);
    assert_eq!(cu!(cuMemFree_v2(bench.device)), 0);
    assert_eq!((alone.counts().device_ever, alone.counts().device_now), (2, 1));
}

#[test]
fn a_call_blocks_until_it_is_released() {
    let Some(alone) = alone() else { return };
    let bench = Bench::new(4096);
    let mut context = null_mut();
    assert_eq!(cu!(cuCtxGetCurrent(&mut context)), 0);
    let (context, stream, host) = (context as usize, bench.low as usize, bench.at(0) as usize);
    let back = AtomicBool::new(false);
    alone.order("block=cuMemcpyHtoDAsync");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(cu!(cuCtxSetCurrent(context as sys::CUcontext)), 0);
            let to = bench.device;
            assert_eq!(cu!(cuMemcpyHtoDAsync_v2(to, host as *const _, 16, stream as sys::CUstream)), 0);
            back.store(true, Ordering::Release);
        });
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(cu!(cuStreamQuery(bench.low)), 0, "other threads continue");
        assert!(!back.load(Ordering::Acquire));
        alone.order("release");
    });
    assert!(back.load(Ordering::Acquire));
    assert_eq!(cu!(cuStreamSynchronize(bench.low)), 0);
    assert_eq!(alone.counts().copies_in, 1);
}

#[test]
fn unusable_drivers_fail_at_initialisation() {
    let Some(alone) = alone() else { return };
    for (order, code) in [("init=34", 34), ("init=803", 803), ("devices=0", 100)] {
        alone.order(order);
        assert_eq!(cu!(cuInit(0)), code);
        alone.order("reset");
    }
    alone.order("chip=6.1");
    assert_eq!(cu!(cuInit(0)), 0);
    let [mut major, mut minor] = [0; 2];
    let (of_major, of_minor) = (
        sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
        sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
    );
    assert_eq!(cu!(cuDeviceGetAttribute(&mut major, of_major, 0)), 0);
    assert_eq!(cu!(cuDeviceGetAttribute(&mut minor, of_minor, 0)), 0);
    assert_eq!((major, minor), (6, 1));
}
