//! The memory on a GPU: the same bits as on the CPU, whatever the batch size and the order of the GPU's
//! threads. The tests run on the stand-in for the driver, and are skipped without a C++ compiler.

use super::{bits, dim, rows, store_of, unitary_rows};
use crate::allocation::allocations_in;
use crate::cuda::standin::alone;
use ganglion::memory::gpu::{Area, GpuWorkspace, GpuWorkspaceFault, Room, Unfit};
use ganglion::memory::nearest::{Best, MOST_TOP};
use ganglion::memory::{Fault, Length, Verb, Workspace};
use ganglion::system::gpu::{GpuFault, Watch};
use std::sync::Arc;

fn gpu(d: usize, rows: usize, queries: usize, store: usize) -> GpuWorkspace {
    GpuWorkspace::open(dim(d), Room { rows, queries, store }).expect("the stand-in is a GPU")
}

/// Both operations, each with unscaled results and with results of length 1.
const WAYS: [(Verb, Length); 4] = [
    (Verb::Bind, Length::AsIs),
    (Verb::Unbind, Length::Unit),
    (Verb::Unbind, Length::AsIs),
    (Verb::Bind, Length::Unit),
];

fn on_processor(d: usize, (verb, length): (Verb, Length), a: &[f32], b: &[f32]) -> Vec<f32> {
    let mut out = vec![0.0; a.len()];
    let mut workspace = Workspace::new(dim(d));
    let done = match verb {
        Verb::Bind => workspace.bind(a, b, length, &mut out),
        Verb::Unbind => workspace.unbind(a, b, length, &mut out),
    };
    done.expect("shapes");
    out
}

/// Fails with the row and position of the first difference.
fn same(d: usize, gpu: &[f32], processor: &[f32], what: &str) {
    let first = gpu.iter().zip(processor).position(|(x, y)| x.to_bits() != y.to_bits());
    if let Some(at) = first {
        panic!("{what}: row {}, number {}: {} {}", at / d, at % d, gpu[at], processor[at]);
    }
}

#[test]
fn gpu_binding_matches_the_cpu_bits_at_every_length() {
    let Some(alone) = alone() else { return };
    for (turn, d) in
        [64, 65, 100, 128, 243, 256, 512, 1000, 1024, 2048, 3000, 4096, 8192].into_iter().enumerate()
    {
        alone.order(if turn % 2 == 0 { "order=backwards" } else { "fresh" });
        let count = if d > 1024 { 2 } else { 3 };
        let mut gpu = gpu(d, count, 0, 0);
        let (a, b) = (rows(1, 0, count, d), rows(2, 0, count, d));
        let mut out = vec![0.0; count * d];
        for (verb, length) in WAYS {
            gpu.convolve(verb, &a, &b, length, &mut out).expect("done");
            same(d, &out, &on_processor(d, (verb, length), &a, &b), &format!("d {d}, {verb:?}, {length:?}"));
        }
        gpu.convolve(Verb::Unbind, &a, &b[..d], Length::AsIs, &mut out).expect("done");
        let one = on_processor(d, (Verb::Unbind, Length::AsIs), &a, &b[..d]);
        same(d, &out, &one, &format!("d {d}, one key"));
    }
}

#[test]
fn gpu_binding_matches_the_cpu_bits_in_every_batch() {
    let Some(_alone) = alone() else { return };
    for d in [64, 512, 1024] {
        let most = 1000;
        let (a, b) = (rows(3, 0, most, d), rows(4, 0, most, d));
        let mut gpu = gpu(d, most, 0, 0);
        for (turn, count) in [1, 7, 100, 1000].into_iter().enumerate() {
            let (verb, length) = WAYS[(turn + d / 512) % WAYS.len()];
            let (a, b) = (&a[..count * d], &b[..count * d]);
            let mut out = vec![0.0; count * d];
            gpu.convolve(verb, a, b, length, &mut out).expect("done");
            let expected = on_processor(d, (verb, length), a, b);
            same(d, &out, &expected, &format!("d {d}, {count} rows, {verb:?}, {length:?}"));
            // Data that is already on the GPU produces the same result.
            gpu.put(Area::First, a).and(gpu.put(Area::Second, b)).expect("put");
            gpu.convolve_held(verb, count, length).expect("done");
            let mut held = vec![0.0; count * d];
            gpu.fetch(&mut held).expect("fetched");
            assert!(bits(&held) == bits(&out), "d {d}, {count} rows");
        }
    }
}

#[test]
fn extreme_f32_values_keep_their_bits_on_the_gpu() {
    let Some(_alone) = alone() else { return };
    for d in [100, 256] {
        let mut gpu = gpu(d, 4, 0, 0);
        // A row whose products are subnormal, a row of zeros, a row of negative zeros, and one huge number.
        let mut a = rows(5, 0, 4, d);
        a[..d].iter_mut().for_each(|x| *x *= 1e-22);
        a[d..2 * d].fill(0.0);
        a[2 * d..3 * d].fill(-0.0);
        a[3 * d] = 3e18;
        let mut b = rows(6, 0, 4, d);
        b[..d].iter_mut().for_each(|x| *x *= 1e-20);
        for (verb, length) in WAYS {
            let mut out = vec![0.0; 4 * d];
            gpu.convolve(verb, &a, &b, length, &mut out).expect("done");
            same(d, &out, &on_processor(d, (verb, length), &a, &b), &format!("d {d}, {verb:?}, {length:?}"));
        }
    }
}

#[test]
fn gpu_superposition_matches_the_cpu_bits() {
    let Some(alone) = alone() else { return };
    for (turn, d) in [64, 100, 512, 1024].into_iter().enumerate() {
        alone.order(if turn % 2 == 0 { "order=backwards" } else { "fresh" });
        let many = rows(7, 0, 1000, d);
        let weights = rows(8, 0, 1000_usize.div_ceil(64), 64)[..1000].to_vec();
        let mut gpu = gpu(d, 1000, 0, 0);
        let mut workspace = Workspace::new(dim(d));
        for count in [0, 1, 7, 64, 100, 1000] {
            for (weights, length) in
                [(None, Length::Unit), (Some(&weights[..count]), Length::Unit), (None, Length::AsIs)]
            {
                let (mut own, mut out) = (vec![0.5; d], vec![0.5; d]);
                gpu.superpose(&many[..count * d], weights, length, &mut out).expect("done");
                workspace.superpose(&many[..count * d], weights, length, &mut own).expect("shapes");
                same(d, &out, &own, &format!("d {d}, {count} rows, {length:?}"));
            }
        }
        gpu.put(Area::First, &many).and(gpu.superpose_held(1000, Length::Unit)).expect("done");
        let (mut own, mut out) = (vec![0.5; d], vec![0.5; d]);
        gpu.fetch(&mut out).expect("fetched");
        workspace.superpose(&many, None, Length::Unit, &mut own).expect("shapes");
        same(d, &out, &own, "held rows");
    }
}

#[test]
fn gpu_clean_up_matches_the_cpu_rows_and_bits() {
    let Some(alone) = alone() else { return };
    for (turn, (d, count)) in
        [(64, 1000), (100, 7), (512, 100), (512, 1), (1000, 333)].into_iter().enumerate()
    {
        alone.order(if turn % 2 == 0 { "order=backwards" } else { "fresh" });
        let mut many = rows(9, 0, count, d);
        // Ties: the first row again in the middle and at the end.
        let first = many[..d].to_vec();
        for row in [count / 2, count - 1] {
            many[row * d..][..d].copy_from_slice(&first);
        }
        let store = store_of(&many, d, count);
        let mut queries = rows(10, 0, 3, d);
        queries[..d].copy_from_slice(&first);
        queries[2 * d..].fill(0.0);
        let mut gpu = gpu(d, 1, 3, count);
        gpu.hold(&store).expect("held");
        for wanted in [1, 5, 33, MOST_TOP] {
            let lists = || [Best::of(wanted), Best::of(1), Best::of(wanted)];
            let (mut own, mut found) = (lists(), lists());
            store.nearest(&queries, &mut own).expect("shapes");
            gpu.nearest(&queries, &mut found).expect("done");
            for (own, found) in own.iter().zip(&found) {
                let listed = |best: &Best| -> Vec<(u32, u32)> {
                    best.list().iter().map(|m| (m.row, m.cosine.to_bits())).collect()
                };
                assert_eq!(listed(found), listed(own), "d {d}, {count} rows, {wanted} wanted");
            }
        }
    }
}

#[test]
fn wrong_shapes_are_refused_as_on_the_cpu_and_write_nothing() {
    let Some(_alone) = alone() else { return };
    let d = 128;
    let mut gpu = gpu(d, 2, 1, 2);
    let (a, mut out) = (rows(1, 0, 3, d), vec![0.5; 3 * d]);
    let preference = |fault: Fault| Err(GpuWorkspaceFault::Preference(fault));
    let asked = gpu.convolve(Verb::Bind, &a[..d], &a[..2 * d], Length::AsIs, &mut out[..d]);
    assert_eq!(asked, preference(Fault::Shape { what: "second factor", d, wanted: 1, found: 2 * d }));
    let asked = gpu.convolve(Verb::Bind, &a, &a, Length::AsIs, &mut out);
    assert_eq!(asked, preference(Fault::Range { what: "rows", found: 3, least: 0, most: 2 }));
    let asked = gpu.superpose(&a[..d], Some(&[1.0, 2.0]), Length::AsIs, &mut out[..d]);
    assert_eq!(asked, preference(Fault::Count { what: "weights", wanted: 1, found: 2 }));
    assert_eq!(
        gpu.hold(&store_of(&a, d, 3)),
        preference(Fault::Range { what: "store", found: 3, least: 0, most: 2 })
    );
    let mut best = [Best::of(1)];
    assert_eq!(
        gpu.nearest(&a[..d - 1], &mut best),
        preference(Fault::Shape { what: "queries", d, wanted: 1, found: d - 1 })
    );
    assert_eq!(gpu.nearest(&a[..d], &mut best).map(|()| best[0].list().len()), Ok(0), "no store is held");
    assert!(out.iter().all(|x| (x - 0.5).abs() < f32::EPSILON));
    let unfit = GpuWorkspace::open(dim(5000), Room { rows: 1, queries: 1, store: 1 })
        .map(|_| ())
        .expect_err("too long");
    assert_eq!(unfit, Unfit::Length { d: 5000, needed: 16_384 });
    let unfit = GpuWorkspace::open(dim(d), Room { rows: 1 << 40, queries: 1, store: 1 }).map(|_| ());
    assert!(matches!(unfit, Err(Unfit::Limit { .. })), "{unfit:?}");
}

#[test]
fn rows_get_at_most_80_percent_of_the_gpus_memory() {
    let Some(alone) = alone() else { return };
    alone.order("memory=64M");
    let d = 1024;
    let open = |rows| GpuWorkspace::open(dim(d), Room { rows, queries: 0, store: 0 });
    // There are three areas, with rows of 4 KiB.
    let taken = open(3_000).expect("37 of 64 MiB");
    let limit = 64 << 20;
    assert_eq!(taken.found().memory_bytes, limit);
    assert!(taken.bytes() > 3 * 3_000 * 4096 && taken.bytes() < limit * 4 / 5, "{}", taken.bytes());
    assert!(taken.reserved().is_some_and(|reserved| reserved >= taken.bytes() && reserved <= limit));
    let Err(refused) = open(5_000) else { panic!("61 of 64 MiB") };
    let Unfit::Limit { wanted, limit: of } = refused else { panic!("{refused:?}") };
    assert!(wanted > 3 * 5_000 * 4096 && of == limit, "{refused}");
    let why = format!("the rows need {wanted} bytes of the GPU's memory, more than 80 % of its {limit}");
    assert!(refused.to_string().starts_with(&why), "{refused}");
    let Err(refused) = open(3_000) else { panic!("twice 37 of 64 MiB") };
    assert!(matches!(refused, Unfit::Memory { free, .. } if free == limit - taken.bytes()), "{refused:?}");
}

#[test]
fn copying_to_the_gpu_keeps_the_rows_and_counts_bytes() {
    let Some(alone) = alone() else { return };
    let (d, count) = (128, 4);
    let mut gpu = gpu(d, count, 0, 0);
    let (a, b) = (rows(1, 0, count, d), rows(2, 0, count, d));
    gpu.put(Area::First, &a).and(gpu.put(Area::Second, &b)).expect("put");
    let before = alone.counts();
    // As many bytes as binding reads and writes in total: three areas. The copy reads half of them, one and a
    // half areas, and writes the other half, so two copies are needed.
    gpu.copy_held(3 * size_of_val(&a[..])).expect("done");
    let now = alone.counts();
    assert_eq!((now.copies_within - before.copies_within, now.kernels - before.kernels), (2, 0));
    let mut out = vec![0.0; count * d];
    gpu.fetch(&mut out).expect("fetched");
    // The second copy, of half an area, overwrote the first half of the first copy.
    assert_eq!(bits(&out), bits(&[&b[..count * d / 2], &a[count * d / 2..]].concat()));
    let asked = gpu.copy_held(5 * size_of_val(&a[..]));
    let preference = Fault::Range { what: "bytes of a copy", found: 5 * 2048, least: 0, most: 4 * 2048 };
    assert_eq!(asked, Err(GpuWorkspaceFault::Preference(preference)));
    gpu.convolve_held(Verb::Bind, count, Length::AsIs).and_then(|()| gpu.fetch(&mut out)).expect("done");
    same(d, &out, &on_processor(d, (Verb::Bind, Length::AsIs), &a, &b), "after copies");
}

#[test]
fn a_failed_call_is_named_and_the_next_one_works() {
    let Some(_alone) = alone() else { return };
    let (d, watch) = (128, Arc::new(Watch::new()));
    let mut gpu = GpuWorkspace::open_with(dim(d), Room { rows: 1, queries: 1, store: 1 }, watch.clone())
        .expect("a GPU");
    let (a, mut out) = (unitary_rows(1, 1, d), vec![0.0; d]);
    watch.inject(Some(GpuFault::Error));
    let fault = gpu.convolve(Verb::Bind, &a, &a, Length::AsIs, &mut out);
    assert!(matches!(fault, Err(GpuWorkspaceFault::Gpu(_))), "{fault:?}");
    assert!(out.iter().all(|x| x.to_bits() == 0));
    watch.inject(None);
    gpu.convolve(Verb::Bind, &a, &a, Length::AsIs, &mut out).expect("done");
    same(d, &out, &on_processor(d, (Verb::Bind, Length::AsIs), &a, &a), "after a fault");
}

#[test]
fn gpu_operations_do_not_allocate() {
    let Some(_alone) = alone() else { return };
    let d = 128;
    let mut gpu = gpu(d, 4, 1, 4);
    let (a, mut out) = (rows(1, 0, 4, d), vec![0.0; 4 * d]);
    let mut best = [Best::of(3)];
    gpu.hold(&store_of(&a, d, 4)).expect("held");
    let mut work = |gpu: &mut GpuWorkspace| {
        let done = [
            gpu.convolve(Verb::Bind, &a, &a, Length::Unit, &mut out),
            gpu.superpose(&a, None, Length::Unit, &mut out[..d]),
            gpu.nearest(&a[..d], &mut best),
        ];
        assert_eq!(done, [Ok(()); 3]);
    };
    work(&mut gpu);
    assert_eq!(allocations_in(|| work(&mut gpu)), 0);
}

#[test]
fn compiler_may_neither_fuse_nor_approximate_memory_math() {
    let image = std::fs::read_to_string("kernels/ganglion.ptx").expect("the image");
    let own = ["convolve_", "superpose_", "nearest_"];
    let mut entries = 0;
    for entry in image.split(".visible .entry ").skip(1) {
        let name = entry.split('(').next().unwrap_or_default();
        if !own.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        entries += 1;
        let words = entry.split_whitespace().filter(|word| word.ends_with(".f32"));
        for word in words {
            let computes = ["add.", "sub.", "mul.", "fma.", "mad.", "div.", "sqrt.", "rcp.", "rsqrt."];
            if computes.iter().any(|kind| word.starts_with(kind)) {
                assert!(word.contains(".rn") && !word.contains(".ftz"), "{name}: {word}");
            }
        }
    }
    assert_eq!(entries, 7 + 2 + 2);
}
