//! Reads the append-only file at the start.
//!
//! The commands of the increments still find entries that have expired, because expired and evicted
//! keys are deleted by commands in the file. Entries that have expired since the server stopped
//! expire after the load. Nothing is evicted before its end, because a later command may depend on
//! it. TTLs count from the instant of the last annotation, or from the time of the load if there is
//! none. A command that cannot be executed aborts the start.
//!
//! A file that ends within a command was being written when the machine or the process crashed. The
//! last increment is cut there if `aof-load-truncated` says so. After a machine crash, the file
//! system may also have kept bytes at the end that were never written. The last increment is cut
//! where they begin if `aof-load-corrupt-tail-max-size` permits it. Any other damage is reported as
//! an error with its offset.

use crate::aof::work::{Names, apply_sync, open_increment, request_rewrite};
use crate::command::scripting::functions::load_library;
use crate::dispatch::apply::Applier;
use crate::effects;
use crate::loading::file::{self as snapshots, Origin};
use crate::saving::work::plan;
use crate::saving::writer::SnapshotFile;
use crate::state::Server;
use durability::aof::manifest::{Manifest, Part};
use durability::aof::reader::{CommandReader, Damage};
use durability::aof::{Order, Phase};
use settings::{Config, Id};
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use wire::rdb::Version;

/// Number of commands after which the progress is updated.
const STEP_COMMANDS: u64 = 1024;

/// The files found for loading.
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

/// Files to load, and how the append-only file continues after them.
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
    let names = Names::of(&server.config);
    let one = Path::new(&server.config.text(Id::Dir)).join(&names.stem);
    // What the process before a restart has left is newer than files that it did not write.
    let is_restarted = server.lifecycle.restart.inherited().is_some();
    let found = match Manifest::read(&names.folder.join(names.manifest()))? {
        Some(manifest) if !is_restarted => Found::Folder(manifest),
        None if one.is_file() && !is_restarted => Found::One(one),
        _ => match snapshots::prepare(server)? {
            Some(source) => Found::Snapshot(source),
            None => Found::Nothing,
        },
    };
    server
        .persistence
        .loading
        .begin(server.clock.now_us() / 1_000_000);
    Ok(Some(Start { found }))
}

/// Loads the files and opens the append-only file for writing.
///
/// # Errors
/// A file is damaged, missing, or cannot be written. The message names it.
pub fn load(server: &Server, start: Start) -> Result<(), String> {
    server
        .persistence
        .loading
        .begin(server.clock.now_us() / 1_000_000);
    let begun = snapshots::Begun(&server.persistence.loading);
    let names = Names::of(&server.config);
    server.data.keyspace.set_frozen(true);
    server.data.keyspace.set_maxmemory(0);
    server.data.keyspace.set_quotas_ignored(true);
    let changes = server.data.keyspace.changes();
    let loaded = load_found(server, &names, start.found);
    server
        .persistence
        .saving
        .ignore_changes(server.data.keyspace.changes().wrapping_sub(changes));
    // The file comes first: what expires or is evicted from now on is deleted by its commands.
    let opened = match loaded {
        Ok(Some(manifest)) if !server.lifecycle.stops() => {
            open(server, &names, manifest).map(|()| true)
        }
        Ok(found) => Ok(found.is_some()),
        Err(error) => Err(error),
    };
    server.apply_maxmemory();
    server.data.keyspace.set_frozen(false);
    server.scripting.free_functions();
    server.workers.wake_all();
    if !opened? && !server.lifecycle.stops() {
        // The file begins with the first rewrite, which includes what was loaded.
        let began = request_rewrite(server, "there is none yet");
        began.map_err(str::to_owned)?;
    }
    drop(begun);
    apply_sync(&server.config, &server.persistence.aof, &server.feed);
    if server.persistence.aof.state().is_scheduled {
        server.workers.inboxes[0].wake();
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
            load_file(server, &path, true)?;
            Ok(None)
        }
        Found::Snapshot(source) => {
            snapshots::load_parts(
                server,
                &source.name,
                source.file,
                Origin::Other,
                load_library,
            )?;
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
    server.persistence.loading.total_bytes.store(total, Relaxed);
    let mut parts = manifest.base.iter().chain(&manifest.increments).peekable();
    while let Some(part) = parts.next() {
        load_file(server, &folder.join(&part.name), parts.peek().is_none())?;
    }
    Ok(())
}

/// Loads a snapshot, commands, or a snapshot followed by commands.
fn load_file(server: &Server, path: &Path, is_last: bool) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let file = File::open(path).map_err(|error| failed(&error))?;
    let start = Instant::now();
    let mut reader = CommandReader::new(file, Vec::new(), 0);
    let first = reader.peek(6).map_err(|damage| failed(&damage))?.to_vec();
    if Version::is_begun(&first) {
        let (file, read) = reader.into_parts();
        let name = path.display().to_string();
        let source = std::io::Cursor::new(read).chain(file);
        let loaded = snapshots::load_parts(server, &name, source, Origin::Base, load_library)?;
        let (source, read) = loaded.rest;
        let (mut first, file) = source.into_inner();
        // The snapshot's reader has usually read more than what was read here.
        let mut rest = read;
        first
            .read_to_end(&mut rest)
            .map_err(|error| failed(&error))?;
        reader = CommandReader::new(file, rest, loaded.offset);
    }
    let commands = execute(server, &mut reader, path, is_last)?;
    if commands > 0 {
        let took = start.elapsed().as_secs_f64();
        log::info!(
            "executed {commands} commands of {} in {took:.3} s",
            path.display()
        );
    }
    Ok(())
}

/// Executes the commands of a file and returns their number. Cuts the last file if it is truncated.
fn execute(
    server: &Server,
    reader: &mut CommandReader<File>,
    path: &Path,
    is_last: bool,
) -> Result<u64, String> {
    let mut applier = Applier::new(server);
    let (mut commands, now) = (0u64, server.clock.now());
    let before = server.persistence.loading.loaded_bytes.load(Relaxed);
    let mut transaction_at = 0;
    loop {
        let offset = reader.offset();
        if !applier.is_in_transaction() {
            transaction_at = offset;
        }
        match reader.next_command() {
            Ok(Some(command)) => {
                commands += 1;
                if let Err(error) = applier.apply(command.args, command.instant(now)) {
                    let path = path.display();
                    return Err(match offset == transaction_at {
                        true => format!("{path}: offset {offset}: {error}"),
                        false => format!(
                            "{path}: offset {offset}: {error}; the transaction from offset \
                             {transaction_at} on cannot be executed"
                        ),
                    });
                }
                if commands.is_multiple_of(STEP_COMMANDS) {
                    server
                        .persistence
                        .loading
                        .loaded_bytes
                        .store(before + offset, Relaxed);
                    if server.lifecycle.stops() {
                        return Ok(commands);
                    }
                }
            }
            Ok(None) if !applier.is_in_transaction() => break,
            Err(damage @ Damage::Unreadable(..)) => {
                return Err(format!("{}: {damage}", path.display()));
            }
            ended => {
                applier.discard_transaction();
                let damage = ended.err().unwrap_or(Damage::Truncated(transaction_at));
                cut(&server.config, path, transaction_at, &damage, is_last)
                    .map_err(|error| format!("{}: {error}", path.display()))?;
                break;
            }
        }
    }
    server
        .persistence
        .loading
        .loaded_bytes
        .store(before + reader.offset(), Relaxed);
    Ok(commands)
}

/// Removes everything after an offset from a damaged file, unless the file or the settings forbid
/// it.
fn cut(
    config: &Config,
    path: &Path,
    offset: u64,
    damage: &Damage,
    is_last: bool,
) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    let len = fs::metadata(path).map_err(failed)?.len();
    let bytes = len.saturating_sub(offset);
    if let Some(why) = objection(config, damage, bytes, is_last) {
        return Err(format!("{damage}; {why}"));
    }
    let file = OpenOptions::new().write(true).open(path).map_err(failed)?;
    file.set_len(offset).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    log::warn!(
        "{}: {damage}; the last {bytes} bytes, from offset {offset} on, were removed",
        path.display()
    );
    Ok(())
}

/// Returns why the last `bytes` of a damaged file may not be removed; `None` if they may.
fn objection(config: &Config, damage: &Damage, bytes: u64, is_last: bool) -> Option<String> {
    let max = config.number(Id::AofLoadCorruptTailMax).unsigned_abs();
    match damage {
        _ if !is_last => Some("only the last file may be cut".to_owned()),
        Damage::Truncated(_) if !config.is_on(Id::AofLoadTruncated) => {
            Some("set aof-load-truncated to yes to load what precedes".to_owned())
        }
        Damage::Malformed(..) if bytes > max => Some(format!(
            "set aof-load-corrupt-tail-max-size to {bytes} or more to remove the rest of the file \
             and load what precedes"
        )),
        _ => None,
    }
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
    let mut view = server.data.keyspace.lock_all(server.clock.now());
    effects::set_feed(server, &mut view, true);
    let mut state = server.persistence.aof.state();
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
    server.persistence.aof.bell.notify_all();
    server.feed.wake();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::clock::Clock;
    use settings::Config;
    use store::Tick;
    use wire::dump::{Element, Encoding};
    use wire::rdb::{Framing, Writer};

    /// Executes a file of these lines. Returns the result and the number of keys.
    fn run(name: &str, lines: &str) -> (Result<u64, String>, usize) {
        let server = Server::new(Config::default(), Clock::manual(1_700_000_000_000));
        let server = server.expect("valid settings");
        let file = format!("mayfly-{name}-{:x}", settings::random::chance(0));
        let path = std::env::temp_dir().join(file);
        fs::write(&path, lines).expect("a file");
        let file = File::open(&path).expect("a file");
        let mut reader = CommandReader::new(file, Vec::new(), 0);
        let result = execute(&server, &mut reader, &path, true);
        let _ = fs::remove_file(&path);
        let keys = server.data.keyspace.lock_all(Tick(1)).len(0);
        (result, keys)
    }

    /// Returns the bytes of commands.
    fn commands(lines: &[&str]) -> String {
        let mut bytes = Vec::new();
        for line in lines {
            session::feed::put_command(
                &mut bytes,
                line.split(' ')
                    .map(str::as_bytes)
                    .collect::<Vec<_>>()
                    .into_iter(),
            );
        }
        String::from_utf8(bytes).expect("text")
    }

    /// Executes a file at the instant of [`LOADED_MS`]. Returns the server.
    fn loaded(name: &str, bytes: &str) -> Server {
        let server = Server::new(Config::default(), Clock::manual(LOADED_MS));
        let server = server.expect("valid settings");
        let path = std::env::temp_dir().join(format!("{name}-{:x}", settings::random::chance(0)));
        fs::write(&path, bytes).expect("a file");
        let result = load_file(&server, &path, true);
        let _ = fs::remove_file(&path);
        result.expect("it is loaded");
        server
    }

    const LOADED_MS: u64 = 1_700_000_000_000;

    #[test]
    fn commands_are_executed_at_the_instants_of_their_annotations() {
        // Regression: annotations were skipped, so that the TTLs that a replica had received
        // counted from the load again, and new entries of streams got other IDs.
        let file = [
            commands(&["SETEX none 100 v"]),
            "#MS:1699999990123\r\n".to_owned(),
            commands(&["SETEX setex 100 v", "MULTI", "SET set v EX 100", "EXEC"]),
            commands(&["SET later v", "SETEX past 1 v"]),
            // The second one has to have a greater ID than the first one.
            commands(&["XADD s * f v", "XADD s 1699999990123-1 f v"]),
            "#TS:1699999991\r\n".to_owned(),
            commands(&["EXPIRE later 100"]),
            "#MS:1700000000001\r\n".to_owned(),
            commands(&["SETEX future 100 v"]),
        ];
        let server = loaded("mayfly-aof-instants", &file.concat());
        let mut view = server.data.keyspace.lock_all(Tick(LOADED_MS));
        let mut deadline = |name: &str| {
            let key = server.data.keyspace.key(0, name.as_bytes());
            view.deadline(&key).map(|found| found.map(|at| at.0))
        };
        assert_eq!(deadline("none"), Some(Some(LOADED_MS + 100_000)));
        assert_eq!(deadline("setex"), Some(Some(1_700_000_090_123)));
        assert_eq!(deadline("set"), Some(Some(1_700_000_090_123)));
        assert_eq!(deadline("later"), Some(Some(1_700_000_091_000)));
        assert_eq!(deadline("future"), Some(Some(LOADED_MS + 100_000)));
        assert_eq!(deadline("past"), None);
    }

    #[test]
    fn a_command_that_cannot_be_executed_ends_the_load() {
        // Regression: it was left out with a warning.
        for (command, why) in [
            ("NO-SUCH b", "there is no command 'no-such'"),
            (
                "SCRIPT NO-SUCH b",
                "there is no subcommand 'script no-such'",
            ),
            ("SET b", "wrong number of arguments for 'set'"),
            (
                "INCR a",
                "'incr' was refused: ERR value is not an integer or out of range",
            ),
            ("SHUTDOWN", "'shutdown' does not belong there"),
        ] {
            let (result, keys) = run("aof-part", &commands(&["SET a x", command, "SET c 1"]));
            let error = result.expect_err(command);
            let at = commands(&["SET a x"]).len();
            assert!(error.ends_with(&format!("offset {at}: {why}")), "{error}");
            assert_eq!(keys, 1);
        }
        let harmless = ["SET a 1", "GET a", "PING", "SELECT 0", "SET c 1"];
        let (result, keys) = run("aof-harmless", &commands(&harmless));
        assert_eq!((result, keys), (Ok(5), 2), "reading changes nothing");
    }

    #[test]
    fn a_transaction_that_cannot_be_executed_ends_the_load() {
        // Regression: it was left out with a warning, and an error within it was not found.
        let (result, _) = run(
            "aof-inner",
            &commands(&["SET a x", "MULTI", "INCR a", "EXEC"]),
        );
        let error = result.expect_err("it is refused");
        assert!(error.contains("'incr' was refused"), "{error}");
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

    /// Executes a file with these settings. Returns the result, the keys, and the file's bytes
    /// afterwards.
    fn run_damaged(
        bytes: &[u8],
        settings: &[(&str, &str)],
        is_last: bool,
    ) -> (Result<(), String>, Vec<String>, Vec<u8>) {
        let config = Config::default();
        for (name, value) in settings {
            let param = settings::find(name).expect("a setting");
            config.set(param, value).expect("a value");
        }
        let server = Server::new(config, Clock::manual(1_700_000_000_000)).expect("valid settings");
        let name = format!("mayfly-aof-damaged-{:x}", settings::random::chance(0));
        let path = std::env::temp_dir().join(name);
        fs::write(&path, bytes).expect("a file");
        let result = load_file(&server, &path, is_last);
        let left = fs::read(&path).expect("the file");
        let _ = fs::remove_file(&path);
        let mut keys = Vec::new();
        let mut view = server.data.keyspace.lock_all(Tick(1));
        view.scan(0, 0, usize::MAX, &mut |key, _| {
            keys.push(String::from_utf8_lossy(key).into_owned());
        });
        keys.sort();
        (result, keys, left)
    }

    #[test]
    fn a_damaged_tail_is_removed_if_the_settings_permit_its_length() {
        // Regression: there was no such setting, so that a page of zeros behind the last command,
        // which a crash of the machine leaves, needed an administrator.
        let whole = commands(&["SET a 1"]).into_bytes();
        let zeros = [&whole[..], &[0; 100]].concat();
        let max = "aof-load-corrupt-tail-max-size";
        for limit in ["100", "4096"] {
            let (result, keys, left) = run_damaged(&zeros, &[(max, limit)], true);
            assert_eq!((result, keys), (Ok(()), vec!["a".to_owned()]));
            assert_eq!(left, whole);
        }
        for (settings, is_last, why) in [
            (
                &[][..],
                true,
                "set aof-load-corrupt-tail-max-size to 100 or more",
            ),
            (
                &[(max, "99")],
                true,
                "set aof-load-corrupt-tail-max-size to 100 or more",
            ),
            (&[(max, "100")], false, "only the last file may be cut"),
        ] {
            let (result, _, left) = run_damaged(&zeros, settings, is_last);
            let error = result.expect_err("it is refused");
            assert!(
                error.contains(&format!("offset {}: ", whole.len())),
                "{error}"
            );
            assert!(error.contains(why), "{error}");
            assert_eq!(left, zeros);
        }
    }

    #[test]
    fn a_damaged_tail_begins_with_the_transaction_that_contains_it() {
        let first = commands(&["SET a 1"]).into_bytes();
        let begun = commands(&["MULTI", "SET b 1"]).into_bytes();
        let bytes = [&first[..], &begun, b"?", &commands(&["EXEC"]).into_bytes()].concat();
        let tail = bytes.len() - first.len();
        let max = "aof-load-corrupt-tail-max-size";
        let (result, ..) = run_damaged(&bytes, &[(max, &(tail - 1).to_string())], true);
        result.expect_err("the whole transaction is longer than permitted");
        let (result, keys, left) = run_damaged(&bytes, &[(max, &tail.to_string())], true);
        assert_eq!((result, keys), (Ok(()), vec!["a".to_owned()]));
        assert_eq!(left, first);
    }

    #[test]
    fn the_two_settings_of_damage_are_independent() {
        let first = commands(&["SET a 1"]).into_bytes();
        let cut = &commands(&["SET a 1", "SET b 1"]).into_bytes()[..first.len() + 5];
        let zeros = [&first[..], &[0; 5]].concat();
        for (truncated, max, loads_cut, loads_zeros) in [
            ("yes", "0", true, false),
            ("yes", "5", true, true),
            ("no", "0", false, false),
            ("no", "5", false, true),
        ] {
            let settings = [
                ("aof-load-truncated", truncated),
                ("aof-load-corrupt-tail-max-size", max),
            ];
            assert_eq!(run_damaged(cut, &settings, true).0.is_ok(), loads_cut);
            assert_eq!(run_damaged(&zeros, &settings, true).0.is_ok(), loads_zeros);
        }
    }

    #[test]
    fn what_is_kept_of_any_damaged_tail_loads_again() {
        let first = commands(&["SET one 1", "SET two 1"]).into_bytes();
        let tail = commands(&["MULTI", "SET c 1", "SADD d 1", "EXEC", "DEL c"]).into_bytes();
        let whole = [&first[..], &tail].concat();
        let mut damaged: Vec<Vec<u8>> = (first.len()..whole.len())
            .map(|len| whole[..len].to_vec())
            .collect();
        for at in first.len()..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                damaged.push(bytes);
            }
        }
        let settings = [("aof-load-corrupt-tail-max-size", "4096")];
        for bytes in damaged {
            let (result, keys, left) = run_damaged(&bytes, &settings, true);
            for key in ["one", "two"] {
                assert!(keys.iter().any(|found| found == key), "{keys:?}");
            }
            assert!(left.starts_with(&first), "{left:?}");
            assert!(bytes.starts_with(&left));
            match result {
                // A command that cannot be executed is no damage.
                Err(error) => {
                    assert!(!error.contains("set aof-load"), "{error}");
                    assert_eq!(left, bytes);
                }
                Ok(instant) => {
                    let again = run_damaged(&left, &[], true);
                    assert_eq!(again, (Ok(instant), keys, left));
                }
            }
        }
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
            let name = format!("mayfly-aof-base-{:x}", settings::random::chance(0));
            let path = std::env::temp_dir().join(name);
            fs::write(&path, bytes).expect("a file");
            let result = load_file(&server, &path, true);
            let _ = fs::remove_file(&path);
            assert!(result.is_ok(), "{result:?}");
            assert_eq!(server.data.keyspace.lock_all(Tick(1)).len(0), 2);
        }
    }
}
