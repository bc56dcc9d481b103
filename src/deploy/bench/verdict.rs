//! Compares the measurements with the board's targets.

use super::{GpuFigures, LoopFigures, Survey};
use crate::base::plan::{GpuTargets, Storage, Targets};
use crate::base::time::Span;
use crate::drive::trace::Latency;
use serde::Serialize;

/// Whether a target is an upper or a lower limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bound {
    /// The figure may not exceed the target.
    #[serde(rename = "at most")]
    AtMost,
    /// The figure must reach the target.
    #[serde(rename = "at least")]
    AtLeast,
}

/// The source of a figure that is computed from sizes by a formula, or from another such figure.
const COMPUTED: &str = "computed";

/// One figure, as printed and as written to the JSON object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// The figure's unit; `1` for ratios.
    pub unit: &'static str,
    /// `None`: it was not measured.
    pub measured: Option<f64>,
    /// `None`: the board states no target.
    pub target: Option<f64>,
    /// Whether the target is an upper or a lower limit.
    pub bound: Option<Bound>,
    /// Whether the target is met. A figure that was not measured misses it, unless `not_measured` has a
    /// reason. `None`: there is no target, or the target is not judged here.
    pub pass: Option<bool>,
    /// Why this figure was not measured; its target is then neither met nor missed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_measured: Option<String>,
    /// `computed`; absent if measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<&'static str>,
    /// Why the target is not judged although the figure was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_judged: Option<String>,
}

impl Row {
    pub(super) fn new(name: impl Into<String>, unit: &'static str, measured: Option<f64>) -> Row {
        Row {
            name: name.into(),
            unit,
            measured,
            target: None,
            bound: None,
            pass: None,
            not_measured: None,
            source: None,
            not_judged: None,
        }
    }
    pub(super) fn computed(self) -> Row {
        Row { source: Some(COMPUTED), ..self }
    }
    pub(super) fn at_most(self, most: Option<f64>) -> Row {
        Row { target: most, bound: most.map(|_| Bound::AtMost), ..self }
    }
    fn at_least(self, least: Option<f64>) -> Row {
        Row { target: least, bound: least.map(|_| Bound::AtLeast), ..self }
    }

    /// Why the target, if there is one, is not judged.
    pub fn why_unjudged(&self) -> Option<&str> {
        self.not_judged.as_deref().or(self.not_measured.as_deref())
    }

    /// Compares the figure with its target. NaN meets no target.
    pub(super) fn judged(self) -> Row {
        let met = |bound, target| match (self.measured, bound) {
            (Some(measured), Bound::AtMost) => measured <= target,
            (Some(measured), Bound::AtLeast) => measured >= target,
            (None, _) => false,
        };
        let pass = self.bound.zip(self.target).filter(|_| self.why_unjudged().is_none());
        Row { pass: pass.map(|(bound, target)| met(bound, target)), ..self }
    }
}

/// The overall verdict: whether every judged target is met. `None`: no target was judged.
pub fn overall(rows: &[Row]) -> Option<bool> {
    rows.iter().filter_map(|row| row.pass).reduce(|all, pass| all && pass)
}

/// Each reason why targets were not judged, without duplicates, or the message that the board states
/// no targets.
pub fn not_judged(rows: &[Row]) -> Vec<String> {
    let mut reasons: Vec<String> = Vec::new();
    for why in rows.iter().filter(|row| row.target.is_some()).filter_map(Row::why_unjudged) {
        if !reasons.iter().any(|known| known == why) {
            reasons.push(why.to_string());
        }
    }
    if rows.iter().all(|row| row.target.is_none()) {
        reasons.push("the board states no targets".to_string());
    }
    reasons
}

/// Every figure with its target. `control` is `None` if the board's loop cannot be measured. `gpu` is an
/// error if there is no GPU to measure. `unjudged`: why no target is judged on this machine, if none is.
pub fn rows(
    targets: &Targets,
    control: Option<&LoopFigures>,
    survey: &Survey,
    gpu: &Result<GpuFigures, String>,
    unjudged: Option<&str>,
) -> Vec<Row> {
    let mut rows = control_rows(targets, control);
    rows.extend(cycle_rows(targets, survey));
    rows.extend(comparison_rows(targets, survey));
    rows.extend(gpu_rows(&targets.gpu, gpu));
    for row in rows.iter_mut().filter(|row| row.target.is_some()) {
        row.not_judged = unjudged.map(String::from);
    }
    rows.into_iter().map(Row::judged).collect()
}

fn control_rows(targets: &Targets, control: Option<&LoopFigures>) -> Vec<Row> {
    let work = control.and_then(|figures| Latency::of(&figures.recorder.exec));
    let wake = control.and_then(|figures| Latency::of(&figures.recorder.release_late));
    let bare = control.and_then(|figures| Latency::of(&figures.measured.bare));
    let ratio = wake.zip(bare).and_then(|(wake, bare)| ratio(Some(wake.p99), Some(bare.p99)));
    vec![
        Row::new("work of a tick, p99", "us", work.map(|l| l.p99)).at_most(targets.tick_p99_us),
        Row::new("wake-up of the loop, p99", "us", wake.map(|l| l.p99)),
        Row::new("wake-up of the loop over a bare timer's, p99", "1", ratio).at_most(targets.wake_ratio),
    ]
}

fn cycle_rows(targets: &Targets, survey: &Survey) -> Vec<Row> {
    let best = &survey.levels[0];
    let millis = |us: Option<f64>| us.map(|us| us / 1e3);
    let asked = |span: Option<Span>| span.map(|span| span.as_micros_f64() / 1e3);
    let tail = ratio(best.cycle_us(0.999), best.cycle_us(0.5));
    let mut rows = Vec::new();
    for (number, figures) in survey.levels.iter().enumerate() {
        let row = Row::new(format!("cycle at level {number}, p50"), "ms", millis(figures.cycle_us(0.5)));
        rows.push(if number == 0 { row.at_most(asked(targets.cycle_p50)) } else { row });
        if number == 0 {
            let p99 = Row::new("cycle at level 0, p99", "ms", millis(best.cycle_us(0.99)));
            rows.push(p99.at_most(asked(targets.cycle_p99)));
            rows.push(Row::new("cycle at level 0, p99.9 over p50", "1", tail).at_most(targets.tail_ratio));
        }
    }
    rows
}

fn comparison_rows(targets: &Targets, survey: &Survey) -> Vec<Row> {
    let best = &survey.levels[0];
    let (p50, worst) = (best.cycle_us(0.5), &survey.levels[survey.levels.len() - 1]);
    let stored = |storage| survey.in_storage(storage).and_then(|figures| figures.cycle_us(0.5));
    let halved = ratio(stored(Storage::F32), stored(Storage::F16));
    let mut rows = vec![
        Row::new("level 0 over level 5", "1", ratio(p50, worst.cycle_us(0.5))).at_least(targets.level5_ratio),
        Row::new("f32 over f16 storage", "1", halved).at_least(targets.f16_ratio),
    ];
    if let Some(one) = &survey.one_thread {
        let name = format!("1 thread over {}", survey.threads);
        rows.push(Row::new(name, "1", ratio(one.cycle_us(0.5), p50)));
    }
    rows.push(Row::new("plain copy, read and written", "GB/s", best.copy_gbps()));
    rows.push(
        Row::new("cycle at level 0 over a copy of its bytes", "1", ratio(p50, best.floor_us())).computed(),
    );
    rows.push(Row::new("heap allocations a cycle", "1", best.allocations_per_cycle()));
    rows.push(Row::new("page faults a cycle", "1", best.page_faults_per_cycle()));
    let memory = survey.memory_bytes as f64 / 1e6;
    rows.push(Row::new("memory of the field", "MB", Some(memory)).computed().at_most(targets.memory_mb));
    rows
}

/// The kernel that assembles the features also computes the gradients.
const FUSED: &str = "the gradients are fused with the other features and cannot be timed separately";

fn gpu_rows(targets: &GpuTargets, gpu: &Result<GpuFigures, String>) -> Vec<Row> {
    let (nothing, lacking) = (GpuFigures::default(), gpu.as_ref().err());
    let figures = gpu.as_ref().unwrap_or(&nothing);
    let memory = figures.memory_bytes.map(|bytes| bytes as f64 / 1e6);
    let row = |name: &str, unit, measured| Row {
        not_measured: lacking.cloned(),
        ..Row::new(format!("GPU: {name}"), unit, measured)
    };
    vec![
        row("cycle of one robot, f32, p50", "us", figures.cycle_us).at_most(targets.cycle_us),
        row("cycle of one robot, f16, p50", "us", figures.cycle_f16_us).at_most(targets.cycle_f16_us),
        row("cycle of 64 robots, f16, p50", "us", figures.batch_us).at_most(targets.batch_us),
        row("evolve + features relative to a copy, 32", "1", figures.copy_share)
            .computed()
            .at_least(targets.copy_share),
        row("evolve, p50", "us", figures.evolve_us).at_most(targets.evolve_us),
        Row {
            not_measured: Some(lacking.map_or(FUSED, |why| why).to_string()),
            ..row("gradients, p50", "us", None).at_most(targets.gradients_us)
        },
        row("motor, p50", "us", figures.motor_us).at_most(targets.motor_us),
        row("time outside the kernels, p50", "us", figures.overhead_us).at_most(targets.overhead_us),
        row("match of 10,000 x 512, p50", "us", figures.match_us).at_most(targets.match_us),
        row("memory of one robot", "MB", memory).computed().at_most(targets.memory_mb),
        row("share of a core at 100 Hz", "1", figures.host_share).at_most(targets.host_share),
    ]
}

/// `None` if either is missing, or if the divisor is zero.
fn ratio(over: Option<f64>, under: Option<f64>) -> Option<f64> {
    over.zip(under).filter(|(_, under)| *under > 0.0).map(|(over, under)| over / under)
}

#[cfg(test)]
mod tests {
    use super::super::FieldFigures;
    use super::*;

    /// A field whose cycle takes `us` at each level but the lowest, and an eighth of that at the lowest.
    fn survey(us: u64) -> Survey {
        let figures = |us: u64| {
            let mut figures = FieldFigures::new();
            (0..10).for_each(|_| figures.cycle.record(us * 1000).unwrap());
            figures
        };
        Survey {
            engine_name: String::new(),
            engine: "cpu",
            storage: "f16",
            simd: "portable",
            threads: 2,
            memory_bytes: 3_000_000,
            levels: std::array::from_fn(|quality| figures(if quality == 5 { us / 8 } else { us })),
            other_storage: Some(figures(2 * us)),
            one_thread: Some(figures(3 * us)),
        }
    }

    fn row(rows: &[Row], name: &str) -> Row {
        rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no row {name}")).clone()
    }

    #[test]
    fn each_target_is_compared_with_its_own_figure() {
        let millis = |ms| Some(Span::from_millis(ms));
        let strict = Targets {
            cycle_p50: millis(7),
            cycle_p99: millis(9),
            tail_ratio: Some(1.5),
            level5_ratio: Some(9.0),
            f16_ratio: Some(1.9),
            memory_mb: Some(2.0),
            wake_ratio: Some(2.0),
            ..Targets::default()
        };
        let rows = rows(&strict, None, &survey(8_000), &Err("no GPU".into()), None);
        let passes = |name: &str| row(&rows, name).pass;
        assert_eq!(passes("cycle at level 0, p50"), Some(false), "8 ms exceeds 7 ms");
        assert_eq!(passes("cycle at level 0, p99"), Some(true), "8 ms is within 9 ms");
        assert_eq!(passes("cycle at level 0, p99.9 over p50"), Some(true));
        assert_eq!(passes("level 0 over level 5"), Some(false), "a ratio of 8 does not reach 9");
        assert_eq!(
            passes("f32 over f16 storage"),
            Some(true),
            "a ratio of 2 reaches 1.9, whichever storage the board has"
        );
        assert_eq!(passes("memory of the field"), Some(false), "3 MB exceeds 2 MB");
        assert_eq!(passes("wake-up of the loop over a bare timer's, p99"), Some(false), "not measured");
        assert_eq!(passes("work of a tick, p99"), None, "no target");
        let threads = row(&rows, "1 thread over 2").measured.unwrap();
        assert!((threads - 3.0).abs() < 0.01, "{threads}");
        assert!(rows.iter().all(|row| row.measured.is_none_or(f64::is_finite)));
    }

    #[test]
    fn a_gpu_is_judged_and_a_missing_gpu_is_not() {
        let gpu = GpuTargets {
            cycle_us: Some(100.0),
            cycle_f16_us: Some(20.0),
            copy_share: Some(0.5),
            memory_mb: Some(256.0),
            host_share: Some(0.05),
            ..GpuTargets::default()
        };
        let targets = Targets { gpu, ..Targets::default() };
        let figures = GpuFigures {
            cycle_us: Some(90.0),
            cycle_f16_us: Some(21.0),
            copy_share: Some(0.4),
            match_us: Some(7.0),
            memory_bytes: Some(200_000_000),
            ..GpuFigures::default()
        };
        let there = rows(&targets, None, &survey(8_000), &Ok(figures), None);
        let passes = |name: &str| row(&there, name).pass;
        assert_eq!(passes("GPU: cycle of one robot, f32, p50"), Some(true));
        assert_eq!(passes("GPU: cycle of one robot, f16, p50"), Some(false));
        assert_eq!(passes("GPU: evolve + features relative to a copy, 32"), Some(false));
        assert_eq!(passes("GPU: memory of one robot"), Some(true));
        assert_eq!(
            passes("GPU: share of a core at 100 Hz"),
            Some(false),
            "a GPU without this figure misses the target"
        );
        assert_eq!(passes("GPU: match of 10,000 x 512, p50"), None, "no target");
        let broken = GpuFigures { fault: Some("lost".into()), ..GpuFigures::default() };
        let broken = rows(&targets, None, &survey(8_000), &Ok(broken), None);
        assert_eq!(
            row(&broken, "GPU: memory of one robot").pass,
            Some(false),
            "a GPU that fails misses its targets"
        );
        let absent = rows(&targets, None, &survey(8_000), &Err("no GPU".into()), None);
        let of_gpu: Vec<&Row> = absent.iter().filter(|row| row.name.starts_with("GPU")).collect();
        assert_eq!(of_gpu.len(), 11);
        for row in of_gpu {
            assert!(row.pass.is_none() && row.measured.is_none(), "{row:?}");
            assert_eq!(row.not_measured.as_deref(), Some("no GPU"));
        }
    }

    #[test]
    fn a_fused_stage_is_not_judged_and_the_reason_is_given() {
        let gpu = GpuTargets { gradients_us: Some(50.0), evolve_us: Some(100.0), ..GpuTargets::default() };
        let targets = Targets { gpu, ..Targets::default() };
        let figures = GpuFigures { evolve_us: Some(80.0), ..GpuFigures::default() };
        let rows = rows(&targets, None, &survey(8_000), &Ok(figures), None);
        let gradients = row(&rows, "GPU: gradients, p50");
        assert_eq!((gradients.pass, gradients.why_unjudged()), (None, Some(FUSED)));
        assert_eq!(row(&rows, "GPU: evolve, p50").pass, Some(true));
        assert_eq!(overall(&rows), Some(true), "only judged targets count");
    }

    #[test]
    fn an_unjudged_target_is_never_a_pass() {
        let targets = Targets { memory_mb: Some(64.0), ..Targets::default() };
        let verdict = |targets: &Targets, unjudged| {
            let rows = rows(targets, None, &survey(8_000), &Err("no GPU".into()), unjudged);
            (row(&rows, "memory of the field"), overall(&rows))
        };
        assert_eq!(verdict(&targets, None).1, Some(true), "3 MB is within 64 MB");
        let (memory, all) = verdict(&targets, Some("another machine"));
        assert_eq!((memory.pass, memory.why_unjudged(), all), (None, Some("another machine"), None));
        assert!(memory.measured.is_some(), "the figure itself is present");
        assert_eq!(verdict(&Targets::default(), None).1, None, "no targets");
        let gpu = GpuTargets { cycle_us: Some(1.0), ..GpuTargets::default() };
        assert_eq!(
            verdict(&Targets { gpu, ..Targets::default() }, None).1,
            None,
            "without a GPU there is no verdict"
        );
        let missed = Targets { memory_mb: Some(1.0), gpu, ..Targets::default() };
        assert_eq!(verdict(&missed, None).1, Some(false));
    }

    #[test]
    fn a_ratio_without_a_divisor_is_not_measured() {
        let mut empty = survey(8_000);
        empty.levels = std::array::from_fn(|_| FieldFigures::new());
        empty.other_storage = None;
        for row in rows(&Targets::default(), None, &empty, &Err("no GPU".into()), None) {
            assert!(row.measured.is_none() || row.name.starts_with("memory"), "{row:?}");
            assert_eq!(row.pass, None);
        }
    }
}
