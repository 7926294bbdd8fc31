//! Commands that a running script calls.

use crate::command;
use crate::command::inner::Caller;
use crate::command::permission::check;
use crate::command::refusal::OUT_OF_MEMORY;
use crate::config::Id;
use crate::context::{Chosen, Ctx};
use crate::saving::work::refuses_writes;
use crate::spec::flag;
use crate::state::Server;
use rustix::time::{ClockId, clock_gettime};
use script::Host;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use wire::{Args, Output, Protocol, Reply};

/// What a script may do.
#[derive(Clone, Copy)]
pub struct Limits {
    /// Whether commands that write are refused.
    pub is_read_only: bool,
    /// Whether memory was full when the script began.
    pub is_full: bool,
    /// Whether the keys may not be served, because the connection to the primary is lost.
    pub is_stale: bool,
}

/// Number of commands of a script between two readings of the clock, as long as they are short.
const CALLS_MAX: u32 = 16;
/// Number of commands before the first reading.
const FIRST_CALLS_MAX: u32 = 4;
/// Duration of this many commands from which the clock is read after each.
const LONG_CALLS: Duration = Duration::from_millis(5);

/// Time of a running script, and what ends it.
pub struct Watch<'s> {
    server: &'s Server,
    has_written: bool,
    /// Time of the first tick.
    since: Option<Instant>,
    /// Commands until the clock is read.
    calls_left: u32,
    /// Time of the last reading after a command.
    called_at: Option<Instant>,
}

impl<'s> Watch<'s> {
    fn new(server: &'s Server) -> Self {
        Watch {
            server,
            has_written: false,
            since: None,
            calls_left: FIRST_CALLS_MAX,
            called_at: None,
        }
    }

    /// Returns the reason for which a script that has just run a command must end.
    fn after_call(&mut self) -> Option<&'static str> {
        self.calls_left -= 1;
        if self.calls_left > 0 && !self.is_stopping() {
            return None;
        }
        let now = Instant::now();
        let before = self.called_at.replace(now);
        let is_long = before.is_some_and(|before| now.duration_since(before) >= LONG_CALLS);
        self.calls_left = if is_long { 1 } else { CALLS_MAX };
        self.tick(now)
    }

    /// Whether scripts are ended, because the server stops. A snapshot before waits for their
    /// locks.
    fn is_stopping(&self) -> bool {
        self.server.stops() || self.server.pause.is_for_stop()
    }

    fn tick(&mut self, now: Instant) -> Option<&'static str> {
        if self.is_stopping() {
            if self.has_written {
                log::warn!("a script that had written was ended, because the server stops");
            }
            return Some("ERR Script ended because the server stops");
        }
        let scripting = &self.server.scripting;
        let since = *self.since.get_or_insert(now);
        let elapsed_ms = now.duration_since(since).as_millis() as i64;
        let config = &self.server.config;
        let limit_ms = config.number(Id::ScriptTimeLimit);
        if limit_ms > 0 && elapsed_ms >= limit_ms {
            return Some("ERR Script ended because it exceeded script-time-limit");
        }
        if elapsed_ms < config.number(Id::BusyReplyThreshold) {
            return None;
        }
        scripting.is_busy.store(true, Relaxed);
        scripting.has_written.store(self.has_written, Relaxed);
        let is_killed = scripting.is_killed.swap(false, Relaxed);
        is_killed.then_some("ERR Script killed by user with SCRIPT KILL.")
    }
}

impl Drop for Watch<'_> {
    /// Ends the state of a script that ran too long.
    fn drop(&mut self) {
        if self.since.is_some() {
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
}

impl<'r, 'a, 'v> ScriptHost<'r, 'a, 'v> {
    /// Creates the host of one script.
    pub fn new(ctx: &'r mut Ctx<'a, 'v>, limits: Limits) -> Self {
        ScriptHost {
            watch: Watch::new(ctx.server),
            ctx,
            limits,
        }
    }

    /// Returns the host for the writing of the script's value.
    pub fn into_idle(self) -> IdleHost<'a> {
        IdleHost {
            watch: self.watch,
            loads_since: None,
        }
    }

    fn run(&mut self, args: Args<'_>, protocol: Protocol, out: &mut Output) {
        self.ctx.session.protocol = protocol;
        let Some(chosen) = find(args) else {
            let text = "ERR Unknown Redis command called from script";
            return self.ctx.refuse_inner(None, text, Caller::Script(out));
        };
        if let Some(text) = self.refusal(chosen, args) {
            let caller = Caller::Script(out);
            return self.ctx.refuse_inner(Some(chosen), text, caller);
        }
        if let Some(text) = self.purge(chosen, args) {
            return self
                .ctx
                .refuse_inner(Some(chosen), text, Caller::Script(out));
        }
        self.watch.has_written |= chosen.flags() & flag::WRITE != 0;
        self.ctx.run_inner(chosen, args, Caller::Script(out));
    }

    /// Removes the expired elements of the large collections that a command names and that the
    /// script has not declared, while removals are recorded. The command would otherwise remove all
    /// of them in one step. Returns the reason for which the script must end meanwhile.
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
            && let Some(error) = refuses_writes(self.ctx.server)
        {
            return Some(error);
        }
        // After its first write a script is not stopped in the middle.
        if self.limits.is_full && flags & flag::DENYOOM != 0 && !self.watch.has_written {
            return Some(OUT_OF_MEMORY);
        }
        None
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
        self.ctx.session.refresh(&self.ctx.server.acl);
        Ok(check(&self.ctx.session.user, chosen, args).is_ok())
    }

    fn log(&mut self, level: u8, text: &[u8]) {
        log_line(level, text);
    }

    fn cpu_seconds(&mut self) -> f64 {
        cpu_seconds()
    }

    fn tick(&mut self) -> Option<&'static str> {
        self.watch.tick(Instant::now())
    }
}

/// Maximum duration of the loading of a library.
const LOAD_MAX: Duration = Duration::from_millis(500);

/// The server as code sees it that may not call commands: that of a library while it is loaded, and
/// that of a script while its value is written.
pub struct IdleHost<'s> {
    watch: Watch<'s>,
    /// Start of the loading of a library.
    loads_since: Option<Instant>,
}

impl<'s> IdleHost<'s> {
    /// Creates the host of one library that is loaded.
    pub fn loading(server: &'s Server) -> Self {
        IdleHost {
            watch: Watch::new(server),
            loads_since: Some(Instant::now()),
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
        log_line(level, text);
    }

    fn cpu_seconds(&mut self) -> f64 {
        cpu_seconds()
    }

    fn tick(&mut self) -> Option<&'static str> {
        let now = Instant::now();
        let is_long = |since: Instant| now.duration_since(since) >= LOAD_MAX;
        let limit_ms = self.watch.server.config.number(Id::ScriptTimeLimit);
        if limit_ms > 0 && self.loads_since.is_some_and(is_long) {
            return Some("ERR FUNCTION LOAD timeout");
        }
        self.watch.tick(now)
    }
}

/// Returns the command and the subcommand that a script names.
fn find(args: Args<'_>) -> Option<Chosen> {
    let table = command::table();
    let chosen = table.choose(table.lookup(args.name())?, args);
    (!chosen.is_unknown).then_some(chosen)
}

/// Returns the command that `redis.acl_check_cmd` names.
fn named(args: Args<'_>) -> Result<Chosen, &'static str> {
    let chosen = find(args).ok_or("Invalid command passed to redis.acl_check_cmd()")?;
    match chosen.accepts(args.len()) {
        true => Ok(chosen),
        false => Err("Wrong number of args for redis.acl_check_cmd()"),
    }
}

fn log_line(level: u8, text: &[u8]) {
    let text = String::from_utf8_lossy(&text[..text.len().min(1024)]);
    match level {
        0 => log::trace!("{text}"),
        1 => log::debug!("{text}"),
        2 => log::info!("{text}"),
        _ => log::warn!("{text}"),
    }
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
