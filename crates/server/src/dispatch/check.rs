//! Checks that hold for all commands: arity, authentication and the state of the session, and the
//! delay of attempts to authenticate.

use super::Executor;
use crate::acl::log::Context;
use crate::clock::Moment;
use crate::command;
use crate::command::permission::{check_session, is_allowed_on_key};
use crate::command::refusal::LOADING;
use crate::context::{Chosen, Spec};
use crate::session::Session;
use crate::spec::{Keys, flag};
use crate::state::Server;
use wire::{Args, Protocol};

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
        && !server.loading.is_on()
        && (session.has_all_rights(&server.acl)
            || is_allowed_on_key(server, session, chosen, args));
    if is_plain {
        return Ok(());
    }
    check_all(server, session, *chosen, *args)
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
    if !session.is_authenticated && !spec.has(flag::NO_AUTH) && server.needs_password() {
        return Err("NOAUTH Authentication required.".into());
    }
    let context = match session.transaction {
        Some(_) => Context::Transaction,
        None => Context::TopLevel,
    };
    if let Err(denied) = check_session(server, session, chosen, args, context) {
        let text = denied.text(&session.user, chosen, args, false);
        return Err(format!("NOPERM {text}"));
    }
    if spec.has(flag::PROTECTED) && !command::debug::is_allowed(server, session) {
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
    if server.loading.is_on() && !runs_during_load(session, spec) {
        return Err(LOADING.into());
    }
    Ok(())
}

/// Whether a command may run while a file is loaded. EXEC may if each of its commands may.
fn runs_during_load(session: &Session, spec: &Spec) -> bool {
    let queued = session.transaction.iter().flat_map(|queue| queue.iter());
    let mut specs = queued.map(|(index, _)| command::table()[index as usize]);
    spec.has(flag::LOADING)
        && (spec.keys != Keys::Queued || specs.all(|spec| spec.has(flag::LOADING)))
}

impl Executor<'_> {
    /// Returns the time until which an attempt to authenticate waits. A time that was returned once
    /// is not postponed by later failures of other clients.
    pub(super) fn login_delay(&self, session: &mut Session, args: Args<'_>) -> Option<Moment> {
        let is_attempt = args.name().eq_ignore_ascii_case(b"auth") || args.len() > 2;
        if !is_attempt {
            return None;
        }
        match session.login_at {
            Some(at) if at > self.moment => Some(at),
            Some(_) => {
                session.login_at = None;
                None
            }
            None => {
                let logins = &self.server.logins;
                session.login_at = logins.delay(&session.info.address, self.moment);
                session.login_at
            }
        }
    }
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
