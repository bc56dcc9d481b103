//! Host memory must not be read or written while a device copies to it, nor written while a device copies
//! from it.

use super::{BYTES, Desk, alone, desk, until};
use ganglion::system::gpu::{Event, GpuError, Pinned};

/// Pending, or in use.
const NOT_READY: i32 = 600;

fn code<T>(said: Result<T, GpuError>) -> Result<(), i32> {
    said.map(|_| ()).map_err(|error| error.code)
}

#[test]
fn copied_memory_is_read_only_after_the_copy_has_finished() {
    let Some(alone) = alone() else { return };
    let mut desk = desk();
    let (at, after) = (desk.pool.address(), Event::new(&desk.gpu).expect("an event"));
    desk.pinned.bytes_mut().expect("free").fill(3);
    desk.stream.copy_in(at, &desk.pinned, 0..64).expect("in");
    desk.settle();
    alone.order("stall=0");
    desk.stream.copy_out(at, &desk.pinned, 128..192).expect("out");
    desk.stream.copy_in(at, &desk.pinned, 256..320).expect("in");
    desk.stream.record(&after).expect("recorded");
    for range in [128..192, 0..129, 191..BYTES] {
        assert_eq!(code(desk.pinned.part(range.clone())), Err(NOT_READY), "a copy writes to {range:?}");
    }
    assert!(desk.pinned.part(192..BYTES).is_ok(), "memory that a copy reads may be read");
    assert_eq!(code(desk.pinned.part_mut(319..400)), Err(NOT_READY), "but not written");
    assert!(desk.pinned.part_mut(0..128).is_ok(), "outside both copies");
    alone.order("release");
    until(|| after.is_done()).expect("no error");
    assert_eq!(desk.pinned.part(128..192).expect("done")[..], [3; 64]);
    assert!(desk.pinned.bytes_mut().is_ok());
}

#[test]
fn nothing_is_copied_to_memory_being_read() {
    let Some(_alone) = alone() else { return };
    let Desk { gpu, stream, pool, pinned, .. } = &desk();
    let at = pool.address();
    let graph = stream.capture(|| stream.copy_out(at, pinned, 0..64)).expect("captured");
    let look = pinned.part(0..64).expect("free");
    assert_eq!(code(stream.copy_out(at, pinned, 0..64)), Err(NOT_READY));
    assert_eq!(code(stream.replay(&graph)), Err(NOT_READY));
    assert!(stream.copy_in(at, pinned, 0..64).is_ok(), "host and device may both read");
    drop(look);
    stream.replay(&graph).expect("the memory is free");
    assert_eq!(code(pinned.part(0..1)), Err(NOT_READY), "a replay copies as well");
    until(|| stream.is_done()).expect("no error");
    assert!(pinned.part(0..1).is_ok());
    // Nor does the device read memory that the host is writing; only a replay can attempt that.
    let mut own = Pinned::take(gpu, 64).expect("pinned");
    let graph = stream.capture(|| stream.copy_in(at, &own, 0..64)).expect("captured");
    let written = own.bytes_mut().expect("free");
    assert_eq!(code(stream.replay(&graph)), Err(NOT_READY));
    drop(written);
    stream.replay(&graph).expect("the memory is free");
    until(|| stream.is_done()).expect("no error");
}

#[test]
fn a_graphs_inner_event_does_not_cover_earlier_copies() {
    let Some(alone) = alone() else { return };
    let Desk { gpu, stream, pool, pinned, .. } = &desk();
    let (at, mark) = (pool.address(), Event::new(gpu).expect("an event"));
    let graph = stream.capture(|| stream.record(&mark)).expect("captured");
    stream.replay(&graph).expect("replayed");
    until(|| mark.is_done()).expect("no error");
    alone.order("stall=0");
    stream.copy_out(at, pinned, 0..64).expect("out");
    let _ = mark.is_done();
    assert_eq!(code(pinned.part(0..64)), Err(NOT_READY));
    alone.order("release");
    until(|| stream.is_done()).expect("no error");
    assert!(pinned.part(0..64).is_ok());
}
