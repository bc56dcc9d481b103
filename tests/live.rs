//! `ganglion live`: a viewer sees a running robot, and is told when the robot ends.

use crate::cli::{self, Running, output};
use crate::folder::Folder;
use ganglion::drive::record::{Facts, Topic};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs::File;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};
use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;
use tungstenite::stream::MaybeTlsStream;
use tungstenite::{Message, WebSocket, connect};

/// Longer than a simulated robot takes to answer, however busy the machine is.
const SOON: Duration = Duration::from_secs(120);

type Viewer = WebSocket<MaybeTlsStream<TcpStream>>;

/// Waits until `look` finds something.
fn once<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + SOON;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "{what}: not within {} s", SOON.as_secs());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts `live` at this address, on any free port and with its output in `printed`; returns where viewers
/// find it.
fn listening(socket: &str, ip: &str, printed: &Path) -> (Running, String) {
    let listen = format!("{ip}:0");
    let arguments = ["live", "--socket", socket, "--listen", &listen, "--json"];
    let file = File::create(printed).expect("a file");
    let live = cli::watching_with(&arguments, |command| _ = command.stdout(file));
    let address = once("the address", || {
        let text = std::fs::read_to_string(printed).expect("text");
        let (_, rest) = text.split_once("ws://")?;
        rest.split_once(';').map(|(address, _)| format!("ws://{address}"))
    });
    (live, address)
}

/// Starts `live` for viewers on this machine, and connects one.
fn watch(socket: &str, printed: &Path) -> (Running, Viewer) {
    let (live, address) = listening(socket, "127.0.0.1", printed);
    let mut request = address.into_client_request().expect("an address");
    let protocol = HeaderValue::from_static("foxglove.websocket.v1");
    request.headers_mut().insert("Sec-WebSocket-Protocol", protocol);
    let (client, _) = connect(request).expect("a viewer");
    (live, client)
}

fn text(client: &mut Viewer) -> Value {
    loop {
        if let Message::Text(text) = client.read().expect("a message") {
            return serde_json::from_str(text.as_str()).expect("JSON");
        }
    }
}

#[test]
fn a_viewer_sees_a_running_robot_and_hears_of_its_end() {
    let folder = Folder::new("live");
    let socket = folder.path("control");
    let robot = cli::watching(&["run", "--control", &socket, "--for", "600s", "--json"]);
    once("it answers", || output(&["status", "--socket", &socket]).status.success().then_some(()));
    let printed = folder.join("printed");
    let (live, mut client) = watch(&socket, &printed);
    assert_eq!(text(&mut client)["op"], "serverInfo");
    let channels = text(&mut client);
    let channel = |topic: &str| {
        let mut channels = channels["channels"].as_array().expect("channels").iter();
        channels.find(|channel| channel["topic"] == topic).expect("the channel")
    };
    let mut next = |id: u32, topic: &str, is_it: &dyn Fn(&Value) -> bool| {
        let subscriptions = json!([{"id": id, "channelId": channel(topic)["id"]}]);
        let subscribe = json!({"op": "subscribe", "subscriptions": subscriptions});
        client.send(Message::text(subscribe.to_string())).expect("a subscription is sent");
        loop {
            let Message::Binary(bytes) = client.read().expect("a message") else { continue };
            let message: Value = serde_json::from_slice(&bytes[13..]).expect("JSON");
            if bytes[1..5] == id.to_le_bytes() && is_it(&message) {
                return message;
            }
        }
    };
    let frame = next(5, "/frame", &|frame| frame["health"]["range"] == "good");
    assert!(frame["value"]["range"].as_f64().is_some_and(|range| range > 0.0), "{frame}");
    assert_eq!(channel("/scene")["schemaName"], "foxglove.SceneUpdate");
    let scene = next(6, "/scene", &|_| true);
    let drawn = scene["entities"].as_array().expect("entities").iter().map(|entity| &entity["id"]);
    let drawn: Vec<_> = drawn.filter(|id| *id != "ranges").collect();
    assert_eq!(drawn, ["robot", "newest-path", "room"], "no goal yet");
    let path = next(8, "/path", &|_| true);
    assert_eq!(path["entities"][0]["id"], "path", "all of it, for a viewer that came late");

    let late = next(9, "/lateness", &|late| !late["wire_us"].is_null());
    assert!(late["release_us"].as_f64().is_some_and(|us| us > 0.0) && late["slots_lost"].is_u64(), "{late}");
    let process = next(10, "/process", &|_| true);
    let (memory, files) = (process["resident_kib"].as_u64(), process["open_files"].as_u64());
    assert!(memory > Some(0) && files > Some(0) && process["slots_unrecorded"].is_null(), "{process}");

    assert_eq!(channel("/slices")["schemaName"], "foxglove.RawImage");
    let slices = next(7, "/slices", &|slices| slices["cycle"].as_u64() > Some(0));
    let pixels =
        slices["width"].as_u64().zip(slices["height"].as_u64()).map(|(width, height)| width * height);
    let digits = slices["data"].as_str().expect("base64").trim_end_matches('=').len() as u64;
    assert_eq!(Some(digits), pixels.map(|pixels| (4 * pixels).div_ceil(3)), "a byte per pixel");

    let MaybeTlsStream::Plain(stream) = client.get_ref() else { panic!("no TLS here") };
    let taken = stream.peer_addr().expect("an address").to_string();
    let second = output(&["live", "--socket", &socket, "--listen", &taken]);
    assert_eq!(second.status.code(), Some(69), "the port is in use: {second:?}");
    let (open, _) = listening(&socket, "0.0.0.0", &folder.join("open"));
    open.send(&[Signal::INT]);
    let warned = open.finish();
    assert!(cli::err(&warned).contains("any machine that can reach 0.0.0.0:"), "{warned:?}");
    assert_eq!(output(&["stop", "--socket", &socket]).status.code(), Some(0));
    drop(robot);
    let told = text(&mut client);
    assert_eq!((&told["op"], &told["level"]), (&json!("status"), &json!(2)), "{told}");
    live.send(&[Signal::INT]);
    let ended = live.finish();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let text = std::fs::read_to_string(&printed).expect("text");
    let report: Value = serde_json::from_str(text.lines().last().expect("a line")).expect("JSON");
    assert!(!cli::err(&ended).contains("any machine"), "{ended:?}");
    assert_eq!((&report["viewers"], &report["refused"]), (&json!(1), &json!(0)), "{report}");
    assert!(report["messages"].as_u64() > Some(0), "{report}");
}

#[test]
fn the_viewers_layout_names_only_what_there_is() {
    let text = std::fs::read_to_string("docs/foxglove-layout.json").expect("the layout");
    let layout: Value = serde_json::from_str(&text).expect("JSON");
    let panels = layout["configById"].as_object().expect("panels");
    let mut placed = Vec::new();
    list_panels(&layout["layout"], &mut placed);
    placed.sort_unstable();
    assert_eq!(placed, panels.keys().map(String::as_str).collect::<Vec<_>>(), "each panel has one place");
    let facts = Facts::default();
    let known = |path: &str| {
        let (topic, key) = path[1..].split_once('.').unwrap_or((&path[1..], ""));
        let topic = Topic::ALL.into_iter().find(|known| known.name()[1..] == *topic).expect(path);
        assert!(key.is_empty() || topic.schema(&facts)["properties"].get(key).is_some(), "{path}");
    };
    let mut paths = 0;
    for (name, panel) in panels {
        assert_eq!(panel["foxglovePanelTitle"], panel["lichtblickPanelTitle"], "{name}");
        let title = panel["lichtblickPanelTitle"].as_str().expect("a title");
        let drawn = panel["paths"].as_array().into_iter().flatten();
        let named: Vec<&str> = drawn.chain([panel]).flat_map(names_in).collect();
        for name in named {
            let unit = unit_of(name).unwrap_or_else(|| panic!("what is the unit of {name}?"));
            assert!(title.ends_with(unit), "'{title}' does not name the unit of {name}, {unit}");
        }
        let values = panel["paths"].as_array().into_iter().flatten().map(|path| &path["value"]);
        let image = panel.get("imageMode").map(|image| &image["imageTopic"]);
        for path in values.chain(panel.get("topicPath")).chain(image) {
            known(path.as_str().expect("text"));
            paths += 1;
        }
        panel["topics"].as_object().into_iter().flatten().for_each(|(topic, _)| known(topic));
    }
    assert!(paths > 5, "{paths}");
}

/// The topics and keys that a panel, or a path of one, shows.
fn names_in(part: &Value) -> Vec<&str> {
    let one = [&part["value"], &part["topicPath"], &part["imageMode"]["imageTopic"]];
    let one = one.into_iter().filter_map(Value::as_str);
    one.chain(part["topics"].as_object().into_iter().flat_map(|topics| topics.keys()).map(String::as_str))
        .collect()
}

/// The unit of what a panel shows, as its title says it; empty: a text, or a level. Viewers show no unit of
/// their own.
fn unit_of(name: &str) -> Option<&'static str> {
    match name {
        "/scene" | "/path" => Some(", m"),
        "/frame.value" => Some(", in the units of the board file"),
        "/command" => Some(", -1 to 1"),
        "/field.confidence" | "/field.novelty" => Some(", 0 to 1"),
        "/mode.mode" | "/quality.level" | "/field.goal_state" | "/reflex" | "/slices" => Some(""),
        other if other.ends_with("_us") => Some(", us"),
        _ => None,
    }
}

/// Lists the panels of a layout. A layout is a panel, or is split into two layouts.
fn list_panels<'a>(layout: &'a Value, into: &mut Vec<&'a str>) {
    match layout {
        Value::String(panel) => into.push(panel),
        Value::Object(split) => ["first", "second"].iter().for_each(|part| list_panels(&split[*part], into)),
        other => panic!("{other}"),
    }
}
