//! How often the reflexes acted, in the reports of a run and of a replay.

use std::collections::BTreeMap;

/// How often each cause tripped, and how often the reflexes stopped the robot driving forwards.
pub fn reflexes_text(trips: &BTreeMap<&'static str, u64>, forward_stops: u64) -> String {
    let trips: Vec<String> = trips.iter().map(|(name, times)| format!("{name} {times}")).collect();
    if trips.is_empty() {
        return "none".to_string();
    }
    let times = match forward_stops {
        1 => "once".to_string(),
        2 => "twice".to_string(),
        more => format!("{more} times"),
    };
    format!("{}; forward motion stopped {times}", trips.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_on_reflexes_counts_trips_and_stops() {
        let text =
            |trips: &[(&'static str, u64)], stops| reflexes_text(&trips.iter().copied().collect(), stops);
        assert_eq!(text(&[], 0), "none");
        assert_eq!(text(&[("cliff", 2)], 2), "cliff 2; forward motion stopped twice");
        assert_eq!(text(&[("obstacle", 2)], 0), "obstacle 2; forward motion stopped 0 times");
        assert_eq!(
            text(&[("obstacle", 2), ("cliff", 1)], 1),
            "cliff 1, obstacle 2; forward motion stopped once"
        );
    }
}
