//! The dispatcher sends each batch to the CPU or the GPU according to its choice. The tests run on the
//! stand-in for the driver, which counts kernel launches: there are none below the crossover and some from
//! the crossover on, and both processors produce the same bits.

use super::{bits, dim, rows, store_of};
use crate::allocation::allocations_in;
use crate::cuda::standin::{Alone, alone};
use ganglion::base::time::Span;
use ganglion::memory::choice::{Because, Choice, Crossing, Preference, Residence, Work};
use ganglion::memory::gpu::{GpuWorkspace, Room, Unfit};
use ganglion::memory::{Answered, Best, Dispatcher, Fault, Length, Store, Workspace};
use ganglion::system::gpu::{GpuFault, Watch};
use std::sync::Arc;

const D: usize = 128;
const ROOM: Room = Room { rows: 16, queries: 2, store: 16 };

fn preferring(preference: Preference, watch: Arc<Watch>) -> Dispatcher {
    let mut gpu = GpuWorkspace::open_with(dim(D), ROOM, watch).expect("the stand-in is a GPU");
    let choice = Choice::of(&mut gpu, preference, None, Span::from_millis(100));
    Dispatcher::new(gpu, choice)
}

/// A dispatcher whose measured crossovers are these batch sizes; `None`: the GPU was never faster.
fn measured(bind: Option<u64>, superpose: Option<u64>, clean_up: Option<u64>) -> Dispatcher {
    let mut gpu = GpuWorkspace::open(dim(D), ROOM).expect("the stand-in is a GPU");
    let mut choice = Choice::of(&mut gpu, Preference::Measured, None, Span::from_millis(100));
    let crossing = |work, residence, from| Crossing { work, residence, from, tried: 16 };
    // Rows that are already on the GPU have other crossovers, which do not apply to a caller's rows in host
    // memory.
    choice.crossings = vec![
        crossing(Work::Bind, Residence::Gpu, Some(1)),
        crossing(Work::Bind, Residence::Host, bind),
        crossing(Work::Superpose, Residence::Gpu, Some(1)),
        crossing(Work::Superpose, Residence::Host, superpose),
        crossing(Work::CleanUp, Residence::Gpu, clean_up),
    ];
    Dispatcher::new(gpu, choice)
}

/// The bits of every operation on `count` rows, each with the launches that it took.
fn all(dispatcher: &mut Dispatcher, alone: &Alone, count: usize) -> [(Vec<u32>, u64); 4] {
    let (a, b) = (rows(1, 0, count, D), rows(2, 0, count, D));
    let (store, mut best) = (store_of(&a, D, 16), [Best::of(3), Best::of(1)]);
    let (mut out, mut sum) = (vec![0.0; count * D], vec![0.0; D]);
    let mut before = alone.counts().launches;
    let mut launched = || {
        let now = alone.counts().launches;
        now - std::mem::replace(&mut before, now)
    };
    dispatcher.bind(&a, &b, Length::Unit, &mut out).expect("shapes");
    let bound = (bits(&out), launched());
    dispatcher.unbind(&a, &b[..D], Length::AsIs, &mut out).expect("shapes");
    let unbound = (bits(&out), launched());
    dispatcher.superpose(&a, None, Length::Unit, &mut sum).expect("shapes");
    let superposed = (bits(&sum), launched());
    dispatcher.nearest(&store, &rows(3, 0, 2, D), &mut best).expect("shapes");
    let matches = best.iter().flat_map(|best| best.list());
    let found = (matches.flat_map(|m| [m.row, m.cosine.to_bits()]).collect(), launched());
    [bound, unbound, superposed, found]
}

/// The bits of every operation on the CPU alone.
fn by_processor(count: usize) -> [Vec<u32>; 4] {
    let (a, b) = (rows(1, 0, count, D), rows(2, 0, count, D));
    let (mut workspace, mut out, mut sum) = (Workspace::new(dim(D)), vec![0.0; count * D], vec![0.0; D]);
    let mut best = [Best::of(3), Best::of(1)];
    workspace.bind(&a, &b, Length::Unit, &mut out).expect("shapes");
    let bound = bits(&out);
    workspace.unbind(&a, &b[..D], Length::AsIs, &mut out).expect("shapes");
    workspace.superpose(&a, None, Length::Unit, &mut sum).expect("shapes");
    store_of(&a, D, 16).nearest(&rows(3, 0, 2, D), &mut best).expect("shapes");
    let matches = best.iter().flat_map(|best| best.list());
    [bound, bits(&out), bits(&sum), matches.flat_map(|m| [m.row, m.cosine.to_bits()]).collect()]
}

/// Whether each operation on `count` rows started kernels. Checks that its bits equal the CPU's either way.
fn on_gpu(dispatcher: &mut Dispatcher, alone: &Alone, count: usize) -> [bool; 4] {
    let before = dispatcher.answered();
    let done = all(dispatcher, alone, count);
    let own = by_processor(count);
    for (number, ((found, _), own)) in done.iter().zip(&own).enumerate() {
        assert!(found == own, "operation {number} on {count} rows: the bits differ from the CPU's");
    }
    let on_gpu = done.map(|(_, launches)| launches > 0);
    let (now, by_gpu) = (dispatcher.answered(), on_gpu.iter().filter(|one| **one).count() as u64);
    assert_eq!((now.gpu - before.gpu, now.processor - before.processor), (by_gpu, 4 - by_gpu));
    on_gpu
}

#[test]
fn batches_are_placed_by_the_measured_crossover() {
    let Some(alone) = alone() else { return };
    let mut dispatcher = measured(Some(4), Some(8), Some(6));
    assert_eq!(on_gpu(&mut dispatcher, &alone, 3), [false; 4]);
    assert_eq!(on_gpu(&mut dispatcher, &alone, 4), [true, true, false, false]);
    assert_eq!(on_gpu(&mut dispatcher, &alone, 7), [true, true, false, true]);
    assert_eq!(on_gpu(&mut dispatcher, &alone, 8), [true; 4]);
    let smallest = |work| dispatcher.smallest_on_gpu(work);
    assert_eq!([Work::Bind, Work::Superpose, Work::CleanUp].map(smallest), [Some(4), Some(8), Some(6)]);
    let mut never_won = measured(None, None, None);
    assert_eq!(on_gpu(&mut never_won, &alone, 16), [false; 4]);
}

#[test]
fn a_users_preference_overrides_the_measurement() {
    let Some(alone) = alone() else { return };
    let mut from = preferring(Preference::From(5), Arc::default());
    assert_eq!(on_gpu(&mut from, &alone, 4), [false; 4]);
    assert_eq!(on_gpu(&mut from, &alone, 5), [true; 4]);
    drop(from);
    let mut never = preferring(Preference::Processor, Arc::default());
    assert_eq!(on_gpu(&mut never, &alone, 16), [false; 4]);
    drop(never);
    // A dispatcher that is opened with that preference does not even open the GPU.
    let ever = alone.counts().device_ever;
    let mut closed = Dispatcher::open(dim(D), ROOM, Preference::Processor, None, Span::ZERO);
    assert_eq!((closed.choice().because.clone(), alone.counts().retained), (Because::Asked, 0));
    assert_eq!(on_gpu(&mut closed, &alone, 16), [false; 4]);
    assert_eq!(alone.counts().device_ever, ever);
}

#[test]
fn batches_beyond_gpu_memory_run_on_the_cpu() {
    let Some(alone) = alone() else { return };
    let mut dispatcher = preferring(Preference::From(1), Arc::default());
    let (a, mut out) = (rows(1, 0, 17, D), vec![0.0; 17 * D]);
    let launches = alone.counts().launches;
    dispatcher.bind(&a, &a, Length::AsIs, &mut out).expect("shapes");
    let (store, mut best) = (store_of(&a, D, 17), [Best::of(1)]);
    dispatcher.nearest(&store, &a[..D], &mut best).expect("shapes");
    let mut three = [Best::of(1), Best::of(1), Best::of(1)];
    dispatcher.nearest(&store_of(&a[..D], D, 1), &a[..3 * D], &mut three).expect("shapes");
    assert_eq!(alone.counts().launches, launches);
    assert_eq!(dispatcher.answered(), Answered { processor: 3, gpu: 0, lost: 0 });
    // With and without a GPU, a wrong request causes the same fault.
    let fault = Fault::Shape { what: "second factor", d: D, wanted: 3, found: 2 * D };
    let mut never = preferring(Preference::Processor, Arc::default());
    for dispatcher in [&mut dispatcher, &mut never] {
        let asked = dispatcher.bind(&a[..3 * D], &a[..2 * D], Length::AsIs, &mut out[..3 * D]);
        assert_eq!(asked, Err(fault));
        let other = Store::new(dim(64), 1, usize::MAX).expect("a store");
        let asked = dispatcher.nearest(&other, &a[..64], &mut best);
        assert_eq!(asked, Err(Fault::OtherDimension { what: "the store", found: 64, wanted: D }));
        assert_eq!(dispatcher.loss(), None);
    }
}

#[test]
fn the_cpu_answers_a_batch_when_the_gpu_is_lost() {
    let Some(alone) = alone() else { return };
    // The context is lost (700) in the first kernel, in a copy, and in the middle of a search.
    for (order, at) in [("fail=kernel:1:700", 0), ("fail=copy:3:700", 0), ("fail=kernel:5:700", 3)] {
        let mut dispatcher = preferring(Preference::From(1), Arc::default());
        alone.order(order);
        let before = dispatcher.answered();
        let found = all(&mut dispatcher, &alone, 7).map(|(bits, _)| bits);
        assert!(found == by_processor(7), "{order}");
        let (now, left) = (dispatcher.answered(), 4 - at);
        assert_eq!((now.lost - before.lost, now.gpu, now.processor), (1, at, left), "{order}");
        assert!(dispatcher.loss().is_some(), "{order}");
        // The GPU is closed, and stays closed.
        let counts = alone.counts();
        assert_eq!((counts.retained, counts.device_now), (0, 0), "{order}");
        assert_eq!(on_gpu(&mut dispatcher, &alone, 7), [false; 4], "{order}");
        assert_eq!(alone.counts().launches, counts.launches, "{order}");
        drop(dispatcher);
        alone.order("fresh");
    }
    // A driver call that returns an error counts as a loss as well.
    let watch = Arc::new(Watch::new());
    let mut dispatcher = preferring(Preference::From(1), watch.clone());
    watch.inject(Some(GpuFault::Error));
    assert_eq!(on_gpu(&mut dispatcher, &alone, 3), [false; 4]);
    assert_eq!(dispatcher.answered(), Answered { processor: 4, gpu: 0, lost: 1 });
}

#[test]
fn a_store_is_copied_again_only_after_a_change() {
    let Some(alone) = alone() else { return };
    let mut dispatcher = preferring(Preference::From(1), Arc::default());
    let many = rows(5, 0, 8, D);
    let mut store = store_of(&many[..7 * D], D, 8);
    let mut searched = |store: &Store| {
        let before = alone.counts().copies_in;
        let (mut best, mut own) = ([Best::of(4)], [Best::of(4)]);
        dispatcher.nearest(store, &many[7 * D..], &mut best).expect("shapes");
        store.nearest(&many[7 * D..], &mut own).expect("shapes");
        assert_eq!(best[0].list(), own[0].list());
        alone.counts().copies_in - before
    };
    let (first, again) = (searched(&store), searched(&store));
    assert!(first > again, "{first} copies with the store, {again} without");
    store.replace(2, &many[7 * D..]).expect("a row");
    assert_eq!([searched(&store), searched(&store)], [first, again], "a row was replaced");
    store.swap_remove(2).expect("a row");
    assert_eq!([searched(&store), searched(&store)], [first, again], "a row was removed");
    store.push(&many[7 * D..]).expect("room");
    assert_eq!([searched(&store), searched(&store)], [first, again], "a row was added");
    let other = store_of(&many[D..], D, 8);
    assert_eq!([searched(&other), searched(&store)], [first, first], "two stores in turn");
}

#[test]
fn no_batch_allocates_on_either_processor() {
    let Some(_alone) = alone() else { return };
    let mut dispatcher = preferring(Preference::From(3), Arc::default());
    let (a, mut out, mut best) = (rows(1, 0, 4, D), vec![0.0; 4 * D], [Best::of(3)]);
    let store = store_of(&a, D, 4);
    let mut work = || {
        for count in [2, 4] {
            let (a, out) = (&a[..count * D], &mut out[..count * D]);
            dispatcher.bind(a, a, Length::Unit, out).expect("shapes");
            dispatcher.superpose(a, None, Length::Unit, &mut out[..D]).expect("shapes");
        }
        dispatcher.nearest(&store, &a[..D], &mut best).expect("shapes");
    };
    work();
    assert_eq!(allocations_in(&mut work), 0);
    assert_eq!(dispatcher.answered(), Answered { processor: 4, gpu: 6, lost: 0 });
}

#[test]
fn without_a_gpu_the_cpu_answers_and_says_why() {
    let unfit = Unfit::Length { d: 5000, needed: 16_384 };
    let mut dispatcher = Dispatcher::on_processor(dim(D), Choice::without(unfit.clone()));
    let (a, mut out) = (rows(1, 0, 4, D), vec![0.0; 4 * D]);
    dispatcher.bind(&a, &a, Length::AsIs, &mut out).expect("shapes");
    assert_eq!(dispatcher.answered(), Answered { processor: 1, gpu: 0, lost: 0 });
    assert_eq!(dispatcher.choice().because, Because::NoGpu(unfit));
    assert_eq!(dispatcher.smallest_on_gpu(Work::Bind), None);
}
