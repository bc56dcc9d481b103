//! The measurements of a running robot, as lines of text. A line without figures is left out.

use crate::drive::trace::Latency;
use crate::hardware::gpu_meter::GpuFigures;
use crate::runtime::control::{AnswerStatus, GpuStatus, Measured, Quality, Status};

/// The lines, without their indent.
pub fn lines(status: &Status) -> Vec<String> {
    let Measured {
        quality,
        field_us,
        answer_us,
        release_late_us,
        answer,
        goal,
        gpu,
        gpu_figures,
        temperatures,
        ..
    } = &status.measured;
    let lateness = |late: &Latency| {
        let Latency { p50, p99, p999, max, n } = late;
        let skipped = status.slots_skipped;
        format!(
            "lateness   p50 {p50:.0}, p99 {p99:.0}, p99.9 {p999:.0}, max {max:.0} us over {n} slots; {skipped} skipped"
        )
    };
    let heat: Vec<String> = temperatures.iter().map(temperature_words).collect();
    [
        quality.as_ref().map(quality_line),
        field_us.as_ref().map(|taken| cycle_line("field", taken, "of compute time")),
        answer_us.as_ref().map(|taken| cycle_line("answer", taken, "from request to answer")),
        answer.as_ref().map(answer_line),
        goal.as_ref().map(|goal| format!("goal       {}", super::go::line(goal))),
        gpu.as_ref().map(gpu_line),
        gpu_figures.as_ref().and_then(gpu_figures_words).map(|words| format!("           {words}")),
        release_late_us.as_ref().map(lateness),
        (!heat.is_empty()).then(|| format!("heat       {}", heat.join(", "))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn quality_line(Quality { level, lowest, reason }: &Quality) -> String {
    match reason {
        None => format!("quality    level {level}, the best; the lowest is {lowest}"),
        Some(reason) => format!("quality    level {level} (0 is the best, {lowest} the lowest): {reason}"),
    }
}

fn cycle_line(name: &str, Latency { p50, p99, max, n, .. }: &Latency, what: &str) -> String {
    format!("{name:<10} p50 {p50:.0}, p99 {p99:.0}, max {max:.0} us {what}, {n} cycles")
}

fn answer_line(AnswerStatus { cycle, age_ms, confidence, novelty }: &AnswerStatus) -> String {
    format!(
        "newest     answer of cycle {cycle}, {age_ms:.0} ms old: confidence {confidence:.2}, novelty {novelty:.2}"
    )
}

fn gpu_line(GpuStatus { name, computes, why, attempt, attempt_in_s }: &GpuStatus) -> String {
    let name = name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    if *computes {
        return format!("GPU        computes the field{name}");
    }
    let next = match (attempt, attempt_in_s) {
        (Some(attempt), Some(left)) if *left > 0.0 => format!("; attempt {attempt} in {left:.1} s"),
        (Some(attempt), _) => format!("; attempt {attempt} under way"),
        (None, _) => String::new(),
    };
    let why = why.as_deref().unwrap_or("no reason is known");
    format!("GPU        not in use{name}, the processor computes the field: {why}{next}")
}

/// A temperature sensor and its value.
pub fn temperature_words((name, value): (&String, &Option<f32>)) -> String {
    match value {
        Some(degrees) => format!("{name} {degrees:.1} degC"),
        None => format!("{name} without a value"),
    }
}

/// What a GPU reports about itself; `None` if it reports nothing.
pub fn gpu_figures_words(figures: &GpuFigures) -> Option<String> {
    let GpuFigures { temperature_celsius, clock_mhz, memory_clock_mhz, power_watts, power_rail, load } =
        figures;
    let rail = power_rail.as_ref().map(|rail| format!(" on {rail}")).unwrap_or_default();
    let parts = [
        load.map(|load| format!("{:.0} % busy", load * 100.0)),
        clock_mhz.map(|mhz| format!("{mhz:.0} MHz")),
        memory_clock_mhz.map(|mhz| format!("memory {mhz:.0} MHz")),
        temperature_celsius.map(|degrees| format!("{degrees:.1} degC")),
        power_watts.map(|watts| format!("{watts:.1} W{rail}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::control::Sources;

    #[test]
    fn figures_that_were_not_measured_have_no_line() {
        let mut status = Sources::idle().status();
        assert_eq!(lines(&status), Vec::<String>::new());
        status.measured.temperatures.insert("cpu".into(), None);
        assert_eq!(lines(&status), ["heat       cpu without a value"]);
    }

    #[test]
    fn a_gpu_shows_only_the_figures_that_it_reports() {
        let figures = GpuFigures { load: Some(0.5), power_watts: Some(7.25), ..GpuFigures::default() };
        let words = gpu_figures_words(&figures);
        assert_eq!(words.as_deref(), Some("50 % busy, 7.2 W"));
        assert_eq!(gpu_figures_words(&GpuFigures::default()), None);
    }

    #[test]
    fn a_lost_gpu_is_shown_with_its_reason_and_the_next_attempt() {
        let mut gpu = GpuStatus {
            name: Some("X1".into()),
            computes: false,
            why: Some("GPU lost (its code panicked)".into()),
            attempt: Some(3),
            attempt_in_s: Some(2.0),
        };
        let lost =
            "GPU        not in use (X1), the processor computes the field: GPU lost (its code panicked)";
        assert_eq!(gpu_line(&gpu), format!("{lost}; attempt 3 in 2.0 s"));
        gpu.attempt_in_s = Some(0.0);
        assert_eq!(gpu_line(&gpu), format!("{lost}; attempt 3 under way"));
    }
}
