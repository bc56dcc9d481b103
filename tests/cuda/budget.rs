//! Limits for each kernel, checked in the compiled image: the number of instructions, and that of f64
//! instructions, which an Orin or a GeForce executes at 1/64 of the normal rate. `kernels/budget.txt` holds
//! the budget: a kernel may have a twentieth more instructions, but not one f64 instruction more. Needs no
//! compiler; `scripts/build-fatbin` checks the machine code.

use std::collections::BTreeMap;
use std::fs;

/// All instructions of a kernel, and its f64 ones.
type Counts = BTreeMap<String, (u64, u64)>;

/// Kernels that must not compute in f64: loops over cells or over the bank's rows, and the memory's kernels.
const WITHOUT_F64: [&str; 7] =
    ["evolve_", "bank_scan", "convolve_", "superpose_", "nearest_", "enter_half", "leave_half"];

/// Counts by kernel, in the same way as `scripts/kernel_image.py`.
fn counted(ptx: &str) -> Counts {
    let mut counts = Counts::new();
    let mut kernel = None;
    for line in ptx.lines() {
        let mut words = line.split_whitespace();
        if let Some(entry) = line.strip_prefix(".visible .entry ") {
            let name = entry.split('(').next().unwrap_or_default().to_string();
            counts.insert(name.clone(), (0, 0));
            kernel = Some(name);
        } else if line == "}" {
            kernel = None;
        } else if let (Some(name), true) = (&kernel, line.ends_with(';')) {
            let word = words.find(|word| !word.starts_with('@')).unwrap_or_default();
            if word.starts_with(|first: char| first.is_ascii_lowercase()) {
                let moves = ["ld.", "st.", "mov.", "selp."].iter().any(|verb| word.starts_with(verb));
                let (every, f64s) = counts.get_mut(name).expect("just entered");
                *every += 1;
                *f64s += u64::from(word.contains(".f64") && !moves);
            }
        }
    }
    counts
}

/// Parses the table of `kernels/budget.txt`.
fn budget(text: &str) -> Counts {
    let row = |line: &str| {
        let mut words = line.split(' ');
        let name = words.next().expect("a name").to_string();
        let mut number = || words.next().and_then(|word| word.parse().ok()).expect("a number");
        (name, (number(), number()))
    };
    text.lines().filter(|line| !line.starts_with('#')).map(row).collect()
}

/// A sentence for each excess over the budget, with both figures.
fn beyond(found: &Counts, budget: &Counts) -> Vec<String> {
    let mut complaints = Vec::new();
    for (kernel, (every, f64s)) in found {
        let Some((agreed, agreed_f64s)) = budget.get(kernel) else {
            complaints.push(format!("{kernel} has {every} instructions and no budget"));
            continue;
        };
        if every * 20 > agreed * 21 {
            complaints.push(format!("{kernel} has {every} instructions; its budget is {agreed}"));
        }
        if f64s > agreed_f64s {
            complaints.push(format!("{kernel} has {f64s} f64 instructions; its budget is {agreed_f64s}"));
        }
    }
    complaints
}

#[test]
fn no_kernel_exceeds_its_budget() {
    let image =
        fs::read_to_string("kernels/ganglion.ptx").expect("kernels/ganglion.ptx: run scripts/build-ptx");
    let agreed = fs::read_to_string("kernels/budget.txt").expect("kernels/budget.txt");
    let (found, agreed) = (counted(&image), budget(&agreed));
    let complaints = beyond(&found, &agreed);
    assert!(
        complaints.is_empty(),
        "{complaints:#?}; if justified, run scripts/build-ptx --budget, and give the reason in the commit"
    );
    assert_eq!(found.keys().collect::<Vec<_>>(), agreed.keys().collect::<Vec<_>>(), "one row per kernel");
    assert!(found["features"].1 > 0, "learning is in f64: the count must find it");
    for kernel in found.keys().filter(|kernel| WITHOUT_F64.iter().any(|name| kernel.starts_with(name))) {
        assert_eq!((found[kernel].1, agreed[kernel].1), (0, 0), "{kernel} must not compute in f64");
    }
}

#[test]
fn a_kernel_that_grows_is_named_with_both_figures() {
    let ptx = ".visible .entry scan(\n\t.param .u64 p\n)\n{\n\t.reg .f64 %fd<3>;\n\tld.global.f64 %fd1, [%rd1];\n\
               $L__BB0_1:\n\t@%p1 add.f64 %fd2, %fd1, %fd1;\n\t@%p1 bra $L__BB0_1;\n\tret;\n\n}\n";
    let found = counted(ptx);
    assert_eq!(found["scan"], (4, 1));
    assert_eq!(beyond(&found, &budget("# a remark\nscan 4 1\n")), Vec::<String>::new());
    let complaints = beyond(&found, &budget("scan 3 0\n"));
    assert_eq!(
        complaints,
        ["scan has 4 instructions; its budget is 3", "scan has 1 f64 instructions; its budget is 0"]
    );
    assert_eq!(beyond(&found, &budget("")), ["scan has 4 instructions and no budget"]);
    let hundred = |every| Counts::from([("scan".to_string(), (every, 0))]);
    assert!(
        beyond(&hundred(105), &hundred(100)).is_empty() && beyond(&hundred(106), &hundred(100)).len() == 1
    );
}
