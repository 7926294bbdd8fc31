//! memcached's protocol: requests in, replies out.
//!
//! On the slab engine items are values of database 0 with a few bytes before them: the client's 32 bits, the cas number,
//! and what the meta commands mark (`store::ItemHead`). Redis's clients see them as strings and
//! memcached's clients see strings as items without flags; what holds another type is not there for
//! `get`, and is refused to those who would change it.
//!
//! On the segment engine they are objects with marks, and there are no other types.
//!
//! `run` carries out one request; `text` and `meta` are the two languages, `storing` what both ask of an engine;
//! `slab` and `segment` do it.

mod meta;
mod segment;
mod slab;
mod stats;
mod storing;
mod text;

use crate::session::Session;
use crate::state::Server;
pub(crate) use slab::Slab;
pub use stats::{Counts, show as show_stats};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use store::{Key, NewDeadline};
use storing::{Engine, Fate};
use wire::Span;
use wire::memcached::{Expiration, KEY_BYTES_MAX, Refusal, Request, Verb, decode_key};

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
    pub fn on<E: Engine>(self, engine: E) -> Turn<'a, E> {
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

impl<'a, E: Engine> Turn<'a, E> {
    /// The key's bytes as they were sent, by its place in the request.
    fn sent_key(&self, index: usize) -> &'a [u8] {
        self.keys
            .get(index)
            .map_or(&[], |span| &self.input[span.range()])
    }

    /// The key that was sent at a place.
    #[inline]
    fn key(&self, index: usize) -> Key<'a> {
        let hash_of = |bytes: &[u8]| self.engine.hash(bytes);
        named(self.sent_key(index), self.hashes.get(index), hash_of)
    }

    /// The key that the request means: as it was sent, or decoded.
    fn meant<'k>(&self, room: &'k mut [u8; KEY_BYTES_MAX]) -> Key<'k>
    where
        'a: 'k,
    {
        let hash_of = |bytes: &[u8]| self.engine.hash(bytes);
        let (sent, hash) = (self.sent_key(0), self.hashes.first());
        meant(self.request, sent, hash, room, hash_of)
    }

    /// What an exptime means now.
    fn fate(&self, exptime: i64) -> Fate {
        match Expiration::of(exptime, self.engine.now().0) {
            Expiration::Never => Fate::Lives(NewDeadline::Clear),
            Expiration::At(at) => Fate::Lives(NewDeadline::At(store::Tick(at))),
            Expiration::Past => Fate::IsOver,
        }
    }

    fn add(&self, counter: impl Fn(&Counts) -> &AtomicU64) {
        count_up(counter(self.counts));
    }
}

/// Whether a request works on everything, so that all shards are to be locked.
pub(crate) fn is_whole(verb: Verb) -> bool {
    matches!(verb, Verb::FlushAll)
}

/// Whether a request may change something, and so may set a deadline.
pub(crate) fn may_write(verb: Verb) -> bool {
    !matches!(
        verb,
        Verb::Get | Verb::Gets | Verb::Version | Verb::Verbosity | Verb::Stats | Verb::MetaNoop
    )
}

/// Carries out one request whose keys' shards are locked. What it answers goes to `out`, unless the
/// client wants no answer.
pub(crate) fn run<E: Engine>(turn: &mut Turn<'_, E>) {
    let position = turn.out.len();
    match turn.request.verb {
        Verb::MetaGet => meta::get(turn),
        Verb::MetaSet => meta::set(turn),
        Verb::MetaDelete => meta::delete(turn),
        Verb::MetaArithmetic => meta::arithmetic(turn),
        Verb::MetaDebug => meta::debug(turn),
        Verb::MetaNoop => wire::memcached::text::line(turn.out, "MN"),
        _ => {
            text::run(turn);
            if turn.request.is_noreply {
                turn.out.truncate(position);
            }
        }
    }
}

/// Answers a request that cannot be carried out.
pub(crate) fn refuse(refusal: &Refusal, out: &mut Vec<u8>) {
    if !refusal.is_noreply {
        wire::memcached::text::line(out, refusal.line);
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
fn meant<'k>(
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

/// Adds the shards of a request's keys, ascending and each once.
pub(crate) fn collect_shards(
    server: &Server,
    request: &Request,
    keys: &[Span],
    hashes: &[u64],
    input: &[u8],
    shards: &mut Vec<usize>,
) {
    let mut room = [0; KEY_BYTES_MAX];
    let hash_of = |bytes: &[u8]| server.keyspace.key(DATABASE, bytes).hash;
    for (index, span) in keys.iter().enumerate() {
        let (sent, hash) = (&input[span.range()], hashes.get(index));
        let key = meant(request, sent, hash, &mut room, hash_of);
        shards.push(server.keyspace.shard_of(&key));
    }
    if shards.len() > 1 {
        shards.sort_unstable();
        shards.dedup();
    }
}
