//! Areas of a search, and the ranges of scores in which their members are.

use super::geohash::{
    EARTH_RADIUS, LATITUDE_MAX, LONGITUDE_MAX, Position, STEP_MAX, gather, spread,
};
use std::ops::Range;

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

    /// Returns the cell some columns to the east and rows to the north. Both wrap around.
    fn beside(self, (east, north): (i64, i64)) -> Cell {
        let last = (1u64 << self.step) - 1;
        Cell {
            column: self.column.wrapping_add_signed(east) & last,
            row: self.row.wrapping_add_signed(north) & last,
            step: self.step,
        }
    }

    /// Returns the western, southern, eastern and northern edge in degrees.
    fn edges(self) -> [f64; 4] {
        let cells = (1u64 << self.step) as f64;
        let edge = |index: u64, max: f64| -max + (index as f64 / cells) * (2.0 * max);
        [
            edge(self.column, LONGITUDE_MAX),
            edge(self.row, LATITUDE_MAX),
            edge(self.column + 1, LONGITUDE_MAX),
            edge(self.row + 1, LATITUDE_MAX),
        ]
    }

    /// Returns the stored geohashes in the cell. The last column and row include the positions on
    /// the edge of the map, which have geohashes beyond it.
    fn geohashes(self) -> Range<u64> {
        let bits = spread(self.row) | spread(self.column) << 1;
        let shift = 2 * (STEP_MAX - self.step);
        bits << shift..(bits + 1) << shift
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

    /// Returns western, southern, eastern and northern bound in degrees.
    fn bounds(&self) -> [f64; 4] {
        let (width, height) = match self.extent {
            Extent::Circle(radius) => (radius, radius),
            Extent::Rectangle(width, height) => (width / 2.0, height / 2.0),
        };
        let Position {
            longitude,
            latitude,
        } = self.centre;
        let rise = (height / EARTH_RADIUS).to_degrees();
        // A degree of longitude is shortest at the end that is nearer to the pole.
        let widest = if latitude < 0.0 {
            latitude - rise
        } else {
            latitude + rise
        };
        let reach = (width / EARTH_RADIUS / widest.to_radians().cos()).to_degrees();
        [
            longitude - reach,
            latitude - rise,
            longitude + reach,
            latitude + rise,
        ]
    }

    /// Returns the number of bits per coordinate at which a cell is about as large as the area.
    fn step(&self) -> u32 {
        let mut range = match self.extent {
            Extent::Circle(radius) => radius,
            Extent::Rectangle(width, height) => (width / 2.0).hypot(height / 2.0),
        };
        if range == 0.0 {
            return STEP_MAX;
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
        step.clamp(1, STEP_MAX as i32) as u32
    }

    /// Returns at most nine ranges of geohashes that include all positions in the area.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        let bounds = self.bounds();
        let mut cell = Cell::at(&self.centre, self.step());
        if cell.step > 1 && !self.is_covered(cell, &bounds) {
            cell = Cell::at(&self.centre, cell.step - 1);
        }
        let edges = cell.edges();
        // With a step of 1 the grid is so coarse that every neighbour may matter.
        let is_needed = |(east, north): (i64, i64)| {
            cell.step < 2
                || !((north < 0 && edges[1] < bounds[1])
                    || (north > 0 && edges[3] > bounds[3])
                    || (east < 0 && edges[0] < bounds[0])
                    || (east > 0 && edges[2] > bounds[2]))
        };
        let mut ranges: Vec<Range<u64>> = Vec::with_capacity(AROUND.len());
        for offset in AROUND.into_iter().filter(|offset| is_needed(*offset)) {
            let range = cell.beside(offset).geohashes();
            if !ranges.contains(&range) {
                ranges.push(range);
            }
        }
        ranges
    }

    /// Whether a cell and its neighbours cover the bounds.
    fn is_covered(&self, cell: Cell, bounds: &[f64; 4]) -> bool {
        let edge = |offset, index: usize| cell.beside(offset).edges()[index];
        edge((0, 1), 3) >= bounds[3]
            && edge((0, -1), 1) <= bounds[1]
            && edge((1, 0), 2) >= bounds[2]
            && edge((-1, 0), 0) <= bounds[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Every position in the area has its geohash in one of the ranges, away from the poles and
        /// from the edge of the map.
        #[test]
        fn the_ranges_include_the_area(
            longitude in -150.0..150.0f64,
            latitude in -60.0..60.0f64,
            east in -1.0..1.0f64,
            north in -1.0..1.0f64,
            exponent in 0.0..6.0f64,
            is_circle: bool,
        ) {
            let length = 10f64.powf(exponent);
            let extent = match is_circle {
                true => Extent::Circle(length),
                false => Extent::Rectangle(length, length * 0.7),
            };
            let centre = Position { longitude, latitude };
            let shape = Shape { centre, extent };
            let degrees = (length / EARTH_RADIUS).to_degrees();
            let position = Position {
                longitude: longitude + east * 2.0 * degrees,
                latitude: latitude + north * degrees,
            };
            let position = Position::decode(position.encode(STEP_MAX));
            if shape.distance(&position).is_some() {
                let bits = position.encode(STEP_MAX);
                prop_assert!(shape.ranges().iter().any(|range| range.contains(&bits)));
            }
        }
    }
}
