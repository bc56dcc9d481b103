//! Where the holographic memory computes on this machine: the batch size above which the GPU is faster,
//! measured now or at an earlier start, or why the processor does everything. Also tries the smallest batches
//! that would go to the GPU. The thread is abandoned if a driver hangs.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::Finding;
use super::gpu::Gpu;
use crate::memory::choice::{CALIBRATION, Preference, Work, file_for, room_for};
use crate::memory::vector::random;
use crate::memory::{Best, Dim, Dispatcher, Fault, Length, Store, Workspace};

/// Vector length of a robot's map, and in most published tables on such memories.
const NUMBERS: usize = 512;
/// Timeout for opening the GPU, compiling the kernels once, and calibrating.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The printed line. A missing GPU is not a fault.
pub(super) fn finding(gpu: &Gpu, preference: Preference) -> Finding {
    let words = match &gpu.absence {
        Some(absence) => format!("on the processor: {absence}"),
        None => ask(preference),
    };
    Finding::ok("vectors", format!("of {NUMBERS} numbers: {words}"))
}

fn ask(preference: Preference) -> String {
    let (tell, told) = mpsc::channel();
    let thread = thread::Builder::new().name("memory choice".into()).spawn(move || {
        let _ = tell.send(choice(preference).map_err(|fault| fault.to_string()));
    });
    let silent = || Err(format!("the GPU did not answer within {} s", TIMEOUT.as_secs()));
    let answer = match thread {
        Ok(_) => told.recv_timeout(TIMEOUT).unwrap_or_else(|_| silent()),
        Err(error) => Err(format!("cannot start a thread to query the GPU: {error}")),
    };
    answer.unwrap_or_else(|why| format!("on the processor: {why}"))
}

/// What the dispatcher does with this preference, and whether the GPU's results for its smallest batches
/// equal the processor's bit for bit.
fn choice(preference: Preference) -> Result<String, Fault> {
    let dim = Dim::new(NUMBERS)?;
    let mut dispatcher =
        Dispatcher::open(dim, room_for(dim), preference, file_for(dim).as_deref(), CALIBRATION);
    let mut words = dispatcher.choice().to_string();
    for (work, name) in [(Work::Bind, "bind"), (Work::Superpose, "superpose"), (Work::CleanUp, "clean-up")] {
        let Some(rows) = dispatcher.smallest_on_gpu(work) else { continue };
        let before = dispatcher.answered();
        let same = has_same_bits(&mut dispatcher, work, rows)?;
        let verdict = match (dispatcher.answered().gpu > before.gpu, same, dispatcher.loss()) {
            (true, true, _) => "the GPU's results equal the CPU's bit for bit".to_string(),
            (true, false, _) => "the GPU's results differ from the CPU's: use --memory-gpu never".to_string(),
            (false, _, Some(loss)) => format!("computed on the CPU because the GPU was lost: {loss}"),
            (false, _, None) => "computed on the CPU".to_string(),
        };
        words += &format!("; tried {name} of {rows}: {verdict}");
    }
    Ok(words)
}

/// Whether the results of one batch through the dispatcher equal those of the processor bit for bit.
fn has_same_bits(dispatcher: &mut Dispatcher, work: Work, rows: usize) -> Result<bool, Fault> {
    let dim = Dim::new(NUMBERS)?;
    let some: Vec<f32> = (0..7).flat_map(|number| random(1, number, dim)).collect();
    let batch: Vec<f32> = some.iter().copied().cycle().take(rows * NUMBERS).collect();
    let (mut found, mut own) = (vec![0.0; batch.len()], vec![0.0; batch.len()]);
    let mut workspace = Workspace::new(dim);
    match work {
        Work::Bind => {
            dispatcher.bind(&batch, &some[..NUMBERS], Length::Unit, &mut found)?;
            workspace.bind(&batch, &some[..NUMBERS], Length::Unit, &mut own)?;
        }
        Work::Superpose => {
            dispatcher.superpose(&batch, None, Length::Unit, &mut found[..NUMBERS])?;
            workspace.superpose(&batch, None, Length::Unit, &mut own[..NUMBERS])?;
        }
        Work::CleanUp => {
            let mut store = Store::new(dim, rows, usize::MAX)?;
            batch.chunks_exact(NUMBERS).try_for_each(|row| store.push(row).map(drop))?;
            let (mut there, mut here) = ([Best::of(5)], [Best::of(5)]);
            dispatcher.nearest(&store, &some[..NUMBERS], &mut there)?;
            store.nearest(&some[..NUMBERS], &mut here)?;
            return Ok(bits_of(&there[0]).eq(bits_of(&here[0])));
        }
    }
    Ok(found.iter().map(|x| x.to_bits()).eq(own.iter().map(|x| x.to_bits())))
}

fn bits_of(best: &Best) -> impl Iterator<Item = (u32, u32)> {
    best.list().iter().map(|found| (found.row, found.cosine.to_bits()))
}
