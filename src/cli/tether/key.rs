//! `tether key`: makes the key that a robot and its brain share, and changes it without stopping the robot.

use super::key_failure;
use crate::cli::exit::Failure;
use crate::runtime::tether::key::{KEY_BYTES, KEYS_MOST, KeyFault, KeyFile, is_name};
use crate::system::codec;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Only its owner may read a key, and no one may change it in place.
const KEY_MODE: u32 = 0o400;
/// The system's source of random bytes.
const RANDOM: &str = "/dev/urandom";

/// Arguments of `tether key`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion tether key rover-7 -o rover-7.key             make a first key
  ganglion tether key rover-7 -o rover-7.key --second    add a second key: both are valid
  ganglion tether key rover-7 -o rover-7.key --finish    remove the older key

Robot (/etc/ganglion/tether.key) and brain (/etc/ganglion/brain-keys/rover-7.key) have copies of the same file. Anyone who
has a copy can pose as either, so copy it in a way that you trust, such as scp, and make a separate key for each robot.")]
pub struct Args {
    /// The robot's name: 1 to 32 letters, digits, '-', '_' or '.'
    robot: String,
    /// The key file to write [default: ROBOT.key]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Add a second key to the file: both are valid until --finish
    #[arg(long, conflicts_with = "finish")]
    second: bool,
    /// Remove the older of two keys
    #[arg(long)]
    finish: bool,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    let unusable = |fault: KeyFault| Failure::usage(fault);
    let path = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.key", args.robot)));
    if !is_name(&args.robot) {
        return Err(unusable(KeyFault::Name));
    }
    if args.second {
        let file = existing(&path, &args.robot)?;
        if file.keys().len() >= KEYS_MOST {
            return Err(Failure::data("it already has two keys")
                .at(path.display())
                .fix("first finish the current change with --finish"));
        }
        let file = file.with(random()?).map_err(|fault| Failure::data(fault).at(path.display()))?;
        rewrite(&path, &file)?;
        say!("{}: robot '{}' has two valid keys", path.display(), args.robot);
        say!("  next: copy this file to the robot and to the brain, in either order; both accept both keys");
        say!("        restart the brain, then ganglion-tether on the robot");
        say!("        then on each of them: ganglion tether key {} -o FILE --finish", args.robot);
    } else if args.finish {
        let file = existing(&path, &args.robot)?;
        if file.keys().len() < 2 {
            return Err(Failure::data("it has one key: nothing to finish").at(path.display()));
        }
        rewrite(&path, &file.newest_only())?;
        say!("{}: only the newer key of robot '{}' is valid", path.display(), args.robot);
        say!("  next: do the same at the other end, robot or brain; then restart both");
    } else {
        let file = KeyFile::new(&args.robot, random()?).map_err(unusable)?;
        create(&path, &file)?;
        say!("{}: a key for robot '{}', which only you can read", path.display(), args.robot);
        say!("  next: copy it to the robot as /etc/ganglion/tether.key");
        say!("        (mode 0400), and to the brain as /etc/ganglion/brain-keys/{}.key", args.robot);
        say!("        (owner root:ganglion-brain, mode 0440)");
        say!("        then, on the robot: systemctl enable --now ganglion-tether");
    }
    Ok(())
}

fn existing(path: &Path, robot: &str) -> Result<KeyFile, Failure> {
    let file = KeyFile::read(path).map_err(|error| key_failure(&error))?;
    if file.robot() != robot {
        let words = format!("it is the key of robot '{}', not of '{robot}'", file.robot());
        return Err(Failure::usage(words).at(path.display()));
    }
    Ok(file)
}

/// Creates the file; never touches an existing one.
fn create(path: &Path, file: &KeyFile) -> Result<(), Failure> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(KEY_MODE).open(path);
    let written = opened.and_then(|mut to| to.write_all(file.text().as_bytes()).and_then(|()| to.sync_all()));
    written.map_err(|error| {
        let fix = match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                "a key is never overwritten: add one with --second, or name another file"
            }
            _ => "choose a directory that you own",
        };
        Failure::file(path, &error).fix(fix)
    })
}

/// Replaces the file atomically, keeping its mode.
fn rewrite(path: &Path, file: &KeyFile) -> Result<(), Failure> {
    codec::replace(path, file.text().as_bytes()).map_err(|error| Failure::file(path, &error))
}

pub(in crate::cli) fn random() -> Result<[u8; KEY_BYTES], Failure> {
    let mut secret = [0; KEY_BYTES];
    let read = std::fs::File::open(RANDOM).and_then(|mut file| file.read_exact(&mut secret));
    read.map_err(|error| Failure::file(Path::new(RANDOM), &error)).map(|()| secret)
}
