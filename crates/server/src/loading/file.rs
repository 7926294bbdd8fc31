//! Loads a snapshot file into the keyspace.

use crate::clock::Clock;
use crate::command::key::dump::Restored;
use crate::command::scripting::functions;
use crate::config::{Config, Id};
use crate::loading::Loading;
use crate::loading::strings::{BATCH_BYTES_MAX, Strings};
use crate::state::Server;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use store::{ItemHead, NewDeadline, Tick};
use wire::rdb::{ITEM_FIELD, Item, Kind, Reader};

/// Number of keys after which the time and the progress are updated.
const STEP_KEYS: u64 = 256;

/// Ends a load when it is dropped.
pub struct Begun<'s>(pub &'s Loading);

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn seconds(server: &Server) -> u64 {
    server.clock.now_us() / 1_000_000
}

/// Returns the path of the snapshot file.
pub fn path(server: &Server) -> PathBuf {
    let config = &server.config;
    Path::new(&config.text(Id::Dir)).join(config.text(Id::DbFilename))
}

/// Name of the snapshot that the process before a restart has left, which has no path.
const INHERITED: &str = "the snapshot of the restart";

/// Opens the snapshot file, or what the process before a restart has left, and begins to refuse
/// commands on keys, before the first client is served. Returns `None` if there is no file, or if
/// the engine loads none.
///
/// # Errors
/// The file exists and cannot be read.
pub fn prepare(server: &Server) -> Result<Option<Source>, String> {
    if let Some(file) = server.restart.take_inherited() {
        return begin(server, INHERITED.to_owned(), file).map(Some);
    }
    let path = path(server);
    let file = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|error| format!("{}: {error}", path.display()))?,
    };
    if server.segments.is_some() {
        log::warn!(
            "{} is not loaded: the segment engine loads no files",
            path.display()
        );
        return Ok(None);
    }
    begin(server, path.display().to_string(), file).map(Some)
}

/// Begins to refuse commands on keys until a file is loaded.
fn begin(server: &Server, name: String, file: File) -> Result<Source, String> {
    let found = file.metadata();
    let bytes = found.map_err(|error| format!("{name}: {error}"))?.len();
    server.loading.begin(seconds(server));
    Ok(Source { name, file, bytes })
}

/// An open file to be loaded.
pub struct Source {
    /// Its path.
    pub name: String,
    /// The file.
    pub file: File,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Loads a file of `total_bytes` (0 if unknown) into the keyspace. A key that exists is replaced.
/// `name` describes the source in the log and in errors. Takes the locks of single shards, so that
/// the caller must hold none. Commands on keys are refused meanwhile.
///
/// # Errors
/// The file is damaged or contains something that this server does not support. What precedes the
/// damage has been stored.
pub fn load(
    server: &Server,
    name: &str,
    source: impl io::Read,
    total_bytes: u64,
) -> Result<(), String> {
    let loading = &server.loading;
    loading.begin(seconds(server));
    loading.total_bytes.store(total_bytes, Relaxed);
    let begun = Begun(loading);
    let changes = server.keyspace.changes();
    let result = load_parts(server, name, source, false);
    server
        .saving
        .ignore_changes(server.keyspace.changes().wrapping_sub(changes));
    server.scripting.free_functions();
    // The workers expire the keys from now on.
    server.wake_all();
    drop(begun);
    result.map(|_| ())
}

/// Error for a file that cannot be loaded.
pub const NOT_LOADED: &str = "ERR Error trying to load the RDB dump, check server logs.";

/// Loads the snapshot file again for DEBUG RELOAD, after all keys were removed if `flushes` is
/// true. The caller holds no shard, and no other command runs on its thread meanwhile.
///
/// # Errors
/// There is no file, or it is damaged. The message is a reply.
pub fn reload(server: &Server, flushes: bool) -> Result<(), &'static str> {
    let path = path(server);
    let name = path.display().to_string();
    let opened = File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
    let loaded = opened.map_err(|error| format!("{name}: {error}"));
    let loaded = loaded.and_then(|(bytes, file)| {
        if flushes {
            let mut view = server.keyspace.lock_all(server.clock.now());
            (0..server.keyspace.databases()).for_each(|db| view.flush(db as u8));
        }
        // What was changed is not in the feed.
        server.aof.distrust();
        load(server, &name, file, bytes)
    });
    loaded.map_err(|error| {
        log::warn!("DEBUG RELOAD: {error}");
        NOT_LOADED
    })
}

/// What was read of a source.
pub struct Loaded<R> {
    /// Instant at which the file was written, so that nothing in it had expired. A file without a
    /// time has an early one.
    pub instant: Tick,
    /// Offset behind the snapshot.
    pub offset: u64,
    /// The source and the bytes that were read beyond the snapshot.
    pub rest: (R, Vec<u8>),
}

/// Loads a snapshot within a load that has begun. In a base of an append-only file nothing counts
/// as expired.
///
/// # Errors
/// As [`load`].
pub fn load_parts<R: io::Read>(
    server: &Server,
    name: &str,
    source: R,
    is_base: bool,
) -> Result<Loaded<R>, String> {
    let loading = &server.loading;
    let start = Instant::now();
    let mut loader = Loader::new(server, source);
    if is_base {
        loader.begin_base();
    }
    let result = loader.run();
    result.map_err(|error| format!("{name}: {error}"))?;
    log::info!(
        "loaded {} keys from {name} in {:.3} s; {} had expired",
        loading.keys.load(Relaxed),
        start.elapsed().as_secs_f64(),
        loading.expired.load(Relaxed)
    );
    Ok(Loaded {
        instant: loader.now,
        offset: loader.reader.offset(),
        rest: loader.reader.into_parts(),
    })
}

/// State of reading a file.
struct Loader<'s, R> {
    server: &'s Server,
    reader: Reader<R>,
    database: u8,
    /// Last key that was read.
    key: Vec<u8>,
    /// Head of the memcached item that is read next.
    item: Option<ItemHead>,
    restored: Restored<'s>,
    /// Strings that were read and not stored.
    strings: Strings,
    now: Tick,
    /// Whether the instant is that of the file, and not the present.
    is_base: bool,
    /// Whether nothing is stored.
    is_trial: bool,
    keys: u64,
}

/// Reads a snapshot as a load does, and stores no key.
///
/// # Errors
/// The reason for which a server with the default settings does not load it.
pub fn try_load<R: io::Read>(source: R) -> Result<(), String> {
    let server = Server::new(Config::default(), Clock::System)?;
    let mut loader = Loader::new(&server, source);
    // Nothing has expired then, so that each value is read.
    loader.begin_base();
    loader.is_trial = true;
    loader.run()
}

impl<'s, R: io::Read> Loader<'s, R> {
    fn new(server: &'s Server, source: R) -> Self {
        let now = server.clock.now();
        Loader {
            server,
            reader: Reader::new(source),
            database: 0,
            key: Vec::new(),
            item: None,
            restored: Restored::new(server.keyspace.lock_many(&[], now).scene()),
            now,
            strings: Strings::default(),
            is_base: false,
            is_trial: false,
            keys: 0,
        }
    }

    /// Sets the instant to that of the file, which is read with its fields.
    fn begin_base(&mut self) {
        self.is_base = true;
        self.set_now(Tick(1));
    }

    fn set_now(&mut self, now: Tick) {
        self.now = now;
        self.restored.set_now(now);
    }

    /// Reads the file to its end, or until the server stops, and stores what was read.
    fn run(&mut self) -> Result<(), String> {
        let result = self.read();
        self.store_strings();
        result
    }

    fn store_strings(&mut self) {
        self.strings.store(&self.server.keyspace, self.now);
    }

    fn read(&mut self) -> Result<(), String> {
        let version = self.reader.begin().map_err(|error| error.to_string())?;
        log::info!("loading a snapshot file in {version}");
        loop {
            let offset = self.reader.offset();
            let at = |error: String| format!("offset {offset}: {error}");
            match self.reader.next().map_err(|error| error.to_string())? {
                Item::Field { name, value } => match name {
                    ITEM_FIELD => {
                        self.item = Some(
                            ItemHead::decode(value)
                                .ok_or_else(|| at("expected the head of an item".into()))?,
                        )
                    }
                    b"ctime" if self.is_base => {
                        let time = std::str::from_utf8(value).ok();
                        let seconds: u64 = time.and_then(|t| t.parse().ok()).unwrap_or(0);
                        let ms = seconds.saturating_mul(1000).max(1);
                        self.now = Tick(ms).min(self.server.clock.now());
                        self.restored.set_now(self.now);
                    }
                    _ => field(self.server, name, value),
                },
                Item::ModuleField(name) => return Err(at(module(&name))),
                Item::Library(code) => functions::load_library(self.server, code).map_err(at)?,
                Item::Database(number) => self.select(number).map_err(at)?,
                Item::Sizes { .. } => {}
                Item::Entry(entry) => {
                    if let Kind::Module(name) = &entry.kind {
                        return Err(at(module(name)));
                    }
                    self.key.clear();
                    self.key.extend_from_slice(entry.key);
                    let deadline = entry.deadline.map(Tick);
                    self.entry(deadline)?;
                    if self.server.stops() {
                        return Ok(());
                    }
                }
                Item::End => break,
            }
        }
        self.progress();
        Ok(())
    }

    fn select(&mut self, number: u64) -> Result<(), String> {
        let databases = self.server.keyspace.databases();
        self.database = u8::try_from(number)
            .ok()
            .filter(|number| usize::from(*number) < databases)
            .ok_or_else(|| format!("database {number}: there are {databases} (databases)"))?;
        Ok(())
    }

    /// Reads the value of the last key and stores it.
    fn entry(&mut self, deadline: Option<Tick>) -> Result<(), String> {
        let item = self.item.take();
        self.keys += 1;
        if self.keys.is_multiple_of(STEP_KEYS) {
            self.progress();
        }
        if deadline.is_some_and(|deadline| self.now > deadline) {
            self.server.loading.expired.fetch_add(1, Relaxed);
            return Ok(());
        }
        let offset = self.reader.offset();
        let read = self.reader.value(&mut self.restored);
        read.map_err(|error| error.to_string())?;
        if !self.restored.is_sound() {
            return Err(format!(
                "offset {offset}: expected distinct elements, found two of one name, in the value \
                 of key '{}' in database {}",
                self.key.escape_ascii(),
                self.database
            ));
        }
        if self.is_trial {
            return Ok(());
        }
        if self.restored.has_expired() {
            self.server.loading.expired.fetch_add(1, Relaxed);
            return Ok(());
        }
        if let Some(bytes) = self.restored.string()
            && bytes.len() < BATCH_BYTES_MAX
        {
            let is_full = self
                .strings
                .add(self.database, &self.key, bytes, deadline, item);
            if is_full {
                self.store_strings();
            }
            return Ok(());
        }
        // A file may contain a key twice.
        self.store_strings();
        let space = &self.server.keyspace;
        let key = space.key(self.database, &self.key);
        let mut view = space.lock_one(space.shard_of(&key), self.now);
        match (item, self.restored.string()) {
            (Some(head), Some(bytes)) => {
                let deadline = deadline.map_or(NewDeadline::Clear, NewDeadline::At);
                view.put_item(&key, &head, bytes, deadline);
                view.pass_cas(&key, head.cas);
            }
            _ => self.restored.store(&mut view, &key, deadline),
        }
        Ok(())
    }

    /// Updates the time and the numbers that INFO shows.
    fn progress(&mut self) {
        let loading = &self.server.loading;
        if !self.is_base {
            self.now = self.server.clock.now();
            self.restored.set_now(self.now);
        }
        loading.loaded_bytes.store(self.reader.offset(), Relaxed);
        let stored = self.keys - loading.expired.load(Relaxed);
        loading.keys.store(stored, Relaxed);
    }
}

fn module(name: &str) -> String {
    format!("data of module '{name}': modules are not supported")
}

/// Handles an additional field of the file.
fn field(server: &Server, name: &[u8], value: &[u8]) {
    let value = String::from_utf8_lossy(value);
    match name {
        b"repl-stream-db" => {
            let db = value.parse().unwrap_or(0);
            server.loading.stream_db.store(db, Relaxed);
        }
        b"mayfly-ver" => log::info!("the file was written by Mayfly {value}"),
        b"redis-ver" => log::info!("the file was written by Redis {value}"),
        b"valkey-ver" => log::info!("the file was written by Valkey {value}"),
        b"used-mem" => {
            let bytes = value.parse().unwrap_or(0);
            server.loading.used_bytes.store(bytes, Relaxed);
        }
        _ => {}
    }
}
