//! The map on its own thread: the thread that reads the trace feeds it, and the control server queries it.
//! The tick waits for none of these threads: the map's readings reach it like those of any other sensor.

use super::{MOST_THINGS, Map, MapStatus, Scene};
use crate::base::frame::Reading;
use crate::base::time::{Clock, Instant, Span};
use crate::decision::motion::MotionModel;
use crate::drive::io::Outlet;
use crate::drive::trace::Record;
use crate::memory::fault::Fault;
use crate::system::executor::Worker;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Capacity of the ring from the trace to the map, in slots: ten seconds at 100 Hz. Slots that do not fit are
/// dropped and counted.
const RING: usize = 1024;

/// The sending end of the ring, for the thread that reads the trace.
pub struct Feed {
    ring: rtrb::Producer<Scene>,
    motion: MotionModel,
    by: heapless::Vec<usize, MOST_THINGS>,
    dropped: Arc<AtomicU64>,
}

impl Feed {
    /// Sends a slot to the map; counts it as dropped if the ring is full.
    pub fn send(&mut self, record: &Record) {
        let (motors, samples) = (&record.command.motors, record.frame.used());
        let scene = Scene::of(record.slot, motors, samples, &self.motion, &self.by);
        if self.ring.push(scene).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The map, for queries from other threads.
#[derive(Clone)]
pub struct Recollection {
    map: Arc<Mutex<Map>>,
    dropped: Arc<AtomicU64>,
}

impl Recollection {
    /// A summary of the map, with the things near `near`, or near the robot if `None`.
    pub fn status(&self, near: Option<[f64; 2]>) -> Result<MapStatus, Fault> {
        let status = self.with(|map| map.status(near))?;
        Ok(MapStatus { dropped: self.dropped.load(Ordering::Relaxed), ..status })
    }

    /// Runs `what` on the map. The map's own thread may wait for it; the tick does not.
    pub fn with<T>(&self, what: impl FnOnce(&mut Map) -> T) -> T {
        what(&mut self.map.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Feeds new slots to the map, once a period, and publishes how similar the present place is to where each
/// thing was.
pub struct MapWorker {
    scenes: rtrb::Consumer<Scene>,
    recollection: Recollection,
    outlet: Outlet,
    period: Span,
    /// The last failure; a repetition of it is not logged.
    fault: Option<Fault>,
}

/// Splits a map into its worker, the feed for the thread that reads the trace, and the handle for queries.
pub fn feed(map: Map, outlet: Outlet, period: Span) -> (MapWorker, Feed, Recollection) {
    let (ring, scenes) = rtrb::RingBuffer::new(RING);
    let dropped = Arc::new(AtomicU64::new(0));
    let (motion, by) = (map.motion().clone(), map.things().map(|thing| thing.by).collect());
    let recollection = Recollection { map: Arc::new(Mutex::new(map)), dropped: dropped.clone() };
    let worker = MapWorker { scenes, recollection: recollection.clone(), outlet, period, fault: None };
    (worker, Feed { ring, motion, by, dropped }, recollection)
}

impl MapWorker {
    fn take_in(scenes: &mut rtrb::Consumer<Scene>, map: &mut Map, outlet: &mut Outlet) -> Result<(), Fault> {
        let mut newest = None;
        while let Ok(scene) = scenes.pop() {
            map.take(&scene)?;
            newest = Some(scene.slot);
        }
        // Without a new slot, there is no new reading, so the last reading in the tick ages.
        let Some(stamp) = newest else { return Ok(()) };
        for thing in 0..map.things().count() {
            let value = Ok(map.likeness_here(thing)?);
            let channel = map.things().nth(thing).map_or(0, |thing| thing.channel);
            outlet.stage(Reading { channel, value, stamp });
        }
        Ok(())
    }
}

impl Worker for MapWorker {
    fn name(&self) -> &'static str {
        "map"
    }

    fn step(&mut self, clock: &dyn Clock) -> Instant {
        let MapWorker { scenes, recollection, outlet, fault, .. } = self;
        let done = recollection.with(|map| MapWorker::take_in(scenes, map, outlet));
        if let Err(found) = done
            && *fault != Some(found)
        {
            log::warn!("the map: {found}");
            *fault = Some(found);
        }
        clock.now() + self.period
    }

    fn publish(&mut self, _clock: &dyn Clock) {
        self.outlet.publish();
    }
}
