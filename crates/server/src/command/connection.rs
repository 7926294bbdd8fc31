//! Commands about the connection: PING, ECHO, SELECT, HELLO, AUTH, RESET, QUIT.

use super::table::commands;
use super::{tracking, transaction};
use crate::context::{Ctx, Run, Spec};
use crate::permission;
use crate::state::{Auth, Server};
use session::acl::log::{Context, Reason};
use session::acl::{Acl, DEFAULT};
use session::clients;
use session::clock::Clock;
use session::logins::{Admission, Failure};
use session::session::{ReplyMode, Session};
use session::spec::Keys;
use session::spec::flag::{
    FAST, LOADING, LOGIN, NO_AUTH, NO_PAUSE, NO_QUEUE, NOSCRIPT, SKIP_MONITOR, SKIP_SLOWLOG, STALE,
    SUBSCRIBER, UNBOUNDED,
};
use settings::Id;
use std::sync::atomic::Ordering::Relaxed;
use wire::number::parse_i64;
use wire::{Args, Protocol};

/// Flags of commands that are allowed at any time, also before AUTH.
const ALWAYS: u32 = FAST | LOADING | STALE | NOSCRIPT | NO_AUTH | SUBSCRIBER | NO_QUEUE | NO_PAUSE;

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "connection" [connection]:
    "ping" -1, FAST | SUBSCRIBER, Keys::None, "1.0.0", Run::any(ping),
        "[message]", "Returns PONG, or the given message.";
    "echo" 2, FAST | LOADING | STALE, Keys::None, "1.0.0", Run::any(echo),
        "message", "Returns the given string.";
    "select" 2, FAST | LOADING | STALE, Keys::None, "1.0.0", Run::any(select),
        "index", "Changes the selected database.";
    "hello" -1, FAST | LOADING | STALE | NOSCRIPT | NO_AUTH | SKIP_SLOWLOG | NO_PAUSE | LOGIN | SKIP_MONITOR,
        Keys::None, "6.0.0", Run::any(hello),
        "[protover [AUTH username password] [SETNAME clientname]]",
        "Selects the protocol version; optionally authenticates and names the connection.";
    "auth" -2, FAST | LOADING | STALE | NOSCRIPT | NO_AUTH | SKIP_SLOWLOG | NO_PAUSE | LOGIN | SKIP_MONITOR,
        Keys::None, "1.0.0", Run::any(auth),
        "[username] password", "Authenticates the connection.";
    "quit" -1, ALWAYS, Keys::None, "1.0.0", Run::any(quit),
        "", "Closes the connection.";
    "reset" 1, ALWAYS | UNBOUNDED, Keys::Watched, "6.2.0", Run::any(reset).resets(),
        "", "Resets the connection to its initial state.";
};

fn ping(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    if args.len() > 2 {
        return ctx
            .reply
            .error("ERR wrong number of arguments for 'ping' command");
    }
    if ctx.session.protocol == Protocol::Resp2 && ctx.session.is_subscriber() {
        ctx.reply.array(2);
        ctx.reply.bulk(b"pong");
        return ctx.reply.bulk(args.get(1).unwrap_or(b""));
    }
    match args.get(1) {
        None => ctx.reply.simple("PONG"),
        Some(text) => ctx.reply.bulk(text),
    }
}

fn echo(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    ctx.reply.bulk(&args[1]);
}

fn select(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let databases = ctx.server.data.engine().databases() as i64;
    let configured = ctx.server.config.number(Id::Databases);
    match parse_i64(&args[1]) {
        Some(db) if (0..databases).contains(&db) => {
            ctx.session.db = db as u8;
            ctx.reply.ok();
        }
        Some(db) if (0..configured).contains(&db) => ctx.reply.error(
            "ERR DB index is out of range: the segment engine has only database 0; select 0, for example with a URL that ends in /0, or start the server with --engine slab",
        ),
        Some(_) => ctx.reply.error("ERR DB index is out of range"),
        None => ctx
            .reply
            .error("ERR value is not an integer or out of range"),
    }
}

/// Result of an attempt to authenticate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Login {
    /// The client is logged in.
    Done,
    /// The user or the password is wrong.
    Wrong,
    /// Nothing was checked, because of failures from the same address.
    Refused,
}

impl Login {
    /// Returns the error to reply with, if any.
    fn error(self) -> Option<&'static str> {
        match self {
            Login::Done => None,
            Login::Wrong => Some(WRONG_PASS),
            Login::Refused => Some(TOO_MANY),
        }
    }
}

/// Checks a user's name and password, and logs the session in if they are correct. An attempt that
/// has not waited for as long as failures from its address require is refused, like those of a
/// transaction after its first one. `object` is the name of the command, for ACL LOG.
pub(crate) fn log_in(
    server: &Server,
    session: &mut Session,
    object: &[u8],
    user: &[u8],
    password: &[u8],
) -> Login {
    let is_admitted = std::mem::take(&mut session.is_login_admitted);
    let plan = || {
        let now = server.clock.moment();
        server.auth.logins.plan(&session.info.address, now)
    };
    if !is_admitted && plan() != Admission::Now {
        return Login::Refused;
    }
    match server.auth.acl.authenticate(user, password) {
        Some(user) => {
            session.log_in(user);
            Login::Done
        }
        None => {
            note_failure(&server.auth, &server.clock, session);
            let context = match session.runs_transaction {
                true => Context::Transaction,
                false => Context::TopLevel,
            };
            let event = (Reason::Authentication, context);
            permission::record(super::table(), server, session, event, object, user);
            Login::Wrong
        }
    }
}

/// Counts and logs a failed authentication, and delays further attempts from the address.
fn note_failure(auth: &Auth, clock: &Clock, session: &Session) {
    let (info, now) = (&session.info, clock.moment());
    let Failure { count, skipped } = auth.logins.fail(&info.address, now);
    let Some(skipped) = skipped else {
        return;
    };
    let more = match skipped {
        0 => String::new(),
        skipped => format!("; failures that were not logged since the last one: {skipped}"),
    };
    log::warn!(
        "client {} ({}) failed to authenticate; recent failures from its address: {count}{more}",
        info.id,
        info.address
    );
}

const WRONG_PASS: &str = "WRONGPASS invalid username-password pair or user is disabled.";

/// Error for attempts that are refused without a check.
const TOO_MANY: &str =
    "ERR too many failed authentications from this address, nothing was checked; try again later";

/// Returns the name of a command as sent by the client, or its own name if `rename-command` has
/// changed it.
fn own_name<'a>(args: Args<'a>, own: &'static str) -> &'a [u8] {
    match args.is(0, own) {
        true => args.name(),
        false => own.as_bytes(),
    }
}

/// Whether the default user has no password.
fn has_no_password(acl: &Acl) -> bool {
    let default = acl.find(DEFAULT).0;
    default.is_some_and(|user| user.has_no_password())
}

fn auth(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let (user, password) = match args.len() {
        2 if has_no_password(&ctx.server.auth.acl) => {
            return ctx.reply.error("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?");
        }
        2 => (DEFAULT.as_bytes(), &args[1]),
        3 => (&args[1], &args[2]),
        _ => return ctx.reply.error("ERR syntax error"),
    };
    let object = own_name(args, "auth");
    match log_in(ctx.server, ctx.session, object, user, password).error() {
        None => ctx.reply.ok(),
        Some(error) => ctx.reply.error(error),
    }
}

/// Options of HELLO after the protocol version.
struct Greeting<'a> {
    login: Option<(&'a [u8], &'a [u8])>,
    name: Option<&'a [u8]>,
}

fn read_greeting<'a>(args: Args<'a>) -> Result<Greeting<'a>, String> {
    let mut greeting = Greeting {
        login: None,
        name: None,
    };
    let mut at = 2;
    while at < args.len() {
        if args.is(at, "auth") && at + 2 < args.len() {
            greeting.login = args.get(at + 1).zip(args.get(at + 2));
            at += 3;
        } else if args.is(at, "setname") && at + 1 < args.len() {
            greeting.name = args.get(at + 1);
            at += 2;
        } else {
            let option = String::from_utf8_lossy(&args[at]);
            return Err(format!("ERR Syntax error in HELLO option '{option}'"));
        }
    }
    Ok(greeting)
}

fn hello(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let protocol = match args.get(1).map(parse_i64) {
        None => ctx.session.protocol,
        Some(Some(2)) => Protocol::Resp2,
        Some(Some(3)) => Protocol::Resp3,
        Some(Some(_)) => return ctx.reply.error("NOPROTO unsupported protocol version"),
        Some(None) => {
            return ctx
                .reply
                .error("ERR Protocol version is not an integer or out of range");
        }
    };
    let greeting = match read_greeting(args) {
        Ok(greeting) => greeting,
        Err(why) => return ctx.reply.error(&why),
    };
    if let Some((user, password)) = greeting.login
        && let object = own_name(args, "hello")
        && let Some(error) = log_in(ctx.server, ctx.session, object, user, password).error()
    {
        return ctx.reply.error(error);
    }
    if !ctx.session.may_pass(ctx.server.auth.needs_password()) {
        return ctx.reply.error("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time");
    }
    if let Some(name) = greeting.name
        && let Err(why) = super::client::set_name(ctx.session, name)
    {
        return ctx.reply.error(why);
    }
    set_protocol(ctx, protocol);
    introduce(ctx);
}

fn set_protocol(ctx: &mut Ctx<'_, '_>, protocol: Protocol) {
    ctx.session.protocol = protocol;
    ctx.reply.set_protocol(protocol);
    let number = if protocol == Protocol::Resp3 { 3 } else { 2 };
    ctx.session.info.resp.store(number, Relaxed);
}

/// Writes the reply of HELLO.
fn introduce(ctx: &mut Ctx<'_, '_>) {
    let is_resp3 = ctx.session.protocol == Protocol::Resp3;
    let reply = &mut ctx.reply;
    reply.map(7);
    reply.bulk(b"server");
    reply.bulk(b"redis");
    reply.bulk(b"version");
    reply.bulk(settings::version::REDIS_VERSION.as_bytes());
    reply.bulk(b"proto");
    reply.integer(if is_resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.integer(ctx.session.info.id as i64);
    reply.bulk(b"mode");
    reply.bulk(if ctx.server.config.is_cluster() {
        b"cluster"
    } else {
        b"standalone"
    });
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"modules");
    reply.array(0);
}

fn quit(ctx: &mut Ctx<'_, '_>, _args: Args<'_>) {
    ctx.session.is_closing = true;
    ctx.reply.ok();
}

fn reset(ctx: &mut Ctx<'_, '_>, _args: Args<'_>) {
    ctx.session.end_transaction();
    transaction::forget_watched(ctx);
    while !ctx.session.unsubscribe_some(&ctx.server.clients.pubsub) {}
    tracking::stop(ctx);
    ctx.session.fieldsets = None;
    ctx.session.db = 0;
    ctx.session.reply_mode = ReplyMode::On;
    ctx.session.log_out(&ctx.server.auth.acl);
    let bits = clients::flag::NO_EVICT | clients::flag::NO_TOUCH | clients::flag::READONLY;
    ctx.session.set_flag(bits, false);
    let info = &ctx.session.info;
    info.change_names(|names| names.name = String::new());
    set_protocol(ctx, Protocol::Resp2);
    ctx.reply.simple("RESET");
}
