//! Every command in help texts, error messages and documents exists, with the verb, options and systemd units
//! that it names.

use super::{out, output};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The files with instructions for users.
fn texts() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for (folder, extension) in [("src", "rs"), ("docs", "md"), ("boards", "md"), ("systemd", "service")] {
        collect(&root.join(folder), extension, &mut files);
    }
    files.push(root.join("README.md"));
    files.into_iter().map(|file| (file.clone(), fs::read_to_string(file).unwrap())).collect()
}

fn collect(folder: &Path, extension: &str, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, extension, files);
        } else if path.extension().is_some_and(|its| its == extension) {
            files.push(path);
        }
    }
}

/// What follows `program` in the quoted texts that begin with it, each within one line of `text`.
fn quoted<'t>(text: &'t str, program: &str) -> Vec<&'t str> {
    let mut found = Vec::new();
    for line in text.lines() {
        for mark in ['\'', '`'] {
            let inside = line.split(mark).skip(1).step_by(2);
            found.extend(inside.filter_map(|part| part.strip_prefix(program)?.strip_prefix(' ')));
        }
    }
    found
}

/// The words of a command up to the next command or a remark.
fn words(command: &str) -> impl Iterator<Item = &str> {
    command.split_whitespace().take_while(|word| !["|", "&&", ";", "#", ">", "or", "and"].contains(word))
}

#[test]
fn every_ganglion_command_in_messages_parses() {
    let mut helps: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut help_of = |path: &[&str]| {
        let key = path.join(" ");
        let known = helps.entry(key).or_insert_with(|| {
            let shown = output(&[path, &["--help"]].concat());
            shown.status.success().then(|| out(&shown))
        });
        known.clone()
    };
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for (file, text) in texts() {
        for command in quoted(&text, "ganglion") {
            let all: Vec<&str> = words(command).collect();
            let Some(&verb) =
                all.first().filter(|verb| verb.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'))
            else {
                continue; // the placeholder VERB, or an option of the program itself
            };
            if verb.starts_with('-') {
                continue;
            }
            seen += 1;
            let mut help = help_of(&[verb]);
            if let (Some(shown), Some(second)) = (&help, all.get(1))
                && shown.contains("Commands:")
                && !second.starts_with('-')
                && second.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')
            {
                help = help_of(&[verb, second]);
            }
            let Some(help) = help else {
                wrong.push(format!("{}: no such verb: ganglion {command}", file.display()));
                continue;
            };
            for option in all.iter().filter_map(|word| word.strip_prefix("--")) {
                let name = option.split(['=', ',', ']', '.', ')']).next().unwrap();
                if !name.is_empty() && !help.contains(&format!("--{name}")) {
                    wrong.push(format!("{}: no option --{name}: ganglion {command}", file.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen > 60, "only {seen} commands were found: the search is broken");
}

#[test]
fn every_systemd_unit_named_in_messages_is_shipped() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut seen = 0;
    for (file, text) in texts() {
        for line in text.lines() {
            for command in line.split("systemctl ").skip(1) {
                let end = command.find(['\'', '`', '"', ')', ',', ';', '#']).unwrap_or(command.len());
                for unit in words(&command[..end]).filter(|word| word.starts_with("ganglion")) {
                    let unit = unit.trim_end_matches('.');
                    seen += 1;
                    // Without a suffix a name means the service.
                    let unit = if unit.contains('.') { unit.into() } else { format!("{unit}.service") };
                    let is_shipped = root.join("systemd").join(&unit).exists();
                    assert!(is_shipped, "{}: no unit {unit}: systemctl {command}", file.display());
                }
            }
        }
    }
    assert!(seen > 10, "only {seen}: the search is broken");
}

/// Cgroup v2 has no file for real-time shares: advice to set one cannot be followed.
#[test]
fn advice_names_no_file_that_cgroup_v2_lacks() {
    for (file, text) in texts() {
        assert!(!text.contains("cpu.rt_runtime_us"), "{}", file.display());
    }
}
