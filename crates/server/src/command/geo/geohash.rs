//! Geohashes of 52 bits, as Redis stores them in scores: 26 bits of longitude and 26 of latitude,
//! interleaved, so that positions in one cell of a grid have scores in one range.
//!
//! The latitude is limited to that of the Mercator projection for maps (EPSG:3857). The constants
//! and formulas are those that Redis clients observe: positions, distances and geohash strings
//! agree in every digit.

/// Bits per coordinate of a stored geohash.
pub const STEP_MAX: u32 = 26;
/// Largest longitude in degrees.
pub const LONGITUDE_MAX: f64 = 180.0;
/// Largest latitude in degrees that can be stored.
pub const LATITUDE_MAX: f64 = 85.051_128_78;
/// Earth radius in metres, used for distances.
pub const EARTH_RADIUS: f64 = 6_372_797.560_856;

const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";

/// A position on the Earth, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Position {
    /// Longitude, positive to the east.
    pub longitude: f64,
    /// Latitude, positive to the north.
    pub latitude: f64,
}

impl Position {
    /// Whether the position can be stored.
    pub fn is_valid(&self) -> bool {
        self.longitude.abs() <= LONGITUDE_MAX && self.latitude.abs() <= LATITUDE_MAX
    }

    /// Returns the geohash with `step` bits per coordinate.
    pub fn encode(&self, step: u32) -> u64 {
        self.encode_within(step, LATITUDE_MAX)
    }

    fn encode_within(&self, step: u32, latitude_max: f64) -> u64 {
        let cells = (1u64 << step) as f64;
        let longitude = (self.longitude + LONGITUDE_MAX) / (2.0 * LONGITUDE_MAX);
        let latitude = (self.latitude + latitude_max) / (2.0 * latitude_max);
        // The conversion to an integer rounds down. The largest latitude and longitude are in a
        // cell of their own beyond the last one.
        spread((latitude * cells) as u64) | spread((longitude * cells) as u64) << 1
    }

    /// Returns the position of a stored geohash: the centre of its cell.
    pub fn decode(bits: u64) -> Position {
        let cells = f64::from(1u32 << STEP_MAX);
        let centre = |index: u64, max: f64| {
            let at = |index: f64| -max + (index / cells) * (2.0 * max);
            let index = index as f64;
            ((at(index) + at(index + 1.0)) / 2.0).clamp(-max, max)
        };
        Position {
            longitude: centre(gather(bits >> 1), LONGITUDE_MAX),
            latitude: centre(gather(bits), LATITUDE_MAX),
        }
    }

    /// Returns the geohash string of 11 characters by which web services name positions. It uses
    /// latitudes up to 90 degrees.
    pub fn text(&self) -> [u8; 11] {
        let bits = self.encode_within(STEP_MAX, 90.0);
        std::array::from_fn(|i| {
            // 52 bits fill ten characters and two bits; Redis writes 0 for the last one.
            let shift = 52u32.checked_sub((i as u32 + 1) * 5);
            ALPHABET[shift.map_or(0, |shift| (bits >> shift) as usize & 31)]
        })
    }

    /// Returns the distance to another position in metres, by the haversine formula.
    pub fn distance(&self, other: &Position) -> f64 {
        let v = ((other.longitude.to_radians() - self.longitude.to_radians()) / 2.0).sin();
        if v == 0.0 {
            return self.north_south_distance(other);
        }
        let (one, two) = (self.latitude.to_radians(), other.latitude.to_radians());
        let u = ((two - one) / 2.0).sin();
        let a = u * u + one.cos() * two.cos() * v * v;
        2.0 * EARTH_RADIUS * a.sqrt().asin()
    }

    /// Returns the distance to the other position's latitude in metres.
    pub fn north_south_distance(&self, other: &Position) -> f64 {
        EARTH_RADIUS * (other.latitude.to_radians() - self.latitude.to_radians()).abs()
    }
}

/// Moves bit `i` of the lower 32 bits to bit `2 i`.
pub fn spread(bits: u64) -> u64 {
    let mut x = bits & 0xFFFF_FFFF;
    x = (x | x << 16) & 0x0000_FFFF_0000_FFFF;
    x = (x | x << 8) & 0x00FF_00FF_00FF_00FF;
    x = (x | x << 4) & 0x0F0F_0F0F_0F0F_0F0F;
    x = (x | x << 2) & 0x3333_3333_3333_3333;
    (x | x << 1) & 0x5555_5555_5555_5555
}

/// Moves bit `2 i` to bit `i`; the inverse of [`spread`].
pub fn gather(bits: u64) -> u64 {
    let mut x = bits & 0x5555_5555_5555_5555;
    x = (x | x >> 1) & 0x3333_3333_3333_3333;
    x = (x | x >> 2) & 0x0F0F_0F0F_0F0F_0F0F;
    x = (x | x >> 4) & 0x00FF_00FF_00FF_00FF;
    x = (x | x >> 8) & 0x0000_FFFF_0000_FFFF;
    (x | x >> 16) & 0xFFFF_FFFF
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_examples_of_the_documentation_of_redis_agree() {
        let palermo = Position {
            longitude: 13.361389,
            latitude: 38.115556,
        };
        let bits = palermo.encode(STEP_MAX);
        assert_eq!(bits, 3_479_099_956_230_698);
        let stored = Position::decode(bits);
        assert_eq!(format!("{:.17}", stored.longitude), "13.36138933897018433");
        assert_eq!(format!("{:.17}", stored.latitude), "38.11555639549629859");
        assert_eq!(&stored.text(), b"sqc8b49rny0");
        let catania = Position {
            longitude: 15.087269,
            latitude: 37.502669,
        };
        let catania = Position::decode(catania.encode(STEP_MAX));
        assert_eq!(format!("{:.4}", stored.distance(&catania)), "166274.1516");
    }

    proptest! {
        #[test]
        fn a_decoded_position_is_near_and_has_the_same_geohash(
            longitude in -180.0..180.0f64,
            latitude in -85.05..85.05f64,
        ) {
            let position = Position { longitude, latitude };
            let bits = position.encode(STEP_MAX);
            let decoded = Position::decode(bits);
            prop_assert!(position.distance(&decoded) < 0.6);
            prop_assert_eq!(decoded.encode(STEP_MAX), bits);
        }

        #[test]
        fn gather_is_the_inverse_of_spread(bits: u32) {
            prop_assert_eq!(gather(spread(u64::from(bits))), u64::from(bits));
        }
    }
}
