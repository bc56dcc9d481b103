//! Profiles of em-brain clients as TOML: which values their vectors contain, and what each corresponds to on
//! a board.

use crate::base::time::Span;
use crate::runtime::em_brain::profile::{Draft, DraftMotor, DraftSensor};
use crate::system::bounded_read::BoundedFile;
use crate::system::sanitize::compared;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Longest file, bytes: room for hundreds of entries with comments.
const LONGEST: u64 = 256 << 10;

/// Name and text of every built-in profile.
const BUILT_IN: [(&str, &str); 1] = [("picarx", include_str!("../../../packaging/em-brain/picarx.toml"))];

/// A profile as written in its file.
#[derive(Debug, PartialEq)]
pub struct ProfileFile {
    /// The board that the values belong to: a file, relative to the profile's folder, or a built-in one.
    pub board: PathBuf,
    /// The rest.
    pub draft: Draft,
}

/// Why a file is not a profile.
#[derive(Debug)]
pub enum ProfileFileError {
    /// The file cannot be read.
    Io(std::io::Error),
    /// The file is not TOML, or its keys or types are not a profile's; the message names the line.
    Content(String),
}

impl fmt::Display for ProfileFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProfileFileError::Io(error) => error.fmt(f),
            ProfileFileError::Content(words) => f.write_str(words),
        }
    }
}

impl std::error::Error for ProfileFileError {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    board: PathBuf,
    #[serde(default = "twenty_hertz")]
    period_ms: f64,
    #[serde(default)]
    sensor: Vec<WrittenSensor>,
    #[serde(default)]
    motor: Vec<WrittenMotor>,
    #[serde(default)]
    fixed: BTreeMap<String, f32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenSensor {
    name: String,
    unit: String,
    channel: Option<String>,
    factor: Option<f32>,
    #[serde(default)]
    offset: f32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenMotor {
    name: String,
    unit: String,
    #[serde(default)]
    of: BTreeMap<String, f32>,
}

/// Default of `period_ms`: the rate of the earlier service's robots.
fn twenty_hertz() -> f64 {
    50.0
}

impl ProfileFile {
    /// The profile at `path`, or the built-in one of that name.
    pub fn load(path: &Path) -> Result<ProfileFile, ProfileFileError> {
        match BUILT_IN.iter().find(|(name, _)| Path::new(name) == path) {
            Some((_, text)) => ProfileFile::parse(text),
            None => ProfileFile::read(path),
        }
    }

    fn read(path: &Path) -> Result<ProfileFile, ProfileFileError> {
        let mut bytes = Vec::new();
        let file = BoundedFile::open(path, LONGEST).map_err(ProfileFileError::Io)?;
        file.read_to_end(&mut bytes).map_err(ProfileFileError::Io)?;
        let text = String::from_utf8(bytes).map_err(|_| ProfileFileError::Content("not UTF-8".into()))?;
        let mut profile = ProfileFile::parse(&text)?;
        if super::names_a_file(&profile.board)
            && let Some(folder) = path.parent()
        {
            profile.board = folder.join(&profile.board);
        }
        Ok(profile)
    }

    /// A profile from its text.
    pub fn parse(text: &str) -> Result<ProfileFile, ProfileFileError> {
        let written: Written = toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = 1 + before.matches('\n').count();
            ProfileFileError::Content(format!("line {line}: {}", compared(error.message())))
        })?;
        let period = written.period_ms / 1e3;
        let period =
            if period.is_finite() && period > 0.0 { Span::from_secs_f64(period) } else { Span::ZERO };
        let sensor = |WrittenSensor { name, unit, channel, factor, offset }| DraftSensor {
            name,
            unit,
            channel,
            factor,
            offset,
        };
        let motor = |WrittenMotor { name, unit, of }| DraftMotor { name, unit, of: of.into_iter().collect() };
        let draft = Draft {
            period,
            sensors: written.sensor.into_iter().map(sensor).collect(),
            motors: written.motor.into_iter().map(motor).collect(),
            fixed: written.fixed.into_iter().collect(),
        };
        Ok(ProfileFile { board: written.board, draft })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::command::MAX_MOTORS;
    use crate::deploy::board::built_in;
    use crate::runtime::em_brain::profile::{BadVector, Profile, ProfileError};

    const PICARX: &str = BUILT_IN[0].1;

    fn checked(text: &str) -> Result<Profile, ProfileError> {
        let file = ProfileFile::parse(text).unwrap_or_else(|error| panic!("{error}"));
        let board = built_in(&file.board.display().to_string()).unwrap().unwrap().board;
        Profile::check(&file.draft, &board)
    }

    #[test]
    fn the_shipped_profile_maps_sixteen_sensors_to_five_motors() {
        let profile = checked(PICARX).unwrap();
        assert_eq!((profile.sensors(), profile.motors()), (16, 5));
        let mut vector = [0.0; 16];
        (vector[0], vector[9]) = (4.0, 7.2);
        let (sensors, reward) = profile.sense(&vector).unwrap();
        let at = |name: &str| {
            let board = built_in("picarx-v4").unwrap().unwrap().board;
            let inputs = board.sensors.iter().filter(|sensor| sensor.input.is_some());
            sensors[inputs.map(|sensor| sensor.name.as_str()).position(|known| known == name).unwrap()]
        };
        assert_eq!((at("range"), at("ground-left"), reward), (1.0, -1.0, 0.0));
        assert!(at("battery").abs() < 1e-5, "7.2 V is in the middle: {}", at("battery"));
        let mut motors = [0.0; MAX_MOTORS];
        motors[..3].copy_from_slice(&[0.5, 0.25, -1.0]);
        assert_eq!(profile.act(&motors), [50.0, 25.0, -30.0, 0.0, 0.0]);
    }

    #[test]
    fn a_vector_of_the_wrong_length_or_with_nan_is_refused() {
        let profile = checked(PICARX).unwrap();
        let rewarded: Vec<f32> = (0..16).map(|_| 0.5).chain([-7.0]).collect();
        assert_eq!(profile.sense(&rewarded).unwrap().1, -1.0, "the last of 17 is the reward");
        assert_eq!(profile.sense(&[]), Err(BadVector::Empty));
        assert_eq!(profile.sense(&[0.0; 15]), Err(BadVector::Length(15)));
        assert_eq!(profile.sense(&[0.0; 18]), Err(BadVector::Length(18)));
        let mut spoiled = [0.0; 16];
        spoiled[15] = f32::NAN; // one that nothing uses
        assert_eq!(profile.sense(&spoiled), Err(BadVector::Number(15)));
        let extreme = profile.sense(&[f32::MAX; 16]).unwrap().0;
        assert!(extreme.iter().all(|value| value.abs() <= 1.0), "{extreme:?}");
    }

    #[test]
    fn a_profile_that_does_not_fit_its_board_is_explained() {
        let change = |from: &str, to: &str| {
            assert!(PICARX.contains(from), "{from}");
            checked(&PICARX.replacen(from, to, 1)).unwrap_err().to_string()
        };
        let said = change("channel = \"range\"", "channel = \"rnage\"");
        assert!(said.contains("no sensor 'rnage'; it has: range, ground-left"), "{said}");
        let said = change("channel = \"battery\"", "channel = \"range\"");
        assert_eq!(said, "the board's sensor 'range' is fed twice");
        let said = change("channel = \"battery\"", "");
        assert!(said.contains("nothing feeds the board's battery"), "{said}");
        let said = change("unit = \"m\"", "unit = \"cm\"");
        assert!(said.contains("is in 'cm', but the board's 'range' is in 'm'"), "{said}");
        let said = change("left = 100.0", "wing = 100.0");
        assert!(said.contains("no motor 'wing'; it has: left, right, steering"), "{said}");
        let said = change("period_ms = 50.0", "period_ms = 1.0");
        assert_eq!(said, "period_ms is 1; allowed: 5 to 500");
        let error = ProfileFile::parse("board = \"sim\"\nsensors = 16\n").unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("sensors"), "{error}");
    }
}
