//! Checks a call against the rights of its user: the command, its keys and its channels.

use crate::context::{Chosen, Table};
use crate::state::Server;
use session::acl::log::{Context, Event, Reason};
use session::acl::{READ, Selector, User, WRITE};
use session::session::Session;
use session::spec::{Access, Channels, Keys, Use, flag, usage};
use settings::Id;
use wire::Args;

/// Reason why a call is denied. If no selector allows the call, the greatest of their reasons is
/// reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denied {
    /// The command.
    Command,
    /// The key that is the argument with this index.
    Key(usize),
    /// The channel that is the argument with this index.
    Channel(usize),
}

impl Denied {
    /// Describes the reason. If `names` is true, the text names the key or the channel.
    pub fn text(self, user: &User, chosen: Chosen, args: Args<'_>, names: bool) -> String {
        let user = user.name();
        let (at, kind) = match self {
            Denied::Command => {
                let name = name_of(chosen);
                return format!("User {user} has no permissions to run the '{name}' command");
            }
            Denied::Key(at) => (at, "key"),
            Denied::Channel(at) => (at, "channel"),
        };
        if !names {
            return format!("No permissions to access a {kind}");
        }
        let name = String::from_utf8_lossy(&args[at]);
        format!("User {user} has no permissions to access the '{name}' {kind}")
    }

    /// Describes the reason for a command that was allowed when its transaction queued it.
    pub fn text_in_transaction(self) -> String {
        let what = match self {
            Denied::Command => "no permission to execute the command or subcommand",
            Denied::Key(_) => "no permission to touch the specified keys",
            Denied::Channel(_) => {
                "no permission to access one of the channels used as arguments to the command"
            }
        };
        format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: {what}"
        )
    }
}

/// Returns the full name of the command with its subcommand.
fn name_of(chosen: Chosen) -> &'static str {
    chosen
        .subcommand
        .map_or(chosen.spec.name, |(_, subcommand)| subcommand.name)
}

/// Checks a call of a session, and records it in ACL LOG if it is denied.
///
/// # Errors
/// Returns the reason why the session's user may not make the call.
#[inline]
pub fn check_session(
    table: &Table,
    server: &Server,
    session: &mut Session,
    chosen: Chosen,
    args: Args<'_>,
    context: Context,
) -> Result<(), Denied> {
    if session.has_all_rights(&server.auth.acl) {
        return Ok(());
    }
    session.refresh(&server.auth.acl);
    let result = check(&session.user, chosen, args);
    if let Err(denied) = result {
        note(table, server, session, chosen, args, context, denied);
    }
    result
}

/// Checks the rights of a session's user to a call.
///
/// # Errors
/// The error to reply with.
pub fn check_rights(
    table: &Table,
    server: &Server,
    session: &mut Session,
    chosen: Chosen,
    args: Args<'_>,
    context: Context,
) -> Result<(), String> {
    check_session(table, server, session, chosen, args, context).map_err(|denied| {
        let text = denied.text(&session.user, chosen, args, false);
        format!("NOPERM {text}")
    })
}

#[cold]
fn note(
    table: &Table,
    server: &Server,
    session: &Session,
    chosen: Chosen,
    args: Args<'_>,
    context: Context,
    denied: Denied,
) {
    let (reason, object) = match denied {
        Denied::Command => (Reason::Command, name_of(chosen).as_bytes()),
        Denied::Key(at) => (Reason::Key, &args[at]),
        Denied::Channel(at) => (Reason::Channel, &args[at]),
    };
    let user = session.user.name().as_bytes();
    record(table, server, session, (reason, context), object, user);
}

/// Records an event in ACL LOG.
pub fn record(
    table: &Table,
    server: &Server,
    session: &Session,
    (reason, context): (Reason, Context),
    object: &[u8],
    user: &[u8],
) {
    let now = server.clock.moment();
    let name = |index| table.name(index);
    let event = Event {
        reason,
        context,
        object,
        user,
        client: session.info.line(now, name),
        now_ms: server.clock.now().0,
    };
    let len_max = server.config.number(Id::AclLogMaxLen) as usize;
    server.auth.acl.log.add(event, len_max);
}

/// Checks a call against a user's rights.
///
/// # Errors
/// Returns the reason why the user may not make the call.
pub fn check(user: &User, chosen: Chosen, args: Args<'_>) -> Result<(), Denied> {
    if user.is_unrestricted() {
        return Ok(());
    }
    let mut reason = Denied::Command;
    for selector in user.selectors() {
        match check_selector(selector, chosen, args) {
            Ok(()) => return Ok(()),
            Err(denied) => reason = reason.max(denied),
        }
    }
    Err(reason)
}

/// Whether the user may make the call, and read every key by the same selector. SORT needs that for
/// the keys that its patterns name.
pub fn may_read_all(user: &User, chosen: Chosen, args: Args<'_>) -> bool {
    user.selectors().any(|selector| {
        selector.allows_reading_all() && check_selector(selector, chosen, args).is_ok()
    })
}

fn check_selector(selector: &Selector, chosen: Chosen, args: Args<'_>) -> Result<(), Denied> {
    let index = chosen.subcommand.map_or(chosen.index, |(index, _)| index);
    let flags = chosen.flags();
    if flags & flag::NO_AUTH == 0 && !selector.allows_command(index, args.get(1)) {
        return Err(Denied::Command);
    }
    if !selector.allows_all_keys() {
        check_keys(selector, chosen, args)?;
    }
    if flags & flag::PUBSUB != 0 && !selector.allows_all_channels() {
        return check_channels(selector, chosen.access(), args);
    }
    Ok(())
}

fn check_keys(selector: &Selector, chosen: Chosen, args: Args<'_>) -> Result<(), Denied> {
    let keys = chosen
        .subcommand
        .map_or(chosen.spec.keys, |(_, subcommand)| subcommand.keys);
    if selector.has_full_patterns() {
        let mut result = Ok(());
        keys.each(args, |at| {
            if result.is_ok() && !selector.allows_key(&args[at], 0) {
                result = Err(Denied::Key(at));
            }
        });
        return result;
    }
    let [first, further] = rights_of(chosen, args);
    let mut place = 0;
    let mut result = Ok(());
    keys.each(args, |at| {
        // The destination may come before the first key in the order of `each`.
        let is_first = match keys {
            Keys::Sort | Keys::FirstAndStored(_) => at == 1,
            _ => place == 0,
        };
        place += 1;
        let rights = if is_first { first } else { further };
        if result.is_ok() && !selector.allows_key(&args[at], rights) {
            result = Err(Denied::Key(at));
        }
    });
    result
}

/// Returns the rights that a call needs on its first and its further keys.
fn rights_of(chosen: Chosen, args: Args<'_>) -> [u8; 2] {
    let Some(access) = chosen.access() else {
        return [READ | WRITE; 2];
    };
    let Access { first, further, .. } = access.of_call(args);
    [first, further.unwrap_or(first)].map(rights_in)
}

/// Returns the rights that a use of a key needs. One that returns only whether a key exists, or its
/// type or length, needs none.
fn rights_in(used: Use) -> u8 {
    let mut rights = 0;
    if used & usage::ACCESS != 0 {
        rights |= READ;
    }
    if used & (usage::UPDATE | usage::INSERT | usage::DELETE) != 0 {
        rights |= WRITE;
    }
    rights
}

fn check_channels(
    selector: &Selector,
    access: Option<Access>,
    args: Args<'_>,
) -> Result<(), Denied> {
    let (last, is_pattern) = match access.map_or(Channels::None, |access| access.channels) {
        Channels::None => return Ok(()),
        Channels::First => (2, false),
        Channels::Each => (args.len(), false),
        Channels::EachPattern => (args.len(), true),
    };
    let is_denied = |at: &usize| !selector.allows_channel(&args[*at], is_pattern);
    match (1..last).find(is_denied) {
        Some(at) => Err(Denied::Channel(at)),
        None => Ok(()),
    }
}
