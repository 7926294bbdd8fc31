//! CLIENT: information about clients, their names, and their disconnection.

use super::subcommand::{help, refuse_subcommand};
use super::table::commands;
use super::tracking;
use crate::blocking;
use crate::context::{Ctx, Run, Spec};
use crate::replication::role;
use engine::lifetime::whole_timeout_ms;
use session::clients::{self, ClientInfo};
use session::clock::Moment;
use session::session::{ReplyMode, Session};
use session::spec::Keys;
use session::spec::flag::{ADMIN, CONTAINER, LOADING, NO_PAUSE, NOSCRIPT, STALE};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use wire::Args;
use wire::number::parse_i64;

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "connection" [connection]:
    "client" -2, NOSCRIPT | LOADING | STALE | NO_PAUSE | CONTAINER, Keys::None, "2.4.0", Run::any(client),
        "subcommand [argument]...", "A container for client connection commands."
    {
        "caching" 3, NOSCRIPT | LOADING | STALE, Keys::None, "6.0.0",
            "(YES | NO)", "Controls the tracking of the next command's keys.";
        "getname" 2, NOSCRIPT | LOADING | STALE, Keys::None, "2.6.9",
            "", "Returns the name of the connection.";
        "getredir" 2, NOSCRIPT | LOADING | STALE, Keys::None, "6.0.0",
            "", "Returns the client that tracking notifications are sent to.";
        "help" 2, LOADING | STALE, Keys::None, "5.0.0",
            "", "Returns help about the subcommands.";
        "id" 2, NOSCRIPT | LOADING | STALE, Keys::None, "5.0.0",
            "", "Returns the number of the connection.";
        "info" 2, NOSCRIPT | LOADING | STALE, Keys::None, "6.2.0",
            "", "Returns information about the connection.";
        "kill" -3, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "2.4.0",
            "(addr | (ID client-id:integer)... | (TYPE (NORMAL | MASTER | SLAVE | REPLICA | PUBSUB)) | \
             (USER username) | (ADDR addr) | (LADDR laddr) | (SKIPME (YES | NO)) | (MAXAGE maxage:integer))...",
            "Closes connections.";
        "list" -2, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "2.4.0",
            "[TYPE (NORMAL | MASTER | REPLICA | PUBSUB)] [ID client-id:integer...]", "Lists the open connections.";
        "no-evict" 3, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "7.0.0",
            "(ON | OFF)", "Sets whether the connection is exempt from eviction.";
        "no-touch" 3, NOSCRIPT | LOADING | STALE, Keys::None, "7.2.0",
            "(ON | OFF)", "Sets whether the connection's commands change the recency of keys.";
        "pause" -3, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "3.0.0",
            "timeout:integer [WRITE | ALL]", "Suspends the commands of clients.";
        "reply" 3, NOSCRIPT | LOADING | STALE, Keys::None, "3.2.0",
            "(ON | OFF | SKIP)", "Sets whether the server replies to the connection.";
        "setinfo" 4, NOSCRIPT | LOADING | STALE, Keys::None, "7.2.0",
            "((LIB-NAME libname) | (LIB-VER libver))", "Sets the name or the version of the client library.";
        "setname" 3, NOSCRIPT | LOADING | STALE, Keys::None, "2.6.9",
            "connection-name", "Sets the name of the connection.";
        "tracking" -3, NOSCRIPT | LOADING | STALE, Keys::None, "6.0.0",
            "(ON | OFF) [REDIRECT client-id:integer] [PREFIX prefix]... [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
            "Sets whether the server tracks the keys that the connection reads.";
        "trackinginfo" 2, NOSCRIPT | LOADING | STALE, Keys::None, "6.2.0",
            "", "Returns the state of tracking for the connection.";
        "unblock" -3, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "5.0.0",
            "client-id:integer [TIMEOUT | ERROR]", "Unblocks a client that is blocked in another connection.";
        "unpause" 2, ADMIN | NOSCRIPT | LOADING | STALE, Keys::None, "6.2.0",
            "", "Ends the suspension of commands.";
    };
};

/// Text of CLIENT HELP.
const HELP: &[&str] = &[
    "CACHING (YES|NO)",
    "    Enable/disable tracking of the keys for next command in OPTIN/OPTOUT modes.",
    "GETREDIR",
    "    Return the client ID we are redirecting to when tracking is enabled.",
    "GETNAME",
    "    Return the name of the current connection.",
    "ID",
    "    Return the ID of the current connection.",
    "INFO",
    "    Return information about the current client connection.",
    "KILL <ip:port>",
    "KILL <option> <value> [<option> <value> [...]]",
    "    Kill connections: ADDR, LADDR, TYPE (NORMAL|PUBSUB|...), USER, SKIPME (YES|NO), ID, MAXAGE.",
    "LIST [TYPE (NORMAL|MASTER|REPLICA|PUBSUB)] [ID <id> ...]",
    "    Return information about client connections.",
    "NO-EVICT (ON|OFF)",
    "    Protect current client connection from eviction.",
    "NO-TOUCH (ON|OFF)",
    "    Will not touch LRU/LFU stats when this mode is on.",
    "PAUSE <timeout> [WRITE|ALL]",
    "    Suspend all, or just write, clients for <timeout> milliseconds.",
    "REPLY (ON|OFF|SKIP)",
    "    Control the replies sent to the current connection.",
    "SETINFO <option> <value>",
    "    Set client meta attr: LIB-NAME, LIB-VER.",
    "SETNAME <name>",
    "    Assign the name <name> to the current connection.",
    "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]]",
    "         [OPTIN] [OPTOUT] [NOLOOP]",
    "    Control server assisted client side caching.",
    "TRACKINGINFO",
    "    Report tracking status for the current connection.",
    "UNBLOCK <clientid> [TIMEOUT|ERROR]",
    "    Unblock the specified blocked client.",
    "UNPAUSE",
    "    Stop the current client pause, resuming traffic.",
];

const NOT_INTEGER: &str = "ERR value is not an integer or out of range";
const SYNTAX: &str = "ERR syntax error";

fn client(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let word = args[1].to_ascii_lowercase();
    match (&word[..], args.len()) {
        (b"id", 2) => ctx.reply.integer(ctx.session.info.id as i64),
        (b"getname", 2) => match ctx.session.info.name() {
            name if name.is_empty() => ctx.reply.null(),
            name => ctx.reply.bulk(name.as_bytes()),
        },
        (b"setname", 3) => match set_name(ctx.session, &args[2]) {
            Ok(()) => ctx.reply.ok(),
            Err(why) => ctx.reply.error(why),
        },
        (b"setinfo", 4) => set_info(ctx, &args[2], &args[3]),
        (b"info", 2) => {
            describe(ctx);
            let line = ctx
                .session
                .info
                .line(ctx.server.clock.moment(), |index| ctx.table.name(index))
                + "\n";
            ctx.reply.verbatim("txt", line.as_bytes());
        }
        (b"list", _) => list(ctx, args),
        (b"kill", 3..) => kill(ctx, args),
        (b"no-evict", 3) => switch(ctx, &args[2], clients::flag::NO_EVICT),
        (b"no-touch", 3) => switch(ctx, &args[2], clients::flag::NO_TOUCH),
        (b"reply", 3) => set_reply(ctx, &args[2]),
        (b"pause", 3 | 4) => pause(ctx, args),
        (b"unpause", 2) => {
            ctx.server.data.end_pause();
            ctx.server.workers.wake_all();
            ctx.reply.ok();
        }
        (b"unblock", 3 | 4) => unblock(ctx, args),
        (b"getredir", 2) => tracking::redirection(ctx),
        (b"tracking", 3..) => tracking::tracking(ctx, args),
        (b"caching", 3) => tracking::caching(ctx, args),
        (b"trackinginfo", 2) => tracking::describe(ctx),
        (b"help", 2) => help(ctx, "CLIENT", HELP),
        _ => refuse_subcommand(ctx, args, HELP),
    }
}

/// Copies the session's state to the record that other workers read.
fn describe(ctx: &Ctx<'_, '_>) {
    ctx.session.info.db.store(ctx.session.db, Relaxed);
}

/// Whether the text has only printable bytes and no blanks.
fn is_plain(text: &[u8]) -> bool {
    text.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

/// Sets the client's name for CLIENT SETNAME and HELLO SETNAME.
///
/// # Errors
/// The name contains blanks or unprintable bytes.
pub fn set_name(session: &Session, name: &[u8]) -> Result<(), &'static str> {
    if !is_plain(name) {
        return Err("ERR Client names cannot contain spaces, newlines or special characters.");
    }
    let name = String::from_utf8_lossy(name).into_owned();
    session.info.change_names(|names| names.name = name);
    Ok(())
}

fn set_info(ctx: &mut Ctx<'_, '_>, option: &[u8], value: &[u8]) {
    let is_name = option.eq_ignore_ascii_case(b"lib-name");
    if !is_name && !option.eq_ignore_ascii_case(b"lib-ver") {
        let option = String::from_utf8_lossy(option);
        return ctx
            .reply
            .error(&format!("ERR Unrecognized option '{option}'"));
    }
    let shown = if is_name { "lib-name" } else { "lib-ver" };
    if !is_plain(value) {
        return ctx.reply.error(&format!(
            "ERR {shown} cannot contain spaces, newlines or special characters."
        ));
    }
    let value = String::from_utf8_lossy(value).into_owned();
    ctx.session.info.change_names(|names| match is_name {
        true => names.lib_name = value,
        false => names.lib_ver = value,
    });
    ctx.reply.ok();
}

fn switch(ctx: &mut Ctx<'_, '_>, word: &[u8], bit: u32) {
    let is_on = word.eq_ignore_ascii_case(b"on");
    if !is_on && !word.eq_ignore_ascii_case(b"off") {
        return ctx.reply.error(SYNTAX);
    }
    ctx.session.set_flag(bit, is_on);
    ctx.reply.ok();
}

fn set_reply(ctx: &mut Ctx<'_, '_>, word: &[u8]) {
    ctx.session.reply_mode = match &word.to_ascii_lowercase()[..] {
        b"on" => ReplyMode::On,
        b"off" => ReplyMode::Off,
        // SKIP does not end OFF. Otherwise the reply to this command is the first one that is
        // skipped.
        b"skip" if ctx.session.reply_mode == ReplyMode::Off => ReplyMode::Off,
        b"skip" => ReplyMode::SkipNext,
        _ => return ctx.reply.error(SYNTAX),
    };
    if ctx.session.reply_mode == ReplyMode::On {
        ctx.reply.ok();
    }
}

fn pause(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let holds_all = match args.get(3) {
        None => true,
        Some(word) if word.eq_ignore_ascii_case(b"all") => true,
        Some(word) if word.eq_ignore_ascii_case(b"write") => false,
        Some(_) => return ctx.reply.error(SYNTAX),
    };
    match whole_timeout_ms(&args[2]) {
        Ok(ms) => {
            let now = ctx.server.clock.moment();
            let until = Moment(now.0.saturating_add(ms));
            ctx.server.data.begin_pause(now, until, holds_all);
            ctx.reply.ok();
        }
        Err(refusal) => refusal.write(&mut ctx.reply),
    }
}

fn unblock(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let is_known = args.len() == 3 || args.is(3, "timeout") || args.is(3, "error");
    match parse_i64(&args[2]) {
        _ if !is_known => ctx
            .reply
            .error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"),
        Some(id) => {
            let with_error = args.is(3, "error");
            let is_done = ctx.unlocked(|server| blocking::unblock(server, id as u64, with_error));
            ctx.reply.integer(i64::from(is_done));
        }
        None => ctx.reply.error(NOT_INTEGER),
    }
}

/// Whether a client is of the given type; `None` if there is no such type.
fn is_of_type(info: &ClientInfo, kind: &[u8]) -> Option<bool> {
    let is_replica = info.flags.load(Relaxed) & clients::flag::REPLICA != 0;
    match &kind.to_ascii_lowercase()[..] {
        b"normal" => Some(!info.is_subscriber() && !is_replica),
        b"pubsub" => Some(info.is_subscriber()),
        b"replica" | b"slave" => Some(is_replica),
        b"master" => Some(false),
        _ => None,
    }
}

fn unknown_type(kind: &[u8]) -> String {
    format!(
        "ERR Unknown client type '{}'",
        String::from_utf8_lossy(kind)
    )
}

fn list(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    describe(ctx);
    let mut all = ctx.server.clients.registry.list();
    let own = ctx.session.info.id;
    all.retain(|info| !info.is_killed() || info.id == own);
    if args.len() == 4 && args.is(2, "type") {
        let kind = &args[3];
        if all.iter().any(|info| is_of_type(info, kind).is_none()) {
            return ctx.reply.error(&unknown_type(kind));
        }
        all.retain(|info| is_of_type(info, kind) == Some(true));
    } else if args.len() >= 4 && args.is(2, "id") {
        let ids: Option<Vec<i64>> = args.from(3).iter().map(parse_i64).collect();
        let Some(ids) = ids.filter(|ids| ids.iter().all(|id| *id > 0)) else {
            return ctx.reply.error("ERR Invalid client ID");
        };
        all.retain(|info| ids.contains(&(info.id as i64)));
    } else if args.len() > 2 {
        return ctx.reply.error(SYNTAX);
    }
    let now = ctx.server.clock.moment();
    let mut text = String::new();
    for info in all {
        text.push_str(&info.line(now, |index| ctx.table.name(index)));
        text.push('\n');
    }
    ctx.reply.verbatim("txt", text.as_bytes());
}

/// Filters of CLIENT KILL.
struct Victims<'a> {
    conditions: Vec<Condition<'a>>,
    spares_me: bool,
}

enum Condition<'a> {
    Id(i64),
    Address(&'a [u8]),
    LocalAddress(&'a [u8]),
    Type(&'a [u8]),
    User(&'a [u8]),
    MaxAge(i64),
}

impl Victims<'_> {
    /// Whether the filters select the connection to the primary, which does not count as a client
    /// here.
    fn are_primary(&self) -> bool {
        let is_master = |kind: &[u8]| kind.eq_ignore_ascii_case(b"master");
        matches!(self.conditions[..], [Condition::Type(kind)] if is_master(kind))
    }

    fn include(&self, info: &ClientInfo, now: Moment) -> bool {
        self.conditions.iter().all(|condition| match condition {
            Condition::Id(id) => info.id as i64 == *id,
            Condition::Address(address) => info.address.as_bytes() == *address,
            Condition::LocalAddress(address) => info.local_address.as_bytes() == *address,
            Condition::Type(kind) => is_of_type(info, kind) == Some(true),
            Condition::User(name) => info.user().as_bytes() == *name,
            Condition::MaxAge(seconds) => (now.since(info.created) / 1000) as i64 >= *seconds,
        })
    }
}

fn read_victims<'a>(
    args: Args<'a>,
    is_user: impl Fn(&[u8]) -> bool,
) -> Result<Victims<'a>, String> {
    let mut victims = Victims {
        conditions: Vec::new(),
        spares_me: true,
    };
    let mut at = 2;
    while at < args.len() {
        let Some(value) = args.get(at + 1) else {
            return Err(SYNTAX.into());
        };
        let condition = match &args[at].to_ascii_lowercase()[..] {
            b"id" => match parse_i64(value) {
                Some(id) if id > 0 => Condition::Id(id),
                _ => return Err("ERR client-id should be greater than 0".into()),
            },
            b"addr" => Condition::Address(value),
            b"laddr" => Condition::LocalAddress(value),
            b"type" => match &value.to_ascii_lowercase()[..] {
                b"normal" | b"pubsub" | b"master" | b"replica" | b"slave" => Condition::Type(value),
                _ => return Err(unknown_type(value)),
            },
            b"user" if is_user(value) => Condition::User(value),
            b"user" => {
                let name = String::from_utf8_lossy(value);
                return Err(format!("ERR No such user '{name}'"));
            }
            b"maxage" => match parse_i64(value) {
                Some(seconds) if seconds > 0 => Condition::MaxAge(seconds),
                Some(_) => return Err("ERR maxage should be greater than 0".into()),
                None => return Err("ERR maxage is not an integer or out of range".into()),
            },
            b"skipme" => {
                victims.spares_me = value.eq_ignore_ascii_case(b"yes");
                if !victims.spares_me && !value.eq_ignore_ascii_case(b"no") {
                    return Err(SYNTAX.into());
                }
                at += 2;
                continue;
            }
            _ => return Err(SYNTAX.into()),
        };
        victims.conditions.push(condition);
        at += 2;
    }
    Ok(victims)
}

fn kill(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    // The old form names one address and includes the calling client.
    let is_old = args.len() == 3;
    let victims = if is_old {
        Victims {
            conditions: vec![Condition::Address(&args[2])],
            spares_me: false,
        }
    } else {
        let is_user = |name: &[u8]| {
            let name = std::str::from_utf8(name);
            name.is_ok_and(|name| ctx.server.auth.acl.find(name).0.is_some())
        };
        match read_victims(args, is_user) {
            Ok(victims) => victims,
            Err(why) => return ctx.reply.error(&why),
        }
    };
    let now = ctx.server.clock.moment();
    let mut count = 0;
    for info in ctx.server.clients.registry.list() {
        let is_me = info.id == ctx.session.info.id;
        if (is_me && victims.spares_me) || !victims.include(&info, now) {
            continue;
        }
        count += i64::from(disconnect(ctx, &info));
    }
    if victims.are_primary() && ctx.server.replication.is_replica() {
        count += i64::from(role::reconnect(&ctx.server.replication));
    }
    match (is_old, count) {
        (false, count) => ctx.reply.integer(count),
        (true, 0) => ctx.reply.error("ERR No such client"),
        (true, _) => ctx.reply.ok(),
    }
}

/// Disconnects a client. Returns false if that was already requested.
pub(super) fn disconnect(ctx: &mut Ctx<'_, '_>, info: &Arc<ClientInfo>) -> bool {
    if info.id != ctx.session.info.id {
        return ctx.server.workers.disconnect(info);
    }
    // The connection closes after the reply.
    ctx.session.is_closing = true;
    info.kill()
}
