//! Commands run by another command: those of a transaction and those of a script.
//!
//! They run on the shards that the outer command has locked, with its session. Each is shown to
//! MONITOR and counted like a command sent by a client; its error is counted here and not again
//! with the reply of the outer command.

use super::tracking;
use crate::context::{Chosen, Ctx};
use crate::effects::{self, Ran, ReplyAt};
use crate::permission::check_session;
use crate::timing;
use engine::slab::Slab;
use session::acl::log::Context;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use wire::{Args, Output, Reply};

/// The command that runs another one.
pub(super) enum Caller<'o> {
    /// EXEC. The reply is an element of its reply, and the command is timed.
    Transaction,
    /// A script, which reads the reply from this buffer. The duration is counted with the script's,
    /// because two clock readings would double the cost of a short command.
    Script(&'o mut Output),
}

/// Runs commands that all have the time of the first one, within the millisecond of the instant at
/// which they see the keys.
pub(super) fn at_one_instant<'a, 'v, R>(
    ctx: &mut Ctx<'a, 'v>,
    work: impl FnOnce(&mut Ctx<'a, 'v>) -> R,
) -> R {
    let before = ctx.session.instant_us;
    let start_us = ctx.view.now().0.saturating_mul(1000);
    let now_us = || ctx.server.clock.now_us().clamp(start_us, start_us + 999);
    ctx.session.instant_us = Some(before.unwrap_or_else(now_us));
    let result = work(ctx);
    ctx.session.instant_us = before;
    result
}

impl<'v> Ctx<'_, 'v> {
    /// Returns the context of a command that this one runs.
    fn inner<'b>(&'b mut self, caller: &'b mut Caller<'_>) -> Ctx<'b, 'v> {
        let protocol = self.session.protocol;
        Ctx {
            view: Slab {
                view: &mut *self.view.view,
                space: self.view.space,
                locks: self.view.locks,
                is_of_feed: self.view.is_of_feed,
            },
            session: &mut *self.session,
            server: self.server,
            reply: match caller {
                Caller::Transaction => self.reply.nested(protocol),
                Caller::Script(out) => Reply::new(out, protocol),
            },
            table: self.table,
            memo: None,
        }
    }

    /// Runs a command of a transaction or a script. The outer command has already checked that
    /// there is memory for it, because a check here could release the locks between two commands.
    pub(super) fn run_inner(&mut self, chosen: Chosen, args: Args<'_>, mut caller: Caller<'_>) {
        let spec = chosen.spec;
        if let Err(text) = self.check_inner(chosen, args, &caller) {
            return self.refuse_inner(Some(chosen), &text, caller);
        }
        let start = match caller {
            Caller::Transaction => Some(Instant::now()),
            Caller::Script(_) => None,
        };
        let mut inner = self.inner(&mut caller);
        let position = inner.reply.position();
        if inner.server.clients.monitors.is_on() {
            let by_script = start.is_none();
            tracking::show(inner.server, inner.session, by_script, chosen, args);
        }
        let changes_before = inner.view.changes();
        (spec.run.slab)(&mut inner, args);
        if inner.server.feed.is_on() {
            effects::add_inner(
                &mut inner,
                Ran {
                    index: chosen.index,
                    args,
                    reply: ReplyAt::Position(position),
                    changes_before,
                },
            );
        }
        if inner.session.tracking.is_some() {
            tracking::remember(&mut inner, spec, args);
        }
        let reply = inner.reply.written(position);
        let reply_bytes = reply.len() as u64;
        let is_error = reply.first() == Some(&b'-');
        if start.is_some() {
            inner.session.note_feed_reply(spec.name, reply);
        }
        if is_error && !std::mem::take(&mut inner.session.is_error_counted) {
            inner.server.observability.stats.count_error(reply);
        }
        let nanos = start.map(|start| start.elapsed().as_nanos() as u64);
        if let Some(nanos) = nanos {
            let (client, now) = (&self.session.info, self.view.now());
            timing::note_slow(
                &self.server.observability,
                &self.server.config,
                spec,
                client,
                args,
                nanos / 1000,
                now,
            );
            let hotkeys = &self.server.observability.hotkeys;
            if hotkeys.is_on() {
                let bytes = timing::argument_bytes(args) + reply_bytes;
                hotkeys.record(spec.keys, args, nanos, bytes, now);
            }
        }
        let counted = chosen.counted().unwrap_or(chosen.index);
        let worker = self.session.info.worker;
        timing::count_alone(
            &self.server.observability,
            &self.server.config,
            worker,
            counted,
            nanos,
            is_error,
        );
    }

    /// Checks whether the session's user may run a command. A script may call commands that its
    /// caller may not, and the rights may have changed since a transaction queued the command.
    fn check_inner(
        &mut self,
        chosen: Chosen,
        args: Args<'_>,
        caller: &Caller<'_>,
    ) -> Result<(), String> {
        let context = match caller {
            Caller::Transaction => Context::Transaction,
            Caller::Script(_) => Context::Script,
        };
        let checked = check_session(self.table, self.server, self.session, chosen, args, context);
        checked.map_err(|denied| match caller {
            Caller::Transaction => denied.text_in_transaction(),
            Caller::Script(_) => {
                let text = denied.text(&self.session.user, chosen, args, false);
                format!("ERR ACL failure in script: {text}")
            }
        })
    }

    /// Refuses a command. `chosen` is `None` if there is no such command.
    pub(super) fn refuse_inner(
        &mut self,
        chosen: Option<Chosen>,
        text: &str,
        mut caller: Caller<'_>,
    ) {
        let mut inner = self.inner(&mut caller);
        let position = inner.reply.position();
        inner.reply.error(text);
        inner
            .server
            .observability
            .stats
            .count_error(inner.reply.written(position));
        let worker = self
            .server
            .observability
            .stats
            .workers
            .get(self.session.info.worker);
        if let Some(counted) = chosen.and_then(|chosen| chosen.counted())
            && let Some(worker) = worker
        {
            let stats = &worker.commands[counted as usize];
            stats.rejected.fetch_add(1, Relaxed);
        }
    }
}
