//! Temperature, clocks, power and load of the GPU that computes the field, for display: from sysfs on a
//! Jetson, from the driver's management library elsewhere. A separate thread reads them once a second,
//! because a call to a card that has fallen off the bus may never return. Nothing waits for that thread;
//! figures that it no longer updates are left out.

mod jetson;

use crate::base::time::{Clock, Instant, MonotonicClock, Span};
use crate::system::gpu::Nvml;
use jetson::Jetson;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

/// Period of the readings. A chip's temperature changes within seconds, and the metrics are collected every
/// 15 s.
const EVERY: Duration = Duration::from_secs(1);
/// Figures older than this are left out: five readings have been missed.
const STALE_AFTER: Span = Span::from_millis(5_000);

/// What a GPU reports about itself; what it does not report is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuFigures {
    /// Temperature of the chip, degrees Celsius.
    pub temperature_celsius: Option<f32>,
    /// Clock of the multiprocessors, MHz.
    pub clock_mhz: Option<f32>,
    /// Clock of the memory, MHz.
    pub memory_clock_mhz: Option<f32>,
    /// Power of the whole card, watts; on a Jetson, of the supply rail that feeds the GPU and other parts.
    pub power_watts: Option<f32>,
    /// The name of that rail.
    pub power_rail: Option<String>,
    /// Share of the time in which the GPU was busy, 0..=1.
    pub load: Option<f32>,
}

/// The newest figures, and when they were read.
type Newest = Arc<Mutex<Option<(Instant, GpuFigures)>>>;

/// A handle to the thread that reads the figures. Dropping it tells the thread to stop, but does not join it.
#[derive(Debug)]
pub struct GpuMeter {
    newest: Newest,
    ended: Arc<AtomicBool>,
    thread: Thread,
}

impl GpuMeter {
    /// Reads the figures of the GPU called `name`, or of the only GPU. `None`: the thread could not be
    /// started.
    pub fn start(name: Option<String>) -> Option<GpuMeter> {
        let started = GpuMeter::of(move || Source::find(Path::new("/"), name.as_deref()));
        started.inspect_err(|error| log::warn!("no figures of the GPU: {error}")).ok()
    }

    /// `find` runs on the new thread; if it returns `None`, the thread ends.
    fn of(find: impl FnOnce() -> Option<Source> + Send + 'static) -> io::Result<GpuMeter> {
        let (newest, ended) = (Newest::default(), Arc::new(AtomicBool::new(false)));
        let (to, end) = (newest.clone(), ended.clone());
        let run = move || {
            let Some(mut source) = find() else { return };
            while !end.load(Ordering::Relaxed) {
                let figures = source.read();
                let now = MonotonicClock.now();
                *to.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, figures));
                thread::park_timeout(EVERY);
            }
        };
        let thread = thread::Builder::new().name("gpu-meter".into()).spawn(run)?;
        Ok(GpuMeter { newest, ended, thread: thread.thread().clone() })
    }

    /// The newest figures, unless they are stale.
    pub fn newest(&self) -> Option<GpuFigures> {
        self.newest_at(MonotonicClock.now())
    }

    fn newest_at(&self, now: Instant) -> Option<GpuFigures> {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, figures) = newest.as_ref()?;
        (now.since(*at) <= STALE_AFTER).then(|| figures.clone())
    }
}

impl Drop for GpuMeter {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.unpark();
    }
}

/// Where the figures come from.
enum Source {
    Jetson(Jetson),
    Card(Nvml),
}

impl Source {
    /// `/sys` is looked up in `root`.
    fn find(root: &Path, name: Option<&str>) -> Option<Source> {
        if let Some(jetson) = Jetson::find(root) {
            return Some(Source::Jetson(jetson));
        }
        let card = Nvml::open(name).inspect_err(|missing| log::info!("no figures of the GPU: {missing}"));
        card.ok().map(Source::Card)
    }

    fn read(&mut self) -> GpuFigures {
        match self {
            Source::Jetson(jetson) => jetson.read(),
            Source::Card(card) => {
                let figures = card.read();
                GpuFigures {
                    temperature_celsius: figures.temperature_celsius,
                    clock_mhz: figures.clock_mhz,
                    memory_clock_mhz: figures.memory_clock_mhz,
                    power_watts: figures.power_watts,
                    power_rail: None,
                    load: figures.load,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::device::sysfs::tree::Tree;

    #[test]
    fn figures_are_left_out_once_they_are_old() {
        let tree = Tree::of(&[("sys/devices/platform/gpu.0/load", "500\n")]);
        let root = tree.root().to_path_buf();
        let meter = GpuMeter::of(move || Jetson::find(&root).map(Source::Jetson)).unwrap();
        let until = std::time::Instant::now() + Duration::from_secs(60);
        while meter.newest().is_none() {
            assert!(std::time::Instant::now() < until, "no figures within a minute");
            thread::sleep(Duration::from_millis(1));
        }
        meter.ended.store(true, Ordering::Relaxed);
        // The thread drops its copy of `ended` when it ends; after that, nothing updates the figures.
        while Arc::strong_count(&meter.ended) > 1 {
            assert!(std::time::Instant::now() < until, "the meter has not ended within a minute");
            thread::sleep(Duration::from_millis(1));
        }
        let at = meter.newest.lock().unwrap().as_ref().unwrap().0;
        let load = |later| meter.newest_at(at + later).and_then(|figures| figures.load);
        assert_eq!(load(STALE_AFTER), Some(0.5));
        assert_eq!(load(STALE_AFTER + STALE_AFTER), None);
    }

    #[test]
    fn a_machine_without_a_gpu_has_no_figures() {
        let nothing = Tree::of(&[("sys/class/thermal/thermal_zone0/type", "cpu-thermal\n")]);
        assert!(Jetson::find(nothing.root()).is_none());
        let meter = GpuMeter::of(|| None).unwrap();
        assert_eq!(meter.newest(), None);
    }
}
