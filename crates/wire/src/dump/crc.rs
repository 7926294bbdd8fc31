//! The checksum: CRC-64 with Jones's polynomial, reflected, with an initial value of zero.

/// Bits of the polynomial in reverse order.
const POLYNOMIAL: u64 = 0x95AC_9329_AC4B_C9B5;

/// Bytes of a lane. Joining four lanes costs about as much as 2 KiB.
const LANE_BYTES: usize = 16 << 10;
/// Factor for a checksum when the bytes of a lane follow.
const LANE_FACTOR: u64 = factor(LANE_BYTES as u64);

/// `TABLES[n][byte]`: contribution of a byte to the sum if `n` more bytes follow it.
static TABLES: [[u64; 256]; 8] = tables();

const fn tables() -> [[u64; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            sum = (sum >> 1) ^ (POLYNOMIAL * (sum & 1));
            bit += 1;
        }
        tables[0][byte] = sum;
        byte += 1;
    }
    let mut more = 1;
    while more < 8 {
        let mut byte = 0;
        while byte < 256 {
            let sum: u64 = tables[more - 1][byte];
            tables[more][byte] = (sum >> 8) ^ tables[0][(sum & 0xFF) as usize];
            byte += 1;
        }
        more += 1;
    }
    tables
}

/// Returns the checksum of bytes.
pub(crate) fn crc64(bytes: &[u8]) -> u64 {
    crc64_after(0, bytes)
}

/// Returns the checksum of bytes that follow others with the checksum `sum`.
///
/// Each step of eight bytes needs the result of the previous one, so that the processor waits for
/// the tables. Four lanes, whose checksums are joined, let it work on four steps at a time.
pub(crate) fn crc64_after(mut sum: u64, bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<{ 4 * LANE_BYTES }>();
    for block in blocks {
        let (lanes, _) = block.as_chunks::<LANE_BYTES>();
        let words = |lane: usize| lanes[lane].as_chunks::<8>().0.iter();
        let mut sums = [sum, 0, 0, 0];
        for (((a, b), c), d) in words(0).zip(words(1)).zip(words(2)).zip(words(3)) {
            sums = [
                after_word(sums[0], a),
                after_word(sums[1], b),
                after_word(sums[2], c),
                after_word(sums[3], d),
            ];
        }
        sum = sums
            .into_iter()
            .fold(0, |sum, lane| multiplied(sum, LANE_FACTOR) ^ lane);
    }
    let (words, rest) = rest.as_chunks::<8>();
    for word in words {
        sum = after_word(sum, word);
    }
    for &byte in rest {
        sum = (sum >> 8) ^ TABLES[0][(sum as u8 ^ byte) as usize];
    }
    sum
}

#[inline(always)]
fn after_word(sum: u64, word: &[u8; 8]) -> u64 {
    let mixed = (sum ^ u64::from_le_bytes(*word)).to_le_bytes();
    (0..8).fold(0, |sum, at| sum ^ TABLES[7 - at][mixed[at] as usize])
}

/// Returns the checksum of two parts from the checksums of each and the length of the second.
///
/// A checksum is the remainder of a polynomial, so that bytes after a part multiply it by x^8 each.
pub(crate) fn crc64_joined(first: u64, second: u64, second_bytes: u64) -> u64 {
    multiplied(first, factor(second_bytes)) ^ second
}

/// Returns x^8 to the power of a number of bytes, modulo the checksum's polynomial.
const fn factor(bytes: u64) -> u64 {
    // The highest bit is the coefficient of x^0.
    let (mut factor, mut power, mut left) = (1 << 63, 1 << 55, bytes);
    while left > 0 {
        if left & 1 == 1 {
            factor = multiplied(factor, power);
        }
        power = multiplied(power, power);
        left >>= 1;
    }
    factor
}

/// Multiplies two polynomials modulo the checksum's polynomial.
const fn multiplied(one: u64, mut other: u64) -> u64 {
    let (mut product, mut bit) = (0, 64);
    while bit > 0 {
        bit -= 1;
        product ^= other * (one >> bit & 1);
        other = (other >> 1) ^ (POLYNOMIAL * (other & 1));
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_has_its_published_values() {
        assert_eq!(crc64(b""), 0);
        assert_eq!(crc64(b"123456789"), 0xE9C6_D914_C4B8_D9CA);
    }

    #[test]
    fn eight_bytes_at_a_time_have_the_same_checksum() {
        let bytes: Vec<u8> = (0..100u32).map(|n| (n * 37 % 251) as u8).collect();
        for end in 0..bytes.len() {
            let one = bytes[..end].iter().fold(0, |sum: u64, &byte| {
                (sum >> 8) ^ TABLES[0][(sum as u8 ^ byte) as usize]
            });
            assert_eq!(crc64(&bytes[..end]), one);
        }
    }

    #[test]
    fn lanes_have_the_same_checksum_as_single_bytes() {
        let block = 4 * LANE_BYTES;
        let bytes: Vec<u8> = (0..2 * block as u32 + 13)
            .map(|n| (n * 37 % 251) as u8)
            .collect();
        for end in [block - 1, block, block + 1, 2 * block, bytes.len()] {
            let one = bytes[..end].iter().fold(7, |sum: u64, &byte| {
                (sum >> 8) ^ TABLES[0][(sum as u8 ^ byte) as usize]
            });
            assert_eq!(crc64_after(7, &bytes[..end]), one, "{end}");
        }
    }

    #[test]
    fn the_checksum_of_parts_is_joined() {
        let bytes: Vec<u8> = (0..3000u32).map(|n| (n * 37 % 251) as u8).collect();
        for at in [0, 1, 9, 500, 2999, 3000] {
            let (first, second) = bytes.split_at(at);
            let joined = crc64_joined(crc64(first), crc64(second), second.len() as u64);
            assert_eq!(joined, crc64(&bytes), "{at}");
            assert_eq!(crc64_after(crc64(first), second), crc64(&bytes), "{at}");
        }
    }
}
