//! Tests of the rendered pages, as text, at several window sizes.

use super::*;
use crate::base::command::Source;
use crate::base::time::SimClock;
use crate::cli::screen::model::Owner;
use crate::deploy::board::{built_in, world_from_text};
use crate::drive::trace::Latency;
use crate::field::slices::{FieldSlices, SlicesMessage};
use crate::memory::map::{MapStatus, NearbyThing};
use crate::runtime::control::{
    AnswerStatus, BusStatus, GoalStatus, GpuStatus, Lateness, Measured, MotorStatus, Quality, Room,
    RoomStatus, SensorStatus, Sources, Status,
};
use crate::sim::Plant;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use std::collections::BTreeMap;
use std::sync::Arc;

fn sensor(name: &str, value: f32, unit: &str, health: &str) -> SensorStatus {
    let (value, age_ms) = (Some(value), Some(12.0));
    SensorStatus { name: name.into(), unit: unit.into(), value, age_ms, health: health.into(), refused: 0 }
}

fn measured() -> Measured {
    let times = |p50: f64| Some(Latency { p50, p99: 2.0 * p50, p999: 3.0 * p50, max: 4.0 * p50, n: 1_000 });
    let mut measured = Measured::default();
    measured.quality =
        Some(Quality { level: 2, lowest: 5, reason: Some("a cycle at level 1 took 12.0 ms".into()) });
    measured.field_us = times(310.0);
    measured.answer_us = times(2_500.0);
    measured.release_late_us = times(63.0);
    measured.answer = Some(AnswerStatus { cycle: 812, age_ms: 12.0, confidence: 0.62, novelty: 0.1 });
    measured.gpu = Some(GpuStatus {
        name: None,
        computes: false,
        why: Some("no CUDA driver".into()),
        attempt: None,
        attempt_in_s: None,
    });
    measured.sensors = vec![
        sensor("range", 0.82, "m", "good"),
        sensor("ground-left", 612.0, "counts", "good"),
        sensor("battery", 7.78, "V", "frozen"),
    ];
    measured.motors = vec![
        MotorStatus { name: "left".into(), command: 0.42 },
        MotorStatus { name: "steering".into(), command: -0.5 },
    ];
    measured.commanded_by = Some("the field".into());
    measured.lateness =
        Some(Lateness { limit_us: 10_000.0, counts: vec![0, 900, 100, 0, 0, 0, 0, 0, 0, 1], sum_us: 0.0 });
    measured
}

/// A simulated robot that has driven for ten seconds.
fn status(mode: &str) -> Status {
    let recovery = BTreeMap::from([("reset".to_string(), 2)]);
    let bus = BusStatus {
        name: "motors".into(),
        failures: 3,
        retries: 1,
        set_ups: 1,
        expired: 4,
        stops_again: 0,
        halts: 0,
        cuts: 0,
        lost: vec!["lean".into()],
        recovery,
        measures: Vec::new(),
    };
    let room = RoomStatus {
        size: [4.0, 3.0],
        discs: vec![[1.0, 1.0, 0.12]],
        cliffs: vec![[3.4, 2.5, 4.0, 3.0]],
        start: [0.0; 3],
        pose: [2.0, 1.5, 0.3],
        car: [0.25, 0.13],
        front: 0.17,
        ranger: Some("range".into()),
        half_cone_deg: 15.0,
        ..RoomStatus::default()
    };
    Status {
        simulated: true,
        engine: "cpu: 16 x 16^3 on 1 thread".into(),
        engine_state: "running".into(),
        mode: mode.into(),
        slots_run: 1_000,
        slots_skipped: 1,
        measured: measured(),
        buses: vec![bus],
        room: Some(room),
        ..Sources::idle().status()
    }
}

fn model(status: Status) -> Model {
    Model::new(Owner::Top, false, status)
}

/// The page as lines.
fn page(model: &Model, width: u16, height: u16) -> Vec<String> {
    let buffer = buffer(model, width, height);
    let cells: Vec<&str> = buffer.content().iter().map(|cell| cell.symbol()).collect();
    cells.chunks(width.into()).map(|row| row.concat().trim_end().to_string()).collect()
}

fn buffer(model: &Model, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(model, frame.area(), frame.buffer_mut())).unwrap();
    terminal.backend().buffer().clone()
}

fn has(page: &[String], words: &str) {
    assert!(page.iter().any(|line| line.contains(words)), "no '{words}':\n{}", page.join("\n"));
}

#[test]
fn everything_is_on_the_page_at_80_x_24_and_120_x_40() {
    for (width, height) in [(80, 24), (120, 40)] {
        let page = page(&model(status("armed")), width, height);
        assert_eq!(page[0], " ARMED  sim (simulated)  0:10");
        assert_eq!(page[1], "Armed: the field drives the motors.");
        assert_eq!(page[2], "No active causes.");
        for words in [
            "── Sensors ──",
            " range             0.82 m       12 ms good",
            "!battery           7.78 V       12 ms frozen",
            "── Motors, by the field ──",
            " left             +0.42         │███",
            " steering         -0.50     ████│",
            "── Loop: lateness",
            " p50 63, p99 126, max 252 us",
            " <20us   ██▆▆            ▂▂ >10ms",
            "limit 10 ms",
            " engine cpu: 16 x 16^3 on 1 thr",
            "!quality 2 of 5",
            "because a cycle at level 1",
            " cycle p50 310 us, p99 620 us",
            " answer p50 2.5 ms, p99 5.0 ms",
            " confidence 0.62, novelty 0.10",
            "!motors: 3 failed, 1 retried, set up 1x",
            "recovered by reset 2x",
            "no value from lean",
            "!slots skipped    1     commands expired 4",
            "── Room from above ──",
        ] {
            has(&page, words);
        }
        if width == 80 {
            has(&page, "── Loop: lateness, 100 Hz ──");
        }
        if width == 120 {
            for words in
                ["!100 Hz, 1000 run, 1 skipped", " GPU not in use: no CUDA driver", " newest: cycle 812"]
            {
                has(&page, words);
            }
        }
        let braille = |line: &String| line.chars().any(|sign| ('\u{2801}'..='\u{28ff}').contains(&sign));
        assert!(page.iter().filter(|line| braille(line)).count() >= 3, "{}", page.join("\n"));
        assert_eq!(page[usize::from(height) - 1], words::keys(width.into()));
    }
}

/// A robot that the navigator drives to (2, 1), with its goal in this state.
fn with_goal(state: &str, why: Option<&str>) -> Status {
    let mut status = status("armed");
    status.measured.commanded_by = Some(Source::Navigator.text().into());
    status.measured.goal = Some(GoalStatus {
        order: 1,
        goal: Some([2.0, 1.0]),
        left: 0,
        behaviour: None,
        state: state.into(),
        why: why.map(str::to_string),
        at: [0.5, 0.25],
        heading_deg: 0.0,
        turns_measured: None,
    });
    status
}

#[test]
fn a_goal_a_recalled_name_and_stages_are_shown() {
    let mut status = with_goal("looking", Some("no way is open for now"));
    let near = vec![NearbyThing { name: "door".into(), likeness: 0.93 }];
    status.map = Some(MapStatus { near, ..MapStatus::default() });
    let took = |p50: f64| Latency { p50, p99: p50, p999: p50, max: p50, n: 9 };
    status.measured.stages_us =
        [("launch".to_string(), took(31.0)), ("wait".to_string(), took(402.0))].into();
    for (width, height) in [(80, 24), (120, 40)] {
        let page = page(&model(status.clone()), width, height);
        let goal = page.iter().position(|line| line.contains(" goal (2.00, 1.00) m: looking (no"));
        let goal = goal.unwrap_or_else(|| panic!("no goal:\n{}", page.join("\n")));
        assert!(page[goal + 1].contains("way is open for now)"), "{}", page[goal + 1]);
        has(&page, " recalled near here: door (0.93)");
        has(&page, " stages launch 31, wait 402 us");
    }
    has(&page(&model(status), 120, 40), "0.25) m by dead reckoning");
}

#[test]
fn with_a_goal_the_navigator_drives_not_the_field() {
    for (state, words) in [
        ("idle", "Armed: the navigator drives to the goal (2.00, 1.00) m."),
        ("going", "Armed: the navigator drives to the goal (2.00, 1.00) m."),
        ("looking", "Armed: the navigator looks for a way to the goal (2.00, 1.00) m."),
        ("backing", "Armed: the navigator backs up on the way to the goal (2.00, 1.00) m."),
        ("arrived", "Armed: the robot stands at its goal (2.00, 1.00) m."),
        ("given-up", "Armed: the robot stands, because it has given up the goal (2.00, 1.00) m."),
    ] {
        let page = page(&model(with_goal(state, None)), 80, 24);
        assert_eq!(page[1], words, "{state}");
        has(&page, "── Motors, by the navigator ──");
    }
}

#[test]
fn without_a_goal_the_screen_says_that_the_navigator_steers() {
    let mut status = with_goal("idle", None);
    status.measured.goal.as_mut().unwrap().goal = None;
    let page = page(&model(status), 80, 24);
    assert_eq!(page[1], "Armed: the navigator steers clear of an obstacle that it remembers.");
}

#[test]
fn a_robot_that_stands_by_order_is_not_said_to_drive() {
    let mut status = with_goal("standing", None);
    status.measured.goal.as_mut().unwrap().goal = None;
    status.measured.commanded_by = Some(Source::StandOrder.text().into());
    let page = page(&model(status), 80, 24);
    assert_eq!(page[1], "Armed: the robot stands by order; 'ganglion go wander' lets the field drive.");
    has(&page, "── Motors, by the order to stand ──");
}

#[test]
fn what_decided_the_motors_fits_the_title() {
    for source in Source::ALL {
        let mut status = status("armed");
        status.measured.commanded_by = Some(source.text().into());
        has(&page(&model(status), 80, 24), &format!("── Motors, by {} ", source.text()));
    }
}

/// A world with one thing of each kind, far from each other and from the walls.
const WORLD: &str = "size = [6.0, 4.0]\nstart = [1.0, 2.0]\ndiscs = [[3.0, 3.0, 0.3]]\n\
                     boxes = [[2.0, 0.6, 2.6, 1.2]]\nwalls = [[5.2, 0.8, 5.2, 3.2]]\n\
                     line = [[3.2, 1.2], [4.6, 2.4]]\nledges = [[5.5, 3.5, 6.0, 4.0]]\n\
                     [[mover]]\nradius = 0.3\nspeed = 0.3\nway = [[1.4, 3.0], [2.0, 3.0]]\n";

/// The status of the desk robot in the world of this file, with a goal 3.2 m ahead if `has_goal`.
fn in_world(file: &str, has_goal: bool) -> Status {
    let mut board = built_in("sim").unwrap().unwrap().board;
    board.sim.as_mut().unwrap().world = Some(world_from_text("w.toml", file.to_string()).unwrap());
    let plant = Plant::new(&board, 1, &[], Arc::new(SimClock::new()));
    let room = Room::of(&plant, &board).status(has_goal.then_some([3.2, 0.0]));
    Status { room: Some(room), ..status("armed") }
}

#[test]
fn everything_in_a_world_file_is_drawn_in_the_room() {
    for (width, height) in [(80, 24), (120, 40)] {
        let drawn = |file: &str, has_goal: bool| page(&model(in_world(file, has_goal)), width, height);
        let whole = drawn(WORLD, true);
        let lost = |page: Vec<String>| {
            let signs = |page: &[String]| page.join("\n").chars().collect::<Vec<char>>();
            let (with, without) = (signs(&whole), signs(&page));
            assert_eq!(with.len(), without.len(), "only the room differs:\n{}", page.join("\n"));
            with.iter().zip(&without).filter(|(with, without)| with != without).count()
        };
        for (thing, least) in [
            ("discs = [[3.0, 3.0, 0.3]]\n", 2),
            ("boxes = [[2.0, 0.6, 2.6, 1.2]]\n", 2),
            ("walls = [[5.2, 0.8, 5.2, 3.2]]\n", 2),
            ("line = [[3.2, 1.2], [4.6, 2.4]]\n", 2),
            ("ledges = [[5.5, 3.5, 6.0, 4.0]]\n", 1),
            ("[[mover]]\nradius = 0.3\nspeed = 0.3\nway = [[1.4, 3.0], [2.0, 3.0]]\n", 2),
        ] {
            assert!(WORLD.contains(thing), "{thing}");
            let lost = lost(drawn(&WORLD.replace(thing, ""), true));
            assert!(lost >= least, "{lost} cells of {thing} at {width} x {height}:\n{}", whole.join("\n"));
        }
        assert_eq!(lost(drawn(WORLD, false)), 1, "the goal");
        let goals = whole.iter().filter(|line| line.contains('X')).count();
        assert_eq!(goals, 1, "{}", whole.join("\n"));
    }
}

#[test]
fn each_mode_says_whether_the_motors_run_and_what_to_do() {
    let first = |status: Status| page(&model(status), 80, 24)[..2].to_vec();
    let disarmed = first(status("disarmed"));
    assert_eq!(disarmed[1], "Disarmed: the motors are stopped. Press a to arm.");
    let waits = Status { refusal: vec!["the field is not delivering results".into()], ..status("disarmed") };
    let said = "Disarmed: motors stopped. Cannot be armed: the field is not delivering results.";
    assert_eq!(first(waits)[1], said);
    let latched = Status { latched: Some("cliff".into()), ..status("latched") };
    let said = "Latched by cliff: motors stopped. When the cause is gone: d, then a.";
    assert_eq!(first(latched), [" LATCHED  sim (simulated)  0:10".to_string(), said.to_string()]);
}

#[test]
fn every_cause_is_shown_in_words_and_the_worst_first() {
    for cause in Cause::ALL {
        let status = Status { causes: vec![cause.name().into()], ..status("degraded") };
        let page = page(&model(status), 80, 24);
        assert_eq!(page[2], format!("! {}", words::cause(cause.name())));
    }
    let names = ["field-late", "battery", "cliff"].map(String::from).to_vec();
    let page = page(&model(Status { causes: names, ..status("degraded") }), 80, 24);
    assert_eq!(
        page[2..4],
        [format!("! {}", words::cause("cliff")), "! and 2 more: battery, field-late".into()]
    );
}

#[test]
fn no_size_breaks_the_page_and_a_small_one_keeps_the_mode() {
    for (width, height) in [(1, 1), (2, 3), (10, 4), (40, 5), (79, 24), (80, 23), (81, 24), (300, 100)] {
        let mut model = model(Status { causes: vec!["cliff".into()], ..status("degraded") });
        let small = page(&model, width, height);
        assert!(width < 10 || small[0].starts_with(" DEGRADED"), "{small:?}");
        model.page = Page::Help;
        page(&model, width, height);
    }
}

#[test]
fn a_small_window_shows_what_fits_and_how_to_see_more() {
    let whole =
        ["Armed: the field drives the motors.", " left             +0.42", "!battery           7.78 V"];
    let most = ["── Loop: lateness, 100 Hz ──", " <20us   ██▆▆", "limit 10 ms"];
    for (width, height, also) in [
        (79, 24, &[&most[..], &["── Field ──", "!quality 2 of 5", "── Room from above ──"]].concat()[..]),
        (80, 20, &[&most[..], &["── Field ──", "── Room from above ──"]].concat()[..]),
        (60, 20, &most[..]),
        (40, 12, &[]),
    ] {
        let page = page(&model(status("armed")), width, height);
        whole.iter().chain(also).for_each(|words| has(&page, words));
        has(&page, &format!(" Now {width} x {height}; more is shown at 80 x 24"));
        assert!(page[usize::from(height) - 1].ends_with("q quit"), "{}", page.join("\n"));
    }
}

#[test]
fn sentences_are_folded_in_a_narrow_window() {
    let mut model = model(Status { simulated: false, causes: vec!["cliff".into()], ..status("degraded") });
    assert!(!model.may_arm(), "the first key only asks");
    let page = page(&model, 40, 16);
    let text = page.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    for sentence in [words::mode(&model.newest), words::cause("cliff"), words::CONFIRM_ARMING.to_string()] {
        assert!(text.contains(&sentence), "no '{sentence}':\n{}", page.join("\n"));
    }
    assert!(page[0].starts_with(" DEGRADED") && page[15].ends_with("q quit"), "{}", page.join("\n"));
}

#[test]
fn a_help_that_does_not_fit_says_so() {
    let mut model = model(status("armed"));
    model.page = Page::Help;
    let narrow = page(&model, 40, 40);
    has(&narrow, "a arm: the field drives the motors (on a");
    has(&narrow, "! in the first column: a problem, or a");
    for (width, height) in [(40, 12), (80, 20)] {
        has(&page(&model, width, height), "... more in a larger window");
    }
    assert!(!page(&model, 80, 24).join("").contains("larger window"));
}

#[test]
fn slices_that_do_not_fit_are_not_a_blank_page() {
    let mut model = model(Status { slices: Some(slices()), ..status("armed") });
    model.page = Page::Slices;
    has(&page(&model, 60, 26), " 9 content, z 2");
    has(&page(&model, 40, 12), " No slice fits into this window.");
}

#[test]
fn without_colour_no_cell_has_one_and_the_text_is_the_same() {
    let latched =
        || Status { latched: Some("cliff".into()), causes: vec!["cliff".into()], ..status("latched") };
    let plain = model(latched());
    let mut colours = model(latched());
    colours.colour = true;
    let has_colour = |buffer: &Buffer| {
        buffer.content().iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    assert!(!has_colour(&buffer(&plain, 120, 40)) && has_colour(&buffer(&colours, 120, 40)));
    assert_eq!(page(&plain, 120, 40), page(&colours, 120, 40), "a colour is never the only sign");
}

#[test]
fn the_pages_colours_are_those_that_suit_any_background() {
    let known =
        |colour: &Color| *colour == Color::Reset || colours::tests::ALL.iter().any(|(one, _)| one == colour);
    let mut seen = Vec::new();
    for mode in ["armed", "degraded", "latched", "disarmed"] {
        for (width, height) in [(60, 20), (80, 24), (120, 40)] {
            let causes = vec!["cliff".into()];
            let mut model = model(Status { causes, mode: mode.into(), ..in_world(WORLD, true) });
            (model.colour, model.notice) = (true, "a message".into());
            (0..4).for_each(|step| {
                let mut next = model.newest.clone();
                next.room.as_mut().unwrap().pose[1] += f64::from(step) * 0.2;
                model.take(next);
            });
            for cell in buffer(&model, width, height).content() {
                assert!(known(&cell.fg) && cell.bg == Color::Reset, "{mode}: {:?} on {:?}", cell.fg, cell.bg);
                seen.push(cell.fg);
            }
        }
    }
    assert!(colours::tests::ALL.iter().all(|(colour, _)| seen.contains(colour)), "each is used: {seen:?}");
}

#[test]
fn every_problem_has_a_mark_whatever_the_colours() {
    let mut model = model(Status { causes: vec!["cliff".into()], ..status("degraded") });
    for colour in [true, false] {
        model.colour = colour;
        let page = page(&model, 120, 40);
        for problem in
            ["!battery", "!motors: 3 failed", "!slots skipped", "!quality 2", "!100 Hz", "! cliff: "]
        {
            has(&page, problem);
        }
        let buffer = buffer(&model, 120, 40);
        let bold = buffer.content().iter().filter(|cell| cell.symbol() == "!");
        assert!(bold.clone().count() >= 6 && bold.clone().all(|cell| cell.modifier.contains(Modifier::BOLD)));
    }
}

#[test]
fn a_frozen_page_says_so_and_keeps_its_figures() {
    let mut model = model(status("armed"));
    model.freeze();
    model.take(Status { slots_run: 2_000, latched: Some("cliff".into()), ..status("latched") });
    let page = page(&model, 120, 40);
    assert!(page[0].starts_with(" LATCHED") && page[0].contains("PAGE FROZEN"), "{}", page[0]);
    has(&page, "1000 run");
}

#[test]
fn the_help_fits_the_smallest_page() {
    for owner in [Owner::Run, Owner::Top] {
        let mut model = model(status("armed"));
        (model.page, model.owner) = (Page::Help, owner);
        let page = page(&model, 80, 24);
        words::help(owner).iter().for_each(|line| has(&page, line));
    }
}

#[test]
fn control_characters_of_others_do_not_reach_the_terminal() {
    let hostile = Status { board: "a\x1b[2Jb".into(), causes: vec!["x\x07y\n".into()], ..status("degraded") };
    let buffer = buffer(&model(hostile), 80, 24);
    assert!(buffer.content().iter().all(|cell| !cell.symbol().contains(char::is_control)));
}

/// A field of 32 cells per axis: channel 9 has its peak in one corner, channel 40 in the opposite one.
fn slices() -> SlicesMessage {
    let cell = |channel: usize, index: usize| {
        let place = [index % 32, index / 32 % 32, index / 1024];
        match channel {
            9 if place.iter().all(|at| *at < 8) => 0.75,
            40 if place.iter().all(|at| *at >= 24) => 0.5,
            50 | 63 if place[0] >= 16 => 0.0,
            _ => -0.25,
        }
    };
    SlicesMessage::of(&FieldSlices::of(32, 812, |channel, first, step, to| {
        to.iter_mut().enumerate().for_each(|(place, to)| *to = cell(channel, first + place * step));
    }))
}

#[test]
fn slices_are_shown_by_shade_as_many_as_fit() {
    let mut model = model(Status { slices: Some(slices()), ..status("armed") });
    model.page = Page::Slices;
    let small = page(&model, 80, 24);
    has(&small, " Channels that vary most, at their peaks: -0.25 empty, +0.75 full; cycle 812");
    has(&small, " 9 content, z 2");
    has(&small, "40 pattern, z 26");
    let body: Vec<Vec<char>> = small[6..22].iter().map(|line| line.chars().collect()).collect();
    let at = |slice: usize, x: usize, y: usize| body[y / 2].get(slice * 34 + 1 + x).copied().unwrap_or(' ');
    assert_eq!((at(0, 0, 0), at(0, 7, 7), at(0, 8, 0), at(0, 31, 31)), ('█', '█', ' ', ' '));
    assert_eq!((at(1, 0, 0), at(1, 23, 31), at(1, 24, 24), at(1, 31, 31)), (' ', ' ', '▓', '▓'));
    let large = page(&model, 140, 30);
    assert_eq!(large.iter().filter(|line| line.matches(", z ").count() == 4).count(), 1, "all four in a row");
    let huge = page(&model, 280, 70);
    assert!(huge[6].starts_with(&format!(" {}", "█".repeat(16))), "twice as large: {}", huge[6]);
    model.colour = true;
    let colours = buffer(&model, 80, 24);
    let cell = |x, y| (colours[(x, y)].fg, colours[(x, y)].bg);
    assert_eq!(cell(1, 6), (Color::Indexed(255), Color::Indexed(255)));
    assert_eq!(cell(12, 6), (Color::Indexed(232), Color::Indexed(232)));
}

#[test]
fn without_slices_their_page_says_why() {
    let mut model = model(status("armed"));
    model.page = Page::Slices;
    has(&page(&model, 80, 24), " No slices yet: the field has not run, or another computer computes it.");
    let damaged = SlicesMessage { data: "?".into(), ..slices() };
    model.take(Status { slices: Some(damaged), ..status("armed") });
    has(&page(&model, 80, 24), " No slices yet");
    for (width, height) in [(1, 1), (33, 10), (80, 24), (300, 100)] {
        page(&model, width, height);
    }
}
