//! Miss ratios on traces, cache-aside: a key that is missed is inserted.
//!
//! With TTLs, a millisecond passes per request. By its hash a key has a TTL of a twentieth of the
//! trace (30 % of the keys), of a quarter (30 %) or none, because the traces have no TTLs. Mayfly
//! removes what expires; the other caches store the deadline in the value, and an expired value is
//! a miss, as their users do it.

use crate::contenders::{Contender, Visit, build};
use mayfly::{Cache, Clock, ManualClock, Timer};
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::time::Duration;

/// Longest part of a trace that is replayed.
const REQUESTS: usize = 5_000_000;
/// Policies of Mayfly that are compared.
const POLICIES: [&str; 3] = ["s3fifo", "s3fifo-w", "sieve"];
/// The other caches.
const OTHERS: [&str; 5] = ["quick_cache", "moka", "mini-moka", "foyer", "lru"];

/// Returns the TTL of a key in a trace of `len` requests, in milliseconds.
fn ttl_of(key: u64, len: usize) -> Option<u64> {
    let share = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    match share % 100 {
        0..30 => Some(len as u64 / 20),
        30..60 => Some(len as u64 / 4),
        _ => None,
    }
}

struct Replay<'a> {
    keys: &'a [u64],
    has_ttls: bool,
}

impl Visit for Replay<'_> {
    type Output = f64;
    fn visit<C: Contender + 'static>(self, cache: C) -> f64 {
        let mut misses = 0_u64;
        for (number, &key) in self.keys.iter().enumerate() {
            let now = number as u64;
            if cache.get(key).is_none_or(|deadline| deadline < now) {
                misses += 1;
                let ttl = ttl_of(key, self.keys.len()).filter(|_| self.has_ttls);
                cache.put(key, ttl.map_or(u64::MAX, |ttl| now + ttl));
            }
            // Caches that leave maintenance to their callers do it as often as they would.
            if number % 64 == 0 {
                cache.maintain();
            }
        }
        misses as f64 / self.keys.len() as f64
    }
}

/// Replays in Mayfly, whose clock the replay moves.
fn replay_mayfly(policy: &str, entries: usize, keys: &[u64], has_ttls: bool) -> f64 {
    let clock = ManualClock::new();
    let cache: Cache<u64, u64> = Cache::builder(entries as u64)
        .policy_named(policy)
        .clock(Clock::Manual(clock.clone()))
        .timer(Timer::Manual)
        .build()
        .expect("the settings are valid");
    let mut misses = 0_u64;
    for &key in keys {
        clock.advance(Duration::from_millis(1));
        if has_ttls {
            cache.expire();
        }
        if cache.get(&key).is_some() {
            continue;
        }
        misses += 1;
        match ttl_of(key, keys.len()).filter(|_| has_ttls) {
            Some(ttl) => cache.insert_with_ttl(key, key, Duration::from_millis(ttl)),
            None => cache.insert(key, key),
        }
    }
    misses as f64 / keys.len() as f64
}

fn read(path: &str) -> Result<Vec<u64>, String> {
    let file = File::open(path).map_err(|error| format!("{path}: {error}"))?;
    let reader = trace::read(path, BufReader::new(file)).map_err(|error| error.to_string())?;
    let requests = reader.take(REQUESTS).filter_map(Result::ok);
    Ok(requests.map(|request| request.key).collect())
}

/// Number of entries for a share of a trace's keys, in percent.
fn entries_for(keys: &[u64], percent: usize) -> usize {
    let distinct = keys.iter().collect::<HashSet<_>>().len();
    (distinct * percent / 100).max(10)
}

/// Replays traces and prints a table in which the best of each line is known.
pub fn measure(paths: &[String]) {
    let names: Vec<&str> = POLICIES.into_iter().chain(OTHERS).collect();
    println!("trace,share,ttls,entries,{}", names.join(","));
    for path in paths {
        let keys = match read(path) {
            Ok(keys) => keys,
            Err(error) => {
                eprintln!("{error}");
                continue;
            }
        };
        let name = path.rsplit('/').next().unwrap_or(path);
        for (percent, has_ttls) in [(1, false), (10, false), (1, true), (10, true)] {
            let entries = entries_for(&keys, percent);
            let ours = POLICIES
                .into_iter()
                .map(|policy| replay_mayfly(policy, entries, &keys, has_ttls));
            let others = OTHERS.into_iter().map(|name| {
                let replay = Replay {
                    keys: &keys,
                    has_ttls,
                };
                build(name, entries, replay).unwrap_or(f64::NAN)
            });
            let cells: Vec<String> = ours
                .chain(others)
                .map(|ratio| format!("{ratio:.4}"))
                .collect();
            let ttls = if has_ttls { "yes" } else { "no" };
            println!("{name},{percent},{ttls},{entries},{}", cells.join(","));
        }
    }
}

/// Writes the keys of a trace as 64-bit numbers, least byte first, for replays in other languages.
pub fn export(path: &str, target: &str) -> Result<(), String> {
    let keys = read(path)?;
    let file = File::create(target).map_err(|error| format!("{target}: {error}"))?;
    let mut file = BufWriter::new(file);
    let written = keys
        .iter()
        .try_for_each(|key| file.write_all(&key.to_le_bytes()));
    written
        .and_then(|()| file.flush())
        .map_err(|error| format!("{target}: {error}"))?;
    println!(
        "{} keys, {} and {} entries",
        keys.len(),
        entries_for(&keys, 1),
        entries_for(&keys, 10)
    );
    Ok(())
}
