//! Tables of Arrow, Polars and others, read in place through the Arrow C stream interface.
//!
//! Numbers are read where they are. Texts are hashed to keys, or parsed to operations, at once.

use crate::arrow_types::{Array, Schema, Stream};
use crate::failure::Failure;
use crate::fields::{Batch, Field, FieldColumn, Values};
use crate::numbers::{Kind, Numbers, Owner};
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{CStr, c_void};
use std::sync::Arc;

/// An array that is released when the last column of it is dropped.
struct Held(Array);

// SAFETY: an array may be released by any thread, and is not changed before.
unsafe impl Send for Held {}
// SAFETY: its buffers are only read.
unsafe impl Sync for Held {}
impl Owner for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(release) = self.0.release {
            // SAFETY: the array came from a stream, and is released once.
            unsafe { release(&mut self.0) };
        }
    }
}

/// A schema that is released when it is dropped.
struct HeldSchema(Schema);

impl Drop for HeldSchema {
    fn drop(&mut self) {
        if let Some(release) = self.0.release {
            // SAFETY: the schema came from a stream, and is released once.
            unsafe { release(&mut self.0) };
        }
    }
}

fn text_of(pointer: *const std::ffi::c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: texts of the interface end with a zero byte.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_string_lossy().into_owned()
}

fn malformed(what: &str) -> Failure {
    Failure::Value(format!("the exported Arrow table is malformed: {what}"))
}

/// Reads all batches of a table that has `__arrow_c_stream__`.
pub fn batches(table: &Bound<'_, PyAny>) -> Result<Vec<Batch>, Failure> {
    let capsule = table.call_method0("__arrow_c_stream__")?;
    let name = c"arrow_array_stream".as_ptr();
    // SAFETY: the call checks that the object is a capsule of this name.
    let pointer = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), name) };
    if pointer.is_null() {
        return Err(PyErr::fetch(table.py()).into());
    }
    let stream = pointer.cast::<Stream>();
    let mut schema = HeldSchema(Schema::empty());
    // SAFETY: a capsule of this name holds a stream.
    let get_schema = unsafe { (*stream).get_schema };
    let get_schema = get_schema.ok_or_else(|| malformed("the stream was used before"))?;
    // SAFETY: both pointers are valid for the call.
    check(stream, unsafe { get_schema(stream, &mut schema.0) })?;
    if text_of(schema.0.format) != "+s" {
        return Err(Failure::Type(
            "an Arrow stream that is no table: expected columns with names".into(),
        ));
    }
    let (mut all, mut rows) = (Vec::new(), 0);
    loop {
        let mut array = Array::empty();
        // SAFETY: a stream that returned its schema has the function.
        let get_next = unsafe { (*stream).get_next };
        let get_next = get_next.ok_or_else(|| malformed("no function for the next batch"))?;
        // SAFETY: both pointers are valid for the call.
        check(stream, unsafe { get_next(stream, &mut array) })?;
        if array.release.is_none() {
            return match all.is_empty() {
                true => Err(Failure::Value("the table has no rows".into())),
                false => Ok(all),
            };
        }
        let held = Arc::new(Held(array));
        let batch = batch(&schema.0, &held, rows)?;
        rows += batch.len();
        if batch.len() > 0 {
            all.push(batch);
        }
    }
}

fn check(stream: *mut Stream, code: std::ffi::c_int) -> Result<(), Failure> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: the stream exists as long as its capsule.
    let describe = unsafe { (*stream).get_last_error };
    let text = match describe {
        // SAFETY: the function may be called after an error.
        Some(describe) => text_of(unsafe { describe(stream) }),
        None => format!("error {code}"),
    };
    Err(Failure::Value(format!("the table cannot be read: {text}")))
}

/// Returns a child of a schema or an array.
fn child<T>(children: *mut *mut T, count: i64, number: usize) -> Result<*mut T, Failure> {
    if children.is_null() || number as i64 >= count {
        return Err(malformed("a column is missing"));
    }
    // SAFETY: the list has `count` pointers.
    let child = unsafe { *children.add(number) };
    match child.is_null() {
        true => Err(malformed("a column is missing")),
        false => Ok(child),
    }
}

fn batch(schema: &Schema, held: &Arc<Held>, first_row: usize) -> Result<Batch, Failure> {
    let array = &held.0;
    if array.null_count > 0 || array.offset != 0 && array.n_children == 0 {
        return Err(malformed("rows of the table are null"));
    }
    let mut columns = Vec::new();
    for number in 0..schema.n_children.max(0) as usize {
        // SAFETY: children exist as long as their parent.
        let schema = unsafe { &*child(schema.children, schema.n_children, number)? };
        let name = text_of(schema.name);
        let Some(field) = Field::of(&name) else {
            continue;
        };
        // SAFETY: children exist as long as their parent.
        let values = unsafe { &*child(array.children, array.n_children, number)? };
        let from = array.offset as usize;
        let column = View {
            name: &name,
            schema,
            array: values,
            offset: values.offset as usize + from,
            len: array.length as usize,
            first_row,
        };
        let (values, unit) = column.values(field, held)?;
        columns.push(FieldColumn {
            name: name.clone(),
            field,
            values,
            unit,
        });
    }
    Batch::new(columns, first_row)
}

/// A column of a batch.
struct View<'a> {
    name: &'a str,
    schema: &'a Schema,
    array: &'a Array,
    offset: usize,
    len: usize,
    first_row: usize,
}

impl View<'_> {
    fn buffer(&self, number: usize) -> Result<*const u8, Failure> {
        if self.array.buffers.is_null() || number as i64 >= self.array.n_buffers {
            return Err(malformed("a buffer is missing"));
        }
        // SAFETY: the list has `n_buffers` pointers.
        let buffer: *const c_void = unsafe { *self.array.buffers.add(number) };
        Ok(buffer.cast())
    }

    /// Returns a function that returns true if the value of a row is null.
    fn nulls(&self) -> Result<impl Fn(usize) -> bool, Failure> {
        let bits = match self.array.null_count {
            0 => std::ptr::null(),
            _ => self.buffer(0)?,
        };
        let offset = self.offset;
        Ok(move |row: usize| {
            let at = offset + row;
            // SAFETY: a bitmap that is there has a bit for each value.
            !bits.is_null() && unsafe { bits.add(at / 8).read() } >> (at % 8) & 1 == 0
        })
    }

    fn null(&self, row: usize) -> Failure {
        Failure::Value(format!(
            "column '{}', row {}: null: fill or drop nulls before",
            self.name,
            self.first_row + row
        ))
    }

    /// Returns an error that names the first null.
    fn refuse_nulls(&self) -> Result<(), Failure> {
        let is_null = self.nulls()?;
        match (0..self.len).find(|row| is_null(*row)) {
            Some(row) => Err(self.null(row)),
            None => Ok(()),
        }
    }

    fn values(&self, field: Field, held: &Arc<Held>) -> Result<(Values, f64), Failure> {
        self.refuse_nulls()?;
        let format = text_of(self.schema.format);
        if !self.schema.dictionary.is_null() {
            return Ok((self.of_dictionary(&format, field)?, 1.0));
        }
        if let Some((kind, unit)) = number_type(&format) {
            let first = self.buffer(1)?;
            if first.is_null() && self.len > 0 {
                return Err(malformed("a column without memory"));
            }
            let bytes = match kind {
                Kind::I8 | Kind::U8 | Kind::Bool => 1,
                Kind::I16 | Kind::U16 => 2,
                Kind::I32 | Kind::U32 | Kind::F32 => 4,
                Kind::I64 | Kind::U64 | Kind::F64 => 8,
            };
            let first = first.wrapping_add(self.offset * bytes);
            // SAFETY: the buffer has a value of the type for each row after the offset.
            let numbers =
                unsafe { Numbers::new(first, bytes as isize, self.len, kind, false, held.clone()) };
            return Ok((Values::Numbers(numbers), unit));
        }
        let texts = self.texts(&format)?;
        let texts = texts.iter().copied();
        Ok((
            Values::of_texts(self.name, field, self.first_row, texts)?,
            1.0,
        ))
    }

    /// Returns the texts, which are borrowed from the array.
    fn texts(&self, format: &str) -> Result<Vec<&[u8]>, Failure> {
        match format {
            "u" | "z" => self.texts_by_offsets::<i32>(|offset| i64::from(offset)),
            "U" | "Z" => self.texts_by_offsets::<i64>(|offset| offset),
            "vu" | "vz" => self.texts_by_views(),
            _ => Err(Failure::Type(format!(
                "column '{}' has the Arrow type {format:?}: expected integers, floats, dates or text",
                self.name
            ))),
        }
    }

    fn texts_by_offsets<T: Copy>(&self, wide: fn(T) -> i64) -> Result<Vec<&[u8]>, Failure> {
        let (offsets, data) = (self.buffer(1)?.cast::<T>(), self.buffer(2)?);
        let mut texts = Vec::with_capacity(self.len);
        for row in 0..self.len {
            let at = self.offset + row;
            // SAFETY: there is one offset more than there are values.
            let from = wide(unsafe { offsets.add(at).read_unaligned() });
            // SAFETY: as above.
            let to = wide(unsafe { offsets.add(at + 1).read_unaligned() });
            texts.push(slice(data, from, to - from)?);
        }
        Ok(texts)
    }

    /// Returns texts in the view layout. A view has 16 bytes: the length, and either up to 12 bytes
    /// of text, or 4 bytes of text, the number of a buffer and an offset in it.
    fn texts_by_views(&self) -> Result<Vec<&[u8]>, Failure> {
        let views = self.buffer(1)?;
        let mut texts = Vec::with_capacity(self.len);
        for row in 0..self.len {
            let view = views.wrapping_add(16 * (self.offset + row));
            let word = |number: usize| {
                // SAFETY: each row has a view of four words.
                unsafe { view.add(4 * number).cast::<i32>().read_unaligned() }
            };
            let len = word(0);
            texts.push(match len <= 12 {
                true => slice(view.wrapping_add(4), 0, len.into())?,
                false => {
                    let buffer = self.buffer(2 + word(2).max(0) as usize)?;
                    slice(buffer, word(3).into(), len.into())?
                }
            });
        }
        Ok(texts)
    }

    /// Returns the values of a dictionary-encoded column of texts.
    fn of_dictionary(&self, format: &str, field: Field) -> Result<Values, Failure> {
        if self.array.dictionary.is_null() {
            return Err(malformed("a dictionary is missing"));
        }
        // SAFETY: a dictionary exists as long as its column.
        let (schema, array) = unsafe { (&*self.schema.dictionary, &*self.array.dictionary) };
        let dictionary = View {
            name: self.name,
            schema,
            array,
            offset: array.offset as usize,
            len: array.length as usize,
            first_row: 0,
        };
        let texts = dictionary.texts(&text_of(schema.format))?;
        let is_null = dictionary.nulls()?;
        let (kind, _) = number_type(format).ok_or_else(|| malformed("the type of an index"))?;
        let bytes = match kind {
            Kind::I8 | Kind::U8 => 1,
            Kind::I16 | Kind::U16 => 2,
            Kind::I32 | Kind::U32 => 4,
            _ => 8,
        };
        let indices = self.buffer(1)?;
        let first = indices.wrapping_add(self.offset * bytes);
        // SAFETY: the buffer has an index for each row; it is read before this function returns.
        let indices = unsafe {
            let owner = Arc::new(Vec::new());
            Numbers::new(first, bytes as isize, self.len, kind, false, owner)
        };
        let text = |row: usize| {
            let index = indices.key(row) as usize;
            match texts.get(index) {
                None => Err(malformed("an index beyond its dictionary")),
                Some(_) if is_null(index) => Err(self.null(row)),
                Some(text) => Ok(*text),
            }
        };
        let chosen: Vec<&[u8]> = (0..self.len).map(text).collect::<Result<_, _>>()?;
        Values::of_texts(self.name, field, self.first_row, chosen.into_iter())
    }
}

/// Returns `len` bytes of a buffer of texts.
fn slice<'a>(data: *const u8, from: i64, len: i64) -> Result<&'a [u8], Failure> {
    match (from >= 0, len) {
        (true, 0) => Ok(&[]),
        (true, 1..) if !data.is_null() => {
            let first = data.wrapping_add(from as usize);
            // SAFETY: offsets are within the buffer, which exists as long as the array.
            Ok(unsafe { std::slice::from_raw_parts(first, len as usize) })
        }
        _ => Err(malformed("the offsets of a text")),
    }
}

/// Returns the type of numbers of a format, and the factor that makes seconds of dates and spans.
fn number_type(format: &str) -> Option<(Kind, f64)> {
    let kind = match format.as_bytes() {
        b"c" => Kind::I8,
        b"C" => Kind::U8,
        b"s" => Kind::I16,
        b"S" => Kind::U16,
        b"i" => Kind::I32,
        b"I" => Kind::U32,
        b"l" => Kind::I64,
        b"L" => Kind::U64,
        b"f" => Kind::F32,
        b"g" => Kind::F64,
        // Dates with a time, and spans: 64 bits in seconds to nanoseconds.
        [b't', b's' | b'D', unit, ..] => {
            let factor = match unit {
                b's' => 1.0,
                b'm' => 1e-3,
                b'u' => 1e-6,
                b'n' => 1e-9,
                _ => return None,
            };
            return Some((Kind::I64, factor));
        }
        _ => return None,
    };
    Some((kind, 1.0))
}
