//! Curves of a whole run in bounded memory. The cells of all curves have the same number of slots. When the
//! cells run out, each pair of neighbours is merged into one, which keeps the smallest and the largest value
//! in order of time. So no peak is lost, however long the run is.

use crate::base::time::Span;

/// Maximum number of values on a page, all curves together, for up to 300 curves. As base64 of 32-bit numbers
/// they take 5.3 bytes each, so the curves take at most 3.2 MB.
const VALUES: usize = 600_000;
/// Minimum number of cells, however many curves there are: about one for each pixel of a wide screen.
const FEWEST_CELLS: usize = 1_000;

/// What a cell keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The smallest and the largest value.
    Extremes,
    /// The newest value.
    Newest,
}

/// Index of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurveId(usize);

/// Two values in order of time; NaN if there was none.
type Cell = [f32; 2];

/// The curves of a run.
#[derive(Debug)]
pub struct Curves {
    period: Span,
    /// Slots per cell.
    width: u64,
    /// Maximum number of cells with two values each.
    most: usize,
    curves: Vec<(Keep, Vec<Cell>)>,
}

impl Curves {
    /// An empty set with room for `expected` curves, whose slots are `period` apart.
    pub fn new(expected: usize, period: Span) -> Curves {
        let most = (VALUES / 2 / expected.max(1)).max(FEWEST_CELLS);
        Curves { period, width: 1, most, curves: Vec::new() }
    }

    /// Adds a curve without values.
    pub fn add(&mut self, keep: Keep) -> CurveId {
        self.curves.push((keep, Vec::new()));
        CurveId(self.curves.len() - 1)
    }

    /// Slots per cell.
    pub fn width(&self) -> u64 {
        self.width
    }

    /// Duration of a cell, seconds.
    pub fn cell_s(&self) -> f64 {
        self.period.as_secs_f64() * self.width as f64
    }

    /// Adds a value; `at` is the time since the first slot.
    pub fn put(&mut self, CurveId(curve): CurveId, at: Span, value: f32) {
        if !value.is_finite() {
            return;
        }
        let period = self.period.as_nanos().max(1);
        // Slots are due on a grid; adding half a period rounds to the nearest one.
        let slot = at.as_nanos().saturating_add(period / 2) / period;
        while slot / self.width >= self.cells() as u64 {
            self.halve();
        }
        let (keep, cells) = &mut self.curves[curve];
        let cell = (slot / self.width) as usize; // below `cells()`
        if cells.len() <= cell {
            cells.resize(cell + 1, [f32::NAN; 2]);
        }
        cells[cell] = merged(*keep, cells[cell], [value; 2]);
    }

    /// Maximum number of cells: twice as many while a cell is a single slot, which has only one value.
    fn cells(&self) -> usize {
        if self.width == 1 { 2 * self.most } else { self.most }
    }

    fn halve(&mut self) {
        self.width = self.width.saturating_mul(2);
        for (keep, cells) in &mut self.curves {
            let pairs = cells.chunks(2).map(|pair| match *pair {
                [first, later] => merged(*keep, first, later),
                _ => pair[0],
            });
            *cells = pairs.collect();
        }
    }

    /// How many cells are in use.
    pub fn used(&self) -> usize {
        self.curves.iter().map(|(_, cells)| cells.len()).max().unwrap_or(0)
    }

    /// The values of a curve, for every cell in use: one per cell if the curve keeps the newest value or a
    /// cell is a single slot, otherwise two.
    pub fn values(&self, CurveId(curve): CurveId) -> Vec<f32> {
        let (keep, cells) = &self.curves[curve];
        let each = if self.width > 1 && *keep == Keep::Extremes { 2 } else { 1 };
        let mut values: Vec<f32> = cells.iter().flat_map(|cell| &cell[2 - each..]).copied().collect();
        values.resize(self.used() * each, f32::NAN);
        values
    }
}

fn merged(keep: Keep, first: Cell, later: Cell) -> Cell {
    if keep == Keep::Newest {
        return if later[1].is_nan() { first } else { later };
    }
    let all = [first[0], first[1], later[0], later[1]];
    let (mut low, mut high): (Option<usize>, Option<usize>) = (None, None);
    for (place, value) in all.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
        if low.is_none_or(|low| *value < all[low]) {
            low = Some(place);
        }
        if high.is_none_or(|high| *value > all[high]) {
            high = Some(place);
        }
    }
    match (low, high) {
        (Some(low), Some(high)) => [all[low.min(high)], all[low.max(high)]],
        _ => [f32::NAN; 2],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Span = Span::from_millis(10);

    #[test]
    fn a_short_run_keeps_every_value() {
        let mut curves = Curves::new(1, PERIOD);
        let curve = curves.add(Keep::Extremes);
        for slot in [0, 1, 3] {
            curves.put(curve, PERIOD.times(slot), slot as f32);
        }
        let values = curves.values(curve);
        assert_eq!((curves.width(), &values[..2], values[3]), (1, &[0.0, 1.0][..], 3.0));
        assert!(values[2].is_nan(), "a slot that is missing is a gap");
    }

    #[test]
    fn a_long_run_loses_no_peak_and_stays_in_its_room() {
        let mut curves = Curves::new(60, PERIOD);
        let (curve, way) = (curves.add(Keep::Extremes), curves.add(Keep::Newest));
        let slots = 1_000_000;
        for slot in 0..slots {
            let value = match slot {
                123_456 => 9.0,
                654_321 => -9.0,
                _ => (slot % 7) as f32 / 7.0,
            };
            curves.put(curve, PERIOD.times(slot), value);
            curves.put(way, PERIOD.times(slot), slot as f32);
        }
        let values = curves.values(curve);
        assert_eq!(values.len(), 2 * curves.used());
        assert!(values.len() * 60 <= VALUES, "{}", values.len());
        let peak = values.iter().position(|value| *value == 9.0).expect("the largest value");
        assert_eq!((peak / 2) as u64, 123_456 / curves.width(), "at its place");
        let low = values.iter().position(|value| *value == -9.0).expect("the smallest value");
        assert_eq!((low / 2) as u64, 654_321 / curves.width());
        let way = curves.values(way);
        assert_eq!((way.len(), way.last()), (curves.used(), Some(&(slots as f32 - 1.0))));
        assert!(way.is_sorted(), "the newest of each cell");
    }

    #[test]
    fn the_order_within_a_cell_is_the_order_in_time() {
        assert_eq!(merged(Keep::Extremes, [1.0, 3.0], [2.0, 0.0]), [3.0, 0.0]);
        assert_eq!(merged(Keep::Extremes, [f32::NAN; 2], [2.0, 2.0]), [2.0, 2.0]);
        assert_eq!(merged(Keep::Newest, [1.0, 1.0], [f32::NAN; 2]), [1.0, 1.0]);
    }

    #[test]
    fn a_time_far_away_costs_no_memory() {
        let mut curves = Curves::new(1, PERIOD);
        let curve = curves.add(Keep::Extremes);
        curves.put(curve, Span::ZERO, 1.0);
        curves.put(curve, Span::from_nanos(u64::MAX), 2.0);
        assert!(curves.used() <= VALUES);
        assert_eq!(curves.values(curve)[0], 1.0);
    }
}
