//! The whole layer on top of the driver (`src/system/gpu`) on the stand-in: finding, opening, using and
//! releasing a GPU.

mod absence;
mod faults;
mod host;
mod images;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ganglion::system::gpu::{
    Counts, Event, Gpu, GpuError, GpuInfo, Image, ImageFiles, Launch, Pinned, Pool, Priority, Stream, Watch,
    probe,
};

use super::standin::alone;
use super::tables::{ANSWER, BRAIN, CYCLE, SENSES};
use crate::allocation::allocations_in;

/// The image in the repository.
const PTX: &str = include_str!("../../kernels/ganglion.ptx");

/// The CUDA error codes that these tests distinguish.
const INVALID_VALUE: i32 = 1;
const INVALID_HANDLE: i32 = 400;
const NOT_FOUND: i32 = 500;

/// A GPU with one stream, a memory pool, and pinned memory of the pool's size.
struct Desk {
    found: GpuInfo,
    watch: Arc<Watch>,
    gpu: Gpu,
    stream: Stream,
    pool: Pool,
    pinned: Pinned,
}

const BYTES: usize = 64 << 10;

fn desk() -> Desk {
    let found = probe().expect("the stand-in is a GPU");
    let watch = Arc::new(Watch::new());
    let gpu = Gpu::open(&found, watch.clone()).expect("it opens");
    let stream = Stream::new(&gpu, Priority::Low).expect("a stream");
    let pool = Pool::take(&gpu, BYTES).expect("memory");
    let pinned = Pinned::take(&gpu, BYTES).expect("pinned memory");
    Desk { found, watch, gpu, stream, pool, pinned }
}

/// Calls `so` until it returns true; fails after 20 seconds, since something must then hang.
fn until(mut so: impl FnMut() -> Result<bool, GpuError>) -> Result<(), GpuError> {
    let began = Instant::now();
    while !so()? {
        assert!(began.elapsed() < Duration::from_secs(20), "it never ends");
        std::thread::sleep(Duration::from_micros(50));
    }
    Ok(())
}

impl Desk {
    fn settle(&self) {
        until(|| self.stream.is_done()).expect("no error");
    }

    /// A table of one brain in which every pointer leads to zeros, as in the stand-in's own tests: no sensor,
    /// no cell. Returns the table's address, and that of its answer.
    fn empty_brain(&mut self) -> (u64, u64) {
        let (zeros, size) = (self.pool.address() + 4096, ANSWER.max(CYCLE).max(SENSES));
        assert!(4096 + 3 * size <= self.pool.bytes());
        let (answer, report) = (zeros + size as u64, zeros + 2 * size as u64);
        let mut table: Vec<u8> = zeros.to_le_bytes().repeat(BRAIN / 8);
        table[24..32].copy_from_slice(&answer.to_le_bytes());
        table[32..40].copy_from_slice(&report.to_le_bytes());
        self.pinned.part_mut(0..BRAIN).expect("within").copy_from_slice(&table);
        self.stream.fill(zeros, 0, 2 * size).expect("filled");
        self.stream.copy_in(self.pool.address(), &self.pinned, 0..BRAIN).expect("copied");
        (self.pool.address(), answer)
    }

    fn image(&self) -> Image {
        let files = ImageFiles { ptx: PTX, fatbin: None, marks: None };
        Image::load(&self.gpu, &files).expect("the image loads")
    }

    fn sense(&self, image: &Image, table: u64) -> Launch {
        let kernel = image.kernel("sense").expect("the kernel is in the image");
        Launch { kernel, grid: [1, 1, 1], block: 64, table, words: [0, 0] }
    }
}

/// The confidence in the bytes of an answer; it follows cycle, prediction, weight, cosine, scores, motors.
fn confidence(answer: &[u8]) -> f32 {
    let at = 8 + (64 + 3 + 5) * 8 + 2 * 16 * 4;
    f32::from_le_bytes(answer[at..at + 4].try_into().expect("four"))
}

#[test]
fn the_stand_in_driver_is_identified() {
    let Some(_alone) = alone() else { return };
    let found = probe().expect("the stand-in is a GPU");
    assert!(found.name.contains("stand-in"), "{}", found.name);
    assert_eq!((found.ordinal, found.capability, found.driver), (0, (8, 7), (12, 0)));
    assert!(found.multiprocessors > 0 && found.l2_bytes > 0 && found.memory_bytes >= 1 << 30);
}

#[test]
fn bytes_survive_the_copy_to_the_device_and_back() {
    let Some(alone) = alone() else { return };
    let mut desk = desk();
    assert_eq!((desk.pool.address() % 256, desk.pool.bytes()), (0, BYTES));
    assert!(desk.pinned.bytes().expect("free").iter().all(|byte| *byte == 0), "fresh pinned memory");
    assert_eq!(desk.pinned.bytes().expect("free").as_ptr() as usize % 64, 0);
    let mut bytes = desk.pinned.bytes_mut().expect("free");
    bytes.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i % 251) as u8);
    drop(bytes);
    let (at, stream) = (desk.pool.address(), &desk.stream);
    stream.copy_in(at, &desk.pinned, 0..1024).expect("in");
    stream.copy_within(at, at + 2048, 1024).expect("within");
    stream.fill(at + 2054, 7, 2).expect("filled");
    stream.copy_out(at + 2048, &desk.pinned, 4096..5120).expect("out");
    desk.settle();
    let mut expected = desk.pinned.part(0..1024).expect("within").to_vec();
    expected[6..8].fill(7);
    assert_eq!(desk.pinned.part(4096..5120).expect("within")[..], expected);
    assert!(desk.gpu.memory_free().is_ok_and(|free| free > 0 && free <= desk.found.memory_bytes));
    let calls = desk.watch.counts().calls;
    let expected = Counts {
        calls,
        copies_in: 1,
        copies_out: 1,
        bytes_out: 1024,
        copies_within: 1,
        device_allocations: 1,
        pinned_allocations: 1,
        ..Counts::default()
    };
    assert_eq!(desk.watch.counts(), expected);
    drop(desk);
    assert!(alone.counts().is_clean(), "{:?}", alone.counts());
}

#[test]
fn out_of_bounds_ranges_are_refused_before_the_driver() {
    let Some(alone) = alone() else { return };
    let desk = desk();
    let (start, end) = (desk.pool.address(), desk.pool.address() + BYTES as u64);
    let other = Pinned::take(&desk.gpu, 64).expect("pinned");
    let (stream, pinned) = (&desk.stream, &desk.pinned);
    let backwards = std::ops::Range { start: 64, end: 0 };
    let refused = [
        stream.copy_in(end - 63, pinned, 0..64),
        stream.copy_in(start - 1, pinned, 0..64),
        stream.copy_in(u64::MAX - 10, pinned, 0..64),
        stream.copy_in(start, &other, 0..65),
        stream.copy_in(start, &other, backwards),
        stream.copy_out(end, pinned, 0..64),
        stream.copy_out(start, pinned, BYTES - 63..BYTES + 1),
        stream.copy_within(start, end - 63, 64),
        stream.copy_within(end - 63, start, 64),
        stream.copy_within(other.bytes().expect("free").as_ptr() as u64, start, 8),
        stream.fill(start, 0, BYTES + 1),
    ];
    for (i, said) in refused.iter().enumerate() {
        assert_eq!(said.map_err(|error| error.code), Err(INVALID_VALUE), "{i}");
    }
    assert_eq!(desk.watch.counts().failures, refused.len() as u64);
    let counts = alone.counts();
    assert_eq!(counts.copies_in + counts.copies_out + counts.copies_within + counts.fills, 0);
    assert!(stream.copy_in(end - 64, pinned, 0..64).is_ok() && pinned.part(0..BYTES + 1).is_err());
}

#[test]
fn a_kernel_runs_and_reports_its_attributes() {
    let Some(_alone) = alone() else { return };
    let mut desk = desk();
    let (image, (table, answer)) = (desk.image(), desk.empty_brain());
    desk.stream.launch(&desk.sense(&image, table)).expect("launched");
    desk.stream.copy_out(answer, &desk.pinned, 4096..4096 + ANSWER).expect("out");
    desk.settle();
    let confidence = confidence(&desk.pinned.part(4096..4096 + ANSWER).expect("within"));
    assert!((0.0..=1.0).contains(&confidence), "{confidence}");
    assert_eq!(desk.watch.counts().launches, 1);
    let facts = image.facts("sense").expect("facts");
    assert!(facts.registers > 0 && facts.most_threads >= 64, "{facts:?}");
    for name in ["no such kernel", "with a zero\0byte"] {
        let said = image.kernel(name).map(|_| ()).map_err(|error| error.code);
        assert_eq!(said, Err(if name.contains('\0') { INVALID_VALUE } else { NOT_FOUND }), "{name:?}");
    }
    let lost = Launch { table: 0, ..desk.sense(&image, table) };
    assert_eq!(desk.stream.launch(&lost).map_err(|error| error.code), Err(INVALID_VALUE), "not in a pool");
}

#[test]
fn objects_of_another_context_are_refused() {
    let Some(_alone) = alone() else { return };
    let (mine, mut other) = (desk(), desk());
    let (image, event) = (other.image(), Event::new(&other.gpu).expect("an event"));
    let (table, _) = other.empty_brain();
    let graph = other.stream.capture(|| other.stream.fill(table, 0, 8)).expect("captured");
    let own = Event::new(&mine.gpu).expect("an event");
    let said = [
        mine.stream.launch(&other.sense(&image, table)),
        mine.stream.record(&event),
        mine.stream.wait(&event),
        mine.stream.replay(&graph),
        own.micros_since(&event).map(|_| ()),
    ];
    said.iter().for_each(|said| assert_eq!(said.map_err(|error| error.code), Err(INVALID_HANDLE)));
    let said = mine.stream.copy_in(mine.pool.address(), &other.pinned, 0..8);
    assert_eq!(said.map_err(|error| error.code), Err(INVALID_VALUE));
    other.settle();
}

#[test]
fn a_captured_graph_is_replayed_as_it_was_captured() {
    let Some(alone) = alone() else { return };
    let mut desk = desk();
    let event = || Event::new(&desk.gpu).expect("an event");
    let (began, ended) = (event(), event());
    let (at, stream, pinned) = (desk.pool.address(), &desk.stream, &desk.pinned);
    let graph = stream
        .capture(|| {
            stream.record(&began)?;
            stream.copy_in(at, pinned, 0..64)?;
            stream.copy_within(at, at + 1024, 64)?;
            stream.fill(at + 1024, 9, 1)?;
            stream.fill(at + 512, 8, 64)?;
            stream.copy_within(at + 512, at + 1056, 8)?;
            stream.copy_out(at + 1024, pinned, 128..192)?;
            stream.record(&ended)
        })
        .expect("captured");
    let before = desk.watch.counts();
    assert_eq!(before.copies_in + before.copies_out + before.copies_within, 0, "nothing is done yet");
    for round in 1..4_u8 {
        desk.pinned.part_mut(0..64).expect("within").fill(round);
        desk.stream.replay(&graph).expect("replayed");
        until(|| ended.is_done()).expect("no error");
        desk.settle();
        let mut expected = [round; 64];
        expected[0] = 9;
        expected[32..40].fill(8);
        assert_eq!(desk.pinned.part(128..192).expect("within")[..], expected, "round {round}");
        assert!(ended.micros_since(&began).expect("the stream has passed both") >= 0.0);
    }
    let counts = desk.watch.counts();
    assert_eq!((counts.replays, counts.launches), (3, 0));
    assert_eq!((counts.copies_in, counts.copies_out, counts.copies_within), (3, 3, 6));
    drop((graph, began, ended, desk));
    assert!(alone.counts().is_clean(), "{:?}", alone.counts());
}

#[test]
fn a_graph_keeps_its_host_memory_and_events_alive() {
    let Some(alone) = alone() else { return };
    let desk = desk();
    let (pinned, event) =
        (Pinned::take(&desk.gpu, 64).expect("pinned"), Event::new(&desk.gpu).expect("event"));
    let (stream, at) = (&desk.stream, desk.pool.address());
    let graph = stream.capture(|| {
        stream.copy_in(at, &pinned, 0..64)?;
        stream.record(&event)
    });
    let graph = graph.expect("captured");
    drop((pinned, event));
    let before = alone.counts();
    assert_eq!((before.host_now, before.events), (2, 1));
    stream.replay(&graph).expect("replayed");
    desk.settle();
    drop(graph);
    assert_eq!((alone.counts().host_now, alone.counts().events), (1, 0));
}

#[test]
fn a_failed_capture_leaves_the_stream_usable() {
    let Some(alone) = alone() else { return };
    let desk = desk();
    let (stream, at) = (&desk.stream, desk.pool.address());
    let before = alone.counts();
    // The body fails; makes a call that is forbidden in a capture; starts another capture.
    let beyond = stream.capture(|| stream.fill(at, 1, BYTES + 1));
    let asked = stream.capture(|| stream.is_done().map(|_| ()));
    let twice = stream.capture(|| stream.capture(|| Ok(())).map(|_| ()));
    assert!(beyond.is_err() && asked.is_err() && twice.is_err());
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        stream.capture(|| panic!("in the middle of a capture")).map(|_| ())
    }));
    assert!(panicked.is_err());
    assert_eq!((alone.counts().graphs, alone.counts().executables), (before.graphs, before.executables));
    stream.fill(at, 1, 64).expect("the stream accepts work again");
    let graph = stream.capture(|| stream.fill(at, 2, 64)).expect("and a capture");
    stream.replay(&graph).expect("replayed");
    desk.settle();
    assert_eq!(alone.counts().fills, 2);
}

#[test]
fn events_order_streams_and_time_them() {
    let Some(alone) = alone() else { return };
    let desk = desk();
    let other = Stream::new(&desk.gpu, Priority::High).expect("a stream");
    let event = || Event::new(&desk.gpu).expect("an event");
    let (before, after) = (event(), event());
    assert_eq!(before.is_done(), Ok(true), "an event that no stream has recorded counts as done");
    alone.order("stall=0");
    let at = desk.pool.address();
    desk.stream.record(&before).expect("recorded");
    desk.stream.fill(at, 1, 64).expect("filled");
    desk.stream.record(&after).expect("recorded");
    other.wait(&after).expect("waits");
    other.fill(at, 2, 64).expect("filled");
    assert_eq!((before.is_done(), after.is_done(), other.is_done()), (Ok(false), Ok(false), Ok(false)));
    let early = after.micros_since(&before).map_err(|error| error.code);
    assert_eq!(early, Err(600), "not ready");
    alone.order("release");
    until(|| other.is_done()).expect("no error");
    assert_eq!((before.is_done(), after.is_done()), (Ok(true), Ok(true)));
    assert!(after.micros_since(&before).expect("passed") >= 0.0);
    other.copy_out(at, &desk.pinned, 0..64).expect("out");
    until(|| other.is_done()).expect("no error");
    assert_eq!(desk.pinned.part(0..64).expect("within")[..], [2; 64], "the last fill waited for the event");
}

#[test]
fn steady_calls_allocate_nothing_on_the_host() {
    let Some(_alone) = alone() else { return };
    let mut desk = desk();
    let (image, (table, answer)) = (desk.image(), desk.empty_brain());
    let launch = desk.sense(&image, table);
    let event = || Event::new(&desk.gpu).expect("an event");
    let (began, ended) = (event(), event());
    let (stream, pinned) = (&desk.stream, &desk.pinned);
    let graph = stream.capture(|| {
        stream.copy_in(table, pinned, 0..BRAIN)?;
        stream.launch(&launch)?;
        stream.copy_out(answer, pinned, 4096..4096 + ANSWER)
    });
    let graph = graph.expect("captured");
    let cycle = || -> Result<(), GpuError> {
        stream.record(&began)?;
        stream.copy_in(table, pinned, 0..BRAIN)?;
        stream.fill(answer + 64, 0, 8)?;
        stream.launch(&launch)?;
        stream.copy_within(answer, answer + 8, 8)?;
        stream.copy_out(answer, pinned, 4096..4096 + ANSWER)?;
        stream.replay(&graph)?;
        stream.record(&ended)?;
        until(|| ended.is_done())?;
        until(|| stream.is_done())?;
        ended.micros_since(&began).map(|_| ())
    };
    cycle().expect("the first time");
    let device = desk.watch.counts().device_allocations;
    let allocated = allocations_in(|| (0..10).for_each(|_| cycle().expect("again")));
    assert_eq!((allocated, desk.watch.counts().device_allocations - device), (0, 0));
}

#[test]
fn everything_can_be_dropped_in_any_order() {
    let Some(alone) = alone() else { return };
    let Desk { watch, gpu, stream, pool, pinned, .. } = desk();
    let (image, event) = (
        {
            let files = ImageFiles { ptx: PTX, fatbin: None, marks: None };
            Image::load(&gpu, &files).expect("the image loads")
        },
        Event::new(&gpu).expect("an event"),
    );
    let graph = stream.capture(|| stream.fill(pool.address(), 0, 8)).expect("captured");
    drop(gpu);
    assert_eq!(alone.counts().retained, 1, "the other objects keep the context");
    drop((pool, stream, pinned, graph));
    assert_eq!(image.facts("sense").map(|facts| facts.registers > 0), Ok(true));
    drop((image, event));
    assert!(alone.counts().is_clean(), "{:?}", alone.counts());
    assert_eq!((watch.counts().failures, watch.under_way()), (0, None));
}
