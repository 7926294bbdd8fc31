//! The library `cmsgpack`.

use crate::failure::{bad_argument, number_of, raise, raise_table, type_name};
use crate::number::integral;
use crate::state::State;
use mlua::{Lua, MultiValue, Table, Value};
use std::rc::Rc;
use wire::Output;

/// Table depth beyond which the encoder writes nil.
const ENCODE_DEPTH_MAX: usize = 16;
/// Depth beyond which the recursive decoder rejects its input.
const DECODE_DEPTH_MAX: usize = 1000;

/// Creates the library.
pub fn create(lua: &Lua, state: &Rc<State>) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    library.raw_set("_NAME", "cmsgpack")?;
    library.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    library.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    let shared = Rc::clone(state);
    let pack = lua.create_function(move |lua, args: MultiValue| {
        if args.is_empty() {
            return Err(bad_argument(
                lua,
                0,
                "pack",
                "MessagePack pack needs input.",
            ));
        }
        let mut writer = Writer {
            lua,
            state: &shared,
            out: Output::new(shared.memory_bytes.get()),
        };
        for value in args.iter() {
            writer.value(value, 0)?;
        }
        writer.check(0)?;
        lua.create_string(&writer.out[..])
    })?;
    library.raw_set("pack", pack)?;
    for form in [Form::All, Form::One, Form::Limit] {
        let shared = Rc::clone(state);
        let function =
            lua.create_function(move |lua, args: MultiValue| unpack(lua, &shared, &args, form))?;
        library.raw_set(form.name(), function)?;
    }
    Ok(library)
}

/// Encoder. The memory that a script may use bounds its output.
struct Writer<'a> {
    lua: &'a Lua,
    state: &'a State,
    out: Output,
}

impl Writer<'_> {
    /// Counts work, and raises an error if the output is full.
    fn check(&self, bytes: usize) -> mlua::Result<()> {
        if self.out.is_cut_off() {
            return Err(raise(self.lua, "not enough memory"));
        }
        self.state.work(4 + bytes)
    }

    fn value(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
        self.check(0)?;
        let out = &mut self.out;
        match value {
            Value::String(text) => {
                let text = text.as_bytes();
                push_string(out, &text);
                return self.check(text.len());
            }
            Value::Boolean(is_true) => out.push(if *is_true { 0xc3 } else { 0xc2 }),
            Value::Integer(number) => push_integer(out, *number),
            Value::Number(number) => match integral(*number) {
                Some(whole) => push_integer(out, whole),
                None => push_double(out, *number),
            },
            Value::Table(table) if depth < ENCODE_DEPTH_MAX => return self.table(table, depth),
            _ => out.push(0xc0),
        }
        Ok(())
    }

    /// Writes a table: as an array if its keys are 1 to n, otherwise as a map.
    fn table(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        self.state.check_stack(self.lua)?;
        let (mut count, mut max, mut is_array) = (0u64, 0i64, true);
        table.for_each(|key: Value, _: Value| {
            count += 1;
            match key {
                Value::Integer(index) if index > 0 => max = max.max(index),
                _ => is_array = false,
            }
            Ok(())
        })?;
        let count = count as usize;
        self.check(count)?;
        let out = &mut self.out;
        if is_array && max as usize == count {
            match count {
                0..16 => out.push(0x90 | count as u8),
                16..0x1_0000 => push_sized(out, 0xdc, &(count as u16).to_be_bytes()),
                _ => push_sized(out, 0xdd, &(count as u32).to_be_bytes()),
            }
            for index in 1..=count {
                self.value(&table.raw_get::<Value>(index)?, depth + 1)?;
            }
            return Ok(());
        }
        match count {
            0..16 => out.push(0x80 | count as u8),
            16..0x1_0000 => push_sized(out, 0xde, &(count as u16).to_be_bytes()),
            _ => push_sized(out, 0xdf, &(count as u32).to_be_bytes()),
        }
        table.for_each(|key: Value, value: Value| {
            self.value(&key, depth + 1)?;
            self.value(&value, depth + 1)
        })
    }
}

fn push_string(out: &mut Output, text: &[u8]) {
    match text.len() {
        len @ 0..32 => out.push(0xa0 | len as u8),
        len @ 32..0x100 => out.extend_from_slice(&[0xd9, len as u8]),
        len @ 0x100..0x1_0000 => push_sized(out, 0xda, &(len as u16).to_be_bytes()),
        len => push_sized(out, 0xdb, &(len as u32).to_be_bytes()),
    }
    out.extend_from_slice(text);
}

fn push_sized(out: &mut Output, kind: u8, bytes: &[u8]) {
    out.push(kind);
    out.extend_from_slice(bytes);
}

fn push_integer(out: &mut Output, number: i64) {
    match number {
        0..=0x7f => out.push(number as u8),
        0x80..=0xff => push_sized(out, 0xcc, &[number as u8]),
        0x100..=0xffff => push_sized(out, 0xcd, &(number as u16).to_be_bytes()),
        0x1_0000..=0xffff_ffff => push_sized(out, 0xce, &(number as u32).to_be_bytes()),
        0x1_0000_0000.. => push_sized(out, 0xcf, &number.to_be_bytes()),
        -32..0 => out.push(number as u8),
        -128..-32 => push_sized(out, 0xd0, &[number as u8]),
        -0x8000..-128 => push_sized(out, 0xd1, &(number as i16).to_be_bytes()),
        -0x8000_0000..-0x8000 => push_sized(out, 0xd2, &(number as i32).to_be_bytes()),
        _ => push_sized(out, 0xd3, &number.to_be_bytes()),
    }
}

fn push_double(out: &mut Output, number: f64) {
    let single = number as f32;
    if f64::from(single) == number {
        push_sized(out, 0xca, &single.to_be_bytes());
    } else {
        push_sized(out, 0xcb, &number.to_be_bytes());
    }
}

/// Form of `unpack`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    All,
    One,
    Limit,
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Form::All => "unpack",
            Form::One => "unpack_one",
            Form::Limit => "unpack_limit",
        }
    }
}

/// Reads an integer argument.
fn integer(lua: &Lua, args: &MultiValue, index: usize, form: Form) -> mlua::Result<i64> {
    let value = args.get(index);
    let number = value
        .cloned()
        .map(|value| lua.coerce_number(value))
        .transpose()?
        .flatten();
    number.map(|number| number as i64).ok_or_else(|| {
        let why = format!("number expected, got {}", type_name(value));
        bad_argument(lua, index + 1, form.name(), why)
    })
}

fn unpack(lua: &Lua, state: &State, args: &MultiValue, form: Form) -> mlua::Result<MultiValue> {
    let given = args.front();
    let text = given
        .cloned()
        .map(|value| lua.coerce_string(value))
        .transpose()?
        .flatten();
    let Some(text) = text else {
        let why = format!("string expected, got {}", type_name(given));
        return Err(bad_argument(lua, 1, form.name(), why));
    };
    let optional = |index: usize| match args.get(index) {
        None | Some(Value::Nil) => Ok(0),
        Some(_) => integer(lua, args, index, form),
    };
    let (limit, offset) = match form {
        Form::All => (0, 0),
        Form::One => (1, optional(1)?),
        Form::Limit => (integer(lua, args, 1, form)?, optional(2)?),
    };
    let bytes = text.as_bytes();
    let len = bytes.len() as i64;
    if offset < 0 || limit < 0 {
        let text = format!("Invalid request to unpack with offset of {offset} and limit of {len}.");
        return Err(raise(lua, text));
    }
    if offset > len {
        let text = format!("Start offset {offset} greater than input length {len}.");
        return Err(raise(lua, text));
    }
    let mut reader = Reader {
        lua,
        state,
        bytes: &bytes,
        at: offset as usize,
    };
    let decodes_all = limit == 0 && offset == 0;
    let mut values = MultiValue::new();
    while reader.at < bytes.len() && (decodes_all || (values.len() as i64) < limit) {
        if values.len() >= 7000 {
            return Err(raise(lua, "stack overflow (too many objects to unpack)"));
        }
        values.push_back(reader.value(0)?);
    }
    if !decodes_all {
        let rest = if reader.at < bytes.len() {
            reader.at as i64
        } else {
            -1
        };
        values.push_front(Value::Integer(rest));
    }
    Ok(values)
}

struct Reader<'a> {
    lua: &'a Lua,
    state: &'a State,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> mlua::Result<&'a [u8]> {
        let taken = self
            .at
            .checked_add(len)
            .and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| raise(self.lua, "Missing bytes in input."))?;
        self.at += len;
        self.state.work(1 + len)?;
        Ok(taken)
    }

    /// Reads an unsigned integer of up to 8 bytes.
    fn unsigned(&mut self, len: usize) -> mlua::Result<u64> {
        let bytes = self.take(len)?;
        Ok(bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    fn signed(&mut self, len: usize) -> mlua::Result<i64> {
        let unused = 64 - 8 * len as u32;
        Ok((self.unsigned(len)? << unused) as i64 >> unused)
    }

    fn string(&mut self, len: usize) -> mlua::Result<Value> {
        let text = self.take(len)?;
        Ok(Value::String(self.lua.create_string(text)?))
    }

    fn value(&mut self, depth: usize) -> mlua::Result<Value> {
        if depth > DECODE_DEPTH_MAX {
            return Err(raise(
                self.lua,
                "stack overflow (in function mp_decode_to_lua_type)",
            ));
        }
        let kind = self.take(1)?[0];
        Ok(match kind {
            0..=0x7f => Value::Integer(i64::from(kind)),
            0x80..=0x8f => return self.map(usize::from(kind & 15), depth),
            0x90..=0x9f => return self.array(usize::from(kind & 15), depth),
            0xa0..=0xbf => return self.string(usize::from(kind & 31)),
            0xc0 => Value::Nil,
            0xc2 => Value::Boolean(false),
            0xc3 => Value::Boolean(true),
            0xd9..=0xdb => {
                let len = self.unsigned(1 << (kind - 0xd9))? as usize;
                return self.string(len);
            }
            0xca => {
                let bits = self.unsigned(4)? as u32;
                Value::Number(f64::from(f32::from_bits(bits)))
            }
            0xcb => Value::Number(f64::from_bits(self.unsigned(8)?)),
            0xcc..=0xcf => {
                // Beyond 2^63 it becomes negative, as in the library of Redis.
                Value::Number(self.unsigned(1 << (kind - 0xcc))? as i64 as f64)
            }
            0xd0..=0xd3 => Value::Number(self.signed(1 << (kind - 0xd0))? as f64),
            0xdc | 0xdd => {
                let len = self.unsigned(if kind == 0xdc { 2 } else { 4 })? as usize;
                return self.array(len, depth);
            }
            0xde | 0xdf => {
                let len = self.unsigned(if kind == 0xde { 2 } else { 4 })? as usize;
                return self.map(len, depth);
            }
            0xe0..=0xff => Value::Integer(i64::from(kind as i8)),
            _ => return Err(raise(self.lua, "Bad data format in input.")),
        })
    }

    fn array(&mut self, len: usize, depth: usize) -> mlua::Result<Value> {
        self.state.check_stack(self.lua)?;
        let table = self.lua.create_table()?;
        for index in 1..=len {
            table.raw_seti(index, self.value(depth + 1)?)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, len: usize, depth: usize) -> mlua::Result<Value> {
        self.state.check_stack(self.lua)?;
        let table = self.lua.create_table()?;
        for _ in 0..len {
            let key = self.value(depth + 1)?;
            let value = self.value(depth + 1)?;
            if key.is_nil() {
                return Err(raise_table("ERR table index is nil", false));
            }
            if number_of(Some(&key)).is_some_and(f64::is_nan) {
                return Err(raise_table("ERR table index is NaN", false));
            }
            table.raw_set(key, value)?;
        }
        Ok(Value::Table(table))
    }
}
