//! Sets up the terminal, and restores it however the screen ends.
//!
//! The keys that end a program still send their signals (`ISIG`): Ctrl-C stops a robot even if its screen
//! hangs.

use super::draw::draw;
use super::model::Model;
use crate::cli::exit::Failure;
use crate::cli::held_log;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr,
};
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write, stderr, stdin, stdout};

/// Switches to the terminal's alternate screen, cleared and without a cursor, and back. Nothing here queries
/// the terminal: on a slow connection, a late answer would look like no answer at all.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[2J\x1b[?25l";
const LEAVE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1049l";
/// Room for a whole page with its colours, so that it goes out in one write.
const PAGE_BYTES: usize = 64 * 1024;

/// Whether a screen can use the terminal: all three standard streams are terminals, `TERM` names one that can
/// do more than print lines, and this program is in its foreground process group.
pub(super) fn is_usable() -> bool {
    let is_capable = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
    let are_terminals = stdin().is_terminal() && stdout().is_terminal() && stderr().is_terminal();
    is_capable && are_terminals && tcgetpgrp(stdin()).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Whether colours may be used (no-color.org).
pub(super) fn has_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Whether to show a screen. With `NO_COLOR` there is a line instead, unless the user asks for the screen
/// with `--screen`, which is then without colours.
pub fn is_wanted(asked: bool) -> bool {
    (asked || has_colour()) && is_usable()
}

/// Fails if the user asks for a screen that cannot be shown here.
pub fn check(asked: bool) -> Result<(), Failure> {
    match asked && !is_usable() {
        true => Err(Failure::usage("--screen: no terminal here can show a screen").fix(
            "run this in a terminal, in the foreground, without redirecting it; TERM must not be 'dumb'",
        )),
        false => Ok(()),
    }
}

/// The terminal's settings from before the screen, to restore from another thread.
#[derive(Clone)]
pub(super) struct Before(Termios);

impl Before {
    pub(super) fn read() -> io::Result<Before> {
        Ok(Before(tcgetattr(stdin())?))
    }

    /// Restores the settings; never waits.
    pub(super) fn restore(&self) {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.0); // the terminal may be gone
    }
}

/// The screen on the terminal.
pub(super) struct Screen {
    before: Before,
    terminal: Terminal<CrosstermBackend<BufWriter<File>>>,
    direct: File,
}

impl Screen {
    /// Sets up the terminal. From now on, log lines are kept until the screen ends.
    pub(super) fn enter(before: Before) -> io::Result<Screen> {
        // Not the standard library's stdout: a write that the terminal does not accept would hold its lock.
        let direct = File::from(rustix::io::dup(stdout())?);
        let writer = BufWriter::with_capacity(PAGE_BYTES, direct.try_clone()?);
        let terminal = Terminal::new(CrosstermBackend::new(writer))?;
        let mut raw = before.0.clone();
        raw.make_raw();
        raw.local_modes.insert(LocalModes::ISIG);
        raw.special_codes[SpecialCodeIndex::VSUSP] = 0; // Ctrl-Z: a suspended screen would keep the terminal
        held_log::begin();
        let mut screen = Screen { before, terminal, direct };
        tcsetattr(stdin(), OptionalActions::Now, &raw)?;
        screen.direct.write_all(ENTER)?;
        Ok(screen)
    }

    /// Shows the page of `model`.
    pub(super) fn show(&mut self, model: &Model) -> io::Result<()> {
        self.terminal.draw(|frame| draw(model, frame.area(), frame.buffer_mut())).map(|_| ())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.direct.write_all(LEAVE); // the terminal may be gone
        self.before.restore();
        held_log::end();
    }
}
