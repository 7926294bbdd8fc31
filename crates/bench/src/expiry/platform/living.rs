//! Number of unexpired keys, counted by the client that sets them.
//!
//! All other keys in the server are dead. The deadline is computed when the reply to EXPIRE
//! arrives. The server has computed its own earlier, so a key may count as unexpired for too long
//! by the time that a reply takes.

use std::collections::HashMap;

/// Deadline of a key between its SET and its EXPIRE.
const NEVER: u64 = u64::MAX;

/// Counter of keys whose deadlines are in the future. Times are milliseconds from any origin.
#[derive(Debug, Default)]
pub(super) struct LiveKeys {
    /// Deadline of each key that was ever set.
    deadlines: Vec<Option<u64>>,
    /// Number of keys that expire at each future time.
    due: HashMap<u64, u64>,
    now: u64,
    count: u64,
}

impl LiveKeys {
    /// Returns the number of keys that are unexpired now.
    pub(super) fn count(&mut self, now: u64) -> u64 {
        // A key is dead when the clock has passed its deadline.
        while self.now < now {
            self.count -= self.due.remove(&self.now).unwrap_or(0);
            self.now += 1;
        }
        self.count
    }

    /// Records that a key was set without a deadline.
    pub(super) fn set(&mut self, key: u64, now: u64) {
        self.put(key, NEVER, now);
    }

    /// Records that a TTL was set for a key.
    pub(super) fn expire(&mut self, key: u64, ttl: u64, now: u64) {
        self.put(key, now.max(self.now) + ttl, now);
    }

    fn put(&mut self, key: u64, deadline: u64, now: u64) {
        self.count(now);
        let index = key as usize;
        if index >= self.deadlines.len() {
            self.deadlines.resize(index + 1, None);
        }
        match self.deadlines[index].replace(deadline) {
            Some(NEVER) => {}
            Some(old) if old >= self.now => {
                let due = self
                    .due
                    .get_mut(&old)
                    .expect("a live key's deadline is counted");
                *due -= 1;
            }
            _ => self.count += 1,
        }
        if deadline != NEVER {
            *self.due.entry(deadline).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::Random;

    #[test]
    fn counts_agree_with_looking_at_all_keys() {
        let mut living = LiveKeys::default();
        let mut model = [None; 50];
        let mut random = Random::new(9);
        let mut now = 0;
        for _ in 0..20_000 {
            now += random.below(3);
            let key = random.below(50);
            if random.below(2) == 0 {
                living.set(key, now);
                model[key as usize] = Some(NEVER);
            } else {
                let ttl = random.below(40);
                living.expire(key, ttl, now);
                model[key as usize] = Some(now + ttl);
            }
            let alive = model.iter().flatten().filter(|deadline| **deadline >= now);
            assert_eq!(living.count(now), alive.count() as u64);
        }
        model
            .iter_mut()
            .for_each(|deadline| *deadline = deadline.filter(|d| *d == NEVER));
        let left = model.iter().flatten().count() as u64;
        assert_eq!(living.count(now + 100), left);
    }
}
