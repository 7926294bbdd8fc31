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
use std::time::Instant;
use wire::{Args, Output, Protocol, Reply};

/// What a script may do.
#[derive(Clone, Copy)]
pub struct Limits {
    /// Whether commands that write are refused.
    pub is_read_only: bool,
    /// Whether memory was full when the script began.
    pub is_full: bool,
}

/// The server as a script sees it.
pub struct ScriptHost<'r, 'a, 'v> {
    ctx: &'r mut Ctx<'a, 'v>,
    limits: Limits,
    has_written: bool,
    /// Time of the first tick.
    since: Option<Instant>,
}

impl<'r, 'a, 'v> ScriptHost<'r, 'a, 'v> {
    /// Creates the host of one script.
    pub fn new(ctx: &'r mut Ctx<'a, 'v>, limits: Limits) -> Self {
        ScriptHost {
            ctx,
            limits,
            has_written: false,
            since: None,
        }
    }

    /// Ends the state of a script that ran too long.
    pub fn end(self) {
        if self.since.is_some() {
            let scripting = &self.ctx.server.scripting;
            scripting.is_busy.store(false, Relaxed);
            scripting.is_killed.store(false, Relaxed);
        }
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
        if self.limits.is_read_only && flags & (flag::WRITE | flag::MAY_WRITE) != 0 {
            return Some("ERR Write commands are not allowed from read-only scripts.");
        }
        if flags & flag::WRITE != 0
            && !self.has_written
            && let Some(error) = refuses_writes(self.ctx.server)
        {
            return Some(error);
        }
        // After its first write a script is not stopped in the middle.
        if self.limits.is_full && flags & flag::DENYOOM != 0 && !self.has_written {
            return Some(OUT_OF_MEMORY);
        }
        None
    }
}

impl Host for ScriptHost<'_, '_, '_> {
    fn call(&mut self, args: Args<'_>, protocol: Protocol, out: &mut Output) {
        self.ctx.session.protocol = protocol;
        let Some(chosen) = find(args) else {
            let text = "ERR Unknown Redis command called from script";
            return self.ctx.refuse_inner(None, text, Caller::Script(out));
        };
        if let Some(text) = self.refusal(chosen, args) {
            let caller = Caller::Script(out);
            return self.ctx.refuse_inner(Some(chosen), text, caller);
        }
        self.has_written |= chosen.flags() & flag::WRITE != 0;
        self.ctx.run_inner(chosen, args, Caller::Script(out));
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
        let scripting = &self.ctx.server.scripting;
        let since = *self.since.get_or_insert_with(Instant::now);
        let elapsed_ms = since.elapsed().as_millis() as i64;
        let config = &self.ctx.server.config;
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

/// The server as the code of a library sees it while it is loaded. It may not call commands.
pub struct LoadHost<'s> {
    server: &'s Server,
    since: Instant,
}

/// Maximum duration of the loading of a library in milliseconds.
const LOAD_MS_MAX: u128 = 500;

impl<'s> LoadHost<'s> {
    /// Creates the host of one library.
    pub fn new(server: &'s Server) -> Self {
        LoadHost {
            server,
            since: Instant::now(),
        }
    }
}

impl Host for LoadHost<'_> {
    fn call(&mut self, _args: Args<'_>, protocol: Protocol, out: &mut Output) {
        Reply::new(out, protocol).error("ERR a library cannot call commands while it is loaded");
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
        let limit_ms = self.server.config.number(Id::ScriptTimeLimit);
        let is_over = limit_ms > 0 && self.since.elapsed().as_millis() >= LOAD_MS_MAX;
        is_over.then_some("ERR FUNCTION LOAD timeout")
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
