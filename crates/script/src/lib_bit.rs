//! The library `bit`: operations on 32-bit integers.

use crate::failure::{bad_argument, type_name};
use mlua::{Lua, MultiValue, Table, Value};

/// Returns a number, rounded to the nearest even integer, modulo 2^32 as a signed integer.
fn wrap(number: f64) -> i32 {
    if !number.is_finite() {
        return 0;
    }
    let rounded = number.round_ties_even().rem_euclid(4_294_967_296.0);
    rounded as u32 as i32
}

/// Returns the argument at `index`, counted from 0, as an integer.
fn integer(lua: &Lua, args: &MultiValue, index: usize, function: &str) -> mlua::Result<i32> {
    let value = args.get(index);
    let number = match value {
        Some(Value::Integer(number)) => Some(*number as f64),
        Some(Value::Number(number)) => Some(*number),
        Some(Value::String(_)) => lua.coerce_number(value.cloned().unwrap_or(Value::Nil))?,
        _ => None,
    };
    number.map(wrap).ok_or_else(|| {
        let name = type_name(value);
        bad_argument(
            lua,
            index + 1,
            function,
            format_args!("number expected, got {name}"),
        )
    })
}

/// Creates the library.
pub fn create(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    for (name, join) in [
        ("band", (|a, b| a & b) as fn(i32, i32) -> i32),
        ("bor", |a, b| a | b),
        ("bxor", |a, b| a ^ b),
    ] {
        let function = lua.create_function(move |lua, args: MultiValue| {
            let mut result = integer(lua, &args, 0, name)?;
            for index in 1..args.len() {
                result = join(result, integer(lua, &args, index, name)?);
            }
            Ok(result)
        })?;
        library.raw_set(name, function)?;
    }
    for (name, shift) in [
        ("lshift", (|a, n| a << n) as fn(i32, u32) -> i32),
        ("rshift", |a, n| (a as u32 >> n) as i32),
        ("arshift", |a, n| a >> n),
        ("rol", |a, n| a.rotate_left(n)),
        ("ror", |a, n| a.rotate_right(n)),
    ] {
        let function = lua.create_function(move |lua, args: MultiValue| {
            let value = integer(lua, &args, 0, name)?;
            Ok(shift(value, integer(lua, &args, 1, name)? as u32 & 31))
        })?;
        library.raw_set(name, function)?;
    }
    for (name, map) in [
        ("tobit", (|a| a) as fn(i32) -> i32),
        ("bnot", |a: i32| !a),
        ("bswap", |a: i32| a.swap_bytes()),
    ] {
        let function = lua
            .create_function(move |lua, args: MultiValue| Ok(map(integer(lua, &args, 0, name)?)))?;
        library.raw_set(name, function)?;
    }
    let tohex = lua.create_function(|lua, args: MultiValue| {
        let value = integer(lua, &args, 0, "tohex")?;
        let digits = match args.get(1) {
            None | Some(Value::Nil) => 8,
            Some(_) => integer(lua, &args, 1, "tohex")?,
        };
        let text = if digits < 0 {
            format!("{value:08X}")
        } else {
            format!("{value:08x}")
        };
        let kept = digits.unsigned_abs().min(8) as usize;
        Ok(text[8 - kept..].to_owned())
    })?;
    library.raw_set("tohex", tohex)?;
    Ok(library)
}
