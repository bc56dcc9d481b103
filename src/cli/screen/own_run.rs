//! The screen of a run, in a thread of its own.

use super::model::Owner;
use super::robot::Inside;
use super::show::show;
use super::terminal::Before;
use crate::runtime::control::Sources;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The lowest ordinary priority: the screen gives way to everything else on the machine.
const NICE: i32 = 19;
/// How long a run waits at its end for the screen to close. The screen checks for the end every 100 ms, but a
/// terminal that accepts no output would block it forever.
const END_PATIENCE: Duration = Duration::from_millis(1_000);

/// The screen. Dropping this value ends the screen and restores the terminal.
pub struct OwnRun {
    before: Before,
    closed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl OwnRun {
    /// Shows the run that `sources` describe; `end` ends the run. `None`: the terminal or the system refused,
    /// and the run continues without a screen.
    pub fn open(sources: Sources, end: Arc<AtomicBool>) -> Option<OwnRun> {
        let before = Before::read().ok()?;
        let closed = Arc::new(AtomicBool::new(false));
        let (is_closed, settings) = (closed.clone(), before.clone());
        let life = move || {
            let _ = rustix::process::setpriority_process(None, NICE); // applies only to this thread, on Linux
            let is_over = || is_closed.load(Ordering::Acquire) || end.load(Ordering::Acquire);
            let mut robot = Inside::new(sources, end.clone());
            if let Err(error) = show(Owner::Run, &mut robot, settings, is_over) {
                log::warn!("the run continues without a screen: {error}");
            }
        };
        let thread = thread::Builder::new().name("screen".into()).spawn(life).ok()?;
        Some(OwnRun { before, closed, thread: Some(thread) })
    }
}

impl Drop for OwnRun {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return };
        let until = Instant::now() + END_PATIENCE;
        while !thread.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        if !thread.is_finished() {
            self.before.restore();
            crate::cli::held_log::end();
        }
    }
}
