//! A request of memcached's protocol together with the state that its execution needs.

use crate::command::lifetime::DeadlineChange;
use crate::engine::items::Items;
use crate::session::Session;
use crate::stats::Counts;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use store::{Key, NewDeadline};
use wire::memcached::{Expiration, KEY_BYTES_MAX, Request, decode_key};
use wire::{Output, Span};

/// Database that memcached's clients use.
pub const DATABASE: u8 = 0;

/// A request with the state that its execution needs.
pub(crate) struct Turn<'a, E> {
    /// The engine that holds the items.
    pub engine: E,
    pub session: &'a mut Session,
    pub counts: &'a Counts,
    /// The input, from the request's first byte on.
    pub input: &'a [u8],
    pub request: &'a Request,
    pub keys: &'a [Span],
    /// Hashes of the first keys of the request, in their order, as far as they are known.
    pub hashes: &'a [u64],
    /// Time at which a delayed `flush_all` takes effect; see `Server::flush_at_ms`.
    pub flush_at_ms: &'a AtomicU64,
    pub out: &'a mut Output,
}

impl<'a> Turn<'a, ()> {
    /// Returns the same request on an engine.
    #[inline]
    pub fn on<E: Items>(self, engine: E) -> Turn<'a, E> {
        Turn {
            engine,
            session: self.session,
            counts: self.counts,
            input: self.input,
            request: self.request,
            keys: self.keys,
            hashes: self.hashes,
            flush_at_ms: self.flush_at_ms,
            out: self.out,
        }
    }
}

impl<'a, E: Items> Turn<'a, E> {
    /// Returns the bytes of a key as they were sent.
    pub fn sent_key(&self, index: usize) -> &'a [u8] {
        self.keys
            .get(index)
            .map_or(&[], |span| &self.input[span.range()])
    }

    /// Returns a key as it was sent.
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

    /// Returns the change of the deadline that an exptime requests at the current time.
    pub fn deadline_change(&self, exptime: i64) -> DeadlineChange {
        match Expiration::of(exptime, self.engine.now().0) {
            Expiration::Never => DeadlineChange::To(NewDeadline::Clear),
            Expiration::At(at) => DeadlineChange::To(NewDeadline::At(store::Tick(at))),
            Expiration::Past => DeadlineChange::Past,
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
