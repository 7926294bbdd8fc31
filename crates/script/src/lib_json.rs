//! The library `cjson`.

mod decode;
mod encode;

use crate::failure::{bad_argument, number_of, type_name};
use crate::state::State;
use mlua::{Lua, MultiValue, Table, Value};
use std::cell::Cell;
use std::rc::Rc;

/// Treatment of NaN and infinities by the encoder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Invalid {
    Refused,
    Allowed,
    Null,
}

/// Settings, which scripts may change for all later scripts.
pub(crate) struct Settings {
    sparse_convert: Cell<bool>,
    sparse_ratio: Cell<i32>,
    sparse_safe: Cell<i32>,
    encode_depth_max: Cell<i32>,
    encode_invalid: Cell<Invalid>,
    precision: Cell<i32>,
    keeps_buffer: Cell<bool>,
    decode_depth_max: Cell<i32>,
    decode_invalid: Cell<bool>,
    marks_arrays: Cell<bool>,
    /// Metatable of decoded arrays, which scripts cannot change.
    array_metatable: Table,
    state: Rc<State>,
}

/// Maximum depth that a script may set; the encoder and the decoder are recursive.
const DEPTH_MAX: i32 = 2000;

impl Settings {
    fn new(state: &Rc<State>, array_metatable: &Table) -> Rc<Settings> {
        Rc::new(Settings {
            sparse_convert: Cell::new(false),
            sparse_ratio: Cell::new(2),
            sparse_safe: Cell::new(10),
            encode_depth_max: Cell::new(1000),
            encode_invalid: Cell::new(Invalid::Refused),
            precision: Cell::new(14),
            keeps_buffer: Cell::new(true),
            decode_depth_max: Cell::new(1000),
            decode_invalid: Cell::new(true),
            marks_arrays: Cell::new(false),
            array_metatable: array_metatable.clone(),
            state: Rc::clone(state),
        })
    }
}

/// Reads an optional integer argument within limits.
fn integer(
    lua: &Lua,
    (args, index): (&MultiValue, usize),
    function: &str,
    cell: &Cell<i32>,
    (min, max): (i32, i32),
) -> mlua::Result<i32> {
    let Some(value) = args.get(index).filter(|value| !value.is_nil()) else {
        return Ok(cell.get());
    };
    let number =
        number_of(Some(value)).filter(|number| (f64::from(min)..=f64::from(max)).contains(number));
    let Some(number) = number else {
        let why = format!("expected integer between {min} and {max}");
        return Err(bad_argument(lua, index + 1, function, why));
    };
    cell.set(number as i32);
    Ok(cell.get())
}

/// Reads an optional boolean argument.
fn boolean(
    lua: &Lua,
    (args, index): (&MultiValue, usize),
    function: &str,
    cell: &Cell<bool>,
) -> mlua::Result<bool> {
    match args.get(index) {
        None | Some(Value::Nil) => {}
        Some(Value::Boolean(is_on)) => cell.set(*is_on),
        Some(Value::String(word)) if *word == "on" => cell.set(true),
        Some(Value::String(word)) if *word == "off" => cell.set(false),
        Some(value) => {
            let name = type_name(Some(value));
            let why = format!("boolean expected, got {name}");
            return Err(bad_argument(lua, index + 1, function, why));
        }
    }
    Ok(cell.get())
}

/// Creates the library. `array_metatable` is the metatable of decoded arrays. All scripts share it,
/// so the caller must prevent changes to it.
pub fn create(lua: &Lua, state: &Rc<State>, array_metatable: &Table) -> mlua::Result<Table> {
    let library = instance(lua, state, array_metatable)?;
    let (shared, metatable) = (Rc::clone(state), array_metatable.clone());
    let create = lua.create_function(move |lua, ()| instance(lua, &shared, &metatable))?;
    library.raw_set("new", create)?;
    Ok(library)
}

/// Creates the functions with their own settings.
fn instance(lua: &Lua, state: &Rc<State>, array_metatable: &Table) -> mlua::Result<Table> {
    let settings = Settings::new(state, array_metatable);
    let library = lua.create_table()?;
    library.raw_set("_NAME", "cjson")?;
    library.raw_set("_VERSION", "2.1.0")?;
    library.raw_set("null", Value::NULL)?;
    let shared = Rc::clone(&settings);
    let encode = lua.create_function(move |lua, args: MultiValue| {
        if args.len() != 1 {
            return Err(bad_argument(lua, 1, "encode", "expected 1 argument"));
        }
        encode::encode(lua, &shared, args.front().unwrap_or(&Value::Nil))
    })?;
    library.raw_set("encode", encode)?;
    let shared = Rc::clone(&settings);
    let decode = lua.create_function(move |lua, args: MultiValue| {
        if args.len() != 1 {
            return Err(bad_argument(lua, 1, "decode", "expected 1 argument"));
        }
        let given = args.front().cloned().unwrap_or(Value::Nil);
        let name = type_name(Some(&given));
        match lua.coerce_string(given)? {
            Some(text) => decode::decode(lua, &shared, &text.as_bytes()),
            None => {
                let why = format!("string expected, got {name}");
                Err(bad_argument(lua, 1, "decode", why))
            }
        }
    })?;
    library.raw_set("decode", decode)?;
    add_settings(lua, &library, &settings)?;
    Ok(library)
}

fn add_settings(lua: &Lua, library: &Table, settings: &Rc<Settings>) -> mlua::Result<()> {
    type Number = fn(&Settings) -> &Cell<i32>;
    let numbers: [(&'static str, Number, (i32, i32)); 3] = [
        (
            "encode_max_depth",
            |settings| &settings.encode_depth_max,
            (1, i32::MAX),
        ),
        (
            "decode_max_depth",
            |settings| &settings.decode_depth_max,
            (1, i32::MAX),
        ),
        (
            "encode_number_precision",
            |settings| &settings.precision,
            (1, 14),
        ),
    ];
    for (name, cell, bounds) in numbers {
        let shared = Rc::clone(settings);
        let function = lua.create_function(move |lua, args: MultiValue| {
            integer(lua, (&args, 0), name, cell(&shared), bounds)
        })?;
        library.raw_set(name, function)?;
    }
    type Switch = fn(&Settings) -> &Cell<bool>;
    let switches: [(&'static str, Switch); 3] = [
        ("encode_keep_buffer", |settings| &settings.keeps_buffer),
        ("decode_invalid_numbers", |settings| {
            &settings.decode_invalid
        }),
        ("decode_array_with_array_mt", |settings| {
            &settings.marks_arrays
        }),
    ];
    for (name, cell) in switches {
        let shared = Rc::clone(settings);
        let function = lua.create_function(move |lua, args: MultiValue| {
            boolean(lua, (&args, 0), name, cell(&shared))
        })?;
        library.raw_set(name, function)?;
    }
    let shared = Rc::clone(settings);
    let sparse = lua.create_function(move |lua, args: MultiValue| {
        let name = "encode_sparse_array";
        let convert = boolean(lua, (&args, 0), name, &shared.sparse_convert)?;
        let bounds = (0, i32::MAX);
        let ratio = integer(lua, (&args, 1), name, &shared.sparse_ratio, bounds)?;
        Ok((
            convert,
            ratio,
            integer(lua, (&args, 2), name, &shared.sparse_safe, bounds)?,
        ))
    })?;
    library.raw_set("encode_sparse_array", sparse)?;
    let shared = Rc::clone(settings);
    let invalid = lua.create_function(move |lua, args: MultiValue| invalid(lua, &shared, &args))?;
    library.raw_set("encode_invalid_numbers", invalid)
}

/// Sets how the encoder treats NaN and infinities.
fn invalid(lua: &Lua, settings: &Settings, args: &MultiValue) -> mlua::Result<Value> {
    let chosen = match args.front() {
        None | Some(Value::Nil) => settings.encode_invalid.get(),
        Some(Value::Boolean(true)) => Invalid::Allowed,
        Some(Value::Boolean(false)) => Invalid::Refused,
        Some(Value::String(word)) if *word == "null" => Invalid::Null,
        Some(Value::String(word)) if *word == "on" => Invalid::Allowed,
        Some(Value::String(word)) if *word == "off" => Invalid::Refused,
        Some(_) => {
            return Err(bad_argument(
                lua,
                1,
                "encode_invalid_numbers",
                "invalid option",
            ));
        }
    };
    settings.encode_invalid.set(chosen);
    Ok(match chosen {
        Invalid::Refused => Value::Boolean(false),
        Invalid::Allowed => Value::Boolean(true),
        Invalid::Null => Value::String(lua.create_string("null")?),
    })
}
