//! The compiled image in the repository: made from these sources, for the oldest supported chip and driver,
//! with every kernel in it. Needs no compiler.

use std::fs;

/// Name and text of every source, ordered by name.
fn kernel_sources() -> Vec<(String, String)> {
    let entries = fs::read_dir("kernels").expect("the tests run in the root of the repository");
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name.ends_with(".cu") || name.ends_with(".cuh"));
    names.sort();
    let text = |name: &String| fs::read_to_string(format!("kernels/{name}")).expect("a source");
    names.iter().map(|name| (name.clone(), text(name))).collect()
}

/// Digest of all sources: name, a zero byte, text, a zero byte, ordered by name.
fn digest() -> String {
    let mut hasher = blake3::Hasher::new();
    for (name, text) in kernel_sources() {
        [name.as_bytes(), &[0], text.as_bytes(), &[0]].into_iter().for_each(|part| {
            hasher.update(part);
        });
    }
    hasher.finalize().to_hex().to_string()
}

fn image() -> String {
    fs::read_to_string("kernels/ganglion.ptx").expect("kernels/ganglion.ptx: run scripts/build-ptx")
}

#[test]
fn the_ptx_was_built_from_these_sources() {
    let image = image();
    let first = image.lines().next().unwrap_or_default();
    let said = first.strip_prefix("// sources BLAKE3 ").expect("the first line names the sources");
    assert_eq!(said, digest(), "a kernel has changed: run scripts/build-ptx, and commit what it wrote");
}

#[test]
fn the_ptx_loads_on_the_oldest_supported_driver() {
    let image = image();
    let lines: Vec<&str> = image.lines().map(str::trim).collect();
    assert!(lines.contains(&".version 8.0"), "driver 525 has CUDA 12.0, which accepts no newer PTX");
    assert!(lines.contains(&".target sm_87"), "Orin is the oldest supported chip");
    assert!(!image.contains('\0'), "a C string would end there");
}

#[test]
fn the_ptx_holds_exactly_the_kernels() {
    let mut wanted: Vec<String> = [4, 8, 16, 32, 64].map(|n| format!("evolve_{n}")).into();
    wanted.extend([128, 256, 512, 1024, 2048, 4096, 8192].map(|d| format!("convolve_{d}")));
    for (_, text) in kernel_sources() {
        for (at, entry) in text.match_indices("extern \"C\" __global__ void ") {
            let rest = &text[at + entry.len()..];
            let (bounds, rest) = rest.split_once(") ").expect("bounds, then a name");
            assert!(bounds.starts_with("__launch_bounds__("), "every kernel states its block size: {bounds}");
            wanted.extend(rest.split_once('(').map(|(name, _)| name.to_string()));
        }
    }
    wanted.retain(|name| !name.contains('#')); // the macros that generate kernels by size
    wanted.sort();
    let entries = image();
    let mut found: Vec<String> = entries
        .match_indices(".visible .entry ")
        .filter_map(|(at, entry)| Some(entries[at + entry.len()..].split_once('(')?.0.to_string()))
        .collect();
    found.sort();
    assert_eq!(found, wanted);
    assert!(found.len() > 15);
}
