//! The system's own programs, behind a trait so that tests need neither root nor systemd.

use std::fmt;
use std::process::{Command, Stdio};

/// Runs programs.
pub trait Programs {
    /// Runs a program and waits until it ends; an error contains what the program wrote to standard error.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<(), ProgramError>;
}

/// The programs of this machine, found through PATH.
#[derive(Clone, Copy, Debug)]
pub struct OnPath;

impl Programs for OnPath {
    fn run(&self, program: &str, arguments: &[&str]) -> Result<(), ProgramError> {
        let command = [&[program], arguments].concat().join(" ");
        let ended = Command::new(program).args(arguments).stdin(Stdio::null()).output();
        let why = match ended {
            Ok(ended) if ended.status.success() => return Ok(()),
            Ok(ended) => {
                let said = String::from_utf8_lossy(&ended.stderr).trim().to_string();
                if said.is_empty() { ended.status.to_string() } else { said }
            }
            Err(error) => error.to_string(),
        };
        Err(ProgramError { command, why })
    }
}

/// A program that could not be started or that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramError {
    /// The whole command.
    pub command: String,
    /// Its error output, its exit status if it printed nothing there, or why it could not be started.
    pub why: String,
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.command, self.why)
    }
}

impl std::error::Error for ProgramError {}
