//! The boards built into the program, so that it runs without a board file.

/// Name and text of every built-in board.
pub const BUILT_IN: [(&str, &str); 18] = [
    ("sim", include_str!("../../../boards/sim.toml")),
    ("sim-sonar", include_str!("../../../boards/sim-sonar.toml")),
    ("picarx-v4", include_str!("../../../boards/picarx-v4.toml")),
    ("picarx-v5", include_str!("../../../boards/picarx-v5.toml")),
    ("picarx-v4-tethered", include_str!("../../../boards/picarx-v4-tethered.toml")),
    ("picarx-v5-tethered", include_str!("../../../boards/picarx-v5-tethered.toml")),
    ("picarx-v4-corners", include_str!("../../../boards/picarx-v4-corners.toml")),
    ("picarx-v5-corners", include_str!("../../../boards/picarx-v5-corners.toml")),
    ("virtual-bench", include_str!("../../../boards/virtual-bench.toml")),
    ("generic-linux", include_str!("../../../boards/generic-linux.toml")),
    ("jetson-orin-nano", include_str!("../../../boards/jetson-orin-nano.toml")),
    ("jetson-orin-nx", include_str!("../../../boards/jetson-orin-nx.toml")),
    ("jetson-agx-orin", include_str!("../../../boards/jetson-agx-orin.toml")),
    ("desktop-gpu", include_str!("../../../boards/desktop-gpu.toml")),
    ("scitos-g5", include_str!("../../../boards/scitos-g5.toml")),
    ("scitos-g5-ring", include_str!("../../../boards/scitos-g5-ring.toml")),
    ("barn", include_str!("../../../boards/barn.toml")),
    ("barn-car", include_str!("../../../boards/barn-car.toml")),
];

/// The text of the built-in board with that name.
pub fn text(name: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The names, in the order of the list.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}
