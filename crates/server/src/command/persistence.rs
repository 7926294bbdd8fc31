//! Commands that save all keys: SAVE, BGSAVE, BGREWRITEAOF, LASTSAVE, and SHUTDOWN, which may save
//! them.

use super::table::commands;
use crate::aof::work as aof;
use crate::context::{Ctx, Run, Spec};
use crate::restart::work as restart;
use crate::saving::work;
use durability::restart::Request;
use durability::saving::{Then, Waiting};
use session::message::Subscriber;
use session::spec::Keys;
use session::spec::flag::{ADMIN, FAST, LOADING, NO_MULTI, NO_PAUSE, NOSCRIPT, STALE};
use session::waiting::BlockingState;
use std::sync::atomic::Ordering::Relaxed;
use wire::Args;

const ADMIN_ALWAYS: u32 = ADMIN | NOSCRIPT | LOADING | STALE;

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "server" []:
    "save" 1, ADMIN | NOSCRIPT | NO_MULTI, Keys::None, "1.0.0", Run::any(save),
        "",
        "Writes all keys to the snapshot file and waits until it is complete. Other clients are served meanwhile.";
    "bgsave" -1, ADMIN | NOSCRIPT, Keys::None, "1.0.0", Run::any(background_save),
        "[SCHEDULE | CANCEL]", "Writes all keys to the snapshot file in the background.";
    "bgrewriteaof" 1, ADMIN | NOSCRIPT, Keys::None, "1.0.0", Run::any(rewrite),
        "", "Rewrites the append-only file in the background.";
    "lastsave" 1 [admin dangerous], LOADING | STALE | FAST, Keys::None, "1.0.0", Run::any(last_save),
        "", "Returns the time of the last complete snapshot, or of the server's start.";
    "shutdown" -1, ADMIN_ALWAYS | NO_MULTI | NO_PAUSE, Keys::None, "1.0.0", Run::any(shutdown),
        "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
        "Stops the server, after a snapshot if save points are set. With RESTART, executes the program again with the same keys and listening sockets.";
};

/// Returns the client as the receiver of a later reply.
fn waiting(ctx: &Ctx<'_, '_>) -> Waiting {
    Waiting {
        client: Subscriber::of(&ctx.session.info),
        protocol: ctx.session.protocol,
    }
}

fn save(ctx: &mut Ctx<'_, '_>, _args: Args<'_>) {
    let then = Then::Reply(waiting(ctx));
    match work::request(ctx.server, "SAVE".to_owned(), then) {
        Ok(()) => ctx.session.blocking_state = BlockingState::RunsLong,
        Err(error) => ctx.reply.error(error),
    }
}

fn background_save(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let server = ctx.server;
    if args.len() == 2 && args.is(1, "cancel") {
        return match work::cancel(server) {
            Ok(true) => ctx.reply.simple("Background saving cancelled"),
            Ok(false) => ctx.reply.simple("Scheduled background saving cancelled"),
            Err(error) => ctx.reply.error(error),
        };
    }
    // SCHEDULE defers a snapshot until a rewrite of the append-only file has ended. A snapshot
    // never waits for one here.
    if args.len() > 1 && !(args.len() == 2 && args.is(1, "schedule")) {
        return ctx.reply.error("ERR syntax error");
    }
    match work::request(server, "BGSAVE".to_owned(), Then::Nothing) {
        Ok(()) => ctx.reply.simple("Background saving started"),
        Err(error) => ctx.reply.error(error),
    }
}

fn rewrite(ctx: &mut Ctx<'_, '_>, _args: Args<'_>) {
    match aof::request_rewrite(ctx.server, "BGREWRITEAOF") {
        Ok(true) => ctx
            .reply
            .simple("Background append only file rewriting started"),
        Ok(false) => ctx
            .reply
            .simple("Background append only file rewriting scheduled"),
        Err(error) => ctx.reply.error(error),
    }
}

fn last_save(ctx: &mut Ctx<'_, '_>, _args: Args<'_>) {
    ctx.reply
        .integer(ctx.server.persistence.saving.last_save() as i64);
}

fn shutdown(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let (mut wants, mut is_forced, mut aborts, mut restarts) = (None, false, false, false);
    let mut skips_replicas = false;
    for word in args.from(1).iter() {
        match &word.to_ascii_lowercase()[..] {
            b"nosave" if wants != Some(true) => wants = Some(false),
            b"save" if wants != Some(false) => wants = Some(true),
            b"now" => skips_replicas = true,
            b"force" if !restarts => is_forced = true,
            // A restart without the keys has a word of its own, NOSAVE.
            b"restart" if !is_forced => restarts = true,
            b"abort" if args.len() == 2 => aborts = true,
            _ => return ctx.reply.error("ERR syntax error"),
        }
    }
    let server = ctx.server;
    // After an abort, a signal may be the next cause of a stop.
    server
        .lifecycle
        .skips_replicas
        .store(skips_replicas, Relaxed);
    if aborts {
        return match work::abort_stop(server) || server.lifecycle.restart.cancel_check() {
            true => ctx.reply.ok(),
            false => ctx.reply.error("ERR No shutdown in progress."),
        };
    }
    let info = &ctx.session.info;
    log::info!("client {} ({}) sent SHUTDOWN", info.id, info.address);
    let client = Some(waiting(ctx));
    if restarts {
        let cause = "SHUTDOWN RESTART".to_owned();
        let request = Request {
            cause,
            wants,
            client,
        };
        return match restart::request(server, request) {
            Ok(()) => ctx.session.blocking_state = BlockingState::RunsLong,
            Err(error) => ctx.reply.error(error),
        };
    }
    match work::stop(server, "SHUTDOWN", wants, client, is_forced) {
        Ok(true) => ctx.session.blocking_state = BlockingState::RunsLong,
        Ok(false) => ctx.session.is_closing = true,
        Err(error) => ctx.reply.error(error),
    }
}
