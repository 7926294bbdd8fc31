//! The XOR of byte slices, which is the only operation that a code with one parity chunk needs.
//!
//! It consists of plain loops over bytes, which the compiler vectorises on any machine.

/// Number of bytes processed at a time. They stay in the L1 cache while more sources are added.
const TILE: usize = 4 << 10;

/// Number of sources read at a time.
const SOURCES: usize = 4;

/// Writes the XOR of the sources, which are as long as the result.
#[inline(always)]
pub(super) fn xor(sources: &[&[u8]], sum: &mut [u8]) {
    let len = sum.len();
    assert!(sources.iter().all(|source| source.len() == len));
    let (first, rest) = sources.split_at(sources.len().min(SOURCES));
    for begin in (0..len).step_by(TILE) {
        let end = len.min(begin + TILE);
        let sum = &mut sum[begin..end];
        let mut parts: [&[u8]; SOURCES] = [&[]; SOURCES];
        cut(first, begin..end, &mut parts);
        write(&parts[..first.len()], sum);
        for more in rest.chunks(SOURCES) {
            cut(more, begin..end, &mut parts);
            add(&parts[..more.len()], sum);
        }
    }
}

#[inline(always)]
fn cut<'a>(sources: &[&'a [u8]], range: std::ops::Range<usize>, parts: &mut [&'a [u8]; SOURCES]) {
    for (part, source) in parts.iter_mut().zip(sources) {
        *part = &source[range.clone()];
    }
}

#[inline(always)]
fn write(sources: &[&[u8]], sum: &mut [u8]) {
    match *sources {
        [a, b, c, d] => {
            let sources = a.iter().zip(b).zip(c).zip(d);
            for (sum, (((a, b), c), d)) in sum.iter_mut().zip(sources) {
                *sum = a ^ b ^ c ^ d;
            }
        }
        [a, b, c] => {
            for (sum, ((a, b), c)) in sum.iter_mut().zip(a.iter().zip(b).zip(c)) {
                *sum = a ^ b ^ c;
            }
        }
        [a, b] => {
            for (sum, (a, b)) in sum.iter_mut().zip(a.iter().zip(b)) {
                *sum = a ^ b;
            }
        }
        [a] => sum.copy_from_slice(a),
        _ => sum.fill(0),
    }
}

#[inline(always)]
fn add(sources: &[&[u8]], sum: &mut [u8]) {
    match *sources {
        [a, b, c, d] => {
            let sources = a.iter().zip(b).zip(c).zip(d);
            for (sum, (((a, b), c), d)) in sum.iter_mut().zip(sources) {
                *sum ^= a ^ b ^ c ^ d;
            }
        }
        _ => {
            for source in sources {
                for (sum, a) in sum.iter_mut().zip(*source) {
                    *sum ^= a;
                }
            }
        }
    }
}
