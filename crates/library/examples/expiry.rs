//! Sessions that end on time: a listener is called for each, although the cache is not used.
//!
//! ```text
//! cargo run -p mayfly-cache --example expiry
//! ```

use mayfly::{BuildError, Cache};
use std::sync::mpsc;
use std::time::{Duration, Instant};

fn main() -> Result<(), BuildError> {
    let start = Instant::now();
    let (sender, ended) = mpsc::channel();
    let sessions: Cache<u32, Duration> = Cache::builder(1_000)
        .tti(Duration::from_millis(300))
        .listener(move |id, _, cause| _ = sender.send((*id, cause)))
        .build()?;
    for id in 0..5 {
        let ttl = Duration::from_millis(50 * (u64::from(id) + 1));
        sessions.insert_with_ttl(id, ttl, ttl);
    }
    for (id, cause) in ended.iter().take(5) {
        println!(
            "{:>4} ms: session {id} {cause:?}",
            start.elapsed().as_millis()
        );
    }
    let stats = sessions.stats();
    println!(
        "{} expired, at most {:?} late",
        stats.expired,
        stats.lag_max()
    );
    Ok(())
}
