//! memcached's protocol.
//!
//! On the slab engine items are values of database 0 with a header of a few bytes: the client
//! flags, the cas number, and the marks of the meta commands (`store::ItemHead`). Redis clients see
//! items as strings, and memcached clients see strings as items without flags. A key of another
//! type is missing for `get`, and commands that would change it are refused.
//!
//! On the segment engine items are objects with marks, and there are no other types.
//!
//! `run` executes one request. `text` and `meta` implement the two command sets on the trait
//! `Items`, which both engines implement.

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
use wire::memcached::{KEY_BYTES_MAX, Refusal, Request, Verb};
use wire::{Output, Span};

/// Whether a request accesses all items, so that all shards must be locked.
pub(crate) fn is_whole(verb: Verb) -> bool {
    matches!(verb, Verb::FlushAll)
}

/// Whether a request may change an item and thus set a deadline.
pub(crate) fn may_write(verb: Verb) -> bool {
    !matches!(
        verb,
        Verb::Get | Verb::Gets | Verb::Version | Verb::Verbosity | Verb::Stats | Verb::MetaNoop
    )
}

/// Executes one request whose keys' shards are locked. Writes the reply to `out`, unless the client
/// wants none.
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

/// Writes the error for a request that cannot be executed.
pub(crate) fn refuse(refusal: &Refusal, out: &mut Output) {
    if !refusal.is_noreply {
        wire::memcached::text::line(out, refusal.line);
    }
}

/// Adds the shards of a request's keys, in ascending order without duplicates.
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
