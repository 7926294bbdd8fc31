//! Dispatch of memcached requests. There is no table of these requests: the verb determines which
//! shards a request needs.

use super::route::Router;
use super::shards::{LockedShards, spare, wake_owners};
use super::{BATCH_CALLS_MAX, Engine, Executor, WHOLE_FROM_CALLS, long, publish, segment};
use crate::effects;
use crate::memcached::{self, Progress};
use crate::routing::Refusal;
use crate::saving::work::refuses_writes;
use crate::state::Server;
use engine::Strings;
use engine::refusal::NO_PRIMARY;
use engine::slab::Slab;
use session::clock::{Clock, Moment};
use session::locks::{Locks, lock, lock_now};
use session::session::Session;
use session::stats::Counts;
use settings::Id;
use std::sync::atomic::Ordering::Relaxed;
use store::{Event, Key, Keyspace, Tick, View};
use wire::memcached::{Request, Verb};
use wire::output::{LARGE_BYTES, can_allocate};
use wire::{Output, Span};

/// Maximum number of keys of a batch that are hashed and prefetched. A single request may name a
/// thousand keys.
const KEYS_NEAR_MAX: usize = 2 * BATCH_CALLS_MAX;

/// Error while a file is loaded.
const LOADING: &str = "loading the dataset in memory";

/// Whether the memory for a request's value cannot be allocated.
fn is_too_large(request: &Request) -> bool {
    let len = request.value.len as usize;
    len > LARGE_BYTES && !can_allocate(len.saturating_mul(2))
}

/// Writes the error for a request that the server's state does not permit. Returns whether there
/// was one.
fn is_refused(server: &Server, request: &Request, out: &mut Output) -> bool {
    if server.persistence.loading.is_on() && memcached::refuse_keys(request, LOADING, out) {
        return true;
    }
    let is_stale = server.replication.is_stale() && !server.config.is_on(Id::ReplicaServeStale);
    if is_stale && memcached::refuse_keys(request, NO_PRIMARY, out) {
        return true;
    }
    if is_too_large(request) {
        memcached::refuse_for_memory(request, out);
        return true;
    }
    let error = refuses_writes(server);
    error.is_some_and(|error| memcached::refuse_write(request, error, out))
}

/// Determines the shards of a request's keys.
fn choose_shards(
    keyspace: &Keyspace,
    held: &mut LockedShards<'_>,
    request: &Request,
    keys: &[Span],
    hashes: &[u64],
    input: &[u8],
) {
    let mut shards = spare(&mut held.locks);
    if !memcached::is_whole(request.verb) {
        memcached::collect_shards(keyspace, request, keys, hashes, input, &mut shards);
        held.locks = Locks::Some(shards);
    }
}

/// Locks the chosen shards, or all of them for a write that finds memory full, because room is made
/// in any shard. The write must not release its shards for that after it was found not to be held.
fn lock_with_room<'s>(
    keyspace: &'s Keyspace,
    clock: &Clock,
    held: &mut LockedShards<'_>,
    may_write: bool,
    now: Tick,
) -> View<'s> {
    let mut view = lock_now(keyspace, clock, &held.locks, now);
    if may_write && held.locks != Locks::All && view.lacks_room(memcached::DATABASE).is_some() {
        drop(view);
        held.locks = Locks::All;
        view = lock_now(keyspace, clock, &held.locks, now);
    }
    view
}

/// Whether a request must wait: for a long command on one of its keys, or for the removal of
/// expired elements of a large collection under one of them.
fn must_wait(view: &mut View<'_>, turn: &mut memcached::Turn<'_, ()>) -> bool {
    let (server, request, keys, input) = (turn.server, turn.request, turn.keys, turn.input);
    let needs_all = memcached::is_whole(request.verb);
    if long::needs_names(&server.workers, turn.session, (keys, needs_all), input) {
        return true;
    }
    server.feed.is_on()
        && view.has_timed_collections()
        && long::must_purge_names(
            server,
            view,
            turn.session,
            &memcached::meant_keys(request, keys, input),
        )
}

/// Runs a request on locked shards, unless it must wait, and adds the current values of its keys to
/// the feed if it has changed one.
fn run_on<'v>(
    mut turn: memcached::Turn<'_, ()>,
    view: &mut View<'v>,
    space: &'v Keyspace,
    locks: &Locks,
) -> Progress {
    let (server, request, keys, input) = (turn.server, turn.request, turn.keys, turn.input);
    if must_wait(view, &mut turn) {
        return Progress::Waits;
    }
    let before = view.changes();
    let progress = memcached::run(&mut turn.on(Slab::new(view, space, locks)));
    if server.feed.is_on() {
        // Only a request that has changed a key needs the names.
        let keys = match view.changes() == before {
            true => Vec::new(),
            false => memcached::meant_keys(request, keys, input),
        };
        let key = |name: &Vec<u8>| server.data.keyspace.key(memcached::DATABASE, name).hash;
        let hashed: Vec<u64> = keys.iter().map(key).collect();
        let keys = keys.iter().zip(hashed).map(|(bytes, hash)| Key {
            bytes,
            hash,
            db: memcached::DATABASE,
        });
        effects::add_items(
            &server.data.keyspace,
            &server.feed,
            view,
            memcached::DATABASE,
            before,
            keys,
        );
    }
    progress
}

/// What a request on the slab engine needs of its worker.
struct Place<'w> {
    router: &'w mut Router,
    events: &'w mut Vec<Event>,
    worker: usize,
    now: Tick,
    moment: Moment,
}

impl Place<'_> {
    /// Locks the shards of a request, which is counted already, and runs it. `is_first` says that
    /// it has not waited before.
    fn run<'s>(
        self,
        server: &'s Server,
        held: &mut LockedShards<'s>,
        turn: memcached::Turn<'_, ()>,
        is_first: bool,
    ) -> Progress {
        let space = &server.data.keyspace;
        if let Some(view) = held.whole.as_mut() {
            return run_on(turn, view, space, &Locks::All);
        }
        let (request, keys, input, counts) = (turn.request, turn.keys, turn.input, turn.counts);
        let may_write = memcached::may_write(request.verb);
        choose_shards(space, held, request, keys, turn.hashes, input);
        let mut view = lock_with_room(space, &server.clock, held, may_write, self.now);
        // A stop, FAILOVER or REPLICAOF may have begun before the shards were locked.
        if server.replication.is_replica() && is_refused(server, request, turn.out) {
            return Progress::Done;
        }
        if server.data.pause.holds(may_write, self.moment) {
            counts.requests.fetch_sub(u64::from(is_first), Relaxed);
            return Progress::Held;
        }
        let routed = (request, keys, input);
        let router = self.router;
        if let Some(done) = router.route_items_again(server, turn.session, routed, turn.out) {
            return done;
        }
        let progress = run_on(turn, &mut view, space, &held.locks);
        publish(server, &mut view, self.events);
        drop(view);
        if server.workers.count > 1 && may_write {
            wake_owners(&server.data, &server.workers, self.worker, &held.locks);
        }
        progress
    }
}

impl Executor<'_> {
    /// Prefetches the first keys in a batch of memcached requests. `keys` contains the keys of all
    /// its requests, in the order of their spans.
    pub fn prepare_keys<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]> + Clone) {
        let server = self.server;
        self.hashed.clear();
        if keys.clone().take(WHOLE_FROM_CALLS).count() < WHOLE_FROM_CALLS {
            return;
        }
        let keys = keys.take(KEYS_NEAR_MAX);
        let held = match &mut self.engine {
            Engine::Slab(held) => held,
            Engine::Segment(handle) => {
                return segment::prepare_keys(handle, keys, &mut self.hashed);
            }
        };
        held.lock_whole(&server.data, &server.workers, self.now);
        for bytes in keys.clone() {
            let key = server.data.keyspace.key(memcached::DATABASE, bytes);
            self.hashed.push(key.hash);
            match &held.whole {
                Some(view) => view.prefetch_bucket(&key),
                None => server.data.keyspace.prefetch_bucket(&key),
            }
        }
        for (bytes, &hash) in keys.zip(&self.hashed) {
            let db = memcached::DATABASE;
            let key = Key { bytes, hash, db };
            match &held.whole {
                Some(view) => view.prefetch_entry(&key),
                None => server.data.keyspace.prefetch_entry(&key),
            }
        }
    }

    /// Returns the worker's counters of requests in memcached's protocol.
    pub(crate) fn memcached_counts(&self) -> &Counts {
        &self.server.observability.stats.workers[self.worker].memcached
    }

    /// Returns the time until which a request waits that authenticates the client.
    fn login_time(&self, session: &mut Session, verb: Verb) -> Option<Moment> {
        (verb == Verb::SaslAuth).then(|| self.login_delay(session))?
    }

    /// Runs one memcached request. `input` begins with the request.
    pub fn run_memcached(
        &mut self,
        session: &mut Session,
        request: &Request,
        keys: &[Span],
        input: &[u8],
        out: &mut Output,
    ) -> Progress {
        let (server, may_write) = (self.server, memcached::may_write(request.verb));
        if server.data.pause.holds(may_write, self.moment) {
            return Progress::Held;
        }
        if let Some(until) = self.login_time(session, request.verb) {
            return Progress::Delayed(until);
        }
        let counts = &server.observability.stats.workers[self.worker].memcached;
        // A request that waited was counted before.
        let is_first = session.ticket.is_none();
        counts.requests.fetch_add(u64::from(is_first), Relaxed);
        if memcached::is_administration(request.verb) {
            self.finish();
        }
        let hashes = self.hashed.get(request.first_key as usize..);
        let hashes = hashes.unwrap_or_default();
        self.has_written |= may_write;
        if is_refused(server, request, out) {
            return Progress::Done;
        }
        let routed = (request, keys, input);
        if let Some(done) = self.router.route_items(server, session, routed, out) {
            return done;
        }
        let mut turn = memcached::Turn {
            engine: (),
            server,
            session,
            counts,
            input,
            request,
            keys,
            hashes,
            out,
        };
        if memcached::is_administration(request.verb) {
            return memcached::administer(&mut turn);
        }
        let held = match &mut self.engine {
            Engine::Slab(held) => held,
            Engine::Segment(handle) => {
                return memcached::run(&mut turn.on(handle));
            }
        };
        let place = Place {
            router: &mut self.router,
            events: &mut self.events,
            worker: self.worker,
            now: self.now,
            moment: self.moment,
        };
        place.run(server, held, turn, is_first)
    }

    /// Deletes the item under a key whose new value was too large to be read, because the item is
    /// out of date. If writes are held, or those to the slot of the key, the caller tries again
    /// later.
    #[must_use = "a request that is held is executed again"]
    pub fn drop_stale(&mut self, key: &[u8]) -> Progress {
        let server = self.server;
        if server.data.pause.holds(true, self.moment) {
            return Progress::Held;
        }
        match self.router.route_write(server, key) {
            Ok(()) => {}
            Err(Refusal::Held(..)) => return Progress::Waits,
            // The item is another node's, which the client should have sent the request to.
            Err(_) => return Progress::Done,
        }
        self.finish();
        if let Engine::Segment(handle) = &mut self.engine {
            let mut handle = handle;
            let key = Strings::key(&handle, memcached::DATABASE, key);
            Strings::remove(&mut handle, &key);
            return Progress::Done;
        }
        let space = &server.data.keyspace;
        let key = space.key(memcached::DATABASE, key);
        let locks = Locks::Some(vec![space.shard_of(&key)]);
        let mut view = lock(space, &locks, self.now);
        if server.data.pause.holds(true, self.moment) {
            return Progress::Held;
        }
        Slab::new(&mut view, space, &locks).remove(&key);
        if server.feed.is_on() {
            // A view that was just created has counted no change before.
            effects::add_items(
                &server.data.keyspace,
                &server.feed,
                &mut view,
                key.db,
                0,
                std::iter::once(key),
            );
        }
        publish(server, &mut view, &mut self.events);
        Progress::Done
    }
}
