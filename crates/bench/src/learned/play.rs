//! Replays, each made once however many figures ask for it.

use super::plan::Wanted;
use crate::error::{Error, Result};
use crate::progress::{self, Progress};
use crate::simulator::{Order, Outcome, TakenIn};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What a replay found, if there was such a cache.
type Played = std::result::Result<Option<Outcome>, String>;

/// One trace, and what was found on it so far.
pub(super) struct Player<'a> {
    trace: &'a dyn TakenIn,
    rounds: usize,
    jobs: usize,
    known: BTreeMap<Order, Option<Outcome>>,
}

impl<'a> Player<'a> {
    pub(super) fn new(trace: &'a dyn TakenIn, rounds: usize, jobs: usize) -> Player<'a> {
        Player {
            trace,
            rounds,
            jobs,
            known: BTreeMap::new(),
        }
    }

    /// Replays all that is wanted, and what it is compared with.
    pub(super) fn play(&mut self, wanted: &[Wanted]) -> Result<()> {
        let orders = wanted
            .iter()
            .flat_map(|wanted| [Some(wanted.order.clone()), wanted.base()])
            .flatten();
        let orders: BTreeSet<Order> = orders.collect();
        let orders: Vec<Order> = orders.into_iter().collect();
        let progress = progress::steps(orders.len() as u64);
        let found = Mutex::new(Vec::new());
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(order) = orders.get(next.fetch_add(1, Ordering::Relaxed)) {
                let outcome = self.replay(order, &progress);
                let mut found = found.lock().expect("nobody panics while he holds the lock");
                found.push((order.clone(), outcome));
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.jobs.min(orders.len()) {
                scope.spawn(work);
            }
            work();
        });
        progress.finish_and_clear();
        let found = found.into_inner().expect("every replay has ended well");
        for (order, outcome) in found {
            self.known
                .insert(order, outcome.map_err(Error::Simulation)?);
        }
        Ok(())
    }

    /// Once for the hits, and as often as was asked for the time.
    fn replay(&self, order: &Order, progress: &Progress) -> Played {
        progress.set_message(format!(
            "{} of {} {}",
            order.cache,
            order.capacity,
            order.unit.name()
        ));
        let mut first = self.trace.replay(order)?;
        if let Some(outcome) = &mut first {
            let mut times = vec![outcome.cpu_time];
            for _ in 1..self.rounds {
                let again = self.trace.replay(order)?;
                times.extend(again.map(|again| again.cpu_time));
            }
            outcome.cpu_time = median(times);
        }
        progress.inc(1);
        Ok(first)
    }

    /// What was found of an order that was played.
    pub(super) fn outcome(&self, order: &Order) -> Option<&Outcome> {
        self.known.get(order)?.as_ref()
    }
}

/// The one in the middle, the shorter of two.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[(times.len() - 1) / 2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulator::{Extent, Unit};

    /// Tells how often it was asked.
    struct Counting(AtomicUsize);

    impl TakenIn for Counting {
        fn extent(&self) -> Extent {
            Extent::default()
        }

        fn replay(&self, order: &Order) -> Played {
            self.0.fetch_add(1, Ordering::Relaxed);
            match order.cache.as_str() {
                "broken" => Err("broken".into()),
                "none" => Ok(None),
                _ => Ok(Some(Outcome {
                    requests: 10,
                    misses: 5,
                    requested_weight: 10,
                    missed_weight: 5,
                    replayed: 10,
                    cpu_time: Duration::from_secs(1),
                    held: 1,
                    metadata_bytes: 1,
                    learned: None,
                })),
            }
        }
    }

    fn wanted(cache: &str) -> Wanted {
        Wanted::of(cache, Unit::Objects, 7)
    }

    #[test]
    fn a_replay_is_made_once_and_its_base_too() {
        let trace = Counting(AtomicUsize::new(0));
        let mut player = Player::new(&trace, 2, 3);
        let plan = [wanted("a"), wanted("a"), wanted("b"), wanted("none")];
        player.play(&plan).expect("nothing is broken");
        // Two replays each of a, b and fifo; the cache that cannot be had is asked for once.
        assert_eq!(trace.0.load(Ordering::Relaxed), 2 * 3 + 1);
        assert!(player.outcome(&plan[0].order).is_some());
        assert!(player.outcome(&plan[3].order).is_none());
        assert!(player.play(&[wanted("broken")]).is_err());
    }
}
