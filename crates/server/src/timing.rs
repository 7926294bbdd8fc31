//! Durations of commands, measured without reading the clock for each.
//!
//! Reading the clock would add a tenth to the duration of a short command. Consecutive short
//! commands of a batch are timed as a group, and the duration is divided evenly. A command that may
//! take long, according to its kind, its arguments or its reply, is timed alone. Therefore sums are
//! exact, and so is every duration that SLOWLOG may record.

use crate::config::Id;
use crate::context::Spec;
use crate::session::Session;
use crate::spec::{SpecIndex, flag};
use crate::state::Server;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use store::Tick;
use wire::Args;

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
    start: Option<Instant>,
    kinds: [(SpecIndex, u64); GROUP_KINDS_MAX],
    kind_count: usize,
    call_count: u64,
    is_alone: bool,
}

/// Whether a command is short in every case in which its arguments and its reply are short.
fn is_short(spec: &Spec) -> bool {
    spec.has(flag::FAST) || (spec.group == "string" && spec.name != "lcs")
}

impl<'s> Timing<'s> {
    /// Creates the timer of a worker.
    pub fn new(server: &'s Server, worker: usize) -> Self {
        Timing {
            server,
            worker,
            start: None,
            kinds: [(0, 0); GROUP_KINDS_MAX],
            kind_count: 0,
            call_count: 0,
            is_alone: false,
        }
    }

    /// Begins the timing of a command. It must be called before each command.
    #[inline]
    pub fn before(&mut self, spec: &Spec, args: Args<'_>, len: usize) {
        let threshold = self.server.config.number(Id::SlowlogLogSlowerThan);
        self.is_alone = !is_short(spec)
            || args.len() > SHORT_ARGS_MAX
            || len > SHORT_BYTES_MAX
            || (0..PRECISE_BELOW_MICROS).contains(&threshold);
        if self.is_alone {
            self.close();
        }
        if self.start.is_none() {
            self.start = Some(Instant::now());
        }
    }

    /// Completes the timing of a command. It must be called after each command.
    #[inline]
    pub fn after(
        &mut self,
        index: SpecIndex,
        spec: &Spec,
        session: &Session,
        args: Args<'_>,
        reply_len: usize,
        now: Tick,
    ) {
        self.count(index);
        if self.is_alone || reply_len > SHORT_BYTES_MAX {
            let micros = self.close();
            self.note_slow(spec, session, args, micros, now);
        } else if self.call_count >= GROUP_CALLS_MAX {
            self.close();
        }
    }

    fn count(&mut self, index: SpecIndex) {
        self.call_count += 1;
        let kinds = &mut self.kinds[..self.kind_count];
        if let Some(kind) = kinds.iter_mut().find(|kind| kind.0 == index) {
            kind.1 += 1;
            return;
        }
        if self.kind_count == GROUP_KINDS_MAX {
            self.call_count -= 1;
            self.close();
            self.start = Some(Instant::now());
            self.call_count = 1;
        }
        self.kinds[self.kind_count] = (index, 1);
        self.kind_count += 1;
    }

    /// Counts an error reply of a command that ran or was refused.
    pub fn count_failed(&self, index: SpecIndex, is_run: bool) {
        let Some(worker) = self.server.stats.workers.get(self.worker) else {
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

    /// Ends the group and returns its duration in microseconds.
    pub fn close(&mut self) -> u64 {
        let Some(start) = self.start.take() else {
            return 0;
        };
        let nanos = start.elapsed().as_nanos() as u64;
        let calls = std::mem::take(&mut self.call_count).max(1);
        let kind_count = std::mem::take(&mut self.kind_count);
        let Some(worker) = self.server.stats.workers.get(self.worker) else {
            return nanos / 1000;
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
        nanos / 1000
    }

    fn note_slow(&self, spec: &Spec, session: &Session, args: Args<'_>, micros: u64, now: Tick) {
        note_slow(self.server, spec, session, args, micros, now);
    }
}

/// Records a command in SLOWLOG and in the latency monitor if it exceeded their thresholds.
pub fn note_slow(
    server: &Server,
    spec: &Spec,
    session: &Session,
    args: Args<'_>,
    micros: u64,
    now: Tick,
) {
    let threshold = server.config.number(Id::SlowlogLogSlowerThan);
    if threshold >= 0 && micros >= threshold as u64 && !spec.has(flag::SKIP_SLOWLOG) {
        let len_max = server.config.number(Id::SlowlogMaxLen) as usize;
        server
            .slowlog
            .add(&session.info, args, micros, now.0, len_max);
    }
    let threshold_ms = server.config.number(Id::LatencyMonitorThreshold);
    if threshold_ms > 0 && micros / 1000 >= threshold_ms as u64 {
        let event = if spec.has(flag::FAST) {
            "fast-command"
        } else {
            "command"
        };
        server.latency.add(event, micros / 1000, now.0);
    }
}
