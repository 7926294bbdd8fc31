//! Columns of numbers in memory.

/// Requests added between two checks of the memory in use.
pub const ROWS_BETWEEN_CHECKS: u64 = 1 << 12;

/// Number of a column.
pub trait Number: Copy + Default + PartialEq {
    /// Bytes of a value.
    const WIDTH: usize;
    /// The value as a number of 64 bits.
    fn bits(self) -> u64;
    /// The value of a number that fits.
    fn of_bits(bits: u64) -> Self;
}

macro_rules! numbers {
    ($($type:ty)*) => {
        $(impl Number for $type {
            const WIDTH: usize = size_of::<$type>();
            #[inline(always)]
            fn bits(self) -> u64 {
                u64::from(self)
            }
            #[inline(always)]
            fn of_bits(bits: u64) -> Self {
                bits as $type
            }
        })*
    };
}

numbers!(u8 u32 u64);

/// A column that ends at its last value that differs from the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column<T> {
    values: Vec<T>,
}

impl<T: Number> Column<T> {
    /// Creates a column from its first values.
    pub(super) fn of(values: Vec<T>) -> Self {
        Column { values }
    }

    /// Sets the value of a row, which may be beyond the end.
    #[inline]
    pub fn set(&mut self, row: usize, value: T) {
        if row < self.values.len() {
            self.values[row] = value;
        } else if value != T::default() {
            self.values.resize(row, T::default());
            self.values.push(value);
        }
    }

    /// Returns the value of a row.
    #[inline(always)]
    pub fn get(&self, row: usize) -> T {
        self.values.get(row).copied().unwrap_or_default()
    }

    /// Returns the values up to the last that differs from the default.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// Whether every value is the default.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Bytes of memory in use.
    pub fn heap_bytes(&self) -> usize {
        self.values.capacity() * size_of::<T>()
    }

    /// Frees memory reserved for more rows.
    pub fn shrink(&mut self) {
        self.values.shrink_to_fit();
    }

    /// Maximum bytes that the next 4,096 rows may allocate in addition to the current buffer.
    pub fn growth_bytes(&self) -> usize {
        growth_bytes(&self.values)
    }
}

/// Maximum bytes that a vector may allocate for the next 4,096 pushes while it still holds its
/// current buffer.
pub fn growth_bytes<T>(values: &Vec<T>) -> usize {
    let is_near = values.capacity() - values.len() < ROWS_BETWEEN_CHECKS as usize;
    if is_near {
        2 * values.capacity() * size_of::<T>()
    } else {
        0
    }
}

/// A duration in 32 bits: milliseconds below 2^31 (24 days), seconds rounded up above. 0 means
/// none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShortTtl(u32);

impl ShortTtl {
    const SECONDS: u32 = 1 << 31;

    /// Rounds a duration in milliseconds up to a representable one, at most 68 years.
    #[inline]
    pub fn of_ms(ms: u64) -> Self {
        if ms < u64::from(Self::SECONDS) {
            return ShortTtl(ms as u32);
        }
        let seconds = ms.div_ceil(1000).min(u64::from(Self::SECONDS - 1));
        ShortTtl(seconds as u32 | Self::SECONDS)
    }

    /// Returns milliseconds.
    #[inline]
    pub fn ms(self) -> u64 {
        if self.0 & Self::SECONDS == 0 {
            u64::from(self.0)
        } else {
            u64::from(self.0 & !Self::SECONDS) * 1000
        }
    }
}

impl Number for ShortTtl {
    const WIDTH: usize = 4;
    fn bits(self) -> u64 {
        u64::from(self.0)
    }
    fn of_bits(bits: u64) -> Self {
        ShortTtl(bits as u32)
    }
}

/// Marks a gap that does not fit its column and is in `long` instead.
const LONG: u32 = u32::MAX;

/// Milliseconds between each request and the previous one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    short: Column<u32>,
    long: Vec<(u32, u64)>,
}

impl Gaps {
    /// Sets the gap of a row, in ascending order of rows.
    #[inline]
    pub fn set(&mut self, row: usize, gap_ms: u64) {
        let short = u32::try_from(gap_ms).unwrap_or(LONG);
        if short == LONG {
            self.long.push((row as u32, gap_ms));
        }
        self.short.set(row, short);
    }

    /// Creates a column from its first values.
    pub(super) fn of(values: &[u64]) -> Self {
        let short = |&gap_ms: &u64| u32::try_from(gap_ms).unwrap_or(LONG);
        let long = values.iter().zip(0..);
        let long = long.filter(|&(&gap_ms, _)| gap_ms >= u64::from(LONG));
        Gaps {
            short: Column::of(values.iter().map(short).collect()),
            long: long.map(|(&gap_ms, row)| (row, gap_ms)).collect(),
        }
    }

    /// Creates a column from its first values, all of which fit in 32 bits.
    pub(super) fn of_short(values: Vec<u32>) -> Self {
        let long = values
            .iter()
            .zip(0..)
            .filter(|&(&gap_ms, _)| gap_ms == LONG);
        Gaps {
            long: long.map(|(&gap_ms, row)| (row, gap_ms.into())).collect(),
            short: Column::of(values),
        }
    }

    /// Number of rows up to the last gap above 0.
    pub(super) fn len(&self) -> usize {
        self.short.values.len()
    }

    /// Returns the gap of a row.
    #[inline(always)]
    pub fn get(&self, row: usize) -> u64 {
        match self.short.get(row) {
            LONG => self.long_gap(row),
            gap => u64::from(gap),
        }
    }

    #[cold]
    fn long_gap(&self, row: usize) -> u64 {
        let found = self.long.binary_search_by_key(&row, |&(at, _)| at as usize);
        let at = found.expect("every long gap is in the list");
        self.long[at].1
    }

    /// Whether the trace has no time.
    pub fn is_empty(&self) -> bool {
        self.short.is_empty()
    }

    /// Bytes of memory in use.
    pub fn heap_bytes(&self) -> usize {
        self.short.heap_bytes() + self.long.capacity() * size_of::<(u32, u64)>()
    }

    pub(super) fn growth_bytes(&self) -> usize {
        self.short.growth_bytes()
    }

    pub(super) fn shrink(&mut self) {
        self.short.shrink();
    }
}

/// A value of each object at its first request, and the later ones that differ from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerObject {
    /// By object: value at its first request, up to the last that is not 0.
    pub first: Vec<u32>,
    /// By request: value, or 0 for that at the object's first request.
    pub changed: Column<u32>,
}

impl PerObject {
    #[inline]
    pub(super) fn set(&mut self, row: usize, (id, is_new): (u32, bool), value: u32) {
        let at = id as usize;
        if is_new {
            if value != 0 {
                self.first.resize(at, 0);
                self.first.push(value);
            }
        } else if value != self.first.get(at).copied().unwrap_or(0) {
            self.changed.set(row, value);
        }
    }

    #[inline]
    pub(super) fn get(&self, row: usize, id: usize) -> u32 {
        match self.changed.get(row) {
            0 => self.first.get(id).copied().unwrap_or(0),
            value => value,
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.first.capacity() * 4 + self.changed.heap_bytes()
    }

    pub(super) fn growth_bytes(&self) -> usize {
        growth_bytes(&self.first) + self.changed.growth_bytes()
    }

    pub(super) fn shrink(&mut self) {
        self.first.shrink_to_fit();
        self.changed.shrink();
    }
}
