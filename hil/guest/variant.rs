//! The variants of the board that rows need: each is a file that inherits the bench's board and states the
//! differences. The names of rules come from the effective configuration, so that new rules are included.

use ganglion::deploy::board::{self, Loaded, Setting};
use std::fmt::Write as _;
use std::path::Path;

/// The name of the bench's board.
pub const BOARD: &str = "virtual-bench";

/// How a variant differs from the bench's board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// It does not differ.
    Plain,
    /// Rules that forbid motion do not latch and end after 20 ms, so that a latency can be measured hundreds
    /// of times.
    Brief,
    /// `Brief` without real-time priorities.
    BriefOrdinary,
    /// The guard holds the controller's reset line, as on the flagship, instead of the enable line.
    Reset,
    /// The driver of the bus may be rebound.
    Rebind,
    /// A file that is not a valid board.
    Wrong,
}

/// Duration of a brief restraint, milliseconds: two control periods, so that the stop is seen before motion
/// resumes.
const BRIEF_MS: f64 = 20.0;

/// The text of the variant.
pub fn text(loaded: &Loaded, variant: Variant) -> String {
    let mut text = format!("inherits = \"{BOARD}\"\n");
    match variant {
        Variant::Plain => {}
        Variant::Brief => brief(&loaded.settings, &mut text),
        Variant::BriefOrdinary => {
            text.push_str("\n[rt]\npriority = 0\nstrict = false\n");
            brief(&loaded.settings, &mut text);
        }
        Variant::Reset => text.push_str("\n[guard]\nholds = \"reset\"\n"),
        Variant::Rebind => text.push_str("\n[bus]\nrebind = true\n"),
        Variant::Wrong => text.push_str("\n[bus]\nspeed_hz = \"fast\"\n"),
    }
    text
}

/// Makes every rule that forbids motion brief: it does not latch, and ends after [`BRIEF_MS`].
fn brief(settings: &[Setting], text: &mut String) {
    let rule = |setting: &Setting| {
        let name = setting.key.strip_prefix("reflex.")?.strip_suffix(".restraint")?;
        (setting.value == "\"still\"").then(|| name.to_string())
    };
    for name in settings.iter().filter_map(rule) {
        let _ = write!(text, "\n[[reflex]]\nname = \"{name}\"\nlatched = false\nhold_ms = {BRIEF_MS:.1}\n");
        // A rule with the cause `e-stop` always latches, so it gets another cause; the path from the button
        // to the motors is the same for every cause.
        let e_stop = format!("reflex.{name}.cause");
        if settings.iter().any(|setting| setting.key == e_stop && setting.value == "\"e-stop\"") {
            text.push_str("cause = \"tilt\"\n");
        }
    }
}

/// Writes the variant to a file, and creates its folder if necessary.
pub fn write(path: &Path, loaded: &Loaded, variant: Variant) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, text(loaded, variant))
}

/// The bench's board, or a text that says what is wrong with it.
pub fn load() -> Result<Loaded, String> {
    match board::built_in(BOARD) {
        Some(Ok(loaded)) => Ok(loaded),
        Some(Err(error)) => Err(error.to_string()),
        None => Err(format!("this build has no board '{BOARD}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_is_a_valid_board_and_unknown_ones_are_refused() {
        let loaded = load().unwrap();
        for variant in
            [Variant::Plain, Variant::Reset, Variant::Rebind, Variant::Brief, Variant::BriefOrdinary]
        {
            let text = text(&loaded, variant);
            let board =
                board::from_text("variant", &text).unwrap_or_else(|error| panic!("{text}\n{error}")).board;
            let still =
                |rule: &&ganglion::base::plan::Rule| rule.restraint == ganglion::base::plan::Restraint::Still;
            let brief = board.reflexes.iter().filter(still).all(|rule| !rule.latched);
            assert_eq!(brief, matches!(variant, Variant::Brief | Variant::BriefOrdinary));
            assert_eq!(board.i2c[0].recovery.rebind, variant == Variant::Rebind);
            let resets =
                board.guard.is_some_and(|guard| guard.holds == ganglion::base::plan::GuardHold::Reset);
            assert_eq!(resets, variant == Variant::Reset);
            assert_eq!(board.rt.priority == 0, variant == Variant::BriefOrdinary);
        }
        assert!(board::from_text("variant", &text(&loaded, Variant::Wrong)).is_err());
    }
}
