//! A deterministic simulation of hosts: nodes of one or two shards, each with its own clock, on a
//! simulated etcd (`store.rs`) and simulated replication links (`links.rs`). The hosts, the rules,
//! the keys and the state of servers are the real ones (`node.rs`). With two shards, an operator
//! moves slots between them (`operator.rs`); the threads that send keys are simulated (`slots.rs`).
//!
//! A seed determines everything: delays, losses, pauses, ends of processes, partitions, requested
//! failovers, moves, writes and reads (`faults.rs`). The invariants:
//!
//! - At each instant at most one node of a shard is fenced in, and at most one node of all executes
//!   commands on a slot.
//! - In a cluster with strength `sync`, or without faults in which a replica replaces its primary,
//!   each node that executes a command has all writes that a client was shown.
//! - Keys do not change while writes are held for a failover.
//! - Slots change their owner by a move that is done: one that is cancelled leaves them.
//! - After the last fault, all moves end, all replicas are in sync and all slots are served.

mod failovers;
mod faults;
mod handovers;
mod links;
mod node;
mod operator;
mod slots;
mod store;

use crate::net::connection::sync::{Progress, Verdict, awaited};
use ::cluster::Name;
use links::Link;
use membership::directory::initial;
use membership::records::{Config, SHARDS, Shard, Strength};
use node::{Node, Values, Waiting};
use slots::Sending;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use store::{Path, Store};
use tokio::task::yield_now;

const LEASE_MS: u64 = 1_000;
const SYNC_TIMEOUT_MS: u64 = 300;
/// Time between two steps of the world in milliseconds.
const TICK_MS: u64 = 10;
/// Time with faults, and time after them in which the cluster must work again, in milliseconds.
const FAULTS_MS: u64 = 12_000;
const HEALED_MS: u64 = 20_000;
/// Longest time in milliseconds until the local copy is in the file.
const SAVE_MS: u64 = 40;
/// Longest time in milliseconds until the thread begins that removes the keys of other shards.
const SWEEP_MS: u64 = 50;
/// Number of times that tasks run in a step of the world. A task that waits for another one needs
/// two.
const TURNS: usize = 6;
/// Number of faults and changes that a failure shows.
const TRACE_MAX: usize = 100;
/// Numbers of schedules with one and with two shards in each run of the tests, and the variable
/// that sets another number or a range such as 100..200.
const SEEDS: u64 = 60;
const SEEDS_OF_MOVES: u64 = 40;
const SEEDS_VARIABLE: &str = "MAYFLY_HOST_SEEDS";
/// Keys of clients. Their slots are different; of two shards, each has two at the beginning.
const KEYS: [&str; 4] = ["a", "b", "c", "d"];
/// Number in the name of the cluster, and in that of the first shard.
const CLUSTER: usize = 100;
const SHARD: usize = 90;

/// Random number generator (splitmix64): G. Steele, D. Lea, C. Flood, *Fast splittable pseudorandom
/// number generators*, OOPSLA 2014.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % end
    }

    fn is_one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// A rule that a test removes, so that the simulation must find a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Without {
    /// Nothing is removed.
    Nothing,
    /// Workers do not hold replies until members have the writes.
    Confirmation,
    /// Workers do not compare their clock with the fence.
    Fence,
    /// A silent member leaves without the write to etcd.
    Leave,
    /// A replica that discards its keys stays a candidate.
    Discard,
}

/// The cluster of a schedule.
#[derive(Clone, Copy, Debug)]
struct Layout {
    shards: usize,
    /// Number of replicas of each shard.
    replicas: usize,
    strength: Strength,
    /// Whether no fault makes a replica replace its primary without a request.
    is_calm: bool,
}

impl Layout {
    fn nodes(&self) -> usize {
        self.shards * (self.replicas + 1)
    }

    /// One shard of three nodes.
    fn one_shard(random: &mut Random) -> Layout {
        Layout {
            shards: 1,
            replicas: 2,
            strength: match random.below(5) {
                0 => Strength::Async,
                _ => Strength::Sync,
            },
            is_calm: false,
        }
    }

    /// Two shards of two nodes each, between which slots move.
    fn two_shards(random: &mut Random) -> Layout {
        let (strength, is_calm) = match random.below(5) {
            0 => (Strength::Async, false),
            1 => (Strength::Async, true),
            _ => (Strength::Sync, false),
        };
        Layout {
            shards: 2,
            replicas: 1,
            strength,
            is_calm,
        }
    }
}

struct World {
    layout: Layout,
    random: Random,
    now: u64,
    store: Store,
    paths: Vec<Path>,
    nodes: Vec<Node>,
    process_count: u64,
    links: Vec<Link>,
    links_cut_until: Vec<Vec<u64>>,
    sendings: Vec<Sending>,
    /// Number of the last link, and of the last connection of a move.
    last_link: u64,
    /// Number of snapshots that replicas have received.
    snapshot_count: u64,
    write_count: u64,
    /// Values that a client was shown.
    shown: Values,
    without: Without,
    /// A transaction is under way at one in this number of steps of a primary.
    transaction_rarity: u64,
    /// The last faults, and changes of the record.
    trace: VecDeque<String>,
    last_records: Vec<Option<Shard>>,
    /// For each shard, whether its primary began the term by itself: as the first one, or after a
    /// restart.
    has_resumed: Vec<bool>,
    move_count: usize,
    /// Moves that have ended, owners of the keys after those that are done, and the revision at
    /// which they were compared.
    ended: BTreeSet<Name>,
    owners: [Name; KEYS.len()],
    moves_at: i64,
    /// Number of marks whose commit was void, and of those that were committed.
    outcomes: [u64; 2],
}

fn name(number: usize) -> Name {
    Name::parse(format!("{:040x}", number + 1).as_bytes()).expect("40 digits")
}

fn shard(at: usize) -> Name {
    name(SHARD + at)
}

fn config(layout: Layout) -> Config {
    Config {
        cluster: World::cluster(),
        shards: layout.shards as u32,
        replicas: layout.replicas as u32,
        lease_ms: LEASE_MS,
        strength: layout.strength,
        sync_timeout_ms: SYNC_TIMEOUT_MS,
    }
}

impl World {
    fn new(seed: u64, layout: fn(&mut Random) -> Layout, without: Without) -> World {
        let mut random = Random(seed);
        let layout = layout(&mut random);
        let store = Store::default();
        let shards: Vec<Name> = (0..layout.shards).map(shard).collect();
        for (key, value) in initial(&config(layout), &shards) {
            store.put(&key, value);
        }
        let count = layout.nodes();
        let nodes = (0..count)
            .map(|number| Node::start((number, number as u64), &store, 99 + random.below(3), None))
            .collect();
        let mut world = World {
            layout,
            random,
            now: 0,
            store,
            paths: vec![Path::default(); count],
            nodes,
            process_count: count as u64,
            links: Vec::new(),
            links_cut_until: vec![vec![0; count]; count],
            sendings: Vec::new(),
            last_link: 0,
            snapshot_count: 0,
            write_count: 0,
            shown: [0; KEYS.len()],
            without,
            transaction_rarity: 20,
            trace: VecDeque::new(),
            last_records: vec![None; layout.shards],
            has_resumed: vec![false; layout.shards],
            move_count: 0,
            ended: BTreeSet::new(),
            owners: [shard(0); KEYS.len()],
            moves_at: 0,
            outcomes: [0; 2],
        };
        world.owners = world.owners();
        world
    }

    fn note(&mut self, text: String) {
        if self.trace.len() == TRACE_MAX {
            self.trace.pop_front();
        }
        self.trace.push_back(format!("{} ms: {text}", self.now));
    }

    /// Runs the schedule of a seed.
    async fn run(&mut self) -> Result<(), String> {
        while self.now < FAULTS_MS {
            if self.now > 3_000 && self.random.is_one_in(20) {
                self.fault();
            }
            if self.layout.shards > 1 && self.now > 2_000 && self.random.is_one_in(20) {
                self.operate();
            }
            self.step().await?;
        }
        self.heal();
        self.note("all faults end".to_owned());
        let before = self.shown;
        let end = self.now + HEALED_MS;
        while self.now < end {
            self.step().await?;
            let are_served = before.iter().zip(&self.shown).all(|(old, new)| old < new);
            if are_served && self.is_whole() && !self.has_moves() {
                return Ok(());
            }
        }
        let members = self.nodes.iter().map(Node::describe);
        let members = members.collect::<Vec<_>>().join("\n");
        Err(format!(
            "the cluster does not work again: {:?}, moves {:?}, shown {before:?} and {:?}\n{members}",
            self.last_records,
            self.directory().moves(),
            self.shown,
        ))
    }

    async fn step(&mut self) -> Result<(), String> {
        self.now += TICK_MS;
        self.store.step(self.now, &self.paths, &mut self.random);
        self.check_moves()?;
        for _ in 0..TURNS {
            yield_now().await;
        }
        for node in &mut self.nodes {
            node.pass_ms(TICK_MS);
        }
        self.move_links();
        self.move_slots();
        for number in 0..self.nodes.len() {
            if self.nodes[number].paused_until > self.now {
                continue;
            }
            // Threads of one process run in any order.
            if self.random.is_one_in(2) {
                self.serve(number)?;
                let transaction = self.begin_transaction(number);
                self.step_host(number)?;
                if let Some(transaction) = transaction {
                    transaction.end();
                }
            } else {
                self.step_host(number)?;
                self.serve(number)?;
            }
            self.sweep(number);
            self.nodes[number].check_hold()?;
        }
        self.note_records();
        self.check()
    }

    fn note_records(&mut self) {
        for at in 0..self.layout.shards {
            let (record, last) = (self.record(at), &self.last_records[at]);
            if record == *last {
                continue;
            }
            let parts = |record: &Option<Shard>| {
                let record = record.as_ref();
                record.map(|record| (record.epoch, record.primary))
            };
            if let (Some((before, from)), Some((term, primary))) = (parts(last), parts(&record))
                && before != term
            {
                self.has_resumed[at] = from.is_none() || from == primary;
            }
            self.note(format!("shard {at}: {record:?}"));
            self.last_records[at] = record;
        }
    }

    fn step_host(&mut self, number: usize) -> Result<(), String> {
        let (delay_ms, fails) = (self.random.below(SAVE_MS), self.random.is_one_in(50));
        let node = &mut self.nodes[number];
        while let Ok(message) = node.inbox.try_recv() {
            node.host.take(message);
        }
        node.host.step();
        node.save(self.now, delay_ms, fails);
        let begins_sweep = std::mem::take(&mut node.host.moving.begins_sweep);
        if begins_sweep {
            node.sweeps_at = Some(self.now + self.random.below(SWEEP_MS));
        }
        node.check_hold()?;
        self.take_moves(number);
        if self.without == Without::Leave {
            self.leave_without_write(number);
        }
        Ok(())
    }

    /// Removes the keys of other shards, as a thread does.
    fn sweep(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        if node.sweeps_at.take_if(|at| *at <= self.now).is_some() {
            crate::importing::sweep(&node.server);
            node.host.swept();
        }
    }

    /// Begins a transaction of a client now and then.
    fn begin_transaction(&mut self, number: usize) -> Option<node::Transaction> {
        let (begins, at) = (
            self.random.is_one_in(self.transaction_rarity),
            self.random.below(KEYS.len() as u64),
        );
        let (node, key) = (&self.nodes[number], KEYS[at as usize]);
        if !begins || !node.executes(key, self.without) {
            return None;
        }
        self.write_count += 1;
        Some(node.begin_transaction(key, self.write_count))
    }

    /// Executes a write or a read of a client, and sends the replies that need not wait.
    fn serve(&mut self, number: usize) -> Result<(), String> {
        let (wants, writes) = (self.random.is_one_in(3), self.random.is_one_in(2));
        let at = self.random.below(KEYS.len() as u64) as usize;
        let (without, is_calm) = (self.without, self.layout.is_calm);
        let node = &mut self.nodes[number];
        let executes = KEYS.map(|key| wants && node.executes(key, without));
        if executes.iter().any(|executes| *executes) {
            let is_sync = node.server.cluster.seat.is_sync();
            for (at, key) in KEYS.into_iter().enumerate().filter(|(at, _)| executes[*at]) {
                let (found, shown) = (node.value(key), self.shown[at]);
                if found < shown {
                    return Err(format!("node {number}: {key} is {found}, and was {shown}"));
                }
            }
            if writes && executes[at] {
                self.write_count += 1;
                node.write(KEYS[at], self.write_count);
            }
            let mut shown = node.values();
            for (value, executes) in shown.iter_mut().zip(executes) {
                *value *= u64::from(executes && (is_sync || is_calm));
            }
            match awaited(&node.server, true, true).filter(|_| without != Without::Confirmation) {
                Some(awaited) if is_sync => node.waiting.push(Waiting { shown, awaited }),
                _ => show(&mut self.shown, shown),
            }
        }
        let progress = Progress::of(&node.server);
        let waiting = std::mem::take(&mut node.waiting);
        for one in waiting {
            match one.awaited.verdict(&progress) {
                Verdict::Waits => node.waiting.push(one),
                Verdict::Over if progress.is_sync() => show(&mut self.shown, one.shown),
                Verdict::Over | Verdict::GivenUp => {}
            }
        }
        Ok(())
    }

    /// Makes members leave the set by a change of the node's own knowledge only.
    fn leave_without_write(&mut self, number: usize) {
        let node = &self.nodes[number];
        let end = node.server.feed.end();
        if let Some(place) = node.server.cluster.seat.place().as_mut() {
            let epoch = place.member.record().value.epoch;
            for silent in place.member.behind(end) {
                place.member.received(silent, epoch, end);
            }
            place.confirm(end);
        }
    }

    /// Returns the record of a shard.
    fn record(&self, at: usize) -> Option<Shard> {
        let value = self.store.value(&format!("{SHARDS}{}", shard(at)))?;
        Shard::decode(&value, World::cluster()).ok()
    }

    /// Returns the number of a shard and its record.
    fn record_of(&self, name: Name) -> Option<(usize, Shard)> {
        let at = (0..self.layout.shards).find(|at| shard(*at) == name)?;
        Some((at, self.record(at)?))
    }

    /// Whether all replicas are in sync.
    fn is_whole(&self) -> bool {
        let mut records = (0..self.layout.shards).map(|at| self.record(at));
        records
            .all(|record| record.is_some_and(|record| record.in_sync.len() == self.layout.replicas))
    }

    /// At most one node of a shard may serve, and at most one of all may execute commands on a
    /// slot.
    fn check(&self) -> Result<(), String> {
        let numbers = |is_one: &dyn Fn(&Node) -> bool| -> Vec<usize> {
            let nodes = self.nodes.iter().filter(|node| is_one(node));
            nodes.map(Node::number).collect()
        };
        for at in 0..self.layout.shards {
            let serving = numbers(&|node| node.shard() == Some(shard(at)) && node.is_fenced_in());
            if serving.len() > 1 {
                return Err(format!(
                    "nodes {serving:?} are fenced in at {} ms",
                    self.now
                ));
            }
        }
        for key in KEYS {
            let serving = numbers(&|node| node.executes(key, self.without));
            if serving.len() > 1 {
                return Err(format!("nodes {serving:?} own {key} at {} ms", self.now));
            }
        }
        Ok(())
    }
}

/// Adds values that a client was shown.
fn show(shown: &mut Values, values: Values) {
    for (shown, value) in shown.iter_mut().zip(values) {
        *shown = value.max(*shown);
    }
}

/// Runs the schedule of a seed. Returns the number of void and of applied commits.
fn run(seed: u64, layout: fn(&mut Random) -> Layout, without: Without) -> Result<[u64; 2], String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime without timers");
    runtime.block_on(async {
        let mut world = World::new(seed, layout, without);
        let failure = world.run().await;
        let trace = Vec::from(world.trace).join("\n");
        failure.map_err(|failure| format!("{failure}\n{trace}"))?;
        Ok(world.outcomes)
    })
}

/// Returns the seeds that the variable sets, or the first `count` ones.
fn seeds(count: u64) -> Range<u64> {
    let range = std::env::var(SEEDS_VARIABLE).ok();
    range.map_or(0..count, |range| {
        let parsed = match range.split_once("..") {
            Some((first, end)) => first.parse().ok().zip(end.parse().ok()),
            None => range.parse().ok().map(|end| (0, end)),
        };
        let (first, end) = parsed.expect("a number of seeds, or a range such as 100..200");
        first..end
    })
}

#[test]
fn random_schedules_have_one_primary_and_lose_no_write_that_a_client_was_shown() {
    for seed in seeds(SEEDS) {
        if let Err(failure) = run(seed, Layout::one_shard, Without::Nothing) {
            panic!("seed {seed}: {failure}");
        }
    }
}

#[test]
fn random_moves_of_slots_have_one_owner_and_lose_no_write_that_a_client_was_shown() {
    let (mut outcomes, seeds) = ([0; 2], seeds(SEEDS_OF_MOVES));
    for seed in seeds.clone() {
        match run(seed, Layout::two_shards, Without::Nothing) {
            Ok(found) => outcomes = [outcomes[0] + found[0], outcomes[1] + found[1]],
            Err(failure) => panic!("seed {seed}: {failure}"),
        }
    }
    let [void, committed] = outcomes;
    let are_few = seeds.end.saturating_sub(seeds.start) < SEEDS_OF_MOVES;
    let has_both = void > 0 && committed > 0;
    assert!(has_both || are_few, "{committed} commits, {void} void ones");
}

#[test]
fn some_schedule_fails_without_each_of_the_rules() {
    for without in [
        Without::Confirmation,
        Without::Fence,
        Without::Leave,
        Without::Discard,
    ] {
        let found = (0..500).find(|seed| run(*seed, Layout::one_shard, without).is_err());
        assert!(found.is_some(), "{without:?} is not found");
    }
}

#[test]
fn a_seed_repeats_its_schedule() {
    let ends = |seed| {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("a runtime without timers");
        runtime.block_on(async {
            let mut world = World::new(seed, Layout::two_shards, Without::Nothing);
            for _ in 0..500 {
                if world.random.is_one_in(20) {
                    world.operate();
                }
                world.step().await.expect("no failure");
            }
            let ends: Vec<u64> = world
                .nodes
                .iter()
                .map(|node| node.server.feed.end())
                .collect();
            (ends, world.write_count, world.random.0)
        })
    };
    assert_eq!(ends(7), ends(7));
}
