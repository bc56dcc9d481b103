//! The keys that robots and brains share: one for each robot, or two while the key is being changed. Anyone
//! who has a key can pose as either end, so a key is in a file that only its owner may read.
//!
//! ```text
//! ganglion-key 1
//! robot rover-7
//! key 5d0c... (64 hexadecimal digits)
//! key 91aa... (while the key is being changed)
//! ```

use super::datagram::Id;
use crate::system::bounded_read::BoundedFile;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;
/// Maximum number of valid keys that one robot may have at a time.
pub const KEYS_MOST: usize = 2;
/// Longest name of a robot, in bytes.
pub const ROBOT_MOST: usize = 32;
/// Longest key file; one with two keys and some comments is far shorter.
const FILE_MOST: u64 = 4096;
/// Maximum number of key files in a folder: more robots than one brain serves.
const FILES_MOST: usize = 4096;
/// Mode bits that a key file must not have: write or execute for the group, anything for others. The group
/// may read, because a service manager's access list for a credential shows up in the group bits.
const MODE_REFUSED: u32 = 0o037;
const TITLE: &str = "ganglion-key 1";

/// One key of one robot.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    /// The robot's name.
    pub robot: String,
    /// The key itself.
    pub secret: [u8; KEY_BYTES],
}

/// The one or two valid keys of a robot, oldest first.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyFile {
    robot: String,
    secrets: Vec<[u8; KEY_BYTES]>,
}

/// Why a text is not a valid key file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyFault {
    /// The first line is not that of a key file of this version.
    Title,
    /// The line with this number, counted from 1, is invalid.
    Line(usize),
    /// There is no line that names the robot, or more than one.
    Robot,
    /// The robot's name is not 1 to 32 letters, digits, `-`, `_` or `.`, beginning with a letter or digit.
    Name,
    /// The file has this many keys instead of one or two.
    Count(usize),
    /// The two keys are identical.
    Twice,
}

/// Why a key file is refused.
#[derive(Debug)]
pub enum KeyError {
    /// The system cannot read it.
    Io(PathBuf, io::Error),
    /// Its mode lets users other than its owner use it.
    Mode(PathBuf, u32),
    /// Its content is wrong.
    Content(PathBuf, KeyFault),
    /// Two files have the same key.
    Shared(PathBuf, PathBuf),
    /// A folder has too many key files.
    Many(PathBuf),
}

impl fmt::Display for KeyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyFault::Title => write!(f, "line 1 is not '{TITLE}'"),
            KeyFault::Line(line) => {
                write!(f, "line {line} is neither 'robot NAME' nor 'key' and 64 hex digits")
            }
            KeyFault::Robot => f.write_str("it must name one robot: 'robot NAME'"),
            KeyFault::Name => write!(
                f,
                "a robot's name is 1 to {ROBOT_MOST} letters, digits, '-', '_' or '.', the first a letter or digit"
            ),
            KeyFault::Count(0) => f.write_str("it has no line 'key'"),
            KeyFault::Count(count) => write!(f, "it has {count} keys; allowed: at most {KEYS_MOST}"),
            KeyFault::Twice => f.write_str("both keys are the same"),
        }
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyError::Io(path, error) => write!(f, "{}: {error}", path.display()),
            KeyError::Mode(path, mode) => {
                let path = path.display();
                write!(
                    f,
                    "{path}: its mode {mode:04o} lets others use the key; allowed: 0400, or 0440 for a group"
                )
            }
            KeyError::Content(path, fault) => write!(f, "{}: {fault}", path.display()),
            KeyError::Shared(one, other) => {
                write!(f, "{} and {} have the same key", one.display(), other.display())
            }
            KeyError::Many(path) => write!(f, "{}: more than {FILES_MOST} keys", path.display()),
        }
    }
}

impl std::error::Error for KeyError {}
impl std::error::Error for KeyFault {}

impl Key {
    /// Its ID in datagrams: the first eight bytes of its BLAKE3 hash, which reveal nothing about the key.
    pub fn id(&self) -> Id {
        let hash = blake3::hash(&self.secret);
        Id(std::array::from_fn(|at| hash.as_bytes()[at]))
    }
}

/// Never shows the key itself.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key of {}", self.robot)
    }
}

/// Never shows the keys themselves.
impl fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys of {}", self.secrets.len(), self.robot)
    }
}

impl KeyFile {
    /// A key file with the first key of `robot`.
    pub fn new(robot: &str, secret: [u8; KEY_BYTES]) -> Result<KeyFile, KeyFault> {
        if is_name(robot) {
            Ok(KeyFile { robot: robot.to_string(), secrets: vec![secret] })
        } else {
            Err(KeyFault::Name)
        }
    }

    /// Adds a key, which becomes the newest.
    pub fn with(mut self, secret: [u8; KEY_BYTES]) -> Result<KeyFile, KeyFault> {
        self.secrets.push(secret);
        self.checked()
    }

    /// Removes all but the newest key.
    pub fn newest_only(mut self) -> KeyFile {
        self.secrets.drain(..self.secrets.len() - 1);
        self
    }

    /// The robot's name.
    pub fn robot(&self) -> &str {
        &self.robot
    }

    /// Its keys, oldest first.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = Key> + ExactSizeIterator + '_ {
        self.secrets.iter().map(|secret| Key { robot: self.robot.clone(), secret: *secret })
    }

    /// Parses a key file.
    pub fn parse(text: &str) -> Result<KeyFile, KeyFault> {
        let mut lines = text.lines().map(str::trim).enumerate();
        if lines.next().map(|(_, line)| line) != Some(TITLE) {
            return Err(KeyFault::Title);
        }
        let (mut robot, mut secrets) = (None, Vec::new());
        for (at, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            match line.split_once(' ').map(|(word, rest)| (word, rest.trim())) {
                Some(("robot", name)) if robot.replace(name.to_string()).is_some() => {
                    return Err(KeyFault::Robot);
                }
                Some(("robot", _)) => {}
                Some(("key", digits)) => secrets.push(secret_of(digits).ok_or(KeyFault::Line(at + 1))?),
                _ => return Err(KeyFault::Line(at + 1)),
            }
        }
        KeyFile { robot: robot.ok_or(KeyFault::Robot)?, secrets }.checked()
    }

    fn checked(self) -> Result<KeyFile, KeyFault> {
        if !is_name(&self.robot) {
            return Err(KeyFault::Name);
        }
        match self.secrets[..] {
            [_] => Ok(self),
            [one, other] if one != other => Ok(self),
            [_, _] => Err(KeyFault::Twice),
            _ => Err(KeyFault::Count(self.secrets.len())),
        }
    }

    /// The text of the key file.
    pub fn text(&self) -> String {
        let hex =
            |secret: &[u8; KEY_BYTES]| secret.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let keys: String = self.secrets.iter().map(|secret| format!("key {}\n", hex(secret))).collect();
        format!("{TITLE}\nrobot {}\n{keys}", self.robot)
    }

    /// Reads the key file at `path`; refuses one that other users may access.
    pub fn read(path: &Path) -> Result<KeyFile, KeyError> {
        let io = |error| KeyError::Io(path.to_path_buf(), error);
        let file = BoundedFile::open(path, FILE_MOST).map_err(io)?;
        let mode = file.mode();
        if mode & MODE_REFUSED != 0 {
            return Err(KeyError::Mode(path.to_path_buf(), mode));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| KeyFault::Title);
        text.and_then(KeyFile::parse).map_err(|fault| KeyError::Content(path.to_path_buf(), fault))
    }
}

/// The keys of all robots that a brain serves.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    by_id: HashMap<Id, Key>,
}

impl Keys {
    /// Reads every file in the folder `path` whose name ends in `.key`.
    pub fn read_dir(path: &Path) -> Result<Keys, KeyError> {
        let io = |error| KeyError::Io(path.to_path_buf(), error);
        let mut files = Vec::new();
        for entry in std::fs::read_dir(path).map_err(io)? {
            let file = entry.map_err(io)?.path();
            if file.extension().is_some_and(|end| end == "key") {
                files.push(file);
            }
            if files.len() > FILES_MOST {
                return Err(KeyError::Many(path.to_path_buf()));
            }
        }
        files.sort();
        let (mut keys, mut places) = (Keys::default(), HashMap::<Id, PathBuf>::new());
        for file in files {
            for key in KeyFile::read(&file)?.keys() {
                if let Some(other) = places.insert(key.id(), file.clone()) {
                    return Err(KeyError::Shared(other, file));
                }
                keys.by_id.insert(key.id(), key);
            }
        }
        Ok(keys)
    }

    /// The key with this ID.
    pub fn get(&self, id: &Id) -> Option<&Key> {
        self.by_id.get(id)
    }

    /// How many keys there are; a robot has one or two.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
}

impl From<&KeyFile> for Keys {
    fn from(file: &KeyFile) -> Keys {
        Keys { by_id: file.keys().map(|key| (key.id(), key)).collect() }
    }
}

/// Whether a robot may have this name, which appears in file names and on terminals.
pub fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=ROBOT_MOST).contains(&name.len())
        && name.chars().all(plain)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

fn secret_of(digits: &str) -> Option<[u8; KEY_BYTES]> {
    let bytes = digits.as_bytes();
    if bytes.len() != 2 * KEY_BYTES || !bytes.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let digit = |at: usize| char::from(bytes[at]).to_digit(16).unwrap_or(0) as u8; // all are digits
    Some(std::array::from_fn(|at| digit(2 * at) << 4 | digit(2 * at + 1)))
}

#[cfg(test)]
mod tests;
