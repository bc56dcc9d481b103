//! Kernel, cores, clock and memory, as `/proc` and `/sys` report them.

use std::path::Path;

use super::{Finding, grants, names, text};
use crate::base::plan::Board;
use crate::runtime::selftest::machine;

/// All findings below `root`.
pub(super) fn look(root: &Path, board: Option<&Board>) -> Vec<Finding> {
    let mut findings = vec![machine(root, board), kernel(root), cores(root), memory(root), clock(root)];
    findings.extend(throttle(root));
    findings.extend(governor(root));
    findings.extend(isolated(root));
    findings
}

/// Which machine this is, and whether the board file is for it.
fn machine(root: &Path, board: Option<&Board>) -> Finding {
    let arch = std::env::consts::ARCH;
    match board.map(|board| machine::matches(board, root)) {
        None => Finding::ok("machine", format!("{}, {arch}", machine::machine(root))),
        Some(Ok(machine)) => Finding::ok("machine", format!("{machine}, {arch}")),
        Some(Err(mismatch)) => {
            let fix = "run it on the robot, or name a board file for this machine";
            Finding::refused("machine", mismatch, fix).needed(true)
        }
    }
}

fn kernel(root: &Path) -> Finding {
    let release = text(root, "proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into());
    let version = text(root, "proc/sys/kernel/version").unwrap_or_default();
    // Kernels before 6.12 with the PREEMPT_RT patch have the file; every PREEMPT_RT kernel, old or new, says
    // so in its version.
    let words: Vec<&str> = version.split_whitespace().collect();
    let preempt_rt = text(root, "sys/kernel/realtime").as_deref() == Some("1")
        || words.contains(&"PREEMPT_RT")
        || words.windows(2).any(|two| two == ["PREEMPT", "RT"]);
    if preempt_rt {
        return Finding::ok("kernel", format!("{release}, PREEMPT_RT"));
    }
    let preemption =
        words.iter().find(|word| word.starts_with("PREEMPT")).unwrap_or(&"preemption model not reported");
    Finding::warn(
        "kernel",
        format!("{release}, {preemption}, not PREEMPT_RT"),
        "install a PREEMPT_RT kernel to bound lateness (Raspberry Pi OS and Debian package one; \
         JetPack has one in its own repository)",
    )
}

fn cores(root: &Path) -> Finding {
    let online = text(root, "sys/devices/system/cpu/online").unwrap_or_else(|| "unknown".into());
    let allowed = text(root, "proc/self/status").and_then(|status| {
        status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:").map(|l| l.trim().to_string()))
    });
    Finding::ok(
        "cores",
        format!("{online} online, this process may use {}", allowed.as_deref().unwrap_or("?")),
    )
}

fn memory(root: &Path) -> Finding {
    let meminfo = text(root, "proc/meminfo").unwrap_or_default();
    let mib = |key: &str| -> Option<u64> {
        let rest = meminfo.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        rest.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib / 1024)
    };
    match (mib("MemTotal"), mib("MemAvailable")) {
        // 100 patterns of 16 x 32^3 f32 need 200 MiB, field and bank another 60; the rest is for the system.
        (Some(total), Some(available)) if available < 512 => Finding::warn(
            "memory",
            format!("{available} MiB available of {total} MiB"),
            "end other programs: locked memory cannot be swapped out to make room",
        ),
        (Some(total), Some(available)) => {
            Finding::ok("memory", format!("{available} MiB available of {total} MiB"))
        }
        _ => Finding::ok("memory", "not reported by this kernel"),
    }
}

fn clock(root: &Path) -> Finding {
    let folder = "sys/devices/system/clocksource/clocksource0";
    let source = text(root, &format!("{folder}/current_clocksource")).unwrap_or_else(|| "unknown".into());
    let resolution = grants::clock_resolution_ns();
    let found = match resolution {
        Some(ns) => format!("{source}, CLOCK_MONOTONIC in steps of {ns} ns"),
        None => format!("{source}, resolution not reported"),
    };
    // These sources read a slow device or count kernel ticks instead of reading a register.
    let slow = ["jiffies", "acpi_pm", "hpet", "refined-jiffies"].contains(&source.as_str());
    // 1 us is a thousandth of the shortest period. Without high-resolution timers the resolution is a whole
    // jiffy.
    if slow || resolution.is_some_and(|ns| ns.get() > 1000) {
        let fix = format!(
            "select a better clock source: {}",
            text(root, &format!("{folder}/available_clocksource")).unwrap_or_else(|| "(none listed)".into())
        );
        return Finding::warn("clock", found, fix);
    }
    Finding::ok("clock", found)
}

/// The share of each second that real-time threads may use.
fn throttle(root: &Path) -> Option<Finding> {
    let runtime: i64 = text(root, "proc/sys/kernel/sched_rt_runtime_us")?.parse().ok()?;
    let period: i64 = text(root, "proc/sys/kernel/sched_rt_period_us")?.parse().ok()?;
    let found = match runtime {
        -1 => "none: a real-time thread that never waits blocks its core".to_string(),
        _ => format!("real-time threads get {runtime} of every {period} us of a core"),
    };
    Some(match runtime {
        // This limit is a safety net against a runaway loop; a healthy loop never gets near it.
        -1 => Finding::warn("rt throttling", found, "sysctl kernel.sched_rt_runtime_us=950000"),
        // Half a core: tick and bus of one robot use a few per cent, so a smaller share is an unusual
        // setting.
        _ if runtime * 2 < period => {
            Finding::warn("rt throttling", found, "sysctl kernel.sched_rt_runtime_us=950000")
        }
        _ => Finding::ok("rt throttling", found),
    })
}

fn governor(root: &Path) -> Option<Finding> {
    let folder = "sys/devices/system/cpu";
    let governors: Vec<(String, String)> = names(root, folder)
        .into_iter()
        .filter(|name| name.strip_prefix("cpu").is_some_and(|n| n.parse::<u32>().is_ok()))
        .filter_map(|name| Some((text(root, &format!("{folder}/{name}/cpufreq/scaling_governor"))?, name)))
        .collect();
    if governors.is_empty() {
        return Some(Finding::ok("governor", "none: this system does not change the cores' frequency"));
    }
    let slow: Vec<String> = governors
        .iter()
        .filter(|(governor, _)| governor != "performance")
        .map(|(governor, name)| format!("{name} {governor}"))
        .collect();
    if slow.is_empty() {
        return Some(Finding::ok("governor", "performance on every core"));
    }
    let fix = "a core at low frequency wakes late: 'ganglion doctor --fix' shows how to keep it at full clock, and \
               with --yes does it (Jetson: also jetson_clocks)";
    Some(Finding::warn("governor", slow.join(", "), fix))
}

fn isolated(root: &Path) -> Option<Finding> {
    let isolated = text(root, "sys/devices/system/cpu/isolated")?;
    Some(Finding::ok(
        "isolated cores",
        if isolated.is_empty() {
            "none (isolcpus= on the kernel's command line isolates cores)"
        } else {
            &isolated
        },
    ))
}
