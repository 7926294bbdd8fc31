//! Errors raised by library functions.
//!
//! A Lua callback can only raise an `mlua::Error`, which Lua code sees as userdata. Scripts must
//! see a string or a table, as in Redis. So each callback raises a [`Raised`], which the sandbox's
//! `pcall`, `xpcall` and `coroutine.resume` replace by its Lua value.

use mlua::{Lua, Table, Value};
use std::fmt;

/// Field of an error table, set if the statistics have counted the error, as in Redis.
const COUNTED: &str = "ignore_error_stats_update";

/// Value raised by a library function.
#[derive(Clone, Debug)]
pub enum Raised {
    /// A string that includes its position in the script.
    Text(String),
    /// A table with the field `err`, as raised by the functions of `redis`. The flag says whether
    /// the statistics have already counted the error.
    Table(Vec<u8>, bool),
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Raised::Text(text) => f.write_str(text),
            Raised::Table(text, _) => f.write_str(&String::from_utf8_lossy(text)),
        }
    }
}

impl std::error::Error for Raised {}

/// Returns an error with this text, preceded by the position of the Lua code that called the
/// function. A prelude function counts as part of the function called.
pub fn raise(lua: &Lua, text: impl fmt::Display) -> mlua::Error {
    let position = (1..4).find_map(|level| {
        let found = lua.inspect_stack(level, |debug| {
            let source = debug.source().short_src.unwrap_or_default();
            if source == "prelude" {
                return None;
            }
            let line = debug.current_line().filter(|line| *line > 0);
            Some(
                line.map(|line| format!("{source}:{line}: "))
                    .unwrap_or_default(),
            )
        });
        found.unwrap_or_else(|| Some(String::new()))
    });
    unplaced(format!("{}{text}", position.unwrap_or_default()))
}

/// Returns an error with this text and without a position.
pub fn unplaced(text: String) -> mlua::Error {
    mlua::Error::external(Raised::Text(text))
}

/// Returns the number if a value is one.
pub fn number_of(value: Option<&Value>) -> Option<f64> {
    match value {
        Some(Value::Integer(number)) => Some(*number as f64),
        Some(Value::Number(number)) => Some(*number),
        _ => None,
    }
}

/// Returns Lua's error for a bad argument.
pub fn bad_argument(
    lua: &Lua,
    index: usize,
    function: &str,
    why: impl fmt::Display,
) -> mlua::Error {
    raise(
        lua,
        format_args!("bad argument #{index} to '{function}' ({why})"),
    )
}

/// Returns an error whose Lua value is a table with the field `err`.
pub fn raise_table(text: impl Into<Vec<u8>>, is_counted: bool) -> mlua::Error {
    mlua::Error::external(Raised::Table(text.into(), is_counted))
}

/// Creates an error table.
pub fn error_table(lua: &Lua, text: &[u8], is_counted: bool) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 2)?;
    table.raw_set("err", lua.create_string(text)?)?;
    if is_counted {
        table.raw_set(COUNTED, true)?;
    }
    Ok(table)
}

/// Whether an error table says that the error was counted.
pub fn is_counted(table: &Table) -> mlua::Result<bool> {
    Ok(table.raw_get::<Value>(COUNTED)? == Value::Boolean(true))
}

/// Returns the text after the line number.
fn after_line(text: &[u8]) -> Option<&[u8]> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit())?;
    text[end..].strip_prefix(b": ")
}

/// Returns the Lua value of an error that Lua code has caught.
pub fn lua_value(lua: &Lua, caught: Value) -> mlua::Result<Value> {
    let error = match caught {
        Value::Error(error) => error,
        Value::String(text) => {
            // A function of C that the prelude calls for the script has the prelude's position.
            let bytes = text.as_bytes();
            return match bytes.strip_prefix(b"prelude:").and_then(after_line) {
                Some(rest) => Ok(Value::String(lua.create_string(rest)?)),
                None => Ok(Value::String(text.clone())),
            };
        }
        caught => return Ok(caught),
    };
    match error.downcast_ref::<Raised>() {
        Some(Raised::Text(text)) => Ok(Value::String(lua.create_string(text)?)),
        Some(Raised::Table(text, is_counted)) => {
            Ok(Value::Table(error_table(lua, text, *is_counted)?))
        }
        None => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            Ok(Value::String(lua.create_string(line)?))
        }
    }
}

/// Returns the type's name as Lua's error messages spell it; a missing argument is `no value`.
pub fn type_name(value: Option<&Value>) -> &'static str {
    match value {
        None => "no value",
        Some(Value::LightUserData(_) | Value::Error(_)) => "userdata",
        Some(Value::Integer(_)) => "number",
        Some(value) => value.type_name(),
    }
}
