//! Isolates a core for the control loop. If the board file names the core (`cpu` under `[rt]`), changes the
//! kernel's command line and keeps a copy of the old file next to it. Otherwise only gives advice, because an
//! isolated core that the loop does not use is lost to the field.

use std::path::Path;

use super::{Plan, is_core};
use crate::base::plan::Board;
use crate::deploy::setup::files::{names, text};
use crate::runtime::selftest::machine;

/// With fewer cores none is isolated: at least three must remain for the system, the field and other threads.
const FEWEST_CORES: usize = 4;
/// Suffix of the copy of the original file.
const BEFORE: &str = ".before-ganglion";
const KEEP: &str = "a copy of the present command line: restore it if this machine does not boot";
const WHY: &str = "isolates a core for the control loop from the next boot on; the field has one core less";

/// Where a machine's boot loader keeps the kernel's command line.
enum CommandLine {
    /// A file with a single line (Raspberry Pi: documentation, config_txt/boot.adoc, cmdline).
    Line(&'static str),
    /// The APPEND line of a file (extlinux.conf of U-Boot and L4T).
    Append(&'static str),
    /// Unknown.
    Unknown,
}

impl CommandLine {
    fn of(root: &Path) -> CommandLine {
        let machine = machine::machine(root);
        let is = |part: &str| machine.compatible.iter().any(|word| word.contains(part));
        let new = "boot/firmware/cmdline.txt";
        match (is("raspberrypi,"), is("nvidia,")) {
            (true, _) => CommandLine::Line(if root.join(new).exists() { new } else { "boot/cmdline.txt" }),
            (_, true) => CommandLine::Append("boot/extlinux/extlinux.conf"),
            _ => CommandLine::Unknown,
        }
    }

    /// The file and its content.
    fn read(&self, root: &Path) -> Option<(&'static str, String)> {
        let (CommandLine::Line(file) | CommandLine::Append(file)) = self else { return None };
        Some((file, std::fs::read_to_string(root.join(file)).ok()?))
    }

    /// `text` with `words` appended to the command line. `None`: the file has another form, or several
    /// command lines, and the user must choose.
    fn with(&self, text: &str, words: &str) -> Option<String> {
        let holds = |line: &str| match self {
            CommandLine::Line(_) => !line.trim().is_empty(),
            CommandLine::Append(_) => line.split_whitespace().next() == Some("APPEND"),
            CommandLine::Unknown => false,
        };
        let only = text.lines().filter(|line| holds(line)).count() == 1;
        let line = text.lines().find(|line| holds(line)).filter(|_| only)?.trim_end();
        let at = line.as_ptr() as usize - text.as_ptr() as usize + line.len();
        Some(format!("{} {words}{}", &text[..at], &text[at..]))
    }

    fn advice(&self, words: &str) -> String {
        match self {
            CommandLine::Line(file) => format!("append ' {words}' to the only line of /{file}"),
            CommandLine::Append(file) => format!("append ' {words}' to the APPEND line of /{file}"),
            CommandLine::Unknown => format!("add '{words}' to the kernel's command line"),
        }
    }
}

/// Adds to `plan` the change that isolates a core, or advice on how to isolate one by hand. Adds nothing if a
/// core is already isolated or there are too few.
pub(super) fn core(root: &Path, board: Option<&Board>, plan: &mut Plan) {
    let cores = names(root, "sys/devices/system/cpu").iter().filter(|name| is_core(name)).count();
    let isolated = text(root, "sys/devices/system/cpu/isolated").is_some_and(|cores| !cores.is_empty());
    if isolated || cores < FEWEST_CORES {
        return;
    }
    let place = CommandLine::of(root);
    let old = place.read(root);
    if let Some((file, _)) = old.as_ref().filter(|(_, text)| text.contains("isolcpus=")) {
        plan.advice.push(format!("reboot this machine: /{file} isolates a core from the next boot on"));
        return;
    }
    let named = board.and_then(|board| board.rt.cpu);
    let core = named.unwrap_or(cores - 1);
    let words = format!("isolcpus={core} nohz_full={core} rcu_nocbs={core}");
    // Core 0 is never isolated: it handles the interrupts that no other core may handle.
    let may = named.is_some_and(|core| (1..cores).contains(&core));
    let new = old.as_ref().and_then(|(file, text)| Some((file, text, place.with(text, &words)?)));
    if let Some((file, text, new)) = new.filter(|_| may) {
        let before = format!("{file}{BEFORE}");
        if !root.join(&before).exists() {
            plan.write(root, &before, text, KEEP);
        }
        plan.write(root, file, &new, WHY);
        return;
    }
    plan.advice.push(format!(
        "to isolate a core for the control loop (the field then has one less): {}, reboot, and write \
         'cpu = {core}' under [rt] in the board file; a kernel without CONFIG_NO_HZ_FULL ignores nohz_full",
        place.advice(&words)
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::device::sysfs::tree::Tree;

    fn machine(compatible: &str, cores: usize, files: &[(&str, &str)]) -> Tree {
        let tree = Tree::of(files);
        tree.put("proc/device-tree/compatible", compatible);
        (0..cores).for_each(|core| tree.put(&format!("sys/devices/system/cpu/cpu{core}/online"), "1\n"));
        tree
    }
    fn board(core: Option<usize>) -> Board {
        let mut board = crate::deploy::board::built_in("jetson-orin-nano").unwrap().unwrap().board;
        board.rt.cpu = core;
        board
    }
    fn proposed(tree: &Tree, board: Option<&Board>) -> Plan {
        let mut plan = Plan::default();
        core(tree.root(), board, &mut plan);
        plan
    }
    fn read(tree: &Tree, path: &str) -> String {
        std::fs::read_to_string(tree.root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    const PI: &str = "raspberrypi,5-model-b\0brcm,bcm2712\0";
    const JETSON: &str = "nvidia,p3767-0005\0nvidia,tegra234\0";
    const EXTLINUX: &str = "boot/extlinux/extlinux.conf";

    #[test]
    fn a_named_core_is_isolated_and_the_old_line_kept() {
        let line = "console=tty1 root=PARTUUID=1 rootwait";
        for (path, end) in [("boot/firmware/cmdline.txt", "\n"), ("boot/cmdline.txt", "")] {
            let old = format!("{line}{end}");
            let tree = machine(PI, 4, &[(path, &old)]);
            let plan = proposed(&tree, Some(&board(Some(3))));
            assert_eq!((plan.actions.len(), &plan.advice[..]), (2, &[][..]), "{plan:#?}");
            assert_eq!(read(&tree, path), old, "a proposal writes nothing");
            plan.carry_out(tree.root()).unwrap();
            assert_eq!(read(&tree, path), format!("{line} isolcpus=3 nohz_full=3 rcu_nocbs=3{end}"));
            assert_eq!(read(&tree, &format!("{path}{BEFORE}")), old);
            // Until the next boot the kernel runs with the old command line.
            let again = proposed(&tree, Some(&board(Some(3))));
            assert_eq!(again.actions, []);
            assert!(again.advice.len() == 1 && again.advice[0].starts_with("reboot"), "{again:?}");
        }
    }

    #[test]
    fn a_jetsons_only_append_line_is_changed() {
        let entry = "LABEL primary\n      LINUX /boot/Image\n      APPEND ${cbootargs} root=PARTUUID=1 rw \n";
        let tree = machine(JETSON, 6, &[(EXTLINUX, &format!("TIMEOUT 30\n{entry}# end\n"))]);
        proposed(&tree, Some(&board(Some(5)))).carry_out(tree.root()).unwrap();
        let expected = entry.replace("rw ", "rw isolcpus=5 nohz_full=5 rcu_nocbs=5 ");
        assert_eq!(read(&tree, EXTLINUX), format!("TIMEOUT 30\n{expected}# end\n"));
        let tree = machine(JETSON, 6, &[(EXTLINUX, &format!("{entry}{entry}"))]);
        let plan = proposed(&tree, Some(&board(Some(5))));
        assert!(plan.actions.is_empty() && plan.advice[0].contains("the APPEND line of"), "{plan:?}");
    }

    #[test]
    fn an_unnamed_or_impossible_core_only_gives_advice() {
        let line = [("boot/firmware/cmdline.txt", "console=tty1\n")];
        let tree = machine(PI, 4, &line);
        for board in [None, Some(board(None)), Some(board(Some(0))), Some(board(Some(4)))] {
            let plan = proposed(&tree, board.as_ref());
            assert_eq!((plan.actions.len(), plan.advice.len()), (0, 1), "{plan:?}");
        }
        let of_board = proposed(&machine(JETSON, 6, &[]), Some(&board(Some(2)))).advice;
        assert!(
            of_board[0].contains("isolcpus=2") && of_board[0].contains("'cpu = 2' under [rt]"),
            "{of_board:?}"
        );
        for odd in ["", "one\ntwo\n"] {
            let tree = machine(PI, 4, &[("boot/firmware/cmdline.txt", odd)]);
            assert_eq!(proposed(&tree, Some(&board(Some(3)))).actions, [], "{odd:?}");
        }
        let other = machine("acme,board\0", 8, &[]);
        assert!(proposed(&other, Some(&board(Some(3)))).advice[0].contains("the kernel's command line"));
        assert_eq!(proposed(&machine(PI, 2, &line), Some(&board(Some(1)))), Plan::default());
        let tree = machine(PI, 4, &line);
        tree.put("sys/devices/system/cpu/isolated", "3\n");
        assert_eq!(proposed(&tree, Some(&board(Some(3)))), Plan::default());
    }

    #[test]
    fn the_first_copy_of_the_line_is_kept() {
        let path = "boot/firmware/cmdline.txt";
        let tree = machine(PI, 4, &[(path, "second\n"), (&format!("{path}{BEFORE}"), "first\n")]);
        proposed(&tree, Some(&board(Some(3)))).carry_out(tree.root()).unwrap();
        assert_eq!(read(&tree, &format!("{path}{BEFORE}")), "first\n");
    }
}
