//! `bench hrr`: the holographic memory's operations beside a plain copy of as many bytes.

use super::{cut_short, progress, seconds};
use crate::base::time::Span;
use crate::cli::exit::Failure;
use crate::cli::interrupt::Interrupt;
use crate::cli::origin::{self, COMPUTED, Sources};
use crate::cli::output;
use crate::deploy::bench::{HrrBench, HrrFigures};
use crate::memory::choice::{Preference, Residence};
use serde::Serialize;

/// Arguments of `bench hrr`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion bench hrr                            all operations, 512 to 4096 numbers, 1 to 10,000 vectors
  ganglion bench hrr --quick                    512 numbers, 1 and 100 vectors, in a second or two
  ganglion bench hrr --dims 512 --batches 1,1000 --json | tail -1
  ganglion bench hrr --gpu-from 200             the GPU answers dispatched batches from 200 vectors on

The floor is a plain copy of as many bytes in total as the operation has to read and write, each number
once, in turns with it. An operation that mostly reads can be faster than that.
If there is a GPU, it does each operation too, with its rows here (copied there and back) and with its rows
there. The first run measures from which batch on the GPU is faster, and keeps the result. The dispatcher
then gets each batch, sends it where that result or --gpu-from says, and the table says who answered it.")]
pub struct Args {
    /// Numbers in a vector
    #[arg(long, value_delimiter = ',', default_values_t = [512, 1024, 4096], value_name = "D,...",
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(64..=8192))]
    dims: Vec<usize>,
    /// Vectors in a batch; items of a clean-up
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 100, 1000, 10_000], value_name = "B,...",
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    batches: Vec<usize>,
    /// Time for each figure
    #[arg(long, default_value = "0.3", value_parser = seconds)]
    seconds: Span,
    /// Smallest batch for the GPU: as measured, never, or this many rows
    #[arg(long, value_name = "measured|never|ROWS", default_value = "measured")]
    gpu_from: Preference,
    /// Leave out whatever takes more memory than this
    #[arg(long, default_value_t = 1500, value_name = "MB", value_parser = clap::value_parser!(u32).range(1..))]
    memory: u32,
    /// 512 numbers, 1 and 100 vectors, 20 ms each
    #[arg(long, conflicts_with_all = ["dims", "batches", "seconds"])]
    quick: bool,
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    json: bool,
}

/// The object of `bench hrr`.
#[derive(Debug, Serialize)]
struct HrrReport {
    schema: u32,
    /// What was not measured, by key.
    sources: Sources,
    #[serde(flatten)]
    figures: HrrFigures,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
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
    if args.json {
        output::json(&HrrReport { schema: 1, sources: origin::all(["store_bytes"], COMPUTED), figures })?;
    }
    Ok(())
}

fn say_figures(figures: &HrrFigures) {
    say!(
        "holographic memory, instructions {}, measured on this machine just now, microseconds",
        figures.simd
    );
    say!("operation                     d   batch     done        p50     lowest      floor  p50/floor");
    for cell in &figures.cells {
        let name = cell.operation.name();
        let who = match cell.residence {
            None => "CPU",
            Some(Residence::Host) => "GPU, in",
            Some(Residence::Gpu) => "GPU",
        };
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
    say_dispatched(figures);
    for (d, choice) in &figures.choices {
        say!("vectors of {d}: {choice}");
    }
    for (d, batch) in &figures.left_out {
        say!("left out, {batch} vectors of {d}: more memory than --memory allows");
    }
    for (d, vectors, bytes) in figures.store_bytes.iter().filter(|(_, vectors, _)| *vectors >= 1000) {
        say!("a store of {vectors} vectors of {d} takes {:.1} MB (computed)", *bytes as f64 / 1e6);
    }
}

/// Who answered what the dispatcher got.
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
        say!("vectors of {d}: the GPU was lost ({why}); the CPU answered that batch and all after it");
    }
}
