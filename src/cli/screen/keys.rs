//! The actions of the keys.

use super::model::{Model, Owner, Page};
use super::robot::Robot;
use crate::runtime::control::{Ask, Reply};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::io;

/// The action of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// Arm: follow the field.
    Arm,
    /// Stop until armed again.
    Disarm,
    /// Stop the motors and end the robot's program.
    Stop,
    /// Freeze the page, or continue.
    Freeze,
    /// Show or hide slices through the field.
    Slices,
    /// Show or hide the help.
    Help,
    /// Leave the screen; a run ends with it.
    Quit,
    /// Any other key.
    Other,
}

/// What happens after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    Stay,
    Leave,
}

impl Key {
    /// The action of a key event; `None` if the key was released.
    pub(super) fn of(event: KeyEvent) -> Option<Key> {
        if event.kind == KeyEventKind::Release {
            return None;
        }
        let control = event.modifiers.contains(KeyModifiers::CONTROL);
        Some(match event.code {
            KeyCode::Char('c') if control => Key::Quit, // for terminals where Ctrl-C sends no signal
            KeyCode::Char(_) if control => Key::Other,
            KeyCode::Char('a') => Key::Arm,
            KeyCode::Char('d') => Key::Disarm,
            KeyCode::Char('s') => Key::Stop,
            KeyCode::Char(' ') => Key::Freeze,
            KeyCode::Char('f') => Key::Slices,
            KeyCode::Char('h' | '?') => Key::Help,
            KeyCode::Char('q') => Key::Quit,
            _ => Key::Other,
        })
    }
}

/// Performs the action of `key`. Fails if the robot does not answer any more.
pub(super) fn press(key: Key, model: &mut Model, robot: &mut dyn Robot) -> io::Result<After> {
    if key != Key::Arm {
        model.forget_arming();
    }
    match key {
        Key::Arm => {
            if model.may_arm() {
                model.notice = outcome("armed", "not armed", &robot.ask(Ask::Arm)?);
            }
        }
        Key::Disarm => {
            model.notice =
                outcome("disarmed: the motors are stopped", "not disarmed", &robot.ask(Ask::Disarm)?);
        }
        Key::Stop => {
            robot.ask(Ask::Stop)?;
            model.has_stopped = true;
            model.notice = "stopping the motors; the robot's program ends".to_string();
        }
        Key::Freeze => model.freeze(),
        Key::Slices => model.turn_to(Page::Slices),
        Key::Help => model.turn_to(Page::Help),
        Key::Quit => {
            if model.owner == Owner::Run {
                robot.ask(Ask::Stop)?;
            }
            return Ok(After::Leave);
        }
        Key::Other if model.page == Page::Help => model.page = Page::Robot,
        Key::Other => {}
    }
    Ok(After::Stay)
}

fn outcome(done: &str, refused: &str, reply: &Reply) -> String {
    match reply.done {
        true => done.to_string(),
        false => format!("{refused}: {}", reply.why.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::control::{Sources, Status};

    /// A robot that records its requests, and refuses to arm.
    #[derive(Default)]
    struct Noting(Vec<Ask>);

    impl Robot for Noting {
        fn status(&mut self, _with_slices: bool) -> io::Result<Status> {
            Ok(Sources::idle().status())
        }
        fn ask(&mut self, ask: Ask) -> io::Result<Reply> {
            self.0.push(ask);
            let why = vec!["a required sensor is not good yet".to_string()];
            let (done, status) = (ask != Ask::Arm, self.status(false)?);
            Ok(Reply { done, why, may_pass: true, disarms: None, status })
        }
    }

    fn pressed(owner: Owner, keys: &str) -> (Vec<Ask>, Model, After) {
        let simulated = Status { simulated: true, ..Sources::idle().status() };
        let (mut robot, mut model) = (Noting::default(), Model::new(owner, false, simulated));
        let mut after = After::Stay;
        for key in keys.chars() {
            let event = KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE);
            after = press(Key::of(event).unwrap(), &mut model, &mut robot).unwrap();
        }
        (robot.0, model, after)
    }

    #[test]
    fn each_key_asks_for_what_it_stands_for() {
        let (asked, model, after) = pressed(Owner::Top, "ads ?x");
        assert_eq!(asked, [Ask::Arm, Ask::Disarm, Ask::Stop]);
        assert_eq!((model.is_frozen(), model.page, after), (true, Page::Robot, After::Stay));
        for (keys, page) in
            [("h", Page::Help), ("f", Page::Slices), ("ff", Page::Robot), ("fhx", Page::Robot)]
        {
            assert_eq!(pressed(Owner::Top, keys).1.page, page, "{keys}");
        }
        assert_eq!(pressed(Owner::Top, "fx").1.page, Page::Slices, "only the help closes on any key");
    }

    #[test]
    fn a_refusal_is_shown_with_its_reason() {
        let (_, model, _) = pressed(Owner::Top, "a");
        assert_eq!(model.notice, "not armed: a required sensor is not good yet");
    }

    #[test]
    fn q_stops_a_run_and_leaves_another_programs_robot_alone() {
        let (asked, _, after) = pressed(Owner::Run, "q");
        assert_eq!((asked, after), (vec![Ask::Stop], After::Leave));
        let (asked, _, after) = pressed(Owner::Top, "q");
        assert_eq!((asked, after), (vec![], After::Leave));
    }
}
