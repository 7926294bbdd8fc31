//! Replays a trace through this crate's policy in the simulator's host, and prints its counts next
//! to those of LRU.

mod most_recent;

use most_recent::MostRecent;
use policy::evict::lru::Lru;
use sim::{Interning, Rules, replay_policy};
use std::{env, fs::File, sync::atomic::AtomicU64};

fn main() -> Result<(), sim::Error> {
    let mut arguments = env::args().skip(1);
    let path = &arguments
        .next()
        .expect("expected a trace and sizes, such as t.csv 1000 10000");
    let sizes = arguments.map(|size| size.parse().expect("expected a size in objects"));
    let sizes: Vec<u64> = sizes.collect();
    let file = File::open(path).expect("expected a trace that can be read");
    let mut reader = trace::open_file(path, file, &trace::Options::default())?;
    let columns = sim::read(path, Interning::default(), &mut reader, |_| {})?;
    let (rules, done) = (Rules::default(), AtomicU64::new(0));
    let own = replay_policy::<MostRecent>(&columns, &rules, &(), &sizes, &done)?;
    let lru = replay_policy::<Lru>(&columns, &rules, &(), &sizes, &done)?;
    for ((size, own), lru) in sizes.iter().zip(own).zip(lru) {
        println!(
            "{size}: most-recent {} misses, lru {} misses",
            own.counts.misses, lru.counts.misses
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Interner;
    use trace::Request;

    /// A loop one longer than the cache: LRU misses every request, the most recent loses one entry
    /// in a round.
    #[test]
    fn a_loop_is_kept_but_for_its_end() {
        let requests = (0..100).map(|number| Ok(Request::new(number, number % 5, 1)));
        let columns = Interner::all("loop", Interning::default(), requests).expect("a trace");
        let (rules, done) = (Rules::default(), AtomicU64::new(0));
        let own = replay_policy::<MostRecent>(&columns, &rules, &(), &[4], &done).expect("it fits");
        let lru = replay_policy::<Lru>(&columns, &rules, &(), &[4], &done).expect("it fits");
        assert_eq!(lru[0].counts.misses, 100);
        assert!(own[0].counts.misses < 50, "{}", own[0].counts.misses);
    }
}
