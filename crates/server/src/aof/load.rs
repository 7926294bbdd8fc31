//! Reads the append-only file at the start.
//!
//! The commands of the increments are executed at the instant of the base, or before
//! ([`instant`](super::instant)), at which nothing of what they name has expired: expired and
//! evicted keys are deleted by commands of the file. What has expired since the server stopped
//! expires after the load. Nothing is evicted before its end,
//! because a later command may depend on what would be evicted.
//!
//! A file that ends within a command was being written when the machine or the process crashed. The
//! last increment is cut there if `aof-load-truncated` says so. Any other damage is refused with
//! its offset.

use super::instant::before_deadlines;
use super::manifest::{Manifest, Part};
use super::reader::{CommandReader, Damage};
use super::work::{Names, apply_sync, open_increment, request_rewrite};
use super::{Order, Phase};
use crate::command::effects;
use crate::config::Id;
use crate::dispatch::apply::Applier;
use crate::loading::file as snapshots;
use crate::saving::work::plan;
use crate::saving::writer::SnapshotFile;
use crate::state::Server;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use store::Tick;
use wire::rdb::Version;

/// Maximum number of refused commands that are logged.
const LOGGED_MAX: u64 = 10;
/// Number of commands after which the progress is updated.
const STEP_COMMANDS: u64 = 1024;

/// What is loaded.
enum Found {
    /// A folder with a manifest.
    Folder(Manifest),
    /// A file as Redis wrote it before version 7.
    One(PathBuf),
    /// No append-only file, but a snapshot.
    Snapshot(snapshots::Source),
    /// Nothing.
    Nothing,
}

/// Files to be loaded, and how the append-only file continues after them.
pub struct Start {
    found: Found,
}

/// Searches the files, and begins to refuse commands on keys before the first client is served.
/// Returns `None` if `appendonly` is off.
///
/// # Errors
/// The manifest is damaged or a file cannot be read.
pub fn prepare(server: &Server) -> Result<Option<Start>, String> {
    if !server.config.is_on(Id::AppendOnly) {
        return Ok(None);
    }
    let names = Names::of(server);
    let one = Path::new(&server.config.text(Id::Dir)).join(&names.stem);
    let found = match Manifest::read(&names.folder.join(names.manifest()))? {
        Some(manifest) => Found::Folder(manifest),
        None if one.is_file() => Found::One(one),
        None => match snapshots::prepare(server)? {
            Some(source) => Found::Snapshot(source),
            None => Found::Nothing,
        },
    };
    server.loading.begin(server.clock.now_us() / 1_000_000);
    Ok(Some(Start { found }))
}

/// Loads the files and opens the append-only file for writing.
///
/// # Errors
/// A file is damaged, missing, or cannot be written. The message names it.
pub fn load(server: &Server, start: Start) -> Result<(), String> {
    server.loading.begin(server.clock.now_us() / 1_000_000);
    let begun = snapshots::Begun(&server.loading);
    let names = Names::of(server);
    server.keyspace.set_frozen(true);
    server.keyspace.set_maxmemory(0);
    let changes = server.keyspace.changes();
    let loaded = load_found(server, &names, start.found);
    server
        .saving
        .ignore_changes(server.keyspace.changes().wrapping_sub(changes));
    // The file comes first: what expires or is evicted from now on is deleted by its commands.
    let opened = match loaded {
        Ok(Some(manifest)) if !server.stops() => open(server, &names, manifest).map(|()| true),
        Ok(found) => Ok(found.is_some()),
        Err(error) => Err(error),
    };
    server.apply_maxmemory();
    server.keyspace.set_frozen(false);
    server.scripting.free_functions();
    server.wake_all();
    if !opened? && !server.stops() {
        // The file begins with the first rewrite, which includes what was loaded.
        let began = request_rewrite(server, "there is none yet");
        began.map_err(str::to_owned)?;
    }
    drop(begun);
    apply_sync(server);
    if server.aof.state().is_scheduled {
        server.inboxes[0].wake();
    }
    Ok(())
}

/// Returns the manifest with which the file continues; `None` if there is no file yet.
fn load_found(server: &Server, names: &Names, found: Found) -> Result<Option<Manifest>, String> {
    match found {
        Found::Folder(manifest) => {
            load_parts(server, &names.folder, &manifest)?;
            Ok(Some(manifest))
        }
        Found::One(path) => {
            log::info!(
                "{} has the form of Redis before version 7; it is replaced by files in {}",
                path.display(),
                names.folder.display()
            );
            load_file(server, &path, Tick(1), true)?;
            Ok(None)
        }
        Found::Snapshot(source) => {
            snapshots::load_parts(server, &source.name, source.file, false)?;
            Ok(None)
        }
        Found::Nothing => begin_empty(server, names).map(Some),
    }
}

/// Writes a base without keys.
fn begin_empty(server: &Server, names: &Names) -> Result<Manifest, String> {
    let folder = &names.folder;
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(failed)?;
    let base = names.base(1);
    let mut plan = plan(server, server.clock.now());
    plan.folder.clone_from(folder);
    plan.name.clone_from(&base.name);
    plan.fields.push(("aof-base", "1".to_owned()));
    let file = SnapshotFile::create(plan).map_err(failed)?;
    file.complete(|| true).map_err(failed)?;
    Ok(Manifest {
        base: Some(base),
        ..Manifest::default()
    })
}

fn load_parts(server: &Server, folder: &Path, manifest: &Manifest) -> Result<(), String> {
    let parts = manifest.base.iter().chain(&manifest.increments);
    let mut total = 0;
    for part in parts {
        let path = folder.join(&part.name);
        let found = fs::metadata(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        total += found.len();
    }
    server.loading.total_bytes.store(total, Relaxed);
    let mut now = Tick(1);
    if let Some(base) = &manifest.base {
        now = load_file(
            server,
            &folder.join(&base.name),
            now,
            manifest.increments.is_empty(),
        )?;
    }
    for (index, part) in manifest.increments.iter().enumerate() {
        let is_last = index + 1 == manifest.increments.len();
        now = load_file(server, &folder.join(&part.name), now, is_last)?;
    }
    Ok(())
}

/// Loads a snapshot, commands, or a snapshot followed by commands. Returns the instant of the last
/// command.
fn load_file(server: &Server, path: &Path, now: Tick, is_last: bool) -> Result<Tick, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let file = File::open(path).map_err(|error| failed(&error))?;
    let start = Instant::now();
    let mut reader = CommandReader::new(file, Vec::new(), 0);
    let first = reader.peek(6).map_err(|damage| failed(&damage))?.to_vec();
    let mut now = now;
    if Version::is_begun(&first) {
        let (file, read) = reader.into_parts();
        let name = path.display().to_string();
        let source = std::io::Cursor::new(read).chain(file);
        let loaded = snapshots::load_parts(server, &name, source, true)?;
        now = loaded.instant;
        let (source, read) = loaded.rest;
        let (mut first, file) = source.into_inner();
        // The snapshot's reader has usually read more than what was read here.
        let mut rest = read;
        first
            .read_to_end(&mut rest)
            .map_err(|error| failed(&error))?;
        reader = CommandReader::new(file, rest, loaded.offset);
    }
    let commands = execute(server, &mut reader, &mut now, path, is_last)?;
    if commands > 0 {
        let took = start.elapsed().as_secs_f64();
        log::info!(
            "executed {commands} commands of {} in {took:.3} s",
            path.display()
        );
    }
    Ok(now)
}

/// Executes the commands of a file and returns their number. Cuts the last file if it is truncated.
/// `now` is their instant, which becomes that of the last one.
fn execute(
    server: &Server,
    reader: &mut CommandReader<File>,
    now: &mut Tick,
    path: &Path,
    is_last: bool,
) -> Result<u64, String> {
    let mut applier = Applier::new(server);
    let (mut commands, mut refused) = (0u64, 0u64);
    let before = server.loading.loaded_bytes.load(Relaxed);
    let mut transaction_at = 0;
    loop {
        let offset = reader.offset();
        if !applier.is_in_transaction() {
            transaction_at = offset;
        }
        match reader.next_command() {
            Ok(Some(args)) => {
                commands += 1;
                let is_single = !applier.is_in_transaction();
                *now = before_deadlines(args, *now);
                if let Err(error) = applier.apply(args, *now) {
                    if !is_single {
                        return Err(format!(
                            "{}: offset {offset}: {error}; the transaction from offset \
                             {transaction_at} on cannot be executed",
                            path.display()
                        ));
                    }
                    refused += 1;
                    if refused <= LOGGED_MAX {
                        log::warn!("{}: offset {offset}: {error}", path.display());
                    }
                }
                if commands.is_multiple_of(STEP_COMMANDS) {
                    server.loading.loaded_bytes.store(before + offset, Relaxed);
                    if server.stops() {
                        return Ok(commands);
                    }
                }
            }
            Ok(None) if !applier.is_in_transaction() => break,
            Ok(None) | Err(Damage::Truncated(_)) => {
                applier.discard_transaction();
                cut(server, path, transaction_at, is_last)?;
                break;
            }
            Err(damage) => return Err(format!("{}: {damage}", path.display())),
        }
    }
    server
        .loading
        .loaded_bytes
        .store(before + reader.offset(), Relaxed);
    if refused > LOGGED_MAX {
        log::warn!("{}: {refused} commands were refused", path.display());
    }
    Ok(commands)
}

/// Cuts a file at an offset, if it may be.
fn cut(server: &Server, path: &Path, offset: u64, is_last: bool) -> Result<(), String> {
    let path_name = path.display();
    if !is_last || !server.config.is_on(Id::AofLoadTruncated) {
        let why = match is_last {
            true => "set aof-load-truncated to yes to load what precedes",
            false => "only the last file may be cut",
        };
        return Err(format!(
            "{path_name}: offset {offset}: the file ends within a command or a transaction; {why}"
        ));
    }
    let failed = |error: std::io::Error| format!("{path_name}: {error}");
    let file = OpenOptions::new().write(true).open(path).map_err(failed)?;
    let len = file.metadata().map_err(failed)?.len();
    file.set_len(offset).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    log::warn!(
        "{path_name} ended within a command or a transaction; its last {} bytes, from offset \
         {offset} on, were removed",
        len.saturating_sub(offset)
    );
    Ok(())
}

/// Opens the last increment for writing, or a new one, and begins the feed.
fn open(server: &Server, names: &Names, mut manifest: Manifest) -> Result<(), String> {
    let folder = &names.folder;
    let (part, is_new) = match manifest.increments.pop() {
        Some(part) => (part, false),
        None => (names.increment(manifest.next_sequences().1), true),
    };
    let file = open_increment(folder, &part.name, is_new)?;
    let size = |part: &Part| fs::metadata(folder.join(&part.name)).map_or(0, |found| found.len());
    let base_bytes = manifest.base.as_ref().map_or(0, size);
    let current = base_bytes + manifest.increments.iter().map(size).sum::<u64>() + size(&part);
    let mut view = server.keyspace.lock_all(server.clock.now());
    effects::set_feed(server, &mut view, true);
    let mut state = server.aof.state();
    state.folder.clone_from(folder);
    state.manifest_name = names.manifest();
    state.manifest = manifest;
    state.phase = Phase::On;
    (state.base_bytes, state.current_bytes) = (base_bytes, current);
    state.bytes_after_rewrite = current;
    server.feed.add_file();
    let position = server.feed.cut();
    state
        .orders
        .push_back((position, Order::Switch(file, part)));
    drop(state);
    drop(view);
    server.aof.bell.notify_all();
    server.feed.wake();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::config::Config;
    use wire::dump::{Element, Encoding};
    use wire::rdb::{Framing, Writer};

    /// Executes a file of these lines. Returns the result and the number of keys.
    fn run(name: &str, lines: &str) -> (Result<u64, String>, usize) {
        let server = Server::new(Config::default(), Clock::manual(1_700_000_000_000));
        let server = server.expect("valid settings");
        let file = format!("mayfly-{name}-{:x}", crate::random::chance(0));
        let path = std::env::temp_dir().join(file);
        fs::write(&path, lines).expect("a file");
        let file = File::open(&path).expect("a file");
        let mut reader = CommandReader::new(file, Vec::new(), 0);
        let result = execute(&server, &mut reader, &mut Tick(1), &path, true);
        let _ = fs::remove_file(&path);
        let keys = server.keyspace.lock_all(Tick(1)).len(0);
        (result, keys)
    }

    /// Returns the bytes of commands.
    fn commands(lines: &[&str]) -> String {
        let mut bytes = Vec::new();
        for line in lines {
            crate::feed::put_command(
                &mut bytes,
                line.split(' ')
                    .map(str::as_bytes)
                    .collect::<Vec<_>>()
                    .into_iter(),
            );
        }
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn a_transaction_that_cannot_be_executed_ends_the_load() {
        // Regression: it was left out with a warning.
        let (result, keys) = run("aof-part", &commands(&["SET a 1", "NO-SUCH b", "SET c 1"]));
        assert_eq!((result, keys), (Ok(3), 2), "a single command is left out");
        let bytes = commands(&["SET a 1", "MULTI", "SET b 1", "NO-SUCH c", "EXEC"]);
        let (result, keys) = run("aof-transaction", &bytes);
        let error = result.expect_err("it is refused");
        let first = commands(&["SET a 1"]).len();
        let at = commands(&["SET a 1", "MULTI", "SET b 1"]).len();
        let ending = format!(
            "offset {at}: there is no command 'no-such'; the transaction from offset {first} on \
             cannot be executed"
        );
        assert!(error.ends_with(&ending), "{error}");
        assert_eq!(keys, 1);
    }

    #[test]
    fn a_base_of_any_version_is_a_snapshot() {
        // Regression: a base in Mayfly's version, which has members of sets with deadlines, was
        // taken for commands, so that the server did not start.
        for (form, mark) in [
            (Encoding::Set, "REDIS"),
            (Encoding::ValkeyHash, "VALKEY"),
            (Encoding::SetWithDeadlines, "MAYFLY"),
        ] {
            let mut writer = Writer::default();
            writer.database(0);
            writer.begin(b"key", None, form, 1);
            writer.put(&Element {
                name: b"element",
                deadline: (form != Encoding::Set).then_some(1_900_000_000_000),
                ..Element::default()
            });
            let items = writer.take();
            let mut framing = Framing::default();
            framing.add(&items);
            let ending = framing.end(writer.version());
            assert!(ending.header.starts_with(mark.as_bytes()));
            let mut bytes = [&ending.header[..], &items, &ending.tail].concat();
            bytes.extend_from_slice(commands(&["SET a 1"]).as_bytes());
            let server = Server::new(Config::default(), Clock::manual(1_700_000_000_000));
            let server = server.expect("valid settings");
            let name = format!("mayfly-aof-base-{:x}", crate::random::chance(0));
            let path = std::env::temp_dir().join(name);
            fs::write(&path, bytes).expect("a file");
            let result = load_file(&server, &path, Tick(1), true);
            let _ = fs::remove_file(&path);
            assert!(result.is_ok(), "{result:?}");
            assert_eq!(server.keyspace.lock_all(Tick(1)).len(0), 2);
        }
    }
}
