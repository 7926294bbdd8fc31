//! The field of 256 elements: bytes as polynomials over two elements, modulo x^8 + x^4 + x^3 + x^2
//! + 1.

/// The modulus without its leading term.
const MODULUS: u8 = 0x1d;

/// Doubles a number: multiplies the polynomial by x.
pub(super) const fn double(a: u8) -> u8 {
    let carried = if a >> 7 == 1 { MODULUS } else { 0 };
    a << 1 ^ carried
}

/// Returns the product of two numbers. Their sum is `^`.
pub(super) const fn product(a: u8, b: u8) -> u8 {
    let mut sum = 0;
    let mut bit = 8;
    while bit > 0 {
        bit -= 1;
        sum = double(sum);
        if b >> bit & 1 == 1 {
            sum ^= a;
        }
    }
    sum
}

/// Returns the multiplicative inverse: the 254th power, because the 255th power of any non-zero
/// number is 1.
pub(super) const fn inverse(a: u8) -> u8 {
    assert!(a != 0, "nothing times 0 is 1");
    let (mut square, mut power) = (a, 1);
    let mut bit = 1;
    while bit < u8::BITS {
        square = product(square, square);
        power = product(power, square);
        bit += 1;
    }
    power
}

/// A factor and tables of its products: one with all numbers whose upper four bits are 0, and one
/// with all numbers whose lower four bits are 0. The product with any number is the sum of an entry
/// of each table. Both tables are stored twice, for instructions that look up in two halves of a
/// register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Factor {
    pub(super) number: u8,
    pub(super) low: [u8; 32],
    pub(super) high: [u8; 32],
}

impl Factor {
    pub(super) fn new(number: u8) -> Factor {
        let of = |shift| std::array::from_fn(|at| product(number, (at as u8 & 15) << shift));
        Factor {
            number,
            low: of(0),
            high: of(4),
        }
    }

    pub(super) fn times(&self, other: u8) -> u8 {
        self.low[usize::from(other & 15)] ^ self.high[usize::from(other >> 4)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_axioms_hold() {
        for a in 0..=255 {
            assert_eq!(product(a, 1), a);
            assert_eq!(product(a, 2), double(a));
            assert_eq!(product(a, 0), 0);
            if a != 0 {
                assert_eq!(product(a, inverse(a)), 1);
            }
            let factor = Factor::new(a);
            for b in 0..=255 {
                assert_eq!(product(a, b), product(b, a));
                assert_eq!(factor.times(b), product(a, b));
                let c = a.wrapping_mul(31) ^ b.rotate_left(3);
                assert_eq!(product(a, b ^ c), product(a, b) ^ product(a, c));
                assert_eq!(product(a, product(b, c)), product(product(a, b), c));
            }
        }
    }
}
