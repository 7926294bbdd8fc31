//! One request with what it needs.

use crate::command::lifetime::Fate;
use crate::engine::items::Items;
use crate::session::Session;
use crate::stats::Counts;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use store::{Key, NewDeadline};
use wire::Span;
use wire::memcached::{Expiration, KEY_BYTES_MAX, Request, decode_key};

/// The database that memcached's clients see.
pub const DATABASE: u8 = 0;

/// One request with what it needs.
pub(crate) struct Turn<'a, E> {
    /// What holds the items.
    pub engine: E,
    pub session: &'a mut Session,
    pub counts: &'a Counts,
    /// From the request's first byte on.
    pub input: &'a [u8],
    pub request: &'a Request,
    pub keys: &'a [Span],
    /// The hashes of the first of `keys` as they were sent, where they are known.
    pub hashes: &'a [u64],
    /// When a `flush_all` with a delay takes effect; see `Server::flush_at_ms`.
    pub flush_at_ms: &'a AtomicU64,
    pub out: &'a mut Vec<u8>,
}

impl<'a> Turn<'a, ()> {
    /// The same on an engine.
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
    /// The key's bytes as they were sent, by its place in the request.
    pub fn sent_key(&self, index: usize) -> &'a [u8] {
        self.keys
            .get(index)
            .map_or(&[], |span| &self.input[span.range()])
    }

    /// The key that was sent at a place.
    #[inline]
    pub fn key(&self, index: usize) -> Key<'a> {
        let hash_of = |bytes: &[u8]| self.engine.key(DATABASE, bytes).hash;
        named(self.sent_key(index), self.hashes.get(index), hash_of)
    }

    /// The key that the request means: as it was sent, or decoded.
    pub fn meant<'k>(&self, room: &'k mut [u8; KEY_BYTES_MAX]) -> Key<'k>
    where
        'a: 'k,
    {
        let hash_of = |bytes: &[u8]| self.engine.key(DATABASE, bytes).hash;
        let (sent, hash) = (self.sent_key(0), self.hashes.first());
        meant(self.request, sent, hash, room, hash_of)
    }

    /// What an exptime means now.
    pub fn fate(&self, exptime: i64) -> Fate {
        match Expiration::of(exptime, self.engine.now().0) {
            Expiration::Never => Fate::Lives(NewDeadline::Clear),
            Expiration::At(at) => Fate::Lives(NewDeadline::At(store::Tick(at))),
            Expiration::Past => Fate::IsDead,
        }
    }

    pub fn add(&self, counter: impl Fn(&Counts) -> &AtomicU64) {
        count_up(counter(self.counts));
    }
}

/// Counts one more; the worker whose counter it is, and nobody else, writes it.
#[inline]
pub(crate) fn count_up(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

/// A key of these bytes, hashed unless it has been.
#[inline]
fn named<'k>(bytes: &'k [u8], hash: Option<&u64>, hash_of: impl Fn(&[u8]) -> u64) -> Key<'k> {
    Key {
        bytes,
        hash: hash.copied().unwrap_or_else(|| hash_of(bytes)),
        db: DATABASE,
    }
}

/// The key that a request means by these bytes, whose hash may be known.
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
