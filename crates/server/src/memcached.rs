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

mod answers;
mod meta;
mod stats;
mod text;
mod turn;

use crate::engine::items::Items;
use crate::state::Server;
pub use stats::show as show_stats;
pub use turn::DATABASE;
use turn::meant;
pub(crate) use turn::{Turn, count_up};
use wire::Span;
use wire::memcached::{KEY_BYTES_MAX, Refusal, Request, Verb};

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
pub(crate) fn run<E: Items>(turn: &mut Turn<'_, E>) {
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
