//! Shared by all fuzz targets: the entry points (the same as in the tests), a mutator that keeps the digest
//! of a container valid, and limits on what an input may cost.

mod cost;
#[path = "../../tests/folder.rs"]
pub mod folder;
#[path = "../../tests/hostile/ways.rs"]
pub mod ways;

use libfuzzer_sys::fuzzer_mutate;
use ways::{Form, WAYS_IN, WayIn, payload_of, signed};

pub use libfuzzer_sys;

#[global_allocator]
static HEAP: cost::Heap = cost::Heap;

/// One in this many mutations of a container changes all of it, including its digest.
const WHOLE_EVERY: u32 = 16;

/// The entry point with this name.
pub fn way_in(name: &str) -> &'static WayIn {
    WAYS_IN.iter().find(|way| way.name == name).expect("it is in the list")
}

/// Feeds an input to the entry point and checks its cost. The first call also feeds the seeds beforehand, so
/// that one-time initialisation does not count as a cost of the input.
pub fn take(way: &WayIn, bytes: &[u8]) {
    static BEGUN: std::sync::Once = std::sync::Once::new();
    BEGUN.call_once(|| (way.seeds)().iter().for_each(|seed| _ = (way.take)(seed)));
    cost::of(bytes.len(), || (way.take)(bytes));
}

/// Mutates the input in the first `size` bytes of `data` into one of at most `most` bytes; returns the new
/// length.
pub fn change(way: &WayIn, data: &mut [u8], size: usize, most: usize, seed: u32) -> usize {
    let payload =
        payload_of(&data[..size]).filter(|_| way.form == Form::Signed && !seed.is_multiple_of(WHOLE_EVERY));
    let Some(payload) = payload else { return fuzzer_mutate(data, size, most) };
    let frame = size - payload.len();
    let mut body = data[payload.clone()].to_vec();
    let length = body.len();
    body.resize(most - frame, 0);
    let length = fuzzer_mutate(&mut body, length, most - frame);
    let whole = signed(&data[..payload.start], &body[..length]);
    data[..whole.len()].copy_from_slice(&whole);
    whole.len()
}

/// The body of a fuzz target.
#[macro_export]
macro_rules! way_in {
    ($name:literal) => {
        use $crate::libfuzzer_sys;
        $crate::libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
            $crate::change($crate::way_in($name), data, size, max_size, seed)
        });
        $crate::libfuzzer_sys::fuzz_target!(|data: &[u8]| $crate::take($crate::way_in($name), data));
    };
}
