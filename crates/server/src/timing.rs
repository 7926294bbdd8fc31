//! Durations of commands, measured without reading the clock for each.
//!
//! Reading the clock would add a tenth to the duration of a short command. Consecutive short
//! commands of a batch are timed as a group, and the duration is divided evenly. A command that may
//! take long, according to its kind, its arguments or its reply, is timed alone. Sums are therefore
//! exact, and so is every duration that SLOWLOG may record.

use crate::context::{Spec, Table};
use crate::crash;
use crate::state::{Observability, Server};
use session::clients::ClientInfo;
use session::spec::{SpecIndex, flag};
use settings::{Config, Id};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::time::Instant;
use store::Tick;
use wire::Args;

/// Duration in nanoseconds of one connection's commands after which others are served. The last
/// command may exceed it by its own duration, up to `long-command-threshold`.
const TURN_NANOS_MAX: u64 = 1_000_000;
/// Number of arguments beyond which a command is timed alone.
const SHORT_ARGS_MAX: usize = 16;
/// Size of a command or reply in bytes beyond which it is timed alone.
const SHORT_BYTES_MAX: usize = 16 << 10;
/// Maximum number of commands in a group.
const GROUP_CALLS_MAX: u64 = 64;
/// Maximum number of different commands in a group.
const GROUP_KINDS_MAX: usize = 4;
/// SLOWLOG threshold in microseconds below which every command is timed alone.
const PRECISE_BELOW_MICROS: i64 = 1_000;

/// Timer of one worker.
pub struct Timing<'s> {
    server: &'s Server,
    worker: usize,
    table: &'static Table,
    /// Whether each command is short whenever its arguments and its reply are, by index.
    is_short: Vec<bool>,
    /// Last command of the worker, for the report of a crash.
    last: &'static AtomicU16,
    start: Option<Instant>,
    kinds: [(SpecIndex, u64); GROUP_KINDS_MAX],
    kind_count: usize,
    call_count: u64,
    is_alone: bool,
    /// Whether HOTKEYS records the command, and its length in bytes.
    is_recorded: bool,
    len: usize,
    /// Duration in nanoseconds of the commands in the connection's current turn.
    turn_nanos: u64,
}

/// Whether a command is always short when its arguments and its reply are short.
fn is_short(spec: &Spec) -> bool {
    let may_be = spec.has(flag::FAST) || spec.group == "string";
    may_be && spec.flags & (flag::BLOCKING | flag::UNBOUNDED) == 0
}

impl<'s> Timing<'s> {
    /// Creates the timer of a worker.
    pub fn new(server: &'s Server, worker: usize, table: &'static Table) -> Self {
        Timing {
            server,
            worker,
            table,
            is_short: table.iter().map(|spec| is_short(spec)).collect(),
            last: crash::place(worker),
            start: None,
            kinds: [(0, 0); GROUP_KINDS_MAX],
            kind_count: 0,
            call_count: 0,
            is_alone: false,
            is_recorded: false,
            len: 0,
            turn_nanos: 0,
        }
    }

    /// Begins the turn of a connection.
    pub fn begin_turn(&mut self) {
        self.turn_nanos = 0;
    }

    /// Whether the commands of the turn have taken so long that other connections are served first.
    /// Short commands are counted when their group ends.
    #[inline]
    pub fn is_turn_spent(&self) -> bool {
        self.turn_nanos > TURN_NANOS_MAX
    }

    /// Begins timing a command with this number of arguments and this length. It must be called
    /// before each command.
    #[inline]
    pub fn before(&mut self, index: SpecIndex, arg_count: usize, len: usize) {
        self.last.store(index, Relaxed);
        let threshold = self.server.config.number(Id::SlowlogLogSlowerThan);
        (self.is_recorded, self.len) = (self.server.observability.hotkeys.is_on(), len);
        self.is_alone = self.is_recorded
            || !self.is_short[index as usize]
            || arg_count > SHORT_ARGS_MAX
            || len > SHORT_BYTES_MAX
            || (0..PRECISE_BELOW_MICROS).contains(&threshold);
        if self.is_alone {
            self.close();
        }
        if self.start.is_none() {
            self.start = Some(Instant::now());
        }
    }

    /// Completes timing a command. It must be called after each command. The command is counted
    /// under `index`, if given.
    #[inline]
    pub fn after(
        &mut self,
        index: Option<SpecIndex>,
        spec: &Spec,
        client: &ClientInfo,
        args: &Args<'_>,
        reply_len: usize,
        now: Tick,
    ) {
        if let Some(index) = index {
            self.count(index, client, now);
        }
        if self.is_alone || reply_len > SHORT_BYTES_MAX {
            let nanos = self.close();
            if self.is_recorded {
                let bytes = (self.len + reply_len) as u64;
                self.server
                    .observability
                    .hotkeys
                    .record(spec.keys, *args, nanos, bytes, now);
            }
            note_slow(
                &self.server.observability,
                &self.server.config,
                spec,
                client,
                *args,
                nanos / 1000,
                now,
            );
        } else if self.call_count >= GROUP_CALLS_MAX {
            self.end_group(client, now);
        }
    }

    fn count(&mut self, index: SpecIndex, client: &ClientInfo, now: Tick) {
        let kinds = &mut self.kinds[..self.kind_count];
        if let Some(kind) = kinds.iter_mut().find(|kind| kind.0 == index) {
            kind.1 += 1;
            self.call_count += 1;
            return;
        }
        if self.kind_count == GROUP_KINDS_MAX {
            self.end_group(client, now);
            self.start = Some(Instant::now());
        }
        self.kinds[self.kind_count] = (index, 1);
        self.kind_count += 1;
        self.call_count += 1;
    }

    /// Ends a client's batch. `only` is the command of a single-command batch.
    pub fn end_batch(&mut self, client: &ClientInfo, only: Option<(&Spec, Args<'_>)>, now: Tick) {
        match only {
            Some((spec, args)) if self.call_count == 1 => {
                let micros = self.close() / 1000;
                note_slow(
                    &self.server.observability,
                    &self.server.config,
                    spec,
                    client,
                    args,
                    micros,
                    now,
                );
            }
            _ => self.end_group(client, now),
        }
    }

    /// Ends the group. If it took as long as a slow command, which is rare, SLOWLOG records the
    /// group, because it is not known which of its commands took the time.
    fn end_group(&mut self, client: &ClientInfo, now: Tick) {
        let (kinds, count) = (self.kinds, self.kind_count);
        let calls = self.call_count;
        let micros = self.close() / 1000;
        let threshold = self.server.config.number(Id::SlowlogLogSlowerThan);
        if threshold < 0 || micros < threshold as u64 || calls == 0 {
            return;
        }
        let mut words: Vec<Vec<u8>> = kinds[..count]
            .iter()
            .map(|kind| self.table.name(kind.0).as_bytes().to_vec())
            .collect();
        words.push(format!("... ({calls} short commands of a pipeline, timed together)").into());
        let len_max = self.server.config.number(Id::SlowlogMaxLen) as usize;
        let slowlog = &self.server.observability.slowlog;
        slowlog.add_words(client, words, micros, now.0, len_max);
    }

    /// Ends the timing of a command that is blocked now, without counting it, and returns its
    /// duration in nanoseconds.
    pub fn suspend(&mut self) -> u64 {
        debug_assert!(self.is_alone, "a blocking command is timed alone");
        self.close()
    }

    /// Counts a command that was blocked and is done. `nanos` is its own time, without the wait.
    pub fn count_blocked(
        &self,
        index: SpecIndex,
        client: &ClientInfo,
        args: Args<'_>,
        nanos: u64,
        now: Tick,
    ) {
        let spec = self.table[index as usize];
        if self.server.observability.hotkeys.is_on() {
            let bytes = argument_bytes(args);
            self.server
                .observability
                .hotkeys
                .record(spec.keys, args, nanos, bytes, now);
        }
        count_alone(
            &self.server.observability,
            &self.server.config,
            self.worker,
            index,
            Some(nanos),
            false,
        );
        note_slow(
            &self.server.observability,
            &self.server.config,
            spec,
            client,
            args,
            nanos / 1000,
            now,
        );
    }

    /// Counts an error reply of a command that ran or was refused.
    pub fn count_failed(&self, index: SpecIndex, is_run: bool) {
        let Some(worker) = self.server.observability.stats.workers.get(self.worker) else {
            return;
        };
        let stats = &worker.commands[index as usize];
        let counter = if is_run {
            &stats.failed
        } else {
            &stats.rejected
        };
        counter.fetch_add(1, Relaxed);
    }

    /// Ends the group, counts its commands and returns its duration in nanoseconds.
    pub fn close(&mut self) -> u64 {
        let Some(start) = self.start.take() else {
            return 0;
        };
        let nanos = start.elapsed().as_nanos() as u64;
        self.turn_nanos += nanos;
        let calls = std::mem::take(&mut self.call_count).max(1);
        let kind_count = std::mem::take(&mut self.kind_count);
        let Some(worker) = self.server.observability.stats.workers.get(self.worker) else {
            return nanos;
        };
        let is_tracking = self.server.config.is_on(Id::LatencyTracking);
        for &(index, count) in &self.kinds[..kind_count] {
            let stats = &worker.commands[index as usize];
            stats.calls.fetch_add(count, Relaxed);
            stats.nanos.fetch_add(nanos * count / calls, Relaxed);
            if is_tracking {
                stats.micros.record(nanos / calls / 1000, count);
            }
        }
        nanos
    }
}

/// Counts a command that ran outside of a worker's group, with its duration if it was timed.
pub fn count_alone(
    observability: &Observability,
    config: &Config,
    worker: usize,
    index: SpecIndex,
    nanos: Option<u64>,
    is_error: bool,
) {
    let Some(worker) = observability.stats.workers.get(worker) else {
        return;
    };
    let stats = &worker.commands[index as usize];
    stats.calls.fetch_add(1, Relaxed);
    stats.failed.fetch_add(u64::from(is_error), Relaxed);
    if let Some(nanos) = nanos {
        stats.nanos.fetch_add(nanos, Relaxed);
        if config.is_on(Id::LatencyTracking) {
            stats.micros.record(nanos / 1000, 1);
        }
    }
}

/// Returns the number of bytes of a command's arguments.
pub fn argument_bytes(args: Args<'_>) -> u64 {
    args.from(0).iter().map(|arg| arg.len() as u64).sum()
}

/// Records a command in SLOWLOG and in the latency monitor if it exceeded their thresholds.
pub fn note_slow(
    observability: &Observability,
    config: &Config,
    spec: &Spec,
    client: &ClientInfo,
    args: Args<'_>,
    micros: u64,
    now: Tick,
) {
    let threshold = config.number(Id::SlowlogLogSlowerThan);
    if threshold >= 0 && micros >= threshold as u64 && !spec.has(flag::SKIP_SLOWLOG) {
        let len_max = config.number(Id::SlowlogMaxLen) as usize;
        let command = (spec.name, args);
        observability
            .slowlog
            .add(client, command, micros, now.0, len_max);
    }
    let threshold_ms = config.number(Id::LatencyMonitorThreshold);
    if threshold_ms > 0 && micros / 1000 >= threshold_ms as u64 {
        let event = if spec.has(flag::FAST) {
            "fast-command"
        } else {
            "command"
        };
        observability.latency.add(event, micros / 1000, now.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command;
    use session::clients::Endpoint;
    use session::clock::{Clock, Moment};
    use settings::{Config, find};
    use std::time::Duration;
    use wire::Span;

    const NOW: Tick = Tick(1_700_000_000_000);

    #[test]
    fn commands_whose_arguments_do_not_bound_their_work_are_timed_alone() {
        // Regression: SETRANGE and APPEND on large values were timed as parts of groups, and
        // SLOWLOG never recorded them.
        for name in [
            "append", "setrange", "blpop", "bzpopmin", "lrange", "del", "exec",
        ] {
            let index = command::table().lookup(name.as_bytes()).expect("a command");
            assert!(!is_short(command::table()[index as usize]), "{name}");
        }
        for name in ["get", "set", "incr", "hget", "sadd", "expire", "ttl"] {
            let index = command::table().lookup(name.as_bytes()).expect("a command");
            assert!(is_short(command::table()[index as usize]), "{name}");
        }
    }

    #[test]
    fn a_group_that_takes_as_long_as_a_slow_command_is_recorded() {
        let config = Config::default();
        let param = find("slowlog-log-slower-than").expect("a setting");
        config.set(param, "1000").expect("a number");
        let server = Server::new(config, Clock::manual(NOW.0)).expect("valid options");
        let client = ClientInfo::new(7, Endpoint::default(), Moment::default());
        let mut timing = Timing::new(&server, 0, command::table());
        let input = b"get key";
        let spans = [Span { start: 0, len: 3 }, Span { start: 4, len: 3 }];
        let args = Args::new(input, &spans);
        let index = command::table().lookup(b"get").expect("a command");
        let spec = command::table()[index as usize];
        let run = |timing: &mut Timing<'_>, span: Duration| {
            timing.before(index, args.len(), input.len());
            let start = Instant::now();
            while start.elapsed() < span {}
            timing.after(Some(index), spec, &client, &args, 5, NOW);
        };
        run(&mut timing, Duration::ZERO);
        run(&mut timing, Duration::from_millis(2));
        timing.end_batch(&client, None, NOW);
        run(&mut timing, Duration::from_millis(2));
        timing.end_batch(&client, Some((spec, args)), NOW);
        let entries = server.observability.slowlog.newest(10);
        let words = |at: usize| {
            let words = entries[at]
                .args
                .iter()
                .map(|arg| String::from_utf8_lossy(arg));
            words.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(entries.len(), 2);
        assert_eq!(words(0), "get key");
        assert_eq!(
            words(1),
            "get ... (2 short commands of a pipeline, timed together)"
        );
        assert!(entries.iter().all(|entry| entry.micros >= 2000));
    }
}
