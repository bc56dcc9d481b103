//! The order in which the stand-in executes its work: streams, events, captured graphs; and what may not be
//! captured.

use super::alone;
use super::raw::{Bench, capture, cu, event, stream};
use cudarc::driver::sys;
use std::ptr::null_mut;

const THREAD_LOCAL: sys::CUstreamCaptureMode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;

#[test]
fn calls_are_asynchronous_and_events_mark_completion() {
    let Some(alone) = alone() else { return };
    let bench = Bench::new(4096);
    let (before, after) = (event(), event());
    assert_eq!(cu!(cuEventQuery(before)), 0, "never recorded: nothing to wait for");
    alone.order("stall=0");
    assert_eq!(cu!(cuEventRecord(before, bench.low)), 0);
    assert_eq!(cu!(cuMemsetD8Async(bench.device, 5, 4096, bench.low)), 0);
    assert_eq!(cu!(cuEventRecord(after, bench.low)), 0);
    assert_eq!(
        [cu!(cuEventQuery(before)), cu!(cuEventQuery(after)), cu!(cuStreamQuery(bench.low))],
        [600; 3]
    );
    let mut took = -1.0;
    assert_eq!(cu!(cuEventElapsedTime(&mut took, before, after)), 600);
    assert_eq!(alone.counts().fills, 0);
    alone.order("release");
    assert_eq!(cu!(cuEventSynchronize(after)), 0);
    assert_eq!([cu!(cuEventQuery(before)), cu!(cuEventQuery(after)), cu!(cuStreamQuery(bench.low))], [0; 3]);
    assert_eq!(cu!(cuEventElapsedTime(&mut took, before, after)), 0);
    assert!(took >= 0.0 && alone.counts().fills == 1);
}

/// Queues a write of the same bytes on each stream while the device is paused, then releases it. Returns the
/// value that remains. If `parted`, the second stream waits for the first.
fn last_writer(alone: &super::Alone, bench: &mut Bench, streams: [sys::CUstream; 2], parted: bool) -> u8 {
    let first_done = event();
    alone.order("stall=0");
    for (i, stream) in streams.into_iter().enumerate() {
        if parted && i == 1 {
            assert_eq!(cu!(cuStreamWaitEvent(stream, first_done, 0)), 0);
        }
        assert_eq!(cu!(cuMemsetD8Async(bench.device, i as u8, 16, stream)), 0);
        if i == 0 {
            assert_eq!(cu!(cuEventRecord(first_done, stream)), 0);
        }
    }
    alone.order("release");
    assert_eq!(cu!(cuCtxSynchronize()), 0);
    assert_eq!(cu!(cuMemcpyDtoHAsync_v2(bench.at(0), bench.device, 16, bench.low)), 0);
    assert_eq!(cu!(cuStreamSynchronize(bench.low)), 0);
    bench.page()[0]
}

#[test]
fn priority_orders_streams_unless_an_event_overrides_it() {
    let Some(alone) = alone() else { return };
    let mut bench = Bench::new(4096);
    let (low, high, other) = (bench.low, bench.high, stream(0));
    assert_eq!(last_writer(&alone, &mut bench, [low, high], false), 0, "the high-priority one came first");
    assert_eq!(last_writer(&alone, &mut bench, [low, high], true), 1, "it waited");
    assert_eq!(last_writer(&alone, &mut bench, [low, other], false), 1, "the older one came first");
    alone.order("order=backwards");
    assert_eq!(last_writer(&alone, &mut bench, [low, other], false), 0, "a missing event has an effect");
    assert_eq!(last_writer(&alone, &mut bench, [low, other], true), 1);
}

/// Captures a fork and its join: the first stream fills and forks to the second, both write, the first waits
/// for the second and copies.
fn forked(bench: &Bench, done: sys::CUevent) -> sys::CUgraphExec {
    let (fork, join) = (event(), event());
    let (one, two) = (bench.low, bench.high);
    capture(one, || {
        assert_eq!(cu!(cuMemsetD8Async(bench.device, 1, 64, one)), 0);
        assert_eq!(cu!(cuEventRecord(fork, one)), 0);
        assert_eq!(cu!(cuStreamWaitEvent(two, fork, 0)), 0);
        assert_eq!(cu!(cuMemsetD8Async(bench.device, 2, 16, two)), 0);
        assert_eq!(cu!(cuMemsetD8Async(bench.device + 32, 3, 16, one)), 0);
        assert_eq!(cu!(cuEventRecord(join, two)), 0);
        assert_eq!(cu!(cuStreamWaitEvent(one, join, 0)), 0);
        assert_eq!(cu!(cuMemcpyDtoHAsync_v2(bench.at(0), bench.device, 64, one)), 0);
        assert_eq!(cu!(cuEventRecordWithFlags(done, one, 1)), 0);
    })
}

#[test]
fn captured_forks_are_replayed_in_either_order() {
    let Some(alone) = alone() else { return };
    for order in ["order=forwards", "order=backwards", "order=forwards,events=late"] {
        alone.order(order);
        let mut bench = Bench::new(4096);
        let done = event();
        let ready = forked(&bench, done);
        let before = alone.counts();
        assert_eq!(cu!(cuStreamSynchronize(bench.low)), 0, "a capture executes nothing");
        for _ in 0..2 {
            bench.page().fill(9);
            assert_eq!(cu!(cuGraphLaunch(ready, bench.low)), 0);
            assert_eq!(cu!(cuStreamSynchronize(bench.low)) + cu!(cuEventQuery(done)), 0);
            let seen = [0, 15, 16, 31, 32, 47, 48, 63, 64].map(|at| bench.page()[at]);
            assert_eq!(seen, [2, 2, 1, 1, 3, 3, 1, 1, 9]);
        }
        let counts = alone.counts();
        assert_eq!((counts.replays - before.replays, counts.fills - before.fills), (2, 6));
    }
}

#[test]
fn each_replay_records_the_graphs_events_again() {
    let Some(alone) = alone() else { return };
    let bench = Bench::new(4096);
    let done = event();
    let ready = forked(&bench, done);
    assert_eq!(cu!(cuGraphLaunch(ready, bench.low)) + cu!(cuEventSynchronize(done)), 0);
    alone.order("stall=0");
    assert_eq!(cu!(cuGraphLaunch(ready, bench.low)), 0);
    assert_eq!(cu!(cuEventQuery(done)), 600, "the newest replay is not done");
    alone.order("release,events=late");
    assert_eq!(cu!(cuStreamSynchronize(bench.low)), 0);
    alone.order("stall=0");
    assert_eq!(cu!(cuGraphLaunch(ready, bench.low)), 0);
    assert_eq!(cu!(cuEventQuery(done)), 0, "the event still shows the previous replay");
    alone.order("release");
    assert_eq!(cu!(cuStreamSynchronize(bench.low)), 0);
}

/// The return code of a call during a capture, and that of ending the capture.
fn during_capture(bench: &Bench, call: impl FnOnce() -> i32) -> (i32, i32) {
    assert_eq!(cu!(cuStreamBeginCapture_v2(bench.low, THREAD_LOCAL)), 0);
    assert_eq!(cu!(cuMemsetD8Async(bench.device, 1, 16, bench.low)), 0);
    let code = call();
    let mut graph = null_mut();
    (code, cu!(cuStreamEndCapture(bench.low, &mut graph)))
}

#[test]
fn forbidden_calls_invalidate_the_capture() {
    let Some(alone) = alone() else { return };
    let bench = Bench::new(4096);
    let (outside, inside, mut address) = (event(), event(), 0);
    assert_eq!(cu!(cuEventRecord(outside, bench.high)), 0);
    assert_eq!(during_capture(&bench, || cu!(cuMemAlloc_v2(&mut address, 64))), (900, 901));
    assert_eq!(during_capture(&bench, || cu!(cuStreamSynchronize(bench.low))), (900, 901));
    assert_eq!(during_capture(&bench, || cu!(cuStreamQuery(bench.low))), (900, 901));
    assert_eq!(during_capture(&bench, || cu!(cuEventQuery(outside))), (900, 901));
    assert_eq!(during_capture(&bench, || cu!(cuStreamWaitEvent(bench.low, outside, 0))), (905, 901));
    let mut pageable = [0_u8; 16];
    let copy = || cu!(cuMemcpyDtoHAsync_v2(pageable.as_mut_ptr().cast(), bench.device, 16, bench.low));
    assert_eq!(during_capture(&bench, copy), (1, 901));
    assert_eq!(alone.counts().pageable, 1);
    let unjoined = || {
        let forked = cu!(cuEventRecord(inside, bench.low)) + cu!(cuStreamWaitEvent(bench.high, inside, 0));
        forked + cu!(cuMemsetD8Async(bench.device, 1, 16, bench.high))
    };
    assert_eq!(during_capture(&bench, unjoined), (0, 904));
    assert_eq!(cu!(cuEventQuery(inside)), 907, "it was recorded in a capture");
    assert_eq!(during_capture(&bench, || 0), (0, 0), "the stream can capture again");
    assert_eq!(cu!(cuStreamSynchronize(bench.high)), 0, "and the other stream is no longer being captured");
}

#[test]
fn captures_do_not_block_other_threads() {
    let Some(_alone) = alone() else { return };
    let bench = Bench::new(4096);
    let mut context = null_mut();
    assert_eq!(cu!(cuCtxGetCurrent(&mut context)), 0);
    let context = context as usize;
    let elsewhere = || {
        let run = move || {
            assert_eq!(cu!(cuCtxSetCurrent(context as sys::CUcontext)), 0);
            let mut address = 0;
            cu!(cuMemAlloc_v2(&mut address, 64))
        };
        std::thread::spawn(run).join().expect("no panic")
    };
    assert_eq!(during_capture(&bench, elsewhere), (0, 0), "a capture belongs to its thread only");
}
