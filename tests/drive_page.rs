//! The page of a recorded run: a browser draws each of its plots and reports no error, nothing from a
//! recording becomes part of the page's code, and no file is lost.

mod browser; // headless Chromium: its errors for a page, and screenshots

use crate::cli::{WITH_HEAT, err, out, output};
use crate::folder::Folder;
use crate::skips::skip;
use browser::{Browser, DARK};
use serde_json::Value;
use std::fs;

/// A recorded run with these options.
fn recorded(folder: &Folder, options: &[&str]) -> String {
    let path = folder.path("run.mcap");
    let run = ["run", "--engine", "cpu", "--record", &path];
    let ended = output(&[&run[..], options].concat());
    assert_eq!(ended.status.code(), Some(0), "{}", err(&ended));
    path
}

/// The page of a recording, and its text.
fn page_of(folder: &Folder, recording: &str) -> (String, String) {
    let page = folder.path("page.html");
    let ended = output(&["report", recording, "-o", &page]);
    assert_eq!(ended.status.code(), Some(0), "{}", err(&ended));
    assert!(out(&ended).contains("page.html"), "{}", out(&ended));
    let text = fs::read_to_string(&page).unwrap();
    (page, text)
}

/// The data that the script of a page draws.
fn data(page: &str) -> Value {
    let begin = "id=\"data\">";
    let from = page.find(begin).expect("the data") + begin.len();
    let to = from + page[from..].find("</script>").expect("their end");
    serde_json::from_str(&page[from..to]).expect("JSON")
}

fn list<'a>(data: &'a Value, key: &str) -> &'a [Value] {
    data[key].as_array().map_or(&[], Vec::as_slice)
}

/// A run in which a sensor is silent for two seconds.
const SILENT: [&str; 8] = ["--clock", "sim", "--for", "12s", "--seed", "7", "--fault", "sonar-silent@6+2"];

#[test]
fn a_page_has_what_info_says_and_each_event() {
    let folder = Folder::new("report-content");
    let recording = recorded(&folder, &SILENT);
    let (_, page) = page_of(&folder, &recording);
    let info = output(&["log", "info", &recording, "--json"]);
    let info = out(&info);
    let object: Value = serde_json::from_str(info.lines().last().unwrap()).unwrap();
    // All sentences except those about the stops, which have a table.
    let sentences = info.lines().filter(|line| !line.starts_with('{') && !line.starts_with("After "));
    let escaped = |text: &str| text.replace('\'', "&#39;");
    for sentence in sentences {
        assert!(page.contains(&format!("<li>{}</li>", escaped(sentence))), "{sentence}");
    }
    let data = data(&page);
    assert_eq!(data["stops"], object["stops"]);
    let trips = list(&data, "marks").iter().filter(|mark| mark[1] == "trip").count() as u64;
    let counted: u64 = object["trips"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert_eq!((trips, trips > 0), (counted, true));
    let range = list(&data, "plots").iter().find(|plot| plot["title"] == "range").expect("a plot");
    let refused = list(range, "bad").iter().find(|span| span[0].as_f64() >= Some(6.0)).expect("a band");
    assert_eq!(refused[2], "timeout", "{range}");
    let slots = object["slots"].as_u64().unwrap();
    assert!(list(&data, "times").iter().any(|times| times["percentiles"]["n"] == slots));
    let slices = list(&data, "slices");
    let seconds: Vec<f64> = slices.iter().filter_map(|set| set[0].as_f64()).collect();
    assert!((20..=25).contains(&seconds.len()) && seconds.is_sorted(), "two sets a second: {seconds:?}");
    assert!(seconds[0] < 1.0 && seconds[seconds.len() - 1] > 11.0, "{seconds:?}");
    assert!(page.contains("period_ms = 10.0"), "the board's effective values");
    assert!(!page.contains("http-equiv=\"refresh\"") && !page.contains(" src="), "it loads nothing");
}

#[test]
fn slices_of_a_long_run_are_thinned_evenly() {
    let folder = Folder::new("report-thinned");
    let recording = recorded(&folder, &["--clock", "sim", "--for", "75s", "--seed", "7"]);
    let (_, page) = page_of(&folder, &recording);
    let data = data(&page);
    let seconds: Vec<f64> = list(&data, "slices").iter().filter_map(|set| set[0].as_f64()).collect();
    assert!((60..=120).contains(&seconds.len()), "{} of some 150 sets", seconds.len());
    assert!(seconds[0] < 1.0 && seconds[seconds.len() - 1] > 73.0, "they span the whole run: {seconds:?}");
    let steps = seconds.windows(2).map(|pair| pair[1] - pair[0]);
    let (least, most) =
        steps.fold((f64::MAX, 0.0), |(least, most): (f64, f64), step| (least.min(step), most.max(step)));
    assert!(least > 0.9 * most, "from {least} to {most} s apart");
}

#[test]
fn temperatures_of_a_recorded_status_are_on_the_page() {
    let folder = Folder::new("report-heat");
    let board = folder.path("board.toml");
    fs::write(&board, WITH_HEAT).unwrap();
    // In real time, so that there is a status.
    let (_, page) = page_of(&folder, &recorded(&folder, &["--for", "4s", "--seed", "7", "--board", &board]));
    let fact = "<dt>temperatures</dt><dd>die ";
    let from = page.find(fact).expect("the temperatures of the last status") + fact.len();
    let (value, rest) = page[from..].split_once(' ').expect("a unit");
    assert!(
        (value.parse::<f64>().expect("degrees") - 31.0).abs() < 1.0 && rest.starts_with("degC<"),
        "{value}"
    );
    let data = data(&page);
    let curve = list(&data, "plots").iter().find(|plot| plot["title"] == "temperatures").expect("a plot");
    assert_eq!((&curve["series"][0]["name"], &curve["unit"]), (&"die".into(), &"deg C".into()));
}

#[test]
fn goals_are_on_the_map_with_what_became_of_them() {
    let folder = Folder::new("report-goals");
    let world = folder.path("world.toml");
    let room = "size = [6.0, 4.0]\nstart = [1.0, 2.0]\nwalls = [[3.0, 0.0, 3.0, 4.0]]\n";
    fs::write(&world, room).unwrap();
    let run = ["--board", "barn", "--clock", "sim", "--for", "45s", "--world", &world];
    // The first place is free, the second one behind a wall.
    let recording = recorded(&folder, &[&run[..], &["--goal", "0.8,0;3.5,0"]].concat());
    let (path, page) = page_of(&folder, &recording);
    let data = data(&page);
    let [reached, given_up] = list(&data, "goals") else { panic!("two goals: {}", data["goals"]) };
    assert_eq!((&reached["state"], &reached["why"]), (&"arrived".into(), &Value::Null), "{reached}");
    assert_eq!(given_up["state"], "given-up", "{given_up}");
    let why = given_up["why"].as_str().expect("a reason");
    assert!(page.contains(&format!("<td>given up: {why}</td>")), "{why}");
    for (goal, place) in [(reached, [0.8, 0.0]), (given_up, [3.5, 0.0])] {
        let off = |axis: usize| (goal["at"][axis].as_f64().expect("metres") - place[axis]).abs();
        assert!(off(0) < 0.1 && off(1) < 0.1, "the run began where the recording begins: {goal}");
    }
    assert!(reached["to_s"].as_f64() <= given_up["from_s"].as_f64(), "one after the other: {data}");
    let Some(browser) = Browser::find() else { return skip("no Chromium") };
    let shown = browser.shown(&path);
    assert_eq!((shown.errors, shown.document.contains("each ring a goal")), (Vec::new(), true));
    browser.keep_picture(&path, "report-goals.png", &[]);
}

#[test]
fn a_browser_draws_every_plot_without_an_error() {
    let Some(browser) = Browser::find() else { return skip("no Chromium") };
    let folder = Folder::new("report-drawn");
    // In real time, so that there is a status.
    let (page, text) = page_of(&folder, &recorded(&folder, &["--for", "4s", "--seed", "7"]));
    let shown = browser.shown(&page);
    assert_eq!(shown.errors, [""; 0], "unchanged, with its content security policy");
    let millis = |name: &str| shown.attribute(name).and_then(|millis| millis.parse::<u64>().ok());
    let (first, drawn) = (millis("data-first-plot-ms"), millis("data-drawn"));
    assert!(
        first.is_some() && first <= drawn,
        "the first plot does not wait for the last: {first:?}, {drawn:?}"
    );
    assert!(first < Some(SLOWEST_MS), "the first plot after {first:?} ms, all of them after {drawn:?} ms");
    let data = data(&text);
    let filled = list(&data, "plots").iter().filter(|plot| !list(plot, "series").is_empty()).count();
    assert!(filled > 10 && list(&data, "times").len() == 5 && data["path"].is_array());
    let expected = 1 + filled + 5 + 1 + 1; // timeline, plots, histograms, path, slices
    // A copy without the policy, so that a script of the test can run in it: the script counts, then zooms
    // with the mouse and a button.
    let probed = folder.path("probed.html");
    let policy = text.find("<meta http-equiv").unwrap();
    let policy = &text[policy..policy + text[policy..].find('\n').unwrap()];
    let copy = text.replace(policy, "").replace("</body>", &format!("<script>{PROBE}</script></body>"));
    fs::write(&probed, copy).unwrap();
    let shown = browser.shown(&probed);
    assert_eq!(shown.errors, [""; 0]);
    let found = shown.attribute("data-probe").expect("the probe ran");
    assert_eq!(found, format!("{expected} drawn, 0 empty; whole, slices follow, zoomed, nearer, whole"));
    for (name, options) in [("report-light.png", &[][..]), ("report-dark.png", &DARK)] {
        let picture = fs::read(browser.keep_picture(&page, name, options)).expect("a picture");
        assert!(picture.starts_with(b"\x89PNG"), "{name}");
    }
}

/// Within this time a page shows its first plot even on a busy machine, milliseconds. On two cores of a
/// virtual machine that takes 300 ms, so only a page with far more work fails.
const SLOWEST_MS: u64 = 20_000;

/// Counts the canvases on which something has a colour (text, axes and grids are grey), and checks whether
/// the curves follow mouse and buttons.
const PROBE: &str = r#"
const coloured = canvas => {
  const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  for (let at = 0; at < data.length; at += 4) {
    const three = [data[at], data[at + 1], data[at + 2]];
    if (data[at + 3] > 100 && Math.max(...three) - Math.min(...three) > 60) return true;
  }
  return false;
};
const range = () => document.getElementById('range').textContent.match(/[0-9.]+/g).map(Number);
const wait = async ready => { while (!ready()) await new Promise(on => setTimeout(on, 20)); };
(async () => {
  await wait(() => document.documentElement.dataset.drawn);
  const all = [...document.querySelectorAll('canvas')], drawn = all.filter(coloured).length;
  const steps = [], whole = range();
  steps.push(whole[0] === 0 && whole[1] > 3.9 ? 'whole' : 'part');
  const over = document.querySelector('#sensors .u-over'), box = over.getBoundingClientRect();
  const mouse = (kind, share, on) => on.dispatchEvent(new MouseEvent(kind, {
    bubbles: true, view: window, button: 0, movementX: 9, clientX: box.left + share * box.width, clientY: box.top + 50}));
  const sliced = () => Number(document.getElementById('sliced').textContent.match(/After ([0-9.]+)/)[1]);
  mouse('mousemove', .75, over);
  await wait(() => Math.abs(sliced() - .75 * whole[1]) < whole[1] / 8);
  steps.push('slices follow');
  mouse('mousemove', .25, over); mouse('mousedown', .25, over); mouse('mousemove', .5, over);
  mouse('mousemove', .75, over); mouse('mouseup', .75, document);
  await wait(() => range()[0] > 0);
  const part = range(), length = part[1] - part[0], expected = whole[1] / 2;
  steps.push(Math.abs(length - expected) < expected / 10 ? 'zoomed' : `zoomed to ${part}`);
  document.getElementById('in').click();
  const [from, to] = range();
  steps.push(Math.abs(to - from - length / 2) < .05 ? 'nearer' : `nearer to ${from} ${to}`);
  document.getElementById('all').click();
  steps.push(range()[1] === whole[1] ? 'whole' : 'part');
  document.body.dataset.probe = `${drawn} drawn, ${all.length - drawn} empty; ${steps.join(', ')}`;
})();
"#;

#[test]
fn text_from_a_recording_never_becomes_a_script() {
    let folder = Folder::new("report-hostile");
    let board = folder.path("<img src=x onerror=alert(1)>.toml");
    let unit = "</script><script>document.title='owned'</script><!--<script>";
    let text = format!("inherits = \"sim\"\n[[sensor]]\nname = \"range\"\nunit = \"{unit}\"\n");
    fs::write(&board, text).unwrap();
    let recording = recorded(&folder, &["--clock", "sim", "--for", "2s", "--board", &board]);
    let (page, text) = page_of(&folder, &recording);
    assert_eq!(text.matches("</script").count(), 3, "the data and the two scripts");
    assert_eq!(text.matches("<script").count(), 3);
    assert_eq!(text.matches("<img").count(), 0);
    assert!(text.contains("&lt;img src=x onerror=alert(1)&gt;"), "the name is shown");
    assert_eq!(list(&data(&text), "plots")[1]["unit"], unit, "the unit is shown");
    let Some(browser) = Browser::find() else { return skip("no Chromium") };
    let shown = browser.shown(&page);
    assert_eq!(shown.errors, [""; 0]);
    assert!(shown.document.contains("data-drawn=") && !shown.document.contains("<title>owned"));
    assert!(!shown.document.contains("<img"), "neither the browser nor the script created an image element");
}

#[test]
fn only_a_report_is_written_over() {
    let folder = Folder::new("report-files");
    let recording = recorded(&folder, &["--clock", "sim", "--for", "12s"]);
    let before = fs::read(&recording).unwrap();
    let refused = |from: &str, to: &str, code: i32, part: &str| {
        let ended = output(&["report", from, "-o", to]);
        assert_eq!(ended.status.code(), Some(code), "{from}: {}", err(&ended));
        assert!(err(&ended).contains(part), "{}", err(&ended));
    };
    refused(&recording, &recording, 64, "not a report");
    let link = folder.path("link.html");
    std::os::unix::fs::symlink(&recording, &link).unwrap();
    refused(&recording, &link, 64, "not a report");
    assert_eq!(fs::read(&recording).unwrap(), before);
    refused(&recording, &folder.write("empty.html", ""), 64, "not a report");
    refused(&recording, &folder.path("."), 64, "this is a folder");
    let page = folder.path("page.html");
    refused(&folder.path("none.mcap"), &page, 69, "none.mcap");
    let other = folder.path("other.mcap");
    fs::write(&other, "time,range\n1,2\n").unwrap();
    refused(&other, &page, 65, "not an MCAP file");
    refused(&recording, &folder.path("no/such/folder.html"), 69, "folder.html");
    assert!(!std::path::Path::new(&page).exists(), "a failure leaves no page");
    // A page is replaced by a newer one, even if the newer one shows a truncated recording.
    let (page, whole) = page_of(&folder, &recording);
    fs::write(&recording, &before[..before.len() / 2]).unwrap();
    let (_, cut) = page_of(&folder, &recording);
    assert!(whole.contains("The file is complete.") && cut.contains("The file was truncated"), "{page}");
}
