//! A storm: a million entries with one deadline, next to another thread; and the lateness of single
//! entries.

use crate::draws::Random;
use mayfly::Cache;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const MANY: u64 = 1_000_000;

/// Prints quantiles of durations in ns.
fn print(what: &str, mut ns: Vec<u64>) {
    ns.sort_unstable();
    let of = |share: f64| ns[((ns.len() - 1) as f64 * share) as usize] as f64 / 1_000.0;
    println!(
        "{what}: {} samples, median {:.1} µs, p99 {:.1}, p99.9 {:.1}, max {:.1}",
        ns.len(),
        of(0.5),
        of(0.99),
        of(0.999),
        of(1.0)
    );
}

/// Runs both measurements.
pub fn measure() {
    storm();
    lateness();
}

fn storm() {
    let cache: Cache<u64, u64> = Cache::new(2 * MANY);
    for key in 0..100_000 {
        cache.insert(MANY + key, key);
    }
    let deadline = Instant::now() + Duration::from_secs(6);
    for key in 0..MANY {
        cache.insert_with_ttl(key, key, deadline.saturating_duration_since(Instant::now()));
    }
    let filled = cache.len();
    let mut random = Random(7);
    let (mut before, mut during) = (vec![], vec![]);
    let end = loop {
        let key = MANY + random.next() % 100_000;
        let start = Instant::now();
        if random.next() % 20 == 0 {
            cache.insert(key, key);
        } else {
            cache.get(&key);
        }
        let ns = start.elapsed().as_nanos() as u64;
        if start >= deadline {
            during.push(ns);
            // The count is read seldom, because it takes all locks.
            if during.len() % 20_000 == 0 {
                let stats = cache.stats();
                // On a slow machine the deadline may pass while the cache is filled.
                if stats.expired + stats.rejected >= MANY {
                    break Instant::now();
                }
            }
        } else {
            before.push(ns);
        }
    };
    println!(
        "{filled} entries, {MANY} on one deadline, removed within {:?}",
        end - deadline
    );
    print("operation of another thread before", before);
    print("operation of another thread meanwhile", during);
    println!("longest lag {:?}", cache.stats().lag_max());
}

fn lateness() {
    let (sender, receiver) = mpsc::channel();
    let start = Instant::now();
    let cache: Cache<u64, u64> = Cache::builder(2 * MANY)
        .listener(move |key: &u64, due_ns: &u64, _| {
            if *key >= MANY {
                let late = (start.elapsed().as_nanos() as u64).saturating_sub(*due_ns);
                // The receiver waits for all of them.
                let _ = sender.send(late);
            }
        })
        .build()
        .expect("the settings are valid");
    for key in 0..MANY {
        let ttl = Duration::from_secs(3_600) + Duration::from_millis(key % 1_000);
        cache.insert_with_ttl(key, key, ttl);
    }
    let probes = 2_000;
    for probe in 0..probes {
        let ttl = Duration::from_millis(100 + 3 * probe);
        let due = start.elapsed() + ttl;
        cache.insert_with_ttl(MANY + probe, due.as_nanos() as u64, ttl);
    }
    let late = receiver.iter().take(probes as usize).collect();
    print("lateness of the listener beside a million others", late);
}
