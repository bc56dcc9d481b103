//! The entry points of the em-brain protocol: what a client sends, and the profile that defines its meaning.

use super::reported;
use ganglion::base::command::MAX_MOTORS;
use ganglion::base::plan::Board;
use ganglion::deploy::board::built_in;
use ganglion::deploy::board::profile::ProfileFile;
use ganglion::runtime::em_brain::client::{Client, ClientRequest};
use ganglion::runtime::em_brain::frame::{FRAME_MOST, Frame, FrameReader, Framing, Kind};
use ganglion::runtime::em_brain::profile::Profile;
use std::path::Path;
use std::sync::Arc;

const PICARX: &str = include_str!("../../../packaging/em-brain/picarx.toml");

thread_local! {
    static BOARD: Board = built_in("picarx-v4").unwrap().unwrap().board;
    static PROFILE: Arc<Profile> = {
        let file = ProfileFile::load(Path::new("picarx")).expect("a built-in board");
        Arc::new(BOARD.with(|board| Profile::check(&file.draft, board)).expect("and of its board"))
    };
}

pub fn streams() -> Vec<Vec<u8>> {
    let frames = [
        Frame { kind: Kind::Handshake, values: vec![1.0, 16.0, 5.0, 1.0, 1.0] },
        Frame { kind: Kind::Sensory, values: vec![0.5; 16] },
        Frame { kind: Kind::Sensory, values: vec![0.5; 17] },
    ];
    let framings = [Framing::Plain, Framing::Marked(0x524F_424F), Framing::Marked(0xDEAD_BEEF)];
    let stream = |framing| frames.iter().flat_map(move |frame| frame.encode(framing)).collect();
    framings.into_iter().map(stream).collect()
}

/// Every frame is answered by one finite frame, the field's sensor values are in -1..=1 whatever the client
/// sent, and no received frame exceeds the size limit.
pub fn take_stream(bytes: &[u8]) -> bool {
    let (mut reader, mut client) = (FrameReader::default(), Client::new(PROFILE.with(Arc::clone)));
    let mut acted = false;
    for piece in bytes.chunks(7) {
        reader.push(piece);
        loop {
            let frame = match reader.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(fault) => {
                    reported(&fault);
                    return false;
                }
            };
            let framing = reader.framing().expect("a frame was read");
            assert!(frame.encode(framing).len() <= FRAME_MOST);
            let answer = match client.take(&frame) {
                Ok(ClientRequest::Join) => client.handshake_answer(false),
                Ok(ClientRequest::Cycle(input)) => {
                    assert!(input.check(input.sensors.len()).is_ok(), "{input:?}");
                    acted = true;
                    client.action(&[1.0; MAX_MOTORS])
                }
                Err(trouble) => {
                    reported(&trouble);
                    trouble.frame()
                }
            };
            assert!(answer.values.iter().all(|value| value.is_finite()), "{answer:?}");
        }
    }
    acted
}

pub fn profiles() -> Vec<Vec<u8>> {
    vec![PICARX.as_bytes().to_vec()]
}

/// An accepted profile maps any finite sensory vector to sensor values in -1..=1, and motor commands to
/// finite actions.
pub fn take_profile(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let file = match ProfileFile::parse(text) {
        Ok(file) => file,
        Err(error) => {
            reported(&error);
            return false;
        }
    };
    match BOARD.with(|board| Profile::check(&file.draft, board)) {
        Ok(profile) => {
            for value in [0.0, 1.0, f32::MAX, f32::MIN] {
                let (sensors, reward) = profile.sense(&vec![value; profile.sensors()]).expect("finite");
                assert!(sensors.iter().chain([&reward]).all(|value| value.abs() <= 1.0), "{sensors:?}");
            }
            assert!(profile.act(&[1.0; MAX_MOTORS]).iter().all(|value| value.is_finite()));
            true
        }
        Err(error) => {
            reported(&error);
            false
        }
    }
}
