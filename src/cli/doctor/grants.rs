//! What the system grants: real-time priority, locked memory, timer precision. The requests are made on
//! threads that end right after, so that the program itself keeps nothing that was granted.

use std::num::NonZeroU64;
use std::thread;

use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use super::first_slots::{self, FirstSlots};
use super::{Finding, Verdict};
use crate::base::plan::{Board, RtPlan};
use crate::base::time::{Clock, Grid, MonotonicClock, Span};
use crate::cli::exit::Failure;
use crate::system::rt::{Granted, Refusal, Request, Role, become_real_time};

/// What to request without a board: the priority in `picarx-v4.toml`, and no dedicated core.
const USUAL: RtPlan = RtPlan { strict: false, priority: 80, cpu: None, lock_memory: true };

/// Period of the timer measurement: that of the fastest supported control loop.
const PERIOD: Span = Span::from_millis(1);
/// Number of measured sleeps: a fifth of a second is enough for a quick look. `ganglion bench loop` measures
/// thoroughly.
const SLEEPS: u64 = 200;

/// How late a bare timer woke up, relative to its scheduled time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Lateness {
    /// Number of sleeps.
    pub n: u64,
    /// Median in us.
    pub p50_us: f64,
    /// 99th percentile in us.
    pub p99_us: f64,
    /// Worst in us.
    pub max_us: f64,
}

/// The plan to request.
pub(super) fn plan(board: Option<&Board>) -> RtPlan {
    board.map_or(USUAL, |board| board.rt)
}

/// Makes the requests of a tick thread and of a bus thread, measures the tick's timer, and then, on the same
/// thread, how late the first slots after a pause are.
pub(super) fn ask(plan: RtPlan) -> Result<(Vec<Granted>, Lateness, FirstSlots, Vec<Finding>), Failure> {
    let tick =
        throw_away(move || (become_real_time(&plan, Role::Tick), bare_timer(), first_slots::measure()))?;
    let bus = throw_away(move || become_real_time(&plan, Role::Bus))?;
    if plan.lock_memory {
        // The memory lock belongs to the process and would outlive the thread. Without a lock this does
        // nothing.
        let _ = rustix::mm::munlockall();
    }
    let (tick, lateness, first_slots) = tick;
    let mut findings = about(&plan, &tick, &bus);
    findings.push(limit("limit rtprio", Resource::Rtprio, ""));
    findings.push(limit("limit memlock", Resource::Memlock, " bytes"));
    findings.push(about_timer(&tick, &lateness));
    Ok((vec![tick, bus], lateness, first_slots, findings))
}

fn throw_away<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    let thread = thread::Builder::new().name("doctor".into()).spawn(work);
    let thread = thread.map_err(|error| Failure::unavailable(format!("cannot start a thread: {error}")))?;
    thread.join().map_err(|_| Failure::bug("the thread that requests real-time scheduling panicked"))
}

/// One finding for each request of the plan, from what the threads were granted.
fn about(plan: &RtPlan, tick: &Granted, bus: &Granted) -> Vec<Finding> {
    let mut findings = Vec::new();
    if plan.priority > 0 {
        let found = format!("SCHED_FIFO, tick {}, bus {}", tick.priority, bus.priority);
        let refusal = refused(tick, |what| matches!(what, Request::Priority(_)))
            .or_else(|| refused(bus, |what| matches!(what, Request::Priority(_))));
        findings.push(finding("priority", found, refusal, plan.strict));
    }
    if plan.lock_memory {
        let found = format!("locked, {} KiB", tick.locked_kib);
        let refusal = refused(tick, |what| what == Request::Memory);
        findings.push(finding("memory lock", found, refusal, plan.strict));
    }
    if let Some(cpu) = plan.cpu {
        let found = format!("the tick has core {cpu}");
        let refusal = refused(tick, |what| matches!(what, Request::Core(_)));
        findings.push(finding("core", found, refusal, plan.strict));
    }
    let slack = format!("{} ns for the tick", tick.timer_slack_ns);
    let refusal = refused(tick, |what| what == Request::TimerSlack);
    findings.push(finding("timer slack", slack, refusal, plan.strict));
    findings
}

fn refused(granted: &Granted, which: impl Fn(Request) -> bool) -> Option<Refusal> {
    granted.refusals.iter().copied().find(|refusal| which(refusal.what))
}

fn finding(topic: &'static str, found: String, refusal: Option<Refusal>, required: bool) -> Finding {
    match refusal {
        None => Finding::ok(topic, found),
        Some(refusal) => Finding::refused(topic, refusal, refusal.fix()),
    }
    .needed(required)
}

fn limit(topic: &'static str, resource: Resource, unit: &str) -> Finding {
    let words = |value: Option<u64>| value.map_or("unlimited".into(), |value| format!("{value}{unit}"));
    let limit = getrlimit(resource);
    // No verdict: root and capabilities bypass these limits, and the lines above show the outcome.
    Finding::new(topic, Verdict::Ok, format!("{}, hard limit {}", words(limit.current), words(limit.maximum)))
}

/// Sleeps on the tick's grid and does nothing else.
fn bare_timer() -> Lateness {
    let clock = MonotonicClock;
    let mut grid = Grid::new(clock.now() + PERIOD, PERIOD);
    let mut late_ns = Vec::with_capacity(SLEEPS as usize);
    for _ in 0..SLEEPS {
        let slot = grid.slot();
        clock.sleep_until(slot);
        let now = clock.now();
        late_ns.push(now.since(slot).as_nanos());
        grid.done(now);
    }
    late_ns.sort_unstable();
    summary(&late_ns)
}

/// Summary of sorted samples, at least one.
pub(super) fn summary(late_ns: &[u64]) -> Lateness {
    let at = |percent: usize| {
        let rank = (late_ns.len() * percent).div_ceil(100).max(1); // nearest rank
        late_ns[rank - 1] as f64 / 1e3
    };
    Lateness { n: late_ns.len() as u64, p50_us: at(50), p99_us: at(99), max_us: at(100) }
}

fn about_timer(tick: &Granted, lateness: &Lateness) -> Finding {
    let Lateness { n, p50_us, p99_us, max_us } = lateness;
    let found = format!(
        "measured now at {} Hz, policy {:?}: {p50_us:.1} us late p50, {p99_us:.1} p99, {max_us:.1} max (n = {n})",
        1_000_000_000 / PERIOD.as_nanos(),
        tick.policy,
    );
    // A tenth of the period, which a control loop tolerates.
    let tolerable_us = PERIOD.as_micros_f64() / 10.0;
    if *p99_us <= tolerable_us {
        Finding::ok("bare timer", found)
    } else {
        let fix = format!(
            "more than {tolerable_us:.0} us of lateness is too much for a 1 ms period: grant the priority, set the \
             governor to performance, keep other work off the core; 'ganglion bench loop' measures for longer"
        );
        Finding::warn("bare timer", found, fix)
    }
}

/// The resolution of the grid's clock as the kernel reports it.
pub(super) fn clock_resolution_ns() -> Option<NonZeroU64> {
    let t = rustix::time::clock_getres(rustix::time::ClockId::Monotonic);
    NonZeroU64::new(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_use_the_nearest_rank() {
        let of = |n: u64| summary(&(1..=n).map(|us| us * 1000).collect::<Vec<_>>());
        assert_eq!(of(200), Lateness { n: 200, p50_us: 100.0, p99_us: 198.0, max_us: 200.0 });
        assert_eq!(of(1), Lateness { n: 1, p50_us: 1.0, p99_us: 1.0, max_us: 1.0 });
    }

    #[test]
    fn requesting_grants_leaves_the_calling_thread_unchanged() {
        let before = crate::system::rt::grant::look(Role::Tick);
        // Without the memory lock: it belongs to the process, and other tests of this process check it.
        let plan = RtPlan { lock_memory: false, ..USUAL };
        let (granted, lateness, _, findings) = ask(plan).unwrap();
        let after = crate::system::rt::grant::look(Role::Tick);
        assert_eq!(
            (after.policy, after.priority, after.cores),
            (before.policy, before.priority, before.cores)
        );
        assert_eq!(granted.iter().map(|g| g.role).collect::<Vec<_>>(), [Role::Tick, Role::Bus]);
        assert_eq!(lateness.n, SLEEPS);
        // Each refusal of a thread is a line with a fix.
        let refused = |topic: &str| {
            findings.iter().any(|f| f.topic == topic && f.verdict == Verdict::Refused && f.fix.is_some())
        };
        let requested = |request: Request| granted[0].refusals.iter().any(|refusal| refusal.what == request);
        assert_eq!(refused("priority"), requested(Request::Priority(80)));
        assert_eq!(refused("timer slack"), requested(Request::TimerSlack));
    }

    #[test]
    fn only_a_strict_board_requires_its_grants() {
        let mut granted = crate::system::rt::grant::look(Role::Tick);
        let refusal = Refusal { what: Request::Priority(80), errno: libc::EPERM };
        granted.refusals.push(refusal).unwrap();
        for strict in [false, true] {
            let findings = about(&RtPlan { strict, ..USUAL }, &granted, &granted);
            let priority = findings.iter().find(|f| f.topic == "priority").unwrap();
            assert_eq!(priority.verdict, Verdict::Refused);
            assert_eq!(priority.stops_the_board(), strict);
            assert_eq!(super::super::verdict(&findings).is_err(), strict);
        }
    }
}
