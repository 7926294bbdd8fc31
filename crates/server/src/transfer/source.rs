//! The thread of a primary of the source: stores its snapshot in the target, and then the keys that
//! change.

use super::connection::Connection;
use super::item::{Item, State, VALUE_BYTES_MAX, read_states, too_long};
use super::layout::Layout;
use super::link::{Link, Opening};
use super::target::Target;
use super::{Failure, Phase, Shard, Side};
use crate::changed::{self, Changed};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use wire::Args;
use wire::rdb::{Item as FileItem, Kind, Reader};
use wire::slot::slot;

/// Maximum number of keys that are sent before their replies are awaited.
const BATCH_KEYS_MAX: usize = 512;
/// Number of bytes of values after which a batch is sent.
const BATCH_BYTES: usize = 4 << 20;
/// Length from which on a value that changes again waits before it is read again.
const LARGE_BYTES: usize = 1 << 20;
/// Time for which it waits.
const LARGE_PAUSE: Duration = Duration::from_secs(10);
/// Number of changed keys from which on no further commands are read: the source keeps them.
const CHANGED_MAX: usize = 1 << 20;

/// Number of reads of the feed between two batches of changed keys.
const READS_MAX: usize = 16;
/// Number of keys that change during one turn, up to which the writes of the source may be paused:
/// the pause is about as long as a turn.
const CLOSE_KEYS: usize = 4096;

/// A key with its database.
type Named = (u64, Box<[u8]>);

/// What a thread works with.
pub(super) struct Work<'a> {
    pub source: &'a Side,
    pub layout: &'a Layout,
    /// Index of the primary in the layout.
    pub index: usize,
    pub shard: &'a Shard,
    pub stops: &'a AtomicBool,
    pub target: Target<'a>,
    /// Number of failures of the target's connections after which all keys were stored again.
    pub failures_seen: u64,
    /// Connection for the values of changed keys.
    pub reader: Connection,
    /// Number of keys of the next batch of changed ones.
    pub batch_keys: usize,
}

/// What the commands of the feed have changed.
#[derive(Default)]
struct Touched {
    db: u64,
    changed: HashSet<Named>,
    /// Whether any keys of the target may be wrong, and keys of the source may be unknown.
    any: bool,
    /// Large keys that were read, and when they may be read again.
    large: HashMap<Named, Instant>,
}

impl Work<'_> {
    /// Copies the keys until all is stopped.
    pub fn run(&mut self) -> Result<(), Failure> {
        let node = &self.layout.nodes[self.index];
        let opening = Opening::new(self.source, &node.host, node.port, self.stops)?;
        let total = opening.length.unwrap_or(0);
        self.shard.snapshot_total.store(total, Relaxed);
        self.shard.enter(Phase::Snapshot);
        let mut link = self.load(opening)?;
        self.shard.enter(Phase::Following);
        let mut touched = Touched::default();
        while !self.stops.load(Relaxed) {
            self.follow(&mut link, &mut touched)?;
        }
        Ok(())
    }

    /// Whether a key belongs to this primary: a slot that was given away may have left some.
    fn has(&self, key: &[u8]) -> bool {
        self.layout.owner(slot(key)) == Some(self.index)
    }

    fn store(&mut self, db: u64, items: &mut Vec<Item>) -> Result<(), Failure> {
        self.target.store(db, items)?;
        self.shard.keys.fetch_add(items.len() as u64, Relaxed);
        let states = items.drain(..).filter_map(|item| item.state);
        let bytes: usize = states.map(|state| state.payload.len()).sum();
        self.shard.bytes.fetch_add(bytes as u64, Relaxed);
        Ok(())
    }

    /// Stores the keys of the snapshot.
    fn load(&mut self, opening: Opening<'_>) -> Result<Link, Failure> {
        let address = self.reader.address.clone();
        let failed = |why: String| format!("{address}: the snapshot: {why}");
        let (stream, rest) = opening.split();
        let mut file = Reader::new(stream);
        let read = file.begin();
        read.map_err(|error| failed(error.to_string()))?;
        let (mut db, mut bytes) = (0, 0);
        let mut items: Vec<Item> = Vec::new();
        loop {
            let item = file.next().map_err(|error| failed(error.to_string()))?;
            let entry = match item {
                FileItem::Entry(entry) => entry,
                FileItem::Database(number) => {
                    self.store(db, &mut items)?;
                    db = number;
                    continue;
                }
                FileItem::End => break,
                _ => continue,
            };
            let (key, deadline) = (Box::<[u8]>::from(entry.key), entry.deadline);
            if let Kind::Module(name) = entry.kind {
                let key = key.escape_ascii();
                return Err(failed(format!(
                    "key '{key}' in database {db} has a value of module '{name}', which no other server reads"
                )));
            }
            if !self.has(&key) {
                continue;
            }
            let raw = file.raw_value(VALUE_BYTES_MAX);
            let raw = raw.map_err(|error| failed(error.to_string()))?;
            let payload = raw.map(|raw| raw.payload()).ok_or_else(|| too_long(&key))?;
            bytes += payload.len();
            let state = Some(State { deadline, payload });
            items.push(Item { key, state });
            self.shard.snapshot_done.store(file.offset(), Relaxed);
            if items.len() >= BATCH_KEYS_MAX || bytes >= BATCH_BYTES {
                self.store(db, &mut items)?;
                bytes = 0;
                if self.stops.load(Relaxed) {
                    return Err("stopped".to_owned());
                }
            }
        }
        self.store(db, &mut items)?;
        let length = file.offset();
        let (stream, ahead) = file.into_parts();
        rest.follow(stream, ahead, length)
    }

    /// Reads some commands, and sends the keys that have changed.
    fn follow(&mut self, link: &mut Link, touched: &mut Touched) -> Result<(), Failure> {
        let goal = self.shard.goal.load(Relaxed);
        let (mut has_more, mut reads) = (true, 0);
        while has_more && reads < READS_MAX && touched.changed.len() < CHANGED_MAX {
            has_more = link.read(|args| self.note(args, touched))?;
            reads += 1;
        }
        link.acknowledge()?;
        if touched.any || self.target.failures != self.failures_seen {
            self.shard.is_close.store(false, Relaxed);
            (touched.any, self.failures_seen) = (false, self.target.failures);
            let layout = self.target.layout.clone();
            self.sweep(link)?;
            touched.any = self.target.layout != layout;
        }
        let is_final = link.position >= goal;
        let now = Instant::now();
        touched.large.retain(|_, until| *until > now);
        let large = &touched.large;
        let taken: Vec<Named> = touched
            .changed
            .iter()
            .filter(|named| is_final || !large.contains_key(*named))
            .cloned()
            .collect();
        for named in &taken {
            touched.changed.remove(named);
        }
        let is_close = !has_more && !touched.any && taken.len() <= CLOSE_KEYS;
        self.shard.waiting.store(taken.len() as u64, Relaxed);
        self.send(taken, &mut touched.large, link)?;
        self.shard.position.store(link.position, Relaxed);
        self.shard.is_close.store(is_close, Relaxed);
        let waiting = touched.changed.len() as u64;
        self.shard.waiting.store(waiting, Relaxed);
        // The goal was read first: a later one is for a later turn.
        let has_all = touched.changed.is_empty() && !touched.any;
        if is_final && has_all && self.target.failures == self.failures_seen {
            self.shard.reached.store(goal, Relaxed);
        }
        Ok(())
    }

    /// Takes note of what a command of the feed changes.
    fn note(&self, args: Args<'_>, touched: &mut Touched) -> Result<(), Failure> {
        match changed::by(args)? {
            Changed::Nothing => {}
            Changed::Selected(db) => touched.db = db,
            Changed::Emptied | Changed::Exchanged | Changed::Tagged(..) => touched.any = true,
            Changed::Unknown => {
                let name = args.name().escape_ascii();
                return Err(format!(
                    "its feed has the command '{name}', whose keys are not known"
                ));
            }
            Changed::Named(keys, other) => keys.each(args, |at| {
                let key = &args[at];
                if self.has(key) {
                    let all = other.into_iter().chain([touched.db]);
                    touched.changed.extend(all.map(|db| (db, Box::from(key))));
                }
            }),
        }
        Ok(())
    }

    /// Sends keys as they are now at the source.
    fn send(
        &mut self,
        mut keys: Vec<Named>,
        large: &mut HashMap<Named, Instant>,
        link: &mut Link,
    ) -> Result<(), Failure> {
        keys.sort_unstable();
        let mut rest = &keys[..];
        while let Some((db, _)) = rest.first() {
            let len = rest.iter().take_while(|named| named.0 == *db).count();
            let (batch, further) = rest.split_at(len.min(self.batch_keys));
            rest = further;
            let mut items = self.read(*db, batch)?;
            let mut bytes = 0;
            for item in &items {
                let len = item.state.as_ref().map_or(0, |state| state.payload.len());
                bytes += len;
                if len >= LARGE_BYTES {
                    large.insert((*db, item.key.clone()), Instant::now() + LARGE_PAUSE);
                }
            }
            // The memory that a batch takes follows from the values of the one before.
            self.batch_keys = match bytes {
                0..BATCH_BYTES => (self.batch_keys * 2).min(BATCH_KEYS_MAX),
                _ => (self.batch_keys / 4).max(1),
            };
            self.store(*db, &mut items)?;
            link.acknowledge()?;
        }
        Ok(())
    }

    /// Reads keys of a database at the source. A change between the two commands of a key is in the
    /// feed, so that the key is read again.
    fn read(&mut self, db: u64, keys: &[Named]) -> Result<Vec<Item>, Failure> {
        read_states(&mut self.reader, db, keys.iter().map(|(_, key)| &key[..]))
    }

    /// Sends all keys that the target has, and all that the source has: so those that the source
    /// does not have any more leave the target.
    fn sweep(&mut self, link: &mut Link) -> Result<(), Failure> {
        for index in 0..self.target.layout.nodes.len() {
            let sizes = self.target.node(index)?.sizes()?;
            for db in sizes.into_keys() {
                let mut cursor = "0".to_owned();
                loop {
                    let (next, keys) = self.target.node(index)?.scan(db, &cursor)?;
                    self.send_own(db, keys, link)?;
                    cursor = next;
                    if cursor == "0" {
                        break;
                    }
                }
            }
        }
        for db in self.reader.sizes()?.into_keys() {
            let mut cursor = "0".to_owned();
            loop {
                let (next, keys) = self.reader.scan(db, &cursor)?;
                self.send_own(db, keys, link)?;
                cursor = next;
                if cursor == "0" {
                    break;
                }
            }
        }
        Ok(())
    }

    fn send_own(&mut self, db: u64, keys: Vec<Box<[u8]>>, link: &mut Link) -> Result<(), Failure> {
        let own = keys.into_iter().filter(|key| self.has(key));
        let named: Vec<Named> = own.map(|key| (db, key)).collect();
        self.send(named, &mut HashMap::new(), link)
    }
}
