//! Style as a test: sizes, names, reasons, and which module may use which. Each rule forbids something that
//! has spoilt other projects of this kind, and says why.

mod kinds;
mod names;
mod source;

use source::{Source, sources, texts};

/// Maximum length of a file, in lines. A longer file usually has more than one purpose.
const LONGEST: usize = 600;

/// Maximum length of a function's name, in characters. A test's name states the behaviour; its assertions
/// explain it.
const LONGEST_NAME: usize = 60;

/// Files that may be longer, each with its reason. Tables only.
const LONGER: &[(&str, &str)] = &[];

/// Where `unsafe` is allowed.
const UNSAFE_ROOMS: &[&str] = &[
    "src/system/rt",
    "src/system/cpu/simd",
    "src/system/gpu",
    "src/hardware/bus/linux",
    "tests/cuda/standin",
];

/// Uses that are forbidden in addition to those that the order of `src/lib.rs` forbids: a module, the modules
/// that it must not name, and why.
const ABSENCES: &[(&str, &[&str], &str)] = &[
    ("plan", &["bounded_read", "sanitize", "codec"], "a checked board is data, wherever it was read from"),
    (
        "reflex",
        &["rt", "codec", "sanitize", "bounded_read", "cpu", "gpu", "admit"],
        "the part that keeps the robot safe can be read and tested alone",
    ),
    (
        "device",
        &["frame", "reflex"],
        "a chip's driver knows registers and units; where its value goes is not its concern",
    ),
    ("bus", &["frame", "reflex", "mode"], "a bus carries bytes"),
    (
        "field",
        &["device", "bus", "admit", "reflex", "mode", "sim"],
        "the field sees stimuli and gives motor vectors; it touches no motor and injects no fault",
    ),
    ("tick", &["device", "bus", "sim", "gpu"], "ordering only: no arithmetic, no names of parts"),
];

/// Crates that only one module may use, and why.
const CRATES: &[(&str, &str, &str)] = &[
    ("toml", "src/deploy/board", "one module knows how a board file is written"),
    ("clap", "src/cli", "only the command line talks to people"),
    ("indicatif", "src/cli", "only the command line talks to people"),
    ("ratatui", "src/cli/screen", "only the screen draws"),
    ("cudarc", "src/system/gpu", "one module talks to the driver and checks what it returns"),
    ("libloading", "src/system/gpu", "a library that is loaded at run time is called with unsafe code"),
    ("gpiocdev", "src/hardware/bus/linux", "one module requests lines, so that each has one owner"),
    ("rppal", "src/hardware/bus/linux", "the crate is no longer maintained, so it must stay replaceable"),
    ("mcap", "src/drive/record", "one module writes and reads recordings, within its limits"),
    (
        "snow",
        "src/runtime/tether",
        "one module encrypts and decrypts, and does what the crate leaves to its caller",
    ),
    ("bincode", "src/system/codec", "one module knows how bytes are laid out, so that it can be replaced"),
];

/// Fails with all faults at once, so that a person can fix them in one go.
fn none(faults: Vec<String>) {
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// `file:line` for messages.
fn at(source: &Source, line: usize) -> String {
    format!("{}:{}", source.path, line + 1)
}

#[test]
fn files_are_short_and_start_with_their_purpose() {
    let mut faults = Vec::new();
    for source in sources(&["src", "tests", "hil"]) {
        let length = source.text.lines().count();
        if length > LONGEST && !LONGER.iter().any(|(path, _)| *path == source.path) {
            faults.push(format!("{}: {length} lines, at most {LONGEST}", source.path));
        }
        if !source.text.starts_with("//!") {
            faults.push(format!("{}: does not start with its purpose (`//!`)", source.path));
        }
        // One convention: a module with children is `x.rs` next to `x/`.
        if source.path.ends_with("/mod.rs") {
            faults.push(format!("{}: a module with children is a file beside its folder", source.path));
        }
    }
    none(faults);
    for (path, reason) in LONGER {
        assert!(
            std::path::Path::new(path).exists() && !reason.is_empty(),
            "{path} does not exist and needs no exception"
        );
    }
}

/// Maximum width of a comment, in columns: that of code in `rustfmt.toml`.
const COMMENT_COLUMNS: usize = 110;
/// Maximum width of a line of a document, in columns.
const DOCUMENT_COLUMNS: usize = 130;

fn comment_of(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!']))
}

#[test]
fn comments_and_documents_keep_within_their_columns() {
    let mut faults = Vec::new();
    let mut look = |path: &str, text: &str, is_prose: fn(&str) -> Option<&str>, columns: usize| {
        let mut drawn = false; // in a fence, drawings and examples may have any width
        for (number, line) in text.lines().enumerate() {
            let Some(prose) = is_prose(line) else { continue };
            drawn ^= prose.trim_start().starts_with("```");
            let is_table = prose.trim_start().starts_with('|');
            if line.chars().count() > columns && !drawn && !is_table {
                faults.push(format!(
                    "{path}:{}: {} columns, at most {columns}",
                    number + 1,
                    line.chars().count()
                ));
            }
        }
    };
    for source in sources(&["src", "tests", "hil"]) {
        look(&source.path, &source.text, comment_of, COMMENT_COLUMNS);
    }
    for (path, text) in texts().iter().filter(|(path, _)| path.ends_with(".md")) {
        look(path, text, |line| Some(line), DOCUMENT_COLUMNS);
    }
    none(faults);
}

#[test]
fn unsafe_is_only_in_allowed_modules_with_a_safety_comment() {
    let mut faults = Vec::new();
    for source in sources(&["src", "tests", "hil"]) {
        let lines: Vec<&str> = source.text.lines().collect();
        for (number, code) in source.code.lines().enumerate() {
            if !words(code).any(|word| word == "unsafe") {
                continue;
            }
            if !UNSAFE_ROOMS.iter().any(|room| source.is_in(room)) {
                faults.push(format!("{}: unsafe outside {UNSAFE_ROOMS:?}", at(&source, number)));
            }
            // A method that is unsafe only because its trait declares it so has its reasons inside, at each
            // block.
            let declares = code.contains("unsafe fn");
            if !declares && !has_reason(&lines, number) {
                faults.push(format!("{}: unsafe without a `// SAFETY:` above", at(&source, number)));
            }
        }
    }
    none(faults);
}

/// Whether the comment above line `number` gives a reason; at most two lines may lie between.
fn has_reason(lines: &[&str], number: usize) -> bool {
    let above = lines[..number].iter().rev();
    let mut comment = above.skip_while(|line| !line.trim_start().starts_with("//")).peekable();
    let distance =
        number - lines[..number].iter().rposition(|l| l.trim_start().starts_with("//")).unwrap_or(0);
    // Two lines are enough for an attribute or the start of a multi-line statement.
    distance <= 3
        && comment.peek().is_some()
        && comment.take_while(|line| line.trim_start().starts_with("//")).any(|line| line.contains("SAFETY:"))
}

#[test]
fn names_avoid_vague_words() {
    // "Does things" is not a purpose. Old versions belong in the history: new code replaces them.
    const EMPTY: [&str; 4] = ["manager", "handler", "helper", "util"];
    let mut faults = Vec::new();
    for source in sources(&["src", "tests", "hil"]) {
        let file = source.path.rsplit('/').next().unwrap_or_default().to_lowercase();
        if EMPTY.iter().any(|word| file.contains(word)) || has_version(file.trim_end_matches(".rs")) {
            faults.push(format!("{}: a name without meaning", source.path));
        }
        for (number, line) in source.code.lines().enumerate() {
            let names: Vec<&str> = words(line).collect();
            for pair in names.windows(2) {
                let declares =
                    ["struct", "enum", "trait", "type", "mod", "fn", "macro_rules"].contains(&pair[0]);
                let name = pair[1].to_lowercase();
                if declares && (EMPTY.iter().any(|word| name.contains(word)) || has_version(&name)) {
                    faults.push(format!("{}: `{}` is a name without meaning", at(&source, number), pair[1]));
                }
            }
        }
    }
    none(faults);
}

/// Whether a name ends in a version, like `thing_v2`.
fn has_version(name: &str) -> bool {
    name.rsplit_once("_v")
        .is_some_and(|(_, rest)| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit()))
}

#[test]
fn no_todo_is_left_and_no_test_is_ignored() {
    // Written with escapes, so that the search does not find this file.
    let marks = ["TO\u{44}O", "FIX\u{4d}E", "XX\u{58}", "todo\u{21}(", "unimplemented\u{21}("];
    let mut faults = found_in_texts(&marks, "finish it or say in the docs that it is absent");
    // Exempt: the long tests, which `scripts/long-tests` runs.
    let mark = "#[ign\u{6f}re";
    let long = format!("{mark} = \"long: scripts/long-tests\"]");
    let texts = texts().into_iter().map(|(path, text)| (path, text.replace(&long, "")));
    faults.extend(found_in(texts, &[mark], "a test that never runs"));
    none(faults);
}

#[test]
fn no_machine_specific_path_is_committed() {
    let marks = ["/wo\u{72}k/", "/ro\u{6f}t/", "shared/re\u{66}erence", "shared/de\u{73}ign"];
    none(found_in_texts(&marks, "it does not exist on other machines"));
}

fn found_in_texts(marks: &[&str], advice: &str) -> Vec<String> {
    found_in(texts(), marks, advice)
}

fn found_in(texts: impl IntoIterator<Item = (String, String)>, marks: &[&str], advice: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in texts {
        for (number, line) in text.lines().enumerate() {
            for mark in marks.iter().filter(|mark| line.contains(**mark)) {
                faults.push(format!("{path}:{}: {mark}: {advice}", number + 1));
            }
        }
    }
    faults
}

/// The modules of `src/lib.rs` in their order, with their groups: `base::units`, `field`.
fn rooms() -> Vec<String> {
    let lib = std::fs::read_to_string("src/lib.rs").expect("src/lib.rs");
    let (mut rooms, mut group) = (Vec::new(), None);
    for line in lib.lines() {
        let Some(name) = line.trim_start().strip_prefix("pub mod ") else {
            group = group.filter(|_| line != "}");
            continue;
        };
        match (name.strip_suffix(" {"), name.strip_suffix(';'), group) {
            (Some(name), _, _) => group = Some(name),
            (_, Some(name), Some(group)) => rooms.push(format!("{group}::{name}")),
            (_, Some(name), None) => rooms.push(name.to_string()),
            _ => {}
        }
    }
    rooms
}

/// Which of `rooms` contains the path `a::b::c`.
fn room_of(rooms: &[String], path: &str) -> Option<usize> {
    let is_in = |room: &String| {
        path == room || path.strip_prefix(room.as_str()).is_some_and(|rest| rest.starts_with("::"))
    };
    rooms.iter().position(is_in)
}

#[test]
fn modules_use_only_modules_declared_above_them() {
    let rooms = rooms();
    let last = |room: usize| rooms[room].rsplit("::").next().unwrap_or_default();
    let mut faults = Vec::new();
    for source in sources(&["src"]) {
        let path = source.path.trim_start_matches("src/").trim_end_matches(".rs");
        let Some(own) = room_of(&rooms, &path.replace('/', "::")) else { continue }; // lib, main, test-only modules
        let mut named = source::crate_paths(source.without_tests());
        named.extend(source::paths_of_the_root(source.without_tests(), path));
        let mut others: Vec<usize> = Vec::new();
        for path in &named {
            match room_of(&rooms, path) {
                Some(room) => others.push(room),
                None => faults.push(format!("{}: {path} is in no module of src/lib.rs", source.path)),
            }
        }
        others.sort();
        others.dedup();
        for other in others {
            let (room, its) = (last(own), last(other));
            if other > own {
                faults.push(format!("{}: {room} is declared above {its} and must not name it", source.path));
            }
            let absent = ABSENCES.iter().find(|(of, absent, _)| *of == room && absent.contains(&its));
            if let Some((_, _, why)) = absent {
                faults.push(format!("{}: {room} must not name {its} ({why})", source.path));
            }
        }
    }
    none(faults);
    let groups: std::collections::BTreeSet<&str> =
        rooms.iter().filter_map(|room| room.split("::").next()).collect();
    assert!(groups.len() <= 12, "the map shows {groups:?}: more than a person takes in at once");
    let known =
        |name: &str| assert!((0..rooms.len()).any(|room| last(room) == name), "{name} is not a module");
    ABSENCES
        .iter()
        .for_each(|(room, absent, _)| std::iter::once(room).chain(*absent).for_each(|name| known(name)));
}

#[test]
fn replaceable_crates_are_used_in_one_module_only() {
    let mut faults = Vec::new();
    for source in sources(&["src"]) {
        for (name, room, why) in CRATES.iter().filter(|(_, room, _)| !source.is_in(room)) {
            if source.without_tests().lines().any(|line| names_crate(line, name)) {
                faults.push(format!("{}: the crate {name} belongs in {room} ({why})", source.path));
            }
        }
    }
    none(faults);
}

#[test]
fn the_package_name_is_the_same_everywhere() {
    // In the public registry, `ganglion` is another project.
    let package = env!("CARGO_PKG_NAME");
    assert_eq!(package, "ganglion-robot");
    let text = |path: &str| std::fs::read_to_string(path).expect(path);
    let documentation = format!("documentation = \"https://docs.rs/{package}\"\n");
    assert!(text("Cargo.toml").contains(&documentation));
    assert!(text("fuzz/Cargo.toml").contains(&format!("ganglion = {{ package = \"{package}\", path = ")));
    for lock in ["Cargo.lock", "fuzz/Cargo.lock"] {
        assert!(text(lock).contains(&format!("name = \"{package}\"\n")), "{lock}");
        assert!(!text(lock).contains("name = \"ganglion\"\n"), "{lock}");
    }
}

/// Modules that may write files in other ways than `codec::replace`, and why.
const WRITERS: &[(&str, &str)] = &[
    ("src/hardware/bus/linux/pwm.rs", "sysfs attributes of the kernel, which cannot be replaced like files"),
    ("src/hardware/bus/linux/fake.rs", "a simulated tree for tests"),
    ("src/hardware/device/sysfs.rs", "the same"),
];

#[test]
fn files_are_written_through_one_module() {
    // These calls follow an existing link, write into an existing file, or rename without a sync.
    const OTHERWISE: [&str; 4] = ["File::create(", "fs::write(", "fs::rename(", ".create(true)"];
    let mut faults = Vec::new();
    for source in
        sources(&["src"]).iter().filter(|source| WRITERS.iter().all(|(path, _)| source.path != *path))
    {
        for (number, line) in source.without_tests().lines().enumerate() {
            if let Some(way) = OTHERWISE.iter().find(|way| line.contains(**way)) {
                faults.push(format!("{}: {way}..): use `codec::replace` to write files", at(source, number)));
            }
        }
    }
    none(faults);
    assert!(WRITERS.iter().all(|(path, why)| std::path::Path::new(path).exists() && !why.is_empty()));
}

/// Whether a line uses the crate `name`: it contains `name::`, but not as `x::name::` or `of_name::`.
fn names_crate(line: &str, name: &str) -> bool {
    line.match_indices(&format!("{name}::")).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
    })
}

#[test]
fn only_the_command_line_prints() {
    // `println!` panics when its reader has gone, and a library has no output of its own.
    let mut faults = Vec::new();
    for source in sources(&["src"]) {
        for (number, line) in source.code.lines().enumerate() {
            let speaks = ["println!", "print!", "eprintln!", "eprint!", "dbg!"]
                .iter()
                .any(|word| line.contains(word) && !line.contains(&format!("_{word}")));
            // Unit tests may not print either: a test program shows their output only if they fail.
            if speaks && source.path != "src/cli/output.rs" {
                faults.push(format!("{}: use say! (in cli/) or log", at(&source, number)));
            }
            if line.contains("say!(") && !source.is_in("src/cli") {
                faults.push(format!("{}: only src/cli/ prints", at(&source, number)));
            }
        }
    }
    none(faults);
}

#[test]
fn every_test_file_is_listed_with_its_purpose() {
    let list = std::fs::read_to_string("tests/main.rs").expect("tests/main.rs");
    let mut faults = Vec::new();
    for source in sources(&["tests"]) {
        let Some(name) = source.path.strip_prefix("tests/").and_then(|path| path.strip_suffix(".rs")) else {
            continue;
        };
        if name == "main" || name.contains('/') {
            continue; // children belong to their module
        }
        let lines: Vec<&str> = list.lines().map(str::trim_start).collect();
        match lines.iter().position(|line| line.starts_with(&format!("mod {name};"))) {
            None => faults.push(format!("{}: not in tests/main.rs, so it never runs", source.path)),
            Some(at) if at > 0 && lines[at - 1].starts_with("///") => {}
            Some(_) => {
                faults.push(format!("tests/main.rs: `mod {name};` has no purpose in a `///` line above it"))
            }
        }
    }
    none(faults);
}

#[test]
fn long_tests_are_all_run_by_a_script() {
    // The soak test takes an hour, so it is a step of its own.
    const SOAK: &str = "soak::";
    let steps = std::fs::read_to_string("scripts/full-check").expect("scripts/full-check");
    let soaks = steps.contains(&format!("GANGLION_LONG=1 cargo test --locked --test ganglion -- {SOAK}"));
    assert!(soaks, "scripts/full-check does not run {SOAK} in full");
    let script = std::fs::read_to_string("scripts/long-tests").expect("scripts/long-tests");
    let is_long = |code: &str| code.contains("or_in_full(") || code.contains("#[ign\u{6f}re");
    let mut faults = Vec::new();
    for (folder, begin) in [("tests", "set -- "), ("src", "units=")] {
        let chosen =
            script.lines().find_map(|line| line.trim().strip_prefix(begin)).expect("a list of tests");
        let chosen: Vec<&str> = chosen.split_whitespace().collect();
        let module = |source: &Source| {
            source.path[folder.len() + 1..].trim_end_matches(".rs").replace('/', "::") + "::"
        };
        let asks: Vec<String> = sources(&[folder])
            .iter()
            .filter(|source| is_long(&source.code) && source.path != "tests/long.rs")
            .map(module)
            .filter(|module| module != SOAK)
            .collect();
        let is_left_out = |module: &&String| !chosen.iter().any(|part| module.starts_with(part));
        let left_out = asks.iter().filter(is_left_out);
        faults.extend(left_out.map(|module| format!("scripts/long-tests leaves out {module}")));
        let idle = chosen.iter().filter(|part| !asks.iter().any(|module| module.starts_with(**part)));
        faults.extend(idle.map(|part| format!("scripts/long-tests: nothing in {part} has a long form")));
    }
    none(faults);
}

#[test]
fn the_stated_rust_version_is_what_dependencies_need() {
    let output = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        // This machine's target only: crates of other targets may never have been fetched.
        .args(["--filter-platform", &format!("{}-unknown-linux-gnu", std::env::consts::ARCH)])
        .output()
        .expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let wanted = |package: &serde_json::Value| -> Option<(Vec<u32>, String)> {
        let version = package["rust_version"].as_str()?;
        let mut numbers: Vec<u32> = version.split('.').flat_map(str::parse).collect();
        numbers.resize(3, 0);
        Some((numbers, package["name"].as_str()?.to_string()))
    };
    let ours = packages
        .iter()
        .find(|p| p["name"] == env!("CARGO_PKG_NAME"))
        .and_then(wanted)
        .expect("a rust-version")
        .0;
    let others = packages.iter().filter(|p| p["name"] != env!("CARGO_PKG_NAME"));
    let (most, who) = others.filter_map(wanted).max().expect("some");
    assert_eq!(ours, most, "Cargo.toml states {ours:?}, {who} requires {most:?}");
}

#[test]
fn requirements_and_mutants_name_existing_tests() {
    let mut named = Vec::new();
    for source in sources(&["src", "tests", "hil"]) {
        let stem = source.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs").to_string();
        named.push(stem);
        let all: Vec<&str> = words(&source.code).collect();
        named.extend(
            all.windows(2).filter(|pair| ["fn", "mod"].contains(&pair[0])).map(|pair| pair[1].to_string()),
        );
    }
    let mut faults = Vec::new();
    for path in ["docs/requirements.md", "docs/mutants.md"] {
        let text = std::fs::read_to_string(path).expect(path);
        for quoted in text.split('`').skip(1).step_by(2).filter(|quoted| quoted.contains("::")) {
            let name = quoted.trim_end_matches("::").rsplit("::").next().unwrap_or_default();
            let is_name = !name.is_empty()
                && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            if is_name && !named.iter().any(|one| one == name) {
                faults.push(format!("{path}: `{quoted}` is not a test, module or function"));
            }
        }
    }
    none(faults);
}

#[test]
fn each_step_of_ci_is_a_function_or_a_program() {
    let [run, shared] = [".ci/run", ".ci/steps.sh"].map(|path| std::fs::read_to_string(path).expect(path));
    let steps: Vec<&str> = run
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("step \"") || line.starts_with("begin \""))
        .collect();
    assert!(steps.len() > 10, "{steps:?}");
    let defines = |text: &str, name: &str| text.lines().any(|line| line.starts_with(&format!("{name}() {{")));
    let unknown = steps.iter().filter(|line| {
        let run_by = line.split('"').nth(2).unwrap_or_default().split_whitespace().next().unwrap_or_default();
        run_by != "cargo" && !defines(&run, run_by) && !defines(&shared, run_by)
    });
    none(unknown.map(|line| format!(".ci/run: {line}: no such function")).collect());
    // Two runs on one commit must check the same things, so no step may depend on the elapsed time.
    let asks = |line: &&str| line.contains("SECONDS") && !line.starts_with("echo \"passed in");
    none(run.lines().filter(asks).map(|line| format!(".ci/run: {line}: depends on elapsed time")).collect());
}

#[test]
fn the_full_check_has_a_command_for_each_step() {
    let script = std::fs::read_to_string("scripts/full-check").expect("scripts/full-check");
    let list = script.lines().find_map(|line| line.strip_prefix("STEPS=(")).expect("a list of steps");
    let steps: Vec<&str> = list.trim_end_matches(')').split_whitespace().collect();
    assert!(steps.len() >= 9, "{steps:?}");
    let lacks = steps.iter().filter(|step| {
        let described = script.contains(&format!("    [{step}]=\""));
        !described || !script.lines().any(|line| line.trim_start().starts_with(&format!("{step}) ")))
    });
    none(lacks.map(|step| format!("scripts/full-check: no description or no command for {step}")).collect());
    let page = std::fs::read_to_string("docs/tests.md").expect("docs/tests.md");
    let unused = steps.iter().filter(|step| !page.contains(&format!("`{step}`")));
    none(unused.map(|step| format!("docs/tests.md: does not say which changes need {step}")).collect());
}

#[test]
fn function_names_have_at_most_60_characters() {
    let mut faults = Vec::new();
    for source in sources(&["src", "tests", "hil"]) {
        let all: Vec<&str> = words(&source.code).collect();
        let long = all.windows(2).filter(|pair| pair[0] == "fn" && pair[1].len() > LONGEST_NAME);
        faults.extend(
            long.map(|pair| format!("{}: {} has {} characters", source.path, pair[1], pair[1].len())),
        );
    }
    none(faults);
}

#[test]
fn the_readme_shows_the_two_commands_first() {
    let readme = std::fs::read_to_string("README.md").expect("README.md");
    let screen: Vec<&str> = readme.lines().take(40).collect();
    for command in ["cargo run -- run", "cargo test"] {
        assert!(screen.iter().any(|line| line.trim() == command), "`{command}` is not on the first screen");
    }
}

/// Identifiers and keywords of a line of code.
fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}
