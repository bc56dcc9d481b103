//! The screen's loop: reads the status ten times a second, draws it, and handles the keys.

use super::keys::{After, Key, press};
use super::model::{Model, Owner, Page};
use super::robot::Robot;
use super::terminal::{Before, Screen, has_colour};
use crate::cli::held_log;
use ratatui::crossterm::event::{self, Event};
use std::io;
use std::time::{Duration, Instant};

/// Time between two pages: users do not read faster, and the values are not updated more often.
const PAGE_EVERY: Duration = Duration::from_millis(100);

/// Shows `robot` until the user leaves the screen or `ended` returns true. Fails if the robot does not answer
/// or the terminal is gone.
pub(super) fn show(
    owner: Owner,
    robot: &mut dyn Robot,
    before: Before,
    ended: impl Fn() -> bool,
) -> io::Result<()> {
    let mut model = Model::new(owner, has_colour(), robot.status(false)?);
    let mut screen = Screen::enter(before)?;
    while !ended() {
        model.log = held_log::newest();
        screen.show(&model)?;
        let due = Instant::now() + PAGE_EVERY;
        while let Some(left) = due.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            if !event::poll(left)? {
                break;
            }
            let Event::Key(key) = event::read()? else { continue };
            let Some(key) = Key::of(key) else { continue };
            if press(key, &mut model, robot)? == After::Leave {
                return Ok(());
            }
        }
        match robot.status(model.page == Page::Slices) {
            Ok(status) => model.take(status),
            Err(_) if model.has_stopped => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
