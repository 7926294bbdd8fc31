//! Sketches that count distinct elements in at most 12 KB. They are strings in Redis's format, so
//! that GET and SET transfer them between servers.
//!
//! Source: Philippe Flajolet, Éric Fusy, Olivier Gandouet, Frédéric Meunier, "HyperLogLog: the
//! analysis of a near-optimal cardinality estimation algorithm", AofA 2007. The estimate is that of
//! Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog sketches", arXiv:1702.01284,
//! 2017.
//!
//! ```text
//! head     "HYLL" │ encoding: 0 dense, 1 sparse │ 0 0 0 │ count: 8 bytes, little-endian;
//!          its highest bit: the count is out of date
//! dense    16,384 registers of 6 bits, each from the lowest free bit of its byte on
//! sparse   runs of equal registers in order, whose lengths add up to 16,384:
//!          00llllll            1 + l registers of 0
//!          01llllll llllllll   1 + l registers of 0, the high bits first
//!          1vvvvvll            1 + l registers of 1 + v
//! ```
//!
//! A register holds the greatest rank of its elements. The rank is one more than the number of low
//! zero bits in the part of the hash that does not select the register.

/// Number of hash bits that select a register.
const INDEX_BITS: u32 = 14;
/// Number of registers.
const COUNT: usize = 1 << INDEX_BITS;
/// Number of hash bits that determine the rank; the greatest rank is one more.
const RANK_BITS: usize = 64 - INDEX_BITS as usize;
const HEAD: usize = 16;
const DENSE_BYTES: usize = HEAD + COUNT * 6 / 8;
const ENCODING_AT: usize = 4;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
/// Position of the highest byte of the count. The highest bit of this byte marks the count as out
/// of date.
const STALE_AT: usize = 15;
const STALE: u8 = 0x80;
/// Maximum rank that the sparse form can store, maximum length of a run with a rank, and maximum
/// length of a run of zeros in one byte.
const SPARSE_RANK_MAX: u8 = 32;
const RANK_RUN_MAX: usize = 4;
const SHORT_ZEROS_MAX: usize = 64;
/// Seed of the hash, the same on all servers.
const HASH_SEED: u64 = 0xadc8_3b19;

const _: () = assert!(COUNT.is_multiple_of(4), "four registers are three bytes");

/// Reason why a string cannot be used as a sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The string is not a sketch.
    NoSketch,
    /// The string begins as a sketch, but the lengths of its runs do not add up.
    Corrupt,
}

/// Hash of an element: MurmurHash64A by Austin Appleby.
fn hash(element: &[u8]) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let mix = |word: u64| {
        let word = word.wrapping_mul(M);
        (word ^ word >> 47).wrapping_mul(M)
    };
    let mut state = HASH_SEED ^ (element.len() as u64).wrapping_mul(M);
    let (words, tail) = element.as_chunks::<8>();
    for word in words {
        state = (state ^ mix(u64::from_le_bytes(*word))).wrapping_mul(M);
    }
    if !tail.is_empty() {
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        state = (state ^ u64::from_le_bytes(last)).wrapping_mul(M);
    }
    state = (state ^ state >> 47).wrapping_mul(M);
    state ^ state >> 47
}

/// Returns the register that an element selects, and the rank of the element.
fn place(element: &[u8]) -> (usize, u8) {
    let hash = hash(element);
    let rest = hash >> INDEX_BITS | 1 << RANK_BITS;
    let rank = rest.trailing_zeros() as u8 + 1;
    (hash as usize % COUNT, rank)
}

/// One run of the sparse form.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Position of the run and its length in bytes.
    at: usize,
    bytes: usize,
    /// First register of the run. `len` is the number of registers, `rank` their common rank.
    first: usize,
    len: usize,
    rank: u8,
}

/// Iterator over the runs of a sparse sketch; the last item is `Corrupt` if their lengths do not
/// add up.
struct Runs<'a> {
    sketch: &'a [u8],
    at: usize,
    first: usize,
}

impl Runs<'_> {
    fn of(sketch: &[u8]) -> Runs<'_> {
        Runs {
            sketch,
            at: HEAD,
            first: 0,
        }
    }
}

impl Iterator for Runs<'_> {
    type Item = Result<Run, Flaw>;

    fn next(&mut self) -> Option<Self::Item> {
        let Some(&head) = self.sketch.get(self.at) else {
            let is_whole = self.first == COUNT;
            self.first = COUNT;
            return (!is_whole).then_some(Err(Flaw::Corrupt));
        };
        let (bytes, len, rank) = match (head >> 6, self.sketch.get(self.at + 1)) {
            (0, _) => (1, usize::from(head) + 1, 0),
            (1, Some(&low)) => (2, (usize::from(head & 0x3f) << 8 | usize::from(low)) + 1, 0),
            (1, None) => (1, COUNT + 1, 0),
            _ => (1, usize::from(head & 3) + 1, (head >> 2 & 0x1f) + 1),
        };
        let run = Run {
            at: self.at,
            bytes,
            first: self.first,
            len,
            rank,
        };
        self.at += bytes;
        self.first += len;
        if self.first > COUNT {
            (self.at, self.first) = (self.sketch.len(), COUNT);
            return Some(Err(Flaw::Corrupt));
        }
        Some(Ok(run))
    }
}

/// Appends registers of one rank as runs.
fn push_runs(out: &mut Vec<u8>, rank: u8, mut len: usize) {
    while len > 0 {
        let now = match rank {
            0 if len > SHORT_ZEROS_MAX => {
                let now = len.min(COUNT);
                out.extend([0x40 | ((now - 1) >> 8) as u8, (now - 1) as u8]);
                now
            }
            0 => {
                out.push((len - 1) as u8);
                len
            }
            _ => {
                let now = len.min(RANK_RUN_MAX);
                out.push(0x80 | (rank - 1) << 2 | (now - 1) as u8);
                now
            }
        };
        len -= now;
    }
}

/// Checks head and length of a sketch and returns its encoding.
fn encoding(sketch: &[u8]) -> Result<u8, Flaw> {
    match sketch.get(ENCODING_AT) {
        Some(&DENSE) if sketch.len() == DENSE_BYTES => {}
        Some(&SPARSE) if sketch.len() >= HEAD => {}
        _ => return Err(Flaw::NoSketch),
    }
    let is_named = sketch.starts_with(b"HYLL");
    is_named
        .then_some(sketch[ENCODING_AT])
        .ok_or(Flaw::NoSketch)
}

/// Returns the index of the byte in which a dense register begins, and the register's lowest bit in
/// that byte.
fn dense_place(index: usize) -> (usize, u32) {
    (HEAD + index * 6 / 8, (index * 6 % 8) as u32)
}

fn dense_rank(sketch: &[u8], index: usize) -> u8 {
    let (at, bit) = dense_place(index);
    let high = sketch.get(at + 1).copied().unwrap_or(0);
    (u16::from_le_bytes([sketch[at], high]) >> bit) as u8 & 0x3f
}

fn set_dense(sketch: &mut [u8], index: usize, rank: u8) {
    let (at, bit) = dense_place(index);
    sketch[at] = sketch[at] & !(0x3f << bit) | rank << bit;
    if bit > 2 {
        let (kept, high) = (!(0x3f >> (8 - bit)), rank >> (8 - bit));
        sketch[at + 1] = sketch[at + 1] & kept | high;
    }
}

/// Appends a head whose count is out of date.
fn push_head(out: &mut Vec<u8>, encoding: u8) {
    out.extend(b"HYLL");
    out.extend([encoding, 0, 0, 0]);
    out.extend([0, 0, 0, 0, 0, 0, 0, STALE]);
}

/// Returns an empty sketch.
pub fn empty() -> Vec<u8> {
    let mut sketch = Vec::with_capacity(HEAD + 2);
    push_head(&mut sketch, SPARSE);
    push_runs(&mut sketch, 0, COUNT);
    sketch
}

/// Returns whether adding the element would change the sketch.
///
/// # Errors
///
/// The string is not a sketch.
pub fn would_change(sketch: &[u8], element: &[u8]) -> Result<bool, Flaw> {
    let (index, rank) = place(element);
    let old = match encoding(sketch)? {
        DENSE => dense_rank(sketch, index),
        _ => run_of(sketch, index)?.1.rank,
    };
    Ok(rank > old)
}

/// Returns the run of a register and the runs before and after it.
fn run_of(sketch: &[u8], index: usize) -> Result<(Option<Run>, Run, Option<Run>), Flaw> {
    let mut runs = Runs::of(sketch);
    let mut before = None;
    while let Some(run) = runs.next().transpose()? {
        if index < run.first + run.len {
            return Ok((before, run, runs.next().transpose()?));
        }
        before = Some(run);
    }
    Err(Flaw::Corrupt)
}

/// Adds an element. Returns whether that changed the sketch. A sparse sketch that would exceed
/// `sparse_bytes_max` becomes dense.
///
/// # Errors
///
/// The string is not a sketch; it is not changed.
pub fn add(sketch: &mut Vec<u8>, element: &[u8], sparse_bytes_max: usize) -> Result<bool, Flaw> {
    let (index, rank) = place(element);
    let has_changed = match encoding(sketch)? {
        DENSE => raise_dense(sketch, index, rank),
        _ => raise_sparse(sketch, index, rank, sparse_bytes_max)?,
    };
    if has_changed {
        sketch[STALE_AT] |= STALE;
    }
    Ok(has_changed)
}

fn raise_dense(sketch: &mut [u8], index: usize, rank: u8) -> bool {
    let is_higher = rank > dense_rank(sketch, index);
    if is_higher {
        set_dense(sketch, index, rank);
    }
    is_higher
}

fn raise_sparse(
    sketch: &mut Vec<u8>,
    index: usize,
    rank: u8,
    sparse_bytes_max: usize,
) -> Result<bool, Flaw> {
    let (before, run, after) = run_of(sketch, index)?;
    if rank <= run.rank {
        return Ok(false);
    }
    let (mut start, mut end) = (run.at, run.at + run.bytes);
    let left = index - run.first;
    let right = run.len - left - 1;
    // The register joins a neighbouring run of the same rank if that run has room.
    let has_room = |other: &Run, len: usize| other.rank == rank && other.len + len <= RANK_RUN_MAX;
    let mut len = 1;
    if let Some(other) = before.filter(|other| left == 0 && has_room(other, len)) {
        len += other.len;
        start = other.at;
    }
    if let Some(other) = after.filter(|other| right == 0 && has_room(other, len)) {
        len += other.len;
        end = other.at + other.bytes;
    }
    let mut runs = Vec::with_capacity(5);
    push_runs(&mut runs, run.rank, left);
    push_runs(&mut runs, rank, len);
    push_runs(&mut runs, run.rank, right);
    let new_bytes = sketch.len() + runs.len() - (end - start);
    if rank > SPARSE_RANK_MAX || new_bytes > sparse_bytes_max.max(sketch.len()) {
        let mut registers = Registers::default();
        registers.merge(sketch)?;
        registers.0[index] = rank;
        *sketch = registers.dense();
    } else {
        sketch.splice(start..end, runs);
    }
    Ok(true)
}

/// Returns the stored count if it is up to date.
///
/// # Errors
///
/// The string is not a sketch.
pub fn known_count(sketch: &[u8]) -> Result<Option<u64>, Flaw> {
    encoding(sketch)?;
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&sketch[8..HEAD]);
    let is_stale = sketch[STALE_AT] & STALE != 0;
    Ok((!is_stale).then_some(u64::from_le_bytes(bytes)))
}

/// Stores the count in a sketch.
pub fn keep_count(sketch: &mut [u8], count: u64) {
    debug_assert!(encoding(sketch).is_ok());
    sketch[8..HEAD].copy_from_slice(&count.to_le_bytes());
}

/// Describes the runs of a sparse sketch as PFDEBUG DECODE does: `z` and `Z` are zeros in one and
/// two bytes, `v` is a rank, and the last number is the length of the run.
///
/// # Errors
///
/// The string is not a sparse sketch.
pub fn describe_runs(sketch: &[u8]) -> Result<String, Flaw> {
    let mut text = Vec::new();
    for run in Runs::of(sketch) {
        let Run {
            bytes, len, rank, ..
        } = run?;
        text.push(match (rank, bytes) {
            (0, 1) => format!("z:{len}"),
            (0, _) => format!("Z:{len}"),
            _ => format!("v:{rank},{len}"),
        });
    }
    Ok(text.join(" "))
}

/// Number of elements that [`self_test`] adds.
const TEST_ELEMENTS: u64 = 100_000;

/// Adds elements to a sketch that may be sparse and to a dense one, and compares their estimates
/// with each other and with the number of elements. Takes some milliseconds.
///
/// # Errors
///
/// The number of elements at which an estimate was wrong.
pub fn self_test() -> Result<(), u64> {
    /// Greatest error of an estimate: five times the standard error.
    const ERROR_MAX: f64 = 5.0 * 1.04 / 128.0;
    let mut sparse = empty();
    let mut dense = Registers::default().dense();
    let mut next_check = 1;
    for number in 1..=TEST_ELEMENTS {
        let element = number.to_le_bytes();
        let is_added = add(&mut sparse, &element, SHORT_ZEROS_MAX * 32).is_ok()
            && add(&mut dense, &element, 0).is_ok();
        if !is_added {
            return Err(number);
        }
        if number == next_check {
            next_check *= 10;
            let count = |sketch: &[u8]| {
                let mut registers = Registers::default();
                registers.merge(sketch).map(|_| registers.count())
            };
            let error_max = (number as f64 * ERROR_MAX).max(1.0);
            match (count(&sparse), count(&dense)) {
                (Ok(a), Ok(b)) if a == b && a.abs_diff(number) as f64 <= error_max => {}
                _ => return Err(number),
            }
        }
    }
    Ok(())
}

/// Registers of one sketch, or the maximum of several.
pub struct Registers(Box<[u8; COUNT]>);

impl Default for Registers {
    fn default() -> Self {
        Registers(Box::new([0; COUNT]))
    }
}

impl Registers {
    /// Merges a sketch into the registers. Returns whether it was dense.
    ///
    /// # Errors
    ///
    /// The string is not a sketch.
    pub fn merge(&mut self, sketch: &[u8]) -> Result<bool, Flaw> {
        if encoding(sketch)? == SPARSE {
            for run in Runs::of(sketch) {
                let run = run?;
                if run.rank > 0 {
                    for register in &mut self.0[run.first..run.first + run.len] {
                        *register = run.rank.max(*register);
                    }
                }
            }
            return Ok(false);
        }
        let (fours, _) = self.0.as_chunks_mut::<4>();
        let (threes, _) = sketch[HEAD..].as_chunks::<3>();
        for (registers, &[a, b, c]) in fours.iter_mut().zip(threes) {
            let word = u32::from_le_bytes([a, b, c, 0]);
            for (place, register) in registers.iter_mut().enumerate() {
                *register = ((word >> (6 * place)) as u8 & 0x3f).max(*register);
            }
        }
        Ok(true)
    }

    /// Returns the registers as a sketch whose count is out of date: a sparse one if `is_dense` is
    /// false and it is small enough.
    pub fn sketch(&self, is_dense: bool, sparse_bytes_max: usize) -> Vec<u8> {
        let highest = self.0.iter().max().copied().unwrap_or(0);
        if is_dense || highest > SPARSE_RANK_MAX {
            return self.dense();
        }
        let mut sketch = Vec::new();
        push_head(&mut sketch, SPARSE);
        for run in self.0.chunk_by(|a, b| a == b) {
            push_runs(&mut sketch, run[0], run.len());
        }
        if sketch.len() > sparse_bytes_max {
            return self.dense();
        }
        sketch
    }

    /// Returns the rank of each register.
    pub fn ranks(&self) -> &[u8] {
        &self.0[..]
    }

    fn dense(&self) -> Vec<u8> {
        let mut sketch = Vec::with_capacity(DENSE_BYTES);
        push_head(&mut sketch, DENSE);
        let (fours, _) = self.0.as_chunks::<4>();
        for [a, b, c, d] in fours {
            let word =
                u32::from(*a) | u32::from(*b) << 6 | u32::from(*c) << 12 | u32::from(*d) << 18;
            sketch.extend(&word.to_le_bytes()[..3]);
        }
        sketch
    }

    /// Returns the estimated number of distinct elements, within 0.81 % in two of three cases.
    pub fn count(&self) -> u64 {
        let mut histogram = [0u32; 64];
        for &register in self.0.iter() {
            histogram[usize::from(register)] += 1;
        }
        let m = COUNT as f64;
        let of_all = |count: u32| f64::from(count) / m;
        // Ertl's algorithm 6 with his names: z sums the histogram from the highest rank down.
        let mut z = m * tau(1.0 - of_all(histogram[RANK_BITS + 1]));
        for &count in histogram[1..=RANK_BITS].iter().rev() {
            z = 0.5 * (z + f64::from(count));
        }
        z += m * sigma(of_all(histogram[0]));
        let alpha = 0.5 / std::f64::consts::LN_2;
        (alpha * m * m / z).round() as u64
    }
}

/// Returns the contribution of registers of 0: `x + Σ x^(2^k) · 2^(k−1)`.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

/// Returns the contribution of registers of the highest rank: `(1 − x − Σ (1 − x^(2^−k))² · 2^−k) /
/// 3`.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

#[cfg(test)]
mod tests;
