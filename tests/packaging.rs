//! The Debian package without building one: its contents, what its scripts do to a running robot, its man
//! pages.

mod help; // --help of the scripts
mod release; // scripts/release on a test tree, the workflow, the container
mod scripts; // maintainer scripts on a simulated machine

/// The generator of the man pages and completions; its `main` is not called here.
#[path = "../packaging/pages.rs"]
#[expect(dead_code, reason = "main, which reads the arguments")]
mod pages;

use crate::folder::Folder;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.as_ref().display()))
}

/// The files of a folder and its subfolders.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// (source, destination) of each asset in Cargo.toml.
fn assets() -> Vec<(String, String)> {
    let manifest: toml::Table = text("Cargo.toml").parse().expect("TOML");
    let deb = &manifest["package"]["metadata"]["deb"];
    assert!(deb.get("systemd-units").is_none(), "cargo-deb would start and restart units by itself");
    assert!(deb.get("conf-files").is_none(), "an upgrade would ask about a file that `setup` wrote");
    let word = |asset: &toml::Value, at: usize| asset[at].as_str().expect("a path").to_string();
    let list = deb["assets"].as_array().expect("assets");
    list.iter().map(|asset| (word(asset, 0), word(asset, 1))).collect()
}

/// Where the package puts `path` of this tree; patterns here have one star, in the file's name.
fn destination(path: &str) -> Option<String> {
    let name = path.rsplit('/').next().unwrap_or_default();
    assets().into_iter().find_map(|(source, to)| {
        let fits = match source.split_once('*') {
            Some((before, after)) => {
                path.strip_prefix(before)?.strip_suffix(after).map(|rest| !rest.contains('/'))?
            }
            None => source == path,
        };
        fits.then(|| if to.ends_with('/') { format!("/{to}{name}") } else { format!("/{to}") })
    })
}

#[test]
fn every_file_is_in_the_package_at_its_path() {
    let mut units = Vec::new();
    for path in files(Path::new("systemd")).into_iter().chain(["packaging/ganglion.tmpfiles".into()]) {
        let path = path.to_string_lossy().into_owned();
        let to = destination(&path).unwrap_or_else(|| panic!("{path} is not in the package"));
        // A file may state its installed path. No drop-in states one under /usr: `setup` installs drop-ins,
        // if the robot needs them.
        let content = text(&path);
        let said = content.split_once("Installed as /usr/").map(|(_, rest)| rest);
        if let Some(said) = said.and_then(|rest| rest.split([':', ' ', '\n']).next()) {
            assert_eq!(to, format!("/usr/{}", said.trim_end_matches('.')), "{path}");
        }
        if path.ends_with(".timer") {
            assert_eq!(to, format!("/usr/lib/systemd/system/{}", &path["systemd/".len()..]));
        }
        if path.ends_with(".service") {
            units.push(to);
            // Every program of a unit is in the package.
            for line in content.lines().filter(|line| line.starts_with("Exec")) {
                let program = line.split_once('=').map(|(_, rest)| rest.trim_start_matches(['-', '+']));
                assert!(
                    program.is_some_and(|program| program.starts_with("/usr/bin/ganglion ")),
                    "{path}: {line}"
                );
            }
        }
    }
    let expected = [
        "ganglion-brain",
        "ganglion-guard",
        "ganglion-metrics",
        "ganglion-rebind",
        "ganglion-sleep",
        "ganglion-tether",
        "ganglion",
    ];
    assert_eq!(units, expected.map(|unit| format!("/usr/lib/systemd/system/{unit}.service")));
    // Files that the script does not generate are in the tree.
    for (source, _) in assets().iter().filter(|(source, _)| !source.starts_with("made/")) {
        let folder = source.rsplit_once('/').map_or("", |(folder, _)| folder);
        let exists =
            if source.contains('*') { Path::new(folder).is_dir() } else { Path::new(source).exists() };
        assert!(exists, "{source}");
    }
}

#[test]
fn the_package_script_makes_all_generated_assets() {
    let script = text("scripts/package");
    let made = assets().into_iter().filter_map(|(source, _)| Some(source.strip_prefix("made/")?.to_string()));
    let folders: BTreeSet<String> =
        made.map(|source| source.split('/').next().unwrap_or_default().to_string()).collect();
    assert_eq!(
        folders.iter().map(String::as_str).collect::<Vec<_>>(),
        ["completions", "doc", "ganglion", "man", "share"]
    );
    for folder in &folders {
        assert!(
            script.contains(&format!("made/{folder}")) || script.contains(&format!(",{folder}")),
            "made/{folder}"
        );
    }
    // The package lists the boards as files; the program must have the same ones built in, by name.
    let named: BTreeSet<String> = ganglion::deploy::board::names().map(str::to_string).collect();
    let on_disk = fs::read_dir("boards").expect("boards").map(|entry| entry.expect("an entry").path());
    let on_disk: BTreeSet<String> = on_disk
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    assert_eq!(named, on_disk);
}

/// Each command with the name of its man page, which begins with the names of its parents.
fn commands(command: &clap::Command, above: &str, into: &mut Vec<(String, clap::Command)>) {
    let name =
        if above.is_empty() { command.get_name().into() } else { format!("{above}-{}", command.get_name()) };
    command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
        .for_each(|below| commands(below, &name, into));
    into.push((name, command.clone()));
}

#[test]
fn every_command_has_a_man_page_and_completions() {
    let folder = Folder::new("package-pages");
    pages::write(&folder, "2026-11-24").expect("pages");
    let mut all = Vec::new();
    commands(&ganglion::cli::command(), "", &mut all);
    let mut expected: Vec<String> = all.iter().map(|(name, _)| format!("{name}.1")).collect();
    expected.sort();
    let name = |path: PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
    let mut written: Vec<String> = files(&folder.join("man")).into_iter().map(name).collect();
    written.sort();
    assert_eq!(written, expected);
    for (name, command) in &all {
        let page = text(folder.join(format!("man/{name}.1")))
            .replace("\\-", "-")
            .replace("\\&", "")
            .replace("\\*(Aq", "'")
            .replace("\\(aq", "'")
            .replace("\\\\", "\\");
        assert!(page.contains(&format!(".TH {name} 1 2026-11-24")), "{name}");
        let about = command.get_about().expect("every command says what it does").to_string();
        assert!(page.contains(&about), "{name}: {about}");
        // Examples keep their form, each on its own line.
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in help.lines().filter(|line| line.starts_with("  ")) {
            assert!(page.lines().any(|written| written == line), "{name}: {line}\n{page}");
        }
    }
    for shell in ["ganglion", "_ganglion", "ganglion.fish"] {
        let completions = text(folder.join("completions").join(shell));
        let verbs = all.iter().map(|(_, command)| command.get_name());
        verbs.for_each(|verb| assert!(completions.contains(verb), "{shell}: {verb}"));
    }
}

fn package(arguments: &[&str]) -> Output {
    Command::new("bash").arg("scripts/package").args(arguments).output().expect("bash")
}

#[test]
fn a_wrong_package_request_gets_a_one_sentence_error() {
    let folder = Folder::new("package-wrong");
    let out = folder.path("out");
    for (wrong, exit, said) in [
        (&["--arch", "mips"][..], 64, "arm64, amd64 or all"),
        (&["--bords", "sim"], 64, "'--bords' is not known"),
        (&["--version"], 64, "--version needs a value"),
        (&["--version", "../0.2"], 64, "'../0.2' is not a version"),
        (&["--version", "0.2 0"], 64, "is not a version"),
        (&["--boards", "sim,robby"], 64, "no board 'robby'"),
        (&["--boards", ""], 64, "--boards needs a value"),
        (&["--arch", "all", "--binary", "Cargo.toml"], 64, "--arch all"),
        (&["--key", "no-such-key"], 66, "no-such-key cannot be read"),
        (&["--image", "Cargo.toml"], 65, "scripts/build-fatbin"),
    ] {
        let run = package(&[wrong, &["--out", &out]].concat());
        let (stdout, stderr) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
        assert_eq!(run.status.code(), Some(exit), "{wrong:?}: {stderr}");
        assert!(stderr.contains(said) && stderr.lines().count() == 1, "{wrong:?}: {stderr}");
        assert!(stdout.is_empty(), "{stdout}");
    }
    assert!(!Path::new(&out).exists(), "nothing was made");
    let help = package(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&help.stdout).contains("Examples:"));
}
