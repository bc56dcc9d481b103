//! Compares a brain that serves many robots with the same brain serving a single one, in alternating turns. A
//! thread of this process sends the requests, those of each robot at that robot's own phase. The answers are
//! collected where the brain would send them. No network is involved.

use crate::base::plan::{Board, EngineKind};
use crate::base::seed::{Stream, uniform};
use crate::base::time::{Clock, Instant, MonotonicClock, Span};
use crate::drive::trace::{Latency, latency_histogram, note};
use crate::field::FieldInput;
use crate::field::remote::message::{CycleAnswer, CycleRequest, Verdict};
use crate::runtime::brain::admission::{Demand, admit};
use crate::runtime::brain::boards::ServedBoard;
use crate::runtime::brain::engine::Unopened;
use crate::runtime::brain::robots::{Joined, Limits, Refusal, RobotId, Robots};
use crate::runtime::brain::workers::{Event, Hub, Outlet, Workers};
use crate::system::rt::process_time;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Length of a turn: long compared with a period, but so short that the load of a shared machine hardly
/// changes from one turn to the next.
const TURN: Span = Span::from_millis(1_000);
/// One turn in this many belongs to the single robot.
const TURNS: u64 = 4;
/// First cycles of each robot, which do not count: they touch memory and fill caches.
const WARM_UP: u64 = 10;
/// How long to wait for the last answers.
const LAST_ANSWERS: Duration = Duration::from_millis(500);
/// Admits every robot: the benchmark also measures more robots than a brain would admit.
const NO_LIMIT: usize = 1 << 16;

/// The settings of the measurement.
pub struct BrainBench {
    /// The board of every robot.
    pub board: Board,
    /// Number of robots in the turns with many robots.
    pub robots: usize,
    /// Cycles per second of each robot.
    pub hz: u32,
    /// Number of compute threads.
    pub threads: usize,
    /// The engine of every robot.
    pub engine: EngineKind,
}

/// The figures for one kind of turn.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Served {
    /// Requests sent, without the warm-up.
    pub asked: u64,
    /// Requests answered before their deadline, which is one period after they were due.
    pub in_time: u64,
    /// Requests answered after their deadline.
    pub missed: u64,
    /// Requests that were too late to be computed.
    pub late: u64,
    /// Requests that the brain refused or failed to compute.
    pub failed: u64,
    /// Requests without an answer by the end, usually because a newer request replaced them.
    pub unanswered: u64,
    /// From the time a request was due until its computation began, microseconds.
    pub waited_us: Option<Latency>,
    /// Compute time, microseconds.
    pub computed_us: Option<Latency>,
    /// From the time a request was due until its answer, microseconds.
    pub answered_us: Option<Latency>,
}

/// The figures of one bench.
#[derive(Clone, Debug, serde::Serialize)]
pub struct BrainFigures {
    /// Name of the engine.
    pub engine: String,
    /// The single robot.
    pub alone: Served,
    /// All robots together.
    pub together: Served,
    /// Cores in use: processor time of this process per second of the turns with many robots.
    pub cores: f64,
    /// 99th percentile of the cycle time as the brain measured it at the start, microseconds.
    pub cycle_us: f64,
    /// Number of robots that the brain would admit at that cycle time.
    pub admitted: usize,
}

/// Why there is no measurement.
#[derive(Debug)]
pub enum NoBench {
    /// No engine could be built for a robot.
    Unopened(Unopened),
    /// The brain refused a robot.
    Refused(Refusal),
    /// The system cannot start another thread.
    Threads(std::io::Error),
}

impl fmt::Display for NoBench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoBench::Unopened(why) => why.fmt(f),
            NoBench::Refused(why) => why.fmt(f),
            NoBench::Threads(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for NoBench {}

struct Tally {
    served: Served,
    waited: Histogram<u64>,
    computed: Histogram<u64>,
    answered: Histogram<u64>,
}

impl Tally {
    fn new() -> Tally {
        let histogram = latency_histogram;
        Tally { served: Served::default(), waited: histogram(), computed: histogram(), answered: histogram() }
    }

    fn take(&mut self, answer: &CycleAnswer, period: Span, now: Instant) {
        let took = now.since(answer.sent);
        match answer.verdict {
            Verdict::Answered if took <= period => self.served.in_time += 1,
            Verdict::Answered => self.served.missed += 1,
            Verdict::Late => return self.served.late += 1,
            Verdict::Failed | Verdict::Refused => return self.served.failed += 1,
        }
        note(&mut self.waited, answer.waited);
        note(&mut self.computed, answer.computed);
        note(&mut self.answered, took);
    }

    fn figures(&self) -> Served {
        let Served { asked, in_time, missed, late, failed, .. } = self.served;
        Served {
            unanswered: asked.saturating_sub(in_time + missed + late + failed),
            waited_us: Latency::of(&self.waited),
            computed_us: Latency::of(&self.computed),
            answered_us: Latency::of(&self.answered),
            ..self.served.clone()
        }
    }
}

/// Receives the brain's answers.
struct Collector {
    period: Span,
    lone: Mutex<Option<RobotId>>,
    alone: Mutex<Tally>,
    together: Mutex<Tally>,
    opened: AtomicUsize,
    engine: Mutex<String>,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Collector {
    fn of(&self, robot: RobotId) -> MutexGuard<'_, Tally> {
        if *held(&self.lone) == Some(robot) { held(&self.alone) } else { held(&self.together) }
    }
}

impl Outlet for Collector {
    fn answer(&self, robot: RobotId, answer: &CycleAnswer) {
        if answer.cycle >= WARM_UP {
            self.of(robot).take(answer, self.period, MonotonicClock.now());
        }
    }

    fn opened(&self, _robot: RobotId, opened: &Result<String, Refusal>) {
        if let Ok(name) = opened {
            held(&self.engine).clone_from(name);
        }
        self.opened.fetch_add(1, Ordering::Release);
    }

    fn tell(&self, _event: Event) {}
}

impl BrainBench {
    /// Measures for `length`, or until `interrupted`.
    pub fn run(&self, length: Span, interrupted: &AtomicBool) -> Result<BrainFigures, NoBench> {
        let board = ServedBoard::new(self.board.clone(), [0; 32], self.engine, self.threads);
        let cycle = board.prepare().map_err(NoBench::Unopened)?;
        let period = Span::from_nanos(1_000_000_000 / u64::from(self.hz.max(1)));
        let limits = Limits { robots: NO_LIMIT, threads: NO_LIMIT, state: None };
        let collector = Arc::new(Collector {
            period,
            lone: Mutex::new(None),
            alone: Mutex::new(Tally::new()),
            together: Mutex::new(Tally::new()),
            opened: AtomicUsize::new(0),
            engine: Mutex::new(String::new()),
        });
        let start = Workers::start(Robots::new(limits), self.threads, |_| collector.clone());
        let (workers, _) = start.map_err(NoBench::Threads)?;
        let hub = workers.hub();
        let ids = join_all(hub, &board, self.robots + 1, period)?;
        while collector.opened.load(Ordering::Acquire) < ids.len() {
            if interrupted.load(Ordering::Relaxed) {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let (lone, all) = (&ids[..1], &ids[1..]);
        *held(&collector.lone) = Some(lone[0]);
        let mut senders = [Sender::new(lone, period), Sender::new(all, period)];
        let (mut cores, mut turns) = (Span::ZERO, 0u64);
        let until = MonotonicClock.now() + length;
        while MonotonicClock.now() < until && !interrupted.load(Ordering::Relaxed) {
            let together = usize::from(!turns.is_multiple_of(TURNS));
            let before = process_time();
            let end = (MonotonicClock.now() + TURN).min(until);
            let asked = senders[together].send_until(end, &board, hub);
            let tally = if together == 1 { &collector.together } else { &collector.alone };
            held(tally).served.asked += asked;
            if together == 1 {
                cores = cores + process_time().less(before);
            }
            turns += 1;
        }
        std::thread::sleep(LAST_ANSWERS);
        let spent = Span::from_nanos(TURN.as_nanos() * (turns - turns.div_ceil(TURNS)).max(1));
        let present = |robots| std::iter::repeat_n(Demand { cycle, period }, robots);
        let fits = |robots: &usize| admit(self.threads, present(*robots), Demand { cycle, period }).is_ok();
        let figures = BrainFigures {
            engine: held(&collector.engine).clone(),
            alone: held(&collector.alone).figures(),
            together: held(&collector.together).figures(),
            cores: cores.as_secs_f64() / spent.as_secs_f64(),
            cycle_us: cycle.as_micros_f64(),
            admitted: (0..NO_LIMIT).take_while(fits).count(),
        };
        workers.end();
        Ok(figures)
    }
}

fn join_all(
    hub: &Hub,
    board: &Arc<ServedBoard>,
    count: usize,
    period: Span,
) -> Result<Vec<RobotId>, NoBench> {
    let one = |number| {
        let name = format!("robot-{number}");
        let joined = hub.robots().join(&name, board, period, MonotonicClock.now());
        match joined.map_err(NoBench::Refused)? {
            Joined::Opens(id, opening) => {
                hub.open(id, opening);
                Ok(id)
            }
            Joined::Ready(id) | Joined::Waits(id) => Ok(id),
        }
    };
    (0..count).map(one).collect()
}

/// Sends the requests of some robots, each at its own phase of the period.
struct Sender {
    /// The robots, ordered by phase, each with the number of its next cycle.
    robots: BTreeMap<(Span, RobotId), u64>,
    period: Span,
}

impl Sender {
    fn new(ids: &[RobotId], period: Span) -> Sender {
        let phase =
            |id: &RobotId| Span::from_secs_f64(uniform(5, Stream::Patterns, id.0) * period.as_secs_f64());
        Sender { robots: ids.iter().map(|id| ((phase(id), *id), 0)).collect(), period }
    }

    /// Sends until `end`, each request on time or as soon as this thread gets a core. Returns how many of the
    /// requests count.
    fn send_until(&mut self, end: Instant, board: &ServedBoard, hub: &Hub) -> u64 {
        let mut asked = 0;
        let mut period = MonotonicClock.now();
        let count = board.board.field.shape.sensors;
        while period < end {
            for ((phase, id), cycle) in &mut self.robots {
                let due = period + *phase;
                MonotonicClock.sleep_until(due);
                let mut input = FieldInput { cycle: *cycle, ..FieldInput::AT_REST };
                for (sensor, value) in input.sensors.iter_mut().enumerate().take(count) {
                    *value = (0.1 * *cycle as f32 + sensor as f32).sin();
                }
                // If this thread is late, the delay counts towards the latency, as a network's would.
                let request = CycleRequest::of(&input, count, due, self.period);
                hub.receive(*id, &request.encode(), due);
                asked += u64::from(*cycle >= WARM_UP);
                *cycle += 1;
            }
            period += self.period;
        }
        asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::plan::Shape;
    use crate::deploy::board::built_in;

    #[test]
    fn each_verdict_has_its_own_counter() {
        let request = CycleRequest::of(&FieldInput::AT_REST, 1, Instant::ZERO, Span::from_millis(50));
        let (period, now) = (Span::from_millis(50), Instant::ZERO + Span::from_millis(60));
        let mut tally = Tally::new();
        tally.served.asked = 10;
        for (verdict, times) in [(Verdict::Late, 1), (Verdict::Failed, 2), (Verdict::Refused, 3)] {
            (0..times).for_each(|_| tally.take(&CycleAnswer::without(&request, verdict), period, now));
        }
        let Served { in_time, missed, late, failed, unanswered, .. } = tally.figures();
        assert_eq!((in_time, missed, late, failed, unanswered), (0, 0, 1, 5, 4));
    }

    #[test]
    fn every_request_is_accounted_for() {
        let mut board = built_in("sim").unwrap().unwrap().board;
        board.field.shape = Shape { grid: 8, ..board.field.shape };
        let bench = BrainBench { board, robots: 3, hz: 20, threads: 2, engine: EngineKind::Cpu };
        let figures = bench.run(Span::from_millis(2_500), &AtomicBool::new(false)).unwrap();
        for served in [&figures.alone, &figures.together] {
            let Served { in_time, missed, late, failed, unanswered, .. } = served;
            let answered = in_time + missed + late + failed + unanswered;
            assert_eq!(served.asked, answered, "{served:?}");
            let computed = served.computed_us.as_ref().map_or(0, |latency| latency.n);
            assert_eq!(computed, served.in_time + served.missed);
        }
        assert!(figures.alone.asked > 0 && figures.together.asked > figures.alone.asked);
        assert!(figures.engine.contains("cpu"), "{}", figures.engine);
    }
}
