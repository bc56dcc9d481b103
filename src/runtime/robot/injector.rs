//! Wraps the cycle of a field engine to inject scripted faults, and to model the duration of a cycle in
//! virtual time. A run in real time without scripted faults does not use it.

use crate::base::plan::QUALITY_LEVELS;
use crate::base::time::{Clock, Span};
use crate::field::engine::{Around, FieldEngine};
use crate::field::{Failure, FieldInput, FieldOutput};
use crate::sim::FieldFaults;
use crate::system::gpu::Watch;
use std::sync::Arc;

/// Compute time of a cycle by quality level, as a share of the budget's target, in virtual time. This is a
/// model, and reports say so: it exists to exercise the budget, not to predict times.
pub(super) const MODELLED_SHARE: [f64; QUALITY_LEVELS] = [0.50, 0.46, 0.42, 0.40, 0.33, 0.08];

/// Injects the script's faults into an engine.
pub(super) struct FaultInjector {
    pub faults: FieldFaults,
    /// The GPU's watch, if a GPU computes the field; its faults are injected there.
    pub watch: Arc<Watch>,
    /// In virtual time, a cycle takes this time multiplied by its modelled share. `None`: a cycle takes as
    /// long as the clock says.
    pub modelled: Option<Span>,
    pub clock: Arc<dyn Clock>,
}

impl FaultInjector {
    /// Wraps `engine`.
    pub fn around(self, engine: Box<dyn FieldEngine>) -> Box<dyn FieldEngine> {
        Box::new(Around::new(engine, Box::new(move |engine, input| self.cycle(engine, input))))
    }

    /// # Panics
    /// When the script injects a panic.
    fn cycle(&self, engine: &mut dyn FieldEngine, input: &FieldInput) -> Result<FieldOutput, Failure> {
        let start = self.clock.now();
        let answer = (!self.faults.panics(start)).then(|| {
            self.watch.inject(self.faults.gpu(start));
            engine.cycle(input)
        });
        let own = match self.modelled {
            Some(target) => Span::from_secs_f64(target.as_secs_f64() * MODELLED_SHARE[input.quality.index()]),
            None => self.clock.now().since(start),
        };
        self.clock.sleep_until(self.faults.end_of_cycle(start, own));
        answer.expect("the script makes the field engine panic")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::plan::{EngineKind, FieldPlan, QualityLevel};
    use crate::base::time::{Instant, SimClock};
    use crate::decision::fixture::{at, ms};
    use crate::field::engine;
    use crate::field::sample::board;
    use crate::field::{Condition, FieldInput};
    use crate::sim::Fault;
    use crate::system::gpu::GpuFault;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// An engine with the faults of `script`; a cycle at quality level 0 takes half of 10 ms.
    fn faulty(script: &[&str]) -> (Box<dyn FieldEngine>, Arc<SimClock>, Arc<Watch>) {
        let (clock, watch) = (Arc::new(SimClock::new()), Arc::new(Watch::new()));
        let script: Vec<Fault> = script.iter().map(|text| Fault::parse(text).unwrap()).collect();
        let injector = FaultInjector {
            faults: FieldFaults::new(&script, Instant::ZERO),
            watch: watch.clone(),
            modelled: Some(ms(10)),
            clock: clock.clone(),
        };
        let engine = engine::build(&FieldPlan { engine: EngineKind::Cpu, ..board(8).field });
        (injector.around(engine), clock, watch)
    }

    #[test]
    fn virtual_cycle_takes_its_levels_share_of_the_target() {
        let (mut engine, clock, _) = faulty(&[]);
        for (number, share) in MODELLED_SHARE.iter().enumerate() {
            let start = clock.now();
            let quality = QualityLevel::new(number as u8).expect("a level");
            assert!(engine.cycle(&FieldInput { quality, ..FieldInput::AT_REST }).is_ok());
            assert_eq!(clock.now().since(start), Span::from_secs_f64(0.010 * share));
        }
        assert_eq!(engine.condition(clock.now()), Condition::default());
    }

    #[test]
    fn scripted_cycle_is_slow_hangs_and_panics() {
        let (mut engine, clock, _) = faulty(&["field-slow@1+1", "field-hang@3+2", "field-panic@6+1"]);
        let mut cycle = |from: u64| {
            clock.set(at(from));
            let ran = catch_unwind(AssertUnwindSafe(|| engine.cycle(&FieldInput::AT_REST).is_ok()));
            (ran.ok(), clock.now().since(at(from)))
        };
        assert_eq!(cycle(0), (Some(true), ms(5)));
        assert_eq!(cycle(1_000), (Some(true), ms(50)));
        assert_eq!(cycle(3_000), (Some(true), ms(2_005)));
        assert_eq!(cycle(6_000), (None, ms(5)), "a panic takes as long as a cycle");
        assert_eq!(cycle(7_000), (Some(true), ms(5)));
    }

    #[test]
    fn scripted_gpu_fault_is_on_the_watch_for_its_duration() {
        let (mut engine, clock, watch) = faulty(&["gpu-slow@0.2+0.2"]);
        let mut seen = Vec::new();
        for now in (0..600).step_by(100) {
            clock.set(at(now));
            assert!(engine.cycle(&FieldInput::AT_REST).is_ok());
            seen.push(watch.injected());
        }
        let slow = Some(GpuFault::Slow);
        assert_eq!(seen, [None, None, slow, slow, None, None]);
    }
}
