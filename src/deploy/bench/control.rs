//! The cost of the loop, compared with a bare timer on the same thread.

use crate::base::plan::RtPlan;
use crate::base::time::{Clock, Grid, Span};
use crate::drive::trace::{Recorder, latency_histogram, note};
use crate::runtime::robot::Robot;
use crate::runtime::tick::Tick;
use crate::system::executor::{END_PATIENCE, Threads};
use crate::system::rt::{Granted, Role, become_real_time};
use hdrhistogram::Histogram;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Length of a block: so short that the load of a shared machine hardly changes from one block to the next,
/// but long compared with the first slot, which finds the caches as the other kind of block left them.
const BLOCK: Span = Span::from_millis(250);
/// The robot runs this long before anything counts: it sets up its devices and makes its first-use
/// allocations.
const WARM_UP: Span = Span::from_millis(1_000);

/// The measurement.
pub struct LoopFigures {
    /// Lateness of the loop's wake-ups, and time of a tick from start to end, in the counted blocks.
    pub recorder: Recorder,
    /// What the tick's thread measured.
    pub measured: Measured,
    /// The rights that the system granted each thread.
    pub granted: Vec<(&'static str, Granted)>,
}

/// What only the tick's thread can measure.
pub struct Measured {
    /// Lateness of the wake-up after a bare absolute sleep.
    pub bare: Histogram<u64>,
    /// Slots of the loop that were skipped.
    pub slots_skipped: u64,
}

/// Measures `robot` for `length` of real time: half of it with the loop, half with the bare timer.
pub fn bench_loop(
    robot: Robot,
    clock: &Arc<dyn Clock>,
    length: Span,
    plan: RtPlan,
    interrupted: &Arc<AtomicBool>,
    mut watch: impl FnMut(f64),
) -> std::io::Result<LoopFigures> {
    let Robot { tick, workers, mut records, .. } = robot;
    let mut recorder = tick.recorder();
    let mut threads = Threads::new();
    for started in workers {
        threads.start(started.worker, started.waker, clock.clone(), started.role, plan)?;
    }
    let counting = Arc::new(AtomicBool::new(false));
    let (start, measuring, stop) = (clock.now(), counting.clone(), interrupted.clone());
    let measurement = thread::Builder::new().name("tick".into()).spawn(move || {
        let granted = become_real_time(&plan, Role::Tick);
        (measure(tick, length, &measuring, &stop), granted)
    })?;
    while !measurement.is_finished() {
        thread::sleep(Duration::from_millis(20));
        let count = counting.load(Ordering::Acquire);
        while let Ok(record) = records.pop() {
            if count {
                recorder.absorb(&record);
            }
        }
        watch(clock.now().since(start).as_secs_f64() / (length + WARM_UP).as_secs_f64());
    }
    let joined = measurement.join();
    while let Ok(record) = records.pop() {
        recorder.absorb(&record);
    }
    let mut granted = std::mem::take(&mut threads.granted);
    threads.end(END_PATIENCE);
    let (measured, own) = joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    granted.insert(0, ("tick", own));
    Ok(LoopFigures { recorder, measured, granted })
}

/// The measuring thread: warm-up, then alternating blocks.
fn measure(mut tick: Tick, length: Span, counting: &AtomicBool, interrupted: &AtomicBool) -> Measured {
    loop_block(&mut tick, WARM_UP);
    let mut measured = Measured { bare: latency_histogram(), slots_skipped: 0 };
    // Let the non-real-time thread drain the warm-up's records from the ring before anything counts.
    let settled = tick.clock.now() + Span::from_millis(100);
    tick.clock.sleep_until(settled);
    counting.store(true, Ordering::Release);
    let until = tick.clock.now() + length;
    while tick.clock.now() < until && !interrupted.load(Ordering::Relaxed) {
        bare_block(tick.clock.as_ref(), tick.grid().period(), BLOCK, &mut measured.bare);
        measured.slots_skipped += loop_block(&mut tick, BLOCK);
    }
    measured
}

/// Sleeps until each slot of a grid, and does nothing else.
fn bare_block(clock: &dyn Clock, period: Span, length: Span, lateness: &mut Histogram<u64>) {
    let start = clock.now() + period;
    let mut grid = Grid::new(start, period);
    while grid.slot() < start + length {
        clock.sleep_until(grid.slot());
        let now = clock.now();
        note(lateness, now.since(grid.slot()));
        grid.done(now);
    }
}

/// Runs the real loop; returns the number of slots that it skipped.
fn loop_block(tick: &mut Tick, length: Span) -> u64 {
    let start = tick.clock.now() + tick.grid().period();
    tick.start_at(start);
    while tick.slot() < start + length {
        tick.clock.sleep_until(tick.slot());
        tick.run();
    }
    tick.grid().slots_skipped()
}
