//! How the program ends: an exit code that a service manager can act on, and one message for the user: what
//! failed, where, and what to do. The codes are those of BSD's `sysexits.h`, which systemd knows by name,
//! and the shells' 130 for Ctrl-C; none is our own.

use std::fmt::{self, Display};
use std::io::Write;
use std::process::ExitCode;

use super::output;
use crate::system::sanitize;

/// Why the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Success.
    Done = 0,
    /// The command line is wrong (EX_USAGE).
    Usage = 64,
    /// A file was read and its content is wrong (EX_DATAERR).
    Data = 65,
    /// Something needed is not available: a file, a bus, a device; or the motors did not confirm the final
    /// stop (EX_UNAVAILABLE).
    Unavailable = 69,
    /// A bug: an invariant of the program does not hold (EX_SOFTWARE).
    Bug = 70,
    /// Temporary failure (EX_TEMPFAIL): the machine missed a target of its board, which it may meet when less
    /// busy, or the runtime refused to arm the robot in its present state.
    Missed = 75,
    /// A permission is missing (EX_NOPERM).
    Permission = 77,
    /// The board file is wrong (EX_CONFIG).
    Config = 78,
    /// A second Ctrl-C ended the program at once (128 + SIGINT, as shells count).
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// A verb's failure: an exit code and a message for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    exit: Exit,
    what: String,
    place: Option<String>,
    fix: Option<String>,
}

impl Failure {
    fn new(exit: Exit, what: impl Display) -> Failure {
        Failure { exit, what: what.to_string(), place: None, fix: None }
    }
    /// The command line is wrong (64).
    pub fn usage(what: impl Display) -> Failure {
        Failure::new(Exit::Usage, what)
    }
    /// A file's content is wrong: a log, a read-out, a recording (65).
    pub fn data(what: impl Display) -> Failure {
        Failure::new(Exit::Data, what)
    }
    /// Something needed is not available: a file, a bus, a device (69).
    pub fn unavailable(what: impl Display) -> Failure {
        Failure::new(Exit::Unavailable, what)
    }
    /// An invariant of the program does not hold (70). Never for bad input.
    pub fn bug(what: impl Display) -> Failure {
        Failure::new(Exit::Bug, what)
    }
    /// The machine missed a target of its board (75).
    pub fn missed(what: impl Display) -> Failure {
        Failure::new(Exit::Missed, what)
    }
    /// The robot refuses the request in its present state (75).
    pub fn not_now(what: impl Display) -> Failure {
        Failure::new(Exit::Missed, what)
    }
    /// A permission is missing (77).
    pub fn permission(what: impl Display) -> Failure {
        Failure::new(Exit::Permission, what)
    }
    /// The board file is wrong (78).
    pub fn config(what: impl Display) -> Failure {
        Failure::new(Exit::Config, what)
    }
    /// A file could not be opened, read or written: 77 if permission is missing, else 69.
    pub fn file(path: &std::path::Path, error: &std::io::Error) -> Failure {
        let exit = match error.kind() {
            std::io::ErrorKind::PermissionDenied => Exit::Permission,
            _ => Exit::Unavailable,
        };
        Failure::new(exit, error).at(path.display())
    }
    /// Adds the place: a file, a file and a line, a device.
    pub fn at(mut self, place: impl Display) -> Failure {
        self.place = Some(sanitize::one_line(&place.to_string()).into_owned());
        self
    }
    /// Adds what to do about it.
    pub fn fix(mut self, fix: impl Display) -> Failure {
        self.fix = Some(fix.to_string());
        self
    }
    /// The exit code.
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// clap's message without colours: the first paragraph says what failed, and its tips are the fix,
    /// together with the help of `verb` instead of clap's line of usage.
    pub(super) fn from_clap(error: &clap::Error, verb: &str) -> Failure {
        let text = error.render().to_string();
        let mut lines = text.lines().map(str::trim);
        let what: Vec<&str> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
        let what = what.join(" "); // a list that follows a colon, or the possible values
        let mut fix: Vec<String> =
            lines.filter_map(|line| line.strip_prefix("tip: ")).map(str::to_string).collect();
        fix.push(format!("see '{verb} --help'"));
        Failure::usage(what.strip_prefix("error: ").unwrap_or(&what)).fix(fix.join("; "))
    }

    /// Writes the message to standard error, once. If that fails, there is nowhere left to report the
    /// failure.
    pub(super) fn report(&self) {
        let text = if output::stderr_is_terminal() {
            sanitize::lines(&self.lines()).into_owned()
        } else {
            format!("{}{self}\n", output::journal_prefix(log::Level::Error))
        };
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }

    /// The message as a terminal shows it.
    fn lines(&self) -> String {
        let mut text = format!("ganglion: {}\n", self.what.trim_end());
        for (label, words) in [("where", &self.place), ("to do", &self.fix)] {
            if let Some(words) = words {
                text.push_str(&format!("  {label}: {}\n", words.trim_end()));
            }
        }
        text
    }
}

/// The message as one line, for logs: `ganglion: where: what (to do)`.
impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ganglion: ")?;
        if let Some(place) = &self.place {
            write!(f, "{}: ", one_line(place))?;
        }
        f.write_str(&one_line(&self.what))?;
        if let Some(fix) = &self.fix {
            write!(f, " (to do: {})", one_line(fix))?;
        }
        Ok(())
    }
}

/// Joins the lines of a text, and escapes control characters.
fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>();
    sanitize::one_line(&lines.join("; ")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_what_where_and_what_to_do() {
        let failure =
            Failure::config("period_ms is 0\nmust be 1 to 100").at("boards/mine.toml:12").fix("give it 10");
        assert_eq!(
            failure.to_string(),
            "ganglion: boards/mine.toml:12: period_ms is 0; must be 1 to 100 (to do: give it 10)"
        );
        assert_eq!(
            failure.lines(),
            "ganglion: period_ms is 0\nmust be 1 to 100\n  where: boards/mine.toml:12\n  to do: give it 10\n"
        );
    }

    #[test]
    fn terminal_control_sequences_are_escaped() {
        let failure = Failure::data("label \x1b]0;owned\x07").at("a\nb.csv").fix("\x1b[2K");
        assert_eq!(failure.to_string(), "ganglion: a\\x0ab.csv: label \\x1b]0;owned\\x07 (to do: \\x1b[2K)");
    }

    #[test]
    fn codes_are_those_of_sysexits() {
        let codes = [Exit::Usage, Exit::Data, Exit::Unavailable, Exit::Bug];
        assert_eq!(codes.map(|exit| exit as u8), [64, 65, 69, 70]);
        let codes = [Exit::Missed, Exit::Permission, Exit::Config];
        assert_eq!(codes.map(|exit| exit as u8), [75, 77, 78]);
    }

    #[test]
    fn an_unreadable_file_is_a_missing_permission() {
        let path = std::path::Path::new("board.toml");
        let denied = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let absent = std::io::Error::from(std::io::ErrorKind::NotFound);
        assert_eq!(Failure::file(path, &denied).exit(), Exit::Permission);
        assert_eq!(Failure::file(path, &absent).exit(), Exit::Unavailable);
    }
}
