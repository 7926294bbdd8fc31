//! Columns of numbers in memory that another library owns, read in place.
//!
//! Unsafe code is here because NumPy and Arrow hand out addresses. What they describe is checked
//! once, when a column is made: no address is computed from a length or a stride that has not been.

use crate::failure::Failure;
use pyo3::prelude::*;
use std::sync::Arc;

/// Keeps the memory of a column alive; dropping it releases the memory.
pub trait Owner: Send + Sync {}
impl Owner for Vec<Py<PyAny>> {}

/// Type of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
}

impl Kind {
    /// Returns the type of a kind (`i`, `u`, `f`, `b`) and a size in bytes.
    pub fn of(letter: char, bytes: usize) -> Option<Kind> {
        Some(match (letter, bytes) {
            ('b', 1) => Kind::Bool,
            ('i', 1) => Kind::I8,
            ('i', 2) => Kind::I16,
            ('i', 4) => Kind::I32,
            ('i', 8) => Kind::I64,
            ('u', 1) => Kind::U8,
            ('u', 2) => Kind::U16,
            ('u', 4) => Kind::U32,
            ('u', 8) => Kind::U64,
            ('f', 4) => Kind::F32,
            ('f', 8) => Kind::F64,
            _ => return None,
        })
    }

    /// Whether values are whole numbers.
    pub fn is_integer(self) -> bool {
        !matches!(self, Kind::Bool | Kind::F32 | Kind::F64)
    }
}

/// Value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Whole(i128),
    Real(f64),
}

/// A column of numbers, or a part of one.
pub struct Numbers {
    first: *const u8,
    stride: isize,
    len: usize,
    kind: Kind,
    is_swapped: bool,
    _owner: Arc<dyn Owner>,
}

// SAFETY: the memory is only read, and its owner can be dropped by any thread.
unsafe impl Send for Numbers {}
// SAFETY: reading needs no exclusive access.
unsafe impl Sync for Numbers {}

macro_rules! read_as {
    ($int:ty, $at:expr, $swapped:expr) => {{
        // SAFETY: the caller of `new` vouches for each element; it need not be aligned.
        let value = unsafe { $at.cast::<$int>().read_unaligned() };
        if $swapped { value.swap_bytes() } else { value }
    }};
}

impl Numbers {
    /// Creates a column of `len` values from the address `first` on, `stride` bytes apart.
    ///
    /// # Safety
    /// Each of the `len` elements is readable memory of the kind's size as long as `owner` exists.
    pub unsafe fn new(
        first: *const u8,
        stride: isize,
        len: usize,
        kind: Kind,
        is_swapped: bool,
        owner: Arc<dyn Owner>,
    ) -> Numbers {
        Numbers {
            first,
            stride,
            len,
            kind,
            is_swapped,
            _owner: owner,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    #[inline(always)]
    fn at(&self, row: usize) -> *const u8 {
        assert!(row < self.len);
        // SAFETY: the element exists, so that its offset is within the allocation.
        unsafe { self.first.offset(row as isize * self.stride) }
    }

    /// Returns the value as a key: the bits of a whole number, negative ones as two's complement.
    /// The kind must be an integer.
    #[inline(always)]
    pub fn key(&self, row: usize) -> u64 {
        let (at, swapped) = (self.at(row), self.is_swapped);
        match self.kind {
            Kind::I64 | Kind::U64 => read_as!(u64, at, swapped),
            Kind::U32 => u64::from(read_as!(u32, at, swapped)),
            Kind::I32 => i64::from(read_as!(i32, at, swapped)) as u64,
            Kind::U16 => u64::from(read_as!(u16, at, swapped)),
            Kind::I16 => i64::from(read_as!(i16, at, swapped)) as u64,
            Kind::U8 | Kind::Bool | Kind::F32 | Kind::F64 => u64::from(read_as!(u8, at, swapped)),
            Kind::I8 => i64::from(read_as!(i8, at, swapped)) as u64,
        }
    }

    /// Returns the value.
    #[inline(always)]
    pub fn get(&self, row: usize) -> Number {
        let (at, swapped) = (self.at(row), self.is_swapped);
        match self.kind {
            Kind::Bool | Kind::U8 => Number::Whole(i128::from(read_as!(u8, at, swapped))),
            Kind::I8 => Number::Whole(i128::from(read_as!(i8, at, swapped))),
            Kind::I16 => Number::Whole(i128::from(read_as!(i16, at, swapped))),
            Kind::I32 => Number::Whole(i128::from(read_as!(i32, at, swapped))),
            Kind::I64 => Number::Whole(i128::from(read_as!(i64, at, swapped))),
            Kind::U16 => Number::Whole(i128::from(read_as!(u16, at, swapped))),
            Kind::U32 => Number::Whole(i128::from(read_as!(u32, at, swapped))),
            Kind::U64 => Number::Whole(i128::from(read_as!(u64, at, swapped))),
            Kind::F32 => Number::Real(f64::from(f32::from_bits(read_as!(u32, at, swapped)))),
            Kind::F64 => Number::Real(f64::from_bits(read_as!(u64, at, swapped))),
        }
    }
}

/// Reads a column from `__array_interface__`, the protocol of NumPy arrays.
///
/// The array is kept alive, and an exported buffer of it keeps it from being resized.
pub fn of_array(name: &str, array: &Bound<'_, PyAny>) -> Result<Numbers, Failure> {
    let described = array.getattr("__array_interface__")?;
    let typestr: String = described.get_item("typestr")?.extract()?;
    let shape: Vec<usize> = described.get_item("shape")?.extract()?;
    let &[len] = shape.as_slice() else {
        return Err(Failure::Value(format!(
            "column '{name}': an array of {} dimensions: expected 1",
            shape.len()
        )));
    };
    let unknown = || {
        Failure::Type(format!(
            "column '{name}': dtype {typestr:?}: expected integers, floats, booleans or text"
        ))
    };
    let mut letters = typestr.chars();
    let (order, letter) = (letters.next(), letters.next());
    let bytes: usize = letters.as_str().parse().map_err(|_| unknown())?;
    let kind = letter.and_then(|letter| Kind::of(letter, bytes));
    let kind = kind.ok_or_else(unknown)?;
    let is_swapped = match order {
        Some('|') => false,
        Some('<') => cfg!(target_endian = "big"),
        Some('>') => cfg!(target_endian = "little"),
        _ => return Err(unknown()),
    };
    let strides = described.get_item("strides")?;
    let stride = match strides.is_none() {
        true => bytes as isize,
        false => strides.get_item(0)?.extract()?,
    };
    let (address, _): (usize, bool) = described.get_item("data")?.extract()?;
    if address == 0 && len > 0 {
        return Err(Failure::Value(format!(
            "column '{name}': an array without memory"
        )));
    }
    let view = array.py().import("builtins")?.getattr("memoryview")?;
    let mut owners = vec![array.clone().unbind()];
    // Types that Python's buffers do not have, such as dates, are passed as integers by the caller.
    owners.push(view.call1((array,))?.unbind());
    // SAFETY: the array describes its own memory, and is kept alive and from being resized.
    Ok(unsafe {
        Numbers::new(
            address as *const u8,
            stride,
            len,
            kind,
            is_swapped,
            Arc::new(owners),
        )
    })
}
