//! memcached's protocol on the keyspace: requests in, replies out.
//!
//! Items are values of database 0 with a few bytes before them: the client's 32 bits, the cas number,
//! and what the meta commands mark (`store::ItemHead`). Redis's clients see them as strings and
//! memcached's clients see strings as items without flags; what holds another type is not there for
//! `get`, and is refused to those who would change it.
//!
//! `run` carries out one request; `text` and `meta` are the two languages, `storing` what both do.

mod meta;
mod stats;
mod storing;
mod text;

use crate::command::Locks;
use crate::dispatch::has_no_room;
use crate::session::Session;
use crate::state::Server;
pub use stats::{Counts, show as show_stats};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use store::{Key, NewDeadline, View};
use wire::Span;
use wire::memcached::{KEY_BYTES_MAX, Lifetime, Refusal, Request, Verb, decode_key};

/// The database that memcached's clients see.
pub const DATABASE: u8 = 0;

/// One request with what it needs.
pub(crate) struct Turn<'a, 'v> {
    pub view: &'a mut View<'v>,
    pub server: &'v Server,
    pub session: &'a mut Session,
    pub locks: &'a Locks,
    pub counts: &'a Counts,
    /// From the request's first byte on.
    pub input: &'a [u8],
    pub request: &'a Request,
    pub keys: &'a [Span],
    /// The hashes of the first of `keys` as they were sent, where they are known.
    pub hashes: &'a [u64],
    pub out: &'a mut Vec<u8>,
}

impl<'a> Turn<'a, '_> {
    /// The key's bytes as they were sent, by its place in the request.
    fn sent_key(&self, index: usize) -> &'a [u8] {
        self.keys
            .get(index)
            .map_or(&[], |span| &self.input[span.range()])
    }

    /// The key that was sent at a place.
    #[inline]
    fn key(&self, index: usize) -> Key<'a> {
        named(self.server, self.sent_key(index), self.hashes.get(index))
    }

    /// The key that the request means: as it was sent, or decoded.
    fn meant<'k>(&self, room: &'k mut [u8; KEY_BYTES_MAX]) -> Key<'k>
    where
        'a: 'k,
    {
        meant(
            self.server,
            self.request,
            self.sent_key(0),
            self.hashes.first(),
            room,
        )
    }

    /// What an exptime means now.
    fn fate(&self, exptime: i64) -> Fate {
        match Lifetime::of(exptime, self.view.now().0) {
            Lifetime::Endless => Fate::Lives(NewDeadline::Clear),
            Lifetime::Until(at) => Fate::Lives(NewDeadline::At(store::Tick(at))),
            Lifetime::Over => Fate::IsOver,
        }
    }

    /// The seconds that an exptime leaves; `None`: it stays.
    fn seconds(&self, exptime: i64) -> Option<u64> {
        let now = self.view.now().0;
        match Lifetime::of(exptime, now) {
            Lifetime::Endless => None,
            Lifetime::Until(at) => Some((at - now).div_ceil(1000)),
            Lifetime::Over => Some(0),
        }
    }

    fn add(&self, counter: impl Fn(&Counts) -> &AtomicU64) {
        count_up(counter(self.counts));
    }

    /// Whether nothing can be stored for want of memory.
    fn is_full(&mut self) -> bool {
        has_no_room(self.server, self.view, self.locks)
    }
}

/// What becomes of an item's deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Lives(NewDeadline),
    /// It is past already.
    IsOver,
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
pub(crate) fn run(turn: &mut Turn<'_, '_>) {
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
fn named<'k>(server: &Server, bytes: &'k [u8], hash: Option<&u64>) -> Key<'k> {
    match hash {
        Some(&hash) => Key {
            bytes,
            hash,
            db: DATABASE,
        },
        None => server.keyspace.key(DATABASE, bytes),
    }
}

/// The key that a request means by these bytes, whose hash may be known.
#[inline]
fn meant<'k>(
    server: &Server,
    request: &Request,
    sent: &'k [u8],
    hash: Option<&u64>,
    room: &'k mut [u8; KEY_BYTES_MAX],
) -> Key<'k> {
    if request.meta.has(b'b') {
        let decoded = decode_key(sent, room).expect("the parser has tried");
        return named(server, decoded, None);
    }
    named(server, sent, hash)
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
    for (index, span) in keys.iter().enumerate() {
        let (sent, hash) = (&input[span.range()], hashes.get(index));
        let key = meant(server, request, sent, hash, &mut room);
        shards.push(server.keyspace.shard_of(&key));
    }
    if shards.len() > 1 {
        shards.sort_unstable();
        shards.dedup();
    }
}
