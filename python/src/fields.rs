//! Requests from columns: which column holds which field, and which values are allowed.

use crate::failure::Failure;
use crate::numbers::{Kind, Number, Numbers};
use trace::{NextAccess, Op, Request};

/// Names of the columns, with the field that each holds. They are the same as in CSV traces.
const NAMES: [(&str, Field); 19] = [
    ("key", Field::Key),
    ("id", Field::Key),
    ("obj_id", Field::Key),
    ("time", Field::Seconds),
    ("timestamp", Field::Seconds),
    ("relative_unix", Field::Seconds),
    ("op_time", Field::Seconds),
    ("time_ms", Field::Milliseconds),
    ("size", Field::Size),
    ("obj_size", Field::Size),
    ("response_size", Field::Size),
    ("key_size", Field::KeySize),
    ("value_size", Field::ValueSize),
    ("op", Field::Op),
    ("operation", Field::Op),
    ("ttl", Field::TtlSeconds),
    ("ttl_ms", Field::TtlMilliseconds),
    ("client", Field::Client),
    ("next", Field::Next),
];

/// Field of a request that a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    Key,
    Seconds,
    Milliseconds,
    Size,
    KeySize,
    ValueSize,
    Op,
    TtlSeconds,
    TtlMilliseconds,
    Client,
    Next,
}

/// Names of the columns that are read.
pub fn names() -> Vec<&'static str> {
    NAMES.iter().map(|(name, _)| *name).collect()
}

impl Field {
    /// Returns the field of a name; `None` if columns of this name are ignored.
    pub fn of(name: &str) -> Option<Field> {
        let found = NAMES.iter().find(|(other, _)| *other == name);
        found.map(|(_, field)| *field)
    }

    fn max(self) -> u64 {
        match self {
            Field::Size | Field::KeySize | Field::ValueSize | Field::Client => u32::MAX.into(),
            // A deadline fits 48 bits of milliseconds.
            _ => 1 << 47,
        }
    }
}

/// Values of a column.
pub enum Values {
    Numbers(Numbers),
    /// Keys of texts.
    Keys(Vec<u64>),
    /// Operations.
    Ops(Vec<Op>),
}

/// A column of a batch.
pub struct FieldColumn {
    pub name: String,
    pub field: Field,
    pub values: Values,
    /// Factor that converts values to the field's unit, for columns of dates and spans.
    pub unit: f64,
}

/// Rows in columns of the same length.
pub struct Batch {
    columns: Vec<FieldColumn>,
    /// Position of the keys in `columns`.
    key: usize,
    len: usize,
    /// Number of rows before this batch.
    first_row: usize,
    has_size: bool,
}

impl Batch {
    /// Checks the columns of rows from `first_row` on.
    pub fn new(columns: Vec<FieldColumn>, first_row: usize) -> Result<Batch, Failure> {
        let known = || {
            let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
            match names.as_slice() {
                [] => "none of its columns has a known name".into(),
                names => format!("of known names it has {}", names.join(", ")),
            }
        };
        let is_key = |column: &FieldColumn| column.field == Field::Key;
        let Some(key) = columns.iter().position(is_key) else {
            return Err(Failure::Value(format!(
                "the table has no column of keys: {}; expected 'key', 'id' or 'obj_id'",
                known()
            )));
        };
        let len = columns[key].values.len();
        for (number, column) in columns.iter().enumerate() {
            if column.values.len() != len {
                return Err(Failure::Value(format!(
                    "column '{}' has {} rows, but column '{}' has {len}",
                    column.name,
                    column.values.len(),
                    columns[key].name
                )));
            }
            let mut others = columns[..number].iter();
            if let Some(other) = others.find(|other| other.field == column.field) {
                return Err(Failure::Value(format!(
                    "columns '{}' and '{}' hold the same field: rename one of them",
                    other.name, column.name
                )));
            }
            column.check_type()?;
        }
        let has_size = columns.iter().any(|column| column.field == Field::Size);
        Ok(Batch {
            columns,
            key,
            len,
            first_row,
            has_size,
        })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Reads a row.
    #[inline(always)]
    pub fn request(&self, row: usize) -> Result<Request, Failure> {
        let mut request = Request {
            key: match &self.columns[self.key].values {
                Values::Numbers(numbers) => numbers.key(row),
                Values::Keys(keys) => keys[row],
                Values::Ops(_) => 0,
            },
            ..Request::default()
        };
        if self.columns.len() > 1 {
            self.fill(row, &mut request)?;
        }
        Ok(request)
    }

    fn fill(&self, row: usize, request: &mut Request) -> Result<(), Failure> {
        let (mut key_size, mut value_size) = (0, None);
        for (number, column) in self.columns.iter().enumerate() {
            if number == self.key {
                continue;
            }
            let numbers = match &column.values {
                Values::Ops(ops) => {
                    request.op = ops[row];
                    continue;
                }
                Values::Keys(_) => continue,
                Values::Numbers(numbers) => numbers,
            };
            if column.field == Field::Next {
                request.next_access = match numbers.get(row) {
                    Number::Whole(next) if next >= 0 => NextAccess::At(next as u64),
                    _ => NextAccess::Never,
                };
                continue;
            }
            let value = column.value(numbers.get(row), self.first_row + row)?;
            match column.field {
                Field::Seconds | Field::Milliseconds => request.time_ms = value,
                Field::TtlSeconds | Field::TtlMilliseconds => request.ttl_ms = value,
                Field::Size => request.size = value as u32,
                Field::KeySize => key_size = value as u32,
                Field::ValueSize => value_size = Some(value as u32),
                Field::Client => request.client = value as u32,
                Field::Key | Field::Op | Field::Next => {}
            }
        }
        request.key_size = key_size;
        match value_size {
            Some(value_size) => {
                request.value_size = value_size;
                if !self.has_size {
                    request.size = key_size.saturating_add(value_size);
                }
            }
            None => request.value_size = request.size.saturating_sub(key_size),
        }
        Ok(())
    }
}

impl FieldColumn {
    /// Checks that the column's type suits its field.
    fn check_type(&self) -> Result<(), Failure> {
        let expected = match (&self.values, self.field) {
            (Values::Keys(_), Field::Key) | (Values::Ops(_), Field::Op) => return Ok(()),
            (Values::Numbers(numbers), Field::Key) if numbers.kind().is_integer() => return Ok(()),
            (Values::Numbers(numbers), field)
                if field != Field::Key && field != Field::Op && numbers.kind() != Kind::Bool =>
            {
                return Ok(());
            }
            (_, Field::Key) => "integers or text",
            (_, Field::Op) => "names of operations such as 'get' and 'set'",
            _ => "numbers",
        };
        let found = match &self.values {
            Values::Numbers(numbers) => format!("{:?}", numbers.kind()).to_lowercase(),
            Values::Keys(_) | Values::Ops(_) => "text".into(),
        };
        Err(Failure::Type(format!(
            "column '{}' holds {found}: expected {expected}",
            self.name
        )))
    }

    /// Returns a value in the unit of its field: bytes, milliseconds or a number.
    #[inline(always)]
    fn value(&self, number: Number, row: usize) -> Result<u64, Failure> {
        let max = self.field.max();
        let factor = match self.field {
            Field::Seconds | Field::TtlSeconds => self.unit * 1_000.0,
            _ => self.unit,
        };
        match number {
            Number::Whole(value) if factor == 1.0 && value >= 0 && value <= i128::from(max) => {
                Ok(value as u64)
            }
            Number::Whole(value) => {
                let scaled = value as f64 * factor;
                match value >= 0 && scaled <= max as f64 && factor != 1.0 {
                    true => Ok(scaled.round() as u64),
                    false => Err(self.refused(value, factor, row)),
                }
            }
            Number::Real(value) => {
                let scaled = value * factor;
                match scaled >= 0.0 && scaled <= max as f64 {
                    true => Ok(scaled.round() as u64),
                    false => Err(self.refused(value, factor, row)),
                }
            }
        }
    }

    #[cold]
    fn refused(&self, value: impl std::fmt::Display, factor: f64, row: usize) -> Failure {
        Failure::Value(format!(
            "column '{}', row {row}: {value}: expected a number from 0 to {}",
            self.name,
            (self.field.max() as f64 / factor).floor()
        ))
    }
}

impl Values {
    pub fn len(&self) -> usize {
        match self {
            Values::Numbers(numbers) => numbers.len(),
            Values::Keys(keys) => keys.len(),
            Values::Ops(ops) => ops.len(),
        }
    }

    /// Converts texts to the values of a field: keys or operations.
    pub fn of_texts<'a>(
        name: &str,
        field: Field,
        first_row: usize,
        texts: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Values, Failure> {
        match field {
            Field::Key => Ok(Values::Keys(texts.map(trace::key_of_field).collect())),
            Field::Op => {
                let op = |(row, text): (usize, &[u8])| {
                    Op::from_name(text).ok_or_else(|| {
                        let known: Vec<&str> = Op::ALL.iter().map(|op| op.name()).collect();
                        Failure::Value(format!(
                            "column '{name}', row {}: operation '{}': expected one of {}",
                            first_row + row,
                            String::from_utf8_lossy(text),
                            known.join(", ")
                        ))
                    })
                };
                let ops: Result<Vec<Op>, Failure> = texts.enumerate().map(op).collect();
                Ok(Values::Ops(ops?))
            }
            _ => Err(Failure::Type(format!(
                "column '{name}' holds text: expected numbers"
            ))),
        }
    }
}
