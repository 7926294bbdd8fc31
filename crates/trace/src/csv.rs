//! Text in columns separated by commas. The columns are named by the first line, by the caller, or
//! by the Twitter format.
//!
//! Columns may have any order, and unknown columns are ignored. A field may be quoted; a quote
//! inside it is doubled. A line end ends the record also inside of quotes. Blanks around a field
//! and a byte order mark are ignored. Blank lines are refused.

mod write;

use crate::entry::{Columns, Entry, Input, OpenError, Source, TextLayout, Workload};
use crate::error::{Fault, Position};
use crate::lines::Lines;
use crate::number::{key, small, thousandths, whole};
use crate::request::{NextAccess, Op, Request};
use crate::text_key::key_of_text;
use std::io::Read;

/// Field of a request that a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    Ignored,
    Seconds,
    Milliseconds,
    Key,
    Size,
    KeySize,
    ValueSize,
    Op,
    TtlSeconds,
    TtlMilliseconds,
    Client,
    Next,
    /// Number of equal requests that the line represents.
    Count,
}

/// Every column with its names.
const NAMES: [(Column, &[&str]); 12] = [
    (
        Column::Seconds,
        &["time", "timestamp", "relative_unix", "op_time"],
    ),
    (Column::Milliseconds, &["time_ms"]),
    (
        Column::Key,
        &[
            "key",
            "id",
            "obj_id",
            "hashed_path_query",
            "hashed_host_path_query",
        ],
    ),
    (Column::Size, &["size", "obj_size", "response_size"]),
    (Column::KeySize, &["key_size"]),
    (Column::ValueSize, &["value_size"]),
    (Column::Op, &["op", "operation"]),
    (Column::TtlSeconds, &["ttl"]),
    (Column::TtlMilliseconds, &["ttl_ms"]),
    (Column::Client, &["client", "client_id"]),
    (Column::Next, &["next"]),
    (Column::Count, &["op_count"]),
];

/// Columns of the Twitter cache trace.
const TWITTER_COLUMNS: &str = "time,key,key_size,value_size,client,op,ttl";

/// Comma-separated text with named columns.
pub(crate) static CSV: Entry = Entry {
    endings: &["csv"],
    aliases: &[],
    columns: Columns::Chosen,
    has_next_access: false,
    workload: Workload::Web,
    open: |input, layout| open(input, layout.columns, layout, b','),
    encode: Some(write::csv),
};

/// Tab-separated values, the format in which Wikimedia publishes its caches' requests.
pub(crate) static TSV: Entry = Entry {
    endings: &["tsv"],
    aliases: &["wikimedia"],
    columns: Columns::Chosen,
    has_next_access: false,
    workload: Workload::Web,
    open: |input, layout| open(input, layout.columns, layout, b'\t'),
    encode: None,
};

/// Key-value traces of Meta's CacheBench: a header, no times in the older ones, `size` is the
/// value's size, and a line represents `op_count` requests.
pub(crate) static CACHEBENCH: Entry = Entry {
    endings: &["cachebench.csv"],
    aliases: &["cachebench"],
    columns: Columns::Fixed,
    has_next_access: false,
    workload: Workload::Web,
    open: |input, layout| {
        let mut csv = Csv::new(input, layout.delimiter.unwrap_or(b','));
        csv.skip_lines(layout.skip_lines)?;
        csv.read_header(&[], false)?;
        let size = csv
            .columns
            .iter_mut()
            .filter(|column| **column == Column::Size);
        size.for_each(|column| *column = Column::ValueSize);
        Ok(Box::new(csv))
    },
    encode: None,
};

/// The Twitter cache trace: comma-separated text with seven columns and no header.
pub(crate) static TWITTER: Entry = Entry {
    endings: &["twitter.csv"],
    aliases: &["twitter"],
    columns: Columns::Fixed,
    has_next_access: false,
    workload: Workload::Web,
    open: |input, layout| open(input, Some(TWITTER_COLUMNS), layout, b','),
    encode: Some(write::twitter),
};

const EXPECTED_HEADER: &str =
    "a header naming the columns time, key and size (or key_size and value_size) once each";
const EXPECTED_COLUMNS: &str = "one column for each name";
const EXPECTED_QUOTE: &str = "a closing quote, followed by a comma or the end of the line";

const EXPECTED_SUM: &str = "a sum of key size and value size below 2^32";

/// Maximum number of requests represented by one line. A larger number is treated as damaged.
const COUNT_MAX: u64 = 1 << 24;

/// Parses pairs such as `key=hash_ids`: a column, and the name that the trace has for it.
pub(crate) fn renamed(pairs: &str) -> Result<Vec<(Column, String)>, String> {
    let pair = |pair: &str| {
        let (name, theirs) = pair.split_once('=').ok_or_else(|| {
            format!("{pair:?}: expected a column and the trace's name for it, as in key=hash_ids")
        })?;
        match Column::of_name(name.as_bytes()) {
            Column::Ignored => Err(format!("column {name:?} is unknown")),
            column => Ok((column, theirs.trim().to_owned())),
        }
    };
    let pairs = pairs.split(',').filter(|pair| !pair.is_empty());
    pairs.map(pair).collect()
}

impl Column {
    /// Returns the names of the column in a header.
    pub(crate) fn names(self) -> &'static [&'static str] {
        let found = NAMES.iter().find(|(column, _)| *column == self);
        found.map_or(&[], |(_, names)| names)
    }

    /// Returns the column of a name; an unknown name is a column to ignore.
    pub(crate) fn of_name(name: &[u8]) -> Column {
        let name = name.trim_ascii();
        let is_named = |names: &[&str]| {
            names
                .iter()
                .any(|n| n.as_bytes().eq_ignore_ascii_case(name))
        };
        let found = NAMES.iter().find(|(_, names)| is_named(names));
        found.map_or(Column::Ignored, |(column, _)| *column)
    }

    /// Returns the column of the same field in seconds, so that a field given in two units is
    /// found.
    fn subject(self) -> Column {
        match self {
            Column::Milliseconds => Column::Seconds,
            Column::TtlMilliseconds => Column::TtlSeconds,
            other => other,
        }
    }

    pub(crate) const fn expected(self) -> &'static str {
        match self {
            Column::Seconds => "seconds, not negative, such as 17 or 17.25, as time",
            Column::Milliseconds => "a whole number of milliseconds below 2^64 as time_ms",
            Column::Key => "a number or a text as key",
            Column::Size => "a whole number below 2^32 as size",
            Column::KeySize => "a whole number below 2^32 as key_size",
            Column::ValueSize => "a whole number below 2^32 as value_size",
            Column::Op => {
                "get, gets, set, add, replace, cas, append, prepend, delete, incr or decr as op"
            }
            Column::TtlSeconds => "seconds, such as 60 or 0.5, or nothing as ttl",
            Column::TtlMilliseconds => {
                "a whole number of milliseconds below 2^64, or nothing, as ttl_ms"
            }
            Column::Client => "a number or a text as client",
            Column::Count => "a whole number from 1 to 16,777,216 as op_count",
            Column::Next => "the number of a later request, counted from 0, or -1 as next",
            Column::Ignored => "anything",
        }
    }
}

/// Checks that no field has two columns and that the required ones exist.
pub(crate) fn check_columns(columns: &[Column], is_header: bool) -> Result<(), String> {
    for (name, names) in NAMES {
        let twice = columns
            .iter()
            .filter(|column| column.subject() == name.subject());
        if name == name.subject() && twice.count() > 1 {
            return Err(format!("the column {} is given twice", names[0]));
        }
    }
    let has = |wanted: Column| columns.iter().any(|column| column.subject() == wanted);
    if !has(Column::Key) {
        return Err("there is no column key".into());
    }
    // A caller that names the columns knows which are missing. A header without them probably uses
    // other names.
    if is_header && !has(Column::Seconds) {
        return Err("there is no column time".into());
    }
    if is_header && !has(Column::Size) && !has(Column::ValueSize) {
        return Err("there is no column size".into());
    }
    Ok(())
}

fn open<'a>(
    input: Input<'a>,
    names: Option<&str>,
    layout: &TextLayout<'_>,
    delimiter: u8,
) -> Result<Box<dyn Source + 'a>, OpenError> {
    // Names with = rename those of the header, and others take its place.
    let (columns, pairs) = match names {
        Some(names) if names.contains('=') => (None, renamed(names).map_err(OpenError::Unfit)?),
        Some(names) => {
            let names = names.split(',').map(str::as_bytes);
            let columns: Vec<Column> = names.map(Column::of_name).collect();
            check_columns(&columns, false).map_err(OpenError::Unfit)?;
            (Some(columns), Vec::new())
        }
        None => (None, Vec::new()),
    };
    let mut csv = Csv::new(input, layout.delimiter.unwrap_or(delimiter));
    csv.skip_lines(layout.skip_lines)?;
    match columns {
        Some(columns) => csv.columns = columns,
        None => csv.read_header(&pairs, true)?,
    }
    Ok(Box::new(csv))
}

/// Reader of text in columns, one request a line.
struct Csv<R> {
    lines: Lines<R>,
    delimiter: u8,
    columns: Vec<Column>,
    /// Buffer for the text of a quoted field without its quotes.
    unquoted: Vec<u8>,
    /// Request of the last line, and the number of times that it will be returned again.
    repeated: (Request, u64),
}

impl<R: Read> Csv<R> {
    /// Creates a reader that has no columns yet.
    fn new(input: R, delimiter: u8) -> Self {
        Csv {
            lines: Lines::new(input),
            delimiter,
            columns: Vec::new(),
            unquoted: Vec::new(),
            repeated: (Request::default(), 0),
        }
    }

    /// Skips lines without parsing them.
    fn skip_lines(&mut self, count: u64) -> Result<(), Fault> {
        for _ in 0..count {
            if self.lines.next()?.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Reads the columns from the next line, some of which may have names given by the caller.
    /// Returns an error if no column is the key, or, if `is_timed`, without times and sizes.
    fn read_header(&mut self, pairs: &[(Column, String)], is_timed: bool) -> Result<(), Fault> {
        let Some(line) = self.lines.next()? else {
            return Err(Fault::at(Position::Line(1), EXPECTED_HEADER, "nothing"));
        };
        let text = line.text.strip_prefix(b"\xEF\xBB\xBF");
        let mut rest = Some(text.unwrap_or(line.text));
        while let Some(text) = rest {
            let field = take_field(text, self.delimiter, &mut self.unquoted);
            let (name, taken) = field.ok_or_else(|| line.fault(EXPECTED_QUOTE))?;
            let own = Column::of_name(name);
            let pair = pairs.iter().find(|(_, theirs)| theirs.as_bytes() == name);
            let is_renamed = |column: Column| {
                let mut subjects = pairs.iter().map(|(other, _)| other.subject());
                subjects.any(|subject| subject == column.subject())
            };
            self.columns.push(match pair {
                Some((column, _)) => *column,
                None if is_renamed(own) => Column::Ignored,
                None => own,
            });
            rest = text.get(taken + 1..);
        }
        let columns = &self.columns;
        if let Some((_, name)) = pairs.iter().find(|(column, _)| !columns.contains(column)) {
            return Err(line.fault(format!("a header with the column {name:?}")));
        }
        check_columns(&self.columns, is_timed)
            .map_err(|problem| line.fault(format!("{EXPECTED_HEADER} ({problem})")))
    }
}

impl<R: Read> Source for Csv<R> {
    fn next(&mut self) -> Result<Option<Request>, Fault> {
        if self.repeated.1 > 0 {
            self.repeated.1 -= 1;
            return Ok(Some(self.repeated.0));
        }
        let Some(line) = self.lines.next()? else {
            return Ok(None);
        };
        let parsed = parse(line.text, &self.columns, self.delimiter, &mut self.unquoted);
        let (request, count) = parsed.map_err(|expected| line.fault(expected))?;
        if count > 1 {
            self.repeated = (request, count - 1);
        }
        Ok(Some(request))
    }
}

/// Parses a line into a request and the number of requests it represents. The error says what was
/// expected.
fn parse(
    line: &[u8],
    columns: &[Column],
    delimiter: u8,
    unquoted: &mut Vec<u8>,
) -> Result<(Request, u64), &'static str> {
    let mut request = Request::default();
    let mut count = 1;
    let (mut size, mut value_size) = (None, None);
    let mut rest = Some(line);
    for &column in columns {
        let text = rest.ok_or(EXPECTED_COLUMNS)?;
        let (field, taken) = take_field(text, delimiter, unquoted).ok_or(EXPECTED_QUOTE)?;
        rest = text.get(taken + 1..);
        let is_valid = match column {
            Column::Ignored => true,
            Column::Size => put_some(&mut size, small(field)),
            Column::ValueSize => put_some(&mut value_size, small(field)),
            Column::Count => put(
                &mut count,
                whole(field).filter(|count| (1..=COUNT_MAX).contains(count)),
            ),
            _ => put_field(&mut request, column, field),
        };
        if !is_valid {
            return Err(column.expected());
        }
    }
    if rest.is_some() {
        return Err(EXPECTED_COLUMNS);
    }
    (request.size, request.value_size) = match (size, value_size) {
        (Some(size), Some(value_size)) => (size, value_size),
        (Some(size), None) => (size, size.saturating_sub(request.key_size)),
        (None, Some(value_size)) => {
            let size = request.key_size.checked_add(value_size);
            (size.ok_or(EXPECTED_SUM)?, value_size)
        }
        (None, None) => (request.size, request.value_size),
    };
    Ok((request, count))
}

/// Parses a field and stores it in the request. Returns false if the field is invalid for its
/// column.
#[inline]
fn put_field(request: &mut Request, column: Column, field: &[u8]) -> bool {
    match column {
        Column::Seconds => put(&mut request.time_ms, thousandths(field)),
        Column::Milliseconds => put(&mut request.time_ms, whole(field)),
        Column::Key => put(&mut request.key, (!field.is_empty()).then(|| key(field))),
        Column::KeySize => put(&mut request.key_size, small(field)),
        Column::Op => put(&mut request.op, Op::from_name(field)),
        Column::TtlSeconds => put(&mut request.ttl_ms, or_zero(field, thousandths)),
        Column::TtlMilliseconds => put(&mut request.ttl_ms, or_zero(field, whole)),
        Column::Client => put(&mut request.client, client(field)),
        Column::Next => put(&mut request.next_access, next_access(field)),
        Column::Ignored | Column::Size | Column::ValueSize | Column::Count => true,
    }
}

/// Sets a field if there is a value; returns whether there was one.
#[inline]
pub(crate) fn put<T>(field: &mut T, value: Option<T>) -> bool {
    match value {
        Some(value) => {
            *field = value;
            true
        }
        None => false,
    }
}

#[inline]
fn put_some<T>(field: &mut Option<T>, value: Option<T>) -> bool {
    *field = value;
    field.is_some()
}

/// Parses a number; an empty field is 0.
#[inline]
fn or_zero(field: &[u8], number: impl Fn(&[u8]) -> Option<u64>) -> Option<u64> {
    if field.is_empty() {
        Some(0)
    } else {
        number(field)
    }
}

/// Parses a client: a number below 2^32, or the low half of a text's hash.
fn client(field: &[u8]) -> Option<u32> {
    if field.is_empty() {
        return Some(0);
    }
    Some(small(field).unwrap_or_else(|| key_of_text(field) as u32))
}

fn next_access(field: &[u8]) -> Option<NextAccess> {
    match field {
        b"" => Some(NextAccess::Unknown),
        b"-1" => Some(NextAccess::Never),
        // The binary formats store it in 63 bits.
        _ => whole(field)
            .filter(|next| *next < i64::MAX as u64)
            .map(NextAccess::At),
    }
}

/// Splits off the first field of a text. Returns it with its length in the text, without the
/// delimiter that follows; `None` if quotes do not match.
#[inline]
fn take_field<'f>(
    text: &'f [u8],
    delimiter: u8,
    unquoted: &'f mut Vec<u8>,
) -> Option<(&'f [u8], usize)> {
    // Fields are short, and a vectorised search costs more than it saves.
    let end = text.iter().position(|&byte| byte == delimiter);
    let end = end.unwrap_or(text.len());
    let field = text[..end].trim_ascii();
    if field.first() != Some(&b'"') {
        return Some((field, end));
    }
    unquoted.clear();
    let mut at = text.iter().position(|&byte| byte == b'"')? + 1;
    loop {
        let quote = at + memchr::memchr(b'"', &text[at..])?;
        unquoted.extend_from_slice(&text[at..quote]);
        at = quote + 1;
        if text.get(at) != Some(&b'"') {
            break;
        }
        unquoted.push(b'"');
        at += 1;
    }
    let behind = &text[at..];
    let end = behind.iter().position(|&byte| byte == delimiter);
    let end = end.unwrap_or(behind.len());
    behind[..end]
        .trim_ascii()
        .is_empty()
        .then_some((&unquoted[..], at + end))
}

#[cfg(test)]
mod tests;
