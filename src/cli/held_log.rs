//! Log lines while the screen uses the terminal: they are kept, the newest is shown on the screen, and all
//! are printed when the screen ends.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of lines kept: more than a user reads after a run. Older ones are dropped and counted.
const MOST_LINES: usize = 500;

/// The kept lines; `None` while no screen is using the terminal.
static HELD: Mutex<Option<Held>> = Mutex::new(None);

/// Kept lines.
#[derive(Default)]
struct Held {
    lines: VecDeque<String>,
    dropped: u64,
}

impl Held {
    fn push(&mut self, text: &str) {
        for line in text.lines() {
            if self.lines.len() == MOST_LINES {
                self.lines.pop_front();
                self.dropped += 1;
            }
            self.lines.push_back(line.to_string());
        }
    }

    fn print(self, to: &mut impl Write) -> io::Result<()> {
        if self.dropped > 0 {
            writeln!(to, "{} older log lines were dropped", self.dropped)?;
        }
        self.lines.iter().try_for_each(|line| writeln!(to, "{line}"))
    }
}

fn held() -> MutexGuard<'static, Option<Held>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts to keep lines.
pub(super) fn begin() {
    held().get_or_insert_default();
}

/// Prints the kept lines. Later lines go to standard error again.
pub(super) fn end() {
    if let Some(kept) = held().take() {
        let _ = kept.print(&mut io::stderr().lock()); // standard error may be closed
    }
}

/// The newest line.
pub(super) fn newest() -> Option<String> {
    held().as_ref()?.lines.back().cloned()
}

/// Keeps `text` if lines are being kept and no other thread has the lock; returns whether it was kept. Never
/// waits, so the panic hook can use it.
pub(super) fn keep(text: &str) -> bool {
    let Ok(mut held) = HELD.try_lock() else { return false };
    held.as_mut().map(|held| held.push(text)).is_some()
}

/// Whether a screen uses the terminal. Never waits: `false` while another thread has the lock.
pub(super) fn is_on() -> bool {
    HELD.try_lock().is_ok_and(|held| held.is_some())
}

/// The log's output: standard error, unless lines are being kept.
pub(super) struct Destination;

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut *held() {
            Some(held) => held.push(&String::from_utf8_lossy(bytes)),
            None => io::stderr().write_all(bytes)?,
        }
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_are_kept_and_the_rest_is_counted() {
        let mut held = Held::default();
        (0..MOST_LINES + 3).for_each(|line| held.push(&format!("line {line}\n")));
        let mut printed = Vec::new();
        held.print(&mut printed).unwrap();
        let printed = String::from_utf8(printed).unwrap();
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!(lines[..2], ["3 older log lines were dropped", "line 3"]);
        assert_eq!((lines.len(), lines[MOST_LINES]), (MOST_LINES + 1, "line 502"));
    }
}
