//! `setup --undo`: undoes the changes in the journal, newest first. The robot is stopped first.

use std::ops::ControlFlow;

use serde_json::json;

use super::{Site, ask, is_terminal, is_yes, words};
use crate::cli::exit::Failure;
use crate::cli::output;
use crate::deploy::setup::carry_out::{self, Step};
use crate::deploy::setup::journal::Journal;

/// Runs `setup --undo`.
pub(super) fn run(site: &Site, yes: bool, json: bool) -> Result<(), Failure> {
    if !site.may_change() {
        return Err(Failure::permission("only root can undo what setup has changed")
            .fix("sudo ganglion setup --undo"));
    }
    let journal = Journal::load(&site.root).map_err(words::journal)?;
    if journal.changes.is_empty() {
        say!("Nothing to undo: no setup has changed this machine.");
        return report(json, 0, &[]);
    }
    say!("Setup made these changes; --undo undoes them, newest first:\n");
    journal.changes.iter().rev().for_each(|entry| say!("  {}", words::brief(&entry.action)));
    let agreed = yes || !json && is_terminal() && is_yes(&ask("\nStop the robot and undo all this? [y/N] ")?);
    if !agreed {
        say!(
            "\nNothing was changed. 'sudo ganglion setup --undo --yes' stops the robot and undoes all this."
        );
        return report(json, 0, &[]);
    }
    say!();
    // The service may not be running, so ignore errors.
    for unit in ["ganglion.service", "ganglion-guard.service"] {
        let _ = site.programs.run("systemctl", &["stop", unit]);
    }
    let needs_reboot = journal.changes.iter().any(|entry| entry.action.needs_reboot());
    let mut left = Vec::new();
    let undone = carry_out::undo(&site.root, site.programs, &mut |step| {
        match step {
            Step::Forgotten(action) => say!("undone: {}", words::brief(action)),
            Step::LeftAlone(action) => {
                say!("left as it is: {}: it was changed after setup", words::brief(action));
                left.push(words::brief(action));
            }
            Step::Noted(_) | Step::Done(_) | Step::Restored(_) => {}
        }
        ControlFlow::Continue(())
    })
    .map_err(|error| words::cut_off(error, "run 'sudo ganglion setup --undo' again"))?;
    if let Err(error) = site.programs.run("systemctl", &["daemon-reload"]) {
        say!("systemd will read its files at the next boot: {error}");
    }
    say!("\n{undone} changes undone, {} left alone.", left.len());
    if needs_reboot {
        say!(
            "Reboot this machine: the boot loader's files were restored, which takes effect at the next boot."
        );
    }
    report(json, undone, &left)
}

fn report(json: bool, undone: usize, left: &[String]) -> Result<(), Failure> {
    match json {
        true => output::json(&json!({ "schema": 1, "undone": undone, "left_alone": left })),
        false => Ok(()),
    }
}
