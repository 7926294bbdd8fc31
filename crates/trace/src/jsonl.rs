//! One JSON object on each line. The fields have the same names as csv's columns, or names given by
//! the caller, as in `key=hash_ids`.
//!
//! A key that is a list represents one request for each of its elements, at the same time and with
//! the same size. The blocks of a language model's key-value cache (`hash_ids`) are published in
//! this way. Fields of the object that are not named are ignored, whatever they contain.

use crate::csv::{Column, check_columns, renamed};
use crate::entry::{Columns, Entry, OpenError, Source, TextLayout, Workload};
use crate::error::Fault;
use crate::lines::Lines;
use crate::number::{key, thousandths};
use crate::request::{Op, Request};
use serde_json::{Map, Value};
use std::collections::VecDeque;
use std::io::Read;

/// JSON objects, one a line.
pub(crate) static JSONL: Entry = Entry {
    endings: &["jsonl", "ndjson"],
    aliases: &[],
    columns: Columns::Chosen,
    has_next_access: false,
    workload: Workload::Web,
    open: |input, layout| Ok(Box::new(Jsonl::new(input, layout)?)),
    encode: None,
};

const EXPECTED_OBJECT: &str = "a JSON object with a field for the key";
const EXPECTED_SUM: &str = "a sum of key size and value size below 2^32";

/// Reader of objects.
struct Jsonl<R> {
    lines: Lines<R>,
    /// Columns with the names of their fields that the caller gave.
    chosen: Vec<(Column, String)>,
    /// Requests from the last line read. There may be as many as a line has elements.
    waiting: VecDeque<Request>,
}

impl<R: Read> Jsonl<R> {
    fn new(input: R, layout: &TextLayout<'_>) -> Result<Self, OpenError> {
        let names = layout.columns.unwrap_or_default();
        let chosen = renamed(names).map_err(OpenError::Unfit)?;
        if layout.delimiter.is_some() {
            return Err(OpenError::Unfit("JSON has no delimiter".into()));
        }
        let columns: Vec<Column> = chosen.iter().map(|(column, _)| *column).collect();
        if columns.contains(&Column::Key) {
            check_columns(&columns, false).map_err(OpenError::Unfit)?;
        }
        let mut jsonl = Jsonl {
            lines: Lines::new(input),
            chosen,
            waiting: VecDeque::new(),
        };
        for _ in 0..layout.skip_lines {
            jsonl.lines.next()?;
        }
        Ok(jsonl)
    }
}

impl<R: Read> Source for Jsonl<R> {
    fn next(&mut self) -> Result<Option<Request>, Fault> {
        loop {
            if let Some(request) = self.waiting.pop_front() {
                return Ok(Some(request));
            }
            let Some(line) = self.lines.next()? else {
                return Ok(None);
            };
            let value: Result<Map<String, Value>, _> = serde_json::from_slice(line.text);
            let object = value.map_err(|_| line.fault(EXPECTED_OBJECT))?;
            let keys = parse(&object, &self.chosen).map_err(|expected| line.fault(expected))?;
            self.waiting.extend(keys);
        }
    }
}

/// Returns the value of a column's field, if the object has one that is not null.
fn field<'o>(
    object: &'o Map<String, Value>,
    chosen: &[(Column, String)],
    column: Column,
) -> Option<&'o Value> {
    let named = chosen.iter().find(|(other, _)| *other == column);
    let value = match named {
        Some((_, name)) => object.get(name),
        // A field that serves another column is not this one.
        None => column.names().iter().find_map(|name| {
            let is_taken = chosen.iter().any(|(_, other)| other == name);
            object.get(*name).filter(|_| !is_taken)
        }),
    };
    value.filter(|value| !value.is_null())
}

/// Parses an object into its requests. The error says what was expected.
fn parse(
    object: &Map<String, Value>,
    chosen: &[(Column, String)],
) -> Result<Vec<Request>, &'static str> {
    let get = |column| field(object, chosen, column);
    let number = |column: Column| match get(column) {
        Some(value) => milli(value, column).map(Some).ok_or(column.expected()),
        None => Ok(None),
    };
    let small = |column: Column| match number(column)? {
        Some(number) => u32::try_from(number)
            .map(Some)
            .map_err(|_| column.expected()),
        None => Ok(None),
    };
    let either = |ms: Column, seconds: Column| match number(ms)? {
        Some(time) => Ok(time),
        None => number(seconds).map(|time| time.unwrap_or(0)),
    };
    let mut request = Request {
        time_ms: either(Column::Milliseconds, Column::Seconds)?,
        ttl_ms: either(Column::TtlMilliseconds, Column::TtlSeconds)?,
        key_size: small(Column::KeySize)?.unwrap_or(0),
        ..Request::default()
    };
    (request.size, request.value_size) = match (small(Column::Size)?, small(Column::ValueSize)?) {
        (Some(size), value) => (size, value.unwrap_or(size.saturating_sub(request.key_size))),
        (None, Some(value)) => {
            let size = request.key_size.checked_add(value);
            (size.ok_or(EXPECTED_SUM)?, value)
        }
        (None, None) => (request.size, request.value_size),
    };
    if let Some(value) = get(Column::Op) {
        let op = value.as_str().and_then(|op| Op::from_name(op.as_bytes()));
        request.op = op.ok_or(Column::Op.expected())?;
    }
    let keys = get(Column::Key).ok_or(EXPECTED_OBJECT)?;
    let keys = match keys {
        Value::Array(keys) => keys.as_slice(),
        key => core::slice::from_ref(key),
    };
    let with_key = |value: &Value| {
        let key = key_of(value).ok_or("a number, a text or a list of these as key")?;
        Ok(Request { key, ..request })
    };
    keys.iter().map(with_key).collect()
}

fn key_of(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) if !text.is_empty() => Some(key(text.as_bytes())),
        Value::Number(number) => Some(key(number.to_string().as_bytes())),
        _ => None,
    }
}

/// Parses a number, or a text of one, in the unit of its column. Seconds become milliseconds.
fn milli(value: &Value, column: Column) -> Option<u64> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    match column {
        Column::Seconds | Column::TtlSeconds => thousandths(text.as_bytes()),
        // A writer of floating-point numbers gives a whole number as 17.0.
        _ => thousandths(text.as_bytes()).map(|thousandths| thousandths / 1000),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Op, Options, Request, key_of_text, open};

    fn all(columns: Option<&str>, text: &str) -> Result<Vec<Request>, String> {
        let options = Options {
            columns: columns.map(Into::into),
            ..Options::default()
        };
        let requests = open("t.jsonl", text.as_bytes(), &options).map_err(|e| e.to_string())?;
        let requests: Result<Vec<_>, _> = requests.collect();
        requests.map_err(|error| error.to_string())
    }

    #[test]
    fn a_list_of_keys_is_a_request_for_each() {
        let text = "{\"timestamp\": 27482, \"input_length\": 6758, \"hash_ids\": [46, 47, \"a\"]}\n\
                    {\"timestamp\": 30535.5, \"hash_ids\": []}\n{\"timestamp\":30536,\"hash_ids\":[46]}";
        let requests = all(Some("time_ms=timestamp,key=hash_ids"), text);
        let request = |time_ms, key| Request::new(time_ms, key, 1);
        let wanted = vec![
            request(27_482, 46),
            request(27_482, 47),
            request(27_482, key_of_text(b"a")),
            request(30_536, 46),
        ];
        assert_eq!(requests, Ok(wanted));
    }

    #[test]
    fn fields_have_the_names_of_columns() {
        let text = "{\"time\":1.5,\"key\":\"7\",\"size\":300,\"op\":\"SET\",\"ttl\":60,\"x\":{\"y\":[]}}\n";
        let wanted = Request {
            op: Op::Set,
            ttl_ms: 60_000,
            ..Request::new(1_500, 7, 300)
        };
        assert_eq!(all(None, text), Ok(vec![wanted]));
    }

    #[test]
    fn a_wrong_field_is_named_with_its_line() {
        let cases = [
            ("", "a JSON object"),
            ("[1]", "a JSON object"),
            ("{\"key\":1", "a JSON object"),
            ("{\"time\":1}", "a JSON object with a field for the key"),
            ("{\"key\":null}", "a JSON object with a field for the key"),
            ("{\"key\":{}}", "a number, a text or a list"),
            ("{\"key\":[[1]]}", "a number, a text or a list"),
            ("{\"key\":\"\"}", "a number, a text or a list"),
            (
                "{\"key\":1,\"time\":-5}",
                "seconds, not negative, such as 17",
            ),
            (
                "{\"key\":1,\"time\":[]}",
                "seconds, not negative, such as 17",
            ),
            (
                "{\"key\":1,\"size\":4294967296}",
                "a whole number below 2^32 as size",
            ),
            ("{\"key\":1,\"op\":3}", "get, gets"),
        ];
        for (line, wanted) in cases {
            let error = all(None, &format!("{{\"key\":1}}\n{line}\n")).expect_err(line);
            let start = format!("t.jsonl:2: expected {wanted}");
            assert!(error.starts_with(&start), "{error}");
        }
        let deep = format!(
            "{{\"key\":1,\"x\":{}{}}}",
            "[".repeat(20_000),
            "]".repeat(20_000)
        );
        assert!(all(None, &deep).is_err(), "nesting is bounded");
        let error = all(Some("key"), "").expect_err("a name without a field");
        assert!(error.contains("as in key=hash_ids"), "{error}");
    }
}
