//! `bench field`: measures a cycle of the field and its stages, and compares it with its lower limit: a plain
//! copy of the same size on as many threads in the same run.

use super::device::{self, DeviceReport};
use super::{cut_short, on_a_thread, progress, say_latencies, seconds, too_many_threads};
use crate::base::plan::{EngineKind, FieldPlan, Params, QualityLevel, Shape, Storage};
use crate::base::time::Span;
use crate::cli::arguments::{self, EngineChoice};
use crate::cli::exit::Failure;
use crate::cli::interrupt::Interrupt;
use crate::cli::origin::{self, COMPUTED, Sources};
use crate::cli::output;
use crate::deploy::bench::{BenchFault, DECISION_FIELDS, FieldBench, FieldFigures};
use crate::drive::trace::Latency;
use crate::field::Inspect;
use crate::field::shape::CHANNELS;
use serde::Serialize;

/// Arguments of `bench field`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion bench field                                       32^3 x 64 on one thread for 5 s
  ganglion bench field --threads 2 --storage f16             two threads, half the bytes per cell
  ganglion bench field --grid 16 --quality 5                 a Raspberry Pi's grid at its cheapest
  ganglion bench field --engine reference --grid 16          the plain f64 engine
  ganglion bench field --engine cuda --batch 64 --storage f16   64 robots per launch on the GPU
  ganglion bench field --threads 2 --cpus 2,3 --json | tail -1

The engine gets 16 sensors that wander, a read-out of 5 motors, learning on, 50 ms per cycle, and a
library and a bank filled with random patterns and experiences. That is more than a robot has:
nothing fills a library while a robot runs, and the shipped boards leave both out, as --patterns 1
--bank 1 does here. Cycles run back to back; blocks of cycles and of plain copies alternate. The
first four cycles of a block, which find the caches as the copies left them, do not count; the
percentiles include all others. A byte read and a byte written count as one each. The cycle itself
reads the clock to time its stages. After each block come 250 cycles of the navigator on its way to a
goal and 250 without one, with a ring of 24 rangers in clutter, and 20 sets of slices through the
field, of which a running robot takes two a second. Steps of decision fields come too, each timed
alone, on one thread: of the navigator's ring, which has noise, and of three without noise, of which
the cube is bounded and the others circular. All have the preset selection and two inputs. --seconds
includes all of this.

On a GPU the copy is in the GPU's own memory. Half of the time is for cycles and copies. A tenth is
for stages: events time them while they run one after another, which takes longer than a normal
cycle. In the rest a cycle runs every 10 ms, to show what it costs the host.")]
pub struct Args {
    /// Field engine
    #[arg(long, value_enum, default_value = "cpu")]
    engine: EngineChoice,
    /// Threads of the engine, and of the copy
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: u8,
    /// Cells per axis: 8, 16, 32 or 64
    #[arg(long, value_name = "N", default_value = "32", value_parser = grid)]
    grid: usize,
    /// Quality level of the cycle, 0 (everything) to 5
    #[arg(long, value_name = "N", default_value = "0", value_parser = arguments::quality)]
    quality: QualityLevel,
    /// Robots per launch, with one library and one bank; on a GPU only
    #[arg(long, value_name = "B", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    batch: u8,
    /// How the engine stores its cells
    #[arg(long, value_enum, default_value = "f32")]
    storage: StorageChoice,
    /// Instruction set for the inner loops; an error if the engine does not use it
    #[arg(long, value_enum, default_value = "auto")]
    simd: SimdChoice,
    /// Patterns in the library
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    patterns: u16,
    /// Experiences in the bank
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    bank: u32,
    /// Length of the measurement; on a CPU, a sixth of it is for the copy
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds)]
    seconds: Span,
    /// Cores to which the threads are pinned in turn, for example 2,3 [default: any]
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(0..=1023))]
    cpus: Vec<u16>,
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum StorageChoice {
    /// Four bytes per cell
    F32,
    /// Two bytes per cell, where that is precise enough
    F16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum SimdChoice {
    /// The best that this machine has
    Auto,
    /// Instructions that every machine has
    Portable,
    /// x86-64 with AVX2 and FMA
    Avx2,
    /// x86-64 with AVX-512
    Avx512,
    /// 64-bit ARM
    Neon,
}

impl SimdChoice {
    /// The engine's name for the instruction set; `None`: the engine chooses.
    fn name(self) -> Option<&'static str> {
        match self {
            SimdChoice::Auto => None,
            SimdChoice::Portable => Some("portable"),
            SimdChoice::Avx2 => Some("avx2"),
            SimdChoice::Avx512 => Some("avx512"),
            SimdChoice::Neon => Some("neon"),
        }
    }
}

fn grid(text: &str) -> Result<usize, String> {
    let grid = text.parse().ok().filter(|grid| [8, 16, 32, 64].contains(grid));
    grid.ok_or_else(|| "allowed: 8, 16, 32 or 64 cells per axis".to_string())
}

/// The JSON object of `bench field`.
#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    /// `cpu`, `reference` or `cuda`.
    engine: &'static str,
    /// The engine's device, and why it was chosen, as text.
    #[serde(skip)]
    engine_name: String,
    threads: usize,
    grid: usize,
    quality: usize,
    storage: &'static str,
    simd: &'static str,
    patterns: usize,
    bank: usize,
    cpus: Vec<usize>,
    /// Length of the measurement, including the copies.
    seconds: f64,
    cycle: Option<Cycle>,
    stages: Vec<StageTime>,
    /// A cycle of the navigator on its way to a goal, with a ring of 24 rangers.
    navigator: Option<Cycle>,
    /// The same without a goal.
    navigator_without_goal: Option<Cycle>,
    /// The median of `navigator` divided by the field's.
    navigator_share: Option<f64>,
    /// The median of `navigator_without_goal` divided by the field's.
    navigator_without_goal_share: Option<f64>,
    /// Steps of decision fields; none on a GPU.
    decision_fields: Vec<DecisionSteps>,
    /// One set of slices through the field.
    slices: Option<Cycle>,
    /// Figures that were not measured, by key.
    sources: Sources,
    /// Bytes that a cycle must read and write.
    bytes_per_cycle: usize,
    /// Bytes read and written by a plain copy on the same number of threads, GB (10^9) per second.
    copy_gbps: Option<f64>,
    /// Time for `bytes_per_cycle` at that speed.
    floor_us: Option<f64>,
    /// Median of the cycle divided by `floor_us`.
    ratio_to_floor: Option<f64>,
    /// Memory that the engine uses at the start, MB (10^6).
    memory_mb: f64,
    /// Median of the cycle divided by the number of cells, 64 x grid^3 for each robot.
    ns_per_cell: Option<f64>,
    allocations_per_cycle: Option<f64>,
    page_faults_per_cycle: Option<f64>,
    /// Jobs that the calling thread repeated because a worker was late, in all cycles.
    stand_ins: u64,
    /// Figures of a GPU.
    #[serde(flatten)]
    device: Option<DeviceReport>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Cycle {
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
    n: u64,
}

/// Single steps of a decision field.
#[derive(Debug, Serialize)]
struct DecisionSteps {
    name: &'static str,
    sites: usize,
    #[serde(flatten)]
    step: Cycle,
    /// Median of the step divided by the number of sites.
    ns_per_site: f64,
    /// Steps since the field was at rest, including those that are not in the percentiles.
    all_steps: u64,
    /// The highest activation after these steps.
    highest: f32,
}

#[derive(Debug, Serialize)]
struct StageTime {
    name: &'static str,
    p50_us: f64,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    let plan = plan(args)?;
    if plan.engine == EngineKind::Cuda {
        return run_on_device(args, &plan);
    }
    if let Some(warning) = too_many_threads(plan.threads) {
        log::warn!("{warning}");
    }
    let interrupt = Interrupt::watch()?;
    let flag = interrupt.flag();
    let bar = progress();
    let mut figures = FieldFigures::new();
    let bench = on_a_thread(|| {
        let mut bench = FieldBench::build(&plan, args.simd.name())?.with_navigator();
        bench.measure(args.quality, args.seconds, &mut figures, &flag, &mut |passed| {
            bar.set_position((1000.0 * passed.as_secs_f64() / args.seconds.as_secs_f64()) as u64);
        });
        Ok(bench)
    })?
    .map_err(refused)?;
    bar.finish_and_clear();
    if interrupt.asked() {
        return Err(cut_short());
    }
    Report::new(args, &plan, bench.engine(), &figures).give(args, &figures)
}

/// Runs the measurement on a GPU.
fn run_on_device(args: &Args, plan: &FieldPlan) -> Result<(), Failure> {
    let (bench, figures) = device::measure(plan, usize::from(args.batch), args.quality, args.seconds)?;
    let device = Some(DeviceReport::new(&bench, &figures));
    let report = Report { device, ..Report::new(args, plan, bench.engine(), &figures.field) };
    report.give(args, &figures.field)
}

/// The failure if a bench cannot be built.
pub(super) fn refused(fault: BenchFault) -> Failure {
    let failure = Failure::unavailable(&fault);
    match fault {
        BenchFault::Simd { .. } => failure.fix("leave out --simd: the engine then uses the best available"),
        BenchFault::Core { .. } => {
            failure.fix("name cores that this program may run on ('nproc' counts them)")
        }
        BenchFault::Device(_) => {
            failure.fix("measure with --engine cpu; 'ganglion doctor' says what this machine has")
        }
        BenchFault::Room(_) => failure.fix("end other programs, or use smaller --grid, --patterns, --bank"),
        BenchFault::Threads(_) | BenchFault::Lost(_) => failure,
    }
}

fn plan(args: &Args) -> Result<FieldPlan, Failure> {
    let cpus: Vec<usize> = args.cpus.iter().map(|cpu| usize::from(*cpu)).collect();
    if let Some(twice) = cpus.iter().enumerate().find(|(at, cpu)| cpus[..*at].contains(cpu)) {
        return Err(Failure::usage(format!("--cpus names core {} twice", twice.1)));
    }
    reject_unused_options(args)?;
    let (patterns, bank) = (usize::from(args.patterns), args.bank as usize);
    Ok(FieldPlan {
        engine: args.engine.kind(),
        shape: Shape { grid: args.grid, sensors: 16, motors: 5, patterns, bank },
        params: Params::default(),
        seed: 1,
        dt: Span::from_millis(50),
        every_ticks: 1,
        threads: usize::from(args.threads),
        cpus,
        storage: match args.storage {
            StorageChoice::F32 => Storage::F32,
            StorageChoice::F16 => Storage::F16,
        },
        learn: true,
        start: Vec::new(),
        correction: 1.0,
    })
}

/// Rejects options that the chosen engine would silently ignore.
fn reject_unused_options(args: &Args) -> Result<(), Failure> {
    let on_device = args.engine == EngineChoice::Cuda;
    let requests = [
        (!on_device && args.batch > 1, "--batch applies only to --engine cuda: the others compute one robot"),
        (on_device && args.threads > 1, "--threads applies only to the CPU: leave it out with --engine cuda"),
        (
            on_device && !args.cpus.is_empty(),
            "--cpus applies only to the CPU: leave it out with --engine cuda",
        ),
        (
            on_device && args.simd.name().is_some(),
            "--simd applies only to the CPU: leave it out with --engine cuda",
        ),
    ];
    requests.iter().find(|(is_odd, _)| *is_odd).map_or(Ok(()), |(_, why)| Err(Failure::usage(why)))
}

impl Report {
    fn new(args: &Args, plan: &FieldPlan, engine: &dyn Inspect, figures: &FieldFigures) -> Report {
        let cycle = Latency::of(&figures.cycle);
        let [navigator, without_goal] =
            [&figures.navigator, &figures.navigator_without_goal].map(Latency::of);
        let share = |part: Option<Latency>| part.zip(cycle).map(|(part, cycle)| part.p50 / cycle.p50);
        let floor_us = figures.floor_us();
        let cells = (usize::from(args.batch) * CHANNELS * plan.shape.cells()) as f64;
        Report {
            schema: 1,
            engine: engine.kind(),
            engine_name: engine.name(),
            threads: engine.threads(),
            grid: plan.shape.grid,
            quality: args.quality.index(),
            storage: engine.storage(),
            simd: engine.simd(),
            patterns: plan.shape.patterns,
            bank: engine.experiences(),
            cpus: plan.cpus.clone(),
            seconds: args.seconds.as_secs_f64(),
            cycle: cycle.map(Cycle::of),
            stages: figures.stages_p50_us().map(|(name, p50_us)| StageTime { name, p50_us }).collect(),
            navigator: navigator.map(Cycle::of),
            navigator_without_goal: without_goal.map(Cycle::of),
            navigator_share: share(navigator),
            navigator_without_goal_share: share(without_goal),
            decision_fields: decision_steps(figures),
            slices: Latency::of(&figures.slices).map(Cycle::of),
            sources: sources(engine),
            bytes_per_cycle: figures.bytes_per_cycle,
            copy_gbps: figures.copy_gbps(),
            floor_us,
            ratio_to_floor: cycle.zip(floor_us).map(|(cycle, floor)| cycle.p50 / floor),
            memory_mb: engine.memory_bytes() as f64 / 1e6,
            ns_per_cell: cycle.map(|cycle| cycle.p50 * 1e3 / cells),
            allocations_per_cycle: figures.allocations_per_cycle(),
            page_faults_per_cycle: figures.page_faults_per_cycle(),
            stand_ins: figures.stand_ins,
            device: None,
        }
    }

    fn give(&self, args: &Args, figures: &FieldFigures) -> Result<(), Failure> {
        self.print(figures);
        if args.json {
            output::json(self)?;
        }
        Ok(())
    }

    fn print(&self, figures: &FieldFigures) {
        if let Some(device) = &self.device {
            device.say_first();
        }
        let threads = if self.threads == 1 { "thread" } else { "threads" };
        say!(
            "field of 64 x {}^3, {}, quality level {}, {} {threads}, {}; measured on this machine just now, microseconds",
            self.grid,
            self.storage,
            self.quality,
            self.threads,
            self.engine_name
        );
        let rows = [
            ("cycle", &figures.cycle),
            ("plain copy", &figures.copy),
            ("navigator with a goal", &figures.navigator),
            ("navigator without", &figures.navigator_without_goal),
            ("slices", &figures.slices),
        ];
        say_latencies(&rows.map(|(name, times)| (name, Latency::of(times))));
        if !self.decision_fields.is_empty() {
            say!("a step of a decision field, and its median per site:");
            let named = DECISION_FIELDS.iter().zip(&figures.decision);
            let rows: Vec<_> = named.map(|(name, field)| (*name, Latency::of(&field.steps))).collect();
            say_latencies(&rows);
            let each = self.decision_fields.iter();
            let each: Vec<_> = each.map(|field| format!("{} {:.1}", field.name, field.ns_per_site)).collect();
            say!("  {} ns", each.join(", "));
        }
        if let (Some(with_goal), Some(without)) = (self.navigator_share, self.navigator_without_goal_share) {
            say!(
                "the navigator, with a ring of 24 rangers, takes {:.1} % of a cycle with a goal, {:.1} % without (medians)",
                100.0 * with_goal,
                100.0 * without
            );
        }
        if self.device.is_some() {
            say!("stages, timed by events on the device in a separate run in which they do not overlap:");
        }
        for stage in &self.stages {
            say!("  {:<21}{:>7.1}", stage.name, stage.p50_us);
        }
        let megabytes = self.bytes_per_cycle as f64 / 1e6;
        if let (Some(gbps), Some(floor), Some(ratio)) = (self.copy_gbps, self.floor_us, self.ratio_to_floor) {
            say!(
                "{megabytes:.1} MB read and written per cycle (computed); a plain copy moves {gbps:.1} GB/s, these bytes in \
                 {floor:.1} us (computed): the cycle takes {ratio:.2} times that"
            );
        }
        if let Some(ns) = self.ns_per_cell {
            say!("{ns:.3} ns per cell; {:.1} MB of memory (computed)", self.memory_mb);
        }
        for (count, what) in
            [(self.allocations_per_cycle, "heap allocations"), (self.page_faults_per_cycle, "page faults")]
        {
            match count {
                Some(n) => say!("{n} {what} a cycle"),
                None => say!("{what} are not counted here"),
            }
        }
        if let Some(device) = &self.device {
            device.print();
        }
    }
}

fn decision_steps(figures: &FieldFigures) -> Vec<DecisionSteps> {
    let named = DECISION_FIELDS.iter().zip(&figures.decision);
    let steps = named.filter_map(|(name, field)| {
        let step = Latency::of(&field.steps)?;
        Some(DecisionSteps {
            name,
            sites: field.sites,
            step: Cycle::of(step),
            ns_per_site: step.p50 * 1e3 / field.sites as f64,
            all_steps: field.all_steps,
            highest: field.highest,
        })
    });
    steps.collect()
}

/// How the figures that were not measured were obtained: byte counts, and what is derived from them.
fn sources(engine: &dyn Inspect) -> Sources {
    let mut sources = origin::all(["bytes_per_cycle", "floor_us", "ratio_to_floor", "memory_mb"], COMPUTED);
    if engine.kind() == "cuda" {
        let keys = ["achieved_gbps", "share_of_copy", "evolve_share_of_copy"];
        sources.extend(origin::all(keys, COMPUTED));
    }
    sources
}

impl Cycle {
    fn of(latency: Latency) -> Cycle {
        let Latency { p50, p99, p999, max, n } = latency;
        Cycle { p50_us: p50, p99_us: p99, p999_us: p999, max_us: max, n }
    }
}
