//! Tests on simulated machines: folders of text files.

use std::path::PathBuf;

use super::*;

/// A machine made of text files; removed when dropped.
struct Machine(PathBuf);

impl Machine {
    fn new(name: &str, files: &[(&str, &str)]) -> Machine {
        let root = std::env::temp_dir().join(format!("ganglion-doctor-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        for (path, content) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        Machine(root)
    }
    fn findings(&self, board: Option<&Board>) -> Vec<Finding> {
        let mut findings = system::look(&self.0, board);
        findings.extend(devices::look(&self.0, board));
        findings
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn find<'a>(findings: &'a [Finding], topic: &str) -> &'a Finding {
    findings.iter().find(|finding| finding.topic == topic).unwrap_or_else(|| panic!("no {topic}"))
}

fn car() -> Board {
    crate::deploy::board::built_in("picarx-v4").unwrap().unwrap().board
}

const PI: &[(&str, &str)] = &[
    ("proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.5\0"),
    ("proc/device-tree/compatible", "raspberrypi,4-model-b\0brcm,bcm2711\0"),
    ("proc/sys/kernel/osrelease", "6.12.25-rt-v8+\n"),
    ("proc/sys/kernel/version", "#1 SMP PREEMPT_RT Debian\n"),
    ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "ondemand\n"),
    ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
    ("sys/devices/system/cpu/cpufreq/none", ""),
    ("sys/class/i2c-dev/i2c-1/name", "bcm2835 (i2c@7e804000)\n"),
    ("dev/i2c-1", ""),
    ("dev/gpiochip0", ""),
    ("sys/bus/gpio/devices/gpiochip0/label", "pinctrl-bcm2711\n"),
    ("proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
    ("proc/sys/kernel/sched_rt_period_us", "1000000\n"),
];

#[test]
fn a_raspberry_pi_passes_for_the_car() {
    let pi = Machine::new("pi", PI);
    let findings = pi.findings(Some(&car()));
    assert_eq!(find(&findings, "machine").verdict, Verdict::Ok);
    assert_eq!(find(&findings, "kernel"), &Finding::ok("kernel", "6.12.25-rt-v8+, PREEMPT_RT"));
    assert_eq!(find(&findings, "i2c"), &Finding::ok("i2c", "i2c-1 (bcm2835 (i2c@7e804000))").needed(true));
    assert_eq!(find(&findings, "gpio").found, "gpiochip0 (pinctrl-bcm2711)");
    assert_eq!(find(&findings, "rt throttling").verdict, Verdict::Ok);
    let governor = find(&findings, "governor");
    assert_eq!((governor.verdict, governor.found.as_str()), (Verdict::Warn, "cpu0 ondemand"));
    assert!(verdict(&findings).is_ok(), "a warning does not fail the verb");
}

#[test]
fn a_desktop_fails_for_the_car() {
    let desk = Machine::new(
        "desk",
        &[("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC x\n"), ("dev/i2c-7", ""), ("dev/null", "")],
    );
    let findings = desk.findings(Some(&car()));
    for topic in ["machine", "i2c", "gpio"] {
        let finding = find(&findings, topic);
        assert!(finding.stops_the_board() && finding.fix.is_some(), "{finding:?}");
    }
    assert_eq!(find(&findings, "i2c").found, "no /dev/i2c-1; i2c-7");
    let kernel = find(&findings, "kernel");
    assert_eq!(kernel.verdict, Verdict::Warn);
    assert!(kernel.found.contains("PREEMPT_DYNAMIC, not PREEMPT_RT"));
    let failure = verdict(&findings).unwrap_err();
    assert_eq!(failure.exit(), crate::cli::exit::Exit::Unavailable);
    assert!(failure.to_string().contains("machine, i2c, gpio"), "{failure}");
    // The same desktop is good enough for the simulator.
    let sim = crate::deploy::board::built_in("sim").unwrap().unwrap().board;
    assert!(verdict(&desk.findings(Some(&sim))).is_ok());
    assert!(verdict(&desk.findings(None)).is_ok());
}

#[test]
fn a_chip_with_another_label_is_not_the_right_chip() {
    let mut files = PI.to_vec();
    files.retain(|(path, _)| !path.ends_with("gpiochip0/label"));
    files.push(("sys/class/gpio/gpiochip512/label", "pinctrl-rp2\n"));
    files.push(("sys/class/gpio/gpiochip512/device/gpiochip0/dev", "254:0\n"));
    let pi = Machine::new("label", &files);
    let findings = pi.findings(Some(&car()));
    let gpio = find(&findings, "gpio");
    assert!(gpio.stops_the_board());
    assert!(gpio.found.ends_with("gpiochip0 (pinctrl-rp2)"), "{}", gpio.found);
}

#[test]
fn unusual_settings_give_warnings() {
    let odd = Machine::new(
        "odd",
        &[
            ("proc/sys/kernel/sched_rt_runtime_us", "-1"),
            ("proc/sys/kernel/sched_rt_period_us", "1000000"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet"),
            ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet"),
            ("proc/meminfo", "MemTotal: 999424 kB\nMemFree: 1 kB\nMemAvailable:  20480 kB\n"),
        ],
    );
    let findings = odd.findings(None);
    for topic in ["rt throttling", "clock", "memory"] {
        let finding = find(&findings, topic);
        assert!(finding.verdict == Verdict::Warn && finding.fix.is_some(), "{finding:?}");
    }
    assert!(find(&findings, "clock").fix.as_ref().unwrap().contains("tsc hpet"));
    assert_eq!(find(&findings, "memory").found, "20 MiB available of 976 MiB");
}

#[test]
fn an_empty_machine_causes_no_panic_and_no_refusal() {
    let nothing = Machine::new("nothing", &[]);
    assert!(nothing.findings(None).iter().all(|finding| finding.verdict != Verdict::Refused));
}

#[test]
fn a_line_has_its_verdict_first_and_its_fix_below() {
    let finding = Finding::refused("i2c", "no /dev/i2c-1", "enable it").needed(true);
    let lines: Vec<String> = finding.to_string().lines().map(str::to_string).collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("refused  i2c ") && lines[0].ends_with("(the board needs it)"));
    assert_eq!(lines[1].trim(), "to do: enable it");
}

#[test]
fn a_gpu_is_reported_in_a_line_and_its_absence_with_its_reason() {
    let jetson = Machine::new("jetson", &[("dev/nvhost-gpu", ""), ("dev/nvmap", ""), ("dev/null", "")]);
    let none = gpu::Gpu { absence: Some("there is no such thing: buy one".into()), ..gpu::Gpu::default() };
    let finding = gpu::finding(&jetson.0, &none);
    assert_eq!(finding, Finding::ok("gpu", "none, nvhost-gpu nvmap: there is no such thing: buy one"));

    let orin = gpu::Gpu {
        name: Some("Orin".into()),
        driver: Some("12.6".into()),
        chip: Some("8.7".into()),
        multiprocessors: Some(8),
        memory_mib: Some(7620),
        absence: None,
    };
    let found = gpu::finding(&jetson.0, &orin).found;
    assert!(found.starts_with("Orin, chip 8.7, 8 multiprocessors"), "{found}");
    assert!(found.ends_with("busy-polls for at most 100 us per cycle, then polls every 50 us"), "{found}");
}
