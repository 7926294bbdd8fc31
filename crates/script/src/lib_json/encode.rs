//! The encoder of `cjson`.

use super::{DEPTH_MAX, Invalid, Settings};
use crate::failure::{Raised, number_of, raise, type_name, unplaced};
use crate::number::push_general;
use mlua::{Lua, LuaString, Table, Value};
use wire::Output;

/// Encodes a value as JSON.
pub fn encode(lua: &Lua, settings: &Settings, value: &Value) -> mlua::Result<LuaString> {
    let mut encoder = Encoder {
        lua,
        settings,
        // The text may not become larger than what the script may allocate.
        out: Output::new(settings.state.memory_bytes.get()),
        digits: Vec::new(),
    };
    // Within the visit of a table the caller's position is out of reach.
    encoder
        .value(value, 0)
        .and_then(|()| encoder.check(0))
        .map_err(|error| match error.downcast_ref::<Raised>() {
            Some(Raised::Text(text)) => raise(lua, text),
            _ => error,
        })?;
    lua.create_string(&encoder.out[..])
}

struct Encoder<'a> {
    lua: &'a Lua,
    settings: &'a Settings,
    out: Output,
    /// Buffer for the digits of a number.
    digits: Vec<u8>,
}

impl Encoder<'_> {
    fn refuse(&self, value: &Value, why: &str) -> mlua::Error {
        let name = type_name(Some(value));
        unplaced(format!("Cannot serialise {name}: {why}"))
    }

    fn value(&mut self, value: &Value, depth: i32) -> mlua::Result<()> {
        self.check(0)?;
        match value {
            Value::Nil => self.out.extend_from_slice(b"null"),
            Value::LightUserData(pointer) if pointer.0.is_null() => {
                self.out.extend_from_slice(b"null");
            }
            Value::Boolean(true) => self.out.extend_from_slice(b"true"),
            Value::Boolean(false) => self.out.extend_from_slice(b"false"),
            Value::Integer(number) => self.number(value, *number as f64)?,
            Value::Number(number) => self.number(value, *number)?,
            Value::String(text) => return self.string(&text.as_bytes()),
            Value::Table(table) => return self.table(table, value, depth + 1),
            _ => return Err(self.refuse(value, "type not supported")),
        }
        Ok(())
    }

    fn number(&mut self, value: &Value, number: f64) -> mlua::Result<()> {
        if !number.is_finite() {
            match self.settings.encode_invalid.get() {
                Invalid::Refused => return Err(self.refuse(value, "must not be NaN or Inf")),
                Invalid::Null => self.out.extend_from_slice(b"null"),
                Invalid::Allowed if number.is_nan() => self.out.extend_from_slice(b"nan"),
                Invalid::Allowed => self.digits(number, 14),
            }
            return Ok(());
        }
        self.digits(number, self.settings.precision.get() as usize);
        Ok(())
    }

    fn digits(&mut self, number: f64, precision: usize) {
        self.digits.clear();
        push_general(&mut self.digits, number, precision);
        self.out.extend_from_slice(&self.digits);
    }

    fn string(&mut self, text: &[u8]) -> mlua::Result<()> {
        self.out.push(b'"');
        let is_special = |byte: &u8| matches!(byte, 0..=31 | 127 | b'"' | b'\\' | b'/');
        let mut rest = text;
        loop {
            let plain = rest.iter().position(is_special).unwrap_or(rest.len());
            self.out.extend_from_slice(&rest[..plain]);
            self.check(plain)?;
            let Some((byte, after)) = rest[plain..].split_first() else {
                break;
            };
            rest = after;
            match byte {
                b'"' => self.out.extend_from_slice(b"\\\""),
                b'\\' => self.out.extend_from_slice(b"\\\\"),
                b'/' => self.out.extend_from_slice(b"\\/"),
                8 => self.out.extend_from_slice(b"\\b"),
                9 => self.out.extend_from_slice(b"\\t"),
                10 => self.out.extend_from_slice(b"\\n"),
                12 => self.out.extend_from_slice(b"\\f"),
                13 => self.out.extend_from_slice(b"\\r"),
                byte => {
                    let text = format!("\\u{byte:04x}");
                    self.out.extend_from_slice(text.as_bytes());
                }
            }
        }
        self.out.push(b'"');
        Ok(())
    }

    fn table(&mut self, table: &Table, value: &Value, depth: i32) -> mlua::Result<()> {
        let depth_max = self.settings.encode_depth_max.get().min(DEPTH_MAX);
        if depth > depth_max {
            return Err(unplaced(format!(
                "Cannot serialise, excessive nesting ({depth})"
            )));
        }
        self.settings.state.check_stack(self.lua)?;
        let is_marked = table
            .metatable()
            .is_some_and(|m| m == self.settings.array_metatable);
        if is_marked {
            return self.array(table, table.raw_len(), depth);
        }
        let (len, has_tables) = self.array_len(table, value)?;
        match len {
            Some(len) if len > 0 => self.array(table, len, depth),
            // The visit of a table is a call of Lua's, of which few can be nested.
            _ if has_tables => {
                self.out.push(b'{');
                for pair in table.pairs::<Value, Value>() {
                    let (key, value) = pair?;
                    self.field(&key, &value, depth)?;
                }
                self.out.push(b'}');
                Ok(())
            }
            _ => {
                self.out.push(b'{');
                table.for_each(|key: Value, value: Value| self.field(&key, &value, depth))?;
                self.out.push(b'}');
                Ok(())
            }
        }
    }

    /// Counts work, and raises an error if the output is full.
    fn check(&self, bytes: usize) -> mlua::Result<()> {
        if self.out.is_cut_off() {
            return Err(unplaced("not enough memory".into()));
        }
        self.settings.state.work(4 + bytes)
    }

    /// Returns the highest index if all keys are positive integers, and whether any value is a
    /// table.
    fn array_len(&self, table: &Table, value: &Value) -> mlua::Result<(Option<usize>, bool)> {
        let (mut max, mut count, mut is_array) = (0usize, 0usize, true);
        let mut has_tables = false;
        // A key of another kind ends the check; the rest of the loop does nothing then.
        table.for_each(|key: Value, value: Value| {
            has_tables |= value.is_table();
            match key {
                Value::Integer(index) if index >= 1 && is_array => {
                    max = max.max(index as usize);
                    count += 1;
                }
                _ => is_array = false,
            }
            Ok(())
        })?;
        self.check(count)?;
        if !is_array {
            return Ok((None, has_tables));
        }
        let ratio = self.settings.sparse_ratio.get().max(0) as usize;
        let safe = self.settings.sparse_safe.get().max(0) as usize;
        if ratio > 0 && max > count.saturating_mul(ratio) && max > safe {
            if !self.settings.sparse_convert.get() {
                return Err(self.refuse(value, "excessively sparse array"));
            }
            return Ok((None, has_tables));
        }
        Ok((Some(max), has_tables))
    }

    fn array(&mut self, table: &Table, len: usize, depth: i32) -> mlua::Result<()> {
        self.out.push(b'[');
        for index in 1..=len {
            if index > 1 {
                self.out.push(b',');
            }
            let value: Value = table.raw_get(index)?;
            self.value(&value, depth)?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn field(&mut self, key: &Value, value: &Value, depth: i32) -> mlua::Result<()> {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        match key {
            Value::String(text) => self.string(&text.as_bytes())?,
            Value::Integer(_) | Value::Number(_) => {
                self.out.push(b'"');
                self.number(key, number_of(Some(key)).unwrap_or(f64::NAN))?;
                self.out.push(b'"');
            }
            other => {
                return Err(self.refuse(other, "table key must be a number or string"));
            }
        }
        self.out.push(b':');
        self.value(value, depth)
    }
}
