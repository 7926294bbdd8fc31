//! Memory tier: responses by URL, limited in bytes, with the library's eviction policies and expiry
//! index. Responses that it evicts are offered to the disk tier, if there is one.

mod purging;

use crate::budget::{Budget, Charge};
use crate::clock::Clock;
use crate::config::{ClusterConfig, Config, Invalid, STORE_SHARDS};
use crate::disk::{Disk, DiskStats, Job, Left, Position, Queue, Step, Victim};
use crate::object::{Head, Object, Resource};
use crate::purge::{Purges, Target};
use crate::rules::fields::Lines;
use crate::rules::freshness::is_failure;
use crate::rules::key::Key;
use crate::rules::ranges::Range;
use crate::tags::TagIndex;
use library::{Cache, Cause, Op, Stats};
use std::collections::HashSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

/// Maximum number of stubs in memory that [`Store::for_each_stub`] visits.
const STUBS_MAX: usize = 65_536;
/// Divisor of the memory that gives the part outside the store which is always available.
const OUTSIDE_PART: u64 = 8;
/// Divisor of the memory that gives the steps in which the store's capacity changes.
const STEP_PART: u64 = 32;
/// Divisor of the memory that limits the size of all copies of responses that other nodes own.
const COPIES_PART: u64 = 8;

/// Responses by URL.
pub struct Store {
    cache: Cache<Key, Arc<Resource>>,
    /// URLs in memory by tag.
    tags: Arc<TagIndex>,
    purges: Arc<Purges>,
    disk: Option<Disk>,
    clock: Clock,
    /// Size of all copies in bytes. It is briefly negative if a copy leaves before it is counted.
    copy_bytes: Arc<AtomicI64>,
    copy_bytes_max: u64,
    /// Account of content outside the store.
    budget: Arc<Budget>,
    memory_bytes: u64,
    /// Minimum capacity, for which the largest response fits into a shard.
    capacity_min: u64,
    /// See [`crate::Limits::purge_transit`].
    purge_transit: Duration,
    /// Number of chunks per coded object; 0 without a cluster.
    chunks: usize,
}

impl Store {
    /// Creates an empty store.
    ///
    /// # Errors
    /// Returns an error if the policy's name is unknown, or the folder of the disk tier cannot be
    /// used.
    pub fn new(config: &Config) -> Result<Self, Invalid> {
        // With its head and the structures of the store.
        let largest = config.object_bytes_max / 16 * 17 + (64 << 10);
        let capacity = config.memory_bytes - config.memory_bytes / OUTSIDE_PART;
        let cache = Cache::builder(capacity)
            .weigher(|key: &Key, resource: &Arc<Resource>| resource.bytes(key))
            .policy_named(&config.policy)
            .shards(STORE_SHARDS as usize)
            .clock(config.clock.of_store());
        let purges = Arc::<Purges>::default();
        let queue = Arc::<Queue>::default();
        let copy_bytes = Arc::<AtomicI64>::default();
        let cache = {
            let (purges, queue, has_disk) = (purges.clone(), queue.clone(), config.disk.is_some());
            let copy_bytes = copy_bytes.clone();
            cache.listener(move |key: &Key, resource: &Arc<Resource>, cause| {
                subtract(&copy_bytes, resource);
                let left = Left(resource.clone());
                if has_disk
                    && cause == Cause::Evicted
                    && let Some(resource) = resource.without_copies()
                {
                    queue.offer(Job::Write(Victim {
                        key: key.clone(),
                        resource,
                        purge_count: purges.count(),
                        left: Some(left),
                    }));
                }
            })
        };
        // With a manual clock, expiry is also manual.
        let cache = match config.clock {
            Clock::System => cache,
            Clock::Manual(_) => cache.timer(library::Timer::Manual),
        };
        let cache = cache.build().map_err(|error| Invalid(error.to_string()))?;
        let budget = Budget::new(config.memory_bytes);
        let disk = match &config.disk {
            None => None,
            Some(disk) => {
                let (cache, purges) = (cache.clone(), purges.clone());
                let is_superseded = Box::new(move |victim: &Victim| {
                    let mut variants = victim.resource.variants.iter();
                    let is_purged = variants.any(|object| {
                        purges.concern(victim.purge_count, &victim.key, &object.head.tags)
                    });
                    let present = cache.peek(&victim.key);
                    // Responses that are saved at the end are still in memory.
                    is_purged
                        || present.is_some_and(|present| !Arc::ptr_eq(&present, &victim.resource))
                });
                Some(Disk::open(config, disk, &budget, queue, is_superseded)?)
            }
        };
        Ok(Store {
            cache,
            tags: Arc::default(),
            purges,
            disk,
            clock: config.clock.clone(),
            copy_bytes,
            copy_bytes_max: config.memory_bytes / COPIES_PART,
            budget,
            memory_bytes: config.memory_bytes,
            capacity_min: (STORE_SHARDS * largest).min(capacity),
            purge_transit: config.limits.purge_transit,
            chunks: config.cluster.as_ref().map_or(0, ClusterConfig::chunks),
        })
    }

    /// Returns the responses under a URL.
    pub fn get(&self, key: &Key) -> Option<Arc<Resource>> {
        self.cache.get(key)
    }

    /// Calls `see` with the responses under a URL. `see` must return soon; see [`Cache::read`].
    pub fn read<R>(&self, key: &Key, see: impl FnOnce(&Arc<Resource>) -> R) -> Option<R> {
        self.cache.read(key, see)
    }

    /// Returns true if a response under a URL is in memory that an error must not replace or hide.
    pub fn outlasts_failure(&self, key: &Key) -> bool {
        let now_ms = self.clock.now_ms();
        let outlasts = |object: &Object| {
            !is_failure(object.head.status) && object.head.terms.outlasts_failure(now_ms)
        };
        let resource = self.cache.peek(key);
        resource.is_some_and(|resource| resource.variants.iter().any(outlasts))
    }

    /// Returns true if responses under a URL are in memory. The check does not count as an access.
    pub fn is_in_memory(&self, key: &Key) -> bool {
        self.cache.contains_key(key)
    }

    /// Returns the disk tier's responses of a URL. Small ones return to memory; large content is
    /// not read yet.
    pub async fn get_from_disk(&self, key: &Key) -> Option<Arc<Resource>> {
        let disk = self.disk.as_ref()?;
        let purge_count = self.purges.count();
        let mut resource = disk.get(key).await?;
        resource.tagged = self.tags.register(key, resource.tags());
        let resource = Arc::new(resource);
        let is_read = |object: &Object| object.extent.is_none();
        if resource.variants.iter().all(is_read) {
            self.promote(key, &resource, purge_count);
        }
        Some(resource)
    }

    /// Reads the content of responses on disk, which return to memory. Returns `None` if the
    /// content is damaged or memory is too short for it.
    pub async fn load(&self, key: &Key, resource: &Resource) -> Option<Arc<Resource>> {
        let purge_count = self.purges.count();
        let mut variants = vec![];
        for object in &resource.variants {
            let Some(extent) = &object.extent else {
                variants.push(object.clone());
                continue;
            };
            let all = Range {
                start: 0,
                end: object.length,
            };
            let charge = Charge::new(&self.budget);
            let mut pieces = extent.read(all);
            let mut chunks = vec![];
            while let Some(piece) = poll_fn(|context| pieces.poll(context)).await {
                // A piece is in a buffer of the disk tier, which the copy returns.
                let chunk = charge.admit(piece.ok()?).ok()?;
                chunks.push(chunk);
                self.fit();
            }
            variants.push(Object::charged(object.head.clone(), chunks, &charge));
        }
        let resource = Arc::new(Resource {
            variants,
            place: resource.place,
            tagged: self.tags.register(key, resource.tags()),
        });
        self.promote(key, &resource, purge_count);
        Some(resource)
    }

    /// Inserts responses that were read from disk, unless others were inserted meanwhile.
    fn promote(&self, key: &Key, resource: &Arc<Resource>, purge_count: u64) {
        self.cache.compute(key.clone(), |present| {
            match (present, resource.usable_ms(self.clock.now_ms())) {
                (Some(_), _) | (_, 0) => Op::Keep,
                (None, ms) => {
                    resource.enter_store();
                    Op::PutWithTtl(resource.clone(), Duration::from_millis(ms))
                }
            }
        });
        let is_current = resource.place.is_none_or(|place| {
            let disk = self.disk.as_ref();
            disk.is_some_and(|disk| disk.has(key, place))
        });
        let mut variants = resource.variants.iter();
        let is_purged =
            variants.any(|object| self.purges.concern(purge_count, key, &object.head.tags));
        if is_purged || !is_current {
            self.cache.compute(key.clone(), |present| match present {
                Some(present) if Arc::ptr_eq(present, resource) => Op::Remove,
                _ => Op::Keep,
            });
        }
    }

    /// Returns the account of content outside the store.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Adapts the store's capacity to the content outside it, so that both together stay within the
    /// memory of the node.
    pub fn fit(&self) {
        if self.budget.bytes() > self.memory_bytes / OUTSIDE_PART {
            // Responses that have left the cache stay in memory until readers of that moment have
            // ended. This frees them earlier than the cache's timer.
            self.cache.expire();
        }
        let step = (self.memory_bytes / STEP_PART).max(1);
        let outside = self.budget.bytes().next_multiple_of(step);
        let outside = outside.max(self.memory_bytes / OUTSIDE_PART);
        let capacity = self.memory_bytes.saturating_sub(outside);
        let capacity = capacity.max(self.capacity_min);
        if self.cache.capacity() != capacity {
            self.cache.set_capacity(capacity);
        }
    }

    /// Returns the number of purges so far, for [`Store::put`].
    pub fn purge_count(&self) -> u64 {
        self.purges.count()
    }

    /// Returns true if a purge after the first `purge_count` ones concerns a response.
    pub fn is_purged(&self, purge_count: u64, key: &Key, tags: &[u64]) -> bool {
        self.purges.concern(purge_count, key, tags)
    }

    /// Stores a response, unless a purge after the first `purge_count` ones concerns it. Returns
    /// true if it was stored.
    pub fn put(&self, key: &Key, object: &Object, purge_count: u64) -> bool {
        let is_purged = || self.purges.concern(purge_count, key, &object.head.tags);
        if is_purged() {
            return false;
        }
        self.change(key, |resource| Some(resource.with(object.clone())));
        self.remove_from_disk(key);
        // A purge between the check and the change has not seen the object.
        if is_purged() {
            self.cache.remove(key);
            return false;
        }
        true
    }

    /// Stores a chunk or a stub from another node, unless a purge since the beginning of its fetch,
    /// `age` ago, concerns it.
    pub fn put_from_peer(&self, url: &Key, key: &Key, object: &Object, age: Duration) -> bool {
        let is_purged = || {
            let tags = &object.head.tags;
            self.purges.concern_within(age, url, tags)
        };
        if is_purged() {
            return false;
        }
        let is_chunk = url != key;
        let object = &object.clone().counted(&self.budget);
        self.change(key, |resource| {
            match is_chunk {
                true => Some(resource.with_chunk(object.clone())),
                // A newer response may have replaced the object while it was repaired.
                false if resource.has_newer(object) => None,
                false => Some(resource.with(object.clone())),
            }
        });
        self.remove_from_disk(key);
        if is_purged() {
            self.cache.remove(key);
            return false;
        }
        true
    }

    /// Stores a copy of a response that another node owns, unless a purge since the beginning of
    /// its fetch concerns it or copies have used up their share of memory. Returns true if it was
    /// stored.
    pub fn put_copy(&self, key: &Key, copy: &Object, age: Duration) -> bool {
        debug_assert!(copy.is_copy);
        let bytes = self.copy_bytes() + copy.bytes() as u64;
        bytes <= self.copy_bytes_max && self.put_from_peer(key, key, copy, age + self.purge_transit)
    }

    /// Stores a stub that another node has sent on request, unless a purge since the beginning of
    /// its fetch concerns it. Returns true if it was stored.
    pub fn put_stub_of_peer(&self, key: &Key, stub: &Object, age: Duration) -> bool {
        self.put_from_peer(key, key, stub, age + self.purge_transit)
    }

    /// Returns the estimated size of copies in memory, in bytes.
    pub fn copy_bytes(&self) -> u64 {
        u64::try_from(self.copy_bytes.load(Relaxed)).unwrap_or(0)
    }

    /// Removes the copies under a URL, because the owner may have a newer response.
    pub fn remove_copies(&self, key: &Key) {
        self.cache.compute(key.clone(), |present| match present {
            Some(resource) if resource.without_copies().is_none() => Op::Remove,
            _ => Op::Keep,
        });
    }

    /// Replaces a whole response by its stub after its content was stored in chunks, if the
    /// response is still the stored one.
    pub fn put_stub(&self, key: &Key, whole: &Arc<Head>, stub: &Object) {
        self.change(key, |resource| {
            let mut variants = resource.variants.iter();
            let is_stored = variants.any(|object| Arc::ptr_eq(&object.head, whole));
            is_stored.then(|| resource.with(stub.clone()))
        });
    }

    /// Returns the responses under a URL from either tier. Large content is not read yet.
    pub async fn get_anywhere(&self, key: &Key) -> Option<Arc<Resource>> {
        match self.get(key) {
            Some(resource) => Some(resource),
            None => self.get_from_disk(key).await,
        }
    }

    /// Calls `see` with the key and the head of each coded object whose head is on this node, until
    /// it returns false. It visits at most `STUBS_MAX` objects in memory, and then those on disk,
    /// for which it reads the descriptions of small records. `see` may block.
    pub fn for_each_stub(&self, see: &mut dyn FnMut(Key, Arc<Head>) -> bool) {
        // The visit must be short, because entries that leave meanwhile stay in memory.
        let mut stubs = vec![];
        self.cache.for_each(|key, resource| {
            for object in resource.variants.iter().filter(|object| object.is_stub()) {
                if stubs.len() < STUBS_MAX {
                    stubs.push((key.clone(), object.head.clone()));
                }
            }
        });
        let is_wanted = stubs.into_iter().all(|(key, head)| see(key, head));
        if let Some(disk) = self.disk.as_ref().filter(|_| is_wanted) {
            disk.for_each_stub(see);
        }
    }

    /// Verifies records on disk from a position until `bytes_max` bytes have been read.
    pub fn scrub(&self, position: &mut Position, bytes_max: u64) -> Step {
        match &self.disk {
            Some(disk) => disk.scrub(position, bytes_max),
            None => Step {
                is_last: true,
                ..Step::default()
            },
        }
    }

    /// Extends the deadline of a chunk to that of a newer head. Returns false if the chunk is
    /// absent.
    pub async fn renew_chunk(&self, key: &Key, head: &Arc<Head>) -> bool {
        let Some(version) = head.coded.map(|coded| coded.version) else {
            return false;
        };
        let purge_count = self.purges.count();
        let Some(mut resource) = self.get_anywhere(key).await else {
            return false;
        };
        if resource
            .chunk(version)
            .is_some_and(|chunk| chunk.extent.is_some())
        {
            match self.load(key, &resource).await {
                Some(loaded) => resource = loaded,
                None => return false,
            }
        }
        let Some(chunk) = resource.chunk(version) else {
            return false;
        };
        let renewed = Object {
            head: head.clone(),
            ..chunk.clone()
        };
        if self.purges.concern(purge_count, key, &head.tags) {
            return false;
        }
        self.change(key, |resource| Some(resource.with_chunk(renewed.clone())));
        self.remove_from_disk(key);
        // A purge between the check and the change has not seen the chunk.
        if self.purges.concern(purge_count, key, &head.tags) {
            self.cache.remove(key);
            return false;
        }
        true
    }

    /// Removes all responses under a URL.
    pub fn remove(&self, key: &Key) -> bool {
        let was_on_disk = self.remove_from_disk(key);
        self.cache.remove(key) || was_on_disk
    }

    /// Removes the responses under a URL that could answer a request. Responses for other request
    /// fields stay, unless only the disk tier has them.
    pub fn remove_for(&self, key: &Key, request: &impl Lines) {
        let mut is_unchanged = false;
        self.change(key, |resource| {
            let is_other = |object: &&Object| !object.head.selection.matches(request);
            let others: Vec<Object> = resource.variants.iter().filter(is_other).cloned().collect();
            let is_empty = resource.variants.is_empty();
            is_unchanged = !is_empty && others.len() == resource.variants.len();
            (!is_empty && !is_unchanged).then_some(Resource {
                variants: others,
                place: None,
                tagged: None,
            })
        });
        if !is_unchanged {
            self.remove_from_disk(key);
        }
    }

    fn remove_from_disk(&self, key: &Key) -> bool {
        self.disk.as_ref().is_some_and(|disk| disk.remove(key))
    }

    /// Replaces the responses under a URL by the result of `change`; `None` leaves them unchanged.
    fn change(&self, key: &Key, mut change: impl FnMut(&Resource) -> Option<Resource>) {
        let absent = Resource::default();
        self.cache.compute(key.clone(), |present| {
            let present = present.map_or(&absent, |present| &**present);
            let Some(mut changed) = change(present) else {
                return Op::Keep;
            };
            match changed.usable_ms(self.clock.now_ms()) {
                0 => Op::Remove,
                ms => {
                    let bytes = changed.copy_bytes() as i64;
                    self.copy_bytes.fetch_add(bytes, Relaxed);
                    changed.enter_store();
                    changed.tagged = self.tags.register(key, changed.tags());
                    Op::PutWithTtl(Arc::new(changed), Duration::from_millis(ms))
                }
            }
        });
    }

    /// Purges the target. A soft purge ends the freshness of the responses; a hard purge removes
    /// them. Returns the number of URLs concerned. A purge by prefix reads all descriptions on
    /// disk, and one by tag those of its records, so that a thread that serves clients must not
    /// call it.
    pub fn purge(&self, target: &Target, is_soft: bool) -> usize {
        // The purge is recorded before the removal, so that no fetch can store in between.
        self.purges.record(target.clone());
        let targets = self.with_chunks(target);
        let in_memory = targets
            .iter()
            .map(|target| self.purge_memory(target, is_soft));
        let concerned: HashSet<u64> = in_memory.flatten().collect();
        let Some(disk) = &self.disk else {
            return concerned.len();
        };
        // It is recorded again, so that responses evicted during the removal are not written
        // afterwards.
        self.purges.record(target.clone());
        let on_disk = targets
            .iter()
            .map(|target| disk.purge(target, is_soft, &concerned));
        concerned.len() + on_disk.sum::<usize>()
    }

    /// Returns the target and, if it is a URL, the targets for its chunks.
    fn with_chunks(&self, target: &Target) -> Vec<Target> {
        let mut targets = vec![target.clone()];
        if let Target::Url(url) = target {
            let chunks = (0..self.chunks).filter_map(|chunk| url.chunk(chunk));
            targets.extend(chunks.map(Target::Url));
        }
        targets
    }

    /// Creates the removals of purges survive a loss of power.
    pub fn sync_removals(&self) {
        if let Some(disk) = &self.disk {
            disk.sync_removals();
        }
    }

    /// Removes expired responses. Needed with manual clocks only.
    pub fn expire(&self) -> usize {
        self.disk.as_ref().map_or(0, Disk::expire) + self.cache.expire()
    }

    /// Waits until all responses evicted so far are on disk.
    pub fn flush(&self) {
        if let Some(disk) = &self.disk {
            disk.flush(false);
        }
    }

    /// Writes the contents of memory to the disk tier.
    pub fn save(&self) {
        let Some(disk) = &self.disk else {
            return;
        };
        let purge_count = self.purges.count();
        let mut keys = vec![];
        self.cache.for_each(|key, _| keys.push(key.clone()));
        let victims = keys.into_iter().filter_map(|key| {
            let resource = self.cache.peek(&key)?.without_copies()?;
            Some(Victim {
                key,
                resource,
                purge_count,
                left: None,
            })
        });
        disk.save(victims);
    }

    /// Returns the number of pairs of a tag and a URL in memory.
    pub fn tagged(&self) -> u64 {
        self.tags.len() as u64
    }

    /// Returns the counters of the memory tier.
    pub fn stats(&self) -> Stats {
        self.cache.stats()
    }

    /// Returns the counters of the disk tier.
    pub fn disk_stats(&self) -> Option<DiskStats> {
        self.disk.as_ref().map(Disk::stats)
    }
}

/// Subtracts the copies of a resource that has left memory.
fn subtract(copy_bytes: &AtomicI64, resource: &Resource) {
    let bytes = resource.copy_bytes() as i64;
    if bytes > 0 {
        copy_bytes.fetch_sub(bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ManualClock;
    use crate::object::{Extent, Pieces};
    use crate::rules::freshness::Terms;
    use crate::rules::vary::Selection;
    use bytes::Bytes;
    use hyper::StatusCode;
    use hyper::header::HeaderMap;
    use std::io;
    use std::task::{Context, Poll};

    const NOW_MS: u64 = 1_700_000_000_000;

    fn store() -> Store {
        let config = Config {
            clock: Clock::Manual(ManualClock::new(NOW_MS)),
            ..Config::default()
        };
        Store::new(&config).expect("the settings are valid")
    }

    fn head() -> Arc<Head> {
        Arc::new(Head {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            terms: Terms {
                received_ms: NOW_MS,
                initial_age_ms: 0,
                fresh_ms: 60_000,
                revalidate_ms: 0,
                error_ms: 0,
                keep_ms: 0,
                is_always_validated: false,
                must_revalidate: false,
            },
            selection: Selection::default(),
            part: None,
            tags: [].into(),
            coded: None,
        })
    }

    /// Regression: content that slow clients had not taken yet was in memory besides the store.
    #[test]
    fn the_store_gives_way_to_content_outside_it() {
        let store = store();
        let memory = Config::default().memory_bytes;
        let charge = Charge::new(store.budget());
        let full = store.cache.capacity();
        assert_eq!(full, memory - memory / OUTSIDE_PART);
        let chunks: Vec<Bytes> = (0..4)
            .map(|_| charge.count(vec![0; 1 << 20].into()))
            .collect();
        let key = Key::parse("http://a/x").expect("the text is valid");
        let object = Object::charged(head(), chunks, &charge);
        assert!(store.put(&key, &object, 0));
        // It counts in the store.
        assert_eq!(store.budget().bytes(), 0);
        let many = charge_of(&store, memory / 2);
        store.fit();
        assert!(store.cache.capacity() + memory / 2 <= memory);
        store.remove(&key);
        assert_eq!(store.budget().bytes(), (4 << 20) + memory / 2);
        drop((object, many));
        store.fit();
        assert_eq!((store.budget().bytes(), store.cache.capacity()), (0, full));
    }

    /// Content on disk that is read as one piece of zeros.
    #[derive(Debug)]
    struct Zeros;

    struct Read(Option<Bytes>);

    impl Extent for Zeros {
        fn read(&self, range: Range) -> Box<dyn Pieces> {
            Box::new(Read(Some(vec![0; range.len() as usize].into())))
        }
    }

    impl Pieces for Read {
        fn poll(&mut self, _: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
            Poll::Ready(self.0.take().map(Ok))
        }
    }

    /// Regression: content that was read from disk for several ranges was not counted, so that
    /// clients which read nothing took memory without a bound.
    #[tokio::test]
    async fn content_is_read_from_disk_only_as_far_as_memory_permits() {
        let store = store();
        let key = Key::parse("http://a/x").expect("the text is valid");
        let object = Object::on_disk(head(), Arc::new(Zeros), 1 << 20);
        let resource = Resource::default().with(object);
        let loaded = store.load(&key, &resource).await.expect("it has room");
        // It counts in the store, and outside after it has left while a client still reads it.
        assert_eq!(store.budget().bytes(), 0);
        store.remove(&key);
        assert_eq!(store.budget().bytes(), 1 << 20);
        drop(loaded);
        store.cache.expire();
        assert_eq!(store.budget().bytes(), 0);
        let _full = charge_of(&store, Config::default().memory_bytes / 2);
        assert!(store.load(&key, &resource).await.is_none());
    }

    fn charge_of(store: &Store, bytes: u64) -> Bytes {
        let charge = Charge::new(store.budget());
        charge.count(vec![0; usize::try_from(bytes).expect("it fits")].into())
    }

    /// Regression: a node that had received a purge stored a copy from the owner, which had
    /// received the response just before the purge.
    #[test]
    fn a_copy_that_a_purge_has_overtaken_is_not_stored() {
        let store = store();
        let key = Key::parse("http://a/x").expect("the text is valid");
        let other = Key::parse("http://a/y").expect("the text is valid");
        let copy = Object::copy(head(), Bytes::from_static(b"old"));
        assert!(store.put_copy(&key, &copy, Duration::ZERO));
        store.purge(&Target::Url(key.clone()), false);
        assert!(!store.put_copy(&key, &copy, Duration::ZERO));
        assert!(store.put_copy(&other, &copy, Duration::ZERO));
        assert!(store.get(&key).is_none());
    }
}
