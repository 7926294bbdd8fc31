//! Search areas, and the ranges of scores that contain their members.

use super::geohash::{
    EARTH_RADIUS, LATITUDE_MAX, LONGITUDE_MAX, Position, STEP_MAX, gather, spread,
};
use std::f64::consts::{FRAC_PI_2, PI};
use std::ops::Range;

/// Bits per coordinate of the smallest cells of a search. The geohashes at the ends of such a cell
/// are exact scores, also beyond 2^53.
const CELL_STEP_MAX: u32 = STEP_MAX - 1;
/// Added to bounds against errors of rounding. The smallest cells are larger.
const ROUNDING_DEGREES: f64 = 1e-7;
/// Half the length of the equator on a Mercator map, in metres.
const MERCATOR_MAX: f64 = 20_037_726.37;

/// Area around a position. Lengths are in metres.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extent {
    /// All positions within this distance.
    Circle(f64),
    /// A rectangle of this width (east to west) and height.
    Rectangle(f64, f64),
}

/// Area of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Centre of the area.
    pub centre: Position,
    /// Extent of the area.
    pub extent: Extent,
}

/// Cell of a grid of 2^step columns and rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    column: u64,
    row: u64,
    step: u32,
}

impl Cell {
    fn at(position: &Position, step: u32) -> Cell {
        let bits = position.encode(step);
        let last = (1u64 << step) - 1;
        Cell {
            column: gather(bits >> 1).min(last),
            row: gather(bits).min(last),
            step,
        }
    }

    fn last(self) -> u64 {
        (1u64 << self.step) - 1
    }

    /// Returns the cell some columns to the east and rows to the north. Columns wrap around.
    /// Returns `None` beyond the northern or southern edge of the map.
    fn beside(self, (east, north): (i64, i64)) -> Option<Cell> {
        let row = self.row.checked_add_signed(north);
        let row = row.filter(|row| *row <= self.last())?;
        Some(Cell {
            column: self.column.wrapping_add_signed(east) & self.last(),
            row,
            step: self.step,
        })
    }

    /// Returns the width and the height in degrees.
    fn size(self) -> (f64, f64) {
        let cells = (1u64 << self.step) as f64;
        (2.0 * LONGITUDE_MAX / cells, 2.0 * LATITUDE_MAX / cells)
    }

    /// Returns the western, southern, eastern and northern edge in degrees.
    fn edges(self) -> [f64; 4] {
        let (width, height) = self.size();
        [
            self.column as f64 * width - LONGITUDE_MAX,
            self.row as f64 * height - LATITUDE_MAX,
            (self.column + 1) as f64 * width - LONGITUDE_MAX,
            (self.row + 1) as f64 * height - LATITUDE_MAX,
        ]
    }

    /// Adds the stored geohashes in the cell to `ranges`. The positions on the eastern and the
    /// northern edge of the map have geohashes of a column and a row beyond the last ones.
    fn add_geohashes(self, ranges: &mut Vec<Range<u64>>) {
        let beyond = |index: u64| index + u64::from(index == self.last());
        for column in self.column..=beyond(self.column) {
            for row in self.row..=beyond(self.row) {
                let bits = spread(row) | spread(column) << 1;
                let shift = 2 * (STEP_MAX - self.step);
                let range = bits << shift..(bits + 1) << shift;
                if !ranges.contains(&range) {
                    ranges.push(range);
                }
            }
        }
    }
}

/// Offsets of a cell and its neighbours in the order in which Redis visits them.
const AROUND: [(i64, i64); 9] = [
    (0, 0),
    (0, 1),
    (0, -1),
    (1, 0),
    (-1, 0),
    (1, 1),
    (-1, 1),
    (1, -1),
    (-1, -1),
];

impl Shape {
    /// Returns the distance of a position from the centre in metres, if it is in the area.
    pub fn distance(&self, position: &Position) -> Option<f64> {
        match self.extent {
            Extent::Circle(radius) => {
                let distance = self.centre.distance(position);
                (distance <= radius).then_some(distance)
            }
            Extent::Rectangle(width, height) => {
                if position.north_south_distance(&self.centre) > height / 2.0 {
                    return None;
                }
                let same_latitude = Position {
                    longitude: self.centre.longitude,
                    latitude: position.latitude,
                };
                let is_within = position.distance(&same_latitude) <= width / 2.0;
                is_within.then(|| self.centre.distance(position))
            }
        }
    }

    /// Returns the western, southern, eastern and northern bound of the positions in the area, in
    /// degrees. A bound may lie beyond the edge of the map.
    fn bounds(&self) -> [f64; 4] {
        let (width, height) = match self.extent {
            Extent::Circle(radius) => (radius, radius),
            Extent::Rectangle(width, height) => (width / 2.0, height / 2.0),
        };
        let (width, rise) = (width / EARTH_RADIUS, height / EARTH_RADIUS);
        // A degree of longitude is shortest at the end that is nearer to a pole.
        let steepest = self.centre.latitude.abs().to_radians() + rise;
        let reach = match self.extent {
            // A path of the length of the radius crosses the most degrees there. A circle around a
            // pole has positions of all longitudes.
            Extent::Circle(_) if steepest < FRAC_PI_2 => width / steepest.cos(),
            Extent::Circle(_) => PI,
            // The width is measured along a great circle, which is shorter than the parallel.
            Extent::Rectangle(..) => {
                let narrowest = steepest.min(LATITUDE_MAX.to_radians()).cos();
                let sine = (width / 2.0).min(FRAC_PI_2).sin() / narrowest;
                2.0 * sine.min(1.0).asin()
            }
        };
        let rise = rise.to_degrees() + ROUNDING_DEGREES;
        let reach = reach.to_degrees().min(LONGITUDE_MAX) + ROUNDING_DEGREES;
        [
            self.centre.longitude - reach,
            self.centre.latitude - rise,
            self.centre.longitude + reach,
            self.centre.latitude + rise,
        ]
    }

    /// Returns the number of bits per coordinate at which a cell is about as large as the area.
    fn step(&self) -> u32 {
        let mut range = match self.extent {
            Extent::Circle(radius) => radius,
            Extent::Rectangle(width, height) => (width / 2.0).hypot(height / 2.0),
        };
        if range == 0.0 {
            return CELL_STEP_MAX;
        }
        let mut step = 1i32;
        while range < MERCATOR_MAX {
            range *= 2.0;
            step += 1;
        }
        step -= 2;
        // Near the poles a cell is narrower.
        let latitude = self.centre.latitude.abs();
        step -= i32::from(latitude > 66.0) + i32::from(latitude > 80.0);
        step.clamp(1, CELL_STEP_MAX as i32) as u32
    }

    /// Returns the ranges of geohashes of at most nine cells, which include all positions in the
    /// area.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        let bounds = self.bounds();
        let mut cell = Cell::at(&self.centre, self.step());
        while cell.step > 1 && !is_covered(cell, &bounds) {
            cell = Cell::at(&self.centre, cell.step - 1);
        }
        let edges = cell.edges();
        let is_needed = |(east, north): (i64, i64)| {
            !((north < 0 && edges[1] < bounds[1])
                || (north > 0 && edges[3] > bounds[3])
                || (east < 0 && edges[0] < bounds[0])
                || (east > 0 && edges[2] > bounds[2]))
        };
        let mut ranges: Vec<Range<u64>> = Vec::with_capacity(AROUND.len());
        for offset in AROUND.into_iter().filter(|offset| is_needed(*offset)) {
            if let Some(cell) = cell.beside(offset) {
                cell.add_geohashes(&mut ranges);
            }
        }
        ranges
    }
}

/// Whether a cell and its neighbours include the part of the map within the bounds.
fn is_covered(cell: Cell, bounds: &[f64; 4]) -> bool {
    let ((width, height), edges) = (cell.size(), cell.edges());
    edges[0] - width <= bounds[0]
        && edges[1] - height <= bounds[1].max(-LATITUDE_MAX)
        && edges[2] + width >= bounds[2]
        && edges[3] + height >= bounds[3].min(LATITUDE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns coordinates up to `max`, among them many at and near the edges of the map.
    fn coordinate(max: f64) -> impl Strategy<Value = f64> {
        let near = (0.0..1e-4f64).prop_map(move |distance| max - distance);
        let side = prop_oneof![Just(1.0), Just(-1.0)];
        let edge = prop_oneof![Just(max), near];
        prop_oneof![-max..max, (side, edge).prop_map(|(side, edge)| side * edge)]
    }

    fn position() -> impl Strategy<Value = Position> {
        let both = (coordinate(LONGITUDE_MAX), coordinate(LATITUDE_MAX));
        both.prop_map(|(longitude, latitude)| Position {
            longitude,
            latitude,
        })
    }

    fn extent() -> impl Strategy<Value = Extent> {
        let length = || prop_oneof![Just(0.0), (0.0..7.5f64).prop_map(|e| 10f64.powf(e))];
        prop_oneof![
            length().prop_map(Extent::Circle),
            (length(), length()).prop_map(|(w, h)| Extent::Rectangle(w, h)),
        ]
    }

    /// Returns the score that GEOADD stores. Beyond 2^53, where the eastern edge is, numbers are
    /// rounded.
    fn score(position: &Position) -> u64 {
        position.encode(STEP_MAX) as f64 as u64
    }

    /// Checks that if a stored position is in the area, its score is in one of the ranges. Ranges
    /// are compared as scores, as in a search.
    fn check(shape: &Shape, score: u64) -> Result<(), TestCaseError> {
        let ranges = shape.ranges();
        let is_in = |range: &&Range<u64>| {
            let (start, end) = (range.start as f64, range.end as f64);
            (start..end).contains(&(score as f64))
        };
        let count = ranges.iter().filter(is_in).count();
        prop_assert!(count <= 1, "no member is found twice");
        let is_within = shape.distance(&Position::decode(score)).is_some();
        prop_assert!(count == 1 || !is_within, "{:?} of {:?}", score, ranges);
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        /// Regression: positions on the eastern and the northern edge of the map were in no range,
        /// and areas near the poles and wide rectangles were not covered.
        #[test]
        fn the_ranges_include_the_area(
            centre in position(),
            other in position(),
            extent in extent(),
            east in -1.0..1.0f64,
            north in -1.0..1.0f64,
        ) {
            let shape = Shape { centre, extent };
            check(&shape, score(&other))?;
            check(&shape, score(&centre))?;
            let (width, height) = match extent {
                Extent::Circle(radius) => (radius, radius),
                Extent::Rectangle(width, height) => (width / 2.0, height / 2.0),
            };
            let degrees = |metres: f64| (metres / EARTH_RADIUS).to_degrees();
            let latitude = (centre.latitude + north * degrees(height)).clamp(-LATITUDE_MAX, LATITUDE_MAX);
            let longitude = centre.longitude + east * degrees(width) / latitude.to_radians().cos();
            let longitude = (longitude + LONGITUDE_MAX).rem_euclid(2.0 * LONGITUDE_MAX) - LONGITUDE_MAX;
            check(&shape, score(&Position { longitude, latitude }))?;
        }
    }

    #[test]
    fn a_member_on_the_edge_of_the_map_is_found_from_its_own_position() {
        for longitude in [-LONGITUDE_MAX, 0.0, LONGITUDE_MAX] {
            for latitude in [-LATITUDE_MAX, 0.0, LATITUDE_MAX] {
                for length in [0.0, 1.0, 1e3, 1e6, 1e9] {
                    for extent in [Extent::Circle(length), Extent::Rectangle(length, length)] {
                        let score = score(&Position {
                            longitude,
                            latitude,
                        });
                        let centre = Position::decode(score);
                        check(&Shape { centre, extent }, score).expect("it is found");
                    }
                }
            }
        }
    }
}
