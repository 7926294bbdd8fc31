//! A simulated etcd: one log of guarded writes, requests that are delayed or lose their replies,
//! watches that lag, compaction, leases that end.

use super::Random;
use membership::kv::{Changes, Entry, Event, Failure, Guard, Kv, Snapshot, Write};
use membership::records::SHARDS;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Time in milliseconds after which a request without a reply fails.
const REQUEST_MS: u64 = 1_000;
/// Longest ordinary delay of a request, a reply or an event in milliseconds.
const DELAY_MS: u64 = 20;
/// Maximum number of groups of changes that reach a node in a step.
const BATCHES_MAX: usize = 1;

enum Request {
    Read(oneshot::Sender<Result<Snapshot, Failure>>),
    Watch(i64, oneshot::Sender<Result<Watch, Failure>>),
    Commit(
        Vec<Guard>,
        Vec<Write>,
        oneshot::Sender<Result<Option<i64>, Failure>>,
    ),
    Grant(u64, oneshot::Sender<Result<i64, Failure>>),
    Renew(i64, oneshot::Sender<Result<bool, Failure>>),
}

/// A request that reaches the store at an instant.
struct Sent {
    node: usize,
    at: u64,
    request: Request,
}

/// A reply, which reaches its node at an instant.
struct Due {
    at: u64,
    send: Box<dyn FnOnce() + Send>,
}

/// A watch at the store.
struct Watcher {
    node: usize,
    next: usize,
    /// Changes that are on the way.
    due: Vec<(u64, Vec<Event>)>,
    sender: mpsc::UnboundedSender<Result<Vec<Event>, Failure>>,
}

/// Whether a node reaches the store, and when requests that were sent before fail.
#[derive(Clone, Copy, Default)]
pub struct Path {
    /// Instant until which the node does not reach the store.
    pub cut_until: u64,
    /// Instant until which changes do not reach the node, although requests do.
    pub lags_until: u64,
}

#[derive(Default)]
struct State {
    now: u64,
    revision: i64,
    values: BTreeMap<String, (Entry, Option<i64>)>,
    log: Vec<(i64, Event)>,
    compacted: i64,
    leases: BTreeMap<i64, (u64, u64)>,
    new: Vec<(usize, Request)>,
    sent: Vec<Sent>,
    due: Vec<Due>,
    watchers: Vec<Watcher>,
}

/// The store.
#[derive(Clone, Default)]
pub struct Store(Arc<Mutex<State>>);

/// Access of one node.
pub struct Access {
    node: usize,
    store: Store,
}

/// Changes that reach a node.
pub struct Watch(mpsc::UnboundedReceiver<Result<Vec<Event>, Failure>>);

fn gone() -> Failure {
    Failure("the store does not answer".into())
}

impl Store {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("the lock is not poisoned")
    }

    /// Returns the access of a node.
    pub fn access(&self, node: usize) -> Access {
        Access {
            node,
            store: self.clone(),
        }
    }

    /// Writes records as an operator does.
    pub fn put(&self, key: &str, value: String) {
        self.state()
            .write(&[Write::Put(key.to_owned(), value, None)]);
    }

    /// Returns a value.
    pub fn value(&self, key: &str) -> Option<Vec<u8>> {
        let state = self.state();
        state.values.get(key).map(|(entry, _)| entry.value.clone())
    }

    /// Returns all values, and the revision of the last write.
    pub fn all(&self) -> (i64, Vec<Entry>) {
        let state = self.state();
        let entries = state.values.values().map(|(entry, _)| entry.clone());
        (state.revision, entries.collect())
    }

    /// Performs the guarded writes of an operator.
    pub fn commit(&self, guards: &[Guard], writes: &[Write]) {
        self.state().commit(guards, writes);
    }

    /// Returns the revision of the last write to names that begin with one of some prefixes.
    pub fn newest(&self, prefixes: &[&str]) -> i64 {
        let state = self.state();
        let of_any = |key: &&String| prefixes.iter().any(|prefix| key.starts_with(prefix));
        let found = state.values.keys().filter(of_any);
        let revisions = found.map(|key| state.values[key].0.revision);
        revisions.max().unwrap_or(0)
    }

    /// Returns the records of shards in writes of a node that are on their way.
    pub fn sent_records(&self, node: usize) -> Vec<Vec<u8>> {
        let state = self.state();
        let sent = state.sent.iter().map(|sent| (sent.node, &sent.request));
        let new = state.new.iter().map(|(node, request)| (*node, request));
        let mut found = Vec::new();
        for (from, request) in sent.chain(new) {
            if let (Request::Commit(_, writes, _), true) = (request, from == node) {
                found.extend(writes.iter().filter_map(|write| match write {
                    Write::Put(key, value, _) if key.starts_with(SHARDS) => {
                        Some(value.clone().into_bytes())
                    }
                    _ => None,
                }));
            }
        }
        found
    }

    /// Forgets changes that watches need which begin later.
    pub fn compact(&self) {
        let mut state = self.state();
        state.compacted = state.revision;
    }

    /// Ends all leases.
    pub fn revoke(&self) {
        let mut state = self.state();
        let now = state.now;
        state.leases.values_mut().for_each(|lease| lease.0 = now);
    }

    /// Ends the watches and the requests of a node, whose process has ended. Those that the store
    /// has not received yet may still arrive.
    pub fn forget(&self, node: usize) {
        self.state().watchers.retain(|watcher| watcher.node != node);
    }

    /// Does what is due until an instant.
    pub fn step(&self, now: u64, paths: &[Path], random: &mut Random) {
        let due = self.state().step(now, paths, random);
        due.into_iter().for_each(|due| (due.send)());
    }
}

impl State {
    fn step(&mut self, now: u64, paths: &[Path], random: &mut Random) -> Vec<Due> {
        self.now = now;
        for (node, request) in std::mem::take(&mut self.new) {
            let at = now + random.below(DELAY_MS);
            self.sent.push(Sent { node, at, request });
        }
        self.end_leases();
        let (arrived, later) = std::mem::take(&mut self.sent)
            .into_iter()
            .partition(|sent| sent.at <= now);
        self.sent = later;
        for Sent { node, request, .. } in arrived as Vec<Sent> {
            let is_cut = now < paths[node].cut_until;
            // A request that the store does not get, or one whose reply is lost.
            let has_arrived = !is_cut && !random.is_one_in(200);
            let is_answered = has_arrived && !random.is_one_in(100);
            let at = now
                + if is_answered {
                    random.below(DELAY_MS)
                } else {
                    REQUEST_MS
                };
            let send = self.perform(node, request, has_arrived, is_answered);
            self.due.push(Due { at, send });
        }
        self.feed_watchers(paths, random);
        let (due, later) = std::mem::take(&mut self.due)
            .into_iter()
            .partition(|due| due.at <= now);
        self.due = later;
        due
    }

    fn perform(
        &mut self,
        node: usize,
        request: Request,
        has_arrived: bool,
        is_answered: bool,
    ) -> Box<dyn FnOnce() + Send> {
        fn answer<T: Send + 'static>(
            to: oneshot::Sender<Result<T, Failure>>,
            result: Option<T>,
            is_answered: bool,
        ) -> Box<dyn FnOnce() + Send> {
            let result = result.filter(|_| is_answered).ok_or_else(gone);
            // The process may have ended.
            Box::new(move || drop(to.send(result)))
        }
        match request {
            Request::Read(to) => {
                let entries = self.values.values().map(|(entry, _)| entry.clone());
                let snapshot = Snapshot {
                    revision: self.revision,
                    entries: entries.collect(),
                };
                answer(to, Some(snapshot), is_answered)
            }
            Request::Watch(from, to) => {
                let (sender, receiver) = mpsc::unbounded_channel();
                let is_kept = from > self.compacted;
                if is_answered && is_kept {
                    let next = self.log.partition_point(|(revision, _)| *revision < from);
                    self.watchers.push(Watcher {
                        node,
                        next,
                        due: Vec::new(),
                        sender,
                    });
                }
                answer(to, is_kept.then_some(Watch(receiver)), is_answered)
            }
            Request::Commit(guards, writes, to) => {
                let applied = has_arrived.then(|| self.commit(&guards, &writes));
                answer(to, applied, is_answered)
            }
            Request::Grant(ttl, to) => {
                let lease = self.leases.len() as i64 + 1;
                self.leases.insert(lease, (self.now + ttl, ttl));
                answer(to, Some(lease), is_answered)
            }
            Request::Renew(lease, to) => {
                let now = self.now;
                let known = self.leases.get_mut(&lease).filter(|lease| lease.0 > now);
                let is_alive = known.map(|lease| lease.0 = now + lease.1).is_some();
                answer(to, Some(is_alive), is_answered)
            }
        }
    }

    fn commit(&mut self, guards: &[Guard], writes: &[Write]) -> Option<i64> {
        let holds = |guard: &Guard| match guard {
            Guard::Revision(key, revision) => {
                let found = self.values.get(key).map_or(0, |(entry, _)| entry.revision);
                found == *revision
            }
            Guard::Lease(key, lease) => self
                .values
                .get(key)
                .is_some_and(|(_, of)| *of == Some(*lease)),
        };
        let alive = |write: &Write| match write {
            Write::Put(_, _, Some(lease)) => self
                .leases
                .get(lease)
                .is_some_and(|lease| lease.0 > self.now),
            _ => true,
        };
        let applies = guards.iter().all(holds) && writes.iter().all(alive);
        applies.then(|| self.write(writes))
    }

    fn write(&mut self, writes: &[Write]) -> i64 {
        self.revision += 1;
        let revision = self.revision;
        for write in writes {
            let event = match write {
                Write::Put(key, value, lease) => {
                    let created = self
                        .values
                        .get(key)
                        .map_or(revision, |(entry, _)| entry.created);
                    let entry = Entry {
                        key: key.clone(),
                        value: value.clone().into_bytes(),
                        created,
                        revision,
                    };
                    self.values.insert(key.clone(), (entry.clone(), *lease));
                    Event::Put(entry)
                }
                Write::Delete(key) => {
                    self.values.remove(key);
                    Event::Delete(key.clone())
                }
            };
            self.log.push((revision, event));
        }
        revision
    }

    fn end_leases(&mut self) {
        let is_over = |lease: &Option<i64>| {
            let lease = lease.and_then(|lease| self.leases.get(&lease));
            lease.is_some_and(|lease| lease.0 <= self.now)
        };
        let ended: Vec<Write> = self
            .values
            .iter()
            .filter(|(_, (_, lease))| is_over(lease))
            .map(|(key, _)| Write::Delete(key.clone()))
            .collect();
        if !ended.is_empty() {
            self.write(&ended);
        }
    }

    fn feed_watchers(&mut self, paths: &[Path], random: &mut Random) {
        let now = self.now;
        self.watchers.retain_mut(|watcher| {
            if now < paths[watcher.node].cut_until {
                // The process may have ended.
                let _ = watcher.sender.send(Err(gone()));
                return false;
            }
            if watcher.next < self.log.len() {
                let events = self.log[watcher.next..].iter();
                let events = events.map(|(_, event)| event.clone()).collect();
                let after = watcher.due.last().map_or(now, |(at, _)| *at);
                let at = after.max(now + random.below(DELAY_MS));
                watcher.due.push((at, events));
                watcher.next = self.log.len();
            }
            if now >= paths[watcher.node].lags_until {
                // What has been delayed comes gradually.
                let next = watcher.due.iter().take(BATCHES_MAX);
                let count = next.filter(|(at, _)| *at <= now).count();
                for (_, events) in watcher.due.drain(..count) {
                    let _ = watcher.sender.send(Ok(events));
                }
            }
            true
        });
    }
}

impl Access {
    async fn request<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, Failure>>) -> Request,
    ) -> Result<T, Failure> {
        let (sender, receiver) = oneshot::channel();
        self.store.state().new.push((self.node, request(sender)));
        receiver.await.unwrap_or_else(|_| Err(gone()))
    }
}

impl Kv for Access {
    type Changes = Watch;

    async fn read(&self) -> Result<Snapshot, Failure> {
        self.request(Request::Read).await
    }

    async fn watch(&self, from: i64) -> Result<Watch, Failure> {
        self.request(|to| Request::Watch(from, to)).await
    }

    async fn commit(&self, guards: Vec<Guard>, writes: Vec<Write>) -> Result<Option<i64>, Failure> {
        self.request(|to| Request::Commit(guards, writes, to)).await
    }

    async fn grant(&self, time: Duration) -> Result<i64, Failure> {
        let ttl = time.as_millis() as u64;
        self.request(|to| Request::Grant(ttl, to)).await
    }

    async fn keep_alive(&self, lease: i64) -> Result<bool, Failure> {
        self.request(|to| Request::Renew(lease, to)).await
    }

    fn endpoint(&self) -> String {
        "simulated".to_owned()
    }
}

impl Changes for Watch {
    async fn next(&mut self) -> Result<Vec<Event>, Failure> {
        self.0.recv().await.unwrap_or_else(|| Err(gone()))
    }
}
