//! Functions of the prelude that are written in Rust, and the description of uncaught errors.

use super::text_of;
use crate::failure::{Raised, bad_argument, is_counted, lua_value, raise, raise_table, type_name};
use crate::state::{Failure, State};
use crate::{lend, pattern};
use mlua::{HookTriggers, Lua, LuaString, Table, Value, VmState};
use std::rc::Rc;

/// Number of items above which a pattern is too complex.
const PATTERN_ITEMS_MAX: usize = 1000;

/// Creates the native functions that the prelude needs.
pub(super) fn natives(lua: &Lua, state: &Rc<State>) -> mlua::Result<Table> {
    let native = lua.create_table()?;
    let caught_state = Rc::clone(state);
    native.raw_set(
        "caught",
        lua.create_function(move |lua, value: Value| match caught_state.killed.get() {
            Some(reason) => Err(raise_table(reason, false)),
            None => lua_value(lua, value),
        })?,
    )?;
    let failed_state = Rc::clone(state);
    native.raw_set(
        "on_error",
        lua.create_function(move |lua, value: Value| {
            *failed_state.failure.borrow_mut() = Some(failure_of(lua, &value));
            Ok(())
        })?,
    )?;
    native.raw_set(
        "fail",
        lua.create_function(|_, text: String| {
            Err::<(), _>(raise_table(format!("ERR {text}"), false))
        })?,
    )?;
    native.raw_set(
        "bad_argument",
        lua.create_function(
            |lua, (index, function, expected, value): (usize, String, String, Value)| {
                let given = type_name(Some(&value));
                let why = format!("{expected} expected, got {given}");
                Err::<(), _>(bad_argument(lua, index, &function, why))
            },
        )?,
    )?;
    native.raw_set(
        "clock",
        lua.create_function(|_, ()| Ok(lend::with(|host| host.cpu_seconds()).unwrap_or(0.0)))?,
    )?;
    native.raw_set(
        "check_pattern",
        lua.create_function(|lua, pattern: LuaString| {
            let is_item = |byte: &&u8| b"?*+-()[%.^$".contains(byte);
            if pattern.as_bytes().iter().filter(is_item).count() > PATTERN_ITEMS_MAX {
                return Err(raise(lua, "pattern too complex"));
            }
            Ok(())
        })?,
    )?;
    add_counters(lua, state, &native)?;
    pattern::add_natives(lua, state, &native)?;
    Ok(native)
}

/// Adds the functions that count work and may end a script.
fn add_counters(lua: &Lua, state: &Rc<State>, native: &Table) -> mlua::Result<()> {
    native.raw_set(
        "raise",
        lua.create_function(|lua, text: String| Err::<(), _>(raise(lua, text)))?,
    )?;
    let shared = Rc::clone(state);
    native.raw_set(
        "work",
        lua.create_function(move |_, units: f64| shared.work(units as usize))?,
    )?;
    let shared = Rc::clone(state);
    native.raw_set(
        "collected",
        lua.create_function(move |lua, ()| {
            // An error may not leave a finalizer. The hook raises it at the next instruction.
            if shared.killed.get().is_none() && shared.tick().is_err() {
                let state = Rc::clone(&shared);
                let triggers = HookTriggers::new().every_nth_instruction(1);
                let hook = move |_: &Lua, _: &mlua::debug::Debug| {
                    state.check_killed().map(|()| VmState::Continue)
                };
                let _ = lua.set_hook(triggers, hook);
            }
            Ok(())
        })?,
    )?;
    Ok(())
}

/// Describes an uncaught error. Called on top of the stack of the failed code.
fn failure_of(lua: &Lua, value: &Value) -> Failure {
    let mut place = None;
    for level in 1..12 {
        let found = lua.inspect_stack(level, |debug| {
            let source = debug.source();
            let name = source
                .source
                .map(|name| name.into_owned())
                .unwrap_or_default();
            (source.what == "C", name, debug.current_line())
        });
        let Some((is_c, name, line)) = found else {
            break;
        };
        if is_c || name == "=prelude" {
            continue;
        }
        place = line.map(|line| (name, line));
        break;
    }
    let is_counted = match value {
        Value::Table(table) => is_counted(table).unwrap_or(false),
        Value::Error(error) => {
            matches!(error.downcast_ref::<Raised>(), Some(Raised::Table(_, true)))
        }
        _ => false,
    };
    let text = match value {
        Value::Table(table) => match table.raw_get::<Value>("err") {
            Ok(Value::String(text)) => text.as_bytes().to_vec(),
            _ => b"ERR unknown error".to_vec(),
        },
        Value::Error(error) => match error.downcast_ref::<Raised>() {
            Some(Raised::Table(text, _)) => text.clone(),
            Some(Raised::Text(text)) => format!("ERR {text}").into(),
            None => format!("ERR {}", text_of(error)).into(),
        },
        other => {
            let text = other
                .to_string()
                .unwrap_or_else(|_| other.type_name().to_owned());
            let mut bytes = b"ERR ".to_vec();
            match other {
                Value::String(text) => bytes.extend_from_slice(&text.as_bytes()),
                _ => bytes.extend_from_slice(text.as_bytes()),
            }
            replace_prelude(bytes, place.as_ref())
        }
    };
    Failure {
        text,
        is_counted,
        place,
    }
}

/// Replaces a position in the prelude, where a wrapped function failed, by the position in the
/// script.
fn replace_prelude(text: Vec<u8>, place: Option<&(String, usize)>) -> Vec<u8> {
    let Some(rest) = text.strip_prefix(b"ERR prelude:") else {
        return text;
    };
    let Some(end) = rest.windows(2).position(|pair| pair == b": ") else {
        return text;
    };
    let mut replaced = b"ERR ".to_vec();
    if let Some((source, line)) = place {
        let source = source.trim_start_matches(['@', '=']);
        replaced.extend_from_slice(format!("{source}:{line}: ").as_bytes());
    }
    replaced.extend_from_slice(&rest[end + 2..]);
    replaced
}
