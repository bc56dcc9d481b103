//! Where the holographic memory computes on this machine: from which batch size the GPU is faster, measured
//! now or at an earlier start; or why the processor does everything. The thread is abandoned if a driver
//! hangs.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::Finding;
use super::gpu::Gpu;
use crate::memory::Dim;
use crate::memory::choice::{CALIBRATION, Choice, Preference, file_for, room_for};
use crate::memory::gpu::GpuWorkspace;

/// Dimension of the vectors of a robot's map, and in most published tables on such memories.
const NUMBERS: usize = 512;
/// Opening, compiling the kernels once, and a calibration.
const PATIENCE: Duration = Duration::from_secs(60);

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
    let silent = || Err(format!("the GPU did not answer within {} s", PATIENCE.as_secs()));
    let answer = match thread {
        Ok(_) => told.recv_timeout(PATIENCE).unwrap_or_else(|_| silent()),
        Err(error) => Err(format!("cannot start a thread to query the GPU: {error}")),
    };
    answer.unwrap_or_else(|why| format!("on the processor: {why}"))
}

fn choice(preference: Preference) -> Result<String, crate::memory::Fault> {
    let dim = Dim::new(NUMBERS)?;
    Ok(match GpuWorkspace::open(dim, room_for(dim)) {
        Ok(mut gpu) => Choice::of(&mut gpu, preference, file_for(dim).as_deref(), CALIBRATION).to_string(),
        Err(unfit) => Choice::without(unfit).to_string(),
    })
}
