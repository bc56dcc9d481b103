//! Where kernels come from: the fatbin or PTX. A fatbin that is damaged or that crashed the driver does not
//! prevent a start.

use std::fs;

use ganglion::system::gpu::{Image, ImageFiles, Source};

use crate::folder::Folder;

use super::{Desk, PTX, alone, desk};

/// Loads an image and checks that it has a kernel.
fn load(desk: &Desk, files: &ImageFiles) -> Source {
    let image = Image::load(&desk.gpu, files).expect("some source is good");
    assert!(image.kernel("sense").is_ok() && image.took().as_nanos() > 0);
    image.source()
}

/// A complete fatbin of these sources, without code for the stand-in's chip: the driver refuses it.
fn fatbin() -> Vec<u8> {
    let header = [0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 8, 0, 0, 0, 0, 0, 0, 0];
    let stamp = PTX.lines().next().expect("a first line").as_bytes();
    [&header[..], &[0; 8], stamp, b"\n"].concat()
}

#[test]
fn ptx_is_used_if_the_fatbin_does_not_fit() {
    let Some(_alone) = alone() else { return };
    let (desk, folder) = (desk(), Folder::new("image-fatbin"));
    let path = folder.join("ganglion.fatbin");
    let files = ImageFiles { ptx: PTX, fatbin: Some(path.clone()), marks: None };
    // No file; a file that is not a fatbin; two truncated fatbins; a complete one.
    assert_eq!(load(&desk, &files), Source::Ptx);
    let whole = fatbin();
    for bytes in [b"text".to_vec(), whole[..20].to_vec(), whole[..30].to_vec(), whole] {
        fs::write(&path, bytes).expect("written");
        assert_eq!(load(&desk, &files), Source::Ptx);
    }
    assert_eq!(desk.watch.counts().failures, 1, "only the complete one was given to the driver");
}

#[test]
fn a_fatbin_that_killed_a_process_is_not_loaded() {
    let Some(_alone) = alone() else { return };
    let (desk, folder) = (desk(), Folder::new("image-marks"));
    let (path, marks) = (folder.join("ganglion.fatbin"), folder.join("marks"));
    fs::write(&path, fatbin()).expect("written");
    let files = ImageFiles { ptx: PTX, fatbin: Some(path.clone()), marks: Some(marks.clone()) };
    let shown = || {
        let before = desk.watch.counts().failures;
        assert_eq!(load(&desk, &files), Source::Ptx);
        desk.watch.counts().failures - before
    };
    assert_eq!(shown(), 1);
    let left = || fs::read_dir(&marks).expect("the mark was made").count();
    assert_eq!(left(), 0, "the driver refused the fatbin, and the process continues");
    // As left behind by a process that crashed in the driver.
    let mark = marks.join(format!("fatbin-{}.loading", blake3::hash(&fatbin()).to_hex()));
    fs::write(&mark, "").expect("written");
    assert_eq!((shown(), shown(), left()), (0, 0, 1));
    // Another file may be loaded.
    fs::write(&path, [fatbin(), b"\n".to_vec()].concat()).expect("written");
    assert_eq!(shown(), 1);
    fs::write(&path, fatbin()).and_then(|()| fs::remove_file(mark)).expect("as the message tells the user");
    assert_eq!((shown(), left()), (1, 0));
}

#[test]
fn invalid_ptx_is_the_drivers_error() {
    let Some(alone) = alone() else { return };
    let desk = desk();
    for (ptx, code) in
        [("", 218), ("words", 218), (".version 8.0\0", 218), ("\n.version 9.0\n.target sm_87\n", 222)]
    {
        let files = ImageFiles { ptx, fatbin: None, marks: None };
        let said = Image::load(&desk.gpu, &files).map(|_| ()).map_err(|error| error.code);
        assert_eq!(said, Err(code), "{ptx:?}");
    }
    assert_eq!(alone.counts().modules, 0, "nothing is left of it");
}
