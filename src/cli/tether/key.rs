//! `tether key`: makes the key that a robot and its brain share, and changes it without a stop.

use super::key_failure;
use crate::cli::exit::Failure;
use crate::runtime::tether::key::{KEY_BYTES, KeyFault, KeyFile, is_name};
use crate::system::codec;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Only its owner may read a key, and nobody changes it in place.
const KEY_MODE: u32 = 0o400;
/// Where the system gives random bytes.
const RANDOM: &str = "/dev/urandom";

/// Arguments of `tether key`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion tether key rover-7 -o rover-7.key             a first key, for one robot
  ganglion tether key rover-7 -o rover-7.key --second    a second one beside it: both are valid
  ganglion tether key rover-7 -o rover-7.key --finish    the old one is removed

The same file lies on the robot (/etc/ganglion/tether.key) and with the brain (/etc/ganglion/brain-keys/rover-7.key). Whoever
has it can pose as either, so copy it over a way that you trust, as scp, and give each robot its own.")]
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
        let file = existing(&path, &args.robot)?.with(random()?).map_err(|fault| {
            Failure::data(fault).at(path.display()).fix("finish the change that was begun: --finish")
        })?;
        rewrite(&path, &file)?;
        say!("{}: two keys are valid, of robot '{}'", path.display(), args.robot);
        say!("  next: copy this file to the robot and to the brain, in either order; both take both keys");
        say!("        restart the brain, then ganglion-tether on the robot");
        say!("        then here and there: ganglion tether key {} -o FILE --finish", args.robot);
    } else if args.finish {
        let file = existing(&path, &args.robot)?;
        if file.keys().len() < 2 {
            return Err(Failure::data("it has one key: nothing to finish").at(path.display()));
        }
        rewrite(&path, &file.newest_only())?;
        say!("{}: the newer key alone is valid, of robot '{}'", path.display(), args.robot);
        say!("  next: the same at the other end, robot or brain; then restart both");
    } else {
        let file = KeyFile::new(&args.robot, random()?).map_err(unusable)?;
        create(&path, &file)?;
        say!("{}: a key of robot '{}', readable by you alone", path.display(), args.robot);
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

/// A new file; one that is there is never touched.
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

/// The file as a whole, or not at all; it keeps its mode.
fn rewrite(path: &Path, file: &KeyFile) -> Result<(), Failure> {
    codec::replace(path, file.text().as_bytes()).map_err(|error| Failure::file(path, &error))
}

pub(in crate::cli) fn random() -> Result<[u8; KEY_BYTES], Failure> {
    let mut secret = [0; KEY_BYTES];
    let read = std::fs::File::open(RANDOM).and_then(|mut file| file.read_exact(&mut secret));
    read.map_err(|error| Failure::file(Path::new(RANDOM), &error)).map(|()| secret)
}
