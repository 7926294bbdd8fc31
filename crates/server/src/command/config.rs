//! CONFIG: settings at run time.

use super::acl;
use super::subcommand::{help, refuse_subcommand};
use super::table::commands;
use crate::aof::work as aof;
use crate::context::{Ctx, Run, Spec};
use crate::logging;
use crate::state::Server;
use session::spec::Keys;
use session::spec::flag::{ADMIN, CONTAINER, LOADING, NOSCRIPT, STALE};
use settings::words::LOG_LEVELS;
use settings::{Effect, Id, Param, TABLE as SETTINGS, Value, find, load, rewrite, value};
use wire::{Args, glob};

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "server" []:
    "config" -2, ADMIN | NOSCRIPT | LOADING | STALE | CONTAINER, Keys::None, "2.0.0", Run::any(config),
        "subcommand [argument]...", "A container for server configuration commands."
    {
        "get" -3, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "2.0.0",
            "parameter...", "Returns the values of settings.";
        "help" 2, LOADING | STALE, Keys::None, "5.0.0",
            "", "Returns help about the subcommands.";
        "resetstat" 2, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "2.0.0",
            "", "Resets the statistics.";
        "rewrite" 2, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "2.8.0",
            "", "Writes the present settings to the configuration file.";
        "set" -4, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "2.0.0",
            "(parameter value)...", "Changes settings.";
    };
};

/// Text of CONFIG HELP.
const HELP: &[&str] = &[
    "GET <pattern>",
    "    Return parameters matching the glob-like <pattern> and their values.",
    "SET <directive> <value>",
    "    Set the configuration <directive> to <value>.",
    "RESETSTAT",
    "    Reset statistics reported by the INFO command.",
    "REWRITE",
    "    Rewrite the configuration file.",
];

fn config(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let word = args[1].to_ascii_lowercase();
    match (&word[..], args.len()) {
        (b"get", 3..) => get(ctx, args),
        (b"set", 4..) => set(ctx, args),
        (b"resetstat", 2) => {
            ctx.unlocked(|server| {
                server.observability.stats.reset();
                server.data.engine().reset_counters();
            });
            ctx.reply.ok();
        }
        (b"rewrite", 2) => match ctx.server.config.file() {
            path if path.is_empty() => ctx
                .reply
                .error("ERR The server is running without a config file"),
            _ => match rewrite::rewrite(&ctx.server.config, |users| {
                acl::changed_users(&ctx.server.auth.acl, &ctx.server.config, users)
            }) {
                Ok(()) => ctx.reply.ok(),
                Err(error) => ctx
                    .reply
                    .error(&format!("ERR Rewriting config file: {error}")),
            },
        },
        (b"help", 2) => help(ctx, "CONFIG", HELP),
        _ => refuse_subcommand(ctx, args, HELP),
    }
}

fn get(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let mut found: Vec<(&str, String)> = Vec::new();
    for param in SETTINGS {
        for name in [param.name, param.alias] {
            let matches = |pattern: &[u8]| glob::matches(pattern, name.as_bytes(), true);
            // An alias is another name of the same setting. It is returned only if the pattern is
            // the alias itself.
            let is_alias = name == param.alias && name != param.name;
            let mut patterns = args.from(2).iter();
            let is_named =
                patterns.any(|pattern| matches(pattern) && (!is_alias || !pattern.contains(&b'*')));
            if !name.is_empty() && is_named {
                found.push((name, ctx.server.config.show(param)));
            }
        }
    }
    ctx.reply.map(found.len());
    for (name, value) in found {
        ctx.reply.bulk(name.as_bytes());
        ctx.reply.bulk(value.as_bytes());
    }
}

fn set(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    if !args.len().is_multiple_of(2) {
        return ctx
            .reply
            .error("ERR wrong number of arguments for 'config|set' command");
    }
    let mut changes = Vec::new();
    for at in (2..args.len()).step_by(2) {
        let name = String::from_utf8_lossy(&args[at]);
        if let Some(reason) = load::ignored(&name) {
            // As in a configuration file.
            log::warn!("CONFIG SET: {name} has no effect here: {reason}");
            continue;
        }
        match read_change(&args[at], &args[at + 1], &changes) {
            Ok(change) => changes.push(change),
            Err(error) => return ctx.reply.error(&error),
        }
    }
    match ctx.unlocked(|server| change_all(server, &changes)) {
        Ok(()) => ctx.reply.ok(),
        Err(error) => ctx.reply.error(&error),
    }
}

type Change = (&'static Param, Value);

fn failed(param: &Param, error: &str) -> String {
    let name = param.name;
    format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {error}")
}

fn read_change(name: &[u8], text: &[u8], earlier: &[Change]) -> Result<Change, String> {
    let name = String::from_utf8_lossy(name);
    let Some(param) = find(&name) else {
        return Err(format!(
            "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
        ));
    };
    if !param.is_mutable() {
        return Err(failed(param, "can't set immutable config"));
    }
    if earlier.iter().any(|(other, _)| other.id == param.id) {
        return Err(failed(param, "duplicate parameter"));
    }
    let text =
        std::str::from_utf8(text).map_err(|_| failed(param, "the value is not valid UTF-8"))?;
    let value = value::parse(param.kind, text).map_err(|error| failed(param, &error))?;
    Ok((param, value))
}

/// Changes one setting, as CONFIG SET does. The caller must not hold the lock of any shard.
///
/// # Errors
///
/// The setting is unknown, cannot be changed, or rejects the value.
pub(crate) fn change(server: &Server, name: &[u8], text: &[u8]) -> Result<(), String> {
    change_all(server, &[read_change(name, text, &[])?])
}

/// Changes the text of a setting with `change`, while no other thread changes settings. The caller
/// must not hold the lock of any shard.
///
/// # Errors
///
/// `change` fails, or the part that keeps a copy refuses the value.
pub(crate) fn edit(
    server: &Server,
    id: Id,
    change: impl FnOnce(&str) -> Result<String, String>,
) -> Result<(), String> {
    let _changing = server.config.begin_change();
    let before = server.config.text(id);
    let after = change(&before)?;
    server.config.put(id, &Value::Text(after));
    let applied = apply(server, SETTINGS[id as usize].effect);
    if applied.is_err() {
        server.config.put(id, &Value::Text(before));
    }
    applied
}

/// Applies all changes, or none if one fails.
fn change_all(server: &Server, changes: &[Change]) -> Result<(), String> {
    let _changing = server.config.begin_change();
    let before: Vec<Change> = changes
        .iter()
        .map(|(param, _)| {
            let shown = server.config.show(param);
            let value = value::parse(param.kind, &shown).expect("a shown value can be parsed");
            (*param, value)
        })
        .collect();
    for (index, (param, value)) in changes.iter().enumerate() {
        server.config.put(param.id, value);
        if let Err(error) = apply(server, param.effect) {
            restore(server, &before[..=index]);
            return Err(failed(param, &error));
        }
    }
    // A certificate and its key are changed together.
    let is_of_tls = |(param, _): &&Change| param.effect == Effect::Tls;
    if let Some((param, _)) = changes.iter().find(is_of_tls)
        && let Err(error) = server.network.tls.load(&server.config)
    {
        log::warn!("CONFIG SET: the previous TLS certificates stay in use: {error}");
        restore(server, &before);
        return Err(failed(param, &error));
    }
    // A new password replaces the one of the file, so that CONFIG REWRITE does not name both.
    if changes.iter().any(|(param, _)| param.id == Id::RequirePass) {
        let none = Value::Text(String::new());
        server.config.put(Id::RequirePassFile, &none);
    }
    Ok(())
}

fn restore(server: &Server, before: &[Change]) {
    for (param, value) in before {
        server.config.put(param.id, value);
        // Applying the previous value cannot fail.
        let _ = apply(server, param.effect);
    }
}

/// Passes a changed value to the part that keeps a copy.
fn apply(server: &Server, effect: Effect) -> Result<(), String> {
    let (engine, config) = (server.data.engine(), &server.config);
    match effect {
        Effect::Restart | Effect::Read | Effect::Nothing => {}
        // `change_all` builds the TLS configuration once, after all changes.
        Effect::Tls => {}
        Effect::Password => server.auth.apply_password(&server.config),
        Effect::Limit(_) => server.data.apply_limits(&server.config),
        Effect::Memory => {
            engine.allow_change()?;
            server.apply_maxmemory();
        }
        Effect::ReplicaMemory => server.apply_maxmemory(),
        Effect::Policy => engine.change_policy(config)?,
        Effect::Classes => server.data.apply_classes(config)?,
        Effect::Eviction => engine.change_eviction(config)?,
        Effect::Events => {
            engine.allow_change()?;
            server.data.apply_notifications(&server.config);
        }
        Effect::AppendOnly => aof::apply(server)?,
        Effect::AppendSync => {
            aof::apply_sync(&server.config, &server.persistence.aof, &server.feed)
        }
        Effect::MinReplicas => server.replication.count_good(config),
        Effect::LogLevel => logging::set_level(LOG_LEVELS[config.number(Id::LogLevel) as usize]),
        Effect::Slowlog => server
            .observability
            .slowlog
            .shrink(config.number(Id::SlowlogMaxLen) as usize),
    }
    Ok(())
}
