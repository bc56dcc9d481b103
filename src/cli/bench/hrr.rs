//! `bench hrr`: compares the holographic memory's operations with a plain copy of the same size.

use super::{cut_short, judged, progress, seconds};
use crate::base::plan::{Board, GpuTargets};
use crate::base::time::Span;
use crate::cli::arguments;
use crate::cli::exit::Failure;
use crate::cli::interrupt::Interrupt;
use crate::cli::origin::{self, COMPUTED, Sources};
use crate::cli::output;
use crate::deploy::bench::verdict::{Row, not_judged, overall};
use crate::deploy::bench::{HrrBench, HrrFigures, hrr_rows};
use crate::memory::choice::{Preference, Residence};
use crate::runtime::selftest::machine;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Arguments of `bench hrr`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion bench hrr                      all operations, 512 to 4096 numbers, 1 to 10,000 vectors
  ganglion bench hrr --quick              512 numbers, 1 and 100 vectors, in a second or two
  ganglion bench hrr --dims 512 --batches 1,1000 --json | tail -1
  ganglion bench hrr --gpu-from 200       the GPU answers dispatched batches from 200 vectors on
  ganglion bench hrr --board desktop-gpu  also judge the GPU by the hrr targets of that board

The floor is the time of a plain copy that moves as many bytes as the operation must read and
write, each number once; operation and copy alternate. An operation that mostly reads can be faster
than the copy. A GPU, if there is one, also does each operation: with rows in host memory (copied
to the GPU and back), and with rows in GPU memory. The first run measures the batch size from which
the GPU is faster, and saves it. The dispatcher then sends each batch where that or --gpu-from says;
the table shows which device answered it. Speed-up is the CPU's time divided by the GPU's.
Efficiency is the time of a plain copy in the GPU's memory divided by that of the operation. The
transfer is the time for copying the rows to the GPU and back; its share is of the total, transfer
included. Rows that need more than 80 % of the GPU's memory are refused. With --board, the targets
hrr_... in its [targets.gpu] are judged; exit code 0: all of them are met; 75: one is missed; 69:
none was judged, because there is no GPU or it is emulated.")]
pub struct Args {
    /// Numbers per vector
    #[arg(long, value_delimiter = ',', default_values_t = [512, 1024, 4096], value_name = "D,...",
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(64..=8192))]
    dims: Vec<usize>,
    /// Vectors per batch; for a clean-up, items in memory
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 100, 1000, 10_000], value_name = "B,...",
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    batches: Vec<usize>,
    /// Time for each figure
    #[arg(long, default_value = "0.3", value_parser = seconds)]
    seconds: Span,
    /// Smallest batch for the GPU: as measured, never, or this many rows
    #[arg(long, value_name = "measured|never|ROWS", default_value = "measured")]
    gpu_from: Preference,
    /// Leave out batches that need more memory than this
    #[arg(long, default_value_t = 1500, value_name = "MB", value_parser = clap::value_parser!(u32).range(1..))]
    memory: u32,
    /// Only 512 numbers, 1 and 100 vectors, 20 ms each
    #[arg(long, conflicts_with_all = ["dims", "batches", "seconds"])]
    quick: bool,
    /// Judge the GPU by [targets.gpu] of this board: a file (a '/' in its name, or '.toml') or a built-in one
    #[arg(long, value_name = "FILE")]
    board: Option<PathBuf>,
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    json: bool,
}

/// The JSON object of `bench hrr`.
#[derive(Debug, Serialize)]
struct HrrReport {
    schema: u32,
    /// Figures that were not measured, by key.
    sources: Sources,
    #[serde(flatten)]
    figures: HrrFigures,
    /// The board whose targets were judged.
    board: Option<String>,
    /// The figures for which boards can state targets; the targets are absent if no board was named.
    rows: Vec<Row>,
    /// Whether every judged target is met; `None`: no target was judged.
    pass: Option<bool>,
    /// Why targets were not judged, or that the board states none.
    not_judged: Vec<String>,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    let board = args.board.as_deref().map(arguments::board).transpose()?.map(|loaded| loaded.board);
    let (most_bytes, preference) = (args.memory as usize * 1_000_000, args.gpu_from);
    let (dims, batches, cell) = if args.quick {
        (vec![512], vec![1, 100], Span::from_millis(20))
    } else {
        (args.dims.clone(), args.batches.clone(), args.seconds)
    };
    let bench = HrrBench { dims, batches, cell, most_bytes, preference };
    let interrupt = Interrupt::watch()?;
    let bar = progress();
    let figures = super::on_a_thread(|| {
        bench.run(&interrupt.flag(), |share| bar.set_position((share * 1000.0) as u64))
    })?;
    bar.finish_and_clear();
    let figures = figures.map_err(|fault| Failure::unavailable(fault.to_string()))?;
    if interrupt.asked() {
        return Err(cut_short());
    }
    say_figures(&figures);
    let rows = rows_of(board.as_ref(), &figures);
    if board.is_some() {
        judged::say_rows(&rows);
        judged::say_count(&rows);
    }
    let verdict = if board.is_some() { judged::verdict(&rows) } else { Ok(()) };
    if args.json {
        output::json(&HrrReport {
            schema: 1,
            sources: origin::all(["store_bytes", "memory.wanted_bytes"], COMPUTED),
            figures,
            board: board.map(|board| board.name),
            pass: overall(&rows),
            not_judged: not_judged(&rows),
            rows,
        })?;
    }
    verdict
}

/// The figures for which a board states targets, judged if this machine is that board's.
fn rows_of(board: Option<&Board>, figures: &HrrFigures) -> Vec<Row> {
    let elsewhere = board.and_then(|board| machine::matches(board, Path::new("/")).err());
    let unjudged = elsewhere.map(|mismatch| format!("this machine is not that robot: {mismatch}"));
    let none = GpuTargets::default();
    hrr_rows(board.map_or(&none, |board| &board.targets.gpu), figures, unjudged.as_deref())
}

fn say_figures(figures: &HrrFigures) {
    if let (Some(gpu), Some(true)) = (&figures.gpu, figures.emulated) {
        say!(
            "EMULATED: the CPU emulates the GPU '{}', so no figure of a GPU below is a measurement",
            gpu.name
        );
    }
    say!(
        "holographic memory, instructions {}, measured on this machine just now, microseconds",
        figures.simd
    );
    say!("operation                     d   batch     done        p50     lowest      floor  p50/floor");
    for cell in &figures.cells {
        let name = cell.operation.name();
        let who = who(cell.residence);
        say!(
            "{name:<26}{:>5}  {:>6}  {:>7}  {:>9.2}  {:>9.2}  {:>9.2}  {:>9.2}",
            cell.d,
            cell.batch,
            who,
            cell.p50_us,
            cell.min_us,
            cell.floor_us,
            cell.ratio_to_floor
        );
    }
    say_compared(figures);
    say_growth(figures);
    say_memory(figures);
    say_dispatched(figures);
    for (d, choice) in &figures.choices {
        say!("vectors of {d}: {choice}");
    }
    for (d, batch) in &figures.left_out {
        say!("left out: {batch} vectors of {d} need more memory than --memory allows");
    }
    for (d, vectors, bytes) in figures.store_bytes.iter().filter(|(_, vectors, _)| *vectors >= 1000) {
        say!("a store of {vectors} vectors of {d} takes {:.1} MB (computed)", *bytes as f64 / 1e6);
    }
}

/// Prints the comparison of GPU and CPU.
fn say_compared(figures: &HrrFigures) {
    if figures.comparisons.is_empty() {
        return;
    }
    say!(
        "GPU over CPU                  d   batch  speed-up, in  speed-up  efficiency  transfer, us     share"
    );
    let shown = |value: Option<f64>| value.map_or("-".to_string(), |value| format!("{value:.3}"));
    for one in &figures.comparisons {
        say!(
            "{:<26}{:>5}  {:>6}  {:>12}  {:>8}  {:>10}  {:>12}  {:>8}",
            one.operation.name(),
            one.d,
            one.batch,
            shown(one.speed_up_from_host),
            shown(one.speed_up),
            shown(one.efficiency),
            shown(one.transfer_us),
            shown(one.transfer_share)
        );
    }
}

/// Prints how the time grows from each batch size to the next larger one.
fn say_growth(figures: &HrrFigures) {
    if figures.growth.is_empty() {
        return;
    }
    say!("growth                        d     from       to     done    ratio  exponent");
    for one in &figures.growth {
        say!(
            "{:<26}{:>5}  {:>7}  {:>7}  {:>7}  {:>7.2}  {:>8.2}",
            one.operation.name(),
            one.d,
            one.from,
            one.to,
            who(one.residence),
            one.times,
            one.exponent
        );
    }
}

/// Prints how much GPU memory was allocated, or why it was refused.
fn say_memory(figures: &HrrFigures) {
    for memory in &figures.memory {
        let (d, rows) = (memory.d, memory.rows);
        if let Some(why) = &memory.refused {
            say!("GPU memory for batches of {rows} x {d}: refused: {why}");
            continue;
        }
        let mb =
            |bytes: Option<usize>| bytes.map_or("-".into(), |bytes| format!("{:.1}", bytes as f64 / 1e6));
        let share = memory.share_of_limit.map_or("-".into(), |share| format!("{:.2}", 100.0 * share));
        say!(
            "GPU memory for batches of {rows} x {d}: {} MB allocated, {} reserved by the driver, of {} MB ({share} %)",
            mb(memory.allocated_bytes),
            mb(memory.reserved_bytes),
            mb(memory.limit_bytes)
        );
    }
}

/// The device's name in the tables.
fn who(residence: Option<Residence>) -> &'static str {
    match residence {
        None => "CPU",
        Some(Residence::Host) => "GPU, in",
        Some(Residence::Gpu) => "GPU",
    }
}

/// Prints which device answered the dispatched batches.
fn say_dispatched(figures: &HrrFigures) {
    if figures.dispatched.is_empty() {
        return;
    }
    say!("dispatched                    d   batch   answer        p50     lowest");
    for cell in &figures.dispatched {
        let figure = &cell.figure;
        let who = if cell.answered.processor > 0 { "CPU" } else { "GPU" };
        let name = figure.operation.name();
        say!(
            "{name:<26}{:>5}  {:>6}  {who:>7}  {:>9.2}  {:>9.2}",
            figure.d,
            figure.batch,
            figure.p50_us,
            figure.min_us
        );
    }
    for (d, why) in &figures.lost {
        say!("vectors of {d}: the GPU was lost ({why}); the CPU answered that batch and all later ones");
    }
}
