//! Resident memory per entry. Each contender is measured in its own process.

use crate::contenders::{Contender, NAMES, Visit, build};
use std::process::Command;
use std::time::Duration;

const ENTRIES: u64 = 1_000_000;

fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

struct Fill {
    before: u64,
    ttl: Option<Duration>,
}

impl Visit for Fill {
    type Output = ();
    fn visit<C: Contender + 'static>(self, cache: C) {
        // Three times the capacity, so that ghosts and queues have their full size.
        for key in 0..3 * ENTRIES {
            match self.ttl {
                Some(ttl) => cache.put_for(key, key, ttl + Duration::from_millis(key % 10_000)),
                None => cache.put(key, key),
            }
        }
        cache.maintain();
        let bytes = resident() - self.before;
        let len = cache.len();
        println!(
            "{:.1} bytes per entry ({len} entries)",
            bytes as f64 / len as f64
        );
    }
}

/// Measures one contender in this process.
pub fn measure_one(name: &str, ttl: Option<Duration>) {
    let fill = Fill {
        before: resident(),
        ttl,
    };
    if build(name, ENTRIES as usize, fill).is_none() {
        eprintln!(
            "no contender '{name}': expected one of {}",
            NAMES.join(", ")
        );
    }
}

/// Measures all contenders.
pub fn measure_all() {
    let Ok(program) = std::env::current_exe() else {
        return;
    };
    for name in NAMES {
        print!("{name:14} ");
        let _ = Command::new(&program).args(["memory", name]).status();
    }
    print!("{:14} ", "mayfly, TTLs");
    let _ = Command::new(&program)
        .args(["memory-ttl", "mayfly"])
        .status();
}
