//! The command line: one file per verb, each with its own `Args` and `run(args) -> Result<(), Failure>`. A
//! new verb needs one variant and one arm here.
//!
//! Only this module contains message texts. The library's errors are small values; the command line gives
//! each a message, a fix and an exit code. Nothing in here makes decisions about the robot.

/// `println!` for verbs. Unlike the standard macro, it does not panic if the reader is gone (`ganglion check
/// FILE | head`): a closed pipe must not stop a robot. If the disk is full, the error is kept and the program
/// fails with it at the end. Defined before the verbs, so that all of them can use it.
macro_rules! say {
    () => { $crate::cli::output::line(format_args!("")) };
    ($($words:tt)*) => { $crate::cli::output::line(format_args!($($words)*)) };
}

/// Like `say!`, for text from another process: prints exactly one line, whatever the text contains.
macro_rules! relay {
    ($($words:tt)*) => { $crate::cli::output::one_line(format_args!($($words)*)) };
}

pub mod check;
mod arguments;
pub mod bench;
pub mod brain;
pub mod control;
pub mod calibrate;
pub mod doctor;
pub mod drive_log;
pub mod exit;
pub mod go;
pub mod guard;
mod hidden;
mod held_log;
pub mod hil;
pub mod interrupt;
mod panic_message;
mod picture;
mod logging;
mod measured;
mod origin;
pub mod output;
pub mod probe;
mod prometheus;
mod log_rate_limit;
pub mod rebind;
mod error_text;
mod recording;
mod report;
pub mod run;
pub mod safe_stop;
pub mod screen;
pub mod setup;
mod simulate;
mod status;
pub mod tether;
pub mod update;
#[cfg(feature = "workshop")]
mod workshop;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use exit::{Exit, Failure};

/// Real-time runtime for small robots: safety reflexes in every control period, a neural field
/// within an adaptive compute budget.
#[derive(Debug, Parser)]
#[command(name = "ganglion", version, max_term_width = 100, after_help = EXIT_CODES)]
struct Invocation {
    #[command(subcommand)]
    verb: Verb,
}

/// The verbs. Each variant's doc comment is the verb's line in `--help`.
#[derive(Debug, Subcommand)]
enum Verb {
    /// Run a robot (by default a simulated PiCar-X in real time) and print a summary at the end
    Run(Box<run::Args>),
    /// Validate a board file and report every error, or the effective configuration with the origin of each
    /// value
    Check(check::Args),
    /// Show what this machine grants a real-time program, with a fix for each refusal
    Doctor(doctor::Args),
    /// Turn this machine into a robot that is ready to be armed: show the changes, ask, make them; --undo
    /// undoes them
    Setup(setup::Args),
    /// Scan an I2C bus: read one byte of each address, write nothing
    Probe(probe::Args),
    /// Calibrate one robot: a servo's trim, a converter's scale, the floor's brightness
    Calibrate(calibrate::Args),
    /// Benchmark this machine
    Bench(bench::Args),
    /// Measure sensor-to-motor latency on a robot's own wires, with two loopback wires
    Hil(hil::Args),
    #[cfg(feature = "workshop")]
    #[command(flatten)]
    Workshop(workshop::Verb),
    /// Stop a board's motors and exit
    SafeStop(safe_stop::Args),
    /// Run the guard: keep the motors' reset or enable line off unless a runtime proves that it is alive
    Guard(guard::Args),
    /// Compute the fields of many robots, which join over the network with their keys
    Brain(brain::Args),
    /// Rebind the driver of a hung I2C controller for a runtime that is not root
    Rebind(rebind::Args),
    /// Carry a robot's field cycles to a brain on another computer; make the key for that
    Tether(tether::Args),
    /// Arm the running robot: its field drives the motors from now on
    Arm(control::ArmArgs),
    /// Send the running robot somewhere, make it stand still, or let its field drive again
    Go(go::Args),
    /// Disarm the running robot: stop it and acknowledge latched causes
    Disarm(control::DisarmArgs),
    /// Stop the running robot's motors and end the program
    Stop(control::StopArgs),
    /// Show the running robot's status
    Status(control::StatusArgs),
    /// Show the running robot on one screen, with keys to arm, disarm and stop it
    Top(screen::Args),
    /// Recordings: show what happened, repeat a run's decisions, export it
    Log(drive_log::Args),
    /// Update this robot's package: stage, trial, rollback, status
    Update(update::Args),
}

fn dispatch(verb: Verb) -> Result<(), Failure> {
    match verb {
        Verb::Run(args) => run::run(*args),
        Verb::Check(args) => check::run(args),
        Verb::Bench(args) => bench::run(args),
        Verb::Hil(args) => hil::run(args),
        Verb::Doctor(args) => doctor::run(args),
        Verb::Setup(args) => setup::run(args),
        Verb::Probe(args) => probe::run(args),
        Verb::Calibrate(args) => calibrate::run(args),
        #[cfg(feature = "workshop")]
        Verb::Workshop(verb) => workshop::run(verb),
        Verb::SafeStop(args) => safe_stop::run(args),
        Verb::Guard(args) => guard::run(args),
        Verb::Brain(args) => brain::run(args),
        Verb::Rebind(args) => rebind::run(args),
        Verb::Tether(args) => tether::run(args),
        Verb::Arm(args) => control::arm(args),
        Verb::Go(args) => go::run(args),
        Verb::Disarm(args) => control::disarm(args),
        Verb::Stop(args) => control::stop(args),
        Verb::Status(args) => control::status(args),
        Verb::Top(args) => screen::run(args),
        Verb::Log(args) => drive_log::run(args),
        Verb::Update(args) => update::run(args),
    }
}

const EXIT_CODES: &str = "\
'ganglion VERB --help' has examples. RUST_LOG=info (or debug) logs more to standard error.

Exit codes: 0 done; 64 the command line is wrong; 65 a file's content is wrong; 69 something needed
is not available, or the motors did not confirm the stop; 70 a bug in ganglion; 75 a target was
missed, arming or an order was refused, or an update went back; 77 the system refused a permission;
78 the board file is wrong, or for another machine; 130 ended by a second Ctrl-C.";

/// The definition of the command line, from which packaging/pages.rs generates completions and man pages.
pub fn command() -> clap::Command {
    with_negative_values(with_whole_paragraphs(Invocation::command()))
}

/// Accepts negative numbers and times as values of options, so that the error states the allowed range, not
/// that '-5' is an unknown option.
fn with_negative_values(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| {
        let is_time = arg.get_value_names().is_some_and(|names| names.iter().any(|name| *name == "TIME"));
        match arg.get_action().takes_values() && !arg.is_positional() && !arg.is_allow_hyphen_values_set() {
            true if is_time => arg.allow_hyphen_values(true), // '-5s' is no number
            true => arg.allow_negative_numbers(true),
            false => arg,
        }
    });
    command.mut_subcommands(with_negative_values)
}

/// Joins the lines of each paragraph below the options of `command` and its subcommands, so that clap wraps
/// it to the width of the terminal. Indented lines, such as examples, stay as they are.
fn with_whole_paragraphs(mut command: clap::Command) -> clap::Command {
    if let Some(text) = command.get_after_help().map(ToString::to_string) {
        command = command.after_help(joined(&text));
    }
    command.mut_subcommands(with_whole_paragraphs)
}

fn joined(text: &str) -> String {
    let mut whole = String::new();
    let mut continues = false;
    for line in text.lines() {
        let is_prose = !line.is_empty() && !line.starts_with(' ');
        whole.push_str(if is_prose && continues { " " } else { "\n" });
        whole.push_str(line);
        continues = is_prose;
    }
    whole.split_off(whole.len().min(1))
}

/// The whole program: parses the arguments, runs the verb, reports any failure once.
pub fn main() -> ExitCode {
    logging::start();
    panic_message::keep_short();
    // The panic hook has already printed the location; all that remains is to exit with our own code instead
    // of 101.
    let outcome = std::panic::catch_unwind(|| invoke(std::env::args_os()));
    logging::end();
    match outcome.unwrap_or(Ok(Exit::Bug)) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            failure.report();
            failure.exit().into()
        }
    }
}

fn invoke(arguments: impl IntoIterator<Item = OsString>) -> Result<Exit, Failure> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let verb = match parsed(&arguments) {
        Ok(invocation) => invocation.verb,
        Err(answer) => return not_a_verb(answer, &arguments),
    };
    dispatch(verb)?;
    output::outcome()?;
    Ok(Exit::Done)
}

fn parsed(arguments: &[OsString]) -> Result<Invocation, clap::Error> {
    let mut command = command();
    let mut matches = command.try_get_matches_from_mut(arguments)?;
    Invocation::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// `--help` and `--version` succeed. Everything else that clap reports is a usage error, with exit code 64
/// here instead of clap's 2.
fn not_a_verb(answer: clap::Error, arguments: &[OsString]) -> Result<Exit, Failure> {
    if let Some(verb) = of_the_workshop(&answer).filter(|_| !cfg!(feature = "workshop")) {
        return Err(lacks(verb));
    }
    let asked_for = !answer.use_stderr();
    let whole_help = answer.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    // An argument may be a file name that the shell expanded, with control sequences in it.
    let tame = !crate::system::sanitize::acts_on_a_terminal(&answer.render().to_string());
    if asked_for || whole_help || (output::stderr_is_terminal() && tame) {
        // If this pipe is closed, a report of that could not be read either.
        let _ = answer.print();
        return Ok(if asked_for { Exit::Done } else { Exit::Usage });
    }
    Err(Failure::from_clap(&answer, &words_of_verb(arguments)))
}

/// The words of `arguments` that name a verb: `ganglion`, `ganglion run`, `ganglion log replay`.
fn words_of_verb(arguments: &[OsString]) -> String {
    let (mut words, mut command) = ("ganglion".to_string(), &command());
    for word in arguments.iter().skip(1) {
        let Some(next) = command.find_subcommand(word) else { break };
        (words, command) = (format!("{words} {}", next.get_name()), next);
    }
    words
}

/// The workshop verb that clap did not recognise, if that is the error.
fn of_the_workshop(answer: &clap::Error) -> Option<&'static str> {
    const VERBS: [&str; 6] = ["replay", "learn", "teach", "ablate", "report", "live"];
    match answer.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(asked)) => VERBS.into_iter().find(|verb| verb == asked),
        _ => None,
    }
}

/// The failure for a verb that is not part of this build.
fn lacks(verb: &str) -> Failure {
    let missing = Failure::usage(format!("this program has no '{verb}': it is built for a robot"));
    missing.fix("use a program that was built from the source with 'cargo build --release'")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of all verbs, as (verb, line).
    fn examples(command: &clap::Command, into: &mut Vec<(String, String)>) {
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let lines = text.lines().map(|line| line.trim().trim_start_matches("sudo "));
        let lines = lines.filter(|line| line.starts_with("ganglion "));
        into.extend(lines.map(|line| (command.get_name().to_string(), line.to_string())));
        command.get_subcommands().for_each(|sub| examples(sub, into));
    }

    #[test]
    fn the_command_line_is_consistent_and_its_examples_parse() {
        let mut command = command();
        command.build();
        let mut found = Vec::new();
        examples(&command, &mut found);
        assert!(found.len() >= command.get_subcommands().count() - 1, "{found:?}");
        for (verb, line) in found {
            // The explanation is preceded by at least two spaces; pipes and redirections are handled by the
            // shell.
            let words = line.split("  ").next().unwrap_or_default().split(['|', '>', '#']).next();
            let words = words.unwrap_or_default().split_whitespace();
            if let Err(error) = Invocation::try_parse_from(words.map(|word| word.trim_matches('\''))) {
                panic!("{verb}: its example is rejected: {line}\n{error}");
            }
        }
    }

    /// The lines of `command`'s help that should have been joined, or do not fit; and of its subcommands.
    fn ragged(command: &mut clap::Command, path: &str, into: &mut Vec<String>) {
        let path = format!("{path} {}", command.get_name());
        let help = command.clone().render_help().to_string();
        let lines: Vec<&str> = help.lines().collect();
        into.extend(lines.iter().filter(|line| line.len() > WIDTH).map(|line| format!("{path}: {line}")));
        for two in lines.windows(2) {
            let first = two[1].split(' ').next().unwrap_or_default();
            let is_prose = !two[0].starts_with(' ') && !first.is_empty() && !two[0].is_empty();
            if is_prose && two[0].len() + 1 + first.len() <= WIDTH {
                into.push(format!("{path}: {} / {}", two[0], two[1]));
            }
        }
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let wide = after.lines().filter(|line| line.starts_with(' ') && line.len() > WIDTH);
        into.extend(wide.map(|line| format!("{path}: {line}")));
        command.get_subcommands_mut().for_each(|sub| ragged(sub, &path, into));
    }

    /// Columns of the widest help text: `max_term_width`.
    const WIDTH: usize = 100;

    #[test]
    fn help_is_wrapped_evenly_and_examples_fit_on_a_line() {
        let mut command = command();
        command.build();
        let mut found = Vec::new();
        ragged(&mut command, "", &mut found);
        assert!(found.is_empty(), "{} lines:\n{}", found.len(), found.join("\n"));
        assert_eq!(
            joined("One\ntwo.\n\nExamples:\n  a\n  b\n\nThree\nfour."),
            "One two.\n\nExamples:\n  a\n  b\n\nThree four."
        );
    }

    #[test]
    #[cfg(feature = "workshop")]
    fn a_program_without_the_workshop_names_what_it_lacks() {
        let workshop = workshop::Verb::augment_subcommands(clap::Command::new("ganglion"));
        for verb in workshop.get_subcommands() {
            let answer = clap::Command::new("ganglion").subcommand(clap::Command::new("run"));
            let answer = answer.try_get_matches_from(["ganglion", verb.get_name()]).unwrap_err();
            assert_eq!(of_the_workshop(&answer), Some(verb.get_name()));
        }
        let other = Invocation::try_parse_from(["ganglion", "fly"]).unwrap_err();
        assert_eq!(of_the_workshop(&other), None);
    }

    #[test]
    #[cfg(not(feature = "workshop"))]
    fn the_robot_build_lacks_the_workshop_and_says_so() {
        for verb in ["replay", "learn", "teach", "ablate", "report", "live"] {
            assert!(command().find_subcommand(verb).is_none(), "{verb}");
            let refused = invoke(["ganglion", verb].map(OsString::from)).map(|_| ());
            assert_eq!(refused, Err(lacks(verb)));
        }
    }
}
