//! Snapshots while random operations of all types run: the entries passed to the sink must be the
//! keys as they were at the instant of the snapshot, each exactly once.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use store::stream::StreamId;
use store::{
    Batch, End, Hash, Keyspace, Kind, List, Loan, NewDeadline, Options, Record, RecordValue, Set,
    SnapshotSink, SnapshotStep, SortedSet, Stream, Tick, View,
};

const START: u64 = 1_700_000_000_000;
const DATABASES: u8 = 3;

#[derive(Clone, Debug)]
enum Op {
    String(u8, usize),
    Append(u8, usize),
    Hash(u8, u16, Option<u64>),
    Set(u8, u16, Option<u64>),
    SortedSet(u8, u16, Option<u64>),
    List(u8, u16),
    Stream(u8, u16),
    Shrink(u8),
    Deadline(u8, Option<u64>),
    Delete(u8),
    Copy(u8, u8, u8),
    Rename(u8, u8, u8),
    Many(u16),
    Advance(u64),
    Expire(u32),
    Tend(u32),
    Flush(u8),
    Swap(u8, u8),
    Select(u8),
    Policy(usize),
    MaxMemory(bool),
    Begin,
    Cancel,
    Walk(u32),
    Return,
}

const POLICIES: [&str; 5] = [
    "noeviction",
    "allkeys-s3fifo",
    "volatile-fifo",
    "allkeys-exact-lru",
    "allkeys-arc",
];

fn op() -> impl Strategy<Value = Op> {
    let key = || 0..40u8;
    let db = || 0..DATABASES;
    let ttl = || prop_oneof![1 => 1..60u64, 1 => 1..3000u64];
    let len = prop_oneof![6 => 0..40usize, 2 => 400..4000usize, 1 => 60_000..80_000usize];
    // Some collections are large: they have pages, or are not copied.
    let count = || prop_oneof![6 => 1..20u16, 2 => 100..700u16, 1 => 2000..4000u16];
    let maybe = || prop::option::of(ttl());
    prop_oneof![
        10 => (key(), len).prop_map(|(k, n)| Op::String(k, n)),
        3 => (key(), 0..3000usize).prop_map(|(k, n)| Op::Append(k, n)),
        4 => (key(), count(), maybe()).prop_map(|(k, n, t)| Op::Hash(k, n, t)),
        3 => (key(), count(), maybe()).prop_map(|(k, n, t)| Op::Set(k, n, t)),
        3 => (key(), count(), maybe()).prop_map(|(k, n, t)| Op::SortedSet(k, n, t)),
        3 => (key(), count()).prop_map(|(k, n)| Op::List(k, n)),
        2 => (key(), count()).prop_map(|(k, n)| Op::Stream(k, n)),
        3 => key().prop_map(Op::Shrink),
        4 => (key(), maybe()).prop_map(|(k, t)| Op::Deadline(k, t)),
        4 => key().prop_map(Op::Delete),
        2 => (key(), key(), db()).prop_map(|(a, b, db)| Op::Copy(a, b, db)),
        3 => (key(), key(), db()).prop_map(|(a, b, db)| Op::Rename(a, b, db)),
        2 => (0..2000u16).prop_map(Op::Many),
        4 => (0..100u64).prop_map(Op::Advance),
        5 => (1..60u32).prop_map(Op::Expire),
        4 => (1..60u32).prop_map(Op::Tend),
        1 => db().prop_map(Op::Flush),
        1 => (db(), db()).prop_map(|(a, b)| Op::Swap(a, b)),
        2 => db().prop_map(Op::Select),
        1 => (0..POLICIES.len()).prop_map(Op::Policy),
        1 => any::<bool>().prop_map(Op::MaxMemory),
        3 => Just(Op::Begin),
        1 => Just(Op::Cancel),
        10 => (0..80u32).prop_map(Op::Walk),
        4 => Just(Op::Return),
    ]
}

/// A database, a key, its deadline and the text of its value.
type Copied = BTreeMap<(u8, Vec<u8>), (Option<Tick>, String)>;

#[derive(Default)]
struct Collected(Mutex<Vec<Batch>>);

impl SnapshotSink for Collected {
    fn put(&self, batch: Batch) -> Batch {
        assert!(batch.bytes() > 0);
        let mut batches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        batches.push(batch);
        Batch::with_memory()
    }
}

fn lines(mut elements: Vec<String>) -> String {
    elements.sort();
    elements.join("\n")
}

fn text_of(value: &RecordValue<'_>, space: &Keyspace, now: u64) -> String {
    let scene = &space.scene(Tick(now));
    let text = String::from_utf8_lossy;
    let mut elements = Vec::new();
    match value {
        RecordValue::String(bytes) => return format!("string {}", text(bytes)),
        RecordValue::Item(head, bytes) => return format!("item {head:?} {}", text(bytes)),
        RecordValue::List(list) => {
            let elements: Vec<_> = list.iter(End::Left, 0).map(text).collect();
            return elements.join("\n");
        }
        RecordValue::Set(set) => set.each(scene, |member| {
            let deadline = set.deadline(member, scene);
            elements.push(format!("{} {deadline:?}", text(member)));
        }),
        RecordValue::SortedSet(set) => {
            set.each(0..set.len(scene), false, scene, |member, score| {
                let deadline = set.deadline(member, scene);
                elements.push(format!("{} {score} {deadline:?}", text(member)));
            });
        }
        RecordValue::Hash(hash) => hash.each(scene, |name, value, deadline| {
            elements.push(format!("{} {} {deadline:?}", text(name), text(value)));
        }),
        RecordValue::Packed(packed) => packed.elements().for_each(|(name, tail)| {
            let score = || f64::from_le_bytes(tail.try_into().unwrap_or_default());
            elements.push(match packed.kind() {
                Kind::Hash => format!("{} {} None", text(name), text(tail)),
                Kind::SortedSet => format!("{} {} Some(None)", text(name), score()),
                _ => format!("{} Some(None)", text(name)),
            });
        }),
        RecordValue::Stream(stream) => {
            for entry in stream.range(StreamId::MIN, StreamId::MAX, scene) {
                elements.push(format!("{:?} {:?}", entry.id, entry.deadline));
            }
        }
    }
    lines(elements)
}

/// A snapshot in progress.
struct Snapshot {
    now: u64,
    sink: Arc<Collected>,
    expected: Copied,
    copied: Copied,
    shard: usize,
    loan: Option<Loan>,
}

impl Snapshot {
    fn record(&mut self, record: &Record<'_>, space: &Keyspace) {
        let text = text_of(&record.value, space, self.now);
        if text.is_empty() {
            return; // All its elements had expired.
        }
        let at = (record.db, record.key.to_vec());
        let twice = self.copied.insert(at, (record.deadline, text));
        assert!(twice.is_none(), "each key is passed once");
    }

    fn collect(&mut self, space: &Keyspace) {
        let mut batches = self.sink.0.lock().unwrap_or_else(PoisonError::into_inner);
        for batch in std::mem::take(&mut *batches) {
            drop(batches);
            batch.each(&mut |record| self.record(record, space));
            batches = self.sink.0.lock().unwrap_or_else(PoisonError::into_inner);
        }
    }
}

struct Run {
    space: Keyspace,
    now: u64,
    db: u8,
    counter: u64,
    snapshot: Option<Snapshot>,
    completed: usize,
}

fn key_bytes(key: u8) -> Vec<u8> {
    let mut bytes = format!("k{key}").into_bytes();
    if key.is_multiple_of(13) {
        bytes.resize(250 + key as usize % 20, b'+');
    }
    bytes
}

fn element(number: u64) -> Vec<u8> {
    format!("element:{number}").into_bytes()
}

impl Run {
    fn new() -> Run {
        let options = Options {
            shards: 2,
            policy: "noeviction".into(),
            expiry: "wheel".into(),
            maxmemory: 0,
            hash_key: [1, 2],
            seed: 3,
        };
        Run {
            space: Keyspace::new(&options, Tick(START)).expect("valid options"),
            now: START,
            db: 0,
            counter: 0,
            snapshot: None,
            completed: 0,
        }
    }

    fn view(&self) -> View<'_> {
        self.space.lock_all(Tick(self.now))
    }

    /// Returns all keys with their values.
    fn copy_of_all(&self) -> Copied {
        let mut copied = Copied::new();
        let mut view = self.view();
        for db in 0..DATABASES {
            let (mut names, mut cursor) = (Vec::new(), 0);
            loop {
                cursor = view.scan(db, cursor, 100, &mut |name, kind| {
                    names.push((name.to_vec(), kind));
                });
                if cursor == 0 {
                    break;
                }
            }
            for (name, kind) in names {
                let key = self.space.key(db, &name);
                let deadline = view.deadline(&key).expect("the key is live");
                let of = |value: RecordValue<'_>| text_of(&value, &self.space, self.now);
                let text = match kind {
                    Kind::String => of(RecordValue::String(
                        view.peek(&key).expect("a string").expect("live"),
                    )),
                    Kind::List => {
                        read(view.read_list(&key, |v: &List, _| of(RecordValue::List(v))))
                    }
                    Kind::Set => read(view.read_set(&key, |v: &Set, _| of(RecordValue::Set(v)))),
                    Kind::SortedSet => {
                        read(view.read_sorted_set(&key, |v: &SortedSet, _| {
                            of(RecordValue::SortedSet(v))
                        }))
                    }
                    Kind::Hash => {
                        read(view.read_hash(&key, |v: &Hash, _| of(RecordValue::Hash(v))))
                    }
                    Kind::Stream => {
                        read(view.read_stream(&key, |v: &Stream, _| of(RecordValue::Stream(v))))
                    }
                };
                // All elements of a large collection may have expired, and some not be removed yet.
                if !text.is_empty() {
                    copied.insert((db, name), (deadline, text));
                }
            }
        }
        copied
    }

    /// Whether a command on a key, or on all keys if `None`, must wait for a loan.
    fn must_wait(&self, key: Option<&[u8]>) -> bool {
        let loan = self.snapshot.as_ref().and_then(|s| s.loan.as_ref());
        loan.is_some_and(|loan| key.is_none_or(|key| loan.key() == key))
    }

    fn step(&mut self, op: Op) {
        let db = self.db;
        self.counter += 1;
        match op {
            Op::Advance(ms) => self.now += ms,
            Op::Expire(steps) => {
                for shard in 0..self.space.shard_count() {
                    let now = Tick(self.now);
                    self.space
                        .expire(shard, now, steps, &mut vec![], &mut |_, _| {});
                }
            }
            Op::Tend(steps) => {
                for shard in 0..self.space.shard_count() {
                    self.space
                        .background_step(shard, Tick(self.now), steps, &mut vec![]);
                }
            }
            Op::Flush(db) if !self.must_wait(None) => self.view().flush(db),
            Op::Swap(a, b) if !self.must_wait(None) => self.view().swap(a, b),
            Op::Flush(_) | Op::Swap(..) => {}
            Op::Select(db) => self.db = db,
            Op::Policy(which) => self.space.set_policy(POLICIES[which]).expect("it exists"),
            Op::MaxMemory(is_limited) => {
                let used = self.space.memory_facts().used_bytes;
                self.space.set_maxmemory(if is_limited { used } else { 0 });
            }
            Op::Many(count) => {
                for number in 0..count {
                    let name = format!("many:{}:{number}", self.counter % 5);
                    let key = self.space.key(db, name.as_bytes());
                    self.view().set(&key, b"v", NewDeadline::Keep);
                }
            }
            Op::Begin => self.begin(),
            Op::Cancel => {
                self.return_loan();
                self.space.cancel_snapshot();
                self.snapshot = None;
            }
            Op::Walk(steps) => self.walk(steps),
            Op::Return => self.return_loan(),
            other => self.command(other),
        }
    }

    fn command(&mut self, op: Op) {
        let (db, now, counter) = (self.db, self.now, self.counter);
        let (Op::String(key, _)
        | Op::Append(key, _)
        | Op::Hash(key, ..)
        | Op::Set(key, ..)
        | Op::SortedSet(key, ..)
        | Op::List(key, _)
        | Op::Stream(key, _)
        | Op::Shrink(key)
        | Op::Deadline(key, _)
        | Op::Delete(key)
        | Op::Copy(key, ..)
        | Op::Rename(key, ..)) = op
        else {
            unreachable!("the others are above")
        };
        let name = key_bytes(key);
        let other = match op {
            Op::Copy(_, to, _) | Op::Rename(_, to, _) => key_bytes(to),
            _ => name.clone(),
        };
        if self.must_wait(Some(&name)) || self.must_wait(Some(&other)) {
            return;
        }
        let key = self.space.key(db, &name);
        let mut view = self.view();
        let at = |ttl: Option<u64>| ttl.map(|ttl| Tick(now + ttl));
        match op {
            Op::String(_, len) => view.set(&key, &vec![b's'; len], NewDeadline::Keep),
            Op::Append(_, len) => {
                let _ = view.edit(&key, |bytes| bytes.extend(vec![b'a'; len]));
            }
            Op::Hash(_, count, ttl) => drop(view.edit_hash(&key, true, |hash, scene| {
                for number in 0..u64::from(count) {
                    let name = element(counter % 7 + number);
                    hash.set(&name, &element(counter), scene);
                    hash.set_deadline(&name, at(ttl), scene);
                }
                Some(())
            })),
            Op::Set(_, count, ttl) => drop(view.edit_set(&key, true, |set, scene| {
                for number in 0..u64::from(count) {
                    let name = element(counter % 7 + number);
                    set.add(&name, scene);
                    set.set_deadline(&name, at(ttl), scene);
                }
                Some(())
            })),
            Op::SortedSet(_, count, ttl) => drop(view.edit_sorted_set(&key, true, |set, scene| {
                for number in 0..u64::from(count) {
                    let name = element(counter % 7 + number);
                    set.set(&name, counter as f64, scene);
                    set.set_deadline(&name, at(ttl), scene);
                }
                Some(())
            })),
            Op::List(_, count) => drop(view.edit_list(&key, true, |list, scene| {
                for number in 0..u64::from(count) {
                    list.push(End::Right, &element(counter + number), scene);
                }
                Some(())
            })),
            Op::Stream(_, count) => drop(view.edit_stream(&key, true, |stream, scene| {
                for _ in 0..count {
                    let id = stream.next_id(scene).expect("an ID is left");
                    let fields: &[(&[u8], &[u8])] = &[(b"name", b"value")];
                    stream.add(id, None, fields.iter().copied(), scene);
                }
                Some(())
            })),
            Op::Shrink(_) => drop(view.edit_list(&key, false, |list, scene| {
                for _ in 0..list.len() / 2 + 1 {
                    list.pop(End::Left, scene, |_| {});
                }
                Some(())
            })),
            Op::Deadline(_, ttl) => drop(view.set_deadline(&key, at(ttl))),
            Op::Delete(_) => drop(view.delete(&key)),
            Op::Copy(_, _, to_db) | Op::Rename(_, _, to_db) => {
                let to = self.space.key(to_db, &other);
                if (db, &name) == (to_db, &other) {
                    return;
                }
                if matches!(op, Op::Copy(..)) {
                    view.copy(&key, &to);
                } else {
                    view.rename(&key, &to);
                }
            }
            _ => unreachable!("it has a key"),
        }
    }

    fn begin(&mut self) {
        if self.snapshot.is_some() {
            return;
        }
        let sink = Arc::new(Collected::default());
        let snapshot = Snapshot {
            now: self.now,
            expected: self.copy_of_all(),
            copied: Copied::new(),
            sink: Arc::clone(&sink),
            shard: 0,
            loan: None,
        };
        let sink: Arc<dyn SnapshotSink> = sink;
        self.view().begin_snapshot(&sink);
        self.snapshot = Some(snapshot);
    }

    fn walk(&mut self, steps: u32) {
        let Some(snapshot) = &mut self.snapshot else {
            return;
        };
        match self.space.snapshot_step(snapshot.shard, steps) {
            SnapshotStep::More => {}
            SnapshotStep::Locked => unreachable!("there is one thread"),
            SnapshotStep::Large(db, name) if snapshot.loan.is_none() => {
                let mut view = self.space.lock_all(Tick(self.now));
                let key = self.space.key(db, &name);
                assert!(view.is_unsaved_large(&key));
                let loan = view.lend_unsaved(&key).expect("the value is large");
                snapshot.record(&loan.record(), &self.space);
                snapshot.loan = Some(loan);
            }
            SnapshotStep::Large(..) => self.return_loan(),
            SnapshotStep::Done => {
                snapshot.shard += 1;
                snapshot.collect(&self.space);
                if snapshot.shard == self.space.shard_count() {
                    self.return_loan();
                    self.compare();
                }
            }
        }
    }

    fn return_loan(&mut self) {
        let now = Tick(self.now);
        let Some(snapshot) = &mut self.snapshot else {
            return;
        };
        if let Some(loan) = snapshot.loan.take() {
            self.space.lock_all(now).take_loan_back(loan);
        }
    }

    fn compare(&mut self) {
        let snapshot = self.snapshot.take().expect("it was complete");
        for (at, value) in &snapshot.expected {
            let copied = snapshot.copied.get(at);
            assert_eq!(copied, Some(value), "{at:?}");
        }
        assert_eq!(snapshot.copied.len(), snapshot.expected.len());
        self.completed += 1;
        self.space.check();
    }
}

fn read<E: std::fmt::Debug>(read: Result<Option<String>, E>) -> String {
    read.expect("the type is known").expect("the key is live")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn a_snapshot_is_the_keys_at_one_instant(
        before in prop::collection::vec(op(), 1..200),
        ops in prop::collection::vec(op(), 1..300),
    ) {
        let mut run = Run::new();
        before.into_iter().for_each(|op| run.step(op));
        run.begin();
        ops.into_iter().for_each(|op| run.step(op));
        run.begin();
        while run.snapshot.is_some() {
            run.walk(50);
        }
        run.space.check();
        prop_assert!(run.completed > 0);
        // Nothing stays behind that would delay the removal of flushed databases.
        for shard in 0..run.space.shard_count() {
            while run.space.background_step(shard, Tick(run.now), 100, &mut vec![]) {}
        }
    }
}

#[test]
fn a_large_collection_whose_elements_have_all_expired_is_removed_before_it_is_saved() {
    // Regression: until the snapshot had saved it, the key existed without elements.
    for by_index in [false, true] {
        let mut run = Run::new();
        let key = run.space.key(0, b"large");
        let edited = run.view().edit_set(&key, true, |set, scene| {
            for number in 0..5_000 {
                set.add(&element(number), scene);
                set.update_deadline(&element(number), scene, |_| {
                    Some(Some(Tick(START + 10 + number % 3)))
                });
            }
            Some(())
        });
        assert!(edited.is_ok_and(|edited| edited.is_some()));
        run.begin();
        run.now += 13;
        assert!(run.view().is_unsaved_large(&key));
        if by_index {
            run.step(Op::Expire(50));
            assert_eq!(run.view().len(0), 0);
        }
        assert_eq!(run.view().kind(&key), None);
        assert_eq!(run.view().len(0), 0);
        run.view().set(&key, b"new", NewDeadline::Keep);
        while run.snapshot.is_some() {
            run.walk(50);
        }
        assert_eq!(run.completed, 1, "the snapshot has the set");
        assert_eq!(run.view().kind(&key), Some(Kind::String));
    }
}
