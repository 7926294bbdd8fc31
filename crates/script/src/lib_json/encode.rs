//! The encoder of `cjson`.

use super::{DEPTH_MAX, Invalid, Settings};
use crate::failure::{Raised, number_of, raise, type_name, unplaced};
use crate::number::push_general;
use mlua::{Lua, LuaString, Table, Value};

/// Encodes a value as JSON.
pub fn encode(lua: &Lua, settings: &Settings, value: &Value) -> mlua::Result<LuaString> {
    let mut encoder = Encoder {
        settings,
        out: Vec::new(),
        // The text may not become larger than what the script may allocate.
        size_max: lua.used_memory().max(1 << 20) * 8,
    };
    // Within the visit of a table the caller's position is out of reach.
    encoder
        .value(value, 0)
        .map_err(|error| match error.downcast_ref::<Raised>() {
            Some(Raised::Text(text)) => raise(lua, text),
            _ => error,
        })?;
    lua.create_string(&encoder.out)
}

struct Encoder<'a> {
    settings: &'a Settings,
    out: Vec<u8>,
    size_max: usize,
}

impl Encoder<'_> {
    fn refuse(&self, value: &Value, why: &str) -> mlua::Error {
        let name = type_name(Some(value));
        unplaced(format!("Cannot serialise {name}: {why}"))
    }

    fn value(&mut self, value: &Value, depth: i32) -> mlua::Result<()> {
        match value {
            Value::Nil => self.out.extend_from_slice(b"null"),
            Value::LightUserData(pointer) if pointer.0.is_null() => {
                self.out.extend_from_slice(b"null");
            }
            Value::Boolean(true) => self.out.extend_from_slice(b"true"),
            Value::Boolean(false) => self.out.extend_from_slice(b"false"),
            Value::Integer(number) => self.number(value, *number as f64)?,
            Value::Number(number) => self.number(value, *number)?,
            Value::String(text) => self.string(&text.as_bytes()),
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
                Invalid::Allowed => push_general(&mut self.out, number, 14),
            }
            return Ok(());
        }
        push_general(
            &mut self.out,
            number,
            self.settings.precision.get() as usize,
        );
        Ok(())
    }

    fn string(&mut self, text: &[u8]) {
        self.out.push(b'"');
        for byte in text {
            match byte {
                b'"' => self.out.extend_from_slice(b"\\\""),
                b'\\' => self.out.extend_from_slice(b"\\\\"),
                b'/' => self.out.extend_from_slice(b"\\/"),
                8 => self.out.extend_from_slice(b"\\b"),
                9 => self.out.extend_from_slice(b"\\t"),
                10 => self.out.extend_from_slice(b"\\n"),
                12 => self.out.extend_from_slice(b"\\f"),
                13 => self.out.extend_from_slice(b"\\r"),
                0..=31 | 127 => self
                    .out
                    .extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
                byte => self.out.push(*byte),
            }
        }
        self.out.push(b'"');
    }

    fn table(&mut self, table: &Table, value: &Value, depth: i32) -> mlua::Result<()> {
        let depth_max = self.settings.encode_depth_max.get().min(DEPTH_MAX);
        if depth > depth_max {
            return Err(unplaced(format!(
                "Cannot serialise, excessive nesting ({depth})"
            )));
        }
        self.check_size()?;
        let is_marked = table
            .metatable()
            .is_some_and(|m| m == self.settings.array_metatable);
        let len = if is_marked {
            Some(table.raw_len())
        } else {
            self.array_len(table, value)?
        };
        match len {
            Some(len) if len > 0 || is_marked => self.array(table, len, depth),
            _ => self.object(table, depth),
        }
    }

    fn check_size(&self) -> mlua::Result<()> {
        if self.out.len() > self.size_max {
            return Err(unplaced("not enough memory".into()));
        }
        Ok(())
    }

    /// Returns the highest index if all keys are positive integers.
    fn array_len(&self, table: &Table, value: &Value) -> mlua::Result<Option<usize>> {
        let (mut max, mut count, mut is_array) = (0usize, 0usize, true);
        // A key of another kind ends the check; the rest of the loop does nothing then.
        table.for_each(|key: Value, _: Value| {
            match key {
                Value::Integer(index) if index >= 1 && is_array => {
                    max = max.max(index as usize);
                    count += 1;
                }
                _ => is_array = false,
            }
            Ok(())
        })?;
        if !is_array {
            return Ok(None);
        }
        let ratio = self.settings.sparse_ratio.get().max(0) as usize;
        let safe = self.settings.sparse_safe.get().max(0) as usize;
        if ratio > 0 && max > count.saturating_mul(ratio) && max > safe {
            if !self.settings.sparse_convert.get() {
                return Err(self.refuse(value, "excessively sparse array"));
            }
            return Ok(None);
        }
        Ok(Some(max))
    }

    fn array(&mut self, table: &Table, len: usize, depth: i32) -> mlua::Result<()> {
        self.out.push(b'[');
        for index in 1..=len {
            if index > 1 {
                self.out.push(b',');
            }
            // An array may have far fewer elements than its length.
            self.check_size()?;
            let value: Value = table.raw_get(index)?;
            self.value(&value, depth)?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn object(&mut self, table: &Table, depth: i32) -> mlua::Result<()> {
        self.out.push(b'{');
        let mut is_first = true;
        table.for_each(|key: Value, value: Value| {
            if !std::mem::take(&mut is_first) {
                self.out.push(b',');
            }
            match &key {
                Value::String(text) => self.string(&text.as_bytes()),
                Value::Integer(_) | Value::Number(_) => {
                    self.out.push(b'"');
                    self.number(&key, number_of(Some(&key)).unwrap_or(f64::NAN))?;
                    self.out.push(b'"');
                }
                other => {
                    return Err(self.refuse(other, "table key must be a number or string"));
                }
            }
            self.out.push(b':');
            self.value(&value, depth)
        })?;
        self.out.push(b'}');
        Ok(())
    }
}
