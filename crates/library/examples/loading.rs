//! One load per key at a time: eight threads need the same slow value.
//!
//! ```text
//! cargo run -p mayfly-cache --example loading
//! ```

use mayfly::Cache;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;

fn main() {
    let cache: Cache<u32, String> = Cache::new(100);
    let loads = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let value = cache.get_with(7, || {
                    loads.fetch_add(1, SeqCst);
                    let digits = black_box(0..20_000_000_u64).fold(7, |sum, n| sum ^ (n * 31));
                    format!("a page of {digits}")
                });
                assert!(value.starts_with("a page"));
            });
        }
    });
    println!("8 callers, {} load", loads.load(SeqCst));
}
