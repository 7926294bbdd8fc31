//! Tests of snapshots through commands, without sockets and threads.

use super::work;
use crate::dispatch::exec;
use crate::state::Server;
use session::clock::Clock;
use session::session::Session;
use settings::random::chance;
use settings::{Config, find};
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use store::Tick;
use wire::rdb::{Item, Kind, Reader, Version};

pub(super) const NOW: u64 = 1_700_000_000_000;

/// A test's own folder, removed at the end of the test.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("mayfly-saving-{name}-{:x}", chance(0)));
        fs::create_dir_all(&path).expect("a temporary folder");
        Folder(path)
    }

    pub(super) fn config(&self, settings: &[(&str, &str)]) -> Config {
        let config = Config::default();
        let dir = self.0.to_string_lossy();
        for (name, value) in settings.iter().chain(&[("dir", &*dir)]) {
            let param = find(name).expect("a setting");
            config.set(param, value).expect("a value");
        }
        config
    }

    pub(super) fn server(&self, settings: &[(&str, &str)]) -> Server {
        Server::new(self.config(settings), Clock::manual(NOW)).expect("valid settings")
    }

    pub(super) fn file(&self) -> PathBuf {
        self.0.join("dump.rdb")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(super) fn run(server: &Server, session: &mut Session, line: &str) -> String {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let mut out = Vec::new();
    exec(server, session, &words, Tick(NOW), &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Database, deadline and type of each key.
pub(super) type Keys = BTreeMap<String, (u64, Option<u64>, String)>;

/// Returns the version of a file and its keys.
pub(super) fn read(path: &Path) -> (Version, Keys) {
    let mut reader = Reader::new(File::open(path).expect("a file"));
    let version = reader.begin().expect("a header");
    let (mut database, mut keys) = (0, BTreeMap::new());
    loop {
        match reader.next().expect("an item") {
            Item::Database(number) => database = number,
            Item::Entry(entry) => {
                let key = String::from_utf8_lossy(entry.key).into_owned();
                let kind = match &entry.kind {
                    Kind::Value(kind) => kind.name().to_owned(),
                    other => format!("{other:?}"),
                };
                let deadline = entry.deadline;
                keys.insert(key, (database, deadline, kind));
            }
            Item::End => return (version, keys),
            _ => {}
        }
    }
}

#[test]
fn a_file_has_all_keys_with_their_deadlines() {
    let folder = Folder::new("all-keys");
    let server = folder.server(&[]);
    let mut session = Session::default();
    for line in [
        "SET string value PX 5000",
        "RPUSH list a b",
        "SADD set a b",
        "ZADD zset 1 a",
        "HSET hash f v",
        "XADD stream 1-1 f v",
        "SELECT 3",
        "SET other 1",
    ] {
        run(&server, &mut session, line);
    }
    for number in 0..5_000 {
        let line = format!("HSET large field:{number} value:{number}");
        run(&server, &mut session, &line);
    }
    assert_eq!(run(&server, &mut session, "SAVE"), "+OK\r\n");
    let (version, keys) = read(&folder.file());
    assert_eq!(version, Version::PLAIN);
    let at = |db, deadline, kind: &str| Some((db, deadline, kind.to_owned()));
    for (key, expected) in [
        ("string", at(0, Some(NOW + 5000), "string")),
        ("list", at(0, None, "list")),
        ("set", at(0, None, "set")),
        ("zset", at(0, None, "zset")),
        ("hash", at(0, None, "hash")),
        ("stream", at(0, None, "stream")),
        ("other", at(3, None, "string")),
        ("large", at(3, None, "hash")),
    ] {
        assert_eq!(keys.get(key), expected.as_ref(), "{key}");
    }
    assert_eq!(keys.len(), 8);
    // The large hash was lent and is back.
    assert_eq!(run(&server, &mut session, "HLEN large"), ":5000\r\n");
    assert_eq!(fs::read_dir(&folder.0).expect("a folder").count(), 1);
}

#[test]
fn a_failed_snapshot_keeps_the_file_and_refuses_writes() {
    let folder = Folder::new("failed");
    let server = folder.server(&[("save", "3600 1")]);
    let mut session = Session::default();
    run(&server, &mut session, "SET k v");
    assert_eq!(run(&server, &mut session, "SAVE"), "+OK\r\n");
    let kept = folder.0.with_extension("kept");
    fs::rename(&folder.0, &kept).expect("it is renamed");
    let reply = run(&server, &mut session, "SAVE");
    assert!(reply.starts_with("-ERR the snapshot failed"), "{reply}");
    let reply = run(&server, &mut session, "SET k w");
    assert!(reply.starts_with("-MISCONF"), "{reply}");
    run(&server, &mut session, "MULTI");
    let reply = run(&server, &mut session, "SET k w");
    assert!(reply.starts_with("-MISCONF"), "{reply}");
    assert!(run(&server, &mut session, "EXEC").starts_with("-EXECABORT"));
    assert_eq!(run(&server, &mut session, "GET k"), "$1\r\nv\r\n");
    fs::rename(&kept, &folder.0).expect("it is renamed");
    assert_eq!(read(&folder.file()).1.len(), 1);
    assert_eq!(run(&server, &mut session, "SAVE"), "+OK\r\n");
    assert_eq!(run(&server, &mut session, "SET k w"), "+OK\r\n");
}

#[test]
fn commands_that_were_queued_before_a_snapshot_failed_do_not_write() {
    // Regression: only the queueing of a command was refused, and EXEC was not.
    let folder = Folder::new("failed-exec");
    let server = folder.server(&[("save", "3600 1")]);
    let (mut session, mut other) = (Session::default(), Session::default());
    run(&server, &mut session, "MULTI");
    run(&server, &mut session, "SET k v");
    fs::remove_dir_all(&folder.0).expect("it is removed");
    assert!(run(&server, &mut other, "SAVE").starts_with("-ERR the snapshot failed"));
    let reply = run(&server, &mut session, "EXEC");
    let expected = "-EXECABORT Transaction discarded because of: MISCONF";
    assert!(reply.starts_with(expected), "{reply}");
    assert_eq!(run(&server, &mut session, "GET k"), "$-1\r\n");
    // A transaction that only reads runs.
    run(&server, &mut session, "MULTI");
    run(&server, &mut session, "GET k");
    assert_eq!(run(&server, &mut session, "EXEC"), "*1\r\n$-1\r\n");
}

#[test]
fn all_keys_that_were_removed_stay_removed_after_a_crash_with_save_points() {
    // Regression: FLUSHALL was saved by the next save point only, so that a crash before it brought
    // the keys back.
    for (points, expected) in [("3600 1000", 0), ("", 1)] {
        let folder = Folder::new("flushed");
        let server = folder.server(&[("save", points)]);
        let mut session = Session::default();
        run(&server, &mut session, "SET k v");
        assert_eq!(run(&server, &mut session, "SAVE"), "+OK\r\n");
        assert_eq!(run(&server, &mut session, "FLUSHALL"), "+OK\r\n");
        assert_eq!(read(&folder.file()).1.len(), expected, "save {points:?}");
    }
}

#[test]
fn a_folder_in_which_no_file_can_be_created_prevents_the_start_with_save_points() {
    let folder = Folder::new("unusable");
    let missing = folder.0.join("missing");
    let missing = missing.to_string_lossy();
    for (points, is_refused) in [("3600 1", true), ("", false)] {
        let server = folder.server(&[("save", points)]);
        assert_eq!(work::prepare(&server), Ok(()), "save {points:?}");
        let dir = find("dir").expect("a setting");
        server.config.set(dir, &missing).expect("a value");
        let prepared = work::prepare(&server);
        assert_eq!(prepared.is_err(), is_refused, "{prepared:?}");
        assert!(prepared.err().is_none_or(|error| error.contains(&*missing)));
    }
    assert_eq!(fs::read_dir(&folder.0).expect("a folder").count(), 0);
}

#[test]
fn a_snapshot_gets_the_permissions_of_the_one_that_it_replaces() {
    let folder = Folder::new("mode");
    let server = folder.server(&[]);
    let mut session = Session::default();
    let mode = || {
        fs::metadata(folder.file())
            .expect("a file")
            .permissions()
            .mode()
            & 0o777
    };
    run(&server, &mut session, "SAVE");
    assert_eq!(mode(), 0o600);
    fs::set_permissions(folder.file(), Permissions::from_mode(0o644)).expect("an owner");
    run(&server, &mut session, "SAVE");
    assert_eq!(mode(), 0o644);
}
