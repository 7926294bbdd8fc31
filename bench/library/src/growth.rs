//! Pauses of single insertions while a cache of unknown size fills with ten million entries.

use crate::speed::cpu_ns;
use mayfly::Cache;

const ENTRIES: u64 = 10_000_000;

/// Fills a cache and prints the longest insertions, in CPU time, so that other load on the machine
/// does not count.
pub fn measure() {
    let cache: Cache<u64, u64> = Cache::builder(1 << 40)
        .weigher(|_: &u64, _: &u64| 1)
        .without_expiry()
        .build()
        .expect("the settings are valid");
    // Longest of each of eight parts of the fill, and numbers above limits.
    let mut longest = [0_u64; 8];
    let mut above = [0_u64; 3];
    let start = cpu_ns();
    for key in 0..ENTRIES {
        let before = cpu_ns();
        cache.insert(key, key);
        let ns = cpu_ns() - before;
        let part = &mut longest[(key * 8 / ENTRIES) as usize];
        *part = (*part).max(ns);
        for (count, limit) in above.iter_mut().zip([100_000, 1_000_000, 10_000_000]) {
            *count += u64::from(ns > limit);
        }
    }
    let all = (cpu_ns() - start) as f64 / ENTRIES as f64;
    let longest = longest.map(|ns| format!("{:.2}", ns as f64 / 1e6));
    println!(
        "{ENTRIES} insertions, {all:.0} ns CPU each with the clock; longest of each eighth: {} ms; {} above \
         0.1 ms, {} above 1 ms, {} above 10 ms",
        longest.join(" "),
        above[0],
        above[1],
        above[2]
    );
    assert_eq!(cache.len() as u64, ENTRIES);
}
