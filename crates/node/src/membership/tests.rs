//! Nodes that share a store of values in memory, with simulated time.

use super::balance::PAUSE_PERIODS;
use super::record::Record;
use super::state::{Due, MAP, State};
use super::{Counted, Host, Settings, Shared, read_copy, run};
use crate::config::Server;
use ::membership::kv::{Changes, Entry, Event, Failure, Guard, Kv, Snapshot, Write};
use edge::{BucketWrites, Config as MapConfig, Scheme, ServerId};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

const BUCKETS: u32 = 40;
const LEASE: Duration = Duration::from_secs(10);
/// Period of the comparison of writes with weights.
const PERIOD: Duration = Duration::from_secs(5);
/// Simulated time after which something that did not happen is a failure.
const LIMIT: Duration = Duration::from_secs(600);

/// A value with the lease it belongs to.
type Stored = (Entry, Option<i64>);

#[derive(Default)]
struct Values {
    revision: i64,
    values: BTreeMap<String, Stored>,
    log: Vec<(i64, Event)>,
    /// Changes below this revision are no longer available.
    compacted: i64,
    leases: BTreeSet<i64>,
    leases_made: i64,
    is_down: bool,
}

impl Values {
    fn put(&mut self, key: &str, value: &[u8], lease: Option<i64>) {
        let created = self.values.get(key).map(|(entry, _)| entry.created);
        let entry = Entry {
            key: key.to_owned(),
            value: value.to_vec(),
            created: created.unwrap_or(self.revision),
            revision: self.revision,
        };
        self.log.push((self.revision, Event::Put(entry.clone())));
        self.values.insert(key.to_owned(), (entry, lease));
    }

    fn delete(&mut self, key: &str) {
        if self.values.remove(key).is_some() {
            self.log
                .push((self.revision, Event::Delete(key.to_owned())));
        }
    }

    fn holds(&self, guard: &Guard) -> bool {
        match guard {
            Guard::Revision(key, revision) => {
                let found = self.values.get(key).map_or(0, |(entry, _)| entry.revision);
                found == *revision
            }
            Guard::Lease(key, lease) => {
                let found = self.values.get(key).and_then(|(_, lease)| *lease);
                found == Some(*lease)
            }
        }
    }
}

/// The store.
#[derive(Clone)]
struct Store {
    values: Arc<Mutex<Values>>,
    changes: watch::Sender<()>,
}

impl Store {
    fn new() -> Self {
        Store {
            values: Arc::default(),
            changes: watch::channel(()).0,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Values> {
        self.values.lock().expect("no test panics under the lock")
    }

    /// Changes values at one revision.
    fn change(&self, change: impl FnOnce(&mut Values)) {
        let mut values = self.lock();
        values.revision += 1;
        change(&mut values);
        drop(values);
        self.changes.send_replace(());
    }

    fn put(&self, key: &str, value: &[u8]) {
        self.change(|values| values.put(key, value, None));
    }

    /// Ends the lease of a node.
    fn end_lease(&self, id: u32) {
        let key = format!("nodes/{id}");
        self.change(|values| {
            if let Some((_, Some(lease))) = values.values.get(&key) {
                let lease = *lease;
                values.leases.remove(&lease);
            }
            values.delete(&key);
        });
    }

    fn set_down(&self, is_down: bool) {
        self.lock().is_down = is_down;
        self.changes.send_replace(());
    }

    fn map(&self) -> Option<Record> {
        let (entry, _) = self.lock().values.get(MAP)?.clone();
        Record::decode(&entry.value, &config(), true).ok()
    }

    fn version(&self) -> u64 {
        self.map().map_or(0, |record| record.map.id().version)
    }
}

/// The store as one node reaches it.
#[derive(Clone)]
struct Link {
    store: Store,
    is_cut: Arc<AtomicBool>,
    /// Whether changes are withheld.
    is_silent: Arc<AtomicBool>,
}

impl Link {
    fn values(&self) -> Result<MutexGuard<'_, Values>, Failure> {
        let values = self.store.lock();
        if values.is_down || self.is_cut.load(SeqCst) {
            return Err(Failure("no connection".into()));
        }
        Ok(values)
    }
}

impl Kv for Link {
    type Changes = Following;

    async fn read(&self) -> Result<Snapshot, Failure> {
        let values = self.values()?;
        let entries = values.values.values();
        Ok(Snapshot {
            revision: values.revision,
            entries: entries.map(|(entry, _)| entry.clone()).collect(),
        })
    }

    async fn watch(&self, from: i64) -> Result<Following, Failure> {
        drop(self.values()?);
        Ok(Following {
            link: self.clone(),
            from,
            changes: self.store.changes.subscribe(),
        })
    }

    async fn commit(&self, guards: Vec<Guard>, writes: Vec<Write>) -> Result<Option<i64>, Failure> {
        let mut values = self.values()?;
        if !guards.iter().all(|guard| values.holds(guard)) {
            return Ok(None);
        }
        values.revision += 1;
        let revision = values.revision;
        for write in writes {
            match write {
                Write::Put(key, value, lease) => values.put(&key, value.as_bytes(), lease),
                Write::Delete(key) => values.delete(&key),
            }
        }
        drop(values);
        self.store.changes.send_replace(());
        Ok(Some(revision))
    }

    async fn grant(&self, _: Duration) -> Result<i64, Failure> {
        let mut values = self.values()?;
        values.leases_made += 1;
        let lease = values.leases_made;
        values.leases.insert(lease);
        Ok(lease)
    }

    async fn keep_alive(&self, lease: i64) -> Result<bool, Failure> {
        Ok(self.values()?.leases.contains(&lease))
    }

    fn endpoint(&self) -> String {
        "memory".into()
    }
}

struct Following {
    link: Link,
    from: i64,
    changes: watch::Receiver<()>,
}

impl Changes for Following {
    async fn next(&mut self) -> Result<Vec<Event>, Failure> {
        loop {
            self.changes.mark_unchanged();
            if !self.link.is_silent.load(SeqCst) {
                let values = self.link.values()?;
                if self.from < values.compacted {
                    return Err(Failure("compacted".into()));
                }
                let events = values.log.iter().filter(|(at, _)| *at >= self.from);
                let events: Vec<Event> = events.map(|(_, event)| event.clone()).collect();
                self.from = values.revision + 1;
                if !events.is_empty() {
                    return Ok(events);
                }
            }
            let _ = self.changes.changed().await;
        }
    }
}

/// Maps and loads that a node has received.
#[derive(Default)]
struct Recorder {
    maps: Mutex<Vec<Arc<Record>>>,
    loads: Mutex<Vec<BucketWrites>>,
}

impl Recorder {
    fn versions(&self) -> Vec<u64> {
        let maps = self.maps.lock().expect("no test panics under the lock");
        maps.iter().map(|record| record.map.id().version).collect()
    }

    fn last(&self) -> Option<Arc<Record>> {
        let maps = self.maps.lock().expect("no test panics under the lock");
        maps.last().cloned()
    }
}

impl Host for Recorder {
    fn install(&self, record: &Arc<Record>) {
        let mut maps = self.maps.lock().expect("no test panics under the lock");
        maps.push(record.clone());
    }

    async fn loads(&self) -> Counted {
        let loads = self.loads.lock().expect("no test panics under the lock");
        Counted {
            writes: loads.clone(),
            is_complete: true,
        }
    }
}

fn config() -> MapConfig {
    let mut config = MapConfig::new(Scheme::coded(3, 1));
    config.buckets = BUCKETS;
    config
}

fn server(id: u32) -> Server {
    Server {
        id: ServerId(id),
        address: SocketAddr::from(([127, 0, 0, 1], 7_400 + id as u16)),
        weight: 1,
        name: None,
    }
}

/// A node.
struct Node {
    link: Link,
    host: Arc<Recorder>,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
    _stop: watch::Sender<bool>,
}

impl Node {
    fn start(store: &Store, own: Server, copy: Option<PathBuf>) -> Self {
        let link = Link {
            store: store.clone(),
            is_cut: Arc::default(),
            is_silent: Arc::default(),
        };
        let (host, shared) = (Arc::<Recorder>::default(), Arc::<Shared>::default());
        let (stop, stopped) = watch::channel(false);
        let last = copy
            .as_deref()
            .and_then(|path| read_copy(path, &config(), true));
        if let Some(record) = &last {
            host.install(record);
        }
        let state = State::new(own.id, config(), true, last);
        let settings = Settings {
            own,
            lease: LEASE,
            rebalance: PERIOD,
            copy,
        };
        let running = run(
            link.clone(),
            host.clone(),
            state,
            settings,
            shared.clone(),
            stopped,
        );
        Node {
            link,
            host,
            shared,
            task: tokio::spawn(running),
            _stop: stop,
        }
    }

    fn cut(&self, is_cut: bool) {
        self.link.is_cut.store(is_cut, SeqCst);
        self.link.store.changes.send_replace(());
    }

    fn version(&self) -> u64 {
        self.host.versions().last().copied().unwrap_or(0)
    }
}

/// Waits in simulated time.
async fn until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(LIMIT, waiting).await.expect("it did not happen");
}

/// Waits long enough for everything that is due to happen, but not for leases that are not renewed
/// to end.
async fn settle() {
    sleep(Duration::from_secs(60)).await;
}

async fn cluster(store: &Store, count: u32) -> Vec<Node> {
    let nodes: Vec<Node> = (1..=count)
        .map(|id| Node::start(store, server(id), None))
        .collect();
    until(|| nodes.iter().all(|node| node.version() == 1)).await;
    nodes
}

fn up(record: &Record) -> Vec<u32> {
    let up = record.map.members().iter().filter(|member| member.is_up);
    up.map(|member| member.id.0).collect()
}

#[tokio::test(start_paused = true)]
async fn nodes_that_register_get_one_map() {
    let store = Store::new();
    let nodes = cluster(&store, 4).await;
    settle().await;
    let record = store.map().expect("there is a map");
    assert_eq!(up(&record), [1, 2, 3, 4]);
    for node in &nodes {
        assert_eq!(node.host.versions(), [1]);
        assert_eq!(*node.host.last().expect("there is one"), record);
        let status = node.shared.status();
        assert!(status.is_connected, "{:?}", status.failure);
        assert_eq!(status.registered.len(), 4);
    }
    let stored: u64 = nodes.iter().map(|node| node.shared.status().stored).sum();
    assert_eq!(stored, 1);
}

#[tokio::test(start_paused = true)]
async fn too_few_nodes_have_no_map_and_a_later_one_joins() {
    let store = Store::new();
    let mut nodes: Vec<Node> = (1..4)
        .map(|id| Node::start(&store, server(id), None))
        .collect();
    settle().await;
    assert_eq!(store.version(), 0);
    nodes.push(Node::start(&store, server(4), None));
    until(|| nodes.iter().all(|node| node.version() == 1)).await;
    nodes.push(Node::start(&store, server(5), None));
    until(|| nodes.iter().all(|node| node.version() == 2)).await;
    assert_eq!(up(&store.map().expect("there is a map")), [1, 2, 3, 4, 5]);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_ends_and_a_node_that_comes_back_make_one_version_each() {
    let store = Store::new();
    let nodes = cluster(&store, 5).await;
    // The coordinator is not spared.
    for (round, id) in [1, 3].into_iter().enumerate() {
        let node = &nodes[id as usize - 1];
        node.cut(true);
        store.end_lease(id);
        let version = 2 + 2 * round as u64;
        until(|| store.version() == version).await;
        settle().await;
        let record = store.map().expect("there is a map");
        assert!(!up(&record).contains(&id));
        assert_eq!(record.map.id().version, version);
        // The node serves with the map that it has.
        assert_eq!(node.version(), version - 1);
        assert!(!node.shared.status().is_connected);
        node.cut(false);
        until(|| nodes.iter().all(|node| node.version() == version + 1)).await;
        settle().await;
        assert_eq!(store.version(), version + 1);
        assert_eq!(up(&store.map().expect("there is a map")).len(), 5);
    }
}

#[tokio::test(start_paused = true)]
async fn changes_that_come_together_make_one_version() {
    let store = Store::new();
    let nodes = cluster(&store, 6).await;
    for id in [2, 5] {
        nodes[id as usize - 1].cut(true);
        store.end_lease(id);
    }
    until(|| store.version() == 2).await;
    settle().await;
    assert_eq!(up(&store.map().expect("there is a map")), [1, 3, 4, 6]);
    assert_eq!(store.version(), 2);
}

#[tokio::test(start_paused = true)]
async fn without_the_store_nodes_keep_their_map_and_later_see_changes() {
    let store = Store::new();
    let mut nodes = cluster(&store, 4).await;
    store.set_down(true);
    settle().await;
    for node in &nodes {
        let status = node.shared.status();
        assert!(!status.is_connected);
        assert!(status.failure.is_some());
        assert_eq!(node.host.versions(), [1]);
    }
    store.set_down(false);
    until(|| nodes.iter().all(|node| node.shared.status().is_connected)).await;
    assert_eq!(store.version(), 1);
    nodes.push(Node::start(&store, server(7), None));
    until(|| nodes.iter().all(|node| node.version() == 2)).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_missed_compacted_changes_reads_everything() {
    let store = Store::new();
    let nodes = cluster(&store, 5).await;
    nodes[1].cut(true);
    nodes[4].cut(true);
    store.end_lease(5);
    until(|| nodes[0].version() == 2).await;
    store.change(|values| {
        values.compacted = values.revision;
        values.log.clear();
    });
    nodes[1].cut(false);
    until(|| nodes[1].version() == 2).await;
    // Compaction under the eyes of those that follow.
    store.change(|values| {
        values.put("leave/5", b"", None);
        values.compacted = values.revision + 1;
        values.log.clear();
    });
    until(|| nodes[..4].iter().all(|node| node.version() == 3)).await;
    let record = store.map().expect("there is a map");
    assert_eq!(record.servers.len(), 4);
    assert!(!store.lock().values.contains_key("leave/5"));
}

#[tokio::test(start_paused = true)]
async fn a_damaged_map_is_refused_and_replaced_by_the_last_good_one() {
    let store = Store::new();
    let nodes = cluster(&store, 4).await;
    let good = store.map().expect("there is a map");
    let mut value = good.encode().into_bytes();
    let middle = value.len() / 2;
    value[middle] ^= 1;
    for damaged in [value, b"".to_vec(), b"\xff\n".to_vec()] {
        store.put(MAP, &damaged);
        until(|| store.map().as_ref() == Some(&good)).await;
    }
    settle().await;
    for node in &nodes {
        assert_eq!(node.host.versions(), [1]);
        assert!(node.shared.status().refused >= 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_map_of_an_older_version_changes_nothing() {
    let store = Store::new();
    let nodes = cluster(&store, 5).await;
    let first = store.map().expect("there is a map");
    nodes[4].cut(true);
    store.end_lease(5);
    until(|| nodes[..4].iter().all(|node| node.version() == 2)).await;
    // As after the restoration of a backup.
    store.put(MAP, first.encode().as_bytes());
    until(|| store.version() == 2).await;
    settle().await;
    for node in &nodes[..4] {
        assert_eq!(node.host.versions(), [1, 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_has_lost_everything_gets_map_and_nodes_again() {
    let store = Store::new();
    let nodes = cluster(&store, 4).await;
    store.set_down(true);
    settle().await;
    {
        let mut values = store.lock();
        *values = Values::default();
    }
    store.set_down(false);
    until(|| store.version() >= 1 && nodes.iter().all(|node| node.shared.status().is_connected))
        .await;
    settle().await;
    assert_eq!(up(&store.map().expect("there is a map")), [1, 2, 3, 4]);
    assert_eq!(store.lock().values.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_map_of_a_later_release_is_neither_used_nor_replaced() {
    let store = Store::new();
    let nodes = cluster(&store, 4).await;
    let later = b"mayfly-edge-map 2 x\n{}".to_vec();
    store.put(MAP, &later);
    nodes[3].cut(true);
    store.end_lease(4);
    settle().await;
    let (entry, _) = store.lock().values[MAP].clone();
    assert_eq!(entry.value, later);
    assert!(nodes.iter().all(|node| node.host.versions() == [1]));
}

#[tokio::test(start_paused = true)]
async fn a_damaged_registration_leaves_the_node_as_it_was() {
    let store = Store::new();
    let nodes = cluster(&store, 4).await;
    store.change(|values| {
        let (_, lease) = values.values["nodes/2"].clone();
        values.put("nodes/2", b"{\"address\":", lease);
        values.put("nodes/x", b"{}", None);
        values.put(
            "nodes/9",
            b"{\"address\":\"10.0.0.1:1\",\"weight\":1,\"name\":null}",
            None,
        );
    });
    settle().await;
    assert_eq!(store.version(), 1);
    assert!(nodes.iter().all(|node| node.shared.status().refused >= 2));
}

#[tokio::test(start_paused = true)]
async fn a_number_belongs_to_one_address_at_a_time() {
    let store = Store::new();
    let nodes = cluster(&store, 4).await;
    let mut other = server(2);
    other.address.set_port(9_999);
    let second = Node::start(&store, other.clone(), None);
    settle().await;
    let failure = second
        .shared
        .status()
        .failure
        .expect("it is not registered");
    assert!(failure.contains("expected another number"), "{failure}");
    assert_eq!(store.version(), 1);
    nodes[1].task.abort();
    store.end_lease(2);
    until(|| nodes[0].version() >= 2 && second.shared.status().is_connected).await;
    settle().await;
    let record = store.map().expect("there is a map");
    assert_eq!(up(&record), [1, 2, 3, 4]);
    assert_eq!(record.servers[1], other);
}

#[tokio::test(start_paused = true)]
async fn nodes_that_start_one_after_the_other_change_no_map() {
    let store = Store::new();
    let nodes = cluster(&store, 4).await;
    nodes.iter().for_each(|node| node.task.abort());
    (1..5).for_each(|id| store.end_lease(id));
    let mut nodes = vec![];
    for id in 1..5 {
        nodes.push(Node::start(&store, server(id), None));
        sleep(Duration::from_secs(2)).await;
    }
    settle().await;
    assert!(nodes.iter().all(|node| node.host.versions() == [1]));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_gets_no_changes_reads_again_when_another_one_has_a_newer_map() {
    let store = Store::new();
    let nodes = cluster(&store, 5).await;
    settle().await;
    // The endpoint of the second node passes on nothing. The first one makes the maps.
    nodes[1].link.is_silent.store(true, SeqCst);
    nodes[4].task.abort();
    store.end_lease(5);
    until(|| nodes[0].version() == 2).await;
    settle().await;
    assert_eq!(nodes[1].version(), 1);
    nodes[1].link.is_silent.store(false, SeqCst);
    nodes[1].shared.note_newer(2);
    until(|| nodes[1].version() == 2).await;
}

#[tokio::test(start_paused = true)]
async fn weights_and_replaced_machines_are_seen() {
    let store = Store::new();
    let mut nodes = cluster(&store, 5).await;
    nodes[2].task.abort();
    nodes[4].task.abort();
    let heavier = Server {
        weight: 3,
        ..server(3)
    };
    nodes[2] = Node::start(&store, heavier.clone(), None);
    until(|| nodes[2].version() == 2).await;
    assert_eq!(store.map().expect("there is a map").servers[2], heavier);
    // Another number at the address of a node whose lease has ended.
    store.end_lease(5);
    let replacement = Server {
        id: ServerId(6),
        ..server(5)
    };
    nodes.push(Node::start(&store, replacement, None));
    settle().await;
    let record = store.map().expect("there is a map");
    let ids: Vec<u32> = record.servers.iter().map(|server| server.id.0).collect();
    assert_eq!(ids, [1, 2, 3, 4, 6]);
}

#[tokio::test(start_paused = true)]
async fn parity_is_placed_by_the_recorded_loads() {
    let store = Store::new();
    let nodes = cluster(&store, 6).await;
    let loads: Vec<BucketWrites> = (0..u64::from(BUCKETS))
        .map(|bucket| BucketWrites {
            chunk_bytes: (bucket % 7 + 1) * 1_000_000,
            whole_bytes: 0,
        })
        .collect();
    for node in &nodes {
        *node
            .host
            .loads
            .lock()
            .expect("no test panics under the lock") = loads.clone();
    }
    nodes[5].cut(true);
    store.end_lease(6);
    until(|| nodes[0].version() == 2).await;
    let record = store.map().expect("there is a map");
    assert_eq!(record.loads, loads);
    let problem = record.map.problem(&loads);
    let imbalance = problem.imbalance(&record.map.placed());
    assert!(imbalance < 0.2, "{imbalance}");
}

#[tokio::test(start_paused = true)]
async fn a_restart_without_the_store_uses_the_copy() {
    let folder = std::env::temp_dir().join(format!("mayfly-membership-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    let path = folder.join("map");
    let store = Store::new();
    let mut nodes = cluster(&store, 4).await;
    nodes[0].task.abort();
    nodes[0] = Node::start(&store, server(1), Some(path.clone()));
    until(|| nodes[0].version() == 1 && path.exists()).await;
    store.set_down(true);
    nodes[0].task.abort();
    nodes[0] = Node::start(&store, server(1), Some(path.clone()));
    settle().await;
    assert_eq!(nodes[0].host.versions(), [1]);
    let mut damaged = std::fs::read(&path).expect("the file is there");
    damaged[40] ^= 4;
    std::fs::write(&path, damaged).expect("the file can be written");
    assert!(read_copy(&path, &config(), true).is_none());
    let _ = std::fs::remove_dir_all(&folder);
}

/// Returns the knowledge of a node that has read everything.
fn known(store: &Store, own: u32) -> State {
    let mut state = State::new(ServerId(own), config(), true, None);
    let values = store.lock();
    state.load(
        values
            .values
            .values()
            .map(|(entry, _)| entry.clone())
            .collect(),
    );
    state
}

#[tokio::test(start_paused = true)]
async fn of_two_coordinators_one_stores_its_map() {
    let store = Store::new();
    let nodes = cluster(&store, 5).await;
    nodes.iter().for_each(|node| node.task.abort());
    let lease = |id: u32| {
        store.lock().values[&format!("nodes/{id}")]
            .1
            .expect("it has a lease")
    };
    let leases = [lease(1), lease(2)];
    // The first node sees that the fifth has gone; the second one that the first has gone, too.
    store.end_lease(5);
    let mut first = known(&store, 1);
    let mut second = known(&store, 2);
    second.apply(Event::Delete("nodes/1".into()));
    assert_eq!(first.due(), Some(Due::Next));
    assert_eq!(second.due(), Some(Due::Next));
    let link = &nodes[0].link;
    let mut results = vec![];
    for (state, lease) in [(&first, leases[0]), (&second, leases[1])] {
        let record = state
            .next(Due::Next, vec![])
            .expect("there are enough nodes");
        let (guards, writes) = state.install(&record, lease);
        results.push(
            link.commit(guards, writes)
                .await
                .map(|found| found.is_some()),
        );
    }
    assert_eq!(results, [Ok(true), Ok(false)]);
    assert_eq!(up(&store.map().expect("there is a map")), [1, 2, 3, 4]);
    // A coordinator whose lease has ended stores nothing either.
    for state in [&mut first, &mut second] {
        *state = known(&store, 1);
    }
    store.end_lease(1);
    let record = first.next(Due::Restore, vec![]).expect("there is a map");
    let (guards, writes) = first.install(&record, leases[0]);
    assert_eq!(link.commit(guards, writes).await, Ok(None));
}

/// Adds the writes of a period to the counts of all nodes: the lower buckets have more.
fn write(nodes: &[Node], weight: impl Fn(u64) -> u64) {
    for node in nodes {
        let mut loads = node
            .host
            .loads
            .lock()
            .expect("no test panics under the lock");
        loads.resize(BUCKETS as usize, BucketWrites::default());
        for (bucket, load) in loads.iter_mut().enumerate() {
            load.chunk_bytes += 1_000 * weight(bucket as u64);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn writes_that_drift_make_one_map_after_the_pause() {
    let store = Store::new();
    let nodes = cluster(&store, 6).await;
    let first = store.map().expect("there is a map");
    let skewed = |bucket| 1 + edge::mix(bucket) % 10;
    let mut periods = 0;
    while nodes.iter().any(|node| node.version() < 2) {
        write(&nodes, skewed);
        sleep(PERIOD).await;
        periods += 1;
    }
    assert!(
        (PAUSE_PERIODS..PAUSE_PERIODS + 3).contains(&periods),
        "{periods}"
    );
    let second = store.map().expect("there is a map");
    let imbalance = |record: &Record| {
        let map = &record.map;
        map.problem(&second.loads).imbalance(&map.placed())
    };
    assert!(imbalance(&second) < imbalance(&first) / 2.0);
    assert_eq!(up(&second), [1, 2, 3, 4, 5, 6]);
    let rebalanced = nodes.iter().map(|node| node.shared.status().rebalanced);
    assert_eq!(rebalanced.sum::<u64>(), 1);
    // The same writes need no other map.
    for _ in 0..3 * PAUSE_PERIODS {
        write(&nodes, skewed);
        sleep(PERIOD).await;
    }
    assert_eq!(store.version(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_map_of_another_release_is_not_replaced_because_writes_drift() {
    let store = Store::new();
    let nodes = cluster(&store, 6).await;
    let value = store.map().expect("there is a map").encode();
    let later = value.replacen("map 1", "map 2", 1);
    store.put(MAP, later.as_bytes());
    for _ in 0..2 * PAUSE_PERIODS {
        write(&nodes, |bucket| 1 + edge::mix(bucket) % 10);
        sleep(PERIOD).await;
    }
    let (entry, _) = store.lock().values[MAP].clone();
    assert_eq!(entry.value, later.as_bytes());
}
