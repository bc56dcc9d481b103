//! The engine on its own thread: takes the newest stimulus, gives a result, and keeps what goes
//! wrong with an engine (a panic, a hang, a slow run) away from the tick, which only ever sees
//! that a result is missing.

use super::{Engine, FieldPlan, Readout, Refused, Response, Rung, Stimulus};
use crate::board::plan::{Board, Decision};
use crate::command::MAX_MOTORS;
use crate::crew::Worker;
use crate::frame::MAX_SENSORS;
use crate::learn::score::decide;
use crate::rt::Refusal;
use crate::rt::slot::{Reader, Writer};
use crate::sim::FieldFaults;
use crate::time::{Clock, Instant, Span};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A stimulus on its way to the engine.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// What to compute.
    pub stimulus: Stimulus,
    /// The slot whose frame it was made from: the age of a result counts from here.
    pub slot: Instant,
}

/// How the engine fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineState {
    /// Computes.
    Running,
    /// Panicked; is built again after a pause.
    Rebuilding {
        /// Which attempt in a row this is, from 1.
        attempt: u32,
    },
    /// Panicked too often: no further result will come.
    Retired,
}

/// What comes back.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// The engine's answer; `None`: the stimulus was refused or the engine failed.
    pub response: Option<Response>,
    /// [`Order::slot`].
    pub slot: Instant,
    /// Quality it was computed at.
    pub rung: Rung,
    /// Compute time, start to end.
    pub span: Span,
    /// How the engine fares after it.
    pub state: EngineState,
}

impl Order {
    /// Fills a slot before the first order; never taken.
    pub const EMPTY: Order = Order {
        stimulus: Stimulus { cycle: 0, sensors: [0.0; MAX_SENSORS], reward: 0.0, rung: Rung::BEST },
        slot: Instant::ZERO,
    };
}

impl Outcome {
    /// Fills a slot before the first outcome; never taken.
    pub const EMPTY: Outcome = Outcome {
        response: None,
        slot: Instant::ZERO,
        rung: Rung::BEST,
        span: Span::ZERO,
        state: EngineState::Running,
    };
}

impl std::fmt::Display for EngineState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EngineState::Running => f.write_str("running"),
            EngineState::Rebuilding { attempt } => write!(f, "rebuilding, attempt {attempt}"),
            EngineState::Retired => f.write_str("retired"),
        }
    }
}

/// Rebuilding an engine: at most this often in a row, the pause doubling each time. A fault in the
/// code or the hardware that comes back three times in a few seconds will come back again.
const REBUILDS: u32 = 3;
const FIRST_PAUSE: Span = Span::from_millis(500);
/// An engine that has run this long since its last failure has earned its rebuilds back.
const FORGIVEN: Span = Span::from_millis(60_000);

/// Virtual compute time of a cycle by rung, as a share of the budget's target, for runs in virtual
/// time. A model, labelled so in every report: it exists to exercise the budget, not to predict.
const MODELLED_SHARE: [f64; super::RUNGS] = [0.50, 0.46, 0.42, 0.40, 0.33, 0.08];

/// An engine with all that it takes to build it again.
pub struct Brain {
    engine: Engine,
    plan: FieldPlan,
    readout: Option<Readout>,
    /// Motor vector of each label, where the read-out chooses among labels.
    decisions: Vec<[f32; MAX_MOTORS]>,
}

impl Brain {
    /// The engine of `board`, at rest, with `readout` installed.
    pub fn new(board: &Board, readout: Option<Readout>) -> Brain {
        let motors = |decision: &Decision| {
            let mut motors = [0.0; MAX_MOTORS];
            motors[..decision.motors.len()].copy_from_slice(&decision.motors);
            motors
        };
        let mut brain = Brain {
            engine: Engine::build(&board.field),
            plan: board.field.clone(),
            readout,
            decisions: board.decisions.iter().map(motors).collect(),
        };
        brain.install();
        brain
    }

    /// What computes, and why that.
    pub fn engine_name(&self) -> String {
        self.engine.name()
    }

    /// What the engine's own threads were refused.
    pub fn refusals(&self) -> Vec<Refusal> {
        self.engine.refusals().iter().map(|(_, refusal)| *refusal).collect()
    }

    fn rebuild(&mut self) {
        self.engine = Engine::build(&self.plan);
        self.install();
    }

    fn install(&mut self) {
        if let Some(readout) = &self.readout {
            self.engine.set_readout(readout.weights());
        }
    }

    fn cycle(&mut self, stimulus: &Stimulus) -> Result<Response, Refused> {
        let mut response = self.engine.cycle(stimulus)?;
        if !self.decisions.is_empty() {
            response.motors = self.decisions[decide(&response.scores[..self.decisions.len()])];
        }
        Ok(response)
    }
}

/// Runs an engine.
pub struct FieldWorker {
    brain: Brain,
    orders: Reader<Order>,
    outcomes: Writer<Outcome>,
    ready: Option<Outcome>,
    faults: FieldFaults,
    /// Virtual time: a rung-0 cycle costs this times its modelled share. `None`: real time.
    modelled: Option<Span>,
    state: EngineState,
    /// Failures in a row, and when the last one was.
    failures: u32,
    failed_at: Instant,
}

impl FieldWorker {
    /// A worker around `brain`. `modelled` is the budget's target where time is virtual.
    pub fn new(
        brain: Brain,
        orders: Reader<Order>,
        outcomes: Writer<Outcome>,
        faults: FieldFaults,
        modelled: Option<Span>,
    ) -> FieldWorker {
        FieldWorker {
            brain,
            orders,
            outcomes,
            ready: None,
            faults,
            modelled,
            state: EngineState::Running,
            failures: 0,
            failed_at: Instant::ZERO,
        }
    }

    fn compute(&mut self, order: &Order, clock: &dyn Clock) {
        let start = clock.now();
        let faults = &self.faults;
        let brain = &mut self.brain;
        // A panic leaves the engine's state unknown: it is thrown away and built again, so nothing
        // half-written is ever used (that is what makes the assertion of unwind safety true).
        let answer = catch_unwind(AssertUnwindSafe(|| {
            faults.before_cycle(start);
            brain.cycle(&order.stimulus)
        }));
        self.spend(order, start, clock);
        let response = match answer {
            Ok(answer) => answer.ok(),
            Err(_) => {
                self.failed(clock.now());
                None
            }
        };
        self.ready = Some(Outcome {
            response,
            slot: order.slot,
            rung: order.stimulus.rung,
            span: clock.now().since(start),
            state: self.state,
        });
    }

    /// Virtual compute time, and time that a fault adds.
    fn spend(&self, order: &Order, start: Instant, clock: &dyn Clock) {
        let rung = order.stimulus.rung.index();
        let own = match self.modelled {
            Some(target) => Span::from_secs_f64(target.as_secs_f64() * MODELLED_SHARE[rung]),
            None => clock.now().since(start),
        };
        clock.sleep_until(self.faults.end_of_cycle(start, own));
    }

    fn failed(&mut self, now: Instant) {
        if now.since(self.failed_at) > FORGIVEN {
            self.failures = 0;
        }
        self.failures += 1;
        self.failed_at = now;
        self.state = if self.failures > REBUILDS {
            EngineState::Retired
        } else {
            EngineState::Rebuilding { attempt: self.failures }
        };
    }

    /// Whether the engine may compute now; builds it again when its pause is over (which allocates:
    /// this is not a steady state).
    fn usable(&mut self, now: Instant) -> bool {
        match self.state {
            EngineState::Running => true,
            EngineState::Retired => false,
            EngineState::Rebuilding { attempt } => {
                let pause = FIRST_PAUSE.times(1 << (attempt - 1));
                if now.since(self.failed_at) < pause {
                    return false;
                }
                self.brain.rebuild();
                self.state = EngineState::Running;
                true
            }
        }
    }

    /// The answer to an order that was not computed.
    fn without_answer(&self, order: &Order) -> Outcome {
        let rung = order.stimulus.rung;
        Outcome { response: None, slot: order.slot, rung, span: Span::ZERO, state: self.state }
    }
}

impl Worker for FieldWorker {
    fn name(&self) -> &'static str {
        "field"
    }

    fn core(&self) -> Option<usize> {
        self.brain.plan.cpus.first().copied()
    }

    fn step(&mut self, clock: &dyn Clock) -> Instant {
        let Some(order) = self.orders.take() else { return Instant::NEVER };
        if !self.usable(clock.now()) {
            self.ready = Some(self.without_answer(&order));
            return Instant::NEVER;
        }
        self.compute(&order, clock);
        Instant::NEVER
    }

    fn publish(&mut self, _now: Instant) {
        if let Some(outcome) = self.ready.take() {
            self.outcomes.put(outcome);
        }
    }
}
