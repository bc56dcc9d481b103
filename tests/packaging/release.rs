//! `scripts/release` on a test tree whose tools only pretend to build; the workflow; a container for a PC.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use super::{assets, text};
use crate::folder::Folder;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A tree of version 0.2.0 with a changelog section for it, and every tool that the script calls.
struct Tree(Folder);

impl Tree {
    fn new(name: &str) -> Tree {
        let tree = Tree(Folder::new(&format!("release-{name}")));
        tree.write("tree/Cargo.toml", "[package]\nversion = \"0.2.0\"\n");
        tree.write(
            "tree/CHANGELOG.md",
            "# Changelog\n\n## [Unreleased]\n- Later.\n\n## [0.2.0]\n\n### Added\n- Wings.\n\n## [0.1.0]\n- Wheels.\n",
        );
        fs::copy("scripts/release", tree.program("tree/scripts/release", "")).expect("the script");
        tree.program("tree/scripts/build-fatbin", "echo 'no index of packages' >&2\nexit 1");
        // Makes a package for each architecture. By environment variable a test makes it change the tree
        // (MEANWHILE), fail (NO_TOOL), or write the path of its folder into the package (LEAK).
        tree.program(
            "tree/scripts/package",
            "while [ $# -gt 0 ]; do\n\
             case $1 in --arch) archs=$2 ;; --out) out=$2 ;; esac; shift 2; done\n\
             [ \"$archs\" != all ] || archs='arm64 amd64'\n\
             [ -z \"${MEANWHILE-}\" ] || touch changed\n\
             [ -z \"${NO_TOOL-}\" ] || { echo 'package: no cargo-deb' >&2; exit 69; }\n\
             mkdir -p \"$out\"\n\
             for arch in $archs; do\n\
             mkdir -p \"target/package/$arch\"; base=$out/ganglion_0.2.0_$arch\n\
             { echo \"$arch\"; [ -z \"${LEAK-}\" ] || pwd; echo; } > \"$base.deb\"\n\
             echo \"{\\\"commit\\\":\\\"$(git rev-parse HEAD)\\\"}\" > \"$base.manifest.json\"; done",
        );
        let bin = "tree/target/ci-tools";
        tree.program(&format!("{bin}/zig/ziglang/zig"), "echo 0.17.1");
        // A list of a compiled and an uncompiled crate, with the path of the folder in which it was made.
        tree.program(
            &format!("{bin}/bin/cargo-cyclonedx"),
            "[ \"$2\" != --version ] || { echo cargo-cyclonedx-cyclonedx 0.5.9; exit; }\n\
             while [ $# -gt 0 ]; do [ \"$1\" != --manifest-path ] || folder=$(dirname \"$2\"); shift; done\n\
             own=path+file://$(cd \"$folder\" && pwd -P)#0.2.0\n\
             cat > \"$folder/crates.json\" <<END\n\
             {\"metadata\":{\"component\":{\"bom-ref\":\"$own\"}},\"components\":[\
             {\"name\":\"serde\",\"version\":\"1.0.1\",\"bom-ref\":\"serde\"},\
             {\"name\":\"regex\",\"version\":\"1.13.1\",\"bom-ref\":\"regex\"}],\"dependencies\":[\
             {\"ref\":\"$own\",\"dependsOn\":[\"regex\",\"serde\"]},{\"ref\":\"serde\"},{\"ref\":\"regex\"}]}\n\
             END",
        );
        tree.program("bin/cargo", "echo 'ganglion-robot v0.2.0 (/x)'; echo 'serde v1.0.1'");
        tree.program("bin/rustc", "echo rustc 1.95.0");
        tree.program(
            "bin/ssh-keygen",
            "for file in \"$@\"; do :; done; echo \"signed ${*%/*}\" > \"$file.sig\"",
        );
        tree.program(
            "bin/git",
            &format!(
                "for last in \"$@\"; do :; done\n\
                 case $1 in\n\
                 rev-parse) echo \"${{COMMIT-{COMMIT}}}\" ;;\n\
                 status) printf '%s' \"${{CHANGED-}}\"; ! [ -e changed ] || echo '?? changed' ;;\n\
                 log) echo 1700000000 ;;\n\
                 clone) mkdir -p \"$last\"; cp -r scripts Cargo.toml CHANGELOG.md \"$last\" ;;\n\
                 esac"
            ),
        );
        tree
    }
    fn path(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }
    fn write(&self, path: &str, content: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, content).expect("a file");
    }
    fn program(&self, path: &str, does: &str) -> PathBuf {
        self.write(path, &format!("#!/bin/bash\n{does}\n"));
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(0o755)).expect("permissions");
        self.path(path)
    }
    /// Exit code, standard output and standard error of the script.
    fn run(&self, arguments: &[&str], environment: &[(&str, &str)]) -> (i32, String, String) {
        fs::create_dir_all(self.path("tmp")).expect("a folder");
        let mut command = Command::new(self.path("tree/scripts/release"));
        command.args(arguments).current_dir(&self.0).env("TMPDIR", self.path("tmp"));
        let path = std::env::var("PATH").expect("a path");
        command.env("PATH", format!("{}:{path}", self.path("bin").display()));
        command.env("CARGO_HOME", self.path("cargo")).envs(environment.iter().copied());
        let run = command.output().expect("bash");
        let words = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (run.status.code().expect("an exit code"), words(run.stdout), words(run.stderr))
    }
    fn names(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(folder)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
        names.sort();
        names
    }
}

/// Whether Python is missing, as on a machine that never made a release.
fn no_python() -> bool {
    let missing = Command::new("python3").arg("--version").output().is_err();
    if missing {
        crate::skips::skip("no python3, which a release needs");
    }
    missing
}

#[test]
fn a_wrong_release_request_gets_a_one_sentence_error() {
    let tree = Tree::new("wrong");
    tree.write("other/ganglion_0.1.0_arm64.deb", "");
    tree.write("moved/ganglion_0.2.0_arm64.manifest.json", "{\"commit\":\"another\"}");
    tree.write("file", "");
    for (wrong, environment, exit, said) in [
        (&[][..], &[][..], 64, "which version?"),
        (&["0.2"], &[], 64, "three numbers"),
        (&["0.2.0~rc1"], &[], 64, "'0.2.0~rc1' is not a release version"),
        (&["../0.2.0"], &[], 64, "is not a release version"),
        (&["0.2.0", "0.3.0"], &[], 64, "one version at a time"),
        (&["0.2.0", "--chek"], &[], 64, "'--chek' is not known"),
        (&["0.2.0", "--key"], &[], 64, "--key needs a value"),
        (&["0.2.0", "--arch", "arm64"], &[], 64, "both architectures"),
        (&["0.2.0", "--check", "--arch", "mips"], &[], 64, "arm64 or amd64"),
        (&["0.2.0", "--check", "--out", "new"], &[], 64, "keeps nothing"),
        (&["0.2.0", "--key", "no-such-key"], &[], 66, "no-such-key cannot be read"),
        (&["0.1.0"], &[], 65, "Cargo.toml says version 0.2.0"),
        (
            &["0.2.0"],
            &[("CHANGED", " M src/main.rs\n?? x\n")],
            65,
            "differs from its commit ( M src/main.rs)",
        ),
        (&["0.2.0", "--out", "file"], &[], 73, "is not a folder"),
        (&["0.2.0", "--out", "other"], &[], 73, "has ganglion_0.1.0_arm64.deb, which is not part"),
        (&["0.2.0", "--out", "moved"], &[], 73, "release 0.2.0 of another commit"),
    ] {
        let (code, stdout, stderr) = tree.run(wrong, environment);
        assert_eq!(code, exit, "{wrong:?}: {stderr}");
        assert!(stderr.contains(said) && stderr.lines().count() == 1, "{wrong:?}: {stderr}");
        assert!(stdout.is_empty(), "{wrong:?}: {stdout}");
    }
    for section in ["", "## [0.2.0]\n\n", "## [0.2.01]\n- Other.\n"] {
        tree.write("tree/CHANGELOG.md", &format!("# Changelog\n\n{section}## [0.1.0]\n- Wheels.\n"));
        let (code, _, stderr) = tree.run(&["0.2.0"], &[]);
        assert!(code == 65 && stderr.contains("no section '## [0.2.0]'"), "{section:?}: {code} {stderr}");
    }
    assert!(!tree.path("tree/target/dist").exists() && !tree.path("new").exists(), "nothing was made");
    assert_eq!(tree.names("other"), ["ganglion_0.1.0_arm64.deb"]);
    let (code, help, _) = tree.run(&["--help"], &[]);
    assert!(code == 0 && help.contains("Examples:"), "{help}");
}

#[test]
fn a_release_has_each_file_once_with_its_checksum() {
    if no_python() {
        return;
    }
    let tree = Tree::new("whole");
    tree.write("key", "");
    let dist = "tree/target/dist/0.2.0";
    for _ in 0..2 {
        // The second run replaces the release, which is of the same commit.
        let (code, stdout, stderr) = tree.run(&["0.2.0", "--key", "key"], &[]);
        assert_eq!(code, 0, "{stderr}");
        assert!(stderr.contains("no machine code of the kernels") && stderr.contains("no index"), "{stderr}");
        assert!(stdout.contains(&format!("git tag -a v0.2.0 {COMMIT}")), "{stdout}");
        let of = |arch: &str| {
            ["cdx.json", "deb", "manifest.json"].map(|kind| format!("ganglion_0.2.0_{arch}.{kind}"))
        };
        let rest = ["NOTES.md", "SHA256SUMS", "SHA256SUMS.sig"].map(String::from);
        let mut expected = [rest, of("amd64"), of("arm64")].concat();
        expected.sort();
        assert_eq!(tree.names(dist), expected);
        assert_eq!(tree.names("tree/target/dist"), ["0.2.0"], "no unfinished folder stays");
        // Every file except the checksums and their signature.
        let sums = text(tree.path(&format!("{dist}/SHA256SUMS")));
        let summed: Vec<&str> = sums.lines().filter_map(|line| line.split("  ").nth(1)).collect();
        expected.retain(|name| !name.starts_with("SHA256SUMS"));
        assert_eq!(summed, expected);
    }
    let mut verify = Command::new("sha256sum");
    verify.args(["--quiet", "-c", "SHA256SUMS"]).current_dir(tree.path(dist));
    assert!(verify.status().expect("sha256sum").success());
    assert!(text(tree.path(&format!("{dist}/SHA256SUMS.sig"))).contains("-n ganglion-package"));
    let notes = text(tree.path(&format!("{dist}/NOTES.md")));
    assert!(notes.starts_with("# ganglion 0.2.0\n\n### Added\n- Wings.\n"), "{notes}");
    assert!(!notes.contains("Wheels") && !notes.contains("Later"), "{notes}");
    assert!(notes.contains(&format!("from commit {COMMIT} by rustc 1.95.0 and zig 0.17.1")), "{notes}");
    // Neither list contains a crate that is not compiled, or the path of a folder on this machine.
    let crates = text(tree.path(&format!("{dist}/ganglion_0.2.0_arm64.cdx.json")));
    let bom: serde_json::Value = serde_json::from_str(&crates).expect("JSON");
    assert_eq!(bom["components"].as_array().map(Vec::len), Some(1), "{crates}");
    assert_eq!(bom["dependencies"][0]["dependsOn"], serde_json::json!(["serde"]), "{crates}");
    assert_eq!(bom["metadata"]["component"]["bom-ref"], "path+file:///ganglion#0.2.0", "{crates}");
    // If a tool fails, the script ends with the tool's message and exit code.
    let (code, _, stderr) = tree.run(&["0.2.0"], &[("NO_TOOL", "yes")]);
    assert!(code == 69 && stderr.lines().last() == Some("package: no cargo-deb"), "{code} {stderr}");
    // If the tree changes during the build, or the existing release is of another commit, the existing
    // release stays as it is.
    let (code, _, stderr) = tree.run(&["0.2.0"], &[("MEANWHILE", "yes")]);
    assert!(code == 65 && stderr.contains("the tree changed while it was being built"), "{code} {stderr}");
    fs::remove_file(tree.path("tree/changed")).expect("the change");
    let (code, _, stderr) = tree.run(&["0.2.0"], &[("COMMIT", "fedcba9876543210fedcba9876543210fedcba98")]);
    assert!(code == 73 && stderr.contains("another commit"), "{code} {stderr}");
    assert!(tree.path(&format!("{dist}/SHA256SUMS.sig")).exists());
}

#[test]
fn the_check_names_a_differing_file_and_keeps_nothing() {
    if no_python() {
        return;
    }
    let tree = Tree::new("twice");
    // `--check` needs no changelog section for the version.
    tree.write("tree/CHANGELOG.md", "# Changelog\n");
    let (code, stdout, stderr) = tree.run(&["0.2.0", "--check"], &[]);
    assert_eq!(code, 0, "{stderr}");
    let same: Vec<&str> = stdout.lines().filter(|line| line.starts_with("the same: ")).collect();
    assert_eq!(same.len(), 6, "package, manifest and crates of two architectures: {stdout}");
    assert!(stdout.contains(&format!("two builds of {COMMIT} have the same bytes")), "{stdout}");
    let (_, stdout, _) = tree.run(&["0.2.0", "--check", "--arch", "amd64"], &[]);
    assert!(!stdout.contains("arm64") && stdout.contains("ganglion_0.2.0_amd64.deb"), "{stdout}");
    // A package that contains the path of its build folder.
    let (code, stdout, stderr) = tree.run(&["0.2.0", "--check"], &[("LEAK", "yes")]);
    assert_eq!(code, 70, "{stdout} {stderr}");
    let last = stderr.lines().last().unwrap_or_default();
    let differs = "ganglion_0.2.0_amd64.deb differs: it names a folder of the ";
    assert!(last.contains(differs), "{stderr}");
    assert!(!stdout.contains("have the same bytes"), "{stdout}");
    assert_eq!(tree.names("tmp"), [""; 0], "both builds are gone");
    assert_eq!(tree.names("tree/target/dist"), [""; 0]);
}

#[test]
fn the_workflow_runs_the_documented_commands() {
    let workflow = text(".github/workflows/ci.yml");
    let runs: Vec<&str> =
        workflow.lines().filter_map(|line| line.trim_start().strip_prefix("- run: ")).collect();
    assert_eq!(runs, [".ci/run", "scripts/package --arch all"]);
    for run in runs {
        let program = run.split(' ').next().unwrap_or_default();
        let mode = fs::metadata(program).unwrap_or_else(|error| panic!("{program}: {error}")).permissions();
        assert_eq!(mode.mode() & 0o111, 0o111, "{program} can be run");
    }
    // Each job has a time limit, actions are pinned to a major version, and no step gets a secret or write
    // access.
    let count = |word: &str| workflow.matches(word).count();
    assert_eq!(count("runs-on:"), count("timeout-minutes:"));
    let actions: Vec<&str> =
        workflow.lines().filter_map(|line| line.split_once("uses: ")).map(|u| u.1).collect();
    assert_eq!(actions.len(), 3);
    for action in actions {
        let major = action.split_once("@v").is_some_and(|(_, major)| major.parse::<u32>().is_ok());
        assert!(action.starts_with("actions/") && major, "{action}");
    }
    assert!(count("secrets.") == 0 && count("write") == 0 && workflow.contains("contents: read"));
}

#[test]
fn the_container_uses_only_files_of_the_package() {
    let file = text("packaging/Containerfile");
    let lines: Vec<&str> = file.lines().filter(|line| !line.starts_with('#')).collect();
    let of = |word: &str| lines.iter().find_map(|line| line.strip_prefix(word)).unwrap_or_default();
    // Only the package is copied from the build context.
    let copied: Vec<&&str> = lines.iter().filter(|line| line.starts_with("COPY ")).collect();
    assert_eq!(copied, [&"COPY ganglion_*_amd64.deb /tmp/"]);
    assert!(
        !file.contains("ADD ") && !file.contains("curl") && !file.to_lowercase().contains("cuda-toolkit")
    );
    // Program, user and folder come from the package.
    let brought: Vec<String> = assets()
        .iter()
        .map(|(source, to)| format!("/{to}{}", source.rsplit('/').next().unwrap_or_default()))
        .collect();
    assert_eq!(of("ENTRYPOINT "), "[\"/usr/bin/ganglion\"]");
    assert!(brought.iter().any(|path| path == "/usr/bin/ganglion"), "{brought:?}");
    assert_eq!(of("CMD "), "[\"run\"]");
    let user = of("USER ");
    assert!(text("systemd/ganglion.sysusers").lines().any(|line| line.starts_with(&format!("u {user} "))));
    let folder = format!("d {} ", of("WORKDIR "));
    assert!(text("packaging/ganglion.tmpfiles").lines().any(|line| line.starts_with(&folder)), "{folder}");
}
