//! Viewers that follow the specification, on real sockets.

use super::*;
use crate::decision::fixture::at;
use crate::drive::record::Topic;
use crate::workshop::live::channels::tests::status;
use serde_json::{Value, json};
use std::time::{Duration, Instant as Moment};
use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;
use tungstenite::stream::MaybeTlsStream;
use tungstenite::{Error, Message, WebSocket, connect};

/// Longer than anything here takes, even on a busy machine.
const SOON: Duration = Duration::from_secs(60);

type Client = WebSocket<MaybeTlsStream<TcpStream>>;

fn server() -> Server {
    Server::listen(SocketAddr::from(([127, 0, 0, 1], 0)), &status(""), "1").expect("the server listens")
}

/// Connects a viewer that asks for `protocols`, while `server` accepts.
fn viewer(server: &mut Server, protocols: &str) -> Result<Client, Error> {
    let mut request = format!("ws://{}", server.address().unwrap()).into_client_request().unwrap();
    let protocols = HeaderValue::from_str(protocols).unwrap();
    request.headers_mut().insert("Sec-WebSocket-Protocol", protocols);
    let connecting = thread::spawn(move || connect(request).map(|(client, _)| client));
    while !connecting.is_finished() {
        server.accept().expect("the server accepts");
        thread::sleep(Duration::from_millis(1));
    }
    let client = connecting.join().expect("no panic")?;
    if let MaybeTlsStream::Plain(stream) = client.get_ref() {
        stream.set_read_timeout(Some(SOON))?; // a missing message fails the test
    }
    Ok(client)
}

fn text(client: &mut Client) -> Value {
    match client.read().expect("a message") {
        Message::Text(text) => serde_json::from_str(text.as_str()).expect("JSON"),
        other => panic!("{other:?}"),
    }
}

fn send(client: &mut Client, request: &Value) {
    client.send(Message::text(request.to_string())).expect("the request is sent");
}

/// Asks twice for something that is refused, and waits for the answers. By then the server has handled all
/// earlier requests and passed on all earlier updates, because it checks for updates between two requests.
fn settle(client: &mut Client) {
    for _ in 0..2 {
        send(client, &json!({"op": "getParameters", "parameterNames": []}));
        assert_eq!(text(client)["level"], 1);
    }
}

fn is_soon(mut becomes_true: impl FnMut() -> bool) -> bool {
    let until = Moment::now() + SOON;
    while !becomes_true() {
        if Moment::now() > until {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

#[test]
fn a_viewer_gets_what_it_subscribes_to_and_nothing_else() {
    let mut server = server();
    let mut client = viewer(&mut server, "foxglove.websocket.v1").expect("a viewer");
    let info = text(&mut client);
    assert_eq!((&info["op"], &info["capabilities"]), (&json!("serverInfo"), &json!([])));
    let channels = text(&mut client);
    let number = |topic: &str| {
        let channels = channels["channels"].as_array().expect("channels");
        channels.iter().find(|channel| channel["topic"] == topic).expect("the channel")["id"].clone()
    };
    server.show(&status("before it subscribes"), at(1));
    settle(&mut client);
    let subscription = json!({"id": 77, "channelId": number("/command")});
    send(&mut client, &json!({"op": "subscribe", "subscriptions": [subscription]}));
    settle(&mut client);
    server.show(&status(""), at(5));
    let Message::Binary(bytes) = client.read().expect("a message") else { panic!("not data") };
    assert_eq!((bytes[0], &bytes[1..5]), (1, &77_u32.to_le_bytes()[..]));
    assert_eq!(bytes[5..13], at(5).as_nanos().to_le_bytes());
    let message: Value = serde_json::from_slice(&bytes[13..]).expect("JSON");
    assert_eq!(message["motor"], json!({"left": -0.25}));
    send(&mut client, &json!({"op": "unsubscribe", "subscriptionIds": [77]}));
    settle(&mut client);
    server.show(&status(""), at(6));
    settle(&mut client);
    assert_eq!(server.counts().messages.load(Ordering::Relaxed), 1);
}

#[test]
fn bad_requests_are_answered_and_change_nothing() {
    let mut server = server();
    let mut client = viewer(&mut server, "foxglove.sdk.v1, foxglove.websocket.v1").expect("a viewer");
    let (_, _) = (text(&mut client), text(&mut client));
    for bad in ["", "{", "[]", "{\"op\": \"subscribe\"}", "{\"op\": \"subscribe\", \"subscriptions\": [7]}"] {
        client.send(Message::text(bad)).expect("the request is sent");
        assert_eq!(text(&mut client)["level"], 2, "{bad}");
    }
    send(&mut client, &json!({"op": "subscribe", "subscriptions": [{"id": 1, "channelId": 99}]}));
    assert_eq!(text(&mut client)["message"], "there is no channel 99");
    let many: Vec<Value> = (0..300).map(|id| json!({"id": id, "channelId": 0})).collect();
    send(&mut client, &json!({"op": "subscribe", "subscriptions": many}));
    assert_eq!(text(&mut client)["message"], "at most 256 subscriptions");
    // A request that is too long ends the connection, and the server goes on.
    let _ = client.send(Message::text("x".repeat(100_000)));
    assert!(is_soon(|| !server.accept().expect("the server accepts")));
    viewer(&mut server, "foxglove.sdk.v1").expect("another viewer");
}

#[test]
fn programs_that_speak_something_else_are_refused() {
    let mut server = server();
    let refused = viewer(&mut server, "chat");
    let Err(Error::Http(response)) = refused else { panic!("{refused:?}") };
    assert_eq!(response.status(), 400);
    assert!(is_soon(|| server.counts().refused.load(Ordering::Relaxed) == 1));
    assert_eq!(server.counts().viewers.load(Ordering::Relaxed), 0);
}

#[test]
fn a_slow_viewer_loses_news_and_another_one_none() {
    let mut server = server();
    let mut clients: Vec<Client> =
        (0..2).map(|_| viewer(&mut server, "foxglove.sdk.v1").expect("a viewer")).collect();
    for client in &mut clients {
        let (_, _) = (text(client), text(client));
        let status = Topic::ALL.iter().position(|topic| *topic == Topic::Status);
        send(client, &json!({"op": "subscribe", "subscriptions": [{"id": 1, "channelId": status}]}));
        settle(client);
    }
    let (mut fast, _slow) = (clients.remove(0), clients.remove(0));
    let big = status(&"x".repeat(1 << 20));
    let until = Moment::now() + SOON;
    while server.counts().dropped.load(Ordering::Relaxed) == 0 {
        assert!(Moment::now() < until, "the slow viewer never lost an update");
        server.show(&big, at(1));
        assert!(matches!(fast.read(), Ok(Message::Binary(_))), "the fast viewer gets every update");
    }
    // Eventually the slow viewer is disconnected.
    assert!(is_soon(|| {
        server.show(&status(""), at(1));
        fast.read().expect("the fast viewer still gets every update");
        server.viewers.len() == 1
    }));
}

#[test]
fn the_path_begins_anew_after_a_time_without_viewers() {
    let mut server = server();
    let watch = |server: &mut Server| {
        let mut client = viewer(server, "foxglove.sdk.v1").expect("a viewer");
        let (_, channels) = (text(&mut client), text(&mut client));
        let channels = channels["channels"].as_array().expect("channels");
        let path = channels.iter().find(|channel| channel["topic"] == "/path").expect("the channel");
        send(&mut client, &json!({"op": "subscribe", "subscriptions": [{"id": 1, "channelId": path["id"]}]}));
        settle(&mut client);
        client
    };
    let start = |server: &mut Server, client: &mut Client, x: f64, ms: u64| {
        let mut status = status("");
        status.measured.goal.as_mut().expect("a navigator").at = [x, 0.0];
        server.show(&status, at(ms));
        let Message::Binary(bytes) = client.read().expect("a message") else { panic!("not data") };
        let message: Value = serde_json::from_slice(&bytes[13..]).expect("JSON");
        message["entities"][0]["lines"][0]["points"][0]["x"].as_f64().expect("a point")
    };
    let mut first = watch(&mut server);
    assert_eq!(start(&mut server, &mut first, 0.0, 1), 0.0);
    let mut later = watch(&mut server);
    assert_eq!(start(&mut server, &mut later, 1.0, 6_000), 0.0, "a later viewer gets all of it");
    drop((first, later));
    assert!(is_soon(|| !server.accept().expect("the server accepts")));
    let mut again = watch(&mut server);
    assert_eq!(start(&mut server, &mut again, 3.0, 7_000), 3.0, "where it was meanwhile is unknown");
}

#[test]
fn viewers_beyond_the_most_are_refused() {
    let mut server = server();
    let clients: Vec<Client> =
        (0..MOST_VIEWERS).map(|_| viewer(&mut server, "foxglove.sdk.v1").expect("a viewer")).collect();
    assert!(viewer(&mut server, "foxglove.sdk.v1").is_err());
    assert_eq!(server.counts().refused.load(Ordering::Relaxed), 1);
    drop(clients);
    assert!(is_soon(|| !server.accept().expect("the server accepts")));
    viewer(&mut server, "foxglove.sdk.v1").expect("there is room again");
}

#[test]
fn viewers_are_told_that_the_robot_is_silent_once() {
    let mut server = server();
    let mut client = viewer(&mut server, "foxglove.sdk.v1").expect("a viewer");
    let (_, _) = (text(&mut client), text(&mut client));
    server.show_silence("connection refused");
    server.show_silence("connection refused");
    server.show(&status(""), at(1));
    assert_eq!(text(&mut client)["message"], "the robot does not answer: connection refused");
    assert_eq!(text(&mut client)["op"], "removeStatus");
}

/// Shows `first`, then `second`. Returns the server information and the channels that a viewer gets before
/// and after it has to reconnect.
fn connected_again(first: &Status, second: &Status) -> [Value; 4] {
    let mut server = server();
    server.show(first, at(1));
    let mut client = viewer(&mut server, "foxglove.sdk.v1").expect("a viewer");
    let (info, channels) = (text(&mut client), text(&mut client));
    server.show(first, at(2));
    settle(&mut client);
    server.show(second, at(3));
    assert!(matches!(client.read(), Ok(Message::Close(_))));
    let mut again = viewer(&mut server, "foxglove.sdk.v1").expect("a viewer");
    [info, channels, text(&mut again), text(&mut again)]
}

#[test]
fn another_robot_makes_viewers_connect_again() {
    let mut other = status("");
    other.measured.motors[0].name = "right".into();
    let [_, before, _, after] = connected_again(&status(""), &other);
    assert_ne!(before["channels"][1], after["channels"][1]);
}

#[test]
fn a_restarted_robot_is_a_new_session_for_viewers() {
    let ran = |slots_run| Status { slots_run, ..status("") };
    let [info, before, new_info, after] = connected_again(&ran(100), &ran(3));
    assert_ne!(info["sessionId"], new_info["sessionId"]);
    assert_eq!((&info["name"], before), (&new_info["name"], after));
}
