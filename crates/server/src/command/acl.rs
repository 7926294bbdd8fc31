//! ACL: users and their rights.

use super::client;
use super::subcommand::{help, refuse_subcommand};
use super::table::commands;
use crate::context::{Ctx, Run, Spec};
use crate::permission::check;
use crate::state::{Auth, Server};
use session::acl::catalog::{CATEGORIES, Catalog, category};
use session::acl::file::{Users, add_line, check_name, parse};
use session::acl::{Acl, DEFAULT, Rules, Selector, User, check_password};
use session::clients::ClientInfo;
use session::pubsub::Space;
use session::spec::Keys;
use session::spec::flag::{ADMIN, CONTAINER, LOADING, NOSCRIPT, STALE};
use settings::rewrite::UserChange;
use settings::temporary::replace;
use settings::words::ALL_CHANNELS;
use settings::{Config, Id, Value, files};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use wire::number::parse_i64;
use wire::{Args, Reply};

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "server" []:
    "acl" -2, ADMIN | NOSCRIPT | LOADING | STALE | CONTAINER, Keys::None, "6.0.0", Run::any(acl),
        "subcommand [argument]...", "A container for commands on users and their rights."
    {
        "cat" -2, NOSCRIPT | LOADING | STALE, Keys::None, "6.0.0",
            "[category]", "Lists the categories of commands, or the commands of one category.";
        "deluser" -3, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "6.0.0",
            "username...", "Deletes users and disconnects their clients.";
        "dryrun" -4, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "7.0.0",
            "username command [arg]...", "Reports whether a user may run a command, without running it.";
        "genpass" -2, NOSCRIPT | LOADING | STALE, Keys::None, "6.0.0",
            "[bits:integer]", "Returns a random password.";
        "getuser" 3, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "6.0.0",
            "username", "Returns the rights of a user.";
        "help" 2, LOADING | STALE, Keys::None, "6.0.0",
            "", "Returns help about the subcommands.";
        "list" 2, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "6.0.0",
            "", "Lists the users with their rights.";
        "load" 2, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "6.0.0",
            "", "Replaces all users by those of the ACL file.";
        "log" -2, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "6.0.0",
            "[count | RESET]", "Lists the recently denied commands and failed authentications.";
        "save" 2, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "6.0.0",
            "", "Writes the users to the ACL file.";
        "setuser" -3, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "6.0.0",
            "username [rule]...", "Creates or changes a user.";
        "users" 2, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "6.0.0",
            "", "Lists the names of the users.";
        "whoami" 2, NOSCRIPT | LOADING | STALE, Keys::None, "6.0.0",
            "", "Returns the name of the connection's user.";
    };
};

/// Text of ACL HELP.
const HELP: &[&str] = &[
    "CAT [<category>]",
    "    List all commands that belong to <category>, or all command categories",
    "    when no category is specified.",
    "DELUSER <username> [<username> ...]",
    "    Delete a list of users.",
    "DRYRUN <username> <command> [<arg> ...]",
    "    Returns whether the user can execute the given command without executing the command.",
    "GETUSER <username>",
    "    Get the user's details.",
    "GENPASS [<bits>]",
    "    Generate a secure 256-bit user password. The optional `bits` argument can",
    "    be used to specify a different size.",
    "LIST",
    "    Show users details in config file format.",
    "LOAD",
    "    Reload users from the ACL file.",
    "LOG [<count> | RESET]",
    "    Show the ACL log entries.",
    "SAVE",
    "    Save the current config to the ACL file.",
    "SETUSER <username> <attribute> [<attribute> ...]",
    "    Create or modify a user with the specified attributes.",
    "USERS",
    "    List all the registered usernames.",
    "WHOAMI",
    "    Return the current connection username.",
];

const NO_FILE: &str = "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis configuration.";
const NOT_INTEGER: &str = "ERR value is not an integer or out of range";

/// Maximum size of an ACL file and of a file with a password. 10,000 users with a hundred rules
/// each take less.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Maximum number of bits that ACL GENPASS returns.
const PASSWORD_BITS_MAX: i64 = 4096;

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| Catalog::of(super::table()));

/// Returns the context that users' rules refer to.
fn rules(config: &Config) -> Rules<'static> {
    Rules {
        catalog: &CATALOG,
        has_all_channels: config.number(Id::AclPubsubDefault) == ALL_CHANNELS,
    }
}

fn acl(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let word = args[1].to_ascii_lowercase();
    match (&word[..], args.len()) {
        (b"whoami", 2) => ctx.reply.bulk(ctx.session.user.name().as_bytes()),
        (b"users", 2) => {
            let all = ctx.server.auth.acl.all();
            ctx.reply.array(all.len());
            for user in all {
                ctx.reply.bulk(user.name().as_bytes());
            }
        }
        (b"list", 2) => {
            let all = ctx.server.auth.acl.all();
            ctx.reply.array(all.len());
            for user in all {
                ctx.reply.bulk(&user.line());
            }
        }
        (b"getuser", 3) => get_user(ctx, &args[2]),
        (b"setuser", 3..) => set_user(ctx, args),
        (b"deluser", 3..) => delete_users(ctx, args),
        (b"cat", 2) => {
            ctx.reply.array(CATEGORIES.len());
            for name in CATEGORIES {
                ctx.reply.bulk(name.as_bytes());
            }
        }
        (b"cat", 3) => commands_of(ctx, &args[2]),
        (b"dryrun", 4..) => dry_run(ctx, args),
        (b"genpass", 2 | 3) => generate_password(ctx, args.get(2)),
        (b"log", 2 | 3) => log(ctx, args.get(2)),
        (b"load" | b"save", 2) => {
            let path = ctx.server.config.path(Id::AclFile);
            match &word[..] {
                _ if path.is_empty() => ctx.reply.error(NO_FILE),
                b"load" => load(ctx, &path),
                _ => save(ctx, &path),
            }
        }
        (b"help", 2) => help(ctx, "ACL", HELP),
        _ => refuse_subcommand(ctx, args, HELP),
    }
}

fn get_user(ctx: &mut Ctx<'_, '_>, name: &[u8]) {
    let name = std::str::from_utf8(name);
    let Some(user) = name.ok().and_then(|name| ctx.server.auth.acl.find(name).0) else {
        return ctx.reply.null();
    };
    let reply = &mut ctx.reply;
    reply.map(6);
    reply.bulk(b"flags");
    let flags = user.flags();
    reply.set(flags.len());
    for flag in flags {
        reply.bulk(flag.as_bytes());
    }
    reply.bulk(b"passwords");
    let passwords: Vec<String> = user.passwords().collect();
    reply.array(passwords.len());
    for digits in passwords {
        reply.bulk(digits.as_bytes());
    }
    let mut selectors = user.selectors();
    if let Some(root) = selectors.next() {
        describe(reply, root);
    }
    let further: Vec<&Selector> = selectors.collect();
    reply.bulk(b"selectors");
    reply.array(further.len());
    for selector in further {
        reply.map(3);
        describe(reply, selector);
    }
}

/// Writes the three pairs that describe a selector.
fn describe(reply: &mut Reply<'_>, selector: &Selector) {
    reply.bulk(b"commands");
    reply.bulk(selector.describe_commands().as_bytes());
    reply.bulk(b"keys");
    reply.bulk(&selector.describe_keys());
    reply.bulk(b"channels");
    reply.bulk(&selector.describe_channels());
}

fn set_user(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let name = match check_name(&args[2]) {
        Ok(name) => name,
        Err(why) => return ctx.reply.error(&format!("ERR {why}")),
    };
    let words: Vec<&[u8]> = args.from(3).iter().collect();
    let rules = rules(&ctx.server.config);
    match ctx.server.auth.acl.set(name, &words, rules) {
        Ok(()) => {
            disconnect_subscribers(ctx);
            ctx.reply.ok();
        }
        Err(why) => ctx.reply.error(&format!("ERR {why}")),
    }
}

fn delete_users(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let names: Vec<&[u8]> = args.from(2).iter().collect();
    if names.contains(&DEFAULT.as_bytes()) {
        return ctx.reply.error("ERR The 'default' user cannot be removed");
    }
    let is_removed = |name: &&[u8]| {
        let name = std::str::from_utf8(name);
        name.is_ok_and(|name| ctx.server.auth.acl.remove(name))
    };
    let count = names.into_iter().filter(is_removed).count();
    disconnect_removed(ctx);
    ctx.reply.integer(count as i64);
}

/// Disconnects the clients whose user no longer exists.
fn disconnect_removed(ctx: &mut Ctx<'_, '_>) {
    for info in clients_of_removed(ctx.server) {
        client::disconnect(ctx, &info);
    }
}

fn clients_of_removed(server: &Server) -> Vec<Arc<ClientInfo>> {
    let all = server.auth.acl.all();
    let exists = |info: &ClientInfo| {
        let name = info.user();
        all.binary_search_by(|user| user.name().cmp(&name)).is_ok()
    };
    let clients = server.clients.registry.list().into_iter();
    clients.filter(|info| !exists(info)).collect()
}

/// Disconnects the clients with subscriptions that their user no longer permits.
fn disconnect_subscribers(ctx: &mut Ctx<'_, '_>) {
    for info in denied_subscribers(ctx.server) {
        client::disconnect(ctx, &info);
    }
}

/// Returns the clients with subscriptions that their user is not allowed.
fn denied_subscribers(server: &Server) -> Vec<Arc<ClientInfo>> {
    let mut denied = Vec::new();
    if server.clients.pubsub.is_idle() {
        return denied;
    }
    let all = server.auth.acl.all();
    let users: BTreeMap<&str, &User> = all.iter().map(|user| (user.name(), &**user)).collect();
    server.clients.pubsub.each(&mut |space, name, subscriber| {
        let Some(info) = server.clients.registry.get(subscriber.client) else {
            return;
        };
        let is_pattern = space == Space::Pattern;
        let user = users.get(&*info.user());
        let is_allowed = user.is_some_and(|user| {
            let mut selectors = user.selectors();
            selectors.any(|selector| selector.allows_channel(name, is_pattern))
        });
        if !is_allowed {
            denied.push(info);
        }
    });
    denied
}

fn commands_of(ctx: &mut Ctx<'_, '_>, name: &[u8]) {
    let Some(bit) = category(name) else {
        let name = String::from_utf8_lossy(&name[..name.len().min(128)]).into_owned();
        return ctx.reply.error(&format!("ERR Unknown category '{name}'"));
    };
    let all = CATALOG.iter().map(|(_, entry)| entry);
    let names: Vec<_> = all
        .filter(|entry| entry.categories & bit != 0)
        .map(|entry| entry.name)
        .collect();
    ctx.reply.array(names.len());
    for name in names {
        ctx.reply.bulk(name.as_bytes());
    }
}

fn dry_run(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(128)]).into_owned();
    let found = std::str::from_utf8(&args[2]).ok();
    let Some(user) = found.and_then(|name| ctx.server.auth.acl.find(name).0) else {
        let name = text(&args[2]);
        return ctx.reply.error(&format!("ERR User '{name}' not found"));
    };
    let call = args.from(3);
    let index = ctx.table.lookup(call.name());
    let chosen = index.map(|index| ctx.table.choose(index, call));
    let Some(chosen) = chosen.filter(|chosen| !chosen.is_unknown) else {
        let name = text(call.name());
        return ctx.reply.error(&format!("ERR Command '{name}' not found"));
    };
    if !chosen.accepts(call.len()) {
        let name = ctx.table.name(chosen.counted().unwrap_or(chosen.index));
        return ctx.reply.error(&format!(
            "ERR wrong number of arguments for '{name}' command"
        ));
    }
    match check(&user, chosen, call) {
        Ok(()) => ctx.reply.ok(),
        Err(denied) => {
            let text = denied.text(&user, chosen, call, true);
            ctx.reply.bulk(text.as_bytes());
        }
    }
}

fn generate_password(ctx: &mut Ctx<'_, '_>, bits: Option<&[u8]>) {
    let Some(bits) = bits.map_or(Some(256), parse_i64) else {
        return ctx.reply.error(NOT_INTEGER);
    };
    if !(1..=PASSWORD_BITS_MAX).contains(&bits) {
        return ctx.reply.error(&format!(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to {PASSWORD_BITS_MAX}"
        ));
    }
    let mut bytes = [0; PASSWORD_BITS_MAX as usize / 8];
    let bytes = &mut bytes[..(bits as usize).div_ceil(8)];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(bytes));
    if let Err(error) = read {
        return ctx
            .reply
            .error(&format!("ERR no random numbers: /dev/urandom: {error}"));
    }
    let mut digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.truncate((bits as usize).div_ceil(4));
    ctx.reply.bulk(digits.as_bytes());
}

fn log(ctx: &mut Ctx<'_, '_>, option: Option<&[u8]>) {
    let log = &ctx.server.auth.acl.log;
    let count = match option {
        None => 10,
        Some(word) if word.eq_ignore_ascii_case(b"reset") => {
            log.reset();
            return ctx.reply.ok();
        }
        Some(number) => match parse_i64(number) {
            Some(count) => usize::try_from(count).unwrap_or(0),
            None => return ctx.reply.error(NOT_INTEGER),
        },
    };
    let entries = log.newest(count);
    let now_ms = ctx.view.now().0;
    let reply = &mut ctx.reply;
    reply.array(entries.len());
    for entry in entries {
        reply.map(10);
        reply_number(reply, "count", entry.count);
        let mut text = |name: &str, value: &[u8]| {
            reply.bulk(name.as_bytes());
            reply.bulk(value);
        };
        text("reason", entry.reason.name().as_bytes());
        text("context", entry.context.name().as_bytes());
        text("object", &entry.object);
        text("username", &entry.user);
        reply.bulk(b"age-seconds");
        reply.double(now_ms.saturating_sub(entry.updated_ms) as f64 / 1000.0);
        reply.bulk(b"client-info");
        reply.bulk(entry.client.as_bytes());
        reply_number(reply, "entry-id", entry.id);
        reply_number(reply, "timestamp-created", entry.created_ms);
        reply_number(reply, "timestamp-last-updated", entry.updated_ms);
    }
}

fn reply_number(reply: &mut Reply<'_>, name: &str, number: u64) {
    reply.bulk(name.as_bytes());
    reply.integer(number as i64);
}

fn load(ctx: &mut Ctx<'_, '_>, path: &str) {
    match load_file(&ctx.server.auth.acl, &ctx.server.config, path) {
        Ok(()) => {
            disconnect_removed(ctx);
            disconnect_subscribers(ctx);
            ctx.reply.ok();
        }
        Err(why) => ctx.reply.error(&format!(
            "ERR {why}. No change to the previously active ACL rules was performed"
        )),
    }
}

/// Replaces all users by those in a file. Changes nothing if the file is invalid.
fn load_file(acl: &Acl, config: &Config, path: &str) -> Result<(), String> {
    acl.replace(read_file(config, path)?);
    Ok(())
}

/// Returns the users that an ACL file defines.
fn read_file(config: &Config, path: &str) -> Result<Users, String> {
    let text = files::read(Path::new(path), FILE_BYTES_MAX);
    let text = text.map_err(|error| format!("ACL file {path}: {error}"))?;
    let default = User::default_with(&config.text(Id::RequirePass));
    parse(&text, path, rules(config), default)
}

/// Compares the users with the users in a configuration file, whose lines are given without their
/// first word. If the default user is unchanged and there are no other users, nothing has changed.
///
/// # Errors
/// A user cannot be written as a line of text.
pub fn changed_users(
    acl: &Acl,
    config: &Config,
    lines: &[Vec<String>],
) -> Result<Vec<UserChange>, String> {
    if !config.path(Id::AclFile).is_empty() {
        return Ok(Vec::new());
    }
    let mut before = BTreeMap::new();
    for words in lines {
        let user = std::iter::once("user").chain(words.iter().map(String::as_str));
        let words: Vec<&[u8]> = user.map(str::as_bytes).collect();
        // A line that is not valid would have ended the start.
        let _ = add_line(&mut before, &words, rules(config));
    }
    let default = || Arc::new(User::default_with(&config.text(Id::RequirePass)));
    let has_default = before.contains_key(DEFAULT);
    before.entry(DEFAULT.to_owned()).or_insert_with(default);
    let after = acl.all();
    let mut changes = Vec::new();
    for user in &after {
        let line = user.line();
        if before
            .get(user.name())
            .is_some_and(|old| old.line() == line)
        {
            continue;
        }
        let text = String::from_utf8(line).map_err(|_| {
            format!(
                "the rights of '{}' are not valid UTF-8; use aclfile",
                user.name()
            )
        })?;
        let words = text.split(' ').filter(|word| !word.is_empty());
        changes.push((
            user.name().to_owned(),
            Some(words.map(str::to_owned).collect()),
        ));
    }
    let exists = |name: &str| after.iter().any(|user| user.name() == name);
    let removed = before.keys().filter(|name| !exists(name));
    changes.extend(removed.map(|name| (name.clone(), None)));
    debug_assert!(has_default || exists(DEFAULT));
    Ok(changes)
}

/// Reloads the ACL file on a signal, if there is one, and logs the result. If the file is invalid,
/// nothing changes.
pub fn reload(server: &Server) {
    let path = server.config.path(Id::AclFile);
    if path.is_empty() {
        return;
    }
    match load_file(&server.auth.acl, &server.config, &path) {
        Ok(()) => {
            log::info!("SIGHUP: the users were read again from {path}");
            let removed = clients_of_removed(server);
            let denied = denied_subscribers(server);
            for info in removed.into_iter().chain(denied) {
                server.workers.disconnect(&info);
            }
        }
        Err(why) => log::warn!("SIGHUP: the previous users stay in force: {why}"),
    }
}

/// Reads the password of the default user from the file that the settings name, if they name one.
///
/// # Errors
/// The file cannot be read, contains no password, or the settings contain another password.
pub fn read_password(config: &Config) -> Result<(), String> {
    let path = config.path(Id::RequirePassFile);
    if path.is_empty() {
        return Ok(());
    }
    let failed = |why: &str| format!("requirepass-file {path}: {why}");
    let bytes = files::read(Path::new(&path), FILE_BYTES_MAX).map_err(|error| failed(&error))?;
    let text = String::from_utf8(bytes).map_err(|_| failed("expected a text in UTF-8"))?;
    match text.lines().next() {
        _ if !config.text(Id::RequirePass).is_empty() => {
            Err(failed("requirepass is set too; use one of them"))
        }
        None | Some("") => Err(failed("the first line is empty")),
        Some(password) => {
            check_password(password.as_bytes()).map_err(|error| failed(error.text()))?;
            config.put(Id::RequirePass, &Value::Text(password.to_owned()));
            config.mark_outside(Id::RequirePass);
            Ok(())
        }
    }
}

/// Defines the users of the configuration.
///
/// # Errors
/// Returns the errors of [`check_users`].
pub fn load_at_start(auth: &Auth, config: &Config) -> Result<(), String> {
    let users = check_users(config)?;
    auth.apply_password(config);
    if let Some(users) = users {
        auth.acl.replace(users);
    }
    Ok(())
}

/// Reads the default user's password, and returns the configured users: those in the ACL file or
/// those in `user` lines; `None` if there is neither.
///
/// # Errors
/// A line is invalid, there are both a file and lines, or the password cannot be read.
pub fn check_users(config: &Config) -> Result<Option<Users>, String> {
    read_password(config)?;
    let path = config.path(Id::AclFile);
    let lines = config.user_lines();
    if lines.is_empty() {
        return match path.is_empty() {
            true => Ok(None),
            false => read_file(config, &path).map(Some),
        };
    }
    if !path.is_empty() {
        return Err(
            "users are defined both by aclfile and by lines that begin with user; use one of them"
                .into(),
        );
    }
    let mut users = BTreeMap::new();
    for (place, words) in &lines {
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let added = add_line(&mut users, &words, rules(config));
        added.map_err(|error| format!("{place}: {error}"))?;
    }
    let default = || Arc::new(User::default_with(&config.text(Id::RequirePass)));
    users.entry(DEFAULT.to_owned()).or_insert_with(default);
    Ok(Some(users))
}

fn save(ctx: &mut Ctx<'_, '_>, path: &str) {
    let mut text = Vec::new();
    for user in ctx.server.auth.acl.all() {
        text.extend_from_slice(&user.line());
        text.push(b'\n');
    }
    match replace(Path::new(path), &text) {
        Ok(()) => ctx.reply.ok(),
        Err(error) => {
            log::warn!("ACL SAVE: {path}: {error}");
            ctx.reply.error("ERR There was an error trying to save the ACLs. Please check the server logs for more information");
        }
    }
}

#[cfg(test)]
mod tests;
