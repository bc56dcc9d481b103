//! Checks that Prometheus can read the page and that the page and the documents name the same metrics.

use super::page::Page;
use super::text;
use crate::drive::record::RecordingStatus;
use crate::field::remote::LinkCounters;
use crate::hardware::gpu_meter::GpuFigures;
use crate::runtime::control::{
    AnswerStatus, BusStatus, CYCLE_BOUNDS_US, CycleTimes, GpuStatus, GuardSummary, LATENESS_BOUNDS_US,
    Lateness, LinkStatus, MotorStatus, Quality, SensorStatus, Sources, Status,
};
use std::collections::{BTreeMap, BTreeSet};

/// A metric as parsed by the strict reader.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    /// Name and labels of each sample, and its value.
    samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

/// Reads a page and enforces every rule of the format: one header for each metric, before its samples; known
/// kinds; only allowed characters in names, labels and escapes; no series twice; complete histograms.
fn read(page: &str) -> Result<BTreeMap<String, Family>, String> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let (mut helped, mut current) = (String::new(), String::new());
    let mut seen = BTreeSet::new();
    if !page.ends_with('\n') {
        return Err("the last line has no line end".into());
    }
    for line in page.lines() {
        let fail = |why: &str| format!("{why}: {line}");
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').ok_or(fail("no text"))?;
            if help.is_empty() || help.contains('\\') || families.contains_key(name) {
                return Err(fail("a bad or second HELP"));
            }
            helped = name.into();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').ok_or(fail("no kind"))?;
            if name != helped || !is_name(name) || !["gauge", "counter", "histogram"].contains(&kind) {
                return Err(fail("a bad TYPE"));
            }
            if (kind == "counter") != name.ends_with("_total") || !name.starts_with("ganglion_") {
                return Err(fail("a name that breaks the conventions"));
            }
            current = name.into();
            families.insert(current.clone(), Family { kind: kind.into(), samples: Vec::new() });
        } else {
            let (name, labels, value) = sample(line).ok_or(fail("not a sample"))?;
            let family = families.get_mut(&current).ok_or(fail("a sample without a header"))?;
            let suffix = name.strip_prefix(&current).ok_or(fail("a sample under another metric's header"))?;
            let suffixes: &[&str] = match family.kind.as_str() {
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            if !suffixes.contains(&suffix) || !seen.insert(format!("{name}{labels:?}")) {
                return Err(fail("a bad suffix or a second sample"));
            }
            if family.kind == "counter" && value < 0.0 {
                return Err(fail("a negative count"));
            }
            family.samples.push((name, labels, value));
        }
    }
    for (name, family) in &families {
        if family.samples.is_empty() || (family.kind == "histogram" && !is_complete(name, family)) {
            return Err(format!("{name} is empty or incomplete: {family:?}"));
        }
    }
    Ok(families)
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn sample(line: &str) -> Option<(String, BTreeMap<String, String>, f64)> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"")?;
            let mut value = String::new();
            let mut characters = after.char_indices();
            let end = loop {
                match characters.next()? {
                    (at, '"') => break at,
                    (_, '\\') => value.push(match characters.next()?.1 {
                        'n' => '\n',
                        escaped @ ('\\' | '"') => escaped,
                        _ => return None,
                    }),
                    (_, character) => value.push(character),
                }
            };
            if !is_name(label) || labels.insert(label.to_string(), value).is_some() {
                return None;
            }
            rest = &after[end + 1..];
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        rest = rest.strip_prefix('}')?;
    }
    let value = rest.strip_prefix(' ')?.parse().ok()?;
    is_name(name).then(|| (name.to_string(), labels, value))
}

/// Whether the bounds rise, the counts do not fall, and the last bucket is unbounded and equals the sample
/// `_count`.
fn is_complete(name: &str, Family { samples, .. }: &Family) -> bool {
    let buckets: Vec<(f64, f64)> = samples
        .iter()
        .filter(|(sample, ..)| *sample == format!("{name}_bucket"))
        .map(|(_, labels, count)| (labels["le"].replace("+Inf", "inf").parse().unwrap(), *count))
        .collect();
    let one =
        |suffix| samples.iter().filter(|(sample, ..)| *sample == format!("{name}{suffix}")).count() == 1;
    let count = samples.iter().find(|(sample, ..)| *sample == format!("{name}_count"));
    buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1)
        && buckets.last().is_some_and(|(bound, n)| bound.is_infinite() && Some(*n) == count.map(|c| c.2))
        && one("_sum")
        && one("_count")
}

/// A status in which every part is present.
fn full() -> Status {
    let mut status = Sources::idle().status();
    status.board = "a \"quoted\" \\ name\nof two lines \x1b[2J".into();
    status.mode = "degraded".into();
    status.causes = vec!["obstacle".into(), "from-the-future".into()];
    status.latched = Some("e-stop".into());
    (status.slots_run, status.slots_skipped, status.records_dropped) = (1000, 3, 2);
    (status.readings_dropped, status.edges_dropped, status.edge_storms) = (5, 7, 6);
    status.measured.quality = Some(Quality { level: 2, lowest: 5, reason: None });
    status.measured.answer = Some(AnswerStatus { cycle: 9, age_ms: 12.5, confidence: 0.75, novelty: 0.25 });
    let (name, why, attempt, attempt_in_s) = (Some("X1".into()), None, None, None);
    status.measured.gpu = Some(GpuStatus { name, computes: true, why, attempt, attempt_in_s });
    status.measured.gpu_figures = Some(GpuFigures {
        temperature_celsius: Some(61.1),
        clock_mhz: Some(1020.0),
        memory_clock_mhz: Some(7001.0),
        power_watts: Some(7.5),
        power_rail: Some("VDD_GPU_SOC".into()),
        load: Some(0.1),
    });
    status.measured.temperatures = [("cpu".to_string(), Some(48.5)), ("off".to_string(), None)].into();
    let sensor = |name: &str, value| SensorStatus {
        name: name.into(),
        unit: "m".into(),
        value,
        age_ms: value.map(|_| 30.0),
        health: if value.is_some() { "good" } else { "never read" }.into(),
        refused: 4,
    };
    status.measured.sensors =
        vec![sensor("range", Some(0.5)), sensor("floor", None), sensor("odd", Some(f32::NAN))];
    status.measured.motors = vec![MotorStatus { name: "left".into(), command: -0.5 }];
    let counts = vec![1, 0, 2, 0, 0, 0, 0, 0, 0, 4];
    status.measured.lateness = Some(Lateness { limit_us: 10_000.0, counts, sum_us: 250.0 });
    let mut counts = vec![0; CYCLE_BOUNDS_US.len() + 1];
    (counts[0], counts[CYCLE_BOUNDS_US.len()]) = (10, 1);
    status.measured.cycle_times = Some(CycleTimes { counts, sum_us: 1_500_000.0 });
    status.measured.trips = [("obstacle".to_string(), 4)].into();
    status.measured.failovers = 1;
    let (counters, parts_us) = (LinkCounters::default(), BTreeMap::new());
    status.measured.link = Some(LinkStatus { said: None, stood_in: true, counters, parts_us });
    let bus = |name: &str| BusStatus {
        name: name.into(),
        failures: 2,
        retries: 3,
        set_ups: 1,
        expired: 0,
        stops_again: 0,
        halts: 8,
        cuts: 9,
        lost: vec!["range".into()],
        recovery: [("reset".to_string(), 1)].into(),
        measures: vec!["reset".into()],
    };
    // A second bus of the same name must not make the page invalid.
    status.buses = vec![bus("motors"), bus("motors")];
    status.guard = Some(GuardSummary {
        required: true,
        phase: "tripped".into(),
        reason: Some("silent".into()),
        line_on: false,
        trips: 1,
        refused: None,
        connections: 2,
    });
    status.recording = Some(RecordingStatus { writing: true, bytes: 1 << 20, ..RecordingStatus::default() });
    status
}

/// The value of the only sample with this label.
fn value(families: &BTreeMap<String, Family>, name: &str, label: Option<(&str, &str)>) -> f64 {
    let samples = families.get(name).unwrap_or_else(|| panic!("no {name}")).samples.iter();
    let wanted: Vec<f64> = samples
        .filter(|(_, labels, _)| label.is_none_or(|(key, word)| labels.get(key).is_some_and(|l| l == word)))
        .map(|(.., value)| *value)
        .collect();
    assert_eq!(wanted.len(), 1, "{name} {label:?}");
    wanted[0]
}

#[test]
fn a_page_is_read_by_a_strict_reader_with_its_values() {
    let families = read(&text(Some(&full()))).unwrap();
    let of = |name: &str, label| value(&families, name, label);
    assert_eq!(of("ganglion_up", None), 1.0);
    assert_eq!(of("ganglion_slots_missed_total", None), 3.0);
    assert_eq!(of("ganglion_dropped_total", Some(("kind", "slot_record"))), 2.0);
    assert_eq!(of("ganglion_dropped_total", Some(("kind", "reading"))), 5.0);
    assert_eq!(of("ganglion_mode", Some(("mode", "degraded"))), 1.0);
    let modes = &families["ganglion_mode"].samples;
    assert_eq!((modes.len(), modes.iter().map(|(.., on)| on).sum::<f64>()), (7, 1.0), "one of the modes");
    let active = &families["ganglion_cause_active"].samples;
    assert_eq!(
        active.iter().map(|(.., on)| on).sum::<f64>(),
        2.0,
        "a cause that this version does not know counts too"
    );
    assert_eq!(of("ganglion_cause_latched", Some(("cause", "e-stop"))), 1.0);
    assert_eq!(of("ganglion_cause_trips_total", Some(("cause", "obstacle"))), 4.0);
    assert_eq!(of("ganglion_cause_trips_total", Some(("cause", "cliff"))), 0.0);
    assert_eq!(of("ganglion_gpu_temperature_celsius", None), 61.1);
    assert_eq!(of("ganglion_gpu_clock_hertz", None), 1.02e9);
    assert_eq!(of("ganglion_temperature_celsius", None), 48.5);
    assert_eq!(of("ganglion_sensor_age_seconds", Some(("sensor", "range"))), 0.03);
    assert_eq!(of("ganglion_sensor_good", Some(("sensor", "floor"))), 0.0);
    assert_eq!(of("ganglion_sensor_readings_refused_total", Some(("sensor", "range"))), 4.0);
    assert_eq!(families["ganglion_sensor_value"].samples.len(), 1, "no sample for a missing value or NaN");
    assert_eq!(of("ganglion_bus_recoveries_total", Some(("step", "reset"))), 1.0);
    assert_eq!(of("ganglion_edge_storms_total", None), 6.0);
    for (name, count) in [("ganglion_bus_halts_total", 8.0), ("ganglion_bus_cuts_total", 9.0)] {
        assert_eq!(families[name].samples.iter().map(|(.., n)| *n).collect::<Vec<_>>(), [count], "{name}");
    }
    assert_eq!(of("ganglion_guard_phase", Some(("phase", "tripped"))), 1.0);
    assert_eq!(of("ganglion_recording_bytes_total", None), 1_048_576.0);
    let board = &families["ganglion_board_info"].samples[0].1["board"];
    assert!(board.starts_with("a \"quoted\" \\ name") && !board.contains(['\n', '\x1b']), "{board:?}");
}

#[test]
fn histograms_are_cumulative_and_in_seconds() {
    let families = read(&text(Some(&full()))).unwrap();
    let bucket = |name: &str, le| value(&families, name, Some(("le", le)));
    let late = |le| bucket("ganglion_slot_lateness_seconds", le);
    assert_eq!(["0.00002", "0.00005", "0.0001", "0.01", "+Inf"].map(late), [1.0, 1.0, 3.0, 3.0, 7.0]);
    let cycle = |le| bucket("ganglion_field_cycle_seconds", le);
    assert_eq!(["0.0001", "0.5", "+Inf"].map(cycle), [10.0, 10.0, 11.0]);
    let sums = ["ganglion_slot_lateness_seconds", "ganglion_field_cycle_seconds"].map(|name| {
        let samples = &families[name].samples;
        samples.iter().find(|(sample, ..)| sample.ends_with("_sum")).map(|(.., sum)| *sum)
    });
    assert_eq!(sums, [Some(0.00025), Some(1.5)]);
    // A runtime of another version may have other buckets.
    let mut other = full();
    other.measured.lateness =
        Some(Lateness { limit_us: 1.0, counts: vec![1; LATENESS_BOUNDS_US.len()], sum_us: 1.0 });
    assert!(!read(&text(Some(&other))).unwrap().contains_key("ganglion_slot_lateness_seconds"));
}

#[test]
fn a_robot_without_an_answer_or_parts_has_a_valid_page() {
    let none = read(&text(None)).unwrap();
    assert_eq!((none.len(), value(&none, "ganglion_up", None)), (1, 0.0));
    let idle = read(&text(Some(&Sources::idle().status()))).unwrap();
    assert!(idle.contains_key("ganglion_slots_total") && !idle.contains_key("ganglion_guard_phase"));
}

#[test]
fn the_strict_reader_refuses_what_prometheus_refuses() {
    let head = "# HELP ganglion_a Words.\n# TYPE ganglion_a gauge\n";
    assert!(read(&format!("{head}ganglion_a{{x=\"1\"}} 2\n")).is_ok());
    for wrong in [
        "ganglion_a 1\nganglion_a 2\n",
        "ganglion_a{x=\"\\y\"} 1\n",
        "ganglion_a{x=\"1\" 1\n",
        "ganglion_a{x=\"1\",x=\"2\"} 1\n",
        "ganglion_a{1=\"1\"} 1\n",
        "ganglion_a one\n",
        "ganglion_b 1\n",
        "ganglion_a 1",
        "",
    ] {
        assert!(read(&format!("{head}{wrong}")).is_err(), "{wrong}");
    }
    let mut page = Page::new();
    page.gauge("b", "Words.").with(&[("x", "\"\\\n")], 1);
    assert!(page.into_text().contains("{x=\"\\\"\\\\\\\\x0a\"} 1\n"));
}

/// Names in a text that begin with `ganglion_`; those of histograms without their suffix.
fn names_in(text: &str, known: &BTreeSet<String>) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let names = words.filter(|word| word.starts_with("ganglion_"));
    let base = |name: &str| {
        let parts = ["_bucket", "_sum", "_count"].iter().filter_map(|end| name.strip_suffix(end));
        parts.map(str::to_string).find(|base| known.contains(base)).unwrap_or(name.to_string())
    };
    names.map(base).collect()
}

#[test]
fn documents_alerts_and_dashboard_name_existing_metrics() {
    let written: BTreeSet<String> = read(&text(Some(&full()))).unwrap().into_keys().collect();
    let named = |path: &str| {
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        names_in(&text, &written)
    };
    assert_eq!(named("docs/monitoring.md"), written, "docs/monitoring.md lists every metric and no other");
    for path in ["docs/alerts.yml", "docs/grafana-dashboard.json"] {
        let unknown: Vec<String> = named(path).difference(&written).cloned().collect();
        assert!(unknown.is_empty() && !named(path).is_empty(), "{path} names {unknown:?}");
    }
    let rules = std::fs::read_to_string("docs/alerts.yml").unwrap();
    for (alert, metric) in [
        ("GanglionSlotsMissed", "ganglion_slots_missed_total"),
        ("GanglionDropped", "ganglion_dropped_total"),
        ("GanglionFailover", "ganglion_engine_failovers_total"),
        ("GanglionTooWarm", "ganglion_temperature_celsius"),
        ("GanglionGuardLost", "ganglion_guard_phase"),
        ("GanglionRecorderLoses", "ganglion_recording_failures_total"),
        ("GanglionDiskFull", "node_filesystem_avail_bytes"),
    ] {
        let rule = rules.split("- alert: ").find(|rule| rule.lines().next() == Some(alert));
        let rule = rule.unwrap_or_else(|| panic!("no alert {alert}"));
        let condition = rule.split_once("expr:").and_then(|(_, rest)| rest.split_once("labels:"));
        assert!(condition.is_some_and(|(expr, _)| expr.contains(metric)), "{alert}: {rule}");
    }
}

/// Grafana's name for the unit of a query, by the metric's own name, which ends in its unit.
fn unit_of(query: &str) -> &'static str {
    let mut words = query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let metric = words.find(|word| word.starts_with("ganglion_")).expect("a metric");
    let is_rate = query.contains("rate(");
    match metric.trim_end_matches("_bucket").rsplit_once('_').map(|(_, last)| last) {
        Some("seconds") => "s",
        Some("celsius") => "celsius",
        Some("hertz") => "hertz",
        Some("watts") => "watt",
        Some("ratio") => "percentunit",
        Some("total") if is_rate && metric.ends_with("_bytes_total") => "Bps",
        Some("total") if is_rate => "ops",
        Some("total") => "short",
        _ => "none", // a state, a level, or values with units of their own
    }
}

#[test]
fn each_panel_of_the_dashboard_has_the_unit_of_its_metrics() {
    let dashboard = std::fs::read_to_string("docs/grafana-dashboard.json").unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let drawn = |panel: &&serde_json::Value| panel["type"] != "row";
    for panel in panels.iter().filter(drawn) {
        let targets = panel["targets"].as_array().expect("targets");
        assert!(!targets.is_empty(), "{panel}");
        let config = &panel["fieldConfig"];
        for target in targets {
            let query = target["expr"].as_str().expect("a query");
            let own = config["overrides"].as_array().expect("overrides").iter().find(|own| {
                own["matcher"] == serde_json::json!({"id": "byFrameRefID", "options": target["refId"]})
            });
            let own =
                own.and_then(|own| own["properties"].as_array()?.iter().find(|set| set["id"] == "unit"));
            let unit = own.map_or(&config["defaults"]["unit"], |own| &own["value"]);
            assert_eq!(unit, unit_of(query), "{}: {query}", panel["title"]);
            let has_units = query.contains("ganglion_sensor_value");
            let legend = target["legendFormat"].as_str().expect("a legend");
            assert_eq!(legend.contains("{{unit}}"), has_units, "{}: {legend}", panel["title"]);
        }
    }
}
