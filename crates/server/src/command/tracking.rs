//! The subcommands of CLIENT for caches of clients (TRACKING, CACHING, TRACKINGINFO, GETREDIR), and
//! MONITOR.

use super::table::commands;
use crate::context::{Chosen, Ctx, Run, Spec};
use crate::state::{Clients, Server, Workers};
use engine::refusal::OUT_OF_MEMORY;
use session::inbox::Inbox;
use session::monitor::Monitors;
use session::session::Session;
use session::spec::Keys;
use session::spec::flag::{ADMIN, LOADING, NO_MULTI, NOSCRIPT, READONLY, SKIP_MONITOR, STALE};
use session::tracking::{Mode, PREFIXES_MAX, TrackingOptions};
use session::{clients, monitor};
use settings::{Config, Id};
use std::sync::Arc;
use store::{Keyspace, Tick, View};
use wire::Args;
use wire::number::parse_i64;

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "server" []:
    "monitor" 1, ADMIN | NOSCRIPT | LOADING | STALE | NO_MULTI, Keys::None, "1.0.0", Run::any(monitor),
        "", "Sends a line for each executed command.";
};

const SYNTAX: &str = "ERR syntax error";

/// CLIENT TRACKING.
pub(super) fn tracking(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    if ctx.server.data.segments.is_some() {
        return ctx.reply.error(
            "ERR CLIENT TRACKING is not served by the segment engine; start with --engine slab",
        );
    }
    let options = match read_tracking(ctx, args) {
        Ok(Some(_)) if ctx.server.data.keyspace.is_outside_full() => {
            return ctx.reply.error(OUT_OF_MEMORY);
        }
        Ok(options) => options,
        Err(why) => return ctx.reply.error(&why),
    };
    set(ctx, options);
    ctx.reply.ok();
}

/// Switches tracking of a session on with these options, or off.
fn set(ctx: &mut Ctx<'_, '_>, options: Option<TrackingOptions>) {
    ctx.session.tracking = options.clone().map(Box::new);
    let info = Arc::clone(&ctx.session.info);
    ctx.unlocked(|server| register(&server.clients, &server.data.keyspace, &info, options));
}

fn register(
    clients: &Clients,
    keyspace: &Keyspace,
    info: &Arc<clients::ClientInfo>,
    options: Option<TrackingOptions>,
) {
    let apply = |state| keyspace.set_tracking(state);
    clients.tracking.set(info, options, apply);
}

/// Switches a session's tracking off, if it is on. `ctx` belongs to RESET.
pub(super) fn stop(ctx: &mut Ctx<'_, '_>) {
    if ctx.session.tracking.is_some() {
        set(ctx, None);
    }
    stop_monitor(&ctx.server.clients.monitors, ctx.session);
}

/// Removes a client that disconnects. No shard may be locked.
pub fn forget(clients: &Clients, keyspace: &Keyspace, session: &mut Session) {
    if session.tracking.take().is_some() {
        register(clients, keyspace, &session.info, None);
    }
    stop_monitor(&clients.monitors, session);
}

/// Reads the arguments of CLIENT TRACKING. `None` means off.
fn read_tracking(ctx: &Ctx<'_, '_>, args: Args<'_>) -> Result<Option<TrackingOptions>, String> {
    let mut options = TrackingOptions::default();
    let (mut is_broadcast, mut is_opt_in, mut is_opt_out) = (false, false, false);
    let mut at = 3;
    while let Some(word) = args.get(at) {
        match &word.to_ascii_lowercase()[..] {
            b"redirect" if at + 1 < args.len() => {
                at += 1;
                if options.redirect != 0 {
                    return Err("ERR A client can only redirect to a single other client".into());
                }
                options.redirect = read_redirect(ctx, &args[at])?;
            }
            b"bcast" => is_broadcast = true,
            b"optin" => is_opt_in = true,
            b"optout" => is_opt_out = true,
            b"noloop" => options.is_noloop = true,
            b"prefix" if at + 1 < args.len() => {
                at += 1;
                if options.prefixes.len() == PREFIXES_MAX {
                    return Err(too_many_prefixes());
                }
                options.prefixes.push(args[at].to_vec());
            }
            _ => return Err(SYNTAX.into()),
        }
        at += 1;
    }
    match &args[2].to_ascii_lowercase()[..] {
        b"on" => {}
        b"off" => return Ok(None),
        _ => return Err(SYNTAX.into()),
    }
    if !is_broadcast && !options.prefixes.is_empty() {
        return Err("ERR PREFIX option requires BCAST mode to be enabled".into());
    }
    if is_broadcast && (is_opt_in || is_opt_out) {
        return Err("ERR OPTIN and OPTOUT are not compatible with BCAST".into());
    }
    if is_opt_in && is_opt_out {
        return Err("ERR You can't specify both OPTIN mode and OPTOUT mode".into());
    }
    options.mode = match (is_broadcast, is_opt_in, is_opt_out) {
        (true, ..) => Mode::Broadcast,
        (_, true, _) => Mode::OptIn,
        (_, _, true) => Mode::OptOut,
        _ => Mode::Reads,
    };
    if let Some(before) = ctx.session.tracking.as_deref() {
        check_switch(before, &options)?;
        // Further prefixes are added to those of earlier calls. Without one, all keys are included.
        if !options.prefixes.is_empty() {
            options.prefixes.extend_from_slice(&before.prefixes);
        }
    }
    if options.mode == Mode::Broadcast {
        check_prefixes(&mut options.prefixes)?;
    }
    Ok(Some(options))
}

fn read_redirect(ctx: &Ctx<'_, '_>, id: &[u8]) -> Result<u64, String> {
    let id = parse_i64(id).ok_or("ERR value is not an integer or out of range")?;
    let found = u64::try_from(id).ok().filter(|id| {
        let is_known = *id == ctx.session.info.id || ctx.server.clients.registry.get(*id).is_some();
        *id != 0 && is_known
    });
    found.ok_or_else(|| "ERR The client ID you want redirect to does not exist".into())
}

/// Checks that a client that tracks already does not change its mode.
fn check_switch(before: &TrackingOptions, after: &TrackingOptions) -> Result<(), String> {
    let broadcasts = |options: &TrackingOptions| options.mode == Mode::Broadcast;
    let what = if broadcasts(before) != broadcasts(after) {
        "BCAST mode on/off"
    } else if before.mode != after.mode {
        "OPTIN/OPTOUT mode"
    } else {
        return Ok(());
    };
    Err(format!(
        "ERR You can't switch {what} before disabling tracking for this client, and then re-enabling it with a different mode."
    ))
}

/// Sorts prefixes, and rejects them if any begins with or equals another.
fn check_prefixes(prefixes: &mut Vec<Vec<u8>>) -> Result<(), String> {
    if prefixes.is_empty() {
        prefixes.push(Vec::new());
    }
    prefixes.sort_unstable();
    // After sorting, a prefix of another one stands directly before one that begins with it.
    match prefixes.windows(2).find(|two| two[1].starts_with(&two[0])) {
        None if prefixes.len() > PREFIXES_MAX => Err(too_many_prefixes()),
        None => Ok(()),
        Some(two) => {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            Err(format!(
                "ERR Prefix '{}' overlaps with an existing prefix '{}'. Prefixes for a single client must not overlap.",
                text(&two[1]),
                text(&two[0])
            ))
        }
    }
}

fn too_many_prefixes() -> String {
    format!("ERR A client can have at most {PREFIXES_MAX} prefixes")
}

/// CLIENT CACHING.
pub(super) fn caching(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let Some(tracking) = ctx
        .session
        .tracking
        .as_deref_mut()
        .filter(|tracking| matches!(tracking.mode, Mode::OptIn | Mode::OptOut))
    else {
        return ctx.reply.error("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled");
    };
    let (is_on, mode, name) = if args.is(2, "yes") {
        (true, Mode::OptIn, "OPTIN")
    } else if args.is(2, "no") {
        (false, Mode::OptOut, "OPTOUT")
    } else {
        return ctx.reply.error(SYNTAX);
    };
    if tracking.mode != mode {
        let word = if is_on { "YES" } else { "NO" };
        return ctx.reply.error(&format!(
            "ERR CLIENT CACHING {word} is only valid when tracking is enabled in {name} mode."
        ));
    }
    tracking.caching = Some(is_on);
    ctx.reply.ok();
}

/// CLIENT GETREDIR.
pub(super) fn redirection(ctx: &mut Ctx<'_, '_>) {
    let tracking = ctx.session.tracking.as_deref();
    ctx.reply
        .integer(tracking.map_or(-1, |tracking| tracking.redirect as i64));
}

/// CLIENT TRACKINGINFO.
pub(super) fn describe(ctx: &mut Ctx<'_, '_>) {
    let tracking = ctx.session.tracking.as_deref().cloned();
    let mut flags = Vec::new();
    match &tracking {
        None => flags.push("off"),
        Some(tracking) => {
            flags.push("on");
            match tracking.mode {
                Mode::Reads => {}
                Mode::OptIn => flags.push("optin"),
                Mode::OptOut => flags.push("optout"),
                Mode::Broadcast => flags.push("bcast"),
            }
            match tracking.caching {
                Some(true) => flags.push("caching-yes"),
                Some(false) => flags.push("caching-no"),
                None => {}
            }
            if tracking.is_noloop {
                flags.push("noloop");
            }
            if ctx.session.has_flag(clients::flag::BROKEN_REDIRECT) {
                flags.push("broken_redirect");
            }
        }
    }
    let reply = &mut ctx.reply;
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"redirect");
    let redirect = tracking.as_ref().map_or(-1, |t| t.redirect as i64);
    reply.integer(redirect);
    reply.bulk(b"prefixes");
    let prefixes = tracking.map_or_else(Vec::new, |tracking| tracking.prefixes);
    reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| reply.bulk(prefix));
}

/// Records the keys that a command has read, for a client that tracks keys.
pub fn remember(ctx: &mut Ctx<'_, '_>, spec: &Spec, args: Args<'_>) {
    let is_tracked = |tracking: &TrackingOptions| tracking.tracks_reads();
    // A script that only reads has recorded the keys that its commands have read.
    let is_script = matches!(spec.keys, Keys::Script(_));
    if is_script || !spec.has(READONLY) || !ctx.session.tracking.as_deref().is_some_and(is_tracked)
    {
        return;
    }
    let (id, db) = (ctx.session.info.id, ctx.session.db);
    remember_keys(
        &ctx.server.clients,
        &ctx.server.config,
        &ctx.server.data.keyspace,
        &mut ctx.view,
        (id, db),
        spec.keys,
        args,
    );
}

/// Records the keys that a client with this id and database has read.
pub fn remember_keys(
    clients: &Clients,
    config: &Config,
    keyspace: &Keyspace,
    view: &mut View<'_>,
    (id, db): (u64, u8),
    keys: Keys,
    args: Args<'_>,
) {
    let keys_max = keys_max(config);
    let is_connected = |id: u64| clients.registry.get(id).is_some();
    keys.each(args, |index| {
        let key = keyspace.key(db, &args[index]);
        view.track(&key, id, keys_max, &is_connected);
    });
}

/// Returns the maximum number of tracked keys.
fn keys_max(config: &Config) -> usize {
    match config.number(Id::TrackingTableMaxKeys) {
        0 => usize::MAX,
        keys_max => keys_max as usize,
    }
}

/// Maximum number of excess keys of a shard that are invalidated per call.
const EXCESS_PER_CALL: usize = 1024;

/// Invalidates tracked keys of a shard that exceed `tracking-table-max-keys`, which CONFIG SET may
/// have reduced. If another thread holds the shard, the next call does it.
pub fn limit(
    clients: &Clients,
    workers: &Workers,
    config: &Config,
    keyspace: &Keyspace,
    shard: usize,
    now: Tick,
) {
    if let Some(mut view) = keyspace.try_lock_one(shard, now) {
        view.limit_tracked(keys_max(config), EXCESS_PER_CALL);
        if view.has_invalidated() {
            send(clients, &workers.inboxes, &mut view, 0);
        }
    }
}

/// Ends the effect of CLIENT CACHING after a command, except within a transaction.
#[cold]
pub fn end_command(session: &mut Session, spec: &Spec) {
    if session.transaction.is_none()
        && spec.name != "client"
        && let Some(tracking) = session.tracking.as_deref_mut()
    {
        tracking.caching = None;
    }
}

/// Sends the invalidations queued by the locked shards. `writer` is the client whose command caused
/// them, or 0.
#[cold]
pub fn send(clients: &Clients, inboxes: &[Inbox], view: &mut View<'_>, writer: u64) {
    let mut invalidations = Vec::new();
    view.take_invalidations(&mut invalidations);
    if !invalidations.is_empty() {
        let tracking = &clients.tracking;
        tracking.send(inboxes, &clients.registry, &invalidations, writer);
    }
}

fn monitor(ctx: &mut Ctx<'_, '_>, _args: Args<'_>) {
    let bit = clients::flag::MONITOR;
    if !ctx.session.has_flag(bit) {
        ctx.session.set_flag(bit, true);
        ctx.server.clients.monitors.add(ctx.session.subscriber());
    }
    ctx.reply.ok();
}

fn stop_monitor(monitors: &Monitors, session: &Session) {
    if session.has_flag(clients::flag::MONITOR) {
        session.set_flag(clients::flag::MONITOR, false);
        monitors.remove(session.subscriber());
    }
}

/// Shows a command to the monitoring clients before it runs, except commands for administrators and
/// those with passwords. EXEC shows itself after the commands of its transaction.
#[cold]
pub fn show(server: &Server, session: &Session, by_script: bool, chosen: Chosen, args: Args<'_>) {
    if chosen.flags() & (ADMIN | SKIP_MONITOR) == 0 {
        send_line(server, session, by_script, args);
    }
}

/// Sends the line of a command to the monitoring clients. A command of a script has `lua` in place
/// of an address.
#[cold]
pub(super) fn send_line(server: &Server, session: &Session, by_script: bool, args: Args<'_>) {
    let now_us = server.clock.now_us();
    let source = match by_script {
        true => "lua",
        false => &session.info.address,
    };
    let line = monitor::line(now_us, session.db.into(), source, args);
    server.clients.monitors.send(&server.workers.inboxes, line);
}
