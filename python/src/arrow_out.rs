//! Tables of results as Arrow streams, for any library that reads them.

use crate::arrow_types::{Array, NULLABLE, Schema, Stream};
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// A column of values, with a bit for each row that has one.
struct Column {
    name: CString,
    format: &'static CStr,
    validity: Vec<u8>,
    nulls: i64,
    /// Buffers after the validity.
    buffers: Vec<Vec<u8>>,
    len: usize,
    child: Option<Box<Column>>,
}

/// Returns a capsule with an Arrow stream of one batch. `columns` maps names to a kind (`text`,
/// `count`, `number`, `flag` or `list`) and a list of values.
#[pyfunction]
pub fn arrow_stream<'py>(
    py: Python<'py>,
    columns: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut all = Vec::new();
    for (name, described) in columns {
        let (kind, values): (String, Bound<'_, PyList>) = described.extract()?;
        let name: String = name.extract()?;
        all.push(column(&name, &kind, &values)?);
    }
    let state = Box::new(Pending { columns: Some(all) });
    let stream = Box::new(Stream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release_stream),
        private_data: Box::into_raw(state).cast(),
    });
    let pointer = Box::into_raw(stream).cast::<c_void>();
    let name = c"arrow_array_stream".as_ptr();
    // SAFETY: the pointer is of a stream, which the destructor frees.
    let capsule = unsafe { ffi::PyCapsule_New(pointer, name, Some(drop_capsule)) };
    // SAFETY: the call returns a new reference, or null with an exception.
    unsafe { Bound::from_owned_ptr_or_err(py, capsule) }
}

/// State of a stream: the batch that has not been read.
struct Pending {
    columns: Option<Vec<Column>>,
}

/// Values of a column while they are collected.
struct Values {
    data: Vec<u8>,
    offsets: Vec<u8>,
    listed: Vec<f64>,
}

impl Values {
    /// Adds the value of a row; a null takes the room of a value.
    fn push(&mut self, kind: &str, row: usize, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let is_null = value.is_none();
        match kind {
            "text" => {
                if !is_null {
                    let text: String = value.extract()?;
                    self.data.extend_from_slice(text.as_bytes());
                }
                let end = i32::try_from(self.data.len());
                let end = end.map_err(|_| PyValueError::new_err("more than 2 GiB of text"))?;
                self.offsets.extend_from_slice(&end.to_ne_bytes());
            }
            "list" => {
                if !is_null {
                    self.listed.extend(value.extract::<Vec<f64>>()?);
                }
                let end = self.listed.len() as i32;
                self.offsets.extend_from_slice(&end.to_ne_bytes());
            }
            "count" => {
                let count: u64 = if is_null { 0 } else { value.extract()? };
                self.data.extend_from_slice(&count.to_ne_bytes());
            }
            "flag" => {
                if row % 8 == 0 {
                    self.data.push(0);
                }
                let is_set = !is_null && value.extract::<bool>()?;
                self.data[row / 8] |= u8::from(is_set) << (row % 8);
            }
            _ => {
                let number: f64 = if is_null { 0.0 } else { value.extract()? };
                self.data.extend_from_slice(&number.to_ne_bytes());
            }
        }
        Ok(())
    }
}

fn column(name: &str, kind: &str, values: &Bound<'_, PyList>) -> PyResult<Column> {
    let name = CString::new(name).map_err(|_| PyValueError::new_err("a name with a zero byte"))?;
    let len = values.len();
    let mut validity = vec![0; len.div_ceil(8)];
    let mut nulls = 0;
    let mut all = Values {
        data: Vec::new(),
        offsets: 0i32.to_ne_bytes().to_vec(),
        listed: Vec::new(),
    };
    for (row, value) in values.iter().enumerate() {
        match value.is_none() {
            true => nulls += 1,
            false => validity[row / 8] |= 1 << (row % 8),
        }
        all.push(kind, row, &value)?;
    }
    let format = match kind {
        "text" => c"u",
        "list" => c"+l",
        "count" => c"L",
        "flag" => c"b",
        _ => c"g",
    };
    let child = (kind == "list").then(|| {
        let bytes = all.listed.iter().flat_map(|number| number.to_ne_bytes());
        Box::new(Column {
            name: c"item".to_owned(),
            format: c"g",
            validity: Vec::new(),
            nulls: 0,
            len: all.listed.len(),
            buffers: vec![bytes.collect()],
            child: None,
        })
    });
    Ok(Column {
        name,
        format,
        validity,
        nulls,
        buffers: match kind {
            "text" => vec![all.offsets, all.data],
            "list" => vec![all.offsets],
            _ => vec![all.data],
        },
        len,
        child,
    })
}

/// Memory behind an exported schema.
struct SchemaState {
    _name: CString,
    children: Vec<*mut Schema>,
}

fn schema_of(name: &CStr, format: &'static CStr, children: Vec<Schema>) -> Schema {
    let children: Vec<*mut Schema> = children
        .into_iter()
        .map(|child| Box::into_raw(Box::new(child)))
        .collect();
    let mut state = Box::new(SchemaState {
        _name: name.to_owned(),
        children,
    });
    Schema {
        format: format.as_ptr(),
        name: state._name.as_ptr(),
        flags: NULLABLE,
        n_children: state.children.len() as i64,
        children: state.children.as_mut_ptr(),
        release: Some(release_schema),
        private_data: Box::into_raw(state).cast(),
        ..Schema::empty()
    }
}

fn schema_of_column(column: &Column) -> Schema {
    let child = column.child.iter().map(|child| schema_of_column(child));
    schema_of(&column.name, column.format, child.collect())
}

unsafe extern "C" fn release_schema(schema: *mut Schema) {
    // SAFETY: a consumer passes a schema that it has not released.
    let schema = unsafe { &mut *schema };
    // SAFETY: the state was made by `schema_of`, and is freed once.
    let state = unsafe { Box::from_raw(schema.private_data.cast::<SchemaState>()) };
    schema.release = None;
    for &child in &state.children {
        // SAFETY: the child was made by `schema_of`.
        let mut child = unsafe { Box::from_raw(child) };
        if let Some(release) = child.release {
            // SAFETY: a consumer that moved the child out has set its function to none.
            unsafe { release(&mut *child) };
        }
    }
}

/// Memory behind an exported array.
struct ArrayState {
    _buffers: Vec<Vec<u8>>,
    pointers: Vec<*const c_void>,
    children: Vec<*mut Array>,
}

fn array_of(len: usize, nulls: i64, buffers: Vec<Vec<u8>>, children: Vec<Array>) -> Array {
    let pointer = |(number, buffer): (usize, &Vec<u8>)| match number == 0 && nulls == 0 {
        // Without nulls there is no bitmap.
        true => std::ptr::null(),
        false => buffer.as_ptr().cast::<c_void>(),
    };
    let children: Vec<*mut Array> = children
        .into_iter()
        .map(|child| Box::into_raw(Box::new(child)))
        .collect();
    let mut state = Box::new(ArrayState {
        pointers: buffers.iter().enumerate().map(pointer).collect(),
        _buffers: buffers,
        children,
    });
    Array {
        length: len as i64,
        null_count: nulls,
        n_buffers: state.pointers.len() as i64,
        buffers: state.pointers.as_mut_ptr(),
        n_children: state.children.len() as i64,
        children: state.children.as_mut_ptr(),
        release: Some(release_array),
        private_data: Box::into_raw(state).cast(),
        ..Array::empty()
    }
}

fn array_of_column(column: Column) -> Array {
    let mut buffers = vec![column.validity];
    buffers.extend(column.buffers);
    let child = column
        .child
        .into_iter()
        .map(|child| array_of_column(*child));
    array_of(column.len, column.nulls, buffers, child.collect())
}

unsafe extern "C" fn release_array(array: *mut Array) {
    // SAFETY: a consumer passes an array that it has not released.
    let array = unsafe { &mut *array };
    // SAFETY: the state was made by `array_of`, and is freed once.
    let state = unsafe { Box::from_raw(array.private_data.cast::<ArrayState>()) };
    array.release = None;
    for &child in &state.children {
        // SAFETY: the child was made by `array_of`.
        let mut child = unsafe { Box::from_raw(child) };
        if let Some(release) = child.release {
            // SAFETY: a consumer that moved the child out has set its function to none.
            unsafe { release(&mut *child) };
        }
    }
}

/// Number of "invalid argument" in C.
const EINVAL: c_int = 22;

fn pending<'a>(stream: *mut Stream) -> &'a mut Pending {
    // SAFETY: a consumer passes a stream that it has not released.
    let state = unsafe { (*stream).private_data.cast::<Pending>() };
    // SAFETY: the state was made by `arrow_stream` and is freed with the stream.
    unsafe { &mut *state }
}

unsafe extern "C" fn get_schema(stream: *mut Stream, out: *mut Schema) -> c_int {
    let Some(columns) = &pending(stream).columns else {
        return EINVAL;
    };
    let children = columns.iter().map(schema_of_column).collect();
    // SAFETY: the consumer passes memory for a schema.
    unsafe { out.write(schema_of(c"", c"+s", children)) };
    0
}

unsafe extern "C" fn get_next(stream: *mut Stream, out: *mut Array) -> c_int {
    let array = match pending(stream).columns.take() {
        None => Array::empty(),
        Some(columns) => {
            let len = columns.first().map_or(0, |column| column.len);
            let children = columns.into_iter().map(array_of_column).collect();
            array_of(len, 0, vec![Vec::new()], children)
        }
    };
    // SAFETY: the consumer passes memory for an array.
    unsafe { out.write(array) };
    0
}

unsafe extern "C" fn get_last_error(_stream: *mut Stream) -> *const c_char {
    c"the schema is requested after the batch".as_ptr()
}

unsafe extern "C" fn release_stream(stream: *mut Stream) {
    // SAFETY: a consumer passes a stream that it has not released.
    let stream = unsafe { &mut *stream };
    // SAFETY: the state was made by `arrow_stream`, and is freed once.
    drop(unsafe { Box::from_raw(stream.private_data.cast::<Pending>()) });
    stream.release = None;
}

unsafe extern "C" fn drop_capsule(capsule: *mut ffi::PyObject) {
    let name = c"arrow_array_stream".as_ptr();
    // SAFETY: Python calls the destructor with the capsule.
    let pointer = unsafe { ffi::PyCapsule_GetPointer(capsule, name) };
    if pointer.is_null() {
        return;
    }
    // SAFETY: `arrow_stream` made the capsule of a boxed stream.
    let mut stream = unsafe { Box::from_raw(pointer.cast::<Stream>()) };
    if let Some(release) = stream.release {
        // SAFETY: a consumer that took the stream over has set its function to none.
        unsafe { release(&mut *stream) };
    }
}
