//! The contacts of a simulated run one by one: where and when the car touched something or fell.

use crate::sim::{Contact, MOST_CONTACTS, Obstacle};
use serde::Serialize;

/// How many contacts the page of text lists; `--json` has up to [`MOST_CONTACTS`].
const LISTED: usize = 3;

/// One contact of the simulated car.
#[derive(Debug, Serialize)]
pub(super) struct ContactReport {
    /// When, seconds since the start of the run.
    after_s: f64,
    /// What it ran into: `wall`, `disc`, or `fall` if a wheel left the floor.
    with: &'static str,
    /// Where the middle of its rear axle was, metres.
    x_m: f64,
    y_m: f64,
    /// Its heading, degrees, 0 along x, positive to the left.
    heading_deg: f64,
    backwards: bool,
    /// What and when in words, for the page of text.
    #[serde(skip)]
    words: String,
}

impl ContactReport {
    pub(super) fn of(contact: &Contact) -> ContactReport {
        let Contact { after, with, pose, backwards } = *contact;
        ContactReport {
            after_s: after.as_secs_f64(),
            with: with.map_or("fall", Obstacle::name),
            x_m: pose.x,
            y_m: pose.y,
            heading_deg: pose.heading.to_degrees(),
            backwards,
            words: contact.to_string(),
        }
    }
}

/// Prints the first contacts, and how many of `all` are left out.
pub(super) fn say_first(contacts: &[ContactReport], all: u64) {
    for ContactReport { words, x_m, y_m, .. } in contacts.iter().take(LISTED) {
        say!("             {words}, rear axle at ({x_m:.2} m, {y_m:.2} m)");
    }
    let more = all.saturating_sub(LISTED as u64);
    if more > 0 {
        say!("             and {more} more: --json lists and --svg FILE draws the first {MOST_CONTACTS}");
    }
}
