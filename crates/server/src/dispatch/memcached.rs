//! The same walk for requests in memcached's protocol, which have no table: what each needs stands in
//! its verb.

use super::{BATCH_CALLS_MAX, Executor, Outcome, WHOLE_FROM_CALLS, segments, spare};
use crate::locks::{Locks, lock};
use crate::memcached::{self, Slab, count_up};
use crate::notify;
use crate::session::Session;
use segment::Condition;
use store::{Class, Key};
use wire::Span;
use wire::memcached::{Request, Verb};

/// Keys of one batch that are hashed and asked for beforehand: some requests name a thousand.
const KEYS_NEAR_MAX: usize = 2 * BATCH_CALLS_MAX;

impl Executor<'_> {
    /// Before a batch in memcached's protocol: as `prepare`. The keys are those of all its requests, in the
    /// order of their spans; the first of many are brought near.
    pub fn prepare_keys<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]> + Clone) {
        let (server, now) = (self.server, self.now);
        self.hashed.clear();
        if keys.clone().take(WHOLE_FROM_CALLS).count() < WHOLE_FROM_CALLS {
            return;
        }
        let keys = keys.take(KEYS_NEAR_MAX);
        if let Some(hand) = &self.hand {
            return segments::prepare_keys(hand, keys, &mut self.hashed);
        }
        if server.threads == 1 {
            let whole = || server.keyspace.lock_all(now);
            self.whole.get_or_insert_with(whole);
        }
        for bytes in keys.clone() {
            let key = server.keyspace.key(memcached::DATABASE, bytes);
            self.hashed.push(key.hash);
            match &self.whole {
                Some(view) => view.prefetch_bucket(&key),
                None => server.keyspace.prefetch_bucket(&key),
            }
        }
        for (bytes, &hash) in keys.zip(&self.hashed) {
            let db = memcached::DATABASE;
            let key = Key { bytes, hash, db };
            match &self.whole {
                Some(view) => view.prefetch_entry(&key),
                None => server.keyspace.prefetch_entry(&key),
            }
        }
    }

    /// Carries out one request in memcached's protocol; `input` begins where it does.
    pub fn run_memcached(
        &mut self,
        session: &mut Session,
        request: &Request,
        keys: &[Span],
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Outcome {
        let server = self.server;
        let may_write = memcached::may_write(request.verb);
        if server.pause.holds_kind(may_write, self.moment) {
            return Outcome::Held;
        }
        let counts = &server.stats.workers[self.worker].memcached;
        count_up(&counts.requests);
        let hashes = self.hashed.get(request.first_key as usize..);
        let hashes = hashes.unwrap_or_default();
        if request.verb == Verb::Stats {
            // It takes the keyspace's locks itself.
            self.finish();
            let what = keys.first().map_or(&[][..], |span| &input[span.range()]);
            memcached::show_stats(server, what, out);
            return Outcome::Done;
        }
        self.has_written |= may_write;
        let turn = memcached::Turn {
            engine: (),
            session,
            counts,
            input,
            request,
            keys,
            hashes,
            flush_at_ms: &server.flush_at_ms,
            out,
        };
        if let Some(hand) = self.hand.as_mut() {
            memcached::run(&mut turn.on(hand));
            return Outcome::Done;
        }
        if let Some(view) = self.whole.as_mut() {
            let locks = &Locks::All;
            memcached::run(&mut turn.on(Slab {
                view,
                server,
                locks,
            }));
            return Outcome::Done;
        }
        let mut shards = spare(&mut self.locks);
        if !memcached::is_whole(request.verb) {
            memcached::collect_shards(server, request, keys, hashes, input, &mut shards);
            self.locks = Locks::Some(shards);
        }
        let mut view = lock(&server.keyspace, &self.locks, self.now);
        memcached::run(&mut turn.on(Slab {
            view: &mut view,
            server,
            locks: &self.locks,
        }));
        if server.notifies() {
            view.take_events(&mut self.events);
            notify::publish(server, &mut self.events);
        }
        drop(view);
        if server.threads > 1 && may_write {
            self.wake_owners();
        }
        Outcome::Done
    }

    /// A value that was too large to come in leaves nothing behind that is out of date now.
    pub fn drop_stale(&mut self, key: &[u8]) {
        let server = self.server;
        self.finish();
        if let Some(hand) = &self.hand {
            let _was_there = hand
                .cache
                .delete(&hand.key(key), Condition::Always, hand.now);
            return;
        }
        let name = server.keyspace.key(memcached::DATABASE, key);
        let shard = server.keyspace.shard_of(&name);
        let mut view = server.keyspace.lock_one(shard, self.now);
        if view.delete(&name) {
            view.notify(Class::Generic, "del", &name);
        }
        if server.notifies() {
            view.take_events(&mut self.events);
            notify::publish(server, &mut self.events);
        }
    }
}
