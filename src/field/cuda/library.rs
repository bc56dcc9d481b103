//! Memory of the library on the device. Slots are allocated when patterns are stored, a few at a time and
//! never during a cycle, so that an empty library takes almost no memory.

use super::brain::Brain;
use crate::base::plan::FieldPlan;
use crate::field::shape::PATTERN;
use crate::system::gpu::{GpuError, Pool};

/// Slots per allocation: a driver allocates in pieces of 2 MB, and a single slot (1.2 MB on the usual grid)
/// would waste much of a piece.
const SLOTS: usize = 8;

/// Which slots have memory, and where.
pub struct Library {
    pools: Vec<Pool>,
    /// Number of slots that have memory.
    taken: usize,
    /// Addresses of each slot's volumes, for the full grid and the half grid.
    places: Vec<Option<[u64; 2]>>,
    /// Bytes of a volume on each grid.
    bytes: [usize; 2],
}

impl Library {
    /// An empty library.
    pub fn new(plan: &FieldPlan) -> Library {
        let cells = plan.shape.cells();
        let bytes = [cells, cells / 8].map(volume_bytes);
        Library { pools: Vec::new(), taken: 0, places: vec![None; plan.shape.patterns], bytes }
    }

    /// Bytes on the device.
    pub fn bytes(&self) -> usize {
        self.pools.iter().map(Pool::bytes).sum()
    }

    /// The addresses of a slot, if it has memory.
    pub fn place(&self, slot: usize) -> Option<[u64; 2]> {
        self.places.get(slot).copied().flatten()
    }
}

/// Bytes of a stored volume on a grid of `cells` cells.
pub fn volume_bytes(cells: usize) -> usize {
    PATTERN * cells * size_of::<i16>()
}

impl Brain {
    /// The memory of a slot, which must exist; allocates it if needed, and tells the kernels its address.
    pub(super) fn slot(&mut self, slot: usize) -> Result<[u64; 2], GpuError> {
        if let Some(place) = self.library.place(slot) {
            return Ok(place);
        }
        let Library { bytes: [whole, half], taken, .. } = self.library;
        let left = self.plan.shape.patterns - taken;
        if taken.is_multiple_of(SLOTS) {
            self.library.pools.push(Pool::take(&self.launcher.gpu, SLOTS.min(left) * (whole + half))?);
        }
        let pool = self.library.pools[taken / SLOTS].address();
        let first = pool + (taken % SLOTS * (whole + half)) as u64;
        let place = [first, first + whole as u64];
        for (table, address) in self.layout.volumes.into_iter().zip(place) {
            self.put(table, slot * size_of::<u64>(), &address.to_le_bytes())?;
        }
        self.library.places[slot] = Some(place);
        self.library.taken += 1;
        Ok(place)
    }

    /// Writes a stored volume on both grids.
    pub(super) fn put_volumes(&mut self, slot: usize, volumes: [&[u8]; 2]) -> Result<(), GpuError> {
        let place = self.slot(slot)?;
        place.into_iter().zip(volumes).try_for_each(|(address, bytes)| self.put_at(address, bytes))
    }

    /// Points every slot to zeros until it has memory, because the blend of a restored state may still name a
    /// slot that was cleared before the save.
    pub(super) fn empty_library(&self) -> Result<(), GpuError> {
        for (table, nothing) in self.layout.volumes.into_iter().zip(self.layout.no_volume) {
            let address = self.address(nothing).to_le_bytes();
            self.launcher.main.fill(self.address(nothing), 0, nothing.bytes)?;
            self.put(table, 0, &address.repeat(self.plan.shape.patterns))?;
        }
        Ok(())
    }
}
