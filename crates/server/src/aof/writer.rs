//! The thread that writes the append-only file.

use super::work::apply_sync;
use crate::state::{Server, Workers};
use durability::aof::manifest::{Manifest, Part};
use durability::aof::{AppendOnly, Order, Phase, Rewriting, annotation};
use session::feed::{FILE, Feed, Taken};
use settings::Id;
use settings::words::{SYNC_ALWAYS, SYNC_NEVER};
use std::fs::{self, File};
use std::io::{self, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Number of bytes written at a time.
const WRITE_BYTES: usize = 1 << 20;
/// Time between two writes, unless replies wait for them.
const WRITE_PAUSE: Duration = Duration::from_millis(20);
/// Time between two synchronizations with `everysec`.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Before an fsync, the thread waits for the clients that the last one released. The wait ends when
/// this many times the last fsync's duration have passed since it ended, and after this time at
/// most.
const GATHER_FACTOR: u32 = 4;
const GATHER_MAX: Duration = Duration::from_millis(2);
/// Maximum time that the thread sleeps without a file.
const IDLE_PAUSE: Duration = Duration::from_secs(60);
/// Time after a failed write before the next attempt.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// State of the thread.
pub struct Writer {
    file: Option<File>,
    /// Bytes that were read from the feed and not written.
    pending: Vec<u8>,
    /// Bytes of an annotation that precede them in the file.
    annotation: Vec<u8>,
    /// Feed position up to which the file was written.
    position: u64,
    has_unsynced: bool,
    /// Synchronization that is in progress while the file is written.
    syncing: Option<Syncing>,
    synced_at: Instant,
    /// Duration of the last synchronization.
    sync_took: Duration,
    /// Number of connections that the last synchronization released, and of those that were held
    /// while it was in progress.
    group: usize,
    has_write_failed: bool,
}

/// An fsync on a separate thread.
struct Syncing {
    /// Feed position up to which the file had been written when it began.
    position: u64,
    since: Instant,
    thread: JoinHandle<io::Result<()>>,
}

/// Writes the file until the server and its workers have ended.
pub fn run(server: &Server) {
    let mut writer = Writer {
        file: None,
        pending: Vec::new(),
        annotation: Vec::new(),
        position: 0,
        has_unsynced: false,
        syncing: None,
        synced_at: Instant::now(),
        sync_took: Duration::ZERO,
        group: 0,
        has_write_failed: false,
    };
    while writer.step(server) {}
    writer.end_sync(&server.persistence.aof, &server.workers);
}

impl Writer {
    /// Takes, writes and syncs whatever there is. Returns false at the end.
    fn step(&mut self, server: &Server) -> bool {
        let is_always = server.config.number(Id::AppendFsync) == SYNC_ALWAYS;
        if let Some(syncing) = &self.syncing
            && syncing.thread.is_finished()
        {
            self.end_sync(&server.persistence.aof, &server.workers);
        }
        self.take_orders(server);
        if self.pending.is_empty() {
            let patience = self.patience(server, is_always);
            match self.read(&server.feed, patience) {
                Taken::Bytes(_) => self.fill(&server.feed),
                // Nothing is added to the feed while there is no file.
                Taken::Ended if !server.lifecycle.stops() => {
                    self.sleep(&server.persistence.aof, IDLE_PAUSE)
                }
                Taken::Ended | Taken::Nothing => {}
            }
        }
        if is_always && self.gather(server) {
            self.fill(&server.feed);
        }
        if let Err(error) = self.write(server) {
            self.fail(&server.persistence.aof, &server.feed, &error);
            self.sleep(&server.persistence.aof, RETRY_PAUSE);
        }
        let is_due = match server.config.number(Id::AppendFsync) {
            SYNC_ALWAYS => true,
            SYNC_NEVER => false,
            _ => self.synced_at.elapsed() >= SYNC_INTERVAL,
        };
        if self.has_unsynced && (is_due || server.lifecycle.stops()) {
            match is_always || server.lifecycle.stops() {
                true => self.sync(&server.persistence.aof, &server.workers),
                false => self.begin_sync(&server.persistence.aof, &server.workers),
            }
        }
        if !is_always && !server.lifecycle.stops() && !self.pending_is_large(&server.feed) {
            self.sleep(&server.persistence.aof, WRITE_PAUSE);
        }
        if !server.lifecycle.stops() {
            return true;
        }
        let have_workers_ended =
            server.persistence.aof.ended_workers.load(Relaxed) >= server.workers.count;
        let has_rest = self.file.is_some()
            && (!self.pending.is_empty() || server.feed.lag(FILE) > 0)
            && !self.has_write_failed;
        if !have_workers_ended {
            self.sleep(&server.persistence.aof, WRITE_PAUSE);
        }
        has_rest || !have_workers_ended
    }

    fn pending_is_large(&self, feed: &Feed) -> bool {
        feed.lag(FILE) >= WRITE_BYTES as u64
    }

    /// Returns how long to wait for the first byte.
    fn patience(&self, server: &Server, is_always: bool) -> Duration {
        let has_order = !server.persistence.aof.state().orders.is_empty();
        match self.has_unsynced {
            _ if server.lifecycle.stops() || has_order => Duration::ZERO,
            true if is_always => Duration::ZERO,
            _ if self.syncing.is_some() => WRITE_PAUSE,
            true => SYNC_INTERVAL.saturating_sub(self.synced_at.elapsed()),
            false => IDLE_PAUSE,
        }
    }

    /// Reads from the feed. What was read before a gap or another history is dropped.
    fn read(&mut self, feed: &Feed, patience: Duration) -> Taken {
        let before = self.pending.len();
        let taken = feed.read(FILE, &mut self.pending, patience);
        if let Taken::Bytes(at) = taken
            && at != self.position + before as u64
        {
            self.pending.drain(..before);
            self.position = at;
        }
        taken
    }

    /// Reads more, up to the number of bytes written at a time.
    fn fill(&mut self, feed: &Feed) {
        while self.pending.len() < WRITE_BYTES
            && let Taken::Bytes(_) = self.read(feed, Duration::ZERO)
        {}
    }

    /// Waits until as many replies are held as in the last round, so that one fsync serves all
    /// clients that wait for each reply before their next command. Otherwise the first command
    /// would begin an fsync, and the other clients would wait for its end and for another one.
    /// Returns whether it waited.
    fn gather(&mut self, server: &Server) -> bool {
        let aof = &server.persistence.aof;
        let limit = (self.sync_took * GATHER_FACTOR).min(GATHER_MAX);
        let is_enough = || aof.held.load(Relaxed) >= self.group || server.lifecycle.stops();
        if is_enough() || self.synced_at.elapsed() >= limit {
            return false;
        }
        aof.awaited.store(self.group, Relaxed);
        let mut state = aof.state();
        while state.orders.is_empty() && !is_enough() {
            let left = limit.saturating_sub(self.synced_at.elapsed());
            if left.is_zero() {
                break;
            }
            let waited = aof.bell.wait_timeout(state, left);
            state = waited.expect("the lock is not poisoned").0;
        }
        drop(state);
        aof.awaited.store(0, Relaxed);
        true
    }

    /// Waits for an order.
    fn sleep(&self, aof: &AppendOnly, time: Duration) {
        let state = aof.state();
        if state.orders.is_empty() || self.has_write_failed {
            let waited = aof.bell.wait_timeout(state, time);
            drop(waited.expect("the lock is not poisoned"));
        }
    }

    /// Performs the orders whose position was reached.
    fn take_orders(&mut self, server: &Server) {
        loop {
            let mut state = server.persistence.aof.state();
            let is_broken = state.is_broken;
            let Some((position, order)) = state.orders.front() else {
                return;
            };
            // What precedes a switch that follows a failure is in the base.
            let is_skipped = is_broken && matches!(order, Order::Switch(..));
            let is_reached = self.pending.is_empty() && server.feed.lag(FILE) == 0
                || self.position >= *position
                || self.file.is_none();
            if !is_reached && !is_skipped {
                return;
            }
            let position = *position;
            let (_, order) = state.orders.pop_front().expect("there is an order");
            state.is_performing = true;
            drop(state);
            if is_skipped && position < self.position {
                // Another history has begun at a smaller position.
                self.pending.clear();
                self.position = position;
            } else if is_skipped {
                let written = (position - self.position) as usize;
                self.pending.drain(..written.min(self.pending.len()));
            }
            self.position = self.position.max(position);
            self.perform(server, order);
            server.persistence.aof.state().is_performing = false;
            if server.persistence.saving.has_request() {
                // A rewrite may have waited for this.
                server.workers.inboxes[0].wake();
            }
        }
    }

    fn perform(&mut self, server: &Server, order: Order) {
        match order {
            Order::Switch(file, part) => self.switch(server, file, part),
            Order::Based(rewriting, bytes) => self.rebase(server, rewriting, bytes),
            Order::Close => {
                self.settle(&server.persistence.aof, &server.workers);
                self.file = None;
                self.pending.clear();
                server.feed.remove_reader(FILE);
                server.persistence.aof.has_failed.store(false, Relaxed);
                server.persistence.aof.holds_replies.store(false, Relaxed);
                server.workers.wake_all();
            }
        }
    }

    /// Continues in a new increment, which the manifest names first.
    fn switch(&mut self, server: &Server, file: File, part: Part) {
        self.settle(&server.persistence.aof, &server.workers);
        self.file = Some(file);
        self.annotation.clear();
        let mut state = server.persistence.aof.state();
        state.manifest.increments.push(part);
        if state.phase == Phase::On {
            let (folder, name) = (state.folder.clone(), state.manifest_name.clone());
            let manifest = state.manifest.clone();
            drop(state);
            if let Err(error) = manifest.write(&folder, &name) {
                self.fail(&server.persistence.aof, &server.feed, &error);
                server.persistence.aof.state().distrust();
            }
        }
    }

    /// Activates a new base and deletes the parts that it replaces.
    fn rebase(&mut self, server: &Server, rewriting: Rewriting, bytes: u64) {
        let mut state = server.persistence.aof.state();
        let old = std::mem::take(&mut state.manifest);
        let (kept, gone): (Vec<Part>, Vec<Part>) = old
            .increments
            .into_iter()
            .partition(|part| part.sequence >= rewriting.first);
        let history: Vec<Part> = old
            .history
            .into_iter()
            .chain(old.base)
            .chain(gone)
            .collect();
        state.manifest = Manifest {
            base: Some(rewriting.base),
            increments: kept,
            history: Vec::new(),
        };
        let (folder, name) = (state.folder.clone(), state.manifest_name.clone());
        let manifest = state.manifest.clone();
        drop(state);
        if let Err(error) = manifest.write(&folder, &name) {
            // The manifest on the disk names the old parts, which are all there.
            log::warn!("{}: {error}", folder.join(&name).display());
            let mut state = server.persistence.aof.state();
            state.manifest.history = history;
            state.distrust();
            state.has_rewrite_failed = true;
            state.failed_at = Some(Instant::now());
            return;
        }
        // Without `appendonly`, the next start does not load this file.
        if server.config.is_on(Id::AppendOnly) {
            server.lifecycle.restart.end_inherited();
        }
        for part in &history {
            // A part that stays costs space only.
            let _ = fs::remove_file(folder.join(&part.name));
        }
        let mut state = server.persistence.aof.state();
        let increments: u64 = manifest
            .increments
            .iter()
            .map(|part| size(&folder, part))
            .sum();
        state.base_bytes = bytes;
        state.current_bytes = bytes + increments;
        state.bytes_after_rewrite = state.current_bytes;
        state.rewrites += 1;
        let (was_broken, was_first) = (state.is_broken, state.phase == Phase::Base);
        state.is_broken &= state.breaks != rewriting.breaks;
        let is_mended = was_broken && !state.is_broken;
        if was_first {
            state.phase = Phase::On;
        }
        drop(state);
        if is_mended && !self.has_write_failed {
            self.recover(&server.persistence.aof, &server.feed);
        }
        if was_first {
            log::info!("the append-only file is complete");
            apply_sync(&server.config, &server.persistence.aof, &server.feed);
        }
        if !self.has_unsynced && self.syncing.is_none() {
            self.publish(&server.persistence.aof, &server.workers, self.position);
        }
    }

    /// Writes the pending bytes, with annotations, and performs the orders between them.
    fn write(&mut self, server: &Server) -> io::Result<()> {
        while !self.pending.is_empty() {
            let limit = {
                let state = server.persistence.aof.state();
                state.orders.front().map(|(position, _)| *position)
            };
            let left = limit.map_or(usize::MAX, |limit| {
                usize::try_from(limit.saturating_sub(self.position)).unwrap_or(usize::MAX)
            });
            let mut end = self.pending.len().min(left);
            if end == 0 {
                self.take_orders(server);
                continue;
            }
            let (instant, next) = server.feed.take_instant(self.position);
            if let Some(instant) = instant {
                self.annotation.extend(annotation::line(instant));
            }
            if let Some(next) = next {
                end = end.min(usize::try_from(next - self.position).unwrap_or(end));
            }
            let Some(file) = &mut self.file else {
                self.pending.clear();
                return Ok(());
            };
            let is_annotation = !self.annotation.is_empty();
            let bytes = match is_annotation {
                true => &self.annotation[..],
                false => &self.pending[..end],
            };
            let written = match file.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if is_annotation {
                self.annotation.drain(..written);
            } else {
                self.pending.drain(..written);
                self.position += written as u64;
            }
            self.has_unsynced = true;
            server.persistence.aof.state().current_bytes += written as u64;
        }
        if self.has_write_failed {
            self.has_write_failed = false;
            let mut state = server.persistence.aof.state();
            if server.feed.set_file_failing(false) {
                state.distrust();
            }
            let is_broken = state.is_broken;
            drop(state);
            if !is_broken {
                self.recover(&server.persistence.aof, &server.feed);
            }
        }
        Ok(())
    }

    fn recover(&self, aof: &AppendOnly, feed: &Feed) {
        log::info!("the append-only file can be written again");
        feed.set_file_failing(false);
        aof.has_failed.store(false, Relaxed);
    }

    fn fail(&mut self, aof: &AppendOnly, feed: &Feed, error: &io::Error) {
        if !self.has_write_failed {
            log::warn!(
                "the append-only file cannot be written: {error}; commands that write are refused"
            );
        }
        self.has_write_failed = true;
        aof.has_failed.store(true, Relaxed);
        feed.set_file_failing(true);
    }

    /// Calls fsync on another thread, unless the last call is still in progress. The file is
    /// written meanwhile, so that a slow fsync does not cause writes to be lost when the process
    /// ends.
    fn begin_sync(&mut self, aof: &AppendOnly, workers: &Workers) {
        if self.syncing.is_some() {
            return;
        }
        let Some(Ok(file)) = self.file.as_ref().map(File::try_clone) else {
            return self.sync(aof, workers);
        };
        let thread = Builder::new().name("aof-sync".to_owned());
        let Ok(thread) = thread.spawn(move || file.sync_data()) else {
            return self.sync(aof, workers);
        };
        self.synced_at = Instant::now();
        self.has_unsynced = false;
        self.syncing = Some(Syncing {
            position: self.position,
            since: self.synced_at,
            thread,
        });
    }

    /// Waits for the fsync in progress, if any.
    fn end_sync(&mut self, aof: &AppendOnly, workers: &Workers) {
        if let Some(syncing) = self.syncing.take() {
            let result = syncing.thread.join().expect("it does not panic");
            self.report_sync(
                aof,
                workers,
                syncing.position,
                syncing.since.elapsed(),
                result,
            );
        }
    }

    /// Waits until all that was written is on the disk.
    fn settle(&mut self, aof: &AppendOnly, workers: &Workers) {
        self.end_sync(aof, workers);
        if self.has_unsynced {
            self.sync(aof, workers);
        }
    }

    /// Synchronizes the file with the disk.
    fn sync(&mut self, aof: &AppendOnly, workers: &Workers) {
        self.end_sync(aof, workers);
        let Some(file) = &self.file else { return };
        let start = Instant::now();
        let released = aof.held.swap(0, Relaxed);
        let result = file.sync_data();
        self.synced_at = Instant::now();
        self.sync_took = self.synced_at - start;
        self.group = released + aof.held.load(Relaxed);
        self.has_unsynced = false;
        self.report_sync(aof, workers, self.position, self.sync_took, result);
    }

    /// Handles the result of an fsync of everything before a position.
    fn report_sync(
        &self,
        aof: &AppendOnly,
        workers: &Workers,
        position: u64,
        took: Duration,
        result: io::Result<()>,
    ) {
        if took >= SYNC_INTERVAL {
            aof.delayed_syncs.fetch_add(1, Relaxed);
        }
        match result {
            Ok(()) => self.publish(aof, workers, position),
            Err(error) => {
                log::warn!(
                    "the append-only file cannot be synchronized: {error}; commands that write \
                     are refused until it has been rewritten"
                );
                aof.has_failed.store(true, Relaxed);
                aof.state().distrust();
            }
        }
    }

    /// Publishes the position up to which the file is on disk, if the file is trusted.
    fn publish(&self, aof: &AppendOnly, workers: &Workers, position: u64) {
        let state = aof.state();
        if state.is_broken {
            return;
        }
        aof.synced.store(position, Relaxed);
        drop(state);
        if aof.has_waiting.swap(false, Relaxed) {
            workers.wake_all();
        }
    }
}

fn size(folder: &std::path::Path, part: &Part) -> u64 {
    fs::metadata(folder.join(&part.name)).map_or(0, |found| found.len())
}
