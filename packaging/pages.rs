//! Writes the man pages, one for each command, and the shell completions into a folder: `cargo run --example
//! pages -- FOLDER DATE`. The package contains them; scripts/package compresses the pages.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, date] = &arguments[..] else {
        eprintln!("usage: pages FOLDER DATE (the date of the pages, e.g. 2026-11-24)");
        return ExitCode::from(64);
    };
    match write(Path::new(folder), date) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pages: {folder}: {error}");
            ExitCode::from(73)
        }
    }
}

/// Writes `man/` and `completions/` into `folder`.
pub fn write(folder: &Path, date: &str) -> io::Result<()> {
    let (man, completions) = (folder.join("man"), folder.join("completions"));
    fs::create_dir_all(&man)?;
    fs::create_dir_all(&completions)?;
    let mut command = ganglion::cli::command();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut command, "ganglion", &completions)?;
    }
    // bash looks for a file named like the program.
    fs::rename(completions.join("ganglion.bash"), completions.join("ganglion"))?;
    let mut command = ganglion::cli::command().disable_help_subcommand(true);
    command.build();
    pages(&command, &man, date)
}

/// Writes the pages of `command` and all its subcommands.
fn pages(command: &clap::Command, folder: &Path, date: &str) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let mut page = File::create(folder.join(format!("{name}.1")))?;
    page.write_all(&rendered(command, date)?)?;
    let shown = command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help");
    shown.cloned().try_for_each(|below| pages(&below, folder, date))
}

/// Renders a page with clap_mangen's sections, except for the text after the help, which clap_mangen would
/// merge into one paragraph.
fn rendered(command: &clap::Command, date: &str) -> io::Result<Vec<u8>> {
    let version = env!("CARGO_PKG_VERSION");
    let man = Man::new(command.clone()).date(date).source(format!("ganglion {version}")).manual("Ganglion");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    paragraphs(&help).to_writer(&mut page)?;
    see_also(command).to_writer(&mut page)?;
    Ok(page)
}

/// Renders the text after the help. A line that ends in a colon becomes a heading; everything before the
/// first heading goes under NOTES.
fn paragraphs(help: &str) -> Roff {
    let mut roff = Roff::new();
    let (mut heading, mut filled) = (None, true);
    for line in help.lines() {
        let is_verbatim = line.starts_with("  ");
        match line.strip_suffix(':') {
            Some(title) if !is_verbatim && !title.contains(' ') => {
                fill(&mut roff, &mut filled, true);
                heading = Some(title.to_uppercase());
                continue;
            }
            _ => {}
        }
        if let Some(title) = heading.take() {
            roff.control("SH", [title.as_str()]);
        } else if roff.to_roff().is_empty() {
            roff.control("SH", ["NOTES"]);
        }
        if line.trim().is_empty() {
            roff.control("PP", []);
        } else {
            fill(&mut roff, &mut filled, !is_verbatim);
            roff.text([roman(line)]);
        }
    }
    fill(&mut roff, &mut filled, true);
    roff
}

/// Switches between filled paragraphs and verbatim lines.
fn fill(roff: &mut Roff, filled: &mut bool, wanted: bool) {
    if *filled != wanted {
        roff.control(if wanted { "fi" } else { "nf" }, []);
        *filled = wanted;
    }
}

/// A section that refers to the program's main page; the main page itself lists all commands.
fn see_also(command: &clap::Command) -> Roff {
    let mut roff = Roff::new();
    if command.get_name() != "ganglion" {
        roff.control("SH", ["SEE ALSO"]);
        roff.text([bold("ganglion"), roman("(1)")]);
    }
    roff
}
