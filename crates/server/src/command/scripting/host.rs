//! Commands that a running script calls.

use super::slots::SlotRule;
use crate::command::inner::Caller;
use crate::command::{self, work};
use crate::context::{Chosen, Ctx};
use crate::permission::check;
use crate::saving::work::refuses_writes;
use crate::state::{Data, Lifecycle, Observability, Server};
use engine::refusal::{BEYOND_LIMIT, OUT_OF_MEMORY, refuse_full};
use log::Level;
use rustix::time::{ClockId, clock_gettime};
use script::Host;
use session::clock::Clock;
use session::notices::Kind;
use session::spec::{SpecIndex, flag};
use settings::{Config, Id};
use std::borrow::Cow;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use store::Full;
use wire::{Args, Output, Protocol, Reply};

/// Permissions of a script.
#[derive(Clone, Copy)]
pub struct Limits {
    /// Whether commands that write are refused.
    pub is_read_only: bool,
    /// Whether writes to a full database are refused.
    pub needs_room: bool,
    /// The database that was selected when the script began, and why it was full.
    pub full: Option<(u8, Full)>,
    /// Whether the keys may not be served, because the connection to the primary is lost.
    pub is_stale: bool,
    /// Whether the commands may use keys of several slots of a cluster.
    pub crosses_slots: bool,
}

/// Number of a script's commands between two readings of the clock, while they are short.
const CALLS_MAX: u32 = 16;
/// Number of commands before the first reading.
const FIRST_CALLS_MAX: u32 = 4;
/// Estimated work of a command before and after which the clock is read.
const LONG_UNITS: u64 = 10_000;
/// Duration of this many commands from which on the clock is read after each.
const LONG_CALLS: Duration = Duration::from_millis(5);

/// Time of a running script, and the conditions that end it.
pub struct Watch<'s> {
    server: &'s Server,
    /// Whether the script is ended only by a stop, because it ended where it ran first.
    is_of_feed: bool,
    has_written: bool,
    /// Whether SCRIPT KILL may end the script.
    is_busy: bool,
    /// Time of the first tick.
    since: Option<Instant>,
    /// Commands until the clock is read.
    calls_left: u32,
    /// Time of the last reading after a command.
    called_at: Option<Instant>,
}

/// Whether scripts are ended, because the server stops. A snapshot before waits for their locks.
pub fn is_stopping(data: &Data, lifecycle: &Lifecycle) -> bool {
    lifecycle.stops() || data.pause.is_for_stop()
}

impl<'s> Watch<'s> {
    fn new(server: &'s Server, is_of_feed: bool) -> Self {
        Watch {
            server,
            is_of_feed,
            has_written: false,
            is_busy: false,
            since: None,
            calls_left: FIRST_CALLS_MAX,
            called_at: None,
        }
    }

    /// Returns the reason why a script that has just run a command must end, if any.
    fn after_call(&mut self) -> Option<&'static str> {
        self.calls_left -= 1;
        if self.calls_left > 0 && !is_stopping(&self.server.data, &self.server.lifecycle) {
            return None;
        }
        let now = Instant::now();
        let before = self.called_at.replace(now);
        let is_long = before.is_some_and(|before| now.duration_since(before) >= LONG_CALLS);
        self.calls_left = if is_long { 1 } else { CALLS_MAX };
        self.tick(now)
    }

    fn tick(&mut self, now: Instant) -> Option<&'static str> {
        if let Some(reason) = self.stop() {
            return Some(reason);
        }
        if self.is_of_feed {
            return None;
        }
        let elapsed = now.duration_since(*self.since.get_or_insert(now));
        let is_long = time_limit(&self.server.config).is_some_and(|limit| elapsed >= limit);
        if is_long {
            return Some(TOO_LONG);
        }
        self.kill(elapsed)
    }

    /// Returns the reason why a script must end, if the server is stopping.
    fn stop(&self) -> Option<&'static str> {
        if !is_stopping(&self.server.data, &self.server.lifecycle) {
            return None;
        }
        if self.has_written {
            log::warn!("a script that had written was ended, because the server stops");
        }
        Some("ERR Script ended because the server is stopping")
    }

    /// Permits SCRIPT KILL once a script has run for longer than `busy-reply-threshold`. Returns
    /// the reason if a client has requested the end.
    fn kill(&mut self, elapsed: Duration) -> Option<&'static str> {
        let threshold_ms = self.server.config.number(Id::BusyReplyThreshold);
        if (elapsed.as_millis() as i64) < threshold_ms {
            return None;
        }
        self.is_busy = true;
        let scripting = &self.server.scripting;
        scripting.is_busy.store(true, Relaxed);
        scripting.has_written.store(self.has_written, Relaxed);
        let is_killed = scripting.is_killed.swap(false, Relaxed);
        is_killed.then_some("ERR Script killed by user with SCRIPT KILL.")
    }
}

impl Drop for Watch<'_> {
    /// Ends the state of a script that ran too long.
    fn drop(&mut self) {
        if self.is_busy {
            let scripting = &self.server.scripting;
            scripting.is_busy.store(false, Relaxed);
            scripting.is_killed.store(false, Relaxed);
        }
    }
}

/// The server as a script sees it.
pub struct ScriptHost<'r, 'a, 'v> {
    ctx: &'r mut Ctx<'a, 'v>,
    limits: Limits,
    watch: Watch<'a>,
    /// Slots of the keys that the commands may use; `None` without a cluster.
    slots: Option<SlotRule>,
}

impl<'r, 'a, 'v> ScriptHost<'r, 'a, 'v> {
    /// Creates the host of one script with its declared keys.
    pub fn new(ctx: &'r mut Ctx<'a, 'v>, limits: Limits, declared: Args<'_>) -> Self {
        ScriptHost {
            slots: SlotRule::new(ctx, limits.crosses_slots, declared),
            watch: Watch::new(ctx.server, ctx.session.is_of_feed()),
            ctx,
            limits,
        }
    }

    /// Returns the host for the writing of the script's value.
    pub fn into_idle(self) -> IdleHost<'a> {
        IdleHost {
            watch: self.watch,
            limit: Limit::Script,
        }
    }

    fn run(&mut self, args: Args<'_>, protocol: Protocol, out: &mut Output) {
        self.ctx.session.protocol = protocol;
        let Some(chosen) = self.find(args) else {
            let text = "ERR Unknown Redis command called from script";
            if let Some(feed) = &mut self.ctx.session.feed {
                let name = args.name().escape_ascii();
                feed.fail(format!(
                    "a script calls '{name}', which does not exist here"
                ));
            }
            return self.ctx.refuse_inner(None, text, Caller::Script(out));
        };
        if let Some(text) = self.refusal(chosen, args) {
            let caller = Caller::Script(out);
            return self.ctx.refuse_inner(Some(chosen), text, caller);
        }
        if let Some(text) = self.full(chosen, args) {
            let caller = Caller::Script(out);
            return self.ctx.refuse_inner(Some(chosen), &text, caller);
        }
        let rule = self.slots.as_mut();
        if let Some(text) = rule.and_then(|rule| rule.refusal(self.ctx, &chosen, args)) {
            let caller = Caller::Script(out);
            return self.ctx.refuse_inner(Some(chosen), text, caller);
        }
        if let Some(text) = self.purge(chosen, args) {
            return self
                .ctx
                .refuse_inner(Some(chosen), text, Caller::Script(out));
        }
        if let Some(text) = self.begin_long(chosen, args) {
            let caller = Caller::Script(out);
            return self.ctx.refuse_inner(Some(chosen), text, caller);
        }
        self.watch.has_written |= chosen.flags() & flag::WRITE != 0;
        self.ctx.run_inner(chosen, args, Caller::Script(out));
    }

    /// Returns the command and the subcommand that a script names. A script of a feed uses the
    /// commands' own names.
    fn find(&self, args: Args<'_>) -> Option<Chosen> {
        let table = command::table();
        let index = match self.ctx.session.is_of_feed() {
            true => table.lookup_own(args.name()),
            false => table.lookup(args.name()),
        };
        choose(index?, args)
    }

    /// Removes the expired elements of the large collections that a command names and that the
    /// script has not declared, while removals are being recorded. The command would otherwise
    /// remove all of them in one step. If the script must end meanwhile, returns the reason.
    fn purge(&mut self, chosen: Chosen, args: Args<'_>) -> Option<&'static str> {
        let server = self.ctx.server;
        if !server.feed.is_on() || !self.ctx.view.has_timed_collections() {
            return None;
        }
        let mut names = Vec::new();
        chosen.spec.keys.each(args, |at| names.push(at));
        for at in names {
            let key = self.ctx.key(&args[at]);
            while self.ctx.view.purge_some(&key) {
                if let Some(text) = self.watch.tick(Instant::now()) {
                    return Some(text);
                }
            }
        }
        None
    }

    /// Reads the clock before and after a command that takes long, because the time limit ends a
    /// script only between its commands. Returns the reason if the command is refused: a step of a
    /// script may be as long as that of a transaction.
    fn begin_long(&mut self, chosen: Chosen, args: Args<'_>) -> Option<&'static str> {
        let (server, db) = (self.ctx.server, self.ctx.session.db);
        let view = &mut *self.ctx.view.view;
        let units = work::units(server, view, (db, LONG_UNITS), chosen.spec, args);
        if units <= LONG_UNITS || self.ctx.session.is_of_feed() {
            return None;
        }
        if work::is_beyond_limit(&server.config, units) {
            return Some(BEYOND_LIMIT);
        }
        self.watch.calls_left = 1;
        self.watch.tick(Instant::now())
    }

    /// Returns the reason why a script may not call a command.
    fn refusal(&self, chosen: Chosen, args: Args<'_>) -> Option<&'static str> {
        if !chosen.accepts(args.len()) {
            return Some("ERR Wrong number of args calling Redis command from script");
        }
        let flags = chosen.flags();
        if flags & flag::NOSCRIPT != 0 {
            return Some("ERR This Redis command is not allowed from script");
        }
        if self.limits.is_stale && flags & flag::STALE == 0 {
            return Some("ERR Can not execute the command on a stale replica");
        }
        if self.limits.is_read_only && flags & (flag::WRITE | flag::MAY_WRITE) != 0 {
            return Some("ERR Write commands are not allowed from read-only scripts.");
        }
        if flags & flag::WRITE != 0
            && !self.watch.has_written
            && !self.watch.is_of_feed
            && let Some(error) = refuses_writes(self.ctx.server)
        {
            return Some(error);
        }
        let len = || args.iter().map(<[u8]>::len).sum();
        let db = self.ctx.session.db;
        if flags & flag::DENYOOM != 0 && self.ctx.view.is_too_large(db, len(), 0) {
            return Some(OUT_OF_MEMORY);
        }
        None
    }

    /// Returns the error for a command of a script that writes to a full database. After its first
    /// write a script is not stopped in the middle.
    fn full(&mut self, chosen: Chosen, args: Args<'_>) -> Option<Cow<'static, str>> {
        let db = command::written_db(chosen.spec, args, self.ctx.session.db);
        let is_exempt = !self.limits.needs_room || self.watch.has_written;
        if chosen.flags() & flag::DENYOOM == 0 || is_exempt {
            return None;
        }
        let full = match self.limits.full {
            // The script has selected another database since.
            Some((first, Full::Database)) if first != db => self.ctx.view.lacks_room(db),
            Some((_, full)) => Some(full),
            None => self.ctx.view.lacks_room(db),
        };
        full.map(|full| refuse_full(&self.ctx.server.data.keyspace, db, full))
    }
}

impl Host for ScriptHost<'_, '_, '_> {
    fn call(
        &mut self,
        args: Args<'_>,
        protocol: Protocol,
        out: &mut Output,
    ) -> Option<&'static str> {
        self.run(args, protocol, out);
        self.watch.after_call()
    }

    fn may_call(&mut self, args: Args<'_>) -> Result<bool, &'static str> {
        let chosen = named(args)?;
        self.ctx.session.refresh(&self.ctx.server.auth.acl);
        Ok(check(&self.ctx.session.user, chosen, args).is_ok())
    }

    fn log(&mut self, level: u8, text: &[u8]) {
        log_line(
            &self.ctx.server.clock,
            &self.ctx.server.observability,
            level,
            text,
        );
    }

    fn cpu_seconds(&mut self) -> f64 {
        cpu_seconds()
    }

    fn tick(&mut self) -> Option<&'static str> {
        self.watch.tick(Instant::now())
    }
}

/// Maximum processor time for loading a client's library.
const LOAD_MAX: Duration = Duration::from_millis(500);
/// Reason for ending a script.
const TOO_LONG: &str = "ERR Script ended because it exceeded script-time-limit";

/// Returns `script-time-limit`; `None` if there is no limit.
fn time_limit(config: &Config) -> Option<Duration> {
    let limit_ms = config.number(Id::ScriptTimeLimit).unsigned_abs();
    (limit_ms > 0).then(|| Duration::from_millis(limit_ms))
}

/// Origin of a library to load. A slower or busier machine must accept everything that a server has
/// accepted once, so a limit on wall time could refuse a start.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A client sends a new library.
    Client,
    /// A call of a function needs a known library, and holds the locks of its command meanwhile.
    Registry,
    /// A snapshot, the append-only file or the primary contains the library.
    Server,
}

/// Limit of the duration of code that may not call commands.
enum Limit {
    /// The script's limit applies.
    Script,
    /// Processor time of the thread, from a reading of its clock on, and the reason for the end.
    Processor {
        since: Duration,
        max: Duration,
        reason: &'static str,
    },
    /// Only a stop of the server ends it.
    Stop,
}

impl Limit {
    fn of(config: &Config, origin: Origin) -> Limit {
        let (max, reason) = match (origin, time_limit(config)) {
            (Origin::Server, _) | (_, None) => return Limit::Stop,
            (Origin::Client, Some(_)) => (LOAD_MAX, "ERR FUNCTION LOAD timeout"),
            (Origin::Registry, Some(max)) => (max, TOO_LONG),
        };
        Limit::Processor {
            since: processor_time(ClockId::ThreadCPUTime),
            max,
            reason,
        }
    }
}

/// The server as seen by code that may not call commands: a library while it is being loaded, and a
/// script while its value is being written.
pub struct IdleHost<'s> {
    watch: Watch<'s>,
    limit: Limit,
}

impl<'s> IdleHost<'s> {
    /// Creates the host of one library that is loaded.
    pub fn loading(server: &'s Server, origin: Origin) -> Self {
        IdleHost {
            watch: Watch::new(server, false),
            limit: Limit::of(&server.config, origin),
        }
    }
}

impl Host for IdleHost<'_> {
    fn call(
        &mut self,
        _args: Args<'_>,
        protocol: Protocol,
        out: &mut Output,
    ) -> Option<&'static str> {
        Reply::new(out, protocol).error("ERR a library cannot call commands while it is loaded");
        None
    }

    fn may_call(&mut self, args: Args<'_>) -> Result<bool, &'static str> {
        // No command can be called, so that no user's rights matter.
        named(args).map(|_| true)
    }

    fn log(&mut self, level: u8, text: &[u8]) {
        log_line(
            &self.watch.server.clock,
            &self.watch.server.observability,
            level,
            text,
        );
    }

    fn cpu_seconds(&mut self) -> f64 {
        cpu_seconds()
    }

    fn tick(&mut self) -> Option<&'static str> {
        let Limit::Processor { since, max, reason } = self.limit else {
            return match self.limit {
                Limit::Stop => self.watch.stop(),
                _ => self.watch.tick(Instant::now()),
            };
        };
        if let Some(reason) = self.watch.stop() {
            return Some(reason);
        }
        let elapsed = processor_time(ClockId::ThreadCPUTime).saturating_sub(since);
        if elapsed >= max {
            return Some(reason);
        }
        self.watch.kill(elapsed)
    }
}

/// Returns a command with the subcommand that the arguments name; `None` if there is none.
fn choose(index: SpecIndex, args: Args<'_>) -> Option<Chosen> {
    let chosen = command::table().choose(index, args);
    (!chosen.is_unknown).then_some(chosen)
}

/// Returns the command that `redis.acl_check_cmd` names.
fn named(args: Args<'_>) -> Result<Chosen, &'static str> {
    let index = command::table().lookup(args.name());
    let chosen = index
        .and_then(|index| choose(index, args))
        .ok_or("Invalid command passed to redis.acl_check_cmd()")?;
    match chosen.accepts(args.len()) {
        true => Ok(chosen),
        false => Err("Wrong number of args for redis.acl_check_cmd()"),
    }
}

fn log_line(clock: &Clock, observability: &Observability, level: u8, text: &[u8]) {
    let level = match level {
        0 => Level::Trace,
        1 => Level::Debug,
        2 => Level::Info,
        _ => Level::Warn,
    };
    let (now, text) = (clock.moment(), String::from_utf8_lossy(text));
    let notices = &observability.notices;
    notices.log(Kind::Script, level, now, format_args!("{text}"));
}

fn cpu_seconds() -> f64 {
    processor_time(ClockId::ProcessCPUTime).as_secs_f64()
}

/// Reads a clock of processor time.
fn processor_time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
