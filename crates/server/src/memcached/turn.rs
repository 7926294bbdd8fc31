//! A request of memcached's protocol together with the state that its execution needs.

use crate::state::Server;
use engine::items::{
    CountError, CountRequest, ItemFacts, Items, ReadFields, RemoveOutcome, StoreOutcome,
    StoreRequest, TouchOutcome,
};
use engine::lifetime::DeadlineChange;
use session::clock::Moment;
use session::session::Session;
use session::stats::{Counts, PrefixEvent};
use settings::Id;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use store::{ItemHead, Key, NewDeadline};
use wire::memcached::{Expiration, KEY_BYTES_MAX, Mode, Request, decode_key};
use wire::{Output, Span};

/// Database that memcached's clients use.
pub const DATABASE: u8 = 0;

/// Length in bytes up to which values are returned regardless of `memcached-item-max`.
const READ_BYTES_MIN: usize = 8 << 20;

/// Progress of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The request was answered.
    Done,
    /// CLIENT PAUSE holds the request back. Nothing was written; the caller tries again later.
    Held,
    /// A long command works on one of its keys. Nothing was written; the caller tries again when
    /// [`session::long::Long::take_retry`] says so.
    Waits,
    /// The request authenticates the client and must wait until this time, because of earlier
    /// failures from the same address. Nothing was written; the caller tries again then.
    Delayed(Moment),
    /// A part of the reply was written. The request continues at this position: an index of its
    /// keys, or a position in the keyspace. See [`Request::resumed`].
    Partial(u64),
}

/// A request with the state that its execution needs.
pub(crate) struct Turn<'a, E> {
    /// The engine that holds the items.
    pub engine: E,
    pub server: &'a Server,
    pub session: &'a mut Session,
    pub counts: &'a Counts,
    /// The input, from the request's first byte on.
    pub input: &'a [u8],
    pub request: &'a Request,
    pub keys: &'a [Span],
    /// Hashes of the request's first keys, in order. Later keys may have none yet.
    pub hashes: &'a [u64],
    pub out: &'a mut Output,
}

impl<'a> Turn<'a, ()> {
    /// Returns the same request on an engine.
    #[inline]
    pub fn on<E: Items>(self, engine: E) -> Turn<'a, E> {
        Turn {
            engine,
            server: self.server,
            session: self.session,
            counts: self.counts,
            input: self.input,
            request: self.request,
            keys: self.keys,
            hashes: self.hashes,
            out: self.out,
        }
    }
}

impl<'a, E> Turn<'a, E> {
    /// Returns the bytes of a key as sent.
    pub fn sent_key(&self, index: usize) -> &'a [u8] {
        self.keys
            .get(index)
            .map_or(&[], |span| &self.input[span.range()])
    }
}

impl<'a, E: Items> Turn<'a, E> {
    /// Returns a key as sent.
    #[inline]
    pub fn key(&self, index: usize) -> Key<'a> {
        let hash_of = |bytes: &[u8]| self.engine.key(DATABASE, bytes).hash;
        named(self.sent_key(index), self.hashes.get(index), hash_of)
    }

    /// Returns the request's key as the client means it: the bytes sent, or the bytes decoded from
    /// base64 into `room`.
    pub fn meant<'k>(&self, room: &'k mut [u8; KEY_BYTES_MAX]) -> Key<'k>
    where
        'a: 'k,
    {
        let hash_of = |bytes: &[u8]| self.engine.key(DATABASE, bytes).hash;
        let (sent, hash) = (self.sent_key(0), self.hashes.first());
        meant(self.request, sent, hash, room, hash_of)
    }

    /// Returns the maximum length of a value that this protocol stores, in bytes.
    pub fn item_bytes_max(&self) -> usize {
        self.server.config.number(Id::MemcachedItemMax) as usize
    }

    /// Returns the maximum length of a value that this protocol returns, in bytes. Redis's protocol
    /// may have stored a longer one, which would be copied in one step.
    pub fn read_bytes_max(&self) -> usize {
        self.item_bytes_max().max(READ_BYTES_MIN)
    }

    /// Returns the change of the deadline that an exptime requests at the current time.
    pub fn deadline_change(&self, exptime: i64) -> DeadlineChange {
        match Expiration::of(exptime, self.engine.now().0) {
            Expiration::Never => DeadlineChange::To(NewDeadline::Clear),
            Expiration::At(at) => DeadlineChange::To(NewDeadline::At(store::Tick(at))),
            Expiration::Past => DeadlineChange::Past,
        }
    }

    /// Reads an item as `get` does, or as `gat` with a new deadline, and counts the request.
    /// `write_head` appends the part of the reply before the value. Returns whether the item
    /// exists.
    #[inline]
    pub fn fetch(
        &mut self,
        key: &Key<'_>,
        expiration: Option<DeadlineChange>,
        mut write_head: impl FnMut(&mut Output, &ItemFacts),
    ) -> bool {
        let fields = ReadFields {
            value: true,
            value_bytes_max: self.read_bytes_max(),
            ..ReadFields::default()
        };
        let read = self.engine.read(key, fields, self.out, |out, facts| {
            write_head(out, facts);
            ItemHead {
                is_fetched: true,
                ..facts.head
            }
        });
        let is_there = read == Ok(true);
        self.server
            .observability
            .stats
            .prefixes
            .count(key.bytes, PrefixEvent::Get(is_there));
        match expiration {
            None => self.count_get(is_there),
            Some(expiration) => {
                self.count_touch(is_there);
                if is_there {
                    self.engine.touch(key, expiration);
                }
            }
        }
        is_there
    }

    /// Stores the request's value under its first key.
    pub fn store(&mut self, mode: Mode, cas: Option<u64>) -> StoreOutcome {
        let request = StoreRequest {
            mode,
            client_flags: self.request.client_flags,
            expiration: self.deadline_change(self.request.exptime),
            cas,
            value_bytes_max: self.item_bytes_max(),
            ..StoreRequest::plain(&self.input[self.request.value.range()])
        };
        let key = self.key(0);
        let outcome = self.engine.store(&key, &request);
        self.server
            .observability
            .stats
            .prefixes
            .count(key.bytes, PrefixEvent::Set);
        self.count_store(outcome, cas.is_some());
        outcome
    }

    /// Adds to or subtracts from a number.
    pub fn count(
        &mut self,
        key: &Key<'_>,
        request: &CountRequest,
    ) -> Result<(u64, ItemFacts), CountError> {
        let result = self.engine.count(key, request);
        match (&result, request.is_down) {
            (Ok(_), false) => self.add(|counts| &counts.incr_hits),
            (Ok(_), true) => self.add(|counts| &counts.decr_hits),
            (Err(CountError::NotFound), false) => self.add(|counts| &counts.incr_misses),
            (Err(CountError::NotFound), true) => self.add(|counts| &counts.decr_misses),
            (Err(_), _) => {}
        }
        result
    }

    /// Changes the deadline of the request's key.
    pub fn touch(&mut self) -> TouchOutcome {
        let key = self.key(0);
        let expiration = self.deadline_change(self.request.exptime);
        let outcome = self.engine.touch(&key, expiration);
        let is_there = matches!(outcome, TouchOutcome::Yes(_));
        self.count_touch(is_there);
        if is_there {
            self.engine.mark_fetched(&key);
        }
        outcome
    }

    /// Deletes all items now or at the time that the request's exptime states. Returns false if
    /// that is impossible now, because slots of a cluster are moving to or from this node.
    pub fn flush(&mut self) -> bool {
        if self.server.cluster.moves.is_active() {
            return false;
        }
        self.add(|counts| &counts.flushes);
        match self.deadline_change(self.request.exptime) {
            DeadlineChange::To(NewDeadline::At(at)) => {
                self.server.data.flush_at_ms.store(at.0, Relaxed);
            }
            _ => {
                self.server.data.flush_at_ms.store(0, Relaxed);
                self.engine.flush(DATABASE);
            }
        }
        true
    }

    pub fn count_get(&self, is_there: bool) {
        self.add(|counts| &counts.gets);
        if is_there {
            self.add(|counts| &counts.get_hits);
        }
    }

    pub fn count_touch(&self, is_there: bool) {
        self.add(|counts| &counts.touches);
        if is_there {
            self.add(|counts| &counts.touch_hits);
        }
    }

    /// Counts a storage command. memcached counts refused values of `set` only by their reason.
    pub fn count_store(&self, outcome: StoreOutcome, has_cas: bool) {
        match outcome {
            StoreOutcome::TooLarge => return self.add(|counts| &counts.too_large),
            StoreOutcome::Full => return self.add(|counts| &counts.no_memory),
            StoreOutcome::Yes(..) => self.add(|counts| &counts.stored),
            _ => {}
        }
        self.add(|counts| &counts.sets);
        match outcome {
            StoreOutcome::Yes(..) if has_cas => self.add(|counts| &counts.cas_hits),
            StoreOutcome::Exists => self.add(|counts| &counts.cas_badval),
            StoreOutcome::NotFound => self.add(|counts| &counts.cas_misses),
            _ => {}
        }
    }

    pub fn count_delete(&self, key: &Key<'_>, outcome: RemoveOutcome) {
        self.server
            .observability
            .stats
            .prefixes
            .count(key.bytes, PrefixEvent::Delete);
        match outcome {
            RemoveOutcome::Yes => self.add(|counts| &counts.delete_hits),
            RemoveOutcome::NotFound => self.add(|counts| &counts.delete_misses),
            _ => {}
        }
    }

    pub fn add(&self, counter: impl Fn(&Counts) -> &AtomicU64) {
        count_up(counter(self.counts));
    }
}

/// Increments a counter that only the calling worker writes.
#[inline]
pub(crate) fn count_up(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

/// Returns a key with these bytes. Its hash is `hash` if that is known; otherwise it is computed.
#[inline]
fn named<'k>(bytes: &'k [u8], hash: Option<&u64>, hash_of: impl Fn(&[u8]) -> u64) -> Key<'k> {
    Key {
        bytes,
        hash: hash.copied().unwrap_or_else(|| hash_of(bytes)),
        db: DATABASE,
    }
}

/// Returns the request's key, decoded if the request states so.
#[inline]
pub(super) fn meant<'k>(
    request: &Request,
    sent: &'k [u8],
    hash: Option<&u64>,
    room: &'k mut [u8; KEY_BYTES_MAX],
    hash_of: impl Fn(&[u8]) -> u64,
) -> Key<'k> {
    if request.meta.has(b'b') {
        let decoded = decode_key(sent, room).expect("the parser has tried");
        return named(decoded, None, hash_of);
    }
    named(sent, hash, hash_of)
}
