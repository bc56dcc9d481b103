//! Where kernels come from: the fatbin, the cache, PTX; and that a damaged one of any of them is no obstacle.

use std::fs;
use std::path::{Path, PathBuf};

use ganglion::codec::{self, Kind};
use ganglion::gpu::{Image, ImageFiles, Source, probe};

use super::{Desk, PTX, alone, desk};

/// A folder of its own; gone when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Folder(path)
    }

    /// The only file in it.
    fn file(&self) -> PathBuf {
        let files: Vec<PathBuf> =
            fs::read_dir(&self.0).expect("it was made").flatten().map(|entry| entry.path()).collect();
        assert_eq!(files.len(), 1, "{files:?}");
        files[0].clone()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Loads, and has a kernel to show for it.
fn load(desk: &Desk, files: &ImageFiles) -> Source {
    let image = Image::load(&desk.gpu, &desk.found, files).expect("some source is good");
    assert!(image.kernel("sense").is_ok() && image.took().as_nanos() > 0);
    image.source()
}

#[test]
fn compiled_once_and_then_from_the_cache_unless_it_is_damaged() {
    let Some(alone) = alone() else { return };
    let (desk, folder) = (desk(), Folder::new("image-cache"));
    let files = ImageFiles { ptx: PTX, fatbin: None, cache: Some(folder.0.clone()) };
    assert_eq!((load(&desk, &files), load(&desk, &files)), (Source::Ptx, Source::Cache));
    let whole = fs::read(folder.file()).expect("kept");
    for damaged in [&whole[..whole.len() / 2], &[&whole[..], b"more"].concat(), b""] {
        fs::write(folder.file(), damaged).expect("written");
        assert_eq!((load(&desk, &files), load(&desk, &files)), (Source::Ptx, Source::Cache));
        assert_eq!(fs::read(folder.file()).expect("kept anew"), whole);
    }
    // Whole, and the driver does not take it: as after a change of the driver that its version does not tell.
    alone.order("fail=cuModuleLoadData:1:209");
    assert_eq!((load(&desk, &files), load(&desk, &files)), (Source::Ptx, Source::Cache));
    assert_eq!(alone.counts().links, 0);
}

#[test]
fn an_entry_without_code_or_one_that_a_process_ended_in_is_compiled_anew() {
    let Some(alone) = alone() else { return };
    let (desk, folder) = (desk(), Folder::new("image-empty"));
    let files = ImageFiles { ptx: PTX, fatbin: None, cache: Some(folder.0.clone()) };
    assert_eq!(load(&desk, &files), Source::Ptx);
    let (file, whole) = (folder.file(), fs::read(folder.file()).expect("kept"));
    // The entry's own container around the same key, and nothing.
    let kind = Kind { tag: *b"CUBN", name: "compiled kernels", version: 1 };
    let name = file.file_stem().and_then(|name| name.to_str()).expect("its name is its key");
    let key: [u8; 32] = blake3::Hash::from_hex(name).expect("a digest").into();
    for nothing in [Vec::<u8>::new(), vec![0; 100], b"ganglion stand-in cubin\n".to_vec()] {
        codec::save(&file, kind, &(key, nothing)).expect("written");
        assert_eq!((load(&desk, &files), load(&desk, &files)), (Source::Ptx, Source::Cache));
        assert_eq!(fs::read(folder.file()).expect("kept anew"), whole);
    }
    // As a process leaves it that the driver has taken along.
    fs::write(file.with_extension("loading"), "").expect("written");
    assert_eq!((load(&desk, &files), load(&desk, &files)), (Source::Ptx, Source::Cache));
    assert_eq!(folder.file(), file, "and the mark is gone");
    assert_eq!(alone.counts().links, 0);
}

#[test]
fn another_chip_or_a_folder_that_cannot_be_is_compiled_for() {
    let Some(alone) = alone() else { return };
    let folder = Folder::new("image-chips");
    let files = ImageFiles { ptx: PTX, fatbin: None, cache: Some(folder.0.clone()) };
    assert_eq!(load(&desk(), &files), Source::Ptx);
    alone.order("chip=8.9");
    assert_eq!(probe().map(|found| found.capability), Ok((8, 9)));
    assert_eq!((load(&desk(), &files), load(&desk(), &files)), (Source::Ptx, Source::Cache));
    let nowhere = ImageFiles { cache: Some("/proc/no/such/folder".into()), ..files };
    assert_eq!((load(&desk(), &nowhere), load(&desk(), &nowhere)), (Source::Ptx, Source::Ptx));
}

#[test]
fn a_fatbin_that_does_not_fit_gives_way_to_the_text() {
    let Some(_alone) = alone() else { return };
    let (desk, folder) = (desk(), Folder::new("image-fatbin"));
    fs::create_dir_all(&folder.0).expect("a folder");
    let fatbin = folder.0.join("ganglion.fatbin");
    let files = ImageFiles { ptx: PTX, fatbin: Some(fatbin.clone()), cache: None };
    // None; not one; a whole one of these sources, which the stand-in has no chip for.
    let header = [0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 8, 0, 0, 0, 0, 0, 0, 0];
    let stamp = PTX.lines().next().expect("a first line").as_bytes();
    let whole = [&header[..], &[0; 8], stamp, b"\n"].concat();
    assert_eq!(load(&desk, &files), Source::Ptx);
    for bytes in [b"text".to_vec(), whole[..20].to_vec(), whole[..30].to_vec(), whole] {
        fs::write(&fatbin, bytes).expect("written");
        assert_eq!(load(&desk, &files), Source::Ptx);
    }
    assert_eq!(desk.watch.counts().failures, 1, "only the whole one was shown to the driver");
}

#[test]
fn text_that_is_no_ptx_is_the_drivers_error() {
    let Some(alone) = alone() else { return };
    let desk = desk();
    for (ptx, code) in
        [("", 218), ("words", 218), (".version 8.5\0", 218), ("\n.version 9.0\n.target sm_87\n", 222)]
    {
        let files = ImageFiles { ptx, fatbin: None, cache: None };
        let said = Image::load(&desk.gpu, &desk.found, &files).map(|_| ()).map_err(|error| error.code);
        assert_eq!(said, Err(code), "{ptx:?}");
    }
    assert_eq!((alone.counts().links, alone.counts().modules), (0, 0), "nothing is left of it");
}
