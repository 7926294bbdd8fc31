//! Prefetching on the segment engine.

use super::{Call, WHOLE_FROM_CALLS};
use crate::command;
use crate::context::KeyMemo;
use engine::segment::Handle;
use segment::Key;
use wire::Span;

/// Prefetches the data of a batch's first keys: the lines of the table, then the objects.
pub(super) fn prepare(handle: &Handle<'_>, calls: &mut [Call], input: &[u8], spans: &[Span]) {
    if calls.len() < WHOLE_FROM_CALLS {
        return;
    }
    for call in calls.iter_mut() {
        let Some(bytes) = first_key_of(call, input, spans) else {
            continue;
        };
        let key = handle.key(bytes);
        call.memo = Some(KeyMemo {
            address: bytes.as_ptr() as usize,
            len: bytes.len(),
            db: 0,
            hash: key.hash(),
        });
        handle.cache.prefetch(&key);
    }
    for call in calls.iter() {
        if let Some(memo) = call.memo {
            // The hash is enough to find the object.
            handle.cache.prefetch_object(&Key::hashed(&[], memo.hash));
        }
    }
}

/// Hashes and prefetches the keys of requests in memcached's protocol.
pub(super) fn prepare_keys<'k>(
    handle: &Handle<'_>,
    keys: impl Iterator<Item = &'k [u8]>,
    hashed: &mut Vec<u64>,
) {
    for bytes in keys {
        let key = handle.key(bytes);
        hashed.push(key.hash());
        handle.cache.prefetch(&key);
    }
    for &hash in hashed.iter() {
        handle.cache.prefetch_object(&Key::hashed(&[], hash));
    }
}

fn first_key_of<'i>(call: &Call, input: &'i [u8], spans: &'i [Span]) -> Option<&'i [u8]> {
    let spec = command::table()[call.index? as usize];
    call.args(input, spans).get(spec.first_key()?)
}
