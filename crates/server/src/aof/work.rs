//! Work of the workers on the append-only file: beginning it, ending it, and rewrites.

use crate::effects;
use crate::state::Server;
use durability::aof::manifest::Part;
use durability::aof::{AppendOnly, Order, Phase, RETRY_PAUSE, Rewriting};
use durability::saving::Then;
use durability::saving::queue::Plan;
use session::feed::{FILE, Feed, put_select};
use settings::temporary::OWNER_ONLY;
use settings::words::SYNC_ALWAYS;
use settings::{Config, Id};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use store::View;

/// Names and places of the parts.
pub(crate) struct Names {
    pub folder: PathBuf,
    pub stem: String,
}

impl Names {
    pub fn of(config: &Config) -> Names {
        let folder = Path::new(&config.text(Id::Dir)).join(config.text(Id::AppendDirName));
        Names {
            folder,
            stem: config.text(Id::AppendFileName),
        }
    }

    fn create_folder(&self) -> Result<(), String> {
        fs::create_dir_all(&self.folder)
            .map_err(|error| format!("{}: {error}", self.folder.display()))
    }

    pub fn manifest(&self) -> String {
        format!("{}.manifest", self.stem)
    }

    pub fn base(&self, sequence: u64) -> Part {
        Part {
            name: format!("{}.{sequence}.base.rdb", self.stem),
            sequence,
        }
    }

    pub fn increment(&self, sequence: u64) -> Part {
        Part {
            name: format!("{}.{sequence}.incr.aof", self.stem),
            sequence,
        }
    }
}

/// Opens an increment for appending. A new one is empty.
pub(crate) fn open_increment(folder: &Path, name: &str, is_new: bool) -> Result<File, String> {
    let path = folder.join(name);
    let mut options = OpenOptions::new();
    options
        .create(is_new)
        .truncate(is_new)
        .write(true)
        .append(!is_new)
        .mode(OWNER_ONLY);
    let opened = options.open(&path);
    opened.map_err(|error| format!("{}: {error}", path.display()))
}

/// Requests a rewrite, which begins when no other snapshot is in progress. Returns whether it
/// begins immediately.
///
/// # Errors
/// A rewrite is in progress, or the engine has no snapshots. The message is a reply.
pub fn request_rewrite(server: &Server, cause: &str) -> Result<bool, &'static str> {
    let aof = &server.persistence.aof;
    if server.data.segments.is_some() {
        return Err("ERR the segment engine has no append-only file");
    }
    {
        let mut state = aof.state();
        if state.rewriting.is_some() {
            return Err("ERR Background append only file rewriting already in progress");
        }
        state.is_scheduled = true;
    }
    let cause = format!("rewrite of the append-only file: {cause}");
    // The loader begins the file itself.
    let is_requested = server
        .persistence
        .saving
        .request(&server.data, cause, Then::Rewritten)
        .is_ok();
    server.workers.inboxes[0].wake();
    Ok(is_requested)
}

/// Begins a rewrite at the instant of its snapshot, for which all shards are locked: from now on,
/// commands go to a new increment. Changes the snapshot's plan to that of the base.
///
/// # Errors
/// The increment cannot be created. The rewrite is tried again later.
pub fn begin_rewrite(server: &Server, view: &mut View<'_>, plan: &mut Plan) -> Result<(), String> {
    let begun = try_begin(server, view, plan);
    if begun.is_err() {
        let mut state = server.persistence.aof.state();
        state.is_scheduled = server.config.is_on(Id::AppendOnly);
        (state.has_rewrite_failed, state.failed_at) = (true, Some(Instant::now()));
    }
    begun
}

fn try_begin(server: &Server, view: &mut View<'_>, plan: &mut Plan) -> Result<(), String> {
    let aof = &server.persistence.aof;
    if server.feed.is_on() {
        // Before the state is locked, because the feed may wait for the file's thread, which needs
        // the state.
        effects::add_all_removals(&server.data.keyspace, &server.feed, view);
    }
    let names = Names::of(&server.config);
    let mut state = aof.state();
    state.is_scheduled = false;
    if state.phase == Phase::Off {
        names.create_folder()?;
        state.folder = names.folder.clone();
        state.manifest_name = names.manifest();
        state.manifest =
            durability::aof::manifest::Manifest::read(&names.folder.join(names.manifest()))
                .ok()
                .flatten()
                .unwrap_or_default();
    }
    let (base, mut increment) = state.manifest.next_sequences();
    for (_, order) in &state.orders {
        if let Order::Switch(_, part) = order {
            increment = increment.max(part.sequence + 1);
        }
    }
    let (base, increment) = (names.base(base), names.increment(increment));
    let file = open_increment(&names.folder, &increment.name, true)?;
    if !server.feed.is_on() {
        effects::set_feed(server, view, true);
    }
    if state.phase == Phase::Off || state.is_broken {
        server.feed.add_file();
    }
    if state.phase == Phase::Off {
        state.phase = Phase::Base;
    }
    let position = server.feed.cut();
    let mut file = file;
    if server.replication.is_replica() {
        // The primary's commands follow as they are.
        let mut bytes = Vec::new();
        put_select(&mut bytes, server.replication.stream_db());
        let written = file.write_all(&bytes);
        written.map_err(|error| format!("{}: {error}", increment.name))?;
    }
    plan.folder = names.folder;
    plan.name.clone_from(&base.name);
    plan.fields.push(("aof-base", "1".to_owned()));
    state.rewriting = Some(Rewriting {
        base,
        first: increment.sequence,
        since: Instant::now(),
        breaks: state.breaks,
    });
    state
        .orders
        .push_back((position, Order::Switch(file, increment)));
    drop(state);
    aof.bell.notify_all();
    server.feed.wake();
    Ok(())
}

/// Ends a rewrite. `bytes` is the size of the base, if it is complete.
pub fn end_rewrite(aof: &AppendOnly, feed: &Feed, bytes: Option<u64>) {
    let mut state = aof.state();
    let Some(rewriting) = state.rewriting.take() else {
        return;
    };
    state.last_took = Some(rewriting.since.elapsed());
    state.has_rewrite_failed = bytes.is_none();
    match bytes {
        Some(bytes) => {
            let position = feed.end();
            state
                .orders
                .push_back((position, Order::Based(rewriting, bytes)));
            state.failed_at = None;
        }
        None => {
            state.failed_at = Some(Instant::now());
            log::warn!("the append-only file was not rewritten; its present parts stay in use");
        }
    }
    drop(state);
    aof.bell.notify_all();
    feed.wake();
}

/// Requests the rewrite that is due, if any: a scheduled one, one after a failure, or one because
/// the file has grown. Ends the file after a rewrite by BGREWRITEAOF while `appendonly` is `no`.
pub fn check(server: &Server) {
    let aof: &AppendOnly = &server.persistence.aof;
    let config = &server.config;
    let is_wanted = config.is_on(Id::AppendOnly);
    let cause = {
        let state = aof.state();
        let has_just_failed = state.failed_at.is_some_and(|at| at.elapsed() < RETRY_PAUSE);
        if state.rewriting.is_some() || server.persistence.loading.is_on() {
            return;
        }
        let (now, before) = (state.current_bytes, state.bytes_after_rewrite.max(1));
        let percent = config.number(Id::AofRewritePercentage) as u64;
        let has_grown = percent > 0
            && now >= config.number(Id::AofRewriteMinSize) as u64
            && now.saturating_sub(before).saturating_mul(100) / before >= percent;
        match state.phase {
            Phase::Base | Phase::On if !is_wanted && !state.is_scheduled => {
                drop(state);
                return end(server);
            }
            _ if has_just_failed => return,
            _ if state.is_scheduled => "scheduled",
            Phase::Off => return,
            Phase::Base => "its first base is missing",
            Phase::On if state.is_broken => "its parts are not reliable",
            Phase::On if has_grown => "it has grown",
            Phase::On => return,
        }
    };
    // A snapshot may be in progress; then the rewrite is scheduled.
    let _ = request_rewrite(server, cause);
}

/// Applies `appendonly` and `appendfsync` after a change. The caller holds no shard.
///
/// # Errors
/// The engine has no append-only file, or its folder cannot be created.
pub fn apply(server: &Server) -> Result<(), String> {
    let wants = server.config.is_on(Id::AppendOnly);
    if wants && server.data.segments.is_some() {
        return Err("the segment engine has no append-only file".to_owned());
    }
    let is_on = server.persistence.aof.is_on();
    if wants && !is_on && !server.persistence.loading.is_on() {
        Names::of(&server.config).create_folder()?;
        request_rewrite(server, "appendonly yes")?;
    } else if !wants && is_on {
        end(server);
    }
    apply_sync(&server.config, &server.persistence.aof, &server.feed);
    Ok(())
}

/// Applies `appendfsync`.
pub fn apply_sync(config: &Config, aof: &AppendOnly, feed: &Feed) {
    let is_complete = aof.state().phase == Phase::On;
    let is_always = config.number(Id::AppendFsync) == SYNC_ALWAYS;
    aof.holds_replies.store(is_complete && is_always, Relaxed);
    aof.bell.notify_all();
    feed.wake();
}

/// Ends the file.
fn end(server: &Server) {
    let mut view = server.data.keyspace.lock_all(server.clock.now());
    if !server.replication.has_replicas() && !server.cluster.moves.is_active() {
        effects::set_feed(server, &mut view, false);
    }
    let mut state = server.persistence.aof.state();
    state.phase = Phase::Off;
    (state.is_scheduled, state.rewriting) = (false, None);
    state.orders.push_back((server.feed.end(), Order::Close));
    drop(state);
    drop(view);
    server.persistence.aof.bell.notify_all();
    server.feed.wake();
}

/// Number of bytes that the file has not taken.
pub fn buffered_bytes(feed: &Feed) -> u64 {
    feed.lag(FILE)
}
