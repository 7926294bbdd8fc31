//! A deterministic simulation of hosts: three nodes of one shard, each with its own clock, on a
//! simulated etcd (`store.rs`) and simulated replication links (`links.rs`). The hosts, the rules
//! and the state of servers are the real ones; the keys of a server are replaced by the list of
//! writes that it has.
//!
//! A seed determines everything: delays, losses, pauses, ends of processes, partitions, requested
//! failovers, writes and reads. At each instant at most one node may be fenced in, and in a cluster
//! with strength `sync` each node that executes a command has all writes that a client was shown.

mod failovers;
mod links;
mod store;

use super::{Host, Message, follow};
use crate::net::connection::sync::{Awaited, Progress, Verdict, awaited};
use crate::routing::{self, How, Standing};
use crate::state::Server;
use ::cluster::{Name, Role};
use durability::replication::ReplicaState;
use links::Link;
use membership::directory::initial;
use membership::records::{CONFIG, Config, SHARDS, Shard, Strength};
use session::clock::Clock;
use settings::find;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use store::{Access, Path, Store};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, yield_now};

const NODES: usize = 3;
const LEASE_MS: u64 = 1_000;
const SYNC_TIMEOUT_MS: u64 = 300;
/// Time between two steps of the world in milliseconds.
const TICK_MS: u64 = 10;
/// Time with faults, and time after them in which the shard must work again, in milliseconds.
const FAULTS_MS: u64 = 12_000;
const HEALED_MS: u64 = 20_000;
/// Number of times that tasks run in a step of the world. A task that waits for another one needs
/// two.
const TURNS: usize = 6;
/// Number of faults and changes that a failure shows.
const TRACE_MAX: usize = 100;
/// Number of schedules in each run of the tests, and the variable that sets another number or a
/// range such as 100..200.
const SEEDS: u64 = 60;
const SEEDS_VARIABLE: &str = "MAYFLY_HOST_SEEDS";

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

/// A write, by its number, and the position of the feed after it.
type Entry = (u64, u64);

/// A reply that waits.
struct Waiting {
    /// Number of writes in the node's list that the reply reports or shows.
    shown: Vec<u64>,
    awaited: Awaited,
}

struct Node {
    server: Arc<Server>,
    host: Host<Access>,
    inbox: mpsc::Receiver<Message>,
    follower: AbortHandle,
    /// Percentage of real time that the node's clock advances, and its remainder.
    rate: u64,
    remainder: u64,
    paused_until: u64,
    /// Writes that the node has.
    log: Vec<Entry>,
    waiting: Vec<Waiting>,
}

struct World {
    random: Random,
    now: u64,
    store: Store,
    paths: [Path; NODES],
    nodes: Vec<Node>,
    links: Vec<Link>,
    links_cut_until: [[u64; NODES]; NODES],
    next_link: u64,
    /// Number of snapshots that replicas have received.
    snapshot_count: u64,
    write_count: u64,
    /// Writes that a client was shown.
    shown: BTreeSet<u64>,
    without: Without,
    /// The last faults, and changes of the record.
    trace: VecDeque<String>,
    last_record: Option<Shard>,
}

fn name(number: usize) -> Name {
    Name::parse(format!("{:040x}", number + 1).as_bytes()).expect("40 digits")
}

fn shard() -> Name {
    name(99)
}

fn config(strength: Strength) -> Config {
    Config {
        cluster: name(100),
        shards: 1,
        replicas: (NODES - 1) as u32,
        lease_ms: LEASE_MS,
        strength,
        sync_timeout_ms: SYNC_TIMEOUT_MS,
    }
}

fn start(number: usize, store: &Store, rate: u64, term: u64) -> Node {
    let settings = settings::Config::default();
    for (name, value) in [
        ("cluster-enabled", "yes"),
        ("threads", "1"),
        ("databases", "1"),
        // There is no local copy.
        ("dir", "/nonexistent"),
    ] {
        let param = find(name).expect("a setting of this name");
        settings.set(param, value).expect("a value that fits");
    }
    let server = Server::new(settings, Clock::manual(1_700_000_000_000)).expect("valid settings");
    server.network.port.store(7_000 + number as u16, Relaxed);
    server.cluster.node_id.set(name(number)).expect("it is new");
    server.feed.set_backlog(1 << 20);
    let server = Arc::new(server);
    let (sender, inbox) = mpsc::channel(super::MESSAGES_MAX);
    let mut host = Host::new(
        &server,
        Arc::new(store.access(number)),
        sender.clone(),
        None,
    );
    host.roles.term = term;
    let again = Arc::clone(&host.again);
    let kv = Arc::clone(&host.kv);
    // Each turn of the tasks is a step of the world, so that a pause is a few of them.
    let pause = |_| async {
        for _ in 0..TURNS * 5 {
            yield_now().await;
        }
    };
    let follower = tokio::spawn(follow::follow(kv, sender, again, 0, pause));
    Node {
        server,
        host,
        inbox,
        follower: follower.abort_handle(),
        rate,
        remainder: 0,
        paused_until: 0,
        log: Vec::new(),
        waiting: Vec::new(),
    }
}

impl Node {
    fn number(&self) -> usize {
        usize::from(self.server.network.port.load(Relaxed)) - 7_000
    }

    /// The state on which the node's part in the shard depends.
    fn describe(&self) -> String {
        let replication = &self.server.replication;
        let follows = |replica: &ReplicaState| {
            format!("{} to {} by {}", replica.port, replica.acked, replica.link)
        };
        let replicas: Vec<String> = replication.replicas().iter().map(follows).collect();
        let primary = replication.primary().map(|primary| primary.port);
        let place = self.server.cluster.seat.place();
        format!(
            "node {} follows {primary:?}, followed by {replicas:?}, feed to {}, {:?}",
            self.number(),
            self.server.feed.end(),
            place.as_ref().map(|place| &place.member),
        )
    }

    /// Whether the node knows that it has all acknowledged writes.
    fn is_complete(&self) -> bool {
        let place = self.server.cluster.seat.place();
        place
            .as_ref()
            .is_some_and(|place| place.member.is_complete())
    }

    /// Whether the node may execute commands as the primary.
    fn is_fenced_in(&self) -> bool {
        let (cluster, is_replica) = (&self.server.cluster, self.server.replication.is_replica());
        !is_replica && routing::now(&self.server.clock) < cluster.fence()
    }

    /// Whether a worker executes a write.
    fn executes(&self, without: Without) -> bool {
        let is_primary = !self.server.replication.is_replica();
        let is_fenced_in = self.is_fenced_in() || without == Without::Fence && is_primary;
        let standing = Standing {
            is_fenced_in,
            is_fresh: false,
        };
        let routes = self.server.cluster.routes();
        let is_held = self
            .server
            .data
            .pause
            .until(self.server.clock.moment())
            .is_some();
        routes.check(0, How::Write, standing).is_ok() && !is_held
    }

    fn has(&self, write: u64) -> bool {
        self.log
            .binary_search_by_key(&write, |entry| entry.0)
            .is_ok()
    }
}

impl World {
    fn new(seed: u64, without: Without) -> World {
        let mut random = Random(seed);
        let strength = match random.below(5) {
            0 => Strength::Async,
            _ => Strength::Sync,
        };
        let store = Store::default();
        for (key, value) in initial(&config(strength), &[shard()]) {
            store.put(&key, value);
        }
        let nodes = (0..NODES)
            .map(|number| start(number, &store, 99 + random.below(3), 0))
            .collect();
        World {
            random,
            now: 0,
            store,
            paths: [Path::default(); NODES],
            nodes,
            links: Vec::new(),
            links_cut_until: [[0; NODES]; NODES],
            next_link: 0,
            snapshot_count: 0,
            write_count: 0,
            shown: BTreeSet::new(),
            without,
            trace: VecDeque::new(),
            last_record: None,
        }
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
            self.step().await?;
        }
        self.heal();
        let before = self.shown.len();
        let end = self.now + HEALED_MS;
        while self.now < end {
            self.step().await?;
            if self.is_whole() && self.shown.len() > before + 3 {
                return Ok(());
            }
        }
        let record = self.record();
        let members = self.nodes.iter().map(Node::describe);
        let members = members.collect::<Vec<_>>().join("\n");
        Err(format!(
            "the shard does not work again: {record:?}\n{members}"
        ))
    }

    async fn step(&mut self) -> Result<(), String> {
        self.now += TICK_MS;
        self.store.step(self.now, &self.paths, &mut self.random);
        for _ in 0..TURNS {
            yield_now().await;
        }
        for node in &mut self.nodes {
            node.remainder += TICK_MS * node.rate;
            node.server.clock.pass_ms(node.remainder / 100);
            node.remainder %= 100;
        }
        self.move_links();
        for number in 0..NODES {
            let node = &mut self.nodes[number];
            if node.paused_until > self.now {
                continue;
            }
            // Threads of one process run in any order.
            if self.random.is_one_in(2) {
                self.serve(number)?;
                self.step_host(number);
            } else {
                self.step_host(number);
                self.serve(number)?;
            }
        }
        let record = self.record();
        if record != self.last_record {
            self.note(format!("{record:?}"));
            self.last_record = record;
        }
        self.check()
    }

    fn step_host(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        while let Ok(message) = node.inbox.try_recv() {
            node.host.take(message);
        }
        node.host.step();
        if let Some(copy) = node.host.copy_to_save() {
            node.host.saved(Ok(copy.term));
        }
        if self.without == Without::Leave {
            self.leave_without_write(number);
        }
    }

    /// Executes a write or a read of a client, and sends the replies that need not wait.
    fn serve(&mut self, number: usize) -> Result<(), String> {
        let (wants, writes) = (self.random.is_one_in(3), self.random.is_one_in(2));
        let without = self.without;
        let node = &mut self.nodes[number];
        if wants && node.executes(without) {
            let is_sync = node.server.cluster.seat.is_sync();
            if let Some(lost) = self.shown.iter().find(|write| !node.has(**write)) {
                return Err(format!("node {number} serves without write {lost}"));
            }
            if writes {
                self.write_count += 1;
                let value = self.write_count.to_string();
                let words = [&b"SET"[..], b"key", value.as_bytes()];
                let mut bytes = Vec::new();
                session::feed::put_command(&mut bytes, words.into_iter());
                node.server.feed.append_raw(&bytes);
                node.log.push((self.write_count, node.server.feed.end()));
            }
            let shown: Vec<u64> = match is_sync {
                true => node.log.iter().map(|entry| entry.0).collect(),
                false => Vec::new(),
            };
            match awaited(&node.server, true, true).filter(|_| without != Without::Confirmation) {
                Some(awaited) if is_sync => node.waiting.push(Waiting { shown, awaited }),
                _ => self.shown.extend(shown),
            }
        }
        let progress = Progress::of(&node.server);
        let waiting = std::mem::take(&mut node.waiting);
        for one in waiting {
            match one.awaited.verdict(&progress) {
                Verdict::Waits => node.waiting.push(one),
                Verdict::Over if progress.is_sync() => self.shown.extend(one.shown),
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

    /// Causes one of the faults.
    fn fault(&mut self) {
        let (number, other) = (
            self.random.below(NODES as u64) as usize,
            self.random.below(NODES as u64) as usize,
        );
        let until = self.now + 50 + self.random.below(4 * LEASE_MS);
        let kind = self.random.below(12);
        self.note(format!(
            "fault {kind} of node {number}, {other}, until {until} ms"
        ));
        match kind {
            0 => self.nodes[number].paused_until = until,
            1 => self.paths[number].cut_until = until,
            2 => self.paths[number].lags_until = until,
            3 => {
                self.links_cut_until[number][other] = until;
                self.links_cut_until[other][number] = until;
            }
            4 => self
                .paths
                .iter_mut()
                .for_each(|path| path.cut_until = until),
            5 => self.store.compact(),
            6 => self.store.revoke(),
            7 => self.nodes[number]
                .server
                .cluster
                .seat
                .wants_failover
                .store(true, Relaxed),
            8 => self.nodes[number]
                .server
                .cluster
                .seat
                .is_forced
                .store(true, Relaxed),
            9 => self.links.retain(|link| link.replica != number),
            _ => self.restart(number),
        }
    }

    /// Ends a process and starts another one. It loses its keys if another node of the record has
    /// all writes that clients were shown, and stays in the record. Otherwise a primary keeps its
    /// keys, as those of an append-only file, and other nodes do not end.
    fn restart(&mut self, number: usize) {
        let Some(record) = self.record() else {
            return;
        };
        let me = name(number);
        let has_copy = |id: &Name| {
            let node = self.nodes.iter().find(|node| node.host.me == *id);
            node.is_some_and(|node| node.number() != number && node.is_complete())
        };
        let other_has = record.in_sync.iter().chain(&record.primary).any(has_copy);
        // If its campaign applies after it has lost its keys, it is the primary of a term without
        // any write of it, and the former primary, which has all writes, is not in sync. If its
        // removal of a replica applies, it is alone, and the replica that had all writes is not in
        // sync. The rules do not exclude these losses.
        let is_fatal = |sent: &Shard| {
            let campaigns = sent.primary == Some(me) && record.primary != Some(me);
            let removes = record.in_sync.iter().any(|id| !sent.in_sync.contains(id));
            campaigns || sent.primary == Some(me) && removes
        };
        let may_lose_keys = other_has && !self.sent_records(number).iter().any(is_fatal);
        let node = &self.nodes[number];
        let (rate, term) = (node.rate, node.host.roles.term);
        let may_end = record.primary == Some(me) && term >= record.epoch;
        if !may_lose_keys && !may_end {
            return;
        }
        let keys = match may_lose_keys {
            true => Vec::new(),
            false => node.log.clone(),
        };
        self.note(format!("node {number} starts with {} writes", keys.len()));
        self.links
            .retain(|link| link.replica != number && link.primary != number);
        self.nodes[number].follower.abort();
        self.store.forget(number);
        self.nodes[number] = start(number, &self.store, rate, term);
        self.nodes[number].log = keys;
    }

    /// Records of the shard that a node has sent and the store has not written.
    fn sent_records(&self, number: usize) -> Vec<Shard> {
        let sent = self.store.sent_records(number);
        let decoded = sent.iter().map(|value| Shard::decode(value, name(100)));
        decoded.map(|shard| shard.expect("it is valid")).collect()
    }

    fn heal(&mut self) {
        self.paths = [Path::default(); NODES];
        self.links_cut_until = [[0; NODES]; NODES];
        self.nodes.iter_mut().for_each(|node| node.paused_until = 0);
        self.store.put(CONFIG, config(Strength::Sync).encode());
    }

    fn record(&self) -> Option<Shard> {
        let value = self.store.value(&format!("{SHARDS}{}", shard()))?;
        Shard::decode(&value, name(100)).ok()
    }

    /// Whether all replicas are in sync.
    fn is_whole(&self) -> bool {
        self.record()
            .is_some_and(|record| record.in_sync.len() == NODES - 1)
    }

    /// At most one node may serve.
    fn check(&self) -> Result<(), String> {
        let is_serving = |node: &&Node| match self.without {
            Without::Fence => node.executes(Without::Fence),
            _ => {
                node.is_fenced_in() && matches!(node.server.cluster.routes().role, Role::Primary(_))
            }
        };
        let serving: Vec<usize> = self
            .nodes
            .iter()
            .filter(is_serving)
            .map(Node::number)
            .collect();
        match serving.len() {
            0 | 1 => Ok(()),
            _ => Err(format!(
                "nodes {serving:?} are fenced in at {} ms",
                self.now
            )),
        }
    }
}

fn run(seed: u64, without: Without) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime without timers");
    runtime.block_on(async {
        let mut world = World::new(seed, without);
        let failure = world.run().await;
        let trace = Vec::from(world.trace).join("\n");
        failure.map_err(|failure| format!("{failure}\n{trace}"))
    })
}

#[test]
fn random_schedules_have_one_primary_and_lose_no_write_that_a_client_was_shown() {
    let range = std::env::var(SEEDS_VARIABLE).ok();
    let range = range.map_or(0..SEEDS, |range| {
        let parsed = match range.split_once("..") {
            Some((first, end)) => first.parse().ok().zip(end.parse().ok()),
            None => range.parse().ok().map(|end| (0, end)),
        };
        let (first, end) = parsed.expect("a number of seeds, or a range such as 100..200");
        first..end
    });
    for seed in range {
        if let Err(failure) = run(seed, Without::Nothing) {
            panic!("seed {seed}: {failure}");
        }
    }
}

#[test]
fn some_schedule_fails_without_each_of_the_rules() {
    for without in [
        Without::Confirmation,
        Without::Fence,
        Without::Leave,
        Without::Discard,
    ] {
        let found = (0..500).find(|seed| run(*seed, without).is_err());
        assert!(found.is_some(), "{without:?} is not found");
    }
}

#[test]
fn a_seed_repeats_its_schedule() {
    let ends = |seed| {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("a runtime without timers");
        runtime.block_on(async {
            let mut world = World::new(seed, Without::Nothing);
            for _ in 0..500 {
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
