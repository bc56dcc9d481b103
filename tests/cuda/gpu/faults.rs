//! How the caller sees each fault, injected or genuine, and that calls succeed again afterwards.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ganglion::system::gpu::{
    Call, Event, Gpu, GpuError, GpuFault, GpuInfo, Image, ImageFiles, Launch, Mapped, Pinned, Pool, Priority,
    Stream, Watch, probe,
};
use ganglion::system::rt::words::Words;

use super::{BYTES, Desk, alone, desk, until};

/// A call without visible effect.
fn touch(desk: &Desk) -> Result<(), GpuError> {
    desk.stream.fill(desk.pool.address(), 0, 8)
}

#[test]
fn an_injected_error_fails_one_call() {
    let Some(alone) = alone() else { return };
    let desk = desk();
    for round in 1..3 {
        desk.watch.inject(Some(GpuFault::Error));
        let error = touch(&desk).expect_err("it strikes");
        assert_eq!((error.call, error.code), (Call::Fill, 999));
        assert!(!error.is_lost() && !error.is_memory());
        assert!(error.to_string().contains("CUDA_ERROR_UNKNOWN (999)"), "{error}");
        desk.watch.inject(Some(GpuFault::Error));
        assert!(touch(&desk).is_ok(), "one call only, although it stays injected");
        desk.watch.inject(None);
        desk.settle();
        assert_eq!((desk.watch.counts().failures, alone.counts().fills), (round, round));
    }
}

#[test]
fn a_stuck_call_is_visible_and_can_be_released() {
    let Some(alone) = alone() else { return };
    let desk = desk();
    desk.watch.inject(Some(GpuFault::Stuck));
    let watch = desk.watch.clone();
    let other = std::thread::spawn(move || {
        let began = Instant::now();
        while watch.under_way() != Some(Call::Fill) {
            assert!(began.elapsed() < Duration::from_secs(20), "it never gets stuck");
            std::thread::yield_now();
        }
        // Still the same a while later.
        std::thread::sleep(Duration::from_millis(20));
        let seen = watch.under_way();
        watch.inject(None);
        seen
    });
    assert!(touch(&desk).is_ok());
    assert_eq!(other.join().expect("no panic"), Some(Call::Fill));
    desk.settle();
    assert_eq!((desk.watch.under_way(), alone.counts().fills), (None, 1));
}

#[test]
fn a_hang_lasts_until_it_is_withdrawn() {
    let Some(alone) = alone() else { return };
    let (desk, watch) = (desk(), Arc::new(Watch::new()));
    let event = Event::new(&desk.gpu).expect("an event");
    desk.watch.inject(Some(GpuFault::Hang));
    touch(&desk).and_then(|()| desk.stream.record(&event)).expect("calls return");
    let began = Instant::now();
    while alone.counts().fills == 0 || began.elapsed() < Duration::from_millis(20) {
        assert_eq!((desk.stream.is_done(), event.is_done()), (Ok(false), Ok(false)));
        assert!(began.elapsed() < Duration::from_secs(20), "the stand-in must fill anyway");
    }
    desk.watch.inject(None);
    until(|| event.is_done()).expect("no error");
    desk.settle();
    assert_eq!((desk.watch.counts().failures, watch.counts().failures), (0, 0));
}

#[test]
fn a_slowed_call_takes_ten_times_as_long() {
    let Some(alone) = alone() else { return };
    let desk = desk();
    desk.watch.inject(Some(GpuFault::Slow));
    let event = Event::new(&desk.gpu).expect("an event");
    alone.order("stall=0");
    let began = Instant::now();
    touch(&desk).and_then(|()| desk.stream.record(&event)).expect("handed over");
    std::thread::sleep(Duration::from_millis(10));
    assert_eq!(event.is_done(), Ok(false));
    alone.order("release");
    until(|| event.is_done()).expect("no error");
    let (took, least) = (began.elapsed(), Duration::from_millis(100));
    assert!(took >= least, "{took:?}");
    // Once the fault is withdrawn, the event that was delayed a moment ago can be recorded and completes. Its
    // time is not checked.
    desk.watch.inject(None);
    desk.stream.record(&event).expect("recorded");
    until(|| event.is_done()).expect("no error");
}

#[test]
fn memory_faults_hit_allocations_only() {
    let Some(alone) = alone() else { return };
    let desk = desk();
    desk.watch.inject(Some(GpuFault::Memory));
    for _ in 0..2 {
        let error = Pool::take(&desk.gpu, 64).map(|_| ()).expect_err("no memory can be had");
        assert!(error.is_memory() && !error.is_lost(), "{error}");
        assert!(touch(&desk).is_ok());
    }
    desk.watch.inject(None);
    assert!(Pool::take(&desk.gpu, 64).is_ok());
    // The device's own limit has the same effect.
    alone.order("memory=1M");
    let error = Pool::take(&desk.gpu, 2 << 20).map(|_| ()).expect_err("more than exists");
    assert!(error.is_memory(), "{error}");
}

#[test]
fn injected_loss_lasts_until_withdrawn_and_reopened() {
    let Some(alone) = alone() else { return };
    let desk = desk();
    desk.watch.inject(Some(GpuFault::Lost));
    assert!(touch(&desk).is_err_and(|error| error.is_lost()));
    desk.watch.inject(None);
    assert!(touch(&desk).is_err_and(|error| error.is_lost()), "it is the same context");
    desk.watch.inject(Some(GpuFault::Lost));
    assert!(Gpu::open(&desk.found, desk.watch.clone()).is_err_and(|error| error.is_lost()), "still injected");
    desk.watch.inject(None);
    let (found, watch) = (desk.found.clone(), desk.watch.clone());
    drop(desk);
    assert!(alone.counts().is_clean(), "{:?}", alone.counts());
    assert!(Gpu::open(&found, watch).is_ok());
}

#[test]
fn a_lost_context_does_not_affect_others() {
    let Some(alone) = alone() else { return };
    let (mut desk, other) = (desk(), desk());
    let (image, (table, _)) = (desk.image(), desk.empty_brain());
    desk.settle();
    alone.order("fail=kernel:1:700");
    let launch = desk.sense(&image, table);
    desk.stream.launch(&launch).expect("the launch does not report it yet");
    let error = until(|| desk.stream.is_done()).expect_err("the next query reports it");
    assert_eq!((error.call, error.code, error.is_lost()), (Call::StreamQuery, 700, true));
    assert!(touch(&desk).is_err_and(|error| error.is_lost()), "and every call after it");
    assert_eq!(desk.watch.last_failure(), Some(GpuError { call: Call::Fill, code: 700 }));
    // This thread uses both contexts; each call makes its own context current.
    assert!(touch(&other).is_ok());
    other.settle();
    drop((image, desk));
    let again = super::desk();
    assert!(touch(&again).is_ok() && touch(&other).is_ok());
    again.settle();
    other.settle();
    assert_eq!(other.watch.last_failure(), None);
    drop((again, other));
    assert!(alone.counts().is_clean(), "{:?}", alone.counts());
}

#[test]
fn a_process_wide_error_prevents_new_contexts() {
    let Some(alone) = alone() else { return };
    let desk = desk();
    alone.order("sticky=process,fail=cuMemsetD8Async:1:719");
    assert!(touch(&desk).is_err_and(|error| error.code == 719));
    let refused = Gpu::open(&desk.found, desk.watch.clone()).map(|_| ()).expect_err("spoiled");
    assert_eq!(refused.code, 719);
}

#[test]
fn a_released_thread_continues_in_its_own_context() {
    let Some(alone) = alone() else { return };
    let watch = Arc::new(Watch::new());
    let (tell, told) = std::sync::mpsc::channel();
    let mine = watch.clone();
    let thread = std::thread::spawn(move || {
        let found = probe().expect("the stand-in is a GPU");
        let gpu = Gpu::open(&found, mine.clone()).expect("it opens");
        let pool = Pool::take(&gpu, BYTES).expect("memory");
        mine.inject(Some(GpuFault::Stuck));
        tell.send(()).expect("the receiver exists");
        let said = gpu.memory_free().is_ok();
        drop((pool, gpu));
        said
    });
    told.recv().expect("it opened");
    let desk = desk();
    assert!(touch(&desk).is_ok());
    desk.settle();
    drop(desk);
    watch.inject(None);
    assert!(thread.join().expect("no panic"));
    assert!(alone.counts().is_clean(), "{:?}", alone.counts());
}

#[test]
fn no_failing_call_leaks_anything() {
    let Some(alone) = alone() else { return };
    let mut unseen = Vec::new();
    for call in Call::ALL {
        alone.order("fresh");
        let found = probe().expect("the stand-in is a GPU");
        let name = call.name().trim_end_matches("_v2");
        alone.order(&format!("fail={name}:1:999"));
        let watch = Arc::new(Watch::new());
        let said = whole_life(&found, &watch);
        match said {
            Err(error) => assert_eq!((error.call, error.code), (*call, 999), "{}", call.name()),
            Ok(()) => unseen.push(*call),
        }
        assert_eq!(watch.under_way(), None);
        let counts = alone.counts();
        // The driver keeps what it failed to release; everything else is released.
        let own_fault = watch.counts().failures > 0 && said.is_ok();
        assert!(counts.is_clean() || own_fault, "{}: {counts:?}", call.name());
    }
    // Failures that `whole_life` does not return: those of the probe's calls, of releases, of error texts and
    // of changes of context, and those of `EventRecord`, which differs on the stand-in.
    unseen.retain(|call| *call != Call::EventRecord);
    use Call as C;
    let (probing, words) =
        ([C::Init, C::DriverVersion, C::DeviceCount, C::DeviceName], [C::ErrorName, C::ErrorText]);
    let giving_back =
        [C::ContextDestroy, C::Free, C::HostFree, C::HostUnregister, C::StreamDestroy, C::EventDestroy];
    let more = [C::ModuleUnload, C::GraphDestroy, C::GraphExecDestroy, C::ContextSet];
    let facts = [C::DeviceAttribute, C::DeviceMemory];
    let expected = [&probing[..], &words, &giving_back, &more, &facts].concat();
    assert!(unseen.iter().all(|call| expected.contains(call)), "{unseen:?}");
    assert_eq!(unseen.len(), expected.len());
}

/// Uses every function at least once.
fn whole_life(found: &GpuInfo, watch: &Arc<Watch>) -> Result<(), GpuError> {
    let gpu = Gpu::open(found, watch.clone())?;
    let files = ImageFiles { ptx: super::PTX, fatbin: None, marks: None };
    let image = Image::load(&gpu, &files)?;
    let (kernel, _) = (image.kernel("sense")?, image.facts("sense")?);
    let (pool, pinned) = (Pool::take(&gpu, BYTES)?, Pinned::take(&gpu, BYTES)?);
    let mapped = Mapped::new(&gpu, Arc::new(Words::new(1)))?;
    assert!(mapped.is_written(0, 0) && !mapped.is_written(0, 1));
    let stream = Stream::new(&gpu, Priority::High)?;
    let (began, ended) = (Event::new(&gpu)?, Event::new(&gpu)?);
    let (memory_free, at) = (gpu.memory_free()?, pool.address());
    assert!(memory_free > 0);
    stream.fill(at, 0, BYTES)?;
    until(|| stream.is_done())?;
    // Captured and never replayed: this table has nothing that a kernel could work on.
    let launch = Launch { kernel, grid: [1, 1, 1], block: 64, table: at, words: [0, 0] };
    drop(stream.capture(|| stream.launch(&launch))?);
    let graph = stream.capture(|| {
        stream.copy_in(at, &pinned, 0..64)?;
        stream.record(&ended)
    })?;
    stream.record(&began)?;
    stream.wait(&began)?;
    stream.copy_within(at, at + 1024, 64)?;
    stream.copy_out(at, &pinned, 0..64)?;
    stream.replay(&graph)?;
    until(|| ended.is_done())?;
    until(|| stream.is_done())?;
    ended.micros_since(&began).map(|_| ())
}
