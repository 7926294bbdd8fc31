//! Miss ratios on traces, cache-aside: a key that is missed is inserted.

use crate::contenders::{Contender, NAMES, Visit, build};
use std::collections::HashSet;
use std::fs::File;
use std::io::BufReader;

/// Longest part of a trace that is replayed.
const REQUESTS: usize = 5_000_000;

struct Replay<'a>(&'a [u64]);

impl Visit for Replay<'_> {
    type Output = f64;
    fn visit<C: Contender + 'static>(self, cache: C) -> f64 {
        let mut misses = 0_u64;
        for (number, &key) in self.0.iter().enumerate() {
            if cache.get(key).is_none() {
                misses += 1;
                cache.put(key, key);
            }
            // Caches that leave maintenance to their callers do it as often as they would.
            if number % 64 == 0 {
                cache.maintain();
            }
        }
        misses as f64 / self.0.len() as f64
    }
}

/// Replays traces and prints a table.
pub fn measure(paths: &[String]) {
    let names = NAMES.iter().filter(|name| **name != "mayfly-plain");
    let names: Vec<&str> = names.copied().collect();
    println!(
        "{:28} {:>9} {:>8} {}",
        "trace",
        "requests",
        "entries",
        names.join("  ")
    );
    for path in paths {
        let keys = match File::open(path).map(|file| trace::read(path, BufReader::new(file))) {
            Ok(Ok(reader)) => {
                let requests = reader.take(REQUESTS).filter_map(Result::ok);
                requests.map(|request| request.key).collect::<Vec<u64>>()
            }
            Ok(Err(error)) => {
                eprintln!("{error}");
                continue;
            }
            Err(error) => {
                eprintln!("{path}: {error}");
                continue;
            }
        };
        let distinct = keys.iter().collect::<HashSet<_>>().len();
        let name = path.rsplit('/').next().unwrap_or(path);
        for percent in [1, 10] {
            let entries = (distinct * percent / 100).max(10);
            let ratios: Vec<String> = names
                .iter()
                .map(|name| build(name, entries, Replay(&keys)))
                .map(|ratio| ratio.map_or("-".into(), |ratio| format!("{ratio:.4}")))
                .collect();
            println!(
                "{name:28} {:>9} {entries:>8} {}",
                keys.len(),
                ratios.join("  ")
            );
        }
    }
}
