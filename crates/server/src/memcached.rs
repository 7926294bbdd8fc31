//! memcached's protocol.
//!
//! On the slab engine, items are values of database 0 with a header of a few bytes: the client
//! flags, the CAS number, and the marks of the meta commands (`store::ItemHead`). Redis clients see
//! items as strings, and memcached clients see strings as items without flags. A key of another
//! type is missing for `get`, and commands that would change it are refused.
//!
//! On the segment engine items are objects with marks, and there are no other types.
//!
//! `run` executes one request. `text`, `meta` and `binary` implement the command sets on the trait
//! `Items`, which both engines implement; `admin` and `stats` those that concern the whole server.

mod admin;
mod answers;
mod binary;
mod meta;
mod stats;
mod text;
mod turn;

use engine::items::Items;
use session::stats::Counts;
use store::Keyspace;
use turn::meant;
pub use turn::{DATABASE, Progress};
pub(crate) use turn::{Turn, count_up};
use wire::memcached::binary::Status;
use wire::memcached::text::line;
use wire::memcached::{Complaint, KEY_BYTES_MAX, Refusal, Request, Verb};
use wire::{Output, Span};

/// Reply to `version`. Clients read the leading numbers and choose by them what to send, so they
/// are those of the memcached release whose commands and replies are implemented.
pub(crate) const VERSION: &str = concat!("1.6.18-mayfly", env!("CARGO_PKG_VERSION"));

/// Whether a request accesses all items, so that all shards must be locked.
pub(crate) fn is_whole(verb: Verb) -> bool {
    matches!(verb, Verb::FlushAll)
}

/// Whether a request may change an item and thus set a deadline.
pub(crate) fn may_write(verb: Verb) -> bool {
    !matches!(
        verb,
        Verb::Get
            | Verb::Gets
            | Verb::Version
            | Verb::Verbosity
            | Verb::Stats
            | Verb::Admin
            | Verb::MetaNoop
            | Verb::Noop
            | Verb::Quit
            | Verb::SaslList
            | Verb::SaslAuth
    )
}

/// Whether a request concerns the whole server and itself locks the shards that it needs.
pub(crate) fn is_administration(verb: Verb) -> bool {
    matches!(verb, Verb::Stats | Verb::Admin)
}

/// Executes a request for which [`is_administration`] is true. The caller must not hold the lock of
/// any shard.
pub(crate) fn administer(turn: &mut Turn<'_, ()>) -> Progress {
    match turn.request.verb {
        Verb::Stats => stats::run(turn),
        _ => admin::run(turn),
    }
}

/// Executes one request whose keys' shards are locked. Writes the reply to `out`, unless the client
/// wants none.
pub(crate) fn run<E: Items>(turn: &mut Turn<'_, E>) -> Progress {
    if let Some(header) = turn.request.binary {
        binary::run(turn, header);
        return Progress::Done;
    }
    let position = turn.out.len();
    match turn.request.verb {
        Verb::MetaGet => meta::get(turn),
        Verb::MetaSet => meta::set(turn),
        Verb::MetaDelete => meta::delete(turn),
        Verb::MetaArithmetic => meta::arithmetic(turn),
        Verb::MetaDebug => meta::debug(turn),
        Verb::MetaNoop => line(turn.out, "MN"),
        _ => {
            let progress = text::run(turn);
            if turn.request.is_noreply {
                turn.out.truncate(position);
            }
            return progress;
        }
    }
    turn.add(|counts| &counts.metas);
    Progress::Done
}

/// Writes the error for a request that cannot be executed, and counts it.
pub(crate) fn refuse(refusal: &Refusal, counts: &Counts, out: &mut Output) {
    use Complaint::{Binary, Endless, Http, Line, Magic};
    let is_too_large = matches!(
        refusal.complaint,
        Line(answers::TOO_LARGE) | Binary(_, Status::TooLarge)
    );
    if is_too_large {
        count_up(&counts.too_large);
    }
    match refusal.complaint {
        Http | Magic | Endless => {}
        Line(_) if refusal.is_noreply => {}
        Line(text) => line(out, text),
        Binary(header, status) => wire::memcached::binary::refuse(out, header, status),
    }
}

/// Writes the error for a request of a client that is not authenticated.
pub(crate) fn refuse_unauthenticated(request: Option<&Request>, out: &mut Output) {
    const NO_PASSWORD: &str = "CLIENT_ERROR unauthenticated: the default user has a password or lacks the right, and only the binary protocol can authenticate";
    match request.and_then(|request| request.binary) {
        Some(header) => wire::memcached::binary::refuse(out, header, Status::AuthFailed),
        None => line(out, NO_PASSWORD),
    }
}

/// Writes the error for a request whose value cannot be allocated.
pub(crate) fn refuse_for_memory(request: &Request, out: &mut Output) {
    match request.binary {
        Some(header) => wire::memcached::binary::refuse(out, header, Status::NoMemory),
        None if request.is_noreply => {}
        None => line(out, answers::OUT_OF_MEMORY),
    }
}

/// Refuses a request with an error of Redis's protocol if it writes. Returns whether it was
/// refused.
pub(crate) fn refuse_write(request: &Request, error: &str, out: &mut Output) -> bool {
    let meta = &request.meta;
    let is_read = request.verb == Verb::MetaGet && !meta.has(b'T') && !meta.has(b'N');
    if !may_write(request.verb) || is_read {
        return false;
    }
    match request.binary {
        Some(header) => wire::memcached::binary::refuse(out, header, Status::TemporaryFailure),
        None if request.is_noreply => {}
        None => line(out, &format!("SERVER_ERROR {error}")),
    }
    true
}

/// Refuses a request because the keys are currently not served, with the text of an error, unless
/// it concerns no keys. Returns whether it was refused.
pub(crate) fn refuse_keys(request: &Request, text: &str, out: &mut Output) -> bool {
    if request.key_count == 0 && !is_whole(request.verb) {
        return false;
    }
    match request.binary {
        Some(header) => wire::memcached::binary::refuse(out, header, Status::TemporaryFailure),
        None if request.is_noreply => {}
        None => line(out, &format!("SERVER_ERROR {text}")),
    }
    true
}

/// Returns the request's keys as the client means them.
pub(crate) fn meant_keys(request: &Request, keys: &[Span], input: &[u8]) -> Vec<Vec<u8>> {
    let mut room = [0; KEY_BYTES_MAX];
    let mut name = |span: &Span| {
        let key = meant(request, &input[span.range()], None, &mut room, |_| 0);
        key.bytes.to_vec()
    };
    keys.iter().map(&mut name).collect()
}

/// Adds the shards of a request's keys, in ascending order without duplicates.
pub(crate) fn collect_shards(
    keyspace: &Keyspace,
    request: &Request,
    keys: &[Span],
    hashes: &[u64],
    input: &[u8],
    shards: &mut Vec<usize>,
) {
    let mut room = [0; KEY_BYTES_MAX];
    let hash_of = |bytes: &[u8]| keyspace.key(DATABASE, bytes).hash;
    for (index, span) in keys.iter().enumerate() {
        let (sent, hash) = (&input[span.range()], hashes.get(index));
        let key = meant(request, sent, hash, &mut room, hash_of);
        shards.push(keyspace.shard_of(&key));
    }
    if shards.len() > 1 {
        shards.sort_unstable();
        shards.dedup();
    }
}
