//! A brain's output, human-readable or as JSON: a line for each event, and a table at the end.

use crate::base::time::Span;
use crate::cli::exit::Failure;
use crate::cli::output;
use crate::runtime::brain::boards::ServedBoard;
use crate::runtime::brain::counters::{Figures, RobotRow};
use crate::runtime::brain::network::{BrainStatus, EmBrainStatus, RobotStatus};
use crate::runtime::brain::workers::Event;
use crate::runtime::em_brain::profile::Profile;
use crossbeam_channel::Receiver;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// A line of JSON.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum Line<'a> {
    Listening {
        address: &'a SocketAddr,
        boards: Vec<&'a str>,
        keys: usize,
        most_robots: usize,
        threads: usize,
    },
    Prepared {
        board: &'a str,
        cycle_us: f64,
    },
    EmBrain {
        address: &'a SocketAddr,
        board: &'a str,
        sensors: usize,
        motors: usize,
    },
    Joined {
        robot: &'a str,
        board: &'a str,
        engine: &'a str,
        resumed_age: Option<u64>,
    },
    Refused {
        robot: &'a str,
        why: &'a str,
    },
    Failed {
        robot: &'a str,
    },
    Left {
        saved: bool,
        robot: &'a RobotRow,
    },
    Ended {
        status: &'a BrainStatus,
    },
}

/// Prints a brain's events.
pub struct EventPrinter {
    json: bool,
    /// The last refusal of each robot. A robot tries again every second; a repeated refusal is printed only
    /// once.
    refused: BTreeMap<String, String>,
}

impl EventPrinter {
    pub fn new(json: bool) -> EventPrinter {
        EventPrinter { json, refused: BTreeMap::new() }
    }

    pub fn begin(
        &self,
        address: &SocketAddr,
        boards: &[Arc<ServedBoard>],
        keys: usize,
        most_robots: usize,
        threads: usize,
    ) -> Result<(), Failure> {
        let boards: Vec<&str> = boards.iter().map(|board| board.board.name.as_str()).collect();
        if self.json {
            return output::json(&Line::Listening { address, boards, keys, most_robots, threads });
        }
        say!(
            "brain at {address}, {threads} threads, at most {most_robots} robots, {keys} keys, boards: {}",
            boards.join(", ")
        );
        Ok(())
    }

    pub fn prepared(&self, board: &ServedBoard, cycle: Span) -> Result<(), Failure> {
        let (board, cycle_us) = (board.board.name.as_str(), cycle.as_micros_f64());
        if self.json {
            return output::json(&Line::Prepared { board, cycle_us });
        }
        say!("board '{board}': a cycle takes {:.2} ms (p99)", cycle_us / 1e3);
        Ok(())
    }

    pub fn em_brain(
        &self,
        address: &SocketAddr,
        profile: &Profile,
        board: &ServedBoard,
    ) -> Result<(), Failure> {
        let (board, sensors, motors) = (board.board.name.as_str(), profile.sensors(), profile.motors());
        if self.json {
            return output::json(&Line::EmBrain { address, board, sensors, motors });
        }
        say!("em-brain server on {address}: {sensors} sensors, {motors} motors, board '{board}'");
        Ok(())
    }

    pub fn tell(&mut self, event: &Event) -> Result<(), Failure> {
        if let Event::Refused { name, why } = event
            && self.refused.insert(name.clone(), why.clone()).as_ref() == Some(why)
        {
            return Ok(());
        }
        if let Event::Joined { name, .. } = event {
            self.refused.remove(name);
        }
        if self.json {
            return output::json(&match event {
                Event::Joined { name, board, engine, resumed_age } => {
                    Line::Joined { robot: name, board, engine, resumed_age: *resumed_age }
                }
                Event::Refused { name, why } => Line::Refused { robot: name, why },
                Event::Failed { name } => Line::Failed { robot: name },
                Event::Left { row, saved } => Line::Left { robot: row, saved: *saved },
            });
        }
        match event {
            Event::Joined { name, board, engine, resumed_age } => {
                let from = match resumed_age {
                    Some(age) => format!("resumes after {age} cycles"),
                    None => "starts at rest".to_string(),
                };
                relay!("joined: {name}, board '{board}', {from}; {engine}");
            }
            Event::Refused { name, why } => relay!("refused: {name}: {why}"),
            Event::Failed { name } => relay!("failed: the engine of {name}; it will be opened again"),
            Event::Left { row, saved } => relay!("{}", left(row, *saved)),
        }
        Ok(())
    }

    /// Prints the remaining events.
    pub fn print_remaining(&mut self, events: &Receiver<Event>) -> Result<(), Failure> {
        events.try_iter().try_for_each(|event| self.tell(&event))
    }

    pub fn end(&self, status: &BrainStatus) -> Result<(), Failure> {
        if self.json {
            return output::json(&Line::Ended { status });
        }
        table(status);
        Ok(())
    }
}

/// Says that a robot has left, because it was silent or because the brain ends.
fn left(row: &RobotRow, saved: bool) -> String {
    let RobotRow { name, silent_s, cycles, .. } = row;
    let saved = if saved { "saved" } else { "not saved" };
    format!("left: {name}, last heard {silent_s:.0} s ago, {cycles} cycles; {saved}")
}

/// Prints one row for each robot.
pub fn table(status: &BrainStatus) {
    let BrainStatus { listens, most_robots, threads, robots, drops, em_brain, .. } = status;
    say!("brain at {listens}: {} of {most_robots} robots, {threads} threads", robots.len());
    if !robots.is_empty() {
        say!(
            "  {:<16} {:<22} {:>8} {:>9} {:>6} {:>6} {:>7} {:>7} {:>9} {:>9} {:>9}",
            "robot",
            "board",
            "joined s",
            "cycles",
            "late",
            "missed",
            "refused",
            "failed",
            "p50 us",
            "p99 us",
            "margin us"
        );
    }
    for RobotStatus { row, address, drops } in robots {
        let figure =
            |of: fn(&Figures) -> f64| row.computed_us.map_or("-".into(), |all| format!("{:.0}", of(&all)));
        let margin = row.margin_us.map_or("-".into(), |margin| format!("{margin:.0}"));
        relay!(
            "  {:<16} {:<22} {:>8.0} {:>9} {:>6} {:>6} {:>7} {:>7} {:>9} {:>9} {margin:>9}",
            row.name,
            row.board,
            row.joined_s,
            row.cycles,
            row.late,
            row.missed,
            row.refused,
            row.failed,
            figure(|all| all.p50),
            figure(|all| all.p99),
        );
        let address = address.map_or("no address".into(), |address| address.to_string());
        let engine = row.engine.as_deref().unwrap_or("being opened");
        relay!(
            "    {address}, silent for {:.1} s, {} requests replaced by newer ones, dropped: {}; {engine}",
            row.silent_s,
            row.replaced,
            list_counts(&drops.named())
        );
    }
    say!("  dropped without a session: {}", list_counts(&drops.named()));
    if let Some(EmBrainStatus { listens, clients, accepted, turned_away, actions, errors, let_go }) = em_brain
    {
        say!(
            "  em-brain at {listens}: {clients} clients now, {accepted} accepted, {actions} actions, {errors} errors; \
             {let_go} disconnected, {turned_away} rejected"
        );
    }
}

fn list_counts(named: &[(&'static str, u64)]) -> String {
    let some: Vec<String> =
        named.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{count} {name}")).collect();
    if some.is_empty() { "nothing".to_string() } else { some.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::brain::counters::Counters;

    #[test]
    fn a_robot_that_leaves_at_the_end_is_not_called_silent() {
        let row = RobotRow { name: "rover".into(), silent_s: 0.02, cycles: 7, ..Counters::default().row() };
        assert_eq!(left(&row, true), "left: rover, last heard 0 s ago, 7 cycles; saved");
        let row = RobotRow { silent_s: 60.1, ..row };
        assert_eq!(left(&row, false), "left: rover, last heard 60 s ago, 7 cycles; not saved");
    }
}
