//! Checks that hold for all commands: arity, authentication and the state of the session, and the
//! delay of attempts to authenticate.

use super::Executor;
use super::steps::checked_at_once;
use crate::command;
use crate::context::{Chosen, Spec, Work};
use crate::permission::check_rights;
use crate::state::Server;
use engine::refusal::{LOADING, NO_PRIMARY};
use session::acl::log::Context;
use session::clock::Moment;
use session::logins::Admission;
use session::session::Session;
use session::spec::{Keys, flag};
use settings::Id;
use std::sync::atomic::Ordering::Relaxed;
use wire::{Args, Protocol, Reply};

/// Maximum number of keys of a command that can block. The client's wait is added to the queues of
/// all keys in one step, and removed in one.
pub const BLOCKING_KEYS_MAX: usize = 4096;
/// Maximum number of arguments of a command without keys that does not run in steps.
pub const KEYLESS_ARGUMENTS_MAX: usize = 16_384;
/// Maximum number of arguments of the commands that compare each of them with all settings,
/// commands or clients.
const COSTLY: &[(&str, usize)] = &[
    ("client|kill", 128),
    ("command|docs", 512),
    ("command|info", 512),
    ("config|get", 256),
    ("latency|histogram", 512),
];
/// Number of arguments up to which these limits need not be checked, except for containers.
const ARGUMENTS_MANY: usize = 4096;

/// Checks the conditions that every command must meet before it runs or is queued: arity,
/// authentication, the rights of the user, and the state of the session.
#[inline(always)]
pub(super) fn check(
    server: &Server,
    session: &mut Session,
    chosen: &Chosen,
    args: &Args<'_>,
) -> Result<(), String> {
    const RARE: u32 = flag::CONTAINER | flag::PROTECTED;
    let is_plain = session.subscriptions.is_none()
        && chosen.spec.flags & RARE == 0
        && chosen.spec.accepts(args.len())
        && args.len() <= ARGUMENTS_MANY
        && !server.persistence.loading.is_on()
        && !server.replication.is_stale()
        && (session.has_all_rights(&server.auth.acl)
            || session.has_current_user(&server.auth.acl)
                && session.is_allowed_at_once(chosen.index, args));
    if is_plain {
        return Ok(());
    }
    check_all(server, session, *chosen, *args)
}

/// Replies with the reason why a command is refused. An open transaction then cannot run. EXEC ends
/// it, as in Redis, because a client that has sent EXEC does not expect its next commands to be
/// queued.
#[cold]
pub(super) fn refuse(
    server: &Server,
    session: &mut Session,
    spec: &Spec,
    why: &str,
    reply: &mut Reply<'_>,
) {
    if spec.keys != Keys::Queued {
        session.break_transaction();
        return reply.error(why);
    }
    discard(server, session);
    let why = why.strip_prefix("ERR ").unwrap_or(why);
    reply.error(&format!(
        "EXECABORT Transaction discarded because of: {why}"
    ));
}

/// Ends a transaction that is not executed. The caller holds no shard.
pub(super) fn discard(server: &Server, session: &mut Session) {
    session.end_transaction();
    // No shard is locked here. Until the keys are removed, they set a flag that is not used again.
    let (watched, is_dirty) = (
        session.take_watched(),
        std::mem::take(&mut session.is_dirty),
    );
    if !watched.is_empty() {
        server.clients.watches.forget(watched, &is_dirty);
    }
    session.info.watched.store(0, Relaxed);
}

#[inline(never)]
fn check_all(
    server: &Server,
    session: &mut Session,
    chosen: Chosen,
    args: Args<'_>,
) -> Result<(), String> {
    let spec = chosen.spec;
    let wrong_arity = |name: &str| format!("ERR wrong number of arguments for '{name}' command");
    match chosen.subcommand {
        _ if !spec.accepts(args.len()) => return Err(wrong_arity(spec.name)),
        Some((_, subcommand)) if !subcommand.accepts(args.len()) => {
            return Err(wrong_arity(subcommand.name));
        }
        None if chosen.is_unknown => return Err(unknown_subcommand(spec, args)),
        _ => {}
    }
    if args.len() > ARGUMENTS_MANY || spec.has(flag::CONTAINER) {
        check_count(chosen, args)?;
    }
    if !session.is_authenticated && !spec.has(flag::NO_AUTH) && server.auth.needs_password() {
        return Err("NOAUTH Authentication required.".into());
    }
    let context = match session.transaction {
        Some(_) => Context::Transaction,
        None => Context::TopLevel,
    };
    check_rights(
        command::table(),
        server,
        session,
        chosen,
        checked_at_once(spec, args),
        context,
    )?;
    if spec.has(flag::PROTECTED) && !command::debug::is_allowed(&server.config, session) {
        return Err(command::debug::NOT_ALLOWED.into());
    }
    if session.protocol == Protocol::Resp2
        && session.subscriptions.is_some()
        && !spec.has(flag::SUBSCRIBER)
        && session.is_subscriber()
    {
        return Err(format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
            spec.name
        ));
    }
    if server.persistence.loading.is_on() && !runs_with(flag::LOADING, session, chosen) {
        return Err(LOADING.into());
    }
    if server.replication.is_stale()
        && !server.config.is_on(Id::ReplicaServeStale)
        && !runs_with(flag::STALE, session, chosen)
    {
        return Err(NO_PRIMARY.into());
    }
    Ok(())
}

/// Checks the bounds of commands that are one step and access many names.
#[cold]
fn check_count(chosen: Chosen, args: Args<'_>) -> Result<(), String> {
    let spec = chosen.spec;
    let name = chosen.subcommand.map_or(spec.name, |(_, own)| own.name);
    if spec.has(flag::BLOCKING) && spec.keys.count(args) > BLOCKING_KEYS_MAX {
        return Err(format!(
            "ERR '{name}' accepts at most {BLOCKING_KEYS_MAX} keys"
        ));
    }
    let is_one_step = !matches!(spec.run.work, Work::Confirmed | Work::Unsubscribes(_));
    let costly = COSTLY.iter().find(|(costly, _)| *costly == name);
    let count_max = costly.map_or(KEYLESS_ARGUMENTS_MAX, |(_, count_max)| *count_max);
    if spec.keys == Keys::None && is_one_step && args.len() > count_max {
        return Err(format!(
            "ERR '{name}' accepts at most {count_max} arguments"
        ));
    }
    Ok(())
}

/// Whether a command has a flag. EXEC has it if each of its commands does.
fn runs_with(flag: u32, session: &Session, chosen: Chosen) -> bool {
    let queued = session.transaction.iter().flat_map(|queue| queue.iter());
    let mut flags = queued.map(|(index, args)| command::table().choose(index, args).flags());
    chosen.flags() & flag != 0
        && (chosen.spec.keys != Keys::Queued || flags.all(|flags| flags & flag != 0))
}

impl Executor<'_> {
    /// Returns the time until which an attempt to authenticate waits. A time that was returned once
    /// is not postponed by later failures of other clients.
    pub(super) fn login_delay(&self, session: &mut Session) -> Option<Moment> {
        match session.login_at {
            Some(at) if at > self.moment => return Some(at),
            Some(_) => {
                session.login_at = None;
                session.is_login_admitted = true;
            }
            None => match self
                .server
                .auth
                .logins
                .plan(&session.info.address, self.moment)
            {
                Admission::Now => session.is_login_admitted = true,
                Admission::At(at) => session.login_at = Some(at),
                // The attempt runs and is refused.
                Admission::Refused => session.is_login_admitted = false,
            },
        }
        session.login_at
    }
}

/// Whether a command that may authenticate the client does so. HELLO does it with a user and a
/// password only.
pub(super) fn is_login(spec: &Spec, args: Args<'_>) -> bool {
    spec.name != "hello" || (2..args.len()).any(|at| args.is(at, "auth"))
}

/// Describes the missing feature if Redis has a command that is not served.
fn not_served(name: &str) -> Option<&'static str> {
    match name {
        "migrate" => Some("moving keys between servers is"),
        _ => None,
    }
}

/// Formats the error for an unknown subcommand as Redis does.
fn unknown_subcommand(spec: &Spec, args: Args<'_>) -> String {
    let word = &args[1][..args[1].len().min(128)];
    let word = String::from_utf8_lossy(word);
    let container = spec.name.to_ascii_uppercase();
    format!("ERR unknown subcommand '{word}'. Try {container} HELP.")
}

/// Formats the error for an unknown command as Redis does, with the beginning of its arguments.
pub(super) fn unknown_command(args: Args<'_>) -> String {
    let name = String::from_utf8_lossy(&args[0][..args[0].len().min(128)]).into_owned();
    if let Some(what) = not_served(&name.to_ascii_lowercase()) {
        return format!("ERR unknown command '{name}': {what} not served yet");
    }
    let mut text = format!("ERR unknown command '{name}', with args beginning with: ");
    let head = text.len();
    for arg in args.from(1).iter() {
        let room = (head + 128).saturating_sub(text.len());
        if room == 0 {
            break;
        }
        let shown = String::from_utf8_lossy(&arg[..arg.len().min(room)]).into_owned();
        text.push_str(&format!("'{shown}' "));
    }
    text
}
