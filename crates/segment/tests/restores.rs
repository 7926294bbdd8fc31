//! Engines in a file: data that a restart continues with, and effects of damage.
#![cfg(all(target_os = "linux", not(miri)))]

use policy::{Budget, Tick};
use segment::{Condition, Config, Eviction, FileSizes, Item, Segcache, Value, Writer};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

const OFFSET: u64 = 4096;
const EVICTIONS: [Eviction; 4] = [
    Eviction::Rent,
    Eviction::Merge,
    Eviction::S3Fifo,
    Eviction::Cte,
];

fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// A file that is removed at the end.
struct Backing {
    path: PathBuf,
    file: File,
}

impl Backing {
    fn new(name: &str, sizes: FileSizes) -> Backing {
        let name = format!("mayfly-restores-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(true);
        let file = options.open(&path).expect("a free path");
        let bytes = OFFSET + sizes.segments_bytes;
        file.set_len(bytes).expect("room");
        Backing { path, file }
    }

    fn engine(&self, config: &Config, saved: Option<&[u64]>) -> Option<Segcache> {
        Segcache::in_file(config, &self.file, OFFSET, saved).expect("it can be mapped")
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn config(eviction: Eviction) -> Config {
    Config {
        memory_bytes: 300 << 10,
        segment_bytes: 4 << 10,
        writers: 2,
        eviction,
        hash_key: [17, 4],
        ..Config::default()
    }
}

fn name(number: u64) -> Vec<u8> {
    format!("key:{number}").into_bytes()
}

fn value(number: u64, version: u64) -> Vec<u8> {
    let len = 1 + mix(number ^ version << 32) % 120;
    (0..len)
        .map(|at| mix(number ^ version << 20 ^ at << 48) as u8)
        .collect()
}

/// Value and deadline of each key that is present.
type Found = BTreeMap<u64, (Vec<u8>, Item)>;

fn found(cache: &Segcache, keys: u64, now: Tick) -> Found {
    let mut all = Found::new();
    for number in 0..keys {
        let (name, mut bytes) = (name(number), Vec::new());
        let key = cache.key(&name);
        if let Some(item) = cache.peek(&key, now, &mut bytes) {
            all.insert(number, (bytes, item));
        }
    }
    all
}

/// Performs random writes, reads and deletions.
fn work(cache: &Segcache, writers: &mut [Writer], seed: u64, count: u64, now: Tick) {
    for step in 0..count {
        let random = mix(seed << 32 ^ step);
        let number = random % 3000;
        let name = name(number);
        let key = cache.key(&name);
        let writer = &mut writers[(random >> 40) as usize % 2];
        match random >> 32 & 7 {
            0 => {
                cache
                    .delete(&key, Condition::Always, now)
                    .expect("no condition");
            }
            1..4 => {
                cache.contains(&key, now);
            }
            kind => {
                let ttl = [None, Some(5_000), Some(60_000), Some(4_000_000)][kind as usize - 4];
                let bytes = value(number, step);
                let always = Condition::Always;
                let _full = cache.set(writer, &key, Value::plain(&bytes), ttl, always, now);
            }
        }
        cache.maintain(writer, now, &mut Budget(8));
    }
}

fn writers(cache: &Segcache) -> Vec<Writer> {
    (0..2)
        .map(|_| cache.writer().expect("one of two"))
        .collect()
}

fn settled(cache: &Segcache, writers: &mut [Writer]) -> Vec<u64> {
    writers.iter_mut().for_each(|writer| cache.settle(writer));
    cache.save().expect("no writer works")
}

#[test]
fn every_object_is_there_after_a_restart() {
    for eviction in EVICTIONS {
        let config = config(eviction);
        let sizes = Segcache::<segment::Stored>::file_sizes(&config).expect("valid sizes");
        let backing = Backing::new(eviction.name(), sizes);
        let mut saved: Option<Vec<u64>> = None;
        let mut before = Found::new();
        for round in 0..30 {
            let now = Tick(1_000_000 + round * 1_000);
            let cache = backing.engine(&config, saved.as_deref()).expect("whole");
            cache.check();
            before.retain(|_, (_, item)| item.deadline.is_none_or(|deadline| now <= deadline));
            assert!(
                found(&cache, 3000, now) == before,
                "{eviction:?}, round {round}"
            );
            let mut writers = writers(&cache);
            work(&cache, &mut writers, round, 3_000, now);
            cache.check();
            // An eviction in progress is finished, which may remove objects.
            let words = settled(&cache, &mut writers);
            before = found(&cache, 3000, now);
            assert!(before.len() > 100, "{}", before.len());
            assert!(words.len() as u64 <= sizes.saved_words_max);
            saved = Some(words);
        }
    }
}

#[test]
fn an_engine_that_is_not_at_rest_is_not_saved() {
    let config = config(Eviction::Rent);
    let sizes = Segcache::<segment::Stored>::file_sizes(&config).expect("valid sizes");
    let backing = Backing::new("busy", sizes);
    let cache = backing.engine(&config, None).expect("a new one");
    let mut writers = writers(&cache);
    work(&cache, &mut writers, 1, 1_000, Tick(9));
    assert!(cache.save().is_none(), "segments are open");
    assert!(!settled(&cache, &mut writers).is_empty());
}

/// Uses an engine made from damaged memory, which may contain anything.
fn use_up(cache: &Segcache, seed: u64, now: Tick) {
    let mut writers = writers(cache);
    work(cache, &mut writers, seed, 2_000, now);
    cache.clear();
    work(cache, &mut writers, seed + 1, 500, now);
    settled(cache, &mut writers);
}

#[test]
fn damage_is_noticed_or_changes_a_value_only() {
    let config = config(Eviction::Rent);
    let sizes = Segcache::<segment::Stored>::file_sizes(&config).expect("valid sizes");
    let backing = Backing::new("damage", sizes);
    let cache = backing.engine(&config, None).expect("a new one");
    let mut all = writers(&cache);
    let now = Tick(1_000_000);
    work(&cache, &mut all, 7, 9_000, now);
    let before = found(&cache, 3000, now);
    let saved = settled(&cache, &mut all);
    drop(cache);
    let mut whole = vec![0; sizes.segments_bytes as usize];
    backing
        .file
        .read_exact_at(&mut whole, OFFSET)
        .expect("the file");
    let (mut refused, mut changed) = (0, 0);
    for round in 0..400 {
        backing.file.write_all_at(&whole, OFFSET).expect("the file");
        let random = mix(round);
        let mut words = saved.clone();
        let in_memory = round % 2 == 0;
        match round % 8 {
            0 | 2 | 4 | 6 => {
                let at = mix(random) % sizes.segments_bytes;
                let len = if round % 8 == 6 { 1 + random % 600 } else { 1 };
                for at in at..(at + len).min(sizes.segments_bytes) {
                    let byte = whole[at as usize] ^ (1 << (random >> 60 & 7)) as u8;
                    backing
                        .file
                        .write_all_at(&[byte], OFFSET + at)
                        .expect("the file");
                }
            }
            1 => words.truncate((random % saved.len() as u64) as usize),
            3 => words.push(random % 3),
            _ => {
                let at = (random % saved.len() as u64) as usize;
                words[at] ^= 1 << (random >> 40 & 63) >> (round % 3 * 20);
            }
        }
        let Some(cache) = backing.engine(&config, Some(&words)) else {
            refused += 1;
            // The same memory can be used for a new engine.
            let cache = backing.engine(&config, None).expect("a new one");
            assert!(found(&cache, 3000, now).is_empty());
            use_up(&cache, round, now);
            continue;
        };
        let after = found(&cache, 3000, now);
        if in_memory {
            assert!(after.keys().eq(before.keys()), "round {round}");
            let pairs = after.values().zip(before.values());
            changed += usize::from(after != before);
            assert!(
                pairs
                    .into_iter()
                    .all(|(one, other)| one.1.len == other.1.len)
            );
        }
        use_up(&cache, round, now);
    }
    assert!(refused > 150, "{refused}");
    println!("{refused} of 400 refused, {changed} with changed values");
}
