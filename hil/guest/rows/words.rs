//! The table of the rows as text, as in docs/virtual-bench-rows.md.

use super::{Course, End, Loop, ROWS, Row, Service};

/// The lines of the table in the documentation.
pub fn table() -> Vec<String> {
    let mut lines =
        vec!["| row | shows | course and end | fails if |".to_string(), "|---|---|---|---|".to_string()];
    let line =
        |row: &Row| format!("| `{}` | {} | {} | {} |", row.name, row.shows, row.course.text(), row.fails_if);
    lines.extend(ROWS.iter().map(line));
    lines
}

impl Course {
    /// Text for the table.
    pub(super) fn text(self) -> String {
        match self {
            Course::Trouble(trouble, ms, end) => {
                format!("{}; {ms} ms: {}", trouble.text(), end.text())
            }
            Course::Reset(trouble, ms, end) => {
                format!("holds = \"reset\"; {}; {ms} ms: {}", trouble.text(), end.text())
            }
            Course::LeftInReset => {
                "holds = \"reset\", guard stopped: `probe`, `doctor --test`, `calibrate` see the controller, no motor moves, the line is low again".into()
            }
            Course::Kills(times, limit) => format!("{times} times: stopped within {}", limit.text()),
            Course::Loop(Loop { loaded, urgent, gate_us: [least, aim], .. }) => {
                let with = if loaded { "with hackbench" } else { "idle" };
                match urgent {
                    true => format!("200 times, {with}: p99 at most {least} us, aim {aim} us"),
                    false => format!("200 times, {with}, no FIFO: p99 above {least} us is caught"),
                }
            }
            Course::Floor(_) => "printed with the loops; the only gate is the baseline + 10 %".into(),
            Course::Verb(samples) => {
                format!("line 20 wired to 21, the left motor to 22, {samples} times: its own verdict, 10 ms")
            }
            Course::Service(service) => service.text().into(),
            Course::Soak(seconds) => {
                format!("{seconds} s: skipped at most 0.1 %, drift at most 0.5 ms, memory at most +256 kB")
            }
        }
    }
}

impl Service {
    pub(super) fn text(self) -> &'static str {
        match self {
            Service::Start => "ready, drives, is not root; after stop: stopped within 500 ms",
            Service::Stop => {
                "SIGSTOP: stopped within the guard's timeout + 20 ms, one restart, stays stopped until armed, drives again"
            }
            Service::Kill => {
                "SIGKILL: stopped within 100 ms, one restart, stays stopped until armed, drives again"
            }
            Service::BadBoard => "exit 78, no restart, no motion",
            Service::Refused => "bus closed to its group: exit 77, no restart, no motion",
            Service::Silent => {
                "controller off the bus from the start: exit 69, the likely reasons in the log, at most 5 starts, no motion"
            }
            Service::HungBus => {
                "rebind = true; the bus hangs until its driver is rebound: stopped within 100 ms, freed by ganglion-rebind, drives again; the runtime's user itself may not rebind"
            }
            Service::HungTransfer => {
                "one transfer hangs for 10 s, whatever signal comes: stopped within 100 ms, killed by the watchdog, one restart, stays stopped until armed, drives again"
            }
            Service::Hostile => {
                "signals, rm, mv, ln, /proc and a second guard by the runtime's user: all refused, and the robot drives on; the guard's own user may signal it and write to its folder"
            }
        }
    }
}

impl End {
    pub(super) fn text(self) -> String {
        match self {
            End::StandsThenDrives(limit, _) => format!("stopped within {}, then drives again", limit.text()),
            End::BacksOff(limit, _) => {
                format!("no forward motion within {}, then drives again", limit.text())
            }
            End::Disarms(limit, _) => {
                format!("stopped within {}, stays stopped until armed, then drives again", limit.text())
            }
            End::Stands(limit, _) => format!("stopped within {}, and stays stopped", limit.text()),
            End::RidesOut(_) => "drives on, no reflex".into(),
            End::Recovers => "drives again within 8 s".into(),
        }
    }
}
