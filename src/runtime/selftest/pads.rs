//! Checks pad settings on Jetsons. Since JetPack 6, requesting a line no longer makes its pad a GPIO: writes
//! succeed, nothing moves, and reading an output back returns the written value, not the pad's level. So the
//! check reads the pad's setting where the kernel shows it (debugfs, root only); otherwise it tells the user
//! what to look at.

use super::Check;
use std::path::Path;

/// Where the pin controllers show the settings of their pads.
const PIN_CONTROLLERS: &str = "sys/kernel/debug/pinctrl";

/// Pads of the header's lines on an Orin Nano or NX, by the kernel's line name (NVIDIA's pin tables).
const PADS: [(&str, u32); 13] = [
    ("PAC.06", 0x0244_8030),
    ("PR.04", 0x0243_0098),
    ("PH.07", 0x0243_4088),
    ("PY.00", 0x0243_D030),
    ("PN.01", 0x0244_0020),
    ("PY.04", 0x0243_D020),
    ("PY.03", 0x0243_D010),
    ("PY.01", 0x0243_D000),
    ("PQ.05", 0x0243_0068),
    ("PQ.06", 0x0243_0070),
    ("PG.06", 0x0243_4080),
    ("PH.00", 0x0243_4040),
    ("PY.02", 0x0243_D048),
];

/// Whether the pad of the output line `name` is enabled. `None`: the kernel does not show it, or `name`
/// is not a port and number.
pub fn lets_out(root: &Path, name: &str) -> Option<bool> {
    // `PQ.06` matches the end of `soc_gpio33_pq6`.
    let (port, number) = name.strip_prefix('P')?.split_once('.')?;
    let number: u8 = number.parse().ok()?;
    let end = format!("_p{}{number})", port.to_lowercase());
    let controllers = std::fs::read_dir(root.join(PIN_CONTROLLERS)).ok()?;
    controllers.flatten().find_map(|controller| {
        let groups = std::fs::read_to_string(controller.path().join("pinconf-groups")).ok()?;
        let group = groups.lines().skip_while(|line| !line.contains(&end)).skip(1);
        let mut settings = group.take_while(|line| line.starts_with([' ', '\t']));
        let tristate = settings.find_map(|line| line.trim().strip_prefix("tristate="))?;
        Some(tristate.trim() == "0")
    })
}

/// Checks the pad of a driven line on a Tegra.
pub fn check(root: &Path, name: &str) -> Check {
    let what = format!("pad of {name}");
    let address = PADS.iter().find(|(line, _)| *line == name).map(|(_, address)| address);
    let devmem =
        address.map_or("its pad register".to_string(), |at| format!("`sudo busybox devmem {at:#x}`"));
    let fix = format!(
        "set the pin to GPIO, output, in the pinmux: an overlay with tristate 0 and enable-input 1 (jetson-io), or the \
         pinmux sheet and a new BCT; bit 4 of {devmem} then reads 0"
    );
    match lets_out(root, name) {
        Some(true) => Check::passed(&what, "drives its pin".to_string()),
        Some(false) => {
            Check::failed(&what, "tristated: nothing written to it reaches the pin".to_string(), &fix)
        }
        None => Check::warned(
            &what,
            "this user cannot see whether it drives its pin, and reading an output back proves nothing here"
                .to_string(),
            &format!("once after each system installation, check that the pin switches. If not: {fix}"),
        ),
    }
}
