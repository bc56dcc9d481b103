//! Writes valid inputs as seeds for the fuzz targets, one folder per entry point.

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: seeds FOLDER");
        std::process::exit(64);
    };
    for way in &ganglion_fuzz::ways::WAYS_IN {
        let folder = folder.join(way.name);
        std::fs::create_dir_all(&folder)?;
        for (at, seed) in (way.seeds)().iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{at}")), seed)?;
        }
    }
    Ok(())
}
