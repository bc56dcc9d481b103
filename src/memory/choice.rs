//! Processor or GPU: measured, not guessed. A short calibration finds the batch size from which a GPU is
//! faster on this machine, for one row length, for each kind of work and each place where its rows are. The
//! result is saved in a file with everything that it depends on, so that the next start can read it; the user
//! can override it ([`Preference`]). `dispatch` sends each batch where the [`Choice`] says.

use super::dim::Dim;
use super::gpu::{Area, GpuWorkspace, GpuWorkspaceFault, Room, Unfit};
use super::nearest::Best;
use super::ops::{Length, Verb, Workspace};
use super::store::Store;
use super::vector::random;
use crate::base::time::{Clock, MonotonicClock, Span};
use crate::system::codec::{self, FileError, Kind};
use crate::system::cpu::Level;
use crate::system::gpu::{GpuInfo, cache_folder};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The format on disk.
pub const KIND: Kind = Kind { tag: *b"HRRC", name: "choice of processor or GPU", version: 1 };

/// Maximum payload, bytes: far more than a few crossings and an [`Identity`] take.
const LONGEST: usize = 1 << 16;

/// Time for a whole calibration. For most batch sizes one of the two is several times faster, so a few calls
/// of each are enough.
pub const CALIBRATION: Span = Span::from_millis(1_500);
/// Calls per measurement. The fastest call counts: the others were slowed down by other work.
const CALLS: usize = 3;
/// Largest batch to try, memory permitting. A GPU that is not faster at this size is never used.
const MOST_ROWS: usize = 4096;
/// Limit for the memory of [`room_for`], bytes: GPU memory and page-locked memory together.
const MOST_BYTES: usize = 256 << 20;

/// Kinds of work that a GPU speeds up by different factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Binding and unbinding, scaled or not.
    Bind,
    /// Superposing.
    Superpose,
    /// Comparing a query with a store; the batch size is the number of the store's rows.
    CleanUp,
}

/// Where rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Residence {
    /// In the processor's memory, where the results are needed as well.
    Host,
    /// On the GPU already, where the results stay.
    Gpu,
}

/// The measurement of one kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Crossing {
    /// The kind of work.
    pub work: Work,
    /// Where its rows are.
    pub residence: Residence,
    /// The batch size from which the GPU is faster; `None`: not even with the largest batch tried.
    pub from: Option<u64>,
    /// The largest batch tried.
    pub tried: u64,
}

/// The user's preference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preference {
    /// The faster one, as measured.
    #[default]
    Measured,
    /// The processor, always.
    Processor,
    /// The GPU, from this batch size on.
    From(u64),
}

impl FromStr for Preference {
    type Err = String;

    fn from_str(text: &str) -> Result<Preference, String> {
        match text {
            "measured" => Ok(Preference::Measured),
            "never" => Ok(Preference::Processor),
            number => number.parse().map(Preference::From).map_err(|_| {
                format!("'{number}' is not a choice; expected: measured, never, or the smallest GPU batch")
            }),
        }
    }
}

/// Everything that a measurement depends on. If any of it differs, the measurement is repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    d: u32,
    /// The GPU and its driver.
    gpu: String,
    chip: (u32, u32),
    driver: (u32, u32),
    multiprocessors: u32,
    /// The processor's instruction set and cores.
    instructions: String,
    cores: u32,
    /// The program's version.
    version: String,
}

impl Identity {
    fn of(dim: Dim, found: &GpuInfo) -> Identity {
        Identity {
            d: dim.get() as u32,
            gpu: found.name.clone(),
            chip: found.capability,
            driver: found.driver,
            multiprocessors: found.multiprocessors,
            instructions: Level::best().name().into(),
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Kept {
    identity: Identity,
    crossings: Vec<Crossing>,
}

/// The reason for a choice.
#[derive(Clone, Debug, PartialEq)]
pub enum Because {
    /// There is no GPU.
    NoGpu(Unfit),
    /// The choice is based on a measurement in this run.
    Measured,
    /// The choice is based on a measurement in an earlier run.
    Kept,
    /// The measurement failed.
    Failed(GpuWorkspaceFault),
    /// The caller set the choice.
    Asked,
}

/// Which work the GPU does, and from which batch size.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The measurements; empty: the processor does everything, or the preference decides.
    pub crossings: Vec<Crossing>,
    /// The reason.
    pub because: Because,
    preference: Preference,
}

impl Choice {
    /// The choice on a machine without a usable GPU.
    pub fn without(unfit: Unfit) -> Choice {
        Choice { crossings: Vec::new(), because: Because::NoGpu(unfit), preference: Preference::Processor }
    }

    /// The processor, because the user prefers it.
    pub fn processor() -> Choice {
        let preference = Preference::Processor;
        Choice { crossings: Vec::new(), because: Because::Asked, preference }
    }

    /// The batch size from which the GPU does this work; `None`: the processor does all of it.
    pub fn gpu_from(&self, work: Work, residence: Residence) -> Option<u64> {
        match self.preference {
            Preference::Processor => None,
            Preference::From(batch) => Some(batch),
            Preference::Measured => {
                let mut measured = self.crossings.iter();
                measured.find(|one| (one.work, one.residence) == (work, residence))?.from
            }
        }
    }

    /// Whether a batch of `rows` rows goes to the GPU.
    pub fn takes_gpu(&self, work: Work, residence: Residence, rows: usize) -> bool {
        self.gpu_from(work, residence).is_some_and(|from| rows as u64 >= from)
    }

    /// The choice for a GPU: the user's, else the one saved at `file`, else one that is measured within about
    /// `within` and saved.
    pub fn of(gpu: &mut GpuWorkspace, preference: Preference, file: Option<&Path>, within: Span) -> Choice {
        if preference != Preference::Measured {
            return Choice { crossings: Vec::new(), because: Because::Asked, preference };
        }
        let identity = Identity::of(gpu.dim(), gpu.found());
        if let Some(crossings) = file.and_then(|file| read(file, &identity)) {
            return Choice { crossings, because: Because::Kept, preference };
        }
        match calibrate(gpu, within) {
            Ok(crossings) => {
                let kept = Kept { identity, crossings: crossings.clone() };
                if let Some(Err(error)) = file.map(|file| save(file, &kept)) {
                    log::warn!(
                        "the choice of processor or GPU is not saved, so each start measures again: {error}"
                    );
                }
                Choice { crossings, because: Because::Measured, preference }
            }
            Err(fault) => Choice {
                crossings: Vec::new(),
                because: Because::Failed(fault),
                preference: Preference::Processor,
            },
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.because, self.preference) {
            (Because::NoGpu(unfit), _) => return write!(f, "on the processor: {unfit}"),
            (Because::Failed(fault), _) => {
                return write!(f, "on the processor: the GPU could not be measured: {fault}");
            }
            (Because::Asked, Preference::From(batch)) => {
                return write!(f, "on the GPU from {batch} rows on, as requested");
            }
            (Because::Asked, _) => return f.write_str("on the processor, as requested"),
            (Because::Measured, _) => f.write_str("measured now")?,
            (Because::Kept, _) => f.write_str("measured at an earlier start")?,
        }
        for crossing in &self.crossings {
            let work = match crossing.work {
                Work::Bind => "bind",
                Work::Superpose => "superpose",
                Work::CleanUp => "clean-up",
            };
            let residence = match crossing.residence {
                Residence::Host => "rows in host memory",
                Residence::Gpu => "rows on the GPU",
            };
            match crossing.from {
                Some(from) => write!(f, "; {work}, {residence}: GPU from {from} on")?,
                None => write!(f, "; {work}, {residence}: processor (up to {})", crossing.tried)?,
            }
        }
        Ok(())
    }
}

/// The file with the choice for rows of this length; `None`: there is no cache folder.
pub fn file_for(dim: Dim) -> Option<PathBuf> {
    cache_folder().map(|folder| folder.join(format!("memory-{}.choice", dim.get())))
}

fn read(file: &Path, identity: &Identity) -> Option<Vec<Crossing>> {
    match codec::load_within::<Kept>(file, KIND, LONGEST) {
        Ok(kept) if kept.identity == *identity => Some(kept.crossings),
        Ok(_) => None,
        Err(FileError::Io { .. }) => None,
        Err(error) => {
            log::warn!("{error}; measuring again");
            None
        }
    }
}

fn save(file: &Path, kept: &Kept) -> Result<(), FileError> {
    // The result is ignored: if the folder cannot be created, saving fails and reports why.
    let _ = file.parent().map(std::fs::create_dir_all);
    codec::save(file, KIND, kept)
}

/// Measured times of one batch, microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Rows of the batch.
    pub batch: u64,
    /// Time on the processor.
    pub processor: f64,
    /// Time on the GPU.
    pub gpu: f64,
}

/// The batch size from which the GPU is always faster; between two tried sizes, it is where the straight
/// lines through the measured times cross.
pub fn crossing(pairs: &[Pair]) -> Option<u64> {
    let wins = |pair: &Pair| pair.gpu < pair.processor;
    let first = pairs.iter().rposition(|pair| !wins(pair)).map_or(0, |lost| lost + 1);
    let won = pairs.get(first)?;
    let Some(lost) = first.checked_sub(1).map(|before| &pairs[before]) else { return Some(won.batch) };
    let (behind, ahead) = (lost.gpu - lost.processor, won.processor - won.gpu);
    let share = behind / (behind + ahead).max(f64::MIN_POSITIVE);
    Some(lost.batch + (share * (won.batch - lost.batch) as f64).ceil() as u64)
}

/// The room that a calibration needs on a GPU, for its largest batch.
pub fn room_for(dim: Dim) -> Room {
    // Each row of a batch needs three rows and one store row on the GPU, and three rows in page-locked
    // memory.
    let rows = (MOST_BYTES / (7 * dim.get() * size_of::<f32>())).clamp(1, MOST_ROWS);
    Room { rows, queries: 1, store: rows }
}

/// All kinds of work, with each place where their rows can be.
const CASES: [(Work, Residence); 5] = [
    (Work::Bind, Residence::Host),
    (Work::Bind, Residence::Gpu),
    (Work::Superpose, Residence::Host),
    (Work::Superpose, Residence::Gpu),
    (Work::CleanUp, Residence::Gpu),
];

/// Measures for about `within`: it may take a little longer, because no call is interrupted.
fn calibrate(gpu: &mut GpuWorkspace, within: Span) -> Result<Vec<Crossing>, GpuWorkspaceFault> {
    let clock = MonotonicClock;
    let mut bench = Bench::new(gpu)?;
    let began = clock.now();
    let mut crossings = Vec::new();
    for (number, (work, residence)) in CASES.into_iter().enumerate() {
        let until = within.as_secs_f64() * (number + 1) as f64 / CASES.len() as f64;
        let (mut pairs, mut batch) = (Vec::new(), 1);
        while batch <= bench.most {
            bench.prepare(work, batch)?;
            let processor = bench.fastest(|bench| bench.on_processor(work, batch))?;
            let gpu = bench.fastest(|bench| bench.on_gpu(work, residence, batch))?;
            pairs.push(Pair { batch: batch as u64, processor, gpu });
            if clock.now().since(began).as_secs_f64() > until {
                break;
            }
            batch *= 4;
        }
        let tried = pairs.last().map_or(0, |pair| pair.batch);
        crossings.push(Crossing { work, residence, from: crossing(&pairs), tried });
    }
    Ok(crossings)
}

/// The data of a calibration.
struct Bench<'c> {
    gpu: &'c mut GpuWorkspace,
    most: usize,
    workspace: Workspace,
    rows: Vec<f32>,
    out: Vec<f32>,
    store: Store,
    best: [Best; 1],
}

impl<'c> Bench<'c> {
    fn new(gpu: &'c mut GpuWorkspace) -> Result<Bench<'c>, GpuWorkspaceFault> {
        let (dim, room) = (gpu.dim(), gpu.room());
        let most = room.rows.min(room.store).min(MOST_ROWS);
        // The values do not affect the time, as long as they are normal numbers.
        let some: Vec<f32> = (0..7).flat_map(|number| random(1, number, dim)).collect();
        let rows: Vec<f32> = some.iter().copied().cycle().take(most * dim.get()).collect();
        let store = Store::new(dim, most.max(1), usize::MAX)?;
        Ok(Bench {
            workspace: Workspace::new(dim),
            out: vec![0.0; rows.len()],
            best: [Best::of(5)],
            gpu,
            most,
            rows,
            store,
        })
    }

    /// Copies to the GPU what a case needs there.
    fn prepare(&mut self, work: Work, batch: usize) -> Result<(), GpuWorkspaceFault> {
        let d = self.workspace.dim().get();
        let rows = &self.rows[..batch * d];
        if work == Work::CleanUp {
            for row in rows.chunks_exact(d).skip(self.store.len()) {
                self.store.push(row)?;
            }
            return self.gpu.hold(&self.store);
        }
        self.gpu.put(Area::First, rows)?;
        self.gpu.put(Area::Second, rows)
    }

    fn on_processor(&mut self, work: Work, batch: usize) -> Result<(), GpuWorkspaceFault> {
        let d = self.workspace.dim().get();
        let Bench { workspace, rows, out, store, best, .. } = self;
        let rows = &rows[..batch * d];
        let done = match work {
            Work::Bind => workspace.bind(rows, rows, Length::Unit, &mut out[..batch * d]),
            Work::Superpose => workspace.superpose(rows, None, Length::Unit, &mut out[..d]),
            Work::CleanUp => store.nearest(&rows[..d], best),
        };
        done.map_err(GpuWorkspaceFault::Preference)
    }

    fn on_gpu(&mut self, work: Work, residence: Residence, batch: usize) -> Result<(), GpuWorkspaceFault> {
        let d = self.workspace.dim().get();
        let Bench { gpu, rows, out, best, .. } = self;
        let rows = &rows[..batch * d];
        match (work, residence) {
            (Work::Bind, Residence::Host) => {
                gpu.convolve(Verb::Bind, rows, rows, Length::Unit, &mut out[..batch * d])
            }
            (Work::Bind, Residence::Gpu) => gpu.convolve_held(Verb::Bind, batch, Length::Unit),
            (Work::Superpose, Residence::Host) => gpu.superpose(rows, None, Length::Unit, &mut out[..d]),
            (Work::Superpose, Residence::Gpu) => gpu.superpose_held(batch, Length::Unit),
            (Work::CleanUp, _) => gpu.nearest(&rows[..d], best),
        }
    }

    /// Time of the fastest of a few calls, microseconds, after one warm-up call.
    fn fastest(
        &mut self,
        call: impl Fn(&mut Self) -> Result<(), GpuWorkspaceFault>,
    ) -> Result<f64, GpuWorkspaceFault> {
        call(self)?;
        let mut fastest = f64::INFINITY;
        for _ in 0..CALLS {
            let began = MonotonicClock.now();
            call(self)?;
            fastest = fastest.min(MonotonicClock.now().since(began).as_micros_f64());
        }
        Ok(fastest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(times: &[(u64, f64, f64)]) -> Vec<Pair> {
        times.iter().map(|&(batch, processor, gpu)| Pair { batch, processor, gpu }).collect()
    }

    #[test]
    fn the_crossing_lies_between_the_last_loss_and_the_first_win() {
        assert_eq!(crossing(&pairs(&[(1, 1.0, 10.0), (4, 4.0, 10.0), (16, 16.0, 10.0)])), Some(10));
        assert_eq!(crossing(&pairs(&[(1, 1.0, 10.0), (4, 4.0, 10.0)])), None);
        assert_eq!(crossing(&pairs(&[(1, 20.0, 10.0), (4, 80.0, 10.0)])), Some(1));
        // A batch size at which the GPU wins does not count if it loses at a larger one.
        assert_eq!(crossing(&pairs(&[(1, 20.0, 10.0), (4, 4.0, 10.0)])), None);
        assert_eq!(crossing(&[]), None);
    }

    #[test]
    fn each_task_has_its_own_crossover_and_a_preference_wins() {
        let crossings = vec![
            Crossing { work: Work::Bind, residence: Residence::Host, from: Some(40), tried: 64 },
            Crossing { work: Work::CleanUp, residence: Residence::Gpu, from: None, tried: 64 },
        ];
        let choice = |preference| {
            let because = Because::Measured;
            Choice { crossings: crossings.clone(), because, preference }
        };
        let takes = |preference, work, residence| {
            [39, 40, 5000].map(|rows| choice(preference).takes_gpu(work, residence, rows))
        };
        let measured = Preference::Measured;
        assert_eq!(takes(measured, Work::Bind, Residence::Host), [false, true, true]);
        assert_eq!(takes(measured, Work::Bind, Residence::Gpu), [false; 3], "it was not measured");
        assert_eq!(takes(measured, Work::CleanUp, Residence::Gpu), [false; 3], "it never won");
        assert_eq!(takes(Preference::From(5000), Work::Bind, Residence::Host), [false, false, true]);
        assert_eq!(takes(Preference::From(0), Work::CleanUp, Residence::Gpu), [true; 3]);
        assert_eq!(takes(Preference::Processor, Work::Bind, Residence::Host), [false; 3]);
    }

    #[test]
    fn a_preference_is_a_word_or_number_and_a_missing_gpu_explained() {
        let preferences = ["measured", "never", "12"].map(|text| text.parse());
        assert_eq!(
            preferences,
            [Ok(Preference::Measured), Ok(Preference::Processor), Ok(Preference::From(12))]
        );
        assert!("sometimes".parse::<Preference>().is_err());
        let without = Choice::without(Unfit::Length { d: 5000, needed: 16_384 });
        assert!(without.to_string().contains("16384"), "{without}");
    }
}
