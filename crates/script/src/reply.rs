//! Conversion of command replies to Lua values, and of a script's value to a reply.

use crate::failure::{error_table, number_of};
use crate::number::integral;
use crate::state::State;
use mlua::{Function, Lua, Table, Value};
use wire::number::{parse_f64, parse_i64};
use wire::{Protocol, Reply};

/// Maximum depth of tables in a script's reply.
const DEPTH_MAX: usize = 500;
/// Kind of a table with the field `err`, as numbered by the prelude's `kind_of`.
pub const ERROR_KIND: u8 = 1;
/// Error for a script whose value is too large.
const TOO_LARGE: &str = "ERR the reply of the script exceeds script-memory-limit";
/// Error in place of a table that is nested too deeply.
const TOO_DEEP: &str = "ERR reached lua stack limit";

/// Converts the reply at `at` to a Lua value. Returns the value and the position after the reply.
pub fn to_lua(lua: &Lua, bytes: &[u8], at: usize) -> mlua::Result<(Value, usize)> {
    let line_end = bytes[at..].windows(2).position(|pair| pair == b"\r\n");
    let (Some(sigil), Some(end)) = (bytes.get(at), line_end) else {
        return Ok((Value::Boolean(false), bytes.len()));
    };
    let line = bytes.get(at + 1..at + end).unwrap_or_default();
    let next = at + end + 2;
    let value = match sigil {
        b':' => Value::Number(parse_i64(line).unwrap_or(0) as f64),
        b'+' => Value::Table(single(lua, "ok", line)?),
        b'-' => Value::Table(error_table(lua, line, true)?),
        b',' => {
            let table = lua.create_table_with_capacity(0, 1)?;
            table.raw_set("double", parse_f64(line).unwrap_or(f64::NAN))?;
            Value::Table(table)
        }
        b'#' => Value::Boolean(line == b"t"),
        b'_' => Value::Nil,
        b'(' => Value::Table(single(lua, "big_number", line)?),
        b'$' | b'=' | b'!' => return sized(lua, bytes, *sigil, line, next),
        b'*' | b'>' => return list(lua, bytes, line, next),
        b'%' | b'~' => return keyed(lua, bytes, *sigil, line, next),
        _ => Value::Boolean(false),
    };
    Ok((value, next))
}

/// Creates a table with one field.
fn single(lua: &Lua, name: &str, text: &[u8]) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(name, lua.create_string(text)?)?;
    Ok(table)
}

/// Converts a length-prefixed string. A null string becomes false.
fn sized(
    lua: &Lua,
    bytes: &[u8],
    sigil: u8,
    line: &[u8],
    start: usize,
) -> mlua::Result<(Value, usize)> {
    let Some(len) = parse_i64(line).and_then(|len| usize::try_from(len).ok()) else {
        return Ok((Value::Boolean(false), start));
    };
    let text = bytes.get(start..start + len).unwrap_or_default();
    let value = match sigil {
        b'=' => {
            let parts = lua.create_table_with_capacity(0, 2)?;
            let (format, text) = text.split_at(text.len().min(4));
            parts.raw_set(
                "format",
                lua.create_string(format.get(..3).unwrap_or(format))?,
            )?;
            parts.raw_set("string", lua.create_string(text)?)?;
            let table = lua.create_table_with_capacity(0, 1)?;
            table.raw_set("verbatim_string", parts)?;
            Value::Table(table)
        }
        b'!' => Value::Table(error_table(lua, text, true)?),
        _ => Value::String(lua.create_string(text)?),
    };
    Ok((value, start + len + 2))
}

/// Converts an array. A null array becomes false.
fn list(lua: &Lua, bytes: &[u8], line: &[u8], start: usize) -> mlua::Result<(Value, usize)> {
    let Some(len) = parse_i64(line).and_then(|len| usize::try_from(len).ok()) else {
        return Ok((Value::Boolean(false), start));
    };
    // Each element takes at least four bytes.
    let table = lua.create_table_with_capacity(len.min(bytes.len() / 4), 0)?;
    let mut next = start;
    for index in 1..=len {
        let (value, after) = to_lua(lua, bytes, next)?;
        table.raw_seti(index, value)?;
        next = after;
    }
    Ok((Value::Table(table), next))
}

/// Converts a map or a set.
fn keyed(
    lua: &Lua,
    bytes: &[u8],
    sigil: u8,
    line: &[u8],
    start: usize,
) -> mlua::Result<(Value, usize)> {
    let len = parse_i64(line).unwrap_or(0);
    let inner = lua.create_table()?;
    let mut next = start;
    for _ in 0..len {
        let (key, after) = to_lua(lua, bytes, next)?;
        next = after;
        let mut value = Value::Boolean(true);
        if sigil == b'%' {
            (value, next) = to_lua(lua, bytes, next)?;
        }
        if !key.is_nil() {
            inner.raw_set(key, value)?;
        }
    }
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(if sigil == b'%' { "map" } else { "set" }, inner)?;
    Ok((Value::Table(table), next))
}

/// Writer for a script's value.
pub struct Writer<'a, 'r> {
    /// Prelude function that returns how to convert a table.
    pub kind_of: &'a Function,
    /// Whether the script has requested RESP3, which distinguishes `false` from null.
    pub has_booleans: bool,
    /// Reply to the client.
    pub reply: &'a mut Reply<'r>,
    /// Position in the reply where the script's value begins.
    pub start: usize,
    /// State that counts the work.
    pub state: &'a State,
    pub lua: &'a Lua,
}

impl Writer<'_, '_> {
    /// Writes a value. For a table, `kind` and `field` are the results of `kind_of`.
    pub fn write(&mut self, value: &Value, kind: u8, field: &Value) -> mlua::Result<()> {
        self.write_at(value, kind, field, 0)
    }

    /// Writes a value whose kind is not known yet.
    fn nested(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
        if self.reply.is_full() {
            return Ok(());
        }
        let bytes = value.as_string().map_or(0, |text| text.as_bytes().len());
        self.state.work(4 + bytes)?;
        // A table may refer to one string many times.
        if self.reply.position() - self.start + bytes > self.state.memory_bytes.get() {
            self.state.killed.set(Some(TOO_LARGE));
            return self.state.check_killed();
        }
        if !matches!(value, Value::Table(_)) {
            return self.write_at(value, 0, &Value::Nil, depth);
        }
        if depth >= DEPTH_MAX {
            self.reply.error(TOO_DEEP);
            return Ok(());
        }
        self.state.check_stack(self.lua)?;
        let (kind, field): (u8, Value) = self.kind_of.call(value)?;
        self.write_at(value, kind, &field, depth)
    }

    fn write_at(
        &mut self,
        value: &Value,
        kind: u8,
        field: &Value,
        depth: usize,
    ) -> mlua::Result<()> {
        match value {
            Value::String(text) => self.reply.bulk(&text.as_bytes()),
            Value::Integer(number) => self.reply.integer(*number),
            Value::Number(number) => self.reply.integer(whole(*number)),
            Value::Boolean(is_true) if self.has_booleans => self.reply.boolean(*is_true),
            Value::Boolean(true) => self.reply.integer(1),
            Value::Table(table) => return self.table(table, kind, field, depth + 1),
            _ => self.reply.null(),
        }
        Ok(())
    }

    fn table(&mut self, table: &Table, kind: u8, field: &Value, depth: usize) -> mlua::Result<()> {
        match (kind, field) {
            (ERROR_KIND, Value::String(text)) => {
                self.reply.error_bytes(&text.as_bytes());
            }
            (2, Value::String(text)) => self.line(b'+', &text.as_bytes()),
            (3, field) => self
                .reply
                .double(number_of(Some(field)).unwrap_or(f64::NAN)),
            (4, Value::Table(map)) => {
                let mut count = 0;
                map.for_each(|_: Value, _: Value| {
                    count += 1;
                    Ok(())
                })?;
                self.reply.map(count);
                self.state.work(count)?;
                // The visit of a table is a call of Lua's, of which few can be nested.
                for pair in map.pairs::<Value, Value>() {
                    let (key, value) = pair?;
                    self.nested(&key, depth)?;
                    self.nested(&value, depth)?;
                }
            }
            (5, Value::Table(set)) => {
                let mut count = 0;
                set.for_each(|_: Value, _: Value| {
                    count += 1;
                    Ok(())
                })?;
                self.reply.set(count);
                self.state.work(count)?;
                for pair in set.pairs::<Value, Value>() {
                    self.nested(&pair?.0, depth)?;
                }
            }
            (6, Value::String(text)) if self.reply.protocol() == Protocol::Resp3 => {
                self.line(b'(', &text.as_bytes());
            }
            (6, Value::String(text)) => {
                let text: Vec<u8> = text.as_bytes().iter().map(|byte| flat(*byte)).collect();
                self.reply.bulk(&text);
            }
            (7, Value::Table(parts)) => return self.verbatim(parts),
            (_, count) => return self.array(table, count, depth),
        }
        Ok(())
    }

    /// Writes the elements before the first nil; `count` is their number.
    fn array(&mut self, table: &Table, count: &Value, depth: usize) -> mlua::Result<()> {
        let count = number_of(Some(count)).unwrap_or(0.0) as usize;
        self.state.work(count)?;
        self.reply.array(count);
        for index in 1..=count {
            if self.reply.is_full() {
                break;
            }
            let value: Value = table.raw_get(index)?;
            self.nested(&value, depth)?;
        }
        Ok(())
    }

    fn verbatim(&mut self, parts: &Table) -> mlua::Result<()> {
        let (text, format): (Value, Value) = (parts.raw_get("string")?, parts.raw_get("format")?);
        let (Value::String(text), Value::String(format)) = (text, format) else {
            self.reply.array(0);
            return Ok(());
        };
        let mut letters = [b' '; 3];
        let format = format.as_bytes();
        let len = format.len().min(3);
        letters[..len].copy_from_slice(&format[..len]);
        let letters = String::from_utf8_lossy(&letters).into_owned();
        if letters.len() == 3 {
            self.reply.verbatim(&letters, &text.as_bytes());
        } else {
            self.reply.bulk(&text.as_bytes());
        }
        Ok(())
    }

    /// Writes a line, with blanks in place of line breaks.
    fn line(&mut self, sigil: u8, text: &[u8]) {
        let out = self.reply.buffer();
        out.push(sigil);
        for byte in text {
            out.push(flat(*byte));
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// Returns a byte for use in a line, with a blank in place of a line break.
fn flat(byte: u8) -> u8 {
    if matches!(byte, b'\r' | b'\n') {
        b' '
    } else {
        byte
    }
}

/// Truncates a number to an integer. A number beyond 64 bits becomes the smallest integer, as in C
/// on common processors.
pub fn whole(number: f64) -> i64 {
    integral(number.trunc()).unwrap_or(i64::MIN)
}
