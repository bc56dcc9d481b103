//! What all fuzz targets share: the ways in (those of the tests), how a container is changed so that its
//! digest holds, and what an input may cost.

mod cost;
#[path = "../../tests/hostile/ways.rs"]
pub mod ways;

use libfuzzer_sys::fuzzer_mutate;
use ways::{Form, WAYS_IN, WayIn, payload_of, signed};

pub use libfuzzer_sys;

#[global_allocator]
static HEAP: cost::Heap = cost::Heap;

/// One change of a container in so many is of the whole of it, digest and all.
const WHOLE_EVERY: u32 = 16;

/// The way in of that name.
pub fn way_in(name: &str) -> &'static WayIn {
    WAYS_IN.iter().find(|way| way.name == name).expect("it is in the list")
}

/// Takes an input, and looks at what that cost. The first one of a process pays for what is made once.
pub fn take(way: &WayIn, bytes: &[u8]) {
    static BEGUN: std::sync::Once = std::sync::Once::new();
    BEGUN.call_once(|| (way.seeds)().iter().for_each(|seed| _ = (way.take)(seed)));
    cost::of(bytes.len(), || (way.take)(bytes));
}

/// Changes `data`, of whose bytes `size` are an input, into another input of at most `most` bytes; its
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
