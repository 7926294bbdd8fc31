//! The library `struct`: binary data by a format.

use crate::failure::{bad_argument, number_of, raise, type_name};
use crate::state::State;
use mlua::{Lua, LuaString, MultiValue, Table, Value};
use std::rc::Rc;
use wire::Output;

/// Maximum size of an integer in bytes.
const INTEGER_BYTES_MAX: usize = 32;
/// Maximum number of values that `unpack` returns.
const VALUES_MAX: usize = 7000;

/// Byte order and alignment.
struct Layout {
    is_little: bool,
    align: usize,
}

/// Reader of a format.
struct Format<'a> {
    lua: &'a Lua,
    function: &'static str,
    text: &'a [u8],
    at: usize,
    layout: Layout,
}

impl<'a> Format<'a> {
    fn new(lua: &'a Lua, function: &'static str, text: &'a [u8]) -> Self {
        let layout = Layout {
            is_little: cfg!(target_endian = "little"),
            align: 1,
        };
        Format {
            lua,
            function,
            text,
            at: 0,
            layout,
        }
    }

    /// Reads a number, or returns `default` if there is none.
    fn number(&mut self, default: usize) -> mlua::Result<usize> {
        let start = self.at;
        let mut number = 0usize;
        while let Some(digit @ b'0'..=b'9') = self.text.get(self.at) {
            let digit = usize::from(digit - b'0');
            number = number.saturating_mul(10).saturating_add(digit);
            self.at += 1;
        }
        if number > i32::MAX as usize {
            return Err(raise(self.lua, "integral size overflow"));
        }
        Ok(if self.at == start { default } else { number })
    }

    fn next(&mut self) -> Option<u8> {
        let option = *self.text.get(self.at)?;
        self.at += 1;
        Some(option)
    }

    /// Returns the size of an option, reading any number after it.
    fn size(&mut self, option: u8) -> mlua::Result<usize> {
        Ok(match option {
            b'B' | b'b' | b'x' => 1,
            b'H' | b'h' => 2,
            b'L' | b'l' | b'T' | b'd' => 8,
            b'f' => 4,
            b'c' => self.number(1)?,
            b'i' | b'I' => {
                let size = self.number(4)?;
                if size > INTEGER_BYTES_MAX {
                    let text =
                        format!("integral size {size} is larger than limit of {INTEGER_BYTES_MAX}");
                    return Err(raise(self.lua, text));
                }
                size
            }
            _ => 0,
        })
    }

    /// Returns the number of padding bytes that align an item of this size.
    fn padding(&self, len: usize, option: u8, total: usize) -> usize {
        if len == 0 || option == b'c' {
            return 0;
        }
        let align = len.min(self.layout.align);
        if align <= 1 {
            0
        } else {
            (align - (total & (align - 1))) & (align - 1)
        }
    }

    /// Applies an option that is not an item.
    fn control(&mut self, option: u8) -> mlua::Result<()> {
        match option {
            b' ' => {}
            b'>' => self.layout.is_little = false,
            b'<' => self.layout.is_little = true,
            b'!' => {
                let align = self.number(8)?;
                if align == 0 || !align.is_power_of_two() {
                    let text = format!("alignment {align} is not a power of 2");
                    return Err(raise(self.lua, text));
                }
                self.layout.align = align;
            }
            option => {
                let why = format!("invalid format option '{}'", char::from(option));
                return Err(bad_argument(self.lua, 1, self.function, why));
            }
        }
        Ok(())
    }
}

/// Creates the library.
pub fn create(lua: &Lua, state: &Rc<State>) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    let shared = Rc::clone(state);
    let packs = lua.create_function(move |lua, args| pack(lua, &shared, &args))?;
    library.raw_set("pack", packs)?;
    let shared = Rc::clone(state);
    let unpacks = lua.create_function(move |lua, args| unpack(lua, &shared, &args))?;
    library.raw_set("unpack", unpacks)?;
    library.raw_set("size", lua.create_function(|lua, args| size(lua, &args))?)?;
    Ok(library)
}

/// Returns a string argument.
fn text(lua: &Lua, args: &MultiValue, index: usize, function: &str) -> mlua::Result<LuaString> {
    let value = args.get(index);
    let text = value
        .cloned()
        .map(|value| lua.coerce_string(value))
        .transpose()?
        .flatten();
    text.ok_or_else(|| {
        let why = format!("string expected, got {}", type_name(value));
        bad_argument(lua, index + 1, function, why)
    })
}

/// Returns a numeric argument. A missing one is reported as nil.
fn number(lua: &Lua, args: &MultiValue, index: usize, function: &str) -> mlua::Result<f64> {
    let value = args.get(index);
    let number = value
        .cloned()
        .map(|value| lua.coerce_number(value))
        .transpose()?
        .flatten();
    number.ok_or_else(|| {
        let why = format!(
            "number expected, got {}",
            type_name(Some(value.unwrap_or(&Value::Nil)))
        );
        bad_argument(lua, index + 1, function, why)
    })
}

fn pack(lua: &Lua, state: &State, args: &MultiValue) -> mlua::Result<LuaString> {
    let format = text(lua, args, 0, "pack")?;
    let format = format.as_bytes();
    let mut format = Format::new(lua, "pack", &format);
    let mut out = Output::new(state.memory_bytes.get());
    let mut index = 1;
    while let Some(option) = format.next() {
        let len = format.size(option)?;
        let padding = format.padding(len, option, out.len());
        (0..padding).for_each(|_| out.push(0));
        let before = out.len();
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let value = number(lua, args, index, "pack")?;
                // Negative numbers wrap around, larger ones are unsigned.
                let bits = if value < 0.0 {
                    value as i64 as u64
                } else {
                    value as u64
                };
                push_bits(&mut out, bits, len, format.layout.is_little);
                index += 1;
            }
            b'x' => out.push(0),
            b'f' | b'd' => {
                let value = number(lua, args, index, "pack")?;
                let bits = if option == b'f' {
                    u64::from((value as f32).to_bits())
                } else {
                    value.to_bits()
                };
                push_bits(&mut out, bits, len, format.layout.is_little);
                index += 1;
            }
            b'c' | b's' => {
                let value = text(lua, args, index, "pack")?;
                let value = value.as_bytes();
                let len = if len == 0 { value.len() } else { len };
                if value.len() < len {
                    return Err(bad_argument(lua, index + 2, "pack", "string too short"));
                }
                out.extend_from_slice(&value[..len]);
                if option == b's' {
                    out.push(0);
                }
                index += 1;
            }
            option => format.control(option)?,
        }
        if out.is_cut_off() {
            return Err(raise(lua, "not enough memory"));
        }
        state.work(1 + out.len() - before)?;
    }
    lua.create_string(&out[..])
}

/// Appends an integer of this size. Bytes beyond the eighth are 0, as with C's shifts.
fn push_bits(out: &mut Output, bits: u64, len: usize, is_little: bool) {
    let byte = |at: usize| {
        let shift = u32::try_from(at * 8).unwrap_or(u32::MAX);
        bits.checked_shr(shift).unwrap_or(0) as u8
    };
    if is_little {
        (0..len).for_each(|at| out.push(byte(at)));
    } else {
        (0..len).rev().for_each(|at| out.push(byte(at)));
    }
}

/// Reads an integer's lowest eight bytes.
fn read_bits(bytes: &[u8], is_little: bool) -> u64 {
    let join = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
    if is_little {
        bytes.iter().rev().fold(0, join)
    } else {
        bytes.iter().fold(0, join)
    }
}

fn read_integer(bytes: &[u8], is_little: bool, is_signed: bool) -> f64 {
    let bits = read_bits(bytes, is_little);
    if !is_signed {
        return bits as f64;
    }
    let unused = 64u32.saturating_sub(8 * bytes.len() as u32);
    let shifted = bits.checked_shl(unused).unwrap_or(0) as i64;
    shifted.checked_shr(unused).unwrap_or(0) as f64
}

fn unpack(lua: &Lua, state: &State, args: &MultiValue) -> mlua::Result<MultiValue> {
    let format = text(lua, args, 0, "unpack")?;
    let format = format.as_bytes();
    let data = text(lua, args, 1, "unpack")?;
    let data = data.as_bytes();
    let mut format = Format::new(lua, "unpack", &format);
    let mut at = match args.get(2) {
        None | Some(Value::Nil) => 0,
        Some(_) => match number(lua, args, 2, "unpack")? {
            start if start >= 1.0 => start as usize - 1,
            0.0 => {
                return Err(bad_argument(
                    lua,
                    3,
                    "unpack",
                    "offset must be 1 or greater",
                ));
            }
            _ => usize::MAX / 2,
        },
    };
    let short = || bad_argument(lua, 2, "unpack", "data string too short");
    let mut values: Vec<Value> = Vec::new();
    while let Some(option) = format.next() {
        let len = format.size(option)?;
        let before = at;
        at = at.saturating_add(format.padding(len, option, at));
        let end = at
            .checked_add(len)
            .filter(|end| *end <= data.len())
            .ok_or_else(short)?;
        if values.len() >= VALUES_MAX {
            return Err(raise(lua, "too many results to unpack"));
        }
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let is_signed = option.is_ascii_lowercase();
                let number = read_integer(&data[at..end], format.layout.is_little, is_signed);
                values.push(Value::Number(number));
            }
            b'x' => {}
            b'f' | b'd' => {
                let bits = read_bits(&data[at..end], format.layout.is_little);
                values.push(Value::Number(if option == b'f' {
                    f64::from(f32::from_bits(bits as u32))
                } else {
                    f64::from_bits(bits)
                }));
            }
            b'c' | b's' => {
                let (text, next) = unpack_text(lua, &data, (at, end), option, &mut values)?;
                values.push(Value::String(lua.create_string(text)?));
                at = next;
                state.work(1 + at - before)?;
                continue;
            }
            option => format.control(option)?,
        }
        state.work(1 + len)?;
        at = end;
    }
    values.push(Value::Number(at as f64 + 1.0));
    Ok(values.into_iter().collect())
}

/// Returns a string's bytes and the position after it. A string without an explicit length takes
/// its length from the preceding value, or ends at a zero byte.
fn unpack_text<'d>(
    lua: &Lua,
    data: &'d [u8],
    (at, end): (usize, usize),
    option: u8,
    values: &mut Vec<Value>,
) -> mlua::Result<(&'d [u8], usize)> {
    if option == b's' {
        return match data[at..].iter().position(|byte| *byte == 0) {
            Some(len) => Ok((&data[at..at + len], at + len + 1)),
            None => Err(raise(lua, "unfinished string in data")),
        };
    }
    if end > at {
        return Ok((&data[at..end], end));
    }
    let Some(size) = number_of(values.last()) else {
        return Err(raise(lua, "format 'c0' needs a previous size"));
    };
    values.pop();
    let size = if size < 0.0 {
        usize::MAX
    } else {
        size as usize
    };
    let end = at.checked_add(size).filter(|end| *end <= data.len());
    let end = end.ok_or_else(|| bad_argument(lua, 2, "unpack", "data string too short"))?;
    Ok((&data[at..end], end))
}

fn size(lua: &Lua, args: &MultiValue) -> mlua::Result<usize> {
    let format = text(lua, args, 0, "size")?;
    let format = format.as_bytes();
    let mut format = Format::new(lua, "size", &format);
    let mut total = 0usize;
    while let Some(option) = format.next() {
        let len = format.size(option)?;
        total = total.saturating_add(format.padding(len, option, total));
        match option {
            b's' => {
                return Err(bad_argument(lua, 1, "size", "option 's' has no fixed size"));
            }
            b'c' if len == 0 => {
                return Err(bad_argument(
                    lua,
                    1,
                    "size",
                    "option 'c0' has no fixed size",
                ));
            }
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' | b'x' | b'f' | b'd'
            | b'c' => {}
            option => format.control(option)?,
        }
        total = total.saturating_add(len);
    }
    Ok(total)
}
