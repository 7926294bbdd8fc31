//! Prefetching on the segment engine.

use super::{Call, WHOLE_FROM_CALLS};
use crate::command;
use crate::context::KeyMemo;
use crate::engine::segment::Hand;
use segment::Key;
use wire::Span;

/// Brings what a batch's first keys will touch into the processor's caches: the lines of the table, then
/// the objects.
pub(super) fn prepare(hand: &Hand<'_>, calls: &mut [Call], input: &[u8], spans: &[Span]) {
    if calls.len() < WHOLE_FROM_CALLS {
        return;
    }
    for call in calls.iter_mut() {
        let Some(bytes) = first_key_of(call, input, spans) else {
            continue;
        };
        let key = hand.key(bytes);
        call.memo = Some(KeyMemo {
            address: bytes.as_ptr() as usize,
            len: bytes.len(),
            db: 0,
            hash: key.hash(),
        });
        hand.cache.prefetch(&key);
    }
    for call in calls.iter() {
        if let Some(memo) = call.memo {
            // The object is found by its hash alone.
            hand.cache.prefetch_object(&Key::hashed(&[], memo.hash));
        }
    }
}

/// The same for requests in memcached's protocol, all of whose keys are hashed.
pub(super) fn prepare_keys<'k>(
    hand: &Hand<'_>,
    keys: impl Iterator<Item = &'k [u8]>,
    hashed: &mut Vec<u64>,
) {
    for bytes in keys {
        let key = hand.key(bytes);
        hashed.push(key.hash());
        hand.cache.prefetch(&key);
    }
    for &hash in hashed.iter() {
        hand.cache.prefetch_object(&Key::hashed(&[], hash));
    }
}

fn first_key_of<'i>(call: &Call, input: &'i [u8], spans: &'i [Span]) -> Option<&'i [u8]> {
    let spec = command::table()[call.index? as usize];
    call.args(input, spans).get(spec.first_key()?)
}
