//! The switch: pauses writes at the source, waits until the target has everything, and compares.

use super::connection::{Connection, Sizes};
use super::item::{Item, State, read_states};
use super::target::Target;
use super::{Failure, Shard, Transfer, open, position};
use session::clock::Clock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use wire::Value;
use wire::dump::{self, Element, Sink, StreamPart, ValueType};

/// Time between two looks at the threads.
const TURN: Duration = Duration::from_millis(2);
/// Number of keys of each primary and database that are compared.
const SAMPLE: usize = 100;
/// Number of keys that are compared at once, so that few values are in memory.
const SAMPLE_BATCH: usize = 20;
/// Time for which a node of the target may count keys whose slots it has given away.
const SETTLE_TIME: Duration = Duration::from_secs(2);
/// A key whose deadline is nearer than this is not compared: it may expire meanwhile.
const MARGIN_MS: u64 = 5000;

/// A switch that has succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switched {
    /// Number of keys of the target.
    pub keys: u64,
    /// Number of keys that were compared.
    pub compared: usize,
    /// Time from the begin of the pause until clients could use the target.
    pub paused: Duration,
    /// Time for which writes stay paused at the source from now on.
    pub hold: Duration,
}

impl Transfer<'_> {
    /// Switches. After an error, clients can write at the source again.
    pub(super) fn switch(
        &mut self,
        shards: &[Shard],
        stops: &AtomicBool,
    ) -> Result<Switched, Failure> {
        let switched = self.try_switch(shards, stops);
        switched.map_err(|error| match self.resume() {
            waiting if waiting.is_empty() => error,
            waiting => format!(
                "{error}; writes at {} may wait for up to {} s more",
                waiting.join(", "),
                self.options.pause_max.max(self.options.hold).as_secs()
            ),
        })
    }

    /// Ends the pause. Returns the addresses of nodes that have not confirmed it.
    fn resume(&mut self) -> Vec<String> {
        let mut waiting = Vec::new();
        for control in &mut self.controls {
            let address = control.address.clone();
            if control.call(&["CLIENT", "UNPAUSE"]).is_err() {
                waiting.push(address);
            }
        }
        waiting
    }

    fn try_switch(&mut self, shards: &[Shard], stops: &AtomicBool) -> Result<Switched, Failure> {
        let begun = Instant::now();
        let pause_max = self.options.pause_max;
        // Nodes of the target may have been replaced since the beginning.
        (self.target_layout, self.stores) = open(self.target)?;
        let mut waiting = Waiting {
            shards,
            stops,
            until: begun + pause_max,
        };
        self.pause(pause_max)?;
        self.reach(&waiting)?;
        self.copy_functions()?;
        let keys = self.compare_numbers()?;
        let compared = self.compare_sample(&waiting)?;
        self.check_layout()?;
        // The first pause could have ended, and its writes would be missing.
        self.pause(pause_max)?;
        waiting.until = Instant::now() + pause_max;
        self.reach(&waiting)?;
        // A primary that was replaced meanwhile has not waited.
        self.check_layout()?;
        match self.options.hold.is_zero() {
            true => drop(self.resume()),
            false => {
                self.pause(self.options.hold)?;
                self.reach(&waiting)?;
            }
        }
        Ok(Switched {
            keys,
            compared,
            paused: begun.elapsed(),
            hold: self.options.hold,
        })
    }

    /// Pauses writes on all primaries of the source.
    fn pause(&mut self, time: Duration) -> Result<(), Failure> {
        let millis = time.as_millis().to_string();
        for control in &mut self.controls {
            control.call(&["CLIENT", "PAUSE", &millis, "WRITE"])?;
        }
        Ok(())
    }

    /// Waits until the target has everything that the source has now.
    fn reach(&mut self, waiting: &Waiting<'_>) -> Result<(), Failure> {
        for control in &mut self.controls {
            // A command that runs beside others writes although the pause has begun. Only Mayfly
            // has such commands.
            while control
                .text(&["INFO", "all"])?
                .contains("long_commands_running:1")
            {
                waiting.check()?;
                std::thread::sleep(TURN);
            }
        }
        for (control, shard) in self.controls.iter_mut().zip(waiting.shards) {
            shard.goal.store(position(control)?, Relaxed);
        }
        for shard in waiting.shards {
            while shard.reached.load(Relaxed) < shard.goal.load(Relaxed) {
                waiting.check()?;
                std::thread::sleep(TURN);
            }
        }
        Ok(())
    }

    /// Compares the numbers of keys without a deadline; others may expire on one side first.
    /// Returns the number of all keys of the target.
    fn compare_numbers(&mut self) -> Result<u64, Failure> {
        let begun = Instant::now();
        let source = total(&mut self.controls)?;
        loop {
            let target = total(&mut self.stores)?;
            let Some(difference) = difference(&source, &target) else {
                return Ok(target.values().map(|(keys, _)| keys).sum());
            };
            if begun.elapsed() > SETTLE_TIME {
                return Err(difference);
            }
            std::thread::sleep(TURN);
        }
    }

    /// Compares values and deadlines of random keys. Returns their number.
    fn compare_sample(&mut self, waiting: &Waiting<'_>) -> Result<usize, Failure> {
        let layout = self.target_layout.clone();
        let mut target = Target::new(self.target, layout, waiting.stops);
        let mut compared = 0;
        for control in &mut self.controls {
            for db in control.sizes()?.into_keys() {
                waiting.check()?;
                let keys = random_keys(control, db)?;
                let names: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
                for names in names.chunks(SAMPLE_BATCH) {
                    let here = read_states(control, db, names.iter().copied())?;
                    let mut there = target.read(db, names)?;
                    there.sort_unstable_by(|a, b| a.key.cmp(&b.key));
                    let now_ms = Clock::System.now_us() / 1000;
                    for (here, there) in here.iter().zip(&there) {
                        compared += usize::from(compare(db, here, there, now_ms)?);
                    }
                }
            }
        }
        Ok(compared)
    }
}

/// What the switch waits for.
struct Waiting<'a> {
    shards: &'a [Shard],
    stops: &'a AtomicBool,
    until: Instant,
}

impl Waiting<'_> {
    fn check(&self) -> Result<(), Failure> {
        if let Some(failure) = self.shards.iter().find_map(Shard::failure) {
            return Err(failure);
        }
        if self.stops.load(Relaxed) {
            return Err("stopped during the switch: clients go on at the source".to_owned());
        }
        if Instant::now() > self.until {
            return Err(
                "the target did not get everything within --pause-max: clients go on at the source"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

fn total(connections: &mut [Connection]) -> Result<Sizes, Failure> {
    let mut sums = Sizes::new();
    for connection in connections {
        for (db, (keys, expiring)) in connection.sizes()? {
            let sum = sums.entry(db).or_default();
            (sum.0, sum.1) = (sum.0 + keys, sum.1 + expiring);
        }
    }
    Ok(sums)
}

/// Returns what is wrong with the numbers of keys without a deadline.
fn difference(source: &Sizes, target: &Sizes) -> Option<Failure> {
    let lasting = |sizes: &Sizes, db: &u64| {
        let (keys, expiring) = sizes.get(db).copied().unwrap_or_default();
        keys.saturating_sub(expiring)
    };
    let mut dbs = source.keys().chain(target.keys());
    let db = dbs.find(|db| lasting(source, db) != lasting(target, db))?;
    Some(format!(
        "database {db} has {} keys without a deadline at the source and {} in the target: \
         something else has written there, or the target evicts",
        lasting(source, db),
        lasting(target, db)
    ))
}

/// Returns the names of some keys, sorted.
fn random_keys(control: &mut Connection, db: u64) -> Result<Vec<Box<[u8]>>, Failure> {
    control.select(db)?;
    (0..SAMPLE).for_each(|_| control.queue(&["RANDOMKEY"]));
    control.send()?;
    let replies = control.replies()?;
    let mut keys: Vec<Box<[u8]>> = replies
        .iter()
        .filter_map(Value::as_bytes)
        .map(Box::from)
        .collect();
    keys.sort_unstable();
    keys.dedup();
    Ok(keys)
}

/// Compares a key of the source with that of the target. Returns false if it is about to expire.
fn compare(db: u64, here: &Item, there: &Item, now_ms: u64) -> Result<bool, Failure> {
    let Some(State { deadline, payload }) = &here.state else {
        return Ok(false);
    };
    let soon = now_ms.saturating_add(MARGIN_MS);
    if deadline.is_some_and(|at| at < soon) {
        return Ok(false);
    }
    let differs = |what: String| {
        let key = here.key.escape_ascii();
        Err(format!("key '{key}' in database {db}: {what}"))
    };
    let Some(there) = &there.state else {
        return differs("the target does not have it".to_owned());
    };
    if there.deadline != *deadline {
        let (expected, found) = (deadline, there.deadline);
        return differs(format!(
            "deadline {expected:?} at the source, {found:?} in the target"
        ));
    }
    match parts(payload, soon) == parts(&there.payload, soon) {
        true => Ok(true),
        false => differs("its values differ".to_owned()),
    }
}

/// Name, value, score as bits, and deadline of an element.
type Part = (Vec<u8>, Vec<u8>, u64, Option<u64>);

/// Parts of a value in a form that does not depend on its encoding.
#[derive(Debug, Default, PartialEq)]
struct Parts {
    soon: u64,
    kind: Option<ValueType>,
    parts: Vec<Part>,
}

impl Sink for Parts {
    fn begin(&mut self, kind: ValueType) {
        self.kind = Some(kind);
    }

    fn element(&mut self, element: &Element<'_>) {
        if element.deadline.is_some_and(|at| at < self.soon) {
            return;
        }
        let (name, value) = (element.name.to_vec(), element.value.to_vec());
        // Zero may have either sign.
        let score = (element.score + 0.0).to_bits();
        self.parts.push((name, value, score, element.deadline));
    }

    /// Entries only: counters of streams differ between versions.
    fn stream_part(&mut self, part: &StreamPart<'_>) -> bool {
        if let StreamPart::Entry { id, names, values } = part {
            let pairs = names.iter().zip(*values);
            self.parts
                .extend(pairs.map(|(name, value)| (name.clone(), value.clone(), id.0, Some(id.1))));
        }
        true
    }
}

/// Returns the parts of a payload without those that expire before `soon`; `None` if they cannot be
/// read.
fn parts(payload: &[u8], soon: u64) -> Option<Parts> {
    let mut parts = Parts {
        soon,
        ..Parts::default()
    };
    dump::read(payload, usize::MAX, &mut parts).ok()?;
    if !matches!(parts.kind, Some(ValueType::List | ValueType::Stream)) {
        parts.parts.sort_unstable();
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::dump::{Encoding, Writer};

    fn item(encoding: Encoding, names: &[&str], deadline: Option<u64>) -> Item {
        let mut writer = Writer::new(encoding, names.len());
        for name in names {
            writer.put(&Element {
                name: name.as_bytes(),
                ..Element::default()
            });
        }
        let payload = writer.finish();
        Item {
            key: Box::from(&b"k"[..]),
            state: Some(State { deadline, payload }),
        }
    }

    fn absent() -> Item {
        Item {
            key: Box::from(&b"k"[..]),
            state: None,
        }
    }

    #[test]
    fn keys_are_compared_by_value_and_deadline() {
        let now = 1_000_000;
        let later = Some(now + MARGIN_MS);
        let set = item(Encoding::Set, &["a", "b"], later);
        let turned = item(Encoding::Set, &["b", "a"], later);
        assert_eq!(compare(0, &set, &turned, now), Ok(true));
        assert_eq!(compare(0, &absent(), &set, now), Ok(false));
        let list = item(Encoding::List, &["a", "b"], None);
        let turned = item(Encoding::List, &["b", "a"], None);
        assert_eq!(compare(0, &list, &list, now), Ok(true));
        for (other, why) in [
            (turned, "values differ"),
            (item(Encoding::Set, &["a", "b"], None), "values differ"),
            (item(Encoding::List, &["a"], None), "values differ"),
            (item(Encoding::List, &["a", "b"], later), "deadline"),
            (absent(), "does not have it"),
        ] {
            let error = compare(3, &list, &other, now).expect_err(why);
            assert!(error.contains(why), "{error}");
            assert!(error.starts_with("key 'k' in database 3: "), "{error}");
        }
        // It may have expired on one side.
        assert_eq!(compare(0, &set, &absent(), now + 1), Ok(false));
    }

    #[test]
    fn keys_without_a_deadline_are_counted() {
        let sizes = |all: &[(u64, (u64, u64))]| all.iter().copied().collect::<Sizes>();
        let source = sizes(&[(0, (10, 4)), (3, (1, 1))]);
        assert_eq!(difference(&source, &sizes(&[(0, (6, 0))])), None);
        assert_eq!(
            difference(&source, &sizes(&[(0, (9, 3)), (1, (2, 2))])),
            None
        );
        let missing = difference(&source, &sizes(&[(0, (9, 4))])).expect("one is missing");
        assert!(
            missing.starts_with("database 0 has 6 keys without a deadline"),
            "{missing}"
        );
        let more = difference(&source, &sizes(&[(0, (6, 0)), (7, (1, 0))])).expect("one is more");
        assert!(more.starts_with("database 7 has 0 keys"), "{more}");
    }
}
