//! Loads a snapshot file into the keyspace.

use crate::loading::storing::{Failure, Marks, Storer};
use crate::loading::threads::{EndOnDrop, Queue};
use crate::replication::primary;
use crate::state::Server;
use durability::loading::Loading;
use durability::loading::batch::{BYTES_MAX, Batch, Content, Entry, RAW_BYTES_MAX};
use durability::replication::EARLIEST;
use session::clock::Clock;
use settings::{Config, Id};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, Builder};
use std::time::Instant;
use store::{ItemHead, Key, Tick};
use wire::dump::ValueType;
use wire::number::parse_i64;
use wire::rdb::{ITEM_FIELD, Item, Kind, PROTECTED_FIELD, Reader, TAGS_FIELD};

/// Number of keys after which the time and the progress are updated.
const STEP_KEYS: u64 = 256;

/// Runs the code of a function library that a snapshot contains, and adds the library or replaces
/// one of the same name. The error has no offset.
pub type AddLibrary = fn(&Server, &[u8]) -> Result<(), String>;

/// Ends a load when it is dropped.
pub struct Begun<'s>(pub &'s Loading);

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn seconds(clock: &Clock) -> u64 {
    clock.now_us() / 1_000_000
}

/// Returns the path of the snapshot file.
pub fn path(config: &Config) -> PathBuf {
    config.path(Id::DbFilename).into()
}

/// Opens the snapshot file, or the one that the process before a restart has left, and begins to
/// refuse commands on keys, before the first client is served. Returns `None` if there is no file,
/// or if the engine loads none.
///
/// # Errors
/// The file exists and cannot be read.
pub fn prepare(server: &Server) -> Result<Option<Source>, String> {
    let inherited = server.lifecycle.restart.inherited();
    if inherited.is_some() && server.data.segments.is_some() {
        return Err("the segment engine cannot load the keys of the process before".to_owned());
    }
    let is_inherited = inherited.is_some();
    let path = inherited.unwrap_or_else(|| path(&server.config));
    let file = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound && !is_inherited => return Ok(None),
        opened => opened.map_err(|error| format!("{}: {error}", path.display()))?,
    };
    if server.data.segments.is_some() {
        log::warn!(
            "{} is not loaded: the segment engine loads no files",
            path.display()
        );
        return Ok(None);
    }
    server.persistence.loading.is_from_file.store(true, Relaxed);
    begin(
        &server.persistence.loading,
        &server.clock,
        path.display().to_string(),
        file,
    )
    .map(Some)
}

/// Begins to refuse commands on keys until a file is loaded.
fn begin(loading: &Loading, clock: &Clock, name: String, file: File) -> Result<Source, String> {
    let found = file.metadata();
    let bytes = found.map_err(|error| format!("{name}: {error}"))?.len();
    loading.begin(seconds(clock));
    Ok(Source { name, file, bytes })
}

/// An open file to load.
pub struct Source {
    /// The file's path.
    pub name: String,
    /// The file.
    pub file: File,
    /// The file's size in bytes.
    pub bytes: u64,
}

/// Loads a file of `total_bytes` (0 if unknown) into the keyspace. A key that exists is replaced.
/// `name` describes the source in the log and in errors. Takes the locks of single shards, so the
/// caller must not hold any. Commands on keys are refused meanwhile.
///
/// # Errors
/// The file is damaged or contains something that this server does not support. Everything before
/// the damage has been stored and, with several threads, possibly some of what follows it.
pub fn load(
    server: &Server,
    name: &str,
    source: impl io::Read,
    total_bytes: u64,
    origin: Origin,
    add_library: AddLibrary,
) -> Result<(), String> {
    let loading = &server.persistence.loading;
    loading.begin(seconds(&server.clock));
    loading.total_bytes.store(total_bytes, Relaxed);
    let begun = Begun(loading);
    let changes = server.data.keyspace.changes();
    let result = load_parts(server, name, source, origin, add_library);
    server
        .persistence
        .saving
        .ignore_changes(server.data.keyspace.changes().wrapping_sub(changes));
    server.scripting.free_functions();
    // The workers expire the keys from now on.
    server.workers.wake_all();
    drop(begun);
    result.map(|_| ())
}

/// Error for a file that cannot be loaded.
pub const NOT_LOADED: &str = "ERR Error trying to load the RDB dump, check server logs.";

/// Reloads the snapshot file for DEBUG RELOAD, after all keys were removed if `flushes` is true.
/// The caller holds no shard, and no other command runs on its thread meanwhile.
///
/// # Errors
/// There is no file, or it is damaged. The message is a reply.
pub fn reload(server: &Server, flushes: bool, add_library: AddLibrary) -> Result<(), &'static str> {
    let path = path(&server.config);
    let name = path.display().to_string();
    let opened = File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
    let loaded = opened.map_err(|error| format!("{name}: {error}"));
    let loaded = loaded.and_then(|(bytes, file)| {
        if flushes {
            let mut view = server.data.keyspace.lock_all(server.clock.now());
            (0..server.data.keyspace.databases()).for_each(|db| view.flush(db as u8));
        }
        // What was changed is not in the feed.
        server.persistence.aof.distrust();
        load(server, &name, file, bytes, Origin::Other, add_library)
    });
    loaded.map_err(|error| {
        log::warn!("DEBUG RELOAD: {error}");
        NOT_LOADED
    })
}

/// Data read from a source.
pub struct Loaded<R> {
    /// Offset after the snapshot.
    pub offset: u64,
    /// The source and the bytes that were read beyond the snapshot.
    pub rest: (R, Vec<u8>),
}

/// Purpose of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The file from which the server starts. Its history is continued, if it has one.
    Start,
    /// The base that a feed follows, as in an append-only file. Nothing counts as expired.
    Base,
    /// Any other.
    Other,
}

/// Loads a snapshot within a load that has begun.
///
/// # Errors
/// Returns the errors of [`load`].
pub fn load_parts<R: io::Read>(
    server: &Server,
    name: &str,
    source: R,
    origin: Origin,
    add_library: AddLibrary,
) -> Result<Loaded<R>, String> {
    let loading = &server.persistence.loading;
    let start = Instant::now();
    let mut loader = Loader::new(server, source, add_library);
    loader.is_start = origin == Origin::Start;
    if origin == Origin::Base {
        loader.begin_base();
    }
    let threads = thread_count(&server.config);
    let result = match threads {
        1 => loader.run(),
        _ => run_with_others(&mut loader, threads - 1),
    };
    result.map_err(|error| format!("{name}: {error}"))?;
    log::info!(
        "loaded {} keys from {name} in {:.3} s with {}; {} had expired{}",
        loading.keys.load(Relaxed),
        start.elapsed().as_secs_f64(),
        match threads {
            1 => "one thread".to_owned(),
            _ => format!("{threads} threads"),
        },
        loading.expired.load(Relaxed),
        match loading.empty.load(Relaxed) {
            0 => String::new(),
            empty => format!(", {empty} were empty collections"),
        }
    );
    Ok(Loaded {
        offset: loader.reader.offset(),
        rest: loader.reader.into_parts(),
    })
}

/// Maximum number of threads that load a file unless the setting says otherwise. The thread that
/// reads the file keeps no more of them busy.
const THREADS_MAX: usize = 8;

/// Returns the number of threads that load a file.
fn thread_count(config: &Config) -> usize {
    match config.number(Id::LoadThreads) {
        0 => thread::available_parallelism().map_or(1, |cores| cores.get().min(THREADS_MAX)),
        threads => threads as usize,
    }
}

/// Runs a loader, with other threads that store what it reads. Fewer are used if the system does
/// not start all of them.
fn run_with_others<'s, R: io::Read>(
    loader: &mut Loader<'s, R>,
    others: usize,
) -> Result<(), String> {
    let queue = &Queue::new(loader.server);
    thread::scope(|scope| {
        let _end = EndOnDrop(queue);
        for number in 1..=others {
            let thread = Builder::new().name(format!("loader-{number}"));
            if let Err(error) = thread.spawn_scoped(scope, || queue.work()) {
                log::warn!("thread {number} for the load: {error}");
                break;
            }
        }
        loader.run_with(Some(queue))
    })
}

/// State of reading a file.
struct Loader<'s, R> {
    server: &'s Server,
    add_library: AddLibrary,
    reader: Reader<R>,
    database: u8,
    /// Last key that was read.
    key: Vec<u8>,
    /// Head of the memcached item that is read next.
    item: Option<ItemHead>,
    /// Tags, freshness and protection of the key that is read next.
    marks: Marks,
    storer: Storer<'s>,
    /// For each shard, keys that were read and not stored.
    batches: Vec<Batch>,
    now: Tick,
    /// Whether the instant comes from the file instead of being the current one.
    is_base: bool,
    /// Whether the server starts with the file.
    is_start: bool,
    /// Identifier of the file's history.
    history: Option<String>,
    /// Whether nothing is stored.
    is_trial: bool,
    keys: u64,
}

/// Reads a snapshot as a load does, and stores no key.
///
/// # Errors
/// Returns the reason why a server with default settings does not load it.
pub fn try_load<R: io::Read>(source: R, add_library: AddLibrary) -> Result<(), String> {
    let server = Server::new(Config::default(), Clock::System)?;
    let mut loader = Loader::new(&server, source, add_library);
    // Nothing has expired then, so that each value is read.
    loader.begin_base();
    loader.is_trial = true;
    loader.run()
}

/// Queue for the other threads; `None` if there are none.
type Others<'q, 's> = Option<&'q Queue<'s>>;

impl<'s, R: io::Read> Loader<'s, R> {
    fn new(server: &'s Server, source: R, add_library: AddLibrary) -> Self {
        let now = server.clock.now();
        let mut batches = Vec::new();
        batches.resize_with(server.data.keyspace.shard_count(), Batch::default);
        Loader {
            server,
            add_library,
            reader: Reader::new(source),
            database: 0,
            key: Vec::new(),
            item: None,
            marks: Marks::default(),
            storer: Storer::new(server, now),
            batches,
            now,
            is_base: false,
            is_start: false,
            history: None,
            is_trial: false,
            keys: 0,
        }
    }

    /// Sets the instant to the file's, which is read with its fields.
    fn begin_base(&mut self) {
        self.is_base = true;
        self.set_now(EARLIEST);
    }

    /// Continues the history of the file at a position. The file represents the keys that replicas
    /// have there, so that entries that have expired since then are loaded, and removed with a
    /// deletion.
    fn continue_history(&mut self, position: Option<u64>) {
        if let Some((id, position)) = self.history.take().zip(position)
            && self.keys == 0
            && primary::continue_history(self.server, &id, position)
        {
            log::info!("replicas at position {position} of the history {id} can continue");
            self.begin_base();
        }
    }

    fn set_now(&mut self, now: Tick) {
        self.now = now;
        self.storer.restored.set_now(now);
    }

    /// Reads the file to its end, or until the server stops, and stores what was read.
    fn run(&mut self) -> Result<(), String> {
        self.run_with(None)
    }

    /// Like [`Loader::run`], with other threads.
    fn run_with(&mut self, others: Others<'_, 's>) -> Result<(), String> {
        let mut result = self.read(others);
        let stored: Result<(), Failure> =
            (0..self.batches.len()).try_for_each(|shard| self.store_batch(shard, others));
        let mut failure = stored.err();
        if let Some(queue) = others {
            queue.finish(&mut self.storer);
            failure = failure.or(queue.take_failure());
        }
        // What failed when it was stored precedes in the file what failed when it was read.
        if let Some(failure) = failure {
            result = Err(failure.why);
        }
        if result.is_ok() {
            self.progress();
        }
        result
    }

    /// Stores the keys of a shard that were read, or leaves that to the other threads.
    fn store_batch(&mut self, shard: usize, others: Others<'_, 's>) -> Result<(), Failure> {
        let batch = &mut self.batches[shard];
        if batch.is_empty() {
            return Ok(());
        }
        batch.now = self.now;
        match others {
            Some(queue) => {
                let full = std::mem::take(batch);
                self.batches[shard] = queue.add(shard, full, &mut self.storer);
                self.storer.restored.set_now(self.now);
                Ok(())
            }
            None => {
                let result = self.storer.store(batch);
                batch.clear();
                result
            }
        }
    }

    fn read(&mut self, others: Others<'_, 's>) -> Result<(), String> {
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
                    TAGS_FIELD => {
                        let labels = store::decode_labels(value);
                        labels.ok_or_else(|| at("expected the tags of a key".into()))?;
                        self.marks.labels = value.to_vec();
                    }
                    PROTECTED_FIELD => self.marks.is_protected = true,
                    b"ctime" if self.is_base => {
                        let time = std::str::from_utf8(value).ok();
                        let seconds: u64 = time.and_then(|t| t.parse().ok()).unwrap_or(0);
                        let ms = seconds.saturating_mul(1000).max(1);
                        self.set_now(Tick(ms).min(self.server.clock.now()));
                    }
                    b"repl-id" if self.is_start => {
                        self.history = Some(String::from_utf8_lossy(value).into_owned());
                    }
                    b"repl-offset" if self.is_start => {
                        let position = parse_i64(value).and_then(|at| u64::try_from(at).ok());
                        self.continue_history(position);
                    }
                    _ => field(&self.server.persistence.loading, name, value),
                },
                Item::ModuleField(name) => return Err(at(module(&name))),
                Item::Library(code) => (self.add_library)(self.server, code).map_err(at)?,
                Item::Database(number) => self.select(number).map_err(at)?,
                Item::Sizes { .. } => {}
                Item::Entry(entry) => {
                    let is_string = match &entry.kind {
                        Kind::Module(name) => return Err(at(module(name))),
                        Kind::Value(kind) => *kind == ValueType::String,
                    };
                    self.key.clear();
                    self.key.extend_from_slice(entry.key);
                    let deadline = entry.deadline.map(Tick);
                    self.entry(deadline, is_string, others)?;
                    if self.server.lifecycle.stops() {
                        break;
                    }
                    if self.server.persistence.loading.is_cancelled() {
                        return Err("the load was cancelled, because the role changes".to_owned());
                    }
                }
                Item::End => break,
            }
        }
        Ok(())
    }

    fn select(&mut self, number: u64) -> Result<(), String> {
        let databases = self.server.data.keyspace.databases();
        self.database = u8::try_from(number)
            .ok()
            .filter(|number| usize::from(*number) < databases)
            .ok_or_else(|| format!("database {number}: there are {databases} (databases)"))?;
        Ok(())
    }

    /// Reads the value of the last key and stores it, immediately or with others of its shard.
    fn entry(
        &mut self,
        deadline: Option<Tick>,
        is_string: bool,
        others: Others<'_, 's>,
    ) -> Result<(), String> {
        let content = self.item.take().map_or(Content::String, Content::Item);
        let marks = std::mem::take(&mut self.marks);
        let is_plain = marks == Marks::default();
        self.keys += 1;
        if self.keys.is_multiple_of(STEP_KEYS) {
            self.progress();
        }
        if deadline.is_some_and(|deadline| self.now > deadline) {
            self.server
                .persistence
                .loading
                .expired
                .fetch_add(1, Relaxed);
            return Ok(());
        }
        let key = self.server.data.keyspace.key(self.database, &self.key);
        let shard = self.server.data.keyspace.shard_of(&key);
        let offset = self.reader.offset();
        // Keys with tags, a freshness or protection are stored one by one.
        if !is_string && others.is_some() && is_plain {
            let raw = self.reader.raw_value(RAW_BYTES_MAX);
            if let Some(raw) = raw.map_err(|error| error.to_string())? {
                let is_full = self.batches[shard].add(&Entry {
                    key,
                    value: raw.bytes,
                    deadline,
                    content: Content::Raw(raw.head),
                });
                return self.added(shard, is_full, others);
            }
        }
        let read = self.reader.value(&mut self.storer.restored);
        read.map_err(|error| error.to_string())?;
        let has_content = self.storer.has_content(&key, offset);
        if !has_content.map_err(|failure| failure.why)? || self.is_trial {
            return Ok(());
        }
        if let Some(value) = self.storer.restored.string()
            && value.len() < BYTES_MAX
            && is_plain
        {
            let is_full = self.batches[shard].add(&Entry {
                key,
                value,
                deadline,
                content,
            });
            return self.added(shard, is_full, others);
        }
        self.store_built(shard, deadline, content, others)?;
        if !is_plain {
            let key = self.server.data.keyspace.key(self.database, &self.key);
            self.storer.mark(&key, &marks, self.now);
        }
        Ok(())
    }

    /// Stores the batch to which a key was just added, if the batch is full.
    fn added(&mut self, shard: usize, is_full: bool, others: Others<'_, 's>) -> Result<(), String> {
        if is_full {
            let stored = self.store_batch(shard, others);
            stored.map_err(|failure| failure.why)?;
            if others.is_some_and(Queue::has_failed) {
                // The failure is reported when what precedes it was stored.
                return Err("a value cannot be loaded".to_owned());
            }
        }
        Ok(())
    }

    /// Stores the built value of the last key, after all preceding ones in its shard, because a
    /// file may contain a key twice.
    fn store_built(
        &mut self,
        shard: usize,
        deadline: Option<Tick>,
        content: Content,
        others: Others<'_, 's>,
    ) -> Result<(), String> {
        // Storing others would replace the value that was built.
        let built = self.storer.restored.take();
        let stored = self.store_batch(shard, others);
        stored.map_err(|failure| failure.why)?;
        if let Some(queue) = others {
            queue.finish_shard(shard, &mut self.storer);
        }
        self.set_now(self.now);
        self.storer.restored.put_back(built);
        let key: Key<'_> = self.server.data.keyspace.key(self.database, &self.key);
        self.storer.store_built(&key, deadline, content, self.now);
        Ok(())
    }

    /// Updates the time and the numbers that INFO shows.
    fn progress(&mut self) {
        let loading = &self.server.persistence.loading;
        if !self.is_base {
            self.set_now(self.server.clock.now());
        }
        loading.loaded_bytes.store(self.reader.offset(), Relaxed);
        let not_stored = loading.expired.load(Relaxed) + loading.empty.load(Relaxed);
        let stored = self.keys.saturating_sub(not_stored);
        loading.keys.store(stored, Relaxed);
    }
}

fn module(name: &str) -> String {
    format!("data of module '{name}': modules are not supported")
}

/// Handles an additional field of the file.
fn field(loading: &Loading, name: &[u8], value: &[u8]) {
    let value = String::from_utf8_lossy(value);
    match name {
        b"repl-stream-db" => {
            let db = value.parse().unwrap_or(0);
            loading.stream_db.store(db, Relaxed);
        }
        b"mayfly-ver" => log::info!("the file was written by Mayfly {value}"),
        b"redis-ver" => log::info!("the file was written by Redis {value}"),
        b"valkey-ver" => log::info!("the file was written by Valkey {value}"),
        b"used-mem" => {
            let bytes = value.parse().unwrap_or(0);
            loading.used_bytes.store(bytes, Relaxed);
        }
        _ => {}
    }
}
